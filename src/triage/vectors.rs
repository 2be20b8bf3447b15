//! The vectors of an index, kept between runs: an entry is embedded once, however often the index is asked.

use super::base::ItemId;
use super::dense::{Dense, embedded_text};
use super::index::Index;
use std::collections::{BTreeMap, HashMap};

/// First words of a written store.
const HEADER: &str = "aac-vectors 1";

/// Vectors of one encoder, by the text that they are of.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Belief;
/// use aac::triage::{Base, Index, Judgement, Tokenizer, VectorStore};
///
/// let base = Base::read("a.md", "- one\n- two\n", Tokenizer::Cl100k, |_| Judgement::certain(Belief));
/// let mut index = Index::default();
/// index.replace("a.md", &base);
/// let lengths = |texts: &[String]| Ok::<_, ()>(texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect());
/// let mut store = VectorStore::new("lengths");
/// assert_eq!(store.update(&index, lengths), Ok(2));
/// let mut store = VectorStore::read(&store.write()).unwrap();
/// assert_eq!(store.update(&index, lengths), Ok(0));
/// assert_eq!(store.dense(&index).scores_to(vec![3.0, 1.0]).len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VectorStore {
    encoder: String,
    vectors: HashMap<ItemId, Vec<f32>>,
}

/// Why a written store cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VectorError {
    /// The first line is another one.
    #[error("Failed to read the vectors: they do not begin with {HEADER:?}; remove the file to have it made anew")]
    Header,
    /// It ends early, or something is left.
    #[error(
        "Failed to read the vectors: {found} bytes follow the first line instead of {expected}; remove the file to have it made anew"
    )]
    Length {
        /// Bytes after the first line.
        found: usize,
        /// What the first line says.
        expected: usize,
    },
}

impl VectorStore {
    /// None yet, of the encoder with this id.
    pub fn new(encoder: &str) -> Self {
        Self { encoder: encoder.to_owned(), vectors: HashMap::new() }
    }

    /// The id of the encoder. Vectors of another one mean nothing beside these.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// How many vectors it holds.
    pub fn count(&self) -> usize {
        self.vectors.len()
    }

    /// Embed what `index` holds and the store lacks, and forget what the index no longer holds. Returns how many texts
    /// were embedded. `embed` gives one vector a text, all of one length.
    pub fn update<E>(
        &mut self,
        index: &Index,
        embed: impl FnOnce(&[String]) -> Result<Vec<Vec<f32>>, E>,
    ) -> Result<usize, E> {
        let texts: BTreeMap<ItemId, String> =
            index.entries().iter().map(embedded_text).map(|text| (ItemId::of(&text, 0), text)).collect();
        self.vectors.retain(|id, _| texts.contains_key(id));
        let (ids, lacking): (Vec<ItemId>, Vec<String>) =
            texts.into_iter().filter(|(id, _)| !self.vectors.contains_key(id)).unzip();
        if !lacking.is_empty() {
            self.vectors.extend(ids.into_iter().zip(embed(&lacking)?));
        }
        Ok(lacking.len())
    }

    /// The vectors in the order of `index`; an entry without one, because the store was not updated, is like nothing.
    pub fn dense(&self, index: &Index) -> Dense {
        let width = self.vectors.values().next().map_or(0, Vec::len);
        let of = |text: String| self.vectors.get(&ItemId::of(&text, 0)).cloned().unwrap_or_else(|| vec![0.0; width]);
        Dense::of_vectors(index.entries().iter().map(embedded_text).map(of).collect())
    }

    /// The store as bytes; [`Self::read`] gives it back. The same vectors give the same bytes.
    pub fn write(&self) -> Vec<u8> {
        let width = self.vectors.values().next().map_or(0, Vec::len);
        let mut bytes = format!("{HEADER} {} {width} {}\n", self.vectors.len(), self.encoder).into_bytes();
        let mut ids: Vec<&ItemId> = self.vectors.keys().collect();
        ids.sort_unstable();
        for id in ids {
            bytes.extend(id.0.to_le_bytes());
            let vector = &self.vectors[id];
            (0..width).for_each(|at| bytes.extend(vector.get(at).copied().unwrap_or(0.0).to_le_bytes()));
        }
        bytes
    }

    /// Read what [`Self::write`] wrote.
    pub fn read(bytes: &[u8]) -> Result<Self, VectorError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(VectorError::Header)?;
        let line = std::str::from_utf8(&bytes[..end]).map_err(|_| VectorError::Header)?;
        let rest = line.strip_prefix(HEADER).ok_or(VectorError::Header)?;
        let mut parts = rest.trim_start().splitn(3, ' ');
        let mut number = || parts.next()?.parse::<usize>().ok();
        let (Some(count), Some(width)) = (number(), number()) else { return Err(VectorError::Header) };
        let encoder = parts.next().ok_or(VectorError::Header)?.to_owned();
        let body = &bytes[end + 1..];
        let size = width.saturating_mul(4).saturating_add(8);
        let expected = size.saturating_mul(count);
        if body.len() != expected {
            return Err(VectorError::Length { found: body.len(), expected });
        }
        let mut vectors = HashMap::with_capacity(count);
        for one in body.chunks_exact(size) {
            let (id, values) = one.split_at(8);
            let id = u64::from_le_bytes(id.try_into().unwrap_or_default());
            vectors.insert(ItemId(id), values.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect());
        }
        Ok(Self { encoder, vectors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    /// The letters' counts; how many texts were asked for is told.
    fn letters(texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let count = |text: &String| ('a'..='z').map(|letter| text.matches(letter).count() as f32).collect();
        Ok(texts.iter().map(count).collect())
    }

    #[test]
    fn only_what_is_new_is_embedded_and_what_is_gone_is_forgotten() {
        let mut index = Index::default();
        index.replace("a.md", &base("# A\n\n- aaab\n- zzzy\n- aaab\n"));
        let mut store = VectorStore::new("bert:00 letters");
        assert_eq!(store.update(&index, letters), Ok(2), "what is said twice is embedded once");
        let best = |store: &VectorStore, index: &Index| {
            let scores = store.dense(index).scores_to(letters(&["zy".to_owned()]).unwrap().remove(0));
            index.entries()[super::super::dense::best_of(&scores, 1)[0]].text.clone()
        };
        assert_eq!(best(&store, &index), "zzzy");
        let mut back = VectorStore::read(&store.write()).unwrap();
        assert_eq!((&back, back.encoder()), (&store, "bert:00 letters"));
        assert_eq!(back.update(&index, |_| Err("asked")), Ok(0));
        index.replace("a.md", &base("# A\n\n- aaab\n- zy zy\n"));
        assert_eq!(back.update(&index, letters), Ok(1));
        assert_eq!((best(&back, &index), back.vectors.len()), ("zy zy".to_owned(), 2));
        assert_eq!(back.update(&Index::default(), |_| Err("asked")), Ok(0));
        assert_eq!(VectorStore::read(&back.write()).unwrap(), back);
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for wrong in
            [&b""[..], b"aac-index 1\n", b"aac-vectors 1 x 2 e\n", b"aac-vectors 1 2\n", b"aac-vectors 1 1 1 e"]
        {
            assert_eq!(VectorStore::read(wrong), Err(VectorError::Header), "{wrong:?}");
        }
        let cut = VectorStore::read(b"aac-vectors 1 2 1 e\n12345678abcd").unwrap_err();
        assert_eq!(cut, VectorError::Length { found: 12, expected: 24 });
        assert!(VectorStore::read(format!("aac-vectors 1 {} {} e\n", usize::MAX, usize::MAX).as_bytes()).is_err());
    }
}
