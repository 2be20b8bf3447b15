//! The order in which a selective cascade asks its stages (the paper's §3.2): patterns, then prototypes of an encoder,
//! then a language model; what nobody is sure of goes to the hard lane.
//!
//! Pure: the caller asks the stages and says what they answered; [`next_step`] says what to do with it.

use super::{Probabilities, Thresholds};
use crate::taxonomy::KnowledgeType;
use serde::Serialize;

/// Where a cascade draws its lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CascadeOptions {
    /// The encoder decides from this confidence up.
    pub encoder_floor: f32,
    /// The language model decides from this confidence up.
    pub llm_floor: f32,
    /// What the language model gives no usable answer to is kept as a constraint, too; without this the encoder's answer
    /// stands where it reaches the last floor.
    pub abstain_as_hard: bool,
}

impl Default for CascadeOptions {
    fn default() -> Self {
        Self { encoder_floor: 0.55, llm_floor: 0.40, abstain_as_hard: false }
    }
}

/// A stage of the cascade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// [`super::rules::RegexRules`].
    Regex,
    /// [`super::prototypes::Prototypes`].
    Encoder,
    /// A language model, once.
    Llm,
}

/// What the stages have said so far; a stage that was not asked yet is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Answers {
    /// What the patterns said: `Some(None)` when none matched.
    pub regex: Option<Option<Probabilities>>,
    /// What the encoder said.
    pub encoder: Option<Probabilities>,
    /// What the language model said: `Some(None)` when it gave no usable answer.
    pub llm: Option<Option<Probabilities>>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Ask this stage and come back.
    Ask(Stage),
    /// Take this answer of this stage.
    Take(Stage, Probabilities),
    /// Nobody was sure enough: keep the item as a constraint.
    Hard,
}

/// The next step of the cascade.
pub fn next_step(answers: &Answers, options: &CascadeOptions) -> Step {
    match answers.regex {
        None => return Step::Ask(Stage::Regex),
        Some(Some(probs)) => return Step::Take(Stage::Regex, probs),
        Some(None) => {}
    }
    let Some(encoder) = answers.encoder else { return Step::Ask(Stage::Encoder) };
    if encoder.confidence() >= options.encoder_floor {
        return Step::Take(Stage::Encoder, encoder);
    }
    match answers.llm {
        None => Step::Ask(Stage::Llm),
        Some(Some(llm)) if llm.confidence() >= options.llm_floor => Step::Take(Stage::Llm, llm),
        Some(None) if !options.abstain_as_hard && encoder.confidence() >= options.llm_floor => {
            Step::Take(Stage::Encoder, encoder)
        }
        Some(_) => Step::Hard,
    }
}

/// The thresholds that go with these floors. A stage decides by what is likeliest, so that its constraints begin where the
/// last floor lies; pinned is, as for the prototypes alone, from a fifth.
pub fn thresholds(options: &CascadeOptions) -> Thresholds {
    Thresholds { balanced: options.llm_floor, safe: options.llm_floor.min(0.2) }
}

/// An answer that was taken, as probabilities that [`thresholds`] read as the stage meant them: where it decided for
/// another type, the constraint stays below the line.
pub fn settled(taken: &Probabilities, options: &CascadeOptions) -> Probabilities {
    let line = thresholds(options).balanced * 0.999;
    let constraint = taken.of(KnowledgeType::Constraint);
    if taken.likeliest() == KnowledgeType::Constraint || constraint < line {
        return *taken;
    }
    let mut weights = taken.as_array().map(|p| p * (1.0 - line) / (1.0 - constraint));
    weights[KnowledgeType::Constraint.index()] = line;
    Probabilities::from_weights(weights)
}

/// The distribution that stands for the hard lane: surely a constraint.
pub fn hard_lane() -> Probabilities {
    Probabilities::peaked(KnowledgeType::Constraint, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sure(confidence: f32) -> Probabilities {
        Probabilities::peaked(KnowledgeType::Belief, confidence)
    }

    #[test]
    fn each_stage_is_asked_only_when_the_one_before_did_not_settle_it() {
        let options = CascadeOptions::default();
        let mut answers = Answers::default();
        assert_eq!(next_step(&answers, &options), Step::Ask(Stage::Regex));
        answers.regex = Some(Some(sure(0.7)));
        assert_eq!(next_step(&answers, &options), Step::Take(Stage::Regex, sure(0.7)));
        answers.regex = Some(None);
        assert_eq!(next_step(&answers, &options), Step::Ask(Stage::Encoder));
        answers.encoder = Some(sure(0.56));
        assert_eq!(next_step(&answers, &options), Step::Take(Stage::Encoder, sure(0.56)));
        answers.encoder = Some(sure(0.54));
        assert_eq!(next_step(&answers, &options), Step::Ask(Stage::Llm));
        answers.llm = Some(Some(sure(0.41)));
        assert_eq!(next_step(&answers, &options), Step::Take(Stage::Llm, sure(0.41)));
        answers.llm = Some(Some(sure(0.39)));
        assert_eq!(next_step(&answers, &options), Step::Hard);
        // No usable answer: the encoder's stands where it is sure enough, unless whoever abstains is to be kept.
        answers.llm = Some(None);
        assert_eq!(next_step(&answers, &options), Step::Take(Stage::Encoder, sure(0.54)));
        let hard = CascadeOptions { abstain_as_hard: true, ..options };
        assert_eq!(next_step(&answers, &hard), Step::Hard);
        answers.encoder = Some(sure(0.39));
        assert_eq!(next_step(&answers, &options), Step::Hard);
    }

    #[test]
    fn thresholds_read_an_answer_as_its_stage_meant_it() {
        let options = CascadeOptions::default();
        let type_of = |taken: Probabilities| settled(&taken, &options).type_at(thresholds(&options).balanced);
        assert_eq!(type_of(Probabilities::from_weights([0.44, 0.0, 0.56, 0.0, 0.0, 0.0])), KnowledgeType::Belief);
        assert_eq!(type_of(Probabilities::peaked(KnowledgeType::Constraint, 0.41)), KnowledgeType::Constraint);
        assert_eq!(type_of(hard_lane()), KnowledgeType::Constraint);
        assert_eq!(settled(&sure(0.6), &options), sure(0.6));
    }
}
