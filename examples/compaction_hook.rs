//! A compaction hook for an agent runtime: it stands between the summariser and the context.
//!
//! `cargo run --no-default-features --example compaction_hook -- CONTEXT.md SUMMARY.md WINDOW_TOKENS`
//!
//! Prints the context to go on with. Where the summary would lose a rule and putting it back does not fit, TypeCompact is
//! tried on the context itself; when that is not safe either, nothing is printed and the code is 4: the runtime keeps
//! its context and asks somebody.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

use aac::classify::{Policy, linear};
use aac::taxonomy::OperatingPoint;
use aac::triage::{Base, Escalation, Plan, Tokenizer, Watch};
use std::process::ExitCode;

/// What the runtime should do next.
enum Next {
    /// Go on with this context.
    Use(String),
    /// Keep the context as it is: there is room.
    Keep,
    /// Keep the context as it is and tell somebody.
    Stop(Escalation),
}

fn before_compaction(context: &str, summary: &str, window: usize) -> Next {
    let policy = Policy::at(OperatingPoint::Safe);
    let base = Base::classify("context.md", context, Tokenizer::O200k, linear::shipped(), &policy);
    let watch = Watch::new(window);
    if !watch.considers(base.tokens()) {
        return Next::Keep;
    }
    for plan in [watch.review(&base, summary), watch.plan(&base)] {
        match plan {
            Plan::Ready(planned) => match planned.commit(context) {
                Ok(next) => return Next::Use(next),
                Err(escalation) => return Next::Stop(escalation),
            },
            Plan::Wait { .. } => return Next::Keep,
            Plan::Escalate(escalation) => eprintln!("{escalation}"),
        }
    }
    match watch.plan(&base) {
        Plan::Escalate(escalation) => Next::Stop(escalation),
        _ => Next::Keep,
    }
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [context, summary, window] = args.as_slice() else {
        return Err("usage: compaction_hook CONTEXT.md SUMMARY.md WINDOW_TOKENS".into());
    };
    let (context, summary) = (std::fs::read_to_string(context)?, std::fs::read_to_string(summary)?);
    Ok(match before_compaction(&context, &summary, window.parse()?) {
        Next::Use(next) => {
            print!("{next}");
            ExitCode::SUCCESS
        }
        Next::Keep => {
            print!("{context}");
            ExitCode::SUCCESS
        }
        Next::Stop(escalation) => {
            for guard in &escalation.spans {
                eprintln!("line {}: {}", guard.line, guard.text);
            }
            ExitCode::from(4)
        }
    })
}
