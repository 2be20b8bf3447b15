//! The decisions on a blob's items in few bytes: what the store keeps of a classified corpus.
//!
//! One byte for the form, then [`ITEM_BYTES`] bytes for each item in document order: the type (bits 0–2) and whether it
//! is pinned at the safe point (bit 3), the probability of a constraint in steps of 1/65535 (two bytes, little end
//! first; thresholds lie where it is small), then the probabilities of procedural, belief, preference and episodic in
//! steps of 1/255. Meta has what is left. Type and pin are those of the model, not recomputed from rounded numbers. At
//! 17 million items that is 119 MB.

use super::{Decision, Probabilities, TYPES};
use crate::taxonomy::KnowledgeType;

/// Bytes that one item takes.
pub const ITEM_BYTES: usize = 7;

const FORM: u8 = 1;
const PINNED: u8 = 1 << 3;
const CONSTRAINT_STEPS: f32 = 65_535.0;
const STEPS: f32 = 255.0;

/// What is kept of a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The type, at the balanced point.
    pub item_type: KnowledgeType,
    /// Whether an operator pins it at the safe point, nobody named as speaker.
    pub pinned: bool,
    /// Probabilities; packed and unpacked, a constraint's is off by at most 10⁻⁴, any other's by at most 0.01.
    pub probs: Probabilities,
}

impl From<&Decision> for Prediction {
    fn from(decision: &Decision) -> Self {
        Self { item_type: decision.item_type, pinned: decision.pinned, probs: decision.probs }
    }
}

/// Why bytes are no packed predictions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// A form of another release, or no bytes.
    #[error("Failed to unpack predictions: the form is {found:?}, expected {FORM}")]
    Form {
        /// The first byte.
        found: Option<u8>,
    },
    /// No whole number of items.
    #[error("Failed to unpack predictions: {length} bytes are no whole number of items of {ITEM_BYTES} bytes")]
    Length {
        /// Bytes behind the form.
        length: usize,
    },
    /// A byte that stands for no type.
    #[error("Failed to unpack predictions: item {item} has the type byte {byte:#04x}")]
    Type {
        /// Its position, from 0.
        item: usize,
        /// The byte.
        byte: u8,
    },
}

/// Pack predictions, in document order.
pub fn pack(predictions: impl IntoIterator<Item = Prediction>) -> Vec<u8> {
    let predictions = predictions.into_iter();
    let mut bytes = Vec::with_capacity(1 + ITEM_BYTES * predictions.size_hint().0);
    bytes.push(FORM);
    for prediction in predictions {
        let pinned = if prediction.pinned { PINNED } else { 0 };
        bytes.push(prediction.item_type.index() as u8 | pinned);
        let probs = prediction.probs.as_array();
        bytes.extend(((probs[0] * CONSTRAINT_STEPS).round() as u16).to_le_bytes());
        bytes.extend(probs[1..TYPES - 1].iter().map(|p| (p * STEPS).round() as u8));
    }
    bytes
}

/// The predictions in `bytes`, in document order.
pub fn unpack(bytes: &[u8]) -> Result<Vec<Prediction>, PackError> {
    let (form, rest) = bytes.split_first().ok_or(PackError::Form { found: None })?;
    if *form != FORM {
        return Err(PackError::Form { found: Some(*form) });
    }
    let (items, left) = rest.as_chunks::<ITEM_BYTES>();
    if !left.is_empty() {
        return Err(PackError::Length { length: rest.len() });
    }
    let read = |(item, bytes): (usize, &[u8; ITEM_BYTES])| {
        let [head, low, high, others @ ..] = *bytes;
        let item_type = KnowledgeType::ALL.get(usize::from(head & !PINNED));
        let item_type = *item_type.ok_or(PackError::Type { item, byte: head })?;
        let mut weights = [0.0; TYPES];
        weights[0] = f32::from(u16::from_le_bytes([low, high])) / CONSTRAINT_STEPS;
        for (weight, steps) in weights[1..].iter_mut().zip(others) {
            *weight = f32::from(steps) / STEPS;
        }
        // The constraint keeps its probability; rounding that leaves more than the rest can hold is taken from the others.
        let (rest, others) = (1.0 - weights[0], weights[1..].iter().sum::<f32>());
        if others > rest {
            weights[1..].iter_mut().for_each(|w| *w *= rest / others);
        } else {
            weights[TYPES - 1] = rest - others;
        }
        Ok(Prediction { item_type, pinned: head & PINNED != 0, probs: Probabilities::from_weights(weights) })
    };
    items.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prediction() -> impl Strategy<Value = Prediction> {
        (prop::array::uniform6(0.0f32..1.0), prop::array::uniform6(0u8..3), 0..TYPES, any::<bool>()).prop_map(
            |(weights, powers, t, pinned)| Prediction {
                item_type: KnowledgeType::ALL[t],
                pinned,
                // Powers make sure distributions, on which the rounding of the small probabilities adds up.
                probs: Probabilities::from_weights(std::array::from_fn(|i| weights[i].powi(4 * i32::from(powers[i])))),
            },
        )
    }

    proptest! {
        #[test]
        fn predictions_come_back_as_they_were(predictions in prop::collection::vec(prediction(), 0..40)) {
            let bytes = pack(predictions.iter().copied());
            prop_assert_eq!(bytes.len(), 1 + ITEM_BYTES * predictions.len());
            let back = unpack(&bytes).unwrap();
            prop_assert_eq!(back.len(), predictions.len());
            for (before, after) in predictions.iter().zip(&back) {
                prop_assert_eq!((before.item_type, before.pinned), (after.item_type, after.pinned));
                for t in KnowledgeType::ALL {
                    let most = if *t == KnowledgeType::Constraint { 1e-4 } else { 0.01 };
                    prop_assert!((before.probs.of(*t) - after.probs.of(*t)).abs() <= most, "{:?} {:?}", before, after);
                }
            }
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(predictions) = unpack(&bytes) {
                prop_assert_eq!(predictions.len() * ITEM_BYTES + 1, bytes.len());
            }
        }
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(unpack(&[]), Err(PackError::Form { found: None }));
        assert_eq!(unpack(&[9]), Err(PackError::Form { found: Some(9) }));
        assert_eq!(unpack(&[1, 0, 0]), Err(PackError::Length { length: 2 }));
        assert_eq!(unpack(&[1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]), Err(PackError::Type { item: 1, byte: 7 }));
        assert_eq!(unpack(&[1]), Ok(Vec::new()));
    }
}
