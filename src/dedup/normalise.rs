//! Light normalisation, and what of a text must not differ between near duplicates.

use std::borrow::Cow;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The lines of `text` as they are compared: no byte order mark, no blank lines, white space at the ends removed and
/// elsewhere reduced to one space. Case, numbers and punctuation stay.
pub fn normalised_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut start = 0;
    memchr::memchr2_iter(b'\n', b'\r', text.as_bytes())
        .chain([text.len()])
        .map(move |end| {
            let line = &text[start..end];
            start = end + 1;
            line.trim()
        })
        .filter(|line| !line.is_empty())
        .map(|line| {
            if is_evenly_spaced(line) {
                Cow::Borrowed(line)
            } else {
                Cow::Owned(line.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        })
}

/// Whether a trimmed line has single spaces between its words and no other white space.
fn is_evenly_spaced(line: &str) -> bool {
    let bytes = line.as_bytes();
    let seen = bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .fold(0u8, |seen, (&a, &b)| seen | u8::from((a == b' ') & (b == b' ')) | u8::from(a < b' ') | (a & 0x80));
    if seen == 0 {
        return true;
    }
    if seen < 0x80 {
        return false;
    }
    let mut after_space = false;
    line.chars().all(|c| {
        let double = after_space && c == ' ';
        after_space = c == ' ';
        !double && (c == ' ' || !c.is_whitespace())
    })
}

/// The hash under which a normalised line is counted in [`super::LineFrequencies`].
pub fn line_hash(line: &str) -> u64 {
    xxh3_64(line.as_bytes())
}

/// Call `found` with the bytes of each word of a normalised line. Scripts written without spaces (Chinese, Japanese)
/// give one word a character, as their lines would otherwise be single words.
pub(super) fn for_each_word(line: &str, mut found: impl FnMut(&[u8])) {
    let bytes = line.as_bytes();
    let mut start = 0;
    let mut put = |start: usize, end: usize| {
        if let Some(word) = bytes.get(start..end).filter(|word| !word.is_empty()) {
            found(word);
        }
    };
    if line.is_ascii() {
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b' ' {
                put(start, at);
                start = at + 1;
            }
        }
    } else {
        for (at, c) in line.char_indices() {
            if c == ' ' {
                put(start, at);
                start = at + 1;
            } else if is_spaceless(c) {
                put(start, at);
                start = at + c.len_utf8();
                put(at, start);
            }
        }
    }
    put(start, bytes.len());
}

fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// What the critical tokens were taken from; part of their hash, so that a word never equals a line of code.
#[derive(Clone, Copy)]
enum Critical {
    Number = 1,
    CodeLine = 2,
    CodeSpan = 3,
}

/// Walks the lines of one document and hands out the hashes of its critical tokens.
#[derive(Default)]
pub(super) struct CriticalTokens {
    fence: Option<(u8, usize)>,
}

impl CriticalTokens {
    /// Call `found` with the hash of each critical token of the next normalised line.
    pub(super) fn line(&mut self, line: &str, mut found: impl FnMut(u64)) {
        if self.fence.is_none() && !may_be_critical(line) {
            return;
        }
        let mut emit = |kind: Critical, text: &str| found(xxh3_64_with_seed(text.as_bytes(), kind as u64));
        let mark = fence_mark(line);
        match (self.fence, mark) {
            (None, Some(open)) => {
                self.fence = Some(open);
                return;
            }
            (Some((byte, width)), Some((mark, length))) if mark == byte && length >= width => {
                self.fence = None;
                return;
            }
            (Some(_), _) => return emit(Critical::CodeLine, line),
            (None, None) => {}
        }
        // Pieces between backticks alternate between prose and code; an unclosed one is prose.
        let pieces = line.split('`').count();
        for (index, piece) in line.split('`').enumerate() {
            if index % 2 == 1 && index + 1 < pieces {
                if !piece.is_empty() {
                    emit(Critical::CodeSpan, piece.trim());
                }
                continue;
            }
            let skipped = if index == 0 { list_marker(piece) } else { 0 };
            for word in piece.get(skipped..).unwrap_or_default().split(' ') {
                if word.bytes().any(|b| b.is_ascii_digit()) {
                    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !"<>=~^$-+".contains(c));
                    if !is_date(word) {
                        emit(Critical::Number, word);
                    }
                }
            }
        }
    }
}

/// False for most lines of prose: nothing in them is code or has a digit.
fn may_be_critical(line: &str) -> bool {
    line.bytes().fold(false, |seen, b| seen | b.is_ascii_digit() | (b == b'`') | (b == b'~'))
}

fn fence_mark(line: &str) -> Option<(u8, usize)> {
    let byte = line.bytes().next().filter(|b| matches!(b, b'`' | b'~'))?;
    let length = line.bytes().take_while(|&b| b == byte).count();
    // A closed run on one line ("```code```") is a code span.
    (length >= 3 && !line.get(length..)?.contains(char::from(byte))).then_some((byte, length))
}

/// Bytes of a heading or list number at the start of a line: numbers that shift when an entry is added.
fn list_marker(line: &str) -> usize {
    let body = line.trim_start_matches(['#', '-', '*', '>', '|', ' ']);
    let digits = body.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let after = body.get(digits..).unwrap_or_default();
    let pointed = line.starts_with('#') || body.as_bytes().get(digits.wrapping_sub(1)) == Some(&b'.');
    let numbered = (1..=8).contains(&digits) && (after.starts_with(')') || (pointed && after.starts_with(' ')));
    if numbered { line.len() - after.len() } else { 0 }
}

/// `2025-06-30` and `2025/06/30`: when a copy was made, not what it says.
fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, b)| match index {
            4 | 7 => matches!(b, b'-' | b'/'),
            _ => b.is_ascii_digit(),
        })
}

/// Whether each line carries meaning of its own: JSON, `key: value` files, sections, lists of patterns.
pub(super) fn is_settings(text: &str) -> bool {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    let ends = (trimmed.as_bytes().first(), trimmed.as_bytes().last());
    if matches!(ends, (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']'))) {
        return true;
    }
    let (mut lines, mut assignments, mut single) = (0usize, 0usize, 0usize);
    for line in trimmed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("# ") || line.starts_with("//") {
            continue;
        }
        lines += 1;
        assignments += usize::from(is_assignment(line));
        single += usize::from(!line.contains(' ') && !line.starts_with('|') && line.is_ascii());
    }
    lines > 0 && (assignments * 10 >= lines * 7 || single * 10 >= lines * 8)
}

fn is_assignment(line: &str) -> bool {
    let line = line.strip_prefix("- ").unwrap_or(line);
    let key = line.trim_start_matches(['"', '\'']);
    let length = key.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_-.$/".contains(b)).count();
    let after = key.get(length..).unwrap_or_default().trim_start_matches(['"', '\'']);
    let section = line.starts_with('[') && line.ends_with(']');
    section || (length > 0 && (after == ":" || after.starts_with(": ") || after.trim_start().starts_with('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn critical(text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let mut tokens = CriticalTokens::default();
        normalised_lines(text).for_each(|line| tokens.line(&line, |hash| found.push(hash)));
        found
    }

    #[test]
    fn only_white_space_is_normalised_away() {
        let lines = |text| normalised_lines(text).map(Cow::into_owned).collect::<Vec<_>>();
        assert_eq!(lines("\u{feff}# A\r\n\r\n  b \t c  \n"), lines("# A\nb c"));
        assert_ne!(lines("Node 18"), lines("Node 20"));
        assert_ne!(lines("Use npm."), lines("use npm"));
    }

    #[test]
    fn languages_without_spaces_have_words() {
        let mut words = Vec::new();
        for_each_word("使用 Rust语言", |word| words.push(String::from_utf8(word.to_vec()).unwrap()));
        assert_eq!(words, ["使", "用", "Rust", "语", "言"]);
    }

    #[test]
    fn versions_and_code_are_critical_while_dates_and_list_numbers_are_not() {
        assert_eq!(
            critical("3. Write tests\n## 2.1 Style\nUpdated 2025-06-30."),
            critical("4. Write tests\n## 2.2 Style")
        );
        assert_ne!(critical("Use Node 18."), critical("Use Node 20."));
        assert_eq!(critical("Use Node 18."), critical("use (Node 18)"));
        assert_ne!(critical("Run `npm test` first"), critical("Run `pnpm test` first"));
        assert_ne!(critical("```sh\nmake a\n```"), critical("```sh\nmake b\n```"));
        assert_eq!(critical("```sh\n```\nplain words"), Vec::<u64>::new());
    }

    #[test]
    fn settings_are_told_from_prose() {
        for settings in ["{\"a\": 1}", "model: x\nread: y\n", "[a]\nb = 1\n", "target/\n*.log\nnode_modules\n"] {
            assert!(is_settings(settings), "{settings}");
        }
        for prose in
            ["# Title\n\n- Write tests first.\n- Keep it short.", "Note: this is prose.\nIt goes on and on.", ""]
        {
            assert!(!is_settings(prose), "{prose}");
        }
    }
}
