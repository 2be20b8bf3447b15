//! Counts for the report and the status.

use super::{BlobId, Store, StoreError};
use sqlx::FromRow;

/// A word with how many artifacts it is said of.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct WordCount {
    /// The word; empty where nothing is known.
    pub word: String,
    /// How many.
    pub count: i64,
}

/// Artifacts of a platform with a function.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CrossCount {
    /// The row.
    pub row: String,
    /// The column.
    pub col: String,
    /// How many.
    pub count: i64,
}

/// What a run brought.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct GrowthRow {
    /// The run.
    pub id: i64,
    /// Its command.
    pub command: String,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Artifacts that it saw first.
    pub artifacts: i64,
    /// Versions that it saw first.
    pub versions: i64,
}

/// Windows of the last crawl in one state.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct WindowCount {
    /// The state.
    pub state: String,
    /// How many windows.
    pub windows: i64,
    /// Hits that they announced.
    pub total: i64,
    /// Hits that no query can reach.
    pub unreachable: i64,
}

/// What a model said of a text, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct PlatformPredictions {
    /// Key of the blob.
    pub blob_id: i64,
    /// Platforms of the present artifacts that hold it, parted by commas.
    pub platforms: String,
    /// The predictions on its items, packed.
    pub packed: Vec<u8>,
}

const PRESENT: &str = " WHERE a.presence = 'present' GROUP BY 1 ORDER BY 2 DESC, 1";

/// What a run that collected did to the corpus.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, FromRow)]
pub struct ChurnRow {
    /// The run.
    pub id: i64,
    /// Its command.
    pub command: String,
    /// Unix milliseconds.
    pub started_at: i64,
    /// How it ended; nothing while it runs or when it was killed.
    pub outcome: Option<String>,
    /// Artifacts that it saw first.
    pub added: i64,
    /// Artifacts that it found changed.
    pub changed: i64,
    /// Artifacts that it found gone.
    pub gone: i64,
    /// Artifacts that were there after it.
    pub present: i64,
}

impl Store {
    /// The last `limit` runs that collected, newest first.
    pub async fn churn(&self, limit: usize) -> Result<Vec<ChurnRow>, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/status_churn.sql"))
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read what runs did", e))
    }

    async fn words(&self, doing: &'static str, sql: String) -> Result<Vec<WordCount>, StoreError> {
        sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(self.read()).await.map_err(|e| self.failed(doing, e))
    }

    /// Present artifacts by primary language of their repository.
    pub async fn language_counts(&self) -> Result<Vec<WordCount>, StoreError> {
        let sql = "SELECT coalesce(r.language, '') AS word, count(*) AS count FROM artifact a \
                   JOIN repo r ON r.id = a.repo_id";
        self.words("count languages", format!("{sql}{PRESENT}")).await
    }

    /// Present artifacts by licence tier of their repository; empty where it was not judged.
    pub async fn tier_counts(&self) -> Result<Vec<WordCount>, StoreError> {
        let sql = "SELECT coalesce(r.license_tier, '') AS word, count(*) AS count FROM artifact a \
                   JOIN repo r ON r.id = a.repo_id";
        self.words("count licences", format!("{sql}{PRESENT}")).await
    }

    /// Present artifacts by the value of one tag; empty where they are not tagged.
    pub async fn tag_value_counts(&self, dimension: &'static str) -> Result<Vec<WordCount>, StoreError> {
        let sql = format!(
            "SELECT coalesce(t.value, '') AS word, count(*) AS count FROM artifact a \
             LEFT JOIN tag t ON t.artifact_id = a.id AND t.dimension = '{dimension}'"
        );
        self.words("count tags", sql + PRESENT).await
    }

    /// Present artifacts by platform and function.
    pub async fn platform_functions(&self) -> Result<Vec<CrossCount>, StoreError> {
        sqlx::query_as(
            "SELECT a.platform AS row, t.value AS col, count(*) AS count FROM artifact a \
             JOIN tag t ON t.artifact_id = a.id AND t.dimension = 'function' \
             WHERE a.presence = 'present' GROUP BY 1, 2 ORDER BY 1, 2",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count functions", e))
    }

    /// Predictions on texts that present artifacts hold, at most `limit` after the blob `after`, by key.
    pub async fn platform_predictions_after(
        &self,
        after: BlobId,
        limit: usize,
    ) -> Result<Vec<PlatformPredictions>, StoreError> {
        sqlx::query_as(
            "SELECT p.blob_id, group_concat(DISTINCT a.platform) AS platforms, p.packed FROM prediction p \
             JOIN version v ON v.blob_id = p.blob_id AND v.current = 1 \
             JOIN artifact a ON a.id = v.artifact_id AND a.presence = 'present' \
             WHERE p.blob_id > ? GROUP BY p.blob_id ORDER BY p.blob_id LIMIT ?",
        )
        .bind(after.0)
        .bind(limit as i64)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read predictions", e))
    }

    /// Bytes of each distinct blob that a present artifact holds, ascending.
    pub async fn blob_sizes(&self) -> Result<Vec<i64>, StoreError> {
        sqlx::query_scalar(
            "SELECT size FROM blob b WHERE EXISTS (SELECT 1 FROM version v JOIN artifact a ON a.id = v.artifact_id \
             WHERE v.blob_id = b.id AND v.current = 1 AND a.presence = 'present') ORDER BY size",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read sizes", e))
    }

    /// Members of each near-duplicate cluster of two or more texts, most first.
    pub async fn cluster_sizes(&self) -> Result<Vec<i64>, StoreError> {
        sqlx::query_scalar("SELECT count(*) FROM duplicate GROUP BY canonical_id HAVING count(*) > 1 ORDER BY 1 DESC")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("count clusters", e))
    }

    /// Windows of the last crawl by state; empty before the first.
    pub async fn window_counts(&self) -> Result<Vec<WindowCount>, StoreError> {
        sqlx::query_as(
            "SELECT state, count(*) AS windows, coalesce(sum(total), 0) AS total, \
             coalesce(sum(unreachable), 0) AS unreachable FROM crawl_window \
             WHERE run_id = (SELECT max(run_id) FROM crawl_window) GROUP BY state ORDER BY state",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count windows", e))
    }

    /// What each run brought, oldest first.
    pub async fn growth(&self) -> Result<Vec<GrowthRow>, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/report_growth.sql"))
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the growth", e))
    }
}
