//! `aac report`.

use super::{Context, Exit, Failure};
use crate::job::report::{self, ReportSummary};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The file [default: report.html beside the shards]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &ReportArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let file = args.out.clone().unwrap_or_else(|| context.out(None).join(report::FILE));
    let summary = report::report(&store, &file, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(Exit::Done)
}

fn text(summary: &ReportSummary) -> String {
    let mut text = format!("{}\n", summary.report.display());
    if !summary.missing.is_empty() {
        text += &format!("Not there yet: {}\n", summary.missing.join(", "));
    }
    text
}
