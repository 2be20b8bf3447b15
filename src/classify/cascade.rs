//! The order in which a selective cascade asks its stages (the paper's §3.2): patterns, then prototypes of an encoder,
//! then a language model; what nobody is sure of goes to the hard lane.
//!
//! Pure: the caller asks the stages and says what they answered; [`next_step`] says what to do with it.

use super::Probabilities;
use crate::taxonomy::KnowledgeType;
use serde::Serialize;

/// Where a cascade draws its lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CascadeOptions {
    /// The encoder decides from this confidence up.
    pub encoder_floor: f32,
    /// The language model decides from this confidence up.
    pub llm_floor: f32,
    /// Below the last floor an item is kept as a constraint; without this the surest answer so far stands.
    pub abstain_as_hard: bool,
}

impl Default for CascadeOptions {
    fn default() -> Self {
        Self { encoder_floor: 0.55, llm_floor: 0.40, abstain_as_hard: true }
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
        Some(Some(llm)) if llm.confidence() >= options.llm_floor || !options.abstain_as_hard => {
            Step::Take(Stage::Llm, llm)
        }
        _ if options.abstain_as_hard => Step::Hard,
        _ => Step::Take(Stage::Encoder, encoder),
    }
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
        for unsure in [None, Some(sure(0.39))] {
            answers.llm = Some(unsure);
            assert_eq!(next_step(&answers, &options), Step::Hard);
        }
        let soft = CascadeOptions { abstain_as_hard: false, ..options };
        assert_eq!(next_step(&answers, &soft), Step::Take(Stage::Llm, sure(0.39)));
        answers.llm = Some(None);
        assert_eq!(next_step(&answers, &soft), Step::Take(Stage::Encoder, sure(0.54)));
    }
}
