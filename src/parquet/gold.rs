//! The table `gold`: items that were labelled, with every label in force.

use super::{Columns, Role, Table};

/// One row of `gold`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GoldRecord {
    /// Id of the item.
    pub id: String,
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// Hexadecimal git blob id of the text that it stands in.
    pub blob: String,
    /// 1-based line of its first byte.
    pub line: i64,
    /// What kind of passage it is.
    pub kind: String,
    /// Headings above it as they were shown; absent where the text is withheld.
    pub heading: Option<String>,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Licence of the repository.
    pub license: Option<String>,
    /// Hexadecimal SHA-256 of the item's text as found.
    pub text_sha256: String,
    /// The settled type; absent until it is settled.
    pub knowledge_type: Option<String>,
    /// How it was settled.
    pub settled: Option<String>,
    /// Labels in force, one an annotator and pass.
    pub labels: Vec<LabelRecord>,
    /// The item's text with redactions applied.
    pub text: Option<String>,
}

/// One annotator's label.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelRecord {
    /// A number that stands for the annotator.
    pub annotator: String,
    /// The round.
    pub pass: i64,
    /// The type; absent for a skipped item.
    pub knowledge_type: Option<String>,
    /// Second choice.
    pub second: Option<String>,
    /// Flagged as doubtful.
    pub flagged: bool,
    /// Version of the rubric.
    pub rubric: i64,
    /// Whether a person or a model gave it.
    pub origin: String,
}

/// Columns of `gold`.
#[derive(Debug, Clone, Copy, Default)]
pub struct GoldTable;

impl Table for GoldTable {
    type Record = GoldRecord;

    const NAME: &'static str = "gold";

    fn place(record: &GoldRecord) -> (&str, &str) {
        (&record.repo, &record.path)
    }

    fn columns(rows: &[GoldRecord]) -> Columns<'_, GoldRecord> {
        let mut c = Columns::new(rows);
        c.string("id", Role::Id, |r| &r.id);
        c.string("repo", Role::Enum, |r| &r.repo);
        c.string("path", Role::Plain, |r| &r.path);
        c.string("blob", Role::Id, |r| &r.blob);
        c.integer("line", |r| r.line);
        c.string("kind", Role::Enum, |r| &r.kind);
        c.maybe_string("heading", Role::Plain, |r| r.heading.as_deref());
        c.maybe_string("language", Role::Enum, |r| r.language.as_deref());
        c.maybe_string("license", Role::Enum, |r| r.license.as_deref());
        c.string("text_sha256", Role::Plain, |r| &r.text_sha256);
        c.maybe_string("type", Role::Enum, |r| r.knowledge_type.as_deref());
        c.maybe_string("settled", Role::Enum, |r| r.settled.as_deref());
        c.maybe_list(
            "labels",
            |r| Some(&r.labels),
            |c| {
                c.string("annotator", Role::Enum, |l| &l.annotator);
                c.integer("pass", |l| l.pass);
                c.maybe_string("type", Role::Enum, |l| l.knowledge_type.as_deref());
                c.maybe_string("second", Role::Enum, |l| l.second.as_deref());
                c.boolean("flagged", |l| l.flagged);
                c.integer("rubric", |l| l.rubric);
                c.string("origin", Role::Enum, |l| &l.origin);
            },
        );
        c.maybe_string("text", Role::Text, |r| r.text.as_deref());
        c
    }
}
