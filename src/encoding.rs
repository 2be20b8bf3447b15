//! What bytes mean as text: the encodings that agent files come in.

use crate::taxonomy::TextEncoding;
use std::borrow::Cow;

/// How much of a file is looked at to tell binary from text, as git does.
const SNIFF: usize = 8_000;

/// The encoding of `bytes` and their text with `\u{FEFF}` removed from the front; `None` for binary content.
///
/// Order of evidence: byte order mark, a NUL byte near the front (binary), valid UTF-8, else Latin-1, in which every
/// byte is a character and nothing is lost.
pub fn decode(bytes: &[u8]) -> (TextEncoding, Option<Cow<'_, str>>) {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => match std::str::from_utf8(rest) {
            Ok(text) => (TextEncoding::Utf8Bom, Some(Cow::Borrowed(text))),
            Err(_) => (TextEncoding::Latin1, Some(latin1(bytes))),
        },
        [0xFF, 0xFE, rest @ ..] => (TextEncoding::Utf16Le, Some(utf16(rest, u16::from_le_bytes))),
        [0xFE, 0xFF, rest @ ..] => (TextEncoding::Utf16Be, Some(utf16(rest, u16::from_be_bytes))),
        _ if bytes[..bytes.len().min(SNIFF)].contains(&0) => (TextEncoding::Binary, None),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => (TextEncoding::Utf8, Some(Cow::Borrowed(text))),
            Err(_) => (TextEncoding::Latin1, Some(latin1(bytes))),
        },
    }
}

/// How large a pointer of git's large file storage can be, bytes: its three lines at least, less than 1 KiB at most.
pub const LFS_POINTER_SIZES: std::ops::Range<u64> = 120..1024;

/// Whether `bytes` are a pointer of git's large file storage instead of the content itself.
pub fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < 1024 && bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

fn latin1(bytes: &[u8]) -> Cow<'_, str> {
    Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect())
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Cow<'_, str> {
    let units = bytes.chunks(2).map(|pair| match pair {
        [a, b] => unit([*a, *b]),
        _ => u16::from(b'?'),
    });
    Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_told_apart() {
        let text = |bytes: &[u8]| decode(bytes).1.map(Cow::into_owned);
        assert_eq!(decode(b"plain").0, TextEncoding::Utf8);
        assert_eq!(decode(b"\xEF\xBB\xBFbom"), (TextEncoding::Utf8Bom, Some(Cow::Borrowed("bom"))));
        assert_eq!(decode(b"caf\xE9"), (TextEncoding::Latin1, Some(Cow::Borrowed("café"))));
        assert_eq!(text(b"\xFF\xFEh\0i\0").as_deref(), Some("hi"));
        assert_eq!(text(b"\xFE\xFF\0h\0i").as_deref(), Some("hi"));
        assert_eq!(decode(b"\x89PNG\0\0"), (TextEncoding::Binary, None));
        assert_eq!(decode(b""), (TextEncoding::Utf8, Some(Cow::Borrowed(""))));
        assert_eq!(text(b"\xFF\xFEodd").map(|t| t.chars().count()), Some(2));
    }

    #[test]
    fn a_pointer_is_no_content() {
        assert!(is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"));
        assert!(!is_lfs_pointer(b"# version"));
    }
}
