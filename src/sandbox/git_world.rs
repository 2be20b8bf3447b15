//! Real git repositories as a world.

use super::SandboxError;
use super::dice::hash_text;
use super::tree::Tree;
use super::world::{CommitFacts, FileEntry, Mode, Person, RepoFacts, World, WorldError};
use crate::corpus::GitOid;
use crate::repos::{self, Reader, Repository, SourceKind};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Repository numbers lie below this.
const NUMBERS: u64 = 1_000_000_000;

/// The repositories of a folder, each at the tip of its default branch.
pub(crate) struct GitWorld {
    repos: Vec<Served>,
    by_slug: HashMap<String, u32>,
    by_id: BTreeMap<u64, u32>,
    skipped: Vec<String>,
}

/// A repository that is served. Files are read when the sandbox starts, bytes and commits when they are asked for.
struct Served {
    repository: Repository,
    facts: RepoFacts,
    files: Vec<FileEntry>,
    oids: Vec<GitOid>,
    tree: Arc<Tree>,
    commits: OnceLock<Result<Arc<Commits>, WorldError>>,
}

/// The commits that touched the files there are, newest first, with positions in the file list.
struct Commits(Vec<(CommitFacts, Vec<u32>)>);

impl GitWorld {
    /// Open every git repository that `path` names, as `aac ingest` finds them.
    pub(crate) fn open(path: &Path) -> Result<Self, SandboxError> {
        let discovery = repos::discover(&[PathBuf::from(path)]);
        let mut skipped: Vec<String> =
            discovery.skipped.iter().map(|skip| format!("{}: {}", skip.path, skip.why)).collect();
        let mut world =
            Self { repos: Vec::new(), by_slug: HashMap::new(), by_id: BTreeMap::new(), skipped: Vec::new() };
        for found in discovery.found.into_iter().filter(|found| found.kind == SourceKind::Git) {
            let mut id = 1 + hash_text(0, &found.slug.key()) % NUMBERS;
            while world.by_id.contains_key(&id) {
                id += 1;
            }
            match Served::open(&found, id) {
                Ok(served) => {
                    let position = world.repos.len() as u32;
                    world.by_slug.insert(found.slug.key(), position);
                    world.by_id.insert(id, position);
                    world.repos.push(served);
                }
                Err(error) => skipped.push(format!("{}: {error}", found.path.display())),
            }
        }
        if world.repos.is_empty() {
            let why = match skipped.first() {
                Some(first) => format!("none can be served; first: {first}"),
                None => "no git repository in it; name a folder of repositories called OWNER+NAME.git".to_owned(),
            };
            return Err(SandboxError::Repositories { path: path.display().to_string(), why });
        }
        world.skipped = skipped;
        Ok(world)
    }

    fn error(&self, repo: u32, what: String, error: &repos::Error) -> WorldError {
        WorldError { repository: self.repos[repo as usize].facts.full_name(), what, why: error.to_string() }
    }
}

impl Served {
    fn open(found: &repos::Found, id: u64) -> Result<Self, repos::Error> {
        let repository = Repository::open(&found.path)?;
        let reader = repository.reader();
        let told = found.facts.as_ref();
        let head = reader.head(None, told.and_then(|facts| facts.default_branch.as_deref()))?;
        let (mut files, mut oids, mut pushed_at) = (Vec::new(), Vec::new(), 0);
        if let Some(commit) = head.commit {
            pushed_at = reader.commit(commit)?.committer.seconds;
            for entry in reader.walk(commit, &|_, mode| mode != repos::Mode::Tree)?.entries {
                let size = if entry.mode.is_blob() { reader.header(entry.oid)?.1 } else { 0 };
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                files.push(FileEntry { path: entry.display_path().into_owned(), mode: mode(entry.mode), size });
                oids.push(entry.oid);
            }
        }
        let facts = RepoFacts {
            id,
            owner: found.slug.owner().to_owned(),
            name: found.slug.name().to_owned(),
            description: String::new(),
            fork: false,
            archived: false,
            stars: told.and_then(|facts| facts.stars).map_or(0, |stars| u32::try_from(stars).unwrap_or(u32::MAX)),
            language: told.and_then(|facts| facts.language.clone()),
            license: told.and_then(|facts| facts.license.clone()),
            // Git does not know when a repository was put on a server; the tip is the only time at hand.
            created_at: pushed_at,
            pushed_at,
            default_branch: head.branch.unwrap_or_else(|| "main".to_owned()),
            head: head.commit,
        };
        let tree = Arc::new(Tree::new(&files, &oids));
        Ok(Self { repository, facts, files, oids, tree, commits: OnceLock::new() })
    }

    /// One walk over the history answers for every path.
    fn commits(&self) -> Result<Arc<Commits>, WorldError> {
        let load = || {
            let Some(head) = self.facts.head else { return Ok(Arc::new(Commits(Vec::new()))) };
            self.load_commits(&self.repository.reader(), head).map(|list| Arc::new(Commits(list))).map_err(|error| {
                WorldError { repository: self.facts.full_name(), what: "history".into(), why: error.to_string() }
            })
        };
        self.commits.get_or_init(load).clone()
    }

    fn load_commits(&self, reader: &Reader, head: GitOid) -> Result<Vec<(CommitFacts, Vec<u32>)>, repos::Error> {
        let paths: Vec<&[u8]> = self.files.iter().map(|file| file.path.as_bytes()).collect();
        let history = reader.history(head, &paths)?;
        let mut list: Vec<(CommitFacts, Vec<u32>)> =
            history.commits.iter().map(|commit| (facts(commit), Vec::new())).collect();
        for (file, path) in history.paths.iter().enumerate() {
            for touch in &path.touches {
                list[touch.commit].1.push(file as u32);
            }
        }
        if list.first().is_none_or(|(commit, _)| commit.oid != head) {
            list.retain(|(commit, _)| commit.oid != head);
            list.insert(0, (facts(&reader.commit(head)?), Vec::new()));
        }
        Ok(list)
    }
}

fn mode(mode: repos::Mode) -> Mode {
    match mode {
        repos::Mode::File => Mode::File,
        repos::Mode::Executable => Mode::Executable,
        repos::Mode::Symlink => Mode::Symlink,
        repos::Mode::Submodule => Mode::Submodule,
        repos::Mode::Tree => Mode::Folder,
    }
}

fn facts(commit: &repos::Commit) -> CommitFacts {
    let author = &commit.author;
    CommitFacts {
        oid: commit.oid,
        message: commit.message.clone(),
        author: Person {
            name: author.name.clone(),
            email: author.email.clone(),
            login: author.login().map(str::to_owned),
        },
        authored_at: author.seconds,
        committed_at: commit.committer.seconds,
        parents: commit.parents.len() as u32,
    }
}

impl World for GitWorld {
    fn len(&self) -> u32 {
        self.repos.len() as u32
    }

    fn facts(&self, repo: u32) -> RepoFacts {
        self.repos[repo as usize].facts.clone()
    }

    fn find(&self, owner: &str, name: &str) -> Option<u32> {
        self.by_slug.get(&format!("{owner}/{name}").to_ascii_lowercase()).copied()
    }

    fn find_id(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    fn files(&self, repo: u32) -> Vec<FileEntry> {
        self.repos[repo as usize].files.clone()
    }

    fn blob_id(&self, repo: u32, file: u32) -> Result<GitOid, WorldError> {
        Ok(self.repos[repo as usize].oids[file as usize])
    }

    fn bytes(&self, repo: u32, file: u32) -> Result<Vec<u8>, WorldError> {
        let served = &self.repos[repo as usize];
        let oid = served.oids[file as usize];
        let what = || format!("{} ({oid})", served.files[file as usize].path);
        served.repository.reader().read(oid, u64::MAX).map_err(|error| self.error(repo, what(), &error))
    }

    fn older_blob(&self, repo: u32, oid: GitOid) -> Result<Option<Vec<u8>>, WorldError> {
        let reader = self.repos[repo as usize].repository.reader();
        let failed = |error: repos::Error| self.error(repo, oid.to_string(), &error);
        match reader.header(oid) {
            Ok((repos::Kind::Blob, _)) => reader.read(oid, u64::MAX).map(Some).map_err(failed),
            Ok(_) | Err(repos::Error::Missing { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn tree(&self, repo: u32) -> Result<Arc<Tree>, WorldError> {
        Ok(Arc::clone(&self.repos[repo as usize].tree))
    }

    fn history(&self, repo: u32, path: Option<&str>) -> Result<Vec<CommitFacts>, WorldError> {
        let served = &self.repos[repo as usize];
        let commits = served.commits()?;
        let within = |file: u32| {
            let below = path.and_then(|path| served.files[file as usize].path.strip_prefix(path));
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let all = path.is_none_or(str::is_empty);
        let touching = commits.0.iter().filter(|(_, files)| all || files.iter().any(|file| within(*file)));
        Ok(touching.map(|(commit, _)| commit.clone()).collect())
    }

    fn skipped(&self) -> Vec<String> {
        self.skipped.clone()
    }

    fn later(&self, _epochs: u32) -> Option<Arc<dyn World>> {
        None
    }
}
