//! One git repository: resolve a commit, walk its tree, read its objects.

use super::Error;
use super::entry::{Entry, Mode, Skipped, Walk};
use crate::corpus::GitOid;
use gix::objs::{CommitRefIter, Find as _, TreeRefIter};
use gix::{ObjectId, oid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest path that a walk yields. Longer ones exist only in crafted trees; no checkout could hold them.
const MAX_PATH: usize = 4096;

/// Links followed before a chain counts as a loop, as in Linux's path resolution.
const MAX_LINKS: u32 = 40;

/// Decoded trees kept per reader: enough that the parent's trees are at hand when its own turn comes.
const TREE_CACHE_BYTES: usize = 16 << 20;

/// A git repository, bare or with a work tree, that threads share. Cheap to clone.
#[derive(Clone)]
pub struct Repository {
    inner: Arc<gix::ThreadSafeRepository>,
    path: PathBuf,
}

/// A thread's own access to a [`Repository`], with its caches.
pub struct Reader {
    pub(super) inner: gix::Repository,
    path: PathBuf,
}

/// What a revision resolved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The commit; nothing when the repository has none yet.
    pub commit: Option<GitOid>,
    /// The branch it was taken from; nothing for a detached head or an arbitrary revision.
    pub branch: Option<String>,
}

/// The four kinds of git object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of a file or the target of a link.
    Blob,
    /// A directory.
    Tree,
    /// A commit.
    Commit,
    /// An annotated tag.
    Tag,
}

/// Who did something and when. Held while evidence is drawn from it; never stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Person {
    /// Name as in the commit, lossy UTF-8.
    pub name: String,
    /// E-mail as in the commit, lossy UTF-8.
    pub email: String,
    /// Seconds since 1970 UTC; 0 when the commit's date cannot be read.
    pub seconds: i64,
    /// Offset of the local time from UTC in seconds.
    pub offset: i32,
}

impl Person {
    /// The GitHub login that a `…@users.noreply.github.com` address carries (`ID+LOGIN@` or `LOGIN@`).
    pub fn login(&self) -> Option<&str> {
        let (local, domain) = self.email.rsplit_once('@')?;
        if !domain.eq_ignore_ascii_case("users.noreply.github.com") {
            return None;
        }
        let login = match local.split_once('+') {
            Some((id, login)) if id.bytes().all(|b| b.is_ascii_digit()) => login,
            _ => local,
        };
        (!login.is_empty()).then_some(login)
    }
}

/// A commit's facts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Its id.
    pub oid: GitOid,
    /// Its root tree.
    pub tree: GitOid,
    /// Ids of its parents as recorded, even where a shallow clone lacks them.
    pub parents: Vec<GitOid>,
    /// Who wrote the change.
    pub author: Person,
    /// Who recorded it.
    pub committer: Person,
    /// The whole message, lossy UTF-8.
    pub message: String,
    /// Trailers in order (`Co-authored-by`, value), as git's last-paragraph rule finds them.
    pub trailers: Vec<(String, String)>,
}

/// Where a path leads once every link on the way is followed inside the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file, directory or submodule, at its own path.
    Entry(Entry),
    /// A link leaves the tree: an absolute target, or `..` above the root.
    Outside,
    /// Nothing is there.
    Dangling,
    /// Links lead in a circle, or through more than forty of them.
    Loop,
}

impl Repository {
    /// Open the repository at `path`: a bare one, a work tree with `.git`, or a `.git` directory. Only the
    /// repository's own configuration is read: neither the user's nor the environment changes the answer.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let options = gix::open::Options::isolated().with(gix::sec::Trust::Full).strict_config(false);
        match options.open(path) {
            Ok(inner) => Ok(Self { inner: Arc::new(inner), path: path.to_owned() }),
            Err(error) => Err(match other_object_format(path) {
                Some(format) => Error::ObjectFormat { path: path.to_owned(), format },
                None => Error::Open { path: path.to_owned(), why: format!("{error:#}") },
            }),
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Access for one thread. Cheap, but made once per thread and kept: its caches make the next read fast.
    pub fn reader(&self) -> Reader {
        let mut inner = self.inner.to_thread_local();
        inner.object_cache_size(TREE_CACHE_BYTES);
        Reader { inner, path: self.path.clone() }
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Repository").field(&self.path).finish()
    }
}

impl Reader {
    /// The path the repository was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// URL of the remote `origin`, from the repository's own configuration.
    pub fn origin(&self) -> Option<String> {
        self.inner.config_snapshot().string("remote.origin.url").map(|url| url.to_string())
    }

    /// Every local branch with its commit, in name order; branches that lead to no commit are left out.
    pub fn branches(&self) -> Result<Vec<(String, GitOid)>, Error> {
        let wrong = |error: gix::Error| Error::Open { path: self.path.clone(), why: format!("{error:#}") };
        let platform = self.inner.references().map_err(wrong)?;
        let mut branches = Vec::new();
        for reference in platform.local_branches().map_err(wrong)?.flatten() {
            let name = reference.name().shorten().to_string();
            if let Some(commit) = self.branch_commit(&format!("refs/heads/{name}"))? {
                branches.push((name, commit));
            }
        }
        branches.sort();
        Ok(branches)
    }

    /// The commit to read, by the first of these that exists:
    ///
    /// 1. `rev`, anything `git rev-parse` takes (an error when it names no commit);
    /// 2. the branch `default`, as the facts beside the repository name it: local, else of `origin`;
    /// 3. with a work tree, the default branch of `origin`, so that a checked-out feature branch changes nothing;
    /// 4. `HEAD`, which may be detached.
    ///
    /// A repository without commits gives no commit and the branch that `HEAD` would create.
    pub fn head(&self, rev: Option<&str>, default: Option<&str>) -> Result<Head, Error> {
        if let Some(rev) = rev {
            let commit = self.commit_of_revision(rev)?;
            let branch = self.branch_commit(&format!("refs/heads/{rev}"))?.map(|_| rev.to_owned());
            return Ok(Head { commit: Some(commit), branch });
        }
        let of_origin = if self.inner.workdir().is_some() { self.default_of_origin() } else { None };
        for branch in [default.map(str::to_owned), of_origin].into_iter().flatten() {
            for full in [format!("refs/heads/{branch}"), format!("refs/remotes/origin/{branch}")] {
                if let Some(commit) = self.branch_commit(&full)? {
                    return Ok(Head { commit: Some(commit), branch: Some(branch) });
                }
            }
        }
        let head = self.inner.head().map_err(|error| self.no_commit("HEAD", &error))?;
        let branch = head.referent_name().map(|name| name.shorten().to_string());
        if head.is_unborn() {
            return Ok(Head { commit: None, branch });
        }
        Ok(Head { commit: Some(self.commit_of_revision("HEAD")?), branch })
    }

    fn default_of_origin(&self) -> Option<String> {
        let reference = self.inner.try_find_reference("refs/remotes/origin/HEAD").ok()??;
        let name = reference.target().try_name()?.as_bstr().to_string();
        name.strip_prefix("refs/remotes/origin/").map(str::to_owned)
    }

    fn branch_commit(&self, full: &str) -> Result<Option<GitOid>, Error> {
        // A name that is no valid reference (`main~2`) is simply not a branch.
        let Ok(Some(mut reference)) = self.inner.try_find_reference(full) else { return Ok(None) };
        let Ok(id) = reference.peel_to_id() else { return Ok(None) };
        Ok(Some(own(&id)))
    }

    fn commit_of_revision(&self, rev: &str) -> Result<GitOid, Error> {
        let id = self
            .inner
            .rev_parse_single(format!("{rev}^{{commit}}").as_str())
            .map_err(|error| self.no_commit(rev, &error))?;
        Ok(own(&id))
    }

    fn no_commit(&self, rev: &str, error: &gix::Error) -> Error {
        Error::Revision { path: self.path.clone(), rev: rev.to_owned(), why: format!("{error:#}") }
    }

    /// Kind and size in bytes of an object, from its header: the object is not inflated.
    pub fn header(&self, oid: GitOid) -> Result<(Kind, u64), Error> {
        match self.inner.try_find_header(ObjectId::from(oid.0)) {
            Ok(Some(header)) => Ok((kind(header.kind()), header.size())),
            Ok(None) => Err(Error::Missing { path: self.path.clone(), oid }),
            Err(error) => Err(self.broken(oid, format!("{error:#}"))),
        }
    }

    /// The bytes of a blob of at most `limit` bytes; a larger one is refused without being inflated.
    pub fn read(&self, oid: GitOid, limit: u64) -> Result<Vec<u8>, Error> {
        let (kind, size) = self.header(oid)?;
        if kind != Kind::Blob {
            return Err(self.broken(oid, format!("expected a blob, found a {kind:?}").to_lowercase()));
        }
        if size > limit {
            return Err(Error::TooLarge { what: format!("blob {oid}"), size, limit });
        }
        let mut bytes = Vec::new();
        self.load(&ObjectId::from(oid.0), &mut bytes)?;
        Ok(bytes)
    }

    /// The facts of a commit.
    pub fn commit(&self, oid: GitOid) -> Result<Commit, Error> {
        let mut buffer = Vec::new();
        let id = ObjectId::from(oid.0);
        self.expect(&id, gix::objs::Kind::Commit, &mut buffer)?;
        let broken = |error: gix::Error| self.broken(oid, format!("{error:#}"));
        let commit = gix::objs::CommitRef::from_bytes(&buffer, id.kind()).map_err(broken)?;
        Ok(Commit {
            oid,
            tree: own(&commit.tree()),
            parents: commit.parents().map(|parent| own(&parent)).collect(),
            author: person(commit.author().map_err(broken)?),
            committer: person(commit.committer().map_err(broken)?),
            message: String::from_utf8_lossy(commit.message).into_owned(),
            trailers: commit
                .message()
                .body()
                .map(|body| body.trailers().map(|t| (t.token.to_string(), t.value.to_string())).collect())
                .unwrap_or_default(),
        })
    }

    /// The entries of one directory, in git's order. `oid` is a tree or a commit.
    pub fn tree(&self, oid: GitOid) -> Result<Vec<Entry>, Error> {
        let mut buffer = Vec::new();
        let tree = self.root(oid)?;
        self.expect(&tree, gix::objs::Kind::Tree, &mut buffer)?;
        let mut entries = Vec::new();
        for entry in TreeRefIter::from_bytes(&buffer, tree.kind()) {
            let entry = entry.map_err(|error| self.broken(own(&tree), format!("{error:#}")))?;
            entries.push(Entry { path: entry.filename.to_vec(), mode: mode(entry.mode), oid: own(entry.oid) });
        }
        Ok(entries)
    }

    /// Every entry below `oid` (a commit or a tree) for which `keep(path, mode)` holds. Directories are always
    /// descended into and are themselves entries only when kept. No blob is touched. A directory that cannot be read
    /// is listed in [`Walk::skipped`] and the walk goes on; only an unreadable root is an error.
    pub fn walk(&self, oid: GitOid, keep: &dyn Fn(&str, Mode) -> bool) -> Result<Walk, Error> {
        let mut walk = Walk::default();
        let mut buffer = Vec::new();
        // Depth first with a stack of our own: a crafted tree must not exhaust the thread's.
        let mut open = vec![(self.root(oid)?, Vec::new())];
        let root = open[0].0;
        while let Some((tree, prefix)) = open.pop() {
            if let Err(error) = self.expect(&tree, gix::objs::Kind::Tree, &mut buffer) {
                if prefix.is_empty() && tree == root {
                    return Err(error);
                }
                walk.skipped.push(Skipped::because(lossy(&prefix), &error));
                continue;
            }
            for entry in TreeRefIter::from_bytes(&buffer, tree.kind()) {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let broken = self.broken(own(&tree), format!("{error:#}"));
                        walk.skipped.push(Skipped::because(lossy(&prefix), &broken));
                        break;
                    }
                };
                let mode = mode(entry.mode);
                let mut path = Vec::with_capacity(prefix.len() + 1 + entry.filename.len());
                if !prefix.is_empty() {
                    path.extend_from_slice(&prefix);
                    path.push(b'/');
                }
                path.extend_from_slice(entry.filename);
                if path.len() > MAX_PATH {
                    let why = format!("The path is longer than {MAX_PATH} bytes");
                    walk.skipped.push(Skipped::by_rule(lossy(&path[..256]), why));
                    continue;
                }
                if mode == Mode::Tree {
                    open.push((entry.oid.to_owned(), path.clone()));
                }
                if keep(&String::from_utf8_lossy(&path), mode) {
                    walk.entries.push(Entry { path, mode, oid: own(entry.oid) });
                }
            }
        }
        walk.entries.sort_unstable();
        Ok(walk)
    }

    /// The entry at `path` below `oid` (a commit or a tree), itself: a link is not followed.
    pub fn find(&self, oid: GitOid, path: &[u8]) -> Result<Option<Entry>, Error> {
        let mut tree = self.root(oid)?;
        let mut buffer = Vec::new();
        let mut parts = path.split(|&byte| byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let Some((mode, oid)) = self.look_up(&tree, part, &mut buffer)? else { return Ok(None) };
            if parts.peek().is_none() {
                return Ok(Some(Entry { path: path.to_vec(), mode, oid: own(&oid) }));
            }
            if mode != Mode::Tree {
                return Ok(None);
            }
            tree = oid;
        }
        Ok(None)
    }

    /// Follow every link on the way to `path` below `oid`, inside the tree only.
    pub fn resolve(&self, oid: GitOid, path: &[u8]) -> Result<Target, Error> {
        let mut buffer = Vec::new();
        let root = self.root(oid)?;
        // Directories from the root to where we stand, and the parts still to go, next one last.
        let mut at: Vec<(ObjectId, Vec<u8>)> = Vec::new();
        let mut todo: Vec<Vec<u8>> = reversed_parts(path);
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    if at.pop().is_none() {
                        return Ok(Target::Outside);
                    }
                    continue;
                }
                _ => {}
            }
            let here = at.last().map_or(root, |(tree, _)| *tree);
            let Some((mode, oid)) = self.look_up(&here, &part, &mut buffer)? else { return Ok(Target::Dangling) };
            match mode {
                Mode::Tree => at.push((oid, part)),
                Mode::Symlink => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Ok(Target::Loop);
                    }
                    let target = self.read(own(&oid), MAX_PATH as u64)?;
                    if target.starts_with(b"/") {
                        return Ok(Target::Outside);
                    }
                    todo.extend(reversed_parts(&target));
                }
                Mode::File | Mode::Executable | Mode::Submodule => {
                    if todo.iter().any(|part| !part.is_empty()) {
                        // What lies inside a submodule is another repository's; what lies inside a file is nowhere.
                        return Ok(if mode == Mode::Submodule { Target::Outside } else { Target::Dangling });
                    }
                    return Ok(Target::Entry(Entry { path: join(&at, &part), mode, oid: own(&oid) }));
                }
            }
        }
        Ok(match at.pop() {
            Some((tree, name)) => Target::Entry(Entry { path: join(&at, &name), mode: Mode::Tree, oid: own(&tree) }),
            None => Target::Entry(Entry { path: Vec::new(), mode: Mode::Tree, oid: own(&root) }),
        })
    }

    /// Files at the root of `oid` (a commit or a tree) whose name says that they hold a licence: `LICENSE*`,
    /// `LICENCE*`, `COPYING*`, `UNLICENSE*`, in any case.
    pub fn licenses(&self, oid: GitOid) -> Result<Vec<Entry>, Error> {
        let mut entries = self.tree(oid)?;
        entries.retain(|entry| entry.mode.is_blob() && names_license(&entry.path));
        Ok(entries)
    }

    fn look_up(&self, tree: &oid, name: &[u8], buffer: &mut Vec<u8>) -> Result<Option<(Mode, ObjectId)>, Error> {
        self.expect(tree, gix::objs::Kind::Tree, buffer)?;
        for entry in TreeRefIter::from_bytes(buffer, tree.kind()) {
            let entry = entry.map_err(|error| self.broken(own(tree), format!("{error:#}")))?;
            if *entry.filename == *name {
                return Ok(Some((mode(entry.mode), entry.oid.to_owned())));
            }
        }
        Ok(None)
    }

    /// The tree that `oid` is or, for a commit, has.
    pub(super) fn root(&self, oid: GitOid) -> Result<ObjectId, Error> {
        let id = ObjectId::from(oid.0);
        let mut buffer = Vec::new();
        match self.load(&id, &mut buffer)? {
            gix::objs::Kind::Commit => CommitRefIter::from_bytes(&buffer, id.kind())
                .tree_id()
                .map_err(|error| self.broken(oid, format!("{error:#}"))),
            _ => Ok(id),
        }
    }

    /// Fill `buffer` with the object and say what it is.
    pub(super) fn load(&self, id: &oid, buffer: &mut Vec<u8>) -> Result<gix::objs::Kind, Error> {
        // The empty tree is known to git without being stored.
        if id.is_empty_tree() {
            buffer.clear();
            return Ok(gix::objs::Kind::Tree);
        }
        match self.inner.objects.try_find(id, buffer) {
            Ok(Some(data)) => {
                let (kind, length) = (data.kind, data.data.len());
                buffer.truncate(length);
                Ok(kind)
            }
            Ok(None) => Err(Error::Missing { path: self.path.clone(), oid: own(id) }),
            Err(error) => Err(self.broken(own(id), format!("{error:#}"))),
        }
    }

    pub(super) fn expect(&self, id: &oid, wanted: gix::objs::Kind, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let found = self.load(id, buffer)?;
        if found == wanted {
            Ok(())
        } else {
            Err(self.broken(own(id), format!("expected a {wanted}, found a {found}")))
        }
    }

    pub(super) fn broken(&self, oid: GitOid, why: String) -> Error {
        Error::Object { path: self.path.clone(), oid, why }
    }
}

/// True when a file of this name at the root of a repository holds its licence.
pub(super) fn names_license(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    [&b"license"[..], b"licence", b"copying", b"unlicense"].iter().any(|stem| name.starts_with(stem))
}

pub(super) fn own(id: &oid) -> GitOid {
    let mut bytes = [0; 20];
    // Repositories of another hash are refused when opened, so the lengths agree.
    bytes.copy_from_slice(&id.as_bytes()[..20]);
    GitOid(bytes)
}

pub(super) fn mode(mode: gix::objs::tree::EntryMode) -> Mode {
    use gix::objs::tree::EntryKind;
    match mode.kind() {
        EntryKind::Blob => Mode::File,
        EntryKind::BlobExecutable => Mode::Executable,
        EntryKind::Link => Mode::Symlink,
        EntryKind::Commit => Mode::Submodule,
        EntryKind::Tree => Mode::Tree,
    }
}

fn kind(kind: gix::objs::Kind) -> Kind {
    match kind {
        gix::objs::Kind::Blob => Kind::Blob,
        gix::objs::Kind::Tree => Kind::Tree,
        gix::objs::Kind::Commit => Kind::Commit,
        gix::objs::Kind::Tag => Kind::Tag,
    }
}

fn person(signature: gix::actor::SignatureRef<'_>) -> Person {
    let signature = signature.trim();
    let time = signature.time().unwrap_or_default();
    Person {
        name: String::from_utf8_lossy(signature.name).into_owned(),
        email: String::from_utf8_lossy(signature.email).into_owned(),
        seconds: time.seconds,
        offset: time.offset,
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn reversed_parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec).collect()
}

fn join(at: &[(ObjectId, Vec<u8>)], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::new();
    for (_, part) in at {
        path.extend_from_slice(part);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The object format that the repository's configuration names, when it is not SHA-1.
fn other_object_format(path: &Path) -> Option<String> {
    let config = [path.join(".git/config"), path.join("config")].into_iter().find(|file| file.is_file())?;
    let text = std::fs::read_to_string(config).ok()?;
    let format = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("objectformat").then(|| value.trim().to_ascii_lowercase())
    })?;
    (format != "sha1").then_some(format)
}
