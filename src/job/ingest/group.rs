//! Repositories side by side: enough of them that reading keeps every core busy and that one write is worth its price.

use super::look::{Looked, View};
use super::source::{self, Fresh, Read};
use super::{IngestError, blocking};
use crate::corpus::GitOid;
use crate::monitor::Monitor;
use futures_util::{Stream, StreamExt as _};
use std::collections::{HashSet, VecDeque};

/// Artifacts and repositories after which a group is full. A quarter of what a batch may hold, so that one repository
/// more seldom needs a second batch.
const FULL: usize = 512;

/// Some repositories in the order of their names, with the first batch of their bodies.
#[derive(Default)]
pub(super) struct Group {
    pub(super) looked: Vec<Looked>,
    /// The first batch.
    pub(super) read: Option<Read>,
    /// The others: one repository may need many.
    pub(super) unread: VecDeque<Vec<Fresh>>,
    /// No other comes after it.
    pub(super) last: bool,
    /// It is the last because the monitor asked to stop.
    pub(super) stopped: bool,
}

impl Group {
    /// The next repositories that were looked at, their first batch read but for bodies that are stored or `coming`.
    pub(super) async fn gather(
        view: &View<'_>,
        looked: &mut (impl Stream<Item = Result<Looked, IngestError>> + Unpin),
        coming: &HashSet<GitOid>,
        monitor: &dyn Monitor,
    ) -> Result<Self, IngestError> {
        let mut group = Self::default();
        let mut fresh = Vec::new();
        while !group.last && fresh.len() + group.looked.len() < FULL {
            group.stopped = monitor.stop_requested();
            let next = if group.stopped { None } else { looked.next().await.transpose()? };
            let Some(mut next) = next else {
                group.last = true;
                break;
            };
            if let Looked::Differs(found) = &mut next {
                let repository = group.looked.len();
                fresh.extend(std::mem::take(&mut found.fresh).into_iter().map(|candidate| Fresh {
                    repository,
                    place: std::sync::Arc::clone(&found.place),
                    candidate,
                }));
            }
            group.looked.push(next);
        }
        group.unread = source::batches(fresh);
        if let Some(batch) = group.unread.pop_front() {
            group.read = Some(read(view, batch, coming).await?);
        }
        Ok(group)
    }

    /// Ids of the bodies that writing the first batch stores.
    pub(super) fn coming(&self) -> HashSet<GitOid> {
        self.read.iter().flat_map(|read| &read.blobs).map(|blob| blob.git_oid).collect()
    }
}

/// Read a batch, but for bodies that are stored or `coming`.
pub(super) async fn read(view: &View<'_>, batch: Vec<Fresh>, coming: &HashSet<GitOid>) -> Result<Read, IngestError> {
    let oids: Vec<GitOid> = batch.iter().map(|fresh| fresh.candidate.entry.oid).collect();
    let mut known: HashSet<GitOid> = view.store.known_oids(&oids).await?.into_keys().collect();
    known.extend(coming);
    let (codec, limit) = (view.store.codec(), view.ask.limit);
    blocking("artifacts", move || source::read_all(batch, &known, &codec, limit)).await
}
