//! What a walk yields.

use super::Error;
use crate::corpus::GitOid;
use std::borrow::Cow;

/// What a tree entry is, after git's modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A file (`100644`).
    File,
    /// An executable file (`100755`).
    Executable,
    /// A symbolic link (`120000`): its bytes are the target.
    Symlink,
    /// A commit of another repository (`160000`).
    Submodule,
    /// A directory (`040000`).
    Tree,
}

impl Mode {
    /// The six octal digits of `git ls-tree`.
    pub const fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Submodule => "160000",
            Self::Tree => "040000",
        }
    }

    /// True for what has bytes of its own: files and symlinks.
    pub const fn is_blob(self) -> bool {
        matches!(self, Self::File | Self::Executable | Self::Symlink)
    }
}

/// A file, link, submodule or directory at a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Path from the root with `/` between parts, exactly as stored: git paths are bytes, not always UTF-8.
    pub path: Vec<u8>,
    /// What it is.
    pub mode: Mode,
    /// Id of the blob, tree, or (for a submodule) the commit of the other repository.
    pub oid: GitOid,
}

impl Entry {
    /// The path for people and for matching: bytes that are not UTF-8 become U+FFFD.
    pub fn display_path(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.path)
    }
}

/// Something passed over, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Skipped {
    /// Path in the repository, or on disk for what [`discover`](super::discover) passes over.
    pub path: String,
    /// The reason, for people.
    pub why: String,
    /// True when something is broken, so that a repair or another try may read it; false when a rule leaves it out.
    pub failed: bool,
}

impl Skipped {
    /// Left out by a rule.
    pub fn by_rule(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into(), failed: false }
    }

    /// Not readable.
    pub fn failed(path: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { path: path.into(), why: why.to_string(), failed: true }
    }

    /// Passed over because of `error`, which is a rule at work only where it is the limit of size.
    pub fn because(path: impl Into<String>, error: &Error) -> Self {
        let failed = !matches!(error, Error::TooLarge { .. });
        Self { path: path.into(), why: error.to_string(), failed }
    }
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// Entries that the caller keeps, by path bytes: the order of `git ls-tree -r`.
    pub entries: Vec<Entry>,
    /// Directories and files that could not be read.
    pub skipped: Vec<Skipped>,
}
