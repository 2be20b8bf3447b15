//! Labels as they are kept on disk, and what becomes of them once their texts are found.

use crate::corpus::{GitOid, ItemContext, ItemSpan, Segmentation, Sha256};
use crate::segment::flatten;
use crate::taxonomy::{ItemKind, KnowledgeType};
use serde::{Deserialize, Deserializer, Serialize};

/// A label file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// A line is no label.
    #[error("Failed to read line {line} of the labels {file}: {source}")]
    Line {
        /// The name of the file, as given.
        file: String,
        /// 1-based.
        line: usize,
        /// What the line lacks.
        source: serde_json::Error,
    },
    /// A label has neither a text nor a place to find it.
    #[error(
        "Failed to read line {line} of the labels {file}: it has neither `text` nor `blob` with `line` or `text_sha256`"
    )]
    Placeless {
        /// The name of the file, as given.
        file: String,
        /// 1-based.
        line: usize,
    },
}

/// One line of a label file: gold, training, phrasings or an enterprise's own. Every field but `label` is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelRecord {
    /// Name of the item in its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Path in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git's id of the blob that holds the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<GitOid>,
    /// 1-based line of the item in the blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What kind of passage it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ItemKind>,
    /// Headings above it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heading: Vec<String>,
    /// The text; absent where it is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Text of the item before it in its file; written when the text was found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Text of the item after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// SHA-256 of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_sha256: Option<Sha256>,
    /// Main programming language of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Licence of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// First annotator.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_type")]
    pub annotator_a: Option<KnowledgeType>,
    /// Second annotator.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_type")]
    pub annotator_b: Option<KnowledgeType>,
    /// Whether a third reading settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjudicated: Option<bool>,
    /// The type; `None` only in files of unlabelled items.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_type")]
    pub label: Option<KnowledgeType>,
    /// The annotator's second choice.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_type")]
    pub second: Option<KnowledgeType>,
    /// Which stratum the item was drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The rule that a phrasing expresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its grammatical form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The domain of a phrasing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// A type by its word or by its letter.
fn optional_type<'de, D: Deserializer<'de>>(d: D) -> Result<Option<KnowledgeType>, D::Error> {
    let Some(word) = Option::<String>::deserialize(d)? else { return Ok(None) };
    let mut letters = word.chars();
    if let (Some(letter), None) = (letters.next(), letters.next())
        && let Some(t) = KnowledgeType::from_letter(letter)
    {
        return Ok(Some(t));
    }
    word.parse().map(Some).map_err(serde::de::Error::custom)
}

/// The labels of a JSONL text; `file` names it in errors. Blank lines are skipped.
pub fn parse_labels(file: &str, jsonl: &str) -> Result<Vec<LabelRecord>, LabelError> {
    let mut records = Vec::new();
    for (index, line) in jsonl.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line_number = index + 1;
        let record: LabelRecord = serde_json::from_str(line).map_err(|source| LabelError::Line {
            file: file.to_owned(),
            line: line_number,
            source,
        })?;
        let placed = record.blob.is_some() && (record.line.is_some() || record.text_sha256.is_some());
        if record.text.is_none() && !placed {
            return Err(LabelError::Placeless { file: file.to_owned(), line: line_number });
        }
        records.push(record);
    }
    Ok(records)
}

impl LabelRecord {
    /// The record as it may be shared: without the text and the headings of somebody else's file. A record without a
    /// repository is its author's own and keeps its text.
    pub fn without_text(&self) -> Self {
        if self.repo.is_none() {
            return self.clone();
        }
        Self {
            text_sha256: self.text_sha256.or_else(|| self.text.as_deref().map(|t| Sha256::of(t.as_bytes()))),
            text: None,
            before: None,
            after: None,
            heading: Vec::new(),
            ..self.clone()
        }
    }

    /// Find the item in its blob: by the hash of its text, nearest to its line when several have it; else the item at
    /// its line. The record of a text that cannot be found gives nothing.
    pub fn locate<'s>(&self, text: &str, segmentation: &'s Segmentation) -> Option<Located<'s>> {
        let at_line = |item: &ItemSpan| self.line.map_or(0, |line| line.abs_diff(item.line));
        let items = &segmentation.items;
        if let Some(wanted) = self.text_sha256.or_else(|| self.text.as_deref().map(|t| Sha256::of(t.as_bytes()))) {
            // Labels were given to texts whose white space had been collapsed, code excepted.
            let same = |item: &ItemSpan| {
                text.get(item.range())
                    .is_some_and(|t| Sha256::of(t.as_bytes()) == wanted || Sha256::of(flatten(t).as_bytes()) == wanted)
            };
            let best = (0..items.len()).filter(|i| same(&items[*i])).min_by_key(|i| (at_line(&items[*i]), *i));
            if let Some(index) = best {
                return Some(Located { index, span: &items[index], by: Match::Hash });
            }
        }
        let line = self.line?;
        let index = items.iter().position(|item| item.line == line)?;
        Some(Located { index, span: &items[index], by: Match::Line })
    }

    /// The labelled item with its text and surroundings, from the text of its blob and its segmentation.
    pub fn hydrate(&self, text: &str, segmentation: &Segmentation) -> Option<Example> {
        self.with_text(text, segmentation)?.0.as_given()
    }

    /// The record with its text, kind, headings and neighbours from the text of its blob and its segmentation, and how
    /// the item was found.
    pub fn with_text(&self, text: &str, segmentation: &Segmentation) -> Option<(Self, Match)> {
        let located = self.locate(text, segmentation)?;
        let slice =
            |index: usize| segmentation.items.get(index).and_then(|item| text.get(item.range())).map(str::to_owned);
        let mut record = self.clone();
        // The blob's own slice, since that is what a classifier meets; a text found by line only may be cut otherwise.
        if self.text.is_none() || located.by == Match::Hash {
            record.text = Some(slice(located.index)?);
        }
        record.kind = Some(located.span.kind);
        record.heading = segmentation.heading_path(located.span, text).into_iter().map(str::to_owned).collect();
        record.before = located.index.checked_sub(1).and_then(slice);
        record.after = slice(located.index + 1);
        Some((record, located.by))
    }

    /// The labelled item from the record alone: no neighbours, and an empty text when the record has none. Nothing when
    /// it has no label.
    pub fn as_given(&self) -> Option<Example> {
        Some(Example {
            id: self.id.clone().unwrap_or_default(),
            group: self.repo.clone().or_else(|| self.base.clone()).or_else(|| self.id.clone()).unwrap_or_default(),
            text: self.text.clone().unwrap_or_default(),
            kind: self.kind,
            heading: self.heading.clone(),
            path: self.path.clone().unwrap_or_default(),
            before: self.before.clone(),
            after: self.after.clone(),
            label: self.label?,
            second: self.second,
            why: self.why.clone(),
            language: self.language.clone(),
            form: self.form.clone(),
            role: if self.why.is_some() {
                Role::Extra
            } else if self.domain.is_some() {
                Role::Phrasing
            } else {
                Role::Gold
            },
        })
    }
}

/// An item that a record points to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located<'s> {
    /// Its position among the blob's items.
    pub index: usize,
    /// The item.
    pub span: &'s ItemSpan,
    /// How it was found.
    pub by: Match,
}

/// How an item was found in its blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Its text has the recorded hash.
    Hash,
    /// It stands at the recorded line; its text may have been cut differently.
    Line,
}

/// What an example may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Drawn at random: trains, calibrates, sets thresholds and is scored.
    Gold,
    /// Chosen by some rule (it has a `why`), so its mix of types says nothing of the world: trains only.
    Extra,
    /// A rule written down in several grammatical forms, or a hard negative (it has a `domain`): trains, scored apart.
    Phrasing,
}

/// A labelled item with all that a classifier may see of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Name of the item.
    pub id: String,
    /// What must not be split over training and test: the repository, or the rule that a phrasing expresses.
    pub group: String,
    /// Its text.
    pub text: String,
    /// What kind of passage it is.
    pub kind: Option<ItemKind>,
    /// Headings above it, outermost first.
    pub heading: Vec<String>,
    /// Path of its file; empty when unknown.
    pub path: String,
    /// The item before it.
    pub before: Option<String>,
    /// The item after it.
    pub after: Option<String>,
    /// Its type.
    pub label: KnowledgeType,
    /// The annotator's second choice.
    pub second: Option<KnowledgeType>,
    /// Which stratum it was drawn from.
    pub why: Option<String>,
    /// Programming language of its repository.
    pub language: Option<String>,
    /// Grammatical form, of phrasings.
    pub form: Option<String>,
    /// What it may be used for.
    pub role: Role,
}

impl Example {
    /// Show the item to `f` as a classifier sees it.
    pub fn with_context<T>(&self, f: impl FnOnce(&ItemContext<'_>) -> T) -> T {
        let heading: Vec<&str> = self.heading.iter().map(String::as_str).collect();
        f(&ItemContext {
            text: &self.text,
            kind: self.kind,
            heading: &heading,
            path: &self.path,
            before: self.before.as_deref(),
            after: self.after.as_deref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::segment;

    const TEXT: &str = "# Rules\n\n- Never push\n  to main\n- Run tests\n\nBye.\n";

    fn record(json: &str) -> LabelRecord {
        parse_labels("x.jsonl", json).unwrap().remove(0)
    }

    #[test]
    fn a_label_without_text_finds_it_by_hash_then_by_line() {
        let items = segment("AGENTS.md", TEXT);
        let full = record(
            r#"{"repo":"o/r","blob":"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391","line":99,"text":"Never push to main","label":"C"}"#,
        );
        let bare = full.without_text();
        assert!(bare.text.is_none() && bare.text_sha256.is_some());
        let example = bare.hydrate(TEXT, &items).unwrap();
        assert_eq!(
            (example.text.as_str(), example.heading.as_slice()),
            ("Never push\n  to main", &["Rules".to_owned()][..])
        );
        assert_eq!((example.before, example.after.as_deref()), (None, Some("Run tests")));
        let by_line = LabelRecord { text_sha256: Some(Sha256::of(b"other")), line: Some(5), ..bare.clone() };
        assert_eq!(by_line.locate(TEXT, &items).unwrap().by, Match::Line);
        assert_eq!(by_line.hydrate(TEXT, &items).unwrap().text, "Run tests");
        assert!(LabelRecord { line: None, ..by_line }.hydrate(TEXT, &items).is_none());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = parse_labels("own.jsonl", "\n{\"text\":\"a\",\"label\":\"fact\"}").unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("own.jsonl") && error.contains("constraint, procedural"),
            "{error}"
        );
        let error = parse_labels("own.jsonl", "{\"label\":\"B\"}").unwrap_err().to_string();
        assert!(error.contains("neither `text` nor `blob`"), "{error}");
    }

    #[test]
    fn shipped_labels_carry_no_text_but_ours() {
        let count = |name, jsonl| {
            let records = parse_labels(name, jsonl).unwrap();
            assert!(records.iter().all(|r| r.label.is_some() && (r.text.is_some() != r.repo.is_some())), "{name}");
            records.len()
        };
        assert_eq!(count("gold.jsonl", include_str!("../../annotation/gold/gold.jsonl")), 2_000);
        assert_eq!(count("training.jsonl", include_str!("../../annotation/gold/training.jsonl")), 16_000);
        assert_eq!(count("phrasing.jsonl", include_str!("../../annotation/gold/phrasing.jsonl")), 1_200);
    }
}
