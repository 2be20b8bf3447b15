//! `aac gold agree`, `aac gold adjudicate` and `aac gold status`.

use crate::cli::output::table;
use crate::cli::{Context, Exit, Failure};
use crate::job::gold::agree::{Agreement, PairAgreement, Shown, ViewAgreement, agreement, verdict_agreement};
use crate::job::gold::dispute::{Dispute, disputes};
use crate::job::gold::rubric_version;
use crate::job::gold::view::{has_text, view};
use crate::segment::flatten;
use crate::store::{NewDecision, Store};
use crate::taxonomy::{KnowledgeType, LabelOrigin};
use clap::Args;
use serde::Serialize;

/// Disagreements shown to people; `--json` has all.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct AgreeArgs {}

#[derive(Debug, Args)]
pub(super) struct AdjudicateArgs {
    /// Item to settle; without it, the disagreements are listed
    #[arg(value_name = "ITEM", requires_all = ["as_type", "why", "by"])]
    item: Option<String>,
    /// Its type
    #[arg(long = "type", id = "as_type", value_name = "TYPE", value_parser = knowledge_type, requires = "item")]
    as_type: Option<KnowledgeType>,
    /// The reason
    #[arg(long, value_name = "TEXT", requires = "item")]
    why: Option<String>,
    /// Who decides
    #[arg(long, value_name = "NAME", requires = "item")]
    by: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {}

fn knowledge_type(word: &str) -> Result<KnowledgeType, String> {
    word.parse::<KnowledgeType>().map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct Agreements {
    labels: Agreement,
    verdicts: Agreement,
}

pub(super) async fn agree(context: &Context, _args: &AgreeArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let found = Agreements { labels: agreement(&store).await?, verdicts: verdict_agreement(&store).await? };
    store.close().await;
    context.output.print(&found, |found| {
        let mut out = agreed("Types of items", &found.labels);
        if found.verdicts.items > 0 {
            out += &agreed("\nCompacted constraints", &found.verdicts);
        }
        out
    })?;
    Ok(Exit::Done)
}

fn agreed(title: &str, found: &Agreement) -> String {
    let mut out = format!("{title}: {} items\n", found.items);
    if found.annotators.is_empty() {
        return out + "nobody has labelled anything yet; `aac gold serve` opens the pages\n";
    }
    let rows: Vec<Vec<String>> = found
        .annotators
        .iter()
        .map(|one| {
            let numbers = [one.counts.labelled, one.counts.skipped, one.counts.open];
            [one.name.clone(), one.origin.to_string()].into_iter().chain(numbers.map(|n| n.to_string())).collect()
        })
        .collect();
    out += &table(&["annotator", "is a", "labelled", "skipped", "open"], &rows);
    if !found.together.is_empty() {
        out += &format!("\nTogether: {}\n{}", found.together_of.join(", "), views(&found.together));
    }
    for pair in &found.pairs {
        out += &format!("\n{} and {}: {} items\n{}", pair.first, pair.second, pair.items, views(&pair.views));
        out += &confusion(pair);
    }
    out
}

fn views(views: &[ViewAgreement]) -> String {
    let cell = |shown: Option<&Shown>| shown.map_or_else(|| "–".to_owned(), ToString::to_string);
    let rows: Vec<Vec<String>> = views
        .iter()
        .map(|view| {
            vec![
                view.view.replace('_', " "),
                view.items.to_string(),
                cell(view.kappa.as_ref()),
                cell(Some(&view.alpha)),
                cell(Some(&view.ac1)),
                cell(Some(&view.observed)),
            ]
        })
        .collect();
    table(&["classes", "items", "Cohen's κ", "Krippendorff's α", "Gwet's AC1", "agreement"], &rows)
}

fn confusion(pair: &PairAgreement) -> String {
    let head: Vec<&str> = std::iter::once("").chain(pair.classes.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = pair
        .classes
        .iter()
        .zip(&pair.confusion)
        .map(|(class, counts)| std::iter::once(class.clone()).chain(counts.iter().map(u64::to_string)).collect())
        .collect();
    table(&head, &rows)
}

#[derive(Serialize)]
struct Adjudication {
    left: usize,
    settled: usize,
    disputes: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    dispute: Dispute,
    place: String,
    text: Option<String>,
}

pub(super) async fn adjudicate(context: &Context, args: &AdjudicateArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    if let (Some(item), Some(class), Some(why), Some(by)) = (&args.item, args.as_type, &args.why, &args.by) {
        if why.trim().is_empty() || by.trim().is_empty() {
            return Err(Failure::usage("Failed to settle: a decision needs a reason and a name"));
        }
        if store.gold_item(item).await?.is_none() {
            return Err(Failure::usage(format!("Failed to settle {item}: the gold set has no such item")));
        }
        let decision = NewDecision {
            item: item.clone(),
            class: Some(class.as_str().to_owned()),
            why: why.trim().to_owned(),
            by: by.trim().to_owned(),
            origin: LabelOrigin::Person,
            rubric: rubric_version(),
            action: None,
            at: jiff::Timestamp::now().as_millisecond(),
        };
        store.put_decision(&decision).await?;
    }
    let found = list(&store).await?;
    store.close().await;
    context.output.print(&found, |found| {
        let mut lines = vec![format!("{} disagreements left, {} settled", found.left, found.settled)];
        let open = found.disputes.iter().filter(|listed| listed.dispute.decided.is_none());
        for listed in open.take(SHOWN) {
            let sides: Vec<&str> = listed.dispute.sides.iter().map(|side| side.class.as_str()).collect();
            lines.push(format!("{}  {}  {}", listed.dispute.item, sides.join(" / "), listed.place));
            lines.push(format!("    {}", flatten(listed.text.as_deref().unwrap_or("(no text in this corpus)"))));
        }
        if found.left > SHOWN {
            lines.push(format!("… and {} more; --json lists all", found.left - SHOWN));
        }
        if found.left > 0 {
            lines.push(
                "Settle them on the page of `aac gold serve`, or one by one: aac gold adjudicate ITEM --type TYPE --why \
                 TEXT --by NAME"
                    .to_owned(),
            );
        }
        lines.join("\n")
    })?;
    Ok(Exit::Done)
}

async fn list(store: &Store) -> Result<Adjudication, Failure> {
    let found = disputes(store).await?;
    let settled = found.iter().filter(|dispute| dispute.decided.is_some()).count();
    let mut listed = Vec::with_capacity(found.len());
    let left = found.len() - settled;
    for dispute in found {
        let Some(item) = store.gold_item(&dispute.item).await? else { continue };
        let text = view(store, &item).await?.map(|view| view.text);
        listed.push(Listed { dispute, place: format!("{} {}:{}", item.repo, item.path, item.line), text });
    }
    Ok(Adjudication { left, settled, disputes: listed })
}

#[derive(Serialize)]
struct Status {
    items: usize,
    with_text: usize,
    samples: usize,
    rubric: i64,
    settled: usize,
    disputes_left: usize,
    disputes_settled: usize,
    annotators: Vec<crate::job::gold::agree::Annotator>,
    to_verify: usize,
    next: Vec<String>,
}

pub(super) async fn status(context: &Context, _args: &StatusArgs) -> Result<Exit, Failure> {
    let store = context.open().await?;
    let items = store.gold_items().await?;
    let found = disputes(&store).await?;
    let settled = found.iter().filter(|dispute| dispute.decided.is_some()).count();
    let agreement = agreement(&store).await?;
    let mut status = Status {
        items: items.len(),
        with_text: items.iter().filter(|item| has_text(item)).count(),
        samples: store.samples().await?.len(),
        rubric: rubric_version(),
        settled: items.iter().filter(|item| item.final_type.is_some()).count(),
        disputes_left: found.len() - settled,
        disputes_settled: settled,
        annotators: agreement.annotators,
        to_verify: store.check_items().await?.len(),
        next: Vec::new(),
    };
    store.close().await;
    status.next = next(&status);
    context.output.print(&status, |status| {
        let mut lines = vec![format!(
            "{} items, {} with a text, {} settled; rubric {}",
            status.items, status.with_text, status.settled, status.rubric
        )];
        for one in &status.annotators {
            let n = &one.counts;
            lines.push(format!(
                "  {} ({}): {} labelled, {} skipped, {} open, {} flagged",
                one.name, one.origin, n.labelled, n.skipped, n.open, n.flagged
            ));
        }
        lines.push(format!("{} disagreements left, {} settled", status.disputes_left, status.disputes_settled));
        if status.to_verify > 0 {
            lines.push(format!("{} constraints to verify", status.to_verify));
        }
        lines.extend(status.next.iter().map(|command| format!("Next: {command}")));
        lines.join("\n")
    })?;
    Ok(Exit::Done)
}

fn next(status: &Status) -> Vec<String> {
    let people = status.annotators.iter().filter(|one| one.origin == LabelOrigin::Person);
    let mut next = Vec::new();
    if status.items == 0 {
        next.push("aac gold sample".to_owned());
    } else if people.clone().all(|one| one.counts.open > 0) || people.count() < 2 {
        next.push("aac gold serve".to_owned());
    }
    if status.disputes_left > 0 {
        next.push("aac gold adjudicate".to_owned());
    }
    next
}
