//! Whom the texts are from: a table of repository, licence, address and commit of every source, to be kept with any copy.

use crate::parquet::ArtifactRecord;

const HEAD: &str = "repository,license,url,commit\n";

/// The table in the making. Rows of one repository must follow each other.
#[derive(Debug, Clone, Default)]
pub(super) struct Attribution {
    /// Address that pages begin with.
    web: String,
    lines: String,
    repo: String,
    /// Commits named of the repository at hand.
    commits: Vec<String>,
}

impl Attribution {
    /// An empty table; pages of repositories begin with `web`.
    pub(super) fn new(web: Option<&str>) -> Self {
        Self { web: web.unwrap_or_default().to_owned(), ..Self::default() }
    }

    /// One line a repository and commit.
    pub(super) fn add(&mut self, artifact: &ArtifactRecord) {
        let commit = artifact.commit.as_deref().unwrap_or_default();
        if self.repo != artifact.repo {
            self.repo.clone_from(&artifact.repo);
            self.commits.clear();
        }
        if self.commits.iter().any(|known| known == commit) {
            return;
        }
        let url = match artifact.url {
            Some(_) if commit.is_empty() => format!("{}/{}", self.web, self.repo),
            Some(_) => format!("{}/{}/tree/{commit}", self.web, self.repo),
            None => String::new(),
        };
        let fields = [self.repo.as_str(), artifact.license.as_deref().unwrap_or(""), &url, commit];
        let line: Vec<String> = fields.iter().map(|field| csv(field)).collect();
        self.lines.push_str(&line.join(","));
        self.lines.push('\n');
        self.commits.push(commit.to_owned());
    }

    /// The file's text.
    pub(super) fn render(&self) -> String {
        HEAD.to_owned() + &self.lines
    }
}

fn csv(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
