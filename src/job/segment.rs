//! Find the items of every text, and with the same reading the passages that must not be passed on.

use super::judging::{JudgeError, LazyRun, PAGE, blocking, fit};
use crate::corpus::Segmentation;
use crate::monitor::Monitor;
use crate::store::{BlobId, ReadingRow, ReadingVersions, StaleBlob, Store};
use crate::{encoding, redact, segment};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The rules of this build.
pub(super) const VERSIONS: ReadingVersions =
    ReadingVersions { segment: segment::VERSION, redact: redact::VERSION as u32 };

/// What a run did, and what the corpus holds after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    /// Blobs that were missing or stale at the start.
    pub stale: u64,
    /// Of these, those read now.
    pub updated: u64,
    /// Items over all blobs.
    pub items: i64,
    /// Redaction spans over all blobs, by kind.
    pub redactions: BTreeMap<String, i64>,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
}

/// Read every blob whose items or redaction spans are missing or stale.
pub async fn segment(store: &Store, monitor: &dyn Monitor) -> Result<SegmentSummary, JudgeError> {
    let mut summary = SegmentSummary::default();
    let mut run = LazyRun::new(store, "segment");
    summary.stale = store.count_stale_readings(VERSIONS).await?.unsigned_abs();
    monitor.begin("segment", Some(summary.stale));
    let mut next = if summary.stale > 0 { read_after(store, BlobId(0)).await? } else { Vec::new() };
    while let Some(last) = next.last() {
        if monitor.stop_requested() {
            summary.paused = true;
            break;
        }
        let (run, rows, last) = (run.id().await?, &next, last.blob);
        let (written, following) = tokio::join!(store.put_readings(run, VERSIONS, rows), read_after(store, last));
        written?;
        summary.updated += rows.len() as u64;
        monitor.advance(rows.len() as u64);
        next = following?;
    }
    monitor.end();
    summary.items = store.counts().await?.items;
    summary.redactions = store.redaction_counts().await?.into_iter().collect();
    run.end(summary.paused, &summary).await?;
    Ok(summary)
}

/// Read the next blobs after `after` whose items or redaction spans are missing or stale.
async fn read_after(store: &Store, after: BlobId) -> Result<Vec<ReadingRow>, JudgeError> {
    let mut page = store.stale_readings(VERSIONS, after, PAGE).await?;
    fit(&mut page, |blob| blob.size);
    let ids: Vec<BlobId> = page.iter().map(|blob| blob.id).collect();
    let bodies = store.bodies(&ids).await?;
    blocking("find items", move || page.into_par_iter().zip(bodies).map(|(blob, body)| read(blob, &body)).collect())
        .await
}

fn read(blob: StaleBlob, body: &[u8]) -> ReadingRow {
    let text = encoding::decode(body).1.filter(|_| !blob.path.is_empty());
    let (found, spans) = match &text {
        Some(text) => (segment::segment(&blob.path, text), redact::spans(text)),
        None => Default::default(),
    };
    let spans: Vec<_> = spans.iter().map(|span| (span.start, span.end, span.kind.as_str(), span.rule)).collect();
    ReadingRow {
        blob: blob.id,
        items: found.items.len() as i64,
        packed: segment::pack(&found),
        redactions: serde_json::json!(spans).to_string(),
        path: blob.path,
    }
}

/// The items of these blobs, where they were found by the rules of this build.
pub async fn segmentations(store: &Store, blobs: &[BlobId]) -> Result<HashMap<BlobId, Segmentation>, JudgeError> {
    let packed = store.packed_items(blobs).await?;
    packed
        .into_iter()
        .filter(|(_, (version, _))| *version == segment::VERSION)
        .map(|(blob, (_, packed))| {
            let found = segment::unpack(&packed).map_err(|source| JudgeError::Items { blob: blob.0, source })?;
            Ok((blob, found))
        })
        .collect()
}
