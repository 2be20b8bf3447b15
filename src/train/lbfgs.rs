//! Limited-memory BFGS (Nocedal & Wright, *Numerical Optimization*, algorithm 7.5) with a line search that meets the
//! strong Wolfe conditions in all but hopeless cases, in f64 and one thread: the same input gives the same bytes.

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LbfgsOptions {
    /// Pairs of steps remembered.
    pub memory: usize,
    /// Most iterations.
    pub max_iterations: usize,
    /// Stop once the largest component of the gradient is below this × the largest one at the start.
    pub tolerance: f64,
}

impl Default for LbfgsOptions {
    fn default() -> Self {
        Self { memory: 8, max_iterations: 200, tolerance: 1e-4 }
    }
}

/// Where the search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minimum {
    /// The objective there.
    pub value: f64,
    /// Iterations taken.
    pub iterations: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Minimise `f` from `x`, in place. `f(x, gradient)` returns the value and fills the gradient.
pub fn minimise(x: &mut [f64], options: &LbfgsOptions, mut f: impl FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
    let n = x.len();
    let mut gradient = vec![0.0; n];
    let mut value = f(x, &mut gradient);
    let target = options.tolerance * largest(&gradient);
    let mut history: std::collections::VecDeque<(Vec<f64>, Vec<f64>, f64)> = std::collections::VecDeque::new();
    let mut trial = vec![0.0; n];
    let mut trial_gradient = vec![0.0; n];
    let mut iterations = 0;
    while iterations < options.max_iterations && largest(&gradient) > target {
        let mut direction = descent(&gradient, &history);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            history.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = -dot(&gradient, &gradient);
        }
        let first = if history.is_empty() { 1.0 / largest(&gradient).max(1e-12) * 0.1 } else { 1.0 };
        let Some(next) = line_search(x, &direction, value, slope, first, &mut trial, &mut trial_gradient, &mut f)
        else {
            break;
        };
        let (mut s, mut y) = if history.len() >= options.memory.max(1) {
            history.pop_front().map(|(s, y, _)| (s, y)).unwrap_or_default()
        } else {
            (vec![0.0; n], vec![0.0; n])
        };
        for i in 0..n {
            s[i] = trial[i] - x[i];
            y[i] = trial_gradient[i] - gradient[i];
        }
        let curvature = dot(&s, &y);
        if curvature > 1e-12 * dot(&y, &y).sqrt() * dot(&s, &s).sqrt() {
            history.push_back((s, y, 1.0 / curvature));
        }
        x.copy_from_slice(&trial);
        gradient.copy_from_slice(&trial_gradient);
        value = next;
        iterations += 1;
    }
    Minimum { value, iterations, converged: largest(&gradient) <= target }
}

/// The two-loop recursion: −H·gradient.
fn descent(gradient: &[f64], history: &std::collections::VecDeque<(Vec<f64>, Vec<f64>, f64)>) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut alphas = Vec::with_capacity(history.len());
    for (s, y, rho) in history.iter().rev() {
        let alpha = rho * dot(s, &q);
        axpy(-alpha, y, &mut q);
        alphas.push(alpha);
    }
    if let Some((s, y, _)) = history.back() {
        let scale = dot(s, y) / dot(y, y);
        q.iter_mut().for_each(|v| *v *= scale);
    }
    for ((s, y, rho), alpha) in history.iter().zip(alphas.iter().rev()) {
        let beta = rho * dot(y, &q);
        axpy(alpha - beta, s, &mut q);
    }
    q
}

/// Bracket, then bisect, until decrease and curvature hold; leaves the accepted point in `trial`.
#[expect(clippy::too_many_arguments, reason = "buffers are the caller's so that an iteration allocates nothing here")]
fn line_search(
    x: &[f64],
    direction: &[f64],
    value: f64,
    slope: f64,
    first: f64,
    trial: &mut [f64],
    gradient: &mut [f64],
    f: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Option<f64> {
    let (mut low, mut high, mut step) = (0.0, f64::INFINITY, first);
    let mut accepted = None;
    for _ in 0..30 {
        for ((t, x), d) in trial.iter_mut().zip(x).zip(direction) {
            *t = x + step * d;
        }
        let here = f(trial, gradient);
        accepted = None;
        if !here.is_finite() || here > value + 1e-4 * step * slope {
            high = step;
        } else {
            accepted = Some(here);
            if dot(gradient, direction) < 0.9 * slope {
                low = step;
            } else {
                return accepted;
            }
        }
        step = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * step };
        if high - low < 1e-14 {
            break;
        }
    }
    accepted
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four running sums let the compiler use vector lanes; the order is fixed, so the result is too.
    let mut sums = [0.0; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn axpy(scale: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m, x| m.max(x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_valley_of_rosenbrock() {
        let mut x = vec![-1.2, 1.0, -0.5, 0.7];
        let options = LbfgsOptions { tolerance: 1e-10, ..Default::default() };
        let end = minimise(&mut x, &options, |x, g| {
            g.fill(0.0);
            let mut value = 0.0;
            for i in 0..x.len() - 1 {
                let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
                value += a * a + 100.0 * b * b;
                g[i] += -2.0 * a - 400.0 * x[i] * b;
                g[i + 1] += 200.0 * b;
            }
            value
        });
        assert!(end.converged && x.iter().all(|v| (v - 1.0).abs() < 1e-6), "{end:?} {x:?}");
    }
}
