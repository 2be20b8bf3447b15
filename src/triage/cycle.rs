//! The three operators as one cycle: compact; where that would lose a constraint, decompose, keep the part that is
//! needed now and retrieve the rest on demand.

use super::base::Base;
use super::compact::{Outcome, compact};
use super::decompose::{Decomposition, TooNarrow, decompose};
use super::index::Index;
use super::retrieve::{Query, Retrieved, retrieve};
use super::tokens::Budget;

/// What came of a cycle.
#[derive(Debug, Clone)]
pub enum Cycle {
    /// The base fits after compaction: [`Outcome::safe`] holds the text.
    Compacted,
    /// The base was split; one part is loaded, everything can be retrieved.
    Split(Box<SplitBase>),
    /// Not even one item fits together with the constraints that bind where it stands.
    Refused(Box<TooNarrow>),
}

/// A base in parts, with an index over all of it.
#[derive(Debug, Clone)]
pub struct SplitBase {
    /// The parts.
    pub parts: Decomposition,
    /// Which part to load: the one that the query is about, else the first.
    pub active: usize,
    /// All items, for retrieval.
    pub index: Index,
}

impl SplitBase {
    /// The text of the part to load.
    pub fn text(&self) -> &str {
        self.parts.partitions.get(self.active).map_or("", |part| &part.text)
    }

    /// Pull entries back that the loaded part lacks.
    pub fn retrieve(&self, query: &Query<'_>) -> Retrieved<'_> {
        retrieve(&self.index, query)
    }
}

/// Run a cycle on `base`: `budget` is the size of the context.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Constraint;
/// use aac::triage::{Base, Budget, Cycle, Judgement, Tokenizer, triage};
///
/// let text = "# Web\n\n- Never inline styles anywhere.\n\n# Data\n\n- Never drop any table.\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |_| Judgement::certain(Constraint));
/// let (outcome, cycle) = triage(&base, Budget::Tokens(12), Some("which table may I drop"));
/// assert!(outcome.safe().is_none());
/// let Cycle::Split(split) = cycle else { panic!() };
/// assert_eq!(split.text(), "# Data\n\n- Never drop any table.\n");
/// ```
pub fn triage(base: &Base, budget: Budget, query: Option<&str>) -> (Outcome, Cycle) {
    let outcome = compact(base, budget);
    if outcome.safe().is_some() {
        return (outcome, Cycle::Compacted);
    }
    let cycle = match decompose(base, budget) {
        Err(refusal) => Cycle::Refused(refusal),
        Ok(parts) => {
            let mut index = Index::default();
            index.replace(base.path(), base);
            let scores = query.map(|query| index.scores(query)).unwrap_or_default();
            let about = |items: &[usize]| items.iter().filter_map(|item| scores.get(*item)).sum::<f32>();
            let mut active = 0;
            for (at, part) in parts.partitions.iter().enumerate() {
                if about(&part.items) > about(&parts.partitions[active].items) {
                    active = at;
                }
            }
            Cycle::Split(Box::new(SplitBase { parts, active, index }))
        }
    };
    (outcome, cycle)
}
