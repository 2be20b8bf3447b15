//! Local repositories, compared with what the `git` command says about the same ones.

use aac::corpus::GitOid;
use aac::repos::{
    Change, Error, Folder, Mode, NamedBy, Reader, Repository, SourceKind, Target, discover, discover_one,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIMIT: u64 = 1 << 20;

/// Run git in `at` with nothing of the machine's own configuration, and give its output.
pub(crate) fn git(at: &Path, args: &[&str]) -> Vec<u8> {
    git_at(at, 1_700_000_000, args)
}

fn git_at(at: &Path, seconds: i64, args: &[&str]) -> Vec<u8> {
    let date = format!("@{seconds} +0100");
    let output = Command::new("git")
        .current_dir(at)
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "core.quotePath=false"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "Ann"), ("GIT_AUTHOR_EMAIL", "12+ann@users.noreply.github.com")])
        .envs([("GIT_COMMITTER_NAME", "Cy"), ("GIT_COMMITTER_EMAIL", "cy@example.org")])
        .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn said(at: &Path, args: &[&str]) -> String {
    String::from_utf8(git(at, args)).unwrap().trim().to_owned()
}

pub(crate) fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, bytes).unwrap();
}

pub(crate) fn commit(at: &Path, seconds: i64, message: &str) {
    git(at, &["add", "-A"]);
    git_at(at, seconds, &["commit", "-q", "--allow-empty", "-m", message]);
}

/// A fresh repository in `root/name`.
pub(crate) fn init(root: &Path, name: &str) -> PathBuf {
    let at = root.join(name);
    fs::create_dir_all(&at).unwrap();
    git(&at, &["init", "-q"]);
    at
}

fn reader(at: &Path) -> Reader {
    Repository::open(at).unwrap().reader()
}

fn head(reader: &Reader) -> GitOid {
    reader.head(None, None).unwrap().commit.unwrap()
}

fn oid(text: &str) -> GitOid {
    text.parse().unwrap()
}

/// `(mode, oid, path)` of every leaf, as `git ls-tree -r` lists them.
pub(crate) fn ls_tree(at: &Path, rev: &str) -> Vec<(String, String, Vec<u8>)> {
    let listing = git(at, &["ls-tree", "-r", "-z", "--full-tree", rev]);
    listing
        .split(|&b| b == 0)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let tab = line.iter().position(|&b| b == b'\t').unwrap();
            let facts = String::from_utf8(line[..tab].to_vec()).unwrap();
            let facts: Vec<&str> = facts.split(' ').collect();
            (facts[0].to_owned(), facts[2].to_owned(), line[tab + 1..].to_vec())
        })
        .collect()
}

fn walked(reader: &Reader, commit: GitOid) -> Vec<(String, String, Vec<u8>)> {
    let walk = reader.walk(commit, &|_, mode| mode != Mode::Tree).unwrap();
    assert_eq!(walk.skipped, []);
    walk.entries.into_iter().map(|e| (e.mode.octal().to_owned(), e.oid.to_string(), e.path)).collect()
}

/// The commits that `git log -- PATH` and ours name for a path; children come before parents in both.
fn log(at: &Path, rev: &str, path: &str) -> Vec<String> {
    let output = said(at, &["log", "--format=%H", rev, "--", &format!(":(top,literal){path}")]);
    output.lines().map(str::to_owned).collect()
}

fn history(reader: &Reader, commit: GitOid, path: &str) -> Vec<(String, Change)> {
    let history = reader.history(commit, &[path.as_bytes()]).unwrap();
    let touches = history.paths[0].touches.iter();
    touches.map(|t| (history.commits[t.commit].oid.to_string(), t.change)).collect()
}

#[test]
#[cfg(unix)]
fn a_walk_lists_what_ls_tree_lists_and_blobs_have_gits_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "x\n");
    write(&at, "a/b/c.md", vec![b'y'; LIMIT as usize]);
    write(&at, "a.md", "between a/ and a-\n");
    write(&at, "a-b", "\0binary");
    write(&at, "Agents.md", "one case");
    write(&at, "AGENTS.md", "another");
    write(&at, "empty", "");
    write(&at, "run.sh", "#!/bin/sh\n");
    fs::set_permissions(at.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("CLAUDE.md", at.join("link.md")).unwrap();
    fs::write(at.join(std::ffi::OsStr::from_bytes(b"caf\xe9.md")), "latin").unwrap();
    let other = init(dir.path(), "other");
    commit(&other, 1, "o");
    git(&at, &["submodule", "--quiet", "add", "../other", "sub"]);
    commit(&at, 1, "all");
    for packed in [false, true] {
        if packed {
            git(&at, &["gc", "-q"]);
        }
        let reader = reader(&at);
        let head = head(&reader);
        let listed = ls_tree(&at, "HEAD");
        assert_eq!(listed.len(), 12);
        assert_eq!(walked(&reader, head), listed);
        for (mode, id, path) in &listed {
            let entry = reader.find(head, path).unwrap().unwrap();
            assert_eq!((entry.mode.octal(), entry.oid), (mode.as_str(), oid(id)));
            if entry.mode.is_blob() {
                let bytes = reader.read(entry.oid, LIMIT).unwrap();
                assert_eq!(bytes, git(&at, &["cat-file", "blob", id]));
                assert_eq!(reader.header(entry.oid).unwrap().1, bytes.len() as u64);
            }
        }
        let trees = reader.walk(head, &|_, mode| mode == Mode::Tree).unwrap().entries;
        assert_eq!(trees.iter().map(|e| e.display_path()).collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(reader.find(head, b"a/b/missing").unwrap(), None);
        assert_eq!(reader.find(head, b"a.md/x").unwrap(), None);
        let large = reader.find(head, b"a/b/c.md").unwrap().unwrap();
        assert!(matches!(reader.read(large.oid, LIMIT - 1), Err(Error::TooLarge { size, .. }) if size == LIMIT));
        assert!(reader.read(oid(&said(&at, &["rev-parse", "HEAD:a"])), LIMIT).is_err());
    }
}

#[test]
#[cfg(unix)]
fn links_are_followed_inside_the_tree_only() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "docs/agents/AGENTS.md", "text");
    for (link, target) in [
        ("CLAUDE.md", "docs/agents/AGENTS.md"),
        ("chain.md", "CLAUDE.md"),
        ("docs/up.md", "../CLAUDE.md"),
        ("folder", "docs/agents"),
        ("out.md", "../outside.md"),
        ("absolute.md", "/etc/hostname"),
        ("gone.md", "nowhere.md"),
        ("a", "b"),
        ("b", "a"),
        ("root", "docs/.."),
        ("through-file", "CLAUDE.md/x"),
    ] {
        symlink(target, at.join(link)).unwrap();
    }
    write(dir.path(), "outside.md", "not ours");
    commit(&at, 1, "links");
    let reader = reader(&at);
    let head = head(&reader);
    let folder = Folder::open(&at).unwrap();
    for (path, wanted) in [
        ("CLAUDE.md", Some("docs/agents/AGENTS.md")),
        ("chain.md", Some("docs/agents/AGENTS.md")),
        ("docs/up.md", Some("docs/agents/AGENTS.md")),
        ("folder/AGENTS.md", Some("docs/agents/AGENTS.md")),
        ("folder", Some("docs/agents")),
        ("root/docs", Some("docs")),
        ("out.md", None),
        ("absolute.md", None),
        ("gone.md", None),
        ("a", None),
        ("through-file", None),
    ] {
        let target = reader.resolve(head, path.as_bytes()).unwrap();
        match wanted {
            Some(wanted) => {
                let Target::Entry(entry) = &target else { panic!("{path}: {target:?}") };
                assert_eq!(entry.display_path(), wanted);
                assert_eq!(entry.oid.to_string(), said(&at, &["rev-parse", &format!("HEAD:{wanted}")]));
                let Target::Entry(on_disk) = folder.resolve(path.as_bytes(), LIMIT).unwrap() else { panic!("{path}") };
                assert_eq!(on_disk.path, entry.path);
                assert!(entry.mode == Mode::Tree || on_disk == *entry);
            }
            None => {
                let why = match path {
                    "out.md" | "absolute.md" => Target::Outside,
                    "a" => Target::Loop,
                    _ => Target::Dangling,
                };
                assert_eq!(target, why, "{path}");
                // On disk a part of a path that is no directory is an error of its own.
                if path != "through-file" {
                    assert_eq!(folder.resolve(path.as_bytes(), LIMIT).unwrap(), why, "{path}");
                }
            }
        }
    }
    assert_eq!(reader.read(reader.find(head, b"out.md").unwrap().unwrap().oid, LIMIT).unwrap(), b"../outside.md");
}

#[test]
fn the_default_branch_is_found_whatever_is_checked_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "up");
    commit(&at, 1, "one");
    let first = said(&at, &["rev-parse", "HEAD"]);
    git(&at, &["tag", "-a", "v1", "-m", "annotated"]);
    git(&at, &["checkout", "-q", "-b", "feature/x"]);
    commit(&at, 2, "two");
    let second = said(&at, &["rev-parse", "HEAD"]);
    let up = reader(&at);
    let of = |reader: &Reader, rev: Option<&str>, default: Option<&str>| {
        let head = reader.head(rev, default).unwrap();
        (head.commit.map(|c| c.to_string()), head.branch)
    };
    assert_eq!(of(&up, None, None), (Some(second.clone()), Some("feature/x".into())));
    assert_eq!(of(&up, None, Some("main")), (Some(first.clone()), Some("main".into())));
    assert_eq!(of(&up, None, Some("gone")), (Some(second.clone()), Some("feature/x".into())));
    assert_eq!(of(&up, Some("v1"), None), (Some(first.clone()), None));
    assert_eq!(of(&up, Some("HEAD~1"), None), (Some(first.clone()), None));
    assert_eq!(of(&up, Some("main"), None), (Some(first.clone()), Some("main".into())));
    assert_eq!(up.branches().unwrap(), [("feature/x".into(), oid(&second)), ("main".into(), oid(&first))]);
    let error = up.head(Some("nope"), None).unwrap_err().to_string();
    assert!(error.starts_with("Failed to find a commit for \"nope\" in "), "{error}");

    git(&at, &["checkout", "-q", "main"]);
    git(dir.path(), &["clone", "-q", "up", "clone"]);
    let clone = dir.path().join("clone");
    git(&clone, &["checkout", "-q", "-b", "mine"]);
    commit(&clone, 3, "three");
    assert_eq!(of(&reader(&clone), None, None), (Some(first.clone()), Some("main".into())));
    git(&clone, &["branch", "-q", "-D", "main"]);
    assert_eq!(of(&reader(&clone), None, None), (Some(first.clone()), Some("main".into())));

    git(&at, &["checkout", "-q", "--detach", "main"]);
    assert_eq!(of(&reader(&at), None, None), (Some(first), None));

    let empty = init(dir.path(), "empty");
    assert_eq!(of(&reader(&empty), None, None), (None, Some("main".into())));
}

#[test]
fn history_is_what_git_log_says_for_each_path() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "1");
    write(&at, "other", "1");
    commit(&at, 10, "create\n\nbody\n\nCo-authored-by: Bot <bot@example.org>\nSigned-off-by: Ann <a@example.org>");
    commit(&at, 20, "touches nothing");
    git(&at, &["checkout", "-q", "-b", "side"]);
    write(&at, "CLAUDE.md", "side");
    write(&at, "d/AGENTS.md", "side");
    commit(&at, 30, "side");
    git(&at, &["checkout", "-q", "main"]);
    write(&at, "CLAUDE.md", "main");
    commit(&at, 40, "main");
    git_at(&at, 50, &["merge", "-q", "-s", "ours", "side", "-m", "keeps ours"]);
    git(&at, &["rm", "-q", "CLAUDE.md"]);
    commit(&at, 60, "delete");
    // A clock that ran backwards.
    write(&at, "CLAUDE.md", "again");
    commit(&at, 5, "recreate");
    git(&at, &["checkout", "-q", "-b", "conflict", "HEAD~1"]);
    write(&at, "CLAUDE.md", "conflicting");
    commit(&at, 70, "conflicting");
    git(&at, &["checkout", "-q", "main"]);
    git_at(&at, 80, &["merge", "-q", "-s", "ours", "--no-commit", "conflict"]);
    write(&at, "CLAUDE.md", "both");
    commit(&at, 80, "an evil merge");
    git(&at, &["checkout", "-q", "--orphan", "second-root"]);
    write(&at, "AGENTS.md", "from another root");
    commit(&at, 90, "second root");
    git(&at, &["checkout", "-q", "main"]);
    git_at(&at, 100, &["merge", "-q", "--allow-unrelated-histories", "-X", "ours", "second-root", "-m", "join"]);
    // A file that becomes a directory, and back.
    git(&at, &["rm", "-q", "other"]);
    write(&at, "other/file", "x");
    commit(&at, 110, "now a directory");
    git(&at, &["rm", "-q", "-r", "other"]);
    write(&at, "other", "y");
    commit(&at, 120, "a file again");
    git(&at, &["update-index", "--chmod=+x", "other"]);
    git_at(&at, 130, &["commit", "-q", "-m", "mode only"]);

    let reader = reader(&at);
    let head = head(&reader);
    let paths = ["CLAUDE.md", "other", "other/file", "d/AGENTS.md", "AGENTS.md", "never", "CLAUDE.md/x"];
    for path in paths {
        let ours: Vec<String> = history(&reader, head, path).into_iter().map(|(commit, _)| commit).collect();
        let theirs = log(&at, "HEAD", path);
        assert_eq!(ours.iter().collect::<BTreeSet<_>>(), theirs.iter().collect::<BTreeSet<_>>(), "{path}");
        assert_eq!(ours.len(), theirs.len(), "{path}");
    }
    let bytes: Vec<&[u8]> = paths.iter().map(|p| p.as_bytes()).collect();
    let all = reader.history(head, &bytes).unwrap();
    for (path, one) in paths.iter().zip(&all.paths) {
        let together: Vec<String> = one.touches.iter().map(|t| all.commits[t.commit].oid.to_string()).collect();
        let alone: Vec<String> = history(&reader, head, path).into_iter().map(|(commit, _)| commit).collect();
        assert_eq!(together, alone, "{path}");
        assert!(one.complete);
    }
    let created = |path: usize| all.paths[path].created().map(|at| all.commits[at].message.lines().next().unwrap());
    assert_eq!(created(0), Some("recreate"));
    assert_eq!(created(3), None);
    assert_eq!(created(4), Some("second root"));
    assert_eq!(created(5), None);
    let changes: Vec<Change> = history(&reader, head, "other").into_iter().map(|(_, change)| change).collect();
    assert_eq!(changes[..3], [Change::Modified, Change::Added, Change::Deleted]);
    let oldest = all.commits.iter().find(|c| c.message.starts_with("create")).unwrap();
    let trailer = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        oldest.trailers,
        [trailer("Co-authored-by", "Bot <bot@example.org>"), trailer("Signed-off-by", "Ann <a@example.org>")]
    );
    assert_eq!((oldest.author.login(), oldest.author.offset), (Some("ann"), 3600));
    assert_eq!((oldest.committer.name.as_str(), oldest.committer.login()), ("Cy", None));
}

#[test]
fn a_shallow_clone_says_that_its_history_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    for version in 0..5 {
        write(&at, "CLAUDE.md", format!("{version}"));
        if version == 4 {
            write(&at, "late.md", "late");
        }
        commit(&at, version, "v");
    }
    let url = format!("file://{}", at.display());
    git(dir.path(), &["clone", "-q", "--bare", "--depth=2", &url, "shallow.git"]);
    let shallow = reader(&dir.path().join("shallow.git"));
    let head = head(&shallow);
    assert_eq!(walked(&shallow, head), ls_tree(&at, "HEAD"));
    let history = shallow.history(head, &[b"CLAUDE.md", b"late.md"]).unwrap();
    assert_eq!(history.commits.len(), 2);
    assert_eq!((history.paths[0].complete, history.paths[0].created()), (false, None));
    assert_eq!((history.paths[1].complete, history.paths[1].created()), (true, Some(0)));
}

#[test]
fn missing_objects_are_named_and_stop_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "here");
    write(&at, "gone/AGENTS.md", "its directory is lost");
    write(&at, "lost.md", "its bytes are lost");
    commit(&at, 1, "one");
    write(&at, "CLAUDE.md", "here, changed");
    commit(&at, 2, "two");
    let object = |id: &str| at.join(".git/objects").join(&id[..2]).join(&id[2..]);
    let blob = said(&at, &["rev-parse", "HEAD:lost.md"]);
    fs::remove_file(object(&said(&at, &["rev-parse", "HEAD:gone"]))).unwrap();
    fs::remove_file(object(&blob)).unwrap();
    let reader = reader(&at);
    let head = head(&reader);
    let walk = reader.walk(head, &|_, mode| mode != Mode::Tree).unwrap();
    assert_eq!(walk.entries.iter().map(|e| e.display_path()).collect::<Vec<_>>(), ["CLAUDE.md", "lost.md"]);
    assert_eq!(walk.skipped.len(), 1);
    assert_eq!(walk.skipped[0].path, "gone");
    assert!(walk.skipped[0].why.contains("it is missing"), "{}", walk.skipped[0].why);
    assert!(matches!(reader.read(oid(&blob), LIMIT), Err(Error::Missing { .. })));
    let both = reader.history(head, &[b"CLAUDE.md", b"gone/AGENTS.md"]).unwrap();
    assert_eq!(both.paths[0].touches.len(), 1);
    assert!(!both.paths[0].complete, "the first commit cannot be compared");

    // Bytes that are no object at all.
    let good = object(&said(&at, &["rev-parse", "HEAD:CLAUDE.md"]));
    fs::remove_file(&good).unwrap();
    fs::write(&good, "not zlib").unwrap();
    let id = said(&at, &["rev-parse", "HEAD:CLAUDE.md"]);
    assert!(matches!(reader.read(oid(&id), LIMIT), Err(Error::Object { .. })));
}

#[test]
fn alternates_are_read_and_other_hashes_refused_clearly() {
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "x");
    commit(&at, 1, "one");
    git(dir.path(), &["clone", "-q", "--bare", "--shared", "r", "shared.git"]);
    let shared = reader(&dir.path().join("shared.git"));
    assert_eq!(walked(&shared, head(&shared)), ls_tree(&at, "HEAD"));

    git(dir.path(), &["init", "-q", "--object-format=sha256", "new"]);
    let error = Repository::open(&dir.path().join("new")).unwrap_err();
    assert!(matches!(&error, Error::ObjectFormat { format, .. } if format == "sha256"), "{error}");
    let error = Repository::open(dir.path()).unwrap_err().to_string();
    assert!(error.starts_with("Failed to open repository "), "{error}");
}

#[test]
fn discovery_names_each_repository_once_and_says_what_it_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("all");
    init(&root, "plain-name");
    git(&init(&root, "from-origin"), &["remote", "add", "origin", "git@github.com:acme/tool.git"]);
    git(&init(&root, "second-clone"), &["remote", "add", "origin", "https://github.com/Acme/Tool"]);
    git(&root, &["init", "-q", "--bare", "owner+name.git"]);
    init(&root, "nested/deep");
    init(&root, "plain-name/inner");
    write(&root, "notes/readme.txt", "no git here");
    write(&root, ".hidden/x/HEAD", "never entered");
    write(
        &root,
        "repos.jsonl",
        "{\"repo\":\"Owner/Name\",\"license\":\"MIT\",\"default_branch\":\"trunk\",\"more\":1}\n\nnot json\n",
    );
    let discovery = discover(&[root.clone(), root.join("owner+name.git"), dir.path().join("absent")]);
    let found: Vec<_> = discovery.found.iter().map(|f| (f.slug.to_string(), f.named_by, f.kind)).collect();
    assert_eq!(
        found,
        [
            ("acme/tool".to_owned(), NamedBy::Origin, SourceKind::Git),
            ("local/plain-name".to_owned(), NamedBy::Local, SourceKind::Git),
            ("nested/deep".to_owned(), NamedBy::Nesting, SourceKind::Git),
            ("owner/name".to_owned(), NamedBy::DirectoryName, SourceKind::Git),
        ]
    );
    let facts = discovery.found[3].facts.as_ref().unwrap();
    assert_eq!((facts.license.as_deref(), facts.default_branch.as_deref()), (Some("MIT"), Some("trunk")));
    let skipped: Vec<&str> = discovery.skipped.iter().map(|s| s.path.rsplit('/').next().unwrap()).collect();
    assert_eq!(skipped, ["absent", "notes", "repos.jsonl", "second-clone"]);
    assert!(discovery.skipped[2].why.starts_with("Line 3: "), "{}", discovery.skipped[2].why);

    let alone = discover(&[root.join("notes")]);
    assert_eq!((alone.found.len(), alone.found[0].kind), (1, SourceKind::Folder));
    assert_eq!(alone.found[0].slug.to_string(), "local/notes");
    assert_eq!(discover_one(&root.join("from-origin")).unwrap().slug.to_string(), "acme/tool");
    assert!(discover_one(&dir.path().join("absent")).is_err());
}

#[test]
#[cfg(unix)]
fn a_plain_folder_gives_the_entries_that_git_would() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = init(dir.path(), "r");
    write(&at, "CLAUDE.md", "x\r\n");
    write(&at, "d/AGENTS.md", "y");
    write(&at, "node_modules/p/AGENTS.md", "vendored");
    write(&at, "LICENSE-MIT", "MIT License");
    write(&at, "sub/LICENSE", "not at the root");
    write(&at, "big.md", vec![b'z'; 2000]);
    symlink("../../etc", at.join("d/out")).unwrap();
    commit(&at, 1, "all");
    let folder = Folder::open(&at).unwrap();
    let keep = |path: &str, _: Mode| path != "big.md";
    let walk = folder.walk(&keep, &|path| path != "node_modules", 1000);
    let reader = reader(&at);
    let head = head(&reader);
    let wanted =
        reader.walk(head, &|path, mode| mode != Mode::Tree && keep(path, mode) && !path.starts_with("node_modules/"));
    assert_eq!(walk, wanted.unwrap());
    assert_eq!(folder.read(b"d/out", Mode::Symlink, 1000).unwrap(), b"../../etc");
    let large = folder.walk(&|path, _| path == "big.md", &|_| true, 1000);
    assert_eq!((large.entries.len(), large.skipped.len()), (0, 1));
    assert!(large.skipped[0].why.contains("2000 bytes exceed the limit of 1000"), "{}", large.skipped[0].why);
    assert_eq!(folder.licenses(1000).entries, reader.licenses(head).unwrap());
    assert_eq!(reader.licenses(head).unwrap().len(), 1);
}

/// Every path and byte of every repository under `AAC_CORPUS` against `git ls-tree` and `git cat-file --batch`, and
/// the history of every path against `git log`.
#[test]
fn a_whole_corpus_reads_as_git_reads_it() {
    let Some(corpus) = std::env::var_os("AAC_CORPUS").map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: set AAC_CORPUS to a folder of repositories to compare them all");
        return;
    };
    let discovery = discover(&[corpus]);
    assert!(!discovery.found.is_empty());
    let (mut paths, mut bytes, mut touches, mut reordered) = (0u64, 0u64, 0u64, 0u64);
    for found in discovery.found.iter().filter(|found| found.kind == SourceKind::Git) {
        let reader = reader(&found.path);
        let default = found.facts.as_ref().and_then(|facts| facts.default_branch.as_deref());
        let Some(head) = reader.head(None, default).unwrap().commit else { continue };
        if let Some(stated) = found.facts.as_ref().and_then(|facts| facts.head) {
            assert!(reader.commit(stated).is_ok() || head != stated);
        }
        let listed = ls_tree(&found.path, &head.to_string());
        assert_eq!(walked(&reader, head), listed, "{}", found.slug);
        let blobs: Vec<&str> = listed.iter().filter(|l| l.0 != "160000").map(|l| l.1.as_str()).collect();
        let theirs = cat_file(&found.path, &blobs);
        for (id, theirs) in blobs.iter().zip(theirs) {
            assert!(reader.read(oid(id), u64::MAX).unwrap() == theirs, "{} {id}", found.slug);
            assert_eq!(GitOid::of_blob(&theirs), oid(id));
            bytes += theirs.len() as u64;
        }
        paths += listed.len() as u64;
        let names: Vec<&[u8]> = listed.iter().map(|l| l.2.as_slice()).collect();
        let history = reader.history(head, &names).unwrap();
        // One path in twenty-five of the large ones: `git log` starts anew for each.
        let step = if names.len() > 100 { 25 } else { 5 };
        for (name, one) in names.iter().zip(&history.paths).step_by(step) {
            let ours: Vec<String> = one.touches.iter().map(|t| history.commits[t.commit].oid.to_string()).collect();
            let theirs = log(&found.path, &head.to_string(), std::str::from_utf8(name).unwrap());
            touches += ours.len() as u64;
            if ours != theirs {
                reordered += 1;
                let (a, b): (BTreeSet<_>, BTreeSet<_>) = (ours.iter().collect(), theirs.iter().collect());
                assert_eq!(a, b, "{} {}", found.slug, String::from_utf8_lossy(name));
            }
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "{} repositories, {paths} paths, {bytes} bytes and {touches} commits of paths agree with git; \
         {reordered} paths list the same commits in another order",
        discovery.found.len()
    );
}

/// The bytes of `blobs`, through one `git cat-file --batch`.
fn cat_file(at: &Path, blobs: &[&str]) -> Vec<Vec<u8>> {
    let mut child = Command::new("git")
        .current_dir(at)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    let mut input = child.stdin.take().unwrap();
    let request = blobs.iter().map(|id| format!("{id}\n")).collect::<String>();
    let writer = std::thread::spawn(move || input.write_all(request.as_bytes()).unwrap());
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    let mut rest = output.as_slice();
    blobs
        .iter()
        .map(|_| {
            let line = rest.iter().position(|&b| b == b'\n').unwrap();
            let header = std::str::from_utf8(&rest[..line]).unwrap();
            let size: usize = header.rsplit(' ').next().unwrap().parse().unwrap();
            let bytes = rest[line + 1..line + 1 + size].to_vec();
            rest = &rest[line + 2 + size..];
            bytes
        })
        .collect()
}
