//! `distilled`: logistic regression on the vectors of a sentence encoder as it comes, cross-validated, calibrated and with
//! thresholds as the linear tier is.

use super::fit::{HeldOut, Prepared, TrainError, TrainOptions, nested_on};
use super::labels::Example;
use super::logistic::LogisticOptions;
use super::tuned::TunedError;
use crate::classify::TYPES;
use crate::classify::embedded::DistilledModel;
use crate::classify::features::SparseRow;
use crate::encoder::Encoder;
use rayon::prelude::*;
use std::sync::Arc;

/// The components of a unit vector are small numbers; the prior on their weights is weaker in proportion.
const L2: f64 = 0.1;

/// A fitted model and its held-out answers (nested cross-validation, whole repositories apart).
#[derive(Debug)]
pub struct FittedDistilled {
    /// The model.
    pub model: DistilledModel,
    /// Held-out answers to gold examples and phrasings.
    pub held_out: Vec<HeldOut>,
}

/// Fit to the vectors of the examples' texts.
pub fn fit_distilled(
    encoder: &Arc<Encoder>,
    examples: &[Example],
    notes: impl FnOnce(&[HeldOut]) -> serde_json::Value,
) -> Result<FittedDistilled, TunedError> {
    let texts: Vec<&str> = examples.iter().map(|e| e.text.as_str()).collect();
    let rows = encoder.encode(&texts)?.into_iter().map(row).collect();
    let bits = encoder.dimensions().next_power_of_two().ilog2();
    let logistic = LogisticOptions { l2: L2, min_rows: 1, idf_power: 0.0, ..LogisticOptions::default() };
    let options = TrainOptions { logistic, ..TrainOptions::default() };
    let prepared = Prepared::of_rows(examples, &options, rows, bits)?;
    let held_out = nested_on(&prepared, |_| true);
    let all = prepared.fit_without(&[], |_| true);
    let answers: Vec<_> = (0..options.folds)
        .into_par_iter()
        .map(|f| prepared.answers(&prepared.fit_without(&[f], |_| true), f))
        .collect();
    let (calibration, thresholds) = prepared.settle(&answers.concat());
    let scale = calibration.scale as f32;
    let weights: Vec<[f32; TYPES]> =
        all.dense(bits).iter().take(encoder.dimensions()).map(|row| row.map(|w| w * scale)).collect();
    let bias = std::array::from_fn(|t| all.bias[t] * scale + calibration.shift[t] as f32);
    let model = DistilledModel::new(encoder.clone(), bias, weights, thresholds, notes(&held_out));
    Ok(FittedDistilled { model, held_out })
}

/// A vector as a row whose buckets are its components.
fn row(vector: Vec<f32>) -> SparseRow {
    SparseRow { indices: (0..vector.len() as u32).collect(), values: vector }
}

/// Whether labels can be learned from, before an encoder is asked about each of them.
pub fn check(examples: &[Example]) -> Result<(), TrainError> {
    super::fit::check(examples, &TrainOptions::default())
}
