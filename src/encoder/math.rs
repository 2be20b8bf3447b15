//! Products of matrices and the few functions between them, on slices of `f32` in row-major order.

use gemm::Parallelism;

/// Compile a loop once more for wide registers and take that at run time where the processor has them. No step is fused
/// or reordered, so both answer the same.
macro_rules! wide {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) {
            #[inline(always)]
            fn plain($($arg: $ty),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn with_avx2($($arg: $ty),*) {
                    plain($($arg),*);
                }
                if std::is_x86_feature_detected!("avx2") {
                    #[allow(unsafe_code)]
                    // SAFETY: the processor has just said that it knows these instructions.
                    unsafe {
                        with_avx2($($arg),*);
                    }
                    return;
                }
            }
            plain($($arg),*);
        }
    };
}
pub(crate) use wide;

/// A matrix inside a slice: element `(i, j)` lies at `i * row_stride + j * column_stride`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows that follow each other without a gap.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows that begin `row_stride` elements apart.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// Rows and columns exchanged, without moving anything.
    pub(crate) fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    fn fits(&self) -> bool {
        self.rows == 0
            || self.columns == 0
            || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride < self.data.len()
    }
}

/// `out = scale · a · b`, or that added to `out`; the rows of `out` begin `stride` elements apart.
///
/// # Panics
/// When a matrix does not fit its slice or the sizes do not meet: a mistake of the caller, never of the data.
pub(crate) fn multiply(out: &mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>, scale: f32, add: bool) {
    assert!(a.fits() && b.fits() && a.columns == b.rows && b.columns <= stride);
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    assert!((a.rows - 1) * stride + b.columns <= out.len());
    #[allow(unsafe_code)]
    // SAFETY: the assertions above keep every element that the strides reach inside its slice, and `out` is borrowed
    // alone. Strides are lengths of slices and fit `isize`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            stride as isize,
            add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// e^x to about 2 units in the last place, between -87 and 88 (outside it stays at the ends): no call, no branch.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding and taking away 1.5 · 2²³ rounds to the nearest integer.
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    // ln 2 in two parts, so that the remainder is exact (Cody & Waite, 1980).
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let value = p * r * r + r + 1.0;
    // The integer stands in the lowest bits of the shifted number; from there it becomes an exponent.
    value * f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// The normal distribution function Φ and density φ at `x`, from one exponential; absolute error below 1e-6
/// (Abramowitz & Stegun, 1964, 7.1.26).
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    let bell = exp(-0.5 * x * x);
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let p = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let tail = 0.5 * p * bell;
    let below = if x >= 0.0 { 1.0 - tail } else { tail };
    (below, bell * 0.398_942_3)
}

wide! {
    /// `out = gelu(input)` with the exact (error function) form: x·Φ(x) (Hendrycks & Gimpel, 2016).
    pub(crate) fn gelu(input: &[f32], out: &mut [f32]) {
        for (y, x) in out.iter_mut().zip(input) {
            *y = *x * normal(*x).0;
        }
    }
}

wide! {
    /// Multiply `gradient` by the derivative of the GELU at `input`: Φ(x) + x·φ(x).
    pub(crate) fn gelu_gradient(input: &[f32], gradient: &mut [f32]) {
        for (g, x) in gradient.iter_mut().zip(input) {
            let (below, density) = normal(*x);
            *g *= below + *x * density;
        }
    }
}

wide! {
    /// The softmax of each row of `columns` elements, in place.
    pub(crate) fn softmax_rows(values: &mut [f32], columns: usize) {
        for row in values.chunks_exact_mut(columns) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for v in row.iter_mut() {
                *v = exp(*v - max);
            }
            let scale = 1.0 / lanes(row.len(), |i| row[i]);
            for v in row.iter_mut() {
                *v *= scale;
            }
        }
    }
}

/// Sum of `term(i)` for `i < n`, in eight lanes of fixed order.
#[inline(always)]
pub(crate) fn lanes(n: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut sums = [0.0f32; 8];
    let whole = n / 8 * 8;
    let mut at = 0;
    while at < whole {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += term(at + lane);
        }
        at += 8;
    }
    for i in whole..n {
        sums[i - whole] += term(i);
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
}

wide! {
    /// Normalise each row of `values` to mean 0 and variance 1 in place, and write it scaled and shifted to `out`. The
    /// reciprocal deviations go to `reciprocals`, for the way back (Ba, Kiros & Hinton, 2016).
    pub(crate) fn normalise_rows(
        values: &mut [f32],
        gain: &[f32],
        shift: &[f32],
        epsilon: f32,
        reciprocals: &mut [f32],
        out: &mut [f32],
    ) {
        let n = gain.len();
        let shift = &shift[..n];
        let rows = values.chunks_exact_mut(n).zip(out.chunks_exact_mut(n)).zip(reciprocals);
        for ((row, out), reciprocal) in rows {
            let mean = lanes(n, |i| row[i]) / n as f32;
            let variance = lanes(n, |i| (row[i] - mean) * (row[i] - mean)) / n as f32;
            *reciprocal = 1.0 / (variance + epsilon).sqrt();
            for i in 0..n {
                row[i] = (row[i] - mean) * *reciprocal;
                out[i] = row[i] * gain[i] + shift[i];
            }
        }
    }
}

wide! {
    /// `values += other`.
    pub(crate) fn add(values: &mut [f32], other: &[f32]) {
        for (v, o) in values.iter_mut().zip(other) {
            *v += o;
        }
    }
}

/// Write `row` into every row of `out`.
pub(crate) fn repeat_row(out: &mut [f32], row: &[f32]) {
    for into in out.chunks_exact_mut(row.len()) {
        into.copy_from_slice(row);
    }
}

/// Give `buffer` this length; what it holds afterwards is unspecified.
pub(crate) fn reserve(buffer: &mut Vec<f32>, length: usize) {
    buffer.resize(length, 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_and_gelu_follow_their_definitions() {
        for i in -8_700..8_800 {
            let x = i as f32 / 100.0;
            let right = f64::from(x).exp();
            assert!((f64::from(exp(x)) / right - 1.0).abs() < 3e-7, "exp({x})");
        }
        assert!(exp(-1e9) < 1e-37 && exp(1e9).is_finite());
        // Φ from its series, independent of the approximation: Φ(x) = ½ + φ(0)·Σ (-1)ⁿ x^(2n+1) / (n! 2ⁿ (2n+1)).
        let phi = |x: f64| {
            let (mut term, mut sum) = (x, x);
            for n in 1..200 {
                term *= -x * x / (2.0 * f64::from(n));
                sum += term / f64::from(2 * n + 1);
            }
            0.5 + sum / (2.0 * std::f64::consts::PI).sqrt()
        };
        for i in -500..=500 {
            let x = i as f32 / 100.0;
            let mut y = [0.0];
            gelu(&[x], &mut y);
            assert!((f64::from(y[0]) - f64::from(x) * phi(f64::from(x))).abs() < 2e-6, "gelu({x}) = {}", y[0]);
            let mut g = [1.0];
            gelu_gradient(&[x], &mut g);
            let h = 1e-4;
            let slope =
                ((f64::from(x) + h) * phi(f64::from(x) + h) - (f64::from(x) - h) * phi(f64::from(x) - h)) / (2.0 * h);
            assert!((f64::from(g[0]) - slope).abs() < 4e-6, "gelu'({x}) = {} {slope}", g[0]);
        }
    }

    #[test]
    fn products_of_strided_and_transposed_matrices() {
        // A is 2×3 inside rows of four, B is 2×3 and taken transposed.
        let a = [1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0];
        let b = [1.0, 0.0, 1.0, 0.0, 2.0, 0.0];
        let mut out = [100.0; 6];
        let (a, b) = (Matrix::strided(&a, 2, 3, 4), Matrix::new(&b, 2, 3).transposed());
        multiply(&mut out, 3, a, b, 2.0, false);
        assert_eq!(out, [8.0, 8.0, 100.0, 20.0, 20.0, 100.0]);
        multiply(&mut out, 3, a, b, 0.5, true);
        assert_eq!(out, [10.0, 10.0, 100.0, 25.0, 25.0, 100.0]);
    }

    #[test]
    fn rows_become_distributions_and_standard_scores() {
        let mut rows = vec![1.0, 2.0, 3.0, 1000.0, 1000.0, -1000.0];
        softmax_rows(&mut rows, 3);
        let sum: f32 = rows[..3].iter().sum();
        assert!((sum - 1.0).abs() < 1e-6 && (rows[3] - 0.5).abs() < 1e-6 && rows[5] < 1e-30);
        let mut values: Vec<f32> = (0..20).map(|i| (i * i) as f32).collect();
        let (mut reciprocals, mut out) = (vec![0.0; 2], vec![0.0; 20]);
        normalise_rows(&mut values, &[2.0; 10], &[1.0; 10], 1e-12, &mut reciprocals, &mut out);
        for row in out.chunks(10) {
            let mean: f32 = row.iter().sum::<f32>() / 10.0;
            let variance: f32 = row.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 10.0;
            assert!((mean - 1.0).abs() < 1e-5 && (variance - 4.0).abs() < 1e-4, "{mean} {variance}");
        }
    }
}
