//! TypeDecompose (the paper's Algorithm 2): partitions by topic, each with every constraint that binds in it.

mod groups;
mod needs;
mod pack;
mod search;

use super::base::Base;
use super::render::{Form, price_alone};
use super::tokens::Budget;
use super::topics::{Scope, TopicId};
use super::verify::Guard;
use groups::groups;
use needs::Needs;
use pack::{Placed, orders, pack, print};
use search::improve;
use serde::Serialize;

/// Topics with more items than this are split by what their items are about.
pub const SPLIT_ABOVE: usize = 200;

/// Into how many pieces the room of a partition is cut for topics that are too large for it: small pieces fill
/// partitions better, large ones keep a topic's own rules together.
const GRAINS: [usize; 4] = [1, 2, 4, 8];

/// Above so many groups only the two plainest orders are tried.
const SEARCHED: usize = 300;

/// One part of a base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    /// Indices of the items that were placed here, ascending. Every item is placed in exactly one partition.
    pub items: Vec<usize>,
    /// Indices of items that were copied here: constraints that bind here, and heads of tables and entries that an item
    /// cannot be printed without.
    pub copies: Vec<usize>,
    /// Its text: Markdown, in document order.
    pub text: String,
    /// Tokens of the text; never more than the budget.
    pub tokens: usize,
}

/// A base in parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decomposition {
    /// The parts, by their first item.
    pub partitions: Vec<Partition>,
    /// Tokens of the base.
    pub tokens_in: usize,
    /// Tokens of copies ÷ tokens of the base.
    pub overhead: f64,
}

/// Why a base cannot be decomposed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TooNarrow {
    /// The budget in tokens.
    pub budget: usize,
    /// What the largest item needs together with its constraints: from here on nothing is refused.
    pub needed: usize,
    /// 1-based line of that item.
    pub line: u32,
    /// The constraints that bind where it stands.
    pub constraints: Vec<Guard>,
}

/// How far a set of partitions keeps constraints where they bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Locality {
    /// How many partitions there are.
    pub partitions: usize,
    /// How many of them hold an item without a constraint that binds there.
    pub violating: usize,
    /// Pairs of a partition and a constraint missing from it.
    pub missing: usize,
}

/// Split `base` into partitions of at most `budget` tokens each.
///
/// Every item is placed in one partition; every constraint is in each partition where an item of a topic in its scope is
/// placed. An item that does not fit together with its constraints makes the whole refuse.
///
/// ```
/// use aac::taxonomy::KnowledgeType::{Belief, Constraint};
/// use aac::triage::{Base, Budget, Judgement, Tokenizer, decompose};
///
/// let text = "# Rules\n\n- Never push.\n\n# Web\n\n- React renders the pages.\n\n# Data\n\n- Postgres holds them.\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |item| {
///     Judgement::certain(if item.text.starts_with("Never") { Constraint } else { Belief })
/// });
/// let parts = decompose(&base, Budget::Tokens(16)).unwrap();
/// assert_eq!(parts.partitions.len(), 2);
/// assert!(parts.partitions.iter().all(|p| p.text.contains("Never push.") && p.tokens <= 16));
/// ```
pub fn decompose(base: &Base, budget: Budget) -> Result<Decomposition, Box<TooNarrow>> {
    let budget = budget.of(base.tokens());
    let needs = Needs::of(base);
    let mut best: Option<(usize, Vec<Partition>)> = None;
    // What a base costs in copies depends on how it is cut and in which order the pieces are placed; for the bases of
    // agent files several ways are tried, and the one that copies least is taken.
    for grain in GRAINS {
        let groups = groups(base, &needs, budget, grain)?;
        let many = groups.len() > SEARCHED;
        let packed = orders(&needs, &groups, many).into_iter().map(|order| pack(base, &needs, &groups, &order, budget));
        let weight = |open: &Vec<Placed>| open.iter().map(Placed::weight).sum::<f64>();
        let Some(mut open) = packed.min_by(|a, b| weight(a).total_cmp(&weight(b))) else { break };
        // One partition is never heavier than two.
        if !many && open.len() > 1 {
            open = improve(base, &needs, &groups, open, budget);
        }
        let partitions = print(base, &needs, &groups, open, budget);
        let copied = partitions.iter().flat_map(|p| &p.copies).map(|index| price_alone(base, *index, Form::Full)).sum();
        if best.as_ref().is_none_or(|(fewest, _)| copied < *fewest) {
            best = Some((copied, partitions));
        }
        // Nothing copies less than nothing.
        if many || best.as_ref().is_some_and(|(copied, _)| *copied == 0) {
            break;
        }
    }
    let (copied, mut partitions) = best.unwrap_or_default();
    partitions.sort_by_key(|partition| partition.items.first().copied());
    let overhead = base.tokenizer().tokens(copied) as f64 / base.tokens().max(1) as f64;
    Ok(Decomposition { partitions, tokens_in: base.tokens(), overhead })
}

/// Count where partitions break the rule that a constraint stands wherever it binds: by each partition the indices of the
/// items that were placed in it, and those of the items that were copied there.
///
/// A partition calls for what binds in the topics of its own items. A copy stands for the topics that it was copied for,
/// so a constraint that binds in its own topic alone is copied nowhere, as in the paper.
pub fn locality<'a>(base: &Base, partitions: impl IntoIterator<Item = (&'a [usize], &'a [usize])>) -> Locality {
    let scopes = base.scopes();
    let items = base.items();
    let mut locality = Locality { partitions: 0, violating: 0, missing: 0 };
    for (placed, copies) in partitions {
        let held: std::collections::HashSet<&str> =
            placed.iter().chain(copies).map(|i| base.text_of(&items[*i])).collect();
        let mut topics: Vec<TopicId> = placed.iter().map(|i| items[*i].topic).collect();
        topics.sort_unstable();
        topics.dedup();
        let binds = |scope: &Scope| topics.iter().any(|topic| scope.covers(*topic));
        let missing = scopes
            .iter()
            .enumerate()
            .filter(|(index, scope)| scope.as_ref().is_some_and(binds) && !held.contains(base.text_of(&items[*index])))
            .count();
        locality.partitions += 1;
        locality.missing += missing;
        locality.violating += usize::from(missing > 0);
    }
    locality
}

impl Decomposition {
    /// Where this decomposition breaks the rule: nowhere, and this is how to see it.
    pub fn locality(&self, base: &Base) -> Locality {
        locality(base, self.partitions.iter().map(|part| (&part.items[..], &part.copies[..])))
    }
}

#[cfg(test)]
mod tests;
