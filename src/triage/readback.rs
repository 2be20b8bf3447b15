//! Whether a printed text reads back as the items that were printed. Markdown decides by what stands around a line
//! whether it opens a block or goes on with the one above, so leaving a neighbour out can join two rules into one or
//! turn a rule into code. Here the output is read anew, and what does not come back is printed in another way.

use super::base::{Base, Item};
use super::render::{Choice, Form, Headings, Rendered, price, render};
use super::verify::leads;
use crate::segment::segment;
use crate::taxonomy::ItemKind;

/// How often a choice is changed before the text is left as a whole.
const ATTEMPTS: usize = 12;

/// The items of `rendered` that do not read back as one item each, word for word under the heading they were printed
/// under; ascending.
pub(super) fn misread(base: &Base, rendered: &Rendered) -> Vec<usize> {
    let found = segment(base.path(), &rendered.text);
    let mut wrong = Vec::new();
    let mut read = found.items.iter().peekable();
    let mut last = None;
    for ((index, range), heading) in rendered.places.iter().zip(&rendered.headed) {
        // Something between two items that nobody printed: the one above it went wrong.
        while read.next_if(|span| span.end as usize <= range.start).is_some() {
            wrong.push(last.unwrap_or(*index));
        }
        last = Some(*index);
        let front = base.items()[*index].kind == ItemKind::Setting && range.start == 0;
        if front {
            while read.next_if(|span| span.end as usize <= range.end).is_some() {}
            continue;
        }
        let one = read.next_if(|span| (span.start as usize) < range.end);
        let whole = one.is_some_and(|span| {
            let under = span.heading.and_then(|at| found.headings.get(at as usize)).map(|h| h.start as usize);
            span.end as usize == range.end
                && is_lead(rendered.text.get(span.start as usize..range.start))
                && (!base.has_own_topics() || under == *heading)
        });
        let mut more = false;
        while read.next_if(|span| (span.start as usize) < range.end).is_some() {
            more = true;
        }
        if !whole || more {
            wrong.push(*index);
        }
    }
    if read.next().is_some() {
        wrong.extend(last);
    }
    wrong.dedup();
    wrong
}

/// Whether only quote marks and the like were read along: nothing that says anything.
fn is_lead(before: Option<&str>) -> bool {
    before.is_some_and(|lead| lead.chars().all(leads))
}

/// A choice that reads back, or nothing but the whole text.
#[derive(Debug, Clone)]
pub(super) enum Core {
    /// Printed by choice.
    Chosen {
        /// What is printed of every item.
        choice: Vec<Option<Form<'static>>>,
        /// Units of the output.
        units: usize,
        /// How many constraints did not read back at first.
        restored: usize,
    },
    /// Only the text as it stands reads as its items.
    Whole,
}

/// Change how the items of `choice` are printed until all of them read back: first those that do not are set apart
/// from their neighbours, then their whole section is kept.
pub(super) fn mend(base: &Base, mut choice: Vec<Option<Form<'static>>>) -> Core {
    if base.is_settings() {
        return Core::Whole;
    }
    let mut restored = 0;
    for attempt in 0..ATTEMPTS {
        let rendered = render(base, &choice, Headings::Keep);
        let wrong = misread(base, &rendered);
        if attempt == 0 {
            restored = wrong.iter().filter(|index| base.items()[**index].pinned()).count();
        }
        if wrong.is_empty() {
            return Core::Chosen { units: price(base, &choice, Headings::Keep), choice, restored };
        }
        let printed: Vec<usize> = rendered.places.iter().map(|(index, _)| *index).collect();
        for index in wrong {
            // What was set apart and is wrong again needs more of what stood around it.
            let again = attempt >= ATTEMPTS / 3;
            if again || !set_apart(base, &mut choice, &printed, index) {
                keep_section(base, &mut choice, index);
            }
        }
    }
    Core::Whole
}

/// Print a choice with what does not read back set apart, as far as that helps.
pub(super) fn apart(base: &Base, choice: &mut [Option<Form<'static>>]) -> Rendered {
    let mut rendered = render(base, choice, Headings::Keep);
    for _ in 0..ATTEMPTS / 3 {
        let wrong = misread(base, &rendered);
        let printed: Vec<usize> = rendered.places.iter().map(|(index, _)| *index).collect();
        let mut changed = false;
        for index in &wrong {
            changed |= set_apart(base, choice, &printed, *index);
        }
        if !changed {
            break;
        }
        rendered = render(base, choice, Headings::Keep);
    }
    rendered
}

/// Set an item and the printed ones before and after it apart; whether that changed anything.
fn set_apart(base: &Base, choice: &mut [Option<Form<'static>>], printed: &[usize], index: usize) -> bool {
    let at = printed.partition_point(|p| *p < index);
    let mut changed = false;
    for near in &printed[at.saturating_sub(1)..printed.len().min(at + 2)] {
        if can_stand_apart(&base.items()[*near]) && choice[*near] == Some(Form::Full) {
            choice[*near] = Some(Form::Apart);
            changed = true;
        }
    }
    changed
}

/// Rows stand below the head of their table, and what must keep its column cannot move to the margin.
fn can_stand_apart(item: &Item) -> bool {
    item.kind != ItemKind::Row && item.kind != ItemKind::Setting && !item.layout.fixed
}

/// Print everything under the heading of an item as it was; where it is already, everything under the heading above.
fn keep_section(base: &Base, choice: &mut [Option<Form<'static>>], index: usize) {
    let mut topic = base.items()[index].topic;
    loop {
        let section = base.topics().subtree(topic);
        let mut changed = false;
        for (item, form) in base.items().iter().zip(choice.iter_mut()) {
            if section.contains(&item.topic.0) && *form != Some(Form::Full) {
                *form = Some(Form::Full);
                changed = true;
            }
        }
        match base.topics().get(topic).and_then(|t| t.parent) {
            Some(above) if !changed => topic = above,
            _ => return,
        }
    }
}

/// Take back what `choice` has beyond `core` around the items that do not read back; whether anything was left to take
/// back.
pub(super) fn retreat<'a>(
    base: &Base,
    choice: &mut [Option<Form<'a>>],
    core: &Choice<'a>,
    printed: &[usize],
    wrong: &[usize],
) -> bool {
    let mut changed = false;
    for index in wrong {
        let at = printed.partition_point(|p| p < index);
        for near in &printed[at.saturating_sub(1)..printed.len().min(at + 2)] {
            if choice[*near] != core[*near] {
                choice[*near] = core[*near];
                changed = true;
            }
        }
    }
    // What hangs on an item that is gone goes too; what it hangs on stands before it.
    for index in 0..choice.len() {
        let held = base.items()[index].layout.needs.is_none_or(|needed| choice[needed as usize].is_some());
        if !held && choice[index].is_some() && core[index].is_none() {
            choice[index] = None;
            changed = true;
        }
    }
    changed
}
