//! `aac ingest`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::job::ingest::{IngestOptions, IngestSummary, ingest};
use crate::store::Store;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// Left-out lines shown to people; `--json` has them all.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct IngestArgs {
    /// Git repositories (bare or not), folders of them, or plain folders
    #[arg(required = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// Revision to read in every repository [default: its default branch]
    #[arg(long, value_name = "R")]
    rev: Option<String>,
    /// Platform to collect, `all` for every known one; may be repeated [default: the eight of the paper]
    #[arg(long = "platform", value_name = "P")]
    platforms: Vec<String>,
    /// Also take weak names alone (CONVENTIONS.md, AGENT.md) and platforms' folders below the root, which a crawl cannot
    #[arg(long)]
    lenient: bool,
}

pub(super) async fn run(context: &Context, args: &IngestArgs) -> Result<Exit, Failure> {
    let mut targets = context.targets(&args.platforms)?;
    if args.lenient {
        targets.lenient()?;
    }
    let targets = Arc::new(targets);
    let store = Store::create(&context.db).await?;
    let options = IngestOptions { rev: args.rev.clone(), ..IngestOptions::new(args.paths.clone()) };
    let summary = ingest(&store, targets, &options, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(match &summary {
        s if s.paused => Exit::Paused,
        s if !s.failed() => Exit::Done,
        s if s.repos == 0 => Exit::Failed,
        _ => Exit::Partial,
    })
}

pub(super) fn text(summary: &IngestSummary) -> String {
    let number = |n: usize| count(n as i64);
    let mut lines = vec![format!(
        "{} repositories ({} unchanged) with {} artifacts: {} added, {} changed, {} gone",
        number(summary.repos),
        number(summary.unchanged_repos),
        number(summary.artifacts),
        number(summary.added),
        number(summary.changed),
        number(summary.gone),
    )];
    if summary.paused {
        lines.push("Paused; the same command goes on".to_owned());
    }
    if !summary.skipped.is_empty() {
        lines.push(format!("{} left out:", number(summary.skipped.len())));
        lines.extend(summary.skipped.iter().take(SHOWN).map(|s| format!("  {}: {}", s.path, s.why)));
        if summary.skipped.len() > SHOWN {
            lines.push(format!("  and {} more; --json lists all", number(summary.skipped.len() - SHOWN)));
        }
    }
    lines.join("\n")
}
