//! Where the search stands: what was found, what cannot be reached, and how long the rest will take.

use super::Context;
use crate::github::Resource;
use crate::plan::price::{self, Expectation};
use crate::plan::{Planner, WindowReport};
use crate::taxonomy::ForkFamily;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Answers after which the pace of this invocation says more than the documented limit.
const MEASURED_AFTER: u64 = 20;

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    hits: u64,
    unreachable: u64,
    requests: u64,
    /// Hits in all, by the largest total that any window gave.
    expected: u64,
    done: bool,
}

/// The standing of every walk.
pub(super) struct Progress {
    walks: Mutex<HashMap<(String, ForkFamily), Standing>>,
    /// How many walks there are.
    all: u64,
    begun: Instant,
    /// Answers that came before this invocation.
    before: Mutex<u64>,
}

impl Progress {
    pub(super) fn new(walks: u64) -> Self {
        Self { walks: Mutex::default(), all: walks, begun: Instant::now(), before: Mutex::default() }
    }

    /// A walk takes up where its stored pages end.
    pub(super) fn resume(&self, planner: &Planner, target: &str, fork: ForkFamily, warm: u64) {
        let windows: Vec<WindowReport> = planner.windows().collect();
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) += planner.summary().requests;
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.entry((target.to_owned(), fork)).or_default().expected = warm;
        drop(walks);
        self.note(planner, target, fork, &windows);
    }

    /// A page came and changed `windows`.
    pub(super) fn note(&self, planner: &Planner, target: &str, fork: ForkFamily, windows: &[WindowReport]) {
        let summary = planner.summary();
        let total = windows.iter().map(|report| report.total).max().unwrap_or(0);
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = walks.entry((target.to_owned(), fork)).or_default();
        standing.hits = summary.hits;
        standing.unreachable = summary.unreachable;
        standing.requests = summary.requests;
        standing.expected = standing.expected.max(total);
        standing.done = planner.is_done();
    }

    /// Answers so far, and how many there will be, as far as is known: a walk that has not begun counts one.
    fn requests(&self) -> (u64, u64, u64, u64) {
        let walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut hits, mut unreachable, mut done, mut expected) =
            (0, 0, 0, self.all.saturating_sub(walks.len() as u64));
        for standing in walks.values() {
            hits += standing.hits;
            unreachable += standing.unreachable;
            done += standing.requests;
            expected += if standing.done {
                standing.requests
            } else {
                let price = price::code_search(&[Expectation::Hits(standing.expected)], 0.0, None);
                price.requests.max(standing.requests + 1)
            };
        }
        (hits, unreachable, done, expected)
    }

    /// One line for people.
    pub(super) fn line(&self, context: &Context<'_>) -> String {
        let (hits, unreachable, done, expected) = self.requests();
        let mut line = format!("{hits} found, {unreachable} unreachable; {done} of about {expected} searches");
        line.push_str(&format!(", {} repositories read", context.read.load(Ordering::Relaxed)));
        if let Some(left) = context.github.remaining(Resource::CodeSearch) {
            line.push_str(&format!(", {left} left in this window"));
        }
        let options = context.github.options();
        if let Some(most) = options.max_requests {
            let left = most.saturating_sub(context.github.traffic().requests());
            line.push_str(&format!(", {left} of the budget"));
        }
        let now = done.saturating_sub(*self.before.lock().unwrap_or_else(PoisonError::into_inner));
        let per_minute = if now >= MEASURED_AFTER {
            Some(now as f64 / (self.begun.elapsed().as_secs_f64() / 60.0).max(1e-3))
        } else {
            options.limits.code_search.requests.map(|_| price::NOMINAL_PER_MINUTE)
        };
        if let Some(rate) = per_minute {
            let minutes = expected.saturating_sub(done) as f64 / rate;
            line.push_str(&format!(", about {} to go", length(minutes)));
        }
        line
    }
}

/// A length of time in words for people, from minutes.
fn length(minutes: f64) -> String {
    let seconds = Duration::try_from_secs_f64((minutes * 60.0).max(0.0)).unwrap_or(Duration::MAX).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Observation, Setup};

    #[test]
    fn times_are_short_and_round() {
        assert_eq!([0.2, 5.0, 89.0, 125.0].map(length), ["12 s", "5 min", "89 min", "2.1 h"]);
    }

    #[test]
    fn walks_that_have_not_begun_count_one_and_totals_tell_the_rest() {
        let progress = Progress::new(3);
        assert_eq!(progress.requests(), (0, 0, 0, 3));
        let setup = Setup { target: "t".to_owned(), fork: ForkFamily::Plain, axes: Vec::new(), warm: None };
        let mut planner = Planner::new(setup);
        progress.resume(&planner, "t", ForkFamily::Plain, 0);
        assert_eq!(progress.requests(), (0, 0, 0, 3));
        let request = planner.next_request().unwrap();
        let seen =
            Observation { request, total: 450, items: 100, incomplete: false, distinct: 100, span_distinct: 100 };
        let reports = planner.observe(&seen).unwrap();
        progress.note(&planner, "t", ForkFamily::Plain, &reports);
        assert_eq!(progress.requests(), (100, 0, 1, 2 + 5));
    }
}
