//! One window being walked: which of its pages came, and whether that is all of them.

use super::{MAX_PAGES, Observation, PER_PAGE, REACHABLE, Window};
use crate::taxonomy::WindowState;

/// How often one page is asked for before the window is called short.
pub(super) const MAX_WALKS: u8 = 3;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Page {
    #[default]
    Idle,
    Asked,
    Done {
        items: u64,
        incomplete: bool,
    },
}

/// In which order pages after the first are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// From the second on.
    Up,
    /// From the last one down: the part of an overflow.
    Down(Run),
}

/// What is known of the order of a part that overflows itself. Where it is the order of the whole, the keys that the
/// whole did not deliver are one run at the end; else they may be on every page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// Every key on every page so far was new.
    New,
    /// The page read last was the first that held known keys too.
    Edge,
    /// The run is over: what is before it is known.
    Over,
    /// New keys came after known ones: the part has an order of its own, and all its pages are read.
    Mixed,
}

impl Run {
    /// After a page of `items` hits, `new` of them new; `whole` says that all a query can deliver of this part is known.
    fn after(self, new: u64, items: u64, whole: bool) -> Self {
        match self {
            Self::New if new == items && items > 0 => Self::New,
            Self::New if new == 0 || whole => Self::Over,
            Self::New => Self::Edge,
            Self::Edge | Self::Over if new == 0 => Self::Over,
            Self::Edge | Self::Over | Self::Mixed => Self::Mixed,
        }
    }
}

/// What to do with a window whose wanted pages all came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Some pages have to be asked for again.
    Again,
    /// Everything came.
    Complete,
    /// Fewer keys than the total, as often as it is asked.
    Short,
    /// More hits than one query delivers.
    Full,
}

#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub(super) window: Window,
    pub(super) state: WindowState,
    /// Largest total that any page gave.
    pub(super) total: u64,
    /// Distinct keys of this window, see [`Observation::distinct`].
    pub(super) distinct: u64,
    /// Distinct keys of all windows of the same size range.
    pub(super) span_distinct: u64,
    /// Index of the overflowing window that this one is a part of.
    pub(super) parent: Option<usize>,
    /// How many answers said that the query is too expensive.
    pub(super) dense: u8,
    pages: [Page; MAX_PAGES as usize],
    asked: [u8; MAX_PAGES as usize],
    order: Order,
    /// The page asked first, whose total says how many there are.
    first: u8,
    walks: u8,
    distinct_before: u64,
}

fn slot(page: u8) -> usize {
    usize::from(page.clamp(1, MAX_PAGES) - 1)
}

/// How far a total of this many hits may have been rounded up: totals keep nine significant bits.
fn quantum(total: u64) -> u64 {
    1 << (u64::BITS - total.leading_zeros()).saturating_sub(9)
}

impl Walk {
    /// A window of the sweep.
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            state: WindowState::Open,
            total: 0,
            distinct: 0,
            span_distinct: 0,
            parent: None,
            dense: 0,
            pages: Default::default(),
            asked: Default::default(),
            order: Order::Up,
            first: 1,
            walks: 1,
            distinct_before: 0,
        }
    }

    /// A part of the overflowing window `parent`, probably of `expected` hits. It is read from its end, where the keys
    /// are that the whole did not deliver, if the order is the same.
    pub(super) fn part(window: Window, parent: usize, expected: u64) -> Self {
        // A page beyond the last one would be wasted, one before it is not: a little less than expected.
        let first = u8::try_from((expected - expected / 20).div_ceil(PER_PAGE)).unwrap_or(MAX_PAGES);
        Self {
            parent: Some(parent),
            order: Order::Down(Run::New),
            first: first.clamp(1, MAX_PAGES),
            ..Self::new(window)
        }
    }

    /// Whether no page was asked for yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.pages.iter().all(|page| *page == Page::Idle) && self.asked == [0; MAX_PAGES as usize]
    }

    fn expected_pages(&self) -> u8 {
        u8::try_from(self.total.div_ceil(PER_PAGE)).unwrap_or(MAX_PAGES).clamp(1, MAX_PAGES)
    }

    fn page(&self, page: u8) -> Page {
        self.pages[slot(page)]
    }

    /// The page to ask for now; nothing when all came or the ones under way decide what is next.
    pub(super) fn wanted(&self) -> Option<u8> {
        match self.page(self.first) {
            Page::Idle => return Some(self.first),
            Page::Asked => return None,
            Page::Done { .. } => {}
        }
        // Asked again, and by now enough.
        if self.walks > 1 && self.distinct >= self.total.min(REACHABLE) {
            return None;
        }
        match self.order {
            Order::Up => self.next_up(),
            Order::Down(_) if self.distinct >= self.total || self.pages.contains(&Page::Asked) => None,
            Order::Down(Run::Over) if self.total > REACHABLE => None,
            // Beyond the total, if there may be something, once all before it came.
            Order::Down(_) => {
                let mut down = (1..=self.expected_pages()).rev();
                down.find(|page| self.page(*page) == Page::Idle).or_else(|| self.next_up())
            }
        }
    }

    /// The first page that was not asked for, among those that there should be.
    fn next_up(&self) -> Option<u8> {
        let mut before = Page::Idle;
        for page in 1..=MAX_PAGES {
            // A full page that goes beyond the total: the total was too small, there may be more.
            let beyond = u64::from(page - 1) * PER_PAGE > self.total;
            let reaches = page <= self.expected_pages()
                || (beyond && matches!(before, Page::Done { items, .. } if items >= PER_PAGE));
            if !reaches || matches!(before, Page::Done { items: 0, incomplete: false }) {
                return None;
            }
            before = self.page(page);
            if before == Page::Idle {
                return Some(page);
            }
        }
        None
    }

    /// Note that `page` is being asked for; gives how often it was by now.
    pub(super) fn ask(&mut self, page: u8) -> u8 {
        self.pages[slot(page)] = Page::Asked;
        self.asked[slot(page)].saturating_add(1)
    }

    /// The request for `page` came to nothing: it is wanted again.
    pub(super) fn release(&mut self, page: u8) {
        if self.page(page) == Page::Asked {
            self.pages[slot(page)] = Page::Idle;
        }
    }

    pub(super) fn note(&mut self, seen: &Observation) {
        let index = slot(seen.request.page);
        self.asked[index] = self.asked[index].max(seen.request.walk);
        self.pages[index] = Page::Done { items: seen.items, incomplete: seen.incomplete };
        self.total = self.total.max(seen.total);
        self.distinct = self.distinct.max(seen.distinct);
        if let Order::Down(run) = &mut self.order {
            let new = seen.span_distinct.saturating_sub(self.span_distinct);
            *run = run.after(new, seen.items, seen.distinct == REACHABLE);
        }
        self.span_distinct = self.span_distinct.max(seen.span_distinct).max(self.distinct);
    }

    /// Whether the first page should be asked again before its total is believed.
    pub(super) fn first_page_is_doubtful(&self) -> bool {
        matches!(self.page(self.first), Page::Done { incomplete: true, .. })
            && self.total <= REACHABLE
            && self.asked[slot(self.first)] < MAX_WALKS
    }

    pub(super) fn ask_first_page_again(&mut self) {
        self.pages[slot(self.first)] = Page::Idle;
    }

    /// Whether every wanted page came.
    pub(super) fn is_idle(&self) -> bool {
        self.wanted().is_none() && !self.pages.contains(&Page::Asked)
    }

    /// Judge a window whose wanted pages all came, and prepare the pages to ask again.
    pub(super) fn judge(&mut self) -> Verdict {
        let mut again = false;
        for (page, asked) in self.pages.iter_mut().zip(&self.asked) {
            if matches!(page, Page::Done { incomplete: true, .. }) && *asked < MAX_WALKS {
                *page = Page::Idle;
                again = true;
            }
        }
        if again {
            return Verdict::Again;
        }
        if matches!(self.order, Order::Down(_)) && self.total > REACHABLE {
            return if self.distinct >= self.total { Verdict::Complete } else { Verdict::Full };
        }
        let incomplete = self.pages.iter().any(|page| matches!(page, Page::Done { incomplete: true, .. }));
        let last_is_full = matches!(self.page(MAX_PAGES), Page::Done { items, .. } if items >= PER_PAGE);
        // Exactly the cap and a total that agrees is taken at its word.
        let full = last_is_full && (self.total > REACHABLE || self.distinct > self.total);
        let goal = self.total.min(REACHABLE);
        if self.distinct >= goal || self.is_rounding() {
            return match (full || self.total > REACHABLE, incomplete) {
                (true, _) => Verdict::Full,
                (false, true) => Verdict::Short,
                (false, false) => Verdict::Complete,
            };
        }
        // A walk that brought nothing new says that the total is wrong, and a third one would say so again.
        let hopeful = self.walks == 1 || self.distinct > self.distinct_before;
        if self.walks < MAX_WALKS && hopeful {
            self.walks += 1;
            self.distinct_before = self.distinct;
            self.pages = Default::default();
            return Verdict::Again;
        }
        if self.total > REACHABLE { Verdict::Full } else { Verdict::Short }
    }

    /// Whether the missing keys are explained by the rounding of the total: pages without a gap or a repetition, and
    /// fewer missing than a total of this size may be off.
    fn is_rounding(&self) -> bool {
        let items = self.pages.iter().filter_map(|page| match page {
            Page::Done { items, incomplete: false } => Some(*items),
            _ => None,
        });
        let full = items.clone().filter(|items| *items >= PER_PAGE).count() as u64;
        let sum: u64 = items.sum();
        // Keys of a part may have come with its whole.
        let each_once = if self.parent.is_some() { sum <= self.distinct } else { sum == self.distinct };
        each_once && full == sum / PER_PAGE && self.total - self.distinct < quantum(self.total)
    }
}
