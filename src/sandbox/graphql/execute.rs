//! Answers a priced query from a view of the world.

use super::parse::{Field, Selection};
use super::{FRAGMENTS, Prepared, Price, fields};
use crate::corpus::GitOid;
use crate::sandbox::clock::iso;
use crate::sandbox::faults::Faults;
use crate::sandbox::limits::Standing;
use crate::sandbox::tree::TreeEntry;
use crate::sandbox::view::{Object, Place, View};
use crate::sandbox::world::{CommitFacts, Person, RepoFacts, WorldError, repo_of_node};
use serde_json::{Map, Value, json};

/// Where `Blob.text` is cut, in bytes.
const TEXT_CUT: usize = 512_000;
/// How much of a blob decides whether it is binary.
const BINARY_PROBE: usize = 8_000;

/// What `rateLimit` shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) standing: Standing,
    pub(crate) price: Price,
}

/// Run `prepared`. The answer has `data` and, where something failed, `errors`.
pub(crate) fn execute(prepared: &Prepared, view: &View, faults: &Faults, budget: Budget) -> Value {
    let mut run = Run { prepared, view, faults, budget, errors: Vec::new(), invalid: Vec::new(), path: Vec::new() };
    let data = run.object("Query", &prepared.operation().selections, |run, field| run.root(field));
    if !run.invalid.is_empty() {
        return json!({"errors": run.invalid});
    }
    let mut body = json!({"data": data});
    if !run.errors.is_empty() {
        body["errors"] = Value::Array(run.errors);
    }
    body
}

struct Run<'d> {
    prepared: &'d Prepared,
    view: &'d View,
    faults: &'d Faults,
    budget: Budget,
    /// Errors beside data.
    errors: Vec<Value>,
    /// Fields that the schema does not have: no data at all.
    invalid: Vec<Value>,
    path: Vec<Value>,
}

/// A repository with its position.
struct Repo {
    at: u32,
    facts: RepoFacts,
}

/// The value of a field, or nothing when the type has no such field.
type Resolved = Option<Value>;

impl<'d> Run<'d> {
    /// An object of type `ty` with the selected fields.
    fn object(
        &mut self,
        ty: &'static str,
        selections: &'d [Selection],
        mut resolve: impl FnMut(&mut Self, &'d Field) -> Resolved,
    ) -> Value {
        let mut list = Vec::new();
        fields(self.prepared, Some(ty), selections, FRAGMENTS, &mut list);
        let mut object = Map::with_capacity(list.len());
        for field in list {
            self.path.push(Value::String(field.alias.clone()));
            let value = match field.name.as_str() {
                "__typename" => Some(json!(ty)),
                _ => resolve(self, field),
            };
            match value {
                Some(value) => merge(object.entry(field.alias.clone()).or_insert(Value::Null), value),
                None => self.unknown(ty, field),
            }
            self.path.pop();
        }
        Value::Object(object)
    }

    fn unknown(&mut self, ty: &str, field: &Field) {
        let mut path = vec![json!(self.prepared.kind())];
        path.extend(self.path.iter().cloned());
        self.invalid.push(json!({
            "path": path,
            "extensions": {"code": "undefinedField", "typeName": ty, "fieldName": field.name},
            "locations": [{"line": field.line, "column": field.column}],
            "message": format!("Field '{}' doesn't exist on type '{ty}'", field.name),
        }));
    }

    /// Null, with an error that names the field.
    fn fail(&mut self, field: &Field, kind: &str, message: String) -> Value {
        self.errors.push(json!({
            "type": kind,
            "path": self.path,
            "locations": [{"line": field.line, "column": field.column}],
            "message": message,
        }));
        Value::Null
    }

    fn broken(&mut self, field: &Field, error: &WorldError) -> Value {
        self.fail(field, "INTERNAL", error.to_string())
    }

    fn argument(&self, field: &Field, name: &str) -> Option<Value> {
        let (_, value) = field.arguments.iter().find(|(given, _)| given == name)?;
        Some(value.resolve(&self.prepared.variables)).filter(|value| !value.is_null())
    }

    fn text(&self, field: &Field, name: &str) -> Option<String> {
        self.argument(field, name).and_then(|value| value.as_str().map(str::to_owned))
    }

    fn root(&mut self, field: &'d Field) -> Resolved {
        Some(match field.name.as_str() {
            "repository" => self.named_repository(field),
            "node" => {
                let id = self.text(field, "id").unwrap_or_default();
                self.node(field, &id)
            }
            "nodes" => {
                let ids = self.argument(field, "ids").and_then(|ids| ids.as_array().cloned()).unwrap_or_default();
                let list = ids.iter().enumerate().map(|(position, id)| {
                    self.path.push(json!(position));
                    let value = self.node(field, id.as_str().unwrap_or_default());
                    self.path.pop();
                    value
                });
                Value::Array(list.collect())
            }
            "rateLimit" => self.rate_limit(field),
            "viewer" => self.object("User", &field.selections, |_, f| match f.name.as_str() {
                "login" => Some(json!("sandbox")),
                _ => None,
            }),
            _ => return None,
        })
    }

    fn rate_limit(&mut self, field: &'d Field) -> Value {
        let Budget { standing, price } = self.budget;
        self.object("RateLimit", &field.selections, |_, f| {
            Some(match f.name.as_str() {
                "limit" => json!(standing.limit),
                "cost" => json!(price.points),
                "remaining" => json!(standing.remaining()),
                "used" => json!(standing.used),
                "nodeCount" => json!(price.nodes),
                "resetAt" => json!(iso(standing.reset.ceil() as i64)),
                _ => return None,
            })
        })
    }

    fn named_repository(&mut self, field: &'d Field) -> Value {
        let (Some(owner), Some(name)) = (self.text(field, "owner"), self.text(field, "name")) else {
            let message = "Field 'repository' is missing required arguments: owner, name".to_owned();
            return self.fail(field, "MISSING_ARGUMENTS", message);
        };
        let follow = self.argument(field, "followRenames").and_then(|v| v.as_bool()).unwrap_or(true);
        let place = match self.view.find(self.faults, &owner, &name) {
            Place::Moved(repo) if follow => Place::At(repo),
            Place::Moved(_) => Place::Missing,
            place => place,
        };
        match place {
            Place::At(repo) | Place::Moved(repo) => self.repository(repo, field),
            Place::Missing => {
                let message = format!("Could not resolve to a Repository with the name '{owner}/{name}'.");
                self.fail(field, "NOT_FOUND", message)
            }
            // What GitHub answers here is not documented; the REST body's words with a type of their own.
            Place::Blocked | Place::BlockedTos => self.fail(field, "FORBIDDEN", "Repository access blocked".into()),
        }
    }

    fn node(&mut self, field: &'d Field, id: &str) -> Value {
        let place = repo_of_node(id).map(|number| self.view.find_id(self.faults, number));
        match place {
            Some(Place::At(repo) | Place::Moved(repo)) => self.repository(repo, field),
            Some(Place::Blocked | Place::BlockedTos) => {
                self.fail(field, "FORBIDDEN", "Repository access blocked".into())
            }
            Some(Place::Missing) | None => {
                self.fail(field, "NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'."))
            }
        }
    }

    fn repository(&mut self, at: u32, field: &'d Field) -> Value {
        let repo = Repo { at, facts: self.view.facts(self.faults, at) };
        self.object("Repository", &field.selections, |run, f| run.repository_field(&repo, f))
    }

    fn repository_field(&mut self, repo: &Repo, field: &'d Field) -> Resolved {
        let facts = &repo.facts;
        Some(match field.name.as_str() {
            "id" => json!(facts.node_id()),
            "databaseId" => json!(facts.id),
            "name" => json!(facts.name),
            "nameWithOwner" => json!(facts.full_name()),
            "url" => json!(format!("https://github.com/{}", facts.full_name())),
            "description" => json!(facts.description),
            "isFork" => json!(facts.fork),
            "isArchived" => json!(facts.archived),
            "isDisabled" | "isPrivate" | "isTemplate" | "isMirror" | "isLocked" => json!(false),
            "isEmpty" => json!(facts.head.is_none()),
            "visibility" => json!("PUBLIC"),
            "stargazerCount" => json!(facts.stars),
            "pushedAt" | "updatedAt" => json!(iso(facts.pushed_at)),
            "createdAt" => json!(iso(facts.created_at)),
            "owner" => self.object("User", &field.selections, |_, f| match f.name.as_str() {
                "login" => Some(json!(facts.owner)),
                _ => None,
            }),
            "primaryLanguage" => match &facts.language {
                Some(language) => self.object("Language", &field.selections, |_, f| match f.name.as_str() {
                    "name" => Some(json!(language)),
                    _ => None,
                }),
                None => Value::Null,
            },
            "licenseInfo" => match &facts.license {
                Some(spdx) => self.object("License", &field.selections, |_, f| match f.name.as_str() {
                    "spdxId" | "name" => Some(json!(spdx)),
                    "key" => Some(json!(spdx.to_lowercase())),
                    _ => None,
                }),
                None => Value::Null,
            },
            "defaultBranchRef" => match facts.head {
                Some(head) => self.object("Ref", &field.selections, |run, f| match f.name.as_str() {
                    "name" => Some(json!(facts.default_branch)),
                    "prefix" => Some(json!("refs/heads/")),
                    "target" => Some(run.commit(repo, head, None, f)),
                    _ => None,
                }),
                None => Value::Null,
            },
            "object" => self.found(repo, field),
            _ => return None,
        })
    }

    fn found(&mut self, repo: &Repo, field: &'d Field) -> Value {
        let Some(expression) = self.text(field, "oid").or_else(|| self.text(field, "expression")) else {
            return Value::Null;
        };
        match self.view.resolve(&repo.facts, repo.at, &expression) {
            Ok(Some(object)) => self.git_object(repo, &object, field),
            Ok(None) => Value::Null,
            Err(error) => self.broken(field, &error),
        }
    }

    fn git_object(&mut self, repo: &Repo, object: &Object, field: &'d Field) -> Value {
        match object {
            Object::Blob(file) => self.file(repo, *file, field),
            Object::OlderBlob(bytes) => self.blob(bytes, field),
            Object::Tree(folder) => self.tree(repo, folder, field),
            Object::Commit(Some(commit)) => self.commit(repo, commit.oid, Some(commit), field),
            Object::Commit(None) => match repo.facts.head {
                Some(head) => self.commit(repo, head, None, field),
                None => Value::Null,
            },
        }
    }

    fn file(&mut self, repo: &Repo, file: u32, field: &'d Field) -> Value {
        match self.view.world.bytes(repo.at, file) {
            Ok(bytes) => self.blob(&bytes, field),
            Err(error) => self.broken(field, &error),
        }
    }

    fn blob(&mut self, bytes: &[u8], field: &'d Field) -> Value {
        let binary = bytes[..bytes.len().min(BINARY_PROBE)].contains(&0);
        let truncated = bytes.len() > TEXT_CUT;
        self.object("Blob", &field.selections, |_, f| {
            Some(match f.name.as_str() {
                "oid" | "id" => json!(GitOid::of_blob(bytes).to_string()),
                "abbreviatedOid" => json!(&GitOid::of_blob(bytes).to_string()[..7]),
                "byteSize" => json!(bytes.len()),
                "isBinary" if truncated => Value::Null,
                "isBinary" => json!(binary),
                "isTruncated" => json!(truncated),
                "text" if binary => Value::Null,
                "text" => json!(cut(&String::from_utf8_lossy(bytes), TEXT_CUT)),
                _ => return None,
            })
        })
    }

    fn tree(&mut self, repo: &Repo, folder: &str, field: &'d Field) -> Value {
        let tree = match self.view.tree(repo.at) {
            Ok(tree) => tree,
            Err(error) => return self.broken(field, &error),
        };
        let oid = tree.folder_oid(folder).map(|oid| oid.to_string());
        self.object("Tree", &field.selections, |run, f| {
            Some(match f.name.as_str() {
                "oid" | "id" => json!(oid),
                "entries" => {
                    let list = tree.entries(folder).iter().enumerate().map(|(position, entry)| {
                        run.path.push(json!(position));
                        let value = run.entry(repo, entry, f);
                        run.path.pop();
                        value
                    });
                    Value::Array(list.collect())
                }
                _ => return None,
            })
        })
    }

    fn entry(&mut self, repo: &Repo, entry: &TreeEntry, field: &'d Field) -> Value {
        self.object("TreeEntry", &field.selections, |run, f| {
            Some(match f.name.as_str() {
                "name" => json!(entry.name),
                "path" => json!(entry.path),
                "type" => json!(entry.mode.kind()),
                "mode" => json!(entry.mode.bits()),
                "oid" => json!(entry.oid.to_string()),
                "size" => json!(entry.size),
                "object" => match entry.file {
                    Some(file) if entry.mode.kind() == "blob" => run.file(repo, file, f),
                    // A submodule's commit is in another repository.
                    Some(_) => Value::Null,
                    None => run.tree(repo, &entry.path, f),
                },
                _ => return None,
            })
        })
    }

    fn commit(&mut self, repo: &Repo, oid: GitOid, known: Option<&CommitFacts>, field: &'d Field) -> Value {
        let mut loaded: Option<CommitFacts> = known.cloned();
        self.object("Commit", &field.selections, |run, f| {
            match f.name.as_str() {
                "oid" | "id" => return Some(json!(oid.to_string())),
                "abbreviatedOid" => return Some(json!(&oid.to_string()[..7])),
                "history" => return Some(run.history(repo, oid, f)),
                "tree" => return Some(run.tree(repo, "", f)),
                _ => {}
            }
            // Only the fields below need the commit itself, which costs a walk of the history.
            if loaded.is_none() {
                match run.view.tip(repo.at) {
                    Ok(tip) => loaded = tip,
                    Err(error) => return Some(run.broken(f, &error)),
                }
            }
            let Some(commit) = &loaded else { return Some(Value::Null) };
            run.commit_field(commit, f)
        })
    }

    fn commit_field(&mut self, commit: &CommitFacts, field: &'d Field) -> Resolved {
        Some(match field.name.as_str() {
            "message" => json!(commit.message),
            "messageHeadline" => json!(commit.message.lines().next().unwrap_or_default()),
            "messageBody" => json!(commit.message.split_once('\n').map_or("", |(_, body)| body.trim())),
            "authoredDate" => json!(iso(commit.authored_at)),
            "committedDate" => json!(iso(commit.committed_at)),
            "author" => self.person(&commit.author, commit.authored_at, field),
            "committer" => self.person(&commit.author, commit.committed_at, field),
            "parents" => self.object("CommitConnection", &field.selections, |_, f| match f.name.as_str() {
                "totalCount" => Some(json!(commit.parents)),
                _ => None,
            }),
            "authors" => {
                let people = commit.authors();
                let first = self.argument(field, "first").and_then(|n| n.as_u64()).unwrap_or(0) as usize;
                self.object("GitActorConnection", &field.selections, |run, f| {
                    Some(match f.name.as_str() {
                        "totalCount" => json!(people.len()),
                        "nodes" => {
                            let shown = people.iter().take(first);
                            Value::Array(shown.map(|p| run.person(p, commit.authored_at, f)).collect())
                        }
                        _ => return None,
                    })
                })
            }
            _ => return None,
        })
    }

    fn person(&mut self, person: &Person, date: i64, field: &'d Field) -> Value {
        self.object("GitActor", &field.selections, |run, f| {
            Some(match f.name.as_str() {
                "name" => json!(person.name),
                "email" => json!(person.email),
                "date" => json!(iso(date)),
                "user" => match &person.login {
                    Some(login) => run.object("User", &f.selections, |_, f| match f.name.as_str() {
                        "login" => Some(json!(login)),
                        _ => None,
                    }),
                    None => Value::Null,
                },
                _ => return None,
            })
        })
    }

    fn history(&mut self, repo: &Repo, from: GitOid, field: &'d Field) -> Value {
        let path = self.text(field, "path");
        let commits = match self.view.world.history(repo.at, path.as_deref().map(|p| p.trim_matches('/'))) {
            Ok(commits) => commits,
            Err(error) => return self.broken(field, &error),
        };
        let commits: Vec<CommitFacts> = if repo.facts.head == Some(from) {
            commits
        } else {
            commits.into_iter().skip_while(|c| c.oid != from).collect()
        };
        let first = self.argument(field, "first").and_then(|n| n.as_u64()).unwrap_or(0) as usize;
        // A cursor is the id that the walk began at and how many commits were given, as on GitHub.
        let start = match self.text(field, "after") {
            None => 0,
            Some(cursor) => match cursor.strip_prefix(&format!("{from} ")).and_then(|n| n.parse::<usize>().ok()) {
                Some(last) => last.saturating_add(1),
                None => {
                    let message = format!("`{cursor}` does not appear to be a valid cursor.");
                    return self.fail(field, "INVALID_CURSOR_ARGUMENTS", message);
                }
            },
        };
        let end = start.saturating_add(first).min(commits.len());
        let shown = commits.get(start..end).unwrap_or_default();
        let cursor = |position: usize| format!("{from} {position}");
        self.object("CommitHistoryConnection", &field.selections, |run, f| {
            Some(match f.name.as_str() {
                "totalCount" => json!(commits.len()),
                "nodes" => Value::Array(shown.iter().map(|c| run.commit(repo, c.oid, Some(c), f)).collect()),
                "edges" => {
                    let edges = shown.iter().enumerate().map(|(position, commit)| {
                        run.object("CommitEdge", &f.selections, |run, f| match f.name.as_str() {
                            "cursor" => Some(json!(cursor(start + position))),
                            "node" => Some(run.commit(repo, commit.oid, Some(commit), f)),
                            _ => None,
                        })
                    });
                    Value::Array(edges.collect())
                }
                "pageInfo" => run.object("PageInfo", &f.selections, |_, f| {
                    Some(match f.name.as_str() {
                        "hasNextPage" => json!(end < commits.len()),
                        "hasPreviousPage" => json!(start > 0),
                        "startCursor" => (!shown.is_empty()).then(|| cursor(start)).into(),
                        "endCursor" => (!shown.is_empty()).then(|| cursor(end - 1)).into(),
                        _ => return None,
                    })
                }),
                _ => return None,
            })
        })
    }
}

/// At most `most` bytes of `text`, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Put `new` over `old`, field by field, for a field that was selected twice.
fn merge(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                merge(old.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (old, new) in old.iter_mut().zip(new) {
                merge(old, new);
            }
        }
        (old, new) => *old = new,
    }
}
