//! Why artifacts have the tags that they have: the rule of each, and what it saw in the text.

use super::JudgeError;
use crate::corpus::{GitOid, Slug};
use crate::encoding;
use crate::store::{Store, TagListing};
use serde::{Deserialize, Serialize};

/// Characters of a text that are shown of what a rule saw.
const SHOWN: usize = 80;

/// One tag of one artifact with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedTag {
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// The question.
    pub dimension: String,
    /// The answer.
    pub value: String,
    /// The rule that gave it; its text is in `queries/tag/`.
    pub rule: String,
    /// How sure the rule is, 0 to 1.
    pub confidence: f32,
    /// Version of the tagger.
    pub version: u32,
    /// 1-based line of the text at which the rule fired; nothing where it is a fact beside the text that decided.
    pub line: Option<usize>,
    /// The passage, cut to its first line and 80 characters, or the fact.
    pub seen: String,
}

/// Evidence as `tag` stores it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Span([usize; 2]),
    Fact(String),
}

/// The tags of the present artifacts of `repo`, of the one at `path` where that is given, by path and dimension.
///
/// # Errors
/// When the corpus cannot be read, or holds evidence that no release writes.
pub async fn explain(store: &Store, repo: &Slug, path: Option<&str>) -> Result<Vec<ExplainedTag>, JudgeError> {
    let tags = store.tags(Some((&repo.key(), path))).await?;
    let mut explained = Vec::with_capacity(tags.len());
    for artifact in tags.chunk_by(|a, b| a.path == b.path) {
        let text = text(store, &artifact[0]).await?;
        for tag in artifact {
            let row = |why: String| JudgeError::Row {
                what: format!("the evidence of the {} of {}:{}", tag.dimension, tag.repo, tag.path),
                why,
            };
            let stored = serde_json::from_str(&tag.evidence).map_err(|error| row(error.to_string()))?;
            let (line, seen) = match stored {
                Stored::Fact(fact) => (None, fact),
                Stored::Span([start, end]) => {
                    let (before, rest) = text
                        .split_at_checked(start)
                        .ok_or_else(|| row(format!("byte {start} is no place in its text of {} bytes", text.len())))?;
                    let passage = rest.get(..end.saturating_sub(start)).unwrap_or(rest);
                    let first = passage.lines().next().unwrap_or_default();
                    (Some(before.matches('\n').count() + 1), first.chars().take(SHOWN).collect())
                }
            };
            explained.push(ExplainedTag {
                repo: tag.repo.clone(),
                path: tag.path.clone(),
                dimension: tag.dimension.clone(),
                value: tag.value.clone(),
                rule: tag.rule.clone(),
                confidence: tag.confidence,
                version: tag.version,
                line,
                seen,
            });
        }
    }
    Ok(explained)
}

/// The text that the rules read.
async fn text(store: &Store, tag: &TagListing) -> Result<String, JudgeError> {
    let Some(oid) = GitOid::from_slice(&tag.git_oid) else { return Ok(String::new()) };
    let Some(blob) = store.known_oids(&[oid]).await?.remove(&oid) else { return Ok(String::new()) };
    let body = store.body(blob).await?;
    Ok(encoding::decode(&body).1.map(std::borrow::Cow::into_owned).unwrap_or_default())
}
