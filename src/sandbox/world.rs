//! What the sandbox serves: repositories with files, bytes and histories, wherever they come from.

use super::tree::Tree;
use crate::corpus::GitOid;
use std::sync::Arc;

/// Why a world cannot give what it lists: the server answers 500 with this text.
#[derive(Debug, Clone, thiserror::Error)]
#[error("Failed to read {what} of {repository}: {why}")]
pub struct WorldError {
    /// `owner/name`.
    pub repository: String,
    /// The path or object asked for.
    pub what: String,
    /// The reader's own words.
    pub why: String,
}

/// The facts of a repository that GitHub shows.
#[derive(Debug, Clone)]
pub(crate) struct RepoFacts {
    /// GitHub's number of the repository; never changes, also over renames.
    pub(crate) id: u64,
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) fork: bool,
    pub(crate) archived: bool,
    pub(crate) stars: u32,
    pub(crate) language: Option<String>,
    /// SPDX id.
    pub(crate) license: Option<String>,
    /// Seconds since 1970.
    pub(crate) created_at: i64,
    /// Seconds since 1970.
    pub(crate) pushed_at: i64,
    pub(crate) default_branch: String,
    /// Nothing when the repository has no commits.
    pub(crate) head: Option<GitOid>,
}

impl RepoFacts {
    /// `owner/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The opaque id of the GraphQL schema. GitHub's are base64 of a packed array; ours keep the `R_` mark and the
    /// number in the clear so that [`repo_of_node`] can read it back.
    pub(crate) fn node_id(&self) -> String {
        format!("R_kgSB{:x}", self.id)
    }
}

/// The repository number in a node id.
pub(crate) fn repo_of_node(node: &str) -> Option<u64> {
    u64::from_str_radix(node.strip_prefix("R_kgSB")?, 16).ok()
}

/// What a tree entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    File,
    Executable,
    Symlink,
    Submodule,
    Folder,
}

impl Mode {
    /// The octal mode as a number, as GraphQL shows it in decimal.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::File => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
            Self::Submodule => 0o160_000,
            Self::Folder => 0o040_000,
        }
    }

    /// The object kind: `blob`, `tree` or `commit`.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::File | Self::Executable | Self::Symlink => "blob",
            Self::Folder => "tree",
            Self::Submodule => "commit",
        }
    }
}

/// A file of a repository's default branch.
#[derive(Debug, Clone)]
pub(crate) struct FileEntry {
    pub(crate) path: String,
    pub(crate) mode: Mode,
    /// Bytes of the blob (of the link's text for a symlink).
    pub(crate) size: u32,
}

/// Somebody in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) email: String,
    /// The account, when the mail address belongs to one.
    pub(crate) login: Option<String>,
}

/// A commit as `history(path:)` and `commits?path=` show it.
#[derive(Debug, Clone)]
pub(crate) struct CommitFacts {
    pub(crate) oid: GitOid,
    pub(crate) message: String,
    pub(crate) author: Person,
    /// When the author wrote it, seconds since 1970.
    pub(crate) authored_at: i64,
    /// When it was recorded, seconds since 1970.
    pub(crate) committed_at: i64,
    pub(crate) parents: u32,
}

impl CommitFacts {
    /// The author and whoever the message names as co-author, as GraphQL's `authors` does.
    pub(crate) fn authors(&self) -> Vec<Person> {
        let mut people = vec![self.author.clone()];
        for line in self.message.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            if !key.trim().eq_ignore_ascii_case("co-authored-by") {
                continue;
            }
            let Some((name, rest)) = value.split_once('<') else { continue };
            let email = rest.split('>').next().unwrap_or_default().trim().to_owned();
            if !people.iter().any(|p| p.email == email) {
                people.push(Person { name: name.trim().to_owned(), email, login: None });
            }
        }
        people
    }
}

/// Repositories that can be searched and read. Repositories and files are addressed by position.
pub(crate) trait World: Send + Sync {
    /// How many repositories there are.
    fn len(&self) -> u32;
    /// The facts of one.
    fn facts(&self, repo: u32) -> RepoFacts;
    /// Whether it is a fork, and its owner: of its facts those that the index keeps.
    fn fork_and_owner(&self, repo: u32) -> (bool, String) {
        let facts = self.facts(repo);
        (facts.fork, facts.owner)
    }
    /// Position of `owner/name`, compared without case.
    fn find(&self, owner: &str, name: &str) -> Option<u32>;
    /// Position of a repository number.
    fn find_id(&self, id: u64) -> Option<u32>;
    /// The files of the default branch, sorted by path.
    fn files(&self, repo: u32) -> Vec<FileEntry>;
    /// Git's id of a file's blob.
    fn blob_id(&self, repo: u32, file: u32) -> Result<GitOid, WorldError>;
    /// The bytes of a file's blob.
    fn bytes(&self, repo: u32, file: u32) -> Result<Vec<u8>, WorldError>;
    /// The bytes of a blob that is not at the tip, by its id; nothing where the repository has no such blob.
    fn older_blob(&self, _repo: u32, _oid: GitOid) -> Result<Option<Vec<u8>>, WorldError> {
        Ok(None)
    }
    /// The trees of the default branch.
    fn tree(&self, repo: u32) -> Result<Arc<Tree>, WorldError>;
    /// The commits that touched `path` (or any), newest first.
    fn history(&self, repo: u32, path: Option<&str>) -> Result<Vec<CommitFacts>, WorldError>;
    /// What is not served although it was asked for, with why.
    fn skipped(&self) -> Vec<String> {
        Vec::new()
    }
    /// The same world `epochs` later, or nothing when it does not change.
    fn later(&self, epochs: u32) -> Option<Arc<dyn World>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_authors_come_from_trailers_once_each() {
        let commit = CommitFacts {
            oid: GitOid([0; 20]),
            message: "Add\n\nCo-authored-by: Claude <noreply@anthropic.com>\nco-authored-by: Me <me@x.org>".into(),
            author: Person { name: "Me".into(), email: "me@x.org".into(), login: Some("me".into()) },
            authored_at: 0,
            committed_at: 0,
            parents: 1,
        };
        let mails: Vec<_> = commit.authors().into_iter().map(|p| p.email).collect();
        assert_eq!(mails, ["me@x.org", "noreply@anthropic.com"]);
    }

    #[test]
    fn node_ids_read_back() {
        assert_eq!(repo_of_node("R_kgSBff"), Some(255));
        assert_eq!(repo_of_node("MDEw"), None);
    }
}
