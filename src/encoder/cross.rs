//! A cross-encoder: how well a text answers a query, read together (Nogueira & Cho, 2019). A BERT with a pooler and one
//! logit, as sequence classifiers with one class are published; weights are the caller's.

use super::config::BertConfig;
use super::tokens::Input;
use super::weights::{Linear, Reader};
use super::{Encoder, EncoderError};

/// A cross-encoder ready to answer.
#[derive(Debug, Clone)]
pub struct CrossEncoder {
    encoder: Encoder,
    /// From the first state to what the head reads.
    pooler: Linear,
    /// From there to the logit.
    head: Linear,
}

impl CrossEncoder {
    /// Read a cross-encoder from the contents of its three files, which hold the tensors of a BERT,
    /// `pooler.dense.{weight,bias}` and `classifier.{weight,bias}` of one class.
    pub fn from_parts(config: &str, tokenizer: &[u8], tensors: &[u8]) -> Result<Self, EncoderError> {
        let sizes = BertConfig::parse(config)?;
        if sizes.type_vocab_size < 2 {
            return Err(EncoderError::Unsupported {
                field: "type_vocab_size",
                found: sizes.type_vocab_size.to_string(),
                expected: "2 or more: one for the query and one for the text".to_owned(),
            });
        }
        let (reader, width) = (Reader::new(tensors)?, sizes.hidden_size);
        Ok(Self {
            pooler: reader.linear("pooler.dense", width, width)?,
            head: reader.head("classifier", 1, width)?,
            encoder: Encoder::from_parts(config, tokenizer, tensors)?,
        })
    }

    /// `bert:` and the SHA-256 of `model.safetensors`.
    pub fn id(&self) -> &str {
        self.encoder.id()
    }

    /// The logit of each of `texts` for `query`, in their order; higher is better. A pair too long for the model loses the
    /// end of the text, and a query the part that exceeds half of the room. Uses all threads of the pool it is called in.
    pub fn relevance(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, EncoderError> {
        let longest = self.encoder.config.max_position_embeddings;
        let query = self.encoder.tokens.of(query, longest / 2)?;
        let inputs: Vec<Input> = texts
            .iter()
            .map(|text| Ok(self.encoder.tokens.input(&query, &self.encoder.tokens.of(text, longest)?)))
            .collect::<Result<_, EncoderError>>()?;
        let width = self.encoder.config.hidden_size;
        Ok(self.encoder.over_batches(&inputs, |states, packed, _| {
            let first = |(start, _): (usize, usize)| &states[start * width..(start + 1) * width];
            packed.sequences().map(|sequence| self.logit(first(sequence))).collect()
        }))
    }

    fn logit(&self, first: &[f32]) -> f32 {
        let pooled: Vec<f32> = outputs(&self.pooler, first).map(f32::tanh).collect();
        outputs(&self.head, &pooled).next().unwrap_or(0.0)
    }
}

/// `weight · x + bias`, one output after the other.
fn outputs<'l>(linear: &'l Linear, x: &'l [f32]) -> impl Iterator<Item = f32> + 'l {
    linear
        .weight
        .chunks_exact(linear.columns)
        .zip(&linear.bias)
        .map(move |(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    const CONFIG: &str = include_str!("../../tests/fixtures/encoder/cross/config.json");
    const TOKENIZER: &[u8] = include_bytes!("../../tests/fixtures/encoder/cross/tokenizer.json");
    const TENSORS: &[u8] = include_bytes!("../../tests/fixtures/encoder/cross/model.safetensors");

    #[derive(Deserialize)]
    struct Expected {
        query: String,
        text: String,
        score: f32,
    }

    /// Against an independent reference (`tests/fixtures/encoder/reference.py cross`).
    #[test]
    fn logits_equal_the_reference() {
        let cross = CrossEncoder::from_parts(CONFIG, TOKENIZER, TENSORS).unwrap();
        let expected: Vec<Expected> =
            serde_json::from_str(include_str!("../../tests/fixtures/encoder/cross/expected.json")).unwrap();
        for query in ["Never push to main.", "the data"] {
            let asked: Vec<&Expected> = expected.iter().filter(|pair| pair.query == query).collect();
            assert_eq!(asked.len(), 3);
            let texts: Vec<&str> = asked.iter().map(|pair| pair.text.as_str()).collect();
            for (found, pair) in cross.relevance(query, &texts).unwrap().iter().zip(asked) {
                assert!((found - pair.score).abs() < 5e-6, "{query}, {}: {found}, not {}", pair.text, pair.score);
            }
        }
        let long = "push ".repeat(200);
        assert!(cross.relevance(&long, &[&long, ""]).unwrap().iter().all(|logit| logit.is_finite()));
    }

    #[test]
    fn what_is_no_cross_encoder_is_refused_by_name() {
        let sentence = include_bytes!("../../tests/fixtures/encoder/model.safetensors");
        let config = include_str!("../../tests/fixtures/encoder/config.json");
        let error = CrossEncoder::from_parts(config, TOKENIZER, sentence).unwrap_err().to_string();
        assert!(error.contains("pooler.dense.weight"), "{error}");
        let one = CONFIG.replace("\"type_vocab_size\": 2", "\"type_vocab_size\": 1");
        let error = CrossEncoder::from_parts(&one, TOKENIZER, TENSORS).unwrap_err().to_string();
        assert!(error.contains("type_vocab_size"), "{error}");
    }
}
