//! What a refresh did, for Prometheus: the text exposition format, version 0.0.4, as the node exporter's textfile
//! collector reads it.

use super::RefreshSummary;
use crate::taxonomy::Outcome;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The metrics of a refresh of the corpus at `db`. All are gauges: each run sets them anew.
pub fn prometheus(summary: &RefreshSummary, db: &Path) -> String {
    let mut page = Page { text: String::new(), corpus: escape(&db.display().to_string()) };
    let counted = [
        ("added", summary.added),
        ("changed", summary.changed),
        ("unchanged", summary.unchanged),
        ("missed", summary.missed),
        ("gone", summary.gone),
    ];
    page.family(
        "aac_refresh_artifacts",
        "Artifacts by what became of them in the last refresh.",
        &counted.map(|(change, n)| (format!("change=\"{change}\""), n as f64)),
    );
    let repos = &summary.repositories;
    let counted = [
        ("checked", repos.checked),
        ("added", repos.added),
        ("renamed", repos.renamed),
        ("archived", repos.archived),
        ("missed", repos.missed),
        ("gone", repos.gone),
        ("empty", repos.empty),
        ("blocked", repos.blocked),
        ("private", repos.private),
    ];
    page.family(
        "aac_refresh_repositories",
        "Repositories by what became of them in the last refresh.",
        &counted.map(|(state, n)| (format!("state=\"{state}\""), n as f64)),
    );
    let all = &summary.requests_in_all;
    let counted = [("code_search", all.code_search), ("graphql", all.graphql), ("core", all.core)];
    page.family(
        "aac_refresh_requests",
        "Requests of the last refresh by rate limit.",
        &counted.map(|(resource, n)| (format!("resource=\"{resource}\""), n as f64)),
    );
    let left = &summary.carried_over;
    let counted = [("repositories", left.repositories), ("searches", left.searches)];
    page.family(
        "aac_refresh_carried_over",
        "What the last refresh left to the next.",
        &counted.map(|(what, n)| (format!("what=\"{what}\""), n as f64)),
    );
    let refused = [("primary", summary.limited.primary), ("secondary", summary.limited.secondary)];
    page.family(
        "aac_refresh_refused",
        "Requests that a limit refused.",
        &refused.map(|(limit, n)| (format!("limit=\"{limit}\""), n as f64)),
    );
    let outcomes = [Outcome::Done, Outcome::Partial, Outcome::Paused];
    page.family(
        "aac_refresh_outcome",
        "How the last refresh ended: 1 for the one that holds.",
        &outcomes.map(|outcome| (format!("outcome=\"{outcome}\""), f64::from(u8::from(outcome == summary.outcome)))),
    );
    for (name, help, value) in [
        ("aac_refresh_ratio", "Requests of the last refresh against those of a crawl.", summary.ratio),
        ("aac_refresh_not_modified", "REST answers that had not changed.", summary.not_modified as f64),
        ("aac_refresh_failed", "Things that failed singly.", summary.failed.len() as f64),
        ("aac_refresh_waited_seconds", "Seconds spent waiting for limits and retries.", summary.waited_seconds),
        ("aac_corpus_artifacts", "Artifacts in the corpus.", summary.artifacts as f64),
        (
            "aac_refresh_last_run_timestamp_seconds",
            "When the last refresh ended.",
            summary.ended_at.as_millisecond() as f64 / 1000.0,
        ),
    ] {
        page.family(name, help, &[(String::new(), value)]);
    }
    page.text
}

struct Page {
    text: String,
    corpus: String,
}

impl Page {
    fn family(&mut self, name: &str, help: &str, samples: &[(String, f64)]) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (label, value) in samples {
            let comma = if label.is_empty() { "" } else { "," };
            let _ = writeln!(self.text, "{name}{{corpus=\"{}\"{comma}{label}}} {value}", self.corpus);
        }
    }
}

/// A label value: backslash, quote and line feed are escaped.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Write `text` to `file` in one step: a collector reads the old metrics or the new, never a part.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_metrics(file: &Path, text: &str) -> std::io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = std::fs::File::create(&part)
        .and_then(|mut out| out.write_all(text.as_bytes()).and_then(|()| out.sync_all()))
        .and_then(|()| std::fs::rename(&part, file));
    if written.is_err() {
        // The error that matters is the one above.
        let _ = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_every_family_has_help_and_type() {
        let mut page = Page { text: String::new(), corpus: escape("a\"b\\c\nd") };
        page.family("x", "Help.", &[(String::new(), 1.5), ("k=\"v\"".to_owned(), 2.0)]);
        let lines = [
            "# HELP x Help.",
            "# TYPE x gauge",
            "x{corpus=\"a\\\"b\\\\c\\nd\"} 1.5",
            "x{corpus=\"a\\\"b\\\\c\\nd\",k=\"v\"} 2",
        ];
        assert_eq!(page.text, lines.join("\n") + "\n");
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("aac.prom");
        write_metrics(&file, "old\n").unwrap();
        write_metrics(&file, "new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_metrics(&dir.path().join("no/such/folder"), "x").is_err());
    }
}
