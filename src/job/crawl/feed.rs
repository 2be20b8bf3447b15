//! Repositories on their way from the search to the reader.

use super::{Context, Halt};
use crate::store::{PendingRepo, RepoId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What the search leaves for the reader: first what earlier invocations left in the store, then what each page brings.
#[derive(Debug, Default)]
pub(super) struct Feed {
    state: Mutex<State>,
    over: AtomicBool,
    complete: AtomicBool,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Repositories of pages that came since this invocation began.
    met: VecDeque<RepoId>,
    /// Up to where the store was read; nothing once it is through.
    after: Option<i64>,
    begun: bool,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page named these repositories.
    pub(super) fn push(&self, repos: &[RepoId]) {
        self.state().met.extend(repos);
        self.changed.notify_one();
    }

    /// The search ended: `complete`, or cut short.
    pub(super) fn close(&self, complete: bool) {
        self.complete.store(complete, Ordering::Release);
        self.over.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the search came to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Wait until `count` repositories of pages wait to be read, or the search ended.
    pub(super) async fn has(&self, count: usize) {
        while !self.is_over() && self.state().met.len() < count {
            self.changed.notified().await;
        }
    }

    /// Some repositories that this run has not read, `page` of them or fewer; `None` when none are left for now. May
    /// give one that it gave before.
    pub(super) async fn next(&self, context: &Context<'_>, page: usize) -> Result<Option<Vec<PendingRepo>>, Halt> {
        let after = {
            let mut state = self.state();
            if !state.begun {
                (state.begun, state.after) = (true, Some(i64::MIN));
            }
            state.after
        };
        if let Some(after) = after {
            let pending = context.store.pending_repos(context.run, RepoId(after), page).await?;
            self.state().after = pending.last().map(|repo| repo.id.0);
            if !pending.is_empty() {
                return Ok(Some(pending));
            }
        }
        let met: Vec<RepoId> = {
            let mut state = self.state();
            let count = state.met.len().min(page);
            state.met.drain(..count).collect()
        };
        if met.is_empty() {
            return Ok(None);
        }
        Ok(Some(context.store.pending_among(context.run, &met).await?))
    }
}
