//! What an identity may still send: a mirror of the server's fixed windows, led by its headers, with holds after
//! refusals and a rate that falls by half on each secondary limit and recovers step by step (AIMD).
//!
//! Pure: the time comes in as an argument. [`super::GitHub`] keeps one behind a lock; a job saves [`Ledger::rows`] and
//! gives them back after a restart, so that a hold outlives the process.

use super::limit::{LONGEST_WINDOW, Limit, LimitHeaders, Resource, Tries, believable, later};
use jiff::{SignedDuration, Timestamp};
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
    /// The length of a window that the server has shown, when that is longer than the nominal one.
    #[serde(default)]
    pub window_ms: Option<u64>,
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
    cost: u32,
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
    /// A reset too far away to be believed, as it was first shown, and when that was: one that comes nearer as time
    /// goes by is one after all.
    claimed: Option<(Timestamp, Timestamp)>,
    /// When the request was sent that began the present window, as far as is known.
    began: Option<Timestamp>,
    /// Whether `reset` follows from that request's own answer.
    exact: bool,
    /// How long after its reset a window is taken to be over.
    margin: Option<Duration>,
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
            bucket.window_seen = row.window_ms.map(Duration::from_millis).filter(|window| *window <= LONGEST_WINDOW);
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
                    window_ms: (bucket.window() > bucket.nominal.window).then(|| bucket.window().as_millis() as u64),
                }
            })
            .collect()
    }

    /// Ask to send one request now that counts once.
    ///
    /// # Errors
    /// When to ask again, if the server would refuse it now.
    pub fn reserve(&mut self, resource: Resource, now: Timestamp) -> Result<Permit, Wait> {
        self.reserve_points(resource, 1, now)
    }

    /// Ask to send one request now that counts `cost` times, as GraphQL queries over connections do.
    ///
    /// # Errors
    /// When to ask again, if the server would refuse it now.
    pub fn reserve_points(&mut self, resource: Resource, cost: u32, now: Timestamp) -> Result<Permit, Wait> {
        let cost = cost.max(1);
        self.bucket_mut(resource).reserve(cost, now)?;
        Ok(Permit { resource, sent: now, cost })
    }

    /// Give `permit` back without having sent anything.
    pub fn cancel(&mut self, permit: Permit) {
        let bucket = self.bucket_mut(permit.resource);
        bucket.in_flight = bucket.in_flight.saturating_sub(permit.cost);
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

    /// The longest that a window of `resource` lasts: the nominal length, or a longer one that the server has shown.
    pub fn window(&self, resource: Resource) -> Duration {
        let bucket = self.bucket(resource);
        bucket.window().max(bucket.nominal.window)
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
            claimed: None,
            began: None,
            exact: false,
            margin: None,
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

    /// Clocks drift and requests travel, so a window is taken to be over a little after its reset; later still once the
    /// server has refused a request that came so soon.
    fn margin(&self) -> Duration {
        let least = (self.window() / 120).clamp(Duration::from_millis(10), Duration::from_millis(500));
        self.margin.unwrap_or(least).max(least)
    }

    fn reserve(&mut self, cost: u32, now: Timestamp) -> Result<(), Wait> {
        if let Some(hold) = self.hold {
            if hold > now {
                return Err(Wait::Until(hold));
            }
            self.hold = None;
        }
        if let Some(reset) = self.reset {
            let turn = later(reset, self.margin());
            // A stored reset from a clock that was wrong must not lock the bucket for longer than a window.
            let longest = self.window().max(self.nominal.window) * 2 + Duration::from_secs(5);
            if turn <= now || turn > later(now, longest) {
                self.reset = None;
                self.used = 0;
            }
        }
        // A request dearer than the whole quota can only be tried.
        if let Some(limit) = self.limit
            && self.used + self.in_flight > 0
            && self.used + self.in_flight + cost > limit.max(1)
        {
            return Err(match self.reset {
                Some(reset) if self.used + cost > limit.max(1) || self.in_flight == 0 => {
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
            self.began = Some(now);
            self.exact = false;
        }
        self.in_flight += cost;
        self.last_sent = Some(now);
        Ok(())
    }

    fn answered(&mut self, permit: Permit, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(permit.cost);
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
                        Limit::Primary => {
                            self.primary += 1;
                            self.came_too_soon(permit, headers);
                        }
                        Limit::Secondary => {
                            self.secondary += 1;
                            self.rate = (self.rate / 2.0).max(SLOWEST);
                        }
                    }
                }
            }
        }
    }

    /// A quota that is used up when a window has just begun, for a moment more, was that of the window before.
    fn came_too_soon(&mut self, permit: Permit, headers: &LimitHeaders) {
        let moment = SignedDuration::from_secs(2);
        let nearly_over = headers.reset_in.is_some_and(|left| left.abs() <= moment);
        if nearly_over && self.began.is_some_and(|began| permit.sent.duration_since(began) <= moment) {
            self.margin = Some((self.margin() * 2).min(Duration::from_secs(2)));
        }
    }

    fn read_headers(&mut self, permit: Permit, headers: &LimitHeaders, verdict: Verdict, now: Timestamp) {
        let known = headers.remaining.zip(headers.limit.or(self.limit));
        let Some((remaining, limit)) = known else {
            // No word from the server: count ourselves.
            if verdict != Verdict::Lost {
                self.used += permit.cost;
            }
            return;
        };
        self.limit = Some(limit);
        let used = limit.saturating_sub(remaining);
        let window = self.window().max(self.nominal.window);
        match believable(headers.reset_in, window).or_else(|| self.comes_nearer(headers, now)) {
            Some(wait) => {
                let shown = later(now, wait);
                let past = |known: Timestamp, by: SignedDuration| shown.duration_since(known) > by;
                let turned = self.reset.is_none_or(|known| past(known, SignedDuration::from_secs(2)));
                // Only a request sent after the last headers were read knows better than they did; answers that
                // overtake each other may only raise the count.
                self.used = if turned || permit.sent >= self.read { used } else { self.used.max(used) };
                let opens = verdict == Verdict::Answered && self.began == Some(permit.sent);
                if opens || turned {
                    let wait = if opens { self.first_of_window(wait) } else { wait };
                    self.window_seen = Some(self.window_seen.map_or(wait, |seen| seen.max(wait)));
                    self.reset = Some(later(now, wait));
                    self.exact = opens;
                } else if !self.exact || self.reset.is_none_or(|known| past(known, SignedDuration::from_millis(1_100)))
                {
                    self.reset = Some(shown);
                }
            }
            // A reset in the past or absurdly far ahead: the count holds, the end of the window is our own guess.
            None => self.used = if permit.sent >= self.read { used } else { self.used.max(used) },
        }
        self.read = now;
    }

    /// What the first answer of a window tells of its end. Resets come in whole seconds: one that lies beyond the nominal
    /// length by less than that has been rounded.
    fn first_of_window(&self, wait: Duration) -> Duration {
        let nominal = self.nominal.window;
        if wait > nominal && wait <= nominal + Duration::from_secs(1) { nominal } else { wait }
    }

    /// A reset that is too far away to be believed at once, but that stays the same point of time as time goes by, is
    /// the end of a window longer than the nominal one.
    fn comes_nearer(&mut self, headers: &LimitHeaders, now: Timestamp) -> Option<Duration> {
        let wait = Duration::try_from(headers.reset_in?).ok()?;
        if wait.is_zero() || wait > LONGEST_WINDOW {
            return None;
        }
        let shown = later(now, wait);
        let (first, at) = *self.claimed.get_or_insert((shown, now));
        let (moved, passed) = (shown.duration_since(first).abs(), now.duration_since(at));
        if moved > SignedDuration::from_secs(2) {
            self.claimed = Some((shown, now));
            return None;
        }
        // One that runs ahead of the clock moves as fast as time passes; rounding moves it by a second at most.
        if passed < SignedDuration::from_secs(3) {
            return None;
        }
        // The window is at least as long as the way was when it was first shown.
        let whole = Duration::try_from(first.duration_since(at)).unwrap_or(wait);
        self.window_seen = Some(self.window_seen.map_or(whole, |seen| seen.max(whole)));
        Some(wait)
    }
}

#[cfg(test)]
mod tests;
