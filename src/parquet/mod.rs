//! Shards that every reader loads: one explicit schema a table, the same in every shard, zstd, small row groups.
//!
//! Conventions: strings are plain UTF-8 (never `LargeUtf8` or views), times are UTC microseconds, nullable is stated,
//! lists of structs instead of maps. Enumerations are dictionary-encoded inside the file and plain strings to readers.

mod artifacts;
mod shards;

pub use artifacts::{ArtifactRecord, ArtifactTable};
pub use shards::{ShardError, ShardOptions, ShardSet, Table, Written};
