//! Say under which licence each repository stands.

use super::judging::{JudgeError, LazyRun, PAGE};
use crate::license::{self, Evidence, Verdict};
use crate::store::{LicenseRow, LicenseSubject, RepoId, Store};
use serde_json::{Value, json};

/// What is stored of a verdict.
pub fn row(repo: RepoId, verdict: &Verdict) -> LicenseRow {
    let evidence: Vec<Value> = verdict
        .evidence
        .iter()
        .map(|evidence| match evidence {
            Evidence::Api(id) => json!({ "api": id }),
            Evidence::File { path, found, recognised } => {
                json!({ "file": path, "found": found, "recognised": recognised })
            }
        })
        .collect();
    LicenseRow {
        repo,
        tier: verdict.tier,
        spdx: verdict.expression.clone(),
        evidence: json!({ "evidence": evidence, "conflict": verdict.conflict }).to_string(),
        version: license::VERSION,
    }
}

/// Judge every repository whose verdict is missing, of another version, or no longer what the API's answer gives, except
/// where licence files were read.
/// Returns how many were written.
pub(super) async fn judge(store: &Store, run: &mut LazyRun<'_>) -> Result<u64, JudgeError> {
    let (mut after, mut written) = (0, 0);
    loop {
        let page = store.license_subjects_after(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(written) };
        after = last.id;
        let rows: Vec<LicenseRow> = page.iter().filter_map(stale).collect();
        if !rows.is_empty() {
            run.id().await?;
            store.put_licenses(&rows).await?;
            written += rows.len() as u64;
        }
    }
}

fn stale(subject: &LicenseSubject) -> Option<LicenseRow> {
    // The texts behind a verdict on licence files are not kept: ingestion, which reads them, keeps it up to date.
    if subject.license_evidence.as_deref().is_some_and(rests_on_files) {
        return None;
    }
    let row = row(RepoId(subject.id), &license::from_api(subject.license_api.as_deref()));
    (!is_stored(subject, &row)).then_some(row)
}

/// Whether `row` is what is stored.
pub(super) fn is_stored(subject: &LicenseSubject, row: &LicenseRow) -> bool {
    subject.license_version == Some(row.version)
        && subject.license_tier.as_deref() == Some(row.tier.as_str())
        && subject.license_spdx == row.spdx
        && subject.license_evidence.as_deref() == Some(&row.evidence)
}

fn rests_on_files(evidence: &str) -> bool {
    let evidence: Value = serde_json::from_str(evidence).unwrap_or_default();
    evidence["evidence"].as_array().is_some_and(|list| list.iter().any(|piece| piece.get("file").is_some()))
}
