//! What may still be sent to GitHub, from one command to the next.

use super::now;
use crate::github::{GitHub, LedgerRow};
use crate::store::{Store, StoreError};

/// The ledger of this client's identity, taken up where the corpus last left it.
pub(in crate::job) async fn restore(store: &Store, github: &GitHub) -> Result<(), StoreError> {
    let rows = store.ledger(&github.identity()).await?;
    let rows: Vec<LedgerRow> = rows.iter().filter_map(|(_, state)| serde_json::from_str(state).ok()).collect();
    github.restore_ledger(&rows);
    Ok(())
}

/// Leave the client's ledger to whoever asks next with this corpus.
pub(in crate::job) async fn save(store: &Store, github: &GitHub) -> Result<(), StoreError> {
    let rows: Vec<(String, String)> = github
        .ledger_rows()
        .into_iter()
        .filter_map(|row| Some((row.resource.clone(), serde_json::to_string(&row).ok()?)))
        .collect();
    store.put_ledger(&github.identity(), &rows, now()).await
}
