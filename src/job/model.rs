//! Which classifier answers: the one named, else the one of the environment, else the user's, else the one compiled in.

use super::encoders::{EncoderFileError, EncoderPlace};
use super::hydrate::shipped_labels;
use super::llm::LlmVariant;
use crate::classify::Classifier;
use crate::classify::embedded::{self, DistilledModel, EmbeddedError, PrototypeClassifier};
use crate::classify::linear::{LinearModel, ModelError, shipped};
use crate::classify::prototypes::EXAMPLES_PER_TYPE;
use crate::classify::rules::RegexRules;
use crate::classify::tuned::{self, TunedModel};
use crate::taxonomy::KnowledgeType;
use crate::train::labels::{LabelError, LabelRecord};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File of a model that says what it is.
pub const DESCRIPTION: &str = "model.json";
/// File of a model that holds its numbers.
pub const TENSORS: &str = "model.safetensors";
/// File of a model of the encoder tier that cuts texts into tokens.
pub const TOKENIZER: &str = "tokenizer.json";
/// Folder in a model of the encoder tier that holds the linear tier it was calibrated with, where that is not the one
/// compiled in.
pub const LINEAR: &str = "linear";

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
    /// A variant cannot be made.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// The sentence encoder cannot be read.
    #[error(transparent)]
    Encoder(#[from] EncoderFileError),
    /// The examples do not make prototypes.
    #[error(transparent)]
    Prototypes(#[from] EmbeddedError),
    /// The shipped labels cannot be read.
    #[error(transparent)]
    Labels(#[from] LabelError),
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
    /// The sentence encoder for the variants that ask one.
    pub encoder: Option<EncoderPlace>,
}

/// A model of any tier and where it was found.
#[derive(Clone)]
pub struct FoundModel {
    /// The model.
    pub model: Arc<dyn Classifier>,
    /// What it was fitted on and how well it did.
    pub notes: serde_json::Value,
    /// Which place had it.
    pub source: ModelSource,
    /// Its folder; nothing for the one compiled in.
    pub dir: Option<PathBuf>,
}

impl FoundModel {
    /// The one that every program has.
    pub fn compiled_in() -> Self {
        let notes = shipped().description().notes.clone();
        Self { model: Arc::new(shipped().clone()), notes, source: ModelSource::CompiledIn, dir: None }
    }
}

impl std::fmt::Debug for FoundModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = self.model.id();
        f.debug_struct("FoundModel")
            .field("model", &model)
            .field("source", &self.source)
            .field("dir", &self.dir)
            .finish()
    }
}

/// Which model gave an answer, as every JSON document says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelName {
    /// `linear`, `encoder`, `distilled`, `prototypes`, `regex+prototypes`, `regex` for the patterns, or the variant that
    /// asks a language model.
    pub tier: String,
    /// SHA-256 of its numbers, or of what is asked of whom, or the version of the patterns.
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

/// What every `model.json` says.
#[derive(Deserialize)]
struct AnyDescription {
    tier: String,
    #[serde(default)]
    notes: serde_json::Value,
}

/// Read the model in `dir`, of whatever tier; a distilled one needs the `encoder` it was fitted with.
pub fn read_model(
    dir: &Path,
    encoder: Option<&EncoderPlace>,
) -> Result<(Arc<dyn Classifier>, serde_json::Value), ModelFileError> {
    let read = |dir: &Path, name: &str| {
        let path = dir.join(name);
        std::fs::read(&path).map_err(|source| ModelFileError::Read { path, source })
    };
    let text = |dir: &Path| Ok::<_, ModelFileError>(String::from_utf8_lossy(&read(dir, DESCRIPTION)?).into_owned());
    let wrong = |source| ModelFileError::Model { dir: dir.to_owned(), source };
    let json = text(dir)?;
    let any: AnyDescription = serde_json::from_str(&json).map_err(|e| wrong(e.into()))?;
    let tensors = read(dir, TENSORS)?;
    let model: Arc<dyn Classifier> = match any.tier.as_str() {
        tuned::TIER => {
            let beside = dir.join(LINEAR);
            let linear = if beside.join(DESCRIPTION).exists() {
                let model = LinearModel::from_parts(&text(&beside)?, &read(&beside, TENSORS)?);
                Cow::Owned(model.map_err(|source| ModelFileError::Model { dir: beside.clone(), source })?)
            } else {
                Cow::Borrowed(shipped())
            };
            let tokenizer = read(dir, TOKENIZER)?;
            Arc::new(TunedModel::from_parts(&json, &tensors, &tokenizer, linear).map_err(wrong)?)
        }
        embedded::DISTILLED => {
            let needs = || VariantError::NeedsEncoder { name: embedded::DISTILLED.to_owned() };
            let encoder = encoder.ok_or_else(needs)?.read()?.encoder()?;
            Arc::new(DistilledModel::from_parts(&json, &tensors, Arc::new(encoder)).map_err(wrong)?)
        }
        _ => Arc::new(LinearModel::from_parts(&json, &tensors).map_err(wrong)?),
    };
    Ok((model, any.notes))
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
            let (model, notes) = read_model(dir, places.encoder.as_ref())?;
            return Ok(FoundModel { model, notes, source, dir: Some(dir.clone()) });
        }
    }
    Ok(FoundModel::compiled_in())
}

/// The variants of the classifier, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Pattern families in fixed order.
    Regex,
    /// Prototypes of a sentence encoder.
    Encoder,
    /// The patterns, and the prototypes where none matches.
    RegexEncoder,
    /// Logistic regression on the vectors of a sentence encoder.
    Distilled,
    /// The model that is found: the linear tier, or the encoder tier with the linear one before it.
    Trained,
    /// One of those that ask a language model.
    Llm(LlmVariant),
}

/// A variant that cannot answer here, or a name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// It asks a sentence encoder.
    #[error(
        "Failed to use the classifier {name}: it needs a sentence encoder; name one with --encoder minilm:DIR, --encoder hf:OWNER/NAME or AAC_ENCODER (`trained` and `regex` need nothing)"
    )]
    NeedsEncoder {
        /// The variant.
        name: String,
    },
    /// It asks a language model.
    #[error(
        "Failed to use the classifier {name}: it needs {needs}; name an endpoint and its model with AAC_LLM_URL and AAC_LLM_MODEL, or url and model in [llm] of aac.toml, and put its key, if it has one, into AAC_LLM_KEY (`trained` and `regex` need nothing)"
    )]
    NeedsLlm {
        /// The variant.
        name: String,
        /// What it asks.
        needs: &'static str,
    },
    /// The model that was found is of another kind.
    #[error(
        "Failed to use the classifier distilled: the model found is of the tier {tier}; `aac train --gold FILE --encoder minilm:DIR --out DIR` writes one, and --model DIR or AAC_MODEL names it"
    )]
    NotDistilled {
        /// The tier that was found.
        tier: String,
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
            "encoder" => Ok(Self::Encoder),
            "regex+encoder" => Ok(Self::RegexEncoder),
            "distilled" => Ok(Self::Distilled),
            _ => LlmVariant::ALL
                .into_iter()
                .find(|variant| variant.as_str() == name)
                .map(Self::Llm)
                .ok_or_else(|| VariantError::Unknown { name: name.to_owned() }),
        }
    }
}

impl Variant {
    /// The classifier behind the name; `trained` is the model found at `places`. Those that ask a language model are made
    /// by [`super::llm::LlmClassifier::new`].
    pub fn classifier(self, places: &ModelPlaces) -> Result<Arc<dyn Classifier>, ModelFileError> {
        let needs = |name: &str| VariantError::NeedsEncoder { name: name.to_owned() };
        Ok(match self {
            Self::Regex => Arc::new(RegexRules),
            Self::Encoder => prototypes(places.encoder.as_ref().ok_or_else(|| needs("encoder"))?, false)?,
            Self::RegexEncoder => prototypes(places.encoder.as_ref().ok_or_else(|| needs("regex+encoder"))?, true)?,
            Self::Distilled => {
                let place = places.encoder.as_ref().ok_or_else(|| needs("distilled"))?;
                let found = find_model(&ModelPlaces { encoder: Some(place.clone()), ..places.clone() })?.model;
                let tier = ModelName::of(found.as_ref()).tier;
                if tier != embedded::DISTILLED {
                    return Err(VariantError::NotDistilled { tier }.into());
                }
                found
            }
            Self::Trained => find_model(places)?.model,
            Self::Llm(variant) => return Err(variant.without_model().into()),
        })
    }
}

/// Prototypes from the phrasings that ship with the program: ten a type, of different rules. They have no meta items, so
/// that `meta` is never answered.
fn prototypes(place: &EncoderPlace, rules_first: bool) -> Result<Arc<dyn Classifier>, ModelFileError> {
    let labels = shipped_labels()?;
    let examples = prototype_examples(&labels);
    let encoder = Arc::new(place.read()?.encoder()?);
    Ok(Arc::new(PrototypeClassifier::new(encoder, &examples, rules_first)?))
}

/// Ten phrasings a type, evenly spread over those that ship, which are in the order of their domains.
fn prototype_examples(labels: &[LabelRecord]) -> Vec<(&str, KnowledgeType)> {
    let texts = |t: KnowledgeType| -> Vec<&str> {
        let own = labels.iter().filter(|r| r.domain.is_some() && r.label == Some(t));
        own.filter_map(|r| r.text.as_deref()).collect()
    };
    KnowledgeType::ALL
        .iter()
        .flat_map(|t| {
            let texts = texts(*t);
            let count = EXAMPLES_PER_TYPE.min(texts.len());
            (0..count).map(move |i| (texts[i * texts.len() / count], *t)).collect::<Vec<_>>()
        })
        .collect()
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
        for name in ["encoder", "regex+encoder", "distilled"] {
            let error = match name.parse::<Variant>().unwrap().classifier(&ModelPlaces::default()) {
                Ok(_) => panic!("{name} answered without an encoder"),
                Err(error) => error.to_string(),
            };
            assert!(error.contains("--encoder") && error.contains(name), "{error}");
        }
        for name in ["llm", "cascade", "cascade+abstain", "safety-margin"] {
            let error = name.parse::<Variant>().unwrap().classifier(&ModelPlaces::default()).err().unwrap().to_string();
            assert!(error.contains("needs a ") && error.contains(name) && error.contains("AAC_LLM_URL"), "{error}");
        }
        assert!("tree".parse::<Variant>().unwrap_err().to_string().contains("cascade+abstain"));
    }

    #[test]
    fn variants_answer_where_an_encoder_is_at_hand() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoder");
        let mut places = ModelPlaces { encoder: Some(EncoderPlace::Folder(dir)), ..Default::default() };
        let item = crate::corpus::ItemContext { text: "never push to main", ..Default::default() };
        for name in ["encoder", "regex+encoder"] {
            let classifier = name.parse::<Variant>().unwrap().classifier(&places).unwrap();
            assert_eq!(classifier.name(), name);
            let sum: f32 = classifier.probabilities(&item).as_array().iter().sum();
            assert!((sum - 1.0).abs() < 1e-5);
        }
        let error = |places: &ModelPlaces| Variant::Distilled.classifier(places).err().unwrap().to_string();
        assert!(error(&places).contains("tier linear"), "{}", error(&places));
        places.encoder = Some(EncoderPlace::Folder("absent".into()));
        assert!(Variant::Encoder.classifier(&places).err().unwrap().to_string().contains("absent"));
    }

    #[test]
    fn prototypes_are_ten_a_type_of_different_rules() {
        let labels = shipped_labels().unwrap();
        let examples = prototype_examples(&labels);
        assert_eq!(examples.len(), 50);
        let texts: std::collections::HashSet<&str> = examples.iter().map(|(text, _)| *text).collect();
        assert_eq!(texts.len(), 50);
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
        let error = find_model(&places).err().unwrap().to_string();
        assert!(error.contains("named") && error.contains("SHA-256"), "{error}");
        places.named = Some(dir.path().join("absent"));
        assert!(find_model(&places).err().unwrap().to_string().contains("absent"));
    }
}
