//! Inodes, names and what may be done to them: the inside of [`MemoryStorage`](super::MemoryStorage).
//!
//! Kept as a real file system keeps it: names refer to inodes, an inode lives as long as a name or an open file
//! refers to it. Every change of the disk passes `record`, so a journal misses none.

use super::super::content::Content;
use super::super::random::SplitMix64;
use super::super::recording::Effect;
use crate::storage::{FileKind, FileMetadata, ProcessIdentity};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The inode of `/`.
pub(in super::super) const ROOT_INODE: u64 = 1;
/// The device of every file here.
pub(super) const DEVICE: u64 = 7;
/// Symbolic links followed in one path, as on Linux.
const LINKS_FOLLOWED_MAX: u32 = 40;
/// Bytes of one name, as on Linux.
const NAME_BYTES_MAX: usize = 255;

const NANOSECONDS_PER_MILLISECOND: i128 = 1_000_000;

/// One inode.
#[derive(Clone, Debug)]
pub(in super::super) struct Node {
    pub(in super::super) body: Body,
    pub(in super::super) modified_ns: i128,
    pub(in super::super) changed_ns: i128,
}

/// What an inode holds.
#[derive(Clone, Debug)]
pub(in super::super) enum Body {
    File(Content),
    Directory(Names),
    Link(PathBuf),
    Special,
}

/// The names of a directory and their inodes.
pub(in super::super) type Names = BTreeMap<OsString, u64>;

/// All inodes of a disk by number; copied for each crash image, so the inodes are shared.
pub(in super::super) type Nodes = BTreeMap<u64, Arc<Node>>;

impl Body {
    pub(in super::super) fn kind(&self) -> FileKind {
        match self {
            Body::File(_) => FileKind::File,
            Body::Directory(_) => FileKind::Directory,
            Body::Link(_) => FileKind::Link,
            Body::Special => FileKind::Other,
        }
    }
}

/// A lock that is held.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) description: u64,
    pub(super) process: u32,
}

/// The whole simulated machine.
#[derive(Clone, Debug)]
pub(in super::super) struct State {
    pub(in super::super) nodes: Nodes,
    pub(in super::super) next_number: u64,
    /// Open files: description to inode.
    pub(super) open: BTreeMap<u64, u64>,
    /// Locks by inode.
    pub(super) locks: BTreeMap<u64, Lock>,
    pub(in super::super) clock_ms: i64,
    /// Added to each time, so that two changes never share one.
    pub(in super::super) tick_ns: i128,
    pub(super) random: SplitMix64,
    pub(in super::super) current_process: ProcessIdentity,
    pub(super) processes: BTreeMap<u32, ProcessIdentity>,
    pub(super) flock_is_ineffective: bool,
    pub(super) hides_locks: bool,
    pub(super) names_ignore_case: bool,
    pub(super) is_read_only: bool,
    pub(super) space_limit_bytes: Option<u64>,
    /// `None`: nothing is recorded.
    pub(in super::super) journal: Option<Vec<Effect>>,
    /// Bytes that reads of files have given, for tests that count passes.
    pub(super) bytes_read: u64,
    /// How many of the next file syncs fail as a dying disk makes them fail.
    pub(in super::super) failing_syncs: u32,
}

/// Where a path leads.
pub(super) struct Place {
    /// The directory of the last name.
    pub(super) directory: u64,
    /// The last name; empty for `/`.
    pub(super) name: OsString,
    /// What it refers to, if it exists.
    pub(super) inode: Option<u64>,
    /// The names from `/` to here, without links.
    trail: Vec<(OsString, u64)>,
}

impl Place {
    pub(super) fn existing(&self) -> io::Result<u64> {
        self.inode.ok_or_else(|| Errno::NOENT.into())
    }

    pub(super) fn path(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.trail.iter().map(|(name, _)| name));
        path
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let process = ProcessIdentity { id: 1000, began: "simulated:1".into(), program: "simulation".into() };
        let mut state = State {
            nodes: Nodes::new(),
            next_number: ROOT_INODE + 1,
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            clock_ms: 1_700_000_000_000,
            tick_ns: 0,
            random: SplitMix64::new(seed),
            processes: BTreeMap::from([(process.id, process.clone())]),
            current_process: process,
            flock_is_ineffective: false,
            hides_locks: false,
            names_ignore_case: false,
            is_read_only: false,
            space_limit_bytes: None,
            journal: None,
            bytes_read: 0,
            failing_syncs: 0,
        };
        state.insert(ROOT_INODE, Body::Directory(Names::new()));
        state
    }

    /// The machine after it was started again, its disk still to be put in: the clock goes on, no file is open, no
    /// lock held, and the running process, though it has the same number, began anew.
    pub(in super::super) fn after_restart(&self) -> Self {
        let mut process = self.current_process.clone();
        process.began.push_str("+restart");
        State {
            nodes: Nodes::new(),
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            processes: BTreeMap::from([(process.id, process.clone())]),
            current_process: process,
            random: self.random.clone(),
            is_read_only: false,
            space_limit_bytes: None,
            journal: None,
            failing_syncs: 0,
            ..*self
        }
    }

    /// The same machine with another disk.
    pub(in super::super) fn with_nodes(&self, nodes: Nodes) -> Self {
        State { nodes, ..self.clone() }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    pub(in super::super) fn record(&mut self, effect: Effect) {
        if let Some(journal) = &mut self.journal {
            journal.push(effect);
        }
    }

    fn insert(&mut self, inode: u64, body: Body) {
        let now = self.time_ns();
        self.nodes.insert(inode, Arc::new(Node { body, modified_ns: now, changed_ns: now }));
    }

    /// The time for a change: the clock's, and never the same twice.
    fn time_ns(&mut self) -> i128 {
        self.tick_ns += 1;
        self.last_change_ns()
    }

    pub(in super::super) fn last_change_ns(&self) -> i128 {
        i128::from(self.clock_ms) * NANOSECONDS_PER_MILLISECOND + self.tick_ns
    }

    pub(super) fn node(&self, inode: u64) -> io::Result<&Node> {
        self.nodes.get(&inode).map(|node| &**node).ok_or_else(|| Errno::STALE.into())
    }

    /// The inode for a change of its content, its times moved.
    fn changed(&mut self, inode: u64) -> io::Result<&mut Body> {
        let now = self.time_ns();
        let node = self.nodes.get_mut(&inode).ok_or(Errno::STALE)?;
        let node = Arc::make_mut(node);
        (node.modified_ns, node.changed_ns) = (now, now);
        Ok(&mut node.body)
    }

    pub(super) fn content(&self, inode: u64) -> io::Result<&Content> {
        match &self.node(inode)?.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(Errno::ISDIR.into()),
            Body::Link(_) | Body::Special => Err(Errno::INVAL.into()),
        }
    }

    fn changed_content(&mut self, inode: u64) -> io::Result<&mut Content> {
        match self.changed(inode)? {
            Body::File(content) => Ok(content),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn names(&self, directory: u64) -> io::Result<&Names> {
        match &self.node(directory)?.body {
            Body::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn changed_names(&mut self, directory: u64) -> io::Result<&mut Names> {
        match self.changed(directory)? {
            Body::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// The name as the directory spells it, and its inode.
    fn look_up(&self, directory: u64, name: &OsStr) -> io::Result<Option<(OsString, u64)>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let names = self.names(directory)?;
        if self.names_ignore_case {
            let folded = name.to_string_lossy().to_lowercase();
            let found = names.iter().find(|(other, _)| other.to_string_lossy().to_lowercase() == folded);
            return Ok(found.map(|(name, inode)| (name.clone(), *inode)));
        }
        Ok(names.get(name).map(|inode| (name.to_owned(), *inode)))
    }

    /// Walks a path. Links on the way are followed, the last name only with `follow`.
    pub(super) fn walk(&self, path: &Path, follow: bool) -> io::Result<Place> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
        }
        let reversed = |path: &Path| path.components().filter_map(part).rev().collect::<Vec<_>>();
        let mut ahead = reversed(path);
        let mut trail: Vec<(OsString, u64)> = Vec::new();
        let mut followed = 0;
        while let Some(next) = ahead.pop() {
            let directory = trail.last().map_or(ROOT_INODE, |(_, inode)| *inode);
            let name = match next {
                Part::Root => {
                    trail.clear();
                    continue;
                }
                Part::Parent => {
                    self.names(directory)?;
                    trail.pop();
                    continue;
                }
                Part::Name(name) => name,
            };
            let Some((name, inode)) = self.look_up(directory, &name)? else {
                if ahead.is_empty() {
                    return Ok(Place { directory, name, inode: None, trail });
                }
                return Err(Errno::NOENT.into());
            };
            match &self.node(inode)?.body {
                Body::Link(target) if follow || !ahead.is_empty() => {
                    followed += 1;
                    if followed > LINKS_FOLLOWED_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    ahead.extend(reversed(target));
                }
                _ => trail.push((name, inode)),
            }
        }
        let directory = trail.iter().rev().nth(1).map_or(ROOT_INODE, |(_, inode)| *inode);
        let (name, inode) = trail.last().cloned().unwrap_or((OsString::new(), ROOT_INODE));
        Ok(Place { directory, name, inode: Some(inode), trail })
    }

    pub(super) fn metadata(&self, inode: u64) -> io::Result<FileMetadata> {
        let node = self.node(inode)?;
        let size = match &node.body {
            Body::File(content) => content.size(),
            Body::Directory(names) => names.len() as u64,
            Body::Link(target) => target.as_os_str().len() as u64,
            Body::Special => 0,
        };
        Ok(FileMetadata {
            kind: node.body.kind(),
            device: DEVICE,
            inode,
            size,
            modified_ns: node.modified_ns,
            changed_ns: node.changed_ns,
        })
    }

    pub(super) fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    /// Creates an inode under a name that is free.
    pub(super) fn create(&mut self, place: &Place, body: Body) -> io::Result<u64> {
        if place.inode.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.check_writable()?;
        let inode = self.next_number();
        self.changed_names(place.directory)?.insert(place.name.clone(), inode);
        self.record(Effect::Create {
            directory: place.directory,
            name: place.name.clone(),
            inode,
            kind: body.kind(),
            target: if let Body::Link(target) = &body { Some(target.clone()) } else { None },
        });
        self.insert(inode, body);
        Ok(inode)
    }

    /// Appends what the space allows: at least one byte, or "no space".
    pub(super) fn append(&mut self, inode: u64, bytes: &[u8]) -> io::Result<usize> {
        self.check_writable()?;
        let count = match self.space_limit_bytes {
            Some(limit) => bytes.len().min(limit.saturating_sub(self.used_bytes()) as usize),
            None => bytes.len(),
        };
        let bytes: Arc<[u8]> = match bytes.get(..count) {
            Some([]) if !bytes.is_empty() => return Err(Errno::NOSPC.into()),
            Some([]) | None => return Ok(0),
            Some(part) => part.into(),
        };
        let content = self.changed_content(inode)?;
        let offset = content.size();
        content.append(Arc::clone(&bytes));
        self.record(Effect::Append { inode, offset, bytes });
        Ok(count)
    }

    pub(super) fn truncate(&mut self, inode: u64, size: u64) -> io::Result<()> {
        self.check_writable()?;
        let content = self.changed_content(inode)?;
        let from = content.size();
        content.truncate(size);
        self.record(Effect::Truncate { inode, from, to: size });
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            self.record(Effect::SyncFailed { inode });
            return Err(Errno::IO.into());
        }
        self.record(Effect::Sync { inode });
        Ok(())
    }

    pub(super) fn link(&mut self, original: &Place, link: &Place) -> io::Result<()> {
        let inode = original.existing()?;
        if link.inode.is_some() {
            return Err(Errno::EXIST.into());
        }
        if self.node(inode)?.body.kind() == FileKind::Directory {
            return Err(Errno::PERM.into());
        }
        self.check_writable()?;
        self.changed_names(link.directory)?.insert(link.name.clone(), inode);
        self.touch(inode)?;
        self.record(Effect::Link { directory: link.directory, name: link.name.clone(), inode });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Place, to: &Place) -> io::Result<()> {
        let inode = from.existing()?;
        let is_directory = self.node(inode)?.body.kind() == FileKind::Directory;
        if from.name.is_empty() || to.name.is_empty() {
            return Err(Errno::BUSY.into());
        }
        if is_directory && to.trail.iter().any(|(_, parent)| *parent == inode) && to.inode != Some(inode) {
            return Err(Errno::INVAL.into());
        }
        if let Some(replaced) = to.inode {
            // Two names of one file: nothing happens, both stay (POSIX rename).
            if replaced == inode {
                return Ok(());
            }
            match &self.node(replaced)?.body {
                Body::Directory(_) if !is_directory => return Err(Errno::ISDIR.into()),
                Body::Directory(names) if !names.is_empty() => return Err(Errno::NOTEMPTY.into()),
                Body::Directory(_) => {}
                _ if is_directory => return Err(Errno::NOTDIR.into()),
                _ => {}
            }
        }
        self.check_writable()?;
        self.changed_names(from.directory)?.remove(&from.name);
        self.changed_names(to.directory)?.insert(to.name.clone(), inode);
        self.touch(inode)?;
        self.record(Effect::Rename {
            from_directory: from.directory,
            from_name: from.name.clone(),
            to_directory: to.directory,
            to_name: to.name.clone(),
            inode,
        });
        self.forget_unreferenced(to.inode);
        Ok(())
    }

    pub(super) fn unlink(&mut self, place: &Place, wants_directory: bool) -> io::Result<()> {
        let inode = place.existing()?;
        match &self.node(inode)?.body {
            Body::Directory(_) if !wants_directory => return Err(Errno::ISDIR.into()),
            Body::Directory(_) if place.name.is_empty() => return Err(Errno::BUSY.into()),
            Body::Directory(names) if !names.is_empty() => return Err(Errno::NOTEMPTY.into()),
            Body::Directory(_) => {}
            _ if wants_directory => return Err(Errno::NOTDIR.into()),
            _ => {}
        }
        self.check_writable()?;
        self.changed_names(place.directory)?.remove(&place.name);
        self.touch(inode)?;
        self.record(Effect::Unlink { directory: place.directory, name: place.name.clone(), inode });
        self.forget_unreferenced(Some(inode));
        Ok(())
    }

    /// Moves the change time alone: the number of names changed.
    fn touch(&mut self, inode: u64) -> io::Result<()> {
        let now = self.time_ns();
        Arc::make_mut(self.nodes.get_mut(&inode).ok_or(Errno::STALE)?).changed_ns = now;
        Ok(())
    }

    /// Frees an inode that neither a name nor an open file refers to.
    pub(super) fn forget_unreferenced(&mut self, inode: Option<u64>) {
        let Some(inode) = inode else { return };
        let is_open = self.open.values().any(|open| *open == inode);
        if !is_open && !self.is_named(inode) {
            self.nodes.remove(&inode);
        }
    }

    fn is_named(&self, inode: u64) -> bool {
        inode == ROOT_INODE
            || self.nodes.values().any(|node| match &node.body {
                Body::Directory(names) => names.values().any(|named| *named == inode),
                _ => false,
            })
    }

    /// Bytes of all files.
    pub(super) fn used_bytes(&self) -> u64 {
        let sizes = self.nodes.values().map(|node| match &node.body {
            Body::File(content) => content.size(),
            _ => 0,
        });
        sizes.sum()
    }
}

enum Part {
    Root,
    Parent,
    Name(OsString),
}

fn part(component: Component<'_>) -> Option<Part> {
    match component {
        Component::CurDir => None,
        Component::Prefix(_) | Component::RootDir => Some(Part::Root),
        Component::ParentDir => Some(Part::Parent),
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
    }
}
