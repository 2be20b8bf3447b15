//! Walks the search windows that the planner chooses, and stores every page with its hits before the next is asked.

use super::known::Known;
use super::progress::Progress;
use super::{Context, Halt, Windows, families, now};
use crate::github::{self, FoundFile, SearchPage, search_code};
use crate::plan::targets::Target;
use crate::plan::{
    Histogram, Observation, Places, Planner, Refinement, Refusal, Request, Setup, Window, WindowReport, axes_for,
};
use crate::store::{HitRow, PageRow, RepoFacts, RepoRow, StoreError, WindowKey, WindowRow};
use crate::taxonomy::{ForkFamily, RepoSource, WindowState};
use futures_util::StreamExt as _;
use std::collections::{HashMap, HashSet};

/// What all walks came to.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::job) struct Walked {
    pub(in crate::job) lower_bound: u64,
    pub(in crate::job) answered: u64,
    pub(in crate::job) windows: Windows,
}

impl Walked {
    fn add(&mut self, planner: &Planner) {
        let summary = planner.summary();
        self.lower_bound += summary.lower_bound;
        self.answered += summary.requests;
        self.windows.complete += summary.complete;
        self.windows.short += summary.short;
        self.windows.overflow += summary.overflow;
        self.windows.open += summary.open;
    }
}

/// Walk every selected target in every fork family. Gives what was walked even when it halts.
pub(in crate::job) async fn walk_all(context: &Context<'_>) -> (Walked, Option<Halt>) {
    let walks: Vec<(&Target, ForkFamily)> = context
        .targets
        .selected()
        .flat_map(|target| families(context.options).iter().map(move |fork| (target, *fork)))
        .collect();
    context.monitor.begin("search", Some(walks.len() as u64));
    let progress = Progress::new(walks.len() as u64);
    let mut walked = Walked::default();
    let mut halted = None;
    let lanes = context.options.search_lanes.max(1);
    let mut ends = futures_util::stream::iter(walks)
        .map(|(target, fork)| walk(context, &progress, target, fork))
        .buffer_unordered(lanes);
    while let Some(end) = ends.next().await {
        match end {
            Ok((planner, halt)) => {
                walked.add(&planner);
                context.monitor.advance(1);
                // A walk that has to stop is followed by the others, which stop as well before their next request; what
                // they have is counted.
                halted = Halt::worse(halted, halt);
            }
            Err(error) => halted = Halt::worse(halted, Some(Halt::Failed(error))),
        }
        if matches!(halted, Some(Halt::Failed(_))) {
            context.stop();
        }
    }
    drop(ends);
    context.monitor.end();
    (walked, halted)
}

async fn walk(
    context: &Context<'_>,
    progress: &Progress,
    target: &Target,
    fork: ForkFamily,
) -> Result<(Planner, Option<Halt>), super::CrawlError> {
    let stored = context.store.pages(context.run, &target.id, fork).await?;
    let warm: Histogram = context.store.size_histogram_before(&target.id, context.run).await?.into_iter().collect();
    let known = warm.total();
    let setup =
        Setup { target: target.id.clone(), fork, axes: axes_for(&target.search), warm: (known > 0).then_some(warm) };
    let observations: Vec<Observation> = stored.iter().map(observation).collect();
    let splits = observations.iter().any(|seen| !seen.request.window.refine.is_empty());
    let places = if splits { Some(places(context, target, fork).await?) } else { None };
    let planner = Planner::resume(setup, &observations, places)?;
    progress.resume(&planner, &target.id, fork, known);
    let expression = target.search.clone();
    let known = if context.skips_known { Some(Known::load(context, target, fork).await?) } else { None };
    let mut walk = Walk { context, progress, target, fork, planner, expression, unlisted: HashMap::new(), known };
    walk.take_up().await?;
    let end = walk.go().await;
    Ok((walk.planner, end.err()))
}

/// In which directories the files of a target lie, as far as windows without refinements delivered them.
async fn places(context: &Context<'_>, target: &Target, fork: ForkFamily) -> Result<Places, StoreError> {
    Ok(context.store.places(context.run, &target.id, fork).await?.into_iter().collect())
}

struct Walk<'a> {
    context: &'a Context<'a>,
    progress: &'a Progress,
    target: &'a Target,
    fork: ForkFamily,
    planner: Planner,
    /// The search expression in use: the target's own, after GitHub rejected that with the fallback term in front.
    expression: String,
    /// Hits that are counted but not stored (opted out, unreadable), by window.
    unlisted: HashMap<Window, HashSet<String>>,
    /// What need not be seen again.
    known: Option<Known>,
}

impl Walk<'_> {
    /// Leave again what an earlier invocation left.
    async fn take_up(&mut self) -> Result<(), super::CrawlError> {
        let Some(known) = &mut self.known else { return Ok(()) };
        let walking: Vec<WindowReport> =
            self.planner.windows().filter(|report| report.state == WindowState::Walking).collect();
        for report in walking {
            let hits = self.context.store.window_hits(self.context.run, &key(&report.window)).await?;
            known.saw(&report.window, hits);
            if known.is_all(&report) {
                self.planner.close(&report.window);
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Request>, Halt> {
        if self.planner.wants_places() {
            let reports = self.planner.place(places(self.context, self.target, self.fork).await?);
            self.put(&reports, None).await?;
        }
        Ok(self.planner.next_request())
    }

    async fn go(&mut self) -> Result<(), Halt> {
        // What the pages settle may not have been stored with the last of them.
        let settled = |report: &WindowReport| !matches!(report.state, WindowState::Open | WindowState::Walking);
        self.put(&self.planner.windows().filter(settled).collect::<Vec<_>>(), None).await?;
        while let Some(request) = self.next().await? {
            let query = request.window.query(&self.expression);
            let asked = search_code(self.context.github, &query, u32::from(request.page));
            let answer = match self.context.unless_stopped(asked).await {
                Ok(answer) => answer,
                Err(halt) => {
                    self.planner.release(&request);
                    return Err(halt);
                }
            };
            match answer {
                Ok(page) => self.take(&request, page).await?,
                Err(error) if error.stops_the_job() => {
                    self.planner.release(&request);
                    return Err(error.into());
                }
                Err(error) => self.refused(&request, error).await?,
            }
            self.context.save_ledger().await?;
        }
        Ok(())
    }

    async fn take(&mut self, request: &Request, page: SearchPage) -> Result<(), Halt> {
        let items = (page.files.len() + page.unreadable.len()) as u64;
        if let Some(known) = &mut self.known {
            let hits = page.files.iter().filter_map(|file| Some((file.node_id.clone()?, file.path.clone())));
            known.saw(&request.window, hits);
        }
        let unlisted = self.unlisted.entry(request.window.clone()).or_default();
        let mut hits = Vec::with_capacity(page.files.len());
        for file in page.files {
            if self.context.opted_out(&file.repository) {
                unlisted.insert(format!("{}/{}", file.repository.key(), file.path));
            } else {
                hits.push(hit(file, self.fork));
            }
        }
        let unreadable = page.unreadable;
        unlisted.extend(unreadable.iter().cloned());
        let beside = unlisted.len() as u64;
        let row = PageRow {
            window: key(&request.window),
            walk: request.walk,
            page: request.page,
            total: page.total,
            items,
            incomplete: page.incomplete,
            keys: beside,
            span_keys: beside,
        };
        let refine = &request.window.refine;
        let meets = |path: &str| !refine.is_empty() && refine.iter().all(|part| part.is_met_by(path) == Some(true));
        let stored = self.context.store.put_page(self.context.run, &row, &hits, meets, now()).await?;
        self.context.feed.push(&stored.repos);
        let seen = Observation {
            request: request.clone(),
            total: page.total,
            items,
            incomplete: page.incomplete,
            distinct: stored.keys,
            span_distinct: stored.span_keys,
        };
        for why in unreadable {
            self.context.fail("search", self.target.id.clone(), why).await?;
        }
        let mut reports = self.planner.observe(&seen)?;
        self.put(&reports, None).await?;
        let left = |report: &&WindowReport| self.known.as_ref().is_some_and(|known| known.is_all(report));
        let windows: Vec<Window> = reports.iter().filter(left).map(|report| report.window.clone()).collect();
        for window in windows {
            let closed = self.planner.close(&window);
            self.put(&closed, None).await?;
            reports.extend(closed);
        }
        self.progress.note(&self.planner, &self.target.id, self.fork, &reports);
        self.context.monitor.state(&self.progress.line(self.context));
        Ok(())
    }

    async fn refused(&mut self, request: &Request, error: github::Error) -> Result<(), Halt> {
        let what = format!("{} ({}): {}", self.target.id, self.fork, request.window.query(&self.expression));
        match &error {
            github::Error::Rejected { .. } => {
                if let Some(term) = &self.target.fallback
                    && self.expression == self.target.search
                {
                    self.expression = format!("{term} {}", self.target.search);
                    self.context.monitor.warn(&format!(
                        "{error}; asking for {:?} instead, which misses files without that word",
                        self.expression
                    ));
                    self.planner.release(request);
                    return Ok(());
                }
                self.context.fail("search", what, error.to_string()).await?;
                let reports = self.planner.refuse(request, Refusal::Rejected)?;
                self.put(&reports, Some(error.to_string())).await
            }
            // GitHub ran out of time on the query (408, 5xx) as often as it was asked: ask for less.
            github::Error::Exhausted { status: Some(_), .. } if request.window.hi != Some(request.window.lo) => {
                let reports = self.planner.refuse(request, Refusal::TooDense)?;
                self.put(&reports, Some(error.to_string())).await
            }
            github::Error::Exhausted { .. } | github::Error::Absent { .. } | github::Error::Malformed { .. } => {
                self.context.fail("search", what, error.to_string()).await?;
                let reports = self.planner.refuse(request, Refusal::Rejected)?;
                self.put(&reports, Some(error.to_string())).await
            }
            _ => Err(error.into()),
        }
    }

    async fn put(&self, reports: &[WindowReport], why: Option<String>) -> Result<(), Halt> {
        let rows: Vec<WindowRow> = reports
            .iter()
            .map(|report| WindowRow {
                key: key(&report.window),
                state: report.state,
                total: report.total,
                delivered: report.distinct,
                unreachable: report.unreachable,
                why: why.clone().filter(|_| report.rejected),
            })
            .collect();
        Ok(self.context.store.put_windows(self.context.run, &rows).await?)
    }
}

fn hit(file: FoundFile, fork: ForkFamily) -> HitRow {
    let facts = RepoFacts { is_fork: file.fork.or(Some(fork == ForkFamily::Only)), ..RepoFacts::default() };
    HitRow {
        repo: RepoRow {
            node_id: file.node_id,
            slug: file.repository,
            source: RepoSource::GitHub,
            facts,
            facts_at: None,
        },
        path: file.path,
        blob: file.blob,
        commit: file.commit,
    }
}

fn key(window: &Window) -> WindowKey {
    let axis: Vec<String> = window.refine.iter().map(Refinement::to_string).collect();
    WindowKey { target: window.target.clone(), fork: window.fork, lo: window.lo, hi: window.hi, axis: axis.join("\n") }
}

fn observation(row: &PageRow) -> Observation {
    let WindowKey { target, fork, lo, hi, axis } = row.window.clone();
    let window = Window { target, fork, lo, hi, refine: axis.lines().filter_map(|text| text.parse().ok()).collect() };
    Observation {
        request: Request { window, page: row.page, walk: row.walk },
        total: row.total,
        items: row.items,
        incomplete: row.incomplete,
        distinct: row.keys,
        span_distinct: row.span_keys,
    }
}
