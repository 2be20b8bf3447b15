//! What the linear model sees of an item: structure, words, character n-grams, headings, path and neighbours, hashed
//! into one space.
//!
//! Each block of features has length one before its scale, so that a long paragraph and a short list entry speak with
//! the same voice. Names exist only while explaining.

use super::lexicon::{self, TRAIT_NAMES, Traits};
use crate::corpus::ItemContext;
use crate::taxonomy::ItemKind;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Version of everything below; a model fitted on other features is refused.
pub const FEATURES_VERSION: u32 = 1;

/// Groups of features that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    Structure,
    Pairs,
    Words,
    Chars,
    Heading,
    HeadingCross,
    Path,
    Before,
    After,
}

const BLOCKS: usize = 9;

/// How features become numbers: part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureOptions {
    /// Version of the extraction, [`FEATURES_VERSION`].
    pub version: u32,
    /// The hash space has `2^bits` buckets.
    pub bits: u32,
    /// Scale of each block, in the order structure, pairs, words, chars, heading, heading × mood, path, before, after.
    pub scales: [f32; BLOCKS],
    /// Only this many first bytes of an item are read (cut at a character).
    pub max_bytes: usize,
}

impl Default for FeatureOptions {
    fn default() -> Self {
        Self {
            version: FEATURES_VERSION,
            bits: 17,
            scales: [1.2, 1.0, 1.5, 2.0, 1.0, 0.7, 0.7, 0.5, 0.5],
            max_bytes: 1200,
        }
    }
}

/// A sparse row: buckets in ascending order, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseRow {
    /// Buckets below `2^bits`.
    pub indices: Vec<u32>,
    /// Value of each bucket.
    pub values: Vec<f32>,
}

/// Receives features one by one.
pub(crate) trait Visitor {
    fn feature(&mut self, block: Block, hash: u64, name: impl FnOnce() -> String);
}

/// Turns items into rows; keeps its buffers between calls.
#[derive(Debug)]
pub struct Extractor {
    options: FeatureOptions,
    text: Normalised,
    buckets: [Vec<u32>; BLOCKS],
}

struct Buckets<'a> {
    mask: u64,
    buckets: &'a mut [Vec<u32>; BLOCKS],
}

impl Visitor for Buckets<'_> {
    #[inline]
    fn feature(&mut self, block: Block, hash: u64, _name: impl FnOnce() -> String) {
        self.buckets[block as usize].push((hash & self.mask) as u32);
    }
}

/// Names of the features by bucket, for explanations.
struct Named {
    mask: u64,
    names: Vec<(Block, u32, String)>,
}

impl Visitor for Named {
    fn feature(&mut self, block: Block, hash: u64, name: impl FnOnce() -> String) {
        self.names.push((block, (hash & self.mask) as u32, name()));
    }
}

impl Extractor {
    /// An extractor for one model's options.
    pub fn new(options: FeatureOptions) -> Self {
        Self { options, text: Normalised::default(), buckets: Default::default() }
    }

    /// The options it was made with.
    pub fn options(&self) -> &FeatureOptions {
        &self.options
    }

    /// The row of an item. Reads nothing but `item`.
    pub fn row(&mut self, item: &ItemContext<'_>) -> SparseRow {
        let mut pairs = Vec::with_capacity(512);
        self.for_each(item, |bucket, value| pairs.push((bucket, value)));
        pairs.sort_unstable_by_key(|(bucket, _)| *bucket);
        let mut row = SparseRow::default();
        for (bucket, value) in pairs {
            match row.indices.last() {
                Some(last) if *last == bucket => {
                    if let Some(sum) = row.values.last_mut() {
                        *sum += value;
                    }
                }
                _ => {
                    row.indices.push(bucket);
                    row.values.push(value);
                }
            }
        }
        row
    }

    /// Calls `f(bucket, value)` for every feature of the item; a bucket may come once for each block.
    pub(crate) fn for_each(&mut self, item: &ItemContext<'_>, mut f: impl FnMut(u32, f32)) {
        for block in &mut self.buckets {
            block.clear();
        }
        let mask = (1u64 << self.options.bits) - 1;
        visit(item, self.options.max_bytes, &mut self.text, &mut Buckets { mask, buckets: &mut self.buckets });
        for (block, scale) in self.buckets.iter_mut().zip(self.options.scales) {
            if block.is_empty() || scale == 0.0 {
                continue;
            }
            block.sort_unstable();
            block.dedup();
            let value = scale / (block.len() as f32).sqrt();
            for bucket in block.iter() {
                f(*bucket, value);
            }
        }
    }

    /// The features of an item as `(name, bucket, value)`, for explanations.
    pub(crate) fn named(&mut self, item: &ItemContext<'_>) -> Vec<(String, u32, f32)> {
        let mask = (1u64 << self.options.bits) - 1;
        let mut named = Named { mask, names: Vec::new() };
        visit(item, self.options.max_bytes, &mut self.text, &mut named);
        let mut names = named.names;
        names.sort_by_key(|(block, bucket, _)| (*block as usize, *bucket));
        names.dedup_by_key(|(block, bucket, _)| (*block as usize, *bucket));
        let mut sizes = [0usize; BLOCKS];
        for (block, ..) in &names {
            sizes[*block as usize] += 1;
        }
        names
            .into_iter()
            .map(|(block, bucket, name)| {
                let value = self.options.scales[block as usize] / (sizes[block as usize] as f32).sqrt();
                (name, bucket, value)
            })
            .collect()
    }
}

/// Lower-cased text with its words, as byte ranges.
#[derive(Debug, Default)]
struct Normalised {
    text: String,
    words: Vec<Word>,
    ends: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    start: u32,
    end: u32,
    /// Written in capitals (two letters or more).
    capitals: bool,
    /// Inside back ticks.
    code: bool,
}

impl Normalised {
    fn word(&self, word: Word) -> &str {
        &self.text[word.start as usize..word.end as usize]
    }

    /// Fill from `raw`: lower case, digits become `0`, ideographs are words of their own.
    fn read(&mut self, raw: &str, max_bytes: usize) {
        self.text.clear();
        self.words.clear();
        let mut open: Option<(usize, bool, bool, usize)> = None; // start, any lower-case, any upper-case, characters
        let mut code = false;
        for c in cut(raw, max_bytes).chars() {
            let at = self.text.len();
            let part = c.is_alphanumeric() || c == '_' || ((c == '\'' || c == '’' || c == '-') && open.is_some());
            if (!part || is_ideograph(c))
                && let Some(word) = open.take()
            {
                self.close(word, at, code);
            }
            let start = self.text.len();
            match c {
                '’' => self.text.push('\''),
                _ if c.is_ascii() => self.text.push(if c.is_ascii_digit() { '0' } else { c.to_ascii_lowercase() }),
                _ => self.text.extend(c.to_lowercase()),
            }
            if c == '`' {
                code = !code;
            }
            if is_ideograph(c) {
                self.words.push(Word { start: start as u32, end: self.text.len() as u32, capitals: false, code });
            } else if part {
                let (_, lower, upper, count) = open.get_or_insert((start, false, false, 0));
                *lower |= c.is_lowercase();
                *upper |= c.is_uppercase();
                *count += 1;
            }
        }
        if let Some(word) = open.take() {
            self.close(word, self.text.len(), code);
        }
    }

    fn close(&mut self, (start, lower, upper, count): (usize, bool, bool, usize), end: usize, code: bool) {
        let trimmed = self.text[start..end].trim_end_matches(['\'', '-']).len();
        if trimmed > 0 {
            let capitals = upper && !lower && count > 1;
            self.words.push(Word { start: start as u32, end: (start + trimmed) as u32, capitals, code });
        }
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// At most `max` bytes of `text`, cut at a character.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn hash(block: Block, tag: u8, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, (block as u64 + 1).wrapping_mul(SEED_STEP) ^ u64::from(tag))
}

#[inline]
fn join(a: u64, b: u64) -> u64 {
    (a.rotate_left(23) ^ b).wrapping_mul(SEED_STEP).rotate_left(31)
}

/// Report every feature of `item` to `out`.
fn visit<V: Visitor>(item: &ItemContext<'_>, max_bytes: usize, scratch: &mut Normalised, out: &mut V) {
    let structure = Structure::of(item, max_bytes, scratch, out);
    chars(&scratch.text, &mut scratch.ends, out);
    headings(item, structure, scratch, out);
    path(item.path, out);
    neighbour(item.before, Block::Before, scratch, out);
    neighbour(item.after, Block::After, scratch, out);
}

/// What the rest of the extraction needs of the structure.
#[derive(Clone, Copy)]
struct Structure {
    mood: &'static str,
    traits: Traits,
}

impl Structure {
    fn of<V: Visitor>(item: &ItemContext<'_>, max_bytes: usize, scratch: &mut Normalised, out: &mut V) -> Self {
        let raw = item.text.trim();
        let body = lead(raw);
        scratch.read(body, max_bytes);
        let first = scratch.words.first().map_or("", |w| scratch.word(*w));
        let mood = lexicon::mood(first);
        scratch.read(raw, max_bytes);
        let mut set: Vec<&'static str> = Vec::with_capacity(40);
        set.push(mood);
        // Nothing is said of what is unknown: phrasings come without context, and a feature that only they have would
        // make every bare text look like one.
        set.extend(item.kind.map(ItemKind::as_str));
        shape(raw, body, scratch, &mut set);
        let traits = word_features(scratch, out);
        for (bit, name) in TRAIT_NAMES.iter().enumerate() {
            if traits & (1 << bit) != 0 {
                set.push(name);
            }
        }
        for (i, a) in set.iter().enumerate() {
            let left = hash(Block::Structure, 0, a.as_bytes());
            out.feature(Block::Structure, left, || format!("is {a}"));
            for b in &set[i + 1..] {
                let both = join(left, hash(Block::Pairs, 0, b.as_bytes()));
                out.feature(Block::Pairs, both, || format!("is {a} and {b}"));
            }
        }
        Self { mood, traits }
    }
}

/// The text after a bold lead-in (`**Testing:** run …`) or a checkbox, so that the mood is read from the sentence.
fn lead(raw: &str) -> &str {
    let raw = raw.strip_prefix("[ ]").or_else(|| raw.strip_prefix("[x]")).unwrap_or(raw).trim_start();
    let Some(rest) = raw.strip_prefix("**") else { return raw };
    let Some((bold, after)) = rest.split_once("**") else { return rest };
    let after = after.trim_start_matches([':', '-', '–', '—', ' ', '(']);
    if after.is_empty() { bold } else { after }
}

/// Layout traits of the raw text.
fn shape(raw: &str, body: &str, scratch: &Normalised, set: &mut Vec<&'static str>) {
    let words = scratch.words.len();
    set.push(match words {
        0..=2 => "words-to-2",
        3..=5 => "words-to-5",
        6..=10 => "words-to-10",
        11..=20 => "words-to-20",
        21..=40 => "words-to-40",
        _ => "words-more",
    });
    let code = scratch.words.iter().filter(|w| w.code).count();
    if code > 0 {
        set.push(if code * 2 > words { "mostly-code" } else { "some-code" });
    }
    set.push(match raw.chars().last() {
        Some('.' | '。') => "ends-full-stop",
        Some(':' | '：') => "ends-colon",
        Some('!') => "ends-exclamation",
        Some('?') => "ends-question",
        Some('`') => "ends-code",
        Some(')') => "ends-parenthesis",
        _ => "ends-open",
    });
    let starts = [
        ("[ ]", "checkbox"),
        ("[x]", "checked"),
        ("**", "bold-lead"),
        ("`", "code-first"),
        ("|", "table"),
        ("```", "fence"),
        ("<!--", "comment"),
        ("<", "tag"),
        ("http", "url-first"),
        ("[", "link-first"),
        ("$", "shell"),
        ("@", "at"),
        ("✅", "tick"),
        ("❌", "cross"),
        ("🚫", "cross"),
        ("⚠", "warning-sign"),
        ("\"", "quote-first"),
        ("> ", "quoted"),
    ];
    for (prefix, name) in starts {
        if raw.starts_with(prefix) {
            set.push(name);
        }
    }
    let contains = [
        ("](", "link"),
        ("://", "url"),
        (" → ", "arrow"),
        (" -> ", "arrow"),
        (" — ", "dash"),
        (" - ", "dash"),
        ("e.g.", "example"),
        ("{{", "placeholder"),
        ("...", "ellipsis"),
        ("⚠", "warning-sign"),
        ("❌", "cross"),
        ("└", "tree"),
        (" = ", "assignment"),
        ("; ", "semicolon"),
        (": ", "colon"),
        ("--", "option"),
    ];
    for (needle, name) in contains {
        if raw.contains(needle) {
            set.push(name);
        }
    }
    if raw.starts_with("**") && raw.ends_with("**") {
        set.push("all-bold");
    }
    if scratch.text.contains("0000-00-00") {
        set.push("dated");
    }
    if let Some(language) = raw.strip_prefix("```") {
        set.push(match language.lines().next().unwrap_or("").trim() {
            "" => "fence-plain",
            "bash" | "sh" | "shell" | "console" | "zsh" | "powershell" | "bat" | "cmd" => "fence-shell",
            "json" | "yaml" | "toml" | "yml" | "xml" | "ini" => "fence-data",
            "text" | "txt" | "tree" | "mermaid" | "ascii" => "fence-text",
            "markdown" | "md" => "fence-markdown",
            _ => "fence-program",
        });
    }
    if body.len() < raw.len() && body.starts_with(|c: char| c.is_lowercase()) {
        set.push("lead-then-lower");
    }
}

/// Words, their neighbours in pairs, capitals; returns the union of the words' traits.
fn word_features<V: Visitor>(scratch: &Normalised, out: &mut V) -> Traits {
    let mut traits = 0;
    let mut previous: Option<(u64, Word)> = None;
    for (i, word) in scratch.words.iter().enumerate() {
        let text = scratch.word(*word);
        traits |= lexicon::traits(text);
        let here = hash(Block::Words, 0, text.as_bytes());
        out.feature(Block::Words, here, || format!("“{text}”"));
        if i == 0 {
            out.feature(Block::Words, here ^ 1 << 40 | 1, || format!("begins “{text}”"));
            out.feature(Block::Structure, hash(Block::Structure, 1, text.as_bytes()), || format!("begins “{text}”"));
        }
        if word.capitals {
            let capitals = hash(Block::Words, 2, text.as_bytes());
            out.feature(Block::Words, capitals, || format!("“{}”", text.to_uppercase()));
        }
        if let Some((before, other)) = previous {
            out.feature(Block::Words, join(before, here), || format!("“{} {text}”", scratch.word(other)));
        }
        previous = Some((here, *word));
    }
    traits
}

/// Character n-grams of three to five, white space collapsed by staying inside runs without it (padded).
fn chars<V: Visitor>(text: &str, ends: &mut Vec<u32>, out: &mut V) {
    for run in text.split_whitespace() {
        ends.clear();
        ends.push(0);
        ends.extend(run.char_indices().map(|(at, c)| (at + c.len_utf8()) as u32));
        let count = ends.len() - 1;
        for length in 3..=5usize {
            for start in 0..count.saturating_sub(length - 1) {
                let gram = &run[ends[start] as usize..ends[start + length] as usize];
                let edge = u8::from(start == 0) | u8::from(start + length == count) << 1;
                out.feature(Block::Chars, hash(Block::Chars, edge, gram.as_bytes()), || format!("letters “{gram}”"));
            }
        }
    }
}

fn headings<V: Visitor>(item: &ItemContext<'_>, structure: Structure, scratch: &mut Normalised, out: &mut V) {
    if item.heading.is_empty() && !item.path.is_empty() {
        out.feature(Block::Heading, hash(Block::Heading, 9, b""), || "under no heading".to_owned());
    }
    let mood = hash(Block::HeadingCross, 0, structure.mood.as_bytes());
    for (distance, heading) in item.heading.iter().rev().take(3).enumerate() {
        scratch.read(heading, 120);
        let mut previous = None;
        for word in &scratch.words {
            let text = scratch.word(*word);
            let near = u8::from(distance > 0);
            let here = hash(Block::Heading, near, text.as_bytes());
            out.feature(Block::Heading, here, || format!("heading “{text}”"));
            let traits = lexicon::traits(text);
            for (bit, name) in TRAIT_NAMES.iter().enumerate().filter(|(bit, _)| traits & (1 << bit) != 0) {
                let class = hash(Block::Heading, 3, &[bit as u8, near]);
                out.feature(Block::Heading, class, || format!("heading speaks of {name}"));
                out.feature(Block::HeadingCross, join(class, mood), || {
                    format!("heading of {name}, {}", structure.mood)
                });
            }
            if distance == 0 {
                out.feature(Block::HeadingCross, join(mood, here), || format!("heading “{text}”, {}", structure.mood));
                for bit in [0, 1, 3] {
                    if structure.traits & (1 << bit) != 0 {
                        let cross = join(hash(Block::HeadingCross, 2, &[bit]), here);
                        let name = TRAIT_NAMES[usize::from(bit)];
                        out.feature(Block::HeadingCross, cross, || format!("heading “{text}”, {name}"));
                    }
                }
            }
            if let Some(before) = previous {
                out.feature(Block::Heading, join(before, here), || format!("heading “… {text}”"));
            }
            previous = Some(here);
        }
    }
}

fn path<V: Visitor>(path: &str, out: &mut V) {
    if path.is_empty() {
        return;
    }
    let lower = path.to_lowercase();
    let file = lower.rsplit('/').next().unwrap_or(&lower);
    out.feature(Block::Path, hash(Block::Path, 0, file.as_bytes()), || format!("file {file}"));
    for part in lower.split(|c: char| !c.is_alphanumeric()).filter(|p| p.len() > 1) {
        out.feature(Block::Path, hash(Block::Path, 1, part.as_bytes()), || format!("path “{part}”"));
    }
}

/// The shape and the first words of a neighbour.
fn neighbour<V: Visitor>(text: Option<&str>, block: Block, scratch: &mut Normalised, out: &mut V) {
    let side = if block == Block::Before { "before" } else { "after" };
    let Some(raw) = text.map(str::trim) else {
        return;
    };
    scratch.read(lead(raw), 200);
    let first = scratch.words.first().map_or("", |w| scratch.word(*w));
    let mood = lexicon::mood(first);
    out.feature(block, hash(block, 0, mood.as_bytes()), || format!("{side} is {mood}"));
    let mut traits = 0;
    for word in scratch.words.iter().take(30) {
        let word = scratch.word(*word);
        traits |= lexicon::traits(word);
        out.feature(block, hash(block, 1, word.as_bytes()), || format!("{side} “{word}”"));
    }
    for (bit, name) in TRAIT_NAMES.iter().enumerate().filter(|(bit, _)| traits & (1 << bit) != 0) {
        out.feature(block, hash(block, 2, &[bit as u8]), || format!("{side} is {name}"));
    }
    let last = raw.chars().next_back().filter(|c| !c.is_alphanumeric()).unwrap_or('a');
    let mut bytes = [0; 4];
    out.feature(block, hash(block, 3, last.encode_utf8(&mut bytes).as_bytes()), || format!("{side} ends “{last}”"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> SparseRow {
        Extractor::new(FeatureOptions::default()).row(&ItemContext { text, ..Default::default() })
    }

    #[test]
    fn rows_are_sorted_unique_and_repeatable() {
        let a = row("Never push to `main` — ask first, naïve 你好.");
        assert!(a.indices.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(a.indices.len(), a.values.len());
        assert_eq!(a, row("Never push to `main` — ask first, naïve 你好."));
        assert_ne!(a, row("Never push to `main` — ask first."));
    }

    #[test]
    fn names_and_values_tell_the_same_story() {
        let item = ItemContext {
            text: "**Deploy**: NEVER run it twice",
            heading: &["Rules", "Hard limits"],
            path: "a/AGENTS.md",
            before: Some("List:"),
            ..Default::default()
        };
        let mut extractor = Extractor::new(FeatureOptions::default());
        let mut plain = Vec::new();
        extractor.for_each(&item, |bucket, value| plain.push((bucket, value)));
        let named = extractor.named(&item);
        assert_eq!(plain.len(), named.len());
        assert!(named.iter().zip(&plain).all(|((_, b, v), (pb, pv))| b == pb && v == pv));
        assert!(named.iter().any(|(name, ..)| name == "is prohibitive"));
    }

    #[test]
    fn odd_input_is_no_trouble() {
        for text in ["", " ", "`", "**", "****", "[x]", "|||", "İ’’--", "\u{0}\u{feff}", "❌❌", "'", "-", "ſſſſſ"]
        {
            let item =
                ItemContext {
                    text, heading: &["", "İİ"], path: "/", before: Some(""), after: Some("**"), kind: None
                };
            Extractor::new(FeatureOptions::default()).row(&item);
        }
        row(&"é".repeat(5000));
    }
}
