//! A gold item as people see it: its text with what stands around it, secrets and addresses replaced.

use super::GoldError;
use crate::encoding;
use crate::redact;
use crate::segment;
use crate::store::{BlobId, GoldItemRow, Store};
use serde::Serialize;

/// Items shown above and below.
const AROUND: usize = 2;

/// A passage beside the item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Its text.
    pub text: String,
    /// What kind of passage it is.
    pub kind: String,
}

/// An item with its surroundings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemView {
    /// Its name.
    pub id: String,
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// 1-based line.
    pub line: i64,
    /// What kind of passage it is.
    pub kind: String,
    /// Headings above it, outermost first.
    pub heading: Vec<String>,
    /// What stands above it in its file, in order.
    pub before: Vec<Neighbour>,
    /// Its text.
    pub text: String,
    /// What stands below it.
    pub after: Vec<Neighbour>,
}

/// Whether an item has a text that can be shown.
pub fn has_text(item: &GoldItemRow) -> bool {
    item.text.is_some() || (item.blob_id.is_some() && item.start.is_some() && item.stop.is_some())
}

/// The item with its text and neighbours, or nothing when the corpus has no text of it.
pub async fn view(store: &Store, item: &GoldItemRow) -> Result<Option<ItemView>, GoldError> {
    let bare = |text: String| ItemView {
        id: item.id.clone(),
        repo: item.repo.clone(),
        path: item.path.clone(),
        line: item.line,
        kind: item.kind.clone(),
        heading: item.headings().iter().map(|heading| redact::redacted(heading)).collect(),
        before: Vec::new(),
        text,
        after: Vec::new(),
    };
    let given = item.text.as_deref().map(redact::redacted).map(bare);
    let (Some(blob), Some(start), Some(stop)) = (item.blob_id, item.start, item.stop) else { return Ok(given) };
    let body = store.body(BlobId(blob)).await?;
    let Some(text) = encoding::decode(&body).1 else { return Ok(given) };
    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(stop).unwrap_or(0);
    let Some(own) = text.get(range.clone()) else { return Ok(given) };
    let found = segment::segment(&item.path, &text);
    let at = found.items.iter().position(|span| span.range() == range);
    let around = |indices: std::ops::Range<usize>| -> Vec<Neighbour> {
        let spans = found.items.get(indices).unwrap_or_default();
        spans
            .iter()
            .filter_map(|span| {
                Some(Neighbour { text: redact::redacted(text.get(span.range())?), kind: span.kind.as_str().to_owned() })
            })
            .collect()
    };
    let mut view = bare(redact::redacted(own));
    if let Some(at) = at {
        view.before = around(at.saturating_sub(AROUND)..at);
        view.after = around(at + 1..(at + 1 + AROUND).min(found.items.len()));
        view.heading = found.heading_path(&found.items[at], &text).into_iter().map(redact::redacted).collect();
    }
    Ok(Some(view))
}
