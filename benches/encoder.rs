//! Times a sentence encoder: `cargo bench --no-default-features --features encoder --bench encoder -- ENCODER_DIR [THREADS]`
//! prints lines a second over 2,000 lines as long as those of agent files, three times.
#![allow(clippy::print_stdout, reason = "a report for people")]

use aac::encoder::Encoder;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

const WORDS: &str = "never push to main without a review run cargo test before every commit the parser is in src and \
                     keeps its state in a table prefer small functions over comments deploys need an approval by two \
                     people";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let Some(dir) = args.first().map(Path::new) else {
        println!("encoder: skipped, needs ENCODER_DIR");
        return Ok(());
    };
    let threads = args.get(1).map_or(Ok(0), |n| n.parse())?;
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let config = fs::read_to_string(dir.join("config.json"))?;
    let (tokenizer, tensors) = (fs::read(dir.join("tokenizer.json"))?, fs::read(dir.join("model.safetensors"))?);
    let encoder = Encoder::from_parts(&config, &tokenizer, &tensors)?;
    let words: Vec<&str> = WORDS.split(' ').collect();
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
