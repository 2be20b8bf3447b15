//! How far a crawl has got: which repositories are still to be read, what was found in them, what search left out.

use super::crawl::{Completeness, PendingRepo, RepoFound};
use super::{ArtifactRow, BATCH, RepoId, RunId, Store, StoreError};
use crate::corpus::{GitOid, Slug};
use sqlx::{QueryBuilder, Sqlite};
use std::collections::{BTreeMap, HashMap};

/// Hits of a run in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HitCounts {
    /// Distinct hits.
    pub hits: u64,
    /// Repositories with hits.
    pub repos: u64,
}

/// Artifacts that were found beside hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BesideCounts {
    /// All of them.
    pub siblings: u64,
    /// Of these, those of a size at which search could not list every file.
    pub recovered: u64,
}

type NamedRepo = (i64, String, String);

impl Store {
    /// Repositories with hits whose content `run` has yet to read, by key, after `after`.
    pub async fn pending_repos(&self, run: RunId, after: RepoId, limit: usize) -> Result<Vec<PendingRepo>, StoreError> {
        let rows: Vec<NamedRepo> = sqlx::query_as(include_str!("../../queries/sql/crawl_pending.sql"))
            .bind(run.0)
            .bind(after.0)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list repositories to read", e))?;
        self.with_hits(run, rows).await
    }

    /// Those of `repos` that have hits and whose content `run` has yet to read.
    pub async fn pending_among(&self, run: RunId, repos: &[RepoId]) -> Result<Vec<PendingRepo>, StoreError> {
        let mut rows: Vec<NamedRepo> = Vec::with_capacity(repos.len());
        for chunk in repos.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT r.id, r.owner, r.name FROM repo r WHERE NOT EXISTS \
                 (SELECT 1 FROM crawl_repo c WHERE c.repo_id = r.id AND c.run_id = ",
            );
            query.push_bind(run.0).push(") AND r.id IN (");
            let mut list = query.separated(", ");
            for repo in chunk {
                list.push_bind(repo.0);
            }
            query.push(")");
            let found: Vec<NamedRepo> = query
                .build_query_as()
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("list repositories to read", e))?;
            rows.extend(found);
        }
        let mut pending = self.with_hits(run, rows).await?;
        pending.retain(|repo| !repo.hits.is_empty());
        Ok(pending)
    }

    /// Repositories that `run` has read and that got hits since, by key, after `after`.
    pub async fn repos_with_new_hits(
        &self,
        run: RunId,
        after: RepoId,
        limit: usize,
    ) -> Result<Vec<PendingRepo>, StoreError> {
        let rows: Vec<NamedRepo> = sqlx::query_as(include_str!("../../queries/sql/crawl_unread_hits.sql"))
            .bind(run.0)
            .bind(after.0)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list repositories with new hits", e))?;
        self.with_hits(run, rows).await
    }

    /// Two windows may have met the same path at different times; the later word counts.
    async fn with_hits(&self, run: RunId, rows: Vec<NamedRepo>) -> Result<Vec<PendingRepo>, StoreError> {
        type Hit = (i64, String, Vec<u8>, Option<Vec<u8>>);
        let failed = |e| self.failed("read the hits of repositories", e);
        let mut by_repo: HashMap<i64, BTreeMap<String, (GitOid, Option<GitOid>)>> = HashMap::with_capacity(rows.len());
        for chunk in rows.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT h.repo_id, h.path, h.blob_oid, h.commit_oid FROM hit h JOIN crawl_window w \
                 ON w.id = h.window_id AND w.run_id = ",
            );
            query.push_bind(run.0).push(" WHERE h.repo_id IN (");
            let mut list = query.separated(", ");
            for (id, ..) in chunk {
                list.push_bind(*id);
            }
            query.push(") ORDER BY h.window_id");
            let hits: Vec<Hit> = query.build_query_as().fetch_all(self.read()).await.map_err(failed)?;
            for (repo, path, blob, commit) in hits {
                let blob = GitOid::from_slice(&blob)
                    .ok_or_else(|| self.damaged(format!("hit {path}"), "git id is not 20 bytes"))?;
                let commit = commit.and_then(|commit| GitOid::from_slice(&commit));
                by_repo.entry(repo).or_default().insert(path, (blob, commit));
            }
        }
        rows.into_iter()
            .map(|(id, owner, name)| {
                let slug =
                    Slug::new(&owner, &name).map_err(|e| self.damaged(format!("repository {id}"), e.to_string()))?;
                let hits = by_repo.remove(&id).unwrap_or_default();
                let hits = hits.into_iter().map(|(path, (blob, commit))| (path, blob, commit)).collect();
                Ok(PendingRepo { id: RepoId(id), slug, hits })
            })
            .collect()
    }

    /// The artifacts of `repos` that `run` has seen: path and git id.
    pub async fn artifacts_of_run(
        &self,
        run: RunId,
        repos: &[RepoId],
    ) -> Result<HashMap<RepoId, HashMap<String, GitOid>>, StoreError> {
        let mut found: HashMap<RepoId, HashMap<String, GitOid>> = HashMap::new();
        for chunk in repos.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT a.repo_id, a.path, b.git_oid FROM artifact a \
                 JOIN version v ON v.artifact_id = a.id AND v.current = 1 JOIN blob b ON b.id = v.blob_id \
                 WHERE a.last_run = ",
            );
            query.push_bind(run.0).push(" AND a.repo_id IN (");
            let mut list = query.separated(", ");
            for repo in chunk {
                list.push_bind(repo.0);
            }
            query.push(")");
            let rows: Vec<(i64, String, Vec<u8>)> = query
                .build_query_as()
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("read the artifacts of repositories", e))?;
            for (repo, path, oid) in rows {
                let oid = GitOid::from_slice(&oid)
                    .ok_or_else(|| self.damaged(format!("blob of {path}"), "git id is not 20 bytes"))?;
                found.entry(RepoId(repo)).or_default().insert(path, oid);
            }
        }
        Ok(found)
    }

    /// Store the artifacts of repositories that were read, and that they were read, all or nothing.
    pub async fn put_found(
        &self,
        run: RunId,
        artifacts: &[ArtifactRow],
        found: &[RepoFound],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.put_artifacts_in(&mut tx, run, artifacts).await?;
        for chunk in found.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new("INSERT OR REPLACE INTO crawl_repo (run_id, repo_id, hits) ");
            insert.push_values(chunk, |mut values, repo| {
                values.push_bind(run.0).push_bind(repo.id.0).push_bind(repo.hits as i64);
            });
            insert.build().execute(&mut *tx).await.map_err(|e| self.failed("record repositories as read", e))?;
        }
        self.commit(tx).await
    }

    /// The hits of `run`. Reads them all: for the end of a crawl, not for its progress.
    pub async fn hit_counts(&self, run: RunId) -> Result<HitCounts, StoreError> {
        let (hits, repos): (i64, i64) = sqlx::query_as(include_str!("../../queries/sql/crawl_counts.sql"))
            .bind(run.0)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count hits", e))?;
        Ok(HitCounts { hits: hits as u64, repos: repos as u64 })
    }

    /// At most how many blobs the corpus holds.
    pub async fn blob_count(&self) -> Result<i64, StoreError> {
        // Keys are given in order and blobs are seldom removed, so the highest tells at once when there cannot be more.
        sqlx::query_scalar("SELECT coalesce(max(id), 0) FROM blob")
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count blobs", e))
    }

    /// Repositories that `run` has read.
    pub async fn repos_read(&self, run: RunId) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM crawl_repo WHERE run_id = ?")
            .bind(run.0)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count repositories that were read", e))?;
        Ok(count as u64)
    }

    /// What `run` found beside its hits. Reads all its artifacts: for the end of a crawl.
    pub async fn beside_counts(&self, run: RunId) -> Result<BesideCounts, StoreError> {
        let (siblings, recovered): (i64, i64) = sqlx::query_as(include_str!("../../queries/sql/crawl_beside.sql"))
            .bind(run.0)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count what was found beside hits", e))?;
        Ok(BesideCounts { siblings: siblings as u64, recovered: recovered as u64 })
    }

    /// Hits that no query of `run` delivers, by target and fork family; those without any are left out.
    pub async fn unreachable(&self, run: RunId) -> Result<Vec<(String, String, u64)>, StoreError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(include_str!("../../queries/sql/crawl_overflow.sql"))
            .bind(run.0)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("count what search leaves out", e))?;
        Ok(rows.into_iter().map(|(target, fork, count)| (target, fork, count as u64)).collect())
    }

    /// How far the last crawl got with each of its targets.
    pub async fn completeness(&self) -> Result<Vec<Completeness>, StoreError> {
        let failed = |e| self.failed("read how complete the targets are", e);
        let run: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM run WHERE command = 'crawl'")
            .fetch_one(self.read())
            .await
            .map_err(failed)?;
        let Some(run) = run else { return Ok(Vec::new()) };
        let mut rows: Vec<Completeness> = sqlx::query_as(include_str!("../../queries/sql/crawl_completeness.sql"))
            .bind(run)
            .fetch_all(self.read())
            .await
            .map_err(failed)?;
        let unreachable = self.unreachable(RunId(run)).await?;
        for row in &mut rows {
            let found = unreachable.iter().find(|(target, fork, _)| *target == row.target && *fork == row.fork);
            row.unreachable = found.map_or(0, |(.., count)| *count as i64);
        }
        Ok(rows)
    }
}
