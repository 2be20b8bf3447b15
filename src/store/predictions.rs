//! What the classifier said of a blob's items.

use super::{BATCH, BlobId, RunId, Store, StoreError};
use sqlx::{QueryBuilder, Sqlite};
use std::collections::HashMap;

/// A blob to be classified anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StalePrediction {
    /// Key.
    pub blob: BlobId,
    /// The path that its text is read as: chosen by (presence, path), so that it does not depend on what came first.
    pub path: String,
    /// Bytes of its body.
    pub size: i64,
    /// Its items, packed.
    pub items: Vec<u8>,
}

/// Predictions on a blob's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictionRow {
    /// The blob.
    pub blob: BlobId,
    /// The path that it was read as.
    pub path: String,
    /// The predictions, packed.
    pub packed: Vec<u8>,
}

/// What predictions are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionVersions<'a> {
    /// Tier and hash of the model.
    pub model: &'a str,
    /// Version of the segmenter.
    pub segmenter: u32,
}

impl Store {
    /// How many blobs [`Self::stale_predictions`] would list in all.
    pub async fn count_stale_predictions(&self, versions: PredictionVersions<'_>) -> Result<i64, StoreError> {
        sqlx::query_scalar(concat!("SELECT count(*) FROM (", include_str!("../../queries/sql/predict_stale.sql"), ")"))
            .bind(0)
            .bind(versions.segmenter)
            .bind(versions.model)
            .bind(-1)
            .fetch_one(self.read())
            .await
            .map_err(|e| self.failed("count stale predictions", e))
    }

    /// Blobs whose predictions are not those that `versions` and the paths of today would give: at most `limit` after
    /// `after`, by key. Blobs without items of this version of the segmenter are left out.
    pub async fn stale_predictions(
        &self,
        versions: PredictionVersions<'_>,
        after: BlobId,
        limit: usize,
    ) -> Result<Vec<StalePrediction>, StoreError> {
        let rows: Vec<(i64, String, i64, Vec<u8>)> =
            sqlx::query_as(include_str!("../../queries/sql/predict_stale.sql"))
                .bind(after.0)
                .bind(versions.segmenter)
                .bind(versions.model)
                .bind(limit as i64)
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("list stale predictions", e))?;
        Ok(rows
            .into_iter()
            .map(|(blob, path, size, items)| StalePrediction { blob: BlobId(blob), path, size, items })
            .collect())
    }

    /// How many blobs that some version holds have no items of this version of the segmenter.
    pub async fn count_unsegmented(&self, segmenter: u32) -> Result<i64, StoreError> {
        sqlx::query_scalar(
            "SELECT count(*) FROM blob b LEFT JOIN segmentation s ON s.blob_id = b.id \
             WHERE s.version IS NOT ? AND EXISTS (SELECT 1 FROM version v WHERE v.blob_id = b.id)",
        )
        .bind(segmenter)
        .fetch_one(self.read())
        .await
        .map_err(|e| self.failed("count blobs without items", e))
    }

    /// Write predictions, each in place of the blob's earlier ones, in one transaction.
    pub async fn put_predictions(
        &self,
        run: RunId,
        versions: PredictionVersions<'_>,
        rows: &[PredictionRow],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT OR REPLACE INTO prediction (blob_id, model, segmenter, path, packed, run_id) ",
            );
            insert.push_values(chunk, |mut values, row| {
                values
                    .push_bind(row.blob.0)
                    .push_bind(versions.model)
                    .push_bind(versions.segmenter)
                    .push_bind(&row.path)
                    .push_bind(&row.packed)
                    .push_bind(run.0);
            });
            insert.build().execute(&mut *tx).await.map_err(|e| self.failed("write predictions", e))?;
        }
        self.commit(tx).await
    }

    /// The packed predictions of these blobs with the model that made them, where they were classified.
    pub async fn packed_predictions(&self, blobs: &[BlobId]) -> Result<HashMap<BlobId, (String, Vec<u8>)>, StoreError> {
        let mut found = HashMap::with_capacity(blobs.len());
        for chunk in blobs.chunks(BATCH) {
            let mut query =
                QueryBuilder::<Sqlite>::new("SELECT blob_id, model, packed FROM prediction WHERE blob_id IN (");
            let mut list = query.separated(", ");
            for blob in chunk {
                list.push_bind(blob.0);
            }
            query.push(")");
            let rows: Vec<(i64, String, Vec<u8>)> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("read predictions", e))?;
            found.extend(rows.into_iter().map(|(id, model, packed)| (BlobId(id), (model, packed))));
        }
        Ok(found)
    }

    /// Packed predictions of all blobs, at most `limit` after `after`, by key.
    pub async fn predictions_after(&self, after: BlobId, limit: usize) -> Result<Vec<(BlobId, Vec<u8>)>, StoreError> {
        let rows: Vec<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT blob_id, packed FROM prediction WHERE blob_id > ? ORDER BY blob_id LIMIT ?")
                .bind(after.0)
                .bind(limit as i64)
                .fetch_all(self.read())
                .await
                .map_err(|e| self.failed("read predictions", e))?;
        Ok(rows.into_iter().map(|(id, packed)| (BlobId(id), packed)).collect())
    }
}
