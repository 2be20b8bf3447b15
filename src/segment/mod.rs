//! Items of an artifact: list entries, paragraphs, table rows, code blocks and instruction strings of settings, each
//! with its byte span, line and heading.

mod markdown;
mod mask;
mod sink;

use crate::corpus::Segmentation;
use sink::{Layer, Sink};

/// Raised whenever a text may be segmented otherwise than before, or the packed form changes.
pub const VERSION: u32 = 1;

/// Find the items of `text`.
pub fn segment(_path: &str, text: &str) -> Segmentation {
    let mut sink = Sink::new(text);
    markdown::walk(&Layer { text, pieces: &[] }, &mut sink, 0);
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
