//! The planner against simulated services, good and bad ones.

use super::simulate::{
    Comparison, Distribution, Faults, Service, World, all_targets, answer, crawl, next, shapes, table,
};
use super::*;
use crate::taxonomy::{ForkFamily, WindowState};
use proptest::prelude::*;

fn setup() -> Setup {
    Setup { target: "simulated/target".into(), fork: ForkFamily::Plain, axes: Vec::new(), warm: None }
}

fn with_axes() -> Setup {
    Setup { axes: axes_for("filename:CLAUDE.md"), ..setup() }
}

/// Ask until nothing is wanted, at most `limit` requests.
fn run(planner: &mut Planner, service: &mut Service<'_>, limit: u64) -> Vec<Observation> {
    let mut seen = Vec::new();
    while let Some(request) = next(planner, service) {
        assert!(service.requests() < limit, "still asking after {limit} requests: {request:?}");
        match answer(service, &request) {
            Ok(observation) => {
                planner.observe(&observation).unwrap();
                seen.push(observation);
            }
            Err(refusal) => drop(planner.refuse(&request, refusal).unwrap()),
        }
    }
    assert!(planner.is_done());
    seen
}

/// Whether the windows that stand are disjoint and cover every size.
fn assert_partition(planner: &Planner) {
    let mut ranges: Vec<(u64, Option<u64>)> = planner
        .windows()
        .filter(|report| report.state != WindowState::Split && report.window.refine.is_empty())
        .map(|report| (report.window.lo, report.window.hi))
        .collect();
    ranges.sort_unstable();
    let mut next = Some(0);
    for (lo, hi) in &ranges {
        assert_eq!(Some(*lo), next, "gap or overlap in {ranges:?}");
        next = hi.map(|hi| hi + 1);
    }
    assert_eq!(next, None, "no open end in {ranges:?}");
}

fn histogram() -> impl Strategy<Value = Vec<u64>> {
    let pile = (0u64..60_000, 1usize..1_600).prop_map(|(size, copies)| vec![size; copies]);
    let spread = (1u64..30_000, 1u64..30_000, 1usize..3_000, any::<u64>()).prop_map(|(lo, width, count, seed)| {
        (0..count as u64).map(|i| lo + (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % width).collect()
    });
    prop::collection::vec(prop_oneof![pile, spread], 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reachable_file_is_found_once_the_sweep_ends(sizes in histogram(), seed in any::<u64>()) {
        let world = World::of_sizes(sizes, seed);
        let mut service = Service::new(&world);
        let mut planner = Planner::new(setup());
        let limit = 200 + world.len() as u64 / 10;
        run(&mut planner, &mut service, limit);
        assert_partition(&planner);
        let outcome = service.outcome(&[]);
        prop_assert_eq!(outcome.missed, 0);
        let summary = planner.summary();
        prop_assert_eq!(summary.requests, outcome.requests);
        prop_assert_eq!((summary.short, summary.open), (0, 0));
        prop_assert_eq!(summary.hits, outcome.reachable);
    }

    #[test]
    fn lying_incomplete_and_changing_answers_end_within_bounds(
        sizes in histogram(), seed in any::<u64>(), small_noise in prop_oneof![Just(0.0), Just(0.03)],
        incomplete in 0.0f64..0.1, dense in 0.0f64..0.3, churn in prop_oneof![Just(0.0), Just(0.02)],
        order_per_query in any::<bool>(), axes in any::<bool>(),
    ) {
        let world = World::of_sizes(sizes, seed);
        let faults = Faults {
            noise: 0.03, small_noise, incomplete, dense, churn, order_per_query, round_small: true, bits: 9,
        };
        let mut service = Service::with_faults(&world, faults);
        let mut planner = Planner::new(if axes { with_axes() } else { setup() });
        let limit = 600 + world.len() as u64 / 100 * 5;
        run(&mut planner, &mut service, limit);
        assert_partition(&planner);
        for report in planner.windows() {
            if report.state == WindowState::Complete && report.window.refine.is_empty() {
                prop_assert!(report.total <= report.distinct + 8 || report.total > REACHABLE, "{:?}", report);
            }
        }
    }

    #[test]
    fn a_resumed_planner_asks_what_the_lost_one_would_have_asked(
        sizes in histogram(), seed in any::<u64>(), cut in 0.0f64..1.0, incomplete in prop_oneof![Just(0.0), Just(0.05)],
    ) {
        let world = World::of_sizes(sizes, seed);
        let faults = Faults { incomplete, ..Faults::default() };
        let mut whole = Planner::new(with_axes());
        let all = run(&mut whole, &mut Service::with_faults(&world, faults), u64::MAX);

        let kept = &all[..(all.len() as f64 * cut) as usize];
        // The service goes on where it was: its answers are a function of what was asked before.
        let mut service = Service::with_faults(&world, faults);
        for observation in kept {
            answer(&mut service, &observation.request).unwrap();
        }
        let mut resumed = Planner::resume(with_axes(), kept, Some(service.places())).unwrap();
        let rest = run(&mut resumed, &mut service, u64::MAX);
        prop_assert_eq!(&rest[..], &all[kept.len()..]);
        prop_assert_eq!(resumed.windows().collect::<Vec<_>>(), whole.windows().collect::<Vec<_>>());
    }

    #[test]
    fn requests_in_flight_change_nothing_that_is_found(sizes in histogram(), seed in any::<u64>(), width in 2usize..8) {
        let world = World::of_sizes(sizes, seed);
        let mut service = Service::new(&world);
        let mut planner = Planner::new(setup());
        let mut flying = std::collections::VecDeque::new();
        let mut asked = std::collections::HashSet::new();
        loop {
            while flying.len() < width {
                let Some(request) = planner.next_request() else { break };
                prop_assert!(asked.insert(request.clone()), "asked twice: {:?}", request);
                flying.push_back(request);
            }
            let Some(request) = flying.pop_front() else { break };
            planner.observe(&answer(&mut service, &request).unwrap()).unwrap();
        }
        prop_assert!(planner.is_done());
        assert_partition(&planner);
        prop_assert_eq!(service.outcome(&[]).missed, 0);
    }
}

#[test]
fn the_bars_of_the_comparison_hold() {
    // Seeds that no constant was chosen on.
    let rows = table(&[201, 202], &[20_000, 100_000]);
    for (files, bar) in [(20_000, 1.08), (100_000, 1.07)] {
        let row = |strategy: &str| rows.iter().find(|row| row.files == files && row.strategy == strategy).unwrap();
        let ours = row("sweep, cold");
        assert!(ours.ratio <= bar, "{files} files: {}", ours.ratio);
        assert_eq!(ours.missed, 0);
        let warm = row("sweep, previous histogram");
        assert!(warm.ratio <= ours.ratio, "{files} files: warm {}, cold {}", warm.ratio, ours.ratio);
        assert_eq!(row("sweep, cold, overflow split").missed, 0, "{files} files");
        assert!(row("bisect, page 1 is data").ratio > ours.ratio + 0.1);
        assert!(row("bisect, count probe").ratio > row("bisect, page 1 is data").ratio);
    }
    let large = crawl(&mut Service::new(&World::new(Distribution::HeavyTail, 400_000, 201)), Vec::new(), None);
    assert!(large.ratio() <= 1.07, "400,000 files: {}", large.ratio());
    assert_eq!(large.missed, 0);
    let all = all_targets(&[201], 40, 60_000);
    assert!(all.ratio <= 1.10, "all targets: {}", all.ratio);
    assert_eq!(all.missed, 0);
}

#[test]
fn a_comparison_prints_every_row() {
    let rows = shapes(&[1], &[300]);
    let text =
        Comparison { seeds: vec![1], one_target: Vec::new(), other_shapes: rows.clone(), all_targets: Vec::new() }
            .to_string();
    assert_eq!(rows.len(), Distribution::ALL.len());
    assert!(rows.iter().all(|row| text.contains(&row.world)), "{text}");
}

#[test]
fn sizes_that_are_all_alike_cost_no_sweep_through_the_errors_of_totals() {
    let world = World::new(Distribution::OneSize, 100_000, 1);
    let mut service = Service::new(&world);
    run(&mut Planner::new(setup()), &mut service, 60);
    assert_eq!(service.outcome(&[]).missed, 0);
}

#[test]
fn a_small_target_costs_one_request_a_page() {
    for (files, requests) in [(0, 1), (1, 1), (100, 1), (101, 2), (300, 3), (1_000, 10)] {
        let world = World::new(Distribution::HeavyTail, files, 3);
        assert_eq!(crawl(&mut Service::new(&world), Vec::new(), None).requests, requests, "{files} files");
    }
}

#[test]
fn copies_at_one_size_overflow_and_are_counted_while_the_rest_completes() {
    let sizes = std::iter::repeat_n(11, 29_824).chain((100..5_100).map(|size| size as u64));
    let world = World::of_sizes(sizes, 5);
    let faults = Faults { noise: 0.0, bits: 64, ..Faults::default() };
    let mut planner = Planner::new(setup());
    run(&mut planner, &mut Service::with_faults(&world, faults), 200);
    let summary = planner.summary();
    assert_eq!((summary.overflow, summary.unreachable, summary.hits), (1, 28_824, 6_000));
    let overflow = planner.windows().find(|report| report.state == WindowState::Overflow).unwrap();
    assert_eq!((overflow.window.lo, overflow.window.hi), (11, Some(11)));
}

#[test]
fn an_overflow_is_split_by_path_and_delivers_more() {
    let world = World::of_sizes(std::iter::repeat_n(11, 1_400), 5);
    for order_per_query in [false, true] {
        let faults = Faults { order_per_query, ..Faults::default() };
        let mut service = Service::with_faults(&world, faults);
        let mut planner = Planner::new(with_axes());
        run(&mut planner, &mut service, 80);
        let outcome = service.outcome(&with_axes().axes);
        assert!(outcome.found > 1_100, "{}", outcome.found);
        assert_eq!(outcome.missed, 0, "an order per query: {order_per_query}");
    }
}

/// One size with `copies` files among 6,000 others, crawled; gives the requests that went to parts of that size.
fn requests_for_parts(copies: usize, axes: bool) -> (Vec<Request>, crate::plan::simulate::Outcome) {
    let others = (0..6_000u64).map(|i| 100 + i % 3_000);
    let world = World::of_sizes(std::iter::repeat_n(11, copies).chain(others), 7);
    let mut service = Service::new(&world);
    let setup = if axes { with_axes() } else { setup() };
    let mut planner = Planner::new(setup.clone());
    let seen = run(&mut planner, &mut service, 200);
    let requests: Vec<Request> = seen.into_iter().map(|seen| seen.request).collect();
    (requests.into_iter().filter(|r| !r.window.refine.is_empty()).collect(), service.outcome(&setup.axes))
}

#[test]
fn the_parts_of_an_overflow_are_asked_for_only_what_they_may_add() {
    let (asked, outcome) = requests_for_parts(1_400, true);
    // Two pages for the root, whose end is new; one each for the three named directories in which files lie.
    let root = asked.iter().filter(|request| request.window.refine == [Refinement::Root]).count();
    assert_eq!((root, asked.len()), (2, 5), "{asked:#?}");
    assert!(asked.iter().all(|request| request.window.lo == 11));
    assert_eq!(outcome.missed, 0);
    assert_eq!(requests_for_parts(1_400, false).0, []);
}

#[test]
fn a_directory_that_no_axis_names_is_asked_for_where_many_files_lie() {
    let elsewhere = |request: &Request| request.window.refine == [Refinement::Directory("elsewhere".into())];
    assert!(!requests_for_parts(1_400, true).0.iter().any(elsewhere));
    let (asked, outcome) = requests_for_parts(4_000, true);
    assert!(asked.iter().any(elsewhere), "{asked:#?}");
    assert_eq!(outcome.missed, 0);
}

#[test]
fn answers_to_parts_that_came_during_the_sweep_are_placed_all_the_same() {
    let world = World::of_sizes(std::iter::repeat_n(11, 1_400).chain(100..5_100), 5);
    let mut service = Service::new(&world);
    let mut whole = Planner::new(with_axes());
    let mut seen = run(&mut whole, &mut service, 200);
    seen.sort_by_key(|seen| seen.request.window.refine.is_empty());
    let resumed = Planner::resume(with_axes(), &seen, Some(service.places())).unwrap();
    assert!(resumed.is_done());
    assert_eq!(resumed.summary(), whole.summary());
    // A directory that would not be asked for today was asked for then.
    let mut old = seen[0].clone();
    old.request.window.refine = vec![Refinement::Directory("packages".into())];
    (old.request.page, old.total, old.items) = (1, 0, 0);
    seen.push(old);
    assert!(Planner::resume(with_axes(), &seen, Some(service.places())).unwrap().is_done());
}

#[test]
fn a_total_that_is_too_small_does_not_end_the_split_of_an_overflow_too_early() {
    for seed in 0..24 {
        let files = 1_080 + 90 * seed as usize;
        let world = World::of_sizes(std::iter::repeat_n(11, files), seed);
        let mut service = Service::with_faults(&world, Faults { noise: 0.03, ..Faults::default() });
        let mut planner = Planner::new(with_axes());
        run(&mut planner, &mut service, 80);
        let outcome = service.outcome(&with_axes().axes);
        assert_eq!(outcome.missed, 0, "{files} files, seed {seed}: {outcome:?}");
    }
}

#[test]
fn an_incomplete_page_is_asked_again_and_never_believed() {
    let mut planner = Planner::new(setup());
    let page = |request: &Request, total, items, incomplete, distinct| Observation {
        request: request.clone(),
        total,
        items,
        incomplete,
        distinct,
        span_distinct: distinct,
    };
    let first = planner.next_request().unwrap();
    planner.observe(&page(&first, 60, 60, true, 60)).unwrap();
    let again = planner.next_request().unwrap();
    assert_eq!((again.page, again.walk), (1, 2));
    planner.observe(&page(&again, 150, 100, false, 100)).unwrap();
    let second = planner.next_request().unwrap();
    planner.observe(&page(&second, 150, 40, true, 140)).unwrap();
    let second = planner.next_request().unwrap();
    assert_eq!((second.page, second.walk), (2, 2));
    let reports = planner.observe(&page(&second, 150, 50, false, 150)).unwrap();
    assert_eq!(reports[0].state, WindowState::Complete);
    assert!(planner.is_done());
}

#[test]
fn a_window_that_stays_short_is_walked_again_and_then_called_short() {
    let mut planner = Planner::new(setup());
    let mut asked = Vec::new();
    while let Some(request) = planner.next_request() {
        asked.push((request.page, request.walk));
        let items = if request.page == 1 { 100 } else { 30 };
        let distinct = if request.page == 1 && request.walk == 1 { 100 } else { 130 };
        planner
            .observe(&Observation { request, total: 141, items, incomplete: false, distinct, span_distinct: distinct })
            .unwrap();
    }
    assert_eq!(asked, [(1, 1), (2, 1), (1, 2), (2, 2)]);
    assert_eq!(planner.windows().next().unwrap().state, WindowState::Short);
}

#[test]
fn a_total_that_grows_between_pages_does_not_cut_the_walk() {
    // 125 was announced, 141 were there: every one of them is fetched.
    let mut planner = Planner::new(setup());
    let mut delivered = 0;
    while let Some(request) = planner.next_request() {
        let items = if request.page == 1 { 100 } else { 41 };
        let total = if request.page == 1 { 125 } else { 141 };
        delivered += items;
        planner
            .observe(&Observation {
                request,
                total,
                items,
                incomplete: false,
                distinct: delivered,
                span_distinct: delivered,
            })
            .unwrap();
    }
    assert_eq!(delivered, 141);
    assert_eq!(planner.windows().next().unwrap().state, WindowState::Complete);
}

#[test]
fn a_rejected_query_leaves_its_window_unfinished() {
    let mut planner = Planner::new(setup());
    let request = planner.next_request().unwrap();
    let reports = planner.refuse(&request, Refusal::Rejected).unwrap();
    assert!(reports[0].rejected);
    assert_eq!(reports[0].state, WindowState::Open);
    assert!(planner.is_done());
    assert_eq!(planner.summary().open, 1);
}

#[test]
fn a_dense_window_is_narrowed_and_not_fatal() {
    let world = World::new(Distribution::HeavyTail, 30_000, 9);
    let faults = Faults { dense: 0.5, ..Faults::default() };
    let mut service = Service::with_faults(&world, faults);
    let mut planner = Planner::new(setup());
    run(&mut planner, &mut service, 700);
    assert_partition(&planner);
    let outcome = service.outcome(&[]);
    assert!(outcome.missed <= 1_000, "{}", outcome.missed);
}

#[test]
fn a_total_for_hits_that_no_window_has_does_not_keep_the_sweep_going() {
    // Every query without an upper end claims 5,000 hits, every bounded one has none.
    let mut planner = Planner::new(setup());
    let mut requests = 0;
    while let Some(request) = planner.next_request() {
        requests += 1;
        assert!(requests < 1_000, "still asking: {request:?}");
        let total = if request.window.hi.is_none() { 5_000 } else { 0 };
        planner
            .observe(&Observation { request, total, items: 0, incomplete: false, distinct: 0, span_distinct: 0 })
            .unwrap();
    }
    assert!(planner.is_done());
    assert_partition(&planner);
    assert_eq!(planner.summary().overflow, 1);
}

#[test]
fn a_released_request_is_wanted_again() {
    let mut planner = Planner::new(setup());
    let request = planner.next_request().unwrap();
    assert_eq!(planner.next_request(), None);
    planner.release(&request);
    assert_eq!(planner.next_request(), Some(request));
}

#[test]
fn pages_of_another_target_are_refused_by_name() {
    let mut planner = Planner::new(setup());
    let mut request = planner.next_request().unwrap();
    request.window.target = "other/target".into();
    request.window.lo = 5;
    let seen = Observation { request, total: 1, items: 1, incomplete: false, distinct: 1, span_distinct: 1 };
    assert_eq!(
        planner.observe(&seen).unwrap_err().to_string(),
        "Failed to place page 1 of other/target (plain, 5..* bytes): no such window follows from the pages before it"
    );
}
