//! The store behind retrieval: entries of many bases with their scopes, and a BM25 index over their words.

use super::base::{Base, ItemId, Judgement};
use super::canonical::words;
use super::topics::Scope;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Saturation of the term frequency.
const K1: f32 = 1.2;

/// How much the length of an entry counts.
const B: f32 = 0.75;

/// First line of a written index.
const HEADER: &str = "aac-index 1";

/// One item in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its text.
    pub text: String,
    /// File it comes from.
    pub source: String,
    /// 1-based line there.
    pub line: u32,
    /// The topics it stands under, innermost first, in lower case.
    pub topics: Vec<String>,
    /// For a pinned entry the topics in which it binds, in lower case; `None` binds everywhere.
    pub scope: Option<Vec<String>>,
    /// What it was judged to be.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// Why a written index cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The first line is another one.
    #[error("Failed to read the index: it begins with {found:?} instead of {HEADER:?}; write it anew")]
    Header {
        /// What the first line is.
        found: String,
    },
    /// A line is no entry.
    #[error("Failed to read line {line} of the index: {source}")]
    Entry {
        /// 1-based.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Entries of any number of sources, searchable by words.
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<Entry>,
    lengths: Vec<u32>,
    total_length: u64,
    /// By word: entry and count, ascending.
    postings: HashMap<String, Vec<(u32, u32)>>,
}

impl Index {
    /// All entries; positions are stable until the next change.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Take the items of `base` as the entries of `source`, in place of those it had before. Returns how many entries
    /// are new, by text.
    pub fn replace(&mut self, source: &str, base: &Base) -> usize {
        let scopes = base.scopes();
        let tree = base.topics();
        let name = |topic| tree.get(topic).map(|t| t.name.to_lowercase());
        let entries = base.items().iter().zip(scopes).map(|(item, scope)| Entry {
            text: base.text_of(item).to_owned(),
            source: source.to_owned(),
            line: item.line,
            topics: tree.ancestors(item.topic).filter_map(name).collect(),
            scope: match scope {
                Some(Scope::Topics(ranges)) => {
                    let ids = ranges.into_iter().flatten().map(super::topics::TopicId);
                    Some(ids.filter_map(name).collect())
                }
                _ => None,
            },
            judgement: item.judgement,
        });
        self.replace_entries(source, entries.collect())
    }

    /// Take `entries` as those of `source`, in place of those it had before. Returns how many are new, by text.
    pub fn replace_entries(&mut self, source: &str, entries: Vec<Entry>) -> usize {
        let known: HashSet<ItemId> =
            self.entries.iter().filter(|e| e.source == source).map(|e| ItemId::of(&e.text, 0)).collect();
        let new = entries.iter().filter(|e| !known.contains(&ItemId::of(&e.text, 0))).count();
        if known.is_empty() {
            self.add(entries);
        } else {
            let mut kept: Vec<Entry> =
                std::mem::take(&mut self.entries).into_iter().filter(|e| e.source != source).collect();
            kept.extend(entries);
            *self = Self::default();
            self.add(kept);
        }
        new
    }

    /// Remove all entries of `source`.
    pub fn remove(&mut self, source: &str) {
        self.replace_entries(source, Vec::new());
    }

    fn add(&mut self, entries: Vec<Entry>) {
        let counted: Vec<(u32, HashMap<String, u32>)> = entries
            .par_iter()
            .map(|entry| {
                let mut counts: HashMap<String, u32> = HashMap::new();
                let mut length = 0;
                for term in terms(&entry.text).chain(entry.topics.first().into_iter().flat_map(|t| terms(t))) {
                    *counts.entry(term).or_default() += 1;
                    length += 1;
                }
                (length, counts)
            })
            .collect();
        for (entry, (length, counts)) in entries.into_iter().zip(counted) {
            let at = self.entries.len() as u32;
            self.entries.push(entry);
            self.lengths.push(length);
            self.total_length += u64::from(length);
            for (term, count) in counts {
                self.postings.entry(term).or_default().push((at, count));
            }
        }
    }

    /// The BM25 score of every entry for the words of `query`.
    pub fn scores(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0f32; self.entries.len()];
        let all = self.entries.len() as f32;
        let mean = (self.total_length as f32 / all.max(1.0)).max(1.0);
        let mut asked = HashSet::new();
        for term in terms(query) {
            if !asked.insert(term.clone()) {
                continue;
            }
            let Some(postings) = self.postings.get(&term) else { continue };
            let found = postings.len() as f32;
            let weight = (1.0 + (all - found + 0.5) / (found + 0.5)).ln();
            for (at, count) in postings {
                let count = *count as f32;
                let length = self.lengths[*at as usize] as f32;
                scores[*at as usize] += weight * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean));
            }
        }
        scores
    }

    /// Topics as [`Self::in_scope`] takes them.
    pub(super) fn topic_set(&self, topics: &[String]) -> HashSet<String> {
        topics.iter().cloned().collect()
    }

    /// Pinned entries that bind in one of `topics` or everywhere.
    pub(super) fn in_scope<'s>(&'s self, topics: &'s HashSet<String>) -> impl Iterator<Item = usize> + 's {
        self.entries.iter().enumerate().filter_map(move |(at, entry)| {
            let binds = || match &entry.scope {
                None => true,
                Some(scope) => scope.iter().any(|topic| topics.contains(topic)),
            };
            (entry.judgement.pinned && binds()).then_some(at)
        })
    }

    /// The index as text, one entry a line. [`Self::read`] gives it back.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        let mut text = format!("{HEADER}\n");
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Read what [`Self::write`] wrote.
    pub fn read(text: &str) -> Result<Self, IndexError> {
        let (header, rest) = text.split_once('\n').unwrap_or((text, ""));
        if header.trim_end() != HEADER {
            return Err(IndexError::Header { found: header.chars().take(80).collect() });
        }
        let lines: Vec<&str> = rest.lines().collect();
        let entries: Result<Vec<Entry>, IndexError> = lines
            .par_iter()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(at, line)| serde_json::from_str(line).map_err(|source| IndexError::Entry { line: at + 2, source }))
            .collect();
        let mut index = Self::default();
        index.add(entries?);
        Ok(index)
    }
}

/// Words without their most common endings, so that "orders" finds "order".
fn terms(text: &str) -> impl Iterator<Item = String> + '_ {
    words(text).map(|word| {
        let long = word.len() > 4 && word.is_ascii();
        let stem = if long { word.strip_suffix("ies").map(|w| format!("{w}y")) } else { None };
        match stem {
            Some(stem) => stem,
            None if long && word.ends_with('s') && !word.ends_with("ss") => word[..word.len() - 1].to_owned(),
            None => word,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    #[test]
    fn an_index_reads_back_and_a_source_is_replaced() {
        let mut index = Index::default();
        assert_eq!(index.replace("a.md", &base("# A\n\n- Never x the policies\n- y of the order\n")), 2);
        assert_eq!(index.replace("b.md", &base("- orders\n")), 1);
        assert_eq!(index.replace("a.md", &base("# A\n\n- Never x the policies\n- z\n")), 1);
        assert_eq!(index.entries().len(), 3);
        let back = Index::read(&index.write().unwrap()).unwrap();
        assert_eq!(back.entries(), index.entries());
        assert_eq!(back.scores("policy order"), index.scores("policy order"));
        assert!(back.scores("policy")[1] > 0.0 && back.scores("order")[0] > 0.0);
        index.remove("b.md");
        assert_eq!(index.entries().len(), 2);
    }

    #[test]
    fn what_is_no_index_is_refused_by_line() {
        assert!(Index::read("x").unwrap_err().to_string().contains("begins with \"x\""));
        let error = Index::read("aac-index 1\n{}\n").unwrap_err().to_string();
        assert!(error.starts_with("Failed to read line 2"), "{error}");
    }
}
