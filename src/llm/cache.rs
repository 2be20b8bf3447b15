//! The answers that were paid for, in a file that only grows: one JSON object a line, written as each answer comes. A
//! line that a killed process left half written is passed over. Questions are not in it, only the digests that name them.

use super::LlmError;
use crate::corpus::Sha256;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An answer and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The answer; nothing when the model gave none that could be used.
    pub answer: Option<String>,
    /// Tokens asked, over all tries.
    pub tokens_in: u64,
    /// Tokens answered, over all tries.
    pub tokens_out: u64,
    /// Milliseconds until the answer that counted, without waits between tries.
    pub ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: Sha256,
    model: String,
    #[serde(flatten)]
    kept: Kept,
}

/// The file. Several processes may add to one: each line is written in one piece at its end.
#[derive(Debug)]
pub(super) struct AnswerFile {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    /// Where the line of a key begins, and how many bytes it has.
    places: HashMap<Sha256, (u64, usize)>,
    /// The file ends within a line.
    torn: bool,
}

impl AnswerFile {
    /// Open the file at `path`, or make it and the folders it lies in.
    pub(super) fn open(path: &Path) -> Result<Self, LlmError> {
        let failed =
            |error: std::io::Error| LlmError::Answers { doing: "read", path: path.to_owned(), why: error.to_string() };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = File::options();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        // Answers may repeat what they were asked about.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(failed)?;
        let mut places = HashMap::new();
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        let mut start = 0;
        let mut torn = false;
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                break;
            }
            torn = line.last() != Some(&b'\n');
            if let Ok(found) = serde_json::from_slice::<Line>(&line) {
                places.insert(found.key, (start, read));
            }
            start += read as u64;
        }
        Ok(Self { path: path.to_owned(), inner: Mutex::new(Inner { file, places, torn }) })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, doing: &'static str, error: &dyn std::error::Error) -> LlmError {
        LlmError::Answers { doing, path: self.path.clone(), why: error.to_string() }
    }

    /// The answer under `key`, where there is one.
    pub(super) fn get(&self, key: &Sha256) -> Result<Option<Kept>, LlmError> {
        // A panic elsewhere leaves the index as it was: it changes after the file.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&(start, length)) = inner.places.get(key) else { return Ok(None) };
        let mut line = vec![0; length];
        let read = inner.file.seek(SeekFrom::Start(start)).and_then(|_| inner.file.read_exact(&mut line));
        read.map_err(|error| self.failed("read", &error))?;
        let line: Line = serde_json::from_slice(&line).map_err(|error| self.failed("read", &error))?;
        Ok(Some(line.kept))
    }

    /// Keep `kept`, the answer of `model`, under `key`.
    pub(super) fn put(&self, key: Sha256, model: &str, kept: &Kept) -> Result<(), LlmError> {
        let line = Line { key, model: model.to_owned(), kept: kept.clone() };
        let line = serde_json::to_string(&line).map_err(|error| self.failed("write", &error))?;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let lead = if std::mem::take(&mut inner.torn) { "\n" } else { "" };
        let whole = format!("{lead}{line}\n");
        let written = inner.file.write_all(whole.as_bytes()).and_then(|()| inner.file.stream_position());
        let end = match written {
            Ok(end) => end,
            Err(error) => {
                inner.torn = true;
                return Err(self.failed("write", &error));
            }
        };
        let length = line.len() + 1;
        inner.places.insert(key, (end.saturating_sub(length as u64), length));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(answer: &str) -> Kept {
        Kept { answer: Some(answer.to_owned()), tokens_in: 3, tokens_out: 2, ms: 9 }
    }

    #[test]
    fn answers_outlive_the_process_and_a_torn_line_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/answers.jsonl");
        let (one, two, three) = (Sha256::of(b"1"), Sha256::of(b"2"), Sha256::of(b"3"));
        let file = AnswerFile::open(&path).unwrap();
        file.put(one, "m", &kept("first\nline")).unwrap();
        assert_eq!(file.get(&one).unwrap(), Some(kept("first\nline")));
        drop(file);
        let mut raw = File::options().append(true).open(&path).unwrap();
        raw.write_all(b"{\"key\":\"torn").unwrap();
        let file = AnswerFile::open(&path).unwrap();
        file.put(two, "m", &Kept { answer: None, ..kept("") }).unwrap();
        // Another process adds to the same file in between.
        AnswerFile::open(&path).unwrap().put(three, "m", &kept("theirs")).unwrap();
        file.put(one, "m", &kept("anew")).unwrap();
        for file in [file, AnswerFile::open(&path).unwrap()] {
            assert_eq!(file.get(&one).unwrap(), Some(kept("anew")));
            assert_eq!(file.get(&two).unwrap().unwrap().answer, None);
        }
        assert_eq!(AnswerFile::open(&path).unwrap().get(&three).unwrap(), Some(kept("theirs")));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = AnswerFile::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    }
}
