//! The gold set as rows. Annotators are numbers: who they are is nobody's business outside the working corpus.

use super::redacted::Redacted;
use super::selection::Selection;
use super::{ExportError, hex};
use crate::encoding;
use crate::parquet::{GoldRecord, LabelRecord};
use crate::store::{BlobId, ExportLabel, Store};
use std::collections::{BTreeSet, HashMap};

/// Items of repositories that are in the export; text where the repository's bodies may be passed on.
pub(super) async fn rows(store: &Store, selection: &Selection) -> Result<Vec<GoldRecord>, ExportError> {
    let repos: HashMap<&str, bool> = selection.repos.iter().map(|repo| (repo.key.as_str(), repo.open)).collect();
    let labels = store.export_labels().await?;
    let names: BTreeSet<&str> = labels.iter().map(|label| label.annotator.as_str()).collect();
    let numbers: HashMap<String, usize> = names.into_iter().enumerate().map(|(n, name)| (name.to_owned(), n)).collect();
    let mut by_item: HashMap<String, Vec<ExportLabel>> = HashMap::new();
    for label in labels {
        by_item.entry(label.item_id.clone()).or_default().push(label);
    }
    let mut rows = Vec::new();
    for item in store.gold_items().await? {
        let Some(open) = repos.get(item.repo.to_ascii_lowercase().as_str()) else { continue };
        let text = match (open, item.blob_id, item.start, item.stop) {
            (true, Some(blob), Some(start), Some(stop)) => {
                let body = store.body(BlobId(blob)).await?;
                let shown = encoding::decode(&body).1.map(|text| Redacted::new(&text, None));
                let range = usize::try_from(start).unwrap_or(0)..usize::try_from(stop).unwrap_or(0);
                shown.and_then(|shown| shown.text.get(shown.place(range)).map(str::to_owned))
            }
            _ => None,
        };
        let label = |label: ExportLabel| LabelRecord {
            annotator: format!("annotator-{}", numbers.get(&label.annotator).map_or(0, |n| n + 1)),
            pass: label.pass,
            knowledge_type: label.knowledge_type,
            second: label.second,
            flagged: label.flagged,
            rubric: label.rubric,
            origin: label.origin,
        };
        rows.push(GoldRecord {
            labels: by_item.remove(&item.id).unwrap_or_default().into_iter().map(label).collect(),
            heading: text.is_some().then(|| Redacted::new(&item.headings().join(" > "), None).text),
            id: item.id,
            repo: item.repo,
            path: item.path,
            blob: hex(&item.blob_oid),
            line: item.line,
            kind: item.kind,
            language: item.language,
            license: item.license,
            text_sha256: hex(&item.text_sha256),
            knowledge_type: item.final_type,
            settled: item.final_why,
            text,
        });
    }
    Ok(rows)
}
