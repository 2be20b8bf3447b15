//! What to ask code search, and in which order.
//!
//! Code search delivers at most 1,000 hits per query in pages of 100, so a large target is cut into windows of file
//! size. [`Planner`] decides which window and page to ask next from what earlier answers said; it does no IO and reads
//! no clock. [`simulate`] holds a model of the service to measure it against, and [`price`] says what a crawl costs.
//! What is searched for at all is data: [`targets`].

mod histogram;
mod model;
mod places;
mod planner;
pub mod price;
pub mod simulate;
pub mod targets;
#[cfg(test)]
mod tests;
mod walk;
mod window;

pub use histogram::Histogram;
pub use places::Places;
pub use planner::{Observation, Planner, Refusal, Request, Setup, Summary, UnexpectedPage, WindowReport};
pub use targets::{Owner, PlatformInfo, Selection, Target, TargetError, Targets, UnknownPlatform};
pub use window::{Axis, Refinement, UnknownRefinement, Window, axes_for};

/// Most hits that one query delivers, whatever its total says.
pub const REACHABLE: u64 = 1_000;
/// Hits a page, the most the service allows.
pub const PER_PAGE: u64 = 100;
/// Pages of one query.
pub const MAX_PAGES: u8 = 10;

/// The fewest code-search requests that deliver `reachable` hits of one target and fork family: a full page each, and
/// one request to learn that there are none.
pub fn lower_bound(reachable: u64) -> u64 {
    reachable.div_ceil(PER_PAGE).max(1)
}
