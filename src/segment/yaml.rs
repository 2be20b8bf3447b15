//! The strings of a YAML or JSON text with their exact byte ranges.
//!
//! A modest reader, line by line: block mappings and sequences, plain, quoted and block scalars, flow collections.
//! It does not resolve anchors, tags or escapes, and is lenient where people are: a plain scalar may hold `: `. Each
//! byte is looked at a bounded number of times.

use super::settings::Text;
use std::ops::Range;

/// A key of more words than this is prose with a colon in it.
const MAX_KEY_WORDS: usize = 3;

/// The strings of a YAML text in document order; nothing when a quote or bracket never closes.
pub(super) fn strings(text: &str) -> Option<Vec<Text>> {
    let mut reader = Reader { text, bytes: text.as_bytes(), found: Vec::new(), keys: Vec::new() };
    let mut at = 0;
    while at < text.len() {
        at = reader.line(at)?;
    }
    Some(reader.found)
}

/// The strings of a JSON text in document order; `//` and `/* */` comments and trailing commas are allowed. Nothing
/// when a quote, comment or bracket never closes, or brackets do not match.
pub(super) fn json_strings(text: &str) -> Option<Vec<Text>> {
    let mut reader = Reader { text, bytes: text.as_bytes(), found: Vec::new(), keys: Vec::new() };
    reader.flow(0, text.len(), 0..0, true)?;
    Some(reader.found)
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    found: Vec<Text>,
    /// Open keys of block mappings, by column.
    keys: Vec<(usize, Range<usize>)>,
}

impl Reader<'_> {
    /// End of the line at `at`, without its line feed.
    fn line_end(&self, at: usize) -> usize {
        self.bytes[at..].iter().position(|b| *b == b'\n').map_or(self.bytes.len(), |n| at + n)
    }

    fn blanks(&self, at: usize, end: usize) -> usize {
        at + self.bytes[at..end].iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
    }

    /// Read the entry that begins on the line at `start`; returns where the next one begins.
    fn line(&mut self, start: usize) -> Option<usize> {
        let full_end = self.line_end(start);
        let end = start + self.text[start..full_end].trim_end().len();
        let next = full_end + 1;
        let mut at = self.blanks(start, end.max(start));
        if at >= end || matches!(self.bytes[at], b'#' | b'%') || matches!(&self.text[start..end], "---" | "...") {
            return Some(next);
        }
        // The column that a value on further lines must be indented beyond.
        let mut column = at - start;
        let mut entry = false;
        while at < end && self.bytes[at] == b'-' && (at + 1 == end || matches!(self.bytes[at + 1], b' ' | b'\t')) {
            column = at - start;
            while self.keys.last().is_some_and(|(open, _)| *open > column) {
                self.keys.pop();
            }
            entry = true;
            at = self.blanks(at + 1, end);
        }
        if at >= end {
            return Some(next);
        }
        if let Some((key, after)) = self.key(at, end) {
            column = at - start;
            while self.keys.last().is_some_and(|(open, _)| *open >= column) {
                self.keys.pop();
            }
            self.keys.push((column, key));
            at = self.blanks(after, end);
        } else if !entry {
            column = column.saturating_sub(1);
        }
        while at < end && matches!(self.bytes[at], b'!' | b'&') {
            let token = self.bytes[at..end].iter().take_while(|b| !matches!(b, b' ' | b'\t')).count();
            at = self.blanks(at + token, end);
        }
        if at >= end {
            return Some(next);
        }
        let key = self.keys.last().map_or(0..0, |(_, key)| key.clone());
        match self.bytes[at] {
            b'#' | b'*' => Some(next),
            b'|' | b'>' => Some(self.block(next, column, key)),
            quote @ (b'"' | b'\'') => {
                let close = self.quoted(at + 1, quote)?;
                self.found.push(Text { key, content: at + 1..close, indent: None });
                Some(self.line_end(close) + 1)
            }
            b'[' | b'{' => {
                let after = self.flow(at, self.bytes.len(), key, false)?;
                Some(self.line_end(after) + 1)
            }
            _ => Some(self.plain(at, end, next, column, key)),
        }
    }

    /// The key at `at`, without quotes, and the offset behind its colon.
    fn key(&self, at: usize, end: usize) -> Option<(Range<usize>, usize)> {
        let ends = |colon: usize| colon + 1 >= end || matches!(self.bytes[colon + 1], b' ' | b'\t');
        match self.bytes[at] {
            quote @ (b'"' | b'\'') => {
                let close = at + 1 + self.bytes[at + 1..end].iter().position(|b| *b == quote)?;
                let colon = self.blanks(close + 1, end);
                (colon < end && self.bytes[colon] == b':' && ends(colon)).then(|| (at + 1..close, colon + 1))
            }
            b'[' | b'{' | b'|' | b'>' | b'#' => None,
            _ => {
                let colon = (at..end).find(|colon| self.bytes[*colon] == b':' && ends(*colon))?;
                let key = self.text.get(at..colon)?.trim_end();
                let words = key.split_whitespace().take(MAX_KEY_WORDS + 1).count();
                (words <= MAX_KEY_WORDS && !key.is_empty()).then(|| (at..at + key.len(), colon + 1))
            }
        }
    }

    /// The block scalar whose lines begin at `start` and are indented beyond `column`.
    fn block(&mut self, start: usize, column: usize, key: Range<usize>) -> usize {
        let mut at = start;
        let mut content: Option<Range<usize>> = None;
        let mut indent = 0;
        while at < self.bytes.len() {
            let end = self.line_end(at);
            let text = self.blanks(at, end);
            if !self.text[at..end].trim().is_empty() {
                // Zero columns are enough for a block at the top of a document only; keys stand at zero, too.
                if text - at <= column {
                    break;
                }
                if content.is_none() {
                    indent = text - at;
                }
                content = Some(content.map_or(text, |open| open.start)..end);
            }
            at = end + 1;
        }
        if let Some(content) = content {
            self.found.push(Text { key, content, indent: Some(indent) });
        }
        at
    }

    /// The plain scalar at `at`, with the lines that continue it.
    fn plain(&mut self, at: usize, end: usize, next: usize, column: usize, key: Range<usize>) -> usize {
        let comment = self.text[at..end].find(" #");
        let mut last = comment.map_or(end, |n| at + n);
        let mut next = next;
        while comment.is_none() && next < self.bytes.len() {
            let end = self.line_end(next);
            let text = self.blanks(next, end);
            let line = self.text[text..end].trim_end();
            if line.is_empty() || line.starts_with('#') || text - next <= column {
                break;
            }
            last = text + line.len();
            next = end + 1;
        }
        self.found.push(Text { key, content: at..last, indent: None });
        next
    }

    /// The offset of the quote that closes the string whose text begins at `at`.
    fn quoted(&self, mut at: usize, quote: u8) -> Option<usize> {
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'\\' if quote == b'"' => at += 1,
                byte if byte == quote => {
                    if quote == b'\'' && self.bytes.get(at + 1) == Some(&b'\'') {
                        at += 1;
                    } else {
                        return Some(at);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Quoted strings of the flow collection at `at`; returns the offset behind it. As `json`, comments are those of
    /// JavaScript, any number of values may follow, and single quotes are text.
    fn flow(&mut self, mut at: usize, end: usize, key: Range<usize>, json: bool) -> Option<usize> {
        let mut open: Vec<(u8, Range<usize>)> = Vec::new();
        let mut key = key;
        // A quote opens a string only where a value may begin.
        let mut fresh = true;
        while at < end {
            match self.bytes[at] {
                bracket @ (b'[' | b'{') => {
                    open.push((bracket, key.clone()));
                    fresh = true;
                }
                bracket @ (b']' | b'}') => {
                    let (opened, outer) = open.pop()?;
                    if opened != bracket - 2 {
                        return None;
                    }
                    key = outer;
                    fresh = false;
                    if open.is_empty() && !json {
                        return Some(at + 1);
                    }
                }
                quote @ (b'"' | b'\'') if fresh && (quote == b'"' || !json) => {
                    let close = self.quoted(at + 1, quote)?;
                    let after =
                        close + 1 + self.bytes[close + 1..end].iter().take_while(|b| b.is_ascii_whitespace()).count();
                    if after < end && self.bytes[after] == b':' && open.last().is_some_and(|(b, _)| *b == b'{') {
                        key = at + 1..close;
                    } else {
                        self.found.push(Text { key: key.clone(), content: at + 1..close, indent: None });
                        fresh = false;
                    }
                    at = after;
                    continue;
                }
                b'/' if json && self.bytes.get(at + 1) == Some(&b'/') => at = self.line_end(at),
                b'/' if json && self.bytes.get(at + 1) == Some(&b'*') => at += self.text.get(at..)?.find("*/")? + 1,
                b'#' if !json && at > 0 && self.bytes[at - 1].is_ascii_whitespace() => at = self.line_end(at),
                b',' | b':' => fresh = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => fresh = json,
            }
            at += 1;
        }
        (json && open.is_empty()).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str, found: Option<Vec<Text>>) -> Vec<(String, String)> {
        let cut = |range: Range<usize>| text[range].to_owned();
        found.unwrap().into_iter().map(|found| (cut(found.key), cut(found.content))).collect()
    }

    #[test]
    fn yaml_strings_are_cut_exactly() {
        let text = "name: x # why\nlist:\n- \"a \\\" b\"\n- 'it''s'\n  more: no\nnested:\n  - title: T\n    text: one\n      two\nblock: |-\n  first\n\n  second\nflow: {a: \"q\", b: [ 'r' , plain]}\nlast: z\n";
        let expected = [
            ("name", "x"),
            ("list", "a \\\" b"),
            ("list", "it''s"),
            ("more", "no"),
            ("title", "T"),
            ("text", "one\n      two"),
            ("block", "first\n\n  second"),
            ("flow", "q"),
            ("flow", "r"),
            ("last", "z"),
        ];
        let found = pairs(text, strings(text));
        let found: Vec<_> = found.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn json_strings_know_their_nearest_key() {
        let text = "{ // note\n \"a\": [\"x\", {\"b\": \"y\"}, \"z\"], /* \" */ \"c\": \"w\", }";
        let found = pairs(text, json_strings(text));
        let found: Vec<_> = found.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(found, [("a", "x"), ("b", "y"), ("a", "z"), ("c", "w")]);
    }

    #[test]
    fn what_never_closes_is_not_read() {
        for text in ["{\"a\": \"b", "{\"a\": [1}", "[[[", "]"] {
            assert_eq!(json_strings(text), None, "{text}");
        }
        for text in ["a: \"b\n", "a: [b\n"] {
            assert_eq!(strings(text), None, "{text}");
        }
    }
}
