//! What a classifier's held-out answers are worth: the figures, their intervals, where it fails.

use super::fit::{HeldOut, Prepared, TrainError, TrainOptions, nested_on};
use super::labels::{Example, Role};
use super::prose::natural_language;
use crate::classify::metrics::{
    ClassScore, Confusion, CostPoint, Interval, MACRO_TYPES, ReliabilityBin, Scored, bootstrap, cost_curve,
    expected_calibration_error, reliability,
};
use crate::taxonomy::KnowledgeType;
use crate::triage::Tokenizer;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

const RESAMPLES: usize = 1000;
const BINS: usize = 10;

/// Figures on gold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Gold items answered.
    pub items: usize,
    /// Share of types right, balanced point.
    pub accuracy: Interval,
    /// Mean F1 over constraint, procedural, belief, preference and meta, balanced point.
    pub macro_f1: Interval,
    /// F1 of constraints, balanced point.
    pub constraint_f1: Interval,
    /// Precision, recall and F1 of every type, balanced point.
    pub classes: Vec<(KnowledgeType, ClassScore)>,
    /// True type by type given.
    pub confusion: Confusion,
    /// Constraint recall at the safe point.
    pub safe_recall: Interval,
    /// Share of items flagged at the safe point.
    pub safe_flagged: Interval,
    /// Share of tokens (`cl100k`) flagged at the safe point.
    pub safe_tokens: f64,
    /// Recall against share of items and of tokens flagged, for every threshold: what an operator chooses from.
    pub cost_curve: Vec<CostPoint>,
    /// Expected calibration error of the likeliest type, ten bins.
    pub calibration_error: f64,
    /// Expected calibration error of the constraint probability, ten bins.
    pub constraint_calibration_error: f64,
    /// Reliability of the likeliest type.
    pub reliability: Vec<ReliabilityBin>,
    /// By programming language.
    pub by_language: Vec<Slice>,
    /// By platform, as the caller names it.
    pub by_platform: Vec<Slice>,
    /// By natural language, as far as it can be told ([`natural_language`]).
    pub by_natural_language: Vec<Slice>,
}

/// Figures on a part of gold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slice {
    /// Which part.
    pub name: String,
    /// Its items.
    pub items: usize,
    /// Its constraints.
    pub constraints: usize,
    /// Share of types right.
    pub accuracy: f64,
    /// F1 of constraints.
    pub constraint_f1: f64,
    /// Constraint recall at the safe point.
    pub safe_recall: f64,
    /// Share of items flagged at the safe point.
    pub safe_flagged: f64,
}

/// One answered gold item, ready to count.
struct Answer<'a> {
    example: &'a Example,
    held: &'a HeldOut,
    given: KnowledgeType,
    constraint: f64,
    flagged: bool,
}

impl Answer<'_> {
    fn is_constraint(&self) -> bool {
        self.example.label == KnowledgeType::Constraint
    }
}

fn answers<'a>(examples: &'a [Example], held: &'a [HeldOut], role: Role) -> Vec<Answer<'a>> {
    held.iter()
        .filter(|h| examples[h.index].role == role)
        .map(|held| {
            let constraint = held.probs[KnowledgeType::Constraint.index()];
            let flagged = constraint as f32 >= held.thresholds.safe;
            Answer { example: &examples[held.index], held, given: held.item_type(), constraint, flagged }
        })
        .collect()
}

/// The figures of held-out answers; `platform` names the platform of a path.
pub fn evaluate(examples: &[Example], held: &[HeldOut], platform: impl Fn(&str) -> String) -> Evaluation {
    let gold = answers(examples, held, Role::Gold);
    let confusion_of = |drawn: &[usize]| Confusion::of(drawn.iter().map(|i| (gold[*i].example.label, gold[*i].given)));
    let groups = group_numbers(&gold);
    let interval = |statistic: &dyn Fn(&[usize]) -> f64| bootstrap(&groups, RESAMPLES, 1, statistic);
    let all: Vec<usize> = (0..gold.len()).collect();
    let confusion = confusion_of(&all);
    let tokens: Vec<f64> = gold.iter().map(|a| Tokenizer::Cl100k.count(&a.example.text) as f64).collect();
    let scored: Vec<Scored> = gold
        .iter()
        .zip(&tokens)
        .map(|(a, tokens)| Scored { score: a.constraint, positive: a.is_constraint(), cost: *tokens })
        .collect();
    let flagged_tokens: f64 = gold.iter().zip(&tokens).filter(|(a, _)| a.flagged).map(|(_, tokens)| tokens).sum();
    let confidences: Vec<(f64, bool)> = gold
        .iter()
        .map(|a| {
            let likeliest = a.held.probabilities().likeliest();
            (a.held.probs[likeliest.index()], likeliest == a.example.label)
        })
        .collect();
    let constraint: Vec<(f64, bool)> = gold.iter().map(|a| (a.constraint, a.is_constraint())).collect();
    Evaluation {
        items: gold.len(),
        accuracy: interval(&|drawn| confusion_of(drawn).accuracy()),
        macro_f1: interval(&|drawn| confusion_of(drawn).macro_f1(&MACRO_TYPES)),
        constraint_f1: interval(&|drawn| confusion_of(drawn).score(KnowledgeType::Constraint).f1),
        classes: KnowledgeType::ALL.iter().map(|t| (*t, confusion.score(*t))).collect(),
        confusion,
        safe_recall: interval(&|drawn| share(drawn, |i| gold[i].is_constraint(), |i| gold[i].flagged)),
        safe_flagged: interval(&|drawn| share(drawn, |_| true, |i| gold[i].flagged)),
        safe_tokens: flagged_tokens / tokens.iter().sum::<f64>().max(1.0),
        cost_curve: cost_curve(&scored),
        calibration_error: expected_calibration_error(&confidences, BINS),
        constraint_calibration_error: expected_calibration_error(&constraint, BINS),
        reliability: reliability(&confidences, BINS),
        by_language: slices(&gold, |e| e.language.clone().unwrap_or_else(|| "unknown".to_owned())),
        by_platform: slices(&gold, |e| platform(&e.path)),
        by_natural_language: slices(&gold, natural_language),
    }
}

/// Of the drawn items that `of` accepts, the share that `is` accepts.
fn share(drawn: &[usize], of: impl Fn(usize) -> bool, is: impl Fn(usize) -> bool) -> f64 {
    let (mut whole, mut part) = (0usize, 0usize);
    for i in drawn.iter().copied().filter(|i| of(*i)) {
        whole += 1;
        part += usize::from(is(i));
    }
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn group_numbers(answers: &[Answer<'_>]) -> Vec<usize> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    answers
        .iter()
        .map(|a| {
            let next = numbers.len();
            *numbers.entry(a.example.group.as_str()).or_insert(next)
        })
        .collect()
}

fn slices(gold: &[Answer<'_>], key: impl Fn(&Example) -> String) -> Vec<Slice> {
    let mut parts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, answer) in gold.iter().enumerate() {
        parts.entry(key(answer.example)).or_default().push(i);
    }
    let mut slices: Vec<Slice> = parts
        .into_iter()
        .map(|(name, part)| {
            let confusion = Confusion::of(part.iter().map(|i| (gold[*i].example.label, gold[*i].given)));
            let score = confusion.score(KnowledgeType::Constraint);
            Slice {
                name,
                items: part.len(),
                constraints: score.support,
                accuracy: confusion.accuracy(),
                constraint_f1: score.f1,
                safe_recall: share(&part, |i| gold[i].is_constraint(), |i| gold[i].flagged),
                safe_flagged: share(&part, |_| true, |i| gold[i].flagged),
            }
        })
        .collect();
    slices.sort_by(|a, b| b.items.cmp(&a.items).then_with(|| a.name.cmp(&b.name)));
    slices
}

/// The phrasing test: how a classifier does on rules that differ in grammatical form only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhrasingScore {
    /// Where the line was drawn.
    pub line: String,
    /// Recall by form.
    pub recall: BTreeMap<String, f64>,
    /// Mean of the recalls.
    pub mean_recall: f64,
    /// Share of flagged phrasings that are rules; the others are the hard negatives.
    pub precision: f64,
}

/// Scores on phrasings at three lines: the balanced point, the safe point, and the lowest threshold that keeps
/// `precision` on the *other* folds' phrasings.
pub fn evaluate_phrasing(
    examples: &[Example],
    held: &[HeldOut],
    fold_of: impl Fn(&Example) -> usize,
    precision: f64,
) -> Vec<PhrasingScore> {
    let phrasings = answers(examples, held, Role::Phrasing);
    let folds: Vec<usize> = phrasings.iter().map(|a| fold_of(a.example)).collect();
    let count = folds.iter().max().map_or(0, |f| f + 1);
    let lines: Vec<f64> = (0..count)
        .map(|fold| {
            let others: Vec<Scored> = phrasings
                .iter()
                .zip(&folds)
                .filter(|(_, f)| **f != fold)
                .map(|(a, _)| Scored { score: a.constraint, positive: a.is_constraint(), cost: 1.0 })
                .collect();
            cost_curve(&others).iter().rfind(|p| p.precision >= precision).map_or(1.0, |p| p.threshold)
        })
        .collect();
    let score = |line: String, flagged: &dyn Fn(usize) -> bool| {
        let all: Vec<usize> = (0..phrasings.len()).collect();
        let mut recall: BTreeMap<String, f64> = BTreeMap::new();
        for form in phrasings.iter().filter_map(|a| a.example.form.as_ref()) {
            if !recall.contains_key(form) {
                let of = |i: usize| phrasings[i].example.form.as_ref() == Some(form);
                recall.insert(form.clone(), share(&all, of, flagged));
            }
        }
        PhrasingScore {
            line,
            mean_recall: recall.values().sum::<f64>() / recall.len().max(1) as f64,
            precision: share(&all, flagged, |i| phrasings[i].is_constraint()),
            recall,
        }
    };
    vec![
        score("balanced".to_owned(), &|i| phrasings[i].given == KnowledgeType::Constraint),
        score("safe".to_owned(), &|i| phrasings[i].flagged),
        score(format!("precision {precision:.2}"), &|i| phrasings[i].constraint >= lines[folds[i]]),
    ]
}

/// A point of the learning curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LearningPoint {
    /// Share of the repositories whose gold labels were learned from.
    pub share: f64,
    /// Accuracy, balanced point.
    pub accuracy: f64,
    /// F1 of constraints, balanced point.
    pub constraint_f1: f64,
}

/// How accuracy grows with gold labels alone (no other examples), by nested cross-validation at each share.
pub fn learning_curve(
    examples: &[Example],
    options: &TrainOptions,
    shares: &[f64],
) -> Result<Vec<LearningPoint>, TrainError> {
    let gold: Vec<Example> = examples.iter().filter(|e| e.role == Role::Gold).cloned().collect();
    let prepared = Prepared::new(&gold, options)?;
    let rank = |group: &str| xxhash_rust::xxh3::xxh3_64_with_seed(group.as_bytes(), 5) as f64 / u64::MAX as f64;
    Ok(shares
        .iter()
        .map(|share| {
            let held = nested_on(&prepared, |i| rank(&gold[i].group) <= *share);
            let confusion = Confusion::of(held.iter().map(|h| (gold[h.index].label, h.item_type())));
            LearningPoint {
                share: *share,
                accuracy: confusion.accuracy(),
                constraint_f1: confusion.score(KnowledgeType::Constraint).f1,
            }
        })
        .collect())
}

/// The `limit` gold items answered with most confidence and wrongly, worst first, as positions in `held`.
pub fn worst_errors(examples: &[Example], held: &[HeldOut], limit: usize) -> Vec<usize> {
    let mut wrong: Vec<usize> = (0..held.len())
        .filter(|i| {
            let example = &examples[held[*i].index];
            example.role == Role::Gold && held[*i].item_type() != example.label
        })
        .collect();
    let truth = |i: &usize| held[*i].probs[examples[held[*i].index].label.index()];
    wrong.sort_by(|a, b| truth(a).total_cmp(&truth(b)).then(a.cmp(b)));
    wrong.truncate(limit);
    wrong
}
