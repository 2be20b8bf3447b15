//! Measure the corpus's judgements against labels.

mod answers;
pub mod asked;
pub mod bridge;
pub mod ceiling;
pub mod classifier;
pub mod compactor;
pub mod configurations;
pub mod figure;
pub mod folds;
pub mod paper;
pub mod retrieval;

use super::judging::JudgeError;
use crate::store::Store;
use crate::tag::score::{Scores, TagLabel, score};
use crate::taxonomy::Dimension;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Values with fewer labels stay out of macro means: a single miss would decide them.
const MIN_SUPPORT: usize = 5;

/// Why labels cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The file cannot be read.
    #[error("Failed to read {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is no label.
    #[error("Failed to read {path}, line {line}: {source}; a line holds repo, path, blob, function, authorship, specificity", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There are lines, and none says what any tag should be.
    #[error("{path} has no label of function, authorship or specificity: is it a file of item labels, which `aac evaluate classifier --gold` reads?", path = .path.display())]
    NoTags {
        /// The file.
        path: PathBuf,
    },
}

/// How well tags agree with labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TagEvaluation {
    /// Labels given.
    pub labelled: usize,
    /// Labels whose artifact is in the corpus with the text that was labelled, and tagged.
    pub compared: usize,
    /// Labels whose artifact the corpus lacks.
    pub missing: usize,
    /// Labels whose artifact holds another text now.
    pub changed: usize,
    /// Labels whose artifact has no tags.
    pub untagged: usize,
    /// Figures by dimension.
    pub dimensions: BTreeMap<String, Scores>,
    /// What specificity reached on repositories that its points were not fitted to. The figure above it is over labels
    /// that they were fitted to, if these are the labels that come with aac.
    pub specificity_fitted: crate::tag::Fitted,
}

/// The labels in a file, one JSON object a line.
pub fn read_labels(path: &Path) -> Result<Vec<TagLabel>, LabelError> {
    let text = std::fs::read_to_string(path).map_err(|source| LabelError::File { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// The labels that come with the crate.
pub fn shipped_labels() -> Result<Vec<TagLabel>, LabelError> {
    parse(Path::new("annotation/tags/tags.jsonl"), include_str!("../../annotation/tags/tags.jsonl"))
}

fn parse(path: &Path, text: &str) -> Result<Vec<TagLabel>, LabelError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let labels: Vec<TagLabel> = lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|source| LabelError::Line {
                path: path.to_owned(),
                line: at + 1,
                source,
            })
        })
        .collect::<Result<_, _>>()?;
    let says = |label: &TagLabel| label.function.is_some() || label.authorship.is_some() || label.specificity.is_some();
    if !labels.is_empty() && !labels.iter().any(says) {
        return Err(LabelError::NoTags { path: path.to_owned() });
    }
    Ok(labels)
}

/// Compare labels with the tags of the artifacts at the same path of the same repository, where they hold the same text.
pub async fn evaluate_tags(store: &Store, labels: &[TagLabel]) -> Result<TagEvaluation, JudgeError> {
    let mut found = TagEvaluation {
        labelled: labels.len(),
        compared: 0,
        missing: 0,
        changed: 0,
        untagged: 0,
        dimensions: BTreeMap::new(),
        specificity_fitted: crate::tag::Tagger::shipped().fitted(),
    };
    let mut pairs: BTreeMap<Dimension, Vec<(&str, String)>> = BTreeMap::new();
    for label in labels {
        match store.repo_artifact_oid(&label.repo.key(), &label.path).await? {
            None => found.missing += 1,
            Some(oid) if oid != label.blob => found.changed += 1,
            Some(_) => {
                let tags = store.tags(Some((&label.repo.key(), Some(&label.path)))).await?;
                let tags: HashMap<&str, &str> =
                    tags.iter().map(|tag| (tag.dimension.as_str(), tag.value.as_str())).collect();
                if tags.is_empty() {
                    found.untagged += 1;
                    continue;
                }
                found.compared += 1;
                let labelled = [
                    (Dimension::Function, label.function.map(|v| v.as_str())),
                    (Dimension::Authorship, label.authorship.map(|v| v.as_str())),
                    (Dimension::Specificity, label.specificity.map(|v| v.as_str())),
                ];
                for (dimension, label) in labelled {
                    if let (Some(label), Some(tag)) = (label, tags.get(dimension.as_str())) {
                        pairs.entry(dimension).or_default().push((label, (*tag).to_owned()));
                    }
                }
            }
        }
    }
    for (dimension, pairs) in &pairs {
        let scores = score(pairs.iter().map(|(label, tag)| (*label, tag.as_str())), MIN_SUPPORT);
        found.dimensions.insert(dimension.as_str().to_owned(), scores);
    }
    Ok(found)
}
