//! What a whole corpus costs in the store: size on disk by table, rows written a second, and what the dictionary saves.
//!
//! `cargo bench --bench store -- FOLDER [--artifacts N] [--keep FILE]`: the texts of the bare repositories in FOLDER are
//! repeated with edits until three of four artifacts have a text of their own (identical copies would be stored once),
//! each is segmented and packed for real, and every table of a judged corpus is filled. Blobs and artifacts go through
//! the store as a crawl writes them; judgements are written in statements of the same size.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod corpus;

use aac::corpus::{GitOid, Platform, Segmentation};
use aac::dedup::Signature;
use aac::monitor::Silent;
use aac::segment::{pack, segment};
use aac::store::{ArtifactRow, BlobId, RepoFacts, RepoId, RepoRow, RunId, Store};
use aac::taxonomy::{FileMode, RepoSource};
use corpus::{Random, edited as text};
use rayon::prelude::*;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection as _, QueryBuilder, Sqlite};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rows in a statement, and texts in hand at once.
const STATEMENT: usize = 400;
const BATCH: usize = 4_000;
/// Texts that are stored before the dictionary is trained, as in a crawl that has just begun.
const BEFORE_TRAINING: usize = 8_000;

fn main() {
    let (mut folder, mut keep, mut artifacts) = (None, None, 400_000);
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--artifacts" => artifacts = args.next().unwrap().parse().unwrap(),
            "--keep" => keep = args.next().map(PathBuf::from),
            _ => folder = Some(arg),
        }
    }
    let Some(folder) = folder else { return println!("store: no folder of repositories given, nothing measured") };
    let texts = corpus::texts(Path::new(&folder), 1..=100_000);
    println!("{} distinct real texts; {artifacts} artifacts wanted", texts.len());
    let dir = tempfile::tempdir().unwrap();
    let file = keep.unwrap_or_else(|| dir.path().join("corpus.db"));
    tokio::runtime::Runtime::new().unwrap().block_on(price(&texts, artifacts, &file));
}

/// Time and rows by table.
#[derive(Default)]
struct Bill(BTreeMap<&'static str, (u64, Duration)>);

impl Bill {
    fn add(&mut self, table: &'static str, rows: usize, took: Duration) {
        let entry = self.0.entry(table).or_default();
        entry.0 += rows as u64;
        entry.1 += took;
    }
}

async fn price(texts: &[String], artifacts: usize, file: &Path) {
    let store = Store::create(file).await.unwrap();
    let run = store.begin_run("bench", &serde_json::json!({}), 1).await.unwrap();
    let mut bill = Bill::default();
    let distinct = artifacts * 3 / 4;
    let mut direct = connect(file).await;
    // Table by table, so that each has a rate of its own; the texts are made twice rather than held.
    let blobs = put_blobs(&store, run, texts, distinct, &mut bill).await;
    let items = put_readings(&mut direct, run, texts, &blobs, &mut bill).await;
    put_artifacts(&store, run, &blobs, artifacts, &mut bill).await;
    put_tags(&mut direct, run, artifacts, &mut bill).await;
    direct.close().await.unwrap();
    let gain = store.dictionary_gain().await.unwrap();
    let counts = store.counts().await.unwrap();
    store.close().await;
    report(file, &bill).await;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "\n{} artifacts, {} blobs, {items} items in {:.1} MB",
        counts.artifacts,
        counts.blobs,
        mb(std::fs::metadata(file).unwrap().len())
    );
    println!(
        "bodies: {:.1} MB as found, {:.1} MB by zstd alone, {:.1} MB with the dictionary ({:.1} % less than zstd alone)",
        mb(gain.raw),
        mb(gain.zstd),
        mb(gain.stored),
        100.0 * (1.0 - gain.stored as f64 / gain.zstd as f64)
    );
}

async fn put_blobs(store: &Store, run: RunId, texts: &[String], distinct: usize, bill: &mut Bill) -> Vec<BlobId> {
    let mut ids = Vec::with_capacity(distinct);
    while ids.len() < distinct {
        let first = ids.len();
        let bodies: Vec<Vec<u8>> =
            (first..distinct.min(first + BATCH)).into_par_iter().map(|n| text(texts, n).into_bytes()).collect();
        let begun = Instant::now();
        let blobs = store.codec().encode_all(&bodies).unwrap();
        bill.add("(digest and pack blobs)", blobs.len(), begun.elapsed());
        let begun = Instant::now();
        ids.extend(store.put_blobs(run, &blobs).await.unwrap());
        bill.add("blob", blobs.len(), begun.elapsed());
        if first < BEFORE_TRAINING && ids.len() >= BEFORE_TRAINING {
            let begun = Instant::now();
            store.train_dictionary(run, &Silent::default()).await.unwrap();
            bill.add("(train dictionary, pack anew)", ids.len(), begun.elapsed());
        }
    }
    ids
}

/// Segmentations, redaction spans, signatures and predictions of every blob. Returns how many items there are.
async fn put_readings(
    direct: &mut SqliteConnection,
    run: RunId,
    texts: &[String],
    blobs: &[BlobId],
    bill: &mut Bill,
) -> usize {
    let mut items = 0;
    let mut random = Random(7);
    for first in (0..blobs.len()).step_by(BATCH) {
        let here = first..blobs.len().min(first + BATCH);
        let begun = Instant::now();
        let read: Vec<(Segmentation, Vec<u8>, Vec<u8>)> = here
            .clone()
            .into_par_iter()
            .map(|n| {
                let text = text(texts, n);
                let found = segment("AGENTS.md", &text);
                let packed = pack(&found);
                (found, packed, Signature::of(&text).to_bytes().to_vec())
            })
            .collect();
        bill.add("(segment, sign)", read.len(), begun.elapsed());
        items += read.iter().map(|(found, ..)| found.items.len()).sum::<usize>();
        let id = |n: usize| Value::Integer(blobs[first + n].0);
        let run = || Value::Integer(run.0);
        let rows = read.len();
        insert(direct, bill, "segmentation", rows, |column, n| match column {
            "blob_id" => id(n),
            "version" => Value::Integer(1),
            "path" => Value::Text("packages/server/AGENTS.md".into()),
            "items" => Value::Integer(read[n].0.items.len() as i64),
            "packed" => Value::Bytes(read[n].1.clone()),
            "run_id" => run(),
            other => unknown(other),
        })
        .await;
        insert(direct, bill, "signature", rows, |column, n| match column {
            "blob_id" => id(n),
            "version" => Value::Integer(1),
            "packed" => Value::Bytes(read[n].2.clone()),
            other => unknown(other),
        })
        .await;
        insert(direct, bill, "redaction", rows, |column, n| match column {
            "blob_id" => id(n),
            "version" => Value::Integer(1),
            // One text in ten has something to hide, as in the real corpus.
            "spans" if n % 10 == 0 => Value::Text(r#"[[1042,1068,"email","email"],[2200,2212,"ip","ipv4"]]"#.into()),
            "spans" => Value::Text("[]".into()),
            "run_id" => run(),
            other => unknown(other),
        })
        .await;
        // A byte for the form and seven for an item: type and probabilities, which do not compress.
        let predicted: Vec<Vec<u8>> = read
            .iter()
            .map(|(found, ..)| (0..1 + 7 * found.items.len()).map(|_| random.below(256) as u8).collect())
            .collect();
        insert(direct, bill, "prediction", rows, |column, n| match column {
            "blob_id" => id(n),
            "model" => Value::Text("linear 0123456789abcdef".into()),
            "path" => Value::Text("packages/server/AGENTS.md".into()),
            "segmenter" => Value::Integer(1),
            "packed" => Value::Bytes(predicted[n].clone()),
            "run_id" => run(),
            other => unknown(other),
        })
        .await;
    }
    items
}

async fn put_artifacts(store: &Store, run: RunId, blobs: &[BlobId], artifacts: usize, bill: &mut Bill) {
    // 55 repositories to 400 artifacts, as the paper counts them.
    let repos = (artifacts * 55 / 400).max(1);
    let mut keys: Vec<RepoId> = Vec::with_capacity(repos);
    for first in (0..repos).step_by(BATCH) {
        let rows: Vec<RepoRow> = (first..repos.min(first + BATCH)).map(repo).collect();
        let begun = Instant::now();
        keys.extend(store.put_repos(run, &rows).await.unwrap());
        bill.add("repo", rows.len(), begun.elapsed());
    }
    let names = ["AGENTS.md", "CLAUDE.md", ".cursor/rules/style.mdc", ".github/copilot-instructions.md"];
    for first in (0..artifacts).step_by(BATCH) {
        let rows: Vec<ArtifactRow> = (first..artifacts.min(first + BATCH))
            .map(|n| ArtifactRow {
                repo: keys[n % repos],
                path: format!("packages/part-{}/{}", n / repos, names[n % names.len()]),
                platform: Platform("claude".to_owned()),
                target: "claude/context".to_owned(),
                mode: FileMode::File,
                resolves_to: None,
                blob: blobs[n % blobs.len()],
                commit: Some(GitOid([n as u8; 20])),
            })
            .collect();
        let begun = Instant::now();
        store.put_artifacts(run, &rows).await.unwrap();
        bill.add("artifact", rows.len(), begun.elapsed());
    }
}

fn repo(n: usize) -> RepoRow {
    let facts = RepoFacts {
        is_fork: Some(false),
        is_archived: Some(false),
        is_private: Some(false),
        stars: Some(n as i64 % 977),
        language: Some("TypeScript".to_owned()),
        license_api: Some("MIT".to_owned()),
        default_branch: Some("main".to_owned()),
        head: Some(GitOid([n as u8; 20])),
        pushed_at: Some(1_760_000_000_000),
    };
    RepoRow {
        node_id: Some(format!("R_kgDO{n:08}")),
        slug: format!("owner-{}/project-{n}", n / 3).parse().unwrap(),
        source: RepoSource::GitHub,
        facts,
        facts_at: Some(1_760_000_000_000),
    }
}

/// Tags and histories of every artifact.
async fn put_tags(direct: &mut SqliteConnection, run: RunId, artifacts: usize, bill: &mut Bill) {
    let dimensions = [
        ("platform", "claude", r#"{"fact":"claude/context"}"#),
        ("function", "context", r#"{"fact":"the target's own function"}"#),
        ("authorship", "ai_assisted", r#"{"fact":"claude by a trailer"}"#),
        ("specificity", "project", r#"{"span":[1024,1068]}"#),
    ];
    let fact = r#"{"author":"person","agent":["claude","co_author"],"co_authors":["agent"],"when":1760000000,"creates":false}"#;
    let first_key: i64 = sqlx::query_scalar("SELECT min(id) FROM artifact").fetch_one(&mut *direct).await.unwrap();
    for first in (0..artifacts).step_by(BATCH) {
        let rows = BATCH.min(artifacts - first);
        let key = |n: usize| Value::Integer(first_key + (first + n) as i64);
        insert(direct, bill, "tag", rows * dimensions.len(), |column, n| {
            let (dimension, value, evidence) = dimensions[n % dimensions.len()];
            match column {
                "artifact_id" => key(n / dimensions.len()),
                "dimension" => Value::Text(dimension.into()),
                "value" => Value::Text(value.into()),
                "rule" => Value::Text(format!("{value}.default")),
                "evidence" => Value::Text(evidence.into()),
                "confidence" => Value::Real(0.9),
                "version" => Value::Integer(1),
                "statistics_id" => Value::Null,
                "input" => Value::Integer(Random(n as u64).bits().cast_signed()),
                "run_id" => Value::Integer(run.0),
                other => unknown(other),
            }
        })
        .await;
        insert(direct, bill, "history", rows, |column, n| match column {
            "artifact_id" => key(n),
            "head" => Value::Bytes(vec![n as u8; 20]),
            "complete" => Value::Integer(1),
            "facts" => Value::Text(format!("[{}]", vec![fact; 1 + n % 5].join(","))),
            "run_id" => Value::Integer(run.0),
            other => unknown(other),
        })
        .await;
    }
}

/// A value of a row.
enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A bench of another schema measures nothing.
#[track_caller]
fn unknown(column: &str) -> Value {
    panic!("the schema has a column that this bench does not fill: {column}")
}

async fn connect(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("cache_size", "-65536");
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// Write `rows` rows in one transaction; `value` gives the value of a column in a row.
async fn insert(
    direct: &mut SqliteConnection,
    bill: &mut Bill,
    table: &'static str,
    rows: usize,
    value: impl Fn(&str, usize) -> Value,
) {
    let columns: Vec<String> =
        sqlx::query_scalar("SELECT name FROM pragma_table_info(?)").bind(table).fetch_all(&mut *direct).await.unwrap();
    let begun = Instant::now();
    let mut tx = direct.begin().await.unwrap();
    let all: Vec<usize> = (0..rows).collect();
    for chunk in all.chunks(STATEMENT) {
        let mut query = QueryBuilder::<Sqlite>::new(format!("INSERT INTO {table} ({}) ", columns.join(", ")));
        query.push_values(chunk, |mut values, &n| {
            for column in &columns {
                match value(column, n) {
                    Value::Null => values.push_bind(None::<i64>),
                    Value::Integer(value) => values.push_bind(value),
                    Value::Real(value) => values.push_bind(value),
                    Value::Text(value) => values.push_bind(value),
                    Value::Bytes(value) => values.push_bind(value),
                };
            }
        });
        query.build().execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    bill.add(table, rows, begun.elapsed());
}

/// Print size and rate by table; indices count with their table.
async fn report(file: &Path, bill: &Bill) {
    let mut direct = connect(file).await;
    let sizes: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT s.tbl_name, sum(d.pgsize), sum(CASE s.type WHEN 'index' THEN d.pgsize ELSE 0 END) \
         FROM dbstat d JOIN sqlite_schema s ON s.name = d.name WHERE d.aggregate = TRUE \
         GROUP BY s.tbl_name HAVING sum(d.pgsize) > 65536 ORDER BY 2 DESC",
    )
    .fetch_all(&mut direct)
    .await
    .unwrap();
    println!("\n{:<14} {:>9} {:>9} {:>9} {:>8} {:>9}", "table", "rows", "MB", "of index", "B/row", "rows/s");
    for (table, bytes, index) in sizes {
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&mut direct)
            .await
            .unwrap();
        let rate = bill.0.get(table.as_str()).map_or(String::new(), rate);
        println!(
            "{table:<14} {rows:>9} {:>9.1} {:>9.1} {:>8.0} {rate:>9}",
            bytes as f64 / 1e6,
            index as f64 / 1e6,
            bytes as f64 / rows.max(1) as f64
        );
    }
    for (what, cost) in bill.0.iter().filter(|(what, _)| what.starts_with('(')) {
        println!("{what:<30} {:>9} rows {:>9} rows/s", cost.0, rate(cost));
    }
    let (rows, took) = bill
        .0
        .iter()
        .filter(|(what, _)| !what.starts_with('('))
        .fold((0, Duration::ZERO), |(rows, took), (_, cost)| (rows + cost.0, took + cost.1));
    println!("written in all: {rows} rows in {:.1} s, {} rows/s", took.as_secs_f64(), rate(&(rows, took)));
}

fn rate((rows, took): &(u64, Duration)) -> String {
    format!("{:.0}", *rows as f64 / took.as_secs_f64())
}
