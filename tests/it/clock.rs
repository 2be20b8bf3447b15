//! A clock that was wrong and is set right, or the other way about: the next invocation goes on, and loses nothing.

use crate::crawl::{command, corpus, plain, sandbox, unlimited};
use crate::export_copy::sqlx_exec;
use aac::sandbox::Faults;
use aac::store::Store;

/// Every column that holds a time, in milliseconds.
const TIMES: [(&str, &str); 7] = [
    ("run", "started_at"),
    ("run", "ended_at"),
    ("repo", "facts_at"),
    ("repo", "checked_at"),
    ("crawl_page", "fetched_at"),
    ("ledger", "updated_at"),
    ("etag", "updated_at"),
];
const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// Make everything that is stored look as if it had been written by a clock that was `by` milliseconds ahead, in a
/// moment when every allowance was used up.
async fn shift(store: &Store, by: i64) {
    let mut statements: Vec<String> =
        TIMES.iter().map(|(table, column)| format!("UPDATE {table} SET {column} = {column} + {by}")).collect();
    let spent = "json_set(state, '$.limit', 1000000, '$.used', 1000000, '$.reset_ms', updated_at + 60000)";
    statements.push(format!("UPDATE ledger SET state = {spent}"));
    sqlx_exec(store, &statements.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let held = store.ledgers().await.unwrap();
    assert!(held.iter().any(|(resource, _)| resource.contains("code_search")), "{held:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_between_two_invocations_costs_neither_time_nor_files() {
    let (whole, _) = plain().await;
    for by in [YEAR_MS, -YEAR_MS] {
        let sandbox = sandbox(unlimited(), Faults::default()).await;
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("corpus.db");
        let first = command(&["crawl", "--forks", "--max-requests", "25"], &db, &sandbox).output().unwrap();
        assert_eq!(first.status.code(), Some(5), "{first:?}");
        let store = Store::open(&db).await.unwrap();
        shift(&store, by).await;
        store.close().await;
        let asked = sandbox.stats().count("code_search", "ok");
        // A reset a year ahead must not be waited for: the test would not end.
        let rest = command(&["crawl", "--forks"], &db, &sandbox).output().unwrap();
        assert_eq!(rest.status.code(), Some(0), "{by}: {rest:?}");
        let store = Store::open(&db).await.unwrap();
        assert_eq!(corpus(&store).await, whole, "{by}");
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        store.close().await;
        assert!(asked > 0 && sandbox.stats().count("code_search", "ok") > asked);
    }
}
