//! What is an item and what is not, on small texts, and what holds for every text.

use super::*;
use crate::taxonomy::ItemKind;
use proptest::prelude::*;

/// Kind, line and text of every item.
fn items<'t>(path: &str, text: &'t str) -> Vec<(&'static str, u32, &'t str)> {
    segment(path, text).items.iter().map(|item| (item.kind.as_str(), item.line, &text[item.range()])).collect()
}

fn markdown(text: &str) -> Vec<(&'static str, u32, &str)> {
    items("AGENTS.md", text)
}

#[test]
fn list_entries_leave_out_their_children() {
    let text =
        "Intro\nwraps\n\n- one\n  more\n  - [ ] child\n\n  second block\n\n  ```sh\n  ls\n  ```\n1. **Two**: x\n";
    assert_eq!(
        markdown(text),
        [
            ("para", 1, "Intro\nwraps"),
            ("list", 4, "one\n  more"),
            ("list", 6, "[ ] child"),
            ("para", 8, "second block"),
            ("code", 10, "```sh\n  ls\n  ```"),
            ("list", 13, "**Two**: x"),
        ]
    );
}

#[test]
fn headings_are_a_path_and_no_items() {
    let text = "# Top #\nSub\n===\n\nUnder\n---\n\n### Deep `x`\n- item\n\n## Next\nend\n";
    let found = segment("CLAUDE.md", text);
    let paths: Vec<_> = found.items.iter().map(|item| found.heading_path(item, text)).collect();
    assert_eq!(paths, [vec!["Sub", "Under", "Deep `x`"], vec!["Sub", "Next"]]);
    // A long passage above a dashed line is no heading.
    let passage = "Never deploy on a Friday,\nnor on a Monday\n---\n";
    assert_eq!(markdown(passage), [("para", 1, "Never deploy on a Friday,\nnor on a Monday")]);
}

#[test]
fn rows_of_tables_and_of_what_looks_like_one() {
    let text = "Lead:\n| a | b |\n|---|---|\n| c | `d|e` |\n\n| x | y |\n|:-:|---|\n| z \\| w | v |\n";
    assert_eq!(
        markdown(text),
        [
            ("para", 1, "Lead:"),
            ("row", 2, "| a | b |"),
            ("row", 4, "| c | `d|e` |"),
            ("row", 6, "| x | y |"),
            ("row", 8, "| z \\| w | v |"),
        ]
    );
}

#[test]
fn quotes_are_whole_unless_long() {
    let text = "> Take care.\n>\n> - a\n\nend\n";
    assert_eq!(markdown(text), [("para", 1, "> Take care.\n>\n> - a"), ("para", 5, "end")]);
    let long = format!("> {}\n>\n> - Never push\n", "word ".repeat(200));
    let found = markdown(&long);
    assert_eq!((found.len(), found[1]), (2, ("list", 3, "Never push")));
}

#[test]
fn tags_are_words_and_comments_are_nothing() {
    let text =
        "<rules>\n- Never push\n- Ask\n\nmore\n</rules>\n\n<!-- BEGIN\n\nhidden -->\n\n<!-- x --> shown\n<!-- open\n";
    assert_eq!(
        markdown(text),
        [
            ("para", 1, "<rules>"),
            ("list", 2, "Never push"),
            ("list", 3, "Ask"),
            ("para", 5, "more\n</rules>"),
            ("para", 12, "shown"),
            ("para", 13, "<!-- open"),
        ]
    );
}

#[test]
fn definitions_do_not_vanish() {
    let text = "[docs]: https://example.org\n\n[^1]: Never push\n";
    assert_eq!(markdown(text), [("para", 1, "[docs]: https://example.org"), ("para", 3, "[^1]: Never push")]);
}

#[test]
fn prose_behind_nested_fences_is_prose() {
    let text = "```md\n```sh\nls\n```\n```\n\nNever push.\n";
    assert_eq!(markdown(text), [("code", 1, "```md\n```sh\nls\n```\n```"), ("para", 7, "Never push.")]);
}

#[test]
fn indented_prose_and_lists_are_read_and_indented_code_is_one_item() {
    let text = "Rules:\n\n    Never push\n    to main\n\n    - ask\n      first\n\nRun:\n\n    let x = f(1);\n    if x {\n        g();\n\n        h();\n    }\n";
    assert_eq!(
        markdown(text),
        [
            ("para", 1, "Rules:"),
            ("para", 3, "Never push\n    to main"),
            ("list", 6, "ask\n      first"),
            ("para", 9, "Run:"),
            ("code", 11, "let x = f(1);\n    if x {\n        g();\n\n        h();\n    }"),
        ]
    );
}

#[test]
fn marks_and_line_ends_of_other_systems() {
    let text = "\u{feff}# T\r\n\r\n- a\0b\r\n- \u{c}c\r\n\r\n| x | y |\r\n|---|---|\r\n";
    assert_eq!(markdown(text), [("list", 3, "a\0b"), ("list", 4, "c"), ("row", 6, "| x | y |")]);
    assert_eq!(markdown("\u{feff}---\r\ndescription: Never ever push\r\n---\r\nx\r\n")[0].2, "Never ever push");
}

#[test]
fn front_matter_gives_settings() {
    let text = "---\nname: release-notes\ndescription: >-\n  Use this when\n  a release is cut\nglobs: src/**/*.ts, a b c\nhint: \"Ask before you push: always\"\n---\n# T\n\n- x\n";
    assert_eq!(
        items(".cursor/rules/x.mdc", text),
        [
            ("setting", 4, "Use this when\n  a release is cut"),
            ("setting", 7, "Ask before you push: always"),
            ("list", 11, "x"),
        ]
    );
    let found = segment("x.mdc", text);
    let paths: Vec<_> = found.items.iter().map(|item| found.heading_path(item, text)).collect();
    assert_eq!(paths, [["description"], ["hint"], ["T"]]);
    // Two rules are no front matter.
    assert_eq!(markdown("---\n\nNever push to main\n\n---\n"), [("para", 3, "Never push to main")]);
}

#[test]
fn settings_give_their_instruction_strings() {
    let json = "{\n  \"command\": \"npm run the tests now\",\n  \"instructions\": [\"Never push\", \"Ask \\\"me\\\" first\"], // c\n  \"other\": \"You may not delete anything here\"\n}";
    assert_eq!(
        items(".claude/settings.json", json),
        [
            ("setting", 3, "Never push"),
            ("setting", 3, "Ask \\\"me\\\" first"),
            ("setting", 4, "You may not delete anything here"),
        ]
    );
    let toml = "description = \"Reviews a change\"\nprompt = \"\"\"\nRead the diff.\n\n- Never push\n\"\"\"\n[x]\ncommand = 'a b c d e'\n";
    assert_eq!(
        items(".gemini/commands/r.toml", toml),
        [("setting", 1, "Reviews a change"), ("setting", 3, "Read the diff."), ("list", 5, "Never push")]
    );
    let yaml = "rules:\n  - Never push to main\n  - |\n      Ask first.\n\n      - Then wait\nlint-cmd: npm run lint\n";
    assert_eq!(
        items(".continue/config.yaml", yaml),
        [("setting", 2, "Never push to main"), ("setting", 4, "Ask first."), ("list", 6, "Then wait")]
    );
}

#[test]
fn what_does_not_parse_and_what_tells_nothing_has_no_items() {
    for (path, text) in [
        ("a.json", "{\"prompt\": \"Never push"),
        ("a.toml", "prompt = \"Never push to main\nx"),
        ("a.yaml", "prompt: \"Never push to main"),
        ("hook.sh", "echo Never push to main"),
        (".cursorignore", "# do not read these files\nsecrets/"),
        ("CLAUDE.md", " \r\n\n"),
    ] {
        assert_eq!(segment(path, text), Segmentation::default(), "{path}");
    }
}

#[test]
fn rule_files_without_an_ending_are_markdown() {
    for path in [".cursorrules", ".goosehints", "a/.clinerules", "AGENTS.md.example", "rules.txt"] {
        assert_eq!(items(path, "# R\n- Never push\n"), [("list", 2, "Never push")], "{path}");
    }
}

/// What holds for every segmentation of `text`.
fn assert_sound(path: &str, text: &str) {
    let found = segment(path, text);
    let mut free = 0;
    for item in &found.items {
        assert!(item.start as usize >= free && item.start < item.end, "{path}: {item:?} overlaps or is empty");
        free = item.end as usize;
        let slice = text.get(item.range()).unwrap();
        assert_eq!(slice, slice.trim(), "{path}: {item:?}");
        assert_eq!(item.line as usize, 1 + text[..item.start as usize].matches('\n').count(), "{path}: {item:?}");
        if let Some(index) = item.heading {
            assert!(found.headings[index as usize].end <= item.start, "{path}: {item:?} stands above its heading");
        }
    }
    for (index, heading) in found.headings.iter().enumerate() {
        assert!(text.get(heading.start as usize..heading.end as usize).is_some());
        assert!((1..=6).contains(&heading.level));
        let above = heading.parent.map(|parent| (parent as usize, found.headings[parent as usize].level));
        assert!(above.is_none_or(|(parent, level)| parent < index && level < heading.level));
    }
    assert_eq!(unpack(&pack(&found)).as_ref(), Ok(&found));
    assert_eq!(segment(path, text), found);
}

/// Texts rich in what the grammars give a meaning to.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "- ",
        "* ",
        "1. ",
        "> ",
        "# ",
        "## ",
        "```",
        "```sh",
        "~~~",
        "---",
        "===",
        "|",
        "| a | b |",
        "|---|---|",
        "<!--",
        "-->",
        "<rules>",
        "</rules>",
        "[a]: b",
        "**x**",
        "`",
        "    ",
        "  ",
        "\t",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\0",
        "\u{c}",
        "\u{feff}",
        "é",
        "漢字",
        "\u{a0}",
        "\u{2028}",
        "word",
        "key: ",
        "\"",
        "'",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\",
        "|\n",
        "'''",
        "\"\"\"",
        "prompt = ",
        "description: ",
        "Never push to main",
        "&",
        "_",
        "+ ",
        ">-\n",
        "%",
        "#",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn every_text_is_cut_soundly(text in any_text(), front in any::<bool>()) {
        let text = if front { format!("---\nname: x\n{text}\n---\n{text}") } else { text };
        for path in ["AGENTS.md", "a.mdc", "a.json", "a.yaml", "a.toml", "a.py"] {
            assert_sound(path, &text);
        }
    }

    #[test]
    fn arbitrary_characters_are_cut_soundly(text in any::<String>()) {
        for path in ["AGENTS.md", "a.json", "a.yaml", "a.toml"] {
            assert_sound(path, &text);
        }
    }

    #[test]
    fn prose_is_lost_nowhere(words in prop::collection::vec("[a-z]{1,8}", 1..20), lead in prop::sample::select(vec!["", "- ", "3. ", "> ", "    ", "\t- "])) {
        let text = format!("# Title\n\n{lead}{}\n", words.join(" "));
        let found = segment("AGENTS.md", &text);
        let joined: String = found.items.iter().map(|item| &text[item.range()]).collect();
        prop_assert!(joined.ends_with(&words.join(" ")));
    }
}

#[test]
fn kinds_fit_the_packed_head() {
    assert!(ItemKind::ALL.len() <= 8);
}
