//! Classify items: those of one text, or those of the whole corpus, where only what is missing or stale is done.

use super::judging::{JudgeError, LazyRun, PAGE, blocking, fit};
use super::model::ModelName;
use crate::classify::pack::{self, Prediction};
use crate::classify::{Classifier, Decision, Policy, decide};
use crate::corpus::{ItemContext, ItemSpan, Segmentation};
use crate::monitor::Monitor;
use crate::store::{BlobId, PredictionRow, PredictionVersions, StalePrediction, Store};
use crate::taxonomy::{ItemKind, KnowledgeType, OperatingPoint};
use crate::{encoding, segment};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A classified item of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassifiedItem<'t> {
    /// Its text.
    pub text: &'t str,
    /// 1-based line on which it begins.
    pub line: u32,
    /// What kind of passage it is.
    pub kind: ItemKind,
    /// Headings above it, outermost first.
    pub heading: Vec<&'t str>,
    /// What was decided.
    #[serde(flatten)]
    pub decision: Decision,
}

/// The items of `text` as a classifier sees them, in document order, each with its place in `found`. An item whose span
/// does not fit the text is left out, which happens only when both are not of one blob.
struct Shown<'t> {
    items: Vec<(usize, Vec<&'t str>)>,
    text: &'t str,
}

impl<'t> Shown<'t> {
    fn of(text: &'t str, found: &Segmentation) -> Self {
        let fits = |item: &ItemSpan| text.get(item.range()).is_some();
        let items = found.items.iter().enumerate().filter(|(_, item)| fits(item));
        Self { items: items.map(|(index, item)| (index, found.heading_path(item, text))).collect(), text }
    }

    fn contexts<'s>(&'s self, path: &'s str, found: &'s Segmentation) -> Vec<ItemContext<'s>> {
        let slice = |index: usize| found.items.get(index).and_then(|item| self.text.get(item.range()));
        self.items
            .iter()
            .map(|(index, heading)| ItemContext {
                text: slice(*index).unwrap_or_default(),
                kind: Some(found.items[*index].kind),
                heading,
                path,
                before: index.checked_sub(1).and_then(slice),
                after: slice(index + 1),
            })
            .collect()
    }
}

/// Items decided at a time: enough for an encoder to run at full speed, few enough to stream.
const TOGETHER: usize = 64;

/// Classify the items of `text`, the content of the file at `path`, in document order; they go to `each` as soon as they
/// are decided.
pub fn classify_text<'t, E>(
    classifier: &dyn Classifier,
    policy: &Policy,
    path: &str,
    text: &'t str,
    mut each: impl FnMut(ClassifiedItem<'t>) -> Result<(), E>,
) -> Result<(), E> {
    let found = segment::segment(path, text);
    let shown = Shown::of(text, &found);
    let contexts = shown.contexts(path, &found);
    for (items, contexts) in shown.items.chunks(TOGETHER).zip(contexts.chunks(TOGETHER)) {
        let answers = classifier.probabilities_of(contexts);
        for (((index, heading), context), probs) in items.iter().zip(contexts).zip(answers) {
            let mut decision = decide(probs, classifier.thresholds(), policy);
            decision.why = classifier.explain(context, decision.item_type, 5);
            let span = &found.items[*index];
            each(ClassifiedItem {
                text: text.get(span.range()).unwrap_or_default(),
                line: span.line,
                kind: span.kind,
                heading: heading.clone(),
                decision,
            })?;
        }
    }
    Ok(())
}

/// What a run over the corpus did, and what the corpus holds after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassifySummary {
    /// Who answered.
    pub model: ModelName,
    /// Blobs whose predictions were missing or stale at the start.
    pub stale: u64,
    /// Of these, those classified now.
    pub updated: u64,
    /// Blobs that have no items of the segmenter of today and were left out: `aac segment` finds them.
    pub unsegmented: u64,
    /// Classified items over all blobs.
    pub items: u64,
    /// Items by type, balanced point.
    pub types: BTreeMap<KnowledgeType, u64>,
    /// Items pinned at the safe point.
    pub pinned: u64,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
}

/// Classify every blob whose predictions are missing, or were made by another model, from other items or as another
/// path. Memory is bounded by a page of blobs, whatever the size of the corpus.
pub async fn classify(
    store: &Store,
    classifier: Arc<dyn Classifier>,
    monitor: &dyn Monitor,
) -> Result<ClassifySummary, JudgeError> {
    let id = classifier.id();
    let versions = PredictionVersions { model: &id, segmenter: segment::VERSION };
    let mut summary = ClassifySummary {
        model: ModelName::of(classifier.as_ref()),
        stale: store.count_stale_predictions(versions).await?.unsigned_abs(),
        updated: 0,
        unsegmented: store.count_unsegmented(segment::VERSION).await?.unsigned_abs(),
        items: 0,
        types: BTreeMap::new(),
        pinned: 0,
        paused: false,
    };
    let mut run = LazyRun::new(store, "classify");
    monitor.begin("classify", Some(summary.stale));
    let mut after = BlobId(0);
    while summary.updated < summary.stale {
        if monitor.stop_requested() {
            summary.paused = true;
            break;
        }
        let mut page = store.stale_predictions(versions, after, PAGE).await?;
        fit(&mut page, |blob| blob.size);
        let Some(last) = page.last() else { break };
        after = last.blob;
        let ids: Vec<BlobId> = page.iter().map(|row| row.blob).collect();
        let bodies = store.bodies(&ids).await?;
        let classifier = classifier.clone();
        let rows = blocking("classify items", move || {
            page.into_par_iter()
                .zip(bodies)
                .map(|(blob, body)| predict(classifier.as_ref(), blob, &body))
                .collect::<Result<Vec<_>, _>>()
        })
        .await??;
        store.put_predictions(run.id().await?, versions, &rows).await?;
        summary.updated += rows.len() as u64;
        monitor.advance(rows.len() as u64);
    }
    monitor.end();
    count(store, &mut summary).await?;
    run.end(summary.paused, &summary).await?;
    Ok(summary)
}

fn predict(classifier: &dyn Classifier, blob: StalePrediction, body: &[u8]) -> Result<PredictionRow, JudgeError> {
    let found = segment::unpack(&blob.items).map_err(|source| JudgeError::Items { blob: blob.blob.0, source })?;
    let policy = Policy::at(OperatingPoint::Safe);
    let mut predictions = Vec::with_capacity(found.items.len());
    if let Some(text) = encoding::decode(body).1 {
        let shown = Shown::of(&text, &found);
        let answers = classifier.probabilities_of(&shown.contexts(&blob.path, &found));
        let decisions = answers.into_iter().map(|probs| decide(probs, classifier.thresholds(), &policy));
        predictions.extend(decisions.map(|decision| Prediction::from(&decision)));
    }
    if predictions.len() != found.items.len() {
        return Err(JudgeError::Row {
            what: format!("the items of blob {}", blob.blob.0),
            why: format!("{} of {} lie outside its text", found.items.len() - predictions.len(), found.items.len()),
        });
    }
    Ok(PredictionRow { blob: blob.blob, path: blob.path, packed: pack::pack(predictions) })
}

/// Count what the corpus holds by type.
async fn count(store: &Store, summary: &mut ClassifySummary) -> Result<(), JudgeError> {
    for t in KnowledgeType::ALL {
        summary.types.insert(*t, 0);
    }
    let mut after = BlobId(0);
    loop {
        let page = store.predictions_after(after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (blob, packed) in &page {
            for prediction in unpack(*blob, packed)? {
                summary.items += 1;
                summary.pinned += u64::from(prediction.pinned);
                *summary.types.entry(prediction.item_type).or_default() += 1;
            }
        }
    }
    Ok(())
}

fn unpack(blob: BlobId, packed: &[u8]) -> Result<Vec<Prediction>, JudgeError> {
    pack::unpack(packed)
        .map_err(|why| JudgeError::Row { what: format!("the predictions of blob {}", blob.0), why: why.to_string() })
}

/// The predictions on these blobs, one for each item in document order, where the corpus is classified.
pub async fn predictions(
    store: &Store,
    blobs: &[BlobId],
) -> Result<std::collections::HashMap<BlobId, Vec<Prediction>>, JudgeError> {
    let packed = store.packed_predictions(blobs).await?;
    packed.into_iter().map(|(blob, (_, packed))| Ok((blob, unpack(blob, &packed)?))).collect()
}
