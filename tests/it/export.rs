//! What an export gives away and what it keeps back, that it is the same every time, and that everybody can read it.

use aac::classify::Thresholds;
use aac::corpus::{GitOid, Platform};
use aac::encoding;
use aac::job::export::{self, ExportError, ExportOptions, Tier};
use aac::job::model::{FoundModel, ModelPlaces, find_model};
use aac::job::{classify, dedup, segment, tag};
use aac::monitor::Silent;
use aac::parquet::ShardOptions;
use aac::redact;
use aac::store::{ArtifactRow, Codec, RepoFacts, RepoRow, RunId, Store};
use aac::taxonomy::{FileMode, Outcome, RepoSource};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const MAIL: &str = "# Rules\n\n- Never push to main\n- Write to ann@corp-mail.com before a release\n";
const LONG: &str = "# Build\n\nRun `make all` before each commit, and never touch the generated files in `gen/`.\n";

/// (repository, licence, stars, path, text), in the order of an export.
type Row = (&'static str, Option<&'static str>, Option<i64>, &'static str, &'static str);
const ARTIFACTS: [Row; 7] = [
    ("a/free", Some("MIT"), None, "AGENTS.md", MAIL),
    ("a/free", Some("MIT"), None, "CLAUDE.md", "@AGENTS.md\n"),
    ("a/gpl", Some("GPL-3.0"), None, "CLAUDE.md", LONG),
    ("b/none", None, Some(3), "AGENTS.md", MAIL),
    ("b/none", None, Some(3), "CLAUDE.md", "- Second rule of another text, \"quoted\" and ünïcode\n"),
    ("c/apache", Some("Apache-2.0"), Some(9), "AGENTS.md", LONG),
    ("c/apache", Some("Apache-2.0"), Some(9), "CLAUDE.md", ""),
];

async fn put(store: &Store, run: RunId, row: &(&str, Option<&str>, Option<i64>, &str, &str)) {
    let (slug, license, stars, path, text) = row;
    let facts = RepoFacts { license_api: license.map(str::to_owned), stars: *stars, ..RepoFacts::default() };
    let repo =
        RepoRow { node_id: None, slug: slug.parse().unwrap(), source: RepoSource::Local, facts, facts_at: Some(1) };
    let repo = store.put_repos(run, &[repo]).await.unwrap()[0];
    let blob = store.put_blobs(run, &[Codec::plain().packer().encode(text.as_bytes()).unwrap()]).await.unwrap()[0];
    let artifact = ArtifactRow {
        repo,
        path: (*path).to_owned(),
        platform: Platform("universal".to_owned()),
        target: "universal/agents".to_owned(),
        mode: FileMode::File,
        resolves_to: None,
        blob,
        commit: Some(GitOid::of_blob(b"commit")),
    };
    store.put_artifacts(run, &[artifact]).await.unwrap();
}

/// A corpus of [`ARTIFACTS`], put in forwards or backwards.
pub(crate) async fn corpus(path: &Path, backwards: bool) -> Store {
    let store = Store::create(path).await.unwrap();
    let run = store.begin_run("ingest", &json!({}), 1_000_000).await.unwrap();
    let mut rows = ARTIFACTS.to_vec();
    if backwards {
        rows.reverse();
    }
    for row in &rows {
        put(&store, run, row).await;
    }
    store.end_run(run, Outcome::Done, &json!({}), 1_000_000).await.unwrap();
    let monitor = Silent::default();
    segment::segment(&store, &monitor).await.unwrap();
    dedup::dedup(&store, &monitor).await.unwrap();
    tag::tag(&store, &monitor).await.unwrap();
    store
}

pub(crate) fn options(out: &Path) -> ExportOptions {
    // One row group a shard, so that a column is empty in one and not in the next.
    let shards = ShardOptions { group_rows: 2, shard_bytes: 1, ..ShardOptions::default() };
    ExportOptions { shards, ..ExportOptions::new(out.to_owned()) }
}

/// Every file but those that name the time of the last run.
fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            files(&path, &format!("{name}/"), found);
        } else if !["README.md", "manifest.json", "croissant.json"].contains(&name.as_str()) {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn manifest(out: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn the_same_corpus_gives_the_same_bytes_whatever_the_order_of_arrival() {
    let dir = tempfile::tempdir().unwrap();
    let mut sets = Vec::new();
    for backwards in [false, true] {
        let store = corpus(&dir.path().join(format!("{backwards}.db")), backwards).await;
        for name in ["one", "two"] {
            let out = dir.path().join(format!("{backwards}-{name}"));
            export::export(&store, &options(&out), &Silent::default()).await.unwrap();
            let mut found = BTreeMap::new();
            files(&out, "", &mut found);
            sets.push((found, std::fs::read(out.join("manifest.json")).unwrap()));
        }
    }
    assert!(sets[0].0.keys().filter(|name| name.ends_with(".parquet")).count() > 8);
    assert_eq!(sets[0], sets[1], "two exports of one corpus");
    for (name, bytes) in &sets[0].0 {
        assert!(sets[2].0[name] == *bytes, "{name} depends on the order of arrival");
    }
    assert_eq!(sets[0].0.len(), sets[2].0.len());
}

#[tokio::test]
async fn licences_redaction_and_optouts_decide_what_is_given_away() {
    let dir = tempfile::tempdir().unwrap();
    let (db, out) = (dir.path().join("c.db"), dir.path().join("out"));
    let store = corpus(&db, false).await;
    let summary = export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    assert_eq!((summary.rows, summary.withheld["license"], summary.redactions["email"]), (7, 3, 1));
    let found = manifest(&out);
    assert_eq!(found["funnel"]["found"], 7);
    assert_eq!(found["funnel"]["distinct"], 5);
    assert_eq!(found["funnel"]["with_text"], 4);
    for file in found["files"].as_array().unwrap() {
        let bytes = std::fs::read(out.join(file["path"].as_str().unwrap())).unwrap();
        assert_eq!(file["sha256"], aac::corpus::Sha256::of(&bytes).to_string());
    }
    let attribution = std::fs::read_to_string(out.join("attribution.csv")).unwrap();
    assert_eq!(attribution.lines().count(), 5, "{attribution}");
    let card = std::fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("Not for publication") && !card.contains("{{"), "{card}");

    // Not even a search of the raw bytes finds what was not to be given away.
    let plain = ShardOptions { level: 1, ..ShardOptions::default() };
    let own = ExportOptions { tier: Tier::Own, own: vec!["b".to_owned()], shards: plain, ..options(&out) };
    let summary = export::export(&store, &own, &Silent::default()).await.unwrap();
    assert_eq!((summary.withheld["license"], summary.redactions["email"]), (5, 1));

    let run = store.begin_run("optout", &json!({}), 2_000_000).await.unwrap();
    let key = aac::store::OptOutKey::repo(&"c/apache".parse().unwrap());
    store.add_opt_out(run, &key, "asked", 2_000_000).await.unwrap();
    let summary = export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    assert_eq!(summary.rows, 5);
    assert!(!std::fs::read_to_string(out.join("attribution.csv")).unwrap().contains("c/apache"));
}

#[tokio::test]
async fn an_earlier_state_comes_back_and_says_how_it_differs() {
    let dir = tempfile::tempdir().unwrap();
    let (out, then) = (dir.path().join("out"), dir.path().join("then"));
    let store = corpus(&dir.path().join("c.db"), false).await;
    export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    let run = store.begin_run("refresh", &json!({}), now + 1_000).await.unwrap();
    put(&store, run, &("a/free", Some("MIT"), None, "CLAUDE.md", "- Another text, long enough to say something\n"))
        .await;
    put(&store, run, &("d/new", Some("MIT"), None, "CLAUDE.md", LONG)).await;
    let summary = export::export(&store, &options(&then), &Silent::default()).await.unwrap();
    assert_eq!((summary.rows, summary.configs["occurrences"]), (8, 9));
    let since = ExportOptions { since: Some(RunId(run.0 - 1)), ..options(&then) };
    assert_eq!(export::export(&store, &since, &Silent::default()).await.unwrap().rows, 2);
    let back = ExportOptions { as_of: Some(now), ..options(&then) };
    let summary = export::export(&store, &back, &Silent::default()).await.unwrap();
    assert_eq!((summary.rows, summary.configs["occurrences"]), (7, 7));
    assert!(!summary.differs_from_as_of.is_empty());
    let artifacts = |folder: &Path| std::fs::read(folder.join("data/artifacts-00000-of-00004.parquet")).unwrap();
    assert_eq!(artifacts(&out), artifacts(&then));
    let before = ExportOptions { as_of: Some(5), ..options(&then) };
    let error = export::export(&store, &before, &Silent::default()).await.unwrap_err();
    assert!(matches!(error, ExportError::Unknown { .. }), "{error}");
}

#[tokio::test]
async fn a_stopped_export_leaves_the_set_before() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let store = corpus(&dir.path().join("c.db"), false).await;
    export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    let before = std::fs::read(out.join("manifest.json")).unwrap();
    let stopped = Silent::default();
    stopped.stop();
    let own = ExportOptions { tier: Tier::AllMetadata, ..options(&out) };
    assert!(matches!(export::export(&store, &own, &stopped).await, Err(ExportError::Stopped)));
    assert_eq!(std::fs::read(out.join("manifest.json")).unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(), 1);
}

/// The classifier of the set is the one that was found, with its card; predictions of another one are named.
#[tokio::test]
async fn the_model_that_was_found_travels_with_the_set() {
    let dir = tempfile::tempdir().unwrap();
    let (out, found) = (dir.path().join("out"), dir.path().join("model"));
    let store = corpus(&dir.path().join("c.db"), false).await;
    let shipped = FoundModel::compiled_in().model;
    classify::classify(&store, shipped.clone(), &Silent::default()).await.unwrap();
    std::fs::create_dir(&found).unwrap();
    let other =
        aac::classify::linear::shipped().clone().with_thresholds(Thresholds { balanced: 0.5, safe: 0.1 }, json!({}));
    std::fs::write(found.join("model.json"), other.description_json().unwrap()).unwrap();
    std::fs::write(found.join("model.safetensors"), other.tensors()).unwrap();
    let places = ModelPlaces { named: Some(found.clone()), ..ModelPlaces::default() };
    let with = ExportOptions { model: find_model(&places).unwrap(), ..options(&out) };
    export::export(&store, &with, &Silent::default()).await.unwrap();
    let read = |path: std::path::PathBuf| std::fs::read(path).unwrap();
    for name in ["model.json", "model.safetensors"] {
        assert_eq!(read(out.join("classifier/linear").join(name)), read(found.join(name)));
    }
    let missing = manifest(&out)["missing"].to_string();
    assert!(missing.contains("No card of the classifier"), "{missing}");
    std::fs::write(found.join("README.md"), "# Ours\n").unwrap();
    export::export(&store, &with, &Silent::default()).await.unwrap();
    assert_eq!(std::fs::read_to_string(out.join("classifier/README.md")).unwrap(), "# Ours\n");
    assert!(!manifest(&out)["missing"].to_string().contains("No card"));
    export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    assert!(std::fs::read_to_string(out.join("classifier/README.md")).unwrap().contains("The shipped classifier"));
    assert_eq!(manifest(&out)["model"]["predictions"], true);
}

/// pyarrow, duckdb, polars, pandas, datasets and mlcroissant; where `AAC_PYTHON` names an interpreter that has them.
#[tokio::test]
async fn every_reader_loads_the_set_and_finds_what_the_store_holds() {
    let Some(python) = std::env::var_os("AAC_PYTHON") else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let store = corpus(&dir.path().join("c.db"), false).await;
    let gold = "INSERT INTO gold_item (id, repo, path, blob_oid, blob_id, line, start, stop, kind, heading, text_sha256) \
                SELECT 'g', 'a/free', 'AGENTS.md', git_oid, id, 3, 11, 29, 'list', 'Rules', sha256 FROM blob WHERE size = ";
    let gold = format!("{gold}{}", MAIL.len());
    crate::export_copy::sqlx_exec(&store, &[&gold]).await;
    let summary = export::export(&store, &options(&out), &Silent::default()).await.unwrap();
    assert_eq!(summary.configs["gold"], 1);
    let mut digest = Sha256::new();
    for (_, license, _, _, text) in ARTIFACTS {
        if matches!(license, Some("MIT" | "Apache-2.0")) {
            let (_, text) = encoding::decode(text.as_bytes());
            let text = text.unwrap();
            digest.update(redact::apply(&text, &redact::spans(&text)).as_bytes());
            digest.update(b"\0");
        } else {
            digest.update(b"\x01");
        }
    }
    let texts: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = dir.path().join("expected.json");
    std::fs::write(&expected, json!({ "rows": summary.configs, "texts": texts }).to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/readers.py");
    let ran = Command::new(python).arg(script).arg(&out).arg(&expected).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
