//! How bound an artifact is to its project. A pointer is judged by where it leads, a declaration (MCP servers, ignore
//! patterns, settings) by what it names, some places by what stands there in every repository, and all other text by
//! what its lines name, in points of `queries/tag/specificity.toml`.
//!
//! No source tree is at hand, so a path counts by its shape, not by whether it exists.

mod declared;
mod lines;
mod signs;

use super::words::Words;
use super::{Evidence, RulesError, Tag, TagInput};
use crate::taxonomy::{Function, Specificity};
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;

pub use signs::Signs;

// The lists of `specificity.toml` that a word may stand in.
const STACK: u16 = 1;
const STACK_EXACT: u16 = 1 << 1;
const EXTENSION: u16 = 1 << 2;
const KNOWN_FILE: u16 = 1 << 3;
const RUNNER: u16 = 1 << 4;
const TARGET: u16 = 1 << 5;
const COMMON_DIR: u16 = 1 << 6;
const PLAIN_LANGUAGE: u16 = 1 << 7;
const COMMON_NAME: u16 = 1 << 8;
const COMMON_SERVER: u16 = 1 << 9;
const POINTER_NAME: u16 = 1 << 10;
/// Spellings of `stack_exact` in lower case: no name of a repository's own either.
const STACK_LOWERED: u16 = 1 << 11;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stack: Vec<String>,
    stack_exact: Vec<String>,
    common_names: Vec<String>,
    common_folders: Vec<String>,
    known_files: Vec<String>,
    extensions: Vec<String>,
    plain_languages: Vec<String>,
    runners: Vec<String>,
    targets: Vec<String>,
    here: Vec<String>,
    pointer_names: Vec<String>,
    common_servers: Vec<String>,
    local_program: String,
    common_ignores: String,
    examples: String,
    catalogues: String,
    telling: String,
    practices: String,
    place: Vec<WrittenPlace>,
    fitted: Fitted,
    points: BTreeMap<String, [f32; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPlace {
    id: String,
    value: Specificity,
    path: String,
    #[serde(default)]
    functions: Vec<Function>,
}

/// What the points of specificity were fitted to, and how far they carry: recorded when they were.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Labels they were fitted to.
    pub labels: u32,
    /// Of the labels that two annotators agree on, the share that points fitted to other repositories get right.
    pub held_out_accuracy: f64,
}

#[derive(Debug)]
pub(super) struct SpecificityRules {
    pub(super) fitted: Fitted,
    words: Words,
    here: aho_corasick::AhoCorasick,
    local_program: Regex,
    common_ignores: Regex,
    examples: Regex,
    catalogues: Regex,
    telling: Regex,
    practices: Regex,
    places: Vec<Place>,
    /// One row a sign, in the order of [`Signs::named`]: points for generic, stack, project.
    points: Vec<[f32; 3]>,
}

#[derive(Debug)]
struct Place {
    id: String,
    value: Specificity,
    path: Regex,
    functions: Vec<Function>,
}

/// What is known beside the text.
struct Setting<'a> {
    path: String,
    function: Function,
    /// Names of the repository, lower case.
    own: Vec<String>,
    /// An example, a fixture, or a collection made for others: names of the repository say nothing about the text.
    foreign: bool,
    unfilled: bool,
    input: &'a TagInput<'a>,
}

impl SpecificityRules {
    pub(super) fn parse(name: &str, toml: &str) -> Result<Self, RulesError> {
        let file: File = super::rules::read(name, toml)?;
        let mut words = Words::default();
        words.enter(STACK_LOWERED, file.stack_exact.iter().map(|word| word.to_ascii_lowercase()));
        for (list, entries) in [
            (STACK, file.stack),
            (STACK_EXACT, file.stack_exact),
            (EXTENSION, file.extensions),
            (KNOWN_FILE, file.known_files),
            (RUNNER, file.runners),
            (TARGET, file.targets),
            (COMMON_DIR, file.common_folders),
            (PLAIN_LANGUAGE, file.plain_languages),
            (COMMON_NAME, file.common_names),
            (COMMON_SERVER, file.common_servers),
            (POINTER_NAME, file.pointer_names),
        ] {
            words.enter(list, entries);
        }
        let pattern = |text: &str| super::rules::pattern(name, text);
        let place =
            |p: WrittenPlace| Ok(Place { path: pattern(&p.path)?, id: p.id, value: p.value, functions: p.functions });
        Ok(Self {
            fitted: file.fitted,
            words,
            here: super::rules::needles(name, &file.here)?,
            local_program: pattern(&file.local_program)?,
            common_ignores: pattern(&file.common_ignores)?,
            examples: pattern(&file.examples)?,
            catalogues: pattern(&file.catalogues)?,
            telling: pattern(&file.telling)?,
            practices: pattern(&file.practices)?,
            places: file.place.into_iter().map(place).collect::<Result<_, RulesError>>()?,
            points: Signs::names().map(|sign| file.points.get(sign).copied().unwrap_or_default()).collect(),
        })
    }

    pub(super) fn judge(
        &self,
        input: &TagInput,
        function: Function,
        to: Option<&str>,
        unfilled: bool,
    ) -> Tag<Specificity> {
        if let Some(to) = to {
            return self.pointer(input.path, to);
        }
        let setting = self.setting(input, function, unfilled);
        match self.settled(&setting) {
            Some(tag) => tag,
            None => self.weigh(&self.signs_of(&setting)),
        }
    }

    /// The signs by which a text is weighed; nothing where another rule settles it.
    pub(super) fn signs(
        &self,
        input: &TagInput,
        function: Function,
        to: Option<&str>,
        unfilled: bool,
    ) -> Option<Signs> {
        let setting = self.setting(input, function, unfilled);
        (to.is_none() && self.settled(&setting).is_none()).then(|| self.signs_of(&setting))
    }

    fn settled(&self, setting: &Setting) -> Option<Tag<Specificity>> {
        self.declared(setting).or_else(|| self.placed(setting))
    }

    fn setting<'a>(&self, input: &'a TagInput<'a>, function: Function, unfilled: bool) -> Setting<'a> {
        let path = format!("/{}", input.path.to_ascii_lowercase());
        let foreign = self.examples.is_match(&path) || self.catalogues.is_match(&input.repo.key());
        Setting { path, function, own: self.own_names(input), foreign, unfilled, input }
    }

    /// A pointer to the main context file of its folder would serve any project; any other names this project's own.
    fn pointer(&self, path: &str, to: &str) -> Tag<Specificity> {
        let (folder, name) = to.rsplit_once('/').unwrap_or(("", to));
        // Beside the pointer or above it; a file elsewhere in the tree is named for what this project is.
        let near = folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let generic = near && self.words.has(&name.to_ascii_lowercase(), POINTER_NAME);
        let value = if generic { Specificity::Generic } else { Specificity::Project };
        tag(value, "pointer", format!("points to {to}"), 0.8)
    }

    /// What stands in this place in any repository that has it.
    fn placed(&self, setting: &Setting) -> Option<Tag<Specificity>> {
        if setting.foreign {
            return None;
        }
        let fits = |p: &&Place| {
            (p.functions.is_empty() || p.functions.contains(&setting.function)) && p.path.is_match(&setting.path)
        };
        let place = self.places.iter().find(fits)?;
        Some(tag(place.value, &format!("place.{}", place.id), setting.input.path.to_owned(), 0.85))
    }

    fn weigh(&self, signs: &Signs) -> Tag<Specificity> {
        let mut sums = [0.0f32; 3];
        for points in signs.given().map(|sign| self.points[sign]) {
            for (sum, points) in sums.iter_mut().zip(points) {
                *sum += points;
            }
        }
        let best = (0..3).max_by(|a, b| sums[*a].total_cmp(&sums[*b])).unwrap_or(0);
        let total: f32 = sums.iter().map(|s| (s - sums[best]).exp()).sum();
        // What spoke for the value, strongest first.
        let mut said: Vec<(f32, &str)> = signs
            .given()
            .map(|sign| {
                let [a, b, c] = self.points[sign];
                (self.points[sign][best] - (a + b + c) / 3.0, Signs::name(sign))
            })
            .filter(|(gain, name)| *gain > 0.0 && *name != "bias")
            .collect();
        said.sort_by(|a, b| b.0.total_cmp(&a.0));
        let said = said.iter().take(3).map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        tag(Specificity::ALL[best], "points", said, 1.0 / total)
    }

    /// The repository's name and its telling parts, lower case; names that many repositories share left out.
    fn own_names(&self, input: &TagInput) -> Vec<String> {
        let name = input.repo.name().to_ascii_lowercase();
        let owner = input.repo.owner().to_ascii_lowercase();
        let mut own = vec![format!("{owner}/{name}")];
        let telling = |part: &str| part.len() >= 3 && !self.words.has(part, COMMON_NAME);
        if name.len() >= 4 && telling(&name) {
            own.push(name.clone());
            own.push(name.replace(['-', '.'], "_"));
            own.push(name.replace(['-', '.', '_'], ""));
        }
        let parts = name.split(['-', '_', '.']).chain(owner.split('-'));
        own.extend(parts.filter(|p| telling(p) && !self.words.has(p, STACK | STACK_LOWERED)).map(str::to_owned));
        own.sort();
        own.dedup();
        own
    }
}

fn tag(value: Specificity, rule: &str, fact: String, confidence: f32) -> Tag<Specificity> {
    Tag { value, rule: format!("specificity.{rule}"), evidence: Evidence::Fact(fact), confidence }
}

#[cfg(test)]
mod tests {
    use crate::corpus::Slug;
    use crate::tag::{TagInput, Tagger, Tags};
    use crate::taxonomy::Specificity::{self, Generic, Project, Stack};

    fn tags(repo: &str, path: &str, text: &str) -> Tags {
        let repo: Slug = repo.parse().unwrap();
        Tagger::shipped().tag(&TagInput {
            repo: &repo,
            path,
            symlink: false,
            text,
            platform: None,
            history: None,
            owners: 1,
            language: None,
            line_owners: &|_| 0,
        })
    }

    fn check(cases: &[(&str, &str, Specificity)]) {
        for (path, text, value) in cases {
            let tag = tags("acme/starhopper", path, text).specificity;
            assert_eq!(tag.value, *value, "{path} by {}: {:?}", tag.rule, tag.evidence);
        }
    }

    #[test]
    fn declarations_are_judged_by_what_they_name() {
        check(&[
            (".mcp.json", r#"{"mcpServers":{"context7":{"url":"https://mcp.context7.com/mcp"}}}"#, Generic),
            (".mcp.json", r#"{"mcpServers":{"stripe":{"url":"https://mcp.stripe.com"}}}"#, Stack),
            (".mcp.json", r#"{"mcpServers":{"starhopper":{"command":"npx"}}}"#, Project),
            (
                ".vscode/mcp.json",
                r#"{"servers":{"dev":{"command":"node","args":["packages/mcp/dist/server.js"]}}}"#,
                Project,
            ),
            ("examples/x/.mcp.json", r#"{"mcpServers":{"dev":{"command":"node","args":["./srv.js"]}}}"#, Stack),
            (".mcp.json", "{ // no JSON\n \"mcpServers\": { \"x\": { \"command\": \"uvx\" } } }", Stack),
            (".cursorignore", ".env\n*.pem\nsecrets/\n", Generic),
            (".cursorignore", "# build\nnode_modules/\ndist/\n__pycache__/\n.env\n", Stack),
            (".cursorignore", ".starhopper/cache/\n", Project),
            (".claude/settings.json", r#"{"permissions":{"allow":["Bash(cargo test:*)"]}}"#, Stack),
            (".claude/settings.json", r#"{"model":"opus"}"#, Generic),
            (".codex/hooks.json", r#"{"hooks":[{"command":"bash agents/hooks/start.sh"}]}"#, Project),
        ]);
    }

    #[test]
    fn prose_is_judged_by_what_its_lines_name() {
        check(&[
            (
                ".cursor/rules/style.mdc",
                "# Style\n\n- Keep functions short.\n- Name things for what they do.\n",
                Generic,
            ),
            (
                ".cursor/rules/react.mdc",
                "# React\n\n- Use React hooks with TypeScript.\n- Style with Tailwind.\n- Test with Vitest.\n",
                Stack,
            ),
            (
                "AGENTS.md",
                "# Starhopper\n\nStarhopper plans routes. The planner lives in `crates/route_planner/src/lib.rs`.\n\n\
                 - Run `make tiles-check` before a commit.\n- `RouteTable::rebuild` must stay deterministic.\n",
                Project,
            ),
            ("crates/tiles/AGENTS.md", "# Tiles\n\nKeep it small.\n", Project),
            (".kiro/steering/product.md", "# Product\n\nA game.\n", Project),
            ("memory-bank/progress.md", "# Progress\n\n- Done: the menu.\n", Project),
        ]);
        // In a collection made for others the collection's name says nothing.
        let text = "# Awesome rules\n\nUse React hooks with TypeScript. Style with Tailwind.\n";
        assert_eq!(tags("acme/awesome-rules", "rules/react.mdc", text).specificity.value, Stack);
    }

    #[test]
    fn a_reason_is_given() {
        let tag = tags("acme/starhopper", "AGENTS.md", "# Starhopper\n\nSee `crates/route_planner/src`.\n").specificity;
        assert_eq!(tag.rule, "specificity.points");
        assert!(matches!(&tag.evidence, crate::tag::Evidence::Fact(fact) if fact.contains("own_name")), "{tag:?}");
        assert!(tag.confidence > 0.4 && tag.confidence <= 1.0);
    }

    #[test]
    fn every_sign_with_points_exists() {
        let toml: toml::Table = include_str!("../../../queries/tag/specificity.toml").parse().unwrap();
        let names: Vec<&str> = super::Signs::names().collect();
        for sign in toml["points"].as_table().unwrap().keys() {
            assert!(names.contains(&sign.as_str()), "{sign}");
        }
    }
}
