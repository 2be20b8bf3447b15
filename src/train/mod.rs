//! Fitting classifiers from labels: data, optimiser, cross-validation, calibration and the honest comparison with the
//! model that ships.

#[cfg(feature = "encoder")]
mod backward;
pub mod calibrate;
#[cfg(feature = "encoder")]
pub mod clusters;
#[cfg(feature = "encoder")]
pub mod distilled;
pub mod evaluate;
#[cfg(feature = "encoder")]
pub mod finetune;
pub mod fit;
pub mod folds;
pub mod labels;
pub mod lbfgs;
pub mod logistic;
pub mod prose;
#[cfg(feature = "encoder")]
pub mod tuned;
