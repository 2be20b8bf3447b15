//! A sentence encoder: texts in, vectors out. The forward pass of a BERT over unpadded sequences, with its tokenizer; no
//! file, no network, no clock.
//!
//! `config.json`, `tokenizer.json` and `model.safetensors` are those of any BERT with exact GELU; `model.safetensors` may
//! also hold bytes in groups of 32 ([`quantised`]).
// The way back through the encoder needs more of it than the way forth.
#![cfg_attr(not(feature = "train"), allow(dead_code, unused_imports))]

pub mod config;
pub mod cross;
pub(crate) mod forward;
pub(crate) mod math;
pub mod quantised;
pub mod tokens;
pub(crate) mod weights;

use crate::corpus::Sha256;
use config::BertConfig;
use forward::LayerTape;
use rayon::prelude::*;
use tokens::{Input, Packed, Tokens};
use weights::{Collected, Reader, Weights};

/// An encoder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// `config.json` is not what it should be.
    #[error("Failed to read config.json of the encoder: {0}")]
    Config(serde_json::Error),
    /// Another kind of model.
    #[error("Failed to use the encoder: {field} is {found}, expected {expected}")]
    Unsupported {
        /// Field of `config.json`.
        field: &'static str,
        /// What it says.
        found: String,
        /// What is computed here.
        expected: String,
    },
    /// `tokenizer.json` is not what it should be.
    #[error("Failed to use tokenizer.json of the encoder: {why}")]
    Tokenizer {
        /// What is wrong.
        why: String,
    },
    /// `model.safetensors` is no tensor file.
    #[error("Failed to read model.safetensors of the encoder: {0}")]
    Tensors(safetensors::SafeTensorError),
    /// A tensor is missing or of another shape than `config.json` says.
    #[error("Failed to read the tensor {name} of the encoder: expected {expected}, found {found}")]
    Tensor {
        /// Its name.
        name: String,
        /// Shape needed.
        expected: String,
        /// What the file has.
        found: String,
    },
}

/// Tokens of a text that are read; what all-MiniLM-L6-v2 was trained with.
const LONGEST_TEXT: usize = 256;
/// Rows of one batch: enough for products to run at full speed, few enough to stay in the cache.
const BATCH_ROWS: usize = 512;

/// A sentence encoder ready to answer.
#[derive(Debug, Clone)]
pub struct Encoder {
    pub(crate) config: BertConfig,
    pub(crate) tokens: Tokens,
    pub(crate) weights: Weights,
    id: String,
}

impl Encoder {
    /// Read an encoder from the contents of its three files. Everything is checked: kind, sizes, finiteness.
    pub fn from_parts(config: &str, tokenizer: &[u8], tensors: &[u8]) -> Result<Self, EncoderError> {
        let config = BertConfig::parse(config)?;
        let tokens = Tokens::parse(tokenizer, &config)?;
        let weights = Reader::new(tensors)?.weights(&config)?;
        Ok(Self { config, tokens, weights, id: format!("bert:{}", Sha256::of(tensors)) })
    }

    /// `bert:` and the SHA-256 of `model.safetensors`. What was fitted to the vectors of one encoder is of no use with
    /// another, so this belongs into every cache key and result.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Length of a vector.
    pub fn dimensions(&self) -> usize {
        self.config.hidden_size
    }

    /// The tokenizer.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Sizes.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The vectors of `texts`, in their order: the mean over tokens, of length one (Reimers & Gurevych, 2019). Texts of
    /// more than 256 tokens are cut. Uses all threads of the pool it is called in.
    pub fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EncoderError> {
        let longest = LONGEST_TEXT.min(self.config.max_position_embeddings);
        let inputs: Vec<Input> = texts
            .par_iter()
            .map(|text| Ok(self.tokens.input(&self.tokens.of(text, longest - 2)?, &[])))
            .collect::<Result<_, EncoderError>>()?;
        let width = self.config.hidden_size;
        Ok(self.over_batches(&inputs, |states, packed, _| {
            packed
                .sequences()
                .map(|(start, length)| {
                    let mut mean = vec![0.0f32; width];
                    for row in states[start * width..(start + length) * width].chunks_exact(width) {
                        math::add(&mut mean, row);
                    }
                    let norm = mean.iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
                    mean.iter_mut().for_each(|v| *v /= norm);
                    mean
                })
                .collect()
        }))
    }

    /// Run `f` on the last states of batches of inputs of like length, and give what it makes of each input in the order
    /// of `inputs`. `f` gets the states, where each sequence lies in them, and which inputs they are.
    pub(crate) fn over_batches<T: Send>(
        &self,
        inputs: &[Input],
        f: impl Fn(&[f32], &Packed, &[usize]) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let batches = batches(inputs, BATCH_ROWS);
        let found: Vec<Vec<T>> = batches
            .par_iter()
            .map_init(Default::default, |tapes: &mut [LayerTape; 2], batch| {
                let packed = Packed::of(batch.iter().map(|i| &inputs[*i]));
                let states = self.states(batch.iter().map(|i| &inputs[*i]), &packed, tapes);
                f(states, &packed, batch)
            })
            .collect();
        let mut order: Vec<(usize, T)> = batches.into_iter().flatten().zip(found.into_iter().flatten()).collect();
        order.sort_by_key(|(index, _)| *index);
        order.into_iter().map(|(_, value)| value).collect()
    }

    /// The states after the last layer, `rows × width`.
    fn states<'t, 'i>(
        &self,
        inputs: impl Iterator<Item = &'i Input>,
        packed: &Packed,
        tapes: &'t mut [LayerTape; 2],
    ) -> &'t [f32] {
        let [ahead, behind] = tapes;
        let (mut ahead, mut behind) = (ahead, behind);
        behind.out = forward::embed(&self.weights, &self.config, inputs);
        for (index, layer) in self.weights.layers.iter().enumerate() {
            forward::layer(layer, &self.config, (index, None), &behind.out, packed, ahead);
            std::mem::swap(&mut ahead, &mut behind);
        }
        &behind.out
    }

    /// `model.safetensors` of this encoder, as bytes with scales when `small`.
    pub fn tensors(&self, small: bool) -> Result<Vec<u8>, EncoderError> {
        let mut collected = Collected::default();
        collected.push_weights(&self.weights, &self.config, small);
        collected.file()
    }
}

/// Inputs of like length in batches of about `rows` rows; a longer input is a batch of its own.
pub(crate) fn batches(inputs: &[Input], rows: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|i| (inputs[*i].ids.len(), *i));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut filled = rows;
    for index in order {
        let length = inputs[index].ids.len();
        if filled + length > rows {
            batches.push(Vec::new());
            filled = 0;
        }
        filled += length;
        if let Some(last) = batches.last_mut() {
            last.push(index);
        }
    }
    batches
}

#[cfg(test)]
pub(crate) mod tests;
