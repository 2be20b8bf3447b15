//! One collecting job at a time on a corpus. The lock is the operating system's on a file beside the database, so that it
//! ends with its process, however that ends; the file says who holds it, and since when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// The subcommand.
    pub command: String,
    /// Since when.
    pub since: Timestamp,
}

impl std::fmt::Display for LockOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = Timestamp::now().duration_since(self.since).as_secs().max(0);
        let age = match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            _ => format!("{} h", seconds / 3600),
        };
        write!(f, "`aac {}` (process {} on {}, for {age})", self.command, self.pid, self.host)
    }
}

/// Why a corpus cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{db} is being written to by {}; wait for it to end, or stop it", .owner.as_ref().map_or_else(|| "another process".to_owned(), ToString::to_string), db = .db.display())]
    Held {
        /// The database.
        db: PathBuf,
        /// Who, where the file says it.
        owner: Option<LockOwner>,
    },
    /// The file cannot be made or locked.
    #[error("Failed to lock {file}: {source}", file = .file.display())]
    File {
        /// The lock file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The right to collect into a corpus; dropping it gives it back.
#[derive(Debug)]
pub struct CorpusLock {
    file: File,
    path: PathBuf,
    /// Who held it and ended without giving it back.
    pub left_by: Option<LockOwner>,
}

impl LockOwner {
    /// Who collects into the corpus at `db` now, by what its lock file says and the list of processes; the lock itself is
    /// not touched. Nothing where the system has no such list, or the process is another machine's.
    pub fn of(db: &Path) -> Option<Self> {
        let owner: Self = serde_json::from_str(&std::fs::read_to_string(lock_file(db)).ok()?).ok()?;
        let is_here = owner.host == host() && Path::new("/proc").join(owner.pid.to_string()).exists();
        is_here.then_some(owner)
    }
}

/// Where the lock of the corpus at `db` lies.
fn lock_file(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

impl CorpusLock {
    /// Lock the corpus at `db` for `command`.
    ///
    /// # Errors
    /// [`LockError::Held`] while another process has it.
    pub fn take(db: &Path, command: &str) -> Result<Self, LockError> {
        let path = lock_file(db);
        let failed = |source| LockError::File { file: path.clone(), source };
        loop {
            let mut file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
            let mut text = String::new();
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let _ = file.read_to_string(&mut text);
                    return Err(LockError::Held { db: db.to_owned(), owner: serde_json::from_str(&text).ok() });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Whoever held it may have removed the file after it was opened here: then this lock is on nothing.
            let same = match (file.metadata(), std::fs::metadata(&path)) {
                (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
                _ => false,
            };
            if !same {
                continue;
            }
            // An owner that is still written there did not end by itself.
            let _ = file.read_to_string(&mut text);
            let left_by = serde_json::from_str(&text).ok();
            let owner = LockOwner {
                pid: std::process::id(),
                host: host(),
                command: command.to_owned(),
                since: Timestamp::now(),
            };
            let line = serde_json::to_string(&owner).unwrap_or_default();
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| writeln!(file, "{line}"))
                .and_then(|()| file.flush())
                .map_err(failed)?;
            return Ok(Self { file, path, left_by });
        }
    }
}

impl Drop for CorpusLock {
    fn drop(&mut self) {
        // Removed while it is held, so that nobody else's file is.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

fn host() -> String {
    let named =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    match named {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => std::env::var("HOSTNAME").unwrap_or_else(|_| "this machine".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_who_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("corpus.db");
        let held = CorpusLock::take(&db, "refresh").unwrap();
        assert_eq!(held.left_by, None);
        let error = CorpusLock::take(&db, "crawl").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("aac refresh") && text.contains(&format!("process {}", std::process::id())), "{text}");
        let owner = LockOwner::of(&db).unwrap();
        assert_eq!((owner.command.as_str(), owner.pid), ("refresh", std::process::id()));
        drop(held);
        assert_eq!(LockOwner::of(&db), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        CorpusLock::take(&db, "crawl").unwrap();
    }

    #[test]
    fn what_a_dead_process_left_is_taken_over_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("corpus.db");
        let dead = LockOwner { pid: 7, host: "h".into(), command: "crawl".into(), since: Timestamp::UNIX_EPOCH };
        std::fs::write(dir.path().join("corpus.db.lock"), serde_json::to_string(&dead).unwrap()).unwrap();
        assert_eq!(CorpusLock::take(&db, "refresh").unwrap().left_by, Some(dead));
        std::fs::write(dir.path().join("corpus.db.lock"), "half a li").unwrap();
        assert_eq!(CorpusLock::take(&db, "refresh").unwrap().left_by, None);
    }
}
