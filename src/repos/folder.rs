//! Files without git, in the shape of a git tree.

use super::Error;
use super::entry::{Entry, Mode, Skipped, Walk};
use super::reader::{Target, names_license};
use crate::corpus::GitOid;
use std::fs;
use std::path::{Path, PathBuf};

/// A plain directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Take in the directory `root`.
    pub fn open(root: &Path) -> Result<Self, Error> {
        fs::read_dir(root).map_err(|source| io(root, source))?;
        Ok(Self { root: root.to_owned() })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Every file and link for which `keep(path, mode)` holds, by path bytes, with the id that git would give it: kept
    /// files are read, others are not touched. `enter(path)` says which directories to descend into; `.git` never is,
    /// and links are never followed. Kept files above `limit` bytes are skipped, with why, as is what cannot be read.
    pub fn walk(&self, keep: &dyn Fn(&str, Mode) -> bool, enter: &dyn Fn(&str) -> bool, limit: u64) -> Walk {
        let mut walk = Walk::default();
        let mut unread = Vec::new();
        self.visit(enter, &mut walk.skipped, &mut |path, mode| {
            if keep(&String::from_utf8_lossy(&path), mode) {
                match self.read(&path, mode, limit) {
                    Ok(bytes) => walk.entries.push(Entry { oid: GitOid::of_blob(&bytes), path, mode }),
                    Err(error) => unread.push(Skipped::because(String::from_utf8_lossy(&path), &error)),
                }
            }
        });
        walk.skipped.extend(unread);
        walk.entries.sort_unstable();
        walk.skipped.sort_unstable();
        walk
    }

    /// The paths of all files and links below the directories that `enter` lets in, sorted; nothing is read.
    pub fn paths(&self, enter: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut paths = Vec::new();
        self.visit(enter, &mut Vec::new(), &mut |path, _| paths.push(String::from_utf8_lossy(&path).into_owned()));
        paths.sort_unstable();
        paths
    }

    fn visit(&self, enter: &dyn Fn(&str) -> bool, missed: &mut Vec<Skipped>, leaf: &mut dyn FnMut(Vec<u8>, Mode)) {
        let mut open: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(prefix) = open.pop() {
            let entries = match fs::read_dir(self.place(&prefix)) {
                Ok(entries) => entries,
                Err(error) => {
                    missed.push(skipped(&prefix, error));
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        missed.push(skipped(&prefix, error));
                        break;
                    }
                };
                let mut path = prefix.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.file_name().as_encoded_bytes());
                match entry.metadata().map(|meta| mode(&meta)) {
                    Ok(Some(Mode::Tree)) => {
                        if entry.file_name() != ".git" && enter(&String::from_utf8_lossy(&path)) {
                            open.push(path);
                        }
                    }
                    Ok(Some(mode)) => leaf(path, mode),
                    // Sockets, pipes and devices hold no text.
                    Ok(None) => {}
                    Err(error) => missed.push(skipped(&path, error)),
                }
            }
        }
    }

    /// The bytes of the file at `path`, or the target of the link there. At most `limit` bytes.
    pub fn read(&self, path: &[u8], mode: Mode, limit: u64) -> Result<Vec<u8>, Error> {
        let place = self.place(path);
        let too_large = |size| Error::TooLarge { what: String::from_utf8_lossy(path).into_owned(), size, limit };
        if mode == Mode::Symlink {
            let target = fs::read_link(&place).map_err(|source| io(&place, source))?;
            return Ok(target.into_os_string().into_encoded_bytes());
        }
        let size = fs::metadata(&place).map_err(|source| io(&place, source))?.len();
        if size > limit {
            return Err(too_large(size));
        }
        let bytes = fs::read(&place).map_err(|source| io(&place, source))?;
        // The file may have grown since.
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }

    /// Bytes of the file at `path`, or of the target of the link there; nothing when it is not there.
    pub fn size(&self, path: &[u8]) -> Option<u64> {
        self.place(path).symlink_metadata().ok().map(|meta| meta.len())
    }

    /// Where `path` leads once links are followed, as long as they stay inside the folder. The entry of a file carries
    /// the id of its bytes, which must be at most `limit`; that of a directory carries no id (all zero).
    pub fn resolve(&self, path: &[u8], limit: u64) -> Result<Target, Error> {
        let place = self.place(path);
        let root = fs::canonicalize(&self.root).map_err(|source| io(&self.root, source))?;
        let real = match fs::canonicalize(&place) {
            Ok(real) => real,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Target::Dangling),
            // `ErrorKind::FilesystemLoop` is not stable, so a loop is told by the link that cannot be resolved.
            Err(_) if fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_symlink()) => return Ok(Target::Loop),
            Err(source) => return Err(io(&place, source)),
        };
        let Ok(inside) = real.strip_prefix(&root) else { return Ok(Target::Outside) };
        let inside = slashed(inside);
        let meta = fs::symlink_metadata(&real).map_err(|source| io(&real, source))?;
        Ok(match mode(&meta) {
            Some(Mode::Tree) => Target::Entry(Entry { path: inside, mode: Mode::Tree, oid: GitOid([0; 20]) }),
            Some(mode) => {
                let bytes = self.read(&inside, mode, limit)?;
                Target::Entry(Entry { oid: GitOid::of_blob(&bytes), path: inside, mode })
            }
            None => Target::Dangling,
        })
    }

    /// Files directly in the folder whose name says that they hold a licence, of at most `limit` bytes each.
    pub fn licenses(&self, limit: u64) -> Walk {
        self.walk(&|path, _| names_license(path.as_bytes()), &|_| false, limit)
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        let mut place = self.root.clone();
        if !path.is_empty() {
            place.push(native(path));
        }
        place
    }
}

#[cfg(unix)]
fn native(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}

#[cfg(not(unix))]
fn native(path: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(path).into_owned())
}

fn slashed(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in path.components() {
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(part.as_os_str().as_encoded_bytes());
    }
    bytes
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    // Git looks at the owner's bit only.
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_meta: &fs::Metadata) -> bool {
    false
}

fn mode(meta: &fs::Metadata) -> Option<Mode> {
    let kind = meta.file_type();
    if kind.is_symlink() {
        Some(Mode::Symlink)
    } else if kind.is_dir() {
        Some(Mode::Tree)
    } else if kind.is_file() {
        Some(if is_executable(meta) { Mode::Executable } else { Mode::File })
    } else {
        None
    }
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

fn skipped(path: &[u8], why: impl std::fmt::Display) -> Skipped {
    Skipped::failed(String::from_utf8_lossy(path), why)
}
