//! Repository facts, directory listings and blobs, many repositories in one GraphQL query.

use super::client::GitHub;
use super::document::{Document, Fragment, quoted};
use super::limit::{Absence, GraphqlError, graphql_errors};
use super::{Error, wire};
use crate::corpus::{GitOid, Slug};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Write as _;

/// What to ask about one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryAsk {
    /// The repository.
    pub repository: Slug,
    /// Contents wanted, by id.
    pub blobs: Vec<GitOid>,
    /// Directories wanted, without slashes around them; the empty path is the root. Paths that are no directory give
    /// no entries.
    pub trees: Vec<String>,
    /// Contents wanted, by path on the default branch.
    pub paths: Vec<String>,
}

/// What the corpus keeps of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepositoryFacts {
    /// The id that survives renaming.
    pub node_id: Option<String>,
    /// The present name, which differs from the one asked for after a renaming.
    pub name: Option<Slug>,
    /// SPDX id of the licence as GitHub detects it; `NOASSERTION` when it found one it does not know.
    pub license: Option<String>,
    /// Primary language.
    pub language: Option<String>,
    /// Stars.
    pub stars: Option<u64>,
    /// Whether it is a fork.
    pub fork: Option<bool>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Whether it is disabled.
    pub disabled: Option<bool>,
    /// Whether it is not public.
    pub private: Option<bool>,
    /// Last push.
    pub pushed: Option<Timestamp>,
    /// The default branch.
    pub branch: Option<String>,
    /// The commit it points at.
    pub head: Option<GitOid>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Path from the root of the repository.
    pub path: String,
    /// Git's mode, such as `0o100644`.
    pub mode: u32,
    /// What it points at.
    pub oid: GitOid,
    /// Bytes, for files.
    pub size: Option<u64>,
}

impl TreeEntry {
    /// A symbolic link: the blob holds the target's path.
    pub const fn is_symlink(&self) -> bool {
        self.mode == 0o120_000
    }

    /// A directory.
    pub const fn is_tree(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    /// A file or a symbolic link; not a directory, not a submodule.
    pub const fn is_blob(&self) -> bool {
        matches!(self.mode & 0o170_000, 0o100_000 | 0o120_000)
    }
}

/// What a blob turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The exact bytes: they hash to the id.
    Whole {
        /// Id.
        oid: GitOid,
        /// Content.
        bytes: Vec<u8>,
    },
    /// GraphQL cuts it off, or shows it in a form whose bytes are not those of the blob; ask [`super::blob()`].
    Elsewhere {
        /// Id.
        oid: GitOid,
        /// Bytes, as GitHub counts.
        size: u64,
        /// GitHub takes it for binary.
        binary: bool,
    },
    /// The repository has no such blob (any more).
    Missing,
}

/// The answer about one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryAnswer {
    /// Its facts.
    pub facts: RepositoryFacts,
    /// Entries of the directories asked for, all in one list.
    pub entries: Vec<TreeEntry>,
    /// In the order of [`RepositoryAsk::blobs`].
    pub blobs: Vec<Content>,
    /// In the order of [`RepositoryAsk::paths`].
    pub paths: Vec<Content>,
}

/// Ask about several repositories in one query. The answers come in the order of `asks`; `None` marks one that this
/// query did not answer (GitHub ran out of resources on the way): ask again with fewer.
///
/// # Errors
/// See [`Error`]; [`Error::TooHeavy`] when the query has to be cut into smaller ones.
pub async fn content(
    github: &GitHub,
    asks: &[RepositoryAsk],
) -> Result<Vec<Option<Result<RepositoryAnswer, Absence>>>, Error> {
    let what = match asks {
        [] => return Ok(Vec::new()),
        [one] => one.repository.to_string(),
        [first, rest @ ..] => format!("{} and {} more repositories", first.repository, rest.len()),
    };
    let value = github.graphql(document(asks), 1, asks.len() > 1, what.clone()).await?;
    Ok(read(asks, &value))
}

pub(super) fn document(asks: &[RepositoryAsk]) -> String {
    let mut document = Document::default();
    for ask in asks {
        let inner = selections(&mut document, ask);
        document.repository(&ask.repository, &inner);
    }
    document.finish("Content")
}

/// What is selected of one repository.
pub(super) fn selections(document: &mut Document, ask: &RepositoryAsk) -> String {
    document.uses(Fragment::RepositoryFacts);
    let mut inner = String::from("    ...RepositoryFacts\n");
    for (index, oid) in ask.blobs.iter().enumerate() {
        document.uses(Fragment::BlobContent);
        let _ = writeln!(inner, "    b{index}: object(oid: \"{oid}\") {{ ...BlobContent }}");
    }
    for (index, path) in ask.trees.iter().enumerate() {
        document.uses(Fragment::TreeListing);
        let expression = quoted(&format!("HEAD:{path}"));
        let _ = writeln!(inner, "    t{index}: object(expression: {expression}) {{ ...TreeListing }}");
    }
    for (index, path) in ask.paths.iter().enumerate() {
        document.uses(Fragment::BlobContent);
        let expression = quoted(&format!("HEAD:{path}"));
        let _ = writeln!(inner, "    p{index}: object(expression: {expression}) {{ ...BlobContent }}");
    }
    inner
}

pub(super) fn read(asks: &[RepositoryAsk], value: &Value) -> Vec<Option<Result<RepositoryAnswer, Absence>>> {
    let data = value.get("data");
    (0..asks.len())
        .map(|index| {
            let alias = format!("r{index}");
            // An error that names no place can only be about the one thing asked for.
            let about = |error: &GraphqlError<'_>| match error.alias {
                Some(at) => at == alias,
                None => asks.len() == 1,
            };
            let errors = || graphql_errors(value).filter(about);
            match data.and_then(|data| data.get(&alias)) {
                Some(node) if !node.is_null() => {
                    // An error below the repository leaves holes that look like files that are not there.
                    let holes = errors().any(|error| error.kind != "NOT_FOUND");
                    (!holes).then(|| Ok(read_repository(&asks[index], node)))
                }
                // Nothing, alone, and not a word about why: there is nothing.
                Some(_) if asks.len() == 1 && graphql_errors(value).next().is_none() => Some(Err(Absence::NotFound)),
                _ => errors().find_map(|error| match error.kind {
                    "NOT_FOUND" => Some(Err(Absence::NotFound)),
                    "FORBIDDEN" => Some(Err(absence_of(error.message))),
                    _ => None,
                }),
            }
        })
        .collect()
}

pub(super) fn absence_of(message: &str) -> Absence {
    let lower = message.to_ascii_lowercase();
    if lower.contains("dmca") {
        Absence::Blocked("dmca".to_owned())
    } else if lower.contains("blocked") || lower.contains("terms of service") {
        Absence::Blocked("tos".to_owned())
    } else {
        Absence::Forbidden(message.to_owned())
    }
}

fn read_repository(ask: &RepositoryAsk, node: &Value) -> RepositoryAnswer {
    let blob = |alias: String, asked: Option<GitOid>| read_blob(node.get(alias), asked);
    RepositoryAnswer {
        facts: facts(node),
        entries: ask
            .trees
            .iter()
            .enumerate()
            .flat_map(|(index, directory)| read_tree(node.get(format!("t{index}")), directory))
            .collect(),
        blobs: ask.blobs.iter().enumerate().map(|(index, oid)| blob(format!("b{index}"), Some(*oid))).collect(),
        paths: (0..ask.paths.len()).map(|index| blob(format!("p{index}"), None)).collect(),
    }
}

pub(super) fn facts(node: &Value) -> RepositoryFacts {
    let Ok(node) = serde_json::from_value::<wire::RepositoryNode>(node.clone()) else {
        return RepositoryFacts::default();
    };
    let (branch, head) = node.default_branch_ref.map_or((None, None), |branch| {
        let head = branch.target.and_then(|target| target.oid).and_then(|oid| oid.parse().ok());
        (branch.name, head)
    });
    RepositoryFacts {
        node_id: node.id,
        name: node.name_with_owner.and_then(|name| name.parse().ok()),
        license: node.license_info.and_then(|license| license.spdx_id),
        language: node.primary_language.map(|language| language.name),
        stars: node.stargazer_count,
        fork: node.is_fork,
        archived: node.is_archived,
        disabled: node.is_disabled,
        private: node.is_private,
        pushed: node.pushed_at.and_then(|at| at.parse().ok()),
        branch,
        head,
    }
}

fn read_tree(node: Option<&Value>, directory: &str) -> Vec<TreeEntry> {
    let tree = node.and_then(|node| serde_json::from_value::<wire::TreeNode>(node.clone()).ok());
    let entries = tree.and_then(|tree| tree.entries).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|entry| {
            let entry: wire::EntryNode = serde_json::from_value(entry).ok()?;
            let path = if directory.is_empty() { entry.name } else { format!("{directory}/{}", entry.name) };
            // Some servers write the octal digits as a decimal number.
            let mode = if entry.mode >= 100_000 || entry.mode == 40_000 { octal(entry.mode) } else { entry.mode };
            Some(TreeEntry { path, mode, oid: entry.oid.parse().ok()?, size: entry.size })
        })
        .collect()
}

fn octal(digits: u32) -> u32 {
    u32::from_str_radix(&digits.to_string(), 8).unwrap_or(digits)
}

fn read_blob(node: Option<&Value>, asked: Option<GitOid>) -> Content {
    let node = node.filter(|node| !node.is_null());
    let Some(blob) = node.and_then(|node| serde_json::from_value::<wire::BlobNode>(node.clone()).ok()) else {
        return Content::Missing;
    };
    let Some(oid) = blob.oid.as_deref().and_then(|oid| oid.parse::<GitOid>().ok()).or(asked) else {
        // A directory or a commit: `BlobContent` selects nothing of it.
        return Content::Missing;
    };
    let cut = blob.is_truncated == Some(true);
    match blob.text {
        Some(text) if !cut && GitOid::of_blob(text.as_bytes()) == oid => {
            Content::Whole { oid, bytes: text.into_bytes() }
        }
        _ => Content::Elsewhere { oid, size: blob.byte_size.unwrap_or_default(), binary: blob.is_binary == Some(true) },
    }
}
