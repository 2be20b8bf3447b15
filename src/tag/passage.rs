//! How a phrase stands in a text: whether it speaks for the text or is only quoted, shown as code or forbidden.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Whether the bytes `at` are said by the text itself: outside code fences, inline code and quotation marks, and not
/// after a negation in the same line or in the sentence that introduces its list.
pub(super) fn speaks(text: &str, at: &Range<usize>) -> bool {
    !in_fence(text, at.start) && {
        let line_start = text[..at.start].rfind('\n').map_or(0, |i| i + 1);
        let before = &text[line_start..at.start];
        !in_inline_code(before) && !in_quotes(before) && !negated(before) && !introduced_by_negation(text, line_start)
    }
}

/// Whether byte `at` lies in a fenced code block.
pub(super) fn in_fence(text: &str, at: usize) -> bool {
    let mut open: Option<(u8, usize)> = None;
    for line in text[..at].lines() {
        if let Some((mark, length)) = fence(line) {
            open = match open {
                Some((m, l)) if m == mark && length >= l => None,
                Some(still) => Some(still),
                None => Some((mark, length)),
            };
        }
    }
    open.is_some()
}

/// The fence that a line opens or closes: its mark and length.
pub(super) fn fence(line: &str) -> Option<(u8, usize)> {
    let line = line.trim_start();
    let mark = *line.as_bytes().first()?;
    let length = line.bytes().take_while(|b| *b == mark).count();
    (matches!(mark, b'`' | b'~') && length >= 3).then_some((mark, length))
}

fn in_inline_code(before: &str) -> bool {
    before.bytes().filter(|b| *b == b'`').count() % 2 == 1
}

fn in_quotes(before: &str) -> bool {
    before.bytes().filter(|b| *b == b'"').count() % 2 == 1
        || before.matches('“').count() > before.matches('”').count()
        || before.matches('«').count() > before.matches('»').count()
}

fn negated(before: &str) -> bool {
    static NEGATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)\b(never|not|no|without|avoid|forbid(den)?|omit|remove|strip|exclude|prohibited|ban(ned)?|refrain|\w+n['’]t|instead of|disallow(ed)?)\b",
        )
        .ok()
    });
    // Only the sentence the phrase stands in.
    let sentence = before.rfind(['.', ';', '!', '?']).map_or(before, |i| &before[i + 1..]);
    NEGATION.as_ref().is_some_and(|n| n.is_match(sentence))
}

/// Whether the line is a list entry under an introduction ("Never include:") that negates it.
fn introduced_by_negation(text: &str, line_start: usize) -> bool {
    let entry = |line: &str| {
        let line = line.trim_start();
        line.starts_with(['-', '*', '+', '•']) || line.starts_with(|c: char| c.is_ascii_digit())
    };
    if !entry(&text[line_start..]) {
        return false;
    }
    text[..line_start]
        .lines()
        .rev()
        .take(20)
        .find(|line| {
            !line.trim().is_empty()
                && (!entry(line) || line.trim_end().ends_with(':') || line.trim_end().ends_with(":**"))
        })
        .is_some_and(negated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(text: &str) -> bool {
        let start = text.find("Generated with").unwrap();
        speaks(text, &(start..start + 14))
    }

    #[test]
    fn a_phrase_of_its_own_speaks() {
        assert!(spoken("# Title\n\nGenerated with a tool\n"));
        assert!(spoken("```sh\nls\n```\nGenerated with a tool\n"));
        assert!(spoken("We do not guess. Generated with a tool\n"));
    }

    #[test]
    fn code_quotes_and_negations_do_not() {
        for text in [
            "```\nGenerated with X\n```\n",
            "````md\n```\nGenerated with X\n```\n````\n",
            "~~~\n```\n~~~\n~~~\nGenerated with X\n",
            "Add `🤖 Generated with X` to it\n",
            "Commits carry \"Generated with X\"\n",
            "Never add Generated with X\n",
            "Don't write Generated with X\n",
            "**Never include in messages:**\n- Co-authors\n- Generated with X\n",
            "No footers:\n\n* Generated with X\n",
        ] {
            assert!(!spoken(text), "{text}");
        }
    }
}
