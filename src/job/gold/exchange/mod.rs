//! The gold set in the forms of other annotation tools.
//!
//! Every form carries what its tool shows and edits, and under `aac` the whole item and label, so that what goes out
//! and comes back is what it was. Where both speak, the tool's own field wins: somebody edited it there.

mod argilla;
mod label_studio;
mod lines;

use super::view::{ItemView, view};
use super::{GoldError, rubric_version};
use crate::store::{GoldItemRow, Journal, Mark, MarkRow, Store};
use crate::taxonomy::{KnowledgeType, LabelOrder, LabelOrigin, LabelStatus};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// One object a line with everything; `aac train --gold` reads it too.
    Jsonl,
    /// Label Studio's tasks; `annotation/label-studio.xml` is the labelling configuration.
    LabelStudio,
    /// doccano's text classification, one file an annotator.
    Doccano,
    /// Argilla 2 records.
    Argilla,
    /// Prodigy's `choice` tasks.
    Prodigy,
}

impl Format {
    /// Every format with its word.
    pub const ALL: [(&'static str, Self); 5] = [
        ("jsonl", Self::Jsonl),
        ("label-studio", Self::LabelStudio),
        ("doccano", Self::Doccano),
        ("argilla", Self::Argilla),
        ("prodigy", Self::Prodigy),
    ];
}

impl FromStr for Format {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == word);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// An item as it is passed on: secrets and addresses in its text are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ItemRecord {
    /// Its name.
    pub id: String,
    /// `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Path in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git's id of the blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// 1-based line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
    /// What kind of passage it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Headings above it, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heading: Vec<String>,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// SHA-256 of the text as found, white space collapsed except in code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_sha256: Option<String>,
    /// Primary language of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Licence of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The stratum that it was drawn from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stratum: Option<String>,
}

/// A label as it is passed on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelRecord {
    /// Who gave it.
    pub annotator: String,
    /// The annotator's round.
    #[serde(default = "one")]
    pub pass: i64,
    /// Where the item stands.
    pub status: LabelStatus,
    /// The type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub class: Option<KnowledgeType>,
    /// Second choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<KnowledgeType>,
    /// To be looked at again.
    #[serde(default)]
    pub flagged: bool,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Version of the rubric.
    #[serde(default)]
    pub rubric: i64,
    /// How long the item was in view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// A person or a model.
    pub origin: LabelOrigin,
    /// The type that was suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preannotated: Option<KnowledgeType>,
    /// The order in which items were shown.
    pub order: LabelOrder,
    /// The item's place in that order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// Unix milliseconds.
    pub at: i64,
}

fn one() -> i64 {
    1
}

impl LabelRecord {
    /// A label of which a tool tells nothing but who and what.
    fn bare(annotator: &str, origin: LabelOrigin, at: i64) -> Self {
        Self {
            annotator: annotator.to_owned(),
            pass: 1,
            status: LabelStatus::Open,
            class: None,
            second: None,
            flagged: false,
            note: String::new(),
            rubric: rubric_version(),
            seconds: None,
            origin,
            preannotated: None,
            order: LabelOrder::Imported,
            position: None,
            at,
        }
    }

    fn of(row: &MarkRow) -> Self {
        let word = |word: &Option<String>| word.as_deref().and_then(|word| word.parse().ok());
        Self {
            annotator: row.annotator.clone(),
            pass: row.pass,
            status: row.mark.status,
            class: row.knowledge_type(),
            second: word(&row.mark.second),
            flagged: row.mark.flagged,
            note: row.mark.note.clone(),
            rubric: row.rubric,
            seconds: row.seconds,
            origin: row.origin,
            preannotated: word(&row.preannotated),
            order: row.ordering,
            position: row.position,
            at: row.at,
        }
    }

    /// Take over what a tool says in its own fields: a type, or that the item was passed over.
    fn take(&mut self, class: Option<KnowledgeType>, skipped: bool) {
        self.status = match class {
            _ if skipped => LabelStatus::Skipped,
            Some(_) => LabelStatus::Labelled,
            None => LabelStatus::Open,
        };
        self.class = class.filter(|_| !skipped);
    }

    /// The label as it is kept.
    pub fn mark(&self) -> Mark {
        Mark {
            status: self.status,
            class: self.class.map(|class| class.as_str().to_owned()),
            second: self.second.map(|class| class.as_str().to_owned()),
            flagged: self.flagged,
            note: self.note.clone(),
        }
    }
}

/// A decision as it is passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The type.
    #[serde(rename = "type")]
    pub class: KnowledgeType,
    /// The reason.
    pub why: String,
    /// Who decided.
    pub by: String,
    /// A person or a model.
    pub origin: LabelOrigin,
}

/// An item with everything that was said of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// The item.
    pub item: ItemRecord,
    /// Labels in force, by annotator and round.
    pub labels: Vec<LabelRecord>,
    /// The decision in force.
    pub decision: Option<DecisionRecord>,
    /// The settled type, decided or agreed on.
    pub settled: Option<KnowledgeType>,
}

/// How many items stand where, with one annotator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StatusCounts {
    /// Without a label.
    pub open: usize,
    /// With a label.
    pub labelled: usize,
    /// Passed over.
    pub skipped: usize,
    /// Of all, those to be looked at again.
    pub flagged: usize,
    /// Of all, those with a note.
    pub noted: usize,
}

/// Everything in the gold set, by item id. `annotator` narrows the labels to one.
pub async fn entries(store: &Store, annotator: Option<&str>) -> Result<Vec<Entry>, GoldError> {
    let mut labels: HashMap<String, Vec<LabelRecord>> = HashMap::new();
    for row in store.marks(Journal::Labels, None).await? {
        if !row.mark.is_blank() && annotator.is_none_or(|name| name == row.annotator) {
            labels.entry(row.item.clone()).or_default().push(LabelRecord::of(&row));
        }
    }
    let mut decisions = HashMap::new();
    for row in store.decisions().await? {
        let class = row.class.as_deref().and_then(|word| word.parse().ok());
        if let (Some(class), Ok(origin)) = (class, row.origin.parse()) {
            decisions.insert(row.item_id, DecisionRecord { class, why: row.why, by: row.by, origin });
        }
    }
    let mut entries = Vec::new();
    for item in store.gold_items().await? {
        let seen = view(store, &item).await?;
        entries.push(Entry {
            labels: labels.remove(&item.id).unwrap_or_default(),
            decision: decisions.remove(&item.id),
            settled: item.final_type.as_deref().and_then(|word| word.parse().ok()),
            item: record(&item, seen),
        });
    }
    Ok(entries)
}

fn record(item: &GoldItemRow, seen: Option<ItemView>) -> ItemRecord {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (heading, text) = seen.map(|view| (view.heading, view.text)).unzip();
    ItemRecord {
        id: item.id.clone(),
        repo: filled(&item.repo),
        path: filled(&item.path),
        blob: item.blob_oid().map(|oid| oid.to_string()),
        line: (item.line > 0).then_some(item.line),
        kind: filled(&item.kind),
        heading: heading.unwrap_or_default(),
        text,
        text_sha256: item.text_sha256().map(|digest| digest.to_string()),
        language: item.language.clone(),
        license: item.license.clone(),
        stratum: item.stratum.clone(),
    }
}

/// How many items stand where, for each annotator of `entries`; with nobody's labels, for nobody (an empty name).
pub fn status_counts(entries: &[Entry]) -> BTreeMap<String, StatusCounts> {
    let mut names: Vec<String> = entries.iter().flat_map(|e| e.labels.iter().map(|l| l.annotator.clone())).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        names.push(String::new());
    }
    let mut counts = BTreeMap::new();
    for name in names {
        let mut count = StatusCounts::default();
        for entry in entries {
            // The last round counts.
            let label = entry.labels.iter().rfind(|label| label.annotator == name);
            match label.map_or(LabelStatus::Open, |label| label.status) {
                LabelStatus::Open => count.open += 1,
                LabelStatus::Labelled => count.labelled += 1,
                LabelStatus::Skipped => count.skipped += 1,
            }
            count.flagged += usize::from(label.is_some_and(|label| label.flagged));
            count.noted += usize::from(label.is_some_and(|label| !label.note.is_empty()));
        }
        counts.insert(name, count);
    }
    counts
}

/// One file of an export: whose labels it holds, where a format has one file an annotator, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    /// The annotator.
    pub annotator: Option<String>,
    /// The content.
    pub text: String,
}

/// `entries` in a format. Items stand in the order of their ids, labelled or not.
///
/// # Errors
/// A value that is no JSON, which no value here is.
pub fn write(format: Format, entries: &[Entry]) -> Result<Vec<ExportFile>, serde_json::Error> {
    let one = |text| vec![ExportFile { annotator: None, text }];
    Ok(match format {
        Format::Jsonl => one(lines::write_jsonl(entries)?),
        Format::Prodigy => one(lines::write_prodigy(entries)?),
        Format::LabelStudio => one(label_studio::write(entries)?),
        Format::Argilla => one(argilla::write(entries)?),
        Format::Doccano => {
            let mut whom: Vec<(&str, i64)> =
                entries.iter().flat_map(|e| e.labels.iter().map(|l| (l.annotator.as_str(), l.pass))).collect();
            whom.sort_unstable();
            whom.dedup();
            let mut files = Vec::new();
            for (annotator, pass) in &whom {
                let name = if *pass == 1 { (*annotator).to_owned() } else { format!("{annotator}-{pass}") };
                let text = lines::write_doccano(entries, Some((annotator, *pass)))?;
                files.push(ExportFile { annotator: Some(name), text });
            }
            if files.is_empty() {
                files = one(lines::write_doccano(entries, None)?);
            }
            if let [file] = &mut files[..] {
                file.annotator = None;
            }
            files
        }
    })
}

/// What a reader needs to know beside the file.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Name of the file, for errors.
    pub file: &'a str,
    /// Whose labels those are that name nobody.
    pub annotator: &'a str,
    /// Who gives labels that do not say.
    pub origin: LabelOrigin,
    /// When labels were given that do not say, Unix milliseconds.
    pub now: i64,
}

impl Reading<'_> {
    fn error(&self, place: impl ToString, why: impl ToString) -> GoldError {
        GoldError::File { file: self.file.to_owned(), place: place.to_string(), why: why.to_string() }
    }
}

/// The entries of a file in a format.
///
/// # Errors
/// The place in the file and what is wrong there.
pub fn read(format: Format, text: &str, reading: &Reading<'_>) -> Result<Vec<Entry>, GoldError> {
    let entries = match format {
        Format::Jsonl => lines::read_jsonl(text, reading)?,
        Format::Doccano => lines::read_doccano(text, reading)?,
        Format::Prodigy => lines::read_prodigy(text, reading)?,
        Format::LabelStudio => label_studio::read(text, reading)?,
        Format::Argilla => argilla::read(text, reading)?,
    };
    merge(entries, reading)
}

/// One entry an item: formats with a line for each annotator repeat the item. Two labels of one annotator in one round
/// contradict each other.
fn merge(entries: Vec<(String, Entry)>, reading: &Reading<'_>) -> Result<Vec<Entry>, GoldError> {
    let mut by_id: BTreeMap<String, Entry> = BTreeMap::new();
    for (place, entry) in entries {
        if entry.item.id.is_empty() {
            return Err(reading.error(place, "it names no item (`id` or `item_id`)"));
        }
        let merged = by_id
            .entry(entry.item.id.clone())
            .or_insert_with(|| Entry { item: entry.item.clone(), ..Entry::default() });
        for label in entry.labels {
            if merged.labels.iter().any(|l| l.annotator == label.annotator && l.pass == label.pass) {
                let why = format!("{} has two labels for {} in round {}", label.annotator, entry.item.id, label.pass);
                return Err(reading.error(place, why));
            }
            merged.labels.push(label);
        }
        merged.decision = entry.decision.or(merged.decision.take());
        merged.settled = entry.settled.or(merged.settled);
    }
    let mut entries: Vec<Entry> = by_id.into_values().collect();
    for entry in &mut entries {
        entry.labels.sort_by(|a, b| (&a.annotator, a.pass).cmp(&(&b.annotator, b.pass)));
    }
    Ok(entries)
}

/// A knowledge type by its word in any case, or by its letter.
fn type_of(word: &str) -> Option<KnowledgeType> {
    let mut letters = word.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => KnowledgeType::from_letter(letter),
        _ => word.to_ascii_lowercase().parse().ok(),
    }
}

#[cfg(test)]
mod tests;
