//! `aac sandbox serve`.

use super::{Context, Exit, Failure};
use crate::sandbox::{self, Faults, Limits, SandboxOptions, Source};
use crate::terminal::say;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct SandboxArgs {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    /// Serve a GitHub API on this machine until interrupted
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Serve the git repositories of a folder, named `owner+name.git`
    #[arg(long, value_name = "DIR", conflicts_with = "synthetic")]
    repos: Option<PathBuf>,
    /// Serve a generated corpus of about so many artifacts
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    synthetic: u32,
    /// Seed of the generated corpus, the order of results and the faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// TOML file of rate limits [default: GitHub's]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// TOML file of faults [default: none]
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &SandboxArgs) -> Result<Exit, Failure> {
    let SandboxCommand::Serve(args) = &args.command;
    let source = args.repos.clone().map_or(Source::Synthetic(args.synthetic), Source::Repositories);
    let mut options = SandboxOptions::new(source);
    options.seed = args.seed;
    options.port = args.port;
    if let Some(file) = &args.limits {
        options.limits = Limits::from_file(file).map_err(Failure::usage)?;
    }
    if let Some(file) = &args.faults {
        options.faults = Faults::from_file(file).map_err(Failure::usage)?;
    }
    let running = sandbox::serve(options).await?;
    let served = json!({ "api_url": running.url(), "graphql_url": running.graphql_url() });
    context.output.print(&served, |_| {
        format!(
            "export GITHUB_API_URL={}\nexport GITHUB_GRAPHQL_URL={}\nexport GITHUB_TOKEN=sandbox\n",
            running.url(),
            running.graphql_url()
        )
    })?;
    say("Serving until interrupted; the lines above point `aac crawl` here");
    context.terminal.interruption().await;
    let stats = running.shutdown().await?;
    say(&serde_json::to_string(&stats)?);
    Ok(Exit::Done)
}
