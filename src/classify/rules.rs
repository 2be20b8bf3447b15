//! The `regex` variant: four families of patterns in a fixed order, the first family that matches decides (the paper's
//! §3.2; the patterns are ours). It sees the form of a sentence, not its meaning.

use super::{Classifier, Probabilities, Reason, Thresholds};
use crate::corpus::ItemContext;
use crate::taxonomy::{ItemKind, KnowledgeType};
use regex::RegexSet;
use std::sync::LazyLock;

/// Version of the patterns; part of the id that is stored with every answer.
const RULES_VERSION: u32 = 1;

/// A family of patterns.
struct Family {
    /// The type that a match means.
    means: KnowledgeType,
    /// What each pattern is called when it explains a decision, and the pattern.
    patterns: &'static [(&'static str, &'static str)],
    /// Confidence of a match.
    confidence: f32,
}

static FAMILIES: [Family; 4] = [
    Family {
        means: KnowledgeType::Constraint,
        confidence: 0.75,
        patterns: &[
            ("forbids: never", r"(?i)\bnever\b"),
            ("forbids: must not", r"(?i)\b(?:must|shall|may|should)(?:\s+not|n[’']t)\b|\bcannot be\b"),
            ("forbids: do not", r"(?:^|[.;:—–(*]\s*|\*\*)(?:DO NOT|Do not|Don[’']t|DON[’']T)\b|\bDO NOT\b"),
            (
                "forbids: prohibited",
                r"(?i)\b(?:forbidden|prohibited|not (?:allowed|permitted)|disallowed|off[- ]limits|non-negotiable)\b",
            ),
            (
                "marks: capitals",
                r"\b(?:CRITICAL|IMPORTANT|WARNING|DANGER|MANDATORY|REQUIRED|NEVER|MUST|ALWAYS|ONLY|STOP|FORBIDDEN)\b",
            ),
            (
                "obliges: always, ensure or require with a modal",
                r"(?i)\b(?:must|shall|need(?:s)? to|ha(?:ve|s) to)\s+(?:\w+\s+)?(?:always|ensure|require)|\b(?:always|ensure|requires?d?)\b[^.]*\b(?:must|shall|need(?:s)? to|ha(?:ve|s) to)\b",
            ),
            ("obliges: must", r"(?i)\bmust\b"),
            (
                "needs leave",
                r"(?i)\bwithout (?:explicit |prior |user |the user[’']s |human )*(?:approval|permission|consent|confirmation|review|asking)\b|\b(?:ask|confirm|get approval) (?:first|before)\b",
            ),
            ("harms: cannot be undone", r"(?i)\b(?:irreversible|cannot be undone|data loss|destructive)\b"),
            ("sign", r"^\s*(?:⛔|🚫|🛑)"),
        ],
    },
    Family {
        means: KnowledgeType::Procedural,
        confidence: 0.7,
        patterns: &[
            ("shell or program block", r"^\s*(?:```|~~~)"),
            (
                "opens with a command verb",
                r"(?i)^\W*(?:run|execute|install|build|start|launch|open|create|add|update|check|verify|copy|call|invoke|generate|test|commit|push|deploy|configure|set up|read|review|identify|write|search|fix|report|wait|click|select|navigate)\b",
            ),
            ("numbered step", r"(?i)^\W*(?:step\s+\d|\d+[.)]\s)"),
            (
                "package manager or tool call",
                r"(?:^|[`$\s])(?:npm|pnpm|yarn|npx|bun|pip|uv|poetry|cargo|make|just|go (?:run|test|build)|dotnet|mvn|\./gradlew|gradle|docker|kubectl|git|brew|apt(?:-get)?|bundle|composer|mix|pytest)\s+[a-z-]",
            ),
            ("unchecked box", r"^\s*\[ \]"),
        ],
    },
    Family {
        means: KnowledgeType::Episodic,
        confidence: 0.6,
        patterns: &[
            ("time: day", r"(?i)\b(?:yesterday|last (?:week|month|sprint|night)|earlier today|recently)\b"),
            ("time: date", r"\b20\d\d-\d\d-\d\d\b"),
            ("time: update mark", r"(?i)\b(?:last updated|updated on|as of (?:20\d\d|v?\d))"),
            ("done", r"(?i)^\s*\[x\]|^\W*(?:completed|done|fixed|shipped|resolved|merged)\b\s*[:(—-]|^\s*✅"),
        ],
    },
    Family {
        means: KnowledgeType::Preference,
        confidence: 0.65,
        patterns: &[
            (
                "prefers",
                r"(?i)\b(?:prefer(?:red|ably|s)?|favou?r|ideally|where possible|when possible|recommended|best practice)\b",
            ),
            ("avoids", r"(?i)\bavoid\b"),
            ("should", r"(?i)\bshould\b"),
            (
                "taste",
                r"(?i)\b(?:consistent(?:ly)?|concise|readable|idiomatic|naming|camelCase|PascalCase|snake_case|kebab-case|indentation)\b",
            ),
            ("opens with use or keep", r"(?i)^\W*(?:use|keep|follow|write|make)\b"),
        ],
    },
];

static SETS: LazyLock<Vec<RegexSet>> = LazyLock::new(|| {
    FAMILIES
        .iter()
        .map(|family| {
            #[expect(clippy::expect_used, reason = "the patterns are constants; a test compiles each of them")]
            RegexSet::new(family.patterns.iter().map(|(_, p)| p)).expect("constant patterns")
        })
        .collect()
});

/// The `regex` variant. It has no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegexRules;

impl RegexRules {
    /// The type of the first family that matches, with the name of the pattern; nothing when none does. The hard
    /// precedence is what lets a cascade stop here.
    pub fn resolve(&self, item: &ItemContext<'_>) -> Option<(KnowledgeType, &'static str)> {
        let text = item.text.trim_start();
        if item.kind == Some(ItemKind::Code) && !SETS[0].is_match(text) {
            return Some((KnowledgeType::Procedural, FAMILIES[1].patterns[0].0));
        }
        FAMILIES.iter().zip(SETS.iter()).find_map(|(family, set)| {
            let first = set.matches(text).iter().next()?;
            Some((family.means, family.patterns[first].0))
        })
    }

    /// How sure a match of a type's family is.
    pub fn confidence(t: KnowledgeType) -> f32 {
        FAMILIES.iter().find(|f| f.means == t).map_or(0.0, |f| f.confidence)
    }
}

impl Classifier for RegexRules {
    fn name(&self) -> &str {
        "regex"
    }

    fn id(&self) -> String {
        format!("regex:{RULES_VERSION}")
    }

    fn thresholds(&self) -> Thresholds {
        // Matches are all or nothing: any threshold below the family's confidence and above the rest says the same.
        Thresholds { balanced: 0.5, safe: 0.5 }
    }

    fn probabilities(&self, item: &ItemContext<'_>) -> Probabilities {
        match self.resolve(item) {
            Some((t, _)) => Probabilities::peaked(t, Self::confidence(t)),
            // Agent files are mostly facts where no pattern speaks; barely above the others, since nothing was seen.
            None => Probabilities::peaked(KnowledgeType::Belief, 0.4),
        }
    }

    fn explain(&self, item: &ItemContext<'_>, t: KnowledgeType, limit: usize) -> Vec<Reason> {
        let reason = match self.resolve(item) {
            Some((means, what)) if means == t => Some(Reason { what: what.to_owned(), weight: Self::confidence(t) }),
            Some(_) => None,
            None => Some(Reason { what: "no pattern matches".to_owned(), weight: 0.0 }),
        };
        reason.into_iter().take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(text: &str) -> Option<KnowledgeType> {
        RegexRules.resolve(&ItemContext { text, ..Default::default() }).map(|(t, _)| t)
    }

    #[test]
    fn families_answer_in_their_order() {
        use KnowledgeType::*;
        for (text, t) in [
            ("Run the migration, but never on production", Some(Constraint)),
            ("Run `pytest -x` before merging", Some(Procedural)),
            ("Refactored the auth module yesterday", Some(Episodic)),
            ("Prefer small functions", Some(Preference)),
            ("You may not share the recording", Some(Constraint)),
            ("The backend speaks REST", None),
            ("Patient is allergic to penicillin.", None),
            ("", None),
        ] {
            assert_eq!(kind_of(text), t, "{text}");
        }
    }

    #[test]
    fn every_answer_names_its_pattern() {
        let item = ItemContext { text: "Secrets must not be logged", ..Default::default() };
        let decision = RegexRules.decide(&item, &crate::classify::Policy::at(crate::taxonomy::OperatingPoint::Safe));
        assert!(decision.pinned);
        assert_eq!(decision.why[0].what, "forbids: must not");
    }
}
