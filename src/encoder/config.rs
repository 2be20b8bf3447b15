//! `config.json` of a BERT, as far as its forward pass needs it.

use super::EncoderError;
use serde::{Deserialize, Serialize};

/// Sizes of a BERT (Devlin et al., 2019).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BertConfig {
    /// Must be `bert`.
    pub model_type: String,
    /// Must be `gelu`, the exact form.
    pub hidden_act: String,
    /// Must be `absolute`.
    #[serde(default = "absolute")]
    pub position_embedding_type: String,
    /// Width of a token's vector.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads; they divide the width.
    pub num_attention_heads: usize,
    /// Width between the two products of a layer.
    pub intermediate_size: usize,
    /// Tokens known.
    pub vocab_size: usize,
    /// Longest input in tokens.
    pub max_position_embeddings: usize,
    /// Segments known.
    pub type_vocab_size: usize,
    /// Added to variances.
    pub layer_norm_eps: f32,
}

fn absolute() -> String {
    "absolute".to_owned()
}

/// Largest size of any kind that is believed; keeps products far from overflow.
const LARGEST: usize = 1 << 20;

impl BertConfig {
    /// Read and check a `config.json`; fields that the forward pass does not need are passed over.
    pub fn parse(json: &str) -> Result<Self, EncoderError> {
        let config: Self = serde_json::from_str(json).map_err(EncoderError::Config)?;
        config.check()?;
        Ok(config)
    }

    /// Whether this is a BERT that the forward pass computes.
    pub fn check(&self) -> Result<(), EncoderError> {
        let expect = |field: &'static str, found: &str, expected: &'static str| {
            if found == expected {
                Ok(())
            } else {
                Err(EncoderError::Unsupported { field, found: found.to_owned(), expected: expected.to_owned() })
            }
        };
        expect("model_type", &self.model_type, "bert")?;
        expect("hidden_act", &self.hidden_act, "gelu")?;
        expect("position_embedding_type", &self.position_embedding_type, "absolute")?;
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ];
        for (field, size) in sizes {
            if !(1..=LARGEST).contains(&size) {
                let expected = format!("1 to {LARGEST}");
                return Err(EncoderError::Unsupported { field, found: size.to_string(), expected });
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(EncoderError::Unsupported {
                field: "num_attention_heads",
                found: self.num_attention_heads.to_string(),
                expected: format!("a divisor of hidden_size, {}", self.hidden_size),
            });
        }
        if !(self.layer_norm_eps.is_finite() && self.layer_norm_eps >= 0.0) {
            return Err(EncoderError::Unsupported {
                field: "layer_norm_eps",
                found: self.layer_norm_eps.to_string(),
                expected: "a small positive number".to_owned(),
            });
        }
        Ok(())
    }

    /// Width of one head.
    pub(crate) fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINILM: &str = r#"{"model_type":"bert","hidden_act":"gelu","hidden_size":384,"num_hidden_layers":6,
        "num_attention_heads":12,"intermediate_size":1536,"vocab_size":30522,"max_position_embeddings":512,
        "type_vocab_size":2,"layer_norm_eps":1e-12,"use_cache":true}"#;

    #[test]
    fn what_is_no_bert_with_gelu_is_refused_by_name() {
        assert_eq!(BertConfig::parse(MINILM).unwrap().head_size(), 32);
        for (from, to, field) in [
            ("\"bert\"", "\"roberta\"", "model_type"),
            ("\"gelu\"", "\"gelu_new\"", "hidden_act"),
            ("\"use_cache\":true", "\"position_embedding_type\":\"relative_key\"", "position_embedding_type"),
            ("_heads\":12", "_heads\":7", "num_attention_heads"),
            ("\"vocab_size\":30522", "\"vocab_size\":0", "vocab_size"),
            ("\"vocab_size\":30522,", "", "vocab_size"),
            ("1e-12", "-1", "layer_norm_eps"),
        ] {
            assert!(MINILM.contains(from), "{from}");
            let error = BertConfig::parse(&MINILM.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(field), "{field}: {error}");
        }
    }
}
