//! The table `artifacts`: one row a path in a repository, with its text.

use super::Table;
use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// One row of `artifacts`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArtifactRecord {
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Id of the owning target.
    pub target: String,
    /// `file`, `executable` or `symlink`.
    pub mode: String,
    /// Where a symbolic link leads inside the repository.
    pub resolves_to: Option<String>,
    /// Hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// Hexadecimal git blob id of the bytes.
    pub blob: String,
    /// Hexadecimal commit at which these bytes were first seen here.
    pub commit: Option<String>,
    /// Bytes.
    pub size: i64,
    /// How the bytes spell the text.
    pub encoding: String,
    /// Licence of the repository as found.
    pub license: Option<String>,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Stars of the repository.
    pub stars: Option<i64>,
    /// Whether the repository is a fork.
    pub is_fork: Option<bool>,
    /// The text; absent for binary content.
    pub text: Option<String>,
}

/// Schema and batches of `artifacts`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArtifactTable;

impl Table for ArtifactTable {
    type Record = ArtifactRecord;

    const NAME: &'static str = "artifacts";
    const ENUMS: &'static [&'static str] = &["platform", "target", "mode", "encoding", "license", "language"];
    const IDS: &'static [&'static str] = &["sha256"];
    const TEXTS: &'static [&'static str] = &["text"];

    fn schema() -> SchemaRef {
        let text = |name, nullable| Field::new(name, DataType::Utf8, nullable);
        Arc::new(Schema::new(vec![
            text("repo", false),
            text("path", false),
            text("platform", false),
            text("target", false),
            text("mode", false),
            text("resolves_to", true),
            text("sha256", false),
            text("blob", false),
            text("commit", true),
            Field::new("size", DataType::Int64, false),
            text("encoding", false),
            text("license", true),
            text("language", true),
            Field::new("stars", DataType::Int64, true),
            Field::new("is_fork", DataType::Boolean, true),
            text("text", true),
        ]))
    }

    fn batch(records: &[ArtifactRecord]) -> Result<RecordBatch, ArrowError> {
        let strings = |get: &dyn Fn(&ArtifactRecord) -> Option<&str>| -> ArrayRef {
            let mut column = StringBuilder::new();
            records.iter().for_each(|r| column.append_option(get(r)));
            Arc::new(column.finish())
        };
        let integers = |get: &dyn Fn(&ArtifactRecord) -> Option<i64>| -> ArrayRef {
            let mut column = Int64Builder::new();
            records.iter().for_each(|r| column.append_option(get(r)));
            Arc::new(column.finish())
        };
        let mut forks = BooleanBuilder::new();
        records.iter().for_each(|r| forks.append_option(r.is_fork));
        RecordBatch::try_new(
            Self::schema(),
            vec![
                strings(&|r| Some(&r.repo)),
                strings(&|r| Some(&r.path)),
                strings(&|r| Some(&r.platform)),
                strings(&|r| Some(&r.target)),
                strings(&|r| Some(&r.mode)),
                strings(&|r| r.resolves_to.as_deref()),
                strings(&|r| Some(&r.sha256)),
                strings(&|r| Some(&r.blob)),
                strings(&|r| r.commit.as_deref()),
                integers(&|r| Some(r.size)),
                strings(&|r| Some(&r.encoding)),
                strings(&|r| r.license.as_deref()),
                strings(&|r| r.language.as_deref()),
                integers(&|r| r.stars),
                Arc::new(forks.finish()),
                strings(&|r| r.text.as_deref()),
            ],
        )
    }
}
