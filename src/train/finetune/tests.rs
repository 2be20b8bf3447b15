//! Gradients against finite differences, and training that repeats itself.

use super::*;
use crate::encoder::tests::tiny;

fn lessons(encoder: &Encoder) -> Arc<[Lesson]> {
    let texts = [
        ("never push to main", "agents rules", 0),
        ("run the tests before you commit", "agents", 1),
        ("the tables hold customers", "", 2),
        ("always run tests; never commit data", "main rules and too", 0),
        ("main", "tests", 2),
        ("tests and tables too", "rules", 3),
    ];
    texts
        .iter()
        .map(|(text, beside, label)| {
            let ids = |text: &str| encoder.tokens().of(text, 20).unwrap();
            let mut target = [0.02; TYPES];
            target[*label] = 0.9;
            let weight = 0.5 + *label as f32 * 0.3;
            Lesson { input: encoder.tokens().input(&ids(text), &ids(beside)), target, weight }
        })
        .collect()
}

fn options() -> FinetuneOptions {
    FinetuneOptions { batch: 4, epochs: 4, rate: 2e-3, frozen: 0, dropout: 0.2, ..FinetuneOptions::default() }
}

/// Loss of all lessons in one shard with fixed masks; the gradient lies in the worker.
fn loss(trainer: &Trainer, worker: &mut Worker) -> f64 {
    let all: Vec<usize> = (0..trainer.lessons.len()).collect();
    trainer.gradients(worker, &all, 99, 1.0);
    worker.loss
}

#[test]
fn every_gradient_is_the_slope_of_the_loss() {
    let encoder = tiny();
    let lessons = lessons(&encoder);
    for dropout in [0.0, 0.2] {
        let mut trainer = Trainer::new(encoder.clone(), lessons.clone(), FinetuneOptions { dropout, ..options() });
        let mut random = SplitMix(3);
        let mut draw = || (random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        trainer.parameters.head.weight.iter_mut().for_each(|w| *w = 0.5 * draw());
        // States in full, not their upper halves: slopes are compared to four digits.
        trainer.kept = None;
        let mut worker = trainer.workers.pop().unwrap();
        loss(&trainer, &mut worker);
        let gradient = worker.gradient.clone();
        for at in 0..gradient.slices().len() {
            let direction: Vec<f32> = gradient.slices()[at].iter().map(|_| draw()).collect();
            let slope: f64 = gradient.slices()[at].iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
            // A step small against curvature and large against rounding.
            let step = 2e-3 / (direction.len() as f32).sqrt();
            let mut at_step = |factor: f32| {
                let before = trainer.parameters.slices()[at].to_vec();
                let values = &mut trainer.parameters.slices_mut()[at];
                values.iter_mut().zip(&direction).for_each(|(v, d)| *v += factor * step * d);
                let loss = loss(&trainer, &mut worker);
                trainer.parameters.slices_mut()[at].copy_from_slice(&before);
                loss
            };
            let measured = (at_step(1.0) - at_step(-1.0)) / (2.0 * f64::from(step));
            let length = square_length(gradient.slices()[at]).sqrt();
            // The shifts of keys move all scores of a query alike, and so nothing.
            assert!(length > 1e-4, "slice {at} has no gradient");
            assert!(
                (slope - measured).abs() < 0.01 * (slope.abs() + 0.3 * length),
                "dropout {dropout}, slice {at}: {slope} by backpropagation, {measured} by differences"
            );
        }
    }
}

#[test]
fn training_learns_its_lessons_and_repeats_itself_whatever_the_threads() {
    let encoder = tiny();
    let lessons = lessons(&encoder);
    let options = FinetuneOptions { epochs: 40, dropout: 0.1, frozen: 1, ..options() };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut trainer = Trainer::new(encoder.clone(), lessons.clone(), options.clone());
            let mut reports = Vec::new();
            let mut items = 0;
            while !trainer.is_done() {
                let report = trainer.run_epoch(|n| {
                    items += n;
                    true
                });
                reports.push(report.unwrap());
            }
            assert_eq!(items, 40 * lessons.len());
            (reports, trainer.checkpoint().unwrap(), trainer.logits(&inputs(&lessons)))
        })
    };
    let (reports, checkpoint, logits) = run(1);
    let (again, same, _) = run(2);
    assert!(reports == again && checkpoint == same);
    assert!(reports[39].loss < 0.5 * reports[0].loss, "{:?} {:?}", reports[0], reports[39]);
    for (lesson, logits) in lessons.iter().zip(logits) {
        let best = |values: &[f32]| (0..TYPES).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
        assert_eq!(best(&logits), best(&lesson.target));
    }
    let trainer = Trainer::new(encoder.clone(), lessons.clone(), options);
    let frozen = encoder.weights.layers[0].clone();
    assert_eq!(trainer.model().0.weights.layers[0], frozen);
}

fn inputs(lessons: &[Lesson]) -> Vec<Input> {
    lessons.iter().map(|l| l.input.clone()).collect()
}

#[test]
fn a_checkpoint_goes_on_as_if_nothing_had_happened() {
    let encoder = tiny();
    let lessons = lessons(&encoder);
    let mut unbroken = Trainer::new(encoder.clone(), lessons.clone(), options());
    unbroken.run_epoch(|_| true);
    let checkpoint = unbroken.checkpoint().unwrap();
    let mut resumed = Trainer::new(encoder.clone(), lessons.clone(), options());
    resumed.resume(&checkpoint).unwrap();
    assert_eq!(resumed.epoch(), 1);
    assert_eq!(unbroken.run_epoch(|_| true), resumed.run_epoch(|_| true));
    assert_eq!(unbroken.checkpoint().unwrap(), resumed.checkpoint().unwrap());
    let mut other = Trainer::new(encoder.clone(), lessons.clone(), FinetuneOptions { seed: 2, ..options() });
    assert!(matches!(other.resume(&checkpoint), Err(CheckpointError::Other)));
    assert!(matches!(other.resume(&checkpoint[..90]), Err(CheckpointError::Damaged(_))));
    assert_eq!(other.epoch(), 0);
}

#[test]
fn lessons_without_weight_teach_nothing() {
    let encoder = tiny();
    let all = lessons(&encoder);
    let mut muted = all.to_vec();
    muted.push(Lesson { weight: 0.0, target: [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], ..all[0].clone() });
    let end = |lessons: Arc<[Lesson]>| {
        let mut trainer = Trainer::new(encoder.clone(), lessons, options());
        trainer.run_epoch(|_| true);
        trainer.parameters
    };
    assert_eq!(end(all), end(muted.into()));
}
