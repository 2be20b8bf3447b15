//! `aac export`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::job::export::{self, ExportError, ExportSummary};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Folder for the shards [default: exports]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let out = context.out(args.out.as_ref());
    match export::export(&store, &out, &context.terminal).await {
        Ok(summary) => {
            context.output.print(&summary, text)?;
            store.close().await;
            Ok(Exit::Done)
        }
        Err(ExportError::Stopped) => Err(Failure { exit: Exit::Paused, message: ExportError::Stopped.to_string() }),
        Err(error) => Err(error.into()),
    }
}

fn text(summary: &ExportSummary) -> String {
    let mut lines = vec![format!(
        "{} rows in {} shards, {} KB",
        count(summary.rows as i64),
        summary.shards.len(),
        count((summary.bytes / 1000) as i64)
    )];
    lines.extend(summary.shards.iter().map(|s| format!("  {}", s.display())));
    lines.join("\n")
}
