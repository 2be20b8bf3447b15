//! What the operators are measured against: compactors and partitioners that do not know what kind of item they hold.
//!
//! Every compactor here keeps to the budget in the tokenizer of the base, so that figures compare like with like.

use super::base::Base;
use super::canonical::words;
use super::kmeans::WordVector;
use super::render::{Form, Headings, price, price_alone, render};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;
use std::collections::HashMap;

/// A compactor to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Hierarchical truncation: the first tokens.
    Head,
    /// Temporal windowing: the last tokens.
    Tail,
    /// Aggressive pruning: items of the most frequent words go first.
    Prune,
    /// One submodular utility for all types (facility location over word vectors, greedy by gain per token), the
    /// design that the paper calls MaRS-FL.
    FacilityLocation,
    /// Whole lines by type and then by probability, greedily under a hard budget, without headings (JevSelect-like).
    Greedy,
}

impl Baseline {
    /// Every baseline.
    pub const ALL: [Self; 5] = [Self::Head, Self::Tail, Self::Prune, Self::FacilityLocation, Self::Greedy];

    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "Hierarchical truncation",
            Self::Tail => "Temporal windowing",
            Self::Prune => "Aggressive pruning",
            Self::FacilityLocation => "MaRS-FL (ours)",
            Self::Greedy => "JevSelect-like (ours)",
        }
    }

    /// Compact `base` into `budget` tokens.
    ///
    /// ```
    /// use aac::taxonomy::KnowledgeType::Belief;
    /// use aac::triage::{Base, Baseline, Judgement, Tokenizer};
    /// let base = Base::read("a.md", "- one two three\n- four five six\n", Tokenizer::Cl100k, |_| Judgement::certain(Belief));
    /// assert_eq!(Baseline::Head.compact(&base, 4), "- one two three");
    /// assert_eq!(Baseline::Tail.compact(&base, 4), " four five six\n");
    /// ```
    pub fn compact(self, base: &Base, budget: usize) -> String {
        if base.tokens() <= budget {
            return base.text().to_owned();
        }
        match self {
            Self::Head => head(base, budget),
            Self::Tail => tail(base, budget),
            Self::Prune => prune(base, budget),
            Self::FacilityLocation => facility_location(base, budget),
            Self::Greedy => greedy(base, budget),
        }
    }
}

/// How many characters around a cut are tried for a better one.
const WORD: usize = 24;

/// Positions where a text may be cut, the ends included.
fn cuts(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

fn head(base: &Base, budget: usize) -> String {
    let text = base.text();
    let cuts = cuts(text);
    let fits = |at: &usize| base.tokenizer().count(&text[..*at]) <= budget;
    let mut last = cuts.partition_point(fits).saturating_sub(1);
    // A token more can make a text shorter in tokens, so the point found is only near the last one that fits.
    while last > 0 && !fits(&cuts[last]) {
        last -= 1;
    }
    // A cut within a word costs tokens that the whole word does not.
    let further = (last + 1..cuts.len().min(last + WORD)).rev().find(|at| fits(&cuts[*at]));
    text[..cuts[further.unwrap_or(last)]].to_owned()
}

fn tail(base: &Base, budget: usize) -> String {
    let text = base.text();
    let cuts = cuts(text);
    let fits = |at: &usize| base.tokenizer().count(&text[*at..]) <= budget;
    let mut first = cuts.partition_point(|at| !fits(at));
    while first + 1 < cuts.len() && !fits(&cuts[first]) {
        first += 1;
    }
    let first = first.min(cuts.len() - 1);
    let earlier = (first.saturating_sub(WORD)..first).find(|at| fits(&cuts[*at]));
    text[cuts[earlier.unwrap_or(first)]..].to_owned()
}

fn prune(base: &Base, budget: usize) -> String {
    let mut frequency: HashMap<String, usize> = HashMap::new();
    for item in base.items() {
        for word in words(base.text_of(item)) {
            *frequency.entry(word).or_default() += 1;
        }
    }
    let commonness = |index: usize| {
        let text = base.text_of(&base.items()[index]);
        let counts: Vec<usize> = words(text).map(|word| frequency.get(&word).copied().unwrap_or(0)).collect();
        counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64
    };
    let mut order: Vec<(f64, usize)> = (0..base.items().len()).map(|index| (commonness(index), index)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let mut choice: Vec<Option<Form<'_>>> = vec![Some(Form::Full); base.items().len()];
    let mut units = price(base, &choice, Headings::Keep);
    for (_, index) in order {
        if base.tokenizer().tokens(units) <= budget {
            break;
        }
        choice[index] = None;
        units = price(base, &choice, Headings::Keep);
    }
    render(base, &choice, Headings::Keep).text
}

/// Add items in `order` while they fit; one that does not is passed over.
fn add_in_order(base: &Base, order: impl IntoIterator<Item = usize>, budget: usize) -> String {
    let mut choice: Vec<Option<Form<'_>>> = vec![None; base.items().len()];
    let tokenizer = base.tokenizer();
    let mut units = 0;
    for index in order {
        choice[index] = Some(Form::Full);
        let sum = units + price_alone(base, index, Form::Full);
        let next = if tokenizer.tokens(sum) <= budget { sum } else { price(base, &choice, Headings::Omit) };
        if tokenizer.tokens(next) <= budget { units = next } else { choice[index] = None }
    }
    render(base, &choice, Headings::Omit).text
}

fn greedy(base: &Base, budget: usize) -> String {
    let mut order: Vec<usize> = (0..base.items().len()).collect();
    let tier = |index: usize| match base.items()[index].lane() {
        KnowledgeType::Constraint => 0,
        KnowledgeType::Procedural => 1,
        KnowledgeType::Belief | KnowledgeType::Preference => 2,
        KnowledgeType::Episodic | KnowledgeType::Meta => 3,
    };
    let risk = |index: usize| base.items()[index].judgement.risk;
    order.sort_by(|a, b| tier(*a).cmp(&tier(*b)).then(risk(*b).total_cmp(&risk(*a))).then(a.cmp(b)));
    add_in_order(base, order, budget)
}

fn facility_location(base: &Base, budget: usize) -> String {
    let vectors: Vec<WordVector> = base.items().iter().map(|item| WordVector::of(base.text_of(item))).collect();
    let cost: Vec<f32> = (0..vectors.len()).map(|index| price_alone(base, index, Form::Full).max(1) as f32).collect();
    // Every similarity is needed in every round.
    let similar: Vec<Vec<f32>> = vectors.par_iter().map(|a| vectors.iter().map(|b| a.dot(b)).collect()).collect();
    let mut covered = vec![0.0f32; vectors.len()];
    let mut open: Vec<usize> = (0..vectors.len()).collect();
    let mut order = Vec::new();
    let mut spent = 0.0;
    // Gains only shrink as the set grows; what is spent bounds how many rounds can matter.
    while !open.is_empty() && spent < budget as f32 {
        let gain = |index: usize| -> f32 {
            let sum: f32 = similar[index].iter().zip(&covered).map(|(near, have)| (near - have).max(0.0)).sum();
            sum / cost[index]
        };
        let best = open
            .par_iter()
            .enumerate()
            .map(|(place, index)| (gain(*index), place))
            .reduce(|| (f32::NEG_INFINITY, usize::MAX), |a, b| if (b.0, a.1) > (a.0, b.1) { b } else { a });
        if best.1 == usize::MAX {
            break;
        }
        let index = open.swap_remove(best.1);
        if spent + cost[index] <= budget as f32 {
            spent += cost[index];
            order.push(index);
            for (have, near) in covered.iter_mut().zip(&similar[index]) {
                *have = have.max(*near);
            }
        }
    }
    add_in_order(base, order, budget)
}

/// Partition by token count: items in order, a new chunk where the next one would not fit. Indices of items.
pub fn chunk_by_tokens(base: &Base, budget: usize) -> Vec<Vec<usize>> {
    pack((0..base.items().len()).map(|index| vec![index]), base, budget)
}

/// Partition by section: one chunk a topic, cut where a topic is too large.
pub fn chunk_by_topic(base: &Base, budget: usize) -> Vec<Vec<usize>> {
    let mut by_topic: Vec<Vec<usize>> = vec![Vec::new(); base.topics().len()];
    for (index, item) in base.items().iter().enumerate() {
        by_topic[item.topic.0 as usize].push(index);
    }
    by_topic.into_iter().flat_map(|items| pack(items.into_iter().map(|index| vec![index]), base, budget)).collect()
}

/// Partition by paragraphs: runs of items without an empty line between them stay together while they fit.
pub fn chunk_by_paragraph(base: &Base, budget: usize) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for (index, item) in base.items().iter().enumerate() {
        let gap = base.text().get(end..item.span.start).unwrap_or_default();
        match runs.last_mut() {
            Some(run) if !gap.contains("\n\n") && !gap.contains('#') => run.push(index),
            _ => runs.push(vec![index]),
        }
        end = item.span.end;
    }
    pack(runs, base, budget)
}

fn pack(runs: impl IntoIterator<Item = Vec<usize>>, base: &Base, budget: usize) -> Vec<Vec<usize>> {
    let mut chunks: Vec<Vec<usize>> = Vec::new();
    let mut units = usize::MAX;
    for run in runs {
        let cost: usize = run.iter().map(|index| price_alone(base, *index, Form::Full)).sum();
        match chunks.last_mut() {
            Some(chunk) if base.tokenizer().tokens(units.saturating_add(cost)) <= budget => {
                chunk.extend(run);
                units += cost;
            }
            _ => {
                chunks.push(run);
                units = cost;
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;
    use proptest::prelude::*;

    const DOC: &str =
        "# A\n\n- Never push\n- Run it\n- the the the the\n\n# B\n\n- Prefer tabs\n- On Monday we met\n\nEnd of it.\n";

    #[test]
    fn each_keeps_what_its_description_says() {
        let base = base(DOC);
        assert!(Baseline::Prune.compact(&base, 25).contains("Never push"));
        assert!(!Baseline::Prune.compact(&base, 25).contains("the the"));
        assert_eq!(Baseline::Greedy.compact(&base, 8), "- Never push\n- Run it\n");
        assert!(DOC.starts_with(&Baseline::Head.compact(&base, 10)));
        assert!(DOC.ends_with(&Baseline::Tail.compact(&base, 10)));
    }

    #[test]
    fn chunks_hold_every_item_once() {
        let base = base(DOC);
        for chunk in [chunk_by_tokens, chunk_by_topic, chunk_by_paragraph] {
            let mut all = chunk(&base, 12).concat();
            all.sort_unstable();
            assert_eq!(all, (0..base.items().len()).collect::<Vec<_>>());
        }
        assert_eq!(chunk_by_topic(&base, 1000).len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_baseline_exceeds_the_budget(words in prop::collection::vec("[a-zé/]{1,8}( [a-z]{1,8}){0,6}", 1..30), budget in 0usize..120) {
            let text: String = words.iter().map(|w| format!("- {w}\n")).collect();
            let base = base(&text);
            for baseline in Baseline::ALL {
                prop_assert!(base.tokenizer().count(&baseline.compact(&base, budget)) <= budget, "{}", baseline.as_str());
            }
        }
    }
}
