//! Sends one request and waits for its answer, however often that takes. All waiting is done here.

use super::budget::{Leave, Usage};
use super::endpoint::{Api, Endpoint};
use super::retry::{Failure, Policy, Step, named_wait, next_step};
use super::wire::{self, Dialect, Reply, Request, Turn};
use super::{LlmError, seconds};
use crate::monitor::Monitor;
use futures_util::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::RwLock;

/// The version of Anthropic's interface that [`wire`] speaks.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// How the client waits: a future that ends after the time it is given. Tests bring one that ends at once.
pub type Sleeper = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// Waits by the clock.
fn by_the_clock() -> Sleeper {
    Arc::new(|wait| Box::pin(tokio::time::sleep(wait)))
}

/// An answer, what it took, and how long.
pub(super) struct Exchange {
    pub(super) reply: Reply,
    pub(super) usage: Usage,
    pub(super) took: Duration,
}

pub(super) struct Client {
    http: reqwest::Client,
    pub(super) endpoint: Endpoint,
    policy: Policy,
    sleep: Sleeper,
    dialect: Mutex<Dialect>,
    /// Held while the server wants to be left alone, so that every request waits when one was told to.
    gate: RwLock<()>,
    /// How many waits the gate has seen.
    waits: AtomicU64,
    /// Something was answered: what is refused from now on is refused for its own sake.
    answered: AtomicBool,
}

/// What one sending brought.
enum Sent {
    Whole(Reply),
    Failed { failure: Failure, why: String, status: u16 },
}

impl Client {
    pub(super) fn new(endpoint: Endpoint, policy: Policy, sleep: Option<Sleeper>) -> Result<Self, LlmError> {
        // The process may have chosen a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if endpoint.api == Api::Anthropic {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        if let Some(key) = endpoint.key.value() {
            let (name, text) = match endpoint.api {
                Api::OpenAi => (AUTHORIZATION, format!("Bearer {key}")),
                Api::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
            };
            let no_header = |_| LlmError::Setup {
                what: endpoint.key.variable().to_owned(),
                why: "holds characters that no key has".to_owned(),
            };
            let mut value = HeaderValue::from_str(&text).map_err(no_header)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let builder = reqwest::Client::builder()
            .user_agent(concat!("aac/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            // A redirection would carry the key to another server.
            .redirect(reqwest::redirect::Policy::none())
            .timeout(policy.timeout)
            .gzip(true);
        let builder = if endpoint.is_here() { builder.no_proxy() } else { builder };
        let http = builder.build().map_err(|error| LlmError::Setup {
            what: "the connection".to_owned(),
            why: format!("cannot be set up: {}", causes(&error)),
        })?;
        Ok(Self {
            http,
            endpoint,
            policy,
            sleep: sleep.unwrap_or_else(by_the_clock),
            dialect: Mutex::default(),
            gate: RwLock::default(),
            waits: AtomicU64::new(0),
            answered: AtomicBool::new(false),
        })
    }

    fn dialect(&self) -> Dialect {
        *self.dialect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Send the request until it is answered. `Ok(None)` when the server will not answer this one, though it answers
    /// others.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        turns: &[Turn],
        leave: Leave<'_>,
        monitor: &dyn Monitor,
    ) -> Result<Option<Exchange>, LlmError> {
        let mut tried = 0;
        loop {
            if monitor.stop_requested() {
                return Err(LlmError::Stopped { spent: leave.spent() });
            }
            let waits = self.waits.load(Ordering::SeqCst);
            drop(self.gate.read().await);
            let dialect = self.dialect();
            let begun = Instant::now();
            tried += 1;
            let (failure, why, status) = match self.send(&wire::body(&self.endpoint, request, turns, dialect)).await {
                Sent::Whole(reply) => {
                    self.answered.store(true, Ordering::Relaxed);
                    let usage = leave.settle(reply.usage, reply.text.len());
                    return Ok(Some(Exchange { reply, usage, took: begun.elapsed() }));
                }
                Sent::Failed { failure, why, status } => (failure, why, status),
            };
            if status == 200 {
                // Half an answer was paid for as well.
                leave.settle(None, why.len());
            }
            if matches!(status, 400 | 422) && self.speak_simpler(dialect, &why) {
                tried -= 1;
                continue;
            }
            match next_step(failure, tried, request.key.0[0], &self.policy) {
                Step::Again(wait) => self.wait(wait, waits, monitor).await,
                Step::Refused if self.answered.load(Ordering::Relaxed) => return Ok(None),
                step => return Err(self.error(step, tried, status, why, failure)),
            }
        }
    }

    /// Leave out what the server complains of; true when there is another form to try.
    fn speak_simpler(&self, spoken: Dialect, complaint: &str) -> bool {
        let mut dialect = self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        // Another request may have found out meanwhile.
        if *dialect != spoken {
            return true;
        }
        let Some(simpler) = dialect.without(complaint) else { return false };
        *dialect = simpler;
        true
    }

    /// Wait, and have every other request wait too. Those that were sent before somebody else waited need not wait again.
    async fn wait(&self, wait: Duration, seen: u64, monitor: &dyn Monitor) {
        let _closed = self.gate.write().await;
        if self.waits.load(Ordering::SeqCst) == seen {
            tokio::select! {
                () = (self.sleep)(wait) => {}
                () = stopped(monitor) => {}
            }
            self.waits.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn send(&self, body: &serde_json::Value) -> Sent {
        let lost = |error: &reqwest::Error| Sent::Failed {
            failure: Failure::Lost,
            why: self.endpoint.key.scrub(&causes(error)),
            status: 0,
        };
        let response = match self.http.post(self.endpoint.url.clone()).json(body).send().await {
            Ok(response) => response,
            Err(error) => return lost(&error.without_url()),
        };
        let status = response.status().as_u16();
        let retry_after = named_wait(response.headers(), jiff::Timestamp::now());
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return lost(&error.without_url()),
        };
        if status == 200 {
            return match wire::read(self.endpoint.api, &bytes) {
                Ok(reply) => Sent::Whole(reply),
                Err(why) => Sent::Failed { failure: Failure::Lost, why: self.endpoint.key.scrub(&why), status },
            };
        }
        let (why, quota) = wire::complaint(&bytes);
        let why = self.endpoint.key.scrub(&why);
        Sent::Failed { failure: Failure::Status { status, retry_after, quota }, why, status }
    }

    fn error(&self, step: Step, tries: u32, status: u16, why: String, failure: Failure) -> LlmError {
        let host = self.endpoint.host();
        match (step, failure) {
            (Step::Key, _) => LlmError::Key {
                host,
                status,
                variable: self.endpoint.key.variable().to_owned(),
                set: self.endpoint.key.value().is_some(),
            },
            (Step::Pause, Failure::Status { retry_after, .. }) if status < 500 => {
                let why = match retry_after {
                    Some(wait) => format!("{why} (asks for {})", seconds(wait)),
                    None => why,
                };
                LlmError::Limited { host, status, why }
            }
            (Step::Pause, Failure::Status { .. }) => {
                LlmError::Away { host, tries, why: format!("HTTP {status}: {why}") }
            }
            (Step::Pause | Step::Again(_), _) => LlmError::Away { host, tries, why },
            (Step::Refused, _) => LlmError::Refused { host, status, why },
        }
    }
}

/// Ends once the user asked to stop.
async fn stopped(monitor: &dyn Monitor) {
    while !monitor.stop_requested() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut said = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push(error.to_string());
        cause = error.source();
    }
    said.dedup();
    said.join(": ")
}
