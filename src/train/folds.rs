//! Splitting examples so that a score means something: whole repositories on one side, near-duplicates never on both.

use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// The fold of each group, `0..folds`: groups in order of falling size (then name) go to the emptiest fold.
pub fn fold_of_groups<'a>(groups: impl IntoIterator<Item = &'a str>, folds: usize) -> HashMap<&'a str, usize> {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for group in groups {
        *sizes.entry(group).or_insert(0) += 1;
    }
    let mut order: Vec<(&str, usize)> = sizes.into_iter().collect();
    // Equal sizes are shuffled by hash, so that owners with many repositories do not fall into one fold by name.
    order.sort_by_key(|(name, size)| (std::cmp::Reverse(*size), xxh3_64(name.as_bytes()), *name));
    let mut load = vec![0usize; folds.max(1)];
    let mut fold_of = HashMap::new();
    for (name, size) in order {
        let fold = (0..load.len()).min_by_key(|f| (load[*f], *f)).unwrap_or(0);
        load[fold] += size;
        fold_of.insert(name, fold);
    }
    fold_of
}

/// Pairs `(i, j)`, `i < j`, of texts whose sets of character 5-grams overlap by at least `jaccard`. Exact: prefix
/// filtering (Chaudhuri et al., 2006) finds the candidates. Texts are compared without case, digits and punctuation.
pub fn near_duplicates(texts: &[&str], jaccard: f64) -> Vec<(usize, usize)> {
    let sets: Vec<Vec<u64>> = texts.iter().map(|t| shingles(t)).collect();
    let mut frequency: HashMap<u64, u32> = HashMap::new();
    for shingle in sets.iter().flatten() {
        *frequency.entry(*shingle).or_insert(0) += 1;
    }
    let mut index: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut pairs = Vec::new();
    for (j, set) in sets.iter().enumerate() {
        let mut rare: Vec<u64> = set.clone();
        rare.sort_by_key(|s| (frequency[s], *s));
        let prefix =
            set.len() - ((jaccard * set.len() as f64).ceil() as usize).min(set.len()) + usize::from(!set.is_empty());
        let mut candidates: Vec<usize> = Vec::new();
        for shingle in rare.iter().take(prefix) {
            let posted = index.entry(*shingle).or_default();
            candidates.extend(posted.iter());
            posted.push(j);
        }
        candidates.sort_unstable();
        candidates.dedup();
        for i in candidates {
            let shared = overlap(&sets[i], set);
            if shared as f64 >= jaccard * (sets[i].len() + set.len() - shared) as f64 {
                pairs.push((i, j));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Hashed 5-grams of the letters of `text`, ascending; the whole when shorter; nothing when there are no letters.
fn shingles(text: &str) -> Vec<u64> {
    let letters: Vec<char> = text.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphabetic()).collect();
    let mut hashes: Vec<u64> = if letters.is_empty() {
        Vec::new()
    } else {
        letters.windows(5.min(letters.len())).map(|w| xxh3_64(w.iter().collect::<String>().as_bytes())).collect()
    };
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

fn overlap(a: &[u64], b: &[u64]) -> usize {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_whole_and_folds_even() {
        let groups = ["a", "a", "a", "b", "b", "c", "c", "d", "d", "d"];
        let fold = fold_of_groups(groups, 2);
        let load = |f| groups.iter().filter(|g| fold[**g] == f).count();
        assert_eq!((load(0), load(1)), (5, 5));
    }

    #[test]
    fn near_duplicates_are_all_found_and_only_they() {
        let texts = [
            "Never push directly to the main branch of this repository.",
            "NEVER push directly to the `main` branch of this repository!",
            "Run the tests before you commit.",
            "",
            "1. 2. 3.",
            "Never push directly to the main branch of that repository.",
        ];
        let pairs = near_duplicates(&texts, 0.65);
        assert!(pairs.contains(&(0, 1)) && pairs.contains(&(0, 5)) && pairs.contains(&(1, 5)), "{pairs:?}");
        assert_eq!(pairs.len(), 3, "{pairs:?}");
    }
}
