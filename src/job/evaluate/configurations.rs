//! The configurations that the operators are measured on: agent files, or the largest one of every repository.

use crate::corpus::{Sha256, Slug};
use crate::encoding::decode;
use crate::job::hydrate::shipped_labels;
use crate::plan::{TargetError, Targets};
use crate::repos::{Mode, Repository, SourceKind, discover};
use crate::segment::flatten;
use crate::taxonomy::KnowledgeType;
use crate::train::labels::LabelError;
use crate::triage::{Base, Labels};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Smaller files hold too little to compact, larger ones are data rather than instructions; bytes.
const SIZES: std::ops::RangeInclusive<usize> = 1_500..=200_000;

/// A configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Where it was found: `owner/name:path`, or the path of a file.
    pub name: String,
    /// The path it is read under.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Why there are no configurations.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A file or folder cannot be read.
    #[error("Failed to read {path}: {source}", path = .path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The list of artifacts cannot be read.
    #[error(transparent)]
    Targets(#[from] TargetError),
    /// The shipped labels cannot be read.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// Nothing was found.
    #[error(
        "Failed to find a configuration in {0}: name agent files, folders of them, or git repositories that hold some"
    )]
    None(String),
}

/// How many files of one repository there may be at most.
const EACH: usize = 4;

/// The configurations that `paths` name, sorted by name, `take` of them drawn evenly. A path is a file, a folder of
/// files, a git repository, or a folder of git repositories: of a repository the largest Markdown artifact counts, and
/// where that makes fewer than `take`, the next largest with another text as well.
pub fn configurations(paths: &[PathBuf], take: Option<usize>) -> Result<Vec<Configuration>, ConfigurationError> {
    let targets = Targets::embedded()?;
    let (mut found, mut further) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_file() {
            found.extend(of_file(path)?);
            continue;
        }
        let repositories: Vec<_> = discover(std::slice::from_ref(path))
            .found
            .into_iter()
            .filter(|source| source.kind == SourceKind::Git)
            .collect();
        if repositories.is_empty() {
            let failed = |source| ConfigurationError::Read { path: path.clone(), source };
            for entry in std::fs::read_dir(path).map_err(failed)? {
                let entry = entry.map_err(failed)?.path();
                if entry.is_file() {
                    found.extend(of_file(&entry)?);
                }
            }
        }
        // A repository that cannot be read is one configuration less and stops no other.
        let each = if take.is_some() { EACH } else { 1 };
        let read: Vec<Vec<Configuration>> =
            repositories.par_iter().filter_map(|source| largest(&source.path, &source.slug, &targets, each)).collect();
        for of_one in read {
            let mut of_one = of_one.into_iter();
            found.extend(of_one.next());
            further.extend(of_one.enumerate());
        }
    }
    if let Some(lacking) = take.and_then(|take| take.checked_sub(found.len())) {
        // The second of every repository before the third of any.
        further.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.name.cmp(&b.1.name)));
        found.extend(further.into_iter().map(|(_, configuration)| configuration).take(lacking));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    if found.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(ConfigurationError::None(names.join(", ")));
    }
    let all = found.len();
    let take = take.unwrap_or(all).clamp(1, all);
    let mut chosen: Vec<Option<Configuration>> = found.into_iter().map(Some).collect();
    Ok((0..take).filter_map(|n| chosen[n * all / take].take()).collect())
}

fn of_file(path: &Path) -> Result<Option<Configuration>, ConfigurationError> {
    let bytes = std::fs::read(path).map_err(|source| ConfigurationError::Read { path: path.to_owned(), source })?;
    let name = path.to_string_lossy().into_owned();
    let read_as = path.file_name().map_or_else(|| name.clone(), |name| name.to_string_lossy().into_owned());
    Ok(decode(&bytes).1.map(|text| Configuration { name, path: read_as, text: text.into_owned() }))
}

/// The largest Markdown artifacts at the head of the repository at `path`, `each` at most, no two of one text; nothing
/// when it cannot be read.
fn largest(path: &Path, slug: &Slug, targets: &Targets, each: usize) -> Option<Vec<Configuration>> {
    let repository = Repository::open(path).ok()?;
    let reader = repository.reader();
    let commit = reader.head(None, None).ok()?.commit?;
    let wanted = |path: &str, mode: Mode| {
        matches!(mode, Mode::File | Mode::Executable)
            && is_markdown(path)
            && !targets.is_vendored(path)
            && targets.collected(path).is_some_and(|owner| !owner.weak)
    };
    let walk = reader.walk(commit, &wanted).ok()?;
    let mut entries: Vec<(u64, String, _)> = walk
        .entries
        .iter()
        .filter_map(|entry| Some((reader.header(entry.oid).ok()?.1, entry.display_path().into_owned(), entry.oid)))
        .filter(|(size, ..)| SIZES.contains(&(*size as usize)))
        .collect();
    entries.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut seen = HashSet::new();
    let texts = entries.into_iter().filter(|(_, _, oid)| seen.insert(*oid)).filter_map(|(_, path, oid)| {
        let bytes = reader.read(oid, *SIZES.end() as u64).ok()?;
        let text = decode(&bytes).1?.into_owned();
        Some(Configuration { name: format!("{slug}:{path}"), path, text })
    });
    Some(texts.take(each).collect())
}

fn is_markdown(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    [".md", ".mdc", "rules", "hints"].iter().any(|end| name.ends_with(end))
}

/// The labels of annotators, by the words of the item.
#[derive(Debug, Clone, Default)]
pub struct AnnotatorLabels(HashMap<Sha256, KnowledgeType>);

impl AnnotatorLabels {
    /// Those that ship with the program: hashes of texts, and a type.
    pub fn shipped() -> Result<Self, LabelError> {
        let records = shipped_labels()?;
        Ok(Self(records.iter().filter_map(|r| Some((r.text_sha256?, r.label?))).collect()))
    }

    /// The labels of the items of `base` that have one.
    pub fn of(&self, base: &Base) -> Labels {
        let label = |text: &str| self.0.get(&Sha256::of(flatten(text).as_bytes())).copied();
        base.items().iter().map(|item| label(base.text_of(item))).collect()
    }
}
