//! From logits to probabilities that mean what they say, and from those to thresholds. Both are fitted on held-out
//! answers to a random sample, never on what the model was fitted on.

use super::lbfgs::{LbfgsOptions, minimise};
use crate::classify::metrics::{Scored, cost_curve};
use crate::classify::{TYPES, Thresholds};
use crate::taxonomy::KnowledgeType;

/// One temperature and one shift a type (vector scaling with a shared scale; Guo et al., 2017).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Multiplies the logits: below one for an overconfident model.
    pub scale: f64,
    /// Added after.
    pub shift: [f64; TYPES],
}

impl Calibration {
    /// Leaves probabilities as they are.
    pub const IDENTITY: Self = Self { scale: 1.0, shift: [0.0; TYPES] };

    /// The maximum a posteriori fit to held-out logits, with a weak prior towards [`Self::IDENTITY`].
    pub fn fit(held: &[([f64; TYPES], KnowledgeType)]) -> Self {
        let mut x = vec![0.0; TYPES + 1];
        x[0] = 1.0;
        minimise(&mut x, &LbfgsOptions { tolerance: 1e-6, ..Default::default() }, |x, gradient| {
            let here = Self { scale: x[0], shift: std::array::from_fn(|t| x[t + 1]) };
            let mut loss = 0.5 * (x[0] - 1.0).powi(2) + 0.5 * x[1..].iter().map(|s| s * s).sum::<f64>();
            gradient[0] = x[0] - 1.0;
            gradient[1..].copy_from_slice(&x[1..]);
            for (logits, truth) in held {
                let p = here.probabilities(logits);
                loss -= p[truth.index()].max(1e-300).ln();
                for t in 0..TYPES {
                    let error = p[t] - f64::from(u8::from(t == truth.index()));
                    gradient[0] += error * logits[t];
                    gradient[t + 1] += error;
                }
            }
            loss
        });
        Self { scale: x[0], shift: std::array::from_fn(|t| x[t + 1]) }
    }

    /// Calibrated probabilities.
    pub fn probabilities(&self, logits: &[f64; TYPES]) -> [f64; TYPES] {
        let z: [f64; TYPES] = std::array::from_fn(|t| self.scale * logits[t] + self.shift[t]);
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exps = z.map(|z| (z - max).exp());
        let sum: f64 = exps.iter().sum();
        exps.map(|e| e / sum)
    }
}

/// Thresholds from held-out constraint probabilities of a random sample: `balanced` where F1 is best, `safe` the
/// highest that finds `safe_recall` of the constraints.
///
/// F1 as a function of the threshold is jagged on a few hundred constraints, so it is averaged over a window first.
pub fn thresholds(held: &[(f64, bool)], safe_recall: f64) -> Thresholds {
    let scored: Vec<Scored> =
        held.iter().map(|(score, positive)| Scored { score: *score, positive: *positive, cost: 1.0 }).collect();
    let curve = cost_curve(&scored);
    let f1_at = |threshold: f64| curve.iter().rfind(|p| p.threshold >= threshold).map_or(0.0, |p| p.f1);
    let smooth = |center: f64| (-5..=5).map(|step| f1_at(center + 0.01 * f64::from(step))).sum::<f64>();
    let grid = (10..=90).map(|percent| f64::from(percent) / 100.0);
    let balanced = grid.fold((0.5, f64::MIN), |best, t| if smooth(t) > best.1 { (t, smooth(t)) } else { best }).0;
    let safe = curve.iter().find(|p| p.recall >= safe_recall).map_or(0.0, |p| p.threshold);
    Thresholds { balanced: balanced as f32, safe: (safe as f32).next_down().max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::metrics::SplitMix;

    #[test]
    fn calibration_undoes_a_known_distortion() {
        let mut random = SplitMix(3);
        let mut uniform = move || random.next_u64() as f64 / u64::MAX as f64;
        let truth = Calibration { scale: 0.5, shift: [0.7, 0.0, -0.3, 0.0, 0.0, 0.0] };
        let held: Vec<_> = (0..20_000)
            .map(|_| {
                let logits: [f64; TYPES] = std::array::from_fn(|_| 6.0 * uniform() - 3.0);
                let mut draw = uniform();
                let p = truth.probabilities(&logits);
                let at = (0..TYPES)
                    .find(|t| {
                        draw -= p[*t];
                        draw < 0.0
                    })
                    .unwrap_or(TYPES - 1);
                (logits, KnowledgeType::ALL[at])
            })
            .collect();
        let fitted = Calibration::fit(&held);
        assert!((fitted.scale - 0.5).abs() < 0.02, "{fitted:?}");
        let spread = fitted.shift[0] - fitted.shift[2];
        assert!((spread - 1.0).abs() < 0.08, "{fitted:?}");
    }

    #[test]
    fn the_safe_threshold_finds_what_it_was_asked_for() {
        let held: Vec<(f64, bool)> = (0..100).map(|i| (f64::from(i) / 100.0, i % 5 == 0)).collect();
        let t = thresholds(&held, 0.9);
        let found = held.iter().filter(|(p, positive)| *positive && *p as f32 >= t.safe).count();
        assert_eq!(found, 18);
        assert!(thresholds(&[], 0.9).safe == 0.0);
    }
}
