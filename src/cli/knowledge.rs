//! What the operators have in common on the command line: a file read as a typed base.

use super::{Context, Failure};
use crate::classify::{Classifier, Policy};
use crate::encoding::decode;
use crate::job::model::{ModelName, find_model};
use crate::taxonomy::{Authority, OperatingPoint};
use crate::triage::{Base, Budget, Outcome, Tokenizer};
use clap::Args;
use serde::Serialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is read.
#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// Tokenizer that budgets are meant in: cl100k, o200k or chars4 (four characters a token)
    #[arg(long, value_name = "NAME", default_value = "cl100k", value_parser = tokenizer)]
    pub(super) tokenizer: Tokenizer,
    /// Who speaks in the file: sys, dev, user, tool or ret; weighs the risk of its constraints
    #[arg(long, value_name = "WHO", value_parser = authority)]
    authority: Option<Authority>,
    /// Folder of the model that judges the items [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
}

/// Reads files as typed bases, all judged by one model at the safe point.
pub(super) struct Reader {
    classifier: Arc<dyn Classifier>,
    policy: Policy,
    tokenizer: Tokenizer,
}

impl ReadArgs {
    /// Find the model and make ready to read.
    pub(super) fn reader(&self, context: &Context) -> Result<Reader, Failure> {
        let found = find_model(&context.model_places(self.model.as_ref())?).map_err(Failure::usage)?;
        let policy = Policy {
            authority: self.authority,
            weights: context.config.classify.authority,
            ..Policy::at(OperatingPoint::Safe)
        };
        Ok(Reader { classifier: found.model, policy, tokenizer: self.tokenizer })
    }
}

impl Reader {
    /// The model that judges.
    pub(super) fn model(&self) -> ModelName {
        ModelName::of(self.classifier.as_ref())
    }

    /// A text as a base.
    pub(super) fn judge(&self, path: &str, text: &str) -> Base {
        Base::classify(path, text, self.tokenizer, self.classifier.as_ref(), &self.policy)
    }

    /// A file as a base.
    pub(super) fn base(&self, path: &Path) -> Result<Base, Failure> {
        Ok(self.judge(&path.to_string_lossy(), &read_text(path)?))
    }

    /// The same for a file that is to be rewritten, which a settings file cannot be.
    pub(super) fn markdown(&self, path: &Path) -> Result<Base, Failure> {
        let base = self.base(path)?;
        if base.is_settings() {
            return Err(Failure::usage(format!(
                "Failed to rewrite {}: it is a settings file, and leaving keys out would change what it sets; give a \
                 Markdown or plain text file",
                path.display()
            )));
        }
        Ok(base)
    }
}

/// How an answer stands to its budget: the same fields in every document that has one.
#[derive(Debug, Serialize)]
pub(super) struct BudgetReport {
    status: &'static str,
    tokens_in: usize,
    tokens_out: usize,
    budget: usize,
    min_safe_budget: usize,
    min_full_budget: usize,
}

impl BudgetReport {
    pub(super) fn of(outcome: &Outcome, safe: bool, tokens_out: usize) -> Self {
        Self {
            status: if safe { "safe" } else { "unsafe" },
            tokens_in: outcome.tokens_in,
            tokens_out,
            budget: outcome.budget,
            min_safe_budget: outcome.min_safe_budget,
            min_full_budget: outcome.min_full_budget,
        }
    }
}

fn tokenizer(word: &str) -> Result<Tokenizer, String> {
    word.parse::<Tokenizer>().map_err(|error| error.to_string())
}

fn authority(word: &str) -> Result<Authority, String> {
    word.parse::<Authority>().map_err(|error| error.to_string())
}

/// For clap: a budget such as 2000 or 50%.
pub(super) fn budget(word: &str) -> Result<Budget, String> {
    word.parse::<Budget>().map_err(|error| error.to_string())
}

/// The text of a file, or of standard input for `-`.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let failed = |why: String| Failure::failed(format!("Failed to read {}: {why}", path.display()));
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        bytes
    } else {
        std::fs::read(path).map_err(|error| failed(error.to_string()))?
    };
    match decode(&bytes) {
        (_, Some(text)) => Ok(text.into_owned()),
        (_, None) => Err(failed("it is binary; give a text file".to_owned())),
    }
}
