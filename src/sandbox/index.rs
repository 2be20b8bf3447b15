//! What code search answers from: every indexed file by name and size, without its text.

use super::dice::{hash_text, mix, unit};
use super::query::{Condition, Forks, Query, folder_matches, name_matches};
use super::tree::split;
use super::world::{Mode, World};
use rayon::prelude::*;
use std::collections::HashMap;

/// Files of this size or more are not indexed.
const LARGEST: u32 = 384 * 1024;
/// Repositories that are listed at a time.
const BLOCK: usize = 2_048;
/// How far results can be paged.
pub(crate) const REACHABLE: usize = 1000;
/// Most texts one query with terms reads before it gives up and says that it is incomplete.
const TEXTS_READ: usize = 20_000;

/// A file in the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) repo: u32,
    pub(crate) file: u32,
    pub(crate) size: u32,
    name: u32,
    folder: u32,
}

/// The index of one state of a world.
#[derive(Debug)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    /// Lower case.
    names: Vec<String>,
    folders: Vec<String>,
    /// Entry positions by name, sorted by size.
    by_name: Vec<Vec<u32>>,
    /// Entry positions of a repository: entries are sorted by repository.
    by_repo: Vec<u32>,
    forks: Vec<bool>,
    owners: HashMap<String, Vec<u32>>,
}

/// What a query found.
#[derive(Debug, Clone)]
pub(crate) struct Hits {
    /// The first [`REACHABLE`] in the query's own order.
    pub(crate) page: Vec<Entry>,
    /// All that match.
    pub(crate) count: usize,
    /// Some candidates were not looked at.
    pub(crate) incomplete: bool,
}

impl Index {
    /// Index every file of `world` that code search would hold: regular, of some size, below 384 KB.
    pub(crate) fn new(world: &dyn World) -> Self {
        let mut names = Interner::default();
        let mut folders = Interner::default();
        let mut entries = Vec::new();
        let mut by_repo = vec![0];
        let mut forks = Vec::new();
        let mut owners: HashMap<String, Vec<u32>> = HashMap::new();
        // To list the files is most of the work, and each repository stands alone: in blocks on all cores.
        for block in (0..world.len()).step_by(BLOCK) {
            let listed: Vec<_> = (block..world.len().min(block.saturating_add(BLOCK as u32)))
                .into_par_iter()
                .map(|repo| (repo, world.fork_and_owner(repo), world.files(repo)))
                .collect();
            for (repo, (fork, owner), files) in listed {
                forks.push(fork);
                owners.entry(owner.to_lowercase()).or_default().push(repo);
                for (file, entry) in files.iter().enumerate() {
                    if matches!(entry.mode, Mode::Submodule) || entry.size == 0 || entry.size >= LARGEST {
                        continue;
                    }
                    let (folder, name) = split(&entry.path);
                    let (name, folder) = (names.id(name), folders.id(folder));
                    entries.push(Entry { repo, file: file as u32, size: entry.size, name, folder });
                }
                by_repo.push(entries.len() as u32);
            }
        }
        let mut by_name = vec![Vec::new(); names.list.len()];
        for (position, entry) in entries.iter().enumerate() {
            by_name[entry.name as usize].push(position as u32);
        }
        for list in &mut by_name {
            list.sort_by_key(|position| entries[*position as usize].size);
            list.shrink_to_fit();
        }
        entries.shrink_to_fit();
        Self { entries, names: names.list, folders: folders.list, by_name, by_repo, forks, owners }
    }

    /// How many files are indexed.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Positions of the repositories of an owner (lower case).
    pub(crate) fn repos_of(&self, owner: &str) -> &[u32] {
        self.owners.get(owner).map_or(&[], Vec::as_slice)
    }

    /// Run `query`; `order` seeds the order of the results.
    pub(crate) fn search(&self, world: &dyn World, query: &Query, order: u64) -> Hits {
        if query.nothing {
            return Hits { page: Vec::new(), count: 0, incomplete: false };
        }
        let (low, high) = query.size.unwrap_or((0, u64::MAX));
        let names: Vec<bool> = self.names.iter().map(|name| name_passes(name, query)).collect();
        // Folders repeat far less than files do, so each is judged once.
        let folders: Vec<bool> =
            self.folders.iter().map(|folder| query.paths.iter().all(|path| folder_matches(folder, path))).collect();
        let scope = self.scope(world, query);
        let passes = |entry: &Entry| {
            names[entry.name as usize]
                && folders[entry.folder as usize]
                && (low..=high).contains(&u64::from(entry.size))
                && self.forks[entry.repo as usize] == (query.forks == Forks::Only)
        };
        let mut found: Vec<u32> = Vec::new();
        if let Some(repos) = &scope {
            for repo in repos {
                let range = self.by_repo[*repo as usize]..self.by_repo[*repo as usize + 1];
                found.extend(range.filter(|position| passes(&self.entries[*position as usize])));
            }
        } else {
            let excluded = self.excluded(world, query);
            for (_, list) in self.by_name.iter().enumerate().filter(|(name, _)| names[*name]) {
                let from = list.partition_point(|p| u64::from(self.entries[*p as usize].size) < low);
                let rest = &list[from..];
                let to = rest.partition_point(|p| u64::from(self.entries[*p as usize].size) <= high);
                found.extend(rest[..to].iter().copied().filter(|position| {
                    let entry = &self.entries[*position as usize];
                    passes(entry) && !excluded.contains(&entry.repo)
                }));
            }
        }
        let mut incomplete = false;
        if !query.terms.is_empty() {
            found.sort_by_cached_key(|position| mix(order, &[u64::from(*position)]));
            incomplete = found.len() > TEXTS_READ;
            found.truncate(TEXTS_READ);
            found.retain(|position| self.text_passes(world, &self.entries[*position as usize], query));
        }
        let count = found.len();
        // A full sort of the largest queries would cost more than everything else here.
        let mut keyed: Vec<(u64, u32)> = found.iter().map(|p| (mix(order, &[u64::from(*p)]), *p)).collect();
        if keyed.len() > REACHABLE {
            keyed.select_nth_unstable(REACHABLE);
            keyed.truncate(REACHABLE);
        }
        keyed.sort_unstable();
        let page = keyed.into_iter().map(|(_, position)| self.entries[position as usize]).collect();
        Hits { page, count, incomplete }
    }

    /// The repositories that `repo:`, `user:` and `org:` name together, or nothing when none is given.
    fn scope(&self, world: &dyn World, query: &Query) -> Option<Vec<u32>> {
        let wanted = |conditions: &[Condition]| conditions.iter().any(|c| !c.negated);
        if !wanted(&query.repos) && !wanted(&query.owners) {
            return None;
        }
        let mut repos = self.named(world, query, false);
        let excluded = self.named(world, query, true);
        repos.retain(|repo| !excluded.contains(repo));
        repos.sort_unstable();
        repos.dedup();
        Some(repos)
    }

    fn excluded(&self, world: &dyn World, query: &Query) -> std::collections::HashSet<u32> {
        self.named(world, query, true).into_iter().collect()
    }

    fn named(&self, world: &dyn World, query: &Query, negated: bool) -> Vec<u32> {
        let repos = query.repos.iter().filter(|c| c.negated == negated);
        let owners = query.owners.iter().filter(|c| c.negated == negated);
        repos
            .filter_map(|c| c.value.split_once('/').and_then(|(owner, name)| world.find(owner, name)))
            .chain(owners.flat_map(|c| self.repos_of(&c.value).iter().copied()))
            .collect()
    }

    /// Terms are looked for in the path and in the text.
    fn text_passes(&self, world: &dyn World, entry: &Entry, query: &Query) -> bool {
        let Ok(bytes) = world.bytes(entry.repo, entry.file) else { return false };
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let name = &self.names[entry.name as usize];
        let folder = &self.folders[entry.folder as usize];
        query.terms.iter().all(|group| {
            group.iter().any(|term| {
                let found = text.contains(&term.value) || name.contains(&term.value) || folder.contains(&term.value);
                found != term.negated
            })
        })
    }
}

/// Whether a file of this name (lower case) meets the conditions on name, extension and language.
fn name_passes(name: &str, query: &Query) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let language = language_of(name, extension);
    query.filenames.iter().all(|c| name_matches(name, &c.value) != c.negated)
        && query.extensions.iter().all(|c| (extension == c.value) != c.negated)
        && query.languages.iter().all(|c| (language == Some(c.value.as_str())) != c.negated)
}

/// GitHub's name of the language of a file, lower case, for the kinds that agent files come in.
fn language_of(name: &str, extension: &str) -> Option<&'static str> {
    Some(match extension {
        "md" | "mdc" | "markdown" => "markdown",
        "json" => "json",
        "yml" | "yaml" => "yaml",
        "toml" => "toml",
        "sh" | "bash" => "shell",
        "py" => "python",
        "js" | "cjs" | "mjs" => "javascript",
        "ts" | "tsx" => "typescript",
        "rs" => "rust",
        "go" => "go",
        _ if name.ends_with("ignore") => "ignore list",
        _ => return None,
    })
}

/// A total the way GitHub gives it: off by a few per cent when large, and with few significant bits.
///
/// `noise` is the standard deviation relative to the count, `bits` how many leading bits survive, `draw` decides.
/// Totals that can be paged through wholly are left alone here.
pub(crate) fn shown_total(count: usize, noise: f64, bits: u32, draw: u64) -> u64 {
    if count <= REACHABLE {
        return count as u64;
    }
    // The sum of uniform draws is close enough to a bell and, unlike one, bounded: never more than 3.5 deviations.
    let bell = (0..12u64).map(|i| unit(mix(draw, &[i]))).sum::<f64>() - 6.0;
    let noisy = (count as f64 * (1.0 + noise * bell.clamp(-3.5, 3.5))).max(REACHABLE as f64 + 1.0) as u64;
    let drop = (u64::BITS - noisy.leading_zeros()).saturating_sub(bits);
    ((noisy >> drop) << drop).max(REACHABLE as u64 + 1)
}

/// The order seed of a query text.
pub(crate) fn order_of(seed: u64, text: &str) -> u64 {
    hash_text(seed, text)
}

#[derive(Default)]
struct Interner {
    ids: HashMap<String, u32>,
    list: Vec<String>,
}

impl Interner {
    fn id(&mut self, text: &str) -> u32 {
        let lower = text.to_lowercase();
        if let Some(id) = self.ids.get(&lower) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(lower.clone());
        self.ids.insert(lower, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_keep_few_bits_and_stay_near() {
        for draw in 0..200 {
            let total = shown_total(123_456, 0.03, 10, draw);
            assert!(total.trailing_zeros() >= 7, "{total}");
            assert!((total as f64 / 123_456.0 - 1.0).abs() < 0.12, "{total}");
            assert!(shown_total(1_001, 0.5, 10, draw) > 1000);
        }
        assert_eq!(shown_total(999, 0.5, 4, 3), 999);
    }
}
