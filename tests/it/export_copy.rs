//! A copy of the database for others: no secret and no withheld text is in it, in no form, and it says what an export says.

use crate::export::{corpus, options};
use aac::job::export::{self, ExportError, ExportOptions, Tier};
use aac::job::model::FoundModel;
use aac::job::{classify, dedup, segment, tag};
use aac::monitor::Silent;
use aac::store::{self, BlobId, OptOutKey, Store, StoreError};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Words that stand in texts and must not be in a copy: an address, a text without a licence, one that asked to be left out.
const ADDRESS: &str = "ann@corp-mail.com";
const WITHHELD: &str = "Second rule of another text";

async fn judged(path: &Path) -> Store {
    let store = corpus(path, false).await;
    classify::classify(&store, FoundModel::compiled_in().model, &Silent::default()).await.unwrap();
    store
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

/// Every file of a set.
fn shards(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(out.join("data")).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect()
}

/// Every body of a database, read through its codec.
async fn bodies(store: &Store) -> Vec<Vec<u8>> {
    let ids: Vec<BlobId> = store.blobs_after(BlobId(0), 10_000).await.unwrap().iter().map(|blob| blob.id).collect();
    store.bodies(&ids).await.unwrap()
}

#[tokio::test]
async fn a_copy_holds_no_secret_and_no_withheld_text_and_exports_the_same_set() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("c.db"), dir.path().join("public/copy.db"));
    let store = judged(&db).await;
    // A table and a column that no rule knows, as a later release may bring them.
    sqlx_exec(
        &store,
        &[
            "CREATE TABLE novel (word TEXT NOT NULL) STRICT",
            &format!("INSERT INTO novel VALUES ('{ADDRESS}')"),
            "ALTER TABLE run ADD COLUMN mail TEXT NOT NULL DEFAULT ''",
            &format!("UPDATE run SET mail = '{ADDRESS}'"),
        ],
    )
    .await;
    // The dictionary is made of pieces of the texts; gold items hold headings, notes and names.
    sqlx_exec(
        &store,
        &[
            &format!("INSERT INTO dictionary (body, trained_on, run_id) VALUES (x'{}', 1, 1)", hex(ADDRESS)),
            &format!("INSERT INTO failure (run_id, stage, what, why, at) VALUES (1, 'x', 'y', '{ADDRESS}', 1)"),
            &format!("INSERT INTO setting (key, value) VALUES ('ingest/b/none', '{ADDRESS}')"),
            &format!(
                "INSERT INTO gold_item (id, repo, path, blob_oid, blob_id, line, start, stop, kind, heading, text_sha256) \
                 SELECT 'free', 'a/free', 'AGENTS.md', git_oid, id, 4, 37, 37 + length('Write to {ADDRESS} before a release'), \
                 'list', 'Mail {ADDRESS}', x'00' FROM blob WHERE size = (SELECT max(size) FROM blob b WHERE b.id IN \
                 (SELECT blob_id FROM redaction WHERE spans <> '[]'))"
            ),
            &format!(
                "INSERT INTO gold_item (id, repo, path, blob_oid, line, kind, heading, text_sha256) \
                 VALUES ('none', 'b/none', 'CLAUDE.md', x'00', 1, 'list', '{WITHHELD}', x'00')"
            ),
            &format!(
                "INSERT INTO label (item_id, annotator, status, type, note, rubric, origin, at) VALUES \
                 ('free', 'Zoe Annotator', 'labelled', 'constraint', '{ADDRESS}', 1, 'person', 1), \
                 ('free', 'Bob Annotator', 'labelled', 'belief', '', 1, 'person', 1)"
            ),
        ],
    )
    .await;
    let found = std::fs::read(&db).unwrap();
    let summary = export::copy(&store, &options(&dir.path().join("o")), &file, &Silent::default()).await.unwrap();
    assert_eq!((summary.texts, summary.repos, summary.redactions["email"]), (4, 4, 1));
    let raw = std::fs::read(&file).unwrap();
    assert_eq!(raw.len() as u64, summary.bytes);
    let copy = Store::open(&file).await.unwrap();
    assert!(copy.is_copy() && store::is_copy(&file).await && !store::is_copy(&db).await);
    assert_eq!(copy.check().await.unwrap(), Vec::<String>::new());
    let texts = bodies(&copy).await;
    for word in [ADDRESS, "corp-mail", WITHHELD, "Annotator"] {
        assert!(!holds(&raw, word), "{word} is in the file");
        assert!(texts.iter().all(|body| !holds(body, word)), "{word} is in a body");
    }
    assert!(bodies(&store).await.iter().any(|body| holds(body, ADDRESS)) && holds(&found, ADDRESS));
    assert!(texts.iter().any(|body| holds(body, "Write to [redacted:email] before a release")));

    let exported = |from: Store, name: &'static str| {
        let out = dir.path().join(name);
        async move {
            let summary = export::export(&from, &options(&out), &Silent::default()).await.unwrap();
            (summary.rows, summary.withheld, summary.redactions, shards(&out))
        }
    };
    assert_eq!(exported(store.clone(), "of-corpus").await, exported(copy.clone(), "of-copy").await);
    // A copy that is copied again is the same, and a looser tier brings nothing back.
    let again = dir.path().join("again.db");
    export::copy(&copy, &options(&dir.path().join("o")), &again, &Silent::default()).await.unwrap();
    let own = ExportOptions { tier: Tier::Own, own: vec!["b".to_owned()], ..options(&dir.path().join("own")) };
    let summary = export::export(&Store::open(&again).await.unwrap(), &own, &Silent::default()).await.unwrap();
    // One text of `b` is also that of a free repository, so it is there.
    assert_eq!(summary.withheld["license"], 6);

    let error = copy.begin_run("tag", &json!({}), 1).await.unwrap_err();
    assert!(matches!(&error, StoreError::Copy { doing, .. } if doing == "tag"), "{error}");
    for judged in [
        segment::segment(&copy, &Silent::default()).await.map(drop),
        dedup::dedup(&copy, &Silent::default()).await.map(drop),
        tag::tag(&copy, &Silent::default()).await.map(drop),
    ] {
        assert!(judged.is_ok() || judged.unwrap_err().to_string().contains("redacted copy"));
    }
}

#[tokio::test]
async fn optouts_and_private_repositories_are_not_in_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("c.db"), dir.path().join("copy.db"));
    let store = judged(&db).await;
    let run = store.begin_run("optout", &json!({ "of": "c/apache" }), 2_000_000).await.unwrap();
    store.add_opt_out(run, &OptOutKey::repo(&"c/apache".parse().unwrap()), "asked", 2_000_000).await.unwrap();
    sqlx_exec(&store, &["UPDATE repo SET is_private = 1 WHERE owner = 'a' AND name = 'gpl'"]).await;
    let summary = export::copy(&store, &options(&dir.path().join("o")), &file, &Silent::default()).await.unwrap();
    assert_eq!((summary.repos, summary.left_out["private"]), (2, 1));
    let raw = std::fs::read(&file).unwrap();
    for word in ["apache", "gpl", "generated files in", "asked"] {
        assert!(!holds(&raw, word), "{word} is in the file");
    }
    assert_eq!(Store::open(&file).await.unwrap().counts().await.unwrap().repos, 2);
}

#[tokio::test]
async fn a_copy_never_takes_the_place_of_anything_but_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("c.db");
    let store = judged(&db).await;
    let to = |file: &Path| {
        let (store, file) = (store.clone(), file.to_owned());
        let options = options(&dir.path().join("o"));
        async move { export::copy(&store, &options, &file, &Silent::default()).await }
    };
    let notes = dir.path().join("notes.txt");
    std::fs::write(&notes, "mine").unwrap();
    let other = dir.path().join("other.db");
    Store::create(&other).await.unwrap().close().await;
    for wrong in [db.as_path(), &notes, &other, dir.path()] {
        let error = to(wrong).await.unwrap_err();
        assert!(matches!(error, ExportError::CopyPlace { .. }), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
    // Stopped half-way, and left by a kill: nothing under the final name, and the next one tidies up.
    let file = dir.path().join("copy.db");
    let stopped = Silent::default();
    stopped.stop();
    let error = export::copy(&store, &options(&dir.path().join("o")), &file, &stopped).await.unwrap_err();
    assert!(matches!(error, ExportError::Stopped) && !file.exists());
    std::fs::create_dir_all(dir.path().join(".c.db.copying")).unwrap();
    std::fs::write(dir.path().join(".c.db.copying/copy.db"), "half").unwrap();
    std::fs::write(dir.path().join(".copy.db.new"), "half").unwrap();
    to(&file).await.unwrap();
    let first = std::fs::read(&file).unwrap();
    std::fs::write(dir.path().join("copy.db-wal"), "of an earlier copy").unwrap();
    to(&file).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), first, "the same corpus gives the same copy");
    let hidden = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = hidden.filter(|name| name.to_string_lossy().contains("cop")).collect();
    assert_eq!(left, ["copy.db"]);
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Statements over the database of a store, by a connection of their own.
pub(crate) async fn sqlx_exec(store: &Store, statements: &[&str]) {
    use sqlx::Connection as _;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(store.path());
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    for sql in statements {
        sqlx::query(sqlx::AssertSqlSafe((*sql).to_owned())).execute(&mut connection).await.unwrap();
    }
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
