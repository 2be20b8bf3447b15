//! `aac gold`: one file for finding texts, one for what people do on the pages, one for files and figures.

mod exchange;
mod figures;
mod hydrate;
mod serve;

use super::{Context, Exit, Failure};
use crate::job::gold::sample::{SampleSummary, sample};
use crate::job::gold::{Draw, GoldError};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct GoldArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Draw items to label: strata of stars and languages, each cluster of near-duplicates once
    Sample(SampleArgs),
    /// Pages to label, verify, adjudicate and see the agreement, on this machine
    Serve(serve::ServeArgs),
    /// Take in labels, from our files or another tool's
    Import(exchange::ImportArgs),
    /// Write items and labels, for our use or another tool's
    Export(exchange::ExportArgs),
    /// Find the texts of labels that came without them, in the corpus or in git repositories
    Hydrate(hydrate::HydrateArgs),
    /// How far annotators agree: κ, α, AC1 with intervals, by class, confusion
    Agree(figures::AgreeArgs),
    /// What annotators see differently; settle one by its id
    Adjudicate(figures::AdjudicateArgs),
    /// What is labelled, what is left, what to run next
    Status(figures::StatusArgs),
}

#[derive(Debug, Args)]
struct SampleArgs {
    /// Items to draw
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    items: usize,
    /// Repositories to draw them from
    #[arg(long, value_name = "N", default_value_t = 200)]
    repos: usize,
    /// Decides every draw: the same seed over the same corpus gives the same items
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep an earlier sample that has labels and draw this one beside it
    #[arg(long)]
    add: bool,
}

pub(super) async fn run(context: &Context, args: GoldArgs) -> Result<Exit, Failure> {
    match args.what {
        What::Sample(args) => draw(context, &args).await,
        What::Serve(args) => serve::run(context, args).await,
        What::Import(args) => exchange::import(context, &args).await,
        What::Export(args) => exchange::export(context, &args).await,
        What::Hydrate(args) => hydrate::run(context, args).await,
        What::Agree(args) => figures::agree(context, &args).await,
        What::Adjudicate(args) => figures::adjudicate(context, &args).await,
        What::Status(args) => figures::status(context, &args).await,
    }
}

async fn draw(context: &Context, args: &SampleArgs) -> Result<Exit, Failure> {
    if args.items == 0 || args.repos == 0 {
        return Err(Failure::usage("Failed to draw a sample: --items and --repos must be at least 1"));
    }
    let store = context.open().await?;
    let wanted = Draw { items: args.items, repos: args.repos, seed: args.seed };
    let drawn = sample(&store, wanted, args.add, &context.terminal).await;
    store.close().await;
    let drawn = drawn.map_err(|error| match error {
        GoldError::Labelled { .. } => Failure::usage(error),
        other => other.into(),
    })?;
    context.output.print(&drawn, |drawn| text(drawn, args))?;
    Ok(if drawn.paused { Exit::Paused } else { Exit::Done })
}

fn text(drawn: &SampleSummary, args: &SampleArgs) -> String {
    let rows: Vec<Vec<String>> = drawn
        .strata
        .iter()
        .map(|stratum| {
            let numbers = [stratum.repos, stratum.texts, stratum.drawn_repos, stratum.drawn_items];
            std::iter::once(stratum.name()).chain(numbers.map(|n| n.to_string())).collect()
        })
        .collect();
    let mut out = super::output::table(&["stars, language", "repositories", "texts", "drawn from", "items"], &rows);
    let what = match (drawn.paused, drawn.repeated) {
        (true, _) => "Paused; nothing was written".to_owned(),
        (_, true) => format!("{} items; this sample had been drawn before", drawn.items),
        _ => format!("{} items of {} repositories, {} of them new", drawn.items, drawn.repos, drawn.new),
    };
    out += &what;
    if drawn.items < args.items {
        out += &format!("; the corpus has no more ({} were asked for)", args.items);
    }
    out + "\nNext: aac gold serve"
}
