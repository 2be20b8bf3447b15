//! A request as the handlers see it.

use super::faults::Faults;
use super::view::View;

/// What is asked, of what state.
pub(crate) struct Ask<'a> {
    pub(crate) view: &'a View,
    pub(crate) faults: &'a Faults,
    /// Origin, and `/api/v3` when the request came that way; without a slash at the end.
    pub(crate) base: &'a str,
    /// Path below the base, as sent.
    pub(crate) path: &'a str,
    /// Decoded query parameters in order.
    pub(crate) params: &'a [(String, String)],
    /// The `accept` header.
    pub(crate) accept: &'a str,
}

impl Ask<'_> {
    /// The first value of a parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether bytes are asked for instead of JSON.
    pub(crate) fn wants_raw(&self) -> bool {
        self.accept.contains("application/vnd.github") && self.accept.contains("raw")
    }

    /// `page` and `per_page` of a list that is not a search.
    pub(crate) fn paging(&self) -> (usize, usize) {
        let number = |name: &str| self.param(name).and_then(|n| n.parse::<usize>().ok()).filter(|n| *n > 0);
        (number("page").unwrap_or(1), number("per_page").unwrap_or(30).min(100))
    }

    /// The `link` header of page `page` of `pages`; nothing for a single page.
    pub(crate) fn links(&self, page: usize, pages: usize) -> Option<String> {
        if pages <= 1 {
            return None;
        }
        let url = |to: usize| {
            let mut query = form_urlencoded(self.params.iter().filter(|(key, _)| key != "page"));
            if !query.is_empty() {
                query.push('&');
            }
            format!("<{}{}?{query}page={to}>", self.base, self.path)
        };
        let mut links = Vec::new();
        if page > 1 {
            links.push(format!("{}; rel=\"prev\"", url(page - 1)));
        }
        if page < pages {
            links.push(format!("{}; rel=\"next\"", url(page + 1)));
            links.push(format!("{}; rel=\"last\"", url(pages)));
        }
        if page > 1 {
            links.push(format!("{}; rel=\"first\"", url(1)));
        }
        Some(links.join(", "))
    }
}

/// Decode `a=b&c=d`.
pub(crate) fn parse_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        })
        .collect()
}

/// Decode `%41`; what is not an escape stays as it is.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn form_urlencoded<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> String {
    pairs.map(|(key, value)| format!("{}={}", escape(key, false), escape(value, false))).collect::<Vec<_>>().join("&")
}

/// Percent-encode everything but letters, digits, `-._~` and, in paths, `/`.
pub(crate) fn escape(text: &str, slashes: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (slashes && byte == b'/') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode_and_escape_back() {
        let pairs = parse_query("q=filename%3AAGENTS.md+size%3A%3E9&page=2&x&bad=%zz%é");
        assert_eq!(pairs[0], ("q".into(), "filename:AGENTS.md size:>9".into()));
        assert_eq!(pairs[2], ("x".into(), String::new()));
        assert_eq!(pairs[3].1, "%zz%é");
        assert_eq!(decode(&escape("a b/ü&=%", true)), "a b/ü&=%");
    }
}
