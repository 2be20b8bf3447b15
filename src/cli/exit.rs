//! Exit codes, and errors on their way out.

use crate::llm::LlmError;
use std::process::ExitCode;

/// How a command ends. The numbers are a contract with scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Something failed; the rest is stored and said.
    Partial = 3,
    /// An operator refused because constraints would be lost.
    Unsafe = 4,
    /// Paused on a limit, a budget or a signal: the same command goes on.
    Paused = 5,
    /// `lint` or `check` found something.
    Findings = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that ends a command, with the code it ends with.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What to tell, one sentence a line.
    pub message: String,
}

impl Failure {
    /// It failed.
    pub fn failed(why: impl ToString) -> Self {
        Self { exit: Exit::Failed, message: why.to_string() }
    }

    /// Wrong use of the command line or the configuration.
    pub fn usage(why: impl ToString) -> Self {
        Self { exit: Exit::Usage, message: why.to_string() }
    }

    /// No sentence encoder is named `to` do what was asked.
    pub fn without_encoder(to: &str) -> Self {
        Self::usage(format!("Failed to {to}: name the encoder with --encoder minilm:DIR or --encoder hf:OWNER/NAME"))
    }

    /// A language model did not answer: paused, where later it may.
    pub fn of_model(error: LlmError) -> Self {
        let exit = if error.is_pause() { Exit::Paused } else { Exit::Failed };
        Self { exit, message: error.to_string() }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, message: error.to_string() }
    }
}
