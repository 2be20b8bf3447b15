//! The card of a set, from `exports/card.md`. Every figure in it comes from the manifest.

use super::{ExportOptions, Manifest, Tier};
use std::collections::BTreeMap;

const TEMPLATE: &str = include_str!("../../../exports/card.md");

/// Stands where a contact would.
const NOT_FOR_PUBLICATION: &str = "> **Not for publication.** The configuration names no `export.contact` or no \
    `export.removal`: a published set must say whom to write to and how to ask for removal.\n\n";

/// The card's text.
pub(super) fn render(manifest: &Manifest, options: &ExportOptions) -> String {
    let rows = |name: &str| manifest.configs.get(name).map_or(0, |c| c.rows);
    let mut text = TEMPLATE.to_owned();
    let whole = options.contact.is_some() && options.removal.is_some();
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "**missing**".to_owned());
    let pairs: [(&str, String); 20] = [
        ("name", options.name.clone()),
        ("size", size(rows("artifacts")).to_owned()),
        ("configs", configs(manifest)),
        ("warning", if whole { String::new() } else { NOT_FOR_PUBLICATION.to_owned() }),
        ("missing", manifest.missing.iter().map(|m| format!("- {m}.\n")).collect()),
        ("tables", tables(manifest)),
        ("version", manifest.version.clone()),
        ("run", manifest.run.as_ref().map_or_else(String::new, |r| format!(", as of run {} ({})", r.id, r.started_at))),
        ("funnel", funnel(manifest)),
        ("tier", options.tier.as_str().to_owned()),
        ("tier_text", tier(options.tier).to_owned()),
        ("withheld", withheld(manifest)),
        ("redactions", list(&manifest.redactions, "none")),
        ("contact", optional(&options.contact)),
        ("removal", optional(&options.removal)),
        ("left_out", format!("Repositories left out: {}.", list(&manifest.left_out, "none"))),
        ("seed", manifest.splits.seed.clone()),
        ("splits", list(&manifest.splits.artifacts, "no rows")),
        ("rule", manifest.splits.rule.to_owned()),
        ("quality", quality(manifest)),
    ];
    for (key, value) in pairs {
        text = text.replace(&format!("{{{{{key}}}}}"), &value);
    }
    let mut notes = String::new();
    if let Some(as_of) = &manifest.as_of {
        notes += &format!("\n## As of {}\n\n", as_of.time);
        notes.extend(as_of.differs.iter().map(|line| format!("- {line}.\n")));
    }
    if let Some(run) = manifest.since {
        notes += &format!("\n## A part\n\nOnly artifacts whose bytes changed after run {run}.\n");
    }
    text + &notes
}

/// The Hub's classes of sizes.
fn size(rows: u64) -> &'static str {
    match rows {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        _ => "1M<n<10M",
    }
}

fn configs(manifest: &Manifest) -> String {
    let entry = |name: &str| {
        let default = if name == "artifacts" { "  default: true\n" } else { "" };
        format!("- config_name: {name}\n{default}  data_files:\n  - split: train\n    path: data/{name}-*.parquet\n")
    };
    // Some loaders fail on a configuration without rows; its shard is there all the same.
    let filled = manifest.configs.iter().filter(|(name, info)| info.rows > 0 || **name == "artifacts");
    filled.map(|(name, _)| entry(name)).collect::<String>().trim_end().to_owned()
}

fn tables(manifest: &Manifest) -> String {
    let what = |name: &str| match name {
        "artifacts" => "a path in a repository, with its text",
        "occurrences" => "bytes that a path held, from when to when",
        "items" => "a list entry, paragraph, table row or code block of a distinct text",
        _ => "an item that was labelled, with its labels",
    };
    let row = |(name, info): (&&str, &super::ConfigInfo)| {
        format!("| `{name}` | {} | {} | {} |\n", info.rows, info.bytes, what(name))
    };
    manifest.configs.iter().map(row).collect()
}

fn funnel(manifest: &Manifest) -> String {
    let stages = &manifest.funnel;
    let canonical = stages.corpus.canonical.map_or_else(|| "not searched yet".to_owned(), |n| n.to_string());
    format!(
        "| paths found | {} |\n| fetched | {} |\n| distinct texts | {} |\n| one a near-duplicate cluster | {canonical} |\n\
         | artifacts exported | {} |\n| of these with text | {} |\n",
        stages.corpus.found, stages.corpus.fetched, stages.corpus.distinct, stages.exported, stages.with_text
    )
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Permissive => {
            "texts are included where the repository's licence is permissive, else only what is said of them."
        }
        Tier::AllMetadata => "no texts are included, only what is said of them.",
        Tier::Own => "texts are included of the publisher's own repositories, of others only what is said of them.",
    }
}

fn withheld(manifest: &Manifest) -> String {
    let count = |why| manifest.withheld.get(why).copied().unwrap_or(0);
    format!("{} texts are withheld for their licence; {} files are binary.", count("license"), count("binary"))
}

fn list(counts: &BTreeMap<&'static str, u64>, none: &str) -> String {
    if counts.is_empty() {
        return none.to_owned();
    }
    counts.iter().map(|(word, n)| format!("{n} {}", word.replace('_', " "))).collect::<Vec<_>>().join(", ")
}

/// What the model's own card says, named as such.
fn quality(manifest: &Manifest) -> String {
    let figure = |name: &str| {
        let value = manifest.model.notes.pointer(&format!("/nested_cross_validation/{name}"))?;
        let part = |key: &str| value.get(key).and_then(serde_json::Value::as_f64);
        Some(format!("{:.3} ({:.3}–{:.3})", part("value")?, part("low")?, part("high")?))
    };
    let predicted =
        if manifest.model.predictions { "Predictions by" } else { "No predictions yet; beside the data lies" };
    let mut text =
        format!("{predicted} the {} tier, tensors `{}`. ", manifest.model.name.tier, manifest.model.name.hash);
    if figure("accuracy").is_none() {
        return text + "No figures are stored with it; its card, where it has one, says more.\n";
    }
    text += "Its figures on its own gold labels, with 95 % intervals:\n\n";
    for (name, what) in [
        ("accuracy", "accuracy, six types"),
        ("macro_f1", "macro-F1 without episodic"),
        ("constraint_f1", "constraint F1, balanced point"),
        ("safe_recall", "constraint recall, safe point"),
        ("safe_flagged", "share of items flagged, safe point"),
    ] {
        if let Some(figure) = figure(name) {
            text += &format!("- {what}: {figure}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_template_is_filled() {
        let mut rest = TEMPLATE;
        let mut named = Vec::new();
        while let Some((_, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").unwrap();
            named.push(name);
            rest = after;
        }
        named.sort_unstable();
        named.dedup();
        assert_eq!(named.len(), 20, "{named:?}");
    }
}
