use super::*;

fn embedded() -> Targets {
    Targets::embedded().unwrap()
}

fn owner_of<'a>(targets: &'a Targets, path: &str) -> Option<&'a str> {
    targets.owner(path).map(|o| o.target.id.as_str())
}

/// A path that the pattern matches.
fn example(pattern: &str) -> String {
    pattern.replace("**/", "deep/er/").replace("/**", "/some/file.md").replace('*', "some")
}

#[test]
fn every_named_platform_has_a_file_and_eight_are_on() {
    let targets = embedded();
    let on: BTreeSet<&str> = targets.platforms().iter().filter(|p| p.default).map(|p| p.platform.0.as_str()).collect();
    let eight = ["aider", "claude", "codeium", "continue", "copilot", "cursor", "universal", "windsurf"];
    assert_eq!(on, BTreeSet::from(eight));
    for name in ["codex", "gemini", "cline", "roo", "kilo", "junie", "kiro", "amp", "zed", "warp", "openhands", "goose"]
    {
        assert!(targets.platforms().iter().any(|p| p.platform.0 == name && !p.default), "{name}");
    }
}

#[test]
fn no_two_targets_send_the_same_query() {
    let targets = embedded();
    let queries: BTreeSet<String> = targets.all().iter().map(|t| t.search.to_lowercase()).collect();
    assert_eq!(queries.len(), targets.all().len());
}

#[test]
fn no_path_has_two_owners() {
    let targets = embedded();
    let mut precedences = BTreeSet::new();
    assert!(targets.platforms().iter().all(|p| precedences.insert(p.precedence)));
    for target in targets.all() {
        for pattern in &target.paths {
            let path = example(pattern);
            let owner = targets.owner(&path).unwrap_or_else(|| panic!("{path} of {} has no owner", target.id));
            // A more specific platform or an earlier target may own it, never a later one.
            let rank = |id: &str| targets.all().iter().position(|t| t.id == id).unwrap();
            assert!(rank(&owner.target.id) <= rank(&target.id), "{path}: {} over {}", owner.target.id, target.id);
        }
    }
}

#[test]
fn paths_go_to_their_one_owner() {
    let targets = embedded();
    for (path, owner) in [
        ("CLAUDE.md", Some("claude/context")),
        ("packages/web/claude.MD", Some("claude/context")),
        ("AGENTS.MD", Some("universal/context")),
        (".junie/AGENTS.md", Some("junie/context")),
        (".cursor/rules/deep/er.mdc", Some("cursor/rules")),
        ("app/.cursor/rules/x.mdc", Some("cursor/rules")),
        (".claude/skills/pdf/SKILL.md", Some("claude/skills")),
        ("skills/pdf/SKILL.md", Some("universal/skills")),
        (".gemini/skills/pdf/SKILL.md", Some("gemini/skills")),
        (".agents/skills/pdf/notes.md", Some("universal/skill-files")),
        (".mcp.json", Some("universal/mcp")),
        (".codeiumignore", Some("codeium/ignore")),
        (".github/copilot-instructions.md", Some("copilot/context")),
        (".clinerules", Some("cline/rules")),
        (".clinerules/one.md", Some("cline/rules-folder")),
        (".roo/rules-code/one.md", Some("roo/rules")),
        ("node_modules/x/CLAUDE.md", None),
        ("go/vendor/x/AGENTS.md", None),
        ("vendors/AGENTS.md", Some("universal/context")),
        ("docs/agent.md", None),
        ("MYCLAUDE.md", None),
        ("README.md", None),
    ] {
        assert_eq!(owner_of(&targets, path), owner, "{path}");
    }
}

#[test]
fn weak_names_need_corroboration() {
    let targets = embedded();
    let ids = |paths: &[&str]| targets.artifacts(paths).iter().map(|(p, _)| (*p).to_owned()).collect::<Vec<String>>();
    assert!(ids(&["CONVENTIONS.md", "README.md"]).is_empty());
    assert_eq!(ids(&["CONVENTIONS.md", ".aider.conf.yml"]), ["CONVENTIONS.md", ".aider.conf.yml"]);
    // Corroboration may come from a platform that is off, and never from the file itself.
    assert_eq!(ids(&["AGENT.md", "GEMINI.md"]), ["AGENT.md"]);
    assert!(ids(&["AGENT.md"]).is_empty());
}

#[test]
fn lenient_targets_take_weak_names_alone_and_folders_below_the_root() {
    let mut targets = embedded();
    targets.lenient().unwrap();
    for (path, owner) in [
        ("CONVENTIONS.md", "aider/conventions"),
        ("docs/AGENT.md", "universal/agent"),
        ("web/.claude/commands/x.md", "claude/commands"),
        (".claude/commands/x.md", "claude/commands"),
        ("a/b/.junie/guidelines.md", "junie/guidelines"),
        ("CLAUDE.md", "claude/context"),
    ] {
        assert_eq!(owner_of(&targets, path), Some(owner), "{path}");
    }
    assert_eq!(targets.artifacts(&["CONVENTIONS.md"]).len(), 1);
    assert!(owner_of(&targets, "node_modules/x/.claude/commands/x.md").is_none());
    assert!(owner_of(&targets, "README.md").is_none());
}

#[test]
fn platforms_that_are_off_are_owned_but_not_collected() {
    let mut targets = embedded();
    assert!(targets.collected("GEMINI.md").is_none());
    assert!(targets.collected(".junie/AGENTS.md").is_none());
    targets.select(&Selection::parse(&["gemini".to_owned()], &targets).unwrap());
    assert!(targets.collected("GEMINI.md").is_some());
    assert!(targets.collected("CLAUDE.md").is_none());
    let unknown = Selection::parse(&["clade".to_owned()], &targets).unwrap_err();
    assert!(unknown.to_string().contains("claude"), "{unknown}");
}

#[test]
fn a_bad_file_is_an_error_naming_file_key_and_line() {
    let good = "title = \"X\"\nprecedence = 1\ndefault = true\n[[target]]\nname = \"a\"\nsearch = \"filename:A.md\"\nfunction = \"rules\"\npaths = [\"A.md\"]\n";
    let error = |text: &str| Targets::from_files(&[("x.toml", text)]).unwrap_err();
    assert!(Targets::from_files(&[("x.toml", good)]).is_ok());
    for (text, line, key) in [
        (good.replace("\"rules\"", "\"rulez\""), 7, "function"),
        (good.replace("paths", "pahts"), 8, "pahts"),
        (good.replace("\"A.md\"", "\"[\""), 8, "paths"),
        (good.replace("\"A.md\"", "\"/A.md\""), 8, "paths"),
        (good.replace("[\"A.md\"]", "[]"), 8, "paths"),
        (good.replace("filename:A.md", "filename:A.md size:1"), 6, "search"),
        (good.replace("filename:A.md", &"x".repeat(300)), 6, "search"),
        (good.replace("\"a\"", "\"A b\""), 5, "name"),
        (good.replace("precedence = 1", "precedence = \"high\""), 2, "precedence"),
    ] {
        let error = error(&text);
        assert_eq!((error.file.as_str(), error.line, error.key.as_str()), ("x.toml", line, key), "{error}");
    }
    let twice = good.replace(
        "[[target]]",
        "[[target]]\nname = \"b\"\nsearch = \"filename:a.MD\"\nfunction = \"rules\"\npaths = [\"B.md\"]\n[[target]]",
    );
    assert!(error(&twice).why.contains("same query"));
    let shared = Targets::from_files(&[("x.toml", good), ("y.toml", &good.replace("A.md", "B.md"))]).unwrap_err();
    assert_eq!(shared.key, "precedence");
}

#[test]
fn root_paths_are_literal_and_sorted() {
    let paths = embedded().root_paths();
    assert!(
        ["CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md"]
            .iter()
            .all(|p| paths.contains(&(*p).to_owned()))
    );
    assert!(paths.iter().all(|p| !p.contains('*')));
    assert!(paths.windows(2).all(|w| w[0] < w[1]));
}
