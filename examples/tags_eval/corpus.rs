//! Artifacts with their history from unpacked bare repositories, through the `git` command.

use aac::corpus::{CommitFact, CommitRecord, Slug};
use aac::tag::Tagger;
use std::collections::HashMap;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) struct Artifact {
    pub(crate) repo: Slug,
    pub(crate) path: String,
    pub(crate) symlink: bool,
    pub(crate) text: String,
    pub(crate) history: Vec<CommitFact>,
}

/// A text with its white space folded.
pub(crate) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Everything in the default branches of `OWNER+NAME.git` under `corpus`.
pub(crate) fn load(corpus: &Path, tagger: &Tagger) -> Result<Vec<Artifact>, Box<dyn Error>> {
    let mut repositories: Vec<_> = std::fs::read_dir(corpus)?.filter_map(|e| Some(e.ok()?.path())).collect();
    repositories.retain(|p| p.extension().is_some_and(|e| e == "git"));
    repositories.sort();
    let mut artifacts = Vec::new();
    for path in repositories {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let (owner, name) = stem.split_once('+').ok_or("a repository's folder is OWNER+NAME.git")?;
        let repo = Slug::new(owner, name)?;
        let mut history = history(&path, tagger)?;
        let tree = git(&path, &["ls-tree", "-rz", "HEAD"])?;
        let mut entries = Vec::new();
        for entry in tree.split(|b| *b == 0).filter(|e| !e.is_empty()) {
            let entry = String::from_utf8_lossy(entry);
            let Some((meta, path)) = entry.split_once('\t') else { continue };
            let mut words = meta.split(' ');
            if let (Some(mode), Some("blob"), Some(id)) = (words.next(), words.next(), words.next()) {
                entries.push((mode == "120000", id.to_owned(), path.to_owned()));
            }
        }
        for ((symlink, _, file), bytes) in entries.iter().zip(blobs(&path, &entries)?) {
            artifacts.push(Artifact {
                repo: repo.clone(),
                symlink: *symlink,
                text: String::from_utf8_lossy(&bytes).into_owned(),
                history: history.remove(file).unwrap_or_default(),
                path: file.clone(),
            });
        }
    }
    Ok(artifacts)
}

fn git(repository: &Path, args: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new("git").arg("-C").arg(repository).args(args).output()?;
    Ok(output.stdout)
}

fn blobs(repository: &Path, entries: &[(bool, String, String)]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let ids: String = entries.iter().map(|(_, id, _)| format!("{id}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(ids.as_bytes()));
    let output = child.wait_with_output()?.stdout;
    writer.join().map_err(|_| "the writer panicked")??;
    let mut rest = output.as_slice();
    let mut blobs = Vec::new();
    for _ in entries {
        let end = rest.iter().position(|b| *b == b'\n').ok_or("short answer of git cat-file")?;
        let header = std::str::from_utf8(&rest[..end])?;
        let size: usize = header.rsplit(' ').next().unwrap_or_default().parse()?;
        blobs.push(rest[end + 1..end + 1 + size].to_vec());
        rest = &rest[end + 2 + size..];
    }
    Ok(blobs)
}

fn history(repository: &Path, tagger: &Tagger) -> Result<HashMap<String, Vec<CommitFact>>, Box<dyn Error>> {
    let format = "--format=%x01%an%x1f%ae%x1f%at%x1f%B%x02";
    let log = git(repository, &["log", "-z", "--no-renames", "--name-status", format, "HEAD"])?;
    let log = String::from_utf8_lossy(&log);
    let mut history: HashMap<String, Vec<CommitFact>> = HashMap::new();
    for commit in log.split('\u{1}').skip(1) {
        let Some((head, files)) = commit.split_once('\u{2}') else { continue };
        let mut fields = head.splitn(4, '\u{1f}').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let mut record = CommitRecord {
            name: next(),
            email: next(),
            login: None,
            when: next().parse().unwrap_or(0),
            message: next(),
            creates: false,
        };
        let mut words = files.split('\0').map(|w| w.trim_start_matches('\n')).filter(|w| !w.is_empty());
        while let (Some(status), Some(path)) = (words.next(), words.next()) {
            record.creates = status == "A";
            history.entry(path.to_owned()).or_default().push(tagger.authors.fact(&record));
        }
    }
    Ok(history)
}
