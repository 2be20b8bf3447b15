//! What goes wrong during a refresh costs time, never data: bad answers, kills at any moment, an older schema.

use crate::crawl::{command, corpus, sandbox, unlimited};
use crate::refresh::{again, cold, fresh, open, two_crawled};
use aac::job::refresh::CorpusLock;
use aac::sandbox::{Faults, Running};
use aac::store::Store;
use aac::taxonomy::Outcome;
use serde_json::Value;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

#[tokio::test]
async fn bad_answers_of_every_kind_are_never_read_as_gone() {
    let plain = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &plain).await;
    let before = corpus(&store).await;
    let faults = Faults {
        bad_gateway: 0.3,
        gateway_timeout: 0.1,
        internal: 0.05,
        truncated: 0.05,
        dropped: 0.05,
        secondary_without_hint: 0.02,
        graphql_rate_limited: 0.1,
        graphql_partial: 0.15,
        incomplete: 0.05,
        ..Faults::default()
    };
    let storm = sandbox(unlimited(), faults).await;
    // Nothing has changed: every miss would be an error read as an absence.
    let still = again(&store, &storm).await;
    assert_eq!((still.failed.len(), still.missed, still.gone, still.changed), (0, 0, 0, 0), "{:?}", still.failed);
    assert_eq!((corpus(&store).await, still.unchanged), (before.clone(), before.len() as i64));
    assert!(still.limited.secondary > 0 && storm.stats().count("graphql", "fault") > 2);
    assert!(storm.evolve(1).await);
    let moved = again(&store, &storm).await;
    assert_eq!(moved.failed, []);
    again(&store, &storm).await;
    assert_eq!(corpus(&store).await, fresh(1).await);
}

#[tokio::test]
async fn a_corpus_of_the_release_before_is_migrated_and_refreshed() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &sandbox).await;
    let before = (corpus(&store).await, store.counts().await.unwrap());
    store.migrate_down(2).await.unwrap();
    store.close().await;
    let store = open(dir.path(), "corpus.db").await;
    assert_eq!((corpus(&store).await, store.counts().await.unwrap()), before);
    assert!(sandbox.evolve(1).await);
    assert_eq!(again(&store, &sandbox).await.outcome, Outcome::Done);
    again(&store, &sandbox).await;
    assert_eq!(corpus(&store).await, fresh(1).await);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

fn answered(sandbox: &Running) -> u64 {
    let stats = sandbox.stats();
    stats.total("code_search") + stats.total("graphql") + stats.total("core")
}

/// Kills while known repositories are looked at, of which there are few here, and kills while windows are walked.
const KILLS: [u64; 2] = [4, 6];

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_any_moment_loses_nothing() {
    let faults = Faults { slow: 1.0, slow_seconds: 0.01, at_most: u32::MAX, ..Faults::default() };
    let sandbox = sandbox(unlimited(), faults).await;
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = two_crawled(dir.path(), &sandbox).await;
    two.close().await;
    let whole = again(&one, &sandbox).await;
    let db = dir.path().join("two.db");
    let (mut checking, mut searching) = (0, 0);
    let searched = sandbox.stats().total("code_search");
    let mut dice = 0x9E37_79B9_7F4A_7C15_u64;
    let start = || -> Child { command(&["refresh"], &db, &sandbox).stdout(Stdio::null()).spawn().unwrap() };
    loop {
        let from = answered(&sandbox);
        let mut child = start();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = dice >> 33;
        let mut in_search;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                in_search = true;
                break Some(status);
            }
            // A process that may not be killed while it looks at what is known is killed in its search.
            in_search = sandbox.stats().total("code_search") > searched;
            let (enough, most) = if in_search {
                (searching >= KILLS[1], 8 + 4 * searching)
            } else {
                (checking >= KILLS[0], 1 + checking)
            };
            if !enough && answered(&sandbox) > from + draw % most {
                break None;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        match status {
            Some(status) => {
                assert!(status.success(), "{status}");
                break;
            }
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        if in_search {
            searching += 1
        } else {
            checking += 1
        }
        assert!(checking + searching < 100, "it gets nowhere");
    }
    assert!(checking >= 2 && searching >= 3, "{checking} + {searching} kills");
    let store = Store::create(&db).await.unwrap();
    assert_eq!(corpus(&store).await, corpus(&one).await);
    let counts = |runs: &[aac::store::ChurnRow]| (runs[0].added, runs[0].changed, runs[0].gone, runs[0].present);
    assert_eq!(counts(&store.churn(1).await.unwrap()), counts(&one.churn(1).await.unwrap()));
    assert_eq!(whole.outcome, Outcome::Done);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_keeps_its_contract() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("corpus.db");
    let absent = command(&["refresh"], &db, &sandbox).output().unwrap();
    assert_eq!(absent.status.code(), Some(1), "{absent:?}");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("aac crawl"), "{absent:?}");
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &sandbox).await;
    store.set_setting("service", "the sandbox").await.unwrap();
    assert!(sandbox.evolve(1).await);

    let held = CorpusLock::take(&db, "crawl").unwrap();
    let refused = command(&["refresh"], &db, &sandbox).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("aac crawl") && text.contains(&std::process::id().to_string()), "{text}");
    drop(held);

    let metrics = dir.path().join("aac.prom");
    let paused = command(&["refresh", "--json", "--max-requests", "3"], &db, &sandbox).output().unwrap();
    assert_eq!(paused.status.code(), Some(5), "{paused:?}");
    assert_eq!(json(&paused)["outcome"], "paused");
    assert!(json(&paused)["carried_over"]["searches"].as_u64().unwrap() > 0);
    let done = command(&["refresh", "--json", "--metrics", metrics.to_str().unwrap()], &db, &sandbox).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let told = json(&done);
    for field in ["added", "changed", "unchanged", "missed", "gone"] {
        assert!(told[field].as_i64().is_some(), "{field}: {told}");
    }
    assert!(told["requests"]["graphql"].as_u64().is_some() && told["ratio"].as_f64().unwrap() > 0.0, "{told}");
    assert_eq!(told["carried_over"], serde_json::json!({ "repositories": 0, "searches": 0 }));
    let page = std::fs::read_to_string(&metrics).unwrap();
    let sample = format!("change=\"added\"}} {}", told["added"]);
    assert!(page.contains(&sample) && page.contains("outcome=\"done\"} 1"), "{page}");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("aac_") && value.parse::<f64>().is_ok(), "{line}");
    }
    let quiet = command(&["refresh"], &db, &sandbox).output().unwrap();
    let text = String::from_utf8_lossy(&quiet.stdout).into_owned();
    assert!(text.lines().next().unwrap().starts_with("aac refresh done: 0 added, 0 changed"), "{text}");
    // A crawl of what was crawled says so, and walks.
    let mut crawl = command(&["crawl", "--forks", "--max-requests", "1"], &db, &sandbox);
    assert_eq!(crawl.output().unwrap().status.code(), Some(5));
}
