//! Compare one repository with what the store holds of it, and write what differs.

use super::histories::PathFacts;
use super::note::{self, Note};
use super::source::{self, Ask, Candidate, Present, Source};
use super::{IngestError, Job, blocking, left_out, now_ms};
use crate::corpus::GitOid;
use crate::job::license;
use crate::license::{Verdict, combine, from_api};
use crate::plan::Targets;
use crate::repos::{self, Found, Mode, Skipped};
use crate::store::{ArtifactRow, BlobId, HistoryRow, RepoFacts, RepoId, RepoRow, RunId, Store};
use crate::taxonomy::{FileMode, Presence, RepoSource};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What looking at a repository needs; many are looked at at once.
pub(super) struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) targets: Arc<Targets>,
    pub(super) rules: String,
    pub(super) ask: Arc<Ask>,
}

/// A repository as it is now, beside what is known of it.
pub(super) struct Looked {
    found: Found,
    stored: Option<RepoId>,
    note: Option<Note>,
    facts: Value,
    /// Nothing when it is as the last run left it.
    now: Result<Option<Present>, repos::Error>,
}

impl View<'_> {
    pub(super) async fn look(&self, found: Found) -> Result<Looked, IngestError> {
        let key = found.slug.key();
        let stored = self.store.repo_heads(std::slice::from_ref(&key)).await?.get(&key).map(|(repo, _)| *repo);
        let note = match stored {
            Some(repo) => Note::load(self.store, repo).await?,
            None => None,
        };
        let facts = note::facts(found.facts.as_ref());
        let done = note.as_ref().and_then(|note| note.done(&self.rules, &facts));
        let (targets, ask) = (Arc::clone(&self.targets), Arc::clone(&self.ask));
        let (slug, opened) = (found.slug.to_string(), found.clone());
        let now = blocking(&slug, move || source::look(&opened, &targets, &ask, done)).await?;
        Ok(Looked { found, stored, note, facts, now })
    }
}

/// A repository's row, written when something of it is.
struct RepoWriter {
    stored: Option<RepoId>,
    row: RepoRow,
    repo: Option<RepoId>,
}

impl RepoWriter {
    /// The repository's key, if it has one by now.
    fn known(&self) -> Option<RepoId> {
        self.repo.or(self.stored)
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

impl Job<'_> {
    /// Bring the store up to date with one repository.
    pub(super) async fn update(&mut self, view: &View<'_>, looked: Looked) -> Result<(), IngestError> {
        let Looked { found, stored, note, facts, now } = looked;
        let slug = found.slug.to_string();
        let present = match now {
            Ok(Some(present)) => present,
            Ok(None) => {
                self.summary.repos += 1;
                self.summary.unchanged_repos += 1;
                if let Some(repo) = stored {
                    self.summary.artifacts += self.store.repo_artifacts(repo).await?.len();
                }
                self.leave_out(&slug, note.iter().flat_map(Note::left_out));
                return Ok(());
            }
            Err(error) => {
                let skipped = Skipped::because(slug.as_str(), &error);
                self.summary.skipped.push(left_out(slug, skipped));
                return Ok(());
            }
        };
        if stored.is_none() && present.entries.is_empty() {
            self.leave_out(&slug, present.skipped);
            return Ok(());
        }
        self.summary.repos += 1;
        // A change of the rules may give an unchanged path another owner, so then every row is written.
        let every = note.as_ref().is_none_or(|note| note.rules != view.rules);
        let mut writer = RepoWriter { stored, row: row(&found, present.head, present.branch.clone()), repo: None };
        let (head, is_git) = (present.head, matches!(present.source, Source::Git(_)));
        let skipped = self.write_present(&mut writer, &slug, present, every).await?;
        let whole = is_git && !skipped.iter().any(|skipped| skipped.failed);
        let new = Note::new(head.filter(|_| whole), &view.rules, facts, &skipped);
        if note.as_ref() != Some(&new) && writer.known().is_some() {
            let (_, repo) = self.key(&mut writer).await?;
            new.save(self.store, repo).await?;
        }
        self.leave_out(&slug, skipped);
        Ok(())
    }

    /// Write the artifacts and histories that differ from the stored ones; with `every`, all artifacts. Gives what was
    /// left out.
    async fn write_present(
        &mut self,
        writer: &mut RepoWriter,
        slug: &str,
        present: Present,
        every: bool,
    ) -> Result<Vec<Skipped>, IngestError> {
        let Present { source, head, entries, histories, license, mut skipped, .. } = present;
        let held = match writer.stored {
            Some(repo) => self.store.repo_artifacts(repo).await?,
            None => HashMap::new(),
        };
        let now: HashSet<&str> = entries.iter().map(|c| c.path.as_str()).collect();
        let missing: Vec<String> = held.keys().filter(|path| !now.contains(path.as_str())).cloned().collect();
        let gone = {
            let source = source.clone();
            let lacking = move || missing.into_iter().filter(|path| source.lacks(head, path)).collect::<Vec<_>>();
            blocking(slug, lacking).await?
        };
        self.summary.artifacts += entries.len();
        let mut facts: HashMap<String, PathFacts> = HashMap::with_capacity(histories.len());
        for (candidate, history) in entries.iter().zip(histories) {
            facts.insert(candidate.path.clone(), history);
        }
        let fresh: Vec<Candidate> =
            entries.into_iter().filter(|c| every || held.get(&c.path) != Some(&c.entry.oid)).collect();
        for batch in source::batches(fresh) {
            skipped.extend(self.write(writer, slug, &source, head, batch).await?);
        }
        if !gone.is_empty() {
            let (run, repo) = self.key(writer).await?;
            self.store.set_artifact_presence(run, repo, &gone, Presence::Gone).await?;
            self.summary.gone += gone.len();
        }
        self.write_histories(writer, head, facts).await?;
        self.write_license(writer, license).await?;
        skipped.sort_unstable();
        Ok(skipped)
    }

    /// Store the histories that are others than the stored ones.
    async fn write_histories(
        &mut self,
        writer: &mut RepoWriter,
        head: Option<GitOid>,
        facts: HashMap<String, PathFacts>,
    ) -> Result<(), IngestError> {
        let Some(repo) = writer.known().filter(|_| !facts.is_empty()) else { return Ok(()) };
        let mut rows = Vec::new();
        for stored in self.store.repo_histories(repo).await? {
            let Some(now) = facts.get(&stored.path) else { continue };
            let text = serde_json::to_string(&now.facts)
                .map_err(|error| IngestError::Worker { what: stored.path.clone(), why: error.to_string() })?;
            if stored.history.as_ref() != Some(&(now.complete, text.clone())) {
                rows.push(HistoryRow { artifact: stored.artifact, head, complete: now.complete, facts: text });
            }
        }
        if !rows.is_empty() {
            let (run, _) = self.key(writer).await?;
            self.store.put_histories(run, &rows).await?;
            self.summary.histories += rows.len();
        }
        Ok(())
    }

    /// Store the verdict on what is known of the repository's licence and on its licence files, if it is another.
    async fn write_license(&mut self, writer: &mut RepoWriter, texts: Verdict) -> Result<(), IngestError> {
        let Some(repo) = writer.known() else { return Ok(()) };
        let subjects = self.store.license_subjects_after(repo.0 - 1, 1).await?;
        let Some(subject) = subjects.into_iter().find(|subject| subject.id == repo.0) else { return Ok(()) };
        let told = writer.row.facts.license_api.as_deref().or(subject.license_api.as_deref());
        let verdict = license::row(repo, &combine(from_api(told), texts));
        if !license::is_stored(&subject, &verdict) {
            self.key(writer).await?;
            self.store.put_licenses(&[verdict]).await?;
            self.summary.licenses += 1;
        }
        Ok(())
    }

    /// The run and the repository's key, both made when first asked for.
    async fn key(&mut self, writer: &mut RepoWriter) -> Result<(RunId, RepoId), IngestError> {
        let run = self.run().await?;
        if let Some(repo) = writer.repo {
            return Ok((run, repo));
        }
        let ids = self.store.put_repos(run, std::slice::from_ref(&writer.row)).await?;
        let repo = ids.first().copied().or(writer.stored).ok_or_else(|| IngestError::Worker {
            what: writer.row.slug.to_string(),
            why: "the corpus gave its repository no key".to_owned(),
        })?;
        writer.repo = Some(repo);
        Ok((run, repo))
    }

    /// Store one batch of artifacts. Gives what could not be read.
    async fn write(
        &mut self,
        writer: &mut RepoWriter,
        slug: &str,
        source: &Source,
        head: Option<GitOid>,
        batch: Vec<Candidate>,
    ) -> Result<Vec<Skipped>, IngestError> {
        let oids: Vec<GitOid> = batch.iter().map(|c| c.entry.oid).collect();
        let mut blobs: HashMap<GitOid, BlobId> = self.store.known_oids(&oids).await?;
        let codec = self.store.codec();
        let (source, limit) = (source.clone(), self.options.max_bytes);
        let known: HashSet<GitOid> = blobs.keys().copied().collect();
        let read = blocking(slug, move || source.read_all(head, batch, &known, &codec, limit)).await?;
        if read.candidates.is_empty() {
            return Ok(read.skipped);
        }
        let (run, repo) = self.key(writer).await?;
        let ids = self.store.put_blobs(run, &read.blobs).await?;
        blobs.extend(read.blobs.iter().zip(ids).map(|(blob, id)| (blob.git_oid, id)));
        self.summary.blobs += read.blobs.len();
        let rows: Vec<ArtifactRow> = read
            .candidates
            .into_iter()
            .filter_map(|(candidate, resolves_to)| {
                Some(ArtifactRow {
                    repo,
                    blob: *blobs.get(&candidate.entry.oid)?,
                    mode: match candidate.entry.mode {
                        Mode::Executable => FileMode::Executable,
                        Mode::Symlink => FileMode::Symlink,
                        _ => FileMode::File,
                    },
                    path: candidate.path,
                    platform: candidate.platform,
                    target: candidate.target,
                    resolves_to,
                    commit: head,
                })
            })
            .collect();
        let written = self.store.put_artifacts(run, &rows).await?;
        self.summary.added += written.added;
        self.summary.changed += written.changed;
        Ok(read.skipped)
    }

    fn leave_out(&mut self, slug: &str, skipped: impl IntoIterator<Item = Skipped>) {
        self.summary.skipped.extend(skipped.into_iter().map(|s| left_out(format!("{slug}:{}", s.path), s)));
    }
}
