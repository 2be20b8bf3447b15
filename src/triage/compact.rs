//! TypeCompact (the paper's Algorithm 1): constraints whole or not at all, procedures as they are while there is room,
//! beliefs and preferences shortened, episodes as placeholders.

mod effort;
mod fill;

use super::base::{Base, Item, ItemId};
use super::readback::{Core, mend, misread, retreat};
use super::render::{Choice, Form, Headings, Rendered, price, render};
use super::tokens::Budget;
use super::verify::{Guard, guards, missing};
use crate::taxonomy::{ItemKind, KnowledgeType};
use effort::refuse;
use fill::{Filling, Shorter, shorter, steps};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

pub(super) use effort::best_possible;

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
        let mut ids: HashMap<usize, ItemId> =
            self.places.iter().map(|(index, range)| (range.start, base.items()[*index].id)).collect();
        let unknown = super::base::Judgement { item_type: KnowledgeType::Meta, risk: 0.0, pinned: false };
        let mut taken = 0;
        let judged: Vec<_> = found
            .items
            .iter()
            .map(|span| {
                let (start, end) = (span.start as usize, span.end as usize);
                let first = self.places.partition_point(|(_, range)| range.end <= start);
                let mut judgement = None::<super::base::Judgement>;
                for (at, (index, range)) in self.places.iter().enumerate().skip(first) {
                    if range.start >= end {
                        break;
                    }
                    let item = &base.items()[*index];
                    if at >= taken {
                        ids.entry(start).or_insert(item.id);
                        taken = at + 1;
                    }
                    // An item read from several holds to the strictest of them.
                    let strictest = judgement.is_none_or(|j| (item.pinned(), item.judgement.risk) > (j.pinned, j.risk));
                    if strictest {
                        judgement = Some(item.judgement);
                    }
                }
                judgement.unwrap_or(unknown)
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

/// How often what does not read back is taken out before everything but the hard lane goes.
const RETREATS: usize = 6;

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

    /// What could be printed: the safe output, else the best effort, which is **not** safe.
    pub fn output(&self) -> &str {
        match &self.verdict {
            Verdict::Safe(compaction) => &compaction.output,
            Verdict::Unsafe(refusal) => &refusal.best_effort.output,
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
    let (hard, full) = rayon::join(
        || mend(base, hard_set(base, |item| item.pinned())),
        || mend(base, hard_set(base, |item| item.pinned() || item.lane() == KnowledgeType::Procedural)),
    );
    let tokens = |core: &Core| match core {
        Core::Chosen { units, .. } => base.tokenizer().tokens(*units).min(tokens_in),
        Core::Whole => tokens_in,
    };
    let min_full_budget = tokens(&full);
    // Where the layout has to be mended, more can take less.
    let hard = if tokens(&hard) < min_full_budget { hard } else { full.clone() };
    let min_safe_budget = tokens(&hard);
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

/// `visit` an item and everything that it cannot be printed without.
pub(super) fn with_needs(base: &Base, index: usize, mut visit: impl FnMut(usize)) {
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

/// The hard lane fits: hand out the rest of the budget, print, and verify.
fn settle(base: &Base, core: Core, budget: usize) -> Verdict {
    // The whole text is printed only where it fits, and then nothing is left to settle.
    let Core::Chosen { choice: core, restored, .. } = core else { return refuse(base, budget) };
    let shorter: Vec<Shorter> = (0..base.items().len())
        .into_par_iter()
        .map(|index| if core[index].is_some() { Shorter::default() } else { shorter(base, index) })
        .collect();
    let steps = steps(base, &core, &shorter);
    let tokenizer = base.tokenizer();
    let mut filling = Filling::new(base, core.clone());
    filling.fill(&steps, |units| tokenizer.tokens(units) <= budget, Headings::Keep);
    let mut choice: Vec<Option<Form<'_>>> = filling.choice;
    let guards = guards(base);
    for attempt in 0..=RETREATS {
        // The core alone reads back and fits.
        if attempt == RETREATS {
            choice.clone_from_slice(&core);
        }
        let rendered = render(base, &choice, Headings::Keep);
        let wrong = misread(base, &rendered);
        if wrong.is_empty() {
            let compaction = report(base, &choice, rendered, restored);
            if compaction.tokens_out <= budget && missing(&guards, &compaction.output).is_empty() {
                return Verdict::Safe(compaction);
            }
            choice.clone_from_slice(&core);
            continue;
        }
        let printed: Vec<usize> = rendered.places.iter().map(|(index, _)| *index).collect();
        if !retreat(base, &mut choice, &core, &printed, &wrong) {
            choice.clone_from_slice(&core);
        }
    }
    refuse(base, budget)
}

/// What the operator would print without its verifier: hard items in document order until the budget is spent, and where
/// they fit, the soft lane behind them; nothing is read back and nothing refused. For the ablation.
pub(super) fn unverified(base: &Base, budget: usize) -> String {
    if base.tokens() <= budget {
        return base.text().to_owned();
    }
    let tokenizer = base.tokenizer();
    let hard = hard_set(base, |item| item.pinned() || item.lane() == KnowledgeType::Procedural);
    let fits = |units: usize| tokenizer.tokens(units) <= budget;
    let mut kept: Vec<Option<Form<'_>>> = hard.clone();
    if fits(price(base, &hard, Headings::Keep)) {
        let shorter: Vec<Shorter> = (0..base.items().len())
            .map(|index| if hard[index].is_some() { Shorter::default() } else { shorter(base, index) })
            .collect();
        let steps = steps(base, &hard, &shorter);
        let mut filling = Filling::new(base, hard.clone());
        filling.fill(&steps, fits, Headings::Keep);
        return render(base, &filling.choice, Headings::Keep).text;
    }
    let printed: Vec<usize> = (0..hard.len()).filter(|index| hard[*index].is_some()).collect();
    let (mut low, mut high) = (0, printed.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        let cut = printed.get(middle).copied().unwrap_or(hard.len());
        kept.iter_mut().zip(&hard).enumerate().for_each(|(i, (k, h))| *k = if i < cut { *h } else { None });
        if fits(price(base, &kept, Headings::Keep)) { low = middle } else { high = middle - 1 }
    }
    let cut = printed.get(low).copied().unwrap_or(hard.len());
    kept.iter_mut().zip(&hard).enumerate().for_each(|(i, (k, h))| *k = if i < cut { *h } else { None });
    render(base, &kept, Headings::Keep).text
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
            Some(_) => pinned += usize::from(item.pinned()),
        }
    }
    let tokens_out = base.tokenizer().count_long(&rendered.text);
    Compaction { output: rendered.text, tokens_out, pinned, compressed, dropped, restored, places: rendered.places }
}

#[cfg(test)]
mod tests;
