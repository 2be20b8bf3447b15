//! Repositories as they are found: every encoding, links, submodules, pointers, damage, very many files; and that who
//! wrote what is the same by ingest and by crawl.

use crate::crawl::{client, unlimited};
use crate::repos::{commit, git, init, ls_tree, write};
use aac::corpus::{CommitFact, GitOid};
use aac::github::GitHub;
use aac::job::crawl::{CrawlOptions, crawl};
use aac::job::ingest::{IngestOptions, IngestSummary, ingest};
use aac::monitor::Silent;
use aac::plan::Targets;
use aac::sandbox::{SandboxOptions, Source, serve};
use aac::store::{Store, StoredHistory};
use aac::taxonomy::{AuthorKind, CreditVia, Outcome};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

async fn store(dir: &Path, name: &str) -> Store {
    Store::create(&dir.join(name)).await.unwrap()
}

async fn take_in(store: &Store, path: &Path) -> IngestSummary {
    let targets = Arc::new(Targets::embedded().unwrap());
    ingest(store, targets, &IngestOptions::new(vec![path.to_owned()]), &Silent::default()).await.unwrap()
}

fn left_out(summary: &IngestSummary) -> Vec<(&str, bool)> {
    summary.skipped.iter().map(|s| (s.path.as_str(), s.failed)).collect()
}

#[tokio::test]
#[cfg(unix)]
async fn every_form_of_file_is_kept_as_git_has_it_and_what_is_left_out_is_said_each_time() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "acme+odd");
    let units = |of: fn(u16) -> [u8; 2]| "\u{feff}# Règles\r\n".encode_utf16().flat_map(of).collect::<Vec<u8>>();
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n", "ab".repeat(32));
    let forms: [(&str, Vec<u8>, &str); 9] = [
        ("le/AGENTS.md", units(u16::to_le_bytes), "utf-16le"),
        ("be/AGENTS.md", units(u16::to_be_bytes), "utf-16be"),
        ("bom/AGENTS.md", b"\xEF\xBB\xBF# Rules\n".to_vec(), "utf-8-bom"),
        ("crlf/AGENTS.md", b"# Rules\r\n\r\n- One\r\n".to_vec(), "utf-8"),
        ("nul/AGENTS.md", b"# Rules\0\n".to_vec(), "binary"),
        ("latin/AGENTS.md", b"# R\xE8gles\n".to_vec(), "latin-1"),
        ("line/AGENTS.md", vec![b'x'; 1 << 20], "utf-8"),
        ("lfs/AGENTS.md", pointer.into_bytes(), "utf-8"),
        ("empty/AGENTS.md", Vec::new(), "utf-8"),
    ];
    for (path, bytes, _) in &forms {
        write(&at, path, bytes);
    }
    write(&at, "large/AGENTS.md", vec![b'y'; (4 << 20) + 1]);
    symlink("crlf/AGENTS.md", at.join("AGENTS.md")).unwrap();
    symlink("AGENTS.md", at.join("CLAUDE.md")).unwrap();
    std::fs::create_dir_all(at.join("out")).unwrap();
    symlink("../../outside.md", at.join("out/AGENTS.md")).unwrap();
    symlink("CLAUDE.md", at.join("out/CLAUDE.md")).unwrap();
    let other = init(dir.path(), "other");
    commit(&other, 1, "o");
    git(&at, &["submodule", "--quiet", "add", "../other", ".claude"]);
    commit(&at, 1, "all");

    let store = store(dir.path(), "corpus.db").await;
    let first = take_in(&store, &at).await;
    let wanted = [("acme/odd:.claude", false), ("acme/odd:large/AGENTS.md", false), ("acme/odd:lfs/AGENTS.md", false)];
    assert_eq!(left_out(&first), wanted, "{:?}", first.skipped);
    assert!(!first.failed());
    let listed: BTreeMap<_, _> = ls_tree(&at, "HEAD").into_iter().map(|(_, oid, path)| (path, oid)).collect();
    let held: BTreeMap<_, _> =
        store.artifacts_after(None, 100).await.unwrap().into_iter().map(|a| (a.path.clone(), a)).collect();
    assert_eq!(held.len(), forms.len() + 4);
    for (path, artifact) in &held {
        assert_eq!(artifact.git_oid.to_string(), listed[path.as_bytes()], "{path}");
    }
    for (path, bytes, encoding) in &forms {
        assert_eq!(held[*path].encoding, *encoding, "{path}");
        assert_eq!(&store.body(held[*path].blob).await.unwrap(), bytes, "{path}");
    }
    let leads = |path: &str| held[path].resolves_to.as_deref();
    assert_eq!(leads("AGENTS.md"), Some("crlf/AGENTS.md"));
    assert_eq!(leads("CLAUDE.md"), Some("crlf/AGENTS.md"), "the whole chain is followed");
    assert_eq!((leads("out/AGENTS.md"), leads("out/CLAUDE.md")), (None, None), "outside, and a link to itself");

    let second = take_in(&store, &at).await;
    assert_eq!((second.run, second.unchanged_repos), (None, 1));
    assert_eq!(second.skipped, first.skipped, "an unchanged repository still says what is left out of it");
}

#[tokio::test]
async fn damage_fails_alone_and_is_told_from_what_a_rule_leaves_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repos");
    let at = init(&root, "acme+hurt");
    write(&at, "AGENTS.md", "its bytes are lost");
    write(&at, "CLAUDE.md", "here");
    commit(&at, 1, "one");
    let lost = GitOid::of_blob(b"its bytes are lost").to_string();
    std::fs::remove_file(at.join(".git/objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    let broken = init(&root, "acme+broken");
    write(&broken, "AGENTS.md", "x");
    commit(&broken, 1, "one");
    std::fs::write(broken.join(".git/refs/heads/main"), format!("{}\n", "1".repeat(40))).unwrap();
    std::fs::create_dir_all(root.join("plain")).unwrap();
    let store = store(dir.path(), "corpus.db").await;
    let summary = take_in(&store, &root).await;
    let plain = root.join("plain").display().to_string();
    assert_eq!(
        left_out(&summary),
        [(plain.as_str(), false), ("acme/broken", true), ("acme/hurt:AGENTS.md", true)],
        "{:?}",
        summary.skipped
    );
    assert!(summary.failed());
    assert_eq!(summary.added, 1);
    let runs = store.runs().await.unwrap();
    assert_eq!(runs[0].outcome, Some(Outcome::Partial));
    assert_eq!(store.failures(runs[0].id).await.unwrap().len(), 2, "a rule at work is no failure");
}

/// Feed `stream` to `git fast-import`.
fn import(at: &Path, stream: &str) {
    let mut child = Command::new("git")
        .current_dir(at)
        .args(["fast-import", "--quiet"])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn a_repository_of_150_000_files_gives_its_artifacts() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "acme+huge");
    let mut stream = "blob\nmark :1\ndata 4\ntext\ncommit refs/heads/main\n\
        committer Cy <cy@example.org> 1700000000 +0000\ndata 3\nall\n"
        .to_owned();
    for file in 0..150_000 {
        stream += &format!("M 100644 :1 src/d{}/e{}/f{file}.rs\n", file / 10_000, file / 200);
    }
    for package in 0..750 {
        stream += &format!("M 100644 :1 packages/p{package}/AGENTS.md\n");
    }
    import(&at, &stream);
    let store = store(dir.path(), "corpus.db").await;
    let first = take_in(&store, &at).await;
    assert_eq!((first.artifacts, first.added, first.blobs, first.histories), (750, 750, 1, 750));
    assert_eq!(first.skipped, []);
    assert_eq!(take_in(&store, &at).await.run, None);
}

async fn histories(store: &Store, key: &str) -> Vec<StoredHistory> {
    let heads = store.repo_heads(&[key.to_owned()]).await.unwrap();
    store.repo_histories(heads[key].0).await.unwrap()
}

fn facts(stored: &StoredHistory) -> (bool, Vec<CommitFact>) {
    let (complete, facts) = stored.history.clone().expect(&stored.path);
    (complete, serde_json::from_str(&facts).unwrap())
}

/// Commit everything as `who`, written at one time and recorded at another.
fn commit_as(at: &Path, who: &str, written: i64, message: &str) {
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "--allow-empty", "--author", who, "--date", &format!("@{written} +0000"), "-m", message]);
}

const PERSON: &str = "Jo Doe <7+jo@users.noreply.github.com>";
const AGENT: &str = "Claude <noreply@anthropic.com>";

/// A repository whose files were created, edited, deleted and brought back by people, agents and bots.
fn with_history(root: &Path) -> std::path::PathBuf {
    let at = init(root, "acme+past");
    write(&at, "AGENTS.md", "one");
    write(&at, "long/AGENTS.md", "0");
    commit_as(&at, PERSON, 100, "Start\n\nCo-Authored-By: Claude <noreply@anthropic.com>");
    write(&at, "CLAUDE.md", "made");
    commit_as(&at, AGENT, 90, "Add a memory");
    write(&at, "AGENTS.md", "two");
    git(&at, &["rm", "-q", "CLAUDE.md"]);
    commit_as(&at, "renovate[bot] <29139614+renovate[bot]@users.noreply.github.com>", 200, "Update");
    write(&at, "CLAUDE.md", "back");
    commit_as(&at, PERSON, 300, "Bring it back\n\n🤖 Generated with [Claude Code](https://claude.ai/code)");
    for version in 1..40 {
        write(&at, "long/AGENTS.md", format!("{version}"));
        commit_as(&at, PERSON, 1000 + version, "Edit");
    }
    at
}

#[tokio::test]
async fn histories_are_those_that_the_crawl_stores_and_follow_only_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repos");
    let at = with_history(&root);
    let local = store(dir.path(), "local.db").await;
    assert_eq!(take_in(&local, &at).await.histories, 3);

    let sandbox = serve(SandboxOptions { limits: unlimited(), ..SandboxOptions::new(Source::Repositories(root)) });
    let sandbox = sandbox.await.unwrap();
    let crawled = store(dir.path(), "crawled.db").await;
    let github = GitHub::new(client(&sandbox)).unwrap();
    let targets = Targets::embedded().unwrap();
    let summary = crawl(&crawled, &github, &targets, &CrawlOptions::default(), &Silent::default()).await.unwrap();
    assert_eq!((summary.outcome, summary.artifacts), (Outcome::Done, 3), "{summary:?}");

    let (ours, theirs) = (histories(&local, "acme/past").await, histories(&crawled, "acme/past").await);
    assert_eq!(ours.len(), 3);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.path, theirs.path);
        let ((complete, mut ours), (theirs_complete, theirs)) = (facts(ours), facts(theirs));
        assert_eq!(complete, theirs_complete);
        if !complete {
            // The crawl ends at the thirtieth commit; the creating one is one more.
            let creating = ours.pop().unwrap();
            assert!(creating.creates && creating.agent == Some(("claude".to_owned(), CreditVia::CoAuthor)));
            assert_eq!(ours.len(), 30);
        }
        assert_eq!(ours, theirs);
    }
    let of = |path: &str| facts(ours.iter().find(|stored| stored.path == path).unwrap());
    let (complete, claude) = of("CLAUDE.md");
    assert!(complete);
    let kinds: Vec<_> = claude.iter().map(|fact| (fact.author, fact.when, fact.creates)).collect();
    assert_eq!(
        kinds,
        [(AuthorKind::Person, 300, false), (AuthorKind::Bot, 200, false), (AuthorKind::Agent, 90, true)],
        "newest first, with the author's dates"
    );
    assert!(!of("long/AGENTS.md").0);

    // Only the path that a commit touches has another history, whether or not its bytes are others than before.
    commit_as(&at, PERSON, 5000, "Nothing");
    let idle = take_in(&local, &at).await;
    assert_eq!((idle.changed, idle.histories), (0, 0));
    write(&at, "AGENTS.md", "three");
    commit_as(&at, PERSON, 6000, "Change");
    write(&at, "AGENTS.md", "two");
    commit_as(&at, PERSON, 7000, "And back");
    let back = take_in(&local, &at).await;
    assert_eq!((back.changed, back.histories), (0, 1));
    assert_eq!(facts(&histories(&local, "acme/past").await[0]).1.len(), 4);
    assert_eq!(take_in(&local, &at).await.run, None);
}

#[tokio::test]
async fn a_shallow_clone_is_taken_in_and_names_no_creator() {
    let dir = tempfile::tempdir().unwrap();
    let at = with_history(&dir.path().join("repos"));
    let url = format!("file://{}", at.display());
    git(dir.path(), &["clone", "-q", "--bare", "--depth=2", &url, "acme+shallow.git"]);
    let store = store(dir.path(), "corpus.db").await;
    let summary = take_in(&store, &dir.path().join("acme+shallow.git")).await;
    assert_eq!((summary.artifacts, summary.skipped.as_slice()), (3, &[][..]));
    for stored in histories(&store, "acme/shallow").await {
        let (complete, facts) = facts(&stored);
        assert!(!complete && facts.iter().all(|fact| !fact.creates), "{}", stored.path);
        // The oldest commit there is looks as if it had brought every file: that is no evidence.
        assert_eq!(facts.len(), usize::from(stored.path == "long/AGENTS.md"), "{}", stored.path);
    }
}

/// Tier and SPDX expression by repository.
async fn licenses(store: &Store) -> BTreeMap<String, (String, Option<String>)> {
    let names: BTreeMap<i64, String> =
        store.artifacts_after(None, 100).await.unwrap().into_iter().map(|a| (a.repo.0, a.name)).collect();
    let subjects = store.license_subjects_after(0, 100).await.unwrap();
    subjects.into_iter().map(|s| (names[&s.id].clone(), (s.license_tier.unwrap(), s.license_spdx))).collect()
}

#[tokio::test]
#[cfg(unix)]
async fn licence_files_decide_and_no_later_step_forgets_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("repos");
    let mit = "Permission is hereby granted, free of charge, to any person obtaining a copy … this permission notice …";
    let apache = "Apache License\nVersion 2.0\n2. Grant of Copyright License.\n4. Redistribution.\n";
    let closed = "Copyright (c) 2025 Acme. All rights reserved.\n";
    let repos: [(&str, &[(&str, &str)]); 4] = [
        ("acme+dual", &[("LICENSE-MIT", mit), ("LICENSE-APACHE", apache)]),
        ("acme+closed", &[("LICENSE", closed)]),
        ("acme+below", &[("vendored/LICENSE", mit)]),
        ("acme+linked", &[("legal/terms.txt", mit)]),
    ];
    for (name, files) in repos {
        let at = init(&root, name);
        write(&at, "AGENTS.md", name);
        for (path, text) in files {
            write(&at, path, text);
        }
        if name == "acme+linked" {
            std::os::unix::fs::symlink("legal/terms.txt", at.join("LICENSE")).unwrap();
        }
        commit(&at, 1, "one");
    }
    // What is told of a repository counts where it holds no licence file, and is outweighed by a stricter file.
    let told = ["dual", "closed", "below"].map(|name| format!("{{\"repo\":\"acme/{name}\",\"license\":\"MIT\"}}\n"));
    write(&root, "repos.jsonl", told.concat());
    let store = store(dir.path(), "corpus.db").await;
    let first = take_in(&store, &root).await;
    assert_eq!((first.licenses, first.skipped.as_slice()), (4, &[][..]));
    let judged = licenses(&store).await;
    let wanted = [
        ("below", ("permissive", Some("MIT"))),
        ("closed", ("custom", None)),
        ("dual", ("permissive", Some("Apache-2.0 OR MIT"))),
        ("linked", ("permissive", Some("MIT"))),
    ];
    let wanted = wanted.map(|(name, (tier, spdx))| (name.to_owned(), (tier.to_owned(), spdx.map(str::to_owned))));
    assert_eq!(judged, BTreeMap::from(wanted));

    aac::job::tag::tag(&store, &Silent::default()).await.unwrap();
    assert_eq!(licenses(&store).await, judged);
    assert_eq!(take_in(&store, &root).await.run, None);
    git(&root.join("acme+linked"), &["rm", "-q", "LICENSE"]);
    commit(&root.join("acme+linked"), 2, "two");
    assert_eq!(take_in(&store, &root).await.licenses, 1);
    assert_eq!(licenses(&store).await["linked"], ("none".to_owned(), None));
}
