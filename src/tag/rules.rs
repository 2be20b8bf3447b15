//! Reading rule files.

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexSet, RegexSetBuilder};
use serde::de::DeserializeOwned;

/// Why a rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Not the expected TOML.
    #[error("Failed to read rules {file}: {source}")]
    Toml {
        /// Name of the rule file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A pattern that does not compile.
    #[error("Failed to compile a pattern of {file}: {source}")]
    Pattern {
        /// Name of the rule file.
        file: String,
        /// Which and why.
        #[source]
        source: Box<regex::Error>,
    },
    /// Words that make no automaton.
    #[error("Failed to compile the needles of {file}: {source}")]
    Needles {
        /// Name of the rule file.
        file: String,
        /// Why.
        #[source]
        source: Box<aho_corasick::BuildError>,
    },
}

pub(super) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, RulesError> {
    toml::from_str(text).map_err(|source| RulesError::Toml { file: file.to_owned(), source: Box::new(source) })
}

pub(super) fn set<'a>(file: &str, patterns: impl IntoIterator<Item = &'a str>) -> Result<RegexSet, RulesError> {
    RegexSetBuilder::new(patterns)
        .size_limit(1 << 26)
        .build()
        .map_err(|source| RulesError::Pattern { file: file.to_owned(), source: Box::new(source) })
}

pub(super) fn pattern(file: &str, pattern: &str) -> Result<Regex, RulesError> {
    Regex::new(pattern).map_err(|source| RulesError::Pattern { file: file.to_owned(), source: Box::new(source) })
}

pub(super) fn needles(file: &str, needles: &[String]) -> Result<AhoCorasick, RulesError> {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(needles)
        .map_err(|source| RulesError::Needles { file: file.to_owned(), source: Box::new(source) })
}
