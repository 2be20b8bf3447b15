//! Draw the items of a gold set from a corpus.

use super::{Document, Draw, GoldError, Repo, Stratum, draw};
use crate::corpus::Sha256;
use crate::encoding;
use crate::job::judging::now_ms;
use crate::monitor::Monitor;
use crate::segment::{self, flatten};
use crate::store::{BlobId, DocumentRow, GoldItemRow, Journal, SampleRow, Store};
use crate::taxonomy::{ItemKind, Outcome};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// Texts in hand at a time.
const PAGE: usize = 200;

/// What was drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampleSummary {
    /// The seed.
    pub seed: u64,
    /// Items of the sample.
    pub items: usize,
    /// Repositories that they come from.
    pub repos: usize,
    /// Items that were not in the gold set before.
    pub new: usize,
    /// The same sample had been drawn before; nothing was written.
    pub repeated: bool,
    /// What each stratum had and got.
    pub strata: Vec<Stratum>,
    /// Asked to stop before the end; nothing was written.
    pub paused: bool,
}

/// Draw a sample and store it. A sample of another seed or size that nobody has labelled gives way; one with labels is
/// an error unless `add` says that both are wanted.
pub async fn sample(store: &Store, wanted: Draw, add: bool, monitor: &dyn Monitor) -> Result<SampleSummary, GoldError> {
    let rows = store.sample_documents(segment::VERSION).await?;
    if rows.is_empty() {
        return Err(GoldError::Nothing("the corpus has no items; run `aac segment` after collecting texts".to_owned()));
    }
    if store.statistics().await?.is_none() {
        return Err(GoldError::Nothing("near-duplicates were not looked for; run `aac dedup`".to_owned()));
    }
    let (repos, documents) = group(&rows);
    let drawn = draw(&repos, wanted);
    let mut summary = SampleSummary {
        seed: wanted.seed,
        items: drawn.picks.len(),
        repos: drawn.strata.iter().map(|s| s.drawn_repos).sum(),
        new: 0,
        repeated: false,
        strata: drawn.strata,
        paused: false,
    };
    let options = json!(wanted).to_string();
    let strata = serde_json::to_string(&summary.strata)
        .map_err(|error| GoldError::Row { what: "the strata".to_owned(), why: error.to_string() })?;
    let earlier = store.samples().await?;
    if earlier.iter().any(|sample| sample.options == options && sample.strata == strata) {
        summary.repeated = true;
        return Ok(summary);
    }
    if !add && !earlier.is_empty() {
        let labels = store.marks(Journal::Labels, None).await?;
        let drawn: HashMap<String, i64> =
            store.gold_items().await?.into_iter().filter_map(|item| Some((item.id, item.sample_id?))).collect();
        let labels = labels.iter().filter(|mark| !mark.mark.is_blank() && drawn.contains_key(&mark.item)).count();
        if labels > 0 {
            return Err(GoldError::Labelled { labels });
        }
    }
    let mut by_document: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (pick, stratum) in &drawn.picks {
        by_document.entry(documents[pick.repo][pick.document]).or_default().push((pick.item, *stratum));
    }
    let names: Vec<String> = summary.strata.iter().map(Stratum::name).collect();
    monitor.begin("sample", Some(drawn.picks.len() as u64));
    let by_document: Vec<(usize, Vec<(usize, usize)>)> = by_document.into_iter().collect();
    let mut items = Vec::with_capacity(drawn.picks.len());
    for page in by_document.chunks(PAGE) {
        if monitor.stop_requested() {
            monitor.end();
            summary.paused = true;
            return Ok(summary);
        }
        let blobs: Vec<BlobId> = page.iter().map(|(row, _)| BlobId(rows[*row].blob_id)).collect();
        let mut found = store.packed_items(&blobs).await?;
        for (((row, picks), blob), body) in page.iter().zip(&blobs).zip(store.bodies(&blobs).await?) {
            let row = &rows[*row];
            let damaged = |why: String| GoldError::Row { what: format!("the items of {} {}", row.repo, row.path), why };
            let text = encoding::decode(&body).1.ok_or_else(|| damaged("it is no text".to_owned()))?;
            let (_, packed) = found.remove(blob).ok_or_else(|| damaged("they are gone".to_owned()))?;
            let found = segment::unpack(&packed).map_err(|error| damaged(error.to_string()))?;
            for (item, stratum) in picks {
                let span = found.items.get(*item).ok_or_else(|| damaged(format!("there is no item {item}")))?;
                let own = text.get(span.range()).ok_or_else(|| damaged(format!("item {item} is not in it")))?;
                let heading = found.heading_path(span, &text);
                items.push(GoldItemRow {
                    id: item_id(row, span.start),
                    repo: row.repo.clone(),
                    path: row.path.clone(),
                    blob_oid: row.git_oid.clone(),
                    blob_id: Some(row.blob_id),
                    line: i64::from(span.line),
                    start: Some(i64::from(span.start)),
                    stop: Some(i64::from(span.end)),
                    kind: span.kind.as_str().to_owned(),
                    heading: json!(heading).to_string(),
                    text_sha256: digest(own, span.kind).0.to_vec(),
                    language: row.language.clone(),
                    license: row.license.clone(),
                    stratum: Some(names[*stratum].clone()),
                    ..GoldItemRow::default()
                });
            }
        }
        monitor.advance(page.iter().map(|(_, picks)| picks.len() as u64).sum());
    }
    monitor.end();
    items.sort_by(|a, b| a.id.cmp(&b.id));
    let run = store.begin_run("gold sample", &json!(wanted), now_ms()).await?;
    let row = SampleRow { id: 0, seed: wanted.seed as i64, options, strata, created_at: now_ms() };
    summary.new = store.put_sample(run, &row, &items, !add).await?;
    store.end_run(run, Outcome::Done, &json!(summary), now_ms()).await?;
    Ok(summary)
}

/// The rows by repository, and for each text of each repository the row that it is.
fn group(rows: &[DocumentRow]) -> (Vec<Repo>, Vec<Vec<usize>>) {
    let mut by_key: BTreeMap<String, (Repo, Vec<usize>)> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let key = row.repo.to_ascii_lowercase();
        let (repo, at) = by_key.entry(key.clone()).or_insert_with(|| {
            let repo = Repo { key, stars: row.stars, language: row.language.clone(), documents: Vec::new() };
            (repo, Vec::new())
        });
        repo.documents.push(Document {
            path: row.path.clone(),
            cluster: row.cluster.clone(),
            items: usize::try_from(row.items).unwrap_or(0),
        });
        at.push(index);
    }
    by_key.into_values().unzip()
}

/// The name of an item: the same whatever the sample that draws it.
fn item_id(row: &DocumentRow, start: u32) -> String {
    let mut bytes = row.repo.to_ascii_lowercase().into_bytes();
    bytes.push(0);
    bytes.extend(row.path.as_bytes());
    bytes.push(0);
    bytes.extend(&row.git_oid);
    bytes.extend(start.to_le_bytes());
    let digest = Sha256::of(&bytes).to_string();
    format!("g{}", &digest[..15])
}

/// The digest by which an item is found again: white space does not count, except in code.
pub(super) fn digest(text: &str, kind: ItemKind) -> Sha256 {
    match kind {
        ItemKind::Code => Sha256::of(text.as_bytes()),
        _ => Sha256::of(flatten(text).as_bytes()),
    }
}
