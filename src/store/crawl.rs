//! Windows, pages, hits and the request ledger: what a crawl needs to go on where it stopped.

use super::{BATCH, RepoId, RepoRow, RunId, Store, StoreError};
use crate::corpus::{GitOid, Slug};
use crate::taxonomy::{ForkFamily, WindowState};
use sqlx::{QueryBuilder, Sqlite, Transaction};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Which window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WindowKey {
    /// Id of the target.
    pub target: String,
    /// Fork family.
    pub fork: ForkFamily,
    /// Smallest size in bytes.
    pub lo: u64,
    /// Largest size, inclusive; `None` for no upper end.
    pub hi: Option<u64>,
    /// Further qualifiers, each as in a query, with a line break between them.
    pub axis: String,
}

/// A window as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRow {
    /// Which.
    pub key: WindowKey,
    /// Its state.
    pub state: WindowState,
    /// Largest total that GitHub gave.
    pub total: u64,
    /// Distinct hits that it delivered.
    pub delivered: u64,
    /// Hits of its total that no query delivers.
    pub unreachable: u64,
    /// Why it is unfinished.
    pub why: Option<String>,
}

/// A page of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRow {
    /// The window.
    pub window: WindowKey,
    /// The how-manieth walk, from 1.
    pub walk: u8,
    /// 1-based.
    pub page: u8,
    /// `total_count`.
    pub total: u64,
    /// Hits on the page.
    pub items: u64,
    /// `incomplete_results`.
    pub incomplete: bool,
    /// Distinct hits of the window so far, and for a narrowed one those of others that meet it.
    pub keys: u64,
    /// Distinct hits so far of all windows of this size range.
    pub span_keys: u64,
}

/// A hit to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitRow {
    /// The repository, as the page names it.
    pub repo: RepoRow,
    /// Path.
    pub path: String,
    /// Content.
    pub blob: GitOid,
    /// The commit that was indexed.
    pub commit: Option<GitOid>,
}

/// A repository whose content is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRepo {
    /// Key.
    pub id: RepoId,
    /// Name.
    pub slug: Slug,
    /// Path, content and commit of its hits, by path.
    pub hits: Vec<(String, GitOid, Option<GitOid>)>,
}

/// A repository that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepoFound {
    /// Key.
    pub id: RepoId,
    /// Distinct paths among its hits that were known then.
    pub hits: u64,
}

/// A page as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPage {
    /// Distinct hits of the window so far, and for a narrowed one those of others that meet it.
    pub keys: u64,
    /// Distinct hits so far of all windows of this size range.
    pub span_keys: u64,
    /// The repositories that it names, each once.
    pub repos: Vec<RepoId>,
}

/// How far the last crawl got with a target.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx::FromRow)]
pub struct Completeness {
    /// Target.
    pub target: String,
    /// Fork family.
    pub fork: String,
    /// Distinct hits.
    pub hits: i64,
    /// Hits that no query delivers.
    pub unreachable: i64,
    /// Hits by which windows stayed short of their totals.
    pub missing: i64,
    /// Windows of which every hit came.
    pub complete: i64,
    /// Windows walked as often as allowed, of which hits are missing.
    pub short: i64,
    /// Windows with more hits than search delivers.
    pub overflow: i64,
    /// Windows that are not settled.
    pub open: i64,
}

/// An artifact whose history is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutHistory {
    /// Key of the artifact.
    pub artifact: i64,
    /// Its repository.
    pub slug: Slug,
    /// Its path.
    pub path: String,
    /// The head at which the repository was read.
    pub head: Option<GitOid>,
}

/// A history to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    /// Key of the artifact.
    pub artifact: i64,
    /// The head it belongs to.
    pub head: Option<GitOid>,
    /// Whether the creating commit is among the facts.
    pub complete: bool,
    /// JSON.
    pub facts: String,
}

impl Store {
    /// The last crawl, if it did not reach its end: it was killed, or paused on a limit or a budget.
    pub async fn unfinished_run(&self, command: &str) -> Result<Option<(RunId, String)>, StoreError> {
        let row: Option<(i64, String, Option<String>)> =
            sqlx::query_as("SELECT id, options, outcome FROM run WHERE command = ? ORDER BY id DESC LIMIT 1")
                .bind(command)
                .fetch_optional(self.read())
                .await
                .map_err(|e| self.failed("look for an unfinished run", e))?;
        Ok(row.and_then(|(id, options, outcome)| {
            matches!(outcome.as_deref(), None | Some("paused")).then_some((RunId(id), options))
        }))
    }

    /// Store a page with its hits, all or nothing, and count: to what the row's `keys` and `span_keys` hold (hits that
    /// are not to be stored) the stored ones are added, and both are given back. A path that `meets` what narrows the
    /// window counts as its hit when another window of the same range of sizes has it.
    pub async fn put_page(
        &self,
        run: RunId,
        page: &PageRow,
        hits: &[HitRow],
        meets: impl Fn(&str) -> bool,
        now: i64,
    ) -> Result<StoredPage, StoreError> {
        let failed = |e| self.failed("store a search page", e);
        let mut tx = self.begin().await?;
        let window = self.window_id(&mut tx, run, &page.window).await?;
        let mut rows: BTreeMap<String, RepoRow> = BTreeMap::new();
        for hit in hits {
            rows.entry(hit.repo.slug.key()).or_insert_with(|| hit.repo.clone());
        }
        let (keys, rows): (Vec<String>, Vec<RepoRow>) = rows.into_iter().unzip();
        let ids = self.put_repos_in(&mut tx, run, &rows).await?;
        let named: BTreeSet<RepoId> = ids.iter().copied().collect();
        let repos: HashMap<String, RepoId> = keys.into_iter().zip(ids).collect();
        for chunk in hits.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT OR REPLACE INTO hit (window_id, repo_id, path, blob_oid, commit_oid) ",
            );
            let rows = chunk.iter().filter_map(|hit| Some((repos.get(&hit.repo.slug.key())?, hit)));
            insert.push_values(rows, |mut values, (repo, hit)| {
                values
                    .push_bind(window)
                    .push_bind(repo.0)
                    .push_bind(&hit.path)
                    .push_bind(hit.blob.0.to_vec())
                    .push_bind(hit.commit.map(|commit| commit.0.to_vec()));
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        let (keys, span_keys) = self.count_keys(&mut tx, run, window, &page.window, meets).await?;
        let (keys, span_keys) = (keys + page.keys, span_keys + page.span_keys);
        sqlx::query(
            "INSERT OR REPLACE INTO crawl_page \
             (window_id, attempt, page, total, items, incomplete, fetched_at, seq, keys, span_keys) \
             VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(seq), 0) + 1 FROM crawl_page), ?, ?)",
        )
        .bind(window)
        .bind(i64::from(page.walk))
        .bind(i64::from(page.page))
        .bind(page.total as i64)
        .bind(page.items as i64)
        .bind(page.incomplete)
        .bind(now)
        .bind(keys as i64)
        .bind(span_keys as i64)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        self.commit(tx).await?;
        Ok(StoredPage { keys, span_keys, repos: named.into_iter().collect() })
    }

    /// Record how windows stand.
    pub async fn put_windows(&self, run: RunId, rows: &[WindowRow]) -> Result<(), StoreError> {
        // A walk that begins has nothing to tell.
        if rows.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        for row in rows {
            let id = self.window_id(&mut tx, run, &row.key).await?;
            sqlx::query(
                "UPDATE crawl_window SET state = ?, total = ?, delivered = ?, unreachable = ?, why = ? WHERE id = ?",
            )
            .bind(row.state.as_str())
            .bind(row.total as i64)
            .bind(row.delivered as i64)
            .bind(row.unreachable as i64)
            .bind(&row.why)
            .bind(id)
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed("store windows", e))?;
        }
        self.commit(tx).await
    }

    async fn window_id(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        key: &WindowKey,
    ) -> Result<i64, StoreError> {
        let failed = |e| self.failed("look up a window", e);
        // An absent upper end is NULL, and NULL differs from NULL in a unique index, so the look-up comes first.
        let found: Option<i64> = sqlx::query_scalar(
            "SELECT id FROM crawl_window WHERE run_id = ? AND target = ? AND fork = ? AND lo = ? AND hi IS ? AND axis = ?",
        )
        .bind(run.0)
        .bind(&key.target)
        .bind(key.fork.as_str())
        .bind(key.lo as i64)
        .bind(key.hi.map(|hi| hi as i64))
        .bind(&key.axis)
        .fetch_optional(&mut **tx)
        .await
        .map_err(failed)?;
        if let Some(id) = found {
            return Ok(id);
        }
        let done = sqlx::query(
            "INSERT INTO crawl_window (run_id, target, fork, lo, hi, axis, state) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(run.0)
        .bind(&key.target)
        .bind(key.fork.as_str())
        .bind(key.lo as i64)
        .bind(key.hi.map(|hi| hi as i64))
        .bind(&key.axis)
        .bind(WindowState::Walking.as_str())
        .execute(&mut **tx)
        .await
        .map_err(failed)?;
        Ok(done.last_insert_rowid())
    }

    /// The pages of a target and fork family that `run` has, in the order they came.
    pub async fn pages(&self, run: RunId, target: &str, fork: ForkFamily) -> Result<Vec<PageRow>, StoreError> {
        type Row = (i64, Option<i64>, String, i64, i64, i64, i64, bool, i64, i64);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT w.lo, w.hi, w.axis, p.attempt, p.page, p.total, p.items, p.incomplete, p.keys, p.span_keys \
             FROM crawl_page p JOIN crawl_window w ON w.id = p.window_id \
             WHERE w.run_id = ? AND w.target = ? AND w.fork = ? ORDER BY p.seq",
        )
        .bind(run.0)
        .bind(target)
        .bind(fork.as_str())
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read search pages", e))?;
        let page = |(lo, hi, axis, walk, page, total, items, incomplete, keys, span): Row| PageRow {
            window: WindowKey { target: target.to_owned(), fork, lo: lo as u64, hi: hi.map(|hi| hi as u64), axis },
            walk: walk as u8,
            page: page as u8,
            total: total as u64,
            items: items as u64,
            incomplete,
            keys: keys as u64,
            span_keys: span as u64,
        };
        Ok(rows.into_iter().map(page).collect())
    }

    /// Sizes of the current artifacts of a target, with how many there are of each: what runs before `run` found, the
    /// same at any time of a run.
    pub async fn size_histogram_before(&self, target: &str, run: RunId) -> Result<Vec<(u64, u64)>, StoreError> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT b.size, count(*) FROM artifact a JOIN version v ON v.artifact_id = a.id AND v.current = 1 \
             JOIN blob b ON b.id = v.blob_id \
             WHERE a.target = ? AND a.presence = 'present' AND a.first_run < ? GROUP BY b.size",
        )
        .bind(target)
        .bind(run.0)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read file sizes", e))?;
        Ok(rows.into_iter().map(|(size, count)| (size as u64, count as u64)).collect())
    }

    /// Sizes of the present artifacts of a target in repositories of one fork family, with how many there are of each.
    pub async fn sizes_of(&self, target: &str, fork: ForkFamily) -> Result<Vec<(u64, u64)>, StoreError> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT b.size, count(*) FROM artifact a JOIN repo r ON r.id = a.repo_id \
             JOIN version v ON v.artifact_id = a.id AND v.current = 1 JOIN blob b ON b.id = v.blob_id \
             WHERE a.target = ? AND a.presence = 'present' AND coalesce(r.is_fork, 0) = ? GROUP BY b.size",
        )
        .bind(target)
        .bind(fork == ForkFamily::Only)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read the sizes of a target", e))?;
        Ok(rows.into_iter().map(|(size, count)| (size as u64, count as u64)).collect())
    }

    /// Search pages a minute over the last thousand, leaving out pauses of more than an hour; nothing before there are
    /// ten.
    pub async fn observed_search_rate(&self) -> Result<Option<f64>, StoreError> {
        let times: Vec<i64> = sqlx::query_scalar("SELECT fetched_at FROM crawl_page ORDER BY seq DESC LIMIT 1000")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the search rate", e))?;
        let gaps: Vec<i64> = times.windows(2).map(|pair| pair[0] - pair[1]).filter(|ms| *ms < 3_600_000).collect();
        let minutes = gaps.iter().sum::<i64>() as f64 / 60_000.0;
        Ok((gaps.len() >= 9 && minutes > 0.0).then(|| gaps.len() as f64 / minutes))
    }

    /// Artifacts whose history is to be read, by key, after `after`.
    pub async fn without_history(&self, after: i64, limit: usize) -> Result<Vec<WithoutHistory>, StoreError> {
        type Row = (i64, String, String, String, Option<Vec<u8>>);
        let rows: Vec<Row> = sqlx::query_as(include_str!("../../queries/sql/crawl_without_history.sql"))
            .bind(after)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list artifacts without history", e))?;
        rows.into_iter()
            .map(|(artifact, owner, name, path, head)| {
                let slug = Slug::new(&owner, &name)
                    .map_err(|e| self.damaged(format!("repository of artifact {artifact}"), e.to_string()))?;
                Ok(WithoutHistory { artifact, slug, path, head: head.and_then(|head| GitOid::from_slice(&head)) })
            })
            .collect()
    }

    /// How many artifacts [`Self::without_history`] lists in all.
    pub async fn count_without_history(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM artifact a JOIN repo r ON r.id = a.repo_id \
             LEFT JOIN history h ON h.artifact_id = a.id \
             WHERE a.presence = 'present' AND r.presence = 'present' AND r.source = 'github' \
             AND (h.artifact_id IS NULL OR h.head IS NOT r.head)",
        )
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("count artifacts without history", e))?;
        Ok(count as u64)
    }

    /// The stored request ledgers of all identities: resource and state, as JSON.
    pub async fn ledgers(&self) -> Result<Vec<(String, String)>, StoreError> {
        sqlx::query_as("SELECT resource, state FROM ledger ORDER BY updated_at DESC, resource")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the request ledgers", e))
    }

    /// Store histories.
    pub async fn put_histories(&self, run: RunId, rows: &[HistoryRow]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.put_histories_in(&mut tx, run, rows).await?;
        self.commit(tx).await
    }

    /// [`Self::put_histories`] inside a transaction of the caller.
    pub(crate) async fn put_histories_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        rows: &[HistoryRow],
    ) -> Result<(), StoreError> {
        for chunk in rows.chunks(BATCH) {
            let mut insert =
                QueryBuilder::<Sqlite>::new("INSERT INTO history (artifact_id, head, complete, facts, run_id) ");
            insert.push_values(chunk, |mut values, row| {
                values
                    .push_bind(row.artifact)
                    .push_bind(row.head.map(|head| head.0.to_vec()))
                    .push_bind(row.complete)
                    .push_bind(&row.facts)
                    .push_bind(run.0);
            });
            insert.push(
                " ON CONFLICT (artifact_id) DO UPDATE SET head = excluded.head, complete = excluded.complete, \
                 facts = excluded.facts, run_id = excluded.run_id",
            );
            insert.build().execute(&mut **tx).await.map_err(|e| self.failed("store histories", e))?;
        }
        Ok(())
    }

    /// The stored request ledger of an identity: resource and state, as JSON.
    pub async fn ledger(&self, identity: &str) -> Result<Vec<(String, String)>, StoreError> {
        sqlx::query_as("SELECT resource, state FROM ledger WHERE identity = ? ORDER BY resource")
            .bind(identity)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the request ledger", e))
    }

    /// Store the request ledger of an identity.
    pub async fn put_ledger(&self, identity: &str, rows: &[(String, String)], now: i64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for (resource, state) in rows {
            sqlx::query(
                "INSERT INTO ledger (identity, resource, state, updated_at) VALUES (?, ?, ?, ?) \
                 ON CONFLICT (identity, resource) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at",
            )
            .bind(identity)
            .bind(resource)
            .bind(state)
            .bind(now)
            .execute(&mut *tx)
            .await
            .map_err(|e| self.failed("store the request ledger", e))?;
        }
        self.commit(tx).await
    }
}
