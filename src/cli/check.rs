//! `aac check`.

use super::knowledge::{ReadArgs, read_text};
use super::output::counted;
use super::{Context, Exit, Failure};
use crate::segment::flatten;
use crate::triage::{Base, Check, Guard, ItemId, check, guards};
use clap::Args;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The text as it was
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// What a compactor made of it, `-` for standard input
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Print one JSON object a constraint, in the order of BEFORE
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// One constraint and what became of it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    guard: &'a Guard,
    #[serde(flatten)]
    fate: Fate<'a>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Fate<'a> {
    Kept,
    Weakened { found: &'a str, dropped: &'a [String] },
    Lost { nearest: Option<&'a str> },
}

pub(super) async fn run(context: &Context, args: &CheckArgs) -> Result<Exit, Failure> {
    let before = args.read.reader(context)?.base(&args.before)?;
    let found = check(&before, &read_text(&args.after)?);
    if args.jsonl {
        lines(context, &before, &found)?;
    } else {
        context.output.print(&found, |found| text(found, &args.before.to_string_lossy()))?;
    }
    Ok(if found.weakened.is_empty() && found.lost.is_empty() { Exit::Done } else { Exit::Findings })
}

fn lines(context: &Context, before: &Base, found: &Check) -> Result<(), Failure> {
    let mut fates: HashMap<ItemId, Fate<'_>> = HashMap::new();
    for weakened in &found.weakened {
        fates.insert(weakened.guard.id, Fate::Weakened { found: &weakened.found, dropped: &weakened.dropped });
    }
    for lost in &found.lost {
        fates.insert(lost.guard.id, Fate::Lost { nearest: lost.nearest.as_deref() });
    }
    for guard in &guards(before) {
        let fate = fates.get(&guard.id).copied().unwrap_or(Fate::Kept);
        context.output.line(&Line { guard, fate })?;
    }
    Ok(())
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
        "{} kept ({} word for word), {} weakened, {} lost; recall {:.2}",
        counted(found.kept, "constraint"),
        found.verbatim,
        found.weakened.len(),
        found.lost.len(),
        found.recall
    ));
    lines.join("\n")
}
