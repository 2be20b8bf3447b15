//! `GET /repos/{owner}/{repo}`, asked conditionally: an answer that has not changed since costs no quota.

use super::client::GitHub;
use super::limit::Resource;
use super::{Error, blob};
use crate::corpus::Slug;
use serde::{Deserialize, Serialize};

/// What REST says of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestRepository {
    /// The id that survives renaming.
    pub node_id: Option<String>,
    /// The present name.
    pub full_name: String,
    /// The default branch.
    #[serde(default)]
    pub default_branch: Option<String>,
    /// Last push to any branch, as a date of RFC 3339.
    #[serde(default)]
    pub pushed_at: Option<String>,
}

impl RestRepository {
    /// The last push, Unix milliseconds.
    pub fn pushed_ms(&self) -> Option<i64> {
        self.pushed_at.as_deref()?.parse().ok().map(jiff::Timestamp::as_millisecond)
    }
}

/// An answer to a conditional request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conditional {
    /// Nothing has changed since the answer with the tag.
    Unchanged,
    /// What stands there now, with its tag.
    Now {
        /// The repository.
        repository: RestRepository,
        /// The tag to send the next time.
        etag: Option<String>,
    },
}

/// Ask for a repository by name, unless it is as it was at the answer that carried `etag`. Tags belong to the identity
/// that got them.
///
/// # Errors
/// See [`Error`]; [`Error::Absent`] tells a deleted or private repository (404), a takedown (451, 403) and one that this
/// identity may not read (403) apart.
pub async fn repository(github: &GitHub, slug: &Slug, etag: Option<&str>) -> Result<Conditional, Error> {
    let what = format!("the repository {slug}");
    let (value, etag) = match github.get_unless(Resource::Core, path(slug), etag, what.clone()).await? {
        Some(came) => came,
        None => return Ok(Conditional::Unchanged),
    };
    let repository = serde_json::from_value(value).map_err(|e| Error::Malformed { what, why: e.to_string() })?;
    Ok(Conditional::Now { repository, etag })
}

/// Path of the request, which is also the key of its tag.
pub(crate) fn path(slug: &Slug) -> String {
    format!("/repos/{}/{}", blob::segment(slug.owner()), blob::segment(slug.name()))
}
