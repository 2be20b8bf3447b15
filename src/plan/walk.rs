//! One window being walked: which of its pages came, and whether that is all of them.

use super::{MAX_PAGES, Observation, PER_PAGE, REACHABLE, Window};
use crate::taxonomy::WindowState;

/// How often one page is asked for before the window is called short.
pub(super) const MAX_WALKS: u8 = 3;
/// Pages in a row without a new key after which a narrowed overflow has nothing more to give.
const BARREN_PAGES: u8 = 2;

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
    /// From the last one down. The part of an overflow is delivered in the order of the whole or in one of its own; in
    /// the first case what the whole did not deliver comes last, in the second it is anywhere.
    Down {
        /// Pages in a row that brought no new key.
        barren: u8,
    },
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
    /// Distinct keys of this window.
    pub(super) distinct: u64,
    /// Distinct keys of all windows of the same size range.
    pub(super) span_distinct: u64,
    /// Index of the overflowing window that this one is a part of.
    pub(super) parent: Option<usize>,
    /// Stop as soon as the size range has this many distinct keys.
    pub(super) enough: u64,
    /// How many answers said that the query is too expensive.
    pub(super) dense: u8,
    pages: [Page; MAX_PAGES as usize],
    asked: [u8; MAX_PAGES as usize],
    order: Order,
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
    pub(super) fn new(window: Window, parent: Option<usize>, enough: u64) -> Self {
        Self {
            window,
            state: WindowState::Open,
            total: 0,
            distinct: 0,
            span_distinct: 0,
            parent,
            enough,
            dense: 0,
            pages: Default::default(),
            asked: Default::default(),
            order: Order::Up,
            walks: 1,
            distinct_before: 0,
        }
    }

    /// Whether no page was asked for yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.pages.iter().all(|page| *page == Page::Idle) && self.asked == [0; MAX_PAGES as usize]
    }

    /// Narrowed overflows are read from the end.
    pub(super) fn read_down(&mut self) {
        self.order = Order::Down { barren: 0 };
    }

    fn expected_pages(&self) -> u8 {
        u8::try_from(self.total.div_ceil(PER_PAGE)).unwrap_or(MAX_PAGES).clamp(1, MAX_PAGES)
    }

    fn page(&self, page: u8) -> Page {
        self.pages[slot(page)]
    }

    /// The page to ask for now; nothing when all came or the ones under way decide what is next.
    pub(super) fn wanted(&self) -> Option<u8> {
        match self.page(1) {
            Page::Idle => return Some(1),
            Page::Asked => return None,
            Page::Done { .. } => {}
        }
        let again_and_enough = self.walks > 1 && self.distinct >= self.total.min(REACHABLE);
        if self.span_distinct >= self.enough || again_and_enough {
            return None;
        }
        match self.order {
            Order::Up => {
                let mut before = self.page(1);
                for page in 2..=MAX_PAGES {
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
            Order::Down { barren } => {
                if barren >= BARREN_PAGES || self.pages.contains(&Page::Asked) {
                    return None;
                }
                (2..=self.expected_pages()).rev().find(|page| self.page(*page) == Page::Idle)
            }
        }
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
        if let (Order::Down { barren }, true) = (&mut self.order, seen.request.page > 1) {
            *barren = if seen.span_distinct > self.span_distinct { 0 } else { *barren + 1 };
        }
        self.span_distinct = self.span_distinct.max(seen.span_distinct).max(self.distinct);
    }

    /// Whether the first page should be asked again before its total is believed.
    pub(super) fn first_page_is_doubtful(&self) -> bool {
        matches!(self.page(1), Page::Done { incomplete: true, .. })
            && self.total <= REACHABLE
            && self.asked[slot(1)] < MAX_WALKS
    }

    pub(super) fn ask_first_page_again(&mut self) {
        self.pages[slot(1)] = Page::Idle;
    }

    /// Whether every wanted page came.
    pub(super) fn is_idle(&self) -> bool {
        self.wanted().is_none() && !self.pages.contains(&Page::Asked)
    }

    /// Judge a window whose wanted pages all came, and prepare the pages to ask again.
    pub(super) fn judge(&mut self) -> Verdict {
        if self.span_distinct >= self.enough {
            return if self.distinct >= self.total { Verdict::Complete } else { Verdict::Short };
        }
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
        if let Order::Down { .. } = self.order {
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
        sum == self.distinct && full == sum / PER_PAGE && self.total - self.distinct < quantum(self.total)
    }
}
