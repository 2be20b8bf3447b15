//! What an artifact is for, from its path; and whether it only points elsewhere, from its text.

use super::{Evidence, RulesError, Tag, TagInput};
use crate::taxonomy::Function;
use regex::{Regex, RegexSet};
use serde::Deserialize;
use std::ops::Range;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Written>,
    pointer: WrittenPointer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    value: Function,
    path: String,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPointer {
    max_bytes: usize,
    max_other: usize,
    needles: Vec<String>,
    lines: Vec<String>,
}

#[derive(Debug)]
pub(super) struct FunctionRules {
    rules: Vec<Rule>,
    paths: RegexSet,
    max_bytes: usize,
    max_other: usize,
    /// One of these stands in every line that a pattern of `lines` can match: most lines are told apart by them.
    needles: aho_corasick::AhoCorasick,
    lines: Vec<Regex>,
}

#[derive(Debug)]
struct Rule {
    id: String,
    value: Function,
    text: Option<Regex>,
}

/// How much of a text a rule's `text` is tried on, in bytes.
const HEAD: usize = 4 << 10;

/// How many bytes of headings a pointer may have for nothing.
const HEADINGS: usize = 200;

impl FunctionRules {
    pub(super) fn parse(name: &str, toml: &str) -> Result<Self, RulesError> {
        let file: File = super::rules::read(name, toml)?;
        Ok(Self {
            paths: super::rules::set(name, file.rule.iter().map(|r| r.path.as_str()))?,
            rules: file
                .rule
                .into_iter()
                .map(|r| {
                    let text = r.text.as_deref().map(|t| super::rules::pattern(name, t)).transpose()?;
                    Ok(Rule { id: r.id, value: r.value, text })
                })
                .collect::<Result<_, RulesError>>()?,
            max_bytes: file.pointer.max_bytes,
            max_other: file.pointer.max_other,
            needles: super::rules::needles(name, &file.pointer.needles)?,
            lines: file.pointer.lines.iter().map(|l| super::rules::pattern(name, l)).collect::<Result<_, _>>()?,
        })
    }

    /// The function, and for a pointer the path it points to.
    pub(super) fn judge(&self, input: &TagInput) -> (Tag<Function>, Option<String>) {
        if input.symlink {
            let target = resolve(input.path, input.text.trim());
            let tag = pointer("pointer.symlink", Evidence::Fact(format!("symlink to {}", input.text.trim())), 1.0);
            return (tag, Some(target));
        }
        let (value, rule, confidence) = self.by_path(input);
        if may_point(value)
            && let Some((rule, span, target)) = self.points(input.text)
        {
            let target = resolve(input.path, &target);
            return (pointer(rule, Evidence::Span(span), 0.9), Some(target));
        }
        let evidence = Evidence::Fact(input.path.to_owned());
        (Tag { value, rule, evidence, confidence }, None)
    }

    fn by_path(&self, input: &TagInput) -> (Function, String, f32) {
        let path = format!("/{}", input.path);
        let mut end = input.text.len().min(HEAD);
        while !input.text.is_char_boundary(end) {
            end -= 1;
        }
        let says = |rule: &&Rule| rule.text.as_ref().is_none_or(|t| t.is_match(&input.text[..end]));
        if let Some(rule) = self.paths.matches(&path).iter().map(|hit| &self.rules[hit]).find(says) {
            return (rule.value, format!("function.{}", rule.id), 0.95);
        }
        match input.platform.and_then(|p| p.function) {
            Some(value) => (value, "function.platform".to_owned(), 0.8),
            None => (Function::Other, "function.default".to_owned(), 0.5),
        }
    }

    /// Rule, span and target when the text has no content of its own.
    fn points(&self, text: &str) -> Option<(&'static str, Range<usize>, String)> {
        let whole = text.trim();
        if whole.is_empty() || text.len() > self.max_bytes {
            return None;
        }
        let offset = text.len() - text.trim_start().len();
        if bare_path(whole) {
            // A checkout without symlinks leaves the target as the text.
            return Some(("pointer.path", offset..offset + whole.len(), whole.trim_start_matches('@').to_owned()));
        }
        let mut found: Option<(Range<usize>, String)> = None;
        // A few headings are a frame; many are what the text says, or comments.
        let headings = text.lines().map(str::trim).filter(|line| line.starts_with('#')).map(str::len).sum::<usize>();
        let mut other = headings.saturating_sub(HEADINGS);
        for block in blocks(text) {
            let passage = &text[block.clone()];
            let joined = passage.replace('\n', " ");
            let possible = self.needles.is_match(&joined);
            let hit = self.lines.iter().filter(|_| possible).find_map(|line| {
                let to = line.captures(&joined)?.name("to")?;
                // Links and imports start at the file; a path that is only mentioned starts at the root.
                let mentioned = !joined[..to.start()].ends_with(['(', '@']) && to.as_str().contains('/');
                Some(if mentioned && !to.as_str().starts_with("./") && !to.as_str().starts_with("../") {
                    format!("/{}", to.as_str())
                } else {
                    to.as_str().to_owned()
                })
            });
            match hit {
                Some(to) => {
                    other += joined.len().saturating_sub(200);
                    found.get_or_insert((block, to));
                }
                None => other += joined.trim().chars().count(),
            }
        }
        let (span, to) = found?;
        (other <= self.max_other).then_some(("pointer.text", span, to))
    }
}

fn pointer(rule: &str, evidence: Evidence, confidence: f32) -> Tag<Function> {
    Tag { value: Function::Pointer, rule: format!("function.{rule}"), evidence, confidence }
}

/// Declarations are read by programs and cannot point; the parts of a skill may cite each other at length.
fn may_point(value: Function) -> bool {
    matches!(
        value,
        Function::Instructions
            | Function::Rules
            | Function::Subagent
            | Function::Command
            | Function::Skill
            | Function::Index
    )
}

/// Whether a text is nothing but a path to a document.
fn bare_path(text: &str) -> bool {
    let text = text.trim_start_matches('@');
    !text.is_empty()
        && text.len() <= 200
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-~".contains(&b))
        && (text.contains('/') || [".md", ".mdc", ".txt"].iter().any(|end| text.ends_with(end)))
}

/// The passages of a text that could carry content: no front matter, headings, comments, rules or fences. A line that
/// ends in a colon is taken with what follows it.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let body = front_matter(text);
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut at = body;
    let (mut comment, mut continues) = (false, false);
    for line in text[body..].split_inclusive('\n') {
        let range = at..at + line.trim_end().len();
        at += line.len();
        let trimmed = line.trim();
        if comment || trimmed.starts_with("<!--") {
            comment = !trimmed.contains("-->");
            continue;
        }
        if trimmed.is_empty() {
            continues = continues && blocks.last().is_some_and(|b| text[b.clone()].trim_end().ends_with(':'));
            continue;
        }
        let entry = trimmed.starts_with(['-', '*', '+', '|']) && !trimmed.starts_with("**");
        if trimmed.starts_with('#') || trimmed.starts_with("---") || super::passage::fence(trimmed).is_some() {
            continues = false;
            continue;
        }
        match blocks.last_mut() {
            Some(last) if continues && !entry && !trimmed.starts_with('@') => last.end = range.end,
            _ => blocks.push(range),
        }
        continues = true;
    }
    blocks
}

/// Where the text begins after its front matter.
pub(super) fn front_matter(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return 0 };
    let start = text.len() - rest.len();
    let mut at = start;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if line.trim_end() == "---" {
            return at;
        }
    }
    0
}

/// `target` as seen from the folder of `path`, from the repository's root; a target outside of it stays as written.
fn resolve(path: &str, target: &str) -> String {
    let target = target.trim_start_matches('@');
    if target.starts_with(['/', '~']) {
        return target.trim_start_matches('/').to_owned();
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return target.to_owned();
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use crate::corpus::Slug;
    use crate::tag::{PlatformMatch, TagInput, Tagger, Tags};
    use crate::taxonomy::Function;

    fn tags(path: &str, text: &str, symlink: bool) -> Tags {
        let repo: Slug = "acme/rocket".parse().unwrap();
        Tagger::shipped().tag(&TagInput {
            repo: &repo,
            path,
            symlink,
            text,
            platform: None,
            history: None,
            owners: 1,
            language: None,
            line_owners: &|_| 0,
        })
    }

    #[test]
    fn the_path_tells_the_function() {
        for (path, function) in [
            ("AGENTS.md", Function::Instructions),
            ("crates/core/CLAUDE.md", Function::Instructions),
            (".cursorrules", Function::Instructions),
            (".github/copilot-instructions.md", Function::Instructions),
            (".cursor/rules/go.mdc", Function::Rules),
            (".github/instructions/go.instructions.md", Function::Rules),
            (".kiro/steering/tech.md", Function::Rules),
            (".claude/skills/x/SKILL.md", Function::Skill),
            (".agents/skills/x/agents/openai.yml", Function::Skill),
            (".claude/agents/reviewer.md", Function::Subagent),
            ("agents/x.agent.md", Function::Subagent),
            (".claude/commands/fix.md", Function::Command),
            (".github/prompts/fix.prompt.md", Function::Command),
            (".windsurf/workflows/release.md", Function::Command),
            (".codex/hooks.json", Function::Hook),
            (".claude/settings.local.json", Function::Settings),
            (".aider.conf.yml", Function::Settings),
            (".vscode/mcp.json", Function::Mcp),
            (".mcp.json", Function::Mcp),
            ("memory-bank/progress.md", Function::Memory),
            (".kiro/specs/login/design.md", Function::Plan),
            (".cursorignore", Function::Ignore),
            ("llms.txt", Function::Index),
            ("docs/api/agent.md", Function::Other),
        ] {
            assert_eq!(tags(path, "Some text of its own.", false).function.value, function, "{path}");
        }
    }

    #[test]
    fn a_pointer_says_where_it_leads() {
        for (path, text, to) in [
            ("CLAUDE.md", "@AGENTS.md\n", "AGENTS.md"),
            ("web/CLAUDE.md", "# Claude\n\n@../AGENTS.md\n", "AGENTS.md"),
            ("CLAUDE.md", "AGENTS.md", "AGENTS.md"),
            (".github/copilot-instructions.md", "See [AGENTS.md](../AGENTS.md) for all instructions.\n", "AGENTS.md"),
            (".cursor/rules/a.mdc", "---\nalwaysApply: true\n---\n\nPlease read `docs/rules.md`.\n", "docs/rules.md"),
        ] {
            let tags = tags(path, text, false);
            assert_eq!(tags.function.value, Function::Pointer, "{path} {text}");
            assert_eq!(tags.resolves_to.as_deref(), Some(to), "{path}");
        }
        let link = tags(".claude/skills/x", "../../.agents/skills/x", true);
        assert_eq!((link.function.value, link.resolves_to.as_deref()), (Function::Pointer, Some(".agents/skills/x")));
    }

    #[test]
    fn a_text_with_content_beside_a_reference_is_no_pointer() {
        let rules = "- Keep functions short and named for what they do.\n".repeat(12);
        let text = format!("# Guide\n\nSee `docs/rules.md` for more.\n\n{rules}");
        assert_eq!(tags("AGENTS.md", &text, false).function.value, Function::Instructions);
        assert_eq!(tags("AGENTS.md", "", false).function.value, Function::Instructions);
    }

    #[test]
    fn comments_that_name_documents_are_content() {
        let text = "# Write a prompt here\n".repeat(30) + "# You can name files\n@README.md\n";
        assert_eq!(tags(".continue/prompts/x.prompt", &text, false).function.value, Function::Command);
    }

    #[test]
    fn what_a_folder_holds_outweighs_a_name() {
        assert_eq!(tags(".windsurf/workflows/spec.md", "Write a spec.", false).function.value, Function::Command);
        assert_eq!(tags(".claude/commands/prd.md", "Write one.", false).function.value, Function::Command);
        let toml = "# tools\n[mcp_servers.docs]\ncommand = \"npx\"\n";
        assert_eq!(tags(".codex/config.toml", toml, false).function.value, Function::Mcp);
        assert_eq!(tags(".codex/config.toml", "model = \"x\"\n", false).function.value, Function::Settings);
    }

    #[test]
    fn the_platform_table_decides_what_no_rule_knows() {
        let repo: Slug = "acme/rocket".parse().unwrap();
        let platform = crate::corpus::Platform("cursor".to_owned());
        let tags = Tagger::shipped().tag(&TagInput {
            repo: &repo,
            path: "odd/name.xyz",
            symlink: false,
            text: "x",
            platform: Some(PlatformMatch { platform: &platform, function: Some(Function::Rules) }),
            history: None,
            owners: 0,
            language: None,
            line_owners: &|_| 0,
        });
        assert_eq!((tags.function.value, tags.function.rule.as_str()), (Function::Rules, "function.platform"));
        assert_eq!(tags.rows().count(), 4);
    }
}
