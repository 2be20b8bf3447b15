//! Reading the corpus in a fixed order, and counting it.

use super::{BlobId, RepoId, Store, StoreError};
use crate::corpus::{GitOid, Sha256};
use sqlx::{FromRow, Row};

/// An artifact that is present, with its repository and current blob.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactListing {
    /// Key of the artifact.
    pub id: i64,
    /// Key of the repository.
    pub repo: RepoId,
    /// Owner of the repository.
    pub owner: String,
    /// Name of the repository.
    pub name: String,
    /// Path in the repository.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Owning target.
    pub target: String,
    /// `file`, `executable` or `symlink`.
    pub mode: String,
    /// Where a symbolic link leads.
    pub resolves_to: Option<String>,
    /// Its blob.
    pub blob: BlobId,
    /// Digest of the blob.
    pub sha256: Sha256,
    /// Git id of the blob.
    pub git_oid: GitOid,
    /// Bytes of the blob.
    pub size: i64,
    /// Encoding of the blob.
    pub encoding: String,
    /// The commit at which this blob was first seen here.
    pub commit: Option<GitOid>,
    /// Stars of the repository.
    pub stars: Option<i64>,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Licence of the repository as found.
    pub license_api: Option<String>,
    /// Whether the repository is a fork.
    pub is_fork: Option<bool>,
}

/// A blob with the facts that do not need its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobListing {
    /// Key.
    pub id: BlobId,
    /// Digest.
    pub sha256: Sha256,
    /// Bytes.
    pub size: i64,
}

/// How much the corpus holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, FromRow)]
pub struct Counts {
    /// Artifacts that are present.
    pub artifacts: i64,
    /// Distinct blobs.
    pub blobs: i64,
    /// Repositories with at least one present artifact.
    pub repos: i64,
    /// Versions, current and past.
    pub versions: i64,
    /// Bytes of the distinct blobs as found.
    pub bytes: i64,
    /// Items over all segmented blobs.
    pub items: i64,
}

/// Artifacts of one platform.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, FromRow)]
pub struct PlatformCount {
    /// Platform.
    pub platform: String,
    /// Present artifacts.
    pub artifacts: i64,
    /// Repositories that have them.
    pub repos: i64,
}

impl Store {
    /// Present artifacts in the order of (repository, path), at most `limit` after the position `after`. The order does
    /// not depend on the order of arrival, so exports built on it are the same bytes.
    pub async fn artifacts_after(
        &self,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<ArtifactListing>, StoreError> {
        let (key, path) = after.unwrap_or(("", ""));
        let rows = sqlx::query(include_str!("../../queries/sql/artifacts_after.sql"))
            .bind(key)
            .bind(path)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list artifacts", e))?;
        rows.iter().map(|row| self.artifact_listing(row)).collect()
    }

    fn artifact_listing(&self, row: &sqlx::sqlite::SqliteRow) -> Result<ArtifactListing, StoreError> {
        let read = || -> Result<_, sqlx::Error> {
            Ok((
                ArtifactListing {
                    id: row.try_get("id")?,
                    repo: RepoId(row.try_get("repo_id")?),
                    owner: row.try_get("owner")?,
                    name: row.try_get("name")?,
                    path: row.try_get("path")?,
                    platform: row.try_get("platform")?,
                    target: row.try_get("target")?,
                    mode: row.try_get("mode")?,
                    resolves_to: row.try_get("resolves_to")?,
                    blob: BlobId(row.try_get("blob_id")?),
                    sha256: Sha256([0; 32]),
                    git_oid: GitOid([0; 20]),
                    size: row.try_get("size")?,
                    encoding: row.try_get("encoding")?,
                    commit: row.try_get::<Option<Vec<u8>>, _>("commit_oid")?.and_then(|c| GitOid::from_slice(&c)),
                    stars: row.try_get("stars")?,
                    language: row.try_get("language")?,
                    license_api: row.try_get("license_api")?,
                    is_fork: row.try_get("is_fork")?,
                },
                row.try_get::<Vec<u8>, _>("sha256")?,
                row.try_get::<Vec<u8>, _>("git_oid")?,
            ))
        };
        let (mut listing, sha256, oid) = read().map_err(|e| self.failed("read an artifact", e))?;
        let wrong = |column| self.damaged(format!("{column} of blob {}", listing.blob.0), "wrong length");
        listing.sha256 = Sha256::from_slice(&sha256).ok_or_else(|| wrong("sha256"))?;
        listing.git_oid = GitOid::from_slice(&oid).ok_or_else(|| wrong("git_oid"))?;
        Ok(listing)
    }

    /// Blobs by key, at most `limit` after `after`.
    pub async fn blobs_after(&self, after: BlobId, limit: usize) -> Result<Vec<BlobListing>, StoreError> {
        let rows: Vec<(i64, Vec<u8>, i64)> =
            sqlx::query_as("SELECT id, sha256, size FROM blob WHERE id > ? ORDER BY id LIMIT ?")
                .bind(after.0)
                .bind(limit as i64)
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("list blobs", e))?;
        rows.into_iter()
            .map(|(id, sha, size)| {
                let sha256 = Sha256::from_slice(&sha)
                    .ok_or_else(|| self.damaged(format!("sha256 of blob {id}"), "wrong length"))?;
                Ok(BlobListing { id: BlobId(id), sha256, size })
            })
            .collect()
    }

    /// How much the corpus holds.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/counts.sql"))
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count the corpus", e))
    }

    /// Present artifacts by platform, most first.
    pub async fn platform_counts(&self) -> Result<Vec<PlatformCount>, StoreError> {
        sqlx::query_as(
            "SELECT platform, count(*) AS artifacts, count(DISTINCT repo_id) AS repos FROM artifact \
             WHERE presence = 'present' GROUP BY platform ORDER BY 2 DESC, 1",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count platforms", e))
    }
}
