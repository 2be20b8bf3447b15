//! What a crawl will cost, before it is started.

use super::{Histogram, PER_PAGE, REACHABLE, lower_bound};
use serde::{Deserialize, Serialize};

/// Code-search requests a minute that the documented limit of ten leaves with one kept in reserve.
pub const NOMINAL_PER_MINUTE: f64 = 9.0;
/// Requests ÷ lower bound to reckon with for targets that need more than one window; [`super::simulate`] measures it.
pub const OVERHEAD: f64 = 1.07;

/// What is known about one target and fork family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// The sizes that an earlier run found.
    Sizes(Histogram),
    /// A count or a guess of all its hits.
    Hits(u64),
    /// Nothing: one request will tell.
    Unknown,
}

impl Expectation {
    /// Hits that queries can deliver, as far as is known.
    fn reachable(&self) -> Option<u64> {
        match self {
            Self::Sizes(histogram) => Some(histogram.iter().map(|(_, count)| count.min(REACHABLE)).sum()),
            Self::Hits(hits) => Some(*hits),
            Self::Unknown => None,
        }
    }
}

/// The price of a crawl's code search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Hits that are expected.
    pub hits: u64,
    /// The fewest requests that deliver them.
    pub lower_bound: u64,
    /// Requests to reckon with.
    pub requests: u64,
    /// Targets × fork families of which nothing is known; each stands with one request in the figures above, so that
    /// the true price is higher.
    pub unknown: u64,
    /// Hours at the nominal rate.
    pub nominal_hours: f64,
    /// Hours at the rate that earlier runs observed.
    pub observed_hours: Option<f64>,
}

/// Add up what all targets and families will cost at `nominal` and `observed` requests a minute. A rate that is not
/// positive counts as unknown.
pub fn code_search<'a>(
    expected: impl IntoIterator<Item = &'a Expectation>,
    nominal: f64,
    observed: Option<f64>,
) -> Price {
    let mut price = Price::default();
    for one in expected {
        let hits = one.reachable();
        let least = lower_bound(hits.unwrap_or(0));
        price.hits += hits.unwrap_or(0);
        price.lower_bound += least;
        price.requests += if least * PER_PAGE <= REACHABLE { least } else { (least as f64 * OVERHEAD).ceil() as u64 };
        price.unknown += u64::from(hits.is_none());
    }
    let hours = |rate: f64| (rate > 0.0).then(|| price.requests as f64 / rate / 60.0);
    price.nominal_hours = hours(nominal).or_else(|| hours(NOMINAL_PER_MINUTE)).unwrap_or(0.0);
    price.observed_hours = observed.and_then(hours);
    price
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::simulate::{Distribution, Service, World, crawl};

    #[test]
    fn a_price_counts_what_can_be_reached() {
        let expected = [
            Expectation::Sizes([(11, 30_000), (500, 400)].into_iter().collect()),
            Expectation::Hits(0),
            Expectation::Unknown,
        ];
        let price = code_search(&expected, 10.0, Some(2.5));
        assert_eq!((price.hits, price.lower_bound, price.requests, price.unknown), (1_400, 16, 17, 1));
        assert!((price.nominal_hours - 17.0 / 600.0).abs() < 1e-12);
        assert!((price.observed_hours.unwrap() - 17.0 / 150.0).abs() < 1e-12);
        assert_eq!(code_search(&expected, 0.0, Some(0.0)).observed_hours, None);
    }

    #[test]
    fn a_price_is_close_to_what_the_crawl_takes() {
        let world = World::new(Distribution::HeavyTail, 20_000, 7);
        let price = code_search(&[Expectation::Sizes(world.histogram())], 9.0, None);
        let took = crawl(&mut Service::new(&world), Vec::new(), None);
        assert_eq!(price.lower_bound, took.lower_bound);
        let off = price.requests as f64 / took.requests as f64;
        assert!((0.95..1.05).contains(&off), "{} reckoned, {} taken", price.requests, took.requests);
    }
}
