//! Trains the linear model from the label files, prints its nested cross-validation, and writes it.
//!
//! `cargo bench --no-default-features --features train --bench linear -- GOLD_DIR BLOBS.jsonl [OUT_DIR] [--quick]`, where
//! each line of BLOBS.jsonl has `blob` (git id), `path` and `text`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

use aac::classify::Classifier as _;
use aac::segment::segment;
use aac::taxonomy::KnowledgeType;
use aac::train::evaluate::{evaluate, evaluate_phrasing, learning_curve, worst_errors};
use aac::train::fit::{TrainOptions, fit_model, nested};
use aac::train::folds::fold_of_groups;
use aac::train::labels::{Example, Role, parse_labels};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

#[derive(serde::Deserialize)]
struct Blob {
    blob: String,
    path: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let (flags, places): (Vec<&String>, Vec<&String>) = args.iter().partition(|a| a.starts_with("--"));
    let (Some(gold), Some(blobs)) = (places.first(), places.get(1)) else {
        println!("linear: skipped, needs GOLD_DIR and BLOBS.jsonl");
        return Ok(());
    };
    let examples = load(Path::new(gold), Path::new(blobs))?;
    let options = TrainOptions::default();
    println!("{} examples; {options:?}", examples.len());

    let mut notes = serde_json::json!({ "examples": examples.len() });
    if !flags.iter().any(|f| *f == "--quick") {
        let start = Instant::now();
        let held = nested(&examples, &options)?;
        println!("nested cross-validation in {:.0?}", start.elapsed());
        let figures = evaluate(&examples, &held, |path| path.rsplit('/').next().unwrap_or_default().to_lowercase());
        println!(
            "accuracy {:.3?}\nmacro-F1 {:.3?}\nconstraint F1 {:.3?}",
            figures.accuracy, figures.macro_f1, figures.constraint_f1
        );
        for (t, score) in &figures.classes {
            println!("  {t:<11} P {:.3} R {:.3} F1 {:.3} ({})", score.precision, score.recall, score.f1, score.support);
        }
        println!(
            "safe: recall {:.3?} flagged {:.3?} tokens {:.3}",
            figures.safe_recall, figures.safe_flagged, figures.safe_tokens
        );
        for recall in [0.8, 0.85, 0.9, 0.93, 0.95, 0.98] {
            if let Some(p) = figures.cost_curve.iter().find(|p| p.recall >= recall) {
                println!(
                    "  recall {recall} at {:.3} of items, {:.3} of bytes (θ {:.3})",
                    p.flagged, p.cost, p.threshold
                );
            }
        }
        println!("ECE {:.4}, of constraints {:.4}", figures.calibration_error, figures.constraint_calibration_error);
        let phrasing_fold = fold_of_groups(
            examples.iter().filter(|e| e.role == Role::Phrasing).map(|e| e.group.as_str()),
            options.folds,
        );
        for score in
            evaluate_phrasing(&examples, &held, |e| phrasing_fold.get(e.group.as_str()).copied().unwrap_or(0), 0.9)
        {
            println!("phrasing {score:.3?}");
        }
        for slice in figures.by_language.iter().take(8) {
            println!("  {slice:.3?}");
        }
        if flags.iter().any(|f| *f == "--curve") {
            println!("learning curve {:.3?}", learning_curve(&examples, &options, &[0.1, 0.2, 0.4, 0.7, 1.0])?);
        }
        if flags.iter().any(|f| *f == "--errors") {
            for i in worst_errors(&examples, &held, 30) {
                let e = &examples[held[i].index];
                println!("{} is {}, called {}: {:?} {:?}", e.id, e.label, held[i].item_type(), e.heading, e.text);
            }
        }
        notes = serde_json::json!({
            "examples": examples.len(),
            "nested_cross_validation": {
                "items": figures.items, "accuracy": figures.accuracy, "macro_f1": figures.macro_f1,
                "constraint_f1": figures.constraint_f1, "safe_recall": figures.safe_recall,
                "safe_flagged": figures.safe_flagged, "calibration_error": figures.calibration_error,
            },
        });
    }

    let start = Instant::now();
    let model = fit_model(&examples, &options, notes)?;
    println!("fitted in {:.0?}: {}, {:?}", start.elapsed(), model.id(), model.thresholds());
    let start = Instant::now();
    let mut constraints = 0;
    for e in &examples {
        let t = e.with_context(|item| model.probabilities(item)).likeliest();
        constraints += usize::from(t == KnowledgeType::Constraint);
    }
    let rate = examples.len() as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} items/s on one core ({constraints} constraints)");
    if let Some(out) = places.get(2) {
        fs::create_dir_all(out)?;
        fs::write(Path::new(out).join("model.json"), model.description_json()?)?;
        fs::write(Path::new(out).join("model.safetensors"), model.tensors())?;
    }
    Ok(())
}

fn load(gold: &Path, blobs: &Path) -> Result<Vec<Example>, Box<dyn Error>> {
    let mut texts = HashMap::new();
    for line in fs::read_to_string(blobs)?.lines() {
        let blob: Blob = serde_json::from_str(line)?;
        let items = segment(&blob.path, &blob.text);
        texts.insert(blob.blob, (blob.text, items));
    }
    let mut examples = Vec::new();
    for name in ["gold.jsonl", "training.jsonl", "phrasing.jsonl"] {
        for record in parse_labels(name, &fs::read_to_string(gold.join(name))?)? {
            let blob = record.blob.and_then(|id| texts.get(&id.to_string()));
            let found = blob.and_then(|(text, items)| record.hydrate(text, items)).or_else(|| record.as_given());
            examples.extend(found);
        }
    }
    Ok(examples)
}
