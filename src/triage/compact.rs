//! TypeCompact (the paper's Algorithm 1): constraints whole or not at all, procedures as they are while there is room,
//! beliefs and preferences shortened, episodes as placeholders.

use super::base::{Base, Item, ItemId};
use super::render::{Choice, Form, Headings, Rendered, Short, price, price_alone, price_heading, render};
use super::shorten::{essence, gist, without_fillers};
use super::tokens::Budget;
use super::topics::TopicId;
use super::verify::{Guard, guards, missing};
use crate::taxonomy::{ItemKind, KnowledgeType};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// An item that an output does not hold as it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The item.
    pub id: ItemId,
    /// Its line in the input, 1-based.
    pub line: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub item_type: KnowledgeType,
    /// The beginning of its text.
    pub text: String,
}

/// A compacted text.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// The text: Markdown, in document order.
    pub output: String,
    /// Its tokens; never more than the budget.
    pub tokens_out: usize,
    /// How many flagged constraints it holds word for word.
    pub pinned: usize,
    /// Items that were shortened.
    pub compressed: Vec<Change>,
    /// Items that were left out, duplicates of constraints that are kept among them.
    pub dropped: Vec<Change>,
    /// How many constraints the verifier had to put back.
    pub restored: usize,
    /// Item of the input and where its text stands in the output.
    places: Vec<(usize, std::ops::Range<usize>)>,
}

impl Compaction {
    /// The base of the output, with the ids and judgements of `base`, which it was made from: what was labelled once is
    /// never labelled again, however often it is compacted.
    pub fn rebase(&self, base: &Base) -> Base {
        let found = crate::segment::segment(base.path(), &self.output);
        let by_start: HashMap<usize, &Item> =
            self.places.iter().map(|(index, range)| (range.start, &base.items()[*index])).collect();
        let ids = by_start.iter().map(|(start, item)| (*start, item.id)).collect();
        // An item that is read otherwise than it was printed lies within one that was printed.
        let within = |at: usize| {
            let next = self.places.partition_point(|(_, range)| range.start <= at);
            next.checked_sub(1).map(|last| &base.items()[self.places[last].0])
        };
        let judged: Vec<_> = found
            .items
            .iter()
            .map(|span| {
                let start = span.start as usize;
                by_start.get(&start).copied().or_else(|| within(start)).map_or(
                    super::base::Judgement { item_type: KnowledgeType::Meta, risk: 0.0, pinned: false },
                    |item| item.judgement,
                )
            })
            .collect();
        Base::assemble(base.path(), &self.output, base.tokenizer(), found, &judged, Some(&ids))
    }
}

/// Why there is no safe output.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Flagged constraints that a best effort could not keep, riskiest first.
    pub lost: Vec<Guard>,
    /// The most that fits, by risk. It is **not** safe.
    pub best_effort: Compaction,
}

/// The answer of [`compact`]. There is no third one.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Within the budget and with every flagged constraint word for word.
    Safe(Compaction),
    /// The flagged constraints do not fit into the budget.
    Unsafe(Refusal),
}

/// What [`compact`] found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Tokens of the input.
    pub tokens_in: usize,
    /// The budget in tokens.
    pub budget: usize,
    /// The smallest budget with a safe answer: what the flagged constraints need with their headings.
    pub min_safe_budget: usize,
    /// What constraints and procedures need together: from here on no procedure is touched.
    pub min_full_budget: usize,
    /// Safe or unsafe.
    pub verdict: Verdict,
}

impl Outcome {
    /// The output, when it is safe.
    pub fn safe(&self) -> Option<&Compaction> {
        match &self.verdict {
            Verdict::Safe(compaction) => Some(compaction),
            Verdict::Unsafe(_) => None,
        }
    }
}

/// Compact `base` into `budget`.
///
/// - An input that fits is returned as it is.
/// - Below [`Outcome::min_safe_budget`] the answer is always unsafe, from there on always safe.
/// - The output never takes more tokens than the budget, in the tokenizer of the base.
/// - A safe output holds every pinned item byte for byte, in document order, under its headings.
/// - The same input gives the same output, and compacting the output again within the same budget changes nothing.
///
/// ```
/// use aac::taxonomy::KnowledgeType::{Belief, Constraint};
/// use aac::triage::{Base, Budget, Judgement, Tokenizer, compact};
///
/// let text = "# Git\n\n- Never push to main.\n- The repository was once on Subversion, which nobody misses.\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |item| {
///     Judgement::certain(if item.text.starts_with("Never") { Constraint } else { Belief })
/// });
/// let outcome = compact(&base, Budget::Tokens(12));
/// assert_eq!(outcome.safe().unwrap().output, "# Git\n\n- Never push to main.\n");
/// assert!(compact(&base, Budget::Tokens(outcome.min_safe_budget - 1)).safe().is_none());
/// ```
pub fn compact(base: &Base, budget: Budget) -> Outcome {
    let tokens_in = base.tokens();
    let budget = budget.of(tokens_in);
    let hard = hard_set(base, |item| item.pinned());
    let full = hard_set(base, |item| item.pinned() || item.lane() == KnowledgeType::Procedural);
    let tokens = |choice: &Choice<'_>| base.tokenizer().tokens(price(base, choice, Headings::Keep)).min(tokens_in);
    let (min_safe_budget, min_full_budget) = (tokens(&hard), tokens(&full));
    let verdict = if tokens_in <= budget {
        Verdict::Safe(unchanged(base))
    } else if min_safe_budget <= budget {
        settle(base, if min_full_budget <= budget { full } else { hard }, budget)
    } else {
        refuse(base, budget)
    };
    Outcome { tokens_in, budget, min_safe_budget, min_full_budget, verdict }
}

/// Print only the items that `keep` picks, with what they cannot be printed without and their headings.
pub(super) fn render_items(base: &Base, keep: impl Fn(&Item) -> bool) -> String {
    render(base, &hard_set(base, keep), Headings::Keep).text
}

/// The items picked, in full, without those that repeat a constraint word for word.
fn hard_set(base: &Base, pick: impl Fn(&Item) -> bool) -> Vec<Option<Form<'static>>> {
    let mut choice = vec![None; base.items().len()];
    let mut seen = HashSet::new();
    for (index, item) in base.items().iter().enumerate() {
        if pick(item) && !(item.pinned() && repeats(base, item, &mut seen)) {
            with_needs(base, index, |needed| choice[needed] = Some(Form::Full));
        }
    }
    choice
}

/// Whether a constraint with these exact words came before. A lead-in ("Never:") means something else in every place,
/// and so does a table row.
fn repeats<'b>(base: &'b Base, item: &Item, seen: &mut HashSet<&'b str>) -> bool {
    let text = base.text_of(item);
    !seen.insert(text) && item.kind != ItemKind::Row && !text.ends_with([':', '*'])
}

fn with_needs(base: &Base, index: usize, mut visit: impl FnMut(usize)) {
    let mut next = Some(index);
    while let Some(index) = next {
        visit(index);
        next = base.items()[index].layout.needs.map(|needed| needed as usize);
    }
}

fn unchanged(base: &Base) -> Compaction {
    Compaction {
        output: base.text().to_owned(),
        tokens_out: base.tokens(),
        pinned: base.items().iter().filter(|item| item.pinned()).count(),
        compressed: Vec::new(),
        dropped: Vec::new(),
        restored: 0,
        places: base.items().iter().enumerate().map(|(index, item)| (index, item.span.clone())).collect(),
    }
}

/// The shorter forms of one item, from the shortest.
#[derive(Default)]
struct Shorter {
    essence: Option<Short>,
    plain: Option<Short>,
}

fn shorter(base: &Base, index: usize) -> Shorter {
    let item = &base.items()[index];
    let (text, kind) = (base.text_of(item), item.kind);
    let lane = item.lane();
    let measured = |text: String| {
        let short = Short::new(base, index, text);
        (short.units < item.layout.units).then_some(short)
    };
    match lane {
        KnowledgeType::Constraint | KnowledgeType::Meta => Shorter::default(),
        KnowledgeType::Episodic => Shorter { essence: gist(text, kind).and_then(measured), plain: None },
        KnowledgeType::Procedural => Shorter { essence: essence(text, kind).and_then(measured), plain: None },
        KnowledgeType::Belief | KnowledgeType::Preference => {
            let plain = without_fillers(text, kind).and_then(measured);
            let essence = essence(text, kind).and_then(measured);
            let essence = essence.filter(|e| plain.as_ref().is_none_or(|p| e.units < p.units));
            Shorter { essence, plain }
        }
    }
}

/// One way to spend tokens: print an item in a form, instead of a shorter form or of nothing.
struct Step<'a> {
    rank: u8,
    cost: usize,
    index: usize,
    form: Form<'a>,
}

/// The steps in the order in which they are tried: by lane, then cheapest first, then in document order.
fn steps<'a>(base: &Base, hard: &Choice<'_>, shorter: &'a [Shorter]) -> Vec<Step<'a>> {
    let mut steps = Vec::with_capacity(2 * base.items().len());
    for (index, item) in base.items().iter().enumerate() {
        if hard[index].is_some() || item.pinned() {
            continue;
        }
        let Shorter { essence, plain } = &shorter[index];
        // Procedures first, whole and then in short; then the essence of facts and tastes; then placeholders; then
        // room is given back in the same order.
        let (full_rank, short_rank) = match item.lane() {
            KnowledgeType::Constraint => continue,
            KnowledgeType::Procedural if item.kind == ItemKind::Setting && index == 0 => (0, 0),
            KnowledgeType::Procedural => (1, 2),
            KnowledgeType::Belief | KnowledgeType::Preference => (6, 3),
            KnowledgeType::Episodic => (7, 4),
            KnowledgeType::Meta => (8, 8),
        };
        let shortest = [essence, plain].into_iter().flatten().next();
        let mut add = |rank, form| steps.push(Step { rank, cost: price_alone(base, index, form), index, form });
        match shortest {
            Some(short) => add(short_rank, Form::Short(short)),
            // What cannot be shortened competes in the place of its short form.
            None if matches!(item.lane(), KnowledgeType::Belief | KnowledgeType::Preference) => add(3, Form::Full),
            None if item.lane() == KnowledgeType::Episodic => add(4, Form::Full),
            None => {}
        }
        if let (Some(_), Some(plain)) = (essence, plain) {
            add(5, Form::Short(plain));
        }
        add(full_rank, Form::Full);
    }
    steps.sort_by_key(|step| (step.rank, step.cost, step.index));
    steps
}

/// A choice that grows step by step and can be taken back.
struct Filling<'b, 'a> {
    base: &'b Base,
    choice: Vec<Option<Form<'a>>>,
    /// Topics whose heading is printed.
    headed: Vec<bool>,
    heading_units: Vec<Option<usize>>,
    /// Every change: item, and what was printed of it before.
    log: Vec<(usize, Option<Form<'a>>)>,
}

impl<'b, 'a> Filling<'b, 'a> {
    fn new(base: &'b Base, choice: Vec<Option<Form<'a>>>) -> Self {
        let topics = base.topics().len();
        let mut filling =
            Self { base, choice, headed: vec![false; topics], heading_units: vec![None; topics], log: Vec::new() };
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
        let mut cost = 0isize;
        let mut topics = Vec::new();
        let base = self.base;
        let before = self.choice[step.index].map_or(0, |form| price_alone(base, step.index, form));
        let after = price_alone(base, step.index, step.form);
        if self.choice[step.index].is_some() && after <= before {
            return None;
        }
        with_needs(base, step.index, |index| {
            if index != step.index && self.choice[index] != Some(Form::Full) {
                let had = self.choice[index].map_or(0, |form| price_alone(base, index, form));
                cost += price_alone(base, index, Form::Full) as isize - had as isize;
            }
            topics.push(base.items()[index].topic);
        });
        cost += after as isize - before as isize;
        if headings == Headings::Keep {
            let mut new: Vec<TopicId> = topics
                .iter()
                .flat_map(|topic| base.topics().ancestors(*topic))
                .filter(|topic| !self.headed[topic.0 as usize])
                .collect();
            new.sort_unstable();
            new.dedup();
            for topic in new {
                let units = *self.heading_units[topic.0 as usize].get_or_insert_with(|| price_heading(base, topic));
                cost += units as isize;
            }
        }
        Some(cost)
    }

    fn take(&mut self, step: &Step<'a>) {
        let base = self.base;
        let mut changes = Vec::new();
        with_needs(base, step.index, |index| {
            changes.push((index, if index == step.index { step.form } else { Form::Full }));
        });
        for (index, form) in changes {
            if self.choice[index] != Some(form) {
                self.log.push((index, self.choice[index].replace(form)));
            }
            self.head(base.items()[index].topic);
        }
    }

    /// Take back the last change.
    fn undo(&mut self) -> bool {
        let Some((index, before)) = self.log.pop() else { return false };
        self.choice[index] = before;
        true
    }

    /// Take as many steps as fit into `cap` units, and return the exact units of the result.
    fn fill(&mut self, steps: &[Step<'a>], cap: impl Fn(usize) -> bool, headings: Headings) -> usize {
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

/// The hard lane fits: hand out the rest of the budget, print, and verify.
fn settle(base: &Base, hard: Vec<Option<Form<'static>>>, budget: usize) -> Verdict {
    let shorter: Vec<Shorter> = (0..base.items().len())
        .into_par_iter()
        .map(|index| if hard[index].is_some() { Shorter::default() } else { shorter(base, index) })
        .collect();
    let steps = steps(base, &hard, &shorter);
    let mut filling = Filling::new(base, hard);
    let tokenizer = base.tokenizer();
    filling.fill(&steps, |units| tokenizer.tokens(units) <= budget, Headings::Keep);
    let choice = filling.choice;
    let mut rendered = render(base, &choice, Headings::Keep);
    let guards = guards(base);
    let absent = missing(&guards, &rendered.text);
    let restored = absent.len();
    for index in &absent {
        rendered.text.push('\n');
        rendered.text.push_str(&guards[*index].text);
        rendered.text.push('\n');
    }
    let compaction = report(base, &choice, rendered, restored);
    if compaction.tokens_out <= budget && (absent.is_empty() || missing(&guards, &compaction.output).is_empty()) {
        Verdict::Safe(compaction)
    } else {
        refuse(base, budget)
    }
}

/// The hard lane does not fit: keep the most risk per token.
fn refuse(base: &Base, budget: usize) -> Verdict {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut seen = HashSet::new();
    for (index, item) in base.items().iter().enumerate() {
        if item.pinned() && !repeats(base, item, &mut seen) {
            let mut cost = 0;
            with_needs(base, index, |needed| cost += price_alone(base, needed, Form::Full));
            steps.push(Step { rank: 0, cost, index, form: Form::Full });
        }
    }
    let density = |step: &Step<'_>| base.items()[step.index].judgement.risk.max(0.01) / step.cost.max(1) as f32;
    steps.sort_by(|a, b| density(b).total_cmp(&density(a)).then(a.index.cmp(&b.index)));
    let mut filling = Filling::new(base, vec![None; base.items().len()]);
    let tokenizer = base.tokenizer();
    let fits = |units: usize| tokenizer.tokens(units) <= budget;
    // Headings would take the place of constraints; they are printed only where they cost none.
    filling.fill(&steps, fits, Headings::Omit);
    let choice = filling.choice;
    let headings = if fits(price(base, &choice, Headings::Keep)) { Headings::Keep } else { Headings::Omit };
    let rendered = render(base, &choice, headings);
    let guards = guards(base);
    let mut lost: Vec<Guard> =
        missing(&guards, &rendered.text).into_iter().map(|index| guards[index].clone()).collect();
    lost.sort_by(|a, b| b.risk.total_cmp(&a.risk).then(a.line.cmp(&b.line)));
    Verdict::Unsafe(Refusal { lost, best_effort: report(base, &choice, rendered, 0) })
}

fn report(base: &Base, choice: &Choice<'_>, rendered: Rendered, restored: usize) -> Compaction {
    let change = |item: &Item| {
        let text = base.text_of(item);
        let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
        Change { id: item.id, line: item.line, item_type: item.judgement.item_type, text: text[..end].to_owned() }
    };
    let (mut compressed, mut dropped, mut pinned) = (Vec::new(), Vec::new(), 0);
    for (item, form) in base.items().iter().zip(choice) {
        match form {
            None => dropped.push(change(item)),
            Some(Form::Short(_)) => compressed.push(change(item)),
            Some(Form::Full) => pinned += usize::from(item.pinned()),
        }
    }
    let tokens_out = base.tokenizer().count(&rendered.text);
    Compaction { output: rendered.text, tokens_out, pinned, compressed, dropped, restored, places: rendered.places }
}

#[cfg(test)]
mod tests;
