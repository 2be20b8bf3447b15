//! From a choice of items back to Markdown: document order, headings of what is kept, nesting without gaps.

use super::base::{Base, Item};
use super::layout::blank_units;
use super::topics::TopicId;
use crate::taxonomy::ItemKind;
use std::ops::Range;

/// What is printed of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form<'a> {
    /// The item as it stands.
    Full,
    /// A shorter text in its place.
    Short(&'a Short),
    /// The item as it stands, at the margin between empty lines: where it was nested it would be read as part of
    /// something else.
    Apart,
    /// Its words alone, without marker and without what it hangs on, at the margin between empty lines: the cheapest way
    /// to keep them.
    Bare(&'a Short),
}

impl Form<'_> {
    /// Whether it is printed as the kind of passage it was, word for word.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Full | Self::Apart)
    }

    /// Whether empty lines part it from its neighbours.
    fn stands_apart(self) -> bool {
        matches!(self, Self::Apart | Self::Bare(_))
    }
}

/// A text in the place of an item, measured with the item's lead unless it is printed bare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Short {
    pub(super) text: String,
    /// Units with one line feed.
    pub(super) units: usize,
    /// Units that a second line feed adds.
    pub(super) blank: usize,
}

impl Short {
    /// Measure `text` in the place of an item.
    pub(super) fn new(base: &Base, index: usize, text: String) -> Self {
        Self::measured(base, index, &base.text()[base.items()[index].layout.lead.clone()], text)
    }

    /// Measure the words of an item without its lead.
    pub(super) fn bare(base: &Base, index: usize) -> Self {
        Self::measured(base, index, "", base.text_of(&base.items()[index]).to_owned())
    }

    fn measured(base: &Base, index: usize, lead: &str, text: String) -> Self {
        let mut piece = format!("{lead}{text}");
        // Only the last word can merge with a second line feed, and it is nearly always that of the item.
        let item = &base.items()[index];
        let last = |text| str::rsplit(text, char::is_whitespace).next();
        let same = item.layout.tail.is_empty() && text.contains(' ') && last(&text) == last(base.text_of(item));
        let blank = if same { item.layout.blank } else { blank_units(&piece, base.tokenizer()) };
        piece.push('\n');
        Self { units: base.tokenizer().units(&piece), blank, text }
    }
}

/// What is printed of every item, by its index.
pub(super) type Choice<'a> = [Option<Form<'a>>];

/// One printed piece: a heading, or an item with its lead.
struct Piece<'a> {
    heading: Option<(u8, &'a str)>,
    index: usize,
    form: Form<'a>,
    /// Blanks that take the place of those at the start of the lead, when the nesting changed.
    shift: Option<usize>,
    /// Whether an empty line follows.
    blank: bool,
}

/// A rendered text, and where the items ended up in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// Item index and the range of its text in `text`.
    pub(super) places: Vec<(usize, Range<usize>)>,
    /// For every place where the name of the heading above it begins in `text`; nothing above the first.
    pub(super) headed: Vec<Option<usize>>,
}

/// How headings are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headings {
    /// Every heading above a kept item is printed.
    Keep,
    /// No heading is printed: every token goes to items.
    Omit,
}

/// Print the choice.
pub(super) fn render(base: &Base, choice: &Choice<'_>, headings: Headings) -> Rendered {
    let mut out = Rendered { text: String::new(), places: Vec::new(), headed: Vec::new() };
    let mut heading = None;
    walk(base, choice, headings, |piece| {
        if let Some((level, name)) = piece.heading {
            heading = Some(out.text.len() + usize::from(level.clamp(1, 6)) + 1);
            push_heading(&mut out.text, level, name);
        } else {
            out.headed.push(heading);
            let range = push_item(&mut out.text, base, piece);
            out.places.push((piece.index, range));
        }
        out.text.push_str(if piece.blank { "\n\n" } else { "\n" });
    });
    out
}

/// Units of what [`render`] would print, without printing it.
pub(super) fn price(base: &Base, choice: &Choice<'_>, headings: Headings) -> usize {
    let tokenizer = base.tokenizer();
    if !base.additive() {
        return tokenizer.units(&render(base, choice, headings).text);
    }
    let mut units = 0;
    let mut buffer = String::new();
    walk(base, choice, headings, |piece| {
        let layout = &base.items()[piece.index].layout;
        if piece.heading.is_none() && piece.shift.is_none() {
            let (one, more) = match piece.form {
                Form::Short(short) | Form::Bare(short) => (short.units, short.blank),
                _ => (layout.units, layout.blank),
            };
            units += one + if piece.blank { more } else { 0 };
            return;
        }
        buffer.clear();
        match piece.heading {
            Some((level, name)) => push_heading(&mut buffer, level, name),
            None => {
                push_item(&mut buffer, base, piece);
            }
        }
        if piece.blank {
            units += blank_units(&buffer, tokenizer);
        }
        buffer.push('\n');
        units += tokenizer.units(&buffer);
    });
    units
}

/// Units of one item in one form, with an empty line behind: at most a little too much.
pub(super) fn price_alone(base: &Base, index: usize, form: Form<'_>) -> usize {
    let layout = &base.items()[index].layout;
    match form {
        Form::Short(short) | Form::Bare(short) => short.units + short.blank,
        _ => layout.units + layout.blank,
    }
}

/// Units of a heading with an empty line behind.
pub(super) fn price_heading(base: &Base, topic: TopicId) -> usize {
    let mut line = String::new();
    if let Some((level, name)) = heading(base, topic) {
        push_heading(&mut line, level, name);
        line.push_str("\n\n");
    }
    base.tokenizer().units(&line)
}

fn heading(base: &Base, topic: TopicId) -> Option<(u8, &str)> {
    let index = (topic.0 as usize).checked_sub(1)?;
    match base.segmentation().headings.get(index) {
        Some(found) => Some((found.level, base.text().get(found.start as usize..found.end as usize)?)),
        // A given tree has no levels of its own: depth counts.
        None => Some((base.topics().path(topic).len().clamp(1, 6) as u8, &base.topics().get(topic)?.name)),
    }
}

fn push_heading(out: &mut String, level: u8, name: &str) {
    for _ in 0..level.clamp(1, 6) {
        out.push('#');
    }
    for word in name.split_whitespace() {
        out.push(' ');
        out.push_str(word);
    }
}

fn push_item(out: &mut String, base: &Base, piece: &Piece<'_>) -> Range<usize> {
    if let Form::Bare(short) = piece.form {
        let start = out.len();
        out.push_str(&short.text);
        return start..out.len();
    }
    let item = &base.items()[piece.index];
    let lead = &base.text()[item.layout.lead.clone()];
    match piece.shift {
        Some(blanks) => {
            out.extend(std::iter::repeat_n(' ', blanks));
            out.push_str(lead.trim_start());
        }
        None => out.push_str(lead),
    }
    let start = out.len();
    out.push_str(match piece.form {
        Form::Short(short) => &short.text,
        _ => base.text_of(item),
    });
    let end = out.len();
    if !item.layout.tail.is_empty() {
        out.push('\n');
        out.push_str(&base.text()[item.layout.tail.clone()]);
    }
    start..end
}

/// Hand every piece to `visit`, in the order in which they are printed.
fn walk<'a>(base: &'a Base, choice: &Choice<'a>, headings: Headings, mut visit: impl FnMut(&Piece<'a>)) {
    let items = base.items();
    let mut pending: Option<Piece<'a>> = None;
    let mut topic = TopicId::ROOT;
    // For every list entry printed since the last heading, the column its text moved to.
    let mut columns: Vec<(u32, usize)> = Vec::new();
    for (index, form) in choice.iter().enumerate() {
        let Some(form) = *form else { continue };
        let item = &items[index];
        if item.topic != topic {
            columns.clear();
            if headings == Headings::Keep {
                let mut new: Vec<TopicId> = base
                    .topics()
                    .ancestors(item.topic)
                    .take_while(|above| !above_or_same(base, *above, topic))
                    .collect();
                // Back from a topic to one above it, which only a given tree can ask for.
                if new.is_empty() && item.topic != TopicId::ROOT {
                    new.push(item.topic);
                }
                new.reverse();
                for id in new {
                    let Some(heading) = heading(base, id) else { continue };
                    let piece = Piece { heading: Some(heading), index, form, shift: None, blank: true };
                    if let Some(last) = pending.replace(piece) {
                        visit(&Piece { blank: true, ..last });
                    }
                }
            }
            topic = item.topic;
        }
        let layout = &item.layout;
        let apart = form.stands_apart();
        let indent = if apart { 0 } else { new_indent(items, index, &columns) };
        let bare = matches!(form, Form::Bare(_));
        let shift = (indent != layout.indent && !bare).then_some(indent);
        if layout.entry && !bare {
            columns.push((index as u32, indent + layout.column.saturating_sub(layout.indent)));
        }
        let piece = Piece { heading: None, index, form, shift, blank: false };
        if let Some(last) = pending.take() {
            let tight =
                last.heading.is_none() && !apart && !last.form.stands_apart() && adjoin(base, last.index, index);
            visit(&Piece { blank: !tight, ..last });
        }
        pending = Some(piece);
    }
    if let Some(last) = pending {
        visit(&Piece { blank: false, ..last });
    }
}

fn above_or_same(base: &Base, above: TopicId, topic: TopicId) -> bool {
    base.topics().subtree(above).contains(&topic.0)
}

/// The column that the item's line begins at, given those of the entries printed so far.
fn new_indent(items: &[Item], index: usize, columns: &[(u32, usize)]) -> usize {
    let layout = &items[index].layout;
    if layout.fixed {
        return layout.indent;
    }
    let mut above = layout.parent;
    let printed = loop {
        let Some(parent) = above else { break None };
        match columns.iter().rev().find(|(entry, _)| *entry == parent) {
            Some((_, column)) => break Some((parent, *column)),
            None => above = items.get(parent as usize).and_then(|p| p.layout.parent),
        }
    };
    match printed {
        // Under the entry it was under: the same distance from its text.
        Some((parent, column)) if Some(parent) == layout.parent => {
            column + layout.indent.saturating_sub(items[parent as usize].layout.column)
        }
        Some((_, column)) => column,
        None if layout.parent.is_some() => 0,
        None => layout.indent,
    }
}

/// Whether `b` may follow `a` on the next line.
fn adjoin(base: &Base, a: usize, b: usize) -> bool {
    let (first, second) = (&base.items()[a], &base.items()[b]);
    if first.kind == ItemKind::Row && second.kind == ItemKind::Row {
        return second.layout.needs == Some(a as u32)
            || (second.layout.needs.is_some() && second.layout.needs == first.layout.needs);
    }
    // An empty line between neighbours stays: without it a deeply indented entry would be read as part of the first.
    let gap = base.text().get(first.span.end..second.span.start).unwrap_or_default();
    if b == a + 1 && gap.matches('\n').count() > 1 {
        return false;
    }
    // The second must interrupt the first wherever it lands: a number other than 1 does so only among its own.
    let continues = match (first.layout.number, second.layout.number) {
        (_, None | Some(1)) => true,
        (Some(_), Some(_)) => first.layout.indent == second.layout.indent,
        (None, Some(_)) => false,
    };
    let indent = second.layout.indent;
    let quoted = |index: usize| base.text()[base.items()[index].layout.lead.clone()].contains('>');
    first.layout.entry
        && second.layout.entry
        && first.kind != ItemKind::Code
        && second.kind != ItemKind::Code
        && first.kind != ItemKind::Row
        && second.kind != ItemKind::Row
        && continues
        // Deeper than the first but not inside it, four blanks or more read on as its text.
        && (indent < 4 || indent <= first.layout.indent || indent >= first.layout.column)
        && second.layout.indent < first.layout.column + 4
        && quoted(a) == quoted(b)
}
