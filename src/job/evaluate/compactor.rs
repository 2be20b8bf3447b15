//! A language model as a compactor, under the production prompt: one row of the compaction tables, one column of the rounds.

use crate::corpus::Sha256;
use crate::llm::{Asker, LlmError, LlmReport, Request};
use crate::monitor::Monitor;
use crate::triage::production::Compression;
use crate::triage::{Base, Budget, Outputs, verbatim_recall};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// Why there are no figures of a language model.
pub const NOT_RUN: &str = "language models as compactors: none was asked; add --llm, and name an endpoint with AAC_LLM_URL \
                           and AAC_LLM_MODEL";

/// A language model at one ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LlmCompaction {
    /// Percent of the input's tokens.
    pub ratio: f64,
    /// Its name in the table of this ratio.
    pub strategy: String,
    /// Configurations that it gave a text for.
    pub answered: usize,
    /// Of these, texts that exceeded the budget and were cut off there.
    pub cut: usize,
    /// Mean seconds a configuration.
    pub seconds: f64,
    /// Mean tokens of the model a configuration, asked and answered.
    pub tokens: f64,
}

/// Five rounds of a language model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LlmRounds {
    /// The model.
    pub strategy: String,
    /// Mean share of the flagged constraints of the first text that stand word for word, by round.
    pub recall: Vec<f64>,
    /// What asking came to.
    pub llm: LlmReport,
}

/// Asks a language model to compact.
pub struct Compactor {
    /// Who is asked.
    pub asker: Arc<Asker>,
    /// Send texts as they are.
    pub raw: bool,
}

/// What became of one base.
struct Compacted {
    text: String,
    cut: bool,
    ms: u64,
    tokens: u64,
}

impl Compactor {
    /// Its name in tables.
    pub fn strategy(&self) -> String {
        format!("{}, production prompt", self.asker.model())
    }

    /// Compact every base into `budget` of it; nothing where the model gives no text.
    async fn compact(
        &self,
        bases: &[Base],
        budget: Budget,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Compacted>>, LlmError> {
        let asked: Vec<Compression> =
            bases.par_iter().map(|base| Compression::of(base, budget.of(base.tokens()), self.raw)).collect();
        let request = |asked: &Compression| Request {
            key: asked.key(self.asker.model()),
            system: asked.system.as_str().into(),
            user: asked.user.clone(),
            schema: None,
            max_tokens: asked.max_tokens,
        };
        let check = |answer: &str| Compression::complaint(answer).map_or(Ok(()), |why| Err(why.to_owned()));
        let requests: Vec<Request> = asked.iter().map(request).collect();
        let keys: Vec<Sha256> = requests.iter().map(|request| request.key).collect();
        // How far it is, the asker tells.
        monitor.begin("compact", None);
        let answers = self.asker.ask(requests, &check, monitor).await;
        monitor.end();
        let answers = answers?;
        let read = |((asked, key), base): ((&Compression, &Sha256), &Base)| {
            let kept = answers.get(key)?;
            let (text, cut) = asked.output(base, kept.answer.as_deref()?)?;
            Some(Compacted { text, cut, ms: kept.ms, tokens: kept.tokens_in + kept.tokens_out })
        };
        Ok(asked.par_iter().zip(&keys).zip(bases).map(read).collect())
    }

    /// What it makes of every base at `ratio` percent, for the table, and how it came to that.
    pub async fn outputs(
        &self,
        bases: &[Base],
        ratio: f64,
        monitor: &dyn Monitor,
    ) -> Result<(Outputs, LlmCompaction), LlmError> {
        let found = self.compact(bases, Budget::Percent(ratio), monitor).await?;
        let answered = found.iter().flatten().count();
        let mean =
            |of: fn(&Compacted) -> u64| found.iter().flatten().map(of).sum::<u64>() as f64 / answered.max(1) as f64;
        let how = LlmCompaction {
            ratio,
            strategy: self.strategy(),
            answered,
            cut: found.iter().flatten().filter(|one| one.cut).count(),
            seconds: mean(|one| one.ms) / 1e3,
            tokens: mean(|one| one.tokens),
        };
        let outputs = found.into_iter().map(|one| one.map(|one| one.text)).collect();
        Ok((Outputs { strategy: self.strategy(), outputs }, how))
    }

    /// Compact every base with flagged constraints over and over, each time to `ratio` percent of what it then is. Where
    /// the model gives no text, the last one stays.
    pub async fn rounds(
        &self,
        bases: &[Base],
        rounds: usize,
        ratio: f64,
        monitor: &dyn Monitor,
    ) -> Result<LlmRounds, LlmError> {
        let first: Vec<&Base> = bases.iter().filter(|base| base.items().iter().any(|item| item.pinned())).collect();
        let mut now: Vec<Base> = first.iter().map(|base| (*base).clone()).collect();
        let mut recall = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let found = self.compact(&now, Budget::Percent(ratio), monitor).await?;
            now = now
                .par_iter()
                .zip(&found)
                .map(|(base, made)| made.as_ref().map_or_else(|| base.clone(), |made| base.reread(&made.text)))
                .collect();
            let kept: f64 = first.iter().zip(&now).map(|(first, now)| verbatim_recall(first, now.text())).sum();
            recall.push(kept / first.len().max(1) as f64);
        }
        Ok(LlmRounds { strategy: self.strategy(), recall, llm: self.asker.report() })
    }
}
