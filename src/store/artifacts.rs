//! Artifacts and their versions: which path of which repository held which blob, and from when to when.

use super::{BATCH, BlobId, RepoId, RunId, Store, StoreError};
use crate::corpus::{GitOid, Platform};
use crate::taxonomy::{FileMode, Presence};
use sqlx::{QueryBuilder, Sqlite, Transaction};
use std::collections::HashMap;

/// An artifact as seen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRow {
    /// The repository.
    pub repo: RepoId,
    /// Path from the repository's root, with `/` between parts.
    pub path: String,
    /// Owning platform.
    pub platform: Platform,
    /// Id of the owning target.
    pub target: String,
    /// File, executable or symbolic link.
    pub mode: FileMode,
    /// For a symbolic link: the path in the same repository that it leads to, where it leads to one.
    pub resolves_to: Option<String>,
    /// Its bytes.
    pub blob: BlobId,
    /// The commit at which it was seen.
    pub commit: Option<GitOid>,
}

/// How many rows a write changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Artifacts that were not there.
    pub added: usize,
    /// Artifacts that hold another blob than before.
    pub changed: usize,
    /// Artifacts found as they were.
    pub unchanged: usize,
}

impl Store {
    /// Write artifacts as seen by `run`, each (repository, path) at most once: a new path becomes an artifact with a
    /// version, a changed blob ends the current version and begins another, an unchanged one is seen again.
    pub async fn put_artifacts(&self, run: RunId, rows: &[ArtifactRow]) -> Result<Written, StoreError> {
        let mut tx = self.begin().await?;
        let (written, _) = self.put_artifacts_in(&mut tx, run, rows).await?;
        self.commit(tx).await?;
        Ok(written)
    }

    /// [`Self::put_artifacts`] inside a transaction of the caller; also gives the keys in the order of `rows`.
    pub(crate) async fn put_artifacts_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        rows: &[ArtifactRow],
    ) -> Result<(Written, Vec<i64>), StoreError> {
        let failed = |e| self.failed("write artifacts", e);
        let mut written = Written::default();
        let mut keys = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(BATCH) {
            let mut upsert = QueryBuilder::<Sqlite>::new(
                "INSERT INTO artifact (repo_id, path, platform, target, mode, resolves_to, first_run, last_run) ",
            );
            upsert.push_values(chunk, |mut values, row| {
                values
                    .push_bind(row.repo.0)
                    .push_bind(&row.path)
                    .push_bind(&row.platform.0)
                    .push_bind(&row.target)
                    .push_bind(row.mode.as_str())
                    .push_bind(&row.resolves_to)
                    .push_bind(run.0)
                    .push_bind(run.0);
            });
            upsert.push(include_str!("../../queries/sql/artifact_upsert.sql"));
            let ids: Vec<(i64, i64, String)> = upsert.build_query_as().fetch_all(&mut **tx).await.map_err(failed)?;
            let ids: HashMap<(i64, &str), i64> =
                ids.iter().map(|(id, repo, path)| ((*repo, path.as_str()), *id)).collect();

            let mut ask = QueryBuilder::<Sqlite>::new(
                "SELECT artifact_id, id, blob_id FROM version WHERE current = 1 AND artifact_id IN (",
            );
            let mut list = ask.separated(", ");
            for id in ids.values() {
                list.push_bind(*id);
            }
            ask.push(")");
            let current: Vec<(i64, i64, i64)> = ask.build_query_as().fetch_all(&mut **tx).await.map_err(failed)?;
            let current: HashMap<i64, (i64, i64)> = current.into_iter().map(|(a, v, b)| (a, (v, b))).collect();

            let (mut seen, mut ended, mut begun) = (Vec::new(), Vec::new(), Vec::new());
            for row in chunk {
                let id = ids.get(&(row.repo.0, row.path.as_str()));
                let &id =
                    id.ok_or_else(|| self.damaged(format!("artifact {}", row.path), "not found after its write"))?;
                keys.push(id);
                match current.get(&id) {
                    Some((version, blob)) if *blob == row.blob.0 => seen.push(*version),
                    Some((version, _)) => {
                        ended.push(*version);
                        begun.push((id, row));
                    }
                    None => begun.push((id, row)),
                }
            }
            written.unchanged += seen.len();
            written.changed += ended.len();
            written.added += begun.len() - ended.len();
            self.update_versions(tx, "UPDATE version SET last_run = ", run.0, &seen).await?;
            self.update_versions(tx, "UPDATE version SET current = ", 0, &ended).await?;
            if !begun.is_empty() {
                let mut insert = QueryBuilder::<Sqlite>::new(
                    "INSERT INTO version (artifact_id, blob_id, commit_oid, first_run, last_run) ",
                );
                insert.push_values(&begun, |mut values, (artifact, row)| {
                    values
                        .push_bind(*artifact)
                        .push_bind(row.blob.0)
                        .push_bind(row.commit.map(|c| c.0.to_vec()))
                        .push_bind(run.0)
                        .push_bind(run.0);
                });
                insert.build().execute(&mut **tx).await.map_err(failed)?;
            }
        }
        Ok((written, keys))
    }

    async fn update_versions(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        set: &'static str,
        value: i64,
        versions: &[i64],
    ) -> Result<(), StoreError> {
        if versions.is_empty() {
            return Ok(());
        }
        let mut update = QueryBuilder::<Sqlite>::new(set);
        update.push_bind(value).push(" WHERE id IN (");
        let mut list = update.separated(", ");
        for version in versions {
            list.push_bind(*version);
        }
        update.push(")");
        update.build().execute(&mut **tx).await.map_err(|e| self.failed("write versions", e))?;
        Ok(())
    }

    /// Every artifact of a repository that is present: path and current blob's git id.
    pub async fn repo_artifacts(&self, repo: RepoId) -> Result<HashMap<String, GitOid>, StoreError> {
        let rows: Vec<(String, Vec<u8>)> = sqlx::query_as(
            "SELECT a.path, b.git_oid FROM artifact a JOIN version v ON v.artifact_id = a.id AND v.current = 1 \
             JOIN blob b ON b.id = v.blob_id WHERE a.repo_id = ? AND a.presence = 'present'",
        )
        .bind(repo.0)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read a repository's artifacts", e))?;
        rows.into_iter()
            .map(|(path, oid)| {
                let oid = GitOid::from_slice(&oid)
                    .ok_or_else(|| self.damaged(format!("blob of {path}"), "git id is not 20 bytes"))?;
                Ok((path, oid))
            })
            .collect()
    }

    /// Record that paths of a repository are no longer there (or only missed once).
    pub async fn set_artifact_presence(
        &self,
        run: RunId,
        repo: RepoId,
        paths: &[String],
        presence: Presence,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for path in paths {
            sqlx::query("UPDATE artifact SET presence = ?, presence_run = ? WHERE repo_id = ? AND path = ?")
                .bind(presence.as_str())
                .bind(run.0)
                .bind(repo.0)
                .bind(path)
                .execute(&mut *tx)
                .await
                .map_err(|e| self.failed("write presence", e))?;
        }
        self.commit(tx).await
    }
}
