//! Extractive shortening: words are left out, never changed and never added. What negates or qualifies stays.

use crate::taxonomy::ItemKind;

/// Words that carry no content of their own in a statement of fact.
const FILLERS: &[&str] = &[
    "a",
    "an",
    "the",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "has",
    "have",
    "had",
    "that",
    "which",
    "this",
    "these",
    "those",
    "there",
    "it",
    "its",
    "very",
    "really",
    "just",
    "simply",
    "basically",
    "actually",
    "also",
    "please",
    "own",
    "our",
    "your",
    "you",
    "we",
    "will",
    "would",
    "some",
    "such",
    "so",
    "quite",
    "currently",
];

/// Words that only join others: without them a statement reads like a telegram and says the same. What forbids, obliges,
/// limits, compares or joins alternatives is not among them.
const JOINTS: &[&str] = &[
    "to", "of", "in", "on", "for", "with", "by", "as", "from", "into", "can", "may", "do", "does", "then", "their",
    "they", "them", "he", "she", "his", "her", "i", "who", "what", "how", "about", "etc", "per", "via",
];

/// Bytes of the longest of these words.
const LONGEST: usize = 9;

/// Whether a list has the word, in whatever case. Asked of every word of a text: most differ in length or first letter.
fn holds(list: &[&str], word: &str) -> bool {
    let first = word.as_bytes().first().map(u8::to_ascii_lowercase);
    list.iter().any(|other| {
        other.len() == word.len() && other.as_bytes().first().copied() == first && other.eq_ignore_ascii_case(word)
    })
}

/// How many words a placeholder keeps.
const GIST_WORDS: usize = 8;

/// Whether a text of this kind may be shortened at all: code and table rows mean something only as they are, and a
/// quote or a block in a text has line structure that leaving out words would break.
fn may_shorten(text: &str, kind: ItemKind) -> bool {
    matches!(kind, ItemKind::List | ItemKind::Paragraph)
        && !text.contains("\n>")
        && !text.starts_with(['>', '|', '<'])
        && !text.contains("```")
        && !text.contains("\\\n")
}

/// `text` as a telegram, on one line: without filler words and joints; nothing when that saves nothing. Code spans, links
/// and everything that is not a plain word stay as they are.
pub(super) fn terse(text: &str, kind: ItemKind) -> Option<String> {
    if !may_shorten(text, kind) {
        return None;
    }
    shorter(text, drop_words(text, &[FILLERS, JOINTS]))
}

/// The first sentence of `text`, without asides in parentheses and without filler words.
pub(super) fn essence(text: &str, kind: ItemKind) -> Option<String> {
    if !may_shorten(text, kind) {
        return None;
    }
    // Leaving out a word can bring a new end of sentence about; in a few rounds the text settles.
    let mut short = text.to_owned();
    for _ in 0..4 {
        let next = drop_fillers(first_sentence(&without_asides(&short)));
        if next == short {
            break;
        }
        short = next;
    }
    shorter(text, short)
}

/// The first words of `text` and an ellipsis: that something happened, and about what.
pub(super) fn gist(text: &str, kind: ItemKind) -> Option<String> {
    if !may_shorten(text, kind) {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() <= GIST_WORDS + 1 {
        return None;
    }
    let short = words[..GIST_WORDS].join(" ");
    let loses_force = super::canonical::has_force(&words[GIST_WORDS..].join(" "));
    (balanced(&short) && !opens_block(&short) && !loses_force)
        .then(|| short.trim_end_matches([',', ';', ':']).to_owned() + " …")
}

fn shorter(text: &str, short: String) -> Option<String> {
    (!short.is_empty() && short.len() < text.len() && !opens_block(&short)).then_some(short)
}

fn drop_fillers(text: &str) -> String {
    drop_words(text, &[FILLERS])
}

fn drop_words(text: &str, lists: &[&[&str]]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    let mut first: Option<&str> = None;
    for word in text.split_whitespace() {
        let ticks = word.matches('`').count();
        let plain = !in_code && ticks == 0;
        if ticks % 2 == 1 {
            in_code = !in_code;
        }
        first.get_or_insert(word);
        if plain && word.len() <= LONGEST && lists.iter().any(|list| holds(list, word)) {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    match first {
        // Without its first word the text would begin a heading, a list or a quote.
        Some(word) if opens_block(&out) && !out.starts_with(word) => format!("{word} {out}"),
        _ => out,
    }
}

/// Whether a line with this text would be read as another block than a paragraph.
pub(super) fn opens_block(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    let digits = word.trim_end_matches(['.', ')']);
    text.starts_with(['#', '>', '|', '~', '=', '<'])
        || matches!(word, "-" | "*" | "+" | "---" | "***" | "___" | "")
        || (digits.len() < word.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        || text.starts_with("```")
}

/// Without passages in round brackets, unless they hold code, a link's target, or what negates or limits.
fn without_asides(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(" (") {
        let Some(close) = rest[open..].find(')').map(|at| open + at) else { break };
        let aside = &rest[open + 2..close];
        let keep =
            aside.contains(['`', '(', '[', '*']) || super::canonical::has_force(aside) || !balanced(&rest[..open]);
        out.push_str(if keep { &rest[..=close] } else { &rest[..open] });
        rest = &rest[close + 1..];
    }
    out + rest
}

/// Up to the first end of a sentence at which no bracket, code or emphasis is open, and behind which nothing negates
/// or limits.
fn first_sentence(text: &str) -> &str {
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        if !matches!(c, '.' | '!' | '?') || !bytes.get(at + 1).is_some_and(u8::is_ascii_whitespace) {
            continue;
        }
        let after = text[at + 1..].trim_start();
        let begins = after.starts_with(|c: char| c.is_uppercase() || c == '`' || c == '*');
        let word = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        let abbreviation = word.contains('.') || word.len() < 2 || matches!(word, "vs" | "etc" | "cf");
        if begins && !abbreviation && balanced(&text[..=at]) && !super::canonical::has_force(after) {
            return &text[..=at];
        }
    }
    text
}

/// Whether no code span, strong emphasis or bracket is left open.
fn balanced(text: &str) -> bool {
    let even = |mark: &str| text.matches(mark).count().is_multiple_of(2);
    even("`")
        && even("**")
        && even("__")
        && text.matches('[').count() == text.matches(']').count()
        && text.matches('(').count() == text.matches(')').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_word_is_longer_than_said() {
        let longest = FILLERS.iter().chain(JOINTS).map(|word| word.len()).max();
        assert_eq!(longest, Some(LONGEST));
        assert!(FILLERS.iter().chain(JOINTS).all(|word| holds(FILLERS, word) || holds(JOINTS, &word.to_uppercase())));
    }

    #[test]
    fn what_counts_stays() {
        let p = ItemKind::Paragraph;
        assert_eq!(
            terse("The backend is a REST API that we call over `the wire` in each of the regions.", p).unwrap(),
            "backend REST API call over `the wire` each regions."
        );
        assert_eq!(
            essence("The API is fast (see the wiki). It was written in 2019 by a team.", p).unwrap(),
            "API fast."
        );
        assert_eq!(essence("It works. Never call it twice.", p).unwrap(), "works. Never call twice.");
        assert!(essence("Logs are kept (never in S3).", p).unwrap().contains("(never in S3)"));
        assert_eq!(terse("```\nthe\n```", ItemKind::Code), None);
        assert_eq!(terse("The # of items is known", p).unwrap(), "The # items known");
        assert_eq!(
            gist("On Monday we moved the whole thing to another cluster", p).unwrap(),
            "On Monday we moved the whole thing to …"
        );
        assert_eq!(gist("On Monday we moved", p), None);
    }

    proptest! {
        /// Only words of the text, in their order, and settled after one go.
        #[test]
        fn shortening_only_leaves_out(text in "(the |is |It |A |[A-Za-z]{1,6}[.]? |`the x` |[(]see the y[)] |never |# |1[.] |- ){1,20}z") {
            for shorten in [terse, essence, gist] {
                let Some(short) = shorten(&text, ItemKind::Paragraph) else { continue };
                let mut words = text.split_whitespace();
                for word in short.trim_end_matches(" …").split_whitespace() {
                    prop_assert!(
                        words.any(|w| w == word || w.trim_end_matches([',', ';', ':']) == word),
                        "{word} in {short:?} of {text:?}"
                    );
                }
                let again = shorten(&short, ItemKind::Paragraph);
                prop_assert!(again.is_none(), "{text:?} → {short:?} → {again:?}");
                prop_assert_eq!(short.matches("never").count(), text.matches("never").count());
            }
        }
    }
}
