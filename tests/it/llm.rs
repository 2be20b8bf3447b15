//! The client of language models against servers that misbehave.

use crate::llm_server::{Asked, Reply, Server};
use aac::corpus::Sha256;
use aac::llm::{Answers, Asker, AskerOptions, Endpoint, Key, Limits, LlmError, Policy, Prices, Request, Sleeper};
use aac::monitor::Silent;
use serde_json::json;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Waits that were asked for, none of which takes any time.
#[derive(Clone, Default)]
struct Waits(Arc<Mutex<Vec<Duration>>>);

impl Waits {
    fn sleeper(&self) -> Sleeper {
        let waits = self.0.clone();
        Arc::new(move |wait| {
            waits.lock().unwrap().push(wait);
            Box::pin(std::future::ready(()))
        })
    }

    fn taken(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

fn options(waits: &Waits) -> AskerOptions {
    AskerOptions { concurrency: 1, sleep: Some(waits.sleeper()), ..AskerOptions::default() }
}

fn asker(server: &Server, options: AskerOptions) -> Asker {
    Asker::new(Endpoint::new(None, &server.url, "m-1", Key::default()).unwrap(), options).unwrap()
}

fn requests(count: usize) -> Vec<Request> {
    let request = |n: usize| Request {
        key: Sha256::of(format!("{n}").as_bytes()),
        system: "Echo.".into(),
        user: format!("question {n}"),
        schema: Some(Arc::new(json!({ "type": "object" }))),
        max_tokens: 20,
    };
    (0..count).map(request).collect()
}

async fn ask(asker: &Asker, count: usize) -> Result<Answers, LlmError> {
    let check = |answer: &str| if answer.starts_with("yes") { Ok(()) } else { Err("it does not say yes".to_owned()) };
    asker.ask(requests(count), &check, &Silent::default()).await
}

/// Ask one question of a server that answers with `first` in turn and then well.
async fn after(first: impl Fn(usize, &Asked) -> Option<Reply> + Send + Sync + 'static) -> (usize, Vec<Duration>) {
    let server = Server::start(move |n, asked| first(n, asked).unwrap_or_else(|| Reply::say("yes")));
    let waits = Waits::default();
    let asker = asker(&server, options(&waits));
    let answers = ask(&asker, 1).await.unwrap();
    assert_eq!(answers[&requests(1)[0].key].answer.as_deref(), Some("yes"));
    (server.count(), waits.taken())
}

#[tokio::test]
async fn a_limit_is_waited_for_as_long_as_the_server_says() {
    let limited = |n| (n < 2).then(|| Reply::Send(429, vec![("retry-after", format!("{}", 7 + n))], "{}".into()));
    let (asked, waits) = after(move |n, _| limited(n)).await;
    assert_eq!((asked, waits), (3, vec![Duration::from_secs(7), Duration::from_secs(8)]));
}

#[tokio::test]
async fn errors_of_the_server_lost_connections_and_half_answers_are_tried_again_with_growing_waits() {
    let (asked, waits) = after(|n, _| match n {
        0 => Some(Reply::refuse(500, "oops")),
        1 => Some(Reply::Drop),
        2 => Some(Reply::BreakOff("{\"choices\": [{\"mess".into())),
        3 => Some(Reply::Send(200, Vec::new(), "{\"choices\": [{\"mess".into())),
        4 => Some(Reply::Send(529, Vec::new(), "<html>overloaded".into())),
        _ => None,
    })
    .await;
    assert_eq!(asked, 6);
    for (wait, least) in waits.iter().zip([1, 2, 4, 8, 16]) {
        let least = Duration::from_secs(least);
        assert!(*wait >= least && *wait <= least.mul_f64(1.25), "{waits:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_recovers_pauses_the_work() {
    let server = Server::start(|_, _| Reply::refuse(503, "down for today"));
    let waits = Waits::default();
    let error = ask(&asker(&server, options(&waits)), 3).await.unwrap_err();
    assert!(error.is_pause() && error.to_string().contains("down for today"), "{error}");
    assert_eq!((server.count(), waits.taken().len()), (6, 5));
    let long = Server::start(|_, _| Reply::Send(429, vec![("retry-after", "86400".into())], "{}".into()));
    let waits = Waits::default();
    let error = ask(&asker(&long, options(&waits)), 1).await.unwrap_err();
    assert!(error.is_pause() && error.to_string().contains("86400 s"), "{error}");
    assert_eq!((long.count(), waits.taken().len()), (1, 0));
    let broke = Server::start(|_, _| {
        Reply::Send(429, Vec::new(), json!({ "error": { "code": "insufficient_quota", "message": "pay" } }).to_string())
    });
    let error = ask(&asker(&broke, options(&Waits::default())), 1).await.unwrap_err();
    assert!(error.is_pause() && broke.count() == 1, "{error}");
    let away = Endpoint::new(None, "http://127.0.0.1:1/v1", "m", Key::default()).unwrap();
    let error = ask(&Asker::new(away, options(&Waits::default())).unwrap(), 1).await.unwrap_err();
    assert!(error.is_pause() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn a_slow_answer_is_given_up_and_asked_for_again() {
    // The first request is answered only once the second is there, long after its time is up.
    let second = Arc::new((Mutex::new(false), Condvar::new()));
    let server = Server::start(move |n, _| {
        let (there, came) = &*second;
        if n == 0 {
            drop(came.wait_while(there.lock().unwrap(), |there| !*there).unwrap());
        } else {
            *there.lock().unwrap() = true;
            came.notify_all();
        }
        Reply::say("yes")
    });
    let waits = Waits::default();
    let policy = Policy { timeout: Duration::from_millis(300), ..Policy::default() };
    let answers = ask(&asker(&server, AskerOptions { policy, ..options(&waits) }), 1).await.unwrap();
    assert_eq!((answers.len(), server.count(), waits.taken().len()), (1, 2, 1));
}

#[tokio::test]
async fn a_key_that_is_missing_or_wrong_is_called_by_its_variable_and_never_shown() {
    let wrong =
        Server::start(|_, asked| Reply::refuse(401, &format!("no such key: {}", asked.headers["authorization"])));
    let key = Key::read("TEAM_KEY", |_| Some("hush-hush".into())).unwrap();
    let endpoint = Endpoint::new(None, &wrong.url, "m", key).unwrap();
    let error = ask(&Asker::new(endpoint, options(&Waits::default())).unwrap(), 5).await.unwrap_err();
    assert!(!error.is_pause() && wrong.count() == 1, "what is wrong for one is wrong for all: {error}");
    assert!(
        error.to_string().contains("the one in TEAM_KEY") && !format!("{error} {error:?}").contains("hush"),
        "{error}"
    );
    assert_eq!(wrong.asked()[0].headers["authorization"], "Bearer hush-hush");
    let missing = Server::start(|_, _| Reply::refuse(403, "who are you"));
    let key = Key::read("TEAM_KEY", |_| None).unwrap();
    let endpoint = Endpoint::new(None, &missing.url, "m", key).unwrap();
    let error = ask(&Asker::new(endpoint, options(&Waits::default())).unwrap(), 1).await.unwrap_err();
    assert!(error.to_string().contains("set TEAM_KEY, which is empty"), "{error}");
    assert!(!missing.asked()[0].headers.contains_key("authorization"));
    // An error that quotes the key quotes it to nobody.
    let quoting = Server::start(|_, _| Reply::refuse(404, "no model for hush-hush"));
    let key = Key::read("TEAM_KEY", |_| Some("hush-hush".into())).unwrap();
    let endpoint = Endpoint::new(None, &quoting.url, "m", key).unwrap();
    let error = ask(&Asker::new(endpoint, options(&Waits::default())).unwrap(), 1).await.unwrap_err();
    assert!(matches!(error, LlmError::Refused { status: 404, .. }) && !error.to_string().contains("hush"), "{error}");
}

#[tokio::test]
async fn bad_answers_are_complained_of_and_in_the_end_count_as_none() {
    let server = Server::start(|n, _| Reply::say(if n < 1 { "no" } else { "yes, then" }));
    let answers = ask(&asker(&server, options(&Waits::default())), 1).await.unwrap();
    let asked = server.asked();
    assert_eq!((answers.len(), asked.len(), asked[1].messages()), (1, 2, 4));
    assert!(asked[1].last().contains("it does not say yes"), "{}", asked[1].last());
    let stubborn = Server::start(|_, _| Reply::say("no"));
    let asker = asker(&stubborn, options(&Waits::default()));
    let answers = ask(&asker, 1).await.unwrap();
    let kept = answers.values().next().unwrap();
    assert_eq!((kept.answer.as_ref(), kept.tokens_in, kept.tokens_out), (None, 300, 30));
    assert_eq!((stubborn.count(), asker.report().unusable), (3, 1));
}

#[tokio::test]
async fn a_budget_stops_with_everything_kept_and_the_next_run_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _| Reply::say("yes"));
    let run = |max_tokens: Option<u64>| {
        let limits = Limits { max_tokens, prices: Some(Prices { input: 2.0, output: 8.0 }), ..Limits::default() };
        let answers = Some(dir.path().join("answers.jsonl"));
        asker(&server, AskerOptions { limits, answers, concurrency: 3, ..options(&Waits::default()) })
    };
    let first = run(Some(500));
    let error = ask(&first, 10).await.unwrap_err();
    let spent = first.report().spent;
    assert!(error.is_pause() && error.to_string().contains("500 tokens"), "{error}");
    assert_eq!((spent.requests, spent.tokens()), (4, 440));
    assert!((spent.cost.unwrap() - (400.0 * 2.0 + 40.0 * 8.0) / 1e6).abs() < 1e-12);
    let second = run(None);
    assert_eq!(ask(&second, 10).await.unwrap().len(), 10);
    let report = second.report();
    assert_eq!((server.count(), report.from_cache, report.asked), (10, 4, 6));
    let third = run(Some(0));
    assert_eq!(ask(&third, 10).await.unwrap().len(), 10);
    assert_eq!((server.count(), third.report().asked), (10, 0), "what is kept costs nothing");
    let lines = std::fs::read_to_string(dir.path().join("answers.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 10);
    assert!(!lines.contains("question"), "questions are not kept");
}

#[tokio::test]
async fn money_without_prices_is_refused_and_with_them_counted() {
    let server = Server::start(|_, _| Reply::say("yes"));
    let endpoint = || Endpoint::new(None, &server.url, "m", Key::default()).unwrap();
    let limits = Limits { max_cost: Some(0.001), ..Limits::default() };
    let error = Asker::new(endpoint(), AskerOptions { limits, ..options(&Waits::default()) }).err().unwrap();
    assert!(error.to_string().contains("price_input"), "{error}");
    let limits = Limits { prices: Some(Prices { input: 3.0, output: 20.0 }), ..limits };
    let asker = Asker::new(endpoint(), AskerOptions { limits, ..options(&Waits::default()) }).unwrap();
    let error = ask(&asker, 9).await.unwrap_err().to_string();
    assert!(error.contains("a cost of 0.001") && error.contains("2 requests"), "{error}");
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated() {
    let server = Server::start(|_, _| {
        Reply::Send(200, Vec::new(), json!({ "choices": [{ "message": { "content": "yes" } }] }).to_string())
    });
    let asker = asker(&server, options(&Waits::default()));
    ask(&asker, 2).await.unwrap();
    let spent = asker.report().spent;
    assert!(spent.estimated == 2 && spent.tokens_in > 0 && spent.tokens_out > 0, "{spent:?}");
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_asked_for() {
    // Each request waits until as many as may are there: fewer would wait for ever.
    let group = Arc::new(std::sync::Barrier::new(3));
    let server = Server::start(move |_, _| {
        group.wait();
        Reply::say("yes")
    });
    let asker = asker(&server, AskerOptions { concurrency: 3, ..options(&Waits::default()) });
    assert_eq!(ask(&asker, 12).await.unwrap().len(), 12);
    assert_eq!((server.count(), server.most_at_once()), (12, 3));
}

#[tokio::test]
async fn questions_of_one_key_are_asked_once_and_a_stop_is_heard() {
    let server = Server::start(|_, _| Reply::say("yes"));
    let asker = asker(&server, options(&Waits::default()));
    let twice = [requests(2), requests(2)].concat();
    assert_eq!(asker.ask(twice, &|_| Ok(()), &Silent::default()).await.unwrap().len(), 2);
    assert_eq!(server.count(), 2);
    let monitor = Silent::default();
    monitor.stop();
    let error = asker.ask(requests(2), &|_| Ok(()), &monitor).await.unwrap_err();
    assert!(matches!(error, LlmError::Stopped { .. }) && server.count() == 2);
}

#[tokio::test]
async fn older_and_newer_servers_are_asked_in_the_form_that_they_take() {
    let (asked, waits) = after(|_, asked| {
        let complain = |name: &str| asked.body.get(name).map(|_| Reply::refuse(400, &format!("unknown field {name}")));
        let bound =
            asked.body.get("max_tokens").map(|_| Reply::refuse(400, "use max_completion_tokens, not max_tokens"));
        complain("response_format").or_else(|| complain("temperature")).or(bound)
    })
    .await;
    assert_eq!((asked, waits.len()), (4, 0));
}

#[tokio::test]
async fn one_question_too_long_for_the_server_stops_no_other() {
    let server =
        Server::start(
            |_, asked| {
                if asked.last() == "question 1" { Reply::refuse(400, "too long") } else { Reply::say("yes") }
            },
        );
    let dir = tempfile::tempdir().unwrap();
    let answers = Some(dir.path().join("answers.jsonl"));
    let asker = asker(&server, AskerOptions { answers, ..options(&Waits::default()) });
    let found = ask(&asker, 3).await.unwrap();
    assert_eq!(found.values().filter(|kept| kept.answer.is_none()).count(), 1);
    assert_eq!(asker.report().unusable, 1);
    assert_eq!(std::fs::read_to_string(asker.report().answers.unwrap()).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn messages_of_anthropic_are_asked_with_a_tool_and_read_from_it() {
    let server = Server::start(|n, _| {
        let block = if n == 0 {
            json!({ "type": "text", "text": "hm" })
        } else {
            json!({ "type": "tool_use", "name": "answer", "input": { "yes": true } })
        };
        let body = json!({ "content": [block], "stop_reason": "tool_use", "usage": { "input_tokens": 5, "output_tokens": 2 } });
        Reply::Send(200, Vec::new(), body.to_string())
    });
    let key = Key::read("K", |_| Some("secret".into())).unwrap();
    let endpoint = Endpoint::new(None, &format!("{}/messages", server.url), "claude", key).unwrap();
    let asker = Asker::new(endpoint, options(&Waits::default())).unwrap();
    let check = |answer: &str| if answer == "{\"yes\":true}" { Ok(()) } else { Err("no object".to_owned()) };
    let answers = asker.ask(requests(1), &check, &Silent::default()).await.unwrap();
    assert!(answers.values().all(|kept| kept.answer.is_some()));
    let asked = server.asked();
    assert_eq!((asked[0].path.as_str(), asked[0].headers["x-api-key"].as_str()), ("/v1/messages", "secret"));
    assert_eq!(asked[0].body["tool_choice"]["type"], "tool");
    assert!(asked[0].headers.contains_key("anthropic-version") && !asked[0].headers.contains_key("authorization"));
    assert_eq!(asker.report().spent.tokens(), 14);
}
