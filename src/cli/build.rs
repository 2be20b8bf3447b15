//! `aac build`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::github::Endpoints;
use crate::job::build::{self, BuildOptions, BuildSummary, Origin};
use crate::job::crawl::CrawlOptions;
use crate::job::model::find_model;
use crate::store::Store;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Crawl a generated corpus on this machine: shows everything in about two minutes
    #[arg(long, conflicts_with = "from")]
    sandbox: bool,
    /// Size of the generated corpus, in artifacts
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "sandbox")]
    artifacts: u32,
    /// Seed of the generated corpus
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sandbox")]
    seed: u64,
    /// Take in these git repositories, folders of them, or plain folders, instead of crawling
    #[arg(long, value_name = "DIR", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Folder for shards and report [default: exports/corpus]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Platform to collect, `all` for every known one; may be repeated [default: the eight of the paper]
    #[arg(long = "platform", value_name = "P")]
    platforms: Vec<String>,
    /// Folder of the model [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: BuildArgs) -> Result<Exit, Failure> {
    let targets = Arc::new(context.targets(&args.platforms)?);
    let export = super::export::options(context, args.out.as_ref(), None)?;
    let origin = if args.sandbox {
        Origin::Sandbox { artifacts: args.artifacts, seed: args.seed }
    } else if !args.from.is_empty() {
        Origin::Local(args.from)
    } else {
        match super::crawl::connect(context, None, None) {
            Ok(github) => {
                let crawl = CrawlOptions { forks: context.config.crawl.forks, ..CrawlOptions::default() };
                Origin::GitHub { github, crawl }
            }
            // Without credentials a corpus that is there can still be brought up to date.
            Err(_) if context.db.exists() => Origin::Kept,
            Err(why) => {
                let hint = "or build from what you have: `aac build --from DIR`, `aac build --sandbox`";
                return Err(Failure { message: format!("{}; {hint}", why.message), ..why });
            }
        }
    };
    let model = find_model(&context.model_places(args.model.as_ref())).map_err(Failure::usage)?;
    let store = Store::create(&context.db).await?;
    match &origin {
        Origin::Sandbox { .. } => context.claim(&store, Endpoints::SANDBOX).await?,
        Origin::GitHub { github, .. } => context.claim(&store, &github.options().endpoints.service()).await?,
        Origin::Local(_) | Origin::Kept => {}
    }
    let summary = build::build(&store, targets, &BuildOptions { origin, export, model }, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, |summary| text(context, summary))?;
    Ok(if summary.paused {
        Exit::Paused
    } else if summary.partial {
        Exit::Partial
    } else {
        Exit::Done
    })
}

/// The closing screen: fits 80 × 24.
fn text(context: &Context, summary: &BuildSummary) -> String {
    let counts = &summary.counts;
    let mut out = String::new();
    if summary.paused {
        out += "Paused: the same command goes on from here.\n\n";
    }
    for step in &summary.steps {
        out += &format!("  {:<10} {:>8.1} s\n", step.name, step.seconds);
    }
    out += &format!(
        "\n{} artifacts in {} repositories, {} distinct texts, {} items\n",
        count(counts.artifacts),
        count(counts.repos),
        count(counts.blobs),
        count(counts.items)
    );
    out += &format!("Items by the model {}", summary.model);
    let figure = |name: &str| summary.model_stored_figures.as_ref()?.get(name)?.get("value")?.as_f64();
    if let (Some(accuracy), Some(f1)) = (figure("accuracy"), figure("constraint_f1")) {
        out += &format!(
            "; when it was fitted, on held-out real gold:\n  accuracy {accuracy:.2}, constraint F1 {f1:.2} (stored figures, not measured on this corpus)"
        );
    }
    out.push('\n');
    let line = |what: &str, where_to: String| format!("  {what:<10} {where_to}\n");
    if let Some(first) = summary.shards.first() {
        let folder = first.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        out += "\nMade:\n";
        out += &line(
            "to share",
            format!("{} ({} shards; read its README.md first)", folder.display(), summary.shards.len()),
        );
    }
    if let Some(report) = &summary.report {
        out += &line("to look at", report.display().to_string());
    }
    let db = if context.db == Path::new(crate::config::DEFAULT_DB) {
        String::new()
    } else {
        format!(" --db {}", context.db.display())
    };
    out += "\nNext:\n";
    out += &line("look", format!("aac status{db}"));
    out += "The database holds secrets as found: share the export, never the database.\n";
    out
}
