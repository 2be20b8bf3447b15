//! A model of the service to measure strategies against: what they ask for, and what they find.

mod peers;
mod world;

pub use peers::Strategy;
pub use world::{Answer, Distribution, Faults, Service, World};

use super::{Axis, Observation, Planner, Refusal, Request, Setup, axes_for, lower_bound};
use crate::taxonomy::ForkFamily;
use serde::Serialize;
use std::fmt;

/// What one crawl of a simulated target took and brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Requests that the service answered or refused.
    pub requests: u64,
    /// Files that some query can deliver.
    pub reachable: u64,
    /// Files that were delivered.
    pub found: u64,
    /// Reachable files that were not delivered.
    pub missed: u64,
    /// The fewest requests that deliver what is reachable.
    pub lower_bound: u64,
}

impl Outcome {
    /// Requests ÷ lower bound.
    pub fn ratio(&self) -> f64 {
        self.requests as f64 / self.lower_bound.max(1) as f64
    }
}

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What is measured.
    pub world: String,
    /// How the target is asked for.
    pub strategy: String,
    /// Files in the world.
    pub files: u64,
    /// Mean requests over the seeds.
    pub requests: f64,
    /// Mean of requests ÷ lower bound.
    pub ratio: f64,
    /// The worst of the seeds.
    pub worst: f64,
    /// Reachable files that were not found, over all seeds.
    pub missed: u64,
}

/// Sizes of the comparison: files of one target.
pub const SIZES: [usize; 3] = [20_000, 100_000, 400_000];

/// Crawl a simulated target with the planner.
///
/// `axes` are those to split overflowing single sizes on, `warm` what an earlier run found; `faults` go wrong as often
/// as they say and are met the way the crawler meets them.
pub fn crawl(service: &mut Service<'_>, axes: Vec<Axis>, warm: Option<super::Histogram>) -> Outcome {
    let setup = Setup { target: "simulated/target".into(), fork: ForkFamily::Plain, axes: axes.clone(), warm };
    let mut planner = Planner::new(setup);
    while let Some(request) = next(&mut planner, service) {
        let step = match answer(service, &request) {
            Ok(seen) => planner.observe(&seen),
            Err(refusal) => planner.refuse(&request, refusal),
        };
        // The planner places every answer to its own question.
        if step.is_err() {
            break;
        }
    }
    service.outcome(&axes)
}

/// The next request, after the planner was told where files lie if it wanted to know.
pub fn next(planner: &mut Planner, service: &Service<'_>) -> Option<Request> {
    if planner.wants_places() {
        planner.place(service.places());
    }
    planner.next_request()
}

/// What the service says to `request`, in the planner's words.
pub fn answer(service: &mut Service<'_>, request: &Request) -> Result<Observation, Refusal> {
    let answer = service.ask(&request.window, request.page).ok_or(Refusal::TooDense)?;
    Ok(Observation {
        request: request.clone(),
        total: answer.total,
        items: answer.items,
        incomplete: answer.incomplete,
        distinct: answer.distinct,
        span_distinct: answer.span_distinct,
    })
}

fn summarise(world: &str, strategy: &str, files: usize, outcomes: &[Outcome]) -> Row {
    let count = outcomes.len().max(1) as f64;
    Row {
        world: world.to_owned(),
        strategy: strategy.to_owned(),
        files: files as u64,
        requests: outcomes.iter().map(|o| o.requests as f64).sum::<f64>() / count,
        ratio: outcomes.iter().map(Outcome::ratio).sum::<f64>() / count,
        worst: outcomes.iter().map(Outcome::ratio).fold(0.0, f64::max),
        missed: outcomes.iter().map(|o| o.missed).sum(),
    }
}

/// One target with heavy-tailed sizes and spikes at single sizes: the peers' strategies and ours at each of `sizes`.
pub fn table(seeds: &[u64], sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for files in sizes {
        let worlds: Vec<World> = seeds.iter().map(|seed| World::new(Distribution::HeavyTail, *files, *seed)).collect();
        for strategy in Strategy::ALL {
            let outcomes: Vec<Outcome> = worlds.iter().map(|world| strategy.crawl(&mut Service::new(world))).collect();
            rows.push(summarise("one target", strategy.title(), *files, &outcomes));
        }
        let ours = |title: &str, axes: bool, warm: bool| {
            let axes = if axes { axes_for("filename:CLAUDE.md") } else { Vec::new() };
            let outcomes: Vec<Outcome> = worlds
                .iter()
                .map(|world| {
                    // What the run before found: other files of the same kind, fewer of them.
                    let warm = warm.then(|| {
                        let before = World::new(Distribution::HeavyTail, files * 9 / 10, world.seed());
                        before.histogram()
                    });
                    crawl(&mut Service::new(world), axes.clone(), warm)
                })
                .collect();
            summarise("one target", title, *files, &outcomes)
        };
        rows.push(ours("sweep, cold", false, false));
        rows.push(ours("sweep, previous histogram", false, true));
        rows.push(ours("sweep, cold, overflow split", true, false));
    }
    rows
}

/// The whole comparison: what the planner costs beside others, and on other shapes than it expects.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Seeds of the simulated worlds.
    pub seeds: Vec<u64>,
    /// [`table`] at [`SIZES`].
    pub one_target: Vec<Row>,
    /// [`shapes`] from one file to 100,000.
    pub other_shapes: Vec<Row>,
    /// [`all_targets`] with a largest target of 400,000 and of 50,000 files.
    pub all_targets: Vec<Row>,
}

/// Measure everything that [`Comparison`] holds; takes some seconds a seed. `Display` prints it as tables.
pub fn comparison(seeds: &[u64]) -> Comparison {
    Comparison {
        seeds: seeds.to_vec(),
        one_target: table(seeds, &SIZES),
        other_shapes: shapes(seeds, &[1, 300, 1_000, 1_001, 1_500, 2_000, 5_000, 20_000, 100_000]),
        all_targets: [400_000, 50_000].map(|largest| all_targets(seeds, 40, largest)).into(),
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Code-search requests ÷ lower bound, simulated; seeds {:?}", self.seeds)?;
        let parts = [
            ("One target", &self.one_target),
            ("Other shapes", &self.other_shapes),
            ("All targets", &self.all_targets),
        ];
        for (title, rows) in parts {
            writeln!(
                f,
                "\n{title:<27} {:<36} {:>7} {:>10} {:>8} {:>8} {:>8}",
                "", "files", "requests", "mean", "worst", "missed"
            )?;
            for row in rows {
                writeln!(
                    f,
                    "{:<27} {:<36} {:>7} {:>10.1} {:>8.3} {:>8.3} {:>8}",
                    row.world, row.strategy, row.files, row.requests, row.ratio, row.worst, row.missed
                )?;
            }
        }
        Ok(())
    }
}

/// Other shapes of targets, to see that the sweep is not made for one: worst and mean over the seeds.
pub fn shapes(seeds: &[u64], sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for distribution in Distribution::ALL {
        for files in sizes {
            let outcomes: Vec<Outcome> = seeds
                .iter()
                .map(|seed| {
                    let world = World::new(*distribution, *files, *seed);
                    crawl(&mut Service::new(&world), Vec::new(), None)
                })
                .collect();
            rows.push(summarise(distribution.title(), "sweep, cold", *files, &outcomes));
        }
    }
    rows
}

/// A whole crawl: `targets` targets whose sizes fall off like a power law from `largest` files, each in both fork
/// families (the forks a tenth of the rest). The ratio is all requests ÷ the sum of lower bounds.
pub fn all_targets(seeds: &[u64], targets: usize, largest: usize) -> Row {
    let outcomes: Vec<Outcome> = seeds
        .iter()
        .map(|seed| {
            let mut sum = Outcome { requests: 0, reachable: 0, found: 0, missed: 0, lower_bound: 0 };
            for target in 0..targets {
                let files = (largest as f64 / (target as f64 + 1.0).powf(2.2)) as usize;
                for (family, files) in [files, files / 10].into_iter().enumerate() {
                    let seed = seed.wrapping_mul(1_000).wrapping_add((target * 2 + family) as u64);
                    let world = World::new(Distribution::HeavyTail, files, seed);
                    let one = crawl(&mut Service::new(&world), axes_for("filename:CLAUDE.md"), None);
                    sum.requests += one.requests;
                    sum.reachable += one.reachable;
                    sum.found += one.found;
                    sum.missed += one.missed;
                    sum.lower_bound += one.lower_bound;
                }
            }
            debug_assert!(sum.lower_bound >= lower_bound(sum.reachable));
            sum
        })
        .collect();
    let files = outcomes.iter().map(|o| o.reachable).sum::<u64>() / outcomes.len().max(1) as u64;
    summarise("all targets, both families", "sweep, cold, overflow split", files as usize, &outcomes)
}
