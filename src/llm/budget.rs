//! What may be spent, and what was.

use super::LlmError;
use serde::Serialize;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Bytes a token before a server has said how it counts.
const BYTES_PER_TOKEN: f64 = 3.0;

/// Prices in some currency for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of what is asked.
    pub input: f64,
    /// Of what is answered.
    pub output: f64,
}

/// The most that one invocation may spend.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Tokens, asked and answered together.
    pub max_tokens: Option<u64>,
    /// Money, in the currency of the prices; counts only with them.
    pub max_cost: Option<f64>,
    /// Prices.
    pub prices: Option<Prices>,
}

/// Tokens of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Spent {
    /// Requests that were answered, however badly.
    pub requests: u64,
    /// Tokens asked.
    pub tokens_in: u64,
    /// Tokens answered.
    pub tokens_out: u64,
    /// Requests whose tokens the server did not count; theirs are estimated from bytes.
    pub estimated: u64,
    /// Money, where prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Spent {
    /// Tokens, asked and answered together.
    pub fn tokens(&self) -> u64 {
        self.tokens_in + self.tokens_out
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests took {} tokens in and {} out", self.requests, self.tokens_in, self.tokens_out)?;
        if self.estimated > 0 {
            write!(f, " ({} of them estimated)", self.estimated)?;
        }
        self.cost.map_or(Ok(()), |cost| write!(f, ", a cost of {cost:.4}"))
    }
}

#[derive(Debug, Default)]
struct State {
    spent: Spent,
    in_flight: usize,
    /// Bytes and bounds of what is in flight. They are priced when somebody asks, at the rates known by then.
    bytes: usize,
    max_out: u64,
    /// The most tokens a byte that any question had, and the largest part of its bound that any answer took.
    per_byte: Option<f64>,
    filled: Option<f64>,
}

impl State {
    /// What was spent and what is in flight, and a further request with them.
    fn with(&self, bytes: usize, max_out: u32) -> Usage {
        let per_byte = self.per_byte.unwrap_or(1.0 / BYTES_PER_TOKEN);
        let filled = self.filled.unwrap_or(1.0);
        Usage {
            input: self.spent.tokens_in + ((self.bytes + bytes) as f64 * per_byte).ceil() as u64,
            output: self.spent.tokens_out + ((self.max_out + u64::from(max_out)) as f64 * filled).ceil() as u64,
        }
    }
}

/// Hands out leave to spend, so that requests in flight together do not exceed what is left.
#[derive(Debug, Default)]
pub(super) struct Purse {
    limits: Limits,
    state: Mutex<State>,
    freed: Notify,
}

/// Leave to send one request, given back when it is dropped. What was answered meanwhile is counted by [`Self::settle`].
#[derive(Debug)]
pub(super) struct Leave<'p> {
    purse: &'p Purse,
    bytes: usize,
    max_out: u32,
}

impl Purse {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves the sums half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spent(&self) -> Spent {
        let spent = self.state().spent;
        let usage = Usage { input: spent.tokens_in, output: spent.tokens_out };
        Spent { cost: self.limits.prices.map(|_| self.cost(usage)), ..spent }
    }

    fn cost(&self, usage: Usage) -> f64 {
        let Prices { input, output } = self.limits.prices.unwrap_or(Prices { input: 0.0, output: 0.0 });
        (usage.input as f64 * input + usage.output as f64 * output) / 1e6
    }

    fn fits(&self, usage: Usage) -> bool {
        self.limits.max_tokens.is_none_or(|most| usage.input + usage.output <= most)
            && self.limits.max_cost.is_none_or(|most| self.cost(usage) <= most)
    }

    /// Leave for a question of `bytes` bytes whose answer takes `max_out` tokens at most. It is counted at the dearest rates
    /// seen so far, so a budget is exceeded only by a request that is dearer than any before it. The first one is sent
    /// alone, to find out, and whatever it may take, unless nothing at all may be spent. Waits where others in flight may
    /// leave enough.
    pub(super) async fn leave(&self, bytes: usize, max_out: u32) -> Result<Leave<'_>, LlmError> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(leave) = self.try_leave(bytes, max_out)? {
                return Ok(leave);
            }
            freed.await;
        }
    }

    fn try_leave(&self, bytes: usize, max_out: u32) -> Result<Option<Leave<'_>>, LlmError> {
        let mut state = self.state();
        let nothing = self.limits.max_tokens == Some(0) || self.limits.max_cost == Some(0.0);
        let limited = self.limits.max_tokens.is_some() || self.limits.max_cost.is_some();
        let leave = if state.spent.requests == 0 && limited && !nothing {
            state.in_flight == 0
        } else {
            self.fits(state.with(bytes, max_out))
        };
        if leave {
            state.in_flight += 1;
            state.bytes += bytes;
            state.max_out += u64::from(max_out);
            return Ok(Some(Leave { purse: self, bytes, max_out }));
        }
        if state.in_flight > 0 {
            return Ok(None);
        }
        drop(state);
        Err(LlmError::Budget { budget: self.budget(), spent: self.spent() })
    }

    fn budget(&self) -> String {
        let tokens = self.limits.max_tokens.map(|n| format!("{n} tokens"));
        let cost = self.limits.max_cost.map(|cost| format!("a cost of {cost}"));
        [tokens, cost].into_iter().flatten().collect::<Vec<_>>().join(" or ")
    }
}

impl Leave<'_> {
    /// What was spent by all, so far.
    pub(super) fn spent(&self) -> Spent {
        self.purse.spent()
    }

    /// Count what an exchange took, and return it; what the server did not count is estimated from the bytes.
    pub(super) fn settle(&self, usage: Option<Usage>, bytes_out: usize) -> Usage {
        let mut state = self.purse.state();
        let tokens = |bytes: usize| (bytes as f64 / BYTES_PER_TOKEN).ceil() as u64;
        let counted = usage.unwrap_or_else(|| Usage { input: tokens(self.bytes), output: tokens(bytes_out) });
        state.spent.requests += 1;
        state.spent.tokens_in += counted.input;
        state.spent.tokens_out += counted.output;
        if usage.is_some() {
            let most = |seen: Option<f64>, new: f64| Some(seen.map_or(new, |seen| seen.max(new)));
            state.per_byte = most(state.per_byte, counted.input as f64 / self.bytes.max(1) as f64);
            state.filled = most(state.filled, counted.output as f64 / f64::from(self.max_out.max(1)));
        } else {
            state.spent.estimated += 1;
        }
        counted
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.purse.state();
        state.in_flight -= 1;
        state.bytes -= self.bytes;
        state.max_out -= u64::from(self.max_out);
        drop(state);
        self.purse.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(input: u64, output: u64) -> Option<Usage> {
        Some(Usage { input, output })
    }

    #[tokio::test]
    async fn a_budget_of_tokens_stops_before_it_is_exceeded() {
        let purse = Purse::new(Limits { max_tokens: Some(350), ..Limits::default() });
        for _ in 0..3 {
            purse.leave(900, 50).await.unwrap().settle(used(90, 10), 30);
        }
        let error = purse.leave(900, 50).await.unwrap_err();
        assert!(error.is_pause());
        let said = error.to_string();
        assert!(said.contains("350 tokens") && said.contains("3 requests took 270 tokens in and 30 out"), "{said}");
    }

    #[tokio::test]
    async fn money_is_counted_by_the_prices_and_nothing_may_be_nothing() {
        let prices = Some(Prices { input: 10.0, output: 100.0 });
        let purse = Purse::new(Limits { max_cost: Some(0.005), prices, ..Limits::default() });
        purse.leave(300, 20).await.unwrap().settle(used(100, 20), 60);
        assert_eq!(purse.spent().cost, Some(0.003));
        assert!(matches!(purse.leave(300, 20).await, Err(LlmError::Budget { .. })));
        let none = Purse::new(Limits { max_tokens: Some(0), ..Limits::default() });
        assert!(none.leave(1, 1).await.is_err());
    }

    #[tokio::test]
    async fn whoever_does_not_fit_waits_for_those_in_flight() {
        let purse = Purse::new(Limits { max_tokens: Some(200), ..Limits::default() });
        let first = purse.leave(300, 60).await.unwrap();
        let (second, ()) = tokio::join!(purse.leave(300, 60), async move {
            first.settle(used(50, 10), 30);
        });
        second.unwrap().settle(None, 30);
        let spent = purse.spent();
        assert_eq!((spent.tokens(), spent.estimated, spent.cost), (170, 1, None));
        let back = purse.leave(30, 30).await.unwrap();
        drop(back);
        assert_eq!(purse.spent().requests, 2, "what was never answered is not counted");
    }
}
