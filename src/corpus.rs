//! Ids and values of the corpus: what a repository, a blob, an artifact and an item are, independent of where they are
//! kept.

use crate::taxonomy::{AuthorKind, CreditVia, ItemKind};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not `2 × bytes` hexadecimal digits.
    #[error("Expected {digits} hexadecimal digits, found {found:?}")]
    Hex {
        /// How many digits the id has.
        digits: usize,
        /// What was given.
        found: String,
    },
    /// Not `owner/name`.
    #[error("Expected OWNER/NAME, found {0:?}")]
    Slug(String),
}

macro_rules! digest_id {
    ($(#[$meta:meta])* $name:ident, $bytes:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// The id held in `bytes`, or nothing when the length differs.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = || IdError::Hex { digits: 2 * $bytes, found: text.to_owned() };
                if text.len() != 2 * $bytes || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(wrong());
                }
                let mut bytes = [0u8; $bytes];
                for (slot, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
                    let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
                    *slot = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
                }
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

digest_id! {
    /// SHA-256 of the exact bytes: the identity of a blob in the corpus.
    Sha256, 32
}
digest_id! {
    /// Git's object id (SHA-1) of a blob, commit or tree.
    GitOid, 20
}

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl GitOid {
    /// The id that git gives a blob with these bytes.
    pub fn of_blob(bytes: &[u8]) -> Self {
        let mut hasher = sha1::Sha1::new();
        hasher.update(format!("blob {}\0", bytes.len()));
        hasher.update(bytes);
        Self(hasher.finalize().into())
    }
}

/// `owner/name`. Compared without regard to ASCII case, as GitHub does; shown as it was given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug {
    owner: String,
    name: String,
}

impl Slug {
    /// Build from parts; an empty part or one with a slash, white space or a control character is refused.
    pub fn new(owner: &str, name: &str) -> Result<Self, IdError> {
        let good = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && !part.contains(|c: char| c == '/' || c.is_control() || c.is_whitespace())
        };
        if good(owner) && good(name) {
            Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
        } else {
            Err(IdError::Slug(format!("{owner}/{name}")))
        }
    }

    /// The account that owns the repository.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The form used as a key: ASCII lower case.
    pub fn key(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }
}

impl PartialEq for Slug {
    fn eq(&self, other: &Self) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }
}
impl Eq for Slug {}
impl std::hash::Hash for Slug {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
impl PartialOrd for Slug {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Slug {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for Slug {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let (owner, name) = text.split_once('/').ok_or_else(|| IdError::Slug(text.to_owned()))?;
        Self::new(owner, name)
    }
}

impl TryFrom<String> for Slug {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.to_string()
    }
}

/// The name of a platform: the stem of its file under `queries/search/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Platform(pub String);

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where in a blob an item lies. Byte offsets into the UTF-8 text; `line` is 1-based.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ItemSpan {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// 1-based line of the first byte.
    pub line: u32,
    /// What kind of passage it is.
    pub kind: ItemKind,
    /// Index into [`Segmentation::headings`] of the nearest heading above.
    pub heading: Option<u32>,
}

impl ItemSpan {
    /// The byte range.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A heading of a document, with the heading it stands under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heading {
    /// Byte range of the heading's text, without its marks.
    pub start: u32,
    /// One past the last byte of the text.
    pub end: u32,
    /// 1 to 6.
    pub level: u8,
    /// Index of the heading above it of a lower level; always smaller than its own index.
    pub parent: Option<u32>,
}

/// The items of one blob: spans in document order that never overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segmentation {
    /// Headings in document order.
    pub headings: Vec<Heading>,
    /// Items in document order.
    pub items: Vec<ItemSpan>,
}

impl Segmentation {
    /// The texts of the headings above `item`, outermost first. `text` must be the text that was segmented.
    pub fn heading_path<'a>(&self, item: &ItemSpan, text: &'a str) -> Vec<&'a str> {
        let mut path = Vec::new();
        let mut next = item.heading;
        while let Some(heading) = next.and_then(|index| self.headings.get(index as usize)) {
            path.push(text.get(heading.start as usize..heading.end as usize).unwrap_or_default());
            next = heading.parent;
        }
        path.reverse();
        path
    }
}

/// An item with what stands around it: the input of every classifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemContext<'a> {
    /// The item's own text.
    pub text: &'a str,
    /// What kind of passage it is, when known.
    pub kind: Option<ItemKind>,
    /// Headings above it, outermost first.
    pub heading: &'a [&'a str],
    /// Path of the file in its repository; empty when unknown.
    pub path: &'a str,
    /// Text of the item before it in the same file.
    pub before: Option<&'a str>,
    /// Text of the item after it in the same file.
    pub after: Option<&'a str>,
}

/// A commit that touched a path, as git or GitHub gives it. Passed to [`crate::tag::authors`] and dropped: names,
/// addresses and messages are never kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitRecord {
    /// Author's name.
    pub name: String,
    /// Author's address.
    pub email: String,
    /// Author's account, when GitHub knows one.
    pub login: Option<String>,
    /// The whole message with its trailers.
    pub message: String,
    /// Author date, seconds since the epoch.
    pub when: i64,
    /// Whether the path did not exist in the commit's parent.
    pub creates: bool,
}

/// What is kept of a commit that touched a path: kinds and agents, no person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitFact {
    /// Kind of the author.
    pub author: AuthorKind,
    /// The agent that had a hand in it, by its name in `queries/tag/authors.toml`, and how the commit says so.
    pub agent: Option<(String, CreditVia)>,
    /// Kinds of the co-authors, in the order of the trailers.
    pub co_authors: Vec<AuthorKind>,
    /// Author date, seconds since the epoch.
    pub when: i64,
    /// Whether the path did not exist in the commit's parent.
    pub creates: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_agree_with_git_and_sha256sum() {
        assert_eq!(GitOid::of_blob(b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(Sha256::of(b"abc").to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn ids_read_back_and_wrong_ones_say_what_was_expected() {
        let oid = GitOid::of_blob(b"x");
        assert_eq!(oid.to_string().parse::<GitOid>(), Ok(oid));
        assert_eq!("zz".parse::<GitOid>().unwrap_err().to_string(), "Expected 40 hexadecimal digits, found \"zz\"");
        assert!("é".repeat(20).parse::<GitOid>().is_err());
    }

    #[test]
    fn slugs_compare_without_case_and_refuse_traversal() {
        let a: Slug = "Owner/Name".parse().unwrap();
        assert_eq!(a, "owner/name".parse().unwrap());
        for bad in ["owner", "/x", "x/", "a/b/c", "../x", "a/..", "a b/c"] {
            assert!(bad.parse::<Slug>().is_err(), "{bad}");
        }
    }
}
