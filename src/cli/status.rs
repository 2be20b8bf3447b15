//! `aac status`.

use super::output::{count, table};
use super::{Context, Exit, Failure};
use crate::github::LedgerRow;
use crate::job::model::find_model;
use crate::job::refresh::LockOwner;
use crate::job::stale::{Stale, stale};
use crate::store::{ChurnRow, Completeness, Counts, PlatformCount, RunRow};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs of which growth and churn are shown.
const RUNS: usize = 8;

#[derive(Debug, Args)]
pub(super) struct StatusArgs {}

#[derive(Debug, Serialize)]
struct Status {
    db: String,
    #[serde(flatten)]
    counts: Counts,
    bytes_on_disk: u64,
    platforms: Vec<PlatformCount>,
    completeness: Vec<Completeness>,
    budget: Vec<Budget>,
    last_run: Option<LastRun>,
    /// The last runs that collected, newest first.
    churn: Vec<ChurnRow>,
    /// What is not judged by today's rules.
    stale: Stale,
    /// The command that collects into the corpus now.
    running: Option<LockOwner>,
    next: Vec<String>,
}

/// What is left of a request limit, by the last word of the server.
#[derive(Debug, Serialize)]
struct Budget {
    resource: String,
    limit: u32,
    left: u32,
    resets_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct LastRun {
    command: String,
    started_at: String,
    outcome: String,
}

pub(super) async fn run(context: &Context, _args: &StatusArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let counts = store.counts().await?;
    let runs = store.runs().await?;
    // A model that cannot be read is `classify`'s to refuse; what the corpus holds can be told without it.
    let model = match context.model_places(None).map(|places| find_model(&places)) {
        Ok(Ok(found)) => Some(found.model.id()),
        Ok(Err(error)) => {
            context.tell(&format!("warning: {error}"));
            None
        }
        Err(failure) => return Err(failure),
    };
    let stale = stale(&store, model.as_deref()).await?;
    let running = LockOwner::of(&context.db);
    let status = Status {
        db: context.db.display().to_string(),
        bytes_on_disk: std::fs::metadata(&context.db).map(|m| m.len()).unwrap_or(0),
        platforms: store.platform_counts().await?,
        completeness: store.completeness().await?,
        churn: store.churn(RUNS).await?,
        budget: store.ledgers().await?.iter().filter_map(|(_, state)| budget(state)).collect(),
        next: Forward {
            copy: store.is_copy(),
            running: running.is_some(),
            stale: stale.any(),
            runs: &runs,
            counts: &counts,
        }
        .steps(&context.db_flag()),
        last_run: runs.last().map(|run| LastRun {
            command: run.command.clone(),
            started_at: time(run.started_at),
            outcome: run.outcome.map_or_else(|| "interrupted".to_owned(), |o| o.to_string()),
        }),
        counts,
        stale,
        running,
    };
    context.output.print(&status, text)?;
    store.close().await;
    Ok(Exit::Done)
}

/// A stored ledger row; nothing when no limit is known.
fn budget(state: &str) -> Option<Budget> {
    let row: LedgerRow = serde_json::from_str(state).ok()?;
    let now = jiff::Timestamp::now().as_millisecond();
    let reset = row.reset_ms.filter(|reset| *reset > now);
    let limit = row.limit?;
    let left = if reset.is_some() { limit.saturating_sub(row.used) } else { limit };
    Some(Budget { resource: row.resource, limit, left, resets_at: reset.map(time) })
}

/// What decides how the corpus is brought forward.
struct Forward<'a> {
    copy: bool,
    running: bool,
    stale: bool,
    runs: &'a [RunRow],
    counts: &'a Counts,
}

impl Forward<'_> {
    /// What to run, most useful first; `db` goes behind every command.
    fn steps(&self, db: &str) -> Vec<String> {
        use crate::taxonomy::Outcome;
        if self.copy {
            return vec![format!("aac export{db}   (a copy for others: it is read, nothing extends it)")];
        }
        if self.running {
            return vec![format!("aac status{db}   (again, to see how far it came)")];
        }
        let mut next = Vec::new();
        let last = self.runs.last();
        if let Some(run) = last.filter(|run| matches!(run.outcome, None | Some(Outcome::Paused | Outcome::Failed))) {
            next.push(format!("aac {}{db}   (goes on where the last run stopped)", run.command));
        }
        if self.counts.artifacts == 0 {
            next.push(format!("aac build{db} --from DIR   (or `aac crawl` with GITHUB_TOKEN set)"));
            return next;
        }
        if self.stale {
            next.push(format!("aac build{db}   (judges what is new and exports)"));
        }
        if next.is_empty() && self.runs.iter().any(|run| collects(&run.command)) {
            next.push(format!("aac refresh{db}   (what is new, changed and gone since)"));
        }
        if !self.stale {
            next.push(format!("aac export{db}   (everything is judged)"));
        }
        next
    }
}

fn text(status: &Status) -> String {
    let counts = &status.counts;
    let mut out = format!(
        "{}: {} artifacts in {} repositories, {} distinct blobs, {} items\n",
        status.db,
        count(counts.artifacts),
        count(counts.repos),
        count(counts.blobs),
        count(counts.items),
    );
    out += &format!(
        "{} KB of text in {} KB on disk\n",
        count(counts.bytes / 1000),
        count(i64::try_from(status.bytes_on_disk / 1000).unwrap_or(i64::MAX)),
    );
    if let Some(owner) = &status.running {
        out += &format!("At work: {owner}\n");
    }
    if let Some(run) = &status.last_run {
        out += &format!("Last run: {} at {}, {}\n", run.command, run.started_at, run.outcome);
    }
    if !status.platforms.is_empty() {
        let rows: Vec<_> =
            status.platforms.iter().map(|p| vec![p.platform.clone(), count(p.artifacts), count(p.repos)]).collect();
        out += &format!("\n{}", table(&["platform", "artifacts", "repositories"], &rows));
    }
    if !status.completeness.is_empty() {
        out += &completeness(&status.completeness);
    }
    if status.churn.len() > 1 {
        let rows: Vec<_> = status.churn.iter().map(churn_row).collect();
        let head = ["run", "artifacts", "added", "changed", "gone", "churn", "outcome"];
        out += &format!("\nGrowth and churn:\n{}", table(&head, &rows));
    }
    for budget in &status.budget {
        let until = budget.resets_at.as_ref().map_or_else(String::new, |at| format!(" until {at}"));
        out += &format!("{}: {} of {} requests left{until}\n", budget.resource, budget.left, budget.limit);
    }
    let stale = &status.stale;
    let mut waiting = Vec::new();
    for (step, texts, what) in [
        ("segment", stale.segment, "texts"),
        ("tag", stale.tag, "artifacts"),
        ("classify", stale.classify.unwrap_or(0), "texts"),
    ] {
        if texts > 0 {
            waiting.push(format!("{step} {} {what}", count(texts.try_into().unwrap_or(i64::MAX))));
        }
    }
    if stale.dedup {
        waiting.push("dedup all".to_owned());
    }
    if !waiting.is_empty() {
        out += &format!("\nNot judged by today's rules: {}\n", waiting.join(", "));
    }
    out + "\nNext:\n  " + &status.next.join("\n  ")
}

/// Whether a corpus made by this command is kept up to date by `aac refresh`.
fn collects(command: &str) -> bool {
    matches!(command, "crawl" | "refresh")
}

/// Churn is what changed and went against what was there before the run.
fn churn_row(row: &ChurnRow) -> Vec<String> {
    let before = row.present - row.added + row.gone;
    let churn = match before {
        1.. => format!("{:.1} %", 100.0 * (row.changed + row.gone) as f64 / before as f64),
        _ => String::new(),
    };
    let outcome = row.outcome.clone().unwrap_or_else(|| "interrupted".to_owned());
    let name = format!("{} {}", time(row.started_at), row.command);
    let numbers = [row.present, row.added, row.changed, row.gone].map(count);
    std::iter::once(name).chain(numbers).chain([churn, outcome]).collect()
}

/// Completeness by platform, and by target where anything is wanting: a hundred whole targets would hide the one that
/// is not.
fn completeness(rows: &[Completeness]) -> String {
    let numbers =
        |row: &Completeness| [row.hits, row.unreachable, row.missing, row.complete, row.short, row.overflow, row.open];
    let line = |name: String, numbers: [i64; 7]| std::iter::once(name).chain(numbers.map(count)).collect::<Vec<_>>();
    let mut platforms: BTreeMap<&str, [i64; 7]> = BTreeMap::new();
    let mut wanting = Vec::new();
    for row in rows {
        let platform = row.target.split('/').next().unwrap_or(&row.target);
        for (sum, number) in platforms.entry(platform).or_default().iter_mut().zip(numbers(row)) {
            *sum += number;
        }
        if row.unreachable + row.missing + row.short + row.overflow + row.open > 0 {
            let forks = if row.fork == "only" { " (forks)" } else { "" };
            wanting.push(line(format!("{}{forks}", row.target), numbers(row)));
        }
    }
    let platforms: Vec<_> = platforms.into_iter().map(|(name, numbers)| line(name.to_owned(), numbers)).collect();
    let head = ["windows", "hits", "unreachable", "missing", "complete", "short", "overflowing", "open"];
    let mut text = format!("\nThe last crawl, by platform:\n{}", table(&head, &platforms));
    if !wanting.is_empty() {
        text += &format!("\nTargets that are not whole:\n{}", table(&head, &wanting));
    }
    text
}

fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| "an unknown time".to_owned(), |t| t.strftime("%F %H:%M UTC").to_string())
}
