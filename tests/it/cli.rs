//! The front door as scripts see it: exit codes, one JSON document, errors that say what to do.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn aac(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aac"))
        .args(args)
        .current_dir(dir)
        .env_remove("AAC_DB")
        .env_remove("GITHUB_TOKEN")
        .env_remove("GH_TOKEN")
        .env_remove("GITHUB_API_URL")
        .env_remove("GITHUB_GRAPHQL_URL")
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn git(dir: &Path, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?}");
}

/// A folder with one repository under MIT, of three artifacts and two other files.
pub(crate) fn repositories(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("repos.jsonl"), "{\"repo\": \"owner/name\", \"license\": \"MIT\"}\n").unwrap();
    let repo = dir.join("owner+name");
    std::fs::create_dir_all(repo.join(".cursor/rules")).unwrap();
    std::fs::write(repo.join("CLAUDE.md"), "# Rules\n\n- Never push to main\n- Run `cargo test`\n").unwrap();
    std::fs::write(repo.join("AGENTS.md"), "@CLAUDE.md\n").unwrap();
    std::fs::write(repo.join(".cursor/rules/a.mdc"), "---\ndescription: a\n---\nUse tabs\n").unwrap();
    std::fs::write(repo.join("README.md"), "# Name\n").unwrap();
    std::fs::write(repo.join("GEMINI.md"), "of a platform that is off\n").unwrap();
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-qm", "first"]);
}

#[test]
fn the_bare_command_shows_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let out = aac(dir.path(), &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("aac build --sandbox"));
    assert_eq!(aac(dir.path(), &["--help"]).status.code(), Some(0));
    let typo = aac(dir.path(), &["statsu"]);
    assert_eq!(typo.status.code(), Some(2));
    assert!(text(&typo.stderr).contains("status"), "{}", text(&typo.stderr));
}

#[test]
fn a_missing_corpus_and_a_wrong_configuration_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let missing = aac(dir.path(), &["status"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("corpus.db") && text(&missing.stderr).contains("aac build"));
    std::fs::write(dir.path().join("aac.toml"), "platfroms = []\n").unwrap();
    let wrong = aac(dir.path(), &["status"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("`platfroms`") && text(&wrong.stderr).contains("`platforms`"));
    let absent = aac(dir.path(), &["--config", "no.toml", "status"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("no.toml"));
}

#[test]
fn flag_goes_before_environment_before_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("aac.toml"), "db = \"file.db\"\n").unwrap();
    let named = |args: &[&str], env: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
        command.args(args).current_dir(dir.path()).env_remove("AAC_DB");
        if let Some(db) = env {
            command.env("AAC_DB", db);
        }
        text(&command.output().unwrap().stderr)
    };
    assert!(named(&["status"], None).contains("file.db"));
    assert!(named(&["status"], Some("env.db")).contains("env.db"));
    assert!(named(&["status", "--db", "flag.db"], Some("env.db")).contains("flag.db"));
}

#[test]
fn ingest_status_and_export_print_one_json_document_each() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let json = |args: &[&str]| -> serde_json::Value {
        let out = aac(dir.path(), args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let ingested = json(&["ingest", "repos", "--json"]);
    assert_eq!((&ingested["artifacts"], &ingested["repos"]), (&3.into(), &1.into()));
    let again = json(&["ingest", "repos", "--json"]);
    assert_eq!((&again["added"], &again["blobs"], &again["unchanged_repos"]), (&0.into(), &0.into(), &1.into()));
    let status = json(&["status", "--json"]);
    assert_eq!((&status["artifacts"], &status["blobs"]), (&3.into(), &3.into()));
    let exported = json(&["export", "--out", "out", "--json"]);
    assert_eq!(exported["rows"], 3);
    assert!(dir.path().join("out/data/artifacts-00000-of-00001.parquet").exists());
    let more = json(&["ingest", "repos", "--platform", "all", "--json"]);
    assert_eq!((&more["artifacts"], &more["added"]), (&4.into(), &1.into()));
    let unknown = aac(dir.path(), &["ingest", "repos", "--platform", "clode"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("claude"));
}

#[test]
fn status_says_what_is_not_judged_and_what_to_run_next() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let status = |args: &[&str]| -> serde_json::Value {
        let out = aac(dir.path(), &[&["status", "--json"], args].concat());
        serde_json::from_slice(&out.stdout).unwrap()
    };
    assert_eq!(aac(dir.path(), &["ingest", "repos"]).status.code(), Some(0));
    let fresh = status(&[]);
    assert_eq!(fresh["stale"], serde_json::json!({ "segment": 3, "dedup": true, "tag": 3, "classify": 0 }));
    assert!(fresh["next"][0].as_str().unwrap().starts_with("aac build "), "{fresh}");
    assert_eq!(aac(dir.path(), &["build", "--from", "repos", "--out", "out"]).status.code(), Some(0));
    let judged = status(&[]);
    assert_eq!(judged["stale"], serde_json::json!({ "segment": 0, "dedup": false, "tag": 0, "classify": 0 }));
    assert!(judged["next"][0].as_str().unwrap().starts_with("aac export "), "{judged}");
    assert_eq!(aac(dir.path(), &["export", "--out", "out", "--db-copy", "copy.db"]).status.code(), Some(0));
    let copy = status(&["--db", "copy.db"]);
    let next: Vec<&str> = copy["next"].as_array().unwrap().iter().filter_map(|next| next.as_str()).collect();
    assert!(matches!(next[..], [one] if one.starts_with("aac export --db copy.db ")), "{next:?}");
}

#[test]
fn every_tag_can_be_asked_why() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    assert_eq!(aac(dir.path(), &["build", "--from", "repos", "--out", "out"]).status.code(), Some(0));
    let listed = aac(dir.path(), &["tag", "--why", "owner/name", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let tags = listed["tags"].as_array().unwrap();
    let of = |path: &str| tags.iter().filter(|tag| tag["path"] == path).collect::<Vec<_>>();
    for path in ["CLAUDE.md", "AGENTS.md"] {
        let dimensions: Vec<&str> = of(path).iter().filter_map(|tag| tag["dimension"].as_str()).collect();
        assert_eq!(dimensions, ["authorship", "function", "platform", "specificity"], "{path}");
        assert!(of(path).iter().all(|tag| tag["rule"] != "" && tag["seen"] != ""), "{listed}");
    }
    let one = aac(dir.path(), &["tag", "--why", "owner/name/CLAUDE.md"]);
    assert!(text(&one.stdout).contains("function: ") && !text(&one.stdout).contains("AGENTS.md\n"));
    let none = aac(dir.path(), &["tag", "--why", "owner/name/absent.md"]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(aac(dir.path(), &["tag", "--why", "acme"]).status.code(), Some(2));
}

#[test]
fn a_price_leaves_no_corpus_behind_and_says_that_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let out = aac(dir.path(), &["crawl", "--dry-run"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).starts_with("Nothing was searched yet"), "{}", text(&out.stdout));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn labels_of_items_are_no_labels_of_tags() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    assert_eq!(aac(dir.path(), &["ingest", "repos"]).status.code(), Some(0));
    let line = format!(r#"{{"repo":"a/b","path":"CLAUDE.md","blob":"{}","label":"constraint"}}"#, "0".repeat(40));
    std::fs::write(dir.path().join("items.jsonl"), line).unwrap();
    let out = aac(dir.path(), &["evaluate", "tags", "--gold", "items.jsonl"]);
    assert_ne!(out.status.code(), Some(0));
    assert!(text(&out.stderr).contains("items.jsonl has no label of function"), "{}", text(&out.stderr));
}

#[test]
fn a_bucket_is_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let build = aac(dir.path(), &["build", "--from", "repos", "--out", "s3://sets/one"]);
    assert_eq!(build.status.code(), Some(2));
    assert!(text(&build.stderr).contains("only `aac export` writes into a bucket"), "{}", text(&build.stderr));
    assert!(!dir.path().join("s3:").exists());
    #[cfg(not(feature = "s3"))]
    {
        let export = aac(dir.path(), &["export", "--out", "s3://sets/one"]);
        assert_eq!(export.status.code(), Some(2));
        assert!(text(&export.stderr).contains("--features s3"), "{}", text(&export.stderr));
    }
}

#[test]
fn completions_are_scripts_and_every_subcommand_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let out = aac(dir.path(), &["completions", shell]);
        assert_eq!(out.status.code(), Some(0), "{shell}");
        assert!(text(&out.stdout).contains("decompose"), "{shell}");
        if shell == "bash" {
            std::fs::write(dir.path().join("aac.bash"), &out.stdout).unwrap();
            assert!(Command::new("bash").arg("-n").arg(dir.path().join("aac.bash")).status().unwrap().success());
        }
    }
    assert!(text(&aac(dir.path(), &["man"]).stdout).starts_with(".ie"));
    assert_eq!(aac(dir.path(), &["man", "--out", "man"]).status.code(), Some(0));
    let pages = std::fs::read_dir(dir.path().join("man")).unwrap().count();
    assert!(dir.path().join("man/aac-crawl.1").exists() && pages > 20, "{pages}");
}
