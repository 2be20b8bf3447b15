//! How the room that the hard lane leaves is handed out: every way to spend tokens is a step, and steps are taken while
//! they fit.

use super::super::base::Base;
use super::super::render::{Choice, Form, Headings, Short, price, price_alone, price_heading};
use super::super::shorten::{essence, gist, terse};
use super::super::topics::TopicId;
use super::with_needs;
use crate::taxonomy::{ItemKind, KnowledgeType};

/// The shorter forms of one item.
#[derive(Default)]
pub(super) struct Shorter {
    /// What it is about: little of it.
    essence: Option<Short>,
    /// What it says, without the words that only join others.
    terse: Option<Short>,
}

pub(super) fn shorter(base: &Base, index: usize) -> Shorter {
    let item = &base.items()[index];
    let (text, kind) = (base.text_of(item), item.kind);
    let measured = |text: String| {
        let short = Short::new(base, index, text);
        (short.units < item.layout.units).then_some(short)
    };
    match item.lane() {
        KnowledgeType::Constraint | KnowledgeType::Meta => Shorter::default(),
        KnowledgeType::Episodic => Shorter { essence: gist(text, kind).and_then(measured), terse: None },
        KnowledgeType::Procedural | KnowledgeType::Belief | KnowledgeType::Preference => {
            let terse = terse(text, kind).and_then(measured);
            let essence = essence(text, kind).and_then(measured);
            let essence = essence.filter(|e| terse.as_ref().is_none_or(|t| e.units < t.units));
            Shorter { essence, terse }
        }
    }
}

/// One way to spend tokens: print an item in a form, instead of a shorter form or of nothing.
pub(super) struct Step<'a> {
    /// Steps of a lower rank are tried first.
    pub(super) rank: u8,
    /// Among steps of one rank, cheaper ones are tried first.
    pub(super) cost: usize,
    pub(super) index: usize,
    pub(super) form: Form<'a>,
}

/// By topic: what an item under it bears of the heading that is printed with the first of them; nothing where `core` prints
/// it already. Without this, items would be spread over more sections than need be, and the headings take their room.
fn heading_shares(base: &Base, core: &Choice<'_>) -> Vec<usize> {
    let mut headed = vec![false; base.topics().len()];
    let mut sharing = vec![0usize; base.topics().len()];
    for (item, form) in base.items().iter().zip(core) {
        match form {
            Some(_) => base.topics().ancestors(item.topic).for_each(|above| headed[above.0 as usize] = true),
            None => sharing[item.topic.0 as usize] += 1,
        }
    }
    let topics = (0..).map(TopicId).zip(headed.into_iter().zip(sharing));
    topics
        .map(|(topic, (headed, sharing))| if headed || sharing == 0 { 0 } else { price_heading(base, topic) / sharing })
        .collect()
}

/// The steps in the order in which they are tried: by rank, then cheapest first, so that as many items as possible are
/// kept, then in document order.
pub(super) fn steps<'a>(base: &Base, core: &Choice<'_>, shorter: &'a [Shorter]) -> Vec<Step<'a>> {
    let shares = heading_shares(base, core);
    let mut steps = Vec::with_capacity(2 * base.items().len());
    for (index, item) in base.items().iter().enumerate() {
        if core[index].is_some() || item.pinned() {
            continue;
        }
        let Shorter { essence, terse } = &shorter[index];
        let share = shares[item.topic.0 as usize];
        let mut add = |rank, form| steps.push(Step { rank, cost: price_alone(base, index, form) + share, index, form });
        // Facts, tastes and placeholders of what happened: many, and each says little. Procedures in short, each of which
        // takes the room of several of those; the essence of what did not fit; then room is given back, to procedures first.
        match item.lane() {
            KnowledgeType::Constraint => {}
            KnowledgeType::Procedural if item.kind == ItemKind::Setting && index == 0 => add(0, Form::Full),
            KnowledgeType::Procedural => {
                add(2, terse.as_ref().map_or(Form::Full, Form::Short));
                essence.iter().for_each(|short| add(3, Form::Short(short)));
                add(4, Form::Full);
            }
            KnowledgeType::Belief | KnowledgeType::Preference => {
                add(1, terse.as_ref().map_or(Form::Full, Form::Short));
                essence.iter().for_each(|short| add(3, Form::Short(short)));
                add(5, Form::Full);
            }
            KnowledgeType::Episodic => {
                add(1, essence.as_ref().map_or(Form::Full, Form::Short));
                add(6, Form::Full);
            }
            KnowledgeType::Meta => add(7, Form::Full),
        }
    }
    steps.sort_by_key(|step| (step.rank, step.cost, step.index));
    steps
}

/// The item of a step and, unless only its words are printed, what it hangs on.
fn held_by(base: &Base, step: &Step<'_>, mut visit: impl FnMut(usize)) {
    match step.form {
        Form::Bare(_) => visit(step.index),
        _ => with_needs(base, step.index, visit),
    }
}

/// A choice that grows step by step and can be taken back.
pub(super) struct Filling<'b, 'a> {
    base: &'b Base,
    pub(super) choice: Vec<Option<Form<'a>>>,
    /// Topics whose heading is printed.
    headed: Vec<bool>,
    heading_units: Vec<Option<usize>>,
    /// Every change: item, and what was printed of it before.
    log: Vec<(usize, Option<Form<'a>>)>,
    /// Headings that a step would add; kept, for steps are tried by the ten thousand.
    unheaded: Vec<TopicId>,
}

impl<'b, 'a> Filling<'b, 'a> {
    pub(super) fn new(base: &'b Base, choice: Vec<Option<Form<'a>>>) -> Self {
        let topics = base.topics().len();
        let mut filling = Self {
            base,
            choice,
            headed: vec![false; topics],
            heading_units: vec![None; topics],
            log: Vec::new(),
            unheaded: Vec::new(),
        };
        for index in 0..filling.choice.len() {
            if filling.choice[index].is_some() {
                filling.head(base.items()[index].topic);
            }
        }
        filling
    }

    fn head(&mut self, topic: TopicId) {
        for above in self.base.topics().ancestors(topic) {
            self.headed[above.0 as usize] = true;
        }
    }

    /// What the step would add, a little too much rather than too little; nothing when it improves nothing.
    fn cost(&mut self, step: &Step<'a>, headings: Headings) -> Option<isize> {
        let base = self.base;
        let before = self.choice[step.index].map_or(0, |form| price_alone(base, step.index, form));
        let after = price_alone(base, step.index, step.form);
        if self.choice[step.index].is_some() && after <= before {
            return None;
        }
        let mut cost = after as isize - before as isize;
        let Self { choice, headed, heading_units, unheaded, .. } = self;
        unheaded.clear();
        held_by(base, step, |index| {
            if index != step.index && !choice[index].is_some_and(Form::is_whole) {
                let had = choice[index].map_or(0, |form| price_alone(base, index, form));
                cost += price_alone(base, index, Form::Full) as isize - had as isize;
            }
            if headings == Headings::Keep {
                let above = base.topics().ancestors(base.items()[index].topic);
                unheaded.extend(above.filter(|topic| !headed[topic.0 as usize]));
            }
        });
        unheaded.sort_unstable();
        unheaded.dedup();
        for topic in unheaded {
            let units = *heading_units[topic.0 as usize].get_or_insert_with(|| price_heading(base, *topic));
            cost += units as isize;
        }
        Some(cost)
    }

    fn take(&mut self, step: &Step<'a>) {
        let base = self.base;
        held_by(base, step, |index| {
            let form = if index == step.index { step.form } else { Form::Full };
            let there = index != step.index && self.choice[index].is_some_and(Form::is_whole);
            if !there && self.choice[index] != Some(form) {
                self.log.push((index, self.choice[index].replace(form)));
            }
            self.head(base.items()[index].topic);
        });
    }

    /// Take back the last change.
    fn undo(&mut self) -> bool {
        let Some((index, before)) = self.log.pop() else { return false };
        self.choice[index] = before;
        true
    }

    /// Take as many steps as fit into `cap` units, and return the exact units of the result.
    pub(super) fn fill(&mut self, steps: &[Step<'a>], cap: impl Fn(usize) -> bool, headings: Headings) -> usize {
        let mut exact = price(self.base, &self.choice, headings);
        // Prices of single steps are a little too high: what they leave is handed out in further passes.
        for _ in 0..3 {
            let before = self.log.len();
            let mut sum = exact;
            for step in steps {
                let Some(cost) = self.cost(step, headings) else { continue };
                let next = sum.saturating_add_signed(cost);
                if cap(next) {
                    self.take(step);
                    sum = next;
                }
            }
            exact = price(self.base, &self.choice, headings);
            let mut back = 1;
            while !cap(exact) && self.log.len() > before {
                for _ in 0..back {
                    if self.log.len() > before {
                        self.undo();
                    }
                }
                back *= 2;
                exact = price(self.base, &self.choice, headings);
            }
            if self.log.len() == before {
                break;
            }
        }
        exact
    }
}
