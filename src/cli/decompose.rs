//! `aac decompose`.

use super::knowledge::{ReadArgs, budget};
use super::output::counted;
use super::{Context, Exit, Failure};
use crate::segment::flatten;
use crate::terminal::say;
use crate::triage::{Budget, Decomposition, TooNarrow, decompose};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct DecomposeArgs {
    /// Markdown or plain text, `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Tokens that each partition may take, or a share of the input such as 25%
    #[arg(long, value_name = "N|P%", value_parser = budget)]
    budget: Budget,
    /// Folder for the partitions; made when it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    status: &'static str,
    tokens_in: usize,
    budget: usize,
    partitions: Vec<Part>,
    violations: usize,
    overhead: f64,
}

#[derive(Debug, Serialize)]
struct Part {
    file: PathBuf,
    tokens: usize,
    items: usize,
    copies: usize,
}

pub(super) async fn run(context: &Context, args: &DecomposeArgs) -> Result<Exit, Failure> {
    let base = args.read.reader(context)?.markdown(&args.file)?;
    let parts = match decompose(&base, args.budget) {
        Ok(parts) => parts,
        Err(refusal) => return refused(context, &refusal),
    };
    let report = Report {
        status: "safe",
        tokens_in: parts.tokens_in,
        budget: args.budget.of(base.tokens()),
        violations: parts.locality(&base).missing,
        overhead: parts.overhead,
        partitions: write(&parts, &args.out)?,
    };
    context.output.print(&report, text)?;
    Ok(Exit::Done)
}

/// One file a partition, numbered so that they sort in document order.
fn write(parts: &Decomposition, out: &Path) -> Result<Vec<Part>, Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::failed(format!("Failed to write {}: {error}", path.display()));
    std::fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    let width = parts.partitions.len().to_string().len();
    let mut written = Vec::with_capacity(parts.partitions.len());
    for (number, part) in parts.partitions.iter().enumerate() {
        let file = out.join(format!("part-{:0width$}.md", number + 1));
        std::fs::write(&file, &part.text).map_err(|error| failed(&file, error))?;
        written.push(Part { file, tokens: part.tokens, items: part.items.len(), copies: part.copies.len() });
    }
    Ok(written)
}

/// Say why there is no decomposition.
pub(super) fn refused(context: &Context, refusal: &TooNarrow) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Unsafe<'a> {
        status: &'static str,
        #[serde(flatten)]
        refusal: &'a TooNarrow,
    }
    if context.output.json {
        context.output.print(&Unsafe { status: "unsafe", refusal }, |_| String::new())?;
    }
    say(&format!(
        "Unsafe: line {} with the {} that bind there needs {} tokens, {} are allowed a partition",
        refusal.line,
        counted(refusal.constraints.len(), "constraint"),
        refusal.needed,
        refusal.budget,
    ));
    for guard in refusal.constraints.iter().take(10) {
        say(&format!("  line {}: {}", guard.line, flatten(&guard.text)));
    }
    Ok(Exit::Unsafe)
}

fn text(report: &Report) -> String {
    let mut lines: Vec<String> = report
        .partitions
        .iter()
        .map(|part| {
            let items = counted(part.items, "item");
            format!("{}: {} tokens, {items} and {} copied", part.file.display(), part.tokens, part.copies)
        })
        .collect();
    lines.push(format!(
        "{} of at most {} tokens, {}, {:.1} % overhead",
        counted(report.partitions.len(), "partition"),
        report.budget,
        counted(report.violations, "violation"),
        100.0 * report.overhead
    ));
    lines.join("\n")
}
