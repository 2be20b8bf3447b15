//! What the pages ask and say. Answers to an annotator hold that annotator's own labels and nobody else's.

use super::keys::{self, Binding};
use super::queue::ordered;
use super::{AnnotateError, AnnotateOptions};
use crate::job::gold::agree::{agreement, verdict_agreement};
use crate::job::gold::dispute::disputes;
use crate::job::gold::predict::guesses;
use crate::job::gold::verify::check_view;
use crate::job::gold::view::{has_text, view};
use crate::job::gold::{GoldError, RUBRIC, rubric_version};
use crate::store::{Journal, Mark, MarkRow, NewDecision, NewMark, Put, Store};
use crate::taxonomy::{KnowledgeType, LabelOrigin, LabelStatus, Verdict};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Acts that the pace is taken from.
const PACE_OF: i64 = 20;
/// Longest time that counts as spent on one item, in seconds: beyond it somebody went away.
const LONGEST: f64 = 600.0;
const NAME_MOST: usize = 64;
const NOTE_MOST: usize = 4_000;

/// An answer.
type Reply = (StatusCode, Value);

/// Why a request is not answered, in words for the page.
struct Problem(StatusCode, String);

impl Problem {
    fn bad(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }
}

impl From<GoldError> for Problem {
    fn from(error: GoldError) -> Self {
        tracing::error!("{error}");
        Self(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<crate::store::StoreError> for Problem {
    fn from(error: crate::store::StoreError) -> Self {
        GoldError::from(error).into()
    }
}

/// What is done on a page: types of items, or verdicts on constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Task {
    Label,
    Verify,
}

impl Task {
    fn of(word: Option<&String>) -> Result<Self, Problem> {
        match word.map(String::as_str) {
            Some("label") => Ok(Self::Label),
            Some("verify") => Ok(Self::Verify),
            _ => Err(Problem::bad("Expected the task `label` or `verify`")),
        }
    }

    fn journal(self) -> Journal {
        match self {
            Self::Label => Journal::Labels,
            Self::Verify => Journal::Verdicts,
        }
    }

    fn bindings(self) -> &'static [Binding] {
        match self {
            Self::Label => keys::LABEL,
            Self::Verify => keys::VERIFY,
        }
    }

    fn knows(self, class: &str) -> bool {
        match self {
            Self::Label => class.parse::<KnowledgeType>().is_ok(),
            Self::Verify => class.parse::<Verdict>().is_ok(),
        }
    }
}

/// A mark that a page sends.
#[derive(Deserialize)]
struct MarkSent {
    task: Task,
    #[serde(rename = "as")]
    who: String,
    id: String,
    /// Key of the mark that the page shows, 0 for none.
    expected: i64,
    action: String,
    mark: Mark,
    seconds: Option<f64>,
}

#[derive(Deserialize)]
struct UndoSent {
    task: Task,
    #[serde(rename = "as")]
    who: String,
    action: String,
}

#[derive(Deserialize)]
struct DecisionSent {
    #[serde(rename = "as")]
    who: String,
    id: String,
    action: String,
    class: Option<String>,
    #[serde(default)]
    why: String,
}

/// The work behind the pages.
pub(super) struct Desk {
    store: Store,
    options: AnnotateOptions,
    /// What the model says, where an order or suggestions need it.
    guesses: HashMap<String, (KnowledgeType, f32)>,
}

impl Desk {
    pub(super) async fn open(store: Store, mut options: AnnotateOptions) -> Result<Self, AnnotateError> {
        let mut guessed = HashMap::new();
        if options.preannotate || options.order == crate::taxonomy::LabelOrder::Uncertainty {
            let items = store.gold_items().await.map_err(GoldError::from)?;
            guessed = guesses(&store, &items).await?;
        }
        if let Some(name) = options.annotator.take() {
            let good = good_name(&name).map_err(|problem| AnnotateError::Name { name, why: problem.1 })?;
            options.annotator = Some(good);
        }
        Ok(Self { store, options, guesses: guessed })
    }

    pub(super) async fn read(&self, act: &str, query: &str) -> Reply {
        let asked = parse(query);
        reply(match act {
            "hello" => self.hello(&asked).await,
            "queue" => self.queue(&asked).await,
            "item" => self.item(&asked).await,
            "rubric" => Ok(json!({ "version": rubric_version(), "text": RUBRIC })),
            "disputes" => self.disputes(&asked).await,
            "dispute" => self.dispute(&asked).await,
            "agreement" => self.agreement(&asked).await,
            _ => Err(Problem(StatusCode::NOT_FOUND, "Nothing is asked that way".to_owned())),
        })
    }

    pub(super) async fn write(&self, act: &str, body: &[u8]) -> Reply {
        match act {
            "mark" => match sent(body) {
                Ok(sent) => self.mark(sent).await.unwrap_or_else(refused),
                Err(problem) => refused(problem),
            },
            "undo" => match sent(body) {
                Ok(sent) => reply(self.undo(sent).await),
                Err(problem) => refused(problem),
            },
            "decide" => match sent(body) {
                Ok(sent) => reply(self.decide(sent).await),
                Err(problem) => refused(problem),
            },
            _ => refused(Problem(StatusCode::NOT_FOUND, "Nothing is said that way".to_owned())),
        }
    }

    /// The annotator of a request.
    async fn who(&self, name: Option<&str>) -> Result<String, Problem> {
        let name = match (&self.options.annotator, name) {
            (Some(fixed), Some(name)) if !name.trim().is_empty() && name.trim() != fixed => {
                let why = format!("These pages are {fixed}'s; start `aac gold serve` for {}", name.trim());
                return Err(Problem(StatusCode::FORBIDDEN, why));
            }
            (Some(fixed), _) => fixed.clone(),
            (None, name) => good_name(name.unwrap_or_default())?,
        };
        Ok(name)
    }

    /// A name under which a model labelled is nobody's.
    async fn person(&self, task: Task, name: &str) -> Result<Vec<MarkRow>, Problem> {
        let marks = self.store.marks(task.journal(), Some((name, self.options.pass))).await?;
        if marks.iter().any(|mark| mark.origin == LabelOrigin::Model) {
            return Err(Problem(StatusCode::FORBIDDEN, format!("{name} is a model here; choose another name")));
        }
        Ok(marks)
    }

    async fn items(&self, task: Task) -> Result<Vec<String>, Problem> {
        Ok(match task {
            Task::Label => {
                let items = self.store.gold_items().await?;
                items.into_iter().filter(has_text).map(|item| item.id).collect()
            }
            Task::Verify => self.store.check_items().await?.into_iter().map(|item| item.id).collect(),
        })
    }

    async fn order(&self, task: Task, who: &str) -> Result<Vec<String>, Problem> {
        let unsure = self.guesses.iter().map(|(id, (_, unsure))| (id.clone(), *unsure)).collect();
        let options = &self.options;
        Ok(ordered(self.items(task).await?, who, options.pass, options.seed, self.ordering(task), &unsure))
    }

    fn ordering(&self, task: Task) -> crate::taxonomy::LabelOrder {
        match task {
            Task::Label => self.options.order,
            Task::Verify => crate::taxonomy::LabelOrder::Shuffled,
        }
    }

    fn suggestion(&self, task: Task, id: &str) -> Option<&'static str> {
        let shown = task == Task::Label && self.options.preannotate;
        shown.then(|| self.guesses.get(id)).flatten().map(|(class, _)| class.as_str())
    }

    async fn pace(&self, task: Task, who: &str) -> Result<Value, Problem> {
        let mut recent = self.store.recent_seconds(task.journal(), who, self.options.pass, PACE_OF).await?;
        recent.sort_by(f64::total_cmp);
        Ok(json!({ "seconds": recent.get(recent.len() / 2), "of": recent.len() }))
    }

    async fn hello(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let mut answer = json!({
            "annotator": self.options.annotator,
            "pass": self.options.pass,
            "items": { "label": self.items(Task::Label).await?.len(), "verify": self.items(Task::Verify).await?.len() },
        });
        let named = asked.get("as").map(String::as_str).filter(|name| !name.trim().is_empty());
        if named.is_some() || self.options.annotator.is_some() {
            let who = self.who(named).await?;
            let mut done = BTreeMap::new();
            for (name, task) in [("label", Task::Label), ("verify", Task::Verify)] {
                let marks = self.person(task, &who).await?;
                done.insert(name, marks.iter().filter(|mark| mark.mark.status != LabelStatus::Open).count());
            }
            answer["done"] = json!(done);
            answer["locked"] = json!(self.locked(&who).await?);
            answer["as"] = json!(who);
        }
        Ok(answer)
    }

    async fn queue(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let task = Task::of(asked.get("task"))?;
        let who = self.who(asked.get("as").map(String::as_str)).await?;
        let marks = self.person(task, &who).await?;
        let marks: HashMap<&str, &MarkRow> = marks.iter().map(|mark| (mark.item.as_str(), mark)).collect();
        let order = self.order(task, &who).await?;
        let queue: Vec<Value> = order
            .iter()
            .map(|id| {
                let mark = marks.get(id.as_str());
                json!({
                    "id": id,
                    "status": mark.map_or(LabelStatus::Open, |mark| mark.mark.status),
                    "flagged": mark.is_some_and(|mark| mark.mark.flagged),
                })
            })
            .collect();
        Ok(json!({
            "as": who,
            "pass": self.options.pass,
            "bindings": task.bindings(),
            "queue": queue,
            "order": self.ordering(task),
            "suggests": task == Task::Label && self.options.preannotate,
            "pace": self.pace(task, &who).await?,
        }))
    }

    async fn item(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let task = Task::of(asked.get("task"))?;
        let who = self.who(asked.get("as").map(String::as_str)).await?;
        let id = asked.get("id").map(String::as_str).unwrap_or_default();
        let gone = || Problem(StatusCode::NOT_FOUND, format!("There is no item {id} any more"));
        let seen = match task {
            Task::Label => {
                let item = self.store.gold_item(id).await?.ok_or_else(gone)?;
                json!(view(&self.store, &item).await?.ok_or_else(gone)?)
            }
            Task::Verify => json!(check_view(&self.store, id).await?.ok_or_else(gone)?),
        };
        let mark = self.store.mark(task.journal(), id, &who, self.options.pass).await?;
        Ok(json!({ "item": seen, "suggestion": self.suggestion(task, id), "standing": standing(mark.as_ref()) }))
    }

    async fn mark(&self, sent: MarkSent) -> Result<Reply, Problem> {
        let task = sent.task;
        let who = self.who(Some(&sent.who)).await?;
        self.person(task, &who).await?;
        let mut mark = sent.mark;
        mark.note = mark.note.trim().to_owned();
        let known = mark.class.as_deref().is_none_or(|class| task.knows(class));
        if !known || (mark.status == LabelStatus::Labelled) != mark.class.is_some() {
            return Err(Problem::bad("The label is none of those that can be given"));
        }
        if mark.note.chars().count() > NOTE_MOST {
            return Err(Problem::bad(format!("A note has at most {NOTE_MOST} characters")));
        }
        let order = self.order(task, &who).await?;
        let Some(place) = order.iter().position(|id| *id == sent.id) else {
            return Err(Problem(StatusCode::NOT_FOUND, format!("There is no item {} any more", sent.id)));
        };
        let new = NewMark {
            annotator: who.clone(),
            pass: self.options.pass,
            mark,
            rubric: rubric_version(),
            seconds: sent.seconds.filter(|s| s.is_finite() && *s >= 0.0).map(|s| s.min(LONGEST)),
            origin: LabelOrigin::Person,
            preannotated: self.suggestion(task, &sent.id).map(str::to_owned),
            ordering: self.ordering(task),
            position: i64::try_from(place + 1).ok(),
            action: Some(good_action(&sent.action)?),
            at: now(),
            item: sent.id,
        };
        Ok(match self.store.put_mark(task.journal(), &new, Some(sent.expected)).await? {
            Put::Written(last) => (StatusCode::OK, json!({ "last": last, "pace": self.pace(task, &who).await? })),
            Put::Outdated(other) => (
                StatusCode::CONFLICT,
                json!({
                    "error": "Answered in another tab meanwhile; this is what stands. Answer again to change it.",
                    "standing": standing(other.as_deref()),
                }),
            ),
        })
    }

    async fn undo(&self, sent: UndoSent) -> Result<Value, Problem> {
        let who = self.who(Some(&sent.who)).await?;
        self.person(sent.task, &who).await?;
        let action = good_action(&sent.action)?;
        let undone = self.store.undo_mark(sent.task.journal(), &who, self.options.pass, &action, now()).await?;
        Ok(match undone {
            Some(row) => json!({ "id": row.item, "standing": standing(Some(&row)) }),
            None => json!({ "nothing": true }),
        })
    }

    /// Why an annotator does not see the others' labels yet.
    async fn locked(&self, who: &str) -> Result<Option<String>, Problem> {
        let marks = self.person(Task::Label, who).await?;
        let done = marks.iter().filter(|mark| mark.mark.status != LabelStatus::Open).count();
        let all = self.items(Task::Label).await?.len();
        Ok((done > 0 && done < all).then(|| {
            format!(
                "You have {} items left to label. This page opens when you are done, so that you label blind.",
                all - done
            )
        }))
    }

    async fn disputes(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let who = self.who(asked.get("as").map(String::as_str)).await?;
        if let Some(why) = self.locked(&who).await? {
            return Ok(json!({ "as": who, "locked": why }));
        }
        let found = disputes(&self.store).await?;
        let queue: Vec<Value> =
            found.iter().map(|dispute| json!({ "id": dispute.item, "settled": dispute.decided.is_some() })).collect();
        Ok(json!({ "as": who, "bindings": keys::ADJUDICATE, "queue": queue }))
    }

    async fn dispute(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let who = self.who(asked.get("as").map(String::as_str)).await?;
        if let Some(why) = self.locked(&who).await? {
            return Err(Problem(StatusCode::FORBIDDEN, why));
        }
        let id = asked.get("id").map(String::as_str).unwrap_or_default();
        let gone = || Problem(StatusCode::NOT_FOUND, format!("{id} is no longer in dispute"));
        let dispute = disputes(&self.store).await?.into_iter().find(|dispute| dispute.item == id).ok_or_else(gone)?;
        let item = self.store.gold_item(id).await?.ok_or_else(gone)?;
        Ok(json!({
            "item": view(&self.store, &item).await?,
            "place": { "repo": item.repo, "path": item.path, "line": item.line },
            "sides": dispute.sides,
            "decided": dispute.decided,
        }))
    }

    async fn decide(&self, sent: DecisionSent) -> Result<Value, Problem> {
        let who = self.who(Some(&sent.who)).await?;
        if let Some(why) = self.locked(&who).await? {
            return Err(Problem(StatusCode::FORBIDDEN, why));
        }
        if sent.class.as_deref().is_some_and(|class| !Task::Label.knows(class)) {
            return Err(Problem::bad("The type is none of the six"));
        }
        let why = sent.why.trim();
        if sent.class.is_some() && why.is_empty() {
            return Err(Problem::bad("A decision needs a reason"));
        }
        if why.chars().count() > NOTE_MOST {
            return Err(Problem::bad(format!("A reason has at most {NOTE_MOST} characters")));
        }
        if self.store.gold_item(&sent.id).await?.is_none() {
            return Err(Problem(StatusCode::NOT_FOUND, format!("There is no item {} any more", sent.id)));
        }
        let decision = NewDecision {
            item: sent.id,
            class: sent.class,
            why: why.to_owned(),
            by: who,
            origin: LabelOrigin::Person,
            rubric: rubric_version(),
            action: Some(good_action(&sent.action)?),
            at: now(),
        };
        let id = self.store.put_decision(&decision).await?;
        Ok(json!({ "last": id }))
    }

    async fn agreement(&self, asked: &BTreeMap<String, String>) -> Result<Value, Problem> {
        let who = self.who(asked.get("as").map(String::as_str)).await?;
        if let Some(why) = self.locked(&who).await? {
            return Ok(json!({ "as": who, "locked": why }));
        }
        let left = disputes(&self.store).await?;
        Ok(json!({
            "as": who,
            "labels": agreement(&self.store).await?,
            "verdicts": verdict_agreement(&self.store).await?,
            "disputes": { "all": left.len(), "settled": left.iter().filter(|d| d.decided.is_some()).count() },
        }))
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// What an annotator sees of an own mark.
fn standing(mark: Option<&MarkRow>) -> Value {
    json!({ "last": mark.map_or(0, |mark| mark.id), "mark": mark.map_or_else(Mark::open, |mark| mark.mark.clone()) })
}

fn reply(answer: Result<Value, Problem>) -> Reply {
    answer.map_or_else(refused, |value| (StatusCode::OK, value))
}

fn refused(problem: Problem) -> Reply {
    (problem.0, json!({ "error": problem.1 }))
}

fn sent<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::bad(format!("The request cannot be read: {error}")))
}

/// A name as it is kept.
fn good_name(name: &str) -> Result<String, Problem> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Problem::bad("Enter a name"));
    }
    if name.chars().count() > NAME_MOST || name.chars().any(char::is_control) {
        return Err(Problem::bad(format!("A name has at most {NAME_MOST} characters and no control characters")));
    }
    Ok(name.to_owned())
}

fn good_action(action: &str) -> Result<String, Problem> {
    let good = (8..=64).contains(&action.len()) && action.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if good { Ok(action.to_owned()) } else { Err(Problem::bad("The act has no name of its own")) }
}

/// The pairs of a query; what comes twice counts once, the last time.
fn parse(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match (byte, hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_whatever_stands_in_them() {
        let asked = parse("as=J%C3%B6rg+A&id=%zz&&task=label&x");
        assert_eq!(asked["as"], "Jörg A");
        assert_eq!((asked["id"].as_str(), asked["task"].as_str(), asked["x"].as_str()), ("%zz", "label", ""));
    }

    #[test]
    fn names_that_nobody_can_have_are_refused() {
        assert!(good_name(" ann ").is_ok_and(|name| name == "ann"));
        for bad in ["", "  ", "a\u{7}b", &"x".repeat(65)] {
            assert!(good_name(bad).is_err(), "{bad:?}");
        }
    }
}
