use super::*;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> LimitHeaders {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.insert(*name, value.parse().unwrap());
    }
    LimitHeaders::read(&map, now())
}

fn reset_in(seconds: i64) -> String {
    (now().as_second() + seconds).to_string()
}

fn step(status: u16, limits: LimitHeaders, body: Body<'_>, tries: Tries) -> Step {
    let exchange = Exchange { status: Some(status), limits, body, graphql: false, divisible: false };
    next_step(&exchange, now(), tries, MINUTE, &Policy::default())
}

fn graphql(status: u16, limits: LimitHeaders, body: &Value, tries: Tries) -> Step {
    let exchange = Exchange { status: Some(status), limits, body: Body::Json(body), graphql: true, divisible: true };
    next_step(&exchange, now(), tries, Duration::from_secs(3600), &Policy::default())
}

fn wait_of(step: &Step) -> f64 {
    match step {
        Step::Hold { until: at, .. } | Step::Retry { at, .. } | Step::Pause { until: at, .. } => {
            at.duration_since(now()).as_secs_f64()
        }
        other => panic!("no wait in {other:?}"),
    }
}

fn secondary(n: u32) -> Tries {
    Tries { secondary: n, ..Tries::default() }
}

#[test]
fn case_1_a_used_up_quota_waits_for_its_reset() {
    let body = json!({ "message": "API rate limit exceeded for user ID 1." });
    for status in [403, 429] {
        let limits = headers(&[
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", &reset_in(42)),
        ]);
        let step = step(status, limits, Body::Json(&body), Tries::default());
        assert!(matches!(step, Step::Hold { limit: Limit::Primary, .. }), "{step:?}");
        assert_eq!(wait_of(&step), 42.0);
    }
}

#[test]
fn a_reset_in_the_past_or_far_ahead_is_not_believed_and_never_waits_longer_than_a_window() {
    let body = json!({ "message": "API rate limit exceeded" });
    for away in [-86_400, -1, 0, 86_400, 4_000_000_000] {
        let limits = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset_in(away))]);
        let mut total = 0.0;
        for primary in 0..6 {
            let tries = Tries { primary, ..Tries::default() };
            let wait = wait_of(&step(403, limits, Body::Json(&body), tries));
            assert!(wait > 0.0 && wait <= 60.0, "{away}: {wait}");
            total += wait;
        }
        assert!(total > 60.0, "the whole window is waited out in the end");
    }
}

#[test]
fn a_window_longer_than_expected_is_believed_once_a_whole_one_was_waited_out() {
    let body = json!({ "message": "API rate limit exceeded" });
    let limits = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset_in(1800))]);
    let waits = |primary| wait_of(&step(403, limits, Body::Json(&body), Tries { primary, ..Tries::default() }));
    assert!((0..WINDOW_WAITED_OUT).map(waits).all(|wait| wait <= 60.0));
    assert!((0..WINDOW_WAITED_OUT).map(waits).sum::<f64>() > 60.0);
    assert_eq!(waits(WINDOW_WAITED_OUT), 1800.0);
}

#[test]
fn graphql_errors_without_a_type_are_known_by_their_words() {
    let kinds = |message: &str| {
        let body = json!({ "data": null, "errors": [{ "message": message }] });
        graphql_errors(&body).map(|error| error.kind.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("Could not resolve to a Repository with the name 'a/b'."), ["NOT_FOUND"]);
    assert_eq!(kinds("API rate limit exceeded for installation ID 1."), ["RATE_LIMITED"]);
    assert_eq!(kinds("Field 'x' doesn't exist"), [""]);
}

#[test]
fn a_local_clock_that_is_wrong_does_not_matter_when_the_server_tells_its_own() {
    let limits = headers(&[
        ("x-ratelimit-remaining", "0"),
        ("date", "Mon, 30 Nov 2026 15:00:00 GMT"),
        ("x-ratelimit-reset", &reset_in(3 * 3600 + 30)),
    ]);
    assert_eq!(limits.reset_in, Some(SignedDuration::from_secs(30)));
}

#[test]
fn case_5_a_secondary_limit_without_hints_waits_a_minute_then_ever_longer_then_pauses() {
    let body = json!({ "message": "You have exceeded a secondary rate limit. Please wait." });
    let waits: Vec<f64> = (0..8)
        .map(|n| {
            let step = step(403, LimitHeaders::default(), Body::Json(&body), secondary(n));
            assert!(matches!(step, Step::Hold { limit: Limit::Secondary, .. }), "{step:?}");
            wait_of(&step)
        })
        .collect();
    assert_eq!(waits, [60.0, 120.0, 240.0, 480.0, 900.0, 900.0, 900.0, 900.0]);
    let last = step(403, LimitHeaders::default(), Body::Json(&body), secondary(8));
    assert!(matches!(last, Step::Pause { .. }), "{last:?}");
}

#[test]
fn a_403_that_says_nothing_at_all_is_taken_for_a_secondary_limit() {
    let step = step(403, LimitHeaders::default(), Body::Text(""), Tries::default());
    assert!(matches!(step, Step::Hold { limit: Limit::Secondary, .. }), "{step:?}");
    assert_eq!(wait_of(&step), 60.0);
}

#[test]
fn retry_after_comes_before_the_reset_and_a_hint_that_did_not_help_is_only_a_lower_bound() {
    let body = json!({ "message": "You have exceeded a secondary rate limit" });
    let limits = headers(&[("retry-after", "7"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset_in(50))]);
    assert_eq!(wait_of(&step(429, limits, Body::Json(&body), secondary(0))), 7.0);
    assert_eq!(wait_of(&step(429, limits, Body::Json(&body), secondary(3))), 480.0);
    let dated = headers(&[("retry-after", "Mon, 30 Nov 2026 12:00:09 GMT")]);
    assert_eq!(dated.retry_after, Some(Duration::from_secs(9)));
}

#[test]
fn case_6_a_graphql_limit_that_comes_as_status_200_waits_and_is_no_missing_repository() {
    for kind in ["RATE_LIMITED", "RATE_LIMIT"] {
        let body = json!({ "data": null, "errors": [{ "type": kind, "message": "API rate limit exceeded" }] });
        let limits = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset_in(900))]);
        let step = graphql(200, limits, &body, Tries::default());
        assert!(matches!(step, Step::Hold { limit: Limit::Primary, .. }), "{step:?}");
        assert_eq!(wait_of(&step), 900.0);
        let blind = graphql(200, LimitHeaders::default(), &body, Tries::default());
        assert!(matches!(blind, Step::Hold { limit: Limit::Secondary, .. }), "{blind:?}");
    }
}

#[test]
fn partial_data_is_used_and_a_query_without_any_is_cut_smaller() {
    let error = json!([{ "type": "RESOURCE_LIMITS_EXCEEDED", "message": "too much" }]);
    let partial = json!({ "data": { "r0": { "id": "x" }, "r1": null }, "errors": error });
    assert_eq!(graphql(200, LimitHeaders::default(), &partial, Tries::default()), Step::Proceed);
    let none = json!({ "data": null, "errors": error });
    assert!(matches!(graphql(200, LimitHeaders::default(), &none, Tries::default()), Step::Shrink { .. }));
}

#[test]
fn a_repository_that_is_not_found_is_an_answer_even_when_it_is_the_only_one() {
    let errors = json!([{ "type": "NOT_FOUND", "path": ["r0"], "message": "Could not resolve" }]);
    let body = json!({ "data": { "r0": null }, "errors": errors });
    assert_eq!(graphql(200, LimitHeaders::default(), &body, Tries::default()), Step::Proceed);
}

#[test]
fn case_4_a_timeout_of_a_dense_window_is_sent_again_and_given_up_only_in_the_end() {
    let body = json!({ "message": "This query took too long" });
    for status in [408, 500, 502, 503, 504] {
        let waits: Vec<f64> = (0..8)
            .map(|n| {
                let tries = Tries { transient: n, ..Tries::default() };
                wait_of(&step(status, LimitHeaders::default(), Body::Json(&body), tries))
            })
            .collect();
        assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        let tries = Tries { transient: 8, ..Tries::default() };
        let last = step(status, LimitHeaders::default(), Body::Json(&body), tries);
        assert!(matches!(last, Step::GiveUp { status: Some(s), .. } if s == status), "{last:?}");
    }
}

#[test]
fn a_gateway_timeout_of_a_batch_cuts_it_at_once() {
    let body = json!({ "message": "timeout" });
    for status in [502, 504] {
        assert!(matches!(graphql(status, LimitHeaders::default(), &body, Tries::default()), Step::Shrink { .. }));
    }
    let once = graphql(500, LimitHeaders::default(), &body, Tries::default());
    assert!(matches!(once, Step::Retry { .. }), "{once:?}");
}

#[test]
fn truncated_json_and_a_lost_connection_are_sent_again() {
    let cut = step(200, LimitHeaders::default(), Body::Text("{\"total_count\": 12, \"ite"), Tries::default());
    assert!(matches!(cut, Step::Retry { .. }), "{cut:?}");
    let exchange = Exchange {
        status: None,
        limits: LimitHeaders::default(),
        body: Body::Lost("connection reset"),
        graphql: false,
        divisible: false,
    };
    let lost = next_step(&exchange, now(), Tries::default(), MINUTE, &Policy::default());
    assert!(matches!(lost, Step::Retry { .. }), "{lost:?}");
}

#[test]
fn a_server_that_cannot_be_reached_pauses_the_work_whatever_was_asked() {
    for divisible in [false, true] {
        let exchange = Exchange {
            status: None,
            limits: LimitHeaders::default(),
            body: Body::Away("connection refused"),
            graphql: divisible,
            divisible,
        };
        let step = |transient| {
            next_step(&exchange, now(), Tries { transient, ..Tries::default() }, MINUTE, &Policy::default())
        };
        assert!((0..8).all(|tries| matches!(step(tries), Step::Retry { .. })));
        assert!(matches!(step(8), Step::Away { .. }), "{:?}", step(8));
    }
}

#[test]
fn case_7_what_is_blocked_gone_or_empty_is_left_out_with_its_reason() {
    let dmca = json!({ "message": "Repository access blocked", "block": { "reason": "dmca" } });
    let tos = json!({ "message": "Repository access blocked", "block": { "reason": "tos" } });
    let plain = json!({ "message": "Not Found" });
    let absence = |status, body: &Value| match step(status, LimitHeaders::default(), Body::Json(body), Tries::default())
    {
        Step::Drop { absence } => absence,
        other => panic!("{other:?}"),
    };
    assert_eq!(absence(451, &dmca), Absence::Blocked("dmca".to_owned()));
    assert_eq!(absence(403, &tos), Absence::Blocked("tos".to_owned()));
    assert_eq!(absence(404, &plain), Absence::NotFound);
    assert_eq!(absence(409, &plain), Absence::Empty);
    assert_eq!(absence(410, &plain), Absence::Gone);
    let saml = json!({ "message": "Resource protected by organization SAML enforcement." });
    assert!(matches!(absence(403, &saml), Absence::Forbidden(_)));
}

#[test]
fn case_10_a_query_that_is_rejected_is_loud() {
    let body = json!({ "message": "Validation Failed", "errors": [{ "code": "invalid" }] });
    let step = step(422, LimitHeaders::default(), Body::Json(&body), Tries::default());
    let Step::Reject { status: 422, message } = step else { panic!("{step:?}") };
    assert!(message.contains("Validation Failed") && message.contains("invalid"), "{message}");
}

#[test]
fn refused_credentials_end_everything() {
    let body = json!({ "message": "Bad credentials" });
    let step = step(401, LimitHeaders::default(), Body::Json(&body), Tries::default());
    assert_eq!(step, Step::Unauthorized { message: "Bad credentials".to_owned() });
}

proptest::proptest! {
    #[test]
    fn no_answer_whatever_breaks_the_decision_or_makes_it_wait_backwards(
        status in 100u16..600,
        text in ".{0,80}",
        pairs in proptest::collection::vec(("[ -~]{0,12}", 0usize..5), 0..5),
        tries in 0u32..40,
        graphql: bool,
    ) {
        let names = ["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-limit", "date"];
        let mut map = HeaderMap::new();
        for (value, name) in &pairs {
            map.insert(names[*name], value.parse().unwrap());
        }
        let value = serde_json::from_str::<Value>(&text).ok();
        let body = value.as_ref().map_or(Body::Text(&text), Body::Json);
        let limits = LimitHeaders::read(&map, now());
        let exchange = Exchange { status: Some(status), limits, body, graphql, divisible: graphql };
        let tries = Tries { transient: tries, secondary: tries, primary: tries };
        match next_step(&exchange, now(), tries, MINUTE, &Policy::default()) {
            Step::Hold { until: at, .. } | Step::Retry { at, .. } => {
                proptest::prop_assert!(at >= now());
                proptest::prop_assert!(at.duration_since(now()).as_secs() <= 2 * 3600);
            }
            _ => {}
        }
    }
}
