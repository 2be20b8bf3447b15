//! What every topic calls for: the constraints that bind in it.

use super::super::base::Base;
use super::super::render::price_heading;
use super::super::topics::{Scope, TopicId};

/// A set of constraints, by their place among the pinned items.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub(super) fn empty(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn holds(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    pub(super) fn without(&self, other: &Self) -> impl Iterator<Item = usize> + use<> {
        let words: Vec<u64> = self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect();
        words
            .into_iter()
            .enumerate()
            .flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.without(&Self(vec![0; self.0.len()]))
    }
}

/// Which constraints each topic calls for.
pub(super) struct Needs {
    /// Item index of every constraint.
    pub(super) pinned: Vec<usize>,
    /// Place among the constraints, by item index.
    pub(super) place: Vec<Option<usize>>,
    /// By topic: the constraints that bind in it.
    pub(super) by_topic: Vec<Set>,
    /// By topic: units of its heading.
    pub(super) headings: Vec<usize>,
}

impl Needs {
    pub(super) fn of(base: &Base) -> Self {
        let scopes = base.scopes();
        let pinned: Vec<usize> = (0..scopes.len()).filter(|index| scopes[*index].is_some()).collect();
        let mut place = vec![None; scopes.len()];
        for (at, index) in pinned.iter().enumerate() {
            place[*index] = Some(at);
        }
        let topics = base.topics().len();
        let mut direct = vec![Set::empty(pinned.len()); topics];
        for (at, index) in pinned.iter().enumerate() {
            match &scopes[*index] {
                Some(Scope::Topics(ranges)) => {
                    for topic in ranges.iter().flat_map(|range| range.clone()) {
                        direct[topic as usize].insert(at);
                    }
                }
                _ => direct.iter_mut().for_each(|set| set.insert(at)),
            }
        }
        let headings = (0..topics).map(|topic| price_heading(base, TopicId(topic as u32))).collect();
        Self { pinned, place, by_topic: direct, headings }
    }
}
