//! The way back through a layer of the encoder: from the gradient of its output to those of its weights and its input.
//! Checked against finite differences in the tests.

use crate::encoder::config::BertConfig;
use crate::encoder::forward::{Dropout, LayerTape, Site, projections};
use crate::encoder::math::{Matrix, add, gelu_gradient, lanes, multiply, reserve, wide};
use crate::encoder::tokens::Packed;
use crate::encoder::weights::{Layer, Linear, Norm};

/// Buffers that live through all layers of all steps.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    wide: Vec<f32>,
    dropped: Vec<f32>,
    context: Vec<f32>,
    qkv: Vec<f32>,
    scores: Vec<f32>,
    attention: Vec<f32>,
}

/// Turn `gradient` of the output of a layer (`rows × width`) into that of its input `x`, and write the gradients of its
/// weights to `into`, whatever stood there. `tape` is what the forward pass left, with the same dropout. Without
/// `input_too` the gradient of the input is not computed and `gradient` is of no use afterwards.
#[allow(clippy::too_many_arguments)]
pub(super) fn layer(
    layer: &Layer,
    config: &BertConfig,
    (index, dropout): (usize, Option<&Dropout>),
    x: &[f32],
    tape: &LayerTape,
    packed: &Packed,
    gradient: &mut [f32],
    into: &mut Layer,
    scratch: &mut Scratch,
    input_too: bool,
) {
    let rows = packed.rows();
    norm(&layer.norm, &tape.out_hat, &tape.out_reciprocals, gradient, &mut into.norm);
    let drop = |site: Site, values: &mut Vec<f32>, gradient: &[f32]| {
        values.clear();
        values.extend_from_slice(gradient);
        if let Some(dropout) = dropout {
            dropout.masks(index, site).apply(values);
        }
    };
    drop(Site::Out, &mut scratch.dropped, gradient);
    weights(&scratch.dropped, &tape.active, rows, &mut into.down);
    reserve(&mut scratch.wide, rows * layer.up.rows);
    input(&layer.down, &scratch.dropped, rows, &mut scratch.wide, false);
    gelu_gradient(&tape.up, &mut scratch.wide);
    weights(&scratch.wide, &tape.middle, rows, &mut into.up);
    input(&layer.up, &scratch.wide, rows, gradient, true);
    norm(&layer.attention_norm, &tape.middle_hat, &tape.middle_reciprocals, gradient, &mut into.attention_norm);
    drop(Site::Middle, &mut scratch.dropped, gradient);
    weights(&scratch.dropped, &tape.context, rows, &mut into.attention);
    reserve(&mut scratch.context, rows * config.hidden_size);
    input(&layer.attention, &scratch.dropped, rows, &mut scratch.context, false);
    attend(config, (index, dropout), tape, packed, scratch);
    weights(&scratch.qkv, x, rows, &mut into.qkv);
    if input_too {
        input(&layer.qkv, &scratch.qkv, rows, gradient, true);
    }
}

/// Gradients of the weights of `y = x · Wᵀ + b` from that of `y`.
fn weights(gradient: &[f32], x: &[f32], rows: usize, into: &mut Linear) {
    let (out, columns) = (into.rows, into.columns);
    let transposed = Matrix::new(gradient, rows, out).transposed();
    multiply(&mut into.weight, columns, transposed, Matrix::new(x, rows, columns), 1.0, false);
    into.bias.fill(0.0);
    for row in gradient.chunks_exact(out) {
        add(&mut into.bias, row);
    }
}

/// Gradient of `x` in `y = x · Wᵀ + b` from that of `y`, or that added to `out`.
fn input(linear: &Linear, gradient: &[f32], rows: usize, out: &mut [f32], add: bool) {
    let weight = Matrix::new(&linear.weight, linear.rows, linear.columns);
    multiply(out, linear.columns, Matrix::new(gradient, rows, linear.rows), weight, 1.0, add);
}

/// Through a norm: `gradient` of its output becomes that of its input.
fn norm(norm: &Norm, hat: &[f32], reciprocals: &[f32], gradient: &mut [f32], into: &mut Norm) {
    into.gain.fill(0.0);
    into.shift.fill(0.0);
    norm_rows(&norm.gain, hat, reciprocals, gradient, &mut into.gain, &mut into.shift);
}

wide! {
    fn norm_rows(
        gain: &[f32],
        hat: &[f32],
        reciprocals: &[f32],
        gradient: &mut [f32],
        gain_gradient: &mut [f32],
        shift_gradient: &mut [f32],
    ) {
        let n = gain.len();
        let (gain_gradient, shift_gradient) = (&mut gain_gradient[..n], &mut shift_gradient[..n]);
        for ((row, hat), reciprocal) in gradient.chunks_exact_mut(n).zip(hat.chunks_exact(n)).zip(reciprocals) {
            for i in 0..n {
                gain_gradient[i] += row[i] * hat[i];
                shift_gradient[i] += row[i];
                row[i] *= gain[i];
            }
            let mean = lanes(n, |i| row[i]) / n as f32;
            let slope = lanes(n, |i| row[i] * hat[i]) / n as f32;
            for i in 0..n {
                row[i] = *reciprocal * (row[i] - mean - hat[i] * slope);
            }
        }
    }
}

wide! {
    /// Through the softmax of rows: `gradient` of the probabilities becomes that of the scores.
    fn softmax_gradient(probabilities: &[f32], gradient: &mut [f32], columns: usize) {
        for (p, g) in probabilities.chunks_exact(columns).zip(gradient.chunks_exact_mut(columns)) {
            let mean = lanes(columns, |i| p[i] * g[i]);
            for i in 0..columns {
                g[i] = p[i] * (g[i] - mean);
            }
        }
    }
}

/// Through attention: from `scratch.context` to `scratch.qkv`.
fn attend(
    config: &BertConfig,
    (index, dropout): (usize, Option<&Dropout>),
    tape: &LayerTape,
    packed: &Packed,
    scratch: &mut Scratch,
) {
    let (width, head, heads) = (config.hidden_size, config.head_size(), config.num_attention_heads);
    let scale = 1.0 / (head as f32).sqrt();
    reserve(&mut scratch.qkv, packed.rows() * 3 * width);
    let mut masks = dropout.map(|d| d.masks(index, Site::Attention));
    let mut at = 0;
    for (start, length) in packed.sequences() {
        let square = length * length;
        for h in 0..heads {
            let probabilities = &tape.attention[at + h * square..][..square];
            let [query, key, value] = projections(&tape.qkv, width, start, length, h, head);
            let context = Matrix::strided(&scratch.context[start * width + h * head..], length, head, width);
            let place = |part: usize| start * 3 * width + part * width + h * head;
            reserve(&mut scratch.scores, square);
            multiply(&mut scratch.scores, length, context, value.transposed(), 1.0, false);
            scratch.attention.clear();
            scratch.attention.extend_from_slice(probabilities);
            if let Some(masks) = &mut masks {
                // One mask for both: the values that were dropped pass nothing back.
                masks.clone().apply(&mut scratch.attention);
                masks.apply(&mut scratch.scores);
            }
            let dropped = Matrix::new(&scratch.attention, length, length).transposed();
            multiply(&mut scratch.qkv[place(2)..], 3 * width, dropped, context, 1.0, false);
            softmax_gradient(probabilities, &mut scratch.scores, length);
            let scores = Matrix::new(&scratch.scores, length, length);
            multiply(&mut scratch.qkv[place(0)..], 3 * width, scores, key, scale, false);
            multiply(&mut scratch.qkv[place(1)..], 3 * width, scores.transposed(), query, scale, false);
        }
        at += heads * square;
    }
}
