//! The topic tree of a base and the scope function σ: where a constraint binds.

use crate::corpus::Segmentation;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// A topic: an index into [`TopicTree`]; 0 is the root, which stands for the whole base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub u32);

impl TopicId {
    /// The whole base.
    pub const ROOT: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// Its name: the text of a heading.
    pub name: String,
    /// The topic above; the root has none.
    pub parent: Option<TopicId>,
    /// One past the last topic below this one.
    end: u32,
}

/// Topics in pre-order, so that a topic and all below it are one range of ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicTree {
    topics: Vec<Topic>,
}

impl TopicTree {
    /// The tree of the headings of `text`; topic `n + 1` is heading `n`.
    pub fn of_headings(found: &Segmentation, text: &str) -> Self {
        let mut topics = vec![Topic { name: String::new(), parent: None, end: 0 }];
        for heading in &found.headings {
            let name = text.get(heading.start as usize..heading.end as usize).unwrap_or_default();
            let parent = heading.parent.map_or(TopicId::ROOT, |above| TopicId(above + 1));
            topics.push(Topic { name: name.to_owned(), parent: Some(parent), end: 0 });
        }
        Self::closed(topics)
    }

    /// A given tree: every path lists names from the outermost topic down. Topics above a named one are added.
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        #[derive(Default)]
        struct Node(BTreeMap<String, Node>);
        fn emit(node: Node, parent: TopicId, topics: &mut Vec<Topic>) {
            for (name, below) in node.0 {
                let id = TopicId(topics.len() as u32);
                topics.push(Topic { name, parent: Some(parent), end: 0 });
                emit(below, id, topics);
            }
        }
        let mut root = Node::default();
        for path in paths {
            path.iter().fold(&mut root, |node, name| node.0.entry((*name).to_owned()).or_default());
        }
        let mut topics = vec![Topic { name: String::new(), parent: None, end: 0 }];
        emit(root, TopicId::ROOT, &mut topics);
        Self::closed(topics)
    }

    /// Fill in where each subtree ends. Parents stand before their children.
    fn closed(mut topics: Vec<Topic>) -> Self {
        for index in (0..topics.len()).rev() {
            let end = topics[index].end.max(index as u32 + 1);
            topics[index].end = end;
            if let Some(parent) = topics[index].parent {
                let above = &mut topics[parent.index()];
                above.end = above.end.max(end);
            }
        }
        Self { topics }
    }

    /// How many topics there are, the root included.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether the root is all there is.
    pub fn is_empty(&self) -> bool {
        self.topics.len() <= 1
    }

    /// A topic, when the id belongs to this tree.
    pub fn get(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(id.index())
    }

    /// Names from the outermost topic down to `id`; empty for the root.
    pub fn path(&self, id: TopicId) -> Vec<&str> {
        let mut path: Vec<&str> = self.ancestors(id).map(|t| self.topics[t.index()].name.as_str()).collect();
        path.reverse();
        path
    }

    /// The topic at a path of names, compared without regard to case.
    pub fn find(&self, path: &[&str]) -> Option<TopicId> {
        (0..self.topics.len() as u32).map(TopicId).find(|id| {
            let here = self.path(*id);
            here.len() == path.len() && here.iter().zip(path).all(|(a, b)| a.to_lowercase() == b.to_lowercase())
        })
    }

    /// `id` and the topics above it, innermost first, without the root.
    pub(super) fn ancestors(&self, id: TopicId) -> impl Iterator<Item = TopicId> + '_ {
        std::iter::successors(Some(id), |id| self.topics.get(id.index()).and_then(|t| t.parent))
            .take_while(|id| *id != TopicId::ROOT && id.index() < self.topics.len())
    }

    /// `id` and everything below it.
    pub(super) fn subtree(&self, id: TopicId) -> Range<u32> {
        self.topics.get(id.index()).map_or(0..0, |topic| id.0..topic.end)
    }
}

/// Which topics a constraint binds in: σ(c).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Everywhere.
    Global,
    /// In these ranges of topic ids, ascending and disjoint.
    Topics(Vec<Range<u32>>),
}

impl Scope {
    /// Whether the constraint binds where an item of `topic` is used.
    pub fn covers(&self, topic: TopicId) -> bool {
        match self {
            Self::Global => true,
            Self::Topics(ranges) => ranges.iter().any(|range| range.contains(&topic.0)),
        }
    }

    fn of_ranges(mut ranges: Vec<Range<u32>>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        let mut joined: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self::Topics(joined)
    }
}

/// Finds the scope of constraints in one tree.
///
/// In this order: an explicit `scope: a, b` mark in the text (`global` and `all` mean everywhere, and so does a name
/// that is no topic); a section whose name makes its rules global (Rules, Constraints, Safety, Project Conventions and
/// the same with a qualifier such as "Critical rules"); otherwise the constraint's own topic with all below it and
/// every topic whose name the text mentions, unless that is a common word in the base. A constraint under no heading binds everywhere.
pub struct Scopes<'t> {
    tree: &'t TopicTree,
    /// Names worth looking for, each once, and the topics of each: without their numbers many
    /// sections can have one ("Billing 1", "Billing 2").
    names: Option<AhoCorasick>,
    named: Vec<Vec<TopicId>>,
    /// For every pattern, whether the items use it as a common word.
    common: Vec<bool>,
    /// For every topic, whether it or one above it makes its rules global.
    global: Vec<bool>,
}

static MARK: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the pattern is fixed, and a test reads it")]
    Regex::new(r"(?i)(?:^|[\s(\[<{])scope:\s*([^\])>}\n.;]+)").expect("a valid pattern")
});

/// A name is a common word from this share of the items of a base on, and from so many items.
const COMMON_SHARE: f64 = 0.05;
const COMMON_AT_LEAST: usize = 4;

/// Section names that say nothing about a subject: a mention of "usage" is no mention of a topic.
const PLAIN_NAMES: &[&str] = &[
    "about",
    "background",
    "basics",
    "commands",
    "context",
    "details",
    "examples",
    "features",
    "general",
    "goals",
    "guidelines",
    "important",
    "instructions",
    "introduction",
    "notes",
    "output",
    "overview",
    "process",
    "purpose",
    "requirements",
    "resources",
    "setup",
    "steps",
    "structure",
    "summary",
    "tasks",
    "usage",
    "workflow",
    "your task",
    "when to use",
    "example",
    "input",
    "role",
    "project",
    "tools",
];

impl<'t> Scopes<'t> {
    /// Prepare for the constraints of a base with this tree.
    pub fn new(tree: &'t TopicTree) -> Self {
        let mut named: BTreeMap<String, Vec<TopicId>> = BTreeMap::new();
        let mut global = vec![false; tree.len()];
        for (index, topic) in tree.topics.iter().enumerate().skip(1) {
            let above = topic.parent.map_or(0, TopicId::index);
            global[index] = global[above] || makes_global(&topic.name);
            let name = plain(&topic.name);
            if name.len() >= 4 && !PLAIN_NAMES.contains(&name.as_str()) {
                named.entry(name).or_default().push(TopicId(index as u32));
            }
        }
        let (patterns, named): (Vec<String>, Vec<Vec<TopicId>>) = named.into_iter().unzip();
        let names = if patterns.is_empty() {
            None
        } else {
            // Building fails only for more patterns than ids can count; without names, mentions widen no scope.
            AhoCorasickBuilder::new().ascii_case_insensitive(true).build(&patterns).ok()
        };
        let common = vec![false; named.len()];
        Self { tree, names, named, common, global }
    }

    /// The same for a base with these items. A name that many of them use ("code", "tests" in a file about tests) is a
    /// common word there: that a rule uses it as well says nothing about where it binds.
    pub fn among<'a>(tree: &'t TopicTree, items: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let mut scopes = Self::new(tree);
        let most = COMMON_AT_LEAST.max((items.len() as f64 * COMMON_SHARE) as usize);
        let mut counts = vec![0usize; scopes.named.len()];
        for text in items {
            let mut mentioned: Vec<usize> = scopes.mentions(text).collect();
            mentioned.sort_unstable();
            mentioned.dedup();
            mentioned.into_iter().for_each(|pattern| counts[pattern] += 1);
        }
        scopes.common = counts.into_iter().map(|count| count > most).collect();
        scopes
    }

    /// The patterns that stand in `text` as words of their own.
    fn mentions<'s>(&'s self, text: &'s str) -> impl Iterator<Item = usize> + 's {
        let bounded = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let all = self.names.iter().flat_map(move |names| names.find_overlapping_iter(text));
        all.filter(move |found| {
            bounded(text[..found.start()].chars().next_back()) && bounded(text[found.end()..].chars().next())
        })
        .map(|found| found.pattern().as_usize())
    }

    /// The scope of a constraint with this text and topic.
    pub fn of(&self, text: &str, topic: TopicId) -> Scope {
        if let Some(mark) = MARK.captures(text).and_then(|found| found.get(1)) {
            return self.of_mark(mark.as_str());
        }
        if topic == TopicId::ROOT || self.global.get(topic.index()).copied().unwrap_or(true) {
            return Scope::Global;
        }
        let mut ranges = vec![self.tree.subtree(topic)];
        let specific = self.mentions(text).filter(|pattern| !self.common[*pattern]);
        let topics = specific.flat_map(|pattern| &self.named[pattern]);
        ranges.extend(topics.map(|topic| self.tree.subtree(*topic)));
        Scope::of_ranges(ranges)
    }

    fn of_mark(&self, names: &str) -> Scope {
        let mut ranges = Vec::new();
        for name in names.split([',', '/', '|']).map(plain).filter(|n| !n.is_empty()) {
            let before = ranges.len();
            for (index, topic) in self.tree.topics.iter().enumerate().skip(1) {
                if plain(&topic.name) == name {
                    ranges.push(self.tree.subtree(TopicId(index as u32)));
                }
            }
            if ranges.len() == before {
                // "global", "all", or a name nobody knows: too wide is safe, too narrow is not.
                return Scope::Global;
            }
        }
        if ranges.is_empty() { Scope::Global } else { Scope::of_ranges(ranges) }
    }
}

/// A heading's words in lower case, without marks, numbers and pictures.
fn plain(name: &str) -> String {
    let mut words = String::with_capacity(name.len());
    for word in name.split(|c: char| !(c.is_alphabetic() || c == '\'' || c == '-')) {
        let word = word.trim_matches(['\'', '-']);
        if !word.is_empty() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&word.to_lowercase());
        }
    }
    words
}

/// Whether a section of this name holds rules for everything.
fn makes_global(name: &str) -> bool {
    const QUALIFIERS: &[&str] = &[
        "the",
        "our",
        "all",
        "important",
        "critical",
        "general",
        "global",
        "core",
        "key",
        "project",
        "hard",
        "strict",
        "absolute",
        "safety",
        "golden",
        "mandatory",
        "must-follow",
        "non-negotiable",
        "and",
        "universal",
    ];
    let name = plain(name);
    let mut rest = name.split(' ').filter(|word| !QUALIFIERS.contains(word)).peekable();
    let named = ["rules", "constraints", "conventions", "guardrails"];
    if rest.peek().is_none() {
        return name.split(' ').any(|word| word == "safety");
    }
    rest.all(|word| named.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_common_word_widens_no_scope() {
        let tree = TopicTree::of_paths([&["deploy"][..], &["invoices"], &["orders"]]);
        let orders = tree.find(&["orders"]).unwrap();
        let items: Vec<String> = (0..40).map(|n| format!("deploy part {n}")).collect();
        let items = || items.iter().map(String::as_str);
        let rule = "Never deploy orders without invoices";
        let covered = |scope: Scope| (1..4).filter(|id| scope.covers(TopicId(*id))).count();
        assert_eq!(covered(Scopes::new(&tree).of(rule, orders)), 3);
        assert_eq!(covered(Scopes::among(&tree, items()).of(rule, orders)), 2);
    }
    use crate::segment::segment;

    const DOC: &str = "Top rule\n\n# App\n\nintro\n\n## Rules\n\na\n\n### Git\n\nb\n\n## Database\n\nc\n\n### Migrations\n\nd\n\n## Deploy\n\ne\n";

    fn tree() -> TopicTree {
        TopicTree::of_headings(&segment("a.md", DOC), DOC)
    }

    #[test]
    fn headings_become_a_tree_with_ranges() {
        let tree = tree();
        let database = tree.find(&["app", "database"]).unwrap();
        assert_eq!(tree.path(TopicId(database.0 + 1)), ["App", "Database", "Migrations"]);
        assert_eq!(tree.subtree(database).len(), 2);
        assert_eq!(tree.subtree(TopicId::ROOT).len(), tree.len());
        let given = TopicTree::of_paths([&["b", "x"][..], &["a"], &["b", "y"]]);
        assert_eq!(given.len(), 5);
        assert_eq!(given.subtree(given.find(&["b"]).unwrap()).len(), 3);
    }

    #[test]
    fn scopes_follow_section_mention_and_mark() {
        let tree = tree();
        let scopes = Scopes::new(&tree);
        let at = |path: &[&str]| tree.find(path).unwrap();
        let (git, database, deploy) = (at(&["App", "Rules", "Git"]), at(&["App", "Database"]), at(&["App", "Deploy"]));
        assert_eq!(scopes.of("Never do it", TopicId::ROOT), Scope::Global);
        assert_eq!(scopes.of("Never do it", git), Scope::Global);
        let local = scopes.of("Never drop a table", database);
        assert!(local.covers(database) && local.covers(TopicId(database.0 + 1)) && !local.covers(deploy));
        assert!(scopes.of("Never deploy before a backup", database).covers(deploy));
        assert!(!scopes.of("Never redeploy", database).covers(deploy));
        let marked = scopes.of("Never on Fridays (scope: deploy)", database);
        assert!(marked.covers(deploy) && !marked.covers(database));
        assert_eq!(scopes.of("Never [scope: everything]", database), Scope::Global);
    }

    #[test]
    fn sections_of_one_name_are_all_meant() {
        let tree = TopicTree::of_paths([&["Billing 1"][..], &["Billing 2"], &["Orders"]]);
        let orders = tree.find(&["Orders"]).unwrap();
        let scope = Scopes::new(&tree).of("Never change billing by hand", orders);
        assert!((1..4).all(|topic| scope.covers(TopicId(topic))) && !scope.covers(TopicId::ROOT), "{scope:?}");
    }

    #[test]
    fn names_that_make_rules_global() {
        for name in ["Rules", "## 3. Critical Rules 🚨", "Safety", "Project Conventions", "Safety rules", "Constraints"]
        {
            assert!(makes_global(name), "{name}");
        }
        for name in ["Git rules", "Naming conventions", "Project", "Database", "", "Important"] {
            assert!(!makes_global(name), "{name}");
        }
    }
}
