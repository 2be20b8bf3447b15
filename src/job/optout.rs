//! Remove what somebody asked not to be collected, and remember it.

use super::judging::{JudgeError, LazyRun, now_ms};
use crate::store::{OptOutKey, OptOutRow, Removed, Store};
use serde::Serialize;

/// What is given as the reason when none is.
pub const ON_REQUEST: &str = "At the owner's request";

/// What adding an opt-out did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptedOut {
    /// Lower-case owner, or owner and name.
    pub optout: String,
    /// The reason that is remembered.
    pub why: String,
    /// What was removed.
    pub removed: Removed,
}

/// Remove an owner's repositories, or one repository, with everything derived, and never collect them again.
pub async fn add(store: &Store, key: &OptOutKey, why: &str) -> Result<OptedOut, JudgeError> {
    let mut run = LazyRun::new(store, "optout add");
    let removed = store.add_opt_out(run.id().await?, key, why, now_ms()).await?;
    let done = OptedOut { optout: key.to_string(), why: why.to_owned(), removed };
    run.end(false, &done).await?;
    Ok(done)
}

/// Every opt-out in force.
pub async fn list(store: &Store) -> Result<Vec<OptOutRow>, JudgeError> {
    Ok(store.list_opt_outs().await?)
}

/// Take an opt-out back: what it covered may be collected again. Returns false when it was not in force.
pub async fn remove(store: &Store, key: &OptOutKey) -> Result<bool, JudgeError> {
    let mut run = LazyRun::new(store, "optout remove");
    run.id().await?;
    let known = store.remove_opt_out(key).await?;
    run.end(false, &serde_json::json!({ "optout": key.to_string(), "known": known })).await?;
    Ok(known)
}
