//! The variants that ask a sentence encoder as it comes, without fine-tuning: `encoder` (prototypes), `regex+encoder` (the
//! patterns first) and `distilled` (logistic regression on the vector of the text).

use super::format::{Dtype, Tensors, Writer};
use super::linear::ModelError;
use super::prototypes::{PrototypeError, Prototypes};
use super::rules::RegexRules;
use super::{Classifier, Probabilities, Reason, TYPES, Thresholds};
use crate::corpus::{ItemContext, Sha256};
use crate::encoder::{Encoder, EncoderError};
use crate::taxonomy::KnowledgeType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Prototypes are fitted to nothing, so their thresholds are conventions: a constraint is shown where it is likelier than
/// all else together, and pinned from a fifth.
const THRESHOLDS: Thresholds = Thresholds { balanced: 0.5, safe: 0.2 };

/// Prototypes that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The encoder failed.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The examples do not do.
    #[error(transparent)]
    Prototypes(#[from] PrototypeError),
}

/// The vectors of the items' texts; a text that the tokenizer cannot read has none.
fn vectors(encoder: &Encoder, items: &[ItemContext<'_>]) -> Vec<Option<Vec<f32>>> {
    let texts: Vec<&str> = items.iter().map(|item| item.text).collect();
    match encoder.encode(&texts) {
        Ok(vectors) => vectors.into_iter().map(Some).collect(),
        Err(_) => {
            let alone = |text: &&str| encoder.encode(&[text]).ok().and_then(|mut vectors| vectors.pop());
            texts.iter().map(alone).collect()
        }
    }
}

/// The answer where nothing could be read.
fn unread() -> Probabilities {
    Probabilities::from_weights([1.0; TYPES])
}

/// `encoder`, or `regex+encoder`.
#[derive(Debug, Clone)]
pub struct PrototypeClassifier {
    encoder: Arc<Encoder>,
    prototypes: Prototypes,
    rules_first: bool,
    id: String,
}

impl PrototypeClassifier {
    /// Prototypes from examples, of which the first ten of each type count. With `rules_first` the encoder is asked only
    /// where no pattern matches.
    pub fn new(
        encoder: Arc<Encoder>,
        examples: &[(&str, KnowledgeType)],
        rules_first: bool,
    ) -> Result<Self, EmbeddedError> {
        let texts: Vec<&str> = examples.iter().map(|(text, _)| *text).collect();
        let vectors = encoder.encode(&texts)?;
        let prototypes = Prototypes::new(vectors.iter().map(Vec::as_slice).zip(examples.iter().map(|(_, t)| *t)))?;
        let tier = if rules_first { "regex+prototypes" } else { "prototypes" };
        let made_of = examples.iter().map(|(text, t)| format!("{t}\t{text}\n")).collect::<String>();
        let id = format!("{tier}:{}", Sha256::of(format!("{}\n{made_of}", encoder.id()).as_bytes()));
        Ok(Self { encoder, prototypes, rules_first, id })
    }
}

impl Classifier for PrototypeClassifier {
    fn name(&self) -> &str {
        if self.rules_first { "regex+encoder" } else { "encoder" }
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn thresholds(&self) -> Thresholds {
        THRESHOLDS
    }

    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities {
        self.probabilities_of(std::slice::from_ref(item))[0]
    }

    fn probabilities_of(&self, items: &[ItemContext<'_>]) -> Vec<Probabilities> {
        let by_rule = |item: &ItemContext<'_>| RegexRules.resolve(item).filter(|_| self.rules_first).map(|(t, _)| t);
        let mut answers: Vec<Option<Probabilities>> = items
            .iter()
            .map(|item| by_rule(item).map(|t| Probabilities::peaked(t, RegexRules::confidence(t))))
            .collect();
        let open: Vec<usize> = (0..items.len()).filter(|i| answers[*i].is_none()).collect();
        let asked: Vec<ItemContext<'_>> = open.iter().map(|i| items[*i]).collect();
        for (i, vector) in open.into_iter().zip(vectors(&self.encoder, &asked)) {
            answers[i] = vector.and_then(|v| self.prototypes.probabilities(&v).ok());
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(unread)).collect()
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        if self.rules_first && RegexRules.resolve(item).is_some() {
            return RegexRules.explain(item, t, limit);
        }
        let weight = self.probabilities(item).of(t);
        let reason = Reason { what: format!("meaning: nearest to the examples of {t}"), weight };
        std::iter::once(reason).take(limit).collect()
    }
}

/// `model.json` of `distilled`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistilledDescription {
    /// Always `distilled`.
    pub tier: String,
    /// Version of this format.
    pub format: u32,
    /// The types in the order of the columns.
    pub types: Vec<KnowledgeType>,
    /// The encoder whose vectors it was fitted to.
    pub encoder: String,
    /// θ_C at each operating point.
    pub thresholds: Thresholds,
    /// SHA-256 of `model.safetensors`.
    pub tensors_sha256: Sha256,
    /// For people and cards; not read by the program.
    #[serde(default)]
    pub notes: serde_json::Value,
}

/// `tier` of a description.
pub const DISTILLED: &str = "distilled";
const FORMAT: u32 = 1;

/// Logistic regression on the vectors of an encoder.
#[derive(Debug, Clone)]
pub struct DistilledModel {
    description: DistilledDescription,
    encoder: Arc<Encoder>,
    bias: [f32; TYPES],
    weights: Vec<[f32; TYPES]>,
}

impl DistilledModel {
    /// A model of `weights` for each dimension of the encoder's vectors.
    pub fn new(
        encoder: Arc<Encoder>,
        bias: [f32; TYPES],
        weights: Vec<[f32; TYPES]>,
        thresholds: Thresholds,
        notes: serde_json::Value,
    ) -> Self {
        let description = DistilledDescription {
            tier: DISTILLED.to_owned(),
            format: FORMAT,
            types: KnowledgeType::ALL.to_vec(),
            encoder: encoder.id().to_owned(),
            thresholds,
            tensors_sha256: Sha256([0; 32]),
            notes,
        };
        let mut model = Self { description, encoder, bias, weights };
        model.description.tensors_sha256 = Sha256::of(&model.tensors());
        model
    }

    /// Read a model from the contents of its two files; `encoder` must be the one it was fitted with.
    pub fn from_parts(json: &str, tensors: &[u8], encoder: Arc<Encoder>) -> Result<Self, ModelError> {
        let description: DistilledDescription = serde_json::from_str(json)?;
        let expect = |what, found: String, expected: String| {
            if found == expected { Ok(()) } else { Err(ModelError::Mismatch { what, found, expected }) }
        };
        expect("tier", description.tier.clone(), DISTILLED.to_owned())?;
        expect("format", description.format.to_string(), FORMAT.to_string())?;
        expect("types", format!("{:?}", description.types), format!("{:?}", KnowledgeType::ALL))?;
        expect("the encoder at hand", encoder.id().to_owned(), description.encoder.clone())?;
        let Thresholds { balanced, safe } = description.thresholds;
        if ![balanced, safe].iter().all(|t| (0.0..=1.0).contains(t)) {
            expect("thresholds", format!("{balanced} and {safe}"), "two numbers from 0 to 1".to_owned())?;
        }
        expect(
            "SHA-256 of model.safetensors",
            Sha256::of(tensors).to_string(),
            description.tensors_sha256.to_string(),
        )?;
        let parsed = Tensors::parse(tensors)?;
        let bias = parsed.floats("bias", &[TYPES])?;
        let weights = parsed.floats("weights", &[encoder.dimensions(), TYPES])?;
        Ok(Self {
            description,
            encoder,
            bias: std::array::from_fn(|t| bias[t]),
            weights: weights.as_chunks::<TYPES>().0.to_vec(),
        })
    }

    /// The text of `model.json`.
    pub fn description_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(&self.description)? + "\n")
    }

    /// What `model.json` says.
    pub fn description(&self) -> &DistilledDescription {
        &self.description
    }

    /// The bytes of `model.safetensors`.
    pub fn tensors(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.push("bias", Dtype::F32, &[TYPES], self.bias.iter().flat_map(|f| f.to_le_bytes()));
        let weights = self.weights.iter().flatten().flat_map(|f| f.to_le_bytes());
        writer.push("weights", Dtype::F32, &[self.weights.len(), TYPES], weights);
        writer.finish()
    }
}

impl Classifier for DistilledModel {
    fn name(&self) -> &str {
        DISTILLED
    }

    fn id(&self) -> String {
        format!("{DISTILLED}:{}", self.description.tensors_sha256)
    }

    fn thresholds(&self) -> Thresholds {
        self.description.thresholds
    }

    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities {
        self.probabilities_of(std::slice::from_ref(item))[0]
    }

    fn probabilities_of(&self, items: &[ItemContext<'_>]) -> Vec<Probabilities> {
        let answer = |vector: Vec<f32>| {
            let mut logits = self.bias;
            for (value, weights) in vector.iter().zip(&self.weights) {
                logits.iter_mut().zip(weights).for_each(|(z, w)| *z += value * w);
            }
            Probabilities::from_logits(logits)
        };
        vectors(&self.encoder, items).into_iter().map(|v| v.map_or_else(unread, answer)).collect()
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        let weight = self.probabilities(item).of(t);
        std::iter::once(Reason { what: "meaning: sentence vector".to_owned(), weight }).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::tests::tiny;

    fn item(text: &str) -> ItemContext<'_> {
        ItemContext { text, ..Default::default() }
    }

    const EXAMPLES: [(&str, KnowledgeType); 5] = [
        ("never push to main", KnowledgeType::Constraint),
        ("run the tests before you commit", KnowledgeType::Procedural),
        ("the tables hold customers", KnowledgeType::Belief),
        ("tests too", KnowledgeType::Preference),
        ("agents rules", KnowledgeType::Meta),
    ];

    #[test]
    fn an_example_is_of_its_own_type_and_rules_come_first_where_asked() {
        let encoder = Arc::new(tiny());
        let plain = PrototypeClassifier::new(encoder.clone(), &EXAMPLES, false).unwrap();
        for (text, t) in EXAMPLES {
            assert_eq!(plain.probabilities(&item(text)).likeliest(), t, "{text}");
        }
        let rules = PrototypeClassifier::new(encoder, &EXAMPLES, true).unwrap();
        assert_ne!(plain.id(), rules.id());
        let items = [item("You must not push the tables"), item("the tables hold customers")];
        let both = rules.probabilities_of(&items);
        assert_eq!(both[0], RegexRules.probabilities(&items[0]));
        assert_eq!(both[1], plain.probabilities(&items[1]));
        assert!(!rules.explain(&items[0], KnowledgeType::Constraint, 3).is_empty());
        assert!(PrototypeClassifier::new(Arc::new(tiny()), &EXAMPLES[..2], false).is_err());
    }

    #[test]
    fn a_distilled_model_reads_back_as_itself_and_refuses_another_encoder() {
        let encoder = Arc::new(tiny());
        let weights = (0..32).map(|d| std::array::from_fn(|t| ((d * 7 + t * 3) % 11) as f32 - 5.0)).collect();
        let thresholds = Thresholds { balanced: 0.5, safe: 0.1 };
        let model = DistilledModel::new(encoder.clone(), [0.1; TYPES], weights, thresholds, serde_json::Value::Null);
        let json = model.description_json().unwrap();
        let back = DistilledModel::from_parts(&json, &model.tensors(), encoder.clone()).unwrap();
        let one = item("never push to main");
        assert_eq!(back.probabilities(&one), model.probabilities(&one));
        let other = json.replace(encoder.id(), "bert:other");
        let error = DistilledModel::from_parts(&other, &model.tensors(), encoder.clone()).unwrap_err().to_string();
        assert!(error.contains("encoder at hand"), "{error}");
        let mut tensors = model.tensors();
        let last = tensors.len() - 1;
        tensors[last] ^= 1;
        assert!(DistilledModel::from_parts(&json, &tensors, encoder).is_err());
    }
}
