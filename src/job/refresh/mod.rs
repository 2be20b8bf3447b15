//! The refresh: what is known is looked at again, then search is asked for what is new, then both are read.
//!
//! Known repositories are asked for by node id, a hundred in one query. One that still stands at the head where
//! everything was as stored has not changed, since a commit fixes the bytes below it; only the others are listed, and
//! only texts that the corpus lacks are read. Every step asks the store what is left, so that a refresh that was killed
//! or paused goes on where it stood.

mod batches;
mod check;
mod found;
mod lock;
mod metrics;
mod opinion;
mod read;
mod summary;

pub use batches::{Fill, Fills};
pub use lock::{CorpusLock, LockError, LockOwner};
pub use metrics::{prometheus, write_metrics};
pub use summary::{CarriedOver, RefreshSummary, RepositoryCounts};

use super::crawl::histories::Histories;
use super::crawl::{self, Context, CrawlError, CrawlOptions, Halt, now, search};
use crate::github::{GitHub, Traffic};
use crate::monitor::Monitor;
use crate::plan::targets::Targets;
use crate::store::{Store, StoreError};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What the steps of a refresh share besides what they share with a crawl.
struct Refresh<'a> {
    context: Context<'a>,
    /// Platforms that are looked at.
    platforms: Vec<String>,
    /// Whether what earlier runs saw may settle anything: they looked for all that this one looks for.
    trust: bool,
    fills: Mutex<Fills>,
    /// REST answers that had not changed.
    not_modified: Mutex<u64>,
    /// Requests that are booked already.
    booked: Mutex<[u64; 3]>,
    /// Requests of the run in all its invocations.
    sums: Mutex<[u64; 3]>,
}

fn requests(traffic: &Traffic) -> [u64; 3] {
    [traffic.code_search, traffic.graphql, traffic.core]
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Refresh<'_> {
    /// Store how far the limits and the count of requests are.
    async fn book(&self) -> Result<(), StoreError> {
        let sent = requests(&self.context.github.traffic());
        let new = {
            let mut booked = lock(&self.booked);
            let new = std::array::from_fn(|kind| sent[kind].saturating_sub(booked[kind]));
            *booked = sent;
            new
        };
        let sums = self.context.store.add_requests(self.context.run, new).await?;
        *lock(&self.sums) = sums;
        self.context.save_ledger().await
    }

    /// Queries to send at the same time. A budget that is nearly used up is not spent on one stage alone.
    fn lanes(&self) -> usize {
        let lanes = self.context.options.content_lanes.max(1);
        let left = self.context.github.options().max_requests.map(|most| {
            let left = most.saturating_sub(self.context.github.traffic().requests());
            usize::try_from(left / 4).unwrap_or(usize::MAX).max(1)
        });
        left.map_or(lanes, |left| lanes.min(left))
    }

    async fn steps(&self) -> Result<Option<search::Walked>, (Option<search::Walked>, Halt)> {
        check::check_known(self).await.map_err(|halt| (None, halt))?;
        let (walked, halted) = search::walk_all(&self.context).await;
        let rest = async {
            if let Some(halt) = halted {
                return Err(halt);
            }
            self.book().await?;
            found::read_found(self).await?;
            if self.context.options.histories {
                let store = self.context.store;
                self.context.monitor.begin("history", Some(store.count_without_history().await?));
                let read = Histories::new(&self.context)?.read_rest().await;
                self.context.monitor.end();
                read?;
            }
            self.context.store.drop_old_hits(self.context.run).await?;
            Ok(())
        };
        match rest.await {
            Ok(()) => Ok(Some(walked)),
            Err(halt) => Err((Some(walked), halt)),
        }
    }
}

/// Bring the artifacts of the selected platforms of `targets` up to date. A refresh that was killed or paused and had the
/// same scope is continued; otherwise a new one begins.
///
/// # Errors
/// When nothing can be done at all: the store fails, or GitHub refuses the credentials. A limit, a budget or a request
/// to stop is no error but [`Outcome::Paused`], and what fails singly is in [`RefreshSummary::failed`].
pub async fn refresh(
    store: &Store,
    github: &GitHub,
    targets: &Targets,
    options: &CrawlOptions,
    monitor: &dyn Monitor,
) -> Result<RefreshSummary, CrawlError> {
    let scope = crawl::scope(targets, options);
    let wanted = scope.to_string();
    let run = match store.unfinished_run("refresh").await? {
        Some((run, earlier)) if earlier == wanted => run,
        _ => store.begin_run("refresh", &scope, now()).await?,
    };
    let before = store.last_options(["crawl", "refresh"], run).await?;
    let mut context = Context::new(store, github, targets, options, monitor, run).await?;
    context.skips_known = true;
    let platforms: BTreeSet<String> = targets.selected().map(|target| target.platform.0.clone()).collect();
    let refresh = Refresh {
        context,
        platforms: platforms.into_iter().collect(),
        trust: before.is_some_and(|before| covers(&before, targets)),
        fills: Mutex::default(),
        not_modified: Mutex::default(),
        booked: Mutex::new(requests(&github.traffic())),
        sums: Mutex::default(),
    };
    let ended = refresh.steps().await;
    refresh.book().await?;
    let (walked, halted) = match ended {
        Ok(walked) => (walked, None),
        Err((walked, halt)) => (walked, Some(halt)),
    };
    let (outcome, paused, resume_at) = crawl::ended(store, run, halted).await?;
    let summary = refresh.summary(walked, outcome, paused, resume_at).await?;
    let json = serde_json::to_value(&summary).unwrap_or_default();
    store.end_run(run, summary.outcome, &json, now()).await?;
    Ok(summary)
}

/// Whether a run with these options looked for every target that is selected now.
fn covers(options: &str, targets: &Targets) -> bool {
    let options: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
    let looked: BTreeSet<&str> =
        options["targets"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    targets.selected().all(|target| looked.contains(target.id.as_str()))
}

/// Whether the last crawl or refresh of the corpus searched forks, too.
///
/// # Errors
/// When the store cannot be read.
pub async fn searched_forks(store: &Store) -> Result<bool, StoreError> {
    let options = store.last_options(["crawl", "refresh"], crate::store::RunId(i64::MAX)).await?;
    let options: serde_json::Value = options.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(options["forks"] == true)
}
