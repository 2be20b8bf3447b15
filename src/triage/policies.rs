//! The policies of τ-bench that the paper compacted: ours beside theirs, ratio by ratio, against constraints picked out by
//! hand.
//!
//! The policies are not part of this repository (MIT licence, from the benchmark's own). Kept here are the line numbers of
//! the constraints and the first half of the SHA-256 of each line.

use super::{Base, Baseline, Budget, Guard, Item, compact, guards, missing};
use crate::corpus::Sha256;
use crate::taxonomy::KnowledgeType;
use serde::Serialize;

/// Line and hash of every constraint of the retail policy.
pub const RETAIL: &[(u32, &str)] = &[
    (5, "45bed06cb9503bf4ee3ccd31bca2cbb1"),
    (9, "c38dc45a4da558c3f677ef46ee12cbad"),
    (11, "cdfaa17c8ca76e400a56d0d0927d0ab3"),
    (13, "74ade42a279b8569418a512a39262879"),
    (15, "a22fcf737c40f8d8b9da223529ff423f"),
    (17, "f82017aaf5d9af63a0afe8f3ecbcd077"),
    (29, "7602e7b8e4eb2638935649787d3e5857"),
    (31, "6cf1f37fdae009f8cc74cd57030c0478"),
    (35, "3627019bb843ee03cac2b3cf6b9e3aff"),
    (37, "c5c9f365660e660ae7a9bc3b54428e67"),
    (43, "c520618631decf924fedcef8a84d6043"),
    (45, "02d461d38f3b34d0f984c34bb837f851"),
    (49, "3d43bd1bc9508f6e2522cae0cedd0037"),
    (51, "343ae3a41ff674a027aad3094246d17e"),
    (57, "2ebee995e466f1ad58b5ec99c12f1567"),
    (59, "132b029aa1bc31b7f60d6f1b07a1b4de"),
    (61, "be98e1879555f63d7c1e2516b609e558"),
    (65, "334cea6613f1e80b9d17251ba25b7d67"),
    (67, "93fc1da330496354ced4753f188932ee"),
    (69, "57135cd301d287f7014acf42f799837f"),
    (75, "80260c1e3fdd98ba7a868bb6cc5a7069"),
    (77, "0ee35b3cf1ecd0321ab3b1bcf67cb487"),
    (79, "be98e1879555f63d7c1e2516b609e558"),
];

/// Line and hash of every constraint of the airline policy.
pub const AIRLINE: &[(u32, &str)] = &[
    (7, "f0f9f9cc4f96cb7f08467efabc33c4a5"),
    (9, "d6c160cb026ba6316fd5aef18e5fad13"),
    (11, "2bb7c23f49a9a69c1452d53c48498231"),
    (13, "f09f65bc7e0220dc2b090e036a41be05"),
    (15, "f82017aaf5d9af63a0afe8f3ecbcd077"),
    (25, "f7e63d5032950c52fd2151964cd937f8"),
    (26, "077fb85b8957d55072074d8b0692eeb3"),
    (30, "232a284e8e0e143d8c33e867c964d358"),
    (32, "385ead511557d2a33c6c9507fa9b3c25"),
    (34, "76d9e6c748a6b777e8aa45be3ff7ea21"),
    (42, "cfcb6397b888ed2731d142110384fc17"),
    (44, "509e6d48c039c903817859ff9ff2930a"),
    (46, "3f4e3af4ba210cb5037987b9d8456043"),
    (48, "047774020b209d6b4601584d764bf010"),
    (50, "9bd8b47d772c9ccf5afa1cf362f0375f"),
    (52, "e18a7788ec38865cdae3af7929dadc50"),
    (56, "dad706c38e47534e75c32bfc957cf118"),
    (58, "a61c46b78c754b0b349f880b19345051"),
    (60, "070db9fd2a58f6eb59637fafa84a9793"),
    (70, "2d58850720d72dee802377dc751f3746"),
];

/// What the paper reports: tokens of the whole policy, of TypeCompact, and of hierarchical truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PaperPolicy {
    /// Whole.
    pub full: Option<usize>,
    /// TypeCompact.
    pub type_compact: usize,
    /// Hierarchical truncation.
    pub hierarchical: usize,
}

/// Retail: 22 constraints and 6 procedures pinned.
pub const PAPER_RETAIL: PaperPolicy = PaperPolicy { full: Some(1_338), type_compact: 1_136, hierarchical: 669 };

/// Airline; the whole is given in characters (6,155).
pub const PAPER_AIRLINE: PaperPolicy = PaperPolicy { full: None, type_compact: 647, hierarchical: 718 };

/// One ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRow {
    /// Percent of the policy's tokens.
    pub ratio: f64,
    /// Budget in tokens.
    pub budget: usize,
    /// Whether the answer is Safe.
    pub safe: bool,
    /// Tokens of the output, or of the best effort.
    pub tokens_out: usize,
    /// Share of the hand-picked constraints that stand word for word.
    pub recall: f64,
    /// The same of hierarchical truncation in the same budget.
    pub hierarchical: f64,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyTable {
    /// Its file.
    pub name: String,
    /// Its tokens.
    pub tokens: usize,
    /// Hand-picked constraints.
    pub constraints: usize,
    /// How many of those the classifier flags.
    pub flagged: usize,
    /// Items flagged in all.
    pub pinned: usize,
    /// Items taken for procedures.
    pub procedures: usize,
    /// Tokens that the flagged constraints need.
    pub min_safe_budget: usize,
    /// Tokens that constraints and procedures need.
    pub min_full_budget: usize,
    /// What the paper reports.
    pub paper: PaperPolicy,
    /// By ratio.
    pub rows: Vec<PolicyRow>,
}

/// The lines that are constraints, when `text` is one of the two policies as they were picked from.
pub fn hand_picked(text: &str) -> Option<(&'static [(u32, &'static str)], PaperPolicy)> {
    let is = |lines: &[(u32, &str)]| {
        lines.iter().all(|(line, hash)| {
            let line = text.lines().nth(*line as usize - 1).unwrap_or_default();
            Sha256::of(line.as_bytes()).to_string().starts_with(hash)
        })
    };
    [(RETAIL, PAPER_RETAIL), (AIRLINE, PAPER_AIRLINE)].into_iter().find(|(lines, _)| is(lines))
}

/// The table of one policy; nothing when `base` is not one of the two.
pub fn policy_table(name: &str, base: &Base) -> Option<PolicyTable> {
    let (lines, paper) = hand_picked(base.text())?;
    let picked = |item: &&Item| lines.iter().any(|(line, _)| *line == item.line);
    let rules: Vec<Guard> = {
        let by_hand = base.clone().rejudge(|item, judgement| {
            let mut judgement = judgement;
            judgement.pinned = picked(&item);
            judgement
        });
        guards(&by_hand)
    };
    let recall = |output: &str| 1.0 - missing(&rules, output).len() as f64 / rules.len().max(1) as f64;
    let row = |ratio: f64| {
        let outcome = compact(base, Budget::Percent(ratio));
        PolicyRow {
            ratio,
            budget: outcome.budget,
            safe: outcome.safe().is_some(),
            tokens_out: base.tokenizer().count(outcome.output()),
            recall: recall(outcome.output()),
            hierarchical: recall(&Baseline::Head.compact(base, outcome.budget)),
        }
    };
    let outcome = compact(base, Budget::Tokens(0));
    let procedural = |item: &&Item| item.lane() == KnowledgeType::Procedural;
    Some(PolicyTable {
        name: name.to_owned(),
        tokens: base.tokens(),
        constraints: lines.len(),
        flagged: base.items().iter().filter(picked).filter(|item| item.pinned()).count(),
        pinned: base.items().iter().filter(|item| item.pinned()).count(),
        procedures: base.items().iter().filter(procedural).count(),
        min_safe_budget: outcome.min_safe_budget,
        min_full_budget: outcome.min_full_budget,
        paper,
        rows: [95.0, 85.0, 75.0, 50.0, 25.0, 10.0].map(row).to_vec(),
    })
}
