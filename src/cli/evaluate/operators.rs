//! The tables of the operators on configurations of the corpus: `aac evaluate compaction|rounds|decomposition`.

use super::super::knowledge::{ReadArgs, read_base, read_markdown};
use super::super::output::table;
use super::super::{Context, Exit, Failure};
use crate::triage::{
    Base, Baseline, COLUMNS, CompactionTable, DecompositionRow, Round, compaction_table, decomposition_table,
    paper_compaction, rounds_table,
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// The paper's Figure 3: recall of `/compact` after the first and the fifth round, and of TypeCompact from the second.
const PAPER_ROUNDS: &str =
    "The paper: /compact 0.53 after one round and 0.10 after five; TypeCompact 0.96 from the second";

#[derive(Debug, Args)]
pub(in crate::cli) struct OperatorArgs {
    /// Configurations: agent files, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    configurations: Vec<PathBuf>,
    /// How many configurations, drawn evenly over the sorted list [default: all]
    #[arg(long, value_name = "N")]
    take: Option<usize>,
    #[command(flatten)]
    read: ReadArgs,
}

impl OperatorArgs {
    /// The configurations as bases judged by the shipped classifier at the safe point.
    fn bases(&self) -> Result<Vec<Base>, Failure> {
        let mut files = Vec::new();
        for path in &self.configurations {
            if path.is_dir() {
                let failed = |e: std::io::Error| Failure::failed(format!("Failed to list {}: {e}", path.display()));
                for entry in std::fs::read_dir(path).map_err(failed)? {
                    let entry = entry.map_err(failed)?.path();
                    if entry.is_file() {
                        files.push(entry);
                    }
                }
            } else {
                files.push(path.clone());
            }
        }
        files.sort();
        let take = self.take.unwrap_or(files.len()).clamp(1, files.len().max(1));
        let chosen = (0..take.min(files.len())).map(|n| &files[n * files.len() / take]);
        chosen.map(|file| read_markdown(file, &self.read).or_else(|_| read_base(file, &self.read))).collect()
    }
}

#[derive(Debug, Serialize)]
struct Tables<T: Serialize> {
    configurations: usize,
    items: usize,
    flagged: usize,
    labels: &'static str,
    tables: Vec<T>,
}

fn tables<T: Serialize>(bases: &[Base], tables: Vec<T>) -> Tables<T> {
    Tables {
        configurations: bases.len(),
        items: bases.iter().map(|base| base.items().len()).sum(),
        flagged: bases.iter().map(|base| base.items().iter().filter(|item| item.pinned()).count()).sum(),
        labels: "shipped classifier, safe point",
        tables,
    }
}

fn head<T: Serialize>(found: &Tables<T>) -> String {
    format!(
        "{} configurations, {} items, {} flagged as constraints ({})\n",
        found.configurations, found.items, found.flagged, found.labels
    )
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}

pub(in crate::cli) async fn compaction(context: &Context, args: &OperatorArgs) -> Result<Exit, Failure> {
    let bases = args.bases()?;
    let found = tables(&bases, [50.0, 25.0, 10.0].map(|ratio| compaction_table(&bases, ratio)).to_vec());
    context.output.print(&found, |found| {
        head(found) + &found.tables.iter().map(compaction_text).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

fn compaction_text(found: &CompactionTable) -> String {
    let mut columns = vec!["strategy"];
    columns.extend(COLUMNS.iter().map(|t| t.as_str()));
    columns.extend(["all", "verbatim", "qualified"]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let paper = paper_compaction(found.ratio);
    for row in &found.rows {
        let mut cells = vec![row.strategy.to_owned()];
        cells.extend(row.by_type.iter().chain([&row.all, &row.verbatim, &row.qualified]).map(|v| figure(*v)));
        rows.push(cells);
        if let Some((_, values)) = paper.iter().find(|(name, _)| *name == row.strategy) {
            let mut cells = vec!["  reported".to_owned()];
            cells.extend(values.iter().map(|v| figure(*v)));
            rows.push(cells);
        }
    }
    format!(
        "\n{} %: {} of {} answered Safe ({} fit); recall of Safe answers {}; best-effort recall over all {}; {} over budget\n{}",
        found.ratio,
        found.answered,
        found.configurations,
        found.fitting,
        figure(found.recall_of_answered),
        figure(found.rows.first().and_then(|row| row.verbatim)),
        found.over_budget,
        table(&columns, &rows),
    )
}

pub(in crate::cli) async fn rounds(context: &Context, args: &OperatorArgs) -> Result<Exit, Failure> {
    let bases = args.bases()?;
    let found = tables(&bases, rounds_table(&bases, 5, 50.0));
    context.output.print(&found, rounds_text)?;
    Ok(Exit::Done)
}

fn rounds_text(found: &Tables<Round>) -> String {
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
    head(found) + &table(&columns, &rows) + PAPER_ROUNDS
}

pub(in crate::cli) async fn decomposition(context: &Context, args: &OperatorArgs) -> Result<Exit, Failure> {
    let bases = args.bases()?;
    let found = tables(&bases, decomposition_table(&bases, 25.0));
    context.output.print(&found, decomposition_text)?;
    Ok(Exit::Done)
}

fn decomposition_text(found: &Tables<DecompositionRow>) -> String {
    let reported = |name: &str| match name {
        "TypeDecompose" => ["0.00", "0.00", "0.145", "0.00", "0.21", "2.19"],
        "chunk_by_topic" => ["0.13", "0.40", "0", "", "", ""],
        _ => ["0.32", "0.93", "0", "", "", ""],
    };
    let columns = ["strategy", "done", "refused", "violating", "configs violating", "overhead", "median", "p90", "max"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &found.tables {
        let mut cells = vec![row.strategy.to_owned(), row.configurations.to_string(), row.refused.to_string()];
        cells.extend([row.violating, row.configurations_violating].into_iter().chain(row.overhead).map(figure));
        rows.push(cells);
        let mut cells = vec!["  reported".to_owned(), "200".to_owned(), String::new()];
        cells.extend(reported(row.strategy).map(str::to_owned));
        rows.push(cells);
    }
    head(found) + &table(&columns, &rows)
}
