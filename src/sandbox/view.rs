//! One state of the world as clients see it: the repositories, the index over them and what became of some.

use super::faults::{Faults, RepoState};
use super::index::Index;
use super::tree::{Found, Tree};
use super::world::{CommitFacts, RepoFacts, World, WorldError};
use crate::corpus::GitOid;
use std::sync::Arc;

/// What a renamed repository's new name adds to the old one.
const RENAMED: &str = "-next";

/// A world at one epoch.
pub(crate) struct View {
    pub(crate) world: Arc<dyn World>,
    pub(crate) index: Index,
    pub(crate) seed: u64,
    pub(crate) epoch: u32,
}

/// Where `owner/name` leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here.
    At(u32),
    /// Under another name now.
    Moved(u32),
    Missing,
    /// 451 for a takedown.
    Blocked,
    /// 403 for the terms of service.
    BlockedTos,
}

impl View {
    /// Index `world` as it is.
    pub(crate) fn new(world: Arc<dyn World>, seed: u64, epoch: u32) -> Self {
        let index = Index::new(world.as_ref());
        Self { world, index, seed, epoch }
    }

    /// Look a repository up by name.
    pub(crate) fn find(&self, faults: &Faults, owner: &str, name: &str) -> Place {
        if let Some(repo) = self.world.find(owner, name) {
            return match self.state(faults, repo) {
                RepoState::Renamed => Place::Moved(repo),
                state => place(repo, state),
            };
        }
        let old = name.len().checked_sub(RENAMED.len()).and_then(|end| name.split_at_checked(end));
        let Some((old, tail)) = old else { return Place::Missing };
        match self.world.find(owner, old) {
            Some(repo) if tail.eq_ignore_ascii_case(RENAMED) && self.state(faults, repo) == RepoState::Renamed => {
                Place::At(repo)
            }
            _ => Place::Missing,
        }
    }

    /// Look a repository up by number; renames do not matter.
    pub(crate) fn find_id(&self, faults: &Faults, id: u64) -> Place {
        self.world.find_id(id).map_or(Place::Missing, |repo| place(repo, self.state(faults, repo)))
    }

    fn state(&self, faults: &Faults, repo: u32) -> RepoState {
        faults.state(self.seed, &self.world.facts(repo).full_name())
    }

    /// The facts as they are now. Code search shows the old ones.
    pub(crate) fn facts(&self, faults: &Faults, repo: u32) -> RepoFacts {
        let mut facts = self.world.facts(repo);
        match faults.state(self.seed, &facts.full_name()) {
            RepoState::Renamed => facts.name.push_str(RENAMED),
            RepoState::Empty => facts.head = None,
            _ => {}
        }
        facts
    }

    /// The trees of the default branch.
    pub(crate) fn tree(&self, repo: u32) -> Result<Arc<Tree>, WorldError> {
        self.world.tree(repo)
    }

    /// What an expression such as `HEAD:docs/a.md`, `main`, a commit or an object id names.
    pub(crate) fn resolve(&self, facts: &RepoFacts, repo: u32, expression: &str) -> Result<Option<Object>, WorldError> {
        let Some(head) = facts.head else { return Ok(None) };
        let (revision, path) = match expression.split_once(':') {
            Some((revision, path)) => (revision, Some(path.trim_matches('/'))),
            None => (expression, None),
        };
        let tree = self.tree(repo)?;
        let oid = revision.parse::<GitOid>().ok();
        let at_head = oid == Some(head) || self.is_branch(facts, revision);
        Ok(match (at_head, path) {
            (true, Some(path)) => tree.at(path).map(Object::from),
            (true, None) => Some(Object::Commit(None)),
            (false, None) => match oid {
                Some(oid) => match self.by_oid(repo, oid)? {
                    Some(object) => Some(object),
                    None => {
                        let commits = self.world.history(repo, None)?;
                        commits.into_iter().find(|c| c.oid == oid).map(|c| Object::Commit(Some(c)))
                    }
                },
                None => None,
            },
            (false, Some(_)) => None,
        })
    }

    /// The file or folder with this id, or a file that had it before.
    pub(crate) fn by_oid(&self, repo: u32, oid: GitOid) -> Result<Option<Object>, WorldError> {
        Ok(match self.tree(repo)?.by_oid(oid) {
            Some(found) => Some(Object::from(found.clone())),
            None => self.world.older_blob(repo, oid)?.map(Object::OlderBlob),
        })
    }

    /// Whether `revision` names the tip of the default branch.
    pub(crate) fn is_branch(&self, facts: &RepoFacts, revision: &str) -> bool {
        let branch = revision.strip_prefix("refs/").unwrap_or(revision);
        let branch = branch.strip_prefix("heads/").unwrap_or(branch);
        revision == "HEAD" || branch == facts.default_branch
    }

    /// The commit at the tip.
    pub(crate) fn tip(&self, repo: u32) -> Result<Option<CommitFacts>, WorldError> {
        Ok(self.world.history(repo, None)?.into_iter().next())
    }
}

/// A git object of a repository.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    /// A file by position.
    Blob(u32),
    /// The bytes of a file that is not at the tip, or not any more.
    OlderBlob(Vec<u8>),
    /// A folder by path.
    Tree(String),
    /// A commit; the tip when nothing is held.
    Commit(Option<CommitFacts>),
}

impl From<Found> for Object {
    fn from(found: Found) -> Self {
        match found {
            Found::File(file) => Self::Blob(file),
            Found::Folder(folder) => Self::Tree(folder),
        }
    }
}

fn place(repo: u32, state: RepoState) -> Place {
    match state {
        RepoState::Present | RepoState::Renamed | RepoState::Empty => Place::At(repo),
        RepoState::Gone => Place::Missing,
        RepoState::Blocked => Place::Blocked,
        RepoState::BlockedTos => Place::BlockedTos,
    }
}
