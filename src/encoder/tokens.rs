//! Text to tokens, and texts of any lengths side by side without padding.

use super::EncoderError;
use super::config::BertConfig;
use tokenizers::Tokenizer;

/// A WordPiece tokenizer whose own padding and truncation are off: files that ship with sentence encoders pad every text
/// to a fixed length, which costs several times the work and changes nothing.
#[derive(Debug, Clone)]
pub struct Tokens {
    tokenizer: Tokenizer,
    first: u32,
    separator: u32,
    vocabulary: usize,
    longest: usize,
    segments: usize,
}

impl Tokens {
    /// Read a `tokenizer.json`.
    pub fn parse(json: &[u8], config: &BertConfig) -> Result<Self, EncoderError> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| EncoderError::Tokenizer { why: e.to_string() })?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| EncoderError::Tokenizer { why: e.to_string() })?;
        let special = |token: &str| {
            tokenizer
                .token_to_id(token)
                .ok_or_else(|| EncoderError::Tokenizer { why: format!("it has no token {token}") })
        };
        let (first, separator) = (special("[CLS]")?, special("[SEP]")?);
        let (vocabulary, longest) = (config.vocab_size, config.max_position_embeddings);
        if longest < 8 {
            return Err(EncoderError::Unsupported {
                field: "max_position_embeddings",
                found: longest.to_string(),
                expected: "8 or more".to_owned(),
            });
        }
        Ok(Self { tokenizer, first, separator, vocabulary, longest, segments: config.type_vocab_size })
    }

    /// The tokens of a text, at most `limit`, without the special ones.
    pub fn of(&self, text: &str, limit: usize) -> Result<Vec<u32>, EncoderError> {
        // No token is shorter than a byte, yet white space makes none: what lies far beyond the limit is not read.
        let mut end = text.len().min(limit.saturating_mul(32).saturating_add(256));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let encoded = self
            .tokenizer
            .encode_fast(&text[..end], false)
            .map_err(|e| EncoderError::Tokenizer { why: e.to_string() })?;
        let ids: Vec<u32> = encoded.get_ids().iter().take(limit).copied().collect();
        match ids.iter().find(|id| **id as usize >= self.vocabulary) {
            Some(id) => Err(EncoderError::Tokenizer {
                why: format!("it gives token {id}, and the model knows {} only", self.vocabulary),
            }),
            None => Ok(ids),
        }
    }

    /// The token between segments.
    pub fn separator(&self) -> u32 {
        self.separator
    }

    /// One input: a text, and what stands beside it as second segment unless that is empty. What exceeds the model is
    /// cut: the second segment first.
    pub fn input(&self, text: &[u32], beside: &[u32]) -> Input {
        let text = &text[..text.len().min(self.longest - 2)];
        let mut ids = Vec::with_capacity(text.len() + beside.len() + 3);
        ids.push(self.first);
        ids.extend_from_slice(text);
        ids.push(self.separator);
        let split = ids.len();
        let room = self.longest.saturating_sub(split + 1).min(beside.len());
        if room > 0 && self.segments > 1 {
            ids.extend_from_slice(&beside[..room]);
            ids.push(self.separator);
        }
        Input { ids, split }
    }
}

/// The tokens of one input; those before `split` are of the first segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub(crate) ids: Vec<u32>,
    pub(crate) split: usize,
}

impl Input {
    /// How many tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Never: the special tokens are always there.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Inputs side by side: sequence `i` takes the rows `starts[i]..starts[i + 1]` of every matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) starts: Vec<usize>,
    pub(crate) splits: Vec<usize>,
}

impl Packed {
    pub(crate) fn of<'i>(inputs: impl IntoIterator<Item = &'i Input>) -> Self {
        let (mut starts, mut splits) = (vec![0], Vec::new());
        for input in inputs {
            starts.push(starts[starts.len() - 1] + input.ids.len());
            splits.push(input.split);
        }
        Self { starts, splits }
    }

    /// Rows in all.
    pub(crate) fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Sequences.
    pub(crate) fn len(&self) -> usize {
        self.splits.len()
    }

    /// First row and length of each sequence.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = (usize, usize)> {
        self.starts.windows(2).map(|w| (w[0], w[1] - w[0]))
    }
}
