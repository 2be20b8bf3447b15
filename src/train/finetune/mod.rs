//! Fine-tuning a sentence encoder on labelled items: its upper layers and a head that says the type.
//!
//! Embeddings and the lowest layers stay as they are; their states are computed once and kept, so that an epoch costs
//! only what it changes. A step is data-parallel over [`SHARDS`] shards whatever the number of threads, so that the same
//! labels, options and class of processor give the same bytes; after each epoch the whole state can be taken out
//! ([`Trainer::checkpoint`]) and put back ([`Trainer::resume`]).

mod adam;
#[cfg(test)]
mod tests;

use super::backward::{self, Scratch};
use crate::classify::TYPES;
use crate::classify::metrics::SplitMix;
use crate::classify::tuned::{Head, InputOptions, TunedModel, pool};
use crate::corpus::Sha256;
use crate::encoder::forward::{self, Dropout, LayerTape, Site};
use crate::encoder::tokens::{Input, Packed};
use crate::encoder::weights::{Collected, Layer, Reader};
use crate::encoder::{Encoder, EncoderError};
use adam::{BETAS, adam, schedule, square_length};
use rayon::prelude::*;
use std::sync::Arc;

/// Parts of a batch that are computed side by side.
const SHARDS: usize = 2;
/// Bytes of kept states beyond which the lowest layers are computed anew instead.
const KEPT_BYTES: usize = 4 << 30;
/// Rows of a batch when states are computed once.
const ROWS: usize = 512;
/// What a checkpoint holds of every parameter: its value and the moments of its gradient.
const KEPT: [&str; 3] = ["value", "first", "second"];

/// How to fine-tune.
#[derive(Debug, Clone, PartialEq)]
pub struct FinetuneOptions {
    /// What the encoder sees of an item.
    pub input: InputOptions,
    /// Passes over the items.
    pub epochs: usize,
    /// Items of a step.
    pub batch: usize,
    /// Largest learning rate.
    pub rate: f32,
    /// Factor on it for the head, which begins at nothing.
    pub head_factor: f32,
    /// Share of the steps in which the rate grows; then it falls as a cosine.
    pub warm_up: f32,
    /// Decoupled weight decay of matrices (Loshchilov & Hutter, 2019).
    pub decay: f32,
    /// Share of states dropped.
    pub dropout: f32,
    /// Largest length of the gradient of a step.
    pub clip: f32,
    /// Lowest layers that stay as they are.
    pub frozen: usize,
    /// Order of items and dropout follow from it.
    pub seed: u64,
}

impl Default for FinetuneOptions {
    fn default() -> Self {
        Self {
            input: InputOptions::default(),
            epochs: 3,
            batch: 32,
            rate: 1e-4,
            head_factor: 10.0,
            warm_up: 0.1,
            decay: 0.01,
            dropout: 0.1,
            clip: 1.0,
            frozen: 2,
            seed: 1,
        }
    }
}

/// An item to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Its tokens.
    pub input: Input,
    /// What the answer should be, summing to one.
    pub target: [f32; TYPES],
    /// How much it counts; 0 leaves it out.
    pub weight: f32,
}

/// A checkpoint that cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is damaged or of another encoder.
    #[error("Failed to read the checkpoint: {0}")]
    Damaged(#[from] EncoderError),
    /// It belongs to other labels or options.
    #[error(
        "Failed to continue from the checkpoint: it was made with other labels, another encoder or other options; remove it to begin anew"
    )]
    Other,
}

/// The parameters that change, or numbers of their shape.
#[derive(Debug, Clone, PartialEq)]
struct Parameters {
    layers: Vec<Layer>,
    head: Head,
}

impl Parameters {
    fn zeros(encoder: &Encoder, frozen: usize) -> Self {
        let layers = (frozen..encoder.weights.layers.len()).map(|_| Layer::zeros(&encoder.config)).collect();
        Self { layers, head: Head::zeros(encoder.dimensions()) }
    }

    /// Every slice, and whether it is a matrix.
    fn slices(&self) -> Vec<&[f32]> {
        let layers = self.layers.iter().flat_map(Layer::parameters);
        layers.chain([&self.head.weight[..], &self.head.bias[..]]).collect()
    }

    fn slices_mut(&mut self) -> Vec<&mut [f32]> {
        let layers = self.layers.iter_mut().flat_map(Layer::parameters_mut);
        layers.chain([&mut self.head.weight[..], &mut self.head.bias[..]]).collect()
    }
}

/// One shard's buffers.
#[derive(Debug)]
struct Worker {
    tapes: Vec<LayerTape>,
    scratch: Scratch,
    gradient: Parameters,
    loss: f64,
}

/// A fine-tuning under way.
#[derive(Debug)]
pub struct Trainer {
    encoder: Encoder,
    options: FinetuneOptions,
    lessons: Arc<[Lesson]>,
    used: Vec<usize>,
    /// States before the first layer that changes, as upper halves of singles; `None` when they would be too many.
    kept: Option<Vec<Vec<u16>>>,
    parameters: Parameters,
    first: Parameters,
    second: Parameters,
    workers: Vec<Worker>,
    epoch: usize,
    step: usize,
    fingerprint: Sha256,
}

/// What an epoch did.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct EpochReport {
    /// Which, from 1.
    pub epoch: usize,
    /// Steps so far.
    pub step: usize,
    /// Mean loss over the items of the epoch, by weight.
    pub loss: f64,
}

impl Trainer {
    /// Begin with a pretrained encoder.
    pub fn new(encoder: Encoder, lessons: Arc<[Lesson]>, options: FinetuneOptions) -> Self {
        let depth = encoder.weights.layers.len();
        let options = FinetuneOptions { frozen: options.frozen.min(depth), batch: options.batch.max(1), ..options };
        let used: Vec<usize> = (0..lessons.len()).filter(|i| lessons[*i].weight > 0.0).collect();
        let parameters = Parameters {
            layers: encoder.weights.layers[options.frozen..].to_vec(),
            head: Head::zeros(encoder.dimensions()),
        };
        let zeros = Parameters::zeros(&encoder, options.frozen);
        let worker = || Worker {
            tapes: vec![LayerTape::default(); depth],
            scratch: Scratch::default(),
            gradient: zeros.clone(),
            loss: 0.0,
        };
        let mut trainer = Self {
            fingerprint: fingerprint(&encoder, &lessons, &options),
            workers: (0..SHARDS).map(|_| worker()).collect(),
            first: zeros.clone(),
            second: zeros.clone(),
            kept: None,
            epoch: 0,
            step: 0,
            encoder,
            options,
            lessons,
            used,
            parameters,
        };
        trainer.keep_states();
        trainer
    }

    fn keep_states(&mut self) {
        let width = self.encoder.dimensions();
        let rows: usize = self.used.iter().map(|i| self.lessons[*i].input.len()).sum();
        if rows * width * size_of::<u16>() > KEPT_BYTES {
            return;
        }
        let mut kept = vec![Vec::new(); self.lessons.len()];
        let (encoder, frozen) = (&self.encoder, self.options.frozen);
        let used: Vec<Input> = self.used.iter().map(|i| self.lessons[*i].input.clone()).collect();
        let batches = crate::encoder::batches(&used, ROWS);
        let found: Vec<Vec<Vec<u16>>> = batches
            .par_iter()
            .map(|batch| {
                let packed = Packed::of(batch.iter().map(|i| &used[*i]));
                let states = lower_states(encoder, frozen, batch.iter().map(|i| &used[*i]), &packed);
                let halves = |(start, length): (usize, usize)| {
                    states[start * width..(start + length) * width].iter().map(|v| upper_half(*v)).collect()
                };
                packed.sequences().map(halves).collect()
            })
            .collect();
        for (at, states) in batches.iter().flatten().zip(found.into_iter().flatten()) {
            kept[self.used[*at]] = states;
        }
        self.kept = Some(kept);
    }

    /// Epochs done.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Whether all epochs are done.
    pub fn is_done(&self) -> bool {
        self.epoch >= self.options.epochs
    }

    /// Steps of an epoch, items of a step.
    pub fn pace(&self) -> (usize, usize) {
        (self.used.len().div_ceil(self.options.batch), self.options.batch)
    }

    /// One pass over the lessons; `each` hears the number of items after every step and says whether to go on. Nothing
    /// comes back from an epoch that was broken off, and the trainer is of no use then: begin again from the checkpoint.
    pub fn run_epoch(&mut self, mut each: impl FnMut(usize) -> bool) -> Option<EpochReport> {
        let mut order = self.used.clone();
        SplitMix(self.options.seed ^ (self.epoch as u64 + 1).wrapping_mul(0x9e37_79b9)).shuffle(&mut order);
        let (mut loss, mut weight) = (0.0, 0.0);
        for batch in order.chunks(self.options.batch) {
            let total: f32 = batch.iter().map(|i| self.lessons[*i].weight).sum();
            loss += self.train_step(batch, total);
            weight += f64::from(total);
            if !each(batch.len()) {
                return None;
            }
        }
        self.epoch += 1;
        Some(EpochReport { epoch: self.epoch, step: self.step, loss: loss / weight.max(1e-9) })
    }

    fn train_step(&mut self, batch: &[usize], total: f32) -> f64 {
        // The longest are dealt out in turns, so that both shards have as much to do.
        let mut dealt = batch.to_vec();
        dealt.sort_by_key(|i| (std::cmp::Reverse(self.lessons[*i].input.len()), *i));
        let shards: Vec<Vec<usize>> =
            (0..SHARDS).map(|s| dealt.iter().skip(s).step_by(SHARDS).copied().collect()).collect();
        let mut workers = std::mem::take(&mut self.workers);
        let this = &*self;
        workers.par_iter_mut().zip(&shards).enumerate().for_each(|(s, (worker, shard))| {
            let seed =
                this.options.seed.wrapping_add((this.step * SHARDS + s) as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d);
            this.gradients(worker, shard, seed, total);
        });
        let loss = workers.iter().map(|w| w.loss).sum();
        let (sum, others) = workers.split_at_mut(1);
        for other in others.iter() {
            let pairs: Vec<_> = sum[0].gradient.slices_mut().into_iter().zip(other.gradient.slices()).collect();
            pairs.into_par_iter().for_each(|(into, from)| crate::encoder::math::add(into, from));
        }
        self.workers = workers;
        self.update();
        loss
    }

    /// Loss and gradients of a shard; `total` is the weight of the whole batch.
    fn gradients(&self, worker: &mut Worker, shard: &[usize], seed: u64, total: f32) {
        let (config, frozen) = (&self.encoder.config, self.options.frozen);
        let width = config.hidden_size;
        let depth = self.encoder.weights.layers.len();
        worker.loss = 0.0;
        if shard.is_empty() {
            worker.gradient.slices_mut().into_iter().for_each(|slice| slice.fill(0.0));
            return;
        }
        let packed = Packed::of(shard.iter().map(|i| &self.lessons[*i].input));
        let states = match &self.kept {
            Some(kept) => {
                shard.iter().flat_map(|i| kept[*i].iter().map(|h| f32::from_bits(u32::from(*h) << 16))).collect()
            }
            None => lower_states(&self.encoder, frozen, shard.iter().map(|i| &self.lessons[*i].input), &packed),
        };
        let dropout = (self.options.dropout > 0.0).then_some(Dropout { rate: self.options.dropout, seed });
        let dropout = dropout.as_ref();
        for index in frozen..depth {
            let (before, from) = worker.tapes.split_at_mut(index);
            let x = if index == frozen { &states } else { &before[index - 1].out };
            let layer = &self.parameters.layers[index - frozen];
            forward::layer(layer, config, (index, dropout), x, &packed, &mut from[0]);
        }
        let last = if depth > frozen { &worker.tapes[depth - 1].out } else { &states };
        let mut pooled = pool(last, &packed, width);
        if let Some(dropout) = dropout {
            dropout.masks(depth, Site::Pooled).apply(&mut pooled);
        }
        let head = &self.parameters.head;
        let into = &mut worker.gradient.head;
        into.weight.fill(0.0);
        into.bias.fill(0.0);
        let mut pooled_gradient = vec![0.0f32; pooled.len()];
        for ((i, pooled), gradient) in
            shard.iter().zip(pooled.chunks_exact(2 * width)).zip(pooled_gradient.chunks_exact_mut(2 * width))
        {
            let lesson = &self.lessons[*i];
            let probabilities = softmax(head.logits(pooled));
            for (t, (probability, target)) in probabilities.iter().zip(&lesson.target).enumerate() {
                worker.loss -= f64::from(lesson.weight * target) * probability.max(1e-30).ln();
                let error = (*probability as f32 - target) * lesson.weight / total;
                into.bias[t] += error;
                let (row, row_gradient) = (t * 2 * width, &mut into.weight[t * 2 * width..(t + 1) * 2 * width]);
                for j in 0..2 * width {
                    row_gradient[j] += error * pooled[j];
                    gradient[j] += error * head.weight[row + j];
                }
            }
        }
        if let Some(dropout) = dropout {
            dropout.masks(depth, Site::Pooled).apply(&mut pooled_gradient);
        }
        let mut gradient = unpool(&pooled_gradient, &packed, width);
        for index in (frozen..depth).rev() {
            let x = if index == frozen { &states } else { &worker.tapes[index - 1].out };
            backward::layer(
                &self.parameters.layers[index - frozen],
                config,
                (index, dropout),
                x,
                &worker.tapes[index],
                &packed,
                &mut gradient,
                &mut worker.gradient.layers[index - frozen],
                &mut worker.scratch,
                index > frozen,
            );
        }
    }

    /// AdamW (Loshchilov & Hutter, 2019) on the gradient in the first worker, cut to its largest length.
    fn update(&mut self) {
        let gradient = &self.workers[0].gradient;
        let squares: f64 = gradient.slices().par_iter().map(|s| square_length(s)).collect::<Vec<_>>().iter().sum();
        let cut = (f64::from(self.options.clip) / squares.sqrt().max(1e-12)).min(1.0) as f32;
        self.step += 1;
        let steps = self.options.epochs * self.used.len().div_ceil(self.options.batch);
        let rate = self.options.rate * schedule(self.step, steps, self.options.warm_up);
        let bias = [1.0 - BETAS[0].powi(self.step as i32), 1.0 - BETAS[1].powi(self.step as i32)];
        let count = gradient.slices().len();
        let gradient = gradient.slices();
        let values = self.parameters.slices_mut();
        let moments = self.first.slices_mut().into_iter().zip(self.second.slices_mut());
        let jobs: Vec<_> = values.into_iter().zip(gradient).zip(moments).enumerate().collect();
        let (head_factor, decay) = (self.options.head_factor, self.options.decay);
        jobs.into_par_iter().for_each(|(at, ((values, gradient), (first, second)))| {
            let rate = if at + 2 >= count { rate * head_factor } else { rate };
            // Matrices shrink, shifts and scales do not: of a layer's slices those stand at 0, 2, 6 and 8.
            let is_matrix = if at + 2 >= count { at + 2 == count } else { matches!(at % 12, 0 | 2 | 6 | 8) };
            let step = [rate / bias[0], 1.0 / bias[1], cut, if is_matrix { 1.0 - rate * decay } else { 1.0 }];
            adam(values, gradient, first, second, &step);
        });
    }

    /// The encoder and head as they are now.
    pub(crate) fn model(&self) -> (Encoder, Head) {
        let mut encoder = self.encoder.clone();
        encoder.weights.layers[self.options.frozen..].clone_from_slice(&self.parameters.layers);
        (encoder, self.parameters.head.clone())
    }

    /// Logits of the model as it is now, in the order of `inputs`.
    pub fn logits(&self, inputs: &[Input]) -> Vec<[f32; TYPES]> {
        let (encoder, head) = self.model();
        TunedModel::logits(&encoder, &head, inputs)
    }

    /// All that changes, as a file.
    pub fn checkpoint(&self) -> Result<Vec<u8>, EncoderError> {
        let mut collected = Collected::default();
        let kept = [&self.parameters, &self.first, &self.second];
        for (name, parameters) in KEPT.into_iter().zip(kept) {
            for (at, slice) in parameters.slices().into_iter().enumerate() {
                collected.push(&format!("{name}.{at}"), &[slice.len()], slice);
            }
        }
        // Counts and bytes are exact in singles.
        collected.push("progress", &[2], &[self.epoch as f32, self.step as f32]);
        collected.push("fingerprint", &[32], &self.fingerprint.0.map(f32::from));
        collected.file()
    }

    /// Go on from a checkpoint of the same lessons, encoder and options.
    pub fn resume(&mut self, checkpoint: &[u8]) -> Result<(), CheckpointError> {
        let reader = Reader::new(checkpoint)?;
        if reader.values("fingerprint", &[32])? != self.fingerprint.0.map(f32::from) {
            return Err(CheckpointError::Other);
        }
        let mut read = [self.parameters.clone(), self.first.clone(), self.second.clone()];
        for (name, parameters) in KEPT.into_iter().zip(&mut read) {
            for (at, slice) in parameters.slices_mut().into_iter().enumerate() {
                slice.copy_from_slice(&reader.values(&format!("{name}.{at}"), &[slice.len()])?);
            }
        }
        let progress = reader.values("progress", &[2])?;
        [self.parameters, self.first, self.second] = read;
        (self.epoch, self.step) = (progress[0] as usize, progress[1] as usize);
        Ok(())
    }
}

fn softmax(logits: [f32; TYPES]) -> [f64; TYPES] {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps = logits.map(|z| f64::from(z - max).exp());
    let sum: f64 = exps.iter().sum();
    exps.map(|e| e / sum)
}

/// The way back through [`pool`].
fn unpool(pooled: &[f32], packed: &Packed, width: usize) -> Vec<f32> {
    let mut gradient = vec![0.0f32; packed.rows() * width];
    for (((start, _), split), pooled) in packed.sequences().zip(&packed.splits).zip(pooled.chunks_exact(2 * width)) {
        let (first, mean) = pooled.split_at(width);
        for row in gradient[start * width..(start + split) * width].chunks_exact_mut(width) {
            row.iter_mut().zip(mean).for_each(|(g, m)| *g = m / *split as f32);
        }
        gradient[start * width..][..width].iter_mut().zip(first).for_each(|(g, f)| *g += f);
    }
    gradient
}

/// States after the embeddings and the lowest `frozen` layers, without dropout.
fn lower_states<'i>(
    encoder: &Encoder,
    frozen: usize,
    inputs: impl Iterator<Item = &'i Input>,
    packed: &Packed,
) -> Vec<f32> {
    let mut states = forward::embed(&encoder.weights, &encoder.config, inputs);
    let mut tape = LayerTape::default();
    for (index, layer) in encoder.weights.layers[..frozen].iter().enumerate() {
        forward::layer(layer, &encoder.config, (index, None), &states, packed, &mut tape);
        std::mem::swap(&mut states, &mut tape.out);
    }
    states
}

/// The upper half of a single, rounded to even.
fn upper_half(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// What a checkpoint must share with the training that goes on from it.
fn fingerprint(encoder: &Encoder, lessons: &[Lesson], options: &FinetuneOptions) -> Sha256 {
    let mut bytes = format!("3\n{}\n{options:?}\n", encoder.id()).into_bytes();
    for lesson in lessons {
        bytes.extend((lesson.input.ids.len() as u32).to_le_bytes());
        bytes.extend((lesson.input.split as u32).to_le_bytes());
        bytes.extend(lesson.input.ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(lesson.target.iter().chain([&lesson.weight]).flat_map(|v| v.to_le_bytes()));
    }
    Sha256::of(&bytes)
}
