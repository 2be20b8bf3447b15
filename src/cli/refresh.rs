//! `aac refresh`.

use super::crawl::{connect, ending};
use super::{Context, Exit, Failure};
use crate::job::crawl::CrawlOptions;
use crate::job::refresh::{RefreshSummary, prometheus, refresh, searched_forks, write_metrics};
use crate::taxonomy::Outcome;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct RefreshArgs {
    /// Only this platform; may be given several times [default: the eight of the corpus]
    #[arg(long, value_name = "P")]
    platform: Vec<String>,
    /// Pause after so many requests
    #[arg(long, value_name = "N")]
    max_requests: Option<u64>,
    /// Pause after so many hours
    #[arg(long, value_name = "H")]
    max_hours: Option<f64>,
    /// Write metrics for Prometheus to this file
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &RefreshArgs) -> Result<Exit, Failure> {
    let targets = context.targets(&args.platform)?;
    let github = connect(context, args.max_requests, args.max_hours)?;
    let _lock = context.lock("refresh")?;
    let store = context.open().await?;
    context.claim(&store, &github.options().endpoints.service()).await?;
    let forks = context.config.crawl.forks || searched_forks(&store).await?;
    let options = CrawlOptions { forks, ..CrawlOptions::default() };
    let summary = refresh(&store, &github, &targets, &options, &context.terminal).await?;
    store.close().await;
    if let Some(file) = &args.metrics {
        write_metrics(file, &prometheus(&summary, &context.db))
            .map_err(|error| Failure::failed(format!("Failed to write {}: {error}", file.display())))?;
    }
    context.output.print(&summary, text)?;
    Ok(match summary.outcome {
        Outcome::Done => Exit::Done,
        Outcome::Partial => Exit::Partial,
        Outcome::Paused => Exit::Paused,
        Outcome::Failed => Exit::Failed,
    })
}

/// The line for a mail, and below it what needs a person.
fn text(summary: &RefreshSummary) -> String {
    let mut lines = vec![summary.line()];
    let repos = &summary.repositories;
    for (n, what) in [
        (repos.added, "new"),
        (repos.renamed, "renamed"),
        (repos.missed, "missed for the first time"),
        (repos.gone, "deleted or made private"),
        (repos.empty, "emptied"),
        (repos.blocked, "blocked"),
        (repos.private, "closed to this identity"),
    ] {
        if n > 0 {
            lines.push(format!("  {n} repositories {what}"));
        }
    }
    lines.extend(ending(summary.paused.as_deref(), summary.resume_at, &summary.failed));
    lines.join("\n")
}
