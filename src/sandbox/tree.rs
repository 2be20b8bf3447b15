//! Git trees made from a flat list of files, with the ids git itself would give them.

use super::world::{FileEntry, Mode};
use crate::corpus::GitOid;
use sha1::Digest as _;
use std::collections::{BTreeMap, HashMap};

/// An entry of one folder.
#[derive(Debug, Clone)]
pub(crate) struct TreeEntry {
    pub(crate) name: String,
    /// Path from the root.
    pub(crate) path: String,
    pub(crate) mode: Mode,
    pub(crate) oid: GitOid,
    /// Position in the file list; nothing for a folder.
    pub(crate) file: Option<u32>,
    /// Bytes of a blob; 0 otherwise.
    pub(crate) size: u32,
}

/// Every folder of a commit.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    folders: BTreeMap<String, (GitOid, Vec<TreeEntry>)>,
    files: HashMap<String, (u32, GitOid, Mode)>,
    by_oid: HashMap<GitOid, Found>,
}

/// What an object id or a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A file by position.
    File(u32),
    /// A folder by path; the root is empty.
    Folder(String),
}

impl Tree {
    /// Build from `files` and the ids of their blobs, in the same order.
    pub(crate) fn new(files: &[FileEntry], oids: &[GitOid]) -> Self {
        let mut tree = Self::default();
        tree.folders.insert(String::new(), (GitOid([0; 20]), Vec::new()));
        for (position, (file, oid)) in files.iter().zip(oids).enumerate() {
            let position = position as u32;
            let (folder, name) = split(&file.path);
            tree.open(folder);
            let entry = TreeEntry {
                name: name.to_owned(),
                path: file.path.clone(),
                mode: file.mode,
                oid: *oid,
                file: Some(position),
                size: file.size,
            };
            if let Some((_, entries)) = tree.folders.get_mut(folder) {
                entries.push(entry);
            }
            tree.files.insert(file.path.clone(), (position, *oid, file.mode));
            tree.by_oid.entry(*oid).or_insert(Found::File(position));
        }
        tree.seal();
        tree
    }

    /// Make sure `folder` and those above it exist.
    fn open(&mut self, folder: &str) {
        if self.folders.contains_key(folder) {
            return;
        }
        let (above, name) = split(folder);
        self.open(above);
        self.folders.insert(folder.to_owned(), (GitOid([0; 20]), Vec::new()));
        let entry = TreeEntry {
            name: name.to_owned(),
            path: folder.to_owned(),
            mode: Mode::Folder,
            oid: GitOid([0; 20]),
            file: None,
            size: 0,
        };
        if let Some((_, entries)) = self.folders.get_mut(above) {
            entries.push(entry);
        }
    }

    /// Sort entries the way git does and compute ids from the deepest folder up.
    fn seal(&mut self) {
        let mut paths: Vec<String> = self.folders.keys().cloned().collect();
        paths.sort_by_key(|path| std::cmp::Reverse((path.matches('/').count(), !path.is_empty())));
        let mut done: HashMap<String, GitOid> = HashMap::new();
        for path in paths {
            let Some((oid, entries)) = self.folders.get_mut(&path) else { continue };
            for entry in entries.iter_mut().filter(|e| e.mode == Mode::Folder) {
                entry.oid = done.get(&entry.path).copied().unwrap_or(entry.oid);
            }
            entries.sort_by_cached_key(|e| {
                // Git orders a folder as if its name ended with a slash.
                if e.mode == Mode::Folder { format!("{}/", e.name) } else { e.name.clone() }.into_bytes()
            });
            let mut body = Vec::new();
            for entry in entries.iter() {
                body.extend_from_slice(format!("{:o} {}\0", entry.mode.bits(), entry.name).as_bytes());
                body.extend_from_slice(&entry.oid.0);
            }
            let mut hasher = sha1::Sha1::new();
            hasher.update(format!("tree {}\0", body.len()));
            hasher.update(&body);
            *oid = GitOid(hasher.finalize().into());
            done.insert(path.clone(), *oid);
            self.by_oid.insert(*oid, Found::Folder(path));
        }
    }

    /// What lies at `path` (no leading or trailing slash; the root is empty).
    pub(crate) fn at(&self, path: &str) -> Option<Found> {
        match self.files.get(path) {
            Some((position, ..)) => Some(Found::File(*position)),
            None => self.folders.contains_key(path).then(|| Found::Folder(path.to_owned())),
        }
    }

    /// What has the id `oid`.
    pub(crate) fn by_oid(&self, oid: GitOid) -> Option<&Found> {
        self.by_oid.get(&oid)
    }

    /// The id and mode of the file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<(u32, GitOid, Mode)> {
        self.files.get(path).copied()
    }

    /// The id of a folder.
    pub(crate) fn folder_oid(&self, folder: &str) -> Option<GitOid> {
        self.folders.get(folder).map(|(oid, _)| *oid)
    }

    /// The entries of a folder in git's order.
    pub(crate) fn entries(&self, folder: &str) -> &[TreeEntry] {
        self.folders.get(folder).map_or(&[], |(_, entries)| entries)
    }

    /// Everything below `folder`, in path order, folders before what they hold.
    pub(crate) fn walk<'a>(&'a self, folder: &str, into: &mut Vec<&'a TreeEntry>) {
        for entry in self.entries(folder) {
            into.push(entry);
            if entry.mode == Mode::Folder {
                self.walk(&entry.path, into);
            }
        }
    }
}

/// Folder and name of `path`; the folder of a root entry is empty.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        // `git mktree` over a/b.txt ("hi\n"), a.txt (empty) and the folder a.
        let file = |path: &str, size| FileEntry { path: path.into(), mode: Mode::File, size };
        let files = [file("a/b.txt", 3), file("a.txt", 0)];
        let tree = Tree::new(&files, &[GitOid::of_blob(b"hi\n"), GitOid::of_blob(b"")]);
        assert_eq!(tree.folder_oid("a").unwrap().to_string(), "b02bd541107db0a9f24c53847344522dcf5176e8");
        assert_eq!(tree.folder_oid("").unwrap().to_string(), "7a62ccde258bc1dc75c62f608f066aadea08146d");
        let names: Vec<_> = tree.entries("").iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["a.txt", "a"]);
        assert_eq!(tree.at("a/b.txt"), Some(Found::File(0)));
        assert_eq!(tree.at("a"), Some(Found::Folder("a".into())));
        assert_eq!(tree.at("nope"), None);
    }
}
