//! The numbered cases of the notes on GitHub, each through a whole crawl. Those that a pure function decides have
//! tests of the same names in `github::limit`.

use crate::crawl::{client, unlimited};
use crate::repos::{commit, init, write};
use aac::github::{Endpoints, GitHub, Options};
use aac::job::crawl::{CrawlOptions, CrawlSummary, crawl};
use aac::monitor::Silent;
use aac::plan::targets::{Selection, Targets};
use aac::sandbox::{Bucket, Faults, Limits, Running, SandboxOptions, Source, serve};
use aac::store::{ArtifactListing, Store};
use aac::taxonomy::Outcome;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use std::path::Path;
use std::sync::{Arc, Mutex};

struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// One repository, `acme/tool`, with what `fill` puts into it.
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = init(&dir.path().join("repos"), "acme+tool");
        fill(&at);
        commit(&at, 1, "all");
        Self { dir }
    }

    async fn serve(&self, limits: Limits, faults: Faults) -> Running {
        let source = Source::Repositories(self.dir.path().join("repos"));
        serve(SandboxOptions { limits, faults, ..SandboxOptions::new(source) }).await.unwrap()
    }

    async fn crawl(&self, platform: &str, options: Options) -> (CrawlSummary, Vec<ArtifactListing>) {
        let store = Store::create(&self.dir.path().join("corpus.db")).await.unwrap();
        let mut targets = Targets::embedded().unwrap();
        let selection = Selection::parse(&[platform.to_owned()], &targets).unwrap();
        targets.select(&selection);
        let github = GitHub::new(options).unwrap();
        let summary = crawl(&store, &github, &targets, &CrawlOptions::default(), &Silent::default()).await.unwrap();
        let artifacts = store.artifacts_after(None, 1_000_000).await.unwrap();
        store.close().await;
        (summary, artifacts)
    }

    async fn body(&self, artifact: &ArtifactListing) -> Vec<u8> {
        let store = Store::create(&self.dir.path().join("corpus.db")).await.unwrap();
        store.body(artifact.blob).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_1_a_thousand_hits_whose_tenth_page_would_be_refused_come_whole_and_every_page_once() {
    let world = World::new(|at| {
        for n in 0..1000 {
            write(at, &format!("p{n}/CLAUDE.md"), format!("# Package {n:04}\n"));
        }
    });
    // One search less in a window than the client expects, so that its tenth would be refused.
    let code_search = Bucket { limit: 9, window_seconds: 0.6 };
    let sandbox = world.serve(Limits { code_search, ..Limits::default() }, Faults::default()).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len()), (Outcome::Done, 1000));
    let stats = sandbox.stats();
    assert_eq!(stats.count("code_search", "primary_limit"), 0, "{stats:?}");
    assert_eq!(stats.count("code_search", "ok"), summary.requests.code_search);
    assert_eq!(summary.ratio, 1.0, "ten pages, and one for each of the other targets");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_3_more_copies_of_one_size_than_search_shows_leave_other_windows_whole_and_are_counted() {
    let world = World::new(|at| {
        for n in 0..1300 {
            write(at, &format!("p{n}/CLAUDE.md"), "@AGENTS.md\n");
        }
        for n in 0..60 {
            write(at, &format!("q{n}/CLAUDE.md"), "x".repeat(100 + n));
        }
    });
    let sandbox = world.serve(unlimited(), Faults { total_noise: 0.0, total_bits: 32, ..Faults::default() }).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, summary.windows.open), (Outcome::Done, 0));
    assert!(summary.windows.overflow >= 1 && summary.windows.complete > 0, "{:?}", summary.windows);
    let others = artifacts.iter().filter(|artifact| artifact.size != 11).count();
    assert_eq!(others, 60);
    let stubs = artifacts.len() - others;
    // Pages of wider windows, which were split, show a few that the thousand of this size leave out.
    assert!((1000..1300).contains(&stubs), "{stubs}");
    let unreachable = 1300 - stubs as u64;
    assert_eq!(summary.unreachable, unreachable, "what split windows showed is not unreachable");
    let store = Store::create(&world.dir.path().join("corpus.db")).await.unwrap();
    let targets = store.completeness().await.unwrap();
    let context = targets.iter().find(|row| row.target == "claude/context").unwrap();
    assert_eq!(context.hits as usize, artifacts.len());
    assert_eq!((context.unreachable, context.missing, context.open), (unreachable as i64, 0, 0));
    assert!(targets.iter().filter(|row| row.target != "claude/context").all(|row| row.unreachable == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn case_4_a_dense_window_that_times_out_is_asked_again_and_comes_whole() {
    let world = World::new(|at| {
        for n in 0..150 {
            write(at, &format!("p{n}/CLAUDE.md"), format!("# Package {n}\n"));
        }
    });
    let sandbox = world.serve(unlimited(), Faults { search_timeout: 1.0, ..Faults::default() }).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len(), summary.failed), (Outcome::Done, 150, Vec::new()));
    assert!(sandbox.stats().count("code_search", "fault") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_5_secondary_limits_without_a_hint_are_waited_out() {
    let world = World::new(|at| write(at, "CLAUDE.md", "# Rules\n"));
    let sandbox = world.serve(unlimited(), Faults { secondary_without_hint: 1.0, ..Faults::default() }).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len()), (Outcome::Done, 1));
    assert!(summary.limited.secondary > 0 && summary.waited_seconds > 0.0, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_6_a_graphql_limit_that_comes_as_status_200_makes_no_tombstone() {
    let world = World::new(|at| write(at, "CLAUDE.md", "# Rules\n"));
    let sandbox = world.serve(unlimited(), Faults { graphql_rate_limited: 1.0, ..Faults::default() }).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len()), (Outcome::Done, 1));
    assert!(sandbox.stats().count("graphql", "fault") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_7_a_blocked_repository_is_marked_with_its_reason_and_stops_nothing() {
    let world = World::new(|at| write(at, "CLAUDE.md", "# Rules\n"));
    let sandbox = world.serve(unlimited(), Faults { blocked: 1.0, ..Faults::default() }).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len(), summary.failed), (Outcome::Done, 0, Vec::new()));
    assert!(summary.hits > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_8_a_symlinked_claude_md_is_marked_and_its_target_resolved() {
    let world = World::new(|at| {
        write(at, "AGENTS.md", "# Rules\n\nNever push to main.\n");
        std::os::unix::fs::symlink("AGENTS.md", at.join("CLAUDE.md")).unwrap();
    });
    let sandbox = world.serve(unlimited(), Faults::default()).await;
    let (_, artifacts) = world.crawl("claude", client(&sandbox)).await;
    let link = artifacts.iter().find(|artifact| artifact.path == "CLAUDE.md").unwrap();
    assert_eq!((link.mode.as_str(), link.resolves_to.as_deref(), link.size), ("symlink", Some("AGENTS.md"), 9));
    assert_eq!(world.body(link).await, b"AGENTS.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_9_a_file_that_graphql_cuts_at_512_000_bytes_comes_whole() {
    let text = "0123456789 rule\n".repeat(33_990);
    assert_eq!(text.len(), 543_840);
    let world = World::new(|at| {
        write(at, "CLAUDE.md", &text);
        // Search lists nothing this large; the file beside it leads there.
        write(at, "CLAUDE.local.md", "mine\n");
    });
    let sandbox = world.serve(unlimited(), Faults::default()).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    let large = artifacts.iter().find(|artifact| artifact.path == "CLAUDE.md").unwrap();
    assert_eq!(world.body(large).await, text.as_bytes());
    assert_eq!(summary.requests.core, 1, "the one blob that GraphQL cuts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_into_large_file_storage_is_kept_as_the_text_and_told() {
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 5000\n", "0".repeat(64));
    let world = World::new(|at| {
        write(at, "CLAUDE.md", &pointer);
        write(at, "sub/CLAUDE.md", "# Rules\n");
    });
    let sandbox = world.serve(unlimited(), Faults::default()).await;
    let (summary, artifacts) = world.crawl("claude", client(&sandbox)).await;
    assert_eq!((summary.outcome, artifacts.len(), summary.storage_pointers), (Outcome::Done, 2, 1));
    let root = artifacts.iter().find(|artifact| artifact.path == "CLAUDE.md").unwrap();
    assert_eq!(world.body(root).await, pointer.as_bytes());
}

/// Stands between the client and the sandbox and refuses searches.
#[derive(Clone)]
struct Refuser {
    behind: String,
    http: reqwest::Client,
    refuses: fn(&str) -> bool,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Refuser {
    async fn before(sandbox: &Running, refuses: fn(&str) -> bool) -> (Self, Options) {
        // A client of ours chooses the TLS provider of the process, which reqwest's needs.
        GitHub::new(client(sandbox)).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let this = Self { behind: sandbox.url(), http, refuses, refused: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(pass).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let options = Options { endpoints: Endpoints::new(&url, None).unwrap(), ..client(sandbox) };
        (this, options)
    }
}

async fn pass(State(refuser): State<Refuser>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let asked = parts.uri.path_and_query().unwrap().as_str();
    let query = reqwest::Url::parse(&format!("{}{asked}", refuser.behind)).unwrap();
    let query = query.query_pairs().find(|(key, _)| key == "q").map(|(_, value)| value.into_owned());
    if let Some(query) = query.filter(|query| (refuser.refuses)(query)) {
        refuser.refused.lock().unwrap().push(query);
        let body = r#"{"message":"Validation Failed","errors":[{"code":"invalid"}]}"#;
        return Response::builder().status(422).body(Body::from(body)).unwrap();
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let answer = refuser
        .http
        .request(parts.method, format!("{}{asked}", refuser.behind))
        .header("authorization", parts.headers["authorization"].clone())
        .body(body)
        .send()
        .await
        .unwrap();
    Response::builder().status(answer.status()).body(Body::from(answer.bytes().await.unwrap())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn case_10_a_rejected_query_is_a_loud_failure_and_its_window_stays_open() {
    let world = World::new(|at| {
        write(at, "CLAUDE.md", "# Rules\n");
        write(at, ".claude/commands/plan.md", "Plan.\n");
    });
    let sandbox = world.serve(unlimited(), Faults::default()).await;
    let (refuser, options) = Refuser::before(&sandbox, |query| query.contains("filename:CLAUDE.md")).await;
    let (summary, artifacts) = world.crawl("claude", options.clone()).await;
    assert_eq!(summary.outcome, Outcome::Partial);
    assert!(
        summary.failed.iter().any(|f| f.what.contains("filename:CLAUDE.md") && f.why.contains("422")),
        "{summary:?}"
    );
    assert_eq!(summary.windows.open, 1);
    assert_eq!(refuser.refused.lock().unwrap().len(), 1, "sending it again cannot help");
    assert!(artifacts.iter().any(|artifact| artifact.path == ".claude/commands/plan.md"), "the rest is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_a_term_that_is_rejected_is_asked_with_the_fallback_term() {
    let targets = Targets::embedded().unwrap();
    let target = targets.selected().find(|target| target.id == "cursor/rules").unwrap();
    assert_eq!((target.search.as_str(), target.fallback.as_deref()), ("extension:mdc", Some("description")));
    let world = World::new(|at| {
        write(at, ".cursor/rules/a.mdc", "---\ndescription: one\n---\nUse tabs.\n");
        write(at, "sub/.cursor/rules/b.mdc", "---\ndescription: two\n---\nUse spaces.\n");
    });
    let sandbox = world.serve(unlimited(), Faults::default()).await;
    let refuses = |query: &str| query.starts_with("extension:mdc");
    let (refuser, options) = Refuser::before(&sandbox, refuses).await;
    let (summary, artifacts) = world.crawl("cursor", options).await;
    assert_eq!((summary.outcome, summary.failed, summary.windows.open), (Outcome::Done, Vec::new(), 0));
    let paths: Vec<&str> = artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    assert_eq!(paths, [".cursor/rules/a.mdc", "sub/.cursor/rules/b.mdc"]);
    assert_eq!(refuser.refused.lock().unwrap().len(), 1);
}
