//! What redaction finds in real texts, and how much of what is planted in them.
//!
//! `cargo run --release --no-default-features --features train --example redact_eval -- CORPUS_DIR [--list]
//! [--judged FILE] [--seeds N]`: CORPUS_DIR holds bare repositories named `OWNER+NAME.git`. `--list` shows each passage
//! in its line, as JSON that can be judged; `--judged` compares with such judgements, which hold spans and hashes but
//! no text; `--seeds` plants every kind of secret that many times, each in another real text.
#![allow(clippy::print_stdout, missing_docs)]

#[path = "../tags_eval/corpus.rs"]
#[allow(dead_code)]
mod corpus;
#[path = "../../src/redact/planted.rs"]
#[allow(dead_code)]
mod planted;

use aac::corpus::Sha256;
use aac::redact::{RedactionKind, RedactionSpan, spans};
use aac::tag::Tagger;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::path::Path;

/// One finding, and whether it should be redacted.
#[derive(Serialize, Deserialize)]
struct Judgement {
    /// SHA-256 of the whole text.
    text: String,
    start: usize,
    end: usize,
    rule: String,
    /// SHA-256 of the passage.
    passage: String,
    right: Option<bool>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, flags @ ..] = args.as_slice() else {
        return Err("usage: redact_eval CORPUS_DIR [--list] [--judged FILE] [--seeds N]".into());
    };
    let value = |flag: &str| flags.iter().position(|f| f == flag).and_then(|at| flags.get(at + 1));
    let list = flags.iter().any(|f| f == "--list");
    let artifacts = corpus::load(Path::new(folder), Tagger::shipped())?;
    let texts: BTreeSet<&str> = artifacts.iter().filter(|a| !a.symlink).map(|a| a.text.as_str()).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    let found: Vec<Vec<RedactionSpan>> = texts.iter().map(|text| spans(text)).collect();
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    found.iter().flatten().for_each(|span| *rules.entry(span.rule).or_default() += 1);
    let all: usize = rules.values().sum();
    println!("{} distinct texts, {all} passages found: {rules:?}", texts.len());

    let judged: HashMap<(String, usize), Judgement> = match value("--judged") {
        Some(file) => std::fs::read_to_string(file)?
            .lines()
            .map(|line| serde_json::from_str::<Judgement>(line).map(|j| ((j.text.clone(), j.start), j)))
            .collect::<Result<_, _>>()?,
        None => HashMap::new(),
    };
    let (mut right, mut wrong) = (0, 0);
    for (text, spans) in texts.iter().zip(&found) {
        for span in spans {
            let id = Sha256::of(text.as_bytes()).to_string();
            match judged.get(&(id.clone(), span.start)).and_then(|j| j.right) {
                Some(true) => right += 1,
                Some(false) => wrong += 1,
                None => {}
            }
            if list {
                let passage = Sha256::of(&text.as_bytes()[span.start..span.end]).to_string();
                let (start, end, rule) = (span.start, span.end, span.rule.to_owned());
                println!("{}", serde_json::to_string(&Judgement { text: id, start, end, rule, passage, right: None })?);
                let from = text[..start].rfind('\n').map_or(0, |at| at + 1);
                let to = text[end..].find('\n').map_or(text.len(), |at| end + at);
                println!("    {} ⟦{}⟧ {}", &text[from..start], &text[start..end], &text[end..to]);
            }
        }
    }
    if !judged.is_empty() {
        println!(
            "judged: {right} right, {wrong} wrong, {} not judged; precision {:.3}",
            all - right - wrong,
            right as f64 / (right + wrong).max(1) as f64
        );
    }
    if let Some(seeds) = value("--seeds") {
        plant(&texts, seeds.parse()?);
    }
    Ok(())
}

/// Plant every kind in real texts, at the end of a line of each, and see what is found.
fn plant(texts: &[&str], seeds: u64) {
    let places: Vec<&str> = texts.iter().copied().filter(|text| text.len() > 400).collect();
    let mut missed: BTreeMap<(RedactionKind, usize), usize> = BTreeMap::new();
    let (mut planted_in_all, mut all_missed, mut beside) = (0u64, 0, 0);
    for seed in 1..=seeds {
        for (which, (kind, passage)) in planted::planted(seed).into_iter().enumerate() {
            let text = places[(seed as usize * 7919 + which * 104_729) % places.len()];
            // Before some line, with a lead as such lines have.
            let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
            let at = lines[(seed as usize * 31 + which) % lines.len().max(1)];
            let lead = ["- ", "", "export ", "    ", "Use `", "1. Set ", "> "][(seed as usize + which) % 7];
            let close = if lead.ends_with('`') { "`" } else { "" };
            let with = format!("{}{lead}{passage}{close}\n{}", &text[..at], &text[at..]);
            let place = at + lead.len()..at + lead.len() + passage.len();
            let before = spans(text).len();
            let after = spans(&with);
            let hit = |span: &&RedactionSpan| span.kind == kind && span.start < place.end && place.start < span.end;
            planted_in_all += 1;
            if !after.iter().any(|span| hit(&span)) {
                *missed.entry((kind, which)).or_default() += 1;
                all_missed += 1;
            }
            let inside = after.iter().filter(|s| s.start < place.end && place.start < s.end).count();
            beside += (after.len() - inside).saturating_sub(before);
        }
    }
    println!(
        "planted {planted_in_all}: recall {:.4}; {beside} passages beside them newly found",
        1.0 - all_missed as f64 / planted_in_all.max(1) as f64
    );
    for ((kind, which), count) in missed {
        println!("  {} number {which}: {count} of {seeds} missed", kind.as_str());
    }
}
