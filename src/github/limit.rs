//! What to do after an answer of GitHub: a pure function of status, headers, body and the present time.
//!
//! Sources: GitHub's pages on rate limits for the REST and GraphQL APIs and on best practices (the order
//! `retry-after`, then `x-ratelimit-reset` when nothing remains, then at least a minute, doubling).

use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::time::Duration;

/// A rate-limit bucket of GitHub, by the name its headers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// `code_search`: 10 requests in a minute on github.com.
    CodeSearch,
    /// `graphql`: 5,000 points in an hour.
    Graphql,
    /// `core`: every other REST request, 5,000 in an hour.
    Core,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CodeSearch, Self::Graphql, Self::Core];

    /// The name in `x-ratelimit-resource`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CodeSearch => "code_search",
            Self::Graphql => "graphql",
            Self::Core => "core",
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The waits and bounds that govern retries. Every wait of the client is one of these or one that the server names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// First wait after a secondary limit that names no time; doubles with each refusal that follows.
    pub secondary_wait: Duration,
    /// The longest such wait.
    pub secondary_wait_max: Duration,
    /// How many refusals in a row, each after its wait, before the work is paused.
    pub secondary_tries: u32,
    /// First wait after a failure that has nothing to do with limits (5xx, 408, a lost connection); doubles.
    pub transient_wait: Duration,
    /// The longest such wait.
    pub transient_wait_max: Duration,
    /// How often a request that fails so is sent again before it counts as failed.
    pub transient_tries: u32,
    /// The longest wait that a server may name in `retry-after`; a longer one pauses the work.
    pub named_wait_max: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            secondary_wait: Duration::from_secs(60),
            secondary_wait_max: Duration::from_secs(15 * 60),
            secondary_tries: 8,
            transient_wait: Duration::from_secs(1),
            transient_wait_max: Duration::from_secs(60),
            transient_tries: 8,
            named_wait_max: Duration::from_secs(2 * 3600),
        }
    }
}

/// The limit headers of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LimitHeaders {
    /// `x-ratelimit-limit`.
    pub limit: Option<u32>,
    /// `x-ratelimit-remaining`.
    pub remaining: Option<u32>,
    /// `x-ratelimit-used`.
    pub used: Option<u32>,
    /// Until the window resets, as the server counts (its own `date` header when it sends one): negative when it lies
    /// in the past. This survives a local clock that is wrong.
    pub reset_in: Option<SignedDuration>,
    /// `x-ratelimit-resource`, when it names a bucket that is known.
    pub resource: Option<Resource>,
    /// `retry-after`, in seconds or as a date.
    pub retry_after: Option<Duration>,
}

impl LimitHeaders {
    /// Read the headers; what is absent or unreadable is `None`.
    pub fn read(headers: &HeaderMap, now: Timestamp) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let number = |name: &str| text(name).and_then(|value| value.parse::<u32>().ok());
        let server_now = text("date").and_then(http_date).filter(|date| {
            // A second or two is the resolution of the header, not a wrong clock.
            now.duration_since(*date).abs() > SignedDuration::from_secs(2)
        });
        let clock = server_now.unwrap_or(now);
        let reset_in = text("x-ratelimit-reset")
            .and_then(|value| value.parse::<f64>().ok())
            .filter(|seconds| seconds.is_finite())
            .map(|seconds| {
                let away = seconds - clock.as_millisecond() as f64 / 1000.0;
                SignedDuration::from_millis((away * 1000.0).clamp(-1e15, 1e15) as i64)
            });
        let retry_after = text("retry-after").and_then(|value| match value.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Some(Duration::from_secs_f64(seconds.min(1e9))),
            Ok(_) => None,
            Err(_) => http_date(value).map(|at| Duration::try_from(at.duration_since(clock)).unwrap_or_default()),
        });
        Self {
            limit: number("x-ratelimit-limit"),
            remaining: number("x-ratelimit-remaining"),
            used: number("x-ratelimit-used"),
            reset_in,
            resource: text("x-ratelimit-resource")
                .and_then(|name| Resource::ALL.into_iter().find(|resource| resource.as_str() == name)),
            retry_after,
        }
    }
}

fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// What came back.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// JSON, whole.
    Json(&'a Value),
    /// Text that is not JSON (error pages, truncated JSON).
    Text(&'a str),
    /// No whole answer came: the connection broke on the way. Holds why.
    Lost(&'a str),
    /// No connection could be made. Holds why.
    Away(&'a str),
}

impl Body<'_> {
    /// The message for people: `message` of a JSON error, or the text itself, shortened.
    pub fn message(&self) -> String {
        let text = match self {
            Self::Json(value) => match value.get("message").and_then(Value::as_str) {
                Some(message) => {
                    let details = value.get("errors").map(Value::to_string).unwrap_or_default();
                    if details.is_empty() { message.to_owned() } else { format!("{message} {details}") }
                }
                None => graphql_errors(value).next().map(|error| error.message.to_owned()).unwrap_or_default(),
            },
            Self::Text(text) | Self::Lost(text) | Self::Away(text) => (*text).trim().to_owned(),
        };
        match text.char_indices().nth(300) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text,
        }
    }
}

/// One entry of `errors` in a GraphQL answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphqlError<'a> {
    /// `type`, such as `NOT_FOUND` or `RATE_LIMITED`; empty when there is none.
    pub kind: &'a str,
    /// `message`.
    pub message: &'a str,
    /// The alias at the root that the error belongs to.
    pub alias: Option<&'a str>,
}

/// The errors of a GraphQL answer.
pub fn graphql_errors(value: &Value) -> impl Iterator<Item = GraphqlError<'_>> {
    value.get("errors").and_then(Value::as_array).into_iter().flatten().map(|error| {
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let kind = error.get("type").or_else(|| error.get("extensions").and_then(|extensions| extensions.get("code")));
        let kind = match kind.and_then(Value::as_str).unwrap_or_default() {
            // Servers and proxies that leave the type out still use GitHub's words.
            "" if message.starts_with("Could not resolve to a") => "NOT_FOUND",
            "" if message.to_ascii_lowercase().contains("rate limit") => "RATE_LIMITED",
            kind => kind,
        };
        GraphqlError { kind, message, alias: error.get("path").and_then(|path| path.get(0)).and_then(Value::as_str) }
    })
}

/// One exchange, as [`next_step`] sees it.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The HTTP status; `None` when no whole answer came.
    pub status: Option<u16>,
    /// The limit headers.
    pub limits: LimitHeaders,
    /// What came back.
    pub body: Body<'a>,
    /// True for GraphQL, whose limits arrive as status 200.
    pub graphql: bool,
    /// True when the request asks for several things and can be asked again in smaller parts.
    pub divisible: bool,
}

/// What went before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tries {
    /// Failures of this request that had nothing to do with limits.
    pub transient: u32,
    /// Secondary refusals of the bucket in a row, each after its wait.
    pub secondary: u32,
    /// Primary refusals of the bucket in a row, each after its wait.
    pub primary: u32,
}

/// Which limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The quota of the window is used up.
    Primary,
    /// One of the unpublished limits on speed, concurrency or processor time.
    Secondary,
}

/// Why a thing asked for is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// 404, or a `null` node: never there, deleted, or private.
    #[error("not found")]
    NotFound,
    /// 410.
    #[error("gone")]
    Gone,
    /// 451, or 403 with a block: a takedown. Holds the reason GitHub gives, such as `dmca` or `tos`.
    #[error("blocked ({0})")]
    Blocked(String),
    /// 409: the repository has no commits.
    #[error("empty repository")]
    Empty,
    /// 403 for this thing alone: sign-on, organisation policy.
    #[error("forbidden: {0}")]
    Forbidden(String),
}

impl Absence {
    /// A short name for tables.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Blocked(_) => "blocked",
            Self::Empty => "empty",
            Self::Forbidden(_) => "forbidden",
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Use the answer.
    Proceed,
    /// Send the same request again at `at`; it failed for a reason that passes.
    Retry {
        /// Not before.
        at: Timestamp,
        /// For people.
        why: String,
    },
    /// A limit refused: hold the whole bucket until `until`, then send again.
    Hold {
        /// Not before.
        until: Timestamp,
        /// Which limit.
        limit: Limit,
        /// For people.
        why: String,
    },
    /// The query is too heavy: ask for less.
    Shrink {
        /// For people.
        why: String,
    },
    /// The bound on waiting is reached: stop, with the work saved, and go on at `until` or later.
    Pause {
        /// Not before.
        until: Timestamp,
        /// For people.
        why: String,
    },
    /// Nobody answers there, as often as it was tried: whatever else is asked would meet the same. Stop, with the work
    /// saved.
    Away {
        /// For people.
        why: String,
    },
    /// The thing is not there; go on with the next.
    Drop {
        /// Why.
        absence: Absence,
    },
    /// It kept failing; record it and go on with the next.
    GiveUp {
        /// The status of the last answer, if one came.
        status: Option<u16>,
        /// For people.
        why: String,
    },
    /// GitHub does not understand this request; sending it again cannot help. Whatever it was for stays unfinished.
    Reject {
        /// The status.
        status: u16,
        /// GitHub's words.
        message: String,
    },
    /// The credentials are refused: nothing will work.
    Unauthorized {
        /// GitHub's words.
        message: String,
    },
}

/// No window of a limit is longer; a reset further away is not believed whoever repeats it.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(2 * 3600);
/// How long a reset has to be watched until it shows whether it comes nearer.
const WATCHED: Duration = Duration::from_secs(4);
/// After so many primary refusals in a row, each after its wait, more time has passed than a window lasts.
const WINDOW_WAITED_OUT: u32 = 5;

/// Decide what follows `exchange`. `window` is the nominal length of the bucket's window: no reset further away than
/// that (and none in the past) is believed.
pub fn next_step(exchange: &Exchange<'_>, now: Timestamp, tries: Tries, window: Duration, policy: &Policy) -> Step {
    let transient = |why: String| transient(exchange, now, tries, policy, why);
    let Some(status) = exchange.status else { return transient(exchange.body.message()) };
    let why = || format!("HTTP {status}: {}", exchange.body.message());
    match status {
        200..=299 => match exchange.body {
            Body::Json(value) if exchange.graphql => graphql_step(exchange, value, now, tries, window, policy),
            Body::Json(_) => Step::Proceed,
            Body::Text(_) if status == 204 => Step::Proceed,
            Body::Text(_) | Body::Lost(_) | Body::Away(_) => {
                transient(format!("HTTP {status} with a body that is not whole JSON"))
            }
        },
        // Only a conditional request is answered so: what the client holds is still right.
        304 => Step::Proceed,
        401 => Step::Unauthorized { message: exchange.body.message() },
        403 | 429 => refused(exchange, status, now, tries, window, policy),
        404 => Step::Drop { absence: Absence::NotFound },
        409 => Step::Drop { absence: Absence::Empty },
        410 => Step::Drop { absence: Absence::Gone },
        451 => Step::Drop { absence: Absence::Blocked(block_reason(&exchange.body).unwrap_or("dmca").to_owned()) },
        408 | 500..=599 => transient(why()),
        _ => Step::Reject { status, message: exchange.body.message() },
    }
}

fn transient(exchange: &Exchange<'_>, now: Timestamp, tries: Tries, policy: &Policy, why: String) -> Step {
    // A GraphQL query that ran into the ten-second limit of GitHub costs extra points each time it is repeated, so a
    // smaller one is asked at once.
    let away = matches!(exchange.body, Body::Away(_));
    if exchange.divisible && !away && (matches!(exchange.status, Some(502 | 504)) || tries.transient >= 2) {
        return Step::Shrink { why };
    }
    if tries.transient >= policy.transient_tries {
        if away {
            return Step::Away { why };
        }
        return Step::GiveUp { status: exchange.status, why };
    }
    let wait = exchange
        .limits
        .retry_after
        .unwrap_or_else(|| doubled(policy.transient_wait, tries.transient, policy.transient_wait_max))
        .min(policy.named_wait_max);
    Step::Retry { at: later(now, wait), why }
}

fn refused(
    exchange: &Exchange<'_>,
    status: u16,
    now: Timestamp,
    tries: Tries,
    window: Duration,
    policy: &Policy,
) -> Step {
    let message = exchange.body.message();
    let lower = message.to_ascii_lowercase();
    let limits = &exchange.limits;
    let speaks_of_limits = lower.contains("rate limit") || lower.contains("abuse") || lower.contains("too many");
    if status == 403 {
        if let Some(reason) = block_reason(&exchange.body) {
            return Step::Drop { absence: Absence::Blocked(reason.to_owned()) };
        }
        let about_this = ["not accessible", "saml", "must have", "access blocked", "ip allow list", "disabled"];
        if !speaks_of_limits && about_this.iter().any(|words| lower.contains(words)) {
            let absence = if lower.contains("access blocked") {
                Absence::Blocked("unknown".to_owned())
            } else {
                Absence::Forbidden(message)
            };
            return Step::Drop { absence };
        }
    }
    let why = format!("HTTP {status}: {message}");
    let secondary = lower.contains("secondary") || lower.contains("abuse") || limits.remaining.is_some_and(|n| n > 0);
    if limits.remaining == Some(0) && !secondary {
        return primary(limits, now, tries, window, policy, why);
    }
    secondary_step(limits, now, tries, window, policy, why)
}

fn primary(
    limits: &LimitHeaders,
    now: Timestamp,
    tries: Tries,
    window: Duration,
    policy: &Policy,
    why: String,
) -> Step {
    // Once a whole window was waited out in vain, this server's must be longer, and its word counts after all.
    let longest = if tries.primary < WINDOW_WAITED_OUT { window } else { window.max(policy.named_wait_max) };
    let wait = match (limits.retry_after, believable(limits.reset_in, longest)) {
        (Some(wait), _) if wait > policy.named_wait_max => {
            return Step::Pause { until: later(now, wait), why };
        }
        (Some(wait), _) => wait,
        (None, Some(wait)) => wait,
        // The reset is past or absurd, yet the server refuses: the window may have just turned. Ask soon, then
        // ever later, never longer than a window at a time.
        (None, None) => {
            let soon = doubled((window / 256).max(Duration::from_millis(10)), 2 * tries.primary, window);
            let longer = believable(limits.reset_in, LONGEST_WINDOW).is_some();
            if longer { soon.max(WATCHED.min(window)) } else { soon }
        }
    };
    if tries.primary > policy.secondary_tries {
        return Step::Pause { until: later(now, window), why };
    }
    Step::Hold { until: later(now, wait), limit: Limit::Primary, why }
}

fn secondary_step(
    limits: &LimitHeaders,
    now: Timestamp,
    tries: Tries,
    window: Duration,
    policy: &Policy,
    why: String,
) -> Step {
    let grown = doubled(policy.secondary_wait, tries.secondary, policy.secondary_wait_max);
    let wait = match limits.retry_after {
        Some(wait) if wait > policy.named_wait_max => {
            return Step::Pause { until: later(now, wait), why };
        }
        // A hint that did not help the last time is only a lower bound.
        Some(wait) if tries.secondary > 1 => wait.max(grown),
        Some(wait) => wait,
        None if limits.remaining == Some(0) => believable(limits.reset_in, window).unwrap_or(grown),
        None => grown,
    };
    if tries.secondary >= policy.secondary_tries {
        return Step::Pause { until: later(now, wait), why };
    }
    Step::Hold { until: later(now, wait), limit: Limit::Secondary, why }
}

fn graphql_step(
    exchange: &Exchange<'_>,
    value: &Value,
    now: Timestamp,
    tries: Tries,
    window: Duration,
    policy: &Policy,
) -> Step {
    let has_data = value
        .get("data")
        .and_then(Value::as_object)
        .is_some_and(|data| data.iter().any(|(alias, found)| alias != "rateLimit" && !found.is_null()));
    let mut heavy = false;
    let mut fault: Option<String> = None;
    for error in graphql_errors(value) {
        let lower = error.message.to_ascii_lowercase();
        match error.kind {
            "RATE_LIMITED" | "RATE_LIMIT" | "graphql_rate_limit" => {
                let why = format!("GraphQL {}: {}", error.kind, error.message);
                let primary_reached = exchange.limits.remaining == Some(0) && !lower.contains("secondary");
                return if primary_reached {
                    primary(&exchange.limits, now, tries, window, policy, why)
                } else {
                    secondary_step(&exchange.limits, now, tries, window, policy, why)
                };
            }
            "RESOURCE_LIMITS_EXCEEDED" | "MAX_NODE_LIMIT_EXCEEDED" => heavy = true,
            // An answer of its own for its alias: the caller reads it.
            "NOT_FOUND" | "FORBIDDEN" => {}
            _ if lower.contains("secondary rate limit") => {
                let why = format!("GraphQL: {}", error.message);
                return secondary_step(&exchange.limits, now, tries, window, policy, why);
            }
            kind => fault = Some(format!("GraphQL {kind}: {}", error.message)),
        }
    }
    // Aliases that did come are used; the caller asks again for those that did not.
    if has_data {
        return Step::Proceed;
    }
    if heavy {
        let why = "GraphQL RESOURCE_LIMITS_EXCEEDED".to_owned();
        // One thing that cannot be cut smaller may still be answered when GitHub has more time.
        return if exchange.divisible { Step::Shrink { why } } else { transient(exchange, now, tries, policy, why) };
    }
    match fault {
        Some(why) if why.contains("went wrong") || why.contains("timeout") || why.contains("timed out") => {
            transient(exchange, now, tries, policy, why)
        }
        Some(message) => Step::Reject { status: 200, message },
        None if value.get("data").is_some() => Step::Proceed,
        None => transient(exchange, now, tries, policy, "GraphQL answer with neither data nor errors".to_owned()),
    }
}

fn block_reason<'a>(body: &Body<'a>) -> Option<&'a str> {
    let Body::Json(value) = body else { return None };
    value.get("block")?.get("reason")?.as_str()
}

/// The wait that a reset asks for, unless it lies in the past or further ahead than the window is long.
pub fn believable(reset_in: Option<SignedDuration>, window: Duration) -> Option<Duration> {
    let wait = Duration::try_from(reset_in?).ok()?;
    (wait > Duration::ZERO && wait <= window + window / 10 + Duration::from_secs(2)).then_some(wait)
}

/// `first`, doubled `times` times, at most `longest`.
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2u32.saturating_pow(times.min(30))).min(longest)
}

/// `now` + `wait`, stopping at the end of time.
pub fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
