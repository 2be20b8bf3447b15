//! What a crawl will cost, before it is started.

use super::{CrawlError, CrawlOptions, crawled_at, families};
use crate::github;
use crate::plan::price;
use crate::plan::targets::Targets;
use crate::store::Store;
use serde::Serialize;
use std::collections::BTreeMap;

/// The price of a crawl, as `--dry-run` prints it. Nothing is asked of GitHub: what is not known from an earlier run
/// is counted as one request a target, and said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrawlPrice {
    /// Code search.
    pub code_search: price::Price,
    /// GraphQL queries for the contents, in full batches.
    pub graphql: u64,
    /// GraphQL queries for the authorship, in full batches.
    pub histories: u64,
    /// Hours that the GraphQL queries take at github.com's points an hour: a point for contents, more for histories.
    pub graphql_hours: f64,
    /// Hours at the documented rates: contents are read while the search goes on, so it is the longer of the two.
    pub nominal_hours: f64,
    /// The same at the rate of searches that earlier runs observed.
    pub observed_hours: Option<f64>,
    /// By target: hits that an earlier run found.
    pub targets: BTreeMap<String, u64>,
}

/// Price a crawl of `targets` by what earlier runs found. After a whole crawl a target without hits has none, and is no
/// unknown. Without a `store` nothing is known.
///
/// # Errors
/// When the store cannot be read.
pub async fn crawl_price(
    store: Option<&Store>,
    targets: &Targets,
    options: &CrawlOptions,
) -> Result<CrawlPrice, CrawlError> {
    let is_whole = match store {
        Some(store) => crawled_at(store, targets, options).await?.is_some(),
        None => false,
    };
    let mut expected = Vec::new();
    let mut by_target = BTreeMap::new();
    for target in targets.selected() {
        let mut hits = 0;
        for fork in families(options) {
            let sizes = match store {
                Some(store) => store.sizes_of(&target.id, *fork).await?,
                None => Vec::new(),
            };
            hits += sizes.iter().map(|(_, count)| count).sum::<u64>();
            expected.push(if sizes.is_empty() && !is_whole {
                price::Expectation::Unknown
            } else {
                price::Expectation::Sizes(sizes.iter().copied().collect())
            });
        }
        by_target.insert(target.id.clone(), hits);
    }
    let (observed, artifacts, repos) = match store {
        Some(store) => {
            let counts = store.counts().await?;
            (store.observed_search_rate().await?, counts.artifacts.unsigned_abs(), counts.repos.unsigned_abs())
        }
        None => (None, 0, 0),
    };
    let price = price::code_search(&expected, price::NOMINAL_PER_MINUTE, observed);
    Ok(whole(price, artifacts, repos, by_target, options))
}

/// What a crawl of a corpus of the published size would cost: 396,934 files in 54,628 repositories (the Compaction
/// Cliff paper, abstract), as if one target had them all.
pub fn published_size(options: &CrawlOptions) -> CrawlPrice {
    const FILES: u64 = 396_934;
    const REPOSITORIES: u64 = 54_628;
    let price = price::code_search(&[price::Expectation::Hits(FILES)], price::NOMINAL_PER_MINUTE, None);
    whole(price, FILES, REPOSITORIES, BTreeMap::new(), options)
}

/// The price of searches, and of reading so many artifacts in so many repositories.
fn whole(
    search: price::Price,
    artifacts: u64,
    repos: u64,
    targets: BTreeMap<String, u64>,
    options: &CrawlOptions,
) -> CrawlPrice {
    let queries = |things: u64, each: usize| things.div_ceil(each.max(1) as u64);
    let graphql = queries(repos, options.batch);
    let histories = if options.histories { queries(artifacts, options.history_batch) } else { 0 };
    let points = github::Limits::default().graphql.requests.unwrap_or(u32::MAX);
    let history_points = histories * u64::from(github::history_points(options.history_batch));
    let graphql_hours = (graphql + history_points) as f64 / f64::from(points.max(1));
    CrawlPrice {
        graphql,
        histories,
        graphql_hours,
        nominal_hours: search.nominal_hours.max(graphql_hours),
        observed_hours: search.observed_hours.map(|hours| hours.max(graphql_hours)),
        code_search: search,
        targets,
    }
}
