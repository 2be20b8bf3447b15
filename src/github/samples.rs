//! The samples that `.ci/conform.mjs` checks against GitHub's published schemas are what is really sent. After a change
//! of a query, `AAC_WRITE_SAMPLES=1 cargo test samples` writes them anew.

use super::{HistoryAsk, RepositoryAsk, blob, content, history, recheck, repository, search_code};
use crate::corpus::GitOid;
use std::path::PathBuf;

fn matches(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/github").join(name);
    if std::env::var_os("AAC_WRITE_SAMPLES").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{} is out of date", path.display());
}

#[test]
fn the_samples_are_what_is_sent() {
    let oid = GitOid::of_blob(b"");
    let ask = |slug: &str, path: &str| RepositoryAsk {
        repository: slug.parse().unwrap(),
        blobs: vec![oid],
        trees: vec![String::new(), ".claude".to_owned()],
        paths: vec![path.to_owned()],
    };
    matches("content.graphql", &content::document(&[ask("a/b", "AGENTS.md"), ask("c/d.e", "a \"b\"\\\u{1}é/🦀.md")]));
    let blobs = RepositoryAsk { trees: Vec::new(), paths: Vec::new(), ..ask("a/b", "") };
    matches("blobs.graphql", &content::document(&[blobs]));
    let nodes = ["R_kgDOA".to_owned(), "MDEwOlJlcG9zaXRvcnkx".to_owned()];
    matches("repositories.graphql", &recheck::document(&nodes));
    let asks = [(Some(nodes[0].clone()), ask("a/b", "AGENTS.md")), (None, ask("c/d", "CLAUDE.md"))];
    matches("recheck.graphql", &recheck::document_by_id(&asks));
    let path = |slug: &str, path: &str| HistoryAsk { repository: slug.parse().unwrap(), path: path.to_owned() };
    matches("history.graphql", &history::document(&[path("a/b", "CLAUDE.md"), path("c/d", "docs/é.md")]));
    let requests = [
        search_code::search_path("filename:CLAUDE.md size:9..11 fork:only", 10),
        blob::path(&"a/b".parse().unwrap(), oid),
        repository::path(&"a/b".parse().unwrap()),
    ];
    let requests: String = requests.iter().map(|path| format!("GET {path}\n")).collect();
    matches("requests.txt", &requests);
}
