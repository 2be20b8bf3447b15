//! From labelled examples to a linear model: weights, cross-validation, calibration, thresholds.

use super::calibrate::{Calibration, thresholds};
use super::folds::{fold_of_groups, near_duplicates};
use super::labels::{Example, Role};
use super::logistic::{Coefficients, LogisticOptions, Problem, fit as fit_logistic};
use crate::classify::features::{Extractor, FeatureOptions, SparseRow};
use crate::classify::linear::LinearModel;
use crate::classify::metrics::{Confusion, mcnemar_exact};
use crate::classify::{Classifier as _, Probabilities, TYPES, Thresholds};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;

/// Labels that no model should be fitted on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// Too few items.
    #[error(
        "Failed to train: {found} labelled items, at least {needed} are needed; label more with `aac gold serve`, or add the shipped labels with --mix-shipped"
    )]
    TooFew {
        /// Items there are.
        found: usize,
        /// Items needed.
        needed: usize,
    },
    /// Too few of one kind.
    #[error(
        "Failed to train: {found} of {total} items are {what}, at least {needed} are needed to learn and to score them"
    )]
    OneSided {
        /// `constraints` or `no constraints`.
        what: &'static str,
        /// Items of the kind.
        found: usize,
        /// All items.
        total: usize,
        /// Items needed.
        needed: usize,
    },
    /// Nothing to hold out.
    #[error("Failed to train: all items come from {found} repositories, at least {needed} are needed to hold some out")]
    TooFewGroups {
        /// Repositories there are.
        found: usize,
        /// Repositories needed.
        needed: usize,
    },
    /// An item without text.
    #[error("Failed to train: item {id} has no text; find the texts with `aac gold hydrate` first")]
    NoText {
        /// The item.
        id: String,
    },
}

/// How to train.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Features of the model.
    pub features: FeatureOptions,
    /// The regression.
    pub logistic: LogisticOptions,
    /// Share of an example's target that goes to the annotator's second choice.
    pub second_share: f32,
    /// Share of every target that is spread over all types.
    pub smoothing: f32,
    /// Weight of a random example.
    pub gold_weight: f32,
    /// Weight of an example drawn from the remainder of a selection (`why` = `remainder`).
    pub remainder_weight: f32,
    /// Weight of an example chosen by a rule.
    pub chosen_weight: f32,
    /// Weight of a phrasing.
    pub phrasing_weight: f32,
    /// Factor on the weight of constraints: what missing one costs beside another error.
    pub constraint_cost: f32,
    /// Folds of the cross-validation.
    pub folds: usize,
    /// Recall of constraints that the safe threshold is set for.
    pub safe_recall: f64,
    /// Texts with at least this overlap of character 5-grams never stand on both sides.
    pub near_duplicate: f64,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            features: FeatureOptions::default(),
            logistic: LogisticOptions::default(),
            second_share: 0.15,
            smoothing: 0.03,
            gold_weight: 1.5,
            remainder_weight: 1.0,
            chosen_weight: 0.7,
            phrasing_weight: 1.0,
            constraint_cost: 1.0,
            folds: 5,
            safe_recall: 0.94,
            near_duplicate: 0.8,
        }
    }
}

/// Fewest gold items.
const MIN_ITEMS: usize = 60;
/// Fewest constraints, and fewest others.
const MIN_SIDE: usize = 15;

/// Examples turned into numbers and dealt into folds.
pub(super) struct Prepared<'a> {
    pub(super) examples: &'a [Example],
    pub(super) options: &'a TrainOptions,
    rows: Vec<SparseRow>,
    bits: u32,
    pub(super) targets: Vec<[f32; TYPES]>,
    weights: Vec<f32>,
    pub(super) fold: Vec<usize>,
    near: Vec<Vec<usize>>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(examples: &'a [Example], options: &'a TrainOptions) -> Result<Self, TrainError> {
        check(examples, options)?;
        Self::of_rows(examples, options, linear_rows(examples, &options.features), options.features.bits)
    }

    /// With other features than the linear tier's: one row an example, its buckets below `2^bits`.
    pub(super) fn of_rows(
        examples: &'a [Example],
        options: &'a TrainOptions,
        rows: Vec<SparseRow>,
        bits: u32,
    ) -> Result<Self, TrainError> {
        check(examples, options)?;
        let texts: Vec<&str> = examples.iter().map(|e| e.text.as_str()).collect();
        let mut near = vec![Vec::new(); examples.len()];
        for (i, j) in near_duplicates(&texts, options.near_duplicate) {
            near[i].push(j);
            near[j].push(i);
        }
        Ok(Self {
            examples,
            options,
            rows,
            bits,
            targets: examples.iter().map(|e| target(e, options)).collect(),
            weights: examples.iter().map(|e| weight(e, options)).collect(),
            fold: deal(examples, options.folds),
            near,
        })
    }

    /// The weight of every example when the folds in `without` are held out: nothing for their examples, for whatever
    /// nearly equals a scored example of theirs, and for examples that `keep` refuses.
    pub(super) fn weights_without(&self, without: &[usize], keep: impl Fn(usize) -> bool) -> Vec<f32> {
        let out = |i: usize| without.contains(&self.fold[i]);
        (0..self.examples.len())
            .map(|i| {
                let twin = self.near[i].iter().any(|j| out(*j) && self.examples[*j].role != Role::Extra);
                if out(i) || twin || !keep(i) { 0.0 } else { self.weights[i] }
            })
            .collect()
    }

    /// Fit with the weights of [`Self::weights_without`].
    pub(super) fn fit_without(&self, without: &[usize], keep: impl Fn(usize) -> bool) -> Coefficients {
        let weights = self.weights_without(without, keep);
        let rows: Vec<&SparseRow> = self.rows.iter().collect();
        let problem = Problem { rows: &rows, targets: &self.targets, weights: &weights };
        fit_logistic(&problem, self.bits, &self.options.logistic)
    }

    /// Logits of the scored examples (gold and phrasings) of `fold`.
    pub(super) fn answers(&self, coefficients: &Coefficients, fold: usize) -> Vec<(usize, [f64; TYPES])> {
        let table = coefficients.dense(self.bits);
        (0..self.examples.len())
            .filter(|i| self.fold[*i] == fold && self.examples[*i].role != Role::Extra)
            .map(|i| {
                let mut logits = coefficients.bias.map(f64::from);
                for (bucket, value) in self.rows[i].indices.iter().zip(&self.rows[i].values) {
                    for (logit, weight) in logits.iter_mut().zip(&table[*bucket as usize]) {
                        *logit += f64::from(*value) * f64::from(*weight);
                    }
                }
                (i, logits)
            })
            .collect()
    }

    /// Calibration and thresholds from held-out logits of gold examples.
    pub(super) fn settle(&self, held: &[(usize, [f64; TYPES])]) -> (Calibration, Thresholds) {
        let gold: Vec<([f64; TYPES], KnowledgeType)> = held
            .iter()
            .filter(|(i, _)| self.examples[*i].role == Role::Gold)
            .map(|(i, logits)| (*logits, self.examples[*i].label))
            .collect();
        let calibration = Calibration::fit(&gold);
        let constraint = KnowledgeType::Constraint;
        let scores: Vec<(f64, bool)> = gold
            .iter()
            .map(|(logits, label)| (calibration.probabilities(logits)[constraint.index()], *label == constraint))
            .collect();
        (calibration, thresholds(&scores, self.options.safe_recall))
    }
}

/// What the linear tier sees of each example.
pub(super) fn linear_rows(examples: &[Example], features: &FeatureOptions) -> Vec<SparseRow> {
    let mut extractor = Extractor::new(features.clone());
    examples.iter().map(|e| e.with_context(|item| extractor.row(item))).collect()
}

pub(super) fn check(examples: &[Example], options: &TrainOptions) -> Result<(), TrainError> {
    if let Some(empty) = examples.iter().find(|e| e.text.trim().is_empty()) {
        return Err(TrainError::NoText { id: empty.id.clone() });
    }
    let gold: Vec<&Example> = examples.iter().filter(|e| e.role == Role::Gold).collect();
    let total = gold.len();
    if total < MIN_ITEMS {
        return Err(TrainError::TooFew { found: total, needed: MIN_ITEMS });
    }
    let constraints = gold.iter().filter(|e| e.label == KnowledgeType::Constraint).count();
    for (what, found) in [("constraints", constraints), ("no constraints", total - constraints)] {
        if found < MIN_SIDE {
            return Err(TrainError::OneSided { what, found, total, needed: MIN_SIDE });
        }
    }
    let groups: std::collections::HashSet<&str> = gold.iter().map(|e| e.group.as_str()).collect();
    if groups.len() < options.folds {
        return Err(TrainError::TooFewGroups { found: groups.len(), needed: options.folds });
    }
    Ok(())
}

fn target(example: &Example, options: &TrainOptions) -> [f32; TYPES] {
    let mut target = [options.smoothing / TYPES as f32; TYPES];
    let second = if example.second.is_some() { options.second_share } else { 0.0 };
    target[example.label.index()] += (1.0 - options.smoothing) * (1.0 - second);
    if let Some(other) = example.second {
        target[other.index()] += (1.0 - options.smoothing) * second;
    }
    target
}

fn weight(example: &Example, options: &TrainOptions) -> f32 {
    let base = match (example.role, example.why.as_deref()) {
        (Role::Gold, _) => options.gold_weight,
        (Role::Phrasing, _) => options.phrasing_weight,
        (Role::Extra, Some("remainder")) => options.remainder_weight,
        (Role::Extra, _) => options.chosen_weight,
    };
    if example.label == KnowledgeType::Constraint { base * options.constraint_cost } else { base }
}

/// The fold of every example: by repository, balanced on gold; phrasings by the rule they express.
fn deal(examples: &[Example], folds: usize) -> Vec<usize> {
    let groups = |role: Role| examples.iter().filter(move |e| e.role == role).map(|e| e.group.as_str());
    let gold = fold_of_groups(groups(Role::Gold), folds);
    let rest = fold_of_groups(groups(Role::Extra).filter(|g| !gold.contains_key(g)), folds);
    let phrasing = fold_of_groups(groups(Role::Phrasing), folds);
    examples
        .iter()
        .map(|e| {
            let group = e.group.as_str();
            let maps = if e.role == Role::Phrasing { [&phrasing, &phrasing] } else { [&gold, &rest] };
            maps.iter().find_map(|map| map.get(group)).copied().unwrap_or(0)
        })
        .collect()
}

/// A held-out answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// Position of the example.
    pub index: usize,
    /// Calibrated probabilities.
    pub probs: [f64; TYPES],
    /// Thresholds of its fold, from the other folds only.
    pub thresholds: Thresholds,
}

impl HeldOut {
    /// The probabilities as a classifier would give them.
    pub fn probabilities(&self) -> Probabilities {
        Probabilities::from_weights(self.probs.map(|p| p as f32))
    }

    /// The type at the balanced point.
    pub fn item_type(&self) -> KnowledgeType {
        self.probabilities().type_at(self.thresholds.balanced)
    }
}

/// Nested cross-validation: every gold and phrasing example answered by a model that saw nothing of its repository (or
/// rule), calibrated and with thresholds from folds that did not hold it either. In order of the examples.
///
/// A model without folds `f` and `g` serves both as inner model of `f` for `g` and the other way round, so that `k`
/// folds cost `k(k+1)/2` fits.
pub fn nested(examples: &[Example], options: &TrainOptions) -> Result<Vec<HeldOut>, TrainError> {
    let prepared = Prepared::new(examples, options)?;
    Ok(nested_on(&prepared, |_| true))
}

pub(super) fn nested_on(prepared: &Prepared<'_>, keep: impl Fn(usize) -> bool + Sync) -> Vec<HeldOut> {
    let folds = prepared.options.folds;
    let jobs: Vec<(usize, usize)> = (0..folds).flat_map(|f| (f..folds).map(move |g| (f, g))).collect();
    // For each job the answers for its second fold, and those for its first.
    let answers: Vec<_> = jobs
        .par_iter()
        .map(|(f, g)| {
            let coefficients = prepared.fit_without(&[*f, *g], &keep);
            (prepared.answers(&coefficients, *g), prepared.answers(&coefficients, *f))
        })
        .collect();
    let mut held = Vec::new();
    for f in 0..folds {
        let mut inner = Vec::new();
        let mut outer = &Vec::new();
        for ((a, b), (second, first)) in jobs.iter().zip(&answers) {
            match (*a == f, *b == f) {
                (true, true) => outer = second,
                (true, false) => inner.extend(second.iter().copied()),
                (false, true) => inner.extend(first.iter().copied()),
                (false, false) => {}
            }
        }
        let (calibration, thresholds) = prepared.settle(&inner);
        held.extend(outer.iter().map(|(index, logits)| HeldOut {
            index: *index,
            probs: calibration.probabilities(logits),
            thresholds,
        }));
    }
    held.sort_by_key(|h| h.index);
    held
}

/// Fit the model that ships: all examples, calibrated and with thresholds from `k` held-out folds. The same examples and
/// options give the same bytes.
pub fn fit_model(
    examples: &[Example],
    options: &TrainOptions,
    notes: serde_json::Value,
) -> Result<LinearModel, TrainError> {
    let prepared = Prepared::new(examples, options)?;
    let (all, held) = rayon::join(
        || prepared.fit_without(&[], |_| true),
        || {
            let folds: Vec<_> = (0..options.folds)
                .into_par_iter()
                .map(|f| prepared.answers(&prepared.fit_without(&[f], |_| true), f))
                .collect();
            folds.concat()
        },
    );
    let (calibration, thresholds) = prepared.settle(&held);
    let scale = calibration.scale as f32;
    let table: Vec<[f32; TYPES]> = all.dense(options.features.bits).iter().map(|row| row.map(|w| w * scale)).collect();
    let bias = std::array::from_fn(|t| all.bias[t] * scale + calibration.shift[t] as f32);
    Ok(LinearModel::quantise(options.features.clone(), bias, &table, thresholds, notes))
}

/// Whether a refit is worth having, on the owner's held-out items.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// Items compared.
    pub items: usize,
    /// Accuracy of the refit, of the shipped model.
    pub accuracy: [f64; 2],
    /// F1 of constraints, likewise.
    pub constraint_f1: [f64; 2],
    /// Items only the refit got right, only the shipped model got right.
    pub only: [u64; 2],
    /// Exact two-sided McNemar test of the two counts.
    pub p_value: f64,
    /// The refit is the more accurate and not worse at constraints.
    pub better: bool,
}

/// A refit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: LinearModel,
    /// Against the shipped model, when there is one.
    pub comparison: Option<Comparison>,
    /// Held-out answers behind the comparison.
    pub held_out: Vec<HeldOut>,
}

/// Fit to somebody's own labels and say whether the result beats the shipped model on their held-out part.
///
/// Shipped labels that were hydrated join through [`mix`]. Refuses labels too few or one-sided.
pub fn fit(examples: &[Example], options: &TrainOptions, shipped: Option<&LinearModel>) -> Result<Fitted, TrainError> {
    let held_out = nested(examples, options)?;
    let comparison = shipped.map(|shipped| compare(examples, &held_out, shipped));
    let notes = serde_json::json!({ "examples": examples.len(), "comparison": comparison });
    Ok(Fitted { model: fit_model(examples, options, notes)?, comparison, held_out })
}

/// Own labels and shipped ones in one list: the shipped ones train, and never calibrate or score, since their mix of
/// types is another world's.
pub fn mix(own: Vec<Example>, shipped: Vec<Example>) -> Vec<Example> {
    let shipped = shipped.into_iter().map(|mut e| {
        if e.role == Role::Gold {
            e.role = Role::Extra;
            e.why = Some("remainder".to_owned());
        }
        e
    });
    own.into_iter().chain(shipped).collect()
}

/// A refit's held-out answers beside the shipped model's.
pub fn compare(examples: &[Example], held_out: &[HeldOut], shipped: &LinearModel) -> Comparison {
    let line = shipped.thresholds().balanced;
    let triples: Vec<(KnowledgeType, KnowledgeType, KnowledgeType)> = held_out
        .iter()
        .filter(|held| examples[held.index].role == Role::Gold)
        .map(|held| {
            let example = &examples[held.index];
            let theirs = example.with_context(|item| shipped.probabilities(item)).type_at(line);
            (example.label, held.item_type(), theirs)
        })
        .collect();
    let ours = Confusion::of(triples.iter().map(|(truth, ours, _)| (*truth, *ours)));
    let theirs = Confusion::of(triples.iter().map(|(truth, _, theirs)| (*truth, *theirs)));
    let only =
        |f: fn(&(KnowledgeType, KnowledgeType, KnowledgeType)) -> bool| triples.iter().filter(|t| f(t)).count() as u64;
    let only = [only(|(t, a, b)| t == a && t != b), only(|(t, a, b)| t != a && t == b)];
    let accuracy = [ours.accuracy(), theirs.accuracy()];
    let constraint_f1 = [&ours, &theirs].map(|c| c.score(KnowledgeType::Constraint).f1);
    Comparison {
        items: triples.len(),
        accuracy,
        constraint_f1,
        only,
        p_value: mcnemar_exact(only[0], only[1]),
        better: accuracy[0] > accuracy[1] && constraint_f1[0] >= constraint_f1[1],
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::parse_labels;
    use super::*;

    /// `count` items of `count / 5` repositories; every fourth is a constraint.
    fn labels(count: usize) -> Vec<Example> {
        let lines: Vec<String> = (0..count)
            .map(|i| {
                let (label, text) = match i % 4 {
                    0 => ("constraint", "Never delete production data of table"),
                    1 => ("procedural", "Run the tests of package"),
                    2 => ("belief", "The service listens on port"),
                    _ => ("preference", "Prefer short names in module"),
                };
                let word: String = format!("{i:05}").bytes().map(|b| (b - b'0' + b'a') as char).collect();
                format!(
                    r#"{{"repo":"o/r{}","path":"AGENTS.md","text":"{text} {word}{word}{word}","label":"{label}"}}"#,
                    i / 5
                )
            })
            .collect();
        parse_labels("own.jsonl", &lines.join("\n")).unwrap().iter().filter_map(|r| r.as_given()).collect()
    }

    fn options() -> TrainOptions {
        let features = FeatureOptions { bits: 12, ..FeatureOptions::default() };
        TrainOptions { features, near_duplicate: 0.99, ..TrainOptions::default() }
    }

    #[test]
    fn labels_too_few_or_one_sided_are_refused_with_the_reason() {
        let few = fit(&labels(40), &options(), None).unwrap_err();
        assert_eq!(few, TrainError::TooFew { found: 40, needed: MIN_ITEMS });
        let mut one_sided = labels(100);
        one_sided.iter_mut().for_each(|e| e.label = KnowledgeType::Belief);
        let error = fit(&one_sided, &options(), None).unwrap_err().to_string();
        assert!(error.starts_with("Failed to train: 0 of 100 items are constraints"), "{error}");
        let mut one_repository = labels(100);
        one_repository.iter_mut().for_each(|e| e.group = "o/r".to_owned());
        assert!(matches!(fit(&one_repository, &options(), None), Err(TrainError::TooFewGroups { found: 1, .. })));
        let mut blank = labels(100);
        blank[7].text.clear();
        assert!(matches!(fit(&blank, &options(), None), Err(TrainError::NoText { .. })));
    }

    #[test]
    fn a_refit_learns_repeats_itself_and_is_compared_with_another_model() {
        let examples = labels(120);
        let first = fit(&examples, &options(), None).unwrap();
        assert_eq!(first.held_out.len(), 120);
        let again = fit(&examples, &options(), Some(&first.model)).unwrap();
        assert_eq!(again.model.tensors(), first.model.tensors());
        let comparison = again.comparison.unwrap();
        assert!(comparison.accuracy[0] > 0.95, "{comparison:?}");
        assert!(!comparison.better, "a model is not better than itself");
    }

    #[test]
    fn mixed_in_labels_train_but_are_never_scored() {
        let mixed = mix(labels(100), labels(80));
        let held = nested(&mixed, &options()).unwrap();
        assert!(held.iter().all(|h| h.index < 100) && held.len() == 100);
    }
}
