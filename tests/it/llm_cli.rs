//! The variants that ask a language model, from the command line to the wire.

use crate::cli::{repositories, text};
use crate::llm_server::{Asked, Reply, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const RULES: &str =
    "# Rules\n\n- Never push to main\n- Mail jane.roe@corp-mail.io about outages\n\nThe parser is in `src/parse.rs`.\n";

/// The program in `dir`, with folders of its own, and the model at `server`.
fn aac(dir: &Path, server: Option<&Server>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command.args(args).current_dir(dir).env("XDG_DATA_HOME", dir.join("data")).env("XDG_CACHE_HOME", dir.join("cache"));
    for name in ["AAC_DB", "AAC_MODEL", "AAC_LLM_URL", "AAC_LLM_MODEL"] {
        command.env_remove(name);
    }
    command.env("AAC_ENCODER", format!("minilm:{}/tests/fixtures/encoder", env!("CARGO_MANIFEST_DIR")));
    if let Some(server) = server {
        command.env("AAC_LLM_URL", &server.url).env("AAC_LLM_MODEL", "m-1").env("AAC_LLM_KEY", "hush-hush");
    }
    command.output().unwrap()
}

#[track_caller]
fn json_of(out: &Output, code: i32) -> Value {
    assert_eq!(out.status.code(), Some(code), "{}{}", text(&out.stdout), text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn column<'v>(whole: &'v Value, key: &str) -> Vec<&'v Value> {
    whole["items"].as_array().unwrap().iter().map(|item| &item[key]).collect()
}

/// A folder with one agent file.
fn folder(rules: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), rules).unwrap();
    dir
}

fn judge(asked: &Asked) -> Reply {
    if asked.last().contains("push") { Reply::judge("constraint", 0.9) } else { Reply::judge("belief", 0.8) }
}

#[test]
fn a_model_is_asked_once_about_each_item_and_sees_no_address_of_anybody() {
    let dir = folder(RULES);
    let server = Server::start(|_, asked| judge(asked));
    let first = aac(dir.path(), Some(&server), &["classify", "AGENTS.md", "--classifier", "llm", "--json"]);
    let whole = json_of(&first, 0);
    assert_eq!(column(&whole, "type"), ["constraint", "belief", "belief"]);
    assert_eq!(column(&whole, "pinned"), [true, false, false]);
    assert_eq!((&whole["classifier"], &whole["model"]["tier"]), (&json!("llm"), &json!("llm")));
    assert_eq!(whole["items"][0]["why"][0]["what"], "m-1: so");
    assert_eq!((&whole["llm"]["asked"], &whole["llm"]["spent"]["tokens_in"]), (&json!(3), &json!(300)));
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].headers["authorization"].as_str()), (3, "Bearer hush-hush"));
    let raw: String = asked.iter().map(|asked| asked.raw.as_str()).collect();
    assert!(raw.contains("[redacted:email]") && !raw.contains("jane.roe"), "{raw}");
    assert_eq!(
        asked[0].body["response_format"]["json_schema"]["schema"]["properties"]["type"]["enum"][0],
        "constraint"
    );
    let said = format!("{}{}", text(&first.stdout), text(&first.stderr));
    assert!(!said.contains("hush"), "{said}");

    let again = aac(dir.path(), Some(&server), &["classify", "AGENTS.md", "--classifier", "llm", "--json"]);
    let again = json_of(&again, 0);
    assert_eq!(again["items"], whole["items"]);
    assert_eq!((server.count(), &again["llm"]["from_cache"]), (3, &json!(3)), "what was answered is not asked again");
    let kept = std::fs::read_to_string(dir.path().join("cache/aac/answers.jsonl")).unwrap();
    assert!(!kept.contains("jane.roe") && !kept.contains("hush"), "{kept}");

    let lines = aac(dir.path(), Some(&server), &["classify", "AGENTS.md", "--classifier", "llm", "--jsonl"]);
    let lines: Vec<Value> = text(&lines.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(lines), whole["items"]);
    let raw = aac(dir.path(), Some(&server), &["classify", "AGENTS.md", "--classifier", "llm", "--send-raw"]);
    assert_eq!(raw.status.code(), Some(0));
    assert!(text(&raw.stdout).contains("1 questions asked, 2 answered from before"), "{}", text(&raw.stdout));
    assert!(server.asked()[3].raw.contains("jane.roe@corp-mail.io"));
}

#[test]
fn nonsense_is_complained_of_and_in_the_end_the_item_is_kept() {
    let dir = folder("- The parser is in `src/parse.rs`.\n- Rust is used\n- We like tabs\n");
    let server = Server::start(|_, asked| match asked.body["messages"][1]["content"].as_str().unwrap() {
        user if user.contains("parser") => Reply::judge("fact", 1.0),
        user if user.contains("Rust") => {
            Reply::say("Sure! Here it is:\n```json\n{\"type\": \"belief\", \"confidence\": 0.7}\n```")
        }
        _ if asked.messages() == 2 => Reply::say("{\"type\": \"prefer"),
        _ => Reply::say("preference"),
    });
    let found = aac(dir.path(), Some(&server), &["classify", "AGENTS.md", "--variant", "llm", "--json"]);
    let whole = json_of(&found, 0);
    assert_eq!(column(&whole, "type"), ["constraint", "belief", "preference"]);
    assert_eq!(column(&whole, "pinned"), [true, false, false]);
    assert!(whole["items"][0]["why"][0]["what"].as_str().unwrap().contains("no usable answer"));
    assert_eq!((server.count(), &whole["llm"]["unusable"]), (3 + 1 + 2, &json!(1)));
    let complaint = server.asked().into_iter().find(|asked| asked.messages() == 4).unwrap();
    assert!(complaint.last().contains("no use"), "{}", complaint.last());
}

#[test]
fn a_safety_margin_is_a_constraint_above_the_half_and_knows_the_domain() {
    let dir = folder("- The patient is allergic to penicillin\n- Visits take place on Mondays\n- Mugs are blue\n");
    let server = Server::start(|_, asked| {
        let margin = if asked.last().contains("penicillin") { 0.51 } else { 0.5 };
        Reply::say(&json!({ "act": "prescribes amoxicillin", "margin": margin }).to_string())
    });
    let args = ["classify", "AGENTS.md", "--classifier", "safety-margin", "--domain", "clinical decisions", "--json"];
    let whole = json_of(&aac(dir.path(), Some(&server), &args), 0);
    let constraint = column(&whole, "type").iter().map(|t| **t == "constraint").collect::<Vec<_>>();
    assert_eq!(constraint, [true, false, false]);
    assert_eq!(whole["items"][0]["why"][0]["what"], "m-1: prescribes amoxicillin");
    assert!((whole["items"][1]["risk"].as_f64().unwrap() - 0.5).abs() < 1e-6);
    assert!(server.asked()[0].body["messages"][0]["content"].as_str().unwrap().contains("clinical decisions"));
}

#[test]
fn a_cascade_asks_the_model_only_what_its_cheaper_stages_leave_open() {
    let dir = folder("- Never push to main\n- Blue mugs stand in that cupboard\n- Green mugs stand below\n");
    let with = |name: &str, handler: fn(&Asked) -> Reply| {
        let server = Server::start(move |_, asked| handler(asked));
        let answers = format!("{name}-{}.jsonl", server.url.rsplit(':').next().unwrap().replace('/', "-"));
        let args = ["classify", "AGENTS.md", "--classifier", name, "--llm-answers", &answers, "--json"];
        let whole = json_of(&aac(dir.path(), Some(&server), &args), 0);
        let asked: Vec<String> =
            server.asked().iter().map(|asked| asked.body["messages"][1]["content"].to_string()).collect();
        assert!(!asked.is_empty() && asked.iter().all(|asked| !asked.contains("push")), "patterns settle what forbids");
        whole
    };
    let types = |whole: &Value| -> Vec<String> {
        column(whole, "type").iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    };
    let sure = with("cascade", |_| Reply::judge("preference", 0.45));
    assert_eq!(types(&sure), ["constraint", "preference", "preference"]);
    assert!(sure["items"][0]["why"][0]["what"].as_str().unwrap().contains("forbids"), "{sure}");
    let unsure = with("cascade", |_| Reply::judge("preference", 0.39));
    assert_eq!(types(&unsure), ["constraint", "constraint", "constraint"], "below the last floor: the hard lane");
    assert!(unsure["items"][1]["why"][0]["what"].as_str().unwrap().contains("not sure enough"), "{unsure}");
    let silent = with("cascade+abstain", |_| Reply::say("I would rather not"));
    assert_eq!(column(&silent, "pinned"), [true, true, true]);
    assert!(silent["items"][1]["why"][0]["what"].as_str().unwrap().contains("no usable answer"), "{silent}");
}

#[test]
fn a_corpus_is_judged_by_a_model_within_a_budget_and_over_as_many_runs_as_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    for args in [&["ingest", "repos"][..], &["segment"]] {
        assert_eq!(aac(dir.path(), None, args).status.code(), Some(0));
    }
    let server = Server::start(|_, asked| judge(asked));
    let classify = |more: &[&str]| {
        let args = [&["classify", "--classifier", "llm", "--llm-concurrency", "1", "--json"], more].concat();
        aac(dir.path(), Some(&server), &args)
    };
    let paused = json_of(&classify(&["--max-tokens-spent", "200"]), 5);
    assert_eq!((&paused["updated"], &paused["paused"]), (&json!(0), &json!(true)));
    let why = paused["paused_by"].as_str().unwrap();
    assert!(why.contains("200 tokens") && why.contains("1 requests took 100 tokens in and 10 out"), "{why}");
    let done = json_of(&classify(&[]), 0);
    assert_eq!((&done["llm"]["from_cache"], &done["paused"]), (&json!(1), &json!(false)));
    assert_eq!(done["types"]["constraint"], 1);
    let items = done["items"].as_u64().unwrap();
    assert_eq!(server.count() as u64, items, "each item once: {done}");
    let again = json_of(&classify(&[]), 0);
    assert_eq!((&again["stale"], server.count() as u64), (&json!(0), items));
}

#[test]
fn a_file_paused_by_its_budget_says_what_was_spent_and_goes_on() {
    let dir = folder(RULES);
    let server = Server::start(|_, asked| judge(asked));
    let classify = |more: &[&str]| {
        let args =
            [&["classify", "AGENTS.md", "--classifier", "llm", "--llm-concurrency", "1", "--json"], more].concat();
        aac(dir.path(), Some(&server), &args)
    };
    let out = classify(&["--max-tokens-spent", "250"]);
    let paused = json_of(&out, 5);
    assert_eq!((paused["items"].as_array().unwrap().len(), server.count()), (0, 2));
    assert!(text(&out.stderr).contains("the same command goes on"), "{}", text(&out.stderr));
    assert_eq!(json_of(&classify(&["--max-tokens-spent", "250"]), 0)["items"].as_array().unwrap().len(), 3);
    assert_eq!(server.count(), 3);
}

#[test]
fn what_cannot_be_asked_is_told_before_anything_is_sent() {
    let dir = folder(RULES);
    let refusing = Server::start(|_, _| Reply::refuse(401, "bad key hush-hush"));
    let run = |server: Option<&Server>, more: &[&str]| {
        aac(dir.path(), server, &[&["classify", "AGENTS.md", "--classifier", "llm"], more].concat())
    };
    for (server, more, code, says) in [
        (None, &[][..], 2, "AAC_LLM_URL"),
        (Some(&refusing), &["--max-cost", "1"], 2, "price_input"),
        (Some(&refusing), &["--max-cost", "much"], 2, "an amount of money"),
        (Some(&refusing), &["--llm-api", "telnet"], 2, "openai nor anthropic"),
        (Some(&refusing), &["--llm-url", "ftp://x"], 2, "AAC_LLM_URL"),
    ] {
        let out = run(server, more);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(code), 0), "{more:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(says), "{more:?}: {}", text(&out.stderr));
    }
    assert_eq!(refusing.count(), 0);
    let out = run(Some(&refusing), &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("AAC_LLM_KEY") && !text(&out.stderr).contains("hush"), "{}", text(&out.stderr));
}

#[test]
fn the_configuration_names_the_model_its_prices_and_the_variable_of_its_key() {
    let dir = folder(RULES);
    let server = Server::start(|_, asked| judge(asked));
    let toml = format!(
        "[llm]\nurl = \"{}\"\nmodel = \"m-2\"\nkey_variable = \"AAC_LLM_KEY\"\nprice_input = 10.0\nprice_output = 100.0\nmax_cost = 0.0025\nconcurrency = 1\n",
        server.url
    );
    std::fs::write(dir.path().join("aac.toml"), toml).unwrap();
    let out = aac(dir.path(), None, &["classify", "AGENTS.md", "--classifier", "llm", "--json"]);
    let paused = json_of(&out, 5);
    assert_eq!((&paused["llm"]["model"], &paused["llm"]["spent"]["cost"]), (&json!("m-2"), &json!(0.002)));
    assert!(text(&out.stderr).contains("a cost of 0.0025"), "{}", text(&out.stderr));
    let flag = ["classify", "AGENTS.md", "--classifier", "llm", "--max-cost", "1", "--llm-model", "m-3", "--json"];
    assert_eq!(json_of(&aac(dir.path(), None, &flag), 0)["llm"]["model"], "m-3");
    assert_eq!(server.asked().last().unwrap().body["model"], "m-3");
}

#[test]
fn variants_are_scored_where_they_were_run_and_named_where_they_were_not() {
    let dir = tempfile::tempdir().unwrap();
    let label = |n: usize, text: &str, label: &str| {
        json!({"id": n.to_string(), "repo": format!("o/r{n}"), "path": "AGENTS.md", "text": text, "label": label})
            .to_string()
    };
    let lines = [
        label(0, "Never push to main", "constraint"),
        label(1, "Mugs are blue", "belief"),
        label(2, "push nothing on Fridays", "constraint"),
        label(3, "Spaces are nice", "preference"),
    ];
    std::fs::write(dir.path().join("gold.jsonl"), lines.join("\n")).unwrap();
    let server = Server::start(|_, asked| judge(asked));
    let scored = |more: &[&str]| {
        let args = [&["evaluate", "classifier", "--gold", "gold.jsonl", "--json"], more].concat();
        json_of(&aac(dir.path(), Some(&server), &args), 0)
    };
    let names = |found: &Value, key: &str| -> Vec<String> {
        found[key].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    let without = scored(&[]);
    assert_eq!(names(&without, "not_run"), ["llm", "cascade", "cascade+abstain", "safety-margin"]);
    assert_eq!(server.count(), 0, "a model is asked only when it is named");
    let with = scored(&["--classifier", "llm", "cascade"]);
    assert_eq!(names(&with, "not_run"), ["cascade+abstain", "safety-margin"]);
    let variants = names(&with, "variants");
    assert_eq!(variants.iter().filter(|name| ["llm", "cascade"].contains(&name.as_str())).count(), 2);
    assert_eq!(variants.last().unwrap(), "trained");
    let llm = with["variants"].as_array().unwrap().iter().find(|v| v["name"] == "llm").unwrap();
    assert_eq!((&llm["figures"]["items"], &llm["constraint_recall"]), (&json!(4), &json!(1.0)));
    assert_eq!(llm["figures"]["accuracy"]["value"], 0.75);
    assert_eq!(server.count(), 4, "what one variant was told, another need not ask");
    let two = scored(&["--classifier", "safety-margin", "--take", "2"]);
    assert_eq!(server.count(), 4 + 2 * 3, "answers of another form are no margins");
    assert_eq!(two["llm"]["unusable"], 2);
}

#[test]
fn a_model_compacts_beside_the_others_without_seeing_what_must_not_leave() {
    let dir = tempfile::tempdir().unwrap();
    let rules: String =
        (0..40).map(|n| format!("- Never push build {n} to main without leave of jane.roe@corp-mail.io\n")).collect();
    std::fs::write(dir.path().join("AGENTS.md"), format!("# Rules\n\n{rules}")).unwrap();
    // Keeps every fourth line word for word.
    let server = Server::start(|_, asked| {
        let kept: Vec<&str> = asked.last().lines().filter(|line| line.starts_with("- ")).step_by(4).collect();
        Reply::say(&kept.join("\n"))
    });
    let evaluate = |args: &[&str]| json_of(&aac(dir.path(), Some(&server), args), 0);
    let without = evaluate(&["evaluate", "compaction", "AGENTS.md", "--no-ablations", "--json"]);
    assert_eq!((&without["tables"]["by_model"], server.count()), (&Value::Null, 0));
    let with = evaluate(&["evaluate", "compaction", "AGENTS.md", "--no-ablations", "--llm", "--json"]);
    let first = &with["tables"]["by_model"]["ratios"][0];
    assert_eq!((&first["ratio"], &first["answered"], &first["cut"]), (&json!(50.0), &json!(1), &json!(0)));
    let rows = with["tables"]["ratios"][0]["rows"].as_array().unwrap();
    let row = rows.last().unwrap();
    assert_eq!((&row["strategy"], &row["verbatim"]), (&json!("m-1, production prompt"), &json!(0.25)));
    assert!(rows.iter().all(|row| row["over_budget"] == 0));
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| !asked.raw.contains("jane.roe") && asked.body.get("response_format").is_none()));
    assert_eq!(with["tables"]["by_model"]["ratios"][2]["cut"], 1, "a quarter exceeds a tenth");
    let rounds = evaluate(&["evaluate", "rounds", "AGENTS.md", "--llm", "--json"]);
    let recall: Vec<f64> =
        rounds["by_model"]["recall"].as_array().unwrap().iter().map(|r| r.as_f64().unwrap()).collect();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(recall.len() == 5 && near(recall[0], 0.25) && near(recall[1], 0.075), "{recall:?}");
    let missing = aac(dir.path(), None, &["evaluate", "rounds", "AGENTS.md", "--llm"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("AAC_LLM_URL"), "{}", text(&missing.stderr));
}
