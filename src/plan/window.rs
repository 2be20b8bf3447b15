//! Windows: the code-search queries that a target is cut into.

use crate::taxonomy::ForkFamily;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A further qualifier that narrows a window whose size range cannot be narrowed any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Refinement {
    /// Files in the repository's top directory: `path:/`.
    Root,
    /// Files under this directory: `path:DIR`.
    Directory(String),
    /// Files whose name ends so: `extension:md`.
    Extension(String),
    /// Files of this language: `language:markdown`.
    Language(String),
}

impl Refinement {
    /// Whether search would deliver a file of this path under the refinement; nothing where only the service can say.
    pub fn is_met_by(&self, path: &str) -> Option<bool> {
        match self {
            Self::Root => Some(!path.contains('/')),
            Self::Directory(directory) => {
                Some(path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/')))
            }
            Self::Extension(extension) => {
                Some(path.strip_suffix(extension.as_str()).is_some_and(|rest| rest.ends_with('.')))
            }
            Self::Language(_) => None,
        }
    }
}

/// A text that is no [`Refinement`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Failed to read the refinement {0:?}: expected path:/, path:DIR, extension:NAME or language:NAME")]
pub struct UnknownRefinement(pub String);

impl fmt::Display for Refinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = match self {
            Self::Root => return f.write_str("path:/"),
            Self::Directory(value) => ("path", value),
            Self::Extension(value) => ("extension", value),
            Self::Language(value) => ("language", value),
        };
        if value.contains(char::is_whitespace) { write!(f, "{key}:\"{value}\"") } else { write!(f, "{key}:{value}") }
    }
}

impl FromStr for Refinement {
    type Err = UnknownRefinement;
    fn from_str(text: &str) -> Result<Self, UnknownRefinement> {
        let wrong = || UnknownRefinement(text.to_owned());
        let (key, value) = text.split_once(':').ok_or_else(wrong)?;
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).to_owned();
        if value.is_empty() || value.contains('"') {
            return Err(wrong());
        }
        match key {
            "path" if value == "/" => Ok(Self::Root),
            "path" => Ok(Self::Directory(value)),
            "extension" => Ok(Self::Extension(value)),
            "language" => Ok(Self::Language(value)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Refinement {
    type Error = UnknownRefinement;
    fn try_from(text: String) -> Result<Self, UnknownRefinement> {
        text.parse()
    }
}

impl From<Refinement> for String {
    fn from(refinement: Refinement) -> Self {
        refinement.to_string()
    }
}

/// Parts of one axis. They are disjoint but need not cover everything: search has no complement.
pub type Axis = Vec<Refinement>;

/// Directories besides the root that hold many agent files.
const DIRECTORIES: [&str; 8] = [".claude", ".github", "docs", "src", "app", "packages", "apps", "templates"];
/// Endings of files that carry agent configuration.
const EXTENSIONS: [&str; 8] = ["md", "mdc", "json", "yml", "yaml", "toml", "txt", "sh"];

/// Languages of such files, by the names of the search: for seeds of mixed files, where an ending may be missing.
const LANGUAGES: [&str; 6] = ["markdown", "json", "yaml", "toml", "shell", "python"];

/// The axes that can narrow `expression`: one that the expression itself fixes is no axis, and neither is the ending
/// of a file whose whole name is given.
pub fn axes_for(expression: &str) -> Vec<Axis> {
    let has = |key: &str| expression.split_whitespace().any(|term| term.starts_with(key));
    let mut axes = Vec::new();
    if !has("extension:") && !has("filename:") && !has("language:") {
        axes.push(EXTENSIONS.iter().map(|e| Refinement::Extension((*e).to_owned())).collect());
    }
    if !has("path:") {
        let named = DIRECTORIES.iter().map(|d| Refinement::Directory((*d).to_owned()));
        axes.push(std::iter::once(Refinement::Root).chain(named).collect());
    }
    if !has("extension:") && !has("filename:") && !has("language:") {
        axes.push(LANGUAGES.iter().map(|l| Refinement::Language((*l).to_owned())).collect());
    }
    axes
}

/// One code-search query: target × fork family × range of sizes, narrowed further where a single size overflows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Id of the target.
    pub target: String,
    /// Which of the two disjoint families of repositories.
    pub fork: ForkFamily,
    /// Smallest size in bytes.
    pub lo: u64,
    /// Largest size in bytes, inclusive; nothing for no upper end.
    pub hi: Option<u64>,
    /// Further qualifiers, outermost axis first.
    #[serde(default)]
    pub refine: Vec<Refinement>,
}

impl Window {
    /// The query text for the target's search `expression`. It has at most one size term, because two together are
    /// refused; none when every size is asked for. `fork:false` is refused too, so the plain family has no fork term.
    pub fn query(&self, expression: &str) -> String {
        let mut query = expression.to_owned();
        let size = match (self.lo, self.hi) {
            (0, None) => None,
            (lo, None) => Some(format!("size:>={lo}")),
            (lo, Some(hi)) if lo == hi => Some(format!("size:{lo}")),
            (lo, Some(hi)) => Some(format!("size:{lo}..{hi}")),
        };
        let refinements = self.refine.iter().map(Refinement::to_string);
        let fork = (self.fork == ForkFamily::Only).then(|| "fork:only".to_owned());
        for term in size.into_iter().chain(refinements).chain(fork) {
            query.push(' ');
            query.push_str(&term);
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(lo: u64, hi: Option<u64>) -> Window {
        Window { target: "claude/context".into(), fork: ForkFamily::Plain, lo, hi, refine: Vec::new() }
    }

    #[test]
    fn queries_hold_one_size_term_and_never_fork_false() {
        let expression = "filename:CLAUDE.md";
        assert_eq!(window(0, None).query(expression), "filename:CLAUDE.md");
        assert_eq!(window(11, Some(11)).query(expression), "filename:CLAUDE.md size:11");
        assert_eq!(window(0, Some(8)).query(expression), "filename:CLAUDE.md size:0..8");
        let narrow = Window {
            fork: ForkFamily::Only,
            refine: vec![Refinement::Root, Refinement::Extension("md".into())],
            ..window(4_096, None)
        };
        assert_eq!(narrow.query(expression), "filename:CLAUDE.md size:>=4096 path:/ extension:md fork:only");
    }

    #[test]
    fn refinements_read_back() {
        for text in ["path:/", "path:.claude/rules", "extension:md", "language:markdown", "path:\"my docs\""] {
            assert_eq!(text.parse::<Refinement>().unwrap().to_string(), text);
        }
        for bad in ["path:", "size:3", "md", "path:a\"b"] {
            assert!(bad.parse::<Refinement>().is_err(), "{bad}");
        }
    }

    #[test]
    fn refinements_are_met_by_paths() {
        let met = |text: &str, path: &str| text.parse::<Refinement>().unwrap().is_met_by(path);
        assert_eq!((met("path:/", "CLAUDE.md"), met("path:/", "docs/CLAUDE.md")), (Some(true), Some(false)));
        assert_eq!((met("path:docs", "docs/a/b.md"), met("path:docs", "docs2/b.md")), (Some(true), Some(false)));
        assert_eq!((met("path:docs", "a/docs/b.md"), met("path:docs", "docs")), (Some(false), Some(false)));
        assert_eq!((met("extension:md", "a/b.md"), met("extension:md", "a/bmd")), (Some(true), Some(false)));
        assert_eq!(met("language:markdown", "a.md"), None);
    }

    #[test]
    fn an_expression_fixes_its_own_axes() {
        assert_eq!(axes_for("filename:CLAUDE.md").len(), 1);
        assert_eq!(axes_for("filename:settings.json path:.claude"), Vec::<Axis>::new());
        assert_eq!(axes_for("path:.claude/hooks").len(), 2);
        assert_eq!(axes_for("agent instructions").len(), 3);
        assert_eq!(axes_for("language:markdown agent").len(), 1);
    }
}
