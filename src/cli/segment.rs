//! `aac segment`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::job::segment::{SegmentSummary, segment};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct SegmentArgs {}

pub(super) async fn run(context: &Context, _args: &SegmentArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let summary = segment(&store, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(if summary.paused { Exit::Paused } else { Exit::Done })
}

fn text(summary: &SegmentSummary) -> String {
    let mut lines = vec![format!(
        "{} of {} stale blobs read anew; {} items in all",
        count(summary.updated as i64),
        count(summary.stale as i64),
        count(summary.items)
    )];
    let found: Vec<String> = summary.redactions.iter().map(|(kind, n)| format!("{} {kind}", count(*n))).collect();
    if !found.is_empty() {
        lines.push(format!("Not to be passed on: {}", found.join(", ")));
    }
    if summary.paused {
        lines.push("Paused; the same command goes on".to_owned());
    }
    lines.join("\n")
}
