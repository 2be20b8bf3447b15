//! `aac evaluate plan`: what the search planner costs beside others, on simulated targets. Needs no corpus and no network.

use super::super::{Context, Exit, Failure};
use crate::plan::simulate::{Comparison, comparison};
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct PlanArgs {
    /// Seeds of the simulated targets; each takes some seconds
    #[arg(long, value_name = "N,N…", value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
}

pub(in crate::cli) async fn run(context: &Context, args: &PlanArgs) -> Result<Exit, Failure> {
    let seeds = args.seeds.clone();
    let found = tokio::task::spawn_blocking(move || comparison(&seeds))
        .await
        .map_err(|error| Failure::failed(format!("Failed to simulate the crawl: {error}")))?;
    context.output.print(&found, Comparison::to_string)?;
    Ok(Exit::Done)
}
