//! What to ask code search, and in which order.

pub mod targets;

pub use targets::{Owner, PlatformInfo, Selection, Target, TargetError, Targets, UnknownPlatform};
