//! How groups of items are cut and placed, so that few constraints have to be copied.

use super::super::base::Base;
use super::super::kmeans::{WordVector, split};
use super::super::readback::apart;
use super::super::render::{Form, Headings, price_alone, render};
use super::super::topics::TopicId;
use super::super::verify::Guard;
use super::needs::{Needs, Set};
use super::{Partition, SPLIT_ABOVE, TooNarrow};

/// Items of one topic that stay together.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) topic: TopicId,
    pub(super) items: Vec<usize>,
    /// Units of the items without headings.
    units: usize,
}

/// What a partition holds while it is filled.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) groups: Vec<usize>,
    constraints: Set,
    headed: Vec<bool>,
    units: usize,
}

impl Placed {
    fn empty(base: &Base, needs: &Needs) -> Self {
        Self {
            groups: Vec::new(),
            constraints: Set::empty(needs.pinned.len()),
            headed: vec![false; base.topics().len()],
            units: 0,
        }
    }

    /// Units that a group adds, and how many of them are copies. A little too much rather than too little.
    fn cost(&self, base: &Base, needs: &Needs, group: &Group) -> (usize, usize) {
        let mut topics = vec![group.topic];
        let mut copied = 0;
        for at in needs.by_topic[group.topic.0 as usize].without(&self.constraints) {
            let index = needs.pinned[at];
            // Sorted, as items of a group always are.
            if group.items.binary_search(&index).is_err() {
                copied += price_with_needs(base, index);
                topics.push(base.items()[index].topic);
            }
        }
        let mut headings: Vec<TopicId> = topics
            .iter()
            .flat_map(|topic| base.topics().ancestors(*topic))
            .filter(|topic| !self.headed[topic.0 as usize])
            .collect();
        headings.sort_unstable();
        headings.dedup();
        let headings: usize = headings.into_iter().map(|topic| needs.headings[topic.0 as usize]).sum();
        (group.units + copied + headings, copied)
    }

    fn take(&mut self, base: &Base, needs: &Needs, number: usize, group: &Group, cost: usize) {
        self.groups.push(number);
        self.units += cost;
        let mut topics = vec![group.topic];
        for at in needs.by_topic[group.topic.0 as usize].without(&self.constraints) {
            topics.push(base.items()[needs.pinned[at]].topic);
        }
        self.constraints.add(&needs.by_topic[group.topic.0 as usize]);
        for topic in topics.iter().flat_map(|topic| base.topics().ancestors(*topic)) {
            self.headed[topic.0 as usize] = true;
        }
    }
}

fn price_with_needs(base: &Base, index: usize) -> usize {
    let mut units = 0;
    let mut next = Some(index);
    while let Some(index) = next {
        units += price_alone(base, index, Form::Full);
        next = base.items()[index].layout.needs.map(|needed| needed as usize);
    }
    units
}

/// The items by topic, cut where a group would not fit on its own with its constraints.
pub(super) fn groups(base: &Base, needs: &Needs, budget: usize, grain: usize) -> Result<Vec<Group>, Box<TooNarrow>> {
    let mut by_topic: Vec<Vec<usize>> = vec![Vec::new(); base.topics().len()];
    for (index, item) in base.items().iter().enumerate() {
        by_topic[item.topic.0 as usize].push(index);
    }
    let mut groups = Vec::new();
    let mut worst = None;
    for (topic, items) in by_topic.into_iter().enumerate() {
        let topic = TopicId(topic as u32);
        let parts = if items.len() > SPLIT_ABOVE {
            let vectors: Vec<WordVector> =
                items.iter().map(|index| WordVector::of(base.text_of(&base.items()[*index]))).collect();
            let leaves = split(&vectors, SPLIT_ABOVE);
            leaves.into_iter().map(|leaf| leaf.members.into_iter().map(|m| items[m]).collect()).collect()
        } else {
            vec![items]
        };
        for part in parts {
            cut(base, needs, (budget, grain), topic, part, &mut groups, &mut worst);
        }
    }
    worst.map_or(Ok(groups), |refusal| Err(Box::new(refusal)))
}

/// Cut the items of one topic into groups that fit; what does not fit on its own is noted in `worst`.
fn cut(
    base: &Base,
    needs: &Needs,
    (budget, grain): (usize, usize),
    topic: TopicId,
    items: Vec<usize>,
    groups: &mut Vec<Group>,
    worst: &mut Option<TooNarrow>,
) {
    if items.is_empty() {
        return;
    }
    let tokenizer = base.tokenizer();
    let empty = Placed::empty(base, needs);
    // What the topic costs before its first item; its own constraints are counted as copies, for they may end up apart.
    let bare = empty.cost(base, needs, &Group { topic, items: Vec::new(), units: 0 }).0;
    let most = budget.saturating_sub(tokenizer.tokens(bare)) / grain;
    let mut group = Group { topic, items: Vec::new(), units: 0 };
    for index in items {
        let counted = needs.place[index].is_some_and(|at| needs.by_topic[topic.0 as usize].holds(at));
        let price = if counted { 0 } else { price_with_needs(base, index) };
        if !group.items.is_empty() && tokenizer.tokens(group.units + price) > most {
            groups.push(std::mem::replace(&mut group, Group { topic, items: Vec::new(), units: 0 }));
        }
        group.items.push(index);
        group.units += price;
        if group.items.len() == 1 && tokenizer.tokens(bare + price) > budget {
            // Prices are a little high: what really is needed decides.
            let placed = Placed { groups: vec![0], ..Placed::empty(base, needs) };
            let alone = [Group { topic, items: vec![index], units: 0 }];
            let (partition, _) = finish(base, needs, &placed, &alone, budget);
            if partition.tokens > budget && worst.as_ref().is_none_or(|worst| worst.needed < partition.tokens) {
                let bound = needs.by_topic[topic.0 as usize].iter().map(|at| {
                    let item = &base.items()[needs.pinned[at]];
                    Guard {
                        id: item.id,
                        line: item.line,
                        text: base.text_of(item).to_owned(),
                        risk: item.judgement.risk,
                    }
                });
                let line = base.items()[index].line;
                *worst = Some(TooNarrow { budget, needed: partition.tokens, line, constraints: bound.collect() });
            }
        }
    }
    groups.push(group);
    // From here on a group counts all its own items.
    for group in groups.iter_mut().rev().take_while(|group| group.topic == topic) {
        group.units = group.items.iter().map(|index| price_with_needs(base, *index)).sum();
    }
}

/// Orders in which groups are placed: as the document goes, largest first, and by the constraints that they call for.
pub(super) fn orders(needs: &Needs, groups: &[Group], many: bool) -> Vec<Vec<usize>> {
    let document: Vec<usize> = (0..groups.len()).collect();
    let mut by_size = document.clone();
    by_size.sort_by_key(|group| (std::cmp::Reverse(groups[*group].units), *group));
    if many {
        return vec![document, by_size];
    }
    let called = |group: &usize| &needs.by_topic[groups[*group].topic.0 as usize];
    let mut by_scope = document.clone();
    by_scope.sort_by(|a, b| called(b).cmp(called(a)).then(groups[*b].units.cmp(&groups[*a].units)).then(a.cmp(b)));
    let mut by_need = document.clone();
    by_need.sort_by_key(|group| {
        (std::cmp::Reverse(called(group).iter().count()), std::cmp::Reverse(groups[*group].units), *group)
    });
    vec![document, by_size, by_scope, by_need]
}

/// The open partition where a group fits with the fewest tokens of copies, the fullest of several, and its cost there.
fn fitting(base: &Base, needs: &Needs, open: &[Placed], group: &Group, budget: usize) -> Option<(usize, usize)> {
    let tokenizer = base.tokenizer();
    let mut best: Option<(usize, std::cmp::Reverse<usize>, usize, usize)> = None;
    for (at, placed) in open.iter().enumerate() {
        let (cost, copied) = placed.cost(base, needs, group);
        let key = (copied, std::cmp::Reverse(placed.units), at, cost);
        if tokenizer.tokens(placed.units + cost) <= budget && best.is_none_or(|best| key < best) {
            best = Some(key);
        }
    }
    best.map(|(_, _, at, cost)| (at, cost))
}

/// Empty one partition after the other into the rest, while that saves copies.
fn close(base: &Base, needs: &Needs, groups: &[Group], open: &mut Vec<Placed>, budget: usize) {
    let total = |open: &[Placed]| open.iter().map(|p| copies(base, needs, p, groups).1).sum::<usize>();
    let mut sum = total(open);
    'again: loop {
        let mut smallest: Vec<usize> = (0..open.len()).collect();
        smallest.sort_by_key(|at| (open[*at].units, *at));
        for victim in smallest {
            let mut rest = open.clone();
            let mut homeless = rest.remove(victim).groups;
            homeless.sort_by_key(|number| (std::cmp::Reverse(groups[*number].units), *number));
            let housed = homeless.into_iter().all(|number| {
                let found = fitting(base, needs, &rest, &groups[number], budget);
                if let Some((at, cost)) = found {
                    rest[at].take(base, needs, number, &groups[number], cost);
                }
                found.is_some()
            });
            if housed && total(&rest) < sum {
                sum = total(&rest);
                *open = rest;
                continue 'again;
            }
        }
        return;
    }
}

/// Put every group where it fits with the fewest tokens of copies.
pub(super) fn pack(
    base: &Base,
    needs: &Needs,
    groups: &[Group],
    order: &[usize],
    budget: usize,
    search: bool,
) -> Vec<Placed> {
    let mut open: Vec<Placed> = Vec::new();
    for number in order {
        let group = &groups[*number];
        let (at, cost) = fitting(base, needs, &open, group, budget).unwrap_or_else(|| {
            open.push(Placed::empty(base, needs));
            let at = open.len() - 1;
            (at, open[at].cost(base, needs, group).0)
        });
        open[at].take(base, needs, *number, group, cost);
    }
    if search {
        close(base, needs, groups, &mut open, budget);
    }
    // Prices add up to a little too much, so this hardly ever finds anything to do.
    let mut done: Vec<Placed> = Vec::new();
    while let Some(mut placed) = open.pop() {
        if placed.groups.len() > 1 && finish(base, needs, &placed, groups, budget).0.tokens > budget {
            if let Some(last) = placed.groups.pop() {
                open.push(Placed { groups: vec![last], ..Placed::empty(base, needs) });
            }
            open.push(placed);
        } else {
            done.push(placed);
        }
    }
    done
}

/// Items placed and copied in a partition, and the units of the copies.
pub(super) fn copies(
    base: &Base,
    needs: &Needs,
    placed: &Placed,
    groups: &[Group],
) -> ((Vec<usize>, Vec<usize>), usize) {
    let mut here = vec![false; base.items().len()];
    let mut items: Vec<usize> = Vec::new();
    let mut wanted = Set::empty(needs.pinned.len());
    for group in placed.groups.iter().map(|number| &groups[*number]) {
        items.extend(&group.items);
        wanted.add(&needs.by_topic[group.topic.0 as usize]);
    }
    items.sort_unstable();
    for index in &items {
        here[*index] = true;
    }
    let mut copied = Vec::new();
    let mut units = 0;
    let called = wanted.iter().map(|at| needs.pinned[at]);
    for start in items.iter().copied().chain(called) {
        let mut next = Some(start);
        while let Some(index) = next {
            if !std::mem::replace(&mut here[index], true) {
                copied.push(index);
                units += price_alone(base, index, Form::Full);
            }
            next = base.items()[index].layout.needs.map(|needed| needed as usize);
        }
    }
    copied.sort_unstable();
    ((items, copied), units)
}

pub(super) fn finish(
    base: &Base,
    needs: &Needs,
    placed: &Placed,
    groups: &[Group],
    budget: usize,
) -> (Partition, usize) {
    let ((items, copies), units) = copies(base, needs, placed, groups);
    let mut choice: Vec<Option<Form<'static>>> = vec![None; base.items().len()];
    for index in items.iter().chain(&copies) {
        choice[*index] = Some(Form::Full);
    }
    let mut text = render(base, &choice, Headings::Keep).text;
    let mut tokens = base.tokenizer().count(&text);
    // What lost its neighbours must read as what it was; where the empty lines for that do not fit, the words still do.
    let mended = apart(base, &mut choice).text;
    let needed = base.tokenizer().count(&mended);
    if mended != text && needed <= budget {
        (text, tokens) = (mended, needed);
    }
    (Partition { items, copies, text, tokens }, units)
}
