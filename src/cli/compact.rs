//! `aac compact`.

use super::knowledge::{BudgetReport, ReadArgs, budget};
use super::output::counted;
use super::{Context, Exit, Failure};
use crate::terminal::say;
use crate::triage::{Budget, Change, Compaction, Guard, Outcome, Verdict, compact};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Listed lines shown to people; `--json` has them all.
const SHOWN: usize = 10;

#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    /// Markdown or plain text, `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tokens that the output may take, or a share of the input such as 50%
    #[arg(long, value_name = "N|P%", value_parser = budget)]
    budget: Budget,
    /// Only tell what would come of it
    #[arg(long)]
    dry_run: bool,
    /// Print the most that fits when the constraints do not; still exit code 4
    #[arg(long)]
    best_effort: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    budget: BudgetReport,
    pinned: usize,
    compressed: &'a [Change],
    dropped: &'a [Change],
    restored: usize,
    lost: &'a [Guard],
    output: Option<&'a str>,
}

pub(super) async fn run(context: &Context, args: &CompactArgs) -> Result<Exit, Failure> {
    let base = args.read.reader(context)?.markdown(&args.file)?;
    let outcome = compact(&base, args.budget);
    show(context, &outcome, args.dry_run, args.best_effort)
}

/// Print what came of a compaction, and the code that it ends with.
pub(super) fn show(context: &Context, outcome: &Outcome, dry_run: bool, best_effort: bool) -> Result<Exit, Failure> {
    let (compaction, lost): (&Compaction, &[Guard]) = match &outcome.verdict {
        Verdict::Safe(compaction) => (compaction, &[]),
        Verdict::Unsafe(refusal) => (&refusal.best_effort, &refusal.lost),
    };
    let safe = outcome.safe().is_some();
    let printed = !dry_run && (safe || best_effort);
    if context.output.json {
        let report = Report {
            budget: BudgetReport::of(outcome, safe, compaction.tokens_out),
            pinned: compaction.pinned,
            compressed: &compaction.compressed,
            dropped: &compaction.dropped,
            restored: compaction.restored,
            lost,
            output: printed.then_some(compaction.output.as_str()),
        };
        context.output.print(&report, |_| String::new())?;
    } else if printed {
        context.output.raw(compaction.output.as_bytes())?;
    }
    if safe {
        context.tell(&format!(
            "Safe: {} → {} tokens of {} allowed; {} word for word, {} shortened, {} left out",
            outcome.tokens_in,
            compaction.tokens_out,
            outcome.budget,
            counted(compaction.pinned, "constraint"),
            counted(compaction.compressed.len(), "item"),
            compaction.dropped.len(),
        ));
        return Ok(Exit::Done);
    }
    say(&format!(
        "Unsafe: the constraints need {} tokens, {} are allowed. Give --budget {} or more, or split the file with aac \
         decompose",
        outcome.min_safe_budget, outcome.budget, outcome.min_safe_budget
    ));
    if lost.is_empty() {
        say("All constraints fit without their headings; --best-effort prints them");
    } else {
        say(&format!("{} left out, riskiest first:", counted(lost.len(), "constraint")));
        for guard in lost.iter().take(SHOWN) {
            say(&format!("  line {}: {}", guard.line, crate::segment::flatten(&guard.text)));
        }
        if lost.len() > SHOWN {
            say(&format!("  and {} more; --json lists all", lost.len() - SHOWN));
        }
    }
    Ok(Exit::Unsafe)
}
