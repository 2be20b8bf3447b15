//! `aac gold hydrate`.

use crate::cli::crawl::connect;
use crate::cli::{Context, Exit, Failure};
use crate::github::GitHub;
use crate::job::hydrate::{
    HydrateError, HydrateSummary, TextSource, hydrate, hydrate_from_github, read_labels, to_jsonl,
};
use crate::store::Store;
use crate::train::labels::LabelRecord;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Labels without a text that are listed for people, by why.
const SHOWN: usize = 40;

#[derive(Debug, Args)]
pub(super) struct HydrateArgs {
    /// Label files, one JSON object a line
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read blobs by their ids from these git repositories, or folders of them, in place of the corpus
    #[arg(long, value_name = "DIR", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Fetch from GitHub, by their ids, the blobs that are not here; needs a token, and stores nothing in the corpus
    #[arg(long)]
    github: bool,
    /// Pause after so many requests
    #[arg(long, value_name = "N", requires = "github")]
    max_requests: Option<u64>,
    /// File for the labels with their texts [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Hydrated<'a> {
    #[serde(flatten)]
    summary: &'a HydrateSummary,
    out: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: HydrateArgs) -> Result<Exit, Failure> {
    if context.output.json && args.out.is_none() {
        return Err(Failure::usage("Failed to print both labels and --json: name a file for the labels with --out"));
    }
    let records = read_labels(&args.files).map_err(Failure::usage)?;
    let github = if args.github { Some(connect(context, args.max_requests, None)?) } else { None };
    // With GitHub to ask, no corpus is needed. One that is there knows who is opted out and what was asked already.
    let here = context.db.exists();
    let lock = if here && args.github { Some(context.lock("gold hydrate")?) } else { None };
    let needed = args.from.is_empty() && !args.github;
    let store = if needed || (here && args.github) { Some(context.open().await?) } else { None };
    let source = match &store {
        _ if !args.from.is_empty() => Some(TextSource::Repositories(args.from.clone())),
        Some(store) => Some(TextSource::Corpus(store)),
        None => None,
    };
    let found = find(context, records, source.as_ref(), github.as_ref(), store.as_ref()).await;
    drop(source);
    if let Some(store) = store {
        store.close().await;
    }
    drop(lock);
    let (records, summary) = found?;
    let found: Vec<_> = records.into_iter().filter(|r| r.text.is_some()).collect();
    let jsonl = to_jsonl(&found)?;
    match &args.out {
        Some(path) => {
            std::fs::write(path, jsonl)
                .map_err(|error| Failure::failed(format!("Failed to write {}: {error}", path.display())))?;
            let document = Hydrated { summary: &summary, out: args.out.clone() };
            context.output.print(&document, |document| text(document.summary))?;
        }
        None => {
            context.output.raw(jsonl.as_bytes())?;
            context.tell(&text(&summary));
        }
    }
    Ok(match &summary {
        s if s.paused.is_some() => Exit::Paused,
        s if s.missed() > 0 => Exit::Partial,
        _ => Exit::Done,
    })
}

/// Texts from what is here, then from GitHub.
async fn find(
    context: &Context,
    mut records: Vec<LabelRecord>,
    here: Option<&TextSource<'_>>,
    github: Option<&GitHub>,
    store: Option<&Store>,
) -> Result<(Vec<LabelRecord>, HydrateSummary), HydrateError> {
    let mut summary = None;
    if let Some(source) = here {
        let (found, counted) = hydrate(records, source, &context.terminal).await?;
        (records, summary) = (found, Some(counted));
    }
    if let Some(github) = github
        && summary.as_ref().is_none_or(|summary: &HydrateSummary| summary.paused.is_none())
    {
        let (found, counted) = hydrate_from_github(records, github, store, &context.terminal).await?;
        records = found;
        summary = Some(match summary {
            Some(first) => first.and_then(counted),
            None => counted,
        });
    }
    Ok((records, summary.unwrap_or_default()))
}

fn text(summary: &HydrateSummary) -> String {
    let mut out = format!(
        "{} labels: {} had texts, {} found by hash, {} by line, {} not found",
        summary.labels,
        summary.with_text,
        summary.by_hash,
        summary.by_line,
        summary.missed()
    );
    if let Some(why) = &summary.paused {
        out += &format!("\nstopped early: {why}");
    }
    for (why, n) in &summary.missing {
        out += &format!("\n  {n}: {}", why.advice());
        let of_kind = summary.not_found.iter().filter(|label| label.why == *why);
        for label in of_kind.take(SHOWN) {
            let word = |word: &Option<String>| word.clone().unwrap_or_default();
            let line = label.line.map(|line| format!(":{line}")).unwrap_or_default();
            out += &format!("\n      {} {} {}{line}", word(&label.id), word(&label.repo), word(&label.path));
        }
        if *n > SHOWN {
            out += &format!("\n      and {} more; --json lists all", n - SHOWN);
        }
    }
    out
}
