//! What goes into an export: which repositories, whose bodies, in which order and in which split.

use super::{ExportOptions, Tier};
use crate::license;
use crate::store::{ExportKey, ExportRepo};
use crate::taxonomy::{LicenseTier, Presence};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Texts shorter than this say too little to bind two repositories together.
const BINDING: i64 = 64;
/// A group with more than this share of the artifacts is kept in `train`: a test set of one group measures nothing.
const LARGE: f64 = 0.05;

/// The part of the data that a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Split {
    Train,
    Validation,
    Test,
}

impl Split {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    /// The rule of the card: the first eight bytes of SHA-256 over `seed/group`, as a share of 2^64.
    fn of(seed: &str, group: &str) -> Self {
        let digest = Sha256::digest(format!("{seed}/{group}"));
        let head = digest.iter().take(8).fold(0u64, |n, byte| (n << 8) | u64::from(*byte));
        match head as f64 / 2f64.powi(64) {
            share if share < 0.8 => Self::Train,
            share if share < 0.9 => Self::Validation,
            _ => Self::Test,
        }
    }
}

/// A repository of the export.
#[derive(Debug, Clone)]
pub(super) struct Repo {
    pub(super) row: ExportRepo,
    /// Lower-case `owner/name`.
    pub(super) key: String,
    pub(super) tier: LicenseTier,
    pub(super) license: Option<String>,
    /// Whether its bodies may be passed on.
    pub(super) open: bool,
    pub(super) split: Split,
    /// Its artifacts, as a range of [`Selection::keys`].
    pub(super) keys: std::ops::Range<usize>,
}

impl Repo {
    pub(super) fn slug(&self) -> String {
        format!("{}/{}", self.row.owner, self.row.name)
    }
}

/// What goes into an export.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// In order.
    pub(super) repos: Vec<Repo>,
    /// Artifacts in the order of repositories, then by path.
    pub(super) keys: Vec<ExportKey>,
    /// The artifact under which the items of a blob stand: the first whose body may be passed on, else the first.
    pub(super) homes: HashMap<i64, i64>,
    /// Repositories left out, by reason.
    pub(super) left_out: BTreeMap<&'static str, u64>,
    /// Address that pages of GitHub repositories begin with; absent for a sandbox, whose repositories are nowhere else.
    pub(super) web: Option<String>,
}

impl Selection {
    /// Choose from every repository and artifact; `optouts` are lower-case `owner` or `owner/name`.
    pub(super) fn new(
        repos: Vec<ExportRepo>,
        keys: Vec<ExportKey>,
        optouts: &HashSet<String>,
        options: &ExportOptions,
    ) -> Self {
        let mut by_repo: HashMap<i64, Vec<ExportKey>> = HashMap::with_capacity(repos.len());
        for key in keys {
            by_repo.entry(key.repo).or_default().push(key);
        }
        let mut selection = Self::default();
        for row in repos {
            let Some(keys) = by_repo.remove(&row.id) else { continue };
            let key = format!("{}/{}", row.owner, row.name).to_ascii_lowercase();
            let owner = row.owner.to_ascii_lowercase();
            let own = options.own.iter().any(|own| own.eq_ignore_ascii_case(&key) || own.eq_ignore_ascii_case(&owner));
            if let Some(why) = reason(&row, own && options.tier == Tier::Own, &key, &owner, optouts) {
                *selection.left_out.entry(why).or_default() += 1;
                continue;
            }
            let verdict = license::from_api(row.license_api.as_deref());
            let judged = row.license_tier.as_deref().and_then(|tier| tier.parse().ok());
            let license = if judged.is_some() { row.license_spdx.clone() } else { verdict.expression };
            let tier = judged.unwrap_or(verdict.tier);
            let open = match options.tier {
                Tier::Permissive => tier == LicenseTier::Permissive,
                Tier::AllMetadata => false,
                Tier::Own => own,
            };
            let start = selection.keys.len();
            selection.keys.extend(keys);
            let keys = start..selection.keys.len();
            selection.repos.push(Repo { row, key, tier, license, open, split: Split::Train, keys });
        }
        selection.split(&options.seed);
        selection.find_homes();
        selection
    }

    /// Repositories that share a text, or a near-duplicate of one, are one group and go into one split.
    fn split(&mut self, seed: &str) {
        let mut parent: Vec<usize> = (0..self.repos.len()).collect();
        let mut holder: HashMap<i64, usize> = HashMap::new();
        for (index, repo) in self.repos.iter().enumerate() {
            for key in &self.keys[repo.keys.clone()] {
                if key.is_link || key.is_pointer || key.size < BINDING {
                    continue;
                }
                let other = *holder.entry(key.cluster).or_insert(index);
                let (a, b) = (root(&mut parent, index), root(&mut parent, other));
                // The first repository in order names the group, whatever the order of joins.
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut sizes = vec![0usize; self.repos.len()];
        for (index, repo) in self.repos.iter().enumerate() {
            sizes[root(&mut parent, index)] += repo.keys.len();
        }
        let large = self.keys.len() as f64 * LARGE;
        for index in 0..self.repos.len() {
            let group = root(&mut parent, index);
            // In a small corpus every group is large; there the rule would leave nothing to test on.
            let too_large = sizes[group] as f64 > large && sizes[group] > 1_000;
            let split = if too_large { Split::Train } else { Split::of(seed, &self.repos[group].key) };
            self.repos[index].split = split;
        }
    }

    fn find_homes(&mut self) {
        let mut closed = HashMap::new();
        for repo in &self.repos {
            for key in &self.keys[repo.keys.clone()] {
                if repo.open {
                    self.homes.entry(key.blob).or_insert(key.artifact);
                } else {
                    closed.entry(key.blob).or_insert(key.artifact);
                }
            }
        }
        for (blob, artifact) in closed {
            self.homes.entry(blob).or_insert(artifact);
        }
    }
}

/// Why a repository may not be in an export at all.
fn reason(row: &ExportRepo, own: bool, key: &str, owner: &str, optouts: &HashSet<String>) -> Option<&'static str> {
    if optouts.contains(key) || optouts.contains(owner) || row.presence == Presence::OptedOut.as_str() {
        Some("opted_out")
    } else if own {
        None
    } else if row.is_private == Some(true) || row.presence == Presence::Private.as_str() {
        Some("private")
    } else if row.presence == Presence::Blocked.as_str() {
        Some("blocked")
    } else {
        None
    }
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(id: i64, name: &str, license: Option<&str>) -> ExportRepo {
        ExportRepo {
            id,
            node_id: None,
            owner: "o".to_owned(),
            name: name.to_owned(),
            source: "local".to_owned(),
            is_fork: None,
            is_private: None,
            stars: None,
            language: None,
            license_api: license.map(str::to_owned),
            license_spdx: None,
            license_tier: None,
            presence: "present".to_owned(),
        }
    }

    fn key(artifact: i64, repo: i64, blob: i64, size: i64) -> ExportKey {
        let (is_link, is_pointer, is_withheld) = (false, false, false);
        ExportKey { artifact, repo, version: artifact, blob, size, is_link, is_pointer, cluster: blob, is_withheld }
    }

    fn options() -> ExportOptions {
        ExportOptions::new("out".into())
    }

    #[test]
    fn repositories_that_share_a_text_are_in_one_split() {
        let repos: Vec<_> = (0..60).map(|n| repo(n, &format!("r{n:02}"), None)).collect();
        // Each shares a text with the one ten further on, so there are ten groups.
        let of = |n| [key(n, n, n % 10, 500), key(100 + n, n, 1000, 20), key(200 + n, n, 2000 + n, 90)];
        let keys = (0..60).flat_map(of).collect();
        let selection = Selection::new(repos, keys, &HashSet::new(), &options());
        let splits: Vec<Split> = selection.repos.iter().map(|r| r.split).collect();
        assert!((0..50).all(|n| splits[n] == splits[n + 10]), "a group is split");
        assert!(HashSet::<&str>::from_iter(splits.iter().map(|s| s.as_str())).len() > 1, "everything is one group");
        assert_eq!(splits[3], Split::of("aac-1", "o/r03"));
    }

    #[test]
    fn shares_are_about_what_the_card_says() {
        let count = |split| (0..20_000).filter(|n| Split::of("aac-1", &format!("g{n}")) == split).count();
        assert!((15_700..16_300).contains(&count(Split::Train)));
        assert!((1_850..2_150).contains(&count(Split::Validation)));
    }

    #[test]
    fn optouts_and_private_repositories_are_left_out_and_licences_decide_on_bodies() {
        let mut hidden = repo(4, "hidden", Some("MIT"));
        hidden.is_private = Some(true);
        let repos =
            vec![repo(1, "a", Some("GPL-3.0")), repo(2, "b", Some("MIT")), repo(3, "gone", Some("MIT")), hidden];
        let keys = vec![key(1, 1, 7, 100), key(2, 2, 7, 100), key(3, 3, 8, 100), key(4, 4, 9, 100)];
        let optouts = HashSet::from(["o/gone".to_owned()]);
        let chosen = Selection::new(repos.clone(), keys.clone(), &optouts, &options());
        assert_eq!(
            chosen.repos.iter().map(|r| (r.key.as_str(), r.open)).collect::<Vec<_>>(),
            [("o/a", false), ("o/b", true)]
        );
        assert_eq!(chosen.left_out, BTreeMap::from([("opted_out", 1), ("private", 1)]));
        assert_eq!(chosen.homes[&7], 2, "items stand where their text may be shown");
        let own = ExportOptions { tier: Tier::Own, own: vec!["O/Hidden".to_owned(), "o/gone".to_owned()], ..options() };
        let chosen = Selection::new(repos.clone(), keys.clone(), &optouts, &own);
        assert_eq!(chosen.repos.iter().map(|r| r.open).collect::<Vec<_>>(), [false, false, true]);
        let metadata = ExportOptions { tier: Tier::AllMetadata, ..options() };
        assert!(Selection::new(repos, keys, &HashSet::new(), &metadata).repos.iter().all(|r| !r.open));
    }
}
