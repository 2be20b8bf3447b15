//! One repository or folder: what it holds now, and its bytes when they are wanted.

use super::histories::{self, PathFacts};
use crate::corpus::{GitOid, Platform};
use crate::encoding;
use crate::license::{self, Verdict};
use crate::plan::Targets;
use crate::repos::{self, Entry, Folder, Found, Mode, Reader, Repository, Skipped, SourceKind, Target};
use crate::store::{Codec, NewBlob};
use crate::tag::Tagger;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Bytes of bodies in hand at once, and how many of them.
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_ENTRIES: usize = 1000;

/// A larger file is no licence, bytes.
const LICENSE_BYTES: u64 = 1 << 20;

/// A repository or folder opened, with what it holds now.
pub(super) struct Present {
    pub(super) source: Source,
    pub(super) head: Option<GitOid>,
    pub(super) branch: Option<String>,
    /// Artifacts of the selected platforms, by path.
    pub(super) entries: Vec<Candidate>,
    /// The commits of each of `entries`; nothing for folders.
    pub(super) histories: Vec<PathFacts>,
    /// What the licence files at the root say.
    pub(super) license: Verdict,
    pub(super) skipped: Vec<Skipped>,
}

pub(super) struct Candidate {
    pub(super) entry: Entry,
    pub(super) path: String,
    pub(super) platform: Platform,
    pub(super) target: String,
    /// Bytes; 0 when that cannot be told without reading.
    size: u64,
}

#[derive(Clone)]
pub(super) enum Source {
    Git(Repository),
    Folder(Folder),
}

/// What is asked of every repository alike.
pub(super) struct Ask {
    pub(super) rev: Option<String>,
    /// Larger files are skipped, bytes.
    pub(super) limit: u64,
}

/// Open what was found and list its artifacts; nothing when its head is `done`.
pub(super) fn look(
    found: &Found,
    targets: &Targets,
    ask: &Ask,
    done: Option<GitOid>,
) -> Result<Option<Present>, repos::Error> {
    let wanted = |path: &str, mode: Mode| {
        (mode.is_blob() && targets.owner(path).is_some()) || (mode == Mode::Submodule && !targets.is_vendored(path))
    };
    let (source, head, branch, mut walk) = match found.kind {
        SourceKind::Git => {
            let repository = Repository::open(&found.path)?;
            let reader = repository.reader();
            let default = found.facts.as_ref().and_then(|facts| facts.default_branch.as_deref());
            let head = reader.head(ask.rev.as_deref(), default)?;
            if head.commit.is_some() && head.commit == done {
                return Ok(None);
            }
            let walk = match head.commit {
                Some(commit) => reader.walk(commit, &wanted)?,
                None => repos::Walk::default(),
            };
            (Source::Git(repository), head.commit, head.branch, walk)
        }
        SourceKind::Folder => {
            let folder = Folder::open(&found.path)?;
            let walk = folder.walk(&wanted, &|directory| !targets.is_vendored(directory), ask.limit);
            (Source::Folder(folder), None, None, walk)
        }
    };
    let (submodules, entries): (Vec<_>, Vec<_>) =
        walk.entries.into_iter().partition(|entry| entry.mode == Mode::Submodule);
    walk.skipped.extend(submodules.iter().map(|entry| {
        let why = "A submodule: its files are another repository's, to be taken in by itself";
        Skipped::by_rule(entry.display_path(), why)
    }));
    let names = if needs_all(targets, &entries) { source.names(head, targets)? } else { Vec::new() };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut skipped = walk.skipped;
    let license = license::from_texts(&source.licenses(head, &mut skipped));
    let mut present = Present { source, head, branch, entries: Vec::new(), histories: Vec::new(), license, skipped };
    present.choose(entries, targets, &names, ask.limit);
    present.read_histories();
    Ok(Some(present))
}

/// Whether some entry's name proves nothing unless the rest of the repository backs it.
fn needs_all(targets: &Targets, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| targets.collected(&entry.display_path()).is_some_and(|owner| owner.weak))
}

impl Present {
    /// Keep the entries that are artifacts. `names` are all paths, where some weak name needs them.
    fn choose(&mut self, entries: Vec<Entry>, targets: &Targets, names: &[&str], limit: u64) {
        let reader = self.source.reader();
        let mut chosen: BTreeMap<String, Candidate> = BTreeMap::new();
        for entry in entries {
            let path = entry.display_path().into_owned();
            let Some(owner) = targets.collected(&path) else { continue };
            if owner.weak && !targets.corroborated(owner.target, &path, names) {
                continue;
            }
            if chosen.contains_key(&path) {
                let why = "Its name is not UTF-8 and reads like another path's";
                self.skipped.push(Skipped::by_rule(path, why));
                continue;
            }
            let size = self.source.size(reader.as_ref(), &entry);
            if size > limit {
                let error = repos::Error::TooLarge { what: path.clone(), size, limit };
                self.skipped.push(Skipped::because(path, &error));
                continue;
            }
            let pointer = encoding::LFS_POINTER_SIZES.contains(&size)
                && self.source.read(reader.as_ref(), &entry, limit).is_ok_and(|bytes| encoding::is_lfs_pointer(&bytes));
            if pointer {
                let why = "Its content is in large file storage; the pointer is kept as its text";
                self.skipped.push(Skipped::by_rule(path.as_str(), why));
            }
            let (platform, target) = (owner.target.platform.clone(), owner.target.id.clone());
            chosen.insert(path.clone(), Candidate { entry, path, platform, target, size });
        }
        self.entries = chosen.into_values().collect();
    }

    /// A history that cannot be read leaves the artifacts without one, and the repository for another try.
    fn read_histories(&mut self) {
        let (Source::Git(repository), Some(head)) = (&self.source, self.head) else { return };
        let paths: Vec<&[u8]> = self.entries.iter().map(|candidate| candidate.entry.path.as_slice()).collect();
        if paths.is_empty() {
            return;
        }
        match histories::read(&repository.reader(), head, &paths, &Tagger::shipped().authors) {
            Ok(facts) => self.histories = facts,
            Err(error) => self.skipped.push(Skipped::because("the history of its artifacts", &error)),
        }
    }
}

/// A batch after reading.
pub(super) struct Read {
    /// What could be read, with where a link leads.
    pub(super) candidates: Vec<(Candidate, Option<String>)>,
    /// Bodies that the store lacks, each once.
    pub(super) blobs: Vec<NewBlob>,
    pub(super) skipped: Vec<Skipped>,
}

/// Split so that no batch holds more than [`BATCH_ENTRIES`] bodies or, unless one alone is larger, [`BATCH_BYTES`].
pub(super) fn batches(candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut batches: Vec<Vec<Candidate>> = Vec::new();
    let mut bytes = 0;
    for candidate in candidates {
        bytes += candidate.size;
        match batches.last_mut() {
            Some(last) if last.len() < BATCH_ENTRIES && bytes <= BATCH_BYTES => last.push(candidate),
            _ => {
                bytes = candidate.size;
                batches.push(vec![candidate]);
            }
        }
    }
    batches
}

impl Source {
    /// The paths of all files.
    fn names(&self, head: Option<GitOid>, targets: &Targets) -> Result<Vec<String>, repos::Error> {
        Ok(match (self, head) {
            (Self::Git(repository), Some(head)) => {
                let all = repository.reader().walk(head, &|_, mode| mode.is_blob())?;
                all.entries.iter().map(|entry| entry.display_path().into_owned()).collect()
            }
            (Self::Git(_), None) => Vec::new(),
            (Self::Folder(folder), _) => folder.paths(&|directory| !targets.is_vendored(directory)),
        })
    }

    /// Path and text of the licence files at the root; a link stands for the file that it leads to.
    fn licenses(&self, head: Option<GitOid>, skipped: &mut Vec<Skipped>) -> Vec<(String, String)> {
        let reader = self.reader();
        let files = match (self, &reader, head) {
            (Self::Git(_), Some(reader), Some(head)) => reader.licenses(head),
            (Self::Git(_), ..) => Ok(Vec::new()),
            (Self::Folder(folder), ..) => {
                let walk = folder.licenses(LICENSE_BYTES);
                skipped.extend(walk.skipped);
                Ok(walk.entries)
            }
        };
        let files = files.unwrap_or_else(|error| {
            skipped.push(Skipped::because("its licence files", &error));
            Vec::new()
        });
        let mut texts = Vec::with_capacity(files.len());
        for file in files {
            let path = file.display_path().into_owned();
            let Some(file) = self.follow(reader.as_ref(), head, file) else { continue };
            match self.read(reader.as_ref(), &file, LICENSE_BYTES) {
                Ok(bytes) => texts.extend(encoding::decode(&bytes).1.map(|text| (path, text.into_owned()))),
                Err(error) => skipped.push(Skipped::because(path, &error)),
            }
        }
        texts
    }

    /// The file that a link leads to, or the file itself.
    fn follow(&self, reader: Option<&Reader>, head: Option<GitOid>, entry: Entry) -> Option<Entry> {
        if entry.mode != Mode::Symlink {
            return Some(entry);
        }
        match self.target(reader, head, &entry.path, LICENSE_BYTES) {
            Some(Target::Entry(entry)) if entry.mode.is_blob() => Some(entry),
            _ => None,
        }
    }

    /// Whether `path` is surely not there.
    pub(super) fn lacks(&self, head: Option<GitOid>, path: &str) -> bool {
        match (self, head) {
            (Self::Git(repository), Some(head)) => matches!(repository.reader().find(head, path.as_bytes()), Ok(None)),
            // A repository that lost all its commits holds nothing.
            (Self::Git(_), None) => true,
            (Self::Folder(folder), _) => folder.path().join(path).symlink_metadata().is_err(),
        }
    }

    fn size(&self, reader: Option<&Reader>, entry: &Entry) -> u64 {
        match (self, reader) {
            (Self::Git(_), Some(reader)) => reader.header(entry.oid).map_or(0, |(_, size)| size),
            (Self::Git(_), None) => 0,
            (Self::Folder(folder), _) => folder.size(&entry.path).unwrap_or(0),
        }
    }

    /// Read and pack, on all cores, the bodies of `batch` that are not `known`, and follow its links.
    pub(super) fn read_all(
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
        let mut read = Read { candidates: Vec::new(), blobs: Vec::new(), skipped: Vec::new() };
        for (candidate, blob, leads) in results {
            match blob {
                Ok(blob) => {
                    read.blobs.extend(blob);
                    read.candidates.push((candidate, leads));
                }
                Err(error) => read.skipped.push(Skipped::because(candidate.path, &error)),
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
        match self.target(reader, head, path, limit) {
            Some(Target::Entry(entry)) => Some(entry.display_path().into_owned()),
            // Outside, dangling, circular or unreadable: the link is stored and leads nowhere.
            _ => None,
        }
    }

    fn target(&self, reader: Option<&Reader>, head: Option<GitOid>, path: &[u8], limit: u64) -> Option<Target> {
        match (self, reader, head) {
            (Self::Git(_), Some(reader), Some(head)) => reader.resolve(head, path).ok(),
            (Self::Folder(folder), ..) => folder.resolve(path, limit).ok(),
            _ => None,
        }
    }
}
