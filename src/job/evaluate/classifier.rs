//! What the classifier is worth on labels: regex and trained beside each other and beside the paper's figures.

use super::answers::{Answered, answer, prototypes, scored, together};
use super::asked::{AskedJob, NotRun};
use super::ceiling::{Agreement, agreement};
use super::folds::{FoldsJob, FoldsReport};
use super::paper;
use crate::classify::metrics::{Confusion, mcnemar_exact};
use crate::classify::rules::RegexRules;
use crate::classify::{Classifier, TYPES, tuned};
use crate::job::encoders::EncoderPlace;
use crate::job::hydrate::{HydrateError, HydrateSummary, TextSource};
use crate::job::model::{ModelFileError, ModelName};
use crate::job::train::TrainJobError;
use crate::llm::{LlmError, LlmReport};
use crate::monitor::Monitor;
use crate::taxonomy::KnowledgeType;
use crate::train::clusters::{ClusterOptions, ClusterReport, nested_with_clusters};
use crate::train::evaluate::{
    Evaluation, LearningPoint, PhrasingScore, evaluate, evaluate_phrasing, learning_curve, worst_errors,
};
use crate::train::fit::{HeldOut, TrainError, TrainOptions};
use crate::train::folds::fold_of_groups;
use crate::train::labels::{Example, Role};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Precision on hard negatives at which phrasings are scored.
pub(super) const PHRASING_PRECISION: f64 = 0.90;
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
    /// Score the encoder tier by fine-tuning it fold by fold, in place of the linear tier by nested cross-validation or
    /// of `model`.
    pub folds: Option<FoldsJob>,
    /// The variants that ask a language model.
    pub asked: AskedJob,
    /// Score the linear tier with clusters of sentence vectors among its features, too; only on the shipped labels, and
    /// with an encoder.
    pub clusters: bool,
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
    /// An encoder cannot be fine-tuned, or not to the end.
    #[error(transparent)]
    Finetune(#[from] TrainJobError),
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
    /// An encoder fine-tuned once a fold, each item answered by the encoder that saw nothing of its repository or rule;
    /// mixing of the tiers and thresholds from the other folds' held-out items.
    FoldByFold,
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
    /// took, spread over all items, also those that it was not asked about. Nothing where no model of the kind is here.
    pub microseconds: Option<f64>,
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
    /// What is there of a fine-tuning fold by fold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<FoldsReport>,
    /// The clusters of the variant that has them among its features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterReport>,
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

/// Score the variants on gold items; `platform` names the platform of a path.
pub async fn evaluate_classifier(
    job: &ClassifierJob,
    texts: Option<&TextSource<'_>>,
    platform: impl Fn(&str) -> String,
    monitor: &dyn Monitor,
) -> Result<ClassifierEvaluation, EvaluateError> {
    let answered = answer(job, texts, monitor).await?;
    let (examples, trained) = (&answered.examples, &answered.trained);
    if !examples.iter().any(|e| e.role == Role::Gold) {
        return Err(EvaluateError::Nothing("labelled items with texts (phrasings and chosen items do not count)"));
    }
    let score = |name: &str, microseconds: Option<f64>, held: &[HeldOut]| {
        let mut figures = evaluate(examples, held, &platform);
        figures.cost_curve = thinned(figures.cost_curve);
        VariantScore {
            name: name.to_owned(),
            constraint_recall: figures.classes[0].1.recall,
            five_class_macro_f1: five_class(&figures.confusion),
            microseconds,
            figures,
        }
    };
    let (mut variants, mut pairings) = (Vec::new(), Vec::new());
    let mut add = |name: &str, microseconds: Option<f64>, held: &[HeldOut]| {
        variants.push(score(name, microseconds, held));
        pairings.push(pair(examples, (name, held), ("trained", trained)));
    };
    add("regex", Some(time(&RegexRules, examples)), &answered.of(&RegexRules));
    for classifier in prototypes(job.encoder.as_ref())? {
        let classifier = classifier.as_ref();
        add(classifier.name(), Some(time(classifier, examples)), &answered.of(classifier));
    }
    let asked = job.asked.answers(examples, Role::Gold, |_| true, monitor).await?;
    for one in &asked {
        add(one.classifier.name(), Some(one.microseconds), &answered.scoped(one.held.clone()));
    }
    let mut clusters = None;
    if let Some(encoder) = job.encoder.as_ref().filter(|_| job.clusters) {
        let (held, report) = clustered(encoder, examples.clone(), monitor).await?;
        add("linear+clusters", None, &held);
        clusters = Some(report);
    }
    let model = scored(job);
    let mut timed = Some(model.as_ref());
    if let Some(folds) = &answered.folds {
        let linear = crate::classify::linear::shipped();
        add("linear", Some(time(linear, examples)), &folds.linear);
        // The folds' encoders are gone; one that is here takes as long.
        timed = timed.filter(|model| ModelName::of(*model).tier == tuned::TIER);
    }
    variants.push(score("trained", timed.map(|model| time(model, examples)), trained));
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
        errors: errors(examples, trained, job.errors),
        agreement: agreement(&answered.records),
        folds: answered.folds.map(|folds| folds.report),
        clusters,
        basis: answered.basis,
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
    let answered = answer(job, texts, monitor).await?;
    let Answered { examples, trained, folds, .. } = &answered;
    let phrasings: Vec<&Example> =
        trained.iter().map(|held| &examples[held.index]).filter(|e| e.role == Role::Phrasing).collect();
    let rules = phrasings.iter().filter(|e| e.label == KnowledgeType::Constraint).count();
    if rules == 0 {
        return Err(EvaluateError::Nothing("phrasings of rules (labels with `domain` and `form`)"));
    }
    let count = TrainOptions::default().folds;
    let fold = match folds {
        Some(folds) => folds.rules.iter().map(|(rule, part)| (rule.as_str(), *part)).collect(),
        None => fold_of_groups(phrasings.iter().map(|e| e.group.as_str()), count),
    };
    let score = |held: &[HeldOut]| {
        evaluate_phrasing(examples, held, |e| fold.get(e.group.as_str()).copied().unwrap_or(0), PHRASING_PRECISION)
    };
    // Prototypes are left out, and the cascades with them: they are made of phrasings.
    let asked = job.asked.answers(examples, Role::Phrasing, |name| !name.starts_with("cascade"), monitor).await?;
    let mut variants = vec![("regex".to_owned(), score(&answered.of(&RegexRules)))];
    for one in &asked {
        variants.push((one.classifier.name().to_owned(), score(&answered.scoped(one.held.clone()))));
    }
    if let Some(folds) = folds {
        variants.push(("linear".to_owned(), score(&folds.linear)));
    }
    variants.push(("trained".to_owned(), score(trained)));
    Ok(PhrasingEvaluation {
        items: [rules, phrasings.len() - rules],
        not_run: job.asked.not_run(&asked),
        llm: job.asked.report(),
        variants,
        basis: answered.basis,
        paper_figure_4: &paper::FIGURE_4,
        not_comparable: paper::NOT_COMPARABLE[2],
    })
}

/// Held-out answers of the linear tier with clusters among its features.
async fn clustered(
    encoder: &EncoderPlace,
    examples: Arc<Vec<Example>>,
    monitor: &dyn Monitor,
) -> Result<(Vec<HeldOut>, ClusterReport), EvaluateError> {
    let encoder = encoder.read().and_then(|files| files.encoder()).map_err(TrainJobError::from)?;
    monitor.begin("cluster", None);
    let found = tokio::task::spawn_blocking(move || {
        nested_with_clusters(&encoder, &examples, &TrainOptions::default(), &ClusterOptions::default())
    });
    let found = found.await?.map_err(TrainJobError::from)?;
    monitor.end();
    Ok(found)
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
    let timed: Vec<&Example> = examples.iter().take(TIMED).collect();
    let begun = Instant::now();
    std::hint::black_box(together(classifier, &timed));
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
