//! Putting a finished set of files into a bucket, which has no step that exchanges two sets.
//!
//! Everything that is new is sent beside the set first, which takes long and leaves the set as it is. Then the manifest is
//! taken away, the new files are copied to their names inside the service, and the new manifest is put: a set without
//! `manifest.json` is not whole. An upload that was killed is mended by the next one, which finds either the old manifest,
//! or none and what was sent.

use super::folder::{CARD, ENTRIES, INCOMPLETE, MANIFEST};
use super::{ExportError, FolderError, Manifest};
use crate::bucket::Bucket;
use crate::monitor::Monitor;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Where files wait that are not at their names yet.
const INCOMING: &str = ".incoming/";

/// See that a set may be put there and that the caller may write, before the work of making one. `work` holds the marker
/// of an unfinished set.
pub(super) async fn begin(bucket: &Bucket, work: &Path) -> Result<(), ExportError> {
    let held = bucket.list().await?;
    let is_ours = held.contains_key(MANIFEST) || held.keys().any(|name| name.starts_with(INCOMING));
    let foreign = ENTRIES.into_iter().find(|entry| held.keys().any(|name| top(name) == *entry));
    if let (false, Some(entry)) = (is_ours, foreign) {
        return Err(FolderError::Foreign { path: bucket.place().to_string().into(), entry }.into());
    }
    Ok(bucket.send(&incoming(INCOMPLETE), &work.join(INCOMPLETE)).await?)
}

/// Put the set in `work` in the place of the one in the bucket. Asked to stop, it does so while the old one is whole.
pub(super) async fn publish(
    bucket: &Bucket,
    work: &Path,
    manifest: &Manifest,
    monitor: &dyn Monitor,
) -> Result<(), ExportError> {
    let held = bucket.list().await?;
    let known = match bucket.read(MANIFEST).await? {
        Some(bytes) => digests(&bytes),
        None => HashMap::new(),
    };
    let is_there = |path: &str, bytes: u64, sha256: &str| {
        held.get(path) == Some(&bytes) && known.get(path).is_some_and(|known| known == sha256)
    };
    let mut new: Vec<&str> = manifest
        .files
        .iter()
        .filter(|file| !is_there(&file.path, file.bytes, &file.sha256))
        .map(|file| file.path.as_str())
        .collect();
    // Who reads along meets the card last.
    new.sort_by_key(|path| *path == CARD);
    monitor.begin("upload", Some(new.len() as u64));
    let sent = send(bucket, work, &new, monitor).await;
    monitor.end();
    sent?;
    bucket.remove(MANIFEST).await?;
    for path in &new {
        bucket.copy(&incoming(path), path).await?;
    }
    for stale in stale(&held, manifest) {
        bucket.remove(stale).await?;
    }
    bucket.send(MANIFEST, &work.join(MANIFEST)).await?;
    let left = held.keys().filter(|name| name.starts_with(INCOMING)).cloned();
    for name in left.chain(new.iter().map(|path| incoming(path))).collect::<BTreeSet<_>>() {
        bucket.remove(&name).await?;
    }
    Ok(())
}

/// Send files of the set in `work` to where they wait.
async fn send(bucket: &Bucket, work: &Path, paths: &[&str], monitor: &dyn Monitor) -> Result<(), ExportError> {
    for path in paths {
        if monitor.stop_requested() {
            return Err(ExportError::Stopped);
        }
        bucket.send(&incoming(path), &work.join(path)).await?;
        monitor.advance(1);
    }
    Ok(())
}

/// Files of an earlier set that this one lacks. What no export wrote stays.
fn stale<'a>(held: &'a BTreeMap<String, u64>, manifest: &Manifest) -> Vec<&'a str> {
    let stays: BTreeSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).chain([MANIFEST]).collect();
    held.keys().map(String::as_str).filter(|name| ENTRIES.contains(&top(name)) && !stays.contains(name)).collect()
}

/// SHA-256 of each file of a set, by its manifest; none where that cannot be read, so that everything is sent.
fn digests(manifest: &[u8]) -> HashMap<String, String> {
    let Ok(read) = serde_json::from_slice::<serde_json::Value>(manifest) else { return HashMap::new() };
    let files = read.get("files").and_then(serde_json::Value::as_array).into_iter().flatten();
    files
        .filter_map(|file| {
            let text = |key: &str| Some(file.get(key)?.as_str()?.to_owned());
            Some((text("path")?, text("sha256")?))
        })
        .collect()
}

fn incoming(name: &str) -> String {
    format!("{INCOMING}{name}")
}

fn top(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}
