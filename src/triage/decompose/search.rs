//! A better placement than greedy ones find: simulated annealing (Kirkpatrick, Gelatt & Vecchi, 1983) over moves of one
//! group to another partition and exchanges of two. The same groups give the same placement.

use super::super::base::Base;
use super::groups::Group;
use super::needs::Needs;
use super::pack::Placed;
use crate::classify::metrics::SplitMix;

/// Moves tried for each group, and the most in all.
const MOVES: usize = 400;
const MOST: usize = 40_000;

/// What evens weights out in favour of full partitions beside empty ones: a partition that empties is copies saved.
const FILL: f64 = 0.1;

struct Search<'s> {
    needs: &'s Needs,
    groups: &'s [Group],
    open: Vec<Placed>,
    /// By group: where it is.
    at: Vec<usize>,
    fits: &'s dyn Fn(usize) -> bool,
    /// Units that a partition may take, for weighing how full one is.
    room: f64,
}

impl Search<'_> {
    /// What partitions weigh, and what they weigh with how full they are.
    fn weights(&self, partitions: &[usize]) -> [f64; 2] {
        let weight: f64 = partitions.iter().map(|at| self.open[*at].weight()).sum();
        let full = |placed: &Placed| if placed.groups.is_empty() { 0.0 } else { (placed.units() as f64).powi(2) };
        let fill: f64 = partitions.iter().map(|at| full(&self.open[*at])).sum();
        [weight, weight - FILL * fill / self.room]
    }

    fn shift(&mut self, number: usize, to: usize) {
        let from = std::mem::replace(&mut self.at[number], to);
        self.open[from].give(self.needs, number, &self.groups[number]);
        self.open[to].take(self.needs, number, &self.groups[number]);
    }

    /// Shift groups, and shift them back when that breaks the budget or makes more than `threshold` worse. Returns how the
    /// weight changed.
    fn attempt(&mut self, shifts: &[(usize, usize)], threshold: f64) -> f64 {
        let mut touched: Vec<usize> = shifts.iter().flat_map(|(number, to)| [self.at[*number], *to]).collect();
        touched.sort_unstable();
        touched.dedup();
        let [weight, guided] = self.weights(&touched);
        let origins: Vec<(usize, usize)> = shifts.iter().map(|(number, _)| (*number, self.at[*number])).collect();
        for (number, to) in shifts {
            self.shift(*number, *to);
        }
        let [after, guided_after] = self.weights(&touched);
        let fits = touched.iter().all(|at| (self.fits)(self.open[*at].units()));
        if fits && guided_after - guided <= threshold {
            return after - weight;
        }
        for (number, from) in origins {
            self.shift(number, from);
        }
        0.0
    }
}

/// Move groups about until copies are few. The result never weighs more than `open`.
pub(super) fn improve(base: &Base, needs: &Needs, groups: &[Group], open: Vec<Placed>, budget: usize) -> Vec<Placed> {
    let tokenizer = base.tokenizer();
    let fits = |units: usize| tokenizer.tokens(units) <= budget;
    let mut at = vec![0; groups.len()];
    for (place, placed) in open.iter().enumerate() {
        placed.groups.iter().for_each(|number| at[*number] = place);
    }
    let total: usize = open.iter().map(Placed::units).sum();
    let room = open.iter().map(Placed::units).max().unwrap_or(1).max(1) as f64;
    let mut search = Search { needs, groups, open, at, fits: &fits, room };
    // One that is empty, to move into.
    search.open.push(Placed::empty(base, needs));
    let steps = MOST.min(MOVES * groups.len());
    let mut weight: f64 = search.open.iter().map(Placed::weight).sum();
    let (mut best, mut lightest) = (search.at.clone(), weight);
    let mut draws = SplitMix(groups.len() as u64);
    let hot = (0.5 * total as f64 / groups.len().max(1) as f64).max(1.0);
    for step in 0..steps {
        let cooled = 1.0 - step as f64 / steps as f64;
        let heat = hot * cooled * cooled + 0.01;
        // −ln of a uniform draw: what a worsening may be, as by Metropolis.
        let draw = ((draws.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let threshold = -draw.ln() * heat;
        let one = draws.below(groups.len());
        let other = draws.below(groups.len());
        let shifts = if step % 4 == 3 {
            vec![(one, search.at[other]), (other, search.at[one])]
        } else {
            vec![(one, draws.below(search.open.len()))]
        };
        if shifts.iter().any(|(number, to)| search.at[*number] == *to) {
            continue;
        }
        weight += search.attempt(&shifts, threshold);
        if weight < lightest - 1e-9 {
            lightest = weight;
            best.clone_from(&search.at);
        }
    }
    for (number, to) in best.into_iter().enumerate() {
        if search.at[number] != to {
            search.shift(number, to);
        }
    }
    search.open
}
