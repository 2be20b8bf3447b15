//! Opt-outs: what somebody asked not to be collected is removed with everything derived from it, and remembered.

use super::{BATCH, RunId, Store, StoreError};
use crate::corpus::Slug;
use crate::taxonomy::Presence;
use sqlx::{FromRow, QueryBuilder, Sqlite, Transaction};
use std::collections::HashSet;

/// Who or what is opted out: an owner with every repository, or one repository. Compared without regard to ASCII case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OptOutKey {
    owner: String,
    name: String,
}

impl OptOutKey {
    /// An owner with every repository.
    pub fn owner(owner: &str) -> Self {
        Self { owner: owner.to_ascii_lowercase(), name: String::new() }
    }

    /// One repository.
    pub fn repo(slug: &Slug) -> Self {
        Self { owner: slug.owner().to_ascii_lowercase(), name: slug.name().to_ascii_lowercase() }
    }
}

impl std::fmt::Display for OptOutKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.name.is_empty() { f.write_str(&self.owner) } else { write!(f, "{}/{}", self.owner, self.name) }
    }
}

/// An opt-out as remembered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, FromRow)]
pub struct OptOutRow {
    /// Lower-case owner.
    pub owner: String,
    /// Lower-case name; empty for every repository of the owner.
    pub name: String,
    /// The reason given.
    pub why: String,
    /// When, Unix milliseconds.
    pub at: i64,
}

/// How much an opt-out removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Removed {
    /// Repositories of which only a tombstone is left.
    pub repos: u64,
    /// Artifacts with their versions, history and tags.
    pub artifacts: u64,
    /// Blobs that nothing else held, with every judgement about them.
    pub blobs: u64,
    /// Search hits.
    pub hits: u64,
    /// Items of gold samples with their labels.
    pub gold_items: u64,
}

/// The opt-outs in force, to be asked before anything of a repository is fetched or stored.
#[derive(Debug, Clone, Default)]
pub struct OptOuts(HashSet<OptOutKey>);

impl OptOuts {
    /// Whether this repository must not be collected.
    pub fn covers(&self, slug: &Slug) -> bool {
        !self.0.is_empty()
            && (self.0.contains(&OptOutKey::owner(slug.owner())) || self.0.contains(&OptOutKey::repo(slug)))
    }
}

/// Repositories that `?1` (owner) and `?2` (name, or empty) speak of: by the present name, and for a single repository
/// also by a former one.
const COVERED: &str = "SELECT id FROM repo WHERE lower(owner) = ?1 AND (?2 = '' OR lower(name) = ?2) \
     UNION SELECT repo_id FROM repo_name WHERE ?2 <> '' AND lower(owner) = ?1 AND lower(name) = ?2";

impl Store {
    /// The opt-outs in force.
    pub async fn opt_outs(&self) -> Result<OptOuts, StoreError> {
        let rows = self.list_opt_outs().await?;
        Ok(OptOuts(rows.into_iter().map(|row| OptOutKey { owner: row.owner, name: row.name }).collect()))
    }

    /// The opt-outs in force with their reasons, by owner and name.
    pub async fn list_opt_outs(&self) -> Result<Vec<OptOutRow>, StoreError> {
        sqlx::query_as("SELECT owner, name, why, at FROM optout ORDER BY owner, name")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list opt-outs", e))
    }

    /// Remember an opt-out and remove what it covers with everything derived, in one transaction whose deletions are
    /// overwritten in the file. Of a repository only its name, its node id (so that it is known again under another
    /// name) and the reason stay. `now` is Unix milliseconds.
    pub async fn add_opt_out(&self, run: RunId, key: &OptOutKey, why: &str, now: i64) -> Result<Removed, StoreError> {
        let failed = |e| self.failed("opt out", e);
        sqlx::query("PRAGMA secure_delete = ON").execute(&self.writer).await.map_err(failed)?;
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO optout (owner, name, why, at) VALUES (?, ?, ?, ?) \
             ON CONFLICT (owner, name) DO UPDATE SET why = excluded.why",
        )
        .bind(&key.owner)
        .bind(&key.name)
        .bind(why)
        .bind(now)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        let repos: Vec<i64> =
            sqlx::query_scalar(COVERED).bind(&key.owner).bind(&key.name).fetch_all(&mut *tx).await.map_err(failed)?;
        let mut removed = Removed::default();
        for repo in repos {
            self.bury(&mut tx, run, repo, why, &mut removed).await?;
            // One found by a former name must stay away under its present one, too.
            sqlx::query(
                "INSERT INTO optout (owner, name, why, at) SELECT lower(owner), lower(name), ?1, ?2 FROM repo \
                 WHERE id = ?3 AND NOT EXISTS (SELECT 1 FROM optout o WHERE o.owner = lower(repo.owner) \
                 AND o.name IN ('', lower(repo.name)))",
            )
            .bind(why)
            .bind(now)
            .bind(repo)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        }
        self.commit(tx).await?;
        // What the log still holds of it goes into the file, where it is overwritten.
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await.map_err(failed)?;
        sqlx::query("PRAGMA secure_delete = OFF").execute(&self.writer).await.map_err(failed)?;
        Ok(removed)
    }

    async fn bury(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        repo: i64,
        why: &str,
        removed: &mut Removed,
    ) -> Result<(), StoreError> {
        let failed = |e| self.failed("remove a repository", e);
        let blobs: Vec<i64> = sqlx::query_scalar(
            "SELECT DISTINCT v.blob_id FROM version v JOIN artifact a ON a.id = v.artifact_id WHERE a.repo_id = ?",
        )
        .bind(repo)
        .fetch_all(&mut **tx)
        .await
        .map_err(failed)?;
        let slug: String = sqlx::query_scalar("SELECT lower(owner || '/' || name) FROM repo WHERE id = ?")
            .bind(repo)
            .fetch_one(&mut **tx)
            .await
            .map_err(failed)?;
        let mut delete = async |sql: &'static str, number: bool| {
            let query = sqlx::query(sql);
            let query = if number { query.bind(repo) } else { query.bind(&slug) };
            Ok::<u64, StoreError>(query.execute(&mut **tx).await.map_err(failed)?.rows_affected())
        };
        removed.artifacts += delete("DELETE FROM artifact WHERE repo_id = ?", true).await?;
        removed.hits += delete("DELETE FROM hit WHERE repo_id = ?", true).await?;
        delete("DELETE FROM repo_name WHERE repo_id = ?", true).await?;
        delete("DELETE FROM setting WHERE key = 'ingest/' || ?", true).await?;
        removed.gold_items += delete("DELETE FROM gold_item WHERE lower(repo) = ?", false).await?;
        delete(
            "DELETE FROM failure WHERE lower(what) = ?1 OR substr(lower(what), 1, length(?1) + 1) = ?1 || ':'",
            false,
        )
        .await?;
        delete("DELETE FROM etag WHERE instr(lower(url) || '/', '/' || ?1 || '/') > 0", false).await?;
        for chunk in blobs.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM version WHERE blob_id = blob.id) AND id IN (",
            );
            let mut list = query.separated(", ");
            for blob in chunk {
                list.push_bind(blob);
            }
            query.push(")");
            removed.blobs += query.build().execute(&mut **tx).await.map_err(failed)?.rows_affected();
        }
        let buried = sqlx::query(include_str!("../../queries/sql/repo_bury.sql"))
            .bind(Presence::OptedOut.as_str())
            .bind(why)
            .bind(run.0)
            .bind(repo)
            .execute(&mut **tx)
            .await
            .map_err(failed)?;
        removed.repos += buried.rows_affected();
        Ok(())
    }

    /// Forget an opt-out and the tombstones that it alone made, so that the repositories may be collected again. Returns
    /// false when it was not in force.
    pub async fn remove_opt_out(&self, key: &OptOutKey) -> Result<bool, StoreError> {
        let failed = |e| self.failed("take an opt-out back", e);
        let mut tx = self.begin().await?;
        let known = sqlx::query("DELETE FROM optout WHERE owner = ? AND name = ?")
            .bind(&key.owner)
            .bind(&key.name)
            .execute(&mut *tx)
            .await
            .map_err(failed)?
            .rows_affected()
            > 0;
        sqlx::query(
            "DELETE FROM repo WHERE presence = 'opted_out' AND NOT EXISTS (SELECT 1 FROM optout o \
             WHERE o.owner = lower(repo.owner) AND o.name IN ('', lower(repo.name)))",
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        self.commit(tx).await?;
        Ok(known)
    }
}
