//! Find a sentence encoder on this machine: in a folder, or in the cache that Hugging Face's tools fill.

use crate::encoder::cross::CrossEncoder;
use crate::encoder::{Encoder, EncoderError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where an encoder is: `minilm:DIR` or `hf:ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncoderPlace {
    /// A folder of `config.json`, `tokenizer.json` and `model.safetensors`, of any BERT.
    Folder(PathBuf),
    /// A model of the Hugging Face hub, by its name there, as its cache holds it.
    Cached(String),
}

/// An encoder that is not there or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncoderFileError {
    /// No such way of naming one.
    #[error("Failed to understand the encoder {0:?}: expected hashed, minilm:DIR or hf:OWNER/NAME")]
    Name(String),
    /// A file cannot be read.
    #[error(
        "Failed to read the encoder file {path}: {source}; a folder with config.json, tokenizer.json and model.safetensors is needed",
        path = .path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The cache does not hold it.
    #[error(
        "Failed to find the encoder {id} in the cache {cache}: nothing is downloaded here; fetch it with `hf download {id}`, or name a folder with minilm:DIR",
        cache = .cache.display()
    )]
    NotCached {
        /// Its name on the hub.
        id: String,
        /// The cache.
        cache: PathBuf,
    },
    /// There is no folder to look for a cache in.
    #[error("Failed to find the cache of Hugging Face: set HF_HUB_CACHE, HF_HOME or HOME")]
    NoCache,
    /// Its files are no encoder that is computed here.
    #[error("{source} (in {dir})", dir = .dir.display())]
    Encoder {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        source: EncoderError,
    },
}

impl FromStr for EncoderPlace {
    type Err = EncoderFileError;

    fn from_str(name: &str) -> Result<Self, EncoderFileError> {
        let wrong = || EncoderFileError::Name(name.to_owned());
        match name.split_once(':') {
            Some(("minilm", dir)) if !dir.is_empty() => Ok(Self::Folder(dir.into())),
            Some(("hf", id)) => {
                // The name becomes part of a path: two plain words and nothing that leads elsewhere.
                let plain = |part: &str| {
                    !part.is_empty()
                        && !part.starts_with('.')
                        && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
                };
                let parts: Vec<&str> = id.split('/').collect();
                if parts.len() == 2 && parts.iter().all(|p| plain(p)) {
                    Ok(Self::Cached(id.to_owned()))
                } else {
                    Err(wrong())
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// The contents of an encoder's files.
#[derive(Debug, Clone)]
pub struct EncoderFiles {
    /// Their folder.
    pub dir: PathBuf,
    /// `config.json`.
    pub config: String,
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `model.safetensors`.
    pub tensors: Vec<u8>,
}

impl EncoderFiles {
    /// The encoder of these files.
    pub fn encoder(&self) -> Result<Encoder, EncoderFileError> {
        Encoder::from_parts(&self.config, &self.tokenizer, &self.tensors).map_err(|source| self.failed(source))
    }

    /// The cross-encoder of these files.
    pub fn cross(&self) -> Result<CrossEncoder, EncoderFileError> {
        CrossEncoder::from_parts(&self.config, &self.tokenizer, &self.tensors).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: EncoderError) -> EncoderFileError {
        EncoderFileError::Encoder { dir: self.dir.clone(), source }
    }
}

impl EncoderPlace {
    /// The folder that holds it.
    pub fn folder(&self) -> Result<PathBuf, EncoderFileError> {
        match self {
            Self::Folder(dir) => Ok(dir.clone()),
            Self::Cached(id) => snapshot(&cache().ok_or(EncoderFileError::NoCache)?, id),
        }
    }

    /// Read its files.
    pub fn read(&self) -> Result<EncoderFiles, EncoderFileError> {
        let dir = self.folder()?;
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|source| EncoderFileError::Read { path, source })
        };
        let config = String::from_utf8_lossy(&read("config.json")?).into_owned();
        let (tokenizer, tensors) = (read("tokenizer.json")?, read("model.safetensors")?);
        Ok(EncoderFiles { dir, config, tokenizer, tensors })
    }
}

/// The folder of the cache, by the variables that its own tools read.
fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    folder("HF_HUB_CACHE")
        .or_else(|| Some(folder("HF_HOME")?.join("hub")))
        .or_else(|| Some(folder("HOME")?.join(".cache/huggingface/hub")))
}

/// The files that the main branch of `id` points to in `cache`.
fn snapshot(cache: &Path, id: &str) -> Result<PathBuf, EncoderFileError> {
    let model = cache.join(format!("models--{}", id.replace('/', "--")));
    let missing = || EncoderFileError::NotCached { id: id.to_owned(), cache: cache.to_owned() };
    let revision = std::fs::read_to_string(model.join("refs/main")).map_err(|_| missing())?;
    let revision = revision.trim();
    let is_hash = !revision.is_empty() && revision.chars().all(|c| c.is_ascii_hexdigit());
    let dir = model.join("snapshots").join(revision);
    if is_hash && dir.is_dir() { Ok(dir) } else { Err(missing()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_refused() {
        assert_eq!("minilm:a/b".parse::<EncoderPlace>().unwrap(), EncoderPlace::Folder("a/b".into()));
        let id = "sentence-transformers/all-MiniLM-L6-v2";
        assert_eq!(format!("hf:{id}").parse::<EncoderPlace>().unwrap(), EncoderPlace::Cached(id.to_owned()));
        for wrong in ["minilm:", "minilm", "hf:x", "hf:../..", "hf:a/b/c", "hf:a/ b", "onnx:x", ""] {
            assert!(wrong.parse::<EncoderPlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_cache_leads_to_the_main_branch() {
        let dir = tempfile::tempdir().unwrap();
        let error = snapshot(dir.path(), "o/n").unwrap_err().to_string();
        assert!(error.contains("hf download o/n"), "{error}");
        let model = dir.path().join("models--o--n");
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::create_dir_all(model.join("snapshots/abc123")).unwrap();
        std::fs::write(model.join("refs/main"), "abc123\n").unwrap();
        assert_eq!(snapshot(dir.path(), "o/n").unwrap(), model.join("snapshots/abc123"));
        std::fs::write(model.join("refs/main"), "../..").unwrap();
        assert!(snapshot(dir.path(), "o/n").is_err());
    }
}
