//! `aac gold hydrate`.

use crate::cli::{Context, Exit, Failure};
use crate::job::hydrate::{HydrateSummary, TextSource, hydrate, read_labels, to_jsonl};
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
    let store = if args.from.is_empty() { Some(context.open().await?) } else { None };
    let source = match &store {
        Some(store) => TextSource::Corpus(store),
        None => TextSource::Repositories(args.from),
    };
    let (records, summary) = hydrate(records, &source, &context.terminal).await?;
    drop(source);
    if let Some(store) = store {
        store.close().await;
    }
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
        s if s.paused => Exit::Paused,
        s if s.missed() > 0 => Exit::Partial,
        _ => Exit::Done,
    })
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
