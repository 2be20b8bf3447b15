//! How far annotators agree, over everything in the gold set.

use super::{GoldError, StatusCounts};
use crate::agreement::{Figure, Interval, Table, View};
use crate::store::{Journal, MarkRow, Store};
use crate::taxonomy::{KnowledgeType, LabelOrigin, LabelStatus, Verdict};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 1_000;
/// Share of the resampled figures within an interval.
const LEVEL: f64 = 0.95;
const SEED: u64 = 1;

/// A figure with its interval, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// 95 % bootstrap interval over items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undefined: Option<String>,
}

impl Shown {
    fn of(table: &Table, figure: impl Fn(&Table) -> Figure) -> Self {
        match figure(table) {
            Ok(value) => Self {
                value: Some(value),
                interval: table.interval(&figure, LEVEL, RESAMPLES, SEED).ok(),
                undefined: None,
            },
            Err(why) => Self { value: None, interval: None, undefined: Some(why.to_string()) },
        }
    }

    fn bare(figure: Figure) -> Self {
        match figure {
            Ok(value) => Self { value: Some(value), interval: None, undefined: None },
            Err(why) => Self { value: None, interval: None, undefined: Some(why.to_string()) },
        }
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.value, self.interval, &self.undefined) {
            (Some(value), Some(i), _) => write!(f, "{value:.3} [{:.3}, {:.3}]", i.low, i.high),
            (Some(value), None, _) => write!(f, "{value:.3}"),
            (None, _, Some(why)) => f.write_str(why),
            (None, _, None) => f.write_str("undefined"),
        }
    }
}

/// One annotator, or one round of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Annotator {
    /// The name, with the round when it is not the first.
    pub name: String,
    /// A person or a model.
    pub origin: LabelOrigin,
    /// How many items stand where.
    #[serde(flatten)]
    pub counts: StatusCounts,
    /// How often each class was given.
    pub classes: BTreeMap<String, usize>,
}

/// Agreement on one way of telling classes apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ViewAgreement {
    /// Which classes are told apart: `five`, `six` or `constraint_or_rest`; `verdicts` for compacted constraints.
    pub view: String,
    /// Items with two labels or more that count.
    pub items: usize,
    /// Cohen's κ; of two annotators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kappa: Option<Shown>,
    /// Krippendorff's α.
    pub alpha: Shown,
    /// Gwet's AC1.
    pub ac1: Shown,
    /// Share of pairs of labels that agree.
    pub observed: Shown,
}

/// Agreement on one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassShown {
    /// The class.
    pub class: String,
    /// Given by the first.
    pub first: u64,
    /// Given by the second.
    pub second: u64,
    /// Given by both to the same item.
    pub both: u64,
    /// Positive specific agreement.
    pub specific: Shown,
    /// κ of this class against all others.
    pub kappa: Shown,
}

/// Agreement of two annotators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairAgreement {
    /// The first.
    pub first: String,
    /// The second.
    pub second: String,
    /// Items that both labelled.
    pub items: usize,
    /// By how classes are told apart.
    pub views: Vec<ViewAgreement>,
    /// By class, all six told apart.
    pub by_class: Vec<ClassShown>,
    /// Names of the rows and columns of `confusion`.
    pub classes: Vec<String>,
    /// `confusion[a][b]`: items that the first calls `a` and the second `b`.
    pub confusion: Vec<Vec<u64>>,
}

/// What a set of labels says about agreement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Items.
    pub items: usize,
    /// Annotators, people first.
    pub annotators: Vec<Annotator>,
    /// Every pair with an item in common, people first.
    pub pairs: Vec<PairAgreement>,
    /// All people together, labels missing; all annotators where fewer than two people labelled.
    pub together: Vec<ViewAgreement>,
    /// Who is counted in `together`.
    pub together_of: Vec<String>,
}

/// Name, number of classes, and what a class counts as in this view.
type NamedView = (&'static str, usize, fn(usize) -> Option<usize>);

/// What annotators of one kind of item can say.
struct Vocabulary {
    classes: Vec<&'static str>,
    views: Vec<NamedView>,
}

fn by_view(view: View) -> impl Fn(usize) -> Option<usize> {
    move |class| KnowledgeType::ALL.get(class).and_then(|class| view.class(*class))
}

impl Vocabulary {
    fn types() -> Self {
        Self {
            classes: KnowledgeType::ALL.iter().map(|class| class.as_str()).collect(),
            views: vec![
                ("five", 5, |class| by_view(View::Five)(class)),
                ("six", 6, |class| by_view(View::Six)(class)),
                ("constraint_or_rest", 2, |class| by_view(View::ConstraintOrRest)(class)),
            ],
        }
    }

    fn verdicts() -> Self {
        Self {
            classes: Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect(),
            views: vec![("verdicts", 4, |class| Some(class))],
        }
    }

    fn class(&self, word: &str) -> Option<usize> {
        self.classes.iter().position(|class| *class == word)
    }
}

/// Labels of one annotator by item.
struct Rater {
    name: String,
    origin: LabelOrigin,
    labels: BTreeMap<String, usize>,
    counts: StatusCounts,
}

/// Agreement on the gold set. Where a model settled items, what it settled stands beside the annotators.
pub async fn agreement(store: &Store) -> Result<Agreement, GoldError> {
    let items: Vec<String> = store.gold_items().await?.into_iter().map(|item| item.id).collect();
    let marks = store.marks(Journal::Labels, None).await?;
    let vocabulary = Vocabulary::types();
    let mut raters = raters(&marks, &items, &vocabulary);
    let mut settled: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for row in store.model_decisions().await? {
        if let Some(class) = row.class.as_deref().and_then(|word| vocabulary.class(word)) {
            settled.entry(row.by).or_default().insert(row.item_id, class);
        }
    }
    for (by, labels) in settled {
        let counts =
            StatusCounts { labelled: labels.len(), open: items.len() - labels.len(), ..StatusCounts::default() };
        raters.push(Rater { name: format!("{by} (settled)"), origin: LabelOrigin::Model, labels, counts });
    }
    Ok(assess(items.len(), &raters, &vocabulary))
}

/// Agreement on what became of compacted constraints, `aac check` among the annotators.
pub async fn verdict_agreement(store: &Store) -> Result<Agreement, GoldError> {
    let rows = store.check_items().await?;
    let items: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let marks = store.marks(Journal::Verdicts, None).await?;
    let vocabulary = Vocabulary::verdicts();
    let mut raters = raters(&marks, &items, &vocabulary);
    let labels: BTreeMap<String, usize> =
        rows.into_iter().filter_map(|row| Some((row.id, vocabulary.class(&row.verdict)?))).collect();
    if !labels.is_empty() {
        let counts = StatusCounts { labelled: labels.len(), ..StatusCounts::default() };
        raters.push(Rater { name: "aac check".to_owned(), origin: LabelOrigin::Model, labels, counts });
    }
    Ok(assess(items.len(), &raters, &vocabulary))
}

fn raters(marks: &[MarkRow], items: &[String], vocabulary: &Vocabulary) -> Vec<Rater> {
    let mut raters: BTreeMap<(&str, i64), Rater> = BTreeMap::new();
    for mark in marks.iter().filter(|mark| !mark.mark.is_blank()) {
        let name = match mark.pass {
            1 => mark.annotator.clone(),
            pass => format!("{} (round {pass})", mark.annotator),
        };
        let rater = raters.entry((&mark.annotator, mark.pass)).or_insert_with(|| Rater {
            name,
            origin: mark.origin,
            labels: BTreeMap::new(),
            counts: StatusCounts::default(),
        });
        let class = mark.mark.class.as_deref().and_then(|word| vocabulary.class(word));
        if let (LabelStatus::Labelled, Some(class)) = (mark.mark.status, class) {
            rater.labels.insert(mark.item.clone(), class);
            rater.counts.labelled += 1;
        }
        rater.counts.skipped += usize::from(mark.mark.status == LabelStatus::Skipped);
        rater.counts.flagged += usize::from(mark.mark.flagged);
        rater.counts.noted += usize::from(!mark.mark.note.is_empty());
    }
    let mut raters: Vec<Rater> = raters.into_values().collect();
    for rater in &mut raters {
        rater.counts.open = items.len().saturating_sub(rater.counts.labelled + rater.counts.skipped);
    }
    raters.sort_by(|a, b| (a.origin, &a.name).cmp(&(b.origin, &b.name)));
    raters
}

fn assess(items: usize, raters: &[Rater], vocabulary: &Vocabulary) -> Agreement {
    let mut pairs = Vec::new();
    for (index, first) in raters.iter().enumerate() {
        for second in &raters[index + 1..] {
            pairs.extend(pair(first, second, vocabulary));
        }
    }
    let people: Vec<&Rater> = raters.iter().filter(|rater| rater.origin == LabelOrigin::Person).collect();
    // What was settled is no label of its own: it follows from the others.
    let all: Vec<&Rater> = raters.iter().filter(|r| !r.name.ends_with(" (settled)") && r.name != "aac check").collect();
    let counted = if people.len() >= 2 { people } else { all };
    let annotators = raters.iter().map(|rater| {
        let mut classes: BTreeMap<String, usize> =
            vocabulary.classes.iter().map(|class| ((*class).to_owned(), 0)).collect();
        for class in rater.labels.values() {
            *classes.entry(vocabulary.classes[*class].to_owned()).or_default() += 1;
        }
        Annotator { name: rater.name.clone(), origin: rater.origin, counts: rater.counts.clone(), classes }
    });
    let together = vocabulary.views.iter().map(|(name, classes, view)| together(name, *classes, view, &counted));
    Agreement {
        items,
        annotators: annotators.collect(),
        pairs,
        together: if counted.len() >= 2 { together.collect() } else { Vec::new() },
        together_of: counted.iter().map(|rater| rater.name.clone()).collect(),
    }
}

/// Labels of `raters` on every item that one of them labelled, as `view` tells them apart; nothing where a label is none
/// of its classes.
fn rows(raters: &[&Rater], view: &dyn Fn(usize) -> Option<usize>) -> Vec<Vec<Option<usize>>> {
    let items: BTreeSet<&String> = raters.iter().flat_map(|rater| rater.labels.keys()).collect();
    items
        .into_iter()
        .map(|item| raters.iter().map(|rater| rater.labels.get(item).and_then(|class| view(*class))).collect())
        .collect()
}

fn table(classes: usize, rows: Vec<Vec<Option<usize>>>) -> Option<Table> {
    // Every class comes from the vocabulary and every row has one column a rater, so this is a table.
    Table::new(classes, rows).ok()
}

fn figures(name: &str, table: &Table, items: usize, two: bool) -> ViewAgreement {
    ViewAgreement {
        view: name.to_owned(),
        items,
        kappa: two.then(|| Shown::of(table, Table::cohen_kappa)),
        alpha: Shown::of(table, Table::krippendorff_alpha),
        ac1: Shown::of(table, Table::gwet_ac1),
        observed: Shown::bare(table.observed()),
    }
}

fn together(name: &str, classes: usize, view: &dyn Fn(usize) -> Option<usize>, raters: &[&Rater]) -> ViewAgreement {
    let rows = rows(raters, view);
    let items = rows.iter().filter(|row| row.iter().flatten().count() >= 2).count();
    let table = table(classes, rows).unwrap_or_else(Table::empty);
    figures(name, &table, items, false)
}

fn pair(first: &Rater, second: &Rater, vocabulary: &Vocabulary) -> Option<PairAgreement> {
    let both: Vec<(usize, usize)> =
        first.labels.iter().filter_map(|(item, a)| Some((*a, *second.labels.get(item)?))).collect();
    if both.is_empty() {
        return None;
    }
    let of = |view: &dyn Fn(usize) -> Option<usize>| -> Vec<Vec<Option<usize>>> {
        // An item that either of both calls meta is outside the five types, for both.
        both.iter().filter_map(|(a, b)| Some(vec![Some(view(*a)?), Some(view(*b)?)])).collect()
    };
    let views = vocabulary.views.iter().map(|(name, classes, view)| {
        let rows = of(view);
        let items = rows.len();
        figures(name, &table(*classes, rows).unwrap_or_else(Table::empty), items, true)
    });
    let whole = table(vocabulary.classes.len(), of(&Some)).unwrap_or_else(Table::empty);
    let by_class = whole.by_class().into_iter().zip(&vocabulary.classes).map(|(found, class)| ClassShown {
        class: (*class).to_owned(),
        first: found.first,
        second: found.second,
        both: found.both,
        specific: Shown::bare(found.specific),
        kappa: Shown::bare(found.kappa),
    });
    Some(PairAgreement {
        first: first.name.clone(),
        second: second.name.clone(),
        items: both.len(),
        views: views.collect(),
        by_class: by_class.collect(),
        classes: vocabulary.classes.iter().map(|class| (*class).to_owned()).collect(),
        confusion: whole.confusion(),
    })
}
