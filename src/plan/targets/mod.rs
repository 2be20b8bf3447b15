//! Targets as data: what to ask code search, and which paths really are artifacts.
//!
//! One file a platform lies under `queries/search/`; its stem is the platform's name. A path has exactly one owner: the
//! matching platform with the lowest `precedence`, and within it the first matching target.

use crate::corpus::Platform;
use crate::taxonomy::Function;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Spanned;

const PLATFORM_FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/platform_files.rs"));
const VENDORED: &str = include_str!("../../../queries/vendored.toml");

/// Longest search expression that code search takes, in characters (qualifiers included, to stay on the safe side).
const MAX_QUERY: usize = 256;
/// Room left in a query for the size range, the fork family and one further axis.
const RESERVED: usize = 72;

/// A platform file that cannot be used: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {why}")]
pub struct TargetError {
    /// File name as given to the loader.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// The key that is wrong, or `file` when it does not parse at all.
    pub key: String,
    /// What is wrong and what is expected.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformFile {
    title: Spanned<String>,
    precedence: Spanned<u32>,
    default: bool,
    target: Vec<TargetEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetEntry {
    name: Spanned<String>,
    search: Spanned<String>,
    fallback: Option<Spanned<String>>,
    function: Spanned<Function>,
    paths: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    corroborated_by: Vec<Spanned<String>>,
    #[serde(default)]
    also_read_by: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VendoredFile {
    directories: Vec<String>,
}

/// One search expression of a platform with the path patterns that confirm its hits.
#[derive(Debug, Clone)]
pub struct Target {
    /// `platform/name`, unique over all files.
    pub id: String,
    /// The owning platform.
    pub platform: Platform,
    /// The search expression, without size, fork or further axes.
    pub search: String,
    /// A term to put in front when the service refuses an expression that has qualifiers only.
    pub fallback: Option<String>,
    /// What its artifacts are for, unless their content says otherwise.
    pub function: Function,
    /// Path patterns, as written.
    pub paths: Vec<String>,
    /// Patterns of which the same repository must hold another match, or the name alone proves nothing.
    pub corroborated_by: Vec<String>,
    /// Other platforms that read the same file.
    pub also_read_by: Vec<Platform>,
}

/// A platform: its file's head.
#[derive(Debug, Clone)]
pub struct PlatformInfo {
    /// Name: the file's stem.
    pub platform: Platform,
    /// Name for people.
    pub title: String,
    /// Lower wins where several platforms match a path.
    pub precedence: u32,
    /// Whether it is collected unless told otherwise.
    pub default: bool,
}

/// Which platforms to collect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selection {
    /// Those whose file says `default = true`.
    #[default]
    Default,
    /// Every platform.
    All,
    /// These.
    Named(BTreeSet<Platform>),
}

impl Selection {
    /// Read names as given on the command line: none is the default set, `all` is every platform. A name without a file
    /// is an error that names the nearest known one.
    pub fn parse(names: &[String], targets: &Targets) -> Result<Self, UnknownPlatform> {
        if names.is_empty() {
            return Ok(Self::Default);
        }
        if names.iter().any(|name| name == "all") {
            return Ok(Self::All);
        }
        names
            .iter()
            .map(|name| {
                let platform = Platform(name.to_ascii_lowercase());
                if targets.platforms.iter().any(|p| p.platform == platform) {
                    Ok(platform)
                } else {
                    Err(UnknownPlatform {
                        name: name.clone(),
                        known: targets.platforms.iter().map(|p| p.platform.0.clone()).collect::<Vec<_>>().join(", "),
                    })
                }
            })
            .collect::<Result<_, _>>()
            .map(Self::Named)
    }

    fn takes(&self, info: &PlatformInfo) -> bool {
        match self {
            Self::Default => info.default,
            Self::All => true,
            Self::Named(names) => names.contains(&info.platform),
        }
    }
}

/// A platform name without a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown platform {name:?}: expected all or some of {known}")]
pub struct UnknownPlatform {
    /// What was given.
    pub name: String,
    /// The known names, comma separated.
    pub known: String,
}

/// The target that owns a path.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The owning target.
    pub target: &'a Target,
    /// True when the name proves nothing by itself: see [`Targets::corroborated`].
    pub weak: bool,
}

/// Every target of every platform, with one matcher over all path patterns.
#[derive(Debug)]
pub struct Targets {
    platforms: Vec<PlatformInfo>,
    targets: Vec<Target>,
    enabled: Vec<bool>,
    matcher: GlobSet,
    pattern_target: Vec<usize>,
    corroboration: BTreeMap<usize, GlobSet>,
    vendored: GlobSet,
}

impl Targets {
    /// The files compiled in, restricted to the platforms that are on by default.
    pub fn embedded() -> Result<Self, TargetError> {
        Self::from_files(PLATFORM_FILES)
    }

    /// Read platform files given as (file name, text); the stem of the name is the platform. Errors name file, key and
    /// line: a file that does not parse, an unknown key, a pattern that is no glob, two targets with the same query, two
    /// platforms with the same precedence.
    pub fn from_files(files: &[(&str, &str)]) -> Result<Self, TargetError> {
        let mut loaded = Vec::new();
        for (file, text) in files {
            loaded.push(read_file(file, text)?);
        }
        loaded.sort_by_key(|(info, ..)| info.precedence);
        check_unique(&loaded)?;

        let mut patterns = GlobSetBuilder::new();
        let mut pattern_target = Vec::new();
        let mut corroboration = BTreeMap::new();
        let (mut platforms, mut targets) = (Vec::new(), Vec::new());
        for (info, entries, _) in loaded {
            platforms.push(info);
            for (target, globs, corroborating) in entries {
                for glob in globs {
                    patterns.add(glob);
                    pattern_target.push(targets.len());
                }
                if let Some(set) = corroborating {
                    corroboration.insert(targets.len(), set);
                }
                targets.push(target);
            }
        }
        let mut set = Self {
            platforms,
            targets,
            enabled: Vec::new(),
            matcher: patterns.build().map_err(unbuildable)?,
            pattern_target,
            corroboration,
            vendored: vendored()?,
        };
        set.select(&Selection::Default);
        Ok(set)
    }

    /// Restrict what counts as collected to a selection of platforms. Ownership does not change: a path that belongs to
    /// a platform which is off belongs to nobody else.
    pub fn select(&mut self, selection: &Selection) {
        let on: BTreeSet<&Platform> =
            self.platforms.iter().filter(|p| selection.takes(p)).map(|p| &p.platform).collect();
        self.enabled = self.targets.iter().map(|t| on.contains(&t.platform)).collect();
    }

    /// Take also what code search can neither confirm nor reach: weak names without corroboration, and below the root of
    /// a repository what the patterns ask for at its root. For folders at hand only; a crawl would not find the same.
    pub fn lenient(&mut self) -> Result<(), TargetError> {
        let mut patterns = GlobSetBuilder::new();
        self.pattern_target.clear();
        for (index, target) in self.targets.iter_mut().enumerate() {
            target.corroborated_by.clear();
            for path in &mut target.paths {
                if !path.starts_with("**/") {
                    path.insert_str(0, "**/");
                }
                patterns.add(case_blind(path).map_err(unbuildable)?);
                self.pattern_target.push(index);
            }
        }
        self.matcher = patterns.build().map_err(unbuildable)?;
        self.corroboration.clear();
        Ok(())
    }

    /// Every platform, by precedence.
    pub fn platforms(&self) -> &[PlatformInfo] {
        &self.platforms
    }

    /// Every target of every platform, on or off.
    pub fn all(&self) -> &[Target] {
        &self.targets
    }

    /// The targets of the selected platforms.
    pub fn selected(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().zip(&self.enabled).filter(|(_, on)| **on).map(|(target, _)| target)
    }

    /// The owner of `path` (with `/` between parts) among all platforms, on or off; nothing for paths that are no
    /// artifact or lie in a vendored tree.
    pub fn owner(&self, path: &str) -> Option<Owner<'_>> {
        let path = Path::new(path);
        let first = self.matcher.matches(path).into_iter().map(|pattern| self.pattern_target[pattern]).min()?;
        if self.vendored.is_match(path) {
            return None;
        }
        Some(Owner { target: &self.targets[first], weak: self.corroboration.contains_key(&first) })
    }

    /// Whether `directory` is a vendored tree: nothing below it is an artifact, so nobody need look.
    pub fn is_vendored(&self, directory: &str) -> bool {
        self.vendored.is_match(Path::new(directory).join("x"))
    }

    /// The owner of `path` if its platform is selected.
    pub fn collected(&self, path: &str) -> Option<Owner<'_>> {
        let owner = self.owner(path)?;
        let index = self.index_of(owner.target)?;
        self.enabled[index].then_some(owner)
    }

    /// Which of one repository's `paths` are artifacts of the selected platforms: strong names by themselves, weak ones
    /// where another of the paths corroborates them. Every path of the repository that is known should be given, as
    /// corroboration may come from a platform that is off.
    pub fn artifacts<'p>(&self, paths: &[&'p str]) -> Vec<(&'p str, Owner<'_>)> {
        paths
            .iter()
            .filter_map(|path| {
                let owner = self.collected(path)?;
                (!owner.weak || self.corroborated(owner.target, path, paths)).then_some((*path, owner))
            })
            .collect()
    }

    /// Whether another of `paths` matches one of the patterns that `target` demands.
    pub fn corroborated(&self, target: &Target, path: &str, paths: &[&str]) -> bool {
        self.index_of(target)
            .and_then(|index| self.corroboration.get(&index))
            .is_none_or(|set| paths.iter().any(|other| *other != path && set.is_match(Path::new(other))))
    }

    /// Paths at the root of a repository that some target of any platform names literally, each once, sorted: asked for
    /// with every repository query, so that files which search cannot list are found beside those which it can.
    pub fn root_paths(&self) -> Vec<String> {
        let literal = |pattern: &str| {
            let rest = pattern.strip_prefix("**/").unwrap_or(pattern);
            (!rest.contains(['*', '?', '[', '{'])).then(|| rest.to_owned())
        };
        let paths: BTreeSet<String> = self.targets.iter().flat_map(|t| &t.paths).filter_map(|p| literal(p)).collect();
        paths.into_iter().collect()
    }

    fn index_of(&self, target: &Target) -> Option<usize> {
        self.targets.iter().position(|t| std::ptr::eq(t, target) || t.id == target.id)
    }
}

type Entry = (Target, Vec<globset::Glob>, Option<GlobSet>);

/// Where in a file something stands, so that an error can say so.
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    fn error(&self, at: usize, key: &str, why: impl Into<String>) -> TargetError {
        let line = self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        TargetError { file: self.file.to_owned(), line, key: key.to_owned(), why: why.into() }
    }

    fn glob(&self, key: &str, pattern: &Spanned<String>) -> Result<globset::Glob, TargetError> {
        let at = pattern.span().start;
        let text = pattern.get_ref();
        if text.starts_with('/') || text.contains('\\') || text.is_empty() {
            return Err(self.error(at, key, format!("{text:?}: expected a relative glob with `/` between parts")));
        }
        case_blind(text).map_err(|why| self.error(at, key, why.to_string()))
    }
}

fn case_blind(pattern: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(pattern).case_insensitive(true).literal_separator(true).backslash_escape(false).build()
}

fn unbuildable(why: globset::Error) -> TargetError {
    TargetError { file: "queries/search".to_owned(), line: 1, key: "paths".to_owned(), why: why.to_string() }
}

fn vendored() -> Result<GlobSet, TargetError> {
    let place = Place { file: "queries/vendored.toml", text: VENDORED };
    let bad = |why: String| place.error(0, "directories", why);
    let list: VendoredFile = toml::from_str(VENDORED).map_err(|why| bad(why.to_string()))?;
    let mut set = GlobSetBuilder::new();
    for directory in &list.directories {
        set.add(case_blind(&format!("**/{directory}/**")).map_err(|why| bad(why.to_string()))?);
    }
    set.build().map_err(|why| bad(why.to_string()))
}

fn read_file(file: &str, text: &str) -> Result<(PlatformInfo, Vec<Entry>, Vec<TargetError>), TargetError> {
    let place = Place { file, text };
    let parsed: PlatformFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let key = key_at(text, at);
        place.error(at, &key, error.message())
    })?;
    let stem = Path::new(file).file_stem().and_then(|s| s.to_str()).unwrap_or(file);
    let platform = Platform(stem.to_ascii_lowercase());
    let mut entries = Vec::new();
    let mut twice = Vec::new();
    for entry in parsed.target {
        let name = entry.name.get_ref();
        let at = entry.name.span().start;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return Err(place.error(at, "name", format!("{name:?}: expected lower-case words joined by `-`")));
        }
        check_search(&place, &entry)?;
        let globs: Vec<_> = entry.paths.get_ref().iter().map(|p| place.glob("paths", p)).collect::<Result<_, _>>()?;
        if globs.is_empty() {
            return Err(place.error(entry.paths.span().start, "paths", "expected at least one pattern"));
        }
        let mut corroborating = GlobSetBuilder::new();
        for pattern in &entry.corroborated_by {
            corroborating.add(place.glob("corroborated_by", pattern)?);
        }
        let corroborating = (!entry.corroborated_by.is_empty())
            .then(|| corroborating.build().map_err(|why| place.error(at, "corroborated_by", why.to_string())))
            .transpose()?;
        // The place of the query, kept for the check over all files.
        twice.push(place.error(entry.search.span().start, "search", entry.search.get_ref().clone()));
        let words = |list: Vec<Spanned<String>>| list.into_iter().map(Spanned::into_inner).collect::<Vec<_>>();
        let target = Target {
            id: format!("{platform}/{name}"),
            platform: platform.clone(),
            search: entry.search.into_inner(),
            fallback: entry.fallback.map(Spanned::into_inner),
            function: entry.function.into_inner(),
            paths: words(entry.paths.into_inner()),
            corroborated_by: words(entry.corroborated_by),
            also_read_by: words(entry.also_read_by).into_iter().map(Platform).collect(),
        };
        entries.push((target, globs, corroborating));
    }
    let info = PlatformInfo {
        platform,
        title: parsed.title.into_inner(),
        precedence: parsed.precedence.into_inner(),
        default: parsed.default,
    };
    Ok((info, entries, twice))
}

fn check_search(place: &Place<'_>, entry: &TargetEntry) -> Result<(), TargetError> {
    let search = entry.search.get_ref();
    let at = entry.search.span().start;
    if search.trim().is_empty() || search.trim() != search {
        return Err(place.error(at, "search", "expected a search expression without blanks around it"));
    }
    let length = search.chars().count() + entry.fallback.as_ref().map_or(0, |f| f.get_ref().chars().count() + 1);
    if length > MAX_QUERY - RESERVED {
        let most = MAX_QUERY - RESERVED;
        return Err(place.error(
            at,
            "search",
            format!("{length} characters: at most {most} leave room for the window"),
        ));
    }
    for axis in ["size:", "fork:"] {
        if search.contains(axis) {
            return Err(place.error(at, "search", format!("`{axis}` belongs to the planner")));
        }
    }
    Ok(())
}

/// No two targets send the same query, no two platforms share a precedence, no target id stands twice.
fn check_unique(loaded: &[(PlatformInfo, Vec<Entry>, Vec<TargetError>)]) -> Result<(), TargetError> {
    let mut queries: BTreeMap<String, &str> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (_, entries, places) in loaded {
        for ((target, ..), place) in entries.iter().zip(places) {
            if let Some(first) = queries.insert(target.search.to_ascii_lowercase(), &target.id) {
                let why = format!("{first} sends the same query {:?}", target.search);
                return Err(TargetError { why, ..place.clone() });
            }
            if !ids.insert(&target.id) {
                let why = format!("the name {} stands twice", target.id);
                return Err(TargetError { key: "name".to_owned(), why, ..place.clone() });
            }
        }
    }
    for pair in loaded.windows(2) {
        if pair[0].0.precedence == pair[1].0.precedence {
            return Err(TargetError {
                file: format!("{}.toml", pair[1].0.platform),
                line: 1,
                key: "precedence".to_owned(),
                why: format!("{} has {} already", pair[0].0.platform, pair[0].0.precedence),
            });
        }
    }
    Ok(())
}

/// The key of the line that holds byte `at`.
fn key_at(text: &str, at: usize) -> String {
    let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    line.split_once('=').map_or_else(|| "file".to_owned(), |(key, _)| key.trim().to_owned())
}

#[cfg(test)]
mod tests;
