//! What an export reads: keys of everything first, in a fixed order, then the rest a page at a time.

use super::{BATCH, BlobId, RepoId, Store, StoreError, list};
use crate::corpus::{GitOid, Sha256};
use sqlx::{FromRow, QueryBuilder, Sqlite};
use std::collections::HashMap;

/// A repository with what an export says of it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ExportRepo {
    /// Key.
    pub id: i64,
    /// GitHub's node id.
    pub node_id: Option<String>,
    /// Owner.
    pub owner: String,
    /// Name.
    pub name: String,
    /// `github` or `local`.
    pub source: String,
    /// Whether it is a fork.
    pub is_fork: Option<bool>,
    /// Whether it is not public.
    pub is_private: Option<bool>,
    /// Stars.
    pub stars: Option<i64>,
    /// Primary language.
    pub language: Option<String>,
    /// What the API said of its licence.
    pub license_api: Option<String>,
    /// SPDX expression of the verdict.
    pub license_spdx: Option<String>,
    /// Tier of the verdict; absent before judging.
    pub license_tier: Option<String>,
    /// Whether it is still there.
    pub presence: String,
}

/// An artifact as keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ExportKey {
    /// Key of the artifact.
    pub artifact: i64,
    /// Key of its repository.
    pub repo: i64,
    /// Key of the version.
    pub version: i64,
    /// Key of the blob.
    pub blob: i64,
    /// Bytes of the blob.
    pub size: i64,
    /// A symbolic link.
    pub is_link: bool,
    /// Tagged as a pointer.
    pub is_pointer: bool,
    /// Blob that stands for its near-duplicate cluster; its own before the search for duplicates.
    pub cluster: i64,
    /// The corpus is a copy for others, made without this body.
    pub is_withheld: bool,
}

/// What an artifact's row says besides the keys.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportArtifact {
    /// Path.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Owning target.
    pub target: String,
    /// `file`, `executable` or `symlink`.
    pub mode: String,
    /// Where it leads.
    pub resolves_to: Option<String>,
    /// Digest of what is there.
    pub resolved: Option<Sha256>,
    /// Commit at which the bytes were first seen here.
    pub commit: Option<GitOid>,
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// Git id of the bytes.
    pub git_oid: GitOid,
    /// Encoding of the bytes.
    pub encoding: String,
    /// Digest of the canonical text of its cluster, where duplicates were searched.
    pub cluster: Option<Sha256>,
    /// Similarity to it.
    pub similarity: Option<f64>,
}

/// A tag of an artifact.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct ExportTag {
    /// Key of the artifact.
    pub artifact_id: i64,
    /// The question.
    pub dimension: String,
    /// The answer.
    pub value: String,
    /// The rule that gave it.
    pub rule: String,
    /// How sure the rule is.
    pub confidence: f32,
}

/// What was read from a blob.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct ExportReading {
    /// Key of the blob.
    pub id: i64,
    /// Version of the segmenter.
    pub segmenter: Option<u32>,
    /// Items, packed.
    pub items: Option<Vec<u8>>,
    /// Version of the redaction rules.
    pub redactor: Option<u32>,
    /// Redaction spans as JSON.
    pub spans: Option<String>,
    /// The model that predicted.
    pub model: Option<String>,
    /// Version of the segmenter whose items were predicted.
    pub predicted_segmenter: Option<u32>,
    /// Predictions, packed.
    pub predictions: Option<Vec<u8>>,
}

/// Which bytes a path held from when to when.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct ExportOccurrence {
    /// Key of the repository.
    pub repo_id: i64,
    /// Path.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Digest of the bytes.
    pub sha256: Vec<u8>,
    /// Git id of the bytes.
    pub git_oid: Vec<u8>,
    /// Commit at which they were first seen.
    pub commit_oid: Option<Vec<u8>>,
    /// Bytes.
    pub size: i64,
    /// Whether the path holds them now.
    pub current: bool,
    /// Unix milliseconds.
    pub first_seen: i64,
    /// Unix milliseconds.
    pub last_seen: i64,
}

/// A label in force.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct ExportLabel {
    /// The item.
    pub item_id: String,
    /// Who.
    pub annotator: String,
    /// The round.
    pub pass: i64,
    /// `labelled` or `skipped`.
    pub status: String,
    /// The type.
    #[sqlx(rename = "type")]
    pub knowledge_type: Option<String>,
    /// Second choice.
    pub second: Option<String>,
    /// Flagged as doubtful.
    pub flagged: bool,
    /// Version of the rubric.
    pub rubric: i64,
    /// Where it comes from.
    pub origin: String,
}

/// How many survive each stage before an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, FromRow)]
pub struct Funnel {
    /// Paths that a search or a walk over trees named.
    pub found: i64,
    /// Paths whose bytes were read.
    pub fetched: i64,
    /// Distinct bytes among those.
    #[sqlx(rename = "distinct_blobs")]
    pub distinct: i64,
    /// Texts left when of each near-duplicate cluster one stays; absent before the search for duplicates.
    pub canonical: Option<i64>,
}

impl Store {
    /// Every repository that has an artifact, by lower-case name.
    pub async fn export_repos(&self) -> Result<Vec<ExportRepo>, StoreError> {
        let mut repos: Vec<ExportRepo> = sqlx::query_as(
            "SELECT id, node_id, owner, name, source, is_fork, is_private, stars, language, license_api, license_spdx, \
             license_tier, presence FROM repo WHERE EXISTS (SELECT 1 FROM artifact WHERE repo_id = repo.id)",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("list repositories", e))?;
        repos.sort_by_cached_key(|repo| {
            (format!("{}/{}", repo.owner, repo.name).to_ascii_lowercase(), repo.node_id.clone(), repo.id)
        });
        Ok(repos)
    }

    /// Artifacts as they stood at run `as_of` whose bytes are newer than run `since`, by repository key and path.
    pub async fn export_keys(&self, as_of: i64, since: i64) -> Result<Vec<ExportKey>, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/export_skeleton.sql"))
            .bind(as_of)
            .bind(since)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list artifacts", e))
    }

    /// The rows of these versions, by key of the version.
    pub async fn export_artifacts(&self, versions: &[i64]) -> Result<HashMap<i64, ExportArtifact>, StoreError> {
        type Row = (
            (i64, String, String, String, String, Option<String>),
            (Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>, Vec<u8>, String, Option<Vec<u8>>, Option<f64>),
        );
        let mut found = HashMap::with_capacity(versions.len());
        for chunk in versions.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(include_str!("../../queries/sql/export_artifacts.sql"));
            list(&mut query, chunk.iter().copied());
            let rows = query.build().fetch_all(self.read()).await.map_err(|e| self.failed("read artifacts", e))?;
            for row in rows {
                use sqlx::Row as _;
                let read = || -> Result<Row, sqlx::Error> {
                    Ok((
                        (
                            row.try_get(0)?,
                            row.try_get(1)?,
                            row.try_get(2)?,
                            row.try_get(3)?,
                            row.try_get(4)?,
                            row.try_get(5)?,
                        ),
                        (
                            row.try_get(6)?,
                            row.try_get(7)?,
                            row.try_get(8)?,
                            row.try_get(9)?,
                            row.try_get(10)?,
                            row.try_get(11)?,
                            row.try_get(12)?,
                        ),
                    ))
                };
                let ((version, path, platform, target, mode, resolves_to), rest) =
                    read().map_err(|e| self.failed("read an artifact", e))?;
                let (resolved, commit, sha256, oid, encoding, cluster, similarity) = rest;
                let wrong = |column| self.damaged(format!("{column} of version {version}"), "wrong length");
                let artifact = ExportArtifact {
                    path,
                    platform,
                    target,
                    mode,
                    resolves_to,
                    resolved: resolved.and_then(|d| Sha256::from_slice(&d)),
                    commit: commit.and_then(|c| GitOid::from_slice(&c)),
                    sha256: Sha256::from_slice(&sha256).ok_or_else(|| wrong("sha256"))?,
                    git_oid: GitOid::from_slice(&oid).ok_or_else(|| wrong("git_oid"))?,
                    encoding,
                    cluster: cluster.and_then(|d| Sha256::from_slice(&d)),
                    similarity,
                };
                found.insert(version, artifact);
            }
        }
        Ok(found)
    }

    /// The tags of these artifacts, by artifact and dimension.
    pub async fn export_tags(&self, artifacts: &[i64]) -> Result<Vec<ExportTag>, StoreError> {
        let mut tags: Vec<ExportTag> = Vec::new();
        for chunk in artifacts.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT artifact_id, dimension, value, rule, confidence FROM tag WHERE artifact_id IN (",
            );
            list(&mut query, chunk.iter().copied());
            query.push(" ORDER BY artifact_id, dimension");
            let rows = query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read tags", e))?;
            tags.extend::<Vec<ExportTag>>(rows);
        }
        Ok(tags)
    }

    /// Items, redaction spans and predictions of these blobs.
    pub async fn export_readings(&self, blobs: &[BlobId]) -> Result<HashMap<BlobId, ExportReading>, StoreError> {
        let ids: Vec<i64> = blobs.iter().map(|blob| blob.0).collect();
        let mut found = HashMap::with_capacity(blobs.len());
        for chunk in ids.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT b.id, s.version AS segmenter, s.packed AS items, r.version AS redactor, r.spans, p.model, \
                 p.segmenter AS predicted_segmenter, p.packed AS predictions FROM blob b \
                 LEFT JOIN segmentation s ON s.blob_id = b.id LEFT JOIN redaction r ON r.blob_id = b.id \
                 LEFT JOIN prediction p ON p.blob_id = b.id AND p.path = s.path WHERE b.id IN (",
            );
            list(&mut query, chunk.iter().copied());
            let rows: Vec<ExportReading> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read items", e))?;
            found.extend(rows.into_iter().map(|row| (BlobId(row.id), row)));
        }
        Ok(found)
    }

    /// Every version of these repositories' artifacts up to run `as_of`, by repository key, path and first run.
    pub async fn export_occurrences(&self, repos: &[RepoId], as_of: i64) -> Result<Vec<ExportOccurrence>, StoreError> {
        let ids: Vec<i64> = repos.iter().map(|repo| repo.0).collect();
        let mut found: Vec<ExportOccurrence> = Vec::new();
        for chunk in ids.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT a.repo_id, a.path, a.platform, b.sha256, b.git_oid, v.commit_oid, b.size, \
                 v.current = 1 AND a.presence = 'present' AS current, f.started_at AS first_seen, \
                 l.started_at AS last_seen FROM artifact a JOIN version v ON v.artifact_id = a.id \
                 JOIN blob b ON b.id = v.blob_id JOIN run f ON f.id = v.first_run JOIN run l ON l.id = v.last_run \
                 WHERE v.first_run <= ",
            );
            query.push_bind(as_of).push(" AND a.repo_id IN (");
            list(&mut query, chunk.iter().copied());
            query.push(" ORDER BY a.repo_id, a.path, v.first_run, b.sha256");
            let rows: Vec<ExportOccurrence> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read versions", e))?;
            found.extend(rows);
        }
        Ok(found)
    }

    /// The labels in force: the last of each item, annotator and pass, unless it is open again.
    pub async fn export_labels(&self) -> Result<Vec<ExportLabel>, StoreError> {
        sqlx::query_as(
            "SELECT item_id, annotator, pass, status, type, second, flagged, rubric, origin FROM label \
             WHERE id IN (SELECT max(id) FROM label GROUP BY item_id, annotator, pass) AND status <> 'open' \
             ORDER BY item_id, annotator, pass",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read labels", e))
    }

    /// How many survive each stage before an export.
    pub async fn funnel(&self) -> Result<Funnel, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/funnel.sql"))
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count the stages", e))
    }
}
