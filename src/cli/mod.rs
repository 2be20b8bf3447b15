//! The front door: one file a subcommand, each a thin call into the library.

mod build;
mod check;
mod classify;
mod compact;
mod completions;
mod crawl;
mod decompose;
mod dedup;
mod evaluate;
mod exit;
mod export;
mod gold;
mod ingest;
mod knowledge;
mod lint;
mod llm;
mod optout;
mod output;
mod refresh;
mod report;
mod retrieve;
mod sandbox;
mod segment;
mod status;
mod tag;
mod train;
mod triage;
mod tune;

pub use exit::{Exit, Failure};

use crate::config::{self, Config, DEFAULT_DB};
use crate::job::SERVICE;
use crate::job::model::ModelPlaces;
use crate::job::refresh::CorpusLock;
use crate::plan::{Selection, Targets};
use crate::store::Store;
use crate::terminal::{Show, Terminal, say};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use output::Output;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const FIRST_STEPS: &str = "\
First steps:
  aac build --sandbox        the whole way on a generated corpus, in about two minutes
  aac build --from DIR       the whole way on git repositories you have
  aac crawl --dry-run        what collecting from GitHub would cost
  aac status                 what a corpus holds and what to run next";

/// Rebuild, refresh and refit the AgentArtifactCorpus.
#[derive(Debug, Parser)]
#[command(name = "aac", version, arg_required_else_help = true, after_help = FIRST_STEPS, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Every command")]
struct Global {
    /// The corpus [default: corpus.db]
    #[arg(long, global = true, value_name = "PATH", env = "AAC_DB", hide_env_values = true)]
    db: Option<PathBuf>,
    /// Configuration file [default: aac.toml, if present]
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    json: bool,
    /// Tell more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Tell nothing but warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Form of the log on standard error
    #[arg(long, global = true, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole way: collect, judge, export; goes on where it stopped
    Build(build::BuildArgs),
    /// Find artifacts on GitHub and read them: search windows, then contents, then who wrote them
    Crawl(crawl::CrawlArgs),
    /// Bring a crawled corpus up to date: what is new, changed and gone, for a fraction of the requests
    Refresh(refresh::RefreshArgs),
    /// What the corpus holds, how complete it is, and what to run next
    Status(status::StatusArgs),
    /// Take in git repositories and plain folders on this machine
    Ingest(ingest::IngestArgs),
    /// Write what may be shared: Parquet shards, card, manifest, attribution and the classifier
    Export(export::ExportArgs),
    /// Shrink a file to a budget without losing a constraint, or refuse
    Compact(compact::CompactArgs),
    /// Split a file into partitions that each hold every constraint that binds in them
    Decompose(decompose::DecomposeArgs),
    /// Find items of files: constraints in scope first, then what the query is about
    Retrieve(retrieve::RetrieveArgs),
    /// Compact a file; where that would lose a constraint, split it and load the part that is needed
    Triage(triage::TriageArgs),
    /// Which constraints of a text survive in what a compactor made of it
    Check(check::CheckArgs),
    /// Rules that a summariser will lose, duplicates, contradictions and dead pointers of agent files
    Lint(lint::LintArgs),
    /// Write one HTML page with plots of what the corpus holds
    Report(report::ReportArgs),
    /// A GitHub API on this machine, to try and test against
    Sandbox(sandbox::SandboxArgs),
    /// Find the items of texts, and what in them must not be passed on
    Segment(segment::SegmentArgs),
    /// Find which texts say the same thing, under how many owners
    Dedup(dedup::DedupArgs),
    /// Say what each artifact is, and under which licence its repository stands
    Tag(tag::TagArgs),
    /// Remove an owner or a repository and never collect it again
    #[command(name = "optout")]
    OptOut(optout::OptOutArgs),
    /// Say what the items of a file or of the whole corpus are: constraint, procedural, belief …
    Classify(classify::ClassifyArgs),
    /// Fit the classifier to labels of your own
    Train(train::TrainArgs),
    /// The gold set: draw, label, adjudicate, agreement, other tools
    Gold(gold::GoldArgs),
    /// Measure judgements against labels
    Evaluate(evaluate::EvaluateArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write one for each subcommand
    Man(completions::ManArgs),
}

/// What every command is handed.
struct Context {
    config: Config,
    db: PathBuf,
    terminal: Terminal,
    output: Output,
    quiet: bool,
}

impl Context {
    /// The targets of the platforms named on the command line, else in the configuration, else the default ones.
    fn targets(&self, platforms: &[String]) -> Result<Targets, Failure> {
        let mut targets = Targets::embedded()?;
        let named = if platforms.is_empty() { &self.config.platforms } else { platforms };
        let selection = Selection::parse(named, &targets).map_err(Failure::usage)?;
        targets.select(&selection);
        Ok(targets)
    }

    /// Where an export goes: as asked for, else as configured, else `exports/corpus`.
    fn out(&self, asked: Option<&PathBuf>) -> PathBuf {
        asked.or(self.config.export.out.as_ref()).cloned().unwrap_or_else(|| PathBuf::from("exports/corpus"))
    }

    /// [`Self::out`] of a command that writes into a folder only.
    fn out_folder(&self, asked: Option<&PathBuf>) -> Result<PathBuf, Failure> {
        let out = self.out(asked);
        match export::address(&out) {
            None => Ok(out),
            Some(address) => Err(Failure::usage(format!(
                "{address} is no folder: name one with --out; only `aac export` writes into a bucket"
            ))),
        }
    }

    /// Keep a corpus to one service: generated artifacts must never mix with real ones, nor those of two hosts.
    async fn claim(&self, store: &Store, service: &str) -> Result<(), Failure> {
        store.refuse_copy("collect")?;
        match store.setting(SERVICE).await? {
            Some(held) if held == service => Ok(()),
            Some(held) => Err(Failure::usage(format!(
                "{} holds artifacts of {held}: name another corpus with --db for those of {service}",
                self.db.display()
            ))),
            None => Ok(store.set_setting(SERVICE, service).await?),
        }
    }

    /// What names the corpus in a command to run next: nothing for the default one.
    fn db_flag(&self) -> String {
        if self.db == Path::new(config::DEFAULT_DB) { String::new() } else { format!(" --db {}", self.db.display()) }
    }

    /// One line for people beside the output, unless they asked for quiet.
    fn tell(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }

    /// Where a model may be, the one of `--model` first, and the sentence encoder of `AAC_ENCODER`.
    fn model_places(&self, named: Option<&PathBuf>) -> Result<ModelPlaces, Failure> {
        let environment = std::env::var_os("AAC_MODEL").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let encoder = match std::env::var("AAC_ENCODER") {
            Ok(name) if !name.is_empty() => Some(name.parse().map_err(Failure::usage)?),
            _ => None,
        };
        Ok(ModelPlaces { named: named.cloned(), environment, data_folder: config::model_folder(), encoder })
    }

    /// The right to collect into the corpus. Taken before it is opened, kept until the command ends.
    fn lock(&self, command: &str) -> Result<CorpusLock, Failure> {
        let lock = CorpusLock::take(&self.db, command)?;
        if let Some(owner) = &lock.left_by {
            self.tell(&format!("{owner} ended without a word; going on from what it stored"));
        }
        Ok(lock)
    }

    /// The corpus, which must be there.
    async fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.db).await?)
    }
}

/// Run the command line `args` (with the program's name first) and return the code to exit with.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match Cli::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            // A closed pipe is no reason to fail a request for help.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return Exit::Usage.into();
        }
    };
    match execute(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let paused = failure.exit == Exit::Paused;
            say(&format!("{}{}", if paused { "" } else { "error: " }, failure.message));
            failure.exit.into()
        }
    }
}

fn execute(cli: Cli) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    start_log(&global);
    let config = Config::load(global.config.as_deref()).map_err(Failure::usage)?;
    let db = global.db.clone().or_else(|| config.db.clone()).unwrap_or_else(|| PathBuf::from(DEFAULT_DB));
    let context = Context {
        db,
        config,
        terminal: Terminal::new(Show::fitting(global.quiet)),
        output: Output { json: global.json },
        quiet: global.quiet,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        context.terminal.watch_signals(|| std::process::exit(Exit::Paused as i32))?;
        match command {
            Command::Build(args) => build::run(&context, args).await,
            Command::Crawl(args) => crawl::run(&context, &args).await,
            Command::Refresh(args) => refresh::run(&context, &args).await,
            Command::Compact(args) => compact::run(&context, &args).await,
            Command::Decompose(args) => decompose::run(&context, &args).await,
            Command::Retrieve(args) => retrieve::run(&context, &args).await,
            Command::Triage(args) => triage::run(&context, &args).await,
            Command::Check(args) => check::run(&context, &args).await,
            Command::Lint(args) => lint::run(&context, &args).await,
            Command::Status(args) => status::run(&context, &args).await,
            Command::Ingest(args) => ingest::run(&context, &args).await,
            Command::Export(args) => export::run(&context, &args).await,
            Command::Report(args) => report::run(&context, &args).await,
            Command::Sandbox(args) => sandbox::run(&context, &args).await,
            Command::Segment(args) => segment::run(&context, &args).await,
            Command::Dedup(args) => dedup::run(&context, &args).await,
            Command::Tag(args) => tag::run(&context, &args).await,
            Command::OptOut(args) => optout::run(&context, &args).await,
            Command::Classify(args) => classify::run(&context, &args).await,
            Command::Train(args) => train::run(&context, args).await,
            Command::Gold(args) => gold::run(&context, args).await,
            Command::Evaluate(args) => evaluate::run(&context, &args).await,
            Command::Completions(args) => completions::completions(&context, &args),
            Command::Man(args) => completions::man(&context, &args),
        }
    })
}

fn start_log(global: &Global) {
    use tracing_subscriber::EnvFilter;
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (_, 0) => "warn",
        (_, 1) => "aac=info,warn",
        _ => "aac=debug,info",
    };
    let filter = EnvFilter::try_from_env("AAC_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only when a log is set up already, as in a test that runs the front door twice.
    let _ = match global.log_format {
        LogFormat::Text => log.with_ansi(std::env::var_os("NO_COLOR").is_none()).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// One style for all help: every flag and command has a text that ends without a full stop.
    #[test]
    fn help_texts_are_of_one_style() {
        fn walk(command: &clap::Command) {
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{} {} has no help", command.get_name(), arg.get_id());
                assert!(!help.ends_with('.'), "{} {}: {help}", command.get_name(), arg.get_id());
            }
            for sub in command.get_subcommands() {
                assert!(sub.get_about().is_some(), "{} has no help", sub.get_name());
                walk(sub);
            }
        }
        walk(&Cli::command());
    }
}
