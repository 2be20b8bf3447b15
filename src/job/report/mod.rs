//! One page with plots of what the corpus holds: a single HTML file that asks nothing of the network. A part whose data is
//! not there yet says so, and which command brings it.

pub(in crate::job) mod plots;

use crate::classify;
use crate::job::file::replace;
use crate::job::model::{FoundModel, ModelSource};
use crate::job::service::Origin;
use crate::monitor::Monitor;
use crate::store::{BlobId, Completeness, CrossCount, GrowthRow, RunRow, Store, StoreError, WindowCount, WordCount};
use crate::taxonomy::{Function, KnowledgeType};
use plots::{count, escape};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../exports/report.html");
/// Name of the page in the folder of an export.
pub const FILE: &str = "report.html";
/// Bars in one plot; the rest is one bar.
const BARS: usize = 12;
/// Texts whose predictions are in hand at once.
const PAGE_TEXTS: usize = 5_000;

/// Why no report was written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The corpus could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stored predictions cannot be read.
    #[error(
        "Failed to read the predictions on blob {blob}: {source}; `aac classify` after deleting its row makes them anew"
    )]
    Predictions {
        /// Key of the blob.
        blob: i64,
        /// What is wrong.
        source: classify::pack::PackError,
    },
    /// The file could not be written.
    #[error("Failed to write {path}: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What was written.
#[derive(Debug, Clone, Serialize)]
pub struct ReportSummary {
    /// The file.
    pub report: PathBuf,
    /// Bytes.
    pub bytes: u64,
    /// Parts whose data is not there yet.
    pub missing: Vec<&'static str>,
}

/// Write the report on `store` to `file`, replacing an earlier one in one step. `model` is the one whose figures are shown.
pub async fn report(
    store: &Store,
    model: &FoundModel,
    file: &Path,
    monitor: &dyn Monitor,
) -> Result<ReportSummary, ReportError> {
    monitor.begin("report", None);
    let page = page(store, model).await;
    monitor.end();
    let (html, missing) = page?;
    let failed = |source| ReportError::Write { path: file.to_owned(), source };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    replace(file, html.as_bytes()).map_err(failed)?;
    Ok(ReportSummary { report: file.to_owned(), bytes: html.len() as u64, missing })
}

/// The sections in the making.
#[derive(Default)]
struct Sections {
    html: String,
    missing: Vec<&'static str>,
}

impl Sections {
    fn plot(&mut self, wide: bool, title: &str, text: &str, svg: &str, rows: &[(String, String)]) {
        let class = if wide { " class=\"wide\"" } else { "" };
        let svg = if wide { format!("<div class=\"scroll\" tabindex=\"0\">{svg}</div>") } else { svg.to_owned() };
        let rows: String =
            rows.iter().map(|(a, b)| format!("<tr><td>{}</td><td>{}</td></tr>", escape(a), escape(b))).collect();
        let table = if rows.is_empty() {
            String::new()
        } else {
            format!("<details><summary>The figures</summary><table>{rows}</table></details>")
        };
        self.html +=
            &format!("<section{class}><h2>{}</h2><p>{}</p>{svg}{table}</section>\n", escape(title), escape(text));
    }

    fn absent(&mut self, title: &'static str, why: &str) {
        self.missing.push(title);
        self.html += &format!(
            "<section class=\"none\"><h2>{}</h2><p>Not there yet: {}</p></section>\n",
            escape(title),
            escape(why)
        );
    }

    /// Bars of words, the rarest together as one.
    fn words(&mut self, title: &str, text: &str, id: &str, counts: &[WordCount], unknown: &str) {
        let named = |w: &WordCount| if w.word.is_empty() { unknown.to_owned() } else { w.word.clone() };
        let mut rows: Vec<(String, i64)> = counts.iter().map(|w| (named(w), w.count)).collect();
        let all: Vec<(String, String)> = rows.iter().map(|(word, n)| (word.clone(), count(*n))).collect();
        if rows.len() > BARS {
            let rest = rows.split_off(BARS - 1);
            rows.push((format!("{} others", rest.len()), rest.iter().map(|(_, n)| n).sum()));
        }
        self.plot(false, title, text, &plots::bars(id, title, &rows), &all);
    }
}

async fn page(store: &Store, model: &FoundModel) -> Result<(String, Vec<&'static str>), ReportError> {
    let counts = store.counts().await?;
    let runs = store.runs().await?;
    let mut sections = Sections::default();
    functions(&mut sections, &store.platform_functions().await?, &store.platform_counts().await?);
    sizes(&mut sections, &store.blob_sizes().await?);
    sections.words(
        "Languages",
        "Artifacts by the primary language of their repository.",
        "lang",
        &store.language_counts().await?,
        "not known",
    );
    licences(&mut sections, &store.tier_counts().await?);
    for (dimension, title, text) in [
        ("authorship", "Authorship", "By evidence only; nothing is concluded from absence."),
        ("specificity", "Specificity", "How far an artifact is bound to its project."),
    ] {
        let values = store.tag_value_counts(dimension).await?;
        if values.iter().any(|v| !v.word.is_empty()) {
            sections.words(title, text, dimension, &values, "not tagged");
        } else {
            sections.absent(title, "`aac tag` says it.");
        }
    }
    types(&mut sections, store).await?;
    duplicates(&mut sections, &counts, &store.cluster_sizes().await?);
    completeness(&mut sections, &store.completeness().await?, &store.window_counts().await?);
    requests(&mut sections, &runs);
    quality(&mut sections, model);
    growth(&mut sections, &store.growth().await?);
    let tile = |n: i64, what: &str| format!("<div><b>{}</b><span>{what}</span></div>", count(n));
    let tiles = [
        tile(counts.artifacts, "artifacts"),
        tile(counts.repos, "repositories"),
        tile(counts.blobs, "distinct texts"),
        tile(counts.items, "items"),
        tile(counts.versions, "versions"),
        tile(counts.bytes / 1_000_000, "MB of text"),
    ];
    let mut last = runs.last().map_or_else(
        || "No run yet".to_owned(),
        |run| format!("Last run: {} on {}, run {}", run.command, day(run.started_at), run.id.0),
    );
    if Origin::of(store).await? == Origin::Sandbox {
        last += ". Crawled from a sandbox: these are no repositories of GitHub";
    }
    let html = PAGE
        .replace("{{title}}", "Agent artifacts: what the corpus holds")
        .replace("{{subtitle}}", &escape(&last))
        .replace("{{tiles}}", &tiles.concat())
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{sections}}", &sections.html);
    Ok((html, sections.missing))
}

fn functions(sections: &mut Sections, cells: &[CrossCount], platforms: &[crate::store::PlatformCount]) {
    let rows: Vec<String> = platforms.iter().map(|p| p.platform.clone()).collect();
    if cells.is_empty() {
        sections.absent("Platforms × functions", "`aac tag` says what each artifact is for.");
        let bars: Vec<(String, i64)> = platforms.iter().map(|p| (p.platform.clone(), p.artifacts)).collect();
        let table: Vec<_> = bars.iter().map(|(word, n)| (word.clone(), count(*n))).collect();
        sections.plot(
            false,
            "Platforms",
            "Artifacts by the platform that owns their path.",
            &plots::bars("plat", "Platforms", &bars),
            &table,
        );
        return;
    }
    let known: HashMap<(&str, &str), i64> = cells.iter().map(|c| ((c.row.as_str(), c.col.as_str()), c.count)).collect();
    let used = |f: &&Function| cells.iter().any(|c| c.col == f.as_str());
    let columns: Vec<String> = Function::ALL.iter().filter(used).map(ToString::to_string).collect();
    let at = |row: &str, column: &str| known.get(&(row, column)).copied().unwrap_or(0);
    let svg = plots::heat("heat", "Platforms × functions", &rows, &columns, at);
    let table: Vec<_> = cells.iter().map(|c| (format!("{} · {}", c.row, c.col), count(c.count))).collect();
    sections.plot(
        true,
        "Platforms × functions",
        "Artifacts by the platform that owns their path and what they are for. \
        Shades follow the logarithm.",
        &svg,
        &table,
    );
}

fn sizes(sections: &mut Sections, sizes: &[i64]) {
    let Some(median) = sizes.get(sizes.len() / 2) else {
        sections.absent("Sizes", "the corpus holds no text.");
        return;
    };
    // Powers of two: class k holds sizes from 2^k to 2^(k+1) − 1; the first holds everything below 16 bytes.
    let class = |size: i64| (size.max(1).ilog2().max(3) - 3) as usize;
    let mut columns = vec![0i64; class(*sizes.last().unwrap_or(&1)) + 1];
    for size in sizes {
        columns[class(*size)] += 1;
    }
    let label = |k: usize| match (k, 1i64 << (k + 3)) {
        (0, _) => "<16".to_owned(),
        (_, bytes) if bytes >= 1 << 20 => format!("{}M", bytes >> 20),
        (_, bytes) if bytes >= 1 << 10 => format!("{}K", bytes >> 10),
        (_, bytes) => bytes.to_string(),
    };
    let columns: Vec<(String, i64)> = columns.into_iter().enumerate().map(|(k, n)| (label(k), n)).collect();
    let exact = (*median.max(&8) as f64).log2() - 3.0;
    let mark = (exact.max(0.0), format!("median {} bytes", count(*median)));
    let svg = plots::histogram("size", "Sizes of distinct texts", &columns, Some(mark));
    let table: Vec<_> = columns.iter().map(|(from, n)| (format!("from {from} bytes"), count(*n))).collect();
    sections.plot(
        true,
        "Sizes",
        &format!(
            "Distinct texts by bytes, the median {}; each column is twice as wide as the one before.",
            count(*median)
        ),
        &svg,
        &table,
    );
}

fn licences(sections: &mut Sections, tiers: &[WordCount]) {
    if tiers.iter().all(|tier| tier.word.is_empty()) {
        sections.absent("Licences", "`aac tag` judges the licence of each repository.");
        return;
    }
    sections.words(
        "Licences",
        "Artifacts by how freely their repository's licence lets a text be passed on.",
        "lic",
        tiers,
        "not judged",
    );
}

fn duplicates(sections: &mut Sections, counts: &crate::store::Counts, clusters: &[i64]) {
    let mut rows = vec![("artifacts".to_owned(), counts.artifacts), ("distinct texts".to_owned(), counts.blobs)];
    if clusters.is_empty() {
        let svg = plots::bars("dup", "Duplicates", &rows);
        let table: Vec<_> = rows.iter().map(|(w, n)| (w.clone(), count(*n))).collect();
        sections.plot(
            false,
            "Duplicates",
            "Exact ones. Near-duplicates are not there yet: `aac dedup` finds them.",
            &svg,
            &table,
        );
        return;
    }
    let members: i64 = clusters.iter().sum();
    rows.push(("after near-dup.".to_owned(), counts.blobs - members + clusters.len() as i64));
    let svg = plots::bars("dup", "Duplicates", &rows);
    let mut table: Vec<_> = rows.iter().map(|(w, n)| (w.clone(), count(*n))).collect();
    table.push(("clusters of two or more".to_owned(), count(clusters.len() as i64)));
    table.push(("largest cluster".to_owned(), count(clusters.first().copied().unwrap_or(0))));
    let text = format!(
        "{} clusters of near-duplicates; the largest has {} texts.",
        count(clusters.len() as i64),
        count(clusters.first().copied().unwrap_or(0))
    );
    sections.plot(false, "Duplicates", &text, &svg, &table);
}

/// Shares of the predicted types by platform. A text that several platforms hold counts for each of them.
async fn types(sections: &mut Sections, store: &Store) -> Result<(), ReportError> {
    let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut after = BlobId(0);
    loop {
        let page = store.platform_predictions_after(after, PAGE_TEXTS).await?;
        let Some(last) = page.last() else { break };
        after = BlobId(last.blob_id);
        for row in page {
            let failed = |source| ReportError::Predictions { blob: row.blob_id, source };
            let found = classify::pack::unpack(&row.packed).map_err(failed)?;
            for platform in row.platforms.split(',') {
                let types = counts.entry(platform.to_owned()).or_insert_with(|| vec![0; KnowledgeType::ALL.len()]);
                for prediction in &found {
                    types[prediction.item_type.index()] += 1;
                }
            }
        }
    }
    let total = |types: &[i64]| types.iter().sum::<i64>();
    let mut rows: Vec<(String, Vec<i64>)> = counts.into_iter().filter(|(_, types)| total(types) > 0).collect();
    if rows.is_empty() {
        sections.absent("Knowledge types per platform", "`aac classify` predicts them.");
        return Ok(());
    }
    rows.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then_with(|| a.0.cmp(&b.0)));
    let classes: Vec<String> = KnowledgeType::ALL.iter().map(ToString::to_string).collect();
    let mut table = Vec::new();
    for (platform, types) in &rows {
        table.extend(classes.iter().zip(types).map(|(class, n)| (format!("{platform} · {class}"), count(*n))));
    }
    sections.plot(
        false,
        "Knowledge types per platform",
        "Share of items by predicted type, in percent. Predictions of the model, not labels.",
        &plots::shares("types", "Knowledge types per platform", &rows, &classes),
        &table,
    );
    Ok(())
}

fn completeness(sections: &mut Sections, targets: &[Completeness], windows: &[WindowCount]) {
    if windows.is_empty() {
        sections.absent("Completeness", "there was no crawl; local repositories are complete by nature.");
        return;
    }
    let sum = |of: fn(&Completeness) -> i64| targets.iter().map(of).sum::<i64>();
    let rows = vec![
        ("reached".to_owned(), sum(|t| t.hits)),
        ("missed".to_owned(), sum(|t| t.missing)),
        ("unreachable".to_owned(), sum(|t| t.unreachable)),
    ];
    let mut table: Vec<_> = rows.iter().map(|(w, n)| (format!("hits {w}"), count(*n))).collect();
    // Split windows are replaced by narrower ones and would count twice.
    let settled = windows.iter().filter(|w| w.state != "split");
    table.extend(settled.map(|w| (format!("windows {}", w.state), count(w.windows))));
    sections.plot(
        false,
        "Completeness",
        "Hits of the last crawl: those that search delivered, those that it announced and did not deliver, and those \
        beyond any query.",
        &plots::bars("win", "Completeness", &rows),
        &table,
    );
}

fn requests(sections: &mut Sections, runs: &[RunRow]) {
    let crawl = runs.iter().rev().filter(|run| run.command == "crawl").find_map(|run| run.summary.as_ref());
    let number = |summary: &Value, at: &str| summary.pointer(at).and_then(Value::as_i64);
    let found = crawl.and_then(|s| Some((number(s, "/requests/code_search")?, number(s, "/lower_bound")?)));
    let Some((asked, bound)) = found else {
        sections.absent("Requests", "there was no crawl that ended.");
        return;
    };
    let rows = vec![("code searches".to_owned(), asked), ("lower bound".to_owned(), bound)];
    let text = format!(
        "Code searches of the last crawl against the lower bound: {:.2} times.",
        asked as f64 / bound.max(1) as f64
    );
    let table: Vec<_> = rows.iter().map(|(w, n)| (w.clone(), count(*n))).collect();
    sections.plot(false, "Requests", &text, &plots::bars("req", "Requests", &rows), &table);
}

fn quality(sections: &mut Sections, model: &FoundModel) {
    let notes = &model.notes;
    let row = |(key, label): (&str, &str)| {
        let value = notes.pointer(&format!("/nested_cross_validation/{key}"))?;
        let part = |key: &str| value.get(key).and_then(Value::as_f64);
        Some((label.to_owned(), part("value")?, part("low")?, part("high")?))
    };
    let rows: Vec<_> = [
        ("accuracy", "accuracy, six types"),
        ("macro_f1", "macro-F1 without episodic"),
        ("constraint_f1", "constraint F1, balanced point"),
        ("safe_recall", "constraint recall, safe point"),
        ("safe_flagged", "items flagged, safe point"),
    ]
    .into_iter()
    .filter_map(row)
    .collect();
    if rows.is_empty() {
        sections.absent("Classifier", "the model in use has no figures stored with it.");
        return;
    }
    let table: Vec<_> = rows.iter().map(|(w, v, l, h)| (w.clone(), format!("{v:.3} ({l:.3}–{h:.3})"))).collect();
    let which = if model.source == ModelSource::CompiledIn { "The shipped model" } else { "The model in use" };
    let text = format!(
        "{which} on its own gold labels (nested cross-validation by repository), with 95 % intervals: figures of the \
         model, not of this corpus."
    );
    sections.plot(false, "Classifier", &text, &plots::intervals("qual", "Classifier", &rows), &table);
}

fn growth(sections: &mut Sections, runs: &[GrowthRow]) {
    if runs.is_empty() {
        sections.absent("Growth", "no run has brought an artifact.");
        return;
    }
    if let [only] = runs {
        let why = format!("one run has brought {} artifacts; a second one makes a line.", count(only.artifacts));
        sections.absent("Growth", &why);
        return;
    }
    let mut sum = 0;
    let points: Vec<(String, i64)> = runs
        .iter()
        .map(|run| {
            sum += run.artifacts;
            (day(run.started_at), sum)
        })
        .collect();
    let table: Vec<_> = runs
        .iter()
        .map(|r| (format!("run {} ({}, {})", r.id, r.command, day(r.started_at)), format!("+{}", count(r.artifacts))))
        .collect();
    sections.plot(false, "Growth", "Artifacts ever seen, by run.", &plots::line("grow", "Growth", &points), &table);
}

fn day(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds)
        .map_or_else(|_| "an unknown day".to_owned(), |t| t.strftime("%F").to_string())
}
