//! How groups are placed, so that few constraints have to be copied.

use super::super::base::Base;
use super::super::readback::apart;
use super::super::render::{Form, Headings, render};
use super::Partition;
use super::groups::Group;
use super::needs::{Needs, headed_topics};

/// How many of the last partitions a group is tried in where there are very many.
const TRIED: usize = 64;

/// What a partition holds while it is filled.
#[derive(Clone)]
pub(super) struct Placed {
    /// By their numbers.
    pub(super) groups: Vec<usize>,
    /// By item: how many groups bring it, what stands everywhere counting as brought once more.
    printed: Vec<u32>,
    /// By topic: how many groups bring its heading.
    headed: Vec<u32>,
    /// Units of the items printed.
    items: usize,
    /// Units of the headings printed.
    headings: usize,
}

impl Placed {
    pub(super) fn empty(base: &Base, needs: &Needs) -> Self {
        let mut placed = Self {
            groups: Vec::new(),
            printed: vec![0; base.items().len()],
            headed: vec![0; base.topics().len()],
            items: 0,
            headings: 0,
        };
        for index in &needs.everywhere {
            placed.printed[*index] = 1;
            placed.items += needs.prices[*index];
        }
        for topic in headed_topics(base, &needs.everywhere) {
            placed.headed[topic.0 as usize] = 1;
            placed.headings += needs.headings[topic.0 as usize];
        }
        placed
    }

    /// Units of everything printed.
    pub(super) fn units(&self) -> usize {
        self.items + self.headings
    }

    /// What the partition counts: its items, whatever they are there for, since each is placed once and all others are
    /// copies; of its headings a quarter, so that topics are not torn apart without need. Nothing when it is empty.
    pub(super) fn weight(&self) -> f64 {
        if self.groups.is_empty() { 0.0 } else { self.items as f64 + 0.25 * self.headings as f64 }
    }

    /// Units of items and of headings that a group adds.
    fn added(&self, needs: &Needs, group: &Group) -> (usize, usize) {
        let items = group.brought.iter().filter(|index| self.printed[**index] == 0).map(|index| needs.prices[*index]);
        let topics = group.topics.iter().map(|topic| topic.0 as usize).filter(|topic| self.headed[*topic] == 0);
        (items.sum(), topics.map(|topic| needs.headings[topic]).sum())
    }

    pub(super) fn take(&mut self, needs: &Needs, number: usize, group: &Group) {
        self.groups.push(number);
        for index in &group.brought {
            if self.printed[*index] == 0 {
                self.items += needs.prices[*index];
            }
            self.printed[*index] += 1;
        }
        for topic in group.topics.iter().map(|topic| topic.0 as usize) {
            if self.headed[topic] == 0 {
                self.headings += needs.headings[topic];
            }
            self.headed[topic] += 1;
        }
    }

    /// The opposite of [`Self::take`].
    pub(super) fn give(&mut self, needs: &Needs, number: usize, group: &Group) {
        self.groups.retain(|other| *other != number);
        for index in &group.brought {
            self.printed[*index] -= 1;
            if self.printed[*index] == 0 {
                self.items -= needs.prices[*index];
            }
        }
        for topic in group.topics.iter().map(|topic| topic.0 as usize) {
            self.headed[topic] -= 1;
            if self.headed[topic] == 0 {
                self.headings -= needs.headings[topic];
            }
        }
    }
}

/// Orders in which groups are placed: as the document goes, largest first, and by the constraints that they call for.
pub(super) fn orders(needs: &Needs, groups: &[Group], many: bool) -> Vec<Vec<usize>> {
    let document: Vec<usize> = (0..groups.len()).collect();
    let units: Vec<usize> =
        groups.iter().map(|group| group.items.iter().map(|index| needs.prices[*index]).sum()).collect();
    let larger = |a: &usize, b: &usize| units[*b].cmp(&units[*a]).then(a.cmp(b));
    let mut by_size = document.clone();
    by_size.sort_by(larger);
    if many {
        return vec![document, by_size];
    }
    let called = |group: &usize| &needs.by_topic[groups[*group].topic.0 as usize];
    let mut by_scope = document.clone();
    by_scope.sort_by(|a, b| called(b).cmp(called(a)).then(larger(a, b)));
    let mut by_need = document.clone();
    by_need.sort_by(|a, b| called(b).len().cmp(&called(a).len()).then(larger(a, b)));
    vec![document, by_size, by_scope, by_need]
}

/// Put every group, in this order, where it fits and adds the fewest units of items; into the fullest of several.
pub(super) fn pack(base: &Base, needs: &Needs, groups: &[Group], order: &[usize], budget: usize) -> Vec<Placed> {
    let tokenizer = base.tokenizer();
    let mut open: Vec<Placed> = Vec::new();
    for number in order {
        let group = &groups[*number];
        let from = open.len().saturating_sub(TRIED);
        let fitting = |at: usize| {
            let (items, headings) = open[at].added(needs, group);
            let units = open[at].units();
            (tokenizer.tokens(units + items + headings) <= budget).then_some((items, std::cmp::Reverse(units), at))
        };
        let at = (from..open.len()).filter_map(fitting).min().map_or_else(|| open.len(), |(_, _, at)| at);
        if at == open.len() {
            open.push(Placed::empty(base, needs));
        }
        open[at].take(needs, *number, group);
    }
    open
}

/// Print the partitions. Prices are not exact: where one came out too large, groups are taken out of it again.
pub(super) fn print(
    base: &Base,
    needs: &Needs,
    groups: &[Group],
    mut open: Vec<Placed>,
    budget: usize,
) -> Vec<Partition> {
    open.retain(|placed| !placed.groups.is_empty());
    let mut done: Vec<Partition> = Vec::new();
    let mut homeless: Vec<usize> = Vec::new();
    for placed in &mut open {
        loop {
            let partition = finish(base, placed, groups, budget);
            if partition.tokens <= budget || placed.groups.len() < 2 {
                done.push(partition);
                break;
            }
            for out in surplus(base, needs, groups, placed, partition.tokens - budget) {
                placed.give(needs, out, &groups[out]);
                homeless.push(out);
            }
        }
    }
    // A group alone fits for certain, so this comes to an end.
    if !homeless.is_empty() {
        let tight = pack(base, needs, groups, &homeless, budget);
        done.extend(print(base, needs, groups, tight, budget));
    }
    done
}

/// Groups of a partition that make up for so many tokens: the smallest one that does alone, else the largest until they
/// do. One group always stays.
fn surplus(base: &Base, needs: &Needs, groups: &[Group], placed: &Placed, over: usize) -> Vec<usize> {
    let tokens = |number: &usize| {
        base.tokenizer().tokens(groups[*number].items.iter().map(|index| needs.prices[*index]).sum::<usize>())
    };
    let mut by_size: Vec<(usize, usize)> = placed.groups.iter().map(|number| (tokens(number), *number)).collect();
    by_size.sort_unstable();
    if let Some((_, number)) = by_size.iter().find(|(tokens, _)| *tokens >= over) {
        return vec![*number];
    }
    let mut left = over;
    let mut out = Vec::new();
    for (tokens, number) in by_size.into_iter().skip(1).rev() {
        out.push(number);
        left = left.saturating_sub(tokens);
        if left == 0 {
            break;
        }
    }
    out
}

pub(super) fn finish(base: &Base, placed: &Placed, groups: &[Group], budget: usize) -> Partition {
    let mut items: Vec<usize> = placed.groups.iter().flat_map(|number| groups[*number].items.iter().copied()).collect();
    items.sort_unstable();
    let printed = |index: &usize| placed.printed[*index] > 0;
    let copies = (0..base.items().len()).filter(printed).filter(|index| items.binary_search(index).is_err()).collect();
    let mut choice: Vec<Option<Form<'static>>> =
        placed.printed.iter().map(|count| (*count > 0).then_some(Form::Full)).collect();
    let mut text = render(base, &choice, Headings::Keep).text;
    let mut tokens = base.tokenizer().count(&text);
    // What lost its neighbours must read as what it was; where the empty lines for that do not fit, the words still do.
    let mended = apart(base, &mut choice).text;
    let needed = base.tokenizer().count(&mended);
    if mended != text && needed <= budget {
        (text, tokens) = (mended, needed);
    }
    Partition { items, copies, text, tokens }
}
