//! What search found and the corpus does not have: repositories are read at their head like known ones that moved on, so
//! that an index that lags behind brings nothing old back.

use super::Refresh;
use super::read::{Reader, Subject, parent};
use crate::job::crawl::Halt;
use crate::store::RepoId;
use std::collections::HashSet;

/// Repositories taken from the store at a time.
const PAGE: usize = 500;

/// Read every repository in which this run's searches found something unknown.
pub(super) async fn read_found(refresh: &Refresh<'_>) -> Result<(), Halt> {
    let context = &refresh.context;
    context.monitor.begin("read", None);
    let result = read_all(refresh).await;
    context.monitor.end();
    result
}

async fn read_all(refresh: &Refresh<'_>) -> Result<(), Halt> {
    let context = &refresh.context;
    let mut reader = Reader::new(refresh);
    let mut after = RepoId(i64::MIN);
    loop {
        let page = context.store.unknown_hits(context.run, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let ids: Vec<RepoId> = page.iter().filter(|repo| repo.checked).map(|repo| repo.id).collect();
        let known = context.store.known_artifacts(&ids).await?;
        let mut subjects = Vec::new();
        for repo in page {
            if context.opted_out(&repo.slug) {
                continue;
            }
            let mut hits = repo.paths;
            hits.retain(|path| context.targets.collected(path).is_some());
            if repo.checked {
                // Where it was listed already, a path that is not known is not there, or is no artifact.
                let listed: HashSet<&str> =
                    known.get(&repo.id).into_iter().flatten().map(|artifact| parent(&artifact.path)).collect();
                hits.retain(|path| !listed.contains(parent(path)) && !reader.lists(parent(path)));
            }
            if !hits.is_empty() {
                subjects.push(Subject { id: repo.id, node: repo.node_id, slug: repo.slug, hits });
            }
        }
        context.monitor.advance(subjects.len() as u64);
        reader.add(subjects);
        reader.go(false).await?;
    }
    reader.go(true).await
}
