//! Search an index by words, by meaning, or by reading query and text together, with weights that the caller brings.

use super::encoders::{EncoderFileError, EncoderPlace};
use super::file::replace;
use crate::encoder::cross::CrossEncoder;
use crate::encoder::{Encoder, EncoderError};
use crate::triage::{Dense, Index, VectorError, VectorStore, best_of, reorder};
use std::path::{Path, PathBuf};

/// How many of the best entries of the first scorer a cross-encoder reads.
pub const POOL: usize = 100;

/// Why an index cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The files of an encoder cannot be used.
    #[error(transparent)]
    Files(#[from] EncoderFileError),
    /// An encoder cannot read a text.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The vectors kept beside an index cannot be understood.
    #[error("{path}: {source}", path = .path.display())]
    Vectors {
        /// Their file.
        path: PathBuf,
        /// What is wrong.
        source: VectorError,
    },
    /// A file cannot be read or written.
    #[error("Failed to {verb} {path}: {source}", path = .path.display())]
    File {
        /// Read or write.
        verb: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What scores entries: BM25, unless there is an encoder; a cross-encoder reads the best of either.
#[derive(Debug, Clone, Default)]
pub struct Searcher {
    encoder: Option<Encoder>,
    reranker: Option<CrossEncoder>,
}

/// The vectors of an index.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// One an entry.
    pub dense: Dense,
    /// How many texts were embedded for it; the others were kept from before.
    pub new: usize,
}

impl Searcher {
    /// Read the weights of what is named.
    pub fn load(encoder: Option<&EncoderPlace>, reranker: Option<&EncoderPlace>) -> Result<Self, SearchError> {
        Ok(Self {
            encoder: encoder.map(|place| place.read()?.encoder()).transpose()?,
            reranker: reranker.map(|place| place.read()?.cross()).transpose()?,
        })
    }

    /// The ids of the encoder and the cross-encoder, where there are any.
    pub fn ids(&self) -> [Option<&str>; 2] {
        [self.encoder.as_ref().map(Encoder::id), self.reranker.as_ref().map(CrossEncoder::id)]
    }

    /// Embed `index`; nothing without an encoder. Vectors are kept in `file`, where one is given: only texts that are new
    /// since then are embedded, all of them when another encoder wrote it.
    pub fn embed(&self, index: &Index, file: Option<&Path>) -> Result<Option<Embedded>, SearchError> {
        let Some(encoder) = &self.encoder else { return Ok(None) };
        let kept = match file {
            Some(path) if path.exists() => Some(read_vectors(path)?),
            _ => None,
        };
        let same = kept.filter(|store| store.encoder() == encoder.id());
        let before = same.as_ref().map(VectorStore::count);
        let mut store = same.unwrap_or_else(|| VectorStore::new(encoder.id()));
        let new = store.update(index, |texts| encoder.encode(&texts.iter().map(String::as_str).collect::<Vec<_>>()))?;
        // What came is counted in `new`; what only went leaves fewer than before.
        if let Some(path) = file.filter(|_| new > 0 || before != Some(store.count())) {
            write_aside(path, &store.write())?;
        }
        Ok(Some(Embedded { dense: store.dense(index), new }))
    }

    /// The scores of all entries for `query` by the first scorer: BM25, or the encoder whose vectors are given.
    pub fn first(&self, index: &Index, dense: Option<&Dense>, query: &str) -> Result<Vec<f32>, SearchError> {
        match (&self.encoder, dense) {
            (Some(encoder), Some(dense)) => {
                let asked = encoder.encode(&[query])?.pop().unwrap_or_default();
                Ok(dense.scores_to(asked))
            }
            _ => Ok(index.scores(query)),
        }
    }

    /// `scores` with the best [`POOL`] in the order of the cross-encoder; as they are without one. What shares no word with
    /// the query is not read.
    pub fn rerank(&self, index: &Index, scores: Vec<f32>, query: &str) -> Result<Vec<f32>, SearchError> {
        let Some(reranker) = &self.reranker else { return Ok(scores) };
        let mut pool = best_of(&scores, POOL);
        pool.retain(|at| scores[*at] > 0.0);
        let texts: Vec<&str> = pool.iter().map(|at| index.entries()[*at].text.as_str()).collect();
        let relevance = reranker.relevance(query, &texts)?;
        Ok(reorder(&scores, &pool, &relevance))
    }
}

/// Where the vectors of the index in `index` are kept.
pub fn vectors_of(index: &Path) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(".vectors");
    name.into()
}

fn read_vectors(path: &Path) -> Result<VectorStore, SearchError> {
    let failed = |source| SearchError::File { verb: "read", path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(failed)?;
    VectorStore::read(&bytes).map_err(|source| SearchError::Vectors { path: path.to_owned(), source })
}

/// Write a file aside and rename it, so that a reader never sees half of it.
pub fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), SearchError> {
    replace(path, bytes).map_err(|source| SearchError::File { verb: "write", path: path.to_owned(), source })
}
