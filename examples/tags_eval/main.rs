//! Score the tagger against labels over unpacked bare repositories, through the `git` command.
//!
//! `cargo run --release --no-default-features --features train --example tags_eval -- LABELS.jsonl CORPUS_DIR`
//! with `--misses` to list them, `--all` for every tag; `--cv FURTHER.jsonl` for the accuracy of specificity on
//! repositories whose labels the points were not fitted to, `--fit FURTHER.jsonl` for the points themselves.
//!
//! Duplicates are texts that are equal after white space is folded, under two or more owners.
#![allow(clippy::print_stdout, missing_docs)]

mod corpus;
mod fit;

use aac::tag::score::{Scores, TagLabel, score};
use aac::tag::{Evidence, TagInput, Tagger, Tags};
use corpus::{folded, load};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [labels, corpus, flags @ ..] = args.as_slice() else {
        return Err(
            "usage: tags_eval LABELS.jsonl CORPUS_DIR [--misses] [--all] [--cv FURTHER.jsonl] [--fit FURTHER.jsonl]"
                .into(),
        );
    };
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let tagger = Tagger::shipped();
    let labels: Vec<TagLabel> = read(labels)?;
    let artifacts = load(Path::new(corpus), tagger)?;

    let mut texts: HashMap<String, HashSet<String>> = HashMap::new();
    let mut lines: HashMap<&str, HashSet<&str>> = HashMap::new();
    for a in &artifacts {
        texts.entry(folded(&a.text)).or_default().insert(a.repo.owner().to_lowercase());
        if !a.symlink {
            a.text.lines().map(str::trim).filter(|l| l.len() >= 24).for_each(|l| {
                lines.entry(l).or_default().insert(a.repo.owner());
            });
        }
    }
    let counts: HashMap<&str, u32> = lines.into_iter().map(|(l, o)| (l, o.len() as u32)).collect();
    let line_owners = |line: &str| counts.get(line).copied().unwrap_or(0);
    let inputs: Vec<TagInput> = artifacts
        .iter()
        .map(|a| TagInput {
            repo: &a.repo,
            path: &a.path,
            symlink: a.symlink,
            text: &a.text,
            platform: None,
            history: Some(&a.history),
            owners: texts.get(&folded(&a.text)).map_or(0, |o| o.len() as u32),
            language: None,
            line_owners: &line_owners,
        })
        .collect();

    let started = busy();
    let tags: Vec<Tags> = inputs.iter().map(|input| tagger.tag(input)).collect();
    let seconds = busy() - started;
    let bytes: usize = artifacts.iter().map(|a| a.text.len()).sum();
    println!(
        "{} artifacts, {:.1} MB tagged in {seconds:.3} s on one core: {:.0} artifacts/s, {:.0} MB/s",
        tags.len(),
        bytes as f64 / 1e6,
        tags.len() as f64 / seconds,
        bytes as f64 / 1e6 / seconds
    );

    let place: HashMap<(String, &str), usize> =
        artifacts.iter().enumerate().map(|(i, a)| ((a.repo.key(), a.path.as_str()), i)).collect();
    let found: Vec<(&TagLabel, usize)> =
        labels.iter().filter_map(|l| Some((l, *place.get(&(l.repo.key(), l.path.as_str()))?))).collect();
    println!("{} of {} labelled artifacts found\n", found.len(), labels.len());
    for dimension in ["function", "authorship", "specificity"] {
        let pairs: Vec<(usize, &str, &str, &str, &Evidence)> = found
            .iter()
            .filter_map(|(label, i)| {
                let t = &tags[*i];
                Some(match dimension {
                    "function" => (
                        *i,
                        label.function?.as_str(),
                        t.function.value.as_str(),
                        t.function.rule.as_str(),
                        &t.function.evidence,
                    ),
                    "authorship" => (
                        *i,
                        label.authorship?.as_str(),
                        t.authorship.value.as_str(),
                        t.authorship.rule.as_str(),
                        &t.authorship.evidence,
                    ),
                    _ => (
                        *i,
                        label.specificity?.as_str(),
                        t.specificity.value.as_str(),
                        t.specificity.rule.as_str(),
                        &t.specificity.evidence,
                    ),
                })
            })
            .collect();
        print(dimension, &score(pairs.iter().map(|p| (p.1, p.2)), 5));
        if has("--misses") {
            for (i, label, tag, rule, evidence) in pairs.iter().filter(|p| p.1 != p.2) {
                let a = &artifacts[*i];
                println!("   {label} ≠ {tag} by {rule} {evidence:?}: {} {}", a.repo, a.path);
            }
        }
    }
    for (flag, job) in [("--cv", true), ("--fit", false)] {
        let Some(at) = flags.iter().position(|f| f == flag) else { continue };
        let further: Vec<TagLabel> = match flags.get(at + 1) {
            Some(file) => read(file)?,
            None => Vec::new(),
        };
        let examples: Vec<fit::Example> = labels
            .iter()
            .map(|label| (label, true))
            .chain(further.iter().map(|label| (label, false)))
            .filter_map(|(label, gold)| {
                let i = *place.get(&(label.repo.key(), label.path.as_str()))?;
                Some(fit::Example {
                    repo: label.repo.key(),
                    label: label.specificity?,
                    gold,
                    shipped: tags[i].specificity.value,
                    signs: tagger.signs(&inputs[i], &tags[i]),
                })
            })
            .collect();
        if job { fit::cross_validate(&examples) } else { fit::print_points(&examples) }
    }
    if has("--all") {
        for (a, t) in artifacts.iter().zip(&tags) {
            let rows: Vec<String> = t.rows().map(|r| format!("{}|{}", r.value, r.rule)).collect();
            println!("A {} {} {} {:?}", a.repo, a.path, rows.join(" "), t.resolves_to);
        }
    }
    Ok(())
}

fn read(file: &str) -> Result<Vec<TagLabel>, Box<dyn Error>> {
    Ok(std::fs::read_to_string(file)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Seconds this thread has spent on a processor: neighbours on the machine do not count.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn print(dimension: &str, scores: &Scores) {
    println!(
        "{dimension}: n {}, accuracy {:.3}, macro-F1 {:.3} over values with ≥ {} labels",
        scores.n, scores.accuracy, scores.macro_f1, scores.min_support
    );
    for v in &scores.values {
        println!("  {:<14} n {:>3}  P {:.3}  R {:.3}  F1 {:.3}", v.value, v.support, v.precision, v.recall, v.f1);
    }
    let wrong = scores.confusion.iter().filter(|((label, tag), _)| label != tag);
    for ((label, tag), count) in wrong {
        println!("    {label} taken for {tag}: {count}");
    }
    println!();
}
