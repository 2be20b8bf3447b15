//! Look at one repository, and tell in what it differs from what the store holds of it.

use super::histories::PathFacts;
use super::note::{self, Note};
use super::source::{self, Ask, Candidate, Place, Present};
use super::{IngestError, blocking, now_ms};
use crate::corpus::GitOid;
use crate::license::Verdict;
use crate::plan::Targets;
use crate::repos::{self, Found, Skipped};
use crate::store::{LicenseSubject, RepoFacts, RepoId, RepoRow, Store, StoreError, StoredHistory};
use crate::taxonomy::RepoSource;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What looking at a repository needs; many are looked at at once.
pub(super) struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) targets: Arc<Targets>,
    pub(super) rules: String,
    pub(super) ask: Arc<Ask>,
    /// The repositories that the store holds, by lower-case `owner/name`.
    pub(super) stored: HashMap<String, RepoId>,
}

/// What came of looking at a repository.
pub(super) enum Looked {
    /// As the last run left it.
    Unchanged { slug: String, artifacts: usize, left_out: Vec<Skipped> },
    /// It holds no artifact, and the store does not know it.
    Without { slug: String, left_out: Vec<Skipped> },
    /// It cannot be read.
    Unreadable { slug: String, error: repos::Error },
    /// It may differ.
    Differs(Box<Difference>),
}

/// What is to be written of a repository.
pub(super) struct Difference {
    pub(super) slug: String,
    pub(super) place: Arc<Place>,
    pub(super) row: RepoRow,
    pub(super) stored: Option<RepoId>,
    /// Its key, once this run has written its row.
    pub(super) written: Option<RepoId>,
    /// How many artifacts it holds.
    pub(super) artifacts: usize,
    /// Those whose row is to be written.
    pub(super) fresh: Vec<Candidate>,
    /// Keys of the artifacts that it holds and the store knows, by path.
    pub(super) keys: HashMap<String, i64>,
    /// Paths of artifacts that are no longer there.
    pub(super) gone: Vec<String>,
    /// Histories that are others than the stored ones, by path.
    pub(super) histories: Vec<(String, PathFacts)>,
    /// What the licence files say, and what is stored of the licence.
    pub(super) license: (Verdict, Option<LicenseSubject>),
    /// The note of the last run.
    pub(super) note: Option<Note>,
    pub(super) facts: Value,
    pub(super) skipped: Vec<Skipped>,
}

impl Difference {
    /// The repository's key, if it has one by now.
    pub(super) fn known(&self) -> Option<RepoId> {
        self.written.or(self.stored)
    }
}

/// What the store holds of one repository.
#[derive(Default)]
struct Held {
    present: HashMap<String, GitOid>,
    histories: HashMap<String, StoredHistory>,
    license: Option<LicenseSubject>,
}

impl Held {
    async fn load(store: &Store, repo: RepoId) -> Result<Self, StoreError> {
        let histories = store.repo_histories(repo).await?;
        let subjects = store.license_subjects_after(repo.0 - 1, 1).await?;
        Ok(Self {
            present: store.repo_artifacts(repo).await?,
            histories: histories.into_iter().map(|stored| (stored.path.clone(), stored)).collect(),
            license: subjects.into_iter().find(|subject| subject.id == repo.0),
        })
    }
}

impl View<'_> {
    pub(super) async fn look(&self, found: Found) -> Result<Looked, IngestError> {
        let slug = found.slug.to_string();
        let stored = self.stored.get(&found.slug.key()).copied();
        let note = match stored {
            Some(repo) => Note::load(self.store, repo).await?,
            None => None,
        };
        let facts = note::facts(found.facts.as_ref());
        let done = note.as_ref().and_then(|note| note.done(&self.rules, &facts));
        let (targets, ask) = (Arc::clone(&self.targets), Arc::clone(&self.ask));
        let looking = move || (source::look(&found, &targets, &ask, done), found);
        match blocking(&slug, looking).await? {
            (Err(error), _) => Ok(Looked::Unreadable { slug, error }),
            (Ok(None), _) => {
                let artifacts = match stored {
                    Some(repo) => self.store.repo_artifacts(repo).await?.len(),
                    None => 0,
                };
                let left_out = note.iter().flat_map(Note::left_out).collect();
                Ok(Looked::Unchanged { slug, artifacts, left_out })
            }
            (Ok(Some(present)), _) if stored.is_none() && present.entries.is_empty() => {
                Ok(Looked::Without { slug, left_out: present.skipped })
            }
            (Ok(Some(present)), found) => {
                let row = row(&found, present.place.head, present.branch.clone());
                Ok(Looked::Differs(Box::new(self.compare(slug, row, stored, note, facts, present).await?)))
            }
        }
    }

    async fn compare(
        &self,
        slug: String,
        row: RepoRow,
        stored: Option<RepoId>,
        note: Option<Note>,
        facts: Value,
        present: Present,
    ) -> Result<Difference, IngestError> {
        let Present { place, entries, histories, license, skipped, .. } = present;
        let held = match stored {
            Some(repo) => Held::load(self.store, repo).await?,
            None => Held::default(),
        };
        let place = Arc::new(place);
        let now: HashSet<&str> = entries.iter().map(|c| c.path.as_str()).collect();
        let missing: Vec<String> = held.present.keys().filter(|path| !now.contains(path.as_str())).cloned().collect();
        let gone = if missing.is_empty() {
            missing
        } else {
            let place = Arc::clone(&place);
            blocking(&slug, move || missing.into_iter().filter(|path| place.lacks(path)).collect()).await?
        };
        let is_stored = |path: &str, now: &PathFacts| {
            let stored = held.histories.get(path).and_then(|stored| stored.history.as_ref());
            stored.is_some_and(|(complete, facts)| (*complete, facts) == (now.complete, &now.facts))
        };
        let histories = entries.iter().zip(histories).filter(|(c, now)| !is_stored(&c.path, now));
        let histories = histories.map(|(c, now)| (c.path.clone(), now)).collect();
        let keys = held.histories.iter().filter(|(path, _)| held.present.contains_key(path.as_str()));
        let keys = keys.map(|(path, stored)| (path.clone(), stored.artifact)).collect();
        let artifacts = entries.len();
        // A change of the rules may give an unchanged path another owner, so then every row is written.
        let every = note.as_ref().is_none_or(|note| note.rules != self.rules);
        let fresh = entries.into_iter().filter(|c| every || held.present.get(&c.path) != Some(&c.entry.oid)).collect();
        let license = (license, held.license);
        let written = None;
        Ok(Difference {
            slug,
            place,
            row,
            stored,
            written,
            artifacts,
            fresh,
            keys,
            gone,
            histories,
            license,
            note,
            facts,
            skipped,
        })
    }
}

fn row(found: &Found, head: Option<GitOid>, branch: Option<String>) -> RepoRow {
    let facts = found.facts.as_ref();
    RepoRow {
        node_id: None,
        slug: found.slug.clone(),
        source: RepoSource::Local,
        facts: RepoFacts {
            stars: facts.and_then(|f| f.stars).and_then(|stars| i64::try_from(stars).ok()),
            language: facts.and_then(|f| f.language.clone()),
            license_api: facts.and_then(|f| f.license.clone()),
            default_branch: facts.and_then(|f| f.default_branch.clone()).or(branch),
            head,
            ..RepoFacts::default()
        },
        facts_at: facts.map(|_| now_ms()),
    }
}
