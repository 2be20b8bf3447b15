//! What an identity may still send: a mirror of the server's fixed windows, led by its headers, with holds after
//! refusals and a rate that falls by half on each secondary limit and recovers step by step (AIMD).
//!
//! Pure: the time comes in as an argument. [`super::GitHub`] keeps one behind a lock; a job saves [`Ledger::rows`] and
//! gives them back after a restart, so that a hold outlives the process.

use super::limit::{Limit, LimitHeaders, Resource, Tries, believable, later};
use jiff::Timestamp;
use std::time::Duration;

/// The nominal quota of a bucket, until the server's headers say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Requests (or points) in a window; `None` where there is no limit, as on most GitHub Enterprise Servers.
    pub requests: Option<u32>,
    /// Length of the window.
    pub window: Duration,
}

/// All the limits of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Code search.
    pub code_search: Allowance,
    /// GraphQL points.
    pub graphql: Allowance,
    /// Other REST requests.
    pub core: Allowance,
    /// REST requests a minute and endpoint; `None` for no spacing.
    pub rest_per_minute: Option<u32>,
    /// GraphQL points a minute; `None` for no spacing.
    pub graphql_per_minute: Option<u32>,
    /// Requests under way at the same time.
    pub in_flight: usize,
}

impl Default for Limits {
    /// Those of github.com.
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self {
            code_search: Allowance { requests: Some(10), window: Duration::from_secs(60) },
            graphql: Allowance { requests: Some(5000), window: hour },
            core: Allowance { requests: Some(5000), window: hour },
            rest_per_minute: Some(900),
            graphql_per_minute: Some(2000),
            in_flight: 100,
        }
    }
}

impl Limits {
    /// The quota of one bucket.
    pub const fn of(&self, resource: Resource) -> Allowance {
        match resource {
            Resource::CodeSearch => self.code_search,
            Resource::Graphql => self.graphql,
            Resource::Core => self.core,
        }
    }
}

/// A bucket as it is stored. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LedgerRow {
    /// [`Resource::as_str`].
    pub resource: String,
    /// What the server last gave as the limit.
    pub limit: Option<u32>,
    /// Used in the window that ends at `reset_ms`.
    pub used: u32,
    /// End of the window.
    pub reset_ms: Option<i64>,
    /// Nothing may be sent before.
    pub hold_ms: Option<i64>,
    /// Secondary refusals in a row.
    pub secondary: u32,
    /// AIMD rate, above 0 and at most 1.
    pub rate: f64,
}

/// When a request may go out that may not go out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// At this time.
    Until(Timestamp),
    /// When one of the requests under way has been answered.
    Answer,
}

/// The right to send one request; give it back through [`Ledger::answered`].
#[derive(Debug, Clone, Copy)]
pub struct Permit {
    resource: Resource,
    sent: Timestamp,
}

/// How an exchange ended, for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answered; what the answer says does not matter here.
    Answered,
    /// No answer came.
    Lost,
    /// A limit refused; nothing more before the time.
    Held(Limit, Timestamp),
}

#[derive(Debug, Clone)]
struct Bucket {
    nominal: Allowance,
    limit: Option<u32>,
    used: u32,
    in_flight: u32,
    reset: Option<Timestamp>,
    /// The longest time to a reset that headers have shown: the real length of a window.
    window_seen: Option<Duration>,
    /// When the headers that `used` comes from were read.
    read: Timestamp,
    hold: Option<Timestamp>,
    /// When the present run of refusals last grew; answers to requests sent before say nothing new.
    refused: Timestamp,
    secondary: u32,
    primary: u32,
    rate: f64,
    last_sent: Option<Timestamp>,
}

/// The ledger of one identity.
#[derive(Debug, Clone)]
pub struct Ledger {
    buckets: [Bucket; 3],
}

/// What a success gives back of the rate.
const RECOVERY: f64 = 0.02;
/// The lowest rate.
const SLOWEST: f64 = 1.0 / 16.0;

impl Ledger {
    /// A ledger that knows only the nominal limits.
    pub fn new(limits: &Limits) -> Self {
        Self { buckets: Resource::ALL.map(|resource| Bucket::new(limits.of(resource))) }
    }

    /// Take over what an earlier process saved; rows of unknown buckets are left out.
    pub fn restore(&mut self, rows: &[LedgerRow]) {
        for row in rows {
            let Some(resource) = Resource::ALL.into_iter().find(|resource| resource.as_str() == row.resource) else {
                continue;
            };
            let bucket = self.bucket_mut(resource);
            let time = |ms: Option<i64>| ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
            bucket.limit = row.limit;
            bucket.used = row.used;
            bucket.reset = time(row.reset_ms);
            bucket.hold = time(row.hold_ms);
            bucket.secondary = row.secondary;
            bucket.rate = if row.rate.is_finite() { row.rate.clamp(SLOWEST, 1.0) } else { 1.0 };
        }
    }

    /// The buckets, to be stored.
    pub fn rows(&self) -> Vec<LedgerRow> {
        let ms = |time: Option<Timestamp>| time.map(Timestamp::as_millisecond);
        Resource::ALL
            .into_iter()
            .map(|resource| {
                let bucket = self.bucket(resource);
                LedgerRow {
                    resource: resource.as_str().to_owned(),
                    limit: bucket.limit,
                    used: bucket.used + bucket.in_flight,
                    reset_ms: ms(bucket.reset),
                    hold_ms: ms(bucket.hold),
                    secondary: bucket.secondary,
                    rate: bucket.rate,
                }
            })
            .collect()
    }

    /// Ask to send one request now.
    ///
    /// # Errors
    /// When to ask again, if the server would refuse it now.
    pub fn reserve(&mut self, resource: Resource, now: Timestamp) -> Result<Permit, Wait> {
        self.bucket_mut(resource).reserve(now)?;
        Ok(Permit { resource, sent: now })
    }

    /// Give `permit` back without having sent anything.
    pub fn cancel(&mut self, permit: Permit) {
        let bucket = self.bucket_mut(permit.resource);
        bucket.in_flight = bucket.in_flight.saturating_sub(1);
    }

    /// The refusals in a row that went before `permit` was sent.
    pub fn tries(&self, permit: Permit) -> Tries {
        let bucket = self.bucket(permit.resource);
        let late = u32::from(permit.sent <= bucket.refused);
        Tries {
            transient: 0,
            secondary: bucket.secondary.saturating_sub(late),
            primary: bucket.primary.saturating_sub(late),
        }
    }

    /// The length of a window of `resource`: what headers have shown, or else the nominal one.
    pub fn window(&self, resource: Resource) -> Duration {
        self.bucket(resource).nominal.window
    }

    /// Book the answer to the request of `permit`.
    pub fn answered(&mut self, permit: Permit, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        self.bucket_mut(permit.resource).answered(permit, headers, verdict, now);
    }

    /// What is left in the present window, where the limit is known.
    pub fn remaining(&self, resource: Resource, now: Timestamp) -> Option<u32> {
        let bucket = self.bucket(resource);
        let over = bucket.reset.is_some_and(|reset| reset <= now);
        bucket.limit.map(|limit| if over { limit } else { limit.saturating_sub(bucket.used + bucket.in_flight) })
    }

    fn bucket(&self, resource: Resource) -> &Bucket {
        &self.buckets[resource as usize]
    }

    fn bucket_mut(&mut self, resource: Resource) -> &mut Bucket {
        &mut self.buckets[resource as usize]
    }
}

impl Bucket {
    fn new(nominal: Allowance) -> Self {
        Self {
            nominal,
            limit: nominal.requests,
            used: 0,
            in_flight: 0,
            reset: None,
            window_seen: None,
            read: Timestamp::MIN,
            hold: None,
            refused: Timestamp::MIN,
            secondary: 0,
            primary: 0,
            rate: 1.0,
            last_sent: None,
        }
    }

    fn window(&self) -> Duration {
        self.window_seen.unwrap_or(self.nominal.window)
    }

    /// Resets come in whole seconds and clocks drift, so a window is taken to be over a little after its reset.
    fn margin(&self) -> Duration {
        (self.window() / 60).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    fn reserve(&mut self, now: Timestamp) -> Result<(), Wait> {
        if let Some(hold) = self.hold {
            if hold > now {
                return Err(Wait::Until(hold));
            }
            self.hold = None;
        }
        if let Some(reset) = self.reset {
            let turn = later(reset, self.margin());
            // A stored reset from a clock that was wrong must not lock the bucket for longer than a window.
            if turn <= now || turn > later(now, self.nominal.window * 2 + Duration::from_secs(5)) {
                self.reset = None;
                self.used = 0;
            }
        }
        if let Some(limit) = self.limit
            && self.used + self.in_flight >= limit.max(1)
        {
            return Err(match self.reset {
                Some(reset) if self.used >= limit.max(1) || self.in_flight == 0 => {
                    Wait::Until(later(reset, self.margin()))
                }
                _ => Wait::Answer,
            });
        }
        if self.rate < 1.0
            && let (Some(last), Some(limit)) = (self.last_sent, self.limit)
        {
            let gap = self.window().div_f64(f64::from(limit.max(1)) * self.rate);
            let next = later(last, gap);
            if next > now {
                return Err(Wait::Until(next));
            }
        }
        if self.reset.is_none() {
            self.reset = Some(later(now, self.window()));
        }
        self.in_flight += 1;
        self.last_sent = Some(now);
        Ok(())
    }

    fn answered(&mut self, permit: Permit, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let other = headers.resource.is_some_and(|resource| resource != permit.resource);
        if !other {
            self.read_headers(permit, headers, verdict, now);
        }
        match verdict {
            Verdict::Answered if permit.sent > self.refused => {
                self.secondary = 0;
                self.primary = 0;
                self.rate = (self.rate + RECOVERY).min(1.0);
            }
            Verdict::Answered | Verdict::Lost => {}
            Verdict::Held(limit, until) => {
                self.hold = Some(self.hold.map_or(until, |hold| hold.max(until)));
                // Requests that were under way together are refused together: one refusal, not many.
                if permit.sent > self.refused {
                    self.refused = now;
                    match limit {
                        Limit::Primary => self.primary += 1,
                        Limit::Secondary => {
                            self.secondary += 1;
                            self.rate = (self.rate / 2.0).max(SLOWEST);
                        }
                    }
                }
            }
        }
    }

    fn read_headers(&mut self, permit: Permit, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        let known = headers.remaining.zip(headers.limit.or(self.limit));
        let Some((remaining, limit)) = known else {
            // No word from the server: count ourselves.
            if verdict != Verdict::Lost {
                self.used += 1;
            }
            return;
        };
        self.limit = Some(limit);
        let used = limit.saturating_sub(remaining);
        match believable(headers.reset_in, self.nominal.window) {
            Some(wait) => {
                self.window_seen = Some(self.window_seen.map_or(wait, |seen| seen.max(wait)));
                let reset = later(now, wait);
                let turned =
                    self.reset.is_none_or(|known| reset.duration_since(known) > jiff::SignedDuration::from_secs(2));
                // Only a request sent after the last headers were read knows better than they did; answers that
                // overtake each other may only raise the count.
                self.used = if turned || permit.sent >= self.read { used } else { self.used.max(used) };
                self.reset = Some(reset);
            }
            // A reset in the past or absurdly far ahead: the count holds, the end of the window is our own guess.
            None => self.used = if permit.sent >= self.read { used } else { self.used.max(used) },
        }
        self.read = now;
    }
}

#[cfg(test)]
mod tests;
