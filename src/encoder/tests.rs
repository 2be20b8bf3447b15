//! The forward pass against an independent reference (`tests/fixtures/encoder/reference.py`).

use super::*;
use crate::classify::tuned::pool;
use serde::Deserialize;

const CONFIG: &str = include_str!("../../tests/fixtures/encoder/config.json");
const TOKENIZER: &[u8] = include_bytes!("../../tests/fixtures/encoder/tokenizer.json");
const TENSORS: &[u8] = include_bytes!("../../tests/fixtures/encoder/model.safetensors");

/// The tiny random BERT of the fixtures.
pub(crate) fn tiny() -> Encoder {
    Encoder::from_parts(CONFIG, TOKENIZER, TENSORS).unwrap()
}

#[derive(Deserialize)]
struct Sentence {
    text: String,
    vector: Vec<f32>,
}

#[derive(Deserialize)]
struct Pair {
    text: String,
    beside: String,
    pooled: Vec<f32>,
}

#[derive(Deserialize)]
struct Expected {
    sentences: Vec<Sentence>,
    pairs: Vec<Pair>,
}

fn expected() -> Expected {
    serde_json::from_str(include_str!("../../tests/fixtures/encoder/expected.json")).unwrap()
}

fn assert_near(found: &[f32], right: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), right.len(), "{what}");
    let worst = found.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "{what}: off by {worst}");
}

fn check_sentences(encoder: &Encoder, sentences: &[Sentence], tolerance: f32) {
    let texts: Vec<&str> = sentences.iter().map(|s| s.text.as_str()).collect();
    let vectors = encoder.encode(&texts).unwrap();
    for (vector, sentence) in vectors.iter().zip(sentences) {
        assert_near(vector, &sentence.vector, tolerance, &sentence.text);
    }
}

#[test]
fn sentences_and_pairs_equal_the_reference() {
    let (encoder, expected) = (tiny(), expected());
    check_sentences(&encoder, &expected.sentences, 2e-6);
    let ids = |text: &str| encoder.tokens().of(text, 99).unwrap();
    let inputs: Vec<Input> =
        expected.pairs.iter().map(|p| encoder.tokens().input(&ids(&p.text), &ids(&p.beside))).collect();
    let width = encoder.dimensions();
    let pooled = encoder.over_batches(&inputs, |states, packed, _| {
        pool(states, packed, width).chunks(2 * width).map(<[f32]>::to_vec).collect()
    });
    for (pooled, pair) in pooled.iter().zip(&expected.pairs) {
        assert_near(pooled, &pair.pooled, 5e-6, &pair.text);
    }
}

/// With the folder of all-MiniLM-L6-v2 in `AAC_MINILM`.
#[test]
fn real_weights_equal_the_reference() {
    use std::io::Write as _;
    let Some(dir) = std::env::var_os("AAC_MINILM").map(std::path::PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "skipped: AAC_MINILM names no folder of all-MiniLM-L6-v2");
        return;
    };
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let (config, tokenizer, tensors) = (read("config.json"), read("tokenizer.json"), read("model.safetensors"));
    let config = String::from_utf8(config).unwrap();
    let encoder = Encoder::from_parts(&config, &tokenizer, &tensors).unwrap();
    let expected: Vec<Sentence> =
        serde_json::from_str(include_str!("../../tests/fixtures/encoder/minilm.json")).unwrap();
    check_sentences(&encoder, &expected, 1e-5);
    let small = encoder.tensors(true).unwrap();
    assert!(small.len() < 27_000_000, "{} bytes", small.len());
    let small = Encoder::from_parts(&config, &tokenizer, &small).unwrap();
    let texts: Vec<&str> = expected.iter().map(|s| s.text.as_str()).collect();
    for (vector, sentence) in small.encode(&texts).unwrap().iter().zip(&expected) {
        let cosine: f32 = vector.iter().zip(&sentence.vector).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.999, "{}: {cosine}", sentence.text);
    }
}

#[test]
fn company_changes_nothing() {
    let encoder = tiny();
    let texts = ["never push", "", "run the tests before you commit", "main ".repeat(60).leak(), "漢字 and \u{0} ."];
    let together = encoder.encode(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        assert_near(&encoder.encode(&[text]).unwrap()[0], vector, 1e-6, text);
        let length: f32 = vector.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
    assert!(encoder.encode(&[]).unwrap().is_empty());
}

#[test]
fn the_second_segment_is_cut_first_and_padding_never_happens() {
    let encoder = tiny();
    let tokens = encoder.tokens();
    let short = tokens.of("main", 99).unwrap();
    assert_eq!(short.len(), 1, "the file asks for padding to eight");
    let long = tokens.of(&"push ".repeat(100), 99).unwrap();
    assert_eq!(long.len(), 99, "the file asks for truncation to eight");
    let input = tokens.input(&short, &long);
    assert_eq!((input.len(), input.split), (24, 3));
    let input = tokens.input(&long, &short);
    assert_eq!((input.len(), input.split), (24, 24));
}

#[test]
fn full_tensors_read_back_exactly_and_small_ones_nearly() {
    let encoder = tiny();
    let full = Encoder::from_parts(CONFIG, TOKENIZER, &encoder.tensors(false).unwrap()).unwrap();
    assert_eq!(full.weights, encoder.weights);
    let bytes = encoder.tensors(true).unwrap();
    assert!(bytes.len() * 2 < TENSORS.len());
    let small = Encoder::from_parts(CONFIG, TOKENIZER, &bytes).unwrap();
    assert_eq!(small.tensors(true).unwrap(), bytes, "quantising what was quantised changes nothing");
    for sentence in expected().sentences {
        let vector = &small.encode(&[&sentence.text]).unwrap()[0];
        let cosine: f32 = vector.iter().zip(&sentence.vector).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.99, "{cosine}");
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let error = |config: &str, tokenizer: &[u8], tensors: &[u8]| {
        Encoder::from_parts(config, tokenizer, tensors).unwrap_err().to_string()
    };
    let wider = CONFIG.replace("\"intermediate_size\": 64", "\"intermediate_size\": 96");
    assert!(error(&wider, TOKENIZER, TENSORS).contains("encoder.layer.0.intermediate.dense.weight"));
    assert!(error(CONFIG, b"{}", TENSORS).contains("tokenizer.json"));
    for end in [0, 7, 8, 100, TENSORS.len() - 1] {
        assert!(error(CONFIG, TOKENIZER, &TENSORS[..end]).contains("model.safetensors"), "cut at {end}");
    }
    let mut broken = TENSORS.to_vec();
    let last = broken.len() - 4;
    broken[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(error(CONFIG, TOKENIZER, &broken).contains("not finite"));
    let fewer = CONFIG.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    assert!(error(&fewer, TOKENIZER, TENSORS).contains("layer.2"));
}
