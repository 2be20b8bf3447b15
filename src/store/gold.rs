//! The gold set: samples, items, decisions, and the compacted texts whose constraints people verify.

use super::{BATCH, BlobId, RunId, Store, StoreError};
use crate::corpus::{GitOid, Sha256};
use crate::taxonomy::LabelOrigin;
use sqlx::{FromRow, QueryBuilder, Sqlite};

/// A text of a present artifact that items can be drawn from.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct DocumentRow {
    /// `owner/name`.
    pub repo: String,
    /// Stars, where known.
    pub stars: Option<i64>,
    /// Primary language, where known.
    pub language: Option<String>,
    /// Licence as settled, else as the host says it.
    pub license: Option<String>,
    /// Path of the artifact.
    pub path: String,
    /// Key of its blob.
    pub blob_id: i64,
    /// Git's id of the blob.
    pub git_oid: Vec<u8>,
    /// SHA-256 of the text that stands for the cluster of near-duplicates that it is in.
    pub cluster: Vec<u8>,
    /// Items in it.
    pub items: i64,
}

/// A drawn sample.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SampleRow {
    /// Key.
    pub id: i64,
    /// The seed.
    pub seed: i64,
    /// What was asked for, as JSON.
    pub options: String,
    /// What each stratum had and got, as JSON.
    pub strata: String,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// An item of the gold set.
#[derive(Debug, Clone, Default, PartialEq, Eq, FromRow)]
pub struct GoldItemRow {
    /// Its name.
    pub id: String,
    /// The sample that drew it; nothing for one that came with labels.
    pub sample_id: Option<i64>,
    /// `owner/name`.
    pub repo: String,
    /// Path in the repository.
    pub path: String,
    /// Git's id of the blob.
    pub blob_oid: Vec<u8>,
    /// Key of the blob, when the corpus holds it.
    pub blob_id: Option<i64>,
    /// 1-based line; 0 where it is not known.
    pub line: i64,
    /// First byte in the blob's text.
    pub start: Option<i64>,
    /// One past the last byte.
    pub stop: Option<i64>,
    /// What kind of passage it is; empty where it is not known.
    pub kind: String,
    /// Headings above it, outermost first, as a JSON list.
    pub heading: String,
    /// SHA-256 of its text.
    pub text_sha256: Vec<u8>,
    /// Primary language of the repository.
    pub language: Option<String>,
    /// Licence of the repository.
    pub license: Option<String>,
    /// Its text, when it came with one and no blob of the corpus holds it.
    pub text: Option<String>,
    /// The stratum that it was drawn from.
    pub stratum: Option<String>,
    /// The settled type.
    pub final_type: Option<String>,
    /// How it was settled.
    pub final_why: Option<String>,
    /// Who settled it; empty for an agreement.
    pub final_by: Option<String>,
}

impl GoldItemRow {
    /// Git's id of the blob; nothing for an item that has none.
    pub fn blob_oid(&self) -> Option<GitOid> {
        GitOid::from_slice(&self.blob_oid)
    }

    /// SHA-256 of its text, when known.
    pub fn text_sha256(&self) -> Option<Sha256> {
        Sha256::from_slice(&self.text_sha256)
    }

    /// Headings above it, outermost first.
    pub fn headings(&self) -> Vec<String> {
        serde_json::from_str(&self.heading).unwrap_or_else(|_| match self.heading.as_str() {
            "" => Vec::new(),
            one => vec![one.to_owned()],
        })
    }
}

/// A decision to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDecision {
    /// The item.
    pub item: String,
    /// The type; nothing takes the decision back.
    pub class: Option<String>,
    /// The reason.
    pub why: String,
    /// Who decided.
    pub by: String,
    /// A person or a model.
    pub origin: LabelOrigin,
    /// Version of the rubric.
    pub rubric: i64,
    /// The sender's name for the act; sent twice, it is written once.
    pub action: Option<String>,
    /// Unix milliseconds.
    pub at: i64,
}

/// The decision in force on an item.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct DecisionRow {
    /// Key.
    pub id: i64,
    /// The item.
    pub item_id: String,
    /// The type; nothing where it was taken back.
    #[sqlx(rename = "type")]
    pub class: Option<String>,
    /// The reason.
    pub why: String,
    /// Who decided.
    pub by: String,
    /// `person` or `model`.
    pub origin: String,
    /// Unix milliseconds.
    pub at: i64,
}

/// A text, what a compactor made of it, and its constraints: what people are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckDocument {
    /// What it is called.
    pub name: String,
    /// Digest of both texts.
    pub digest: Sha256,
    /// The text as it was.
    pub before: String,
    /// What became of it.
    pub after: String,
    /// Id, line, text, verdict of `aac check` and the passage that it found.
    pub items: Vec<(String, i64, String, String, Option<String>)>,
}

/// A constraint whose fate people judge.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CheckItemRow {
    /// Its name.
    pub id: String,
    /// Name of its document.
    pub name: String,
    /// 1-based line in the original.
    pub line: i64,
    /// Its words.
    pub text: String,
    /// What `aac check` says of it.
    pub verdict: String,
    /// The passage that it compared.
    pub found: Option<String>,
}

impl Store {
    /// The texts that items can be drawn from: readable ones of present artifacts, links left out. Empty when clusters
    /// were never counted or `segmenter` is not the version that read them.
    pub async fn sample_documents(&self, segmenter: u32) -> Result<Vec<DocumentRow>, StoreError> {
        sqlx::query_as(include_str!("../../queries/sql/gold_documents.sql"))
            .bind(segmenter)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list texts to draw from", e))
    }

    /// Samples, oldest first.
    pub async fn samples(&self) -> Result<Vec<SampleRow>, StoreError> {
        sqlx::query_as("SELECT id, seed, options, strata, created_at FROM sample ORDER BY id")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("list samples", e))
    }

    /// Write a sample with its items. With `replace` the earlier samples go, with those of their items that nobody has
    /// said anything about. Items that are there stay as they are. Returns how many are new.
    pub async fn put_sample(
        &self,
        run: RunId,
        sample: &SampleRow,
        items: &[GoldItemRow],
        replace: bool,
    ) -> Result<usize, StoreError> {
        let failed = |e| self.failed("write a sample", e);
        let mut tx = self.begin().await?;
        if replace {
            sqlx::query(
                "DELETE FROM gold_item WHERE sample_id IS NOT NULL \
                 AND NOT EXISTS (SELECT 1 FROM label l WHERE l.item_id = gold_item.id)",
            )
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        }
        let id = sqlx::query("INSERT INTO sample (seed, options, strata, created_at, run_id) VALUES (?, ?, ?, ?, ?)")
            .bind(sample.seed)
            .bind(&sample.options)
            .bind(&sample.strata)
            .bind(sample.created_at)
            .bind(run.0)
            .execute(&mut *tx)
            .await
            .map_err(failed)?
            .last_insert_rowid();
        let items: Vec<GoldItemRow> =
            items.iter().map(|item| GoldItemRow { sample_id: Some(id), ..item.clone() }).collect();
        let new = self.put_gold_items_in(&mut tx, &items).await?;
        if replace {
            sqlx::query(
                "DELETE FROM sample WHERE id <> ? AND NOT EXISTS (SELECT 1 FROM gold_item g WHERE g.sample_id = sample.id)",
            )
            .bind(id)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        }
        self.commit(tx).await?;
        Ok(new)
    }

    /// Write items that are not there yet. Returns how many are new.
    pub async fn put_gold_items(&self, items: &[GoldItemRow]) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        let new = self.put_gold_items_in(&mut tx, items).await?;
        self.commit(tx).await?;
        Ok(new)
    }

    async fn put_gold_items_in(
        &self,
        tx: &mut sqlx::Transaction<'static, Sqlite>,
        items: &[GoldItemRow],
    ) -> Result<usize, StoreError> {
        let mut new = 0;
        for chunk in items.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT INTO gold_item (id, sample_id, repo, path, blob_oid, blob_id, line, start, stop, kind, heading, \
                 text_sha256, language, license, text, stratum) ",
            );
            insert.push_values(chunk, |mut values, item| {
                values
                    .push_bind(&item.id)
                    .push_bind(item.sample_id)
                    .push_bind(&item.repo)
                    .push_bind(&item.path)
                    .push_bind(&item.blob_oid)
                    .push_bind(item.blob_id)
                    .push_bind(item.line)
                    .push_bind(item.start)
                    .push_bind(item.stop)
                    .push_bind(&item.kind)
                    .push_bind(&item.heading)
                    .push_bind(&item.text_sha256)
                    .push_bind(&item.language)
                    .push_bind(&item.license)
                    .push_bind(&item.text)
                    .push_bind(&item.stratum);
            });
            insert.push(" ON CONFLICT (id) DO NOTHING");
            let done = insert.build().execute(&mut **tx).await.map_err(|e| self.failed("write gold items", e))?;
            new += done.rows_affected() as usize;
        }
        Ok(new)
    }

    /// Say where in the corpus items stand that were written before their blobs came: id, blob, first byte, one past the
    /// last, headings as JSON and kind.
    pub async fn place_gold_items(
        &self,
        places: &[(String, BlobId, i64, i64, String, String)],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for (id, blob, start, stop, heading, kind) in places {
            sqlx::query("UPDATE gold_item SET blob_id = ?, start = ?, stop = ?, heading = ?, kind = ? WHERE id = ?")
                .bind(blob.0)
                .bind(start)
                .bind(stop)
                .bind(heading)
                .bind(kind)
                .bind(id)
                .execute(&mut *tx)
                .await
                .map_err(|e| self.failed("place gold items", e))?;
        }
        self.commit(tx).await
    }

    /// The gold set, by id.
    pub async fn gold_items(&self) -> Result<Vec<GoldItemRow>, StoreError> {
        sqlx::query_as("SELECT * FROM gold_item ORDER BY id")
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read the gold set", e))
    }

    /// One item.
    pub async fn gold_item(&self, id: &str) -> Result<Option<GoldItemRow>, StoreError> {
        sqlx::query_as("SELECT * FROM gold_item WHERE id = ?")
            .bind(id)
            .fetch_optional(self.read())
            .await
            .map_err(|e| self.failed("read a gold item", e))
    }

    /// Write a decision and give the item its type. Returns the key.
    pub async fn put_decision(&self, decision: &NewDecision) -> Result<i64, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(action) = &decision.action {
            let there: Option<i64> = sqlx::query_scalar("SELECT id FROM decision WHERE action = ?")
                .bind(action)
                .fetch_optional(&mut *tx)
                .await
                .map_err(|e| self.failed("look for a decision", e))?;
            if let Some(id) = there {
                return Ok(id);
            }
        }
        let id = self.put_decision_in(&mut tx, decision).await?;
        self.commit(tx).await?;
        Ok(id)
    }

    async fn put_decision_in(
        &self,
        tx: &mut sqlx::Transaction<'static, Sqlite>,
        decision: &NewDecision,
    ) -> Result<i64, StoreError> {
        let id = sqlx::query(
            "INSERT INTO decision (item_id, type, why, by, origin, rubric, action, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(&decision.item)
        .bind(&decision.class)
        .bind(&decision.why)
        .bind(&decision.by)
        .bind(decision.origin.as_str())
        .bind(decision.rubric)
        .bind(&decision.action)
        .bind(decision.at)
        .execute(&mut **tx)
        .await
        .map_err(|e| self.failed("write a decision", e))?
        .last_insert_rowid();
        self.settle_agreed(tx, &decision.item).await?;
        Ok(id)
    }

    /// Write decisions in one transaction.
    pub async fn put_decisions(&self, decisions: &[NewDecision]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for decision in decisions {
            self.put_decision_in(&mut tx, decision).await?;
        }
        self.commit(tx).await
    }

    /// The last decision on each item that has one, by item; those taken back too.
    pub async fn decisions(&self) -> Result<Vec<DecisionRow>, StoreError> {
        sqlx::query_as(
            "SELECT id, item_id, type, why, by, origin, at FROM decision \
             WHERE id IN (SELECT max(id) FROM decision GROUP BY item_id) ORDER BY item_id",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read decisions", e))
    }

    /// The last decision that a model took on each item, by item, also where a person decided since.
    pub async fn model_decisions(&self) -> Result<Vec<DecisionRow>, StoreError> {
        sqlx::query_as(
            "SELECT id, item_id, type, why, by, origin, at FROM decision WHERE id IN \
             (SELECT max(id) FROM decision WHERE origin = 'model' GROUP BY item_id) ORDER BY item_id",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read decisions", e))
    }

    /// Write a document to verify. One that is there stays as it is. Returns whether it is new. `now` is Unix
    /// milliseconds.
    pub async fn put_check_document(&self, document: &CheckDocument, now: i64) -> Result<bool, StoreError> {
        let failed = |e| self.failed("write a text to verify", e);
        let mut tx = self.begin().await?;
        let id: Option<i64> = sqlx::query_scalar(
            "INSERT INTO check_document (name, digest, before, after, at) VALUES (?, ?, ?, ?, ?) \
             ON CONFLICT (digest) DO NOTHING RETURNING id",
        )
        .bind(&document.name)
        .bind(document.digest.0.to_vec())
        .bind(&document.before)
        .bind(&document.after)
        .bind(now)
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed)?;
        let Some(id) = id else { return Ok(false) };
        for chunk in document.items.chunks(BATCH) {
            let mut insert =
                QueryBuilder::<Sqlite>::new("INSERT INTO check_item (id, document_id, line, text, verdict, found) ");
            insert.push_values(chunk, |mut values, (name, line, text, verdict, found)| {
                values
                    .push_bind(name)
                    .push_bind(id)
                    .push_bind(line)
                    .push_bind(text)
                    .push_bind(verdict)
                    .push_bind(found);
            });
            insert.build().execute(&mut *tx).await.map_err(failed)?;
        }
        self.commit(tx).await?;
        Ok(true)
    }

    /// The constraints to verify, by id.
    pub async fn check_items(&self) -> Result<Vec<CheckItemRow>, StoreError> {
        sqlx::query_as(
            "SELECT i.id, d.name, i.line, i.text, i.verdict, i.found FROM check_item i \
             JOIN check_document d ON d.id = i.document_id ORDER BY i.id",
        )
        .fetch_all(self.read())
        .await
        .map_err(|e| self.failed("read constraints to verify", e))
    }

    /// The text that a constraint was in, and what became of that text.
    pub async fn check_texts(&self, item: &str) -> Result<Option<(String, String)>, StoreError> {
        sqlx::query_as(
            "SELECT d.before, d.after FROM check_item i JOIN check_document d ON d.id = i.document_id WHERE i.id = ?",
        )
        .bind(item)
        .fetch_optional(self.read())
        .await
        .map_err(|e| self.failed("read a text to verify", e))
    }
}
