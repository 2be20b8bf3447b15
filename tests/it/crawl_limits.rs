//! What a crawl asks for, when, and as whom: full queries, contents beside the search, a server that goes away, tokens
//! that expire.

use crate::crawl::{client, corpus, plain, sandbox, store, targets, unlimited};
use aac::github::{Credentials, Endpoints, GitHub, Options};
use aac::job::crawl::{CrawlOptions, CrawlSummary, crawl};
use aac::monitor::Silent;
use aac::sandbox::{Faults, Limits, Running, SandboxOptions, Source, serve};
use aac::store::Store;
use aac::taxonomy::Outcome;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

async fn run(store: &Store, options: Options) -> CrawlSummary {
    let github = GitHub::new(options).unwrap();
    let forks = CrawlOptions { forks: true, ..CrawlOptions::default() };
    crawl(store, &github, &targets(), &forks, &Silent::default()).await.unwrap()
}

/// Stands between the client and the sandbox.
#[derive(Clone)]
struct Gate {
    behind: String,
    http: reqwest::Client,
    state: Arc<GateState>,
}

#[derive(Default)]
struct GateState {
    searches: AtomicU64,
    queries: AtomicU64,
    /// Searches after so many are answered only once a GraphQL query came.
    held_from: u64,
    came: Notify,
    /// Tokens of the app, in the order they were issued, and how long each says it lasts.
    tokens: Mutex<Vec<String>>,
    lasts_seconds: i64,
    /// Requests with a token that is none of the last ones issued.
    stale: AtomicU64,
}

impl Gate {
    async fn before(sandbox: &Running, state: GateState) -> (Self, Options) {
        // A client of ours chooses the TLS provider of the process, which reqwest's needs.
        GitHub::new(client(sandbox)).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let this = Self { behind: sandbox.url(), http, state: Arc::new(state) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(pass).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (this, Options { endpoints: Endpoints::new(&url, None).unwrap(), ..client(sandbox) })
    }
}

/// Requests that may be under way while newer tokens are issued.
const LANES: usize = 16;

async fn pass(State(gate): State<Gate>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let state = &gate.state;
    let path = parts.uri.path();
    if path.starts_with("/app/installations/") {
        let mut tokens = state.tokens.lock().unwrap();
        let token = format!("ghs_{}", tokens.len());
        tokens.push(token.clone());
        let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(state.lasts_seconds);
        let body = json!({ "token": token, "expires_at": format!("{expires:.0}"), "permissions": {} });
        return Response::builder().status(201).body(Body::from(body.to_string())).unwrap();
    }
    let authorization = parts.headers["authorization"].to_str().unwrap();
    let token = authorization.split_once(' ').unwrap().1;
    if token.starts_with("ghs_") {
        let tokens = state.tokens.lock().unwrap();
        // Tokens that expire at once are good for the requests they were issued for.
        let good = if state.lasts_seconds < 60 { &tokens[tokens.len().saturating_sub(LANES)..] } else { &tokens[..] };
        if !good.iter().any(|issued| issued == token) {
            state.stale.fetch_add(1, Ordering::Relaxed);
            return Response::builder().status(401).body(Body::from(r#"{"message":"Bad credentials"}"#)).unwrap();
        }
    }
    match path {
        "/search/code" if state.searches.fetch_add(1, Ordering::SeqCst) >= state.held_from => {
            while state.queries.load(Ordering::SeqCst) == 0 {
                state.came.notified().await;
            }
        }
        "/graphql" => {
            state.queries.fetch_add(1, Ordering::SeqCst);
            state.came.notify_waiters();
            state.came.notify_one();
        }
        _ => {}
    }
    let asked = parts.uri.path_and_query().unwrap().as_str();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let request = gate.http.request(parts.method, format!("{}{asked}", gate.behind));
    let answer = request.header("authorization", "Bearer sandbox").body(body).send().await.unwrap();
    Response::builder().status(answer.status()).body(Body::from(answer.bytes().await.unwrap())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_are_read_while_the_search_goes_on() {
    let behind = sandbox(unlimited(), Faults::default()).await;
    // Without a query for contents beside it, the search would wait for ever.
    let (gate, options) = Gate::before(&behind, GateState { held_from: 12, ..GateState::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let crawled = tokio::time::timeout(std::time::Duration::from_secs(300), run(&store, options));
    let summary = crawled.await.expect("contents wait for the search");
    assert_eq!((summary.outcome, summary.failed), (Outcome::Done, Vec::new()));
    assert!(gate.state.searches.load(Ordering::SeqCst) > 12);
    assert_eq!(corpus(&store).await, plain().await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_filled_to_95_of_100() {
    let options = SandboxOptions { limits: unlimited(), seed: 7, ..SandboxOptions::new(Source::Synthetic(3_000)) };
    let sandbox = serve(options).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let summary = run(&store, client(&sandbox)).await;
    assert_eq!((summary.outcome, summary.failed), (Outcome::Done, Vec::new()));
    let (content, history) = (summary.batches.content, summary.batches.history);
    assert!(content.share() >= 0.95 && history.share() >= 0.95, "{content:?} {history:?}");
    assert_eq!(content.queries + history.queries, summary.requests.graphql, "nothing had to be asked again");
    assert!(content.queries > 20, "{content:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_pauses_the_crawl_and_nothing_is_lost_or_failed_singly() {
    let first = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let begun = run(&store, Options { max_requests: Some(40), ..client(&first) }).await;
    assert_eq!(begun.outcome, Outcome::Paused);
    let options = client(&first);
    let port = first.url().rsplit_once(':').unwrap().1.parse().unwrap();
    first.shutdown().await.unwrap();

    let away = run(&store, options.clone()).await;
    assert_eq!((away.outcome, away.failed), (Outcome::Paused, Vec::new()));
    assert!(away.paused.as_ref().unwrap().contains("no connection to 127.0.0.1"), "{:?}", away.paused);
    assert_eq!((away.hits, away.artifacts), (begun.hits, begun.artifacts));

    let back = SandboxOptions { limits: unlimited(), seed: 7, port, ..SandboxOptions::new(Source::Synthetic(600)) };
    let back = serve(back).await.unwrap();
    let done = run(&store, options).await;
    assert_eq!(done.outcome, Outcome::Done);
    assert_eq!(corpus(&store).await, plain().await.0);
    drop(back);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_an_app_is_renewed_before_it_expires_and_kept_until_then() {
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/github/app.pem");
    let credentials = Credentials::read(|name| {
        let value = match name {
            "GITHUB_APP_ID" => "1",
            "GITHUB_APP_INSTALLATION" => "7",
            "GITHUB_APP_KEY_FILE" => key,
            _ => return None,
        };
        Some(value.to_owned())
    })
    .unwrap();
    let whole = plain().await.0;
    // Shorter than any request may take: no request may rely on the one before. Or an hour, as GitHub's.
    for lasts_seconds in [20, 3_600] {
        let behind = sandbox(unlimited(), Faults::default()).await;
        let state = GateState { held_from: u64::MAX, lasts_seconds, ..GateState::default() };
        let (gate, options) = Gate::before(&behind, state).await;
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let summary = run(&store, Options { credentials: credentials.clone(), ..options }).await;
        assert_eq!((summary.outcome, summary.failed), (Outcome::Done, Vec::new()));
        assert_eq!(corpus(&store).await, whole);
        assert_eq!(gate.state.stale.load(Ordering::Relaxed), 0, "a token that had expired was used");
        let issued = gate.state.tokens.lock().unwrap().len() as u64;
        let asked = summary.requests.code_search + summary.requests.graphql + summary.requests.core;
        if lasts_seconds < 60 {
            assert_eq!(issued, asked);
        } else {
            assert!(issued <= LANES as u64, "{issued} tokens for {asked} requests");
        }
    }
}

#[tokio::test]
async fn no_graphql_point_is_asked_for_that_the_window_does_not_have() {
    // Histories cost more than a point each; the last of a window must not be spent on one that needs two. One window for
    // all: a request on its way from one to the next would be counted by whichever the machine's load decides.
    let limits = Limits::default().scaled(0.01);
    let limits = Limits { graphql: aac::sandbox::Bucket { limit: 25, window_seconds: 3600.0 }, ..limits };
    let sandbox = sandbox(limits, Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let mut options = client(&sandbox);
    options.limits.graphql =
        aac::github::Allowance { requests: Some(25), window: std::time::Duration::from_secs(3600) };
    options.deadline = Some(jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30));
    let summary = run(&store, options).await;
    assert_eq!(summary.outcome, Outcome::Paused, "{summary:?}");
    assert_eq!(sandbox.stats().count("graphql", "primary_limit"), 0, "{summary:?}");
    let points = sandbox.stats().graphql_points;
    assert!((24..=25).contains(&points), "{points} of 25");
}
