//! The crawl: search windows, contents and histories. Search and GraphQL have limits of their own, so contents are read
//! while the search goes on, and histories whenever contents wait for it. Everything asks the store what is missing, so a
//! crawl that was killed or paused goes on where it stood.

pub(in crate::job) mod batches;
mod content;
mod feed;
pub(in crate::job) mod histories;
mod known;
pub(in crate::job) mod ledger;
pub(in crate::job) mod links;
mod price;
mod progress;
pub(in crate::job) mod search;
mod shelf;
mod work;
pub(in crate::job) mod write;

pub use batches::Fill;
pub use price::{CrawlPrice, crawl_price, published_size};

use crate::corpus::Slug;
use crate::github::{self, GitHub, Traffic};
use crate::monitor::Monitor;
use crate::plan::UnexpectedPage;
use crate::plan::targets::Targets;
use crate::store::{FailureRow, OptOuts, RunId, Store, StoreError, Training};
use crate::tag::authors::AuthorRules;
use crate::taxonomy::{ForkFamily, Outcome};
use feed::Feed;
use jiff::Timestamp;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// How full the GraphQL queries were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Batches {
    /// Repositories in queries for contents.
    pub content: Fill,
    /// Paths in queries for histories.
    pub history: Fill,
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
    /// How full the GraphQL queries of this invocation were.
    pub batches: Batches,
    /// Contents that came in this invocation and are pointers into large file storage; the pointer is kept as the text.
    pub storage_pointers: u64,
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

/// How a run that halted so, or came to its end, is told of: the outcome, why it is paused, and until when. A failure is
/// noted with the run and handed on.
pub(in crate::job) async fn ended(
    store: &Store,
    run: RunId,
    halted: Option<Halt>,
) -> Result<(Outcome, Option<String>, Option<Timestamp>), CrawlError> {
    match halted {
        Some(Halt::Failed(error)) => {
            let summary = serde_json::json!({ "error": error.to_string() });
            store.end_run(run, Outcome::Failed, &summary, now()).await?;
            Err(error)
        }
        Some(Halt::Paused { why, until }) => Ok((Outcome::Paused, Some(why), until)),
        None => Ok((Outcome::Done, None, None)),
    }
}

/// Why a step ends before its end.
#[derive(Debug)]
pub(in crate::job) enum Halt {
    Paused { why: String, until: Option<Timestamp> },
    Failed(CrawlError),
}

impl Halt {
    /// Of two reasons to stop the one that counts: a failure before a pause, else the first.
    fn worse(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(Self::Paused { .. }) | None, Some(Self::Failed(error))) => Some(Self::Failed(error)),
            (one, other) => one.or(other),
        }
    }

    fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paused { .. }, Self::Failed(error)) => Self::Failed(error),
            (first, _) => first,
        }
    }
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

/// Wait for `work`, unless `stop` becomes true first; the work is dropped then.
pub(in crate::job) async fn unless_stopped<T>(
    stop: impl Fn() -> bool,
    work: impl Future<Output = T>,
) -> Result<T, Halt> {
    let stopped = async {
        while !stop() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = stopped => Err(Halt::Paused { why: "asked to stop".to_owned(), until: None }),
    }
}

/// What all steps share.
pub(in crate::job) struct Context<'a> {
    pub(in crate::job) store: &'a Store,
    pub(in crate::job) github: &'a GitHub,
    pub(in crate::job) targets: &'a Targets,
    pub(in crate::job) options: &'a CrawlOptions,
    pub(in crate::job) monitor: &'a dyn Monitor,
    pub(in crate::job) run: RunId,
    pub(in crate::job) identity: String,
    pub(in crate::job) optouts: OptOuts,
    pub(in crate::job) failed: Mutex<Vec<Failed>>,
    /// Leave a window once all that is left of it is known: this run has seen those files as they are stored.
    pub(in crate::job) skips_known: bool,
    /// From the search to the reader.
    feed: Feed,
    /// Repositories read in this invocation.
    read: AtomicU64,
    /// Contents among what came that are pointers into large file storage.
    pointers: AtomicU64,
    /// Something failed that ends the crawl: whatever else is under way stops.
    stopped: AtomicBool,
    /// The search is over, so that reading is what the monitor shows.
    reading: AtomicBool,
    /// The dictionary was learnt, or cannot be.
    learnt: AtomicBool,
}

/// Blobs of a corpus from which on a dictionary is learnt before the crawl is over: what comes later is packed with it at
/// once, and little has to be packed anew.
const LEARN_FROM: i64 = 8_000;

impl<'a> Context<'a> {
    /// The context of `run`, with the ledger of this identity taken up where it was left.
    pub(in crate::job) async fn new(
        store: &'a Store,
        github: &'a GitHub,
        targets: &'a Targets,
        options: &'a CrawlOptions,
        monitor: &'a dyn Monitor,
        run: RunId,
    ) -> Result<Self, StoreError> {
        ledger::restore(store, github).await?;
        let optouts = store.opt_outs().await?;
        Ok(Self {
            store,
            github,
            targets,
            options,
            monitor,
            run,
            identity: github.identity(),
            optouts,
            failed: Mutex::default(),
            skips_known: false,
            feed: Feed::default(),
            read: AtomicU64::new(0),
            pointers: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            learnt: AtomicBool::new(false),
        })
    }

    /// Wait for `work`, unless the monitor asks to stop first. Work that is dropped has stored nothing.
    pub(in crate::job) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        unless_stopped(|| self.monitor.stop_requested() || self.stopped.load(Ordering::Relaxed), work).await
    }

    /// Ask everything that is under way to stop.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Tell the monitor that reading got on, once that is the running step.
    fn advance_reading(&self, units: u64) {
        if self.reading.load(Ordering::Relaxed) {
            self.monitor.advance(units);
        }
    }

    /// Learn the dictionary as soon as there is enough to learn from.
    async fn learn_dictionary(&self) -> Result<(), StoreError> {
        if !self.learnt.load(Ordering::Relaxed) && self.store.blob_count().await? >= LEARN_FROM {
            self.store.train_dictionary(self.run, &Unseen(self.monitor)).await?;
            self.learnt.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Store that something failed, and go on.
    pub(in crate::job) async fn fail(&self, stage: &str, what: String, why: String) -> Result<(), StoreError> {
        let row = FailureRow { stage: stage.to_owned(), what: what.clone(), why: why.clone() };
        self.store.add_failures(self.run, &[row], now()).await?;
        self.monitor.warn(&format!("{what}: {why}"));
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Failed { what, why });
        Ok(())
    }

    pub(in crate::job) fn opted_out(&self, slug: &Slug) -> bool {
        self.optouts.covers(slug)
    }

    pub(in crate::job) async fn save_ledger(&self) -> Result<(), StoreError> {
        ledger::save(self.store, self.github).await
    }
}

/// A monitor for work in the background of the running step: it passes on nothing but the wish to stop.
struct Unseen<'a>(&'a dyn Monitor);

impl Monitor for Unseen<'_> {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn warn(&self, line: &str) {
        self.0.warn(line);
    }
    fn end(&self) {}
    fn stop_requested(&self) -> bool {
        self.0.stop_requested()
    }
}

pub(in crate::job) fn now() -> i64 {
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
    let context = Context::new(store, github, targets, options, monitor, run).await?;
    let searching = async {
        let (walked, halted) = search::walk_all(&context).await;
        context.reading.store(true, Ordering::Relaxed);
        context.feed.close(halted.is_none());
        (walked, halted)
    };
    let mut batches = Batches::default();
    let ((search, search_halted), read) = tokio::join!(searching, read_all(&context, &mut batches));
    let halted = Halt::worse(search_halted, read.err());
    context.save_ledger().await?;
    let (outcome, paused, resume_at) = ended(store, run, halted).await?;
    let summary = summary(&context, &search, batches, outcome, paused, resume_at).await?;
    let json = serde_json::to_value(&summary).unwrap_or_default();
    store.end_run(run, summary.outcome, &json, now()).await?;
    Ok(summary)
}
/// Read contents while the search goes on, and histories whenever contents wait for it; then what is left of both.
async fn read_all(context: &Context<'_>, batches: &mut Batches) -> Result<(), Halt> {
    let result = read_along(context, batches).await;
    if matches!(result, Err(Halt::Failed(_))) {
        context.stop();
    }
    result
}

async fn read_along(context: &Context<'_>, batches: &mut Batches) -> Result<(), Halt> {
    let mut reader = content::Reader::new(context);
    let mut histories = histories::Histories::new(context)?;
    let result = read_with(context, &mut reader, &mut histories).await;
    *batches = Batches { content: reader.fill(), history: histories.fill() };
    result
}

async fn read_with(
    context: &Context<'_>,
    reader: &mut content::Reader<'_>,
    histories: &mut histories::Histories<'_>,
) -> Result<(), Halt> {
    while !context.feed.is_over() {
        reader.read(&context.feed, true).await?;
        if !(context.options.histories && histories.read_some().await?) {
            context.unless_stopped(context.feed.has(context.options.batch)).await?;
        }
    }
    let monitor = context.monitor;
    let (met, read) =
        (context.store.hit_counts(context.run).await?.repos, context.store.repos_read(context.run).await?);
    monitor.begin("content", Some(met.saturating_sub(read)));
    let read = reader.read(&context.feed, false).await;
    monitor.end();
    read?;
    // The rest takes every hit: a search that goes on another time brings more of them.
    if !context.feed.is_complete() {
        return Ok(());
    }
    monitor.begin("later hits", None);
    let read = reader.read_again().await;
    monitor.end();
    read?;
    if context.options.histories {
        monitor.begin("history", Some(context.store.count_without_history().await?));
        let read = histories.read_rest().await;
        monitor.end();
        read?;
    }
    match context.store.train_dictionary(context.run, monitor).await? {
        Training::Stopped => Err(Halt::Paused { why: "asked to stop".to_owned(), until: None }),
        Training::NotDue | Training::Done => Ok(()),
    }
}

async fn summary(
    context: &Context<'_>,
    search: &search::Walked,
    batches: Batches,
    outcome: Outcome,
    paused: Option<String>,
    resume_at: Option<Timestamp>,
) -> Result<CrawlSummary, CrawlError> {
    let traffic: Traffic = context.github.traffic();
    let hits = context.store.hit_counts(context.run).await?.hits;
    let unreachable = context.store.unreachable(context.run).await?.iter().map(|(.., count)| count).sum();
    let recovered = context.store.beside_counts(context.run).await?.recovered;
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
        unreachable,
        recovered_by_siblings: recovered,
        batches,
        storage_pointers: context.pointers.load(Ordering::Relaxed),
        limited: Limited { primary: traffic.limited_primary, secondary: traffic.limited_secondary },
        waited_seconds: traffic.waited_seconds,
        failed,
    })
}

/// What makes two crawls the same crawl.
pub(in crate::job) fn scope(targets: &Targets, options: &CrawlOptions) -> serde_json::Value {
    let ids: Vec<&str> = targets.selected().map(|target| target.id.as_str()).collect();
    serde_json::json!({ "targets": ids, "forks": options.forks })
}

/// When a crawl of this scope came to its end, if none was begun since: another would walk everything again.
///
/// # Errors
/// When the store cannot be read.
pub async fn crawled_at(
    store: &Store,
    targets: &Targets,
    options: &CrawlOptions,
) -> Result<Option<Timestamp>, CrawlError> {
    if store.unfinished_run("crawl").await?.is_some() {
        return Ok(None);
    }
    let wanted = scope(targets, options).to_string();
    let ended = store.ended_at("crawl", &wanted).await?;
    Ok(ended.and_then(|ms| Timestamp::from_millisecond(ms).ok()))
}

/// The fork families that `options` ask for.
pub(in crate::job) fn families(options: &CrawlOptions) -> &'static [ForkFamily] {
    if options.forks { &[ForkFamily::Plain, ForkFamily::Only] } else { &[ForkFamily::Plain] }
}

/// The author rules that come with the tagger.
fn author_rules() -> Result<AuthorRules, CrawlError> {
    AuthorRules::parse("queries/tag/authors.toml", include_str!("../../../queries/tag/authors.toml"))
        .map_err(|error| CrawlError::Rules(error.to_string()))
}
