//! The GitHub client against a server that answers as scripted.

use aac::github::{
    Absence, Content, Credentials, Endpoints, Error, GitHub, Options, Policy, RepositoryAsk, Token, blob, content,
    search_code,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Answer = (u16, Vec<(&'static str, String)>, String);

/// Answers in order, the last one again and again; keeps what was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    authorization: String,
    body: String,
    at: std::time::Instant,
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let header = |name: &str| parts.headers.get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    script.asked.lock().unwrap().push(Asked {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        authorization: header("authorization"),
        body: String::from_utf8(body.to_vec()).unwrap(),
        at: std::time::Instant::now(),
    });
    let mut answers = script.answers.lock().unwrap();
    let (status, headers, body) =
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers.front().unwrap().clone() };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}

async fn serve(answers: Vec<Answer>) -> (Script, String) {
    let script = Script { answers: Arc::new(Mutex::new(answers.into())), ..Script::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(answer).with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (script, format!("http://{address}"))
}

fn options(url: &str) -> Options {
    let mut options =
        Options::new(Endpoints::new(url, None).unwrap(), Credentials::Token(Token::new("secret-of-mine")));
    options.policy = Policy {
        secondary_wait: Duration::from_millis(40),
        secondary_wait_max: Duration::from_millis(200),
        secondary_tries: 3,
        transient_wait: Duration::from_millis(5),
        transient_wait_max: Duration::from_millis(20),
        transient_tries: 3,
        ..Policy::default()
    };
    options.limits.code_search.window = Duration::from_millis(500);
    options
}

fn page(total: u64) -> Answer {
    let item = json!({
        "path": "a b/CLAUDE.md",
        "sha": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "url": "https://api.github.com/repositories/1/contents/CLAUDE.md?ref=4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "repository": { "full_name": "Owner/Name", "node_id": "R_1", "fork": false },
    });
    (200, Vec::new(), json!({ "total_count": total, "incomplete_results": false, "items": [item] }).to_string())
}

fn message(status: u16, text: &str) -> Answer {
    (status, Vec::new(), json!({ "message": text }).to_string())
}

#[tokio::test]
async fn a_search_page_is_read_and_the_token_goes_only_into_its_header() {
    let (script, url) = serve(vec![page(7)]).await;
    let github = GitHub::new(options(&url)).unwrap();
    let found = search_code(&github, "filename:CLAUDE.md size:11", 1).await.unwrap();
    assert_eq!((found.total, found.files.len()), (7, 1));
    let file = &found.files[0];
    assert_eq!((file.repository.to_string().as_str(), file.path.as_str()), ("Owner/Name", "a b/CLAUDE.md"));
    assert_eq!(file.commit.unwrap().to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    let asked = script.asked.lock().unwrap().clone();
    assert_eq!(asked[0].authorization, "Bearer secret-of-mine");
    assert_eq!(asked[0].path, "/search/code?q=filename%3ACLAUDE.md%20size%3A11&per_page=100&page=1");
    let shown = format!("{github:?} {:?} {}", github.options(), github.identity());
    assert!(!shown.contains("secret-of-mine"), "{shown}");
}

#[tokio::test]
async fn an_enterprise_server_has_its_graphql_interface_beside_the_rest_one() {
    let (script, url) = serve(vec![(200, Vec::new(), json!({ "data": { "r0": null } }).to_string())]).await;
    let github = GitHub::new(options(&format!("{url}/api/v3"))).unwrap();
    let ask = RepositoryAsk {
        repository: "a/b".parse().unwrap(),
        blobs: Vec::new(),
        trees: Vec::new(),
        paths: vec!["docs/\"é\".md".to_owned()],
    };
    assert_eq!(content(&github, &[ask]).await.unwrap(), [Some(Err(Absence::NotFound))]);
    let asked = script.asked.lock().unwrap().clone();
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("POST", "/api/graphql"));
    let body: Value = serde_json::from_str(&asked[0].body).unwrap();
    let query = body["query"].as_str().unwrap();
    assert!(query.contains(r#"object(expression: "HEAD:docs/\"é\".md")"#), "{query}");
}

#[tokio::test]
async fn refused_credentials_name_the_variable_to_set() {
    let (_, url) = serve(vec![message(401, "Bad credentials")]).await;
    let error = search_code(&GitHub::new(options(&url)).unwrap(), "x", 1).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("GITHUB_TOKEN") && text.contains("GH_TOKEN") && error.stops_the_job(), "{text}");
}

#[tokio::test]
async fn everything_that_passes_is_waited_for_and_then_answered() {
    let limited = |status: u16, pairs: &[(&'static str, &str)], text: &str| {
        let headers = pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        (status, headers, json!({ "message": text }).to_string())
    };
    let (script, url) = serve(vec![
        message(408, "too slow"),
        message(502, "bad gateway"),
        (200, Vec::new(), "{\"total_count\": 1, \"ite".to_owned()),
        message(403, "You have exceeded a secondary rate limit"),
        limited(429, &[("retry-after", "0")], "You have exceeded a secondary rate limit"),
        limited(
            403,
            &[("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")],
            "API rate limit exceeded",
        ),
        page(1),
    ])
    .await;
    let github = GitHub::new(options(&url)).unwrap();
    assert_eq!(search_code(&github, "x", 1).await.unwrap().total, 1);
    let traffic = github.traffic();
    assert_eq!(traffic.code_search, 7);
    assert_eq!((traffic.limited_primary, traffic.limited_secondary), (1, 2));
    let asked = script.asked.lock().unwrap().clone();
    assert!(asked[4].at - asked[3].at >= Duration::from_millis(40), "the hold is kept");
}

#[tokio::test]
async fn refusals_without_end_pause_and_say_until_when() {
    let (script, url) = serve(vec![message(403, "You have exceeded a secondary rate limit")]).await;
    let error = search_code(&GitHub::new(options(&url)).unwrap(), "x", 1).await.unwrap_err();
    assert!(matches!(error, Error::Paused { until: Some(_), .. }), "{error}");
    assert_eq!(script.asked.lock().unwrap().len(), 4, "three tries after the first refusal");
}

#[tokio::test]
async fn failures_without_end_are_given_up() {
    let (script, url) = serve(vec![message(500, "oops")]).await;
    let error = search_code(&GitHub::new(options(&url)).unwrap(), "x", 1).await.unwrap_err();
    assert!(matches!(error, Error::Exhausted { tries: 4, status: Some(500), .. }), "{error:?}");
    assert_eq!(script.asked.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_budget_of_requests_is_kept_to_the_last_one() {
    let (script, url) = serve(vec![page(1)]).await;
    let github = GitHub::new(Options { max_requests: Some(2), ..options(&url) }).unwrap();
    for n in 1..=2 {
        search_code(&github, "x", n).await.unwrap();
    }
    let error = search_code(&github, "x", 3).await.unwrap_err();
    assert!(matches!(error, Error::Paused { .. }), "{error}");
    assert_eq!(script.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_pauses_the_work() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = search_code(&GitHub::new(options(&url)).unwrap(), "x", 1).await.unwrap_err();
    assert!(matches!(&error, Error::Paused { why, .. } if why.contains("no connection to 127.0.0.1")), "{error:?}");
    assert!(error.stops_the_job());
}

#[tokio::test]
async fn a_rejected_query_keeps_githubs_words() {
    let (_, url) = serve(vec![message(422, "ERROR_TYPE_QUERY_PARSING_FATAL unable to parse query!")]).await;
    let error = search_code(&GitHub::new(options(&url)).unwrap(), "(", 1).await.unwrap_err();
    assert!(matches!(&error, Error::Rejected { status: 422, message, .. } if message.contains("parse")), "{error}");
}

#[tokio::test]
async fn cut_text_is_not_taken_for_the_blob_and_the_whole_one_is_checked_against_its_id() {
    use aac::corpus::GitOid;
    let whole = "x".repeat(600_000);
    let oid = GitOid::of_blob(whole.as_bytes());
    let cut = json!({ "data": { "r0": { "id": "R", "b0": {
        "oid": oid.to_string(), "byteSize": 600_000, "isBinary": null, "isTruncated": true,
        "text": "x".repeat(512_000),
    } } } });
    let packed = json!({ "encoding": "utf-8", "content": whole });
    let wrong = json!({ "encoding": "utf-8", "content": "y" });
    let (_, url) = serve(vec![
        (200, Vec::new(), cut.to_string()),
        (200, Vec::new(), packed.to_string()),
        (200, Vec::new(), wrong.to_string()),
    ])
    .await;
    let github = GitHub::new(options(&url)).unwrap();
    let repository: aac::corpus::Slug = "a/b".parse().unwrap();
    let ask = RepositoryAsk { repository: repository.clone(), blobs: vec![oid], trees: Vec::new(), paths: Vec::new() };
    let answers = content(&github, &[ask]).await.unwrap();
    let Some(Ok(answer)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(answer.blobs, [Content::Elsewhere { oid, size: 600_000, binary: false }]);
    assert_eq!(blob(&github, &repository, oid).await.unwrap().len(), 600_000);
    assert!(matches!(blob(&github, &repository, oid).await.unwrap_err(), Error::Malformed { .. }));
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_told_from_one_that_was_not_answered() {
    let errors = json!([{ "type": "NOT_FOUND", "path": ["r0"], "message": "Could not resolve" },
        { "type": "RESOURCE_LIMITS_EXCEEDED", "message": "too much" }]);
    let body = json!({ "data": { "r0": null, "r1": null, "r2": { "id": "R" } }, "errors": errors });
    let (_, url) = serve(vec![(200, Vec::new(), body.to_string())]).await;
    let github = GitHub::new(options(&url)).unwrap();
    let ask = |slug: &str| RepositoryAsk {
        repository: slug.parse().unwrap(),
        blobs: Vec::new(),
        trees: Vec::new(),
        paths: Vec::new(),
    };
    let answers = content(&github, &[ask("a/a"), ask("b/b"), ask("c/c")]).await.unwrap();
    assert_eq!(answers[0], Some(Err(Absence::NotFound)));
    assert_eq!(answers[1], None);
    assert!(matches!(answers[2], Some(Ok(_))));
}

#[tokio::test]
async fn answers_that_leave_out_what_is_not_needed_are_understood() {
    let ask = RepositoryAsk {
        repository: "a/b".parse().unwrap(),
        blobs: Vec::new(),
        trees: vec![String::new()],
        paths: Vec::new(),
    };
    let bare = json!({ "data": { "r0": null }, "errors": [{ "message": "Could not resolve to a Repository" }] });
    let entries = json!([
        { "name": "odd", "mode": null, "oid": "?" },
        { "name": "CLAUDE.md", "mode": 33188, "oid": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" },
    ]);
    let listing = json!({ "data": { "r0": { "t0": { "entries": entries } } } });
    let hit = json!({
        "path": "CLAUDE.md", "sha": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "repository": { "full_name": "a/b", "node_id": null },
    });
    let page = json!({ "total_count": 2, "incomplete_results": null, "items": [hit, { "path": "no repository" }] });
    let answer = |value: &Value| (200, Vec::new(), value.to_string());
    let (_, url) = serve(vec![answer(&bare), answer(&listing), answer(&page)]).await;
    let github = GitHub::new(options(&url)).unwrap();
    assert_eq!(content(&github, std::slice::from_ref(&ask)).await.unwrap(), [Some(Err(Absence::NotFound))]);
    let answers = content(&github, &[ask]).await.unwrap();
    let Some(Ok(answer)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(answer.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["CLAUDE.md"]);
    let found = search_code(&github, "x", 1).await.unwrap();
    assert_eq!((found.total, found.incomplete, found.files.len(), found.unreadable.len()), (2, false, 1, 1));
    assert_eq!((&found.files[0].node_id, found.files[0].commit), (&None, None));
}

#[tokio::test]
async fn ten_requests_at_once_keep_to_the_quota_of_the_window() {
    // The server says 4 a window of half a second; twelve requests at once take three windows and none is refused.
    #[derive(Clone, Default)]
    struct Window(Arc<Mutex<(Option<std::time::Instant>, u32, u32)>>);
    async fn limited(State(window): State<Window>) -> Response {
        let mut state = window.0.lock().unwrap();
        let now = std::time::Instant::now();
        if state.0.is_none_or(|start| now - start >= Duration::from_millis(500)) {
            *state = (Some(now), 0, state.2);
        }
        state.1 += 1;
        let left = Duration::from_millis(500) - (now - state.0.unwrap());
        let reset = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap() + left;
        let response = Response::builder()
            .header("x-ratelimit-limit", "4")
            .header("x-ratelimit-remaining", 4u32.saturating_sub(state.1).to_string())
            .header("x-ratelimit-reset", format!("{:.3}", reset.as_secs_f64()));
        if state.1 > 4 {
            state.2 += 1;
            let body = json!({ "message": "API rate limit exceeded" }).to_string();
            return response.status(403).body(Body::from(body)).unwrap();
        }
        response.body(Body::from(page(1).2)).unwrap()
    }
    let window = Window::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(limited).with_state(window.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut options = options(&url);
    options.limits.code_search.requests = Some(4);
    let github = GitHub::new(options).unwrap();
    let asks = (1..=12).map(|n| {
        let github = github.clone();
        tokio::spawn(async move { search_code(&github, "x", n).await.unwrap().total })
    });
    for ask in asks.collect::<Vec<_>>() {
        assert_eq!(ask.await.unwrap(), 1);
    }
    assert_eq!(window.0.lock().unwrap().2, 0, "refused by the server");
    assert_eq!(github.traffic().code_search, 12);
}
