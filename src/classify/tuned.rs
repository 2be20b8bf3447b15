//! The encoder tier of `trained`: a sentence encoder fine-tuned on the types, calibrated together with the linear tier,
//! and the cascade of the two.
//!
//! A model is a folder of `model.json` ([`TunedDescription`]), `model.safetensors` (the encoder, its matrices as bytes in
//! groups of 32, and `head.weight` and `head.bias`) and `tokenizer.json`. Where the linear tier it was calibrated with is
//! not the one compiled in, that stands in its sub-folder `linear`.
// The way back through the encoder needs more of it than the way forth.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]

use super::linear::{LinearModel, ModelError, with_thread_extractor};
use super::{Classifier, Probabilities, Reason, TYPES, Thresholds};
use crate::corpus::{ItemContext, Sha256};
use crate::encoder::config::BertConfig;
use crate::encoder::tokens::{Input, Packed, Tokens};
use crate::encoder::weights::{Collected, Reader};
use crate::encoder::{Encoder, EncoderError};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What an encoder sees of an item, in tokens. The text is the first segment; the second holds kind and file name, the
/// last two headings, and how the items before and after begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputOptions {
    /// Of the text.
    pub text: usize,
    /// Of the kind and the last two parts of the path.
    pub place: usize,
    /// Of the last two headings.
    pub heading: usize,
    /// Of the item before and of the item after, each.
    pub neighbour: usize,
}

impl Default for InputOptions {
    fn default() -> Self {
        Self { text: 128, place: 14, heading: 16, neighbour: 8 }
    }
}

impl InputOptions {
    /// The tokens of an item.
    pub fn input(&self, tokens: &Tokens, item: &ItemContext<'_>) -> Result<Input, EncoderError> {
        let text = tokens.of(item.text, self.text)?;
        let folder = item.path.rsplit('/').nth(1).unwrap_or_default();
        let name = item.path.rsplit('/').next().unwrap_or_default();
        let place = format!("{} {folder} {name}", item.kind.map_or("", |kind| kind.as_str()));
        let mut heading = item.heading.iter().rev().take(2).copied().collect::<Vec<_>>().into_iter();
        let heading = [heading.next().unwrap_or_default(), heading.next().unwrap_or_default()].join(" : ");
        let parts = [
            (place.as_str(), self.place),
            (heading.as_str(), self.heading),
            (item.before.unwrap_or_default(), self.neighbour),
            (item.after.unwrap_or_default(), self.neighbour),
        ];
        let mut beside = Vec::new();
        for (part, limit) in parts.into_iter().filter(|(_, limit)| *limit > 0) {
            if !beside.is_empty() {
                beside.push(tokens.separator());
            }
            beside.extend(tokens.of(part, limit)?);
        }
        Ok(tokens.input(&text, &beside))
    }
}

/// The last product: from what the encoder says of an item to the types.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    /// `types × 2·width`.
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl Head {
    pub(crate) fn zeros(width: usize) -> Self {
        Self { weight: vec![0.0; TYPES * 2 * width], bias: vec![0.0; TYPES] }
    }

    pub(crate) fn logits(&self, pooled: &[f32]) -> [f32; TYPES] {
        std::array::from_fn(|t| {
            let row = &self.weight[t * pooled.len()..(t + 1) * pooled.len()];
            self.bias[t] + row.iter().zip(pooled).map(|(w, p)| w * p).sum::<f32>()
        })
    }
}

/// What the head sees of a sequence: the state of its first token, then the mean over its first segment.
pub(crate) fn pool(states: &[f32], packed: &Packed, width: usize) -> Vec<f32> {
    let mut pooled = Vec::with_capacity(packed.len() * 2 * width);
    for ((start, _), split) in packed.sequences().zip(&packed.splits) {
        let rows = &states[start * width..(start + split) * width];
        pooled.extend_from_slice(&rows[..width]);
        let at = pooled.len();
        pooled.resize(at + width, 0.0);
        for row in rows.chunks_exact(width) {
            for (sum, value) in pooled[at..].iter_mut().zip(row) {
                *sum += value / *split as f32;
            }
        }
    }
    pooled
}

/// How the logits of the two tiers become probabilities: `softmax(encoder · e + linear · l + shift)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixing {
    /// Factor on the encoder's logits.
    pub encoder: f32,
    /// Factor on the linear tier's logits.
    pub linear: f32,
    /// Added, by type.
    pub shift: [f32; TYPES],
}

impl Mixing {
    /// The calibrated distribution.
    pub fn probabilities(&self, encoder: &[f32; TYPES], linear: &[f32; TYPES]) -> Probabilities {
        Probabilities::from_logits(std::array::from_fn(|t| {
            self.encoder * encoder[t] + self.linear * linear[t] + self.shift[t]
        }))
    }
}

/// `model.json` of the encoder tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedDescription {
    /// Always `encoder`.
    pub tier: String,
    /// Version of this format.
    pub format: u32,
    /// The types in the order of the head's rows.
    pub types: Vec<KnowledgeType>,
    /// Sizes of the encoder.
    pub encoder: BertConfig,
    /// What it sees of an item.
    pub input: InputOptions,
    /// How the tiers are mixed.
    pub mixing: Mixing,
    /// θ_C at each operating point.
    pub thresholds: Thresholds,
    /// The linear tier alone answers from this confidence up; above 1 the encoder is always asked.
    pub linear_floor: f32,
    /// SHA-256 of the numbers of the linear tier it was calibrated with.
    pub linear_sha256: Sha256,
    /// SHA-256 of `model.safetensors`.
    pub tensors_sha256: Sha256,
    /// SHA-256 of `tokenizer.json`.
    pub tokenizer_sha256: Sha256,
    /// What it was fitted on and how well it did, for people and cards; not read by the program.
    #[serde(default)]
    pub notes: serde_json::Value,
}

/// `tier` of a description.
pub const TIER: &str = "encoder";
const FORMAT: u32 = 1;

/// How a tuned encoder is put to use: all of its description that is decided after training.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// How the tiers are mixed.
    pub mixing: Mixing,
    /// θ_C at each operating point.
    pub thresholds: Thresholds,
    /// The linear tier alone answers from this confidence up.
    pub linear_floor: f32,
    /// For people and cards.
    pub notes: serde_json::Value,
}

/// A fine-tuned encoder with the linear tier before it.
#[derive(Debug, Clone)]
pub struct TunedModel {
    description: TunedDescription,
    encoder: Encoder,
    head: Head,
    linear: Cow<'static, LinearModel>,
    hash: Sha256,
}

/// The files of a model, as bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedFiles {
    /// `model.json`.
    pub description: String,
    /// `model.safetensors`.
    pub tensors: Vec<u8>,
}

impl TunedModel {
    /// The files of a model whose matrices are quantised; `tokenizer` is the content of its `tokenizer.json`.
    pub(crate) fn files(
        encoder: &Encoder,
        head: &Head,
        input: &InputOptions,
        tokenizer: &[u8],
        linear: &LinearModel,
        settlement: Settlement,
    ) -> Result<TunedFiles, ModelError> {
        let config = encoder.config();
        let mut collected = Collected::default();
        collected.push_weights(&encoder.weights, config, true);
        collected.push("head.weight", &[TYPES, 2 * config.hidden_size], &head.weight);
        collected.push("head.bias", &[TYPES], &head.bias);
        let tensors = collected.file()?;
        let description = TunedDescription {
            tier: TIER.to_owned(),
            format: FORMAT,
            types: KnowledgeType::ALL.to_vec(),
            encoder: config.clone(),
            input: input.clone(),
            mixing: settlement.mixing,
            thresholds: settlement.thresholds,
            linear_floor: settlement.linear_floor,
            linear_sha256: linear.hash(),
            tensors_sha256: Sha256::of(&tensors),
            tokenizer_sha256: Sha256::of(tokenizer),
            notes: settlement.notes,
        };
        Ok(TunedFiles { description: serde_json::to_string_pretty(&description)? + "\n", tensors })
    }

    /// Read a model from the contents of its files. Every number is checked: sizes, hashes, finiteness, versions.
    pub fn from_parts(
        json: &str,
        tensors: &[u8],
        tokenizer: &[u8],
        linear: Cow<'static, LinearModel>,
    ) -> Result<Self, ModelError> {
        let description: TunedDescription = serde_json::from_str(json)?;
        let expect = |what, found: String, expected: String| {
            if found == expected { Ok(()) } else { Err(ModelError::Mismatch { what, found, expected }) }
        };
        expect("tier", description.tier.clone(), TIER.to_owned())?;
        expect("format", description.format.to_string(), FORMAT.to_string())?;
        expect("types", format!("{:?}", description.types), format!("{:?}", KnowledgeType::ALL))?;
        let Thresholds { balanced, safe } = description.thresholds;
        if ![balanced, safe].iter().all(|t| (0.0..=1.0).contains(t)) {
            expect("thresholds", format!("{balanced} and {safe}"), "two numbers from 0 to 1".to_owned())?;
        }
        let Mixing { encoder: factor, linear: other, shift } = description.mixing;
        if ![factor, other, description.linear_floor].iter().chain(&shift).all(|v| v.is_finite()) {
            expect("mixing", format!("{:?}", description.mixing), "finite numbers".to_owned())?;
        }
        expect(
            "SHA-256 of model.safetensors",
            Sha256::of(tensors).to_string(),
            description.tensors_sha256.to_string(),
        )?;
        let found = Sha256::of(tokenizer).to_string();
        expect("SHA-256 of tokenizer.json", found, description.tokenizer_sha256.to_string())?;
        expect("SHA-256 of the linear tier", linear.hash().to_string(), description.linear_sha256.to_string())?;
        description.encoder.check()?;
        let config = serde_json::to_string(&description.encoder)?;
        let encoder = Encoder::from_parts(&config, tokenizer, tensors)?;
        let reader = Reader::new(tensors)?;
        let head = Head {
            weight: reader.values("head.weight", &[TYPES, 2 * encoder.dimensions()])?,
            bias: reader.values("head.bias", &[TYPES])?,
        };
        // Calibration and floor decide answers, too; notes do not.
        let identity = TunedDescription { notes: serde_json::Value::Null, ..description.clone() };
        let hash = Sha256::of(serde_json::to_string(&identity)?.as_bytes());
        Ok(Self { description, encoder, head, linear, hash })
    }

    /// What `model.json` says.
    pub fn description(&self) -> &TunedDescription {
        &self.description
    }

    /// The linear tier before it.
    pub fn linear(&self) -> &LinearModel {
        &self.linear
    }

    /// The same model that asks the encoder unless the linear tier is at least this sure; above 1 it always does.
    pub fn with_linear_floor(mut self, floor: f32) -> Result<Self, ModelError> {
        self.description.linear_floor = floor;
        let identity = TunedDescription { notes: serde_json::Value::Null, ..self.description.clone() };
        self.hash = Sha256::of(serde_json::to_string(&identity)?.as_bytes());
        Ok(self)
    }

    /// Logits of the encoder alone, in the order of `inputs`.
    pub(crate) fn logits(encoder: &Encoder, head: &Head, inputs: &[Input]) -> Vec<[f32; TYPES]> {
        let width = encoder.dimensions();
        encoder.over_batches(inputs, |states, packed, _| {
            pool(states, packed, width).chunks_exact(2 * width).map(|pooled| head.logits(pooled)).collect()
        })
    }
}

impl Classifier for TunedModel {
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
        self.probabilities_of(std::slice::from_ref(item))[0]
    }

    fn probabilities_of(&self, items: &[ItemContext<'_>]) -> Vec<Probabilities> {
        let linear: Vec<[f32; TYPES]> = with_thread_extractor(&self.linear.description().features, |extractor| {
            items.iter().map(|item| self.linear.logits(extractor, item)).collect()
        });
        let mut answers: Vec<Probabilities> = linear.iter().map(|l| Probabilities::from_logits(*l)).collect();
        let unsure: Vec<usize> =
            (0..items.len()).filter(|i| answers[*i].confidence() < self.description.linear_floor).collect();
        // An item that the tokenizer cannot read keeps the linear tier's answer.
        let (asked, inputs): (Vec<usize>, Vec<Input>) = unsure
            .into_par_iter()
            .filter_map(|i| Some((i, self.description.input.input(self.encoder.tokens(), &items[i]).ok()?)))
            .unzip();
        let logits = Self::logits(&self.encoder, &self.head, &inputs);
        for (i, logits) in asked.into_iter().zip(logits) {
            answers[i] = self.description.mixing.probabilities(&logits, &linear[i]);
        }
        answers
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        let probabilities = self.probabilities(item);
        let alone = self.linear.probabilities(item);
        let mut reasons = self.linear.explain(item, t, limit.saturating_sub(1));
        if alone.confidence() < self.description.linear_floor {
            // How far the encoder moved the log-odds of the type.
            let odds = |p: f32| (p.clamp(1e-6, 1.0 - 1e-6) / (1.0 - p).clamp(1e-6, 1.0)).ln();
            let weight = odds(probabilities.of(t)) - odds(alone.of(t));
            reasons.insert(0, Reason { what: "meaning: sentence encoder".to_owned(), weight });
        }
        reasons.truncate(limit);
        reasons
    }
}
