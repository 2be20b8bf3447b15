//! Contents by git id while a crawl reads: what the corpus has, what came, what somebody has asked for.

use super::work::Work;
use crate::corpus::GitOid;
use crate::plan::targets::Targets;
use crate::store::{BlobId, Store, StoreError};
use std::collections::{HashMap, HashSet};

/// See the module. Every content is asked for once, whoever wants it.
#[derive(Default)]
pub(super) struct Shelf {
    /// Stored ones, and those that were looked for in vain.
    known: HashMap<GitOid, Option<BlobId>>,
    /// Those that came and are not stored.
    bodies: HashMap<GitOid, Vec<u8>>,
    /// Bytes in `bodies`.
    bytes: usize,
    /// Texts of links that the store holds.
    texts: HashMap<GitOid, Vec<u8>>,
    /// Asked for by the work of this number.
    claims: HashMap<GitOid, usize>,
    /// Works that wait for what another has asked for.
    waiting: HashMap<GitOid, Vec<usize>>,
    /// Contents that could not be had.
    unreadable: HashSet<GitOid>,
}

impl Shelf {
    /// Find out which of `oids` are stored.
    pub(super) async fn look_up(&mut self, store: &Store, mut oids: Vec<GitOid>) -> Result<(), StoreError> {
        oids.retain(|oid| !self.known.contains_key(oid));
        oids.sort_unstable();
        oids.dedup();
        if !oids.is_empty() {
            let stored = store.known_oids(&oids).await?;
            self.known.extend(oids.into_iter().map(|oid| (oid, stored.get(&oid).copied())));
        }
        Ok(())
    }

    /// The key of a stored content.
    pub(super) fn stored(&self, oid: &GitOid) -> Option<BlobId> {
        self.known.get(oid).copied().flatten()
    }

    /// Whether nobody needs to ask for `oid` (any more).
    pub(super) fn has(&self, oid: &GitOid) -> bool {
        self.bodies.contains_key(oid) || self.unreadable.contains(oid) || self.stored(oid).is_some()
    }

    /// Whether the work `index` has claimed `oid`.
    pub(super) fn holds(&self, oid: &GitOid, index: usize) -> bool {
        self.claims.get(oid) == Some(&index)
    }

    /// Claim `oid` for the work `index`: true when it is to ask. Otherwise it, or another, has asked already; of what
    /// another brings it is told.
    pub(super) fn claim(&mut self, oid: GitOid, index: usize) -> bool {
        let Some(holder) = self.claims.get(&oid) else {
            self.claims.insert(oid, index);
            return true;
        };
        if *holder != index {
            let waiting = self.waiting.entry(oid).or_default();
            if !waiting.contains(&index) {
                waiting.push(index);
            }
        }
        false
    }

    /// The question of work `index` about `oid` is settled; gives those who waited for it.
    pub(super) fn release(&mut self, oid: &GitOid, index: usize) -> Vec<usize> {
        if self.claims.get(oid) != Some(&index) {
            return Vec::new();
        }
        self.claims.remove(oid);
        self.waiting.remove(oid).unwrap_or_default()
    }

    /// A content came.
    pub(super) fn put(&mut self, oid: GitOid, bytes: Vec<u8>) {
        if self.stored(&oid).is_none() {
            self.bytes += bytes.len();
            self.bytes -= self.bodies.insert(oid, bytes).map_or(0, |before| before.len());
        }
    }

    /// A content cannot be had.
    pub(super) fn put_unreadable(&mut self, oid: GitOid) {
        self.unreadable.insert(oid);
    }

    /// The text of a link, if it is at hand.
    pub(super) fn text(&self, oid: &GitOid) -> Option<&[u8]> {
        self.bodies.get(oid).or_else(|| self.texts.get(oid)).map(Vec::as_slice)
    }

    /// Get the text of a link that the store holds. False when it holds none.
    pub(super) async fn fetch_text(&mut self, store: &Store, oid: GitOid) -> Result<bool, StoreError> {
        self.look_up(store, vec![oid]).await?;
        let Some(blob) = self.stored(&oid) else { return Ok(false) };
        self.texts.insert(oid, store.body(blob).await?);
        Ok(true)
    }

    /// Bytes that wait to be stored.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The contents of artifacts of `works` that are not stored yet. Texts of links on the way to somewhere else are no
    /// artifacts.
    pub(super) fn unstored<'w>(
        &self,
        works: impl Iterator<Item = &'w Work>,
        targets: &Targets,
    ) -> (Vec<GitOid>, Vec<Vec<u8>>) {
        let held: HashSet<GitOid> = works.flat_map(|work| work.contents(targets)).collect();
        self.bodies.iter().filter(|(oid, _)| held.contains(oid)).map(|(oid, body)| (*oid, body.clone())).unzip()
    }

    /// These are stored now.
    pub(super) fn note_stored(&mut self, blobs: Vec<(GitOid, BlobId)>) {
        self.known.extend(blobs.into_iter().map(|(oid, blob)| (oid, Some(blob))));
    }

    /// Let go of bodies that are stored, and of those that none of `works` needs.
    pub(super) fn forget_all_but<'w>(&mut self, works: impl Iterator<Item = &'w Work>, targets: &Targets) {
        let needed: HashSet<GitOid> =
            works.flat_map(|work| work.contents(targets).into_iter().chain(work.links.iter().copied())).collect();
        let known = &self.known;
        self.bodies.retain(|oid, _| needed.contains(oid) && known.get(oid).copied().flatten().is_none());
        self.bytes = self.bodies.values().map(Vec::len).sum();
    }
}
