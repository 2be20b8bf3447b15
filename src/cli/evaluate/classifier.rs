//! `aac evaluate classifier` and `aac evaluate phrasing`.

use super::super::llm::LlmArgs;
use super::super::output::table;
use super::super::tune::TuneArgs;
use super::super::{Context, Exit, Failure};
use crate::classify::metrics::{CostPoint, Interval};
use crate::job::encoders::EncoderPlace;
use crate::job::evaluate::asked::{AskedJob, NotRun};
use crate::job::evaluate::classifier::{
    Basis, ClassifierEvaluation, ClassifierJob, EvaluateError, Method, PhrasingEvaluation, VariantScore,
    evaluate_classifier, evaluate_phrasings,
};
use crate::job::evaluate::figure::{Series, recall_by_cost};
use crate::job::evaluate::folds::{FoldsJob, FoldsReport};
use crate::job::hydrate::TextSource;
use crate::job::model::{Variant, find_model};
use crate::job::retrieve::write_aside;
use crate::job::train::TrainJobError;
use crate::llm::LlmReport;
use crate::plan::Targets;
use crate::segment::flatten;
use crate::store::Store;
use crate::taxonomy::KnowledgeType;
use crate::train::evaluate::{PhrasingScore, Slice};
use clap::Args;
use std::path::PathBuf;

/// Slices shown to people; `--json` has them all.
const SLICES: usize = 8;
/// The recall whose cost the figure's legend says: what the safe point is to reach.
const WANTED_RECALL: f64 = 0.93;

#[derive(Debug, Args)]
pub(super) struct ClassifierArgs {
    /// Label files to score the model on as it stands [default: cross-validate on the labels that come with aac]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    gold: Vec<PathBuf>,
    /// Git repositories to find the texts of labels in, in place of the corpus
    #[arg(long, value_name = "DIR", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Folder of the model [default: AAC_MODEL, the user's data folder, the one compiled in]
    #[arg(long, value_name = "DIR", requires = "gold")]
    model: Option<PathBuf>,
    /// Score this variant too, which asks a language model: llm, cascade, cascade+abstain or safety-margin
    #[arg(long, value_name = "NAME", num_args = 1.., alias = "variant")]
    classifier: Vec<String>,
    /// Sentence encoder, whose prototypes are scored, too: minilm:DIR or hf:ID [default: AAC_ENCODER]
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<EncoderPlace>,
    /// Score the encoder tier: fine-tune the encoder once for every fold that is held out, resumable by fold and epoch
    #[arg(long, requires = "folds_in", conflicts_with = "model")]
    finetune: bool,
    /// Folder that keeps what the folds found out
    #[arg(long, value_name = "DIR", requires = "finetune")]
    folds_in: Option<PathBuf>,
    /// Fine-tune for the first N folds only; the figures are of those that are there
    #[arg(long, value_name = "N", requires = "finetune", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=5))]
    folds: Option<usize>,
    #[command(flatten)]
    tune: TuneArgs,
    /// How many labelled items the language model is asked about, drawn evenly [default: all]
    #[arg(long, value_name = "N", requires = "classifier", value_parser = clap::value_parser!(u32).range(1..))]
    take: Option<u32>,
    #[command(flatten)]
    llm: LlmArgs,
}

#[derive(Debug, Args)]
pub(super) struct MoreArgs {
    #[command(flatten)]
    common: ClassifierArgs,
    /// Measure how accuracy grows with the number of gold labels
    #[arg(long, conflicts_with = "gold")]
    curve: bool,
    /// Score the linear tier with clusters of sentence vectors (HDBSCAN) among its features, too; needs an encoder
    #[arg(long, conflicts_with_all = ["gold", "finetune"])]
    clusters: bool,
    /// Show the worst errors, 30 unless said otherwise
    #[arg(long, value_name = "N", num_args = 0..=1, default_value_t = 0, default_missing_value = "30")]
    errors: usize,
    /// Draw what finding constraints costs into this SVG file
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

pub(super) async fn classifier(context: &Context, args: &MoreArgs) -> Result<Exit, Failure> {
    let targets = Targets::embedded()?;
    let platform =
        |path: &str| targets.owner(path).map_or_else(|| "none".to_owned(), |o| o.target.platform.to_string());
    let job = ClassifierJob {
        clusters: args.clusters,
        curve: args.curve,
        errors: args.errors,
        ..job(context, &args.common)?
    };
    if job.clusters && job.encoder.is_none() {
        return Err(Failure::without_encoder("cluster sentence vectors"));
    }
    let store = open(context, &args.common).await?;
    let scored = evaluate_classifier(&job, texts(&store, &args.common).as_ref(), platform, &context.terminal).await;
    close(store).await;
    let scored = scored.map_err(ended)?;
    if let Some(path) = &args.figure {
        write_aside(path, cost_figure(&scored).as_bytes())?;
    }
    context.output.print(&scored, classifier_text)?;
    Ok(Exit::Done)
}

pub(super) async fn phrasing(context: &Context, args: &ClassifierArgs) -> Result<Exit, Failure> {
    let job = job(context, args)?;
    let store = open(context, args).await?;
    let scored = evaluate_phrasings(&job, texts(&store, args).as_ref(), &context.terminal).await;
    close(store).await;
    context.output.print(&scored.map_err(ended)?, phrasing_text)?;
    Ok(Exit::Done)
}

fn job(context: &Context, args: &ClassifierArgs) -> Result<ClassifierJob, Failure> {
    let mut places = context.model_places(args.model.as_ref())?;
    places.encoder = args.encoder.clone().or(places.encoder);
    let folds = match (&args.folds_in, &places.encoder) {
        (None, _) => None,
        (Some(_), None) => {
            return Err(Failure::without_encoder("fine-tune"));
        }
        (Some(folder), Some(encoder)) => {
            let options = args.tune.options();
            let folds = args.folds.unwrap_or(options.labels.folds);
            Some(FoldsJob { encoder: encoder.clone(), options, folder: folder.clone(), folds })
        }
    };
    let model = find_model(&places).map_err(Failure::usage)?.model;
    let variants = args.classifier.iter().map(|name| name.parse::<Variant>().map_err(Failure::usage));
    let mut asked = AskedJob { variants: Vec::new(), take: args.take.map(|n| n as usize) };
    let mut asker = None;
    for variant in variants {
        // The others are scored anyway, as far as they have what they need.
        let Variant::Llm(variant) = variant? else { continue };
        let shared = match &asker {
            Some(shared) => std::sync::Arc::clone(shared),
            None => args.llm.asker(context)?.ok_or_else(|| Failure::usage(variant.without_model()))?,
        };
        asker = Some(shared.clone());
        asked.variants.push(args.llm.classifier(context, variant, shared, &places)?.into());
    }
    let (clusters, curve, errors) = (false, false, 0);
    Ok(ClassifierJob { gold: args.gold.clone(), model, encoder: places.encoder, folds, asked, clusters, curve, errors })
}

async fn open(context: &Context, args: &ClassifierArgs) -> Result<Option<Store>, Failure> {
    Ok(if args.from.is_empty() && context.db.exists() { Some(context.open().await?) } else { None })
}

fn texts<'s>(store: &'s Option<Store>, args: &ClassifierArgs) -> Option<TextSource<'s>> {
    match store {
        Some(store) => Some(TextSource::Corpus(store)),
        None if args.from.is_empty() => None,
        None => Some(TextSource::Repositories(args.from.clone())),
    }
}

async fn close(store: Option<Store>) {
    if let Some(store) = store {
        store.close().await;
    }
}

/// Labels that cannot be scored are the caller's to mend.
fn ended(error: EvaluateError) -> Failure {
    match error {
        EvaluateError::Llm(error) => Failure::of_model(error),
        EvaluateError::Finetune(TrainJobError::Paused { .. }) => {
            Failure { exit: Exit::Paused, message: error.to_string() }
        }
        EvaluateError::Worker(_) | EvaluateError::Finetune(TrainJobError::Worker(_)) => error.into(),
        error => Failure::usage(error),
    }
}

fn three(x: f64) -> String {
    format!("{x:.3}")
}

fn interval(i: Interval) -> String {
    format!("{:.3} ({:.3}–{:.3})", i.value, i.low, i.high)
}

fn basis_text(basis: &Basis, items: usize) -> String {
    let mut out = match basis.method {
        Method::NestedCrossValidation => format!(
            "{items} items that come with aac, labelled by language models; nested cross-validation,\n\
             whole repositories held out: the figures of `trained` are of its recipe\n"
        ),
        Method::FoldByFold => format!(
            "{items} labelled items; an encoder fine-tuned for every fold without what it answers, whole repositories\n\
             held out, mixing and thresholds from the other folds\n"
        ),
        Method::AsItStands => format!("{items} labelled items; model {} as it stands\n", basis.model),
    };
    let texts = &basis.texts;
    if texts.missed() > 0 {
        out += &format!("{} labels have no text here and are left out:\n", texts.missed());
        for (why, n) in &texts.missing {
            out += &format!("  {n}: {}\n", why.advice());
        }
    }
    if basis.seen > 0 {
        out += &format!("The model was fitted on {} of them: its figures here flatter it\n", basis.seen);
    }
    out
}

fn classifier_text(found: &ClassifierEvaluation) -> String {
    let items = found.variants.last().map_or(0, |v| v.figures.items);
    let mut out = basis_text(&found.basis, items);
    out += &format!("\n{}", table_9(found));
    if let Some(trained) = found.variants.last() {
        out += &format!("\n{}", table_4(found, trained));
        out += &format!("\n{}", safe_text(trained));
    }
    if let Some(folds) = &found.folds {
        out += &format!("\n{}", folds_text(folds));
    }
    for p in &found.pairings {
        out += &format!(
            "\n{} against {}: only the first right {}, only the second {}, McNemar p = {:.2e}\n",
            p.a, p.b, p.only_a, p.only_b, p.p_value
        );
    }
    if let Some(a) = &found.agreement {
        out += &format!(
            "Annotators on {} items (ceiling): equal {:.3}, kappa {:.2}, constraint kappa {:.2}, F1 {:.3}\n",
            a.items, a.observed, a.kappa, a.constraint_kappa, a.constraint_f1
        );
    }
    if let Some(trained) = found.variants.last() {
        out += &format!("\n{}", slices("programming language", &trained.figures.by_language));
        out += &format!("\n{}", slices("platform", &trained.figures.by_platform));
        out += &format!("\n{}", slices("natural language", &trained.figures.by_natural_language));
        out +=
            "natural language: of the item with its headings and neighbours; unclear where there is too little text\n";
    }
    if let Some(curve) = &found.learning_curve {
        let rows: Vec<Vec<String>> = curve
            .iter()
            .map(|p| vec![format!("{:.0} %", 100.0 * p.share), three(p.accuracy), three(p.constraint_f1)])
            .collect();
        out += "\nLearning curve, gold labels alone\n";
        out += &table(&["repositories", "accuracy", "constraint F1"], &rows);
    }
    if !found.errors.is_empty() {
        out += "\nWorst errors\n";
        for e in &found.errors {
            out += &format!("  {} {}:{}\n", e.id, e.repo, e.path);
            out +=
                &format!("    is {}, called {} (p = {:.3}): {}\n", e.label, e.given, e.probability, flatten(&e.text));
        }
    }
    out += "\nNot comparable:\n";
    for why in found.not_comparable {
        out += &format!("  {why}\n");
    }
    out
}

fn table_9(found: &ClassifierEvaluation) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for v in &found.variants {
        rows.push(vec![
            v.name.clone(),
            three(v.constraint_recall),
            three(v.figures.constraint_f1.value),
            three(v.figures.macro_f1.value),
            three(v.figures.accuracy.value),
            v.microseconds.map_or_else(|| "–".to_owned(), |us| format!("{us:.0} µs")),
        ]);
        rows.push(vec![
            "  95 % interval".to_owned(),
            String::new(),
            format!("{:.2}–{:.2}", v.figures.constraint_f1.low, v.figures.constraint_f1.high),
            format!("{:.2}–{:.2}", v.figures.macro_f1.low, v.figures.macro_f1.high),
            format!("{:.2}–{:.2}", v.figures.accuracy.low, v.figures.accuracy.high),
            String::new(),
        ]);
    }
    for v in found.paper_table_9 {
        rows.push(vec![
            format!("paper: {}", v.name),
            format!("{:.2}", v.constraint_recall),
            format!("{:.2}", v.constraint_f1),
            format!("{:.2}", v.macro_f1),
            format!("{:.2}", v.accuracy),
            v.latency.to_owned(),
        ]);
    }
    let mut out = table(&["Table 9", "C-recall", "C-F1", "macro-F1", "accuracy", "latency"], &rows);
    let five: Vec<String> = found.variants.iter().map(|v| format!("{} {:.3}", v.name, v.five_class_macro_f1)).collect();
    out += "macro-F1: ours over constraint, procedural, belief, preference, meta; theirs over five types\n";
    out += &format!("with episodic and without meta items: {}\n", five.join(", "));
    if let Some(c) = &found.clusters {
        out += &format!(
            "linear+clusters: HDBSCAN on {} of {} directions of the vectors of {} of {} items; {} clusters, {:.0} % of items in none\n",
            c.directions[1],
            c.directions[0],
            c.drawn,
            c.items,
            c.clusters,
            100.0 * c.noise
        );
    }
    out + &asked_text(found.llm.as_ref(), &found.not_run)
}

/// What asking came to, and which variants have no figures.
fn asked_text(report: Option<&LlmReport>, not_run: &[NotRun]) -> String {
    let mut out = report.map_or_else(String::new, |report| format!("{report}\n"));
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in not_run {
        match by_reason.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, names)) => names.push(one.name),
            None => by_reason.push((one.why, vec![one.name])),
        }
    }
    for (why, names) in by_reason {
        out += &format!("not run: {}; {why}\n", names.join(", "));
    }
    out
}

fn table_4(found: &ClassifierEvaluation, trained: &VariantScore) -> String {
    let items = trained.figures.items.max(1) as f64;
    let rows: Vec<Vec<String>> = trained
        .figures
        .classes
        .iter()
        .map(|(t, s)| {
            let mut row = vec![t.to_string(), format!("{:.1}", 100.0 * s.support as f64 / items)];
            row.extend([s.precision, s.recall, s.f1].map(three));
            let paper = found.paper_table_4.iter().find(|p| p.name == t.as_str());
            row.extend(match paper {
                Some(p) => [
                    format!("{:.1}", p.percent),
                    format!("{:.2}", p.precision),
                    format!("{:.2}", p.recall),
                    format!("{:.2}", p.f1),
                ],
                None => ["–"; 4].map(str::to_owned),
            });
            row
        })
        .collect();
    table(&["Table 4", "%", "precision", "recall", "F1", "paper %", "P", "R", "F1"], &rows)
}

fn safe_text(trained: &VariantScore) -> String {
    let figures = &trained.figures;
    let mut out = format!(
        "Safe point: recall {}, items flagged {}, {:.1} % of tokens\nCalibration: ECE {:.3} of the type, {:.3} of constraints\n",
        interval(figures.safe_recall),
        interval(figures.safe_flagged),
        100.0 * figures.safe_tokens,
        figures.calibration_error,
        figures.constraint_calibration_error
    );
    let rows: Vec<Vec<String>> = [0.80, 0.85, 0.90, 0.93, 0.95, 0.98]
        .iter()
        .filter_map(|recall| figures.cost_curve.iter().find(|p| p.recall >= *recall))
        .map(|p| {
            vec![three(p.recall), three(p.flagged), three(p.cost), three(p.precision), format!("{:.4}", p.threshold)]
        })
        .collect();
    out += "What pinning costs:\n";
    out + &table(&["recall", "items", "tokens", "precision", "threshold"], &rows)
}

/// What an operator chooses from: recall of constraints against what is pinned for it.
fn cost_figure(found: &ClassifierEvaluation) -> String {
    let line = |name: String, of: &VariantScore, at: fn(&CostPoint) -> f64, reported: bool| Series {
        name,
        points: [(0.0, 0.0)].into_iter().chain(of.figures.cost_curve.iter().map(|p| (at(p), p.recall))).collect(),
        reported,
    };
    let mut series = Vec::new();
    if let Some((trained, others)) = found.variants.split_last() {
        series.push(line("trained, items".to_owned(), trained, |p| p.flagged, false));
        series.push(line("trained, tokens".to_owned(), trained, |p| p.cost, false));
        let safe = (trained.figures.safe_flagged.value, trained.figures.safe_recall.value);
        series.push(Series { name: "safe point, items".to_owned(), points: vec![safe], reported: false });
        series.extend(others.iter().map(|v| line(format!("{}, items", v.name), v, |p| p.flagged, true)));
    }
    let items = found.variants.last().map_or(0, |v| v.figures.items);
    let title = format!("Constraints found by what is pinned for it, {items} items");
    recall_by_cost(&title, "share pinned", &series, WANTED_RECALL)
}

fn slices(by: &str, slices: &[Slice]) -> String {
    let rows: Vec<Vec<String>> = slices
        .iter()
        .take(SLICES)
        .map(|s| {
            vec![
                s.name.clone(),
                s.items.to_string(),
                s.constraints.to_string(),
                three(s.accuracy),
                three(s.constraint_f1),
                three(s.safe_recall),
                three(s.safe_flagged),
            ]
        })
        .collect();
    let mut out = table(&[by, "items", "constraints", "accuracy", "C-F1", "safe recall", "flagged"], &rows);
    if slices.len() > SLICES {
        out += &format!("and {} more; --json lists all\n", slices.len() - SLICES);
    }
    out
}

fn folds_text(folds: &FoldsReport) -> String {
    let mut out = String::new();
    if folds.folds.len() < folds.of {
        out += &format!(
            "Only {} of {} folds are there, and the figures are of these; the same command without --folds goes on\n",
            folds.folds.len(),
            folds.of
        );
    }
    if folds.folds.len() == 1 {
        out += "With one fold, mixing and thresholds of an item come from its other repositories\n";
    }
    let rows: Vec<Vec<String>> = folds
        .folds
        .iter()
        .map(|f| {
            let mut row = [f.fold + 1, f.lessons, f.items, f.constraints].map(|n| n.to_string()).to_vec();
            row.extend([f.accuracy[0], f.accuracy[1], f.constraint_f1[0], f.constraint_f1[1]].map(three));
            row
        })
        .collect();
    let head = ["fold", "learned from", "held out", "constraints", "accuracy", "linear", "C-F1", "linear"];
    out += &table(&head, &rows);
    let rows: Vec<Vec<String>> = folds
        .floors
        .iter()
        .map(|p| {
            let chosen = if p.floor == folds.linear_floor { " (chosen)" } else { "" };
            let mut row = vec![format!("{:.2}{chosen}", p.floor)];
            row.extend([p.asked, p.accuracy, p.constraint_f1, p.safe_recall, p.safe_flagged].map(three));
            row
        })
        .collect();
    out += "\nThe linear tier answers alone from a confidence up (the floor):\n";
    out += &table(&["floor", "encoder asked", "accuracy", "C-F1", "safe recall", "flagged"], &rows);
    if !folds.phrasing.is_empty() {
        out += &format!("\n{}", table(&PHRASING_HEAD, &phrasing_rows(&folds.phrasing)));
    }
    out
}

const FORMS: [&str; 4] = ["imperative", "declarative", "conditional", "passive"];
const PHRASING_HEAD: [&str; 7] = ["Figure 4", "imper.", "declar.", "condit.", "passive", "mean", "precision"];

fn phrasing_rows(variants: &[(String, Vec<PhrasingScore>)]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, scores) in variants {
        for score in scores {
            let mut row = vec![format!("{name}, {}", score.line)];
            row.extend(FORMS.map(|form| score.recall.get(form).map_or_else(|| "–".to_owned(), |r| three(*r))));
            row.extend([score.mean_recall, score.precision].map(three));
            rows.push(row);
        }
    }
    rows
}

fn phrasing_text(found: &PhrasingEvaluation) -> String {
    let [rules, negatives] = found.items;
    let mut out = basis_text(&found.basis, rules + negatives);
    out += &format!("{rules} phrasings of {}s, {negatives} hard negatives\n\n", KnowledgeType::Constraint);
    let mut rows = phrasing_rows(&found.variants);
    let two = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| format!("{x:.2}"));
    for p in found.paper_figure_4 {
        rows.push(vec![
            format!("paper: {}", p.name),
            two(p.others),
            two(Some(p.declarative)),
            two(p.others),
            two(p.others),
            two(p.mean),
            "–".to_owned(),
        ]);
    }
    out += &table(&PHRASING_HEAD, &rows);
    out += "precision: rules among what is flagged of rules and hard negatives\n";
    out += &asked_text(found.llm.as_ref(), &found.not_run);
    out + &format!("\nNot comparable:\n  {}\n", found.not_comparable)
}
