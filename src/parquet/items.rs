//! The table `items`: list entries, paragraphs, rows and code blocks of each distinct text, once.

use super::{Columns, Role, Table};

/// One row of `items`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemRecord {
    /// Hexadecimal SHA-256 of the bytes that it stands in.
    pub sha256: String,
    /// `owner/name` of the artifact that stands for the text.
    pub repo: String,
    /// Its path.
    pub path: String,
    /// Position among the items of the text, from 0.
    pub item: i64,
    /// First byte in the exported text; absent where the text is withheld.
    pub start: Option<i64>,
    /// One past the last byte in the exported text.
    pub end: Option<i64>,
    /// 1-based line of the first byte in the text as found.
    pub line: i64,
    /// What kind of passage it is.
    pub kind: String,
    /// Headings above it, outermost first; empty where the text is withheld.
    pub heading: Vec<String>,
    /// Licence of the repository.
    pub license: Option<String>,
    /// `train`, `validation` or `test`.
    pub split: String,
    /// Predicted knowledge type at the balanced point; absent before classification.
    pub knowledge_type: Option<String>,
    /// Predicted probability of each type.
    pub probabilities: Option<Vec<ProbabilityRecord>>,
    /// Probability that it is a constraint, weighted by who speaks.
    pub risk: Option<f32>,
    /// The model that predicted.
    pub model: Option<String>,
    /// The item's text with redactions applied.
    pub text: Option<String>,
}

/// The probability of one knowledge type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbabilityRecord {
    /// The type.
    pub knowledge_type: String,
    /// 0 to 1.
    pub probability: f32,
}

/// Columns of `items`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ItemTable;

impl Table for ItemTable {
    type Record = ItemRecord;

    const NAME: &'static str = "items";

    fn place(record: &ItemRecord) -> (&str, &str) {
        (&record.repo, &record.path)
    }

    fn columns(rows: &[ItemRecord]) -> Columns<'_, ItemRecord> {
        let mut c = Columns::new(rows);
        c.string("sha256", Role::Id, |r| &r.sha256);
        c.string("repo", Role::Enum, |r| &r.repo);
        c.string("path", Role::Enum, |r| &r.path);
        c.integer("item", |r| r.item);
        c.maybe_integer("start", |r| r.start);
        c.maybe_integer("end", |r| r.end);
        c.integer("line", |r| r.line);
        c.string("kind", Role::Enum, |r| &r.kind);
        c.strings("heading", Role::Enum, |r| &r.heading);
        c.maybe_string("license", Role::Enum, |r| r.license.as_deref());
        c.string("split", Role::Enum, |r| &r.split);
        c.maybe_string("type", Role::Enum, |r| r.knowledge_type.as_deref());
        c.maybe_list(
            "probabilities",
            |r| r.probabilities.as_deref(),
            |c| {
                c.string("type", Role::Enum, |p| &p.knowledge_type);
                c.real("probability", Role::Enum, |p| p.probability);
            },
        );
        c.maybe_real("risk", |r| r.risk);
        c.maybe_string("model", Role::Enum, |r| r.model.as_deref());
        c.maybe_string("text", Role::Text, |r| r.text.as_deref());
        c
    }
}
