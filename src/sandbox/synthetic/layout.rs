//! Which files a generated repository has, and what determines each.

use super::phrases::{MODULES, STACKS};
use super::text::Recipe;
use crate::sandbox::dice::{Dice, mix};
use crate::sandbox::world::Mode;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Markdown.
    Markdown,
    /// Markdown below a block of metadata.
    Matter,
    /// Markdown that may lack a title, as in rule files without an extension.
    Bare,
    Json,
    Yaml,
    Toml,
    Ignore,
    Script,
    /// The text of a symbolic link.
    Link,
    /// One line that names another file.
    Pointer,
}

/// A file before its text is written.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) path: String,
    pub(super) mode: Mode,
    pub(super) recipe: Recipe,
    /// Whether a crawl for agent files is meant to find it.
    pub(super) artifact: bool,
}

/// Kinds of files beside the main context file: path pattern, form, median size, weight.
const EXTRAS: &[((&str, Form, u32), u32)] = &[
    ((".claude/skills/{topic}/SKILL.md", Form::Matter, 2_600), 60),
    ((".claude/commands/{verb}.md", Form::Markdown, 900), 44),
    ((".claude/agents/{role}.md", Form::Matter, 1_900), 36),
    ((".claude/rules/{topic}.md", Form::Markdown, 1_100), 16),
    ((".claude/settings.json", Form::Json, 420), 30),
    ((".claude/settings.local.json", Form::Json, 380), 8),
    ((".claude/hooks/{verb}.sh", Form::Script, 700), 8),
    ((".claude-plugin/plugin.json", Form::Json, 350), 5),
    ((".claudeignore", Form::Ignore, 120), 4),
    (("CLAUDE.local.md", Form::Markdown, 600), 4),
    ((".mcp.json", Form::Json, 300), 18),
    ((".cursor/rules/{topic}.mdc", Form::Matter, 1_300), 60),
    ((".cursor/rules/{topic}.md", Form::Markdown, 1_000), 6),
    ((".cursor/commands/{verb}.md", Form::Markdown, 800), 8),
    ((".cursor/skills/{topic}/SKILL.md", Form::Matter, 2_000), 5),
    ((".cursor/agents/{role}.md", Form::Matter, 1_500), 4),
    ((".cursor/mcp.json", Form::Json, 280), 10),
    ((".cursor/cli.json", Form::Json, 200), 3),
    ((".cursor/hooks.json", Form::Json, 250), 3),
    ((".cursorignore", Form::Ignore, 150), 12),
    ((".cursorindexingignore", Form::Ignore, 110), 5),
    (("CURSOR.md", Form::Markdown, 1_300), 3),
    ((".github/instructions/{topic}.instructions.md", Form::Matter, 1_400), 24),
    ((".github/prompts/{verb}.prompt.md", Form::Matter, 1_200), 18),
    ((".github/agents/{role}.agent.md", Form::Matter, 2_200), 12),
    ((".github/chatmodes/{role}.chatmode.md", Form::Matter, 1_800), 8),
    ((".github/skills/{topic}/SKILL.md", Form::Matter, 2_200), 6),
    ((".vscode/mcp.json", Form::Json, 320), 10),
    ((".copilotignore", Form::Ignore, 90), 3),
    ((".windsurfrules", Form::Bare, 1_600), 8),
    ((".windsurf/rules/{topic}.md", Form::Markdown, 1_200), 7),
    ((".windsurf/workflows/{verb}.md", Form::Markdown, 1_000), 5),
    ((".windsurf/skills/{topic}/SKILL.md", Form::Matter, 1_800), 3),
    (("mcp_config.json", Form::Json, 300), 3),
    ((".continue/rules/{topic}.md", Form::Markdown, 900), 5),
    ((".continue/prompts/{verb}.md", Form::Markdown, 800), 3),
    ((".continue/agents/{role}.md", Form::Matter, 900), 3),
    ((".continue/skills/{topic}/SKILL.md", Form::Matter, 1_500), 3),
    ((".continue/config.yaml", Form::Yaml, 500), 4),
    ((".continue/config.json", Form::Json, 500), 3),
    ((".continue/mcpServers/{module}.yaml", Form::Yaml, 260), 3),
    ((".continuerules", Form::Bare, 900), 3),
    ((".continueignore", Form::Ignore, 100), 3),
    ((".aiderrules", Form::Bare, 900), 3),
    ((".aider.conf.yml", Form::Yaml, 240), 4),
    ((".aiderignore", Form::Ignore, 120), 4),
    ((".codeiumignore", Form::Ignore, 110), 4),
    ((".codeium/instructions.md", Form::Markdown, 900), 3),
    (("AGENT.md", Form::Markdown, 1_100), 5),
    (("AGENTS.override.md", Form::Markdown, 700), 3),
    (("packages/{module}/AGENTS.md", Form::Markdown, 900), 16),
    (("packages/{module}/CLAUDE.md", Form::Markdown, 900), 14),
    ((".agents/skills/{topic}/SKILL.md", Form::Matter, 2_200), 14),
    ((".agents/skills/{topic}/reference.md", Form::Markdown, 1_800), 5),
    ((".agents/rules/{topic}.md", Form::Markdown, 900), 4),
    (("GEMINI.md", Form::Markdown, 1_500), 14),
    ((".gemini/settings.json", Form::Json, 300), 5),
    ((".gemini/commands/{verb}.toml", Form::Toml, 500), 4),
    ((".clinerules", Form::Bare, 1_400), 6),
    (("memory-bank/{topic}.md", Form::Markdown, 1_600), 8),
    ((".roo/rules/{topic}.md", Form::Markdown, 1_100), 4),
    ((".kilocode/rules/{topic}.md", Form::Markdown, 1_000), 3),
    ((".junie/guidelines.md", Form::Markdown, 1_400), 4),
    ((".kiro/steering/{topic}.md", Form::Markdown, 1_300), 6),
    ((".goosehints", Form::Bare, 800), 3),
    ((".openhands/microagents/{topic}.md", Form::Markdown, 1_000), 3),
    (("WARP.md", Form::Markdown, 1_500), 4),
    ((".codex/config.toml", Form::Toml, 300), 4),
];

/// Files whose names look right and are not what is looked for: a crawl has to tell them apart.
const DECOYS: &[(&str, Form, u32)] = &[
    ("templates/AGENTS.md.tmpl", Form::Markdown, 900),
    ("docs/claude.md.example", Form::Markdown, 700),
    ("node_modules/{module}/AGENTS.md", Form::Markdown, 1_100),
    ("vendor/{module}/CLAUDE.md", Form::Markdown, 1_000),
    ("CONVENTIONS.md", Form::Markdown, 1_800),
];

const TOPICS: &[&str] = &[
    "testing",
    "security",
    "release",
    "api-design",
    "database",
    "frontend",
    "logging",
    "style",
    "performance",
    "error-handling",
    "git",
    "architecture",
    "accessibility",
    "deploy",
    "observability",
    "migrations",
    "docs",
    "typing",
    "caching",
    "review",
];
const VERBS: &[&str] = &[
    "fix-issue",
    "release",
    "review",
    "write-tests",
    "refactor",
    "plan",
    "commit",
    "triage",
    "explain",
    "deploy",
    "update-docs",
    "check",
];
const ROLES: &[&str] = &[
    "reviewer",
    "architect",
    "tester",
    "security-auditor",
    "doc-writer",
    "planner",
    "debugger",
    "release-manager",
    "data-engineer",
];

/// Shares of repositories by their main context file.
#[derive(Debug, Clone, Copy)]
enum Main {
    Agents,
    Claude,
    Both,
    Copilot,
    Cursor,
    Aider,
    Nothing,
}

const MAINS: &[(Main, u32)] = &[
    (Main::Agents, 29),
    (Main::Claude, 33),
    (Main::Both, 7),
    (Main::Copilot, 10),
    (Main::Cursor, 8),
    (Main::Aider, 1),
    (Main::Nothing, 12),
];

/// Share of files with the same bytes as files of other owners.
const COPIED: f64 = 0.16;
/// Share that differ from files of other owners only by a name and a length.
const ADAPTED: f64 = 0.10;
/// How many texts are copied; the first are copied most.
const POOL: f64 = 600.0;
/// Spread of sizes: the standard deviation of their logarithm, as measured.
const SPREAD: f64 = 1.2;
/// Largest file made by the quantile function.
const LARGEST: f64 = 380_000.0;
/// Share of files far above what code search indexes and what GraphQL gives whole.
const GIANT: f64 = 0.000_15;

/// The files of repository `repo` when the world begins, in no order. `name` is what its texts call it.
pub(super) fn first_files(seed: u64, repo: u32, stack: usize, name: &str) -> Vec<Slot> {
    let mut dice = Dice::new(seed, &[0x1A70, u64::from(repo)]);
    let mut maker = Maker { seed, stack, name, slots: Vec::with_capacity(4) };
    let main = *dice.weighted(MAINS);
    match main {
        Main::Agents => maker.context(&mut dice, "AGENTS.md"),
        Main::Claude => {
            let place = if dice.chance(0.03) { ".claude/CLAUDE.md" } else { "CLAUDE.md" };
            maker.context(&mut dice, place);
        }
        Main::Both => {
            maker.context(&mut dice, "AGENTS.md");
            maker.alias(&mut dice, "CLAUDE.md");
        }
        Main::Copilot => maker.context(&mut dice, ".github/copilot-instructions.md"),
        Main::Cursor => maker.context(&mut dice, ".cursorrules"),
        Main::Aider => {
            maker.make(&mut dice, "CONVENTIONS.md", Form::Markdown, 1_400, true);
            let text = "read: CONVENTIONS.md\n";
            maker.fixed(".aider.conf.yml", Mode::File, Form::Pointer, text);
        }
        Main::Nothing => {}
    }
    // Most repositories have one file, a few have dozens.
    let mut more = if matches!(main, Main::Nothing) { 1.0 } else { 0.22 };
    while dice.chance(more) && maker.slots.len() < 120 {
        maker.extra(&mut dice);
        more = 0.72;
    }
    if dice.chance(0.06) {
        let (path, form, median) = dice.pick(DECOYS);
        maker.make(&mut dice, path, form, median, false);
    }
    if dice.chance(0.6) {
        maker.make(&mut dice, "README.md", Form::Markdown, 1_900, false);
    }
    maker.slots
}

/// A file that appears in `repo` at `epoch`.
pub(super) fn later_file(seed: u64, repo: u32, epoch: u32, stack: usize, name: &str, slots: &mut Vec<Slot>) {
    let mut dice = Dice::new(seed, &[0x1A7E, u64::from(repo), u64::from(epoch)]);
    let mut maker = Maker { seed, stack, name, slots: std::mem::take(slots) };
    maker.extra(&mut dice);
    *slots = maker.slots;
}

struct Maker<'a> {
    seed: u64,
    stack: usize,
    name: &'a str,
    slots: Vec<Slot>,
}

impl Maker<'_> {
    fn context(&mut self, dice: &mut Dice, path: &str) {
        let path = if path == "AGENTS.md" { spelled(path, dice.below(200)) } else { path };
        let form = if path.ends_with("rules") { Form::Bare } else { Form::Markdown };
        self.make(dice, path, form, 1_200, true);
    }

    /// A second context file that leads to the first.
    fn alias(&mut self, dice: &mut Dice, path: &str) {
        match dice.below(100) {
            0..20 => self.fixed(path, Mode::Symlink, Form::Link, "AGENTS.md"),
            20..35 => self.fixed(path, Mode::File, Form::Pointer, "@AGENTS.md"),
            35..90 => self.fixed(path, Mode::File, Form::Pointer, "@AGENTS.md\n"),
            _ => {
                let Some(recipe) = self.slots.last().map(|slot| slot.recipe.clone()) else { return };
                self.slots.push(Slot { path: path.to_owned(), mode: Mode::File, recipe, artifact: true });
            }
        }
    }

    fn extra(&mut self, dice: &mut Dice) {
        let (path, form, median) = *dice.weighted(EXTRAS);
        self.make(dice, path, form, median, true);
    }

    fn fixed(&mut self, path: &str, mode: Mode, form: Form, text: &str) {
        let recipe = Recipe { form, size: text.len() as u32, seed: 0, stack: 0, subject: text.to_owned() };
        self.slots.push(Slot { path: path.to_owned(), mode, recipe, artifact: true });
    }

    fn make(&mut self, dice: &mut Dice, path: &str, form: Form, median: u32, artifact: bool) {
        let (path, subject) = named(path, self.name, dice);
        if self.slots.iter().any(|slot| slot.path.eq_ignore_ascii_case(&path)) {
            return;
        }
        let mode = if form == Form::Script { Mode::Executable } else { Mode::File };
        let kind = dice.unit();
        let recipe = if kind < COPIED + ADAPTED {
            // A cube puts most copies on few texts.
            let text = (POOL * dice.unit().powi(3)) as u64;
            let mut pool = Dice::new(self.seed, &[0xC0B1, text, u64::from(median), form as u64]);
            let mut size = size(&mut pool, median);
            let (stack, seed) = (pool.below(STACKS.len()), pool.next());
            let subject = if kind < COPIED {
                "Project rules".to_owned()
            } else {
                size = ((f64::from(size) * (0.92 + 0.16 * dice.unit())) as u32).max(12);
                subject
            };
            Recipe { form, size, seed, stack, subject }
        } else {
            Recipe { form, size: size(dice, median), seed: dice.next(), stack: self.stack, subject }
        };
        self.slots.push(Slot { path, mode, recipe, artifact });
    }
}

/// A recipe after its file was changed at `epoch`: another length and, in part, other words.
pub(super) fn revised(recipe: &Recipe, epoch: u32) -> Recipe {
    if matches!(recipe.form, Form::Link | Form::Pointer) {
        return recipe.clone();
    }
    let mut dice = Dice::new(recipe.seed, &[0x2E71, u64::from(epoch)]);
    let size = (f64::from(recipe.size) * (0.8 + 0.5 * dice.unit())) as u32;
    // Half of all changes only lengthen or shorten the file, the others rewrite it.
    let seed = if dice.chance(0.5) { recipe.seed } else { mix(recipe.seed, &[u64::from(epoch)]) };
    Recipe { size: if size == recipe.size { size + 1 } else { size.max(12) }, seed, ..recipe.clone() }
}

/// The quantile function of sizes at a draw of `dice`.
fn size(dice: &mut Dice, median: u32) -> u32 {
    let draw = dice.normal();
    if dice.chance(GIANT) {
        return 390_000 + dice.below(500_000) as u32;
    }
    (f64::from(median) * (SPREAD * draw).exp()).clamp(12.0, LARGEST) as u32
}

/// Real names come in more than one spelling.
fn spelled(path: &str, draw: usize) -> &str {
    match draw {
        1 => "AGENTS.MD",
        2 | 3 => "agents.md",
        _ => path,
    }
}

/// The path of a pattern and the subject of the file at it.
fn named(pattern: &str, name: &str, dice: &mut Dice) -> (String, String) {
    for (slot, words) in [("{topic}", TOPICS), ("{verb}", VERBS), ("{role}", ROLES), ("{module}", MODULES)] {
        if let Some((before, after)) = pattern.split_once(slot) {
            let word = dice.pick(words);
            return (format!("{before}{word}{after}"), word.to_owned());
        }
    }
    (pattern.to_owned(), name.to_owned())
}
