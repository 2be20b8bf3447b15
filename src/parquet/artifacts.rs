//! The table `artifacts`: one row a path in a repository, with its text.

use super::{Columns, Role, Table};

/// One row of `artifacts`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArtifactRecord {
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// Where a person can look at the source; absent for local repositories.
    pub url: Option<String>,
    /// Owning platform.
    pub platform: String,
    /// Id of the owning target.
    pub target: String,
    /// What it is for.
    pub function: Option<String>,
    /// Who wrote it, by evidence.
    pub authorship: Option<String>,
    /// How bound to its project it is.
    pub specificity: Option<String>,
    /// Every tag with its rule and evidence; absent before tagging.
    pub tags: Option<Vec<TagRecord>>,
    /// `file`, `executable` or `symlink`.
    pub mode: String,
    /// The path in the same repository that it stands for, where it has no content of its own.
    pub resolves_to: Option<String>,
    /// Hexadecimal SHA-256 of the bytes at that path.
    pub resolved_sha256: Option<String>,
    /// Hexadecimal SHA-256 of the bytes as found.
    pub sha256: String,
    /// Hexadecimal git blob id of the bytes as found.
    pub blob: String,
    /// Hexadecimal commit at which these bytes were first seen here.
    pub commit: Option<String>,
    /// Bytes as found.
    pub size: i64,
    /// How the bytes spell the text.
    pub encoding: String,
    /// Licence of the repository: SPDX expression.
    pub license: Option<String>,
    /// How freely that licence lets the text be passed on.
    pub license_tier: String,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Stars of the repository.
    pub stars: Option<i64>,
    /// Whether the repository is a fork.
    pub is_fork: Option<bool>,
    /// SHA-256 of the canonical text of its near-duplicate cluster; absent before the search for duplicates.
    pub cluster: Option<String>,
    /// Whether it holds the canonical text of its cluster.
    pub is_canonical: Option<bool>,
    /// Similarity to the canonical text, 0 to 1.
    pub similarity: Option<f64>,
    /// `train`, `validation` or `test`.
    pub split: String,
    /// Passages that were replaced by placeholders in `text`.
    pub redactions: i64,
    /// Why there is no text: `license` or `binary`.
    pub withheld: Option<String>,
    /// The text with redactions applied.
    pub text: Option<String>,
}

/// One tag of an artifact.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TagRecord {
    /// The question.
    pub dimension: String,
    /// The answer.
    pub value: String,
    /// The rule that gave it.
    pub rule: String,
    /// How sure the rule is, 0 to 1.
    pub confidence: f32,
}

/// Columns of `artifacts`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArtifactTable;

impl Table for ArtifactTable {
    type Record = ArtifactRecord;

    const NAME: &'static str = "artifacts";

    fn place(record: &ArtifactRecord) -> (&str, &str) {
        (&record.repo, &record.path)
    }

    fn columns(rows: &[ArtifactRecord]) -> Columns<'_, ArtifactRecord> {
        let mut c = Columns::new(rows);
        c.string("repo", Role::Enum, |r| &r.repo);
        c.string("path", Role::Plain, |r| &r.path);
        c.maybe_string("url", Role::Plain, |r| r.url.as_deref());
        c.string("platform", Role::Enum, |r| &r.platform);
        c.string("target", Role::Enum, |r| &r.target);
        c.maybe_string("function", Role::Enum, |r| r.function.as_deref());
        c.maybe_string("authorship", Role::Enum, |r| r.authorship.as_deref());
        c.maybe_string("specificity", Role::Enum, |r| r.specificity.as_deref());
        c.maybe_list(
            "tags",
            |r| r.tags.as_deref(),
            |c| {
                c.string("dimension", Role::Enum, |t| &t.dimension);
                c.string("value", Role::Enum, |t| &t.value);
                c.string("rule", Role::Enum, |t| &t.rule);
                c.real("confidence", Role::Enum, |t| t.confidence);
            },
        );
        c.string("mode", Role::Enum, |r| &r.mode);
        c.maybe_string("resolves_to", Role::Plain, |r| r.resolves_to.as_deref());
        c.maybe_string("resolved_sha256", Role::Plain, |r| r.resolved_sha256.as_deref());
        c.string("sha256", Role::Id, |r| &r.sha256);
        c.string("blob", Role::Id, |r| &r.blob);
        c.maybe_string("commit", Role::Enum, |r| r.commit.as_deref());
        c.integer("size", |r| r.size);
        c.string("encoding", Role::Enum, |r| &r.encoding);
        c.maybe_string("license", Role::Enum, |r| r.license.as_deref());
        c.string("license_tier", Role::Enum, |r| &r.license_tier);
        c.maybe_string("language", Role::Enum, |r| r.language.as_deref());
        c.maybe_integer("stars", |r| r.stars);
        c.maybe_boolean("is_fork", |r| r.is_fork);
        c.maybe_string("cluster", Role::Plain, |r| r.cluster.as_deref());
        c.maybe_boolean("is_canonical", |r| r.is_canonical);
        c.maybe_double("similarity", |r| r.similarity);
        c.string("split", Role::Enum, |r| &r.split);
        c.integer("redactions", |r| r.redactions);
        c.maybe_string("withheld", Role::Enum, |r| r.withheld.as_deref());
        c.maybe_string("text", Role::Text, |r| r.text.as_deref());
        c
    }
}
