//! Find which texts say the same thing, under how many owners, and which lines several owners share.
//!
//! Signatures are kept a blob; clusters and line frequencies are made anew whenever what artifacts hold has changed,
//! from all of it, so that they do not depend on the order in which it came. They replace the earlier ones in one
//! transaction.

use super::judging::{JudgeError, LazyRun, PAGE, batches, blocking, each_body};
use crate::corpus::Sha256;
use crate::dedup::{self, Clustering, Document, FrequencyBuilder, LineFrequencies, Options, Relation, Signature};
use crate::encoding;
use crate::monitor::Monitor;
use crate::store::{BlobId, ClusterCounts, DuplicateRow, NewStatistics, StatisticsRow, Store, StoreError};
use futures_util::StreamExt as _;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use xxhash_rust::xxh3::xxh3_128;

const VERSION: u32 = dedup::VERSION as u32;

/// Lines below this many bytes are too common to say anything, and no rule asks for them.
pub(super) const TELLING_LINE: usize = 24;

/// What a run did, and what the corpus holds after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DedupSummary {
    /// Blobs without a signature of the present rules at the start.
    pub stale: u64,
    /// Signatures made now.
    pub updated: u64,
    /// Whether clusters and line frequencies were made anew.
    pub recounted: bool,
    /// Clusters.
    #[serde(flatten)]
    pub clusters: ClusterCounts,
    /// Lines that two or more owners have; of this run, when it counted anew.
    pub shared_lines: Option<usize>,
    /// Clusters so large that someone should look at them; of this run, when it counted anew.
    pub giants: Vec<Giant>,
    /// Digest of the statistics.
    pub statistics: Option<String>,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
}

/// A cluster that someone should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Giant {
    /// SHA-256 of the text that stands for it.
    pub sha256: String,
    /// Blobs in it.
    pub members: usize,
}

/// What present artifacts hold, in little room.
struct Holdings {
    artifacts: i64,
    /// Blobs held, by key, with digest and bytes.
    blobs: Vec<(BlobId, Sha256, i64)>,
    /// (owner, position in `blobs`, as a link only) of repositories that are no forks, sorted and distinct.
    owned: Vec<(u32, u32, bool)>,
    /// Changes whenever any of it does, whatever the order of arrival.
    fingerprint: Vec<u8>,
}

/// Whether these statistics are those of what the corpus holds.
fn fits(current: Option<&StatisticsRow>, holdings: &Holdings) -> bool {
    match current {
        Some(current) => current.version == VERSION && current.input == holdings.fingerprint,
        None => holdings.blobs.is_empty(),
    }
}

/// Whether [`dedup`] would have nothing to do.
pub(super) async fn is_fresh(store: &Store) -> Result<bool, JudgeError> {
    Ok(fits(store.statistics().await?.as_ref(), &holdings(store).await?))
}

/// Bring clusters and line frequencies up to date.
pub async fn dedup(store: &Store, monitor: &dyn Monitor) -> Result<DedupSummary, JudgeError> {
    let mut summary = DedupSummary::default();
    let holdings = holdings(store).await?;
    let current = store.statistics().await?;
    if !fits(current.as_ref(), &holdings) {
        let mut run = LazyRun::new(store, "dedup");
        let outcome = recount(store, monitor, holdings, &mut run, &mut summary).await;
        monitor.end();
        outcome?;
        summary.clusters = store.cluster_counts().await?;
        summary.statistics = store.statistics().await?.map(|s| s.digest.to_string());
        run.end(summary.paused, &summary).await?;
    } else {
        summary.clusters = store.cluster_counts().await?;
        summary.statistics = current.map(|s| s.digest.to_string());
    }
    Ok(summary)
}

async fn recount(
    store: &Store,
    monitor: &dyn Monitor,
    holdings: Holdings,
    run: &mut LazyRun<'_>,
    summary: &mut DedupSummary,
) -> Result<(), JudgeError> {
    let blobs = holdings.blobs.len() as u64;
    monitor.begin("dedup", Some(2 * blobs));
    let Some(signatures) = signatures(store, monitor, &holdings, run, summary).await? else { return Ok(()) };
    monitor.state("counting lines");
    let Some(lines) = lines(store, monitor, &holdings).await? else {
        summary.paused = true;
        return Ok(());
    };
    monitor.state("comparing");
    let holdings = Arc::new(holdings);
    let (texts, shared) = (Texts::new(store.clone()), Arc::clone(&holdings));
    let (compared, broken) = blocking("compare texts", move || {
        let compared = compare(&shared, signatures, &texts);
        (compared, texts.broken())
    })
    .await?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    let rows = rows(&holdings, &compared);
    let statistics = NewStatistics {
        version: VERSION,
        input: holdings.fingerprint.clone(),
        digest: digest(&holdings, &rows, &lines),
        artifacts: holdings.artifacts,
        lines: lines.to_bytes(),
    };
    store.put_statistics(run.id().await?, &statistics, &rows).await?;
    summary.recounted = true;
    summary.shared_lines = Some(lines.shared_lines());
    let giant = |g: &dedup::GiantCluster| Giant {
        sha256: holdings.blobs[compared.documents[g.canonical] as usize].1.to_string(),
        members: g.members,
    };
    summary.giants = compared.found.giants.iter().map(giant).collect();
    for giant in &summary.giants {
        monitor.warn(&format!(
            "{} texts count as copies of the one with SHA-256 {}: a template, or files too alike to tell apart; the \
             exported rows whose `cluster` is that name them",
            giant.members, giant.sha256
        ));
    }
    Ok(())
}

async fn holdings(store: &Store) -> Result<Holdings, JudgeError> {
    let mut owners: HashMap<String, u32> = HashMap::new();
    let mut held: Vec<(BlobId, Sha256, i64)> = Vec::new();
    let mut owned: Vec<(u32, BlobId, bool)> = Vec::new();
    let (mut artifacts, mut sum, mut after) = (0i64, 0u128, 0i64);
    loop {
        let page = store.holdings_after(after, 10 * PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.artifact;
        for holding in &page {
            let owner = holding.owner.to_ascii_lowercase();
            let mut row = holding.sha256.0.to_vec();
            row.extend([u8::from(holding.symlink), u8::from(holding.fork)]);
            row.extend(owner.bytes());
            // A sum is the same in whatever order the artifacts came.
            sum = sum.wrapping_add(xxh3_128(&row));
            let next = owners.len() as u32;
            let owner = *owners.entry(owner).or_insert(next);
            held.push((holding.blob, holding.sha256, holding.size));
            if !holding.fork {
                owned.push((owner, holding.blob, holding.symlink));
            }
        }
        artifacts += page.len() as i64;
        if artifacts % (50 * PAGE as i64) == 0 {
            held.sort_unstable();
            held.dedup();
        }
    }
    held.sort_unstable();
    held.dedup();
    // `false` sorts first: a blob that an owner holds as a file and as a link counts as a file.
    owned.sort_unstable();
    owned.dedup_by_key(|(owner, blob, _)| (*owner, *blob));
    let owned = owned
        .into_iter()
        .filter_map(|(owner, blob, link)| Some((owner, held.binary_search_by_key(&blob, |b| b.0).ok()? as u32, link)))
        .collect();
    let mut fingerprint = artifacts.to_le_bytes().to_vec();
    fingerprint.extend(sum.to_le_bytes());
    Ok(Holdings { artifacts, blobs: held, owned, fingerprint })
}

/// The signature of every blob in the order of `holdings.blobs`, nothing for one that is no text; those that are missing
/// are made and stored. Nothing at all when asked to stop.
async fn signatures(
    store: &Store,
    monitor: &dyn Monitor,
    holdings: &Holdings,
    run: &mut LazyRun<'_>,
    summary: &mut DedupSummary,
) -> Result<Option<Vec<Option<Signature>>>, JudgeError> {
    let mut found: Vec<Option<Signature>> = vec![None; holdings.blobs.len()];
    let mut known = vec![false; holdings.blobs.len()];
    let mut after = BlobId(0);
    loop {
        let page = store.signatures_after(VERSION, after, 5 * PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (blob, packed) in page {
            let Ok(at) = holdings.blobs.binary_search_by_key(&blob, |b| b.0) else { continue };
            found[at] = Signature::from_bytes(&packed);
            // One that cannot be read is made again.
            known[at] = packed.is_empty() || found[at].is_some();
        }
    }
    let missing: Vec<usize> = (0..known.len()).filter(|at| !known[*at]).collect();
    monitor.advance((known.len() - missing.len()) as u64);
    summary.stale = missing.len() as u64;
    let make = |body: &[u8]| encoding::decode(body).1.map(|text| Signature::of(&text));
    let chunks = batches(&missing, |at| holdings.blobs[*at].2);
    let mut made = pin!(each_body(store, "make signatures", chunks, |at| holdings.blobs[*at].0, make));
    let mut next = made.next().await;
    while let Some((chunk, signatures)) = next.transpose()? {
        if monitor.stop_requested() {
            summary.paused = true;
            return Ok(None);
        }
        let stored = |s: &Option<Signature>| s.as_ref().map(|s| s.to_bytes().to_vec()).unwrap_or_default();
        let ids = chunk.iter().map(|at| holdings.blobs[*at].0);
        let rows: Vec<(BlobId, Vec<u8>)> = ids.zip(signatures.iter().map(stored)).collect();
        run.id().await?;
        let (written, following) = tokio::join!(store.put_signatures(VERSION, &rows), made.next());
        written?;
        next = following;
        for (at, signature) in chunk.iter().zip(signatures) {
            found[*at] = signature;
        }
        summary.updated += rows.len() as u64;
        monitor.advance(rows.len() as u64);
    }
    Ok(Some(found))
}

/// In how many owners' files each line occurs. Nothing when asked to stop.
async fn lines(
    store: &Store,
    monitor: &dyn Monitor,
    holdings: &Holdings,
) -> Result<Option<LineFrequencies>, JudgeError> {
    let mut builder = FrequencyBuilder::default();
    let files: Vec<(u32, u32)> = holdings.owned.iter().filter(|o| !o.2).map(|o| (o.0, o.1)).collect();
    let (mut owner, mut hashes) = (files.first().map(|file| file.0), Vec::new());
    let chunks = batches(&files, |(_, at)| holdings.blobs[*at as usize].2);
    let blob = |(_, at): &(u32, u32)| holdings.blobs[*at as usize].0;
    let mut counted = pin!(each_body(store, "count lines", chunks, blob, telling_lines));
    while let Some((chunk, found)) = counted.next().await.transpose()? {
        if monitor.stop_requested() {
            return Ok(None);
        }
        for ((of, _), found) in chunk.iter().zip(found) {
            if owner != Some(*of) {
                builder.owner_lines(std::mem::take(&mut hashes));
                owner = Some(*of);
            }
            hashes.extend(found);
        }
        monitor.advance(chunk.len() as u64);
    }
    if owner.is_some() {
        builder.owner_lines(hashes);
    }
    Ok(Some(builder.finish()))
}

fn telling_lines(body: &[u8]) -> Vec<u64> {
    let text = encoding::decode(body).1.unwrap_or_default();
    let lines = dedup::normalised_lines(&text).filter(|line| line.len() >= TELLING_LINE);
    let mut hashes: Vec<u64> = lines.map(|line| dedup::line_hash(&line)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Clusters of the blobs that are texts.
struct Compared {
    /// Position in `Holdings::blobs` of each document.
    documents: Vec<u32>,
    found: Clustering,
}

fn compare(holdings: &Holdings, signatures: Vec<Option<Signature>>, texts: &Texts) -> Compared {
    // What most owners hold word for word stands for what differs from it.
    let mut owners = vec![0u32; holdings.blobs.len()];
    for (_, at, _) in &holdings.owned {
        owners[*at as usize] += 1;
    }
    let (positions, documents): (Vec<u32>, Vec<Document>) = signatures
        .into_iter()
        .enumerate()
        .filter_map(|(at, signature)| {
            let document =
                Document { id: holdings.blobs[at].1, priority: u32::MAX - owners[at], signature: signature? };
            Some((at as u32, document))
        })
        .unzip();
    let blob = |&index: &usize| holdings.blobs[positions[index] as usize].0;
    let texts = |all: &[usize]| texts.get(&all.iter().map(blob).collect::<Vec<_>>());
    let found = dedup::cluster(&documents, texts, &Options::default());
    Compared { documents: positions, found }
}

/// One row a blob. A blob that is no text stands for itself.
fn rows(holdings: &Holdings, compared: &Compared) -> Vec<DuplicateRow> {
    let mut canonical: Vec<u32> = (0..holdings.blobs.len() as u32).collect();
    let mut similarity = vec![1.0; holdings.blobs.len()];
    for (at, member) in compared.documents.iter().zip(&compared.found.members) {
        if member.relation != Relation::Canonical {
            canonical[*at as usize] = compared.documents[member.canonical];
            similarity[*at as usize] = member.similarity;
        }
    }
    let pairs = holdings.owned.iter().map(|(owner, at, _)| (canonical[*at as usize], *owner));
    let pairs: HashSet<(u32, u32)> = pairs.collect();
    let mut owners = vec![0u32; holdings.blobs.len()];
    for (at, _) in pairs {
        owners[at as usize] += 1;
    }
    let key = |at: u32| holdings.blobs[at as usize].0;
    (0..holdings.blobs.len())
        .map(|at| DuplicateRow {
            blob: key(at as u32),
            canonical: key(canonical[at]),
            similarity: similarity[at],
            owners: owners[canonical[at] as usize],
        })
        .collect()
}

/// Digest of all that tags may depend on: texts under two or more owners, and lines of two or more.
fn digest(holdings: &Holdings, rows: &[DuplicateRow], lines: &LineFrequencies) -> Sha256 {
    let mut shared: Vec<(Sha256, u32)> = holdings
        .blobs
        .iter()
        .zip(rows)
        .filter(|(_, row)| row.owners > 1)
        .map(|((_, sha256, _), row)| (*sha256, row.owners))
        .collect();
    shared.sort_unstable();
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend(lines.shared_id().0);
    for (sha256, owners) in shared {
        bytes.extend(sha256.0);
        bytes.extend(owners.to_le_bytes());
    }
    Sha256::of(&bytes)
}

/// Texts by blob, read when asked for.
struct Texts {
    store: Store,
    handle: Handle,
    broken: Mutex<Option<StoreError>>,
}

impl Texts {
    fn new(store: Store) -> Self {
        Self { store, handle: Handle::current(), broken: Mutex::default() }
    }

    /// The texts of some blobs; empty where they cannot be read, which [`Self::broken`] tells.
    fn get(&self, blobs: &[BlobId]) -> Vec<Cow<'static, str>> {
        let text = |body: Vec<u8>| Cow::Owned(encoding::decode(&body).1.unwrap_or_default().into_owned());
        match self.handle.block_on(self.store.bodies_in_turn(blobs)) {
            Ok(bodies) => bodies.into_iter().map(text).collect(),
            Err(error) => {
                self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                vec![Cow::Borrowed(""); blobs.len()]
            }
        }
    }

    fn broken(&self) -> Option<StoreError> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
