//! The whole way, as a list of steps: each brings one part of the corpus up to date and does nothing where it already
//! is, so that a build which was cut off goes on where it stopped.

use super::JudgeError;
use super::crawl::{self, CrawlError, CrawlOptions};
use super::export::{self, ExportError, ExportOptions};
use super::ingest::{self, IngestError, IngestOptions, IngestSummary};
use super::model::{FoundModel, ModelName};
use super::report::{self, ReportError};
use crate::github::{Credentials, Endpoints, GitHub, Options, Policy, Token};
use crate::monitor::Monitor;
use crate::plan::Targets;
use crate::sandbox::{self, Limits, SandboxError, SandboxOptions, Source};
use crate::store::{Counts, Store, StoreError};
use crate::taxonomy::Outcome;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much faster than GitHub's the sandbox's clock runs: a window of code searches lasts a third of a second, so that
/// the newcomer's build meets every limit and still ends soon.
const SANDBOX_PACE: f64 = 1.0 / 180.0;

/// Where the artifacts come from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A crawl of GitHub.
    GitHub {
        /// The client.
        github: GitHub,
        /// What to crawl.
        crawl: CrawlOptions,
    },
    /// A crawl of a generated corpus, served on this machine for as long as it takes.
    Sandbox {
        /// About how many artifacts it has.
        artifacts: u32,
        /// Its seed.
        seed: u64,
    },
    /// Git repositories and folders on this machine.
    Local(Vec<PathBuf>),
    /// What the corpus holds already: only the later steps.
    Kept,
}

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Where the artifacts come from.
    pub origin: Origin,
    /// What to export, and where to; the report lies beside the shards. Its model classifies the items.
    pub export: ExportOptions,
}

/// What one step did.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Name of the step: the subcommand that does it alone.
    pub name: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// The step's own summary.
    #[serde(flatten)]
    pub summary: Value,
}

/// What a build made.
#[derive(Debug, Clone, Serialize)]
pub struct BuildSummary {
    /// The steps, in order.
    pub steps: Vec<StepReport>,
    /// What the corpus holds now.
    #[serde(flatten)]
    pub counts: Counts,
    /// Shards, in order.
    pub shards: Vec<PathBuf>,
    /// The page with plots.
    pub report: Option<PathBuf>,
    /// The model that classified the items.
    pub model: ModelName,
    /// What the model scored on held-out real gold when it was fitted, as stored with it; not measured on this corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_stored_figures: Option<Value>,
    /// The artifacts are a sandbox's: nothing in this corpus is from GitHub.
    pub sandbox: bool,
    /// Some step left something out and said so.
    #[serde(skip)]
    pub partial: bool,
    /// A step was asked to stop; the same command goes on.
    #[serde(skip)]
    pub paused: bool,
}

/// Why a build ended early. What was done until then is stored.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The corpus could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The crawl failed.
    #[error(transparent)]
    Crawl(#[from] CrawlError),
    /// The sandbox could not be served.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// No client could be made.
    #[error(transparent)]
    GitHub(#[from] crate::github::Error),
    /// Taking in local repositories failed.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A judgement could not be made.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The export failed.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The report failed.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Run every step over `store`.
pub async fn build(
    store: &Store,
    targets: Arc<Targets>,
    options: &BuildOptions,
    monitor: &dyn Monitor,
) -> Result<BuildSummary, BuildError> {
    let mut build = Build {
        store,
        model: options.export.model.clone(),
        steps: Vec::new(),
        shards: Vec::new(),
        report: None,
        partial: false,
        paused: false,
    };
    match &options.origin {
        Origin::Local(paths) => build.ingest(targets, paths, monitor).await?,
        Origin::GitHub { github, crawl } => build.crawl(github, &targets, crawl, monitor).await?,
        Origin::Sandbox { artifacts, seed } => build.sandbox(&targets, *artifacts, *seed, monitor).await?,
        Origin::Kept => {}
    }
    build.judge(monitor).await?;
    if !build.paused {
        build.classify(monitor).await?;
    }
    if !build.paused {
        build.export(&options.export, monitor).await?;
    }
    if !build.paused {
        build.report_page(&options.export.out, monitor).await?;
    }
    build.finish().await
}

struct Build<'a> {
    store: &'a Store,
    model: FoundModel,
    steps: Vec<StepReport>,
    shards: Vec<PathBuf>,
    report: Option<PathBuf>,
    partial: bool,
    paused: bool,
}

impl Build<'_> {
    async fn sandbox(
        &mut self,
        targets: &Targets,
        artifacts: u32,
        seed: u64,
        monitor: &dyn Monitor,
    ) -> Result<(), BuildError> {
        let limits = Limits::default().scaled(SANDBOX_PACE);
        let options = SandboxOptions { limits, seed, ..SandboxOptions::new(Source::Synthetic(artifacts)) };
        let sandbox = sandbox::serve(options).await?;
        let github = sandbox_client(&sandbox.url(), &sandbox.graphql_url())?;
        let crawl = CrawlOptions { forks: true, ..CrawlOptions::default() };
        let crawled = self.crawl(&github, targets, &crawl, monitor).await;
        sandbox.shutdown().await?;
        crawled
    }

    async fn crawl(
        &mut self,
        github: &GitHub,
        targets: &Targets,
        options: &CrawlOptions,
        monitor: &dyn Monitor,
    ) -> Result<(), BuildError> {
        let begun = Instant::now();
        let summary = crawl::crawl(self.store, github, targets, options, monitor).await?;
        self.paused |= summary.outcome == Outcome::Paused;
        self.partial |= summary.outcome == Outcome::Partial;
        self.report("crawl", begun, &summary);
        Ok(())
    }

    async fn ingest(
        &mut self,
        targets: Arc<Targets>,
        paths: &[PathBuf],
        monitor: &dyn Monitor,
    ) -> Result<(), BuildError> {
        let begun = Instant::now();
        let options = IngestOptions::new(paths.to_vec());
        let summary: IngestSummary = ingest::ingest(self.store, targets, &options, monitor).await?;
        self.paused |= summary.paused;
        self.partial |= summary.failed();
        self.report("ingest", begun, &summary);
        Ok(())
    }

    /// In this order: tags rest on clusters and line frequencies.
    async fn judge(&mut self, monitor: &dyn Monitor) -> Result<(), BuildError> {
        if !self.paused {
            let begun = Instant::now();
            let summary = super::segment::segment(self.store, monitor).await?;
            self.paused |= summary.paused;
            self.report("segment", begun, &summary);
        }
        if !self.paused {
            let begun = Instant::now();
            let summary = super::dedup::dedup(self.store, monitor).await?;
            self.paused |= summary.paused;
            self.report("dedup", begun, &summary);
        }
        if !self.paused {
            let begun = Instant::now();
            let summary = super::tag::tag(self.store, monitor).await?;
            self.paused |= summary.paused;
            self.report("tag", begun, &summary);
        }
        Ok(())
    }

    async fn classify(&mut self, monitor: &dyn Monitor) -> Result<(), BuildError> {
        let begun = Instant::now();
        let summary = super::classify::classify(self.store, self.model.model.clone(), monitor).await?;
        self.paused |= summary.paused;
        self.report("classify", begun, &summary);
        Ok(())
    }

    async fn export(&mut self, options: &ExportOptions, monitor: &dyn Monitor) -> Result<(), BuildError> {
        let begun = Instant::now();
        match export::export(self.store, options, monitor).await {
            Ok(summary) => {
                self.shards.clone_from(&summary.shards);
                self.report("export", begun, &summary);
                Ok(())
            }
            Err(ExportError::Stopped) => {
                self.paused = true;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn report_page(&mut self, out: &Path, monitor: &dyn Monitor) -> Result<(), BuildError> {
        let begun = Instant::now();
        let summary = report::report(self.store, &self.model, &out.join(report::FILE), monitor).await?;
        self.report = Some(summary.report.clone());
        self.report("report", begun, &summary);
        Ok(())
    }

    fn report(&mut self, name: &'static str, begun: Instant, summary: &impl Serialize) {
        let summary = match serde_json::to_value(summary) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            // A summary that is no object still shows, under one key.
            Ok(other) => serde_json::json!({ "summary": other }),
            Err(error) => serde_json::json!({ "summary": error.to_string() }),
        };
        self.steps.push(StepReport { name, seconds: begun.elapsed().as_secs_f64(), summary });
    }

    async fn finish(self) -> Result<BuildSummary, BuildError> {
        Ok(BuildSummary {
            steps: self.steps,
            counts: self.store.counts().await?,
            shards: self.shards,
            report: self.report,
            model: ModelName::of(self.model.model.as_ref()),
            model_stored_figures: self.model.notes.get("nested_cross_validation").cloned(),
            sandbox: super::service::Origin::of(self.store).await? == super::service::Origin::Sandbox,
            partial: self.partial,
            paused: self.paused,
        })
    }
}

/// A client of the sandbox: the same one, with its waits at the sandbox's pace.
fn sandbox_client(rest: &str, graphql: &str) -> Result<GitHub, crate::github::Error> {
    let endpoints = Endpoints::new(rest, Some(graphql))?;
    let mut options = Options::new(endpoints, Credentials::Token(Token::new("sandbox")));
    let pace = |time: Duration| time.mul_f64(SANDBOX_PACE);
    for allowance in [&mut options.limits.code_search, &mut options.limits.core, &mut options.limits.graphql] {
        allowance.window = pace(allowance.window);
    }
    options.limits.rest_per_minute = None;
    options.limits.graphql_per_minute = None;
    let usual = Policy::default();
    options.policy = Policy {
        secondary_wait: pace(usual.secondary_wait),
        secondary_wait_max: pace(usual.secondary_wait_max),
        transient_wait: pace(usual.transient_wait),
        transient_wait_max: pace(usual.transient_wait_max),
        ..usual
    };
    GitHub::new(options)
}
