//! `aac retrieve`.

use super::knowledge::ReadArgs;
use super::{Context, Exit, Failure};
use crate::segment::flatten;
use crate::terminal::say;
use crate::triage::{Index, Pinning, Query, Retrieved, retrieve};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct RetrieveArgs {
    /// Files to search, taken into the index in place of what it held of them
    #[arg(value_name = "FILE", required_unless_present = "index")]
    files: Vec<PathBuf>,
    /// What to look for
    #[arg(long, value_name = "Q")]
    query: String,
    /// How many results
    #[arg(short, value_name = "N", default_value_t = 10)]
    k: usize,
    /// How the results behind the constraints are ranked
    #[arg(long, value_name = "NAME", default_value = "bm25")]
    retriever: Retriever,
    /// Topics that the query is about, comma separated [default: those of the best results]
    #[arg(long, value_name = "T,…", value_delimiter = ',')]
    topics: Vec<String>,
    /// Put only constraints of at least this risk (probability × weight of the authority) first
    #[arg(long, value_name = "R")]
    min_risk: Option<f32>,
    /// Keep the index in this file, and search all that it holds
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
    /// Print one JSON object a result
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Retriever {
    Bm25,
}

pub(super) async fn run(context: &Context, args: &RetrieveArgs) -> Result<Exit, Failure> {
    let Retriever::Bm25 = args.retriever;
    let mut index = match &args.index {
        Some(path) if path.exists() => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::failed(format!("Failed to read {}: {error}", path.display())))?;
            Index::read(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?
        }
        _ => Index::default(),
    };
    let reader = args.read.reader(context)?;
    for path in &args.files {
        let base = reader.base(path)?;
        index.replace(&path.to_string_lossy(), &base);
    }
    if let Some(path) = args.index.as_ref().filter(|_| !args.files.is_empty()) {
        store(path, &index.write()?)?;
    }
    let topics: Vec<&str> = args.topics.iter().map(|topic| topic.trim()).collect();
    let pinning = args.min_risk.map_or(Pinning::All, Pinning::AtRisk);
    let found = retrieve(&index, &Query { text: &args.query, k: args.k, topics: &topics, pinning });
    if args.jsonl {
        for result in &found.results {
            context.output.line(result)?;
        }
    } else {
        context.output.print(&found, text)?;
    }
    if found.pinned_beyond_k > 0 {
        say(&format!(
            "{} constraints are in scope and {} do not fit into {}: give -k {} or more to have them all",
            found.in_scope, found.pinned_beyond_k, args.k, found.in_scope
        ));
    }
    Ok(Exit::Done)
}

/// Written aside and renamed, so that a reader never sees half an index.
fn store(path: &Path, text: &str) -> Result<(), Failure> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    std::fs::write(&aside, text)
        .and_then(|()| std::fs::rename(&aside, path))
        .map_err(|error| Failure::failed(format!("Failed to write {}: {error}", path.display())))
}

fn text(found: &Retrieved<'_>) -> String {
    let line = |f: &crate::triage::Found<'_>| {
        let mark = if f.pinned { "pinned" } else { "      " };
        format!("{mark}  {:>6.2}  {}:{}  {}", f.score, f.source, f.line, flatten(f.text))
    };
    found.results.iter().map(line).collect::<Vec<_>>().join("\n")
}
