//! What goes wrong around a process: a full disk, a corpus that cannot be written or is damaged, hostile names. Each
//! ends with an error that names the file and what to do, and what was stored stays.

use crate::cli::{aac, git, repositories, text};
use aac::store::Store;
use std::path::Path;
use std::process::{Command, Output};

/// Text that does not compress: words out of a small generator.
fn noise(seed: u64, words: usize) -> String {
    let mut state = seed;
    let mut text = String::new();
    for i in 0..words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}{}", state, if i % 8 == 7 { "\n" } else { " " }));
    }
    text
}

fn many(dir: &Path) {
    for i in 0..40_u64 {
        let repo = dir.join(format!("owner+name{i}"));
        std::fs::create_dir_all(&repo).unwrap();
        std::fs::write(repo.join("CLAUDE.md"), format!("# Rules {i}\n\n{}", noise(i, 2_000))).unwrap();
    }
}

/// Run with no file longer than `kib`: what a process meets on a full disk, without one.
fn confined(dir: &Path, kib: u32, args: &[&str]) -> Output {
    Command::new("bash")
        .arg("-c")
        .arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_aac"))
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

async fn blobs(db: &Path) -> i64 {
    let store = Store::open(db).await.unwrap();
    assert!(store.check().await.unwrap().is_empty());
    let blobs = store.counts().await.unwrap().blobs;
    store.close().await;
    blobs
}

#[tokio::test]
async fn a_full_disk_ends_with_what_to_do_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    many(&dir.path().join("repos"));
    let full = confined(dir.path(), 900, &["ingest", "repos", "-q"]);
    let told = text(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{told}");
    assert!(told.contains("corpus.db") && told.contains("free space"), "{told}");
    let kept = blobs(&dir.path().join("corpus.db")).await;
    let again = aac(dir.path(), &["ingest", "repos", "-q"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    let whole = blobs(&dir.path().join("corpus.db")).await;
    assert!(kept <= whole && whole == 40, "{kept} of {whole}");
    // An export that finds no room leaves no set, and no half one.
    let export = confined(dir.path(), 60, &["export", "--license", "all-metadata", "--out", "out", "-q"]);
    assert_eq!(export.status.code(), Some(1), "{}", text(&export.stderr));
    assert!(!dir.path().join("out").exists());
}

#[tokio::test]
async fn a_damaged_corpus_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    many(&dir.path().join("repos"));
    assert_eq!(aac(dir.path(), &["ingest", "repos", "-q"]).status.code(), Some(0));
    let db = dir.path().join("corpus.db");
    let mut bytes = std::fs::read(&db).unwrap();
    let (from, to) = (4096, bytes.len() / 2);
    bytes[from..to].fill(0xa5);
    std::fs::write(&db, bytes).unwrap();
    let out = aac(dir.path(), &["status"]);
    let told = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("corpus.db") && told.contains("damaged"), "{told}");
}

/// The user may write everything, so that the file's mode says nothing; another user's rights are borrowed.
#[test]
fn a_corpus_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    assert_eq!(aac(dir.path(), &["ingest", "repos", "-q"]).status.code(), Some(0));
    let root = text(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0";
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let binary = dir.path().join("aac");
    std::fs::copy(env!("CARGO_BIN_EXE_aac"), &binary).unwrap();
    mode(&dir.path().join("corpus.db"), 0o444);
    mode(dir.path(), 0o555);
    let mut command = Command::new(if root { Path::new("setpriv") } else { binary.as_path() });
    if root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    }
    let out = match command.args(["ingest", "repos", "-q"]).current_dir(dir.path()).output() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("SKIPPED: setpriv lends no other user's rights here: {error}");
            mode(dir.path(), 0o755);
            return;
        }
    };
    mode(dir.path(), 0o755);
    let told = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("corpus.db") && told.contains("writable"), "{told}");
}

/// Names that would steer a terminal, leave a folder or run in a page reach none of them.
#[test]
fn hostile_names_and_texts_harm_neither_terminal_nor_report() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repos/owner+name");
    let nasty = repo.join("\u{1b}[31m<img src=x onerror=alert(1)>");
    std::fs::create_dir_all(&nasty).unwrap();
    std::fs::write(nasty.join("CLAUDE.md"), "# <script>alert(1)</script>\n\n- Never \u{1b}[2J push\n").unwrap();
    std::fs::write(nasty.join("broken.mdc"), [0xff, 0xfe, 0x00]).unwrap();
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-qm", "first"]);
    for args in [
        &["ingest", "repos", "-v"][..],
        &["segment"],
        &["dedup"],
        &["tag"],
        &["classify"],
        &["status"],
        &["export", "--license", "all-metadata", "--out", "out"],
        &["report", "--out", "report.html"],
    ] {
        let out = aac(dir.path(), args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
        for stream in [&out.stdout, &out.stderr] {
            assert!(!stream.contains(&0x1b), "{args:?}: {}", text(stream));
        }
    }
    let path = std::fs::read_dir(&nasty).unwrap().find_map(|e| e.ok().filter(|e| e.file_name() == "CLAUDE.md"));
    for args in [&["lint"][..], &["classify"], &["compact", "--budget", "90%"]] {
        let file = path.as_ref().unwrap().path();
        let out = aac(dir.path(), &[args, &[file.to_str().unwrap()]].concat());
        assert!(matches!(out.status.code(), Some(0 | 4 | 6)), "{args:?}: {}", text(&out.stderr));
        assert!(!out.stderr.contains(&0x1b), "{args:?}: {}", text(&out.stderr));
        // What a program reads must be the text itself; what people read must not steer the terminal.
        assert!(args[0] == "compact" || !out.stdout.contains(&0x1b), "{args:?}: {}", text(&out.stdout));
    }
    let report = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(!report.contains("<img src=x") && !report.contains("<script>alert"), "{report}");
    let card = std::fs::read_to_string(dir.path().join("out/README.md")).unwrap();
    assert!(!card.contains("<img src=x"), "{card}");
}

/// A token is used and never told: not in logs, errors, the corpus or what is made of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_nowhere() {
    const TOKEN: &str = "ghp_QmVuZXZvbGVudFRva2VuT2ZBVGVzdA0123456789";
    let dir = tempfile::tempdir().unwrap();
    repositories(&dir.path().join("repos"));
    let mut options = aac::sandbox::SandboxOptions::new(aac::sandbox::Source::Repositories(dir.path().join("repos")));
    options.limits = crate::crawl::unlimited();
    let sandbox = aac::sandbox::serve(options).await.unwrap();
    let (place, url, graphql) = (dir.path().to_owned(), sandbox.url(), sandbox.graphql_url());
    let run = move |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_aac"))
            .args(args)
            .current_dir(&place)
            .env("GITHUB_API_URL", &url)
            .env("GITHUB_GRAPHQL_URL", &graphql)
            .env("GITHUB_TOKEN", TOKEN)
            .env("RUST_LOG", "trace")
            .output()
            .unwrap()
    };
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Vec::new();
        let whole = run(&["build", "-vv"]);
        assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
        // A refused request is the likeliest place for a careless error.
        let refused = run(&["crawl", "-vv", "--db", "other.db", "--max-requests", "1"]);
        for out in [whole, refused] {
            told.extend(out.stdout);
            told.extend(out.stderr);
        }
        told
    })
    .await
    .unwrap();
    assert!(!text(&told).contains(TOKEN), "{}", text(&told));
    fn grep(dir: &Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                grep(&path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                assert!(!text(&bytes).contains(TOKEN), "{}", path.display());
            }
        }
    }
    grep(dir.path());
}
