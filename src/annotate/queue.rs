//! In which order an annotator meets the items.

use crate::taxonomy::LabelOrder;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// `items` in the order of one annotator's round: shuffled by seed and name, or what the model is least sure of first
/// (shuffled among equals and among items without a guess, which come last).
pub(super) fn ordered(
    mut items: Vec<String>,
    annotator: &str,
    pass: i64,
    seed: u64,
    order: LabelOrder,
    unsure: &HashMap<String, f32>,
) -> Vec<String> {
    let place = |item: &str| xxh3_64_with_seed(format!("{annotator}\u{0}{pass}\u{0}{item}").as_bytes(), seed);
    items.sort_by_cached_key(|item| (place(item), item.clone()));
    if order == LabelOrder::Uncertainty {
        let of = |item: &String| unsure.get(item).copied().unwrap_or(-1.0);
        items.sort_by(|a, b| of(b).total_cmp(&of(a)));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(annotator: &str, seed: u64, order: LabelOrder, unsure: &[(&str, f32)]) -> Vec<String> {
        let items = (0..40).map(|n| format!("i{n:02}")).collect();
        let unsure = unsure.iter().map(|(item, by)| ((*item).to_owned(), *by)).collect();
        ordered(items, annotator, 1, seed, order, &unsure)
    }

    #[test]
    fn orders_differ_by_annotator_and_seed_and_repeat() {
        let ann = order("ann", 1, LabelOrder::Shuffled, &[]);
        assert_eq!(ann, order("ann", 1, LabelOrder::Shuffled, &[]));
        assert_ne!(ann, order("bob", 1, LabelOrder::Shuffled, &[]));
        assert_ne!(ann, order("ann", 2, LabelOrder::Shuffled, &[]));
    }

    #[test]
    fn the_least_sure_come_first_and_the_unknown_last() {
        let found = order("ann", 1, LabelOrder::Uncertainty, &[("i05", 0.2), ("i07", 0.6), ("i00", 0.4)]);
        assert_eq!(&found[..3], ["i07", "i00", "i05"]);
        assert_eq!(found.len(), 40);
    }
}
