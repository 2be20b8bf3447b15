//! The budget watch: when a context nears its budget, plan a compaction before anything is thrown away, and commit it
//! only when every constraint is shown to be in it.
//!
//! Nearing the budget is a reason to consider compaction, never a licence to evict. A plan that cannot be shown to
//! hold every constraint is not a plan but an escalation, with the spans concerned.

use super::base::Base;
use super::compact::{Outcome, Verdict, compact};
use super::tokens::Budget;
use super::verify::{Guard, Guarded, guards, missing, protect};

/// The share of the budget at which compaction is considered.
pub const TRIGGER: f64 = 0.85;

/// Watches a context against a fixed budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watch {
    /// The budget in tokens.
    pub ceiling: usize,
    /// The share of it at which compaction is considered; [`TRIGGER`] unless there is a reason.
    pub trigger: f64,
    /// The share of it that a compaction aims at, below the trigger, so that the next turn does not set it off again.
    pub target: f64,
}

/// What to do about a context.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing: there is room.
    Wait {
        /// Tokens in use.
        used: usize,
    },
    /// This compaction is safe; commit it.
    Ready(Planned),
    /// No compaction is safe. Nothing may be evicted; somebody has to decide.
    Escalate(Escalation),
}

/// A compaction that was shown to hold every constraint, and can only be applied to the context it was planned for.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    before: String,
    guards: Vec<Guard>,
    output: String,
    ceiling: usize,
    tokens: usize,
}

/// Why nothing may be evicted: said aloud instead of done in silence.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("Failed to compact the context safely: {why}; it needs {needed} tokens of {ceiling}, {} constraints at stake", spans.len())]
pub struct Escalation {
    /// In words.
    pub why: &'static str,
    /// The least that a safe context needs, in tokens.
    pub needed: usize,
    /// The budget in tokens.
    pub ceiling: usize,
    /// The constraints that would be lost, or all of them when nothing else can be said.
    pub spans: Vec<Guard>,
}

impl Watch {
    /// A watch with the usual trigger, aiming at half of the budget.
    pub fn new(ceiling: usize) -> Self {
        Self { ceiling, trigger: TRIGGER, target: 0.5 }
    }

    /// Whether a context of so many tokens is a reason to consider compaction.
    pub fn considers(&self, used: usize) -> bool {
        used as f64 >= self.trigger * self.ceiling as f64
    }

    /// Plan for a context. Nothing is changed by planning.
    ///
    /// ```
    /// use aac::taxonomy::KnowledgeType::{Constraint, Episodic};
    /// use aac::triage::{Base, Judgement, Plan, Tokenizer, Watch};
    ///
    /// let text = "- Never write to prod.\n- On Monday we moved the staging manifests to a new folder of their own.\n";
    /// let context = Base::read("session.md", text, Tokenizer::Cl100k, |item| {
    ///     Judgement::certain(if item.text.starts_with("Never") { Constraint } else { Episodic })
    /// });
    /// let Plan::Ready(planned) = Watch::new(25).plan(&context) else { panic!() };
    /// assert!(planned.commit(context.text()).unwrap().starts_with("- Never write to prod.\n"));
    /// assert!(matches!(Watch::new(4).plan(&context), Plan::Escalate(_)));
    /// ```
    pub fn plan(&self, context: &Base) -> Plan {
        let used = context.tokens();
        if !self.considers(used) {
            return Plan::Wait { used };
        }
        let aim = (self.target * self.ceiling as f64) as usize;
        let mut outcome = compact(context, Budget::Tokens(aim));
        if outcome.safe().is_none() && outcome.min_safe_budget <= self.ceiling {
            // More constraints than the aim leaves room for: they come first, the aim second.
            outcome = compact(context, Budget::Tokens(outcome.min_safe_budget));
        }
        self.judge(context, outcome)
    }

    fn judge(&self, context: &Base, outcome: Outcome) -> Plan {
        let needed = outcome.min_safe_budget;
        match outcome.verdict {
            Verdict::Safe(compaction) if compaction.tokens_out <= self.ceiling => {
                self.ready(context, compaction.output, compaction.tokens_out)
            }
            Verdict::Safe(_) => self.escalate("the constraints alone exceed the budget", needed, guards(context)),
            Verdict::Unsafe(refusal) => {
                let spans = if refusal.lost.is_empty() { guards(context) } else { refusal.lost };
                self.escalate("the constraints alone exceed the budget", needed, spans)
            }
        }
    }

    /// Review what another compactor made of the context (a summary, say): constraints that it lost are put back; when
    /// they do not fit, it is not committed.
    pub fn review(&self, context: &Base, proposed: &str) -> Plan {
        match protect(context, proposed, self.ceiling) {
            Guarded::Safe { output, tokens_out, .. } => self.ready(context, output, tokens_out),
            Guarded::Unsafe { needed, lost } => {
                let spans = if lost.is_empty() { guards(context) } else { lost };
                self.escalate("the proposed context with its lost constraints put back is too long", needed, spans)
            }
        }
    }

    fn ready(&self, context: &Base, output: String, tokens: usize) -> Plan {
        let guards = guards(context);
        Plan::Ready(Planned { before: context.text().to_owned(), guards, output, ceiling: self.ceiling, tokens })
    }

    fn escalate(&self, why: &'static str, needed: usize, spans: Vec<Guard>) -> Plan {
        Plan::Escalate(Escalation { why, needed, ceiling: self.ceiling, spans })
    }
}

impl Planned {
    /// The context as it would be.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Its tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Take the plan as the new context. `current` is the context as it is now: one that has changed since planning, or
    /// a plan whose constraints cannot be found in it any more, is an escalation and changes nothing.
    pub fn commit(self, current: &str) -> Result<String, Escalation> {
        let stop = |why, spans| Escalation { why, needed: self.tokens, ceiling: self.ceiling, spans };
        if current != self.before {
            return Err(stop("the context has changed since it was planned", self.guards.clone()));
        }
        let absent = missing(&self.guards, &self.output);
        // An unchanged context holds whatever it held.
        if !absent.is_empty() && self.output != self.before {
            let spans = absent.into_iter().map(|index| self.guards[index].clone()).collect();
            return Err(stop("constraints are missing from the planned context", spans));
        }
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::tests::base;
    use proptest::prelude::*;

    const SESSION: &str = "- Never write to prod.\n- The task is to refactor the manifests of staging, which are many.\n- On Monday we moved half of them into a folder of their own and tested them.\n";

    #[test]
    fn below_the_trigger_nothing_happens() {
        let context = base(SESSION);
        assert_eq!(Watch::new(1000).plan(&context), Plan::Wait { used: context.tokens() });
        let exact = (context.tokens() as f64 / TRIGGER) as usize;
        assert!(Watch::new(exact).considers(context.tokens()));
    }

    #[test]
    fn a_plan_is_bound_to_its_context() {
        let context = base(SESSION);
        let Plan::Ready(planned) = Watch::new(40).plan(&context) else { panic!() };
        assert!(planned.output().contains("Never write to prod.") && planned.tokens() <= 20);
        let error = planned.clone().commit("something else").unwrap_err();
        assert!(error.to_string().contains("has changed") && error.spans.len() == 1, "{error}");
        assert!(planned.commit(SESSION).is_ok());
    }

    #[test]
    fn a_summary_without_the_rule_gets_it_back_or_is_stopped() {
        let context = base(SESSION);
        let summary = "The user is refactoring staging manifests.";
        let Plan::Ready(planned) = Watch::new(40).review(&context, summary) else { panic!() };
        assert!(planned.output().ends_with("- Never write to prod.\n"));
        let Plan::Escalate(escalation) = Watch::new(10).review(&context, summary) else { panic!() };
        assert_eq!(escalation.spans[0].text, "Never write to prod.");
    }

    proptest! {
        /// Whatever the budget: a plan holds every constraint and fits, or nothing is planned.
        #[test]
        fn no_plan_loses_a_constraint(rules in prop::collection::vec("(Never )?[a-z]{2,8}( [a-z]{2,8}){0,8}", 1..20), ceiling in 0usize..200) {
            let text: String = rules.iter().map(|rule| format!("- {rule}\n")).collect();
            let context = base(&text);
            match Watch::new(ceiling).plan(&context) {
                Plan::Wait { used } => prop_assert!((used as f64) < TRIGGER * ceiling as f64),
                Plan::Ready(planned) => {
                    prop_assert!(planned.tokens() <= ceiling);
                    prop_assert!(missing(&guards(&context), planned.output()).is_empty());
                    prop_assert!(planned.commit(&text).is_ok());
                }
                Plan::Escalate(escalation) => prop_assert!(escalation.needed > ceiling && !escalation.spans.is_empty()),
            }
        }
    }
}
