//! Fitting classifiers from labels: data, optimiser, cross-validation, calibration and the honest comparison with the
//! model that ships.

pub mod calibrate;
pub mod evaluate;
pub mod fit;
pub mod folds;
pub mod labels;
pub mod lbfgs;
pub mod logistic;
