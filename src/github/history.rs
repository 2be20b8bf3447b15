//! Who wrote a file: the commits of a path, in small queries of their own, since they cost GitHub time.

use super::client::GitHub;
use super::document::{Document, Fragment, quoted};
use super::limit::{Absence, graphql_errors};
use super::{Error, wire};
use crate::corpus::{GitOid, Slug};
use jiff::Timestamp;
use serde_json::Value;

/// A path whose history is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryAsk {
    /// The repository.
    pub repository: Slug,
    /// The path on its default branch.
    pub path: String,
}

/// An author or co-author. Only classes of authors are ever stored, never this.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    /// Name.
    pub name: String,
    /// E-mail address.
    pub email: String,
    /// GitHub login, when the address belongs to an account.
    pub login: Option<String>,
}

/// A commit that touched the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Id.
    pub oid: GitOid,
    /// The author date.
    pub at: Option<Timestamp>,
    /// The whole message, trailers included.
    pub message: String,
    /// The author first, then co-authors.
    pub authors: Vec<Person>,
}

/// The history of a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathHistory {
    /// Commits that touched it, in all.
    pub total: u64,
    /// The newest of them, newest first. Fewer than `total` when there are many; then the creating one is not among
    /// them.
    pub commits: Vec<Commit>,
}

/// How many commits of a path are read at most, the newest first.
pub const HISTORY_COMMITS: u32 = 30;

/// Ask for the histories of several paths in one query, in the order of `asks`; `None` marks one that the query did
/// not answer.
///
/// # Errors
/// See [`Error`]; [`Error::TooHeavy`] when the query has to be cut into smaller ones.
pub async fn history(github: &GitHub, asks: &[HistoryAsk]) -> Result<Vec<Option<Result<PathHistory, Absence>>>, Error> {
    let what = match asks {
        [] => return Ok(Vec::new()),
        [first, rest @ ..] => format!("the history of {}/{} and {} more", first.repository, first.path, rest.len()),
    };
    let value = github.graphql(document(asks), history_points(asks.len()), asks.len() > 1, what).await?;
    Ok(read(asks.len(), &value))
}

/// The price of a query over so many paths, by GitHub's formula: requests over connections ÷ 100, where a path is one
/// and the authors of each of its commits are one.
pub fn history_points(paths: usize) -> u32 {
    let requests = paths as f64 * f64::from(1 + HISTORY_COMMITS);
    ((requests / 100.0).round() as u32).max(1)
}

pub(super) fn document(asks: &[HistoryAsk]) -> String {
    let mut document = Document::default();
    document.uses(Fragment::PathHistory);
    for ask in asks {
        let inner = format!(
            "    defaultBranchRef {{ target {{ ... on Commit {{ history(path: {}, first: {HISTORY_COMMITS}) {{ \
             ...PathHistory }} }} }} }}\n",
            quoted(&ask.path)
        );
        document.repository(&ask.repository, &inner);
    }
    document.finish("History")
}

pub(super) fn read(asked: usize, value: &Value) -> Vec<Option<Result<PathHistory, Absence>>> {
    (0..asked)
        .map(|index| {
            let alias = format!("r{index}");
            let mut errors = graphql_errors(value).filter(|error| match error.alias {
                Some(at) => at == alias,
                None => asked == 1,
            });
            match value.get("data").and_then(|data| data.get(&alias)) {
                Some(node) if !node.is_null() => {
                    let history = node.pointer("/defaultBranchRef/target/history");
                    match history.filter(|history| !history.is_null()) {
                        Some(history) => read_history(history).map(Ok),
                        None if errors.next().is_some() => None,
                        None => Some(Err(Absence::Empty)),
                    }
                }
                Some(_) if asked == 1 && graphql_errors(value).next().is_none() => Some(Err(Absence::NotFound)),
                _ => errors.find_map(|error| match error.kind {
                    "NOT_FOUND" => Some(Err(Absence::NotFound)),
                    "FORBIDDEN" => Some(Err(Absence::Forbidden(error.message.to_owned()))),
                    _ => None,
                }),
            }
        })
        .collect()
}

fn read_history(node: &Value) -> Option<PathHistory> {
    let node: wire::HistoryNode = serde_json::from_value(node.clone()).ok()?;
    let commits: Vec<Commit> = node
        .nodes
        .unwrap_or_default()
        .into_iter()
        .flatten()
        .filter_map(|commit| {
            let people = commit.authors.and_then(|authors| authors.nodes).unwrap_or_default();
            let authors = people.into_iter().flatten().map(|actor| Person {
                name: actor.name.unwrap_or_default(),
                email: actor.email.unwrap_or_default(),
                login: actor.user.map(|user| user.login),
            });
            Some(Commit {
                oid: commit.oid.parse().ok()?,
                at: commit.authored_date.and_then(|at| at.parse().ok()),
                message: commit.message.unwrap_or_default(),
                authors: authors.collect(),
            })
        })
        .collect();
    Some(PathHistory { total: node.total_count.unwrap_or(commits.len() as u64), commits })
}
