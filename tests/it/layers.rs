//! The layers of the README's table hold: every module is in it, and imports point down only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Module → layer, from the rows `| L3 | `job/`, `sandbox/` | …` of the README.
fn table() -> BTreeMap<String, u8> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut layers = BTreeMap::new();
    for line in readme.lines().filter(|l| l.starts_with("| L")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let layer = cells[1].strip_prefix('L').unwrap().parse().unwrap();
        for module in cells[2].split('`').skip(1).step_by(2) {
            let name = module.trim_end_matches('/').trim_end_matches(".rs");
            assert!(layers.insert(name.to_owned(), layer).is_none(), "{name} stands twice in the table");
        }
    }
    layers
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn top_module(file: &Path) -> String {
    let inside = file.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// The modules of this crate that a source text names, outside its tests.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut found = Vec::new();
    for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for part in line.split("crate::").skip(1) {
            let group = part.strip_prefix('{').and_then(|p| p.split('}').next());
            for name in group.map_or_else(|| vec![part], |g| g.split(',').collect()) {
                let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn every_module_is_in_the_readme_and_imports_point_down_only() {
    let layers = table();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let modules: std::collections::BTreeSet<String> =
        files.iter().map(|f| top_module(f)).filter(|m| m != "lib").collect();
    for module in &modules {
        assert!(layers.contains_key(module), "`{module}` is missing from the README's table");
    }
    for module in layers.keys() {
        assert!(modules.contains(module), "the README's table names `{module}`, which is not there");
    }
    for file in files {
        let module = top_module(&file);
        if module == "lib" {
            continue;
        }
        let layer = layers[&module];
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            let Some(&other) = layers.get(&import) else { continue };
            let sibling = import != module && other == layer;
            let allowed = other < layer || import == module || (sibling && layer != 2);
            assert!(allowed, "{}: L{layer} `{module}` imports L{other} `{import}`", file.display());
            // L2 knows values, not decisions.
            assert!(!(layer == 2 && other == 1), "{}: L2 `{module}` imports L1 `{import}`", file.display());
        }
    }
}

/// Outside systems have one room each.
#[test]
fn outside_systems_have_one_room_each() {
    let homes = [
        ("sqlx", vec!["store"]),
        ("object_store", vec!["bucket"]),
        ("octocrab", vec!["github"]),
        ("governor", vec!["github"]),
        ("reqwest", vec!["github", "llm"]),
        ("gix", vec!["repos"]),
        ("arrow_array", vec!["parquet"]),
        ("arrow_schema", vec!["parquet"]),
        ("axum", vec!["annotate", "loopback", "sandbox"]),
        ("clap", vec!["cli"]),
        ("indicatif", vec!["terminal"]),
    ];
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let module = top_module(&file);
        for (system, rooms) in &homes {
            if text.contains(&format!("{system}::")) {
                assert!(rooms.contains(&module.as_str()), "{} uses {system}", file.display());
            }
        }
    }
}
