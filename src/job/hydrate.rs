//! Find the texts of labels that came without them: by the id of their blob, in the corpus, in git repositories or on
//! GitHub.

mod github;

use super::crawl::{CrawlError, ledger};
use crate::corpus::{GitOid, Slug};
use crate::encoding;
use crate::github::GitHub;
use crate::monitor::Monitor;
use crate::repos::{self, Reader, Repository, SourceKind};
use crate::segment;
use crate::store::{BlobId, OptOuts, Store, StoreError};
use crate::train::labels::{LabelError, LabelRecord, Match, parse_labels};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// Blobs in hand at a time.
const PAGE: usize = 500;
/// Largest blob read from a repository, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Why texts cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum HydrateError {
    /// A label file cannot be read.
    #[error("Failed to read the labels {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A label file is wrong.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// The corpus cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// GitHub refuses the credentials, or cannot be reached at all.
    #[error(transparent)]
    GitHub(#[from] CrawlError),
    /// A folder holds no git repository.
    #[error("Failed to find a git repository in {path}{why}", path = .path.display())]
    NoRepository {
        /// The folder.
        path: PathBuf,
        /// What was skipped, when something was.
        why: String,
    },
}

/// Where texts are looked for.
#[derive(Debug)]
pub enum TextSource<'a> {
    /// The blobs of a corpus.
    Corpus(&'a Store),
    /// Git repositories, or folders of them; a label's own repository is asked first.
    Repositories(Vec<PathBuf>),
    /// GitHub, in the repositories that the labels name: only what has no text yet is asked for, and nothing is stored.
    GitHub {
        /// The client; its ledger and budget bound what is asked.
        github: &'a GitHub,
        /// Repositories that are not asked for.
        optouts: OptOuts,
    },
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HydrateSummary {
    /// Labels given.
    pub labels: usize,
    /// Labels that had a text already.
    pub with_text: usize,
    /// Texts found by the hash of the item.
    pub by_hash: usize,
    /// Texts found by the line alone; they may have been cut otherwise than when they were labelled.
    pub by_line: usize,
    /// Labels without a text, by why.
    pub missing: BTreeMap<Missing, usize>,
    /// Each of them, in the order of the labels.
    pub not_found: Vec<NotFound>,
    /// Why it stopped before the end, when it did.
    pub paused: Option<String>,
}

impl HydrateSummary {
    /// Labels without a text.
    pub fn missed(&self) -> usize {
        self.missing.values().sum()
    }

    /// What came of both searches, where `next` looked on for what this one had not found.
    pub fn and_then(self, next: Self) -> Self {
        Self {
            labels: self.labels,
            with_text: self.with_text,
            by_hash: self.by_hash + next.by_hash,
            by_line: self.by_line + next.by_line,
            ..next
        }
    }
}

/// A label whose text was not found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotFound {
    /// Name of the item.
    pub id: Option<String>,
    /// `owner/name`.
    pub repo: Option<String>,
    /// Path in the repository.
    pub path: Option<String>,
    /// 1-based line.
    pub line: Option<u32>,
    /// Why.
    pub why: Missing,
}

/// Why a text was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The blob is not there, and the label's repository is not, either.
    NoRepository,
    /// The repository is there and the blob is not, for instance a file of a platform that is off.
    NoBlob,
    /// The blob is there and is no text.
    NoText,
    /// The text is there and no item has the hash or stands at the line.
    NoItem,
    /// The repository is opted out, so that GitHub was not asked.
    OptedOut,
    /// GitHub does not show the repository or the blob.
    Gone,
    /// GitHub was asked and did not answer.
    Failed,
    /// The search stopped before it was looked for.
    NotReached,
}

impl Missing {
    /// What it means and what to do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NoRepository => {
                "their repositories are not here; ingest or crawl them, name a folder with --from, or fetch them with --github"
            }
            Self::NoBlob => {
                "their files are not in the corpus: another version is, their platform is off, or their name alone makes \
                 them no artifact (`aac ingest DIR --platform all --lenient` takes those in)"
            }
            Self::NoText => "their files are no text",
            Self::NoItem => "their files have no such item; the labels were made on another cut of the text",
            Self::OptedOut => "their repositories are opted out (`aac optout list`)",
            Self::Gone => "GitHub has no such repository or blob (any more), or does not show it with this token",
            Self::Failed => "GitHub did not answer; the same command asks again",
            Self::NotReached => "not looked for yet; the same command begins anew",
        }
    }
}

/// The labels in `paths`, in order.
pub fn read_labels(paths: &[PathBuf]) -> Result<Vec<LabelRecord>, HydrateError> {
    let mut records = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|source| HydrateError::Read { path: path.clone(), source })?;
        records.extend(parse_labels(&path.display().to_string(), &text)?);
    }
    Ok(records)
}

/// The labels that ship with the program, without the texts of others: `gold`, `training` and `phrasing`.
pub fn shipped_labels() -> Result<Vec<LabelRecord>, LabelError> {
    let files = [
        ("annotation/gold/gold.jsonl", include_str!("../../annotation/gold/gold.jsonl")),
        ("annotation/gold/training.jsonl", include_str!("../../annotation/gold/training.jsonl")),
        ("annotation/gold/phrasing.jsonl", include_str!("../../annotation/gold/phrasing.jsonl")),
    ];
    let mut records = Vec::new();
    for (name, text) in files {
        records.extend(parse_labels(name, text)?);
    }
    Ok(records)
}

/// Give every record its text where it can be found; the others stay as they are, in place.
///
/// A record that has a text keeps it and gains headings and neighbours when its blob is found.
pub async fn hydrate(
    mut records: Vec<LabelRecord>,
    source: &TextSource<'_>,
    monitor: &dyn Monitor,
) -> Result<(Vec<LabelRecord>, HydrateSummary), HydrateError> {
    let mut summary = HydrateSummary {
        labels: records.len(),
        with_text: records.iter().filter(|r| r.text.is_some()).count(),
        ..HydrateSummary::default()
    };
    let only_textless = matches!(source, TextSource::GitHub { .. });
    let mut wanted: BTreeMap<GitOid, Vec<usize>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Some(blob) = record.blob
            && !(only_textless && record.text.is_some())
        {
            wanted.entry(blob).or_default().push(index);
        }
    }
    let library = match source {
        TextSource::Corpus(store) => {
            let repos: BTreeSet<String> =
                records.iter().filter_map(|r| r.repo.as_deref()).map(str::to_ascii_lowercase).collect();
            let repos: Vec<String> = repos.into_iter().collect();
            let oids: Vec<GitOid> = wanted.keys().copied().collect();
            Library::Corpus {
                store,
                known: store.known_oids(&oids).await?,
                repositories: store.repo_heads(&repos).await?.into_keys().collect(),
            }
        }
        TextSource::Repositories(paths) => Library::of_repositories(paths)?,
        TextSource::GitHub { github, optouts } => Library::GitHub { github, optouts },
    };
    let mut missed = Vec::new();
    monitor.begin("hydrate", Some(wanted.len() as u64));
    let mut wanted: Vec<(GitOid, Vec<usize>)> = wanted.into_iter().collect();
    // A repository is asked about once, not once a page.
    wanted.sort_by(|a, b| owner(&a.1, &records).cmp(&owner(&b.1, &records)));
    for page in wanted.chunks(PAGE) {
        if summary.paused.is_none() && monitor.stop_requested() {
            summary.paused = Some("asked to stop".to_owned());
        }
        let bodies = if summary.paused.is_some() {
            vec![None; page.len()]
        } else {
            let read = library.read(page, &records, monitor).await?;
            summary.paused = read.paused;
            read.bodies
        };
        let bodies: Vec<_> = bodies.into_iter().map(|body| body.unwrap_or(Err(Missing::NotReached))).collect();
        let found: Vec<(usize, Found)> = page
            .par_iter()
            .zip(bodies)
            .flat_map_iter(|((_, indices), body)| {
                let text = body.as_ref().map(|bytes| encoding::decode(bytes).1);
                let records = &records;
                indices
                    .iter()
                    .map(move |index| {
                        let record = &records[*index];
                        let found = match &text {
                            Err(why) => Err(**why),
                            Ok(None) => Err(Missing::NoText),
                            Ok(Some(text)) => {
                                let items = segment::segment(record.path.as_deref().unwrap_or_default(), text);
                                record.with_text(text, &items).ok_or(Missing::NoItem)
                            }
                        };
                        (*index, found)
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        for (index, found) in found {
            match found {
                Ok((record, by)) => {
                    if records[index].text.is_none() {
                        match by {
                            Match::Hash => summary.by_hash += 1,
                            Match::Line => summary.by_line += 1,
                        }
                    }
                    records[index] = record;
                }
                Err(why) if records[index].text.is_none() => {
                    *summary.missing.entry(why).or_default() += 1;
                    missed.push((index, why));
                }
                Err(_) => {}
            }
        }
        monitor.advance(page.len() as u64);
    }
    monitor.end();
    missed.sort_unstable();
    let listed = |(index, why): (usize, Missing)| {
        let record = &records[index];
        let (id, repo, path) = (record.id.clone(), record.repo.clone(), record.path.clone());
        NotFound { id, repo, path, line: record.line, why }
    };
    summary.not_found = missed.into_iter().map(listed).collect();
    Ok((records, summary))
}

/// [`hydrate`] from GitHub, under the opt-outs and with the ledger of `store` where there is one.
pub async fn hydrate_from_github(
    records: Vec<LabelRecord>,
    github: &GitHub,
    store: Option<&Store>,
    monitor: &dyn Monitor,
) -> Result<(Vec<LabelRecord>, HydrateSummary), HydrateError> {
    let optouts = match store {
        Some(store) => {
            ledger::restore(store, github).await?;
            store.opt_outs().await?
        }
        None => OptOuts::default(),
    };
    let found = hydrate(records, &TextSource::GitHub { github, optouts }, monitor).await;
    if let Some(store) = store {
        ledger::save(store, github).await?;
    }
    found
}

/// A record with its text and how its item was found, or why not.
type Found = Result<(LabelRecord, Match), Missing>;

/// The blobs of a page, in its order, and why the search stopped before it had looked for those without an answer.
struct Bodies {
    bodies: Vec<Option<Result<Vec<u8>, Missing>>>,
    paused: Option<String>,
}

/// The repository of the labels at `indices`, the first that names one.
fn owner<'r>(indices: &[usize], records: &'r [LabelRecord]) -> Option<&'r str> {
    indices.iter().find_map(|i| records[*i].repo.as_deref())
}

/// Where blobs are looked up.
enum Library<'a> {
    Corpus { store: &'a Store, known: HashMap<GitOid, BlobId>, repositories: HashSet<String> },
    Repositories(Vec<(Slug, Repository)>),
    GitHub { github: &'a GitHub, optouts: &'a OptOuts },
}

impl Library<'_> {
    fn of_repositories(paths: &[PathBuf]) -> Result<Self, HydrateError> {
        let mut open = Vec::new();
        for path in paths {
            let found = repos::discover(std::slice::from_ref(path));
            let before = open.len();
            let mut why = found.skipped.first().map(|s| format!(": {}", s.why)).unwrap_or_default();
            for source in found.found.iter().filter(|f| f.kind == SourceKind::Git) {
                match Repository::open(&source.path) {
                    Ok(repository) => open.push((source.slug.clone(), repository)),
                    Err(error) => why = format!(": {error}"),
                }
            }
            if open.len() == before {
                return Err(HydrateError::NoRepository { path: path.clone(), why });
            }
        }
        Ok(Self::Repositories(open))
    }

    async fn read(
        &self,
        page: &[(GitOid, Vec<usize>)],
        records: &[LabelRecord],
        monitor: &dyn Monitor,
    ) -> Result<Bodies, HydrateError> {
        let whole = |bodies: Vec<_>| Bodies { bodies: bodies.into_iter().map(Some).collect(), paused: None };
        match self {
            Self::GitHub { github, optouts } => {
                let wanted: Vec<_> = page.iter().map(|(oid, indices)| (*oid, owner(indices, records))).collect();
                Ok(github::read(github, optouts, &wanted, monitor).await?)
            }
            Self::Corpus { store, known, repositories } => {
                let ids: Vec<BlobId> = page.iter().filter_map(|(oid, _)| known.get(oid).copied()).collect();
                let bodies = store.bodies(&ids).await?;
                let mut bodies: HashMap<BlobId, Vec<u8>> = ids.into_iter().zip(bodies).collect();
                let read = |(oid, indices): &(GitOid, Vec<usize>)| {
                    let body = known.get(oid).and_then(|id| bodies.remove(id));
                    body.ok_or_else(|| match owner(indices, records) {
                        Some(repo) if repositories.contains(&repo.to_ascii_lowercase()) => Missing::NoBlob,
                        _ => Missing::NoRepository,
                    })
                };
                Ok(whole(page.iter().map(read).collect()))
            }
            Self::Repositories(open) => {
                let read = |readers: &mut Vec<Option<Reader>>, (oid, indices): &(GitOid, Vec<usize>)| {
                    let slug = owner(indices, records).and_then(|repo| repo.parse::<Slug>().ok());
                    let own = slug.and_then(|slug| open.iter().position(|(held, _)| *held == slug));
                    // A fork or a rename holds the same blob under another name.
                    let others = (0..open.len()).filter(|i| Some(*i) != own);
                    let mut places = own.into_iter().chain(others);
                    let body = places
                        .find_map(|i| readers[i].get_or_insert_with(|| open[i].1.reader()).read(*oid, MAX_BYTES).ok());
                    body.ok_or(if own.is_some() { Missing::NoBlob } else { Missing::NoRepository })
                };
                let none = || open.iter().map(|_| None).collect::<Vec<Option<Reader>>>();
                Ok(whole(page.par_iter().map_init(none, read).collect()))
            }
        }
    }
}

/// Records as JSONL.
pub fn to_jsonl(records: &[LabelRecord]) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    for record in records {
        out += &serde_json::to_string(record)?;
        out.push('\n');
    }
    Ok(out)
}
