//! The sandbox over HTTP, as a client meets it.

use aac::plan::Targets;
use aac::sandbox::{Bucket, Faults, Limits, Running, SandboxOptions, Source, Synthetic, serve};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn of(running: &Running) -> Self {
        // Nothing here speaks TLS, but the client wants to know how it would.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { http, url: running.url() }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url)).bearer_auth("t")).await
    }

    async fn search(&self, query: &str, page: u32) -> Answer {
        let query = query.replace(' ', "+").replace('>', "%3E").replace('<', "%3C");
        self.get(&format!("/search/code?q={query}&per_page=100&page={page}")).await
    }

    async fn graphql(&self, query: &str) -> Value {
        let request = self.http.post(format!("{}/graphql", self.url)).bearer_auth("t");
        let answer = self.send(request.json(&json!({"query": query}))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }
}

fn unlimited(source: Source) -> SandboxOptions {
    let mut options = SandboxOptions::new(source);
    options.limits.enabled = false;
    options
}

/// Every item of a query, split by size where a thousand are not enough.
async fn every_item(client: &Client, query: &str) -> BTreeMap<(String, String), (String, String)> {
    let mut found = BTreeMap::new();
    let mut windows = vec![(0u64, 400_000u64)];
    while let Some((low, high)) = windows.pop() {
        let text = format!("{query} size:{low}..{high}");
        let first = client.search(&text, 1).await.json();
        if first["total_count"].as_u64().unwrap() > 1000 && low < high {
            let middle = low + (high - low) / 2;
            windows.extend([(low, middle), (middle + 1, high)]);
            continue;
        }
        let pages = first["total_count"].as_u64().unwrap().min(1000).div_ceil(100) as u32;
        for page in 1..=pages.max(1) {
            for item in client.search(&text, page).await.json()["items"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let key = (text(&item["repository"]["full_name"]), text(&item["path"]));
                let value = (text(&item["sha"]), text(&item["repository"]["node_id"]));
                assert!(found.insert(key, value).is_none(), "{item} came twice");
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_by_size_find_every_file_of_a_name_once() {
    let running = serve(unlimited(Source::Synthetic(6_000))).await.unwrap();
    let client = Client::of(&running);
    let world = Synthetic::new(6_000, 1);
    let mut expected = BTreeSet::new();
    for repo in 0..world.repositories() {
        for (path, _) in world.paths(repo) {
            let name = path.rsplit('/').next().unwrap().to_lowercase();
            if name == "claude.md" || name.starts_with("claude.md.") {
                expected.insert((world.slug(repo), path));
            }
        }
    }
    let mut found = every_item(&client, "filename:CLAUDE.md").await;
    found.append(&mut every_item(&client, "filename:CLAUDE.md fork:only").await);
    assert!(expected.len() > 1_200, "{}", expected.len());
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_default_target_finds_something_in_a_generated_corpus() {
    let running = serve(unlimited(Source::Synthetic(20_000))).await.unwrap();
    let client = Client::of(&running);
    let targets = Targets::embedded().unwrap();
    let mut without = Vec::new();
    for target in targets.selected() {
        let answer = client.search(&target.search, 1).await;
        assert_eq!(answer.status, 200, "{}: {}", target.search, answer.text);
        let body = answer.json();
        let owned = body["items"].as_array().unwrap().iter().filter(|item| {
            targets.owner(item["path"].as_str().unwrap()).is_some_and(|owner| owner.target.id == target.id)
        });
        if owned.count() == 0 {
            without.push(format!("{} ({})", target.id, target.search));
        }
    }
    assert!(without.is_empty(), "own none of their hits: {without:#?}");
}

#[tokio::test]
async fn refusals_have_the_measured_words() {
    let running = serve(unlimited(Source::Synthetic(200))).await.unwrap();
    let client = Client::of(&running);
    let beyond = client.get("/search/code?q=filename:AGENTS.md&per_page=100&page=11").await;
    let expected = json!({
        "message": "Cannot access beyond the first 1000 results",
        "documentation_url": "https://docs.github.com/rest/search/search#search-code",
        "status": "422",
    });
    assert_eq!((beyond.status, beyond.json()), (422, expected));
    let page = client.get("/search/code?q=filename:AGENTS.md&page=x").await;
    assert_eq!((page.status, page.header("content-type")), (400, "text/plain; charset=utf-8"));
    let blank = client.get("/search/code?q=").await;
    assert_eq!(blank.status, 422);
    assert_eq!(blank.json()["errors"], json!([{"resource": "Search", "field": "q", "code": "missing"}]));
    for bad in ["a fork:false", "(a)", "a size:1 size:2"] {
        let answer = client.search(bad, 1).await;
        assert_eq!(answer.status, 422, "{bad}");
        assert!(answer.text.contains("ERROR_TYPE_QUERY_PARSING_FATAL"), "{}", answer.text);
    }
    let unknown = client.search("repo:no/body filename:x", 1).await.json();
    assert_eq!(unknown, json!({"total_count": 0, "incomplete_results": true, "items": []}));
    let anonymous = client.http.get(format!("{}/search/code?q=x", client.url));
    assert_eq!(client.send(anonymous).await.status, 401);
}

#[tokio::test]
async fn pages_link_on_and_the_last_link_stops_at_ten() {
    let running = serve(unlimited(Source::Synthetic(12_000))).await.unwrap();
    let client = Client::of(&running);
    let first = client.search("filename:CLAUDE.md", 1).await;
    let link = first.header("link");
    assert!(link.contains("page=2>; rel=\"next\"") && link.contains("page=10>; rel=\"last\""), "{link}");
    assert!(!client.search("filename:CLAUDE.md", 10).await.header("link").contains("next"));
    let shas =
        |body: Value| body["items"].as_array().unwrap().iter().map(|i| i["html_url"].to_string()).collect::<Vec<_>>();
    assert_eq!(shas(first.json()), shas(client.search("filename:CLAUDE.md", 1).await.json()));
    assert_ne!(shas(first.json()), shas(client.search("filename:CLAUDE.md size:>0", 1).await.json()));
}

#[tokio::test]
async fn content_comes_by_blob_id_with_histories_and_one_missing_name_nulls_only_itself() {
    let running = serve(unlimited(Source::Synthetic(300))).await.unwrap();
    let client = Client::of(&running);
    let hits = client.search("filename:CLAUDE.md", 1).await.json();
    let hit = &hits["items"][0];
    let (full, sha, path) =
        (hit["repository"]["full_name"].as_str().unwrap(), hit["sha"].as_str().unwrap(), hit["path"].as_str().unwrap());
    let (owner, name) = full.split_once('/').unwrap();
    let body = client
        .graphql(&format!(
            r#"{{
              a: repository(owner: "{owner}", name: "{name}") {{
                ...facts
                f: object(oid: "{sha}") {{ __typename oid ... on Blob {{ text byteSize isBinary isTruncated }} }}
                defaultBranchRef {{ name target {{ oid ... on Commit {{ history(first: 2, path: "{path}") {{
                  totalCount pageInfo {{ hasNextPage endCursor }}
                  nodes {{ oid committedDate message author {{ email user {{ login }} }} authors(first: 3) {{ nodes {{ email }} }} parents {{ totalCount }} }} }} }} }} }}
              }}
              b: repository(owner: "no", name: "body") {{ id }}
              rateLimit {{ cost remaining resetAt }}
            }}
            fragment facts on Repository {{ id databaseId nameWithOwner stargazerCount licenseInfo {{ spdxId key }} }}"#
        ))
        .await;
    let data = &body["data"];
    assert_eq!(data["a"]["id"], hit["repository"]["node_id"]);
    let blob = &data["a"]["f"];
    assert_eq!((blob["__typename"].as_str(), blob["oid"].as_str()), (Some("Blob"), Some(sha)));
    assert_eq!(aac::corpus::GitOid::of_blob(blob["text"].as_str().unwrap().as_bytes()).to_string(), sha);
    let history = &data["a"]["defaultBranchRef"]["target"]["history"];
    assert!(history["totalCount"].as_u64().unwrap() >= 1);
    assert!(history["nodes"][0]["authors"]["nodes"][0]["email"].is_string());
    assert!(data["b"].is_null());
    let error = &body["errors"][0];
    assert_eq!((&error["type"], &error["path"]), (&json!("NOT_FOUND"), &json!(["b"])));
    assert_eq!(data["rateLimit"]["cost"], 1);
    let wrong = client.graphql("{ a: repository(owner: \"x\", name: \"y\") { id } b: rateLimit { nothing } }").await;
    assert_eq!(wrong["errors"][0]["extensions"]["code"], "undefinedField");
    assert!(wrong.get("data").is_none());
}

#[tokio::test]
async fn the_window_of_code_search_is_its_own_and_says_when_it_ends() {
    let mut options = SandboxOptions::new(Source::Synthetic(100));
    options.limits = Limits { code_search: Bucket { limit: 2, window_seconds: 3600.0 }, ..Limits::default() };
    let running = serve(options).await.unwrap();
    let client = Client::of(&running);
    for remaining in ["1", "0"] {
        let answer = client.search("filename:AGENTS.md", 1).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, remaining));
        assert_eq!(answer.header("x-ratelimit-resource"), "code_search");
        assert!(!answer.header("x-github-request-id").is_empty());
    }
    let refused = client.search("filename:AGENTS.md", 1).await;
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (403, "0"));
    assert!(refused.text.contains("API rate limit exceeded for user ID"), "{}", refused.text);
    let limits = client.get("/rate_limit").await.json();
    assert_eq!(limits["resources"]["code_search"]["remaining"], 0);
    assert_eq!(limits["resources"]["core"]["used"], 0);
    let stats = running.shutdown().await.unwrap();
    assert_eq!((stats.count("code_search", "ok"), stats.count("code_search", "primary_limit")), (2, 1));
}

#[tokio::test]
async fn a_held_answer_is_not_sent_again() {
    let running = serve(unlimited(Source::Synthetic(50))).await.unwrap();
    let client = Client::of(&running);
    let slug = Synthetic::new(50, 1).slug(0);
    let tag = client.get(&format!("/repos/{slug}")).await.header("etag").to_owned();
    let again = |token: &'static str| {
        let request = client.http.get(format!("{}/repos/{slug}", client.url));
        client.send(request.bearer_auth(token).header("if-none-match", tag.clone()))
    };
    assert_eq!(again("t").await.status, 304);
    assert_eq!(again("another").await.status, 200);
}

#[tokio::test]
async fn special_repositories_answer_as_such_and_faults_end() {
    let world = Synthetic::new(50, 1);
    let slug = world.slug(0);
    let with = |faults: Faults| SandboxOptions { faults, ..unlimited(Source::Synthetic(50)) };
    let one = Faults { blocked: 1.0, ..Faults::default() };
    let running = serve(with(one)).await.unwrap();
    let blocked = Client::of(&running).get(&format!("/repos/{slug}")).await;
    assert_eq!((blocked.status, &blocked.json()["block"]["reason"]), (451, &json!("dmca")));

    let running = serve(with(Faults { renamed: 1.0, ..Faults::default() })).await.unwrap();
    let client = Client::of(&running);
    let moved = client.get(&format!("/repos/{slug}/contents/README.md")).await;
    assert_eq!(moved.status, 301);
    let to = moved.header("location").strip_prefix(&client.url).unwrap().to_owned();
    assert!(to.starts_with("/repositories/") && to.ends_with("/contents/README.md"), "{to}");
    let (owner, name) = slug.split_once('/').unwrap();
    let body =
        client.graphql(&format!("{{ repository(owner: \"{owner}\", name: \"{name}\") {{ nameWithOwner }} }}")).await;
    assert_eq!(body["data"]["repository"]["nameWithOwner"], format!("{slug}-next"));

    let running = serve(with(Faults { empty: 1.0, ..Faults::default() })).await.unwrap();
    let client = Client::of(&running);
    let answer = client.get(&format!("/repos/{slug}/git/trees/HEAD")).await;
    assert_eq!((answer.status, &answer.json()["message"]), (409, &json!("Git Repository is empty.")));

    let running = serve(with(Faults { bad_gateway: 1.0, ..Faults::default() })).await.unwrap();
    let client = Client::of(&running);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.get(&format!("/repos/{slug}")).await.status);
    }
    assert_eq!(statuses, [502, 502, 200]);
}

#[tokio::test]
async fn an_epoch_changes_some_files_and_their_commits() {
    let (before, after) = (Synthetic::new(4_000, 1), Synthetic::new(4_000, 1).at_epoch(1));
    let running = serve(unlimited(Source::Synthetic(4_000))).await.unwrap();
    let client = Client::of(&running);
    let old = every_item(&client, "filename:CLAUDE.md").await;
    assert!(running.evolve(1).await);
    let new = every_item(&client, "filename:CLAUDE.md").await;
    let gone = old.keys().filter(|key| !new.contains_key(*key)).count();
    let changed = old.iter().filter(|(key, value)| new.get(*key).is_some_and(|now| now.0 != value.0)).count();
    let share = |n: usize| n as f64 / old.len() as f64;
    assert!((0.005..0.045).contains(&share(gone)), "{gone} of {} gone", old.len());
    assert!((0.02..0.09).contains(&share(changed)), "{changed} of {} changed", old.len());
    let grown = after.artifacts() as f64 / before.artifacts() as f64;
    assert!((0.99..1.05).contains(&grown), "{grown}");
}

/// A repository with what real ones have: a link, an executable, a nested folder and two commits.
fn repository(folder: &std::path::Path) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=Ann",
                "-c",
                "user.email=7+ann@users.noreply.github.com",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    std::fs::create_dir_all(folder.join(".claude/hooks")).unwrap();
    std::fs::write(folder.join("AGENTS.md"), "# Rules\n\n- Ü: never push.\n").unwrap();
    std::fs::write(folder.join(".claude/hooks/check.sh"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("AGENTS.md", folder.join("CLAUDE.md")).unwrap();
    git(&["add", "."]);
    git(&["update-index", "--chmod=+x", ".claude/hooks/check.sh"]);
    git(&["commit", "-qm", "Begin"]);
    std::fs::write(folder.join("big.bin"), [0u8; 400_000]).unwrap();
    std::fs::write(folder.join("long.md"), "long text ".repeat(60_000)).unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "Add\n\nCo-authored-by: Claude <noreply@anthropic.com>"]);
    git(&["ls-tree", "-r", "-t", "HEAD"])
}

#[tokio::test]
async fn a_real_repository_is_served_as_git_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("Ann+Demo");
    std::fs::create_dir(&place).unwrap();
    let listing = repository(&place);
    let running = serve(unlimited(Source::Repositories(folder.path().into()))).await.unwrap();
    let client = Client::of(&running);

    let tree = client.get("/repos/ann/demo/git/trees/main?recursive=1").await.json();
    let mut shown: Vec<String> = tree["tree"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            format!("{} {} {}\t{}", text("mode"), text("type"), text("sha"), text("path"))
        })
        .collect();
    let mut expected: Vec<String> = listing.lines().map(str::to_owned).collect();
    shown.sort();
    expected.sort();
    assert_eq!(shown, expected);

    // A link is found as its nine bytes, and read over REST as the file it leads to.
    let hits = client.search("filename:CLAUDE.md size:9", 1).await.json();
    assert_eq!(hits["items"][0]["path"], "CLAUDE.md");
    let content = client.get("/repos/Ann/Demo/contents/CLAUDE.md").await.json();
    assert_eq!(content["size"], 27);
    // 384 KB and more are not indexed.
    assert_eq!(client.search("extension:bin", 1).await.json()["total_count"], 0);

    let body = client
        .graphql(
            r#"{ repository(owner: "ann", name: "demo") {
              long: object(expression: "HEAD:long.md") { ... on Blob { text isBinary isTruncated byteSize } }
              bin: object(expression: "HEAD:big.bin") { ... on Blob { text isBinary isTruncated } }
              link: object(expression: "HEAD:CLAUDE.md") { ... on Blob { text } }
              root: object(expression: "HEAD:") { ... on Tree { entries { name type mode object { ... on Tree { entries { name } } } } } }
              object(expression: "HEAD") { ... on Commit { history(first: 1, path: "long.md") { totalCount nodes { authors(first: 5) { nodes { email user { login } } } } } } }
            } }"#,
        )
        .await;
    let repo = &body["data"]["repository"];
    assert_eq!(repo["long"]["text"].as_str().unwrap().len(), 512_000);
    assert_eq!((&repo["long"]["isBinary"], &repo["long"]["isTruncated"]), (&Value::Null, &json!(true)));
    assert_eq!(repo["long"]["byteSize"], 600_000);
    assert_eq!((&repo["bin"]["text"], &repo["bin"]["isBinary"]), (&Value::Null, &json!(true)));
    assert_eq!(repo["link"]["text"], "AGENTS.md");
    let history = &repo["object"]["history"];
    assert_eq!(history["totalCount"], 1);
    assert_eq!(history["nodes"][0]["authors"]["nodes"][0]["user"]["login"], "ann");
    assert_eq!(history["nodes"][0]["authors"]["nodes"][1]["email"], "noreply@anthropic.com");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "a skipped comparison must be seen")]
async fn pygithub_reads_the_sandbox() {
    let Some(python) = std::env::var_os("AAC_PYTHON") else {
        eprintln!("SKIPPED: set AAC_PYTHON to a python with PyGithub to compare with a real client");
        return;
    };
    let running = serve(unlimited(Source::Synthetic(6_000))).await.unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/pygithub.py");
    let url = running.url();
    let output =
        tokio::task::spawn_blocking(move || Command::new(python).arg(script).arg(url).output()).await.unwrap().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("read 1000 items"), "{out}");
}
