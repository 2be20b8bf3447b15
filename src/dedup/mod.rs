//! Which texts say the same thing: near duplicates by MinHash-LSH, each pair checked by its true Jaccard similarity.
//!
//! # What counts as a duplicate
//!
//! Texts are normalised lightly ([`normalised_lines`]): byte order mark, line endings, blank lines and the amount of
//! white space do not count; case, numbers and punctuation do. Two texts are duplicates when either
//!
//! * their normalised texts are equal ([`Relation::Normalised`]), or
//! * both are prose of at least [`MIN_SHINGLES`] distinct shingles (five consecutive words), the Jaccard similarity of
//!   their shingle sets reaches [`Options::threshold`], and their *critical tokens* do not contradict each other
//!   ([`Relation::Near`]).
//!
//! Jaccard alone would merge a long file with its copy for another version of the tool. Critical tokens are the words
//! with a digit (but not list numbers and dates) and every line and span of code. They contradict when each text has
//! one that the other lacks, which is what a changed version or command leaves behind; a text with some more commands
//! than the other is still its near duplicate. Settings (JSON, `key: value` files, lists of patterns) carry meaning in
//! every line, so they merge only when their normalised texts are equal.
//!
//! # Clusters
//!
//! Documents are visited in a total order (priority, then SHA-256). Each joins the most similar canonical document
//! before it, or becomes canonical itself. Every member is thus verified against the one that stands for it, chains
//! of similar pairs never pull unrelated texts together, and the result depends neither on the order of the input nor
//! on the number of threads.
//!
//! # Work
//!
//! Signatures share a band when the texts are similar; texts linked by shared bands form *families*, and no text is
//! ever compared outside of its own. Each family is settled by one thread, which keeps the prepared texts at hand, so
//! most texts are read once. Signatures alone settle which pairs are too unlike, and, for almost all that contradict
//! each other, that they do: only the rest is compared exactly.
//!
//! Sources: Broder, *On the resemblance and containment of documents* (1997); Li and König, *b-Bit minwise hashing*
//! (2010); Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, chapter 3 (bands); Dahlgaard, Knudsen and Thorup,
//! *Fast similarity sketching* (2017).

mod cluster;
mod family;
mod lines;
mod normalise;
mod signature;
mod summary;

pub use cluster::{Clustering, Document, GiantCluster, Member, Options, Relation, cluster};
pub use lines::{FrequencyBuilder, FrequencyError, LineFrequencies};
pub use normalise::{line_hash, normalised_lines};
pub use signature::{MIN_SHINGLES, Profile, Signature, Verdict};

/// Version of everything that decides clusters and line hashes: stored signatures and statistics of another version
/// are stale.
pub const VERSION: u16 = 2;
