//! The planner of one target and fork family: a sweep over file sizes, upwards.
//!
//! Each window is chosen so that it should hold just under 1,000 hits. Its first page is data and, through its total,
//! also the measurement that corrects the choice of the next window. A window that turns out too large is narrowed by
//! interpolation; what is above it is swept afterwards like everything else, so no sibling is ever probed. A single size
//! that overflows waits for the end of the sweep: by then it is known in which directories files of this target lie.
//!
//! The state is a function of the answers in the order they came, and of nothing else: a planner that is given the
//! stored answers again stands where the lost one stood.

use super::model::{Gap, MAX_SIZE, Model, Shape};
use super::walk::{MAX_WALKS, Verdict, Walk};
use super::{Axis, Histogram, Places, REACHABLE, Refinement, Window, lower_bound};
use crate::taxonomy::{ForkFamily, WindowState};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

mod parts;

/// What a planner plans for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Id of the target.
    pub target: String,
    /// Which family of repositories.
    pub fork: ForkFamily,
    /// Axes to split a single size on that overflows, see [`super::axes_for`].
    pub axes: Vec<Axis>,
    /// File sizes that an earlier run found for this target and family.
    pub warm: Option<Histogram>,
}

/// One page to ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// The query.
    pub window: Window,
    /// 1-based page of 100 hits.
    pub page: u8,
    /// The how-manieth asking of this page, from 1: a window that came up short is walked again.
    pub walk: u8,
}

/// What a page brought. To be stored: [`Planner::resume`] is given all of them, in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// What was asked.
    pub request: Request,
    /// `total_count` of the answer.
    pub total: u64,
    /// Hits on this page.
    pub items: u64,
    /// `incomplete_results` of the answer.
    pub incomplete: bool,
    /// Distinct keys (repository and path) of this window that are there so far, this page included: those that it
    /// delivered, and for a refined window those of the same size range that [meet](Refinement::is_met_by) its
    /// refinements.
    pub distinct: u64,
    /// Distinct keys that all windows of exactly this size range delivered, whatever their refinements.
    pub span_distinct: u64,
}

/// Why a page has no answer, when asking again right away would not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The service timed out on the query (HTTP 408): the window is too dense.
    TooDense,
    /// The query was rejected (HTTP 422). The window stays unfinished and is asked again by the next run.
    Rejected,
}

/// An answer to a question that this planner cannot have asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Failed to place page {page} of {target} ({fork}, {lo}..{} bytes): no such window follows from the pages before it",
    hi.map_or_else(|| "*".to_owned(), |hi| hi.to_string())
)]
pub struct UnexpectedPage {
    /// Id of the target.
    pub target: String,
    /// Family of repositories.
    pub fork: ForkFamily,
    /// Smallest size of the window.
    pub lo: u64,
    /// Largest size of the window.
    pub hi: Option<u64>,
    /// The page.
    pub page: u8,
}

/// How a window stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowReport {
    /// The query.
    pub window: Window,
    /// Its state.
    pub state: WindowState,
    /// Largest total that the service gave.
    pub total: u64,
    /// Distinct keys that it delivered.
    pub distinct: u64,
    /// For a single size that overflows: how many hits of its total neither it nor its parts delivered.
    pub unreachable: u64,
    /// Whether it is unfinished because its query was rejected.
    pub rejected: bool,
}

/// Counts over all windows of a planner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Answered requests.
    pub requests: u64,
    /// Distinct keys delivered by settled and walking windows; those of split windows come again in narrower ones.
    pub hits: u64,
    /// Hits that no query delivers.
    pub unreachable: u64,
    /// The fewest requests that deliver `hits`.
    pub lower_bound: u64,
    /// Windows that are complete.
    pub complete: u64,
    /// Windows that stayed short.
    pub short: u64,
    /// Windows that overflow.
    pub overflow: u64,
    /// Windows that are not settled.
    pub open: u64,
}

type Key = (u64, Option<u64>, Vec<Refinement>);

/// Decides what to ask next, see the module's head.
#[derive(Debug, Clone)]
pub struct Planner {
    setup: Setup,
    model: Model,
    /// The range being swept.
    gap: Option<Gap>,
    /// Ranges whose window turned out to hold more than its total said.
    waiting: Vec<Gap>,
    walks: Vec<Walk>,
    by_key: HashMap<Key, usize>,
    /// Walks that are not settled, oldest first.
    active: Vec<usize>,
    /// The window at the front of the sweep, until its first page came.
    probe: Option<usize>,
    /// Parts of overflowing windows still to be opened: index of the overflow, parts in reverse order.
    parts: HashMap<usize, Vec<Window>>,
    /// Overflowing sizes that are split once the sweep is over.
    postponed: Vec<usize>,
    /// Where files lie, once the sweep is over.
    places: Option<Places>,
    /// Windows whose query was rejected.
    rejected: Vec<usize>,
    requests: u64,
    touched: Vec<usize>,
}

impl Planner {
    /// A planner that knows nothing but its setup.
    pub fn new(setup: Setup) -> Self {
        let warm = setup.warm.clone().filter(|histogram| histogram.total() > 0);
        // Few or unknown: the first question is for everything, which settles a small target and counts a large one.
        let mass = warm.as_ref().map_or(0.0, |histogram| histogram.total() as f64);
        let mut planner = Self {
            setup,
            model: Model::new(warm.map_or(Shape::Cold, Shape::Warm), mass),
            gap: Some(Gap::new(0, None, mass)),
            waiting: Vec::new(),
            walks: Vec::new(),
            by_key: HashMap::new(),
            active: Vec::new(),
            probe: None,
            parts: HashMap::new(),
            postponed: Vec::new(),
            places: None,
            rejected: Vec::new(),
            requests: 0,
            touched: Vec::new(),
        };
        planner.open_probe();
        planner
    }

    /// The planner that has seen these answers, given in the order they came. Windows may have been chosen by another
    /// version of the planner or from another histogram; pages that are there are not asked for again. `places` as for
    /// [`place`](Self::place); not needed where no answer is to a refined window.
    pub fn resume(setup: Setup, seen: &[Observation], places: Option<Places>) -> Result<Self, UnexpectedPage> {
        let mut planner = Self::new(setup);
        let (whole, refined): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.request.window.refine.is_empty());
        for observation in whole {
            planner.observe(observation)?;
        }
        if !refined.is_empty() {
            planner.place(places.unwrap_or_default());
        }
        for observation in refined {
            planner.observe(observation)?;
        }
        Ok(planner)
    }

    /// The next page to ask for. Nothing means that answers under way decide what comes next, that it
    /// [wants to know where files lie](Self::wants_places), or that it [is done](Self::is_done). What is handed out must
    /// be answered by [`observe`](Self::observe), [`refuse`](Self::refuse) or [`release`](Self::release).
    pub fn next_request(&mut self) -> Option<Request> {
        let index = *self.active.iter().find(|index| self.walks[**index].wanted().is_some())?;
        let walk = &mut self.walks[index];
        let page = walk.wanted()?;
        let count = walk.ask(page);
        Some(Request { window: walk.window.clone(), page, walk: count })
    }

    /// Take in what a page brought. Gives the windows whose state or counts changed, to be stored with the page.
    pub fn observe(&mut self, seen: &Observation) -> Result<Vec<WindowReport>, UnexpectedPage> {
        let index = self.locate(&seen.request)?;
        self.requests += 1;
        self.touched.push(index);
        self.walks[index].note(seen);
        if self.walks[index].state == WindowState::Open {
            self.first_page(index);
        }
        self.settle(index);
        self.open_probe();
        self.split_postponed();
        Ok(self.reports())
    }

    /// A page was refused for a reason that lies in its query.
    pub fn refuse(&mut self, request: &Request, refusal: Refusal) -> Result<Vec<WindowReport>, UnexpectedPage> {
        let index = self.locate(request)?;
        self.touched.push(index);
        let walk = &mut self.walks[index];
        walk.release(request.page);
        match refusal {
            Refusal::TooDense => {
                walk.dense += 1;
                let is_probe = self.probe == Some(index);
                if is_probe && is_divisible(&walk.window) {
                    walk.state = WindowState::Split;
                    let end = walk.window.hi;
                    self.drop_active(index);
                    self.probe = None;
                    if let Some(gap) = &mut self.gap {
                        gap.narrow(end, 0.5);
                    }
                } else if walk.dense >= MAX_WALKS {
                    walk.state = WindowState::Short;
                    self.leave(index);
                }
            }
            Refusal::Rejected => {
                self.rejected.push(index);
                self.leave(index);
            }
        }
        self.open_probe();
        self.split_postponed();
        Ok(self.reports())
    }

    /// A page that was handed out came to nothing (no budget, no connection, stopped): it is wanted again.
    pub fn release(&mut self, request: &Request) {
        if let Some(index) = self.by_key.get(&key(&request.window)) {
            self.walks[*index].release(request.page);
        }
    }

    /// What a window has not delivered yet is known from elsewhere: its other pages are not asked for. Only for windows
    /// that are being walked and small enough to be delivered whole; others are left as they are.
    pub fn close(&mut self, window: &Window) -> Vec<WindowReport> {
        if let Some(&index) = self.by_key.get(&key(window)) {
            let walk = &self.walks[index];
            let whole = walk.total <= REACHABLE && walk.parent.is_none() && !self.parts.contains_key(&index);
            if walk.state == WindowState::Walking && whole {
                self.finish(index, WindowState::Complete);
                self.open_probe();
            }
        }
        self.reports()
    }

    /// Whether nothing is left to ask.
    pub fn is_done(&self) -> bool {
        self.active.is_empty() && self.postponed.is_empty()
    }

    /// Every window so far, in the order they were opened.
    pub fn windows(&self) -> impl Iterator<Item = WindowReport> {
        (0..self.walks.len()).map(|index| self.report(index))
    }

    /// Counts over all windows.
    pub fn summary(&self) -> Summary {
        let mut sum = Summary { requests: self.requests, ..Summary::default() };
        for walk in &self.walks {
            match walk.state {
                WindowState::Complete => sum.complete += 1,
                WindowState::Short => sum.short += 1,
                WindowState::Overflow => sum.overflow += 1,
                WindowState::Open | WindowState::Walking => sum.open += 1,
                WindowState::Split => {}
            }
            if walk.window.refine.is_empty() && walk.state != WindowState::Split {
                sum.hits += walk.span_distinct;
                if walk.state == WindowState::Overflow {
                    sum.unreachable += walk.total.saturating_sub(walk.span_distinct);
                }
            }
        }
        sum.lower_bound = lower_bound(sum.hits);
        sum
    }

    fn report(&self, index: usize) -> WindowReport {
        let walk = &self.walks[index];
        let overflows = walk.state == WindowState::Overflow && walk.window.refine.is_empty();
        WindowReport {
            window: walk.window.clone(),
            state: walk.state,
            total: walk.total,
            distinct: walk.distinct,
            unreachable: if overflows { walk.total.saturating_sub(walk.span_distinct) } else { 0 },
            rejected: self.rejected.contains(&index),
        }
    }

    fn reports(&mut self) -> Vec<WindowReport> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().map(|index| self.report(index)).collect()
    }

    /// The walk of a request. When answers are read back, the front of the sweep takes the range that was asked then.
    fn locate(&mut self, request: &Request) -> Result<usize, UnexpectedPage> {
        let window = &request.window;
        if let Some(index) = self.by_key.get(&key(window)) {
            return Ok(*index);
        }
        if let Some(index) = self.open_stored_part(window) {
            return Ok(index);
        }
        let unexpected = || UnexpectedPage {
            target: window.target.clone(),
            fork: window.fork,
            lo: window.lo,
            hi: window.hi,
            page: request.page,
        };
        let (Some(index), Some(gap)) = (self.probe, &self.gap) else { return Err(unexpected()) };
        let inside = match (window.hi, gap.hi) {
            (_, None) => true,
            (Some(hi), Some(end)) => hi <= end,
            (None, Some(_)) => false,
        };
        let right = window.target == self.setup.target && window.fork == self.setup.fork && window.refine.is_empty();
        if !right || !inside || window.lo != gap.lo || !self.walks[index].is_untouched() {
            return Err(unexpected());
        }
        self.by_key.remove(&key(&self.walks[index].window));
        self.by_key.insert(key(window), index);
        self.walks[index].window = window.clone();
        Ok(index)
    }

    fn open(&mut self, walk: Walk) -> usize {
        let index = self.walks.len();
        self.by_key.insert(key(&walk.window), index);
        self.walks.push(walk);
        self.active.push(index);
        index
    }

    /// Put a window at the front of the sweep when there is none.
    fn open_probe(&mut self) {
        if self.probe.is_some() {
            return;
        }
        let Some(gap) = &self.gap else { return };
        let window = Window {
            target: self.setup.target.clone(),
            fork: self.setup.fork,
            lo: gap.lo,
            hi: self.model.choose(gap),
            refine: Vec::new(),
        };
        self.probe = Some(self.open(Walk::new(window)));
    }

    fn drop_active(&mut self, index: usize) {
        self.active.retain(|active| *active != index);
    }

    /// Give up on a window that cannot be finished now, and go on with what does not depend on it.
    fn leave(&mut self, index: usize) {
        self.drop_active(index);
        if self.probe == Some(index) {
            // Every later window has the same expression and would be refused alike; sweeping on past a hole would
            // only hide it.
            self.probe = None;
            if self.rejected.contains(&index) {
                self.gap = None;
                self.waiting.clear();
            } else {
                let total = self.walks[index].total;
                self.sweep_past(index, total);
            }
        }
        if let Some(parent) = self.walks[index].parent {
            self.next_part(parent);
        }
    }

    /// The first page of a window came: is it small enough?
    fn first_page(&mut self, index: usize) {
        if self.walks[index].first_page_is_doubtful() {
            self.walks[index].ask_first_page_again();
            return;
        }
        let walk = &mut self.walks[index];
        walk.state = WindowState::Walking;
        if walk.parent.is_some() {
            return;
        }
        self.probe = None;
        let (end, total) = (walk.window.hi, walk.total);
        let divisible = is_divisible(&walk.window);
        if let Some(gap) = &self.gap {
            self.model.learn(gap, end, total as f64);
        }
        if total > REACHABLE && divisible {
            self.walks[index].state = WindowState::Split;
            self.drop_active(index);
            if let Some(gap) = &mut self.gap {
                gap.too_large(end, total as f64);
            }
        } else {
            self.sweep_past(index, total);
        }
    }

    /// The sweep goes on behind this window.
    fn sweep_past(&mut self, index: usize, total: u64) {
        let end = self.walks[index].window.hi;
        let over = self.gap.as_mut().is_none_or(|gap| gap.advance(end, total as f64));
        if over {
            self.gap = self.waiting.pop();
        }
    }

    /// Judge a window once all its wanted pages came.
    fn settle(&mut self, index: usize) {
        let walk = &mut self.walks[index];
        let waits = self.parts.contains_key(&index) || self.postponed.contains(&index);
        if walk.state != WindowState::Walking || waits || !walk.is_idle() {
            return;
        }
        let verdict = walk.judge();
        if verdict == Verdict::Again {
            // The pages to repeat may be none at all, when others suffice by now.
            if walk.is_idle() {
                self.settle(index);
            }
            return;
        }
        let divisible = walk.parent.is_none() && is_divisible(&walk.window);
        match verdict {
            Verdict::Again => {}
            Verdict::Complete => self.finish(index, WindowState::Complete),
            Verdict::Short => self.finish(index, WindowState::Short),
            Verdict::Full if divisible => {
                let (lo, hi, total) = (walk.window.lo, walk.window.hi, walk.total.max(REACHABLE + 1));
                let mut gap = Gap::new(lo, hi, total as f64);
                gap.too_large(hi, total as f64);
                self.finish(index, WindowState::Split);
                if self.gap.is_some() { self.waiting.push(gap) } else { self.gap = Some(gap) }
            }
            Verdict::Full => self.overflow(index),
        }
    }

    fn finish(&mut self, index: usize, state: WindowState) {
        self.walks[index].state = state;
        self.touched.push(index);
        self.drop_active(index);
        if let Some(parent) = self.walks[index].parent {
            let span = self.walks[index].span_distinct;
            self.walks[parent].span_distinct = self.walks[parent].span_distinct.max(span);
            self.next_part(parent);
        }
    }
}

/// Whether the range of sizes can be cut. Beyond [`MAX_SIZE`] sizes are not told apart.
fn is_divisible(window: &Window) -> bool {
    window.hi.map_or(window.lo < MAX_SIZE, |hi| window.lo < hi)
}

fn key(window: &Window) -> Key {
    (window.lo, window.hi, window.refine.clone())
}
