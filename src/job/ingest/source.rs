//! One repository or folder: what it holds now, and its bytes when they are wanted.

use super::histories::{self, PathFacts};
use crate::corpus::{GitOid, Platform};
use crate::encoding;
use crate::license::{self, Verdict};
use crate::plan::Targets;
use crate::repos::{self, Entry, Folder, Found, Mode, Reader, Repository, Skipped, SourceKind, Target};
use crate::store::{Codec, NewBlob, Packer};
use crate::tag::Tagger;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

/// Bytes of bodies in hand at once, and how many of them.
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_ENTRIES: usize = 1000;

/// A larger file is no licence, bytes.
const LICENSE_BYTES: u64 = 1 << 20;

/// A repository or folder opened, with what it holds now.
pub(super) struct Present {
    pub(super) place: Place,
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

pub(super) enum Source {
    Git(Repository),
    Folder(Folder),
}

/// Where artifacts are read.
pub(super) struct Place {
    pub(super) source: Source,
    /// The commit; nothing for folders and for repositories without commits.
    pub(super) head: Option<GitOid>,
}

/// An artifact whose row is to be written.
pub(super) struct Fresh {
    /// The repository, as a place in its group.
    pub(super) repository: usize,
    pub(super) place: Arc<Place>,
    pub(super) candidate: Candidate,
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
    let place = Place { source, head };
    let names = if needs_all(targets, &entries) { place.names(targets)? } else { Vec::new() };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut skipped = walk.skipped;
    let license = license::from_texts(&place.licenses(&mut skipped));
    let mut present = Present { place, branch, entries: Vec::new(), histories: Vec::new(), license, skipped };
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
        let source = &self.place.source;
        let reader = source.reader();
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
            let size = source.size(reader.as_ref(), &entry);
            if size > limit {
                let error = repos::Error::TooLarge { what: path.clone(), size, limit };
                self.skipped.push(Skipped::because(path, &error));
                continue;
            }
            let pointer = encoding::LFS_POINTER_SIZES.contains(&size)
                && source.read(reader.as_ref(), &entry, limit).is_ok_and(|bytes| encoding::is_lfs_pointer(&bytes));
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
        let Place { source: Source::Git(repository), head: Some(head) } = &self.place else { return };
        let paths: Vec<&[u8]> = self.entries.iter().map(|candidate| candidate.entry.path.as_slice()).collect();
        if paths.is_empty() {
            return;
        }
        match histories::read(&repository.reader(), *head, &paths, &Tagger::shipped().authors) {
            Ok(facts) => self.histories = facts,
            Err(error) => self.skipped.push(Skipped::because("the history of its artifacts", &error)),
        }
    }
}

/// A batch after reading.
pub(super) struct Read {
    /// What could be read, with where a link leads.
    pub(super) candidates: Vec<(Fresh, Option<String>)>,
    /// Bodies that the store lacks.
    pub(super) blobs: Vec<NewBlob>,
    /// What could not be read, with its repository.
    pub(super) skipped: Vec<(usize, Skipped)>,
}

/// Split so that no batch holds more than [`BATCH_ENTRIES`] bodies or, unless one alone is larger, [`BATCH_BYTES`].
pub(super) fn batches(fresh: Vec<Fresh>) -> VecDeque<Vec<Fresh>> {
    let mut batches: VecDeque<Vec<Fresh>> = VecDeque::new();
    let mut bytes = 0;
    for fresh in fresh {
        bytes += fresh.candidate.size;
        match batches.back_mut() {
            Some(last) if last.len() < BATCH_ENTRIES && bytes <= BATCH_BYTES => last.push(fresh),
            _ => {
                bytes = fresh.candidate.size;
                batches.push_back(vec![fresh]);
            }
        }
    }
    batches
}

/// Read and pack, on all cores, the bodies of `batch` that are not `known`, and follow its links.
pub(super) fn read_all(batch: Vec<Fresh>, known: &HashSet<GitOid>, codec: &Codec, limit: u64) -> Read {
    // A body that one repository lost may be whole in another, so each is read in each repository.
    let mut wanted = HashSet::new();
    let is_first = |fresh: &Fresh| {
        let oid = fresh.candidate.entry.oid;
        !known.contains(&oid) && wanted.insert((fresh.repository, oid))
    };
    let first: Vec<bool> = batch.iter().map(is_first).collect();
    let results: Vec<_> = batch
        .into_par_iter()
        .zip(first)
        .map_init(
            || (None, codec.packer()),
            |(open, packer), (fresh, first)| {
                let Fresh { repository, place, candidate } = &fresh;
                // Making a reader costs more than reading most bodies.
                let reader = match open.take() {
                    Some((of, reader)) if of == *repository => reader,
                    _ => place.source.reader(),
                };
                let (_, reader) = open.insert((*repository, reader));
                let entry = &candidate.entry;
                let blob = first.then(|| place.source.pack(reader.as_ref(), entry, packer, limit)).transpose();
                let leads =
                    (entry.mode == Mode::Symlink).then(|| place.resolve(reader.as_ref(), &entry.path, limit)).flatten();
                (fresh, blob, leads)
            },
        )
        .collect();
    let mut read = Read { candidates: Vec::new(), blobs: Vec::new(), skipped: Vec::new() };
    for (fresh, blob, leads) in results {
        match blob {
            Ok(blob) => {
                read.blobs.extend(blob);
                read.candidates.push((fresh, leads));
            }
            Err(error) => {
                read.skipped.push((fresh.repository, Skipped::because(fresh.candidate.path, &error)));
            }
        }
    }
    read
}

impl Place {
    /// The paths of all files.
    fn names(&self, targets: &Targets) -> Result<Vec<String>, repos::Error> {
        Ok(match (&self.source, self.head) {
            (Source::Git(repository), Some(head)) => {
                let all = repository.reader().walk(head, &|_, mode| mode.is_blob())?;
                all.entries.iter().map(|entry| entry.display_path().into_owned()).collect()
            }
            (Source::Git(_), None) => Vec::new(),
            (Source::Folder(folder), _) => folder.paths(&|directory| !targets.is_vendored(directory)),
        })
    }

    /// Path and text of the licence files at the root; a link stands for the file that it leads to.
    fn licenses(&self, skipped: &mut Vec<Skipped>) -> Vec<(String, String)> {
        let reader = self.source.reader();
        let files = match (&self.source, &reader, self.head) {
            (Source::Git(_), Some(reader), Some(head)) => reader.licenses(head),
            (Source::Git(_), ..) => Ok(Vec::new()),
            (Source::Folder(folder), ..) => {
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
            let Some(file) = self.follow(reader.as_ref(), file) else { continue };
            match self.source.read(reader.as_ref(), &file, LICENSE_BYTES) {
                Ok(bytes) => texts.extend(encoding::decode(&bytes).1.map(|text| (path, text.into_owned()))),
                Err(error) => skipped.push(Skipped::because(path, &error)),
            }
        }
        texts
    }

    /// The file that a link leads to, or the file itself.
    fn follow(&self, reader: Option<&Reader>, entry: Entry) -> Option<Entry> {
        if entry.mode != Mode::Symlink {
            return Some(entry);
        }
        match self.target(reader, &entry.path, LICENSE_BYTES) {
            Some(Target::Entry(entry)) if entry.mode.is_blob() => Some(entry),
            _ => None,
        }
    }

    /// Whether `path` is surely not there.
    pub(super) fn lacks(&self, path: &str) -> bool {
        match (&self.source, self.head) {
            (Source::Git(repository), Some(head)) => {
                matches!(repository.reader().find(head, path.as_bytes()), Ok(None))
            }
            // A repository that lost all its commits holds nothing.
            (Source::Git(_), None) => true,
            (Source::Folder(folder), _) => folder.path().join(path).symlink_metadata().is_err(),
        }
    }

    /// The path inside the repository that a link leads to, if it stays inside and something is there.
    fn resolve(&self, reader: Option<&Reader>, path: &[u8], limit: u64) -> Option<String> {
        match self.target(reader, path, limit) {
            Some(Target::Entry(entry)) => Some(entry.display_path().into_owned()),
            // Outside, dangling, circular or unreadable: the link is stored and leads nowhere.
            _ => None,
        }
    }

    fn target(&self, reader: Option<&Reader>, path: &[u8], limit: u64) -> Option<Target> {
        match (&self.source, reader, self.head) {
            (Source::Git(_), Some(reader), Some(head)) => reader.resolve(head, path).ok(),
            (Source::Folder(folder), ..) => folder.resolve(path, limit).ok(),
            _ => None,
        }
    }
}

impl Source {
    fn size(&self, reader: Option<&Reader>, entry: &Entry) -> u64 {
        match (self, reader) {
            (Self::Git(_), Some(reader)) => reader.header(entry.oid).map_or(0, |(_, size)| size),
            (Self::Git(_), None) => 0,
            (Self::Folder(folder), _) => folder.size(&entry.path).unwrap_or(0),
        }
    }

    fn pack(
        &self,
        reader: Option<&Reader>,
        entry: &Entry,
        packer: &mut Packer<'_>,
        limit: u64,
    ) -> Result<NewBlob, repos::Error> {
        let bytes = self.read(reader, entry, limit)?;
        let broken = |why: String| repos::Error::Object { path: self.path().to_owned(), oid: entry.oid, why };
        let blob = packer.encode(&bytes).map_err(|error| broken(error.to_string()))?;
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
}
