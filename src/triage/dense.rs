//! Retrieval by meaning: vectors of an encoder that the caller brings, and a reranker over the best of any scorer.

use super::index::{Entry, Index};
use rayon::prelude::*;

/// Turns a text into a vector. Vectors of one encoder have one length; they need not be scaled.
pub trait Embed: Sync {
    /// The vector of `text`.
    fn embed(&self, text: &str) -> Vec<f32>;
}

/// Says how well a text answers a query: a cross-encoder.
pub trait Rerank: Sync {
    /// Higher is better; only the order of answers to one query counts.
    fn relevance(&self, query: &str, text: &str) -> f32;
}

/// The vectors of an index, made once.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Belief;
/// use aac::triage::{Base, Dense, Embed, Index, Judgement, Query, Tokenizer, retrieve_by};
///
/// /// Counts of the letters.
/// struct Letters;
/// impl Embed for Letters {
///     fn embed(&self, text: &str) -> Vec<f32> {
///         ('a'..='z').map(|letter| text.matches(letter).count() as f32).collect()
///     }
/// }
///
/// let base = Base::read("a.md", "- aaab\n- zzzy\n", Tokenizer::Cl100k, |_| Judgement::certain(Belief));
/// let mut index = Index::default();
/// index.replace("a.md", &base);
/// let dense = Dense::of(&index, &Letters);
/// let found = retrieve_by(&index, &Query { k: 1, ..Query::default() }, &dense.scores("zy", &Letters));
/// assert_eq!(found.results[0].text, "zzzy");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Dense {
    dimensions: usize,
    /// Unit vectors, one after the other in the order of the index.
    vectors: Vec<f32>,
}

impl Dense {
    /// Embed every entry of `index` as it stands, its innermost topic before it.
    pub fn of(index: &Index, encoder: &dyn Embed) -> Self {
        Self::of_vectors(index.entries().par_iter().map(|entry| encoder.embed(&embedded_text(entry))).collect())
    }

    /// Take vectors made elsewhere, one an entry of an index in its order, of one length.
    pub fn of_vectors(embedded: Vec<Vec<f32>>) -> Self {
        let dimensions = embedded.first().map_or(0, Vec::len);
        let mut vectors = Vec::with_capacity(dimensions * embedded.len());
        for mut vector in embedded {
            scale(&mut vector);
            vector.resize(dimensions, 0.0);
            vectors.extend(vector);
        }
        Self { dimensions, vectors }
    }

    /// Scores for [`retrieve_by`](super::retrieve_by): the cosine to `query`, moved to 0 (opposite) … 1 (the same).
    pub fn scores(&self, query: &str, encoder: &dyn Embed) -> Vec<f32> {
        self.scores_to(encoder.embed(query))
    }

    /// The same for a query that was embedded elsewhere.
    pub fn scores_to(&self, mut query: Vec<f32>) -> Vec<f32> {
        scale(&mut query);
        query.resize(self.dimensions, 0.0);
        if self.dimensions == 0 {
            return Vec::new();
        }
        let cosine = |vector: &[f32]| dot(vector, &query).clamp(-1.0, 1.0);
        self.vectors.par_chunks(self.dimensions).with_min_len(512).map(|vector| 0.5 + 0.5 * cosine(vector)).collect()
    }
}

/// What is embedded of an entry: its text, its innermost topic before it.
pub(super) fn embedded_text(entry: &Entry) -> String {
    match entry.topics.first() {
        Some(topic) => format!("{topic}: {}", entry.text),
        None => entry.text.clone(),
    }
}

/// Sums side by side, which a compiler may compute in one register; a single sum it must not reorder.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let ((a, rest), (b, other)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest.iter().zip(other).map(|(a, b)| a * b).sum::<f32>()
}

fn scale(vector: &mut [f32]) {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

/// Scores in which the best `pool` entries of `scores` are ordered by `reranker`, above all others, which keep their
/// order.
pub fn rerank(index: &Index, query: &str, scores: &[f32], pool: usize, reranker: &dyn Rerank) -> Vec<f32> {
    let there = scores.len().min(index.entries().len());
    let pool = best_of(&scores[..there], pool);
    let relevance: Vec<f32> = pool.par_iter().map(|at| reranker.relevance(query, &index.entries()[*at].text)).collect();
    reorder(scores, &pool, &relevance)
}

/// The entries of the `count` highest scores, best first; ties in the order of the index.
pub fn best_of(scores: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    order.truncate(count);
    order
}

/// Scores in which the entries of `pool` are ordered by their `relevance`, above all others, which keep their order.
pub fn reorder(scores: &[f32], pool: &[usize], relevance: &[f32]) -> Vec<f32> {
    let mut judged: Vec<(f32, usize)> = relevance.iter().copied().zip(pool.iter().copied()).collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut ranked = scores.to_vec();
    // Scores of retrieval are not negative: whatever the pool gets must lie above the best of the rest.
    let above = scores.iter().copied().fold(0.0, f32::max) + 1.0;
    let count = judged.len() as f32;
    for (place, (_, at)) in judged.into_iter().enumerate() {
        if let Some(score) = ranked.get_mut(at) {
            *score = above + (count - place as f32) / count;
        }
    }
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;
    use crate::triage::{Query, retrieve_by};

    /// A reference with small fixed weights: a weight a letter, so that order is known by hand.
    struct Weighted;

    impl Rerank for Weighted {
        fn relevance(&self, query: &str, text: &str) -> f32 {
            let weight = |c: char| ((c as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 - 0.5;
            text.chars().filter(|c| query.contains(*c)).map(weight).sum()
        }
    }

    impl Embed for Weighted {
        fn embed(&self, text: &str) -> Vec<f32> {
            (0..4).map(|d| text.bytes().map(|b| f32::from(b.rotate_left(d)) - 96.0).sum()).collect()
        }
    }

    fn index() -> Index {
        let mut index = Index::default();
        index.replace("a.md", &base("- alpha beta\n- gamma delta\n- beta gamma\n- epsilon\n- zeta eta\n"));
        index
    }

    #[test]
    fn scores_are_cosines_of_the_vectors() {
        let index = index();
        let dense = Dense::of(&index, &Weighted);
        let scores = dense.scores("gamma beta", &Weighted);
        for (entry, score) in index.entries().iter().zip(&scores) {
            let (a, b) = (Weighted.embed(&entry.text), Weighted.embed("gamma beta"));
            let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum() };
            let cosine = dot(&a, &b) / (dot(&a, &a).sqrt() * dot(&b, &b).sqrt());
            assert!((f64::from(*score) - (0.5 + 0.5 * cosine)).abs() < 1e-5, "{}: {score} {cosine}", entry.text);
        }
        assert!(Dense::of(&Index::default(), &Weighted).scores("x", &Weighted).is_empty());
    }

    #[test]
    fn the_pool_is_reordered_and_stays_above_the_rest() {
        let index = index();
        let scores = [0.9, 0.8, 0.7, 0.6, 0.5];
        let ranked = rerank(&index, "beta gamma", &scores, 3, &Weighted);
        let mut expected: Vec<usize> = vec![0, 1, 2];
        let relevance = |at: &usize| Weighted.relevance("beta gamma", &index.entries()[*at].text);
        expected.sort_by(|a, b| relevance(b).total_cmp(&relevance(a)));
        expected.extend([3, 4]);
        let found = retrieve_by(&index, &Query { k: 5, ..Query::default() }, &ranked);
        assert_eq!(found.results.iter().map(|f| f.entry).collect::<Vec<_>>(), expected);
    }
}
