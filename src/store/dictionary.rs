//! The dictionary that bodies are packed with: trained once on the corpus itself, then every body is packed anew.

use super::{BlobId, Codec, RunId, Store, StoreError};
use crate::monitor::Monitor;
use rayon::prelude::*;

/// Size of a trained dictionary, the default of the zstd tools.
const DICTIONARY: usize = 112_640;
/// Fewer blobs than this do not pay for a dictionary.
const TRAIN_FROM: i64 = 1_000;
/// Bodies that a dictionary is trained on, at most: about a hundred times its size is enough.
const SAMPLES: i64 = 4_000;
/// A body beyond this is stored but not held up as a sample; large files need no dictionary.
const SAMPLE_SIZE: i64 = 32_768;
/// Bodies packed anew between two looks at the monitor.
const PAGE: i64 = 2_000;
/// Setting with the key of the last body that was packed anew, while that is under way.
const REPACKED: &str = "dictionary/repacked";
/// Setting with the number of blobs that gave no dictionary.
const DECLINED: &str = "dictionary/declined";

/// How far a training came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Training {
    /// There was nothing to do, or too little to learn from.
    NotDue,
    /// There is a dictionary, and every body is packed with it.
    Done,
    /// Asked to stop; the next call goes on.
    Stopped,
}

/// What the trained dictionary saves, over every stored body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct DictionaryGain {
    /// Bodies measured.
    pub blobs: u64,
    /// Their bytes as found.
    pub raw: u64,
    /// Their bytes under zstd alone.
    pub zstd: u64,
    /// Their bytes as stored, with the dictionary.
    pub stored: u64,
}

impl Store {
    /// Whether [`Self::train_dictionary`] has something to do: enough blobs and no dictionary, or bodies that an
    /// earlier call did not get to. Blobs that gave no dictionary are tried again when there are twice as many.
    pub async fn dictionary_due(&self) -> Result<bool, StoreError> {
        let (blobs, dictionaries): (i64, i64) =
            sqlx::query_as("SELECT (SELECT count(*) FROM blob), (SELECT count(*) FROM dictionary)")
                .fetch_one(self.read())
                .await
                .map_err(|e| self.failed("look for a dictionary", e))?;
        if dictionaries > 0 {
            return Ok(self.setting(REPACKED).await?.is_some());
        }
        let declined = self.setting(DECLINED).await?.and_then(|blobs| blobs.parse::<i64>().ok()).unwrap_or(0);
        Ok(blobs >= TRAIN_FROM && blobs >= declined.saturating_mul(2))
    }

    /// Train the corpus's dictionary, if that is due, and pack every body anew with it: a step of its own on `monitor`.
    /// It may be stopped, and killed, at any point.
    pub async fn train_dictionary(&self, run: RunId, monitor: &dyn Monitor) -> Result<Training, StoreError> {
        if !self.dictionary_due().await? {
            return Ok(Training::NotDue);
        }
        monitor.begin("dictionary", Some(self.counts().await?.blobs.unsigned_abs()));
        let training = self.train_and_repack(run, monitor).await;
        monitor.end();
        training
    }

    async fn train_and_repack(&self, run: RunId, monitor: &dyn Monitor) -> Result<Training, StoreError> {
        if monitor.stop_requested() {
            return Ok(Training::Stopped);
        }
        if self.setting(REPACKED).await?.is_none() && !self.train(run).await? {
            return Ok(Training::NotDue);
        }
        self.repack(monitor).await
    }

    /// False when the bodies are too alike or too few to learn from: they stay as they are, which is only larger.
    async fn train(&self, run: RunId) -> Result<bool, StoreError> {
        let failed = |e| self.failed("train the dictionary", e);
        // Ordered by digest: a sample that does not depend on the order of arrival.
        let sample: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM blob WHERE size BETWEEN 64 AND ? ORDER BY sha256 LIMIT ?")
                .bind(SAMPLE_SIZE)
                .bind(SAMPLES)
                .fetch_all(self.read())
                .await
                .map_err(failed)?;
        let ids: Vec<BlobId> = sample.into_iter().map(BlobId).collect();
        let bodies = self.bodies(&ids).await?;
        let trained = tokio::task::spawn_blocking(move || zstd::dict::from_samples(&bodies, DICTIONARY)).await;
        let Ok(Ok(dictionary)) = trained else {
            let blobs = self.counts().await?.blobs;
            self.set_setting(DECLINED, &blobs.to_string()).await?;
            return Ok(false);
        };
        let mut tx = self.begin().await?;
        sqlx::query("INSERT INTO dictionary (body, trained_on, run_id) VALUES (?, ?, ?)")
            .bind(&dictionary)
            .bind(ids.len() as i64)
            .bind(run.0)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        self.set_setting_in(&mut tx, REPACKED, "0").await?;
        self.commit(tx).await?;
        self.reload_codec().await?;
        Ok(true)
    }

    /// Pack every body that has no dictionary anew, from where an earlier call stopped.
    async fn repack(&self, monitor: &dyn Monitor) -> Result<Training, StoreError> {
        let failed = |e| self.failed("pack bodies anew", e);
        let codec = self.codec();
        let mut after = self.setting(REPACKED).await?.and_then(|after| after.parse::<i64>().ok()).unwrap_or(0);
        loop {
            if monitor.stop_requested() {
                return Ok(Training::Stopped);
            }
            let ids: Vec<i64> =
                sqlx::query_scalar("SELECT id FROM blob WHERE codec <> 2 AND id > ? ORDER BY id LIMIT ?")
                    .bind(after)
                    .bind(PAGE)
                    .fetch_all(self.read())
                    .await
                    .map_err(failed)?;
            let Some(last) = ids.last() else { break };
            after = *last;
            let ids: Vec<BlobId> = ids.into_iter().map(BlobId).collect();
            let bodies = self.bodies(&ids).await?;
            let packed: Result<Vec<_>, _> =
                bodies.par_iter().map_init(|| codec.packer(), |packer, bytes| packer.pack(bytes)).collect();
            let packed = packed.map_err(|e| self.damaged("a body", e.to_string()))?;
            let mut tx = self.begin().await?;
            for (id, (kind, dictionary, body)) in ids.iter().zip(packed) {
                sqlx::query("UPDATE blob SET codec = ?, dictionary_id = ?, body = ? WHERE id = ?")
                    .bind(kind)
                    .bind(dictionary)
                    .bind(body)
                    .bind(id.0)
                    .execute(&mut *tx)
                    .await
                    .map_err(failed)?;
            }
            sqlx::query("UPDATE setting SET value = ? WHERE key = ?")
                .bind(after.to_string())
                .bind(REPACKED)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            self.commit(tx).await?;
            monitor.advance(ids.len() as u64);
        }
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM setting WHERE key = ?").bind(REPACKED).execute(&mut *tx).await.map_err(failed)?;
        self.commit(tx).await?;
        Ok(Training::Done)
    }

    /// Measure what the dictionary saves by packing every body without it.
    pub async fn dictionary_gain(&self) -> Result<DictionaryGain, StoreError> {
        let failed = |e| self.failed("measure the dictionary", e);
        let mut gain = DictionaryGain { blobs: 0, raw: 0, zstd: 0, stored: 0 };
        let stored: i64 = sqlx::query_scalar("SELECT coalesce(sum(length(body)), 0) FROM blob")
            .fetch_one(self.read())
            .await
            .map_err(failed)?;
        gain.stored = stored.unsigned_abs();
        let (plain, mut after) = (Codec::plain(), 0i64);
        let mut packer = plain.packer();
        loop {
            let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM blob WHERE id > ? ORDER BY id LIMIT 2000")
                .bind(after)
                .fetch_all(self.read())
                .await
                .map_err(failed)?;
            let Some(last) = ids.last() else { return Ok(gain) };
            after = *last;
            let ids: Vec<BlobId> = ids.into_iter().map(BlobId).collect();
            for bytes in self.bodies(&ids).await? {
                let (_, _, body) = packer.pack(&bytes).map_err(|e| self.damaged("a body", e.to_string()))?;
                gain.blobs += 1;
                gain.raw += bytes.len() as u64;
                gain.zstd += body.len() as u64;
            }
        }
    }
}
