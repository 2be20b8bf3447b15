//! A copy of a Markdown text in which only block structure is left to parse.
//!
//! Items are blocks, so emphasis, links, code spans and inline HTML are of no interest here, while they hold every
//! corner where an inline parser may turn quadratic. The copy has the same length and the same line and character
//! boundaries as the original; inline marks are overwritten with a letter, so every offset holds in both. It also
//! settles four readings in which text written for agents departs from a web page:
//!
//! - `<rules>` and its kin are words, not HTML: what stands between them is Markdown. Comments stay HTML.
//! - `[name]: target` and `[^1]: note` are text and must not vanish as definitions.
//! - a fenced block with a language inside a fenced block is nested, also when its fence is no shorter; by the letter
//!   of the grammar it would end the outer block, whose own end would then open a block over the prose that follows.
//! - a byte order mark, NUL, form feed and vertical tab are blanks.

/// Containers (quotes, list entries) that one line may open. What follows deeper is read as text, since a parser
/// that looks ahead once per container would need quadratic time on `- - - - …`.
const MAX_CONTAINERS: usize = 32;

/// Columns of white space before a marker beyond which it is text: bounds nesting over many lines.
const MAX_INDENT: usize = 160;

/// The masked copy of `text`.
pub(super) fn mask(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let comments_end = text.rfind("-->").unwrap_or(0);
    let mut fences = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let end = bytes[start..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| start + at);
        fences.extend(mask_line(&mut bytes, start, end, comments_end));
        start = end + 1;
    }
    mask_nested(&mut bytes, &fences);
    // Only ASCII bytes were exchanged for ASCII bytes and the mark for three blanks, so this copy is never lossy.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A line that may open or close a fenced block.
struct Fence {
    at: usize,
    mark: u8,
    length: usize,
    /// Something follows the fence: it can only open.
    opens: bool,
    /// A list marker stands before it on its line: it cannot close.
    in_entry: bool,
}

/// Mask the line `start..end` (without its line feed); returns the fence that it holds. A comment may open only before `comments_end`, so that an
/// unclosed one does not swallow the rest of the file.
fn mask_line(bytes: &mut [u8], start: usize, end: usize, comments_end: usize) -> Option<Fence> {
    for byte in &mut bytes[start..end] {
        if matches!(*byte, 0 | 0x0b | 0x0c) {
            *byte = b' ';
        }
    }
    let content = match after_containers(bytes, start, end) {
        Ok(content) => content,
        Err(rest) => {
            for byte in bytes[rest..end].iter_mut().filter(|b| b.is_ascii_graphic()) {
                *byte = b'x';
            }
            return None;
        }
    };
    let line = &bytes[content..end];
    let first = line.first().copied().unwrap_or(b' ');
    let run = line.iter().take_while(|b| **b == first).count();
    match first {
        b'`' | b'~' if run >= 3 && !(first == b'`' && line[run..].contains(&b'`')) => {
            let opens = line[run..].iter().any(|b| !b.is_ascii_whitespace());
            let in_entry = bytes[start..content].iter().any(|b| !matches!(b, b' ' | b'\t' | b'>'));
            mask_inline(bytes, content + run, end);
            return Some(Fence { at: content, mark: first, length: run, opens, in_entry });
        }
        // A thematic break.
        b'*' | b'_' if line.iter().all(|b| *b == first || b.is_ascii_whitespace()) => {}
        b'<' if line.starts_with(b"<!--") && content < comments_end => mask_inline(bytes, content + 4, end),
        _ => mask_inline(bytes, content, end),
    }
    None
}

/// Overwrite the fences of nested blocks. Where counting them finds no end of the outer block, they are no nested
/// blocks, and the rest of the text is left to the grammar.
fn mask_nested(bytes: &mut [u8], fences: &[Fence]) {
    let mut next = 0;
    while let Some(outer) = fences.get(next) {
        let mut depth = 1;
        let mut nested = Vec::new();
        let end = fences[next + 1..].iter().position(|fence| {
            if fence.mark == outer.mark && fence.length >= outer.length {
                if fence.opens || fence.in_entry {
                    depth += 1;
                } else {
                    depth -= 1;
                }
                nested.push(fence);
            }
            depth == 0
        });
        let Some(end) = end else { return };
        nested.pop();
        for fence in nested {
            bytes[fence.at..fence.at + fence.length].fill(b'x');
        }
        next += end + 2;
    }
}

/// Where the text of a line begins, behind its quote marks, bullets and numbers; as an error where they go too deep.
fn after_containers(bytes: &[u8], start: usize, end: usize) -> Result<usize, usize> {
    let blank = |at: usize| at >= end || bytes[at].is_ascii_whitespace();
    let mut at = start;
    let mut indent = 0;
    for _ in 0..MAX_CONTAINERS {
        while at < end && bytes[at].is_ascii_whitespace() {
            indent += 1;
            at += 1;
        }
        if at >= end {
            return Ok(at);
        }
        if indent > MAX_INDENT {
            break;
        }
        match bytes[at] {
            b'>' => at += 1,
            b'-' | b'+' | b'*' if blank(at + 1) => at += 1,
            b'0'..=b'9' => {
                let digits = bytes[at..end].iter().take(10).take_while(|b| b.is_ascii_digit()).count();
                let point = at + digits;
                if digits <= 9 && point < end && matches!(bytes[point], b'.' | b')') && blank(point + 1) {
                    at = point + 1;
                } else {
                    return Ok(at);
                }
            }
            _ => return Ok(at),
        }
    }
    Err(at)
}

/// Overwrite what has a meaning only within a line. `\|` stays, since it decides where a table cell ends; `-->` stays, since it ends a comment.
fn mask_inline(bytes: &mut [u8], start: usize, end: usize) {
    let mut at = start;
    while at < end {
        match bytes[at] {
            b'\\' if at + 1 < end && bytes[at + 1] == b'|' => at += 1,
            b'>' if at >= 2 && bytes[at - 2..at] == *b"--" => {}
            b'*' | b'_' | b'~' | b'`' | b'[' | b']' | b'<' | b'>' | b'&' | b'\\' => bytes[at] = b'x',
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_marks_go_and_block_marks_stay() {
        for (text, masked) in [
            ("- **Bold** and [a](b)\n", "- xxBoldxx and xax(b)\n"),
            ("> 1. `x` <br>\n", "> 1. xxx xbrx\n"),
            ("```rust\n", "```rust\n"),
            ("```a``` inline\n", "xxxaxxx inline\n"),
            ("* * *\n", "* * *\n"),
            ("***\n", "***\n"),
            ("| a \\| b | `c` |\n|---|:-:|\n", "| a \\| b | xcx |\n|---|:-:|\n"),
            ("<!-- a -->\n<rules>\n", "<!-- a -->\nxrulesx\n"),
            ("<!-- never closed\n", "x!-- never closed\n"),
            ("\u{feff}# T\r\n", "   # T\r\n"),
            ("a\0b\u{c}\n", "a b \n"),
        ] {
            assert_eq!(mask(text), masked, "{text:?}");
        }
    }

    #[test]
    fn nested_fences_are_text_when_they_balance() {
        let nested = "```md\n```sh\nls\n```\n```\nProse\n";
        assert_eq!(mask(nested), "```md\nxxxsh\nls\nxxx\n```\nProse\n");
        let open = "```md\n```sh\nls\n```\nProse\n";
        assert_eq!(mask(open), open);
    }

    #[test]
    fn depth_of_one_line_is_bounded() {
        let masked = mask(&format!("{}a", "- ".repeat(500)));
        assert_eq!(masked.matches("- ").count(), MAX_CONTAINERS);
        let masked = mask(&"> ".repeat(500));
        assert_eq!(masked.matches('>').count(), MAX_CONTAINERS);
    }
}
