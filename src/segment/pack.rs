//! A segmentation in few bytes: what the store keeps per blob.
//!
//! Numbers are LEB128. First the headings: their count, then for each the distance of its start from the end of the
//! one before, its length, and `level << 1`, plus one where the parent is not the nearest heading above of a lower
//! level (then the parent follows, plus one, zero for none). Then the items to the end: a head byte (kind in bits
//! 0–2; heading in bits 3–4: as before, the next, none, or a number that follows; lines passed in bits 5–7, with 7
//! for a number that follows), those numbers, the distance from the end of the item before, and the length. A typical
//! item takes three to four bytes.

use crate::corpus::{Heading, ItemSpan, Segmentation};
use crate::taxonomy::ItemKind;

/// Why bytes are no packed segmentation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The bytes end within a number or before the announced headings.
    #[error("Failed to unpack items: the {length} bytes end too early")]
    Short {
        /// How many bytes there are.
        length: usize,
    },
    /// A number or index that no segmentation has.
    #[error("Failed to unpack items: byte {at} holds no possible {what}")]
    Impossible {
        /// Offset just behind the number that was read.
        at: usize,
        /// What was expected there.
        what: &'static str,
    },
}

/// Pack `segmentation`; [`unpack`] gives it back. One whose spans are out of order comes back as an error.
pub fn pack(segmentation: &Segmentation) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + 5 * segmentation.headings.len() + 4 * segmentation.items.len());
    put(&mut bytes, segmentation.headings.len() as u32);
    let mut nearest = Nearest::default();
    let mut end = 0u32;
    for (index, heading) in segmentation.headings.iter().enumerate() {
        put(&mut bytes, heading.start.wrapping_sub(end));
        put(&mut bytes, heading.end.wrapping_sub(heading.start));
        let other = nearest.place(index as u32, heading.level) != heading.parent;
        put(&mut bytes, (u32::from(heading.level) << 1) | u32::from(other));
        if other {
            put(&mut bytes, heading.parent.map_or(0, |parent| parent.wrapping_add(1)));
        }
        end = heading.end;
    }
    let (mut end, mut line, mut above) = (0u32, 1u32, None);
    for item in &segmentation.items {
        let heading = match item.heading {
            same if same == above => 0,
            next if next == Some(above.map_or(0, |index| index.wrapping_add(1))) => 1,
            None => 2,
            Some(_) => 3u8,
        };
        let passed = item.line.wrapping_sub(line);
        bytes.push(item.kind.index() as u8 | (heading << 3) | ((passed.min(7) as u8) << 5));
        if let (3, Some(index)) = (heading, item.heading) {
            put(&mut bytes, index);
        }
        if passed >= 7 {
            put(&mut bytes, passed - 7);
        }
        put(&mut bytes, item.start.wrapping_sub(end));
        put(&mut bytes, item.end.wrapping_sub(item.start));
        (end, line, above) = (item.end, item.line, item.heading);
    }
    bytes
}

/// The segmentation in `bytes`. Spans of the result are in order, not empty and do not overlap; that they fit a text
/// is for the caller to know.
pub fn unpack(bytes: &[u8]) -> Result<Segmentation, PackError> {
    let mut input = Input { bytes, at: 0 };
    let count = input.number()? as usize;
    // A heading takes three bytes or more, so a false count cannot ask for more memory than the input justifies.
    let mut headings: Vec<Heading> = Vec::with_capacity(count.min(bytes.len() / 3));
    let mut nearest = Nearest::default();
    let mut end = 0u32;
    for index in 0..count {
        let (from, to) = input.span(end)?;
        let mark = input.number()?;
        let level = u8::try_from(mark >> 1).map_err(|_| input.impossible("heading level"))?;
        let mut parent = nearest.place(index as u32, level);
        if mark & 1 == 1 {
            parent = input.number()?.checked_sub(1);
        }
        if parent.is_some_and(|parent| parent as usize >= index) {
            return Err(input.impossible("parent heading"));
        }
        headings.push(Heading { start: from, end: to, level, parent });
        end = to;
    }
    let mut items: Vec<ItemSpan> = Vec::with_capacity((bytes.len() - input.at) / 3);
    let (mut end, mut line, mut above) = (0u32, 1u32, None);
    while let Some(head) = input.byte() {
        let kind = *ItemKind::ALL.get(usize::from(head & 7)).ok_or_else(|| input.impossible("item kind"))?;
        above = match (head >> 3) & 3 {
            0 => above,
            1 => Some(above.map_or(0, |index: u32| index + 1)),
            2 => None,
            _ => Some(input.number()?),
        };
        if above.is_some_and(|index| index as usize >= headings.len()) {
            return Err(input.impossible("heading"));
        }
        let mut passed = u32::from(head >> 5);
        if passed == 7 {
            passed = input.number()?.checked_add(7).ok_or_else(|| input.impossible("line"))?;
        }
        line = line.checked_add(passed).ok_or_else(|| input.impossible("line"))?;
        let (from, to) = input.span(end)?;
        items.push(ItemSpan { start: from, end: to, line, kind, heading: above });
        end = to;
    }
    Ok(Segmentation { headings, items })
}

/// The headings that one of a given level may stand under, by level.
#[derive(Default)]
struct Nearest(Vec<(u8, u32)>);

impl Nearest {
    /// The parent of heading `index` by its `level`; later ones may stand under it.
    fn place(&mut self, index: u32, level: u8) -> Option<u32> {
        while self.0.last().is_some_and(|(above, _)| *above >= level) {
            self.0.pop();
        }
        let parent = self.0.last().map(|(_, index)| *index);
        self.0.push((level, index));
        parent
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn number(&mut self) -> Result<u32, PackError> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte().ok_or(PackError::Short { length: self.bytes.len() })?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).map_err(|_| self.impossible("number"));
            }
        }
        Err(self.impossible("number"))
    }

    /// A span that begins at or behind `end` and holds something.
    fn span(&mut self, end: u32) -> Result<(u32, u32), PackError> {
        let start = end.checked_add(self.number()?).ok_or_else(|| self.impossible("start"))?;
        let length = self.number()?;
        let end = start.checked_add(length).filter(|_| length > 0).ok_or_else(|| self.impossible("length"))?;
        Ok((start, end))
    }

    fn impossible(&self, what: &'static str) -> PackError {
        PackError::Impossible { at: self.at, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_segmentation() -> impl Strategy<Value = Segmentation> {
        let heading = (0u32..300, 1u32..300, 1u8..7, any::<proptest::sample::Index>(), 0..8);
        let item = (0u32..300, 1u32..40_000, 0u32..20, 0..ItemKind::ALL.len(), any::<proptest::sample::Index>(), 0..3);
        (prop::collection::vec(heading, 0..20), prop::collection::vec(item, 0..60)).prop_map(|(heads, spans)| {
            let mut headings: Vec<Heading> = Vec::new();
            let mut nearest = Nearest::default();
            let mut at = 0;
            for (gap, length, level, pick, odd) in heads {
                let index = headings.len();
                let by_level = nearest.place(index as u32, level);
                let parent = match odd {
                    0 if index > 0 => Some(pick.index(index) as u32),
                    1 => None,
                    _ => by_level,
                };
                headings.push(Heading { start: at + gap, end: at + gap + length, level, parent });
                at += gap + length;
            }
            let mut items = Vec::new();
            let (mut at, mut line) = (0, 1);
            for (gap, length, lines, kind, pick, named) in spans {
                line += lines;
                let heading = (named > 0 && !headings.is_empty()).then(|| pick.index(headings.len()) as u32);
                items.push(ItemSpan {
                    start: at + gap,
                    end: at + gap + length,
                    line,
                    kind: ItemKind::ALL[kind],
                    heading,
                });
                at += gap + length;
            }
            Segmentation { headings, items }
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(segmentation in any_segmentation()) {
            prop_assert_eq!(unpack(&pack(&segmentation)), Ok(segmentation));
        }

        #[test]
        fn any_bytes_are_refused_or_sound(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(found) = unpack(&bytes) {
                prop_assert!(found.items.windows(2).all(|pair| pair[0].end <= pair[1].start));
                prop_assert!(found.items.iter().all(|item| item.start < item.end));
            }
        }

        #[test]
        fn a_cut_is_noticed_or_loses_whole_items(segmentation in any_segmentation(), cut in any::<proptest::sample::Index>()) {
            let bytes = pack(&segmentation);
            if let Ok(found) = unpack(&bytes[..cut.index(bytes.len())]) {
                prop_assert!(segmentation.items.starts_with(&found.items));
            }
        }
    }

    #[test]
    fn a_false_count_asks_for_no_memory() {
        let error = unpack(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap_err();
        assert_eq!(error, PackError::Short { length: 5 });
        assert_eq!(error.to_string(), "Failed to unpack items: the 5 bytes end too early");
        assert!(matches!(unpack(&[0xff; 9]), Err(PackError::Impossible { what: "number", .. })));
    }

    #[test]
    fn a_plain_item_takes_three_bytes() {
        let item =
            |n: u32| ItemSpan { start: n * 80, end: n * 80 + 77, line: n + 1, kind: ItemKind::List, heading: None };
        let found = Segmentation { headings: Vec::new(), items: (0..100).map(item).collect() };
        assert_eq!(pack(&found).len(), 301);
    }
}
