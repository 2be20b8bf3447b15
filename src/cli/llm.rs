//! The language model on the command line: which one, how it is asked, and what that may cost.

use super::{Context, Failure};
use crate::config;
use crate::job::llm::{Answering, LlmClassifier, LlmUse, LlmVariant};
use crate::job::model::{ModelPlaces, Variant};
use crate::llm::{Api, Asker, AskerOptions, Endpoint, Key, Limits, Policy, Prices};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The variable of the key where the configuration names no other.
const KEY: &str = "AAC_LLM_KEY";
/// Requests under way at once where nothing else is said.
const CONCURRENCY: usize = 4;

/// Which language model is asked, and how.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Language model (its key in AAC_LLM_KEY)")]
pub(super) struct LlmArgs {
    /// Address of its interface, such as https://api.openai.com/v1
    #[arg(long, value_name = "URL", env = "AAC_LLM_URL", hide_env_values = true)]
    llm_url: Option<String>,
    /// Its name
    #[arg(long, value_name = "NAME", env = "AAC_LLM_MODEL", hide_env_values = true)]
    llm_model: Option<String>,
    /// How it is spoken to: openai or anthropic [default: told by the address]
    #[arg(long, value_name = "API")]
    llm_api: Option<String>,
    /// Stop before more tokens are spent; what was answered is kept and the same command goes on
    #[arg(long, value_name = "N")]
    max_tokens_spent: Option<u64>,
    /// Stop before more money is spent, by the prices in [llm] of aac.toml
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    max_cost: Option<f64>,
    /// Requests under way at once [default: 4]
    #[arg(long, value_name = "N")]
    llm_concurrency: Option<usize>,
    /// Where answers are kept [default: aac/answers.jsonl in the user's cache folder]
    #[arg(long, value_name = "FILE")]
    llm_answers: Option<PathBuf>,
    /// What the agents do, for safety-margin, such as "clinical decision support" [default: software development]
    #[arg(long, value_name = "WORDS")]
    domain: Option<String>,
    /// Send texts as they are, with the secrets and addresses in them
    #[arg(long)]
    send_raw: bool,
}

fn amount(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x >= 0.0)
        .ok_or_else(|| "expected an amount of money".to_owned())
}

impl LlmArgs {
    /// Who asks the model that is named; nothing when none is.
    pub(super) fn asker(&self, context: &Context) -> Result<Option<Arc<Asker>>, Failure> {
        let file = &context.config.llm;
        let given = |flag: &Option<String>, file: &Option<String>| {
            flag.clone().or_else(|| file.clone()).filter(|text| !text.trim().is_empty())
        };
        let (Some(url), Some(model)) = (given(&self.llm_url, &file.url), given(&self.llm_model, &file.model)) else {
            return Ok(None);
        };
        let api =
            given(&self.llm_api, &file.api).map(|name| name.parse::<Api>()).transpose().map_err(Failure::usage)?;
        let key = Key::read(file.key_variable.as_deref().unwrap_or(KEY), |name| std::env::var(name).ok());
        let endpoint = key.and_then(|key| Endpoint::new(api, &url, &model, key)).map_err(Failure::usage)?;
        let default = Policy::default();
        let options = AskerOptions {
            concurrency: self.llm_concurrency.or(file.concurrency).unwrap_or(CONCURRENCY),
            limits: Limits {
                max_tokens: self.max_tokens_spent.or(file.max_tokens_spent),
                max_cost: self.max_cost.or(file.max_cost),
                prices: file.price_input.zip(file.price_output).map(|(input, output)| Prices { input, output }),
            },
            policy: Policy { timeout: file.timeout_seconds.map_or(default.timeout, Duration::from_secs), ..default },
            answers: Some(
                self.llm_answers
                    .clone()
                    .or_else(|| file.answers.clone())
                    .or_else(config::answers_file)
                    .unwrap_or_else(|| context.db.with_extension("answers.jsonl")),
            ),
            sleep: None,
        };
        Ok(Some(Arc::new(Asker::new(endpoint, options).map_err(Failure::usage)?)))
    }

    /// What is sent.
    pub(super) fn usage(&self, context: &Context) -> LlmUse {
        let domain = self.domain.clone().or_else(|| context.config.llm.domain.clone()).unwrap_or_default();
        LlmUse { domain, send_raw: self.send_raw }
    }

    /// Whoever answers as `variant`.
    pub(super) fn answering(
        &self,
        context: &Context,
        variant: Variant,
        places: &ModelPlaces,
    ) -> Result<Answering, Failure> {
        match variant {
            Variant::Llm(variant) => {
                let asker = self.asker(context)?.ok_or_else(|| Failure::usage(variant.without_model()))?;
                Ok(Answering::Asking(Arc::new(self.classifier(context, variant, asker, places)?)))
            }
            variant => Ok(variant.classifier(places).map_err(Failure::usage)?.into()),
        }
    }

    /// The variant as the model of `asker` plays it.
    pub(super) fn classifier(
        &self,
        context: &Context,
        variant: LlmVariant,
        asker: Arc<Asker>,
        places: &ModelPlaces,
    ) -> Result<LlmClassifier, Failure> {
        LlmClassifier::new(variant, asker, &self.usage(context), places).map_err(Failure::usage)
    }
}
