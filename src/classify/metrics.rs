//! Figures of merit. Where scikit-learn has the same figure, ours is equal to it (see the tests), with absent classes
//! scored zero.

use super::TYPES;
use crate::taxonomy::KnowledgeType;
use serde::Serialize;

/// Precision, recall and F1 of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassScore {
    /// Right ÷ predicted; 0 when nothing was predicted.
    pub precision: f64,
    /// Right ÷ present; 0 when the class is absent.
    pub recall: f64,
    /// Harmonic mean of the two.
    pub f1: f64,
    /// How many items are of the class.
    pub support: usize,
}

/// How often each true type (row) was called each type (column).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confusion(pub [[usize; TYPES]; TYPES]);

impl Confusion {
    /// Count pairs of true and predicted type.
    pub fn of(pairs: impl IntoIterator<Item = (KnowledgeType, KnowledgeType)>) -> Self {
        let mut counts = [[0; TYPES]; TYPES];
        for (truth, predicted) in pairs {
            counts[truth.index()][predicted.index()] += 1;
        }
        Self(counts)
    }

    /// All items.
    pub fn total(&self) -> usize {
        self.0.iter().flatten().sum()
    }

    /// Share of items called right; 0 without items.
    pub fn accuracy(&self) -> f64 {
        let right: usize = (0..TYPES).map(|t| self.0[t][t]).sum();
        ratio(right, self.total())
    }

    /// The scores of one class.
    pub fn score(&self, class: KnowledgeType) -> ClassScore {
        let t = class.index();
        let right = self.0[t][t];
        let support: usize = self.0[t].iter().sum();
        let predicted: usize = self.0.iter().map(|row| row[t]).sum();
        ClassScore {
            precision: ratio(right, predicted),
            recall: ratio(right, support),
            f1: ratio(2 * right, support + predicted),
            support,
        }
    }

    /// Mean F1 over `classes`.
    pub fn macro_f1(&self, classes: &[KnowledgeType]) -> f64 {
        classes.iter().map(|c| self.score(*c).f1).sum::<f64>() / classes.len().max(1) as f64
    }
}

/// The types whose mean F1 is quoted; episodic has too few gold items and is reported apart.
pub const MACRO_TYPES: [KnowledgeType; 5] = [
    KnowledgeType::Constraint,
    KnowledgeType::Procedural,
    KnowledgeType::Belief,
    KnowledgeType::Preference,
    KnowledgeType::Meta,
];

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A score and whether the item is positive; `cost` is what flagging it costs (1, or its tokens).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Higher is more likely positive.
    pub score: f64,
    /// The truth.
    pub positive: bool,
    /// What flagging it costs.
    pub cost: f64,
}

/// One threshold of a cost curve: everything with a score at or above it is flagged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostPoint {
    /// The threshold.
    pub threshold: f64,
    /// Share of positives flagged.
    pub recall: f64,
    /// Share of flagged that are positive.
    pub precision: f64,
    /// Share of items flagged.
    pub flagged: f64,
    /// Share of the cost flagged.
    pub cost: f64,
    /// Harmonic mean of precision and recall.
    pub f1: f64,
}

/// One point for each distinct score, from the highest threshold to the lowest.
pub fn cost_curve(items: &[Scored]) -> Vec<CostPoint> {
    let mut sorted: Vec<&Scored> = items.iter().collect();
    sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
    let positives = items.iter().filter(|i| i.positive).count();
    let cost: f64 = items.iter().map(|i| i.cost).sum();
    let (mut right, mut spent) = (0, 0.0);
    let mut curve = Vec::new();
    for (n, item) in sorted.iter().enumerate() {
        right += usize::from(item.positive);
        spent += item.cost;
        if sorted.get(n + 1).is_some_and(|next| next.score == item.score) {
            continue;
        }
        let flagged = n + 1;
        curve.push(CostPoint {
            threshold: item.score,
            recall: ratio(right, positives),
            precision: ratio(right, flagged),
            flagged: ratio(flagged, items.len()),
            cost: if cost > 0.0 { spent / cost } else { 0.0 },
            f1: ratio(2 * right, positives + flagged),
        });
    }
    curve
}

/// Area under the precision-recall curve as a step function (`average_precision_score`).
pub fn average_precision(items: &[Scored]) -> f64 {
    let mut last = 0.0;
    cost_curve(items)
        .iter()
        .map(|point| {
            let gain = point.recall - last;
            last = point.recall;
            gain * point.precision
        })
        .sum()
}

/// Mean negative log-likelihood of the true types (`log_loss`), probabilities clipped to 1e-15.
pub fn log_loss(items: &[([f64; TYPES], KnowledgeType)]) -> f64 {
    items.iter().map(|(p, t)| -p[t.index()].clamp(1e-15, 1.0).ln()).sum::<f64>() / items.len().max(1) as f64
}

/// One bin of a reliability curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReliabilityBin {
    /// Mean confidence in the bin.
    pub confidence: f64,
    /// Share of the bin that is right.
    pub accuracy: f64,
    /// Items in the bin.
    pub items: usize,
}

/// Reliability in `bins` equally wide bins of confidence, `(confidence, right)` per item; empty bins are left out.
pub fn reliability(items: &[(f64, bool)], bins: usize) -> Vec<ReliabilityBin> {
    let mut sums = vec![(0.0, 0usize, 0usize); bins.max(1)];
    for (confidence, right) in items {
        let bin = ((confidence * sums.len() as f64) as usize).min(sums.len() - 1);
        let (sum, hits, count) = &mut sums[bin];
        *sum += confidence;
        *hits += usize::from(*right);
        *count += 1;
    }
    sums.into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(sum, hits, count)| ReliabilityBin {
            confidence: sum / count as f64,
            accuracy: ratio(hits, count),
            items: count,
        })
        .collect()
}

/// Expected calibration error: mean distance of confidence from accuracy over the bins, weighted by their items.
pub fn expected_calibration_error(items: &[(f64, bool)], bins: usize) -> f64 {
    let curve = reliability(items, bins);
    curve.iter().map(|b| b.items as f64 * (b.confidence - b.accuracy).abs()).sum::<f64>() / items.len().max(1) as f64
}

/// The exact two-sided McNemar test: `b` items only the first got right, `c` only the second.
pub fn mcnemar_exact(b: u64, c: u64) -> f64 {
    let n = b + c;
    if n == 0 {
        return 1.0;
    }
    // Two tails of Binomial(n, ½), summed in log space so that thousands of disagreements neither under- nor overflow.
    let mut log_choose = 0.0f64;
    let log_half = n as f64 * 0.5f64.ln();
    let mut tail = 0.0f64;
    for k in 0..=b.min(c) {
        if k > 0 {
            log_choose += ((n - k + 1) as f64).ln() - (k as f64).ln();
        }
        tail += (log_choose + log_half).exp();
    }
    (2.0 * tail).min(1.0)
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The value on all items.
    pub value: f64,
    /// 2.5 % of the resamples lie below.
    pub low: f64,
    /// 2.5 % of the resamples lie above.
    pub high: f64,
}

/// Percentile bootstrap over groups (whole repositories are drawn, since their items are alike): `statistic` gets the
/// indices of the items drawn. `groups[i]` numbers the group of item `i`.
pub fn bootstrap(groups: &[usize], resamples: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64) -> Interval {
    let count = groups.iter().max().map_or(0, |g| g + 1);
    let mut members = vec![Vec::new(); count];
    for (item, group) in groups.iter().enumerate() {
        members[*group].push(item);
    }
    members.retain(|m| !m.is_empty());
    let all: Vec<usize> = (0..groups.len()).collect();
    let value = statistic(&all);
    let mut random = SplitMix(seed);
    let mut values: Vec<f64> = (0..resamples)
        .map(|_| {
            let drawn: Vec<usize> =
                (0..members.len()).flat_map(|_| members[random.below(members.len())].iter().copied()).collect();
            statistic(&drawn)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let at =
        |q: f64| values.get((q * (values.len().saturating_sub(1)) as f64).round() as usize).copied().unwrap_or(value);
    Interval { value, low: at(0.025), high: at(0.975) }
}

/// SplitMix64 (Steele, Lea & Flood, 2014): a seeded generator whose stream never changes under us.
#[derive(Debug, Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 when `n` is 0), by Lemire's multiplication; its bias is below 2⁻³² for any count here.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Put `values` into a random order (Fisher & Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// What scikit-learn and SciPy say; written by `tests/data/metrics.py`.
    #[derive(Deserialize)]
    struct Expected {
        truth: Vec<usize>,
        probs: Vec<[f64; TYPES]>,
        accuracy: f64,
        precision: [f64; TYPES],
        recall: [f64; TYPES],
        f1: [f64; TYPES],
        support: [usize; TYPES],
        macro_f1: f64,
        average_precision: f64,
        average_precision_tied: f64,
        tied: Vec<f64>,
        log_loss: f64,
        ece: f64,
        mcnemar: Vec<(u64, u64, f64)>,
    }

    #[track_caller]
    fn close(ours: f64, theirs: f64) {
        assert!((ours - theirs).abs() < 1e-9, "{ours} against {theirs}");
    }

    #[test]
    fn figures_equal_those_of_scikit_learn() {
        let expected: Expected = serde_json::from_str(include_str!("../../tests/data/metrics.json")).unwrap();
        let types = KnowledgeType::ALL;
        let truth: Vec<KnowledgeType> = expected.truth.iter().map(|t| types[*t]).collect();
        let predicted: Vec<KnowledgeType> = expected
            .probs
            .iter()
            .map(|p| types[(0..TYPES).fold(0, |best, t| if p[t] > p[best] { t } else { best })])
            .collect();
        let confusion = Confusion::of(truth.iter().copied().zip(predicted.iter().copied()));
        close(confusion.accuracy(), expected.accuracy);
        for t in types {
            let score = confusion.score(*t);
            close(score.precision, expected.precision[t.index()]);
            close(score.recall, expected.recall[t.index()]);
            close(score.f1, expected.f1[t.index()]);
            assert_eq!(score.support, expected.support[t.index()]);
        }
        close(confusion.macro_f1(&MACRO_TYPES), expected.macro_f1);

        let scored = |scores: &[f64]| -> Vec<Scored> {
            let pairs = scores.iter().zip(&truth);
            pairs.map(|(s, t)| Scored { score: *s, positive: *t == KnowledgeType::Constraint, cost: 1.0 }).collect()
        };
        let plain: Vec<f64> = expected.probs.iter().map(|p| p[0]).collect();
        close(average_precision(&scored(&plain)), expected.average_precision);
        close(average_precision(&scored(&expected.tied)), expected.average_precision_tied);

        let pairs: Vec<_> = expected.probs.iter().copied().zip(truth.iter().copied()).collect();
        close(log_loss(&pairs), expected.log_loss);
        let confidences: Vec<(f64, bool)> = pairs
            .iter()
            .zip(&predicted)
            .map(|((p, t), guess)| (p.iter().copied().fold(0.0, f64::max), t == guess))
            .collect();
        close(expected_calibration_error(&confidences, 10), expected.ece);
        for (b, c, p) in expected.mcnemar {
            close(mcnemar_exact(b, c), p);
        }
    }

    #[test]
    fn a_cost_curve_flags_equal_scores_together() {
        let item = |score, positive, cost| Scored { score, positive, cost };
        let curve =
            cost_curve(&[item(0.9, true, 10.0), item(0.5, false, 1.0), item(0.5, true, 1.0), item(0.1, false, 8.0)]);
        assert_eq!(curve.len(), 3);
        assert_eq!((curve[1].recall, curve[1].flagged, curve[1].cost), (1.0, 0.75, 0.6));
    }

    #[test]
    fn the_bootstrap_draws_groups_and_repeats_itself() {
        let groups = [0, 0, 1, 1, 2, 2, 3];
        let mean = |drawn: &[usize]| drawn.iter().map(|i| *i as f64).sum::<f64>() / drawn.len() as f64;
        let a = bootstrap(&groups, 500, 7, mean);
        assert_eq!(a, bootstrap(&groups, 500, 7, mean));
        assert!(a.low < a.value && a.value < a.high && a.value == 3.0);
        bootstrap(&groups, 50, 7, |drawn| {
            for pair in [(0, 1), (2, 3), (4, 5)] {
                let count = |i| drawn.iter().filter(|d| **d == i).count();
                assert_eq!(count(pair.0), count(pair.1), "a group is drawn whole");
            }
            0.0
        });
    }
}
