//! From the store to a set of files that anyone may load: Parquet shards, card, Croissant, manifest, attribution and the
//! classifier.
//!
//! What must not be passed on is taken out here: opted-out and private repositories, bodies without a licence that
//! allows it, and everything that redaction finds. The same corpus gives the same bytes.

mod attribution;
mod card;
mod classifier;
mod copy;
mod croissant;
mod folder;
mod gold;
mod manifest;
mod redacted;
#[cfg(feature = "s3")]
mod remote;
mod rows;
mod selection;
mod sink;

pub use copy::{CopySummary, copy};
pub use folder::FolderError;
pub use manifest::{AsOf, ConfigInfo, FileInfo, Manifest, ModelInfo, RunInfo};
pub use rows::RowError;

use crate::job::model::FoundModel;
use crate::job::service::Origin;
use crate::monitor::Monitor;
use crate::parquet::{
    ArtifactTable, GoldTable, ItemTable, OccurrenceRecord, OccurrenceTable, SCHEMA_VERSION, ShardError, ShardOptions,
    Table as _, Written,
};
use crate::store::{BlobId, ExportKey, RepoId, RunId, RunRow, Store, StoreError};
use attribution::Attribution;
use rayon::prelude::*;
use selection::{Repo, Selection};
use serde::Serialize;
use serde_json::json;
use sink::Sink;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of bodies in hand at once, and how many artifacts; one larger body is taken alone.
const PAGE_BYTES: i64 = 8 << 20;
const PAGE: usize = 1_000;
/// Repositories whose versions are read at once.
const REPO_PAGE: usize = 400;

/// Whose bodies go into an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Those under a permissive licence.
    #[default]
    Permissive,
    /// Nobody's.
    AllMetadata,
    /// Those of the repositories listed as one's own, whatever their licence.
    Own,
}

impl Tier {
    /// Every tier with its word on the command line.
    pub const ALL: [(&'static str, Self); 3] =
        [("permissive", Self::Permissive), ("all-metadata", Self::AllMetadata), ("own", Self::Own)];

    /// The word on the command line and in the manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permissive => "permissive",
            Self::AllMetadata => "all-metadata",
            Self::Own => "own",
        }
    }
}

/// What to export, and what its card says.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The folder of the set; of one for a bucket, beside which folder it is made before it is sent.
    pub out: PathBuf,
    /// The bucket that the set is for instead of a folder.
    #[cfg(feature = "s3")]
    pub bucket: Option<crate::bucket::Bucket>,
    /// Whose bodies.
    pub tier: Tier,
    /// One's own repositories: `OWNER` or `OWNER/NAME`.
    pub own: Vec<String>,
    /// As the corpus stood at this time, Unix milliseconds; today's opt-outs and redaction hold all the same.
    pub as_of: Option<i64>,
    /// Only artifacts whose bytes changed after this run.
    pub since: Option<RunId>,
    /// Name of the data set.
    pub name: String,
    /// Whom to write to.
    pub contact: Option<String>,
    /// How to ask for removal.
    pub removal: Option<String>,
    /// Seed of the splits.
    pub seed: String,
    /// How shards are cut and packed.
    pub shards: ShardOptions,
    /// The classifier that travels with the set.
    pub model: FoundModel,
}

impl ExportOptions {
    /// The defaults for a folder.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            #[cfg(feature = "s3")]
            bucket: None,
            tier: Tier::default(),
            own: Vec::new(),
            as_of: None,
            since: None,
            name: "AgentArtifactCorpus".to_owned(),
            contact: None,
            removal: None,
            seed: "aac-1".to_owned(),
            shards: ShardOptions::default(),
            model: FoundModel::compiled_in(),
        }
    }
}

/// Why an export failed. The old set is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The corpus could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The shards could not be written.
    #[error(transparent)]
    Shards(#[from] ShardError),
    /// The set could not be put in its place.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The set could not be put into its bucket.
    #[cfg(feature = "s3")]
    #[error(transparent)]
    Bucket(#[from] crate::bucket::BucketError),
    /// A file beside the shards could not be written.
    #[error("Failed to write {path}: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Stored items or predictions cannot be read.
    #[error("Failed to export {what}: {source}; `aac segment` and `aac classify` make items and predictions anew")]
    Items {
        /// The artifact.
        what: String,
        /// What is wrong.
        source: RowError,
    },
    /// A file of the classifier cannot be read.
    #[error("Failed to read the model file {path}: {source}", path = .path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A copy of the database cannot go there.
    #[error("Failed to copy the database to {path}: {why}; name another file with --db-copy", path = .path.display())]
    CopyPlace {
        /// The file.
        path: PathBuf,
        /// What is in the way.
        why: &'static str,
    },
    /// A copy of the database is not whole.
    #[error(
        "Failed to copy the database: {problem}; `PRAGMA integrity_check` on the corpus tells whether it is damaged"
    )]
    CopyDamaged {
        /// What the check found first.
        problem: String,
    },
    /// The thread that writes a table died.
    #[error("Failed to write the table {table}: its writer ended early")]
    Worker {
        /// The table.
        table: &'static str,
    },
    /// A run or a time before the first run.
    #[error("Failed to export {what}: {why}")]
    Unknown {
        /// What was asked for.
        what: String,
        /// Why it cannot be had.
        why: String,
    },
    /// Asked to stop.
    #[error("Stopped before the export was whole; the set before is untouched")]
    Stopped,
}

/// What an export made.
#[derive(Debug, Clone, Serialize)]
pub struct ExportSummary {
    /// The folder, or the address in a bucket.
    pub out: PathBuf,
    /// Shards, in order.
    pub shards: Vec<PathBuf>,
    /// Rows of `artifacts`.
    pub rows: u64,
    /// Rows by configuration.
    pub configs: BTreeMap<&'static str, u64>,
    /// Bytes over all shards.
    pub bytes: u64,
    /// Passages replaced, by kind.
    pub redactions: BTreeMap<&'static str, u64>,
    /// Artifacts without text, by reason.
    pub withheld: BTreeMap<&'static str, u64>,
    /// Repositories left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// How this differs from an export at the time that was asked for; empty without one.
    pub differs_from_as_of: Vec<String>,
    /// The model beside the shards.
    pub model: ModelInfo,
    /// Whether the card names a contact and a way to ask for removal.
    pub publishable: bool,
    /// The copy of the database, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_copy: Option<CopySummary>,
}

/// What was counted on the way.
#[derive(Debug, Clone, Default)]
struct Tally {
    redactions: BTreeMap<&'static str, u64>,
    withheld: BTreeMap<&'static str, u64>,
    with_text: u64,
    splits: BTreeMap<&'static str, u64>,
    attribution: Attribution,
    /// Items that have a prediction, by the model that made it.
    predicted: BTreeMap<String, u64>,
    has_model_card: bool,
}

/// Write the set described by `options`.
pub async fn export(
    store: &Store,
    options: &ExportOptions,
    monitor: &dyn Monitor,
) -> Result<ExportSummary, ExportError> {
    let runs = store.runs().await?;
    let as_of = as_of(&runs, options)?;
    let since = since(&runs, options)?;
    let (repos, keys) = (store.export_repos().await?, store.export_keys(as_of, since).await?);
    let optouts: HashSet<String> = store.optouts().await?.into_iter().collect();
    let mut selection = Selection::new(repos, keys, &optouts, options);
    selection.web = Origin::of(store).await?.web().map(str::to_owned);
    let staging = folder::Staging::begin(&options.out)?;
    #[cfg(feature = "s3")]
    if let Some(bucket) = &options.bucket {
        remote::begin(bucket, staging.path()).await?;
    }
    monitor.begin("export", Some(selection.keys.len() as u64));
    let written = write(store, options, &runs, as_of, &selection, staging.path(), monitor).await;
    monitor.end();
    let (manifest, shards) = written?;
    let out = publish(options, staging, &manifest, monitor).await?;
    Ok(ExportSummary {
        shards: shards.iter().map(|name| out.join(name)).collect(),
        out,
        rows: manifest.configs.get(ArtifactTable::NAME).map_or(0, |c| c.rows),
        configs: manifest.configs.iter().map(|(name, c)| (*name, c.rows)).collect(),
        bytes: manifest.configs.values().map(|c| c.bytes).sum(),
        redactions: manifest.redactions,
        withheld: manifest.withheld,
        left_out: manifest.left_out,
        differs_from_as_of: manifest.as_of.map(|a| a.differs).unwrap_or_default(),
        model: manifest.model,
        publishable: options.contact.is_some() && options.removal.is_some(),
        db_copy: None,
    })
}

/// Put a finished set in its place, and say where that is.
async fn publish(
    options: &ExportOptions,
    staging: folder::Staging,
    manifest: &Manifest,
    monitor: &dyn Monitor,
) -> Result<PathBuf, ExportError> {
    #[cfg(feature = "s3")]
    if let Some(bucket) = &options.bucket {
        remote::publish(bucket, staging.path(), manifest, monitor).await?;
        return Ok(bucket.place().to_string().into());
    }
    #[cfg(not(feature = "s3"))]
    let _ = (options, manifest, monitor);
    let out = staging.place().to_owned();
    staging.publish()?;
    Ok(out)
}

/// The last run that counts.
fn as_of(runs: &[RunRow], options: &ExportOptions) -> Result<i64, ExportError> {
    let Some(time) = options.as_of else { return Ok(i64::MAX) };
    runs.iter().filter(|run| run.started_at <= time).map(|run| run.id.0).max().ok_or_else(|| ExportError::Unknown {
        what: "the corpus as of that time".to_owned(),
        why: "its first run is later".to_owned(),
    })
}

fn since(runs: &[RunRow], options: &ExportOptions) -> Result<i64, ExportError> {
    match options.since {
        None => Ok(0),
        Some(run) if runs.iter().any(|r| r.id == run) => Ok(run.0),
        Some(run) => Err(ExportError::Unknown {
            what: format!("what is new since run {}", run.0),
            why: "there is no such run; `aac status` names the last one".to_owned(),
        }),
    }
}

/// Write everything into `work`; returns the manifest and the shards' names in the set.
async fn write(
    store: &Store,
    options: &ExportOptions,
    runs: &[RunRow],
    as_of: i64,
    selection: &Selection,
    work: &Path,
    monitor: &dyn Monitor,
) -> Result<(Manifest, Vec<String>), ExportError> {
    let data = work.join("data");
    let head = manifest::head(store, options, runs, as_of, selection).await?;
    let shards = ShardOptions { footer: footer(&head, &options.shards), ..options.shards.clone() };
    let attribution = Attribution::new(selection.web.as_deref());
    let mut tally = Tally { attribution, ..Tally::default() };
    let artifacts = Sink::<ArtifactTable>::open(&data, shards.clone())?;
    let items = Sink::<ItemTable>::open(&data, shards.clone())?;
    let occurrences = Sink::<OccurrenceTable>::open(&data, shards.clone())?;
    let gold = Sink::<GoldTable>::open(&data, shards)?;
    write_artifacts(store, selection, &artifacts, &items, &mut tally, monitor).await?;
    write_occurrences(store, selection, as_of, &occurrences).await?;
    gold.send(gold::rows(store, selection).await?).await;
    let written: [(&'static str, Written); 4] = [
        (ArtifactTable::NAME, artifacts.finish().await?),
        (OccurrenceTable::NAME, occurrences.finish().await?),
        (ItemTable::NAME, items.finish().await?),
        (GoldTable::NAME, gold.finish().await?),
    ];
    let text = |name: &str, text: String| {
        let path = work.join(name);
        std::fs::write(&path, text).map_err(|source| ExportError::Write { path, source })
    };
    let shards = written
        .iter()
        .flat_map(|(_, set)| set.shards.iter())
        .filter_map(|path| Some(format!("data/{}", path.file_name()?.to_str()?)))
        .collect();
    text("attribution.csv", tally.attribution.render())?;
    tally.has_model_card = classifier::write(work, &options.model)?;
    let mut manifest = manifest::complete(head, options, &tally, &written);
    manifest.files = manifest::files(work)?;
    text("croissant.json", croissant::render(&manifest, options))?;
    text(folder::CARD, card::render(&manifest, options))?;
    manifest::add(work, &["croissant.json", folder::CARD], &mut manifest.files)?;
    text(folder::MANIFEST, manifest.render())?;
    Ok((manifest, shards))
}

fn footer(head: &Manifest, shards: &ShardOptions) -> Vec<(String, String)> {
    let pair = |key: &str, value: String| (format!("aac.{key}"), value);
    // What the Hub's own writer says of its files, so that its tools recognise chunked ones.
    let chunks = shards.chunk_bytes.map(|(least, most)| {
        let sizes = json!({ "min_chunk_size": least, "max_chunk_size": most, "norm_level": 0 });
        ("content_defined_chunking".to_owned(), sizes.to_string())
    });
    let own = vec![
        pair("schema", SCHEMA_VERSION.to_string()),
        pair("rules", serde_json::json!(head.rules).to_string()),
        pair("model", head.model.name.hash.clone()),
        pair("version", head.version.clone()),
        pair("commit", head.commit.unwrap_or("unknown").to_owned()),
        pair("run", head.run.as_ref().map_or_else(|| "none".to_owned(), |run| run.id.to_string())),
    ];
    own.into_iter().chain(chunks).collect()
}

async fn write_artifacts(
    store: &Store,
    selection: &Selection,
    artifacts: &Sink<ArtifactTable>,
    items: &Sink<ItemTable>,
    tally: &mut Tally,
    monitor: &dyn Monitor,
) -> Result<(), ExportError> {
    let by_id: HashMap<i64, &Repo> = selection.repos.iter().map(|repo| (repo.row.id, repo)).collect();
    let mut at = 0;
    while at < selection.keys.len() {
        if monitor.stop_requested() {
            return Err(ExportError::Stopped);
        }
        let page = page(&selection.keys[at..]);
        at += page.len();
        let mut page_artifacts = Vec::with_capacity(page.len());
        let mut page_items = Vec::new();
        for rows in read_page(store, selection, &by_id, page).await? {
            for kind in &rows.redactions {
                *tally.redactions.entry(kind).or_default() += 1;
            }
            match rows.artifact.withheld.as_deref() {
                None => tally.with_text += 1,
                Some("binary") => *tally.withheld.entry("binary").or_default() += 1,
                Some(_) => *tally.withheld.entry("license").or_default() += 1,
            }
            for model in rows.items.iter().filter_map(|item| item.model.as_deref()) {
                match tally.predicted.get_mut(model) {
                    Some(count) => *count += 1,
                    None => drop(tally.predicted.insert(model.to_owned(), 1)),
                }
            }
            page_items.extend(rows.items);
            page_artifacts.push(rows.artifact);
        }
        for artifact in &page_artifacts {
            tally.attribution.add(artifact);
        }
        artifacts.send(page_artifacts).await;
        items.send(page_items).await;
        if artifacts.is_closed() || items.is_closed() {
            break;
        }
        monitor.advance(page.len() as u64);
    }
    for repo in &selection.repos {
        *tally.splits.entry(repo.split.as_str()).or_default() += repo.keys.len() as u64;
    }
    Ok(())
}

/// As many keys as fit in memory with their bodies, at least one.
fn page(keys: &[ExportKey]) -> &[ExportKey] {
    let mut bytes = 0i64;
    let fit = keys.iter().take(PAGE).take_while(|key| {
        bytes = bytes.saturating_add(key.size);
        bytes <= PAGE_BYTES
    });
    &keys[..fit.count().max(1)]
}

async fn read_page(
    store: &Store,
    selection: &Selection,
    by_id: &HashMap<i64, &Repo>,
    page: &[ExportKey],
) -> Result<Vec<rows::Rows>, ExportError> {
    let versions: Vec<i64> = page.iter().map(|key| key.version).collect();
    let ids: Vec<i64> = page.iter().map(|key| key.artifact).collect();
    let blobs: Vec<BlobId> = page.iter().map(|key| BlobId(key.blob)).collect();
    let mut found = store.export_artifacts(&versions).await?;
    let readings = store.export_readings(&blobs).await?;
    let mut tags: HashMap<i64, Vec<crate::store::ExportTag>> = HashMap::new();
    for tag in store.export_tags(&ids).await? {
        tags.entry(tag.artifact_id).or_default().push(tag);
    }
    let bodies = store.bodies(&blobs).await?;
    let mut sources = Vec::with_capacity(page.len());
    for (key, body) in page.iter().zip(bodies) {
        let (Some(repo), Some(artifact), Some(reading)) =
            (by_id.get(&key.repo), found.remove(&key.version), readings.get(&BlobId(key.blob)))
        else {
            // Opted out or removed while the export ran.
            continue;
        };
        let source = rows::Source {
            repo,
            web: selection.web.as_deref(),
            artifact,
            tags: tags.remove(&key.artifact).unwrap_or_default(),
            size: key.size,
            is_home: selection.homes.get(&key.blob) == Some(&key.artifact),
            is_withheld: key.is_withheld,
        };
        sources.push((source, body, reading));
    }
    sources
        .into_par_iter()
        .map(|(source, body, reading)| {
            let what = format!("{}:{}", source.repo.slug(), source.artifact.path);
            rows::rows(source, &body, reading).map_err(|source| ExportError::Items { what, source })
        })
        .collect()
}

async fn write_occurrences(
    store: &Store,
    selection: &Selection,
    as_of: i64,
    sink: &Sink<OccurrenceTable>,
) -> Result<(), ExportError> {
    for repos in selection.repos.chunks(REPO_PAGE) {
        let ids: Vec<RepoId> = repos.iter().map(|repo| RepoId(repo.row.id)).collect();
        let mut by_repo: HashMap<i64, Vec<_>> = HashMap::with_capacity(repos.len());
        for row in store.export_occurrences(&ids, as_of).await? {
            by_repo.entry(row.repo_id).or_default().push(row);
        }
        let mut page = Vec::new();
        for repo in repos {
            let slug = Arc::<str>::from(repo.slug());
            for row in by_repo.remove(&repo.row.id).unwrap_or_default() {
                page.push(OccurrenceRecord {
                    repo: slug.to_string(),
                    path: row.path,
                    platform: row.platform,
                    sha256: hex(&row.sha256),
                    blob: hex(&row.git_oid),
                    commit: row.commit_oid.as_deref().map(hex),
                    size: row.size,
                    current: row.current,
                    first_seen: row.first_seen,
                    last_seen: row.last_seen,
                    split: repo.split.as_str().to_owned(),
                });
            }
        }
        sink.send(page).await;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
