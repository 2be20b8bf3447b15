//! The only place that talks to GitHub.
//!
//! [`GitHub`] sends; [`limit`] decides what an answer means; [`Ledger`] knows what may be sent. Each question has a
//! file of its own: [`search_code`], [`content`], [`history`], [`blob`], [`repositories`], [`repository`]. Every GraphQL document is made of the
//! fragments under `queries/graphql/`.

mod batch;
mod blob;
mod client;
mod content;
mod document;
mod history;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod ledger;
pub mod limit;
mod recheck;
mod repository;
#[cfg(test)]
mod samples;
mod search_code;
mod secret;
mod transport;
mod wire;

pub use batch::Batch;
pub use blob::blob;
pub use client::{GitHub, Options, Traffic};
pub use content::{Content, RepositoryAnswer, RepositoryAsk, RepositoryFacts, TreeEntry, content};
pub use history::{Commit, HISTORY_COMMITS, HistoryAsk, PathHistory, Person, history, history_points};
pub use ledger::{Allowance, Ledger, LedgerRow, Limits, Permit, Verdict, Wait};
pub use limit::{Absence, Policy, Resource};
pub use recheck::{NODES, content_by_id, repositories};
pub(crate) use repository::path as repository_path;
pub use repository::{Conditional, RestRepository, repository};
pub use search_code::{FoundFile, SEARCH_CAP, SearchPage, search_code};
pub use secret::{Credentials, Token};
pub use transport::Endpoints;

use jiff::Timestamp;

/// Why GitHub did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No credentials are set.
    #[error("Failed to find credentials for GitHub: set GITHUB_TOKEN or GH_TOKEN, or GITHUB_APP_ID with its key")]
    NoCredentials,
    /// A variable of the credentials is no use.
    #[error("Failed to read the credentials: {variable} {why}")]
    Credentials {
        /// Its name.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// An address is none.
    #[error("Failed to read {variable}: {given:?} is not the address of an interface: {why}")]
    Address {
        /// The variable that holds it.
        variable: &'static str,
        /// Its value.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// The client cannot be built.
    #[error("Failed to set up the HTTP client: {why}")]
    Setup {
        /// Why.
        why: String,
    },
    /// 401.
    #[error(
        "Failed to sign in to {host}: it refused the credentials ({message}); put a valid token into GITHUB_TOKEN or \
         GH_TOKEN"
    )]
    Unauthorized {
        /// Whose interface.
        host: String,
        /// GitHub's words.
        message: String,
    },
    /// A bound is reached: stop, and go on later with the same command.
    #[error("Paused before {what}: {why}")]
    Paused {
        /// What was to be asked next.
        what: String,
        /// The bound.
        why: String,
        /// Not before, when that is known.
        until: Option<Timestamp>,
    },
    /// What was asked for is not there.
    #[error("Failed to read {what}: {absence}")]
    Absent {
        /// What.
        what: String,
        /// Why it is not there.
        absence: Absence,
    },
    /// GitHub does not take the request.
    #[error("Failed to read {what}: GitHub rejected the request (HTTP {status}): {message}")]
    Rejected {
        /// What.
        what: String,
        /// The status; 200 for an error inside a GraphQL answer.
        status: u16,
        /// GitHub's words.
        message: String,
    },
    /// The query has to be cut into smaller ones.
    #[error("Failed to read {what} in one query: {why}")]
    TooHeavy {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// It failed as often as the policy allows.
    #[error("Failed to read {what} after {tries} tries: {why}")]
    Exhausted {
        /// What.
        what: String,
        /// How often it was sent.
        tries: u32,
        /// The status of the last answer, if one came.
        status: Option<u16>,
        /// The last failure.
        why: String,
    },
    /// The answer is whole but is not what GitHub documents.
    #[error("Failed to understand the answer to {what}: {why}")]
    Malformed {
        /// What was asked.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// True when the whole job has to stop: the bound is reached or the credentials are no use.
    pub const fn stops_the_job(&self) -> bool {
        matches!(
            self,
            Self::Paused { .. }
                | Self::Unauthorized { .. }
                | Self::NoCredentials
                | Self::Credentials { .. }
                | Self::Setup { .. }
        )
    }
}
