//! Reads contents: repository facts, listings of the directories where artifacts live, and every blob that the corpus
//! does not hold yet, each once.
//!
//! The listings serve three ends: they tell links and executables from files, they show artifacts that search did not
//! list (siblings), and they corroborate weak names.

use super::links::{Followed, Listings};
use super::{Context, CrawlError, Halt, now};
use crate::corpus::{GitOid, Slug};
use crate::github::{self, Absence, Batch, Content, RepositoryAnswer, RepositoryAsk, RepositoryFacts, TreeEntry};
use crate::store::{ArtifactRow, BlobId, PendingRepo, RepoFacts, RepoFound, RepoId, RepoRow};
use crate::taxonomy::{FileMode, Presence, RepoSource};
use futures_util::StreamExt as _;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Repositories read between two writes. Many more than one query holds, so that the queries are full.
const CHUNK: usize = 400;
/// Blobs in one query at most: answers stay below a few megabytes.
const BLOBS: usize = 100;
/// Directories of one repository that a query lists without counting as heavier: about as many as targets name.
const TREES: usize = 64;
/// How often a repository may be left out of an answer before it counts as failed: enough to shrink a batch to one.
pub(super) const UNANSWERED: u32 = 8;

/// Read every repository with hits that this run has not read.
pub(super) async fn read_all(context: &Context<'_>) -> Result<(), Halt> {
    let [_, repos, read, ..] = context.store.crawl_counts(context.run).await?;
    context.monitor.begin("content", Some(repos.saturating_sub(read)));
    let result = read_chunks(context).await;
    context.monitor.end();
    result
}

async fn read_chunks(context: &Context<'_>) -> Result<(), Halt> {
    let directories = directories(context);
    let overflowing: HashSet<(String, u64)> = context.store.overflowing_sizes(context.run).await?.into_iter().collect();
    let mut batch = Batch::new(context.options.batch);
    let mut after = RepoId(i64::MIN);
    loop {
        let pending = context.store.pending_repos(context.run, after, CHUNK).await?;
        let Some(last) = pending.last() else { return Ok(()) };
        after = last.id;
        let count = pending.len() as u64;
        let mut chunk = Chunk::new(context, pending, &directories).await?;
        // What a limit or a budget cuts short is stored as far as it came, so that every invocation gets further.
        let halted = chunk.read(&mut batch).await.err();
        chunk.write(&overflowing, halted.is_some()).await?;
        if let Some(halt) = halted {
            return Err(halt);
        }
        context.save_ledger().await?;
        context.monitor.advance(count);
        if let Some(points) = context.github.remaining(github::Resource::Graphql) {
            context.monitor.state(&format!("{points} GraphQL points left in this hour"));
        }
    }
}

/// Directories near the root in which some target of any platform names a file.
fn directories(context: &Context<'_>) -> Vec<String> {
    let paths = context.targets.root_paths();
    let parents: BTreeSet<String> = paths.iter().map(|path| parent(path).to_owned()).collect();
    std::iter::once(String::new()).chain(parents.into_iter().filter(|path| !path.is_empty())).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// What is known about one repository while its chunk is read.
struct Work {
    id: RepoId,
    slug: Slug,
    /// Path to content and commit: hits that may be artifacts.
    hits: BTreeMap<String, (GitOid, Option<GitOid>)>,
    /// Directories still to be listed, in order.
    trees: BTreeSet<String>,
    facts: Option<RepositoryFacts>,
    listings: Listings,
    absent: Option<Absence>,
    failed: Option<String>,
    /// Queries that answered without a word about this repository.
    unanswered: u32,
    /// Contents that the repository does not have (any more).
    missing: HashSet<GitOid>,
    /// Paths whose content on the default branch is wanted, and what came.
    paths: BTreeMap<String, Option<Option<GitOid>>>,
    /// Links on the way from one that is an artifact, whose texts are wanted.
    links: BTreeSet<GitOid>,
}

impl Work {
    /// Whether the next question is worth asking.
    fn is_open(&self) -> bool {
        self.absent.is_none() && self.failed.is_none()
    }

    /// Every path that is known.
    fn all_paths(&self) -> Vec<&str> {
        let listed = self.listings.entries.values().filter(|entry| entry.is_blob()).map(|entry| entry.path.as_str());
        let mut paths: Vec<&str> = self.hits.keys().map(String::as_str).chain(listed).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The content of `path`, by the hit, or what stands there now when the hit's content is gone, or the listing.
    fn oid(&self, path: &str) -> Option<(GitOid, Option<GitOid>)> {
        let head = self.facts.as_ref().and_then(|facts| facts.head);
        let listed = self.listings.entries.get(path).filter(|entry| entry.is_blob()).map(|entry| (entry.oid, head));
        match self.hits.get(path) {
            Some((oid, commit)) if !self.missing.contains(oid) => Some((*oid, *commit)),
            Some(_) => listed.or_else(|| Some(((*self.paths.get(path)?)??, head))),
            None => listed,
        }
    }
}

struct Chunk<'a> {
    context: &'a Context<'a>,
    works: Vec<Work>,
    /// Hits of repositories that are not asked about: opted out, or nothing that could be an artifact.
    idle: Vec<RepoId>,
    known: HashMap<GitOid, BlobId>,
    bodies: HashMap<GitOid, Vec<u8>>,
    /// Texts of links that the store holds.
    texts: HashMap<GitOid, Vec<u8>>,
    /// To be fetched one by one, and from where.
    elsewhere: BTreeMap<GitOid, Slug>,
    unreadable: HashSet<GitOid>,
}

impl<'a> Chunk<'a> {
    async fn new(
        context: &'a Context<'a>,
        pending: Vec<PendingRepo>,
        directories: &[String],
    ) -> Result<Chunk<'a>, Halt> {
        let (mut works, mut idle) = (Vec::new(), Vec::new());
        for repo in pending {
            let hits: BTreeMap<_, _> = repo
                .hits
                .into_iter()
                .filter(|(path, ..)| context.targets.collected(path).is_some())
                .map(|(path, oid, commit)| (path, (oid, commit)))
                .collect();
            if hits.is_empty() || context.opted_out(&repo.slug) {
                idle.push(repo.id);
                continue;
            }
            let parents = hits.keys().map(|path| parent(path).to_owned());
            let trees = directories.iter().cloned().chain(parents).collect();
            works.push(Work {
                id: repo.id,
                slug: repo.slug,
                hits,
                trees,
                facts: None,
                listings: Listings::default(),
                absent: None,
                failed: None,
                unanswered: 0,
                missing: HashSet::new(),
                paths: BTreeMap::new(),
                links: BTreeSet::new(),
            });
        }
        let mut chunk = Chunk {
            context,
            works,
            idle,
            known: HashMap::new(),
            bodies: HashMap::new(),
            texts: HashMap::new(),
            elsewhere: BTreeMap::new(),
            unreadable: HashSet::new(),
        };
        let oids: Vec<GitOid> = chunk.works.iter().flat_map(|work| work.hits.values().map(|(oid, _)| *oid)).collect();
        chunk.look_up(oids).await?;
        Ok(chunk)
    }

    async fn look_up(&mut self, mut oids: Vec<GitOid>) -> Result<(), CrawlError> {
        oids.sort_unstable();
        oids.dedup();
        oids.retain(|oid| !self.known.contains_key(oid));
        self.known.extend(self.context.store.known_oids(&oids).await?);
        Ok(())
    }

    fn has(&self, oid: &GitOid) -> bool {
        self.known.contains_key(oid)
            || self.bodies.contains_key(oid)
            || self.elsewhere.contains_key(oid)
            || self.unreadable.contains(oid)
    }

    async fn read(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        // Ends by itself: whatever is asked for is had, missing or failed afterwards.
        for round in 0.. {
            let wanted: Vec<GitOid> = self
                .works
                .iter()
                .filter(|work| work.is_open())
                .flat_map(|work| self.artifacts(work).into_iter().filter_map(|(path, ..)| Some(work.oid(path)?.0)))
                .collect();
            self.look_up(wanted).await?;
            self.fetch_elsewhere().await?;
            if round > 0 {
                self.follow_links().await?;
            }
            let mut asks = self.asks();
            if asks.is_empty() {
                break;
            }
            self.ask(&mut asks, batch).await?;
        }
        self.fetch_elsewhere().await
    }

    /// The artifacts among what is known of `work`. Before the first answer these are the hits.
    fn artifacts<'w>(&self, work: &'w Work) -> Vec<(&'w str, &'a crate::plan::targets::Target)> {
        if work.facts.is_none() {
            let collected = |path: &'w String| Some((path.as_str(), self.context.targets.collected(path)?.target));
            return work.hits.keys().filter_map(collected).collect();
        }
        let paths = work.all_paths();
        self.context.targets.artifacts(&paths).into_iter().map(|(path, owner)| (path, owner.target)).collect()
    }

    /// What to ask next, by place in `works`: facts, listings that did not come yet, and every wanted content once.
    fn asks(&self) -> Vec<(usize, RepositoryAsk)> {
        let mut claimed: HashSet<GitOid> = HashSet::new();
        let mut asks = Vec::new();
        for (index, work) in self.works.iter().enumerate().filter(|(_, work)| work.is_open()) {
            let wanted = self.artifacts(work).into_iter().filter_map(|(path, _)| Some(work.oid(path)?.0));
            let wanted = wanted.chain(work.links.iter().copied());
            let mut blobs: Vec<GitOid> = wanted
                .filter(|oid| !self.has(oid) && !work.missing.contains(oid))
                .filter(|oid| claimed.insert(*oid))
                .collect();
            blobs.truncate(BLOBS);
            let unanswered = work.paths.iter().filter(|(_, came)| came.is_none());
            let paths: Vec<String> = unanswered.map(|(path, _)| path.clone()).take(BLOBS).collect();
            let trees: Vec<String> = work.trees.iter().take(TREES).cloned().collect();
            if work.facts.is_none() || !blobs.is_empty() || !paths.is_empty() || !trees.is_empty() {
                asks.push((index, RepositoryAsk { repository: work.slug.clone(), blobs, trees, paths }));
            }
        }
        asks
    }

    /// Ask until every question has an answer, in batches that shrink when they prove too heavy.
    async fn ask(&mut self, asks: &mut Vec<(usize, RepositoryAsk)>, batch: &mut Batch) -> Result<(), Halt> {
        let context = self.context;
        while !asks.is_empty() {
            let lanes = context.options.content_lanes.max(1);
            let groups: Vec<Vec<(usize, RepositoryAsk)>> = split(asks, batch.size(), lanes);
            let mut answers = futures_util::stream::iter(groups)
                .map(|group| async move {
                    let questions: Vec<RepositoryAsk> = group.iter().map(|(_, ask)| ask.clone()).collect();
                    let answer = context.unless_stopped(github::content(context.github, &questions)).await;
                    (group, answer)
                })
                .buffer_unordered(lanes);
            while let Some((group, answer)) = answers.next().await {
                match answer? {
                    Ok(came) => {
                        if came.iter().all(Option::is_some) {
                            batch.worked(group.len());
                        } else {
                            batch.too_heavy(group.len());
                        }
                        for ((index, ask), answer) in group.into_iter().zip(came) {
                            let work = &mut self.works[index];
                            match answer {
                                Some(answer) => self.take(index, &ask, answer),
                                None if work.unanswered >= UNANSWERED => {
                                    work.failed = Some("GitHub answers only in part".to_owned());
                                }
                                None => {
                                    work.unanswered += 1;
                                    asks.push((index, ask));
                                }
                            }
                        }
                    }
                    Err(github::Error::TooHeavy { .. }) => {
                        batch.too_heavy(group.len());
                        asks.extend(group);
                    }
                    Err(error) if error.stops_the_job() => return Err(error.into()),
                    Err(error) if group.len() == 1 => self.works[group[0].0].failed = Some(error.to_string()),
                    // One of them may be the reason: alone, each shows what it is.
                    Err(_) => {
                        batch.too_heavy(group.len());
                        asks.extend(group);
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize, ask: &RepositoryAsk, answer: Result<RepositoryAnswer, Absence>) {
        let work = &mut self.works[index];
        let answer = match answer {
            Ok(answer) => answer,
            Err(absence) => {
                work.absent = Some(absence);
                return;
            }
        };
        if work.facts.is_none() {
            work.facts = Some(answer.facts);
        }
        ask.trees.iter().for_each(|directory| {
            work.trees.remove(directory);
            work.listings.listed.insert(directory.clone());
        });
        work.listings.entries.extend(answer.entries.into_iter().map(|entry| (entry.path.clone(), entry)));
        let repository = &ask.repository;
        let mut came = Vec::new();
        for (oid, content) in ask.blobs.iter().zip(answer.blobs) {
            // An answer about another object is none.
            if !matches!(&content, Content::Whole { oid: came, .. } | Content::Elsewhere { oid: came, .. } if came == oid)
            {
                work.missing.insert(*oid);
            }
            came.push(content);
        }
        for (path, content) in ask.paths.iter().zip(answer.paths) {
            let oid = match &content {
                Content::Whole { oid, .. } | Content::Elsewhere { oid, .. } => Some(*oid),
                Content::Missing => None,
            };
            work.paths.insert(path.clone(), Some(oid));
            came.push(content);
        }
        // A hit whose content is gone: what stands at its path now?
        let gone: Vec<String> = work
            .hits
            .iter()
            .filter(|(path, (oid, _))| work.missing.contains(oid) && !work.listings.entries.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            work.paths.entry(path).or_insert(None);
        }
        for content in came {
            match content {
                Content::Whole { oid, bytes } => {
                    self.bodies.insert(oid, bytes);
                }
                Content::Elsewhere { oid, .. } if !self.has(&oid) => {
                    self.elsewhere.insert(oid, repository.clone());
                }
                Content::Elsewhere { .. } | Content::Missing => {}
            }
        }
    }

    /// Contents that GraphQL does not show whole.
    async fn fetch_elsewhere(&mut self) -> Result<(), Halt> {
        let context = self.context;
        let wanted = std::mem::take(&mut self.elsewhere);
        let mut answers = futures_util::stream::iter(wanted)
            .map(|(oid, slug)| async move {
                let answer = context.unless_stopped(github::blob(context.github, &slug, oid)).await;
                (oid, slug, answer)
            })
            .buffer_unordered(context.options.content_lanes.max(1));
        while let Some((oid, slug, answer)) = answers.next().await {
            match answer? {
                Ok(bytes) => {
                    self.bodies.insert(oid, bytes);
                }
                Err(error) if error.stops_the_job() => return Err(error.into()),
                Err(error) => {
                    self.unreadable.insert(oid);
                    context.fail("content", format!("blob {oid} of {slug}"), error.to_string()).await?;
                }
            }
        }
        Ok(())
    }

    /// Where the link at `path` leads, as far as it is known.
    fn follow(&self, work: &Work, path: &str) -> Followed {
        work.listings.follow(path, |oid| self.bodies.get(oid).or_else(|| self.texts.get(oid)).map(Vec::as_slice))
    }

    /// The artifacts of `work` that are links.
    fn links(&self, work: &Work) -> Vec<String> {
        let is_link = |path: &str| work.listings.entries.get(path).is_some_and(TreeEntry::is_symlink);
        self.artifacts(work).into_iter().filter(|(path, _)| is_link(path)).map(|(path, _)| path.to_owned()).collect()
    }

    /// Want what it takes to follow every link to its end.
    async fn follow_links(&mut self) -> Result<(), CrawlError> {
        for index in 0..self.works.len() {
            if !self.works[index].is_open() {
                continue;
            }
            for path in self.links(&self.works[index]) {
                loop {
                    let work = &self.works[index];
                    let oid = match self.follow(work, &path) {
                        Followed::To(_) | Followed::Nowhere => break,
                        Followed::List(directory) => {
                            self.works[index].trees.insert(directory);
                            break;
                        }
                        Followed::Read(oid) => oid,
                    };
                    self.look_up(vec![oid]).await?;
                    match self.known.get(&oid) {
                        Some(blob) => {
                            let text = self.context.store.body(*blob).await?;
                            self.texts.insert(oid, text);
                        }
                        None => {
                            self.works[index].links.insert(oid);
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there is something about `work` that was not asked or not answered.
    fn wants_more(&self, work: &Work) -> bool {
        if !work.is_open() {
            return false;
        }
        if work.facts.is_none() || !work.trees.is_empty() || work.paths.values().any(Option::is_none) {
            return true;
        }
        let lost = |oid: &GitOid| self.unreadable.contains(oid) || work.missing.contains(oid);
        let unread = |path: &str| work.oid(path).is_some_and(|(oid, _)| !self.known.contains_key(&oid) && !lost(&oid));
        let unfollowed = |path: &String| match self.follow(work, path) {
            Followed::To(_) | Followed::Nowhere => false,
            Followed::List(_) => true,
            Followed::Read(oid) => !lost(&oid),
        };
        self.artifacts(work).into_iter().any(|(path, _)| unread(path)) || self.links(work).iter().any(unfollowed)
    }

    /// Store what was read, in the order: repositories, blobs, then artifacts together with the mark that the
    /// repository is read. A kill between them leaves blobs without artifacts, which the next run finds and uses.
    ///
    /// After a halt, repositories of which something is still to be asked are left for the next run.
    async fn write(mut self, overflowing: &HashSet<(String, u64)>, halted: bool) -> Result<(), Halt> {
        let context = self.context;
        let held: HashSet<GitOid> = self
            .works
            .iter()
            .flat_map(|work| self.artifacts(work).into_iter().filter_map(|(path, _)| Some(work.oid(path)?.0)))
            .collect();
        // Texts of links on the way to somewhere else are no artifacts.
        let bodies = self.bodies.iter().filter(|(oid, _)| held.contains(*oid));
        let (oids, bodies): (Vec<GitOid>, Vec<Vec<u8>>) = bodies.map(|(oid, body)| (*oid, body.clone())).unzip();
        let codec = context.store.codec();
        let packed = tokio::task::spawn_blocking(move || codec.encode_all(&bodies))
            .await
            .map_err(|error| CrawlError::Pack(std::io::Error::other(error)))?
            .map_err(CrawlError::Pack)?;
        let ids = context.store.put_blobs(context.run, &packed).await?;
        self.known.extend(oids.into_iter().zip(ids));

        let mut found: Vec<RepoFound> =
            self.idle.iter().map(|id| RepoFound { id: *id, siblings: 0, recovered: 0 }).collect();
        let (mut rows, mut present) = (Vec::new(), Vec::new());
        let mut absent = Vec::new();
        for work in &self.works {
            if halted && self.wants_more(work) {
                continue;
            }
            if let Some(why) = &work.failed {
                // Not marked as read: the same command asks again.
                context.fail("content", work.slug.to_string(), why.clone()).await?;
                continue;
            }
            match (&work.absent, &work.facts) {
                (Some(absence), _) => {
                    absent.push((work.id, presence(absence), Some(absence.to_string())));
                    found.push(RepoFound { id: work.id, siblings: 0, recovered: 0 });
                }
                (None, Some(facts)) => {
                    rows.push(row(&work.slug, facts));
                    present.push(work);
                }
                (None, None) => {}
            }
        }
        context.store.set_repo_presence(context.run, &absent).await?;
        let ids = context.store.put_repos(context.run, &rows).await?;
        let mut artifacts: BTreeMap<(RepoId, String), ArtifactRow> = BTreeMap::new();
        for (work, repo) in present.into_iter().zip(ids) {
            let mut counts = RepoFound { id: work.id, siblings: 0, recovered: 0 };
            for (path, target) in self.artifacts(work) {
                let Some((oid, commit)) = work.oid(path) else { continue };
                let Some(blob) = self.known.get(&oid) else { continue };
                let entry = work.listings.entries.get(path).filter(|entry| entry.oid == oid);
                if !work.hits.contains_key(path) {
                    counts.siblings += 1;
                    let size = entry.and_then(|entry| entry.size).unwrap_or_default();
                    counts.recovered += u64::from(overflowing.contains(&(target.id.clone(), size)));
                }
                let resolves_to = match entry.filter(|entry| entry.is_symlink()).map(|_| self.follow(work, path)) {
                    Some(Followed::To(target)) => Some(target),
                    _ => None,
                };
                let row = ArtifactRow {
                    repo,
                    path: path.to_owned(),
                    platform: target.platform.clone(),
                    target: target.id.clone(),
                    mode: mode(entry),
                    resolves_to,
                    blob: *blob,
                    commit,
                };
                artifacts.insert((repo, path.to_owned()), row);
            }
            found.push(counts);
        }
        let artifacts: Vec<ArtifactRow> = artifacts.into_values().collect();
        Ok(context.store.put_found(context.run, &artifacts, &found).await?)
    }
}

/// Take up to `lanes` groups off `asks`, each of at most `size` repositories and about [`BLOBS`] blobs.
fn split(asks: &mut Vec<(usize, RepositoryAsk)>, size: usize, lanes: usize) -> Vec<Vec<(usize, RepositoryAsk)>> {
    let mut groups: Vec<Vec<(usize, RepositoryAsk)>> = Vec::new();
    let (mut repos, mut blobs) = (usize::MAX, 0);
    let mut taken = 0;
    for (_, ask) in asks.iter() {
        let weight = ask.blobs.len() + ask.paths.len();
        if repos >= size || (blobs + weight > BLOBS && repos > 0) {
            if groups.len() == lanes {
                break;
            }
            groups.push(Vec::new());
            (repos, blobs) = (0, 0);
        }
        (repos, blobs) = (repos + 1, blobs + weight);
        if let Some(group) = groups.last_mut() {
            group.push((0, ask.clone()));
        }
        taken += 1;
    }
    let mut indices = asks.drain(..taken).map(|(index, _)| index);
    for slot in groups.iter_mut().flatten() {
        slot.0 = indices.next().unwrap_or_default();
    }
    drop(indices);
    groups
}

fn row(asked: &Slug, facts: &RepositoryFacts) -> RepoRow {
    RepoRow {
        node_id: facts.node_id.clone(),
        slug: facts.name.clone().unwrap_or_else(|| asked.clone()),
        source: RepoSource::GitHub,
        facts: RepoFacts {
            is_fork: facts.fork,
            is_archived: facts.archived,
            is_private: None,
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

fn presence(absence: &Absence) -> Presence {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_full_and_keep_their_places() {
        let ask = |blobs: usize| RepositoryAsk {
            repository: "a/b".parse().unwrap(),
            blobs: vec![GitOid([0; 20]); blobs],
            trees: Vec::new(),
            paths: Vec::new(),
        };
        let mut asks: Vec<(usize, RepositoryAsk)> = (0..60).map(|index| (index, ask(1))).collect();
        let groups = split(&mut asks, 25, 2);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [25, 25]);
        assert_eq!(groups[1][24].0, 49);
        assert_eq!(asks.len(), 10);
        let mut heavy: Vec<(usize, RepositoryAsk)> = vec![(7, ask(90)), (8, ask(90))];
        assert_eq!(split(&mut heavy, 25, 4).len(), 2);
    }
}
