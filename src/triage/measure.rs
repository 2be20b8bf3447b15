//! What is left of each type of item in an output, by two tests.

use super::base::Base;
use super::canonical::{key_words, words};
use super::check::check;
use super::verify::{Guard, guards, missing};
use crate::taxonomy::KnowledgeType;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// The share of an item's key words that one passage must hold for the item to count as preserved.
pub const KEY_TOKEN_SHARE: f64 = 0.8;

/// Preserved and all items of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// Preserved.
    pub kept: usize,
    /// All.
    pub of: usize,
}

impl Share {
    /// Kept ÷ all; nothing when there are none.
    pub fn rate(self) -> Option<f64> {
        (self.of > 0).then(|| self.kept as f64 / self.of as f64)
    }
}

/// How an output fares against the base it was made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preservation {
    /// By type in the order of [`KnowledgeType::ALL`], by the key-token test: one passage of the output holds at least
    /// [`KEY_TOKEN_SHARE`] of the item's key words. Flagged items count as constraints.
    pub by_type: [Share; 6],
    /// Flagged constraints that stand word for word.
    pub verbatim: Share,
    /// Flagged constraints that stand with every qualifier, in whatever words.
    pub qualified: Share,
}

impl Preservation {
    /// The share of a type.
    pub fn of(&self, t: KnowledgeType) -> Share {
        self.by_type[t.index()]
    }

    /// Unweighted mean over the five types that are there.
    pub fn mean(&self) -> Option<f64> {
        let rates: Vec<f64> = self.by_type[..5].iter().filter_map(|share| share.rate()).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

/// Measure `output` against `base`.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Constraint;
/// use aac::triage::{Base, Judgement, Tokenizer, preservation};
/// let base = Base::read("a.md", "- Never push to main without review today", Tokenizer::Cl100k, |_| Judgement::certain(Constraint));
/// let loose = preservation(&base, "Never push to main without review.");
/// assert_eq!((loose.of(Constraint).kept, loose.qualified.kept, loose.verbatim.kept), (1, 0, 0));
/// ```
pub fn preservation(base: &Base, output: &str) -> Preservation {
    let guards = guards(base);
    let absent = missing(&guards, output).len();
    let checked = check(base, output);
    let lines = Lines::of(output);
    let mut by_type = [Share::default(); 6];
    for item in base.items() {
        let share = &mut by_type[item.lane().index()];
        share.of += 1;
        let text = base.text_of(item);
        share.kept += usize::from(output.contains(text) || lines.hold(text));
    }
    Preservation {
        by_type,
        verbatim: Share { kept: guards.len() - absent, of: guards.len() },
        qualified: Share { kept: checked.kept, of: guards.len() },
    }
}

/// What is left of the items that annotators labelled, by their labels: by the key-token test for each type in the order
/// of [`KnowledgeType::ALL`], and the constraints that stand word for word. `labels` are in the order of the items.
pub fn labelled_preservation(base: &Base, labels: &[Option<KnowledgeType>], output: &str) -> ([Share; 6], Share) {
    let lines = Lines::of(output);
    let mut by_type = [Share::default(); 6];
    let mut guards = Vec::new();
    for (item, label) in base.items().iter().zip(labels) {
        let Some(label) = label else { continue };
        let share = &mut by_type[label.index()];
        share.of += 1;
        let text = base.text_of(item);
        share.kept += usize::from(output.contains(text) || lines.hold(text));
        if *label == KnowledgeType::Constraint {
            guards.push(Guard::of(base, item));
        }
    }
    let absent = missing(&guards, output).len();
    (by_type, Share { kept: guards.len() - absent, of: guards.len() })
}

/// Passages of an output, by the words they hold. A passage is a run of lines without an empty one: enough for an item
/// of several lines.
struct Lines {
    by_word: HashMap<String, Vec<u32>>,
}

impl Lines {
    fn of(output: &str) -> Self {
        let mut by_word: HashMap<String, Vec<u32>> = HashMap::new();
        let mut passage = 0;
        let mut fenced = false;
        for line in output.lines() {
            let bare = line.trim_start();
            let fence = bare.starts_with("```");
            // Every entry, row and paragraph is a passage of its own; a block of code is one.
            if !fenced
                && (bare.is_empty()
                    || bare.starts_with(['-', '*', '+', '|', '#', '>'])
                    || fence
                    || bare.starts_with(|c: char| c.is_ascii_digit()))
            {
                passage += 1;
            }
            fenced ^= fence;
            for word in words(line).collect::<HashSet<_>>() {
                let places = by_word.entry(word).or_default();
                if places.last() != Some(&passage) {
                    places.push(passage);
                }
            }
        }
        Self { by_word }
    }

    fn hold(&self, text: &str) -> bool {
        let keys = key_words(text);
        let needed = (keys.len() as f64 * KEY_TOKEN_SHARE).ceil() as usize;
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for key in &keys {
            for passage in self.by_word.get(key).into_iter().flatten() {
                *counts.entry(*passage).or_default() += 1;
            }
        }
        counts.values().copied().max().unwrap_or(0) >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    #[test]
    fn words_must_stand_together() {
        let base = base("- Never push to main\n- The moon is made of green cheese\n");
        let apart = preservation(&base, "- never\n- push\n- main\n");
        assert_eq!(apart.of(KnowledgeType::Constraint), Share { kept: 0, of: 1 });
        let whole = preservation(&base, "* Never push to main\n\nmoon made green cheese");
        assert_eq!(whole.verbatim, Share { kept: 1, of: 1 });
        assert_eq!(whole.of(KnowledgeType::Belief).rate(), Some(1.0));
        assert_eq!(whole.mean(), Some(1.0));
    }
}
