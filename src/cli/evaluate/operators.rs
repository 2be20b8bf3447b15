//! The tables of the operators on configurations of the corpus: `aac evaluate compaction|rounds|decomposition|retrieval`.

mod retrieval;
mod rounds;

use super::super::knowledge::{ReadArgs, Reader, read_text};
use super::super::output::table;
use super::super::{Context, Exit, Failure};
use super::compactor::{self, ByModel, CompactorArgs};
use crate::classify::Policy;
use crate::classify::rules::RegexRules;
use crate::job::evaluate::bridge::{Bridge, BridgeError, outputs};
use crate::job::evaluate::configurations::{AnnotatorLabels, Configuration, configurations};
use crate::job::model::ModelName;
use crate::taxonomy::OperatingPoint;
use crate::terminal::say;
use crate::triage::policies::{PolicyTable, policy_table};
use crate::triage::{
    Ablations, Base, COLUMNS, CompactionTable, DecompositionRow, Labels, Outputs, Scaling, VerifierAblation, ablations,
    compaction_table, decomposition_table, paper_compaction, scaling,
};
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub(in crate::cli) use retrieval::{RetrievalArgs, retrieval};
pub(in crate::cli) use rounds::{RoundsArgs, rounds};

/// Percent of the input that the tables compact to.
const RATIOS: [f64; 3] = [50.0, 25.0, 10.0];

/// Items of the scaling test, as in the paper, and results a query.
const SCALING: (usize, usize) = (3_000, 5);

/// The paper's ablations, as far as its text gives numbers.
const PAPER_ABLATIONS: &str = "\
The paper: LLMLingua-2 0.55 / 0.18 / 0.02, with constraints put back by patterns 0.83 / 0.65 / 0.60; the verifier
restored 0.46 a call; at the boundary 28 % were refused, 1.00 of the rest kept, and without the verifier 57 % lost";

#[derive(Debug, Args)]
pub(in crate::cli) struct OperatorArgs {
    /// Agent files, folders of them, or git repositories (of each the largest agent file counts)
    #[arg(required = true, value_name = "FILE|DIR")]
    configurations: Vec<PathBuf>,
    /// How many configurations, drawn evenly over the sorted list; where there are fewer repositories, their next largest
    /// agent files too [default: one of each]
    #[arg(long, value_name = "N")]
    take: Option<usize>,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompactionArgs {
    #[command(flatten)]
    common: OperatorArgs,
    /// Leave the three ablations out
    #[arg(long)]
    no_ablations: bool,
    /// Measure another compressor beside the others: a program that reads and writes lines of JSON, such as "python3
    /// examples/llmlingua2.py --model DIR" for LLMLingua-2
    #[arg(long, value_name = "COMMAND")]
    compressor: Option<String>,
    /// Folder with retail-policy.md and airline-policy.md of τ-bench, to compact them beside the paper's figures
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    #[command(flatten)]
    compactor: CompactorArgs,
}

/// Configurations, judged.
struct Judged {
    bases: Vec<Base>,
    model: ModelName,
    refused: usize,
}

impl OperatorArgs {
    fn found(&self) -> Result<Vec<Configuration>, Failure> {
        configurations(&self.configurations, self.take).map_err(Failure::usage)
    }

    fn judged(&self, context: &Context) -> Result<Judged, Failure> {
        let reader = self.read.reader(context)?;
        let found = self.found()?;
        let read = |c: &Configuration| reader.judge(&c.path, &c.text);
        let all: Vec<Base> = found.par_iter().map(read).collect();
        let count = all.len();
        // A settings file cannot be rewritten, and a file without items has nothing to lose.
        let bases: Vec<Base> = all.into_iter().filter(|base| !base.is_settings() && !base.items().is_empty()).collect();
        Ok(Judged { refused: count - bases.len(), model: reader.model(), bases })
    }
}

/// What tables were computed on.
#[derive(Debug, Serialize)]
struct Basis {
    configurations: usize,
    left_out: usize,
    items: usize,
    flagged: usize,
    tokens: usize,
    flagged_tokens: usize,
    model: ModelName,
}

impl Basis {
    fn of(judged: &Judged) -> Self {
        let items = || judged.bases.iter().flat_map(|base| base.items().iter().map(move |item| (base, item)));
        let flagged = || items().filter(|(_, item)| item.pinned());
        Self {
            configurations: judged.bases.len(),
            left_out: judged.refused,
            items: items().count(),
            flagged: flagged().count(),
            tokens: judged.bases.iter().map(Base::tokens).sum(),
            flagged_tokens: flagged().map(|(base, item)| base.tokenizer().count(base.text_of(item))).sum(),
            model: judged.model.clone(),
        }
    }

    fn text(&self) -> String {
        format!(
            "{} configurations ({} left out), {} items, {} flagged as constraints by {} at the safe point: {:.0} % of \
             all tokens\n",
            self.configurations,
            self.left_out,
            self.items,
            self.flagged,
            self.model,
            100.0 * self.flagged_tokens as f64 / self.tokens.max(1) as f64
        )
    }
}

#[derive(Debug, Serialize)]
struct Tables<T: Serialize> {
    #[serde(flatten)]
    basis: Basis,
    tables: T,
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}

fn three(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}

#[derive(Debug, Serialize)]
struct Compaction {
    ratios: Vec<CompactionTable>,
    labelled_items: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ablations: Option<Ablations>,
    policies: Vec<PolicyTable>,
    /// A language model, where one was asked.
    by_model: Option<ByModel>,
}

pub(in crate::cli) async fn compaction(context: &Context, args: &CompactionArgs) -> Result<Exit, Failure> {
    let model = args.compactor.compactor(context)?;
    let judged = args.common.judged(context)?;
    let bases = &judged.bases;
    let annotators = AnnotatorLabels::shipped()?;
    let labels: Vec<Labels> = bases.par_iter().map(|base| annotators.of(base)).collect();
    let labelled_items = labels.iter().flatten().flatten().count();
    let labels = if labelled_items > 0 { labels } else { Vec::new() };
    let mut others = RATIOS.map(|ratio| (ratio, Vec::new()));
    if let Some(command) = &args.compressor {
        compressed(command, bases, &mut others)?;
    }
    let by_model = match &model {
        Some(model) => Some(ByModel::of(model, context, bases, &mut others).await?),
        None => None,
    };
    let tables = Compaction {
        ratios: others.iter().map(|(ratio, others)| compaction_table(bases, &labels, *ratio, others)).collect(),
        labelled_items,
        ablations: (!args.no_ablations).then(|| ablations(bases, &by_patterns(bases), &RATIOS)),
        policies: match &args.policies {
            Some(folder) => policies(&args.common.read.reader(context)?, folder)?,
            None => Vec::new(),
        },
        by_model,
    };
    let found = Tables { basis: Basis::of(&judged), tables };
    context.output.print(&found, |found| {
        let tables = &found.tables;
        let mut out = found.basis.text();
        out += &tables.ratios.iter().map(compaction_text).collect::<Vec<_>>().join("\n");
        out += &compactor::compaction_text(tables.by_model.as_ref());
        if tables.labelled_items > 0 {
            out += &format!(
                "\nBy the labels of annotators on {} of the items, pooled (the model compiled in was fitted on these \
                 labels)\n{}",
                tables.labelled_items,
                labelled_text(&tables.ratios)
            );
        }
        if let Some(ablations) = &tables.ablations {
            out += &ablations_text(ablations);
        }
        out + &tables.policies.iter().map(policy_text).collect::<String>()
    })?;
    Ok(Exit::Done)
}

/// What another compressor makes of the texts, by ratio, added to `others`.
fn compressed(command: &str, bases: &[Base], others: &mut [(f64, Vec<Outputs>)]) -> Result<(), Failure> {
    let mut bridge = Bridge::start(command).map_err(Failure::usage)?;
    for (ratio, others) in others {
        let refused = |base: &Base, error: &BridgeError| say(&format!("{} at {ratio} %: {error}", base.path()));
        others.push(outputs(&mut bridge, bases, *ratio, refused)?);
    }
    Ok(())
}

/// The same texts, judged by patterns alone.
fn by_patterns(bases: &[Base]) -> Vec<Base> {
    let policy = Policy::at(OperatingPoint::Safe);
    let judge = |base: &Base| Base::classify(base.path(), base.text(), base.tokenizer(), &RegexRules, &policy);
    bases.par_iter().map(judge).collect()
}

fn policies(reader: &Reader, folder: &Path) -> Result<Vec<PolicyTable>, Failure> {
    ["retail-policy.md", "airline-policy.md"]
        .into_iter()
        .map(|name| {
            let path = folder.join(name);
            let base = reader.judge(name, &read_text(&path)?);
            policy_table(name, &base).ok_or_else(|| {
                Failure::usage(format!(
                    "Failed to compare {}: it is another text than the one whose constraints were picked out by hand",
                    path.display()
                ))
            })
        })
        .collect()
}

fn compaction_text(found: &CompactionTable) -> String {
    let mut columns = vec!["strategy"];
    columns.extend(COLUMNS.iter().map(|t| t.as_str()));
    columns.extend(["all", "verbatim", "qualified"]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let paper = paper_compaction(found.ratio);
    for row in &found.rows {
        let mut cells = vec![row.strategy.clone()];
        if row.over_budget + row.failed > 0 {
            cells[0] += &format!(" ({} over budget, {} without answer)", row.over_budget, row.failed);
        }
        cells.extend(row.by_type.iter().chain([&row.all, &row.verbatim, &row.qualified]).map(|v| figure(*v)));
        rows.push(cells);
        if let Some((_, values)) = paper.iter().find(|(name, _)| *name == row.strategy) {
            let mut cells = vec!["  reported".to_owned()];
            cells.extend(values.iter().map(|v| figure(*v)));
            rows.push(cells);
        }
    }
    format!(
        "\n{} %: {} of {} answered Safe ({} fit); recall of Safe answers {}; best-effort recall over all {} word for \
         word, {} by key tokens; no output could hold more than {} word for word; {} over budget\n{}",
        found.ratio,
        found.answered,
        found.configurations,
        found.fitting,
        three(found.recall_of_answered),
        three(found.rows.first().and_then(|row| row.verbatim)),
        three(found.rows.first().and_then(|row| row.by_type[0])),
        three(found.possible),
        found.over_budget,
        table(&columns, &rows),
    )
}

fn labelled_text(found: &[CompactionTable]) -> String {
    let mut columns = vec!["strategy"];
    columns.extend(COLUMNS.iter().map(|t| t.as_str()));
    columns.extend(["verbatim", "possible"]);
    let mut rows = Vec::new();
    for ratio in found {
        for row in &ratio.rows {
            let Some(labelled) = &row.labelled else { continue };
            let mut cells = vec![format!("{} % {}", ratio.ratio, row.strategy)];
            cells.extend(labelled.by_type.iter().map(|share| figure(share.rate())));
            cells.push(figure(labelled.verbatim.rate()));
            cells.push(if row.strategy == "TypeCompact" { figure(ratio.possible_labelled) } else { String::new() });
            rows.push(cells);
        }
    }
    table(&columns, &rows)
}

fn ablations_text(found: &Ablations) -> String {
    let rows: Vec<Vec<String>> = found
        .labels
        .iter()
        .map(|row| vec![format!("{} %", row.ratio), figure(row.blind), figure(row.patterns), figure(row.labels)])
        .collect();
    let mut out = String::from("\nWithout labels at indexing time: recall of flagged constraints\n");
    out += &table(&["ratio", "type-blind", "patterns afterwards", "labels"], &rows);
    let line = |name: String, row: &VerifierAblation| {
        vec![
            name,
            row.configurations.to_string(),
            figure(Some(row.refused)),
            figure(row.recall_of_answered),
            figure(row.restored),
            figure(Some(row.silent)),
            figure(row.silently_lost),
        ]
    };
    let mut rows: Vec<Vec<String>> = found.verifier.iter().map(|row| line(format!("{} %", row.ratio), row)).collect();
    rows.push(line("50 %, dense".to_owned(), &found.boundary));
    out += "\nWithout the verifier: what would be lost in silence\n";
    out += &table(
        &["ratio", "configs", "refused", "recall of answered", "restored", "silent without", "lost without"],
        &rows,
    );
    out + PAPER_ABLATIONS + "\n"
}

fn policy_text(found: &PolicyTable) -> String {
    let rows: Vec<Vec<String>> = found
        .rows
        .iter()
        .map(|row| {
            vec![
                format!("{} %", row.ratio),
                row.budget.to_string(),
                if row.safe { "safe" } else { "unsafe" }.to_owned(),
                row.tokens_out.to_string(),
                figure(Some(row.recall)),
                figure(Some(row.hierarchical)),
            ]
        })
        .collect();
    format!(
        "\n{}: {} tokens, {} constraints by hand of which {} are flagged, {} flagged in all, {} procedures; constraints \
         need {}, with procedures {}\n{}The paper: TypeCompact {} tokens, hierarchical truncation {}{}\n",
        found.name,
        found.tokens,
        found.constraints,
        found.flagged,
        found.pinned,
        found.procedures,
        found.min_safe_budget,
        found.min_full_budget,
        table(&["ratio", "budget", "answer", "tokens", "recall by hand", "hierarchical"], &rows),
        found.paper.type_compact,
        found.paper.hierarchical,
        found.paper.full.map_or_else(String::new, |full| format!(", of {full}")),
    )
}

#[derive(Debug, Serialize)]
struct Decompositions {
    strategies: Vec<DecompositionRow>,
    scaling: Option<Scaling>,
}

pub(in crate::cli) async fn decomposition(context: &Context, args: &OperatorArgs) -> Result<Exit, Failure> {
    let judged = args.judged(context)?;
    let tables = Decompositions {
        strategies: decomposition_table(&judged.bases, 25.0),
        scaling: scaling_of(&judged.bases, SCALING.0, SCALING.1),
    };
    let found = Tables { tables, basis: Basis::of(&judged) };
    context.output.print(&found, decomposition_text)?;
    Ok(Exit::Done)
}

/// The scaling test on distinct items drawn evenly over all configurations; nothing when there are too few.
fn scaling_of(bases: &[Base], count: usize, k: usize) -> Option<Scaling> {
    let mut seen = HashSet::new();
    let items: Vec<&str> = bases
        .iter()
        .flat_map(|base| base.items().iter().map(|item| base.text_of(item)))
        .filter(|text| text.split_whitespace().nth(5).is_some() && seen.insert(*text))
        .collect();
    if items.len() < count {
        return None;
    }
    let drawn: Vec<&str> = (0..count).map(|n| items[n * items.len() / count]).collect();
    Some(scaling(&drawn, crate::triage::SPLIT_ABOVE, k))
}

fn decomposition_text(found: &Tables<Decompositions>) -> String {
    let reported = |name: &str| match name {
        "TypeDecompose" => ["0.00", "0.00", "0.145", "0.00", "0.21", "2.19"],
        "chunk_by_topic" => ["0.13", "0.40", "0", "", "", ""],
        _ => ["0.32", "0.93", "0", "", "", ""],
    };
    let columns = ["strategy", "done", "refused", "violating", "configs violating", "overhead", "median", "p90", "max"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &found.tables.strategies {
        let mut cells = vec![row.strategy.to_owned(), row.configurations.to_string(), row.refused.to_string()];
        cells.extend([row.violating, row.configurations_violating].into_iter().chain(row.overhead).map(three));
        rows.push(cells);
        let mut cells = vec!["  reported".to_owned(), "200".to_owned(), String::new()];
        cells.extend(reported(row.strategy).map(str::to_owned));
        rows.push(cells);
    }
    found.basis.text() + &table(&columns, &rows) + &found.tables.scaling.as_ref().map_or_else(String::new, scaling_text)
}

fn scaling_text(found: &Scaling) -> String {
    let mut rows = vec![vec!["all".to_owned(), format!("{:.3}", found.flat_recall), found.items.to_string()]];
    for opened in &found.opened {
        let name = format!("{} of {} leaves", opened.leaves, found.leaves);
        rows.push(vec![name, format!("{:.3}", opened.recall), format!("{:.0}", opened.items_read)]);
    }
    format!(
        "\nOne topic of {} items in {} leaves of {:.0} on average, {} queries that hold every other key word of an \
         item\n{}The paper: 29 leaves of 103; 0.94 of 0.98 reading 92 items\n",
        found.items,
        found.leaves,
        found.mean_leaf,
        found.queries,
        table(&["read", &format!("recall at {}", found.k), "items read"], &rows)
    )
}
