//! The operators from the outside: what is printed, and the code that a script sees.

use crate::cli::git;
use std::path::Path;
use std::process::{Command, Output};

const RULES: &str = "\
# Service

The service answers requests of the shop, and it has done so since the year in which the shop was opened.

## Rules

- NEVER write to the production database without a reviewed migration.
- You must not log passwords or tokens.

## Notes

- The shop was opened in 2014 by two people who had met at a conference on databases in Leipzig.
- The colour of the logo is a kind of green that nobody has ever been able to name.
";

fn aac(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aac")).current_dir(dir).args(args).output().unwrap()
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), RULES).unwrap();
    dir
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn compact_prints_a_safe_text_or_refuses_with_code_4() {
    let dir = folder();
    let told = json(&aac(dir.path(), &["compact", "AGENTS.md", "--budget", "80%", "--json"]));
    assert_eq!(told["status"], "safe");
    let least = told["min_safe_budget"].as_u64().unwrap();
    let printed = aac(dir.path(), &["compact", "AGENTS.md", "--budget", &least.to_string()]);
    assert_eq!(printed.status.code(), Some(0));
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.contains("- NEVER write to the production database without a reviewed migration.\n"), "{text}");
    let refused = aac(dir.path(), &["compact", "AGENTS.md", "--budget", "10", "--json"]);
    assert_eq!(refused.status.code(), Some(4));
    let told = json(&refused);
    assert_eq!((told["status"].as_str(), told["output"].as_str()), (Some("unsafe"), None));
    assert!(told["lost"].as_array().is_some_and(|lost| !lost.is_empty()));
    let nearly = aac(dir.path(), &["compact", "AGENTS.md", "--budget", "20", "--best-effort"]);
    assert_eq!(nearly.status.code(), Some(4));
    assert!(!nearly.stdout.is_empty());
    assert_eq!(aac(dir.path(), &["compact", "AGENTS.md", "--budget", "lots"]).status.code(), Some(2));
    assert_eq!(aac(dir.path(), &["compact", "gone.md", "--budget", "9"]).status.code(), Some(1));
}

#[test]
fn check_and_lint_end_with_code_6_when_they_find_something() {
    let dir = folder();
    let path = dir.path();
    assert_eq!(aac(path, &["check", "AGENTS.md", "AGENTS.md"]).status.code(), Some(0));
    std::fs::write(path.join("after.md"), "Never write to the production database. Do not log passwords or tokens.")
        .unwrap();
    let found = aac(path, &["check", "AGENTS.md", "after.md", "--json"]);
    assert_eq!(found.status.code(), Some(6));
    let weakened = &json(&found)["weakened"];
    assert!(weakened.to_string().contains("migration"), "{weakened}");
    std::fs::write(path.join("bad.md"), "# A\n\nSee [the rules](gone.md) and [the others](AGENTS.md).\n").unwrap();
    let found = aac(path, &["lint", "bad.md", "--format", "sarif"]);
    assert_eq!(found.status.code(), Some(6));
    let results = json(&found)["runs"][0]["results"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    assert_eq!(results[0]["ruleId"], "dead-pointer");
}

#[test]
fn lint_takes_folders_and_says_when_there_is_nothing() {
    let dir = folder();
    let path = dir.path();
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let clean = aac(path, &["lint", "."]);
    assert_eq!(clean.status.code(), Some(0), "{clean:?}");
    assert!(text(&clean).contains("AGENTS.md: no findings in 5 items ("), "{}", text(&clean));
    std::fs::create_dir_all(path.join("web")).unwrap();
    std::fs::write(path.join("web/CLAUDE.md"), "# A\n\nSee [the rules](gone.md).\n").unwrap();
    std::fs::write(path.join("web/notes.txt"), "See [the rules](gone.md).\n").unwrap();
    std::fs::create_dir_all(path.join("node_modules/x")).unwrap();
    std::fs::write(path.join("node_modules/x/AGENTS.md"), "See [the rules](gone.md).\n").unwrap();
    let found = aac(path, &["lint", "."]);
    assert_eq!(found.status.code(), Some(6));
    assert!(text(&found).contains("CLAUDE.md: 1 finding in 1 item ("), "{}", text(&found));
    assert!(text(&found).ends_with("1 finding in 2 files\n"), "{}", text(&found));
    let none = aac(path, &["lint", "node_modules/x", "web"]);
    assert_eq!(none.status.code(), Some(6), "a folder named is looked into, wherever it stands");
    std::fs::create_dir(path.join("empty")).unwrap();
    let none = aac(path, &["lint", "empty"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("an agent file in empty"), "{none:?}");
}

#[test]
fn per_item_answers_come_as_lines_of_json() {
    let dir = folder();
    let path = dir.path();
    let lines = |args: &[&str]| -> Vec<serde_json::Value> {
        let printed = aac(path, args).stdout;
        String::from_utf8(printed).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    std::fs::write(path.join("after.md"), "Never write to the production database.").unwrap();
    let fates = lines(&["check", "AGENTS.md", "after.md", "--jsonl"]);
    assert_eq!(fates.len(), 2, "{fates:?}");
    assert_eq!((&fates[0]["status"], &fates[0]["line"]), (&"weakened".into(), &7.into()));
    assert_eq!(fates[1]["status"], "lost");
    std::fs::write(path.join("bad.md"), "# A\n\nSee [the rules](gone.md).\n\nAnd [more](away.md).\n").unwrap();
    let findings = lines(&["lint", "bad.md", "AGENTS.md", "--jsonl"]);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert_eq!((&findings[1]["file"], &findings[1]["line"]), (&"bad.md".into(), &5.into()));
    assert_eq!(lines(&["retrieve", "AGENTS.md", "--query", "logo", "-k", "3", "--jsonl"]).len(), 3);
    assert_eq!(aac(path, &["lint", "bad.md", "--jsonl", "--json"]).status.code(), Some(2));
    assert_eq!(aac(path, &["compact", "AGENTS.md", "--budget", "9", "--model", "gone"]).status.code(), Some(2));
}

#[test]
fn decompose_retrieve_and_triage_keep_constraints_with_their_parts() {
    let dir = folder();
    let path = dir.path();
    let split = json(&aac(path, &["decompose", "AGENTS.md", "--budget", "75%", "--out", "parts", "--json"]));
    assert_eq!(split["violations"], 0);
    for part in split["partitions"].as_array().unwrap() {
        let text = std::fs::read_to_string(path.join(part["file"].as_str().unwrap())).unwrap();
        assert!(text.contains("NEVER write to the production database"), "{text}");
    }
    let args =
        ["retrieve", "AGENTS.md", "--query", "which colour has the logo", "-k", "4", "--index", "i.jsonl", "--json"];
    let found = json(&aac(path, &args));
    assert_eq!(found["results"][0]["pinned"], true);
    assert!(found["results"].to_string().contains("colour of the logo"));
    let again = json(&aac(
        path,
        &["retrieve", "--query", "which colour has the logo", "-k", "4", "--index", "i.jsonl", "--json"],
    ));
    assert_eq!(again, found);
    let cycle = aac(path, &["triage", "AGENTS.md", "--budget", "90%"]);
    assert_eq!(cycle.status.code(), Some(0));
    assert!(String::from_utf8(cycle.stdout).unwrap().contains("You must not log passwords"));
}

/// An encoder of the fixtures: tiny, random, and tested against a reference of its own.
fn fixture(name: &str) -> String {
    format!("minilm:{}/tests/fixtures/encoder{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn retrieval_by_meaning_keeps_its_vectors_and_a_cross_encoder_reads_the_best() {
    let dir = folder();
    let (path, encoder, reranker) = (dir.path(), fixture(""), fixture("/cross"));
    let query = ["--query", "the tables of the shop", "-k", "6"];
    let run = |args: &[&str]| aac(path, &[&["retrieve"], args, &query[..]].concat());
    let told = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let dense = ["--retriever", "dense", "--encoder", &encoder, "--index", "i.jsonl", "--json"];
    let first = run(&[&["AGENTS.md"], &dense[..]].concat());
    assert!(told(&first).contains("Embedded 5 texts of 5 entries"), "{first:?}");
    let found = json(&first);
    assert!(found["encoder"].as_str().is_some_and(|id| id.starts_with("bert:")), "{found}");
    assert_eq!((&found["results"][0]["pinned"], found["results"].as_array().map(Vec::len)), (&true.into(), Some(5)));
    // By meaning every entry has a score, whether it shares a word or not.
    assert!(found["results"].as_array().unwrap().iter().all(|result| result["score"].as_f64() > Some(0.0)));
    let again = run(&dense);
    assert!(!told(&again).contains("Embedded"), "{again:?}");
    assert_eq!(json(&again), found);
    std::fs::write(path.join("AGENTS.md"), RULES.replace("Leipzig", "Halle")).unwrap();
    let changed = run(&[&["AGENTS.md"], &dense[..]].concat());
    assert!(told(&changed).contains("Embedded 1 texts of 5 entries"), "{changed:?}");

    let rerank = ["--index", "i.jsonl", "--retriever", "rerank", "--reranker", &reranker, "--json"];
    let read = json(&run(&rerank));
    assert!(read["reranker"].as_str().is_some_and(|id| id.starts_with("bert:")) && read["encoder"].is_null(), "{read}");
    assert!(read["results"][0]["score"].as_f64() > Some(1.0), "what was read stands above the rest: {read}");
    for wrong in [
        &["AGENTS.md", "--retriever", "dense"][..],
        &["AGENTS.md", "--retriever", "rerank"],
        &["AGENTS.md", "--retriever", "rerank", "--reranker", &encoder],
        &["AGENTS.md", "--retriever", "dense", "--encoder", "onnx:x"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    std::fs::write(path.join("i.jsonl.vectors"), "something else").unwrap();
    let refused = run(&dense);
    assert!(refused.status.code() == Some(1) && told(&refused).contains("i.jsonl.vectors"), "{refused:?}");
}

#[test]
fn a_repository_gives_its_largest_file_and_more_where_more_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let long = RULES.repeat(4);
    std::fs::create_dir_all(path.join("repo/docs")).unwrap();
    for (file, text) in [("CLAUDE.md", &long), ("AGENTS.md", &long), ("docs/AGENTS.md", &long.replace("shop", "mill"))]
    {
        std::fs::write(path.join("repo").join(file), text).unwrap();
    }
    let repo = path.join("repo");
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "files"]);
    let count = |more: &[&str]| {
        json(&aac(path, &[&["evaluate", "rounds", "repo", "--json"], more].concat()))["configurations"].clone()
    };
    assert_eq!((count(&[]), count(&["--take", "1"]), count(&["--take", "9"])), (1.into(), 1.into(), 2.into()));
}

#[cfg(unix)]
#[test]
fn another_compressor_stands_beside_the_baselines_and_rounds_are_drawn() {
    let dir = folder();
    let path = dir.path();
    std::fs::write(path.join("fake.sh"), "while read -r line; do echo '{\"text\": \"Nothing is left.\"}'; done\n")
        .unwrap();
    let args = ["evaluate", "compaction", "AGENTS.md", "--no-ablations", "--json", "--compressor"];
    let found = json(&aac(path, &[&args[..], &["sh fake.sh"]].concat()));
    for ratio in found["tables"]["ratios"].as_array().unwrap() {
        let row = ratio["rows"].as_array().and_then(|rows| rows.last()).unwrap();
        assert_eq!(
            (&row["strategy"], &row["verbatim"], &row["failed"]),
            (&"sh fake.sh".into(), &0.0.into(), &0.into())
        );
    }
    let missing = aac(path, &[&args[..], &["./nowhere --model x"]].concat());
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("llmlingua2.py"));
    let drawn = aac(path, &["evaluate", "rounds", "AGENTS.md", "--figure", "rounds.svg"]);
    assert_eq!(drawn.status.code(), Some(0), "{drawn:?}");
    let svg = std::fs::read_to_string(path.join("rounds.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.matches("<polyline").count() == 8, "{svg}");
    assert!(svg.contains("JevSelect-like (ours)") && svg.contains("reported: /compact"));
}

#[test]
fn tables_of_the_operators_are_printed_for_a_folder_of_files() {
    let dir = folder();
    let path = dir.path();
    std::fs::create_dir(path.join("files")).unwrap();
    for (name, shop) in [("a.md", "shop"), ("b.md", "mill"), ("c.md", "farm")] {
        std::fs::write(path.join("files").join(name), RULES.replace("shop", shop)).unwrap();
    }
    let found = json(&aac(path, &["evaluate", "compaction", "files", "--json"]));
    assert_eq!((&found["configurations"], &found["flagged"].as_u64().map(|n| n >= 6)), (&3.into(), &Some(true)));
    for ratio in found["tables"]["ratios"].as_array().unwrap() {
        assert_eq!((&ratio["answered"], &ratio["over_budget"]), (&ratio["fitting"], &0.into()));
        let possible = ratio["possible"].as_f64().unwrap();
        assert!(ratio["rows"][0]["verbatim"].as_f64().unwrap() <= possible + 1e-9, "{ratio}");
    }
    assert_eq!(found["tables"]["ablations"]["verifier"].as_array().map(Vec::len), Some(3));
    let found = json(&aac(path, &["evaluate", "rounds", "files", "--take", "2", "--json"]));
    assert_eq!((&found["configurations"], &found["tables"][4]["recall"]), (&2.into(), &1.0.into()));
    let found = json(&aac(path, &["evaluate", "decomposition", "files", "--json"]));
    let ours = &found["tables"]["strategies"][0];
    assert_eq!(ours["configurations"].as_u64().unwrap() + ours["refused"].as_u64().unwrap(), 3);
    assert!(ours["violating"].as_f64().is_none_or(|share| share == 0.0));
    let policy = ["evaluate", "retrieval", "files", "--policy", "AGENTS.md"];
    let refused = aac(path, &policy);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("no topic"));
    assert_eq!(aac(path, &["evaluate", "rounds", "gone"]).status.code(), Some(2));
}
