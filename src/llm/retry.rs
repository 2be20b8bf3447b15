//! What to do after an answer that is none: a pure function of what came back and of how often it was tried.

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use std::time::Duration;

/// The waits and bounds that govern retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// First wait after a failure that names none; doubles with each that follows.
    pub wait: Duration,
    /// The longest such wait.
    pub wait_max: Duration,
    /// How often one request is sent before its failures count.
    pub tries: u32,
    /// The longest wait that a server may name; a longer one pauses the work.
    pub named_wait_max: Duration,
    /// The longest that one exchange may take.
    pub timeout: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(60),
            tries: 6,
            named_wait_max: Duration::from_secs(600),
            timeout: Duration::from_secs(180),
        }
    }
}

/// What came back in place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another status than 200.
    Status {
        /// The status.
        status: u16,
        /// The wait that the server names.
        retry_after: Option<Duration>,
        /// It says that there is nothing left to spend, which no wait brings back.
        quota: bool,
    },
    /// No whole answer: a lost connection, a timeout, half a body.
    Lost,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Send it again after this wait.
    Again(Duration),
    /// Pause: later the same may be answered.
    Pause,
    /// The server does not know who asks.
    Key,
    /// It will never be answered.
    Refused,
}

/// The next step after the failure of the `tried`-th try (from 1). `seed` spreads the waits of requests that failed
/// together over a quarter more.
pub(super) fn next_step(failure: Failure, tried: u32, seed: u8, policy: &Policy) -> Step {
    let named = match failure {
        Failure::Status { status: 401 | 403, .. } => return Step::Key,
        Failure::Status { quota: true, .. } | Failure::Status { status: 402, .. } => return Step::Pause,
        Failure::Status { status: 408 | 409 | 425 | 429 | 500.., retry_after, .. } => retry_after,
        Failure::Status { .. } => return Step::Refused,
        Failure::Lost => None,
    };
    if tried >= policy.tries || named.is_some_and(|wait| wait > policy.named_wait_max) {
        return Step::Pause;
    }
    let doubled = policy.wait.saturating_mul(1 << (tried - 1).min(16)).min(policy.wait_max);
    Step::Again(named.unwrap_or_else(|| doubled + doubled.mul_f64(f64::from(seed) / 1024.0)))
}

/// The wait that the headers name: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn named_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str, unit: f64| {
        let value = text(name)?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
        Some(Duration::from_secs_f64((value * unit).min(1e9)))
    };
    number("retry-after-ms", 1e-3).or_else(|| number("retry-after", 1.0)).or_else(|| {
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text("retry-after")?).ok()?;
        Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, wait: Option<u64>) -> Failure {
        Failure::Status { status, retry_after: wait.map(Duration::from_secs), quota: false }
    }

    #[test]
    fn waits_double_up_to_a_bound_unless_the_server_names_one() {
        let policy = Policy::default();
        let waits: Vec<Step> = (1..=6).map(|tried| next_step(status(500, None), tried, 0, &policy)).collect();
        let again = |seconds| Step::Again(Duration::from_secs(seconds));
        assert_eq!(waits, [again(1), again(2), again(4), again(8), again(16), Step::Pause]);
        let many = Policy { tries: 99, ..Policy::default() };
        assert_eq!(next_step(Failure::Lost, 40, 0, &many), again(60));
        assert_eq!(next_step(status(429, Some(7)), 3, 255, &policy), again(7));
        assert_eq!(next_step(status(429, Some(601)), 1, 0, &policy), Step::Pause);
        assert!(
            matches!(next_step(Failure::Lost, 1, 255, &policy), Step::Again(wait) if wait > Duration::from_secs(1) && wait < Duration::from_millis(1250))
        );
    }

    #[test]
    fn what_waiting_cannot_mend_is_not_tried_again() {
        let step = |failure| next_step(failure, 1, 0, &Policy::default());
        assert_eq!(step(status(401, None)), Step::Key);
        assert_eq!(step(status(404, None)), Step::Refused);
        assert_eq!(step(status(402, None)), Step::Pause);
        assert_eq!(step(Failure::Status { status: 429, retry_after: None, quota: true }), Step::Pause);
    }

    #[test]
    fn a_wait_is_read_in_every_form() {
        let now: Timestamp = "2015-10-21T07:27:50Z".parse().unwrap();
        let read = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            named_wait(&headers, now)
        };
        assert_eq!(read("retry-after", "1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        for wrong in ["-1", "soon", "NaN"] {
            assert_eq!(read("retry-after", wrong), None);
        }
    }
}
