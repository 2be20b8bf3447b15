//! How many bytes of a file a store that cuts by content would have to send anew: a gear hash over the bytes, chunks of 8 to
//! 128 KiB and 64 KiB on average, as the Hub's storage cuts files.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use aac::corpus::Sha256;
use parquet::file::metadata::ParquetMetaDataReader;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

const LEAST: usize = 8 << 10;
const MOST: usize = 128 << 10;
/// 16 bits that must be zero: one place in 65,536.
const MASK: u64 = 0xffff << 48;

/// Digests and lengths of the chunks of `bytes`.
pub fn chunks(bytes: &[u8]) -> Vec<(Sha256, usize)> {
    let gear = gear();
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = rest.len().min(MOST);
        let mut hash = 0u64;
        let mut end = most;
        // The hash forgets a byte after 64 steps, so it may begin shortly before the first place for a cut.
        for (at, byte) in rest.iter().enumerate().take(most).skip(LEAST.saturating_sub(64)) {
            hash = (hash << 1).wrapping_add(gear[usize::from(*byte)]);
            if at >= LEAST && hash & MASK == 0 {
                end = at + 1;
                break;
            }
        }
        let (chunk, after) = rest.split_at(end);
        found.push((Sha256::of(chunk), chunk.len()));
        rest = after;
    }
    found
}

/// Random numbers for each byte, the same everywhere.
fn gear() -> [u64; 256] {
    std::array::from_fn(|byte| {
        let digest = Sha256::of(&[byte as u8]);
        digest.0.iter().take(8).fold(0, |n, byte| (n << 8) | u64::from(*byte))
    })
}

/// What a store holds.
#[derive(Default)]
pub struct Held(HashSet<Sha256>);

impl Held {
    /// Keep the chunks of `bytes`; returns the ranges that were not held before, in order.
    pub fn keep(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut new = Vec::new();
        let mut at = 0;
        for (digest, length) in chunks(bytes) {
            if self.0.insert(digest) {
                new.push(at..at + length);
            }
            at += length;
        }
        new
    }
}

/// Bytes of a set, and how many of them are new, by column; what lies between the columns is `filters and indexes`.
#[derive(Default)]
pub struct ByColumn(pub BTreeMap<String, (usize, usize)>);

impl ByColumn {
    /// Add a Parquet file of which the ranges `new` are new.
    pub fn add(&mut self, file: Vec<u8>, new: &[Range<usize>]) {
        let length = file.len();
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(file)).unwrap();
        let mut at = 0;
        for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
            let (start, bytes) = column.byte_range();
            let range = start as usize..(start + bytes) as usize;
            self.put("filters and indexes", at..range.start, new);
            at = range.end;
            self.put(&column.column_path().string(), range, new);
        }
        self.put("filters and indexes", at..length, new);
    }

    fn put(&mut self, name: &str, range: Range<usize>, new: &[Range<usize>]) {
        let first = new.partition_point(|part| part.end <= range.start);
        let inside = new[first..].iter().take_while(|part| part.start < range.end);
        let fresh: usize = inside.map(|part| part.end.min(range.end) - part.start.max(range.start)).sum();
        let sums = self.0.entry(name.to_owned()).or_default();
        sums.0 += range.len();
        sums.1 += fresh;
    }

    /// All bytes, and the new ones.
    pub fn sums(&self) -> (usize, usize) {
        self.0.values().fold((0, 0), |(all, new), (a, n)| (all + a, new + n))
    }
}
