//! The guarantee on the retail and airline policies of τ-bench, whose constraints were picked out by hand.
//!
//! The policies are not part of this repository: `AAC_TAU_BENCH` names the folder that holds `retail-policy.md` and
//! `airline-policy.md` (MIT licence, from the benchmark's own repository). Kept here are line numbers and the first
//! half of the SHA-256 of each line.

use aac::classify::{Policy, linear};
use aac::corpus::Sha256;
use aac::taxonomy::{KnowledgeType, OperatingPoint};
use aac::triage::{Base, Budget, Judgement, Tokenizer, compact, guards, missing};
use std::path::PathBuf;

/// Line and hash of every constraint of the retail policy.
const RETAIL: &[(u32, &str)] = &[
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

/// The same of the airline policy.
const AIRLINE: &[(u32, &str)] = &[
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

/// The policy `name`, or nothing when the benchmark is not here; says so, for a test that checks nothing must not pass
/// in silence.
#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
fn policy(name: &str, lines: &[(u32, &str)]) -> Option<String> {
    let Some(folder) = std::env::var_os("AAC_TAU_BENCH") else {
        eprintln!("SKIPPED: set AAC_TAU_BENCH to the folder with {name} to check the guarantee on it");
        return None;
    };
    let text = std::fs::read_to_string(PathBuf::from(folder).join(name)).unwrap();
    for (line, hash) in lines {
        let found = text.lines().nth(*line as usize - 1).unwrap_or_default();
        assert!(Sha256::of(found.as_bytes()).to_string().starts_with(hash), "{name}:{line} is another line: {found}");
    }
    Some(text)
}

fn guarantee(name: &str, lines: &[(u32, &str)]) {
    let Some(text) = policy(name, lines) else { return };
    let is_constraint = |line: u32| lines.iter().any(|(at, _)| *at == line);
    for tokenizer in Tokenizer::ALL {
        // Judged by hand, in the order of the items.
        let found = aac::segment::segment(name, &text);
        let mut spans = found.items.iter();
        let base = Base::read(name, &text, tokenizer, |_| {
            let line = spans.next().map_or(0, |span| span.line);
            Judgement::certain(if is_constraint(line) { KnowledgeType::Constraint } else { KnowledgeType::Belief })
        });
        assert_eq!(guards(&base).len(), lines.len(), "{name}");
        let least = compact(&base, Budget::Tokens(0)).min_safe_budget;
        for budget in (0..=base.tokens()).step_by(13).chain([least, least - 1]) {
            let outcome = compact(&base, Budget::Tokens(budget));
            assert_eq!(outcome.safe().is_some(), budget >= least, "{name} in {budget} tokens of {tokenizer}");
            if let Some(compaction) = outcome.safe() {
                assert!(tokenizer.count(&compaction.output) <= budget);
                for (line, _) in lines {
                    let rule = text.lines().nth(*line as usize - 1).unwrap().trim_start().trim_start_matches("- ");
                    assert!(compaction.output.contains(rule), "{name}:{line} is not in {budget} tokens");
                }
                assert!(budget == base.tokens() || missing(&guards(&base), &compaction.output).is_empty());
            }
        }
    }
    // What the shipped classifier flags must cover what was picked by hand, or the guarantee guards something else.
    let flagged = Base::classify(name, &text, Tokenizer::Cl100k, linear::shipped(), &Policy::at(OperatingPoint::Safe));
    let hit = flagged.items().iter().filter(|item| item.pinned() && is_constraint(item.line)).count();
    assert!(hit as f64 >= 0.9 * lines.len() as f64, "{name}: {hit} of {} flagged", lines.len());
}

#[test]
fn no_rule_of_the_retail_policy_is_ever_lost() {
    guarantee("retail-policy.md", RETAIL);
}

#[test]
fn no_rule_of_the_airline_policy_is_ever_lost() {
    guarantee("airline-policy.md", AIRLINE);
}
