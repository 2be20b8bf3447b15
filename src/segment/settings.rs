//! Instruction strings of settings: which strings of a YAML, JSON or TOML text, or of YAML front matter, are items.

use super::markdown;
use super::sink::{Layer, Sink};
use super::yaml;
use crate::taxonomy::ItemKind;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A string of a settings file. Ranges are byte ranges of the raw text; quotes and block headers lie outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// The nearest key above, without quotes; empty at the top.
    pub(super) key: Range<usize>,
    /// The string, as it is written: escapes are not resolved.
    pub(super) content: Range<usize>,
    /// For a string of several lines without escapes: columns that every line is indented by.
    pub(super) indent: Option<usize>,
}

/// Keys whose strings are told to an agent, whatever they look like. Compared without case, `-`, `_` and blanks.
const TOLD: &[&str] = &[
    "additionalcontext",
    "backstory",
    "content",
    "context",
    "custominstructions",
    "description",
    "developerinstructions",
    "goal",
    "guidelines",
    "instruction",
    "instructions",
    "message",
    "note",
    "notes",
    "persona",
    "prompt",
    "reason",
    "role",
    "rule",
    "rules",
    "summary",
    "systemmessage",
    "systemprompt",
    "text",
    "userprompt",
    "whentouse",
];

/// Keys whose strings are operands of a tool, even where they read like a sentence.
const OPERAND: &[&str] = &[
    "agent",
    "allow",
    "allowedtools",
    "applyto",
    "argumenthint",
    "args",
    "ask",
    "author",
    "bash",
    "cmd",
    "color",
    "command",
    "commands",
    "deny",
    "disallowedtools",
    "email",
    "env",
    "exclude",
    "file",
    "files",
    "globs",
    "glob",
    "homepage",
    "icon",
    "id",
    "if",
    "ignore",
    "include",
    "install",
    "keywords",
    "license",
    "matcher",
    "model",
    "name",
    "path",
    "paths",
    "pattern",
    "patterns",
    "regex",
    "repository",
    "run",
    "schema",
    "script",
    "scripts",
    "setup",
    "shell",
    "source",
    "start",
    "tags",
    "terminals",
    "title",
    "tools",
    "type",
    "uri",
    "url",
    "version",
];

/// Add the instruction strings of `texts`, strings of `text` in document order, to `sink`.
fn add(text: &str, mut texts: Vec<Text>, sink: &mut Sink<'_>) {
    texts.sort_by_key(|found| found.content.start);
    sink.paragraph = ItemKind::Setting;
    for found in texts {
        let Some(content) = text.get(found.content.clone()) else { continue };
        if !is_instruction(text.get(found.key.clone()).unwrap_or_default(), content) {
            continue;
        }
        sink.key(found.key);
        let base = found.content.start;
        let whole = Layer { text: content, pieces: &[(0, base)] };
        if let Some(indent) = found.indent {
            let mut at = 0;
            let mut lines = Vec::new();
            for line in content.split_inclusive('\n') {
                // The first line may begin behind its indent.
                let blank = line.len() - line.trim_start_matches(' ').len();
                lines.push(at + blank.min(indent)..at + line.len());
                at += line.len();
            }
            let (text, pieces) = whole.gather(&lines);
            markdown::walk(&Layer { text: &text, pieces: &pieces }, sink, 0);
        } else {
            whole.item(sink, 0..content.len(), ItemKind::Setting);
        }
    }
    sink.leave_headings();
    sink.paragraph = ItemKind::Paragraph;
}

/// Whether the string `content` of `key` tells an agent something, rather than configuring a tool.
fn is_instruction(key: &str, content: &str) -> bool {
    let key: String = key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if OPERAND.contains(&key.as_str()) {
        return false;
    }
    let told = TOLD.contains(&key.as_str());
    // Scripts without blanks between words: letters outside ASCII stand for words.
    let dense = content.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).take(6).count();
    let (mut words, mut others) = (0, 0);
    for token in content.split_whitespace().take(200) {
        let word = token.trim_matches(|c: char| !c.is_alphanumeric());
        if !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '’' | '-' | '/')) {
            words += 1;
        } else {
            others += 1;
        }
    }
    if told { words >= 2 || dense >= 4 } else { dense >= 6 || (words >= 4 && words >= 2 * others) }
}

/// Items of a YAML text; none when it cannot be read as YAML.
pub(super) fn yaml(text: &str, sink: &mut Sink<'_>) {
    if let Some(texts) = yaml::strings(text) {
        add(text, texts, sink);
    }
}

/// Items of a JSON text, comments and trailing commas allowed; none when it cannot be read.
pub(super) fn json(text: &str, sink: &mut Sink<'_>) {
    if let Some(texts) = yaml::json_strings(text) {
        add(text, texts, sink);
    }
}

/// Items of a TOML text; none when it cannot be read.
pub(super) fn toml(text: &str, sink: &mut Sink<'_>) {
    let Ok(table) = DeTable::parse(text) else { return };
    let mut texts = Vec::new();
    toml_table(text, table.get_ref(), &mut texts);
    add(text, texts, sink);
}

/// The parser bounds the depth of values, and so of this recursion.
fn toml_table(text: &str, table: &DeTable<'_>, texts: &mut Vec<Text>) {
    for (key, value) in table {
        let key = unquoted(text, key.span());
        toml_value(text, &key, value.get_ref(), value.span(), texts);
    }
}

fn toml_value(text: &str, key: &Range<usize>, value: &DeValue<'_>, span: Range<usize>, texts: &mut Vec<Text>) {
    match value {
        DeValue::String(_) => {
            let raw = text.get(span.clone()).unwrap_or_default();
            let long = raw.len() >= 6 && (raw.starts_with("\"\"\"") || raw.starts_with("'''"));
            let content = if long { span.start + 3..span.end - 3 } else { unquoted(text, span) };
            texts.push(Text { key: key.clone(), content, indent: long.then_some(0) });
        }
        DeValue::Array(values) => {
            for value in values.iter() {
                toml_value(text, key, value.get_ref(), value.span(), texts);
            }
        }
        DeValue::Table(table) => toml_table(text, table, texts),
        _ => {}
    }
}

/// `span` without the quotes around it.
fn unquoted(text: &str, span: Range<usize>) -> Range<usize> {
    let quoted = text.get(span.clone()).is_some_and(|raw| raw.len() >= 2 && raw.starts_with(['"', '\'']));
    if quoted { span.start + 1..span.end - 1 } else { span }
}

/// Length of the YAML front matter of `text` with both its fences, and the range between them. A rule drawn at the
/// top is none: front matter names a key first.
pub(super) fn front_matter(text: &str) -> Option<(usize, Range<usize>)> {
    let body = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let mut at = text.len() - body.len();
    let mut lines = body.split_inclusive('\n');
    let open = lines.next().filter(|line| line.trim_end() == "---")?;
    at += open.len();
    let start = at;
    let mut named = false;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return (named || text[start..at].trim().is_empty()).then(|| (at + line.len(), start..at));
        }
        let trimmed = line.trim();
        if !named && !trimmed.is_empty() && !trimmed.starts_with('#') {
            named = trimmed.split_once(':').is_some_and(|(key, _)| !key.is_empty() && !key.contains([' ', '|', '*']));
            if !named {
                return None;
            }
        }
        at += line.len();
    }
    None
}

/// Items of the front matter at `range` of `text`.
pub(super) fn front_matter_items(text: &str, range: Range<usize>, sink: &mut Sink<'_>) {
    let Some(mut texts) = yaml::strings(&text[range.clone()]) else { return };
    for found in &mut texts {
        found.key = found.key.start + range.start..found.key.end + range.start;
        found.content = found.content.start + range.start..found.content.end + range.start;
    }
    add(text, texts, sink);
}
