//! Tags of REST answers, kept per identity: what another identity was told says nothing to this one.

use super::{Store, StoreError};

impl Store {
    /// The tag of the last answer to a REST request of an identity, with that answer as JSON.
    pub async fn etag(&self, identity: &str, url: &str) -> Result<Option<(String, String)>, StoreError> {
        sqlx::query_as("SELECT etag, coalesce(body, '') FROM etag WHERE identity = ? AND url = ?")
            .bind(identity)
            .bind(url)
            .fetch_optional(self.read())
            .await
            .map_err(|e| self.failed("read an entity tag", e))
    }

    /// Keep the tag of an answer. `now` is Unix milliseconds.
    pub async fn put_etag(
        &self,
        identity: &str,
        url: &str,
        etag: &str,
        body: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO etag (identity, url, etag, body, updated_at) VALUES (?, ?, ?, ?, ?) \
             ON CONFLICT (identity, url) DO UPDATE SET etag = excluded.etag, body = excluded.body, \
             updated_at = excluded.updated_at",
        )
        .bind(identity)
        .bind(url)
        .bind(etag)
        .bind(body)
        .bind(now)
        .execute(&mut *tx)
        .await
        .map_err(|e| self.failed("keep an entity tag", e))?;
        self.commit(tx).await
    }
}
