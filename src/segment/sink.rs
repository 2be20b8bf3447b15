//! Where found items go, and how offsets of a text that was gathered from pieces lead back to the original.

use crate::corpus::{Heading, ItemSpan, Segmentation};
use crate::taxonomy::ItemKind;
use std::ops::Range;

/// A text to segment, and where its bytes come from.
pub(super) struct Layer<'a> {
    /// The text as the parser sees it.
    pub(super) text: &'a str,
    /// Pairs of offsets (in `text`, in the original), ascending in both; between two of them bytes correspond.
    pub(super) pieces: &'a [(usize, usize)],
}

impl Layer<'_> {
    /// The original offset of the byte at `offset`.
    fn origin(&self, offset: usize) -> usize {
        let after = self.pieces.partition_point(|(here, _)| *here <= offset);
        let (here, there) = after.checked_sub(1).map_or((0, 0), |at| self.pieces[at]);
        there + (offset - here)
    }

    /// The original range of `range`, trimmed of white space; nothing when no text is left.
    fn trimmed(&self, range: Range<usize>) -> Option<Range<usize>> {
        let text = self.text.get(range.clone())?;
        let start = range.start + (text.len() - text.trim_start().len());
        let end = range.start + text.trim_end().len();
        (start < end).then(|| self.origin(start)..self.origin(end - 1) + 1)
    }

    /// Add `range` as an item.
    pub(super) fn item(&self, sink: &mut Sink<'_>, range: Range<usize>, kind: ItemKind) {
        if let Some(range) = self.trimmed(range) {
            sink.item(range, kind);
        }
    }

    /// Add `range` as a heading.
    pub(super) fn heading(&self, sink: &mut Sink<'_>, range: Range<usize>, level: u8) {
        if let Some(range) = self.trimmed(range) {
            sink.heading(range, level);
        }
    }

    /// Join `lines`, ranges of this layer in ascending order, to a text of its own with the way back.
    pub(super) fn gather(&self, lines: &[Range<usize>]) -> (String, Vec<(usize, usize)>) {
        let mut text = String::with_capacity(lines.iter().map(Range::len).sum());
        let mut pieces = Vec::with_capacity(lines.len());
        for line in lines {
            let Some(part) = self.text.get(line.clone()) else { continue };
            // A piece may span pieces of the layer below.
            let mut at = line.start;
            while at < line.end {
                let after = self.pieces.partition_point(|(here, _)| *here <= at);
                let until = self.pieces.get(after).map_or(line.end, |(here, _)| line.end.min(*here));
                pieces.push((text.len() + (at - line.start), self.origin(at)));
                at = until;
            }
            text.push_str(part);
        }
        (text, pieces)
    }
}

/// Collects items in document order and keeps what holds for all of them: spans that slice the text, never overlap,
/// and know their line and heading.
pub(super) struct Sink<'t> {
    text: &'t str,
    found: Segmentation,
    /// Line feeds are counted up to `.0`, the offset; `.1` is the line there.
    counted: (usize, u32),
    /// Level and index of the headings that the next item stands under.
    path: Vec<(u8, u32)>,
    /// The first byte that no item or heading covers yet.
    free: usize,
    /// What a paragraph is called here: a paragraph, or a setting in a file of settings.
    pub(super) paragraph: ItemKind,
}

impl<'t> Sink<'t> {
    /// An empty sink for `text`, which is no longer than `u32::MAX` bytes.
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            found: Segmentation::default(),
            counted: (0, 1),
            path: Vec::new(),
            free: 0,
            paragraph: ItemKind::Paragraph,
        }
    }

    /// Add an item; one that is not behind all before it, or splits a character, is left out.
    pub(super) fn item(&mut self, range: Range<usize>, kind: ItemKind) {
        let Some((start, end)) = self.claim(&range) else { return };
        let passed = self.text.as_bytes()[self.counted.0..range.start].iter().filter(|b| **b == b'\n').count();
        self.counted = (range.start, self.counted.1 + passed as u32);
        let kind = if kind == ItemKind::Paragraph { self.paragraph } else { kind };
        let heading = self.path.last().map(|(_, index)| *index);
        self.found.items.push(ItemSpan { start, end, line: self.counted.1, kind, heading });
    }

    /// Add a heading; following items stand under it.
    pub(super) fn heading(&mut self, range: Range<usize>, level: u8) {
        let Some((start, end)) = self.claim(&range) else { return };
        while self.path.last().is_some_and(|(above, _)| *above >= level) {
            self.path.pop();
        }
        let parent = self.path.last().map(|(_, index)| *index);
        self.path.push((level, self.found.headings.len() as u32));
        self.found.headings.push(Heading { start, end, level, parent });
    }

    /// Following items stand under the key at `range` of a settings file, and under nothing else.
    pub(super) fn key(&mut self, range: Range<usize>) {
        self.path.clear();
        let known = self.found.headings.len().checked_sub(1).filter(|last| {
            let heading = &self.found.headings[*last];
            (heading.start as usize..heading.end as usize) == range
        });
        match known {
            Some(index) => self.path.push((1, index as u32)),
            None => self.heading(range, 1),
        }
    }

    /// Following items stand under no heading so far.
    pub(super) fn leave_headings(&mut self) {
        self.path.clear();
    }

    /// What was found.
    pub(super) fn finish(self) -> Segmentation {
        self.found
    }

    fn claim(&mut self, range: &Range<usize>) -> Option<(u32, u32)> {
        if range.start < self.free || range.is_empty() || self.text.get(range.clone()).is_none() {
            return None;
        }
        self.free = range.end;
        Some((u32::try_from(range.start).ok()?, u32::try_from(range.end).ok()?))
    }
}
