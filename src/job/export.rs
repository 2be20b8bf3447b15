//! From the store to Parquet shards.

use crate::encoding;
use crate::monitor::Monitor;
use crate::parquet::{ArtifactRecord, ArtifactTable, ShardError, ShardOptions, ShardSet};
use crate::store::{ArtifactListing, BlobId, Store, StoreError};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Artifacts read and unpacked at a time; bounds memory.
const PAGE: usize = 1_000;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The corpus could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The shards could not be written.
    #[error(transparent)]
    Shards(#[from] ShardError),
    /// Asked to stop; the old set is as it was.
    #[error("Stopped before the export was whole; the set before is untouched")]
    Stopped,
}

/// What an export made.
#[derive(Debug, Clone, Serialize)]
pub struct ExportSummary {
    /// Files, in order.
    pub shards: Vec<PathBuf>,
    /// Rows over all files.
    pub rows: u64,
    /// Bytes over all files.
    pub bytes: u64,
}

/// Write every present artifact to `out/data`, ordered by (repository, path): the same corpus gives the same bytes.
pub async fn export(store: &Store, out: &Path, monitor: &dyn Monitor) -> Result<ExportSummary, ExportError> {
    let counts = store.counts().await?;
    monitor.begin("export", u64::try_from(counts.artifacts).ok());
    let mut set = ShardSet::<ArtifactTable>::create(&out.join("data"), ShardOptions::default())?;
    let mut after: Option<(String, String)> = None;
    loop {
        if monitor.stop_requested() {
            monitor.end();
            return Err(ExportError::Stopped);
        }
        let position = after.as_ref().map(|(key, path)| (key.as_str(), path.as_str()));
        let page = store.artifacts_after(position, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some((format!("{}/{}", last.owner, last.name).to_ascii_lowercase(), last.path.clone()));
        let blobs: Vec<BlobId> = page.iter().map(|a| a.blob).collect();
        let bodies = store.bodies(&blobs).await?;
        let read = page.len() as u64;
        for (artifact, body) in page.into_iter().zip(bodies) {
            set.push(record(artifact, &body))?;
        }
        monitor.advance(read);
    }
    let written = set.finish()?;
    monitor.end();
    Ok(ExportSummary { shards: written.shards, rows: written.rows, bytes: written.bytes })
}

fn record(artifact: ArtifactListing, body: &[u8]) -> ArtifactRecord {
    ArtifactRecord {
        repo: format!("{}/{}", artifact.owner, artifact.name),
        path: artifact.path,
        platform: artifact.platform,
        target: artifact.target,
        mode: artifact.mode,
        resolves_to: artifact.resolves_to,
        sha256: artifact.sha256.to_string(),
        blob: artifact.git_oid.to_string(),
        commit: artifact.commit.map(|c| c.to_string()),
        size: artifact.size,
        encoding: artifact.encoding,
        license: artifact.license_api,
        language: artifact.language,
        stars: artifact.stars,
        is_fork: artifact.is_fork,
        text: encoding::decode(body).1.map(std::borrow::Cow::into_owned),
    }
}
