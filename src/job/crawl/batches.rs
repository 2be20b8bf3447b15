//! Asks many questions in batches: a queue, batches that adapt to what the server takes, several under way at a time.
//!
//! Contents and histories are both read this way. A batch goes out when it is full, or when nothing that may still come
//! could fill it; so nearly every query is as full as it may be, whatever order the answers come in.

use super::Halt;
use crate::github::{self, Batch};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use std::collections::VecDeque;

/// How often a question may be left out of an answer before it counts as failed: enough to shrink a batch to one.
const UNANSWERED: u32 = 8;
/// Questions looked through for one that still fits into a batch by weight.
const LOOK_AHEAD: usize = 200;

/// How full the batches were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Fill {
    /// Queries that were answered.
    pub queries: u64,
    /// Questions in them, those that had to be asked again included.
    pub asked: u64,
    /// Questions that they could have held.
    pub room: u64,
}

impl Fill {
    /// `asked` ÷ `room`; 1 when nothing was asked.
    pub fn share(&self) -> f64 {
        if self.room == 0 { 1.0 } else { self.asked as f64 / self.room as f64 }
    }
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::job) enum Reply<A> {
    Came(A),
    /// Asked alone, it failed for this reason.
    Failed(String),
}

/// The answers of one query in the order of its questions; `None` marks one that it did not answer.
pub(in crate::job) type Answers<A> = Result<Result<Vec<Option<A>>, github::Error>, Halt>;

type Send<'a, T, A> = Box<dyn Fn(&[&T]) -> BoxFuture<'a, Answers<A>> + core::marker::Send + Sync + 'a>;
type UnderWay<'a, T, A> = BoxFuture<'a, (Group<T>, Answers<A>)>;

/// Questions asked together, and how many there might have been.
struct Group<T> {
    questions: Vec<Question<T>>,
    room: usize,
}

struct Question<T> {
    what: T,
    weight: usize,
    unanswered: u32,
    /// The largest batch that it may be asked in: a batch that failed as a whole is taken apart to find out why.
    together: usize,
}

/// Limits of the batches.
#[derive(Debug, Clone, Copy)]
pub(in crate::job) struct Bounds {
    /// Questions in a batch at most.
    pub(in crate::job) most: usize,
    /// Batches under way at a time.
    pub(in crate::job) lanes: usize,
    /// Sum of the weights in a batch; a heavier question goes alone.
    pub(in crate::job) weight: usize,
}

/// See the module.
pub(in crate::job) struct Asker<'a, T, A> {
    send: Send<'a, T, A>,
    queue: VecDeque<Question<T>>,
    under_way: FuturesUnordered<UnderWay<'a, T, A>>,
    batch: Batch,
    bounds: Bounds,
    halt: Option<Halt>,
    fill: Fill,
}

impl<'a, T, A> Asker<'a, T, A>
where
    T: core::marker::Send + 'a,
    A: core::marker::Send + 'a,
{
    pub(in crate::job) fn new(
        bounds: Bounds,
        send: impl Fn(&[&T]) -> BoxFuture<'a, Answers<A>> + core::marker::Send + Sync + 'a,
    ) -> Self {
        Self {
            send: Box::new(send),
            queue: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            batch: Batch::new(bounds.most),
            bounds: Bounds { lanes: bounds.lanes.max(1), ..bounds },
            halt: None,
            fill: Fill::default(),
        }
    }

    pub(in crate::job) fn push(&mut self, what: T, weight: usize) {
        self.queue.push_back(Question { what, weight, unanswered: 0, together: usize::MAX });
    }

    /// Questions that wait to be asked.
    pub(in crate::job) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many waiting questions keep every lane busy with full batches.
    pub(in crate::job) fn enough(&self) -> usize {
        self.batch.size() * (self.bounds.lanes + 1)
    }

    pub(in crate::job) fn fill(&self) -> Fill {
        self.fill
    }

    /// Send what may be sent, wait for one answer, and give what it settled, which may be nothing. `None` when nothing
    /// is under way and nothing may be sent: all is answered, or the rest does not fill a batch and `more` may come.
    ///
    /// May be dropped and called again at any time.
    ///
    /// # Errors
    /// When the job has to stop, once the answers under way have been given out.
    pub(in crate::job) async fn next(&mut self, more: bool) -> Result<Option<Vec<(T, Reply<A>)>>, Halt> {
        while self.halt.is_none()
            && self.under_way.len() < self.bounds.lanes
            && let Some(group) = self.take(more || !self.under_way.is_empty())
        {
            let questions: Vec<&T> = group.questions.iter().map(|question| &question.what).collect();
            let answers = (self.send)(&questions);
            self.under_way.push(Box::pin(async move { (group, answers.await) }));
        }
        let Some((group, answers)) = self.under_way.next().await else {
            return self.halt.take().map_or(Ok(None), Err);
        };
        let answers = match answers {
            Ok(Err(error)) if error.stops_the_job() => Err(error.into()),
            answers => answers,
        };
        match answers {
            Ok(answers) => Ok(Some(self.sort(group, answers))),
            Err(halt) => {
                self.halt = Some(match self.halt.take() {
                    Some(first) => first.or_worse(halt),
                    None => halt,
                });
                self.queue.extend(group.questions);
                Ok(Some(Vec::new()))
            }
        }
    }

    /// The next batch: the question that waits longest, and others that fit beside it. `hold` keeps one back that is
    /// not full.
    fn take(&mut self, hold: bool) -> Option<Group<T>> {
        let first = self.queue.front()?;
        let room = self.batch.size().min(first.together);
        let (mut places, mut weight) = (vec![0], first.weight);
        for (place, question) in self.queue.iter().enumerate().take(LOOK_AHEAD).skip(1) {
            if places.len() == room {
                break;
            }
            if question.together == first.together && weight + question.weight <= self.bounds.weight {
                places.push(place);
                weight += question.weight;
            }
        }
        // What waits besides, too heavy for this batch, shows that it is as full as it gets.
        if hold && places.len() < room && self.queue.len() < room.saturating_mul(2) {
            return None;
        }
        let taken = places.iter().rev().filter_map(|place| self.queue.remove(*place));
        let mut questions: Vec<Question<T>> = taken.collect();
        questions.reverse();
        Some(Group { questions, room })
    }

    /// What an answer settled; the rest waits again.
    fn sort(&mut self, group: Group<T>, answers: Result<Vec<Option<A>>, github::Error>) -> Vec<(T, Reply<A>)> {
        let asked = group.questions.len();
        match answers {
            Ok(came) => {
                self.fill.queries += 1;
                self.fill.asked += asked as u64;
                self.fill.room += group.room as u64;
                if came.len() == asked && came.iter().all(Option::is_some) {
                    self.batch.worked(asked);
                } else {
                    self.batch.too_heavy(asked);
                }
                let mut settled = Vec::with_capacity(asked);
                let came = came.into_iter().chain(std::iter::repeat_with(|| None));
                for (mut question, answer) in group.questions.into_iter().zip(came) {
                    match answer {
                        Some(answer) => settled.push((question.what, Reply::Came(answer))),
                        None if question.unanswered >= UNANSWERED => {
                            let why = "GitHub answers only in part".to_owned();
                            settled.push((question.what, Reply::Failed(why)));
                        }
                        None => {
                            question.unanswered += 1;
                            self.queue.push_front(question);
                        }
                    }
                }
                settled
            }
            Err(error) if asked == 1 => {
                let failed = |question: Question<T>| (question.what, Reply::Failed(error.to_string()));
                group.questions.into_iter().map(failed).collect()
            }
            Err(error) => {
                if matches!(error, github::Error::TooHeavy { .. }) {
                    self.batch.too_heavy(asked);
                }
                // One of them may be the reason: in ever smaller batches, it shows which.
                for mut question in group.questions.into_iter().rev() {
                    question.together = question.together.min(asked.div_ceil(2));
                    self.queue.push_front(question);
                }
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const BOUNDS: Bounds = Bounds { most: 25, lanes: 4, weight: 100 };

    /// Ask until all is answered; `follow` may give a further question for each answer.
    async fn run(asker: &mut Asker<'_, u32, u32>, follow: impl Fn(u32) -> Option<u32>) -> Vec<(u32, Reply<u32>)> {
        let mut all = Vec::new();
        while let Some(settled) = asker.next(false).await.unwrap() {
            for (what, reply) in settled {
                if let Some(next) = follow(what) {
                    asker.push(next, 1);
                }
                all.push((what, reply));
            }
        }
        all.sort_by_key(|(what, _)| *what);
        all
    }

    #[tokio::test]
    async fn batches_are_full_although_every_third_answer_raises_another_question() {
        let mut asker = Asker::new(BOUNDS, |asked: &[&u32]| {
            let answers = asked.iter().map(|what| Some(**what)).collect();
            Box::pin(async move { Ok(Ok(answers)) }) as BoxFuture<'_, _>
        });
        (0..1_000).for_each(|n| asker.push(n, 1 + (n as usize % 7)));
        let all = run(&mut asker, |what| (what < 1_000 && what % 3 == 0).then_some(1_000 + what)).await;
        assert_eq!(all.len(), 1_000 + 334);
        assert!(asker.fill().share() >= 0.95, "{:?}", asker.fill());
        assert_eq!(asker.fill().asked, 1_334);
    }

    #[tokio::test]
    async fn what_does_not_fill_a_batch_waits_while_more_may_come() {
        let mut asker = Asker::new(BOUNDS, |asked: &[&u32]| {
            let answers = asked.iter().map(|what| Some(**what)).collect();
            Box::pin(async move { Ok(Ok(answers)) }) as BoxFuture<'_, _>
        });
        (0..30).for_each(|n| asker.push(n, 1));
        assert_eq!(asker.next(true).await.unwrap().unwrap().len(), 25);
        assert_eq!((asker.next(true).await.unwrap(), asker.waiting()), (None, 5));
        assert_eq!(asker.next(false).await.unwrap().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn one_question_that_spoils_its_batch_is_found_and_the_batches_of_others_stay_large() {
        let sizes = Mutex::new(Vec::new());
        let mut asker = Asker::new(BOUNDS, |asked: &[&u32]| {
            sizes.lock().unwrap().push(asked.len());
            let spoilt = asked.contains(&&13);
            let answers = asked.iter().map(|what| Some(**what)).collect();
            let rejected =
                || github::Error::Rejected { what: "x".to_owned(), status: 200, message: "broken".to_owned() };
            Box::pin(async move { Ok(if spoilt { Err(rejected()) } else { Ok(answers) }) }) as BoxFuture<'_, _>
        });
        (0..100).for_each(|n| asker.push(n, 1));
        let all = run(&mut asker, |_| None).await;
        assert_eq!(all.len(), 100);
        let failed: Vec<u32> =
            all.iter().filter(|(_, reply)| matches!(reply, Reply::Failed(_))).map(|(what, _)| *what).collect();
        assert_eq!(failed, [13]);
        assert!(sizes.lock().unwrap().iter().filter(|size| **size == 25).count() >= 4, "{sizes:?}");
    }

    #[tokio::test]
    async fn an_answer_in_part_shrinks_the_batch_until_it_is_whole_and_one_that_never_comes_is_given_up() {
        let mut asker = Asker::new(BOUNDS, |asked: &[&u32]| {
            let most = if asked.contains(&&7) { 0 } else { 10 };
            let answers = asked.iter().enumerate().map(|(n, what)| (n < most && **what != 7).then_some(**what));
            let answers = answers.collect();
            Box::pin(async move { Ok(Ok(answers)) }) as BoxFuture<'_, _>
        });
        (0..60).for_each(|n| asker.push(n, 1));
        let all = run(&mut asker, |_| None).await;
        assert_eq!(all.len(), 60);
        let failed = all.iter().filter(|(_, reply)| matches!(reply, Reply::Failed(_))).count();
        assert!((1..=9).contains(&failed), "{failed}");
    }

    #[tokio::test]
    async fn a_halt_comes_after_the_answers_that_were_under_way() {
        let asked_before = std::sync::atomic::AtomicU32::new(0);
        let mut asker = Asker::new(BOUNDS, |asked: &[&u32]| {
            let n = asked_before.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let answers = asked.iter().map(|what| Some(**what)).collect();
            let halt = || Halt::Paused { why: "the budget is used up".to_owned(), until: None };
            Box::pin(async move { if n == 1 { Err(halt()) } else { Ok(Ok(answers)) } }) as BoxFuture<'_, _>
        });
        (0..200).for_each(|n| asker.push(n, 1));
        let mut came = 0;
        let halt = loop {
            match asker.next(false).await {
                Ok(settled) => came += settled.unwrap().len(),
                Err(halt) => break halt,
            }
        };
        assert!(matches!(halt, Halt::Paused { .. }), "{halt:?}");
        assert!((75..=100).contains(&came) && came % 25 == 0, "{came}");
    }
}
