//! How far annotators agree with each other.

use crate::classify::TYPES;
use crate::classify::metrics::Confusion;
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

/// The agreement over the items that two annotators labelled; nothing where there are none.
pub(super) fn agreement(records: &[LabelRecord]) -> Option<Agreement> {
    let pairs: Vec<(KnowledgeType, KnowledgeType)> =
        records.iter().filter_map(|r| Some((r.annotator_a?, r.annotator_b?))).collect();
    if pairs.is_empty() {
        return None;
    }
    let confusion = Confusion::of(pairs.iter().copied());
    let binary = |t: KnowledgeType| if t == KnowledgeType::Constraint { t } else { KnowledgeType::Belief };
    let constraint = Confusion::of(pairs.iter().map(|(a, b)| (binary(*a), binary(*b))));
    Some(Agreement {
        items: pairs.len(),
        observed: confusion.accuracy(),
        kappa: kappa(&confusion),
        constraint_kappa: kappa(&constraint),
        constraint_f1: confusion.score(KnowledgeType::Constraint).f1,
    })
}

/// Cohen's κ (Cohen, 1960); 1 where both annotators use one and the same type only.
fn kappa(confusion: &Confusion) -> f64 {
    let total = confusion.total() as f64;
    let expected: f64 = (0..TYPES)
        .map(|t| {
            let row: usize = confusion.0[t].iter().sum();
            let column: usize = confusion.0.iter().map(|row| row[t]).sum();
            row as f64 / total * (column as f64 / total)
        })
        .sum();
    if expected < 1.0 { (confusion.accuracy() - expected) / (1.0 - expected) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use KnowledgeType::Belief;

    #[test]
    fn kappa_is_that_of_the_textbook() {
        // Cohen's own kind of example: 20 + 15 of 50 agree where 0.5 is expected by chance.
        let mut confusion = Confusion::of([]);
        confusion.0[0][0] = 20;
        confusion.0[0][1] = 5;
        confusion.0[1][0] = 10;
        confusion.0[1][1] = 15;
        assert!((kappa(&confusion) - 0.4).abs() < 1e-12);
        assert_eq!(kappa(&Confusion::of([(Belief, Belief)])), 1.0);
    }
}
