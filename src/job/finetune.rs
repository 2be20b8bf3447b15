//! Fine-tune a sentence encoder on labels, epoch by epoch, so that a break costs one epoch at most.

use super::encoders::EncoderPlace;
use super::file::replace;
use super::train::{HeldOutFigures, TrainJobError};
use crate::classify::linear::LinearModel;
use crate::classify::tuned::TunedFiles;
use crate::monitor::Monitor;
use crate::train::evaluate::evaluate;
use crate::train::finetune::{EpochReport, Trainer};
use crate::train::fit::HeldOut;
use crate::train::labels::Example;
use crate::train::tuned::{
    Course, FloorPoint, Said, TunedOptions, choose_floor, course, cross_fit, finish, floors, say, settle,
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
    /// Items of the held-out fold, phrasings among them.
    pub held_out: usize,
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

/// Run, or go on with, the fine-tuning whose model goes to `out`.
pub(super) async fn finetune(
    place: &EncoderPlace,
    examples: Arc<Vec<Example>>,
    options: TunedOptions,
    out: &Path,
    monitor: &dyn Monitor,
) -> Result<Finetuned, TrainJobError> {
    let read = place.read()?;
    let encoder = read.encoder()?;
    let name = encoder.id().to_owned();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TrainJobError::Write { path, source }
    };
    std::fs::create_dir_all(out).map_err(failed(out))?;
    let checkpoint = out.join(CHECKPOINT);
    let kept = match std::fs::read(&checkpoint) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(TrainJobError::Write { path: checkpoint, source }),
    };
    monitor.begin("prepare", None);
    let (work, with) = (examples.clone(), options.clone());
    let (mut trainer, course) = tokio::task::spawn_blocking(move || {
        let course = course(&work, &encoder, &with)?;
        let mut trainer = Trainer::new(encoder, course.lessons.clone(), with.finetune);
        if let Some(bytes) = kept {
            trainer.resume(&bytes)?;
        }
        Ok::<_, TrainJobError>((trainer, course))
    })
    .await??;
    monitor.end();
    let mut epochs = Vec::new();
    let lessons = course.lessons.iter().filter(|l| l.weight > 0.0).count();
    monitor.begin("fine-tune", Some((lessons * (options.finetune.epochs - trainer.epoch())) as u64));
    while !trainer.is_done() {
        let (back, report) = epoch(trainer, monitor).await?;
        let Some(report) = report else {
            return Err(TrainJobError::Paused { epochs: back.epoch(), of: options.finetune.epochs, checkpoint });
        };
        trainer = back;
        monitor.state(&format!("epoch {} of {}, loss {:.3}", report.epoch, options.finetune.epochs, report.loss));
        epochs.push(report);
        replace(&checkpoint, &trainer.checkpoint()?).map_err(failed(&checkpoint))?;
    }
    monitor.end();
    monitor.begin("settle", None);
    let tokenizer = read.tokenizer;
    let finetuned = tokio::task::spawn_blocking(move || {
        let said = say(&trainer, &course);
        conclude(&trainer, &course, &said, &examples, &options, tokenizer, (name, epochs))
    })
    .await??;
    monitor.end();
    Ok(finetuned)
}

fn conclude(
    trainer: &Trainer,
    course: &Course,
    said: &[Said],
    examples: &[Example],
    options: &TunedOptions,
    tokenizer: Vec<u8>,
    (encoder, epochs): (String, Vec<EpochReport>),
) -> Result<Finetuned, TrainJobError> {
    let points = floors(examples, said, &options.labels);
    let floor = choose_floor(&points);
    let held_out = cross_fit(examples, said, &options.labels, floor);
    let report = FinetuneReport {
        encoder,
        epochs,
        lessons: course.lessons.iter().filter(|l| l.weight > 0.0).count(),
        held_out: said.len(),
        floors: points,
        linear_floor: floor,
    };
    let figures = HeldOutFigures::from(&evaluate(examples, &held_out, str::to_owned));
    let notes = serde_json::json!({ "finetuning": report, "held_out_fold": figures });
    let settlement = settle(examples, said, &options.labels, floor, notes);
    let (files, linear) = finish(trainer, examples, options, &tokenizer, settlement)?;
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
