//! Formats of one JSON object a line: ours, doccano's, Prodigy's.

use super::{DecisionRecord, Entry, ItemRecord, LabelRecord, Reading, type_of};
use crate::job::gold::GoldError;
use crate::taxonomy::{KnowledgeType, LabelOrigin, LabelStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

type Placed = Vec<(String, Entry)>;

fn push(out: &mut String, value: &impl Serialize) -> Result<(), serde_json::Error> {
    out.push_str(&serde_json::to_string(value)?);
    out.push('\n');
    Ok(())
}

/// The objects of `text` with the name of their place.
fn objects<'t, T: Deserialize<'t>>(text: &'t str, reading: &Reading<'_>) -> Result<Vec<(String, T)>, GoldError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let place = format!("line {}", index + 1);
            match serde_json::from_str(line) {
                Ok(value) => Ok((place, value)),
                Err(error) => Err(reading.error(place, error)),
            }
        })
        .collect()
}

/// A line of our own form. The last fields are those of label files without names of annotators.
#[derive(Serialize, Deserialize)]
struct Own {
    #[serde(flatten)]
    item: ItemRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default)]
    labels: Option<Vec<LabelRecord>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionRecord>,
    #[serde(default, skip_serializing)]
    second: Option<String>,
    #[serde(default, skip_serializing)]
    annotator_a: Option<String>,
    #[serde(default, skip_serializing)]
    annotator_b: Option<String>,
    #[serde(default, skip_serializing)]
    adjudicated: bool,
}

pub(super) fn write_jsonl(entries: &[Entry]) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    for entry in entries {
        push(
            &mut out,
            &Own {
                item: entry.item.clone(),
                label: entry.settled.map(|class| class.as_str().to_owned()),
                labels: Some(entry.labels.clone()),
                decision: entry.decision.clone(),
                second: None,
                annotator_a: None,
                annotator_b: None,
                adjudicated: false,
            },
        )?;
    }
    Ok(out)
}

pub(super) fn read_jsonl(text: &str, reading: &Reading<'_>) -> Result<Placed, GoldError> {
    let mut placed = Vec::new();
    for (place, line) in objects::<Own>(text, reading)? {
        let known = |word: &Option<String>| match word {
            None => Ok(None),
            Some(word) => match type_of(word) {
                Some(class) => Ok(Some(class)),
                None => Err(reading.error(&place, format!("{word:?} is no type"))),
            },
        };
        let label = known(&line.label)?;
        if let Some(labels) = line.labels {
            let entry = Entry { item: line.item, labels, decision: line.decision, settled: label };
            placed.push((place, entry));
            continue;
        }
        let mut labels = Vec::new();
        let mut decision = line.decision;
        let given = |name: String, class: KnowledgeType| LabelRecord {
            status: LabelStatus::Labelled,
            class: Some(class),
            ..LabelRecord::bare(&name, reading.origin, reading.now)
        };
        let pair = (known(&line.annotator_a)?, known(&line.annotator_b)?);
        if pair == (None, None) {
            labels.extend(label.map(|class| given(reading.annotator.to_owned(), class)));
            if let (Some(label), Some(second)) = (labels.first_mut(), known(&line.second)?) {
                label.second = Some(second);
            }
        } else {
            labels.extend(pair.0.map(|class| given(format!("{}-a", reading.annotator), class)));
            labels.extend(pair.1.map(|class| given(format!("{}-b", reading.annotator), class)));
            decision = decision.or(label.map(|class| DecisionRecord {
                class,
                why: if line.adjudicated { "a third reading".to_owned() } else { "both agree".to_owned() },
                by: reading.annotator.to_owned(),
                origin: reading.origin,
            }));
        }
        placed.push((place, Entry { item: line.item, labels, decision, settled: label }));
    }
    Ok(placed)
}

/// What we keep in a line of another tool's form.
#[derive(Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) item: ItemRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<LabelRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<DecisionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settled: Option<KnowledgeType>,
}

impl Payload {
    pub(super) fn of(entry: &Entry, label: Option<&LabelRecord>) -> Self {
        Self {
            item: entry.item.clone(),
            label: label.cloned(),
            decision: entry.decision.clone(),
            settled: entry.settled,
        }
    }
}

/// An entry from a line: ours where it is, and what the tool says on top.
fn entry(payload: Option<Payload>, item_id: Option<String>, text: &str, label: Option<LabelRecord>) -> Entry {
    match payload {
        Some(ours) => Entry {
            item: ours.item,
            labels: label.into_iter().collect(),
            decision: ours.decision,
            settled: ours.settled,
        },
        None => Entry {
            item: ItemRecord { id: item_id.unwrap_or_default(), text: Some(text.to_owned()), ..ItemRecord::default() },
            labels: label.into_iter().collect(),
            ..Entry::default()
        },
    }
}

#[derive(Deserialize)]
struct DoccanoLine {
    #[serde(default)]
    text: String,
    #[serde(default, alias = "labels")]
    label: Vec<String>,
    #[serde(default, rename = "Comments", alias = "comments")]
    comments: Vec<String>,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    aac: Option<Payload>,
}

pub(super) fn write_doccano(entries: &[Entry], whose: Option<(&str, i64)>) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let label = entry.labels.iter().find(|l| Some((l.annotator.as_str(), l.pass)) == whose);
        let class: Vec<&str> = label.and_then(|l| l.class).map(KnowledgeType::as_str).into_iter().collect();
        let comments: Vec<&str> = label.map(|l| l.note.as_str()).filter(|note| !note.is_empty()).into_iter().collect();
        push(
            &mut out,
            &json!({
                "id": index + 1,
                "text": entry.item.text.as_deref().unwrap_or_default(),
                "label": class,
                "Comments": comments,
                "item_id": entry.item.id,
                "path": entry.item.path,
                "heading": entry.item.heading.join(" > "),
                "aac": Payload::of(entry, label),
            }),
        )?;
    }
    Ok(out)
}

pub(super) fn read_doccano(text: &str, reading: &Reading<'_>) -> Result<Placed, GoldError> {
    let mut placed = Vec::new();
    for (place, line) in objects::<DoccanoLine>(text, reading)? {
        let class = match &line.label[..] {
            [] => None,
            [one] => Some(type_of(one).ok_or_else(|| reading.error(&place, format!("{one:?} is no type")))?),
            several => {
                return Err(reading.error(&place, format!("it has {} labels, expected one", several.len())));
            }
        };
        let note = line.comments.join("\n");
        let ours = line.aac.as_ref().and_then(|ours| ours.label.clone());
        let said = class.is_some() || !note.is_empty();
        let label = (ours.is_some() || said).then(|| {
            let mut label = ours.unwrap_or_else(|| LabelRecord::bare(reading.annotator, reading.origin, reading.now));
            // doccano cannot say that an item was passed over, so without a label ours stands.
            let skipped = class.is_none() && label.status == LabelStatus::Skipped;
            label.take(class, skipped);
            label.note = note;
            label
        });
        placed.push((place, entry(line.aac, line.item_id, &line.text, label)));
    }
    Ok(placed)
}

#[derive(Deserialize)]
struct ProdigyLine {
    #[serde(default)]
    text: String,
    #[serde(default)]
    accept: Vec<String>,
    #[serde(default)]
    answer: Option<String>,
    #[serde(default)]
    flagged: Option<bool>,
    #[serde(default)]
    note: Option<String>,
    #[serde(default, rename = "_annotator_id")]
    annotator: Option<String>,
    #[serde(default, rename = "_session_id")]
    session: Option<String>,
    #[serde(default, rename = "_timestamp")]
    timestamp: Option<f64>,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    aac: Option<Payload>,
}

/// Prodigy's hashes are signed and of 32 bits.
fn hash(text: &str) -> i32 {
    xxh3_64(text.as_bytes()) as u32 as i32
}

pub(super) fn write_prodigy(entries: &[Entry]) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    let options: Vec<Value> =
        KnowledgeType::ALL.iter().map(|class| json!({ "id": class.as_str(), "text": class.as_str() })).collect();
    for entry in entries {
        let text = entry.item.text.as_deref().unwrap_or_default();
        let mut task = json!({
            "text": text,
            "options": options,
            "item_id": entry.item.id,
            "meta": { "path": entry.item.path, "heading": entry.item.heading.join(" > ") },
            "_view_id": "choice",
            "_input_hash": hash(&entry.item.id),
            "_task_hash": hash(&format!("{} type", entry.item.id)),
            "aac": Payload::of(entry, None),
        });
        if entry.labels.is_empty() {
            push(&mut out, &task)?;
        }
        for label in &entry.labels {
            let accept: Vec<&str> = label.class.map(KnowledgeType::as_str).into_iter().collect();
            task["accept"] = json!(accept);
            // A task without an answer is one that waits.
            task["answer"] = match label.status {
                LabelStatus::Labelled => json!("accept"),
                LabelStatus::Skipped => json!("ignore"),
                LabelStatus::Open => Value::Null,
            };
            task["flagged"] = json!(label.flagged);
            task["note"] = json!(label.note);
            task["_annotator_id"] = json!(label.annotator);
            task["_session_id"] = json!(label.annotator);
            task["_timestamp"] = json!(label.at / 1_000);
            task["aac"] = json!(Payload::of(entry, Some(label)));
            push(&mut out, &task)?;
        }
    }
    Ok(out)
}

pub(super) fn read_prodigy(text: &str, reading: &Reading<'_>) -> Result<Placed, GoldError> {
    let mut placed = Vec::new();
    for (place, line) in objects::<ProdigyLine>(text, reading)? {
        let class = match (&line.accept[..], line.answer.as_deref()) {
            (_, Some("reject")) => {
                return Err(reading.error(&place, "its answer is \"reject\", which names no type"));
            }
            ([one], _) => Some(type_of(one).ok_or_else(|| reading.error(&place, format!("{one:?} is no type")))?),
            ([], _) => None,
            (several, _) => {
                return Err(reading.error(&place, format!("it has {} choices, expected one", several.len())));
            }
        };
        let skipped = line.answer.as_deref() == Some("ignore");
        let ours = line.aac.as_ref().and_then(|ours| ours.label.clone());
        let label = (ours.is_some() || line.answer.is_some()).then(|| {
            let name = line.annotator.as_deref().or(line.session.as_deref()).unwrap_or(reading.annotator);
            let mut label = ours.unwrap_or_else(|| LabelRecord {
                at: line.timestamp.map_or(reading.now, |seconds| (seconds * 1_000.0) as i64),
                ..LabelRecord::bare(name, LabelOrigin::Person, reading.now)
            });
            label.take(class, skipped);
            label.flagged = line.flagged.unwrap_or(label.flagged);
            label.note = line.note.unwrap_or(std::mem::take(&mut label.note));
            label
        });
        placed.push((place, entry(line.aac, line.item_id, &line.text, label)));
    }
    Ok(placed)
}
