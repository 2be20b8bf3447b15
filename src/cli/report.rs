//! `aac report`.

use super::{Context, Exit, Failure};
use crate::job::model::find_model;
use crate::job::report::{self, ReportSummary};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The file [default: report.html beside the shards]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder of the model whose figures are shown [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &ReportArgs) -> Result<Exit, Failure> {
    let model = find_model(&context.model_places(args.model.as_ref())?).map_err(Failure::usage)?;
    let store = context.open().await?;
    let file = match &args.out {
        Some(file) => file.clone(),
        None => context.out_folder(None)?.join(report::FILE),
    };
    let summary = report::report(&store, &model, &file, &context.terminal).await?;
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
