//! The forward pass of a BERT over packed sequences: products with `gemm`, nothing padded, every intermediate kept where
//! a backward pass may find it.

use super::config::BertConfig;
use super::math::{Matrix, add, gelu, multiply, normalise_rows, repeat_row, reserve, softmax_rows};
use super::tokens::{Input, Packed};
use super::weights::{Layer, Linear, Weights};

/// What a layer computed on the way.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerTape {
    /// Queries, keys and values, `rows × 3·width`.
    pub(crate) qkv: Vec<f32>,
    /// Attention before dropout: for each sequence and head `length × length`.
    pub(crate) attention: Vec<f32>,
    /// Weighted values, `rows × width`.
    pub(crate) context: Vec<f32>,
    /// Standard scores before the first norm's scale, and its reciprocal deviations.
    pub(crate) middle_hat: Vec<f32>,
    pub(crate) middle_reciprocals: Vec<f32>,
    /// Output of the first norm.
    pub(crate) middle: Vec<f32>,
    /// Before and after the GELU, `rows × inner`.
    pub(crate) up: Vec<f32>,
    pub(crate) active: Vec<f32>,
    /// Standard scores before the second norm's scale, and its reciprocal deviations.
    pub(crate) out_hat: Vec<f32>,
    pub(crate) out_reciprocals: Vec<f32>,
    /// Output of the layer, `rows × width`.
    pub(crate) out: Vec<f32>,
    /// Attention after dropout, of one sequence and head.
    scratch: Vec<f32>,
}

/// Random zeros that repeat themselves: the same seed and place give the same mask, so that a backward pass needs none
/// stored (Srivastava et al., 2014).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dropout {
    /// Share of values that become zero, 0 to below 1.
    pub(crate) rate: f32,
    /// Which masks.
    pub(crate) seed: u64,
}

/// Where in a layer values are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    Attention = 0,
    Middle = 1,
    Out = 2,
    Pooled = 3,
}

/// The masks of one place, in the order in which they are asked for.
#[derive(Debug, Clone)]
pub(crate) struct Masks {
    state: u64,
    below: u64,
    scale: f32,
}

impl Dropout {
    pub(crate) fn masks(&self, layer: usize, site: Site) -> Masks {
        let place = (layer as u64) * 4 + site as u64;
        let state = self.seed ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Masks { state, below: (f64::from(self.rate) * 65_536.0) as u64, scale: 1.0 / (1.0 - self.rate) }
    }
}

impl Masks {
    /// Drop values and scale up the others, so that their mean stays.
    pub(crate) fn apply(&mut self, values: &mut [f32]) {
        if self.below == 0 {
            return;
        }
        for four in values.chunks_mut(4) {
            // SplitMix64 (Steele, Lea & Flood, 2014); sixteen bits decide about a value.
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            for (at, value) in four.iter_mut().enumerate() {
                let keep = (z >> (16 * at)) & 0xffff >= self.below;
                *value = if keep { *value * self.scale } else { 0.0 };
            }
        }
    }
}

/// `out = x · weightᵀ + bias`.
fn apply(linear: &Linear, x: &[f32], rows: usize, out: &mut Vec<f32>) {
    reserve(out, rows * linear.rows);
    repeat_row(out, &linear.bias);
    let weight = Matrix::new(&linear.weight, linear.rows, linear.columns).transposed();
    multiply(out, linear.rows, Matrix::new(x, rows, linear.columns), weight, 1.0, true);
}

/// The vectors of the tokens before the first layer.
pub(crate) fn embed<'i>(
    weights: &Weights,
    config: &BertConfig,
    inputs: impl IntoIterator<Item = &'i Input>,
) -> Vec<f32> {
    let width = config.hidden_size;
    let row = |table: &[f32], at: usize| -> Vec<f32> { table[at * width..(at + 1) * width].to_vec() };
    let segments = [row(&weights.types, 0), row(&weights.types, 1.min(config.type_vocab_size - 1))];
    let mut values = Vec::new();
    for input in inputs {
        for (position, id) in input.ids.iter().enumerate() {
            let word = &weights.words[*id as usize * width..][..width];
            let place = &weights.positions[position * width..][..width];
            let segment = &segments[usize::from(position >= input.split)];
            values.extend(word.iter().zip(place).zip(segment).map(|((w, p), s)| w + p + s));
        }
    }
    let rows = values.len() / width;
    let (mut reciprocals, mut out) = (vec![0.0; rows], vec![0.0; rows * width]);
    let (norm, epsilon) = (&weights.norm, config.layer_norm_eps);
    normalise_rows(&mut values, &norm.gain, &norm.shift, epsilon, &mut reciprocals, &mut out);
    out
}

/// One layer over `x`, `rows × width`; `index` is its place in the model, which its dropout depends on.
pub(crate) fn layer(
    layer: &Layer,
    config: &BertConfig,
    (index, dropout): (usize, Option<&Dropout>),
    x: &[f32],
    packed: &Packed,
    tape: &mut LayerTape,
) {
    let (width, rows, epsilon) = (config.hidden_size, packed.rows(), config.layer_norm_eps);
    apply(&layer.qkv, x, rows, &mut tape.qkv);
    attend(config, (index, dropout), packed, tape);
    apply(&layer.attention, &tape.context, rows, &mut tape.middle_hat);
    if let Some(dropout) = dropout {
        dropout.masks(index, Site::Middle).apply(&mut tape.middle_hat);
    }
    add(&mut tape.middle_hat, x);
    reserve(&mut tape.middle, rows * width);
    reserve(&mut tape.middle_reciprocals, rows);
    let norm = &layer.attention_norm;
    let (hat, reciprocals) = (&mut tape.middle_hat, &mut tape.middle_reciprocals);
    normalise_rows(hat, &norm.gain, &norm.shift, epsilon, reciprocals, &mut tape.middle);
    apply(&layer.up, &tape.middle, rows, &mut tape.up);
    reserve(&mut tape.active, tape.up.len());
    gelu(&tape.up, &mut tape.active);
    apply(&layer.down, &tape.active, rows, &mut tape.out_hat);
    if let Some(dropout) = dropout {
        dropout.masks(index, Site::Out).apply(&mut tape.out_hat);
    }
    add(&mut tape.out_hat, &tape.middle);
    reserve(&mut tape.out, rows * width);
    reserve(&mut tape.out_reciprocals, rows);
    let (hat, reciprocals) = (&mut tape.out_hat, &mut tape.out_reciprocals);
    normalise_rows(hat, &layer.norm.gain, &layer.norm.shift, epsilon, reciprocals, &mut tape.out);
}

/// Scaled dot-product attention (Vaswani et al., 2017) within each sequence.
fn attend(config: &BertConfig, (index, dropout): (usize, Option<&Dropout>), packed: &Packed, tape: &mut LayerTape) {
    let (width, head, heads) = (config.hidden_size, config.head_size(), config.num_attention_heads);
    let scale = 1.0 / (head as f32).sqrt();
    let squares: usize = packed.sequences().map(|(_, n)| n * n).sum();
    reserve(&mut tape.attention, squares * heads);
    reserve(&mut tape.context, packed.rows() * width);
    let mut masks = dropout.map(|d| d.masks(index, Site::Attention));
    let mut at = 0;
    for (start, length) in packed.sequences() {
        let block = &mut tape.attention[at..at + heads * length * length];
        for (h, scores) in block.chunks_exact_mut(length * length).enumerate() {
            let [query, key, _] = projections(&tape.qkv, width, start, length, h, head);
            multiply(scores, length, query, key.transposed(), scale, false);
        }
        softmax_rows(block, length);
        for (h, scores) in block.chunks_exact(length * length).enumerate() {
            let [_, _, value] = projections(&tape.qkv, width, start, length, h, head);
            let scores = match &mut masks {
                Some(masks) => {
                    tape.scratch.clear();
                    tape.scratch.extend_from_slice(scores);
                    masks.apply(&mut tape.scratch);
                    &tape.scratch[..]
                }
                None => scores,
            };
            let out = &mut tape.context[start * width + h * head..];
            multiply(out, width, Matrix::new(scores, length, length), value, 1.0, false);
        }
        at += heads * length * length;
    }
}

/// Queries, keys and values of one head of one sequence, `length × head`.
pub(crate) fn projections(
    qkv: &[f32],
    width: usize,
    start: usize,
    length: usize,
    h: usize,
    head: usize,
) -> [Matrix<'_>; 3] {
    [0, 1, 2].map(|part| Matrix::strided(&qkv[start * 3 * width + part * width + h * head..], length, head, 3 * width))
}
