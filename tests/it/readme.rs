//! Every command of the README is run here, in its order, in one folder, against a sandbox in place of GitHub.

use crate::cli::{repositories, text};
use crate::crawl::unlimited;
use crate::encoder::own_labels;
use crate::llm_server::{Reply, Server};
use aac::sandbox::{SandboxOptions, Source};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");

/// What stands for something of the reader's own, and what it is here.
const PLACEHOLDERS: [(&str, &str); 7] = [
    ("minilm:DIR", concat!("minilm:", env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/encoder")),
    ("DIR", "repos"),
    ("OWNER/REPO", "owner/name"),
    ("OWNER[/REPO]", "somebody/else"),
    ("BEFORE", "CLAUDE.md"),
    ("AFTER", "after.md"),
    ("--synthetic 400000", "--synthetic 400"),
];

/// Commands that serve until they are stopped.
const SERVERS: [&str; 2] = ["sandbox serve", "gold serve"];

/// The commands in the shell blocks of `text`, without comments.
fn commands(text: &str) -> Vec<String> {
    let mut shell = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            shell = info == "sh";
        } else if shell && line.starts_with("aac ") {
            let bare = line.split(" # ").next().unwrap_or(line).trim_end();
            found.push(bare.to_owned());
        }
    }
    found
}

/// The codes that say that a command did what it is for.
fn good(command: &str) -> &'static [i32] {
    match command.split(' ').nth(1) {
        Some("compact" | "triage") => &[0, 4],
        Some("check" | "lint") => &[0, 6],
        _ => &[0],
    }
}

fn words(command: &str) -> Vec<String> {
    let mut filled = command.to_owned();
    for (from, to) in PLACEHOLDERS {
        let whole: Vec<&str> = filled.split(' ').map(|word| if word == from { to } else { word }).collect();
        filled = if from.contains(' ') { filled.replace(from, to) } else { whole.join(" ") };
    }
    let mut words = Vec::new();
    for (i, part) in filled.split('"').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn prepare(dir: &Path) {
    repositories(&dir.join("repos"));
    let rules = "# Rules\n\n- Never push to main without a review\n- Run `cargo test` before every commit\n\n\
                 The shop was opened in 2014 by two people who had met at a conference.\n";
    std::fs::write(dir.join("CLAUDE.md"), rules).unwrap();
    std::fs::write(dir.join("mine.jsonl"), own_labels()).unwrap();
    // A cache of Hugging Face's tools that holds the tiny encoder under the name of a real one.
    let model = dir.join("hub/models--sentence-transformers--all-MiniLM-L6-v2");
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), "c0ffee").unwrap();
    std::fs::create_dir_all(model.join("snapshots/c0ffee")).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoder").join(name);
        std::fs::copy(fixture, model.join("snapshots/c0ffee").join(name)).unwrap();
    }
    std::fs::write(dir.join("after.md"), "# Rules\n\n- Never push to main\n").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_readme_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let mut options = SandboxOptions::new(Source::Repositories(dir.path().join("repos")));
    options.limits = unlimited();
    let sandbox = aac::sandbox::serve(options).await.unwrap();
    let model = Server::start(|_, asked| match asked.body.pointer("/response_format/json_schema/schema/properties") {
        Some(answer) if answer.get("margin").is_some() => Reply::say("{\"act\": \"pushes\", \"margin\": 0.7}"),
        Some(_) => Reply::judge("constraint", 0.9),
        None => Reply::say("- Never push to main without a review"),
    });
    let commands = commands(README);
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let words = words(&command);
        let mut run = Command::new(env!("CARGO_BIN_EXE_aac"));
        run.args(&words[1..])
            .current_dir(dir.path())
            .env_remove("AAC_DB")
            .env_remove("AAC_MODEL")
            .env("HF_HUB_CACHE", dir.path().join("hub"))
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("AAC_LLM_URL", &model.url)
            .env("AAC_LLM_MODEL", "m-1")
            .env("GITHUB_API_URL", sandbox.url())
            .env("GITHUB_GRAPHQL_URL", sandbox.graphql_url())
            .env("GITHUB_TOKEN", "sandbox");
        if SERVERS.iter().any(|server| words[1..].join(" ").starts_with(server)) {
            let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(line.contains("http://127.0.0.1:"), "{command}: {line}");
            continue;
        }
        let out = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
        let code = out.status.code().unwrap_or(-1);
        assert!(good(&command).contains(&code), "{command}: {code}\n{}", text(&out.stderr));
    }
    assert!(model.count() > 0, "the README shows how a language model is asked");
}
