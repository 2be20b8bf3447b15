//! Generated files of an exact size.

use super::layout::Form;
use super::phrases::{STACKS, Stack, TONGUES, Tongue, fill, headings, patterns};
use crate::sandbox::dice::Dice;
use crate::taxonomy::KnowledgeType;

/// An item of a generated file with the type it was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrueItem {
    /// The item's text as it stands in the file, without its list mark.
    pub text: String,
    /// What it was written as.
    pub knowledge: KnowledgeType,
}

/// A finished file.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) items: Vec<TrueItem>,
}

/// What determines a file's text: the same values give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) form: Form,
    /// Bytes of the file.
    pub(super) size: u32,
    /// Seed of everything in it.
    pub(super) seed: u64,
    /// Position in [`STACKS`].
    pub(super) stack: usize,
    /// What the file calls its project or subject.
    pub(super) subject: String,
}

/// Types with the share of sections that hold them.
const SECTIONS: &[(KnowledgeType, u32)] = &[
    (KnowledgeType::Procedural, 34),
    (KnowledgeType::Belief, 32),
    (KnowledgeType::Preference, 16),
    (KnowledgeType::Constraint, 12),
    (KnowledgeType::Episodic, 4),
    (KnowledgeType::Meta, 2),
];

/// Write the file of `recipe`: exactly `recipe.size` bytes.
pub(super) fn write(recipe: &Recipe) -> Written {
    let stack = &STACKS[recipe.stack % STACKS.len()].0;
    let mut dice = Dice::new(recipe.seed, &[0x7E47]);
    let size = recipe.size as usize;
    match recipe.form {
        Form::Link | Form::Pointer => {
            let mut text: String = recipe.subject.chars().take(size).collect();
            text.push_str(&"\n".repeat(size.saturating_sub(text.len())));
            Written { text, items: Vec::new() }
        }
        Form::Json => plain(json_body(&recipe.subject, stack, size, &mut dice)),
        Form::Yaml | Form::Toml | Form::Ignore | Form::Script => plain(lines(recipe.form, stack, size, &mut dice)),
        Form::Markdown | Form::Matter | Form::Bare => {
            let tongue = *dice.weighted(TONGUES);
            let mut writer = Writer { text: String::with_capacity(size), items: Vec::new(), size, stack, tongue, dice };
            writer.document(recipe);
            Written { text: writer.text, items: writer.items }
        }
    }
}

fn plain(text: String) -> Written {
    Written { text, items: Vec::new() }
}

struct Writer<'a> {
    text: String,
    items: Vec<TrueItem>,
    size: usize,
    stack: &'a Stack,
    tongue: Tongue,
    dice: Dice,
}

impl Writer<'_> {
    /// Append `block` with its items if it fits.
    fn put(&mut self, block: &str, items: Vec<TrueItem>) -> bool {
        let fits = self.text.len() + block.len() <= self.size;
        if fits {
            self.text.push_str(block);
            self.items.extend(items);
        }
        fits
    }

    fn document(&mut self, recipe: &Recipe) {
        let subject = &recipe.subject;
        if recipe.form == Form::Matter {
            let kind = if self.dice.chance(0.5) { "globs: \"**/*\"\nalwaysApply: false\n" } else { "" };
            let line = format!("---\nname: {subject}\ndescription: How {subject} is done here\n{kind}---\n\n");
            self.put(&line, Vec::new());
        }
        if recipe.form != Form::Bare || self.dice.chance(0.6) {
            self.put(&format!("# {subject}\n"), Vec::new());
        }
        if self.dice.chance(0.3) {
            let text = "This file provides guidance to coding agents that work in this repository.";
            self.put(&format!("\n{text}\n"), vec![item(text, KnowledgeType::Meta)]);
        }
        // Some sections are too long for what is left; a few more tries fill the file better.
        let mut misses = 0;
        while misses < 4 && self.size - self.text.len() > 60 {
            if !self.section() {
                misses += 1;
            }
        }
        self.close();
    }

    /// A heading with items of mostly one type. False when not even its first item fitted.
    fn section(&mut self) -> bool {
        let ty = *self.dice.weighted(SECTIONS);
        let heading = self.dice.pick(headings(self.tongue, ty));
        let first = self.item(ty, 0);
        let head = format!("\n## {heading}\n\n");
        if !self.put(&format!("{head}{}", first.0), first.1) {
            return false;
        }
        for position in 1..2 + self.dice.below(7) {
            // Real sections are not pure: a rule stands among facts, a fact among steps.
            let ty = if self.dice.chance(0.12) { *self.dice.weighted(SECTIONS) } else { ty };
            let (block, items) = self.item(ty, position);
            if !self.put(&block, items) {
                break;
            }
        }
        true
    }

    fn item(&mut self, ty: KnowledgeType, position: usize) -> (String, Vec<TrueItem>) {
        if ty == KnowledgeType::Procedural && position == 0 && self.dice.chance(0.3) {
            let code = match self.dice.below(3) {
                0 => format!("{}\n{}\n{}", self.stack.install, self.stack.build, self.stack.test),
                1 => format!("{}   # style\n{}   # tests", self.stack.lint, self.stack.test),
                _ => self.stack.build.to_owned(),
            };
            return (format!("```bash\n{code}\n```\n"), vec![item(&code, ty)]);
        }
        let pattern = self.dice.pick(patterns(self.tongue, ty));
        let text = fill(pattern, self.stack, &mut self.dice);
        let block = match (ty, self.dice.below(10)) {
            (KnowledgeType::Procedural, 0..4) => format!("{}. {text}\n", position + 1),
            (KnowledgeType::Belief, 0..3) if position == 0 => format!("{text}\n\n"),
            _ => format!("- {text}\n"),
        };
        (block, vec![item(&text, ty)])
    }

    /// Fill what is left to the last byte.
    fn close(&mut self) {
        let left = self.size - self.text.len();
        if left < 6 {
            self.text.push_str(&"\n".repeat(left));
            return;
        }
        let text = words(left - 2, &mut self.dice);
        self.text.push_str(&format!("\n{text}\n"));
        self.items.push(item(&text, KnowledgeType::Meta));
    }
}

fn item(text: &str, knowledge: KnowledgeType) -> TrueItem {
    TrueItem { text: text.to_owned(), knowledge }
}

/// Words by length, from 1.
const WORDS: &[&[&str]] = &[
    &["a"],
    &["to", "in", "of"],
    &["see", "the", "for", "and"],
    &["also", "page", "more", "wiki"],
    &["index", "notes", "guide"],
    &["manual", "folder", "linked"],
    &["chapter", "details", "section"],
    &["overview", "appendix", "document"],
    &["reference", "elsewhere", "described"],
    &["background", "continuing"],
];

/// A sentence of exactly `length` ASCII bytes that says nothing.
fn words(length: usize, dice: &mut Dice) -> String {
    let mut text = String::with_capacity(length);
    while text.len() + 1 < length {
        let left = length - 1 - text.len() - usize::from(!text.is_empty());
        if left == 0 {
            // Room for one byte that would have to be the space: lengthen the word before instead.
            text.push('s');
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let longest = WORDS.len();
        let pick = if left <= longest { left } else { 1 + dice.below((left - 2).min(longest)) };
        text.push_str(dice.pick(WORDS[pick - 1]));
    }
    text.push_str(if length > 0 { "." } else { "" });
    text
}

/// A JSON document of exactly `size` bytes.
fn json_body(subject: &str, stack: &Stack, size: usize, dice: &mut Dice) -> String {
    let entry = |dice: &mut Dice| {
        let name = fill("{module}", stack, dice);
        let n = dice.below(9000);
        format!("    \"{name}-{n}\": {{ \"command\": \"npx\", \"args\": [\"-y\", \"{name}-mcp\"] }}")
    };
    let head = format!("{{\n  \"name\": \"{subject}\",\n  \"mcpServers\": {{\n");
    let tail = "\n  },\n  \"description\": \"";
    let end = "\"\n}\n";
    let first = entry(dice);
    let least = head.len() + first.len() + tail.len() + end.len();
    if size < least {
        return match size {
            0 => String::new(),
            1 => "1".into(),
            _ => format!("{{{}}}", "\n".repeat(size - 2)),
        };
    }
    let mut body = head;
    body.push_str(&first);
    loop {
        let next = entry(dice);
        if body.len() + 2 + next.len() + tail.len() + end.len() + 80 > size {
            break;
        }
        body.push_str(",\n");
        body.push_str(&next);
    }
    let left = size - body.len() - tail.len() - end.len();
    body.push_str(tail);
    body.push_str(&words(left, dice));
    body.push_str(end);
    body
}

/// Settings, ignore lists and scripts: lines, then a comment that fills the rest.
fn lines(form: Form, stack: &Stack, size: usize, dice: &mut Dice) -> String {
    let pattern: &[&str] = match form {
        Form::Ignore => {
            &["{dir}/generated/", "*.log", ".env", "{module}/fixtures/", "dist/", "*.{ext}.bak", "secrets/"]
        }
        Form::Toml => &["{module} = {n}", "{module}_{other} = \"{dir}\"", "{table} = true"],
        Form::Yaml => &["{module}: {n}", "{module}-{other}: {dir}", "{table}: true"],
        _ => &["echo \"{module}\"", "{lint}", "test -d {dir} || exit 0", "{test}"],
    };
    let mut text = match form {
        Form::Script => "#!/usr/bin/env bash\nset -euo pipefail\n".to_owned(),
        _ => String::new(),
    };
    if text.len() > size {
        text.clear();
    }
    let mut number = 0;
    loop {
        let mut line = fill(dice.pick(pattern), stack, dice);
        if matches!(form, Form::Toml | Form::Yaml) {
            // Keys must differ or the document is not one.
            number += 1;
            line = format!("k{number}_{line}");
        }
        if text.len() + line.len() + 1 > size {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    match size - text.len() {
        left @ 0..4 => text.push_str(&"\n".repeat(left)),
        left => {
            text.push_str("# ");
            text.push_str(&words(left - 3, dice));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: &[Form] =
        &[Form::Markdown, Form::Matter, Form::Bare, Form::Json, Form::Yaml, Form::Toml, Form::Ignore, Form::Script];

    #[test]
    fn every_form_has_exactly_the_size_asked_for() {
        for form in FORMS {
            for size in (0..400).chain([1_000, 4_096, 70_001]) {
                for seed in 0..4 {
                    let recipe = Recipe { form: *form, size, seed, stack: seed as usize, subject: "harbor".into() };
                    let written = write(&recipe);
                    assert_eq!(written.text.len(), size as usize, "{form:?} seed {seed}");
                    assert_eq!(written.text, write(&recipe).text);
                }
            }
        }
    }

    #[test]
    fn documents_are_what_they_claim_to_be() {
        for seed in 0..30 {
            let recipe = |form| Recipe { form, size: 900, seed, stack: seed as usize, subject: "harbor".into() };
            serde_json::from_str::<serde_json::Value>(&write(&recipe(Form::Json)).text).unwrap();
            toml::from_str::<toml::Table>(&write(&recipe(Form::Toml)).text).unwrap();
        }
    }

    #[test]
    fn items_stand_in_the_text_in_order_and_all_types_occur() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let recipe = Recipe { form: Form::Markdown, size: 5_000, seed, stack: 1, subject: "harbor".into() };
            let written = write(&recipe);
            let mut rest = written.text.as_str();
            for item in &written.items {
                let at = rest.find(&item.text).unwrap_or_else(|| panic!("{} not in {rest}", item.text));
                rest = &rest[at + item.text.len()..];
                seen.insert(item.knowledge);
            }
            assert!(written.items.len() > 20, "{}", written.items.len());
        }
        assert_eq!(seen.len(), KnowledgeType::ALL.len());
    }
}
