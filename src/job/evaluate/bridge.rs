//! A compressor outside of this program, over lines of JSON: LLMLingua-2 by way of Python, or any other.
//!
//! The program is started once. For every text it gets one line `{"text": …, "budget": …, "tokens": …, "tokenizer": …}` on
//! standard input (how many tokens the answer may take, how many the text has, in which tokenizer), and answers with one
//! line: `{"text": …}`, or `{"error": …}`. It ends when its input does. `examples/llmlingua2.py` is such a program.

use crate::triage::{Base, Budget, Outputs};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Why a compressor gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// There is no command.
    #[error("Failed to start the compressor: the command is empty")]
    Empty,
    /// It cannot be started.
    #[error(
        "Failed to start the compressor {command:?}: {source}; a program is needed that reads and writes lines of JSON, \
         such as \"python3 examples/llmlingua2.py --model DIR\""
    )]
    Start {
        /// The command.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended, or closed its output.
    #[error(
        "Failed to hear from the compressor {command:?}: it ended ({status}) before it answered; see what it wrote above"
    )]
    Ended {
        /// The command.
        command: String,
        /// How.
        status: String,
    },
    /// A line of it is no answer.
    #[error("Failed to read the answer of the compressor {command:?}: {source}; it said {line:?}")]
    Answer {
        /// The command.
        command: String,
        /// What is wrong.
        source: serde_json::Error,
        /// The beginning of the line.
        line: String,
    },
    /// It says that it failed.
    #[error("The compressor {command:?} failed: {why}")]
    Refused {
        /// The command.
        command: String,
        /// In its words.
        why: String,
    },
}

#[derive(Serialize)]
struct Question<'a> {
    text: &'a str,
    budget: usize,
    tokens: usize,
    tokenizer: &'a str,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Answer {
    Text { text: String },
    Error { error: String },
}

/// A compressor that runs.
#[derive(Debug)]
pub struct Bridge {
    command: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Bridge {
    /// Start `command`: a program and its arguments, parted by blanks.
    pub fn start(command: &str) -> Result<Self, BridgeError> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or(BridgeError::Empty)?;
        let failed = |source| BridgeError::Start { command: command.to_owned(), source };
        let mut child =
            Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let missing = || failed(std::io::Error::other("it has no standard input and output"));
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { command: command.to_owned(), child, questions, answers })
    }

    /// What it makes of the text of `base` in `budget` tokens. It may take more: who asks has to count.
    pub fn compress(&mut self, base: &Base, budget: usize) -> Result<String, BridgeError> {
        let tokenizer = base.tokenizer();
        let question = Question { text: base.text(), budget, tokens: base.tokens(), tokenizer: tokenizer.as_str() };
        let mut line = serde_json::to_string(&question).map_err(|source| self.unread(source, ""))?;
        line.push('\n');
        // A program that has ended takes no question; that it gives no answer either is told below.
        if let Some(questions) = &mut self.questions {
            let _ = questions.write_all(line.as_bytes()).and_then(|()| questions.flush());
        }
        let mut line = String::new();
        if !matches!(self.answers.read_line(&mut line), Ok(read) if read > 0) {
            self.questions = None;
            let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(BridgeError::Ended { command: self.command.clone(), status });
        }
        match serde_json::from_str(&line).map_err(|source| self.unread(source, &line))? {
            Answer::Text { text } => Ok(text),
            Answer::Error { error } => Err(BridgeError::Refused { command: self.command.clone(), why: error }),
        }
    }

    fn unread(&self, source: serde_json::Error, line: &str) -> BridgeError {
        BridgeError::Answer { command: self.command.clone(), source, line: line.chars().take(200).collect() }
    }
}

impl Drop for Bridge {
    /// Every answer that was asked for is here, so nothing is lost when the program ends at once.
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ask the compressor about every base, at `ratio` percent of its tokens. A text that it refuses is told to `refused` and
/// has no output; a compressor that is gone is an error.
pub fn outputs(
    bridge: &mut Bridge,
    bases: &[Base],
    ratio: f64,
    mut refused: impl FnMut(&Base, &BridgeError),
) -> Result<Outputs, BridgeError> {
    let mut outputs = Vec::with_capacity(bases.len());
    for base in bases {
        match bridge.compress(base, Budget::Percent(ratio).of(base.tokens())) {
            Ok(text) => outputs.push(Some(text)),
            Err(error @ BridgeError::Refused { .. }) => {
                refused(base, &error);
                outputs.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Outputs { strategy: bridge.command.clone(), outputs })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::taxonomy::KnowledgeType;
    use crate::triage::{Judgement, Tokenizer, compaction_table};

    fn bases() -> Vec<Base> {
        ["- Never push to main.\n- The moon is far away.\n", "- REFUSE this one.\n"]
            .map(|text| Base::read("a.md", text, Tokenizer::Cl100k, |_| Judgement::certain(KnowledgeType::Constraint)))
            .to_vec()
    }

    /// A compressor in the language of the system's shell: it takes the place of a real one.
    fn fake(script: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fake.sh");
        std::fs::write(&path, script).unwrap();
        let command = format!("sh {}", path.display());
        (dir, command)
    }

    #[test]
    fn a_compressor_stands_in_the_table_and_what_it_refuses_is_told() {
        let bases = bases();
        let tokens = bases[0].tokens();
        // Only to the question as it should be does it give an answer.
        let asked = format!("*'\"budget\":{},\"tokens\":{tokens},\"tokenizer\":\"cl100k\"'*", tokens / 2);
        let answers = [
            ("*REFUSE*", r#"{"error": "too hard"}"#),
            (&asked, r#"{"text": "Never push to main."}"#),
            ("*", r#"{"error": "unexpected"}"#),
        ];
        let cases = answers.map(|(pattern, answer)| format!("{pattern}) echo '{answer}';; ")).concat();
        let (_dir, command) = fake(&format!("while read -r line; do case \"$line\" in {cases} esac; done\n"));
        let mut bridge = Bridge::start(&command).unwrap();
        let mut told = Vec::new();
        let found = outputs(&mut bridge, &bases, 50.0, |_, error| told.push(error.to_string())).unwrap();
        assert_eq!(found.outputs, [Some("Never push to main.".to_owned()), None]);
        assert!(told.len() == 1 && told[0].ends_with("failed: too hard"), "{told:?}");
        let table = compaction_table(&bases, &[], 50.0, &[found]);
        let row = table.rows.last().unwrap();
        assert_eq!((row.strategy.as_str(), row.failed, row.verbatim), (command.as_str(), 1, Some(0.5)));
    }

    #[test]
    fn a_compressor_that_is_missing_ends_or_talks_is_named() {
        let base = &bases()[0];
        let error = |command: &str| match Bridge::start(command) {
            Ok(mut bridge) => bridge.compress(base, 3).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error(" ").contains("empty"));
        assert!(error("/nowhere/llmlingua --model x").contains("lines of JSON"));
        assert!(error("true").contains("ended"), "{}", error("true"));
        let (_dir, chatty) = fake("echo Loading weights\nread -r line\n");
        assert!(error(&chatty).contains("Loading weights"));
    }
}
