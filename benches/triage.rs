//! The operators on bases of 10 thousand to a million items, after classification: compaction has to stay under 50 ms
//! for 10 thousand items, decomposition under 200 ms, a query over 100 thousand entries under 20 ms.

use aac::taxonomy::KnowledgeType;
use aac::triage::{
    Base, Budget, Dense, Embed, Index, Judgement, Query, Tokenizer, compact, decompose, retrieve, retrieve_by,
};
use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;

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

fn main() {
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
    let query = Query { text: "who reviews a change of the billing module", k: 20, ..Query::default() };
    criterion.bench_function("retrieve from 100000", |bench| bench.iter(|| retrieve(black_box(&index), &query)));
    // By meaning: vectors as long as those of MiniLM, of an encoder that costs nothing, so that only the search is timed.
    let dense = Dense::of(&index, &Hashed);
    criterion.bench_function("retrieve from 100000 by vectors", |bench| {
        bench.iter(|| retrieve_by(black_box(&index), &query, &dense.scores(query.text, &Hashed)));
    });
    criterion.final_summary();
}
