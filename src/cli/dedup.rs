//! `aac dedup`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::job::dedup::{DedupSummary, dedup};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct DedupArgs {}

pub(super) async fn run(context: &Context, _args: &DedupArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let summary = dedup(&store, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(if summary.paused { Exit::Paused } else { Exit::Done })
}

fn text(summary: &DedupSummary) -> String {
    let clusters = &summary.clusters;
    let mut lines = vec![format!(
        "{} of {} stale signatures made; clusters {}",
        count(summary.updated as i64),
        count(summary.stale as i64),
        if summary.recounted { "made anew" } else { "as they were" }
    )];
    lines.push(format!(
        "{} blobs in {} clusters: {} are duplicates, {} clusters are under two or more owners",
        count(clusters.blobs),
        count(clusters.clusters),
        count(clusters.duplicates),
        count(clusters.shared_clusters)
    ));
    if summary.paused {
        lines.push("Paused; the same command goes on".to_owned());
    }
    lines.join("\n")
}
