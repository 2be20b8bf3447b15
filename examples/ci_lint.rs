//! A lint step for CI without the command-line tool: annotations in the form that GitHub Actions reads.
//!
//! `cargo run --no-default-features --example ci_lint -- AGENTS.md CLAUDE.md`
//!
//! Ends with code 6 when there is a finding, as `aac lint` does.
#![allow(clippy::print_stdout, missing_docs)]

use aac::classify::{Policy, linear};
use aac::taxonomy::OperatingPoint;
use aac::triage::{Base, Tokenizer, lint};
use std::path::Path;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let policy = Policy::at(OperatingPoint::Safe);
    let mut clean = true;
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file)?;
        let base = Base::classify(&file, &text, Tokenizer::Cl100k, linear::shipped(), &policy);
        let folder = Path::new(&file).parent().unwrap_or(Path::new("."));
        for finding in lint(&base, |target| folder.join(target).exists()).findings {
            clean = false;
            let proposal = finding.proposal.map_or_else(String::new, |proposal| format!("; better: {proposal}"));
            let message = format!("{}{proposal}", finding.message).replace('%', "%25").replace('\n', "%0A");
            println!("::warning file={file},line={},title={}::{message}", finding.line, finding.rule.as_str());
        }
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(6) })
}
