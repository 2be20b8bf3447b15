//! The main job: one command from nothing to shards, on a generated corpus and on real repositories.

use crate::cli::{aac, repositories, text};
use std::path::{Path, PathBuf};
use std::process::Command;

fn built(dir: &Path, args: &[&str]) -> serde_json::Value {
    let out = aac(dir, args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn shards(summary: &serde_json::Value) -> Vec<PathBuf> {
    summary["shards"].as_array().unwrap().iter().map(|s| PathBuf::from(s.as_str().unwrap())).collect()
}

/// A python with pyarrow, named by `AAC_PYTHON`.
fn python() -> Option<String> {
    let python = std::env::var("AAC_PYTHON").ok();
    if python.is_none() {
        eprintln!("SKIPPED: set AAC_PYTHON to a python with pyarrow to read the shards with it");
    }
    python
}

#[test]
fn build_from_repositories_ends_with_a_shard_that_pyarrow_reads() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let summary = built(dir.path(), &["build", "--from", "repos", "--out", "out", "--json"]);
    assert_eq!((&summary["artifacts"], &summary["repos"]), (&3.into(), &1.into()));
    let shards = shards(&summary);
    assert!(!shards.is_empty() && shards.iter().all(|s| dir.path().join(s).exists()), "{shards:?}");
    let Some(python) = python() else { return };
    let script = "import sys, pyarrow.parquet as pq\nt = pq.read_table(sys.argv[1])\nassert t.num_rows == 3, t.num_rows\nrows = {r['path']: r for r in t.to_pylist()}\nassert rows['CLAUDE.md']['text'] == '# Rules\\n\\n- Never push to main\\n- Run `cargo test`\\n'\nassert rows['AGENTS.md']['platform'] == 'universal'\nassert str(t.schema.field('text').type) == 'string' and not t.schema.field('path').nullable\n";
    let shard = shards.iter().find(|s| s.to_string_lossy().contains("artifacts-")).unwrap();
    let out = Command::new(python).args(["-c", script]).arg(dir.path().join(shard)).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn a_build_of_the_sandbox_goes_through_and_a_second_one_asks_for_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["build", "--sandbox", "--artifacts", "300", "--out", "out", "--json"];
    let first = built(dir.path(), &args);
    assert!(first["artifacts"].as_i64().unwrap() > 100, "{first}");
    let step = |summary: &serde_json::Value, name: &str| {
        summary["steps"].as_array().unwrap().iter().find(|s| s["name"] == name).cloned().unwrap()
    };
    assert!(step(&first, "crawl")["requests"]["code_search"].as_i64().unwrap() > 0);
    assert_eq!(step(&first, "export")["rows"], first["artifacts"]);
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let shard = "out/data/artifacts-00000-of-00001.parquet";
    let before = bytes(shard);
    let second = built(dir.path(), &args);
    assert_eq!(second["artifacts"], first["artifacts"]);
    assert_eq!(second["blobs"], first["blobs"]);
    assert!(bytes(shard) == before, "the same corpus gives the same shard");
}

#[test]
fn a_corpus_is_kept_to_one_service() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["build", "--sandbox", "--artifacts", "60", "--out", "out", "--json"]);
    let out = Command::new(env!("CARGO_BIN_EXE_aac"))
        .args(["crawl"])
        .env("GITHUB_TOKEN", "never-sent")
        .env_remove("GITHUB_API_URL")
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("the sandbox") && text(&out.stderr).contains("--db"));
    assert!(!text(&out.stderr).contains("never-sent"));
}

#[test]
fn a_build_without_credentials_says_what_else_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = aac(dir.path(), &["build"]);
    assert_eq!(out.status.code(), Some(2));
    for word in ["GITHUB_TOKEN", "--from", "--sandbox"] {
        assert!(text(&out.stderr).contains(word), "{}", text(&out.stderr));
    }
}
