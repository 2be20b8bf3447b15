//! The optimiser: AdamW with a rate that rises and falls.

use crate::encoder::math::{lanes, wide};

/// Decay of the moments of the gradient.
pub(super) const BETAS: [f32; 2] = [0.9, 0.999];

wide! {
    /// One step of AdamW; `step` holds rate over bias of the first moment, one over bias of the second, factor on the
    /// gradient, factor on the value.
    pub(super) fn adam(values: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32], step: &[f32; 4]) {
        let [rate, scale, cut, shrink] = *step;
        for (((value, g), m), v) in values.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = *g * cut;
            *m = BETAS[0] * *m + (1.0 - BETAS[0]) * g;
            *v = BETAS[1] * *v + (1.0 - BETAS[1]) * g * g;
            *value = *value * shrink - rate * *m / ((*v * scale).sqrt() + 1e-8);
        }
    }
}

/// Share of the largest rate at a step: a line up, then half a cosine down to nothing.
pub(super) fn schedule(step: usize, steps: usize, warm_up: f32) -> f32 {
    let (step, steps) = (step as f32, steps.max(1) as f32);
    let warm = (steps * warm_up).max(1.0);
    if step < warm {
        step / warm
    } else {
        let along = ((step - warm) / (steps - warm).max(1.0)).min(1.0);
        0.5 * (1.0 + (std::f32::consts::PI * along).cos())
    }
}

pub(super) fn square_length(slice: &[f32]) -> f64 {
    // By thousands, so that singles are summed fast and their error stays small.
    slice.chunks(1024).map(|c| f64::from(lanes(c.len(), |i| c[i] * c[i]))).sum()
}
