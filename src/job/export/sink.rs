//! Writing a table on a thread of its own, so that packing and reading go on at once.

use super::ExportError;
use crate::parquet::{ShardError, ShardOptions, ShardSet, Table, Written};
use std::path::Path;
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;

/// Pages that wait to be written; bounds memory.
const QUEUE: usize = 1;

pub(super) struct Sink<T: Table> {
    /// A page; `None` asks for the end of the set. Gone without it, the set is abandoned.
    pages: Option<mpsc::Sender<Option<Vec<T::Record>>>>,
    thread: Option<JoinHandle<Result<Option<Written>, ShardError>>>,
}

impl<T> Sink<T>
where
    T: Table + Send + 'static,
    T::Record: Send,
{
    /// Begin the shards of a table in `folder`.
    pub(super) fn open(folder: &Path, options: ShardOptions) -> Result<Self, ExportError> {
        let mut set = ShardSet::<T>::create(folder, options)?;
        let (pages, mut queue) = mpsc::channel::<Option<Vec<T::Record>>>(QUEUE);
        let thread = thread::spawn(move || {
            while let Some(page) = queue.blocking_recv() {
                let Some(page) = page else { return set.finish().map(Some) };
                for record in page {
                    set.push(record)?;
                }
            }
            Ok(None)
        });
        Ok(Self { pages: Some(pages), thread: Some(thread) })
    }

    /// Hand over a page. A writer that failed says why in [`Self::finish`].
    pub(super) async fn send(&self, page: Vec<T::Record>) {
        if let (false, Some(pages)) = (page.is_empty(), &self.pages) {
            let _ = pages.send(Some(page)).await;
        }
    }

    /// Whether the writer has failed.
    pub(super) fn is_closed(&self) -> bool {
        self.pages.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Wait for the last page.
    pub(super) async fn finish(mut self) -> Result<Written, ExportError> {
        if let Some(pages) = self.pages.take() {
            let _ = pages.send(None).await;
        }
        let thread = self.thread.take();
        let joined = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join)).await;
        match joined {
            Ok(Some(Ok(Ok(Some(written))))) => Ok(written),
            Ok(Some(Ok(Err(error)))) => Err(error.into()),
            Ok(None | Some(Ok(Ok(None)) | Err(_))) | Err(_) => Err(ExportError::Worker { table: T::NAME }),
        }
    }
}

impl<T: Table> Drop for Sink<T> {
    /// An abandoned writer has left the folder before anybody removes it.
    fn drop(&mut self) {
        self.pages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
