//! What every topic calls for: the constraints that bind in it, and what printing an item costs.

use super::super::base::Base;
use super::super::compact::with_needs;
use super::super::render::{Form, price_alone, price_heading};
use super::super::topics::{Scope, TopicId};
use super::super::verify::Guard;
use crate::taxonomy::ItemKind;

/// Which constraints each topic calls for, and what headings and items cost.
pub(super) struct Needs {
    /// Items that every partition prints, ascending: the constraints that bind in every topic with items, and what those
    /// cannot be printed without.
    pub(super) everywhere: Vec<usize>,
    /// By topic, ascending: the other constraints that bind in it.
    pub(super) by_topic: Vec<Vec<usize>>,
    /// By topic: units of its heading, with the empty line behind it.
    pub(super) headings: Vec<usize>,
    /// By item: units as it is most likely printed.
    pub(super) prices: Vec<usize>,
}

impl Needs {
    pub(super) fn of(base: &Base) -> Self {
        let topics = base.topics().len();
        let mut held = vec![0usize; topics + 1];
        for item in base.items() {
            held[item.topic.0 as usize + 1] = 1;
        }
        for topic in 0..topics {
            held[topic + 1] += held[topic];
        }
        let mut everywhere = Vec::new();
        let mut by_topic = vec![Vec::new(); topics];
        for (index, scope) in base.scopes().into_iter().enumerate() {
            match scope {
                None => {}
                Some(Scope::Topics(ranges))
                    if ranges.iter().map(|r| held[r.end as usize] - held[r.start as usize]).sum::<usize>()
                        < held[topics] =>
                {
                    for topic in ranges.into_iter().flatten() {
                        by_topic[topic as usize].push(index);
                    }
                }
                Some(_) => everywhere.push(index),
            }
        }
        Self {
            everywhere: with_what_holds_them(base, everywhere),
            by_topic,
            headings: (0..topics).map(|topic| price_heading(base, TopicId(topic as u32))).collect(),
            prices: (0..base.items().len()).map(|index| likely(base, index)).collect(),
        }
    }

    /// The constraints that bind in a topic.
    pub(super) fn guards(&self, base: &Base, topic: TopicId) -> Vec<Guard> {
        let mut bound: Vec<usize> = self.everywhere.iter().chain(&self.by_topic[topic.0 as usize]).copied().collect();
        bound.sort_unstable();
        let pinned = bound.iter().map(|index| &base.items()[*index]).filter(|item| item.pinned());
        pinned.map(|item| Guard::of(base, item)).collect()
    }
}

/// `items` and everything that one of them cannot be printed without, each once, ascending.
pub(super) fn with_what_holds_them(base: &Base, items: Vec<usize>) -> Vec<usize> {
    let mut all = Vec::with_capacity(items.len());
    items.into_iter().for_each(|index| with_needs(base, index, |needed| all.push(needed)));
    all.sort_unstable();
    all.dedup();
    all
}

/// The topics of `items` and all above them, each once, ascending.
pub(super) fn headed_topics(base: &Base, items: &[usize]) -> Vec<TopicId> {
    let mut topics: Vec<TopicId> = items.iter().map(|index| base.items()[*index].topic).collect();
    topics.dedup();
    let mut topics: Vec<TopicId> = topics.into_iter().flat_map(|topic| base.topics().ancestors(topic)).collect();
    topics.sort_unstable();
    topics.dedup();
    topics
}

/// Units of an item: with an empty line behind it, unless it stands in a list or table without any.
fn likely(base: &Base, index: usize) -> usize {
    let items = base.items();
    let item = &items[index];
    let near = |a: usize, b: usize| {
        let gap = base.text().get(items[a].span.end..items[b].span.start);
        items[a].kind == items[b].kind && gap.is_some_and(|gap| gap.matches('\n').count() <= 1)
    };
    let tight = match item.kind {
        ItemKind::Row => true,
        ItemKind::List => (index > 0 && near(index - 1, index)) || (index + 1 < items.len() && near(index, index + 1)),
        _ => false,
    };
    if tight { item.layout.units } else { price_alone(base, index, Form::Full) }
}
