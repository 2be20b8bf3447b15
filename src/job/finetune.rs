//! Fine-tune a sentence encoder on labels, epoch by epoch, so that a break costs one epoch at most.

use super::encoders::EncoderPlace;
use super::file::{read_if_there, replace};
use super::train::{HeldOutFigures, TrainJobError};
use crate::classify::linear::LinearModel;
use crate::classify::tuned::TunedFiles;
use crate::monitor::Monitor;
use crate::train::evaluate::evaluate;
use crate::train::finetune::{EpochReport, Trainer};
use crate::train::fit::HeldOut;
use crate::train::labels::Example;
use crate::train::tuned::{
    Course, FloorPoint, Parted, Said, TunedOptions, choose_floor, course, cross_fit, finish, floors, say, settle,
    whole_course,
};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// State after the last whole epoch, in the folder of the model; gone once that is there.
pub const CHECKPOINT: &str = "checkpoint.safetensors";

/// What a fine-tuning went through.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FinetuneReport {
    /// The encoder it began with.
    pub encoder: String,
    /// Epochs of this run; those of an earlier one are not repeated.
    pub epochs: Vec<EpochReport>,
    /// Items learned from.
    pub lessons: usize,
    /// Items held out, phrasings among them.
    pub held_out: usize,
    /// Folds that were held out in turn, each by a course of its own; 1 where this course held one out itself.
    pub folds: usize,
    /// What each floor of the cascade costs and saves.
    pub floors: Vec<FloorPoint>,
    /// The floor that the model was given.
    pub linear_floor: f32,
}

/// A model of the encoder tier, ready to be written.
pub(super) struct Finetuned {
    pub(super) files: TunedFiles,
    pub(super) tokenizer: Vec<u8>,
    pub(super) linear: LinearModel,
    pub(super) held_out: Vec<HeldOut>,
    pub(super) report: FinetuneReport,
}

/// A course that was run to its end.
pub(super) struct Tuning {
    pub(super) trainer: Trainer,
    pub(super) course: Course,
    /// Name of the encoder it began with.
    pub(super) encoder: String,
    pub(super) tokenizer: Vec<u8>,
    /// Epochs of this run.
    pub(super) epochs: Vec<EpochReport>,
}

/// What a course teaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lessons {
    /// All but the fold that the options name.
    WithoutFold,
    /// All labels.
    All,
}

/// Run, or go on with, a course; its state after every epoch goes to `checkpoint`.
pub(super) async fn tune(
    place: &EncoderPlace,
    examples: Arc<Vec<Example>>,
    options: TunedOptions,
    lessons: Lessons,
    checkpoint: &Path,
    monitor: &dyn Monitor,
) -> Result<Tuning, TrainJobError> {
    let read = place.read()?;
    let encoder = read.encoder()?;
    let name = encoder.id().to_owned();
    let kept = read_if_there(checkpoint).map_err(TrainJobError::at(checkpoint))?;
    monitor.begin("prepare", None);
    let (path, with) = (checkpoint.to_owned(), options.clone());
    let (mut trainer, course) = tokio::task::spawn_blocking(move || {
        let course = match lessons {
            Lessons::WithoutFold => course(&examples, &encoder, &with)?,
            Lessons::All => whole_course(&examples, &encoder, &with)?,
        };
        let mut trainer = Trainer::new(encoder, course.lessons.clone(), with.finetune);
        if let Some(bytes) = kept {
            trainer.resume(&bytes).map_err(|source| TrainJobError::Checkpoint { path, source })?;
        }
        Ok::<_, TrainJobError>((trainer, course))
    })
    .await??;
    monitor.end();
    let mut epochs = Vec::new();
    monitor.begin("fine-tune", Some((course.taught() * (options.finetune.epochs - trainer.epoch())) as u64));
    while !trainer.is_done() {
        let (back, report) = epoch(trainer, monitor).await?;
        let Some(report) = report else {
            let (epochs, of) = (back.epoch(), options.finetune.epochs);
            return Err(TrainJobError::Paused { epochs, of, checkpoint: checkpoint.to_owned() });
        };
        trainer = back;
        monitor.state(&format!("epoch {} of {}, loss {:.3}", report.epoch, options.finetune.epochs, report.loss));
        epochs.push(report);
        replace(checkpoint, &trainer.checkpoint()?).map_err(TrainJobError::at(checkpoint))?;
    }
    monitor.end();
    Ok(Tuning { trainer, course, encoder: name, tokenizer: read.tokenizer, epochs })
}

/// Run, or go on with, the fine-tuning whose model goes to `out`. With what both tiers said of every fold, held out by
/// courses of their own, it learns from all labels, and mixing and thresholds come from these answers; without, it holds
/// a fold out for them.
pub(super) async fn finetune(
    place: &EncoderPlace,
    examples: Arc<Vec<Example>>,
    options: TunedOptions,
    folds: Option<Vec<Vec<Said>>>,
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<Finetuned, TrainJobError> {
    std::fs::create_dir_all(out).map_err(TrainJobError::at(out))?;
    let lessons = if folds.is_some() { Lessons::All } else { Lessons::WithoutFold };
    let tuning = tune(place, examples.clone(), options.clone(), lessons, &out.join(CHECKPOINT), monitor).await?;
    monitor.begin("settle", None);
    let finetuned = tokio::task::spawn_blocking(move || conclude(tuning, &examples, &options, folds)).await??;
    monitor.end();
    Ok(finetuned)
}

fn conclude(
    tuning: Tuning,
    examples: &[Example],
    options: &TunedOptions,
    folds: Option<Vec<Vec<Said>>>,
) -> Result<Finetuned, TrainJobError> {
    let Tuning { trainer, course, encoder, tokenizer, epochs } = tuning;
    let folds = folds.unwrap_or_else(|| vec![say(&trainer, &course)]);
    let parted = Parted::by_fold(examples, &folds);
    let said = parted.said();
    let points = floors(examples, &parted, &options.labels);
    let floor = choose_floor(&points);
    let held_out = cross_fit(examples, &parted, &options.labels, floor);
    let report = FinetuneReport {
        encoder,
        epochs,
        lessons: course.taught(),
        held_out: said.len(),
        folds: folds.len(),
        floors: points,
        linear_floor: floor,
    };
    let figures = HeldOutFigures::from(&evaluate(examples, &held_out, str::to_owned));
    let notes = serde_json::json!({ "finetuning": report, "held_out": figures });
    let settlement = settle(examples, said, &options.labels, floor, notes);
    let (files, linear) = finish(&trainer, examples, options, &tokenizer, settlement)?;
    Ok(Finetuned { files, tokenizer, linear, held_out, report })
}

/// One epoch away from the runtime's threads; progress comes back step by step, and a wish to stop goes there.
async fn epoch(mut trainer: Trainer, monitor: &dyn Monitor) -> Result<(Trainer, Option<EpochReport>), TrainJobError> {
    let (sender, mut steps) = tokio::sync::mpsc::unbounded_channel();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let work = tokio::task::spawn_blocking(move || {
        let report = trainer.run_epoch(|items| {
            // Nobody listens only when the job itself was dropped; then there is no use in going on, either.
            sender.send(items).is_ok() && !asked.load(Ordering::Relaxed)
        });
        (trainer, report)
    });
    while let Some(items) = steps.recv().await {
        monitor.advance(items as u64);
        if monitor.stop_requested() {
            stop.store(true, Ordering::Relaxed);
        }
    }
    Ok(work.await?)
}
