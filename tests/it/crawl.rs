//! The crawl against the sandbox: the same corpus whatever happens on the way.

use aac::corpus::GitOid;
use aac::github::{Credentials, Endpoints, GitHub, Options, Policy, Token};
use aac::job::crawl::{CrawlOptions, CrawlSummary, crawl};
use aac::monitor::{Monitor, Silent};
use aac::plan::targets::{Selection, Targets};
use aac::sandbox::{Faults, Limits, Running, SandboxOptions, Source, Synthetic, serve};
use aac::store::Store;
use aac::taxonomy::Outcome;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ARTIFACTS: u32 = 600;

pub(crate) async fn sandbox(limits: Limits, faults: Faults) -> Running {
    serve(SandboxOptions { limits, faults, seed: 7, ..SandboxOptions::new(Source::Synthetic(ARTIFACTS)) })
        .await
        .unwrap()
}

/// `aac` with these arguments on the corpus `db`, against the sandbox, for two platforms.
pub(crate) fn command(args: &[&str], db: &Path, sandbox: &Running) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command
        .args(args)
        .args(["-q", "--platform", "claude", "--platform", "universal", "--db"])
        .arg(db)
        .current_dir(db.parent().unwrap())
        .env("GITHUB_API_URL", sandbox.url())
        .env("GITHUB_GRAPHQL_URL", sandbox.graphql_url())
        .env("GITHUB_TOKEN", "sandbox");
    command
}

pub(crate) fn unlimited() -> Limits {
    Limits { enabled: false, ..Limits::default() }
}

pub(crate) fn client(sandbox: &Running) -> Options {
    let endpoints = Endpoints::new(&sandbox.url(), Some(&sandbox.graphql_url())).unwrap();
    let mut options = Options::new(endpoints, Credentials::Token(Token::new("sandbox")));
    options.policy = Policy {
        secondary_wait: Duration::from_millis(30),
        secondary_wait_max: Duration::from_millis(500),
        transient_wait: Duration::from_millis(2),
        transient_wait_max: Duration::from_millis(20),
        ..Policy::default()
    };
    options.limits.rest_per_minute = None;
    options.limits.graphql_per_minute = None;
    options.limits.code_search.window = Duration::from_millis(600);
    options.limits.graphql.window = Duration::from_millis(3600);
    options.limits.core.window = Duration::from_millis(3600);
    options
}

pub(crate) fn targets() -> Targets {
    let mut targets = Targets::embedded().unwrap();
    let selection = Selection::parse(&["claude".to_owned(), "universal".to_owned()], &targets).unwrap();
    targets.select(&selection);
    targets
}

async fn run(store: &Store, options: Options, monitor: &dyn Monitor) -> CrawlSummary {
    let github = GitHub::new(options).unwrap();
    crawl(store, &github, &targets(), &CrawlOptions { forks: true, ..CrawlOptions::default() }, monitor).await.unwrap()
}

/// Every artifact: repository, path and content.
pub(crate) async fn corpus(store: &Store) -> BTreeSet<(String, String, GitOid)> {
    let mut all = BTreeSet::new();
    let mut after: Option<(String, String)> = None;
    loop {
        let key = after.as_ref().map(|(repo, path)| (repo.as_str(), path.as_str()));
        let rows = store.artifacts_after(key, 500).await.unwrap();
        let Some(last) = rows.last() else { return all };
        after = Some((format!("{}/{}", last.owner, last.name).to_lowercase(), last.path.clone()));
        all.extend(
            rows.iter()
                .map(|row| (format!("{}/{}", row.owner, row.name).to_lowercase(), row.path.clone(), row.git_oid)),
        );
    }
}

pub(crate) async fn store(dir: &Path) -> Store {
    Store::create(&dir.join("corpus.db")).await.unwrap()
}

pub(crate) async fn plain() -> (BTreeSet<(String, String, GitOid)>, CrawlSummary) {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let summary = run(&store, client(&sandbox), &Silent::default()).await;
    assert_eq!(summary.failed, []);
    assert_eq!(summary.outcome, Outcome::Done);
    (corpus(&store).await, summary)
}

/// What the generated world holds of the selected platforms.
fn truth() -> BTreeSet<(String, String)> {
    let world = Synthetic::new(ARTIFACTS, 7);
    let targets = targets();
    (0..world.repositories())
        .flat_map(|repo| {
            let paths = world.paths(repo);
            let names: Vec<&str> = paths.iter().map(|(path, _)| path.as_str()).collect();
            let slug = world.slug(repo).to_lowercase();
            targets.artifacts(&names).into_iter().map(|(path, _)| (slug.clone(), path.to_owned())).collect::<Vec<_>>()
        })
        .collect()
}

#[tokio::test]
async fn a_crawl_finds_what_is_there_and_nothing_else() {
    let (found, summary) = plain().await;
    let truth = truth();
    let found: BTreeSet<(String, String)> = found.into_iter().map(|(repo, path, _)| (repo, path)).collect();
    let extra: Vec<_> = found.difference(&truth).collect();
    assert!(extra.is_empty(), "not in the world: {extra:?}");
    let lost: Vec<_> = truth.difference(&found).collect();
    assert!(lost.is_empty(), "{} of {} are not found: {:?}", lost.len(), truth.len(), &lost[..lost.len().min(20)]);
    assert!(summary.ratio >= 1.0 && summary.windows.open == 0, "{summary:?}");
}

#[tokio::test]
async fn three_of_a_hundred_answers_failing_in_every_way_change_nothing() {
    let share = 0.03;
    let faults = Faults {
        search_timeout: share,
        internal: share,
        bad_gateway: share,
        unavailable: share,
        gateway_timeout: share,
        truncated: share,
        dropped: share,
        secondary_without_hint: share,
        incomplete: share,
        graphql_rate_limited: share,
        graphql_partial: share,
        ..Faults::default()
    };
    let rough = sandbox(unlimited(), faults).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let summary = run(&store, client(&rough), &Silent::default()).await;
    assert_eq!(summary.failed, []);
    assert!(summary.limited.secondary > 0, "{summary:?}");
    assert_eq!(corpus(&store).await, plain().await.0);
}

#[tokio::test]
async fn no_request_is_refused_by_a_limit_that_the_headers_told_of() {
    let limits = Limits::default().scaled(0.01);
    let sandbox = sandbox(limits, Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let summary = run(&store, client(&sandbox), &Silent::default()).await;
    assert_eq!(summary.outcome, Outcome::Done);
    assert_eq!(sandbox.stats().count("code_search", "primary_limit"), 0, "{summary:?}");
}

/// Asks to stop after so many looks at the clock, as Ctrl-C does.
pub(crate) struct StopAfter(AtomicU64);

impl StopAfter {
    pub(crate) fn new(looks: u64) -> Self {
        Self(AtomicU64::new(looks))
    }
}

impl Monitor for StopAfter {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn warn(&self, _: &str) {}
    fn end(&self) {}
    fn stop_requested(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(1))) == Ok(0)
    }
}

#[tokio::test]
async fn a_crawl_that_pauses_on_its_budget_again_and_again_ends_with_the_same_corpus_and_asks_no_page_twice() {
    let (whole, unbroken) = plain().await;
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let mut pauses = 0u32;
    let mut summary;
    loop {
        let store = store(dir.path()).await;
        summary = run(&store, Options { max_requests: Some(9), ..client(&sandbox) }, &Silent::default()).await;
        if summary.outcome != Outcome::Paused {
            assert_eq!(corpus(&store).await, whole);
            break;
        }
        assert!(summary.requests.code_search + summary.requests.graphql + summary.requests.core <= 9);
        store.close().await;
        pauses += 1;
        assert!(pauses < 1000, "it gets nowhere: {summary:?}");
    }
    assert!(pauses > 5, "{pauses}");
    assert_eq!(sandbox.stats().count("code_search", "ok"), unbroken.requests.code_search);
    assert_eq!(summary.ratio, unbroken.ratio);
}

#[tokio::test]
async fn a_request_to_stop_pauses_and_the_next_run_goes_on() {
    let sandbox = sandbox(unlimited(), Faults { slow: 1.0, slow_seconds: 0.02, ..Faults::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let paused = run(&store, client(&sandbox), &StopAfter::new(12)).await;
    assert_eq!(paused.outcome, Outcome::Paused);
    let done = run(&store, client(&sandbox), &Silent::default()).await;
    assert_eq!(done.outcome, Outcome::Done);
    assert_eq!(corpus(&store).await, plain().await.0);
}

#[tokio::test]
async fn a_second_crawl_fetches_no_content_again() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    run(&store, client(&sandbox), &Silent::default()).await;
    let first = (corpus(&store).await, store.counts().await.unwrap());
    let again = run(&store, client(&sandbox), &Silent::default()).await;
    assert_eq!(again.outcome, Outcome::Done);
    assert_eq!((corpus(&store).await, store.counts().await.unwrap()), first);
}

#[tokio::test]
async fn gone_blocked_empty_and_renamed_repositories_are_no_failures() {
    let faults = Faults { gone: 0.1, blocked: 0.1, blocked_tos: 0.05, empty: 0.05, renamed: 0.2, ..Faults::default() };
    let sandbox = sandbox(unlimited(), faults).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let summary = run(&store, client(&sandbox), &Silent::default()).await;
    assert_eq!((summary.outcome, summary.failed), (Outcome::Done, Vec::new()));
    assert!(summary.artifacts > 0);
}
