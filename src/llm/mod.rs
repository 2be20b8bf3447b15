//! Language models behind chat interfaces: OpenAI-compatible completions and Anthropic messages.
//!
//! [`Asker`] asks many questions at once, keeps every answer in a file as it comes, spends no more than it may, waits as
//! long as a server asks it to, and asks again when an answer cannot be used. What is asked, and what an answer means,
//! is decided elsewhere; texts must be redacted before they come here.

mod asker;
mod budget;
mod cache;
mod client;
mod endpoint;
mod retry;
mod wire;

pub use asker::{Answers, Asker, AskerOptions, LlmReport};
pub use budget::{Limits, Prices, Spent};
pub use cache::Kept;
pub use client::Sleeper;
pub use endpoint::{Api, Endpoint, Key};
pub use retry::Policy;
pub use wire::Request;

use std::path::PathBuf;
use std::time::Duration;

/// Why a language model did not answer. What was answered before is kept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LlmError {
    /// The configuration of the endpoint is wrong.
    #[error("Failed to use the language model: {what} {why}")]
    Setup {
        /// The variable, flag or key concerned.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server wants a key, or another one.
    #[error(
        "Failed to ask {host}: it refused the key (HTTP {status}); {}",
        if *.set { format!("the one in {variable} is not good for it") } else { format!("set {variable}, which is empty") }
    )]
    Key {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
        /// The environment variable that the key is read from.
        variable: String,
        /// Whether that variable holds anything.
        set: bool,
    },
    /// The server will never answer this.
    #[error("Failed to ask {host}: HTTP {status}: {why}")]
    Refused {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
        /// What it said.
        why: String,
    },
    /// The server cannot be reached, or answers nothing whole.
    #[error("Paused: {host} did not answer after {tries} tries: {why}; {}, the same command goes on", KEPT)]
    Away {
        /// The server.
        host: String,
        /// How often it was tried.
        tries: u32,
        /// What happened last.
        why: String,
    },
    /// The server refuses for now, and for longer than is worth waiting.
    #[error("Paused: {host} refuses for now (HTTP {status}): {why}; {}, the same command goes on", KEPT)]
    Limited {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
        /// What it said, or how long it wants to be left alone.
        why: String,
    },
    /// The budget is used up.
    #[error("Paused: the budget of {budget} is used up: {spent}; {}, the same command goes on", KEPT)]
    Budget {
        /// What was allowed.
        budget: String,
        /// What was spent.
        spent: Spent,
    },
    /// The user asked to stop.
    #[error("Paused: {spent}; {}, the same command goes on", KEPT)]
    Stopped {
        /// What was spent.
        spent: Spent,
    },
    /// The file of answers cannot be read or written.
    #[error("Failed to {doing} the kept answers in {path}: {why}", path = .path.display())]
    Answers {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
}

impl LlmError {
    /// Whether the same command goes on later, rather than fails again.
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Limited { .. } | Self::Budget { .. } | Self::Stopped { .. })
    }
}

/// What a stopped run leaves behind.
const KEPT: &str = "what was answered is kept";

/// Seconds as people say them.
fn seconds(duration: Duration) -> String {
    format!("{:.0} s", duration.as_secs_f64().ceil())
}
