//! How well tags agree with labels: precision, recall and F1 of each value, their macro mean, accuracy, confusion.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One labelled artifact: a line of `annotation/tags/tags.jsonl`. A value is nothing where the annotators differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagLabel {
    /// Repository.
    pub repo: crate::corpus::Slug,
    /// Path in it.
    pub path: String,
    /// Whether it is a symlink.
    #[serde(default)]
    pub symlink: bool,
    /// Git's id of the blob that was labelled.
    pub blob: crate::corpus::GitOid,
    /// What it is for.
    pub function: Option<crate::taxonomy::Function>,
    /// Who wrote it.
    pub authorship: Option<crate::taxonomy::Authorship>,
    /// How bound to its project it is.
    pub specificity: Option<crate::taxonomy::Specificity>,
}

/// Agreement on one value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueScore {
    /// The value's spelling.
    pub value: String,
    /// How many labels have it.
    pub support: usize,
    /// Of those tagged with it, the share that is labelled with it; 0 when none is tagged.
    pub precision: f64,
    /// Of those labelled with it, the share that is tagged with it; 0 when none is labelled.
    pub recall: f64,
    /// Harmonic mean of both; 0 when both are.
    pub f1: f64,
}

/// Agreement on one dimension.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// How many artifacts were compared.
    pub n: usize,
    /// Share of equal values; 0 when nothing was compared.
    pub accuracy: f64,
    /// Mean F1 over values with at least `min_support` labels; 0 when there are none.
    pub macro_f1: f64,
    /// What `macro_f1` asked of a value.
    pub min_support: usize,
    /// Each value that occurs, by spelling.
    pub values: Vec<ValueScore>,
    /// (label, tag) → how many.
    #[serde(serialize_with = "confusion_rows")]
    pub confusion: BTreeMap<(String, String), usize>,
}

fn confusion_rows<S: serde::Serializer>(
    confusion: &BTreeMap<(String, String), usize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Cell<'a> {
        label: &'a str,
        tag: &'a str,
        count: usize,
    }
    serializer.collect_seq(confusion.iter().map(|((label, tag), count)| Cell { label, tag, count: *count }))
}

/// Compare (label, tag) pairs. Values with fewer than `min_support` labels stay out of the macro mean.
pub fn score<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>, min_support: usize) -> Scores {
    let mut confusion: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (label, tag) in pairs {
        *confusion.entry((label.to_owned(), tag.to_owned())).or_default() += 1;
    }
    let n: usize = confusion.values().sum();
    let count = |keep: &dyn Fn(&str, &str) -> bool| -> usize {
        confusion.iter().filter(|((label, tag), _)| keep(label, tag)).map(|(_, count)| count).sum()
    };
    let names: BTreeSet<&str> = confusion.keys().flat_map(|(label, tag)| [label.as_str(), tag.as_str()]).collect();
    let values: Vec<ValueScore> = names
        .into_iter()
        .map(|value| {
            let both = count(&|label, tag| label == value && tag == value);
            let support = count(&|label, _| label == value);
            let precision = ratio(both, count(&|_, tag| tag == value));
            let recall = ratio(both, support);
            let f1 = if both == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) };
            ValueScore { value: value.to_owned(), support, precision, recall, f1 }
        })
        .collect();
    let counted: Vec<f64> = values.iter().filter(|v| v.support >= min_support.max(1)).map(|v| v.f1).collect();
    Scores {
        n,
        accuracy: ratio(count(&|label, tag| label == tag), n),
        macro_f1: if counted.is_empty() { 0.0 } else { counted.iter().sum::<f64>() / to_f64(counted.len()) },
        min_support,
        values,
        confusion,
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { to_f64(part) / to_f64(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of labels are far below 2^52")]
fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_table_worked_by_hand() {
        // a: 2 right, 1 taken for b; b: 1 right; c: 1 taken for a.
        let scores = score([("a", "a"), ("a", "a"), ("a", "b"), ("b", "b"), ("c", "a")], 1);
        assert_eq!(scores.n, 5);
        assert!((scores.accuracy - 0.6).abs() < 1e-12);
        let [a, b, c] = scores.values.as_slice() else { panic!("three values") };
        assert!((a.precision - 2.0 / 3.0).abs() < 1e-12 && (a.recall - 2.0 / 3.0).abs() < 1e-12);
        assert!((b.precision - 0.5).abs() < 1e-12 && (b.recall - 1.0).abs() < 1e-12);
        assert!((b.f1 - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((c.support, c.f1), (1, 0.0));
        assert!((scores.macro_f1 - 4.0 / 9.0).abs() < 1e-12);
        assert_eq!(scores.confusion[&("a".to_owned(), "b".to_owned())], 1);
    }

    #[test]
    fn rare_values_stay_out_of_the_mean_and_nothing_divides_by_zero() {
        let scores = score([("a", "a"), ("a", "a"), ("b", "a")], 2);
        assert!((scores.macro_f1 - 0.8).abs() < 1e-12);
        let empty = score([], 5);
        assert_eq!((empty.n, empty.accuracy, empty.macro_f1), (0, 0.0, 0.0));
    }
}
