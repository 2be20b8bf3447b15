//! The whole way from git repositories to tags: seconds, artifacts a second, memory, beside plainly reading and hashing
//! the same bytes.
//!
//! `cargo bench --no-default-features --bench pipeline -- AAC FOLDER` runs the program AAC (`target/release/aac`), which
//! ingests, segments, deduplicates and tags the bare repositories in FOLDER into a new corpus. The example `replicas`
//! makes as many of them as wanted from a few real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).filter(|arg| arg != "--bench").map(PathBuf::from).collect();
    match args.as_slice() {
        [aac, folder] => measure(aac, folder),
        _ => println!("pipeline: no program and folder of repositories given, nothing measured"),
    }
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

/// Processor seconds of this process and of the children it waited for: neighbours on the machine do not count.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // Fields 14 to 17 of the line, in hundredths of a second; the state after the name is the third.
    after_name.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory a running process has held, MiB.
fn peak(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn measure(aac: &Path, folder: &Path) {
    let (started, before) = (Instant::now(), busy());
    let (blobs, bytes) = read_and_hash(folder);
    let (plain, plain_busy) = (started.elapsed().as_secs_f64(), busy() - before);
    println!(
        "reading and hashing {blobs} files, {:.0} MB, through git: {plain:.1} s ({plain_busy:.1} s of processor)",
        bytes as f64 / 1e6
    );
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("corpus.db");
    let (mut total, mut total_busy, mut highest) = (0.0, 0.0, 0.0f64);
    for step in ["ingest", "segment", "dedup", "tag"] {
        let (started, before) = (Instant::now(), busy());
        let mut command = Command::new(aac);
        command.arg(step).arg("--db").arg(&db).arg("--quiet").stdout(Stdio::null());
        if step == "ingest" {
            command.args(["--platform", "all"]).arg(folder);
        }
        let mut child = command.spawn().unwrap();
        let mut memory = 0.0f64;
        let status = loop {
            memory = memory.max(peak(child.id()));
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // 3: something was left out, and said.
        assert!(matches!(status.code(), Some(0 | 3)), "{step}: {status}");
        let (seconds, processor) = (started.elapsed().as_secs_f64(), busy() - before);
        println!("  {step:<8} {seconds:>7.1} s ({processor:.1} s of processor), peak {memory:.0} MiB");
        total += seconds;
        total_busy += processor;
        highest = highest.max(memory);
    }
    println!(
        "{:.0} artifacts a second, {:.1} times reading and hashing ({:.1} times in processor time), peak {highest:.0} MiB",
        blobs as f64 / total,
        total / plain,
        total_busy / plain_busy
    );
}
