//! What a refresh did, in figures.

use super::batches::Fills;
use super::{Refresh, lock};
use crate::job::crawl::{CrawlError, Failed, Limited, Requests, Windows, families, search};
use crate::plan::price;
use crate::taxonomy::Outcome;
use jiff::Timestamp;
use serde::Serialize;

/// Repositories by what became of them, over all invocations of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RepositoryCounts {
    /// Looked at.
    pub checked: i64,
    /// Not known before, with artifacts.
    pub added: i64,
    /// Under another name than before; their history went with them.
    pub renamed: i64,
    /// Looked at and archived.
    pub archived: i64,
    /// Missed for the first time.
    pub missed: i64,
    /// Deleted or made private: two runs agree.
    pub gone: i64,
    /// Without commits: two runs agree.
    pub empty: i64,
    /// Blocked by GitHub: two runs agree.
    pub blocked: i64,
    /// Closed to this identity: two runs agree.
    pub private: i64,
}

/// What is left for the next invocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CarriedOver {
    /// Known repositories that were not looked at.
    pub repositories: u64,
    /// Search windows that are not settled; of walks that have not begun, one each.
    pub searches: u64,
}

/// What a refresh did, as `--json` prints it. Counts of artifacts and repositories, `requests_in_all` and `ratio` are over
/// all invocations of the run, the others of this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RefreshSummary {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it is paused.
    pub paused: Option<String>,
    /// When to go on, if a limit names a time.
    pub resume_at: Option<Timestamp>,
    /// Artifacts that were not known.
    pub added: i64,
    /// Artifacts with other content than before.
    pub changed: i64,
    /// Artifacts found as they were.
    pub unchanged: i64,
    /// Artifacts that two runs missed.
    pub gone: i64,
    /// Artifacts missed for the first time; they stay until a second run agrees.
    pub missed: i64,
    /// Repositories.
    pub repositories: RepositoryCounts,
    /// Requests of this invocation, refused ones included.
    pub requests: Requests,
    /// Requests of all invocations of the run.
    pub requests_in_all: Requests,
    /// Requests to reckon with for a crawl of the corpus as it is now.
    pub crawl_requests: Requests,
    /// `requests_in_all` ÷ `crawl_requests`, each summed up.
    pub ratio: f64,
    /// REST answers that had not changed and cost no quota.
    pub not_modified: u64,
    /// How full the GraphQL queries were.
    pub batches: Fills,
    /// Search windows.
    pub windows: Windows,
    /// Hits that no query delivers.
    pub unreachable: u64,
    /// What is left.
    pub carried_over: CarriedOver,
    /// Refusals.
    pub limited: Limited,
    /// Time during which at least one request waited for a limit or a retry.
    pub waited_seconds: f64,
    /// What failed; the rest is stored.
    pub failed: Vec<Failed>,
    /// Artifacts in the corpus.
    pub artifacts: i64,
    /// When this invocation ended.
    pub ended_at: Timestamp,
}

impl RefreshSummary {
    /// One line, fit for the subject of a mail.
    pub fn line(&self) -> String {
        let word = match self.outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Partial => format!("{} failed", self.failed.len()),
            Outcome::Paused => format!(
                "paused, {} repositories and {} searches left",
                self.carried_over.repositories, self.carried_over.searches
            ),
            Outcome::Failed => "failed".to_owned(),
        };
        let all = &self.requests_in_all;
        format!(
            "aac refresh {word}: {} added, {} changed, {} unchanged, {} missed, {} gone; {} requests ({:.2} of a crawl)",
            self.added,
            self.changed,
            self.unchanged,
            self.missed,
            self.gone,
            all.code_search + all.graphql + all.core,
            self.ratio,
        )
    }
}

impl Refresh<'_> {
    pub(super) async fn summary(
        &self,
        walked: Option<search::Walked>,
        outcome: Outcome,
        paused: Option<String>,
        resume_at: Option<Timestamp>,
    ) -> Result<RefreshSummary, CrawlError> {
        let context = &self.context;
        let (store, traffic) = (context.store, context.github.traffic());
        let counts = store.refresh_counts(context.run).await?;
        let failed = lock(&context.failed).clone();
        let outcome = match outcome {
            Outcome::Done if !failed.is_empty() => Outcome::Partial,
            outcome => outcome,
        };
        let [code_search, graphql, core] = *lock(&self.sums);
        let in_all = Requests { code_search, graphql, core };
        let crawl_requests = self.crawl_requests().await?;
        let sum = |requests: &Requests| requests.code_search + requests.graphql + requests.core;
        let walks = (context.targets.selected().count() * families(context.options).len()) as u64;
        let windows = walked.map(|walked| walked.windows).unwrap_or_default();
        let fills = *lock(&self.fills);
        let not_modified = *lock(&self.not_modified);
        Ok(RefreshSummary {
            outcome,
            paused,
            resume_at,
            added: counts.added,
            changed: counts.changed,
            unchanged: counts.unchanged,
            gone: counts.gone,
            missed: counts.missed,
            repositories: RepositoryCounts {
                checked: counts.repos_checked,
                added: counts.repos_added,
                renamed: counts.repos_renamed,
                archived: counts.repos_archived,
                missed: counts.repos_missed,
                gone: counts.repos_gone,
                empty: counts.repos_empty,
                blocked: counts.repos_blocked,
                private: counts.repos_private,
            },
            requests: Requests { code_search: traffic.code_search, graphql: traffic.graphql, core: traffic.core },
            requests_in_all: in_all,
            crawl_requests,
            ratio: sum(&in_all) as f64 / sum(&crawl_requests).max(1) as f64,
            not_modified,
            batches: fills,
            windows,
            unreachable: store.unreachable(context.run).await?.iter().map(|(.., count)| count).sum(),
            carried_over: CarriedOver {
                repositories: store.count_refresh_pending(context.run, &self.platforms).await?,
                searches: if walked.is_some() { windows.open } else { walks },
            },
            limited: Limited { primary: traffic.limited_primary, secondary: traffic.limited_secondary },
            waited_seconds: traffic.waited_seconds,
            failed,
            artifacts: store.counts().await?.artifacts,
            ended_at: Timestamp::now(),
        })
    }

    /// What a crawl of the corpus as it is now would take: searches at the overhead of the planner, contents and
    /// histories in full batches.
    async fn crawl_requests(&self) -> Result<Requests, CrawlError> {
        let context = &self.context;
        let mut expected = Vec::new();
        for target in context.targets.selected() {
            for fork in families(context.options) {
                let sizes = context.store.sizes_of(&target.id, *fork).await?;
                expected.push(price::Expectation::Sizes(sizes.into_iter().collect()));
            }
        }
        let searches = price::code_search(&expected, 0.0, None).requests;
        let counts = context.store.counts().await?;
        let queries = |things: i64, each: usize| (things.max(0) as u64).div_ceil(each.max(1) as u64);
        let options = context.options;
        let histories = if options.histories { queries(counts.artifacts, options.history_batch) } else { 0 };
        Ok(Requests { code_search: searches, graphql: queries(counts.repos, options.batch) + histories, core: 0 })
    }
}
