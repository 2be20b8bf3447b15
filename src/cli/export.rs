//! `aac export`.

use super::output::count;
use super::{Context, Exit, Failure};
use crate::job::export::{self, ExportError, ExportOptions, ExportSummary, Tier};
use crate::job::model::find_model;
use crate::store::RunId;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Folder of the set, or s3://BUCKET/PREFIX (a build with `--features s3`; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    /// AWS_REGION and AWS_ENDPOINT_URL as usual); files in it that no export wrote are kept [default: exports/corpus]
    #[arg(long, value_name = "DIR|ADDRESS")]
    out: Option<PathBuf>,
    /// Whose texts are included: those under a permissive licence, nobody's, or those of the repositories that
    /// `export.own` lists [default: permissive]
    #[arg(long, value_name = "TIER", value_parser = Tier::ALL.map(|(word, _)| word))]
    license: Option<String>,
    /// The corpus as it stood at this time (2026-11-30 or 2026-11-30T12:00:00Z), with today's opt-outs and redaction
    #[arg(long, value_name = "DATE")]
    as_of: Option<String>,
    /// Only artifacts whose bytes changed after this run
    #[arg(long, value_name = "RUN")]
    since: Option<i64>,
    /// Also write a copy of the database that may be passed on: of each text only what the export holds, without runs,
    /// settings, limits and names of annotators
    #[arg(long, value_name = "FILE", conflicts_with_all = ["as_of", "since"])]
    db_copy: Option<PathBuf>,
    /// Folder of the model that goes with the set [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Refuse to write a card without `export.contact` and `export.removal`
    #[arg(long)]
    for_publication: bool,
}

pub(super) async fn run(context: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    let mut options = options(context, args.out.as_ref(), args.license.as_deref(), args.model.as_ref())?;
    options.as_of = args.as_of.as_deref().map(time).transpose()?;
    options.since = args.since.map(RunId);
    if args.for_publication {
        let lacks = |value: &Option<String>, key| value.is_none().then_some(key);
        let missing = [lacks(&options.contact, "contact"), lacks(&options.removal, "removal")];
        let missing: Vec<String> = missing.iter().flatten().map(|key| format!("`export.{key}`")).collect();
        if !missing.is_empty() {
            return Err(Failure::usage(format!(
                "A card for publication must say whom to write to and how to ask for removal: set {} in aac.toml",
                missing.join(" and ")
            )));
        }
    }
    let store = context.open().await?;
    let mut exported = export::export(&store, &options, &context.terminal).await;
    if let (Ok(summary), Some(file)) = (&mut exported, &args.db_copy) {
        match export::copy(&store, &options, file, &context.terminal).await {
            Ok(copy) => summary.db_copy = Some(copy),
            Err(error) => exported = Err(error),
        }
    }
    match exported {
        Ok(summary) => {
            warn(&summary);
            context.output.print(&summary, text)?;
            store.close().await;
            Ok(Exit::Done)
        }
        Err(ExportError::Stopped) => Err(Failure { exit: Exit::Paused, message: ExportError::Stopped.to_string() }),
        Err(error @ (ExportError::Unknown { .. } | ExportError::CopyPlace { .. })) => Err(Failure::usage(error)),
        Err(error) => Err(error.into()),
    }
}

/// What the configuration and the flags ask for.
pub(super) fn options(
    context: &Context,
    out: Option<&PathBuf>,
    tier: Option<&str>,
    model: Option<&PathBuf>,
) -> Result<ExportOptions, Failure> {
    let config = &context.config.export;
    let out = context.out(out);
    let mut options = match address(&out) {
        None => ExportOptions::new(out),
        Some(address) => for_bucket(context, address)?,
    };
    if let Some(word) = tier.or(config.license.as_deref()) {
        let known = Tier::ALL.into_iter().find(|(name, _)| *name == word);
        let (_, tier) = known.ok_or_else(|| {
            let names = Tier::ALL.map(|(name, _)| name).join(", ");
            Failure::usage(format!("Unknown licence tier {word:?} in `export.license`: expected one of {names}"))
        })?;
        options.tier = tier;
    }
    options.own.clone_from(&config.own);
    if options.tier == Tier::Own && options.own.is_empty() {
        return Err(Failure::usage("`--license own` needs the repositories that are yours: list them in `export.own`"));
    }
    if let Some(name) = &config.name {
        options.name.clone_from(name);
    }
    options.model = find_model(&context.model_places(model)?).map_err(Failure::usage)?;
    // An empty word is none.
    let said = |value: &Option<String>| value.clone().filter(|text| !text.trim().is_empty());
    options.contact = said(&config.contact);
    options.removal = said(&config.removal);
    Ok(options)
}

/// The address that was given in place of a folder.
pub(super) fn address(out: &Path) -> Option<&str> {
    out.to_str().filter(|out| out.contains("://"))
}

/// A set for a bucket is made beside the corpus and sent from there.
#[cfg(feature = "s3")]
fn for_bucket(context: &Context, address: &str) -> Result<ExportOptions, Failure> {
    let place = address.parse().map_err(Failure::usage)?;
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    let bucket = crate::bucket::Bucket::connect(place, variables).map_err(Failure::usage)?;
    let mut work = context.db.clone().into_os_string();
    work.push(".upload");
    Ok(ExportOptions { bucket: Some(bucket), ..ExportOptions::new(work.into()) })
}

#[cfg(not(feature = "s3"))]
fn for_bucket(_context: &Context, address: &str) -> Result<ExportOptions, Failure> {
    Err(Failure::usage(format!(
        "Failed to export to {address}: this build writes into folders only; build it with `--features s3` for s3://BUCKET/PREFIX"
    )))
}

/// Unix milliseconds; a date stands for its end, UTC.
fn time(text: &str) -> Result<i64, Failure> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let end = |date: jiff::civil::Date| {
        let midnight = date.tomorrow().ok()?.at(0, 0, 0, 0);
        Some(jiff::tz::Offset::UTC.to_timestamp(midnight).ok()?.as_millisecond() - 1)
    };
    text.parse::<jiff::civil::Date>().ok().and_then(end).ok_or_else(|| {
        Failure::usage(format!("Failed to read the time {text:?}: expected 2026-11-30 or 2026-11-30T12:00:00Z"))
    })
}

fn warn(summary: &ExportSummary) {
    if !summary.publishable {
        crate::terminal::say(
            "warning: the card is marked as not for publication; `export.contact` and `export.removal` are missing",
        );
    }
}

fn text(summary: &ExportSummary) -> String {
    let mut lines = vec![format!("{}: {} KB", summary.out.display(), count((summary.bytes / 1000) as i64))];
    for (config, rows) in &summary.configs {
        lines.push(format!("  {config:<12} {:>12} rows", count(*rows as i64)));
    }
    let list = |what: &str, counts: &std::collections::BTreeMap<&'static str, u64>| {
        let parts: Vec<String> = counts.iter().map(|(why, n)| format!("{} {why}", count(*n as i64))).collect();
        (!parts.is_empty()).then(|| format!("{what}: {}", parts.join(", ")))
    };
    lines.extend(list("Texts withheld", &summary.withheld));
    lines.extend(list("Passages redacted", &summary.redactions));
    lines.extend(list("Repositories left out", &summary.left_out));
    lines.extend(summary.differs_from_as_of.iter().map(|line| format!("Differs: {line}")));
    if let Some(copy) = &summary.db_copy {
        lines.push(format!(
            "{}: {} KB, {} texts of {} repositories",
            copy.path.display(),
            count((copy.bytes / 1000) as i64),
            count(copy.texts as i64),
            count(copy.repos as i64)
        ));
    }
    lines.push(format!("Read {} before you share it", summary.out.join("README.md").display()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_stands_for_its_end() {
        let at = |text: &str| time(text).unwrap();
        assert_eq!(at("1970-01-01"), 86_400_000 - 1);
        assert_eq!(at("1970-01-01T00:00:01Z"), 1_000);
        assert_eq!(time("yesterday").unwrap_err().exit, Exit::Usage);
    }
}
