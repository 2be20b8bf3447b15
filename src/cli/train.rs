//! `aac train`.

use super::tune::TuneArgs;
use super::{Context, Exit, Failure};
use crate::classify::metrics::Interval;
use crate::config;
use crate::job::encoders::EncoderPlace;
use crate::job::hydrate::TextSource;
use crate::job::train::{Recipe, TrainJob, TrainJobError, TrainSummary, train};
use crate::train::tuned::TunedError;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// Label files: JSONL with `label` and `text`, or `blob` and `line` whose texts are in the corpus
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    gold: Vec<PathBuf>,
    /// Learn from the labels that ship with the program, too, as far as their texts are found
    #[arg(long)]
    mix_shipped: bool,
    /// Git repositories to find texts in, in place of the corpus
    #[arg(long, value_name = "DIR", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Sentence encoder: hashed (none), minilm:DIR or hf:ID
    #[arg(long, value_name = "ENCODER", default_value = "hashed")]
    encoder: String,
    /// Fine-tune the encoder, resumable by epoch; without this its vectors are learned from as they are
    #[arg(long)]
    finetune: bool,
    /// Take mixing and thresholds from the folds that `aac evaluate classifier --finetune` keeps here, running those that
    /// are missing, and learn from all labels; without this a fold is held out for them
    #[arg(long, value_name = "DIR", requires = "finetune")]
    folds_in: Option<PathBuf>,
    #[command(flatten)]
    tune: TuneArgs,
    /// Folder for the model
    #[arg(long, value_name = "DIR", default_value = "model")]
    out: PathBuf,
}

pub(super) async fn run(context: &Context, args: TrainArgs) -> Result<Exit, Failure> {
    let recipe = recipe(&args)?;
    let job = TrainJob { recipe, gold: args.gold, mix_shipped: args.mix_shipped, out: args.out };
    let store = if args.from.is_empty() && context.db.exists() { Some(context.open().await?) } else { None };
    let texts = match &store {
        Some(store) => Some(TextSource::Corpus(store)),
        None if args.from.is_empty() => None,
        None => Some(TextSource::Repositories(args.from)),
    };
    let summary = train(&job, texts.as_ref(), &context.terminal).await;
    drop(texts);
    if let Some(store) = store {
        store.close().await;
    }
    let summary = summary.map_err(|error| match error {
        // Labels that cannot be learned from are the caller's to mend.
        TrainJobError::Train(_) | TrainJobError::Texts(_) | TrainJobError::EncoderFiles(_) => Failure::usage(error),
        TrainJobError::Tuned(TunedError::Labels(_))
        | TrainJobError::Checkpoint { .. }
        | TrainJobError::StaleFold { .. } => Failure::usage(error),
        TrainJobError::Paused { .. } => Failure { exit: Exit::Paused, message: error.to_string() },
        error => error.into(),
    })?;
    context.output.print(&summary, text)?;
    Ok(Exit::Done)
}

fn recipe(args: &TrainArgs) -> Result<Recipe, Failure> {
    if args.encoder == "hashed" {
        if args.finetune {
            return Err(Failure::without_encoder("fine-tune"));
        }
        return Ok(Recipe::Linear);
    }
    let place: EncoderPlace = args.encoder.parse().map_err(Failure::usage)?;
    if !args.finetune {
        return Ok(Recipe::Distilled(place));
    }
    let (options, folds_in) = (Box::new(args.tune.options()), args.folds_in.clone());
    Ok(Recipe::Finetuned { encoder: place, options, folds_in })
}

fn text(summary: &TrainSummary) -> String {
    let types: Vec<String> = summary.types.iter().map(|(t, n)| format!("{n} {t}")).collect();
    let mut out = format!("{} own items ({})", summary.own, types.join(", "));
    if summary.shipped > 0 {
        out += &format!("\nand {} shipped ones", summary.shipped);
    }
    out += &format!(", fitted and scored in {:.0} s\n\n", summary.seconds);
    let line = |name: &str, i: Interval| format!("  {name:<42} {:.3}  ({:.3} to {:.3})\n", i.value, i.low, i.high);
    let figures = &summary.held_out;
    out += &format!("Held out, {} items, whole repositories apart:\n", figures.items);
    out += &line("accuracy, six types", figures.accuracy);
    out += &line("macro-F1 without episodic", figures.macro_f1);
    out += &line("constraint F1", figures.constraint_f1);
    out += &line("constraint recall at the safe point", figures.safe_recall);
    out += &line("items flagged at the safe point", figures.safe_flagged);
    if let Some(c) = &summary.comparison {
        out += &format!(
            "\n{} the shipped model on these items: accuracy {:.3} against {:.3},\nconstraint F1 {:.3} against {:.3}; \
             only this right {}, only the shipped {}, p = {:.3}\n",
            if c.better { "Beats" } else { "Does not beat" },
            c.accuracy[0],
            c.accuracy[1],
            c.constraint_f1[0],
            c.constraint_f1[1],
            c.only[0],
            c.only[1],
            c.p_value
        );
    }
    if summary.own_in_shipped > 0 {
        out +=
            &format!("The shipped model was fitted on {} of them: the comparison favours it\n", summary.own_in_shipped);
    }
    out += &format!("\nModel {} in {}\n", summary.model, summary.out.display());
    out += &format!("Use it: aac classify --model {} FILE", summary.out.display());
    if let Some(folder) = config::model_folder() {
        out += &format!("\nAlways: move it to {}", folder.display());
    }
    out
}
