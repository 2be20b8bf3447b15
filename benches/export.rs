//! What it costs to write a corpus as shards, and how much of a set is the same after a refresh.
//!
//! `cargo bench --bench export -- [FOLDER] [--rows N] [--level L] [--runs R]` writes the table `artifacts` with chunking off
//! and on, and has DuckDB write the same table at the same row-group size and level: `AAC_PYTHON` names a Python that has
//! it. Times are of writing alone, the best of the runs; the texts are made beside the clock. Texts are those of the bare
//! repositories in FOLDER, repeated with edits, or made up.
//!
//! `… -- [FOLDER] --refresh [--rows N]` writes `artifacts`, `items` and `occurrences`, changes one row in a hundred, writes
//! again, and counts the bytes that a store which cuts by content holds already; `--columns N` names the N columns of each
//! table with the most new bytes. `--chunks MIN MAX` sets the sizes of the pages, KiB.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "corpus/chunks.rs"]
mod chunks;
mod corpus;

use aac::corpus::{GitOid, Sha256};
use aac::parquet::{
    ArtifactRecord, ArtifactTable, ItemRecord, ItemTable, OccurrenceRecord, OccurrenceTable, ProbabilityRecord,
    ShardOptions, ShardSet, Table, TagRecord, Written,
};
use aac::segment::segment;
use aac::taxonomy::KnowledgeType;
use chunks::{ByColumn, Held};
use corpus::Random;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Rows made at a time.
const BATCH: usize = 300 * OF_REPO;
/// Artifacts in a repository: 400 to 55, as the paper counts them.
const OF_REPO: usize = 7;

struct Args {
    folder: Option<PathBuf>,
    rows: usize,
    level: i32,
    runs: usize,
    refresh: bool,
    chunks: Option<(usize, usize)>,
    columns: usize,
}

fn main() {
    let mut args = Args {
        folder: None,
        rows: 400_000,
        level: 3,
        runs: 2,
        refresh: false,
        chunks: ShardOptions::default().chunk_bytes,
        columns: 0,
    };
    let mut given = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = given.next() {
        let mut number = || given.next().unwrap().parse::<usize>().unwrap();
        match arg.as_str() {
            "--rows" => args.rows = number(),
            "--level" => args.level = number() as i32,
            "--runs" => args.runs = number(),
            "--columns" => args.columns = number(),
            "--refresh" => args.refresh = true,
            "--chunks" => args.chunks = Some((number() << 10, number() << 10)),
            _ => args.folder = Some(arg.into()),
        }
    }
    let texts = match &args.folder {
        Some(folder) => corpus::texts(folder, 1..=100_000),
        None => corpus::made_up(4_000),
    };
    println!("{} distinct texts to begin with, {} rows", texts.len(), args.rows);
    let dir = tempfile::tempdir().unwrap();
    if args.refresh { refresh(&texts, &args) } else { speed(&texts, &args, dir.path()) }
}

/// What one way of writing took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    cpu: f64,
    bytes: u64,
}

fn speed(texts: &[String], args: &Args, dir: &Path) {
    let mut costs = Vec::new();
    for (name, chunked) in [("chunking off", false), ("chunking on", true)] {
        let chunk_bytes = args.chunks.filter(|_| chunked);
        let options = ShardOptions { level: args.level, chunk_bytes, ..ShardOptions::default() };
        let folder = dir.join(name.replace(' ', "-"));
        let runs = (0..args.runs.max(1)).map(|_| write_artifacts(texts, args.rows, &folder, &options));
        let best = runs.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap();
        show(name, best);
        costs.push(best);
    }
    println!("peak memory {} MiB", peak() >> 20);
    let (off, on) = (costs[0], costs[1]);
    println!(
        "chunking costs {:+.0} % time and {:+.1} % bytes",
        100.0 * (on.seconds / off.seconds - 1.0),
        100.0 * (on.bytes as f64 / off.bytes as f64 - 1.0)
    );
    let Some(python) = std::env::var_os("AAC_PYTHON") else {
        return println!("DuckDB not measured: AAC_PYTHON names no Python that has it");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/export_duckdb.py");
    let out = Command::new(python)
        .arg(script)
        .arg(dir.join("chunking-off"))
        .arg(dir.join("duckdb.parquet"))
        .args([args.level.to_string(), ShardOptions::default().group_rows.to_string(), args.runs.to_string()])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let number = |key: &str| said[key].as_f64().unwrap();
    let duckdb = Cost { seconds: number("seconds"), cpu: number("cpu"), bytes: number("bytes") as u64 };
    show(&format!("DuckDB {}", said["version"].as_str().unwrap()), duckdb);
    println!(
        "chunking off / DuckDB: {:.2} times the time (at most 1.3 wanted), {:.2} times the CPU, {:.2} times the bytes (at most 1.2)",
        off.seconds / duckdb.seconds,
        off.cpu / duckdb.cpu,
        off.bytes as f64 / duckdb.bytes as f64
    );
}

fn show(name: &str, cost: Cost) {
    println!("{name:<14} {:>8.2} s, {:>8.2} s of CPU, {:>9.1} MB", cost.seconds, cost.cpu, cost.bytes as f64 / 1e6);
}

fn write_artifacts(texts: &[String], rows: usize, folder: &Path, options: &ShardOptions) -> Cost {
    let mut set = ShardSet::<ArtifactTable>::create(folder, options.clone()).unwrap();
    let (mut took, mut cpu) = (Duration::ZERO, 0.0);
    for first in (0..rows).step_by(BATCH) {
        let last = rows.min(first + BATCH);
        let made: Vec<ArtifactRecord> = (first..last).into_par_iter().map(|n| artifact(texts, n, 0)).collect();
        let (begun, used) = (Instant::now(), cpu_seconds());
        for record in made {
            set.push(record).unwrap();
        }
        took += begun.elapsed();
        cpu += cpu_seconds() - used;
    }
    let (begun, used) = (Instant::now(), cpu_seconds());
    let written = set.finish().unwrap();
    Cost { seconds: (took + begun.elapsed()).as_secs_f64(), cpu: cpu + cpu_seconds() - used, bytes: written.bytes }
}

/// Row `n`; another `edition` of it has a line more and everything that follows from that.
fn artifact(texts: &[String], n: usize, edition: usize) -> ArtifactRecord {
    let mut text = corpus::edited(texts, n);
    if edition > 0 {
        let middle = text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2).unwrap_or(0);
        text.insert_str(middle, &format!("\n- Added in edition {edition} of {n}\n"));
    }
    let repo = n / OF_REPO;
    let mut random = Random(repo as u64);
    let hex = |random: &mut Random| format!("{:016x}{:016x}{:08x}", random.bits(), random.bits(), random.bits() >> 32);
    let slug = format!("{}-{:07}/project-{}", ["acme", "lab", "team", "dev"][repo % 4], repo, random.below(1000));
    let names = ["AGENTS.md", "CLAUDE.md", ".cursor/rules/style.mdc", ".github/copilot-instructions.md"];
    let path = format!("packages/part-{}/{}", n % OF_REPO, names[n % names.len()]);
    let mut of_edition = Random((repo * 1000 + edition) as u64);
    let commit = hex(&mut of_edition);
    let sha256 = Sha256::of(text.as_bytes()).to_string();
    let tag = |dimension: &str, value: &str| TagRecord {
        dimension: dimension.to_owned(),
        value: value.to_owned(),
        rule: format!("{value}.default"),
        confidence: 0.9,
    };
    ArtifactRecord {
        url: Some(format!("https://github.com/{slug}/blob/{commit}/{path}")),
        repo: slug,
        path,
        platform: ["universal", "claude", "cursor", "copilot"][n % 4].to_owned(),
        target: "claude/context".to_owned(),
        function: Some("instructions".to_owned()),
        authorship: Some("unknown".to_owned()),
        specificity: Some("project".to_owned()),
        tags: Some(vec![tag("function", "instructions"), tag("authorship", "unknown"), tag("specificity", "project")]),
        mode: "file".to_owned(),
        blob: GitOid::of_blob(text.as_bytes()).to_string(),
        commit: Some(commit),
        size: text.len() as i64,
        encoding: "utf8".to_owned(),
        license: Some("MIT".to_owned()),
        license_tier: "permissive".to_owned(),
        language: Some(["TypeScript", "Python", "Rust", "Go"][repo % 4].to_owned()),
        stars: Some(random.below(9_000) as i64),
        is_fork: Some(false),
        cluster: Some(sha256.clone()),
        is_canonical: Some(true),
        similarity: Some(1.0),
        split: ["train", "train", "train", "validation", "test"][repo % 5].to_owned(),
        sha256,
        text: Some(text),
        ..ArtifactRecord::default()
    }
}

fn items(artifact: &ArtifactRecord) -> Vec<ItemRecord> {
    let text = artifact.text.as_deref().unwrap();
    let found = segment("AGENTS.md", text);
    let mut random = Random(artifact.size as u64);
    let record = |(index, item): (usize, &aac::corpus::ItemSpan)| {
        let mut probabilities: Vec<ProbabilityRecord> = KnowledgeType::ALL
            .iter()
            .map(|t| ProbabilityRecord { knowledge_type: t.to_string(), probability: random.below(256) as f32 / 255.0 })
            .collect();
        let risk = random.below(65_536) as f32 / 65_535.0;
        probabilities[0].probability = risk;
        ItemRecord {
            sha256: artifact.sha256.clone(),
            repo: artifact.repo.clone(),
            path: artifact.path.clone(),
            item: index as i64,
            start: Some(i64::from(item.start)),
            end: Some(i64::from(item.end)),
            line: i64::from(item.line),
            kind: item.kind.to_string(),
            heading: found.heading_path(item, text).iter().map(|&h| h.to_owned()).collect(),
            license: artifact.license.clone(),
            split: artifact.split.clone(),
            knowledge_type: Some(KnowledgeType::ALL[random.below(6)].to_string()),
            probabilities: Some(probabilities),
            risk: Some(risk),
            model: Some("linear:0123456789abcdef".to_owned()),
            text: Some(text[item.range()].to_owned()),
        }
    };
    found.items.iter().enumerate().map(record).collect()
}

/// How rows change between two sets.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Nothing yet.
    None,
    /// One repository in a hundred, with every row of it.
    Repositories,
    /// One row in a hundred, anywhere.
    Rows,
    /// One repository in a hundred gone, and as many new ones between the others.
    ComeAndGo,
}

fn refresh(texts: &[String], args: &Args) {
    let dir = tempfile::tempdir().unwrap();
    let before = write_all(texts, args, Change::None, dir.path());
    let sizes: Vec<String> = before.iter().map(|(name, set)| format!("{:.1} MB of {name}", mb(set))).collect();
    println!("one set: {}", sizes.join(", "));
    for (change, what) in [
        (Change::Repositories, "1 % of the rows changed, by repository"),
        (Change::ComeAndGo, "1 % of the repositories gone, 1 % new"),
        (Change::Rows, "1 % of the rows changed, each somewhere else"),
    ] {
        let mut held = Held::default();
        let read = |set: &Written| set.shards.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
        for bytes in before.iter().flat_map(|(_, set)| read(set)) {
            held.keep(&bytes);
        }
        let after = write_all(texts, args, change, &dir.path().join("after"));
        let (mut all, mut new, mut lines) = (0, 0, Vec::new());
        for (name, set) in &after {
            let mut columns = ByColumn::default();
            for bytes in read(set) {
                let fresh = held.keep(&bytes);
                columns.add(bytes, &fresh);
            }
            let sums = columns.sums();
            all += sums.0;
            new += sums.1;
            lines.push(format!("  {name}: {:.1} %", held_share(sums)));
            let mut columns: Vec<_> = columns.0.into_iter().collect();
            columns.sort_by_key(|(_, (_, new))| std::cmp::Reverse(*new));
            let line = |(name, (all, new)): &(String, (usize, usize))| {
                format!("    {name:<40} {:>7.2} MB of {:>7.2} MB are new", *new as f64 / 1e6, *all as f64 / 1e6)
            };
            lines.extend(columns.iter().take(args.columns).map(line));
        }
        println!("{what}: {:.1} % of the bytes are held already\n{}", held_share((all, new)), lines.join("\n"));
    }
}

fn held_share((all, new): (usize, usize)) -> f64 {
    100.0 * (1.0 - new as f64 / all as f64)
}

fn mb(set: &Written) -> f64 {
    set.bytes as f64 / 1e6
}

fn write_all(texts: &[String], args: &Args, change: Change, folder: &Path) -> Vec<(&'static str, Written)> {
    let options = ShardOptions { level: args.level, chunk_bytes: args.chunks, ..ShardOptions::default() };
    let mut artifacts = ShardSet::<ArtifactTable>::create(folder, options.clone()).unwrap();
    let mut item_rows = ShardSet::<ItemTable>::create(folder, options.clone()).unwrap();
    let mut occurrences = ShardSet::<OccurrenceTable>::create(folder, options).unwrap();
    for first in (0..args.rows).step_by(BATCH) {
        let made: Vec<Vec<(usize, ArtifactRecord, Vec<ItemRecord>)>> = (first..args.rows.min(first + BATCH))
            .into_par_iter()
            .map(|n| {
                let repo = n / OF_REPO;
                let hit = |of: usize, salt: u64| Random(of as u64 ^ salt).below(100) == 0;
                let (edition, rows) = match change {
                    Change::None => (0, 1),
                    Change::Repositories => (usize::from(hit(repo, 1 << 40)), 1),
                    Change::Rows => (usize::from(hit(n, 1 << 41)), 1),
                    Change::ComeAndGo if hit(repo, 1 << 42) => (0, 0),
                    // A new repository stands behind the one that it was made from.
                    Change::ComeAndGo => (0, 1 + usize::from(hit(repo, 1 << 43))),
                };
                let row = |copy: usize| {
                    let mut record = artifact(texts, n, edition + copy);
                    if copy > 0 {
                        record.repo.push_str("-too");
                    }
                    let found = items(&record);
                    (repo * 2 + copy, record, found)
                };
                (0..rows).map(row).collect()
            })
            .collect();
        let mut made: Vec<_> = made.into_iter().flatten().collect();
        made.sort_by_key(|(repo, ..)| *repo);
        for (_, record, found) in made {
            occurrences.push(occurrence(&record, change)).unwrap();
            artifacts.push(record).unwrap();
            found.into_iter().for_each(|item| item_rows.push(item).unwrap());
        }
    }
    vec![("artifacts", finish(artifacts)), ("items", finish(item_rows)), ("occurrences", finish(occurrences))]
}

/// Where a text was seen; a refresh sees every row again.
fn occurrence(of: &ArtifactRecord, change: Change) -> OccurrenceRecord {
    let week = 7 * 24 * 3_600_000;
    let first_seen = 1_790_000_000_000 + of.stars.unwrap_or(0) % 3 * week;
    let last_seen = 1_793_000_000_000 + if matches!(change, Change::None) { 0 } else { week };
    OccurrenceRecord {
        repo: of.repo.clone(),
        path: of.path.clone(),
        platform: of.platform.clone(),
        sha256: of.sha256.clone(),
        blob: of.blob.clone(),
        commit: of.commit.clone(),
        size: of.size,
        current: true,
        first_seen,
        last_seen,
        split: of.split.clone(),
    }
}

fn finish<T: Table>(set: ShardSet<T>) -> Written {
    set.finish().unwrap()
}

/// Seconds that this process has kept processors busy.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The most memory that this process held, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) << 10
}
