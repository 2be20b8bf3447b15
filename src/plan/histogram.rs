//! How many files have which size, as an earlier run found them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of files by size in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<u64, u64>", into = "BTreeMap<u64, u64>")]
pub struct Histogram {
    sizes: Vec<u64>,
    /// `below[i]` counts the files smaller than `sizes[i]`; one entry more than `sizes`.
    below: Vec<u64>,
}

impl From<BTreeMap<u64, u64>> for Histogram {
    fn from(counts: BTreeMap<u64, u64>) -> Self {
        let mut histogram = Self { sizes: Vec::new(), below: vec![0] };
        let mut sum = 0u64;
        for (size, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            sum = sum.saturating_add(count);
            histogram.sizes.push(size);
            histogram.below.push(sum);
        }
        histogram
    }
}

impl From<Histogram> for BTreeMap<u64, u64> {
    fn from(histogram: Histogram) -> Self {
        histogram.iter().collect()
    }
}

impl FromIterator<(u64, u64)> for Histogram {
    /// From pairs of size and count; equal sizes add up.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pairs: I) -> Self {
        let mut counts = BTreeMap::new();
        for (size, count) in pairs {
            let slot: &mut u64 = counts.entry(size).or_default();
            *slot = slot.saturating_add(count);
        }
        counts.into()
    }
}

impl Histogram {
    /// From one size per file.
    pub fn of_sizes(sizes: impl IntoIterator<Item = u64>) -> Self {
        sizes.into_iter().map(|size| (size, 1)).collect()
    }

    /// Number of files.
    pub fn total(&self) -> u64 {
        self.below.last().copied().unwrap_or(0)
    }

    /// Files of `lo..=hi` bytes; no `hi` means no upper end.
    pub fn count(&self, lo: u64, hi: Option<u64>) -> u64 {
        let below = |index: usize| self.below.get(index).copied().unwrap_or(0);
        let from = self.sizes.partition_point(|size| *size < lo);
        let to = hi.map_or(self.sizes.len(), |hi| self.sizes.partition_point(|size| *size <= hi));
        below(to).saturating_sub(below(from))
    }

    /// Pairs of size and count, by size.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sizes.iter().zip(self.below.windows(2)).map(|(size, pair)| (*size, pair[1] - pair[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_closed_ranges() {
        let histogram = Histogram::of_sizes([11, 11, 9, 400]);
        assert_eq!(histogram.total(), 4);
        assert_eq!(histogram.count(9, Some(11)), 3);
        assert_eq!(histogram.count(10, Some(10)), 0);
        assert_eq!(histogram.count(12, None), 1);
        assert_eq!(Histogram::default().count(0, None), 0);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }
}
