//! The linear tier of `trained`: hashed features, one table of signed bytes, a softmax. No allocation per item once its
//! buffers have grown.

use super::features::{Extractor, FEATURES_VERSION, FeatureOptions};
use super::format::{Dtype, FormatError, Tensors, Writer};
use super::{Classifier, Probabilities, Reason, TYPES, Thresholds};
use crate::corpus::{ItemContext, Sha256};
use crate::taxonomy::KnowledgeType;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::sync::LazyLock;

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// `model.json` is not what it should be.
    #[error("Failed to read model.json: {0}")]
    Description(#[from] serde_json::Error),
    /// `model.safetensors` is not what it should be.
    #[error("Failed to read model.safetensors: {0}")]
    Tensors(#[from] FormatError),
    /// The encoder cannot be used.
    #[cfg(feature = "encoder")]
    #[error(transparent)]
    Encoder(#[from] crate::encoder::EncoderError),
    /// The description fits another version of the program or other data.
    #[error("Failed to use the model: {what} is {found}, expected {expected}")]
    Mismatch {
        /// Which field.
        what: &'static str,
        /// What the model has.
        found: String,
        /// What is needed.
        expected: String,
    },
}

/// `model.json`: all of a linear model but its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearDescription {
    /// Always `linear`.
    pub tier: String,
    /// Version of this format.
    pub format: u32,
    /// The types in the order of the columns.
    pub types: Vec<KnowledgeType>,
    /// How items become features.
    pub features: FeatureOptions,
    /// θ_C at each operating point.
    pub thresholds: Thresholds,
    /// SHA-256 of `model.safetensors`.
    pub tensors_sha256: Sha256,
    /// What it was fitted on and how well it did, for people and cards; not read by the program.
    #[serde(default)]
    pub notes: serde_json::Value,
}

/// The model compiled in: always there, whatever the machine has.
pub fn shipped() -> &'static LinearModel {
    static SHIPPED: LazyLock<LinearModel> = LazyLock::new(|| {
        let json = include_str!("../../exports/classifier/linear/model.json");
        let tensors = include_bytes!("../../exports/classifier/linear/model.safetensors");
        #[expect(clippy::expect_used, reason = "both files are part of the program; a test reads them")]
        LinearModel::from_parts(json, tensors).expect("the compiled-in model is whole")
    });
    &SHIPPED
}

const TIER: &str = "linear";
const FORMAT: u32 = 1;

/// A linear model ready to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    description: LinearDescription,
    bias: [f32; TYPES],
    /// What one step of a byte is worth, by type.
    steps: [f32; TYPES],
    table: Vec<[i8; TYPES]>,
    hash: Sha256,
}

impl LinearModel {
    /// Quantise coefficients (`2^bits` rows) to bytes, one scale a type. Weights of less than half a step become zero.
    pub fn quantise(
        features: FeatureOptions,
        bias: [f32; TYPES],
        weights: &[[f32; TYPES]],
        thresholds: Thresholds,
        notes: serde_json::Value,
    ) -> Self {
        let mut steps = [0.0f32; TYPES];
        for row in weights {
            for (step, w) in steps.iter_mut().zip(row) {
                *step = step.max(w.abs() / 127.0);
            }
        }
        let table = weights
            .iter()
            .map(|row| std::array::from_fn(|t| if steps[t] > 0.0 { (row[t] / steps[t]).round() as i8 } else { 0 }))
            .collect();
        let mut model = Self {
            description: LinearDescription {
                tier: TIER.to_owned(),
                format: FORMAT,
                types: KnowledgeType::ALL.to_vec(),
                features,
                thresholds,
                tensors_sha256: Sha256([0; 32]),
                notes,
            },
            bias,
            steps,
            table,
            hash: Sha256([0; 32]),
        };
        model.hash = Sha256::of(&model.tensors());
        model.description.tensors_sha256 = model.hash;
        model
    }

    /// The same model with other thresholds and notes.
    pub fn with_thresholds(mut self, thresholds: Thresholds, notes: serde_json::Value) -> Self {
        self.description.thresholds = thresholds;
        self.description.notes = notes;
        self
    }

    /// Read a model from the texts of its two files. Every number is checked: sizes, hash, finiteness, versions.
    pub fn from_parts(json: &str, tensors: &[u8]) -> Result<Self, ModelError> {
        let description: LinearDescription = serde_json::from_str(json)?;
        let expect = |what, found: String, expected: String| {
            if found == expected { Ok(()) } else { Err(ModelError::Mismatch { what, found, expected }) }
        };
        expect("tier", description.tier.clone(), TIER.to_owned())?;
        expect("format", description.format.to_string(), FORMAT.to_string())?;
        expect("features.version", description.features.version.to_string(), FEATURES_VERSION.to_string())?;
        expect("types", format!("{:?}", description.types), format!("{:?}", KnowledgeType::ALL))?;
        let bits = description.features.bits;
        if !(8..=24).contains(&bits) {
            expect("features.bits", bits.to_string(), "8 to 24".to_owned())?;
        }
        let Thresholds { balanced, safe } = description.thresholds;
        if ![balanced, safe].iter().all(|t| (0.0..=1.0).contains(t)) {
            expect("thresholds", format!("{balanced} and {safe}"), "two numbers from 0 to 1".to_owned())?;
        }
        let hash = Sha256::of(tensors);
        expect("SHA-256 of model.safetensors", hash.to_string(), description.tensors_sha256.to_string())?;
        let parsed = Tensors::parse(tensors)?;
        let six = |name: &str| -> Result<[f32; TYPES], ModelError> {
            let values = parsed.floats(name, &[TYPES])?;
            Ok(std::array::from_fn(|t| values[t]))
        };
        let (bias, steps) = (six("bias")?, six("steps")?);
        let bytes = parsed.bytes("table", Dtype::I8, &[1 << bits, TYPES])?;
        let table = bytes.as_chunks::<TYPES>().0.iter().map(|row| row.map(|b| b as i8)).collect();
        Ok(Self { description, bias, steps, table, hash })
    }

    /// The text of `model.json`.
    pub fn description_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(&self.description)? + "\n")
    }

    /// The bytes of `model.safetensors`.
    pub fn tensors(&self) -> Vec<u8> {
        let le = |values: &[f32; TYPES]| values.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<_>>();
        let mut writer = Writer::default();
        writer.push("bias", Dtype::F32, &[TYPES], le(&self.bias));
        writer.push("steps", Dtype::F32, &[TYPES], le(&self.steps));
        let table = self.table.iter().flatten().map(|b| *b as u8);
        writer.push("table", Dtype::I8, &[self.table.len(), TYPES], table);
        writer.finish()
    }

    /// What `model.json` says.
    pub fn description(&self) -> &LinearDescription {
        &self.description
    }

    /// SHA-256 of the numbers.
    pub fn hash(&self) -> Sha256 {
        self.hash
    }

    /// The log-odds of each type, up to a constant.
    pub fn logits(&self, extractor: &mut Extractor, item: &ItemContext<'_>) -> [f32; TYPES] {
        let mut sums = [0.0f32; TYPES];
        extractor.for_each(item, |bucket, value| {
            let row = &self.table[bucket as usize];
            for t in 0..TYPES {
                sums[t] += value * f32::from(row[t]);
            }
        });
        std::array::from_fn(|t| self.bias[t] + sums[t] * self.steps[t])
    }

    fn with_extractor<T>(&self, f: impl FnOnce(&mut Extractor) -> T) -> T {
        with_thread_extractor(&self.description.features, f)
    }
}

/// Run `f` with this thread's extractor, whose buffers live as long as the thread.
pub(super) fn with_thread_extractor<T>(features: &FeatureOptions, f: impl FnOnce(&mut Extractor) -> T) -> T {
    thread_local! {
        static EXTRACTOR: RefCell<Option<Extractor>> = const { RefCell::new(None) };
    }
    EXTRACTOR.with_borrow_mut(|slot| {
        let fits = slot.as_ref().is_some_and(|e| e.options() == features);
        if !fits {
            *slot = None;
        }
        f(slot.get_or_insert_with(|| Extractor::new(features.clone())))
    })
}

impl Classifier for LinearModel {
    fn name(&self) -> &str {
        "trained"
    }

    fn id(&self) -> String {
        format!("{TIER}:{}", self.hash)
    }

    fn thresholds(&self) -> Thresholds {
        self.description.thresholds
    }

    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities {
        Probabilities::from_logits(self.with_extractor(|extractor| self.logits(extractor, item)))
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        let t = t.index();
        let named = self.with_extractor(|extractor| extractor.named(item));
        let mut reasons: Vec<Reason> = named
            .into_iter()
            .map(|(what, bucket, value)| {
                let row = &self.table[bucket as usize];
                let logit = |t: usize| value * f32::from(row[t]) * self.steps[t];
                let mean = (0..TYPES).map(logit).sum::<f32>() / TYPES as f32;
                Reason { what, weight: logit(t) - mean }
            })
            .filter(|reason| reason.weight > 0.0)
            .collect();
        reasons.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.what.cmp(&b.what)));
        reasons.truncate(limit);
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Policy;
    use crate::taxonomy::OperatingPoint;

    fn model() -> LinearModel {
        let features = FeatureOptions { bits: 10, ..FeatureOptions::default() };
        let weights: Vec<[f32; TYPES]> =
            (0..1024u32).map(|b| std::array::from_fn(|t| ((b * 7 + t as u32 * 13) % 41) as f32 / 20.0 - 1.0)).collect();
        let thresholds = Thresholds { balanced: 0.5, safe: 0.2 };
        LinearModel::quantise(features, [0.1; TYPES], &weights, thresholds, serde_json::Value::Null)
    }

    #[test]
    fn a_model_reads_back_as_itself() {
        let model = model();
        let back = LinearModel::from_parts(&model.description_json().unwrap(), &model.tensors()).unwrap();
        assert_eq!(back, model);
        let item = ItemContext { text: "Never delete the database.", ..Default::default() };
        assert_eq!(back.probabilities(&item), model.probabilities(&item));
        assert!(!back.explain(&item, KnowledgeType::Constraint, 3).is_empty());
    }

    #[test]
    fn the_shipped_model_knows_an_order_from_a_fact() {
        let decide = |text| {
            let item = ItemContext { text, ..Default::default() };
            shipped().decide(&item, &Policy::at(OperatingPoint::Safe))
        };
        let order = decide("Never push to `main` without review; production deploys from it.");
        assert!(order.pinned && order.item_type == KnowledgeType::Constraint, "{order:?}");
        assert!(!order.why.is_empty());
        let tree = decide("`src/parser.rs` – tokenizer and syntax tree");
        assert!(tree.item_type == KnowledgeType::Belief && tree.risk < order.risk, "{tree:?}");
    }

    #[test]
    fn a_model_that_was_changed_or_is_of_another_version_is_refused() {
        let model = model();
        let json = model.description_json().unwrap();
        let mut tensors = model.tensors();
        let last = tensors.len() - 1;
        tensors[last] ^= 1;
        let error = LinearModel::from_parts(&json, &tensors).unwrap_err().to_string();
        assert!(error.contains("SHA-256 of model.safetensors"), "{error}");
        let tensors = model.tensors();
        for (from, to, field) in [
            ("\"format\": 1", "\"format\": 2", "format"),
            ("\"version\": 1", "\"version\": 99", "features.version"),
            ("\"bits\": 10", "\"bits\": 40", "features.bits"),
            ("\"safe\": 0.2", "\"safe\": 7", "thresholds"),
            ("\"tier\": \"linear\"", "\"tier\": \"cubic\"", "tier"),
        ] {
            assert!(json.contains(from), "{from}");
            let error = LinearModel::from_parts(&json.replace(from, to), &tensors).unwrap_err().to_string();
            assert!(error.contains(field), "{field}: {error}");
        }
        let error = LinearModel::from_parts(&json.replace("\"bits\": 10", "\"bits\": 11"), &tensors).unwrap_err();
        assert!(error.to_string().contains("table"), "{error}");
        assert!(LinearModel::from_parts("{", &tensors).is_err());
    }
}
