//! What was found in a blob's text: its items and the passages that must not be passed on.

use super::{BATCH, BlobId, RunId, Store, StoreError};
use sqlx::{QueryBuilder, Sqlite};
use std::collections::HashMap;

/// A blob to be read anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleBlob {
    /// Key.
    pub id: BlobId,
    /// The path that decides how its text is read; empty when only symbolic links hold it.
    pub path: String,
    /// Bytes of its body.
    pub size: i64,
}

/// What one reading of a blob found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingRow {
    /// The blob.
    pub blob: BlobId,
    /// The path that it was read as.
    pub path: String,
    /// How many items it has.
    pub items: i64,
    /// The items, packed.
    pub packed: Vec<u8>,
    /// Redaction spans as JSON: a list of [start, end, kind, rule].
    pub redactions: String,
}

/// The versions of the rules that a reading was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingVersions {
    /// Of the segmenter.
    pub segment: u32,
    /// Of the redaction rules.
    pub redact: u32,
}

impl Store {
    /// How many blobs [`Self::stale_readings`] would list in all.
    pub async fn count_stale_readings(&self, versions: ReadingVersions) -> Result<i64, StoreError> {
        sqlx::query_scalar(concat!("SELECT count(*) FROM (", include_str!("../../queries/sql/segment_stale.sql"), ")"))
            .bind(0)
            .bind(versions.segment)
            .bind(versions.redact)
            .bind(-1)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count stale readings", e))
    }

    /// Blobs that some version holds and whose items or redaction spans are not those that `versions` and the paths of
    /// today would give: at most `limit` after `after`, by key.
    pub async fn stale_readings(
        &self,
        versions: ReadingVersions,
        after: BlobId,
        limit: usize,
    ) -> Result<Vec<StaleBlob>, StoreError> {
        let rows: Vec<(i64, String, i64)> = sqlx::query_as(include_str!("../../queries/sql/segment_stale.sql"))
            .bind(after.0)
            .bind(versions.segment)
            .bind(versions.redact)
            .bind(limit as i64)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list stale readings", e))?;
        Ok(rows.into_iter().map(|(id, path, size)| StaleBlob { id: BlobId(id), path, size }).collect())
    }

    /// Write readings, each in place of the blob's earlier one, in one transaction.
    pub async fn put_readings(
        &self,
        run: RunId,
        versions: ReadingVersions,
        rows: &[ReadingRow],
    ) -> Result<(), StoreError> {
        let failed = |e| self.failed("write readings", e);
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT OR REPLACE INTO segmentation (blob_id, version, path, items, packed, run_id) ",
            );
            insert.push_values(chunk, |mut values, row| {
                values
                    .push_bind(row.blob.0)
                    .push_bind(versions.segment)
                    .push_bind(&row.path)
                    .push_bind(row.items)
                    .push_bind(&row.packed)
                    .push_bind(run.0);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
            let mut insert =
                QueryBuilder::<Sqlite>::new("INSERT OR REPLACE INTO redaction (blob_id, version, spans, run_id) ");
            insert.push_values(chunk, |mut values, row| {
                values.push_bind(row.blob.0).push_bind(versions.redact).push_bind(&row.redactions).push_bind(run.0);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        self.commit(tx).await
    }

    /// The packed items of these blobs with the version of the segmenter, where they were read.
    pub async fn packed_items(&self, blobs: &[BlobId]) -> Result<HashMap<BlobId, (u32, Vec<u8>)>, StoreError> {
        let mut found = HashMap::with_capacity(blobs.len());
        for chunk in blobs.chunks(BATCH) {
            let mut query =
                QueryBuilder::<Sqlite>::new("SELECT blob_id, version, packed FROM segmentation WHERE blob_id IN (");
            let mut list = query.separated(", ");
            for blob in chunk {
                list.push_bind(blob.0);
            }
            query.push(")");
            let rows: Vec<(i64, u32, Vec<u8>)> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read items", e))?;
            found.extend(rows.into_iter().map(|(id, version, packed)| (BlobId(id), (version, packed))));
        }
        Ok(found)
    }

    /// The redaction spans of these blobs as JSON ([`ReadingRow::redactions`]) with the version of the rules, where they
    /// were read.
    pub async fn redactions(&self, blobs: &[BlobId]) -> Result<HashMap<BlobId, (u32, String)>, StoreError> {
        let mut found = HashMap::with_capacity(blobs.len());
        for chunk in blobs.chunks(BATCH) {
            let mut query =
                QueryBuilder::<Sqlite>::new("SELECT blob_id, version, spans FROM redaction WHERE blob_id IN (");
            let mut list = query.separated(", ");
            for blob in chunk {
                list.push_bind(blob.0);
            }
            query.push(")");
            let rows: Vec<(i64, u32, String)> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read redactions", e))?;
            found.extend(rows.into_iter().map(|(id, version, spans)| (BlobId(id), (version, spans))));
        }
        Ok(found)
    }

    /// Redaction spans over all blobs by kind.
    pub async fn redaction_counts(&self) -> Result<Vec<(String, i64)>, StoreError> {
        sqlx::query_as(
            "SELECT json_extract(span.value, '$[2]'), count(*) FROM redaction, json_each(redaction.spans) AS span \
             WHERE redaction.spans <> '[]' GROUP BY 1 ORDER BY 1",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("count redactions", e))
    }
}
