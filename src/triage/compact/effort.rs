//! The best effort: what is kept of the flagged constraints where not all of them fit.

use super::super::base::{Base, Item};
use super::super::render::{Form, Headings, Short, price, price_alone, render};
use super::super::shorten::opens_block;
use super::super::verify::{Guard, guards, missing};
use super::fill::{Filling, Step};
use super::{Refusal, Verdict, repeats, report, with_needs};
use crate::taxonomy::ItemKind;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};

/// How likely a flagged item is to be a constraint whatever probability it was given: classifiers are wrong, and what
/// they are sure to be no constraint is not flagged.
const MISJUDGED: f64 = 0.2;

/// No probability is nearer to one, so that no item counts without bound.
const SUREST: f64 = 0.999;

/// What a flagged item of this risk counts: minus the logarithm of the probability that leaving it out loses no
/// constraint.
fn stake(risk: f32) -> f64 {
    let risk = f64::from(risk).clamp(0.0, SUREST);
    -((1.0 - risk) * (1.0 - MISJUDGED)).ln()
}

/// The hard lane does not fit: keep the flagged items that make it most likely that nothing left out is a constraint.
///
/// Were the items independent, that probability is the product of those of each item left out, so its logarithm adds up
/// over items: the [stake] of an item is what keeping it counts, its tokens are what it costs, and what fits with
/// the highest sum is a [knapsack]. By probability alone the few sure constraints would push out many doubtful ones, by
/// number alone the many short doubtful ones those few; the logarithm grows without bound as an item gets surer, and
/// [`MISJUDGED`] keeps the doubtful ones from counting nothing. Nothing but the judgements goes in.
pub(super) fn refuse(base: &Base, budget: usize) -> Verdict {
    let bare: Vec<Option<Short>> =
        base.items().par_iter().enumerate().map(|(index, item)| bare(base, index, item)).collect();
    let mut seen = HashSet::new();
    let mut said: HashMap<&str, u32> = HashMap::new();
    for item in base.items().iter().filter(|item| item.pinned()) {
        *said.entry(base.text_of(item)).or_default() += 1;
    }
    // A step and what it counts.
    let mut steps: Vec<(Step<'_>, f64)> = Vec::new();
    for (index, item) in base.items().iter().enumerate() {
        if item.pinned() && !repeats(base, item, &mut seen) {
            let mut cost = 0;
            with_needs(base, index, |needed| cost += price_alone(base, needed, Form::Full));
            let mut form = Form::Full;
            if let Some(words) = bare[index].as_ref().filter(|words| words.units + words.blank < cost) {
                (cost, form) = (words.units + words.blank, Form::Bare(words));
            }
            // What is said twice is kept twice at one price.
            let times = said.get(base.text_of(item)).copied().unwrap_or(1);
            steps.push((Step { rank: 0, cost, index, form }, f64::from(times) * stake(item.judgement.risk)));
        }
    }
    let density = |(step, value): &(Step<'_>, f64)| value / step.cost.max(1) as f64;
    steps.sort_by(|a, b| density(b).total_cmp(&density(a)).then(a.0.index.cmp(&b.0.index)));
    let tokenizer = base.tokenizer();
    let room = tokenizer.room(budget);
    let prices: Vec<(usize, f64)> = steps.iter().map(|(step, value)| (step.cost, *value)).collect();
    let mut steps: Vec<Step<'_>> = steps.into_iter().map(|(step, _)| step).collect();
    if let Some(chosen) = knapsack(&prices, room) {
        // Prices are a little too high: what the chosen ones leave goes to the densest of the others.
        let (first, rest): (Vec<_>, Vec<_>) = steps.into_iter().zip(chosen).partition(|(_, chosen)| *chosen);
        steps = first.into_iter().chain(rest).map(|(step, _)| step).collect();
    }
    let fits = |units: usize| tokenizer.tokens(units) <= budget;
    let mut filling = Filling::new(base, vec![None; base.items().len()]);
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

/// Items × tokens of room up to which the best choice is computed exactly. Beyond, many items share much room, and taking
/// the densest first loses at most what one item counts.
const EXACT: usize = 1 << 24;

/// Which of these, each of `(units, value)`, to take for the highest sum of values in `room` units; nothing above
/// [`EXACT`].
fn knapsack(prices: &[(usize, f64)], room: usize) -> Option<Vec<bool>> {
    let width = room.checked_add(1)?;
    if prices.len().saturating_mul(width) > EXACT {
        return None;
    }
    // By room, the highest sum of the items so far; for every item, whether it is part of that sum.
    let mut best = vec![0.0f64; width];
    let mut taken = vec![false; prices.len() * width];
    for ((cost, value), taken) in prices.iter().zip(taken.chunks_exact_mut(width)) {
        for left in (*cost..width).rev() {
            let sum = best[left - cost] + value;
            if sum > best[left] {
                best[left] = sum;
                taken[left] = true;
            }
        }
    }
    let mut chosen = vec![false; prices.len()];
    let mut left = room;
    for (at, (cost, _)) in prices.iter().enumerate().rev() {
        if taken[at * width + left] {
            chosen[at] = true;
            left -= cost;
        }
    }
    Some(chosen)
}

/// The words of a pinned item without its marker and what it hangs on, where they read as a passage of their own.
fn bare(base: &Base, index: usize, item: &Item) -> Option<Short> {
    let text = base.text_of(item);
    let reads = matches!(item.kind, ItemKind::List | ItemKind::Paragraph | ItemKind::Row)
        && !item.layout.fixed
        && !text.contains("\n>")
        // Without the line below the head of its table a row is a line of text.
        && (text.starts_with('|') || !opens_block(text));
    (item.pinned() && reads).then(|| Short::bare(base, index))
}

/// The largest share of the pinned items that any choice could keep word for word within `budget`: what the cheapest
/// need without headings, empty lines or anything they hang on. No output can do better, and hardly any can do as well.
pub(in crate::triage) fn best_possible(base: &Base, budget: usize, wanted: impl Fn(usize) -> bool) -> Option<f64> {
    let mut prices: HashMap<&str, (usize, usize)> = HashMap::new();
    for (_, item) in base.items().iter().enumerate().filter(|(index, _)| wanted(*index)) {
        let text = base.text_of(item);
        let units = base.tokenizer().units(text);
        prices.entry(text).and_modify(|(_, count)| *count += 1).or_insert((units.min(item.layout.units), 1));
    }
    let all: usize = prices.values().map(|(_, count)| count).sum();
    // Word for word, and often what is said twice is kept at one price: a fractional knapsack bounds the whole one.
    let mut prices: Vec<(usize, usize)> = prices.into_values().collect();
    prices.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.cmp(b)));
    let mut left = base.tokenizer().room(budget);
    let mut kept = 0.0;
    for (units, count) in prices {
        if units > left {
            kept += count as f64 * left as f64 / units as f64;
            break;
        }
        left -= units;
        kept += count as f64;
    }
    (all > 0).then(|| (kept / all as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taxonomy::KnowledgeType;
    use crate::triage::base::Judgement;
    use crate::triage::compact::compact;
    use crate::triage::tokens::{Budget, Tokenizer};
    use proptest::prelude::*;

    #[test]
    fn sure_rules_stay_before_doubtful_ones_and_these_count_too() {
        let text = "- Never push to main\n- The sky looks blue\n- The sea looks green\n";
        let judged = |sure: f32| {
            Base::read("a.md", text, Tokenizer::Cl100k, move |item| Judgement {
                item_type: KnowledgeType::Constraint,
                risk: if item.text.starts_with("Never") { sure } else { 0.3 },
                pinned: true,
            })
        };
        // One rule of four words fits.
        assert_eq!(compact(&judged(0.9), Budget::Tokens(5)).output(), "Never push to main\n");
        let doubtful = compact(&judged(0.1), Budget::Tokens(5));
        assert!(!doubtful.output().contains("Never") && !doubtful.output().is_empty(), "{doubtful:?}");
    }

    proptest! {
        /// Against every subset, and within the room.
        #[test]
        fn no_choice_that_fits_counts_more(
            prices in prop::collection::vec((0usize..9, 0u32..20), 0..9), room in 0usize..30,
        ) {
            let prices: Vec<(usize, f64)> = prices.into_iter().map(|(cost, value)| (cost, f64::from(value))).collect();
            let sum = |take: &dyn Fn(usize) -> bool| {
                let of = prices.iter().enumerate().filter(|(at, _)| take(*at));
                of.fold((0, 0.0), |(cost, value), (_, (c, v))| (cost + c, value + v))
            };
            let chosen = knapsack(&prices, room).unwrap();
            let (cost, value) = sum(&|at| chosen[at]);
            prop_assert!(cost <= room);
            for subset in 0u32..1 << prices.len() {
                let (other, most) = sum(&|at| subset >> at & 1 == 1);
                prop_assert!(other > room || most <= value, "{subset:b} counts {most}, more than {value}");
            }
        }
    }
}
