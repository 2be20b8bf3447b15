//! Repositories, contents, blobs, trees and commits over REST.

use super::clock::iso;
use super::reply::{Reply, base64};
use super::request::{Ask, decode, escape};
use super::tree::{Found, Tree, TreeEntry, split};
use super::view::{Object, Place};
use super::world::{CommitFacts, Mode, Person, RepoFacts, WorldError};
use crate::corpus::GitOid;
use serde_json::{Value, json};

/// Contents up to this size come in base64.
const BASE64_MOST: usize = 1_000_000;
/// Contents above this size do not come at all.
const CONTENT_MOST: usize = 100_000_000;
/// Most entries of a listed folder.
const LISTED: usize = 1_000;
/// Most entries of a recursive tree.
const TREE_MOST: usize = 100_000;
/// How many links a path may lead over.
const LINKS: usize = 8;

/// A path for a URL.
pub(crate) fn encode(path: &str) -> String {
    escape(path, true)
}

/// Answer `/repos/{owner}/{name}/…` or `/repositories/{id}/…`; `rest` is what follows.
pub(crate) fn serve(ask: &Ask<'_>, place: Place, rest: &[&str]) -> Result<Reply, WorldError> {
    match place {
        Place::At(at) => Repository { ask, at, facts: ask.view.facts(ask.faults, at) }.serve(rest),
        Place::Moved(at) => {
            let id = ask.view.world.facts(at).id;
            let tail: String = rest.iter().map(|part| format!("/{part}")).collect();
            let url = format!("{}/repositories/{id}{tail}", ask.base);
            let body = json!({
                "message": "Moved Permanently",
                "url": url,
                "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
            });
            Ok(Reply::plain(301, body).with("location", url))
        }
        Place::Missing => Ok(Reply::not_found()),
        Place::Blocked => Ok(Reply::blocked(451, "dmca")),
        Place::BlockedTos => Ok(Reply::blocked(403, "tos")),
    }
}

struct Repository<'a> {
    ask: &'a Ask<'a>,
    at: u32,
    facts: RepoFacts,
}

impl Repository<'_> {
    fn serve(&self, rest: &[&str]) -> Result<Reply, WorldError> {
        match rest {
            [] => Ok(Reply::ok(repository_json(self.ask.base, &self.facts, true))),
            ["contents", path @ ..] => self.contents(&decode(&path.join("/"))),
            ["git", "blobs", sha] => self.git_blob(sha),
            ["git", "trees", revision @ ..] => self.git_tree(&decode(&revision.join("/"))),
            ["commits"] => self.commits(),
            ["commits", sha] => self.one_commit(sha),
            ["branches", branch] => self.branch(&decode(branch)),
            _ => Ok(Reply::not_found()),
        }
    }

    fn url(&self) -> String {
        format!("{}/repos/{}", self.ask.base, self.facts.full_name())
    }

    /// Whether `ref` (when given) names a commit whose files are served: the tip.
    fn known_revision(&self, revision: Option<&str>) -> bool {
        let Some(head) = self.facts.head else { return false };
        revision.is_none_or(|r| self.ask.view.is_branch(&self.facts, r) || r.parse::<GitOid>() == Ok(head))
    }

    fn contents(&self, path: &str) -> Result<Reply, WorldError> {
        let path = path.trim_matches('/');
        if self.facts.head.is_none() {
            return Ok(Reply::error(404, "This repository is empty."));
        }
        if let Some(revision) = self.ask.param("ref")
            && !self.known_revision(Some(revision))
        {
            return Ok(Reply::error(404, &format!("No commit found for the ref {revision}")));
        }
        let tree = self.ask.view.tree(self.at)?;
        match tree.at(path) {
            None => Ok(Reply::not_found()),
            Some(Found::Folder(folder)) => {
                let entries = tree.entries(&folder).iter().take(LISTED);
                Ok(Reply::ok(entries.map(|entry| self.listed(entry)).collect()))
            }
            Some(Found::File(_)) => self.content(&tree, path),
        }
    }

    /// What stands in every answer about a path.
    fn content_facts(&self, path: &str, oid: GitOid, size: usize, kind: &str) -> Value {
        let (url, encoded) = (self.url(), encode(path));
        let object = if kind == "dir" { "trees" } else { "blobs" };
        let self_url = format!("{url}/contents/{encoded}?ref={}", self.facts.default_branch);
        let git_url = format!("{url}/git/{object}/{oid}");
        let place = if kind == "dir" { "tree" } else { "blob" };
        let html =
            format!("https://github.com/{}/{place}/{}/{encoded}", self.facts.full_name(), self.facts.default_branch);
        let download = (kind == "file").then(|| {
            let (full, branch) = (self.facts.full_name(), &self.facts.default_branch);
            format!("https://raw.githubusercontent.com/{full}/{branch}/{encoded}")
        });
        json!({
            "name": split(path).1,
            "path": path,
            "sha": oid.to_string(),
            "size": size,
            "type": kind,
            "url": self_url,
            "git_url": git_url,
            "html_url": html,
            "download_url": download,
            "_links": {"self": self_url, "git": git_url, "html": html},
        })
    }

    fn listed(&self, entry: &TreeEntry) -> Value {
        let kind = match entry.mode {
            Mode::Folder => "dir",
            Mode::Symlink => "symlink",
            // A list shows a submodule as a file, for the sake of old clients.
            Mode::File | Mode::Executable | Mode::Submodule => "file",
        };
        self.content_facts(&entry.path, entry.oid, entry.size as usize, kind)
    }

    fn content(&self, tree: &Tree, path: &str) -> Result<Reply, WorldError> {
        let mut at = path.to_owned();
        let mut link_target = None;
        for _ in 0..LINKS {
            let Some((file, oid, mode)) = tree.file(&at) else { break };
            if mode == Mode::Submodule {
                let mut body = self.content_facts(path, oid, 0, "submodule");
                body["submodule_git_url"] = Value::Null;
                return Ok(Reply::ok(body));
            }
            let bytes = self.ask.view.world.bytes(self.at, file)?;
            if mode != Mode::Symlink {
                return Ok(self.file(path, oid, bytes));
            }
            // A link to a file of the repository is answered with that file's bytes.
            let target = String::from_utf8_lossy(&bytes).into_owned();
            at = follow(split(&at).0, &target);
            link_target = Some((oid, bytes.len(), target));
        }
        let Some((_, size, target)) = link_target else { return Ok(Reply::not_found()) };
        let oid = tree.file(path).map_or(GitOid([0; 20]), |(_, oid, _)| oid);
        let mut body = self.content_facts(path, oid, size, "symlink");
        body["target"] = json!(target);
        Ok(Reply::ok(body))
    }

    fn file(&self, path: &str, oid: GitOid, bytes: Vec<u8>) -> Reply {
        if bytes.len() > CONTENT_MOST {
            return too_large();
        }
        if self.ask.wants_raw() {
            return Reply::raw(bytes);
        }
        let mut body = self.content_facts(path, oid, bytes.len(), "file");
        let small = bytes.len() <= BASE64_MOST;
        body["encoding"] = json!(if small { "base64" } else { "none" });
        body["content"] = json!(if small { base64(&bytes) } else { String::new() });
        Reply::ok(body)
    }

    fn git_blob(&self, sha: &str) -> Result<Reply, WorldError> {
        let Ok(oid) = sha.parse::<GitOid>() else {
            return Ok(Reply::error(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f]."));
        };
        if self.facts.head.is_none() {
            return Ok(Reply::error(409, "Git Repository is empty."));
        }
        let bytes = match self.ask.view.by_oid(self.at, oid)? {
            Some(Object::Blob(file)) => self.ask.view.world.bytes(self.at, file)?,
            Some(Object::OlderBlob(bytes)) => bytes,
            _ => return Ok(Reply::not_found()),
        };
        if bytes.len() > CONTENT_MOST {
            return Ok(too_large());
        }
        if self.ask.wants_raw() {
            return Ok(Reply::raw(bytes));
        }
        Ok(Reply::ok(json!({
            "sha": sha,
            "node_id": format!("B_{}_{sha}", self.facts.node_id()),
            "size": bytes.len(),
            "url": format!("{}/git/blobs/{sha}", self.url()),
            "content": base64(&bytes),
            "encoding": "base64",
        })))
    }

    fn git_tree(&self, revision: &str) -> Result<Reply, WorldError> {
        if self.facts.head.is_none() {
            return Ok(Reply::error(409, "Git Repository is empty."));
        }
        let folder = match self.ask.view.resolve(&self.facts, self.at, revision)? {
            Some(Object::Tree(folder)) => folder,
            Some(Object::Commit(commit)) if commit.as_ref().is_none_or(|c| Some(c.oid) == self.facts.head) => {
                String::new()
            }
            _ => return Ok(Reply::not_found()),
        };
        let tree = self.ask.view.tree(self.at)?;
        let recursive = self.ask.param("recursive").is_some();
        let mut entries = Vec::new();
        if recursive {
            tree.walk(&folder, &mut entries);
        } else {
            entries.extend(tree.entries(&folder));
        }
        let truncated = recursive && entries.len() > TREE_MOST;
        entries.truncate(TREE_MOST);
        let below = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let list: Vec<Value> = entries.iter().map(|entry| self.tree_entry(entry, below)).collect();
        let sha = tree.folder_oid(&folder).map(|oid| oid.to_string()).unwrap_or_default();
        let url = format!("{}/git/trees/{sha}", self.url());
        Ok(Reply::ok(json!({"sha": sha, "url": url, "tree": list, "truncated": truncated})))
    }

    fn tree_entry(&self, entry: &TreeEntry, below: usize) -> Value {
        let kind = entry.mode.kind();
        let mut value = json!({
            "path": entry.path.get(below..).unwrap_or_default(),
            "mode": format!("{:06o}", entry.mode.bits()),
            "type": kind,
            "sha": entry.oid.to_string(),
        });
        if kind != "commit" {
            value["url"] = json!(format!("{}/git/{kind}s/{}", self.url(), entry.oid));
        }
        if kind == "blob" {
            value["size"] = json!(entry.size);
        }
        value
    }

    fn commits(&self) -> Result<Reply, WorldError> {
        if self.facts.head.is_none() {
            return Ok(Reply::error(409, "Git Repository is empty."));
        }
        if !self.known_revision(self.ask.param("sha")) {
            return Ok(Reply::not_found());
        }
        let path = self.ask.param("path").map(|path| path.trim_matches('/'));
        let commits = self.ask.view.world.history(self.at, path)?;
        let (page, per_page) = self.ask.paging();
        let shown = commits.iter().skip((page - 1).saturating_mul(per_page)).take(per_page);
        let reply = Reply::ok(shown.map(|commit| self.commit_json(commit)).collect());
        Ok(match self.ask.links(page, commits.len().div_ceil(per_page)) {
            Some(link) => reply.with("link", link),
            None => reply,
        })
    }

    fn one_commit(&self, revision: &str) -> Result<Reply, WorldError> {
        if self.facts.head.is_none() {
            return Ok(Reply::error(409, "Git Repository is empty."));
        }
        let commit = match self.ask.view.resolve(&self.facts, self.at, revision)? {
            Some(Object::Commit(Some(commit))) => Some(commit),
            Some(Object::Commit(None)) => self.ask.view.tip(self.at)?,
            _ => None,
        };
        Ok(commit.map_or_else(
            || Reply::error(422, &format!("No commit found for SHA: {revision}")),
            |commit| Reply::ok(self.commit_json(&commit)),
        ))
    }

    fn commit_json(&self, commit: &CommitFacts) -> Value {
        let person = |p: &Person| json!({"name": p.name, "email": p.email, "date": iso(commit.committed_at)});
        let account = |p: &Person| p.login.as_deref().map(|login| owner_json(self.ask.base, login));
        let url = format!("{}/commits/{}", self.url(), commit.oid);
        json!({
            "sha": commit.oid.to_string(),
            "node_id": format!("C_{}_{}", self.facts.node_id(), commit.oid),
            "url": url,
            "html_url": format!("https://github.com/{}/commit/{}", self.facts.full_name(), commit.oid),
            "commit": {
                "message": commit.message,
                "author": person(&commit.author),
                "committer": person(&commit.author),
                "url": format!("{}/git/commits/{}", self.url(), commit.oid),
                "comment_count": 0,
            },
            "author": account(&commit.author),
            "committer": account(&commit.author),
        })
    }

    fn branch(&self, name: &str) -> Result<Reply, WorldError> {
        let Some(head) = self.facts.head.filter(|_| name == self.facts.default_branch) else {
            return Ok(Reply::error(404, "Branch not found"));
        };
        let commit = self.ask.view.tip(self.at)?.map(|commit| self.commit_json(&commit));
        let commit = commit.unwrap_or_else(|| json!({"sha": head.to_string()}));
        Ok(Reply::ok(json!({"name": name, "commit": commit, "protected": false})))
    }
}

fn too_large() -> Reply {
    Reply::plain(
        403,
        json!({
            "message": "This API returns blobs up to 100 MB in size. The requested blob is too large to fetch via the API.",
            "errors": [{"resource": "Blob", "field": "data", "code": "too_large"}],
            "status": "403",
        }),
    )
}

/// The path that a link in `folder` leads to; a path outside the repository leads nowhere.
fn follow(folder: &str, target: &str) -> String {
    if target.starts_with('/') {
        return target.to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return "..".to_owned();
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The account that owns a repository, with everything that typed clients insist on.
pub(crate) fn owner_json(base: &str, login: &str) -> Value {
    let url = format!("{base}/users/{login}");
    json!({
        "login": login,
        "id": super::dice::hash_text(0, &login.to_lowercase()) % 100_000_000,
        "node_id": format!("U_{login}"),
        "avatar_url": format!("https://avatars.githubusercontent.com/{login}"),
        "gravatar_id": "",
        "url": url,
        "html_url": format!("https://github.com/{login}"),
        "followers_url": format!("{url}/followers"),
        "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"),
        "organizations_url": format!("{url}/orgs"),
        "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"),
        "type": "User",
        "user_view_type": "public",
        "site_admin": false,
    })
}

/// A repository; search shows it without the facts that `whole` adds.
pub(crate) fn repository_json(base: &str, facts: &RepoFacts, whole: bool) -> Value {
    let full = facts.full_name();
    let url = format!("{base}/repos/{full}");
    let mut body = json!({
        "id": facts.id,
        "node_id": facts.node_id(),
        "name": facts.name,
        "full_name": full,
        "private": false,
        "owner": owner_json(base, &facts.owner),
        "html_url": format!("https://github.com/{full}"),
        "description": facts.description,
        "fork": facts.fork,
        "url": url,
        "contents_url": format!("{url}/contents/{{+path}}"),
        "commits_url": format!("{url}/commits{{/sha}}"),
        "git_commits_url": format!("{url}/git/commits{{/sha}}"),
        "trees_url": format!("{url}/git/trees{{/sha}}"),
        "blobs_url": format!("{url}/git/blobs{{/sha}}"),
        "branches_url": format!("{url}/branches{{/branch}}"),
        "languages_url": format!("{url}/languages"),
    });
    if whole {
        let license = facts.license.as_deref().map(|spdx| {
            json!({"key": spdx.to_lowercase(), "name": spdx, "spdx_id": spdx, "url": null, "node_id": format!("L_{spdx}")})
        });
        let more = json!({
            "archived": facts.archived,
            "disabled": false,
            "visibility": "public",
            "default_branch": facts.default_branch,
            "stargazers_count": facts.stars,
            "watchers_count": facts.stars,
            "forks_count": facts.stars / 9,
            "open_issues_count": 0,
            "size": 0,
            "language": facts.language,
            "license": license,
            "topics": [],
            "created_at": iso(facts.created_at),
            "updated_at": iso(facts.pushed_at),
            "pushed_at": iso(facts.pushed_at),
            "clone_url": format!("https://github.com/{full}.git"),
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_a_file_system_leads() {
        assert_eq!(follow("", "AGENTS.md"), "AGENTS.md");
        assert_eq!(follow("a/b", "../c.md"), "a/c.md");
        assert_eq!(follow("a", "./x//y"), "a/x/y");
        assert_eq!(follow("", "../out"), "..");
        assert_eq!(follow("a", "/etc/passwd"), "/etc/passwd");
    }
}
