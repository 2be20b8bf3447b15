//! How an item stands on its lines: what leads up to it, what it hangs on, and what it costs to print.

use super::base::Item;
use super::tokens::Tokenizer;
use crate::taxonomy::ItemKind;
use std::ops::Range;

/// The place of an item in the layout of its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layout {
    /// What stands before it on its line: blanks, quote marks, the marker of a list entry.
    pub(super) lead: Range<usize>,
    /// Column of the first character that is no blank.
    pub(super) indent: usize,
    /// Column of the text.
    pub(super) column: usize,
    /// The number of an ordered entry.
    pub(super) number: Option<u32>,
    /// Whether a marker makes it an entry of a list.
    pub(super) entry: bool,
    /// The list entry it is nested in.
    pub(super) parent: Option<u32>,
    /// The item it cannot be printed without: the head of its table, or for a code block the entry that holds it.
    pub(super) needs: Option<u32>,
    /// Whether it must stay in its column.
    pub(super) fixed: bool,
    /// The delimiter line below the head of a table.
    pub(super) tail: Range<usize>,
    /// Units of lead, text and tail with one line feed.
    pub(super) units: usize,
    /// Units that a second line feed adds.
    pub(super) blank: usize,
}

impl Layout {
    /// Measure the item as it stands.
    pub(super) fn price(&mut self, text: &str, span: Range<usize>, tokenizer: Tokenizer) {
        let mut piece = String::with_capacity(span.len() + self.lead.len() + self.tail.len() + 2);
        piece.push_str(&text[self.lead.clone()]);
        piece.push_str(&text[span]);
        if !self.tail.is_empty() {
            piece.push('\n');
            piece.push_str(&text[self.tail.clone()]);
        }
        self.blank = blank_units(&piece, tokenizer);
        piece.push('\n');
        self.units = tokenizer.units(&piece);
    }
}

/// Units that a second line feed behind `piece` adds. Only the last word can merge with it.
pub(super) fn blank_units(piece: &str, tokenizer: Tokenizer) -> usize {
    let from = piece.char_indices().rev().find(|(_, c)| c.is_whitespace()).map_or(0, |(at, _)| at);
    let one = format!("{}\n", &piece[from..]);
    tokenizer.units(&format!("{one}\n")).saturating_sub(tokenizer.units(&one))
}

/// Fill in the layout of `items`, which are in document order.
pub(super) fn lay_out(text: &str, items: &mut [Item]) {
    let mut open: Vec<(u32, usize)> = Vec::new();
    let mut topic = None;
    let mut head: Option<u32> = None;
    let mut end = 0;
    for (index, item) in items.iter_mut().enumerate() {
        let (span, kind) = (item.span.clone(), item.kind);
        if topic != Some(item.topic) {
            topic = Some(item.topic);
            open.clear();
        }
        let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let lead = line.max(end).min(span.start)..span.start;
        let mut layout = read_lead(&text[lead.clone()]).unwrap_or_default();
        layout.lead = if layout.column == 0 { span.start..span.start } else { lead };
        if kind != ItemKind::Setting {
            while open.last().is_some_and(|(_, column)| *column > layout.indent) {
                open.pop();
            }
            layout.parent = open.last().map(|(parent, _)| *parent);
        }
        if layout.entry {
            open.push((index as u32, layout.column));
        }
        let adjoins =
            text.get(end..span.start).is_some_and(|gap| gap.matches('\n').count() <= 2 && !gap.contains("\n\n"));
        if kind == ItemKind::Row {
            head = head.filter(|_| adjoins);
            match delimiter(text, span.end) {
                Some(tail) if head.is_none() => {
                    layout.tail = tail;
                    head = Some(index as u32);
                }
                _ => layout.needs = head,
            }
        } else {
            head = None;
            // The end of a fenced block is found by its indent, which holds only inside its entry; and a line within a
            // passage may look like the start of a block anywhere else.
            layout.fixed = layout.indent > 0 && (kind == ItemKind::Code || has_marked_line(&text[span.clone()]));
            if layout.fixed {
                layout.needs = layout.parent;
            }
        }
        end = span.end;
        item.layout = layout;
    }
    // Whatever such an item hangs on must keep its own place too.
    let mut chain: Vec<usize> = (0..items.len()).filter(|index| items[*index].layout.fixed).collect();
    while let Some(index) = chain.pop() {
        items[index].layout.fixed = true;
        let Some(parent) = items[index].layout.parent else { continue };
        if items[index].layout.needs.is_none() {
            items[index].layout.needs = Some(parent);
        }
        chain.push(parent as usize);
    }
}

/// Whether a line behind the first would open a block, did it stand elsewhere.
fn has_marked_line(text: &str) -> bool {
    text.lines().skip(1).any(|line| {
        let line = line.trim_start();
        line.starts_with(['-', '*', '+', '>', '#', '`', '~', '=', '|', '<'])
            || line.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Read what stands before an item on its line; nothing when it is more than blanks and markers.
fn read_lead(lead: &str) -> Option<Layout> {
    let mut layout = Layout::default();
    let mut column = 0;
    let mut seen = false;
    let mut digits = String::new();
    for c in lead.chars() {
        match c {
            ' ' => column += 1,
            '\t' => column += 4 - column % 4,
            '>' | '-' | '*' | '+' | '0'..='9' | '.' | ')' => {
                if !seen {
                    layout.indent = column;
                    seen = true;
                }
                layout.entry |= c != '>';
                if c.is_ascii_digit() {
                    digits.push(c);
                } else if !matches!(c, '.' | ')') {
                    digits.clear();
                }
                column += 1;
            }
            _ => return None,
        }
    }
    if !seen {
        layout.indent = column;
    }
    layout.column = column;
    layout.number = digits.parse().ok();
    Some(layout)
}

/// The delimiter line of a table below the row that ends at `end`.
fn delimiter(text: &str, end: usize) -> Option<Range<usize>> {
    let rest = &text[end..];
    let start = end + rest.find('\n')? + 1;
    if !rest[..start - end].trim().is_empty() {
        return None;
    }
    let line = text[start..].lines().next()?;
    let is = line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t' | '>'));
    is.then(|| start..start + line.trim_end().len())
}
