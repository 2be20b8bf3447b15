//! `GET /search/code`: one page of hits.

use super::client::GitHub;
use super::limit::Resource;
use super::{Error, wire};
use crate::corpus::{GitOid, Slug};

/// No query returns more hits than this, however many there are.
pub const SEARCH_CAP: u64 = 1000;

/// A hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// The repository, under the name it has in the index.
    pub repository: Slug,
    /// The repository's id, which survives renaming.
    pub node_id: Option<String>,
    /// Whether it is a fork, when the answer says so.
    pub fork: Option<bool>,
    /// Path in the repository, exactly as given.
    pub path: String,
    /// Id of the content that was indexed.
    pub blob: GitOid,
    /// The commit that was indexed.
    pub commit: Option<GitOid>,
}

/// A page of hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPage {
    /// How many hits there are in all, as GitHub estimates.
    pub total: u64,
    /// True when GitHub gave up before it had looked everywhere.
    pub incomplete: bool,
    /// The hits, in the order of the answer.
    pub files: Vec<FoundFile>,
    /// Hits that could not be read, and why.
    pub unreadable: Vec<String>,
}

/// Ask for page `page` (1-based, of 100) of `query`.
///
/// # Errors
/// See [`Error`]; a query that GitHub does not take is [`Error::Rejected`].
pub async fn search_code(github: &GitHub, query: &str, page: u32) -> Result<SearchPage, Error> {
    let path = search_path(query, page);
    let what = format!("page {page} of the search {query:?}");
    let value = github.get(Resource::CodeSearch, path, what.clone()).await?;
    read_page(what, value)
}

/// What an answer says. A hit that cannot be read is set aside; the others count.
pub(super) fn read_page(what: String, value: serde_json::Value) -> Result<SearchPage, Error> {
    let answer: wire::SearchAnswer =
        serde_json::from_value(value).map_err(|error| Error::Malformed { what, why: error.to_string() })?;
    let mut found = SearchPage {
        total: answer.total_count,
        incomplete: answer.incomplete_results.unwrap_or(false),
        files: Vec::with_capacity(answer.items.len()),
        unreadable: Vec::new(),
    };
    for item in answer.items {
        match serde_json::from_value::<wire::SearchItem>(item).map_err(|error| error.to_string()).and_then(read) {
            Ok(file) => found.files.push(file),
            Err(why) => found.unreadable.push(why),
        }
    }
    Ok(found)
}

/// Path and query of the request.
pub(super) fn search_path(query: &str, page: u32) -> String {
    let query: String = form_urlencoded(query);
    format!("/search/code?q={query}&per_page=100&page={page}")
}

/// Percent-encoded for a query string; white space becomes `%20`.
fn form_urlencoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len() + 16), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

fn read(item: wire::SearchItem) -> Result<FoundFile, String> {
    let repository: Slug = item.repository.full_name.parse().map_err(|error| format!("{error}"))?;
    if item.path.is_empty() {
        return Err(format!("a hit in {repository} has no path"));
    }
    let blob = item.sha.parse().map_err(|error| format!("{repository}/{}: {error}", item.path))?;
    let commit = item
        .url
        .as_deref()
        .and_then(|url| url.rsplit_once("ref="))
        .and_then(|(_, rest)| rest.split('&').next())
        .and_then(|commit| commit.parse().ok());
    Ok(FoundFile {
        repository,
        node_id: item.repository.node_id,
        fork: item.repository.fork,
        path: item.path,
        blob,
        commit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded_byte_by_byte() {
        assert_eq!(
            search_path("filename:CLAUDE.md size:9..11 \"é&\"", 2),
            "/search/code?q=filename%3ACLAUDE.md%20size%3A9..11%20%22%C3%A9%26%22&per_page=100&page=2"
        );
    }
}
