//! `aac build`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::github::Endpoints;
use crate::job::SERVICE;
use crate::job::build::{self, BuildOptions, BuildSummary, Origin};
use crate::job::crawl::{CrawlOptions, crawled_at};
use crate::plan::Targets;
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
    let out = context.out_folder(args.out.as_ref())?;
    let export = super::export::options(context, Some(&out), None, args.model.as_ref())?;
    let origin = if args.sandbox {
        Origin::Sandbox { artifacts: args.artifacts, seed: args.seed }
    } else if !args.from.is_empty() {
        Origin::Local(args.from)
    } else {
        collected(context, &targets).await?
    };
    let _lock = match &origin {
        Origin::Sandbox { .. } | Origin::GitHub { .. } => Some(context.lock("build")?),
        Origin::Local(_) | Origin::Kept => None,
    };
    let store = Store::create(&context.db).await?;
    store.refuse_copy("build")?;
    match &origin {
        Origin::Sandbox { .. } => context.claim(&store, Endpoints::SANDBOX).await?,
        Origin::GitHub { github, .. } => context.claim(&store, &github.options().endpoints.service()).await?,
        Origin::Local(_) | Origin::Kept => {}
    }
    let summary = build::build(&store, targets, &BuildOptions { origin, export }, &context.terminal).await?;
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

/// Where a build takes its artifacts from that was told nothing about it: GitHub while there is a crawl to begin or to go
/// on with, else what the corpus holds. A corpus that is whole is never crawled anew behind its owner's back.
async fn collected(context: &Context, targets: &Targets) -> Result<Origin, Failure> {
    let crawl = CrawlOptions { forks: context.config.crawl.forks, ..CrawlOptions::default() };
    let github = super::crawl::connect(context, None, None);
    if context.db.exists() {
        let store = context.open().await?;
        store.refuse_copy("build")?;
        let unfinished = store.unfinished_run("crawl").await?.is_some();
        let crawled = crawled_at(&store, targets, &crawl).await?;
        let is_local = store.setting(SERVICE).await?.is_none();
        let holds_some = store.counts().await?.artifacts > 0;
        store.close().await;
        let kept = match (&github, crawled) {
            _ if !holds_some => None,
            (_, Some(at)) => Some(format!(
                "This corpus was crawled at {at:.0} and is taken as it is; `aac refresh` collects what is new since."
            )),
            (_, None) if is_local && !unfinished => Some(
                "This corpus was made on this machine and is taken as it is; `aac build --from DIR` reads the repositories \
                 again, `aac crawl` adds those of GitHub."
                    .to_owned(),
            ),
            (Err(why), None) => {
                Some(format!("{}; nothing is collected, what is stored is judged and exported.", why.message))
            }
            (Ok(_), None) => None,
        };
        if let Some(why) = kept {
            context.tell(&why);
            return Ok(Origin::Kept);
        }
    }
    match github {
        Ok(github) => Ok(Origin::GitHub { github, crawl }),
        Err(why) => {
            let hint = "or build from what you have: `aac build --from DIR`, `aac build --sandbox`";
            Err(Failure { message: format!("{}; {hint}", why.message), ..why })
        }
    }
}

/// The closing screen: fits 80 × 24, as long as the paths in it are short.
fn text(context: &Context, summary: &BuildSummary) -> String {
    screen(summary, &context.db_flag())
}

fn screen(summary: &BuildSummary, db: &str) -> String {
    let counts = &summary.counts;
    let mut out = String::new();
    if summary.paused {
        out += "Paused: the same command goes on from here.\n\n";
    }
    for step in &summary.steps {
        out += &format!("  {:<10} {:>8.1} s\n", step.name, step.seconds);
    }
    out += &format!(
        "\n{} artifacts in {} repositories\n{} distinct texts, {} items\n",
        count(counts.artifacts),
        count(counts.repos),
        count(counts.blobs),
        count(counts.items)
    );
    if summary.sandbox {
        out += "A sandbox's corpus: nothing in it is from GitHub.\n";
    }
    out += &format!("Items by the model {}", summary.model);
    let figure = |name: &str| summary.model_stored_figures.as_ref()?.get(name)?.get("value")?.as_f64();
    if let (Some(accuracy), Some(f1)) = (figure("accuracy"), figure("constraint_f1")) {
        out += &format!(
            "; when it was fitted, on real gold:\n  accuracy {accuracy:.2}, constraint F1 {f1:.2} (stored figures, not of this corpus)"
        );
    }
    out.push('\n');
    let line = |what: &str, where_to: String| format!("  {what:<10} {where_to}\n");
    if let Some(first) = summary.shards.first() {
        let folder = first.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        out += "Made:\n";
        let shards = summary.shards.len();
        out += &line("to share", format!("{} ({shards} shards; read its README.md)", folder.display()));
    }
    if let Some(report) = &summary.report {
        out += &line("to look at", report.display().to_string());
    }
    out += "Next:\n";
    out += &line("look", format!("aac status{db}"));
    if summary.sandbox {
        out += &line("for real", "aac build --from DIR, or aac crawl --dry-run".to_owned());
    } else if !summary.paused {
        out += &line("publish", "set contact and removal under [export] in aac.toml, then".to_owned());
        out += &line("", format!("aac export --for-publication{db}"));
    }
    out += "The database holds secrets as found: share the export, never the database.\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::build::StepReport;
    use crate::job::model::ModelName;
    use crate::store::Counts;
    use serde_json::{Value, json};

    #[test]
    fn the_closing_screen_fits_80_by_24() {
        let names = ["crawl", "segment", "dedup", "tag", "classify", "export", "report"];
        let step = |name| StepReport { name, seconds: 123_456.7, summary: Value::Null };
        let counts = Counts {
            artifacts: 4_396_934,
            blobs: 3_301_234,
            repos: 1_054_628,
            versions: 1,
            bytes: 1,
            items: 171_123_456,
        };
        let mut summary = BuildSummary {
            steps: names.map(step).into(),
            counts,
            shards: vec!["exports/corpus/data/artifacts-00000-of-00123.parquet".into(); 123],
            report: Some("exports/corpus/report.html".into()),
            model: ModelName { tier: "linear".to_owned(), hash: "0".repeat(64) },
            model_stored_figures: Some(json!({ "accuracy": { "value": 0.712 }, "constraint_f1": { "value": 0.603 } })),
            sandbox: false,
            partial: false,
            paused: false,
        };
        for (sandbox, paused, db) in
            [(true, false, ""), (false, false, " --db other.db"), (true, true, ""), (false, true, "")]
        {
            (summary.sandbox, summary.paused) = (sandbox, paused);
            let screen = screen(&summary, db);
            assert!(screen.lines().count() <= 24, "{} lines:\n{screen}", screen.lines().count());
            for line in screen.lines() {
                assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
            }
            assert_eq!(screen.contains("nothing in it is from GitHub"), sandbox);
        }
    }
}
