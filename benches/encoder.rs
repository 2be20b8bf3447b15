//! Times a sentence encoder, fine-tunes it from the label files with a fold held out, and prints what the result is worth
//! on that fold beside the linear tier.
//!
//! `cargo bench --no-default-features --features encoder,train --bench encoder -- ENCODER_DIR` prints lines a second.
//! With `GOLD_DIR BLOBS.jsonl` (each line has `blob`, a git id, and `text`) it trains and goes on where it was broken off;
//! `WORK_DIR` keeps checkpoint, held-out logits and, at the end, the model. Options as `name=value`: `fold`, `epochs`,
//! `frozen`, `rate`, `seed`, `text`, `neighbour`, `cost`, `threads`.
//! `report=FILE,FILE…` only scores held-out logits of several folds together.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

use aac::encoder::Encoder;
use aac::segment::segment;
use aac::train::evaluate::{evaluate, evaluate_phrasing};
use aac::train::finetune::Trainer;
use aac::train::folds::fold_of_groups;
use aac::train::labels::{Example, Role, parse_labels};
use aac::train::tuned::{Parted, Said, TunedOptions, choose_floor, course, cross_fit, finish, floors, say, settle};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

#[derive(serde::Deserialize)]
struct Blob {
    blob: String,
    text: String,
}

/// The options of the command line.
struct Named(HashMap<String, String>);

impl Named {
    fn set<T: FromStr>(&self, name: &str, value: &mut T) -> Result<(), String> {
        if let Some(text) = self.0.get(name) {
            *value = text.parse().map_err(|_| format!("{name}={text} is no number"))?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let named = Named(args.iter().filter_map(|a| a.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect());
    let places: Vec<&String> = args.iter().filter(|a| !a.contains('=')).collect();
    let Some(dir) = places.first().map(Path::new) else {
        println!("encoder: skipped, needs ENCODER_DIR");
        return Ok(());
    };
    let mut threads = 0;
    named.set("threads", &mut threads)?;
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let tokenizer = fs::read(dir.join("tokenizer.json"))?;
    let config = fs::read_to_string(dir.join("config.json"))?;
    let encoder = Encoder::from_parts(&config, &tokenizer, &fs::read(dir.join("model.safetensors"))?)?;
    let (Some(gold), Some(blobs), Some(work)) = (places.get(1), places.get(2), places.get(3)) else {
        return time(&encoder);
    };
    let (examples, work) = (load(Path::new(gold), Path::new(blobs))?, Path::new(work));
    let mut options = TunedOptions::default();
    named.set("fold", &mut options.fold)?;
    named.set("epochs", &mut options.finetune.epochs)?;
    named.set("frozen", &mut options.finetune.frozen)?;
    named.set("rate", &mut options.finetune.rate)?;
    named.set("averaging", &mut options.finetune.averaging)?;
    named.set("seed", &mut options.finetune.seed)?;
    named.set("text", &mut options.finetune.input.text)?;
    named.set("neighbour", &mut options.finetune.input.neighbour)?;
    named.set("cost", &mut options.labels.constraint_cost)?;
    if let Some(files) = named.0.get("report") {
        let mut said = Vec::new();
        for file in files.split(',') {
            for line in fs::read_to_string(file)?.lines() {
                let (index, encoder, linear) = serde_json::from_str(line)?;
                said.push(Said { index, encoder, linear });
            }
        }
        report(&examples, &said, &options);
        return Ok(());
    }
    train(encoder, &tokenizer, &examples, &options, work)
}

/// Lines a second over 2,000 lines of like lengths as agent files have.
fn time(encoder: &Encoder) -> Result<(), Box<dyn Error>> {
    let words = "never push to main without a review run cargo test before every commit the parser is in src and keeps \
                 its state in a table prefer small functions over comments deploys need an approval by two people";
    let words: Vec<&str> = words.split(' ').collect();
    let line = |i: usize| (0..4 + i * 7 % 31).map(|j| words[(i * 13 + j) % words.len()]).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = (0..2_000).map(line).collect();
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut tokens = 0;
    for text in &texts {
        tokens += encoder.tokens().of(text, 254)?.len() + 2;
    }
    for _ in 0..3 {
        let begun = Instant::now();
        encoder.encode(&texts)?;
        let rate = texts.len() as f64 / begun.elapsed().as_secs_f64();
        println!("{rate:.0} lines/s at {:.1} tokens a line", tokens as f64 / texts.len() as f64);
    }
    Ok(())
}

fn load(gold: &Path, blobs: &Path) -> Result<Vec<Example>, Box<dyn Error>> {
    let mut texts: HashMap<String, String> = HashMap::new();
    for line in fs::read_to_string(blobs)?.lines() {
        let blob: Blob = serde_json::from_str(line)?;
        texts.insert(blob.blob, blob.text);
    }
    let mut examples = Vec::new();
    for name in ["gold.jsonl", "training.jsonl", "phrasing.jsonl"] {
        for record in parse_labels(name, &fs::read_to_string(gold.join(name))?)? {
            let text = record.blob.and_then(|blob| texts.get(&blob.to_string()));
            let found = text.and_then(|text| {
                let items = segment(record.path.as_deref().unwrap_or_default(), text);
                record.hydrate(text, &items)
            });
            examples.extend(found.or_else(|| record.as_given()).filter(|e| !e.text.trim().is_empty()));
        }
    }
    Ok(examples)
}

fn train(
    encoder: Encoder,
    tokenizer: &[u8],
    examples: &[Example],
    options: &TunedOptions,
    work: &Path,
) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(work)?;
    let course = course(examples, &encoder, options)?;
    let lengths: Vec<usize> = course.lessons.iter().filter(|l| l.weight > 0.0).map(|l| l.input.len()).collect();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    println!("{} lessons of {mean:.1} tokens, {} held out; {options:?}", lengths.len(), course.held.len());
    let mut trainer = Trainer::new(encoder, course.lessons.clone(), options.finetune.clone());
    let checkpoint = work.join("checkpoint.safetensors");
    if checkpoint.exists() {
        trainer.resume(&fs::read(&checkpoint)?)?;
        println!("going on after epoch {}", trainer.epoch());
    }
    while !trainer.is_done() {
        let begun = Instant::now();
        let (mut items, mut told) = (0, 0);
        let done = trainer.run_epoch(|n| {
            items += n;
            if items - told >= 1_000 {
                told = items;
                eprintln!("{items} items, {:.2} s a thousand", begun.elapsed().as_secs_f64() * 1e3 / items as f64);
            }
            true
        });
        println!("{done:?} in {:.0} s", begun.elapsed().as_secs_f64());
        fs::write(work.join("checkpoint.new"), trainer.checkpoint()?)?;
        fs::rename(work.join("checkpoint.new"), &checkpoint)?;
    }
    let said = say(&trainer, &course);
    let lines: Vec<String> =
        said.iter().map(|s| serde_json::to_string(&(s.index, s.encoder, s.linear))).collect::<Result<_, _>>()?;
    fs::write(work.join("held-out.jsonl"), lines.join("\n") + "\n")?;
    report(examples, &said, options);
    let points = floors(examples, &Parted::by_group(examples, &said), &options.labels);
    let floor = choose_floor(&points);
    let notes = serde_json::json!({ "examples": examples.len(), "held_out": said.len(), "floors": points });
    let settlement = settle(examples, &said, &options.labels, floor, notes);
    let (files, linear) = finish(&trainer, examples, options, tokenizer, settlement)?;
    fs::write(work.join("model.safetensors"), files.tensors)?;
    fs::write(work.join("model.json"), files.description)?;
    fs::write(work.join("tokenizer.json"), tokenizer)?;
    fs::create_dir_all(work.join("linear"))?;
    fs::write(work.join("linear/model.safetensors"), linear.tensors())?;
    fs::write(work.join("linear/model.json"), linear.description_json()?)?;
    Ok(())
}

fn report(examples: &[Example], said: &[Said], options: &TunedOptions) {
    let rules = said.iter().map(|s| &examples[s.index]).filter(|e| e.role == Role::Phrasing);
    let parted = Parted::by_group(examples, said);
    let fold = fold_of_groups(rules.map(|e| e.group.as_str()), options.labels.folds);
    for (name, floor) in [("both tiers", 2.0), ("linear alone", 0.0)] {
        let held = cross_fit(examples, &parted, &options.labels, floor);
        let e = evaluate(examples, &held, str::to_owned);
        println!("\n{name}, {} gold items of repositories held out", e.items);
        for (what, i) in [
            ("accuracy", e.accuracy),
            ("macro-F1 without episodic", e.macro_f1),
            ("constraint F1", e.constraint_f1),
            ("constraint recall, safe", e.safe_recall),
            ("flagged, safe", e.safe_flagged),
        ] {
            println!("  {what:<28} {:.3} ({:.3} to {:.3})", i.value, i.low, i.high);
        }
        let flagged = e.cost_curve.iter().find(|p| p.recall >= 0.93).map_or(1.0, |p| p.flagged);
        println!("  flagged where recall reaches 0.93: {flagged:.3}; calibration error {:.3}", e.calibration_error);
        for score in evaluate_phrasing(examples, &held, |e| fold.get(e.group.as_str()).copied().unwrap_or(0), 0.90) {
            println!("  phrasings, {}: {:.3?}, precision {:.3}", score.line, score.recall, score.precision);
        }
    }
    println!("\n floor  asked  accuracy  constraint F1  safe recall  flagged");
    for p in floors(examples, &parted, &options.labels) {
        println!(
            "  {:.2}  {:.3}     {:.3}          {:.3}        {:.3}    {:.3}",
            p.floor, p.asked, p.accuracy, p.constraint_f1, p.safe_recall, p.safe_flagged
        );
    }
}
