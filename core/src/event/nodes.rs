//! Which events stand on a surface, and in which order: a list that changes in place and can be taken back step by step.
//!
//! A replacement removes each node at most once, so a linked list makes every operation cost what it adds or removes: a vector
//! would move, and have to find again, everything behind the cut. Nodes are made in order of their seqs, so a seq is found by
//! binary search and needs no map. A node costs 16 bytes; removed ones stay, since the list may be asked to go back.

use crate::event::source_ranges::SourceSeqs;

/// No node.
const NONE: NodeId = NodeId::MAX;

/// The nodes of one list: as many as have a number. A log of so many messages would be hundreds of gigabytes; it is refused, not misread.
#[cfg(not(test))]
pub(crate) const NODES_MAX: usize = NONE as usize;
/// Few enough to be made in a test.
#[cfg(test)]
pub(crate) const NODES_MAX: usize = 20_000;

/// A place in the list; valid until the list goes back before it was made.
pub(crate) type NodeId = u32;

/// Programs hold many lists of many nodes, so the mark of a removed one stands in a bit that no seq needs.
#[derive(Clone, Debug)]
struct Node {
    marked_seq: u64,
    previous: NodeId,
    next: NodeId,
}

/// The bit of a removed node; seqs are below 2^53.
const REMOVED: u64 = 1 << 63;

impl Node {
    fn new(seq: u64, previous: NodeId, next: NodeId) -> Node {
        debug_assert!(seq < REMOVED);
        Node { marked_seq: seq, previous, next }
    }

    fn seq(&self) -> u64 {
        self.marked_seq & !REMOVED
    }

    fn is_live(&self) -> bool {
        self.marked_seq & REMOVED == 0
    }

    fn set_live(&mut self, is_live: bool) {
        self.marked_seq = if is_live { self.seq() } else { self.marked_seq | REMOVED };
    }
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

    /// Whether no more nodes may be added.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes.len() >= NODES_MAX
    }

    fn next_id(&self) -> NodeId {
        debug_assert!(!self.is_full());
        NodeId::try_from(self.nodes.len()).unwrap_or(NONE)
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id as usize)
    }

    /// The seq that stands first.
    pub(crate) fn first(&self) -> Option<u64> {
        self.node(self.first).map(Node::seq)
    }

    /// All seqs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.seqs_from(self.first)
    }

    /// Where an event stands; `None` for one that is not on the surface.
    pub(crate) fn find(&self, seq: u64) -> Option<NodeId> {
        let at = self.nodes.binary_search_by_key(&seq, Node::seq).ok()?;
        let id = NodeId::try_from(at).ok()?;
        self.node(id).filter(|node| node.is_live()).map(|_| id)
    }

    /// The seqs from `start` on, in order.
    pub(crate) fn seqs_from(&self, start: NodeId) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(self.node(start), |at| self.node(at.next)).map(Node::seq)
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

    /// Adds an event at the end. Its seq must be larger than all before, and the list not full.
    pub(crate) fn push(&mut self, seq: u64) {
        let id = self.next_id();
        let previous = self.last;
        self.nodes.push(Node::new(seq, previous, NONE));
        self.link(previous, id);
        self.last = id;
    }

    /// Puts an event in the place of those from `start` to `end`, which must stand in this order. The list must not be full.
    pub(crate) fn replace(&mut self, start: NodeId, end: NodeId, seq: u64) {
        let id = self.next_id();
        let previous = self.node(start).map_or(NONE, |node| node.previous);
        let next = self.node(end).map_or(NONE, |node| node.next);
        self.set_live(start, end, false);
        self.nodes.push(Node::new(seq, previous, next));
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
        while let Some(node) = self.node_mut(at) {
            node.set_live(is_live);
            if at == end {
                break;
            }
            at = node.next;
        }
    }

    /// Makes two nodes neighbours; `NONE` is what stands before the first and after the last.
    fn link(&mut self, previous: NodeId, next: NodeId) {
        match self.node_mut(previous) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.node_mut(next) {
            Some(node) => node.previous = previous,
            None => self.last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NODES_MAX, Nodes};

    #[test]
    fn a_list_takes_as_many_nodes_as_it_has_numbers_for() {
        let mut nodes = Nodes::new();
        (0..NODES_MAX as u64 - 1).for_each(|seq| nodes.push(seq));
        assert!(!nodes.is_full());
        nodes.push(NODES_MAX as u64 - 1);
        assert!(nodes.is_full());
        assert_eq!(nodes.iter().count(), NODES_MAX);
        nodes.undo_push();
        assert!(!nodes.is_full());
    }
}
