//! How many bytes of a file a store that cuts by content would have to send anew: a gear hash over the bytes, chunks of 8 to
//! 128 KiB and 64 KiB on average, as the Hub's storage cuts files.
#![allow(dead_code, unreachable_pub)]

use aac::corpus::Sha256;
use std::collections::HashSet;

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
    /// Keep the chunks of `bytes`; returns how many bytes of it were held before.
    pub fn keep(&mut self, bytes: &[u8]) -> usize {
        let chunks = chunks(bytes);
        let reused = chunks.iter().filter(|(digest, _)| self.0.contains(digest)).map(|(_, length)| length).sum();
        self.0.extend(chunks.iter().map(|(digest, _)| *digest));
        reused
    }
}
