//! What the classifier is worth on labels: regex and trained beside each other and beside the paper's figures.

use super::asked::{AskedJob, NotRun};
use super::ceiling::{Agreement, agreement};
use super::paper;
use crate::classify::linear::shipped;
use crate::classify::metrics::{Confusion, mcnemar_exact};
use crate::classify::rules::RegexRules;
use crate::classify::{Classifier, Probabilities, TYPES};
use crate::corpus::ItemContext;
use crate::job::encoders::EncoderPlace;
use crate::job::hydrate::{HydrateError, HydrateSummary, TextSource, hydrate, read_labels, shipped_labels};
use crate::job::model::{ModelFileError, ModelName, ModelPlaces, Variant};
use crate::job::train::{examples_of, shipped_hashes, was_shipped};
use crate::llm::{LlmError, LlmReport};
use crate::monitor::Monitor;
use crate::taxonomy::KnowledgeType;
use crate::train::evaluate::{
    Evaluation, LearningPoint, PhrasingScore, evaluate, evaluate_phrasing, learning_curve, worst_errors,
};
use crate::train::fit::{HeldOut, TrainError, TrainOptions, nested};
use crate::train::folds::fold_of_groups;
use crate::train::labels::{Example, LabelRecord, Role};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Precision on hard negatives at which phrasings are scored.
const PHRASING_PRECISION: f64 = 0.90;
/// Shares of the repositories at which the learning curve is measured.
const CURVE: [f64; 5] = [0.1, 0.2, 0.4, 0.7, 1.0];
/// Items timed for the latency of a variant.
const TIMED: usize = 2_000;

/// What to score, and on what.
pub struct ClassifierJob {
    /// Label files; none stands for the shipped labels.
    pub gold: Vec<PathBuf>,
    /// The model that is scored as it stands on `gold`. On the shipped labels it is refitted without the items it answers.
    pub model: Arc<dyn Classifier>,
    /// The sentence encoder whose prototypes are scored, too; without one they are left out.
    pub encoder: Option<EncoderPlace>,
    /// The variants that ask a language model.
    pub asked: AskedJob,
    /// Measure how accuracy grows with labels; only on the shipped labels.
    pub curve: bool,
    /// How many of the worst errors to show.
    pub errors: usize,
}

/// Why nothing was scored.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// Labels or texts cannot be read.
    #[error(transparent)]
    Texts(#[from] HydrateError),
    /// The labels cannot be trained on.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The texts of the shipped labels are not here.
    #[error(
        "Failed to score the classifier: {found} of {labels} shipped gold labels found their texts; the texts belong to their repositories: name a corpus that holds them with --db or the repositories with --from, or score your own labels with --gold FILE"
    )]
    NoTexts {
        /// Gold labels with text.
        found: usize,
        /// Gold labels.
        labels: usize,
    },
    /// The variants that ask an encoder cannot be made.
    #[error(transparent)]
    Variants(#[from] ModelFileError),
    /// A language model did not answer.
    #[error(transparent)]
    Llm(#[from] LlmError),
    /// No label of the kind that is scored.
    #[error("Failed to score the classifier: the files hold no {0}")]
    Nothing(&'static str),
    /// The worker thread died.
    #[error("Failed to score the classifier: the worker ended early: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// How the answers came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Refitted five times (nested) on the shipped labels, each item answered by a model that saw nothing of its
    /// repository or rule; thresholds and calibration from training folds.
    NestedCrossValidation,
    /// The model as it stands, on labels of the caller.
    AsItStands,
}

/// What was scored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basis {
    /// How the answers came about.
    pub method: Method,
    /// The model named; under cross-validation the figures are of its recipe, not of its numbers.
    pub model: ModelName,
    /// What became of the labels' texts.
    pub texts: HydrateSummary,
    /// Items scored that the model was fitted on (as it stands; known of the shipped model only).
    pub seen: usize,
}

/// Figures of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantScore {
    /// Its name on the command line.
    pub name: String,
    /// All figures on gold.
    pub figures: Evaluation,
    /// Recall of constraints, balanced point.
    pub constraint_recall: f64,
    /// Macro-F1 over the paper's five types, without meta items.
    pub five_class_macro_f1: f64,
    /// Mean microseconds an item; an encoder uses all cores, the others one. Of a language model it is the time that it
    /// took, spread over all items, also those that it was not asked about.
    pub microseconds: f64,
}

/// Two variants on the same items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairing {
    /// First variant.
    pub a: String,
    /// Second variant.
    pub b: String,
    /// Items only the first got right.
    pub only_a: u64,
    /// Items only the second got right.
    pub only_b: u64,
    /// Exact two-sided McNemar test.
    pub p_value: f64,
}

/// An item answered with confidence and wrongly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstError {
    /// Name of the item.
    pub id: String,
    /// Its repository.
    pub repo: String,
    /// Its path.
    pub path: String,
    /// Headings above it.
    pub heading: Vec<String>,
    /// Its text.
    pub text: String,
    /// The type by its label.
    pub label: KnowledgeType,
    /// The type given.
    pub given: KnowledgeType,
    /// Probability that the model gave the label's type.
    pub probability: f64,
}

/// `aac evaluate classifier`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassifierEvaluation {
    /// On what.
    #[serde(flatten)]
    pub basis: Basis,
    /// The variants; the last is `trained`.
    pub variants: Vec<VariantScore>,
    /// Those without figures, and why.
    pub not_run: Vec<NotRun>,
    /// What asking a language model came to, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmReport>,
    /// McNemar tests between them.
    pub pairings: Vec<Pairing>,
    /// The ceiling, where two annotators are known.
    pub agreement: Option<Agreement>,
    /// The paper's Table 4.
    pub paper_table_4: &'static [paper::TypeRow],
    /// The paper's Table 9.
    pub paper_table_9: &'static [paper::VariantRow],
    /// Why they cannot be compared.
    pub not_comparable: &'static [&'static str],
    /// Accuracy by share of gold labels, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_curve: Option<Vec<LearningPoint>>,
    /// The worst errors, as many as asked for.
    pub errors: Vec<WorstError>,
}

/// `aac evaluate phrasing`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhrasingEvaluation {
    /// On what.
    #[serde(flatten)]
    pub basis: Basis,
    /// Phrasings of rules, and hard negatives.
    pub items: [usize; 2],
    /// Scores by variant, at three lines each.
    pub variants: Vec<(String, Vec<PhrasingScore>)>,
    /// Those that ask a language model and have no scores, and why.
    pub not_run: Vec<NotRun>,
    /// What asking a language model came to, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmReport>,
    /// The paper's Figure 4.
    pub paper_figure_4: &'static [paper::PhrasingRow],
    /// Why it cannot be compared.
    pub not_comparable: &'static str,
}

/// Labels with texts, and answers of the trained model to them.
struct Answered {
    basis: Basis,
    records: Vec<LabelRecord>,
    examples: Vec<Example>,
    trained: Vec<HeldOut>,
}

async fn answer(
    job: &ClassifierJob,
    texts: Option<&TextSource<'_>>,
    monitor: &dyn Monitor,
) -> Result<Answered, EvaluateError> {
    let own = !job.gold.is_empty();
    let records = if own { read_labels(&job.gold)? } else { shipped_labels().map_err(HydrateError::from)? };
    let gold = |r: &&LabelRecord| r.as_given().is_some_and(|e| e.role == Role::Gold);
    let labels = records.iter().filter(gold).count();
    let (records, summary) = match texts {
        Some(source) => hydrate(records, source, monitor).await?,
        None => {
            let with_text = records.iter().filter(|r| r.text.is_some()).count();
            let labels = records.len();
            (records, HydrateSummary { labels, with_text, ..HydrateSummary::default() })
        }
    };
    let (examples, ..) = examples_of(&records);
    let model = scored(job);
    let mut basis = Basis {
        method: if own { Method::AsItStands } else { Method::NestedCrossValidation },
        model: ModelName::of(model.as_ref()),
        // Which ones is `aac gold hydrate`'s to say.
        texts: HydrateSummary { not_found: Vec::new(), ..summary },
        seen: 0,
    };
    let trained = if own {
        if basis.model == ModelName::of(shipped()) {
            let hashes = shipped_hashes(&shipped_labels().map_err(HydrateError::from)?);
            basis.seen = examples.iter().filter(|e| was_shipped(&e.text, &hashes)).count();
        }
        answers_of(model.as_ref(), &examples)
    } else {
        // Half of the gold set tells nothing about the whole.
        let found = examples.iter().filter(|e| e.role == Role::Gold).count();
        if found * 10 < labels * 9 {
            return Err(EvaluateError::NoTexts { found, labels });
        }
        monitor.begin("validate", None);
        let work = examples.clone();
        let held = tokio::task::spawn_blocking(move || nested(&work, &TrainOptions::default())).await??;
        monitor.end();
        held
    };
    Ok(Answered { basis, records, examples, trained })
}

/// Answers of a classifier that is not refitted, in the form of held-out ones.
fn answers_of(classifier: &dyn Classifier, examples: &[Example]) -> Vec<HeldOut> {
    let thresholds = classifier.thresholds();
    together(classifier, examples)
        .into_iter()
        .enumerate()
        .map(|(index, probs)| HeldOut { index, probs: probs.as_array().map(f64::from), thresholds })
        .collect()
}

/// The model that the figures are of. Cross-validation refits the linear tier: fine-tuning an encoder five times is no
/// matter of minutes, and `aac train` scores it on a held-out fold.
fn scored(job: &ClassifierJob) -> Arc<dyn Classifier> {
    if job.gold.is_empty() && ModelName::of(job.model.as_ref()).tier != "linear" {
        Arc::new(shipped().clone())
    } else {
        job.model.clone()
    }
}

/// The variants that need an encoder and nothing fitted.
fn prototypes(encoder: Option<&EncoderPlace>) -> Result<Vec<Arc<dyn Classifier>>, ModelFileError> {
    let places = ModelPlaces { encoder: encoder.cloned(), ..ModelPlaces::default() };
    let variants: &[Variant] = if encoder.is_some() { &[Variant::Encoder, Variant::RegexEncoder] } else { &[] };
    variants.iter().map(|variant| variant.classifier(&places)).collect()
}

/// Answers to many examples at once.
fn together(classifier: &dyn Classifier, examples: &[Example]) -> Vec<Probabilities> {
    contexts_of(&examples.iter().collect::<Vec<_>>(), |items| classifier.probabilities_of(items))
}

/// What `with` makes of the examples as a classifier sees them.
pub(super) fn contexts_of<T>(examples: &[&Example], with: impl FnOnce(&[ItemContext<'_>]) -> T) -> T {
    let headings: Vec<Vec<&str>> = examples.iter().map(|e| e.heading.iter().map(String::as_str).collect()).collect();
    let items: Vec<ItemContext<'_>> = examples
        .iter()
        .zip(&headings)
        .map(|(e, heading)| ItemContext {
            text: &e.text,
            kind: e.kind,
            heading,
            path: &e.path,
            before: e.before.as_deref(),
            after: e.after.as_deref(),
        })
        .collect();
    with(&items)
}

/// Score the variants on gold items; `platform` names the platform of a path.
pub async fn evaluate_classifier(
    job: &ClassifierJob,
    texts: Option<&TextSource<'_>>,
    platform: impl Fn(&str) -> String,
    monitor: &dyn Monitor,
) -> Result<ClassifierEvaluation, EvaluateError> {
    let Answered { basis, records, examples, trained } = answer(job, texts, monitor).await?;
    if !examples.iter().any(|e| e.role == Role::Gold) {
        return Err(EvaluateError::Nothing("labelled items with texts (phrasings and chosen items do not count)"));
    }
    let regex = answers_of(&RegexRules, &examples);
    let score = |name: &str, microseconds: f64, held: &[HeldOut]| {
        let mut figures = evaluate(&examples, held, &platform);
        figures.cost_curve = thinned(figures.cost_curve);
        VariantScore {
            name: name.to_owned(),
            constraint_recall: figures.classes[0].1.recall,
            five_class_macro_f1: five_class(&figures.confusion),
            microseconds,
            figures,
        }
    };
    let mut variants = vec![score("regex", time(&RegexRules, &examples), &regex)];
    let mut pairings = vec![pair(&examples, ("regex", &regex), ("trained", &trained))];
    for classifier in prototypes(job.encoder.as_ref())? {
        let held = answers_of(classifier.as_ref(), &examples);
        variants.push(score(classifier.name(), time(classifier.as_ref(), &examples), &held));
        pairings.push(pair(&examples, (classifier.name(), &held), ("trained", &trained)));
    }
    let asked = job.asked.answers(&examples, Role::Gold, |_| true, monitor).await?;
    for one in &asked {
        variants.push(score(one.classifier.name(), one.microseconds, &one.held));
        pairings.push(pair(&examples, (one.classifier.name(), &one.held), ("trained", &trained)));
    }
    variants.push(score("trained", time(scored(job).as_ref(), &examples), &trained));
    let learning_curve = if job.curve {
        monitor.begin("curve", None);
        let work = examples.clone();
        let curve = tokio::task::spawn_blocking(move || learning_curve(&work, &TrainOptions::default(), &CURVE));
        let curve = curve.await??;
        monitor.end();
        Some(curve)
    } else {
        None
    };
    Ok(ClassifierEvaluation {
        not_run: job.asked.not_run(&asked),
        llm: job.asked.report(),
        pairings,
        agreement: agreement(&records),
        errors: errors(&examples, &trained, job.errors),
        basis,
        variants,
        paper_table_4: &paper::TABLE_4,
        paper_table_9: &paper::TABLE_9,
        not_comparable: &paper::NOT_COMPARABLE[..2],
        learning_curve,
    })
}

/// Score the variants on phrasings of rules and on hard negatives.
pub async fn evaluate_phrasings(
    job: &ClassifierJob,
    texts: Option<&TextSource<'_>>,
    monitor: &dyn Monitor,
) -> Result<PhrasingEvaluation, EvaluateError> {
    let Answered { basis, examples, trained, .. } = answer(job, texts, monitor).await?;
    let phrasings: Vec<&Example> = examples.iter().filter(|e| e.role == Role::Phrasing).collect();
    let rules = phrasings.iter().filter(|e| e.label == KnowledgeType::Constraint).count();
    if rules == 0 {
        return Err(EvaluateError::Nothing("phrasings of rules (labels with `domain` and `form`)"));
    }
    let folds = TrainOptions::default().folds;
    let fold = fold_of_groups(phrasings.iter().map(|e| e.group.as_str()), folds);
    let score = |held: &[HeldOut]| {
        evaluate_phrasing(&examples, held, |e| fold.get(e.group.as_str()).copied().unwrap_or(0), PHRASING_PRECISION)
    };
    // Prototypes are left out, and the cascades with them: they are made of phrasings.
    let asked = job.asked.answers(&examples, Role::Phrasing, |name| !name.starts_with("cascade"), monitor).await?;
    let mut variants = vec![("regex".to_owned(), score(&answers_of(&RegexRules, &examples)))];
    variants.extend(asked.iter().map(|one| (one.classifier.name().to_owned(), score(&one.held))));
    variants.push(("trained".to_owned(), score(&trained)));
    Ok(PhrasingEvaluation {
        items: [rules, phrasings.len() - rules],
        not_run: job.asked.not_run(&asked),
        llm: job.asked.report(),
        variants,
        basis,
        paper_figure_4: &paper::FIGURE_4,
        not_comparable: paper::NOT_COMPARABLE[2],
    })
}

/// One point for each percent of recall: a curve for people has no use for more.
fn thinned(curve: Vec<crate::classify::metrics::CostPoint>) -> Vec<crate::classify::metrics::CostPoint> {
    let mut last = None;
    curve
        .into_iter()
        .filter(|point| {
            let percent = (point.recall * 100.0).floor() as u32;
            last.replace(percent) != Some(percent)
        })
        .collect()
}

/// Macro-F1 over the paper's five types on the items that are none of meta; an answer of meta is an error.
fn five_class(confusion: &Confusion) -> f64 {
    let mut five = confusion.clone();
    five.0[KnowledgeType::Meta.index()] = [0; TYPES];
    five.macro_f1(&KnowledgeType::ALL[..TYPES - 1])
}

fn time(classifier: &dyn Classifier, examples: &[Example]) -> f64 {
    let timed = &examples[..examples.len().min(TIMED)];
    let begun = Instant::now();
    std::hint::black_box(together(classifier, timed));
    begun.elapsed().as_secs_f64() * 1e6 / timed.len().max(1) as f64
}

fn pair(examples: &[Example], a: (&str, &[HeldOut]), b: (&str, &[HeldOut])) -> Pairing {
    let right = |held: &[HeldOut]| -> std::collections::BTreeMap<usize, bool> {
        let gold = held.iter().filter(|h| examples[h.index].role == Role::Gold);
        gold.map(|h| (h.index, h.item_type() == examples[h.index].label)).collect()
    };
    let (right_a, right_b) = (right(a.1), right(b.1));
    let (mut only_a, mut only_b) = (0, 0);
    for (index, a) in &right_a {
        match (a, right_b.get(index)) {
            (true, Some(false)) => only_a += 1,
            (false, Some(true)) => only_b += 1,
            _ => {}
        }
    }
    Pairing { a: a.0.to_owned(), b: b.0.to_owned(), only_a, only_b, p_value: mcnemar_exact(only_a, only_b) }
}

fn errors(examples: &[Example], held: &[HeldOut], limit: usize) -> Vec<WorstError> {
    worst_errors(examples, held, limit)
        .into_iter()
        .map(|at| {
            let (held, example) = (&held[at], &examples[held[at].index]);
            WorstError {
                id: example.id.clone(),
                repo: example.group.clone(),
                path: example.path.clone(),
                heading: example.heading.clone(),
                text: example.text.clone(),
                label: example.label,
                given: held.item_type(),
                probability: held.probs[example.label.index()],
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use KnowledgeType::*;

    #[test]
    fn meta_items_stay_out_of_the_five_class_mean_and_meta_answers_count_as_wrong() {
        let all = [Constraint, Procedural, Belief, Preference, Episodic].map(|t| (t, t));
        assert_eq!(five_class(&Confusion::of(all.into_iter().chain([(Meta, Belief)]))), 1.0);
        let missed = Confusion::of(all.into_iter().chain([(Belief, Meta)]));
        assert!((five_class(&missed) - (4.0 + 2.0 / 3.0) / 5.0).abs() < 1e-12);
    }
}
