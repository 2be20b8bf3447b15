//! Clusters of duplicates: leader clustering over LSH candidates, every member verified against its canonical one.

use super::family::{Families, Settled};
use super::signature::Signature;
use crate::corpus::Sha256;
use std::borrow::Cow;
use std::collections::HashMap;

/// One text to be clustered.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its identity. Distinct documents have distinct ids.
    pub id: Sha256,
    /// Smaller ones are preferred as canonical; equal ones fall back to the smaller id.
    pub priority: u32,
    /// Computed by [`Signature::of`], or read back from an earlier run.
    pub signature: Signature,
}

/// What decides whether two texts are near duplicates, and which clusters are reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Least Jaccard similarity of near duplicates. The bands are laid out for 0.8; below 0.7 pairs would be missed.
    pub threshold: f64,
    /// A cluster with more than this share of all documents is reported …
    pub giant_share: f64,
    /// … when it also has more members than this.
    pub giant_members: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { threshold: 0.8, giant_share: 0.01, giant_members: 100 }
    }
}

/// Why a document is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// It stands for the cluster.
    Canonical,
    /// Its normalised text equals that of the canonical document.
    Normalised,
    /// It is similar enough to the canonical document.
    Near,
}

/// Where one document belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    /// Index of the document that stands for the cluster; its own index when it does itself.
    pub canonical: usize,
    /// Why it belongs there.
    pub relation: Relation,
    /// Jaccard similarity to the canonical document, 1 for itself and for equal normalised texts.
    pub similarity: f64,
}

/// A cluster so large that it is more likely boilerplate, or a fault, than copies of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GiantCluster {
    /// Index of its canonical document.
    pub canonical: usize,
    /// Documents in it, the canonical one included.
    pub members: usize,
}

/// The clusters of a set of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// One entry per document, in the order they were given.
    pub members: Vec<Member>,
    /// Clusters that someone should look at, largest first.
    pub giants: Vec<GiantCluster>,
    /// Pairs of texts that were compared exactly.
    pub compared: u64,
}

impl Clustering {
    /// Number of clusters, those of one document included.
    pub fn clusters(&self) -> usize {
        self.members.iter().filter(|member| member.relation == Relation::Canonical).count()
    }
}

/// Cluster `documents`. `texts` gives the texts of the documents at some indices when pairs of them have to be verified;
/// it is called from several threads, mostly once a document, and never for one whose signature has no like.
pub fn cluster<'t>(
    documents: &[Document],
    texts: impl Fn(&[usize]) -> Vec<Cow<'t, str>> + Sync,
    options: &Options,
) -> Clustering {
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_unstable_by_key(|&index| (documents[index].priority, documents[index].id, index));

    // Equal normalised texts share the fate of the first of them.
    let mut first_with: HashMap<u128, usize> = HashMap::with_capacity(documents.len());
    let first: Vec<usize> = {
        let mut first = vec![0; documents.len()];
        for &index in &order {
            first[index] = *first_with.entry(documents[index].signature.text).or_insert(index);
        }
        first
    };
    drop(first_with);

    let own = |index| Member { canonical: index, relation: Relation::Canonical, similarity: 1.0 };
    let mut members: Vec<Member> = (0..documents.len()).map(own).collect();
    order.retain(|&index| first[index] == index && !documents[index].signature.exact_only);
    let families = Families { documents, order: &order, texts: &texts, threshold: options.threshold };
    let Settled { joined, compared } = families.settle();
    for (index, found) in joined {
        members[index] = Member { canonical: found.canonical, relation: Relation::Near, similarity: found.similarity };
    }

    for index in 0..documents.len() {
        if first[index] != index {
            let leader = members[first[index]];
            members[index] = match leader.relation {
                Relation::Canonical => Member { relation: Relation::Normalised, ..leader },
                _ => leader,
            };
        }
    }
    let giants = giants(&members, options);
    Clustering { members, giants, compared }
}

fn giants(members: &[Member], options: &Options) -> Vec<GiantCluster> {
    let mut sizes: HashMap<usize, usize> = HashMap::new();
    for member in members {
        *sizes.entry(member.canonical).or_default() += 1;
    }
    let limit = options.giant_members.max((options.giant_share * members.len() as f64) as usize);
    let mut giants: Vec<GiantCluster> = sizes
        .into_iter()
        .filter(|&(_, members)| members > limit)
        .map(|(canonical, members)| GiantCluster { canonical, members })
        .collect();
    giants.sort_unstable_by_key(|giant| (std::cmp::Reverse(giant.members), giant.canonical));
    giants
}

#[cfg(test)]
mod tests {
    use super::super::signature::Profile;
    use super::*;
    use proptest::prelude::*;

    fn documents(texts: &[String]) -> Vec<Document> {
        texts
            .iter()
            .map(|t| Document { id: Sha256::of(t.as_bytes()), priority: 0, signature: Signature::of(t) })
            .collect()
    }

    fn borrowed<'t>(texts: &'t [String]) -> impl Fn(&[usize]) -> Vec<Cow<'t, str>> + Sync {
        |indices| indices.iter().map(|&index| Cow::Borrowed(texts[index].as_str())).collect()
    }

    fn run(texts: &[String]) -> Clustering {
        cluster(&documents(texts), borrowed(texts), &Options::default())
    }

    /// A guide of `lines` lines; guides of different topics share nothing.
    fn guide(topic: &str, lines: usize) -> String {
        let mut state = 7u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let letters = (0..5).map(|n| char::from(b'a' + (state >> (30 + 5 * n)) as u8 % 26));
            format!("{topic}{}", letters.collect::<String>())
        };
        (0..lines).map(|_| format!("- {} {} {} then {}\n", word(), word(), word(), word())).collect()
    }

    #[test]
    fn an_edited_copy_joins_and_a_changed_version_or_command_does_not() {
        let base = guide("q", 80);
        let with = |line: &str| format!("{base}\n{line}\n");
        let texts = [
            with("Run `npm test` on Node 18."),
            with("Run `npm test` on Node 20."),
            with("Run `pnpm test` on Node 18."),
            with("Before you push, run `npm test` on Node 18."),
        ];
        let found = run(&texts);
        assert_eq!(found.members[0].canonical, found.members[3].canonical);
        assert_eq!(found.clusters(), 3);
        assert!(found.members.iter().all(|m| m.similarity > 0.8));
    }

    #[test]
    fn long_settings_that_differ_in_one_line_stay_apart() {
        let settings = |command: &str| {
            let servers: String =
                (0..80).map(|n| format!("  \"server number {n}\": \"run it with these words\",\n")).collect();
            format!("{{\n{servers}  \"last\": \"{command}\"\n}}")
        };
        assert_eq!(run(&[settings("make run"), settings("make test")]).clusters(), 2);
        assert_eq!(run(&[settings("make run"), settings("make run").replace("  ", "\t")]).clusters(), 1);
    }

    #[test]
    fn short_texts_merge_only_when_equal_but_for_white_space() {
        let texts = ["@AGENTS.md".to_owned(), "@AGENTS.md\r\n".to_owned(), "@CLAUDE.md".to_owned()];
        let found = run(&texts);
        assert_eq!(found.clusters(), 2);
        assert_ne!(found.members[2].canonical, found.members[0].canonical);
    }

    #[test]
    fn a_chain_of_similar_texts_does_not_become_one_cluster() {
        let lines: Vec<String> = guide("z", 400).lines().map(str::to_owned).collect();
        let texts: Vec<String> = (0..12).map(|n| lines[n * 8..n * 8 + 100].join("\n")).collect();
        let found = run(&texts);
        for (index, member) in found.members.iter().enumerate() {
            let exact = Profile::of(&texts[index]).compare(&Profile::of(&texts[member.canonical]));
            assert_eq!(exact.similarity, member.similarity);
            assert_eq!(found.members[member.canonical].relation, Relation::Canonical);
        }
        assert!(found.clusters() > 2, "{}", found.clusters());
    }

    #[test]
    fn priority_chooses_the_canonical_member() {
        let texts = [guide("a", 60), guide("a", 61)];
        let mut documents = documents(&texts);
        for preferred in 0..2 {
            for (index, document) in documents.iter_mut().enumerate() {
                document.priority = u32::from(index != preferred);
            }
            let found = cluster(&documents, borrowed(&texts), &Options::default());
            assert!(found.members.iter().all(|m| m.canonical == preferred));
        }
    }

    #[test]
    fn a_giant_cluster_is_reported() {
        let texts: Vec<String> = (0..150).map(|n| format!("{}{}", guide("g", 80), "word ".repeat(n % 9))).collect();
        let found = run(&texts);
        assert_eq!(found.giants.len(), 1);
        assert_eq!(found.giants[0].members, 150);
        assert_eq!(run(&texts[..50]).giants, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn clusters_are_the_same_in_any_order_and_on_any_number_of_threads(
            edits in prop::collection::vec((0usize..6, 0usize..40, 0usize..40), 2..24), rotate in 0usize..40, threads in 1usize..4,
        ) {
            let mut texts: Vec<String> = edits
                .iter()
                .map(|&(topic, dropped, doubled)| {
                    let text = guide(&"tuvwxy"[topic..=topic], 41);
                    let mut lines: Vec<&str> = text.lines().collect();
                    lines[doubled] = "a line of its own that replaces another";
                    lines.remove(dropped);
                    lines.join("\n")
                })
                .collect();
            texts.sort();
            texts.dedup();
            let by_id = |texts: &[String], found: &Clustering| {
                let id = |i: usize| Sha256::of(texts[i].as_bytes());
                let mut pairs: Vec<_> = (0..texts.len())
                    .map(|i| (id(i), id(found.members[i].canonical), found.members[i].similarity.to_bits()))
                    .collect();
                pairs.sort();
                pairs
            };
            let one = by_id(&texts, &run(&texts));
            let turn = rotate % texts.len();
            texts.rotate_left(turn);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let two = by_id(&texts, &pool.install(|| run(&texts)));
            prop_assert_eq!(one, two);
        }
    }
}
