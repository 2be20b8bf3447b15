//! `aac crawl`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::github::{Credentials, Endpoints, Error, GitHub, Options};
use crate::job::crawl::{
    CrawlOptions, CrawlPrice, CrawlSummary, Failed, crawl, crawl_price, crawled_at, published_size,
};
use crate::store::Store;
use crate::taxonomy::Outcome;
use clap::Args;
use jiff::Timestamp;
use std::time::Duration;

/// Failures shown to people; `--json` has them all.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct CrawlArgs {
    /// Only this platform; may be given several times [default: the eight of the corpus]
    #[arg(long, value_name = "P")]
    platform: Vec<String>,
    /// Search forks, too
    #[arg(long)]
    forks: bool,
    /// Pause after so many requests
    #[arg(long, value_name = "N")]
    max_requests: Option<u64>,
    /// Pause after so many hours
    #[arg(long, value_name = "H")]
    max_hours: Option<f64>,
    /// Tell what it would cost and send nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(context: &Context, args: &CrawlArgs) -> Result<Exit, Failure> {
    let targets = context.targets(&args.platform)?;
    let forks = args.forks || context.config.crawl.forks;
    let options = CrawlOptions { forks, ..CrawlOptions::default() };
    if args.dry_run {
        let store = if context.db.exists() { Some(context.open().await?) } else { None };
        let price = crawl_price(store.as_ref(), &targets, &options).await?;
        if let Some(store) = store {
            store.close().await;
        }
        context.output.print(&price, price_text)?;
        return Ok(Exit::Done);
    }
    let github = connect(context, args.max_requests, args.max_hours)?;
    let _lock = context.lock("crawl")?;
    let store = Store::create(&context.db).await?;
    if let Some(at) = crawled_at(&store, &targets, &options).await? {
        context.tell(&format!(
            "This corpus was crawled at {at:.0}; `aac refresh` brings it up to date for a fraction of the requests. \
             Walking everything again."
        ));
    }
    context.claim(&store, &github.options().endpoints.service()).await?;
    let summary = crawl(&store, &github, &targets, &options, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(match summary.outcome {
        Outcome::Done => Exit::Done,
        Outcome::Partial => Exit::Partial,
        Outcome::Paused => Exit::Paused,
        Outcome::Failed => Exit::Failed,
    })
}

/// The client that the environment, the configuration and the command line describe.
/// `max_requests` and `max_hours` bound it; where they are not given, the configuration's do.
pub(super) fn connect(context: &Context, max_requests: Option<u64>, max_hours: Option<f64>) -> Result<GitHub, Failure> {
    let config = &context.config.github;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let rest = variable("GITHUB_API_URL").or_else(|| config.api_url.clone());
    let graphql = variable("GITHUB_GRAPHQL_URL").or_else(|| config.graphql_url.clone());
    let endpoints = match rest {
        Some(rest) => Endpoints::new(&rest, graphql.as_deref()),
        None => Endpoints::github_com(),
    }
    .map_err(Failure::usage)?;
    let github_com = endpoints == Endpoints::github_com()?;
    let credentials = Credentials::read(variable).map_err(|error| match error {
        Error::NoCredentials | Error::Credentials { .. } => Failure::usage(error),
        error => error.into(),
    })?;
    let mut options = Options::new(endpoints, credentials);
    let limits = &mut options.limits;
    for (allowance, given) in [
        (&mut limits.code_search, config.code_search_per_minute),
        (&mut limits.core, config.core_per_hour),
        (&mut limits.graphql, config.graphql_per_hour),
    ] {
        // An enterprise server limits nothing by default; where it does, its headers tell from the first answer on.
        allowance.requests = given.or(allowance.requests.filter(|_| github_com));
    }
    for (spacing, given) in [
        (&mut limits.rest_per_minute, config.rest_per_minute),
        (&mut limits.graphql_per_minute, config.graphql_per_minute),
    ] {
        *spacing = given.or(*spacing).filter(|per_minute| *per_minute > 0);
    }
    options.max_requests = max_requests.or(context.config.crawl.max_requests);
    if let Some(hours) = max_hours.or(context.config.crawl.max_hours) {
        let time = Duration::try_from_secs_f64(hours * 3600.0)
            .map_err(|_| Failure::usage(format!("--max-hours {hours}: expected a number of hours")))?;
        options.deadline = Timestamp::now().checked_add(time).ok();
    }
    Ok(GitHub::new(options)?)
}

fn text(summary: &CrawlSummary) -> String {
    let number = |n: u64| count(i64::try_from(n).unwrap_or(i64::MAX));
    let mut lines = vec![
        format!(
            "{} artifacts, {} blobs; {} hits, {} that search cannot list ({} of them found beside others)",
            number(summary.artifacts),
            number(summary.blobs),
            number(summary.hits),
            number(summary.unreachable),
            number(summary.recovered_by_siblings),
        ),
        format!(
            "{} code searches ({:.2} of the fewest possible), {} GraphQL queries, {} others; refused {} + {} times, \
             waited {:.0} s",
            number(summary.requests.code_search),
            summary.ratio,
            number(summary.requests.graphql),
            number(summary.requests.core),
            summary.limited.primary,
            summary.limited.secondary,
            summary.waited_seconds,
        ),
        format!(
            "queries filled to {:.1} % with repositories, {:.1} % with paths of histories",
            100.0 * summary.batches.content.share(),
            100.0 * summary.batches.history.share(),
        ),
        format!(
            "windows: {} complete, {} short, {} overflowing, {} open",
            number(summary.windows.complete),
            number(summary.windows.short),
            number(summary.windows.overflow),
            number(summary.windows.open),
        ),
    ];
    if summary.storage_pointers > 0 {
        let pointers = number(summary.storage_pointers);
        lines.push(format!("{pointers} texts are pointers into large file storage; what they point to is not read"));
    }
    lines.extend(ending(summary.paused.as_deref(), summary.resume_at, &summary.failed));
    lines.join("\n")
}

/// The last lines about a run that collected: why it is paused, and the first failures.
pub(super) fn ending(paused: Option<&str>, resume_at: Option<Timestamp>, failed: &[Failed]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(why) = paused {
        let when = resume_at.map_or_else(String::new, |at| format!(", not before {at:.0}"));
        lines.push(format!("Paused {why}; the same command goes on{when}"));
    }
    if !failed.is_empty() {
        lines.push(format!("{} failed:", failed.len()));
        lines.extend(failed.iter().take(SHOWN).map(|failed| format!("  {}: {}", failed.what, failed.why)));
        if failed.len() > SHOWN {
            lines.push(format!("  and {} more; --json lists all", failed.len() - SHOWN));
        }
    }
    lines
}

fn price_text(price: &CrawlPrice) -> String {
    let search = &price.code_search;
    if search.hits == 0 {
        let whole = published_size(&CrawlOptions::default());
        return format!(
            "Nothing was searched yet, so how much there is to find is not known. Each of {} targets costs one search at \
             least ({:.1} h at the documented rate) and tells its total by it; after some, as by `--max-requests 100`, \
             this command reckons with what was found.\n\
             {} files, as many as the published corpus has, cost about {} searches ({:.1} h) and {} + {} GraphQL queries \
             for contents and authorship ({:.1} h); both go on at once: {:.1} h in all",
            search.requests,
            search.nominal_hours,
            whole.code_search.hits,
            whole.code_search.requests,
            whole.code_search.nominal_hours,
            whole.graphql,
            whole.histories,
            whole.graphql_hours,
            whole.nominal_hours,
        );
    }
    let observed =
        |hours: Option<f64>| hours.map_or_else(String::new, |hours| format!(", {hours:.1} h at the rate seen so far"));
    let mut text = format!(
        "{} code searches for {} hits: {:.1} h at the documented rate{}",
        search.requests,
        search.hits,
        search.nominal_hours,
        observed(search.observed_hours)
    );
    if search.unknown > 0 {
        text.push_str(&format!(
            "\n{} targets were never searched; each stands with one request, so this is a floor",
            search.unknown
        ));
    }
    text.push_str(&format!(
        "\n{} GraphQL queries for the contents and {} for the authorship: {:.1} h\nBoth go on at once: {:.1} h in all{}",
        price.graphql,
        price.histories,
        price.graphql_hours,
        price.nominal_hours,
        observed(price.observed_hours)
    ));
    text
}
