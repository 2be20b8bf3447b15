//! Asks many questions: each once, so many at a time, as long as the budget lasts.

use super::LlmError;
use super::budget::{Limits, Purse, Spent};
use super::cache::{AnswerFile, Kept};
use super::client::{Client, Sleeper};
use super::endpoint::Endpoint;
use super::retry::Policy;
use super::wire::{Request, Turn};
use crate::corpus::Sha256;
use crate::monitor::Monitor;
use futures_util::StreamExt as _;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often a question is asked before its answers count as no use.
const TRIES: usize = 3;

/// How far to go.
#[derive(Clone, Default)]
pub struct AskerOptions {
    /// How many requests may be under way at once; 0 counts as 1.
    pub concurrency: usize,
    /// What may be spent.
    pub limits: Limits,
    /// Waits and bounds.
    pub policy: Policy,
    /// Where answers are kept; without a path they are lost at the end.
    pub answers: Option<PathBuf>,
    /// How to wait; by the clock, unless given.
    pub sleep: Option<Sleeper>,
}

/// Answers by key: nothing where the model gave none that can be used.
pub type Answers = HashMap<Sha256, Kept>;

/// What asking came to, as every JSON document says it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LlmReport {
    /// The model.
    pub model: String,
    /// Host and port of the server.
    pub host: String,
    /// Questions whose answers were kept from before.
    pub from_cache: u64,
    /// Questions asked now.
    pub asked: u64,
    /// Questions without an answer that can be used, whether asked now or before.
    pub unusable: u64,
    /// What was spent now.
    pub spent: Spent,
    /// Where answers are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<PathBuf>,
}

impl std::fmt::Display for LlmReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} at {}: {} questions asked, {} answered from before, {} without a usable answer; {}",
            self.model, self.host, self.asked, self.from_cache, self.unusable, self.spent
        )
    }
}

/// Asks one model. All that share one asker share its budget.
pub struct Asker {
    client: Client,
    purse: Purse,
    file: Option<AnswerFile>,
    concurrency: usize,
    asked: AtomicU64,
    from_cache: AtomicU64,
    unusable: AtomicU64,
}

impl Asker {
    /// An asker of the model at `endpoint`.
    pub fn new(endpoint: Endpoint, options: AskerOptions) -> Result<Self, LlmError> {
        if options.limits.max_cost.is_some() && options.limits.prices.is_none() {
            return Err(LlmError::Setup {
                what: "--max-cost".to_owned(),
                why: "needs prices: set price_input and price_output, for a million tokens, in [llm] of aac.toml"
                    .into(),
            });
        }
        Ok(Self {
            client: Client::new(endpoint, options.policy, options.sleep)?,
            purse: Purse::new(options.limits),
            file: options.answers.as_deref().map(AnswerFile::open).transpose()?,
            concurrency: options.concurrency.max(1),
            asked: AtomicU64::new(0),
            from_cache: AtomicU64::new(0),
            unusable: AtomicU64::new(0),
        })
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        self.client.endpoint.model()
    }

    /// What asking came to so far.
    pub fn report(&self) -> LlmReport {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LlmReport {
            model: self.model().to_owned(),
            host: self.client.endpoint.host(),
            from_cache: number(&self.from_cache),
            asked: number(&self.asked),
            unusable: number(&self.unusable),
            spent: self.purse.spent(),
            answers: self.file.as_ref().map(|file| file.path().to_owned()),
        }
    }

    /// Ask what was not answered before, and return all answers. `check` says what is wrong with an answer; such a one is
    /// complained of and asked for again, and in the end kept as none. Questions of one key are asked once.
    ///
    /// # Errors
    /// The first reason to stop. What was under way then is finished and kept.
    pub async fn ask(
        &self,
        requests: Vec<Request>,
        check: &(dyn Fn(&str) -> Result<(), String> + Sync),
        monitor: &dyn Monitor,
    ) -> Result<Answers, LlmError> {
        let mut answers = Answers::new();
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        for request in requests {
            if !seen.insert(request.key) {
                continue;
            }
            match self.file.as_ref().map(|file| file.get(&request.key)).transpose()?.flatten() {
                Some(kept) => {
                    self.from_cache.fetch_add(1, Ordering::Relaxed);
                    self.unusable.fetch_add(u64::from(kept.answer.is_none()), Ordering::Relaxed);
                    answers.insert(request.key, kept);
                }
                None => open.push(request),
            }
        }
        let total = open.len();
        let stopped = AtomicBool::new(false);
        let stopped = &stopped;
        let work = open.iter().map(|request| async move {
            if stopped.load(Ordering::Relaxed) {
                return None;
            }
            let answered = if monitor.stop_requested() {
                Err(LlmError::Stopped { spent: self.purse.spent() })
            } else {
                self.one(request, check, monitor, stopped).await
            };
            if answered.is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            Some((request.key, answered))
        });
        let mut work = futures_util::stream::iter(work).buffer_unordered(self.concurrency);
        let mut stop = None;
        let mut done = 0;
        while let Some(result) = work.next().await {
            match result {
                Some((key, Ok(kept))) => {
                    answers.insert(key, kept);
                    done += 1;
                    monitor.state(&format!("{done} of {total} answered by {}, {}", self.model(), self.purse.spent()));
                }
                // The first reason is the one to tell; others follow from it.
                Some((_, Err(error))) => stop = stop.or(Some(error)),
                None => {}
            }
        }
        stop.map_or(Ok(answers), Err)
    }

    /// Ask one question, and keep its answer.
    async fn one(
        &self,
        request: &Request,
        check: &(dyn Fn(&str) -> Result<(), String> + Sync),
        monitor: &dyn Monitor,
        stopped: &AtomicBool,
    ) -> Result<Kept, LlmError> {
        let mut kept = Kept { answer: None, tokens_in: 0, tokens_out: 0, ms: 0 };
        let mut turns: Vec<Turn> = Vec::new();
        for _ in 0..TRIES {
            let said: usize = turns.iter().map(|turn| turn.answer.len() + turn.complaint.len()).sum();
            let leave = self.purse.leave(request.system.len() + request.user.len() + said, request.max_tokens).await?;
            if stopped.load(Ordering::Relaxed) {
                return Err(LlmError::Stopped { spent: self.purse.spent() });
            }
            let Some(exchange) = self.client.exchange(request, &turns, leave, monitor).await? else {
                // Refused for its own sake, for instance as too long. Another server may take it: not kept.
                self.unusable.fetch_add(1, Ordering::Relaxed);
                return Ok(kept);
            };
            kept.tokens_in += exchange.usage.input;
            kept.tokens_out += exchange.usage.output;
            kept.ms = u64::try_from(exchange.took.as_millis()).unwrap_or(u64::MAX);
            let text = exchange.reply.text;
            match check(&text) {
                Ok(()) => {
                    kept.answer = Some(text);
                    break;
                }
                Err(why) => {
                    let cut = if exchange.reply.cut { ", for it was too long" } else { "" };
                    let complaint = format!("That answer is no use{cut}: {why}. Answer again, in the form asked for.");
                    // Some servers refuse an empty turn.
                    let answer = if text.trim().is_empty() { "(nothing)".to_owned() } else { shortened(text) };
                    turns.push(Turn { answer, complaint });
                }
            }
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.unusable.fetch_add(u64::from(kept.answer.is_none()), Ordering::Relaxed);
        if let Some(file) = &self.file {
            file.put(request.key, self.model(), &kept)?;
        }
        Ok(kept)
    }
}

/// What of a bad answer is held against the model.
fn shortened(answer: String) -> String {
    const MOST: usize = 1_000;
    if answer.len() <= MOST { answer } else { answer.chars().take(MOST).collect::<String>() + " …" }
}
