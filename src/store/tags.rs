//! Tags of artifacts and licences of repositories.

use super::{BATCH, BlobId, RepoId, RunId, Store, StoreError};
use crate::corpus::GitOid;
use crate::taxonomy::{Dimension, LicenseTier};
use sqlx::{FromRow, QueryBuilder, Sqlite, Transaction};

/// Everything that the tags of an artifact are decided by, but for its text.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct TagSubject {
    /// Key of the artifact.
    pub id: i64,
    /// Owner of the repository.
    pub owner: String,
    /// Name of the repository.
    pub name: String,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Path in the repository.
    pub path: String,
    /// Owning platform.
    pub platform: String,
    /// Owning target.
    pub target: String,
    /// `file`, `executable` or `symlink`.
    pub mode: String,
    /// Where it is said to lead now.
    pub resolves_to: Option<String>,
    /// Key of its blob.
    pub blob_id: i64,
    /// Digest of its blob.
    pub sha256: Vec<u8>,
    /// Bytes of its blob.
    pub size: i64,
    /// Commit facts as JSON, where history was read.
    pub facts: Option<String>,
    /// Owners of the blob's cluster, where clusters know the blob.
    pub owners: Option<u32>,
    /// Version of the rules of its present tags.
    pub tagged_version: Option<u32>,
    /// Statistics of its present tags.
    pub tagged_statistics: Option<i64>,
    /// Fingerprint of its present tags.
    pub tagged_input: Option<i64>,
}

impl TagSubject {
    /// Key of its blob.
    pub fn blob(&self) -> BlobId {
        BlobId(self.blob_id)
    }
}

/// What tags were decided by and where they belong.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggedArtifact {
    /// Key of the artifact.
    pub artifact: i64,
    /// Fingerprint of what the tags were decided by.
    pub input: i64,
    /// The tags.
    pub tags: Vec<NewTag>,
    /// Where the text points to, when that changed; the inner option is nothing for a text that points nowhere.
    pub resolves_to: Option<Option<String>>,
}

/// One tag.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTag {
    /// The question.
    pub dimension: Dimension,
    /// The answer.
    pub value: String,
    /// The rule that gave it.
    pub rule: String,
    /// What it saw, as JSON: `{"span":[start,end]}` or `{"fact":"…"}`.
    pub evidence: String,
    /// How sure the rule is, 0 to 1.
    pub confidence: f32,
}

/// A tag as stored, named so that corpora can be compared.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct TagListing {
    /// `owner/name`.
    pub repo: String,
    /// Path of the artifact.
    pub path: String,
    /// Git id of the blob that the artifact holds.
    pub git_oid: Vec<u8>,
    /// The question.
    pub dimension: String,
    /// The answer.
    pub value: String,
    /// The rule that gave it.
    pub rule: String,
    /// What it saw, as JSON.
    pub evidence: String,
    /// How sure the rule is.
    pub confidence: f32,
    /// Version of the rules.
    pub version: u32,
    /// Digest of the statistics.
    pub statistics: Option<Vec<u8>>,
}

/// What is stored of a repository's licence.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LicenseSubject {
    /// Key of the repository.
    pub id: i64,
    /// What the API said.
    pub license_api: Option<String>,
    /// The verdict's tier.
    pub license_tier: Option<String>,
    /// The verdict's SPDX expression.
    pub license_spdx: Option<String>,
    /// The verdict's evidence as JSON.
    pub license_evidence: Option<String>,
    /// Version of the rules of the verdict.
    pub license_version: Option<u32>,
}

/// A verdict to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LicenseRow {
    /// The repository.
    pub repo: RepoId,
    /// How freely its texts may be passed on.
    pub tier: LicenseTier,
    /// SPDX expression, when one names the licence exactly.
    pub spdx: Option<String>,
    /// What the verdict rests on, as JSON.
    pub evidence: String,
    /// Version of the rules.
    pub version: u32,
}

impl Store {
    /// Present artifacts with what their tags are decided by, at most `limit` after the artifact `after`, by key.
    pub async fn tag_subjects_after(&self, after: i64, limit: usize) -> Result<Vec<TagSubject>, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/tag_inputs.sql"))
            .bind(after)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list what tags are decided by", e))
    }

    /// How many present artifacts have no tags by these rules and statistics. What else tags are decided by, as the
    /// facts of a repository, is not compared.
    pub async fn count_untagged(&self, version: u32, statistics: i64) -> Result<i64, StoreError> {
        sqlx::query_scalar(concat!(
            "SELECT count(*) FROM (",
            include_str!("../../queries/sql/tag_inputs.sql"),
            ") WHERE tagged_version IS NOT ?3 OR tagged_statistics IS NOT ?4"
        ))
        .bind(0)
        .bind(-1)
        .bind(version)
        .bind(statistics)
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("count what is not tagged", e))
    }

    /// Write tags in place of the artifacts' earlier ones, in one transaction.
    pub async fn put_tags(
        &self,
        run: RunId,
        version: u32,
        statistics: i64,
        rows: &[TaggedArtifact],
    ) -> Result<(), StoreError> {
        let failed = |e| self.failed("write tags", e);
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT OR REPLACE INTO tag \
                 (artifact_id, dimension, value, rule, evidence, confidence, version, statistics_id, input, run_id) ",
            );
            let tags = chunk.iter().flat_map(|row| row.tags.iter().map(move |tag| (row, tag)));
            insert.push_values(tags, |mut values, (row, tag)| {
                values
                    .push_bind(row.artifact)
                    .push_bind(tag.dimension.as_str())
                    .push_bind(&tag.value)
                    .push_bind(&tag.rule)
                    .push_bind(&tag.evidence)
                    .push_bind(tag.confidence)
                    .push_bind(version)
                    .push_bind(statistics)
                    .push_bind(row.input)
                    .push_bind(run.0);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        for row in rows {
            let Some(resolves_to) = &row.resolves_to else { continue };
            sqlx::query("UPDATE artifact SET resolves_to = ? WHERE id = ? AND mode <> 'symlink'")
                .bind(resolves_to)
                .bind(row.artifact)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
        }
        self.commit(tx).await
    }

    /// Tags of present artifacts as (dimension, value, count).
    pub async fn tag_counts(&self) -> Result<Vec<(String, String, i64)>, StoreError> {
        sqlx::query_as(
            "SELECT t.dimension, t.value, count(*) FROM tag t JOIN artifact a ON a.id = t.artifact_id \
             WHERE a.presence = 'present' GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count tags", e))
    }

    /// The git id of what the present artifact at `path` of the repository with this lower-case `owner/name` holds.
    pub async fn repo_artifact_oid(&self, key: &str, path: &str) -> Result<Option<GitOid>, StoreError> {
        let oid: Option<Vec<u8>> = sqlx::query_scalar(
            "SELECT b.git_oid FROM repo r JOIN artifact a ON a.repo_id = r.id \
             JOIN version v ON v.artifact_id = a.id AND v.current = 1 JOIN blob b ON b.id = v.blob_id \
             WHERE r.key = ? AND a.path = ? AND a.presence = 'present'",
        )
        .bind(key)
        .bind(path)
        .fetch_optional(self.read())
        .await
        .map_err(|e| self.failed("look up an artifact", e))?;
        oid.map(|oid| {
            GitOid::from_slice(&oid)
                .ok_or_else(|| self.damaged(format!("blob of {key}:{path}"), "git id is not 20 bytes"))
        })
        .transpose()
    }

    /// The tags of every present artifact of the repository with this lower-case `owner/name`, of the one at a path where
    /// that is given; of all artifacts when nothing is. By repository, path and dimension.
    pub async fn tags(&self, of: Option<(&str, Option<&str>)>) -> Result<Vec<TagListing>, StoreError> {
        let (key, path) = of.unzip();
        sqlx::query_as(
            "SELECT r.owner || '/' || r.name AS repo, a.path, b.git_oid, t.dimension, t.value, t.rule, t.evidence, \
             t.confidence, t.version, s.digest AS statistics FROM repo r JOIN artifact a ON a.repo_id = r.id \
             JOIN version v ON v.artifact_id = a.id AND v.current = 1 JOIN blob b ON b.id = v.blob_id \
             JOIN tag t ON t.artifact_id = a.id LEFT JOIN statistics s ON s.id = t.statistics_id \
             WHERE a.presence = 'present' AND (?1 IS NULL OR (r.key = ?1 AND coalesce(a.path = ?2, 1))) \
             ORDER BY lower(repo), a.path, t.dimension",
        )
        .bind(key)
        .bind(path.flatten())
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read tags", e))
    }

    /// Repositories with their licence as stored, at most `limit` after the repository `after`, by key. Those that were
    /// opted out are left out.
    pub async fn license_subjects_after(&self, after: i64, limit: usize) -> Result<Vec<LicenseSubject>, StoreError> {
        sqlx::query_as(
            "SELECT id, license_api, license_tier, license_spdx, license_evidence, license_version FROM repo \
             WHERE id > ? AND presence <> 'opted_out' ORDER BY id LIMIT ?",
        )
        .bind(after)
        .bind(limit as i64)
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("list licences", e))
    }

    /// Write verdicts on licences in one transaction.
    pub async fn put_licenses(&self, rows: &[LicenseRow]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.put_licenses_in(&mut tx, rows).await?;
        self.commit(tx).await
    }

    /// [`Self::put_licenses`] inside a transaction of the caller.
    pub(crate) async fn put_licenses_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        rows: &[LicenseRow],
    ) -> Result<(), StoreError> {
        for row in rows {
            sqlx::query(
                "UPDATE repo SET license_tier = ?, license_spdx = ?, license_evidence = ?, license_version = ? \
                 WHERE id = ?",
            )
            .bind(row.tier.as_str())
            .bind(&row.spdx)
            .bind(&row.evidence)
            .bind(row.version)
            .bind(row.repo.0)
            .execute(&mut **tx)
            .await
            .map_err(|e| self.failed("write licences", e))?;
        }
        Ok(())
    }

    /// Repositories with present artifacts by tier of their licence.
    pub async fn license_counts(&self) -> Result<Vec<(String, i64)>, StoreError> {
        sqlx::query_as(
            "SELECT license_tier, count(*) FROM repo r WHERE license_tier IS NOT NULL \
             AND EXISTS (SELECT 1 FROM artifact WHERE repo_id = r.id AND presence = 'present') GROUP BY 1 ORDER BY 1",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count licences", e))
    }
}
