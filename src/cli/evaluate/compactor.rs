//! A language model as a compactor, in the tables of `aac evaluate compaction` and `aac evaluate rounds`.

use super::super::llm::LlmArgs;
use super::super::{Context, Failure};
use crate::job::evaluate::compactor::{Compactor, LlmCompaction, LlmRounds, NOT_RUN};
use crate::llm::LlmReport;
use crate::triage::{Base, Outputs, paper_llm_compaction};
use clap::Args;
use serde::Serialize;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompactorArgs {
    /// Compact with a language model too, as runtimes do; every configuration is sent to it
    #[arg(long)]
    llm: bool,
    #[command(flatten)]
    model: LlmArgs,
}

/// What a language model makes of the configurations.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct ByModel {
    ratios: Vec<LlmCompaction>,
    llm: LlmReport,
}

impl CompactorArgs {
    /// The model to compact with, where one is asked for.
    pub(in crate::cli) fn compactor(&self, context: &Context) -> Result<Option<Compactor>, Failure> {
        if !self.llm {
            return Ok(None);
        }
        let missing = "Failed to use --llm: name an endpoint and its model with AAC_LLM_URL and AAC_LLM_MODEL, or url and \
                       model in [llm] of aac.toml, and put its key, if it has one, into AAC_LLM_KEY";
        let asker = self.model.asker(context)?.ok_or_else(|| Failure::usage(missing))?;
        Ok(Some(Compactor { asker, raw: self.model.usage(context).send_raw }))
    }
}

impl ByModel {
    /// What the model makes of the bases, by ratio, added to `others`.
    pub(in crate::cli) async fn of(
        compactor: &Compactor,
        context: &Context,
        bases: &[Base],
        others: &mut [(f64, Vec<Outputs>)],
    ) -> Result<Self, Failure> {
        let mut ratios = Vec::new();
        for (ratio, others) in others {
            let found = compactor.outputs(bases, *ratio, &context.terminal).await;
            let (outputs, how) = found.map_err(Failure::of_model)?;
            others.push(outputs);
            ratios.push(how);
        }
        Ok(Self { ratios, llm: compactor.asker.report() })
    }
}

/// What stands below the tables: how the model fared, beside the paper's, or why it was not asked.
pub(in crate::cli) fn compaction_text(found: Option<&ByModel>) -> String {
    let Some(found) = found else { return format!("\nNot run: {NOT_RUN}\n") };
    let mut out = String::new();
    for one in &found.ratios {
        out += &format!(
            "\n{} % by {}: {} texts, {} of them cut off at the budget; {:.1} s and {:.0} tokens a configuration\n",
            one.ratio, one.strategy, one.answered, one.cut, one.seconds, one.tokens
        );
        let reported: Vec<String> = paper_llm_compaction(one.ratio)
            .iter()
            .map(|(name, [constraints, procedures])| format!("{name} {constraints:.2} / {procedures:.2}"))
            .collect();
        out += &format!("  reported, constraints / procedures: {}\n", reported.join(", "));
    }
    out + &format!("{}\n", found.llm)
}

/// The line below the rounds.
pub(in crate::cli) fn rounds_text(found: Option<&LlmRounds>) -> String {
    let Some(found) = found else { return format!("\nNot run: {NOT_RUN}\n") };
    let recall: Vec<String> = found.recall.iter().map(|recall| format!("{recall:.2}")).collect();
    format!("\n{}: {}\n{}\n", found.strategy, recall.join(", "), found.llm)
}
