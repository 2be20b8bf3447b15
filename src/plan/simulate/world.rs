//! Simulated files and a simulated search service over them.

use super::Outcome;
use crate::plan::{Axis, Histogram, MAX_PAGES, PER_PAGE, Places, REACHABLE, Refinement, Window, lower_bound};
use crate::taxonomy::ForkFamily;
use std::collections::HashMap;

/// SplitMix64: the next state and a value from it.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
    /// In 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
    fn lognormal(&mut self, median: f64, sigma: f64) -> u64 {
        ((median.ln() + sigma * self.normal()).exp() as u64).clamp(1, LARGEST)
    }
}

/// Search indexes smaller files only.
const LARGEST: u64 = 384 * 1024 - 1;

/// Shapes of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Lognormal with median 1,201 and σ 1.2, stubs at 9, 10 and 11 bytes (at 11 never fewer than 1,400 where there
    /// are 20,000 files) and a dozen generated files with many copies.
    HeavyTail,
    /// Lognormal with median 4,000 and σ 0.9 and a few stubs: a heavy tail that is not where the cold model has it.
    Elsewhere,
    /// Two lognormals far apart.
    Bimodal,
    /// Every size up to 100,000 bytes alike.
    Uniform,
    /// Half of the files are copies of 60 files.
    Spiky,
    /// A few sizes only, hundreds to thousands of bytes apart.
    Comb,
    /// Every file has the same size.
    OneSize,
}

impl Distribution {
    /// Every shape.
    pub const ALL: &'static [Self] =
        &[Self::HeavyTail, Self::Elsewhere, Self::Bimodal, Self::Uniform, Self::Spiky, Self::Comb, Self::OneSize];

    /// Name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::HeavyTail => "heavy tail",
            Self::Elsewhere => "heavy tail elsewhere",
            Self::Bimodal => "bimodal",
            Self::Uniform => "uniform",
            Self::Spiky => "many spikes",
            Self::Comb => "comb",
            Self::OneSize => "one size",
        }
    }

    fn sizes(self, files: usize, draws: &mut Draws) -> Vec<u64> {
        let mut sizes = Vec::with_capacity(files);
        let spike = |sizes: &mut Vec<u64>, size: u64, copies: f64| {
            let room = files - sizes.len();
            sizes.extend(std::iter::repeat_n(size, (copies as usize).min(room)));
        };
        let n = files as f64;
        match self {
            Self::HeavyTail => {
                spike(&mut sizes, 11, (0.039 * n).max(if files >= 20_000 { 1_400.0 } else { 0.0 }));
                spike(&mut sizes, 9, 0.0105 * n);
                spike(&mut sizes, 10, 0.003 * n);
                for _ in 0..12 {
                    let size = draws.lognormal(600.0, 1.0);
                    let share = 0.0003 + 0.002 * draws.unit();
                    spike(&mut sizes, size, share * n);
                }
                while sizes.len() < files {
                    sizes.push(draws.lognormal(1_201.0, 1.2));
                }
            }
            Self::Elsewhere => {
                spike(&mut sizes, 11, 0.004 * n);
                while sizes.len() < files {
                    sizes.push(draws.lognormal(4_000.0, 0.9));
                }
            }
            Self::Bimodal => {
                while sizes.len() < files {
                    let small = draws.unit() < 0.4;
                    sizes.push(if small { draws.lognormal(90.0, 0.3) } else { draws.lognormal(20_000.0, 0.5) });
                }
            }
            Self::Uniform => {
                while sizes.len() < files {
                    sizes.push(1 + draws.next() % 100_000);
                }
            }
            Self::Spiky => {
                for _ in 0..60 {
                    let size = draws.lognormal(1_500.0, 1.0);
                    spike(&mut sizes, size, n / 120.0);
                }
                while sizes.len() < files {
                    sizes.push(draws.lognormal(1_500.0, 1.3));
                }
            }
            Self::Comb => {
                let teeth: Vec<u64> = (0..40).map(|_| draws.lognormal(5_000.0, 1.0)).collect();
                while sizes.len() < files {
                    let tooth = draws.next() as usize % teeth.len();
                    sizes.push(teeth[tooth]);
                }
            }
            Self::OneSize => spike(&mut sizes, 1_234, n),
        }
        sizes
    }
}

/// Where simulated files lie, with their share: the root, directories that the planner names, one that it does not.
const PLACES: [(&str, f64); 5] = [("", 0.85), ("docs", 0.05), (".github", 0.03), ("src", 0.03), ("elsewhere", 0.04)];

#[derive(Debug, Clone, Copy)]
struct File {
    size: u64,
    place: u8,
}

/// The files of one target in one fork family.
#[derive(Debug, Clone)]
pub struct World {
    files: Vec<File>,
    seed: u64,
}

impl World {
    /// `files` files of a shape; the same seed gives the same files.
    pub fn new(distribution: Distribution, files: usize, seed: u64) -> Self {
        let mut draws = Draws(mix(seed));
        let sizes = distribution.sizes(files, &mut draws);
        Self::of_sizes(sizes, seed)
    }

    /// Files of these sizes.
    pub fn of_sizes(sizes: impl IntoIterator<Item = u64>, seed: u64) -> Self {
        let mut draws = Draws(mix(seed ^ 0x5eed));
        let mut files: Vec<File> = sizes
            .into_iter()
            .map(|size| {
                let mut left = draws.unit();
                let place = PLACES.iter().position(|(_, share)| {
                    left -= share;
                    left < 0.0
                });
                File { size, place: place.unwrap_or(0) as u8 }
            })
            .collect();
        files.sort_by_key(|file| file.size);
        Self { files, seed }
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether it has no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Counts by size.
    pub fn histogram(&self) -> Histogram {
        Histogram::of_sizes(self.files.iter().map(|file| file.size))
    }

    fn meets(&self, id: u32, refine: &[Refinement]) -> bool {
        let place = PLACES[usize::from(self.files[id as usize].place)].0;
        refine.iter().all(|part| match part {
            Refinement::Root => place.is_empty(),
            Refinement::Directory(directory) => place == directory,
            Refinement::Extension(_) | Refinement::Language(_) => true,
        })
    }

    fn range(&self, lo: u64, hi: Option<u64>) -> std::ops::Range<usize> {
        let from = self.files.partition_point(|file| file.size < lo);
        let to = hi.map_or(self.files.len(), |hi| self.files.partition_point(|file| file.size <= hi));
        from..to.max(from)
    }
}

/// What goes wrong, each as a probability per request unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Relative standard deviation of totals above the cap.
    pub noise: f64,
    /// Relative standard deviation of totals that could be paged through wholly.
    pub small_noise: f64,
    /// Leading bits of a total that survive.
    pub bits: u32,
    /// Whether totals within the cap are rounded too.
    pub round_small: bool,
    /// Answers marked incomplete, with some of the hits missing.
    pub incomplete: f64,
    /// First pages of windows above the cap that time out.
    pub dense: f64,
    /// Whether each query has an order of its own, rather than all of them one.
    pub order_per_query: bool,
    /// Share of the files that the index drops, and share that it gains, over 1,000 requests.
    pub churn: f64,
}

impl Default for Faults {
    /// What is known of the real service: large totals are a few per cent off and rounded.
    fn default() -> Self {
        Self {
            noise: 0.02,
            small_noise: 0.0,
            bits: 10,
            round_small: false,
            incomplete: 0.0,
            dense: 0.0,
            order_per_query: false,
            churn: 0.0,
        }
    }
}

/// What a page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The total, as far as it can be believed.
    pub total: u64,
    /// Hits on the page.
    pub items: u64,
    /// Whether the service says that it did not look everywhere.
    pub incomplete: bool,
    /// Distinct files that this window delivered so far.
    pub distinct: u64,
    /// The same over all windows of this range of sizes.
    pub span_distinct: u64,
}

type Query = (u64, Option<u64>, Vec<Refinement>);

/// A search service over one world, with the crawler's memory of what it delivered.
#[derive(Debug)]
pub struct Service<'a> {
    world: &'a World,
    faults: Faults,
    draws: u64,
    requests: u64,
    found: Vec<bool>,
    by_window: HashMap<Query, Vec<u32>>,
    by_span: HashMap<(u64, Option<u64>), Vec<u32>>,
    /// Ranked hits (at most the cap) and true count of the query asked last.
    last: Option<(Query, u64, Vec<u32>, u64)>,
}

impl<'a> Service<'a> {
    /// A service with [`Faults::default`].
    pub fn new(world: &'a World) -> Self {
        Self::with_faults(world, Faults::default())
    }

    /// A service with these faults.
    pub fn with_faults(world: &'a World, faults: Faults) -> Self {
        Self {
            world,
            faults,
            draws: mix(world.seed ^ 0xfa17),
            requests: 0,
            found: vec![false; world.len()],
            by_window: HashMap::new(),
            by_span: HashMap::new(),
            last: None,
        }
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn unit(&mut self) -> f64 {
        let mut draws = Draws(self.draws);
        let value = draws.unit();
        self.draws = draws.0;
        value
    }

    /// Whether the index holds a file at this time: with churn, some come and some go.
    fn present(&self, file: u32, epoch: u64) -> bool {
        if self.faults.churn <= 0.0 {
            return true;
        }
        let share = |salt: u64| mix(self.world.seed ^ (u64::from(file) << 3) ^ salt) as f64 / u64::MAX as f64;
        let time = epoch as f64 / 100.0;
        let gone = share(1) < self.faults.churn * time;
        let born = share(2) >= self.faults.churn * (10.0 - time).max(0.0);
        born && !gone
    }

    /// The hits of a query in its order, at most the cap, and how many there are.
    fn ranked(&self, query: &Query, epoch: u64) -> (Vec<u32>, u64) {
        let (lo, hi, refine) = query;
        let salt = if self.faults.order_per_query { hash(query) } else { 0 };
        let order = |id: u32| mix(self.world.seed ^ salt ^ u64::from(id).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut hits: Vec<(u64, u32)> = self
            .world
            .range(*lo, *hi)
            .map(|index| index as u32)
            .filter(|id| self.world.meets(*id, refine) && self.present(*id, epoch))
            .map(|id| (order(id), id))
            .collect();
        let count = hits.len() as u64;
        if count > REACHABLE {
            hits.select_nth_unstable(REACHABLE as usize);
            hits.truncate(REACHABLE as usize);
        }
        hits.sort_unstable();
        (hits.into_iter().map(|(_, id)| id).collect(), count)
    }

    fn shown(&self, query: &Query, count: u64, page: u8) -> u64 {
        let sigma = if count > REACHABLE { self.faults.noise } else { self.faults.small_noise };
        // Small totals change from page to page, large ones are an estimate per query.
        let salt = if count > REACHABLE { 0 } else { u64::from(page) };
        let bell = Draws(hash(query) ^ self.world.seed ^ salt).normal().clamp(-3.0, 3.0);
        let mut total = (count as f64 * (1.0 + sigma * bell)).round() as u64;
        if count > REACHABLE {
            total = total.max(REACHABLE + 1);
        }
        if count > REACHABLE || self.faults.round_small {
            let drop = (u64::BITS - total.leading_zeros()).saturating_sub(self.faults.bits);
            total = (total + ((1 << drop) >> 1)) >> drop << drop;
        }
        if count > REACHABLE { total.max(REACHABLE + 1) } else { total }
    }

    /// Ask for a page. Nothing when the service times out on the query.
    pub fn ask(&mut self, window: &Window, page: u8) -> Option<Answer> {
        self.requests += 1;
        let epoch = self.requests / 100;
        let query = (window.lo, window.hi, window.refine.clone());
        let known = self.last.take().filter(|(last, at, _, _)| *last == query && *at == epoch);
        let (hits, count) = match known {
            Some((_, _, hits, count)) => (hits, count),
            None => self.ranked(&query, epoch),
        };
        if count > REACHABLE && self.faults.dense > 0.0 && self.unit() < self.faults.dense {
            self.last = Some((query, epoch, hits, count));
            return None;
        }
        let incomplete = self.faults.incomplete > 0.0 && self.unit() < self.faults.incomplete;
        let from = (usize::from(page.clamp(1, MAX_PAGES)) - 1) * PER_PAGE as usize;
        let to = (from + PER_PAGE as usize).min(hits.len());
        let mut items = hits.get(from.min(to)..to).unwrap_or_default().to_vec();
        let mut total = self.shown(&query, count, page);
        if incomplete {
            items.truncate(items.len() * 2 / 3);
            total = total * 2 / 3;
        }
        for id in &items {
            self.found[*id as usize] = true;
        }
        let delivered = add(self.by_window.entry(query.clone()).or_default(), &items);
        let span = self.by_span.entry((window.lo, window.hi)).or_default();
        let span_distinct = add(span, &items);
        let meets = |id: &&u32| self.world.meets(**id, &window.refine);
        let distinct = if window.refine.is_empty() { delivered } else { span.iter().filter(meets).count() as u64 };
        self.last = Some((query, epoch, hits, count));
        Some(Answer { total, items: items.len() as u64, incomplete, distinct, span_distinct })
    }

    /// Where the files lie that windows without refinements delivered.
    pub fn places(&self) -> Places {
        let whole = self.by_window.iter().filter(|((_, _, refine), _)| refine.is_empty());
        whole
            .flat_map(|(_, ids)| ids)
            .map(|id| (PLACES[usize::from(self.world.files[*id as usize].place)].0.to_owned(), 1))
            .collect()
    }

    /// The sum of what was asked, against what a crawler with these axes could reach.
    pub fn outcome(&self, axes: &[Axis]) -> Outcome {
        let epoch = self.requests / 100;
        let mut reachable: Vec<u32> = Vec::new();
        let stays = |id: &u32| self.present(*id, 0) && self.present(*id, epoch);
        for (size, count) in self.world.histogram().iter() {
            if count <= REACHABLE {
                reachable.extend(self.world.range(size, Some(size)).map(|id| id as u32).filter(stays));
                continue;
            }
            let parts = axes.iter().flatten().map(|part| vec![part.clone()]);
            for refine in std::iter::once(Vec::new()).chain(parts) {
                reachable.extend(self.ranked(&(size, Some(size), refine), epoch).0.iter().filter(|id| stays(id)));
            }
        }
        // Directories that no axis names are learnt from what is found.
        reachable.extend((0..self.world.len() as u32).filter(|id| self.found[*id as usize] && stays(id)));
        reachable.sort_unstable();
        reachable.dedup();
        let missed = reachable.iter().filter(|id| !self.found[**id as usize]).count() as u64;
        Outcome {
            requests: self.requests,
            reachable: reachable.len() as u64,
            found: self.found.iter().filter(|found| **found).count() as u64,
            missed,
            lower_bound: lower_bound(reachable.len() as u64),
        }
    }

    /// A window of this service's only target.
    pub(super) fn window(lo: u64, hi: Option<u64>) -> Window {
        Window { target: "simulated/target".into(), fork: ForkFamily::Plain, lo, hi, refine: Vec::new() }
    }
}

fn add(known: &mut Vec<u32>, items: &[u32]) -> u64 {
    known.extend_from_slice(items);
    known.sort_unstable();
    known.dedup();
    known.len() as u64
}

fn hash(query: &Query) -> u64 {
    let text = query.2.iter().flat_map(|part| part.to_string().into_bytes()).fold(7, |h, b| mix(h ^ u64::from(b)));
    mix(mix(query.0 ^ text).wrapping_add(query.1.unwrap_or(u64::MAX)))
}
