//! What is remembered of a log, how an accepted event changes it, and how such a change is taken back.

use crate::event::Event;
use crate::event::breach::Breach;
use crate::event::facts::CallSpans;
use crate::event::nodes::{NodeId, Nodes};
use crate::json::Json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Everything that later rows may be judged by.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) now: Now,
    pub(super) surface: Nodes,
    /// Advertised tool calls that have no result yet, by id.
    pub(super) calls: HashMap<Box<str>, PendingCall>,
    /// Nested runs, by `subCallId`.
    pub(super) dispatches: HashMap<Box<str>, Dispatch>,
    /// Retries, by `retryId`.
    pub(super) retries: HashMap<Box<str>, Retries>,
    /// The `retryId` of each chain.
    pub(super) chains: HashMap<ChainKey, Box<str>>,
    /// Ids of `command/run`.
    pub(super) commands: HashSet<Box<str>>,
    /// Seqs of `command/run` and `command/done`, growing.
    pub(super) command_rows: Vec<u64>,
    /// Seqs of `user/message` whose source kind is `user`, growing.
    pub(super) human_messages: Vec<u64>,
    /// Each `request/header`, by growing seq, with its tools.
    pub(super) headers: Vec<(u64, Arc<[Tool]>)>,
    /// `childId` of each catalog row that counts.
    pub(super) catalog: HashSet<Box<str>>,
}

/// The small part of the state, cheap to copy.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub(super) open_turn: Option<u64>,
    pub(super) open_step: Option<u64>,
    pub(super) next_turn: u64,
    pub(super) next_step: u64,
    /// The system message that the surface began with.
    pub(super) head: Option<u64>,
    /// `config.provider` of the latest header.
    pub(super) provider: Option<Arc<str>>,
    /// The text of `tools` of the latest header, and what it says.
    pub(super) tools: Option<(Arc<str>, Arc<[Tool]>)>,
    pub(super) compaction: Option<Arc<Compaction>>,
    /// The first row that breaks a rule unless it turns out to be inherited: a later marker may move the cut behind it.
    pub(super) unless_inherited: Option<Arc<Breach>>,
    /// The first turn bracket inside the open compaction: a breach unless a marker comes before the compaction ends.
    pub(super) unless_orphaned: Option<Arc<Breach>>,
}

/// A tool call that waits for its result. It holds on to the buffer of the assistant message instead of copying the arguments.
#[derive(Clone, Debug)]
pub(super) struct PendingCall {
    pub(super) event: Event,
    pub(super) call: CallSpans,
    pub(super) is_started: bool,
}

impl PendingCall {
    pub(super) fn name(&self) -> Option<Json<'_>> {
        self.event.value_at(self.call.name)
    }

    pub(super) fn arguments(&self) -> Option<Json<'_>> {
        self.event.value_at(self.call.arguments)
    }
}

/// A nested run.
#[derive(Clone, Debug)]
pub(super) struct Dispatch {
    pub(super) root: Box<str>,
    /// What its settlement must repeat; `None` once it is settled.
    pub(super) open: Option<OpenDispatch>,
}

#[derive(Clone, Debug)]
pub(super) struct OpenDispatch {
    pub(super) parent: Box<str>,
    /// Texts of JSON values.
    pub(super) name: Option<Box<str>>,
    pub(super) arguments: Option<Box<str>>,
}

/// What makes retries one chain: turn, step, provider and policy.
pub(super) type ChainKey = (u64, u64, Box<str>, Box<str>);

/// The retries of one `retryId`. They count from 1, so the length is the number of the last.
#[derive(Clone, Debug)]
pub(super) struct Retries {
    pub(super) key: ChainKey,
    /// Whether each has started.
    pub(super) started: Vec<bool>,
}

/// What is remembered of a `request/header`.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) provider: Option<Arc<str>>,
    pub(super) tools: Option<(Arc<str>, Arc<[Tool]>)>,
}

/// A tool as a developer message may refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: Box<str>,
    /// Whether it has a string `description` and an object `parameters`.
    pub(super) is_defined: bool,
}

/// An open compaction.
#[derive(Clone, Debug)]
pub(super) struct Compaction {
    pub(super) id: Box<str>,
    pub(super) command: Option<Box<str>>,
    /// `turn` as its start says.
    pub(super) turn: Option<u64>,
    /// The turn that was open when it began.
    pub(super) open_turn: Option<u64>,
    pub(super) is_summarized: bool,
}

/// What an accepted event does to the surface.
#[derive(Clone, Debug, Default)]
pub(super) enum SurfaceChange {
    #[default]
    None,
    Push,
    Replace {
        start: NodeId,
        end: NodeId,
    },
}

/// What an accepted event does to the rest of the state. Every row of a log makes one, so what is large and rare is boxed.
#[derive(Clone, Debug, Default)]
pub(super) enum Change {
    #[default]
    None,
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    Advertise(Vec<(Box<str>, PendingCall)>),
    StartCall(Box<str>),
    ResolveCall(Box<str>),
    HumanMessage,
    Header(Box<Header>),
    StartDispatch(Box<str>, Box<Dispatch>),
    SettleDispatch(Box<str>),
    Retry {
        id: Box<str>,
        /// `None` where the chain goes on.
        begins: Option<Box<ChainKey>>,
    },
    StartRetry {
        id: Box<str>,
        index: usize,
    },
    CommandRun(Box<str>),
    CommandDone,
    Compaction(Option<Arc<Compaction>>),
    EndSeed {
        is_inherited: bool,
    },
    Catalog(Box<str>),
}

/// How a change is taken back.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    now: Now,
    surface: SurfaceChange,
    maps: UndoMaps,
}

#[derive(Clone, Debug, Default)]
enum UndoMaps {
    #[default]
    None,
    Calls(Vec<Box<str>>),
    CallStarted(Box<str>),
    CallResolved(Box<str>, PendingCall),
    HumanMessage,
    Header,
    Dispatch(Box<str>),
    DispatchSettled(Box<str>, Option<OpenDispatch>),
    Retry(Box<str>, Option<Box<ChainKey>>),
    RetryStarted(Box<str>, usize),
    CommandRun(Box<str>),
    CommandDone,
    Catalog(Box<str>),
    CatalogCleared(HashSet<Box<str>>),
}

impl State {
    pub(super) fn new() -> State {
        let now = Now {
            open_turn: None,
            open_step: None,
            next_turn: 1,
            next_step: 1,
            head: None,
            provider: None,
            tools: None,
            compaction: None,
            unless_inherited: None,
            unless_orphaned: None,
        };
        State {
            now,
            surface: Nodes::new(),
            calls: HashMap::new(),
            dispatches: HashMap::new(),
            retries: HashMap::new(),
            chains: HashMap::new(),
            commands: HashSet::new(),
            command_rows: Vec::new(),
            human_messages: Vec::new(),
            headers: Vec::new(),
            catalog: HashSet::new(),
        }
    }

    /// Makes a change; what it replaces comes back if `keep` asks for it.
    pub(super) fn apply(
        &mut self,
        seq: u64,
        surface: SurfaceChange,
        head: Option<u64>,
        change: Change,
        keep: bool,
    ) -> Option<Undo> {
        let before = keep.then(|| self.now.clone());
        match surface {
            SurfaceChange::None => {}
            SurfaceChange::Push => self.surface.push(seq),
            SurfaceChange::Replace { start, end } => self.surface.replace(start, end, seq),
        }
        self.now.head = head;
        let maps = self.change(seq, change, keep);
        before.map(|now| Undo { now, surface, maps })
    }

    fn change(&mut self, seq: u64, change: Change, keep: bool) -> UndoMaps {
        let now = &mut self.now;
        match change {
            Change::None => {}
            Change::TurnStart => {
                now.open_turn = Some(now.next_turn);
                now.next_step = 1;
            }
            Change::TurnEnd => {
                now.open_turn = None;
                now.next_turn += 1;
            }
            Change::StepStart => now.open_step = Some(now.next_step),
            Change::StepEnd => {
                now.open_step = None;
                now.next_step += 1;
            }
            Change::Header(header) => {
                let Header { provider, tools } = *header;
                let list = tools.as_ref().map_or_else(|| Arc::from([]), |(_, list)| Arc::clone(list));
                self.headers.push((seq, list));
                now.provider = provider;
                now.tools = tools;
                return UndoMaps::Header;
            }
            Change::Compaction(compaction) => now.compaction = compaction,
            Change::EndSeed { is_inherited } => {
                now.compaction = None;
                now.unless_orphaned = None;
                if is_inherited {
                    now.unless_inherited = None;
                    return UndoMaps::CatalogCleared(std::mem::take(&mut self.catalog));
                }
            }
            other => return self.change_maps(seq, other, keep),
        }
        UndoMaps::None
    }

    fn change_maps(&mut self, seq: u64, change: Change, keep: bool) -> UndoMaps {
        match change {
            Change::Advertise(calls) => {
                // A reader takes nothing back, and reads many calls.
                let ids = calls.iter().filter(|_| keep).map(|(id, _)| id.clone()).collect();
                self.calls.extend(calls);
                UndoMaps::Calls(ids)
            }
            Change::StartCall(id) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.is_started = true;
                }
                UndoMaps::CallStarted(id)
            }
            Change::ResolveCall(id) => match self.calls.remove(&id) {
                Some(call) => UndoMaps::CallResolved(id, call),
                None => UndoMaps::None,
            },
            Change::HumanMessage => {
                self.human_messages.push(seq);
                UndoMaps::HumanMessage
            }
            Change::StartDispatch(id, dispatch) => {
                self.dispatches.insert(id.clone(), *dispatch);
                UndoMaps::Dispatch(id)
            }
            Change::SettleDispatch(id) => {
                let open = self.dispatches.get_mut(&id).and_then(|dispatch| dispatch.open.take());
                UndoMaps::DispatchSettled(id, open)
            }
            Change::Retry { id, begins } => {
                if let Some(key) = begins.as_deref() {
                    self.chains.insert(key.clone(), id.clone());
                    self.retries.insert(id.clone(), Retries { key: key.clone(), started: Vec::new() });
                }
                self.retries.entry(id.clone()).and_modify(|retries| retries.started.push(false));
                UndoMaps::Retry(id, begins)
            }
            Change::StartRetry { id, index } => {
                self.set_retry_started(&id, index, true);
                UndoMaps::RetryStarted(id, index)
            }
            Change::CommandRun(id) => {
                self.command_rows.push(seq);
                self.commands.insert(id.clone());
                UndoMaps::CommandRun(id)
            }
            Change::CommandDone => {
                self.command_rows.push(seq);
                UndoMaps::CommandDone
            }
            Change::Catalog(id) => {
                self.catalog.insert(id.clone());
                UndoMaps::Catalog(id)
            }
            _ => UndoMaps::None,
        }
    }

    fn set_retry_started(&mut self, id: &str, index: usize, is_started: bool) {
        if let Some(started) = self.retries.get_mut(id).and_then(|retries| retries.started.get_mut(index)) {
            *started = is_started;
        }
    }

    /// Takes the latest change back that was not taken back before.
    pub(super) fn undo(&mut self, undo: Undo) {
        self.now = undo.now;
        match undo.surface {
            SurfaceChange::None => {}
            SurfaceChange::Push => self.surface.undo_push(),
            SurfaceChange::Replace { start, end } => self.surface.undo_replace(start, end),
        }
        match undo.maps {
            UndoMaps::None => {}
            UndoMaps::Calls(ids) => {
                for id in ids {
                    self.calls.remove(&id);
                }
            }
            UndoMaps::CallStarted(id) => {
                self.calls.entry(id).and_modify(|call| call.is_started = false);
            }
            UndoMaps::CallResolved(id, call) => drop(self.calls.insert(id, call)),
            UndoMaps::HumanMessage => drop(self.human_messages.pop()),
            UndoMaps::Header => drop(self.headers.pop()),
            UndoMaps::Dispatch(id) => drop(self.dispatches.remove(&id)),
            UndoMaps::DispatchSettled(id, open) => {
                self.dispatches.entry(id).and_modify(|dispatch| dispatch.open = open);
            }
            UndoMaps::Retry(id, None) => {
                if let Some(retries) = self.retries.get_mut(&id) {
                    retries.started.pop();
                }
            }
            UndoMaps::Retry(id, Some(key)) => {
                self.chains.remove(&*key);
                self.retries.remove(&id);
            }
            UndoMaps::RetryStarted(id, index) => self.set_retry_started(&id, index, false),
            UndoMaps::CommandRun(id) => {
                self.command_rows.pop();
                self.commands.remove(&id);
            }
            UndoMaps::CommandDone => drop(self.command_rows.pop()),
            UndoMaps::Catalog(id) => drop(self.catalog.remove(&id)),
            UndoMaps::CatalogCleared(catalog) => self.catalog = catalog,
        }
    }
}
