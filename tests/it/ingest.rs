//! Local repositories into the corpus, held against `git ls-tree` and against a second run.

use crate::repos::{commit, git, init, ls_tree, write};
use aac::job::ingest::{IngestOptions, IngestSummary, ingest};
use aac::job::optout;
use aac::monitor::Silent;
use aac::plan::Targets;
use aac::store::{OptOutKey, Store};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn targets() -> Arc<Targets> {
    Arc::new(Targets::embedded().unwrap())
}

async fn run(store: &Store, path: &Path) -> IngestSummary {
    ingest(store, targets(), &IngestOptions::new(vec![path.to_owned()]), &Silent::default()).await.unwrap()
}

/// `slug:path` of every artifact in the store with its mode, target of a link and git id.
async fn stored(store: &Store) -> BTreeMap<String, (String, Option<String>, String)> {
    let page = store.artifacts_after(None, 100_000).await.unwrap();
    page.into_iter()
        .map(|a| (format!("{}/{}:{}", a.owner, a.name, a.path), (a.mode, a.resolves_to, a.git_oid.to_string())))
        .collect()
}

#[tokio::test]
async fn a_second_run_does_nothing_and_changes_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repos");
    let at = init(&root, "acme+tool");
    write(&at, "CLAUDE.md", "# Rules\n\nNever push to main.\n");
    write(&at, "sub/AGENTS.md", b"caf\xE9 rules");
    write(&at, "node_modules/x/CLAUDE.md", "vendored");
    write(&at, "src/lib.rs", "");
    std::os::unix::fs::symlink("CLAUDE.md", at.join("AGENTS.md")).unwrap();
    commit(&at, 1, "one");
    init(&root, "acme+empty");
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();

    let first = run(&store, &root).await;
    assert_eq!((first.repos, first.artifacts, first.added, first.blobs), (1, 3, 3, 3));
    assert_eq!(first.skipped, []);
    let listed: BTreeMap<_, _> = ls_tree(&at, "HEAD").into_iter().map(|(_, oid, path)| (path, oid)).collect();
    let artifacts = stored(&store).await;
    for (path, mode, leads) in
        [("CLAUDE.md", "file", None), ("sub/AGENTS.md", "file", None), ("AGENTS.md", "symlink", Some("CLAUDE.md"))]
    {
        let held = &artifacts[&format!("acme/tool:{path}")];
        assert_eq!((held.0.as_str(), held.1.as_deref()), (mode, leads));
        assert_eq!(held.2, listed[path.as_bytes()]);
    }

    let second = run(&store, &root).await;
    assert_eq!((second.repos, second.unchanged_repos, second.artifacts, second.blobs), (1, 1, 3, 0));
    assert_eq!(second.run, None);
    assert_eq!(store.runs().await.unwrap().len(), 1, "a run that changes nothing is no run");

    write(&at, "CLAUDE.md", "# Rules\n\nPush to main.\n");
    git(&at, &["rm", "-q", "sub/AGENTS.md"]);
    write(&at, ".cursor/rules/a.mdc", "---\n---\nnew");
    commit(&at, 2, "two");
    let third = run(&store, &root).await;
    assert_eq!((third.added, third.changed, third.gone, third.blobs), (1, 1, 1, 2));
    assert_eq!(
        stored(&store).await.keys().collect::<Vec<_>>(),
        ["acme/tool:.cursor/rules/a.mdc", "acme/tool:AGENTS.md", "acme/tool:CLAUDE.md"]
    );

    // Back to the first commit: known bytes are not read again, and the path that was gone is seen again, not added.
    let options = IngestOptions { rev: Some("HEAD~1".into()), ..IngestOptions::new(vec![at.clone()]) };
    let back = ingest(&store, targets(), &options, &Silent::default()).await.unwrap();
    assert_eq!((back.added, back.changed, back.gone, back.blobs), (0, 1, 1, 0));
    assert_eq!(stored(&store).await, artifacts);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_read_is_left_out_with_why_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "here");
    write(&at, "AGENTS.md", "its bytes are lost");
    write(&at, "sub/CLAUDE.md", vec![b'x'; 5 << 20]);
    commit(&at, 1, "one");
    let lost = ls_tree(&at, "HEAD").into_iter().find(|(_, _, path)| path == b"AGENTS.md").unwrap().1;
    let object = at.join(".git/objects").join(&lost[..2]).join(&lost[2..]);
    let kept = dir.path().join("kept");
    std::fs::rename(&object, &kept).unwrap();
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();
    let first = run(&store, &at).await;
    let why: Vec<_> = first.skipped.iter().map(|s| s.path.as_str()).collect();
    assert_eq!(why, ["local/r:AGENTS.md", "local/r:sub/CLAUDE.md"]);
    assert!(first.skipped[0].why.contains("it is missing"), "{:?}", first.skipped);
    assert!(first.skipped[1].why.contains("exceed the limit"), "{:?}", first.skipped);
    assert_eq!(first.added, 1);
    let second = run(&store, &at).await;
    assert_eq!((second.run, second.skipped.len()), (None, 2), "nothing new, still said");
    std::fs::rename(&kept, &object).unwrap();
    let third = run(&store, &at).await;
    assert_eq!((third.added, third.skipped.len()), (1, 1));
    let last = run(&store, &at).await;
    assert_eq!((last.run, last.unchanged_repos), (None, 1));
}

#[tokio::test]
async fn a_plain_folder_is_taken_in_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("project");
    write(&at, "CLAUDE.md", "one");
    write(&at, "node_modules/x/CLAUDE.md", "vendored");
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();
    assert_eq!(run(&store, &at).await.added, 1);
    assert_eq!(run(&store, &at).await.run, None);
    write(&at, "CLAUDE.md", "two");
    assert_eq!(run(&store, &at).await.changed, 1);
    std::fs::remove_file(at.join("CLAUDE.md")).unwrap();
    let last = run(&store, &at).await;
    assert_eq!((last.gone, last.artifacts), (1, 0));
    assert_eq!(stored(&store).await.len(), 0);
}

#[tokio::test]
async fn who_opted_out_is_not_taken_in_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repos");
    for name in ["acme+tool", "Acme+other", "beta+kept", "beta+out"] {
        let at = init(&root, name);
        write(&at, "CLAUDE.md", name);
        commit(&at, 1, "one");
    }
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();
    assert_eq!(run(&store, &root).await.added, 4);
    for key in [OptOutKey::owner("ACME"), OptOutKey::repo(&"Beta/Out".parse().unwrap())] {
        optout::add(&store, &key, optout::ON_REQUEST).await.unwrap();
    }
    let again = run(&store, &root).await;
    assert_eq!((again.added, again.artifacts, again.failed()), (0, 1, false));
    let out: Vec<_> = again.skipped.iter().map(|left_out| (left_out.path.as_str(), left_out.why.as_str())).collect();
    assert_eq!(out, [("Acme/other", "Opted out"), ("acme/tool", "Opted out"), ("beta/out", "Opted out")]);
    assert_eq!(stored(&store).await.keys().collect::<Vec<_>>(), ["beta/kept:CLAUDE.md"]);
}

/// All of `AAC_CORPUS`: artifact for artifact and byte for byte what `git ls-tree` shows for the patterns.
#[tokio::test]
async fn a_whole_corpus_is_what_ls_tree_shows_for_the_patterns() {
    let Some(corpus) = std::env::var_os("AAC_CORPUS").map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: set AAC_CORPUS to a folder of repositories to ingest them all");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();
    let start = std::time::Instant::now();
    let summary = run(&store, &corpus).await;
    let took = start.elapsed();
    let targets = targets();
    let mut wanted = BTreeMap::new();
    for found in aac::repos::discover(std::slice::from_ref(&corpus)).found {
        let branch = found.facts.as_ref().and_then(|f| f.default_branch.clone()).unwrap_or_else(|| "HEAD".into());
        let listed = ls_tree(&found.path, &branch);
        let paths: Vec<String> = listed.iter().map(|(_, _, path)| String::from_utf8_lossy(path).into_owned()).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let owned: Vec<&str> = targets.artifacts(&paths).into_iter().map(|(path, _)| path).collect();
        for (mode, oid, path) in listed {
            let path = String::from_utf8(path).unwrap();
            if mode != "160000" && owned.contains(&path.as_str()) {
                wanted.insert(format!("{}:{path}", found.slug), oid);
            }
        }
    }
    let artifacts = stored(&store).await;
    let held: BTreeMap<_, _> = artifacts.into_iter().map(|(path, (_, _, oid))| (path, oid)).collect();
    assert_eq!(held, wanted);
    let blobs: Vec<_> = store.blobs_after(aac::store::BlobId(0), usize::MAX >> 1).await.unwrap();
    let ids: Vec<_> = blobs.iter().map(|b| b.id).collect();
    for (blob, bytes) in blobs.iter().zip(store.bodies(&ids).await.unwrap()) {
        assert_eq!(aac::corpus::Sha256::of(&bytes), blob.sha256);
    }
    let start = std::time::Instant::now();
    let again = run(&store, &corpus).await;
    assert_eq!((again.run, again.blobs, again.artifacts), (None, 0, summary.artifacts));
    let _ = writeln!(
        std::io::stderr(),
        "{} repositories, {} artifacts, {} blobs in {took:?}; again in {:?}; {} left out",
        summary.repos,
        summary.artifacts,
        blobs.len(),
        start.elapsed(),
        summary.skipped.len()
    );
}
