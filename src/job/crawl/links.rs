//! Follows symbolic links through the directories of a repository that are known, and says what is missing to go on.

use crate::corpus::GitOid;
use crate::github::TreeEntry;
use std::collections::{BTreeMap, BTreeSet};

/// How many links are followed from one to the next, as git and Linux would.
const HOPS: usize = 40;
/// A link's target is a path; anything longer is none.
const LONGEST: usize = 4096;

/// What following came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::job) enum Followed {
    /// To the entry at this path, which is no link.
    To(String),
    /// Out of the repository, in a circle, or to nothing.
    Nowhere,
    /// The listing of this directory is missing.
    List(String),
    /// The text of this link is missing.
    Read(GitOid),
}

/// The directories that are known.
#[derive(Debug, Default)]
pub(in crate::job) struct Listings {
    pub(in crate::job) entries: BTreeMap<String, TreeEntry>,
    pub(in crate::job) listed: BTreeSet<String>,
}

impl Listings {
    /// Follow every link on the way from `path`, whose own directory is real. `text` gives the content of a link.
    pub(in crate::job) fn follow<'t>(&self, path: &str, text: impl Fn(&GitOid) -> Option<&'t [u8]>) -> Followed {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at: Vec<String> = directory.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        // Parts still to go, the next one last.
        let mut parts = vec![name.to_owned()];
        let mut hops = 0;
        while let Some(part) = parts.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    if at.pop().is_none() {
                        return Followed::Nowhere;
                    }
                    continue;
                }
                _ => {}
            }
            let here = at.join("/");
            let full = if here.is_empty() { part.clone() } else { format!("{here}/{part}") };
            let Some(entry) = self.entries.get(&full) else {
                return if self.listed.contains(&here) { Followed::Nowhere } else { Followed::List(here) };
            };
            if entry.is_symlink() {
                hops += 1;
                let Some(bytes) = text(&entry.oid) else { return Followed::Read(entry.oid) };
                let target = std::str::from_utf8(bytes).ok().filter(|target| target.len() <= LONGEST);
                match target {
                    Some(target) if hops <= HOPS && !target.starts_with('/') => {
                        parts.extend(target.split('/').rev().map(str::to_owned));
                    }
                    _ => return Followed::Nowhere,
                }
            } else if entry.is_tree() {
                at.push(part);
            } else if parts.iter().all(String::is_empty) {
                return Followed::To(full);
            } else {
                return Followed::Nowhere;
            }
        }
        Followed::To(at.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_inside_the_repository_only_and_what_is_missing_is_named() {
        const FILE: u32 = 0o100_644;
        const LINK: u32 = 0o120_000;
        const TREE: u32 = 0o040_000;
        let links = [
            ("CLAUDE.md", "docs/first"),
            ("docs/first", "./second"),
            ("docs/second", "rules.md"),
            ("up.md", "docs/../docs/rules.md"),
            ("folder", "docs/"),
            ("through", "folder/rules.md"),
            ("out", "../x"),
            ("absolute", "/etc/hosts"),
            ("gone", "nothing"),
            ("a", "b"),
            ("b", "a"),
            ("file", "docs/rules.md/x"),
            ("far", "sub/x.md"),
        ];
        let oid = |text: &str| GitOid::of_blob(text.as_bytes());
        let mut listings = Listings { listed: ["".to_owned(), "docs".to_owned()].into(), ..Listings::default() };
        let mut add = |path: &str, mode: u32, oid: GitOid| {
            listings.entries.insert(path.to_owned(), TreeEntry { path: path.to_owned(), mode, oid, size: None });
        };
        links.iter().for_each(|(path, target)| add(path, LINK, oid(target)));
        add("docs", TREE, oid("docs"));
        add("sub", TREE, oid("sub"));
        add("docs/rules.md", FILE, oid("rules"));
        add("unread", LINK, oid("unread"));
        let texts: BTreeMap<GitOid, &str> = links.iter().map(|(_, target)| (oid(target), *target)).collect();
        let follow = |path: &str| listings.follow(path, |oid| texts.get(oid).map(|text| text.as_bytes()));
        for path in ["CLAUDE.md", "docs/first", "up.md", "through"] {
            assert_eq!(follow(path), Followed::To("docs/rules.md".to_owned()), "{path}");
        }
        assert_eq!(follow("folder"), Followed::To("docs".to_owned()));
        for path in ["out", "absolute", "gone", "a", "file"] {
            assert_eq!(follow(path), Followed::Nowhere, "{path}");
        }
        assert_eq!(follow("far"), Followed::List("sub".to_owned()));
        assert_eq!(follow("unread"), Followed::Read(oid("unread")));
    }
}
