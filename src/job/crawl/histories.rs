//! Who wrote each artifact: the commits of its path, reduced to kinds of authors before anything is stored.

use super::batches::{Asker, Bounds, Fill, Reply};
use super::{Context, CrawlError, Halt, author_rules};
use crate::corpus::{CommitFact, CommitRecord};
use crate::github::{self, Absence, HistoryAsk, PathHistory};
use crate::store::{HistoryRow, WithoutHistory};
use crate::tag::authors::AuthorRules;
use futures_util::future::BoxFuture;
use std::collections::HashSet;

/// Artifacts read between two looks at what else there is to do.
const CHUNK: usize = 400;
/// Histories that wait to be stored, at most.
const STORE_AT: usize = 64;

/// Reads histories. Keeps its place from one call to the next.
pub(in crate::job) struct Histories<'a> {
    context: &'a Context<'a>,
    rules: AuthorRules,
    asker: Asker<'a, WithoutHistory, Result<PathHistory, Absence>>,
    after: i64,
    /// Artifacts without an answer that could be stored, so that they are not asked about again.
    passed: HashSet<i64>,
    rows: Vec<HistoryRow>,
}

impl<'a> Histories<'a> {
    pub(in crate::job) fn new(context: &'a Context<'a>) -> Result<Self, CrawlError> {
        let options = context.options;
        let bounds = Bounds { most: options.history_batch, lanes: options.content_lanes, weight: usize::MAX };
        let send = move |wanted: &[&WithoutHistory]| {
            let ask =
                |wanted: &&WithoutHistory| HistoryAsk { repository: wanted.slug.clone(), path: wanted.path.clone() };
            let asks: Vec<HistoryAsk> = wanted.iter().map(ask).collect();
            Box::pin(async move { context.unless_stopped(github::history(context.github, &asks)).await })
                as BoxFuture<'a, _>
        };
        Ok(Self {
            context,
            rules: author_rules()?,
            asker: Asker::new(bounds, send),
            after: i64::MIN,
            passed: HashSet::new(),
            rows: Vec::new(),
        })
    }

    /// How full the queries were so far.
    pub(super) fn fill(&self) -> Fill {
        self.asker.fill()
    }

    /// Read some of what is stored without a history; false when there is nothing.
    pub(super) async fn read_some(&mut self) -> Result<bool, Halt> {
        let mut wanted = self.context.store.without_history(self.after, CHUNK).await?;
        let Some(last) = wanted.last() else { return Ok(false) };
        self.after = last.artifact;
        wanted.retain(|artifact| !self.passed.contains(&artifact.artifact));
        for artifact in wanted {
            self.asker.push(artifact, 1);
        }
        let result = self.settle_all(true).await;
        self.store().await?;
        result.map(|()| true)
    }

    /// Read everything that is stored without a history.
    pub(in crate::job) async fn read_rest(&mut self) -> Result<(), Halt> {
        self.settle_all(false).await?;
        self.store().await?;
        // What was read before its repository was read again has another head now.
        self.after = i64::MIN;
        while self.read_some().await? {}
        let result = self.settle_all(false).await;
        self.store().await?;
        result
    }

    async fn settle_all(&mut self, more: bool) -> Result<(), Halt> {
        while let Some(settled) = self.asker.next(more).await? {
            for (artifact, reply) in settled {
                self.context.advance_reading(1);
                match reply {
                    Reply::Came(Ok(history)) => self.rows.push(row(&artifact, &history, &self.rules)?),
                    // The repository went away since its content was read; a refresh will see to it.
                    Reply::Came(Err(_)) => drop(self.passed.insert(artifact.artifact)),
                    Reply::Failed(why) => {
                        self.passed.insert(artifact.artifact);
                        let what = format!("the history of {}/{}", artifact.slug, artifact.path);
                        self.context.fail("history", what, why).await?;
                    }
                }
            }
            if self.rows.len() >= STORE_AT {
                self.store().await?;
            }
        }
        Ok(())
    }

    async fn store(&mut self) -> Result<(), Halt> {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.context.store.put_histories(self.context.run, &rows).await?;
        }
        Ok(self.context.save_ledger().await?)
    }
}

fn row(artifact: &WithoutHistory, history: &PathHistory, rules: &AuthorRules) -> Result<HistoryRow, CrawlError> {
    let complete = history.total <= history.commits.len() as u64;
    let oldest = history.commits.len().saturating_sub(1);
    let facts: Vec<CommitFact> = history
        .commits
        .iter()
        .enumerate()
        .map(|(place, commit)| {
            let author = commit.authors.first().cloned().unwrap_or_default();
            rules.fact(&CommitRecord {
                name: author.name,
                email: author.email,
                login: author.login,
                message: commit.message.clone(),
                when: commit.at.map_or(0, jiff::Timestamp::as_second),
                creates: complete && place == oldest,
            })
        })
        .collect();
    let facts = serde_json::to_string(&facts).map_err(|error| CrawlError::Rules(error.to_string()))?;
    Ok(HistoryRow { artifact: artifact.artifact, head: artifact.head, complete, facts })
}
