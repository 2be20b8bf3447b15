//! Many repositories from a few: every artifact an edited copy, since identical ones would be stored once.
//!
//! `cargo run --release --no-default-features --example replicas -- REPOSITORIES FOLDER [ARTIFACTS [SEED]]` writes bare
//! repositories under owners of their own to FOLDER until they hold so many artifacts (100,000): those of the default
//! branches of REPOSITORIES (`OWNER+NAME.git`) over and over. Each has two commits: one that creates the files, one,
//! with an agent's trailer, that changes a third of them. The same seed gives the same commits.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "../benches/corpus/mod.rs"]
mod corpus;

use aac::plan::{Selection, Targets};
use corpus::{Random, varied};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, rest @ ..] = args.as_slice() else {
        return println!("usage: replicas REPOSITORIES FOLDER [ARTIFACTS [SEED]]");
    };
    let number = |at: usize, default: u64| rest.get(at).map_or(default, |n| n.parse().unwrap());
    replicate(Path::new(from), Path::new(to), number(0, 100_000) as usize, number(1, 1));
}

fn repositories(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "git"));
    found.sort();
    found
}

fn git(repository: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository).stdin(Stdio::piped()).stdout(Stdio::piped());
    git
}

fn targets() -> Targets {
    let mut targets = Targets::embedded().unwrap();
    let all = Selection::parse(&["all".to_owned()], &targets).unwrap();
    targets.select(&all);
    targets
}

/// What an artifact was copied from.
struct Original {
    mode: String,
    path: String,
    body: Vec<u8>,
}

/// The files of the default branch that some platform claims.
fn originals(repository: &Path, targets: &Targets) -> Vec<Original> {
    let listed = git(repository).args(["ls-tree", "-rz", "HEAD"]).output().unwrap().stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let entries = listed.split('\0').filter_map(|entry| {
        let (meta, path) = entry.split_once('\t')?;
        let mut words = meta.split(' ');
        let (mode, kind, id) = (words.next()?, words.next()?, words.next()?);
        (kind == "blob" && targets.collected(path).is_some()).then(|| (mode.to_owned(), id.to_owned(), path.to_owned()))
    });
    entries
        .map(|(mode, id, path)| {
            let body = git(repository).args(["cat-file", "blob", &id]).output().unwrap().stdout;
            Original { mode, path, body }
        })
        .collect()
}

fn replicate(from: &Path, to: &Path, artifacts: usize, seed: u64) {
    let targets = targets();
    let sources: Vec<(String, Vec<Original>)> = repositories(from)
        .iter()
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), originals(path, &targets)))
        .filter(|(_, originals)| !originals.is_empty())
        .collect();
    std::fs::create_dir_all(to).unwrap();
    let mut made = 0;
    'all: for round in 0.. {
        for (name, originals) in &sources {
            let Some((owner, name)) = name.split_once('+') else { continue };
            write_repository(&to.join(format!("{owner}-r{round}+{name}.git")), originals, seed + round * 7919);
            made += originals.len();
            if made >= artifacts {
                break 'all;
            }
        }
    }
    println!("{made} artifacts in {} repositories", repositories(to).len());
}

fn write_repository(path: &Path, originals: &[Original], seed: u64) {
    std::fs::create_dir_all(path).unwrap();
    assert!(git(path).args(["init", "--quiet", "--bare", "-b", "main"]).status().unwrap().success());
    let mut child = git(path)
        .args(["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = std::io::BufWriter::new(child.stdin.take().unwrap());
    let mut random = Random(seed);
    for (commit, trailer) in ["", "\n\nCo-Authored-By: Claude <noreply@anthropic.com>"].iter().enumerate() {
        let message = format!("Change {commit}{trailer}");
        let when = 1_700_000_000 + commit * 86_400;
        let who = format!("Jo <jo@users.example> {when} +0000");
        write!(stream, "commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {}\n{message}\n", message.len())
            .unwrap();
        for original in originals {
            // A third of the files is changed once more.
            if commit > 0 && random.below(3) > 0 {
                continue;
            }
            let body = match std::str::from_utf8(&original.body) {
                Ok(text) if original.mode != "120000" => varied(text, random.bits()).into_bytes(),
                _ => original.body.clone(),
            };
            let quoted = original.path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(stream, "M {} inline \"{quoted}\"\ndata {}\n", original.mode, body.len()).unwrap();
            stream.write_all(&body).unwrap();
            stream.write_all(b"\n").unwrap();
        }
    }
    drop(stream);
    assert!(child.wait().unwrap().success(), "{}", path.display());
}
