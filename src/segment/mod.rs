//! Items of an artifact: list entries, paragraphs, table rows, code blocks and instruction strings of settings, each
//! with its byte span, line and heading.

mod markdown;
mod mask;
mod pack;
mod settings;
mod sink;
mod yaml;

use crate::corpus::Segmentation;
use sink::{Layer, Sink};

pub use pack::{PackError, pack, unpack};

/// Raised whenever a text may be segmented otherwise than before, or the packed form changes.
pub const VERSION: u32 = 1;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Markdown,
    Yaml,
    Json,
    Toml,
    /// Programs and lists of patterns: nothing in them is told to an agent.
    Opaque,
}

impl Grammar {
    /// The grammar of the file at `path`, by the end of its name. Rule files without one (`.cursorrules`,
    /// `.goosehints`) are Markdown in practice, and plain text reads as Markdown paragraphs.
    fn of(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
        let name = [".example", ".sample", ".tmpl", ".template", ".j2", ".jinja", ".hbs", ".erb"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(&name);
        match name.rsplit_once('.').map(|(_, end)| end).unwrap_or_default() {
            "yaml" | "yml" => Self::Yaml,
            "json" | "jsonc" | "json5" => Self::Json,
            "toml" => Self::Toml,
            "bash" | "bat" | "c" | "cjs" | "cmd" | "cpp" | "cs" | "css" | "csv" | "go" | "java" | "js" | "jsonl"
            | "jsx" | "kt" | "lock" | "lua" | "mjs" | "php" | "pl" | "ps1" | "py" | "rb" | "rs" | "sh" | "sql"
            | "svg" | "swift" | "ts" | "tsx" | "zsh" => Self::Opaque,
            end if end.ends_with("ignore") => Self::Opaque,
            _ => Self::Markdown,
        }
    }
}

/// Find the items of `text`, the content of the file at `path`; the path decides how it is read.
///
/// Spans are in document order, never overlap, hold no white space at their ends and slice `text` at character
/// boundaries. A list entry is its own first text: entries below it and further blocks within it are items of their
/// own. A code block includes its fences, a table row its pipes, a quote its marks. HTML comments are no items, since
/// the tools that read these files strip them. In settings and front matter, a string that tells an agent something
/// is an item without its quotes; one of several lines is read as Markdown; its key stands as its heading. A settings
/// file that cannot be parsed, and a text of 4 GiB or more, has no items. Lines are counted by line feeds.
pub fn segment(path: &str, text: &str) -> Segmentation {
    if u32::try_from(text.len()).is_err() {
        return Segmentation::default();
    }
    let mut sink = Sink::new(text);
    match Grammar::of(path) {
        Grammar::Markdown => {
            let mut body = 0;
            if let Some((length, range)) = settings::front_matter(text) {
                settings::front_matter_items(text, range, &mut sink);
                body = length;
            }
            markdown::walk(&Layer { text: &text[body..], pieces: &[(0, body)] }, &mut sink, 0);
        }
        Grammar::Yaml => settings::yaml(text, &mut sink),
        Grammar::Json => settings::json(text, &mut sink),
        Grammar::Toml => settings::toml(text, &mut sink),
        Grammar::Opaque => {}
    }
    sink.finish()
}

/// `text` with every run of white space as one blank and none at the ends: the form in which items were labelled.
pub fn flatten(text: &str) -> String {
    let mut flat = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !flat.is_empty() {
            flat.push(' ');
        }
        flat.push_str(word);
    }
    flat
}

#[cfg(test)]
mod tests;
