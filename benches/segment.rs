//! Segmenting: 5 MB inputs built to hurt, and plain text for comparison. All must stay under a second.

use aac::segment::{pack, segment, unpack};
use criterion::{Criterion, Throughput};
use std::hint::black_box;

const SIZE: usize = 5_000_000;

/// `unit` over and over, [`SIZE`] bytes of it.
fn filled(unit: &str) -> String {
    unit.repeat(SIZE / unit.len())
}

/// A list nested as deep as the segmenter follows, then blank lines.
fn deep_list() -> String {
    let mut text: String = (0..80).map(|depth| format!("{}- x\n", "  ".repeat(depth))).collect();
    text.push_str(&"\n".repeat(SIZE - text.len()));
    text
}

fn inputs() -> Vec<(&'static str, &'static str, String)> {
    let prose = "## Rules\n\nKeep *this* in mind, and `that`.\n\n- Never push to main\n- Ask [first](x)\n\n| a | b |\n|---|---|\n| c | d |\n\n";
    vec![
        ("prose", "a.md", filled(prose)),
        ("one line", "a.md", filled("word ")),
        ("one word", "a.md", filled("a")),
        ("quotes in a line", "a.md", filled(">")),
        ("quotes over lines", "a.md", filled(&format!("{}a\n", ">".repeat(500)))),
        ("bullets in a line", "a.md", format!("{}a", filled("- "))),
        ("bullets and rule", "a.md", filled("* ")),
        ("numbers in a line", "a.md", filled("1. ")),
        ("bullets over lines", "a.md", filled(&format!("{}a\n", "- ".repeat(31)))),
        ("deep list, blank lines", "a.md", deep_list()),
        ("deep list, lazy lines", "a.md", format!("{}{}", "- ".repeat(31), filled("a\n"))),
        ("backticks", "a.md", filled("`` ` ``` ")),
        ("fences", "a.md", filled("```\n")),
        ("fences that open", "a.md", filled("```a\n")),
        ("fences that grow", "a.md", (3..3000).map(|n| format!("{}\n", "`".repeat(n))).collect()),
        ("brackets", "a.md", filled("[")),
        ("links", "a.md", filled("[a](")),
        ("definitions", "a.md", filled("[a]: b\n")),
        ("emphasis", "a.md", filled("*a **b _c ")),
        ("pipes", "a.md", filled("|")),
        ("wide table", "a.md", format!("{}\n{}\n{}", "|a".repeat(100_000), "|-".repeat(100_000), filled("|a\n"))),
        ("table heads", "a.md", filled("|a|\n|-|\n\n")),
        ("comments that open", "a.md", format!("{}-->", filled("<!-- "))),
        ("comment lines", "a.md", filled("<!-- a\n")),
        ("tags", "a.md", filled("<a\n")),
        ("entities", "a.md", filled("&amp")),
        ("backslashes", "a.md", filled("\\")),
        ("indented", "a.md", filled("    - a\n")),
        ("indent that grows", "a.md", (0..3000).map(|n| format!("{}- a\n", " ".repeat(n))).collect()),
        ("dashes", "a.md", filled("a\n---\n")),
        ("headings", "a.md", filled("# a\n")),
        ("carriage returns", "a.md", filled("a\r")),
        ("blank", "a.md", filled(" ")),
        ("front matter", "a.mdc", format!("---\na: b\n{}", filled("- "))),
        ("json brackets", "a.json", filled("[")),
        ("json strings", "a.json", format!("[{}]", filled("\"Never push to main\","))),
        ("yaml brackets", "a.yaml", filled("a: [\n")),
        ("yaml keys", "a.yaml", filled("a: ")),
        ("yaml bullets", "a.yaml", filled("- ")),
        ("yaml blocks", "a.yaml", filled("a: |\n  Never push to main\n")),
        ("toml brackets", "a.toml", format!("a = {}", filled("["))),
        ("toml strings", "a.toml", format!("a = [{}]", filled("\"Never push to main\","))),
    ]
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("segment");
    for (name, path, text) in inputs() {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bench| bench.iter(|| segment(path, black_box(&text))));
    }
    group.finish();
    let found = segment("a.md", &inputs()[0].2);
    let packed = pack(&found);
    let mut group = criterion.benchmark_group("pack");
    group.throughput(Throughput::Elements(found.items.len() as u64));
    group.bench_function("pack", |bench| bench.iter(|| pack(black_box(&found))));
    group.bench_function("unpack", |bench| bench.iter(|| unpack(black_box(&packed))));
    group.finish();
    criterion.final_summary();
}
