//! Shards that every reader loads: one explicit schema a table, the same in every shard, zstd, small row groups.
//!
//! Conventions: strings are plain UTF-8 (never `LargeUtf8` or views), times are UTC microseconds, nullable is stated,
//! lists of structs instead of maps. Enumerations are dictionary-encoded inside the file and plain strings to readers.

mod artifacts;
mod columns;
mod gold;
mod groups;
mod items;
mod occurrences;
mod shards;

pub use artifacts::{ArtifactRecord, ArtifactTable, TagRecord};
pub use columns::{Columns, Role};
pub use gold::{GoldRecord, GoldTable, LabelRecord};
pub use items::{ItemRecord, ItemTable, ProbabilityRecord};
pub use occurrences::{OccurrenceRecord, OccurrenceTable};
pub use shards::{ColumnInfo, ShardError, ShardOptions, ShardSet, Table, Written, columns_of};

/// Version of the schemas; in the footer of every file.
pub const SCHEMA_VERSION: u32 = 1;
