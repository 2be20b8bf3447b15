//! Families of texts that may be near duplicates of each other, and who stands for whom in each.

use super::cluster::Document;
use super::signature::{BANDS, Profile, Signature};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Most candidates verified per document; the likeliest come first.
const CANDIDATES: usize = 32;

/// Most canonical documents kept under one key; later ones are found under their other keys only. Bounds the work on
/// families of very many texts that all contradict each other.
const BUCKET: usize = 128;

/// Up to this many documents under one key, every pair is looked at before they are taken for a family.
const PAIRWISE: usize = 32;

/// Texts of one family asked for together, at most, and the shingles that these may have.
const WINDOW: usize = 32;
const WINDOW_SHINGLES: u64 = 1 << 17;

/// Bytes of prepared texts that a thread keeps at hand.
const PREPARED: usize = 32 << 20;

/// The canonical document that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Match {
    /// Its index.
    pub(super) canonical: usize,
    /// Jaccard similarity to it.
    pub(super) similarity: f64,
}

/// Which documents joined another.
pub(super) struct Settled {
    /// Index of the document, and whom it joined.
    pub(super) joined: Vec<(usize, Match)>,
    /// Pairs that were compared exactly.
    pub(super) compared: u64,
}

/// The documents to be settled. A *rank* is a place in `order`, the order in which they are visited.
pub(super) struct Families<'a, F> {
    pub(super) documents: &'a [Document],
    pub(super) order: &'a [usize],
    pub(super) texts: &'a F,
    pub(super) threshold: f64,
}

impl<'t, F: Fn(&[usize]) -> Vec<Cow<'t, str>> + Sync> Families<'_, F> {
    /// Settle every family, on all threads of the pool.
    pub(super) fn settle(&self) -> Settled {
        let found: Vec<Settled> =
            self.families().par_iter().with_max_len(1).map(|family| self.settle_one(family)).collect();
        let compared = found.iter().map(|settled| settled.compared).sum();
        Settled { joined: found.into_iter().flat_map(|settled| settled.joined).collect(), compared }
    }

    fn signature(&self, rank: u32) -> &Signature {
        &self.documents[self.order[rank as usize]].signature
    }

    /// Ranks of each family of two or more, ascending; large families first, as they take longest.
    fn families(&self) -> Vec<Vec<u32>> {
        // 4 billion signatures would not fit in memory long before their ranks do not fit here.
        let ranks = 0..u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let mut links = Links(ranks.clone().collect());
        for band in 0..BANDS {
            let mut keys: Vec<(u64, u32)> =
                ranks.clone().into_par_iter().map(|rank| (self.signature(rank).band(band), rank)).collect();
            keys.par_sort_unstable();
            for bucket in keys.chunk_by(|a, b| a.0 == b.0).filter(|bucket| bucket.len() > 1) {
                for (place, &(_, rank)) in bucket.iter().enumerate().skip(1) {
                    let earlier = if bucket.len() > PAIRWISE { &bucket[place - 1..place] } else { &bucket[..place] };
                    for &(_, other) in earlier {
                        let related = bucket.len() > PAIRWISE
                            || links.root(other) == links.root(rank)
                            || self.signature(rank).may_reach(self.signature(other), self.threshold);
                        if related {
                            links.join(other, rank);
                        }
                    }
                }
            }
        }
        let mut by_root: Vec<(u32, u32)> = ranks.map(|rank| (links.root(rank), rank)).collect();
        by_root.par_sort_unstable();
        let mut families: Vec<Vec<u32>> = by_root
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|family| family.len() > 1)
            .map(|family| family.iter().map(|&(_, rank)| rank).collect())
            .collect();
        families.sort_by_key(|family| std::cmp::Reverse(family.len()));
        families
    }

    /// Visit the members of a family in order: each joins the most similar canonical one before it, the first in the
    /// order on a tie, or becomes canonical itself.
    fn settle_one(&self, family: &[u32]) -> Settled {
        let mut leaders = Leaders::default();
        let mut prepared = Prepared::default();
        let mut settled = Settled { joined: Vec::new(), compared: 0 };
        for window in self.windows(family) {
            let indices: Vec<usize> = window.iter().map(|&rank| self.order[rank as usize]).collect();
            for (&rank, text) in window.iter().zip((self.texts)(&indices)) {
                let candidates = self.candidates(rank, &leaders);
                // Who stands for itself may be compared with what follows.
                let own = prepared.get(rank, || Profile::of(&text));
                settled.compared += candidates.len() as u64;
                let best = self.best(&own, &candidates, &mut prepared);
                match best {
                    Some((at, similarity)) => {
                        prepared.forget(rank);
                        let canonical = self.order[at as usize];
                        settled.joined.push((self.order[rank as usize], Match { canonical, similarity }));
                    }
                    None => leaders.add(rank, self.signature(rank)),
                }
            }
        }
        settled
    }

    /// A family in pieces whose texts are asked for together.
    fn windows<'f>(&self, mut family: &'f [u32]) -> impl Iterator<Item = &'f [u32]> {
        std::iter::from_fn(move || {
            let mut shingles = 0u64;
            let fits = |rank: &&u32| {
                shingles += u64::from(self.signature(**rank).shingles);
                shingles <= WINDOW_SHINGLES
            };
            let whole = family.iter().take(WINDOW).take_while(fits).count().max(1).min(family.len());
            let (window, rest) = family.split_at(whole);
            family = rest;
            (!window.is_empty()).then_some(window)
        })
    }

    /// The canonical documents that `rank` may belong to, likeliest first.
    fn candidates(&self, rank: u32, leaders: &Leaders) -> Vec<u32> {
        let signature = self.signature(rank);
        let mut candidates: Vec<(bool, u32, u32)> = leaders
            .sharing(signature)
            .into_iter()
            .map(|other| (other, self.signature(other)))
            .filter(|(_, other)| {
                signature.may_reach(other, self.threshold) && !signature.summary.contradicts(&other.summary)
            })
            .map(|(at, other)| (signature.critical == other.critical, signature.shared_minima(other), at))
            .collect();
        candidates.sort_unstable_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(&b.2)));
        candidates.truncate(CANDIDATES);
        candidates.into_iter().map(|(_, _, at)| at).collect()
    }

    /// The most similar of `candidates`, the first in the order on a tie, if any is similar enough.
    fn best(&self, own: &Profile, candidates: &[u32], prepared: &mut Prepared) -> Option<(u32, f64)> {
        let mut best: Option<(u32, f64)> = None;
        for &other in candidates {
            let verdict = own.compare(&self.prepare(other, prepared));
            let fits = !verdict.contradicting && verdict.similarity >= self.threshold;
            let better = best.is_none_or(|(at, similarity)| {
                verdict.similarity > similarity || (verdict.similarity == similarity && other < at)
            });
            if fits && better {
                best = Some((other, verdict.similarity));
            }
        }
        best
    }

    fn prepare(&self, rank: u32, prepared: &mut Prepared) -> Rc<Profile> {
        prepared.get(rank, || {
            let texts = (self.texts)(&[self.order[rank as usize]]);
            Profile::of(texts.first().map_or("", |text| text))
        })
    }
}

/// Which ranks belong together (union-find; the smallest rank is the root).
struct Links(Vec<u32>);

impl Links {
    fn root(&mut self, mut rank: u32) -> u32 {
        while self.0[rank as usize] != rank {
            let above = self.0[self.0[rank as usize] as usize];
            self.0[rank as usize] = above;
            rank = above;
        }
        rank
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// Canonical documents of a family by their bands, and by their critical tokens: these are the likeliest to match, and
/// are found even where a band is crowded.
#[derive(Default)]
struct Leaders {
    by_band: HashMap<u64, Vec<u32>>,
    by_critical: HashMap<u64, Vec<u32>>,
}

impl Leaders {
    fn add(&mut self, rank: u32, signature: &Signature) {
        let put = |bucket: &mut Vec<u32>| {
            if bucket.len() < BUCKET {
                bucket.push(rank);
            }
        };
        (0..BANDS).for_each(|band| put(self.by_band.entry(signature.band(band)).or_default()));
        put(self.by_critical.entry(signature.critical).or_default());
    }

    /// Ranks that share a key with `signature`, each once, ascending.
    fn sharing(&self, signature: &Signature) -> Vec<u32> {
        let mut found: Vec<u32> = (0..BANDS)
            .filter_map(|band| self.by_band.get(&signature.band(band)))
            .chain(self.by_critical.get(&signature.critical))
            .flatten()
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Profiles at hand, the oldest dropped first.
#[derive(Default)]
struct Prepared {
    kept: HashMap<u32, Rc<Profile>>,
    age: VecDeque<u32>,
    bytes: usize,
}

impl Prepared {
    fn get(&mut self, rank: u32, make: impl FnOnce() -> Profile) -> Rc<Profile> {
        if let Some(profile) = self.kept.get(&rank) {
            return Rc::clone(profile);
        }
        let profile = Rc::new(make());
        self.bytes += profile.bytes();
        self.kept.insert(rank, Rc::clone(&profile));
        self.age.push_back(rank);
        while self.bytes > PREPARED
            && let Some(oldest) = self.age.pop_front()
        {
            self.forget(oldest);
        }
        profile
    }

    fn forget(&mut self, rank: u32) {
        if let Some(profile) = self.kept.remove(&rank) {
            self.bytes -= profile.bytes();
        }
    }
}
