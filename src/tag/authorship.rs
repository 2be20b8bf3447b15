//! Who wrote an artifact: template, bot, ai_generated, ai_assisted, human, unknown, in this order, by evidence only.

use super::passage::speaks;
use super::{Evidence, RulesError, Tag, TagInput};
use crate::corpus::CommitFact;
use crate::taxonomy::{AuthorKind, Authorship, CreditVia, Function};
use aho_corasick::AhoCorasick;
use regex::Regex;
use serde::Deserialize;
use std::ops::Range;

/// How many passages in a person's voice are looked at.
const PASSAGES: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    text: Vec<WrittenText>,
    vendored: Vec<WrittenVendored>,
    human: WrittenHuman,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenText {
    id: String,
    value: Authorship,
    text: String,
    needles: Vec<String>,
    head: Option<usize>,
    tail: Option<usize>,
    #[serde(default)]
    front_matter: bool,
    #[serde(default)]
    anywhere: bool,
    #[serde(default = "one")]
    min: usize,
    #[serde(default)]
    functions: Vec<Function>,
    path: Option<String>,
    confidence: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVendored {
    id: String,
    owner: String,
    path: String,
    confidence: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHuman {
    min_commits: usize,
    min_days: i64,
    text: String,
}

fn one() -> usize {
    1
}

#[derive(Debug)]
pub(super) struct AuthorshipRules {
    texts: Vec<TextRule>,
    needles: AhoCorasick,
    /// For each needle the rule it belongs to.
    needle_rules: Vec<usize>,
    vendored: Vec<Vendored>,
    min_commits: usize,
    min_seconds: i64,
    voice: Regex,
}

#[derive(Debug)]
struct TextRule {
    id: String,
    value: Authorship,
    text: Regex,
    head: Option<usize>,
    tail: Option<usize>,
    front_matter: bool,
    anywhere: bool,
    min: usize,
    functions: Vec<Function>,
    path: Option<Regex>,
    confidence: f32,
}

#[derive(Debug)]
struct Vendored {
    id: String,
    owner: Regex,
    path: Regex,
    confidence: f32,
}

impl AuthorshipRules {
    pub(super) fn parse(name: &str, toml: &str) -> Result<Self, RulesError> {
        use super::rules::{pattern, read};
        let file: File = read(name, toml)?;
        let (needle_rules, needles): (Vec<_>, Vec<_>) = file
            .text
            .iter()
            .enumerate()
            .flat_map(|(i, t)| t.needles.iter().map(move |needle| (i, needle.clone())))
            .unzip();
        Ok(Self {
            needles: super::rules::needles(name, &needles)?,
            needle_rules,
            texts: file
                .text
                .into_iter()
                .map(|t| {
                    Ok(TextRule {
                        text: pattern(name, &t.text)?,
                        path: t.path.as_deref().map(|p| pattern(name, p)).transpose()?,
                        id: t.id,
                        value: t.value,
                        head: t.head,
                        tail: t.tail,
                        front_matter: t.front_matter,
                        anywhere: t.anywhere,
                        min: t.min,
                        functions: t.functions,
                        confidence: t.confidence,
                    })
                })
                .collect::<Result<_, RulesError>>()?,
            vendored: file
                .vendored
                .into_iter()
                .map(|v| {
                    Ok(Vendored {
                        owner: pattern(name, &v.owner)?,
                        path: pattern(name, &v.path)?,
                        id: v.id,
                        confidence: v.confidence,
                    })
                })
                .collect::<Result<_, RulesError>>()?,
            min_commits: file.human.min_commits,
            min_seconds: file.human.min_days * 86_400,
            voice: pattern(name, &file.human.text)?,
        })
    }

    pub(super) fn judge(&self, input: &TagInput, function: Function) -> Tag<Authorship> {
        let marks = self.marks(input, function);
        let history = History::of(input.history.unwrap_or_default());
        let of = |value| move |mark: &&Mark| mark.0.value == value;
        // "Generated with Claude Code" is an agent's credit, not a program's mark.
        let credited = |mark: &&Mark| {
            marks
                .iter()
                .filter(of(Authorship::AiGenerated))
                .any(|ai| ai.1.start < mark.1.end && mark.1.start < ai.1.end)
        };
        let template = marks.iter().filter(of(Authorship::Template)).find(|mark| !credited(mark));
        self.template(input, template)
            .or_else(|| history.bot())
            .or_else(|| history.ai_generated().or_else(|| marks.iter().find(of(Authorship::AiGenerated)).map(said)))
            .or_else(|| history.ai_assisted())
            .or_else(|| self.human(input, &history))
            .unwrap_or_else(|| tag(Authorship::Unknown, "default", Evidence::Fact("no evidence".to_owned()), 0.5))
    }

    fn template(&self, input: &TagInput, mark: Option<&Mark>) -> Option<Tag<Authorship>> {
        if input.owners >= 2 {
            let fact = Evidence::Fact(format!("same text under {} owners", input.owners));
            return Some(tag(Authorship::Template, "owners", fact, 0.95));
        }
        if let Some(mark) = mark {
            return Some(said(mark));
        }
        let path = format!("/{}", input.path);
        let vendored =
            self.vendored.iter().find(|v| v.path.is_match(&path) && !v.owner.is_match(input.repo.owner()))?;
        Some(tag(Authorship::Template, &vendored.id, Evidence::Fact(input.path.to_owned()), vendored.confidence))
    }

    /// The text rules that fire, each with where.
    fn marks(&self, input: &TagInput, function: Function) -> Vec<Mark<'_>> {
        if input.symlink {
            return Vec::new();
        }
        let text = input.text;
        let windows: Vec<Range<usize>> = self.texts.iter().map(|rule| rule.window(text)).collect();
        let end = windows.iter().filter(|w| w.start == 0).map(|w| w.end).max().unwrap_or(0);
        let mut possible = vec![false; self.texts.len()];
        for hit in self.needles.find_overlapping_iter(&text[..end]) {
            possible[self.needle_rules[hit.pattern().as_usize()]] = true;
        }
        for (rule, window) in windows.iter().enumerate().filter(|(_, w)| w.start > 0) {
            let found = |hit: aho_corasick::Match| self.needle_rules[hit.pattern().as_usize()] == rule;
            possible[rule] |= self.needles.find_overlapping_iter(&text[window.clone()]).any(found);
        }
        let fires = |(rule, window): (&'_ TextRule, Range<usize>)| rule.fires(input, function, window);
        self.texts
            .iter()
            .zip(windows)
            .zip(possible)
            .filter(|(_, possible)| *possible)
            .filter_map(|((rule, window), _)| Some(Mark(rule, fires((rule, window))?)))
            .collect()
    }

    fn human(&self, input: &TagInput, history: &History) -> Option<Tag<Authorship>> {
        if !history.people_only || history.commits < self.min_commits || history.span() < self.min_seconds {
            return None;
        }
        // Each look at the context costs a pass over what stands before: a text that never speaks stays linear.
        let mut said = self.voice.find_iter(input.text).map(|m| m.range()).take(PASSAGES);
        let voice = said.find(|at| speaks(input.text, at))?;
        Some(tag(Authorship::Human, "voice", Evidence::Span(voice), 0.6))
    }
}

/// A text rule that fired, and where.
struct Mark<'r>(&'r TextRule, Range<usize>);

fn said(mark: &Mark) -> Tag<Authorship> {
    tag(mark.0.value, &mark.0.id, Evidence::Span(mark.1.clone()), mark.0.confidence)
}

fn tag(value: Authorship, rule: &str, evidence: Evidence, confidence: f32) -> Tag<Authorship> {
    Tag { value, rule: format!("{value}.{rule}"), evidence, confidence }
}

impl TextRule {
    /// The bytes the rule looks at, on character boundaries.
    fn window(&self, text: &str) -> Range<usize> {
        let floor = |at: usize| (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        match (self.head, self.tail) {
            (Some(head), _) => 0..floor(head),
            (None, Some(tail)) => floor(text.len().saturating_sub(tail))..text.len(),
            (None, None) => 0..text.len(),
        }
    }

    fn fires(&self, input: &TagInput, function: Function, window: Range<usize>) -> Option<Range<usize>> {
        if !self.functions.is_empty() && !self.functions.contains(&function) {
            return None;
        }
        if self.path.as_ref().is_some_and(|p| !p.is_match(&format!("/{}", input.path))) {
            return None;
        }
        let front = super::function::front_matter(input.text);
        let counts = |at: &Range<usize>| {
            if self.anywhere {
                true
            } else if self.front_matter {
                at.start < front
            } else {
                speaks(input.text, at)
            }
        };
        let base = window.start;
        let mut hits =
            self.text.find_iter(&input.text[window]).map(|m| base + m.start()..base + m.end()).filter(counts);
        let first = hits.next()?;
        (hits.take(self.min - 1).count() + 1 >= self.min).then_some(first)
    }
}

/// The history of a path as far as authorship asks.
struct History<'a> {
    creator: Option<&'a CommitFact>,
    later: Option<&'a CommitFact>,
    commits: usize,
    first: i64,
    last: i64,
    people_only: bool,
}

impl<'a> History<'a> {
    fn of(commits: &'a [CommitFact]) -> Self {
        let creator = commits.iter().filter(|c| c.creates).min_by_key(|c| c.when);
        let later = commits.iter().filter(|c| c.agent.is_some()).min_by_key(|c| c.when);
        Self {
            creator,
            later,
            commits: commits.len(),
            first: commits.iter().map(|c| c.when).min().unwrap_or(0),
            last: commits.iter().map(|c| c.when).max().unwrap_or(0),
            people_only: commits.iter().all(|c| c.author == AuthorKind::Person && c.agent.is_none()),
        }
    }

    fn span(&self) -> i64 {
        self.last.saturating_sub(self.first)
    }

    fn bot(&self) -> Option<Tag<Authorship>> {
        let creator = self.creator.filter(|c| c.author == AuthorKind::Bot)?;
        let fact = Evidence::Fact(format!("created by a bot account at {}", creator.when));
        Some(tag(Authorship::Bot, "creator", fact, 0.95))
    }

    fn ai_generated(&self) -> Option<Tag<Authorship>> {
        let creator = self.creator?;
        let (agent, via) = creator.agent.as_ref()?;
        let fact = Evidence::Fact(format!("creating commit names {agent} as {via}"));
        let confidence = if *via == CreditVia::Author { 0.95 } else { 0.85 };
        Some(tag(Authorship::AiGenerated, "creator", fact, confidence))
    }

    fn ai_assisted(&self) -> Option<Tag<Authorship>> {
        let (agent, via) = self.later?.agent.as_ref()?;
        let fact = Evidence::Fact(format!("a later commit names {agent} as {via}"));
        Some(tag(Authorship::AiAssisted, "later", fact, if self.creator.is_some() { 0.9 } else { 0.6 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{CommitRecord, Slug};
    use crate::tag::{Tagger, Tags};
    use proptest::prelude::*;

    fn tagged(path: &str, text: &str, history: &[CommitFact], owners: u32) -> Tags {
        let repo: Slug = "acme/rocket".parse().unwrap();
        Tagger::shipped().tag(&TagInput {
            repo: &repo,
            path,
            symlink: false,
            text,
            platform: None,
            history: Some(history),
            owners,
            language: None,
            line_owners: &|_| 0,
        })
    }

    fn by_text(text: &str) -> Authorship {
        tagged("CLAUDE.md", text, &[], 1).authorship.value
    }

    fn commit(name: &str, email: &str, message: &str, day: i64) -> CommitFact {
        Tagger::shipped().authors.fact(&CommitRecord {
            name: name.to_owned(),
            email: email.to_owned(),
            message: message.to_owned(),
            when: day * 86_400,
            creates: day == 0,
            ..CommitRecord::default()
        })
    }

    const INIT: &str =
        "This file provides guidance to Claude Code (claude.ai/code) when working with code in this repository.";

    #[test]
    fn a_tools_opening_is_evidence_unless_quoted_or_forbidden() {
        assert_eq!(by_text(&format!("# CLAUDE.md\n\n{INIT}\n")), Authorship::AiGenerated);
        for text in [
            format!("# Guide\n\n```\n{INIT}\n```\n"),
            format!("# Guide\n\nNever start a file with {INIT}\n"),
            format!("# Guide\n\nThe tool writes \"{INIT}\" by itself.\n"),
            format!("# Guide\n\nDo not write:\n\n- {INIT}\n"),
        ] {
            assert_eq!(by_text(&text), Authorship::Unknown, "{text}");
        }
    }

    #[test]
    fn a_credit_that_is_forbidden_or_shown_is_none() {
        for text in [
            "**Never include in commit messages:**\n- `🤖 Generated with [Claude Code]` or similar\n",
            "No \"Generated with\" footers, no Co-Authored-By tags.\n",
            "- Do not include any \"Generated with Claude\" messages\n",
            "Commit like this:\n\n```\nfix: x\n\n🤖 Generated with [Claude Code](https://claude.ai/code)\n```\n",
            "    Never add:\n\n- 🤖 Generated with Claude Code\n",
        ] {
            assert_eq!(by_text(text), Authorship::Unknown, "{text}");
        }
        assert_eq!(
            by_text("# Notes\n\nText.\n\n🤖 Generated with [Claude Code](https://claude.ai/code)\n"),
            Authorship::AiGenerated
        );
    }

    #[test]
    fn generated_marks_make_a_template_but_rules_about_generated_files_do_not() {
        for text in [
            "<!-- GENERATED from AGENTS.md by scripts/gen.py. Do not edit. -->\n\n# Guide\n",
            "# THIS IS AUTOGENERATED. DO NOT EDIT MANUALLY\nversion = 1\n",
            "---\nmetadata:\n  generatedBy: \"1.1.1\"\n---\nText\n",
        ] {
            assert_eq!(by_text(text), Authorship::Template, "{text}");
        }
        for text in [
            "# Guide\n\n- Never edit `pnpm-lock.yaml` by hand.\n",
            "# Guide\n\n- `src/gen.rs` is auto-generated, do not edit it directly.\n",
            "# Guide\n\n```python\n# Generated by protoc. Do not edit.\n```\n",
        ] {
            assert_eq!(by_text(text), Authorship::Unknown, "{text}");
        }
    }

    #[test]
    fn history_decides_in_order() {
        let person = |day| commit("Jo", "jo@example.com", "Edit", day);
        let agent = |day| commit("Claude", "noreply@anthropic.com", "Edit", day);
        let bot = commit("renovate[bot]", "x@users.noreply.github.com", "Sync", 0);
        let value = |history: &[CommitFact]| tagged("CLAUDE.md", "Text.", history, 1).authorship.value;
        assert_eq!(value(&[person(3), agent(0)]), Authorship::AiGenerated);
        assert_eq!(value(&[agent(3), person(0)]), Authorship::AiAssisted);
        assert_eq!(value(&[person(3), bot]), Authorship::Bot);
        assert_eq!(value(&[person(0), person(30), person(60)]), Authorship::Unknown);
        assert_eq!(tagged("CLAUDE.md", "Text.", &[agent(0)], 2).authorship.value, Authorship::Template);
    }

    #[test]
    fn people_count_as_authors_only_when_the_text_speaks_of_their_past() {
        let history: Vec<_> = [0, 30, 60].map(|day| commit("Jo", "jo@example.com", "Edit", day)).into();
        let text = "# Guide\n\nWe used to retry here and it took the queue down; keep it off.\n";
        assert_eq!(tagged("CLAUDE.md", text, &history, 1).authorship.value, Authorship::Human);
        assert_eq!(tagged("CLAUDE.md", text, &history[..1], 1).authorship.value, Authorship::Unknown);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_under_any_path_is_tagged(path in "[a-z./A-Z-]{0,40}", text in "(?s)(.{0,300}|[`\"#@<>{}\\[\\]\n a-zé🤖-]{0,400})", symlink in any::<bool>()) {
            let repo: Slug = "acme/rocket".parse().unwrap();
            let tags = Tagger::shipped().tag(&TagInput {
                repo: &repo, path: &path, symlink, text: &text, platform: None, history: None, owners: 0, language: None,
                line_owners: &|_| 3,
            });
            for row in tags.rows() {
                prop_assert!(row.confidence > 0.0 && row.confidence <= 1.0);
                if let Evidence::Span(span) = row.evidence {
                    prop_assert!(text.get(span.clone()).is_some());
                }
            }
        }
    }
}
