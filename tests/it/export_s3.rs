//! A set in a bucket: whole at every moment or mended by the next export, and refusals that say what to do. Against moto,
//! where `AAC_PYTHON` names an interpreter that has it.

use crate::cli::text;
use crate::export::corpus;
use crate::gold::client;
use aac::corpus::Sha256;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

const KEY: &str = "AKIATESTINGTESTING00";
const SECRET: &str = "not-a-secret-of-anybody";

/// A moto server, stopped when it goes out of scope.
struct Moto {
    child: Child,
    url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Start a server that asks for valid credentials after `free` requests. Nothing where there is no moto.
fn moto(free: Option<u32>) -> Option<Moto> {
    let python = std::env::var_os("AAC_PYTHON")?;
    let has = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status().ok()?;
    if !has.success() {
        eprintln!("the Python of AAC_PYTHON has no moto: exports into buckets are not tried");
        return None;
    }
    let mut command = Command::new(python);
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]);
    if let Some(free) = free {
        command.env("INITIAL_NO_AUTH_ACTION_COUNT", free.to_string());
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = lines.find_map(|line| Some(line.unwrap().split_once("Running on ")?.1.trim().to_owned()));
    // What it says of later requests must not fill the pipe.
    std::thread::spawn(move || lines.count());
    Some(Moto { child, url: url.expect("moto ended before it served") })
}

/// The requests that change something, and the process to be killed before one of them.
#[derive(Default)]
struct Proxy {
    to: String,
    changes: u32,
    victim: Option<(u32, u32)>,
}

type Shared = Arc<Mutex<Proxy>>;

/// Serve a way to `to` that counts; returns its address.
async fn proxy(to: &str) -> (String, Shared) {
    let state = Shared::new(Mutex::new(Proxy { to: to.to_owned(), ..Proxy::default() }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(pass).with_state((Arc::clone(&state), client()));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, state)
}

async fn pass(State((shared, client)): State<(Shared, reqwest::Client)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let to = {
        let mut proxy = shared.lock().unwrap();
        if parts.method != "GET" && parts.method != "HEAD" {
            proxy.changes += 1;
            let changes = proxy.changes;
            if let Some((_, victim)) = proxy.victim.filter(|(at, _)| *at == changes) {
                assert!(Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap().success());
                // Nobody reads the answer; the request must not arrive.
                return Response::builder().status(500).body(Body::empty()).unwrap();
            }
        }
        proxy.to.clone()
    };
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let url = format!("{to}{}", parts.uri.path_and_query().unwrap());
    let sent = client.request(parts.method, url).headers(parts.headers).body(body).send().await.unwrap();
    let mut response = Response::builder().status(sent.status());
    response.headers_mut().unwrap().extend(sent.headers().clone());
    response.body(Body::from(sent.bytes().await.unwrap())).unwrap()
}

fn export(db: &Path, endpoint: &str, address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aac"));
    command.args(["export", "--out", address, "--db"]).arg(db).current_dir(db.parent().unwrap());
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint),
    ] {
        command.env(name, value);
    }
    command.env_remove("AWS_SESSION_TOKEN").env_remove("AAC_DB").env_remove("AAC_MODEL");
    command
}

async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Every object of a bucket of few objects.
async fn objects(url: &str, bucket: &str) -> BTreeMap<String, Vec<u8>> {
    let client = client();
    // A server that does not check who asks wants to be asked by somebody all the same.
    let who = format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    );
    let get = async |url: String| {
        client.get(url).header("authorization", &who).send().await.unwrap().error_for_status().unwrap()
    };
    let list = get(format!("{url}/{bucket}?list-type=2")).await.text().await.unwrap();
    let mut found = BTreeMap::new();
    for key in list.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0)) {
        found.insert(key.to_owned(), get(format!("{url}/{bucket}/{key}")).await.bytes().await.unwrap().to_vec());
    }
    found
}

/// Make a bucket, or an object in one.
async fn put(url: &str, name: &str) {
    let body = if name.contains('/') { "x" } else { "" };
    client().put(format!("{url}/{name}")).body(body).send().await.unwrap().error_for_status().unwrap();
}

/// The rows of the set whose manifest is there, after a look at every file that it names.
fn whole(objects: &BTreeMap<String, Vec<u8>>) -> Option<u64> {
    let manifest: serde_json::Value = serde_json::from_slice(objects.get("set/manifest.json")?).unwrap();
    for file in manifest["files"].as_array().unwrap() {
        let bytes = &objects[&format!("set/{}", file["path"].as_str().unwrap())];
        assert_eq!(file["sha256"], Sha256::of(bytes).to_string(), "{file} is another one");
    }
    manifest["configs"]["artifacts"]["rows"].as_u64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_in_a_bucket_is_whole_or_mended_wherever_an_upload_is_killed() {
    let Some(moto) = moto(None) else { return };
    let dir = tempfile::tempdir().unwrap();
    let dbs = [dir.path().join("one.db"), dir.path().join("two.db")];
    corpus(&dbs[0], false).await.close().await;
    let other = corpus(&dbs[1], false).await;
    let begun = other.begin_run("optout", &serde_json::json!({}), 2_000_000).await.unwrap();
    let key = aac::store::OptOutKey::repo(&"c/apache".parse().unwrap());
    other.add_opt_out(begun, &key, "asked", 2_000_000).await.unwrap();
    other.close().await;
    let rows = [7, 5];
    put(&moto.url, "sets").await;
    put(&moto.url, "sets/set/notes.txt").await;
    let (url, proxy) = proxy(&moto.url).await;
    let address = "s3://sets/set";

    let out = run(export(&dbs[0], &url, address)).await;
    assert!(out.status.success(), "{}", text(&out.stderr));
    let first = objects(&moto.url, "sets").await;
    assert_eq!(whole(&first), Some(7));
    // A shard of a set that had more of them.
    put(&moto.url, "sets/set/data/artifacts-00007-of-00009.parquet").await;
    proxy.lock().unwrap().changes = 0;
    assert!(run(export(&dbs[1], &url, address)).await.status.success());
    let changes = std::mem::take(&mut proxy.lock().unwrap().changes);
    let second = objects(&moto.url, "sets").await;
    assert_eq!(whole(&second), Some(5));
    assert!(second.keys().all(|name| !name.contains("00009") && !name.contains(".incoming")), "{:?}", second.keys());
    assert!(second.contains_key("set/notes.txt"), "what no export wrote stays");
    assert!(!dir.path().join(".two.db.upload.new").exists(), "nothing is left beside the corpus");

    let (mut kept, mut unwhole, mut replaced) = (0, 0, 0);
    for (round, at) in (1..=changes).step_by(2).enumerate() {
        let new = round % 2;
        let mut child = {
            let mut proxy = proxy.lock().unwrap();
            let child = export(&dbs[new], &url, address).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            (proxy.changes, proxy.victim) = (0, Some((at, child.id())));
            child
        };
        tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
        proxy.lock().unwrap().victim = None;
        let found = objects(&moto.url, "sets").await;
        match whole(&found) {
            Some(found) if found == rows[1 - new] => kept += 1,
            Some(found) => replaced += u32::from(found == rows[new]),
            None => {
                assert!(found.keys().any(|name| name.starts_with("set/.incoming/")), "{:?}", found.keys());
                unwhole += 1;
            }
        }
        assert!(run(export(&dbs[new], &moto.url, address)).await.status.success());
        let mended = objects(&moto.url, "sets").await;
        assert_eq!(whole(&mended), Some(rows[new]), "killed before change {at}");
        assert!(mended.keys().all(|name| !name.contains(".incoming")), "{:?}", mended.keys());
    }
    assert!(kept > 2 && unwhole > 2 && replaced > 0, "{kept} kept, {unwhole} not whole, {replaced} replaced");

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/bucket.py");
    let mut reader = Command::new(std::env::var_os("AAC_PYTHON").unwrap());
    reader.arg(script).args([moto.url.trim_start_matches("http://"), "sets/set"]).env("AWS_ACCESS_KEY_ID", KEY);
    reader.env("AWS_SECRET_ACCESS_KEY", SECRET);
    let read = run(reader).await;
    assert!(read.status.success(), "{}", text(&read.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bucket_refuses_is_said_without_a_key() {
    // One request makes the bucket; then credentials must be valid, and these are not.
    let (Some(open), Some(closed)) = (moto(None), moto(Some(1))) else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("one.db");
    corpus(&db, false).await.close().await;
    put(&closed.url, "sets").await;
    put(&open.url, "others").await;
    put(&open.url, "others/set/data/x").await;
    for (server, address, word) in [
        (&open, "s3://nowhere/set", "there is no such bucket"),
        (&closed, "s3://sets/set", "access denied"),
        (&open, "s3://others/set", "it holds data but no manifest.json"),
        (&open, "s3:///set", "expected s3://BUCKET/PREFIX"),
        (&open, "gs://others/set", "expected s3://BUCKET/PREFIX"),
    ] {
        let mut command = export(&db, &server.url, address);
        command.arg("-vv");
        let out = run(command).await;
        let said = text(&out.stderr) + &text(&out.stdout);
        assert!(!out.status.success() && said.contains(word), "{address}: {said}");
        assert!(!said.contains(KEY) && !said.contains(SECRET), "{address}: {said}");
    }
    assert_eq!(objects(&open.url, "others").await.len(), 1, "nothing was put where nothing may be");
}
