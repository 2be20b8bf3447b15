//! `aac completions` and `aac man`: what a packager installs beside the binary.

use super::{Cli, Context, Exit, Failure};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to complete in
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write a page for each subcommand here [default: the page of `aac` on standard output]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Print a completion script.
pub(super) fn completions(context: &Context, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "aac", &mut script);
    context.output.raw(&script)?;
    Ok(Exit::Done)
}

/// Print or write the manual.
pub(super) fn man(context: &Context, args: &ManArgs) -> Result<Exit, Failure> {
    if let Some(dir) = &args.out {
        let failed = |error| Failure::failed(format!("Cannot write the manual to {}: {error}", dir.display()));
        std::fs::create_dir_all(dir).map_err(failed)?;
        clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    context.output.raw(&page)?;
    Ok(Exit::Done)
}
