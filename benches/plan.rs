//! Requests ÷ lower bound of the planner beside the strategies of others, on simulated targets.
//!
//! `cargo bench --no-default-features --bench plan [-- FIRST_SEED LAST_SEED]`, seeds 1 to 3 when none are given.
#![allow(clippy::print_stdout, reason = "printing a table is all it does")]

use aac::plan::simulate::comparison;

fn main() {
    let mut given = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (first, last) = (given.next().unwrap_or(1), given.next().unwrap_or(3));
    let seeds: Vec<u64> = (first..=last).collect();
    print!("{}", comparison(&seeds));
}
