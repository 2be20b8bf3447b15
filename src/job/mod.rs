//! The work, step by step: each file is one job over the store, resumable and safe to repeat.

pub mod build;
pub mod crawl;
pub mod export;
pub mod ingest;
