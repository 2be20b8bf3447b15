//! TypeDecompose (the paper's Algorithm 2): partitions by topic, each with every constraint that binds in it.

use super::base::Base;
use super::kmeans::{WordVector, split};
use super::render::{Choice, Form, Headings, price_alone, price_heading, render};
use super::tokens::Budget;
use super::topics::{Scope, TopicId};
use super::verify::Guard;
use serde::Serialize;

/// Topics with more items than this are split by what their items are about.
pub const SPLIT_ABOVE: usize = 200;

/// One part of a base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    /// Indices of the items that were placed here, ascending. Every item is placed in exactly one partition.
    pub items: Vec<usize>,
    /// Indices of items that were copied here: constraints that bind here, and heads of tables and entries that an item
    /// cannot be printed without.
    pub copies: Vec<usize>,
    /// Its text: Markdown, in document order.
    pub text: String,
    /// Tokens of the text; never more than the budget.
    pub tokens: usize,
}

/// A base in parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decomposition {
    /// The parts, by their first item.
    pub partitions: Vec<Partition>,
    /// Tokens of the base.
    pub tokens_in: usize,
    /// Tokens of copies ÷ tokens of the base.
    pub overhead: f64,
}

/// Why a base cannot be decomposed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TooNarrow {
    /// The budget in tokens.
    pub budget: usize,
    /// What the largest item needs together with its constraints: from here on nothing is refused.
    pub needed: usize,
    /// 1-based line of that item.
    pub line: u32,
    /// The constraints that bind where it stands.
    pub constraints: Vec<Guard>,
}

/// How far a set of partitions keeps constraints where they bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Locality {
    /// How many partitions there are.
    pub partitions: usize,
    /// How many of them hold an item without a constraint that binds there.
    pub violating: usize,
    /// Pairs of a partition and a constraint missing from it.
    pub missing: usize,
}

/// Split `base` into partitions of at most `budget` tokens each.
///
/// Every item is in one partition; every constraint is in each partition that holds an item, placed or copied, of a
/// topic in its scope. An item that does not fit together with its constraints makes the whole refuse.
///
/// ```
/// use aac::taxonomy::KnowledgeType::{Belief, Constraint};
/// use aac::triage::{Base, Budget, Judgement, Tokenizer, decompose};
///
/// let text = "# Rules\n\n- Never push.\n\n# Web\n\n- React renders the pages.\n\n# Data\n\n- Postgres holds them.\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |item| {
///     Judgement::certain(if item.text.starts_with("Never") { Constraint } else { Belief })
/// });
/// let parts = decompose(&base, Budget::Tokens(16)).unwrap();
/// assert_eq!(parts.partitions.len(), 2);
/// assert!(parts.partitions.iter().all(|p| p.text.contains("Never push.") && p.tokens <= 16));
/// ```
pub fn decompose(base: &Base, budget: Budget) -> Result<Decomposition, Box<TooNarrow>> {
    let budget = budget.of(base.tokens());
    let needs = Needs::of(base);
    let groups = groups(base, &needs, budget)?;
    // Two orders, and the one that copies less: as the document goes, and largest first.
    let mut by_size: Vec<usize> = (0..groups.len()).collect();
    by_size.sort_by_key(|group| (std::cmp::Reverse(groups[*group].units), *group));
    let orders = [(0..groups.len()).collect::<Vec<_>>(), by_size];
    let packings = orders.iter().map(|order| pack(base, &needs, &groups, order, budget));
    let best = packings.min_by_key(|placed| placed.iter().map(|p| copies(base, &needs, p, &groups).1).sum::<usize>());
    let mut partitions: Vec<Partition> = Vec::new();
    let mut copied = 0;
    for placed in best.unwrap_or_default() {
        let (partition, units) = finish(base, &needs, &placed, &groups);
        copied += units;
        partitions.push(partition);
    }
    partitions.sort_by_key(|partition| partition.items.first().copied());
    let overhead = base.tokenizer().tokens(copied) as f64 / base.tokens().max(1) as f64;
    Ok(Decomposition { partitions, tokens_in: base.tokens(), overhead })
}

/// Count where `partitions` (indices of items) break the rule that a constraint stands wherever it binds.
pub fn locality(base: &Base, partitions: &[Vec<usize>]) -> Locality {
    let scopes = base.scopes();
    let items = base.items();
    let mut locality = Locality { partitions: partitions.len(), violating: 0, missing: 0 };
    for partition in partitions {
        let held: std::collections::HashSet<&str> = partition.iter().map(|i| base.text_of(&items[*i])).collect();
        let mut topics: Vec<TopicId> = partition.iter().map(|i| items[*i].topic).collect();
        topics.sort_unstable();
        topics.dedup();
        let binds = |scope: &Scope| topics.iter().any(|topic| scope.covers(*topic));
        let missing = scopes
            .iter()
            .enumerate()
            .filter(|(index, scope)| scope.as_ref().is_some_and(binds) && !held.contains(base.text_of(&items[*index])))
            .count();
        locality.missing += missing;
        locality.violating += usize::from(missing > 0);
    }
    locality
}

/// A set of constraints, by their place among the pinned items.
#[derive(Debug, Clone, PartialEq, Default)]
struct Set(Vec<u64>);

impl Set {
    fn empty(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn holds(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    fn without(&self, other: &Self) -> impl Iterator<Item = usize> + use<> {
        let words: Vec<u64> = self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect();
        words
            .into_iter()
            .enumerate()
            .flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit))
    }

    fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.without(&Self(vec![0; self.0.len()]))
    }
}

/// Which constraints each topic calls for.
struct Needs {
    /// Item index of every constraint.
    pinned: Vec<usize>,
    /// Place among the constraints, by item index.
    place: Vec<Option<usize>>,
    /// By topic: the constraints that bind in it, and those that bind where one of these stands, and so on.
    by_topic: Vec<Set>,
    /// By topic: units of its heading.
    headings: Vec<usize>,
}

impl Needs {
    fn of(base: &Base) -> Self {
        let scopes = base.scopes();
        let pinned: Vec<usize> = (0..scopes.len()).filter(|index| scopes[*index].is_some()).collect();
        let mut place = vec![None; scopes.len()];
        for (at, index) in pinned.iter().enumerate() {
            place[*index] = Some(at);
        }
        let topics = base.topics().len();
        let mut direct = vec![Set::empty(pinned.len()); topics];
        for (at, index) in pinned.iter().enumerate() {
            match &scopes[*index] {
                Some(Scope::Topics(ranges)) => {
                    for topic in ranges.iter().flat_map(|range| range.clone()) {
                        direct[topic as usize].insert(at);
                    }
                }
                _ => direct.iter_mut().for_each(|set| set.insert(at)),
            }
        }
        // A copy brings its own topic along, and with it what binds there.
        let by_topic = (0..topics)
            .map(|topic| {
                let mut closed = direct[topic].clone();
                let mut visited = vec![false; topics];
                visited[topic] = true;
                let mut open: Vec<usize> = closed.iter().collect();
                while let Some(at) = open.pop() {
                    let from = base.items()[pinned[at]].topic.0 as usize;
                    if !std::mem::replace(&mut visited[from], true) {
                        open.extend(direct[from].without(&closed));
                        closed.add(&direct[from]);
                    }
                }
                closed
            })
            .collect();
        let headings = (0..topics).map(|topic| price_heading(base, TopicId(topic as u32))).collect();
        Self { pinned, place, by_topic, headings }
    }
}

/// Items of one topic that stay together.
struct Group {
    topic: TopicId,
    items: Vec<usize>,
    /// Units of the items without headings.
    units: usize,
}

/// What a partition holds while it is filled.
struct Placed {
    groups: Vec<usize>,
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
fn groups(base: &Base, needs: &Needs, budget: usize) -> Result<Vec<Group>, Box<TooNarrow>> {
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
            cut(base, needs, budget, topic, part, &mut groups, &mut worst);
        }
    }
    worst.map_or(Ok(groups), |refusal| Err(Box::new(refusal)))
}

/// Cut the items of one topic into groups that fit; what does not fit on its own is noted in `worst`.
fn cut(
    base: &Base,
    needs: &Needs,
    budget: usize,
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
    let mut group = Group { topic, items: Vec::new(), units: 0 };
    for index in items {
        let counted = needs.place[index].is_some_and(|at| needs.by_topic[topic.0 as usize].holds(at));
        let price = if counted { 0 } else { price_with_needs(base, index) };
        if !group.items.is_empty() && tokenizer.tokens(bare + group.units + price) > budget {
            groups.push(std::mem::replace(&mut group, Group { topic, items: Vec::new(), units: 0 }));
        }
        group.items.push(index);
        group.units += price;
        if group.items.len() == 1 && tokenizer.tokens(bare + price) > budget {
            // Prices are a little high: what really is needed decides.
            let placed = Placed { groups: vec![0], ..Placed::empty(base, needs) };
            let alone = [Group { topic, items: vec![index], units: 0 }];
            let (partition, _) = finish(base, needs, &placed, &alone);
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

/// Put every group where it fits with the fewest tokens of copies.
fn pack(base: &Base, needs: &Needs, groups: &[Group], order: &[usize], budget: usize) -> Vec<Placed> {
    let tokenizer = base.tokenizer();
    let mut open: Vec<Placed> = Vec::new();
    for number in order {
        let group = &groups[*number];
        let mut best: Option<(usize, usize, usize)> = None;
        for (at, placed) in open.iter().enumerate() {
            let (cost, copied) = placed.cost(base, needs, group);
            if tokenizer.tokens(placed.units + cost) <= budget && best.is_none_or(|(fewest, ..)| copied < fewest) {
                best = Some((copied, at, cost));
            }
        }
        let (at, cost) = match best {
            Some((_, at, cost)) => (at, cost),
            None => {
                open.push(Placed::empty(base, needs));
                let at = open.len() - 1;
                (at, open[at].cost(base, needs, group).0)
            }
        };
        open[at].take(base, needs, *number, group, cost);
    }
    // Prices add up to a little too much, so this hardly ever finds anything to do.
    let mut done: Vec<Placed> = Vec::new();
    while let Some(mut placed) = open.pop() {
        if placed.groups.len() > 1 && finish(base, needs, &placed, groups).0.tokens > budget {
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
fn copies(base: &Base, needs: &Needs, placed: &Placed, groups: &[Group]) -> ((Vec<usize>, Vec<usize>), usize) {
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

fn finish(base: &Base, needs: &Needs, placed: &Placed, groups: &[Group]) -> (Partition, usize) {
    let ((items, copies), units) = copies(base, needs, placed, groups);
    let mut choice: Vec<Option<Form<'_>>> = vec![None; base.items().len()];
    for index in items.iter().chain(&copies) {
        choice[*index] = Some(Form::Full);
    }
    let choice: &Choice<'_> = &choice;
    let text = render(base, choice, Headings::Keep).text;
    let tokens = base.tokenizer().count(&text);
    (Partition { items, copies, text, tokens }, units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::Judgement;
    use crate::triage::tokens::Tokenizer;
    use proptest::prelude::*;

    fn base(text: &str) -> Base {
        crate::triage::base::tests::base(text)
    }

    #[test]
    fn a_local_rule_stays_at_home_and_a_global_one_goes_everywhere() {
        let text = "# Rules\n\n- Never push.\n\n# Web\n\n- Never inline styles.\n- React renders all of the pages.\n\n# Data\n\n- Postgres holds them all, in tables.\n";
        let parts = decompose(&base(text), Budget::Tokens(24)).unwrap();
        assert_eq!(parts.partitions.iter().filter(|p| p.text.contains("Never push")).count(), parts.partitions.len());
        assert_eq!(parts.partitions.iter().filter(|p| p.text.contains("inline styles")).count(), 1);
        assert!(parts.overhead > 0.0);
    }

    #[test]
    fn what_does_not_fit_with_its_constraints_is_named() {
        let text = "# Rules\n\n- Never push to a branch that is not your own, whatever the reason may be.\n\n# Web\n\n- React\n";
        let error = decompose(&base(text), Budget::Tokens(15)).unwrap_err();
        assert!(error.needed > 15 && error.constraints.len() == 1, "{error:?}");
        assert!(decompose(&base(text), Budget::Tokens(error.needed)).is_ok());
    }

    #[test]
    fn large_topics_are_split_by_what_they_are_about() {
        let items: String = (0..450)
            .map(|n| {
                if n % 2 == 0 {
                    format!("- database table index {n}\n")
                } else {
                    format!("- button colour style {n}\n")
                }
            })
            .collect();
        let parts = decompose(&base(&format!("# Facts\n\n{items}")), Budget::Tokens(100_000)).unwrap();
        assert_eq!(parts.partitions.len(), 1);
        let parts = decompose(&base(&format!("# Facts\n\n{items}")), Budget::Tokens(900)).unwrap();
        let alike: usize = parts
            .partitions
            .iter()
            .map(|p| {
                let even = p.items.iter().filter(|i| **i % 2 == 0).count();
                even.max(p.items.len() - even)
            })
            .sum();
        assert!(parts.partitions.len() > 2 && alike >= 400, "{alike} of 450 stand among their like");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Zero violations, every item in one place, nothing over the budget, for random bases and scopes.
        #[test]
        fn constraints_stand_wherever_they_bind(
            sections in prop::collection::vec(
                ("(Rules|Web|Data|Deploy|Build|Safety)", 1usize..4, prop::collection::vec((prop::bool::ANY, "[a-z]{2,6}( (web|data|deploy|build))?( [(]scope: (web|data|nowhere)[)])?( [a-z]{2,6}){0,6}"), 0..5)),
                1..8,
            ),
            share in 10.0f64..110.0,
            tokenizer in prop::sample::select(&Tokenizer::ALL[..]),
        ) {
            let mut text = String::from("Intro\n\n");
            for (name, level, items) in &sections {
                text += &format!("{} {name}\n\n", "#".repeat(*level));
                for (rule, words) in items {
                    text += &format!("- {}{words}\n", if *rule { "Never " } else { "" });
                }
                text += "\n";
            }
            let base = Base::read("a.md", &text, tokenizer, |item| Judgement::certain(
                if item.text.starts_with("Never") { crate::taxonomy::KnowledgeType::Constraint } else { crate::taxonomy::KnowledgeType::Belief }
            ));
            match decompose(&base, Budget::Percent(share)) {
                Ok(parts) => {
                    let all: Vec<Vec<usize>> = parts.partitions.iter().map(|p| [&p.items[..], &p.copies].concat()).collect();
                    prop_assert_eq!(locality(&base, &all).missing, 0);
                    let mut placed: Vec<usize> = parts.partitions.iter().flat_map(|p| p.items.clone()).collect();
                    placed.sort_unstable();
                    prop_assert_eq!(placed, (0..base.items().len()).collect::<Vec<_>>());
                    let budget = Budget::Percent(share).of(base.tokens());
                    for p in &parts.partitions {
                        prop_assert!(tokenizer.count(&p.text) <= budget, "{} > {budget}: {:?}", p.tokens, p.text);
                        for index in p.items.iter().chain(&p.copies) {
                            prop_assert!(p.text.contains(base.text_of(&base.items()[*index])));
                        }
                    }
                }
                Err(refused) => prop_assert!(refused.needed > refused.budget),
            }
        }
    }
}
