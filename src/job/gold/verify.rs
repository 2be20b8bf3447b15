//! What people verify: the constraints of a text beside what a compactor made of it.

use super::GoldError;
use crate::classify::Policy;
use crate::classify::linear::shipped;
use crate::corpus::Sha256;
use crate::job::judging::now_ms;
use crate::segment::segment;
use crate::store::{CheckDocument, Store};
use crate::taxonomy::{OperatingPoint, Verdict};
use crate::triage::{Base, Tokenizer, check, guards};
use serde::Serialize;
use std::collections::HashMap;

/// Passages shown around the one that was found.
const AROUND: usize = 1;

/// What was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifySummary {
    /// Its name.
    pub name: String,
    /// Constraints to verify.
    pub constraints: usize,
    /// Whether it was there already.
    pub known: bool,
}

/// Put the constraints of `before` among what is verified, with the verdict of `aac check` on `after`, which people do
/// not see.
pub async fn add_document(store: &Store, name: &str, before: &str, after: &str) -> Result<VerifySummary, GoldError> {
    let policy = Policy::at(OperatingPoint::Safe);
    let base = Base::classify(name, before, Tokenizer::Cl100k, shipped(), &policy);
    let found = check(&base, after);
    let mut verdicts: HashMap<_, (Verdict, Option<String>)> = HashMap::new();
    for lost in found.lost {
        verdicts.insert(lost.guard.id, (Verdict::Lost, lost.nearest));
    }
    for weakened in found.weakened {
        verdicts.insert(weakened.guard.id, (Verdict::Weakened, Some(weakened.found)));
    }
    let digest = Sha256::of(format!("{}\u{0}{before}{after}", before.len()).as_bytes());
    let short = digest.to_string().chars().take(10).collect::<String>();
    let items: Vec<(String, i64, String, String, Option<String>)> = guards(&base)
        .into_iter()
        .enumerate()
        .map(|(index, guard)| {
            let (verdict, passage) = verdicts.remove(&guard.id).unwrap_or((Verdict::Preserved, None));
            let id = format!("v{short}-{index:04}");
            (id, i64::from(guard.line), guard.text, verdict.as_str().to_owned(), passage)
        })
        .collect();
    let constraints = items.len();
    let document =
        CheckDocument { name: name.to_owned(), digest, before: before.to_owned(), after: after.to_owned(), items };
    let new = store.put_check_document(&document, now_ms()).await?;
    Ok(VerifySummary { name: name.to_owned(), constraints, known: !new })
}

/// A constraint as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckView {
    /// Its name.
    pub id: String,
    /// Name of its document.
    pub document: String,
    /// 1-based line in the original.
    pub line: i64,
    /// Headings above it, outermost first.
    pub heading: Vec<String>,
    /// Its words.
    pub text: String,
    /// The compacted text, cut into passages.
    pub after: Vec<Passage>,
}

/// A passage of a compacted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Its text.
    pub text: String,
    /// Shares words with the constraint: worth reading first.
    pub near: bool,
}

/// One constraint with the compacted text, or nothing when there is none of this name.
pub async fn check_view(store: &Store, id: &str) -> Result<Option<CheckView>, GoldError> {
    let Some(item) = store.check_items().await?.into_iter().find(|item| item.id == id) else { return Ok(None) };
    let Some((before, after)) = store.check_texts(id).await? else { return Ok(None) };
    let original = segment(&item.name, &before);
    let heading = original
        .items
        .iter()
        .find(|span| before.get(span.range()) == Some(item.text.as_str()) && i64::from(span.line) == item.line)
        .map(|span| original.heading_path(span, &before).into_iter().map(str::to_owned).collect())
        .unwrap_or_default();
    let found = segment(&item.name, &after);
    let texts: Vec<&str> = found.items.iter().filter_map(|span| after.get(span.range())).collect();
    let words = crate::triage::word_set(&item.text);
    // The nearest by shared words: chosen without the automatic verdict, which would give it away.
    let shared = |text: &str| crate::triage::word_set(text).intersection(&words).count();
    let mut order: Vec<(usize, usize)> = texts.iter().map(|text| shared(text)).enumerate().collect();
    order.sort_by_key(|(index, shared)| (std::cmp::Reverse(*shared), *index));
    let near: Vec<usize> = order.iter().filter(|(_, shared)| *shared > 1).take(1 + AROUND).map(|(i, _)| *i).collect();
    let passage = |(index, text): (usize, &&str)| Passage { text: (*text).to_owned(), near: near.contains(&index) };
    Ok(Some(CheckView {
        id: item.id,
        document: item.name,
        line: item.line,
        heading,
        text: item.text,
        after: if texts.is_empty() {
            vec![Passage { text: after, near: false }]
        } else {
            texts.iter().enumerate().map(passage).collect()
        },
    }))
}
