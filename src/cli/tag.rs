//! `aac tag`.

use super::output::{count, table};
use super::{Context, Exit, Failure};
use crate::corpus::Slug;
use crate::job::explain::{ExplainedTag, explain};
use crate::job::tag::{TagSummary, tag};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(super) struct TagArgs {
    /// Show the tags of a repository's artifacts, or of one, with the rule of each and what it saw; nothing is tagged
    #[arg(long, value_name = "OWNER/REPO[/PATH]", value_parser = place)]
    why: Option<(Slug, Option<String>)>,
}

fn place(text: &str) -> Result<(Slug, Option<String>), String> {
    let mut parts = text.splitn(3, '/');
    let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let path = parts.next().filter(|path| !path.is_empty()).map(str::to_owned);
    Slug::new(owner, name).map(|repo| (repo, path)).map_err(|error| error.to_string())
}

pub(super) async fn run(context: &Context, args: &TagArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    if let Some((repo, path)) = &args.why {
        let tags = explain(&store, repo, path.as_deref()).await?;
        store.close().await;
        if tags.is_empty() {
            let place = path.as_ref().map_or_else(|| repo.to_string(), |path| format!("{repo}/{path}"));
            let message = format!("Failed to find tags of {place} in {}", context.db.display());
            return Err(Failure { exit: Exit::Failed, message });
        }
        context.output.print(&json!({ "tags": tags }), |_| reasons(&tags))?;
        return Ok(Exit::Done);
    }
    let summary = tag(&store, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(if summary.paused { Exit::Paused } else { Exit::Done })
}

/// Each artifact with its tags, a line for the answer and one for what it rests on.
fn reasons(tags: &[ExplainedTag]) -> String {
    let mut out = String::new();
    for artifact in tags.chunk_by(|a, b| a.path == b.path) {
        out += &format!("{}/{}\n", artifact[0].repo, artifact[0].path);
        for tag in artifact {
            let at = tag.line.map_or_else(String::new, |line| format!("line {line}: "));
            out += &format!(
                "  {}: {} ({:.2}, rule {})\n    {at}{}\n",
                tag.dimension, tag.value, tag.confidence, tag.rule, tag.seen
            );
        }
    }
    out
}

fn text(summary: &TagSummary) -> String {
    let mut out = format!(
        "{} of {} stale artifacts tagged, {} licences judged\n",
        count(summary.updated as i64),
        count(summary.stale as i64),
        count(summary.licenses_updated as i64)
    );
    for (dimension, values) in &summary.values {
        out += &section(dimension, "artifacts", values);
    }
    out += &section("licence", "repositories", &summary.licenses);
    if summary.paused {
        out += "Paused; the same command goes on\n";
    }
    out
}

/// A table of values, most first; nothing when there are none.
fn section(title: &str, unit: &str, values: &BTreeMap<String, i64>) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut values: Vec<(&String, &i64)> = values.iter().collect();
    values.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let rows: Vec<_> = values.into_iter().map(|(value, n)| vec![value.clone(), count(*n)]).collect();
    format!("\n{}", table(&[title, unit], &rows))
}
