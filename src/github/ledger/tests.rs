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
