//! Answers before they become HTTP, and the error bodies that GitHub gives.

use serde_json::{Value, json};

/// Where error bodies point.
const DOCS: &str = "https://docs.github.com/rest";

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Content,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Whether the answer carries an `etag` and can be asked for conditionally.
    pub(crate) tagged: bool,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Json(Value),
    /// Media type and bytes.
    Raw(&'static str, Vec<u8>),
}

impl Reply {
    /// 200 with an `etag`.
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, body: Content::Json(body), headers: Vec::new(), tagged: true }
    }

    /// 200 with bytes as they are.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        let body = Content::Raw("application/vnd.github.raw; charset=utf-8", bytes);
        Self { status: 200, body, headers: Vec::new(), tagged: true }
    }

    /// An answer that is never cached.
    pub(crate) fn plain(status: u16, body: Value) -> Self {
        Self { status, body: Content::Json(body), headers: Vec::new(), tagged: false }
    }

    /// A page of some other kind, as gateways give.
    pub(crate) fn page(status: u16, media: &'static str, text: &str) -> Self {
        Self { status, body: Content::Raw(media, text.as_bytes().to_vec()), headers: Vec::new(), tagged: false }
    }

    /// GitHub's usual error body.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        let body = json!({"message": message, "documentation_url": DOCS, "status": status.to_string()});
        Self::plain(status, body)
    }

    pub(crate) fn not_found() -> Self {
        Self::error(404, "Not Found")
    }

    /// A repository that is blocked: 451 for a takedown, 403 for the terms of service.
    pub(crate) fn blocked(status: u16, reason: &str) -> Self {
        Self::plain(
            status,
            json!({
                "message": "Repository access blocked",
                "block": {
                    "reason": reason,
                    "created_at": "2026-01-15T09:00:00Z",
                    "html_url": format!("https://github.com/github/{reason}"),
                },
            }),
        )
    }

    /// A search that GitHub does not accept.
    pub(crate) fn invalid_search(detail: Value) -> Self {
        Self::plain(
            422,
            json!({
                "message": "Validation Failed",
                "errors": [detail],
                "documentation_url": "https://docs.github.com/v3/search/",
                "status": "422",
            }),
        )
    }

    /// Refusal by a primary limit.
    pub(crate) fn primary_limit(status: u16, identity: u64) -> Self {
        let message = format!("API rate limit exceeded for user ID {identity}.");
        let url = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api";
        Self::plain(status, json!({"message": message, "documentation_url": url, "status": status.to_string()}))
    }

    /// Refusal by a secondary limit.
    pub(crate) fn secondary_limit(status: u16, retry_after: Option<u64>) -> Self {
        let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        let url = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits";
        let body = json!({"message": message, "documentation_url": url, "status": status.to_string()});
        let mut reply = Self::plain(status, body);
        reply.headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
        reply
    }

    /// The same answer with one more header.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// `bytes` in base64 with a line break after every 60 characters, as the contents API gives them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() * 14 / 10 + 8);
    for (row, line) in bytes.chunks(45).enumerate() {
        if row > 0 {
            text.push('\n');
        }
        for group in line.chunks(3) {
            let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..4 {
                if place <= group.len() {
                    text.push(char::from(ALPHABET[(word >> (18 - 6 * place) & 63) as usize]));
                } else {
                    text.push('=');
                }
            }
        }
    }
    if !bytes.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_standard_one_in_lines_of_sixty() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==\n");
        assert_eq!(base64(b"fo"), "Zm8=\n");
        assert_eq!(base64(b"foo"), "Zm9v\n");
        assert_eq!(base64(&[0xff, 0xfe]), "//4=\n");
        let long = base64(&[b'a'; 46]);
        assert_eq!(long.lines().map(str::len).collect::<Vec<_>>(), [60, 4]);
    }
}
