//! Where the files of a target lie: what an overflowing size is split by.

use super::Refinement;
use std::collections::BTreeMap;

/// Files by the top directory that they lie in; those of the repository's own top directory under the empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    directories: BTreeMap<String, u64>,
    files: u64,
}

impl Places {
    /// Number of files.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// How many files are known to meet a refinement. Nothing for one that directories say nothing of, and for one of
    /// more than a top directory.
    pub fn at(&self, part: &Refinement) -> Option<u64> {
        let directory = match part {
            Refinement::Root => "",
            Refinement::Directory(directory) if !directory.contains('/') => directory,
            Refinement::Directory(_) | Refinement::Extension(_) | Refinement::Language(_) => return None,
        };
        Some(self.directories.get(directory).copied().unwrap_or(0))
    }

    /// [`at`](Self::at) as a share of all files.
    pub fn share(&self, part: &Refinement) -> Option<f64> {
        self.at(part).map(|files| files as f64 / self.files.max(1) as f64)
    }

    /// Every directory that a query can name, with its share of all files, largest first.
    pub fn largest(&self) -> impl Iterator<Item = (Refinement, f64)> + use<> {
        let nameable = |name: &str| !name.is_empty() && !name.contains(|c: char| c == '"' || c.is_control());
        let mut named: Vec<_> = self.directories.iter().filter(|(name, _)| nameable(name)).collect();
        named.sort_by_key(|(name, files)| (std::cmp::Reverse(**files), *name));
        let files = self.files.max(1) as f64;
        let owned: Vec<_> = named.into_iter().map(|(name, n)| (name.clone(), *n as f64 / files)).collect();
        owned.into_iter().map(|(name, share)| (Refinement::Directory(name), share))
    }
}

impl FromIterator<(String, u64)> for Places {
    /// From counts by top directory.
    fn from_iter<I: IntoIterator<Item = (String, u64)>>(counts: I) -> Self {
        let mut places = Self::default();
        for (directory, files) in counts {
            places.files += files;
            *places.directories.entry(directory).or_default() += files;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_files_and_the_largest_directory_comes_first() {
        let counts = [("", 6), ("b", 1), ("a", 2), ("odd\"name", 1)].map(|(name, files)| (name.to_owned(), files));
        let places: Places = counts.into_iter().collect();
        assert_eq!((places.files(), places.at(&Refinement::Root)), (10, Some(6)));
        assert_eq!(places.share(&Refinement::Directory("a".into())), Some(0.2));
        assert_eq!(places.at(&Refinement::Directory("nowhere".into())), Some(0));
        assert_eq!(places.at(&Refinement::Directory(".claude/rules".into())), None);
        assert_eq!(places.at(&Refinement::Extension("md".into())), None);
        let named: Vec<String> = places.largest().map(|(part, _)| part.to_string()).collect();
        assert_eq!(named, ["path:a", "path:b"]);
        assert_eq!(Places::default().share(&Refinement::Root), Some(0.0));
    }
}
