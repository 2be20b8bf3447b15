//! Reads contents: repository facts, listings of the directories where artifacts live, and every blob that the corpus
//! does not hold yet, each once.
//!
//! The listings serve three ends: they tell links and executables from files, they show artifacts that search did not
//! list (siblings), and they corroborate weak names.
//!
//! Repositories are read one beside the other, each as far as its answers have come: what one has still to ask shares
//! queries with what others begin with. What is read through is stored in groups.

use super::batches::{Asker, Bounds, Fill, Reply};
use super::feed::Feed;
use super::links::Followed;
use super::shelf::Shelf;
use super::work::{Work, parent};
use super::{Context, CrawlError, Halt};
use crate::corpus::{GitOid, Slug};
use crate::github::{self, Absence, Content, RepositoryAnswer, RepositoryAsk};
use crate::store::{RepoFound, RepoId};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;

/// Repositories taken up at a time.
const PAGE: usize = 200;
/// Repositories that are read through and wait to be stored, at most.
const STORE_AT: usize = 200;
/// Bytes that wait to be stored, at most (and what the queries under way bring).
const STORE_AT_BYTES: usize = 8 << 20;
/// Blobs in one query at most: answers stay below a few megabytes.
const BLOBS: usize = 100;
/// Directories of one repository that a query lists: about as many as targets name.
const TREES: usize = 64;

type BlobAnswer = (GitOid, usize, Slug, Result<Result<Vec<u8>, github::Error>, Halt>);
type Ask = (usize, RepositoryAsk);

/// Where the repositories come from.
enum Source<'f> {
    /// Those that this run has not read, from the feed.
    Fresh(&'f Feed),
    /// Those that got hits after they were read, by key.
    Again(RepoId),
}

/// Reads repositories. Keeps what it learns from one call to the next.
pub(super) struct Reader<'a> {
    context: &'a Context<'a>,
    /// Directories near the root in which some target of any platform names a file.
    directories: Vec<String>,
    asker: Asker<'a, Ask, Result<RepositoryAnswer, Absence>>,
    /// Repositories that are being read, by number.
    works: HashMap<usize, Work>,
    numbers: usize,
    /// Repositories that were taken up in this invocation.
    taken: HashSet<RepoId>,
    shelf: Shelf,
    /// Contents that GraphQL does not show whole: who wants them, and from where.
    elsewhere: VecDeque<(GitOid, usize, Slug)>,
    blobs: FuturesUnordered<BoxFuture<'a, BlobAnswer>>,
    /// Read through, not stored.
    done: Vec<Work>,
    /// Repositories that are not asked about: opted out, or nothing that could be an artifact.
    idle: Vec<RepoFound>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        let parents: BTreeSet<String> =
            context.targets.root_paths().iter().map(|path| parent(path).to_owned()).collect();
        let directories = std::iter::once(String::new()).chain(parents.into_iter().filter(|path| !path.is_empty()));
        let bounds = Bounds { most: context.options.batch, lanes: context.options.content_lanes, weight: BLOBS };
        let send = move |asks: &[&Ask]| {
            let asks: Vec<RepositoryAsk> = asks.iter().map(|(_, ask)| ask.clone()).collect();
            Box::pin(async move { context.unless_stopped(github::content(context.github, &asks)).await })
                as BoxFuture<'a, _>
        };
        Self {
            context,
            directories: directories.collect(),
            asker: Asker::new(bounds, send),
            works: HashMap::new(),
            numbers: 0,
            taken: HashSet::new(),
            shelf: Shelf::default(),
            elsewhere: VecDeque::new(),
            blobs: FuturesUnordered::new(),
            done: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// How full the queries were so far.
    pub(super) fn fill(&self) -> Fill {
        self.asker.fill()
    }

    /// Read the repositories that the feed has. While `more` will come, those that do not fill a query wait for them.
    pub(super) async fn read(&mut self, feed: &Feed, more: bool) -> Result<(), Halt> {
        self.run(Source::Fresh(feed), more).await
    }

    /// Read what came to repositories after they were read.
    pub(super) async fn read_again(&mut self) -> Result<(), Halt> {
        self.run(Source::Again(RepoId(i64::MIN)), false).await
    }

    async fn run(&mut self, mut source: Source<'_>, more: bool) -> Result<(), Halt> {
        // What a limit or a budget cuts short is stored as far as it came, so that every invocation gets further.
        let result = self.ask_all(&mut source, more).await;
        self.store(result.is_err()).await?;
        result
    }

    async fn ask_all(&mut self, source: &mut Source<'_>, more: bool) -> Result<(), Halt> {
        loop {
            while self.asker.waiting() < self.asker.enough() && self.take_up(source).await? {}
            self.fetch_elsewhere();
            if self.blobs.is_empty() {
                let Some(settled) = self.asker.next(more).await? else { return Ok(()) };
                self.settle(settled).await?;
            } else {
                tokio::select! {
                    Some(blob) = self.blobs.next() => self.take_blob(blob).await?,
                    settled = self.asker.next(more) => match settled? {
                        Some(settled) => self.settle(settled).await?,
                        // Only contents from elsewhere are under way.
                        None => if let Some(blob) = self.blobs.next().await {
                            self.take_blob(blob).await?;
                        },
                    },
                }
            }
            if self.done.len() + self.idle.len() >= STORE_AT || self.shelf.bytes() >= STORE_AT_BYTES {
                self.store(false).await?;
            }
        }
    }

    /// Take up some more repositories; false when there are none.
    async fn take_up(&mut self, source: &mut Source<'_>) -> Result<bool, Halt> {
        let context = self.context;
        let pending = match source {
            Source::Fresh(feed) => {
                let Some(pending) = feed.next(context, PAGE).await? else { return Ok(false) };
                pending
            }
            Source::Again(after) => {
                let pending = context.store.repos_with_new_hits(context.run, *after, PAGE).await?;
                let Some(last) = pending.last() else { return Ok(false) };
                *after = last.id;
                pending
            }
        };
        let stored = match source {
            Source::Fresh(_) => None,
            Source::Again(_) => {
                let ids: Vec<RepoId> = pending.iter().map(|repo| repo.id).collect();
                Some(context.store.artifacts_of_run(context.run, &ids).await?)
            }
        };
        let nothing = HashMap::new();
        let mut begun = Vec::new();
        for repo in &pending {
            if stored.is_none() && !self.taken.insert(repo.id) {
                continue;
            }
            let stored = stored.as_ref().map(|stored| stored.get(&repo.id).unwrap_or(&nothing));
            let work = Work::new(repo, context.targets, &self.directories, stored);
            match work.filter(|_| !context.opted_out(&repo.slug)) {
                Some(work) => {
                    self.works.insert(self.numbers, work);
                    begun.push(self.numbers);
                    self.numbers += 1;
                }
                None => self.idle.push(RepoFound { id: repo.id, hits: repo.hits.len() as u64 }),
            }
        }
        let wanted = begun.iter().filter_map(|index| self.works.get(index));
        let wanted = wanted.flat_map(|work| work.hits.values().map(|(oid, _)| *oid)).collect();
        self.shelf.look_up(context.store, wanted).await?;
        for index in begun {
            self.plan(index).await?;
        }
        Ok(true)
    }

    /// Ask what `index` has to ask next, or put it with those that are read through. Ends by itself: whatever is asked
    /// for is had, missing or failed afterwards.
    async fn plan(&mut self, index: usize) -> Result<(), CrawlError> {
        let context = self.context;
        let Some(work) = self.works.get(&index) else { return Ok(()) };
        if work.asking {
            return Ok(());
        }
        if !work.is_open() {
            self.finish(index);
            return Ok(());
        }
        self.shelf.look_up(context.store, work.contents(context.targets)).await?;
        if work.facts.is_some() {
            self.follow_links(index).await?;
        }
        let Some(work) = self.works.get_mut(&index) else { return Ok(()) };
        let wanted = work.contents(context.targets).into_iter().chain(work.links.iter().copied());
        let wanted: BTreeSet<GitOid> =
            wanted.filter(|oid| !self.shelf.has(oid) && !work.missing.contains(oid)).collect();
        let (mut blobs, mut waits) = (Vec::new(), false);
        for oid in wanted {
            if blobs.len() < BLOBS && self.shelf.claim(oid, index) {
                blobs.push(oid);
            } else {
                waits = true;
            }
        }
        let unanswered = work.paths.iter().filter(|(_, came)| came.is_none());
        let paths: Vec<String> = unanswered.map(|(path, _)| path.clone()).take(BLOBS).collect();
        let trees: Vec<String> = work.trees.iter().take(TREES).cloned().collect();
        if work.facts.is_none() || !blobs.is_empty() || !paths.is_empty() || !trees.is_empty() {
            let weight = blobs.len() + paths.len();
            work.asking = true;
            self.asker.push((index, RepositoryAsk { repository: work.slug.clone(), blobs, trees, paths }), weight);
        } else if !waits {
            self.finish(index);
        }
        Ok(())
    }

    fn finish(&mut self, index: usize) {
        if let Some(mut work) = self.works.remove(&index) {
            work.resolve(self.context.targets, |oid| self.shelf.text(oid));
            self.context.read.fetch_add(1, Ordering::Relaxed);
            self.context.advance_reading(1);
            self.done.push(work);
        }
    }

    async fn settle(
        &mut self,
        settled: Vec<(Ask, Reply<Result<RepositoryAnswer, Absence>>)>,
    ) -> Result<(), CrawlError> {
        let mut next: Vec<usize> = Vec::new();
        for ((index, ask), reply) in settled {
            let Some(work) = self.works.get_mut(&index) else { continue };
            work.asking = false;
            match reply {
                Reply::Came(Ok(answer)) => next.extend(self.take(index, &ask, answer)),
                Reply::Came(Err(absence)) => work.absent = Some(absence),
                Reply::Failed(why) => work.failed = Some(why),
            }
            for oid in &ask.blobs {
                // What has to be fetched elsewhere is still this work's to bring.
                if !self.elsewhere.iter().any(|(waiting, ..)| waiting == oid) {
                    next.extend(self.shelf.release(oid, index));
                }
            }
            next.push(index);
        }
        next.sort_unstable();
        next.dedup();
        for index in next {
            self.plan(index).await?;
        }
        Ok(())
    }

    /// Take in an answer; gives the works that waited for what it brought.
    fn take(&mut self, index: usize, ask: &RepositoryAsk, answer: RepositoryAnswer) -> Vec<usize> {
        let Some(work) = self.works.get_mut(&index) else { return Vec::new() };
        work.facts.get_or_insert(answer.facts);
        for directory in &ask.trees {
            work.trees.remove(directory);
            work.listings.listed.insert(directory.clone());
        }
        work.listings.entries.extend(answer.entries.into_iter().map(|entry| (entry.path.clone(), entry)));
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
        work.want_paths_of_missing();
        let mut told = Vec::new();
        for content in came {
            match content {
                Content::Whole { oid, bytes } => {
                    self.shelf.put(oid, bytes);
                    told.extend(self.shelf.release(&oid, index));
                }
                Content::Elsewhere { oid, .. }
                    if !self.shelf.has(&oid) && (self.shelf.holds(&oid, index) || self.shelf.claim(oid, index)) =>
                {
                    self.elsewhere.push_back((oid, index, ask.repository.clone()));
                }
                Content::Elsewhere { .. } | Content::Missing => {}
            }
        }
        told
    }

    /// Ask for contents that GraphQL does not show whole.
    fn fetch_elsewhere(&mut self) {
        let context = self.context;
        while self.blobs.len() < context.options.content_lanes.max(1)
            && let Some((oid, index, slug)) = self.elsewhere.pop_front()
        {
            self.blobs.push(Box::pin(async move {
                let answer = context.unless_stopped(github::blob(context.github, &slug, oid)).await;
                (oid, index, slug, answer)
            }));
        }
    }

    async fn take_blob(&mut self, (oid, index, slug, answer): BlobAnswer) -> Result<(), Halt> {
        match answer? {
            Ok(bytes) => self.shelf.put(oid, bytes),
            Err(error) if error.stops_the_job() => return Err(error.into()),
            Err(error) => {
                self.shelf.put_unreadable(oid);
                self.context.fail("content", format!("blob {oid} of {slug}"), error.to_string()).await?;
            }
        }
        let mut next = self.shelf.release(&oid, index);
        next.push(index);
        for index in next {
            self.plan(index).await?;
        }
        Ok(())
    }

    /// Want what it takes to follow every link of `index` to its end.
    async fn follow_links(&mut self, index: usize) -> Result<(), CrawlError> {
        let Some(work) = self.works.get(&index) else { return Ok(()) };
        for path in work.symlinks(self.context.targets) {
            // Each round has the text of one more link, or ends.
            while let Some(work) = self.works.get_mut(&index) {
                match work.follow(&path, |oid| self.shelf.text(oid)) {
                    Followed::To(_) | Followed::Nowhere => break,
                    Followed::List(directory) => {
                        work.trees.insert(directory);
                        break;
                    }
                    Followed::Read(oid) => {
                        if !self.shelf.fetch_text(self.context.store, oid).await? {
                            work.links.insert(oid);
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Store what is read through. After a halt, contents that came to repositories that are not are stored as well:
    /// the next run finds and uses them.
    async fn store(&mut self, halted: bool) -> Result<(), Halt> {
        let done = std::mem::take(&mut self.done);
        let idle = std::mem::take(&mut self.idle);
        if done.is_empty() && idle.is_empty() && !(halted && self.shelf.bytes() > 0) {
            return Ok(());
        }
        let context = self.context;
        let open = self.works.values().filter(|_| halted);
        let (oids, bodies) = self.shelf.unstored(done.iter().chain(open), context.targets);
        let blobs = super::write::blobs(context, oids, bodies).await?;
        self.shelf.note_stored(blobs);
        super::write::found(context, &done, &idle, &self.shelf).await?;
        self.shelf.forget_all_but(self.works.values(), context.targets);
        context.save_ledger().await?;
        Ok(context.learn_dictionary().await?)
    }
}
