//! Multinomial logistic regression on sparse rows with soft targets, sample weights and an L2 prior.

use super::lbfgs::{LbfgsOptions, Minimum, minimise};
use crate::classify::TYPES;
use crate::classify::features::SparseRow;

/// Width of the inner loops: [`TYPES`], padded.
const LANES: usize = 8;

/// What to fit: rows, their target distributions and their weights, all of one length.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// Features.
    pub rows: &'a [&'a SparseRow],
    /// For each row a distribution over the types.
    pub targets: &'a [[f32; TYPES]],
    /// For each row how much it counts; zero leaves it out.
    pub weights: &'a [f32],
}

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogisticOptions {
    /// Strength of the prior: ½·l2·‖w‖² is added to the summed loss. The biases are free.
    pub l2: f64,
    /// Buckets in fewer rows than this are left out.
    pub min_rows: u32,
    /// A bucket's values are multiplied by its inverse document frequency to this power before the prior sees them.
    pub idf_power: f64,
    /// When to stop.
    pub search: LbfgsOptions,
}

impl Default for LogisticOptions {
    fn default() -> Self {
        Self {
            l2: 2.0,
            min_rows: 2,
            idf_power: 0.5,
            search: LbfgsOptions { memory: 6, max_iterations: 50, tolerance: 2e-3 },
        }
    }
}

/// Fitted coefficients, zero where a bucket was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficients {
    /// Bias of each type.
    pub bias: [f32; TYPES],
    /// The buckets that have weights, ascending.
    pub buckets: Vec<u32>,
    /// Weights of each bucket in `buckets`.
    pub weights: Vec<[f32; TYPES]>,
    /// How the search ended.
    pub minimum: Minimum,
}

impl Coefficients {
    /// Spread over all `2^bits` buckets.
    pub fn dense(&self, bits: u32) -> Vec<[f32; TYPES]> {
        let mut table = vec![[0.0; TYPES]; 1 << bits];
        for (bucket, weights) in self.buckets.iter().zip(&self.weights) {
            if let Some(slot) = table.get_mut(*bucket as usize) {
                *slot = *weights;
            }
        }
        table
    }
}

/// Fit `problem`; `bits` is the size of the hash space. Deterministic.
pub fn fit(problem: &Problem<'_>, bits: u32, options: &LogisticOptions) -> Coefficients {
    let used: Vec<usize> = (0..problem.rows.len()).filter(|i| problem.weights[*i] > 0.0).collect();
    let mut frequency = vec![0u32; 1 << bits];
    for i in &used {
        for bucket in &problem.rows[*i].indices {
            frequency[*bucket as usize] += 1;
        }
    }
    let buckets: Vec<u32> = (0..1u32 << bits).filter(|b| frequency[*b as usize] >= options.min_rows.max(1)).collect();
    let mut column = vec![u32::MAX; 1 << bits];
    let mut scale = Vec::with_capacity(buckets.len());
    for (at, bucket) in buckets.iter().enumerate() {
        column[*bucket as usize] = at as u32;
        let idf = ((1.0 + used.len() as f64) / (1.0 + f64::from(frequency[*bucket as usize]))).ln() + 1.0;
        scale.push(idf.powf(options.idf_power));
    }
    let mut starts = vec![0usize];
    let mut entries: Vec<(u32, f32)> = Vec::new();
    for i in &used {
        let row = problem.rows[*i];
        for (bucket, value) in row.indices.iter().zip(&row.values) {
            let at = column[*bucket as usize];
            if at != u32::MAX {
                entries.push((at, value * scale[at as usize] as f32));
            }
        }
        starts.push(entries.len());
    }

    let mut x = vec![0.0f64; TYPES * (buckets.len() + 1)];
    let biases = TYPES * buckets.len();
    // The inner loops run on rows of eight single floats, one vector register on most machines; the search and all sums
    // over examples that decide when to stop stay in double precision.
    let mut table = vec![[0.0f32; LANES]; buckets.len()];
    let mut sums = vec![[0.0f32; LANES]; buckets.len()];
    let minimum = minimise(&mut x, &options.search, |x, gradient| {
        let mut loss = 0.0;
        for (row, weights) in table.iter_mut().zip(x[..biases].as_chunks::<TYPES>().0) {
            for (slot, weight) in row.iter_mut().zip(weights) {
                *slot = *weight as f32;
                loss += 0.5 * options.l2 * weight * weight;
            }
        }
        sums.fill([0.0; LANES]);
        gradient[biases..].fill(0.0);
        for (at, i) in used.iter().enumerate() {
            let entries = &entries[starts[at]..starts[at + 1]];
            let mut dots = [0.0f32; LANES];
            for (column, value) in entries {
                let row = &table[*column as usize];
                for lane in 0..LANES {
                    dots[lane] += value * row[lane];
                }
            }
            let logits: [f64; TYPES] = std::array::from_fn(|t| x[biases + t] + f64::from(dots[t]));
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exps = logits.map(|z| (z - max).exp());
            let sum: f64 = exps.iter().sum();
            let log_sum = max + sum.ln();
            let weight = f64::from(problem.weights[*i]);
            let target = &problem.targets[*i];
            let mut error = [0.0f32; LANES];
            for t in 0..TYPES {
                let y = f64::from(target[t]);
                loss += weight * y * (log_sum - logits[t]);
                let off = weight * (exps[t] / sum - y);
                gradient[biases + t] += off;
                error[t] = off as f32;
            }
            for (column, value) in entries {
                let slots = &mut sums[*column as usize];
                for lane in 0..LANES {
                    slots[lane] += value * error[lane];
                }
            }
        }
        for ((g, w), sum) in gradient.as_chunks_mut::<TYPES>().0.iter_mut().zip(x.as_chunks::<TYPES>().0).zip(&sums) {
            for t in 0..TYPES {
                g[t] = options.l2 * w[t] + f64::from(sum[t]);
            }
        }
        loss
    });

    let weights = scale
        .iter()
        .enumerate()
        .map(|(at, scale)| std::array::from_fn(|t| (x[at * TYPES + t] * scale) as f32))
        .collect();
    Coefficients { bias: std::array::from_fn(|t| x[biases + t] as f32), buckets, weights, minimum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(indices: &[u32]) -> SparseRow {
        SparseRow { indices: indices.to_vec(), values: vec![1.0; indices.len()] }
    }

    fn toy(l2: f64) -> Coefficients {
        let rows = [row(&[1, 3]), row(&[1]), row(&[2, 3]), row(&[2]), row(&[200])];
        let refs: Vec<&SparseRow> = rows.iter().collect();
        let one = |t: usize| std::array::from_fn(|i| f32::from(u8::from(i == t)));
        let targets = [one(0), one(0), one(1), one(1), one(2)];
        let problem = Problem { rows: &refs, targets: &targets, weights: &[1.0, 1.0, 1.0, 1.0, 0.0] };
        let search = LbfgsOptions { tolerance: 1e-4, ..Default::default() };
        fit(&problem, 8, &LogisticOptions { l2, min_rows: 1, idf_power: 0.0, search })
    }

    #[test]
    fn the_gradient_vanishes_at_the_fit() {
        let fitted = toy(0.5);
        assert!(fitted.minimum.converged);
        assert_eq!(fitted.buckets, [1, 2, 3], "an example of no weight adds no bucket");
        // At the optimum l2·w equals the sum of the errors of the examples that have the bucket; by symmetry bucket 3,
        // which both types share equally, says nothing between them.
        let [a, b, shared] = [fitted.weights[0], fitted.weights[1], fitted.weights[2]];
        assert!((a[0] - b[1]).abs() < 1e-3 && a[0] > 0.5 && a[1] < -0.5);
        assert!((shared[0] - shared[1]).abs() < 1e-3);
    }

    #[test]
    fn a_stronger_prior_gives_smaller_weights_and_repeats_exactly() {
        assert!(toy(5.0).weights[0][0] < toy(0.1).weights[0][0]);
        assert_eq!(toy(0.3), toy(0.3));
    }
}
