//! Take labels into the gold set.

use super::exchange::{Entry, Format, ItemRecord, Reading, StatusCounts, read, status_counts};
use super::{GoldError, rubric_version};
use crate::corpus::{GitOid, Sha256};
use crate::job::judging::now_ms;
use crate::monitor::Monitor;
use crate::store::{BlobId, GoldItemRow, Journal, NewDecision, NewMark, Store};
use crate::taxonomy::{ItemKind, LabelOrigin};
use crate::train::labels::LabelRecord as Place;
use crate::{encoding, segment};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Blobs in hand at a time.
const PAGE: usize = 300;
/// Who the labels that ship with the program are by: `shipped-a` and `shipped-b`, and `shipped` where it was settled.
pub const SHIPPED: &str = "shipped";

/// How labels are taken in.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The format.
    pub format: Format,
    /// Whose labels these are, instead of what the file says; a file of several annotators cannot be renamed.
    pub annotator: Option<String>,
    /// The annotator's round, instead of what the file says.
    pub pass: Option<i64>,
    /// Who gives labels that do not say.
    pub origin: LabelOrigin,
}

/// What was taken in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportSummary {
    /// Items in the file.
    pub items: usize,
    /// Items that were not in the gold set.
    pub new_items: usize,
    /// New items whose text is neither in the corpus nor in the file; they are not shown to annotators.
    pub without_text: usize,
    /// Labels taken in.
    pub labels: usize,
    /// Decisions taken in.
    pub decisions: usize,
    /// How many items stand where, by annotator.
    pub status: BTreeMap<String, StatusCounts>,
}

/// Take in the labels that ship with the program.
pub async fn import_shipped(store: &Store, monitor: &dyn Monitor) -> Result<ImportSummary, GoldError> {
    let options = ImportOptions { format: Format::Jsonl, annotator: None, pass: None, origin: LabelOrigin::Model };
    let text = include_str!("../../../annotation/gold/gold.jsonl");
    let reading =
        Reading { file: "annotation/gold/gold.jsonl", annotator: SHIPPED, origin: LabelOrigin::Model, now: now_ms() };
    import_text(store, text, &options, &reading, monitor).await
}

/// Take in the labels of `text`, the content of `file`. All or none: an annotator who has labels in the same round is
/// an error.
pub async fn import(
    store: &Store,
    file: &str,
    text: &str,
    options: &ImportOptions,
    monitor: &dyn Monitor,
) -> Result<ImportSummary, GoldError> {
    let stem = std::path::Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let annotator = options.annotator.clone().or(stem).unwrap_or_else(|| "imported".to_owned());
    let reading = Reading { file, annotator: &annotator, origin: options.origin, now: now_ms() };
    import_text(store, text, options, &reading, monitor).await
}

async fn import_text(
    store: &Store,
    text: &str,
    options: &ImportOptions,
    reading: &Reading<'_>,
    monitor: &dyn Monitor,
) -> Result<ImportSummary, GoldError> {
    let mut entries = read(options.format, text, reading)?;
    rename(&mut entries, options, reading)?;
    let mut summary =
        ImportSummary { items: entries.len(), status: status_counts(&entries), ..ImportSummary::default() };
    let held: HashMap<String, GoldItemRow> =
        store.gold_items().await?.into_iter().map(|item| (item.id.clone(), item)).collect();
    for entry in &entries {
        if let Some(item) = held.get(&entry.item.id)
            && let (Some(ours), Some(theirs)) = (item.text_sha256(), digest_of(&entry.item))
            && ours != theirs
        {
            let why = "the gold set has another text under this name".to_owned();
            return Err(GoldError::File {
                file: reading.file.to_owned(),
                place: format!("item {}", entry.item.id),
                why,
            });
        }
    }
    // Refused before anything is written; the write itself asks again.
    let whom: BTreeSet<(&str, i64)> =
        entries.iter().flat_map(|e| e.labels.iter().map(|l| (l.annotator.as_str(), l.pass))).collect();
    for (annotator, pass) in whom {
        let there = store.marks(Journal::Labels, Some((annotator, pass))).await?;
        if !there.is_empty() {
            return Err(twice(reading.file, annotator, pass, there.len() as i64));
        }
    }
    let new: Vec<&Entry> = entries.iter().filter(|entry| !held.contains_key(&entry.item.id)).collect();
    let rows = place(store, &new, reading, monitor).await?;
    summary.without_text = rows.iter().filter(|row| !super::view::has_text(row)).count();
    summary.new_items = store.put_gold_items(&rows).await?;
    let mut marks = Vec::new();
    let mut decisions = Vec::new();
    for entry in &entries {
        for label in &entry.labels {
            marks.push(NewMark {
                item: entry.item.id.clone(),
                annotator: label.annotator.clone(),
                pass: label.pass,
                mark: label.mark(),
                rubric: label.rubric,
                seconds: label.seconds,
                origin: label.origin,
                preannotated: label.preannotated.map(|class| class.as_str().to_owned()),
                ordering: label.order,
                position: label.position,
                action: None,
                at: label.at,
            });
        }
        decisions.extend(entry.decision.as_ref().map(|decision| NewDecision {
            item: entry.item.id.clone(),
            class: Some(decision.class.as_str().to_owned()),
            why: decision.why.clone(),
            by: decision.by.clone(),
            origin: decision.origin,
            rubric: rubric_version(),
            action: None,
            at: reading.now,
        }));
    }
    (summary.labels, summary.decisions) = (marks.len(), decisions.len());
    if let Err(refused) = store.import_marks(Journal::Labels, &marks).await? {
        return Err(twice(reading.file, &refused.annotator, refused.pass, refused.marks));
    }
    // A decision that is there stays: it may be newer than the file.
    let decided: HashSet<String> = store.decisions().await?.into_iter().map(|row| row.item_id).collect();
    decisions.retain(|decision| !decided.contains(&decision.item));
    store.put_decisions(&decisions).await?;
    Ok(summary)
}

fn twice(file: &str, annotator: &str, pass: i64, labels: i64) -> GoldError {
    GoldError::Twice { file: file.to_owned(), annotator: annotator.to_owned(), pass, labels }
}

fn rename(entries: &mut [Entry], options: &ImportOptions, reading: &Reading<'_>) -> Result<(), GoldError> {
    let whom: BTreeSet<String> = entries.iter().flat_map(|e| e.labels.iter().map(|l| l.annotator.clone())).collect();
    if let (Some(name), true) = (&options.annotator, whom.len() > 1) {
        let named: Vec<&str> = whom.iter().map(String::as_str).collect();
        let why =
            format!("it has labels of {}, so they cannot all be {name}'s; leave --annotator out", named.join(", "));
        return Err(GoldError::File { file: reading.file.to_owned(), place: "its annotators".to_owned(), why });
    }
    for label in entries.iter_mut().flat_map(|entry| &mut entry.labels) {
        if let Some(name) = &options.annotator {
            label.annotator.clone_from(name);
        }
        if let Some(pass) = options.pass {
            label.pass = pass;
        }
    }
    Ok(())
}

fn digest_of(item: &ItemRecord) -> Option<Sha256> {
    item.text_sha256.as_deref().and_then(|digest| digest.parse().ok())
}

/// Find the texts of items that were taken in before their blobs came. Returns how many were found.
pub async fn find_texts(store: &Store) -> Result<usize, GoldError> {
    let items: Vec<GoldItemRow> = store.gold_items().await?.into_iter().filter(|item| item.blob_id.is_none()).collect();
    let oids: Vec<GitOid> = items.iter().filter_map(GoldItemRow::blob_oid).collect();
    let known = store.known_oids(&oids).await?;
    let mut places = Vec::new();
    for item in &items {
        let Some(blob) = item.blob_oid().and_then(|oid| known.get(&oid)).copied() else { continue };
        let body = store.body(blob).await?;
        let text = encoding::decode(&body).1;
        let digest = item.text_sha256();
        if let Some((start, end, kind, heading)) = text.and_then(|text| locate(&item.path, item.line, digest, &text)) {
            places.push((item.id.clone(), blob, i64::from(start), i64::from(end), heading, kind.as_str().to_owned()));
        }
    }
    store.place_gold_items(&places).await?;
    Ok(places.len())
}

/// First byte, one past the last, kind and headings of the item with this digest, or at this line.
fn locate(path: &str, line: i64, digest: Option<Sha256>, text: &str) -> Option<(u32, u32, ItemKind, String)> {
    let place =
        Place { line: u32::try_from(line).ok().filter(|line| *line > 0), text_sha256: digest, ..Place::default() };
    let found = segment::segment(path, text);
    let located = place.locate(text, &found)?;
    let heading = json!(found.heading_path(located.span, text)).to_string();
    Some((located.span.start, located.span.end, located.span.kind, heading))
}

/// New items as rows, each with its place in the corpus where a blob holds it.
async fn place(
    store: &Store,
    new: &[&Entry],
    reading: &Reading<'_>,
    monitor: &dyn Monitor,
) -> Result<Vec<GoldItemRow>, GoldError> {
    let oid = |entry: &Entry| entry.item.blob.as_deref().and_then(|oid| oid.parse::<GitOid>().ok());
    let oids: Vec<GitOid> = new.iter().filter_map(|entry| oid(entry)).collect();
    let known = store.known_oids(&oids).await?;
    monitor.begin("place", Some(new.len() as u64));
    let mut rows = Vec::with_capacity(new.len());
    for page in new.chunks(PAGE) {
        let ids: BTreeSet<BlobId> = page.iter().filter_map(|entry| known.get(&oid(entry)?).copied()).collect();
        let ids: Vec<BlobId> = ids.into_iter().collect();
        let bodies: HashMap<BlobId, Vec<u8>> = ids.iter().copied().zip(store.bodies(&ids).await?).collect();
        for entry in page {
            let blob = oid(entry).and_then(|oid| known.get(&oid)).copied();
            let text = blob.and_then(|blob| bodies.get(&blob)).and_then(|body| encoding::decode(body).1);
            rows.push(row(entry, oid(entry), blob, text.as_deref(), reading)?);
        }
        monitor.advance(page.len() as u64);
    }
    monitor.end();
    Ok(rows)
}

fn row(
    entry: &Entry,
    oid: Option<GitOid>,
    blob: Option<BlobId>,
    text: Option<&str>,
    reading: &Reading<'_>,
) -> Result<GoldItemRow, GoldError> {
    let item = &entry.item;
    if let (Some(given), None) = (&item.blob, oid) {
        let why = format!("{given:?} is no git id of a blob");
        return Err(GoldError::File { file: reading.file.to_owned(), place: format!("item {}", item.id), why });
    }
    let kind: Option<ItemKind> = item.kind.as_deref().and_then(|word| word.parse().ok());
    let given = item.text.as_deref();
    let digest =
        digest_of(item).or_else(|| given.map(|text| super::sample::digest(text, kind.unwrap_or(ItemKind::List))));
    let mut row = GoldItemRow {
        id: item.id.clone(),
        repo: item.repo.clone().unwrap_or_default(),
        path: item.path.clone().unwrap_or_default(),
        blob_oid: oid.map(|oid| oid.0.to_vec()).unwrap_or_default(),
        line: item.line.unwrap_or(0),
        kind: item.kind.clone().unwrap_or_default(),
        heading: json!(item.heading).to_string(),
        text_sha256: digest.map(|digest| digest.0.to_vec()).unwrap_or_default(),
        language: item.language.clone(),
        license: item.license.clone(),
        stratum: item.stratum.clone(),
        ..GoldItemRow::default()
    };
    let located = text.and_then(|text| locate(&row.path, row.line, digest, text));
    match (located, blob) {
        (Some((start, end, kind, heading)), Some(blob)) => {
            row.blob_id = Some(blob.0);
            (row.start, row.stop) = (Some(i64::from(start)), Some(i64::from(end)));
            row.kind = kind.as_str().to_owned();
            row.heading = heading;
        }
        _ => row.text = item.text.clone(),
    }
    Ok(row)
}
