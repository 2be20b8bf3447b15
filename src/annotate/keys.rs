//! Which key does what. The pages have no other list: what a key does, what its button shows and what `?` explains all
//! come from here, and a key that stands twice in a list does not compile.

use serde::Serialize;

/// A key with what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// The key, as `KeyboardEvent.key` names it.
    pub key: &'static str,
    /// What it does: `class:` with the class, or the name of an act.
    pub act: &'static str,
    /// What `?` says of it.
    pub says: &'static str,
    /// For a class, a few words that remind of what it means.
    pub hint: &'static str,
}

const fn bind(key: &'static str, act: &'static str, says: &'static str) -> Binding {
    Binding { key, act, says, hint: "" }
}

const fn class(key: &'static str, act: &'static str, says: &'static str, hint: &'static str) -> Binding {
    Binding { key, act, says, hint }
}

const UNDO: Binding = bind("u", "undo", "Take the last act back; as often as you like");
const SKIP: Binding = bind("s", "skip", "Pass this item over");
const FLAG: Binding = bind("f", "flag", "Flag, to come back to it");
const NOTE: Binding = bind("n", "note", "Write a note");
const RUBRIC: Binding = bind("h", "rubric", "Show or hide the rubric");
const NEXT: Binding = bind("j", "next", "Next item");
const PREVIOUS: Binding = bind("k", "previous", "Item before");
const OPEN: Binding = bind("o", "open", "First item without an answer");
const HELP: Binding = bind("?", "help", "Show or hide these keys");

const C: Binding = class("1", "class:constraint", "Constraint", "unsafe without it");
const P: Binding = class("2", "class:procedural", "Procedural", "how it is done");
const B: Binding = class("3", "class:belief", "Belief", "a fact");
const F: Binding = class("4", "class:preference", "Preference", "taste, convention");
const E: Binding = class("5", "class:episodic", "Episodic", "what happened");
const M: Binding = class("6", "class:meta", "Meta", "none of these");

/// Keys of the labelling page.
pub const LABEL: &[Binding] = checked(&[C, P, B, F, E, M, UNDO, SKIP, FLAG, NOTE, RUBRIC, NEXT, PREVIOUS, OPEN, HELP]);

/// Keys of the verification page.
pub const VERIFY: &[Binding] = checked(&[
    class("1", "class:preserved", "Preserved", "all of it is there"),
    class("2", "class:weakened", "Weakened", "a part is gone"),
    class("3", "class:lost", "Lost", "it is not there"),
    class("4", "class:unclear", "Unclear", "cannot be told"),
    UNDO,
    SKIP,
    FLAG,
    NOTE,
    NEXT,
    PREVIOUS,
    OPEN,
    HELP,
]);

/// Keys of the adjudication page.
pub const ADJUDICATE: &[Binding] = checked(&[
    C,
    P,
    B,
    F,
    E,
    M,
    bind("u", "reopen", "Take the decision on this item back"),
    RUBRIC,
    NEXT,
    PREVIOUS,
    OPEN,
    HELP,
]);

/// The list itself, if no key and no act stands in it twice.
const fn checked(bindings: &[Binding]) -> &[Binding] {
    assert!(!clashes(bindings), "a key or an act stands twice");
    bindings
}

const fn clashes(bindings: &[Binding]) -> bool {
    let mut a = 0;
    while a < bindings.len() {
        let mut b = a + 1;
        while b < bindings.len() {
            if same(bindings[a].key, bindings[b].key) || same(bindings[a].act, bindings[b].act) {
                return true;
            }
            b += 1;
        }
        a += 1;
    }
    false
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taxonomy::{KnowledgeType, Verdict};

    #[test]
    fn a_key_that_stands_twice_is_found() {
        assert!(clashes(&[UNDO, bind("u", "else", "")]));
        assert!(clashes(&[UNDO, bind("v", "undo", "")]));
        for list in [LABEL, VERIFY, ADJUDICATE] {
            assert!(!clashes(list));
            let keys: std::collections::BTreeSet<&str> = list.iter().map(|binding| binding.key).collect();
            assert_eq!(keys.len(), list.len());
        }
    }

    #[test]
    fn every_class_has_its_number() {
        for (list, classes) in [
            (LABEL, KnowledgeType::ALL.iter().map(|t| t.as_str()).collect::<Vec<_>>()),
            (ADJUDICATE, KnowledgeType::ALL.iter().map(|t| t.as_str()).collect()),
            (VERIFY, Verdict::ALL.iter().map(|t| t.as_str()).collect()),
        ] {
            let bound: Vec<&str> = list.iter().filter_map(|b| b.act.strip_prefix("class:")).collect();
            assert_eq!(bound, classes);
            for (index, class) in classes.iter().enumerate() {
                let binding = list.iter().find(|b| b.act.strip_prefix("class:") == Some(class)).unwrap();
                assert_eq!(binding.key, (index + 1).to_string());
            }
        }
    }
}
