//! Writing a table on a thread of its own, so that packing and reading go on at once.

use super::ExportError;
use crate::parquet::{ShardError, ShardOptions, ShardSet, Table, Written};
use std::path::Path;
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;

/// Pages that wait to be written; bounds memory.
const QUEUE: usize = 1;

pub(super) struct Sink<T: Table> {
    pages: mpsc::Sender<Vec<T::Record>>,
    thread: JoinHandle<Result<Written, ShardError>>,
}

impl<T> Sink<T>
where
    T: Table + Send + 'static,
    T::Record: Send,
{
    /// Begin the shards of a table in `folder`.
    pub(super) fn open(folder: &Path, options: ShardOptions) -> Result<Self, ExportError> {
        let mut set = ShardSet::<T>::create(folder, options)?;
        let (pages, mut queue) = mpsc::channel::<Vec<T::Record>>(QUEUE);
        let thread = thread::spawn(move || {
            while let Some(page) = queue.blocking_recv() {
                for record in page {
                    set.push(record)?;
                }
            }
            set.finish()
        });
        Ok(Self { pages, thread })
    }

    /// Hand over a page. A writer that failed says why in [`Self::finish`].
    pub(super) async fn send(&self, page: Vec<T::Record>) {
        if !page.is_empty() {
            let _ = self.pages.send(page).await;
        }
    }

    /// Whether the writer has failed.
    pub(super) fn is_closed(&self) -> bool {
        self.pages.is_closed()
    }

    /// Wait for the last page.
    pub(super) async fn finish(self) -> Result<Written, ExportError> {
        drop(self.pages);
        let thread = self.thread;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(written)) => Ok(written?),
            Ok(Err(_)) | Err(_) => Err(ExportError::Worker { table: T::NAME }),
        }
    }
}
