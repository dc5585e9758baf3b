//! A journal replayed up to a crash point: what is certainly on the disk, and what may or may not be.

use super::super::content::Content;
use super::super::memory::state::{Body, Names, Node, Nodes, ROOT_INODE, State};
use super::super::recording::Effect;
use crate::storage::FileKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The disk at a crash point.
#[derive(Clone)]
pub(super) struct Replay {
    /// What is durable. Inodes whose name is not durable are here too, out of reach.
    pub(super) nodes: Nodes,
    /// Files whose content is not certain.
    pub(super) files: BTreeMap<u64, PendingFile>,
    /// Changes of names that are not certain, and later ones that depend on their order, oldest first.
    pub(super) names: Vec<PendingName>,
    /// Moves with each effect, so that a file that was changed never has the times it had before.
    clock_ns: i128,
}

/// A file with changes since its last sync, or with bytes that a failed sync left in doubt.
#[derive(Clone)]
pub(super) struct PendingFile {
    /// The durable content, then the content after each change since.
    pub(super) versions: Vec<Content>,
    /// Where bytes were appended since the last sync, successful or not.
    unsynced: Vec<Range<u64>>,
    /// Bytes that a sync failed to write. Linux marks such pages clean: a later sync succeeds without them. Only
    /// cutting them off and writing them again makes them safe.
    pub(super) doubtful: Vec<Range<u64>>,
}

/// A change of names and how much of it a sync has made certain.
#[derive(Clone, Debug)]
pub(super) struct PendingName {
    effect: Effect,
    /// Directory of the name that goes (of a rename), else the only directory.
    from_directory: u64,
    to_directory: u64,
    is_from_synced: bool,
    is_to_synced: bool,
    moves_directory: bool,
}

/// What became of a change of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameOutcome {
    /// It never happened.
    Lost,
    /// A file moved between directories has both names: the new directory was written, the old one was not.
    Both,
    /// It happened.
    Done,
}

impl PendingFile {
    pub(super) fn live(&self) -> &Content {
        // There is always the durable version; an empty file in its place keeps this free of panics.
        static EMPTY: std::sync::LazyLock<Content> = std::sync::LazyLock::new(Content::default);
        self.versions.last().unwrap_or(&EMPTY)
    }

    /// Bytes below this place were not touched since the last sync: they are there in every image.
    pub(super) fn untouched_size(&self) -> u64 {
        self.versions.iter().map(Content::size).min().unwrap_or(0)
    }
}

impl PendingName {
    /// What may have become of it, least survived first.
    pub(super) fn outcomes(&self) -> &'static [NameOutcome] {
        use NameOutcome::{Both, Done, Lost};
        let moves_file = self.from_directory != self.to_directory && !self.moves_directory;
        match (self.is_from_synced, self.is_to_synced) {
            // The old name is gone for certain: no file system loses the file, so the new one is there.
            (true, _) => &[Done],
            (false, true) if moves_file => &[Both, Done],
            (false, true) => &[Done],
            (false, false) if moves_file => &[Lost, Both, Done],
            (false, false) => &[Lost, Done],
        }
    }

    fn is_certain(&self) -> bool {
        self.outcomes().len() == 1
    }

    pub(super) fn effect(&self) -> &Effect {
        &self.effect
    }

    fn apply(&self, nodes: &mut Nodes, outcome: NameOutcome) {
        match &self.effect {
            _ if outcome == NameOutcome::Lost => {}
            Effect::Create { directory, name, inode, .. } | Effect::Link { directory, name, inode } => {
                if let Some(names) = names_of(nodes, *directory) {
                    names.insert(name.clone(), *inode);
                }
            }
            Effect::Unlink { directory, name, .. } => {
                if let Some(names) = names_of(nodes, *directory) {
                    names.remove(name);
                }
            }
            Effect::Rename { from_directory, from_name, to_directory, to_name, inode } => {
                if let Some(names) = names_of(nodes, *from_directory)
                    && outcome == NameOutcome::Done
                    && names.get(from_name) == Some(inode)
                {
                    names.remove(from_name);
                }
                if let Some(names) = names_of(nodes, *to_directory) {
                    names.insert(to_name.clone(), *inode);
                }
            }
            _ => {}
        }
    }
}

fn names_of(nodes: &mut Nodes, directory: u64) -> Option<&mut Names> {
    match &mut Arc::make_mut(nodes.get_mut(&directory)?).body {
        Body::Directory(names) => Some(names),
        _ => None,
    }
}

impl Replay {
    pub(super) fn new(initial: &State) -> Self {
        let clock_ns = initial.last_change_ns();
        Replay { nodes: initial.nodes.clone(), files: BTreeMap::new(), names: Vec::new(), clock_ns }
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        self.clock_ns += 1;
        match effect {
            Effect::Create { directory, inode, kind, target, .. } => {
                let body = match kind {
                    FileKind::File => Body::File(Content::default()),
                    FileKind::Directory => Body::Directory(Names::new()),
                    FileKind::Link => Body::Link(target.clone().unwrap_or_default()),
                    FileKind::Other => Body::Special,
                };
                self.nodes.insert(*inode, self.node(body));
                self.change_name(effect, *directory, *directory, false);
            }
            Effect::Link { directory, .. } | Effect::Unlink { directory, .. } => {
                self.change_name(effect, *directory, *directory, false);
            }
            Effect::Rename { from_directory, to_directory, inode, .. } => {
                let moves_directory =
                    self.nodes.get(inode).is_some_and(|node| node.body.kind() == FileKind::Directory);
                self.change_name(effect, *from_directory, *to_directory, moves_directory);
            }
            Effect::Append { inode, offset, bytes } => self.change_file(*inode, |file| {
                let mut content = file.live().clone();
                content.append(Arc::clone(bytes));
                file.versions.push(content);
                file.unsynced.push(*offset..offset + bytes.len() as u64);
            }),
            Effect::Truncate { inode, to, .. } => self.change_file(*inode, |file| {
                let mut content = file.live().clone();
                content.truncate(*to);
                file.versions.push(content);
                cut_ranges(&mut file.unsynced, *to);
                cut_ranges(&mut file.doubtful, *to);
            }),
            Effect::SyncFailed { inode } => self.change_file(*inode, |file| {
                let unsynced = std::mem::take(&mut file.unsynced);
                file.doubtful.extend(unsynced);
            }),
            Effect::Sync { inode } => self.sync_file(*inode),
            Effect::SyncDirectory { directory } => self.sync_directory(*directory),
            Effect::Mark(_) => {}
        }
    }

    fn node(&self, body: Body) -> Arc<Node> {
        Arc::new(Node { body, modified_ns: self.clock_ns, changed_ns: self.clock_ns })
    }

    fn change_file(&mut self, inode: u64, change: impl FnOnce(&mut PendingFile)) {
        let durable = || match self.nodes.get(&inode).map(|node| &node.body) {
            Some(Body::File(content)) => content.clone(),
            _ => Content::default(),
        };
        let file = self.files.entry(inode).or_insert_with(|| PendingFile {
            versions: vec![durable()],
            unsynced: Vec::new(),
            doubtful: Vec::new(),
        });
        change(file);
    }

    fn sync_file(&mut self, inode: u64) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let live = file.live().clone();
        file.versions = vec![live.clone()];
        file.unsynced.clear();
        if file.doubtful.is_empty() {
            self.files.remove(&inode);
        }
        self.nodes.insert(inode, self.node(Body::File(live)));
    }

    fn change_name(&mut self, effect: &Effect, from: u64, to: u64, moves_directory: bool) {
        self.names.push(PendingName {
            effect: effect.clone(),
            from_directory: from,
            to_directory: to,
            is_from_synced: false,
            is_to_synced: false,
            moves_directory,
        });
    }

    fn sync_directory(&mut self, directory: u64) {
        for name in &mut self.names {
            name.is_from_synced |= name.from_directory == directory;
            name.is_to_synced |= name.to_directory == directory;
        }
        // What is certain becomes part of the durable disk, unless an earlier change of the same directory is not:
        // then their order still matters.
        let mut uncertain = BTreeSet::new();
        let nodes = &mut self.nodes;
        self.names.retain(|name| {
            let directories = [name.from_directory, name.to_directory];
            let is_foldable = name.is_certain() && directories.iter().all(|one| !uncertain.contains(one));
            if is_foldable {
                name.apply(nodes, NameOutcome::Done);
            } else {
                uncertain.extend(directories);
            }
            !is_foldable
        });
    }

    /// Forgets inodes that no image can reach, so that images stay small however long the journal.
    pub(super) fn forget_unreachable(&mut self) {
        let named = self.nodes.values().filter_map(|node| match &node.body {
            Body::Directory(names) => Some(names.values().copied()),
            _ => None,
        });
        let mut reachable: BTreeSet<u64> = named.flatten().chain([ROOT_INODE]).collect();
        reachable.extend(self.names.iter().filter_map(|name| match name.effect {
            Effect::Create { inode, .. } | Effect::Link { inode, .. } | Effect::Rename { inode, .. } => {
                Some(inode)
            }
            _ => None,
        }));
        self.nodes.retain(|inode, _| reachable.contains(inode));
        self.files.retain(|inode, _| reachable.contains(inode));
    }

    /// The disk on which these contents and outcomes came true.
    pub(super) fn disk(&self, files: Vec<(u64, Content)>, outcomes: &[NameOutcome]) -> Nodes {
        let mut nodes = self.nodes.clone();
        for (inode, content) in files {
            nodes.insert(inode, self.node(Body::File(content)));
        }
        for (name, outcome) in self.names.iter().zip(outcomes) {
            name.apply(&mut nodes, *outcome);
        }
        nodes
    }
}

fn cut_ranges(ranges: &mut Vec<Range<u64>>, size: u64) {
    ranges.retain_mut(|range| {
        range.end = range.end.min(size);
        !range.is_empty()
    });
}
