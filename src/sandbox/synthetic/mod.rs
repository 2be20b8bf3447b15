//! A corpus of any size from a seed. Nothing of it is stored but a table of names: every repository, file and commit
//! is worked out when somebody asks.

mod layout;
mod people;
mod phrases;
mod text;

pub use text::TrueItem;

use super::dice::{Dice, hash_text, mix, unit};
use super::tree::Tree;
use super::world::{CommitFacts, FileEntry, RepoFacts, World, WorldError};
use crate::corpus::GitOid;
use layout::Slot;
use phrases::STACKS;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The first repository number; the following are seven apart, as numbers on GitHub have gaps.
const FIRST_ID: u64 = 700_000_001;
const ID_STEP: u64 = 7;
/// Repositories that are counted at a time.
const BLOCK: u32 = 4_096;
/// Share of files that change in an epoch.
const CHANGED: f64 = 0.05;
/// Share that go.
const GONE: f64 = 0.02;
/// Share of repositories that get a file more.
const GROWN: f64 = 0.02;
/// New repositories, as a share of those there were at first.
const FOUNDED: f64 = 0.015;
/// 2024-06-01, when the oldest repositories begin.
const BEGIN: i64 = 1_717_200_000;
/// 2026-11-01, when the world begins.
const TODAY: i64 = 1_793_491_200;
/// Seconds from one epoch to the next.
const EPOCH: i64 = 7 * 86_400;

/// A generated corpus at one epoch.
#[derive(Debug, Clone)]
pub struct Synthetic {
    seed: u64,
    epoch: u32,
    /// Repositories at epoch 0.
    first_repos: u32,
    /// Repositories now.
    repos: u32,
    artifacts: u64,
    /// Repository by the hash of its slug; those few that share a hash are told apart by their names.
    by_slug: Arc<HashMap<u64, u32>>,
}

impl Synthetic {
    /// About `artifacts` artifacts: as many whole repositories as hold at least that many.
    pub fn new(artifacts: u32, seed: u64) -> Self {
        let (mut repos, mut held) = (0u32, 0u64);
        // Counted in blocks on all cores; the last block is cut where enough are held.
        'counted: loop {
            let block: Vec<u64> = (repos..repos.saturating_add(BLOCK))
                .into_par_iter()
                .map(|repo| count_artifacts(&layout::first_files(seed, repo, 0, "x")))
                .collect();
            for count in block {
                if held >= u64::from(artifacts) || repos == u32::MAX {
                    break 'counted;
                }
                held += count;
                repos += 1;
            }
        }
        let mut world = Self { seed, epoch: 0, first_repos: repos, repos, artifacts: held, by_slug: Arc::default() };
        world.by_slug = Arc::new(world.slugs());
        world
    }

    /// The same corpus `epochs` later: 5 % of the files changed in each, 2 % went, about 3 % came.
    pub fn at_epoch(&self, epochs: u32) -> Self {
        let founded = (f64::from(self.first_repos) * FOUNDED).ceil() as u32;
        let mut world = self.clone();
        world.epoch = self.epoch.saturating_add(epochs);
        world.repos = self.first_repos.saturating_add(founded.saturating_mul(world.epoch));
        world.by_slug = Arc::new(world.slugs());
        world.artifacts = (0..world.repos).into_par_iter().map(|repo| count_artifacts(&world.slots(repo))).sum();
        world
    }

    /// Artifacts there are now.
    pub fn artifacts(&self) -> u64 {
        self.artifacts
    }

    /// Repositories there are now; each is addressed by its position below this.
    pub fn repositories(&self) -> u32 {
        self.repos
    }

    /// `owner/name` of a repository.
    pub fn slug(&self, repo: u32) -> String {
        let (owner, name) = people::slug_of(self.seed, repo, self.first_repos);
        format!("{owner}/{name}")
    }

    /// Paths of a repository's files in order, with whether each is an artifact.
    pub fn paths(&self, repo: u32) -> Vec<(String, bool)> {
        self.slots(repo).into_iter().map(|slot| (slot.path, slot.artifact)).collect()
    }

    /// The items of a file with the types they were written as; empty for files without items and unknown positions.
    pub fn true_types(&self, repo: u32, file: u32) -> Vec<TrueItem> {
        self.slots(repo).get(file as usize).map(|slot| text::write(&slot.recipe).items).unwrap_or_default()
    }

    fn slugs(&self) -> HashMap<u64, u32> {
        let hashed: Vec<u64> = (0..self.repos).into_par_iter().map(|repo| hash_text(0, &self.slug(repo))).collect();
        hashed.into_iter().zip(0..).collect()
    }

    /// The epoch at which a repository came to be.
    fn founded(&self, repo: u32) -> u32 {
        if repo < self.first_repos {
            return 0;
        }
        let founded = ((f64::from(self.first_repos) * FOUNDED).ceil() as u32).max(1);
        1 + (repo - self.first_repos) / founded
    }

    /// The files of a repository now, sorted by path.
    fn slots(&self, repo: u32) -> Vec<Slot> {
        self.evolved(repo).files.into_iter().map(|file| file.slot).collect()
    }

    /// What became of a repository until now.
    fn evolved(&self, repo: u32) -> Evolved {
        let (_, name) = people::slug_of(self.seed, repo, self.first_repos);
        let stack = people::stack_of(self.seed, repo);
        let begin = self.founded(repo);
        let mut slots = layout::first_files(self.seed, repo, stack, &name);
        let mut born = vec![begin; slots.len()];
        for epoch in begin + 1..=self.epoch {
            if self.draw(repo, 0x6207, epoch, "") < GROWN {
                layout::later_file(self.seed, repo, epoch, stack, &name, &mut slots);
                born.resize(slots.len(), epoch);
            }
        }
        let mut now = Evolved { files: Vec::with_capacity(slots.len()), epochs: BTreeSet::new() };
        for (mut slot, born) in slots.into_iter().zip(born) {
            let mut touched = if born > 0 { vec![born] } else { Vec::new() };
            let mut gone = None;
            for epoch in born + 1..=self.epoch {
                if self.draw(repo, 0x6011E, epoch, &slot.path) < GONE {
                    gone = Some(epoch);
                    break;
                }
                if self.draw(repo, 0xC4A6, epoch, &slot.path) < CHANGED {
                    let recipe = layout::revised(&slot.recipe, epoch);
                    if recipe != slot.recipe {
                        slot.recipe = recipe;
                        touched.push(epoch);
                    }
                }
            }
            now.epochs.extend(touched.iter().copied().chain(gone));
            if gone.is_none() {
                now.files.push(Living { slot, born, touched });
            }
        }
        now.files.sort_by(|a, b| a.slot.path.cmp(&b.slot.path));
        now
    }

    fn draw(&self, repo: u32, what: u64, epoch: u32, path: &str) -> f64 {
        unit(mix(self.seed, &[what, u64::from(repo), u64::from(epoch), hash_text(0, path)]))
    }

    /// The commits of a repository with the paths each touched, oldest first.
    fn commits(&self, repo: u32) -> Vec<CommitFacts> {
        self.touches(repo).into_iter().map(|(commit, _)| commit).collect()
    }

    fn touches(&self, repo: u32) -> Vec<(CommitFacts, Vec<String>)> {
        let (owner, _) = people::slug_of(self.seed, repo, self.first_repos);
        let (count, evolved) = (people::commit_count(self.seed, repo), self.evolved(repo));
        let mut touched: Vec<Vec<&str>> = vec![Vec::new(); count as usize];
        let mut later: BTreeMap<u32, Vec<&str>> = evolved.epochs.iter().map(|epoch| (*epoch, Vec::new())).collect();
        for file in &evolved.files {
            let path = file.slot.path.as_str();
            if file.born == 0 {
                let mut dice = Dice::new(self.seed, &[0x70C4, u64::from(repo), hash_text(0, path)]);
                let first = dice.below(count as usize);
                touched[first].push(path);
                for list in touched.iter_mut().skip(first + 1) {
                    if dice.chance(0.12) {
                        list.push(path);
                    }
                }
            }
            for epoch in &file.touched {
                later.entry(*epoch).or_default().push(path);
            }
        }
        let (from, to) = self.lifetime(repo);
        let step = (to - from) / i64::from(count.max(1));
        let own = |paths: &[&str]| paths.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        let mut commits = Vec::with_capacity(touched.len() + later.len());
        for (number, paths) in touched.iter().enumerate() {
            let at = from + step * (number as i64 + 1);
            commits.push((people::commit(self.seed, repo, number as u32, at, &owner, paths), own(paths)));
        }
        for (epoch, paths) in &later {
            let at = TODAY + EPOCH * i64::from(*epoch);
            commits.push((people::commit(self.seed, repo, count + epoch, at, &owner, paths), own(paths)));
        }
        commits
    }

    /// When a repository was made and when its first commits ended.
    fn lifetime(&self, repo: u32) -> (i64, i64) {
        let mut dice = Dice::new(self.seed, &[0x71FE, u64::from(repo)]);
        let founded = self.founded(repo);
        if founded > 0 {
            let at = TODAY + EPOCH * i64::from(founded);
            return (at - EPOCH / 2, at);
        }
        let from = BEGIN + (dice.unit() * (TODAY - BEGIN) as f64 * 0.9) as i64;
        (from, from + (dice.unit() * (TODAY - from) as f64) as i64)
    }

    /// The last commit: its number and its time.
    fn tip(&self, repo: u32) -> (u32, i64) {
        let (count, (_, to)) = (people::commit_count(self.seed, repo), self.lifetime(repo));
        match self.evolved(repo).epochs.last() {
            Some(epoch) => (count + epoch, TODAY + EPOCH * i64::from(*epoch)),
            None => (count - 1, to),
        }
    }
}

/// A repository after some epochs.
struct Evolved {
    /// Sorted by path.
    files: Vec<Living>,
    /// When anything happened, also to files that are gone.
    epochs: BTreeSet<u32>,
}

/// A file that is there.
struct Living {
    slot: Slot,
    /// The epoch it came in; 0 for those there from the first.
    born: u32,
    /// When it came, if later, and when it changed.
    touched: Vec<u32>,
}

/// The first draws for the facts of a repository.
fn license_and_fork(dice: &mut Dice) -> (Option<&'static str>, bool) {
    let license = *dice.weighted(people::LICENSES);
    (license, dice.chance(0.06))
}

fn count_artifacts(slots: &[Slot]) -> u64 {
    slots.iter().filter(|slot| slot.artifact).count() as u64
}

impl World for Synthetic {
    fn len(&self) -> u32 {
        self.repos
    }

    fn facts(&self, repo: u32) -> RepoFacts {
        let mut dice = Dice::new(self.seed, &[0xFAC7, u64::from(repo)]);
        let (owner, name) = people::slug_of(self.seed, repo, self.first_repos);
        let stack = &STACKS[people::stack_of(self.seed, repo)].0;
        let (tip, pushed_at) = self.tip(repo);
        let (license, fork) = license_and_fork(&mut dice);
        RepoFacts {
            id: FIRST_ID + ID_STEP * u64::from(repo),
            description: format!("{name}, written in {}", stack.language),
            owner,
            name,
            fork,
            archived: dice.chance(0.02),
            stars: people::stars(&mut dice),
            language: dice.chance(0.93).then(|| stack.language.to_owned()),
            license: license.map(str::to_owned),
            created_at: self.lifetime(repo).0,
            pushed_at,
            default_branch: if dice.chance(0.15) { "master" } else { "main" }.to_owned(),
            head: Some(people::commit_oid(self.seed, repo, tip)),
        }
    }

    fn fork_and_owner(&self, repo: u32) -> (bool, String) {
        let (_, fork) = license_and_fork(&mut Dice::new(self.seed, &[0xFAC7, u64::from(repo)]));
        (fork, people::slug_of(self.seed, repo, self.first_repos).0)
    }

    fn find(&self, owner: &str, name: &str) -> Option<u32> {
        let wanted = format!("{owner}/{name}").to_ascii_lowercase();
        let repo = *self.by_slug.get(&hash_text(0, &wanted))?;
        (self.slug(repo) == wanted).then_some(repo)
    }

    fn find_id(&self, id: u64) -> Option<u32> {
        let past = id.checked_sub(FIRST_ID)?;
        let repo = u32::try_from(past / ID_STEP).ok()?;
        (past % ID_STEP == 0 && repo < self.repos).then_some(repo)
    }

    fn files(&self, repo: u32) -> Vec<FileEntry> {
        let slots = self.slots(repo).into_iter();
        slots.map(|slot| FileEntry { path: slot.path, mode: slot.mode, size: slot.recipe.size }).collect()
    }

    fn blob_id(&self, repo: u32, file: u32) -> Result<GitOid, WorldError> {
        self.bytes(repo, file).map(|bytes| GitOid::of_blob(&bytes))
    }

    fn bytes(&self, repo: u32, file: u32) -> Result<Vec<u8>, WorldError> {
        match self.slots(repo).get(file as usize) {
            Some(slot) => Ok(text::write(&slot.recipe).text.into_bytes()),
            None => Err(WorldError {
                repository: self.slug(repo),
                what: format!("file {file}"),
                why: "the repository has no such file".into(),
            }),
        }
    }

    fn tree(&self, repo: u32) -> Result<Arc<Tree>, WorldError> {
        let slots = self.slots(repo);
        let oids: Vec<GitOid> =
            slots.iter().map(|slot| GitOid::of_blob(text::write(&slot.recipe).text.as_bytes())).collect();
        let files: Vec<FileEntry> = slots
            .into_iter()
            .map(|slot| FileEntry { path: slot.path, mode: slot.mode, size: slot.recipe.size })
            .collect();
        Ok(Arc::new(Tree::new(&files, &oids)))
    }

    fn history(&self, repo: u32, path: Option<&str>) -> Result<Vec<CommitFacts>, WorldError> {
        let mut commits = match path {
            None | Some("") => self.commits(repo),
            Some(path) => {
                let touches = |paths: &[String]| {
                    paths
                        .iter()
                        .any(|p| p.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
                };
                let all = self.touches(repo).into_iter();
                all.filter(|(_, paths)| touches(paths)).map(|(commit, _)| commit).collect()
            }
        };
        commits.reverse();
        Ok(commits)
    }

    fn later(&self, epochs: u32) -> Option<Arc<dyn World>> {
        Some(Arc::new(self.at_epoch(epochs)))
    }
}
