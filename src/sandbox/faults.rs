//! Faults on demand. Whether a request fails is decided by the seed, the request and how often that same request has
//! failed already, so a run can be repeated and a client that retries gets through.

use super::dice::{hash_text, mix, unit};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Shares of requests that go wrong, 0 to 1 each, and of repositories in a special state. What a `--faults` file may
/// set; the default is a faultless server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// How often at most one request (same method, path, query and body) fails before it succeeds.
    pub at_most: u32,
    /// 408 of a dense code search.
    pub search_timeout: f64,
    /// 500 with a JSON body.
    pub internal: f64,
    /// 502 with an HTML page.
    pub bad_gateway: f64,
    /// 503 with a JSON body.
    pub unavailable: f64,
    /// 504 with an HTML page.
    pub gateway_timeout: f64,
    /// 200 whose JSON ends in the middle.
    pub truncated: f64,
    /// The connection ends without a whole answer.
    pub dropped: f64,
    /// Right answers that come late.
    pub slow: f64,
    /// How late.
    pub slow_seconds: f64,
    /// 403 of a secondary limit that carries neither `retry-after` nor a used-up window.
    pub secondary_without_hint: f64,
    /// Code search with `incomplete_results: true` and a part of the items.
    pub incomplete: f64,
    /// GraphQL 200 with `RATE_LIMITED` although the points are not used up.
    pub graphql_rate_limited: f64,
    /// GraphQL 200 with `RESOURCE_LIMITS_EXCEEDED` and a part of the data.
    pub graphql_partial: f64,
    /// Seconds that the server's clock (`date`, `reset`) is ahead.
    pub clock_ahead_seconds: f64,
    /// Standard deviation of large totals, relative.
    pub total_noise: f64,
    /// Leading bits that large totals keep.
    pub total_bits: u32,
    /// Share of queries of at most 1,000 results whose first total is too small.
    pub undercount: f64,
    /// Share of queries of at most 1,000 results whose totals are always too large: windows that stay short.
    pub overcount: f64,
    /// Share of repositories that code search still knows and that are gone.
    pub gone: f64,
    /// Share of repositories that answer under another name now (301).
    pub renamed: f64,
    /// Share blocked with 451.
    pub blocked: f64,
    /// Share blocked with 403 for the terms of service.
    pub blocked_tos: f64,
    /// Share that have lost all their commits (409).
    pub empty: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            at_most: 2,
            search_timeout: 0.0,
            internal: 0.0,
            bad_gateway: 0.0,
            unavailable: 0.0,
            gateway_timeout: 0.0,
            truncated: 0.0,
            dropped: 0.0,
            slow: 0.0,
            slow_seconds: 1.0,
            secondary_without_hint: 0.0,
            incomplete: 0.0,
            graphql_rate_limited: 0.0,
            graphql_partial: 0.0,
            clock_ahead_seconds: 0.0,
            total_noise: 0.03,
            total_bits: 10,
            undercount: 0.0,
            overcount: 0.0,
            gone: 0.0,
            renamed: 0.0,
            blocked: 0.0,
            blocked_tos: 0.0,
            empty: 0.0,
        }
    }
}

impl Faults {
    /// What a crawl meets on a bad day: a little of everything.
    pub fn rough() -> Self {
        Self {
            search_timeout: 0.02,
            internal: 0.01,
            bad_gateway: 0.02,
            unavailable: 0.01,
            gateway_timeout: 0.01,
            truncated: 0.01,
            dropped: 0.01,
            secondary_without_hint: 0.02,
            incomplete: 0.05,
            graphql_rate_limited: 0.02,
            graphql_partial: 0.05,
            undercount: 0.05,
            gone: 0.064,
            renamed: 0.01,
            blocked: 0.002,
            blocked_tos: 0.001,
            empty: 0.002,
            ..Self::default()
        }
    }

    fn rates(&self) -> [(&'static str, f64); 19] {
        [
            ("search_timeout", self.search_timeout),
            ("internal", self.internal),
            ("bad_gateway", self.bad_gateway),
            ("unavailable", self.unavailable),
            ("gateway_timeout", self.gateway_timeout),
            ("truncated", self.truncated),
            ("dropped", self.dropped),
            ("slow", self.slow),
            ("secondary_without_hint", self.secondary_without_hint),
            ("incomplete", self.incomplete),
            ("graphql_rate_limited", self.graphql_rate_limited),
            ("graphql_partial", self.graphql_partial),
            ("undercount", self.undercount),
            ("overcount", self.overcount),
            ("gone", self.gone),
            ("renamed", self.renamed),
            ("blocked", self.blocked),
            ("blocked_tos", self.blocked_tos),
            ("empty", self.empty),
        ]
    }

    /// Why these faults cannot be served, in words for the person who set them.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some((name, rate)) = self.rates().into_iter().find(|(_, rate)| !(0.0..=1.0).contains(rate)) {
            return Some(format!("{name} must lie between 0 and 1, not {rate}"));
        }
        if !(0.0..=3600.0).contains(&self.slow_seconds) {
            return Some(format!("slow_seconds must lie between 0 and 3600, not {}", self.slow_seconds));
        }
        if !(self.clock_ahead_seconds.is_finite() && self.clock_ahead_seconds.abs() <= 86_400.0) {
            return Some(format!("clock_ahead_seconds must be at most a day, not {}", self.clock_ahead_seconds));
        }
        if !(0.0..=0.25).contains(&self.total_noise) {
            return Some(format!("total_noise must lie between 0 and 0.25, not {}", self.total_noise));
        }
        (self.total_bits == 0).then(|| "total_bits must be at least 1".to_owned())
    }

    /// The state that a repository is in under these faults, by its `owner/name`.
    pub(crate) fn state(&self, seed: u64, full_name: &str) -> RepoState {
        let draw = unit(mix(hash_text(seed, &full_name.to_lowercase()), &[0x57A7E]));
        let states = [
            (RepoState::Gone, self.gone),
            (RepoState::Renamed, self.renamed),
            (RepoState::Blocked, self.blocked),
            (RepoState::BlockedTos, self.blocked_tos),
            (RepoState::Empty, self.empty),
        ];
        let mut upper = 0.0;
        for (state, share) in states {
            upper += share;
            if draw < upper {
                return state;
            }
        }
        RepoState::Present
    }
}

/// What became of a repository that code search lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepoState {
    Present,
    Gone,
    Renamed,
    Blocked,
    BlockedTos,
    Empty,
}

/// What is done to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    SearchTimeout,
    Internal,
    BadGateway,
    Unavailable,
    GatewayTimeout,
    Truncated,
    Dropped,
    Slow,
    SecondaryWithoutHint,
    Incomplete,
    GraphqlRateLimited,
    GraphqlPartial,
    /// A query over many repositories that ran out of time.
    GraphqlTooMany,
}

/// Which requests a fault can befall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    CodeSearch,
    Graphql,
    Rest,
}

/// How often each request failed so far. Only requests that did fail are kept.
#[derive(Debug, Default)]
pub(crate) struct Record {
    failed: HashMap<u64, u32>,
}

impl Record {
    /// The fault that befalls the request with this `key`, if any. `many` is the share of failures that its size
    /// alone causes (1 fails for ever).
    pub(crate) fn draw(&mut self, faults: &Faults, seed: u64, key: u64, kind: Kind, many: f64) -> Option<Fault> {
        if many >= 1.0 {
            return Some(Fault::GraphqlTooMany);
        }
        let failed = self.failed.get(&key).copied().unwrap_or(0);
        if failed >= faults.at_most {
            return None;
        }
        let (search, graphql) = (kind == Kind::CodeSearch, kind == Kind::Graphql);
        let only = |applies: bool, rate: f64| if applies { rate } else { 0.0 };
        let table = [
            (Fault::SearchTimeout, only(search, faults.search_timeout)),
            (Fault::Incomplete, only(search, faults.incomplete)),
            (Fault::GraphqlRateLimited, only(graphql, faults.graphql_rate_limited)),
            (Fault::GraphqlPartial, only(graphql, faults.graphql_partial)),
            (Fault::GraphqlTooMany, only(graphql, many)),
            (Fault::Internal, faults.internal),
            (Fault::BadGateway, faults.bad_gateway),
            (Fault::Unavailable, faults.unavailable),
            (Fault::GatewayTimeout, faults.gateway_timeout),
            (Fault::Truncated, faults.truncated),
            (Fault::Dropped, faults.dropped),
            (Fault::Slow, faults.slow),
            (Fault::SecondaryWithoutHint, faults.secondary_without_hint),
        ];
        let draw = unit(mix(seed, &[0xFA17, key, u64::from(failed)]));
        let mut upper = 0.0;
        let fault = table.into_iter().find_map(|(fault, rate)| {
            upper += rate;
            (draw < upper).then_some(fault)
        })?;
        *self.failed.entry(key).or_default() += 1;
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_gets_through_and_the_same_seed_fails_alike() {
        let faults = Faults { internal: 1.0, ..Faults::default() };
        let mut record = Record::default();
        let drawn: Vec<_> = (0..4).map(|_| record.draw(&faults, 1, 9, Kind::Rest, 0.0)).collect();
        assert_eq!(drawn, [Some(Fault::Internal), Some(Fault::Internal), None, None]);

        let faults = Faults::rough();
        let run = |seed| {
            let mut record = Record::default();
            (0..500).map(|key| record.draw(&faults, seed, key, Kind::CodeSearch, 0.0)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let share = run(1).iter().flatten().count() as f64 / 500.0;
        assert!((share - 0.16).abs() < 0.06, "{share}");
    }

    #[test]
    fn states_follow_their_shares_whatever_the_case() {
        let faults = Faults { gone: 0.5, blocked: 0.5, ..Faults::default() };
        let states: Vec<_> = (0..400).map(|i| faults.state(3, &format!("owner/name{i}"))).collect();
        let gone = states.iter().filter(|s| **s == RepoState::Gone).count();
        assert!((150..250).contains(&gone), "{gone}");
        assert!(states.iter().all(|s| *s != RepoState::Present));
        assert_eq!(faults.state(3, "Owner/Name1"), faults.state(3, "owner/name1"));
    }

    #[test]
    fn a_rate_outside_its_range_is_named() {
        assert!(Faults { slow: 1.5, ..Faults::default() }.problem().unwrap().contains("slow"));
        assert_eq!(Faults::rough().problem(), None);
    }
}
