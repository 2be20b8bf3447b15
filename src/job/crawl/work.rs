//! What is known about one repository while it is read, and what is still to be asked.

use super::links::{Followed, Listings};
use crate::corpus::{GitOid, Slug};
use crate::github::{Absence, RepositoryFacts, TreeEntry};
use crate::plan::targets::{Target, Targets};
use crate::store::{PendingRepo, RepoId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A repository that is being read.
pub(super) struct Work {
    pub(super) id: RepoId,
    pub(super) slug: Slug,
    /// Path to content and commit: hits that may be artifacts and are not stored yet.
    pub(super) hits: BTreeMap<String, (GitOid, Option<GitOid>)>,
    /// Distinct paths among its hits, whatever they are.
    pub(super) all_hits: u64,
    /// Directories still to be listed, in order.
    pub(super) trees: BTreeSet<String>,
    pub(super) facts: Option<RepositoryFacts>,
    pub(super) listings: Listings,
    pub(super) absent: Option<Absence>,
    pub(super) failed: Option<String>,
    /// Contents that the repository does not have (any more).
    pub(super) missing: HashSet<GitOid>,
    /// Paths whose content on the default branch is wanted, and what came.
    pub(super) paths: BTreeMap<String, Option<Option<GitOid>>>,
    /// Links on the way from one that is an artifact, whose texts are wanted.
    pub(super) links: BTreeSet<GitOid>,
    /// A question about it is on its way.
    pub(super) asking: bool,
    /// Where its artifacts that are links lead, once it is read through.
    pub(super) resolved: BTreeMap<String, String>,
}

impl Work {
    /// The reading of `repo`, which begins with `directories` and those of its hits. `stored` are artifacts that this
    /// run has of it already, when it is read again; nothing when nothing is left to read.
    ///
    /// A reading is always a whole one: whether a weak name is an artifact depends on all that is there.
    pub(super) fn new(
        repo: &PendingRepo,
        targets: &Targets,
        directories: &[String],
        stored: Option<&HashMap<String, GitOid>>,
    ) -> Option<Self> {
        let hits: BTreeMap<_, _> = repo
            .hits
            .iter()
            .filter(|(path, ..)| targets.collected(path).is_some())
            .map(|(path, oid, commit)| (path.clone(), (*oid, *commit)))
            .collect();
        let has = |stored: &HashMap<String, GitOid>| hits.iter().all(|(path, (oid, _))| stored.get(path) == Some(oid));
        if hits.is_empty() || stored.is_some_and(has) {
            return None;
        }
        let parents = hits.keys().map(|path| parent(path).to_owned());
        let trees = directories.iter().cloned().chain(parents).collect();
        Some(Self {
            id: repo.id,
            slug: repo.slug.clone(),
            hits,
            all_hits: repo.hits.len() as u64,
            trees,
            facts: None,
            listings: Listings::default(),
            absent: None,
            failed: None,
            missing: HashSet::new(),
            paths: BTreeMap::new(),
            links: BTreeSet::new(),
            asking: false,
            resolved: BTreeMap::new(),
        })
    }

    /// Whether the next question is worth asking.
    pub(super) fn is_open(&self) -> bool {
        self.absent.is_none() && self.failed.is_none()
    }

    /// Every path that is known.
    fn all_paths(&self) -> Vec<&str> {
        let listed = self.listings.entries.values().filter(|entry| entry.is_blob()).map(|entry| entry.path.as_str());
        let mut paths: Vec<&str> = self.hits.keys().map(String::as_str).chain(listed).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The artifacts among what is known. Before the first answer these are the hits.
    pub(super) fn artifacts<'w, 't>(&'w self, targets: &'t Targets) -> Vec<(&'w str, &'t Target)> {
        if self.facts.is_none() {
            let collected = |path: &'w String| Some((path.as_str(), targets.collected(path)?.target));
            return self.hits.keys().filter_map(collected).collect();
        }
        targets.artifacts(&self.all_paths()).into_iter().map(|(path, owner)| (path, owner.target)).collect()
    }

    /// The contents that its artifacts have.
    pub(super) fn contents(&self, targets: &Targets) -> Vec<GitOid> {
        self.artifacts(targets).into_iter().filter_map(|(path, _)| Some(self.oid(path)?.0)).collect()
    }

    /// The artifacts that are links.
    pub(super) fn symlinks(&self, targets: &Targets) -> Vec<String> {
        let is_link = |path: &str| self.listings.entries.get(path).is_some_and(TreeEntry::is_symlink);
        let artifacts = self.artifacts(targets).into_iter();
        artifacts.filter(|(path, _)| is_link(path)).map(|(path, _)| path.to_owned()).collect()
    }

    /// The content of `path`, by the hit, or what stands there now when the hit's content is gone, or the listing.
    pub(super) fn oid(&self, path: &str) -> Option<(GitOid, Option<GitOid>)> {
        let head = self.facts.as_ref().and_then(|facts| facts.head);
        let listed = self.listings.entries.get(path).filter(|entry| entry.is_blob()).map(|entry| (entry.oid, head));
        match self.hits.get(path) {
            Some((oid, commit)) if !self.missing.contains(oid) => Some((*oid, *commit)),
            Some(_) => listed.or_else(|| Some(((*self.paths.get(path)?)??, head))),
            None => listed,
        }
    }

    /// Where the link at `path` leads, as far as it is known. `text` gives the content of a link.
    pub(super) fn follow<'t>(&self, path: &str, text: impl Fn(&GitOid) -> Option<&'t [u8]>) -> Followed {
        self.listings.follow(path, text)
    }

    /// Keep where every link leads: it is read through, so every text on the way is at hand.
    pub(super) fn resolve<'t>(&mut self, targets: &Targets, text: impl Fn(&GitOid) -> Option<&'t [u8]>) {
        for path in self.symlinks(targets) {
            if let Followed::To(target) = self.follow(&path, &text) {
                self.resolved.insert(path, target);
            }
        }
    }

    /// Hits whose content is gone and whose path no listing shows: what stands there now is wanted.
    pub(super) fn want_paths_of_missing(&mut self) {
        let gone: Vec<String> = self
            .hits
            .iter()
            .filter(|(path, (oid, _))| self.missing.contains(oid) && !self.listings.entries.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.paths.entry(path).or_insert(None);
        }
    }
}

/// The directory of a path; empty for the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}
