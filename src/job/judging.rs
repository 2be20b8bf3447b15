//! What the jobs that judge texts share: their errors, the run they write under, and how much they hold at once.

use crate::dedup::FrequencyError;
use crate::llm::LlmError;
use crate::plan::TargetError;
use crate::segment::PackError;
use crate::store::{BlobId, RunId, Store, StoreError};
use crate::taxonomy::Outcome;
use futures_util::{Stream, StreamExt as _, stream};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

/// Rows taken in hand at a time.
pub(super) const PAGE: usize = 1_000;
/// Bytes of bodies in hand at once; one larger body is taken alone.
const PAGE_BYTES: i64 = 32 << 20;

/// Why a judgement could not be made. Nothing that was written before is lost, and the same command goes on.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The corpus cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target files are wrong.
    #[error(transparent)]
    Targets(#[from] TargetError),
    /// Stored items cannot be read.
    #[error("Failed to read the items of blob {blob}: {source}; `aac segment` after deleting its row makes them anew")]
    Items {
        /// Key of the blob.
        blob: i64,
        /// What is wrong.
        source: PackError,
    },
    /// Stored line frequencies cannot be read.
    #[error(transparent)]
    Frequencies(#[from] FrequencyError),
    /// A stored row says what no release writes.
    #[error("Failed to read {what}: {why}")]
    Row {
        /// Which row.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A language model did not answer.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// A worker thread died.
    #[error("Failed to {doing}: {why}")]
    Worker {
        /// What it was doing.
        doing: &'static str,
        /// What it said.
        why: String,
    },
}

/// The run that a job writes under, begun at its first write: a job that finds nothing to do leaves no trace.
pub(super) struct LazyRun<'a> {
    store: &'a Store,
    command: &'static str,
    run: Option<RunId>,
}

impl<'a> LazyRun<'a> {
    pub(super) fn new(store: &'a Store, command: &'static str) -> Self {
        Self { store, command, run: None }
    }

    pub(super) async fn id(&mut self) -> Result<RunId, StoreError> {
        if let Some(run) = self.run {
            return Ok(run);
        }
        let run = self.store.begin_run(self.command, &json!({}), now_ms()).await?;
        self.run = Some(run);
        Ok(run)
    }

    pub(super) async fn end(self, paused: bool, summary: &impl Serialize) -> Result<(), StoreError> {
        let Some(run) = self.run else { return Ok(()) };
        let outcome = if paused { Outcome::Paused } else { Outcome::Done };
        self.store.end_run(run, outcome, &json!(summary), now_ms()).await
    }
}

/// Unix milliseconds.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Cut `rows` so that their bodies fit in memory. The rest comes with the next page.
pub(super) fn fit<T>(rows: &mut Vec<T>, size: impl Fn(&T) -> i64) {
    let whole = fitting(rows, size);
    rows.truncate(whole);
}

/// `rows` in batches whose bodies fit in memory.
pub(super) fn batches<T>(mut rows: &[T], size: impl Fn(&T) -> i64) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let (batch, rest) = rows.split_at(fitting(rows, &size));
        rows = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// What `judge` says of the body of each row of `chunks`, chunk by chunk: on all cores, while the next one is read.
pub(super) fn each_body<'a, T: Sync + 'a, J: Send + 'static>(
    store: &'a Store,
    doing: &'static str,
    chunks: impl Iterator<Item = &'a [T]> + 'a,
    blob: impl Fn(&T) -> BlobId + Copy + 'a,
    judge: impl Fn(&[u8]) -> J + Copy + Send + Sync + 'static,
) -> impl Stream<Item = Result<(&'a [T], Vec<J>), JudgeError>> + 'a {
    let each = move |chunk: &'a [T]| async move {
        let ids: Vec<BlobId> = chunk.iter().map(blob).collect();
        let bodies = store.bodies(&ids).await?;
        let judged = blocking(doing, move || bodies.par_iter().map(|body| judge(body)).collect()).await?;
        Ok((chunk, judged))
    };
    stream::iter(chunks).map(each).buffered(2)
}

/// How many of the first of `rows` fit: one at least, if there is one.
fn fitting<T>(rows: &[T], size: impl Fn(&T) -> i64) -> usize {
    let mut bytes = 0i64;
    let whole = rows.iter().take(PAGE).take_while(|row| {
        bytes = bytes.saturating_add(size(row));
        bytes <= PAGE_BYTES
    });
    whole.count().max(1).min(rows.len())
}

/// Do work that takes the processor for long on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JudgeError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| JudgeError::Worker { doing, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_by_bytes_and_never_to_nothing() {
        let cut = |sizes: &[i64]| {
            let mut rows = sizes.to_vec();
            fit(&mut rows, |size| *size);
            rows.len()
        };
        assert_eq!(cut(&[1, 2, 3]), 3);
        assert_eq!(cut(&[PAGE_BYTES, 1]), 1);
        assert_eq!(cut(&[PAGE_BYTES + 1, 1]), 1);
        assert_eq!(cut(&[]), 0);
    }
}
