//! Take in local git repositories and plain folders: the rows that a crawl would make, without a network.
//!
//! Several repositories are looked at at once; each is compared with what the store holds of it, and only what differs
//! is read and written. They are written in groups, in the order of their names, while the next group is read: blobs
//! and artifacts in one transaction, their histories and the notes that the repositories are done in one after it. So a
//! kill at any point is made good by the next run, and a run that finds nothing new writes nothing at all.

mod group;
mod histories;
mod look;
mod note;
mod source;
mod write;

use super::judging::now_ms;
use crate::monitor::Monitor;
use crate::plan::Targets;
use crate::repos::{self, Found, Skipped};
use crate::store::{FailureRow, RunId, Store, StoreError, Training};
use crate::taxonomy::Outcome;
use futures_util::StreamExt as _;
use group::Group;
use look::View;
use serde::Serialize;
use serde_json::json;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Bodies read in one run after which the dictionary is trained without waiting for the end: enough to learn from, and
/// whatever follows is packed once instead of twice.
const TRAIN_EARLY: usize = 8_000;

/// What to take in.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// Repositories, folders of repositories, plain folders.
    pub paths: Vec<PathBuf>,
    /// Read this revision of every repository instead of its default branch.
    pub rev: Option<String>,
    /// Larger files are skipped, bytes.
    pub max_bytes: u64,
    /// Repositories that are looked at at the same time.
    pub lanes: usize,
}

impl IngestOptions {
    /// The default branches below `paths`, files up to 4 MiB, a repository for every core.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let lanes = std::thread::available_parallelism().map_or(1, usize::from);
        Self { paths, rev: None, max_bytes: 4 << 20, lanes }
    }
}

/// Something left out, as it is shown and stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// `OWNER/NAME:PATH`, or a directory.
    pub path: String,
    /// The reason.
    pub why: String,
    /// True when something is broken; false when a rule leaves it out.
    pub failed: bool,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IngestSummary {
    /// Repositories and folders looked at that hold artifacts.
    pub repos: usize,
    /// Of these, those that were as the last run left them.
    pub unchanged_repos: usize,
    /// Artifacts they hold.
    pub artifacts: usize,
    /// Artifacts that were not known.
    pub added: usize,
    /// Artifacts whose bytes changed.
    pub changed: usize,
    /// Artifacts that are no longer there.
    pub gone: usize,
    /// Bodies read because the corpus lacked them.
    pub blobs: usize,
    /// Artifacts whose history is another than the stored one.
    pub histories: usize,
    /// Repositories whose licence is judged otherwise than before.
    pub licenses: usize,
    /// Left out, with why.
    pub skipped: Vec<LeftOut>,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
    /// The run that wrote, if anything was written.
    #[serde(skip)]
    pub run: Option<RunId>,
}

impl IngestSummary {
    /// Whether something could not be read. What a rule leaves out does not count.
    pub fn failed(&self) -> bool {
        self.skipped.iter().any(|left_out| left_out.failed)
    }
}

/// Why ingestion ended. A repository that cannot be read does not end it.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The corpus cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A worker thread died.
    #[error("Failed to read {what}: {why}")]
    Worker {
        /// What it was reading.
        what: String,
        /// What it said.
        why: String,
    },
}

/// Bring the store up to date with the repositories and folders below `options.paths`, for the platforms that `targets`
/// selects. Opted-out repositories are never opened.
pub async fn ingest(
    store: &Store,
    targets: Arc<Targets>,
    options: &IngestOptions,
    monitor: &dyn Monitor,
) -> Result<IngestSummary, IngestError> {
    let paths = options.paths.clone();
    let discovery = blocking("the given directories", move || repos::discover(&paths)).await?;
    let optouts = store.opt_outs().await?;
    let (found, out): (Vec<_>, Vec<_>) = discovery.found.into_iter().partition(|found| !optouts.covers(&found.slug));
    let keys: Vec<String> = found.iter().map(|found| found.slug.key()).collect();
    let stored = store.repo_heads(&keys).await?.into_iter().map(|(key, (repo, _))| (key, repo)).collect();
    let ask = source::Ask { rev: options.rev.clone(), limit: options.max_bytes };
    let view = look::View { store, rules: note::rules(&targets, options), targets, ask: Arc::new(ask), stored };
    let mut job = Job { store, options, summary: IngestSummary::default(), run: None };
    job.summary.skipped.extend(discovery.skipped.into_iter().map(|s| left_out(s.path.clone(), s)));
    job.summary.skipped.extend(out.into_iter().map(|found| {
        let slug = found.slug.to_string();
        left_out(slug.clone(), Skipped::by_rule(slug, "Opted out"))
    }));
    job.take_in(&view, found, monitor).await?;
    job.finish(monitor).await
}

struct Job<'a> {
    store: &'a Store,
    options: &'a IngestOptions,
    summary: IngestSummary,
    run: Option<RunId>,
}

impl Job<'_> {
    /// The run that writes, begun at the first write: an invocation that changes nothing leaves no trace.
    async fn run(&mut self) -> Result<RunId, IngestError> {
        if let Some(run) = self.run {
            return Ok(run);
        }
        let options = json!({ "rev": self.options.rev, "max_bytes": self.options.max_bytes });
        let run = self.store.begin_run("ingest", &options, now_ms()).await?;
        self.run = Some(run);
        Ok(run)
    }

    /// Bring the store up to date with `found`, one group after the other; the next is read while one is written.
    async fn take_in(&mut self, view: &View<'_>, found: Vec<Found>, monitor: &dyn Monitor) -> Result<(), IngestError> {
        let repositories = found.len() as u64;
        monitor.begin("ingest", Some(repositories));
        let mut looked =
            futures_util::stream::iter(found).map(|found| view.look(found)).buffered(self.options.lanes.max(1));
        let nothing = HashSet::new();
        let mut next = Some(Group::gather(view, &mut looked, &nothing, monitor).await?);
        let (mut done, mut tried) = (0, false);
        while let Some(group) = next.take() {
            let (last, stopped, coming) = (group.last, group.stopped, group.coming());
            let count = group.looked.len() as u64;
            let train = !last && !tried && self.summary.blobs + coming.len() >= TRAIN_EARLY;
            // What another batch of the group stores, or a dictionary to come, is not known while the next is read.
            if last || train || !group.unread.is_empty() {
                self.write(view, group).await?;
            } else {
                let gather = Group::gather(view, &mut looked, &coming, monitor);
                let (written, following) = tokio::join!(self.write(view, group), gather);
                written?;
                next = Some(following?);
            }
            self.summary.paused |= stopped;
            monitor.advance(count);
            done += count;
            if train {
                tried = true;
                self.train(monitor).await?;
                // Training is a step of its own on the monitor; what it shows comes back.
                monitor.begin("ingest", Some(repositories));
                monitor.advance(done);
            }
            if next.is_none() && !last {
                next = Some(Group::gather(view, &mut looked, &nothing, monitor).await?);
            }
        }
        monitor.end();
        Ok(())
    }

    /// Train the dictionary of bodies, if that is due.
    async fn train(&mut self, monitor: &dyn Monitor) -> Result<(), IngestError> {
        if self.store.dictionary_due().await? {
            let run = self.run().await?;
            self.summary.paused |= self.store.train_dictionary(run, monitor).await? == Training::Stopped;
        }
        Ok(())
    }

    async fn finish(mut self, monitor: &dyn Monitor) -> Result<IngestSummary, IngestError> {
        if !self.summary.paused {
            self.train(monitor).await?;
        }
        self.summary.run = self.run;
        if let Some(run) = self.run {
            let failures: Vec<FailureRow> = self
                .summary
                .skipped
                .iter()
                .filter(|left_out| left_out.failed)
                .map(|s| FailureRow { stage: "ingest".to_owned(), what: s.path.clone(), why: s.why.clone() })
                .collect();
            self.store.add_failures(run, &failures, now_ms()).await?;
            let outcome = match (self.summary.paused, failures.is_empty()) {
                (true, _) => Outcome::Paused,
                (false, true) => Outcome::Done,
                (false, false) => Outcome::Partial,
            };
            self.store.end_run(run, outcome, &json!(self.summary), now_ms()).await?;
        }
        Ok(self.summary)
    }
}

fn left_out(path: String, skipped: Skipped) -> LeftOut {
    LeftOut { path, why: skipped.why, failed: skipped.failed }
}

async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| IngestError::Worker { what: what.to_owned(), why: error.to_string() })
}
