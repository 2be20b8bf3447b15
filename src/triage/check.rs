//! What became of the constraints of one text in another, whoever made it: kept, weakened or lost.

use super::base::{Base, ItemId};
use super::canonical::{Canonical, key_words, words};
use super::verify::{Guard, guards, missing};
use crate::segment::segment;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// How much of a constraint's object phrase has to be in a passage for it to be the same rule.
const SAME_RULE: f64 = 0.6;

/// A constraint that lost some of its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Weakened {
    /// The constraint.
    #[serde(flatten)]
    pub guard: Guard,
    /// What stands in its place.
    pub found: String,
    /// The words it lost: qualifiers first.
    pub dropped: Vec<String>,
}

/// A constraint that is gone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lost {
    /// The constraint.
    #[serde(flatten)]
    pub guard: Guard,
    /// A passage about the same thing that no longer forbids or obliges, when there is one.
    pub nearest: Option<String>,
}

/// What [`check`] found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// How many constraints are kept with all their words that count.
    pub kept: usize,
    /// How many of those word for word.
    pub verbatim: usize,
    /// Constraints without a qualifier or another word that counts.
    pub weakened: Vec<Weakened>,
    /// Constraints that are not there.
    pub lost: Vec<Lost>,
    /// Kept ÷ all; 1 when there are none.
    pub recall: f64,
}

/// Which pinned constraints of `before` survive in `after`, a text that any compactor made of it.
///
/// A constraint is kept when one passage holds its words that count and forbids or obliges as it did; weakened when the
/// rule is there without some of them, as in "never …" for "never … without a migration"; lost otherwise.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Constraint;
/// use aac::triage::{Base, Judgement, Tokenizer, check};
///
/// let before = Base::read("AGENTS.md", "- Never change the schema without a migration.", Tokenizer::Cl100k, |_| {
///     Judgement::certain(Constraint)
/// });
/// let found = check(&before, "Schema rules: never change the schema.");
/// assert_eq!(found.weakened[0].dropped, ["without", "migration"]);
/// assert_eq!(check(&before, "The schema changes often.").lost.len(), 1);
/// ```
pub fn check(before: &Base, after: &str) -> Check {
    let guards = guards(before);
    let passages = Passages::of(before.path(), after);
    let absent: HashSet<usize> = missing(&guards, after).into_iter().collect();
    let (mut kept, mut weakened, mut lost) = (0, Vec::new(), Vec::new());
    for (index, guard) in guards.iter().enumerate() {
        if !absent.contains(&index) {
            kept += 1;
            continue;
        }
        match passages.fate(&guard.text) {
            Fate::Kept => kept += 1,
            Fate::Weakened { found, dropped } => {
                weakened.push(Weakened { guard: guard.clone(), found: found.to_owned(), dropped });
            }
            Fate::Lost { nearest } => {
                lost.push(Lost { guard: guard.clone(), nearest: nearest.map(str::to_owned) });
            }
        }
    }
    let recall = if guards.is_empty() { 1.0 } else { kept as f64 / guards.len() as f64 };
    Check { kept, verbatim: guards.len() - absent.len(), weakened, lost, recall }
}

/// What became of one constraint.
#[derive(Debug, Clone, PartialEq)]
enum Fate<'a> {
    Kept,
    Weakened { found: &'a str, dropped: Vec<String> },
    Lost { nearest: Option<&'a str> },
}

/// Items and sentences of a text, found by their words.
struct Passages<'a> {
    passages: Vec<(&'a str, HashSet<String>)>,
    by_word: HashMap<String, Vec<u32>>,
}

impl<'a> Passages<'a> {
    fn of(path: &str, text: &'a str) -> Self {
        let found = segment(path, text);
        let mut passages = Vec::new();
        for heading in &found.headings {
            passages.push(&text[heading.start as usize..heading.end as usize]);
        }
        for item in &found.items {
            let whole = &text[item.range()];
            let sentences = sentences(whole);
            if sentences.len() > 1 {
                passages.extend(sentences);
            }
            passages.push(whole);
        }
        let passages: Vec<(&str, HashSet<String>)> =
            passages.into_iter().map(|passage| (passage, words(passage).collect())).collect();
        let mut by_word: HashMap<String, Vec<u32>> = HashMap::new();
        for (index, (_, words)) in passages.iter().enumerate() {
            for word in words {
                by_word.entry(word.clone()).or_default().push(index as u32);
            }
        }
        Self { passages, by_word }
    }

    /// Among the passages that share the most words with the rule, the kindest verdict.
    fn fate(&self, rule: &str) -> Fate<'a> {
        let form = Canonical::of(rule);
        let keys = key_words(rule);
        // A rule of several sentences may have been taken over sentence by sentence; one of a single sentence has to
        // stand in a single sentence, or words of its neighbours would count as its own.
        let whole_items = sentences(rule).len() > 1;
        let mut shared: HashMap<u32, usize> = HashMap::new();
        for key in &keys {
            for passage in self.by_word.get(key).into_iter().flatten() {
                *shared.entry(*passage).or_default() += 1;
            }
        }
        let mut nearest: Vec<(usize, u32)> = shared.into_iter().map(|(passage, count)| (count, passage)).collect();
        nearest.sort_by_key(|(count, passage)| (std::cmp::Reverse(*count), *passage));
        let mut best = Fate::Lost { nearest: None };
        for (_, passage) in nearest.into_iter().take(8) {
            let (text, words) = &self.passages[passage as usize];
            if !whole_items && sentences(text).len() > 1 {
                continue;
            }
            let has = |word: &String| words.contains(word);
            let about = form.object.iter().filter(|w| has(w)).count() as f64 / form.object.len().max(1) as f64;
            if about < SAME_RULE {
                continue;
            }
            let there = Canonical::of(text);
            let forbids = (form.negations > 0) == (there.negations > 0);
            let obliges = form.duties.is_empty() || !there.duties.is_empty() || there.negations > 0;
            if !forbids || !obliges {
                if best == (Fate::Lost { nearest: None }) {
                    best = Fate::Lost { nearest: Some(text) };
                }
                continue;
            }
            let mut dropped: Vec<String> = Vec::new();
            for word in form.qualifiers.iter().chain(&form.object) {
                if !has(word) && !dropped.contains(word) {
                    dropped.push(word.clone());
                }
            }
            if dropped.is_empty() && there.negations >= form.negations {
                return Fate::Kept;
            }
            match &best {
                Fate::Weakened { dropped: fewest, .. } if fewest.len() <= dropped.len() => {}
                _ => best = Fate::Weakened { found: text, dropped },
            }
        }
        best
    }
}

/// The sentences of a passage.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let closes = matches!(c, '.' | '!' | '?' | ';') && text[end..].starts_with(char::is_whitespace);
        if closes && text[start..end].split_whitespace().nth(1).is_some() {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    let rest = text[start..].trim();
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

/// The share of a text's key words that stand in another, both as sets; 1 for a text without any.
pub fn key_token_share(text: &str, output: &HashSet<String>) -> f64 {
    let keys = key_words(text);
    if keys.is_empty() {
        1.0
    } else {
        keys.iter().filter(|key| output.contains(*key)).count() as f64 / keys.len() as f64
    }
}

/// The words of an output, for [`key_token_share`].
pub fn word_set(output: &str) -> HashSet<String> {
    words(output).collect()
}

/// Ids of constraints that [`check`] did not find kept, lost before weakened.
pub fn not_kept(check: &Check) -> Vec<ItemId> {
    check.lost.iter().map(|l| l.guard.id).chain(check.weakened.iter().map(|w| w.guard.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    #[test]
    fn words_that_count_decide() {
        let before = base(
            "- Never push to main without a review.\n- Never log passwords.\n- Must run as root: never.\n- Never delete tables in production\n",
        );
        let found = check(
            &before,
            "Pushes to main: never push to main. Passwords: never log passwords, anywhere. Delete tables in production when needed.",
        );
        assert_eq!(found.kept, 1, "{found:?}");
        assert_eq!(found.weakened.len(), 1, "{found:?}");
        assert_eq!(found.weakened[0].dropped, ["without", "review"]);
        let turned = found.lost.iter().find(|l| l.guard.text.contains("tables")).unwrap();
        assert!(turned.nearest.as_deref().unwrap().starts_with("Delete tables"), "{found:?}");
        assert_eq!(found.recall, 0.25);
        assert_eq!(found.verbatim, 0);
    }

    #[test]
    fn words_of_the_next_sentence_are_no_qualifiers_of_this_one() {
        let before = base("- Never push without a review\n");
        let found = check(&before, "Never push. A review without comments is fine.");
        assert_eq!(found.weakened.len(), 1, "{found:?}");
        assert!(check(&before, "You must never push without review").weakened.is_empty());
    }
}
