//! Known repositories: facts by node id, and who has moved on since everything was as stored.

use super::batches::{Question, ask_all};
use super::opinion::{Opinion, second_opinion, unchanged_by_rest};
use super::read::{Reader, Subject};
use super::{Refresh, lock, now};
use crate::github::{self, Absence, Batch, NODES, RepositoryFacts};
use crate::job::crawl::Halt;
use crate::job::crawl::write::facts_row;
use crate::store::{RefreshRepo, RepoFacts, RepoId, RepoRow};
use crate::taxonomy::{Presence, RepoSource};

/// Facts, or why there are none: the repository is absent, or there was no answer.
type Facts = Result<Result<RepositoryFacts, Absence>, String>;

/// Look at every repository with artifacts that this run has not looked at, the least recently looked at first.
pub(super) async fn check_known(refresh: &Refresh<'_>) -> Result<(), Halt> {
    let context = &refresh.context;
    let pending = context.store.count_refresh_pending(context.run, &refresh.platforms).await?;
    context.monitor.begin("check", Some(pending));
    let result = check_all(refresh).await;
    context.monitor.end();
    result
}

async fn check_all(refresh: &Refresh<'_>) -> Result<(), Halt> {
    let context = &refresh.context;
    let mut batch = Batch::new(NODES);
    let mut reader = Reader::new(refresh);
    let mut after = (i64::MIN, i64::MIN);
    loop {
        let limit = NODES * refresh.lanes();
        let pending =
            context.store.refresh_pending(context.run, &refresh.platforms, refresh.trust, after, limit).await?;
        let Some(last) = pending.last() else { break };
        after = (last.checked_at, last.id.0);
        let count = pending.len() as u64;
        let moved = facts_of(refresh, &mut batch, pending).await?;
        let left = moved.len() as u64;
        reader.add(moved);
        reader.go(false).await?;
        context.monitor.advance(count - left);
        if let Some(points) = context.github.remaining(github::Resource::Graphql) {
            context.monitor.state(&format!("{points} GraphQL points left in this hour"));
        }
    }
    reader.go(true).await
}

/// Ask for the facts of repositories; those that are as they were are written, the others come back.
async fn facts_of(refresh: &Refresh<'_>, batch: &mut Batch, pending: Vec<RefreshRepo>) -> Result<Vec<Subject>, Halt> {
    let context = &refresh.context;
    let (mut moved, mut questions) = (Vec::new(), Vec::new());
    for repo in pending {
        // An earlier invocation saw it move, or there is no id to ask by: it has to be listed anyway.
        if repo.node_id.is_none() || (repo.seen_at.is_some() && repo.seen_at != repo.settled_at) {
            moved.push(Subject::known(&repo));
        } else {
            questions.push(Question::new(repo, 0));
        }
    }
    let send = |group: Vec<Question<RefreshRepo>>| async {
        let nodes: Vec<String> = group.iter().filter_map(|question| question.what.node_id.clone()).collect();
        let answer = github::repositories(context.github, &nodes).await;
        (group, answer)
    };
    let mut answers: Vec<(RefreshRepo, Facts)> = Vec::new();
    let mut fill = lock(&refresh.fills).facts;
    let asked = ask_all(context, refresh.lanes(), (batch, NODES), &mut fill, questions, send, |repo, answer| {
        answers.push((repo, answer));
    });
    let halted = asked.await.err();
    lock(&refresh.fills).facts = fill;
    let (mut settled, mut absent, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (repo, answer) in answers {
        match answer {
            Ok(Ok(facts)) if facts.head.is_none() => {
                absent.push((repo.id, Presence::Empty, "it has no commits".to_owned()));
            }
            Ok(Ok(facts)) => {
                let row = row(&repo, &facts);
                if repo.settled_at.is_some() && repo.settled_at == facts.head {
                    settled.push((repo.id, row));
                } else {
                    rows.push(row);
                    moved.push(Subject::known(&repo));
                }
            }
            Ok(Err(absence)) if halted.is_none() => match second_opinion(refresh, &repo, &absence).await? {
                Opinion::Agrees(presence, why) => absent.push((repo.id, presence, why)),
                Opinion::Differs(why) => context.fail("check", repo.slug.to_string(), why).await?,
            },
            Err(why) if halted.is_none() => {
                if unchanged_by_rest(refresh, &repo).await? {
                    settled.push((repo.id, bare_row(&repo)));
                } else {
                    context.fail("check", repo.slug.to_string(), why).await?;
                }
            }
            // Not marked as looked at: the next invocation asks again.
            _ => {}
        }
    }
    context.store.put_settled(context.run, &settled, now()).await?;
    context.store.put_absent(context.run, &absent, now()).await?;
    context.store.put_moved(context.run, &rows).await?;
    refresh.book().await?;
    match halted {
        Some(halt) => Err(halt),
        None => Ok(moved),
    }
}

fn row(repo: &RefreshRepo, facts: &RepositoryFacts) -> RepoRow {
    facts_row(facts, repo.node_id.clone(), repo.slug.clone())
}

/// A row that leaves every fact as it is.
fn bare_row(repo: &RefreshRepo) -> RepoRow {
    RepoRow {
        node_id: repo.node_id.clone(),
        slug: repo.slug.clone(),
        source: RepoSource::GitHub,
        facts: RepoFacts::default(),
        facts_at: None,
    }
}

impl Subject {
    fn known(repo: &RefreshRepo) -> Self {
        Self { id: repo.id, node: repo.node_id.clone(), slug: repo.slug.clone(), hits: Vec::new() }
    }
}

/// Repositories that did not answer as they should.
pub(super) type Absent = (RepoId, Presence, String);
