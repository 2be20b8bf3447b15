//! Rows from what the store holds.

use super::redacted::Redacted;
use super::selection::Repo;
use crate::classify::{self, pack::Prediction};
use crate::encoding;
use crate::parquet::{ArtifactRecord, ItemRecord, ProbabilityRecord, TagRecord};
use crate::redact;
use crate::segment;
use crate::store::{ExportArtifact, ExportReading, ExportTag};
use crate::taxonomy::{Dimension, KnowledgeType, TextEncoding};

/// Why stored judgements of a blob cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// Its items; `aac segment` makes them anew.
    #[error(transparent)]
    Items(#[from] segment::PackError),
    /// What the model said of them; `aac classify` says it anew.
    #[error(transparent)]
    Predictions(#[from] classify::pack::PackError),
}

/// An artifact with everything that its rows are made of.
pub(super) struct Source<'a> {
    pub(super) repo: &'a Repo,
    /// Address that pages of repositories begin with; absent where there are none.
    pub(super) web: Option<&'a str>,
    pub(super) artifact: ExportArtifact,
    pub(super) tags: Vec<ExportTag>,
    pub(super) size: i64,
    /// Whether the items of its blob stand under it.
    pub(super) is_home: bool,
    /// Whether the corpus is a copy that lacks its body.
    pub(super) is_withheld: bool,
}

/// The rows of one artifact, and what was replaced in its text.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) artifact: ArtifactRecord,
    pub(super) items: Vec<ItemRecord>,
    pub(super) redactions: Vec<&'static str>,
}

/// The rows of one artifact from its bytes and what was read from them.
pub(super) fn rows(source: Source<'_>, body: &[u8], reading: &ExportReading) -> Result<Rows, RowError> {
    let Source { repo, web, artifact, tags, size, is_home, is_withheld } = source;
    let is_binary = artifact.encoding == TextEncoding::Binary.as_str();
    let original = if is_withheld { None } else { encoding::decode(body).1 };
    let stored = reading.spans.as_deref().filter(|_| reading.redactor == Some(u32::from(redact::VERSION)));
    let shown = original.as_deref().filter(|_| repo.open).map(|text| Redacted::new(text, stored));
    let withheld = match (&original, repo.open) {
        (None, _) if is_binary || !is_withheld => Some("binary"),
        (Some(_), true) => None,
        _ => Some("license"),
    };
    let slug = repo.slug();
    let items = if is_home && (original.is_some() || is_withheld) {
        items(repo, &artifact, original.as_deref(), shown.as_ref(), reading)?
    } else {
        Vec::new()
    };
    let tagged =
        |dimension: Dimension| tags.iter().find(|tag| tag.dimension == dimension.as_str()).map(|tag| tag.value.clone());
    let kinds = shown.as_ref().map(|shown| shown.kinds.as_slice()).unwrap_or_default();
    let record = ArtifactRecord {
        url: web.and_then(|web| source_url(web, repo, &artifact)),
        function: tagged(Dimension::Function),
        authorship: tagged(Dimension::Authorship),
        specificity: tagged(Dimension::Specificity),
        tags: (!tags.is_empty()).then(|| tags.iter().map(tag).collect()),
        resolved_sha256: artifact.resolved.map(|d| d.to_string()),
        sha256: artifact.sha256.to_string(),
        blob: artifact.git_oid.to_string(),
        commit: artifact.commit.map(|c| c.to_string()),
        size,
        license: repo.license.clone(),
        license_tier: repo.tier.to_string(),
        language: repo.row.language.clone(),
        stars: repo.row.stars,
        is_fork: repo.row.is_fork,
        is_canonical: artifact.cluster.map(|cluster| cluster == artifact.sha256),
        cluster: artifact.cluster.map(|d| d.to_string()),
        similarity: artifact.similarity,
        split: repo.split.as_str().to_owned(),
        redactions: kinds.len() as i64,
        withheld: withheld.map(str::to_owned),
        repo: slug,
        path: artifact.path,
        platform: artifact.platform,
        target: artifact.target,
        mode: artifact.mode,
        resolves_to: artifact.resolves_to,
        encoding: artifact.encoding,
        text: None,
    };
    let redactions = kinds.iter().map(|kind| kind.as_str()).collect();
    Ok(Rows { artifact: ArtifactRecord { text: shown.map(|shown| shown.text), ..record }, items, redactions })
}

fn tag(tag: &ExportTag) -> TagRecord {
    TagRecord {
        dimension: tag.dimension.clone(),
        value: tag.value.clone(),
        rule: tag.rule.clone(),
        confidence: tag.confidence,
    }
}

/// Where a person can look at the source.
fn source_url(web: &str, repo: &Repo, artifact: &ExportArtifact) -> Option<String> {
    if repo.row.source != "github" {
        return None;
    }
    let mut path = String::with_capacity(artifact.path.len());
    for byte in artifact.path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    let at = artifact.commit.map_or_else(|| "HEAD".to_owned(), |c| c.to_string());
    Some(format!("{web}/{}/blob/{at}/{path}", repo.slug()))
}

fn items(
    repo: &Repo,
    artifact: &ExportArtifact,
    original: Option<&str>,
    shown: Option<&Redacted>,
    reading: &ExportReading,
) -> Result<Vec<ItemRecord>, RowError> {
    let Some(packed) = &reading.items else { return Ok(Vec::new()) };
    let found = segment::unpack(packed)?;
    let predicted = predictions(reading, found.items.len())?;
    let slug = repo.slug();
    let sha256 = artifact.sha256.to_string();
    let headings: Vec<String> = match shown {
        Some(shown) => found
            .headings
            .iter()
            .map(|h| shown.text.get(shown.place(h.start as usize..h.end as usize)).unwrap_or_default().to_owned())
            .collect(),
        None => Vec::new(),
    };
    let path_to = |mut next: Option<u32>| {
        let mut path = Vec::new();
        while let Some(index) = next {
            let Some(text) = headings.get(index as usize) else { break };
            path.push(text.clone());
            next = found.headings.get(index as usize).and_then(|h| h.parent);
        }
        path.reverse();
        path
    };
    let mut records = Vec::with_capacity(found.items.len());
    for (index, item) in found.items.iter().enumerate() {
        // Items of an older text or another reading of it would cut it anywhere.
        if original.is_some_and(|text| text.get(item.range()).is_none()) {
            break;
        }
        let place = shown.map(|shown| shown.place(item.range()));
        let text = place.clone().and_then(|place| shown.and_then(|shown| shown.text.get(place)));
        let predicted = predicted.as_ref().and_then(|p| p.get(index));
        records.push(ItemRecord {
            sha256: sha256.clone(),
            repo: slug.clone(),
            path: artifact.path.clone(),
            item: index as i64,
            start: place.as_ref().map(|p| p.start as i64),
            end: place.as_ref().map(|p| p.end as i64),
            line: i64::from(item.line),
            kind: item.kind.to_string(),
            heading: path_to(item.heading),
            license: repo.license.clone(),
            split: repo.split.as_str().to_owned(),
            model: predicted.and(reading.model.clone()),
            knowledge_type: predicted.map(|p| p.item_type.to_string()),
            probabilities: predicted.map(probabilities),
            // Nobody is named as speaker, so the weight of authority is one.
            risk: predicted.map(|p| p.probs.of(KnowledgeType::Constraint)),
            text: text.map(str::to_owned),
        });
    }
    Ok(records)
}

fn probabilities(prediction: &Prediction) -> Vec<ProbabilityRecord> {
    let record =
        |t: &KnowledgeType| ProbabilityRecord { knowledge_type: t.to_string(), probability: prediction.probs.of(*t) };
    KnowledgeType::ALL.iter().map(record).collect()
}

/// What a model said of each item, where it was asked about these very items.
fn predictions(reading: &ExportReading, items: usize) -> Result<Option<Vec<Prediction>>, RowError> {
    match &reading.predictions {
        Some(packed) if reading.predicted_segmenter == reading.segmenter => {
            let found = classify::pack::unpack(packed)?;
            Ok((found.len() == items).then_some(found))
        }
        _ => Ok(None),
    }
}
