//! Points for the signs of specificity: multinomial logistic regression with an L2 prior, judged on whole repositories
//! held out.

use aac::tag::Signs;
use aac::taxonomy::Specificity;
use aac::train::folds::fold_of_groups;
use aac::train::lbfgs::{LbfgsOptions, minimise};
use std::collections::HashMap;

const VALUES: usize = 3;
const FOLDS: usize = 10;
/// The prior that cross-validation chose.
const L2: f64 = 10.0;
/// Points below this in every value are left out, and the rest is fitted anew.
const LEAST: f64 = 0.06;

pub(crate) struct Example {
    pub(crate) repo: String,
    pub(crate) label: Specificity,
    /// Whether two annotators agreed on the label.
    pub(crate) gold: bool,
    /// What the shipped rules say.
    pub(crate) shipped: Specificity,
    /// Nothing where no points decide.
    pub(crate) signs: Option<Signs>,
}

fn class(value: Specificity) -> usize {
    Specificity::ALL.iter().position(|v| *v == value).unwrap_or(0)
}

/// Points of each sign from the examples that points decide.
fn fit(examples: &[&Example], l2: f64, kept: &[bool]) -> Vec<[f64; VALUES]> {
    let rows: Vec<(Vec<usize>, usize)> = examples
        .iter()
        .filter_map(|e| Some((e.signs.as_ref()?.given().filter(|s| kept[*s]).collect(), class(e.label))))
        .collect();
    let signs = kept.len();
    let mut x = vec![0.0; signs * VALUES];
    let options = LbfgsOptions { max_iterations: 300, tolerance: 1e-4, ..LbfgsOptions::default() };
    minimise(&mut x, &options, |x, gradient| {
        gradient.fill(0.0);
        let mut loss = 0.0;
        for (row, label) in &rows {
            let sums = sums(row.iter().copied(), |sign, value| x[sign * VALUES + value]);
            let top = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let all: f64 = sums.iter().map(|s| (s - top).exp()).sum();
            loss += top + all.ln() - sums[*label];
            for (value, sum) in sums.iter().enumerate() {
                let error = (sum - top).exp() / all - f64::from(u8::from(value == *label));
                row.iter().for_each(|sign| gradient[sign * VALUES + value] += error);
            }
        }
        // The bias, first of the signs, is free.
        for (point, gradient) in x.iter().zip(gradient).skip(VALUES) {
            loss += 0.5 * l2 * point * point;
            *gradient += l2 * point;
        }
        loss
    });
    x.chunks_exact(VALUES).map(|c| [c[0], c[1], c[2]]).collect()
}

fn sums(signs: impl Iterator<Item = usize>, points: impl Fn(usize, usize) -> f64) -> [f64; VALUES] {
    let mut sums = [0.0; VALUES];
    signs.for_each(|sign| (0..VALUES).for_each(|value| sums[value] += points(sign, value)));
    sums
}

fn say(points: &[[f64; VALUES]], example: &Example) -> usize {
    let Some(signs) = &example.signs else { return class(example.shipped) };
    let sums = sums(signs.given(), |sign, value| points[sign][value]);
    (0..VALUES).max_by(|a, b| sums[*a].total_cmp(&sums[*b])).unwrap_or(0)
}

/// Fit, leave out the signs that say little, and fit the rest: what is shipped, so what is judged too.
fn fit_and_prune(examples: &[&Example], l2: f64) -> Vec<[f64; VALUES]> {
    let all = vec![true; Signs::names().count()];
    let first = fit(examples, l2, &all);
    let kept: Vec<bool> = first.iter().enumerate().map(|(i, p)| i == 0 || p.iter().any(|p| p.abs() >= LEAST)).collect();
    fit(examples, l2, &kept)
}

/// Accuracy over the gold labels, each judged by points that were fitted to other repositories only, for several
/// priors; the place and declaration rules take part as they ship.
pub(crate) fn cross_validate(examples: &[Example]) {
    let gold = examples.iter().filter(|e| e.gold).count();
    println!("{} labels, {gold} of two annotators; {FOLDS} folds of whole repositories", examples.len());
    for l2 in [2.5, 5.0, L2, 20.0] {
        let mut right = [0usize; 2];
        let mut confusion: HashMap<(usize, usize), usize> = HashMap::new();
        // Folds differ by how repositories fall into them: several draws, by a salt on the name.
        const DRAWS: usize = 5;
        for draw in 0..DRAWS {
            let names: Vec<String> = examples.iter().map(|e| format!("{draw}{}", e.repo)).collect();
            let folds = fold_of_groups(names.iter().map(String::as_str), FOLDS);
            for fold in 0..FOLDS {
                let (held, rest): (Vec<_>, Vec<_>) =
                    examples.iter().zip(&names).partition(|(_, name)| folds[name.as_str()] == fold);
                let rest: Vec<&Example> = rest.into_iter().map(|(e, _)| e).collect();
                let points = fit_and_prune(&rest, l2);
                for (example, _) in held {
                    let said = say(&points, example);
                    right[usize::from(example.gold)] += usize::from(said == class(example.label));
                    if example.gold {
                        *confusion.entry((class(example.label), said)).or_default() += 1;
                    }
                }
            }
        }
        let share = |right: usize, of: usize| right as f64 / (of * DRAWS).max(1) as f64;
        println!(
            "prior {l2}: accuracy {:.3} on labels of two annotators, {:.3} on the others",
            share(right[1], gold),
            share(right[0], examples.len() - gold)
        );
        if (l2 - L2).abs() < 1e-9 {
            for ((label, said), count) in confusion.iter().filter(|((l, s), _)| l != s) {
                let mean = *count as f64 / DRAWS as f64;
                println!("    {} taken for {}: {mean:.1}", Specificity::ALL[*label], Specificity::ALL[*said]);
            }
        }
    }
}

/// The table `[points]` fitted to every label.
pub(crate) fn print_points(examples: &[Example]) {
    let all: Vec<&Example> = examples.iter().collect();
    let points = fit_and_prune(&all, L2);
    for (name, p) in Signs::names().zip(&points).filter(|(_, p)| p.iter().any(|p| p.abs() >= 0.005)) {
        println!("{name} = [{:.2}, {:.2}, {:.2}]", p[0], p[1], p[2]);
    }
}
