//! Document frequencies of lines: in how many owners' texts a normalised line occurs.

use super::{VERSION, line_hash, normalised_lines};
use crate::corpus::Sha256;

/// Parts of the table, by the highest bits of the hash: merging one at a time keeps the memory peak low.
const PARTS: usize = 64;
/// Hashes that wait in a part before they are merged.
const PENDING: usize = 1 << 15;

/// Why stored frequencies cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrequencyError {
    /// Made by other rules: compute them again.
    #[error("Failed to read line frequencies: version {found}, expected {VERSION}")]
    Version {
        /// The version that was found.
        found: u16,
    },
    /// Cut off, or not line frequencies.
    #[error("Failed to read line frequencies: {bytes} bytes do not hold the announced table")]
    Damaged {
        /// Bytes given.
        bytes: usize,
    },
}

/// In how many distinct owners' texts each line occurs. Lines of a single owner are not kept, so the table stays small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFrequencies {
    owners: u32,
    /// (line hash, owners ≥ 2), by hash.
    shared: Vec<(u64, u32)>,
    /// For each value of the highest bits of a hash, where in `shared` it begins, and the end: a binary search over the
    /// whole table would wait for memory at every step.
    begins: Vec<u32>,
}

impl Default for LineFrequencies {
    fn default() -> Self {
        Self::new(0, Vec::new())
    }
}

/// Which of `buckets` a hash falls into, in the order of hashes.
fn bucket_of(hash: u64, buckets: u64) -> u64 {
    ((u128::from(hash) * u128::from(buckets)) >> 64) as u64
}

impl LineFrequencies {
    fn new(owners: u32, shared: Vec<(u64, u32)>) -> Self {
        let buckets = 1u64 << shared.len().max(1).ilog2();
        let mut begins = Vec::with_capacity(buckets as usize + 1);
        let mut at = 0;
        for bucket in 0..=buckets {
            at += shared[at..].iter().take_while(|(hash, _)| bucket_of(*hash, buckets) < bucket).count();
            // 4 billion lines would not fit in memory long before their places do not fit here.
            begins.push(at as u32);
        }
        Self { owners, shared, begins }
    }

    /// Owners that were counted.
    pub fn owners(&self) -> u32 {
        self.owners
    }

    /// Owners in whose texts `line` (normalised) occurs, when there are two or more; otherwise 1, which also answers
    /// for lines never seen.
    pub fn of_line(&self, line: &str) -> u32 {
        let hash = line_hash(line);
        let bucket = bucket_of(hash, (self.begins.len() - 1) as u64) as usize;
        let alike = &self.shared[self.begins[bucket] as usize..self.begins[bucket + 1] as usize];
        alike.iter().find(|entry| entry.0 == hash).map_or(1, |entry| entry.1)
    }

    /// Number of lines shared by two or more owners.
    pub fn shared_lines(&self) -> usize {
        self.shared.len()
    }

    /// Identity of the table: equal exactly when tables are equal, to be stored with what was decided by it.
    pub fn id(&self) -> Sha256 {
        Sha256::of(&self.to_bytes())
    }

    /// Identity of the shared lines alone: an owner who shares no line does not change it.
    pub fn shared_id(&self) -> Sha256 {
        let bytes: Vec<u8> = self
            .shared
            .iter()
            .flat_map(|&(hash, owners)| hash.to_le_bytes().into_iter().chain(owners.to_le_bytes()))
            .collect();
        Sha256::of(&bytes)
    }

    /// The stored form, little endian: version, owners, then 12 bytes a line in the order of hashes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(6 + 12 * self.shared.len());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.owners.to_le_bytes());
        for &(hash, owners) in &self.shared {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(owners.to_le_bytes());
        }
        bytes
    }

    /// Read what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are of another version, cut off or out of order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FrequencyError> {
        let damaged = || FrequencyError::Damaged { bytes: bytes.len() };
        let (version, rest) = bytes.split_first_chunk::<2>().ok_or_else(damaged)?;
        let found = u16::from_le_bytes(*version);
        if found != VERSION {
            return Err(FrequencyError::Version { found });
        }
        let (owners, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (entries, []) = rest.as_chunks::<12>() else { return Err(damaged()) };
        let shared: Vec<(u64, u32)> = entries
            .iter()
            .map(|&[a, b, c, d, e, f, g, h, i, j, k, l]| {
                (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]))
            })
            .collect();
        if !shared.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(damaged());
        }
        Ok(Self::new(u32::from_le_bytes(*owners), shared))
    }
}

/// Counts owner by owner, in any order of owners; each owner is given once, with all texts of theirs.
#[derive(Debug)]
pub struct FrequencyBuilder {
    owners: u32,
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    pending: Vec<u64>,
    hashes: Vec<u64>,
    counts: Vec<u32>,
}

impl Default for FrequencyBuilder {
    fn default() -> Self {
        Self { owners: 0, parts: std::iter::repeat_with(Part::default).take(PARTS).collect() }
    }
}

impl FrequencyBuilder {
    /// Count the lines of one owner's texts; a line that occurs in several of them counts once.
    pub fn owner<T: AsRef<str>>(&mut self, texts: impl IntoIterator<Item = T>) {
        let mut hashes: Vec<u64> = Vec::new();
        for text in texts {
            hashes.extend(normalised_lines(text.as_ref()).map(|line| line_hash(&line)));
        }
        self.owner_lines(hashes);
    }

    /// [`Self::owner`] for one whose lines were hashed before ([`line_hash`]), in any order and with repetitions.
    pub fn owner_lines(&mut self, mut hashes: Vec<u64>) {
        hashes.sort_unstable();
        hashes.dedup();
        self.owners += 1;
        for hash in hashes {
            let part = &mut self.parts[(hash >> 58) as usize];
            part.pending.push(hash);
            if part.pending.len() >= PENDING.max(part.hashes.len() / 4) {
                part.merge();
            }
        }
    }

    /// The table.
    pub fn finish(self) -> LineFrequencies {
        let mut shared = Vec::new();
        for mut part in self.parts {
            part.merge();
            shared.extend(part.hashes.into_iter().zip(part.counts).filter(|&(_, owners)| owners > 1));
        }
        LineFrequencies::new(self.owners, shared)
    }
}

impl Part {
    fn merge(&mut self) {
        self.pending.sort_unstable();
        let old = std::mem::take(&mut self.hashes).into_iter().zip(std::mem::take(&mut self.counts));
        let mut old = old.peekable();
        for run in self.pending.chunk_by(|a, b| a == b) {
            let Some(&hash) = run.first() else { continue };
            while let Some((earlier, count)) = old.next_if(|entry| entry.0 < hash) {
                self.hashes.push(earlier);
                self.counts.push(count);
            }
            let before = old.next_if(|entry| entry.0 == hash).map_or(0, |entry| entry.1);
            self.hashes.push(hash);
            self.counts.push(before + u32::try_from(run.len()).unwrap_or(u32::MAX));
        }
        for (hash, count) in old {
            self.hashes.push(hash);
            self.counts.push(count);
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(owners: &[&[&str]]) -> LineFrequencies {
        let mut builder = FrequencyBuilder::default();
        owners.iter().for_each(|texts| builder.owner(texts.iter()));
        builder.finish()
    }

    #[test]
    fn lines_are_counted_by_owner_and_not_by_text() {
        let found = table(&[&["Be kind\nmine", "Be  kind \nBe kind"], &["be kind\nBe kind"], &["Be kind", "other"]]);
        assert_eq!(found.owners(), 3);
        assert_eq!(found.of_line("Be kind"), 3);
        assert_eq!(found.of_line("be kind"), 1);
        assert_eq!(found.of_line("never seen"), 1);
        assert_eq!(found.shared_lines(), 1);
    }

    #[test]
    fn the_order_of_owners_does_not_matter_and_tables_read_back() {
        let many: Vec<String> = (0..40_000).map(|n| format!("line {n}")).collect();
        let (a, b) = (many[..30_000].join("\n"), many[10_000..].join("\n"));
        let (one, two) = (table(&[&[&a], &[&b], &["x"]]), table(&[&["x"], &[&b], &[&a]]));
        assert_eq!(one.id(), two.id());
        assert_eq!(one.shared_lines(), 20_000);
        let mut bytes = one.to_bytes();
        assert_eq!(LineFrequencies::from_bytes(&bytes), Ok(one));
        bytes.pop();
        assert!(LineFrequencies::from_bytes(&bytes).is_err());
        assert!(LineFrequencies::from_bytes(&[9, 9, 0, 0, 0, 0]).is_err());
    }
}
