//! The retrieval table: chunks of a policy among documents of other projects, and queries tagged with topics.

use super::configurations::Configuration;
use crate::corpus::Sha256;
use crate::job::retrieve::{SearchError, Searcher};
use crate::taxonomy::KnowledgeType;
use crate::triage::{Base, Entry, Index, Judgement, RetrievalRow, Scored, TaggedQuery, retrieval_table};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Instant;

/// Documents among which the policy's chunks have to be found, at least.
pub const DISTRACTORS: usize = 1_000;

/// Shortest and longest document, bytes.
const DOCUMENT: std::ops::Range<usize> = 200..2_000;

/// Risk from which the weighted row puts constraints first.
const WEIGHTED_FROM: f32 = 0.2;

/// What the table was computed on, and its rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalEvaluation {
    /// Chunks of the policy.
    pub chunks: usize,
    /// How many of them are flagged as constraints.
    pub flagged: usize,
    /// Documents of other projects.
    pub distractors: usize,
    /// Queries.
    pub queries: usize,
    /// Constraints in scope, mean over queries.
    pub in_scope: f64,
    /// The rows.
    pub rows: Vec<RetrievalRow>,
    /// Milliseconds a query, mean, with constraints first.
    pub milliseconds: f64,
    /// What the paper reports.
    pub paper: &'static [(&'static str, [f64; 4])],
}

/// The paper's Table 8 and its row of authority weighting: recall at 5, 10, 20, 50.
pub const PAPER: [(&str, [f64; 4]); 7] = [
    ("BM25", [0.32, 0.38, 0.43, 0.49]),
    ("dense", [0.34, 0.45, 0.67, 0.91]),
    ("dense, reranked", [0.25, 0.36, 0.55, 0.91]),
    ("Sonnet 4.6", [0.34, 0.47, 0.61, 0.73]),
    ("TypeRetrieve, dense", [0.40, 0.57, 0.96, 1.00]),
    ("full pin", [0.40, 0.57, 0.96, 1.00]),
    ("authority-weighted", [0.40, 0.58, 0.93, 1.00]),
];

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    /// Not enough to search among.
    #[error(
        "Failed to set up the retrieval table: {found} documents were found and {DISTRACTORS} are needed; name more \
         agent files or repositories"
    )]
    Few {
        /// Documents found.
        found: usize,
    },
    /// The encoder or the cross-encoder failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A line of the queries is no query.
    #[error("Failed to read line {line} of the queries: {source}; a line holds text and topics")]
    Query {
        /// 1-based.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A query is tagged with a topic that the policy does not have.
    #[error("Failed to use line {line} of the queries: the policy has no topic {topic:?}; its topics are its headings")]
    Topic {
        /// 1-based.
        line: usize,
        /// The topic.
        topic: String,
    },
}

/// The queries that ship with the program: about the retail policy of τ-bench, written and tagged by hand.
pub const RETAIL_QUERIES: &str = include_str!("retrieval/queries.jsonl");

/// Read queries, one JSON object a line.
pub fn read_queries(text: &str) -> Result<Vec<TaggedQuery>, RetrievalError> {
    #[derive(Deserialize)]
    struct Line {
        text: String,
        topics: Vec<String>,
    }
    let read = |(at, line): (usize, &str)| {
        let line: Line = serde_json::from_str(line).map_err(|source| RetrievalError::Query { line: at + 1, source })?;
        Ok(TaggedQuery { text: line.text, topics: line.topics.iter().map(|topic| topic.to_lowercase()).collect() })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(read).collect()
}

/// Compute the table: the items of `policy` among documents cut from `others`. A document is the text under one heading
/// of another project; what binds in it, binds in that project alone.
pub fn evaluate_retrieval(
    policy: &Base,
    others: &[Configuration],
    queries: &[TaggedQuery],
    searcher: &Searcher,
) -> Result<RetrievalEvaluation, RetrievalError> {
    let names: Vec<String> = (0..policy.topics().len() as u32)
        .filter_map(|id| policy.topics().get(crate::triage::TopicId(id)))
        .map(|topic| topic.name.to_lowercase())
        .collect();
    for (at, query) in queries.iter().enumerate() {
        if let Some(topic) = query.topics.iter().find(|topic| !names.contains(topic)) {
            return Err(RetrievalError::Topic { line: at + 1, topic: topic.clone() });
        }
    }
    let mut index = Index::default();
    index.replace("policy", policy);
    let chunks = index.entries().len();
    let flagged = index.entries().iter().filter(|entry| entry.judgement.pinned).count();
    let mut documents = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for other in others {
        documents.extend(documents_of(other).into_iter().filter(|d| seen.insert(Sha256::of(d.text.as_bytes()))));
    }
    let found = documents.len();
    if found < DISTRACTORS {
        return Err(RetrievalError::Few { found });
    }
    // Drawn evenly, so that no single project fills the index.
    let mut drawn: Vec<Entry> = Vec::with_capacity(DISTRACTORS);
    let mut documents: Vec<Option<Entry>> = documents.into_iter().map(Some).collect();
    for n in 0..DISTRACTORS {
        drawn.extend(documents[n * found / DISTRACTORS].take());
    }
    index.replace_entries("others", drawn);
    let begun = Instant::now();
    for query in queries {
        let topics: Vec<&str> = query.topics.iter().map(String::as_str).collect();
        let asked = crate::triage::Query { text: &query.text, k: 50, topics: &topics, ..Default::default() };
        std::hint::black_box(crate::triage::retrieve(&index, &asked));
    }
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3 / queries.len().max(1) as f64;
    let in_scope: usize = queries
        .iter()
        .map(|query| {
            let binds = |entry: &&Entry| {
                entry.judgement.pinned
                    && entry.scope.as_ref().is_none_or(|scope| scope.iter().any(|topic| query.topics.contains(topic)))
            };
            index.entries().iter().filter(binds).count()
        })
        .sum();
    Ok(RetrievalEvaluation {
        chunks,
        flagged,
        distractors: index.entries().len() - chunks,
        queries: queries.len(),
        in_scope: in_scope as f64 / queries.len().max(1) as f64,
        rows: retrieval_table(&index, queries, &scored(&index, queries, searcher)?, WEIGHTED_FROM),
        milliseconds,
        paper: &PAPER,
    })
}

/// The scores of BM25, and of an encoder and a cross-encoder where there are any.
fn scored(index: &Index, queries: &[TaggedQuery], searcher: &Searcher) -> Result<Vec<Scored>, SearchError> {
    let mut scorers = vec![Scored::bm25(index, queries)];
    if let Some(embedded) = searcher.embed(index, None)? {
        let first = |query: &TaggedQuery| searcher.first(index, Some(&embedded.dense), &query.text);
        scorers.push(Scored { name: "dense", scores: queries.iter().map(first).collect::<Result<_, _>>()? });
    }
    let [_, reranker] = searcher.ids();
    if reranker.is_some() {
        let first = scorers.last().map(|scorer| scorer.scores.clone()).unwrap_or_default();
        let reread = queries.iter().zip(first).map(|(query, scores)| searcher.rerank(index, scores, &query.text));
        scorers.push(Scored { name: "reranked", scores: reread.collect::<Result<_, _>>()? });
    }
    Ok(scorers)
}

/// The sections of a configuration as documents.
fn documents_of(other: &Configuration) -> Vec<Entry> {
    let found = crate::segment::segment(&other.path, &other.text);
    let mut by_heading: HashMap<Option<u32>, (u32, String)> = HashMap::new();
    let mut order = Vec::new();
    for span in &found.items {
        let (_, text) = by_heading.entry(span.heading).or_insert_with(|| {
            order.push(span.heading);
            (span.line, String::new())
        });
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&other.text[span.range()]);
    }
    let document = |heading: &Option<u32>| {
        let (line, text) = by_heading.get(heading)?;
        let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= DOCUMENT.end).last()?;
        (text.len() >= DOCUMENT.start).then(|| Entry {
            text: text[..end].to_owned(),
            source: other.name.clone(),
            line: *line,
            topics: vec![other.name.to_lowercase()],
            scope: Some(vec![other.name.to_lowercase()]),
            judgement: Judgement { item_type: KnowledgeType::Belief, risk: 0.0, pinned: false },
        })
    };
    order.iter().filter_map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::Tokenizer;

    #[test]
    fn the_shipped_queries_read_and_wrong_ones_are_named() {
        let queries = read_queries(RETAIL_QUERIES).unwrap();
        assert_eq!(queries.len(), 50);
        assert!(queries.iter().all(|query| !query.topics.is_empty()));
        let error = read_queries("{\"text\": \"x\", \"topics\": []}\n{}\n").unwrap_err().to_string();
        assert!(error.starts_with("Failed to read line 2"), "{error}");
    }

    #[test]
    fn constraints_of_the_policy_come_before_a_thousand_documents() {
        let policy = "# Shop\n\n- Never lie to a customer.\n\n## Returns\n\n- Never refund to another card.\n- Parcels come from Leipzig.\n\n## Cats\n\n- Never sell cats.\n";
        let policy = Base::read("policy.md", policy, Tokenizer::Cl100k, |item| {
            let never = item.text.starts_with("Never");
            Judgement::certain(if never { KnowledgeType::Constraint } else { KnowledgeType::Belief })
        });
        let others: Vec<Configuration> = (0..1_100)
            .map(|n| {
                let text = format!("# Part {n}\n\n{}", "Refund the card of the parcel, always. ".repeat(6 + n % 5));
                Configuration { name: format!("o/r{n}"), path: "AGENTS.md".to_owned(), text: format!("{text}{n}\n") }
            })
            .collect();
        let query = TaggedQuery { text: "where do parcels come from".to_owned(), topics: vec!["returns".to_owned()] };
        let found = evaluate_retrieval(&policy, &others, std::slice::from_ref(&query), &Searcher::default()).unwrap();
        assert_eq!((found.chunks, found.flagged, found.distractors), (4, 3, DISTRACTORS));
        assert_eq!(found.in_scope, 2.0);
        assert_eq!(found.rows[1].recall[0], Some(1.0), "{found:?}");
        assert!(found.rows[0].recall[0] < Some(1.0), "{found:?}");
        let fixture = |name: &str| {
            let place = format!("minilm:{}/tests/fixtures/encoder{name}", env!("CARGO_MANIFEST_DIR"));
            place.parse::<crate::job::encoders::EncoderPlace>().unwrap()
        };
        let searcher = Searcher::load(Some(&fixture("")), Some(&fixture("/cross"))).unwrap();
        let by_meaning = evaluate_retrieval(&policy, &others, std::slice::from_ref(&query), &searcher).unwrap();
        let names: Vec<&str> = by_meaning.rows.iter().map(|row| row.retriever.as_str()).collect();
        assert_eq!(names[..4], ["BM25", "dense", "reranked", "TypeRetrieve, BM25"]);
        assert!(by_meaning.rows[3..6].iter().all(|row| row.recall[0] == Some(1.0)), "{by_meaning:?}");
        let wrong = TaggedQuery { topics: vec!["dogs".to_owned()], ..query };
        let evaluate = |others: &[Configuration], queries: &[TaggedQuery]| {
            evaluate_retrieval(&policy, others, queries, &Searcher::default())
        };
        assert!(matches!(evaluate(&others, &[wrong]), Err(RetrievalError::Topic { line: 1, .. })));
        assert!(matches!(evaluate(&others[..9], &[]), Err(RetrievalError::Few { found: 9 })));
    }
}
