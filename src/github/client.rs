//! Sends requests, one way for all: ask the ledger, keep the pace, send, read the answer, do what [`next_step`] says.
//! All waiting is done here.

use super::ledger::{Ledger, Limits, Permit, Verdict, Wait};
use super::limit::{Body, Exchange, Limit, LimitHeaders, Policy, Resource, Step, Tries, later, next_step};
use super::transport::{Endpoints, GRAPHQL, Transport, chain, is_away};
use super::{Credentials, Error, LedgerRow};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use octocrab::{Octocrab, OctocrabBuilder};
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};

/// How to reach GitHub, and how far to go.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it is.
    pub endpoints: Endpoints,
    /// Who asks.
    pub credentials: Credentials,
    /// The quotas.
    pub limits: Limits,
    /// Waits and bounds.
    pub policy: Policy,
    /// The longest that one exchange may take.
    pub timeout: Duration,
    /// Send no more than this many requests, of all kinds together.
    pub max_requests: Option<u64>,
    /// Send nothing after this time, nor wait beyond it.
    pub deadline: Option<Timestamp>,
}

impl Options {
    /// The defaults for `credentials` at `endpoints`.
    pub fn new(endpoints: Endpoints, credentials: Credentials) -> Self {
        Self {
            endpoints,
            credentials,
            limits: Limits::default(),
            policy: Policy::default(),
            timeout: Duration::from_secs(60),
            max_requests: None,
            deadline: None,
        }
    }
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traffic {
    /// Code-search requests, refused ones included.
    pub code_search: u64,
    /// GraphQL queries.
    pub graphql: u64,
    /// Other REST requests.
    pub core: u64,
    /// Answers that refused because the quota was used up.
    pub limited_primary: u64,
    /// Answers that refused for speed.
    pub limited_secondary: u64,
    /// Time during which at least one request waited, in seconds.
    pub waited_seconds: f64,
}

impl Traffic {
    /// Requests of all kinds.
    pub const fn requests(&self) -> u64 {
        self.code_search + self.graphql + self.core
    }
}

/// One GitHub identity. Clones share the ledger and the connection pool.
#[derive(Clone)]
pub struct GitHub {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for GitHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GitHub({})", self.inner.options.endpoints.host())
    }
}

struct Inner {
    octocrab: Octocrab,
    options: Options,
    ledger: Mutex<Ledger>,
    /// Told whenever an answer came, for those who wait for one.
    answered: Notify,
    slots: Semaphore,
    pace: [Option<DefaultDirectRateLimiter>; 3],
    sent: [AtomicU64; 3],
    primary: AtomicU64,
    secondary: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    sleepers: u32,
    since: Option<Instant>,
    total: Duration,
}

/// A request.
pub(super) struct Ask {
    pub(super) resource: Resource,
    /// How often it counts: points for GraphQL, 1 otherwise.
    pub(super) cost: u32,
    /// Path and query, relative to the interface.
    pub(super) path: String,
    /// Ask only for what is other than the answer with this tag.
    pub(super) etag: Option<String>,
    /// The GraphQL query; a request with one is a POST.
    pub(super) query: Option<String>,
    /// True when it can be asked in smaller parts.
    pub(super) divisible: bool,
    /// For people.
    pub(super) what: String,
}

impl GitHub {
    /// Connect. Nothing is sent yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Setup`] when no client can be built from the environment (proxy, certificates) or the credentials.
    pub fn new(options: Options) -> Result<Self, Error> {
        let transport = Transport::new(options.endpoints.clone(), options.timeout)?;
        let octocrab = options.credentials.sign_in(OctocrabBuilder::new_empty().with_service(transport))?;
        let rest = options.limits.rest_per_minute;
        let inner = Inner {
            octocrab,
            ledger: Mutex::new(Ledger::new(&options.limits)),
            answered: Notify::new(),
            slots: Semaphore::new(options.limits.in_flight.clamp(1, 100)),
            pace: [pace(rest), pace(options.limits.graphql_per_minute), pace(rest)],
            sent: [const { AtomicU64::new(0) }; 3],
            primary: AtomicU64::new(0),
            secondary: AtomicU64::new(0),
            waiting: Mutex::default(),
            options,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The name under which the ledger of this identity is stored.
    pub fn identity(&self) -> String {
        let options = &self.inner.options;
        options.credentials.identity(&options.endpoints.host())
    }

    /// Take over the ledger of an earlier process.
    pub fn restore_ledger(&self, rows: &[LedgerRow]) {
        lock(&self.inner.ledger).restore(rows);
    }

    /// The ledger, to be stored.
    pub fn ledger_rows(&self) -> Vec<LedgerRow> {
        lock(&self.inner.ledger).rows()
    }

    /// What is left of `resource` in the present window, where the limit is known.
    pub fn remaining(&self, resource: Resource) -> Option<u32> {
        lock(&self.inner.ledger).remaining(resource, Timestamp::now())
    }

    /// What this client has sent so far.
    pub fn traffic(&self) -> Traffic {
        let sent = |resource: Resource| self.inner.sent[resource as usize].load(Ordering::Relaxed);
        let waiting = lock(&self.inner.waiting);
        let waited = waiting.total + waiting.since.map(|since| since.elapsed()).unwrap_or_default();
        Traffic {
            code_search: sent(Resource::CodeSearch),
            graphql: sent(Resource::Graphql),
            core: sent(Resource::Core),
            limited_primary: self.inner.primary.load(Ordering::Relaxed),
            limited_secondary: self.inner.secondary.load(Ordering::Relaxed),
            waited_seconds: waited.as_secs_f64(),
        }
    }

    pub(super) async fn get(&self, resource: Resource, path: String, what: String) -> Result<Value, Error> {
        let came = self.ask(Ask { resource, cost: 1, path, etag: None, query: None, divisible: false, what }).await?;
        Ok(came.json.unwrap_or(Value::Null))
    }

    /// A conditional request: the answer and its tag, or nothing when it is still the one with the tag `etag`.
    pub(super) async fn get_unless(
        &self,
        resource: Resource,
        path: String,
        etag: Option<&str>,
        what: String,
    ) -> Result<Option<(Value, Option<String>)>, Error> {
        let etag = etag.map(str::to_owned);
        let came = self.ask(Ask { resource, cost: 1, path, etag, query: None, divisible: false, what }).await?;
        if came.status == Some(304) {
            return Ok(None);
        }
        let tag = came.headers.get(http::header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        Ok(Some((came.json.unwrap_or(Value::Null), tag)))
    }

    /// Ask a GraphQL query that counts `cost` points.
    pub(super) async fn graphql(
        &self,
        query: String,
        cost: u32,
        divisible: bool,
        what: String,
    ) -> Result<Value, Error> {
        let (resource, path) = (Resource::Graphql, GRAPHQL.to_owned());
        let came = self.ask(Ask { resource, cost, path, etag: None, query: Some(query), divisible, what }).await?;
        Ok(came.json.unwrap_or(Value::Null))
    }

    async fn ask(&self, ask: Ask) -> Result<Came, Error> {
        let inner = &*self.inner;
        let mut transient = 0;
        loop {
            let slot = inner.slots.acquire().await;
            let permit = self.permit(&ask).await?;
            let came = self.send(&ask).await;
            drop(slot);
            let now = Timestamp::now();
            let limits = LimitHeaders::read(&came.headers, now);
            let (tries, window) = {
                let ledger = lock(&inner.ledger);
                (Tries { transient, ..ledger.tries(permit.permit) }, ledger.window(ask.resource))
            };
            let exchange = Exchange {
                status: came.status,
                limits,
                body: came.body(),
                graphql: ask.query.is_some(),
                divisible: ask.divisible,
            };
            let step = next_step(&exchange, now, tries, window, &inner.options.policy);
            let verdict = match &step {
                Step::Hold { until, limit, .. } => Verdict::Held(*limit, *until),
                Step::Pause { until, .. } => Verdict::Held(Limit::Secondary, *until),
                _ if came.status.is_none() => Verdict::Lost,
                _ => Verdict::Answered,
            };
            permit.answered(&limits, verdict, now);
            match step {
                Step::Proceed => return Ok(came),
                Step::Retry { at, why } => {
                    tracing::debug!(what = ask.what, why, "sending again");
                    transient += 1;
                    self.sleep(&ask, at, &why).await?;
                }
                Step::Hold { until, limit, why } => {
                    let (count, name) = match limit {
                        Limit::Primary => (&inner.primary, "primary"),
                        Limit::Secondary => (&inner.secondary, "secondary"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(what = ask.what, %until, why, "{name} limit");
                }
                Step::Pause { until, why } => {
                    inner.secondary.fetch_add(1, Ordering::Relaxed);
                    return Err(Error::Paused { what: ask.what, why, until: Some(until) });
                }
                Step::Away { why } => {
                    let host = inner.options.endpoints.host();
                    let why = format!("no connection to {host} in {} tries: {why}", transient + 1);
                    return Err(Error::Paused { what: ask.what, why, until: None });
                }
                Step::Shrink { why } => return Err(Error::TooHeavy { what: ask.what, why }),
                Step::Drop { absence } => return Err(Error::Absent { what: ask.what, absence }),
                Step::GiveUp { status, why } => {
                    return Err(Error::Exhausted { what: ask.what, tries: transient + 1, status, why });
                }
                Step::Reject { status, message } => return Err(Error::Rejected { what: ask.what, status, message }),
                Step::Unauthorized { message } => {
                    return Err(Error::Unauthorized { host: inner.options.endpoints.host(), message });
                }
            }
        }
    }

    /// The right to send now, after whatever wait that takes.
    async fn permit(&self, ask: &Ask) -> Result<Sending<'_>, Error> {
        let inner = &*self.inner;
        loop {
            // Listening before looking: an answer between the two is not missed.
            let answered = inner.answered.notified();
            let now = Timestamp::now();
            let (options, sent) = (&inner.options, self.traffic().requests());
            if let Some(most) = options.max_requests
                && sent >= most
            {
                let why = format!("the budget of {most} requests is used up");
                return Err(Error::Paused { what: ask.what.clone(), why, until: None });
            }
            if options.deadline.is_some_and(|deadline| now >= deadline) {
                let why = "the time given for this run is over".to_owned();
                return Err(Error::Paused { what: ask.what.clone(), why, until: None });
            }
            let reserved = lock(&inner.ledger).reserve_points(ask.resource, ask.cost, now);
            let permit = match reserved {
                Ok(permit) => Sending { inner, permit, done: false },
                Err(Wait::Until(at)) => {
                    self.sleep(ask, at, "the limit of the window is reached").await?;
                    continue;
                }
                Err(Wait::Answer) => {
                    answered.await;
                    continue;
                }
            };
            let pace = inner.pace[ask.resource as usize].as_ref();
            let Some(early) = pace.and_then(|pace| pace.check().err()) else {
                inner.sent[ask.resource as usize].fetch_add(1, Ordering::Relaxed);
                return Ok(permit);
            };
            // The permit goes back while this waits, so that nobody else is kept out.
            drop(permit);
            let wait = early.wait_time_from(DefaultClock::default().now());
            self.sleep(ask, later(now, wait), "keeping the pace").await?;
        }
    }

    async fn sleep(&self, ask: &Ask, at: Timestamp, why: &str) -> Result<(), Error> {
        let options = &self.inner.options;
        if options.deadline.is_some_and(|deadline| at > deadline) {
            let why = format!("{why}, beyond the time given for this run");
            return Err(Error::Paused { what: ask.what.clone(), why, until: Some(at) });
        }
        let _asleep = Asleep::new(&self.inner.waiting);
        let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn send(&self, ask: &Ask) -> Came {
        let mut builder = http::request::Builder::new().uri(ask.path.as_str());
        if let Some(etag) = &ask.etag {
            builder = builder.header(http::header::IF_NONE_MATCH, etag);
        }
        let body = ask.query.as_ref().map(|query| json!({ "query": query }));
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let request = match self.inner.octocrab.build_request(builder.method(method), body.as_ref()) {
            Ok(request) => request,
            Err(error) => return Came::lost(&error),
        };
        let answer = match self.inner.octocrab.execute(request).await {
            Ok(answer) => answer,
            Err(error) => return Came::failed(error),
        };
        let (parts, body) = answer.into_parts();
        match body.collect().await {
            Ok(body) => Came::read(parts.status.as_u16(), parts.headers, &body.to_bytes()),
            Err(error) => Came::lost(&error),
        }
    }
}

/// What came back from one exchange, owned.
struct Came {
    status: Option<u16>,
    /// Without a status: no connection could be made.
    away: bool,
    headers: HeaderMap,
    json: Option<Value>,
    text: String,
}

impl Came {
    fn read(status: u16, headers: HeaderMap, body: &[u8]) -> Self {
        let (json, text) = match serde_json::from_slice(body) {
            Ok(value) => (Some(value), String::new()),
            Err(_) => (None, String::from_utf8_lossy(&body[..body.len().min(2000)]).into_owned()),
        };
        Self { status: Some(status), away: false, headers, json, text }
    }

    fn lost(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { status: None, away: is_away(error), headers: HeaderMap::new(), json: None, text: chain(error) }
    }

    /// octocrab answers with an error when it could not get the token of an app installation; what GitHub said then is
    /// an answer like any other.
    fn failed(error: octocrab::Error) -> Self {
        match error {
            octocrab::Error::GitHub { source, .. } => {
                let status = match source.status_code.as_u16() {
                    // The installation is unknown to GitHub: that is a matter of credentials.
                    404 => 401,
                    status => status,
                };
                let headers = source.headers.clone().unwrap_or_default();
                Self {
                    status: Some(status),
                    away: false,
                    headers,
                    json: Some(json!({ "message": source.message })),
                    text: String::new(),
                }
            }
            error => Self::lost(&error),
        }
    }

    fn body(&self) -> Body<'_> {
        match (&self.status, &self.json) {
            (None, _) if self.away => Body::Away(&self.text),
            (None, _) => Body::Lost(&self.text),
            (Some(_), Some(value)) => Body::Json(value),
            (Some(_), None) => Body::Text(&self.text),
        }
    }
}

/// A permit that goes back to the ledger even when the future that holds it is dropped.
struct Sending<'a> {
    inner: &'a Inner,
    permit: Permit,
    done: bool,
}

impl Sending<'_> {
    fn answered(mut self, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        lock(&self.inner.ledger).answered(self.permit, headers, verdict, now);
        self.done = true;
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.done {
            lock(&self.inner.ledger).cancel(self.permit);
        }
        self.inner.answered.notify_waiters();
    }
}

/// Counts the time during which anyone waits.
struct Asleep<'a>(&'a Mutex<Waiting>);

impl<'a> Asleep<'a> {
    fn new(waiting: &'a Mutex<Waiting>) -> Self {
        let mut state = lock(waiting);
        state.sleepers += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        Self(waiting)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut state = lock(self.0);
        state.sleepers -= 1;
        if state.sleepers == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
    }
}

/// At most `per_minute` in any minute: a burst of a twentieth, and the rest evenly. A governor that may burst by the
/// whole quota would let nearly twice as many through in the first minute.
fn pace(per_minute: Option<u32>) -> Option<DefaultDirectRateLimiter> {
    let per_minute = NonZeroU32::new(per_minute?)?;
    let burst = NonZeroU32::new(per_minute.get() / 20).unwrap_or(NonZeroU32::MIN);
    let steady = per_minute.get().saturating_sub(burst.get()).max(1);
    let quota = Quota::with_period(Duration::from_secs(60) / steady)?.allow_burst(burst);
    Some(RateLimiter::direct(quota))
}

/// No code panics while it holds one of these locks, and the state behind them is whole between statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
