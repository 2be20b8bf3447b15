//! Labels whose texts are on GitHub only, against the sandbox over real git repositories.

use aac::corpus::GitOid;
use aac::sandbox::{Running, SandboxOptions, Source, serve};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const RULES: &str = "# Rules\n\n- Never push to main\n- Run the tests\n";
/// What the files began with in their first commit.
const BEFORE: &str = "- Once upon a time\n\n";
const SECRET: &str = "# Rules\n\n- Tell nobody\n";

fn git(folder: &Path, args: &[&str]) {
    let who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"];
    let output = Command::new("git").args(who).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A repository of rules and a text that GraphQL cuts off where it is long, both of which said something else before.
fn repository(folder: &Path, rules: &str, long: &str) {
    std::fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q"]);
    for (message, before) in [("Begin", BEFORE), ("Say more", "")] {
        std::fs::write(folder.join("AGENTS.md"), format!("{before}{rules}")).unwrap();
        std::fs::write(folder.join("CLAUDE.md"), format!("{before}{long}")).unwrap();
        git(folder, &["add", "."]);
        git(folder, &["commit", "-qm", message]);
    }
}

fn hydrate(dir: &Path, sandbox: &Running, token: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command.args(["-q", "gold", "hydrate", "labels.jsonl", "--json", "--out", "found.jsonl"]).args(args);
    command.current_dir(dir).env_remove("GH_TOKEN").env_remove("GITHUB_TOKEN").env_remove("AAC_DB");
    command.env("GITHUB_API_URL", sandbox.url()).env("GITHUB_GRAPHQL_URL", sandbox.graphql_url());
    if let Some(token) = token {
        command.env("GITHUB_TOKEN", token);
    }
    command.output().unwrap()
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_are_not_here_come_from_github_by_the_ids_of_their_blobs() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let long = format!("# Long\n\n- Keep it short\n\n{}\n", "long text ".repeat(60_000));
    repository(&at.join("served/ann+demo"), RULES, &long);
    repository(&at.join("served/bob+secret"), SECRET, "");
    let source = Source::Repositories(at.join("served"));
    let sandbox = serve(SandboxOptions { limits: crate::crawl::unlimited(), ..SandboxOptions::new(source) }).await;
    let sandbox = sandbox.unwrap();

    let label = |repo: &str, path: &str, body: &str, line: u32| {
        let blob = GitOid::of_blob(body.as_bytes());
        json!({"id": path, "repo": repo, "path": path, "blob": blob, "line": line, "label": "C"}).to_string()
    };
    let labels = [
        label("Ann/Demo", "AGENTS.md", RULES, 4),
        label("ann/demo", "CLAUDE.md", &long, 3),
        label("ann/demo", "AGENTS.md", &format!("{BEFORE}{RULES}"), 1),
        label("ann/demo", "CLAUDE.md", &format!("{BEFORE}{long}"), 1),
        label("ann/demo", "AGENTS.md", "never committed", 1),
        label("ann/gone", "AGENTS.md", "# Gone\n", 1),
        label("bob/secret", "AGENTS.md", SECRET, 3),
        json!({"text": "Mine", "label": "B"}).to_string(),
    ];
    std::fs::write(at.join("labels.jsonl"), labels.join("\n")).unwrap();

    let refused = hydrate(at, &sandbox, None, &["--github"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("GITHUB_TOKEN"));
    let nothing = hydrate(at, &sandbox, Some("sandbox"), &[]);
    assert_eq!(nothing.status.code(), Some(1), "without a corpus, nothing is asked unasked");

    // No corpus: everything comes from GitHub.
    let output = hydrate(at, &sandbox, Some("sandbox"), &["--github"]);
    let found = summary(&output);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert_eq!((&found["by_line"], &found["with_text"]), (&json!(5), &json!(1)));
    assert_eq!(found["missing"], json!({"gone": 2}));
    let written = std::fs::read_to_string(at.join("found.jsonl")).unwrap();
    let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written.len(), 6);
    assert_eq!((&written[0]["text"], &written[0]["before"]), (&json!("Run the tests"), &json!("Never push to main")));
    assert_eq!((&written[1]["text"], &written[1]["heading"]), (&json!("Keep it short"), &json!(["Long"])));
    assert_eq!([&written[2]["text"], &written[3]["text"]], ["Once upon a time"; 2], "no longer at the tip");

    // What is here is not asked for, and who opted out is not, either; nothing is stored.
    let aac = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_aac")).args(args).current_dir(at).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    std::fs::create_dir(at.join("here")).unwrap();
    git(at, &["clone", "-q", "served/ann+demo", "here/ann+demo"]);
    aac(&["-q", "ingest", "here"]);
    aac(&["-q", "optout", "add", "bob"]);
    let before = aac(&["status", "--json"]).stdout;
    let found = summary(&hydrate(at, &sandbox, Some("sandbox"), &["--github"]));
    assert_eq!(found["by_line"], 4);
    assert_eq!(found["missing"], json!({"gone": 2, "opted-out": 1}));
    let blobs = |status: &[u8]| serde_json::from_slice::<Value>(status).unwrap()["blobs"].clone();
    assert_eq!(blobs(&aac(&["status", "--json"]).stdout), blobs(&before));
    // The long text takes a second request.
    let bounded = hydrate(at, &sandbox, Some("sandbox"), &["--github", "--max-requests", "1", "--db", "none.db"]);
    assert_eq!(bounded.status.code(), Some(5), "{}", String::from_utf8_lossy(&bounded.stderr));
    assert!(summary(&bounded)["paused"].as_str().is_some());
}
