//! The corpus on disk: one SQLite file, written by one connection and read by several.
//!
//! Every write is a batch inside a transaction that takes the write lock at once, so a kill between two batches leaves
//! whole batches and a second process waits instead of failing half-way. The schema is in `migrations/`.

mod artifacts;
mod blobs;
mod copy;
mod crawl;
mod dictionary;
mod etags;
mod export;
mod figures;
mod gold;
mod histories;
mod hits;
mod journal;
mod listing;
mod optouts;
mod predictions;
mod reading;
mod refresh;
mod repos;
mod runs;
mod segmentations;
mod statistics;
mod tags;

pub use artifacts::{ArtifactRow, Written};
pub use blobs::{BlobId, Codec, NewBlob, Packer};
pub use copy::{CopiedBlob, CopiedGold, CopiedItems, is_copy};
pub use crawl::{
    Completeness, HistoryRow, HitRow, PageRow, PendingRepo, RepoFound, StoredPage, WindowKey, WindowRow, WithoutHistory,
};
pub use dictionary::{DictionaryGain, Training};
pub use export::{
    ExportArtifact, ExportKey, ExportLabel, ExportOccurrence, ExportReading, ExportRepo, ExportTag, Funnel,
};
pub use figures::{ChurnRow, CrossCount, GrowthRow, PlatformPredictions, WindowCount, WordCount};
pub use gold::{CheckDocument, CheckItemRow, DecisionRow, DocumentRow, GoldItemRow, NewDecision, SampleRow};
pub use histories::StoredHistory;
pub use hits::UnknownHits;
pub use journal::{Journal, Mark, MarkRow, NewMark, Put, TooMany};
pub use listing::{ArtifactListing, BlobListing, Counts, PlatformCount};
pub use optouts::{OptOutKey, OptOutRow, OptOuts, Removed};
pub use predictions::{PredictionRow, PredictionVersions, StalePrediction};
pub use reading::{BesideCounts, HitCounts};
pub use refresh::{KnownArtifact, Listed, RefreshCounts, RefreshRepo};
pub use repos::{RepoFacts, RepoId, RepoRow};
pub use runs::{FailureRow, RunId, RunRow};
pub use segmentations::{ReadingRow, ReadingVersions, StaleBlob};
pub use statistics::{ClusterCounts, DuplicateRow, Holding, NewStatistics, StatisticsRow};
pub use tags::{LicenseRow, LicenseSubject, NewTag, TagListing, TagSubject, TaggedArtifact};

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{QueryBuilder, Sqlite, SqlitePool, Transaction};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// How long a statement waits for another process's write before it fails.
const BUSY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 60 });
/// Rows in one statement: past a few hundred the cost per row no longer falls.
const BATCH: usize = 400;

/// Why the corpus could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is not there and was not to be made.
    #[error("Failed to open {path}: there is no corpus here; `aac build`, `aac crawl` or `aac ingest` makes one", path = .path.display())]
    Missing {
        /// The database file.
        path: PathBuf,
    },
    /// The file cannot be opened, or is no SQLite database.
    #[error("Failed to open {path}: {source}{advice}", path = .path.display(), advice = advice(.source))]
    Open {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The schema could not be brought up to date; also when a newer release made the file.
    #[error("Failed to migrate {path}: {source}; a corpus made by a newer release needs that release", path = .path.display())]
    Migrate {
        /// The database file.
        path: PathBuf,
        /// What went wrong.
        source: sqlx::migrate::MigrateError,
    },
    /// A statement failed.
    #[error("Failed to {doing} in {path}: {source}{advice}", path = .path.display(), advice = advice(.source))]
    Statement {
        /// What was being done.
        doing: &'static str,
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// A copy for others was to be extended.
    #[error("Failed to {doing} in {path}: it is a redacted copy, made to be read and exported; work on the corpus that it was made from", path = .path.display())]
    Copy {
        /// What was to be done.
        doing: String,
        /// The database file.
        path: PathBuf,
    },
    /// A stored value is not what it should be.
    #[error("Failed to read {what} in {path}: {why}; `PRAGMA integrity_check` tells how far the damage goes", path = .path.display())]
    Damaged {
        /// Which row and column.
        what: String,
        /// The database file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl StoreError {
    /// Whether the disk is full, the file is read-only or another process holds it: nothing is lost, and the same
    /// command works once that is mended.
    pub fn is_outside_cause(&self) -> bool {
        let (Self::Statement { source, .. } | Self::Open { source, .. }) = self else { return false };
        matches!(result_code(source), Some(BUSY_CODE | LOCKED | READONLY | FULL | CANTOPEN))
    }
}

/// SQLite's primary result codes that have a remedy of their own: <https://www.sqlite.org/rescode.html>.
const BUSY_CODE: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const NOTADB: i32 = 26;

/// The primary result code of an error that SQLite gave: the low byte of the extended one.
fn result_code(source: &sqlx::Error) -> Option<i32> {
    source.as_database_error()?.code()?.parse::<i32>().ok().map(|code| code & 0xff)
}

/// What to do about an error of SQLite, as the end of a sentence.
fn advice(source: &sqlx::Error) -> &'static str {
    match result_code(source) {
        Some(BUSY_CODE | LOCKED) => {
            "; another process holds the corpus: let it end, then run the same command again (nothing stored is lost)"
        }
        Some(READONLY) => "; make the file and its folder writable, or name another corpus with --db",
        Some(IOERR | FULL) => {
            "; see to free space on that disk, then run the same command again (nothing stored is lost)"
        }
        Some(CORRUPT) => {
            "; the file is damaged: go on from a copy, or save what can be read with `sqlite3 FILE .recover`"
        }
        Some(CANTOPEN) => "; the folder must exist and be writable",
        Some(NOTADB) => "; name another file with --db",
        _ => "",
    }
}

/// An open corpus. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    path: Arc<PathBuf>,
    writer: SqlitePool,
    readers: SqlitePool,
    codec: Arc<RwLock<Codec>>,
    is_copy: bool,
}

impl Store {
    /// Open the corpus at `path`, making it when it is not there, and bring its schema up to date.
    pub async fn create(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, true).await
    }

    /// Open a corpus that is there. An absent file is an error.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        Self::open_with(path, false).await
    }

    async fn open_with(path: &Path, create: bool) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Open { path: path.to_owned(), source };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(create)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            // In WAL mode NORMAL survives a killed process; a power cut may lose the last batches, never corrupt.
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY)
            .pragma("cache_size", "-65536")
            .pragma("journal_size_limit", "67108864")
            .pragma("temp_store", "memory");
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await.map_err(failed)?;
        MIGRATOR.run(&writer).await.map_err(|source| StoreError::Migrate { path: path.to_owned(), source })?;
        let readers = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_lazy_with(options.pragma("query_only", "on").pragma("cache_size", "-16384"));
        let codec = Arc::new(RwLock::new(Codec::plain()));
        let mut store = Self { path: Arc::new(path.to_owned()), writer, readers, codec, is_copy: false };
        store.reload_codec().await?;
        store.is_copy = store.setting(copy::MARK).await?.is_some();
        Ok(store)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Write what is in the log into the database file and close every connection.
    pub async fn close(self) {
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await;
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Take the schema back to `version`; 0 drops everything. For tests of migrations and for going back a release.
    pub async fn migrate_down(&self, version: i64) -> Result<(), StoreError> {
        MIGRATOR
            .undo(&self.writer, version)
            .await
            .map_err(|source| StoreError::Migrate { path: self.path.to_path_buf(), source })
    }

    /// What `PRAGMA integrity_check` and `PRAGMA foreign_key_check` find; empty when all is well.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let doing = "check the database";
        let mut found: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check")
            .fetch_all(&self.readers)
            .await
            .map_err(|e| self.failed(doing, e))?;
        found.retain(|line| line != "ok");
        let orphans: Vec<(String, Option<i64>, String, i64)> = sqlx::query_as("PRAGMA foreign_key_check")
            .fetch_all(&self.readers)
            .await
            .map_err(|e| self.failed(doing, e))?;
        found.extend(
            orphans.iter().map(|(table, row, parent, _)| format!("{table} row {row:?} points nowhere in {parent}")),
        );
        Ok(found)
    }

    /// The connections that read. Rows committed by [`Self::begin`]'s transactions are visible at once.
    pub(crate) fn read(&self) -> &SqlitePool {
        &self.readers
    }

    /// A transaction that holds the write lock from its start.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(|e| self.failed("begin a write", e))
    }

    /// Commit, with the error of this store.
    pub(crate) async fn commit(&self, transaction: Transaction<'static, Sqlite>) -> Result<(), StoreError> {
        transaction.commit().await.map_err(|e| self.failed("commit", e))
    }

    pub(crate) fn failed(&self, doing: &'static str, source: sqlx::Error) -> StoreError {
        StoreError::Statement { doing, path: self.path.to_path_buf(), source }
    }

    pub(crate) fn damaged(&self, what: impl Into<String>, why: impl Into<String>) -> StoreError {
        StoreError::Damaged { what: what.into(), path: self.path.to_path_buf(), why: why.into() }
    }
}

/// `…, …)`: the rest of a statement that ends in a list of keys.
pub(crate) fn list(query: &mut QueryBuilder<Sqlite>, ids: impl Iterator<Item = i64>) {
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(id);
    }
    query.push(")");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_corpus_that_another_process_writes_is_waited_for_and_then_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.db");
        let (one, two) = (Store::create(&path).await.unwrap(), Store::create(&path).await.unwrap());
        let writing = one.begin().await.unwrap();
        let error = two.begin().await.unwrap_err();
        assert!(error.is_outside_cause(), "{error}");
        let told = error.to_string();
        assert!(told.contains("c.db") && told.contains("another process holds the corpus"), "{told}");
        drop(writing);
        two.begin().await.unwrap();
    }
}
