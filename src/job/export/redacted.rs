//! A text as it may be passed on, and where its passages lie in it.

use crate::redact::{self, RedactionKind};
use std::ops::Range;

const KINDS: [RedactionKind; 5] =
    [RedactionKind::Secret, RedactionKind::PrivateKey, RedactionKind::Email, RedactionKind::Ip, RedactionKind::Handle];

/// A redacted text with the places of what was replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Redacted {
    /// The text with placeholders.
    pub(super) text: String,
    /// Kind of each replaced passage, in order.
    pub(super) kinds: Vec<RedactionKind>,
    /// Replaced ranges of the original with the ranges of their placeholders.
    moves: Vec<(Range<usize>, Range<usize>)>,
}

impl Redacted {
    /// Redact by the spans that were stored for this text. Stored spans that do not fit the text, or none stored by the
    /// present rules, are found anew.
    pub(super) fn new(text: &str, stored: Option<&str>) -> Self {
        match stored.and_then(|json| parse(json, text)) {
            Some(spans) => Self::replace(text, spans),
            None => Self::replace(text, redact::spans(text).into_iter().map(|s| (s.start..s.end, s.kind)).collect()),
        }
    }

    fn replace(text: &str, spans: Vec<(Range<usize>, RedactionKind)>) -> Self {
        let mut out = Self { text: String::with_capacity(text.len()), ..Self::default() };
        let mut at = 0;
        for (range, kind) in spans {
            out.text.push_str(text.get(at..range.start).unwrap_or_default());
            let start = out.text.len();
            out.text.push_str(kind.placeholder());
            at = range.end;
            out.moves.push((range, start..out.text.len()));
            out.kinds.push(kind);
        }
        out.text.push_str(text.get(at..).unwrap_or_default());
        out
    }

    /// Where the placeholders stand, in order.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = (Range<usize>, RedactionKind)> {
        self.moves.iter().map(|(_, to)| to.clone()).zip(self.kinds.iter().copied())
    }

    /// Where a range of the original lies now. An end inside of a replaced passage takes in its whole placeholder.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        self.offset(range.start, true)..self.offset(range.end, false)
    }

    fn offset(&self, at: usize, begins: bool) -> usize {
        // The last replaced passage that begins before the offset decides how far it moved.
        let index = self.moves.partition_point(|(from, _)| if begins { from.start <= at } else { from.start < at });
        match index.checked_sub(1).and_then(|index| self.moves.get(index)) {
            None => at,
            Some((from, to)) if at >= from.end => at - from.end + to.end,
            Some((_, to)) => {
                if begins {
                    to.start
                } else {
                    to.end
                }
            }
        }
    }
}

/// Stored spans `[[start, end, kind, rule], …]`, when they fit the text.
fn parse(json: &str, text: &str) -> Option<Vec<(Range<usize>, RedactionKind)>> {
    let stored: Vec<(usize, usize, String, String)> = serde_json::from_str(json).ok()?;
    let mut end = 0;
    let mut spans = Vec::with_capacity(stored.len());
    for (from, to, word, _) in stored {
        let kind = KINDS.into_iter().find(|kind| kind.as_str() == word)?;
        if from < end || from >= to || text.get(from..to).is_none() {
            return None;
        }
        end = to;
        spans.push((from..to, kind));
    }
    Some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Write to ann@corp-mail.com or\n- ask bob@corp-mail.com today\n";

    #[test]
    fn items_are_found_again_in_the_redacted_text() {
        let redacted = Redacted::new(TEXT, None);
        assert_eq!(redacted.kinds, [RedactionKind::Email, RedactionKind::Email]);
        assert_eq!(redacted.text, "Write to [redacted:email] or\n- ask [redacted:email] today\n");
        let item = TEXT.find("ask").unwrap()..TEXT.len() - 1;
        assert_eq!(&redacted.text[redacted.place(item)], "ask [redacted:email] today");
        let whole = redacted.place(0..TEXT.len());
        assert_eq!(whole, 0..redacted.text.len());
    }

    #[test]
    fn a_passage_cut_by_an_item_shows_its_whole_placeholder() {
        let start = TEXT.find("ann@").unwrap();
        let redacted = Redacted::new(TEXT, None);
        assert_eq!(&redacted.text[redacted.place(0..start + 3)], "Write to [redacted:email]");
        assert_eq!(&redacted.text[redacted.place(start + 3..start + 20)], "[redacted:email] or");
        assert_eq!(&redacted.text[redacted.place(0..start)], "Write to ");
    }

    #[test]
    fn stored_spans_are_used_and_wrong_ones_are_not_trusted() {
        let at = TEXT.find("Write").unwrap();
        let stored = format!("[[{at},{},\"handle\",\"x\"]]", at + 5);
        assert!(Redacted::new(TEXT, Some(&stored)).text.starts_with("[redacted:handle] to ann@"));
        for wrong in ["[[0,99999,\"email\",\"x\"]]", "[[5,2,\"email\",\"x\"]]", "[[0,5,\"planet\",\"x\"]]", "{}"] {
            assert_eq!(Redacted::new(TEXT, Some(wrong)), Redacted::new(TEXT, None), "{wrong}");
        }
    }
}
