//! Which classifier answers: the one named, else the one of the environment, else the user's, else the one compiled in.

use crate::classify::Classifier;
use crate::classify::linear::{LinearModel, ModelError, shipped};
use crate::classify::rules::RegexRules;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File of a model that says what it is.
pub const DESCRIPTION: &str = "model.json";
/// File of a model that holds its numbers.
pub const TENSORS: &str = "model.safetensors";

/// A folder without a model that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// A file of it cannot be read.
    #[error("Failed to read the model file {path}: {source}; `aac train --out DIR` writes a model", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The files are no model of this release.
    #[error("{source} (in {dir})", dir = .dir.display())]
    Model {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        source: ModelError,
    },
}

/// Where a model came from, in the order in which places are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSource {
    /// `--model`.
    Named,
    /// `AAC_MODEL`.
    Environment,
    /// The user's data folder.
    DataFolder,
    /// The program itself.
    CompiledIn,
}

/// Folders that may hold a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPlaces {
    /// Named on the command line.
    pub named: Option<PathBuf>,
    /// Named in the environment.
    pub environment: Option<PathBuf>,
    /// The user's own folder; it counts only where it holds a model.
    pub data_folder: Option<PathBuf>,
}

/// A linear model and where it was found.
#[derive(Debug, Clone)]
pub struct FoundModel {
    /// The model.
    pub model: Arc<LinearModel>,
    /// Which place had it.
    pub source: ModelSource,
    /// Its folder; nothing for the one compiled in.
    pub dir: Option<PathBuf>,
}

impl FoundModel {
    /// The one that every program has.
    pub fn compiled_in() -> Self {
        Self { model: Arc::new(shipped().clone()), source: ModelSource::CompiledIn, dir: None }
    }
}

/// Which model gave an answer, as every JSON document says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelName {
    /// `linear`, or `regex` for the patterns.
    pub tier: String,
    /// SHA-256 of its numbers, or the version of the patterns.
    pub hash: String,
}

impl ModelName {
    /// The name of a classifier.
    pub fn of(classifier: &dyn Classifier) -> Self {
        let id = classifier.id();
        let (tier, hash) = id.split_once(':').unwrap_or((&id, ""));
        Self { tier: tier.to_owned(), hash: hash.to_owned() }
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.tier, self.hash.get(..12).unwrap_or(&self.hash))
    }
}

/// Read the model in `dir`.
pub fn read_model(dir: &Path) -> Result<LinearModel, ModelFileError> {
    let failed = |name: &str| {
        let path = dir.join(name);
        move |source| ModelFileError::Read { path, source }
    };
    let json = std::fs::read_to_string(dir.join(DESCRIPTION)).map_err(failed(DESCRIPTION))?;
    let tensors = std::fs::read(dir.join(TENSORS)).map_err(failed(TENSORS))?;
    LinearModel::from_parts(&json, &tensors).map_err(|source| ModelFileError::Model { dir: dir.to_owned(), source })
}

/// The first place that has a model. A place that was named, or a data folder that holds something else than a model of
/// this release, is an error: another model must not answer in silence.
pub fn find_model(places: &ModelPlaces) -> Result<FoundModel, ModelFileError> {
    let user = places.data_folder.as_ref().filter(|dir| dir.join(DESCRIPTION).exists());
    let found = [
        (ModelSource::Named, places.named.as_ref()),
        (ModelSource::Environment, places.environment.as_ref()),
        (ModelSource::DataFolder, user),
    ];
    for (source, dir) in found {
        if let Some(dir) = dir {
            return Ok(FoundModel { model: Arc::new(read_model(dir)?), source, dir: Some(dir.clone()) });
        }
    }
    Ok(FoundModel::compiled_in())
}

/// The variants of the classifier, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Pattern families in fixed order.
    Regex,
    /// The linear model.
    Trained,
}

/// A variant that cannot answer here, or a name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// It asks a sentence encoder.
    #[error(
        "Failed to use the classifier {name}: it needs a sentence encoder, and this program has none; `trained` and `regex` need nothing"
    )]
    NeedsEncoder {
        /// The variant.
        name: String,
    },
    /// It asks a language model.
    #[error(
        "Failed to use the classifier {name}: it needs {needs}, and this program cannot ask one yet; `trained` and `regex` need nothing"
    )]
    NeedsLlm {
        /// The variant.
        name: String,
        /// What it asks.
        needs: &'static str,
    },
    /// No such variant.
    #[error(
        "Failed to find the classifier {name:?}: the names are regex, encoder, regex+encoder, distilled, trained, llm, cascade, cascade+abstain, safety-margin"
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

impl std::str::FromStr for Variant {
    type Err = VariantError;

    fn from_str(name: &str) -> Result<Self, VariantError> {
        match name {
            "regex" => Ok(Self::Regex),
            "trained" => Ok(Self::Trained),
            "encoder" | "regex+encoder" | "distilled" => Err(VariantError::NeedsEncoder { name: name.to_owned() }),
            "llm" | "safety-margin" => Err(VariantError::NeedsLlm { name: name.to_owned(), needs: "a language model" }),
            "cascade" | "cascade+abstain" => {
                Err(VariantError::NeedsLlm { name: name.to_owned(), needs: "a sentence encoder and a language model" })
            }
            _ => Err(VariantError::Unknown { name: name.to_owned() }),
        }
    }
}

impl Variant {
    /// The classifier behind the name; `trained` is the model found at `places`.
    pub fn classifier(self, places: &ModelPlaces) -> Result<Arc<dyn Classifier>, ModelFileError> {
        Ok(match self {
            Self::Regex => Arc::new(RegexRules),
            Self::Trained => find_model(places)?.model,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_contract_answers_or_says_what_it_needs() {
        for name in ["regex", "trained"] {
            let classifier = name.parse::<Variant>().unwrap().classifier(&ModelPlaces::default()).unwrap();
            assert_eq!(classifier.name(), name);
        }
        for name in ["encoder", "regex+encoder", "distilled", "llm", "cascade", "cascade+abstain", "safety-margin"] {
            let error = name.parse::<Variant>().unwrap_err().to_string();
            assert!(error.contains("needs a ") && error.contains(name), "{error}");
        }
        assert!("tree".parse::<Variant>().unwrap_err().to_string().contains("cascade+abstain"));
    }

    #[test]
    fn the_first_place_with_a_model_answers_and_a_broken_one_is_no_excuse() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir(&at).unwrap();
            std::fs::write(at.join(DESCRIPTION), shipped().description_json().unwrap()).unwrap();
            std::fs::write(at.join(TENSORS), shipped().tensors()).unwrap();
            at
        };
        let mut places = ModelPlaces { data_folder: Some(dir.path().join("absent")), ..Default::default() };
        assert_eq!(find_model(&places).unwrap().source, ModelSource::CompiledIn);
        places.data_folder = Some(write("data"));
        assert_eq!(find_model(&places).unwrap().source, ModelSource::DataFolder);
        places.environment = Some(write("environment"));
        assert_eq!(find_model(&places).unwrap().source, ModelSource::Environment);
        places.named = Some(write("named"));
        let found = find_model(&places).unwrap();
        assert_eq!((found.source, found.dir), (ModelSource::Named, places.named.clone()));
        std::fs::write(dir.path().join("named").join(TENSORS), b"x").unwrap();
        let error = find_model(&places).unwrap_err().to_string();
        assert!(error.contains("named") && error.contains("SHA-256"), "{error}");
        places.named = Some(dir.path().join("absent"));
        assert!(find_model(&places).unwrap_err().to_string().contains("absent"));
    }
}
