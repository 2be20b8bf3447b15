//! The hits of searches: how many there are, where they lie, and which of them are news.

use super::{RepoId, RunId, Store, StoreError, WindowKey};
use crate::corpus::Slug;
use crate::taxonomy::ForkFamily;
use sqlx::{Sqlite, Transaction};
use std::collections::HashSet;

/// Paths of a repository that search knows and the corpus does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownHits {
    /// Key.
    pub id: RepoId,
    /// GitHub's id, where it is known.
    pub node_id: Option<String>,
    /// Name.
    pub slug: Slug,
    /// Whether this run has looked at the repository.
    pub checked: bool,
    /// The paths, sorted.
    pub paths: Vec<String>,
}

impl Store {
    /// Distinct hits of a window, and those of all windows of its range of sizes. Hits of the others whose path `meets`
    /// what narrows this one are counted as its own.
    pub(super) async fn count_keys(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        run: RunId,
        window: i64,
        key: &WindowKey,
        meets: impl Fn(&str) -> bool,
    ) -> Result<(u64, u64), StoreError> {
        let failed = |e| self.failed("count the hits of a search window", e);
        if key.axis.is_empty() && key.hi != Some(key.lo) {
            let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM hit WHERE window_id = ?")
                .bind(window)
                .fetch_one(&mut **tx)
                .await
                .map_err(failed)?;
            return Ok((keys as u64, keys as u64));
        }
        let span: Vec<(String, bool)> = sqlx::query_as(
            "SELECT h.path, max(w.id = ?) FROM hit h JOIN crawl_window w ON w.id = h.window_id \
             WHERE w.run_id = ? AND w.target = ? AND w.fork = ? AND w.lo = ? AND w.hi IS ? GROUP BY h.repo_id, h.path",
        )
        .bind(window)
        .bind(run.0)
        .bind(&key.target)
        .bind(key.fork.as_str())
        .bind(key.lo as i64)
        .bind(key.hi.map(|hi| hi as i64))
        .fetch_all(&mut **tx)
        .await
        .map_err(failed)?;
        let keys = span.iter().filter(|(path, delivered)| *delivered || meets(path)).count();
        Ok((keys as u64, span.len() as u64))
    }

    /// Hits of the windows without refinements of a target and fork family, by top directory: the empty name for files
    /// outside of any.
    pub async fn places(&self, run: RunId, target: &str, fork: ForkFamily) -> Result<Vec<(String, u64)>, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT substr(h.path, 1, max(instr(h.path, '/') - 1, 0)) AS place, count(*) \
             FROM hit h JOIN crawl_window w ON w.id = h.window_id \
             WHERE w.run_id = ? AND w.target = ? AND w.fork = ? AND w.axis = '' GROUP BY place",
        )
        .bind(run.0)
        .bind(target)
        .bind(fork.as_str())
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count where hits lie", e))?;
        Ok(rows.into_iter().map(|(place, hits)| (place, hits as u64)).collect())
    }

    /// Node id, path and size of the hits that earlier runs got for a target and that `run` has seen unchanged.
    pub async fn known_hits(
        &self,
        run: RunId,
        target: &str,
        fork: ForkFamily,
    ) -> Result<Vec<(String, String, u64)>, StoreError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(include_str!("../../queries/sql/refresh_known_hits.sql"))
            .bind(target)
            .bind(fork.as_str())
            .bind(run.0)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the known hits of a target", e))?;
        Ok(rows.into_iter().map(|(node, path, size)| (node, path, size as u64)).collect())
    }

    /// Node id and path of the hits that `run` has of a window.
    pub async fn window_hits(&self, run: RunId, key: &WindowKey) -> Result<HashSet<(String, String)>, StoreError> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT r.node_id, h.path FROM crawl_window w JOIN hit h ON h.window_id = w.id \
             JOIN repo r ON r.id = h.repo_id WHERE w.run_id = ? AND w.target = ? AND w.fork = ? AND w.lo = ? \
             AND w.hi IS ? AND w.axis = ? AND r.node_id IS NOT NULL",
        )
        .bind(run.0)
        .bind(&key.target)
        .bind(key.fork.as_str())
        .bind(key.lo as i64)
        .bind(key.hi.map(|hi| hi as i64))
        .bind(&key.axis)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read the hits of a window", e))?;
        Ok(rows.into_iter().collect())
    }

    /// Repositories after `after` in which searches of `run` found paths that are no present artifacts.
    pub async fn unknown_hits(&self, run: RunId, after: RepoId, limit: usize) -> Result<Vec<UnknownHits>, StoreError> {
        type Row = (i64, Option<String>, String, String, Option<bool>, String);
        let rows: Vec<Row> = sqlx::query_as(include_str!("../../queries/sql/refresh_unknown.sql"))
            .bind(run.0)
            .bind(after.0)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list what search found", e))?;
        let mut unknown: Vec<UnknownHits> = Vec::new();
        for (id, node_id, owner, name, checked, path) in rows {
            match unknown.last_mut() {
                Some(last) if last.id.0 == id => last.paths.push(path),
                _ => {
                    let slug = Slug::new(&owner, &name)
                        .map_err(|e| self.damaged(format!("repository {id}"), e.to_string()))?;
                    let checked = checked == Some(true);
                    unknown.push(UnknownHits { id: RepoId(id), node_id, slug, checked, paths: vec![path] });
                }
            }
        }
        Ok(unknown)
    }

    /// Drop the hits of refreshes before `run` that a later run has again: each path stays with the last one.
    pub async fn drop_old_hits(&self, run: RunId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "DELETE FROM hit WHERE window_id IN (SELECT w.id FROM crawl_window w JOIN run r ON r.id = w.run_id \
             WHERE r.command = 'refresh' AND w.run_id < ?1) AND EXISTS (SELECT 1 FROM hit n JOIN crawl_window nw \
             ON nw.id = n.window_id JOIN crawl_window w ON w.id = hit.window_id WHERE n.repo_id = hit.repo_id \
             AND n.path = hit.path AND nw.run_id = ?1 AND nw.target = w.target AND nw.fork = w.fork)",
        )
        .bind(run.0)
        .execute(&mut *tx)
        .await
        .map_err(|e| self.failed("drop old hits", e))?;
        self.commit(tx).await
    }
}
