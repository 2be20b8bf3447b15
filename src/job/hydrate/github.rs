//! Blobs of labels read from GitHub by their ids: many repositories in one query, as the crawl reads contents.

use super::{Bodies, Missing};
use crate::corpus::{GitOid, Slug};
use crate::github::{self, Absence, Content, GitHub, RepositoryAnswer, RepositoryAsk};
use crate::job::crawl::batches::{Asker, Bounds, Reply};
use crate::job::crawl::{CrawlError, CrawlOptions, Halt, unless_stopped};
use crate::monitor::Monitor;
use crate::store::OptOuts;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, HashMap};

/// Blobs in one query at most: answers stay below a few megabytes.
const BLOBS: usize = 100;

/// Read the blobs at `wanted`, each with the repository that its label names, where it names one. In their order;
/// nothing where a limit, a budget or a request to stop came first.
pub(super) async fn read(
    github: &GitHub,
    optouts: &OptOuts,
    wanted: &[(GitOid, Option<&str>)],
    monitor: &dyn Monitor,
) -> Result<Bodies, CrawlError> {
    let mut found: HashMap<GitOid, Result<Vec<u8>, Missing>> = HashMap::new();
    let mut by_repository: BTreeMap<String, (Slug, Vec<GitOid>)> = BTreeMap::new();
    for (oid, repository) in wanted {
        match repository.and_then(|name| name.parse::<Slug>().ok()) {
            None => drop(found.insert(*oid, Err(Missing::NoRepository))),
            Some(slug) if optouts.covers(&slug) => drop(found.insert(*oid, Err(Missing::OptedOut))),
            Some(slug) => by_repository.entry(slug.key()).or_insert_with(|| (slug, Vec::new())).1.push(*oid),
        }
    }
    let options = CrawlOptions::default();
    let bounds = Bounds { most: options.batch, lanes: options.content_lanes, weight: BLOBS };
    let mut asker: Asker<'_, RepositoryAsk, Result<RepositoryAnswer, Absence>> =
        Asker::new(bounds, |asks: &[&RepositoryAsk]| {
            let asks: Vec<RepositoryAsk> = asks.iter().map(|ask| (*ask).clone()).collect();
            Box::pin(async move { Ok(github::content(github, &asks).await) }) as BoxFuture<'_, _>
        });
    for (repository, oids) in by_repository.into_values() {
        for blobs in oids.chunks(BLOBS) {
            let (repository, blobs) = (repository.clone(), blobs.to_vec());
            let weight = blobs.len();
            asker.push(RepositoryAsk { repository, blobs, trees: Vec::new(), paths: Vec::new() }, weight);
        }
    }
    let result = ask_all(github, optouts, &mut asker, &mut found, monitor).await;
    let paused = match result {
        Ok(()) => None,
        Err(Halt::Paused { why, .. }) => Some(why),
        Err(Halt::Failed(error)) => return Err(error),
    };
    Ok(Bodies { bodies: wanted.iter().map(|(oid, _)| found.remove(oid)).collect(), paused })
}

async fn ask_all(
    github: &GitHub,
    optouts: &OptOuts,
    asker: &mut Asker<'_, RepositoryAsk, Result<RepositoryAnswer, Absence>>,
    found: &mut HashMap<GitOid, Result<Vec<u8>, Missing>>,
    monitor: &dyn Monitor,
) -> Result<(), Halt> {
    let stop = || monitor.stop_requested();
    loop {
        let Some(settled) = unless_stopped(stop, asker.next(false)).await?? else { return Ok(()) };
        for (ask, reply) in settled {
            let answer = match reply {
                Reply::Came(Ok(answer)) => answer,
                Reply::Came(Err(absence)) => {
                    monitor.warn(&format!("{}: {absence}", ask.repository));
                    found.extend(ask.blobs.iter().map(|oid| (*oid, Err(Missing::Gone))));
                    continue;
                }
                Reply::Failed(why) => {
                    monitor.warn(&format!("{}: {why}", ask.repository));
                    found.extend(ask.blobs.iter().map(|oid| (*oid, Err(Missing::Failed))));
                    continue;
                }
            };
            // Under a former name it may have been asked for although it is opted out under the present one.
            if answer.facts.name.as_ref().is_some_and(|name| optouts.covers(name)) {
                found.extend(ask.blobs.iter().map(|oid| (*oid, Err(Missing::OptedOut))));
                continue;
            }
            for (oid, content) in ask.blobs.iter().zip(answer.blobs) {
                let body = match content {
                    Content::Whole { oid: came, bytes } if came == *oid => Ok(bytes),
                    Content::Elsewhere { binary: true, .. } => Err(Missing::NoText),
                    Content::Elsewhere { oid: came, size, .. } if came == *oid && size <= super::MAX_BYTES => {
                        match unless_stopped(stop, github::blob(github, &ask.repository, *oid)).await? {
                            Ok(bytes) => Ok(bytes),
                            Err(error) if error.stops_the_job() => return Err(error.into()),
                            Err(github::Error::Absent { .. }) => Err(Missing::Gone),
                            Err(error) => {
                                monitor.warn(&error.to_string());
                                Err(Missing::Failed)
                            }
                        }
                    }
                    _ => Err(Missing::Gone),
                };
                found.insert(*oid, body);
            }
        }
    }
}
