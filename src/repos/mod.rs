//! Git repositories and plain folders on this machine: what they hold, at which path, and who touched it when.
//!
//! [`discover`] turns directories into [`Found`] repositories and folders. A [`Repository`] is shared between threads;
//! each thread asks it for a [`Reader`], which walks a commit's tree, reads objects, follows symlinks inside the tree
//! and tells the [`History`] of paths. A [`Folder`] gives the same [`Entry`] shape for files without git.
//!
//! Nothing here decides what an artifact is: callers hand in the test of a path. Nothing is ever written.

mod discover;
mod entry;
mod folder;
mod history;
mod reader;

pub use discover::{Discovery, Facts, Found, NamedBy, SourceKind, discover, discover_one, slug_of_url};
pub use entry::{Entry, Mode, Skipped, Walk};
pub use folder::Folder;
pub use history::{Change, History, PathHistory, Touch};
pub use reader::{Commit, Head, Kind, Person, Reader, Repository, Target};

use crate::corpus::GitOid;
use std::path::PathBuf;

/// Why a repository, a folder or something in it could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory is no repository, or one that cannot be read.
    #[error("Failed to open repository {}: {why}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// What git's rules say is wrong.
        why: String,
    },
    /// The repository uses another hash than SHA-1.
    #[error(
        "Failed to open repository {}: its object format is {format}, and only sha1 can be read; \
         push it to a repository made with `git init --object-format=sha1`",
        path.display()
    )]
    ObjectFormat {
        /// The directory.
        path: PathBuf,
        /// What its configuration names.
        format: String,
    },
    /// A revision names no commit.
    #[error("Failed to find a commit for {rev:?} in {}: {why}", path.display())]
    Revision {
        /// The repository.
        path: PathBuf,
        /// What was asked for.
        rev: String,
        /// Why it names none.
        why: String,
    },
    /// An object is not there: a shallow or partial clone, or a damaged repository.
    #[error(
        "Failed to read object {oid} of {}: it is missing (shallow or partial clone, or damage); \
         fetch the repository in full",
        path.display()
    )]
    Missing {
        /// The repository.
        path: PathBuf,
        /// The object.
        oid: GitOid,
    },
    /// An object is there and cannot be decoded.
    #[error("Failed to read object {oid} of {}: {why}", path.display())]
    Object {
        /// The repository.
        path: PathBuf,
        /// The object.
        oid: GitOid,
        /// What is wrong with it.
        why: String,
    },
    /// More bytes than the caller allows.
    #[error("Failed to read {what}: {size} bytes exceed the limit of {limit}")]
    TooLarge {
        /// A path or an object id.
        what: String,
        /// Size in bytes.
        size: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The file system refuses.
    #[error("Failed to read {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}
