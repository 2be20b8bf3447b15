//! The fixed-size signature of a document, and the exact comparison of two.

use super::VERSION;
use super::normalise::{CriticalTokens, for_each_word, is_settings, normalised_lines};
use super::summary::{self, Summary};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Fewest distinct shingles of a text that may be a near duplicate; shorter ones are compared as a whole.
pub const MIN_SHINGLES: u32 = 20;

/// Words in a shingle.
const SHINGLE: usize = 5;
/// Bands of the signature: two documents are candidates when one band is equal.
pub(super) const BANDS: usize = 20;
/// Minima in a band. With 20 bands of 6, a pair of similarity 0.8 is found with probability 0.998.
pub(super) const ROWS: usize = 6;
const MINIMA: usize = BANDS * ROWS;

/// What of a document is kept to find its duplicates: 216 bytes when stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Hash of the normalised text.
    pub(super) text: u128,
    /// Hash of the multiset of critical tokens.
    pub(super) critical: u64,
    /// Distinct shingles.
    pub(super) shingles: u32,
    /// True when only an equal text is a duplicate: a short text, or settings.
    pub(super) exact_only: bool,
    /// Tells most contradictions of critical tokens without the texts.
    pub(super) summary: Summary,
    /// One byte of each minimum of the sketch.
    pub(super) minima: [u8; MINIMA],
}

impl Signature {
    /// True when only a text that is equal after normalisation counts as a duplicate: a short text, or settings.
    pub fn is_exact_only(&self) -> bool {
        self.exact_only
    }

    /// True when both normalised texts are equal.
    pub fn same_text(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// Length of [`Self::to_bytes`].
    pub const BYTES: usize = 2 + 1 + 1 + 4 + 8 + 16 + summary::BYTES + MINIMA;

    /// The signature of `text`; a pure function of it and of [`VERSION`].
    pub fn of(text: &str) -> Self {
        let profile = Profile::of(text);
        let shingles = u32::try_from(profile.shingles.len()).unwrap_or(u32::MAX);
        let exact_only = shingles < MIN_SHINGLES || is_settings(text);
        let minima = if exact_only { [0; MINIMA] } else { minima(&profile.shingles) };
        let summary = if exact_only { Summary::default() } else { Summary::of(&profile.critical) };
        // A sum is the same whatever the order of the tokens.
        let critical = profile.critical.iter().fold(0u64, |sum, &hash| sum.wrapping_add(mix(hash)));
        Self { text: profile.text, critical, shingles, exact_only, summary, minima }
    }

    /// The stored form, little endian, starting with [`VERSION`].
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2] = u8::from(self.exact_only);
        bytes[4..8].copy_from_slice(&self.shingles.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.critical.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.text.to_le_bytes());
        bytes[32..32 + summary::BYTES].copy_from_slice(&self.summary.0);
        bytes[32 + summary::BYTES..].copy_from_slice(&self.minima);
        bytes
    }

    /// The signature held in `bytes`, or nothing when they are of another length or version: compute it again.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let current = bytes[..2] == VERSION.to_le_bytes() && bytes[2] <= 1;
        current.then_some(Self {
            exact_only: bytes[2] == 1,
            shingles: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            critical: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            text: u128::from_le_bytes(bytes[16..32].try_into().ok()?),
            summary: Summary(bytes[32..32 + summary::BYTES].try_into().ok()?),
            minima: bytes[32 + summary::BYTES..].try_into().ok()?,
        })
    }

    /// The key of band `band` (< [`BANDS`]): its bytes side by side.
    pub(super) fn band(&self, band: usize) -> u64 {
        let rows = self.minima.iter().skip(band * ROWS).take(ROWS);
        rows.fold(band as u64, |key, &byte| key << 8 | u64::from(byte))
    }

    /// How many of the minima two signatures share.
    pub(super) fn shared_minima(&self, other: &Self) -> u32 {
        self.minima.iter().zip(&other.minima).map(|(a, b)| u32::from(a == b)).sum()
    }

    /// False when the signatures alone tell that the similarity is below `threshold`: the sets differ too much in
    /// size (which is certain), or the estimate lies five standard deviations under it (which is wrong for less than
    /// one pair in a million at the threshold, and for fewer above it).
    pub(super) fn may_reach(&self, other: &Self, threshold: f64) -> bool {
        let (small, large) = (self.shingles.min(other.shingles), self.shingles.max(other.shingles));
        let expected = threshold * MINIMA as f64;
        let margin = 5.0 * (expected * (1.0 - threshold)).max(0.0).sqrt();
        f64::from(small) >= threshold * f64::from(large) && f64::from(self.shared_minima(other)) >= expected - margin
    }
}

/// The outcome of an exact comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Jaccard similarity of the shingle sets, 0 to 1 (1 for two texts without shingles).
    pub similarity: f64,
    /// Each text has critical tokens that the other lacks.
    pub contradicting: bool,
}

/// Everything of a text that an exact comparison needs; no signature is involved. Shingles are held as 64-bit hashes.
#[derive(Debug)]
pub struct Profile {
    text: u128,
    /// Sorted, distinct.
    shingles: Vec<u64>,
    /// Sorted, with repetitions.
    critical: Vec<u64>,
}

impl Profile {
    /// Prepare `text` for any number of comparisons.
    pub fn of(text: &str) -> Self {
        let mut whole = Xxh3::new();
        let mut shingles = Vec::with_capacity(text.len() / 6);
        let mut critical = Vec::new();
        let mut tokens = CriticalTokens::default();
        let mut window = [0u64; SHINGLE];
        let mut seen = 0;
        for line in normalised_lines(text) {
            whole.update(line.as_bytes());
            whole.update(b"\n");
            tokens.line(&line, |hash| critical.push(hash));
            for_each_word(&line, |word| {
                window.rotate_left(1);
                window[SHINGLE - 1] = xxh3_64(word);
                seen += 1;
                if seen >= SHINGLE {
                    // Words are hashed well already: turned apart by their place, they may simply be added.
                    let turned = window.iter().enumerate().map(|(place, word)| word.rotate_left(13 * place as u32));
                    shingles.push(mix(turned.fold(0, u64::wrapping_add)));
                }
            });
        }
        shingles.sort_unstable();
        shingles.dedup();
        shingles.shrink_to_fit();
        critical.sort_unstable();
        critical.shrink_to_fit();
        Self { text: whole.digest128(), shingles, critical }
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<u64>() * (self.shingles.capacity() + self.critical.capacity())
    }

    /// How similar the two texts are, and whether they contradict each other.
    pub fn compare(&self, other: &Self) -> Verdict {
        let (both, _, _) = overlap(&self.shingles, &other.shingles);
        let union = self.shingles.len() + other.shingles.len() - both;
        let similarity = if union == 0 { 1.0 } else { both as f64 / union as f64 };
        let (_, here, there) = overlap(&self.critical, &other.critical);
        Verdict { similarity, contradicting: here > 0 && there > 0 }
    }
}

/// Elements in both, only in `a`, only in `b`, of two sorted multisets.
fn overlap(a: &[u64], b: &[u64]) -> (usize, usize, usize) {
    let (mut i, mut j, mut both) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        both += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    (both, a.len() - both, b.len() - both)
}

/// A bijection that spreads every bit of its input (the finaliser of MurmurHash3).
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// One byte of each minimum of the sketch of `shingles` (distinct, not empty).
///
/// Every round throws each shingle into one of the bins at random, later rounds lose to earlier ones, and the rounds
/// end as soon as no bin is empty; should chance leave one empty for long, it gets a round of its own. Equal bins
/// estimate the similarity as well as independent permutations do, but a long text costs one or two hashes a shingle
/// instead of one for each bin. Source: Dahlgaard, Knudsen and Thorup, *Fast similarity sketching* (FOCS 2017).
fn minima(shingles: &[u64]) -> [u8; MINIMA] {
    let mut least = [u64::MAX; MINIMA];
    let mut empty = MINIMA;
    for round in 0..2 * MINIMA as u64 {
        let seed = mix(round + 1);
        for &shingle in shingles {
            let hash = mix(shingle ^ seed);
            let bin = match (round as usize).checked_sub(MINIMA) {
                None => (((hash >> 32) * MINIMA as u64) >> 32) as usize,
                Some(bin) => bin,
            };
            let value = (round << 32) | (hash & 0xffff_ffff);
            if let Some(slot) = least.get_mut(bin) {
                empty -= usize::from(*slot == u64::MAX);
                *slot = (*slot).min(value);
            }
        }
        if empty == 0 {
            break;
        }
    }
    // The minimum itself is small, so its high bits say little: mix before a byte is taken.
    least.map(|value| mix(value) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Verdict {
        Profile::of(a).compare(&Profile::of(b))
    }

    fn prose(words: std::ops::Range<usize>) -> String {
        words
            .map(|n| format!("{}{}", ["alpha", "beta", "gamma"][n % 3], "x".repeat(n / 3)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn signatures_read_back_and_other_versions_do_not() {
        let signature = Signature::of(&prose(0..60));
        let mut bytes = signature.to_bytes();
        assert_eq!(Signature::from_bytes(&bytes), Some(signature));
        assert_eq!(Signature::from_bytes(&bytes[1..]), None);
        bytes[0] ^= 1;
        assert_eq!(Signature::from_bytes(&bytes), None);
    }

    #[test]
    fn shared_minima_estimate_the_similarity() {
        let (a, b) = (prose(0..300), prose(30..330));
        let exact = compare(&a, &b).similarity;
        let estimate = f64::from(Signature::of(&a).shared_minima(&Signature::of(&b))) / MINIMA as f64;
        assert!((exact - 266.0 / 326.0).abs() < 1e-9, "{exact}");
        assert!((estimate - exact).abs() < 0.15, "{estimate} for {exact}");
    }

    #[test]
    fn the_estimate_has_no_bias_and_the_variance_of_independent_permutations() {
        // Small sets take many rounds, large ones a single one.
        for (size, shift) in [(24u64, 4u64), (200, 30), (3000, 400)] {
            let exact = (size - shift) as f64 / (size + shift) as f64;
            let (mut sum, mut squares) = (0.0, 0.0);
            for trial in 0..400u64 {
                let set = |from: u64| (from..from + size).map(|n| mix((trial << 32) + n + 1)).collect::<Vec<_>>();
                let (a, b) = (minima(&set(0)), minima(&set(shift)));
                let equal = a.iter().zip(&b).filter(|(x, y)| x == y).count();
                let estimate = equal as f64 / MINIMA as f64;
                sum += estimate;
                squares += (estimate - exact).powi(2);
            }
            // Bytes collide once in 256.
            let expected = exact + (1.0 - exact) / 256.0;
            let variance = exact * (1.0 - exact) / MINIMA as f64;
            assert!((sum / 400.0 - expected).abs() < 0.008, "{} for {expected} at {size}", sum / 400.0);
            assert!(squares / 400.0 < 1.3 * variance, "{} against {variance} at {size}", squares / 400.0);
        }
    }

    #[test]
    fn short_texts_and_settings_are_compared_as_a_whole() {
        assert!(Signature::of("@AGENTS.md").exact_only);
        assert!(Signature::of(&format!("{{{:?}: 1}}", prose(0..60))).exact_only);
        assert!(!Signature::of(&prose(0..60)).exact_only);
    }

    #[test]
    fn more_commands_do_not_contradict_and_other_commands_do() {
        let base = prose(0..60);
        let with = |command: &str| format!("{base}\n\nRun `{command}` first.");
        assert!(!compare(&base, &with("npm test")).contradicting);
        assert!(compare(&with("pnpm test"), &with("npm test")).contradicting);
    }
}
