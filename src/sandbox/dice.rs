//! Seeded draws that depend on nothing but their inputs, so that any part of a world can be derived on its own.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A hash of `text` under `seed`.
pub(crate) fn hash_text(seed: u64, text: &str) -> u64 {
    xxh3_64_with_seed(text.as_bytes(), seed)
}

/// One step of SplitMix64's finaliser over `seed` and `parts`: well mixed, cheap, stable over releases.
pub(crate) fn mix(seed: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(finish(seed), |state, part| finish(state ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

fn finish(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `hash` as a number in `0.0..1.0`.
pub(crate) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// A stream of draws from one seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The stream that belongs to `parts` under `seed`.
    pub(crate) fn new(seed: u64, parts: &[u64]) -> Self {
        Self(mix(seed, parts))
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finish(self.0)
    }

    /// The next number in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// The next number in `0..n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// One of `choices`, which must not be empty: every table of this room is a constant with entries.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// One of `choices` by weight.
    pub(crate) fn weighted<'a, T>(&mut self, choices: &'a [(T, u32)]) -> &'a T {
        let total: u32 = choices.iter().map(|(_, weight)| weight).sum();
        let mut left = self.below(total as usize) as u32;
        for (choice, weight) in choices {
            if left < *weight {
                return choice;
            }
            left -= weight;
        }
        &choices[0].0
    }

    /// A standard normal draw (Box–Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_seed() {
        let draw = |seed| {
            (0..8)
                .map({
                    let mut dice = Dice::new(seed, &[1, 2]);
                    move |_| dice.next()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn units_are_spread_evenly_and_normals_have_unit_variance() {
        let mut dice = Dice::new(7, &[]);
        let mean = (0..10_000).map(|_| dice.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let variance = (0..10_000).map(|_| dice.normal().powi(2)).sum::<f64>() / 10_000.0;
        assert!((variance - 1.0).abs() < 0.06, "{variance}");
    }
}
