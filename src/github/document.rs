//! Puts GraphQL documents together from the fragments under `queries/graphql/`.

use std::fmt::Write as _;

/// A fragment, and the fragments it does not need are left out of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment {
    RepositoryFacts,
    BlobContent,
    TreeListing,
    PathHistory,
}

impl Fragment {
    const fn text(self) -> &'static str {
        match self {
            Self::RepositoryFacts => include_str!("../../queries/graphql/repository_facts.graphql"),
            Self::BlobContent => include_str!("../../queries/graphql/blob_content.graphql"),
            Self::TreeListing => include_str!("../../queries/graphql/tree_listing.graphql"),
            Self::PathHistory => include_str!("../../queries/graphql/path_history.graphql"),
        }
    }
}

/// A query over several repositories, each under the alias `r` + its place.
#[derive(Debug, Default)]
pub(super) struct Document {
    fields: String,
    fragments: Vec<Fragment>,
    repositories: usize,
}

impl Document {
    /// Add a repository with the selections in `inner`.
    pub(super) fn repository(&mut self, slug: &crate::corpus::Slug, inner: &str) {
        let _ = writeln!(
            self.fields,
            "  r{}: repository(owner: {}, name: {}, followRenames: true) {{\n{inner}  }}",
            self.repositories,
            quoted(slug.owner()),
            quoted(slug.name()),
        );
        self.repositories += 1;
    }

    /// Add the repository with this node id, with the selections in `inner`.
    pub(super) fn node(&mut self, node: &str, inner: &str) {
        let _ = writeln!(
            self.fields,
            "  r{}: node(id: {}) {{\n    ... on Repository {{\n{inner}    }}\n  }}",
            self.repositories,
            quoted(node),
        );
        self.repositories += 1;
    }

    /// Add a field at the root that is no single repository.
    pub(super) fn field(&mut self, field: &str) {
        let _ = writeln!(self.fields, "  {field}");
    }

    /// Say that `fragment` is used.
    pub(super) fn uses(&mut self, fragment: Fragment) {
        if !self.fragments.contains(&fragment) {
            self.fragments.push(fragment);
        }
    }

    /// The whole document.
    pub(super) fn finish(self, name: &str) -> String {
        let mut text = format!("query {name} {{\n{}}}\n", self.fields);
        for fragment in self.fragments {
            let lines = fragment.text().lines().filter(|line| !line.trim_start().starts_with('#'));
            lines.for_each(|line| {
                text.push_str(line);
                text.push('\n');
            });
        }
        text
    }
}

/// A GraphQL string. Its escapes are those of JSON, so any path is carried over exactly.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
