//! From HTTP to the handlers and back: identities, limits, faults, conditional requests, headers.

use super::clock::{http_date, now};
use super::code_search::{self, Recent};
use super::dice::{hash_text, mix};
use super::faults::{Fault, Faults, Kind, Record};
use super::graphql::{self, Budget, Prepared, Price};
use super::limits::{Ledger, Limits, Resource, Standing, Verdict};
use super::reply::{Content, Reply};
use super::repository::{self, owner_json};
use super::request::{Ask, decode, parse_query};
use super::stats::Stats;
use super::view::{Place, View};
use super::world::WorldError;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// Largest request body.
const BODY_MOST: usize = 4 << 20;

/// Everything a running server holds.
pub(crate) struct Server {
    pub(crate) view: RwLock<Arc<View>>,
    pub(crate) limits: Limits,
    pub(crate) faults: Faults,
    pub(crate) seed: u64,
    pub(crate) origin: String,
    ledger: Mutex<Ledger>,
    record: Mutex<Record>,
    stats: Mutex<Stats>,
    recent: Recent,
    requests: AtomicU64,
}

impl Server {
    pub(crate) fn new(view: View, limits: Limits, faults: Faults, seed: u64, origin: String) -> Self {
        Self {
            view: RwLock::new(Arc::new(view)),
            limits,
            faults,
            seed,
            origin,
            ledger: Mutex::default(),
            record: Mutex::default(),
            stats: Mutex::default(),
            recent: Recent::default(),
            requests: AtomicU64::new(0),
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The counters as they stand.
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view();
        let mut stats = lock(&self.stats).clone();
        stats.windows = lock(&self.ledger).windows().map(|(of, uses)| (of.as_str().to_owned(), uses)).collect();
        stats.indexed = view.index.len() as u64;
        stats.repositories = u64::from(view.world.len());
        stats.epoch = view.epoch;
        stats
    }

    /// Let the world move on. False when it is one that does not.
    pub(crate) fn evolve(&self, epochs: u32) -> bool {
        let before = self.view();
        let Some(world) = before.world.later(epochs) else { return false };
        let view = View::new(world, before.seed, before.epoch.saturating_add(epochs));
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        true
    }

    fn clock(&self) -> f64 {
        now() + self.faults.clock_ahead_seconds
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request, read.
struct Call {
    method: Method,
    /// Origin and `/api/v3` if the request came that way.
    base: String,
    /// Path below the base.
    path: String,
    query: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The token; empty for nobody.
    fn identity(&self) -> String {
        let value = self.header("authorization");
        let token = value.split_once(' ').map_or(value, |(_, token)| token);
        token.trim().to_owned()
    }

    /// The same for the same request, whoever sends it.
    fn key(&self) -> u64 {
        let text = format!("{} {}?{}", self.method, self.path, self.query);
        mix(hash_text(0, &text), &[hash_text(1, &String::from_utf8_lossy(&self.body))])
    }

    fn resource(&self) -> Resource {
        match self.path.as_str() {
            "/search/code" => Resource::CodeSearch,
            "/graphql" => Resource::Graphql,
            "/rate_limit" => Resource::Free,
            path if path.starts_with("/search/") => Resource::Search,
            path if path.starts_with("/_sandbox/") => Resource::Free,
            _ => Resource::Core,
        }
    }
}

/// What is known about a request besides its answer.
struct Note {
    resource: Resource,
    outcome: Option<&'static str>,
    standing: Option<Standing>,
    fault: Option<Fault>,
}

/// The entry point for every path.
pub(crate) async fn handle(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let (below, prefix) = match path.strip_prefix("/api/v3") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (rest, "/api/v3"),
        _ => (if path == "/api/graphql" { "/graphql" } else { path }, ""),
    };
    let Ok(body) = to_bytes(body, BODY_MOST).await else {
        let note = Note { resource: Resource::Free, outcome: None, standing: None, fault: None };
        return finish(&server, Reply::error(413, "Request body is too large"), &note, None);
    };
    let call = Call {
        method: parts.method.clone(),
        base: format!("{}{prefix}", server.origin),
        path: below.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
    };
    let identity = call.identity();
    let (mut note, outcome) = admit(&server, &call, &identity);
    let work = match outcome {
        Err(reply) => return finish(&server, reply, &note, None),
        Ok(work) => work,
    };
    // Given back when the answer is ready and also when the client hangs up before.
    let _place = InFlight { server: Arc::clone(&server), identity: identity.clone() };
    delay(&server, &work, note.fault).await;
    let fault = note.fault;
    let etag_of = call.headers.get(header::IF_NONE_MATCH).cloned();
    let standing = note.standing;
    let worker = Arc::clone(&server);
    // Reading a world can block on files and on arithmetic.
    let answer = tokio::task::spawn_blocking(move || answer(&worker, &call, &identity, work, standing, fault)).await;
    let (reply, tag) = match answer {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => {
            note.outcome = Some("error");
            (Reply::error(500, &error.to_string()), None)
        }
        Err(_) => {
            note.outcome = Some("error");
            (Reply::error(500, "Server Error"), None)
        }
    };
    conditional(&server, reply, note, tag, etag_of)
}

struct InFlight {
    server: Arc<Server>,
    identity: String,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.server.ledger).release(&self.identity);
    }
}

/// What an admitted request will do.
enum Work {
    Rest,
    Graphql(Prepared, Price),
}

async fn delay(server: &Server, work: &Work, fault: Option<Fault>) {
    let mut wait = Duration::ZERO;
    if let Work::Graphql(_, price) = work {
        let each = server.limits.graphql_query.milliseconds_per_repository;
        wait += Duration::from_millis(each.saturating_mul(price.repositories as u64));
    }
    if fault == Some(Fault::Slow) {
        wait += Duration::from_secs_f64(server.faults.slow_seconds);
    }
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// Identify, price, count and perhaps refuse.
fn admit(server: &Server, call: &Call, identity: &str) -> (Note, Result<Work, Reply>) {
    let resource = call.resource();
    let mut note = Note { resource, outcome: None, standing: None, fault: None };
    let free = |note: Note, reply: Reply| (Note { resource: Resource::Free, ..note }, Err(reply));
    if server.limits.bad_tokens.iter().any(|bad| bad == identity) && !identity.is_empty() {
        return free(note, Reply::error(401, "Bad credentials"));
    }
    if identity.is_empty() && matches!(resource, Resource::CodeSearch | Resource::Graphql) {
        let message = match resource {
            Resource::CodeSearch => "Requires authentication",
            _ => "This endpoint requires you to be authenticated.",
        };
        return free(note, Reply::error(401, message));
    }
    let limits = &server.limits;
    let mut many = 0.0;
    let work = if resource == Resource::Graphql {
        match read_graphql(server, call) {
            Ok((prepared, price)) => {
                let rules = &limits.graphql_query;
                many = match price.repositories {
                    n if n >= rules.fails_from => 1.0,
                    n if n >= rules.slow_from => rules.slow_rate,
                    _ => 0.0,
                };
                Work::Graphql(prepared, price)
            }
            Err(reply) => return (note, Err(reply)),
        }
    } else {
        Work::Rest
    };
    let cost = match &work {
        Work::Graphql(_, price) => price.points,
        Work::Rest => 1,
    };
    let (verdict, standing) = lock(&server.ledger).admit(limits, server.seed, identity, resource, cost, server.clock());
    note.standing = standing;
    let graphql = resource == Resource::Graphql;
    match verdict {
        Verdict::Admitted => {}
        Verdict::Primary => {
            note.outcome = Some("primary_limit");
            let user = hash_text(0, identity) % 100_000_000;
            let reply = if graphql {
                let message = format!("API rate limit exceeded for user ID {user}.");
                Reply::plain(200, json!({"errors": [{"type": "RATE_LIMITED", "message": message}]}))
            } else {
                Reply::primary_limit(limits.status, user)
            };
            return (note, Err(reply));
        }
        Verdict::Secondary { retry_after } => {
            note.outcome = Some("secondary_limit");
            return (note, Err(Reply::secondary_limit(limits.secondary.status, retry_after)));
        }
    }
    let kind = match resource {
        Resource::Free => return (note, Ok(work)),
        Resource::CodeSearch => Kind::CodeSearch,
        Resource::Graphql => Kind::Graphql,
        Resource::Core | Resource::Search => Kind::Rest,
    };
    note.fault = lock(&server.record).draw(&server.faults, server.seed, call.key(), kind, many);
    {
        let mut stats = lock(&server.stats);
        if let Work::Graphql(_, price) = &work {
            stats.graphql_points += u64::from(price.points);
            stats.graphql_repositories += price.repositories as u64;
        }
    }
    (note, Ok(work))
}

fn read_graphql(server: &Server, call: &Call) -> Result<(Prepared, Price), Reply> {
    if call.method != Method::POST {
        return Err(Reply::not_found());
    }
    let body: Value = serde_json::from_slice(&call.body).map_err(|_| Reply::error(400, "Problems parsing JSON"))?;
    let refuse = |body| Reply::plain(200, body);
    let prepared = graphql::prepare(&body).map_err(refuse)?;
    if prepared.kind() != "query" {
        let error = json!({"type": "FORBIDDEN", "message": "The sandbox is read-only"});
        return Err(refuse(graphql::errors(error)));
    }
    let price = graphql::price(&prepared, server.limits.graphql_query.nodes).map_err(refuse)?;
    Ok((prepared, price))
}

/// The answer and, when it can be asked for conditionally, its tag.
fn answer(
    server: &Server,
    call: &Call,
    identity: &str,
    work: Work,
    standing: Option<Standing>,
    fault: Option<Fault>,
) -> Result<(Reply, Option<String>), WorldError> {
    if let Some(reply) = fault.and_then(|fault| failure(server, fault)) {
        return Ok((reply, None));
    }
    let view = server.view();
    let reply = match work {
        Work::Graphql(prepared, price) => {
            let standing = standing.unwrap_or_else(|| {
                lock(&server.ledger).standing(&server.limits, identity, Resource::Graphql, server.clock())
            });
            let body = graphql::execute(&prepared, &view, &server.faults, Budget { standing, price });
            Reply::plain(200, if fault == Some(Fault::GraphqlPartial) { partial(body) } else { body })
        }
        Work::Rest => {
            let params = parse_query(&call.query);
            let ask = Ask {
                view: &view,
                faults: &server.faults,
                base: &call.base,
                path: &call.path,
                params: &params,
                accept: call.header("accept"),
            };
            route(server, call, identity, &ask, fault)?
        }
    };
    let tag = (reply.tagged && reply.status == 200).then(|| {
        let text = match &reply.body {
            Content::Json(value) => hash_text(0, &value.to_string()),
            Content::Raw(_, bytes) => xxhash_rust::xxh3::xxh3_64(bytes),
        };
        // Tags differ between identities, as GitHub's do.
        format!("\"{:016x}\"", mix(text, &[hash_text(2, identity)]))
    });
    Ok((reply, tag))
}

fn route(
    server: &Server,
    call: &Call,
    identity: &str,
    ask: &Ask<'_>,
    fault: Option<Fault>,
) -> Result<Reply, WorldError> {
    let parts: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
    if let ["_sandbox", rest @ ..] = parts.as_slice() {
        return Ok(control(server, call, rest, ask));
    }
    if call.method != Method::GET && call.method != Method::HEAD {
        return Ok(Reply::not_found());
    }
    match parts.as_slice() {
        ["search", "code"] => code_search::search(ask, &server.recent, fault == Some(Fault::Incomplete)),
        ["rate_limit"] => Ok(rate_limit(server, identity)),
        ["user"] if !identity.is_empty() => Ok(Reply::ok(owner_json(&call.base, "sandbox"))),
        ["user"] => Ok(Reply::error(401, "Requires authentication")),
        ["repos", owner, name, rest @ ..] => {
            repository::serve(ask, ask.view.find(ask.faults, &decode(owner), &decode(name)), rest)
        }
        ["repositories", id, rest @ ..] => {
            let place = id.parse().map_or(Place::Missing, |id| ask.view.find_id(ask.faults, id));
            repository::serve(ask, place, rest)
        }
        _ => Ok(Reply::not_found()),
    }
}

/// `/_sandbox/…`: what tests steer and read.
fn control(server: &Server, call: &Call, rest: &[&str], ask: &Ask<'_>) -> Reply {
    match (call.method.as_str(), rest) {
        ("GET", ["stats"]) => match serde_json::to_value(server.stats()) {
            Ok(stats) => Reply::plain(200, stats),
            Err(error) => Reply::error(500, &error.to_string()),
        },
        ("POST", ["evolve"]) => {
            let epochs = ask.param("epochs").map_or(Ok(1), str::parse::<u32>);
            match epochs {
                Err(_) => Reply::error(422, "epochs must be a whole number"),
                Ok(epochs) if server.evolve(epochs) => Reply::plain(200, json!({"epoch": server.view().epoch})),
                Ok(_) => Reply::error(
                    409,
                    "Only a generated corpus can move on (`aac sandbox serve --synthetic N`): real repositories stay as they are",
                ),
            }
        }
        _ => Reply::not_found(),
    }
}

fn rate_limit(server: &Server, identity: &str) -> Reply {
    let ledger = lock(&server.ledger);
    let now = server.clock();
    let show = |resource| {
        let mut standing = ledger.standing(&server.limits, identity, resource, now);
        if server.limits.rate_limit_lags {
            standing.reset += 30.0;
            standing.used = standing.used.saturating_sub(1);
        }
        json!({
            "limit": standing.limit,
            "used": standing.used,
            "remaining": standing.remaining(),
            "reset": standing.reset.ceil() as u64,
        })
    };
    let core = show(Resource::Core);
    Reply::plain(
        200,
        json!({
            "resources": {
                "core": core,
                "search": show(Resource::Search),
                "code_search": show(Resource::CodeSearch),
                "graphql": show(Resource::Graphql),
            },
            "rate": core,
        }),
    )
}

/// The answer of a fault that replaces the real one.
fn failure(server: &Server, fault: Fault) -> Option<Reply> {
    const PAGE: &str =
        "<html><head><title>Unicorn!</title></head><body>This page is taking too long to load.</body></html>";
    let html = |status| Some(Reply::page(status, "text/html; charset=utf-8", PAGE));
    match fault {
        Fault::SearchTimeout => Some(Reply::error(408, "This query timed out. Please try again.")),
        Fault::Internal => Some(Reply::error(500, "Server Error")),
        Fault::BadGateway | Fault::GraphqlTooMany => html(502),
        Fault::Unavailable => Some(Reply::error(503, "Service Unavailable")),
        Fault::GatewayTimeout => html(504),
        Fault::SecondaryWithoutHint => Some(Reply::secondary_limit(server.limits.secondary.status, None)),
        Fault::GraphqlRateLimited => Some(Reply::plain(
            200,
            json!({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user."}]}),
        )),
        Fault::Truncated | Fault::Dropped | Fault::Slow | Fault::Incomplete | Fault::GraphqlPartial => None,
    }
}

/// The second half of the repositories without data, as when a query ran out of resources.
fn partial(mut body: Value) -> Value {
    if let Some(data) = body.get_mut("data").and_then(Value::as_object_mut) {
        let keys: Vec<String> = data.keys().filter(|key| *key != "rateLimit").cloned().collect();
        for key in keys.iter().skip(keys.len() / 2) {
            data.insert(key.clone(), Value::Null);
        }
    }
    let error = json!({
        "type": "RESOURCE_LIMITS_EXCEEDED",
        "message": "Resource limits for this query exceeded.",
    });
    match body.get_mut("errors").and_then(Value::as_array_mut) {
        Some(errors) => errors.push(error),
        None => body["errors"] = json!([error]),
    }
    body
}

/// 304 when the client holds the answer already; authorised ones cost nothing.
fn conditional(
    server: &Server,
    mut reply: Reply,
    mut note: Note,
    tag: Option<String>,
    held: Option<HeaderValue>,
) -> Response {
    let matches = |tag: &str| {
        let held = held.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
        held == "*" || held.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
    };
    if let Some(tag) = &tag
        && matches(tag)
    {
        reply = Reply::page(304, "", "");
        note.outcome = Some("not_modified");
    }
    finish(server, reply, &note, tag)
}

/// Headers, counters, and the faults that befall a finished answer.
fn finish(server: &Server, reply: Reply, note: &Note, tag: Option<String>) -> Response {
    let (media, mut bytes) = match reply.body {
        Content::Json(value) => ("application/json; charset=utf-8", value.to_string().into_bytes()),
        Content::Raw(media, bytes) => (media, bytes),
    };
    let broken = matches!(note.fault, Some(Fault::Truncated | Fault::Dropped));
    if note.fault == Some(Fault::Truncated) {
        bytes.truncate(bytes.len() / 2);
    }
    let outcome = note.outcome.unwrap_or(match (note.fault, reply.status) {
        (Some(fault), _) if fault != Fault::Slow => "fault",
        (_, 200..300) => "ok",
        (_, 300..400) => "redirect",
        (_, 400..500) => "refused",
        _ => "error",
    });
    {
        let mut stats = lock(&server.stats);
        stats.note(note.resource.as_str(), outcome);
        stats.bytes_sent += bytes.len() as u64;
    }
    let length = bytes.len();
    let body = if note.fault == Some(Fault::Dropped) {
        let half = Bytes::from(bytes).slice(..length / 2);
        let parts = [Ok(half), Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))];
        Body::from_stream(futures_util::stream::iter(parts))
    } else {
        Body::from(bytes)
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    if !media.is_empty() {
        set("content-type", media.to_owned());
    }
    let number = server.requests.fetch_add(1, Ordering::Relaxed);
    set("x-github-request-id", format!("{:016X}", mix(server.seed, &[number])));
    set("x-github-media-type", "github.v3; format=json".to_owned());
    if let Some(date) = http_date(server.clock()) {
        set("date", date);
    }
    // Counted like any other request, so that `remaining` is right, and yet the limit does not name itself.
    let hidden = note.fault == Some(Fault::SecondaryWithoutHint);
    if let Some(standing) = note.standing.filter(|_| !hidden) {
        set("x-ratelimit-limit", standing.limit.to_string());
        set("x-ratelimit-remaining", standing.remaining().to_string());
        set("x-ratelimit-used", standing.used.to_string());
        set("x-ratelimit-reset", (standing.reset.ceil() as u64).to_string());
        set("x-ratelimit-resource", note.resource.as_str().to_owned());
    }
    if let Some(tag) = tag.filter(|_| !broken) {
        set("etag", tag);
        set("cache-control", "private, max-age=60, s-maxage=60".to_owned());
    }
    for (name, value) in reply.headers {
        set(name, value);
    }
    response
}
