//! The refresh against the sandbox: what changed, came and went is found, and nothing is buried on one word.

use crate::crawl::{corpus, sandbox, unlimited};
use aac::corpus::GitOid;
use aac::github::{GitHub, Options};
use aac::job::crawl::{CrawlOptions, CrawlSummary, crawl};
use aac::job::optout;
use aac::job::refresh::{RefreshSummary, refresh};
use aac::monitor::{Monitor, Silent};
use aac::plan::targets::{Selection, Targets};
use aac::sandbox::{Faults, Running, SandboxOptions, Source, serve};
use aac::store::{OptOutKey, Store};
use aac::taxonomy::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) type Corpus = BTreeSet<(String, String, GitOid)>;

pub(crate) fn targets() -> Targets {
    let mut targets = Targets::embedded().unwrap();
    let selection = Selection::parse(&["claude".to_owned(), "universal".to_owned()], &targets).unwrap();
    targets.select(&selection);
    targets
}

/// A client that counts on no limit, as the command does where there is none: its ledger is taken up by the next.
pub(crate) fn client(sandbox: &Running) -> Options {
    let mut options = crate::crawl::client(sandbox);
    let limits = &mut options.limits;
    for allowance in [&mut limits.code_search, &mut limits.graphql, &mut limits.core] {
        allowance.requests = None;
    }
    options
}

pub(crate) fn options() -> CrawlOptions {
    CrawlOptions { forks: true, ..CrawlOptions::default() }
}

pub(crate) async fn cold(store: &Store, sandbox: &Running) -> CrawlSummary {
    let github = GitHub::new(client(sandbox)).unwrap();
    let summary = crawl(store, &github, &targets(), &options(), &Silent::default()).await.unwrap();
    assert_eq!(summary.outcome, Outcome::Done);
    summary
}

pub(crate) async fn refresh_with(store: &Store, client: Options, monitor: &dyn Monitor) -> RefreshSummary {
    refresh(store, &GitHub::new(client).unwrap(), &targets(), &options(), monitor).await.unwrap()
}

pub(crate) async fn again(store: &Store, sandbox: &Running) -> RefreshSummary {
    refresh_with(store, client(sandbox), &Silent::default()).await
}

pub(crate) async fn open(dir: &Path, name: &str) -> Store {
    Store::create(&dir.join(name)).await.unwrap()
}

/// The corpus that a crawl of the sandbox's world finds after `epochs`.
pub(crate) async fn fresh(epochs: u32) -> Corpus {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    assert!(sandbox.evolve(epochs).await);
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "fresh.db").await;
    cold(&store, &sandbox).await;
    corpus(&store).await
}

pub(crate) fn paths(corpus: &Corpus) -> BTreeMap<(&str, &str), GitOid> {
    corpus.iter().map(|(repo, path, oid)| ((repo.as_str(), path.as_str()), *oid)).collect()
}

pub(crate) fn requests(sandbox: &Running) -> u64 {
    let stats = sandbox.stats();
    stats.total("code_search") + stats.total("graphql") + stats.total("core")
}

#[tokio::test]
async fn what_changed_came_and_went_is_found_for_a_fraction_of_the_requests() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &sandbox).await;
    let cold_requests = requests(&sandbox);
    let before = corpus(&store).await;
    // Several weeks, so that files also come into directories that their repositories did not have.
    assert!(sandbox.evolve(4).await);
    let summary = again(&store, &sandbox).await;
    assert_eq!((summary.outcome, &summary.failed), (Outcome::Done, &Vec::new()));

    let truth = fresh(4).await;
    let (old, now) = (paths(&before), paths(&truth));
    let added = now.keys().filter(|key| !old.contains_key(*key)).count() as i64;
    let changed = now.iter().filter(|(key, oid)| old.get(*key).is_some_and(|was| was != *oid)).count() as i64;
    let missed: Vec<_> = old.keys().filter(|key| !now.contains_key(*key)).collect();
    assert!(added > 5 && changed > 10 && missed.len() > 3, "{added} {changed} {}", missed.len());
    assert_eq!(
        (summary.added, summary.changed, summary.missed, summary.gone),
        (added, changed, missed.len() as i64, 0)
    );
    assert_eq!(summary.unchanged, old.len() as i64 - changed - missed.len() as i64);
    // What was missed once is still there; everything else is as a new crawl would have it.
    let held = corpus(&store).await;
    assert_eq!(held.len(), truth.len() + missed.len());
    assert!(held.is_superset(&truth));

    let took = requests(&sandbox) - cold_requests;
    let counted = summary.requests_in_all;
    assert_eq!(took, counted.code_search + counted.graphql + counted.core);
    // At this size nearly every search is one that every target costs at least.
    let reading = |graphql: u64, core: u64| graphql + core;
    let first = sandbox.stats().total("graphql") - counted.graphql;
    assert!(reading(counted.graphql, counted.core) < first, "{counted:?} against {first}");

    // A second run agrees: now they are gone.
    let second = again(&store, &sandbox).await;
    assert_eq!((second.added, second.changed, second.missed, second.gone), (0, 0, 0, missed.len() as i64));
    assert_eq!(corpus(&store).await, truth);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let churn = store.churn(8).await.unwrap();
    assert_eq!(churn.iter().map(|run| run.command.as_str()).collect::<Vec<_>>(), ["refresh", "refresh", "crawl"]);
    assert_eq!(
        churn.iter().map(|run| run.present).collect::<Vec<_>>(),
        [truth.len() as i64, held.len() as i64, before.len() as i64]
    );
    assert_eq!((churn[1].added, churn[1].changed, churn[0].gone), (added, changed, missed.len() as i64));
}

#[tokio::test]
async fn what_stands_still_is_looked_at_by_the_hundred_and_its_windows_by_their_first_page() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    let crawled = cold(&store, &sandbox).await;
    let before = (corpus(&store).await, store.counts().await.unwrap());
    let (searches, repos) = (sandbox.stats().total("code_search"), before.1.repos as u64);
    let summary = again(&store, &sandbox).await;
    assert_eq!((summary.added, summary.changed, summary.missed, summary.gone), (0, 0, 0, 0));
    assert_eq!(summary.unchanged, before.1.artifacts);
    assert_eq!((corpus(&store).await, store.counts().await.unwrap()), before);
    // Links whose target was read at another time are the only ones that have to be listed.
    let facts = summary.batches.facts;
    assert_eq!((facts.queries, facts.asked, facts.bound), (repos.div_ceil(100), repos, 100));
    let walked = sandbox.stats().total("code_search") - searches;
    assert!(walked <= searches, "{walked} searches, {searches} in the crawl: {:?}", crawled.windows);
}

#[tokio::test]
async fn gone_blocked_emptied_and_renamed_repositories_are_told_apart_and_two_runs_must_agree() {
    let plain = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &plain).await;
    let before = corpus(&store).await;
    let faults = Faults { gone: 0.1, blocked: 0.1, blocked_tos: 0.1, empty: 0.1, renamed: 0.2, ..Faults::default() };
    let other = sandbox(unlimited(), faults).await;

    let first = again(&store, &other).await;
    assert_eq!(first.failed, []);
    let repos = first.repositories;
    assert!(repos.missed > 20 && repos.renamed > 10, "{repos:?}");
    assert_eq!((repos.gone, repos.empty, repos.blocked, first.gone), (0, 0, 0, 0), "one word is not enough");
    let held = corpus(&store).await;
    assert_eq!(held.len(), before.len());
    let renamed = held.iter().filter(|(repo, ..)| repo.ends_with("-next")).count();
    assert!(renamed > 0, "renamed repositories keep their artifacts under the new name");

    let second = again(&store, &other).await;
    let repos = second.repositories;
    assert!(repos.gone > 0 && repos.empty > 0 && repos.blocked > repos.gone, "{repos:?}");
    assert_eq!((repos.missed, repos.renamed), (0, 0), "{repos:?}");
    assert_eq!(second.gone + second.unchanged, before.len() as i64);
    assert_eq!(corpus(&store).await.len() as i64, second.unchanged);

    // They come back, under their old names: nothing was lost.
    let third = again(&store, &plain).await;
    assert_eq!(third.failed, []);
    let back = corpus(&store).await;
    let (lost, new): (Vec<_>, Vec<_>) = (before.difference(&back).collect(), back.difference(&before).collect());
    assert!(lost.is_empty() && new.is_empty(), "{} lost {lost:?}\n{} new {new:?}\n{third:?}", lost.len(), new.len());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Two corpora as a crawl left them, and the sandbox an epoch later.
pub(crate) async fn two_crawled(dir: &Path, sandbox: &Running) -> (Store, Store) {
    let store = open(dir, "one.db").await;
    cold(&store, sandbox).await;
    store.close().await;
    std::fs::copy(dir.join("one.db"), dir.join("two.db")).unwrap();
    assert!(sandbox.evolve(1).await);
    (open(dir, "one.db").await, open(dir, "two.db").await)
}

fn figures(summary: &RefreshSummary) -> (i64, i64, i64, i64, i64) {
    (summary.added, summary.changed, summary.unchanged, summary.missed, summary.gone)
}

#[tokio::test]
async fn a_budget_carries_the_rest_over_and_its_invocations_together_are_one_run() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = two_crawled(dir.path(), &sandbox).await;
    let whole = again(&one, &sandbox).await;
    let (mut pauses, mut left) = (0u32, u64::MAX);
    let summary = loop {
        let options = Options { max_requests: Some(7), ..client(&sandbox) };
        let summary = refresh_with(&two, options, &Silent::default()).await;
        let (sent, carried) = (summary.requests, summary.carried_over);
        assert!(sent.code_search + sent.graphql + sent.core <= 7);
        assert!(carried.repositories <= left, "{carried:?}");
        left = carried.repositories;
        if summary.outcome != Outcome::Paused {
            break summary;
        }
        assert!(carried.repositories + carried.searches > 0 || summary.paused.is_some(), "{summary:?}");
        pauses += 1;
        assert!(pauses < 500, "it gets nowhere: {summary:?}");
    };
    assert!(pauses > 5, "{pauses}");
    assert_eq!(figures(&summary), figures(&whole));
    assert_eq!(corpus(&two).await, corpus(&one).await);
    assert_eq!(summary.requests_in_all.code_search, whole.requests_in_all.code_search, "no page is asked twice");
    assert_eq!((summary.carried_over.repositories, summary.carried_over.searches), (0, 0));
    // One run, however many invocations.
    let runs = two.runs().await.unwrap();
    assert_eq!(runs.iter().filter(|run| run.command == "refresh").count(), 1);
}

#[tokio::test]
async fn what_graphql_never_answers_is_asked_of_rest_and_costs_nothing_while_it_stands_still() {
    let small = |faults| async move {
        let options =
            SandboxOptions { limits: unlimited(), faults, seed: 7, ..SandboxOptions::new(Source::Synthetic(40)) };
        serve(options).await.unwrap()
    };
    let plain = small(Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &plain).await;
    let before = (corpus(&store).await, store.counts().await.unwrap());
    let broken = small(Faults { graphql_partial: 1.0, at_most: u32::MAX, ..Faults::default() }).await;
    for round in 0..2 {
        let summary = again(&store, &broken).await;
        assert_eq!((summary.outcome, summary.missed, summary.gone), (Outcome::Done, 0, 0), "{:?}", summary.failed);
        assert_eq!(summary.unchanged, before.1.artifacts);
        assert_eq!(summary.not_modified, if round == 0 { 0 } else { before.1.repos as u64 });
        assert_eq!(broken.stats().count("core", "ok"), before.1.repos as u64);
    }
    assert_eq!(broken.stats().count("core", "not_modified"), before.1.repos as u64);
    // Where something was pushed, REST cannot tell what: said, carried over, and nothing is lost.
    assert!(broken.evolve(3).await);
    let summary = again(&store, &broken).await;
    assert_eq!((summary.outcome, summary.missed, summary.gone), (Outcome::Partial, 0, 0));
    assert!(summary.carried_over.repositories > 0 && !summary.failed.is_empty());
    assert_eq!(corpus(&store).await, before.0);
}

#[tokio::test]
async fn who_opted_out_is_found_again_by_neither_a_refresh_nor_a_crawl() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &sandbox).await;
    let all = corpus(&store).await;
    let repos: BTreeSet<&str> = all.iter().map(|(repo, ..)| repo.as_str()).collect();
    let owner = repos.first().unwrap().split('/').next().unwrap();
    let repo = repos.last().unwrap();
    for key in [OptOutKey::owner(owner), OptOutKey::repo(&repo.parse().unwrap())] {
        optout::add(&store, &key, optout::ON_REQUEST).await.unwrap();
    }
    let is_out = |slug: &str| slug == *repo || slug.split('/').next() == Some(owner);
    let stays: Corpus = all.iter().filter(|(slug, ..)| !is_out(slug)).cloned().collect();
    assert!(!stays.is_empty() && stays.len() < all.len());
    assert_eq!(corpus(&store).await, stays);
    again(&store, &sandbox).await;
    assert_eq!(corpus(&store).await, stays, "after a refresh");
    cold(&store, &sandbox).await;
    assert_eq!(corpus(&store).await, stays, "after a crawl");
}
