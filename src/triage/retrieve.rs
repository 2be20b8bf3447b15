//! TypeRetrieve (the paper's Algorithm 3): constraints in scope first, then what the query is about.

use super::index::{Entry, Index};
use crate::taxonomy::KnowledgeType;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which constraints in scope go first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pinning {
    /// All of them.
    #[default]
    All,
    /// Those whose risk, weighted by authority, reaches this; the others compete by relevance.
    AtRisk(f32),
    /// None: the plain scorer, for comparison.
    Off,
}

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Query<'a> {
    /// The words.
    pub text: &'a str,
    /// How many results.
    pub k: usize,
    /// Topics that the query is tagged with. Without any, the topics of the most relevant entries are taken.
    pub topics: &'a [&'a str],
    /// Which constraints go first.
    pub pinning: Pinning,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found<'a> {
    /// Its place in the index.
    #[serde(skip)]
    pub entry: usize,
    /// Its text.
    pub text: &'a str,
    /// File it comes from.
    pub source: &'a str,
    /// 1-based line there.
    pub line: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub item_type: KnowledgeType,
    /// Relevance to the query; 0 when no word is shared.
    pub score: f32,
    /// Whether it stands here as a constraint in scope, whatever its score.
    pub pinned: bool,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retrieved<'a> {
    /// At most `k` results: constraints in scope by relevance, then the rest by relevance.
    pub results: Vec<Found<'a>>,
    /// How many constraints are in scope.
    pub in_scope: usize,
    /// How many of those did not fit into `k`: an answer with any is incomplete, and says so.
    pub pinned_beyond_k: usize,
    /// The topics that decided what is in scope.
    pub topics: Vec<String>,
}

/// Retrieve with BM25.
///
/// ```
/// use aac::taxonomy::KnowledgeType::{Belief, Constraint};
/// use aac::triage::{Base, Index, Judgement, Query, Tokenizer, retrieve};
///
/// let text = "# Orders\n\n- Never refund to another card.\n- Orders ship from Leipzig.\n\n# Cats\n\n- Cats purr.\n";
/// let base = Base::read("policy.md", text, Tokenizer::Cl100k, |item| {
///     Judgement::certain(if item.text.starts_with("Never") { Constraint } else { Belief })
/// });
/// let mut index = Index::default();
/// index.replace("policy.md", &base);
/// let found = retrieve(&index, &Query { text: "where do orders ship from", k: 2, ..Query::default() });
/// assert_eq!(found.results[0].text, "Never refund to another card.");
/// assert_eq!(found.results[1].text, "Orders ship from Leipzig.");
/// ```
pub fn retrieve<'a>(index: &'a Index, query: &Query<'_>) -> Retrieved<'a> {
    retrieve_by(index, query, &index.scores(query.text))
}

/// Retrieve with scores of your own, one an entry in the order of [`Index::entries`]: embeddings, a reranker. Missing
/// scores count as 0.
pub fn retrieve_by<'a>(index: &'a Index, query: &Query<'_>, scores: &[f32]) -> Retrieved<'a> {
    let score = |at: usize| scores.get(at).copied().unwrap_or(0.0);
    let topics: Vec<String> = if query.topics.is_empty() {
        topics_of_best(index, query.k, score)
    } else {
        query.topics.iter().map(|topic| topic.to_lowercase()).collect()
    };
    let wanted = index.topic_set(&topics);
    let mut pinned: Vec<usize> = match query.pinning {
        Pinning::Off => Vec::new(),
        Pinning::All => index.in_scope(&wanted).collect(),
        Pinning::AtRisk(least) => {
            index.in_scope(&wanted).filter(|at| index.entries()[*at].judgement.risk >= least).collect()
        }
    };
    let in_scope = pinned.len();
    let risk = |at: usize| index.entries()[at].judgement.risk;
    pinned.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(risk(*b).total_cmp(&risk(*a))).then(a.cmp(b)));
    pinned.truncate(query.k);
    let taken: std::collections::HashSet<usize> = pinned.iter().copied().collect();
    let others = best(index, query.k - pinned.len(), |at| if taken.contains(&at) { 0.0 } else { score(at) });
    let found = |at: usize, pinned: bool| {
        let Entry { text, source, line, judgement, .. } = &index.entries()[at];
        Found { entry: at, text, source, line: *line, item_type: judgement.item_type, score: score(at), pinned }
    };
    let beyond = in_scope - pinned.len();
    let results =
        pinned.into_iter().map(|at| found(at, true)).chain(others.into_iter().map(|at| found(at, false))).collect();
    Retrieved { results, in_scope, pinned_beyond_k: beyond, topics }
}

/// The topics of the entries that answer the query best.
fn topics_of_best(index: &Index, k: usize, score: impl Fn(usize) -> f32) -> Vec<String> {
    let mut topics: Vec<String> = Vec::new();
    for at in best(index, k.clamp(1, 10), score) {
        for topic in &index.entries()[at].topics {
            if !topics.contains(topic) {
                topics.push(topic.clone());
            }
        }
    }
    topics
}

/// The `k` entries of the highest positive scores; ties in the order of the index.
fn best(index: &Index, k: usize, score: impl Fn(usize) -> f32) -> Vec<usize> {
    let k = k.min(index.entries().len());
    // Scores are not negative, so their bits order as they do.
    let mut heap: BinaryHeap<Reverse<(u32, Reverse<usize>)>> = BinaryHeap::with_capacity(k + 1);
    for at in 0..index.entries().len() {
        let score = score(at);
        if score <= 0.0 || k == 0 {
            continue;
        }
        let key = Reverse((score.to_bits(), Reverse(at)));
        if heap.len() < k {
            heap.push(key);
        } else if heap.peek().is_some_and(|least| key < *least) {
            heap.pop();
            heap.push(key);
        }
    }
    heap.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(at)))| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    fn index() -> Index {
        let mut index = Index::default();
        index.replace(
            "a.md",
            &base("# Rules\n\n- Never lie.\n\n# Orders\n\n- Never refund twice.\n- The orders ship daily from the depot.\n\n# Cats\n\n- Never bathe cats.\n- The cats purr daily.\n"),
        );
        index
    }

    #[test]
    fn constraints_in_scope_come_first_and_others_do_not() {
        let index = index();
        let query = Query { text: "when do orders ship", k: 5, topics: &["orders"], ..Query::default() };
        let found = retrieve(&index, &query);
        let texts: Vec<_> = found.results.iter().map(|f| (f.text, f.pinned)).collect();
        // The heading above it names the orders, so the second rule is the more relevant of the two that are pinned.
        assert_eq!(
            texts,
            [("Never refund twice.", true), ("Never lie.", true), ("The orders ship daily from the depot.", false),]
        );
        assert_eq!((found.in_scope, found.pinned_beyond_k), (2, 0));
        let untagged = retrieve(&index, &Query { topics: &[], k: 3, ..query.clone() });
        assert_eq!(untagged.topics, ["orders"]);
        let plain = retrieve(&index, &Query { pinning: Pinning::Off, k: 1, ..query });
        assert_eq!(plain.results[0].text, "The orders ship daily from the depot.");
    }

    #[test]
    fn a_k_too_small_is_told() {
        let index = index();
        let found = retrieve(&index, &Query { text: "cats", k: 1, topics: &["cats"], ..Query::default() });
        assert_eq!((found.results.len(), found.in_scope, found.pinned_beyond_k), (1, 2, 1));
        assert_eq!(found.results[0].text, "Never bathe cats.");
        assert_eq!(retrieve(&index, &Query { text: "cats", k: 0, ..Query::default() }).results, []);
    }

    #[test]
    fn scores_of_ones_own_take_the_place_of_bm25() {
        let index = index();
        let scores = vec![0.0, 0.0, 0.1, 0.0, 0.9];
        let query = Query { text: "", k: 2, topics: &["nothing"], pinning: Pinning::AtRisk(2.0) };
        let found = retrieve_by(&index, &query, &scores);
        assert_eq!(found.results.iter().map(|f| f.entry).collect::<Vec<_>>(), [4, 2]);
    }
}
