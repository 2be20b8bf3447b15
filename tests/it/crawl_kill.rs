//! A real process is killed again and again: nothing stored is lost, nothing finished is asked again.

use crate::crawl::{command, corpus, plain, sandbox, unlimited};
use aac::plan::targets::Targets;
use aac::sandbox::{Faults, Running};
use aac::store::Store;
use aac::taxonomy::ForkFamily;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Kills while windows are walked (and contents are read beside), and kills while only contents and histories are read.
const KILLS: u64 = 14;

fn start(db: &Path, sandbox: &Running) -> Child {
    command(&["crawl", "--forks"], db, sandbox).stdout(Stdio::null()).spawn().unwrap()
}

/// Answers that left the sandbox so far, of all kinds.
fn answered(sandbox: &Running) -> u64 {
    let stats = sandbox.stats();
    stats.total("code_search") + stats.total("graphql") + stats.total("core")
}

/// Search pages that the database holds.
async fn pages(store: &Store) -> u64 {
    let Some(run) = store.runs().await.unwrap().pop() else { return 0 };
    let mut count = 0;
    for target in Targets::embedded().unwrap().selected() {
        for fork in [ForkFamily::Plain, ForkFamily::Only] {
            count += store.pages(run.id, &target.id, fork).await.unwrap().len() as u64;
        }
    }
    count
}

/// Wait until requests that a dead process left behind have been answered and counted.
async fn settle(sandbox: &Running) {
    let mut before = answered(sandbox);
    loop {
        tokio::time::sleep(Duration::from_millis(60)).await;
        let now = answered(sandbox);
        if now == before {
            return;
        }
        before = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_any_moment_goes_on_where_it_stood() {
    let (whole, unbroken) = plain().await;
    let searches = unbroken.requests.code_search;
    let sandbox =
        sandbox(unlimited(), Faults { slow: 1.0, slow_seconds: 0.02, at_most: u32::MAX, ..Faults::default() });
    let sandbox = sandbox.await;
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("corpus.db");
    let lanes = aac::job::crawl::CrawlOptions::default().search_lanes as u64;
    let (mut while_searching, mut while_reading) = (0, 0);
    // Pages that were answered and are not stored: what the kills cost.
    let mut lost = 0;
    let mut dice = 0x2545_F491_4F6C_DD1D_u64;
    loop {
        let from = answered(&sandbox);
        let mut child = start(&db, &sandbox);
        // Pages that a kill lost are asked again, so that the search may be over a little later than this.
        let searching = sandbox.stats().count("code_search", "ok") < searches;
        let enough = if searching { while_searching >= KILLS } else { while_reading >= KILLS };
        // A few requests at a time while windows are walked; contents are stored in groups, so that a process needs more
        // of them, and ever more, to get further.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let most = if searching { 3 } else { 6 + 2 * while_reading };
        let allowed = from + 1 + (dice >> 33) % most;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            let over = answered(&sandbox) >= allowed;
            if over && !enough {
                break None;
            }
            // A process that was left alone through its search is stopped once that is over.
            let searched = sandbox.stats().count("code_search", "ok") >= searches + lost;
            if searching && searched && while_reading < KILLS {
                break None;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        if status.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        settle(&sandbox).await;
        let store = Store::create(&db).await.unwrap();
        let gone = sandbox.stats().count("code_search", "ok") - pages(&store).await;
        store.close().await;
        match status {
            Some(status) => {
                assert!(status.success(), "{status}");
                assert_eq!(gone, lost, "an unbroken process asked for a page that was stored");
                break;
            }
            None => assert!(gone >= lost && gone <= lost + lanes, "{lost} pages were lost, now {gone}"),
        }
        lost = gone;
        if searching {
            while_searching += 1
        } else {
            while_reading += 1
        }
        assert!(while_searching + while_reading < 300, "it gets nowhere");
    }
    // A busy machine lets a process get further before it is killed, and there are only so many pages and queries.
    let kills = while_searching + while_reading;
    assert!(kills >= 20 && while_searching.min(while_reading) >= 6, "{while_searching} + {while_reading} kills");
    let store = Store::create(&db).await.unwrap();
    assert_eq!(corpus(&store).await, whole);
    assert_eq!(pages(&store).await, unbroken.requests.code_search, "the same windows are walked");
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
