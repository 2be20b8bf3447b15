//! Stores what was read, in the order: blobs, repositories, then artifacts together with the mark that the repository is
//! read. A kill between them leaves blobs without artifacts, which the next run finds and uses.

use super::shelf::Shelf;
use super::work::Work;
use super::{Context, CrawlError, Halt, now};
use crate::corpus::{GitOid, Slug};
use crate::github::{Absence, RepositoryFacts, TreeEntry};
use crate::store::{ArtifactRow, BlobId, RepoFacts, RepoFound, RepoId, RepoRow};
use crate::taxonomy::{FileMode, Presence, RepoSource};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Store contents; gives their keys.
pub(super) async fn blobs(
    context: &Context<'_>,
    oids: Vec<GitOid>,
    bodies: Vec<Vec<u8>>,
) -> Result<Vec<(GitOid, BlobId)>, Halt> {
    if oids.is_empty() {
        return Ok(Vec::new());
    }
    let pointers = bodies.iter().filter(|bytes| crate::encoding::is_lfs_pointer(bytes)).count();
    context.pointers.fetch_add(pointers as u64, Ordering::Relaxed);
    let ids = pack(context, bodies).await?;
    Ok(oids.into_iter().zip(ids).collect())
}

/// Pack bodies beside the requests and store them; gives their keys in their order.
pub(in crate::job) async fn pack(context: &Context<'_>, bodies: Vec<Vec<u8>>) -> Result<Vec<BlobId>, Halt> {
    let codec = context.store.codec();
    let packed = tokio::task::spawn_blocking(move || codec.encode_all(&bodies))
        .await
        .map_err(|error| CrawlError::Pack(std::io::Error::other(error)))?
        .map_err(CrawlError::Pack)?;
    Ok(context.store.put_blobs(context.run, &packed).await?)
}

/// Store repositories that are read through, with their artifacts.
pub(super) async fn found(context: &Context<'_>, done: &[Work], idle: &[RepoFound], shelf: &Shelf) -> Result<(), Halt> {
    let mut found: Vec<RepoFound> = idle.to_vec();
    let (mut rows, mut present, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for work in done {
        if let Some(why) = &work.failed {
            // Not marked as read: the same command asks again.
            context.fail("content", work.slug.to_string(), why.clone()).await?;
            continue;
        }
        match (&work.absent, &work.facts) {
            (Some(absence), _) => absent.push((work.id, presence(absence), Some(absence.to_string()))),
            (None, Some(facts)) => {
                rows.push(facts_row(facts, None, work.slug.clone()));
                present.push(work);
            }
            (None, None) => continue,
        }
        found.push(RepoFound { id: work.id, hits: work.all_hits });
    }
    if !absent.is_empty() {
        context.store.set_repo_presence(context.run, &absent).await?;
    }
    let ids = context.store.put_repos(context.run, &rows).await?;
    let mut artifacts: BTreeMap<(RepoId, String), ArtifactRow> = BTreeMap::new();
    for (work, repo) in present.into_iter().zip(ids) {
        for (path, target) in work.artifacts(context.targets) {
            let Some((oid, commit)) = work.oid(path) else { continue };
            let Some(blob) = shelf.stored(&oid) else { continue };
            let entry = work.listings.entries.get(path).filter(|entry| entry.oid == oid);
            let resolves_to = entry.filter(|entry| entry.is_symlink()).and_then(|_| work.resolved.get(path).cloned());
            let row = ArtifactRow {
                repo,
                path: path.to_owned(),
                platform: target.platform.clone(),
                target: target.id.clone(),
                mode: mode(entry),
                resolves_to,
                blob,
                commit,
            };
            artifacts.insert((repo, path.to_owned()), row);
        }
    }
    let artifacts: Vec<ArtifactRow> = artifacts.into_values().collect();
    Ok(context.store.put_found(context.run, &artifacts, &found).await?)
}

/// The row of a repository from its facts; `node_id` and `slug` as far as these do not name them.
pub(in crate::job) fn facts_row(facts: &RepositoryFacts, node_id: Option<String>, slug: Slug) -> RepoRow {
    RepoRow {
        node_id: facts.node_id.clone().or(node_id),
        slug: facts.name.clone().unwrap_or(slug),
        source: RepoSource::GitHub,
        facts: RepoFacts {
            is_fork: facts.fork,
            is_archived: facts.archived,
            is_private: facts.private,
            stars: facts.stars.and_then(|stars| i64::try_from(stars).ok()),
            language: facts.language.clone(),
            license_api: facts.license.clone(),
            default_branch: facts.branch.clone(),
            head: facts.head,
            pushed_at: facts.pushed.map(jiff::Timestamp::as_millisecond),
        },
        facts_at: Some(now()),
    }
}

/// Presence of what was missed, by the answer.
pub(in crate::job) fn presence(absence: &Absence) -> Presence {
    match absence {
        Absence::NotFound | Absence::Gone => Presence::Gone,
        Absence::Blocked(_) => Presence::Blocked,
        Absence::Empty => Presence::Empty,
        Absence::Forbidden(_) => Presence::Private,
    }
}

fn mode(entry: Option<&TreeEntry>) -> FileMode {
    match entry {
        Some(entry) if entry.is_symlink() => FileMode::Symlink,
        Some(entry) if entry.mode & 0o111 != 0 => FileMode::Executable,
        _ => FileMode::File,
    }
}
