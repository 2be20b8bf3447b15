//! Knowledge triage: operators that shrink, split and search an agent's knowledge without losing a constraint.
//!
//! A text is read once into a [`Base`] of typed items; what is flagged as a constraint is *pinned*. [`compact`] fits a
//! base into a budget or refuses, [`decompose`] splits one that is too large, [`retrieve`] pulls items back, and
//! [`triage`] runs the three as one cycle. [`protect`] guards the output of any other compactor, [`Watch`] says when a
//! context has to be compacted and stops what would lose a rule; [`check`] and [`lint`] look at files.
//!
//! All of it is pure and deterministic: no file, clock or network, no runtime. A package with
//! `aac = { default-features = false }` gets these operators and the classifier that is compiled in.
//!
//! # A compaction hook for an agent runtime
//!
//! The runtime calls the hook before it replaces its context by a summary. The summary goes in only when every rule is
//! in it, word for word; rules that the summariser lost are put back, and where that does not fit nothing is replaced.
//!
//! ```
//! use aac::classify::{Policy, linear};
//! use aac::taxonomy::OperatingPoint;
//! use aac::triage::{Base, Escalation, Plan, Tokenizer, Watch};
//!
//! /// The context to go on with.
//! fn before_compaction(context: &str, summary: &str, window: usize) -> Result<String, Escalation> {
//!     let policy = Policy::at(OperatingPoint::Safe);
//!     let base = Base::classify("session.md", context, Tokenizer::O200k, linear::shipped(), &policy);
//!     match Watch::new(window).review(&base, summary) {
//!         Plan::Wait { .. } => Ok(context.to_owned()),
//!         Plan::Ready(planned) => planned.commit(context),
//!         Plan::Escalate(escalation) => Err(escalation),
//!     }
//! }
//!
//! let context = "- NEVER write to the prod namespace; stage only.\n- The user refactors the staging manifests.\n";
//! let next = before_compaction(context, "The user is refactoring manifests.", 200).unwrap();
//! assert!(next.contains("NEVER write to the prod namespace"));
//! assert!(before_compaction(context, "The user is refactoring manifests.", 10).is_err());
//! ```
//!
//! # A lint step for CI
//!
//! `aac lint` ends with code 6 when it finds something, and writes SARIF for the code host:
//!
//! ```yaml
//! - run: aac lint AGENTS.md CLAUDE.md --format sarif > agent-files.sarif
//! - if: always()
//!   uses: github/codeql-action/upload-sarif@v3
//!   with: { sarif_file: agent-files.sarif }
//! ```

mod ablations;
mod base;
mod baselines;
mod canonical;
mod check;
mod compact;
mod cycle;
mod decompose;
mod dense;
mod index;
mod kmeans;
mod layout;
mod lint;
mod measure;
pub mod policies;
pub mod production;
mod readback;
mod render;
mod retrieve;
mod scaling;
mod shorten;
mod tables;
mod tokens;
mod topics;
mod vectors;
mod verify;
mod watch;
mod words;

pub use ablations::{Ablations, DENSE, LabelAblation, VerifierAblation, ablations};
pub use base::{Base, Item, ItemId, Judgement};
pub use baselines::{Baseline, chunk_by_paragraph, chunk_by_tokens, chunk_by_topic};
pub use canonical::Canonical;
pub use check::{Check, Lost, Weakened, check, key_token_share, not_kept, word_set};
pub use compact::{Change, Compaction, Outcome, Refusal, Verdict, compact};
pub use cycle::{Cycle, SplitBase, triage};
pub use decompose::{Decomposition, Locality, Partition, SPLIT_ABOVE, TooNarrow, decompose, locality};
pub use dense::{Dense, Embed, Rerank, best_of, reorder, rerank};
pub use index::{Entry, Index, IndexError};
pub use kmeans::{Leaf, WordVector, split};
pub use lint::{Finding, Lint, Rule, lint, sarif};
pub use measure::{KEY_TOKEN_SHARE, Preservation, Share, labelled_preservation, preservation};
pub use retrieve::{Found, Pinning, Query, Retrieved, retrieve, retrieve_by};
pub use scaling::{Opened, Scaling, scaling};
pub use tables::{
    COLUMNS, CompactionRow, CompactionTable, DecompositionRow, LabelledRow, Labels, Outputs, RetrievalRow, Round,
    Scored, TaggedQuery, compaction_table, decomposition_table, paper_compaction, paper_llm_compaction,
    retrieval_table, rounds_table, verbatim_recall,
};
pub use tokens::{Budget, BudgetError, Tokenizer};
pub use topics::{Scope, Scopes, Topic, TopicId, TopicTree};
pub use vectors::{VectorError, VectorStore};
pub use verify::{Guard, Guarded, guards, missing, protect};
pub use watch::{Escalation, Plan, Planned, TRIGGER, Watch};
