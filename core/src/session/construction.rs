//! How a session is put together: from a header and a seed, with as little judged again as what is known of the seed allows.

use super::gate::Entered;
use super::hub::Hub;
use super::seed::{self, Seed, SeedMode};
use super::session::{Inner, Session, View, WriteState, Writer};
use super::surface::{Rules, Surface};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::event::breach::Breach;
use crate::event::facts::RowKind;
use crate::event::verdict::RowVerdict;
use crate::format::header::SessionHeader;
use crate::format::relationships::LogChecker;
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};

/// What a session is made from, inside the library.
pub(crate) struct Construction<'a> {
    pub(crate) header: SessionHeader,
    pub(crate) seed: &'a Seed,
    pub(crate) write_state: WriteState,
    pub(crate) known: Known,
}

/// What is known of the seed of a session.
pub(crate) enum Known {
    /// Nothing: every event is judged.
    Nothing,
    /// It is a log that was just read; the checker that judged it stands after it.
    Checked(Box<LogChecker>),
    /// Its first events are those of another session of the same hub, which accepted them.
    Folded(Box<Folded>),
}

/// Everything that a session has folded from its events, as it was at one moment. What grows with the events is shared until one of the
/// two sessions changes it.
#[derive(Debug)]
pub(crate) struct Folded {
    writer: Writer,
    view: View,
    judged_by: JudgedBy,
}

/// Who judged the first events of a session, and with which projections: those who would judge the same now need not.
#[derive(Clone, Debug)]
pub(super) struct JudgedBy {
    hub: Weak<Hub>,
    projection_changes: u64,
}

impl JudgedBy {
    fn now(hub: &Arc<Hub>) -> JudgedBy {
        JudgedBy { hub: Arc::downgrade(hub), projection_changes: hub.projections.changes() }
    }

    /// Whether this hub would judge as they were judged. One that a session entered late has a vocabulary and projections of its own.
    fn is_still(&self, hub: &Arc<Hub>) -> bool {
        self.hub.as_ptr() == Arc::as_ptr(hub) && self.projection_changes == hub.projections.changes()
    }
}

impl Folded {
    /// The same in a session with this header that begins with these events and inherits `inherited` of them.
    ///
    /// `None` where the events were not judged by all that this hub asks now, as those of a session that entered late or of one that is
    /// older than a projection, and where a rule waits for an event to come: the new session may end the log here.
    fn continued_in(mut self, header: &SessionHeader, inherited: u64, hub: &Arc<Hub>) -> Option<Folded> {
        if !self.judged_by.is_still(hub) {
            return None;
        }
        self.view.publishing = None;
        match self.writer.checker.take() {
            Some(checker) if hub.checks_stored_rules && checker.finish().is_ok() => {
                self.writer.checker = Some(checker.continued_in(header, inherited));
                Some(self)
            }
            None if !hub.checks_stored_rules => Some(self),
            _ => None,
        }
    }
}

impl<'a> Construction<'a> {
    /// From a seed of which nothing is known.
    pub(crate) fn new(header: SessionHeader, seed: &'a Seed, write_state: WriteState) -> Construction<'a> {
        Construction { header, seed, write_state, known: Known::Nothing }
    }
}

impl Session {
    /// What the session has folded, if `event_count` events are all it has now. `None` also where the caller is inside an append to this
    /// very session: its members are judged and not yet seen.
    pub(crate) fn folded(&self, event_count: u64) -> Option<Folded> {
        let hub = self.hub();
        let _entered: Entered<'_> = self.enter(&hub)?;
        let writer = match self.inner.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let view = self.view();
        let judged_by = self.inner.judged_by.clone();
        (view.log.len() == event_count).then(|| Folded {
            writer: writer.clone(),
            view: view.clone(),
            judged_by,
        })
    }

    pub(crate) fn build(construction: Construction<'_>, hub: Arc<Hub>) -> Result<Session> {
        let Construction { header, seed, write_state, known } = construction;
        let bad_header = |fault: String| seed::refused("HEADER_INVALID", fault).with_session_id(&*header.id);
        let check_header = || header.check().map_err(|fault| bad_header(fault.to_string()));
        if seed.mode == SeedMode::Restore {
            check_header()?;
        }
        let inherited = seed.inherited_event_count.unwrap_or(0);
        let judged_by = JudgedBy::now(&hub);
        let mut parts = Parts::new(known, &header, inherited, &hub);
        parts.adopt(&hub, seed.events.as_deref().unwrap_or_default())?;
        if seed.mode == SeedMode::Snapshot {
            check_header()?;
        }
        let begun = seed.finish(&header, hub.storage.now_unix_ms())?;
        if let Some(breach) = parts.breach.take() {
            return Err(breach);
        }
        if let Some(marker) = begun.marker {
            parts.add_marker(&hub, marker)?;
        }
        let process_id = hub.storage.process_id();
        Ok(Session::of(Inner {
            inherited_event_count: begun.inherited,
            first_live_seq: begun.first_live_seq,
            first_lifecycle_seq: begun.first_lifecycle_seq,
            header,
            process_id,
            storage: Arc::clone(&hub.storage),
            durability: OnceLock::new(),
            hub: Mutex::new(hub),
            judged_by,
            write_state: Mutex::new(write_state),
            dispatch: Mutex::default(),
            writer: Mutex::new(parts.writer),
            view: Mutex::new(parts.view),
        }))
    }
}

/// A session under construction.
struct Parts {
    writer: Writer,
    view: View,
    /// Whether the events were judged by the rules of stored logs a moment ago, and the checker stands after them.
    is_checked: bool,
    /// The first event that no reader of the stored log would accept. The other rules of a seed speak before it.
    breach: Option<Error>,
}

impl Parts {
    fn new(known: Known, header: &SessionHeader, inherited: u64, hub: &Arc<Hub>) -> Parts {
        let mut writer = Writer { surface: Surface::new(0), checker: None };
        let mut is_checked = false;
        match known {
            Known::Folded(folded) => {
                if let Some(Folded { writer, view, .. }) = folded.continued_in(header, inherited, hub) {
                    return Parts { writer, view, is_checked: false, breach: None };
                }
            }
            Known::Checked(checker) => {
                is_checked = true;
                writer.checker = Some(*checker);
            }
            Known::Nothing => {}
        }
        match hub.checks_stored_rules {
            true => {
                let new = || LogChecker::with_inherited_count(header, inherited, hub.vocabulary.clone());
                writer.checker.get_or_insert_with(new);
            }
            false => writer.checker = None,
        }
        Parts { writer, view: View::default(), is_checked, breach: None }
    }

    /// Takes the events that were not folded before.
    fn adopt(&mut self, hub: &Hub, events: &[Event]) -> Result<()> {
        for (index, event) in events.iter().enumerate().skip(self.view.log.len() as usize) {
            let kind = RowKind::of(event.kind());
            let verdict = match self.is_checked && kind != RowKind::DeveloperMessage {
                true => RowVerdict { kind, ..RowVerdict::default() },
                false => RowVerdict::of_event(event),
            };
            self.add(hub, event.clone(), &verdict, self.is_checked).map_err(|error| of_seed(error, index))?;
        }
        Ok(())
    }

    fn add_marker(&mut self, hub: &Hub, marker: Event) -> Result<()> {
        let verdict = RowVerdict::of_event(&marker);
        self.add(hub, marker, &verdict, false)?;
        self.breach.take().map_or(Ok(()), Err)
    }

    fn add(&mut self, hub: &Hub, event: Event, verdict: &RowVerdict, is_checked: bool) -> Result<()> {
        let rules = Rules { projections: &hub.projections, vocabulary: &hub.vocabulary };
        let effect = self.writer.surface.judge(&event, verdict, &self.view, rules, is_checked)?;
        if let Some(checker) = self.writer.checker.as_mut().filter(|_| !is_checked && self.breach.is_none()) {
            match checker.judge_seen(&event, verdict) {
                Ok(kept) => checker.commit(kept),
                Err(breach) => self.breach = Some(stored_log_refused(&breach, &event)),
            }
        }
        self.writer.surface.apply(event.seq(), &effect);
        self.view.commit(event, &effect);
        Ok(())
    }
}

/// A refusal of an append as one of the seed event with this index.
fn of_seed(error: Error, index: usize) -> Error {
    let rule = error.rule().unwrap_or(seed::ENVELOPE_INVALID);
    seed::refused(rule, error.message()).with_index(index as u64).with_cause(error)
}

/// A refusal of a seed whose log no reader would accept; seeds begin with seq 0, so that an index is a seq.
fn stored_log_refused(breach: &Breach, event: &Event) -> Error {
    seed::refused(breach.rule(), breach.message())
        .with_event_type(event.kind())
        .with_seq(event.seq())
        .with_index(event.seq())
}
