//! `aac check`.

use super::knowledge::{ReadArgs, read_base, read_text};
use super::{Context, Exit, Failure};
use crate::segment::flatten;
use crate::triage::{Check, check};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The text as it was
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// What a compactor made of it, `-` for standard input
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
}

pub(super) async fn run(context: &Context, args: &CheckArgs) -> Result<Exit, Failure> {
    let before = read_base(&args.before, &args.read)?;
    let found = check(&before, &read_text(&args.after)?);
    context.output.print(&found, |found| text(found, &args.before.to_string_lossy()))?;
    Ok(if found.weakened.is_empty() && found.lost.is_empty() { Exit::Done } else { Exit::Findings })
}

fn text(found: &Check, before: &str) -> String {
    let mut lines = Vec::new();
    for lost in &found.lost {
        lines.push(format!("{before}:{}: lost: {}", lost.guard.line, flatten(&lost.guard.text)));
        if let Some(nearest) = &lost.nearest {
            lines.push(format!("    nearest, and no rule any more: {}", flatten(nearest)));
        }
    }
    for weakened in &found.weakened {
        lines.push(format!("{before}:{}: weakened: {}", weakened.guard.line, flatten(&weakened.guard.text)));
        lines.push(format!("    now: {}", flatten(&weakened.found)));
        lines.push(format!("    without: {}", weakened.dropped.join(", ")));
    }
    lines.push(format!(
        "{} constraints kept ({} word for word), {} weakened, {} lost; recall {:.2}",
        found.kept,
        found.verbatim,
        found.weakened.len(),
        found.lost.len(),
        found.recall
    ));
    lines.join("\n")
}
