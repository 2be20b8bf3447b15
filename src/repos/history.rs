//! Who created and who touched each path, in one walk over a repository's commits.
//!
//! The answer for a path is the set that `git log -- PATH` prints: at a merge that leaves the path as one parent has
//! it, only the first such parent is followed; a commit is named when the path differs from every parent. All wanted
//! paths are carried through the graph together, as one bit each, so every commit and every changed directory is read
//! once however many paths are asked for.

use super::Error;
use super::reader::{Commit, Reader, own};
use crate::corpus::GitOid;
use gix::ObjectId;
use gix::objs::tree::EntryRef;
use gix::objs::{CommitRefIter, TreeRefIter};
use std::collections::{BinaryHeap, HashMap, HashSet};

/// What a commit did to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// No parent has a file there.
    Added,
    /// Bytes or mode differ from every parent.
    Modified,
    /// The file is gone.
    Deleted,
}

/// One commit that changed a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Touch {
    /// Index into [`History::commits`].
    pub commit: usize,
    /// What it did.
    pub change: Change,
}

/// The commits of one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathHistory {
    /// Newest first; children always before their parents.
    pub touches: Vec<Touch>,
    /// False when the walk met the edge of a shallow clone or a missing object, so that older commits may exist and an
    /// [`Change::Added`] at that edge says nothing about the creator.
    pub complete: bool,
}

impl PathHistory {
    /// The commit that brought the path into being: an index into [`History::commits`]. The oldest that added it since
    /// it was last deleted; nothing when that is beyond the edge of what the repository holds.
    pub fn created(&self) -> Option<usize> {
        let first = self.touches.iter().position(|touch| touch.change == Change::Added)?;
        let deleted = self.touches[first..].iter().position(|touch| touch.change == Change::Deleted);
        let since = &self.touches[..deleted.map_or(self.touches.len(), |after| first + after)];
        let at = since.iter().rposition(|touch| touch.change == Change::Added)?;
        (self.complete || at + 1 < self.touches.len()).then(|| self.touches[at].commit)
    }
}

/// The history of a set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every commit that touched a wanted path, newest first.
    pub commits: Vec<Commit>,
    /// One for each path asked for, in the order asked.
    pub paths: Vec<PathHistory>,
}

impl Reader {
    /// The history of `paths` as seen from `commit`, without following renames. A path that never existed has no
    /// touches. Missing objects shorten the answer (see [`PathHistory::complete`]); only a missing `commit` is an error.
    pub fn history(&self, commit: GitOid, paths: &[&[u8]]) -> Result<History, Error> {
        let graph = Graph::load(self, commit)?;
        let wanted = Wanted::new(paths);
        let order = graph.order();
        let mut walk = Walker::new(self, &graph, paths.len());
        for &node in &order {
            walk.visit(node, &wanted);
        }
        walk.finish(&order)
    }
}

/// A set of paths, one bit each.
#[derive(Clone)]
struct Bits(Box<[u64]>);

impl Bits {
    fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)].into())
    }
    fn all(len: usize) -> Self {
        let mut bits = Self::none(len);
        (0..len).for_each(|index| bits.set(index));
        bits
    }
    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&*other.0).for_each(|(a, b)| *a |= b);
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| at * 64 + w.trailing_zeros() as usize)
        })
    }
}

struct Node {
    id: ObjectId,
    tree: ObjectId,
    seconds: i64,
    parents: Vec<u32>,
    /// Some parent is recorded but not there.
    cut: bool,
}

/// Every commit that can be reached, each read once.
struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    fn load(reader: &Reader, head: GitOid) -> Result<Self, Error> {
        let shallow = reader.inner.shallow_commits().ok().flatten();
        let mut buffer = Vec::new();
        let mut ids: HashMap<ObjectId, u32> = HashMap::new();
        let mut nodes = vec![read_node(reader, ObjectId::from(head.0), &mut buffer)?];
        ids.insert(nodes[0].0.id, 0);
        let mut at = 0;
        while at < nodes.len() {
            let parents = std::mem::take(&mut nodes[at].1);
            // Git treats the edge of a shallow clone as the first commit, whatever parents it records.
            if shallow.as_ref().is_some_and(|edge| edge.contains(&nodes[at].0.id)) {
                nodes[at].0.cut = true;
                at += 1;
                continue;
            }
            for parent in parents {
                let index = match ids.get(&parent) {
                    Some(&index) => index,
                    None => match read_node(reader, parent, &mut buffer) {
                        Ok(node) => {
                            let index = nodes.len() as u32;
                            ids.insert(parent, index);
                            nodes.push(node);
                            index
                        }
                        Err(_) => {
                            nodes[at].0.cut = true;
                            continue;
                        }
                    },
                };
                nodes[at].0.parents.push(index);
            }
            at += 1;
        }
        Ok(Self { nodes: nodes.into_iter().map(|(node, _)| node).collect() })
    }

    /// Children before parents; among those free to come next, the newest first.
    fn order(&self) -> Vec<usize> {
        let mut children = vec![0u32; self.nodes.len()];
        for node in &self.nodes {
            for &parent in &node.parents {
                children[parent as usize] += 1;
            }
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        // The head alone is free at first: everything else is somebody's parent.
        let mut free = BinaryHeap::from([(self.nodes[0].seconds, std::cmp::Reverse(0usize))]);
        while let Some((_, std::cmp::Reverse(index))) = free.pop() {
            order.push(index);
            for &parent in &self.nodes[index].parents {
                let parent = parent as usize;
                children[parent] -= 1;
                if children[parent] == 0 {
                    free.push((self.nodes[parent].seconds, std::cmp::Reverse(parent)));
                }
            }
        }
        order
    }
}

fn read_node(reader: &Reader, id: ObjectId, buffer: &mut Vec<u8>) -> Result<(Node, Vec<ObjectId>), Error> {
    reader.expect(&id, gix::objs::Kind::Commit, buffer)?;
    let broken = |error: gix::Error| reader.broken(own(&id), format!("{error:#}"));
    let tree = CommitRefIter::from_bytes(buffer, id.kind()).tree_id().map_err(broken)?;
    let parents = CommitRefIter::from_bytes(buffer, id.kind()).parent_ids().collect();
    let seconds = CommitRefIter::from_bytes(buffer, id.kind())
        .committer()
        .ok()
        .and_then(|committer| committer.time().ok())
        .map_or(0, |time| time.seconds);
    Ok((Node { id, tree, seconds, parents: Vec::new(), cut: false }, parents))
}

/// The wanted paths as a tree of names, so that only directories on the way to one are compared.
struct Wanted {
    nodes: Vec<Wish>,
}

#[derive(Default)]
struct Wish {
    children: HashMap<Vec<u8>, usize>,
    /// Indices of the paths that end here.
    ends: Vec<usize>,
}

impl Wanted {
    fn new(paths: &[&[u8]]) -> Self {
        let mut nodes = vec![Wish::default()];
        for (index, path) in paths.iter().enumerate() {
            let mut at = 0;
            for part in path.split(|&byte| byte == b'/') {
                at = match nodes[at].children.get(part) {
                    Some(&next) => next,
                    None => {
                        nodes.push(Wish::default());
                        let next = nodes.len() - 1;
                        nodes[at].children.insert(part.to_vec(), next);
                        next
                    }
                };
            }
            nodes[at].ends.push(index);
        }
        Self { nodes }
    }
}

/// How two trees differ at the wanted paths.
struct Difference {
    changed: Bits,
    /// Paths with a file in the newer tree.
    now: Bits,
    /// Paths with a file in the older tree.
    before: Bits,
}

struct Walker<'a> {
    reader: &'a Reader,
    graph: &'a Graph,
    width: usize,
    /// For each commit not yet visited, the paths whose walk leads there.
    interest: HashMap<usize, Bits>,
    touches: Vec<Vec<(usize, Change)>>,
    incomplete: Bits,
    /// Buffers of trees, reused from level to level.
    spare: Vec<Vec<u8>>,
}

impl<'a> Walker<'a> {
    fn new(reader: &'a Reader, graph: &'a Graph, width: usize) -> Self {
        Self {
            reader,
            graph,
            width,
            interest: HashMap::from([(0, Bits::all(width))]),
            touches: vec![Vec::new(); width],
            incomplete: Bits::none(width),
            spare: Vec::new(),
        }
    }

    fn visit(&mut self, index: usize, wanted: &Wanted) {
        let Some(mut open) = self.interest.remove(&index) else { return };
        if open.is_empty() {
            return;
        }
        let node = &self.graph.nodes[index];
        let mut now = Bits::none(self.width);
        let mut before = Bits::none(self.width);
        let edge = [None];
        let parents: Vec<Option<u32>> = node.parents.iter().copied().map(Some).collect();
        let parents = if parents.is_empty() { &edge[..] } else { &parents[..] };
        for &parent in parents {
            let older = parent.map(|parent| self.graph.nodes[parent as usize].tree);
            let difference = match self.difference(wanted, Some(node.tree), older) {
                Ok(difference) => difference,
                Err(_) => {
                    // Nobody can say what changed here: pass everything on, and say that something is missing.
                    self.incomplete.add(&open);
                    if let Some(parent) = parent {
                        self.interested(parent, &open);
                    }
                    return;
                }
            };
            now.add(&difference.now);
            before.add(&difference.before);
            let mut same = open.clone();
            same.0.iter_mut().zip(&difference.changed.0).for_each(|(bits, changed)| *bits &= !changed);
            open.0.iter_mut().zip(&difference.changed.0).for_each(|(bits, changed)| *bits &= changed);
            if let Some(parent) = parent {
                self.interested(parent, &same);
            }
            if open.is_empty() {
                break;
            }
        }
        for path in open.iter() {
            let change = match (before.has(path), now.has(path)) {
                (false, true) => Change::Added,
                (true, false) => Change::Deleted,
                _ => Change::Modified,
            };
            self.touches[path].push((index, change));
        }
        if node.cut {
            self.incomplete.add(&open);
        }
        for &parent in &node.parents {
            self.interested(parent, &open);
        }
    }

    fn interested(&mut self, parent: u32, paths: &Bits) {
        if !paths.is_empty() {
            self.interest.entry(parent as usize).or_insert_with(|| Bits::none(self.width)).add(paths);
        }
    }

    fn difference(
        &mut self,
        wanted: &Wanted,
        newer: Option<ObjectId>,
        older: Option<ObjectId>,
    ) -> Result<Difference, Error> {
        let mut difference =
            Difference { changed: Bits::none(self.width), now: Bits::none(self.width), before: Bits::none(self.width) };
        if newer != older {
            self.compare(wanted, 0, newer, older, &mut difference)?;
        }
        Ok(difference)
    }

    /// Compare two versions of one directory at the wanted names. Recursion is as deep as the longest wanted path.
    fn compare(
        &mut self,
        wanted: &Wanted,
        at: usize,
        newer: Option<ObjectId>,
        older: Option<ObjectId>,
        difference: &mut Difference,
    ) -> Result<(), Error> {
        let newer = self.tree(newer)?;
        let older = self.tree(older)?;
        let mut a = TreeRefIter::from_bytes(&newer, gix::hash::Kind::Sha1).map_while(Result::ok).peekable();
        let mut b = TreeRefIter::from_bytes(&older, gix::hash::Kind::Sha1).map_while(Result::ok).peekable();
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            let new = if order.is_le() { a.next() } else { None };
            let old = if order.is_ge() { b.next() } else { None };
            if new == old {
                continue;
            }
            let Some(name) = new.or(old).map(|entry| entry.filename) else { break };
            let Some(&wish) = wanted.nodes[at].children.get::<[u8]>(name) else { continue };
            for &path in &wanted.nodes[wish].ends {
                difference.changed.set(path);
                if is_file(new) {
                    difference.now.set(path);
                }
                if is_file(old) {
                    difference.before.set(path);
                }
            }
            let (new, old) = (directory(new), directory(old));
            if !wanted.nodes[wish].children.is_empty() && new != old {
                self.compare(wanted, wish, new, old, difference)?;
            }
        }
        self.spare.extend([newer, older]);
        Ok(())
    }

    fn tree(&mut self, id: Option<ObjectId>) -> Result<Vec<u8>, Error> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        if let Some(id) = id {
            self.reader.expect(&id, gix::objs::Kind::Tree, &mut buffer)?;
        }
        Ok(buffer)
    }

    fn finish(self, order: &[usize]) -> Result<History, Error> {
        let named: HashSet<usize> = self.touches.iter().flatten().map(|&(node, _)| node).collect();
        let mut place = HashMap::with_capacity(named.len());
        let mut commits = Vec::with_capacity(named.len());
        for node in order.iter().filter(|node| named.contains(node)) {
            place.insert(node, commits.len());
            commits.push(self.reader.commit(own(&self.graph.nodes[*node].id))?);
        }
        let paths = self
            .touches
            .iter()
            .enumerate()
            .map(|(path, touches)| PathHistory {
                touches: touches.iter().map(|&(node, change)| Touch { commit: place[&node], change }).collect(),
                complete: !self.incomplete.has(path),
            })
            .collect();
        Ok(History { commits, paths })
    }
}

fn is_file(entry: Option<EntryRef<'_>>) -> bool {
    entry.is_some_and(|entry| !entry.mode.is_tree())
}

fn directory(entry: Option<EntryRef<'_>>) -> Option<ObjectId> {
    entry.filter(|entry| entry.mode.is_tree()).map(|entry| entry.oid.to_owned())
}
