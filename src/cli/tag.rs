//! `aac tag`.

use super::output::{count, table};
use super::{Context, Exit, Failure};
use crate::job::tag::{TagSummary, tag};
use clap::Args;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(super) struct TagArgs {}

pub(super) async fn run(context: &Context, _args: &TagArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let summary = tag(&store, &context.terminal).await?;
    store.close().await;
    context.output.print(&summary, text)?;
    Ok(if summary.paused { Exit::Paused } else { Exit::Done })
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
