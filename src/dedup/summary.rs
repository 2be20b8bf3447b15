//! A small summary of a multiset of critical tokens that proves most contradictions.

/// Buckets of the summary; a token falls into one of them by its hash.
const BUCKETS: usize = 32;
/// Length of the stored form.
pub(super) const BYTES: usize = 2 * BUCKETS;

/// For each bucket, how many tokens fell into it (255 for as many or more), and a check byte that is equal for equal
/// multisets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary(pub(super) [u8; BYTES]);

impl Default for Summary {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl Summary {
    /// The summary of tokens given by their hashes, in any order.
    pub(super) fn of(tokens: &[u64]) -> Self {
        let mut summary = Self::default();
        let (counts, checks) = summary.0.split_at_mut(BUCKETS);
        for &token in tokens {
            let bucket = (token >> 59) as usize;
            counts[bucket] = counts[bucket].saturating_add(1);
            // A sum is the same whatever the order.
            checks[bucket] = checks[bucket].wrapping_add((token >> 16) as u8);
        }
        summary
    }

    /// True only when each multiset has a token that the other lacks. In a bucket where one holds more tokens it has
    /// one that the other lacks; where both hold as many and the checks differ, both do. Rarely false though they
    /// contradict: when all differences share buckets, or the checks collide (1 in 256 a bucket).
    pub(super) fn contradicts(&self, other: &Self) -> bool {
        let (counts, checks) = self.0.split_at(BUCKETS);
        let (their_counts, their_checks) = other.0.split_at(BUCKETS);
        let (mut here, mut there) = (false, false);
        for ((&a, &b), (x, y)) in counts.iter().zip(their_counts).zip(checks.iter().zip(their_checks)) {
            // A count of 255 stands for any number from there on.
            let differ = (a == b) & (a < u8::MAX) & (x != y);
            here |= (a > b) | differ;
            there |= (b > a) | differ;
        }
        here & there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many of `a` are left when those of `b` are taken out once each.
    fn lacking(a: &[u64], b: &[u64]) -> usize {
        let mut rest = b.to_vec();
        a.iter().filter(|token| rest.iter().position(|t| t == *token).map(|at| rest.swap_remove(at)).is_none()).count()
    }

    #[test]
    fn a_changed_token_is_seen_and_an_added_one_is_no_contradiction() {
        let tokens = [3u64 << 60, 7 << 58 | 5 << 16, 1 << 62];
        let changed = [3u64 << 60, 7 << 58 | 6 << 16, 1 << 62];
        assert!(Summary::of(&tokens).contradicts(&Summary::of(&changed)));
        assert!(!Summary::of(&tokens).contradicts(&Summary::of(&tokens[1..])));
        assert!(!Summary::of(&tokens).contradicts(&Summary::of(&tokens)));
        assert!(Summary::of(&tokens[1..]).contradicts(&Summary::of(&tokens[..2])));
    }

    proptest! {
        #[test]
        fn whatever_it_proves_is_true(
            shared in prop::collection::vec(any::<u64>(), 0..600),
            a in prop::collection::vec(any::<u64>(), 0..3),
            b in prop::collection::vec(any::<u64>(), 0..3),
            // One value makes a full bucket.
            same in 0usize..600,
        ) {
            let full = |own: &[u64]| [shared.as_slice(), own, &vec![42; same + own.len()]].concat();
            let (a, b) = (full(&a), full(&b));
            if Summary::of(&a).contradicts(&Summary::of(&b)) {
                prop_assert!(lacking(&a, &b) > 0 && lacking(&b, &a) > 0);
            }
        }
    }
}
