//! `aac triage`.

use super::decompose::refused;
use super::knowledge::{BudgetReport, ReadArgs, budget};
use super::{Context, Exit, Failure, compact};
use crate::triage::{Budget, Cycle, Outcome, Query, Retrieved, SplitBase, triage};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct TriageArgs {
    /// Markdown or plain text, `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tokens of the context, or a share of the input such as 50%
    #[arg(long, value_name = "N|P%", value_parser = budget)]
    budget: Budget,
    /// What the context is needed for: decides which part is loaded when the file has to be split
    #[arg(long, value_name = "Q")]
    query: Option<String>,
    /// How many results to retrieve for the query when the file has to be split
    #[arg(short, value_name = "N", default_value_t = 10)]
    k: usize,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    budget: BudgetReport,
    partitions: usize,
    active: usize,
    overhead: f64,
    output: &'a str,
    #[serde(flatten)]
    retrieved: Option<Retrieved<'a>>,
}

pub(super) async fn run(context: &Context, args: &TriageArgs) -> Result<Exit, Failure> {
    let base = args.read.reader(context)?.markdown(&args.file)?;
    let (outcome, cycle) = triage(&base, args.budget, args.query.as_deref());
    match &cycle {
        Cycle::Compacted => compact::show(context, &outcome, false, false),
        Cycle::Split(split) => show(context, args, &outcome, split),
        Cycle::Refused(refusal) => refused(context, refusal),
    }
}

fn show(context: &Context, args: &TriageArgs, outcome: &Outcome, split: &SplitBase) -> Result<Exit, Failure> {
    let retrieved = args.query.as_deref().map(|text| split.retrieve(&Query { text, k: args.k, ..Query::default() }));
    if context.output.json {
        let report = Report {
            budget: BudgetReport::of(
                outcome,
                true,
                split.parts.partitions.get(split.active).map_or(0, |part| part.tokens),
            ),
            partitions: split.parts.partitions.len(),
            active: split.active + 1,
            overhead: split.parts.overhead,
            output: split.text(),
            retrieved,
        };
        context.output.print(&report, |_| String::new())?;
    } else {
        context.output.raw(split.text().as_bytes())?;
    }
    context.tell(&format!(
        "Split: the constraints need {} tokens, {} are allowed; part {} of {} is loaded, with every constraint that \
         binds in it. aac decompose writes all parts, aac retrieve finds what the others hold",
        outcome.min_safe_budget,
        outcome.budget,
        split.active + 1,
        split.parts.partitions.len(),
    ));
    Ok(Exit::Done)
}
