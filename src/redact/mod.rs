//! What must not be passed on: secrets, private keys, e-mail addresses, public addresses and people's handles, as
//! spans over a text that itself stays untouched.
//!
//! Agent files are full of things that look alike: decorators, package scopes, imports, `git@` remotes, placeholder
//! keys, examples. A span is reported only on a positive sign, and never on a placeholder. Secrets are rules read from
//! `queries/redact/secrets.toml`; what needs more than a pattern is in `contact`.

mod contact;
mod placeholder;
mod secret;

use std::ops::Range;

/// Version of the rules: spans found by another one are stale.
pub const VERSION: u16 = 2;

/// Passes over a text at most; a second one finds what only stands free once its neighbour is gone.
const PASSES: usize = 6;

/// What a span holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RedactionKind {
    /// A token, a password or the like.
    Secret,
    /// The body of a private key block.
    PrivateKey,
    /// An e-mail address.
    Email,
    /// A public IPv4 or IPv6 address.
    Ip,
    /// The name of an account, spoken to as a person.
    Handle,
}

impl RedactionKind {
    /// The word used in placeholders and columns.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::PrivateKey => "private-key",
            Self::Email => "email",
            Self::Ip => "ip",
            Self::Handle => "handle",
        }
    }

    /// What stands in the place of a span.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Secret => "[redacted:secret]",
            Self::PrivateKey => "[redacted:private-key]",
            Self::Email => "[redacted:email]",
            Self::Ip => "[redacted:ip]",
            Self::Handle => "[redacted:handle]",
        }
    }
}

/// A passage to be left out when the text is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionSpan {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Id of the rule that found it.
    pub rule: &'static str,
    /// What it holds.
    pub kind: RedactionKind,
}

/// Everything in `text` that must not be passed on: sorted, never overlapping, on character boundaries. Redacting a
/// text that was redacted finds nothing new.
pub fn spans(text: &str) -> Vec<RedactionSpan> {
    let mut found = one_pass(text);
    for _ in 1..PASSES {
        if found.is_empty() {
            break;
        }
        let more = one_pass(&apply(text, &found));
        if more.is_empty() {
            break;
        }
        for span in more {
            let back = original(&found, span.start..span.end);
            found.push(RedactionSpan { start: back.start, end: back.end, ..span });
        }
        found = disjoint(found);
    }
    found
}

/// The spans of `text` when it stands between `before` and `after`: what is a secret may show by its neighbours alone.
/// Sorted and disjoint; where spans overlap they are one, of the kind of the first.
pub fn spans_between(before: &str, text: &str, after: &str) -> Vec<RedactionSpan> {
    let mut found = spans(text);
    if !(before.is_empty() && after.is_empty()) {
        let start = before.len() + 1;
        let end = start + text.len();
        let inside = |span: RedactionSpan| {
            let (first, last) = (span.start.clamp(start, end), span.end.clamp(start, end));
            (first < last).then(|| RedactionSpan { start: first - start, end: last - start, ..span })
        };
        found.extend(spans(&[before, text, after].join("\n")).into_iter().filter_map(inside));
    }
    found.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end), span.rule));
    let mut merged: Vec<RedactionSpan> = Vec::with_capacity(found.len());
    for span in found {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// `text` with everything that must not be passed on replaced by its placeholder.
pub fn redacted(text: &str) -> String {
    apply(text, &spans(text))
}

/// `text` with each span replaced by its placeholder. `spans` must be those of this text.
pub fn apply(text: &str, spans: &[RedactionSpan]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.push_str(text.get(at..span.start).unwrap_or_default());
        out.push_str(span.kind.placeholder());
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// A text without what must not be passed on, and the way back: each span is replaced by a placeholder with a number of its
/// own, such as `[redacted:email:2]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    text: String,
    /// Placeholders, and what they stand for.
    parts: Vec<(String, String)>,
}

impl Hidden {
    /// Hide what must not be passed on of `text`.
    ///
    /// ```
    /// let hidden = aac::redact::Hidden::of("Mail jane.roe@corp-mail.io, or jack.doe@corp-mail.io");
    /// assert_eq!(hidden.text(), "Mail [redacted:email:1], or [redacted:email:2]");
    /// assert_eq!(hidden.reveal("First [redacted:email:2]!"), "First jack.doe@corp-mail.io!");
    /// ```
    pub fn of(text: &str) -> Self {
        let mut hidden = Self { text: String::with_capacity(text.len()), parts: Vec::new() };
        let mut at = 0;
        for span in spans(text) {
            let placeholder = format!("{}:{}]", span.kind.placeholder().trim_end_matches(']'), hidden.parts.len() + 1);
            hidden.text.push_str(text.get(at..span.start).unwrap_or_default());
            hidden.text.push_str(&placeholder);
            hidden.parts.push((placeholder, text.get(span.start..span.end).unwrap_or_default().to_owned()));
            at = span.end;
        }
        hidden.text.push_str(text.get(at..).unwrap_or_default());
        hidden
    }

    /// The text that may be passed on.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was made of it, with everything put back.
    pub fn reveal(&self, made: &str) -> String {
        self.parts.iter().fold(made.to_owned(), |text, (placeholder, part)| text.replace(placeholder, part))
    }
}

fn one_pass(text: &str) -> Vec<RedactionSpan> {
    let mut found = secret::find(text);
    contact::emails(text, &mut found);
    contact::addresses(text, &mut found);
    contact::handles(text, &mut found);
    found.retain(|span| text.get(span.start..span.end).is_some_and(|part| !part.contains("[redacted:")));
    disjoint(found)
}

/// Where a range of the redacted text lies in the original one. Ranges never touch a placeholder's inside.
fn original(spans: &[RedactionSpan], range: Range<usize>) -> Range<usize> {
    let mut shift = 0isize;
    for span in spans {
        let placed = span.start.saturating_add_signed(shift);
        if placed >= range.start {
            break;
        }
        shift += span.kind.placeholder().len() as isize - (span.end - span.start) as isize;
    }
    range.start.saturating_add_signed(-shift)..range.end.saturating_add_signed(-shift)
}

/// Sorted by place; of spans that overlap the first and longest one stays.
fn disjoint(mut spans: Vec<RedactionSpan>) -> Vec<RedactionSpan> {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end), span.rule));
    let mut end = 0;
    spans.retain(|span| {
        let free = span.start >= end && span.end > span.start;
        if free {
            end = span.end;
        }
        free
    });
    spans
}

#[cfg(test)]
mod planted;
#[cfg(test)]
mod tests;
