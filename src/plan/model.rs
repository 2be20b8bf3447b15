//! The planner's belief about where the files are: a shape of sizes, masses that probes reported, and how far
//! predictions were off.

use super::{Histogram, MAX_PAGES, PER_PAGE, REACHABLE};

/// Sizes from here on are not told apart: far beyond what search indexes (384 kB; 5 MB on GHES).
pub(super) const MAX_SIZE: u64 = 1 << 32;

/// Sizes of one-line stubs that thousands of repositories share byte for byte, with their share of all files.
const STUBS: [(u64, f64); 3] = [(9, 0.0105), (10, 0.003), (11, 0.04)];
/// Components of the shape of other files: weight, median in bytes, standard deviation of the logarithm. The second
/// one is broad so that no size is ever ruled out.
const BODY: [(f64, f64, f64); 2] = [(0.9, 1_200.0, 1.2), (0.1, 2_000.0, 2.2)];
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
    /// Totals of ranges that begin at `lo`, by rising end; the last one ends the gap.
    knots: Vec<Knot>,
    /// The next window must end before this: a window that began here and ended there was too large.
    below: Option<u64>,
    /// How many windows in a row that began at `lo` were too large.
    shrinks: u32,
}

/// What was counted up to some size.
#[derive(Debug, Clone, Copy)]
struct Knot {
    end: Option<u64>,
    /// Hits from the beginning of the gap up to `end`.
    hits: f64,
    /// The total from which `hits` remain.
    counted: f64,
}

impl Knot {
    /// Whether so little remains of the total that its error may be all of it.
    fn is_noise(&self) -> bool {
        self.hits < UNKNOWN_REST * self.counted
    }
}

/// Orders upper ends, no end last.
fn end_key(end: Option<u64>) -> u64 {
    end.unwrap_or(u64::MAX)
}

impl Gap {
    /// A gap that holds about `mass` hits.
    pub(super) fn new(lo: u64, hi: Option<u64>, mass: f64) -> Self {
        Self { lo, hi, knots: vec![Knot { end: hi, hits: mass, counted: mass }], below: None, shrinks: 0 }
    }

    /// `lo..=end` was found to hold `total` hits, too many for one window.
    pub(super) fn too_large(&mut self, end: Option<u64>, total: f64) {
        let at = self.knots.partition_point(|knot| end_key(knot.end) < end_key(end));
        let fresh = Knot { end, hits: total, counted: total };
        match self.knots.get_mut(at) {
            Some(knot) if knot.end == end => *knot = fresh,
            _ => self.knots.insert(at, fresh),
        }
        // A narrower range is the fresher and the less noisy count: wider ones bend to it.
        let mut least = total;
        for knot in &mut self.knots[at..] {
            knot.hits = knot.hits.max(least);
            least = knot.hits;
        }
        for knot in &mut self.knots[..at] {
            knot.hits = knot.hits.min(total);
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
        for knot in &mut self.knots {
            knot.hits = (knot.hits - total).max(0.0);
        }
        self.knots.retain(|knot| knot.end == self.hi || (end_key(knot.end) > last && !knot.is_noise()));
        self.lo = last + 1;
        self.below = None;
        self.shrinks = 0;
        false
    }
}

/// What is expected of a window.
struct Guess {
    hits: f64,
    variance: f64,
    /// The part of `hits` for which only the density speaks, rather than a total.
    open: f64,
}

/// Large totals are a few per cent off (notes of several crawlers: up to 6 for sums, 2 is typical for one).
const TOTAL_ERROR: f64 = 0.02;
/// A rest below this share of the total it remains from is not known at all: two standard errors of that total.
const UNKNOWN_REST: f64 = 2.0 * TOTAL_ERROR;
/// What a hit costs in the long run, in requests: half of each window's last page is empty, and windows hold about 900.
const PRICE: f64 = 1.055 / PER_PAGE as f64;

impl Guess {
    /// What the window is expected to cost beyond the usual price of the hits it brings, in requests: the empty part of
    /// its last page, and a wasted request when it turns out too large. Counts are taken as normally distributed.
    fn loss(&self) -> f64 {
        let cap = REACHABLE as f64;
        let deviation = self.variance.sqrt().max(0.5);
        let above = |count: f64| erfc((count + 0.5 - self.hits) / (deviation * std::f64::consts::SQRT_2)) / 2.0;
        let over = above(cap);
        let further: f64 = (1..u64::from(MAX_PAGES)).map(|page| above((page * PER_PAGE) as f64) - over).sum();
        // The mean of what stays within the cap.
        let z = (cap - self.hits) / deviation;
        let bell = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let brought = self.hits * (1.0 - over) - deviation * bell;
        1.0 + further - PRICE * brought
    }
}

/// Predicts hits of size ranges and learns from each answer.
#[derive(Debug, Clone)]
pub(super) struct Model {
    shape: Shape,
    /// Hits per unit of the shape's mass where the sweep stands.
    density: f64,
    /// Variance of the hits of a window ÷ their expectation: 1 where files fall into sizes independently and the
    /// density is known, more where it is not, less where an earlier run saw most of the files.
    spread: f64,
}

/// [`Model::spread`] at the start: a cold shape is some ten per cent off.
const COLD_SPREAD: f64 = 6.0;
/// The same for a shape that an earlier run measured.
const WARM_SPREAD: f64 = 2.0;
/// Weight of the newest answer in [`Model::spread`]: an average over about ten windows.
const SPREAD_WEIGHT: f64 = 0.1;
/// Most that one answer says about the spread: three deviations. What is further off is a pile of copies, which says
/// nothing about the windows after it.
const MAX_SPREAD: f64 = 9.0;
/// How much of a misprediction is believed to go on into the next window: it is half noise.
const DENSITY_WEIGHT: f64 = 0.4;
/// Hits from which on an answer speaks about the density of its neighbours. Fewer lie in a corner of the shape.
const TELLING: f64 = 200.0;
/// A window that overflows by less may just hold a pile of copies.
const SLIGHT_OVERFLOW: f64 = 1.5 * REACHABLE as f64;
/// Hits from which on a counted range is wide: the density near its beginning decides how far a window reaches. In a
/// narrower one, its total does.
const WIDE: f64 = 3.0 * REACHABLE as f64;
/// Expected hits of windows that are considered: from half the cap to the cap, in steps that resolve a page.
const AIMS: std::ops::RangeInclusive<u64> = REACHABLE / 20..=REACHABLE / 10;

impl Model {
    /// A model of `total` hits, as far as known.
    pub(super) fn new(shape: Shape, total: f64) -> Self {
        let spread = match shape {
            Shape::Cold => COLD_SPREAD,
            Shape::Warm(_) => WARM_SPREAD,
        };
        Self { shape, density: total, spread }
    }

    /// What is expected of `gap.lo..=hi`.
    fn predict(&self, gap: &Gap, hi: Option<u64>) -> Guess {
        let mut from = gap.lo;
        let mut below = 0.0;
        let counted = |hits: f64| (TOTAL_ERROR * hits).powi(2);
        for knot in &gap.knots {
            let inside = (knot.hits - below).max(0.0);
            let wide = knot.end.is_none() || inside > WIDE;
            if knot.end == hi {
                let hits = below + inside;
                return Guess { hits, variance: counted(hits), open: if wide { inside } else { 0.0 } };
            }
            if end_key(knot.end) < end_key(hi) {
                below = knot.hits;
                from = knot.end.map_or(from, |end| end + 1);
                continue;
            }
            let whole = self.shape.mass(from, knot.end);
            let share = if whole > 0.0 { self.shape.mass(from, hi) / whole } else { 1.0 };
            if !wide {
                let part = inside * share;
                let variance = counted(below + part) + self.spread * part * (1.0 - share);
                return Guess { hits: below + part, variance, open: 0.0 };
            }
            // Near its beginning, files lie as densely as just before it; all of it together holds `inside`.
            let near = self.density * whole * share;
            let far = inside * (1.0 - share);
            let part = if near > 0.0 { inside * near / (near + far) } else { 0.0 };
            return Guess { hits: below + part, variance: counted(below) + self.spread * part, open: part };
        }
        Guess { hits: below, variance: counted(below), open: 0.0 }
    }

    /// The last size of the next window of `gap`: the one that is expected to lose least.
    pub(super) fn choose(&self, gap: &Gap) -> Option<u64> {
        let cap = REACHABLE as f64;
        // Nothing is cut where sizes are not told apart: a rest that is believed to lie there is a wrong total.
        if gap.lo >= MAX_SIZE {
            return gap.hi;
        }
        let all = self.predict(gap, gap.hi);
        if gap.below.is_none() && all.hits > cap && gap.knots.last().is_some_and(Knot::is_noise) {
            return gap.hi;
        }
        let last = match gap.below {
            Some(below) => below.saturating_sub(1),
            None => gap.hi.unwrap_or(MAX_SIZE),
        };
        let last = last.max(gap.lo);
        let mut best = (f64::INFINITY, Some(gap.lo));
        if gap.below.is_none() && all.hits <= cap {
            best = (all.loss(), gap.hi);
        }
        let mut hi = gap.lo;
        for aim in AIMS.map(|tens| 10.0 * tens as f64) {
            hi = self.reach(gap, aim, hi, last);
            let guess = self.predict(gap, Some(hi));
            if guess.hits <= aim {
                let loss = guess.loss() + self.rest_loss(all.hits - guess.hits);
                if loss < best.0 {
                    best = (loss, Some(hi));
                }
            }
            if hi == last {
                break;
            }
        }
        match best.1 {
            Some(hi) if gap.hi != Some(hi) => Some(self.isolate_stub(gap, hi)),
            end => end,
        }
    }

    /// The largest end in `low..=high` up to which at most `aim` hits are expected, or `low`.
    fn reach(&self, gap: &Gap, aim: f64, mut low: u64, mut high: u64) -> u64 {
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.predict(gap, Some(middle)).hits <= aim {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// What is lost on the `hits` that a window leaves, when so few are left that it matters where it ends.
    fn rest_loss(&self, hits: f64) -> f64 {
        let cap = REACHABLE as f64;
        if hits > 3.0 * cap {
            return 0.0;
        }
        let windows = (hits / (0.92 * cap)).ceil().max(1.0);
        let hits = hits.max(0.0) / windows;
        windows * Guess { hits, variance: self.spread * hits, open: hits }.loss()
    }

    /// How many copies a stub has is the least certain figure of all: it shares a window only where even a multiple of
    /// the expectation would fit.
    fn isolate_stub(&self, gap: &Gap, hi: u64) -> u64 {
        let Shape::Cold = self.shape else { return hi };
        for (stub, _) in STUBS.iter().filter(|(stub, _)| gap.lo <= *stub && *stub <= hi && gap.lo < hi) {
            let to = |end: u64| self.predict(gap, Some(end)).hits;
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
        if hi.is_none() {
            if gap.lo == 0 {
                self.density = total;
            }
            return;
        }
        let guess = self.predict(gap, hi);
        let stubs = matches!(self.shape, Shape::Cold) && STUBS.iter().any(|(s, _)| gap.lo <= *s && *s <= end_key(hi));
        if stubs || guess.hits < 5.0 {
            return;
        }
        let counted_before = guess.open <= 0.5 * guess.hits;
        if !counted_before {
            let off = total - guess.hits;
            self.spread += SPREAD_WEIGHT * ((off * off / guess.hits).min(MAX_SPREAD) - self.spread);
        }
        if total > REACHABLE as f64 && total <= SLIGHT_OVERFLOW {
            return;
        }
        // A total may have corrected the prediction already, but not yet the density.
        let expected = if counted_before { self.density * self.shape.mass(gap.lo, hi) } else { guess.hits };
        let expected = expected.max(1.0);
        let miss = (total.max(1.0) / expected).ln().clamp(-2.3, 2.3);
        let seen = total.max(expected);
        self.density *= (DENSITY_WEIGHT * miss * seen / (seen + TELLING)).exp();
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
        let model = Model::new(Shape::Cold, 50_000.0);
        let mut gap = Gap::new(12, None, 50_000.0);
        let first = model.choose(&gap).unwrap();
        gap.too_large(Some(first), 2_000.0);
        let second = model.choose(&gap).unwrap();
        assert!(second < first);
        assert!((model.predict(&gap, Some(first)).hits - 2_000.0).abs() < 1e-6);
        assert!(!gap.advance(Some(second), 900.0));
        assert_eq!(gap.lo, second + 1);
        assert!((model.predict(&gap, Some(first)).hits - 1_100.0).abs() < 1e-6);
    }

    #[test]
    fn beyond_the_largest_size_the_rest_is_one_window() {
        // A noisy total may leave thousands of hits for sizes that no file has.
        let gap = Gap::new(MAX_SIZE + 1, None, 5_000.0);
        assert_eq!(Model::new(Shape::Cold, 50_000.0).choose(&gap), None);
    }
}
