//! `aac retrieve`.

use super::knowledge::ReadArgs;
use super::{Context, Exit, Failure};
use crate::job::encoders::EncoderPlace;
use crate::job::retrieve::{Searcher, vectors_of, write_aside};
use crate::segment::flatten;
use crate::terminal::say;
use crate::triage::{Index, Pinning, Query, Retrieved, retrieve_by};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

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
    /// How the results behind the constraints are ranked: by words, by meaning, or by reading the best of either
    #[arg(long, value_name = "NAME", default_value = "bm25")]
    retriever: Retriever,
    /// Sentence encoder for dense, and for what rerank reads instead of BM25's best: minilm:DIR or hf:OWNER/NAME
    #[arg(long, value_name = "ENCODER", required_if_eq("retriever", "dense"))]
    encoder: Option<EncoderPlace>,
    /// Cross-encoder for rerank, a BERT with one class: minilm:DIR or hf:OWNER/NAME
    #[arg(long, value_name = "ENCODER", required_if_eq("retriever", "rerank"))]
    reranker: Option<EncoderPlace>,
    /// Topics that the query is about, comma separated [default: those of the best results]
    #[arg(long, value_name = "T,…", value_delimiter = ',')]
    topics: Vec<String>,
    /// Put only constraints of at least this risk (probability × weight of the authority) first
    #[arg(long, value_name = "R")]
    min_risk: Option<f32>,
    /// Keep the index in this file (and its vectors in FILE.vectors), and search all that it holds
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
    Dense,
    Rerank,
}

/// The one JSON document: what was found, and by what.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    found: Retrieved<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reranker: Option<&'a str>,
}

pub(super) async fn run(context: &Context, args: &RetrieveArgs) -> Result<Exit, Failure> {
    let (encoder, reranker) = match args.retriever {
        Retriever::Bm25 => (None, None),
        Retriever::Dense => (args.encoder.as_ref(), None),
        Retriever::Rerank => (args.encoder.as_ref(), args.reranker.as_ref()),
    };
    let searcher = Searcher::load(encoder, reranker).map_err(Failure::usage)?;
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
        write_aside(path, index.write()?.as_bytes())?;
    }
    let topics: Vec<&str> = args.topics.iter().map(|topic| topic.trim()).collect();
    let pinning = args.min_risk.map_or(Pinning::All, Pinning::AtRisk);
    let embedded = searcher.embed(&index, args.index.as_deref().map(vectors_of).as_deref())?;
    if let Some(embedded) = embedded.as_ref().filter(|embedded| embedded.new > 0) {
        say(&format!("Embedded {} texts of {} entries", embedded.new, index.entries().len()));
    }
    let scores = searcher.first(&index, embedded.as_ref().map(|e| &e.dense), &args.query)?;
    let scores = searcher.rerank(&index, scores, &args.query)?;
    let query = Query { text: &args.query, k: args.k, topics: &topics, pinning };
    let [encoder, reranker] = searcher.ids();
    let answer = Answer { found: retrieve_by(&index, &query, &scores), encoder, reranker };
    let found = &answer.found;
    if args.jsonl {
        for result in &found.results {
            context.output.line(result)?;
        }
    } else {
        context.output.print(&answer, |answer| text(&answer.found))?;
    }
    if found.pinned_beyond_k > 0 {
        say(&format!(
            "{} constraints are in scope and {} do not fit into {}: give -k {} or more to have them all",
            found.in_scope, found.pinned_beyond_k, args.k, found.in_scope
        ));
    }
    Ok(Exit::Done)
}

fn text(found: &Retrieved<'_>) -> String {
    let line = |f: &crate::triage::Found<'_>| {
        let mark = if f.pinned { "pinned" } else { "      " };
        format!("{mark}  {:>6.2}  {}:{}  {}", f.score, f.source, f.line, flatten(f.text))
    };
    found.results.iter().map(line).collect::<Vec<_>>().join("\n")
}
