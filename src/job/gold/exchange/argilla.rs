//! Argilla 2 records, as `dataset.records.from_json` reads them: one text field, the label question `type` and the text
//! question `note`. Argilla knows annotators by UUID; ours are made from the name.

use super::lines::Payload;
use super::{Entry, ItemRecord, LabelRecord, Reading, type_of};
use crate::corpus::Sha256;
use crate::job::gold::GoldError;
use crate::taxonomy::LabelStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

/// The UUID that stands for an annotator's round (version 8: made by our own rule).
fn user_id(annotator: &str, pass: i64) -> String {
    let digest = Sha256::of(format!("{annotator}\u{0}{pass}").as_bytes()).to_string();
    let d = |range: std::ops::Range<usize>| digest.get(range).unwrap_or_default();
    format!("{}-{}-8{}-8{}-{}", d(0..8), d(8..12), d(12..15), d(15..18), d(18..30))
}

/// What we keep: Argilla's metadata holds no nested values, so it goes in as text.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    payload: Payload,
    labels: Vec<LabelRecord>,
}

pub(super) fn write(entries: &[Entry]) -> Result<String, serde_json::Error> {
    let mut records = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut responses: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for label in &entry.labels {
            let user = user_id(&label.annotator, label.pass);
            if let Some(class) = label.class {
                let response = json!({ "value": class.as_str(), "user_id": user });
                responses.entry("type").or_default().push(response);
            }
            if !label.note.is_empty() {
                let response = json!({ "value": label.note, "user_id": user });
                responses.entry("note").or_default().push(response);
            }
        }
        let suggested = entry.labels.iter().find_map(|label| label.preannotated);
        let suggestions: Value = match suggested {
            Some(class) => json!({ "type": { "value": class.as_str(), "score": null, "agent": "aac" } }),
            None => json!({}),
        };
        let kept = Kept { payload: Payload::of(entry, None), labels: entry.labels.clone() };
        let labelled = entry.labels.iter().any(|label| label.status == LabelStatus::Labelled);
        records.push(json!({
            "id": entry.item.id,
            "fields": { "text": entry.item.text.as_deref().unwrap_or_default() },
            "metadata": {
                "path": entry.item.path.as_deref().unwrap_or_default(),
                "heading": entry.item.heading.join(" > "),
                "aac": serde_json::to_string(&kept)?,
            },
            "suggestions": suggestions,
            "responses": responses,
            "vectors": {},
            "status": if labelled { "completed" } else { "pending" },
            "_server_id": null,
        }));
    }
    Ok(serde_json::to_string_pretty(&records)? + "\n")
}

#[derive(Deserialize)]
struct Record {
    id: Value,
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
    #[serde(default)]
    responses: BTreeMap<String, Vec<Response>>,
}

#[derive(Deserialize)]
struct Response {
    value: Value,
    user_id: String,
}

pub(super) fn read(text: &str, reading: &Reading<'_>) -> Result<Vec<(String, Entry)>, GoldError> {
    let records: Vec<Record> =
        serde_json::from_str(text).map_err(|error| reading.error(format!("line {}", error.line()), error))?;
    let mut placed = Vec::with_capacity(records.len());
    for (index, record) in records.into_iter().enumerate() {
        let place = format!("record {}", index + 1);
        let kept: Option<Kept> = match record.metadata.get("aac").and_then(Value::as_str) {
            Some(text) => Some(serde_json::from_str(text).map_err(|error| reading.error(&place, error))?),
            None => None,
        };
        let (payload, mut labels) = kept.map(|kept| (kept.payload, kept.labels)).unzip();
        let labels = labels.get_or_insert_default();
        let mut said: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
        for (question, responses) in &record.responses {
            let mut users = HashSet::new();
            for response in responses {
                if !users.insert(&response.user_id) {
                    return Err(reading.error(&place, format!("{} answers {question:?} twice", response.user_id)));
                }
                let both = said.entry(&response.user_id).or_default();
                match question.as_str() {
                    "type" => both.0 = response.value.as_str(),
                    "note" => both.1 = response.value.as_str(),
                    _ => {}
                }
            }
        }
        for label in labels.iter_mut() {
            let (class, note) = said.remove(user_id(&label.annotator, label.pass).as_str()).unwrap_or_default();
            put(label, class, note, &place, reading)?;
        }
        for (user, (class, note)) in said {
            let name = format!("argilla-{}", user.get(..8).unwrap_or(user));
            let mut label = LabelRecord::bare(&name, reading.origin, reading.now);
            put(&mut label, class, note, &place, reading)?;
            labels.push(label);
        }
        let labels = std::mem::take(labels);
        let entry = match payload {
            Some(ours) => Entry { item: ours.item, labels, decision: ours.decision, settled: ours.settled },
            None => Entry {
                item: ItemRecord {
                    id: record.id.as_str().map_or_else(|| record.id.to_string(), str::to_owned),
                    text: record.fields.get("text").and_then(Value::as_str).map(str::to_owned),
                    ..ItemRecord::default()
                },
                labels,
                ..Entry::default()
            },
        };
        placed.push((place, entry));
    }
    Ok(placed)
}

/// Responses on a label. A record in this form does not tell discarded responses, so without one ours stands.
fn put(
    label: &mut LabelRecord,
    class: Option<&str>,
    note: Option<&str>,
    place: &str,
    reading: &Reading<'_>,
) -> Result<(), GoldError> {
    let class = match class {
        Some(word) => Some(type_of(word).ok_or_else(|| reading.error(place, format!("{word:?} is no type")))?),
        None => None,
    };
    let skipped = class.is_none() && label.status == LabelStatus::Skipped;
    label.take(class, skipped);
    label.note = note.unwrap_or_default().to_owned();
    Ok(())
}
