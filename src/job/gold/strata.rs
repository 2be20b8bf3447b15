//! Which items a sample takes: arithmetic alone, so that the same seed over the same corpus gives the same items,
//! whatever the order in which texts arrived.
//!
//! Repositories are drawn from strata of star band × language band, each in proportion to its size and at least one.
//! A drawn repository gives items from as many of its texts as it can, one text after the other in a shuffled order, so
//! every text counts alike however long it is. A cluster of near-duplicates is used once: by one text of one repository.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Languages with a band of their own; the others share one.
const LANGUAGES: usize = 8;

/// Repositories by their stars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StarBand {
    /// Nobody knows.
    #[serde(rename = "unknown")]
    Unknown,
    /// 0 to 9.
    #[serde(rename = "0-9")]
    Few,
    /// 10 to 99.
    #[serde(rename = "10-99")]
    Some,
    /// 100 to 999.
    #[serde(rename = "100-999")]
    Many,
    /// 1,000 and more.
    #[serde(rename = "1000+")]
    Most,
}

impl StarBand {
    /// The band of a number of stars.
    pub fn of(stars: Option<i64>) -> Self {
        match stars {
            None => Self::Unknown,
            Some(n) if n < 10 => Self::Few,
            Some(n) if n < 100 => Self::Some,
            Some(n) if n < 1_000 => Self::Many,
            Some(_) => Self::Most,
        }
    }

    /// How it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Few => "0-9",
            Self::Some => "10-99",
            Self::Many => "100-999",
            Self::Most => "1000+",
        }
    }
}

/// A text to draw from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its path in the repository.
    pub path: String,
    /// Names its cluster of near-duplicates.
    pub cluster: Vec<u8>,
    /// Items in it.
    pub items: usize,
}

/// A repository to draw from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    /// Lower-case `owner/name`.
    pub key: String,
    /// Stars, where known.
    pub stars: Option<i64>,
    /// Language, where known.
    pub language: Option<String>,
    /// Its texts.
    pub documents: Vec<Document>,
}

/// How much to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Items wanted.
    pub items: usize,
    /// Repositories wanted.
    pub repos: usize,
    /// Decides every draw.
    pub seed: u64,
}

/// A drawn item, by positions in what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pick {
    /// Index of the repository.
    pub repo: usize,
    /// Index of the text in it.
    pub document: usize,
    /// Index of the item in it.
    pub item: usize,
}

/// What a stratum had and got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stratum {
    /// Stars of its repositories.
    pub stars: StarBand,
    /// Language of its repositories, `other` or `unknown`.
    pub language: String,
    /// Repositories with items.
    pub repos: usize,
    /// Their texts.
    pub texts: usize,
    /// Repositories that gave items.
    pub drawn_repos: usize,
    /// Items drawn.
    pub drawn_items: usize,
}

impl Stratum {
    /// Stars and language in one word.
    pub fn name(&self) -> String {
        format!("{} {}", self.stars.as_str(), self.language)
    }
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// The items, in no meaningful order, with the index of their stratum.
    pub picks: Vec<(Pick, usize)>,
    /// Every stratum, those that got nothing too.
    pub strata: Vec<Stratum>,
}

/// A place in a shuffled order that depends on nothing but the seed and the names.
fn rank(seed: u64, what: &str, parts: &[&[u8]]) -> u64 {
    let mut bytes = what.as_bytes().to_vec();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    xxh3_64_with_seed(&bytes, seed)
}

/// Draw a sample of `repos`.
pub fn draw(repos: &[Repo], wanted: Draw) -> Drawn {
    let seed = wanted.seed;
    let (mut strata, members) = stratify(repos, seed);
    let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
    let shares = allocate(&sizes, wanted.repos);
    let goal = wanted.repos.min(sizes.iter().sum());
    let each = wanted.items.div_ceil(goal.max(1));
    let mut pool = Pool { repos, seed, used: HashSet::new(), drawn: Vec::new() };
    // A repository all of whose texts are copies of what was drawn gives its place to the next of its stratum.
    let mut waiting: Vec<std::vec::IntoIter<usize>> = members.into_iter().map(Vec::into_iter).collect();
    for (stratum, share) in shares.iter().enumerate() {
        let mut got = 0;
        while got < *share {
            let Some(repo) = waiting[stratum].next() else { break };
            got += usize::from(pool.take(repo, stratum, each.min(wanted.items - pool.items().min(wanted.items))));
        }
    }
    // What a stratum could not fill goes to the others, the largest remainder first.
    let mut rest: Vec<(usize, usize)> =
        waiting.iter().map(|left| left.len()).enumerate().filter(|(_, left)| *left > 0).map(|(s, n)| (n, s)).collect();
    rest.sort_by_key(|(left, stratum)| (std::cmp::Reverse(*left), *stratum));
    'more: for (_, stratum) in rest {
        while pool.drawn.len() < goal && pool.items() < wanted.items {
            let Some(repo) = waiting[stratum].next() else { continue 'more };
            pool.take(repo, stratum, each.min(wanted.items - pool.items()));
        }
    }
    pool.fill(wanted.items);
    let mut picks = Vec::new();
    for taken in &pool.drawn {
        strata[taken.stratum].drawn_repos += 1;
        strata[taken.stratum].drawn_items += taken.picks.len();
        picks.extend(taken.picks.iter().map(|pick| (*pick, taken.stratum)));
    }
    Drawn { picks, strata }
}

/// The strata with their repositories in shuffled order.
fn stratify(repos: &[Repo], seed: u64) -> (Vec<Stratum>, Vec<Vec<usize>>) {
    let usable = || repos.iter().enumerate().filter(|(_, repo)| repo.documents.iter().any(|d| d.items > 0));
    let mut languages: HashMap<&str, usize> = HashMap::new();
    for language in usable().filter_map(|(_, repo)| repo.language.as_deref()) {
        *languages.entry(language).or_default() += 1;
    }
    let mut languages: Vec<(&str, usize)> = languages.into_iter().collect();
    languages.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let bands: HashSet<&str> = languages.into_iter().take(LANGUAGES).map(|(name, _)| name).collect();
    let band = |repo: &Repo| match repo.language.as_deref() {
        None => "unknown".to_owned(),
        Some(name) if bands.contains(name) => name.to_owned(),
        Some(_) => "other".to_owned(),
    };
    let mut by_stratum: BTreeMap<(StarBand, String), Vec<usize>> = BTreeMap::new();
    for (index, repo) in usable() {
        by_stratum.entry((StarBand::of(repo.stars), band(repo))).or_default().push(index);
    }
    let mut strata = Vec::with_capacity(by_stratum.len());
    let mut members = Vec::with_capacity(by_stratum.len());
    for ((stars, language), mut within) in by_stratum {
        within.sort_by_key(|index| {
            let key = &repos[*index].key;
            (rank(seed, "repo", &[key.as_bytes()]), key.clone())
        });
        let texts = within.iter().map(|index| repos[*index].documents.iter().filter(|d| d.items > 0).count()).sum();
        strata.push(Stratum { stars, language, repos: within.len(), texts, drawn_repos: 0, drawn_items: 0 });
        members.push(within);
    }
    (strata, members)
}

/// `wanted` places over strata of these sizes: one each while there are enough, the others by largest remainder, never
/// more than a stratum has.
fn allocate(sizes: &[usize], wanted: usize) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let wanted = wanted.min(total);
    if wanted < sizes.len() {
        // Too few for all: the largest strata, in their order.
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|stratum| (std::cmp::Reverse(sizes[*stratum]), *stratum));
        let mut shares = vec![0; sizes.len()];
        order.iter().take(wanted).for_each(|stratum| shares[*stratum] = 1);
        return shares;
    }
    let exact = |stratum: usize| sizes[stratum] as f64 * wanted as f64 / total.max(1) as f64;
    let mut shares: Vec<usize> =
        (0..sizes.len()).map(|s| (exact(s).floor() as usize).clamp(1, sizes[s].max(1))).collect();
    loop {
        let given: usize = shares.iter().sum();
        let gap = |s: usize| exact(s) - shares[s] as f64;
        let next = if given < wanted {
            (0..sizes.len())
                .filter(|s| shares[*s] < sizes[*s])
                .max_by(|a, b| gap(*a).total_cmp(&gap(*b)).then(b.cmp(a)))
        } else if given > wanted {
            (0..sizes.len()).filter(|s| shares[*s] > 1).min_by(|a, b| gap(*a).total_cmp(&gap(*b)).then(b.cmp(a)))
        } else {
            None
        };
        match next {
            Some(s) if given < wanted => shares[s] += 1,
            Some(s) => shares[s] -= 1,
            None => return shares,
        }
    }
}

struct Taken {
    repo: usize,
    stratum: usize,
    picks: Vec<Pick>,
    /// Texts that this repository uses with the items left in them, in shuffled order.
    texts: Vec<(usize, std::vec::IntoIter<usize>)>,
}

struct Pool<'a> {
    repos: &'a [Repo],
    seed: u64,
    used: HashSet<&'a [u8]>,
    drawn: Vec<Taken>,
}

impl<'a> Pool<'a> {
    fn items(&self) -> usize {
        self.drawn.iter().map(|taken| taken.picks.len()).sum()
    }

    /// Draw up to `items` items of a repository. False when it has nothing that is not drawn already.
    fn take(&mut self, repo: usize, stratum: usize, items: usize) -> bool {
        let mut taken = Taken { repo, stratum, picks: Vec::new(), texts: Vec::new() };
        while taken.picks.len() < items && self.another_text(&mut taken) {}
        while taken.picks.len() < items && another_item(&mut taken) {}
        let any = !taken.picks.is_empty();
        if any {
            self.drawn.push(taken);
        }
        any
    }

    /// An item of a text that nothing was drawn from yet.
    fn another_text(&mut self, taken: &mut Taken) -> bool {
        let repos: &'a [Repo] = self.repos;
        let repo = &repos[taken.repo];
        let free =
            repo.documents.iter().enumerate().filter(|(_, d)| d.items > 0 && !self.used.contains(&d.cluster[..]));
        let first = free.min_by_key(|(_, document)| {
            (rank(self.seed, "text", &[repo.key.as_bytes(), document.path.as_bytes()]), &document.path)
        });
        let Some((index, document)) = first else { return false };
        self.used.insert(&document.cluster);
        let mut order: Vec<usize> = (0..document.items).collect();
        let place = |item: &usize| {
            rank(self.seed, "item", &[repo.key.as_bytes(), document.path.as_bytes(), &item.to_le_bytes()])
        };
        order.sort_by_key(|item| (place(item), *item));
        taken.texts.push((index, order.into_iter()));
        let at = taken.texts.len() - 1;
        next_item(taken, at)
    }

    /// Further items, one a repository and round, until there are `wanted` or nothing is left.
    fn fill(&mut self, wanted: usize) {
        let mut drawn = std::mem::take(&mut self.drawn);
        let mut count: usize = drawn.iter().map(|taken| taken.picks.len()).sum();
        let mut going = true;
        while going && count < wanted {
            going = false;
            for taken in &mut drawn {
                if count < wanted && (self.another_text(taken) || another_item(taken)) {
                    count += 1;
                    going = true;
                }
            }
        }
        self.drawn = drawn;
    }
}

/// The next item of the text at `at`.
fn next_item(taken: &mut Taken, at: usize) -> bool {
    let (document, left) = &mut taken.texts[at];
    let Some(item) = left.next() else { return false };
    taken.picks.push(Pick { repo: taken.repo, document: *document, item });
    true
}

/// A further item of the texts in use, of the one with the fewest drawn.
fn another_item(taken: &mut Taken) -> bool {
    let drawn = |document: usize| taken.picks.iter().filter(|pick| pick.document == document).count();
    let open = taken.texts.iter().enumerate().filter(|(_, (_, left))| left.len() > 0);
    let Some((at, _)) = open.min_by_key(|(at, (document, _))| (drawn(*document), *at)) else { return false };
    next_item(taken, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repo(key: &str, stars: Option<i64>, language: Option<&str>, documents: &[(&str, &str, usize)]) -> Repo {
        let document = |(path, cluster, items): &(&str, &str, usize)| Document {
            path: (*path).to_owned(),
            cluster: cluster.as_bytes().to_vec(),
            items: *items,
        };
        Repo {
            key: key.to_owned(),
            stars,
            language: language.map(str::to_owned),
            documents: documents.iter().map(document).collect(),
        }
    }

    /// Stars, language and documents (cluster, items) of a repository that proptest draws.
    type Found = (Option<i64>, Option<u8>, Vec<(u8, usize)>);

    fn arbitrary() -> impl Strategy<Value = Vec<Repo>> {
        let document = (0..30u8, 0..12usize);
        let one = (prop::option::of(0..5_000i64), prop::option::of(0..12u8), prop::collection::vec(document, 0..6));
        prop::collection::vec(one, 0..40).prop_map(|repos| {
            let make = |(index, (stars, language, documents)): (usize, Found)| {
                let documents = documents.into_iter().enumerate().map(|(n, (cluster, items))| Document {
                    path: format!("{n}.md"),
                    cluster: vec![cluster],
                    items,
                });
                Repo {
                    key: format!("o/{index}"),
                    stars,
                    language: language.map(|l| format!("L{l}")),
                    documents: documents.collect(),
                }
            };
            repos.into_iter().enumerate().map(make).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn every_cluster_once_every_item_once_and_the_same_again(
            repos in arbitrary(), items in 0..120usize, wanted in 1..30usize, seed in 0..5u64,
        ) {
            let plan = Draw { items, repos: wanted, seed };
            let drawn = draw(&repos, plan);
            let mut texts: HashMap<&[u8], (usize, usize)> = HashMap::new();
            let mut seen = HashSet::new();
            for (pick, stratum) in &drawn.picks {
                prop_assert!(seen.insert(*pick), "an item twice");
                let document = &repos[pick.repo].documents[pick.document];
                prop_assert!(pick.item < document.items);
                let text = (pick.repo, pick.document);
                prop_assert_eq!(*texts.entry(&document.cluster).or_insert(text), text, "a cluster twice");
                prop_assert_eq!(drawn.strata[*stratum].stars, StarBand::of(repos[pick.repo].stars));
            }
            prop_assert!(drawn.picks.len() <= items);
            let repositories: HashSet<usize> = drawn.picks.iter().map(|(pick, _)| pick.repo).collect();
            prop_assert!(repositories.len() <= wanted);
            let got: usize = drawn.strata.iter().map(|s| s.drawn_items).sum();
            prop_assert_eq!(got, drawn.picks.len());
            // The order of arrival says nothing.
            let mut turned = repos.clone();
            turned.reverse();
            let key = |repos: &[Repo], drawn: &Drawn| {
                let mut keys: Vec<(String, usize, usize)> =
                    drawn.picks.iter().map(|(p, _)| (repos[p.repo].key.clone(), p.document, p.item)).collect();
                keys.sort();
                keys
            };
            prop_assert_eq!(key(&repos, &drawn), key(&turned, &draw(&turned, plan)));
        }
    }

    #[test]
    fn strata_get_their_share_and_unknown_stars_are_one_of_their_own() {
        let mut repos = Vec::new();
        for n in 0..60 {
            let stars = match n % 6 {
                0 => None,
                1 => Some(5_000),
                _ => Some(3),
            };
            let name = format!("o/{n:02}");
            let text = format!("text {n}");
            repos.push(repo(&name, stars, Some("Rust"), &[("a.md", &text, 40)]));
        }
        let drawn = draw(&repos, Draw { items: 120, repos: 12, seed: 1 });
        let got: Vec<(StarBand, usize, usize, usize)> =
            drawn.strata.iter().map(|s| (s.stars, s.repos, s.drawn_repos, s.drawn_items)).collect();
        assert_eq!(got, [(StarBand::Unknown, 10, 2, 20), (StarBand::Few, 40, 8, 80), (StarBand::Most, 10, 2, 20)]);
        let other = draw(&repos, Draw { items: 120, repos: 12, seed: 2 });
        assert_ne!(drawn.picks, other.picks);
    }

    #[test]
    fn a_repository_of_copies_gives_its_place_to_another() {
        let repos = [
            repo("o/a", None, None, &[("x.md", "one", 5)]),
            repo("o/b", None, None, &[("y.md", "one", 5)]),
            repo("o/c", None, None, &[("z.md", "two", 5)]),
        ];
        let drawn = draw(&repos, Draw { items: 4, repos: 2, seed: 3 });
        assert_eq!(drawn.picks.len(), 4);
        assert!(drawn.picks.iter().any(|(pick, _)| pick.repo == 2), "{drawn:?}");
    }

    #[test]
    fn items_come_from_as_many_texts_as_there_are() {
        let repos = [repo("o/a", None, None, &[("1", "1", 9), ("2", "2", 9), ("3", "3", 9)])];
        let drawn = draw(&repos, Draw { items: 6, repos: 1, seed: 7 });
        let mut each = [0; 3];
        drawn.picks.iter().for_each(|(pick, _)| each[pick.document] += 1);
        assert_eq!(each, [2, 2, 2]);
    }
}
