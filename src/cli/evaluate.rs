//! `aac evaluate`.

mod classifier;
mod compactor;
mod operators;
mod plan;

use super::output::{count, table};
use super::{Context, Exit, Failure};
use crate::job::evaluate::{TagEvaluation, evaluate_tags, read_labels, shipped_labels};
use crate::tag::score::Scores;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct EvaluateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tags against labels of artifacts
    Tags {
        /// Labels, one JSON object a line [default: those that come with aac]
        #[arg(long, value_name = "FILE")]
        gold: Option<PathBuf>,
    },
    /// What TypeCompact and other compactors keep, beside the paper's Tables 5 and 6
    Compaction(operators::CompactionArgs),
    /// Constraints after five rounds of compaction, beside the paper's Figure 3
    Rounds(operators::RoundsArgs),
    /// Constraints where they bind, and what copying them costs, beside the paper's Table 7
    Decomposition(operators::OperatorArgs),
    /// Rules in scope among the first results, beside the paper's Table 8
    Retrieval(operators::RetrievalArgs),
    /// Types of items against labels, beside the paper's Tables 4 and 9
    Classifier(classifier::MoreArgs),
    /// Searches that the planner takes for each it cannot do without, beside the strategies of others, on simulated targets
    Plan(plan::PlanArgs),
    /// Rules in four grammatical forms against hard negatives, beside the paper's Figure 4
    Phrasing(classifier::ClassifierArgs),
}

pub(super) async fn run(context: &Context, args: &EvaluateArgs) -> Result<Exit, Failure> {
    match &args.what {
        What::Tags { gold } => tags(context, gold.as_ref()).await,
        What::Compaction(args) => operators::compaction(context, args).await,
        What::Rounds(args) => operators::rounds(context, args).await,
        What::Decomposition(args) => operators::decomposition(context, args).await,
        What::Retrieval(args) => operators::retrieval(context, args).await,
        What::Classifier(args) => classifier::classifier(context, args).await,
        What::Plan(args) => plan::run(context, args).await,
        What::Phrasing(args) => classifier::phrasing(context, args).await,
    }
}

async fn tags(context: &Context, gold: Option<&PathBuf>) -> Result<Exit, Failure> {
    let labels = match gold {
        Some(file) => read_labels(file)?,
        None => shipped_labels()?,
    };
    let store = context.open().await?;
    let found = evaluate_tags(&store, &labels).await?;
    store.close().await;
    context.output.print(&found, text)?;
    Ok(Exit::Done)
}

fn text(found: &TagEvaluation) -> String {
    let number = |n: usize| count(n as i64);
    let mut out = format!(
        "{} labelled artifacts: {} compared, {} not in the corpus, {} hold another text now, {} not tagged yet\n",
        number(found.labelled),
        number(found.compared),
        number(found.missing),
        number(found.changed),
        number(found.untagged)
    );
    if found.missing > 0 {
        out += "Those not in the corpus are of platforms that a plain `aac ingest` leaves out, or of other repositories: \
                `aac ingest DIR --platform all --lenient` takes in what can be labelled\n";
    }
    for (dimension, scores) in &found.dimensions {
        out += &format!("\n{}", section(dimension, scores));
    }
    out += &format!(
        "\nThe points of specificity were fitted to the {} labels that come with aac; on repositories held out they reach an accuracy of {:.1} %\n",
        found.specificity_fitted.labels,
        100.0 * found.specificity_fitted.held_out_accuracy
    );
    out
}

fn section(dimension: &str, scores: &Scores) -> String {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let rows: Vec<Vec<String>> = scores
        .values
        .iter()
        .map(|v| vec![v.value.clone(), v.support.to_string(), percent(v.precision), percent(v.recall), percent(v.f1)])
        .collect();
    let mut out = table(&[dimension, "labels", "precision", "recall", "F1"], &rows);
    out += &format!(
        "{} artifacts, accuracy {} %, macro-F1 {} % over values with at least {} labels\n",
        count(scores.n as i64),
        percent(scores.accuracy),
        percent(scores.macro_f1),
        scores.min_support
    );
    for ((label, tag), n) in scores.confusion.iter().filter(|((label, tag), _)| label != tag) {
        out += &format!("  {label} taken for {tag}: {n}\n");
    }
    out
}
