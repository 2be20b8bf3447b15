//! Items, duplicates, tags, licences and opt-outs over a whole corpus: what is judged does not depend on the way there.

use aac::corpus::{CommitFact, GitOid, Platform, Slug};
use aac::job::dedup::dedup;
use aac::job::evaluate::evaluate_tags;
use aac::job::segment::{segment, segmentations};
use aac::job::tag::tag;
use aac::job::{JudgeError, optout};
use aac::monitor::{Monitor, Silent};
use aac::store::{ArtifactRow, Codec, FailureRow, OptOutKey, RepoFacts, RepoRow, Store, TagListing};
use aac::tag::score::TagLabel;
use aac::taxonomy::{AuthorKind, CreditVia, FileMode, Function, Presence, RepoSource};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A repository: its name, its licence, and (path, text); a path that begins with `->` is a symbolic link.
type Repo<'a> = (&'a str, Option<&'a str>, Vec<(String, String)>);

async fn add(store: &Store, repos: &[Repo<'_>]) {
    let run = store.begin_run("test", &json!({}), 1).await.unwrap();
    for (slug, license, files) in repos {
        let row = RepoRow {
            node_id: None,
            slug: slug.parse().unwrap(),
            source: RepoSource::Local,
            facts: RepoFacts { license_api: license.map(str::to_owned), ..RepoFacts::default() },
            facts_at: Some(1),
        };
        let repo = store.put_repos(run, &[row]).await.unwrap()[0];
        let bodies: Vec<Vec<u8>> = files.iter().map(|(_, text)| text.clone().into_bytes()).collect();
        let blobs = store.put_blobs(run, &Codec::plain().encode_all(&bodies).unwrap()).await.unwrap();
        let rows: Vec<ArtifactRow> = files
            .iter()
            .zip(blobs)
            .map(|((path, _), blob)| ArtifactRow {
                repo,
                path: path.trim_start_matches("->").to_owned(),
                platform: Platform("claude".to_owned()),
                target: "claude/context".to_owned(),
                mode: if path.starts_with("->") { FileMode::Symlink } else { FileMode::File },
                resolves_to: None,
                blob,
                commit: None,
            })
            .collect();
        store.put_artifacts(run, &rows).await.unwrap();
    }
}

async fn judge(store: &Store, monitor: &dyn Monitor) -> Result<bool, JudgeError> {
    let paused = segment(store, monitor).await?.paused;
    let paused = paused || dedup(store, monitor).await?.paused;
    Ok(paused || tag(store, monitor).await?.paused)
}

async fn store(dir: &Path, name: &str) -> Store {
    Store::create(&dir.join(name)).await.unwrap()
}

/// The file behind a store, for what no job would write.
async fn raw(store: &Store) -> SqliteConnection {
    SqliteConnectOptions::new().filename(store.path()).connect().await.unwrap()
}

async fn execute(store: &Store, sql: &'static str) {
    sqlx::query(sql).execute(&mut raw(store).await).await.unwrap();
}

fn file(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

fn guide(topic: &str, lines: usize) -> String {
    let words = ["build", "test", "deploy", "review", "migrate", "observe", "document"];
    let line = |n: usize| {
        let (a, b) = (words[n % 7], words[(n / 7 + n) % 7]);
        format!("- When you {a} the {topic} part {}, {b} what {topic} depends on first.\n", "ab".repeat(n + 1))
    };
    format!("# {topic}\n\n{}", (0..lines).map(line).collect::<String>())
}

fn first() -> Vec<Repo<'static>> {
    vec![
        (
            "acme/rocket",
            Some("MIT"),
            vec![
                file("CLAUDE.md", "@AGENTS.md\n"),
                file("AGENTS.md", &guide("rocket", 30)),
                file("docs/CLAUDE.md", &guide("shared", 40)),
                file("->link/CLAUDE.md", "../AGENTS.md"),
            ],
        ),
        ("beta/boat", None, vec![file("CLAUDE.md", &guide("boat", 25)), file(".claude/empty.md", "")]),
    ]
}

/// A copy with one line more of what the first repository has, and a text of its own.
fn second() -> Vec<Repo<'static>> {
    let copy = guide("shared", 40) + "Add one line of your own here.\n";
    vec![("Gamma/garden", Some("GPL-3.0"), vec![file("CLAUDE.md", &copy), file("a/CLAUDE.md", &guide("garden", 9))])]
}

async fn tags(store: &Store) -> Vec<TagListing> {
    store.tags(None).await.unwrap()
}

fn value<'a>(tags: &'a [TagListing], path: &str, dimension: &str) -> &'a str {
    &tags.iter().find(|t| t.path == path && t.dimension == dimension).unwrap().value
}

#[tokio::test]
async fn a_corpus_that_grew_is_judged_like_one_made_at_once_in_another_order() {
    let dir = tempfile::tempdir().unwrap();
    let grown = store(dir.path(), "grown.db").await;
    add(&grown, &first()).await;
    assert!(!judge(&grown, &Silent::default()).await.unwrap());
    let before = tags(&grown).await;
    assert_ne!(value(&before, "docs/CLAUDE.md", "authorship"), "template");
    add(&grown, &second()).await;
    let changed = ("beta/boat", None, vec![file("CLAUDE.md", &guide("ship", 12))]);
    add(&grown, std::slice::from_ref(&changed)).await;
    assert!(!judge(&grown, &Silent::default()).await.unwrap());

    let fresh = store(dir.path(), "fresh.db").await;
    let mut all = [second(), first()].concat();
    all.iter_mut().filter(|r| r.0 == changed.0).for_each(|r| r.2[0] = changed.2[0].clone());
    all.reverse();
    all[0].2.reverse();
    add(&fresh, &all).await;
    assert!(!judge(&fresh, &Silent::default()).await.unwrap());

    let found = tags(&grown).await;
    assert_eq!(value(&found, "docs/CLAUDE.md", "authorship"), "template", "a second owner has nearly the same text");
    assert_eq!(found.len(), 8 * 4);
    assert_eq!(found, tags(&fresh).await);
    assert_eq!(grown.cluster_counts().await.unwrap(), fresh.cluster_counts().await.unwrap());
    let digest = |s: aac::store::StatisticsRow| (s.digest, s.input);
    assert_eq!(grown.statistics().await.unwrap().map(digest), fresh.statistics().await.unwrap().map(digest));
    assert_eq!(grown.license_counts().await.unwrap(), fresh.license_counts().await.unwrap());
    assert_eq!(grown.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_second_run_writes_nothing_and_only_what_is_stale_is_done_again() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    add(&corpus, &[first(), second()].concat()).await;
    judge(&corpus, &Silent::default()).await.unwrap();
    let (runs, before) = (corpus.runs().await.unwrap().len(), tags(&corpus).await);
    let monitor = Silent::default();
    assert_eq!(segment(&corpus, &monitor).await.unwrap().stale, 0);
    assert!(!dedup(&corpus, &monitor).await.unwrap().recounted);
    let again = tag(&corpus, &monitor).await.unwrap();
    assert_eq!((again.stale, again.licenses_updated), (0, 0));
    assert_eq!(corpus.runs().await.unwrap().len(), runs);

    execute(&corpus, "UPDATE segmentation SET version = 0, items = 99 WHERE blob_id = 2").await;
    execute(&corpus, "UPDATE redaction SET version = 0 WHERE blob_id = 3").await;
    execute(&corpus, "UPDATE tag SET version = 0, value = 'other' WHERE artifact_id = 2").await;
    execute(&corpus, "UPDATE repo SET license_api = 'Apache-2.0' WHERE id = 1").await;
    assert_eq!(segment(&corpus, &monitor).await.unwrap().updated, 2);
    let again = tag(&corpus, &monitor).await.unwrap();
    assert_eq!((again.updated, again.licenses_updated), (1, 1));
    assert_eq!(tags(&corpus).await, before);

    execute(&corpus, "UPDATE statistics SET version = 0").await;
    execute(&corpus, "UPDATE signature SET version = 0 WHERE blob_id IN (1, 2)").await;
    let again = dedup(&corpus, &monitor).await.unwrap();
    assert_eq!((again.updated, again.recounted), (2, true));
    assert_eq!(tag(&corpus, &monitor).await.unwrap().updated, 0, "equal statistics keep their tags");
}

/// Asks to stop once so many batches are done.
struct Batches(AtomicUsize);

impl Monitor for Batches {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, units: u64) {
        if units > 0 {
            let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        }
    }
    fn warn(&self, _: &str) {}
    fn end(&self) {}
    fn stop_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

#[tokio::test]
async fn stopping_after_every_batch_gives_what_an_unbroken_run_gives() {
    let dir = tempfile::tempdir().unwrap();
    let text = |n: usize| format!("# Part {n}\n\n- Keep the number {} of the {} part.\n", n % 40, n / 40);
    let many: Vec<(String, String)> = (0..2100).map(|n| file(&format!("p{n}/CLAUDE.md"), &text(n))).collect();
    let repos: Vec<Repo> = vec![("acme/many", None, many.clone()), ("beta/few", None, many[..50].to_vec())];
    let (broken, whole) = (store(dir.path(), "broken.db").await, store(dir.path(), "whole.db").await);
    add(&broken, &repos).await;
    add(&whole, &repos).await;
    judge(&whole, &Silent::default()).await.unwrap();
    // Each run gets one batch further than the one before was allowed, so that every one of them is the last once.
    let mut pauses = 0;
    while judge(&broken, &Batches(AtomicUsize::new(pauses))).await.unwrap() {
        pauses += 1;
        assert!(pauses < 50, "the work never ends");
    }
    assert!(pauses >= 4, "{pauses}");
    assert_eq!(tags(&broken).await, tags(&whole).await);
    assert_eq!(broken.counts().await.unwrap().items, whole.counts().await.unwrap().items);
    assert_eq!(broken.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_path_decides_how_a_text_is_read_and_where_a_pointer_leads_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    let mail = "Write to jane.roe@corp-mail.io when the build breaks.\n";
    let files = vec![
        file("CLAUDE.md", "@AGENTS.md\n"),
        file("AGENTS.md", mail),
        file("->b/CLAUDE.md", "../AGENTS.md"),
        file("run.sh", "# Never push to main.\necho done\n"),
    ];
    add(&corpus, &[("acme/rocket", None, files.clone())]).await;
    let summary = segment(&corpus, &Silent::default()).await.unwrap();
    assert_eq!(summary.redactions.get("email"), Some(&1));
    let listed = corpus.artifacts_after(None, 10).await.unwrap();
    let blobs: Vec<_> = listed.iter().map(|a| a.blob).collect();
    let items = segmentations(&corpus, &blobs).await.unwrap();
    let count = |path: &str| items[&listed.iter().find(|a| a.path == path).unwrap().blob].items.len();
    assert_eq!((count("AGENTS.md"), count("b/CLAUDE.md"), count("run.sh")), (1, 0, 0));

    // Under a name that comes first, the same bytes are Markdown.
    add(&corpus, &[("acme/other", None, vec![file("CLAUDE.md", "# Never push to main.\necho done\n")])]).await;
    assert_eq!(segment(&corpus, &Silent::default()).await.unwrap().updated, 1);
    assert_eq!(corpus.counts().await.unwrap().items, summary.items + 1);

    tag(&corpus, &Silent::default()).await.unwrap();
    add(&corpus, &[("acme/rocket", None, files)]).await;
    let listed = corpus.artifacts_after(None, 10).await.unwrap();
    let pointer = listed.iter().find(|a| a.path == "CLAUDE.md" && a.name == "rocket").unwrap();
    assert_eq!(pointer.resolves_to.as_deref(), Some("AGENTS.md"));
}

#[tokio::test]
async fn history_that_comes_later_makes_the_tags_of_its_artifact_stale() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    add(&corpus, &first()).await;
    judge(&corpus, &Silent::default()).await.unwrap();
    let fact = CommitFact {
        author: AuthorKind::Agent,
        agent: Some(("claude".to_owned(), CreditVia::Author)),
        co_authors: Vec::new(),
        when: 1_700_000_000,
        creates: true,
    };
    sqlx::query("INSERT INTO history (artifact_id, complete, facts, run_id) VALUES (2, 1, ?, 1)")
        .bind(json!([fact]).to_string())
        .execute(&mut raw(&corpus).await)
        .await
        .unwrap();
    assert_eq!(tag(&corpus, &Silent::default()).await.unwrap().updated, 1);
    assert_eq!(value(&tags(&corpus).await, "AGENTS.md", "authorship"), "ai_generated");
    execute(&corpus, "UPDATE history SET facts = '{}'").await;
    let error = tag(&corpus, &Silent::default()).await.unwrap_err().to_string();
    assert!(error.contains("acme/rocket:AGENTS.md"), "{error}");
}

#[tokio::test]
async fn an_opt_out_removes_everything_derived_and_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    add(&corpus, &[first(), second()].concat()).await;
    add(&corpus, &[("acme/tower", None, vec![file("CLAUDE.md", &guide("boat", 25))])]).await;
    judge(&corpus, &Silent::default()).await.unwrap();
    let run = corpus.begin_run("test", &json!({}), 1).await.unwrap();
    let what = "Acme/Rocket:docs/CLAUDE.md".to_owned();
    corpus
        .add_failures(run, &[FailureRow { stage: "ingest".to_owned(), what, why: "too large".to_owned() }], 1)
        .await
        .unwrap();
    execute(
        &corpus,
        "INSERT INTO gold_item (id, repo, path, blob_oid, blob_id, line, kind, heading, text_sha256) \
         SELECT 'g1', 'acme/rocket', 'AGENTS.md', git_oid, id, 1, 'list', '', sha256 FROM blob WHERE id = 2",
    )
    .await;
    let before = corpus.counts().await.unwrap();

    let done = optout::add(&corpus, &OptOutKey::owner("ACME"), optout::ON_REQUEST).await.unwrap();
    // Four texts of the rocket are nobody else's; that of the tower the boat has, too.
    assert_eq!((done.removed.repos, done.removed.artifacts, done.removed.blobs), (2, 5, 4));
    assert_eq!(done.removed.gold_items, 1);
    let after = corpus.counts().await.unwrap();
    assert_eq!((after.blobs, after.artifacts), (before.blobs - 4, before.artifacts - 5));
    assert_eq!(corpus.check().await.unwrap(), Vec::<String>::new());
    assert!(corpus.failures(run).await.unwrap().is_empty());
    let covers = corpus.opt_outs().await.unwrap();
    assert!(covers.covers(&"acme/anything".parse::<Slug>().unwrap()));
    assert!(!covers.covers(&"beta/boat".parse::<Slug>().unwrap()));
    let bytes = std::fs::read(dir.path().join("c.db")).unwrap();
    assert!(!bytes.windows(14).any(|w| w == b"docs/CLAUDE.md"), "the file still holds what was removed");

    judge(&corpus, &Silent::default()).await.unwrap();
    let never = store(dir.path(), "never.db").await;
    let others: Vec<Repo> = [first(), second()].concat().into_iter().filter(|r| !r.0.starts_with("acme")).collect();
    add(&never, &others).await;
    judge(&never, &Silent::default()).await.unwrap();
    assert_eq!(tags(&corpus).await, tags(&never).await);

    assert!(optout::remove(&corpus, &OptOutKey::owner("acme")).await.unwrap());
    assert!(!optout::remove(&corpus, &OptOutKey::owner("acme")).await.unwrap());
    assert_eq!(corpus.repo_heads(&["acme/rocket".to_owned()]).await.unwrap().len(), 0);
    assert_eq!(corpus.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_opt_out_of_a_former_name_holds_under_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    let run = corpus.begin_run("test", &json!({}), 1).await.unwrap();
    let row = |slug: &str| RepoRow {
        node_id: Some("R_1".to_owned()),
        slug: slug.parse().unwrap(),
        source: RepoSource::GitHub,
        facts: RepoFacts { stars: Some(5), ..RepoFacts::default() },
        facts_at: Some(1),
    };
    corpus.put_repos(run, &[row("acme/old"), row("acme/new")]).await.unwrap();
    let done = optout::add(&corpus, &OptOutKey::repo(&"acme/old".parse().unwrap()), "asked").await.unwrap();
    assert_eq!(done.removed.repos, 1);
    assert!(corpus.opt_outs().await.unwrap().covers(&"acme/new".parse().unwrap()));
    let (stars, presence): (Option<i64>, String) =
        sqlx::query_as("SELECT stars, presence FROM repo").fetch_one(&mut raw(&corpus).await).await.unwrap();
    assert_eq!((stars, presence.as_str()), (None, Presence::OptedOut.as_str()));
}

#[tokio::test]
async fn labels_are_compared_where_the_text_is_the_labelled_one() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = store(dir.path(), "c.db").await;
    add(&corpus, &first()).await;
    let label = |path: &str, text: &str, function| TagLabel {
        repo: "Acme/Rocket".parse().unwrap(),
        path: path.to_owned(),
        symlink: false,
        blob: GitOid::of_blob(text.as_bytes()),
        function: Some(function),
        authorship: None,
        specificity: None,
    };
    let labels = [
        label("CLAUDE.md", "@AGENTS.md\n", Function::Pointer),
        label("AGENTS.md", &guide("rocket", 30), Function::Hook),
        label("docs/CLAUDE.md", "another text", Function::Instructions),
        label("nowhere.md", "", Function::Other),
    ];
    let found = evaluate_tags(&corpus, &labels).await.unwrap();
    assert_eq!((found.labelled, found.compared, found.untagged), (4, 0, 2));
    judge(&corpus, &Silent::default()).await.unwrap();
    let found = evaluate_tags(&corpus, &labels).await.unwrap();
    assert_eq!((found.compared, found.missing, found.changed, found.untagged), (2, 1, 1, 0));
    let function = &found.dimensions["function"];
    assert_eq!((function.n, function.accuracy), (2, 0.5));
    assert_eq!(function.confusion[&("hook".to_owned(), "instructions".to_owned())], 1);
}
