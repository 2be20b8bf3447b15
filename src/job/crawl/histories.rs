//! Who wrote each artifact: the commits of its path, reduced to kinds of authors before anything is stored.

use super::content::UNANSWERED;
use super::{Context, CrawlError, Halt, author_rules};
use crate::corpus::{CommitFact, CommitRecord};
use crate::github::{self, Batch, HistoryAsk, PathHistory};
use crate::store::{HistoryRow, WithoutHistory};
use crate::tag::authors::AuthorRules;
use futures_util::StreamExt as _;
use std::collections::HashMap;

/// Artifacts read between two looks at the store.
const CHUNK: usize = 400;

pub(super) async fn read_all(context: &Context<'_>) -> Result<(), Halt> {
    let rules = author_rules()?;
    context.monitor.begin("history", Some(context.store.count_without_history().await?));
    let result = read_chunks(context, &rules).await;
    context.monitor.end();
    result
}

async fn read_chunks(context: &Context<'_>, rules: &AuthorRules) -> Result<(), Halt> {
    let mut batch = Batch::new(context.options.history_batch);
    let mut after = i64::MIN;
    let mut unanswered: HashMap<i64, u32> = HashMap::new();
    loop {
        let mut wanted = context.store.without_history(after, CHUNK).await?;
        let Some(last) = wanted.last() else { return Ok(()) };
        after = last.artifact;
        while !wanted.is_empty() {
            let lanes = context.options.content_lanes.max(1);
            let take = (batch.size() * lanes).min(wanted.len());
            let groups: Vec<Vec<WithoutHistory>> = {
                let taken: Vec<WithoutHistory> = wanted.drain(..take).collect();
                taken.chunks(batch.size()).map(<[WithoutHistory]>::to_vec).collect()
            };
            let mut answers = futures_util::stream::iter(groups)
                .map(|group| async move {
                    let asks: Vec<HistoryAsk> = group
                        .iter()
                        .map(|wanted| HistoryAsk { repository: wanted.slug.clone(), path: wanted.path.clone() })
                        .collect();
                    let answer = context.unless_stopped(github::history(context.github, &asks)).await;
                    (group, answer)
                })
                .buffer_unordered(lanes);
            while let Some((group, answer)) = answers.next().await {
                match answer? {
                    Ok(came) => {
                        if came.iter().all(Option::is_some) {
                            batch.worked(group.len());
                        } else {
                            batch.too_heavy(group.len());
                        }
                        let mut rows = Vec::with_capacity(group.len());
                        for (artifact, answer) in group.into_iter().zip(came) {
                            match answer {
                                Some(Ok(history)) => rows.push(row(&artifact, &history, rules)?),
                                // The repository went away since its content was read; a refresh will see to it.
                                Some(Err(_)) => {}
                                None => {
                                    let tries = unanswered.entry(artifact.artifact).or_default();
                                    *tries += 1;
                                    if *tries <= UNANSWERED {
                                        wanted.push(artifact);
                                    } else {
                                        let what = format!("the history of {}/{}", artifact.slug, artifact.path);
                                        let why = "GitHub answers only in part".to_owned();
                                        context.fail("history", what, why).await?;
                                    }
                                }
                            }
                        }
                        context.store.put_histories(context.run, &rows).await?;
                        context.monitor.advance(rows.len() as u64);
                    }
                    Err(error) if error.stops_the_job() => return Err(error.into()),
                    Err(error) if group.len() == 1 => {
                        let what = format!("the history of {}/{}", group[0].slug, group[0].path);
                        context.fail("history", what, error.to_string()).await?;
                    }
                    Err(_) => {
                        batch.too_heavy(group.len());
                        wanted.extend(group);
                    }
                }
            }
        }
        context.save_ledger().await?;
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
