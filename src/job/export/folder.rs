//! Putting a finished set of files in the place of an older one.
//!
//! A set is built beside its place, made durable, and exchanged with the old one in one step of the file system: at any
//! moment the place holds the old set or the new one. Files in the folder that no export writes (a report, `.git`) are
//! carried over.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What a set is; written last.
pub(super) const MANIFEST: &str = "manifest.json";
/// What people read of a set.
pub(super) const CARD: &str = "README.md";
/// Everything that an export writes at the top of its folder.
pub(super) const ENTRIES: [&str; 6] = ["data", "classifier", CARD, "croissant.json", MANIFEST, "attribution.csv"];
/// Lies in a set that is not whole.
pub(super) const INCOMPLETE: &str = ".incomplete";

/// Why a set could not be put in its place.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system refused.
    #[error("Failed to {doing} {path}: {source}", path = .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process is at work on the same folder.
    #[error("Failed to export to {path}: another export is writing there", path = .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something under a name that a set uses, and is no earlier export.
    #[error("Failed to export to {path}: it holds {entry} but no manifest.json of an earlier export; choose another folder with --out", path = .path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The name in the way.
        entry: &'static str,
    },
    /// A path without a last name, such as `..`.
    #[error("Failed to export to {path}: it names no folder", path = .path.display())]
    Nameless {
        /// What was given.
        path: PathBuf,
    },
}

/// A set in the making. Dropped before [`Staging::publish`], it leaves nothing behind.
pub(super) struct Staging {
    place: PathBuf,
    parent: PathBuf,
    work: PathBuf,
    /// Held until the set is in its place.
    _lock: File,
    published: bool,
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { doing, path, source }
}

impl Staging {
    /// Begin a set for `place`, tidying up after an export that was killed.
    pub(super) fn begin(place: &Path) -> Result<Self, FolderError> {
        // A link stands for what it names: that is exchanged, not the link.
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        let name = place.file_name().ok_or_else(|| FolderError::Nameless { path: place.clone() })?;
        let parent = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".new");
        let work = parent.join(hidden);
        let aside = aside(&work);
        if aside.exists() {
            // Killed between the renames of a file system without exchange.
            let to = if place.exists() { &work } else { &place };
            fs::rename(&aside, to).map_err(io("put back", &aside))?;
        }
        fs::create_dir_all(&work).map_err(io("make", &work))?;
        let lock = File::open(&work).map_err(io("open", &work))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(FolderError::Busy { path: place }),
            Err(fs::TryLockError::Error(source)) => return Err(io("lock", &work)(source)),
        }
        recover(&work, &place)?;
        if !place.join(MANIFEST).exists()
            && let Some(entry) = ENTRIES.into_iter().find(|entry| place.join(entry).exists())
        {
            return Err(FolderError::Foreign { path: place, entry });
        }
        let marker = work.join(INCOMPLETE);
        File::create(&marker).map_err(io("make", &marker))?;
        Ok(Self { place, parent, work, _lock: lock, published: false })
    }

    /// Where to write.
    pub(super) fn path(&self) -> &Path {
        &self.work
    }

    /// Where it will stand.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Make everything durable and put it in its place.
    pub(super) fn publish(mut self) -> Result<(), FolderError> {
        let marker = self.work.join(INCOMPLETE);
        sync(&self.work)?;
        fs::remove_file(&marker).map_err(io("remove", &marker))?;
        File::open(&self.work).and_then(|f| f.sync_all()).map_err(io("write out", &self.work))?;
        if self.place.exists() {
            exchange(&self.work, &self.place)?;
            self.published = true;
            recover(&self.work, &self.place)?;
            fs::remove_dir_all(&self.work).map_err(io("remove", &self.work))?;
        } else {
            fs::rename(&self.work, &self.place).map_err(io("name", &self.place))?;
            self.published = true;
        }
        File::open(&self.parent).and_then(|f| f.sync_all()).map_err(io("write out", &self.parent))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: what stays is tidied up by the next export.
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

/// Empty the work folder. A whole set in it is either one that never came to its place, or the old one after the
/// exchange; what no export wrote goes to the place first.
fn recover(work: &Path, place: &Path) -> Result<(), FolderError> {
    let whole = !work.join(INCOMPLETE).exists();
    for entry in fs::read_dir(work).map_err(io("read", work))? {
        let entry = entry.map_err(io("read", work))?;
        let (path, name) = (entry.path(), entry.file_name());
        let ours = ENTRIES.iter().any(|ours| name == *ours) || name == INCOMPLETE;
        if whole && !ours && !place.join(&name).exists() {
            fs::rename(&path, place.join(&name)).map_err(io("carry over", &path))?;
        } else if entry.file_type().map_err(io("read", &path))?.is_dir() {
            fs::remove_dir_all(&path).map_err(io("remove", &path))?;
        } else {
            fs::remove_file(&path).map_err(io("remove", &path))?;
        }
    }
    Ok(())
}

fn sync(folder: &Path) -> Result<(), FolderError> {
    for entry in fs::read_dir(folder).map_err(io("read", folder))? {
        let path = entry.map_err(io("read", folder))?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            File::open(&path).and_then(|f| f.sync_all()).map_err(io("write out", &path))?;
        }
    }
    File::open(folder).and_then(|f| f.sync_all()).map_err(io("write out", folder))
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(work: &Path, place: &Path) -> Result<(), FolderError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, work, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // Some network file systems cannot exchange.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => swap(work, place),
        Err(error) => Err(io("exchange", place)(error.into())),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(work: &Path, place: &Path) -> Result<(), FolderError> {
    swap(work, place)
}

fn aside(work: &Path) -> PathBuf {
    let mut old = work.as_os_str().to_owned();
    old.push(".old");
    old.into()
}

/// Two renames where the file system has no exchange: between them the place is empty, never mixed.
fn swap(work: &Path, place: &Path) -> Result<(), FolderError> {
    let old = aside(work);
    fs::rename(place, &old).map_err(io("set aside", place))?;
    fs::rename(work, place).map_err(io("name", place))?;
    fs::rename(&old, work).map_err(io("set aside", &old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(folder: &Path, word: &str) {
        fs::create_dir_all(folder.join("data")).unwrap();
        fs::write(folder.join("data/x.parquet"), word).unwrap();
        fs::write(folder.join("manifest.json"), word).unwrap();
    }

    fn read(place: &Path) -> (String, String) {
        let read = |name| fs::read_to_string(place.join(name)).unwrap();
        (read("data/x.parquet"), read("manifest.json"))
    }

    #[test]
    fn a_set_replaces_the_old_one_and_carries_over_what_is_not_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("out");
        for word in ["old", "new"] {
            let staging = Staging::begin(&place).unwrap();
            fill(staging.path(), word);
            staging.publish().unwrap();
            fs::create_dir_all(place.join(".git")).unwrap();
        }
        assert_eq!(read(&place), ("new".to_owned(), "new".to_owned()));
        assert!(place.join(".git").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside the set");
    }

    /// Every state that a kill can leave: the place holds one whole set, and the next export tidies up.
    #[test]
    fn a_killed_export_leaves_one_whole_set_and_loses_no_foreign_file() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("out");
        let work = dir.path().join(".out.new");
        fill(&place, "old");
        fs::write(place.join("notes.txt"), "mine").unwrap();
        // Killed while writing.
        let staging = Staging::begin(&place).unwrap();
        fs::create_dir_all(staging.path().join("data")).unwrap();
        fs::write(staging.path().join("data/x.parquet"), "half").unwrap();
        std::mem::forget(staging);
        assert_eq!(read(&place).0, "old");
        // A forgotten value keeps its lock; a killed process does not. The folder is another one after this.
        fs::rename(&work, dir.path().join("elsewhere")).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(work.join(INCOMPLETE), "").unwrap();
        fs::write(work.join("half"), "").unwrap();
        drop(Staging::begin(&place).unwrap());
        assert!(!place.join("half").exists() && read(&place).0 == "old");
        // Killed between the exchange and carrying over.
        fs::create_dir_all(&work).unwrap();
        fill(&work, "new");
        exchange(&work, &place).unwrap();
        assert!(!place.join("notes.txt").exists() && read(&place).0 == "new");
        drop(Staging::begin(&place).unwrap());
        assert_eq!(fs::read_to_string(place.join("notes.txt")).unwrap(), "mine");
        assert_eq!(read(&place).0, "new");
    }

    #[test]
    fn without_an_exchange_a_kill_is_mended_too() {
        let dir = tempfile::tempdir().unwrap();
        let (place, work) = (dir.path().join("out"), dir.path().join(".out.new"));
        fill(&place, "old");
        fill(&work, "new");
        fs::rename(&place, aside(&work)).unwrap();
        drop(Staging::begin(&place).unwrap());
        assert_eq!(read(&place).0, "old");
        fill(&work, "new");
        fs::rename(&place, aside(&work)).unwrap();
        fs::rename(&work, &place).unwrap();
        drop(Staging::begin(&place).unwrap());
        assert_eq!(read(&place).0, "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fill(&work, "newer");
        swap(&work, &place).unwrap();
        assert_eq!((read(&place).0.as_str(), read(&work).0.as_str()), ("newer", "new"));
    }

    #[test]
    fn what_no_export_made_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("out/data")).unwrap();
        let error = Staging::begin(&dir.path().join("out")).map(|_| ()).unwrap_err();
        assert!(matches!(error, FolderError::Foreign { entry: "data", .. }), "{error}");
    }

    #[test]
    fn two_exports_do_not_write_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("out");
        let first = Staging::begin(&place).unwrap();
        assert!(matches!(Staging::begin(&place), Err(FolderError::Busy { .. })));
        drop(first);
        assert!(Staging::begin(&place).is_ok());
    }
}
