//! The work, step by step: each file is one job over the store, resumable and safe to repeat.

pub mod build;
pub mod classify;
pub mod crawl;
pub mod dedup;
pub mod encoders;
pub mod evaluate;
pub mod explain;
pub mod export;
mod file;
pub mod finetune;
pub mod gold;
pub mod hydrate;
pub mod ingest;
mod judging;
pub mod license;
pub mod llm;
pub mod model;
pub mod optout;
pub mod refresh;
pub mod report;
pub mod retrieve;
pub mod segment;
mod service;
pub mod stale;
pub mod tag;
pub mod train;

pub use judging::JudgeError;
pub use service::SERVICE;
