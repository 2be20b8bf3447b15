//! Classify items: those of one text, or those of the whole corpus, where only what is missing or stale is done.

use super::judging::{JudgeError, LazyRun, PAGE, blocking, fit};
use super::llm::{Answering, LlmClassifier};
use super::model::ModelName;
use crate::classify::pack::{self, Prediction};
use crate::classify::{Classifier, Decision, Policy, decide};
use crate::corpus::{ItemContext, ItemSpan, Segmentation};
use crate::llm::{LlmError, LlmReport};
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
/// are decided. `Some` says why a language model that had to be asked stopped answering: the items after the last one
/// given to `each` are left, and the same call goes on from what is kept.
pub async fn classify_text<'t, E: From<LlmError>>(
    answering: &Answering,
    policy: &Policy,
    path: &str,
    text: &'t str,
    monitor: &dyn Monitor,
    mut each: impl FnMut(ClassifiedItem<'t>) -> Result<(), E>,
) -> Result<Option<LlmError>, E> {
    let found = segment::segment(path, text);
    let shown = Shown::of(text, &found);
    let contexts = shown.contexts(path, &found);
    let classifier = answering.classifier();
    for (items, contexts) in shown.items.chunks(TOGETHER).zip(contexts.chunks(TOGETHER)) {
        match answering.prepare(contexts, monitor).await {
            Err(pause) if pause.is_pause() => return Ok(Some(pause)),
            prepared => prepared?,
        }
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
    Ok(None)
}

/// What a run over the corpus did, and what the corpus holds after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Why a language model stopped answering, where that is what paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<String>,
    /// What asking a language model came to, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmReport>,
}

/// Blobs taken in hand at a time where a language model is asked: what a budget cuts short is asked for again, and
/// answered from what is kept.
const ASKED_PAGE: usize = 50;

/// Classify every blob whose predictions are missing, or were made by another model, from other items or as another
/// path. Memory is bounded by a page of blobs, whatever the size of the corpus.
pub async fn classify(
    store: &Store,
    answering: impl Into<Answering>,
    monitor: &dyn Monitor,
) -> Result<ClassifySummary, JudgeError> {
    let answering = answering.into();
    let classifier = answering.classifier();
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
        paused_by: None,
        llm: None,
    };
    let mut run = LazyRun::new(store, "classify");
    monitor.begin("classify", Some(summary.stale));
    let mut after = BlobId(0);
    let page_size = if matches!(answering, Answering::Alone(_)) { PAGE } else { ASKED_PAGE };
    while summary.updated < summary.stale {
        if monitor.stop_requested() {
            summary.paused = true;
            break;
        }
        let mut page = store.stale_predictions(versions, after, page_size).await?;
        fit(&mut page, |blob| blob.size);
        let Some(last) = page.last() else { break };
        after = last.blob;
        let ids: Vec<BlobId> = page.iter().map(|row| row.blob).collect();
        let page: Vec<(StalePrediction, Vec<u8>)> = page.into_iter().zip(store.bodies(&ids).await?).collect();
        let page = Arc::new(page);
        if let Answering::Asking(llm) = &answering
            && let Err(error) = ask(llm, page.clone(), monitor).await
        {
            match error {
                JudgeError::Llm(pause) if pause.is_pause() => summary.paused_by = Some(pause.to_string()),
                error => return Err(error),
            }
            summary.paused = true;
            break;
        }
        let classifier = classifier.clone();
        let rows = blocking("classify items", move || {
            page.par_iter().map(|(blob, body)| predict(classifier.as_ref(), blob, body)).collect::<Result<Vec<_>, _>>()
        })
        .await??;
        store.put_predictions(run.id().await?, versions, &rows).await?;
        summary.updated += rows.len() as u64;
        monitor.advance(rows.len() as u64);
    }
    monitor.end();
    summary.llm = answering.report();
    count(store, &mut summary).await?;
    run.end(summary.paused, &summary).await?;
    Ok(summary)
}

/// Ask a language model about the items of a page of blobs.
async fn ask(
    llm: &Arc<LlmClassifier>,
    page: Arc<Vec<(StalePrediction, Vec<u8>)>>,
    monitor: &dyn Monitor,
) -> Result<(), JudgeError> {
    llm.forget();
    let asking = llm.clone();
    let requests = blocking("read items", move || {
        let of = |(blob, body): &(StalePrediction, Vec<u8>)| {
            with_items(blob, body, |items| asking.requests(items)).map(|found| found.0)
        };
        page.par_iter().map(of).collect::<Result<Vec<_>, _>>()
    })
    .await??;
    Ok(llm.ask(requests.concat(), monitor).await?)
}

/// What `with` makes of the items of a blob, and how many it should be; the default for a body that is no text.
fn with_items<T: Default>(
    blob: &StalePrediction,
    body: &[u8],
    with: impl FnOnce(&[ItemContext<'_>]) -> T,
) -> Result<(T, usize), JudgeError> {
    let found = segment::unpack(&blob.items).map_err(|source| JudgeError::Items { blob: blob.blob.0, source })?;
    let made = match encoding::decode(body).1 {
        Some(text) => with(&Shown::of(&text, &found).contexts(&blob.path, &found)),
        None => T::default(),
    };
    Ok((made, found.items.len()))
}

fn predict(classifier: &dyn Classifier, blob: &StalePrediction, body: &[u8]) -> Result<PredictionRow, JudgeError> {
    let policy = Policy::at(OperatingPoint::Safe);
    let (predictions, expected) = with_items(blob, body, |items| {
        let answers = classifier.probabilities_of(items).into_iter();
        let decisions = answers.map(|probs| decide(probs, classifier.thresholds(), &policy));
        decisions.map(|decision| Prediction::from(&decision)).collect::<Vec<_>>()
    })?;
    if predictions.len() != expected {
        return Err(JudgeError::Row {
            what: format!("the items of blob {}", blob.blob.0),
            why: format!("{} of {expected} lie outside its text", expected - predictions.len()),
        });
    }
    Ok(PredictionRow { blob: blob.blob, path: blob.path.clone(), packed: pack::pack(predictions) })
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
