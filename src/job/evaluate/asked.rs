//! The variants that ask a language model, on labelled items.

use super::answers::contexts_of;
use super::classifier::EvaluateError;
use crate::classify::{Classifier, Thresholds};
use crate::corpus::Sha256;
use crate::job::llm::{LlmClassifier, LlmVariant};
use crate::llm::LlmReport;
use crate::monitor::Monitor;
use crate::train::fit::HeldOut;
use crate::train::labels::{Example, Role};
use serde::Serialize;
use std::sync::Arc;

/// Which variants are scored.
#[derive(Clone, Default)]
pub struct AskedJob {
    /// Those to ask. All share one asker, and so a budget.
    pub variants: Vec<Arc<LlmClassifier>>,
    /// How many labelled items each is asked about, drawn evenly; all without a number.
    pub take: Option<usize>,
}

/// A variant without figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotRun {
    /// Its name.
    pub name: &'static str,
    /// Why it has none.
    pub why: &'static str,
}

/// What the answers of one variant are.
pub(super) struct Scored {
    pub(super) classifier: Arc<LlmClassifier>,
    pub(super) held: Vec<HeldOut>,
    /// Mean microseconds an item that the model took.
    pub(super) microseconds: f64,
}

impl AskedJob {
    /// Ask every variant that `wanted` accepts about the examples of `role`.
    pub(super) async fn answers(
        &self,
        examples: &[Example],
        role: Role,
        wanted: impl Fn(&str) -> bool,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Scored>, EvaluateError> {
        let all: Vec<usize> = (0..examples.len()).filter(|at| examples[*at].role == role).collect();
        let take = self.take.unwrap_or(all.len()).min(all.len());
        let chosen: Vec<usize> = (0..take).map(|n| all[n * all.len() / take]).collect();
        let examples: Vec<&Example> = chosen.iter().map(|at| &examples[*at]).collect();
        let mut scored = Vec::new();
        for classifier in self.variants.iter().filter(|classifier| wanted(classifier.name())) {
            let requests = contexts_of(&examples, |items| classifier.requests(items));
            let keys: Vec<Sha256> = requests.iter().map(|request| request.key).collect();
            // How far it is, the asker tells.
            monitor.begin(classifier.name(), None);
            let asked = classifier.ask(requests, monitor).await;
            monitor.end();
            asked?;
            let probs = contexts_of(&examples, |items| classifier.probabilities_of(items));
            let took = classifier.milliseconds(&keys);
            let thresholds: Thresholds = classifier.thresholds();
            let held = chosen.iter().zip(probs);
            scored.push(Scored {
                held: held
                    .map(|(index, probs)| HeldOut { index: *index, probs: probs.as_array().map(f64::from), thresholds })
                    .collect(),
                microseconds: took as f64 * 1e3 / examples.len().max(1) as f64,
                classifier: classifier.clone(),
            });
        }
        Ok(scored)
    }

    /// What asking came to, where anybody was asked.
    pub(super) fn report(&self) -> Option<LlmReport> {
        self.variants.first().map(|classifier| classifier.report())
    }

    /// The variants without figures, and why.
    pub(super) fn not_run(&self, scored: &[Scored]) -> Vec<NotRun> {
        let has = |name: &str| scored.iter().any(|one| one.classifier.name() == name);
        let missing = LlmVariant::ALL.into_iter().filter(|variant| !has(variant.as_str()));
        missing
            .map(|variant| {
                let named = self.variants.iter().any(|classifier| classifier.name() == variant.as_str());
                let why = if named {
                    "its prototypes are made of the phrasings that would be scored"
                } else {
                    "no language model was asked: name the variant with --classifier, and an endpoint with AAC_LLM_URL \
                     and AAC_LLM_MODEL"
                };
                NotRun { name: variant.as_str(), why }
            })
            .collect()
    }
}
