//! How others cut a target into queries, as far as their sources tell.

use super::{Outcome, Service};
use crate::plan::{MAX_PAGES, PER_PAGE, REACHABLE};

/// A way to cut a target into windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// One query for every size.
    FixedByte,
    /// One query for every 100 bytes; what overflows is lost.
    FixedHundred,
    /// Halve ranges that overflow; the question for the count fetches no hits.
    BisectWithProbe,
    /// Halve ranges that overflow; the first page is kept.
    BisectKeepingPage,
    /// Sweep upwards; the next width follows from the last count, aiming at 800.
    AdaptiveGrowth,
}

/// Search indexes files below this size.
const END: u64 = 384 * 1024;

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 5] =
        [Self::FixedByte, Self::FixedHundred, Self::BisectWithProbe, Self::BisectKeepingPage, Self::AdaptiveGrowth];

    /// Name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::FixedByte => "fixed width, 1 byte",
            Self::FixedHundred => "fixed width, 100 bytes",
            Self::BisectWithProbe => "bisect, count probe",
            Self::BisectKeepingPage => "bisect, page 1 is data",
            Self::AdaptiveGrowth => "adaptive growth, 800",
        }
    }

    /// Crawl with this strategy.
    pub fn crawl(self, service: &mut Service<'_>) -> Outcome {
        match self {
            Self::FixedByte => fixed(service, 1),
            Self::FixedHundred => fixed(service, 100),
            Self::BisectWithProbe => bisect(service, false),
            Self::BisectKeepingPage => bisect(service, true),
            Self::AdaptiveGrowth => grow(service),
        }
        service.outcome(&[])
    }
}

/// Every page after the first that a total promises.
fn remaining_pages(service: &mut Service<'_>, lo: u64, hi: u64, total: u64, from: u8) {
    let last = total.min(REACHABLE).div_ceil(PER_PAGE) as u8;
    for page in from..=last.min(MAX_PAGES) {
        service.ask(&Service::window(lo, Some(hi)), page);
    }
}

fn first_page(service: &mut Service<'_>, lo: u64, hi: u64) -> u64 {
    service.ask(&Service::window(lo, Some(hi)), 1).map_or(0, |answer| answer.total)
}

fn fixed(service: &mut Service<'_>, width: u64) {
    let mut lo = 0;
    while lo < END {
        let hi = lo + width - 1;
        let total = first_page(service, lo, hi);
        remaining_pages(service, lo, hi, total, 2);
        lo = hi + 1;
    }
}

fn bisect(service: &mut Service<'_>, keep_page: bool) {
    let mut ranges = vec![(0, END - 1)];
    while let Some((lo, hi)) = ranges.pop() {
        let total = first_page(service, lo, hi);
        if total > REACHABLE && lo < hi {
            let middle = lo + (hi - lo) / 2;
            ranges.push((middle + 1, hi));
            ranges.push((lo, middle));
        } else {
            remaining_pages(service, lo, hi, total, if keep_page { 2 } else { 1 });
        }
    }
}

fn grow(service: &mut Service<'_>) {
    let (mut lo, mut width) = (0u64, 64.0f64);
    while lo < END {
        let hi = (lo + (width as u64).max(1) - 1).min(END - 1);
        let total = first_page(service, lo, hi);
        if total > REACHABLE && hi > lo {
            width = ((hi - lo + 1) as f64 * 800.0 / total as f64).min((hi - lo) as f64).max(1.0);
            continue;
        }
        remaining_pages(service, lo, hi, total, 2);
        let grown = if total == 0 { 4.0 } else { (800.0 / total as f64).clamp(0.25, 4.0) };
        width = ((hi - lo + 1) as f64 * grown).max(1.0);
        lo = hi + 1;
    }
}
