//! Which events stand on a surface, and in which order: a list that changes in place and can be taken back step by step.
//!
//! A replacement removes each node at most once, so a linked list makes every operation cost what it adds or removes: a vector
//! would move, and have to find again, everything behind the cut. Nodes are made in order of their seqs, so a seq is found by
//! binary search and needs no map. A node costs 32 bytes; removed ones stay, since the list may be asked to go back.

use crate::event::source_ranges::SourceSeqs;

/// No node.
const NONE: usize = usize::MAX;

/// A place in the list; valid until the list goes back before it was made.
pub(crate) type NodeId = usize;

#[derive(Clone, Debug)]
struct Node {
    seq: u64,
    previous: NodeId,
    next: NodeId,
    is_live: bool,
}

/// The list of seqs that make messages, in order.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// All nodes ever made, by growing seq.
    nodes: Vec<Node>,
    first: NodeId,
    last: NodeId,
}

impl Nodes {
    pub(crate) fn new() -> Nodes {
        Nodes { nodes: Vec::new(), first: NONE, last: NONE }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The seq that stands first.
    pub(crate) fn first(&self) -> Option<u64> {
        self.nodes.get(self.first).map(|node| node.seq)
    }

    /// All seqs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.seqs_from(self.first)
    }

    /// Where an event stands; `None` for one that is not on the surface.
    pub(crate) fn find(&self, seq: u64) -> Option<NodeId> {
        let id = self.nodes.binary_search_by_key(&seq, |node| node.seq).ok()?;
        self.nodes.get(id).filter(|node| node.is_live).map(|_| id)
    }

    /// The seqs from `start` on, in order.
    pub(crate) fn seqs_from(&self, start: NodeId) -> impl Iterator<Item = u64> + '_ {
        let node = |id: NodeId| self.nodes.get(id);
        std::iter::successors(node(start), move |at| node(at.next)).map(|node| node.seq)
    }

    /// Whether every event from `start` to the one with seq `end` is among `sources`; `None` if `end` does not stand at or after
    /// `start`.
    pub(crate) fn is_covered(&self, start: NodeId, end: u64, sources: &SourceSeqs) -> Option<bool> {
        let mut runs = sources.runs().to_vec();
        runs.sort_unstable();
        let is_source = |seq: u64| {
            let after = runs.partition_point(|run| run.0 <= seq);
            after.checked_sub(1).and_then(|at| runs.get(at)).is_some_and(|run| seq <= run.1)
        };
        let mut all = true;
        for seq in self.seqs_from(start) {
            all &= is_source(seq);
            if seq == end {
                return Some(all);
            }
        }
        None
    }

    /// Adds an event at the end. Its seq must be larger than all before.
    pub(crate) fn push(&mut self, seq: u64) {
        let id = self.nodes.len();
        let previous = self.last;
        self.nodes.push(Node { seq, previous, next: NONE, is_live: true });
        self.link(previous, id);
        self.last = id;
    }

    /// Puts an event in the place of those from `start` to `end`, which must stand in this order.
    pub(crate) fn replace(&mut self, start: NodeId, end: NodeId, seq: u64) {
        let id = self.nodes.len();
        let previous = self.nodes.get(start).map_or(NONE, |node| node.previous);
        let next = self.nodes.get(end).map_or(NONE, |node| node.next);
        self.set_live(start, end, false);
        self.nodes.push(Node { seq, previous, next, is_live: true });
        self.link(previous, id);
        self.link(id, next);
    }

    /// Takes the last `push` back.
    pub(crate) fn undo_push(&mut self) {
        if let Some(node) = self.nodes.pop() {
            self.link(node.previous, NONE);
            self.last = node.previous;
        }
    }

    /// Takes the last `replace` back, which was of these nodes. They kept their links.
    pub(crate) fn undo_replace(&mut self, start: NodeId, end: NodeId) {
        if let Some(node) = self.nodes.pop() {
            self.set_live(start, end, true);
            self.link(node.previous, start);
            self.link(end, node.next);
        }
    }

    fn set_live(&mut self, start: NodeId, end: NodeId, is_live: bool) {
        let mut at = start;
        while let Some(node) = self.nodes.get_mut(at) {
            node.is_live = is_live;
            if at == end {
                break;
            }
            at = node.next;
        }
    }

    /// Makes two nodes neighbours; `NONE` is what stands before the first and after the last.
    fn link(&mut self, previous: NodeId, next: NodeId) {
        match self.nodes.get_mut(previous) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.nodes.get_mut(next) {
            Some(node) => node.previous = previous,
            None => self.last = previous,
        }
    }
}
