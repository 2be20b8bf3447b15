//! Single sizes that overflow, split by where their files lie.

use super::{Planner, Walk, WindowReport, key};
use crate::plan::{Places, REACHABLE, Refinement, Window};
use crate::taxonomy::WindowState;

/// How many hits a directory that no axis names must probably add before it is asked for: half a page.
const WORTHWHILE: f64 = 50.0;

impl Planner {
    /// Whether the sweep is over and overflowing sizes wait for [`place`](Self::place) to be split.
    pub fn wants_places(&self) -> bool {
        self.active.is_empty() && !self.postponed.is_empty() && self.places.is_none()
    }

    /// In which directories the files of this target lie, counted over the hits of all windows without refinements.
    /// Gives the windows that this settles.
    pub fn place(&mut self, places: Places) -> Vec<WindowReport> {
        self.places = Some(places);
        self.split_postponed();
        self.reports()
    }

    /// A window that no range of sizes can narrow holds more than one query delivers.
    pub(super) fn overflow(&mut self, index: usize) {
        self.drop_active(index);
        if self.walks[index].parent.is_none() && !self.setup.axes.is_empty() {
            self.postponed.push(index);
        } else {
            self.split(index);
        }
    }

    /// Split what was postponed, once the sweep is over and it is known where files lie.
    pub(super) fn split_postponed(&mut self) {
        if self.places.is_some() && self.active.is_empty() {
            for index in std::mem::take(&mut self.postponed) {
                self.split(index);
            }
        }
    }

    fn split(&mut self, index: usize) {
        let parts = self.parts_of(index);
        self.parts.insert(index, parts);
        self.next_part(index);
    }

    /// The windows that an overflowing one is split into: every part of every axis that it is not narrowed by yet and
    /// that files of this target meet, and directories that no axis names where many lie. Reversed, so that the first
    /// can be popped.
    fn parts_of(&self, index: usize) -> Vec<Window> {
        let window = &self.walks[index].window;
        let used = |axis: &Vec<Refinement>| window.refine.iter().any(|refinement| axis.contains(refinement));
        let from = self.setup.axes.iter().rposition(used).map_or(0, |axis| axis + 1);
        let mut parts = Vec::new();
        for axis in &self.setup.axes[from..] {
            parts.extend(axis.iter().filter(|part| self.may_hold(index, part)).cloned());
            if axis.contains(&Refinement::Root) {
                parts.extend(self.worthwhile(index).filter(|part| !axis.contains(part)));
            }
        }
        let narrowed = |part| {
            let mut narrowed = window.clone();
            narrowed.refine.push(part);
            narrowed
        };
        parts.into_iter().rev().map(narrowed).collect()
    }

    /// Whether a part of an overflow may have hits that are not known: some file of this target is there, or too few
    /// files are known to say that none is (none among three times as many: at most one, with 95 % confidence).
    fn may_hold(&self, index: usize, part: &Refinement) -> bool {
        let places = self.places.as_ref();
        let seen = places.and_then(|places| places.at(part)).is_none_or(|files| files > 0);
        seen || self.missing(index).saturating_mul(3) > places.map_or(0, Places::files)
    }

    /// Directories that should add enough to the overflow to be worth a request, largest first.
    fn worthwhile(&self, index: usize) -> impl Iterator<Item = Refinement> {
        let missing = self.missing(index) as f64;
        let largest = self.places.iter().flat_map(Places::largest);
        largest.take_while(move |(_, share)| share * missing >= WORTHWHILE).map(|(part, _)| part)
    }

    fn missing(&self, index: usize) -> u64 {
        self.walks[index].total.saturating_sub(self.walks[index].distinct)
    }

    /// Open the next part of an overflowing window, or settle the window when there is none or none is needed.
    pub(super) fn next_part(&mut self, index: usize) {
        let Some(parts) = self.parts.get_mut(&index) else { return };
        let walk = &self.walks[index];
        // The parts of a part are judged by the whole size: what they hold may be known from elsewhere.
        let wanted = walk.parent.is_some() || walk.span_distinct < at_most(walk.total);
        if wanted && let Some(part) = parts.pop() {
            self.open_part(index, part);
            return;
        }
        self.parts.remove(&index);
        let whole = self.walks[index].parent.is_none() && self.walks[index].span_distinct >= self.walks[index].total;
        let state = if whole { WindowState::Complete } else { WindowState::Overflow };
        self.finish(index, state);
    }

    fn open_part(&mut self, parent: usize, window: Window) -> usize {
        let whole = &self.walks[parent];
        let share = window.refine.last().and_then(|part| self.places.as_ref()?.share(part)).unwrap_or(0.0);
        let mut part = Walk::part(window, parent, (share * whole.total as f64) as u64);
        part.span_distinct = whole.span_distinct;
        self.open(part)
    }

    /// The part that a stored answer is to, opened as it was then, whatever would be asked now.
    pub(super) fn open_stored_part(&mut self, window: &Window) -> Option<usize> {
        let mut whole = window.clone();
        whole.refine.pop()?;
        let parent = *self.by_key.get(&key(&whole))?;
        if let Some(parts) = self.parts.get_mut(&parent) {
            parts.retain(|part| part != window);
        }
        Some(self.open_part(parent, window.clone()))
    }
}

/// How many hits there may be where the service counts `total`: totals beyond the cap are estimates, up to a sixteenth
/// off.
fn at_most(total: u64) -> u64 {
    if total > REACHABLE { total + total / 16 } else { total }
}
