//! The planner's belief about where the files are: a shape of sizes, masses that probes reported, and how far
//! predictions were off.

use super::{Histogram, REACHABLE};

/// Sizes from here on are not told apart: far beyond what search indexes (384 kB; 5 MB on GHES).
pub(super) const MAX_SIZE: u64 = 1 << 32;

/// Sizes of one-line stubs that thousands of repositories share byte for byte, with their share of all files.
const STUBS: [(u64, f64); 3] = [(9, 0.0105), (10, 0.003), (11, 0.04)];
/// Components of the shape of other files: weight, median in bytes, standard deviation of the logarithm. The second
/// one is broad so that no size is ever ruled out.
const BODY: [(f64, f64, f64); 2] = [(0.75, 1_200.0, 1.2), (0.25, 2_000.0, 2.2)];
/// Share of the general shape in one that is warmed by an earlier run: files of new sizes do appear.
const SMOOTHING: f64 = 0.02;

/// A probability distribution over file sizes.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// What agent files in general look like.
    Cold,
    /// What this target looked like before.
    Warm(Histogram),
}

/// Complementary error function, relative error below 1.2e-7 (the rational Chebyshev fit of Numerical Recipes §6.2).
fn erfc(x: f64) -> f64 {
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    const FIT: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let fit = FIT.iter().fold(0.0, |sum, c| sum * t + c);
    let tail = t * (-z * z + fit).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}

/// Mass of a lognormal between the edges of `lo..=hi`, accurate in both tails.
fn lognormal(median: f64, sigma: f64, lo: u64, hi: Option<u64>) -> f64 {
    let z = |edge: f64| (edge / median).ln() / (sigma * std::f64::consts::SQRT_2);
    let low = if lo == 0 { f64::NEG_INFINITY } else { z(lo as f64 - 0.5) };
    let high = hi.map_or(f64::INFINITY, |hi| z(hi as f64 + 0.5));
    let mass = if low > 0.0 { erfc(low) - erfc(high) } else { erfc(-high) - erfc(-low) };
    (mass / 2.0).max(0.0)
}

impl Shape {
    /// Share of the files in `lo..=hi`.
    fn mass(&self, lo: u64, hi: Option<u64>) -> f64 {
        if hi.is_some_and(|hi| hi < lo) {
            return 0.0;
        }
        let general = || {
            let body: f64 = BODY.iter().map(|(w, median, sigma)| w * lognormal(*median, *sigma, lo, hi)).sum();
            body * (1.0 - STUBS.iter().map(|(_, share)| share).sum::<f64>()) + Self::stubs(lo, hi)
        };
        match self {
            Self::Cold => general(),
            Self::Warm(histogram) => {
                let own = histogram.count(lo, hi) as f64 / histogram.total().max(1) as f64;
                own * (1.0 - SMOOTHING) + general() * SMOOTHING
            }
        }
    }

    fn stubs(lo: u64, hi: Option<u64>) -> f64 {
        STUBS.iter().filter(|(size, _)| lo <= *size && hi.is_none_or(|hi| *size <= hi)).map(|(_, share)| share).sum()
    }
}

/// A range of sizes still to be swept, with what is known about the mass in it.
#[derive(Debug, Clone)]
pub(super) struct Gap {
    /// Next size to ask for.
    pub(super) lo: u64,
    /// Last size; nothing for no upper end.
    pub(super) hi: Option<u64>,
    /// `(end, hits in lo..=end)` by rising end; the last one ends the gap.
    knots: Vec<(Option<u64>, f64)>,
    /// The next window must end before this: a window that began here and ended there was too large.
    below: Option<u64>,
    /// How many windows in a row that began at `lo` were too large.
    shrinks: u32,
}

/// Orders upper ends, no end last.
fn end_key(end: Option<u64>) -> u64 {
    end.unwrap_or(u64::MAX)
}

impl Gap {
    /// A gap that holds about `mass` hits.
    pub(super) fn new(lo: u64, hi: Option<u64>, mass: f64) -> Self {
        Self { lo, hi, knots: vec![(hi, mass)], below: None, shrinks: 0 }
    }

    /// `lo..=end` was found to hold `total` hits, too many for one window.
    pub(super) fn too_large(&mut self, end: Option<u64>, total: f64) {
        let at = self.knots.partition_point(|(knot, _)| end_key(*knot) < end_key(end));
        if self.knots.get(at).is_some_and(|(knot, _)| *knot == end) {
            self.knots[at].1 = total;
        } else {
            self.knots.insert(at, (end, total));
        }
        // A narrower range is the fresher and the less noisy count: wider ones bend to it.
        let mut least = total;
        for (_, mass) in &mut self.knots[at..] {
            *mass = mass.max(least);
            least = *mass;
        }
        for (_, mass) in &mut self.knots[..at] {
            *mass = mass.min(total);
        }
        // Interpolation within a known mass is good; where it failed once, a spike is in the way: halving finds it.
        self.narrow(end, if self.shrinks == 0 { 0.9 } else { 0.5 });
    }

    /// The next window must be narrower than `lo..=end`: at most `keep` times as wide.
    pub(super) fn narrow(&mut self, end: Option<u64>, keep: f64) {
        self.shrinks += 1;
        let width = end.unwrap_or(MAX_SIZE).saturating_sub(self.lo);
        self.below = Some(self.lo + ((width as f64 * keep) as u64).min(width.saturating_sub(1)) + 1);
    }

    /// `lo..=end` is one window with `total` hits. True when nothing of the gap is left.
    pub(super) fn advance(&mut self, end: Option<u64>, total: f64) -> bool {
        let Some(last) = end else { return true };
        if self.hi.is_some_and(|hi| hi <= last) {
            return true;
        }
        self.knots.retain(|(knot, _)| end_key(*knot) > last);
        for (_, mass) in &mut self.knots {
            *mass = (*mass - total).max(0.0);
        }
        self.lo = last + 1;
        self.below = None;
        self.shrinks = 0;
        false
    }
}

/// Predicts hits of size ranges and learns from each answer.
#[derive(Debug, Clone)]
pub(super) struct Model {
    shape: Shape,
    /// Observed ÷ predicted where only the shape and the mass of the whole rest speak.
    scale: f64,
    /// Mean square of ln(observed ÷ predicted).
    error: f64,
}

/// Weight of the newest answer in [`Model::error`].
const ERROR_WEIGHT: f64 = 0.25;
/// How much of a misprediction is believed to go on into the next window.
const SCALE_WEIGHT: f64 = 0.5;
/// How many standard errors a window stays below the cap.
const CAUTION: f64 = 2.0;

impl Model {
    pub(super) fn new(shape: Shape) -> Self {
        let error: f64 = match shape {
            Shape::Cold => 0.12,
            Shape::Warm(_) => 0.04,
        };
        Self { shape, scale: 1.0, error: error * error }
    }

    /// Expected hits of `gap.lo..=hi`, and which part of them only the open end of the gap speaks for.
    fn predict(&self, gap: &Gap, hi: Option<u64>) -> (f64, f64) {
        let mut from = gap.lo;
        let mut below = 0.0;
        for (knot, mass) in &gap.knots {
            let inside = (mass - below).max(0.0);
            let scale = if knot.is_none() { self.scale } else { 1.0 };
            if end_key(*knot) <= end_key(hi) {
                if end_key(*knot) == end_key(hi) {
                    return (below + inside * scale, if knot.is_none() { inside * scale } else { 0.0 });
                }
                below = *mass;
                from = knot.map_or(from, |knot| knot + 1);
                continue;
            }
            let whole = self.shape.mass(from, *knot);
            let share = if whole > 0.0 { self.shape.mass(from, hi) / whole } else { 1.0 };
            let part = inside * share * scale;
            return (below + part, if knot.is_none() { part } else { 0.0 });
        }
        (below, 0.0)
    }

    /// The last size of the next window of `gap`.
    pub(super) fn choose(&self, gap: &Gap) -> Option<u64> {
        let cap = REACHABLE as f64;
        let mut aim = (cap * (-CAUTION * self.error.sqrt()).exp()).clamp(0.6 * cap, 0.97 * cap);
        let rest = self.predict(gap, gap.hi).0;
        // Nothing is cut where sizes are not told apart: a rest that is believed to lie there is a wrong total.
        if gap.lo >= MAX_SIZE || (rest <= aim && gap.below.is_none()) {
            return gap.hi;
        }
        // A short rest is cut evenly: the same number of windows, none of them near the cap.
        if rest < 3.0 * aim {
            aim = aim.min(rest / (rest / aim).ceil());
        }
        let fits = |hi: u64| self.predict(gap, Some(hi)).0 <= aim;
        let mut low = gap.lo;
        let mut high = gap.hi.unwrap_or(MAX_SIZE).max(low);
        if let Some(below) = gap.below {
            high = high.min(below.saturating_sub(1)).max(low);
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(self.isolate_stub(gap, low))
    }

    /// How many copies a stub has is the least certain figure of all: it shares a window only where even a multiple of
    /// the expectation would fit.
    fn isolate_stub(&self, gap: &Gap, hi: u64) -> u64 {
        let Shape::Cold = self.shape else { return hi };
        for (stub, _) in STUBS.iter().filter(|(stub, _)| gap.lo <= *stub && *stub <= hi && gap.lo < hi) {
            let to = |end: u64| self.predict(gap, Some(end)).0;
            let before = if *stub == gap.lo { 0.0 } else { to(stub - 1) };
            let copies = to(*stub) - before;
            if to(hi) + 1.5 * copies > REACHABLE as f64 {
                return if *stub == gap.lo { *stub } else { stub - 1 };
            }
        }
        hi
    }

    /// `gap.lo..=hi` turned out to hold `total` hits. Call before the gap is told.
    pub(super) fn learn(&mut self, gap: &Gap, hi: Option<u64>, total: f64) {
        let (expected, open) = self.predict(gap, hi);
        let stubs = matches!(self.shape, Shape::Cold) && STUBS.iter().any(|(s, _)| gap.lo <= *s && *s <= end_key(hi));
        if expected < 20.0 || stubs || hi.is_none() {
            return;
        }
        let miss = (total.max(1.0) / expected).ln().clamp(-2.3, 2.3);
        self.error += ERROR_WEIGHT * (miss * miss - self.error);
        if open > 0.5 * expected {
            self.scale = (self.scale * (SCALE_WEIGHT * miss).exp()).clamp(1e-6, 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_adds_up_to_one() {
        let whole = Shape::Cold.mass(0, None);
        assert!((whole - 1.0).abs() < 1e-6, "{whole}");
        let parts: f64 = [(0, Some(8)), (9, Some(11)), (12, Some(900)), (901, None)]
            .iter()
            .map(|(lo, hi)| Shape::Cold.mass(*lo, *hi))
            .sum();
        assert!((parts - whole).abs() < 1e-6, "{parts}");
        assert!(Shape::Cold.mass(100_000_000, None) > 0.0);
    }

    #[test]
    fn a_window_that_was_too_large_bounds_the_next_one() {
        let model = Model::new(Shape::Cold);
        let mut gap = Gap::new(12, None, 50_000.0);
        let first = model.choose(&gap).unwrap();
        gap.too_large(Some(first), 2_000.0);
        let second = model.choose(&gap).unwrap();
        assert!(second < first);
        assert!((model.predict(&gap, Some(first)).0 - 2_000.0).abs() < 1e-6);
        assert!(!gap.advance(Some(second), 900.0));
        assert_eq!(gap.lo, second + 1);
        assert!((model.predict(&gap, Some(first)).0 - 1_100.0).abs() < 1e-6);
    }

    #[test]
    fn beyond_the_largest_size_the_rest_is_one_window() {
        // A noisy total may leave thousands of hits for sizes that no file has.
        let gap = Gap::new(MAX_SIZE + 1, None, 5_000.0);
        assert_eq!(Model::new(Shape::Cold).choose(&gap), None);
    }
}
