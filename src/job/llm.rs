//! The variants of the classifier that ask a language model: what may leave the machine, what is asked, and what the
//! answers come to.

use super::model::{ModelFileError, ModelPlaces, Variant, VariantError};
use crate::classify::cascade::{self, CascadeOptions, Stage, Step, hard_lane, next_step};
use crate::classify::linear::{LinearModel, shipped};
use crate::classify::llm::{
    ANSWER_TOKENS, PROMPT_VERSION, Prompt, Prompter, Question, Reading, cache_key, read_answer, thresholds,
};
use crate::classify::rules::RegexRules;
use crate::classify::{Classifier, Probabilities, Reason, TYPES, Thresholds};
use crate::corpus::{ItemContext, Sha256};
use crate::llm::{Answers, Asker, LlmError, LlmReport, Request};
use crate::monitor::Monitor;
use crate::redact;
use crate::taxonomy::KnowledgeType;
use std::sync::{Arc, PoisonError, RwLock};

/// A variant that asks a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmVariant {
    /// Which of the types an item is, once.
    OneShot,
    /// Patterns, then prototypes, then the model; what is less sure than the last floor is kept as a constraint.
    Cascade,
    /// The same; what the model gives no usable answer to is kept as a constraint, too.
    CascadeAbstain,
    /// How much safety is lost without an item.
    SafetyMargin,
}

impl LlmVariant {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OneShot, Self::Cascade, Self::CascadeAbstain, Self::SafetyMargin];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneShot => "llm",
            Self::Cascade => "cascade",
            Self::CascadeAbstain => "cascade+abstain",
            Self::SafetyMargin => "safety-margin",
        }
    }

    /// Whether it asks a sentence encoder first.
    pub const fn asks_encoder(self) -> bool {
        matches!(self, Self::Cascade | Self::CascadeAbstain)
    }

    /// Why it cannot answer where no language model is named.
    pub fn without_model(self) -> VariantError {
        let needs = if self.asks_encoder() { "a sentence encoder and a language model" } else { "a language model" };
        VariantError::NeedsLlm { name: self.as_str().to_owned(), needs }
    }
}

/// How a language model is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LlmUse {
    /// What the agents do whose items are judged, for `safety-margin`; empty for software development.
    pub domain: String,
    /// Send texts as they are, secrets and addresses with them.
    pub send_raw: bool,
}

/// A classifier that has to ask before it can answer: [`Self::prepare`] asks about items, and then it answers like any
/// other. An item that was never asked about is kept as a constraint.
pub struct LlmClassifier {
    variant: LlmVariant,
    prompter: Prompter,
    asker: Arc<Asker>,
    encoder: Option<Arc<dyn Classifier>>,
    /// Spreads what a safety margin leaves over the other types.
    others: &'static LinearModel,
    send_raw: bool,
    answers: RwLock<Answers>,
}

/// What settled an item, and how.
struct Settled {
    probs: Probabilities,
    by: By,
}

enum By {
    Rules,
    Encoder,
    Model {
        why: String,
    },
    /// Nobody: it is kept as a constraint.
    Nobody {
        why: String,
    },
}

impl LlmClassifier {
    /// The variant as `asker`'s model plays it.
    ///
    /// # Errors
    /// When the variant asks an encoder and `places` has none that can be used.
    pub fn new(
        variant: LlmVariant,
        asker: Arc<Asker>,
        usage: &LlmUse,
        places: &ModelPlaces,
    ) -> Result<Self, ModelFileError> {
        let encoder = if variant.asks_encoder() {
            if places.encoder.is_none() {
                return Err(VariantError::NeedsEncoder { name: variant.as_str().to_owned() }.into());
            }
            Some(Variant::Encoder.classifier(places)?)
        } else {
            None
        };
        let question = match variant {
            LlmVariant::SafetyMargin => Question::SafetyMargin {
                domain: if usage.send_raw { usage.domain.clone() } else { redact::redacted(&usage.domain) },
            },
            _ => Question::OneShot,
        };
        Ok(Self {
            variant,
            prompter: Prompter::new(question),
            asker,
            encoder,
            others: shipped(),
            send_raw: usage.send_raw,
            answers: RwLock::default(),
        })
    }

    /// What asking came to, over all that share the asker.
    pub fn report(&self) -> LlmReport {
        self.asker.report()
    }

    /// Ask about `items` what the answers need. Nothing is asked twice, whether in this run or an earlier one.
    ///
    /// # Errors
    /// Why the model did not answer; what it answered until then is kept.
    pub async fn prepare(&self, items: &[ItemContext<'_>], monitor: &dyn Monitor) -> Result<(), LlmError> {
        self.ask(self.requests(items), monitor).await
    }

    /// What has to be asked about `items`.
    pub fn requests(&self, items: &[ItemContext<'_>]) -> Vec<Request> {
        let open: Vec<&ItemContext<'_>> = match self.variant {
            LlmVariant::OneShot | LlmVariant::SafetyMargin => items.iter().collect(),
            LlmVariant::Cascade | LlmVariant::CascadeAbstain => {
                let ask = |answers: &cascade::Answers| next_step(answers, &self.cascade()) == Step::Ask(Stage::Llm);
                let stages = self.cheap_stages(items);
                items.iter().zip(&stages).filter(|(_, stages)| ask(stages)).map(|(item, _)| item).collect()
            }
        };
        open.into_iter()
            .map(|item| {
                let (key, Prompt { system, user, schema }) = self.prompt(item);
                Request { key, system, user, schema: Some(schema), max_tokens: ANSWER_TOKENS }
            })
            .collect()
    }

    /// Ask, and remember the answers.
    pub async fn ask(&self, requests: Vec<Request>, monitor: &dyn Monitor) -> Result<(), LlmError> {
        let check = |answer: &str| self.read(answer, &uniform()).map(|_| ()).map_err(|why| why.to_string());
        let found = self.asker.ask(requests, &check, monitor).await?;
        self.answers.write().unwrap_or_else(PoisonError::into_inner).extend(found);
        Ok(())
    }

    /// Forget the answers that were remembered, so that memory does not grow with the corpus; they stay in their file.
    pub fn forget(&self) {
        self.answers.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Milliseconds that the model took for the questions of `keys`, all together.
    pub fn milliseconds(&self, keys: &[Sha256]) -> u64 {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter_map(|key| answers.get(key)).map(|kept| kept.ms).sum()
    }

    fn cascade(&self) -> CascadeOptions {
        CascadeOptions { abstain_as_hard: self.variant == LlmVariant::CascadeAbstain, ..CascadeOptions::default() }
    }

    fn read(&self, answer: &str, others: &Probabilities) -> Result<Reading, crate::classify::llm::AnswerError> {
        read_answer(self.prompter.question(), answer, others)
    }

    /// The prompt for an item, without what must not leave the machine, and the key of its answer.
    fn prompt(&self, item: &ItemContext<'_>) -> (Sha256, Prompt) {
        let prompt = if self.send_raw {
            self.prompter.prompt(item)
        } else {
            let (before, after) = (item.before.unwrap_or_default(), item.after.unwrap_or_default());
            let text = redact::apply(item.text, &redact::spans_between(before, item.text, after));
            let headings: Vec<String> = item.heading.iter().map(|heading| redact::redacted(heading)).collect();
            let heading: Vec<&str> = headings.iter().map(String::as_str).collect();
            let path = redact::redacted(item.path);
            self.prompter.prompt(&ItemContext { text: &text, heading: &heading, path: &path, ..*item })
        };
        (cache_key(&prompt, self.asker.model()), prompt)
    }

    /// What the patterns say of each item, and the encoder of those that they leave open.
    fn cheap_stages(&self, items: &[ItemContext<'_>]) -> Vec<cascade::Answers> {
        let rules = |item: &ItemContext<'_>| {
            let found = RegexRules.resolve(item);
            found.map(|(t, _)| Probabilities::peaked(t, RegexRules::confidence(t)))
        };
        let mut stages: Vec<cascade::Answers> =
            items.iter().map(|item| cascade::Answers { regex: Some(rules(item)), ..Default::default() }).collect();
        let open: Vec<usize> = (0..items.len()).filter(|at| stages[*at].regex == Some(None)).collect();
        if let Some(encoder) = &self.encoder {
            let contexts: Vec<ItemContext<'_>> = open.iter().map(|at| items[*at]).collect();
            for (at, probs) in open.into_iter().zip(encoder.probabilities_of(&contexts)) {
                stages[at].encoder = Some(probs);
            }
        }
        stages
    }

    /// The model's answer to an item: nothing when it was not asked, or gave none that can be used.
    fn answer(&self, item: &ItemContext<'_>) -> Option<Reading> {
        let key = self.prompt(item).0;
        let others = match self.variant {
            LlmVariant::SafetyMargin => self.others.probabilities(item),
            _ => uniform(),
        };
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        self.read(answers.get(&key)?.answer.as_deref()?, &others).ok()
    }

    fn settle(&self, items: &[ItemContext<'_>]) -> Vec<Settled> {
        match self.variant {
            LlmVariant::OneShot | LlmVariant::SafetyMargin => items
                .iter()
                .map(|item| match self.answer(item) {
                    Some(Reading { probs, why }) => Settled { probs, by: By::Model { why } },
                    None => self.nobody("gave no usable answer"),
                })
                .collect(),
            LlmVariant::Cascade | LlmVariant::CascadeAbstain => {
                let stages = self.cheap_stages(items);
                items.iter().zip(stages).map(|(item, stages)| self.settle_in_stages(item, stages)).collect()
            }
        }
    }

    fn settle_in_stages(&self, item: &ItemContext<'_>, mut stages: cascade::Answers) -> Settled {
        let options = self.cascade();
        let mut why = String::new();
        loop {
            match next_step(&stages, &options) {
                Step::Ask(Stage::Llm) => {
                    let answer = self.answer(item);
                    stages.llm = Some(answer.as_ref().map(|reading| reading.probs));
                    why = answer.map(|reading| reading.why).unwrap_or_default();
                }
                Step::Ask(Stage::Regex | Stage::Encoder) | Step::Hard => {
                    let unsure = stages.llm.flatten().is_some();
                    return self.nobody(if unsure { "was not sure enough" } else { "gave no usable answer" });
                }
                Step::Take(stage, probs) => {
                    let by = match stage {
                        Stage::Regex => By::Rules,
                        Stage::Encoder => By::Encoder,
                        Stage::Llm => By::Model { why },
                    };
                    return Settled { probs: cascade::settled(&probs, &options), by };
                }
            }
        }
    }

    fn nobody(&self, what: &str) -> Settled {
        Settled {
            probs: hard_lane(),
            by: By::Nobody { why: format!("kept as a constraint: {} {what}", self.asker.model()) },
        }
    }
}

fn uniform() -> Probabilities {
    Probabilities::from_weights([1.0; TYPES])
}

impl Classifier for LlmClassifier {
    fn name(&self) -> &str {
        self.variant.as_str()
    }

    fn id(&self) -> String {
        let encoder = self.encoder.as_ref().map(|encoder| encoder.id());
        let parts = serde_json::json!([
            PROMPT_VERSION,
            self.asker.model(),
            self.prompter.system(),
            encoder.map(|encoder| (encoder, RegexRules.id())),
            self.others.hash().to_string(),
            self.send_raw,
        ]);
        format!("{}:{}", self.variant.as_str(), Sha256::of(parts.to_string().as_bytes()))
    }

    fn thresholds(&self) -> Thresholds {
        if self.variant.asks_encoder() {
            cascade::thresholds(&self.cascade())
        } else {
            thresholds(self.prompter.question())
        }
    }

    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities {
        self.settle(std::slice::from_ref(item)).first().map_or_else(hard_lane, |settled| settled.probs)
    }

    fn probabilities_of(&self, items: &[ItemContext<'_>]) -> Vec<Probabilities> {
        self.settle(items).into_iter().map(|settled| settled.probs).collect()
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        let Some(Settled { probs, by }) = self.settle(std::slice::from_ref(item)).pop() else { return Vec::new() };
        let reason = |what: String| vec![Reason { what, weight: probs.of(t) }];
        match (by, &self.encoder) {
            (By::Rules, _) => RegexRules.explain(item, t, limit),
            (By::Encoder, Some(encoder)) => encoder.explain(item, t, limit),
            (By::Encoder, None) => Vec::new(),
            (By::Model { why }, _) => {
                let said = if why.is_empty() { String::new() } else { format!(": {why}") };
                reason(format!("{}{said}", self.asker.model()))
            }
            (By::Nobody { why }, _) => reason(why),
        }
    }
}

/// Whoever answers: alone, or only after asking.
#[derive(Clone)]
pub enum Answering {
    /// A classifier that needs nobody.
    Alone(Arc<dyn Classifier>),
    /// One that asks a language model.
    Asking(Arc<LlmClassifier>),
}

impl<C: Classifier + 'static> From<Arc<C>> for Answering {
    fn from(classifier: Arc<C>) -> Self {
        Self::Alone(classifier)
    }
}

impl From<Arc<dyn Classifier>> for Answering {
    fn from(classifier: Arc<dyn Classifier>) -> Self {
        Self::Alone(classifier)
    }
}

impl Answering {
    /// The classifier; it answers about what it was made ready for.
    pub fn classifier(&self) -> Arc<dyn Classifier> {
        match self {
            Self::Alone(classifier) => classifier.clone(),
            Self::Asking(classifier) => classifier.clone(),
        }
    }

    /// Make ready to answer about `items`.
    pub async fn prepare(&self, items: &[ItemContext<'_>], monitor: &dyn Monitor) -> Result<(), LlmError> {
        match self {
            Self::Alone(_) => Ok(()),
            Self::Asking(classifier) => classifier.prepare(items, monitor).await,
        }
    }

    /// What asking came to, where somebody was asked.
    pub fn report(&self) -> Option<LlmReport> {
        match self {
            Self::Alone(_) => None,
            Self::Asking(classifier) => Some(classifier.report()),
        }
    }
}
