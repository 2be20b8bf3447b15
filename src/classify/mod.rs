//! What an item is: probabilities over the six knowledge types, and the decision an operator takes from them.
//!
//! Every variant answers the same question through [`Classifier`]; [`Classifier::decide`] turns the answer into a type,
//! a risk and whether to pin. Nothing here reads a file, a clock or a network.

pub mod cascade;
#[cfg(feature = "encoder")]
pub mod embedded;
pub mod features;
pub mod format;
mod lexicon;
pub mod linear;
pub mod llm;
pub mod metrics;
pub mod pack;
pub mod prototypes;
pub mod rules;
#[cfg(feature = "encoder")]
pub mod tuned;

use crate::corpus::ItemContext;
use crate::taxonomy::{Authority, KnowledgeType, OperatingPoint};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

/// How many knowledge types there are.
pub const TYPES: usize = KnowledgeType::ALL.len();

/// A distribution over the knowledge types, in the order of [`KnowledgeType::ALL`]; sums to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probabilities([f32; TYPES]);

impl Probabilities {
    /// Scale non-negative `weights` to sum to one; weights that do not (all zero, or not finite) become uniform.
    pub fn from_weights(weights: [f32; TYPES]) -> Self {
        let clean = weights.map(|w| if w.is_finite() { w.max(0.0) } else { 0.0 });
        let sum: f32 = clean.iter().sum();
        if sum > 0.0 { Self(clean.map(|w| w / sum)) } else { Self([1.0 / TYPES as f32; TYPES]) }
    }

    /// The softmax of `logits`.
    pub fn from_logits(logits: [f32; TYPES]) -> Self {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        Self::from_weights(logits.map(|z| (z - max).exp()))
    }

    /// Mass `confidence` on one type, the rest spread evenly over the others.
    pub fn peaked(at: KnowledgeType, confidence: f32) -> Self {
        let rest = (1.0 - confidence) / (TYPES - 1) as f32;
        let mut weights = [rest; TYPES];
        weights[at.index()] = confidence;
        Self::from_weights(weights)
    }

    /// The probability of one type.
    pub fn of(&self, t: KnowledgeType) -> f32 {
        self.0[t.index()]
    }

    /// All six, in the order of [`KnowledgeType::ALL`].
    pub fn as_array(&self) -> &[f32; TYPES] {
        &self.0
    }

    /// The likeliest type; ties go to the one whose loss hurts most (declaration order).
    pub fn likeliest(&self) -> KnowledgeType {
        self.likeliest_among(KnowledgeType::ALL)
    }

    /// How sure the answer is: the largest probability.
    pub fn confidence(&self) -> f32 {
        self.of(self.likeliest())
    }

    /// The type at a threshold on the constraint: constraint from `threshold` up, else the likeliest of the others.
    pub fn type_at(&self, threshold: f32) -> KnowledgeType {
        if self.of(KnowledgeType::Constraint) >= threshold {
            KnowledgeType::Constraint
        } else {
            self.likeliest_among(&KnowledgeType::ALL[1..])
        }
    }

    fn likeliest_among(&self, types: &[KnowledgeType]) -> KnowledgeType {
        types.iter().copied().fold(types[0], |best, t| if self.of(t) > self.of(best) { t } else { best })
    }
}

impl Serialize for Probabilities {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(TYPES))?;
        for t in KnowledgeType::ALL {
            map.serialize_entry(t.as_str(), &self.of(*t))?;
        }
        map.end()
    }
}

/// How much a source's word counts in the risk of an item (the paper's §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthorityWeights {
    /// System prompt.
    pub sys: f32,
    /// Developer or repository configuration.
    pub dev: f32,
    /// The user of the session.
    pub user: f32,
    /// Output of a tool.
    pub tool: f32,
    /// Retrieved text.
    pub ret: f32,
}

impl Default for AuthorityWeights {
    fn default() -> Self {
        Self { sys: 1.5, dev: 1.25, user: 1.0, tool: 0.75, ret: 0.6 }
    }
}

impl AuthorityWeights {
    /// The weight of one authority; 1 when nobody said who speaks, so that thresholds keep the meaning they were
    /// fitted with.
    pub fn of(&self, authority: Option<Authority>) -> f32 {
        match authority {
            None => 1.0,
            Some(Authority::System) => self.sys,
            Some(Authority::Developer) => self.dev,
            Some(Authority::User) => self.user,
            Some(Authority::Tool) => self.tool,
            Some(Authority::Retrieved) => self.ret,
        }
    }
}

/// Where the line for constraints lies at each operating point (the paper's θ_C), as probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// For the type shown to people: best F1 on training folds.
    pub balanced: f32,
    /// For what operators pin: recall first.
    pub safe: f32,
}

impl Thresholds {
    /// The threshold at one point.
    pub fn at(&self, point: OperatingPoint) -> f32 {
        match point {
            OperatingPoint::Balanced => self.balanced,
            OperatingPoint::Safe => self.safe,
        }
    }
}

/// How a decision is taken from probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Which threshold pins.
    pub point: OperatingPoint,
    /// Who speaks, when known.
    pub authority: Option<Authority>,
    /// The weight of each authority.
    pub weights: AuthorityWeights,
    /// Replaces the classifier's own threshold (θ_C) when set.
    pub threshold: Option<f32>,
    /// Pin an item whose likeliest type is less probable than this, whatever that type is (abstain as hard).
    pub abstain_below: Option<f32>,
}

impl Policy {
    /// The plain policy at a point: nobody named as speaker, the paper's weights, the classifier's own threshold.
    pub fn at(point: OperatingPoint) -> Self {
        Self { point, authority: None, weights: AuthorityWeights::default(), threshold: None, abstain_below: None }
    }
}

/// What was decided about one item, and from what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The type, at the balanced point whatever the policy: what an item *is* does not depend on how careful one is.
    #[serde(rename = "type")]
    pub item_type: KnowledgeType,
    /// Probabilities of all six.
    pub probs: Probabilities,
    /// p(constraint) × weight of the authority.
    pub risk: f32,
    /// Whether an operator must keep the item verbatim: risk at or above the policy's threshold, or abstained.
    pub pinned: bool,
    /// Why, most important first.
    pub why: Vec<Reason>,
}

/// One reason for a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// The rule that matched or the feature that weighed in.
    pub what: String,
    /// How much: a rule's confidence, or a feature's part of the log-odds of the type decided; negative speaks against.
    pub weight: f32,
}

/// A variant of the classifier.
pub trait Classifier: Send + Sync {
    /// The name it has on the command line.
    fn name(&self) -> &str;

    /// Which model answers: tier and hash, or name and version of the rules. Stored beside every answer.
    fn id(&self) -> String;

    /// The thresholds it was fitted with.
    fn thresholds(&self) -> Thresholds;

    /// The distribution over types of one item.
    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities;

    /// The distributions of many items, in their order: what answers faster together overrides this.
    fn probabilities_of(&self, items: &[ItemContext<'_>]) -> Vec<Probabilities> {
        items.iter().map(|item| self.probabilities(item)).collect()
    }

    /// Why the item would be of type `t`, at most `limit` reasons; slower than the answer itself.
    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason>;

    /// Decide under a policy, without reasons: the fast path for a whole corpus.
    fn decide_unexplained(&self, item: &ItemContext<'_>, policy: &Policy) -> Decision {
        decide(self.probabilities(item), self.thresholds(), policy)
    }

    /// Decide under a policy and say why.
    fn decide(&self, item: &ItemContext<'_>, policy: &Policy) -> Decision {
        let mut decision = self.decide_unexplained(item, policy);
        decision.why = self.explain(item, decision.item_type, 5);
        decision
    }
}

/// The decision that follows from probabilities, thresholds and a policy; `why` is left empty.
pub fn decide(probs: Probabilities, thresholds: Thresholds, policy: &Policy) -> Decision {
    let risk = probs.of(KnowledgeType::Constraint) * policy.weights.of(policy.authority);
    let line = policy.threshold.unwrap_or_else(|| thresholds.at(policy.point));
    let abstained = policy.abstain_below.is_some_and(|floor| probs.confidence() < floor);
    Decision {
        item_type: probs.type_at(thresholds.balanced),
        probs,
        risk,
        pinned: risk >= line || abstained,
        why: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_a_distribution_whatever_goes_in() {
        for weights in [[0.0; TYPES], [f32::NAN; TYPES], [1.0, 2.0, 3.0, 0.0, -5.0, f32::INFINITY]] {
            let sum: f32 = Probabilities::from_weights(weights).as_array().iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{weights:?}");
        }
        let p = Probabilities::from_logits([1000.0, 0.0, 0.0, 0.0, 0.0, -1000.0]);
        assert!(p.of(KnowledgeType::Constraint) > 0.999);
    }

    #[test]
    fn authority_moves_the_pin_but_never_the_type() {
        let probs = Probabilities::from_weights([0.3, 0.7, 0.0, 0.0, 0.0, 0.0]);
        let thresholds = Thresholds { balanced: 0.5, safe: 0.4 };
        let mut policy = Policy::at(OperatingPoint::Safe);
        let plain = decide(probs, thresholds, &policy);
        assert!(!plain.pinned);
        policy.authority = Some(Authority::System);
        let system = decide(probs, thresholds, &policy);
        assert!(system.pinned && (system.risk - 0.45).abs() < 1e-6);
        assert_eq!((plain.item_type, system.item_type), (KnowledgeType::Procedural, KnowledgeType::Procedural));
        policy.authority = Some(Authority::Retrieved);
        policy.abstain_below = Some(0.75);
        assert!(decide(probs, thresholds, &policy).pinned, "an unsure item goes to the hard lane");
    }
}
