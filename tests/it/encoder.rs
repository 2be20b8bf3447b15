//! The encoder tier from labels to answers, by the command line, with a tiny random encoder.

use crate::cli::text;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn aac(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command.args(args).current_dir(dir).env("XDG_DATA_HOME", dir.join("data"));
    for name in ["AAC_DB", "AAC_MODEL", "AAC_ENCODER"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[track_caller]
fn ok_json(dir: &Path, args: &[&str]) -> Value {
    let out = aac(dir, args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// 120 items of 24 repositories, a quarter of them constraints.
pub(crate) fn own_labels() -> String {
    (0..120)
        .map(|i| {
            let (label, text) = match i % 4 {
                0 => ("constraint", "Never push the customers' tables to"),
                1 => ("procedural", "Run the tests before you commit"),
                2 => ("belief", "The tables hold data of"),
                _ => ("preference", "Rules too; agents and"),
            };
            let word: String = format!("{i:03}").bytes().map(|b| (b - b'0' + b'a') as char).collect();
            json!({"repo": format!("o/r{}", i / 5), "path": "AGENTS.md", "text": format!("{text} {word}{word}"), "label": label})
                .to_string()
                + "\n"
        })
        .collect()
}

fn encoder() -> String {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoder");
    format!("minilm:{}", dir.display())
}

fn prepared() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("own.jsonl"), own_labels()).unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), "# Rules\n\n- Never push to main\n- Run the tests\n").unwrap();
    dir
}

#[test]
fn an_encoder_is_fine_tuned_written_and_found_and_the_same_labels_give_the_same_bytes() {
    let dir = prepared();
    let at = dir.path();
    let train = |out: &str| {
        let encoder = encoder();
        let args = [
            "train",
            "--gold",
            "own.jsonl",
            "--encoder",
            &encoder,
            "--finetune",
            "--epochs",
            "2",
            "--out",
            out,
            "--json",
        ];
        ok_json(at, &args)
    };
    let fitted = train("mine");
    assert_eq!(fitted["model"]["tier"], "encoder");
    assert_eq!(fitted["finetuning"]["epochs"].as_array().unwrap().len(), 2);
    assert!(fitted["comparison"]["items"].as_u64().unwrap() > 10, "{fitted}");
    assert!(!at.join("mine/checkpoint.safetensors").exists());
    let card = std::fs::read_to_string(at.join("mine/README.md")).unwrap();
    assert!(card.contains("fine-tuned") && card.contains("encoder asked"), "{card}");
    let classified = ok_json(at, &["classify", "AGENTS.md", "--model", "mine", "--json"]);
    assert_eq!(classified["model"], fitted["model"]);
    assert_eq!(classified["items"].as_array().unwrap().len(), 2);
    train("again");
    for name in ["model.safetensors", "model.json", "tokenizer.json", "linear/model.safetensors"] {
        let read = |folder: &str| std::fs::read(at.join(folder).join(name)).unwrap();
        assert!(read("mine") == read("again"), "{name}");
    }
    // In the user's folder it answers unnamed.
    std::fs::create_dir_all(at.join("data/aac")).unwrap();
    std::fs::rename(at.join("mine"), at.join("data/aac/classifier")).unwrap();
    assert_eq!(ok_json(at, &["classify", "AGENTS.md", "--json"])["model"], fitted["model"]);
}

#[test]
fn with_the_folds_held_out_by_others_a_model_learns_from_all_labels() {
    let dir = prepared();
    let at = dir.path();
    let encoder = encoder();
    let tuning = ["--gold", "own.jsonl", "--encoder", &encoder, "--finetune", "--folds-in", "folds", "--json"];
    let epochs = ["--epochs", "1"];
    let args = |command: &[&'static str], more: &[&'static str]| -> Vec<String> {
        command.iter().chain(&tuning).chain(&epochs).chain(more).map(|arg| (*arg).to_owned()).collect()
    };
    let ok = |args: Vec<String>| ok_json(at, &args.iter().map(String::as_str).collect::<Vec<_>>());
    // Two folds are measured; training runs the other three.
    let measured = ok(args(&["evaluate", "classifier"], &["--folds", "2"]));
    assert_eq!(measured["folds"]["folds"].as_array().unwrap().len(), 2);
    let trained = ok(args(&["train"], &["--out", "whole"]));
    let finetuning = &trained["finetuning"];
    assert_eq!(
        (&finetuning["folds"], &finetuning["held_out"], &finetuning["lessons"]),
        (&json!(5), &json!(120), &json!(120))
    );
    assert_eq!(trained["held_out"]["items"], 120);
    let all = ok(args(&["evaluate", "classifier"], &[]));
    let figures = &all["variants"].as_array().unwrap().last().unwrap()["figures"];
    assert_eq!(figures["accuracy"], trained["held_out"]["accuracy"], "the card says what the folds say");
    assert_eq!(all["folds"]["linear_floor"], finetuning["linear_floor"]);
    let card = std::fs::read_to_string(at.join("whole/README.md")).unwrap();
    assert!(card.contains("5 folds"), "{card}");
    assert_eq!(ok_json(at, &["classify", "AGENTS.md", "--model", "whole", "--json"])["model"], trained["model"]);
    let other = args(&["train"], &["--out", "other", "--seed", "2"]);
    let out = aac(at, &other.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(2), "{other:?}");
    assert!(text(&out.stderr).contains("fold-0.json"), "{}", text(&out.stderr));
}

#[test]
fn prototypes_stand_beside_the_others_where_an_encoder_is_at_hand() {
    let dir = prepared();
    let score = |encoder: Option<String>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
        command.args(["evaluate", "classifier", "--gold", "own.jsonl", "--json"]).current_dir(dir.path());
        command.env("XDG_DATA_HOME", dir.path().join("data")).env_remove("AAC_DB").env_remove("AAC_MODEL");
        match encoder {
            Some(encoder) => command.env("AAC_ENCODER", encoder),
            None => command.env_remove("AAC_ENCODER"),
        };
        command.output().unwrap()
    };
    let names = |out: Output| -> Vec<String> {
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(found["pairings"].as_array().unwrap().len() + 1, found["variants"].as_array().unwrap().len());
        found["variants"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(score(None)), ["regex", "trained"]);
    assert_eq!(names(score(Some(encoder()))), ["regex", "encoder", "regex+encoder", "trained"]);
    let wrong = score(Some("onnx:x".to_owned()));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("minilm:DIR"), "{}", text(&wrong.stderr));
}

#[test]
fn clusters_need_an_encoder_and_are_tried_on_the_shipped_labels_only() {
    let dir = prepared();
    let at = dir.path();
    let out = aac(at, &["evaluate", "classifier", "--clusters", "--from", "."]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--encoder minilm:DIR"), "{}", text(&out.stderr));
    let out = aac(at, &["evaluate", "classifier", "--clusters", "--gold", "own.jsonl", "--encoder", &encoder()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--gold"), "{}", text(&out.stderr));
}

#[test]
fn a_checkpoint_of_other_labels_is_refused_with_advice() {
    let dir = prepared();
    let at = dir.path();
    std::fs::create_dir(at.join("mine")).unwrap();
    std::fs::write(at.join("mine/checkpoint.safetensors"), b"no tensors").unwrap();
    let encoder = encoder();
    let out = aac(
        at,
        &["train", "--gold", "own.jsonl", "--encoder", &encoder, "--finetune", "--epochs", "1", "--out", "mine"],
    );
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("checkpoint"), "{}", text(&out.stderr));
}

#[test]
fn the_variants_with_an_encoder_answer_and_without_one_say_what_they_need() {
    let dir = prepared();
    let at = dir.path();
    let encoder = encoder();
    for (name, tier) in [("encoder", "prototypes"), ("regex+encoder", "regex+prototypes")] {
        let found = ok_json(at, &["classify", "AGENTS.md", "--classifier", name, "--encoder", &encoder, "--json"]);
        assert_eq!((&found["model"]["tier"], &found["classifier"]), (&json!(tier), &json!(name)));
        let out = aac(at, &["classify", "AGENTS.md", "--classifier", name]);
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains("--encoder minilm:DIR"), "{}", text(&out.stderr));
    }
    let fitted = ok_json(at, &["train", "--gold", "own.jsonl", "--encoder", &encoder, "--out", "small", "--json"]);
    assert_eq!(fitted["model"]["tier"], "distilled");
    let args =
        ["classify", "AGENTS.md", "--classifier", "distilled", "--model", "small", "--encoder", &encoder, "--json"];
    assert_eq!(ok_json(at, &args)["model"], fitted["model"]);
    let out = aac(at, &["classify", "AGENTS.md", "--classifier", "distilled", "--encoder", &encoder]);
    assert!(text(&out.stderr).contains("tier linear"), "{}", text(&out.stderr));
    let out = aac(at, &["train", "--gold", "own.jsonl", "--encoder", "minilm:absent", "--out", "none"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("config.json"), "{}", text(&out.stderr));
}

/// The folder is left out of the package, where it would exceed what a registry takes.
#[test]
fn the_encoder_tier_that_comes_along_is_whole() {
    let model = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("exports/classifier/encoder");
    if !model.exists() {
        eprintln!("SKIPPED: exports/classifier/encoder is not in this copy");
        return;
    }
    let dir = prepared();
    let rules = "# Data\n\n- `main` deploys itself on every push.\n- The parser is in `src/parse.rs`.\n";
    std::fs::write(dir.path().join("AGENTS.md"), rules).unwrap();
    let found = ok_json(dir.path(), &["classify", "AGENTS.md", "--model", model.to_str().unwrap(), "--json"]);
    assert_eq!(found["model"]["tier"], "encoder");
    let pinned = |i: usize| found["items"][i]["pinned"].as_bool().unwrap();
    assert!(pinned(0) && !pinned(1), "{found}");
}
