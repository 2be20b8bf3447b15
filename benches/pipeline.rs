//! The whole way from git repositories to tags: seconds, artifacts a second, memory, beside plainly reading and hashing
//! the same bytes.
//!
//! `cargo bench --bench pipeline -- FOLDER` ingests, segments, deduplicates and tags the bare repositories in FOLDER
//! into a new corpus. The example `replicas` makes as many of them as wanted from a few real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use aac::job::dedup::dedup;
use aac::job::ingest::{IngestOptions, ingest};
use aac::job::segment::segment;
use aac::job::tag::tag;
use aac::monitor::Silent;
use aac::plan::{Selection, Targets};
use aac::store::Store;
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let folder = std::env::args().skip(1).find(|arg| arg != "--bench").map(PathBuf::from);
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
        let listed =
            git(&repository).args(["ls-tree", "-r", "--format=%(objectname)", "HEAD"]).output().unwrap().stdout;
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
    let fields: Vec<f64> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().filter_map(|f| f.parse().ok()).collect();
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
