//! The operators on bases of 10 thousand to a million items, after classification: compaction has to stay under 50 ms
//! for 10 thousand items, decomposition under 200 ms, a query over 100 thousand entries under 20 ms.
//!
//! `cargo bench --no-default-features --bench triage -- --growth` prints a small table instead: how long each takes from a
//! thousand items to a million, and how long a thousand items take at each size, which stays the same where growth is
//! linear.
#![allow(clippy::print_stdout)]

use aac::taxonomy::KnowledgeType;
use aac::triage::{
    Base, Budget, Dense, Embed, Index, Judgement, Pinning, Query, Tokenizer, compact, decompose, retrieve, retrieve_by,
};
use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use std::time::Instant;

const SUBJECTS: &[&str] = &["database", "frontend", "deployment", "billing", "search", "auth", "logging", "cache"];

/// A document of so many items under a heading for every twenty-five: one in five a constraint, the rest as in agent
/// files.
fn document(items: usize) -> String {
    let mut text = String::from("# Service\n\n");
    for n in 0..items {
        let subject = SUBJECTS[n / 25 % SUBJECTS.len()];
        if n % 25 == 0 {
            text += &format!("\n## {subject} {}\n\n", n / 25);
        }
        text += &match n % 5 {
            0 => format!("- Never change the {subject} module {n} without a review by its owner.\n"),
            1 => format!("- Run `make {subject}-{n}` before you open a pull request.\n"),
            2 => format!("- The {subject} module {n} is a service that talks to the others over HTTP.\n"),
            3 => format!("- Prefer small functions in {subject} module {n} (see the style guide).\n"),
            _ => format!("- On Monday {n} we moved the {subject} module to another cluster and tested it again.\n"),
        };
    }
    text
}

fn base(items: usize) -> Base {
    let mut number = 0;
    Base::read("AGENTS.md", &document(items), Tokenizer::Cl100k, |_| {
        let kind = KnowledgeType::ALL[number % 5];
        number += 1;
        Judgement::certain(kind)
    })
}

/// Counts of trigrams in 384 slots.
struct Hashed;

impl Embed for Hashed {
    fn embed(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; 384];
        for three in text.as_bytes().windows(3) {
            let hash = three.iter().fold(7usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte)));
            vector[hash % 384] += 1.0;
        }
        vector
    }
}

/// What is asked of an index.
const QUERY: Query<'static> =
    Query { text: "who reviews a change of the billing module", k: 20, topics: &[], pinning: Pinning::All };

/// Milliseconds of the median of `runs` runs, after one that warms up.
fn median<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    let mut timed = || {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e3
    };
    timed();
    let mut times: Vec<f64> = (0..runs).map(|_| timed()).collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

/// Print what each operator takes at every size.
fn growth() {
    println!("{:<24}{:>10}{:>12}{:>12}", "operator", "items", "ms", "ms/1000");
    let line = |name: &str, items: usize, ms: f64| {
        println!("{name:<24}{items:>10}{ms:>12.2}{:>12.3}", ms / items as f64 * 1e3);
    };
    for items in [1_000, 10_000, 100_000, 1_000_000] {
        let runs = if items > 100_000 { 3 } else { 9 };
        let base = base(items);
        for share in [80.0, 40.0, 10.0] {
            line(&format!("compact to {share} %"), items, median(runs, || compact(&base, Budget::Percent(share))));
        }
        line("decompose to 25 %", items, median(runs, || decompose(&base, Budget::Percent(25.0))));
        if items <= 100_000 {
            let mut index = Index::default();
            index.replace("AGENTS.md", &base);
            line("retrieve", items, median(3 * runs, || retrieve(&index, &QUERY)));
            let dense = Dense::of(&index, &Hashed);
            let by_vectors = || retrieve_by(&index, &QUERY, &dense.scores(QUERY.text, &Hashed)).results.len();
            line("retrieve by vectors", items, median(3 * runs, by_vectors));
        }
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "--growth") {
        return growth();
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let sizes: Vec<(usize, Base)> = [10_000, 100_000, 1_000_000].into_iter().map(|n| (n, base(n))).collect();
    for share in [80.0, 40.0, 10.0] {
        let mut group = criterion.benchmark_group(format!("compact to {share} percent"));
        for (items, base) in &sizes {
            group.throughput(Throughput::Elements(*items as u64));
            group.bench_with_input(BenchmarkId::from_parameter(items), base, |bench, base| {
                bench.iter(|| compact(black_box(base), Budget::Percent(share)));
            });
        }
        group.finish();
    }
    let mut group = criterion.benchmark_group("decompose to 25 percent");
    for (items, base) in &sizes {
        group.throughput(Throughput::Elements(*items as u64));
        group.bench_with_input(BenchmarkId::from_parameter(items), base, |bench, base| {
            bench.iter(|| decompose(black_box(base), Budget::Percent(25.0)));
        });
    }
    group.finish();
    let mut index = Index::default();
    index.replace("AGENTS.md", &sizes[1].1);
    criterion.bench_function("retrieve from 100000", |bench| bench.iter(|| retrieve(black_box(&index), &QUERY)));
    // By meaning: vectors as long as those of MiniLM, of an encoder that costs nothing, so that only the search is timed.
    let dense = Dense::of(&index, &Hashed);
    criterion.bench_function("retrieve from 100000 by vectors", |bench| {
        bench.iter(|| retrieve_by(black_box(&index), &QUERY, &dense.scores(QUERY.text, &Hashed)));
    });
    criterion.final_summary();
}
