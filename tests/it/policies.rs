//! The guarantee on the retail and airline policies of τ-bench, whose constraints were picked out by hand.
//!
//! The policies are not part of this repository: `AAC_TAU_BENCH` names the folder that holds `retail-policy.md` and
//! `airline-policy.md` (MIT licence, from the benchmark's own repository).

use aac::classify::{Policy, linear};
use aac::corpus::Sha256;
use aac::taxonomy::{KnowledgeType, OperatingPoint};
use aac::triage::policies::{AIRLINE, RETAIL};
use aac::triage::{Base, Budget, Judgement, Tokenizer, compact, guards, missing};
use std::path::PathBuf;

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
