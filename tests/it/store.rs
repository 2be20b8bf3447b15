//! The corpus on disk keeps what it is given, whoever writes it and however often.

use crate::crawl::StopAfter;
use aac::corpus::{GitOid, Platform, Slug};
use aac::monitor::Silent;
use aac::store::{
    ArtifactRow, Codec, FailureRow, NewBlob, RepoFacts, RepoId, RepoRow, RunId, Store, StoreError, Training, Written,
};
use aac::taxonomy::{FileMode, Outcome, Presence, RepoSource};
use serde_json::json;
use std::path::Path;

async fn corpus(dir: &Path) -> (Store, RunId) {
    let store = Store::create(&dir.join("corpus.db")).await.unwrap();
    let run = store.begin_run("test", &json!({}), 1).await.unwrap();
    (store, run)
}

fn repo(node: Option<&str>, slug: &str) -> RepoRow {
    RepoRow {
        node_id: node.map(str::to_owned),
        slug: slug.parse().unwrap(),
        source: RepoSource::GitHub,
        facts: RepoFacts::default(),
        facts_at: None,
    }
}

fn blob(text: &str) -> NewBlob {
    Codec::plain().packer().encode(text.as_bytes()).unwrap()
}

async fn artifact(store: &Store, run: RunId, repo: RepoId, path: &str, text: &str) -> Written {
    let blob = store.put_blobs(run, &[blob(text)]).await.unwrap()[0];
    let row = ArtifactRow {
        repo,
        path: path.to_owned(),
        platform: Platform("claude".to_owned()),
        target: "claude/context".to_owned(),
        mode: FileMode::File,
        resolves_to: None,
        blob,
        commit: None,
    };
    store.put_artifacts(run, &[row]).await.unwrap()
}

#[tokio::test]
async fn a_blob_is_stored_once_and_read_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let long = "Never push to main.\n".repeat(500);
    let ids = store.put_blobs(run, &[blob(&long), blob("x"), blob(&long), blob("")]).await.unwrap();
    assert_eq!(ids[0], ids[2]);
    let bodies = store.bodies(&[ids[3], ids[0], ids[1]]).await.unwrap();
    assert_eq!(bodies, [b"".to_vec(), long.clone().into_bytes(), b"x".to_vec()]);
    let oid = GitOid::of_blob(long.as_bytes());
    let known = store.known_oids(&[oid, GitOid([7; 20])]).await.unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(known[&oid], ids[0]);
    assert_eq!(store.counts().await.unwrap().blobs, 3);
}

#[tokio::test]
async fn the_dictionary_is_trained_once_and_every_body_survives_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let text = |i: usize| {
        let words = ["build", "test", "deploy", "review", "schema", "secret", "branch", "commit"];
        let mut text = format!("# Project {i}\n\n");
        for j in 0..12 {
            let (a, b) = (words[(i * 7 + j) % 8], words[(i * 3 + j * 5) % 8]);
            text += &format!("- Always {a} before you {b}, and never {b} without asking number {}.\n", i * j);
        }
        text
    };
    let blobs: Vec<NewBlob> = (0..1200).map(|i| blob(&text(i))).collect();
    let ids = store.put_blobs(run, &blobs).await.unwrap();
    let stopped = Silent::default();
    stopped.stop();
    assert_eq!(store.train_dictionary(run, &stopped).await.unwrap(), Training::Stopped);
    assert!(store.dictionary_due().await.unwrap());
    assert_eq!(
        store.train_dictionary(run, &StopAfter::new(1)).await.unwrap(),
        Training::Stopped,
        "trained, not packed"
    );
    assert_eq!(store.train_dictionary(run, &Silent::default()).await.unwrap(), Training::Done);
    assert_eq!(store.train_dictionary(run, &Silent::default()).await.unwrap(), Training::NotDue);
    for (i, body) in store.bodies(&ids).await.unwrap().iter().enumerate() {
        assert_eq!(body, text(i).as_bytes());
    }
    let gain = store.dictionary_gain().await.unwrap();
    assert_eq!(gain.blobs, 1200);
    assert!(gain.stored < gain.zstd && gain.zstd < gain.raw, "{gain:?}");
    // A store opened later knows the dictionary too.
    let path = store.path().to_owned();
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.body(ids[7]).await.unwrap(), text(7).as_bytes());
}

#[tokio::test]
async fn every_occurrence_is_kept_and_one_version_is_current() {
    let dir = tempfile::tempdir().unwrap();
    let (store, first) = corpus(dir.path()).await;
    let repo = store.put_repos(first, &[repo(Some("R_1"), "o/r")]).await.unwrap()[0];
    let added = Written { added: 1, ..Written::default() };
    assert_eq!(artifact(&store, first, repo, "CLAUDE.md", "one").await, added);
    let second = store.begin_run("test", &json!({}), 2).await.unwrap();
    assert_eq!(
        artifact(&store, second, repo, "CLAUDE.md", "one").await,
        Written { unchanged: 1, ..Written::default() }
    );
    assert_eq!(artifact(&store, second, repo, "CLAUDE.md", "two").await, Written { changed: 1, ..Written::default() });
    // Back to the first text: a third version, since each row is one stretch of time.
    assert_eq!(artifact(&store, second, repo, "CLAUDE.md", "one").await, Written { changed: 1, ..Written::default() });
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.artifacts, counts.versions, counts.blobs), (1, 3, 2));
    let listing = store.artifacts_after(None, 10).await.unwrap();
    assert_eq!(listing.len(), 1);
    assert_eq!(listing[0].git_oid, GitOid::of_blob(b"one"));
    store.set_artifact_presence(second, repo, &["CLAUDE.md".to_owned()], Presence::Gone).await.unwrap();
    assert!(store.artifacts_after(None, 10).await.unwrap().is_empty());
    assert!(store.check().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_renamed_repository_keeps_its_row_and_frees_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let ids = store.put_repos(run, &[repo(Some("R_1"), "o/old"), repo(None, "o/local")]).await.unwrap();
    let again = store.put_repos(run, &[repo(Some("R_1"), "o/new"), repo(Some("R_2"), "O/Old")]).await.unwrap();
    assert_eq!(ids[0], again[0]);
    assert_ne!(ids[0], again[1]);
    let heads = store.repo_heads(&["o/old".to_owned(), "o/new".to_owned()]).await.unwrap();
    assert_eq!((heads["o/new"].0, heads["o/old"].0), (again[0], again[1]));
    // A row known by name alone takes the node id when one is learnt.
    assert_eq!(store.put_repos(run, &[repo(Some("R_3"), "o/local")]).await.unwrap()[0], ids[1]);
    // Unknown facts leave known ones alone.
    let mut known = repo(Some("R_1"), "o/new");
    known.facts = RepoFacts { stars: Some(5), license_api: Some("MIT".to_owned()), ..RepoFacts::default() };
    store.put_repos(run, &[known, repo(Some("R_1"), "o/new")]).await.unwrap();
    artifact(&store, run, ids[0], "CLAUDE.md", "x").await;
    let listing = store.artifacts_after(None, 1).await.unwrap();
    assert_eq!((listing[0].stars, listing[0].license_api.as_deref()), (Some(5), Some("MIT")));
}

#[tokio::test]
async fn listing_pages_do_not_depend_on_the_order_of_arrival() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let slugs = ["z/a", "A/b", "a/a", "m/m"];
    let rows: Vec<RepoRow> = slugs.iter().map(|s| repo(None, s)).collect();
    let ids = store.put_repos(run, &rows).await.unwrap();
    for (id, path) in ids.iter().flat_map(|id| ["b.md", "a.md", "c/d.md"].map(|p| (id, p))) {
        artifact(&store, run, *id, path, path).await;
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    loop {
        let after = seen.last().map(|(k, p)| (k.as_str(), p.as_str()));
        let page = store.artifacts_after(after, 5).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|a| (Slug::new(&a.owner, &a.name).unwrap().key(), a.path.clone())));
    }
    let mut sorted = seen.clone();
    sorted.sort();
    assert_eq!(seen.len(), 12);
    assert_eq!(seen, sorted);
}

#[tokio::test]
async fn migrations_go_down_and_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = corpus(dir.path()).await;
    store.migrate_down(0).await.unwrap();
    let path = store.path().to_owned();
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.runs().await.unwrap(), []);
}

#[tokio::test]
async fn runs_failures_and_settings_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let failure = FailureRow { stage: "content".to_owned(), what: "o/r".to_owned(), why: "451".to_owned() };
    store.add_failures(run, std::slice::from_ref(&failure), 5).await.unwrap();
    store.end_run(run, Outcome::Partial, &json!({"hits": 3}), 9).await.unwrap();
    let rows = store.runs().await.unwrap();
    assert_eq!((rows[0].ended_at, rows[0].outcome), (Some(9), Some(Outcome::Partial)));
    assert_eq!(store.failures(run).await.unwrap(), [failure]);
    store.set_setting("a", "1").await.unwrap();
    store.set_setting("a", "2").await.unwrap();
    assert_eq!(store.setting("a").await.unwrap().as_deref(), Some("2"));
}

#[tokio::test]
async fn files_that_are_no_corpus_are_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let absent = Store::open(&dir.path().join("no.db")).await.unwrap_err();
    assert!(matches!(absent, StoreError::Missing { .. }), "{absent}");
    let text = dir.path().join("text.db");
    std::fs::write(&text, "this is not a database, however long the text in it may be".repeat(40)).unwrap();
    let error = Store::open(&text).await.unwrap_err().to_string();
    assert!(error.contains("text.db") && error.contains("not a database"), "{error}");
}

#[tokio::test]
async fn a_damaged_body_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = corpus(dir.path()).await;
    let ids = store.put_blobs(run, &[blob(&"word ".repeat(1000))]).await.unwrap();
    let path = store.path().to_owned();
    store.close().await;
    let raw = sqlx::SqlitePool::connect_with(sqlx::sqlite::SqliteConnectOptions::new().filename(&path)).await.unwrap();
    sqlx::query("UPDATE blob SET body = substr(body, 1, 9)").execute(&raw).await.unwrap();
    raw.close().await;
    let store = Store::open(&path).await.unwrap();
    let error = store.body(ids[0]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { what, .. } if what == &format!("blob {}", ids[0].0)), "{error}");
}
