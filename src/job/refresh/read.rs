//! Repositories that moved on or are new: what their directories list at the head, against what the store holds, and the
//! texts that it lacks.
//!
//! Two queues feed the queries, so that these are full: repositories to be listed, and listed ones whose texts are
//! missing. A repository is written as soon as nothing of it is missing, with the mark that it was looked at.

use super::batches::{Question, ask_all};
use super::check::Absent;
use super::opinion::{Opinion, opinion_on};
use super::{Refresh, lock, now};
use crate::corpus::{GitOid, Slug};
use crate::github::{self, Absence, Batch, Content, RepositoryAnswer, RepositoryAsk, RepositoryFacts, TreeEntry};
use crate::job::crawl::links::{Followed, Listings};
use crate::job::crawl::write::{facts_row, pack};
use crate::job::crawl::{CrawlError, Halt};
use crate::plan::targets::Target;
use crate::store::{ArtifactRow, BlobId, KnownArtifact, Listed, RepoId};
use crate::taxonomy::{FileMode, Presence};
use futures_util::StreamExt as _;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Directories of one repository that a query lists.
const TREES: usize = 64;
/// Texts of one repository that a query reads.
const TEXTS: usize = 100;
/// Ids of stored texts that are remembered.
const REMEMBERED: usize = 200_000;

/// A repository to be read.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) id: RepoId,
    /// Node id; a repository without one is asked for by name.
    pub(super) node: Option<String>,
    pub(super) slug: Slug,
    /// Paths that search found in it.
    pub(super) hits: Vec<String>,
}

/// What is known of one repository while it is read.
struct Work {
    subject: Subject,
    known: Vec<KnownArtifact>,
    /// Directories still to be listed.
    trees: BTreeSet<String>,
    facts: Option<RepositoryFacts>,
    listings: Listings,
    absent: Option<Absence>,
    failed: Option<String>,
    /// Links on the way from one that is an artifact, whose texts are wanted.
    links: BTreeSet<GitOid>,
}

impl Work {
    fn new(subject: Subject) -> Self {
        Self {
            subject,
            known: Vec::new(),
            trees: BTreeSet::new(),
            facts: None,
            listings: Listings::default(),
            absent: None,
            failed: None,
            links: BTreeSet::new(),
        }
    }

    fn take(&mut self, ask: &RepositoryAsk, answer: Result<Result<RepositoryAnswer, Absence>, String>) -> Vec<Content> {
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(absence)) => {
                self.absent = Some(absence);
                return Vec::new();
            }
            Err(why) => {
                self.failed = Some(why);
                return Vec::new();
            }
        };
        for directory in &ask.trees {
            self.trees.remove(directory);
            self.listings.listed.insert(directory.clone());
        }
        let listed_at = self.facts.as_ref().map(|facts| facts.head);
        if !ask.trees.is_empty() && listed_at.is_some_and(|head| head != answer.facts.head) {
            // Listings of two heads do not fit together.
            self.failed = Some("it was pushed to while it was read".to_owned());
        }
        self.facts.get_or_insert(answer.facts);
        self.listings.entries.extend(answer.entries.into_iter().map(|entry| (entry.path.clone(), entry)));
        for (oid, content) in ask.blobs.iter().zip(&answer.blobs) {
            // An answer about another object is none.
            if !matches!(content, Content::Whole { oid: came, .. } | Content::Elsewhere { oid: came, .. } if came == oid)
            {
                self.failed = Some(format!("its blob {oid} went away while it was read"));
            }
        }
        answer.blobs
    }
}

/// What a repository needs next.
enum Next {
    List,
    Text,
    Write,
}

/// See the module's head.
pub(super) struct Reader<'r> {
    refresh: &'r Refresh<'r>,
    /// Directories that are listed of every repository.
    directories: BTreeSet<String>,
    batch: Batch,
    lists: VecDeque<Work>,
    texts: VecDeque<Work>,
    stored: HashMap<GitOid, BlobId>,
    bodies: HashMap<GitOid, Vec<u8>>,
    /// Texts of links that the store holds.
    links: HashMap<GitOid, Vec<u8>>,
    unreadable: HashSet<GitOid>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(refresh: &'r Refresh<'r>) -> Self {
        let paths = refresh.context.targets.root_paths();
        let directories = paths.iter().map(|path| parent(path).to_owned()).chain([String::new()]).collect();
        Self {
            refresh,
            directories,
            batch: Batch::new(refresh.context.options.batch),
            lists: VecDeque::new(),
            texts: VecDeque::new(),
            stored: HashMap::new(),
            bodies: HashMap::new(),
            links: HashMap::new(),
            unreadable: HashSet::new(),
        }
    }

    /// Whether a directory is listed of every repository.
    pub(super) fn lists(&self, directory: &str) -> bool {
        self.directories.contains(directory)
    }

    pub(super) fn add(&mut self, subjects: Vec<Subject>) {
        self.lists.extend(subjects.into_iter().map(Work::new));
    }

    /// Ask while there is enough for full queries; with `all`, until nothing is left.
    pub(super) async fn go(&mut self, all: bool) -> Result<(), Halt> {
        loop {
            let enough = self.refresh.context.options.batch.max(1) * self.refresh.lanes();
            if self.texts.len() >= enough || (all && self.lists.is_empty() && !self.texts.is_empty()) {
                self.step(enough, false).await?;
            } else if self.lists.len() >= enough || (all && !self.lists.is_empty()) {
                self.step(enough, true).await?;
            } else {
                return Ok(());
            }
            if self.stored.len() > REMEMBERED {
                self.stored.clear();
                self.links.clear();
            }
        }
    }

    /// Ask for the first `most` of a queue, write what is whole by then, and put the others where they belong.
    async fn step(&mut self, most: usize, listing: bool) -> Result<(), Halt> {
        let queue = if listing { &mut self.lists } else { &mut self.texts };
        let mut works: Vec<Work> = queue.drain(..most.min(queue.len())).collect();
        if listing {
            self.prepare(&mut works).await?;
        }
        let halted = self.ask(&mut works, listing).await.err();
        let oids = works.iter().flat_map(|work| self.artifacts(work).into_iter().map(|(entry, _)| entry.oid)).collect();
        self.look_up(oids).await?;
        let (mut whole, mut absent) = (Vec::new(), Vec::new());
        for mut work in works {
            if let Some(why) = work.failed.take() {
                if halted.is_none() {
                    self.refresh.context.fail("check", work.subject.slug.to_string(), why).await?;
                }
            } else if let Some(absence) = work.absent.take() {
                if halted.is_none() {
                    self.opinion(&work.subject, &absence, &mut absent).await?;
                }
            } else if work.facts.as_ref().is_some_and(|facts| facts.head.is_none()) {
                absent.push((work.subject.id, Presence::Empty, "it has no commits".to_owned()));
            } else {
                match self.next(&mut work).await? {
                    Next::List => self.lists.push_back(work),
                    Next::Text => self.texts.push_back(work),
                    Next::Write => whole.push(work),
                }
            }
        }
        self.refresh.context.store.put_absent(self.refresh.context.run, &absent, now()).await?;
        self.write(whole).await?;
        self.refresh.book().await?;
        halted.map_or(Ok(()), Err)
    }

    /// Look up what the store holds of repositories that were not asked about yet.
    async fn prepare(&self, works: &mut [Work]) -> Result<(), CrawlError> {
        let fresh: Vec<RepoId> = works.iter().filter(|work| work.facts.is_none()).map(|work| work.subject.id).collect();
        let mut known = self.refresh.context.store.known_artifacts(&fresh).await?;
        for work in works.iter_mut().filter(|work| work.facts.is_none()) {
            work.known = known.remove(&work.subject.id).unwrap_or_default();
            // Those that are gone, too: with a repository that comes back they do.
            let held = work.known.iter().map(|artifact| artifact.path.as_str());
            let parents = held.chain(work.subject.hits.iter().map(String::as_str)).map(|path| parent(path).to_owned());
            work.trees = self.directories.iter().cloned().chain(parents).collect();
        }
        Ok(())
    }

    async fn ask(&mut self, works: &mut [Work], listing: bool) -> Result<(), Halt> {
        let refresh = self.refresh;
        let context = &refresh.context;
        let mut claimed: HashSet<GitOid> = HashSet::new();
        let mut questions = Vec::new();
        for (index, work) in works.iter().enumerate() {
            let trees: Vec<String> = work.trees.iter().take(TREES).cloned().collect();
            let mut blobs = if listing { Vec::new() } else { self.wanted(work) };
            blobs.retain(|oid| claimed.insert(*oid));
            blobs.truncate(TEXTS);
            if !trees.is_empty() || !blobs.is_empty() {
                let weight = blobs.len();
                let ask = RepositoryAsk { repository: work.subject.slug.clone(), blobs, trees, paths: Vec::new() };
                questions.push(Question::new((index, work.subject.node.clone(), ask), weight));
            }
        }
        let send = |group: Vec<Question<(usize, Option<String>, RepositoryAsk)>>| async {
            let asks: Vec<(Option<String>, RepositoryAsk)> =
                group.iter().map(|question| (question.what.1.clone(), question.what.2.clone())).collect();
            let answer = github::content_by_id(context.github, &asks).await;
            (group, answer)
        };
        let fills = *lock(&refresh.fills);
        let mut fill = if listing { fills.listings } else { fills.texts };
        let mut elsewhere: Vec<(GitOid, Slug)> = Vec::new();
        let (batch, bodies) = (&mut self.batch, &mut self.bodies);
        let asked = ask_all(
            context,
            refresh.lanes(),
            (batch, context.options.batch),
            &mut fill,
            questions,
            send,
            |(index, _, ask), answer| {
                for content in works[index].take(&ask, answer) {
                    match content {
                        Content::Whole { oid, bytes } => {
                            bodies.insert(oid, bytes);
                        }
                        Content::Elsewhere { oid, .. } => elsewhere.push((oid, ask.repository.clone())),
                        Content::Missing => {}
                    }
                }
            },
        );
        let halted = asked.await.err();
        {
            let mut fills = lock(&refresh.fills);
            if listing { fills.listings = fill } else { fills.texts = fill }
        }
        match halted {
            Some(halt) => Err(halt),
            None => self.fetch(elsewhere).await,
        }
    }

    /// Texts that GraphQL does not show whole.
    async fn fetch(&mut self, wanted: Vec<(GitOid, Slug)>) -> Result<(), Halt> {
        let context = &self.refresh.context;
        let mut answers = futures_util::stream::iter(wanted)
            .map(|(oid, slug)| async move {
                let answer = context.unless_stopped(github::blob(context.github, &slug, oid)).await;
                (oid, slug, answer)
            })
            .buffer_unordered(self.refresh.lanes());
        while let Some((oid, slug, answer)) = answers.next().await {
            match answer? {
                Ok(bytes) => {
                    self.bodies.insert(oid, bytes);
                }
                Err(error) if error.stops_the_job() => return Err(error.into()),
                Err(error) => {
                    self.unreadable.insert(oid);
                    context.fail("check", format!("blob {oid} of {slug}"), error.to_string()).await?;
                }
            }
        }
        Ok(())
    }

    async fn opinion(&self, subject: &Subject, absence: &Absence, absent: &mut Vec<Absent>) -> Result<(), Halt> {
        let (node, known) = (subject.node.as_deref(), Presence::Present);
        match opinion_on(self.refresh, &subject.slug, node, known, absence).await? {
            Opinion::Agrees(presence, why) => absent.push((subject.id, presence, why)),
            Opinion::Differs(why) => self.refresh.context.fail("check", subject.slug.to_string(), why).await?,
        }
        Ok(())
    }

    async fn look_up(&mut self, mut oids: Vec<GitOid>) -> Result<(), CrawlError> {
        oids.sort_unstable();
        oids.dedup();
        oids.retain(|oid| !self.stored.contains_key(oid) && !self.bodies.contains_key(oid));
        self.stored.extend(self.refresh.context.store.known_oids(&oids).await?);
        Ok(())
    }

    fn has(&self, oid: &GitOid) -> bool {
        self.stored.contains_key(oid) || self.bodies.contains_key(oid) || self.unreadable.contains(oid)
    }

    /// The entries of `work` that are artifacts of the selected platforms.
    fn artifacts<'w>(&self, work: &'w Work) -> Vec<(&'w TreeEntry, &'r Target)> {
        let entries = &work.listings.entries;
        let paths: Vec<&str> =
            entries.values().filter(|entry| entry.is_blob()).map(|entry| entry.path.as_str()).collect();
        let found = self.refresh.context.targets.artifacts(&paths).into_iter();
        found.filter_map(|(path, owner)| Some((entries.get(path)?, owner.target))).collect()
    }

    /// Texts of `work` that nobody has.
    fn wanted(&self, work: &Work) -> Vec<GitOid> {
        let artifacts = self.artifacts(work).into_iter().map(|(entry, _)| entry.oid);
        artifacts.chain(work.links.iter().copied()).filter(|oid| !self.has(oid)).collect()
    }

    fn follow(&self, work: &Work, path: &str) -> Followed {
        work.listings.follow(path, |oid| self.bodies.get(oid).or_else(|| self.links.get(oid)).map(Vec::as_slice))
    }

    /// What it takes to know every artifact of `work` with its text and, of links, where they lead.
    async fn next(&mut self, work: &mut Work) -> Result<Next, CrawlError> {
        if !work.trees.is_empty() {
            return Ok(Next::List);
        }
        let links: Vec<String> = self
            .artifacts(work)
            .into_iter()
            .filter(|(entry, _)| entry.is_symlink())
            .map(|(entry, _)| entry.path.clone())
            .collect();
        for path in links {
            loop {
                match self.follow(work, &path) {
                    Followed::To(_) | Followed::Nowhere => break,
                    Followed::List(directory) => {
                        work.trees.insert(directory);
                        break;
                    }
                    Followed::Read(oid) if self.unreadable.contains(&oid) => break,
                    Followed::Read(oid) => {
                        self.look_up(vec![oid]).await?;
                        let Some(blob) = self.stored.get(&oid) else {
                            work.links.insert(oid);
                            break;
                        };
                        let text = self.refresh.context.store.body(*blob).await?;
                        self.links.insert(oid, text);
                    }
                }
            }
        }
        // Directories that a link leads to are asked for together with the texts.
        Ok(if !self.wanted(work).is_empty() {
            Next::Text
        } else if !work.trees.is_empty() {
            Next::List
        } else {
            Next::Write
        })
    }

    /// Store repositories of which nothing is missing: texts first, then everything that rests on them, in one write.
    async fn write(&mut self, works: Vec<Work>) -> Result<(), Halt> {
        let context = &self.refresh.context;
        let held: HashSet<GitOid> =
            works.iter().flat_map(|work| self.artifacts(work).into_iter().map(|(entry, _)| entry.oid)).collect();
        let fresh: Vec<(GitOid, Vec<u8>)> =
            held.into_iter().filter_map(|oid| self.bodies.remove(&oid).map(|body| (oid, body))).collect();
        let entries = works.iter().flat_map(|work| work.listings.entries.values());
        let links: HashSet<GitOid> = entries.filter(|entry| entry.is_symlink()).map(|entry| entry.oid).collect();
        self.links.extend(fresh.iter().filter(|(oid, _)| links.contains(oid)).cloned());
        let (oids, bodies): (Vec<GitOid>, Vec<Vec<u8>>) = fresh.into_iter().unzip();
        let ids = pack(context, bodies).await?;
        self.stored.extend(oids.into_iter().zip(ids));
        let listed: Vec<Listed> = works.iter().filter_map(|work| self.listed(work)).collect();
        context.monitor.advance(listed.len() as u64);
        Ok(context.store.put_listed(context.run, &listed, now()).await?)
    }

    /// `work` against what the store holds.
    fn listed(&self, work: &Work) -> Option<Listed> {
        let facts = work.facts.as_ref()?;
        let row = facts_row(facts, work.subject.node.clone(), work.subject.slug.clone());
        let known: HashMap<&str, &KnownArtifact> =
            work.known.iter().map(|artifact| (artifact.path.as_str(), artifact)).collect();
        let mut listed = Listed {
            id: work.subject.id,
            row,
            artifacts: Vec::new(),
            same: Vec::new(),
            missed: Vec::new(),
            found: !work.subject.hits.is_empty(),
            whole: true,
        };
        let mut there: HashSet<&str> = HashSet::new();
        for (entry, target) in self.artifacts(work) {
            there.insert(&entry.path);
            let Some(blob) = self.stored.get(&entry.oid) else {
                listed.whole = false;
                continue;
            };
            let resolves_to = match entry.is_symlink().then(|| self.follow(work, &entry.path)) {
                Some(Followed::To(path)) => Some(path),
                _ => None,
            };
            let mode = mode(entry);
            let same = known.get(entry.path.as_str()).filter(|known| {
                known.present
                    && known.oid == entry.oid
                    && known.mode == mode
                    && known.target == target.id
                    && (mode != FileMode::Symlink || known.resolves_to == resolves_to)
            });
            match same {
                Some(known) => listed.same.push(known.id),
                None => listed.artifacts.push(ArtifactRow {
                    repo: work.subject.id,
                    path: entry.path.clone(),
                    platform: target.platform.clone(),
                    target: target.id.clone(),
                    mode,
                    resolves_to,
                    blob: *blob,
                    commit: facts.head,
                }),
            }
        }
        let looked_for = |artifact: &&KnownArtifact| {
            artifact.present
                && self.refresh.platforms.contains(&artifact.platform)
                && !there.contains(artifact.path.as_str())
        };
        listed.missed = work.known.iter().filter(looked_for).map(|artifact| artifact.id).collect();
        if self.refresh.context.opted_out(&listed.row.slug) {
            // Moved to an owner who opted out: nothing more is collected.
            listed.artifacts.clear();
        }
        Some(listed)
    }
}

fn mode(entry: &TreeEntry) -> FileMode {
    if entry.is_symlink() {
        FileMode::Symlink
    } else if entry.mode & 0o111 != 0 {
        FileMode::Executable
    } else {
        FileMode::File
    }
}

/// The directory of a path; empty for the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}
