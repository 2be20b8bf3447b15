//! How far annotators agree, beyond what chance would bring.
//!
//! Cohen's κ (Cohen 1960) for two annotators, Krippendorff's α for nominal labels (Krippendorff 2011, by coincidences)
//! and Gwet's AC1 (Gwet 2008, 2014) for any number with missing labels, agreement by class, and bootstrap intervals.
//! Where a figure does not exist, the answer says why; none is ever NaN. Equal to scikit-learn, `krippendorff` and
//! `irrCAC` on random tables, see `tests/fixtures/agreement/`.

use crate::taxonomy::KnowledgeType;
use serde::Serialize;

/// Why a figure does not exist.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "undefined", rename_all = "snake_case")]
pub enum Undefined {
    /// No item has two labels.
    #[error("undefined: no item has two labels")]
    NoItems,
    /// Chance alone explains every label.
    #[error("undefined: one label only; {:.0} % agreement", 100.0 * agreement)]
    OneLabel {
        /// Share of the pairs of labels that agree.
        agreement: f64,
    },
    /// Agreement among fewer than two classes says nothing.
    #[error("undefined: fewer than two classes")]
    NoChoice,
    /// This class is in no label.
    #[error("undefined: no annotator gave this label")]
    Unused,
}

/// Labels that are no [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A label is not among the classes.
    #[error(
        "Failed to read the labels of item {item}: label {label} of annotator {annotator}, but there are {classes} classes"
    )]
    Label {
        /// Index of the item.
        item: usize,
        /// Index of the annotator.
        annotator: usize,
        /// The label.
        label: usize,
        /// Number of classes.
        classes: usize,
    },
    /// Items have different numbers of annotators.
    #[error("Failed to read the labels of item {item}: {found} annotators, but {expected} before it")]
    Width {
        /// Index of the item.
        item: usize,
        /// Its annotators.
        found: usize,
        /// Annotators of the first item.
        expected: usize,
    },
}

/// A figure, or why there is none.
pub type Figure = Result<f64, Undefined>;

type Row = Vec<Option<usize>>;

/// Labels of items: a row an item, a column an annotator, classes as indices, nothing where one gave no label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    classes: usize,
    rows: Vec<Row>,
}

/// A share of resampled figures lies between `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Resamples whose figure existed.
    pub resamples: usize,
}

/// Agreement of the first two annotators on one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassAgreement {
    /// Labels of this class by the first annotator, on items that both labelled.
    pub first: u64,
    /// The same by the second.
    pub second: u64,
    /// Items to which both gave it.
    pub both: u64,
    /// 2 × both ÷ (first + second): positive specific agreement, which is also the F1 of one against the other.
    pub specific: Figure,
    /// Cohen's κ of this class against all others.
    pub kappa: Figure,
}

impl Table {
    /// Of `rows` with labels below `classes`.
    ///
    /// # Errors
    /// A label that is no class, or an item with another number of annotators than the first.
    pub fn new(classes: usize, rows: Vec<Row>) -> Result<Self, TableError> {
        let expected = rows.first().map_or(0, Vec::len);
        for (item, row) in rows.iter().enumerate() {
            if row.len() != expected {
                return Err(TableError::Width { item, found: row.len(), expected });
            }
            for (annotator, label) in row.iter().enumerate() {
                if let Some(label) = label.filter(|label| *label >= classes) {
                    return Err(TableError::Label { item, annotator, label, classes });
                }
            }
        }
        Ok(Self { classes, rows })
    }

    /// Of two annotators' knowledge types. `View` says which items and classes count.
    pub fn of_types(pairs: &[(KnowledgeType, KnowledgeType)], view: View) -> Self {
        let rows = pairs.iter().filter_map(|(a, b)| Some(vec![Some(view.class(*a)?), Some(view.class(*b)?)]));
        Self { classes: view.classes(), rows: rows.collect() }
    }

    /// Of nobody and nothing.
    pub fn empty() -> Self {
        Self { classes: 2, rows: Vec::new() }
    }

    /// The share of pairs of labels of one item that agree, each item counting alike.
    pub fn observed(&self) -> Figure {
        let (mut paired, mut agreeing) = (0.0, 0.0);
        for counts in self.counts() {
            let labels = sum(&counts);
            if labels >= 2.0 {
                paired += 1.0;
                agreeing += counts.iter().map(|count| count * (count - 1.0)).sum::<f64>() / (labels * (labels - 1.0));
            }
        }
        if paired == 0.0 { Err(Undefined::NoItems) } else { Ok(agreeing / paired) }
    }

    /// Items, with or without labels.
    pub fn items(&self) -> usize {
        self.rows.len()
    }

    /// `counts[a][b]`: items that the first annotator labelled `a` and the second `b`.
    pub fn confusion(&self) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0; self.classes]; self.classes];
        for (a, b) in self.rows.iter().filter_map(pair) {
            counts[a][b] += 1;
        }
        counts
    }

    /// Cohen's κ of the first two annotators, over items that both labelled.
    pub fn cohen_kappa(&self) -> Figure {
        cohen(&self.confusion())
    }

    /// Krippendorff's α for nominal labels, over items with two labels or more.
    pub fn krippendorff_alpha(&self) -> Figure {
        let mut by_class = vec![0.0; self.classes];
        let mut agreeing = 0.0;
        let mut total = 0.0;
        for counts in self.counts().filter(|counts| sum(counts) >= 2.0) {
            let labels = sum(&counts);
            for (class, count) in by_class.iter_mut().zip(&counts) {
                *class += count;
                agreeing += count * (count - 1.0) / (labels - 1.0);
            }
            total += labels;
        }
        if total == 0.0 {
            return Err(Undefined::NoItems);
        }
        let by_chance: f64 = by_class.iter().map(|count| count * (count - 1.0)).sum::<f64>() / (total - 1.0);
        if by_chance >= total {
            return Err(Undefined::OneLabel { agreement: agreeing / total });
        }
        Ok(1.0 - (total - agreeing) / (total - by_chance))
    }

    /// Gwet's AC1: agreement over items with two labels or more, chance from all labels.
    pub fn gwet_ac1(&self) -> Figure {
        if self.classes < 2 {
            return Err(Undefined::NoChoice);
        }
        let mut shares = vec![0.0; self.classes];
        let (mut labelled, mut paired, mut agreeing) = (0.0, 0.0, 0.0);
        for counts in self.counts() {
            let labels = sum(&counts);
            if labels == 0.0 {
                continue;
            }
            labelled += 1.0;
            shares.iter_mut().zip(&counts).for_each(|(share, count)| *share += count / labels);
            if labels >= 2.0 {
                paired += 1.0;
                let pairs: f64 = counts.iter().map(|count| count * (count - 1.0)).sum();
                agreeing += pairs / (labels * (labels - 1.0));
            }
        }
        if paired == 0.0 {
            return Err(Undefined::NoItems);
        }
        // At most one half, where all classes are equally frequent and there are two.
        let spread: f64 = shares.iter().map(|share| share / labelled * (1.0 - share / labelled)).sum();
        let chance = spread / (self.classes as f64 - 1.0);
        Ok((agreeing / paired - chance) / (1.0 - chance))
    }

    /// Agreement of the first two annotators on each class.
    pub fn by_class(&self) -> Vec<ClassAgreement> {
        let counts = self.confusion();
        let all: u64 = counts.iter().flatten().sum();
        (0..self.classes)
            .map(|class| {
                let first: u64 = counts[class].iter().sum();
                let second: u64 = counts.iter().map(|row| row[class]).sum();
                let both = counts[class][class];
                let neither = all + both - first - second;
                ClassAgreement {
                    first,
                    second,
                    both,
                    specific: if first + second > 0 {
                        Ok(2.0 * both as f64 / (first + second) as f64)
                    } else {
                        Err(Undefined::Unused)
                    },
                    kappa: cohen(&[vec![both, first - both], vec![second - both, neither]]),
                }
            })
            .collect()
    }

    /// The percentile interval that holds `level` (a share, as 0.95) of the figures of `resamples` tables whose items
    /// are drawn from this one with replacement. The same seed gives the same interval. Resamples without a figure are
    /// left out.
    ///
    /// # Errors
    /// Why the figure of the whole table does not exist, or of the last resample where none has one.
    pub fn interval(
        &self,
        figure: impl Fn(&Self) -> Figure,
        level: f64,
        resamples: usize,
        seed: u64,
    ) -> Result<Interval, Undefined> {
        figure(self)?;
        let mut state = seed;
        let mut drawn = self.clone();
        let mut values = Vec::with_capacity(resamples);
        let mut last = Undefined::NoItems;
        for _ in 0..resamples {
            for row in &mut drawn.rows {
                row.clone_from(&self.rows[below(&mut state, self.rows.len())]);
            }
            match figure(&drawn) {
                Ok(value) => values.push(value),
                Err(why) => last = why,
            }
        }
        values.sort_by(f64::total_cmp);
        let outside = (1.0 - level.clamp(0.0, 1.0)) / 2.0;
        match (quantile(&values, outside), quantile(&values, 1.0 - outside)) {
            (Some(low), Some(high)) => Ok(Interval { low, high, resamples: values.len() }),
            _ => Err(last),
        }
    }

    /// How often each class was given, item by item.
    fn counts(&self) -> impl Iterator<Item = Vec<f64>> {
        self.rows.iter().map(|row| {
            let mut counts = vec![0.0; self.classes];
            row.iter().flatten().for_each(|label| counts[*label] += 1.0);
            counts
        })
    }
}

/// Which knowledge types are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The five types; items that either annotator calls meta are left out.
    Five,
    /// The five types and meta.
    Six,
    /// Constraints against everything else, meta included.
    ConstraintOrRest,
}

impl View {
    /// Every view.
    pub const ALL: [Self; 3] = [Self::Five, Self::Six, Self::ConstraintOrRest];

    fn classes(self) -> usize {
        match self {
            Self::Five => KnowledgeType::ALL.len() - 1,
            Self::Six => KnowledgeType::ALL.len(),
            Self::ConstraintOrRest => 2,
        }
    }

    /// The class of a type: its place among [`KnowledgeType::ALL`], or 0 for constraints and 1 for the rest.
    pub fn class(self, label: KnowledgeType) -> Option<usize> {
        match self {
            Self::Five if label == KnowledgeType::Meta => None,
            Self::Five | Self::Six => KnowledgeType::ALL.iter().position(|known| *known == label),
            Self::ConstraintOrRest => Some(usize::from(label != KnowledgeType::Constraint)),
        }
    }
}

fn pair(row: &Row) -> Option<(usize, usize)> {
    Some(((*row.first()?)?, (*row.get(1)?)?))
}

fn sum(counts: &[f64]) -> f64 {
    counts.iter().sum()
}

fn cohen(counts: &[Vec<u64>]) -> Figure {
    let all = counts.iter().flatten().sum::<u64>() as f64;
    if all == 0.0 {
        return Err(Undefined::NoItems);
    }
    let (mut agreeing, mut chance) = (0.0, 0.0);
    let mut alike = false;
    for (class, row) in counts.iter().enumerate() {
        let first = row.iter().sum::<u64>() as f64;
        let second = counts.iter().map(|row| row[class]).sum::<u64>() as f64;
        agreeing += row[class] as f64 / all;
        chance += first / all * (second / all);
        alike |= first == all && second == all;
    }
    if alike { Err(Undefined::OneLabel { agreement: agreeing }) } else { Ok((agreeing - chance) / (1.0 - chance)) }
}

/// A number below `end` (SplitMix64; the bias of the multiplication is below 2⁻³² for any table).
fn below(state: &mut u64, end: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(z ^ (z >> 31)) * end as u128) >> 64) as usize
}

/// Linear interpolation between order statistics.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taxonomy::KnowledgeType::{Belief, Constraint, Meta, Procedural};

    #[derive(serde::Deserialize)]
    struct Case {
        classes: usize,
        rows: Vec<Row>,
        kappa: f64,
        alpha: f64,
        ac1: f64,
    }

    #[test]
    fn figures_equal_those_of_the_known_libraries() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/fixtures/agreement/expected.json")).unwrap();
        assert_eq!(cases.len(), 40);
        for (number, case) in cases.into_iter().enumerate() {
            let table = Table::new(case.classes, case.rows).unwrap();
            for (name, ours, theirs) in [
                ("κ", table.cohen_kappa(), case.kappa),
                ("α", table.krippendorff_alpha(), case.alpha),
                ("AC1", table.gwet_ac1(), case.ac1),
            ] {
                assert!((ours.unwrap() - theirs).abs() < 1e-9, "table {number}, {name}: {ours:?}, expected {theirs}");
            }
        }
    }

    #[test]
    fn undefined_cases_say_why() {
        let alike = Table::new(3, vec![vec![Some(1), Some(1)]; 4]).unwrap();
        let why = Undefined::OneLabel { agreement: 1.0 };
        assert_eq!(alike.cohen_kappa(), Err(why));
        assert_eq!(alike.krippendorff_alpha(), Err(why));
        assert_eq!(why.to_string(), "undefined: one label only; 100 % agreement");
        assert_eq!(alike.gwet_ac1(), Ok(1.0));
        assert_eq!(alike.observed(), Ok(1.0));
        assert_eq!(alike.interval(Table::cohen_kappa, 0.95, 10, 1), Err(why));
        let unpaired = Table::new(2, vec![vec![Some(1), None], vec![None, Some(0)]]).unwrap();
        let empty = Table::new(2, Vec::new()).unwrap();
        for table in [unpaired, empty] {
            assert_eq!(table.cohen_kappa(), Err(Undefined::NoItems));
            assert_eq!(table.krippendorff_alpha(), Err(Undefined::NoItems));
            assert_eq!(table.gwet_ac1(), Err(Undefined::NoItems));
        }
        assert_eq!(Table::new(1, vec![vec![Some(0); 2]]).unwrap().gwet_ac1(), Err(Undefined::NoChoice));
    }

    #[test]
    fn tables_that_do_not_fit_name_the_place() {
        let label = Table::new(2, vec![vec![Some(0), Some(2)]]).unwrap_err();
        assert_eq!(
            label.to_string(),
            "Failed to read the labels of item 0: label 2 of annotator 1, but there are 2 classes"
        );
        let width = Table::new(2, vec![vec![None; 2], vec![None; 3]]).unwrap_err();
        assert_eq!(width, TableError::Width { item: 1, found: 3, expected: 2 });
    }

    #[test]
    fn views_leave_meta_out_or_count_it() {
        let pairs = [(Constraint, Constraint), (Belief, Procedural), (Meta, Belief), (Meta, Meta)];
        assert_eq!(View::ALL.map(|view| Table::of_types(&pairs, view).items()), [2, 4, 4]);
        let rest = Table::of_types(&pairs, View::ConstraintOrRest);
        assert_eq!(rest.confusion(), [[1, 0], [0, 3]]);
        assert_eq!(rest.cohen_kappa(), Ok(1.0));
        let classes = Table::of_types(&pairs, View::Six).by_class();
        assert_eq!((classes[5].first, classes[5].second, classes[5].both), (2, 1, 1));
        assert_eq!(classes[5].specific, Ok(2.0 / 3.0));
        assert_eq!(classes[5].kappa, Ok(0.5));
        assert_eq!(classes[4].specific, Err(Undefined::Unused));
        assert_eq!(classes[4].kappa, Err(Undefined::OneLabel { agreement: 1.0 }));
    }

    #[test]
    fn intervals_are_seeded_hold_the_figure_and_shrink_with_items() {
        let some = |copies: usize| {
            let rows = [[0, 0], [0, 0], [1, 1], [1, 0], [2, 2]].map(|row| row.map(Some).to_vec());
            Table::new(3, rows.iter().cycle().take(5 * copies).cloned().collect()).unwrap()
        };
        let (few, many) = (some(6), some(60));
        let of = |table: &Table, seed| table.interval(Table::krippendorff_alpha, 0.95, 300, seed).unwrap();
        assert_eq!(of(&few, 4), of(&few, 4));
        assert_ne!(of(&few, 4), of(&few, 5));
        for table in [&few, &many] {
            let figure = table.krippendorff_alpha().unwrap();
            let interval = of(table, 4);
            assert!(interval.low < figure && figure < interval.high, "{figure} {interval:?}");
        }
        assert!(of(&many, 4).high - of(&many, 4).low < 0.5 * (of(&few, 4).high - of(&few, 4).low));
    }
}
