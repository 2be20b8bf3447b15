//! `aac evaluate retrieval`.

use super::{OperatorArgs, table, three};
use crate::cli::knowledge::read_text;
use crate::cli::{Context, Exit, Failure};
use crate::job::encoders::EncoderPlace;
use crate::job::evaluate::retrieval::{RETAIL_QUERIES, RetrievalEvaluation, evaluate_retrieval, read_queries};
use crate::job::retrieve::Searcher;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct RetrievalArgs {
    #[command(flatten)]
    common: OperatorArgs,
    /// The policy whose rules have to be found: retail-policy.md of τ-bench
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// Queries, one JSON object with text and topics a line [default: 50 about the retail policy]
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Sentence encoder for a row by meaning: minilm:DIR or hf:OWNER/NAME
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<EncoderPlace>,
    /// Cross-encoder for a row that reads the best 100: minilm:DIR or hf:OWNER/NAME
    #[arg(long, value_name = "ENCODER")]
    reranker: Option<EncoderPlace>,
}

pub(in crate::cli) async fn retrieval(context: &Context, args: &RetrievalArgs) -> Result<Exit, Failure> {
    let reader = args.common.read.reader(context)?;
    let policy = reader.judge("policy.md", &read_text(&args.policy)?);
    let queries = match &args.queries {
        Some(file) => read_queries(&read_text(file)?),
        None => read_queries(RETAIL_QUERIES),
    };
    let others = args.common.found()?;
    let searcher = Searcher::load(args.encoder.as_ref(), args.reranker.as_ref()).map_err(Failure::usage)?;
    let queries = queries.map_err(Failure::usage)?;
    let found = evaluate_retrieval(&policy, &others, &queries, &searcher).map_err(Failure::usage)?;
    context.output.print(&found, retrieval_text)?;
    Ok(Exit::Done)
}

fn retrieval_text(found: &RetrievalEvaluation) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &found.rows {
        let mut cells = vec![row.retriever.to_owned()];
        cells.extend(row.recall.iter().map(|v| three(*v)));
        rows.push(cells);
    }
    for (name, recall) in found.paper {
        let mut cells = vec![format!("  reported: {name}")];
        cells.extend(recall.iter().map(|v| format!("{v:.2}")));
        rows.push(cells);
    }
    format!(
        "{} chunks of the policy ({} flagged) among {} documents, {} queries with {:.1} constraints in scope on average, \
         {:.2} ms a query\n{}",
        found.chunks,
        found.flagged,
        found.distractors,
        found.queries,
        found.in_scope,
        found.milliseconds,
        table(&["in-scope recall", "@5", "@10", "@20", "@50"], &rows)
    )
}
