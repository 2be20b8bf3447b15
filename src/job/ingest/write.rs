//! Write what differs: blobs before the artifacts that hold them, these before their histories, the notes last.

use super::group::{self, Group};
use super::look::{Difference, Looked, View};
use super::note::Note;
use super::source::{Read, Source};
use super::{IngestError, Job, left_out};
use crate::corpus::GitOid;
use crate::job::license;
use crate::license::{combine, from_api};
use crate::repos::{Mode, Skipped};
use crate::store::{ArtifactRow, BlobId, HistoryRow, LicenseRow, RepoId, RepoRow};
use crate::taxonomy::{FileMode, Presence};
use std::collections::{HashMap, HashSet};

impl Job<'_> {
    /// Bring the store up to date with the repositories of a group.
    pub(super) async fn write(&mut self, view: &View<'_>, group: Group) -> Result<(), IngestError> {
        let Group { mut looked, read, unread, .. } = group;
        if let Some(read) = read {
            self.write_batch(&mut looked, read).await?;
        }
        for batch in unread {
            let read = group::read(view, batch, &HashSet::new()).await?;
            self.write_batch(&mut looked, read).await?;
        }
        self.write_rest(view, &mut looked).await?;
        for looked in looked {
            self.count(looked);
        }
        Ok(())
    }

    /// Store one batch of artifacts.
    async fn write_batch(&mut self, looked: &mut [Looked], read: Read) -> Result<(), IngestError> {
        let mut repos: HashMap<usize, &mut Difference> = looked.iter_mut().enumerate().filter_map(difference).collect();
        for (repository, skipped) in read.skipped {
            repos.entry(repository).and_modify(|found| found.skipped.push(skipped));
        }
        if read.candidates.is_empty() {
            return Ok(());
        }
        let run = self.run().await?;
        let oids: HashSet<GitOid> = read.blobs.iter().map(|blob| blob.git_oid).collect();
        let known =
            read.candidates.iter().map(|(fresh, _)| fresh.candidate.entry.oid).filter(|oid| !oids.contains(oid));
        let mut blobs: HashMap<GitOid, BlobId> = self.store.known_oids(&known.collect::<Vec<_>>()).await?;
        let mut tx = self.store.begin().await?;
        for (fresh, _) in &read.candidates {
            if let Some(found) = repos.get_mut(&fresh.repository).filter(|found| found.written.is_none()) {
                let keys = self.store.put_repos_in(&mut tx, run, std::slice::from_ref(&found.row)).await?;
                found.written = keys.first().copied();
            }
        }
        let ids = self.store.put_blobs_in(&mut tx, run, &read.blobs).await?;
        blobs.extend(read.blobs.iter().zip(ids).map(|(blob, id)| (blob.git_oid, id)));
        let rows = read.candidates.into_iter().filter_map(|(fresh, resolves_to)| {
            let found = repos.get(&fresh.repository)?;
            let candidate = fresh.candidate;
            let row = ArtifactRow {
                repo: found.written?,
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
                commit: found.place.head,
            };
            Some((fresh.repository, row))
        });
        let (of, rows): (Vec<usize>, Vec<ArtifactRow>) = rows.unzip();
        let (written, keys) = self.store.put_artifacts_in(&mut tx, run, &rows).await?;
        self.store.commit(tx).await?;
        for ((repository, row), key) in of.into_iter().zip(rows).zip(keys) {
            repos.entry(repository).and_modify(|found| _ = found.keys.insert(row.path, key));
        }
        self.summary.blobs += oids.len();
        self.summary.added += written.added;
        self.summary.changed += written.changed;
        Ok(())
    }

    /// Store what comes after the artifacts: which are gone, histories, licences, notes.
    async fn write_rest(&mut self, view: &View<'_>, looked: &mut [Looked]) -> Result<(), IngestError> {
        let (mut repos, mut histories, mut licenses, mut notes) = <(Vec<RepoRow>, Vec<_>, Vec<_>, Vec<_>)>::default();
        for (_, found) in looked.iter_mut().enumerate().filter_map(difference) {
            found.skipped.sort_unstable();
            // Nothing of it could be read, now or ever.
            let Some(repo) = found.known() else { continue };
            if !found.gone.is_empty() {
                let run = self.run().await?;
                self.store.set_artifact_presence(run, repo, &found.gone, Presence::Gone).await?;
            }
            let before = (histories.len(), licenses.len(), notes.len());
            histories.extend(history_rows(found));
            licenses.extend(license_row(found, repo));
            notes.extend(note(found, &view.rules).map(|note| note.setting(repo)));
            let differs = !found.gone.is_empty() || before != (histories.len(), licenses.len(), notes.len());
            repos.extend((differs && found.written.is_none()).then(|| found.row.clone()));
        }
        if repos.is_empty() && histories.is_empty() && licenses.is_empty() && notes.is_empty() {
            return Ok(());
        }
        let run = self.run().await?;
        let mut tx = self.store.begin().await?;
        self.store.put_repos_in(&mut tx, run, &repos).await?;
        self.store.put_histories_in(&mut tx, run, &histories).await?;
        self.store.put_licenses_in(&mut tx, &licenses).await?;
        for (key, note) in notes {
            self.store.set_setting_in(&mut tx, &key, &note).await?;
        }
        self.store.commit(tx).await?;
        self.summary.histories += histories.len();
        self.summary.licenses += licenses.len();
        Ok(())
    }

    /// Enter a repository in the summary.
    fn count(&mut self, looked: Looked) {
        match looked {
            Looked::Unchanged { slug, artifacts, left_out } => {
                self.summary.repos += 1;
                self.summary.unchanged_repos += 1;
                self.summary.artifacts += artifacts;
                self.leave_out(&slug, left_out);
            }
            Looked::Without { slug, left_out } => self.leave_out(&slug, left_out),
            Looked::Unreadable { slug, error } => {
                let skipped = Skipped::because(slug.as_str(), &error);
                self.summary.skipped.push(left_out(slug, skipped));
            }
            Looked::Differs(found) => {
                self.summary.repos += 1;
                self.summary.artifacts += found.artifacts;
                self.summary.gone += found.gone.len();
                self.leave_out(&found.slug, found.skipped);
            }
        }
    }

    fn leave_out(&mut self, slug: &str, skipped: impl IntoIterator<Item = Skipped>) {
        self.summary.skipped.extend(skipped.into_iter().map(|s| left_out(format!("{slug}:{}", s.path), s)));
    }
}

fn difference((place, looked): (usize, &mut Looked)) -> Option<(usize, &mut Difference)> {
    match looked {
        Looked::Differs(found) => Some((place, found)),
        _ => None,
    }
}

/// The histories to be written, of artifacts that are stored.
fn history_rows(found: &mut Difference) -> Vec<HistoryRow> {
    let (keys, head) = (&found.keys, found.place.head);
    let histories = std::mem::take(&mut found.histories).into_iter();
    let row = |(path, now): (String, super::histories::PathFacts)| {
        let artifact = *keys.get(&path)?;
        Some(HistoryRow { artifact, head, complete: now.complete, facts: now.facts })
    };
    histories.filter_map(row).collect()
}

/// The verdict on what is known of the repository's licence and on its licence files, if it is another than the stored.
fn license_row(found: &Difference, repo: RepoId) -> Option<LicenseRow> {
    let (texts, stored) = &found.license;
    if found.stored.is_some() && stored.is_none() {
        // Its owner opted out, and what is judged of it stays away.
        return None;
    }
    let told = found.row.facts.license_api.as_deref();
    let told = told.or(stored.as_ref().and_then(|stored| stored.license_api.as_deref()));
    let row = license::row(repo, &combine(from_api(told), texts.clone()));
    let is_stored = stored.as_ref().is_some_and(|stored| license::is_stored(stored, &row));
    (!is_stored).then_some(row)
}

/// The note of this run, if it is another than the last one's.
fn note(found: &Difference, rules: &str) -> Option<Note> {
    let whole = matches!(found.place.source, Source::Git(_)) && !found.skipped.iter().any(|skipped| skipped.failed);
    let note = Note::new(found.place.head.filter(|_| whole), rules, found.facts.clone(), &found.skipped);
    (found.note.as_ref() != Some(&note)).then_some(note)
}
