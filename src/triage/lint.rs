//! What is wrong with an agent file as a store of rules: rules that a summariser will lose, rules said twice or in two
//! ways, pointers that lead nowhere.

use super::base::{Base, Item};
use super::canonical::{Canonical, is_imperative};
use crate::segment::flatten;
use crate::taxonomy::{ItemKind, KnowledgeType};
use regex::Regex;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A constraint worded as a statement of fact.
    DeclarativeConstraint,
    /// The same text twice.
    Duplicate,
    /// Two rules about the same thing, of which one forbids and the other obliges.
    Contradiction,
    /// A link or an import whose target is not there.
    DeadPointer,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 4] = [Self::DeclarativeConstraint, Self::Duplicate, Self::Contradiction, Self::DeadPointer];

    /// Its name in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeclarativeConstraint => "declarative-constraint",
            Self::Duplicate => "duplicate",
            Self::Contradiction => "contradiction",
            Self::DeadPointer => "dead-pointer",
        }
    }

    /// What it finds, in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Self::DeclarativeConstraint => "A constraint worded as a fact is what a summariser loses first",
            Self::Duplicate => "The same text stands twice",
            Self::Contradiction => "Two rules about the same thing say the opposite",
            Self::DeadPointer => "A link or an import leads nowhere",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub rule: Rule,
    /// Its line, 1-based.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// A wording that would not have the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// The other line concerned, 1-based.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_line: Option<u32>,
}

/// What [`lint`] found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lint {
    /// How many items there are of each type.
    pub mix: BTreeMap<&'static str, usize>,
    /// How many items operators pin.
    pub pinned: usize,
    /// What is wrong, by line.
    pub findings: Vec<Finding>,
}

/// Look for faults in `base`. `exists` is asked whether the target of a pointer, as it is written, is there; targets
/// with a scheme, placeholders and patterns are never asked about.
///
/// ```
/// use aac::taxonomy::KnowledgeType::Constraint;
/// use aac::triage::{Base, Judgement, Rule, Tokenizer, lint};
///
/// let text = "- The production database is read-only.\n- See [the rules](rules.md).\n";
/// let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |_| Judgement::certain(Constraint));
/// let found = lint(&base, |target| target != "rules.md");
/// assert_eq!(found.findings[0].proposal.as_deref(), Some("Never modify the production database: it is read-only."));
/// assert_eq!(found.findings.last().map(|f| (f.rule, f.line)), Some((Rule::DeadPointer, 2)));
/// ```
pub fn lint(base: &Base, exists: impl Fn(&str) -> bool) -> Lint {
    let mut mix = BTreeMap::new();
    for item in base.items() {
        *mix.entry(item.judgement.item_type.as_str()).or_insert(0) += 1;
    }
    let mut findings = Vec::new();
    declarative(base, &mut findings);
    duplicates(base, &mut findings);
    contradictions(base, &mut findings);
    pointers(base, exists, &mut findings);
    findings.sort_by_key(|finding| (finding.line, finding.rule));
    Lint { mix, pinned: base.items().iter().filter(|item| item.pinned()).count(), findings }
}

fn is_rule(item: &Item) -> bool {
    item.judgement.item_type == KnowledgeType::Constraint
        && !matches!(item.kind, ItemKind::Code | ItemKind::Row | ItemKind::Setting)
}

fn declarative(base: &Base, findings: &mut Vec<Finding>) {
    for item in base.items().iter().filter(|item| is_rule(item)) {
        let text = flatten(base.text_of(item));
        // A line that opens a list has its force from the list, a command in the imperative from its verb.
        if is_imperative(&text) || text.ends_with(':') || !asserts(&text) {
            continue;
        }
        findings.push(Finding {
            rule: Rule::DeclarativeConstraint,
            line: item.line,
            message: "This rule is worded as a fact, so a summariser will treat it as one; word it as an order"
                .to_owned(),
            proposal: Some(as_order(&text)),
            other_line: None,
        });
    }
}

/// Whether a text says how things are: it has a finite verb of being, having or needing.
fn asserts(text: &str) -> bool {
    super::canonical::words(text).any(|word| {
        matches!(
            word.as_str(),
            "is" | "are"
                | "was"
                | "has"
                | "have"
                | "requires"
                | "require"
                | "needs"
                | "belongs"
                | "belong"
                | "contains"
                | "causes"
                | "breaks"
                | "means"
                | "cannot"
                | "isn't"
                | "aren't"
                | "fails"
                | "fail"
        )
    })
}

#[expect(clippy::expect_used, reason = "the patterns are fixed, and a test uses each of them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static FORBIDDEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?P<what>\S+(?: \S+){0,7}?) (?:is|are)\s+(?:strictly\s+)?(?:forbidden|prohibited|off[- ]limits|not (?:allowed|permitted))\b(?P<rest>.*)$",
    )
});
static READ_ONLY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?P<what>\S+(?: \S+){0,7}?) (?P<be>is|are)\s+(?P<state>read-only|immutable|append-only|frozen|generated|auto-generated)\b(?P<rest>.*)$",
    )
});
static REQUIRED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^(?P<what>\S+(?: \S+){0,7}?) (?:is|are)\s+(?:required|mandatory)\b(?P<rest>.*)$"));
static REQUIRES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^(?P<what>\S+(?: \S+){0,5}?) requires? (?P<rest>.+)$"));

/// An order that says the same as `fact`, mostly in its own words.
fn as_order(fact: &str) -> String {
    let lower = |text: &str| {
        let mut chars = text.chars();
        let first = chars.next().map(|c| c.to_lowercase().collect::<String>()).unwrap_or_default();
        let rest = chars.as_str();
        // Names and abbreviations keep their capital.
        if rest.starts_with(|c: char| c.is_lowercase() || c == ' ') { first + rest } else { text.to_owned() }
    };
    if let Some(found) = FORBIDDEN.captures(fact) {
        return format!("Never allow {}{}", lower(&found["what"]), &found["rest"]);
    }
    if let Some(found) = READ_ONLY.captures(fact) {
        let it = if found["be"].eq_ignore_ascii_case("is") { "it is" } else { "they are" };
        return format!("Never modify {}: {it} {}{}", lower(&found["what"]), &found["state"], &found["rest"]);
    }
    if let Some(found) = REQUIRED.captures(fact) {
        return format!("Always provide {}{}", lower(&found["what"]), &found["rest"]);
    }
    if let Some(found) = REQUIRES.captures(fact) {
        return format!("Never go on with {} without {}", lower(&found["what"]), &found["rest"]);
    }
    format!("Never act against this: {}", lower(fact))
}

fn duplicates(base: &Base, findings: &mut Vec<Finding>) {
    let mut first: HashMap<String, u32> = HashMap::new();
    for item in base.items() {
        let text = flatten(base.text_of(item)).to_lowercase();
        // Short texts repeat in tables and steps for good reasons.
        if text.split(' ').count() < 4 || matches!(item.kind, ItemKind::Code | ItemKind::Row) || text.ends_with(':') {
            continue;
        }
        match first.get(&text) {
            Some(line) => findings.push(Finding {
                rule: Rule::Duplicate,
                line: item.line,
                message: format!("This text stands on line {line} already"),
                proposal: None,
                other_line: Some(*line),
            }),
            None => {
                first.insert(text, item.line);
            }
        }
    }
}

/// Where a rule stands, whether it forbids, and what qualifies it.
type Stance = (u32, bool, Vec<String>);

fn contradictions(base: &Base, findings: &mut Vec<Finding>) {
    // Rules by what they are about, so that only rules about the same thing are compared.
    let mut about: HashMap<Vec<String>, Vec<Stance>> = HashMap::new();
    for item in base.items().iter().filter(|item| item.kind != ItemKind::Code && item.kind != ItemKind::Row) {
        for sentence in super::check::sentences(base.text_of(item)) {
            let form = Canonical::of(sentence);
            let duty = !form.duties.is_empty() || sentence.trim_start_matches(['*', ' ', '-']).starts_with("Use ");
            if form.object.len() < 2 || (form.negations == 0 && !duty) || form.negations > 1 {
                continue;
            }
            let mut object: Vec<String> = form.object.clone();
            object.sort_unstable();
            object.dedup();
            let mut qualifiers = form.qualifiers.clone();
            qualifiers.sort_unstable();
            about.entry(object).or_default().push((item.line, form.negations > 0, qualifiers));
        }
    }
    for rules in about.values() {
        for (index, (line, forbids, qualifiers)) in rules.iter().enumerate() {
            let opposite = rules[..index].iter().find(|(_, other, q)| other != forbids && q == qualifiers);
            if let Some((other, _, _)) = opposite {
                findings.push(Finding {
                    rule: Rule::Contradiction,
                    line: *line,
                    message: format!("This rule says the opposite of line {other}"),
                    proposal: None,
                    other_line: Some(*other),
                });
            }
        }
    }
}

static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\]\(<?([^)\s>]+)>?(?:\s+[^)]*)?\)"));
static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)(?:^|[\s(])@((?:\.{0,2}/|~/)?[\w.-]+(?:/[\w.-]+)*\.(?:mdc?|txt|json|ya?ml|toml))\b")
});

fn pointers(base: &Base, exists: impl Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    let anchors: HashSet<String> = (0..base.topics().len() as u32)
        .filter_map(|id| base.topics().get(super::topics::TopicId(id)))
        .map(|topic| anchor(&topic.name))
        .collect();
    let mut asked: HashMap<String, bool> = HashMap::new();
    for item in base.items().iter().filter(|item| item.kind != ItemKind::Code) {
        let text = base.text_of(item);
        let outside_code = without_code(text);
        let targets = LINK.captures_iter(&outside_code).chain(IMPORT.captures_iter(&outside_code));
        for target in targets.filter_map(|found| found.get(1)) {
            let line = item.line + text[..target.start()].matches('\n').count() as u32;
            let target = target.as_str();
            if target.contains("://")
                || target.starts_with(['/', '~', '{', '<', '$'])
                || target.contains(['*', '{', '<', '$', '…'])
                || ["mailto:", "tel:", "data:", "mdc:", "file:", "vscode:"]
                    .iter()
                    .any(|scheme| target.starts_with(scheme))
            {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = path.split('?').next().unwrap_or_default();
            let dead = if path.is_empty() {
                !fragment.is_empty() && !anchors.contains(&fragment.to_lowercase())
            } else {
                !*asked.entry(path.to_owned()).or_insert_with(|| exists(path))
            };
            if dead {
                findings.push(Finding {
                    rule: Rule::DeadPointer,
                    line,
                    message: format!("{target} is not there"),
                    proposal: None,
                    other_line: None,
                });
            }
        }
    }
}

/// The text with the insides of code spans blanked, at the same offsets.
fn without_code(text: &str) -> String {
    let mut inside = false;
    text.chars()
        .flat_map(|c| {
            let code = c == '`';
            inside ^= code;
            let blank = inside && !code && c != '\n';
            std::iter::repeat_n(if blank { ' ' } else { c }, if blank { c.len_utf8() } else { 1 })
        })
        .collect()
}

/// The anchor that GitHub gives a heading.
fn anchor(name: &str) -> String {
    name.chars()
        .filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            c if c.is_alphanumeric() || c == '_' => Some(c),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// The findings of several files as a SARIF 2.1.0 log, which code hosts show beside the lines concerned.
pub fn sarif<'a>(files: impl IntoIterator<Item = (&'a str, &'a Lint)>) -> serde_json::Value {
    use serde_json::json;
    let rules: Vec<_> =
        Rule::ALL.iter().map(|rule| json!({"id": rule.as_str(), "shortDescription": {"text": rule.about()}})).collect();
    let mut results = Vec::new();
    for (path, lint) in files {
        for finding in &lint.findings {
            let text = match &finding.proposal {
                Some(proposal) => format!("{}. Proposal: {proposal}", finding.message),
                None => finding.message.clone(),
            };
            let location = |line: u32| {
                json!({"physicalLocation": {
                    "artifactLocation": {"uri": path.replace('\\', "/")},
                    "region": {"startLine": line},
                }})
            };
            let mut result = json!({
                "ruleId": finding.rule.as_str(),
                "level": "warning",
                "message": {"text": text},
                "locations": [location(finding.line)],
            });
            if let Some(other) = finding.other_line {
                result["relatedLocations"] = json!([location(other)]);
            }
            results.push(result);
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "aac lint", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::base::Judgement;
    use crate::triage::tokens::Tokenizer;

    fn lint_all(text: &str) -> Vec<Finding> {
        let base = Base::read("AGENTS.md", text, Tokenizer::Cl100k, |_| Judgement::certain(KnowledgeType::Constraint));
        lint(&base, |target| target.starts_with("there")).findings
    }

    #[test]
    fn facts_get_an_order_in_their_own_words() {
        for (fact, order) in [
            ("Direct pushes to main are not allowed.", "Never allow direct pushes to main."),
            ("API keys are read-only.", "Never modify API keys: they are read-only."),
            ("A review is required before a merge", "Always provide a review before a merge"),
            ("Deployment requires approval", "Never go on with deployment without approval"),
            (
                "The patient is allergic to penicillin.",
                "Never act against this: the patient is allergic to penicillin.",
            ),
        ] {
            let found = lint_all(&format!("- {fact}\n"));
            assert_eq!(found.iter().map(|f| f.proposal.as_deref()).collect::<Vec<_>>(), [Some(order)], "{fact}");
        }
        assert!(lint_all("- Never push.\n- Run the tests that are there\n- Must be done:\n").len() <= 1);
        assert!(lint_all("- You must not push what is there\n").is_empty());
    }

    #[test]
    fn rules_said_twice_or_in_two_ways_are_found_with_both_lines() {
        let found = lint_all(
            "- Always use tabs for indentation\n\n- Never use tabs for indentation\n- never use  tabs for indentation\n",
        );
        let seen: Vec<_> = found.iter().map(|f| (f.rule, f.line, f.other_line)).collect();
        assert!(seen.contains(&(Rule::Contradiction, 3, Some(1))), "{seen:?}");
        assert!(seen.contains(&(Rule::Duplicate, 4, Some(3))), "{seen:?}");
        assert!(
            lint_all("- Always use tabs for indentation\n- Never use tabs for indentation in YAML files when asked\n")
                .is_empty()
        );
    }

    #[test]
    fn pointers_are_followed_unless_they_are_code_or_patterns() {
        let text = "# My rules\n\nSee [a](there.md), [b](gone.md#x) and\n[c](#my-rules), [d](#no) and @docs/gone.md or `[e](code.md)`.\n[f](https://x.y) [g](src/*.rs)\n";
        let found: Vec<_> = lint_all(text).into_iter().filter(|f| f.rule == Rule::DeadPointer).collect();
        let seen: Vec<_> = found.iter().map(|f| (f.line, f.message.as_str())).collect();
        assert_eq!(seen, [(3, "gone.md#x is not there"), (4, "#no is not there"), (4, "docs/gone.md is not there")]);
    }

    #[test]
    fn sarif_names_rule_file_and_line() {
        let base =
            Base::read("A.md", "\n[a](gone.md)\n", Tokenizer::Chars4, |_| Judgement::certain(KnowledgeType::Belief));
        let log = sarif([("A.md", &lint(&base, |_| false))]);
        let result = &log["runs"][0]["results"][0];
        assert_eq!(result["ruleId"], "dead-pointer");
        assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 2);
        assert_eq!(log["version"], "2.1.0");
    }
}
