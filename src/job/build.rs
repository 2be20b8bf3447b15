//! The whole way, as a list of steps: each brings one part of the corpus up to date and does nothing where it already
//! is, so that a build which was cut off goes on where it stopped.

use super::export::{self, ExportError};
use super::ingest::{self, IngestError, IngestOptions, IngestSummary};
use crate::monitor::Monitor;
use crate::plan::Targets;
use crate::store::{Counts, Store, StoreError};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Where the artifacts come from.
#[derive(Debug, Clone)]
pub enum Origin {
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
    /// Folder for shards and report.
    pub out: PathBuf,
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
    /// Taking in local repositories failed.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The export failed.
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// Run every step over `store`.
pub async fn build(
    store: &Store,
    targets: Arc<Targets>,
    options: &BuildOptions,
    monitor: &dyn Monitor,
) -> Result<BuildSummary, BuildError> {
    let mut build = Build { store, steps: Vec::new(), shards: Vec::new(), partial: false, paused: false };
    if let Origin::Local(paths) = &options.origin {
        build.ingest(targets, paths, monitor).await?;
    }
    if !build.paused {
        build.export(&options.out, monitor).await?;
    }
    build.finish().await
}

struct Build<'a> {
    store: &'a Store,
    steps: Vec<StepReport>,
    shards: Vec<PathBuf>,
    partial: bool,
    paused: bool,
}

impl Build<'_> {
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
        self.report("ingest", begun, &summary);
        Ok(())
    }

    async fn export(&mut self, out: &Path, monitor: &dyn Monitor) -> Result<(), BuildError> {
        let begun = Instant::now();
        match export::export(self.store, out, monitor).await {
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
            partial: self.partial,
            paused: self.paused,
        })
    }
}
