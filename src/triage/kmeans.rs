//! Hashed word vectors and a k-means that needs no randomness: for topics too large to read as a whole.

use super::canonical::key_words;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

/// Dimensions of a word vector.
const DIMENSIONS: usize = 128;

/// Rounds of assignment; splits settle long before.
const ROUNDS: usize = 12;

/// The most parts one split makes.
const MAX_PARTS: usize = 8;

/// A unit vector of hashed key words; two texts that share words lie close.
#[derive(Debug, Clone, PartialEq)]
pub struct WordVector([f32; DIMENSIONS]);

impl WordVector {
    /// The vector of `text`; all zero for a text without words.
    pub fn of(text: &str) -> Self {
        let mut vector = [0.0f32; DIMENSIONS];
        for word in key_words(text) {
            let hash = xxh3_64(word.as_bytes());
            // A sign of its own keeps words that meet in a slot from adding up.
            vector[hash as usize % DIMENSIONS] += if hash >> 63 == 0 { 1.0 } else { -1.0 };
        }
        let mut vector = Self(vector);
        vector.scale();
        vector
    }

    /// Cosine similarity.
    pub fn dot(&self, other: &Self) -> f32 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }

    fn scale(&mut self) {
        let norm = self.dot(self).sqrt();
        if norm > 0.0 {
            self.0.iter_mut().for_each(|x| *x /= norm);
        }
    }
}

/// One part of a split topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Positions of its members among the given vectors, ascending.
    pub members: Vec<usize>,
    /// Their mean direction.
    pub centroid: WordVector,
}

/// Split until no part has more than `most` members: k-means on every part that is too large, and where vectors are all
/// alike, by position. The same vectors give the same leaves.
pub fn split(vectors: &[WordVector], most: usize) -> Vec<Leaf> {
    let most = most.max(1);
    let mut leaves = Vec::new();
    let mut open = vec![(0..vectors.len()).collect::<Vec<usize>>()];
    while let Some(members) = open.pop() {
        if members.len() <= most {
            if !members.is_empty() {
                let centroid = mean(vectors, &members);
                leaves.push(Leaf { members, centroid });
            }
            continue;
        }
        let parts = cluster(vectors, &members, members.len().div_ceil(most).clamp(2, MAX_PARTS));
        let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
        if largest == members.len() {
            open.extend(members.chunks(most).map(<[usize]>::to_vec));
        } else {
            open.extend(parts);
        }
    }
    leaves.sort_by(|a, b| a.members.cmp(&b.members));
    leaves
}

fn mean(vectors: &[WordVector], members: &[usize]) -> WordVector {
    let mut sum = WordVector([0.0; DIMENSIONS]);
    for member in members {
        sum.0.iter_mut().zip(&vectors[*member].0).for_each(|(s, x)| *s += x);
    }
    sum.scale();
    sum
}

fn cluster(vectors: &[WordVector], members: &[usize], parts: usize) -> Vec<Vec<usize>> {
    // Seeds: the member furthest from all seeds so far, from the mean outwards.
    let mut seeds = vec![mean(vectors, members)];
    let mut nearest: Vec<f32> = vec![f32::NEG_INFINITY; members.len()];
    while seeds.len() <= parts {
        let last = &seeds[seeds.len() - 1];
        let mut furthest = 0;
        for (index, member) in members.iter().enumerate() {
            nearest[index] = nearest[index].max(vectors[*member].dot(last));
            if nearest[index] < nearest[furthest] {
                furthest = index;
            }
        }
        seeds.push(vectors[members[furthest]].clone());
    }
    let mut centroids = seeds.split_off(1);
    let mut assigned: Vec<usize> = Vec::new();
    for _ in 0..ROUNDS {
        let next: Vec<usize> = members
            .par_iter()
            .map(|member| {
                let vector = &vectors[*member];
                (1..centroids.len()).fold(0, |best, at| {
                    if vector.dot(&centroids[at]) > vector.dot(&centroids[best]) { at } else { best }
                })
            })
            .collect();
        if next == assigned {
            break;
        }
        assigned = next;
        for (at, centroid) in centroids.iter_mut().enumerate() {
            let own: Vec<usize> = members.iter().zip(&assigned).filter(|(_, a)| **a == at).map(|(m, _)| *m).collect();
            if !own.is_empty() {
                *centroid = mean(vectors, &own);
            }
        }
    }
    let mut found = vec![Vec::new(); centroids.len()];
    for (member, at) in members.iter().zip(&assigned) {
        found[*at].push(*member);
    }
    found.retain(|part| !part.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn alike_texts_end_up_together() {
        let texts: Vec<String> = (0..90)
            .map(|n| match n % 3 {
                0 => format!("database migration schema table {n}"),
                1 => format!("react component button style {n}"),
                _ => format!("docker image registry deploy {n}"),
            })
            .collect();
        let vectors: Vec<_> = texts.iter().map(|t| WordVector::of(t)).collect();
        for leaf in split(&vectors, 40) {
            assert!(leaf.members.iter().all(|m| m % 3 == leaf.members[0] % 3), "{leaf:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn leaves_hold_every_member_once_and_are_small(words in prop::collection::vec("[a-d]{1,2}( [a-d]{1,2}){0,3}", 0..120), most in 1usize..40) {
            let vectors: Vec<_> = words.iter().map(|w| WordVector::of(w)).collect();
            let leaves = split(&vectors, most);
            prop_assert!(leaves.iter().all(|l| l.members.len() <= most));
            let mut all: Vec<_> = leaves.iter().flat_map(|l| l.members.clone()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..vectors.len()).collect::<Vec<_>>());
            prop_assert_eq!(split(&vectors, most), leaves);
        }
    }
}
