//! Who wrote each artifact: the commits of its path, reduced to kinds of authors before anything is stored.
//!
//! The facts have the shape of a crawl's: newest first, the thirty newest at most, `complete` when these are all, and
//! `creates` on the oldest of a complete list. Of a path with more commits the crawl cannot see the creating one; it is
//! at hand here and kept as the last fact, since it says most about authorship. So for one repository at one commit the
//! facts are the crawl's where `complete` holds, and begin with the crawl's where it does not.

use crate::corpus::{CommitFact, CommitRecord, GitOid};
use crate::github::HISTORY_COMMITS;
use crate::repos::{self, Change, Commit, Reader};
use crate::tag::authors::AuthorRules;

/// What is kept of the history of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathFacts {
    /// Whether the facts are of every commit that touched the path.
    pub(super) complete: bool,
    /// The facts as JSON, newest first.
    pub(super) facts: String,
}

/// The facts of each of `paths`, in their order, as seen from `head`.
pub(super) fn read(
    reader: &Reader,
    head: GitOid,
    paths: &[&[u8]],
    rules: &AuthorRules,
) -> Result<Vec<PathFacts>, repos::Error> {
    let history = reader.history(head, paths)?;
    // Most commits touch several of the paths, and the rules are what takes time.
    let known: Vec<CommitFact> = history.commits.iter().map(|commit| rules.fact(&record(commit))).collect();
    let most = HISTORY_COMMITS as usize;
    let of_path = |path: &repos::PathHistory| {
        let touches = match path.touches.split_last() {
            // At the edge of a shallow clone every path looks as if that commit had brought it.
            Some((edge, newer)) if !path.complete && edge.change == Change::Added => newer,
            _ => &path.touches,
        };
        let complete = path.complete && touches.len() <= most;
        let newest = touches.iter().take(most);
        let creating = touches.last().filter(|_| path.complete && !complete);
        let mut facts: Vec<CommitFact> = newest.chain(creating).map(|touch| known[touch.commit].clone()).collect();
        if path.complete
            && let Some(oldest) = facts.last_mut()
        {
            oldest.creates = true;
        }
        let broken = |why: serde_json::Error| repos::Error::Object {
            path: reader.path().to_owned(),
            oid: head,
            why: why.to_string(),
        };
        Ok(PathFacts { complete, facts: serde_json::to_string(&facts).map_err(broken)? })
    };
    history.paths.iter().map(of_path).collect()
}

fn record(commit: &Commit) -> CommitRecord {
    CommitRecord {
        name: commit.author.name.clone(),
        email: commit.author.email.clone(),
        login: commit.author.login().map(str::to_owned),
        message: commit.message.clone(),
        when: commit.author.seconds,
        creates: false,
    }
}
