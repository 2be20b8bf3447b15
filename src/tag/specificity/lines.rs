//! What the lines of a text name: the repository, its paths and commands, or technologies.

use super::{COMMON_DIR, EXTENSION, KNOWN_FILE, PLAIN_LANGUAGE, RUNNER, STACK, STACK_EXACT, STACK_LOWERED, TARGET};
use crate::tag::passage;

/// How much of a text is looked at, in bytes: enough to know what it is about.
const HEAD: usize = 8 << 10;
/// A title is looked for in this many lines.
const TITLE_LINES: u32 = 12;
/// "You are a …" is looked for in this many lines.
const PERSONA_LINES: u32 = 40;

/// What one line holds.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub own: bool,
    pub stack: bool,
    pub path: bool,
    pub file: bool,
    pub command: bool,
    pub identifier: bool,
    pub here: bool,
    pub placeholder: bool,
}

/// Counts over lines, and what was seen once.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Counts {
    pub lines: u32,
    pub code: u32,
    pub shared: u32,
    pub own: u32,
    pub own_code: u32,
    pub stack: u32,
    pub stack_code: u32,
    pub path: u32,
    pub file: u32,
    pub command: u32,
    pub identifier: u32,
    pub here: u32,
    pub placeholder: u32,
    /// Lines that name something of the project.
    pub project: u32,
    /// Lines that name a technology and nothing of the project.
    pub stack_only: u32,
    /// A code block of a programming language.
    pub language: bool,
    /// Front matter as skills that are handed on carry it: licence, author, version.
    pub packaged: bool,
    /// The text speaks to an expert of some trade.
    pub persona: bool,
    pub title_own: bool,
    pub title_stack: bool,
}

impl Counts {
    fn count(&mut self, seen: Seen, code: bool, title: bool) {
        let project = seen.own || seen.path || seen.command || (!code && (seen.file || seen.identifier));
        self.project += u32::from(project);
        self.stack_only += u32::from(seen.stack && !project);
        self.own += u32::from(seen.own && !code);
        self.own_code += u32::from(seen.own && code);
        self.stack += u32::from(seen.stack && !code);
        self.stack_code += u32::from(seen.stack && code);
        self.path += u32::from(seen.path);
        self.file += u32::from(seen.file);
        self.command += u32::from(seen.command);
        self.identifier += u32::from(seen.identifier);
        self.here += u32::from(seen.here);
        self.placeholder += u32::from(seen.placeholder);
        self.title_own |= title && seen.own;
        self.title_stack |= title && seen.stack;
    }
}

impl super::SpecificityRules {
    /// Read the head of a text. `own` are the repository's names, lower case.
    pub(super) fn read(&self, text: &str, own: &[String], line_owners: &dyn Fn(&str) -> u32) -> Counts {
        let mut end = text.len().min(HEAD);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        // Lower case of ASCII alone keeps every byte where it is.
        let lower = text.to_ascii_lowercase();
        // Most texts name nothing of their repository: one look at the whole spares one at each word.
        let own = if own.iter().any(|name| lower.contains(name.as_str())) { own } else { &[] };
        let mut counts = Counts::default();
        let (mut fence, mut titled, mut at) = (None, false, 0);
        for raw in text.split_inclusive('\n') {
            let line = raw.trim();
            let from = at + (raw.len() - raw.trim_start().len());
            at += raw.len();
            if let Some((mark, length)) = passage::fence(line) {
                fence = match fence {
                    Some((m, l)) if m == mark && length >= l => None,
                    None => Some((mark, length)),
                    open => open,
                };
                let name = lower[from..from + line.len()].trim_matches(['`', '~', ' ']);
                let lists = self.words.lists(name);
                counts.language |= lists & (EXTENSION | STACK) != 0 && lists & PLAIN_LANGUAGE == 0;
                continue;
            }
            if line.len() <= 2 {
                continue;
            }
            let code = fence.is_some();
            counts.lines += 1;
            counts.code += u32::from(code);
            counts.shared += u32::from(line.len() >= 24 && line_owners(line) >= 2);
            counts.packaged |= ["license:", "author:", "generatedBy:", "version:", "compatibility:"]
                .iter()
                .any(|field| line.starts_with(field));
            let lowered = &lower[from..from + line.len()];
            counts.persona |= counts.lines < PERSONA_LINES && is_persona(lowered);
            let title = counts.lines < TITLE_LINES && !code && !titled && is_title(line);
            titled |= title && line.starts_with("# ");
            counts.count(self.line(line, lowered, code, own), code, title);
        }
        counts
    }

    fn line(&self, line: &str, lower: &str, code: bool, own: &[String]) -> Seen {
        let own = if own.iter().any(|name| lower.contains(name.as_str())) { own } else { &[] };
        let ticked = !code && line.contains('`');
        let mut seen = Seen::default();
        // The runner whose target is awaited.
        let mut runner = false;
        for (from, to) in tokens(line) {
            let (token, low) = (&line[from..to], &lower[from..to]);
            let holds = low.bytes().fold(0, |seen, byte| seen | MARKS[usize::from(byte)]);
            let lists = self.words.lists(low);
            let exact = || lists & STACK_LOWERED != 0 && self.words.has(token, STACK_EXACT);
            if names_own(low, own) {
                seen.own = true;
            } else if lists & STACK != 0 || exact() {
                seen.stack = true;
            } else if holds & JOIN != 0 {
                let part = |part: &str| part.len() > 2 && self.words.has(part, STACK);
                seen.stack |= low.split(['-', '/', '.', '@', '_']).any(part);
            }
            if runner && low != "run" {
                seen.command |= (code || ticked) && self.is_target(low);
                runner = false;
            } else {
                runner |= lists & RUNNER != 0;
            }
            // Most words are neither.
            if holds & (SLASH | DOT) != 0 && holds & BLANK == 0 {
                self.place(low, &mut seen);
            }
        }
        if !code {
            seen.identifier = ticked && has_identifier(line);
            seen.here = self.here.is_match(lower);
            seen.placeholder = has_placeholder(line);
        }
        seen
    }

    /// Whether the word after a runner is a target that this project named.
    fn is_target(&self, word: &str) -> bool {
        word.len() >= 2
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_:.-".contains(&b))
            && !word.split(':').any(|part| self.words.has(part, TARGET))
    }

    /// Paths that lead through a folder not every project has, and files not every project has. `low` has a slash or a
    /// dot and nothing that stands for something else.
    fn place(&self, low: &str, seen: &mut Seen) {
        let slash = low.contains('/');
        if low.contains("://") || low.starts_with("www.") {
            return;
        }
        let name = low.rsplit('/').next().unwrap_or(low);
        let is_file =
            name.rsplit_once('.').is_some_and(|(stem, ext)| !stem.is_empty() && self.words.has(ext, EXTENSION));
        if slash && !low.starts_with('@') {
            let parts = low.split('/').filter(|part| !part.is_empty());
            let count = parts.clone().count();
            if count >= 2 && (is_file || count >= 3 || low.ends_with('/')) {
                let own = |folder: &str| {
                    !folder.starts_with('.') && !folder.contains('*') && !self.words.has(folder, COMMON_DIR | STACK)
                };
                seen.path |= parts.take(count - usize::from(is_file)).any(own);
            }
        } else if is_file && !low.contains('*') && !self.words.has(name, KNOWN_FILE) {
            seen.file = true;
        }
    }
}

// What a byte does in a line: bits of `MARKS`.
/// Stands between words.
const SPLIT: u8 = 1;
/// Belongs to no word at its ends.
const STRIP: u8 = 1 << 1;
/// Joins words into one.
const JOIN: u8 = 1 << 2;
const SLASH: u8 = 1 << 3;
const DOT: u8 = 1 << 4;
/// Stands for something that is filled in.
const BLANK: u8 = 1 << 5;

const MARKS: [u8; 256] = {
    let lists: [(&[u8], u8); 6] = [
        (b" \t\n\x0c\r()[]\"'`,;:|*!?=", SPLIT),
        (b".<>{}-_#&", STRIP),
        (b"-/.@_", JOIN),
        (b"/", SLASH),
        (b".", DOT),
        (b"<>{}$%+~", BLANK),
    ];
    let mut marks = [0; 256];
    let mut list = 0;
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].0.len() {
            marks[lists[list].0[at] as usize] |= lists[list].1;
            at += 1;
        }
        list += 1;
    }
    marks
};

/// Byte ranges of the words of a line, stripped of the marks around them; words of one byte are left out.
fn tokens(line: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let bytes = line.as_bytes();
    let parts = |byte: &u8| MARKS[usize::from(*byte)] & SPLIT != 0;
    let strips = |byte: &&u8| MARKS[usize::from(**byte)] & STRIP != 0;
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let from = at + bytes[at..].iter().position(|b| !parts(b))?;
            let to = bytes[from..].iter().position(parts).map_or(bytes.len(), |length| from + length);
            at = to;
            let word = &bytes[from..to];
            let front = word.iter().take_while(strips).count();
            let back = word[front..].iter().rev().take_while(strips).count();
            if to - back - from - front >= 2 {
                return Some((from + front, to - back));
            }
        }
    })
}

/// Whether a token, lower case, carries one of the repository's names. A short name must be a whole part.
pub(super) fn names_own(lower: &str, own: &[String]) -> bool {
    own.iter().any(|name| {
        lower.contains(name.as_str())
            && (name.len() >= 6 || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == name))
    })
}

/// Whether a line says what the text is about: its first heading, or a field of the front matter.
fn is_title(line: &str) -> bool {
    line.starts_with("# ")
        || ["name:", "description:", "title:", "globs:", "applyTo:", "paths:"].iter().any(|key| line.starts_with(key))
}

/// Whether a line, lower case, tells the reader who to be.
fn is_persona(lower: &str) -> bool {
    let line = lower.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    line.strip_prefix("you are ").is_some_and(|rest| ["a ", "an ", "the "].iter().any(|word| rest.starts_with(word)))
}

/// Whether inline code of the line holds a name that somebody coined: camelCase, snake_case or a scoped name.
fn has_identifier(line: &str) -> bool {
    line.split('`').skip(1).step_by(2).any(|code| {
        let camel = code.as_bytes().windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase());
        camel || code.contains("::") || (code.contains('_') && !code.contains(' '))
    })
}

/// Whether a line has a blank to fill in: `<name of it>`, `{name}`.
fn has_placeholder(line: &str) -> bool {
    let blank = |rest: &str, close: char, first: fn(&char) -> bool| {
        rest.starts_with(|c: char| first(&c))
            && rest
                .find(|c: char| !(c.is_alphanumeric() || "_- ".contains(c)))
                .is_some_and(|end| rest[end..].starts_with(close))
    };
    line.bytes().enumerate().filter(|(_, mark)| matches!(mark, b'<' | b'{')).any(|(at, mark)| {
        let rest = &line[at + 1..];
        if mark == b'<' {
            blank(rest, '>', char::is_ascii_alphabetic)
        } else {
            blank(rest, '}', char::is_ascii_lowercase)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_marks_and_stripped() {
        let words = |line| tokens(line).map(|(a, b)| &line[a..b]).collect::<Vec<_>>();
        assert_eq!(
            words("- Run `make tf-plan` (see **src/a.rs**), v2."),
            ["Run", "make", "tf-plan", "see", "src/a.rs", "v2"]
        );
        assert_eq!(words("über — naïve_"), ["über", "—", "naïve"]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn blanks_and_names_are_told_from_markup() {
        for (line, blank) in [
            ("Use <feature name> here", true),
            ("Hello {name}", true),
            ("a < b and c > d", false),
            ("</div>", false),
            ("{ x: 1 }", false),
        ] {
            assert_eq!(has_placeholder(line), blank, "{line}");
        }
        assert!(has_identifier("call `doThing` now") && has_identifier("`a_b`") && !has_identifier("`ls -l`"));
    }
}
