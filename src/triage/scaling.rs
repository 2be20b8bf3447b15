//! The paper's scaling test: one topic of thousands of items, split recursively, and searched leaf by leaf.

use super::canonical::key_words;
use super::kmeans::{WordVector, split};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// What the test found, beside what the paper reports: 3,000 items, 29 leaves of 103 items on average, recall at 5 of
/// 0.94 against 0.98 of a flat scan, 92 items read for a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// Items of the topic.
    pub items: usize,
    /// Leaves it was split into.
    pub leaves: usize,
    /// Mean size of a leaf.
    pub mean_leaf: f64,
    /// Queries asked.
    pub queries: usize,
    /// Results a query.
    pub k: usize,
    /// Share of queries whose item a scan of everything finds.
    pub flat_recall: f64,
    /// By how many leaves are opened (1, 2, 3): the share found, and how many items were read on average.
    pub opened: Vec<Opened>,
}

/// The test with so many leaves opened a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Opened {
    /// Leaves opened.
    pub leaves: usize,
    /// Share of queries whose item is found.
    pub recall: f64,
    /// Items read, mean over queries.
    pub items_read: f64,
}

/// Run the test on distinct `items`. Every eighth item is asked for by a query that holds every other one of its key
/// words: the remaining words are held out.
pub fn scaling(items: &[&str], most: usize, k: usize) -> Scaling {
    let vectors: Vec<WordVector> = items.iter().map(|text| WordVector::of(text)).collect();
    let leaves = split(&vectors, most);
    let words: Vec<HashSet<String>> = items.iter().map(|text| key_words(text).into_iter().collect()).collect();
    let mut found_in: HashMap<&str, usize> = HashMap::new();
    for word in words.iter().flatten() {
        *found_in.entry(word).or_default() += 1;
    }
    let weight = |word: &str| (1.0 + items.len() as f64 / found_in.get(word).copied().unwrap_or(1) as f64).ln();
    let score = |query: &[String], at: usize| -> f64 {
        let shared = query.iter().filter(|word| words[at].contains(*word)).map(|word| weight(word)).sum::<f64>();
        // A short item that holds the words says more about them than a long one.
        shared / (1.0 + words[at].len() as f64).sqrt()
    };
    let leaf_words: Vec<HashSet<&str>> = leaves
        .iter()
        .map(|leaf| leaf.members.iter().flat_map(|m| words[*m].iter().map(String::as_str)).collect())
        .collect();
    let best = |query: &[String], among: &mut dyn Iterator<Item = usize>, target: usize| -> bool {
        let own = score(query, target);
        let mut present = false;
        let mut better = 0;
        for at in among {
            present |= at == target;
            let other = score(query, at);
            better += usize::from(other > own || (other == own && at < target));
        }
        present && better < k
    };
    let mut asked = 0;
    let mut flat = 0;
    let mut opened: Vec<(usize, usize)> = vec![(0, 0); 3];
    for target in (0..items.len()).step_by(8) {
        let mut keys = key_words(items[target]);
        if keys.len() < 4 {
            continue;
        }
        keys = keys.into_iter().step_by(2).collect();
        asked += 1;
        flat += usize::from(best(&keys, &mut (0..items.len()), target));
        let vector = WordVector::of(&keys.join(" "));
        // A leaf is as near as the words that it shares and, between equals, as its mean is.
        let mut order: Vec<(f64, usize)> = leaves
            .iter()
            .enumerate()
            .map(|(at, leaf)| {
                let shared =
                    keys.iter().filter(|w| leaf_words[at].contains(w.as_str())).map(|w| weight(w)).sum::<f64>();
                (shared + f64::from(vector.dot(&leaf.centroid)), at)
            })
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (count, (found, read)) in opened.iter_mut().enumerate() {
            let chosen = &order[..order.len().min(count + 1)];
            let members = || chosen.iter().flat_map(|(_, leaf)| leaves[*leaf].members.iter().copied());
            *read += members().count();
            *found += usize::from(best(&keys, &mut members(), target));
        }
    }
    let share = |n: usize| n as f64 / asked.max(1) as f64;
    Scaling {
        items: items.len(),
        leaves: leaves.len(),
        mean_leaf: items.len() as f64 / leaves.len().max(1) as f64,
        queries: asked,
        k,
        flat_recall: share(flat),
        opened: opened
            .into_iter()
            .enumerate()
            .map(|(at, (found, read))| Opened { leaves: at + 1, recall: share(found), items_read: share(read) })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_searched_leaf_by_leaf() {
        let subjects = ["database index", "button style", "docker image", "refund policy"];
        let items: Vec<String> = (0..600)
            .map(|n| format!("{} number {n} concerns part{} and part{}", subjects[n % 4], n * 7 % 311, n * 13 % 577))
            .collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let found = scaling(&items, 100, 5);
        assert!(found.leaves >= 6 && found.queries > 50, "{found:?}");
        assert!(found.opened[0].items_read < 150.0, "{found:?}");
        assert!(found.opened.windows(2).all(|w| w[0].recall <= w[1].recall && w[0].items_read < w[1].items_read));
        assert!(found.opened[2].recall > 0.5 && found.flat_recall > 0.9, "{found:?}");
    }
}
