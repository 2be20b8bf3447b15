//! What is remembered of a repository between runs, so that the next one can tell that nothing is to be done and say
//! again what was left out.

use super::IngestOptions;
use crate::corpus::{GitOid, Sha256};
use crate::github::HISTORY_COMMITS;
use crate::license;
use crate::plan::Targets;
use crate::repos::{Facts, Skipped};
use crate::store::{RepoId, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Kept under [`key`] beside the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The commit whose artifacts are all stored; nothing for a folder, or when something failed and is tried again.
    pub(super) head: Option<String>,
    /// [`rules`] of the run.
    pub(super) rules: String,
    /// [`facts`] of the run.
    facts: Value,
    /// What was left out by rule: path and why.
    left_out: Vec<(String, String)>,
}

impl Note {
    pub(super) fn new(head: Option<GitOid>, rules: &str, facts: Value, skipped: &[Skipped]) -> Self {
        let left_out = skipped.iter().filter(|s| !s.failed).map(|s| (s.path.clone(), s.why.clone())).collect();
        Self { head: head.map(|head| head.to_string()), rules: rules.to_owned(), facts, left_out }
    }

    pub(super) async fn load(store: &Store, repo: RepoId) -> Result<Option<Self>, StoreError> {
        // A note that another release wrote is none: the repository is looked at once more.
        Ok(store.setting(&key(repo)).await?.and_then(|note| serde_json::from_str(&note).ok()))
    }

    /// The setting that keeps it: key and value.
    pub(super) fn setting(&self, repo: RepoId) -> (String, String) {
        (key(repo), json!(self).to_string())
    }

    /// The head at which there is nothing to do, if the rules and what is known of the repository are still the same.
    pub(super) fn done(&self, rules: &str, facts: &Value) -> Option<GitOid> {
        (self.rules == rules && self.facts == *facts).then_some(self.head.as_ref()?.parse().ok()).flatten()
    }

    pub(super) fn left_out(&self) -> impl Iterator<Item = Skipped> + '_ {
        self.left_out.iter().map(|(path, why)| Skipped::by_rule(path.as_str(), why.as_str()))
    }
}

fn key(repo: RepoId) -> String {
    format!("ingest/{}", repo.0)
}

/// What a `repos.jsonl` says of a repository.
pub(super) fn facts(told: Option<&Facts>) -> Value {
    told.map_or(Value::Null, |f| json!([f.stars, f.language, f.license, f.default_branch]))
}

/// A digest that changes whenever the same tree could give other rows.
pub(super) fn rules(targets: &Targets, options: &IngestOptions) -> String {
    let paths: Vec<_> = targets.selected().map(|t| (&t.id, &t.paths, &t.corroborated_by)).collect();
    let authors = include_str!("../../../queries/tag/authors.toml");
    Sha256::of(json!([paths, options.max_bytes, authors, HISTORY_COMMITS, license::VERSION]).to_string().as_bytes())
        .to_string()
}
