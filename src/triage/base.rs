//! The typed knowledge base: a text with its items, what each was judged to be, and the topics they stand under.

use super::layout::Layout;
use super::tokens::Tokenizer;
use super::topics::{Scope, Scopes, TopicId, TopicTree};
use crate::classify::{Classifier, Decision, Policy};
use crate::corpus::{ItemContext, Segmentation};
use crate::segment::{flatten, segment};
use crate::taxonomy::{ItemKind, KnowledgeType};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// What an item was judged to be when it was indexed. Operators never ask again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The type shown to people.
    #[serde(rename = "type")]
    pub item_type: KnowledgeType,
    /// Probability of being a constraint × weight of who says so.
    pub risk: f32,
    /// Flagged at the safe point (or abstained): kept verbatim or not at all.
    pub pinned: bool,
}

impl Judgement {
    /// A certain judgement: pinned exactly when it is a constraint.
    pub fn certain(item_type: KnowledgeType) -> Self {
        let pinned = item_type == KnowledgeType::Constraint;
        Self { item_type, risk: if pinned { 1.0 } else { 0.0 }, pinned }
    }
}

impl From<&Decision> for Judgement {
    fn from(decision: &Decision) -> Self {
        Self { item_type: decision.item_type, risk: decision.risk, pinned: decision.pinned }
    }
}

/// Names an item by its text, so that it stays the same while the text around it changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u64);

impl ItemId {
    /// The id of the `occurrence`-th item (from 0) with this text; white space does not count.
    pub fn of(text: &str, occurrence: usize) -> Self {
        Self(xxh3_64(flatten(text).as_bytes()).wrapping_add((occurrence as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemId({self})")
    }
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// One item of a base.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name over rounds.
    pub id: ItemId,
    /// Where its text lies in the text of the base.
    pub span: Range<usize>,
    /// 1-based line of its first byte.
    pub line: u32,
    /// What kind of passage it is.
    pub kind: ItemKind,
    /// The topic it stands under.
    pub topic: TopicId,
    /// What it was judged to be.
    pub judgement: Judgement,
    pub(super) layout: Layout,
}

impl Item {
    /// Whether it must be kept verbatim.
    pub fn pinned(&self) -> bool {
        self.judgement.pinned
    }

    /// The lane it goes to: a pinned item is a constraint to every operator.
    pub fn lane(&self) -> KnowledgeType {
        if self.judgement.pinned { KnowledgeType::Constraint } else { self.judgement.item_type }
    }
}

/// A text as typed items: the tuple (I, τ, T, π, σ) of the paper's §3.1.
///
/// ```
/// use aac::taxonomy::KnowledgeType;
/// use aac::triage::{Base, Judgement, Tokenizer};
///
/// let text = "# Database\n\n- Never drop a table.\n- Postgres 16 runs it.\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |item| {
///     let never = item.text.starts_with("Never");
///     Judgement::certain(if never { KnowledgeType::Constraint } else { KnowledgeType::Belief })
/// });
/// assert_eq!(base.items().len(), 2);
/// assert!(base.items()[0].pinned());
/// assert_eq!(base.topics().path(base.items()[0].topic), ["Database"]);
/// ```
#[derive(Debug, Clone)]
pub struct Base {
    text: String,
    path: String,
    found: Segmentation,
    items: Vec<Item>,
    topics: TopicTree,
    tokenizer: Tokenizer,
    tokens: usize,
    settings: bool,
    additive: bool,
    /// Whether the topics were given rather than read from headings.
    given: bool,
}

impl Base {
    /// Read `text`, the content of the file at `path`, asking `judge` about every item.
    ///
    /// Front matter is one item: it is kept as a whole, pinned when anything in it is.
    pub fn read(
        path: &str,
        text: &str,
        tokenizer: Tokenizer,
        mut judge: impl FnMut(&ItemContext<'_>) -> Judgement,
    ) -> Self {
        let found = segment(path, text);
        let mut judged = Vec::with_capacity(found.items.len());
        for (index, span) in found.items.iter().enumerate() {
            let heading = found.heading_path(span, text);
            let around = |other: Option<usize>| other.and_then(|i| found.items.get(i)).map(|s| &text[s.range()]);
            judged.push(judge(&ItemContext {
                text: &text[span.range()],
                kind: Some(span.kind),
                heading: &heading,
                path,
                before: around(index.checked_sub(1)),
                after: around(Some(index + 1)),
            }));
        }
        Self::assemble(path, text, tokenizer, found, &judged, None)
    }

    /// Read `text` and let a classifier judge its items under `policy`, which should stand at the safe point.
    pub fn classify(
        path: &str,
        text: &str,
        tokenizer: Tokenizer,
        classifier: &dyn Classifier,
        policy: &Policy,
    ) -> Self {
        Self::read(path, text, tokenizer, |item| Judgement::from(&classifier.decide_unexplained(item, policy)))
    }

    /// The base of another text made from this one, without asking anybody: an item whose words stood in this base keeps
    /// its judgement, any other has none.
    pub fn reread(&self, text: &str) -> Self {
        let known: HashMap<ItemId, Judgement> =
            self.items.iter().map(|item| (ItemId::of(self.text_of(item), 0), item.judgement)).collect();
        let unknown = Judgement { item_type: KnowledgeType::Meta, risk: 0.0, pinned: false };
        Self::read(&self.path, text, self.tokenizer, |item| {
            known.get(&ItemId::of(item.text, 0)).copied().unwrap_or(unknown)
        })
    }

    /// Put a base together from judgements in item order. `known` gives ids by the start of an item's text.
    pub(super) fn assemble(
        path: &str,
        text: &str,
        tokenizer: Tokenizer,
        found: Segmentation,
        judged: &[Judgement],
        known: Option<&HashMap<usize, ItemId>>,
    ) -> Self {
        let topics = TopicTree::of_headings(&found, text);
        let front = front_matter(text).filter(|_| is_markdown_with_settings(&found, text));
        let mut items: Vec<Item> = Vec::with_capacity(found.items.len());
        let mut seen: HashMap<u64, usize> = HashMap::with_capacity(found.items.len());
        let mut named = |range: &Range<usize>| {
            let first = ItemId::of(&text[range.clone()], 0);
            let count = seen.entry(first.0).or_insert(0);
            *count += 1;
            known
                .and_then(|ids| ids.get(&range.start).copied())
                .unwrap_or_else(|| ItemId::of(&text[range.clone()], *count - 1))
        };
        if let Some(end) = front {
            let span = 0..end;
            let inside = found.items.iter().zip(judged).filter(|(item, _)| item.range().end <= end);
            let mut judgement = Judgement { item_type: KnowledgeType::Procedural, risk: 0.0, pinned: false };
            for (_, j) in inside {
                judgement.risk = judgement.risk.max(j.risk);
                judgement.pinned |= j.pinned;
            }
            items.push(Item {
                id: named(&span),
                span,
                line: 1,
                kind: ItemKind::Setting,
                topic: TopicId::ROOT,
                judgement,
                layout: Layout::default(),
            });
        }
        for (span, judgement) in found.items.iter().zip(judged) {
            let range = span.range();
            if front.is_some_and(|end| range.start < end) {
                continue;
            }
            items.push(Item {
                id: named(&range),
                span: range,
                line: span.line,
                kind: span.kind,
                topic: span.heading.map_or(TopicId::ROOT, |heading| TopicId(heading + 1)),
                judgement: *judgement,
                layout: Layout::default(),
            });
        }
        let settings = front.is_none() && items.iter().any(|item| item.kind == ItemKind::Setting);
        super::layout::lay_out(text, &mut items);
        let mut base = Self {
            text: text.to_owned(),
            path: path.to_owned(),
            found,
            items,
            topics,
            tokenizer,
            tokens: tokenizer.count_long(text),
            settings,
            additive: true,
            given: false,
        };
        base.additive =
            base.items.iter().all(|item| !item.layout.lead.is_empty() || tokenizer.adds_up(base.text_of(item)));
        base.price();
        base
    }

    fn price(&mut self) {
        use rayon::prelude::*;
        let (text, tokenizer) = (&self.text, self.tokenizer);
        self.items.par_iter_mut().for_each(|item| item.layout.price(text, item.span.clone(), tokenizer));
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path it was read under.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The items in document order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The text of an item of this base.
    pub fn text_of(&self, item: &Item) -> &str {
        self.text.get(item.span.clone()).unwrap_or_default()
    }

    /// The topic tree.
    pub fn topics(&self) -> &TopicTree {
        &self.topics
    }

    /// The tokenizer that budgets are meant in.
    pub fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    /// Tokens of the whole text.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether this is a settings file rather than a Markdown text: it can be searched but not rewritten.
    pub fn is_settings(&self) -> bool {
        self.settings
    }

    /// The same base under a given topic tree; `topic_of` maps every item to one of its topics (π).
    pub fn with_topics(mut self, topics: TopicTree, topic_of: impl Fn(&Item, &str) -> TopicId) -> Self {
        for index in 0..self.items.len() {
            let topic = topic_of(&self.items[index], self.text_of(&self.items[index]));
            self.items[index].topic = if topics.get(topic).is_some() { topic } else { TopicId::ROOT };
        }
        self.topics = topics;
        self.given = true;
        self
    }

    /// The same base with other judgements, asked for item by item.
    pub fn rejudge(mut self, judge: impl Fn(&Item, Judgement) -> Judgement) -> Self {
        for index in 0..self.items.len() {
            self.items[index].judgement = judge(&self.items[index], self.items[index].judgement);
        }
        self
    }

    /// σ: the scope of every pinned item, by its index; nothing for the others.
    pub fn scopes(&self) -> Vec<Option<Scope>> {
        let scopes = Scopes::among(&self.topics, self.items.iter().map(|item| self.text_of(item)));
        let of = |item: &Item| item.pinned().then(|| scopes.of(self.text_of(item), item.topic));
        self.items.iter().map(of).collect()
    }

    /// Whether the prices of single items add up to the price of a text of them.
    pub(super) fn additive(&self) -> bool {
        self.additive
    }

    /// Whether the topics are the headings of the text.
    pub(super) fn has_own_topics(&self) -> bool {
        !self.given
    }

    pub(super) fn segmentation(&self) -> &Segmentation {
        &self.found
    }
}

/// The end of the front matter's closing line, without its line feed.
fn front_matter(text: &str) -> Option<usize> {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        if number == 0 {
            if bare.trim_start_matches('\u{feff}') != "---" {
                return None;
            }
        } else if bare == "---" || bare == "..." {
            return Some(at + bare.len());
        }
        at += line.len();
    }
    None
}

/// Whether the text is Markdown whose dashes open front matter: nothing but settings stands in it.
fn is_markdown_with_settings(found: &Segmentation, text: &str) -> bool {
    let Some(end) = front_matter(text) else { return false };
    let inside = found.items.iter().take_while(|item| item.range().end <= end);
    // Front matter with no instruction in it has no items at all; a settings file has no items of other kinds.
    inside.clone().all(|item| item.kind == ItemKind::Setting)
        && (found.items.is_empty() || found.items.iter().any(|item| item.kind != ItemKind::Setting))
        && found.items.iter().all(|item| item.range().end <= end || item.range().start >= end)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Types by the first word: N(ever) C, R(un) P, P(refer) F, On E, anything else B.
    pub(in crate::triage) fn by_first_word(item: &ItemContext<'_>) -> Judgement {
        let word = item.text.trim_start_matches(['*', '`', '|', ' ']).split([' ', ':']).next().unwrap_or_default();
        Judgement::certain(match word {
            "Never" | "Must" => KnowledgeType::Constraint,
            "Run" | "```sh\nrun" => KnowledgeType::Procedural,
            "Prefer" => KnowledgeType::Preference,
            "On" => KnowledgeType::Episodic,
            _ => KnowledgeType::Belief,
        })
    }

    pub(in crate::triage) fn base(text: &str) -> Base {
        Base::read("AGENTS.md", text, Tokenizer::Cl100k, by_first_word)
    }

    #[test]
    fn ids_do_not_depend_on_what_stands_around() {
        let a = base("# A\n\n- Never x\n- y\n- Never x\n");
        let b = base("intro\n\n## B\n\n* Never  x\n");
        assert_eq!(a.items()[0].id, b.items()[1].id);
        assert_ne!(a.items()[0].id, a.items()[2].id);
    }

    #[test]
    fn front_matter_is_one_item() {
        let read = base(
            "---\ndescription: Never deploy on Fridays without asking first\nglobs: \"*.rs\"\n---\n\n# T\n\nbody\n",
        );
        assert_eq!(read.items().len(), 2, "{:?}", read.items());
        assert!(read.items()[0].pinned());
        assert!(read.text_of(&read.items()[0]).ends_with("\n---"));
        assert!(!read.is_settings());
        assert_eq!(base("---\nglobs: x\n---\nbody\n").items().len(), 2);
        assert_eq!(base("body\n\n---\n\nmore\n").items().len(), 2);
    }
}
