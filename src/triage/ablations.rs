//! The paper's three ablations of TypeCompact: without labels made at indexing time, without the verifier, and at the
//! budget boundary.

use super::base::Base;
use super::baselines::Baseline;
use super::compact::{compact, unverified};
use super::tokens::Budget;
use super::verify::{guards, missing};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;
use serde::Serialize;

/// From this share of a text's tokens in constraints and procedures on, a configuration counts as dense.
pub const DENSE: f64 = 0.40;

/// Recall of flagged constraints with and without labels, at one ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelAblation {
    /// Percent of the input's tokens.
    pub ratio: f64,
    /// A compactor that knows no types (aggressive pruning).
    pub blind: Option<f64>,
    /// The same with what patterns find put back first: labels made after the fact.
    pub patterns: Option<f64>,
    /// TypeCompact with labels made at indexing time: Safe output, else best effort.
    pub labels: Option<f64>,
}

/// What the verifier does, at one ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerifierAblation {
    /// Percent of the input's tokens.
    pub ratio: f64,
    /// Configurations.
    pub configurations: usize,
    /// Share of them that are refused.
    pub refused: f64,
    /// Mean recall of those that are answered.
    pub recall_of_answered: Option<f64>,
    /// Constraints that the verifier restored in answered ones, mean a configuration.
    pub restored: Option<f64>,
    /// Without the verifier: share of configurations that silently lose a constraint.
    pub silent: f64,
    /// Without the verifier: share of the constraints lost in silence, mean over those configurations.
    pub silently_lost: Option<f64>,
}

/// The three ablations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ablations {
    /// Without labels.
    pub labels: Vec<LabelAblation>,
    /// Without the verifier.
    pub verifier: Vec<VerifierAblation>,
    /// The same at 50 % on configurations of which more than [`DENSE`] is constraints and procedures.
    pub boundary: VerifierAblation,
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

fn recall(base: &Base, output: &str) -> Option<f64> {
    let guards = guards(base);
    let kept = guards.len() - missing(&guards, output).len();
    (!guards.is_empty()).then(|| kept as f64 / guards.len() as f64)
}

/// Run the ablations. `patterns` holds the same texts as `bases`, judged by patterns alone.
pub fn ablations(bases: &[Base], patterns: &[Base], ratios: &[f64]) -> Ablations {
    let labels = ratios.iter().map(|ratio| without_labels(bases, patterns, *ratio)).collect();
    let all: Vec<&Base> = bases.iter().collect();
    let verifier = ratios.iter().map(|ratio| without_verifier(&all, *ratio)).collect();
    let dense: Vec<&Base> = bases.iter().filter(|base| density(base) > DENSE).collect();
    Ablations { labels, verifier, boundary: without_verifier(&dense, 50.0) }
}

/// The share of a text that is constraints and procedures.
fn density(base: &Base) -> f64 {
    let hard = base.items().iter().filter(|item| item.pinned() || item.lane() == KnowledgeType::Procedural);
    let tokens: usize = hard.map(|item| base.tokenizer().count(base.text_of(item))).sum();
    tokens as f64 / base.tokens().max(1) as f64
}

fn without_labels(bases: &[Base], patterns: &[Base], ratio: f64) -> LabelAblation {
    let budget = |base: &Base| Budget::Percent(ratio).of(base.tokens());
    let of = |output: &(dyn Fn(usize) -> String + Sync)| {
        let recalls: Vec<Option<f64>> =
            (0..bases.len()).into_par_iter().map(|at| recall(&bases[at], &output(at))).collect();
        mean(recalls.into_iter().flatten())
    };
    LabelAblation {
        ratio,
        blind: of(&|at| Baseline::Prune.compact(&bases[at], budget(&bases[at]))),
        patterns: of(&|at| {
            // Whatever patterns flag is put in first, as far as it fits, and pruning gets the rest.
            let typed = &patterns[at];
            let outcome = compact(typed, Budget::Tokens(budget(typed)));
            outcome.output().to_owned()
        }),
        labels: of(&|at| compact(&bases[at], Budget::Percent(ratio)).output().to_owned()),
    }
}

fn without_verifier(bases: &[&Base], ratio: f64) -> VerifierAblation {
    struct One {
        answered: Option<f64>,
        refused: bool,
        restored: usize,
        lost: f64,
    }
    let found: Vec<One> = bases
        .par_iter()
        .map(|base| {
            let outcome = compact(base, Budget::Percent(ratio));
            let safe = outcome.safe();
            One {
                answered: safe.and_then(|compaction| recall(base, &compaction.output)),
                refused: safe.is_none(),
                restored: safe.map_or(0, |compaction| compaction.restored),
                lost: 1.0 - recall(base, &unverified(base, outcome.budget)).unwrap_or(1.0),
            }
        })
        .collect();
    let share = |n: usize| n as f64 / found.len().max(1) as f64;
    let silent: Vec<&One> = found.iter().filter(|one| one.lost > 0.0).collect();
    VerifierAblation {
        ratio,
        configurations: found.len(),
        refused: share(found.iter().filter(|one| one.refused).count()),
        recall_of_answered: mean(found.iter().filter_map(|one| one.answered)),
        restored: mean(found.iter().filter(|one| !one.refused).map(|one| one.restored as f64)),
        silent: share(silent.len()),
        silently_lost: mean(silent.iter().map(|one| one.lost)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::Judgement;
    use crate::triage::base::tests::base;
    use crate::triage::tokens::Tokenizer;

    #[test]
    fn each_part_that_is_missing_costs_constraints() {
        let text = "# Rules\n\n- Never push to the main branch of the shop.\n- The patient is allergic, and so on.\n- Must never be seen by anybody at all.\n- Never touch the tables of the shop.\n\n# Notes\n\n- A note about the shop.\n- Another note.\n";
        let bases = [base(text)];
        // Patterns see only one of the three.
        let patterns = [Base::read("AGENTS.md", text, Tokenizer::Cl100k, |item| {
            let seen = item.text.starts_with("Must");
            Judgement::certain(if seen { KnowledgeType::Constraint } else { KnowledgeType::Belief })
        })];
        let found = ablations(&bases, &patterns, &[70.0, 30.0]);
        assert_eq!(found.labels[0].labels, Some(1.0));
        assert!(found.labels[1].patterns < found.labels[1].labels || found.labels[1].labels < Some(1.0), "{found:?}");
        assert_eq!((found.verifier[0].refused, found.verifier[0].silent), (0.0, 0.0), "{found:?}");
        assert_eq!((found.verifier[1].refused, found.verifier[1].silent), (1.0, 1.0), "{found:?}");
        assert_eq!(found.boundary.configurations, 1);
    }
}
