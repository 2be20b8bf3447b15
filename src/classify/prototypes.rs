//! The `encoder` variant: an item is what the mean of ten examples it lies nearest to is (the paper's §3.2). Works on the
//! vectors of any sentence encoder.

use super::{Probabilities, TYPES};
use crate::taxonomy::KnowledgeType;

/// Examples of each type that make its prototype.
pub const EXAMPLES_PER_TYPE: usize = 10;

/// Divides cosines before the softmax. At 0.05 a lead of 0.1 in cosine weighs e² to one, so that an item that clearly lies
/// with one prototype passes the cascade's 0.55 and one between two does not.
const TEMPERATURE: f32 = 0.05;

/// Prototypes that cannot be made or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrototypeError {
    /// A type without examples.
    #[error("Failed to make prototypes: no example of {0}")]
    Missing(KnowledgeType),
    /// Vectors of another length, for instance from another encoder.
    #[error("Failed to compare vectors: expected {expected} dimensions, found {found}")]
    Dimensions {
        /// Of the prototypes.
        expected: usize,
        /// Of the vector.
        found: usize,
    },
}

/// One unit vector a type.
#[derive(Debug, Clone, PartialEq)]
pub struct Prototypes {
    centroids: [Option<Vec<f32>>; TYPES],
    dimensions: usize,
}

impl Prototypes {
    /// The means of the first [`EXAMPLES_PER_TYPE`] vectors of each type. `meta` and `episodic` may lack examples, since
    /// samples often have none; they are then never answered.
    pub fn new<'v>(examples: impl IntoIterator<Item = (&'v [f32], KnowledgeType)>) -> Result<Self, PrototypeError> {
        let mut sums: [Option<(Vec<f32>, usize)>; TYPES] = Default::default();
        let mut dimensions = None;
        for (vector, t) in examples {
            let expected = *dimensions.get_or_insert(vector.len());
            if vector.len() != expected {
                return Err(PrototypeError::Dimensions { expected, found: vector.len() });
            }
            let (sum, count) = sums[t.index()].get_or_insert_with(|| (vec![0.0; expected], 0));
            if *count < EXAMPLES_PER_TYPE {
                let norm = length(vector).max(f32::MIN_POSITIVE);
                sum.iter_mut().zip(vector).for_each(|(s, v)| *s += v / norm);
                *count += 1;
            }
        }
        for t in &KnowledgeType::ALL[..4] {
            if sums[t.index()].is_none() {
                return Err(PrototypeError::Missing(*t));
            }
        }
        let centroids = sums.map(|sum| {
            sum.map(|(mut sum, _)| {
                let norm = length(&sum).max(f32::MIN_POSITIVE);
                sum.iter_mut().for_each(|s| *s /= norm);
                sum
            })
        });
        Ok(Self { centroids, dimensions: dimensions.unwrap_or(0) })
    }

    /// Softmax of the cosines to the prototypes.
    pub fn probabilities(&self, vector: &[f32]) -> Result<Probabilities, PrototypeError> {
        if vector.len() != self.dimensions {
            return Err(PrototypeError::Dimensions { expected: self.dimensions, found: vector.len() });
        }
        let norm = length(vector).max(f32::MIN_POSITIVE);
        let logits = self.centroids.each_ref().map(|centroid| match centroid {
            Some(c) => c.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>() / norm / TEMPERATURE,
            None => f32::NEG_INFINITY,
        });
        Ok(Probabilities::from_logits(logits))
    }
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|v| v * v).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_prototype_answers_and_absent_types_never_do() {
        let axes: Vec<[f32; 4]> = (0..4).map(|i| std::array::from_fn(|j| f32::from(u8::from(i == j)))).collect();
        let examples = axes.iter().zip(KnowledgeType::ALL).map(|(v, t)| (&v[..], *t));
        let prototypes = Prototypes::new(examples.clone()).unwrap();
        let p = prototypes.probabilities(&[0.1, 3.0, 0.2, 0.0]).unwrap();
        assert_eq!(p.likeliest(), KnowledgeType::Procedural);
        assert!(p.confidence() > 0.9 && p.of(KnowledgeType::Meta) == 0.0);
        assert!(prototypes.probabilities(&[1.0]).is_err());
        assert_eq!(Prototypes::new(examples.take(3)), Err(PrototypeError::Missing(KnowledgeType::Preference)));
    }
}
