//! The crawl: search windows, then contents, then histories. Every step asks the store what is missing, so a crawl that
//! was killed or paused goes on where it stood.

mod content;
mod histories;
mod links;
mod progress;
mod search;

use crate::corpus::Slug;
use crate::github::{self, GitHub, LedgerRow, Traffic};
use crate::monitor::Monitor;
use crate::plan::targets::Targets;
use crate::plan::{UnexpectedPage, price};
use crate::store::{FailureRow, RunId, Store, StoreError};
use crate::tag::authors::AuthorRules;
use crate::taxonomy::{ForkFamily, Outcome};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

/// What to crawl, besides the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlOptions {
    /// Search forks, too: a second walk over every target.
    pub forks: bool,
    /// Read the authorship of every artifact.
    pub histories: bool,
    /// Search targets that are walked at the same time.
    pub search_lanes: usize,
    /// GraphQL queries under way at the same time.
    pub content_lanes: usize,
    /// Repositories in a GraphQL query at most.
    pub batch: usize,
    /// Paths in a history query at most.
    pub history_batch: usize,
}

impl Default for CrawlOptions {
    fn default() -> Self {
        Self { forks: false, histories: true, search_lanes: 4, content_lanes: 4, batch: 25, history_batch: 8 }
    }
}

/// Counts of requests by bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Code search.
    pub code_search: u64,
    /// GraphQL.
    pub graphql: u64,
    /// Other REST.
    pub core: u64,
}

/// Windows by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Windows {
    /// Every hit came.
    pub complete: u64,
    /// Walked as often as allowed, and hits are missing.
    pub short: u64,
    /// More hits than search delivers, and no way to split.
    pub overflow: u64,
    /// Not settled.
    pub open: u64,
}

/// Refusals by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Limited {
    /// Quota used up.
    pub primary: u64,
    /// Too fast, or too many at once.
    pub secondary: u64,
}

/// Something that did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What a crawl did, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrawlSummary {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it is paused.
    pub paused: Option<String>,
    /// When to go on, if a limit names a time.
    pub resume_at: Option<Timestamp>,
    /// Requests of this invocation, refused ones included.
    pub requests: Requests,
    /// Σ over target and fork family of max(1, ⌈reachable hits / 100⌉).
    pub lower_bound: u64,
    /// Code-search requests that were answered, over all invocations of this crawl, ÷ `lower_bound`.
    pub ratio: f64,
    /// Windows.
    pub windows: Windows,
    /// Distinct hits.
    pub hits: u64,
    /// Artifacts in the corpus.
    pub artifacts: u64,
    /// Distinct blobs in the corpus.
    pub blobs: u64,
    /// Hits that no query delivers.
    pub unreachable: u64,
    /// Artifacts of overflowing sizes that were found beside other files of their repositories.
    pub recovered_by_siblings: u64,
    /// Refusals.
    pub limited: Limited,
    /// Time during which at least one request waited for a limit or a retry.
    pub waited_seconds: f64,
    /// What failed; the rest is stored.
    pub failed: Vec<Failed>,
}

/// Why a crawl could not go on.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// GitHub.
    #[error(transparent)]
    GitHub(#[from] github::Error),
    /// Stored pages do not fit together.
    #[error(transparent)]
    Plan(#[from] UnexpectedPage),
    /// The author rules do not compile.
    #[error("Failed to read the author rules: {0}")]
    Rules(String),
    /// A body could not be packed.
    #[error("Failed to pack a blob: {0}")]
    Pack(std::io::Error),
}

/// Why a step ends before its end.
#[derive(Debug)]
enum Halt {
    Paused { why: String, until: Option<Timestamp> },
    Failed(CrawlError),
}

impl<E: Into<CrawlError>> From<E> for Halt {
    fn from(error: E) -> Self {
        match error.into() {
            CrawlError::GitHub(github::Error::Paused { what, why, until }) => {
                Self::Paused { why: format!("before {what}: {why}"), until }
            }
            error => Self::Failed(error),
        }
    }
}

/// What all steps share.
struct Context<'a> {
    store: &'a Store,
    github: &'a GitHub,
    targets: &'a Targets,
    options: &'a CrawlOptions,
    monitor: &'a dyn Monitor,
    run: RunId,
    identity: String,
    optouts: HashSet<String>,
    failed: Mutex<Vec<Failed>>,
}

impl Context<'_> {
    /// Wait for `work`, unless the monitor asks to stop first. Work that is dropped has stored nothing.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let stopped = async {
            while !self.monitor.stop_requested() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = stopped => Err(Halt::Paused { why: "asked to stop".to_owned(), until: None }),
        }
    }

    /// Store that something failed, and go on.
    async fn fail(&self, stage: &str, what: String, why: String) -> Result<(), StoreError> {
        let row = FailureRow { stage: stage.to_owned(), what: what.clone(), why: why.clone() };
        self.store.add_failures(self.run, &[row], now()).await?;
        self.monitor.warn(&format!("{what}: {why}"));
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Failed { what, why });
        Ok(())
    }

    fn opted_out(&self, slug: &Slug) -> bool {
        self.optouts.contains(&slug.owner().to_ascii_lowercase()) || self.optouts.contains(&slug.key())
    }

    async fn save_ledger(&self) -> Result<(), StoreError> {
        let rows: Vec<(String, String)> = self
            .github
            .ledger_rows()
            .into_iter()
            .filter_map(|row| Some((row.resource.clone(), serde_json::to_string(&row).ok()?)))
            .collect();
        self.store.put_ledger(&self.identity, &rows, now()).await
    }
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Crawl the selected platforms of `targets` into `store`. A crawl that was killed or paused and had the same scope is
/// continued; otherwise a new one begins.
///
/// # Errors
/// When nothing can be done at all: the store fails, or GitHub refuses the credentials. A limit, a budget or a request
/// to stop is no error but [`Outcome::Paused`], and what fails singly is in [`CrawlSummary::failed`].
pub async fn crawl(
    store: &Store,
    github: &GitHub,
    targets: &Targets,
    options: &CrawlOptions,
    monitor: &dyn Monitor,
) -> Result<CrawlSummary, CrawlError> {
    let scope = scope(targets, options);
    let wanted = scope.to_string();
    let run = match store.unfinished_run("crawl").await? {
        Some((run, earlier)) if earlier == wanted => run,
        _ => store.begin_run("crawl", &scope, now()).await?,
    };
    let identity = github.identity();
    let rows: Vec<LedgerRow> =
        store.ledger(&identity).await?.iter().filter_map(|(_, state)| serde_json::from_str(state).ok()).collect();
    github.restore_ledger(&rows);
    let optouts = store.optouts().await?.into_iter().collect();
    let context =
        Context { store, github, targets, options, monitor, run, identity, optouts, failed: Mutex::default() };

    let (search, halted) = search::walk_all(&context).await?;
    let halted = match halted {
        Some(halt) => Some(halt),
        None => rest(&context).await.err(),
    };
    context.save_ledger().await?;
    let (outcome, paused, resume_at) = match halted {
        Some(Halt::Failed(error)) => {
            let summary = serde_json::json!({ "error": error.to_string() });
            store.end_run(run, Outcome::Failed, &summary, now()).await?;
            return Err(error);
        }
        Some(Halt::Paused { why, until }) => (Outcome::Paused, Some(why), until),
        None => (Outcome::Done, None, None),
    };
    let summary = summary(&context, &search, outcome, paused, resume_at).await?;
    let json = serde_json::to_value(&summary).unwrap_or_default();
    store.end_run(run, summary.outcome, &json, now()).await?;
    Ok(summary)
}

async fn rest(context: &Context<'_>) -> Result<(), Halt> {
    content::read_all(context).await?;
    if context.options.histories {
        histories::read_all(context).await?;
    }
    Ok(())
}

async fn summary(
    context: &Context<'_>,
    search: &search::Walked,
    outcome: Outcome,
    paused: Option<String>,
    resume_at: Option<Timestamp>,
) -> Result<CrawlSummary, CrawlError> {
    let traffic: Traffic = context.github.traffic();
    let [hits, _, _, _, recovered] = context.store.crawl_counts(context.run).await?;
    let counts = context.store.counts().await?;
    let failed = context.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let outcome = match outcome {
        Outcome::Done if !failed.is_empty() => Outcome::Partial,
        outcome => outcome,
    };
    Ok(CrawlSummary {
        outcome,
        paused,
        resume_at,
        requests: Requests { code_search: traffic.code_search, graphql: traffic.graphql, core: traffic.core },
        lower_bound: search.lower_bound,
        ratio: if search.lower_bound == 0 { 0.0 } else { search.answered as f64 / search.lower_bound as f64 },
        windows: search.windows,
        hits,
        artifacts: counts.artifacts.max(0) as u64,
        blobs: counts.blobs.max(0) as u64,
        unreachable: search.unreachable,
        recovered_by_siblings: recovered,
        limited: Limited { primary: traffic.limited_primary, secondary: traffic.limited_secondary },
        waited_seconds: traffic.waited_seconds,
        failed,
    })
}

/// What makes two crawls the same crawl.
fn scope(targets: &Targets, options: &CrawlOptions) -> serde_json::Value {
    let ids: Vec<&str> = targets.selected().map(|target| target.id.as_str()).collect();
    serde_json::json!({ "targets": ids, "forks": options.forks })
}

/// The fork families that `options` ask for.
fn families(options: &CrawlOptions) -> &'static [ForkFamily] {
    if options.forks { &[ForkFamily::Plain, ForkFamily::Only] } else { &[ForkFamily::Plain] }
}

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
    /// Hours that the GraphQL queries take at one point each and github.com's points an hour.
    pub graphql_hours: f64,
    /// All hours at the documented rates.
    pub nominal_hours: f64,
    /// All hours at the rate of searches that earlier runs observed.
    pub observed_hours: Option<f64>,
    /// By target: hits that an earlier run found.
    pub targets: BTreeMap<String, u64>,
}

/// Price a crawl of `targets` by what earlier runs found.
///
/// # Errors
/// When the store cannot be read.
pub async fn crawl_price(store: &Store, targets: &Targets, options: &CrawlOptions) -> Result<CrawlPrice, CrawlError> {
    let mut expected = Vec::new();
    let mut by_target = BTreeMap::new();
    for target in targets.selected() {
        let sizes = store.size_histogram(&target.id).await?;
        by_target.insert(target.id.clone(), sizes.iter().map(|(_, count)| count).sum());
        for _ in families(options) {
            expected.push(if sizes.is_empty() {
                price::Expectation::Unknown
            } else {
                price::Expectation::Sizes(sizes.iter().copied().collect())
            });
        }
    }
    let observed = store.observed_search_rate().await?;
    let price = price::code_search(&expected, price::NOMINAL_PER_MINUTE, observed);
    let counts = store.counts().await?;
    let queries = |things: i64, each: usize| (things.max(0) as u64).div_ceil(each.max(1) as u64);
    let graphql = queries(counts.repos, options.batch);
    let histories = if options.histories { queries(counts.artifacts, options.history_batch) } else { 0 };
    let points = github::Limits::default().graphql.requests.unwrap_or(u32::MAX);
    let graphql_hours = (graphql + histories) as f64 / f64::from(points.max(1));
    Ok(CrawlPrice {
        graphql,
        histories,
        graphql_hours,
        nominal_hours: price.nominal_hours + graphql_hours,
        observed_hours: price.observed_hours.map(|hours| hours + graphql_hours),
        code_search: price,
        targets: by_target,
    })
}

/// The author rules that come with the tagger.
fn author_rules() -> Result<AuthorRules, CrawlError> {
    AuthorRules::parse("queries/tag/authors.toml", include_str!("../../../queries/tag/authors.toml"))
        .map_err(|error| CrawlError::Rules(error.to_string()))
}
