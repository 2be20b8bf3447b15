//! `aac gold import` and `aac gold export`.

use crate::cli::output::table;
use crate::cli::{Context, Exit, Failure};
use crate::job::gold::GoldError;
use crate::job::gold::StatusCounts;
use crate::job::gold::exchange::{Format, entries, status_counts, write};
use crate::job::gold::import::{ImportOptions, ImportSummary, import as take_in, import_shipped};
use crate::store::Store;
use crate::taxonomy::LabelOrigin;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Form of the file: jsonl, label-studio, doccano, argilla or prodigy
    #[arg(long, value_name = "FORM", default_value = "jsonl", value_parser = format)]
    format: Format,
    /// Whose labels these are, where the file does not say or says otherwise [default: the file's name]
    #[arg(long, value_name = "NAME")]
    annotator: Option<String>,
    /// The annotator's round, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pass: Option<i64>,
    /// Who gives labels that do not say: person or model
    #[arg(long, value_name = "WHO", default_value = "person", value_parser = origin)]
    origin: LabelOrigin,
    /// Take in the labels that ship with the program, which are a model's
    #[arg(long, conflicts_with_all = ["file", "annotator", "pass"])]
    shipped: bool,
    /// The file
    #[arg(value_name = "FILE", required_unless_present = "shipped")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Form of the file: jsonl, label-studio, doccano, argilla or prodigy
    #[arg(long, value_name = "FORM", default_value = "jsonl", value_parser = format)]
    format: Format,
    /// Only this annotator's labels; all items all the same
    #[arg(long, value_name = "NAME")]
    annotator: Option<String>,
    /// The file; doccano's form has one for each annotator, named after both
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

fn format(word: &str) -> Result<Format, String> {
    word.parse()
}

fn origin(word: &str) -> Result<LabelOrigin, String> {
    word.parse::<LabelOrigin>().map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct Exported {
    format: Format,
    items: usize,
    without_text: usize,
    status: BTreeMap<String, StatusCounts>,
    files: Vec<PathBuf>,
}

pub(super) async fn import(context: &Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let text = match &args.file {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::failed(format!("Failed to read the labels {}: {error}", file.display())))?;
            Some((file.display().to_string(), text))
        }
    };
    let store = Store::create(&context.db).await?;
    let options =
        ImportOptions { format: args.format, annotator: args.annotator.clone(), pass: args.pass, origin: args.origin };
    let taken = match &text {
        None => import_shipped(&store, &context.terminal).await,
        Some((file, text)) => take_in(&store, file, text, &options, &context.terminal).await,
    };
    store.close().await;
    let taken = taken.map_err(|error| match error {
        GoldError::File { .. } => Failure::usage(error),
        other => other.into(),
    })?;
    context.output.print(&taken, imported)?;
    Ok(Exit::Done)
}

fn imported(taken: &ImportSummary) -> String {
    let mut out = statuses(&taken.status);
    out += &format!(
        "{} labels and {} decisions on {} items, {} of them new",
        taken.labels, taken.decisions, taken.items, taken.new_items
    );
    if taken.without_text > 0 {
        out += &format!(
            "\n{} new items have no text here; once `aac ingest` or `aac crawl` brought their repositories, `aac gold serve` \
             finds them (`aac gold hydrate FILE` says what is missing)",
            taken.without_text
        );
    }
    out
}

fn statuses(status: &BTreeMap<String, StatusCounts>) -> String {
    let rows: Vec<Vec<String>> = status
        .iter()
        .map(|(name, n)| {
            let name = if name.is_empty() { "(nobody)".to_owned() } else { name.clone() };
            let numbers = [n.labelled, n.skipped, n.open, n.flagged, n.noted];
            std::iter::once(name).chain(numbers.map(|n| n.to_string())).collect()
        })
        .collect();
    table(&["annotator", "labelled", "skipped", "open", "flagged", "with a note"], &rows)
}

pub(super) async fn export(context: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let found = entries(&store, args.annotator.as_deref()).await;
    store.close().await;
    let found = found?;
    let mut files = Vec::new();
    for file in write(args.format, &found)? {
        let path = file.annotator.as_deref().map_or_else(|| args.file.clone(), |name| beside(&args.file, name));
        std::fs::write(&path, file.text)
            .map_err(|error| Failure::failed(format!("Failed to write {}: {error}", path.display())))?;
        files.push(path);
    }
    let exported = Exported {
        format: args.format,
        items: found.len(),
        without_text: found.iter().filter(|entry| entry.item.text.is_none()).count(),
        status: status_counts(&found),
        files,
    };
    context.output.print(&exported, |exported| {
        let mut out = statuses(&exported.status);
        let files: Vec<String> = exported.files.iter().map(|file| file.display().to_string()).collect();
        out += &format!("{} items in {}", exported.items, files.join(", "));
        if exported.without_text > 0 {
            out += &format!("; {} have no text in this corpus and went out without", exported.without_text);
        }
        out
    })?;
    Ok(Exit::Done)
}

/// `labels.jsonl` for ann: `labels.ann.jsonl`. What no file name should hold becomes a dash.
fn beside(file: &Path, annotator: &str) -> PathBuf {
    let safe: String = annotator
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@') { c } else { '-' })
        .collect();
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = match file.extension() {
        Some(end) => format!("{stem}.{safe}.{}", end.to_string_lossy()),
        None => format!("{stem}.{safe}"),
    };
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leaves_the_folder() {
        assert_eq!(beside(Path::new("out/l.jsonl"), "ann"), Path::new("out/l.ann.jsonl"));
        assert_eq!(beside(Path::new("out/l"), "../../x y"), Path::new("out/l...-..-x-y"));
    }
}
