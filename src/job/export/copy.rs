//! A copy of the database for others: what an export of the same tier gives away, in the form of the corpus itself.
//!
//! The raw copy lies in a hidden folder beside the working database, never beside the file that is asked for; that one is
//! written by a second `VACUUM INTO` once everything is taken out, and named last.

use super::redacted::Redacted;
use super::selection::Selection;
use super::{ExportError, ExportOptions, page};
use crate::corpus::Segmentation;
use crate::monitor::Monitor;
use crate::store::{
    self, BlobId, CopiedBlob, CopiedGold, CopiedItems, ExportKey, ExportReading, GoldItemRow, RepoId, Store,
};
use crate::{encoding, redact, segment};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What a copy of the database holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopySummary {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Repositories.
    pub repos: u64,
    /// Texts that are in it.
    pub texts: u64,
    /// Passages replaced in them, by kind.
    pub redactions: BTreeMap<&'static str, u64>,
    /// Repositories left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Write a copy of the corpus as it is now to `file`, in place of an earlier copy: of each text only what an export of
/// `options.tier` holds. After an error `file` is as it was.
pub async fn copy(
    store: &Store,
    options: &ExportOptions,
    file: &Path,
    monitor: &dyn Monitor,
) -> Result<CopySummary, ExportError> {
    let place = place(store.path(), file).await?;
    let work = Work::begin(store.path(), &place)?;
    monitor.begin("copy", None);
    let made = make(store, options, &work, monitor).await;
    monitor.end();
    let mut summary = made?;
    summary.bytes = work.publish(&place)?;
    summary.path = place;
    Ok(summary)
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Write { path, source }
}

/// Where the copy goes: a new file, or an earlier copy.
async fn place(db: &Path, file: &Path) -> Result<PathBuf, ExportError> {
    let refuse = |why| ExportError::CopyPlace { path: file.to_owned(), why };
    if file.file_name().is_none() || file.is_dir() {
        return Err(refuse("it names no file"));
    }
    if !file.exists() {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        return Ok(file.to_owned());
    }
    let place = fs::canonicalize(file).map_err(io_error(file))?;
    if fs::canonicalize(db).is_ok_and(|db| db == place) {
        return Err(refuse("it is the corpus itself"));
    }
    if store::is_copy(&place).await { Ok(place) } else { Err(refuse("it is there and no earlier copy")) }
}

/// The folder of the raw copy, and the finished one until it has its name.
struct Work {
    folder: PathBuf,
    part: PathBuf,
    /// Held until the copy is made.
    _lock: File,
}

/// `path` with its last name hidden and followed by `end`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(end);
    path.with_file_name(name)
}

impl Work {
    fn begin(db: &Path, place: &Path) -> Result<Self, ExportError> {
        let (folder, part) = (beside(db, ".copying"), beside(place, ".new"));
        fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let lock = File::open(&folder).map_err(io_error(&folder))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(ExportError::CopyPlace { path: place.to_owned(), why: "another copy is being made" });
            }
            Err(fs::TryLockError::Error(source)) => return Err(io_error(&folder)(source)),
        }
        let work = Self { folder, part, _lock: lock };
        // What a killed process left.
        for entry in fs::read_dir(&work.folder).map_err(io_error(&work.folder))? {
            let path = entry.map_err(io_error(&work.folder))?.path();
            fs::remove_file(&path).map_err(io_error(&path))?;
        }
        match fs::remove_file(&work.part) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error(&work.part)(source)),
            _ => Ok(work),
        }
    }

    fn raw(&self) -> PathBuf {
        self.folder.join("copy.db")
    }

    /// Give the finished copy its name; returns its bytes.
    fn publish(&self, place: &Path) -> Result<u64, ExportError> {
        let bytes = File::open(&self.part)
            .and_then(|file| file.sync_all().and_then(|()| file.metadata()))
            .map_err(io_error(&self.part))?
            .len();
        // A log beside an earlier copy would be read into the new one.
        for end in ["-wal", "-shm"] {
            let mut log = place.as_os_str().to_owned();
            log.push(end);
            match fs::remove_file(&log) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(Path::new(&log))(source));
                }
                _ => {}
            }
        }
        fs::rename(&self.part, place).map_err(io_error(place))?;
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))?;
        Ok(bytes)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Best effort: what stays is tidied up by the next copy.
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.part);
    }
}

async fn make(
    store: &Store,
    options: &ExportOptions,
    work: &Work,
    monitor: &dyn Monitor,
) -> Result<CopySummary, ExportError> {
    store.vacuum_into(&work.raw()).await?;
    let copy = Store::open(&work.raw()).await?;
    let made = cut(&copy, options, monitor).await;
    let summary = match made {
        Ok(summary) => match copy.check().await?.first() {
            None => copy.vacuum_into(&work.part).await.map(|()| summary).map_err(ExportError::from),
            Some(problem) => Err(ExportError::CopyDamaged { problem: problem.clone() }),
        },
        Err(error) => Err(error),
    };
    copy.close().await;
    summary
}

/// Take out of a raw copy what must not leave the workshop.
async fn cut(copy: &Store, options: &ExportOptions, monitor: &dyn Monitor) -> Result<CopySummary, ExportError> {
    let optouts: HashSet<String> = copy.optouts().await?.into_iter().collect();
    let (repos, keys) = (copy.export_repos().await?, copy.export_keys(i64::MAX, 0).await?);
    let selection = Selection::new(repos, keys, &optouts, options);
    let repos: Vec<RepoId> = selection.repos.iter().map(|repo| RepoId(repo.row.id)).collect();
    copy.begin_copy(&repos).await?;
    let mut golds: HashMap<i64, Vec<GoldItemRow>> = HashMap::new();
    let mut hidden = Vec::new();
    for item in copy.gold_items().await? {
        match item.blob_id {
            Some(blob) => golds.entry(blob).or_default().push(item),
            None => hidden.push(item),
        }
    }
    let shown: Vec<ExportKey> = selection
        .repos
        .iter()
        .filter(|repo| repo.open)
        .flat_map(|repo| &selection.keys[repo.keys.clone()])
        .filter(|key| !key.is_withheld && selection.homes.get(&key.blob) == Some(&key.artifact))
        .copied()
        .collect();
    let mut summary = CopySummary {
        path: PathBuf::new(),
        bytes: 0,
        repos: repos.len() as u64,
        texts: 0,
        redactions: BTreeMap::new(),
        left_out: selection.left_out.clone(),
    };
    let mut at = 0;
    while at < shown.len() {
        if monitor.stop_requested() {
            return Err(ExportError::Stopped);
        }
        let page = page(&shown[at..]);
        at += page.len();
        let texts = read(copy, page).await?;
        let mut gold = Vec::new();
        for text in &texts {
            summary.texts += 1;
            for kind in &text.redacted.kinds {
                *summary.redactions.entry(kind.as_str()).or_default() += 1;
            }
            let items = golds.remove(&text.row.blob.0).unwrap_or_default();
            gold.extend(items.into_iter().map(|item| gold_row(item, Some(&text.redacted))));
        }
        let rows: Vec<CopiedBlob> = texts.into_iter().map(|text| text.row).collect();
        copy.put_copied(u32::from(redact::VERSION), &rows).await?;
        copy.put_copied_gold(&gold).await?;
    }
    hidden.extend(golds.into_values().flatten());
    let hidden: Vec<CopiedGold> = hidden.into_iter().map(|item| gold_row(item, None)).collect();
    copy.put_copied_gold(&hidden).await?;
    let what = json!({ "name": options.name, "tier": options.tier, "version": env!("CARGO_PKG_VERSION") });
    copy.end_copy(&what.to_string()).await?;
    Ok(summary)
}

/// A text with its redactions.
struct Text {
    row: CopiedBlob,
    redacted: Redacted,
}

async fn read(copy: &Store, page: &[ExportKey]) -> Result<Vec<Text>, ExportError> {
    let versions: Vec<i64> = page.iter().map(|key| key.version).collect();
    let blobs: Vec<BlobId> = page.iter().map(|key| BlobId(key.blob)).collect();
    let artifacts = copy.export_artifacts(&versions).await?;
    let readings = copy.export_readings(&blobs).await?;
    let bodies = copy.bodies(&blobs).await?;
    let texts: Result<Vec<Option<Text>>, ExportError> = page
        .par_iter()
        .zip(bodies)
        .map(|(key, body)| {
            let (Some(artifact), Some(reading)) = (artifacts.get(&key.version), readings.get(&BlobId(key.blob))) else {
                return Ok(None);
            };
            text(key, &artifact.path, body, reading).map_err(|source| {
                let what = format!("blob {} ({})", key.blob, artifact.path);
                ExportError::Items { what, source: source.into() }
            })
        })
        .collect();
    Ok(texts?.into_iter().flatten().collect())
}

/// A text as it may be passed on; nothing for binary content, which no rule can search.
fn text(
    key: &ExportKey,
    path: &str,
    body: Vec<u8>,
    reading: &ExportReading,
) -> Result<Option<Text>, segment::PackError> {
    let Some(text) = encoding::decode(&body).1.map(std::borrow::Cow::into_owned) else { return Ok(None) };
    let stored = reading.spans.as_deref().filter(|_| reading.redactor == Some(u32::from(redact::VERSION)));
    let redacted = Redacted::new(&text, stored);
    let changed = !redacted.kinds.is_empty();
    let found = reading.items.as_deref().map(segment::unpack).transpose()?;
    let placed = match &found {
        Some(found) if !changed && fits(found, &text) => None,
        Some(found) => {
            let placed = place_items(found, &redacted).filter(|placed| fits(placed, &redacted.text));
            Some(placed.map_or_else(|| anew(path, &redacted.text), |placed| items(&placed, None)))
        }
        None if key.is_link => None,
        None => Some(anew(path, &redacted.text)),
    };
    let spans: Vec<_> =
        redacted.placeholders().map(|(range, kind)| (range.start, range.end, kind.as_str(), "copy")).collect();
    let row = CopiedBlob {
        blob: BlobId(key.blob),
        body: if changed { encode(&redacted.text) } else { body },
        redacted: changed,
        spans: json!(spans).to_string(),
        items: placed,
    };
    Ok(Some(Text { row, redacted }))
}

/// UTF-8 that decodes to `text`: with a byte order mark where it would be taken for something else without.
fn encode(text: &str) -> Vec<u8> {
    if encoding::decode(text.as_bytes()).1.as_deref() == Some(text) {
        text.as_bytes().to_vec()
    } else {
        [b"\xEF\xBB\xBF", text.as_bytes()].concat()
    }
}

fn items(found: &Segmentation, anew: Option<(String, u32)>) -> CopiedItems {
    CopiedItems { count: found.items.len() as i64, packed: segment::pack(found), anew }
}

fn anew(path: &str, text: &str) -> CopiedItems {
    items(&segment::segment(path, text), Some((path.to_owned(), segment::VERSION)))
}

/// The same items in the redacted text; nothing where one of them is gone or two of them fell together.
fn place_items(found: &Segmentation, redacted: &Redacted) -> Option<Segmentation> {
    let place = |start: u32, end: u32| {
        let range = redacted.place(start as usize..end as usize);
        Some((u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?))
    };
    let mut placed = found.clone();
    for heading in &mut placed.headings {
        (heading.start, heading.end) = place(heading.start, heading.end)?;
    }
    for item in &mut placed.items {
        (item.start, item.end) = place(item.start, item.end)?;
    }
    Some(placed)
}

/// Whether headings and items lie in `text`, in order and apart.
fn fits(found: &Segmentation, text: &str) -> bool {
    apart(found.headings.iter().map(|h| (h.start, h.end)), text)
        && apart(found.items.iter().map(|i| (i.start, i.end)), text)
        && found.items.iter().all(|item| item.start < item.end)
}

fn apart(mut spans: impl Iterator<Item = (u32, u32)>, text: &str) -> bool {
    let mut last = 0;
    spans.all(|(start, end)| {
        let good = last <= start && start <= end && text.get(start as usize..end as usize).is_some();
        last = end;
        good
    })
}

fn gold_row(item: GoldItemRow, redacted: Option<&Redacted>) -> CopiedGold {
    let placed = redacted.and_then(|redacted| {
        let range = usize::try_from(item.start?).ok()?..usize::try_from(item.stop?).ok()?;
        Some(redacted.place(range))
    });
    let (start, stop) = match placed {
        Some(range) => (Some(range.start as i64), Some(range.end as i64)),
        None => (item.start, item.stop),
    };
    let heading = redacted.map(|_| Redacted::new(&item.heading, None).text).unwrap_or_default();
    CopiedGold { id: item.id, start, stop, heading }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_fall_together_are_found_anew() {
        let text = "- ask ann@corp-mail.com\n- and bob@corp-mail.com\n";
        let found = segment::segment("AGENTS.md", text);
        let redacted = Redacted::new(text, None);
        let placed = place_items(&found, &redacted).unwrap();
        assert!(fits(&placed, &redacted.text) && placed.items.len() == 2);
        let shown = |n: usize| &redacted.text[placed.items[n].range()];
        assert_eq!((shown(0), shown(1)), ("ask [redacted:email]", "and [redacted:email]"));
        let both = format!("[[2,{},\"secret\",\"x\"]]", text.len() - 1);
        let redacted = Redacted::new(text, Some(&both));
        assert!(!fits(&place_items(&found, &redacted).unwrap(), &redacted.text));
    }

    #[test]
    fn every_text_reads_back_as_it_was_written() {
        for text in ["plain", "", "\u{FEFF}mark", "a\0b", "\u{FEFF}", "ünï"] {
            assert_eq!(encoding::decode(&encode(text)).1.as_deref(), Some(text), "{text:?}");
        }
    }
}
