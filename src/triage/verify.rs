//! The verifier: reads an output and nothing else, and says which constraints are not in it word for word.

use super::base::{Base, ItemId};
use super::canonical::Canonical;
use serde::Serialize;
use std::collections::HashSet;

/// What has to be found in an output: one flagged constraint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guard {
    /// The item it guards.
    pub id: ItemId,
    /// Its line in the text it comes from, 1-based.
    pub line: u32,
    /// Its exact words.
    pub text: String,
    /// How likely a constraint, weighted by who says so.
    pub risk: f32,
}

impl Guard {
    /// The guard of one item of `base`.
    pub(super) fn of(base: &Base, item: &super::base::Item) -> Self {
        Self { id: item.id, line: item.line, text: base.text_of(item).to_owned(), risk: item.judgement.risk }
    }

    /// Negation and object phrase: what `check` looks for when the words have changed.
    pub fn canonical(&self) -> Canonical {
        Canonical::of(&self.text)
    }
}

/// The guards of every pinned item of `base`, in document order.
pub fn guards(base: &Base) -> Vec<Guard> {
    base.items().iter().filter(|item| item.pinned()).map(|item| Guard::of(base, item)).collect()
}

/// The positions of `guards` whose words do not stand in `output` as a passage of their own: from the start of a line
/// (behind blanks, quote marks and a list marker) to the end of one. A part of a longer sentence is not enough, for it
/// may say something else.
///
/// ```
/// use aac::triage::{Guard, ItemId, missing};
/// let guard = |text: &str| Guard { id: ItemId::of(text, 0), line: 1, text: text.to_owned(), risk: 1.0 };
/// let guards = [guard("Never push."), guard("Never push")];
/// assert_eq!(missing(&guards, "- Never push.\n"), [1]);
/// ```
pub fn missing(guards: &[Guard], output: &str) -> Vec<usize> {
    // Guards come in the order of the output, so one pass over it finds nearly all that are there. Those that are not would
    // cost a pass each: from the first of them on they are told by their first lines.
    let mut openings = None;
    let mut cursor = 0;
    let mut absent = Vec::new();
    for (index, guard) in guards.iter().enumerate() {
        let first = guard.text.split('\n').next().unwrap_or_default();
        let opens = |openings: &HashSet<&str>| first.is_empty() || openings.contains(first);
        let mut found = None;
        if openings.as_ref().is_none_or(opens) {
            found = stands(output, &guard.text, cursor).or_else(|| {
                let openings = openings.get_or_insert_with(|| self::openings(output));
                opens(openings).then(|| stands(output, &guard.text, 0)).flatten()
            });
        }
        match found {
            Some(end) => cursor = end,
            None => absent.push(index),
        }
    }
    absent
}

/// Whether a character may stand between the start of a line and a passage.
pub(super) fn leads(c: char) -> bool {
    matches!(c, ' ' | '\t' | '>' | '-' | '*' | '+' | '.' | ')') || c.is_ascii_digit()
}

/// So many characters of a line are looked at for the start of a passage: a line of marks without end must not cost its
/// square.
const LONGEST_LEAD: usize = 256;

/// What a passage that stands in `output` can begin with, up to the end of its first line.
fn openings(output: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    for line in output.split('\n') {
        let bare = line.strip_suffix('\r').unwrap_or(line);
        for (at, c) in bare.char_indices().take(LONGEST_LEAD) {
            found.insert(&bare[at..]);
            found.insert(&line[at..]);
            if !leads(c) {
                break;
            }
        }
    }
    found
}

/// The end of the first place from `from` where `text` stands as a passage.
fn stands(output: &str, text: &str, from: usize) -> Option<usize> {
    if text.is_empty() {
        return Some(from);
    }
    let mut at = from;
    while let Some(found) = output.get(at..)?.find(text) {
        let (start, end) = (at + found, at + found + text.len());
        let line = output[..start].rfind('\n').map_or(0, |feed| feed + 1);
        let opens = output[line..start].chars().all(leads);
        if opens && output[end..].chars().next().is_none_or(|c| matches!(c, '\n' | '\r')) {
            return Some(end);
        }
        at = start + text.chars().next().map_or(1, char::len_utf8);
    }
    None
}

/// What came of guarding another compactor's output.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Guarded {
    /// Every constraint is in it word for word.
    Safe {
        /// The output, with what was missing put back at its end.
        output: String,
        /// Tokens of the output.
        tokens_out: usize,
        /// How many constraints were put back.
        restored: usize,
    },
    /// Putting back what is missing does not fit.
    Unsafe {
        /// Tokens that the output would need.
        needed: usize,
        /// What is missing.
        lost: Vec<Guard>,
    },
}

/// Guard the output of any compactor (a summary by a language model, say): put back the constraints of `base` that it
/// lost, each under its headings, or refuse when they do not fit into `budget` tokens.
pub fn protect(base: &Base, output: &str, budget: usize) -> Guarded {
    let guards = guards(base);
    let absent = missing(&guards, output);
    let mut whole = output.to_owned();
    if !absent.is_empty() {
        let lost: HashSet<ItemId> = absent.iter().map(|index| guards[*index].id).collect();
        let appendix = super::compact::render_items(base, |item| item.pinned() && lost.contains(&item.id));
        whole = format!("{}\n\n{appendix}", output.trim_end());
    }
    let tokens_out = base.tokenizer().count(&whole);
    if tokens_out <= budget && missing(&guards, &whole).is_empty() {
        Guarded::Safe { output: whole, tokens_out, restored: absent.len() }
    } else {
        let lost = absent.iter().map(|index| guards[*index].clone()).collect();
        Guarded::Unsafe { needed: tokens_out, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    #[test]
    fn a_part_of_a_longer_rule_does_not_count() {
        let guards = guards(&base("- Never push\n- Never push to main\n"));
        assert_eq!(missing(&guards, "* Never push to main\n"), [0]);
        assert_eq!(missing(&guards, "> 1. Never push\n"), [1]);
        assert!(missing(&guards, "- Never push to main\r\n\n- Never push").is_empty());
    }

    #[test]
    fn passages_of_several_lines_and_with_marks_of_their_own_are_found() {
        let guard = |text: &str| Guard { id: ItemId(0), line: 1, text: text.to_owned(), risk: 1.0 };
        let guards = [guard("3 times at most\n  and never more"), guard("- never"), guard("never\r\nagain")];
        let output = "> 1. 3 times at most\n  and never more\n\n* - never\n- never\r\nagain\n";
        assert!(missing(&guards, output).is_empty());
        assert_eq!(missing(&guards, &output.replace("at most", "at least")), [0]);
        assert_eq!(missing(&guards, &output.replace("more", "less")), [0]);
    }

    #[test]
    fn a_summary_gets_its_rules_back_or_is_refused() {
        let base = base("# Git\n\n- Never push to main.\n- We use trunk-based development.\n");
        let Guarded::Safe { output, restored, .. } = protect(&base, "Trunk-based.", 100) else { panic!() };
        assert_eq!((output.as_str(), restored), ("Trunk-based.\n\n# Git\n\n- Never push to main.\n", 1));
        let Guarded::Unsafe { lost, needed } = protect(&base, "Trunk-based.", 8) else { panic!() };
        assert!(lost.len() == 1 && needed > 8);
    }
}
