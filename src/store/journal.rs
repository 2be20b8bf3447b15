//! What annotators said, as a journal: every act is a row that holds the whole state of its item after it, and taking
//! an act back is a further row. Nothing is overwritten, so nothing is lost to a second tab, and undo goes as deep as
//! the journal and outlives the program.

use super::{Store, StoreError};
use crate::taxonomy::{KnowledgeType, LabelOrder, LabelOrigin, LabelStatus, UnknownWord};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, Sqlite, Transaction};

/// Which journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// Types of gold items.
    Labels,
    /// Verdicts on compacted constraints.
    Verdicts,
}

impl Journal {
    const fn table(self) -> &'static str {
        match self {
            Self::Labels => "label",
            Self::Verdicts => "verdict",
        }
    }
}

/// What one annotator says of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Where the item stands.
    pub status: LabelStatus,
    /// The class; there exactly when it is labelled.
    pub class: Option<String>,
    /// Second choice.
    #[serde(default)]
    pub second: Option<String>,
    /// To be looked at again.
    #[serde(default)]
    pub flagged: bool,
    /// Free text.
    #[serde(default)]
    pub note: String,
}

impl Mark {
    /// Nothing said.
    pub fn open() -> Self {
        Self { status: LabelStatus::Open, class: None, second: None, flagged: false, note: String::new() }
    }

    /// Whether there is anything to keep.
    pub fn is_blank(&self) -> bool {
        *self == Self::open()
    }
}

/// A mark to write.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMark {
    /// The item.
    pub item: String,
    /// Who says it.
    pub annotator: String,
    /// The annotator's round, from 1.
    pub pass: i64,
    /// What is said.
    pub mark: Mark,
    /// Version of the rubric.
    pub rubric: i64,
    /// How long the item was in view.
    pub seconds: Option<f64>,
    /// A person or a model.
    pub origin: LabelOrigin,
    /// The class that was suggested, when one was shown.
    pub preannotated: Option<String>,
    /// The order in which items were shown.
    pub ordering: LabelOrder,
    /// The item's place in that order, from 1.
    pub position: Option<i64>,
    /// The sender's name for the act; sent twice, it is written once.
    pub action: Option<String>,
    /// Unix milliseconds.
    pub at: i64,
}

/// A mark of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkRow {
    /// Key, growing with time.
    pub id: i64,
    /// The item.
    pub item: String,
    /// Who says it.
    pub annotator: String,
    /// The annotator's round.
    pub pass: i64,
    /// What is said.
    pub mark: Mark,
    /// Version of the rubric.
    pub rubric: i64,
    /// How long the item was in view.
    pub seconds: Option<f64>,
    /// A person or a model.
    pub origin: LabelOrigin,
    /// The class that was suggested.
    pub preannotated: Option<String>,
    /// The order in which items were shown.
    pub ordering: LabelOrder,
    /// The item's place in that order.
    pub position: Option<i64>,
    /// Unix milliseconds.
    pub at: i64,
}

impl FromRow<'_, SqliteRow> for MarkRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        fn word<T: std::str::FromStr<Err = UnknownWord>>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error> {
            let word: String = row.try_get(column)?;
            word.parse()
                .map_err(|source| sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(source) })
        }
        Ok(Self {
            id: row.try_get("id")?,
            item: row.try_get("item_id")?,
            annotator: row.try_get("annotator")?,
            pass: row.try_get("pass")?,
            mark: Mark {
                status: word(row, "status")?,
                class: row.try_get("type")?,
                second: row.try_get("second")?,
                flagged: row.try_get("flagged")?,
                note: row.try_get("note")?,
            },
            rubric: row.try_get("rubric")?,
            seconds: row.try_get("seconds")?,
            origin: word(row, "origin")?,
            preannotated: row.try_get("preannotated")?,
            ordering: word(row, "ordering")?,
            position: row.try_get("position")?,
            at: row.try_get("at")?,
        })
    }
}

/// What became of a mark.
#[derive(Debug, Clone, PartialEq)]
pub enum Put {
    /// It stands, under this key; also when the same act had been written before.
    Written(i64),
    /// Somebody was faster: this is what stands. Nothing was written.
    Outdated(Option<Box<MarkRow>>),
}

/// An annotator whose marks would be mixed with earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooMany {
    /// The annotator.
    pub annotator: String,
    /// The round.
    pub pass: i64,
    /// How many marks are there.
    pub marks: i64,
}

const COLUMNS: &str = "id, item_id, annotator, pass, status, type, second, flagged, note, rubric, seconds, origin, \
     preannotated, ordering, position, at";

impl Store {
    /// Write a mark. With `expected` (the key of the mark that the sender saw in force, 0 for none) it is written only
    /// when that one still stands.
    pub async fn put_mark(&self, journal: Journal, mark: &NewMark, expected: Option<i64>) -> Result<Put, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(action) = &mark.action
            && let Some(id) = self.action(&mut tx, journal, action).await?
        {
            return Ok(Put::Written(id));
        }
        if let Some(expected) = expected {
            let standing = self.standing(&mut tx, journal, &mark.item, &mark.annotator, mark.pass, i64::MAX).await?;
            if standing.as_ref().map_or(0, |row| row.id) != expected {
                return Ok(Put::Outdated(standing.map(Box::new)));
            }
        }
        let id = self.append(&mut tx, journal, mark, None).await?;
        if journal == Journal::Labels {
            self.settle_agreed(&mut tx, &mark.item).await?;
        }
        self.commit(tx).await?;
        Ok(Put::Written(id))
    }

    /// Write marks that come from elsewhere, all or none: an annotator who has marks in the same round already is
    /// refused, since two sources of one annotator contradict each other.
    pub async fn import_marks(&self, journal: Journal, marks: &[NewMark]) -> Result<Result<(), TooMany>, StoreError> {
        let mut tx = self.begin().await?;
        let mut whom: Vec<(&str, i64)> = marks.iter().map(|mark| (mark.annotator.as_str(), mark.pass)).collect();
        whom.sort_unstable();
        whom.dedup();
        for (annotator, pass) in whom {
            let sql = format!("SELECT count(*) FROM {} WHERE annotator = ? AND pass = ?", journal.table());
            let there: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
                .bind(annotator)
                .bind(pass)
                .fetch_one(&mut *tx)
                .await
                .map_err(|e| self.failed("look for labels", e))?;
            if there > 0 {
                return Ok(Err(TooMany { annotator: annotator.to_owned(), pass, marks: there }));
            }
        }
        for mark in marks {
            self.append(&mut tx, journal, mark, None).await?;
        }
        if journal == Journal::Labels {
            let mut items: Vec<&str> = marks.iter().map(|mark| mark.item.as_str()).collect();
            items.sort_unstable();
            items.dedup();
            for item in items {
                self.settle_agreed(&mut tx, item).await?;
            }
        }
        self.commit(tx).await?;
        Ok(Ok(()))
    }

    /// Take back the last act of an annotator's round that was not taken back yet. Returns what stands of its item now,
    /// or nothing when there is nothing to take back.
    pub async fn undo_mark(
        &self,
        journal: Journal,
        annotator: &str,
        pass: i64,
        action: &str,
        at: i64,
    ) -> Result<Option<MarkRow>, StoreError> {
        let failed = |e| self.failed("take a label back", e);
        let table = journal.table();
        let mut tx = self.begin().await?;
        if let Some(id) = self.action(&mut tx, journal, action).await? {
            let sql = format!("SELECT {COLUMNS} FROM {table} WHERE id = ?");
            return sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(&mut *tx).await.map_err(failed);
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM {table} l WHERE annotator = ? AND pass = ? AND undoes IS NULL \
             AND NOT EXISTS (SELECT 1 FROM {table} u WHERE u.undoes = l.id) ORDER BY id DESC LIMIT 1"
        );
        let last: Option<MarkRow> = sqlx::query_as(AssertSqlSafe(sql))
            .bind(annotator)
            .bind(pass)
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed)?;
        let Some(last) = last else { return Ok(None) };
        let before = self.standing(&mut tx, journal, &last.item, annotator, pass, last.id).await?;
        // What stood before keeps its own circumstances: when it was said, from which rubric, in how many seconds.
        let from = before.as_ref().unwrap_or(&last);
        let mark = NewMark {
            item: last.item.clone(),
            annotator: annotator.to_owned(),
            pass,
            mark: before.as_ref().map_or_else(Mark::open, |row| row.mark.clone()),
            rubric: from.rubric,
            seconds: before.as_ref().and_then(|row| row.seconds),
            origin: from.origin,
            preannotated: from.preannotated.clone(),
            ordering: from.ordering,
            position: from.position,
            action: Some(action.to_owned()),
            at,
        };
        let id = self.append(&mut tx, journal, &mark, Some(last.id)).await?;
        if journal == Journal::Labels {
            self.settle_agreed(&mut tx, &last.item).await?;
        }
        self.commit(tx).await?;
        let NewMark { item, annotator, pass, mark, rubric, seconds, origin, preannotated, ordering, position, .. } =
            mark;
        Ok(Some(MarkRow {
            id,
            item,
            annotator,
            pass,
            mark,
            rubric,
            seconds,
            origin,
            preannotated,
            ordering,
            position,
            at,
        }))
    }

    /// What stands: the last mark of each item, annotator and round, by item, annotator and round. `annotator` narrows it
    /// to one.
    pub async fn marks(&self, journal: Journal, annotator: Option<(&str, i64)>) -> Result<Vec<MarkRow>, StoreError> {
        let table = journal.table();
        let own = if annotator.is_some() { " WHERE annotator = ? AND pass = ?" } else { "" };
        let sql = format!(
            "SELECT {COLUMNS} FROM {table} WHERE id IN \
             (SELECT max(id) FROM {table}{own} GROUP BY item_id, annotator, pass) ORDER BY item_id, annotator, pass"
        );
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        if let Some((annotator, pass)) = annotator {
            query = query.bind(annotator).bind(pass);
        }
        query.fetch_all(self.read()).await.map_err(|e| self.failed("read labels", e))
    }

    /// What stands of one item.
    pub async fn marks_of(&self, journal: Journal, item: &str) -> Result<Vec<MarkRow>, StoreError> {
        let table = journal.table();
        let sql = format!(
            "SELECT {COLUMNS} FROM {table} WHERE id IN \
             (SELECT max(id) FROM {table} WHERE item_id = ? GROUP BY annotator, pass) ORDER BY annotator, pass"
        );
        sqlx::query_as(AssertSqlSafe(sql))
            .bind(item)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read labels", e))
    }

    /// What stands of one item with one annotator.
    pub async fn mark(
        &self,
        journal: Journal,
        item: &str,
        annotator: &str,
        pass: i64,
    ) -> Result<Option<MarkRow>, StoreError> {
        let marks = self.marks_of(journal, item).await?;
        Ok(marks.into_iter().find(|row| row.annotator == annotator && row.pass == pass))
    }

    /// Seconds that an annotator's last `limit` acts with a time took, the latest first.
    pub async fn recent_seconds(
        &self,
        journal: Journal,
        annotator: &str,
        pass: i64,
        limit: i64,
    ) -> Result<Vec<f64>, StoreError> {
        let sql = format!(
            "SELECT seconds FROM {} WHERE annotator = ? AND pass = ? AND seconds IS NOT NULL AND undoes IS NULL \
             ORDER BY id DESC LIMIT ?",
            journal.table()
        );
        sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(annotator)
            .bind(pass)
            .bind(limit)
            .fetch_all(self.read())
            .await
            .map_err(|e| self.failed("read labels", e))
    }

    async fn action(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        journal: Journal,
        action: &str,
    ) -> Result<Option<i64>, StoreError> {
        let sql = format!("SELECT id FROM {} WHERE action = ?", journal.table());
        sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(action)
            .fetch_optional(&mut **tx)
            .await
            .map_err(|e| self.failed("look for an act", e))
    }

    async fn standing(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        journal: Journal,
        item: &str,
        annotator: &str,
        pass: i64,
        before: i64,
    ) -> Result<Option<MarkRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {} WHERE item_id = ? AND annotator = ? AND pass = ? AND id < ? \
             ORDER BY id DESC LIMIT 1",
            journal.table()
        );
        sqlx::query_as(AssertSqlSafe(sql))
            .bind(item)
            .bind(annotator)
            .bind(pass)
            .bind(before)
            .fetch_optional(&mut **tx)
            .await
            .map_err(|e| self.failed("read a label", e))
    }

    async fn append(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        journal: Journal,
        mark: &NewMark,
        undoes: Option<i64>,
    ) -> Result<i64, StoreError> {
        let sql = format!(
            "INSERT INTO {} (item_id, annotator, pass, status, type, second, flagged, note, rubric, seconds, origin, \
             preannotated, ordering, position, undoes, action, at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            journal.table()
        );
        let done = sqlx::query(AssertSqlSafe(sql))
            .bind(&mark.item)
            .bind(&mark.annotator)
            .bind(mark.pass)
            .bind(mark.mark.status.as_str())
            .bind(&mark.mark.class)
            .bind(&mark.mark.second)
            .bind(mark.mark.flagged)
            .bind(&mark.mark.note)
            .bind(mark.rubric)
            .bind(mark.seconds)
            .bind(mark.origin.as_str())
            .bind(&mark.preannotated)
            .bind(mark.ordering.as_str())
            .bind(mark.position)
            .bind(undoes)
            .bind(&mark.action)
            .bind(mark.at)
            .execute(&mut **tx)
            .await
            .map_err(|e| self.failed("write a label", e))?;
        Ok(done.last_insert_rowid())
    }

    /// Give an item the type that two people or more agree on, unless a person decided otherwise; without such an
    /// agreement, the type of the last decision.
    pub(super) async fn settle_agreed(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        item: &str,
    ) -> Result<(), StoreError> {
        let failed = |e| self.failed("settle an item", e);
        let decided: Option<(Option<String>, String, String, String)> =
            sqlx::query_as("SELECT type, why, by, origin FROM decision WHERE item_id = ? ORDER BY id DESC LIMIT 1")
                .bind(item)
                .fetch_optional(&mut **tx)
                .await
                .map_err(failed)?;
        let people: Vec<String> = sqlx::query_scalar(
            "SELECT type FROM label WHERE id IN (SELECT max(id) FROM label WHERE item_id = ? GROUP BY annotator, pass) \
             AND status = 'labelled' AND origin = 'person' GROUP BY annotator, type",
        )
        .bind(item)
        .fetch_all(&mut **tx)
        .await
        .map_err(failed)?;
        let agreed = people.len() >= 2 && people.windows(2).all(|pair| pair[0] == pair[1]);
        let by_person = matches!(&decided, Some((Some(_), _, _, origin)) if origin == LabelOrigin::Person.as_str());
        let settled = match decided {
            Some((Some(class), why, by, _)) if by_person || !agreed => Some((class, why, by)),
            _ if agreed => Some((people[0].clone(), "agreed".to_owned(), String::new())),
            _ => None,
        };
        let (class, why, by) = match settled {
            Some((class, why, by)) => (Some(class), Some(why), Some(by)),
            None => (None, None, None),
        };
        sqlx::query("UPDATE gold_item SET final_type = ?, final_why = ?, final_by = ? WHERE id = ?")
            .bind(class)
            .bind(why)
            .bind(by)
            .bind(item)
            .execute(&mut **tx)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

impl MarkRow {
    /// The knowledge type that a label gives; a word of another vocabulary is none.
    pub fn knowledge_type(&self) -> Option<KnowledgeType> {
        self.mark.class.as_deref().and_then(|word| word.parse().ok())
    }
}
