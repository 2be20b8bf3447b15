//! What a refresh asks and tells the store: what was looked at when, what is as it was, and what was missed.
//!
//! Nothing is buried at the first miss: the miss is noted with its run, and only a later run that misses the same thing
//! alike changes its presence.

use super::{ArtifactRow, BATCH, RepoId, RepoRow, RunId, Store, StoreError, list};
use crate::corpus::{GitOid, Slug};
use crate::taxonomy::{FileMode, Presence};
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite, Transaction};
use std::collections::HashMap;

/// A repository that is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshRepo {
    /// Key.
    pub id: RepoId,
    /// GitHub's id, where it is known.
    pub node_id: Option<String>,
    /// Its last known name.
    pub slug: Slug,
    /// Its last known presence.
    pub presence: Presence,
    /// When it was looked at last, Unix milliseconds; 0 for never.
    pub checked_at: i64,
    /// The head at which everything was as stored; while the repository stays there, nothing can have changed. `None`
    /// when that is not known, or when something was missed and has to be looked for again.
    pub settled_at: Option<GitOid>,
    /// The head that this run has seen already, in an invocation that ended before it could look closer.
    pub seen_at: Option<GitOid>,
    /// Last known push, Unix milliseconds.
    pub pushed_at: Option<i64>,
    /// Last known default branch.
    pub default_branch: Option<String>,
}

/// An artifact as stored, for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownArtifact {
    /// Key.
    pub id: i64,
    /// Path.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Owning target.
    pub target: String,
    /// What kind of entry it is.
    pub mode: FileMode,
    /// Where a link leads.
    pub resolves_to: Option<String>,
    /// Its present content.
    pub oid: GitOid,
    /// Whether it counts as there.
    pub present: bool,
}

/// What was found of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Key.
    pub id: RepoId,
    /// Its facts.
    pub row: RepoRow,
    /// Artifacts that are new, or others than stored.
    pub artifacts: Vec<ArtifactRow>,
    /// Keys of the artifacts that are as stored.
    pub same: Vec<i64>,
    /// Keys of present artifacts that were not found.
    pub missed: Vec<i64>,
    /// Whether it was read for what search found in it, which is settled with that.
    pub found: bool,
    /// Whether everything could be read; otherwise the next run looks again, wherever the head is.
    pub whole: bool,
}

/// What a refresh did, over all its invocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct RefreshCounts {
    /// Artifacts that were not known.
    pub added: i64,
    /// Artifacts with other content than before.
    pub changed: i64,
    /// Artifacts found as they were.
    pub unchanged: i64,
    /// Artifacts that two runs missed: they count as gone now.
    pub gone: i64,
    /// Artifacts missed for the first time; they stay until a second run agrees.
    pub missed: i64,
    /// Repositories looked at.
    pub repos_checked: i64,
    /// Repositories missed for the first time.
    pub repos_missed: i64,
    /// Repositories that are deleted or private.
    pub repos_gone: i64,
    /// Repositories without commits.
    pub repos_empty: i64,
    /// Repositories that GitHub blocks.
    pub repos_blocked: i64,
    /// Repositories that this identity may not read.
    pub repos_private: i64,
    /// Repositories under another name than before.
    pub repos_renamed: i64,
    /// Repositories looked at that are archived.
    pub repos_archived: i64,
    /// Repositories that were not known and hold artifacts.
    pub repos_added: i64,
}

impl Store {
    /// Options of the last run of one of `commands` before `run` that reached its end, as JSON.
    pub async fn last_options(&self, commands: [&str; 2], run: RunId) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar(
            "SELECT options FROM run WHERE command IN (?, ?) AND id < ? AND outcome IN ('done', 'partial') \
             ORDER BY id DESC LIMIT 1",
        )
        .bind(commands[0])
        .bind(commands[1])
        .bind(run.0)
        .fetch_optional(self.read())
        .await
        .map_err(|e| self.failed("read the options of the last run", e))
    }

    /// When the last run of `command` with these options came to its end, Unix milliseconds.
    pub async fn ended_at(&self, command: &str, options: &str) -> Result<Option<i64>, StoreError> {
        sqlx::query_scalar(
            "SELECT max(ended_at) FROM run WHERE command = ? AND options = ? AND outcome IN ('done', 'partial')",
        )
        .bind(command)
        .bind(options)
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("read when a run ended", e))
    }

    /// Add to the requests of a run; gives the sums: code search, GraphQL, other REST.
    pub async fn add_requests(&self, run: RunId, requests: [u64; 3]) -> Result<[u64; 3], StoreError> {
        let failed = |e| self.failed("count requests", e);
        let mut tx = self.begin().await?;
        let sums: (i64, i64, i64) = sqlx::query_as(
            "UPDATE run SET code_searches = code_searches + ?, graphql_queries = graphql_queries + ?, \
             rest_requests = rest_requests + ? WHERE id = ? RETURNING code_searches, graphql_queries, rest_requests",
        )
        .bind(requests[0] as i64)
        .bind(requests[1] as i64)
        .bind(requests[2] as i64)
        .bind(run.0)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed)?;
        self.commit(tx).await?;
        Ok([sums.0 as u64, sums.1 as u64, sums.2 as u64])
    }

    /// Repositories with artifacts of `platforms` that `run` has not looked at, the least recently looked at first,
    /// after the position (time, key) `after`. Without `trust`, what earlier runs saw settles nothing.
    pub async fn refresh_pending(
        &self,
        run: RunId,
        platforms: &[String],
        trust: bool,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<RefreshRepo>, StoreError> {
        let failed = |e| self.failed("list repositories to refresh", e);
        let rows = sqlx::query(include_str!("../../queries/sql/refresh_pending.sql"))
            .bind(run.0)
            .bind(after.0)
            .bind(after.1)
            .bind(serde_json::json!(platforms).to_string())
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(failed)?;
        rows.iter()
            .map(|row| {
                let id: i64 = row.try_get("id").map_err(failed)?;
                let text = |column| row.try_get::<String, _>(column).map_err(failed);
                let oid = |column| {
                    let bytes: Option<Vec<u8>> = row.try_get(column).map_err(failed)?;
                    Ok::<_, StoreError>(bytes.and_then(|bytes| GitOid::from_slice(&bytes)))
                };
                let slug = Slug::new(&text("owner")?, &text("name")?)
                    .map_err(|e| self.damaged(format!("repository {id}"), e.to_string()))?;
                let presence = text("presence")?
                    .parse()
                    .map_err(|e: crate::taxonomy::UnknownWord| self.damaged(slug.to_string(), e.to_string()))?;
                let missed: bool = row.try_get("missed").map_err(failed)?;
                let settled = oid("checked_head")?.or(oid("read_at")?);
                Ok(RefreshRepo {
                    id: RepoId(id),
                    node_id: row.try_get("node_id").map_err(failed)?,
                    slug,
                    presence,
                    checked_at: row.try_get("at").map_err(failed)?,
                    settled_at: settled.filter(|_| trust && !missed && presence == Presence::Present),
                    seen_at: oid("head_now")?,
                    pushed_at: row.try_get("pushed_at").map_err(failed)?,
                    default_branch: row.try_get("default_branch").map_err(failed)?,
                })
            })
            .collect()
    }

    /// How many repositories [`Self::refresh_pending`] lists in all.
    pub async fn count_refresh_pending(&self, run: RunId, platforms: &[String]) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM repo r WHERE r.source = 'github' AND r.presence <> 'opted_out' \
             AND r.checked_run IS NOT ?1 AND EXISTS (SELECT 1 FROM artifact a WHERE a.repo_id = r.id \
             AND a.platform IN (SELECT value FROM json_each(?2)))",
        )
        .bind(run.0)
        .bind(serde_json::json!(platforms).to_string())
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("count repositories to refresh", e))?;
        Ok(count as u64)
    }

    /// The artifacts of repositories, present or not, by repository.
    pub async fn known_artifacts(&self, repos: &[RepoId]) -> Result<HashMap<RepoId, Vec<KnownArtifact>>, StoreError> {
        let failed = |e| self.failed("read the artifacts of repositories", e);
        let mut known: HashMap<RepoId, Vec<KnownArtifact>> = HashMap::with_capacity(repos.len());
        for chunk in repos.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT a.id, a.repo_id, a.path, a.platform, a.target, a.mode, a.resolves_to, b.git_oid, \
                 a.presence = 'present' AS present FROM artifact a JOIN version v ON v.artifact_id = a.id \
                 AND v.current = 1 JOIN blob b ON b.id = v.blob_id WHERE a.repo_id IN (",
            );
            list(&mut query, chunk.iter().map(|repo| repo.0));
            for row in query.build().fetch_all(self.read()).await.map_err(failed)? {
                let path: String = row.try_get("path").map_err(failed)?;
                let oid: Vec<u8> = row.try_get("git_oid").map_err(failed)?;
                let mode: String = row.try_get("mode").map_err(failed)?;
                let artifact = KnownArtifact {
                    id: row.try_get("id").map_err(failed)?,
                    platform: row.try_get("platform").map_err(failed)?,
                    target: row.try_get("target").map_err(failed)?,
                    mode: mode
                        .parse()
                        .map_err(|e: crate::taxonomy::UnknownWord| self.damaged(&*path, e.to_string()))?,
                    resolves_to: row.try_get("resolves_to").map_err(failed)?,
                    oid: GitOid::from_slice(&oid)
                        .ok_or_else(|| self.damaged(format!("blob of {path}"), "git id is not 20 bytes"))?,
                    present: row.try_get("present").map_err(failed)?,
                    path,
                };
                known.entry(RepoId(row.try_get("repo_id").map_err(failed)?)).or_default().push(artifact);
            }
        }
        Ok(known)
    }

    /// Record the facts of repositories that moved on; what that did to their artifacts is looked at later.
    pub async fn put_moved(&self, run: RunId, rows: &[RepoRow]) -> Result<(), StoreError> {
        self.put_repos(run, rows).await.map(|_| ())
    }

    /// Record that repositories are where they were, and with them their artifacts.
    pub async fn put_settled(&self, run: RunId, rows: &[(RepoId, RepoRow)], now: i64) -> Result<(), StoreError> {
        let failed = |e| self.failed("record unchanged repositories", e);
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(BATCH) {
            let facts: Vec<RepoRow> = chunk.iter().map(|(_, row)| row.clone()).collect();
            self.put_repos_in(&mut tx, run, &facts).await?;
            let ids: Vec<i64> = chunk.iter().map(|(id, _)| id.0).collect();
            self.mark_checked(&mut tx, run, &ids, now).await?;
            for sql in [
                "UPDATE version SET last_run = ? WHERE current = 1 AND artifact_id IN (SELECT id FROM artifact \
                 WHERE presence = 'present' AND repo_id IN (",
                "UPDATE artifact SET last_run = ? WHERE presence = 'present' AND id IN (SELECT id FROM artifact \
                 WHERE repo_id IN (",
            ] {
                let mut parts = sql.splitn(2, '?');
                let mut update = QueryBuilder::<Sqlite>::new(parts.next().unwrap_or_default());
                update.push_bind(run.0).push(parts.next().unwrap_or_default());
                list(&mut update, ids.iter().copied());
                update.push(")");
                update.build().execute(&mut *tx).await.map_err(failed)?;
            }
        }
        self.commit(tx).await
    }

    /// Repositories that are there, with nothing of them missed, at the head that their rows hold by now.
    async fn mark_checked(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        repos: &[i64],
        now: i64,
    ) -> Result<(), StoreError> {
        let mut update = QueryBuilder::<Sqlite>::new("UPDATE repo SET checked_run = ");
        update.push_bind(run.0).push(", checked_at = ").push_bind(now);
        update.push(
            ", checked_head = head, missed_run = NULL, missed_as = NULL, \
             presence_run = CASE presence WHEN 'present' THEN presence_run ELSE ",
        );
        update.push_bind(run.0).push(" END, presence = 'present', presence_why = NULL WHERE id IN (");
        list(&mut update, repos.iter().copied());
        update.build().execute(&mut **tx).await.map_err(|e| self.failed("record what was looked at", e))?;
        Ok(())
    }

    /// Record what was found in repositories, all or nothing.
    pub async fn put_listed(&self, run: RunId, listed: &[Listed], now: i64) -> Result<(), StoreError> {
        let failed = |e| self.failed("record what was found", e);
        let mut tx = self.begin().await?;
        let rows: Vec<RepoRow> = listed.iter().map(|one| one.row.clone()).collect();
        self.put_repos_in(&mut tx, run, &rows).await?;
        let artifacts: Vec<ArtifactRow> = listed.iter().flat_map(|one| one.artifacts.iter().cloned()).collect();
        self.put_artifacts_in(&mut tx, run, &artifacts).await?;
        let same: Vec<i64> = listed.iter().flat_map(|one| one.same.iter().copied()).collect();
        for chunk in same.chunks(BATCH) {
            let mut artifacts = QueryBuilder::<Sqlite>::new("UPDATE artifact SET missed_run = NULL, last_run = ");
            artifacts.push_bind(run.0).push(" WHERE id IN (");
            let mut versions = QueryBuilder::<Sqlite>::new("UPDATE version SET last_run = ");
            versions.push_bind(run.0).push(" WHERE current = 1 AND artifact_id IN (");
            // Content that did not change was not committed to: its history is still the one that was read.
            let mut histories = QueryBuilder::<Sqlite>::new(
                "UPDATE history SET head = (SELECT r.head FROM artifact a JOIN repo r ON r.id = a.repo_id \
                 WHERE a.id = history.artifact_id) WHERE artifact_id IN (",
            );
            for update in [&mut artifacts, &mut versions, &mut histories] {
                list(update, chunk.iter().copied());
                update.build().execute(&mut *tx).await.map_err(failed)?;
            }
        }
        let missed: Vec<i64> = listed.iter().flat_map(|one| one.missed.iter().copied()).collect();
        for chunk in missed.chunks(BATCH) {
            let mut gone = QueryBuilder::<Sqlite>::new("UPDATE artifact SET presence = ");
            gone.push_bind(Presence::Gone.as_str()).push(", presence_run = ").push_bind(run.0);
            gone.push(" WHERE missed_run < ").push_bind(run.0).push(" AND id IN (");
            list(&mut gone, chunk.iter().copied());
            gone.build().execute(&mut *tx).await.map_err(failed)?;
            let mut noted = QueryBuilder::<Sqlite>::new("UPDATE artifact SET missed_run = ");
            noted.push_bind(run.0).push(" WHERE missed_run IS NULL AND id IN (");
            list(&mut noted, chunk.iter().copied());
            noted.build().execute(&mut *tx).await.map_err(failed)?;
        }
        let ids: Vec<i64> = listed.iter().map(|one| one.id.0).collect();
        for chunk in ids.chunks(BATCH) {
            self.mark_checked(&mut tx, run, chunk, now).await?;
        }
        for one in listed.iter().filter(|one| one.found) {
            sqlx::query("INSERT OR REPLACE INTO crawl_repo (run_id, repo_id) VALUES (?, ?)")
                .bind(run.0)
                .bind(one.id.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
        }
        for one in listed.iter().filter(|one| !one.whole) {
            sqlx::query("UPDATE repo SET checked_head = NULL WHERE id = ?")
                .bind(one.id.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
        }
        self.commit(tx).await
    }

    /// Record that repositories did not answer as they should, and as what. The first time is noted; when a later run
    /// says the same, the repository and its artifacts change their presence.
    pub async fn put_absent(
        &self,
        run: RunId,
        rows: &[(RepoId, Presence, String)],
        now: i64,
    ) -> Result<(), StoreError> {
        let failed = |e| self.failed("record absent repositories", e);
        let mut tx = self.begin().await?;
        for (repo, presence, why) in rows {
            let confirmed = sqlx::query(
                "UPDATE repo SET presence = ?1, presence_why = ?2, presence_run = ?3, checked_head = NULL \
                 WHERE id = ?4 AND presence <> ?1 AND missed_as = ?1 AND missed_run < ?3",
            )
            .bind(presence.as_str())
            .bind(why)
            .bind(run.0)
            .bind(repo.0)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
            if confirmed.rows_affected() > 0 {
                sqlx::query(
                    "UPDATE artifact SET presence = ?, presence_run = ? WHERE repo_id = ? AND presence = 'present'",
                )
                .bind(presence.as_str())
                .bind(run.0)
                .bind(repo.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            }
            sqlx::query(
                "UPDATE repo SET checked_run = ?1, checked_at = ?2, checked_head = NULL, \
                 missed_run = CASE WHEN missed_as = ?3 THEN missed_run ELSE ?1 END, missed_as = ?3 WHERE id = ?4",
            )
            .bind(run.0)
            .bind(now)
            .bind(presence.as_str())
            .bind(repo.0)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
            sqlx::query("INSERT OR REPLACE INTO crawl_repo (run_id, repo_id) VALUES (?, ?)")
                .bind(run.0)
                .bind(repo.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
        }
        self.commit(tx).await
    }

    /// What `run` did, over all its invocations.
    pub async fn refresh_counts(&self, run: RunId) -> Result<RefreshCounts, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/refresh_counts.sql"))
            .bind(run.0)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count what a refresh did", e))
    }
}
