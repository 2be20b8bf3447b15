//! How far annotators agree with each other.

use crate::agreement::{Table, View};
use crate::taxonomy::KnowledgeType;
use crate::train::labels::LabelRecord;
use serde::Serialize;

/// How far two annotators agree: what no classifier can be expected to beat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Items both labelled.
    pub items: usize,
    /// Share of equal labels.
    pub observed: f64,
    /// Cohen's κ over six types.
    pub kappa: f64,
    /// Cohen's κ of constraint against the rest.
    pub constraint_kappa: f64,
    /// F1 of one annotator's constraints against the other's.
    pub constraint_f1: f64,
}

/// The agreement over the items that two annotators labelled; nothing where there are none. A κ is 1 where both use one
/// and the same type only.
pub(super) fn agreement(records: &[LabelRecord]) -> Option<Agreement> {
    let pairs: Vec<_> = records.iter().filter_map(|r| Some((r.annotator_a?, r.annotator_b?))).collect();
    let table = Table::of_types(&pairs, View::Six);
    let observed = table.observed().ok()?;
    let constraint = table.by_class().into_iter().nth(View::Six.class(KnowledgeType::Constraint)?)?;
    Some(Agreement {
        items: pairs.len(),
        observed,
        kappa: table.cohen_kappa().unwrap_or(1.0),
        constraint_kappa: constraint.kappa.unwrap_or(1.0),
        constraint_f1: constraint.specific.unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use KnowledgeType::{Belief, Constraint};

    fn labelled(pairs: &[(KnowledgeType, KnowledgeType, usize)]) -> Agreement {
        let of = |&(a, b, count): &(_, _, usize)| {
            let record = LabelRecord { annotator_a: Some(a), annotator_b: Some(b), ..LabelRecord::default() };
            std::iter::repeat_n(record, count)
        };
        agreement(&pairs.iter().flat_map(of).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn kappa_is_that_of_the_textbook() {
        // Cohen's own kind of example: 20 + 15 of 50 agree where 0.5 is expected by chance.
        let both =
            [(Constraint, Constraint, 20), (Constraint, Belief, 5), (Belief, Constraint, 10), (Belief, Belief, 15)];
        let found = labelled(&both);
        assert!((found.kappa - 0.4).abs() < 1e-12);
        assert!((found.constraint_kappa - 0.4).abs() < 1e-12);
        assert_eq!((found.items, found.observed, found.constraint_f1), (50, 0.7, 40.0 / 55.0));
        assert_eq!(labelled(&[(Belief, Belief, 1)]).kappa, 1.0);
        assert_eq!(agreement(&[]), None);
    }
}
