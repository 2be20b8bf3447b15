//! The gold set: drawing it, giving labels to and taking them from other tools, and how far annotators agree.

pub mod agree;
pub mod dispute;
pub mod exchange;
pub mod import;
pub mod predict;
pub mod sample;
mod strata;
pub mod verify;
pub mod view;

pub use exchange::StatusCounts;
pub use strata::{Document, Draw, Drawn, Pick, Repo, StarBand, Stratum, draw};

use crate::store::StoreError;

/// The rubric as it ships.
pub const RUBRIC: &str = include_str!("../../../annotation/rubric.md");

/// Version of the rubric, from its `Version N.` line.
pub fn rubric_version() -> i64 {
    let number = RUBRIC.split("Version ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Why a step over the gold set failed. Nothing that was stored is lost.
#[derive(Debug, thiserror::Error)]
pub enum GoldError {
    /// The corpus cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing to draw from.
    #[error("Failed to draw a sample: {0}")]
    Nothing(String),
    /// A sample with labels stands in the way.
    #[error(
        "Failed to draw a sample: the corpus has one with another seed or size, and {labels} labels; --add draws a \
         further one beside it"
    )]
    Labelled {
        /// Labels on the earlier samples.
        labels: usize,
    },
    /// A file cannot be read.
    #[error("Failed to read the labels {file}, {place}: {why}")]
    File {
        /// The file, as named.
        file: String,
        /// The line or task.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// An annotator's labels are there already.
    #[error(
        "Failed to import {file}: {annotator} has {labels} labels in round {pass} already, and two sources of one \
         annotator contradict each other; import as another round with --pass, or under another name with --annotator"
    )]
    Twice {
        /// The file.
        file: String,
        /// The annotator.
        annotator: String,
        /// The round.
        pass: i64,
        /// Labels there.
        labels: i64,
    },
    /// A stored value is not what it should be.
    #[error("Failed to read {what}: {why}")]
    Row {
        /// Which.
        what: String,
        /// What is wrong.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rubric_names_its_version() {
        assert!(super::rubric_version() >= 1);
    }
}
