//! Rebuild, refresh and refit the AgentArtifactCorpus.
//!
//! The modules form layers; imports point down only. `README.md` has the table, and `tests/it/layers.rs` holds the
//! code to it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod agreement;
#[cfg(feature = "app")]
pub mod annotate;
#[cfg(feature = "s3")]
pub mod bucket;
pub mod classify;
#[cfg(feature = "app")]
pub mod cli;
#[cfg(feature = "app")]
pub mod config;
pub mod corpus;
pub mod dedup;
#[cfg(feature = "encoder")]
pub mod encoder;
pub mod encoding;
#[cfg(feature = "app")]
pub mod github;
#[cfg(feature = "app")]
pub mod job;
pub mod license;
#[cfg(feature = "app")]
pub mod llm;
#[cfg(feature = "app")]
mod loopback;
pub mod monitor;
#[cfg(feature = "app")]
pub mod parquet;
pub mod plan;
pub mod redact;
#[cfg(feature = "app")]
pub mod repos;
#[cfg(feature = "app")]
pub mod sandbox;
pub mod segment;
#[cfg(feature = "app")]
pub mod store;
pub mod tag;
pub mod taxonomy;
#[cfg(feature = "app")]
pub mod terminal;
#[cfg(feature = "train")]
pub mod train;
pub mod triage;
