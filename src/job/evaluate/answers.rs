//! Labels with their texts, and what a classifier answers to them.

use super::classifier::{Basis, ClassifierJob, EvaluateError, Method, PHRASING_PRECISION};
use super::folds::{FoldsFound, folds};
use crate::classify::linear::shipped;
use crate::classify::{Classifier, Probabilities, tuned};
use crate::corpus::ItemContext;
use crate::job::encoders::EncoderPlace;
use crate::job::hydrate::{HydrateError, HydrateSummary, TextSource, hydrate, read_labels, shipped_labels};
use crate::job::model::{ModelFileError, ModelName, ModelPlaces, Variant};
use crate::job::train::{examples_of, shipped_hashes, was_shipped};
use crate::monitor::Monitor;
use crate::train::fit::{HeldOut, TrainOptions, nested};
use crate::train::labels::{Example, LabelRecord, Role};
use std::collections::HashSet;
use std::sync::Arc;

/// Labels with texts, and answers of the trained model to them.
pub(super) struct Answered {
    pub(super) basis: Basis,
    pub(super) records: Vec<LabelRecord>,
    pub(super) examples: Arc<Vec<Example>>,
    pub(super) trained: Vec<HeldOut>,
    /// What the folds of a fine-tuning have besides.
    pub(super) folds: Option<FoldsFound>,
    /// The only items that are scored.
    scope: Option<HashSet<usize>>,
}

impl Answered {
    /// The answers of a classifier that is not refitted to the items that are scored.
    pub(super) fn of(&self, classifier: &dyn Classifier) -> Vec<HeldOut> {
        self.scoped(answers_of(classifier, &self.examples))
    }

    /// Of `held`, the answers to items that are scored.
    pub(super) fn scoped(&self, mut held: Vec<HeldOut>) -> Vec<HeldOut> {
        if let Some(scope) = &self.scope {
            held.retain(|held| scope.contains(&held.index));
        }
        held
    }
}

/// Find the texts of the labels and answer them with the model of `job`.
pub(super) async fn answer(
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
    let examples = Arc::new(examples);
    let model = scored(job);
    let mut basis = Basis {
        method: if own { Method::AsItStands } else { Method::NestedCrossValidation },
        model: ModelName::of(model.as_ref()),
        // Which ones is `aac gold hydrate`'s to say.
        texts: HydrateSummary { not_found: Vec::new(), ..summary },
        seen: 0,
    };
    // Half of the gold set tells nothing about the whole.
    let found = examples.iter().filter(|e| e.role == Role::Gold).count();
    if !own && found * 10 < labels * 9 {
        return Err(EvaluateError::NoTexts { found, labels });
    }
    if let Some(wanted) = &job.folds {
        let mut folds = folds(wanted, &examples, PHRASING_PRECISION, monitor).await?;
        basis.method = Method::FoldByFold;
        basis.model = ModelName { tier: tuned::TIER.to_owned(), hash: folds.fingerprint.to_string() };
        let trained = std::mem::take(&mut folds.trained);
        let scope = Some(trained.iter().map(|held| held.index).collect());
        return Ok(Answered { basis, records, examples, trained, folds: Some(folds), scope });
    }
    let trained = if own {
        if basis.model == ModelName::of(shipped()) {
            let hashes = shipped_hashes(&shipped_labels().map_err(HydrateError::from)?);
            basis.seen = examples.iter().filter(|e| was_shipped(&e.text, &hashes)).count();
        }
        answers_of(model.as_ref(), &examples)
    } else {
        monitor.begin("validate", None);
        let work = examples.clone();
        let held = tokio::task::spawn_blocking(move || nested(&work, &TrainOptions::default())).await??;
        monitor.end();
        held
    };
    Ok(Answered { basis, records, examples, trained, folds: None, scope: None })
}

/// Answers of a classifier that is not refitted, in the form of held-out ones. Chosen items are scored nowhere, so
/// nobody waits for answers to them.
fn answers_of(classifier: &dyn Classifier, examples: &[Example]) -> Vec<HeldOut> {
    let thresholds = classifier.thresholds();
    let (indices, drawn): (Vec<usize>, Vec<&Example>) =
        examples.iter().enumerate().filter(|(_, example)| example.role != Role::Extra).unzip();
    indices
        .into_iter()
        .zip(together(classifier, &drawn))
        .map(|(index, probs)| HeldOut { index, probs: probs.as_array().map(f64::from), thresholds })
        .collect()
}

/// The model that the figures are of. Cross-validation refits the linear tier: fine-tuning an encoder five times is no
/// matter of minutes, and has [`ClassifierJob::folds`] for it.
pub(super) fn scored(job: &ClassifierJob) -> Arc<dyn Classifier> {
    if job.gold.is_empty() && ModelName::of(job.model.as_ref()).tier != "linear" {
        Arc::new(shipped().clone())
    } else {
        job.model.clone()
    }
}

/// The variants that need an encoder and nothing fitted.
pub(super) fn prototypes(encoder: Option<&EncoderPlace>) -> Result<Vec<Arc<dyn Classifier>>, ModelFileError> {
    let places = ModelPlaces { encoder: encoder.cloned(), ..ModelPlaces::default() };
    let variants: &[Variant] = if encoder.is_some() { &[Variant::Encoder, Variant::RegexEncoder] } else { &[] };
    variants.iter().map(|variant| variant.classifier(&places)).collect()
}

/// Answers to many examples at once.
pub(super) fn together(classifier: &dyn Classifier, examples: &[&Example]) -> Vec<Probabilities> {
    contexts_of(examples, |items| classifier.probabilities_of(items))
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
