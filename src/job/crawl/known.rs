//! What a search need not deliver again: hits of earlier runs that this run has seen unchanged where they lie. A window
//! whose total is made up of such hits and of those that its pages brought has nothing more to tell.
//!
//! Everything else must be seen: files that changed (the index may lag behind), files that are gone, hits that are no
//! artifacts. So a window is never left because of a guess; what it costs is that a window in which much changes is
//! walked to its end.

use super::Context;
use crate::plan::targets::Target;
use crate::plan::{REACHABLE, Window, WindowReport};
use crate::store::StoreError;
use crate::taxonomy::{ForkFamily, WindowState};
use std::collections::{HashMap, HashSet};

/// Node id of a repository, and path.
type Key = (String, String);

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Ascending.
    sizes: Vec<u64>,
    keys: HashSet<Key>,
    /// Of each window: what it delivered, known and not known.
    seen: HashMap<Window, (HashSet<Key>, HashSet<Key>)>,
}

impl Known {
    pub(super) async fn load(context: &Context<'_>, target: &Target, fork: ForkFamily) -> Result<Self, StoreError> {
        Ok(Self::new(context.store.known_hits(context.run, &target.id, fork).await?))
    }

    fn new(hits: Vec<(String, String, u64)>) -> Self {
        let mut sizes: Vec<u64> = hits.iter().map(|(.., size)| *size).collect();
        sizes.sort_unstable();
        let keys = hits.into_iter().map(|(node, path, _)| (node, path)).collect();
        Self { sizes, keys, seen: HashMap::new() }
    }

    /// A page of `window` brought these.
    pub(super) fn saw(&mut self, window: &Window, hits: impl IntoIterator<Item = Key>) {
        let (known, new) = self.seen.entry(window.clone()).or_default();
        for hit in hits {
            if self.keys.contains(&hit) {
                known.insert(hit)
            } else {
                new.insert(hit)
            };
        }
    }

    /// Whether what a window has not delivered is known.
    pub(super) fn is_all(&self, report: &WindowReport) -> bool {
        let window = &report.window;
        if report.state != WindowState::Walking || report.total > REACHABLE || !window.refine.is_empty() {
            return false;
        }
        let Some((known, new)) = self.seen.get(window) else { return false };
        let from = self.sizes.partition_point(|size| *size < window.lo);
        let to = window.hi.map_or(self.sizes.len(), |hi| self.sizes.partition_point(|size| *size <= hi));
        let expected = to.saturating_sub(from).max(known.len()) + new.len();
        expected as u64 >= report.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_left_only_when_its_total_is_accounted_for() {
        let key = |n: u64| ("R".to_owned(), format!("{n}.md"));
        let mut known = Known::new((1..=300).map(|n| ("R".to_owned(), format!("{n}.md"), n)).collect());
        let window = Window { target: "t".into(), fork: ForkFamily::Plain, lo: 1, hi: Some(200), refine: Vec::new() };
        let report = |total| WindowReport {
            window: window.clone(),
            state: WindowState::Walking,
            total,
            distinct: 100,
            unreachable: 0,
            rejected: false,
        };
        assert!(!known.is_all(&report(0)), "nothing was asked");
        known.saw(&window, (1..=100).map(key));
        assert!(known.is_all(&report(200)));
        assert!(!known.is_all(&report(201)), "one of them is new");
        known.saw(&window, [key(900)]);
        assert!(known.is_all(&report(201)) && !known.is_all(&report(202)));
        assert!(!known.is_all(&WindowReport { state: WindowState::Overflow, ..report(200) }));
    }
}
