//! Rate limits: fixed windows per identity and resource, secondary limits, and what their refusals look like.

use super::dice::{mix, unit};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One primary limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Requests (points for GraphQL) in a window.
    pub limit: u32,
    /// Length of a window; it begins with the first request after the one before ended.
    pub window_seconds: f64,
}

/// Secondary limits: those that a client cannot watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Secondary {
    /// Requests in flight at once per identity, REST and GraphQL together.
    pub concurrent: u32,
    /// Points a minute per identity over REST (GET 1, others 5).
    pub rest_points: u32,
    /// Points a minute per identity over GraphQL (query 1, mutation 5).
    pub graphql_points: u32,
    /// Length of the minute that the points are counted in.
    pub minute_seconds: f64,
    /// Code searches of one identity after which some are refused whatever the primary limit says.
    pub code_search_after: u64,
    /// Share of code searches refused from then on.
    pub code_search_rate: f64,
    /// How long an identity stays refused once a secondary limit fired.
    pub hold_seconds: f64,
    /// Whether refusals carry `retry-after`.
    pub retry_after: bool,
    /// Status of a refusal: 403 or 429.
    pub status: u16,
}

impl Default for Secondary {
    fn default() -> Self {
        Self {
            concurrent: 100,
            rest_points: 900,
            graphql_points: 2000,
            minute_seconds: 60.0,
            code_search_after: u64::MAX,
            code_search_rate: 0.45,
            hold_seconds: 60.0,
            retry_after: true,
            status: 403,
        }
    }
}

/// GraphQL limits other than points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphqlLimits {
    /// Most nodes a query may ask for.
    pub nodes: u64,
    /// Repositories in one query from which it sometimes answers 502.
    pub slow_from: usize,
    /// Share of such queries that fail at first.
    pub slow_rate: f64,
    /// Repositories in one query from which it always answers 502.
    pub fails_from: usize,
    /// Time that each repository in a query takes, in milliseconds (measured on GitHub: about 150).
    pub milliseconds_per_repository: u64,
}

impl Default for GraphqlLimits {
    fn default() -> Self {
        Self { nodes: 500_000, slow_from: 50, slow_rate: 0.43, fails_from: 100, milliseconds_per_repository: 0 }
    }
}

/// Every limit; what a `--limits` file may set. Defaults are GitHub's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// False switches all limits off, as on a GHES instance.
    pub enabled: bool,
    /// `GET /search/code`.
    pub code_search: Bucket,
    /// Other searches.
    pub search: Bucket,
    /// Everything else over REST.
    pub core: Bucket,
    /// REST without a token.
    pub anonymous: Bucket,
    /// GraphQL, in points.
    pub graphql: Bucket,
    /// Limits without headers.
    pub secondary: Secondary,
    /// Size limits of GraphQL queries.
    pub graphql_query: GraphqlLimits,
    /// Status of a refusal by a primary limit: 403 or 429.
    pub status: u16,
    /// `/rate_limit` tells of another window than the headers do, as it can on GitHub.
    pub rate_limit_lags: bool,
    /// Tokens that answer 401.
    pub bad_tokens: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        let hourly = |limit| Bucket { limit, window_seconds: 3600.0 };
        Self {
            enabled: true,
            code_search: Bucket { limit: 10, window_seconds: 60.0 },
            search: Bucket { limit: 30, window_seconds: 60.0 },
            core: hourly(5000),
            anonymous: hourly(60),
            graphql: hourly(5000),
            secondary: Secondary::default(),
            graphql_query: GraphqlLimits::default(),
            status: 403,
            rate_limit_lags: false,
            bad_tokens: Vec::new(),
        }
    }
}

impl Limits {
    /// The same limits with every window and hold `factor` times as long: 0.01 lets an hour pass in 36 seconds.
    /// Counts stay, so what a client must do stays the same and only the waiting shrinks.
    pub fn scaled(mut self, factor: f64) -> Self {
        for bucket in [&mut self.code_search, &mut self.search, &mut self.core, &mut self.anonymous, &mut self.graphql]
        {
            bucket.window_seconds *= factor;
        }
        self.secondary.minute_seconds *= factor;
        self.secondary.hold_seconds *= factor;
        self
    }

    /// Why these limits cannot be served, in words for the person who set them.
    pub(crate) fn problem(&self) -> Option<String> {
        let buckets = [
            ("code_search", self.code_search),
            ("search", self.search),
            ("core", self.core),
            ("anonymous", self.anonymous),
            ("graphql", self.graphql),
        ];
        for (name, bucket) in buckets {
            if !(bucket.window_seconds.is_finite() && bucket.window_seconds > 0.0) {
                return Some(format!("{name}.window_seconds must be above 0, not {}", bucket.window_seconds));
            }
        }
        let secondary = &self.secondary;
        if !(secondary.minute_seconds.is_finite() && secondary.minute_seconds > 0.0) {
            return Some(format!("secondary.minute_seconds must be above 0, not {}", secondary.minute_seconds));
        }
        if !(secondary.hold_seconds.is_finite() && secondary.hold_seconds >= 0.0) {
            return Some(format!("secondary.hold_seconds must be 0 or more, not {}", secondary.hold_seconds));
        }
        [("status", self.status), ("secondary.status", secondary.status)]
            .into_iter()
            .find(|(_, status)| !matches!(status, 403 | 429))
            .map(|(name, status)| format!("{name} must be 403 or 429, not {status}"))
    }
}

/// A resource that is counted on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Resource {
    CodeSearch,
    Search,
    Core,
    Graphql,
    /// `/rate_limit`, `/_sandbox` and refused identities: not counted.
    Free,
}

impl Resource {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::CodeSearch => "code_search",
            Self::Search => "search",
            Self::Core => "core",
            Self::Graphql => "graphql",
            Self::Free => "free",
        }
    }
}

/// What the headers of an answer say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) limit: u32,
    pub(crate) used: u32,
    /// Seconds since 1970 at which the window ends.
    pub(crate) reset: f64,
}

impl Standing {
    pub(crate) fn remaining(&self) -> u32 {
        self.limit.saturating_sub(self.used)
    }
}

/// What the limits say to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Admitted,
    Primary,
    /// Refused without a look at the primary limit; whole seconds to wait if the answer should say so.
    Secondary {
        retry_after: Option<u64>,
    },
}

/// What one identity used.
#[derive(Debug, Default)]
struct Account {
    windows: HashMap<Resource, Window>,
    rest: Window,
    graphql: Window,
    in_flight: u32,
    code_searches: u64,
    held_until: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    ends: f64,
    used: u32,
}

impl Window {
    /// The window at `now`, begun anew when the last one has ended.
    fn at(&mut self, now: f64, seconds: f64) -> &mut Self {
        if now >= self.ends {
            *self = Self { ends: now + seconds, used: 0 };
        }
        self
    }
}

/// Windows of a resource, over all identities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowUse {
    /// Windows that were begun.
    pub begun: u64,
    /// Requests (points for GraphQL) that they allowed.
    pub allowed: u64,
    /// Those that were admitted.
    pub used: u64,
    /// Seconds since 1970 at which the first was begun.
    pub first: f64,
    /// Seconds since 1970 at which the last ends.
    pub ends: f64,
}

/// The accounts of every identity. Time is passed in, so decisions can be tested without waiting.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<String, Account>,
    windows: HashMap<Resource, WindowUse>,
}

impl Ledger {
    /// Count a request of `cost` points, or refuse it. `now` is in seconds since 1970; an admitted request must be
    /// [released](Self::release).
    pub(crate) fn admit(
        &mut self,
        limits: &Limits,
        seed: u64,
        identity: &str,
        resource: Resource,
        cost: u32,
        now: f64,
    ) -> (Verdict, Option<Standing>) {
        let account = self.accounts.entry(identity.to_owned()).or_default();
        if !limits.enabled || resource == Resource::Free {
            account.in_flight += 1;
            return (Verdict::Admitted, None);
        }
        let bucket = bucket(limits, resource, identity.is_empty());
        let window = account.windows.entry(resource).or_default();
        let uses = self.windows.entry(resource).or_default();
        if now >= window.ends {
            uses.begun += 1;
            uses.allowed += u64::from(bucket.limit);
            uses.first = if uses.begun == 1 { now } else { uses.first };
            uses.ends = now + bucket.window_seconds;
        }
        let window = *window.at(now, bucket.window_seconds);
        let standing = |used| Some(Standing { limit: bucket.limit, used, reset: window.ends });
        if let Some(verdict) = secondary(&limits.secondary, seed, account, resource, now) {
            return (verdict, standing(window.used));
        }
        if window.used.saturating_add(cost) > bucket.limit {
            // GitHub shows the window as used up, also when a dearer query merely does not fit any more.
            return (Verdict::Primary, standing(bucket.limit));
        }
        if let Some(window) = account.windows.get_mut(&resource) {
            window.used += cost;
        }
        uses.used += u64::from(cost);
        account.in_flight += 1;
        (Verdict::Admitted, standing(window.used + cost))
    }

    /// The windows so far, by resource.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (Resource, WindowUse)> {
        self.windows.iter().map(|(resource, uses)| (*resource, *uses))
    }

    /// An admitted request was answered.
    pub(crate) fn release(&mut self, identity: &str) {
        if let Some(account) = self.accounts.get_mut(identity) {
            account.in_flight = account.in_flight.saturating_sub(1);
        }
    }

    /// Where `identity` stands, without counting anything.
    pub(crate) fn standing(&self, limits: &Limits, identity: &str, resource: Resource, now: f64) -> Standing {
        let bucket = bucket(limits, resource, identity.is_empty());
        let window = self.accounts.get(identity).and_then(|account| account.windows.get(&resource));
        match window {
            Some(window) if now < window.ends => {
                Standing { limit: bucket.limit, used: window.used, reset: window.ends }
            }
            _ => Standing { limit: bucket.limit, used: 0, reset: now + bucket.window_seconds },
        }
    }
}

fn bucket(limits: &Limits, resource: Resource, anonymous: bool) -> Bucket {
    match resource {
        Resource::CodeSearch => limits.code_search,
        Resource::Search => limits.search,
        Resource::Graphql => limits.graphql,
        Resource::Core | Resource::Free if anonymous => limits.anonymous,
        Resource::Core | Resource::Free => limits.core,
    }
}

fn secondary(limits: &Secondary, seed: u64, account: &mut Account, resource: Resource, now: f64) -> Option<Verdict> {
    let refuse = |until: f64| {
        let retry_after = limits.retry_after.then(|| (until - now).ceil().max(1.0) as u64);
        Some(Verdict::Secondary { retry_after })
    };
    if now < account.held_until {
        return refuse(account.held_until);
    }
    let (points, most) = match resource {
        Resource::Graphql => (account.graphql.at(now, limits.minute_seconds), limits.graphql_points),
        _ => (account.rest.at(now, limits.minute_seconds), limits.rest_points),
    };
    points.used = points.used.saturating_add(1);
    if points.used > most {
        account.held_until = now + limits.hold_seconds;
        return refuse(account.held_until);
    }
    if account.in_flight >= limits.concurrent {
        // Over as soon as some are answered, so no hold follows.
        return refuse(now + 1.0);
    }
    if resource == Resource::CodeSearch {
        account.code_searches += 1;
        let late = account.code_searches > limits.code_search_after;
        if late && unit(mix(seed, &[0x5EC0, account.code_searches])) < limits.code_search_rate {
            // Measured as single refusals among successes, so no hold follows.
            return refuse(now + limits.hold_seconds);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(ledger: &mut Ledger, limits: &Limits, resource: Resource, now: f64) -> (Verdict, Option<Standing>) {
        let answer = ledger.admit(limits, 1, "token", resource, 1, now);
        if answer.0 == Verdict::Admitted {
            ledger.release("token");
        }
        answer
    }

    #[test]
    fn the_eleventh_search_of_a_window_is_refused_and_the_next_window_is_fresh() {
        let (mut ledger, limits) = (Ledger::default(), Limits::default());
        for used in 1..=10 {
            let (verdict, standing) = ask(&mut ledger, &limits, Resource::CodeSearch, 100.0 + f64::from(used));
            assert_eq!(verdict, Verdict::Admitted);
            let standing = standing.unwrap();
            assert_eq!((standing.used, standing.remaining(), standing.reset), (used, 10 - used, 161.0));
        }
        let (verdict, standing) = ask(&mut ledger, &limits, Resource::CodeSearch, 160.9);
        assert_eq!((verdict, standing.unwrap().remaining()), (Verdict::Primary, 0));
        assert_eq!(ask(&mut ledger, &limits, Resource::CodeSearch, 161.0).0, Verdict::Admitted);
        // Another resource and another identity have windows of their own.
        assert_eq!(ask(&mut ledger, &limits, Resource::Core, 110.0).1.unwrap().used, 1);
        assert_eq!(ledger.admit(&limits, 1, "other", Resource::CodeSearch, 1, 110.0).1.unwrap().used, 1);
    }

    #[test]
    fn too_many_points_hold_the_identity_with_a_hint() {
        let secondary = Secondary { rest_points: 2, hold_seconds: 5.0, ..Secondary::default() };
        let (mut ledger, limits) = (Ledger::default(), Limits { secondary, ..Limits::default() });
        assert_eq!(ask(&mut ledger, &limits, Resource::Core, 0.0).0, Verdict::Admitted);
        assert_eq!(ask(&mut ledger, &limits, Resource::Core, 0.0).0, Verdict::Admitted);
        let refused = Verdict::Secondary { retry_after: Some(5) };
        assert_eq!(ask(&mut ledger, &limits, Resource::Core, 0.0).0, refused);
        assert_eq!(ask(&mut ledger, &limits, Resource::Core, 4.5).0, Verdict::Secondary { retry_after: Some(1) });
    }

    #[test]
    fn requests_in_flight_are_limited_until_released() {
        let secondary = Secondary { concurrent: 1, retry_after: false, ..Secondary::default() };
        let (mut ledger, limits) = (Ledger::default(), Limits { secondary, ..Limits::default() });
        let ask = |ledger: &mut Ledger| ledger.admit(&limits, 1, "t", Resource::Core, 1, 0.0).0;
        assert_eq!(ask(&mut ledger), Verdict::Admitted);
        assert_eq!(ask(&mut ledger), Verdict::Secondary { retry_after: None });
        ledger.release("t");
        assert_eq!(ask(&mut ledger), Verdict::Admitted);
    }

    #[test]
    fn impossible_limits_are_named() {
        let limits = Limits { core: Bucket { limit: 1, window_seconds: 0.0 }, ..Limits::default() };
        assert!(limits.problem().unwrap().contains("core.window_seconds"));
        assert!(Limits { status: 500, ..Limits::default() }.problem().unwrap().contains("403 or 429"));
        assert_eq!(Limits::default().problem(), None);
    }
}
