//! What of a corpus is not judged yet, or not by the rules of today.

use super::{JudgeError, dedup, segment};
use crate::store::{PredictionVersions, Store};
use crate::tag::TAGGER_VERSION;
use serde::Serialize;

/// What each step would do that brings judgements up to date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// Texts that `segment` would read.
    pub segment: u64,
    /// Whether `dedup` would compare texts.
    pub dedup: bool,
    /// Artifacts that `tag` would look at: those without tags by the rules and the statistics of today.
    pub tag: u64,
    /// Texts with items that `classify` would type; nothing where no model was named.
    pub classify: Option<u64>,
}

impl Stale {
    /// Whether any step has something to do.
    pub fn any(&self) -> bool {
        self.segment > 0 || self.dedup || self.tag > 0 || self.classify.is_some_and(|texts| texts > 0)
    }
}

/// Count what is stale in `store`, where items are typed by the classifier of this `model`
/// ([`Classifier::id`](crate::classify::Classifier::id)).
///
/// # Errors
/// When the corpus cannot be read.
pub async fn stale(store: &Store, model: Option<&str>) -> Result<Stale, JudgeError> {
    let statistics = store.statistics().await?.map_or(0, |statistics| statistics.id);
    let classify = match model {
        Some(model) => {
            let versions = PredictionVersions { model, segmenter: crate::segment::VERSION };
            Some(store.count_stale_predictions(versions).await?.unsigned_abs())
        }
        None => None,
    };
    Ok(Stale {
        segment: store.count_stale_readings(segment::VERSIONS).await?.unsigned_abs(),
        dedup: !dedup::is_fresh(store).await?,
        tag: store.count_untagged(TAGGER_VERSION, statistics).await?.unsigned_abs(),
        classify,
    })
}
