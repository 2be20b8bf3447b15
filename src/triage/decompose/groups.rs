//! How the items of each topic are cut into the groups that are placed.

use super::super::base::Base;
use super::super::kmeans::{WordVector, split};
use super::super::render::{Form, price_alone, price_heading};
use super::super::topics::TopicId;
use super::needs::{Needs, headed_topics, with_what_holds_them};
use super::pack::{Placed, finish};
use super::{SPLIT_ABOVE, TooNarrow};

/// Items of one topic that stay together.
pub(super) struct Group {
    pub(super) topic: TopicId,
    /// Ascending.
    pub(super) items: Vec<usize>,
    /// Everything that has to be printed with them, ascending: themselves, the constraints that bind in their topic, and
    /// what any of those cannot be printed without.
    pub(super) brought: Vec<usize>,
    /// The topics whose headings stand above that.
    pub(super) topics: Vec<TopicId>,
}

impl Group {
    fn of(base: &Base, needs: &Needs, topic: TopicId, items: Vec<usize>) -> Self {
        let called = needs.by_topic[topic.0 as usize].iter().copied();
        let brought = with_what_holds_them(base, items.iter().copied().chain(called).collect());
        let topics = headed_topics(base, &brought);
        Self { topic, items, brought, topics }
    }
}

/// The items by topic, cut so that each group fits into `budget` tokens with its constraints, in pieces of at most a
/// `grain`-th of the room that those leave.
pub(super) fn groups(base: &Base, needs: &Needs, budget: usize, grain: usize) -> Result<Vec<Group>, Box<TooNarrow>> {
    let mut by_topic: Vec<Vec<usize>> = vec![Vec::new(); base.topics().len()];
    for (index, item) in base.items().iter().enumerate() {
        by_topic[item.topic.0 as usize].push(index);
    }
    let mut cutter = Cutter { base, needs, budget, grain, groups: Vec::new(), worst: None };
    for (topic, items) in by_topic.into_iter().enumerate() {
        let topic = TopicId(topic as u32);
        if items.len() <= SPLIT_ABOVE {
            cutter.cut(topic, &items);
            continue;
        }
        let vectors: Vec<WordVector> =
            items.iter().map(|index| WordVector::of(base.text_of(&base.items()[*index]))).collect();
        for leaf in split(&vectors, SPLIT_ABOVE) {
            let members: Vec<usize> = leaf.members.into_iter().map(|member| items[member]).collect();
            cutter.cut(topic, &members);
        }
    }
    cutter.worst.map_or(Ok(cutter.groups), |refusal| Err(Box::new(refusal)))
}

struct Cutter<'b> {
    base: &'b Base,
    needs: &'b Needs,
    budget: usize,
    grain: usize,
    groups: Vec<Group>,
    /// What does not fit on its own.
    worst: Option<TooNarrow>,
}

impl Cutter<'_> {
    /// Cut the items of one topic. Prices are a little too high here: a group alone must fit for certain.
    fn cut(&mut self, topic: TopicId, items: &[usize]) {
        if items.is_empty() {
            return;
        }
        let (base, tokenizer) = (self.base, self.base.tokenizer());
        let price = |items: &[usize]| items.iter().map(|i| price_alone(base, *i, Form::Full)).sum::<usize>();
        // What the topic costs before its first item.
        let called = self.needs.everywhere.iter().chain(&self.needs.by_topic[topic.0 as usize]).copied();
        let bare = with_what_holds_them(base, called.collect());
        let mut headings = headed_topics(base, &bare);
        headings.extend(base.topics().ancestors(topic));
        headings.sort_unstable();
        headings.dedup();
        let there = price(&bare) + headings.iter().map(|topic| price_heading(base, *topic)).sum::<usize>();
        let most = self.budget.saturating_sub(tokenizer.tokens(there)) / self.grain;
        let mut open: Vec<usize> = Vec::new();
        let mut added: Vec<usize> = Vec::new();
        for index in items {
            let own = |added: &[usize]| -> Vec<usize> {
                let chain = with_what_holds_them(base, vec![*index]);
                chain.into_iter().filter(|i| bare.binary_search(i).is_err() && !added.contains(i)).collect()
            };
            let mut new = own(&added);
            if !open.is_empty() && tokenizer.tokens(price(&added) + price(&new)) > most {
                self.groups.push(Group::of(base, self.needs, topic, std::mem::take(&mut open)));
                added.clear();
                new = own(&added);
            }
            if open.is_empty() && tokenizer.tokens(there + price(&new)) > self.budget {
                self.alone(topic, *index);
            }
            open.push(*index);
            added.extend(new);
        }
        self.groups.push(Group::of(base, self.needs, topic, open));
    }

    /// Prices are a little high: for an item that does not seem to fit, what it really needs decides.
    fn alone(&mut self, topic: TopicId, index: usize) {
        let (base, needs, budget) = (self.base, self.needs, self.budget);
        let group = [Group::of(base, needs, topic, vec![index])];
        let mut placed = Placed::empty(base, needs);
        placed.take(needs, 0, &group[0]);
        let needed = finish(base, &placed, &group, budget).tokens;
        if needed > budget && self.worst.as_ref().is_none_or(|worst| worst.needed < needed) {
            let constraints = needs.guards(base, topic);
            self.worst = Some(TooNarrow { budget, needed, line: base.items()[index].line, constraints });
        }
    }
}
