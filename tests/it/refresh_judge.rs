//! After a refresh only what it changed is judged anew, and an export as of the time before it is the one made then.

use crate::crawl::{corpus, sandbox, unlimited};
use crate::refresh::{again, cold, open, paths};
use aac::job::classify::classify;
use aac::job::dedup::dedup;
use aac::job::model::{ModelPlaces, find_model};
use aac::job::segment::segment;
use aac::job::tag::tag;
use aac::monitor::Silent;
use aac::sandbox::Faults;
use aac::store::Store;
use std::collections::BTreeSet;

/// Blobs read, blobs clustered, artifacts tagged, blobs classified.
async fn judge(store: &Store) -> [u64; 4] {
    let monitor = Silent::default();
    let model = find_model(&ModelPlaces::default()).unwrap().model;
    let read = segment(store, &monitor).await.unwrap();
    let clustered = dedup(store, &monitor).await.unwrap();
    let tagged = tag(store, &monitor).await.unwrap();
    let classified = classify(store, model, &monitor).await.unwrap();
    [read.updated, clustered.updated, tagged.updated, classified.updated]
}

#[tokio::test]
async fn only_what_changed_is_judged_anew() {
    let sandbox = sandbox(unlimited(), Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), "corpus.db").await;
    cold(&store, &sandbox).await;
    let before = corpus(&store).await;
    let blobs = store.counts().await.unwrap().blobs as u64;
    let first = judge(&store).await;
    assert_eq!((first[0], first[2]), (blobs, before.len() as u64));
    assert_eq!(judge(&store).await, [0; 4]);

    // A refresh that finds nothing leaves nothing to judge.
    again(&store, &sandbox).await;
    assert_eq!(judge(&store).await, [0; 4]);

    assert!(sandbox.evolve(1).await);
    let summary = again(&store, &sandbox).await;
    let new = store.counts().await.unwrap().blobs as u64 - blobs;
    let judged = judge(&store).await;
    assert!(new > 10 && summary.changed > 0);
    // A text may also be read anew because the path that decided how to read it holds it no longer.
    let after = corpus(&store).await;
    let (old, now) = (paths(&before), paths(&after));
    let touched: BTreeSet<_> =
        now.iter().filter(|(key, oid)| old.get(*key) != Some(oid)).map(|(_, oid)| *oid).collect();
    assert!(judged[0] >= new && judged[0] <= new + touched.len() as u64, "{judged:?}, {new} new");
    assert!(judged[3] <= judged[0], "{judged:?}");
    assert!(judged[1] < first[1] / 2 || judged[1] <= judged[0] + touched.len() as u64, "{judged:?}, first {first:?}");
    assert_eq!(judge(&store).await, [0; 4]);
}
