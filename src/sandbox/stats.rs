//! What the sandbox was asked, for tests that count requests.

use super::limits::WindowUse;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters since the start; `GET /_sandbox/stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Requests by resource (`code_search`, `core`, `graphql`, `search`, `free`) and outcome: `ok`, `not_modified`,
    /// `redirect`, `refused` (4xx that is the client's doing), `primary_limit`, `secondary_limit`, `fault`, `error`.
    pub requests: BTreeMap<String, BTreeMap<String, u64>>,
    /// Windows of the primary limits by resource: what they allowed and what was used of it.
    pub windows: BTreeMap<String, WindowUse>,
    /// GraphQL points spent.
    pub graphql_points: u64,
    /// Repositories asked for over GraphQL.
    pub graphql_repositories: u64,
    /// Bytes of bodies sent.
    pub bytes_sent: u64,
    /// Files that code search can find now.
    pub indexed: u64,
    /// Repositories of the world now.
    pub repositories: u64,
    /// How often the world has moved on.
    pub epoch: u32,
}

impl Stats {
    /// Requests of `resource` with `outcome`.
    pub fn count(&self, resource: &str, outcome: &str) -> u64 {
        self.requests.get(resource).and_then(|outcomes| outcomes.get(outcome)).copied().unwrap_or(0)
    }

    /// Every request of `resource`.
    pub fn total(&self, resource: &str) -> u64 {
        self.requests.get(resource).map_or(0, |outcomes| outcomes.values().sum())
    }

    /// Requests that a limit refused.
    pub fn limited(&self) -> u64 {
        self.requests.keys().map(|r| self.count(r, "primary_limit") + self.count(r, "secondary_limit")).sum()
    }

    pub(crate) fn note(&mut self, resource: &str, outcome: &str) {
        *self.requests.entry(resource.to_owned()).or_default().entry(outcome.to_owned()).or_default() += 1;
    }
}
