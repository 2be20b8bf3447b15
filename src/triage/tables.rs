//! The paper's tables for the operators, computed on given bases: ours, beside what the paper reports.

use super::base::Base;
use super::baselines::{Baseline, chunk_by_paragraph, chunk_by_tokens, chunk_by_topic};
use super::compact::{best_possible, compact};
use super::decompose::{decompose, locality};
use super::measure::{Preservation, Share, labelled_preservation, preservation};
use super::retrieve::{Pinning, Query, retrieve_by};
use super::tokens::Budget;
use super::verify::{guards, missing};
use super::{Entry, Index};
use crate::taxonomy::KnowledgeType;
use rayon::prelude::*;
use serde::Serialize;

/// One strategy at one ratio: means over configurations that have items of the type.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionRow {
    /// Its name.
    pub strategy: String,
    /// How many of its outputs exceed the budget, and how many texts it gave none for: both 0 but for compactors that do
    /// not live here.
    pub over_budget: usize,
    /// See there.
    pub failed: usize,
    /// Preservation by the key-token test for C, P, B, F, E.
    pub by_type: [Option<f64>; 5],
    /// Unweighted mean over types and then over configurations.
    pub all: Option<f64>,
    /// Share of flagged constraints that stand word for word.
    pub verbatim: Option<f64>,
    /// Share of flagged constraints that stand with every qualifier.
    pub qualified: Option<f64>,
    /// The same by the labels of annotators, where there are any.
    pub labelled: Option<LabelledRow>,
}

/// One strategy by the labels of annotators: shares of all labelled items of all configurations, for a single one has
/// few of each type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LabelledRow {
    /// Preservation by the key-token test for C, P, B, F, E.
    pub by_type: [Share; 5],
    /// Constraints that stand word for word.
    pub verbatim: Share,
}

/// The compaction table at one ratio (Tables 5 and 6 of the paper). The three figures that stand together are
/// `answered`, `recall_of_answered` and the first row's constraint recall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionTable {
    /// Percent of the input's tokens.
    pub ratio: f64,
    /// Configurations.
    pub configurations: usize,
    /// How many were answered Safe.
    pub answered: usize,
    /// How many have flagged constraints that fit; equal to `answered`.
    pub fitting: usize,
    /// Mean share of flagged constraints, word for word, over the answered ones.
    pub recall_of_answered: Option<f64>,
    /// The most that any output could hold of the flagged constraints word for word, mean over configurations: they are
    /// so dense that at low ratios all of them do not fit, however they are chosen.
    pub possible: Option<f64>,
    /// The same for the constraints by the labels of annotators, were they known.
    pub possible_labelled: Option<f64>,
    /// How many outputs exceed the budget; always 0.
    pub over_budget: usize,
    /// TypeCompact over all configurations (Safe output, else best effort), TypeCompact over the answered ones alone,
    /// and the baselines over all.
    pub rows: Vec<CompactionRow>,
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Labels of annotators for the items of one base, in their order.
pub type Labels = Vec<Option<KnowledgeType>>;

/// What a compactor that does not live here made of every base: a language model, another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// Its name.
    pub strategy: String,
    /// One a base, in their order; nothing where it failed.
    pub outputs: Vec<Option<String>>,
}

/// One output, measured.
struct Measured {
    over_budget: bool,
    preservation: Preservation,
    labelled: Option<([Share; 6], Share)>,
}

fn measure(base: &Base, labels: Option<&Labels>, budget: usize, output: &str) -> Measured {
    Measured {
        over_budget: base.tokenizer().count(output) > budget,
        preservation: preservation(base, output),
        labelled: labels.map(|labels| labelled_preservation(base, labels, output)),
    }
}

fn row<'a>(strategy: &str, measured: impl IntoIterator<Item = &'a Measured>) -> CompactionRow {
    let measured: Vec<&Measured> = measured.into_iter().collect();
    let all = || measured.iter().map(|m| &m.preservation);
    let rate = |share: fn(&Preservation) -> Share| mean(all().filter_map(|p| share(p).rate()));
    let labelled: Vec<&([Share; 6], Share)> = measured.iter().filter_map(|m| m.labelled.as_ref()).collect();
    let sum = |shares: &mut dyn Iterator<Item = Share>| {
        shares.fold(Share::default(), |sum, share| Share { kept: sum.kept + share.kept, of: sum.of + share.of })
    };
    CompactionRow {
        strategy: strategy.to_owned(),
        over_budget: measured.iter().filter(|m| m.over_budget).count(),
        failed: 0,
        by_type: std::array::from_fn(|t| mean(all().filter_map(|p| p.by_type[t].rate()))),
        all: mean(all().filter_map(Preservation::mean)),
        verbatim: rate(|p| p.verbatim),
        qualified: rate(|p| p.qualified),
        labelled: (!labelled.is_empty()).then(|| LabelledRow {
            by_type: std::array::from_fn(|t| sum(&mut labelled.iter().map(|(by_type, _)| by_type[t]))),
            verbatim: sum(&mut labelled.iter().map(|(_, verbatim)| *verbatim)),
        }),
    }
}

/// Compact every base to `ratio` percent with every strategy, and measure `others` at it. `labels` has an entry for every
/// base, or none at all.
pub fn compaction_table(bases: &[Base], labels: &[Labels], ratio: f64, others: &[Outputs]) -> CompactionTable {
    let outcomes: Vec<_> = bases.par_iter().map(|base| compact(base, Budget::Percent(ratio))).collect();
    let measure = |at: usize, output: &str| measure(&bases[at], labels.get(at), outcomes[at].budget, output);
    let ours: Vec<Measured> = (0..bases.len()).into_par_iter().map(|at| measure(at, outcomes[at].output())).collect();
    let safe = |at: &usize| outcomes[*at].safe().is_some();
    let answered = || (0..bases.len()).filter(safe).map(|at| &ours[at]);
    let mut rows = vec![row("TypeCompact", &ours), row("TypeCompact, answered Safe", answered())];
    for baseline in Baseline::ALL {
        let measured: Vec<Measured> = (0..bases.len())
            .into_par_iter()
            .map(|at| measure(at, &baseline.compact(&bases[at], outcomes[at].budget)))
            .collect();
        rows.push(row(baseline.as_str(), &measured));
    }
    for other in others {
        let there = |at: usize| Some(measure(at, other.outputs.get(at)?.as_deref()?));
        let measured: Vec<Measured> = (0..bases.len()).into_par_iter().filter_map(there).collect();
        rows.push(CompactionRow { failed: bases.len() - measured.len(), ..row(&other.strategy, &measured) });
    }
    CompactionTable {
        ratio,
        configurations: bases.len(),
        answered: answered().count(),
        fitting: outcomes.iter().filter(|outcome| outcome.min_safe_budget <= outcome.budget).count(),
        recall_of_answered: mean(answered().filter_map(|m| m.preservation.verbatim.rate())),
        possible: mean(
            bases.iter().zip(&outcomes).filter_map(|(base, outcome)| {
                best_possible(base, outcome.budget, |index| base.items()[index].pinned())
            }),
        ),
        possible_labelled: mean(bases.iter().zip(&outcomes).zip(labels).filter_map(|((base, outcome), labels)| {
            best_possible(base, outcome.budget, |index| labels.get(index) == Some(&Some(KnowledgeType::Constraint)))
        })),
        over_budget: ours.iter().filter(|m| m.over_budget).count(),
        rows,
    }
}

/// The share of the flagged constraints of `first` that stand word for word in `text`, which was made of it; all of them
/// where none is flagged.
pub fn verbatim_recall(first: &Base, text: &str) -> f64 {
    let guards = guards(first);
    if text == first.text() || guards.is_empty() {
        return 1.0;
    }
    1.0 - missing(&guards, text).len() as f64 / guards.len() as f64
}

/// One round of Figure 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Round {
    /// From 1.
    pub round: usize,
    /// Configurations that were compacted in this round; the others refused and stayed as they were.
    pub compacted: usize,
    /// Mean share of the flagged constraints of the first text that stand word for word. Refusing keeps them.
    pub recall: Option<f64>,
    /// The same for each baseline, in the order of [`Baseline::ALL`].
    pub baselines: Vec<Option<f64>>,
}

/// Compact every base over and over, each time to `ratio` percent of what it then is (Figure 3). Labels are given once:
/// baselines too are judged against the constraints of the first text.
pub fn rounds_table(bases: &[Base], rounds: usize, ratio: f64) -> Vec<Round> {
    let with_rules: Vec<&Base> = bases.iter().filter(|base| base.items().iter().any(|i| i.pinned())).collect();
    let ours: Vec<Vec<(bool, f64)>> = with_rules
        .par_iter()
        .map(|first| {
            let mut base = (*first).clone();
            (0..rounds)
                .map(|_| {
                    let outcome = compact(&base, Budget::Percent(ratio));
                    let compacted = outcome.safe().map(|compaction| compaction.rebase(&base));
                    let done = compacted.is_some();
                    base = compacted.unwrap_or_else(|| base.clone());
                    (done, verbatim_recall(first, base.text()))
                })
                .collect()
        })
        .collect();
    let theirs: Vec<Vec<Vec<f64>>> = Baseline::ALL
        .iter()
        .map(|baseline| {
            with_rules
                .par_iter()
                .map(|first| {
                    let mut base = (*first).clone();
                    (0..rounds)
                        .map(|_| {
                            let text = baseline.compact(&base, Budget::Percent(ratio).of(base.tokens()));
                            base = base.reread(&text);
                            verbatim_recall(first, base.text())
                        })
                        .collect()
                })
                .collect()
        })
        .collect();
    (0..rounds)
        .map(|round| Round {
            round: round + 1,
            compacted: ours.iter().filter(|one| one[round].0).count(),
            recall: mean(ours.iter().map(|one| one[round].1)),
            baselines: theirs.iter().map(|all| mean(all.iter().map(|one| one[round]))).collect(),
        })
        .collect()
}

/// One strategy of Table 7.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecompositionRow {
    /// Its name.
    pub strategy: &'static str,
    /// Configurations that were partitioned.
    pub configurations: usize,
    /// Configurations that were refused.
    pub refused: usize,
    /// Mean share of partitions with a violation.
    pub violating: Option<f64>,
    /// Share of configurations with at least one.
    pub configurations_violating: Option<f64>,
    /// Tokens copied ÷ tokens in: mean, median, 90th percentile, largest.
    pub overhead: [Option<f64>; 4],
}

/// Partition every base at `share` percent of its tokens a partition (Table 7).
pub fn decomposition_table(bases: &[Base], share: f64) -> Vec<DecompositionRow> {
    let ours: Vec<Option<(f64, f64)>> = bases
        .par_iter()
        .map(|base| {
            let parts = decompose(base, Budget::Percent(share)).ok()?;
            let found = parts.locality(base);
            Some((found.violating as f64 / found.partitions.max(1) as f64, parts.overhead))
        })
        .collect();
    let done: Vec<(f64, f64)> = ours.iter().flatten().copied().collect();
    let mut rows = vec![decomposition_row("TypeDecompose", &done, bases.len() - done.len())];
    type Chunker = fn(&Base, usize) -> Vec<Vec<usize>>;
    let chunkers: [(&'static str, Chunker); 3] = [
        ("chunk_by_tokens", chunk_by_tokens),
        ("chunk_by_topic", chunk_by_topic),
        ("chunk_by_paragraph", chunk_by_paragraph),
    ];
    for (name, chunk) in chunkers {
        let found: Vec<(f64, f64)> = bases
            .par_iter()
            .map(|base| {
                let chunks = chunk(base, Budget::Percent(share).of(base.tokens()));
                let found = locality(base, chunks.iter().map(|placed| (&placed[..], &[][..])));
                (found.violating as f64 / found.partitions.max(1) as f64, 0.0)
            })
            .collect();
        rows.push(decomposition_row(name, &found, 0));
    }
    rows
}

fn decomposition_row(strategy: &'static str, found: &[(f64, f64)], refused: usize) -> DecompositionRow {
    let mut overhead: Vec<f64> = found.iter().map(|(_, overhead)| *overhead).collect();
    overhead.sort_by(f64::total_cmp);
    let at =
        |share: f64| overhead.get(((overhead.len() as f64 * share) as usize).min(overhead.len().max(1) - 1)).copied();
    DecompositionRow {
        strategy,
        configurations: found.len(),
        refused,
        violating: mean(found.iter().map(|(violating, _)| *violating)),
        configurations_violating: mean(found.iter().map(|(violating, _)| f64::from(u8::from(*violating > 0.0)))),
        overhead: [mean(overhead.iter().copied()), at(0.5), at(0.9), overhead.last().copied()],
    }
}

/// A query with the topics that a person tagged it with.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggedQuery {
    /// The words.
    pub text: String,
    /// Its topics, in lower case.
    pub topics: Vec<String>,
}

/// One retriever of Table 8: mean share of in-scope constraints among the first 5, 10, 20 and 50 results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalRow {
    /// Its name.
    pub retriever: String,
    /// Recall at 5, 10, 20, 50.
    pub recall: [Option<f64>; 4],
}

/// A scorer of the retrieval table: its name, and for every query the scores of all entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Its name.
    pub name: &'static str,
    /// By query, in the order of [`Index::entries`].
    pub scores: Vec<Vec<f32>>,
}

impl Scored {
    /// BM25.
    pub fn bm25(index: &Index, queries: &[TaggedQuery]) -> Self {
        Self { name: "BM25", scores: queries.iter().map(|query| index.scores(&query.text)).collect() }
    }
}

/// The retrieval table (Table 8) over an index and tagged queries: every scorer alone, with constraints in scope before
/// it, and with those from the risk `least_risk` up before it. A constraint is in scope when it binds in one of the query's
/// topics.
pub fn retrieval_table(
    index: &Index,
    queries: &[TaggedQuery],
    scorers: &[Scored],
    least_risk: f32,
) -> Vec<RetrievalRow> {
    let variants = [
        ("", Pinning::Off),
        ("TypeRetrieve, ", Pinning::All),
        ("TypeRetrieve authority-weighted, ", Pinning::AtRisk(least_risk)),
    ];
    let in_scope = |entry: &Entry, query: &TaggedQuery| {
        entry.judgement.pinned
            && entry.scope.as_ref().is_none_or(|scope| scope.iter().any(|topic| query.topics.contains(topic)))
    };
    let recall = |scorer: &Scored, pinning: Pinning, k: usize| {
        mean(queries.iter().zip(&scorer.scores).filter_map(|(query, scores)| {
            let topics: Vec<&str> = query.topics.iter().map(String::as_str).collect();
            let found = retrieve_by(index, &Query { text: &query.text, k, topics: &topics, pinning }, scores);
            let wanted = index.entries().iter().filter(|entry| in_scope(entry, query)).count();
            let got = found.results.iter().filter(|f| in_scope(&index.entries()[f.entry], query)).count();
            Share { kept: got, of: wanted }.rate()
        }))
    };
    let row = |(name, pinning): (&str, Pinning), scorer: &Scored| RetrievalRow {
        retriever: format!("{name}{}", scorer.name),
        recall: [5, 10, 20, 50].map(|k| recall(scorer, pinning, k)),
    };
    variants.iter().flat_map(|variant| scorers.iter().map(|scorer| row(*variant, scorer))).collect()
}

/// The numbers of the paper's Tables 5 and 6 for one ratio, for the rows that both have: strategy, then C and P, then B,
/// F and E where the paper gives them.
pub fn paper_compaction(ratio: f64) -> &'static [(&'static str, [Option<f64>; 5])] {
    match ratio as u32 {
        50 => &[
            ("TypeCompact", [Some(1.00), Some(0.92), Some(0.50), Some(0.51), Some(0.84)]),
            ("Hierarchical truncation", [Some(0.50), Some(0.82), Some(0.75), Some(0.63), Some(0.77)]),
            ("Temporal windowing", [Some(0.58), Some(0.80), Some(0.64), Some(0.78), Some(0.91)]),
            ("Aggressive pruning", [Some(0.51), Some(0.75), Some(0.67), Some(0.66), Some(0.84)]),
            ("MaRS-FL (ours)", [Some(0.99), Some(0.89), None, None, None]),
            ("JevSelect-like (ours)", [Some(0.92), None, None, None, None]),
        ],
        25 => &[
            ("TypeCompact", [Some(0.95), Some(0.71), None, None, None]),
            ("MaRS-FL (ours)", [Some(0.75), Some(0.61), None, None, None]),
            ("JevSelect-like (ours)", [Some(0.75), None, None, None, None]),
        ],
        10 => &[
            ("TypeCompact", [Some(0.80), Some(0.47), None, None, None]),
            ("MaRS-FL (ours)", [Some(0.43), Some(0.22), None, None, None]),
            ("JevSelect-like (ours)", [Some(0.54), None, None, None, None]),
        ],
        _ => &[],
    }
}

/// The rows of language models in the paper's Table 6 for one ratio: model, then the constraints and the procedures that it
/// keeps under the production prompt. "Sonnet 4.6" is the one behind Claude Code's `/compact`.
pub fn paper_llm_compaction(ratio: f64) -> &'static [(&'static str, [f64; 2])] {
    match ratio as u32 {
        50 => &[
            ("gpt-5.4-nano", [0.52, 0.80]),
            ("gpt-5.4-mini", [0.48, 0.77]),
            ("Sonnet 4.6", [0.53, 0.83]),
            ("Opus 4.7", [0.45, 0.81]),
        ],
        25 => &[
            ("gpt-5.4-nano", [0.26, 0.60]),
            ("gpt-5.4-mini", [0.29, 0.62]),
            ("Sonnet 4.6", [0.39, 0.65]),
            ("Opus 4.7", [0.26, 0.68]),
        ],
        10 => &[
            ("gpt-5.4-nano", [0.14, 0.43]),
            ("gpt-5.4-mini", [0.16, 0.47]),
            ("Sonnet 4.6", [0.24, 0.54]),
            ("Opus 4.7", [0.17, 0.52]),
        ],
        _ => &[],
    }
}

/// The types of the columns of [`CompactionRow::by_type`].
pub const COLUMNS: [KnowledgeType; 5] = [
    KnowledgeType::Constraint,
    KnowledgeType::Procedural,
    KnowledgeType::Belief,
    KnowledgeType::Preference,
    KnowledgeType::Episodic,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;

    const A: &str = "# Rules\n\n- Never push to the main branch.\n\n# Web\n\n- Never inline styles in a page.\n- React renders all of the pages that there are, on the server.\n\n# Data\n\n- Postgres holds all of the tables, in a cluster of its own.\n- On Monday we moved the cluster to another room of the house.\n";

    #[test]
    fn answered_is_what_fits_and_safe_answers_are_whole() {
        let bases = [base(A), base(&A.replace("Never", "Ever"))];
        for ratio in [70.0, 50.0, 10.0] {
            let table = compaction_table(&bases, &[], ratio, &[]);
            assert_eq!((table.answered, table.over_budget), (table.fitting, 0));
            assert!(table.recall_of_answered.is_none_or(|recall| recall == 1.0), "{table:?}");
            assert_eq!(table.rows.len(), 2 + Baseline::ALL.len());
        }
        let rounds = rounds_table(&bases, 5, 70.0);
        assert!(rounds.iter().all(|round| round.recall == Some(1.0)), "{rounds:?}");
    }

    #[test]
    fn ours_never_violates_and_others_do() {
        let rows = decomposition_table(&[base(A)], 60.0);
        assert_eq!((rows[0].configurations, rows[0].violating), (1, Some(0.0)));
        assert!(rows[2].violating > Some(0.0), "{rows:?}");
    }

    #[test]
    fn pinning_finds_what_words_do_not() {
        let mut index = Index::default();
        index.replace("a.md", &base(A));
        let queries = [TaggedQuery { text: "postgres tables".to_owned(), topics: vec!["web".to_owned()] }];
        let rows = retrieval_table(&index, &queries, &[Scored::bm25(&index, &queries)], 2.0);
        let names: Vec<&str> = rows.iter().map(|row| row.retriever.as_str()).collect();
        assert_eq!(names, ["BM25", "TypeRetrieve, BM25", "TypeRetrieve authority-weighted, BM25"]);
        assert_eq!(rows[0].recall[0], Some(0.0));
        assert_eq!(rows[1].recall[0], Some(1.0));
        assert_eq!(rows[2].recall[0], Some(0.0));
    }
}
