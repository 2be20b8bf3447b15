//! From directories to repositories and folders, each with the slug it goes by.

use super::Error;
use super::entry::Skipped;
use super::reader::Repository;
use crate::corpus::{GitOid, Slug};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Levels below a given directory in which repositories are looked for: `host/owner/name`.
const DEPTH: usize = 3;

/// Name of the file beside repositories that tells facts about them.
const FACTS_FILE: &str = "repos.jsonl";

/// What a found directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A git repository, bare or with a work tree.
    Git,
    /// Files without git.
    Folder,
}

/// Where a slug was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamedBy {
    /// The directory is called `owner+name` or `owner+name.git`.
    DirectoryName,
    /// The URL of the remote `origin`.
    Origin,
    /// It lies as `owner/name` below the given directory.
    Nesting,
    /// Nothing names an owner: `local/DIRECTORY`.
    Local,
}

/// One line of `repos.jsonl`: what is known of a repository without asking GitHub. Further keys are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Facts {
    /// Which repository.
    pub repo: Slug,
    /// SPDX identifier of its licence.
    #[serde(default)]
    pub license: Option<String>,
    /// Main programming language.
    #[serde(default)]
    pub language: Option<String>,
    /// Name of the default branch.
    #[serde(default)]
    pub default_branch: Option<String>,
    /// Commit of the default branch when the line was written.
    #[serde(default)]
    pub head: Option<GitOid>,
    /// How many accounts starred it.
    #[serde(default)]
    pub stars: Option<u64>,
}

/// A repository or folder to take in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The directory.
    pub path: PathBuf,
    /// What it is.
    pub kind: SourceKind,
    /// The name it goes by.
    pub slug: Slug,
    /// Where the name was taken from.
    pub named_by: NamedBy,
    /// Its line of the `repos.jsonl` beside it.
    pub facts: Option<Facts>,
}

/// What [`discover`] found, sorted by slug, and what it passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// To take in; no slug twice.
    pub found: Vec<Found>,
    /// Passed over, with why.
    pub skipped: Vec<Skipped>,
}

/// Find the repositories and folders that `paths` name. For each path:
///
/// * a repository (bare, a work tree, a linked work tree) is that repository, and nothing below it is looked at;
/// * a directory with repositories at most three levels down is a folder of repositories: they are found, and its
///   other directories are listed as skipped (hidden ones are never entered);
/// * any other directory is a plain folder.
///
/// A slug is taken from the first that applies: a directory called `owner+name` or `owner+name.git`; the last two
/// parts of the URL of `origin`; the two directory names of a repository two or more levels below the given path;
/// else `local/DIRECTORY`. Of two directories with one slug the first by path is found and the other skipped.
///
/// A `repos.jsonl` in a repository's parent directory adds [`Facts`]. Nothing here stops the rest: what cannot be
/// read is skipped, with why.
pub fn discover(paths: &[PathBuf]) -> Discovery {
    let mut search = Search::default();
    for path in paths {
        search.given(path);
    }
    search.finish()
}

/// Describe one directory as a repository or plain folder, without looking below it.
pub fn discover_one(path: &Path) -> Result<Found, Error> {
    let mut search = Search::default();
    std::fs::read_dir(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let kind = if is_repository(path) { SourceKind::Git } else { SourceKind::Folder };
    Ok(search.describe(path, kind, &[]))
}

#[derive(Default)]
struct Search {
    found: BTreeMap<PathBuf, Found>,
    skipped: Vec<Skipped>,
    facts: HashMap<PathBuf, HashMap<Slug, Facts>>,
}

impl Search {
    fn given(&mut self, path: &Path) {
        if is_repository(path) {
            self.add(path, SourceKind::Git, &[]);
            return;
        }
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return self.fail(path, "Not a directory; name a repository or a folder"),
            Err(error) => return self.fail(path, error),
        }
        let children = match children(path) {
            Ok(children) => children,
            Err(error) => return self.fail(path, error),
        };
        let mut without = Vec::new();
        let mut any = false;
        for child in children {
            if self.below(&child, &mut vec![name_of(&child)], &mut any) {
                continue;
            }
            without.push(child);
        }
        if any {
            for child in without {
                self.pass_by(
                    &child,
                    "Holds no git repository; name the directory itself to take it in as a plain folder",
                );
            }
        } else if name_of(path).ends_with(".git") {
            self.fail(path, "Named like a bare repository, but holds no HEAD, objects and refs");
        } else {
            self.add(path, SourceKind::Folder, &[]);
        }
    }

    /// Look for repositories in `path`, whose names from the given directory down are `names`. True when it is one
    /// or holds one.
    fn below(&mut self, path: &Path, names: &mut Vec<String>, any: &mut bool) -> bool {
        if is_repository(path) {
            self.add(path, SourceKind::Git, names);
            *any = true;
            return true;
        }
        if names.len() == DEPTH {
            return false;
        }
        let children = match children(path) {
            Ok(children) => children,
            Err(error) => {
                self.fail(path, error);
                return true;
            }
        };
        let mut holds = false;
        for child in children {
            names.push(name_of(&child));
            holds |= self.below(&child, names, any);
            names.pop();
        }
        holds
    }

    fn add(&mut self, path: &Path, kind: SourceKind, names: &[String]) {
        // The same directory by two routes (given twice, or through a link) is one.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !self.found.contains_key(&real) {
            let found = self.describe(path, kind, names);
            self.found.insert(real, found);
        }
    }

    fn describe(&mut self, path: &Path, kind: SourceKind, names: &[String]) -> Found {
        // `.` and `..` name no directory by themselves.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (slug, named_by) = name(&real, kind, names);
        let facts = real.parent().and_then(|parent| self.facts_in(parent).get(&slug).cloned());
        Found { path: path.to_owned(), kind, slug, named_by, facts }
    }

    fn facts_in(&mut self, directory: &Path) -> &HashMap<Slug, Facts> {
        if !self.facts.contains_key(directory) {
            let file = directory.join(FACTS_FILE);
            let mut facts = HashMap::new();
            match std::fs::read_to_string(&file) {
                Ok(text) => {
                    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                        match serde_json::from_str::<Facts>(line) {
                            Ok(fact) => {
                                facts.insert(fact.repo.clone(), fact);
                            }
                            Err(error) => self.fail(&file, format!("Line {}: {error}", index + 1)),
                        }
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => self.fail(&file, error),
            }
            self.facts.insert(directory.to_owned(), facts);
        }
        &self.facts[directory]
    }

    fn fail(&mut self, path: &Path, why: impl std::fmt::Display) {
        self.skipped.push(Skipped::failed(path.display().to_string(), why));
    }

    fn pass_by(&mut self, path: &Path, why: impl Into<String>) {
        self.skipped.push(Skipped::by_rule(path.display().to_string(), why));
    }

    fn finish(mut self) -> Discovery {
        let mut by_slug: BTreeMap<Slug, Found> = BTreeMap::new();
        for found in std::mem::take(&mut self.found).into_values() {
            if let Some(first) = by_slug.get(&found.slug) {
                let why = format!("Goes by {}, which {} already does", found.slug, first.path.display());
                self.pass_by(&found.path, why);
            } else {
                by_slug.insert(found.slug.clone(), found);
            }
        }
        self.skipped.sort();
        Discovery { found: by_slug.into_values().collect(), skipped: self.skipped }
    }
}

/// True for a work tree with `.git`, or a directory with the three parts of a bare repository.
fn is_repository(path: &Path) -> bool {
    path.join(".git").exists()
        || (path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir())
}

/// The visible directories in `path`, links to directories included, by name.
fn children(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") && entry.path().is_dir() {
            children.push(entry.path());
        }
    }
    children.sort();
    Ok(children)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The slug of the directory `real`, after the order that [`discover`] documents.
fn name(real: &Path, kind: SourceKind, names: &[String]) -> (Slug, NamedBy) {
    let own = name_of(real);
    // The `.git` directory of a work tree goes by its parent's name.
    let own = if own == ".git" { real.parent().map(name_of).unwrap_or_default() } else { own };
    let own = own.strip_suffix(".git").unwrap_or(&own);
    if let Some((owner, name)) = own.split_once('+')
        && let Some(slug) = account_and_name(owner, name)
    {
        return (slug, NamedBy::DirectoryName);
    }
    if kind == SourceKind::Git
        && let Ok(repository) = Repository::open(real)
        && let Some(slug) = repository.reader().origin().as_deref().and_then(slug_of_url)
    {
        return (slug, NamedBy::Origin);
    }
    if let [.., owner, _] = names
        && let Some(slug) = account_and_name(owner, own)
    {
        return (slug, NamedBy::Nesting);
    }
    let spelled: String = own.chars().map(|c| if c.is_whitespace() || c.is_control() { '-' } else { c }).collect();
    let slug = Slug::new("local", &spelled).or_else(|_| Slug::new("local", "root"));
    #[expect(clippy::expect_used, reason = "`local/root` is a slug")]
    (slug.expect("a valid slug"), NamedBy::Local)
}

/// `owner/name` when both hold only what GitHub allows.
fn account_and_name(owner: &str, name: &str) -> Option<Slug> {
    let plain = |text: &str, also: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || also.contains(&b));
    (plain(owner, b"-_") && plain(name, b"-_.")).then(|| Slug::new(owner, name).ok()).flatten()
}

/// The slug in the URL of a remote: its last two parts (`https://host/owner/name.git`, `git@host:owner/name`,
/// `ssh://git@host:22/owner/name`), or the last one when it is `owner+name`. A remote that is a directory on this
/// machine names no owner, unless by `owner+name`.
pub fn slug_of_url(url: &str) -> Option<Slug> {
    let path = url.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    let (rest, last) = match path.rfind(['/', ':']) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    };
    if let Some((owner, name)) = last.split_once('+') {
        return account_and_name(owner, name);
    }
    let remote = match url.split_once("://") {
        Some((scheme, _)) => scheme != "file",
        // `host:path`, but neither an absolute path nor a drive letter.
        None => url.find(':').is_some_and(|colon| colon > 1 && !url[..colon].contains('/')),
    };
    let owner = rest.rsplit(['/', ':']).next()?;
    // `https://host/name` has no owner: what stands before the name is the host.
    let is_host = rest.ends_with(&format!("://{owner}"));
    (remote && !is_host).then(|| account_and_name(owner, last)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_of_every_spelling_name_their_owner() {
        let cases = [
            ("https://github.com/acme/tool.git", Some("acme/tool")),
            ("https://github.com/acme/tool/", Some("acme/tool")),
            ("https://user:secret@github.com/acme/tool", Some("acme/tool")),
            ("git@github.com:acme/tool.git", Some("acme/tool")),
            ("ssh://git@host:2222/acme/tool", Some("acme/tool")),
            ("git://host/group/sub/tool.git", Some("sub/tool")),
            ("file:///srv/git/acme+tool.git", Some("acme/tool")),
            ("/srv/git/acme+tool.git", Some("acme/tool")),
            ("/srv/git/tool.git", None),
            ("../tool", None),
            ("C:/git/tool", None),
            ("file:///srv/git/tool.git", None),
            ("https://host/tool", None),
            ("", None),
        ];
        for (url, slug) in cases {
            assert_eq!(slug_of_url(url).map(|slug| slug.to_string()).as_deref(), slug, "{url}");
        }
    }

    #[test]
    fn only_account_names_split_a_directory_name() {
        assert!(account_and_name("c", "+").is_none());
        assert!(account_and_name("", "x").is_none());
        assert_eq!(account_and_name("a-b", "c.d").map(|s| s.to_string()).as_deref(), Some("a-b/c.d"));
    }
}
