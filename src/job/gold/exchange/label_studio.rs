//! Label Studio's task list. Its labelling configuration is `annotation/label-studio.xml`.

use super::lines::Payload;
use super::{Entry, ItemRecord, LabelRecord, Reading, type_of};
use crate::job::gold::GoldError;
use crate::taxonomy::{KnowledgeType, LabelStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A choice of the control `name`.
fn choice(id: &str, name: &str, choice: &str) -> Value {
    json!({
        "id": id, "from_name": name, "to_name": "text", "type": "choices", "origin": "manual",
        "value": { "choices": [choice] },
    })
}

/// When, as Label Studio writes it.
fn time(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).map(|time| time.to_string()).unwrap_or_default()
}

pub(super) fn write(entries: &[Entry]) -> Result<String, serde_json::Error> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for label in entries.iter().flat_map(|entry| &entry.labels) {
        numbers.insert(&label.annotator, 0);
    }
    numbers.values_mut().enumerate().for_each(|(index, number)| *number = index + 1);
    let mut next = 0;
    let tasks: Vec<Value> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            let annotations: Vec<Value> = entry
                .labels
                .iter()
                .map(|label| {
                    next += 1;
                    annotation(next, numbers[label.annotator.as_str()], label)
                })
                .collect();
            let suggested = entry.labels.iter().find_map(|label| label.preannotated);
            let predictions: Vec<Value> = suggested
                .map(|class| {
                    json!({ "model_version": "aac", "result": [choice(&format!("p{index}"), "type", class.as_str())] })
                })
                .into_iter()
                .collect();
            json!({
                "id": index + 1,
                "data": {
                    "text": entry.item.text.as_deref().unwrap_or_default(),
                    "item_id": entry.item.id,
                    "path": entry.item.path.as_deref().unwrap_or_default(),
                    "heading": entry.item.heading.join(" > "),
                },
                "annotations": annotations,
                "predictions": predictions,
                "aac": Payload::of(entry, None),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&tasks)? + "\n")
}

fn annotation(id: usize, number: usize, label: &LabelRecord) -> Value {
    let mut result: Vec<Value> = Vec::new();
    result.extend(label.class.map(|class| choice(&format!("t{id}"), "type", class.as_str())));
    result.extend(label.second.map(|class| choice(&format!("s{id}"), "second", class.as_str())));
    result.extend(label.flagged.then(|| choice(&format!("f{id}"), "flag", "flagged")));
    if !label.note.is_empty() {
        result.push(json!({
            "id": format!("n{id}"), "from_name": "note", "to_name": "text", "type": "textarea", "origin": "manual",
            "value": { "text": [label.note] },
        }));
    }
    json!({
        "id": id,
        "completed_by": number,
        "created_username": label.annotator,
        "created_at": time(label.at),
        "updated_at": time(label.at),
        "was_cancelled": label.status == LabelStatus::Skipped,
        "ground_truth": false,
        "lead_time": label.seconds,
        "result": result,
        "aac": label,
    })
}

#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    data: Value,
    #[serde(default)]
    annotations: Vec<Annotation>,
    #[serde(default)]
    aac: Option<Payload>,
}

#[derive(Deserialize)]
struct Annotation {
    #[serde(default)]
    completed_by: Value,
    #[serde(default)]
    created_username: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    was_cancelled: bool,
    #[serde(default)]
    lead_time: Option<f64>,
    #[serde(default)]
    result: Vec<Region>,
    #[serde(default)]
    aac: Option<LabelRecord>,
}

#[derive(Deserialize)]
struct Region {
    #[serde(default)]
    from_name: String,
    #[serde(default)]
    value: Value,
}

impl Region {
    fn words(&self, key: &str) -> Vec<&str> {
        match &self.value[key] {
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
            Value::String(word) => vec![word],
            _ => Vec::new(),
        }
    }
}

impl Annotation {
    fn who(&self, reading: &Reading<'_>) -> String {
        let named = self.created_username.clone().or_else(|| self.completed_by["email"].as_str().map(str::to_owned));
        named.unwrap_or_else(|| match self.completed_by.as_i64().or_else(|| self.completed_by["id"].as_i64()) {
            Some(number) => format!("label-studio-{number}"),
            None => reading.annotator.to_owned(),
        })
    }

    fn label(self, place: &str, reading: &Reading<'_>) -> Result<LabelRecord, GoldError> {
        let choices = |name: &str| -> Result<Option<KnowledgeType>, GoldError> {
            let words: Vec<&str> =
                self.result.iter().filter(|r| r.from_name == name).flat_map(|r| r.words("choices")).collect();
            match words[..] {
                [] => Ok(None),
                [word] => type_of(word).map(Some).ok_or_else(|| reading.error(place, format!("{word:?} is no type"))),
                _ => Err(reading.error(place, format!("{} choices in {name:?}, expected one", words.len()))),
            }
        };
        let (class, second) = (choices("type")?, choices("second")?);
        let at = self.created_at.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let mut label = self.aac.clone().unwrap_or_else(|| LabelRecord {
            at: at.map_or(reading.now, jiff::Timestamp::as_millisecond),
            ..LabelRecord::bare(&self.who(reading), reading.origin, reading.now)
        });
        label.take(class, self.was_cancelled);
        label.second = second;
        label.flagged = self.result.iter().any(|r| r.from_name == "flag" && !r.words("choices").is_empty());
        let notes = self.result.iter().filter(|r| r.from_name == "note").flat_map(|r| r.words("text"));
        label.note = notes.collect::<Vec<_>>().join("\n");
        label.seconds = self.lead_time;
        Ok(label)
    }
}

pub(super) fn read(text: &str, reading: &Reading<'_>) -> Result<Vec<(String, Entry)>, GoldError> {
    let tasks: Vec<Task> =
        serde_json::from_str(text).map_err(|error| reading.error(format!("line {}", error.line()), error))?;
    let mut placed = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.into_iter().enumerate() {
        let place = format!("task {}", index + 1);
        let labels = task
            .annotations
            .into_iter()
            .map(|annotation| annotation.label(&place, reading))
            .collect::<Result<Vec<_>, _>>()?;
        let word = |key: &str| task.data[key].as_str().map(str::to_owned);
        let entry = match task.aac {
            Some(ours) => Entry { item: ours.item, labels, decision: ours.decision, settled: ours.settled },
            None => Entry {
                item: ItemRecord {
                    id: word("item_id").unwrap_or_default(),
                    text: word("text"),
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
