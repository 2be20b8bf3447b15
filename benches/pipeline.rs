//! The whole way from git repositories to tags: seconds, artifacts a second, memory, beside plainly reading and hashing
//! the same bytes.
//!
//! `cargo bench --bench pipeline -- --make FOLDER --from REPOSITORIES [--artifacts N] [--seed S]` writes bare
//! repositories whose artifacts are edited copies of those in REPOSITORIES (identical ones would be stored once), each
//! under an owner of its own and with two commits. `cargo bench --bench pipeline -- FOLDER` ingests, segments,
//! deduplicates and tags them into a new corpus.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod corpus;

use aac::job::dedup::dedup;
use aac::job::ingest::{IngestOptions, ingest};
use aac::job::segment::segment;
use aac::job::tag::tag;
use aac::monitor::Silent;
use aac::plan::{Selection, Targets};
use aac::store::Store;
use corpus::{Random, edited};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let (mut folder, mut make, mut from, mut artifacts, mut seed) = (None, None, None, 100_000, 1);
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--make" => make = args.next().map(PathBuf::from),
            "--from" => from = args.next().map(PathBuf::from),
            "--artifacts" => artifacts = args.next().unwrap().parse().unwrap(),
            "--seed" => seed = args.next().unwrap().parse().unwrap(),
            _ => folder = Some(PathBuf::from(arg)),
        }
    }
    if let (Some(make), Some(from)) = (make, from) {
        return replicate(&from, &make, artifacts, seed);
    }
    let Some(folder) = folder else { return println!("pipeline: no folder of repositories given, nothing measured") };
    tokio::runtime::Runtime::new().unwrap().block_on(measure(&folder));
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
    let mut child = git(path).args(["fast-import", "--quiet"]).stdout(Stdio::null()).spawn().unwrap();
    let mut stream = std::io::BufWriter::new(child.stdin.take().unwrap());
    let mut random = Random(seed);
    for (commit, trailer) in ["", "\n\nCo-Authored-By: Claude <noreply@anthropic.com>"].iter().enumerate() {
        let message = format!("Change {commit}{trailer}");
        let when = 1_700_000_000 + commit * 86_400;
        let who = format!("Jo <jo@users.example> {when} +0000");
        write!(stream, "commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {}\n{message}\n", message.len()).unwrap();
        for original in originals {
            // A third of the files is changed once more.
            if commit > 0 && random.below(3) > 0 {
                continue;
            }
            let body = match std::str::from_utf8(&original.body) {
                Ok(text) if original.mode != "120000" => edited(text, random.bits()).into_bytes(),
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

fn targets() -> Targets {
    let mut targets = Targets::embedded().unwrap();
    let all = Selection::parse(&["all".to_owned()], &targets).unwrap();
    targets.select(&all);
    targets
}

/// Read every blob of the default branches through `git` and hash it: what no tool can do without.
fn read_and_hash(folder: &Path) -> (usize, u64) {
    let (mut blobs, mut bytes) = (0, 0);
    for repository in repositories(folder) {
        let listed = git(&repository).args(["ls-tree", "-r", "--format=%(objectname)", "HEAD"]).output().unwrap().stdout;
        let mut child = git(&repository).args(["cat-file", "--batch"]).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || input.write_all(&listed));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        child.wait().unwrap();
        feeder.join().unwrap().unwrap();
        let mut rest = output.as_slice();
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let header = std::str::from_utf8(&rest[..end]).unwrap();
            let size: usize = header.rsplit(' ').next().unwrap().parse().unwrap();
            std::hint::black_box(Sha256::digest(&rest[end + 1..end + 1 + size]));
            rest = &rest[end + 2 + size..];
            blobs += 1;
            bytes += size as u64;
        }
    }
    (blobs, bytes)
}

/// The most memory held since the last call, MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0);
    // 5 resets the high-water mark; where it cannot be written the figure is that of the whole run.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kilobytes / 1024.0
}

/// Processor seconds of this process, all threads.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().filter_map(|f| f.parse().ok()).collect();
    // After the state: utime and stime are fields 14 and 15 of the line, in hundredths of a second.
    match fields.as_slice() {
        [_, _, _, _, _, _, _, _, _, _, user, system, ..] => (user + system) / 100.0,
        _ => 0.0,
    }
}

async fn measure(folder: &Path) {
    let started = Instant::now();
    let (blobs, bytes) = read_and_hash(folder);
    let plain = started.elapsed().as_secs_f64();
    println!("reading and hashing {blobs} files, {:.0} MB, through git: {plain:.1} s", bytes as f64 / 1e6);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("corpus.db")).await.unwrap();
    let quiet = Silent::default();
    let (mut total, mut artifacts) = (0.0, 0);
    peak();
    for step in ["ingest", "segment", "dedup", "tag"] {
        let (started, before) = (Instant::now(), busy());
        let said = match step {
            "ingest" => {
                let options = IngestOptions::new(vec![folder.to_owned()]);
                let summary = ingest(&store, Arc::new(targets()), &options, &quiet).await.unwrap();
                artifacts = summary.artifacts;
                format!("{} artifacts of {} repositories, {} bodies", summary.artifacts, summary.repos, summary.blobs)
            }
            "segment" => format!("{} items", segment(&store, &quiet).await.unwrap().items),
            "dedup" => format!("{} clusters", dedup(&store, &quiet).await.unwrap().clusters.clusters),
            _ => format!("{} tagged", tag(&store, &quiet).await.unwrap().updated),
        };
        let seconds = started.elapsed().as_secs_f64();
        total += seconds;
        println!(
            "  {step:<8} {seconds:>7.1} s ({:.1} s of processor), peak {:.0} MiB: {said}",
            busy() - before,
            peak()
        );
    }
    println!(
        "{artifacts} artifacts in {total:.1} s: {:.0} a second, {:.1} times reading and hashing",
        artifacts as f64 / total,
        total / plain
    );
    store.close().await;
}
