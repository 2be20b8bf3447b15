//! Questions in full batches: as many in one query as are known to work, several queries at a time, and fewer in the next
//! where a query proves too heavy.

use crate::github::{Batch, Error};
use crate::job::crawl::{Context, Halt};
use futures_util::StreamExt as _;
use serde::Serialize;

/// How often a question may be left out of an answer before it counts as failed: enough to shrink a batch to one.
const UNANSWERED: u32 = 8;
/// Weight of one query at most, in texts: answers stay below a few megabytes.
const WEIGHT: usize = 100;

/// How full the queries of one kind were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Fill {
    /// Queries that were answered.
    pub queries: u64,
    /// Repositories asked for in them.
    pub asked: u64,
    /// Most repositories that one may hold.
    pub bound: u64,
    /// `asked` ÷ (`queries` × `bound`); 1 when nothing was asked.
    pub fill: f64,
}

impl Fill {
    fn note(&mut self, asked: usize, bound: usize) {
        self.queries += 1;
        self.asked += asked as u64;
        self.bound = bound as u64;
        self.fill = self.asked as f64 / (self.queries * self.bound).max(1) as f64;
    }
}

/// Queries by what they ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Fills {
    /// Facts, by node id.
    pub facts: Fill,
    /// Listings of repositories that moved on or are new.
    pub listings: Fill,
    /// Texts that the corpus lacked.
    pub texts: Fill,
}

/// A question with how often it was left out.
pub(super) struct Question<Q> {
    pub(super) what: Q,
    /// Texts that it asks for.
    pub(super) weight: usize,
    unanswered: u32,
}

impl<Q> Question<Q> {
    pub(super) fn new(what: Q, weight: usize) -> Self {
        Self { what, weight, unanswered: 0 }
    }
}

/// Ask until every question has an answer or has failed. `take` is given each with its answer, or with why there is
/// none; it is called for all that was answered even when the work has to stop.
pub(super) async fn ask_all<Q, A, F>(
    context: &Context<'_>,
    lanes: usize,
    (batch, bound): (&mut Batch, usize),
    fill: &mut Fill,
    mut questions: Vec<Question<Q>>,
    send: impl Fn(Vec<Question<Q>>) -> F,
    mut take: impl FnMut(Q, Result<A, String>),
) -> Result<(), Halt>
where
    F: Future<Output = (Vec<Question<Q>>, Result<Vec<Option<A>>, Error>)>,
{
    while !questions.is_empty() {
        let groups = groups(&mut questions, batch.size(), lanes);
        let mut answers = futures_util::stream::iter(groups)
            .map(|group| async { context.unless_stopped(send(group)).await })
            .buffer_unordered(lanes);
        // Queries under way together are all heard out, so that what one brings is not lost to the halt of another.
        let mut halted = None;
        while let Some(answer) = answers.next().await {
            let (group, answer) = match answer {
                Ok(came) => came,
                Err(halt) => {
                    halted = halted.or(Some(halt));
                    continue;
                }
            };
            match answer {
                Ok(came) => {
                    fill.note(group.len(), bound);
                    if came.iter().all(Option::is_some) {
                        batch.worked(group.len());
                    } else {
                        batch.too_heavy(group.len());
                    }
                    for (mut question, answer) in group.into_iter().zip(came) {
                        match answer {
                            Some(answer) => take(question.what, Ok(answer)),
                            None if question.unanswered >= UNANSWERED => {
                                take(question.what, Err("GitHub answers only in part".to_owned()));
                            }
                            None => {
                                question.unanswered += 1;
                                questions.push(question);
                            }
                        }
                    }
                }
                Err(Error::TooHeavy { .. }) => {
                    batch.too_heavy(group.len());
                    questions.extend(group);
                }
                Err(error) if error.stops_the_job() => halted = halted.or(Some(error.into())),
                Err(error) if group.len() == 1 => {
                    group.into_iter().for_each(|question| take(question.what, Err(error.to_string())));
                }
                // One of them may be the reason: alone, each shows what it is.
                Err(_) => {
                    batch.too_heavy(group.len());
                    questions.extend(group);
                }
            }
        }
        if let Some(halt) = halted {
            return Err(halt);
        }
    }
    Ok(())
}

/// Take up to `lanes` groups off the front of `questions`, each of at most `size` and about [`WEIGHT`] texts.
fn groups<Q>(questions: &mut Vec<Question<Q>>, size: usize, lanes: usize) -> Vec<Vec<Question<Q>>> {
    let mut groups: Vec<Vec<Question<Q>>> = Vec::new();
    let mut weight = 0;
    let mut left = Vec::new();
    for question in questions.drain(..) {
        let full = groups.last().is_none_or(|group| group.len() >= size || weight + question.weight > WEIGHT);
        if !left.is_empty() || (full && groups.len() == lanes) {
            left.push(question);
            continue;
        }
        if full {
            groups.push(Vec::new());
            weight = 0;
        }
        weight += question.weight;
        if let Some(group) = groups.last_mut() {
            group.push(question);
        }
    }
    *questions = left;
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_full_and_the_rest_stays_in_order() {
        let mut questions: Vec<Question<u32>> = (0..60).map(|n| Question::new(n, 1)).collect();
        let taken = groups(&mut questions, 25, 2);
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [25, 25]);
        assert_eq!(questions.iter().map(|question| question.what).collect::<Vec<_>>(), (50..60).collect::<Vec<_>>());
        let mut heavy = vec![Question::new(1, 90), Question::new(2, 90), Question::new(3, 900)];
        assert_eq!(groups(&mut heavy, 25, 4).len(), 3);
        let mut fill = Fill::default();
        fill.note(25, 25);
        fill.note(20, 25);
        assert!((fill.fill - 0.9).abs() < 1e-9);
    }
}
