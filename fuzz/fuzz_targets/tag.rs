//! Any text under any path, with any history, is tagged; spans of evidence lie in the text. The first line is the path.
#![no_main]

use aac::corpus::CommitRecord;
use aac::tag::{Evidence, TagInput, Tagger};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    let (path, text) = data.split_once('\n').unwrap_or(("AGENTS.md", data));
    let Ok(repo) = "acme/rocket-engine".parse() else { return };
    let tagger = Tagger::shipped();
    let fact = tagger.authors.fact(&CommitRecord {
        name: path.to_owned(),
        email: path.to_owned(),
        message: text.to_owned(),
        creates: true,
        ..CommitRecord::default()
    });
    let history = [fact];
    for symlink in [false, true] {
        let tags = tagger.tag(&TagInput {
            repo: &repo,
            path,
            symlink,
            text,
            platform: None,
            history: Some(&history),
            owners: 1,
            language: None,
            line_owners: &|line| line.len() as u32 % 3,
        });
        for row in tags.rows() {
            assert!(row.confidence > 0.0 && row.confidence <= 1.0);
            if let Evidence::Span(span) = row.evidence {
                assert!(text.get(span.clone()).is_some());
            }
        }
    }
});
