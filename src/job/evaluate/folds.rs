//! The encoder tier on every fold held out in turn, where `aac train --finetune` measures it on one.
//!
//! A course takes long, so each leaves a small file of what both tiers said of the items it held out; a later run begins
//! with the first fold whose file is not there, and within it after the last whole epoch.

use super::classifier::EvaluateError;
use crate::classify::metrics::Confusion;
use crate::corpus::Sha256;
use crate::job::encoders::EncoderPlace;
use crate::job::file::{read_if_there, replace};
use crate::job::finetune::{Lessons, tune};
use crate::job::train::TrainJobError;
use crate::monitor::Monitor;
use crate::taxonomy::KnowledgeType;
use crate::train::evaluate::{PhrasingScore, evaluate_phrasing};
use crate::train::fit::{HeldOut, nested};
use crate::train::labels::{Example, Role};
use crate::train::tuned::{
    FloorPoint, Parted, Said, TunedOptions, choose_floor, cross_fit, floors, linear_options, say,
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the files.
const FORMAT: u32 = 1;

/// What to fine-tune, and where the folds are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldsJob {
    /// The encoder to begin with.
    pub encoder: EncoderPlace,
    /// How each fold's course goes; its own fold is not looked at.
    pub options: TunedOptions,
    /// Folder of the files, one a fold.
    pub folder: PathBuf,
    /// Courses are run for the first so many folds only; files of others are counted in where they are there.
    pub folds: usize,
}

/// What a course found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FoldFile {
    format: u32,
    /// Of the labels, the encoder and the options.
    fingerprint: Sha256,
    fold: usize,
    encoder: String,
    lessons: usize,
    said: Vec<Said>,
}

/// Figures of one fold, both tiers on the same items.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FoldFigures {
    /// Which, from 0.
    pub fold: usize,
    /// Items learned from.
    pub lessons: usize,
    /// Gold items held out.
    pub items: usize,
    /// Constraints among them.
    pub constraints: usize,
    /// Accuracy of both tiers together, of the linear tier alone.
    pub accuracy: [f64; 2],
    /// F1 of constraints, likewise.
    pub constraint_f1: [f64; 2],
}

/// The folds that are there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoldsReport {
    /// The encoder the courses began with.
    pub encoder: String,
    /// Folds of the labels. Where fewer are there, the figures are of those.
    pub of: usize,
    /// Those that are there.
    pub folds: Vec<FoldFigures>,
    /// What each floor of the cascade costs and saves.
    pub floors: Vec<FloorPoint>,
    /// The floor of the figures.
    pub linear_floor: f32,
    /// Scores on phrasings of rules that were held out, of `linear` and of `trained`.
    pub phrasing: Vec<(String, Vec<PhrasingScore>)>,
}

/// Held-out answers of both tiers to the items of the folds that are there.
pub(super) struct FoldsFound {
    /// The cascade of both tiers, mixing and thresholds from the other folds.
    pub(super) trained: Vec<HeldOut>,
    /// The linear tier alone, by nested cross-validation.
    pub(super) linear: Vec<HeldOut>,
    /// The part of each phrasing's rule.
    pub(super) rules: HashMap<String, usize>,
    pub(super) fingerprint: Sha256,
    pub(super) report: FoldsReport,
}

/// Run the courses that are missing and put the answers of all folds together.
pub(super) async fn folds(
    job: &FoldsJob,
    examples: &Arc<Vec<Example>>,
    precision: f64,
    monitor: &dyn Monitor,
) -> Result<FoldsFound, EvaluateError> {
    let files = run(job, examples, monitor).await?;
    if files.is_empty() {
        return Err(EvaluateError::Nothing("folds"));
    }
    monitor.begin("validate", None);
    let (work, options) = (examples.clone(), job.options.clone());
    let found = tokio::task::spawn_blocking(move || together(&files, &work, &options, precision)).await??;
    monitor.end();
    Ok(found)
}

/// What both tiers said of the items of each fold, which its course held out; courses that are missing are run.
pub(in crate::job) async fn said(
    job: &FoldsJob,
    examples: &Arc<Vec<Example>>,
    monitor: &dyn Monitor,
) -> Result<Vec<Vec<Said>>, TrainJobError> {
    Ok(run(job, examples, monitor).await?.into_iter().map(|file| file.said).collect())
}

async fn run(
    job: &FoldsJob,
    examples: &Arc<Vec<Example>>,
    monitor: &dyn Monitor,
) -> Result<Vec<FoldFile>, TrainJobError> {
    std::fs::create_dir_all(&job.folder).map_err(TrainJobError::at(&job.folder))?;
    let encoder = job.encoder.read()?.encoder()?.id().to_owned();
    let fingerprint = fingerprint(examples, &encoder, &job.options);
    let of = job.options.labels.folds;
    // All files are looked at before hours are spent on courses that do not fit them.
    let mut files = (0..of).map(|fold| read(&job.folder, fold, fingerprint)).collect::<Result<Vec<_>, _>>()?;
    for (fold, file) in files.iter_mut().enumerate().take(job.folds) {
        if file.is_some() {
            continue;
        }
        monitor.begin(&format!("fold {} of {of}", fold + 1), None);
        monitor.end();
        let checkpoint = job.folder.join(format!("fold-{fold}.safetensors"));
        let options = TunedOptions { fold, ..job.options.clone() };
        let lessons = Lessons::WithoutFold;
        let tuning = tune(&job.encoder, examples.clone(), options, lessons, &checkpoint, monitor).await?;
        let encoder = encoder.clone();
        let found = tokio::task::spawn_blocking(move || {
            let said = say(&tuning.trainer, &tuning.course);
            FoldFile { format: FORMAT, fingerprint, fold, encoder, lessons: tuning.course.taught(), said }
        })
        .await?;
        let path = path(&job.folder, fold);
        let json = serde_json::to_vec(&found)?;
        replace(&path, &json).map_err(TrainJobError::at(&path))?;
        std::fs::remove_file(&checkpoint).map_err(TrainJobError::at(&checkpoint))?;
        *file = Some(found);
    }
    Ok(files.into_iter().flatten().collect())
}

fn together(
    files: &[FoldFile],
    examples: &[Example],
    options: &TunedOptions,
    precision: f64,
) -> Result<FoldsFound, EvaluateError> {
    let said: Vec<Vec<Said>> = files.iter().map(|file| file.said.clone()).collect();
    let parted = Parted::by_fold(examples, &said);
    let points = floors(examples, &parted, &options.labels);
    let linear_floor = choose_floor(&points);
    let trained = cross_fit(examples, &parted, &options.labels, linear_floor);
    let scored: HashSet<usize> = trained.iter().map(|held| held.index).collect();
    let mut linear = nested(examples, &linear_options(&options.labels))?;
    linear.retain(|held| scored.contains(&held.index));
    let rules: HashMap<String, usize> = parted
        .said()
        .iter()
        .zip(parted.part())
        .filter(|(said, _)| examples[said.index].role == Role::Phrasing)
        .map(|(said, part)| (examples[said.index].group.clone(), *part))
        .collect();
    let phrasing =
        |held: &[HeldOut]| evaluate_phrasing(examples, held, |e| rules.get(&e.group).copied().unwrap_or(0), precision);
    let phrasing = if rules.is_empty() {
        Vec::new()
    } else {
        vec![("linear".to_owned(), phrasing(&linear)), ("trained".to_owned(), phrasing(&trained))]
    };
    let report = FoldsReport {
        encoder: files[0].encoder.clone(),
        of: options.labels.folds,
        folds: files.iter().map(|file| figures(file, examples, [&trained, &linear])).collect(),
        floors: points,
        linear_floor,
        phrasing,
    };
    Ok(FoldsFound { trained, linear, rules, fingerprint: files[0].fingerprint, report })
}

fn figures(file: &FoldFile, examples: &[Example], tiers: [&[HeldOut]; 2]) -> FoldFigures {
    let own: HashSet<usize> =
        file.said.iter().map(|said| said.index).filter(|i| examples[*i].role == Role::Gold).collect();
    let confusions = tiers.map(|held| {
        let held = held.iter().filter(|h| own.contains(&h.index));
        Confusion::of(held.map(|h| (examples[h.index].label, h.item_type())))
    });
    let scores = confusions.each_ref().map(|c| c.score(KnowledgeType::Constraint));
    FoldFigures {
        fold: file.fold,
        lessons: file.lessons,
        items: own.len(),
        constraints: scores[0].support,
        accuracy: confusions.map(|c| c.accuracy()),
        constraint_f1: scores.map(|s| s.f1),
    }
}

fn path(folder: &Path, fold: usize) -> PathBuf {
    folder.join(format!("fold-{fold}.json"))
}

/// The file of a fold, when it is there; one of other labels, another encoder or other options is an error.
fn read(folder: &Path, fold: usize, fingerprint: Sha256) -> Result<Option<FoldFile>, TrainJobError> {
    let path = path(folder, fold);
    let Some(bytes) = read_if_there(&path).map_err(TrainJobError::at(&path))? else { return Ok(None) };
    match serde_json::from_slice::<FoldFile>(&bytes) {
        Ok(file) if file.format == FORMAT && file.fingerprint == fingerprint && file.fold == fold => Ok(Some(file)),
        _ => Err(TrainJobError::StaleFold { path }),
    }
}

fn fingerprint(examples: &[Example], encoder: &str, options: &TunedOptions) -> Sha256 {
    let options = TunedOptions { fold: 0, ..options.clone() };
    Sha256::of(format!("{encoder}\n{options:?}\n{:?}\n{examples:?}", linear_options(&options.labels)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use crate::train::finetune::FinetuneOptions;
    use crate::train::tuned::tests::{examples, options};

    fn job(folder: &Path, folds: usize) -> FoldsJob {
        let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoder");
        let options = TunedOptions { finetune: FinetuneOptions { epochs: 2, ..options().finetune }, ..options() };
        FoldsJob { encoder: EncoderPlace::Folder(encoder), options, folder: folder.to_owned(), folds }
    }

    /// Stops within the course of the second fold.
    #[derive(Default)]
    struct Breaks(Silent);

    impl Monitor for Breaks {
        fn begin(&self, step: &str, _total: Option<u64>) {
            if step == "fold 2 of 5" {
                self.0.stop();
            }
        }
        fn advance(&self, _units: u64) {}
        fn warn(&self, _line: &str) {}
        fn end(&self) {}
        fn stop_requested(&self) -> bool {
            self.0.stop_requested()
        }
    }

    #[tokio::test]
    async fn a_break_between_folds_changes_nothing_and_fewer_folds_are_told_apart() {
        let examples = Arc::new(examples());
        let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run = |dir: &Path, folds: usize| {
            let (job, examples) = (job(dir, folds), examples.clone());
            async move { super::folds(&job, &examples, 0.9, &Silent::default()).await }
        };
        let unbroken = run(whole.path(), 5).await.unwrap();
        assert_eq!(unbroken.trained.len(), examples.len());
        assert_eq!(unbroken.report.folds.iter().map(|f| f.items).sum::<usize>(), 150);

        let paused = super::folds(&job(broken.path(), 5), &examples, 0.9, &Breaks::default()).await;
        assert!(matches!(paused, Err(EvaluateError::Finetune(TrainJobError::Paused { epochs: 0, .. }))));
        assert!(path(broken.path(), 0).exists() && !path(broken.path(), 1).exists());
        let two = run(broken.path(), 2).await.unwrap();
        assert_eq!((two.report.folds.len(), two.report.of), (2, 5));
        assert_eq!(two.trained.len(), two.linear.len());
        assert!(two.trained.len() < unbroken.trained.len());
        let resumed = run(broken.path(), 5).await.unwrap();
        assert_eq!(resumed.report, unbroken.report);
        assert_eq!(resumed.trained, unbroken.trained);
        assert_eq!(resumed.linear, unbroken.linear);
        let files = std::fs::read_dir(broken.path()).unwrap().count();
        assert_eq!(files, 5, "checkpoints are gone once their fold is done");

        let mut other = job(broken.path(), 5);
        other.options.labels.second_share = 0.5;
        let error = super::folds(&other, &examples, 0.9, &Silent::default()).await.err().unwrap().to_string();
        assert!(error.contains("fold-0.json") && error.contains("--folds-in"), "{error}");
    }
}
