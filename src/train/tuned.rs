//! From labelled examples to a model of the encoder tier: what it learns from, what is held out, how the tiers are mixed,
//! and what the result is worth.
//!
//! Whole repositories (and whole rules, of phrasings) of one fold are held out and never learned from; the mixing of the
//! tiers and the thresholds come from them. Figures on them are cross-fitted: the answers to a repository use a mixing
//! and thresholds from the other held-out repositories only.

use super::calibrate::thresholds;
use super::finetune::{FinetuneOptions, Lesson, Trainer};
use super::fit::{HeldOut, Prepared, TrainError, TrainOptions, fit_model};
use super::folds::fold_of_groups;
use super::labels::{Example, Role};
use super::lbfgs::{LbfgsOptions, minimise};
use crate::classify::linear::{LinearModel, ModelError};
use crate::classify::metrics::Confusion;
use crate::classify::tuned::{Mixing, Settlement, TunedFiles, TunedModel};
use crate::classify::{Probabilities, TYPES, Thresholds};
use crate::encoder::{Encoder, EncoderError};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How to train the encoder tier.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedOptions {
    /// How labels become targets and weights, and the folds, as for the linear tier.
    pub labels: TrainOptions,
    /// The fine-tuning.
    pub finetune: FinetuneOptions,
    /// The fold that is held out.
    pub fold: usize,
}

impl Default for TunedOptions {
    fn default() -> Self {
        // Missing a constraint costs more than another error, and an encoder has less need of smoothing by number.
        let labels =
            TrainOptions { constraint_cost: 1.5, smoothing: 0.05, second_share: 0.2, ..TrainOptions::default() };
        Self { labels, finetune: FinetuneOptions::default(), fold: 0 }
    }
}

/// Labels or files that no encoder can be trained with.
#[derive(Debug, thiserror::Error)]
pub enum TunedError {
    /// The labels.
    #[error(transparent)]
    Labels(#[from] TrainError),
    /// The encoder.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The model that came of it.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The vectors of an encoder.
    #[error("Failed to cluster the sentence vectors: {0}")]
    Clusters(#[from] hdbscan::HdbscanError),
}

/// Examples divided into what is learned from and what is held out.
#[derive(Debug)]
pub struct Course {
    /// One an example, in their order; held-out ones and what nearly equals them have weight 0.
    pub lessons: Arc<[Lesson]>,
    /// Positions of the held-out gold examples and phrasings.
    pub held: Vec<usize>,
    /// Logits of the linear tier on these, fitted without them.
    pub linear: Vec<[f32; TYPES]>,
}

impl Course {
    /// How many examples are learned from.
    pub fn taught(&self) -> usize {
        self.lessons.iter().filter(|lesson| lesson.weight > 0.0).count()
    }
}

/// Divide `examples` for `encoder`.
pub fn course(examples: &[Example], encoder: &Encoder, options: &TunedOptions) -> Result<Course, TunedError> {
    let fold = options.fold.min(options.labels.folds.saturating_sub(1));
    let lessons = lessons(examples, encoder, options, &[fold])?;
    // The linear tier nearly as it would ship: calibrated on what each of its other folds holds out.
    let linear_options = linear_options(&options.labels);
    let prepared = Prepared::new(examples, &linear_options)?;
    let answers: Vec<Vec<(usize, [f64; TYPES])>> = (0..options.labels.folds)
        .into_par_iter()
        .map(|f| prepared.answers(&prepared.fit_without(&[f], |_| true), f))
        .collect();
    let others: Vec<_> = (0..answers.len()).filter(|f| *f != fold).flat_map(|f| answers[f].iter().copied()).collect();
    let (calibration, _) = prepared.settle(&others);
    let calibrated =
        |logits: &[f64; TYPES]| std::array::from_fn(|t| (logits[t] * calibration.scale + calibration.shift[t]) as f32);
    let (held, linear) = answers[fold].iter().map(|(i, logits)| (*i, calibrated(logits))).unzip();
    Ok(Course { lessons, held, linear })
}

/// All of `examples` for `encoder`, to learn from and none of them held out.
pub fn whole_course(examples: &[Example], encoder: &Encoder, options: &TunedOptions) -> Result<Course, TunedError> {
    Ok(Course { lessons: lessons(examples, encoder, options, &[])?, held: Vec::new(), linear: Vec::new() })
}

fn lessons(
    examples: &[Example],
    encoder: &Encoder,
    options: &TunedOptions,
    without: &[usize],
) -> Result<Arc<[Lesson]>, TunedError> {
    // Of these only weights and targets are of use: the encoder has an input of its own.
    let prepared = Prepared::of_rows(examples, &options.labels, Vec::new(), options.labels.features.bits)?;
    let weights = prepared.weights_without(without, |_| true);
    let lesson = |(example, (weight, target)): (&Example, (f32, &[f32; TYPES]))| {
        let input = example.with_context(|item| options.finetune.input.input(encoder.tokens(), item))?;
        Ok(Lesson { input, target: *target, weight })
    };
    let weighed = weights.into_par_iter().zip(&prepared.targets);
    Ok(examples.par_iter().zip(weighed).map(lesson).collect::<Result<_, EncoderError>>()?)
}

/// The linear tier has options of its own, yet the same folds.
pub fn linear_options(labels: &TrainOptions) -> TrainOptions {
    TrainOptions { folds: labels.folds, near_duplicate: labels.near_duplicate, ..TrainOptions::default() }
}

/// What the tiers said of one held-out example.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Position of the example.
    pub index: usize,
    /// Logits of the encoder.
    pub encoder: [f32; TYPES],
    /// Logits of the linear tier.
    pub linear: [f32; TYPES],
}

/// Both tiers' logits on what a course holds out, from the encoder as it is now.
pub fn say(trainer: &Trainer, course: &Course) -> Vec<Said> {
    let inputs: Vec<_> = course.held.iter().map(|i| course.lessons[*i].input.clone()).collect();
    let logits = trainer.logits(&inputs);
    course
        .held
        .iter()
        .zip(logits.into_iter().zip(&course.linear))
        .map(|(index, (encoder, linear))| Said { index: *index, encoder, linear: *linear })
        .collect()
}

/// The maximum a posteriori mixing on held-out answers; the prior leans to the encoder.
fn fit_mixing(said: &[(&Said, KnowledgeType)]) -> Mixing {
    const PRIOR: [f64; 2] = [0.8, 0.2];
    let mut x = vec![0.0; TYPES + 2];
    x[..2].copy_from_slice(&PRIOR);
    minimise(&mut x, &LbfgsOptions { tolerance: 1e-6, ..Default::default() }, |x, gradient| {
        let mut loss = 0.0;
        for (i, value) in x.iter().enumerate() {
            let centre = PRIOR.get(i).copied().unwrap_or(0.0);
            loss += 0.5 * (value - centre).powi(2);
            gradient[i] = value - centre;
        }
        for (said, truth) in said {
            let z: [f64; TYPES] = std::array::from_fn(|t| {
                x[0] * f64::from(said.encoder[t]) + x[1] * f64::from(said.linear[t]) + x[2 + t]
            });
            let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exps = z.map(|z| (z - max).exp());
            let sum: f64 = exps.iter().sum();
            loss -= z[truth.index()] - max - sum.ln();
            for t in 0..TYPES {
                let error = exps[t] / sum - f64::from(u8::from(t == truth.index()));
                gradient[0] += error * f64::from(said.encoder[t]);
                gradient[1] += error * f64::from(said.linear[t]);
                gradient[2 + t] += error;
            }
        }
        loss
    });
    Mixing { encoder: x[0] as f32, linear: x[1] as f32, shift: std::array::from_fn(|t| x[2 + t] as f32) }
}

/// Mixing, and thresholds of the cascade at a floor.
fn settle_on(examples: &[Example], said: &[&Said], options: &TrainOptions, floor: f32) -> (Mixing, Thresholds) {
    let gold: Vec<(&Said, KnowledgeType)> =
        said.iter().filter(|s| examples[s.index].role == Role::Gold).map(|s| (*s, examples[s.index].label)).collect();
    let mixing = fit_mixing(&gold);
    let scores: Vec<(f64, bool)> = gold
        .iter()
        .map(|(said, label)| {
            let p = cascade(&mixing, said, floor).of(KnowledgeType::Constraint);
            (f64::from(p), *label == KnowledgeType::Constraint)
        })
        .collect();
    (mixing, thresholds(&scores, options.safe_recall))
}

/// The answer of the cascade: the linear tier where it is as sure as `floor`, else both mixed.
fn cascade(mixing: &Mixing, said: &Said, floor: f32) -> Probabilities {
    let alone = Probabilities::from_logits(said.linear);
    if alone.confidence() >= floor { alone } else { mixing.probabilities(&said.encoder, &said.linear) }
}

/// Parts into which held-out repositories are divided to score them.
const PARTS: usize = 5;

/// Held-out answers with the part that each is scored in: its mixing and thresholds come from the other parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Parted {
    said: Vec<Said>,
    part: Vec<usize>,
}

impl Parted {
    /// What one course holds out, its repositories (and rules, of phrasings) dealt into parts.
    pub fn by_group(examples: &[Example], said: &[Said]) -> Self {
        let groups = |role: Role| {
            said.iter().map(|s| &examples[s.index]).filter(move |e| e.role == role).map(|e| e.group.as_str())
        };
        let (gold, phrasing) =
            (fold_of_groups(groups(Role::Gold), PARTS), fold_of_groups(groups(Role::Phrasing), PARTS));
        let part = said.iter().map(|s| {
            let example = &examples[s.index];
            let map = if example.role == Role::Phrasing { &phrasing } else { &gold };
            map.get(example.group.as_str()).copied().unwrap_or(0)
        });
        Self { part: part.collect(), said: said.to_vec() }
    }

    /// What several courses hold out, a fold each: the folds are the parts. One alone is parted by its repositories.
    pub fn by_fold(examples: &[Example], folds: &[Vec<Said>]) -> Self {
        match folds {
            [only] => Self::by_group(examples, only),
            _ => Self {
                part: folds.iter().enumerate().flat_map(|(f, said)| said.iter().map(move |_| f)).collect(),
                said: folds.concat(),
            },
        }
    }

    /// The answers, in order.
    pub fn said(&self) -> &[Said] {
        &self.said
    }

    /// The part of each answer.
    pub fn part(&self) -> &[usize] {
        &self.part
    }
}

/// Cross-fitted answers of the cascade at a floor (above 1: the encoder is always asked), part by part.
pub fn cross_fit(examples: &[Example], parted: &Parted, options: &TrainOptions, floor: f32) -> Vec<HeldOut> {
    let count = parted.part.iter().max().map_or(0, |last| last + 1);
    (0..count)
        .into_par_iter()
        .flat_map_iter(|p| {
            let (own, others): (Vec<_>, Vec<_>) =
                parted.said.iter().zip(&parted.part).partition(|(_, part)| **part == p);
            let others: Vec<&Said> = others.into_iter().map(|(said, _)| said).collect();
            let (mixing, thresholds) = settle_on(examples, &others, options, floor);
            own.into_iter().map(move |(s, _)| HeldOut {
                index: s.index,
                probs: cascade(&mixing, s, floor).as_array().map(f64::from),
                thresholds,
            })
        })
        .collect()
}

/// What a floor costs and saves, on cross-fitted gold answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FloorPoint {
    /// Confidence from which the linear tier answers alone; above 1 never.
    pub floor: f32,
    /// Share of items for which the encoder is asked.
    pub asked: f64,
    /// Accuracy, balanced point.
    pub accuracy: f64,
    /// Constraint F1, balanced point.
    pub constraint_f1: f64,
    /// Constraint recall, safe point.
    pub safe_recall: f64,
    /// Share of items flagged, safe point.
    pub safe_flagged: f64,
}

/// Floors that are tried.
const FLOORS: [f32; 8] = [0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 2.0];

/// What each floor costs; the last is the encoder asked always.
pub fn floors(examples: &[Example], parted: &Parted, options: &TrainOptions) -> Vec<FloorPoint> {
    let gold: Vec<&Said> = parted.said.iter().filter(|s| examples[s.index].role == Role::Gold).collect();
    FLOORS
        .iter()
        .map(|floor| {
            let held = cross_fit(examples, parted, options, *floor);
            let held: Vec<&HeldOut> = held.iter().filter(|h| examples[h.index].role == Role::Gold).collect();
            let confusion = Confusion::of(held.iter().map(|h| (examples[h.index].label, h.item_type())));
            let flagged = |h: &&&HeldOut| h.probs[KnowledgeType::Constraint.index()] as f32 >= h.thresholds.safe;
            let constraints = held.iter().filter(|h| examples[h.index].label == KnowledgeType::Constraint);
            let found = constraints.clone().filter(flagged).count();
            let asked = gold.iter().filter(|s| Probabilities::from_logits(s.linear).confidence() < *floor).count();
            let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
            FloorPoint {
                floor: *floor,
                asked: share(asked, gold.len()),
                accuracy: confusion.accuracy(),
                constraint_f1: confusion.score(KnowledgeType::Constraint).f1,
                safe_recall: share(found, constraints.count()),
                safe_flagged: share(held.iter().filter(flagged).count(), held.len()),
            }
        })
        .collect()
}

/// The lowest floor that costs next to nothing: at most two thousandths of accuracy and five of constraint F1, of safe
/// recall and of the items flagged for it, against asking the encoder always.
pub fn choose_floor(points: &[FloorPoint]) -> f32 {
    let Some(full) = points.last() else { return 2.0 };
    let cheap = points.iter().find(|p| {
        p.accuracy >= full.accuracy - 0.002
            && p.constraint_f1 >= full.constraint_f1 - 0.005
            && p.safe_recall >= full.safe_recall - 0.005
            && p.safe_flagged <= full.safe_flagged + 0.005
    });
    cheap.map_or(full.floor, |p| p.floor)
}

/// The mixing, thresholds and floor that ship, from all held-out answers.
pub fn settle(
    examples: &[Example],
    said: &[Said],
    options: &TrainOptions,
    floor: f32,
    notes: serde_json::Value,
) -> Settlement {
    let all: Vec<&Said> = said.iter().collect();
    let (mixing, thresholds) = settle_on(examples, &all, options, floor);
    Settlement { mixing, thresholds, linear_floor: floor, notes }
}

/// The files of the model that was trained, and the linear tier that goes with it (fitted on all examples).
pub fn finish(
    trainer: &Trainer,
    examples: &[Example],
    options: &TunedOptions,
    tokenizer: &[u8],
    settlement: Settlement,
) -> Result<(TunedFiles, LinearModel), TunedError> {
    let notes = serde_json::json!({ "examples": examples.len() });
    let linear = fit_model(examples, &linear_options(&options.labels), notes)?;
    let (encoder, head) = trainer.model();
    let input = &options.finetune.input;
    let files = TunedModel::files(&encoder, &head, input, tokenizer, &linear, settlement)?;
    Ok((files, linear))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::finetune::FinetuneOptions;
    use super::super::labels::parse_labels;
    use super::*;
    use crate::classify::Classifier as _;
    use crate::classify::features::FeatureOptions;
    use crate::encoder::tests::tiny;
    use std::borrow::Cow;

    const TOKENIZER: &[u8] = include_bytes!("../../tests/fixtures/encoder/tokenizer.json");

    /// 150 items of 30 repositories, in words that the tiny encoder knows.
    pub(crate) fn examples() -> Vec<Example> {
        let kinds = [
            ("constraint", "never push to main", "data and tables"),
            ("procedural", "run the tests before you commit", "too"),
            ("belief", "the tables hold data", "customers"),
            ("preference", "tests too ; rules", "agents"),
        ];
        let lines: Vec<String> = (0..150)
            .map(|i| {
                let (label, text, more) = kinds[i % 4];
                let more = more.split(' ').cycle().take(i / 4 % 5).collect::<Vec<_>>().join(" ");
                let path = ["AGENTS.md", "rules/main.md"][i % 2];
                // A word of its own keeps each text from being another's near-duplicate; the encoder does not know it.
                let own: String = format!("{i:03}").bytes().map(|b| (b - b'0' + b'f') as char).collect();
                format!(r#"{{"repo":"o/r{}","path":"{path}","text":"{text} {more} {own}","label":"{label}"}}"#, i / 5)
            })
            .collect();
        parse_labels("own.jsonl", &lines.join("\n")).unwrap().iter().filter_map(|r| r.as_given()).collect()
    }

    pub(crate) fn options() -> TunedOptions {
        let features = FeatureOptions { bits: 12, ..FeatureOptions::default() };
        let finetune =
            FinetuneOptions { epochs: 6, batch: 8, rate: 3e-3, frozen: 0, dropout: 0.0, ..FinetuneOptions::default() };
        let labels = TrainOptions { features, near_duplicate: 1.0, ..TunedOptions::default().labels };
        TunedOptions { labels, finetune, fold: 1 }
    }

    #[test]
    fn held_out_repositories_teach_nothing_and_the_model_answers_as_it_was_measured() {
        let (examples, options, encoder) = (examples(), options(), tiny());
        let course = course(&examples, &encoder, &options).unwrap();
        assert_eq!(course.held.len(), 30);
        let held: std::collections::HashSet<&str> = course.held.iter().map(|i| examples[*i].group.as_str()).collect();
        for (example, lesson) in examples.iter().zip(course.lessons.iter()) {
            assert!(lesson.weight == 0.0 || !held.contains(example.group.as_str()));
        }
        assert!(course.lessons.iter().filter(|l| l.weight > 0.0).count() > 50);
        let mut trainer = Trainer::new(encoder, course.lessons.clone(), options.finetune.clone());
        while !trainer.is_done() {
            trainer.run_epoch(|_| true).unwrap();
        }
        let said = say(&trainer, &course);
        let parted = Parted::by_group(&examples, &said);
        let answers = cross_fit(&examples, &parted, &options.labels, 2.0);
        assert_eq!(answers.len(), 30);
        let right = answers.iter().filter(|h| h.item_type() == examples[h.index].label).count();
        assert!(right >= 27, "{right} of 30");
        let points = floors(&examples, &parted, &options.labels);
        assert!(points.windows(2).all(|w| w[0].asked <= w[1].asked) && points.last().unwrap().asked == 1.0);
        let settlement = settle(&examples, &said, &options.labels, 2.0, serde_json::json!({"by": "a test"}));
        let mixing = settlement.mixing;
        let (files, linear) = finish(&trainer, &examples, &options, TOKENIZER, settlement).unwrap();
        let read = |json: &str, tensors: &[u8], tokenizer: &[u8]| {
            TunedModel::from_parts(json, tensors, tokenizer, Cow::Owned(linear.clone()))
        };
        let model = read(&files.description, &files.tensors, TOKENIZER).unwrap();
        // Quantised weights, and a linear tier that has seen the held-out items, too: nearly what was measured.
        for said in &said {
            let found = examples[said.index].with_context(|item| model.probabilities(item));
            let measured = mixing.probabilities(&said.encoder, &said.linear);
            assert_eq!(found.likeliest(), measured.likeliest());
        }
        let never = model.clone().with_linear_floor(0.0).unwrap();
        assert_ne!(never.id(), model.id());
        examples[0].with_context(|item| {
            assert_eq!(never.probabilities(item), linear.probabilities(item));
            assert!(model.explain(item, KnowledgeType::Constraint, 3)[0].what.contains("encoder"));
        });
        let broken = files.description.replace("\"format\": 1", "\"format\": 2");
        assert!(read(&broken, &files.tensors, TOKENIZER).unwrap_err().to_string().contains("format"));
        assert!(read(&files.description, &files.tensors, b"{}").unwrap_err().to_string().contains("tokenizer.json"));
        let mut tensors = files.tensors.clone();
        tensors[1000] ^= 1;
        assert!(read(&files.description, &tensors, TOKENIZER).unwrap_err().to_string().contains("SHA-256"));
        let other = Cow::Borrowed(crate::classify::linear::shipped());
        let error = TunedModel::from_parts(&files.description, &files.tensors, TOKENIZER, other).unwrap_err();
        assert!(error.to_string().contains("linear tier"), "{error}");
    }

    #[test]
    fn the_line_of_a_fold_does_not_come_from_its_own_answers() {
        let (examples, options) = (examples(), options());
        let said = |fold: usize, of_constraint: f32| -> Vec<Said> {
            let own = (0..examples.len()).filter(|i| i / 5 % 5 == fold);
            own.map(|index| {
                let mut encoder = [0.0; TYPES];
                encoder[examples[index].label.index()] = 2.0 + index as f32 / 100.0;
                encoder[KnowledgeType::Constraint.index()] += of_constraint;
                Said { index, encoder, linear: [0.0; TYPES] }
            })
            .collect()
        };
        let lines = |folds: &[Vec<Said>]| -> Vec<Thresholds> {
            let parted = Parted::by_fold(&examples, folds);
            let held = cross_fit(&examples, &parted, &options.labels, 2.0);
            assert_eq!(held.len(), 150);
            (0..5).map(|f| held.iter().find(|h| h.index / 5 % 5 == f).unwrap().thresholds).collect()
        };
        let plain: Vec<Vec<Said>> = (0..5).map(|f| said(f, 0.0)).collect();
        let mut bent = plain.clone();
        bent[3] = said(3, -5.0);
        let (plain, bent) = (lines(&plain), lines(&bent));
        assert_eq!(plain[3], bent[3]);
        assert!((0..5).filter(|f| *f != 3).all(|f| plain[f] != bent[f]));
    }

    #[test]
    fn the_floor_is_the_lowest_that_costs_next_to_nothing() {
        let point = |floor, accuracy, constraint_f1| FloorPoint {
            floor,
            asked: 0.5,
            accuracy,
            constraint_f1,
            safe_recall: 0.93,
            safe_flagged: 0.3,
        };
        let points = [point(0.7, 0.79, 0.6), point(0.9, 0.799, 0.69), point(0.95, 0.8, 0.7), point(2.0, 0.8, 0.69)];
        assert_eq!(choose_floor(&points), 0.9);
        assert_eq!(choose_floor(&points[2..]), 0.95);
        let mut dear = points;
        dear[1].safe_flagged = 0.32;
        assert_eq!(choose_floor(&dear), 0.95, "more flagged for the same recall is a cost");
        assert_eq!(choose_floor(&[]), 2.0);
    }
}
