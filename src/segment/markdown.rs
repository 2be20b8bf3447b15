//! Items of a Markdown text: the block events of pulldown-cmark over the masked copy, with byte offsets.

use super::mask::mask;
use super::sink::{Layer, Sink};
use crate::taxonomy::ItemKind;
use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// A quote longer than this is taken apart into the blocks it holds; a shorter one is a single item. The labelled
/// items hold whole quotes up to this length and nothing beyond it.
const MAX_QUOTE: usize = 900;

/// How often an indented block may be read anew as Markdown.
const MAX_LAYERS: usize = 3;

/// Find the items of `layer` and add them to `sink`.
pub(super) fn walk(layer: &Layer<'_>, sink: &mut Sink<'_>, depth: usize) {
    let masked = mask(layer.text);
    let events = Parser::new_ext(&masked, Options::ENABLE_TABLES).into_offset_iter();
    Walk { layer, sink, events, depth, entries: Vec::new(), inline: None }.run();
}

/// The state of one pass over the events.
struct Walk<'a, 's, 't> {
    layer: &'a Layer<'a>,
    sink: &'s mut Sink<'t>,
    events: OffsetIter<'a>,
    depth: usize,
    /// One per open list entry: whether its own text is still to come.
    entries: Vec<bool>,
    /// Text of the block being read.
    inline: Option<Range<usize>>,
}

impl Walk<'_, '_, '_> {
    fn run(mut self) {
        while let Some((event, range)) = self.events.next() {
            match event {
                Event::Start(tag) => self.open(&tag, range),
                Event::End(tag) => self.close(tag),
                Event::Rule => self.flush(),
                Event::Html(_) => {}
                _ => self.extend(range),
            }
        }
        self.flush();
    }

    fn open(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        self.flush();
        match tag {
            Tag::Item => self.entries.push(true),
            Tag::BlockQuote(_) if range.len() <= MAX_QUOTE => {
                self.skip(|_| {});
                self.own_text_is_past();
                self.layer.item(self.sink, range, ItemKind::Paragraph);
            }
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
                self.skip(|_| {});
                self.own_text_is_past();
                self.layer.item(self.sink, range, ItemKind::Code);
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => self.indented(),
            Tag::HtmlBlock => self.comment(range),
            Tag::TableHead | Tag::TableRow => {
                self.skip(|_| {});
                self.own_text_is_past();
                self.layer.item(self.sink, range, ItemKind::Row);
            }
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        if let TagEnd::Heading(level) = tag {
            let Some(range) = self.inline.take() else { return };
            // A dashed line meant as a rule turns the passage above it into a heading by the letter of the grammar.
            let underlined =
                self.layer.text[range.end..].trim_start_matches([' ', '\t', '#']).starts_with(['\r', '\n'])
                    && !self.layer.text[..range.start].trim_end_matches([' ', '\t']).ends_with('#');
            let passage = self.layer.text[range.clone()].contains('\n') || range.len() > 120;
            if !self.entries.is_empty() || (underlined && passage) {
                self.inline = Some(range);
                self.flush();
            } else {
                self.layer.heading(self.sink, range, level as u8);
            }
            return;
        }
        self.flush();
        if tag == TagEnd::Item {
            self.entries.pop();
        }
    }

    fn extend(&mut self, range: Range<usize>) {
        match &mut self.inline {
            Some(open) => {
                open.start = open.start.min(range.start);
                open.end = open.end.max(range.end);
            }
            None => self.inline = Some(range),
        }
    }

    /// The text read so far becomes an item: of its list entry when it is that entry's first text.
    fn flush(&mut self) {
        let Some(range) = self.inline.take() else { return };
        let own = self.entries.last().copied().unwrap_or(false);
        self.own_text_is_past();
        let kind = if own { ItemKind::List } else { ItemKind::Paragraph };
        passage(self.layer, self.sink, range, kind);
    }

    fn own_text_is_past(&mut self) {
        if let Some(own) = self.entries.last_mut() {
            *own = false;
        }
    }

    /// Pass over the events of the block just opened, handing on the range of every leaf.
    fn skip(&mut self, mut leaf: impl FnMut(Range<usize>)) {
        let mut open = 1;
        while open > 0 {
            match self.events.next() {
                Some((Event::Start(_), _)) => open += 1,
                Some((Event::End(_), _)) => open -= 1,
                Some((_, range)) => leaf(range),
                None => break,
            }
        }
    }

    /// A comment is no item: the tools that read these files strip it. What follows its end on the same line stays.
    fn comment(&mut self, range: Range<usize>) {
        self.skip(|_| {});
        let block = &self.layer.text[range.clone()];
        if let Some(at) = block.rfind("-->") {
            passage(self.layer, self.sink, range.start + at + 3..range.end, ItemKind::Paragraph);
        }
    }

    /// People indent prose and lists as often as code: lists and prose are read anew without the indent.
    fn indented(&mut self) {
        let mut lines = Vec::new();
        self.skip(|range| lines.push(range));
        self.own_text_is_past();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return };
        let whole = first.start..last.end;
        let (text, pieces) = self.layer.gather(&lines);
        if self.depth < MAX_LAYERS && !looks_like_code(&text) {
            walk(&Layer { text: &text, pieces: &pieces }, self.sink, self.depth + 1);
        } else {
            self.layer.item(self.sink, whole, ItemKind::Code);
        }
    }
}

/// Whether most lines of an indented block begin or end as lines of a program do.
fn looks_like_code(text: &str) -> bool {
    let (mut code, mut lines) = (0, 0);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines += 1;
        let ends = line.ends_with(['{', '}', ';', '(', ')', '[', ']', ',', '\\', '>', '=']);
        let marked = line.starts_with(['-', '*', '+', '|', '>']) || line.starts_with("```");
        let sentence = line.contains(". ") || line.split_whitespace().nth(7).is_some();
        code += usize::from(((ends && !sentence) || line.starts_with(['$', '}', ')', ']'])) && !marked);
    }
    2 * code > lines
}

/// A run of text. Lines that are drawn as table rows are rows, also where no delimiter line makes a table of them.
fn passage(layer: &Layer<'_>, sink: &mut Sink<'_>, range: Range<usize>, kind: ItemKind) {
    let mut start = range.start;
    let mut at = range.start;
    for line in layer.text[range.clone()].split_inclusive('\n') {
        let next = at + line.len();
        let trimmed = line.trim();
        if trimmed.len() > 2 && trimmed.starts_with('|') && trimmed.ends_with('|') {
            layer.item(sink, start..at, kind);
            if trimmed.contains(|c: char| !matches!(c, '|' | '-' | ':' | ' ' | '\t')) {
                layer.item(sink, at..next, ItemKind::Row);
            }
            start = next;
        }
        at = next;
    }
    layer.item(sink, start..range.end, kind);
}
