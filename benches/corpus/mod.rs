//! Texts for the benches: every distinct UTF-8 blob in a folder of bare git repositories, read through `git`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The distinct texts under `folder`, of `sizes` bytes, in the order of their object ids.
pub fn texts(folder: &Path, sizes: std::ops::RangeInclusive<usize>) -> Vec<String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut repos: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    repos.sort();
    for repo in repos.iter().filter(|path| path.extension().is_some_and(|e| e == "git")) {
        let git = || {
            let mut git = Command::new("git");
            git.arg("-C").arg(repo).stdin(Stdio::piped()).stdout(Stdio::piped());
            git
        };
        let listed = git().args(["rev-list", "--objects", "--all", "--no-object-names"]).output().unwrap().stdout;
        let mut child = git().args(["cat-file", "--batch"]).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || input.write_all(&listed));
        let output = child.wait_with_output().unwrap().stdout;
        feeder.join().unwrap().unwrap();
        let mut rest = output.as_slice();
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let header = std::str::from_utf8(&rest[..end]).unwrap().to_owned();
            let mut fields = header.split(' ');
            let (id, kind, size) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
            let size: usize = size.parse().unwrap();
            let body = &rest[end + 1..end + 1 + size];
            if kind == "blob"
                && sizes.contains(&size)
                && let Ok(text) = std::str::from_utf8(body)
            {
                found.entry(id.to_owned()).or_insert_with(|| text.to_owned());
            }
            rest = &rest[end + 2 + size..];
        }
    }
    found.into_values().collect()
}

/// A small generator (SplitMix64): the same numbers for the same seed on every machine.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }
}

/// Text `n` of a replicated corpus: a real one with some words and lines changed, and never equal to another.
pub fn edited(texts: &[String], n: usize) -> String {
    let text = &texts[n % texts.len()];
    if n < texts.len() {
        return text.clone();
    }
    let mut random = Random(n as u64);
    let share = 1 + random.below(10);
    let mut out = String::with_capacity(text.len() + 32);
    for line in text.lines() {
        if random.below(200) < share {
            continue;
        }
        for (index, word) in line.split(' ').enumerate() {
            if index > 0 {
                out.push(' ');
            }
            if word.len() > 3 && word.is_ascii() && random.below(200) < share {
                let letters = b"etaoinshrdlucmfwyp";
                out.extend((0..word.len()).map(|_| letters[random.below(letters.len())] as char));
            } else {
                out.push_str(word);
            }
        }
        out.push('\n');
    }
    out + &format!("\nSee ticket {n}.\n")
}

/// Texts for who has no repositories at hand: lists of made-up rules, of the sizes that agent files have.
pub fn made_up(count: usize) -> Vec<String> {
    const WORDS: [&str; 24] = [
        "never",
        "always",
        "run",
        "the",
        "tests",
        "before",
        "commit",
        "use",
        "module",
        "of",
        "a",
        "branch",
        "build",
        "with",
        "types",
        "and",
        "errors",
        "in",
        "service",
        "review",
        "files",
        "prefer",
        "small",
        "functions",
    ];
    let one = |n: usize| {
        let mut random = Random(n as u64 ^ 0x5eed);
        let mut text = format!("# Project {n}\n\n");
        for _ in 0..20 + random.below(120) {
            text.push_str("- ");
            for _ in 0..5 + random.below(12) {
                text.push_str(WORDS[random.below(WORDS.len())]);
                // Names that occur once, as in real texts.
                if random.below(6) == 0 {
                    text.push_str(&format!("_{:x}", random.bits() >> 36));
                }
                text.push(' ');
            }
            text.push('\n');
        }
        text
    };
    (0..count).map(one).collect()
}

/// An edited copy: some lines dropped, some words replaced, sometimes a line added or a number changed.
pub fn varied(text: &str, seed: u64) -> String {
    let mut random = Random(seed);
    let percent = random.below(12);
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        if random.below(100) < percent / 3 {
            continue;
        }
        for (index, word) in line.split(' ').enumerate() {
            if index > 0 {
                out.push(' ');
            }
            if word.len() > 3 && random.below(400) < percent {
                out.push_str(["edited", "another", "changed", "other"][random.below(4)]);
            } else {
                out.push_str(word);
            }
        }
        out.push('\n');
    }
    match random.below(8) {
        0 => out.push_str("\nUse version 7.3 here.\n"),
        1 => out.push_str(&format!("\nCopied for team {}.\n", random.below(1 << 20))),
        2 => out = out.replace("1.", "2.").replace('8', "9"),
        _ => out.push_str(["\nKeep it short.\n", "\n", "\nAsk when in doubt.\n"][random.below(3)]),
    }
    out
}
