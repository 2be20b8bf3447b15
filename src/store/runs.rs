//! Runs, failures, settings and opt-outs.

use super::{Store, StoreError};
use crate::taxonomy::Outcome;
use serde_json::Value;
use sqlx::{Sqlite, Transaction};

/// Key of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// One invocation that changed the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Key.
    pub id: RunId,
    /// The subcommand.
    pub command: String,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds; `None` while it runs, or when it was killed.
    pub ended_at: Option<i64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The JSON that the command printed.
    pub summary: Option<Value>,
}

/// Something that did not work and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRow {
    /// The step, for example `content`.
    pub stage: String,
    /// The repository, path, window or blob.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Store {
    /// Record that a command starts to change the corpus. `now` is Unix milliseconds. A copy for others has no runs of
    /// its own.
    pub async fn begin_run(&self, command: &str, options: &Value, now: i64) -> Result<RunId, StoreError> {
        self.refuse_copy(command)?;
        let mut tx = self.begin().await?;
        let id = sqlx::query("INSERT INTO run (command, options, version, started_at) VALUES (?, ?, ?, ?)")
            .bind(command)
            .bind(options.to_string())
            .bind(env!("CARGO_PKG_VERSION"))
            .bind(now)
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed("begin a run", e))?
            .last_insert_rowid();
        self.commit(tx).await?;
        Ok(RunId(id))
    }

    /// Record how a run ended. `now` is Unix milliseconds.
    pub async fn end_run(&self, run: RunId, outcome: Outcome, summary: &Value, now: i64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE run SET ended_at = ?, outcome = ?, summary = ? WHERE id = ?")
            .bind(now)
            .bind(outcome.as_str())
            .bind(summary.to_string())
            .bind(run.0)
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed("end a run", e))?;
        self.commit(tx).await
    }

    /// All runs, oldest first.
    pub async fn runs(&self) -> Result<Vec<RunRow>, StoreError> {
        type Row = (i64, String, i64, Option<i64>, Option<String>, Option<String>);
        let rows: Vec<Row> =
            sqlx::query_as("SELECT id, command, started_at, ended_at, outcome, summary FROM run ORDER BY id")
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("list runs", e))?;
        let parse = |(id, command, started_at, ended_at, outcome, summary): Row| RunRow {
            id: RunId(id),
            command,
            started_at,
            ended_at,
            outcome: outcome.and_then(|o| o.parse().ok()),
            summary: summary.and_then(|s| serde_json::from_str(&s).ok()),
        };
        Ok(rows.into_iter().map(parse).collect())
    }

    /// Add failures of a run. `now` is Unix milliseconds.
    pub async fn add_failures(&self, run: RunId, failures: &[FailureRow], now: i64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for failure in failures {
            sqlx::query("INSERT INTO failure (run_id, stage, what, why, at) VALUES (?, ?, ?, ?, ?)")
                .bind(run.0)
                .bind(&failure.stage)
                .bind(&failure.what)
                .bind(&failure.why)
                .bind(now)
                .execute(&mut *tx)
                .await
                .map_err(|e| self.failed("record a failure", e))?;
        }
        self.commit(tx).await
    }

    /// The failures of a run, in the order they happened.
    pub async fn failures(&self, run: RunId) -> Result<Vec<FailureRow>, StoreError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT stage, what, why FROM failure WHERE run_id = ? ORDER BY id")
                .bind(run.0)
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("list failures", e))?;
        Ok(rows.into_iter().map(|(stage, what, why)| FailureRow { stage, what, why }).collect())
    }

    /// A value kept beside the corpus, or nothing.
    pub async fn setting(&self, key: &str) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar("SELECT value FROM setting WHERE key = ?")
            .bind(key)
            .fetch_optional(self.read())
            .await
            .map_err(|e| self.failed("read a setting", e))
    }

    /// Keep a value beside the corpus.
    pub async fn set_setting(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.set_setting_in(&mut tx, key, value).await?;
        self.commit(tx).await
    }

    /// [`Self::set_setting`] inside a transaction of the caller.
    pub(crate) async fn set_setting_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        key: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO setting (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )
        .bind(key)
        .bind(value)
        .execute(&mut **tx)
        .await
        .map_err(|e| self.failed("write a setting", e))?;
        Ok(())
    }

    /// The owners and repositories that asked not to be collected, as lower-case `owner` or `owner/name`, sorted.
    pub async fn optouts(&self) -> Result<Vec<String>, StoreError> {
        sqlx::query_scalar("SELECT owner || CASE name WHEN '' THEN '' ELSE '/' || name END FROM optout ORDER BY 1")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list opt-outs", e))
    }
}
