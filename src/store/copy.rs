//! A copy of the corpus that may leave the workshop: written by `VACUUM INTO`, so that no page holds what was deleted, and
//! cut down table by table. A table that no rule names is emptied.

use super::{BATCH, BlobId, Codec, RepoId, Store, StoreError};
use rayon::prelude::*;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _, QueryBuilder, Sqlite, Transaction};
use std::path::Path;

/// Setting that marks a copy; its value says what was kept.
pub(super) const MARK: &str = "copy";

/// What happens to a table in a copy.
enum Rule {
    /// Nothing: it holds no text, no name and no address.
    Whole,
    /// Every row goes.
    Empty,
    /// These statements run, in order.
    Cut(&'static [&'static str]),
}
use Rule::{Cut, Empty, Whole};

/// Every table, parents first: rows go after the rows that they hang on. `copy_repo` lists the repositories that stay.
/// Texts, their spans and their items are rewritten by [`Store::put_copied`]; [`Store::end_copy`] empties the others.
const RULES: &[(&str, Rule)] = &[
    // Options name folders, owners and requests; of summaries the report needs two numbers.
    (
        "run",
        Cut(&[
            "UPDATE run SET options = '{}', summary = CASE WHEN json_type(summary, '$.lower_bound') IS NOT NULL THEN \
             json_object('requests', json_extract(summary, '$.requests'), \
             'lower_bound', json_extract(summary, '$.lower_bound')) END",
        ]),
    ),
    (
        "repo",
        Cut(&["DELETE FROM repo WHERE id NOT IN (SELECT id FROM copy_repo)", "UPDATE repo SET presence_why = NULL"]),
    ),
    ("repo_name", Empty),
    ("artifact", Cut(&["DELETE FROM artifact WHERE repo_id NOT IN (SELECT id FROM repo)"])),
    ("version", Cut(&["DELETE FROM version WHERE artifact_id NOT IN (SELECT id FROM artifact)"])),
    ("history", Cut(&["DELETE FROM history WHERE artifact_id NOT IN (SELECT id FROM artifact)"])),
    ("tag", Cut(&["DELETE FROM tag WHERE artifact_id NOT IN (SELECT id FROM artifact)"])),
    ("crawl_window", Whole),
    ("crawl_page", Whole),
    ("crawl_repo", Cut(&["DELETE FROM crawl_repo WHERE repo_id NOT IN (SELECT id FROM repo)"])),
    ("hit", Cut(&["DELETE FROM hit WHERE repo_id NOT IN (SELECT id FROM repo)"])),
    ("blob", Cut(&["DELETE FROM blob WHERE id NOT IN (SELECT blob_id FROM version)"])),
    (
        "segmentation",
        Cut(&[
            "DELETE FROM segmentation WHERE blob_id NOT IN (SELECT id FROM blob)",
            // A path that nobody in the copy has says where a repository that was left out keeps its files.
            "DELETE FROM segmentation WHERE path <> '' AND NOT EXISTS (SELECT 1 FROM version v \
             JOIN artifact a ON a.id = v.artifact_id WHERE v.blob_id = segmentation.blob_id AND a.path = segmentation.path)",
        ]),
    ),
    ("prediction", Cut(&["DELETE FROM prediction WHERE blob_id NOT IN (SELECT blob_id FROM segmentation)"])),
    ("redaction", Cut(&["DELETE FROM redaction WHERE blob_id NOT IN (SELECT id FROM blob)"])),
    // Hashes of the texts as found: a guessed address could be tested against them.
    ("signature", Empty),
    ("statistics", Cut(&["UPDATE statistics SET lines = NULL"])),
    (
        "duplicate",
        Cut(&["DELETE FROM duplicate WHERE blob_id NOT IN (SELECT id FROM blob) \
             OR canonical_id NOT IN (SELECT id FROM blob)"]),
    ),
    ("sample", Cut(&["UPDATE sample SET options = '{}', strata = '{}'"])),
    (
        "gold_item",
        Cut(&[
            "DELETE FROM gold_item WHERE lower(repo) NOT IN (SELECT lower(owner || '/' || name) FROM repo)",
            "UPDATE gold_item SET blob_id = NULL WHERE blob_id NOT IN (SELECT id FROM blob)",
            // Texts that came with labels stand under no licence that is known; reasons may quote them.
            "UPDATE gold_item SET text = NULL, final_why = CASE final_why WHEN 'agreed' THEN 'agreed' ELSE 'decided' END \
             WHERE text IS NOT NULL OR final_why IS NOT NULL",
            "UPDATE gold_item SET final_why = NULL WHERE final_type IS NULL",
        ]),
    ),
    // Who labelled is a number, as in an export.
    (
        "label",
        Cut(&[
            "DELETE FROM label WHERE item_id NOT IN (SELECT id FROM gold_item)",
            "CREATE TEMP TABLE person AS SELECT annotator AS name, \
             printf('annotator-%03d', row_number() OVER (ORDER BY annotator)) AS number \
             FROM (SELECT DISTINCT annotator FROM label)",
            "UPDATE label SET note = '', action = NULL, annotator = (SELECT number FROM person WHERE name = annotator)",
            "UPDATE gold_item SET final_by = (SELECT number FROM person WHERE name = final_by)",
            "DROP TABLE person",
        ]),
    ),
    // Names, reasons, and texts of whoever had them verified.
    ("decision", Empty),
    ("check_document", Empty),
    ("check_item", Empty),
    ("verdict", Empty),
    ("ledger", Empty),
    ("etag", Empty),
    ("failure", Empty),
    // Who asked not to be collected is named nowhere.
    ("optout", Empty),
    // Others name folders. Which service it is from decides on the addresses in exports.
    ("setting", Cut(&["DELETE FROM setting WHERE key <> 'service'"])),
    // A dictionary is made of pieces of the texts as found.
    ("dictionary", Empty),
    ("_sqlx_migrations", Whole),
];

/// The tables and columns that [`RULES`] were written for. Others may hold texts, names or addresses: at run time they are
/// emptied, and a test asks for a rule.
const KNOWN: &[&str] = &[
    "_sqlx_migrations: version description installed_on success checksum execution_time",
    "artifact: id repo_id path platform target mode resolves_to presence presence_run first_run last_run missed_run",
    "blob: id sha256 git_oid size encoding codec dictionary_id body run_id kept",
    "check_document: id name digest before after at",
    "check_item: id document_id line text verdict found",
    "crawl_page: window_id attempt page total items incomplete fetched_at seq keys span_keys",
    "crawl_repo: run_id repo_id hits",
    "crawl_window: id run_id target fork lo hi axis state attempt total delivered why unreachable",
    "decision: id item_id type why by origin rubric action at",
    "dictionary: id body trained_on run_id",
    "duplicate: blob_id canonical_id similarity owners statistics_id",
    "etag: identity url etag body updated_at",
    "failure: id run_id stage what why at",
    "gold_item: id sample_id repo path blob_oid blob_id line start stop kind heading text_sha256 language license final_type final_why final_by text stratum",
    "history: artifact_id head complete facts run_id",
    "hit: window_id repo_id path blob_oid commit_oid",
    "label: id item_id annotator pass status type second flagged note rubric seconds origin preannotated ordering position undoes action at",
    "ledger: identity resource state updated_at",
    "optout: owner name why at",
    "prediction: blob_id model segmenter path packed run_id",
    "redaction: blob_id version spans run_id",
    "repo: id node_id key owner name source is_fork is_archived is_private stars language license_api license_spdx license_tier license_evidence license_version default_branch head pushed_at facts_at presence presence_why presence_run first_run last_run checked_run checked_at checked_head missed_run missed_as",
    "repo_name: repo_id owner name first_run",
    "run: id command options version started_at ended_at outcome summary code_searches graphql_queries rest_requests",
    "sample: id seed options strata created_at run_id",
    "segmentation: blob_id version path items packed run_id",
    "setting: key value",
    "signature: blob_id version packed",
    "statistics: id version input digest artifacts lines current run_id",
    "tag: artifact_id dimension value rule evidence confidence version statistics_id input run_id",
    "verdict: id item_id annotator pass status type second flagged note rubric seconds origin preannotated ordering position undoes action at",
    "version: id artifact_id blob_id commit_oid current first_run last_run",
];

/// One text that may be passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedBlob {
    /// The blob.
    pub blob: BlobId,
    /// The bytes as found, or the text with redactions applied.
    pub body: Vec<u8>,
    /// Whether anything was replaced.
    pub redacted: bool,
    /// The placeholders as JSON: a list of [start, end, kind, rule].
    pub spans: String,
    /// Its items in the redacted text; absent where they stay as found.
    pub items: Option<CopiedItems>,
}

/// Items that changed with their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedItems {
    /// How many.
    pub count: i64,
    /// Packed.
    pub packed: Vec<u8>,
    /// Where they were found anew: the path they were read as and the version of the segmenter. What a model said of the
    /// former ones is dropped.
    pub anew: Option<(String, u32)>,
}

/// A gold item whose place or heading changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedGold {
    /// Id.
    pub id: String,
    /// First byte in the redacted text.
    pub start: Option<i64>,
    /// One past the last byte.
    pub stop: Option<i64>,
    /// Headings with redactions applied; empty where the text is withheld.
    pub heading: String,
}

impl Store {
    /// Write every row that is in force into a new database file. It must not be there; what is there after an error is
    /// no database.
    pub async fn vacuum_into(&self, file: &Path) -> Result<(), StoreError> {
        let name = file.to_str().ok_or_else(|| self.damaged("the name of the copy", "it is not UTF-8"))?;
        sqlx::query("VACUUM INTO ?")
            .bind(name)
            .execute(&self.writer)
            .await
            .map_err(|e| self.failed("copy the database", e))?;
        Ok(())
    }

    /// Whether this is a copy for others, which is read and never extended.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Refuse what `doing` would change, if this is a copy for others.
    pub fn refuse_copy(&self, doing: &str) -> Result<(), StoreError> {
        if self.is_copy {
            return Err(StoreError::Copy { doing: doing.to_owned(), path: self.path().to_owned() });
        }
        Ok(())
    }

    /// Cut a copy of the corpus down to `repos`. Texts that may be passed on follow by [`Self::put_copied`], then
    /// [`Self::end_copy`] takes out the others. Only for a database made by [`Self::vacuum_into`].
    pub async fn begin_copy(&self, repos: &[RepoId]) -> Result<(), StoreError> {
        let failed = |e| self.failed("cut the copy down", e);
        // Children go by the rules, which is faster than one look for each deleted parent; `end_copy` checks.
        sqlx::query("PRAGMA foreign_keys = OFF").execute(&self.writer).await.map_err(failed)?;
        let mut tx = self.begin().await?;
        for sql in
            ["CREATE TABLE copy_repo (id INTEGER PRIMARY KEY)", "CREATE TABLE copy_shown (id INTEGER PRIMARY KEY)"]
        {
            sqlx::query(sql).execute(&mut *tx).await.map_err(failed)?;
        }
        for chunk in repos.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new("INSERT INTO copy_repo (id) ");
            insert.push_values(chunk, |mut values, repo| {
                values.push_bind(repo.0);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        for (table, rule) in RULES {
            match rule {
                Whole => {}
                // The bodies that are packed with it are still needed.
                Empty if *table == "dictionary" => {}
                Empty => {
                    let sql = AssertSqlSafe(format!("DELETE FROM \"{table}\""));
                    sqlx::query(sql).execute(&mut *tx).await.map_err(failed)?;
                }
                Cut(statements) => {
                    for sql in *statements {
                        sqlx::query(*sql).execute(&mut *tx).await.map_err(failed)?;
                    }
                }
            }
        }
        for sql in Self::unknown(&mut tx).await.map_err(failed)? {
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await.map_err(failed)?;
        }
        self.commit(tx).await
    }

    /// Statements that empty what no rule knows.
    async fn unknown(tx: &mut Transaction<'static, Sqlite>) -> Result<Vec<String>, sqlx::Error> {
        let columns: Vec<(String, String, String, bool)> = sqlx::query_as(
            "SELECT t.name, c.name, c.type, c.\"notnull\" FROM sqlite_schema t, pragma_table_info(t.name) c \
             WHERE t.type = 'table' AND substr(t.name, 1, 7) <> 'sqlite_' AND substr(t.name, 1, 5) <> 'copy_' \
             ORDER BY t.name, c.cid",
        )
        .fetch_all(&mut **tx)
        .await?;
        let known =
            |table: &str| KNOWN.iter().filter_map(|known| known.split_once(": ")).find(|(name, _)| *name == table);
        let mut statements = Vec::new();
        for (table, column, kind, required) in columns {
            match known(&table) {
                None => statements.push(format!("DELETE FROM \"{table}\"")),
                Some((_, names)) if names.split(' ').any(|name| name == column) => {}
                Some(_) => {
                    let nothing = match (required, kind.as_str()) {
                        (false, _) => "NULL",
                        (true, "TEXT") => "''",
                        (true, "BLOB") => "x''",
                        (true, _) => "0",
                    };
                    statements.push(format!("UPDATE \"{table}\" SET \"{column}\" = {nothing}"));
                }
            }
        }
        statements.dedup();
        Ok(statements)
    }

    /// Write texts that may be passed on, as they may be, in one transaction. `redactor` is the version of the rules that
    /// found what was replaced.
    pub async fn put_copied(&self, redactor: u32, rows: &[CopiedBlob]) -> Result<(), StoreError> {
        let failed = |e| self.failed("write the copy", e);
        // Without the dictionary, which is made of pieces of the texts as found.
        let codec = Codec::plain();
        let packed: Result<Vec<_>, _> =
            rows.par_iter().map_init(|| codec.packer(), |packer, row| packer.pack(&row.body)).collect();
        let packed = packed.map_err(|e| self.damaged("a body", e.to_string()))?;
        let mut tx = self.begin().await?;
        for (row, (kind, dictionary, body)) in rows.iter().zip(packed) {
            let kept = row.redacted.then_some(row.body.len() as i64);
            sqlx::query("UPDATE blob SET codec = ?, dictionary_id = ?, body = ?, kept = ? WHERE id = ?")
                .bind(kind)
                .bind(dictionary)
                .bind(body)
                .bind(kept)
                .bind(row.blob.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            sqlx::query("UPDATE redaction SET spans = ?, version = ? WHERE blob_id = ?")
                .bind(&row.spans)
                .bind(redactor)
                .bind(row.blob.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            sqlx::query("INSERT INTO copy_shown (id) VALUES (?)")
                .bind(row.blob.0)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            if let Some(items) = &row.items {
                Self::put_copied_items(&mut tx, row.blob, items).await.map_err(failed)?;
            }
        }
        self.commit(tx).await
    }

    async fn put_copied_items(
        tx: &mut Transaction<'static, Sqlite>,
        blob: BlobId,
        items: &CopiedItems,
    ) -> Result<(), sqlx::Error> {
        let Some((path, version)) = &items.anew else {
            sqlx::query("UPDATE segmentation SET items = ?, packed = ? WHERE blob_id = ?")
                .bind(items.count)
                .bind(&items.packed)
                .bind(blob.0)
                .execute(&mut **tx)
                .await?;
            return Ok(());
        };
        sqlx::query(
            "INSERT OR REPLACE INTO segmentation (blob_id, version, path, items, packed, run_id) \
             SELECT id, ?2, ?3, ?4, ?5, run_id FROM blob WHERE id = ?1",
        )
        .bind(blob.0)
        .bind(*version)
        .bind(path)
        .bind(items.count)
        .bind(&items.packed)
        .execute(&mut **tx)
        .await?;
        sqlx::query("DELETE FROM prediction WHERE blob_id = ?").bind(blob.0).execute(&mut **tx).await?;
        Ok(())
    }

    /// Write the places and headings of gold items, in one transaction.
    pub async fn put_copied_gold(&self, rows: &[CopiedGold]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for row in rows {
            sqlx::query("UPDATE gold_item SET start = ?, stop = ?, heading = ? WHERE id = ?")
                .bind(row.start)
                .bind(row.stop)
                .bind(&row.heading)
                .bind(&row.id)
                .execute(&mut *tx)
                .await
                .map_err(|e| self.failed("write the copy", e))?;
        }
        self.commit(tx).await
    }

    /// Take out every body that was not put, and mark the database as a copy. `what` says what was kept.
    pub async fn end_copy(&self, what: &str) -> Result<(), StoreError> {
        let failed = |e| self.failed("finish the copy", e);
        let mut tx = self.begin().await?;
        for sql in [
            "UPDATE blob SET codec = 0, dictionary_id = NULL, body = x'', kept = CASE size WHEN 0 THEN NULL ELSE 0 END \
             WHERE id NOT IN (SELECT id FROM copy_shown)",
            // Where a secret stands in a public file is as good as the secret.
            "UPDATE redaction SET spans = '[]' WHERE blob_id NOT IN (SELECT id FROM copy_shown)",
            "UPDATE tag SET evidence = '{\"fact\":\"a passage of the text as found\"}' \
             WHERE json_type(evidence, '$.span') IS NOT NULL AND artifact_id IN (SELECT v.artifact_id FROM version v \
             JOIN blob b ON b.id = v.blob_id WHERE b.kept IS NOT NULL)",
            "DELETE FROM dictionary",
            "DROP TABLE copy_shown",
            "DROP TABLE copy_repo",
        ] {
            sqlx::query(sql).execute(&mut *tx).await.map_err(failed)?;
        }
        sqlx::query("INSERT INTO setting (key, value) VALUES (?, ?)")
            .bind(MARK)
            .bind(what)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        self.commit(tx).await
    }
}

/// Whether the database at `file` is a copy made by [`Store::end_copy`]. Nothing is written to it.
pub async fn is_copy(file: &Path) -> bool {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    let Ok(mut connection) = SqliteConnection::connect_with(&options).await else { return false };
    let found: Result<Option<String>, _> =
        sqlx::query_scalar("SELECT value FROM setting WHERE key = ?").bind(MARK).fetch_optional(&mut connection).await;
    let _ = connection.close().await;
    matches!(found, Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_table_has_a_rule_that_knows_its_columns() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("c.db")).await.unwrap();
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT name || ': ' || (SELECT group_concat(c.name, ' ') FROM pragma_table_info(t.name) c) \
             FROM sqlite_schema t WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name",
        )
        .fetch_all(store.read())
        .await
        .unwrap();
        assert_eq!(tables, KNOWN);
        let mut named: Vec<&str> = RULES.iter().map(|(table, _)| *table).collect();
        named.sort_unstable();
        assert!(KNOWN.iter().map(|known| known.split_once(':').unwrap().0).eq(named), "a table without a rule");
    }
}
