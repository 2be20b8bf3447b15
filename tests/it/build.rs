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
    let second = built(dir.path(), &args);
    assert_eq!(second["artifacts"], first["artifacts"]);
    assert_eq!(second["blobs"], first["blobs"]);
    assert_eq!(step(&second, "segment")["updated"], 0);
    assert_eq!(step(&second, "classify")["updated"], 0);
    let shard = |out: &str| {
        let export = aac(dir.path(), &["export", "--out", out, "--json"]);
        assert_eq!(export.status.code(), Some(0), "{}", text(&export.stderr));
        std::fs::read(dir.path().join(out).join("data/artifacts-00000-of-00001.parquet")).unwrap()
    };
    assert!(shard("one") == shard("two"), "the same corpus gives the same shard");
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

/// `aac build` in `dir` with a token that no server must ever see.
fn build_with_token(dir: &Path) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_aac"))
        .args(["build", "--out", "out", "--json"])
        .env("GITHUB_TOKEN", "never-sent")
        // A crawl would fail here: nothing listens.
        .env("GITHUB_API_URL", "http://127.0.0.1:9/api/v3")
        .env_remove("AAC_DB")
        .current_dir(dir)
        .output()
        .unwrap()
}

#[test]
fn a_build_takes_a_whole_corpus_as_it_is_and_says_what_collects_more() {
    let crawled = tempfile::tempdir().unwrap();
    std::fs::write(crawled.path().join("aac.toml"), "[crawl]\nforks = true\n").unwrap();
    let whole = built(crawled.path(), &["build", "--sandbox", "--artifacts", "60", "--out", "out", "--json"]);
    let local = tempfile::tempdir().unwrap();
    repositories(&local.path().join("repos"));
    let made = built(local.path(), &["build", "--from", "repos", "--out", "out", "--json"]);
    for (dir, before, hint) in [(&crawled, whole, "aac refresh"), (&local, made, "--from DIR")] {
        let out = build_with_token(dir.path());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(hint), "{}", text(&out.stderr));
        let after: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(after["artifacts"], before["artifacts"]);
        let steps: Vec<&str> =
            after["steps"].as_array().unwrap().iter().filter_map(|step| step["name"].as_str()).collect();
        assert_eq!(steps, ["segment", "dedup", "tag", "classify", "export", "report"]);
    }
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

/// The settings that the README names load, and what they say reaches the server.
#[test]
fn the_example_limits_and_faults_can_be_served() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sandbox");
    let mut server = Command::new(env!("CARGO_BIN_EXE_aac"))
        .args(["sandbox", "serve", "--synthetic", "50", "--json", "--limits"])
        .arg(fixtures.join("limits.toml"))
        .arg("--faults")
        .arg(fixtures.join("faults.toml"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = lines_until(server.stderr.take().unwrap(), "Serving");
    signal(&server, "-TERM");
    let out = server.wait_with_output().unwrap();
    assert!(said.is_some(), "{}", text(&out.stdout));
    assert_eq!(out.status.code(), Some(0));
    let served: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(served["api_url"].as_str().unwrap().starts_with("http://127.0.0.1:"));

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("limits.toml"), "[code_serch]\nlimit = 1\n").unwrap();
    let wrong = aac(dir.path(), &["sandbox", "serve", "--limits", "limits.toml"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("limits.toml") && text(&wrong.stderr).contains("code_serch"));
}

#[test]
fn an_interrupted_build_says_how_to_go_on_and_the_same_command_does() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["build", "--sandbox", "--artifacts", "400", "--out", "out", "--json"];
    let mut running = Command::new(env!("CARGO_BIN_EXE_aac"))
        .args(args)
        .current_dir(dir.path())
        .env_remove("AAC_DB")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let before = lines_until(running.stderr.take().unwrap(), "search");
    signal(&running, "-INT");
    let out = running.wait_with_output().unwrap();
    assert!(before.is_some(), "the search began");
    assert_eq!(out.status.code(), Some(5), "{}", text(&out.stdout));
    let finished = built(dir.path(), &args);
    let whole = tempfile::tempdir().unwrap();
    let unbroken = built(whole.path(), &args);
    for count in ["artifacts", "blobs", "repos"] {
        assert_eq!(finished[count], unbroken[count], "{count}");
    }
}

/// Reads until a line holds `word`, then keeps the pipe drained in a thread of its own, so that the writer never blocks.
fn lines_until(stderr: impl std::io::Read + Send + 'static, word: &str) -> Option<String> {
    use std::io::BufRead as _;
    let mut lines = std::io::BufReader::new(stderr).lines();
    let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(word));
    std::thread::spawn(move || lines.for_each(drop));
    found
}

fn signal(child: &std::process::Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}
