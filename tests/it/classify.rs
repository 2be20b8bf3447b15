//! Classifying files and a corpus, finding the texts of labels, refitting and scoring: what the commands and the jobs do
//! together.

use crate::cli::{repositories, text};
use aac::classify::linear::shipped;
use aac::classify::pack::Prediction;
use aac::classify::rules::RegexRules;
use aac::classify::{Classifier, Policy};
use aac::corpus::{GitOid, ItemContext, Platform, Sha256};
use aac::job::classify::{classify, predictions};
use aac::job::hydrate::{Missing, TextSource, hydrate};
use aac::job::segment::{segment, segmentations};
use aac::monitor::Silent;
use aac::store::{ArtifactRow, BlobId, Codec, RepoFacts, RepoRow, Store};
use aac::taxonomy::{FileMode, OperatingPoint, RepoSource};
use aac::train::labels::parse_labels;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

const RULES: &str =
    "# Rules\n\n- Never push to main\n- Run `cargo test` before a commit\n\nThe parser is in `src/parse.rs`.\n";

/// The program in `dir`, with a data folder of its own; `stdin` is what it reads.
fn aac(dir: &Path, args: &[&str], stdin: &str, model: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command.args(args).current_dir(dir).env("XDG_DATA_HOME", dir.join("data")).env_remove("AAC_DB");
    match model {
        Some(model) => command.env("AAC_MODEL", model),
        None => command.env_remove("AAC_MODEL"),
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

#[track_caller]
fn ok_json(dir: &Path, args: &[&str]) -> Value {
    let out = aac(dir, args, "", None);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_file_is_classified_as_text_json_and_lines_alike() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), RULES).unwrap();
    let whole = ok_json(dir.path(), &["classify", "AGENTS.md", "--json"]);
    assert_eq!((&whole["model"]["tier"], &whole["classifier"]), (&json!("linear"), &json!("trained")));
    assert_eq!(whole["model"]["hash"], json!(shipped().hash().to_string()));
    let items = whole["items"].as_array().unwrap();
    let lines: Vec<u64> = items.iter().map(|i| i["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 4, 6]);
    assert_eq!(
        (&items[0]["text"], &items[0]["type"], &items[0]["pinned"]),
        (&json!("Never push to main"), &json!("constraint"), &json!(true))
    );
    for item in items {
        let sum: f64 = item["probs"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5 && !item["why"].as_array().unwrap().is_empty(), "{item}");
        assert_eq!(item["risk"], item["probs"]["constraint"], "nobody is named as speaker");
    }
    let streamed = aac(dir.path(), &["classify", "AGENTS.md", "--jsonl"], "", None);
    let streamed: Vec<Value> = text(&streamed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&streamed, items);
    let shown = aac(dir.path(), &["classify", "AGENTS.md", "--why"], "", None);
    let shown = text(&shown.stdout);
    assert!(shown.contains("Never push to main") && shown.lines().all(|l| l.chars().count() <= 80), "{shown}");
    let piped = aac(dir.path(), &["classify", "-", "--json"], RULES, None);
    let piped: Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(piped["items"].as_array().unwrap().len(), 3);
    assert_eq!(aac(dir.path(), &["classify", "absent.md"], "", None).status.code(), Some(1));
}

#[test]
fn the_point_and_the_speaker_move_the_pins_and_not_the_types() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), RULES).unwrap();
    let with = |more: &[&str]| ok_json(dir.path(), &[&["classify", "AGENTS.md", "--json"], more].concat());
    let column = |whole: &Value, key: &str| -> Vec<Value> {
        whole["items"].as_array().unwrap().iter().map(|i| i[key].clone()).collect()
    };
    let safe = with(&[]);
    let system = with(&["--authority", "sys"]);
    for (plain, weighed) in column(&safe, "risk").iter().zip(column(&system, "risk")) {
        assert!((weighed.as_f64().unwrap() - 1.5 * plain.as_f64().unwrap()).abs() < 1e-6);
    }
    assert_eq!(column(&with(&["--threshold", "0"]), "pinned"), [true, true, true]);
    assert_eq!(column(&with(&["--threshold", "1"]), "pinned"), [false, false, false]);
    assert_eq!(column(&with(&["--threshold", "1", "--abstain-below", "1"]), "pinned"), [true, true, true]);
    let balanced = with(&["--point", "balanced"]);
    assert!(balanced["threshold"].as_f64() > safe["threshold"].as_f64());
    assert_eq!(column(&balanced, "type"), column(&system, "type"));
    std::fs::write(dir.path().join("aac.toml"), "[classify.authority]\nsys = 2.0\n").unwrap();
    for (plain, weighed) in column(&safe, "risk").iter().zip(column(&with(&["--authority", "sys"]), "risk")) {
        assert!((weighed.as_f64().unwrap() - 2.0 * plain.as_f64().unwrap()).abs() < 1e-6);
    }
}

#[test]
fn a_variant_that_cannot_answer_says_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), RULES).unwrap();
    for (name, needs) in [
        ("llm", "a language model"),
        ("encoder", "a sentence encoder"),
        ("cascade", "a sentence encoder and a language model"),
        ("tree", "the names are regex"),
    ] {
        let out = aac(dir.path(), &["classify", "AGENTS.md", "--classifier", name], "", None);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{name}");
        assert!(text(&out.stderr).contains(needs), "{}", text(&out.stderr));
    }
    let regex = ok_json(dir.path(), &["classify", "AGENTS.md", "--classifier", "regex", "--json"]);
    assert_eq!(
        (&regex["model"]["tier"], &regex["items"][0]["why"][0]["what"]),
        (&json!("regex"), &json!("forbids: never"))
    );
}

/// Files of one repository each, in the order given.
async fn add(store: &Store, files: &[(&str, &str, &str)]) {
    let run = store.begin_run("test", &json!({}), 1).await.unwrap();
    for (slug, path, body) in files {
        let row = RepoRow {
            node_id: None,
            slug: slug.parse().unwrap(),
            source: RepoSource::Local,
            facts: RepoFacts::default(),
            facts_at: Some(1),
        };
        let repo = store.put_repos(run, &[row]).await.unwrap()[0];
        let encoded = Codec::plain().encode_all(&[body.as_bytes().to_vec()]).unwrap();
        let blob = store.put_blobs(run, &encoded).await.unwrap()[0];
        let artifact = ArtifactRow {
            repo,
            path: (*path).to_owned(),
            platform: Platform("claude".to_owned()),
            target: "claude/context".to_owned(),
            mode: FileMode::File,
            resolves_to: None,
            blob,
            commit: None,
        };
        store.put_artifacts(run, &[artifact]).await.unwrap();
    }
}

async fn all_predictions(store: &Store) -> BTreeMap<Sha256, Vec<Prediction>> {
    let blobs = store.blobs_after(BlobId(0), 1_000).await.unwrap();
    let ids: Vec<BlobId> = blobs.iter().map(|b| b.id).collect();
    let mut found = predictions(store, &ids).await.unwrap();
    blobs.into_iter().filter_map(|b| Some((b.sha256, found.remove(&b.id)?))).collect()
}

#[tokio::test]
async fn a_corpus_is_classified_once_whatever_came_first_and_again_when_something_changed() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("a/one", "AGENTS.md", RULES),
        ("b/two", "docs/CLAUDE.md", RULES),
        ("c/three", "CLAUDE.md", "Prefer short names.\n\nNever log a password.\n"),
        ("d/four", "CLAUDE.md", ""),
        ("e/five", ".claude/settings.json", "{\"hooks\": {}}"),
    ];
    let first = Store::create(&dir.path().join("first.db")).await.unwrap();
    add(&first, &files).await;
    let model: Arc<dyn Classifier> = Arc::new(shipped().clone());
    let monitor = Silent::default();
    let early = classify(&first, model.clone(), &monitor).await.unwrap();
    assert_eq!((early.stale, early.unsegmented, early.items), (0, 4, 0), "nothing is guessed of texts without items");
    segment(&first, &monitor).await.unwrap();
    let stopped = Silent::default();
    stopped.stop();
    let paused = classify(&first, model.clone(), &stopped).await.unwrap();
    assert!(paused.paused && paused.updated == 0);
    let done = classify(&first, model.clone(), &monitor).await.unwrap();
    assert_eq!((done.stale, done.updated, done.unsegmented, done.items), (4, 4, 0, 5));
    assert_eq!(done.types.values().sum::<u64>(), 5);
    let runs = first.runs().await.unwrap().len();
    let again = classify(&first, model.clone(), &monitor).await.unwrap();
    assert_eq!((again.stale, &again.types, again.pinned), (0, &done.types, done.pinned));
    assert_eq!(first.runs().await.unwrap().len(), runs, "a run that does nothing leaves no trace");

    let mut reversed = files;
    reversed.reverse();
    let second = Store::create(&dir.path().join("second.db")).await.unwrap();
    add(&second, &reversed).await;
    segment(&second, &monitor).await.unwrap();
    classify(&second, model.clone(), &monitor).await.unwrap();
    let held = all_predictions(&first).await;
    assert_eq!(held, all_predictions(&second).await);

    // What is stored is what the classifier says of the item in its place.
    let blobs = first.blobs_after(BlobId(0), 10).await.unwrap();
    let rules = blobs.iter().find(|b| b.sha256 == Sha256::of(RULES.as_bytes())).unwrap();
    let spans = &segmentations(&first, &[rules.id]).await.unwrap()[&rules.id];
    let slice = |i: usize| &RULES[spans.items[i].range()];
    let item = ItemContext {
        text: slice(1),
        kind: Some(spans.items[1].kind),
        heading: &["Rules"],
        path: "AGENTS.md",
        before: Some(slice(0)),
        after: Some(slice(2)),
    };
    let decision = model.decide_unexplained(&item, &Policy::at(OperatingPoint::Safe));
    let stored = held[&rules.sha256][1];
    assert_eq!((stored.item_type, stored.pinned), (decision.item_type, decision.pinned));
    for (a, b) in stored.probs.as_array().iter().zip(decision.probs.as_array()) {
        assert!((a - b).abs() < 0.01);
    }

    let other = classify(&first, Arc::new(RegexRules), &monitor).await.unwrap();
    assert_eq!((other.stale, other.updated), (4, 4), "another model answers anew");
    assert_ne!(all_predictions(&first).await, held);
    classify(&first, model.clone(), &monitor).await.unwrap();
    // A path that sorts before moves what the text is read as.
    add(&first, &[("f/six", "A.md", RULES)]).await;
    segment(&first, &monitor).await.unwrap();
    assert_eq!(classify(&first, model, &monitor).await.unwrap().updated, 1);
    assert_eq!(first.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn labels_find_their_texts_in_a_corpus_and_in_repositories_or_say_why_not() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let body = std::fs::read(dir.path().join("repos/owner+name/CLAUDE.md")).unwrap();
    let gemini = std::fs::read(dir.path().join("repos/owner+name/GEMINI.md")).unwrap();
    let label = |repo: &str, path: &str, blob: GitOid, line: u32, sha: Option<Sha256>| {
        json!({"id": "x", "repo": repo, "path": path, "blob": blob, "line": line, "text_sha256": sha, "label": "C"})
            .to_string()
    };
    let lines = [
        label("owner/name", "CLAUDE.md", GitOid::of_blob(&body), 9, Some(Sha256::of(b"Never push to main"))),
        label("owner/name", "CLAUDE.md", GitOid::of_blob(&body), 4, Some(Sha256::of(b"gone"))),
        label("owner/name", "CLAUDE.md", GitOid::of_blob(&body), 77, None),
        label("Owner/Name", "GEMINI.md", GitOid::of_blob(&gemini), 1, None),
        label("owner/other", "CLAUDE.md", GitOid::of_blob(b"elsewhere"), 1, None),
        json!({"text": "Mine", "label": "B"}).to_string(),
    ];
    let labels = dir.path().join("labels.jsonl");
    std::fs::write(&labels, lines.join("\n")).unwrap();
    let records = parse_labels("labels.jsonl", &lines.join("\n")).unwrap();

    let here = TextSource::Repositories(vec![dir.path().join("repos")]);
    let (found, summary) = hydrate(records.clone(), &here, &Silent::default()).await.unwrap();
    assert_eq!((summary.with_text, summary.by_hash, summary.by_line), (1, 1, 2));
    assert_eq!(summary.missing, BTreeMap::from([(Missing::NoRepository, 1), (Missing::NoItem, 1)]));
    assert_eq!(found[0].text.as_deref(), Some("Never push to main"));
    assert_eq!(
        (found[0].heading.as_slice(), found[0].after.as_deref()),
        (&["Rules".to_owned()][..], Some("Run `cargo test`"))
    );
    assert_eq!(found[1].text.as_deref(), Some("Run `cargo test`"));
    assert_eq!(found[3].text.as_deref(), Some("of a platform that is off"));

    // The same through the command line, on a corpus that lacks the file of a platform that is off.
    assert_eq!(aac(dir.path(), &["ingest", "repos"], "", None).status.code(), Some(0));
    let out = aac(dir.path(), &["gold", "hydrate", "labels.jsonl"], "", None);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    let said = text(&out.stderr);
    assert!(said.contains("1 found by hash, 1 by line, 3 not found") && said.contains("--platform all"), "{said}");
    let written: Vec<Value> = text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(written.len(), 3);
    assert_eq!(written[0]["before"], Value::Null);
    assert_eq!(parse_labels("out", &text(&out.stdout)).unwrap()[0], found[0]);
    let none = aac(dir.path(), &["gold", "hydrate", "labels.jsonl", "--from", "data"], "", None);
    assert_eq!(none.status.code(), Some(1));
}

/// Labels of 24 repositories, five items each, in the words of their types.
fn own_labels() -> String {
    (0..120)
        .map(|i| {
            let (label, words) = match i % 4 {
                0 => ("constraint", "Never delete production data of table"),
                1 => ("procedural", "Run the tests of package"),
                2 => ("belief", "The service listens on port"),
                _ => ("preference", "Prefer short names in module"),
            };
            let name: String = format!("{i:05}").bytes().map(|b| char::from(b - b'0' + b'a')).collect();
            json!({"repo": format!("o/r{}", i / 5), "path": "AGENTS.md", "text": format!("{words} {name}{name}{name}"), "label": label}).to_string() + "\n"
        })
        .collect()
}

#[test]
fn a_refit_is_written_found_and_used_and_bad_labels_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("own.jsonl"), own_labels()).unwrap();
    std::fs::write(at.join("AGENTS.md"), RULES).unwrap();
    let fitted = ok_json(at, &["train", "--gold", "own.jsonl", "--out", "mine", "--json"]);
    assert_eq!(
        (&fitted["own"], &fitted["types"]["constraint"], &fitted["shipped"]),
        (&json!(120), &json!(30), &json!(0))
    );
    assert_eq!(fitted["beats_shipped"], fitted["comparison"]["better"]);
    assert!(fitted["held_out"]["accuracy"]["value"].as_f64().unwrap() > 0.9, "{fitted}");
    let card = std::fs::read_to_string(at.join("mine/README.md")).unwrap();
    assert!(card.contains("120 labelled items") && card.contains("constraint recall, safe point"), "{card}");
    let hash = &fitted["model"]["hash"];
    assert_ne!(hash, &json!(shipped().hash().to_string()));

    let named = ok_json(at, &["classify", "AGENTS.md", "--model", "mine", "--json"]);
    assert_eq!(&named["model"]["hash"], hash);
    let environment = aac(at, &["classify", "AGENTS.md", "--json"], "", Some(&at.join("mine")));
    assert_eq!(&serde_json::from_slice::<Value>(&environment.stdout).unwrap()["model"]["hash"], hash);
    std::fs::create_dir_all(at.join("data/aac")).unwrap();
    std::fs::rename(at.join("mine"), at.join("data/aac/classifier")).unwrap();
    assert_eq!(&ok_json(at, &["classify", "AGENTS.md", "--json"])["model"]["hash"], hash);
    let lost = aac(at, &["classify", "AGENTS.md", "--model", "mine"], "", None);
    assert_eq!(lost.status.code(), Some(2));
    assert!(text(&lost.stderr).contains("mine/model.json"), "{}", text(&lost.stderr));

    let few: String = own_labels().lines().take(40).map(|l| l.to_owned() + "\n").collect();
    std::fs::write(at.join("few.jsonl"), few).unwrap();
    std::fs::write(at.join("one-sided.jsonl"), own_labels().replace("\"constraint\"", "\"belief\"")).unwrap();
    for (file, why) in [("few.jsonl", "40 labelled items"), ("one-sided.jsonl", "0 of 120 items are constraints")] {
        let refused = aac(at, &["train", "--gold", file, "--out", "none"], "", None);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
    assert!(!at.join("none").exists());
    let encoder = aac(at, &["train", "--gold", "own.jsonl", "--encoder", "minilm:x"], "", None);
    assert_eq!(encoder.status.code(), Some(2));
}

#[test]
fn scores_on_own_labels_stand_beside_the_papers() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("own.jsonl"), own_labels()).unwrap();
    let scored = ok_json(at, &["evaluate", "classifier", "--gold", "own.jsonl", "--errors", "3", "--json"]);
    assert_eq!((&scored["method"], &scored["seen"]), (&json!("as-it-stands"), &json!(0)));
    let names: Vec<&Value> = scored["variants"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["regex", "trained"]);
    // Every rule of these labels says "Never" and nothing else does.
    assert_eq!(scored["variants"][0]["constraint_recall"], json!(1.0));
    assert_eq!(scored["variants"][0]["figures"]["constraint_f1"]["value"], json!(1.0));
    assert_eq!(scored["paper_table_9"].as_array().unwrap().len(), 11);
    assert!(scored["errors"].as_array().unwrap().len() <= 3);
    let shown = aac(at, &["evaluate", "classifier", "--gold", "own.jsonl"], "", None);
    let shown = text(&shown.stdout);
    assert!(shown.contains("Table 9") && shown.contains("Not comparable"), "{shown}");

    let phrasing = format!("{}/annotation/gold/phrasing.jsonl", env!("CARGO_MANIFEST_DIR"));
    let scored = ok_json(at, &["evaluate", "phrasing", "--gold", &phrasing, "--json"]);
    assert_eq!((&scored["items"], &scored["seen"]), (&json!([600, 600]), &json!(1200)));
    let recall = |variant: usize, form: &str| scored["variants"][variant][1][0]["recall"][form].as_f64().unwrap();
    assert!(recall(0, "declarative") < 0.2 && recall(0, "imperative") > recall(0, "declarative"));
    assert!(recall(1, "declarative") > recall(0, "declarative"));

    let without = aac(at, &["evaluate", "classifier"], "", None);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("0 of 2000"), "{}", text(&without.stderr));
    let none = aac(at, &["evaluate", "phrasing", "--gold", "own.jsonl"], "", None);
    assert!(text(&none.stderr).contains("no phrasings"), "{}", text(&none.stderr));
}

#[test]
fn a_build_classifies_and_names_its_model() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let built = ok_json(dir.path(), &["build", "--from", "repos", "--out", "out", "--json"]);
    let steps: Vec<&str> = built["steps"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    let at = |name: &str| steps.iter().position(|s| *s == name);
    assert!(at("segment") < at("classify") && at("tag") < at("classify") && at("classify") < at("export"), "{steps:?}");
    assert_eq!(built["model"], json!({"tier": "linear", "hash": shipped().hash().to_string()}));
    assert_eq!(built["model_stored_figures"]["items"], 2000);
    let classified = &built["steps"][at("classify").unwrap()];
    assert_eq!(classified["items"], built["items"]);
    let exported = &built["steps"][at("export").unwrap()];
    assert_eq!(exported["model"]["predictions"], true, "the items carry their types");
    let again = ok_json(dir.path(), &["classify", "--json"]);
    assert_eq!((&again["updated"], &again["types"]), (&json!(0), &classified["types"]));
}
