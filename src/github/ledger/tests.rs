use super::*;
use jiff::SignedDuration;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
}

fn limits(requests: Option<u32>, window_ms: u64) -> Limits {
    Limits { code_search: Allowance { requests, window: Duration::from_millis(window_ms) }, ..Limits::default() }
}

fn says(limit: u32, remaining: u32, reset_in_ms: i64) -> LimitHeaders {
    LimitHeaders {
        limit: Some(limit),
        remaining: Some(remaining),
        reset_in: Some(SignedDuration::from_millis(reset_in_ms)),
        ..LimitHeaders::default()
    }
}

const SEARCH: Resource = Resource::CodeSearch;

#[test]
fn nothing_is_sent_that_would_be_refused_and_everything_that_would_not() {
    // A server with a fixed window of 60 s and 10 requests, an answer a second: over an hour of endless work, none is
    // refused and at least 97 of 100 allowed requests are used.
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    let (mut now, mut start, mut used, mut answered) = (0i64, None::<i64>, 0u32, 0u32);
    while now < 3_600_000 {
        match ledger.reserve(SEARCH, at(now)) {
            Ok(permit) => {
                if start.is_none_or(|start| now >= start + 60_000) {
                    (start, used) = (Some(now), 0);
                }
                used += 1;
                assert!(used <= 10, "refused at {now}");
                answered += 1;
                now += 1_000;
                let left = start.unwrap() + 60_000 - now;
                ledger.answered(permit, &says(10, 10 - used, left), Verdict::Answered, at(now));
            }
            Err(Wait::Until(until)) => now = until.as_millisecond() - at(0).as_millisecond() + 1,
            Err(Wait::Answer) => panic!("nothing is under way"),
        }
    }
    assert!(answered >= 582, "{answered} of 600");
}

#[test]
fn requests_under_way_count_as_used() {
    let mut ledger = Ledger::new(&limits(Some(3), 60_000));
    let permits: Vec<Permit> = (0..3).map(|_| ledger.reserve(SEARCH, at(0)).unwrap()).collect();
    assert_eq!(ledger.reserve(SEARCH, at(1)).unwrap_err(), Wait::Answer);
    ledger.answered(permits[0], &says(5, 4, 59_000), Verdict::Answered, at(100));
    assert!(ledger.reserve(SEARCH, at(101)).is_ok(), "the server allows five");
}

#[test]
fn answers_that_overtake_each_other_do_not_give_requests_back() {
    let mut ledger = Ledger::new(&limits(Some(3), 60_000));
    let permits: Vec<Permit> = (0..3).map(|_| ledger.reserve(SEARCH, at(0)).unwrap()).collect();
    ledger.answered(permits[2], &says(3, 0, 50_000), Verdict::Answered, at(100));
    ledger.answered(permits[0], &says(3, 2, 50_000), Verdict::Answered, at(101));
    ledger.answered(permits[1], &says(3, 1, 50_000), Verdict::Answered, at(102));
    assert!(matches!(ledger.reserve(SEARCH, at(103)), Err(Wait::Until(_))));
}

#[test]
fn a_secondary_limit_halves_the_rate_once_for_all_that_were_under_way_and_successes_give_it_back() {
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    let permits: Vec<Permit> = (0..4).map(|_| ledger.reserve(SEARCH, at(0)).unwrap()).collect();
    let until = at(60_000);
    for permit in &permits {
        let held = Verdict::Held(Limit::Secondary, until);
        assert_eq!(ledger.tries(*permit).secondary, 0, "four refusals at once are one");
        ledger.answered(*permit, &LimitHeaders::default(), held, at(50));
    }
    assert_eq!(ledger.rows()[0].rate, 0.5);
    assert_eq!(ledger.reserve(SEARCH, at(59_999)).unwrap_err(), Wait::Until(until));
    let permit = ledger.reserve(SEARCH, at(60_100)).unwrap();
    assert_eq!(ledger.tries(permit).secondary, 1);
    ledger.answered(permit, &says(10, 9, 60_000), Verdict::Answered, at(60_200));
    assert_eq!(ledger.rows()[0].secondary, 0);
    let Err(Wait::Until(next)) = ledger.reserve(SEARCH, at(60_300)) else { panic!("the pace is not kept") };
    let gap = next.duration_since(at(60_100)).as_secs_f64();
    assert!((gap - 60.0 / 10.0 / 0.52).abs() < 0.1, "{gap}");
}

#[test]
fn a_hold_outlives_the_process() {
    let mut ledger = Ledger::new(&Limits::default());
    let permit = ledger.reserve(SEARCH, at(0)).unwrap();
    ledger.answered(permit, &says(10, 3, 40_000), Verdict::Held(Limit::Secondary, at(90_000)), at(10));
    let mut next = Ledger::new(&Limits::default());
    next.restore(&ledger.rows());
    assert_eq!(next.reserve(SEARCH, at(80_000)).unwrap_err(), Wait::Until(at(90_000)));
    assert_eq!(next.rows(), ledger.rows());
}

#[test]
fn a_stored_reset_from_a_clock_that_was_wrong_does_not_lock_the_bucket() {
    let mut ledger = Ledger::new(&Limits::default());
    let row = LedgerRow {
        resource: "code_search".to_owned(),
        limit: Some(10),
        used: 10,
        reset_ms: Some(at(10_000_000_000).as_millisecond()),
        hold_ms: None,
        secondary: 0,
        rate: 1.0,
        window_ms: None,
    };
    ledger.restore(&[row]);
    assert!(ledger.reserve(SEARCH, at(0)).is_ok());
}

#[test]
fn without_a_limit_nothing_is_held_back() {
    let mut ledger = Ledger::new(&limits(None, 60_000));
    for n in 0..1000 {
        let permit = ledger.reserve(SEARCH, at(n)).unwrap();
        ledger.answered(permit, &LimitHeaders::default(), Verdict::Answered, at(n));
    }
}

/// A server with fixed windows that begin with the first request after the one before, and with resets in whole seconds.
struct Server {
    limit: u32,
    window_ms: i64,
    /// End of the window, and what was used in it.
    window: Option<(i64, u32)>,
    refused: u32,
    windows: u32,
}

impl Server {
    fn new(limit: u32, window_ms: i64) -> Self {
        Self { limit, window_ms, window: None, refused: 0, windows: 0 }
    }

    /// What it says to a request of `cost` that reaches it at `now`, and whether it refuses.
    fn ask(&mut self, cost: u32, now: i64) -> (LimitHeaders, bool) {
        let (ends, used) = match self.window {
            Some((ends, used)) if now < ends => (ends, used),
            _ => {
                self.windows += 1;
                (now + self.window_ms, 0)
            }
        };
        let refuses = used + cost > self.limit;
        let used = if refuses { self.limit } else { used + cost };
        self.window = Some((ends, used));
        self.refused += u32::from(refuses);
        // Epoch seconds, rounded up, as seen from the answer's time.
        let reset = (at(ends).as_millisecond() + 999).div_euclid(1000);
        (says(self.limit, self.limit - used, reset * 1000 - at(now).as_millisecond()), refuses)
    }
}

/// Send requests of `cost` one after the other, each answered after `latency` milliseconds, until `end`; gives how many
/// were admitted.
fn drive(ledger: &mut Ledger, server: &mut Server, resource: Resource, cost: u32, latency: i64, end: i64) -> u32 {
    use crate::github::limit::{Body, Exchange, Policy, Step, next_step};
    let (mut now, mut admitted) = (0i64, 0);
    while now < end {
        match ledger.reserve_points(resource, cost, at(now)) {
            Ok(permit) => {
                let (mut headers, refuses) = server.ask(cost, now + latency / 2);
                now += latency;
                headers.reset_in =
                    headers.reset_in.map(|left| left - SignedDuration::from_millis(latency - latency / 2));
                let verdict = if refuses {
                    let body = serde_json::json!({ "message": "API rate limit exceeded" });
                    let exchange = Exchange {
                        status: Some(403),
                        limits: headers,
                        body: Body::Json(&body),
                        graphql: false,
                        divisible: false,
                    };
                    let (tries, window) = (ledger.tries(permit), ledger.window(resource));
                    match next_step(&exchange, at(now), tries, window, &Policy::default()) {
                        Step::Hold { until, limit, .. } => Verdict::Held(limit, until),
                        step => panic!("{step:?}"),
                    }
                } else {
                    admitted += 1;
                    Verdict::Answered
                };
                ledger.answered(permit, &headers, verdict, at(now));
            }
            Err(Wait::Until(until)) => now = (until.as_millisecond() - at(0).as_millisecond()).max(now + 1),
            Err(Wait::Answer) => panic!("nothing is under way"),
        }
    }
    admitted
}

#[test]
fn resets_in_whole_seconds_cost_less_than_three_of_a_hundred_requests() {
    for latency in [40i64, 300, 900] {
        let mut ledger = Ledger::new(&limits(Some(10), 60_000));
        let mut server = Server::new(10, 60_000);
        let admitted = drive(&mut ledger, &mut server, SEARCH, 1, latency, 3_600_000);
        assert_eq!(server.refused, 0, "latency {latency}");
        // Sixty windows of sixty seconds, of which each begins when a request reaches the server.
        assert!(admitted >= 582, "latency {latency}: {admitted} of 600");
    }
}

#[test]
fn a_window_longer_than_assumed_is_learnt_from_the_answers_and_nothing_is_refused_in_it() {
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    let mut server = Server::new(10, 300_000);
    let admitted = drive(&mut ledger, &mut server, SEARCH, 1, 700, 3_600_000);
    assert_eq!(server.refused, 0);
    assert!(admitted >= 117, "{admitted} of 120");
    assert!((295..=301).contains(&ledger.window(SEARCH).as_secs()), "{:?}", ledger.window(SEARCH));
    let mut next = Ledger::new(&limits(Some(10), 60_000));
    next.restore(&ledger.rows());
    assert_eq!(next.window(SEARCH).as_secs(), ledger.window(SEARCH).as_secs(), "a restart does not forget it");
}

#[test]
fn a_window_longer_than_assumed_that_is_used_up_at_once_costs_a_few_refusals_once() {
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    let mut server = Server::new(10, 300_000);
    let admitted = drive(&mut ledger, &mut server, SEARCH, 1, 20, 3_600_000);
    assert!(server.refused <= 2, "{} refused in {} windows", server.refused, server.windows);
    assert!(admitted >= 117, "{admitted} of 120");
}

#[test]
fn a_reset_that_runs_ahead_of_the_clock_teaches_nothing() {
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    for n in 0..9 {
        let permit = ledger.reserve(SEARCH, at(n * 1_000)).unwrap();
        ledger.answered(permit, &says(10, 9 - n as u32, 5_000_000), Verdict::Answered, at(n * 1_000 + 500));
    }
    assert_eq!(ledger.window(SEARCH).as_secs(), 60);
    assert!(ledger.reserve(SEARCH, at(62_000)).is_ok());
}

#[test]
fn a_query_dearer_than_what_is_left_waits_for_the_next_window() {
    let mut ledger = Ledger::new(&Limits::default());
    let mut server = Server::new(5_000, 3_600_000);
    let admitted = drive(&mut ledger, &mut server, Resource::Graphql, 3, 1_000, 3 * 3_600_000);
    assert_eq!(server.refused, 0);
    assert!(admitted >= 3 * 1_666 * 97 / 100, "{admitted}");
}

#[test]
fn a_window_that_was_not_over_yet_makes_the_next_turns_later() {
    // The server's windows are half a second longer than its resets say.
    let mut ledger = Ledger::new(&limits(Some(10), 60_000));
    let mut refused = 0;
    let (mut now, mut ends, mut used) = (0i64, 0i64, 0u32);
    while now < 3_600_000 {
        match ledger.reserve(SEARCH, at(now)) {
            Ok(permit) => {
                if now >= ends {
                    (ends, used) = (now + 60_600, 0);
                }
                now += 50;
                used += 1;
                let headers = says(10, 10u32.saturating_sub(used), ends - 600 - now);
                let verdict = if used > 10 {
                    refused += 1;
                    Verdict::Held(Limit::Primary, at(now + 250))
                } else {
                    Verdict::Answered
                };
                ledger.answered(permit, &headers, verdict, at(now));
            }
            Err(Wait::Until(until)) => now = (until.as_millisecond() - at(0).as_millisecond()).max(now + 1),
            Err(Wait::Answer) => panic!("nothing is under way"),
        }
    }
    assert!(refused <= 3, "{refused}");
}
