//! Repositories: one row each, by node id where there is one, else by name.

use super::{BATCH, RunId, Store, StoreError};
use crate::corpus::{GitOid, Slug};
use crate::taxonomy::{Presence, RepoSource};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::collections::HashMap;

/// Key of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId(pub i64);

/// What is known of a repository besides its name. `None` means not known, never "no".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepoFacts {
    /// A fork of another repository.
    pub is_fork: Option<bool>,
    /// Read-only.
    pub is_archived: Option<bool>,
    /// Not public.
    pub is_private: Option<bool>,
    /// Stars.
    pub stars: Option<i64>,
    /// Primary language.
    pub language: Option<String>,
    /// Licence as the API (or a `repos.jsonl` beside local repositories) gives it: an SPDX id or a word such as `NOASSERTION`.
    pub license_api: Option<String>,
    /// Default branch.
    pub default_branch: Option<String>,
    /// The commit at the tip of the default branch, or the one that `--rev` named.
    pub head: Option<GitOid>,
    /// Last push, Unix milliseconds.
    pub pushed_at: Option<i64>,
}

/// A repository to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoRow {
    /// GitHub's node id; `None` for local repositories.
    pub node_id: Option<String>,
    /// Its present name.
    pub slug: Slug,
    /// Where the row comes from.
    pub source: RepoSource,
    /// What is known of it; unknown facts leave stored ones as they are.
    pub facts: RepoFacts,
    /// When the facts were read, Unix milliseconds; `None` for a bare mention in a search page.
    pub facts_at: Option<i64>,
}

impl Store {
    /// Write repositories, finding each by node id, else by name; a changed name is kept in `repo_name` and the row
    /// keeps its key. Returns the keys in the order of `rows`.
    pub async fn put_repos(&self, run: RunId, rows: &[RepoRow]) -> Result<Vec<RepoId>, StoreError> {
        let mut tx = self.begin().await?;
        let ids = self.put_repos_in(&mut tx, run, rows).await?;
        self.commit(tx).await?;
        Ok(ids)
    }

    /// [`Self::put_repos`] inside a transaction of the caller.
    pub(crate) async fn put_repos_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        rows: &[RepoRow],
    ) -> Result<Vec<RepoId>, StoreError> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            ids.push(self.put_repo(tx, run, row).await?);
        }
        Ok(ids)
    }

    async fn put_repo(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        row: &RepoRow,
    ) -> Result<RepoId, StoreError> {
        let doing = "write a repository";
        let failed = |e| self.failed(doing, e);
        let mut row = std::borrow::Cow::Borrowed(row);
        let mut key = row.slug.key();
        let mut found = None;
        if let Some(node) = &row.node_id {
            found = sqlx::query("SELECT id, key, owner, name, facts_at FROM repo WHERE node_id = ?")
                .bind(node)
                .fetch_optional(&mut **tx)
                .await
                .map_err(failed)?;
        }
        // A bare mention is as old as the index it comes from; a name that was read with the facts is newer.
        if let Some(held) = found.as_ref().filter(|_| row.facts_at.is_none()) {
            let named: bool = held.try_get::<Option<i64>, _>(4).map_err(failed)?.is_some()
                && held.try_get::<Option<String>, _>(1).map_err(failed)?.is_some();
            let (owner, name) = (held.try_get::<String, _>(2), held.try_get::<String, _>(3));
            if let (true, Ok(slug)) = (named, Slug::new(&owner.map_err(failed)?, &name.map_err(failed)?)) {
                key = slug.key();
                row.to_mut().slug = slug;
            }
        }
        if found.is_none() {
            // A row without node id is taken over by the name; one with another node id held the name before.
            found =
                sqlx::query("SELECT id, key, owner, name FROM repo WHERE key = ? AND (node_id IS NULL OR ? IS NULL)")
                    .bind(&key)
                    .bind(&row.node_id)
                    .fetch_optional(&mut **tx)
                    .await
                    .map_err(failed)?;
        }
        let (id, renamed_from) = match found {
            Some(found) => {
                let id: i64 = found.try_get(0).map_err(failed)?;
                let old: Option<String> = found.try_get(1).map_err(failed)?;
                let former = (old.as_deref() != Some(&key))
                    .then(|| Ok::<_, sqlx::Error>((found.try_get::<String, _>(2)?, found.try_get::<String, _>(3)?)))
                    .transpose()
                    .map_err(failed)?;
                (id, former)
            }
            None => {
                self.release_name(tx, &key, None).await?;
                let id = sqlx::query(
                    "INSERT INTO repo (node_id, key, owner, name, source, first_run, last_run) VALUES (?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(&row.node_id)
                .bind(&key)
                .bind(row.slug.owner())
                .bind(row.slug.name())
                .bind(row.source.as_str())
                .bind(run.0)
                .bind(run.0)
                .execute(&mut **tx)
                .await
                .map_err(failed)?
                .last_insert_rowid();
                (id, None)
            }
        };
        if let Some((owner, name)) = renamed_from {
            self.release_name(tx, &key, Some(id)).await?;
            sqlx::query("INSERT OR IGNORE INTO repo_name (repo_id, owner, name, first_run) VALUES (?, ?, ?, ?)")
                .bind(id)
                .bind(owner)
                .bind(name)
                .bind(run.0)
                .execute(&mut **tx)
                .await
                .map_err(failed)?;
        }
        let facts = &row.facts;
        sqlx::query(include_str!("../../queries/sql/repo_update.sql"))
            .bind(&row.node_id)
            .bind(&key)
            .bind(row.slug.owner())
            .bind(row.slug.name())
            .bind(facts.is_fork)
            .bind(facts.is_archived)
            .bind(facts.is_private)
            .bind(facts.stars)
            .bind(&facts.language)
            .bind(&facts.license_api)
            .bind(&facts.default_branch)
            .bind(facts.head.map(|h| h.0.to_vec()))
            .bind(facts.pushed_at)
            .bind(row.facts_at)
            .bind(run.0)
            .bind(id)
            .execute(&mut **tx)
            .await
            .map_err(failed)?;
        Ok(RepoId(id))
    }

    /// Take the name from whoever holds it, but for `except`: the holder's present name is not known until it is asked.
    async fn release_name(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        key: &str,
        except: Option<i64>,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE repo SET key = NULL WHERE key = ? AND id IS NOT ?")
            .bind(key)
            .bind(except)
            .execute(&mut **tx)
            .await
            .map_err(|e| self.failed("release a repository name", e))?;
        Ok(())
    }

    /// Record whether repositories are still there, and why not.
    pub async fn set_repo_presence(
        &self,
        run: RunId,
        repos: &[(RepoId, Presence, Option<String>)],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for (repo, presence, why) in repos {
            sqlx::query("UPDATE repo SET presence = ?, presence_why = ?, presence_run = ? WHERE id = ?")
                .bind(presence.as_str())
                .bind(why)
                .bind(run.0)
                .bind(repo.0)
                .execute(&mut *tx)
                .await
                .map_err(|e| self.failed("write a repository's presence", e))?;
        }
        self.commit(tx).await
    }

    /// The head commit at which each of these repositories was last read, by lower-case `owner/name`.
    pub async fn repo_heads(&self, keys: &[String]) -> Result<HashMap<String, (RepoId, Option<GitOid>)>, StoreError> {
        let mut heads = HashMap::with_capacity(keys.len());
        for chunk in keys.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new("SELECT key, id, head FROM repo WHERE key IN (");
            let mut list = query.separated(", ");
            for key in chunk {
                list.push_bind(key);
            }
            query.push(")");
            let rows: Vec<(String, i64, Option<Vec<u8>>)> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read repositories", e))?;
            heads.extend(
                rows.into_iter().map(|(key, id, head)| (key, (RepoId(id), head.and_then(|h| GitOid::from_slice(&h))))),
            );
        }
        Ok(heads)
    }
}
