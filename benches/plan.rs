//! Requests ÷ lower bound of the planner beside the strategies of others, on simulated targets.
//!
//! `cargo bench --bench plan [-- SEEDS]`
#![allow(clippy::print_stdout, reason = "printing a table is all it does")]

use aac::plan::simulate::{Row, SIZES, all_targets, shapes, table};

fn main() {
    let seeds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(3u64);
    let seeds: Vec<u64> = (1..=seeds).collect();
    println!("{} seeds\n", seeds.len());
    print("One target", &table(&seeds, &SIZES));
    print("Other shapes", &shapes(&seeds, &[1, 300, 1_000, 1_001, 1_500, 2_000, 5_000, 20_000, 100_000]));
    print("All targets", &[all_targets(&seeds, 40, 400_000), all_targets(&seeds, 40, 50_000)]);
}

fn print(title: &str, rows: &[Row]) {
    println!("{title}");
    println!(
        "{:<28} {:<38} {:>8} {:>10} {:>8} {:>8} {:>7}",
        "", "strategy", "files", "requests", "ratio", "worst", "missed"
    );
    for row in rows {
        println!(
            "{:<28} {:<38} {:>8} {:>10.1} {:>8.3} {:>8.3} {:>7}",
            row.world, row.strategy, row.files, row.requests, row.ratio, row.worst, row.missed
        );
    }
    println!();
}
