//! Histories of paths as stored, to be held against those of today.

use super::{RepoId, Store, StoreError};

/// An artifact with its stored history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHistory {
    /// Key of the artifact.
    pub artifact: i64,
    /// Its path.
    pub path: String,
    /// Whether the facts are of every commit that touched the path, and the facts as JSON; nothing when none is stored.
    pub history: Option<(bool, String)>,
}

impl Store {
    /// The histories of a repository's artifacts, present or not, by path.
    pub async fn repo_histories(&self, repo: RepoId) -> Result<Vec<StoredHistory>, StoreError> {
        let rows: Vec<(i64, String, Option<bool>, Option<String>)> = sqlx::query_as(
            "SELECT a.id, a.path, h.complete, h.facts FROM artifact a LEFT JOIN history h ON h.artifact_id = a.id \
             WHERE a.repo_id = ? ORDER BY a.path",
        )
        .bind(repo.0)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read a repository's histories", e))?;
        let stored = |(artifact, path, complete, facts): (i64, String, Option<bool>, Option<String>)| StoredHistory {
            artifact,
            path,
            history: complete.zip(facts),
        };
        Ok(rows.into_iter().map(stored).collect())
    }
}
