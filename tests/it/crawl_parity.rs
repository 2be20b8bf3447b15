//! A crawl over the sandbox gives what reading the same repositories from disk gives, which is what `git ls-tree` lists.

use crate::crawl::{client, unlimited};
use crate::repos::{commit, git, init, ls_tree, write};
use aac::github::GitHub;
use aac::job::crawl::{CrawlOptions, CrawlSummary, crawl};
use aac::job::ingest::{IngestOptions, ingest};
use aac::monitor::Silent;
use aac::plan::Targets;
use aac::sandbox::{SandboxOptions, Source, serve};
use aac::store::Store;
use aac::taxonomy::Outcome;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Repository and path of an artifact to its mode, where a link leads, its git id and the digest of its bytes.
type Held = BTreeMap<(String, String), (String, Option<String>, String, String)>;

async fn held(store: &Store) -> Held {
    let rows = store.artifacts_after(None, 1_000_000).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.blob).collect();
    let bodies = store.bodies(&ids).await.unwrap();
    rows.into_iter()
        .zip(bodies)
        .map(|(row, bytes)| {
            let sum = aac::corpus::Sha256::of(&bytes);
            assert_eq!(sum, row.sha256, "{}/{}:{}", row.owner, row.name, row.path);
            let key = (format!("{}/{}", row.owner, row.name).to_lowercase(), row.path);
            (key, (row.mode, row.resolves_to, row.git_oid.to_string(), sum.to_string()))
        })
        .collect()
}

/// Artifacts with mode and git id as `git ls-tree` and the path patterns have them.
fn listed(folder: &Path) -> BTreeMap<(String, String), (String, String)> {
    let targets = Targets::embedded().unwrap();
    let mut all = BTreeMap::new();
    for found in aac::repos::discover(&[folder.to_owned()]).found {
        let branch = found.facts.as_ref().and_then(|f| f.default_branch.clone()).unwrap_or_else(|| "HEAD".into());
        if !has_commits(&found.path) {
            continue;
        }
        let entries: Vec<(String, String, String)> = ls_tree(&found.path, &branch)
            .into_iter()
            .filter(|(mode, ..)| mode != "160000")
            .map(|(mode, oid, path)| (mode, oid, String::from_utf8(path).unwrap()))
            .collect();
        let paths: Vec<&str> = entries.iter().map(|(.., path)| path.as_str()).collect();
        let owned: Vec<&str> = targets.artifacts(&paths).into_iter().map(|(path, _)| path).collect();
        for (mode, oid, path) in entries.iter().filter(|(.., path)| owned.contains(&path.as_str())) {
            let mode = match mode.as_str() {
                "120000" => "symlink",
                "100755" => "executable",
                _ => "file",
            };
            let key = (found.slug.to_string().to_lowercase(), path.clone());
            all.insert(key, (mode.to_owned(), oid.clone()));
        }
    }
    all
}

fn has_commits(at: &Path) -> bool {
    !git(at, &["for-each-ref", "--count=1"]).is_empty()
}

/// What a crawl and what ingestion of `folder` give; both must hold the same blobs, too.
async fn both_ways(folder: &Path) -> (Held, Held, CrawlSummary) {
    let dir = tempfile::tempdir().unwrap();
    let source = Source::Repositories(folder.to_owned());
    let sandbox = serve(SandboxOptions { limits: unlimited(), ..SandboxOptions::new(source) }).await.unwrap();
    assert_eq!(sandbox.skipped(), Vec::<String>::new());
    let crawled = Store::create(&dir.path().join("crawled.db")).await.unwrap();
    let github = GitHub::new(client(&sandbox)).unwrap();
    let targets = Targets::embedded().unwrap();
    let summary = crawl(&crawled, &github, &targets, &CrawlOptions::default(), &Silent::default()).await.unwrap();
    assert_eq!((summary.outcome, &summary.failed), (Outcome::Done, &Vec::new()));
    let ingested = Store::create(&dir.path().join("ingested.db")).await.unwrap();
    let options = IngestOptions::new(vec![folder.to_owned()]);
    let said = ingest(&ingested, Arc::new(targets), &options, &Silent::default()).await.unwrap();
    assert!(said.skipped.iter().all(|left| !left.failed), "{:?}", said.skipped);
    let (left, right) = (crawled.counts().await.unwrap(), ingested.counts().await.unwrap());
    assert_eq!((left.blobs, left.bytes, left.repos), (right.blobs, right.bytes, right.repos));
    (held(&crawled).await, held(&ingested).await, summary)
}

fn modes_and_ids(held: &Held) -> BTreeMap<(String, String), (String, String)> {
    held.iter().map(|(key, (mode, _, oid, _))| (key.clone(), (mode.clone(), oid.clone()))).collect()
}

/// The first few differences, for the message of a failure.
#[track_caller]
fn assert_same<V: PartialEq + std::fmt::Debug>(
    name: &str,
    left: &BTreeMap<(String, String), V>,
    right: &BTreeMap<(String, String), V>,
) {
    let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let differing: Vec<_> = keys
        .into_iter()
        .filter(|key| left.get(key) != right.get(key))
        .map(|k| (k, left.get(k), right.get(k)))
        .collect();
    assert!(differing.is_empty(), "{name}: {} differ: {:#?}", differing.len(), &differing[..differing.len().min(12)]);
}

/// Many artifacts in one repository: several queries are needed for it.
fn large(root: &Path) {
    let at = init(root, "acme+large");
    write(&at, "CLAUDE.md", "# Root\n\nRead the commands.\n");
    for n in 0..420 {
        write(&at, &format!(".claude/commands/step-{n}.md"), format!("# Step {n}\n\nRun step {n} of the build.\n"));
    }
    for n in 0..30 {
        write(&at, &format!("packages/p{n}/AGENTS.md"), format!("# Package {n}\n\nTest package {n} alone.\n"));
    }
    commit(&at, 1, "all");
}

fn links(root: &Path) {
    let at = init(root, "acme+links");
    write(&at, "docs/rules.md", "# Rules\n\nNever force-push.\n");
    write(&at, "CLAUDE.local.md", "Mine.\n");
    write(&at, "other/deep/rules.md", "# Others\n");
    for (path, target) in [
        ("AGENTS.md", "CLAUDE.md"),
        ("CLAUDE.md", "docs/first"),
        ("docs/first", "second"),
        ("docs/second", "./rules.md"),
        ("sub/CLAUDE.md", "../AGENTS.md"),
        ("sub/AGENTS.md", "../../outside.md"),
        (".cursorrules", "no-such-file"),
        (".windsurfrules", "docs"),
        (".github/copilot-instructions.md", "/etc/hosts"),
        ("GEMINI.md", "AGENTS.md"),
        ("folder", "docs"),
        ("far/CLAUDE.md", "../folder/../other/deep/rules.md"),
        ("loop/AGENTS.md", "CLAUDE.md"),
        ("loop/CLAUDE.md", "AGENTS.md"),
    ] {
        let place = at.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(target, place).unwrap();
    }
    commit(&at, 1, "links");
}

fn paths(root: &Path) {
    let at = init(root, "acme+odd.paths_here");
    for (n, folder) in [
        "a b",
        "ünïcode",
        "emoji 🦀",
        "q\"uote",
        "back\\slash",
        "per%41cent",
        "hash#tag",
        "amp&plus+",
        "col:on",
        "tab\there",
        "line\nbreak",
        "'single'",
        "(paren)",
        "[brackets]",
        "star*",
        "que?stion",
        "$dollar",
        "-dash",
        "UPPER",
    ]
    .iter()
    .enumerate()
    {
        write(&at, &format!("{folder}/CLAUDE.md"), format!("# Place {n}\n\nKeep {n} things.\n"));
    }
    write(&at, ".cursor/rules/with space é.mdc", "---\nglobs: \"*.rs\"\n---\nUse tabs.\n");
    write(&at, "Claude.md", "# Another case\n\nSays so.\n");
    commit(&at, 1, "paths");
}

fn texts(root: &Path) {
    let at = init(root, "acme+texts");
    write(&at, "CLAUDE.md", "\u{feff}# Mark\r\n\r\nWith carriage returns.\r\n");
    let wide: Vec<u8> = "\u{feff}# Wide\n\nTwo bytes each.\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    write(&at, "utf16/CLAUDE.md", wide);
    write(&at, "latin/CLAUDE.md", b"caf\xE9 rules\n");
    write(&at, "binary/CLAUDE.md", b"\x00\x01\x02ELF\x00\xFF\xFE");
    write(&at, "nul/CLAUDE.md", b"text with one \x00 in it\n");
    write(&at, "empty/CLAUDE.md", "");
    write(&at, "AGENTS.md", "");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258da\
                   aa5e2ca24d17e2393\nsize 12345\n";
    write(&at, "lfs/CLAUDE.md", pointer);
    write(&at, "GEMINI.md", "x");
    write(&at, ".cursorrules", "0123456789 line of rules\n".repeat(24_000));
    write(&at, ".windsurfrules", "é".repeat(300_000));
    write(&at, ".claude/hooks/run.sh", "#!/bin/sh\ntrue\n");
    std::fs::set_permissions(at.join(".claude/hooks/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    write(&at, ".claude/settings.json", "{}\n");
    commit(&at, 1, "texts");
    // An empty file below a directory that no hit names is beyond code search; it is out of the question here.
    git(&at, &["rm", "-q", "empty/CLAUDE.md"]);
    commit(&at, 2, "less");
}

fn names(root: &Path) {
    let weak = init(root, "acme+weak");
    write(&weak, "CONVENTIONS.md", "# Conventions\n\nOf a conference.\n");
    write(&weak, "mcp_config.json", "{}\n");
    commit(&weak, 1, "weak names alone");
    let strong = init(root, "acme+strong");
    write(&strong, "CONVENTIONS.md", "# Conventions\n\nUse snake case.\n");
    write(&strong, ".aider.conf.yml", "read: CONVENTIONS.md\n");
    write(&strong, "node_modules/x/CLAUDE.md", "vendored\n");
    write(&strong, "vendor/y/AGENTS.md", "vendored, too\n");
    write(&strong, "third_party/z/.cursorrules", "and this\n");
    write(&strong, "docs/AGENTS.md.tmpl", "no artifact\n");
    write(&strong, "CLAUDE.md", "# Root\n\nRead the commands.\n");
    commit(&strong, 1, "weak names with others");
    // The same bytes as elsewhere, and a submodule under the name of an artifact.
    let copy = init(root, "other+Copy-Of");
    write(&copy, "CLAUDE.md", "# Root\n\nRead the commands.\n");
    write(&copy, "readme.md", "nothing\n");
    git(&copy, &["add", "-A"]);
    git(&copy, &["update-index", "--add", "--cacheinfo", "160000,4b825dc642cb6eb9a060e54bf8d69288fbee4904,AGENTS.md"]);
    git(&copy, &["commit", "-q", "-m", "copy"]);
    init(root, "acme+empty");
    let nothing = init(root, "acme+nothing");
    write(&nothing, "src/lib.rs", "");
    commit(&nothing, 1, "nothing to find");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_gives_what_ingestion_gives_and_git_lists() {
    let dir = tempfile::tempdir().unwrap();
    for build in [large, links, paths, texts, names] {
        build(dir.path());
    }
    let (crawled, ingested, summary) = both_ways(dir.path()).await;
    let listed = listed(dir.path());
    assert_same("crawled and listed", &modes_and_ids(&crawled), &listed);
    assert_same("ingested and listed", &modes_and_ids(&ingested), &listed);
    assert_same("crawled and ingested", &crawled, &ingested);
    assert_eq!(summary.artifacts as usize, listed.len());

    let leads = |path: &str| crawled[&("acme/links".to_owned(), path.to_owned())].1.as_deref();
    assert_eq!((leads("AGENTS.md"), leads("sub/CLAUDE.md")), (Some("docs/rules.md"), Some("docs/rules.md")));
    assert_eq!((leads(".windsurfrules"), leads("far/CLAUDE.md")), (Some("docs"), Some("other/deep/rules.md")));
    assert_eq!((leads("sub/AGENTS.md"), leads(".cursorrules"), leads("loop/AGENTS.md")), (None, None, None));
    assert!(!listed.contains_key(&("acme/weak".to_owned(), "CONVENTIONS.md".to_owned())));
    assert!(listed.contains_key(&("acme/strong".to_owned(), "CONVENTIONS.md".to_owned())));
    assert!(listed.len() > 480, "{}", listed.len());
}

/// All of `AAC_CORPUS`, artifact for artifact and byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_of_a_whole_corpus_gives_what_ingestion_gives_and_git_lists() {
    let Some(corpus) = std::env::var_os("AAC_CORPUS").map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: set AAC_CORPUS to a folder of repositories to crawl them all");
        return;
    };
    let (crawled, ingested, summary) = both_ways(&corpus).await;
    let listed = listed(&corpus);
    assert_same("ingested and listed", &modes_and_ids(&ingested), &listed);
    assert_same("crawled and ingested", &crawled, &ingested);
    let _ = writeln!(
        std::io::stderr(),
        "{} artifacts, {} blobs, {:?}, ratio {:.3}",
        summary.artifacts,
        summary.blobs,
        summary.requests,
        summary.ratio
    );
}
