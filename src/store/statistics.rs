//! What the corpus says about a text as a whole: signatures, clusters of duplicates and the statistics behind them.

use super::{BATCH, BlobId, RepoId, RunId, Store, StoreError};
use crate::corpus::Sha256;
use sqlx::{QueryBuilder, Sqlite};

/// That an artifact holds a blob now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Key of the artifact.
    pub artifact: i64,
    /// Owner of its repository, as written.
    pub owner: String,
    /// Its repository.
    pub repo: RepoId,
    /// The blob.
    pub blob: BlobId,
    /// Digest of the blob.
    pub sha256: Sha256,
    /// Bytes of the blob.
    pub size: i64,
    /// Whether the artifact is a symbolic link.
    pub symlink: bool,
    /// Whether the repository is known to be a fork.
    pub fork: bool,
}

/// The statistics in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatisticsRow {
    /// Key.
    pub id: i64,
    /// Version of the rules that made them.
    pub version: u32,
    /// Fingerprint of what they were counted from.
    pub input: Vec<u8>,
    /// Digest of their content.
    pub digest: Sha256,
}

/// Statistics to be put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStatistics {
    /// Version of the rules that made them.
    pub version: u32,
    /// Fingerprint of what they were counted from.
    pub input: Vec<u8>,
    /// Digest of their content.
    pub digest: Sha256,
    /// Artifacts counted.
    pub artifacts: i64,
    /// Line frequencies in their stored form.
    pub lines: Vec<u8>,
}

/// Where a blob belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuplicateRow {
    /// The blob.
    pub blob: BlobId,
    /// The blob that stands for its cluster.
    pub canonical: BlobId,
    /// Jaccard similarity to that one.
    pub similarity: f64,
    /// Distinct owners who hold a text of the cluster.
    pub owners: u32,
}

/// Clusters as counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, sqlx::FromRow)]
pub struct ClusterCounts {
    /// Blobs that present artifacts hold.
    pub blobs: i64,
    /// Clusters, those of one blob included.
    pub clusters: i64,
    /// Clusters under two or more owners.
    pub shared_clusters: i64,
    /// Blobs that another one stands for.
    pub duplicates: i64,
}

impl Store {
    /// What present artifacts hold, at most `limit` after the artifact `after`, by key.
    pub async fn holdings_after(&self, after: i64, limit: usize) -> Result<Vec<Holding>, StoreError> {
        type Row = (i64, String, i64, i64, Vec<u8>, i64, String, Option<bool>);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT a.id, r.owner, r.id, v.blob_id, b.sha256, b.size, a.mode, r.is_fork FROM artifact a \
             JOIN repo r ON r.id = a.repo_id JOIN version v ON v.artifact_id = a.id AND v.current = 1 \
             JOIN blob b ON b.id = v.blob_id WHERE a.id > ? AND a.presence = 'present' ORDER BY a.id LIMIT ?",
        )
        .bind(after)
        .bind(limit as i64)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("list what artifacts hold", e))?;
        rows.into_iter()
            .map(|(artifact, owner, repo, blob, sha256, size, mode, fork)| {
                Ok(Holding {
                    artifact,
                    owner,
                    repo: RepoId(repo),
                    blob: BlobId(blob),
                    sha256: self.digest(&sha256, || format!("sha256 of blob {blob}"))?,
                    size,
                    symlink: mode == "symlink",
                    fork: fork == Some(true),
                })
            })
            .collect()
    }

    fn digest(&self, bytes: &[u8], what: impl Fn() -> String) -> Result<Sha256, StoreError> {
        Sha256::from_slice(bytes).ok_or_else(|| self.damaged(what(), "it is not 32 bytes"))
    }

    /// Stored signatures of `version`, at most `limit` after the blob `after`, by key.
    pub async fn signatures_after(
        &self,
        version: u32,
        after: BlobId,
        limit: usize,
    ) -> Result<Vec<(BlobId, Vec<u8>)>, StoreError> {
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(
            "SELECT blob_id, packed FROM signature WHERE blob_id > ? AND version = ? ORDER BY blob_id LIMIT ?",
        )
        .bind(after.0)
        .bind(version)
        .bind(limit as i64)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read signatures", e))?;
        Ok(rows.into_iter().map(|(id, packed)| (BlobId(id), packed)).collect())
    }

    /// Write signatures of `version`, each in place of an earlier one, in one transaction.
    pub async fn put_signatures(&self, version: u32, rows: &[(BlobId, Vec<u8>)]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(BATCH) {
            let mut insert =
                QueryBuilder::<Sqlite>::new("INSERT OR REPLACE INTO signature (blob_id, version, packed) ");
            insert.push_values(chunk, |mut values, (blob, packed)| {
                values.push_bind(blob.0).push_bind(version).push_bind(packed);
            });
            insert.build().execute(&mut *tx).await.map_err(|e| self.failed("write signatures", e))?;
        }
        self.commit(tx).await
    }

    /// The statistics in force, when there are any.
    pub async fn statistics(&self) -> Result<Option<StatisticsRow>, StoreError> {
        let row: Option<(i64, u32, Vec<u8>, Vec<u8>)> =
            sqlx::query_as("SELECT id, version, input, digest FROM statistics WHERE current = 1")
                .fetch_optional(self.read())
                .await
                .map_err(|e| self.failed("read statistics", e))?;
        row.map(|(id, version, input, digest)| {
            let digest = self.digest(&digest, || format!("digest of statistics {id}"))?;
            Ok(StatisticsRow { id, version, input, digest })
        })
        .transpose()
    }

    /// The line frequencies in force, in their stored form.
    pub async fn line_frequencies(&self) -> Result<Option<Vec<u8>>, StoreError> {
        sqlx::query_scalar("SELECT lines FROM statistics WHERE current = 1 AND lines IS NOT NULL")
            .fetch_optional(self.read())
            .await
            .map_err(|e| self.failed("read line frequencies", e))
    }

    /// Put statistics and the clusters that they count in force, in place of the earlier ones, in one transaction.
    /// Statistics of an equal digest keep their key.
    pub async fn put_statistics(
        &self,
        run: RunId,
        statistics: &NewStatistics,
        clusters: &[DuplicateRow],
    ) -> Result<i64, StoreError> {
        let failed = |e| self.failed("write statistics", e);
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE statistics SET current = 0, lines = NULL WHERE current = 1")
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO statistics (version, input, digest, artifacts, lines, run_id) VALUES (?, ?, ?, ?, ?, ?) \
             ON CONFLICT (digest) DO UPDATE SET version = excluded.version, input = excluded.input, \
             artifacts = excluded.artifacts, lines = excluded.lines, current = 1 RETURNING id",
        )
        .bind(statistics.version)
        .bind(&statistics.input)
        .bind(statistics.digest.0.to_vec())
        .bind(statistics.artifacts)
        .bind(&statistics.lines)
        .bind(run.0)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed)?;
        sqlx::query("DELETE FROM duplicate").execute(&mut *tx).await.map_err(failed)?;
        for chunk in clusters.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT INTO duplicate (blob_id, canonical_id, similarity, owners, statistics_id) ",
            );
            insert.push_values(chunk, |mut values, row| {
                values
                    .push_bind(row.blob.0)
                    .push_bind(row.canonical.0)
                    .push_bind(row.similarity)
                    .push_bind(row.owners)
                    .push_bind(id);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        self.commit(tx).await?;
        Ok(id)
    }

    /// The clusters in force, by blob.
    pub async fn duplicates(&self) -> Result<Vec<DuplicateRow>, StoreError> {
        let rows: Vec<(i64, i64, f64, u32)> =
            sqlx::query_as("SELECT blob_id, canonical_id, similarity, owners FROM duplicate ORDER BY blob_id")
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("read clusters", e))?;
        let row = |(blob, canonical, similarity, owners)| DuplicateRow {
            blob: BlobId(blob),
            canonical: BlobId(canonical),
            similarity,
            owners,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The clusters in force as counts.
    pub async fn cluster_counts(&self) -> Result<ClusterCounts, StoreError> {
        sqlx::query_as(
            "SELECT count(*) AS blobs, coalesce(sum(blob_id = canonical_id), 0) AS clusters, \
             coalesce(sum(blob_id = canonical_id AND owners > 1), 0) AS shared_clusters, \
             coalesce(sum(blob_id <> canonical_id), 0) AS duplicates FROM duplicate",
        )
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("count clusters", e))
    }
}
