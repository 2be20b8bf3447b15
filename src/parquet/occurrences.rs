//! The table `occurrences`: which bytes a path held from when to when, without text.

use super::{Columns, Role, Table};

/// One row of `occurrences`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OccurrenceRecord {
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// Hexadecimal git blob id of the bytes.
    pub blob: String,
    /// Hexadecimal commit at which the bytes were first seen here.
    pub commit: Option<String>,
    /// Bytes.
    pub size: i64,
    /// Whether the path holds these bytes now.
    pub current: bool,
    /// Start of the run that saw them first, Unix milliseconds.
    pub first_seen: i64,
    /// Start of the run that saw them last, Unix milliseconds.
    pub last_seen: i64,
    /// `train`, `validation` or `test`.
    pub split: String,
}

/// Columns of `occurrences`.
#[derive(Debug, Clone, Copy, Default)]
pub struct OccurrenceTable;

impl Table for OccurrenceTable {
    type Record = OccurrenceRecord;

    const NAME: &'static str = "occurrences";

    fn place(record: &OccurrenceRecord) -> (&str, &str) {
        (&record.repo, &record.path)
    }

    fn columns(rows: &[OccurrenceRecord]) -> Columns<'_, OccurrenceRecord> {
        let mut c = Columns::new(rows);
        c.string("repo", Role::Enum, |r| &r.repo);
        c.string("path", Role::Plain, |r| &r.path);
        c.string("platform", Role::Enum, |r| &r.platform);
        c.string("sha256", Role::Id, |r| &r.sha256);
        c.string("blob", Role::Id, |r| &r.blob);
        c.maybe_string("commit", Role::Enum, |r| r.commit.as_deref());
        c.integer("size", |r| r.size);
        c.boolean("current", |r| r.current);
        c.time("first_seen", |r| r.first_seen);
        c.time("last_seen", |r| r.last_seen);
        c.string("split", Role::Enum, |r| &r.split);
        c
    }
}
