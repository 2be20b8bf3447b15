//! Shapes of answers as they come over the wire. Only what is used is read, so that a server that leaves out or adds
//! a field is understood all the same.

use serde::Deserialize;
use serde_json::Value;

/// A page of `GET /search/code`.
#[derive(Debug, Deserialize)]
pub(super) struct SearchAnswer {
    pub(super) total_count: u64,
    #[serde(default)]
    pub(super) incomplete_results: Option<bool>,
    pub(super) items: Vec<Value>,
}

/// An item of it.
#[derive(Debug, Deserialize)]
pub(super) struct SearchItem {
    pub(super) path: String,
    pub(super) sha: String,
    #[serde(default)]
    pub(super) url: Option<String>,
    pub(super) repository: SearchRepository,
}

/// The repository of an item.
#[derive(Debug, Deserialize)]
pub(super) struct SearchRepository {
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) node_id: Option<String>,
    #[serde(default)]
    pub(super) fork: Option<bool>,
}

/// `GET /repos/{owner}/{repo}/git/blobs/{file_sha}`.
#[derive(Debug, Deserialize)]
pub(super) struct BlobAnswer {
    pub(super) content: String,
    pub(super) encoding: String,
}

/// A `Repository` of `RepositoryFacts`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RepositoryNode {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) name_with_owner: Option<String>,
    #[serde(default)]
    pub(super) license_info: Option<License>,
    #[serde(default)]
    pub(super) primary_language: Option<Named>,
    #[serde(default)]
    pub(super) stargazer_count: Option<u64>,
    #[serde(default)]
    pub(super) is_fork: Option<bool>,
    #[serde(default)]
    pub(super) is_archived: Option<bool>,
    #[serde(default)]
    pub(super) is_disabled: Option<bool>,
    #[serde(default)]
    pub(super) is_private: Option<bool>,
    #[serde(default)]
    pub(super) pushed_at: Option<String>,
    #[serde(default)]
    pub(super) default_branch_ref: Option<Branch>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct License {
    #[serde(default)]
    pub(super) spdx_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) target: Option<Target>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Target {
    #[serde(default)]
    pub(super) oid: Option<String>,
}

/// A `Blob` of `BlobContent`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobNode {
    #[serde(default)]
    pub(super) oid: Option<String>,
    #[serde(default)]
    pub(super) byte_size: Option<u64>,
    #[serde(default)]
    pub(super) is_binary: Option<bool>,
    #[serde(default)]
    pub(super) is_truncated: Option<bool>,
    #[serde(default)]
    pub(super) text: Option<String>,
}

/// A `Tree` of `TreeListing`.
#[derive(Debug, Deserialize)]
pub(super) struct TreeNode {
    #[serde(default)]
    pub(super) entries: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EntryNode {
    pub(super) name: String,
    pub(super) mode: u32,
    pub(super) oid: String,
    #[serde(default)]
    pub(super) size: Option<u64>,
}

/// A `CommitHistoryConnection` of `PathHistory`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryNode {
    #[serde(default)]
    pub(super) total_count: Option<u64>,
    #[serde(default)]
    pub(super) nodes: Option<Vec<Option<CommitNode>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitNode {
    pub(super) oid: String,
    #[serde(default)]
    pub(super) authored_date: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) authors: Option<Authors>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Authors {
    #[serde(default)]
    pub(super) nodes: Option<Vec<Option<ActorNode>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ActorNode {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) email: Option<String>,
    #[serde(default)]
    pub(super) user: Option<Login>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Login {
    pub(super) login: String,
}
