//! Tokens of a text by its words: most words of a text were met before, and what a word counts need not be found again.

use bpe_openai::Tokenizer as Table;
use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes of the longest word that is remembered.
const LONGEST: usize = 24;

/// Words remembered on each thread, for each table; then it begins anew.
const WORDS: usize = 1 << 15;

/// Counts by word of one table.
type Counts = HashMap<Box<str>, usize>;

thread_local! {
    static COUNTS: RefCell<[Counts; 2]> = RefCell::default();
}

/// How many tokens `text` is in `table`; `slot` tells the tables apart.
///
/// The text is cut before every blank that stands alone between two words. Both tables cut there, too, before they merge
/// bytes: a blank begins the piece of the word behind it or is one of its own, and no piece goes on over it. So the tokens
/// of the whole are the sum of those of the words, exactly.
pub(super) fn count(table: &Table, slot: usize, text: &str) -> usize {
    COUNTS.with_borrow_mut(|counts| {
        let counts = &mut counts[slot];
        words(text).map(|word| count_word(table, counts, word)).sum()
    })
}

fn count_word(table: &Table, counts: &mut Counts, word: &str) -> usize {
    if word.len() > LONGEST {
        return table.count(word);
    }
    if let Some(count) = counts.get(word) {
        return *count;
    }
    if counts.len() >= WORDS {
        counts.clear();
    }
    let count = table.count(word);
    counts.insert(word.into(), count);
    count
}

/// `text` cut before every blank that stands alone between two other characters than blanks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.match_indices(' ').map(|(at, _)| at).find(|at| {
            let before = rest[..*at].chars().next_back();
            let behind = rest[at + 1..].chars().next();
            before.is_some_and(|c| !c.is_whitespace()) && behind.is_some_and(|c| !c.is_whitespace())
        });
        let (word, behind) = rest.split_at(cut.unwrap_or(rest.len()));
        rest = behind;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_cut_before_single_blanks() {
        let cut: Vec<&str> = words(" a b  c\u{a0} d \n e1 2's.").collect();
        assert_eq!(cut, [" a", " b  c\u{a0} d \n e1", " 2's."]);
        assert_eq!(words("").count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The tables themselves, on all kinds of blanks, marks, digits, contractions and scripts.
        #[test]
        fn words_add_up_to_the_text(text in "(?s)([ \u{a0}\u{2003}\u{85}\t\r\n]{0,3}(\\PC{1,5}|[a-zA-Z]{1,9}|[0-9]{1,5}|'(s|LL|ve)|[.,/*_`-]{1,4})){0,12}[ \n]{0,2}") {
            for (slot, table) in [bpe_openai::cl100k_base(), bpe_openai::o200k_base()].into_iter().enumerate() {
                prop_assert_eq!(count(table, slot, &text), table.count(&text));
                prop_assert_eq!(count(table, slot, &text), table.count(&text), "from memory");
            }
        }
    }
}
