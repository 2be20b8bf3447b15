//! How bound an artifact is to its project: shares of its lines that name the repository, its paths and scripts, or a
//! technology, weighed by the table of `queries/tag/specificity.toml`.
//!
//! No source tree is at hand, so a path counts by its shape, not by whether it exists.

use super::{Evidence, RulesError, Tag, TagInput};
use crate::taxonomy::{Function, Specificity};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

/// How much of a text is looked at, in bytes: enough to know what it is about.
const HEAD: usize = 8 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stack: Vec<String>,
    stack_exact: Vec<String>,
    common_names: Vec<String>,
    known_files: Vec<String>,
    extensions: Vec<String>,
    scripts: Vec<String>,
    here: Vec<String>,
    pointer_names: Vec<String>,
    weights: BTreeMap<String, [f32; 3]>,
}

#[derive(Debug)]
pub(super) struct SpecificityRules {
    stack: HashSet<String>,
    stack_exact: HashSet<String>,
    common_names: HashSet<String>,
    known_files: HashSet<String>,
    extensions: HashSet<String>,
    scripts: HashSet<String>,
    here: aho_corasick::AhoCorasick,
    pointer_names: HashSet<String>,
    /// One row a measure of [`Measures::named`], in its order: weights of generic, stack, project.
    weights: Vec<[f32; 3]>,
}

/// Measures in a fixed order with their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures(Vec<(&'static str, f32)>);

impl Measures {
    /// Name and value of each measure; shares lie in 0..=1.
    pub fn named(&self) -> &[(&'static str, f32)] {
        &self.0
    }
}

impl SpecificityRules {
    pub(super) fn parse(name: &str, toml: &str) -> Result<Self, RulesError> {
        let file: File = super::rules::read(name, toml)?;
        let set = |words: Vec<String>| words.into_iter().collect::<HashSet<_>>();
        let names = Shares::default().measures(&Place::default()).0;
        Ok(Self {
            stack: set(file.stack),
            stack_exact: set(file.stack_exact),
            common_names: set(file.common_names),
            known_files: set(file.known_files),
            extensions: set(file.extensions),
            scripts: set(file.scripts),
            here: super::rules::needles(name, &file.here)?,
            pointer_names: set(file.pointer_names),
            weights: names.iter().map(|(name, _)| file.weights.get(*name).copied().unwrap_or_default()).collect(),
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
        let measures = self.measure(input, function, unfilled);
        let mut scores = [0.0f32; 3];
        for ((_, value), weights) in measures.0.iter().zip(&self.weights) {
            for (score, weight) in scores.iter_mut().zip(weights) {
                *score += value * weight;
            }
        }
        let best = (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
        let total: f32 = scores.iter().map(|s| (s - scores[best]).exp()).sum();
        let value = Specificity::ALL[best];
        // What spoke for the value, strongest first.
        let mut said: Vec<(f32, &str, f32)> = measures
            .0
            .iter()
            .zip(&self.weights)
            .map(|((name, v), w)| (v * (w[best] - (w[0] + w[1] + w[2]) / 3.0), *name, *v))
            .filter(|(gain, ..)| *gain > 0.0)
            .collect();
        said.sort_by(|a, b| b.0.total_cmp(&a.0));
        let fact = said.iter().take(3).map(|(_, name, v)| format!("{name} {v:.2}")).collect::<Vec<_>>().join(", ");
        Tag { value, rule: "specificity.measures".to_owned(), evidence: Evidence::Fact(fact), confidence: 1.0 / total }
    }

    /// A pointer to the main context file of its folder would serve any project; any other names this project's own.
    fn pointer(&self, path: &str, to: &str) -> Tag<Specificity> {
        let (folder, name) = to.rsplit_once('/').unwrap_or(("", to));
        // Beside the pointer or above it; a file elsewhere in the tree is named for what this project is.
        let near = folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let generic = near && self.pointer_names.contains(&name.to_ascii_lowercase());
        Tag {
            value: if generic { Specificity::Generic } else { Specificity::Project },
            rule: "specificity.pointer".to_owned(),
            evidence: Evidence::Fact(format!("points to {to}")),
            confidence: 0.8,
        }
    }

    pub(super) fn measure(&self, input: &TagInput, function: Function, unfilled: bool) -> Measures {
        let own = self.own_names(input);
        let mut end = input.text.len().min(HEAD);
        while !input.text.is_char_boundary(end) {
            end -= 1;
        }
        let mut shares = Shares::default();
        let mut fence: Option<(u8, usize)> = None;
        for line in input.text[..end].lines() {
            let trimmed = line.trim();
            if let Some((mark, length)) = super::passage::fence(trimmed) {
                fence = match fence {
                    Some((m, l)) if m == mark && length >= l => None,
                    None => Some((mark, length)),
                    open => open,
                };
                let language = trimmed.trim_start_matches(['`', '~']).trim();
                shares.language |= self.extensions.contains(language) || self.stack.contains(language);
                continue;
            }
            if trimmed.len() > 2 {
                let shared = trimmed.len() >= 24 && (input.line_owners)(trimmed) >= 2;
                let title = shares.lines < 12 && !shares.titled && fence.is_none() && is_title(trimmed);
                let seen = self.line(trimmed, fence.is_some(), &own);
                shares.scoped |= shares.lines < 12 && self.scopes(trimmed);
                shares.titled |= title && trimmed.starts_with("# ");
                shares.count(&seen, fence.is_some(), shared, title);
            }
        }
        shares.measures(&self.place(input, function, &own, unfilled))
    }

    fn line(&self, line: &str, code: bool, own: &[String]) -> Seen {
        let mut seen = Seen::default();
        let mut lower = line.to_ascii_lowercase();
        // Most lines name nothing of the repository: one look at the line spares one at each of its words.
        let own = if own.iter().any(|name| lower.contains(name.as_str())) { own } else { &[] };
        for token in line.split(|c: char| c.is_whitespace() || "()[]\"'`,;:|*!?=“”".contains(c)) {
            let token = token.trim_matches(|c: char| ".<>{}-_#&".contains(c) && c != '/');
            if token.len() < 2 {
                continue;
            }
            lower.clear();
            lower.push_str(token);
            lower.make_ascii_lowercase();
            self.token(token, &lower, own, &mut seen);
        }
        seen.identifier = !code && has_identifier(line);
        seen.here = !code && self.here.is_match(line);
        seen
    }

    /// Whether a line is a field such as `globs: **/*.ts`.
    fn scopes(&self, line: &str) -> bool {
        let Some((key, value)) = line.split_once(':') else { return false };
        matches!(key, "globs" | "applyTo" | "paths" | "fileMatchPattern")
            && value.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| self.extensions.contains(word))
    }

    fn token(&self, token: &str, lower: &str, own: &[String], seen: &mut Seen) {
        if names_own(lower, own) {
            seen.own = true;
        } else if self.stack.contains(lower) || self.stack_exact.contains(token) {
            seen.stack = true;
        } else if lower.contains(['-', '/', '.', '@', '_']) {
            seen.stack |=
                lower.split(['-', '/', '.', '@', '_']).any(|part| part.len() > 2 && self.stack.contains(part));
        }
        seen.script |= self.scripts.contains(lower);
        seen.version |= is_version(lower);
        if lower.contains("://") || lower.starts_with("www.") {
            return;
        }
        let name = lower.rsplit('/').next().unwrap_or(lower);
        let file = name.rsplit_once('.').is_some_and(|(stem, ext)| !stem.is_empty() && self.extensions.contains(ext));
        let concrete = !lower.contains(['<', '>', '{', '}', '$', '*', '%', '+', '~']);
        if lower.contains('/') && concrete && !lower.starts_with('@') {
            let parts = lower.split('/').filter(|p| !p.is_empty()).count();
            seen.path |= parts >= 2 && (file || parts >= 3 || lower.ends_with('/') || lower.starts_with('.'));
        } else if file && concrete && !self.known_files.contains(name) {
            seen.file = true;
        }
    }

    /// The repository's name and its telling parts, lower case; names that half of all repositories share left out.
    fn own_names(&self, input: &TagInput) -> Vec<String> {
        let name = input.repo.name().to_ascii_lowercase();
        let owner = input.repo.owner().to_ascii_lowercase();
        let mut own = vec![format!("{owner}/{name}")];
        let telling = |part: &str| part.len() >= 3 && !self.common_names.contains(part);
        if name.len() >= 4 && telling(&name) {
            own.push(name.clone());
            own.push(name.replace(['-', '.'], "_"));
            own.push(name.replace(['-', '.', '_'], ""));
        }
        let parts = name.split(['-', '_', '.']).chain(owner.split('-'));
        own.extend(parts.filter(|p| telling(p) && !self.stack.contains(*p)).map(str::to_owned));
        own.sort();
        own.dedup();
        own
    }

    fn place(&self, input: &TagInput, function: Function, own: &[String], unfilled: bool) -> Place {
        let path = input.path.to_ascii_lowercase();
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let parts = || path.split(['/', '-', '_', '.']).filter(|p| p.len() > 1);
        Place {
            own: names_own(&path, own),
            stack: parts().any(|p| self.stack.contains(p)),
            example: path
                .split('/')
                .any(|p| ["example", "fixture", "template", "sample", "e2e", "test-"].iter().any(|w| p.contains(w))),
            hidden: path.split('/').any(|p| p.starts_with('.')),
            nested: !folders.is_empty(),
            catalogue: !path.starts_with('.')
                && !folders.is_empty()
                && matches!(function, Function::Rules | Function::Skill | Function::Subagent | Function::Command)
                && !path.contains("/."),
            project: name.contains("project"),
            unfilled,
            function,
        }
    }
}

/// Whether a line says what the text is about: its first heading, or a field of the front matter.
fn is_title(line: &str) -> bool {
    line.starts_with("# ") || ["name:", "description:", "title:", "globs:"].iter().any(|key| line.starts_with(key))
}

/// Whether a token, lower case, carries one of the repository's names. A short name must be a whole part.
fn names_own(lower: &str, own: &[String]) -> bool {
    own.iter().any(|name| {
        if name.len() >= 5 {
            lower.contains(name.as_str())
        } else {
            lower.contains(name.as_str()) && lower.split(|c: char| !c.is_alphanumeric()).any(|part| part == name)
        }
    })
}

fn is_version(token: &str) -> bool {
    let digits = token.trim_start_matches(['v', '^', '~', '=']);
    digits.len() >= 3
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.contains('.')
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Whether inline code of the line holds a name that somebody coined: camelCase, snake_case or a call.
fn has_identifier(line: &str) -> bool {
    line.split('`').skip(1).step_by(2).any(|code| {
        let camel = code.as_bytes().windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase());
        camel || code.contains("::") || (code.contains('_') && !code.contains(' '))
    })
}

/// What one line holds.
#[derive(Default)]
struct Seen {
    own: bool,
    stack: bool,
    path: bool,
    file: bool,
    script: bool,
    version: bool,
    identifier: bool,
    here: bool,
}

/// Counts over lines.
#[derive(Default)]
struct Shares {
    lines: u32,
    code: u32,
    shared: u32,
    own: u32,
    own_code: u32,
    stack: u32,
    stack_code: u32,
    path: u32,
    path_code: u32,
    file: u32,
    script: u32,
    version: u32,
    identifier: u32,
    here: u32,
    /// Lines that name something of the project.
    project_lines: u32,
    /// Lines that name a technology and nothing of the project.
    stack_lines: u32,
    /// A code block names its language.
    language: bool,
    /// A field of the front matter scopes the text to files of one language.
    scoped: bool,
    titled: bool,
    title_own: bool,
    title_stack: bool,
}

impl Shares {
    fn count(&mut self, seen: &Seen, code: bool, shared: bool, title: bool) {
        let project = seen.own || (!code && (seen.path || seen.file || seen.identifier || seen.here));
        self.project_lines += u32::from(project);
        self.stack_lines += u32::from(seen.stack && !project);
        self.title_own |= title && seen.own;
        self.title_stack |= title && seen.stack;
        self.lines += 1;
        self.code += u32::from(code);
        self.shared += u32::from(shared);
        self.own += u32::from(seen.own && !code);
        self.own_code += u32::from(seen.own && code);
        self.stack += u32::from(seen.stack && !code);
        self.stack_code += u32::from(seen.stack && code);
        self.path += u32::from(seen.path && !code);
        self.path_code += u32::from(seen.path && code);
        self.file += u32::from(seen.file);
        self.script += u32::from(seen.script);
        self.version += u32::from(seen.version);
        self.identifier += u32::from(seen.identifier);
        self.here += u32::from(seen.here);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of lines within HEAD are small")]
    fn measures(&self, place: &Place) -> Measures {
        let n = self.lines.max(1) as f32;
        // Square roots: the first mentions say most.
        let share = |count: u32| (count as f32 / n).sqrt();
        let flag = |yes: bool| f32::from(u8::from(yes));
        let is = |f: Function| flag(place.function == f);
        Measures(vec![
            ("bias", 1.0),
            ("project_lines", self.project_lines as f32 / n),
            ("stack_lines", self.stack_lines as f32 / n),
            ("own_name_in_title", flag(self.title_own)),
            ("stack_in_title", flag(self.title_stack && !self.title_own)),
            ("here_any", flag(self.here > 0)),
            ("paths_any", flag(self.path > 0)),
            ("code_of_a_language", flag(self.language)),
            ("scoped_to_a_language", flag(self.scoped)),
            ("unfilled", flag(place.unfilled)),
            ("mcp_of_its_own", is(Function::Mcp) * flag(self.own + self.path + self.path_code > 0)),
            ("ignores_of_a_stack", is(Function::Ignore) * flag(self.stack > 0)),
            ("catalogue_of_its_own", flag(place.catalogue && self.title_own)),
            ("own_name", share(self.own)),
            ("own_name_any", flag(self.own + self.own_code > 0)),
            ("own_name_in_code", share(self.own_code)),
            ("stack", share(self.stack)),
            ("stack_any", flag(self.stack + self.stack_code > 0)),
            ("stack_in_code", share(self.stack_code)),
            ("paths", share(self.path)),
            ("paths_in_code", share(self.path_code)),
            ("files", share(self.file)),
            ("scripts", share(self.script)),
            ("versions", share(self.version)),
            ("identifiers", share(self.identifier)),
            ("here", share(self.here)),
            ("shared_lines", share(self.shared)),
            ("code", share(self.code)),
            ("length", (n + 1.0).ln() / 6.0),
            ("own_name_in_path", flag(place.own)),
            ("stack_in_path", flag(place.stack)),
            ("example_path", flag(place.example)),
            ("hidden_path", flag(place.hidden)),
            ("nested_path", flag(place.nested)),
            ("catalogue_path", flag(place.catalogue)),
            ("project_in_name", flag(place.project)),
            ("is_instructions", is(Function::Instructions)),
            ("is_rules", is(Function::Rules)),
            ("is_skill", is(Function::Skill)),
            ("is_subagent", is(Function::Subagent)),
            ("is_command", is(Function::Command)),
            ("is_mcp", is(Function::Mcp)),
            ("is_ignore", is(Function::Ignore)),
            ("is_settings", flag(matches!(place.function, Function::Settings | Function::Hook))),
            ("is_memory", flag(matches!(place.function, Function::Memory | Function::Plan))),
        ])
    }
}

/// What the path says.
struct Place {
    own: bool,
    stack: bool,
    example: bool,
    hidden: bool,
    nested: bool,
    catalogue: bool,
    project: bool,
    unfilled: bool,
    function: Function,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            own: false,
            stack: false,
            example: false,
            hidden: false,
            nested: false,
            catalogue: false,
            project: false,
            unfilled: false,
            function: Function::Other,
        }
    }
}
