//! Secrets by the rules of `queries/redact/secrets.toml`.

use super::placeholder::{entropy, is_placeholder, is_random};
use super::{RedactionKind, RedactionSpan};
use aho_corasick::AhoCorasick;
use regex::Regex;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    id: String,
    kind: Option<String>,
    keywords: Vec<String>,
    regex: String,
    entropy: f64,
    #[serde(default)]
    mixed: bool,
}

struct Rule {
    id: &'static str,
    kind: RedactionKind,
    regex: Regex,
    entropy: f64,
    /// The value must look random: the rule's context alone is weak.
    mixed: bool,
}

struct Rules {
    rules: Vec<Rule>,
    keywords: AhoCorasick,
    /// Rule of each keyword.
    owner: Vec<usize>,
}

#[expect(clippy::expect_used, reason = "the rules are compiled in, and a test reads them")]
static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let file: File =
        toml::from_str(include_str!("../../queries/redact/secrets.toml")).expect("the compiled-in rules are TOML");
    let mut owner = Vec::new();
    let mut words = Vec::new();
    let mut rules = Vec::new();
    for rule in file.rule {
        owner.extend(rule.keywords.iter().map(|_| rules.len()));
        words.extend(rule.keywords);
        rules.push(Rule {
            // Once for the life of the process, so that spans stay small.
            id: rule.id.leak(),
            kind: if rule.kind.as_deref() == Some("private-key") {
                RedactionKind::PrivateKey
            } else {
                RedactionKind::Secret
            },
            regex: Regex::new(&rule.regex).expect("the compiled-in patterns are regular expressions"),
            entropy: rule.entropy,
            mixed: rule.mixed,
        });
    }
    let keywords =
        AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("the keywords fit an automaton");
    Rules { rules, keywords, owner }
});

/// Spans of all secrets in `text`, rule by rule.
pub(super) fn find(text: &str) -> Vec<RedactionSpan> {
    let rules = &*RULES;
    let mut wanted = vec![false; rules.rules.len()];
    for hit in rules.keywords.find_overlapping_iter(text) {
        wanted[rules.owner[hit.pattern().as_usize()]] = true;
    }
    let mut found = Vec::new();
    for (rule, _) in rules.rules.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
        for captures in rule.regex.captures_iter(text) {
            let Some(secret) = captures.name("secret").or_else(|| captures.get(0)) else { continue };
            let value = secret.as_str();
            let plausible =
                entropy(value) >= rule.entropy && (rule.kind == RedactionKind::PrivateKey || !is_placeholder(value));
            // `app:app@localhost`: a development set-up, or an example.
            let local = rule.id == "connection-string"
                && (text[..secret.start()].ends_with(&format!("/{value}:"))
                    || ["@localhost", "@127.0.0.1", "@example."]
                        .iter()
                        .any(|host| text[secret.end()..].starts_with(host)));
            if plausible && !local && (!rule.mixed || is_random(value)) {
                found.push(RedactionSpan { start: secret.start(), end: secret.end(), rule: rule.id, kind: rule.kind });
            }
        }
    }
    found
}
