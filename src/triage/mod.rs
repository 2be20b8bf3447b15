//! Knowledge triage: operators that shrink, split and search an agent's knowledge without losing a constraint.
//!
//! A text is read once into a [`Base`] of typed items; what is flagged as a constraint is *pinned*. [`compact`] fits a
//! base into a budget or refuses; [`protect`] guards the output of any other compactor.

mod base;
mod baselines;
mod canonical;
mod check;
mod compact;
mod cycle;
mod decompose;
mod index;
mod kmeans;
mod layout;
mod lint;
mod measure;
mod render;
mod retrieve;
mod shorten;
mod tables;
mod tokens;
mod topics;
mod verify;
mod watch;

pub use base::{Base, Item, ItemId, Judgement};
pub use baselines::{Baseline, chunk_by_paragraph, chunk_by_tokens, chunk_by_topic};
pub use canonical::Canonical;
pub use check::{Check, Lost, Weakened, check, key_token_share, not_kept, word_set};
pub use compact::{Change, Compaction, Outcome, Refusal, Verdict, compact};
pub use cycle::{Cycle, SplitBase, triage};
pub use decompose::{Decomposition, Locality, Partition, SPLIT_ABOVE, TooNarrow, decompose, locality};
pub use index::{Entry, Index, IndexError};
pub use kmeans::{Leaf, WordVector, split};
pub use lint::{Finding, Lint, Rule, lint, sarif};
pub use measure::{KEY_TOKEN_SHARE, Preservation, Share, preservation};
pub use retrieve::{Found, Pinning, Query, Retrieved, retrieve, retrieve_by};
pub use tables::{
    COLUMNS, CompactionRow, CompactionTable, DecompositionRow, RetrievalRow, Round, TaggedQuery, compaction_table,
    decomposition_table, paper_compaction, retrieval_table, rounds_table,
};
pub use tokens::{Budget, BudgetError, Tokenizer};
pub use topics::{Scope, Scopes, Topic, TopicId, TopicTree};
pub use verify::{Guard, Guarded, guards, missing, protect};
pub use watch::{Escalation, Plan, Planned, TRIGGER, Watch};
