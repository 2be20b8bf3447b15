//! Take in local git repositories and plain folders: the rows that a crawl would make, without a network.
//!
//! One repository after the other is compared with what the store holds of it, and only what differs is read and
//! written; blobs come before the artifacts that hold them, and the note that a repository is done comes last. So a
//! kill at any point is made good by the next run, and a run that finds nothing new writes nothing at all.

use crate::corpus::{GitOid, Sha256};
use crate::monitor::Monitor;
use crate::plan::Targets;
use crate::repos::{self, Entry, Folder, Found, Mode, Reader, Repository, Skipped, SourceKind, Target};
use crate::store::{
    ArtifactRow, BlobId, Codec, FailureRow, NewBlob, RepoFacts, RepoId, RepoRow, RunId, Store, StoreError,
};
use crate::taxonomy::{FileMode, Outcome, Presence, RepoSource};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of bodies in hand at once, and how many of them.
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_ENTRIES: usize = 1000;

/// What to take in.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// Repositories, folders of repositories, plain folders.
    pub paths: Vec<PathBuf>,
    /// Read this revision of every repository instead of its default branch.
    pub rev: Option<String>,
    /// Larger files are skipped, bytes.
    pub max_bytes: u64,
}

impl IngestOptions {
    /// The default branches below `paths`, files up to 4 MiB.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, rev: None, max_bytes: 4 << 20 }
    }
}

/// Something left out, as it is shown and stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// `OWNER/NAME:PATH`, or a directory.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IngestSummary {
    /// Repositories and folders looked at that hold artifacts.
    pub repos: usize,
    /// Of these, those that were as the last run left them.
    pub unchanged_repos: usize,
    /// Artifacts they hold.
    pub artifacts: usize,
    /// Artifacts that were not known.
    pub added: usize,
    /// Artifacts whose bytes changed.
    pub changed: usize,
    /// Artifacts that are no longer there.
    pub gone: usize,
    /// Bodies read because the corpus lacked them.
    pub blobs: usize,
    /// Left out, with why.
    pub skipped: Vec<LeftOut>,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
    /// The run that wrote, if anything was written.
    #[serde(skip)]
    pub run: Option<RunId>,
}

/// Why ingestion ended. A repository that cannot be read does not end it.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The corpus cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A worker thread died.
    #[error("Failed to read {what}: {why}")]
    Worker {
        /// What it was reading.
        what: String,
        /// What it said.
        why: String,
    },
}

/// Bring the store up to date with the repositories and folders below `options.paths`, for the platforms that `targets`
/// selects. Opted-out repositories are never opened.
pub async fn ingest(
    store: &Store,
    targets: Arc<Targets>,
    options: &IngestOptions,
    monitor: &dyn Monitor,
) -> Result<IngestSummary, IngestError> {
    let paths = options.paths.clone();
    let discovery = blocking("the given directories", move || repos::discover(&paths)).await?;
    let optouts: HashSet<String> = store.optouts().await?.into_iter().collect();
    let mut job = Job {
        store,
        rules: rules_digest(&targets, options.max_bytes),
        targets,
        options,
        summary: IngestSummary::default(),
        run: None,
    };
    for skipped in discovery.skipped {
        job.leave_out(skipped.path, skipped.why);
    }
    monitor.begin("ingest", Some(discovery.found.len() as u64));
    for found in discovery.found {
        if monitor.stop_requested() {
            job.summary.paused = true;
            break;
        }
        let key = found.slug.key();
        if optouts.contains(&key) || optouts.contains(&found.slug.owner().to_ascii_lowercase()) {
            job.leave_out(found.slug.to_string(), "Opted out".to_owned());
        } else {
            job.repository(found).await?;
        }
        monitor.advance(1);
    }
    monitor.end();
    job.finish().await
}

struct Job<'a> {
    store: &'a Store,
    targets: Arc<Targets>,
    rules: String,
    options: &'a IngestOptions,
    summary: IngestSummary,
    run: Option<RunId>,
}

/// A repository's row, written when something of it is.
struct RepoWriter {
    stored: Option<RepoId>,
    row: RepoRow,
    repo: Option<RepoId>,
}

fn row(found: &Found, head: Option<GitOid>, branch: Option<String>) -> RepoRow {
    let facts = found.facts.as_ref();
    RepoRow {
        node_id: None,
        slug: found.slug.clone(),
        source: RepoSource::Local,
        facts: RepoFacts {
            stars: facts.and_then(|f| f.stars).and_then(|stars| i64::try_from(stars).ok()),
            language: facts.and_then(|f| f.language.clone()),
            license_api: facts.and_then(|f| f.license.clone()),
            default_branch: facts.and_then(|f| f.default_branch.clone()).or(branch),
            head,
            ..RepoFacts::default()
        },
        facts_at: facts.map(|_| now_ms()),
    }
}

/// A repository or folder opened, with what it holds now.
struct Present {
    source: Source,
    head: Option<GitOid>,
    branch: Option<String>,
    /// Artifacts of the selected platforms.
    entries: Vec<Candidate>,
    skipped: Vec<Skipped>,
}

struct Candidate {
    entry: Entry,
    path: String,
    platform: crate::corpus::Platform,
    target: String,
}

#[derive(Clone)]
enum Source {
    Git(Repository),
    Folder(Folder),
}

impl Job<'_> {
    async fn repository(&mut self, found: Found) -> Result<(), IngestError> {
        let slug = found.slug.clone();
        let stored = self.store.repo_heads(&[slug.key()]).await?.get(&slug.key()).copied();
        let done = match stored {
            Some((repo, _)) => self.store.setting(&done_key(repo)).await?,
            None => None,
        };
        let look = {
            let (targets, rules) = (Arc::clone(&self.targets), self.rules.clone());
            let (rev, limit, found) = (self.options.rev.clone(), self.options.max_bytes, found.clone());
            move || look(&found, rev.as_deref(), &targets, limit, done.as_deref(), &rules)
        };
        let present = match blocking(&slug.to_string(), look).await? {
            Ok(Look::Present(present)) => present,
            Ok(Look::AsBefore) => {
                self.summary.repos += 1;
                self.summary.unchanged_repos += 1;
                if let Some((repo, _)) = stored {
                    self.summary.artifacts += self.store.repo_artifacts(repo).await?.len();
                }
                return Ok(());
            }
            Err(error) => {
                self.leave_out(slug.to_string(), error.to_string());
                return Ok(());
            }
        };
        let whole = present.skipped.is_empty();
        for skipped in &present.skipped {
            self.leave_out(format!("{slug}:{}", skipped.path), skipped.why.clone());
        }
        if stored.is_none() && present.entries.is_empty() {
            return Ok(());
        }
        self.summary.repos += 1;
        self.update(found, stored.map(|(repo, _)| repo), present, whole).await
    }

    /// Write what differs from what the store holds.
    async fn update(
        &mut self,
        found: Found,
        stored: Option<RepoId>,
        present: Present,
        mut whole: bool,
    ) -> Result<(), IngestError> {
        let held = match stored {
            Some(repo) => self.store.repo_artifacts(repo).await?,
            None => HashMap::new(),
        };
        let now: HashSet<&str> = present.entries.iter().map(|c| c.path.as_str()).collect();
        let missing: Vec<String> = held.keys().filter(|path| !now.contains(path.as_str())).cloned().collect();
        let gone = {
            let (source, head) = (present.source.clone(), present.head);
            blocking(&found.slug.to_string(), move || {
                missing.into_iter().filter(|path| source.lacks(head, path)).collect::<Vec<_>>()
            })
            .await?
        };
        let noted = match stored {
            Some(repo) => self.store.setting(&done_key(repo)).await?,
            None => None,
        };
        // A change of the rules may give an unchanged path another owner, so then every row is written.
        let rules_changed = noted.as_ref().is_none_or(|noted| !noted.ends_with(&self.rules));
        self.summary.artifacts += present.entries.len();
        let fresh: Vec<Candidate> = present
            .entries
            .into_iter()
            .filter(|candidate| rules_changed || held.get(&candidate.path) != Some(&candidate.entry.oid))
            .collect();
        let batches = {
            let source = present.source.clone();
            blocking(&found.slug.to_string(), move || source.batches(fresh)).await?
        };
        let mut writer = RepoWriter { stored, row: row(&found, present.head, present.branch), repo: None };
        for batch in batches {
            whole &= self.write(&mut writer, &found, &present.source, present.head, batch).await?;
        }
        if !gone.is_empty() {
            let (run, repo) = self.key(&mut writer).await?;
            self.store.set_artifact_presence(run, repo, &gone, Presence::Gone).await?;
            self.summary.gone += gone.len();
        }
        let state = match (&present.source, present.head) {
            (Source::Git(_), Some(head)) if whole => head.to_string(),
            (Source::Git(_), _) => "partial".to_owned(),
            (Source::Folder(_), _) => "folder".to_owned(),
        };
        let note = format!("{state} {}", self.rules);
        if noted.as_ref() != Some(&note) && (writer.repo.is_some() || stored.is_some()) {
            let (_, repo) = self.key(&mut writer).await?;
            self.store.set_setting(&done_key(repo), &note).await?;
        }
        Ok(())
    }

    /// The run and the repository's key, both made when first asked for.
    async fn key(&mut self, writer: &mut RepoWriter) -> Result<(RunId, RepoId), IngestError> {
        let run = self.run().await?;
        if let Some(repo) = writer.repo {
            return Ok((run, repo));
        }
        let ids = self.store.put_repos(run, std::slice::from_ref(&writer.row)).await?;
        let repo = ids.first().copied().or(writer.stored).ok_or_else(|| IngestError::Worker {
            what: writer.row.slug.to_string(),
            why: "the corpus gave its repository no key".to_owned(),
        })?;
        writer.repo = Some(repo);
        Ok((run, repo))
    }

    /// Store one batch of artifacts; false when some of them may be readable another time.
    async fn write(
        &mut self,
        writer: &mut RepoWriter,
        found: &Found,
        source: &Source,
        head: Option<GitOid>,
        batch: Vec<Candidate>,
    ) -> Result<bool, IngestError> {
        let oids: Vec<GitOid> = batch.iter().map(|c| c.entry.oid).collect();
        let mut blobs: HashMap<GitOid, BlobId> = self.store.known_oids(&oids).await?;
        let codec = self.store.codec();
        let (source, limit) = (source.clone(), self.options.max_bytes);
        let known: HashSet<GitOid> = blobs.keys().copied().collect();
        let read =
            blocking(&found.slug.to_string(), move || source.read_all(head, batch, &known, &codec, limit)).await?;
        for skipped in read.skipped {
            self.leave_out(format!("{}:{}", found.slug, skipped.path), skipped.why);
        }
        if read.candidates.is_empty() {
            return Ok(read.whole);
        }
        let (run, repo) = self.key(writer).await?;
        let ids = self.store.put_blobs(run, &read.blobs).await?;
        blobs.extend(read.blobs.iter().zip(ids).map(|(blob, id)| (blob.git_oid, id)));
        self.summary.blobs += read.blobs.len();
        let rows: Vec<ArtifactRow> = read
            .candidates
            .into_iter()
            .filter_map(|(candidate, resolves_to)| {
                Some(ArtifactRow {
                    repo,
                    blob: *blobs.get(&candidate.entry.oid)?,
                    mode: match candidate.entry.mode {
                        Mode::Executable => FileMode::Executable,
                        Mode::Symlink => FileMode::Symlink,
                        _ => FileMode::File,
                    },
                    path: candidate.path,
                    platform: candidate.platform,
                    target: candidate.target,
                    resolves_to,
                    commit: head,
                })
            })
            .collect();
        let written = self.store.put_artifacts(run, &rows).await?;
        self.summary.added += written.added;
        self.summary.changed += written.changed;
        Ok(read.whole)
    }

    /// The run that writes, begun at the first write: an invocation that changes nothing leaves no trace.
    async fn run(&mut self) -> Result<RunId, IngestError> {
        if let Some(run) = self.run {
            return Ok(run);
        }
        let options = json!({ "rev": self.options.rev, "max_bytes": self.options.max_bytes });
        let run = self.store.begin_run("ingest", &options, now_ms()).await?;
        self.run = Some(run);
        Ok(run)
    }

    fn leave_out(&mut self, path: String, why: String) {
        self.summary.skipped.push(LeftOut { path, why });
    }

    async fn finish(mut self) -> Result<IngestSummary, IngestError> {
        self.summary.run = self.run;
        if let Some(run) = self.run {
            self.store.train_dictionary(run).await?;
            let failures: Vec<FailureRow> = self
                .summary
                .skipped
                .iter()
                .map(|s| FailureRow { stage: "ingest".to_owned(), what: s.path.clone(), why: s.why.clone() })
                .collect();
            self.store.add_failures(run, &failures, now_ms()).await?;
            let outcome = match (self.summary.paused, failures.is_empty()) {
                (true, _) => Outcome::Paused,
                (false, true) => Outcome::Done,
                (false, false) => Outcome::Partial,
            };
            self.store.end_run(run, outcome, &json!(self.summary), now_ms()).await?;
        }
        Ok(self.summary)
    }
}

enum Look {
    /// The head and the rules are those of the last complete run.
    AsBefore,
    Present(Present),
}

/// Open what was found and list its artifacts. `done` is what the last complete run noted.
fn look(
    found: &Found,
    rev: Option<&str>,
    targets: &Targets,
    limit: u64,
    done: Option<&str>,
    rules: &str,
) -> Result<Look, repos::Error> {
    let (source, head, branch, walk, names) = match found.kind {
        SourceKind::Git => {
            let repository = Repository::open(&found.path)?;
            let reader = repository.reader();
            let default = found.facts.as_ref().and_then(|facts| facts.default_branch.as_deref());
            let head = reader.head(rev, default)?;
            let Some(commit) = head.commit else {
                return Ok(Look::Present(Present {
                    source: Source::Git(repository),
                    head: None,
                    branch: head.branch,
                    entries: Vec::new(),
                    skipped: Vec::new(),
                }));
            };
            if done == Some(format!("{commit} {rules}").as_str()) {
                return Ok(Look::AsBefore);
            }
            let walk = reader.walk(commit, &|path, mode| mode.is_blob() && targets.owner(path).is_some())?;
            let names = if needs_all(targets, &walk.entries) {
                let all = reader.walk(commit, &|_, mode| mode.is_blob())?.entries;
                all.iter().map(|entry| entry.display_path().into_owned()).collect()
            } else {
                Vec::new()
            };
            (Source::Git(repository), Some(commit), head.branch, walk, names)
        }
        SourceKind::Folder => {
            let folder = Folder::open(&found.path)?;
            let enter = |directory: &str| !targets.is_vendored(directory);
            let walk = folder.walk(&|path, mode| mode.is_blob() && targets.owner(path).is_some(), &enter, limit);
            let names = if needs_all(targets, &walk.entries) { folder.paths(&enter) } else { Vec::new() };
            (Source::Folder(folder), None, None, walk, names)
        }
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut skipped = walk.skipped;
    let mut entries: BTreeMap<String, Candidate> = BTreeMap::new();
    for entry in walk.entries {
        let path = entry.display_path().into_owned();
        let Some(owner) = targets.collected(&path) else { continue };
        if owner.weak && !targets.corroborated(owner.target, &path, &names) {
            continue;
        }
        if entries.contains_key(&path) {
            let why = "Its name is not UTF-8 and reads like another path's".to_owned();
            skipped.push(Skipped { path, why });
            continue;
        }
        let (platform, target) = (owner.target.platform.clone(), owner.target.id.clone());
        entries.insert(path.clone(), Candidate { entry, path, platform, target });
    }
    Ok(Look::Present(Present { source, head, branch, entries: entries.into_values().collect(), skipped }))
}

/// Whether some entry's name proves nothing unless the rest of the repository backs it.
fn needs_all(targets: &Targets, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| targets.collected(&entry.display_path()).is_some_and(|owner| owner.weak))
}

/// A batch after reading.
struct Read {
    /// What could be read, with where a link leads.
    candidates: Vec<(Candidate, Option<String>)>,
    /// Bodies that the store lacks, each once.
    blobs: Vec<NewBlob>,
    skipped: Vec<Skipped>,
    /// False when another try may read what was skipped.
    whole: bool,
}

impl Source {
    /// Split so that no batch holds more than [`BATCH_ENTRIES`] bodies or, unless one alone is larger,
    /// [`BATCH_BYTES`].
    fn batches(&self, candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
        let reader = self.reader();
        let mut batches: Vec<Vec<Candidate>> = Vec::new();
        let mut bytes = 0;
        for candidate in candidates {
            let size = match (self, &reader) {
                (Self::Git(_), Some(reader)) => reader.header(candidate.entry.oid).map_or(0, |(_, size)| size),
                (Self::Folder(folder), _) => {
                    folder.path().join(&candidate.path).symlink_metadata().map_or(0, |meta| meta.len())
                }
                _ => 0,
            };
            bytes += size;
            match batches.last_mut() {
                Some(last) if last.len() < BATCH_ENTRIES && bytes <= BATCH_BYTES => last.push(candidate),
                _ => {
                    bytes = size;
                    batches.push(vec![candidate]);
                }
            }
        }
        batches
    }

    fn lacks(&self, head: Option<GitOid>, path: &str) -> bool {
        match (self, head) {
            (Self::Git(repository), Some(head)) => matches!(repository.reader().find(head, path.as_bytes()), Ok(None)),
            // A repository that lost all its commits holds nothing.
            (Self::Git(_), None) => true,
            (Self::Folder(folder), _) => folder.path().join(path).symlink_metadata().is_err(),
        }
    }

    /// Read and pack, on all cores, the bodies of `batch` that are not `known`, and follow its links.
    fn read_all(
        &self,
        head: Option<GitOid>,
        batch: Vec<Candidate>,
        known: &HashSet<GitOid>,
        codec: &Codec,
        limit: u64,
    ) -> Read {
        let mut wanted = HashSet::new();
        let first: Vec<bool> =
            batch.iter().map(|c| !known.contains(&c.entry.oid) && wanted.insert(c.entry.oid)).collect();
        let results: Vec<_> = batch
            .into_par_iter()
            .zip(first)
            .map_init(
                || self.reader(),
                |reader, (candidate, first)| {
                    let blob = first.then(|| self.pack(reader.as_ref(), &candidate.entry, codec, limit)).transpose();
                    let leads = (candidate.entry.mode == Mode::Symlink)
                        .then(|| self.resolve(reader.as_ref(), head, &candidate.entry.path, limit))
                        .flatten();
                    (candidate, blob, leads)
                },
            )
            .collect();
        let mut read = Read { candidates: Vec::new(), blobs: Vec::new(), skipped: Vec::new(), whole: true };
        for (candidate, blob, leads) in results {
            match blob {
                Ok(blob) => {
                    read.blobs.extend(blob);
                    read.candidates.push((candidate, leads));
                }
                Err(error) => {
                    read.whole &= matches!(error, repos::Error::TooLarge { .. });
                    read.skipped.push(Skipped { path: candidate.path, why: error.to_string() });
                }
            }
        }
        read
    }

    fn pack(&self, reader: Option<&Reader>, entry: &Entry, codec: &Codec, limit: u64) -> Result<NewBlob, repos::Error> {
        let bytes = self.read(reader, entry, limit)?;
        let broken = |why: String| repos::Error::Object { path: self.path().to_owned(), oid: entry.oid, why };
        let blob = codec.encode(&bytes).map_err(|error| broken(error.to_string()))?;
        if blob.git_oid == entry.oid {
            Ok(blob)
        } else {
            Err(broken(format!("its bytes have the id {}: damaged, or changed just now", blob.git_oid)))
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Git(repository) => repository.path(),
            Self::Folder(folder) => folder.path(),
        }
    }

    fn reader(&self) -> Option<Reader> {
        match self {
            Self::Git(repository) => Some(repository.reader()),
            Self::Folder(_) => None,
        }
    }

    fn read(&self, reader: Option<&Reader>, entry: &Entry, limit: u64) -> Result<Vec<u8>, repos::Error> {
        match (self, reader) {
            (Self::Git(_), Some(reader)) => reader.read(entry.oid, limit),
            (Self::Git(repository), None) => repository.reader().read(entry.oid, limit),
            (Self::Folder(folder), _) => folder.read(&entry.path, entry.mode, limit),
        }
    }

    /// The path inside the repository that a link leads to, if it stays inside and something is there.
    fn resolve(&self, reader: Option<&Reader>, head: Option<GitOid>, path: &[u8], limit: u64) -> Option<String> {
        let target = match (self, reader, head) {
            (Self::Git(_), Some(reader), Some(head)) => reader.resolve(head, path),
            (Self::Folder(folder), ..) => folder.resolve(path, limit),
            _ => return None,
        };
        match target {
            Ok(Target::Entry(entry)) => Some(entry.display_path().into_owned()),
            // Outside, dangling, circular or unreadable: the link is stored and leads nowhere.
            _ => None,
        }
    }
}

/// Key of the note under which a repository's last complete run is kept.
fn done_key(repo: RepoId) -> String {
    format!("ingest/{}", repo.0)
}

/// Changes whenever the same tree could give other rows.
fn rules_digest(targets: &Targets, limit: u64) -> String {
    let rules: Vec<_> = targets.selected().map(|t| (&t.id, &t.paths, &t.corroborated_by)).collect();
    Sha256::of(json!([rules, limit]).to_string().as_bytes()).to_string()
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| IngestError::Worker { what: what.to_owned(), why: error.to_string() })
}
