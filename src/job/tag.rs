//! Say what each artifact is, and under which licence its repository stands.
//!
//! Tags are decided by the artifact, its repository, its history, and the corpus statistics. A tag whose rules,
//! statistics or any of the others are no longer those of today is stale; so a corpus that grew has the tags of one made
//! at once.

use super::judging::{JudgeError, LazyRun, PAGE, blocking, fit};
use super::{dedup, license};
use crate::corpus::{CommitFact, Platform, Slug};
use crate::dedup::{LineFrequencies, normalised_lines};
use crate::encoding;
use crate::monitor::Monitor;
use crate::plan::Targets;
use crate::store::{BlobId, NewTag, Store, TagSubject, TaggedArtifact};
use crate::tag::{Evidence, PlatformMatch, TAGGER_VERSION, TagInput, Tagger};
use crate::taxonomy::Function;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// What a run did, and what the corpus holds after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TagSummary {
    /// Artifacts whose tags were missing or stale.
    pub stale: u64,
    /// Of these, those tagged now.
    pub updated: u64,
    /// Licences judged now.
    pub licenses_updated: u64,
    /// Present artifacts by dimension and value.
    pub values: BTreeMap<String, BTreeMap<String, i64>>,
    /// Repositories by tier of their licence.
    pub licenses: BTreeMap<String, i64>,
    /// Digest of the statistics that the tags rest on.
    pub statistics: Option<String>,
    /// Asked to stop before the end; the same command goes on.
    pub paused: bool,
}

/// What is the same for every artifact of a run.
struct Rules {
    functions: HashMap<String, Function>,
    lines: LineFrequencies,
    /// Key of the statistics that the tags rest on.
    statistics: i64,
}

/// Tag every artifact whose tags are missing or stale. Statistics that no longer fit the corpus are brought up to date
/// first.
pub async fn tag(store: &Store, monitor: &dyn Monitor) -> Result<TagSummary, JudgeError> {
    let mut summary = TagSummary { paused: dedup::dedup(store, monitor).await?.paused, ..TagSummary::default() };
    let mut run = LazyRun::new(store, "tag");
    if !summary.paused {
        monitor.begin("tag", Some(store.counts().await?.artifacts.unsigned_abs()));
        let outcome = update(store, monitor, &mut run, &mut summary).await;
        monitor.end();
        outcome?;
    }
    for (dimension, value, count) in store.tag_counts().await? {
        summary.values.entry(dimension).or_default().insert(value, count);
    }
    summary.licenses = store.license_counts().await?.into_iter().collect();
    run.end(summary.paused, &summary).await?;
    Ok(summary)
}

async fn update(
    store: &Store,
    monitor: &dyn Monitor,
    run: &mut LazyRun<'_>,
    summary: &mut TagSummary,
) -> Result<(), JudgeError> {
    summary.licenses_updated = license::judge(store, run).await?;
    let Some(statistics) = store.statistics().await? else { return Ok(()) };
    summary.statistics = Some(statistics.digest.to_string());
    let lines = match store.line_frequencies().await? {
        Some(bytes) => LineFrequencies::from_bytes(&bytes)?,
        None => LineFrequencies::default(),
    };
    let targets = Targets::embedded()?;
    let functions = targets.all().iter().map(|t| (t.id.clone(), t.function)).collect();
    let rules = Arc::new(Rules { functions, lines, statistics: statistics.id });
    let mut next = judge(store, &rules, 0).await?;
    while let Some(page) = next {
        if monitor.stop_requested() {
            summary.paused = true;
            return Ok(());
        }
        next = if page.tagged.is_empty() {
            judge(store, &rules, page.last).await?
        } else {
            let run = run.id().await?;
            let write = store.put_tags(run, TAGGER_VERSION, statistics.id, &page.tagged);
            let (written, next) = tokio::join!(write, judge(store, &rules, page.last));
            written?;
            next?
        };
        summary.stale += page.tagged.len() as u64;
        summary.updated += page.tagged.len() as u64;
        monitor.advance(page.read);
    }
    Ok(())
}

/// Some artifacts, looked at.
struct Page {
    /// The last of them.
    last: i64,
    /// How many.
    read: u64,
    /// Tags of those whose tags are missing or stale.
    tagged: Vec<TaggedArtifact>,
}

/// Look at the artifacts that come after the artifact `after`.
async fn judge(store: &Store, rules: &Arc<Rules>, after: i64) -> Result<Option<Page>, JudgeError> {
    let mut page = store.tag_subjects_after(after, PAGE).await?;
    fit(&mut page, |subject| subject.size);
    let Some(last) = page.last().map(|subject| subject.id) else { return Ok(None) };
    let read = page.len() as u64;
    let rated = page.into_iter().map(|subject| (fingerprint(&subject, rules), subject));
    let stale: Vec<(i64, TagSubject)> = rated
        .filter(|(input, subject)| {
            (subject.tagged_version, subject.tagged_statistics, subject.tagged_input)
                != (Some(TAGGER_VERSION), Some(rules.statistics), Some(*input))
        })
        .collect();
    if stale.is_empty() {
        return Ok(Some(Page { last, read, tagged: Vec::new() }));
    }
    let ids: Vec<BlobId> = stale.iter().map(|(_, subject)| subject.blob()).collect();
    let bodies = store.bodies(&ids).await?;
    let rules = Arc::clone(rules);
    let tagged = blocking("tag artifacts", move || {
        let tag = |((input, subject), body): ((i64, TagSubject), Vec<u8>)| rules.tag(&subject, input, &body);
        stale.into_par_iter().zip(bodies).map(tag).collect::<Result<Vec<_>, _>>()
    });
    Ok(Some(Page { last, read, tagged: tagged.await?? }))
}

/// Of everything but rules, statistics and the owners they count, that the tags of an artifact are decided by.
fn fingerprint(subject: &TagSubject, rules: &Rules) -> i64 {
    let function = rules.functions.get(&subject.target).map_or("", |function| function.as_str());
    let link = if subject.mode == "symlink" { "link" } else { "" };
    let fields = [
        subject.owner.as_str(),
        &subject.name,
        subject.language.as_deref().unwrap_or_default(),
        &subject.path,
        &subject.platform,
        function,
        link,
        subject.facts.as_deref().unwrap_or_default(),
    ];
    let mut hash = Xxh3::new();
    hash.update(&subject.sha256);
    for field in fields {
        hash.update(&(field.len() as u64).to_le_bytes());
        hash.update(field.as_bytes());
    }
    hash.digest().cast_signed()
}

impl Rules {
    fn tag(&self, subject: &TagSubject, input: i64, body: &[u8]) -> Result<TaggedArtifact, JudgeError> {
        let what = || format!("{}/{}:{}", subject.owner, subject.name, subject.path);
        let broken = |why: String| JudgeError::Row { what: what(), why };
        let repo = Slug::new(&subject.owner, &subject.name).map_err(|e| broken(e.to_string()))?;
        let history: Option<Vec<CommitFact>> = subject
            .facts
            .as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|e| broken(format!("its history is no list of commit facts: {e}")))?;
        let platform = Platform(subject.platform.clone());
        let text = encoding::decode(body).1.unwrap_or_default();
        let line_owners = |line: &str| normalised_lines(line).next().map_or(0, |line| self.lines.of_line(&line));
        let symlink = subject.mode == "symlink";
        let tags = Tagger::shipped().tag(&TagInput {
            repo: &repo,
            path: &subject.path,
            symlink,
            text: &text,
            platform: Some(PlatformMatch {
                platform: &platform,
                function: self.functions.get(&subject.target).copied(),
            }),
            history: history.as_deref(),
            owners: subject.owners.unwrap_or(0),
            language: subject.language.as_deref(),
            line_owners: &line_owners,
        });
        let rows = tags.rows().map(|row| NewTag {
            dimension: row.dimension,
            value: row.value.to_owned(),
            rule: row.rule.to_owned(),
            evidence: match row.evidence {
                Evidence::Span(span) => json!({ "span": [span.start, span.end] }),
                Evidence::Fact(fact) => json!({ "fact": fact }),
            }
            .to_string(),
            confidence: row.confidence,
        });
        let rows = rows.collect();
        let moved = !symlink && subject.resolves_to != tags.resolves_to;
        Ok(TaggedArtifact { artifact: subject.id, input, tags: rows, resolves_to: moved.then_some(tags.resolves_to) })
    }
}
