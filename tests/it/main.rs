//! The one integration binary: what several rooms do together, and what outside programs say about it.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// What is skipped for want of somebody else's program is said on standard error.
#![allow(clippy::print_stderr)]

#[cfg(feature = "app")]
mod annotate;
#[cfg(feature = "app")]
mod build;
#[cfg(feature = "app")]
mod classify;
#[cfg(feature = "app")]
mod cli;
#[cfg(feature = "app")]
mod clock;
#[cfg(feature = "app")]
mod crawl;
#[cfg(feature = "app")]
mod crawl_cases;
#[cfg(feature = "app")]
mod crawl_kill;
#[cfg(feature = "app")]
mod crawl_limits;
#[cfg(feature = "app")]
mod crawl_parity;
#[cfg(feature = "app")]
mod encoder;
#[cfg(feature = "app")]
mod export;
#[cfg(feature = "app")]
mod export_copy;
#[cfg(feature = "s3")]
mod export_s3;
#[cfg(feature = "app")]
mod github;
#[cfg(feature = "app")]
mod gold;
#[cfg(feature = "app")]
mod hardship;
#[cfg(feature = "app")]
mod hydrate;
#[cfg(feature = "app")]
mod ingest;
#[cfg(feature = "app")]
mod ingest_forms;
#[cfg(feature = "app")]
mod judgements;
mod layers;
#[cfg(feature = "app")]
mod llm;
#[cfg(feature = "app")]
mod llm_cli;
#[cfg(feature = "app")]
mod llm_server;
mod policies;
#[cfg(feature = "app")]
mod readme;
mod refresh;
#[cfg(feature = "app")]
mod refresh_faults;
#[cfg(feature = "app")]
mod refresh_judge;
#[cfg(feature = "app")]
mod repos;
#[cfg(feature = "app")]
mod sandbox;
#[cfg(feature = "app")]
mod store;
#[cfg(feature = "app")]
mod triage;
