//! Refit a model on labels — the linear tier, a distilled encoder or a fine-tuned one —, say whether that was worth it,
//! and write the model with its card.

use super::encoders::{EncoderFileError, EncoderPlace};
use super::evaluate::folds::{self, FoldsJob};
use super::file::replace;
use super::finetune::{CHECKPOINT, FinetuneReport, finetune};
use super::hydrate::{HydrateError, HydrateSummary, TextSource, hydrate, read_labels, shipped_labels};
use super::model::{DESCRIPTION, LINEAR, ModelName, TENSORS, TOKENIZER, read_model};
use crate::classify::linear::shipped;
use crate::classify::metrics::Interval;
use crate::classify::{Thresholds, embedded, tuned};
use crate::corpus::Sha256;
use crate::encoder::EncoderError;
use crate::monitor::Monitor;
use crate::segment::flatten;
use crate::taxonomy::KnowledgeType;
use crate::train::distilled::fit_distilled;
use crate::train::evaluate::{Evaluation, evaluate};
use crate::train::finetune::CheckpointError;
use crate::train::fit::{Comparison, HeldOut, TrainError, TrainOptions, compare, fit, mix};
use crate::train::labels::{Example, LabelRecord, Role};
use crate::train::tuned::{TunedError, TunedOptions};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File of a model that tells people what it is.
const CARD: &str = "README.md";

/// What kind of model to train.
#[derive(Debug, Clone, PartialEq)]
pub enum Recipe {
    /// The linear tier, without an encoder.
    Linear,
    /// Logistic regression on the vectors of an encoder as it comes.
    Distilled(EncoderPlace),
    /// An encoder fine-tuned, with the linear tier before it.
    Finetuned {
        /// The encoder to begin with.
        encoder: EncoderPlace,
        /// How.
        options: Box<TunedOptions>,
        /// Folder of the folds' answers ([`FoldsJob`]): mixing and thresholds come from them, missing ones are run, and the
        /// model learns from all labels. Without it the model holds a fold out.
        folds_in: Option<PathBuf>,
    },
}

/// What to train on and where to put the model.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainJob {
    /// What kind of model.
    pub recipe: Recipe,
    /// Label files of the owner.
    pub gold: Vec<PathBuf>,
    /// Whether the shipped labels whose texts can be found join the training.
    pub mix_shipped: bool,
    /// Folder for the model.
    pub out: PathBuf,
}

/// Why no model was written.
#[derive(Debug, thiserror::Error)]
pub enum TrainJobError {
    /// Labels or texts cannot be read.
    #[error(transparent)]
    Texts(#[from] HydrateError),
    /// The labels are too few or too one-sided.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The model cannot be written.
    #[error("Failed to write {path}: {source}", path = .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The description cannot be put into JSON.
    #[error("Failed to describe the model: {0}")]
    Describe(#[from] serde_json::Error),
    /// The encoder cannot be read.
    #[error(transparent)]
    EncoderFiles(#[from] EncoderFileError),
    /// The encoder cannot be used.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The labels cannot be put to the encoder.
    #[error(transparent)]
    Tuned(#[from] TunedError),
    /// What an earlier run left cannot be continued.
    #[error("{source} ({path})", path = .path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        source: CheckpointError,
    },
    /// A fold's file does not belong to these labels.
    #[error(
        "Failed to go on with the folds: {path} was made with other labels, another encoder or other options; remove it, or name another folder with --folds-in",
        path = .path.display()
    )]
    StaleFold {
        /// The file.
        path: PathBuf,
    },
    /// The model that was written cannot be read.
    #[error("Failed to check the model that was written: {0}")]
    Written(String),
    /// Asked to stop.
    #[error("Paused after epoch {epochs} of {of}; the same command goes on from {checkpoint}", checkpoint = .checkpoint.display())]
    Paused {
        /// Whole epochs done.
        epochs: usize,
        /// Epochs to do.
        of: usize,
        /// Where it stands.
        checkpoint: PathBuf,
    },
    /// The worker thread died.
    #[error("Failed to train: the worker ended early: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

impl TrainJobError {
    /// What the system said of the file or folder at `path`.
    pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}

/// What was trained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSummary {
    /// The new model.
    pub model: ModelName,
    /// Its thresholds.
    pub thresholds: Thresholds,
    /// Folder of the model.
    pub out: PathBuf,
    /// Files written.
    pub files: Vec<PathBuf>,
    /// Labelled items of the owner that were learned from.
    pub own: usize,
    /// Of these, items that the shipped model was fitted on: a comparison on them favours it.
    pub own_in_shipped: usize,
    /// The owner's items by type.
    pub types: BTreeMap<KnowledgeType, usize>,
    /// The owner's labels without a text, left out.
    pub without_text: usize,
    /// The owner's records without a label, left out.
    pub unlabelled: usize,
    /// Shipped labels that joined.
    pub shipped: usize,
    /// Shipped labels whose texts were not found.
    pub shipped_missing: usize,
    /// Held-out figures: nested cross-validation by repository on the owner's items.
    pub held_out: HeldOutFigures,
    /// Against the shipped model on the same held-out items.
    pub comparison: Option<Comparison>,
    /// The refit is the more accurate one and no worse at constraints.
    pub beats_shipped: bool,
    /// How a fine-tuning went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finetuning: Option<FinetuneReport>,
    /// How long fitting and scoring took.
    pub seconds: f64,
}

/// The figures of a card.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOutFigures {
    /// Items answered.
    pub items: usize,
    /// Share of types right.
    pub accuracy: Interval,
    /// Mean F1 without episodic.
    pub macro_f1: Interval,
    /// F1 of constraints, balanced point.
    pub constraint_f1: Interval,
    /// Recall of constraints, safe point.
    pub safe_recall: Interval,
    /// Share of items flagged, safe point.
    pub safe_flagged: Interval,
    /// Expected calibration error of the likeliest type.
    pub calibration_error: f64,
}

impl From<&Evaluation> for HeldOutFigures {
    fn from(e: &Evaluation) -> Self {
        Self {
            items: e.items,
            accuracy: e.accuracy,
            macro_f1: e.macro_f1,
            constraint_f1: e.constraint_f1,
            safe_recall: e.safe_recall,
            safe_flagged: e.safe_flagged,
            calibration_error: e.calibration_error,
        }
    }
}

/// The hash by which a text is known in the shipped labels.
pub(super) fn label_hash(text: &str) -> Sha256 {
    Sha256::of(flatten(text).as_bytes())
}

/// The hashes of all items that the shipped model was fitted on.
pub(super) fn shipped_hashes(shipped: &[LabelRecord]) -> HashSet<Sha256> {
    shipped.iter().filter_map(|r| r.text_sha256.or_else(|| r.text.as_deref().map(label_hash))).collect()
}

/// Whether the shipped model was fitted on this text.
pub(super) fn was_shipped(text: &str, hashes: &HashSet<Sha256>) -> bool {
    hashes.contains(&label_hash(text)) || hashes.contains(&Sha256::of(text.as_bytes()))
}

/// The examples among records, and how many of them lacked a label and a text.
pub(super) fn examples_of(records: &[LabelRecord]) -> (Vec<Example>, usize, usize) {
    let labelled: Vec<Example> = records.iter().filter_map(LabelRecord::as_given).collect();
    let unlabelled = records.len() - labelled.len();
    let found = labelled.len();
    let examples: Vec<Example> = labelled.into_iter().filter(|e| !e.text.trim().is_empty()).collect();
    let without_text = found - examples.len();
    (examples, unlabelled, without_text)
}

/// Train on the labels of `job`; `texts` is where labels without texts find them.
pub async fn train(
    job: &TrainJob,
    texts: Option<&TextSource<'_>>,
    monitor: &dyn Monitor,
) -> Result<TrainSummary, TrainJobError> {
    let begun = std::time::Instant::now();
    let own = find_texts(read_labels(&job.gold)?, texts, monitor).await?;
    let (own, unlabelled, without_text) = examples_of(&own);
    if without_text > 0 {
        monitor.warn(&format!("{without_text} labels have no text and are left out; `aac gold hydrate` tells why"));
    }
    let all_shipped = shipped_labels().map_err(HydrateError::from)?;
    let hashes = shipped_hashes(&all_shipped);
    let own_in_shipped = own.iter().filter(|e| was_shipped(&e.text, &hashes)).count();
    let mut types = BTreeMap::new();
    for example in own.iter().filter(|e| e.role == Role::Gold) {
        *types.entry(example.label).or_insert(0) += 1;
    }
    let (mut joined, mut shipped_missing) = (Vec::new(), 0);
    if job.mix_shipped {
        let records = find_texts(all_shipped, texts, monitor).await?;
        (joined, _, shipped_missing) = examples_of(&records);
        if shipped_missing > 0 {
            monitor.warn(&format!(
                "{shipped_missing} shipped labels do not join, since their texts are not here; name their repositories with --from or --db"
            ));
        }
        // What the owner labelled anew counts as the owner says.
        let mine: HashSet<Sha256> = own.iter().map(|e| label_hash(&e.text)).collect();
        joined.retain(|e| !mine.contains(&label_hash(&e.text)));
    }
    let (own_count, shipped_count) = (own.len(), joined.len());
    let examples = Arc::new(mix(own, joined));
    let fitted = run(job, examples.clone(), monitor).await?;
    let work = examples.clone();
    let held_out = fitted.held_out;
    let (figures, comparison) = tokio::task::spawn_blocking(move || {
        let figures = evaluate(&work, &held_out, |path| path.to_owned());
        (figures, compare(&work, &held_out, shipped()))
    })
    .await?;
    let files = write(&fitted.files, &job.out)?;
    let encoder = match &job.recipe {
        Recipe::Distilled(place) => Some(place),
        _ => None,
    };
    // What was written is read as every later command will read it.
    let (model, _) = read_model(&job.out, encoder).map_err(|error| TrainJobError::Written(error.to_string()))?;
    let mut summary = TrainSummary {
        model: ModelName::of(model.as_ref()),
        thresholds: model.thresholds(),
        out: job.out.clone(),
        files,
        own: own_count,
        own_in_shipped,
        types,
        without_text,
        unlabelled,
        shipped: shipped_count,
        shipped_missing,
        held_out: HeldOutFigures::from(&figures),
        beats_shipped: comparison.better,
        comparison: Some(comparison),
        finetuning: fitted.finetuning,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let card = card(&summary, &figures);
    summary.files.extend(write(&[(CARD.into(), card.into_bytes())], &job.out)?);
    if summary.finetuning.is_some() {
        let done = job.out.join(CHECKPOINT);
        std::fs::remove_file(&done).map_err(TrainJobError::at(&done))?;
    }
    Ok(summary)
}

/// A trained model as files, and its held-out answers.
struct Trained {
    files: Vec<(PathBuf, Vec<u8>)>,
    held_out: Vec<HeldOut>,
    finetuning: Option<FinetuneReport>,
}

async fn run(job: &TrainJob, examples: Arc<Vec<Example>>, monitor: &dyn Monitor) -> Result<Trained, TrainJobError> {
    let named = |name: &str, bytes: Vec<u8>| (PathBuf::from(name), bytes);
    match job.recipe.clone() {
        Recipe::Linear => {
            monitor.begin("train", None);
            let fitted = tokio::task::spawn_blocking(move || fit(&examples, &TrainOptions::default(), Some(shipped())))
                .await??;
            monitor.end();
            let json = fitted.model.description_json()?.into_bytes();
            let files = vec![named(TENSORS, fitted.model.tensors()), named(DESCRIPTION, json)];
            Ok(Trained { files, held_out: fitted.held_out, finetuning: None })
        }
        Recipe::Distilled(place) => {
            monitor.begin("train", None);
            let encoder = Arc::new(place.read()?.encoder()?);
            let fitted = tokio::task::spawn_blocking(move || {
                let notes =
                    |held: &[HeldOut]| serde_json::json!({ "examples": examples.len(), "held_out": held.len() });
                fit_distilled(&encoder, &examples, notes)
            })
            .await??;
            monitor.end();
            let json = fitted.model.description_json()?.into_bytes();
            let files = vec![named(TENSORS, fitted.model.tensors()), named(DESCRIPTION, json)];
            Ok(Trained { files, held_out: fitted.held_out, finetuning: None })
        }
        Recipe::Finetuned { encoder, options, folds_in } => {
            let folds = match folds_in {
                Some(folder) => {
                    let (encoder, options) = (encoder.clone(), (*options).clone());
                    let folds = options.labels.folds;
                    Some(folds::said(&FoldsJob { encoder, options, folder, folds }, &examples, monitor).await?)
                }
                None => None,
            };
            let done = finetune(&encoder, examples, *options, folds, &job.out, monitor).await?;
            let mut files = vec![named(TENSORS, done.files.tensors), named(TOKENIZER, done.tokenizer)];
            if done.linear.hash() != shipped().hash() {
                let beside = |name: &str| PathBuf::from(LINEAR).join(name);
                files.push((beside(TENSORS), done.linear.tensors()));
                files.push((beside(DESCRIPTION), done.linear.description_json()?.into_bytes()));
            }
            // Last, since it is what makes the folder a model.
            files.push(named(DESCRIPTION, done.files.description.into_bytes()));
            Ok(Trained { files, held_out: done.held_out, finetuning: Some(done.report) })
        }
    }
}

async fn find_texts(
    records: Vec<LabelRecord>,
    texts: Option<&TextSource<'_>>,
    monitor: &dyn Monitor,
) -> Result<Vec<LabelRecord>, HydrateError> {
    match texts {
        Some(source) => {
            let (records, _): (_, HydrateSummary) = hydrate(records, source, monitor).await?;
            Ok(records)
        }
        None => Ok(records),
    }
}

/// Write files into `out`, each in one step.
fn write(files: &[(PathBuf, Vec<u8>)], out: &Path) -> Result<Vec<PathBuf>, TrainJobError> {
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = out.join(name);
        let put = |path: &Path| {
            std::fs::create_dir_all(path.parent().unwrap_or(out))?;
            replace(path, bytes)
        };
        put(&path).map_err(TrainJobError::at(&path))?;
        written.push(path);
    }
    Ok(written)
}

fn card(summary: &TrainSummary, figures: &Evaluation) -> String {
    let what = match summary.model.tier.as_str() {
        tuned::TIER => "The encoder tier of `trained`, a sentence encoder fine-tuned",
        embedded::DISTILLED => "`distilled`, logistic regression on sentence vectors, fitted",
        _ => "The linear tier of `trained`, fitted",
    };
    let mut card = format!("# A refitted classifier\n\n{what} by `aac train` on {} labelled items", summary.own);
    if summary.shipped > 0 {
        let _ = write!(card, " and {} of those that ship with the program", summary.shipped);
    }
    card += ".\n`model.json` says how items become features and where the thresholds lie; `model.safetensors` holds the \
             numbers.\nThe same labels give the same bytes.\n\n";
    let how = match &summary.finetuning {
        Some(report) => {
            let _ = writeln!(
                card,
                "It began with the weights of `{}`; their licence and terms go on holding.\n",
                report.encoder
            );
            match report.folds {
                1 => "one held-out fold".to_owned(),
                n => format!("{n} folds, each held out by a course of its own,"),
            }
        }
        None => "nested cross-validation".to_owned(),
    };
    card += &format!(
        "Figures are from {how} on {} items, whole repositories held out, near-duplicates never on both\n\
         sides, calibration and thresholds from other repositories only; 95 % intervals by bootstrap over repositories.\n\n\
         | held out | value | interval |\n|---|---|---|\n",
        figures.items
    );
    for (name, value) in [
        ("accuracy, six types, balanced point", figures.accuracy),
        ("macro-F1 without episodic, balanced point", figures.macro_f1),
        ("constraint F1, balanced point", figures.constraint_f1),
        ("constraint recall, safe point", figures.safe_recall),
        ("items flagged, safe point", figures.safe_flagged),
    ] {
        let _ = writeln!(card, "| {name} | {:.3} | {:.3}–{:.3} |", value.value, value.low, value.high);
    }
    let _ = writeln!(card, "| expected calibration error | {:.3} | |\n", figures.calibration_error);
    card += "| type | precision | recall | F1 | items |\n|---|---|---|---|---|\n";
    for (t, s) in &figures.classes {
        let _ = writeln!(card, "| {t} | {:.3} | {:.3} | {:.3} | {} |", s.precision, s.recall, s.f1, s.support);
    }
    if let Some(report) = &summary.finetuning {
        card += "\nThe linear tier answers alone from a confidence up (the floor); what that costs and saves:\n\n\
                 | floor | encoder asked | accuracy | constraint F1 | safe recall | flagged |\n|---|---|---|---|---|---|\n";
        for p in &report.floors {
            let chosen = if p.floor == report.linear_floor { " (chosen)" } else { "" };
            let _ = writeln!(
                card,
                "| {:.2}{chosen} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
                p.floor, p.asked, p.accuracy, p.constraint_f1, p.safe_recall, p.safe_flagged
            );
        }
    }
    if let Some(c) = &summary.comparison {
        let _ = writeln!(
            card,
            "\nOn the same {} items the shipped model has accuracy {:.3} and constraint F1 {:.3}; this one {:.3} and {:.3}\n\
             (exact McNemar test of the types: p = {:.3}).",
            c.items, c.accuracy[1], c.constraint_f1[1], c.accuracy[0], c.constraint_f1[0], c.p_value
        );
        if summary.own_in_shipped > 0 {
            let _ = writeln!(
                card,
                "The shipped model was fitted on {} of the labelled items, so the comparison favours it.",
                summary.own_in_shipped
            );
        }
    }
    card
}
