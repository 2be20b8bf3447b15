//! `aac classify`.

use super::knowledge::read_text;
use super::llm::LlmArgs;
use super::output::{self, count};
use super::{Context, Exit, Failure};
use crate::classify::Policy;
use crate::job::classify::{ClassifiedItem, ClassifySummary, classify, classify_text};
use crate::job::llm::Answering;
use crate::job::model::{ModelName, Variant};
use crate::llm::LlmReport;
use crate::taxonomy::{Authority, KnowledgeType, OperatingPoint};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Columns of the text form.
const WIDTH: usize = 80;

#[derive(Debug, Args)]
pub(super) struct ClassifyArgs {
    /// File to classify, `-` for standard input [default: the whole corpus]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Variant: regex, encoder, regex+encoder, distilled, trained, llm, cascade, cascade+abstain, safety-margin
    #[arg(long, value_name = "NAME", default_value = "trained", alias = "variant")]
    classifier: String,
    /// Folder of the model [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Sentence encoder for the variants that ask one: minilm:DIR or hf:OWNER/NAME [default: AAC_ENCODER]
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<String>,
    /// Operating point at which items are pinned: balanced or safe
    #[arg(long, value_name = "POINT", default_value = "safe", requires = "file")]
    point: OperatingPoint,
    /// Who speaks, which weighs the risk: sys, dev, user, tool or ret
    #[arg(long, value_name = "WHO", requires = "file")]
    authority: Option<Authority>,
    /// Pin from this risk up, in place of the model's own threshold
    #[arg(long, value_name = "P", value_parser = share, requires = "file")]
    threshold: Option<f32>,
    /// Pin also what is less sure than this, whatever its type
    #[arg(long, value_name = "P", value_parser = share, requires = "file")]
    abstain_below: Option<f32>,
    /// Say below each item why it has its type
    #[arg(long, requires = "file")]
    why: bool,
    /// Print one JSON object an item, as they are decided
    #[arg(long, conflicts_with = "json", requires = "file")]
    jsonl: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

fn share(text: &str) -> Result<f32, String> {
    text.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[derive(Serialize)]
struct Document<'t> {
    model: ModelName,
    classifier: String,
    point: OperatingPoint,
    threshold: f32,
    items: Vec<ClassifiedItem<'t>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm: Option<LlmReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_by: Option<String>,
}

pub(super) async fn run(context: &Context, args: &ClassifyArgs) -> Result<Exit, Failure> {
    let variant: Variant = args.classifier.parse().map_err(Failure::usage)?;
    if args.model.is_some() && variant == Variant::Regex {
        return Err(Failure::usage("Failed to use --model: the classifier regex has no model"));
    }
    let mut places = context.model_places(args.model.as_ref())?;
    if let Some(encoder) = &args.encoder {
        places.encoder = Some(encoder.parse().map_err(Failure::usage)?);
    }
    let answering = args.llm.answering(context, variant, &places)?;
    match &args.file {
        Some(file) => one(context, args, &answering, file).await,
        None => {
            let store = context.open().await?;
            let summary = classify(&store, answering, &context.terminal).await?;
            store.close().await;
            context.output.print(&summary, corpus_text)?;
            Ok(match &summary {
                s if s.paused => Exit::Paused,
                s if s.unsegmented > 0 => Exit::Partial,
                _ => Exit::Done,
            })
        }
    }
}

async fn one(context: &Context, args: &ClassifyArgs, answering: &Answering, file: &Path) -> Result<Exit, Failure> {
    let text = read_text(file)?;
    let path = read_as(file);
    let policy = Policy {
        authority: args.authority,
        weights: context.config.classify.authority,
        threshold: args.threshold,
        abstain_below: args.abstain_below,
        ..Policy::at(args.point)
    };
    let mut items = Vec::new();
    let each = |item| -> Result<(), Failure> {
        if args.jsonl {
            return context.output.line(&item);
        }
        items.push(item);
        Ok(())
    };
    let paused = classify_text(answering, &policy, &path, &text, &context.terminal, each).await?;
    let exit = if paused.is_some() { Exit::Paused } else { Exit::Done };
    if let Some(pause) = &paused {
        context.tell(&pause.to_string());
    }
    let report = answering.report();
    if args.jsonl {
        if let Some(report) = &report {
            context.tell(&report.to_string());
        }
        return Ok(exit);
    }
    let classifier = answering.classifier();
    let document = Document {
        model: ModelName::of(classifier.as_ref()),
        classifier: classifier.name().to_owned(),
        point: args.point,
        threshold: args.threshold.unwrap_or_else(|| classifier.thresholds().at(args.point)),
        items,
        llm: report,
        paused_by: paused.map(|pause| pause.to_string()),
    };
    context.output.print(&document, |document| items_text(document, args.why))?;
    Ok(exit)
}

/// The path that a file is read as. Folders of this machine tell nothing of the artifact: of an absolute path only the
/// name counts.
fn read_as(file: &Path) -> String {
    if file == Path::new("-") {
        return String::new();
    }
    let path = if file.is_absolute() { file.file_name().map_or(file, Path::new) } else { file };
    path.strip_prefix("./").unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn items_text(document: &Document<'_>, why: bool) -> String {
    let mut out = format!("{:>5}  {:<10}  {:>4}  pin  item\n", "line", "type", "risk");
    let indent = 5 + 2 + 10 + 2 + 4 + 2 + 3 + 2;
    for item in &document.items {
        let decision = &item.decision;
        out += &format!(
            "{:>5}  {:<10}  {:>4.2}  {:^3}  {}\n",
            item.line,
            decision.item_type.as_str(),
            decision.risk,
            if decision.pinned { "*" } else { "" },
            shortened(item.text, WIDTH - indent),
        );
        if why {
            for reason in &decision.why {
                out +=
                    &format!("{:indent$}{:+.2} {}\n", "", reason.weight, shortened(&reason.what, WIDTH - indent - 6));
            }
        }
    }
    let mut types: Vec<(KnowledgeType, usize)> = KnowledgeType::ALL.iter().map(|t| (*t, 0)).collect();
    for item in &document.items {
        types[item.decision.item_type.index()].1 += 1;
    }
    let types: Vec<String> = types.iter().filter(|(_, n)| *n > 0).map(|(t, n)| format!("{n} {t}")).collect();
    let pinned = document.items.iter().filter(|item| item.decision.pinned).count();
    out += &format!("\n{} items: {}\n", document.items.len(), types.join(", "));
    out += &format!(
        "* pinned: {pinned} at the {} point (risk from {:.3}); {} ({})\n",
        document.point, document.threshold, document.classifier, document.model
    );
    if let Some(report) = &document.llm {
        out += &format!("{report}\n");
    }
    out
}

/// The first `columns` columns of `text` on one line.
fn shortened(text: &str, columns: usize) -> String {
    let flat = crate::segment::flatten(text);
    let mut used = 0;
    let mut short = String::new();
    for c in flat.chars() {
        used += width(c);
        if used > columns {
            while short.chars().map(width).sum::<usize>() >= columns {
                short.pop();
            }
            short.push('…');
            break;
        }
        short.push(c);
    }
    short
}

/// Columns of a character: ideographs, kana, hangul and most pictographs take two.
fn width(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

fn corpus_text(summary: &ClassifySummary) -> String {
    let number = |n: u64| count(i64::try_from(n).unwrap_or(i64::MAX));
    let share = |n: u64| format!("{:.1}", 100.0 * n as f64 / summary.items.max(1) as f64);
    let mut rows: Vec<Vec<String>> =
        summary.types.iter().map(|(t, n)| vec![t.to_string(), number(*n), share(*n)]).collect();
    rows.push(vec!["pinned (safe)".to_owned(), number(summary.pinned), share(summary.pinned)]);
    let mut out = format!(
        "{} of {} stale texts classified by the model {}; {} items in all\n\n{}",
        number(summary.updated),
        number(summary.stale),
        summary.model,
        number(summary.items),
        output::table(&["type", "items", "%"], &rows)
    );
    if summary.unsegmented > 0 {
        out += &format!("\n{} texts have no items yet: run `aac segment`, then this\n", number(summary.unsegmented));
    }
    if let Some(report) = &summary.llm {
        out += &format!("\n{report}\n");
    }
    if summary.paused {
        let why = summary.paused_by.as_deref().unwrap_or("Paused; the same command goes on");
        out += &format!("\n{why}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_wide_texts_fit_their_columns() {
        assert_eq!(shortened("a  b\nc", 10), "a b c");
        assert_eq!(shortened("abcdef", 5), "abcd…");
        let wide = shortened(&"漢".repeat(40), 21);
        assert!(wide.ends_with('…') && wide.chars().map(width).sum::<usize>() <= 21, "{wide}");
    }
}
