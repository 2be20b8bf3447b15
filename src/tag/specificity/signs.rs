//! Signs: yes-or-no facts of a text and its place that points are given for.

use super::lines::{Counts, names_own};
use super::{STACK, Setting, SpecificityRules};
use crate::taxonomy::Function;
use std::sync::LazyLock;

/// Which signs a text gives, in the order of [`Signs::names`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signs(Vec<bool>);

/// A share of lines is a sign at each of these steps: (suffix, at least). The lowest stands for any line at all.
const STEPS: [(&str, f32); 6] =
    [("any", f32::MIN_POSITIVE), ("3", 0.03), ("8", 0.08), ("15", 0.15), ("30", 0.30), ("50", 0.50)];
const LENGTHS: [(&str, u32); 4] = [("8", 8), ("20", 20), ("50", 50), ("100", 100)];

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names = Vec::new();
    each(&Counts::default(), &Around::default(), |name, step, _| {
        names.push(if step.is_empty() { name.to_owned() } else { format!("{name}_{step}") });
    });
    names
});

impl Signs {
    /// The name of each sign. Shares of lines end in the least percentage, or in `any`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(String::as_str)
    }

    /// The name of sign `index`.
    pub fn name(index: usize) -> &'static str {
        NAMES.get(index).map_or("", String::as_str)
    }

    /// Indices of the signs that a text gives.
    pub fn given(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter(|(_, given)| **given).map(|(index, _)| index)
    }
}

/// What is known beside the lines, as far as it is a sign.
#[derive(Default)]
struct Around {
    own_path: bool,
    stack_path: bool,
    telling: bool,
    practices: bool,
    foreign: bool,
    catalogue: bool,
    open: bool,
    nested: bool,
    copied: bool,
    unfilled: bool,
    skill_part: bool,
    function: Option<Function>,
}

impl SpecificityRules {
    pub(super) fn signs_of(&self, setting: &Setting) -> Signs {
        let input = setting.input;
        let mut counts = self.read(input.text, &setting.own, input.line_owners);
        let path = setting.path.as_str();
        let hidden = path.contains("/.");
        let folders = path.matches('/').count() - 1;
        let catalogue = self.catalogues.is_match(&input.repo.key());
        // A skill among a package's sources is handed on to whoever uses the package.
        let shipped = setting.function == Function::Skill && !hidden && folders >= 3;
        let foreign = setting.foreign;
        if foreign || shipped {
            (counts.own, counts.own_code, counts.title_own) = (0, 0, false);
        }
        let part = |part: &str| self.words.has(part, STACK);
        let handed_on =
            matches!(setting.function, Function::Rules | Function::Skill | Function::Subagent | Function::Command);
        let around = Around {
            own_path: !foreign && !shipped && names_own(path, &setting.own),
            stack_path: path.split(['/', '-', '_', '.']).any(part),
            telling: self.telling.is_match(path),
            practices: self.practices.is_match(path),
            foreign,
            catalogue,
            open: !hidden && handed_on,
            nested: folders > 0 && !path.starts_with("/."),
            copied: input.owners >= 2,
            unfilled: setting.unfilled,
            skill_part: setting.function == Function::Skill && !path.ends_with("/skill.md"),
            function: Some(setting.function),
        };
        let mut signs = Vec::with_capacity(NAMES.len());
        each(&counts, &around, |_, _, given| signs.push(given));
        Signs(signs)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines within the head are small")]
fn each(c: &Counts, around: &Around, mut sign: impl FnMut(&str, &str, bool)) {
    let n = c.lines.max(1) as f32;
    let share = |count: u32| count as f32 / n;
    let is = |functions: &[Function]| around.function.is_some_and(|f| functions.contains(&f));
    sign("bias", "", true);
    for (name, count) in [
        ("own_name", c.own),
        ("own_name_in_code", c.own_code),
        ("stack", c.stack),
        ("stack_in_code", c.stack_code),
        ("paths", c.path),
        ("files", c.file),
        ("commands", c.command),
        ("identifiers", c.identifier),
        ("here", c.here),
        ("blanks", c.placeholder),
        ("project_lines", c.project),
        ("stack_lines", c.stack_only),
        ("code", c.code),
        ("shared_lines", c.shared),
    ] {
        for (step, least) in STEPS {
            sign(name, step, share(count) >= least);
        }
    }
    for (step, least) in LENGTHS {
        sign("lines", step, c.lines.max(1) >= least);
    }
    let own = c.own + c.own_code > 0;
    let own_anywhere = own || around.own_path;
    let stack = share(c.stack + c.stack_code);
    let no_stack = c.stack + c.stack_code == 0 && !c.language;
    let nothing = c.own + c.own_code + c.path + c.file + c.command + c.identifier == 0;
    let leads = share(c.stack_only) > share(c.project);
    let skill = is(&[Function::Skill]);
    let rules = is(&[Function::Rules]);
    for (name, given) in [
        ("language", c.language),
        ("packaged", c.packaged),
        ("persona", c.persona),
        ("own_name_in_title", c.title_own),
        ("stack_in_title", c.title_stack && !c.title_own),
        ("own_name_in_path", around.own_path),
        ("stack_in_path", around.stack_path),
        ("telling_path", around.telling),
        ("practices_path", around.practices),
        ("foreign", around.foreign),
        ("catalogue", around.catalogue),
        ("open", around.open),
        ("nested", around.nested),
        ("copied", around.copied || share(c.shared) >= 0.3),
        ("unfilled", around.unfilled),
        ("is_instructions", is(&[Function::Instructions]) && !around.foreign),
        ("is_rules", rules),
        ("is_skill", skill),
        ("is_skill_part", around.skill_part),
        ("is_subagent", is(&[Function::Subagent])),
        ("is_command", is(&[Function::Command])),
        ("is_other", is(&[Function::Memory, Function::Plan, Function::Index, Function::Other])),
        ("nothing_own", nothing),
        ("nothing_own_no_stack", nothing && no_stack),
        ("no_stack", no_stack),
        ("no_own_name", !own),
        ("stack_leads", leads),
        ("stack_leads_no_own_name", leads && !own),
        ("project_leads", share(c.project) > 2.0 * share(c.stack_only) + 0.05),
        ("skill_no_own_name", skill && !own_anywhere),
        ("skill_own_name", skill && own_anywhere),
        ("rules_on_a_stack", rules && !own && stack > 0.0),
        ("agent_no_own_name", is(&[Function::Subagent, Function::Command]) && !own_anywhere),
        ("foreign_on_a_stack", around.foreign && stack > 0.03),
        ("foreign_no_stack", around.foreign && stack <= 0.03),
        ("language_no_own_name", c.language && share(c.code) > 0.25 && !own),
    ] {
        sign(name, "", given);
    }
}
