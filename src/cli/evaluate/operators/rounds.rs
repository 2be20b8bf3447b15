//! `aac evaluate rounds`.

use super::{Basis, OperatorArgs, Tables, figure, table};
use crate::cli::evaluate::compactor::{self, CompactorArgs};
use crate::cli::{Context, Exit, Failure};
use crate::job::evaluate::compactor::LlmRounds;
use crate::job::evaluate::figure::{Series, shares_over_rounds};
use crate::job::retrieve::write_aside;
use crate::triage::{Baseline, Round, rounds_table};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// The paper's Figure 3: recall of `/compact` after the first and the fifth round, and of TypeCompact from the second.
const PAPER_ROUNDS: &str =
    "The paper: /compact 0.53 after one round and 0.10 after five; TypeCompact 0.96 from the second";

/// The same as points of its figure, as far as its text gives numbers.
const PAPER_LINES: [(&str, &[(f64, f64)]); 2] = [
    ("reported: TypeCompact", &[(1.0, 1.0), (2.0, 0.96), (3.0, 0.96), (4.0, 0.96), (5.0, 0.96)]),
    ("reported: /compact, Sonnet 4.6", &[(1.0, 0.53), (5.0, 0.10)]),
];

#[derive(Debug, Args)]
pub(in crate::cli) struct RoundsArgs {
    #[command(flatten)]
    common: OperatorArgs,
    /// Draw the rounds into this SVG file, as in the paper's Figure 3
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    compactor: CompactorArgs,
}

/// Rounds of Figure 3, and percent of what is there that each compacts to.
const ROUNDS: (usize, f64) = (5, 50.0);

/// Figure 3, and a language model's, where one was asked.
#[derive(Debug, Serialize)]
struct Rounds {
    #[serde(flatten)]
    found: Tables<Vec<Round>>,
    by_model: Option<LlmRounds>,
}

pub(in crate::cli) async fn rounds(context: &Context, args: &RoundsArgs) -> Result<Exit, Failure> {
    let model = args.compactor.compactor(context)?;
    let judged = args.common.judged(context)?;
    let (count, ratio) = ROUNDS;
    let by_model = match &model {
        Some(model) => {
            let found = model.rounds(&judged.bases, count, ratio, &context.terminal).await;
            Some(found.map_err(Failure::of_model)?)
        }
        None => None,
    };
    let found = Tables { tables: rounds_table(&judged.bases, count, ratio), basis: Basis::of(&judged) };
    if let Some(path) = &args.figure {
        write_aside(path, rounds_figure(&found, by_model.as_ref()).as_bytes())?;
    }
    context.output.print(&Rounds { found, by_model }, |rounds| {
        rounds_text(&rounds.found) + &compactor::rounds_text(rounds.by_model.as_ref())
    })?;
    Ok(Exit::Done)
}

/// Figure 3: ours and the baselines by round, beside what the paper reports.
fn rounds_figure(found: &Tables<Vec<Round>>, by_model: Option<&LlmRounds>) -> String {
    let line = |name: &str, of: &dyn Fn(&Round) -> Option<f64>| Series {
        name: name.to_owned(),
        points: found.tables.iter().filter_map(|round| Some((round.round as f64, of(round)?))).collect(),
        reported: false,
    };
    let mut series = vec![line("TypeCompact", &|round| round.recall)];
    for (at, baseline) in Baseline::ALL.iter().enumerate() {
        series.push(line(baseline.as_str(), &|round| round.baselines.get(at).copied().flatten()));
    }
    if let Some(model) = by_model {
        let points = model.recall.iter().enumerate().map(|(at, recall)| ((at + 1) as f64, *recall)).collect();
        series.push(Series { name: model.strategy.clone(), points, reported: false });
    }
    for (name, points) in PAPER_LINES {
        series.push(Series { name: name.to_owned(), points: points.to_vec(), reported: true });
    }
    let title = format!("Flagged constraints left, {} configurations, 50 % a round", found.basis.configurations);
    shares_over_rounds(&title, "round of compaction", &series)
}

fn rounds_text(found: &Tables<Vec<Round>>) -> String {
    let mut columns = vec!["round", "compacted", "TypeCompact"];
    columns.extend(Baseline::ALL.iter().map(|baseline| baseline.as_str()));
    let rows: Vec<Vec<String>> = found
        .tables
        .iter()
        .map(|round| {
            let mut cells = vec![round.round.to_string(), round.compacted.to_string(), figure(round.recall)];
            cells.extend(round.baselines.iter().map(|v| figure(*v)));
            cells
        })
        .collect();
    found.basis.text() + &table(&columns, &rows) + PAPER_ROUNDS
}
