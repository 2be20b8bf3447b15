//! What the operators have in common on the command line: a file read as a typed base.

use super::Failure;
use crate::classify::Policy;
use crate::classify::linear::shipped;
use crate::encoding::decode;
use crate::taxonomy::{Authority, OperatingPoint};
use crate::triage::{Base, Budget, Tokenizer};
use clap::Args;
use std::io::Read as _;
use std::path::Path;

/// How a file is read.
#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// Tokenizer that budgets are meant in: cl100k, o200k or chars4 (four characters a token)
    #[arg(long, value_name = "NAME", default_value = "cl100k", value_parser = tokenizer)]
    pub(super) tokenizer: Tokenizer,
    /// Who speaks in the file: sys, dev, user, tool or ret; weighs the risk of its constraints
    #[arg(long, value_name = "WHO", value_parser = authority)]
    authority: Option<Authority>,
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

/// Read a file as a typed base, judged at the safe point.
pub(super) fn read_base(path: &Path, args: &ReadArgs) -> Result<Base, Failure> {
    let text = read_text(path)?;
    let policy = Policy { authority: args.authority, ..Policy::at(OperatingPoint::Safe) };
    Ok(Base::classify(&path.to_string_lossy(), &text, args.tokenizer, shipped(), &policy))
}

/// The same for a file that is to be rewritten, which a settings file cannot be.
pub(super) fn read_markdown(path: &Path, args: &ReadArgs) -> Result<Base, Failure> {
    let base = read_base(path, args)?;
    if base.is_settings() {
        return Err(Failure::usage(format!(
            "Failed to rewrite {}: it is a settings file, and leaving keys out would change what it sets; give a \
             Markdown or plain text file",
            path.display()
        )));
    }
    Ok(base)
}
