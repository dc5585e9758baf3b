//! Appending: acceptance, commit, publication (`session.md` 4 to 6).
//!
//! One append runs inside the gate from its first check to the end of its publication. Its members are judged on the writer's own
//! surface, which readers do not see, and taken back there if one of them is refused; then they are committed to the view in one step.

use super::acceptance::refused;
use super::hub::{EventFn, Hub};
use super::session::{Session, View, WriteState, Writer, lock, refused_here};
use super::surface::{EarlierEvents, Effect, Rules, Undo};
use crate::error::{Code, Error, Result};
use crate::event::breach::Breach;
use crate::event::builders::IntoDraft;
use crate::event::row::is_inherited_marker;
use crate::event::{Event, EventDraft, is_plugin_record_type};
use crate::format::relationships::Effect as StoredEffect;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, TryLockError};

/// Whether `currentBatchPublication` is set while the events are published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Batch,
}

/// The listeners of events, as they were before an append was committed.
type EventListeners = Arc<Vec<(u64, Arc<EventFn>)>>;

impl Session {
    /// Accepts one event. In a stored session it is durable when [`flush`](Self::flush) or [`close`](Self::close) has returned.
    ///
    /// # Errors
    /// `EVENT_REFUSED` with the rule: a code of `session.md` 20, or R1 to R11 and A1 to A25 for what no reader of the stored log would
    /// accept; nothing has changed then. `HANDLE_CLOSED`; `LIMIT_EXCEEDED` when too much waits because writing fails.
    /// Those of [`IntoDraft`] for what is no event at all.
    ///
    /// ```
    /// use dsh_session_core::event::builders::{EndReason, TurnEnd, TurnStart};
    /// use dsh_session_core::{EventDraft, Session};
    /// let session = Session::independent("s1")?;
    /// session.append(TurnStart { turn: 1 })?; // typed
    /// session.append(EventDraft::new("todo/write", r#"{"todos":[]}"#)?)?; // any event, as JSON
    /// session.append(TurnEnd { turn: 1, reason: EndReason::Completed })?;
    /// # Ok::<(), dsh_session_core::Error>(())
    /// ```
    pub fn append(&self, event: impl IntoDraft) -> Result<Event> {
        let draft = event.into_draft()?;
        self.behind_gate(std::slice::from_ref, Form::Single, |writer, hub| {
            let (event, effect) = self.accept_one(writer, &draft, hub)?;
            self.commit(std::slice::from_ref(&event), std::slice::from_ref(&effect));
            Ok(event)
        })
    }

    /// Accepts several events together: all of them or none, and one frame on the disk. Each member is judged after those before it.
    ///
    /// # Errors
    /// As [`append`](Self::append), with the index of the refused member.
    pub fn append_batch(&self, drafts: &[EventDraft]) -> Result<Vec<Event>> {
        self.behind_gate(Vec::as_slice, Form::Batch, |writer, hub| {
            let Accepted { events, effects } = self.accept_batch(writer, drafts, hub)?;
            self.commit(&events, &effects);
            Ok(events)
        })
    }

    /// Accepts one line of `append` (`cli.md`).
    ///
    /// # Errors
    /// As [`append`](Self::append), and for text that is no event `INVALID_ARGUMENT`, `NOT_LOSSLESS_JSON`.
    pub fn append_line(&self, line: impl AsRef<[u8]>) -> Result<Event> {
        self.append(EventDraft::from_line(line)?)
    }

    /// Appends a plugin record: any JSON value under a name of the plugin grammar (`session.md` 15).
    ///
    /// # Errors
    /// As [`append`](Self::append), and `PLUGIN_RECORD_TYPE_INVALID`.
    pub fn append_plugin_record(&self, name: &str, data: impl AsRef<[u8]>) -> Result<Event> {
        if !is_plugin_record_type(name) {
            let message =
                format!("`{name}` is no name of a plugin record: `plugin:<name>/<kind>`, in lower case");
            return Err(refused_here(self, "PLUGIN_RECORD_TYPE_INVALID", &message).with_event_type(name));
        }
        self.append(EventDraft::new(name, data)?)
    }

    /// Runs an append and its publication inside the gate; `events` are those of what it gives.
    fn behind_gate<T>(
        &self,
        events: fn(&T) -> &[Event],
        form: Form,
        append: impl Fn(&mut Writer, &Hub) -> Result<T>,
    ) -> Result<T> {
        self.check_process()?;
        loop {
            let hub = self.hub();
            // A session that enters a store meanwhile is behind another gate then.
            let Some(entered) = self.enter(&hub) else { continue };
            let is_outermost = entered.is_outermost();
            let appended = self.append_inside(events, form, &append, &hub)?;
            drop(entered);
            if let Some(durability) = self.inner.durability.get().filter(|_| is_outermost) {
                durability.relieve();
            }
            return Ok(appended);
        }
    }

    fn append_inside<T>(
        &self,
        events: fn(&T) -> &[Event],
        form: Form,
        append: &impl Fn(&mut Writer, &Hub) -> Result<T>,
        hub: &Hub,
    ) -> Result<T> {
        self.check_writable()?;
        let mut writer = match self.inner.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Only this thread can be in the gate: an append of its own goes on.
            Err(TryLockError::WouldBlock) => {
                let message = "the session is being appended to; append when that has ended";
                return Err(refused_here(self, "APPEND_REENTRANT", message));
            }
        };
        let listeners = hub.on_event.current();
        let appended = append(&mut writer, hub).map_err(|error| error.with_session_id(self.id()))?;
        if !listeners.is_empty() && self.write_state() == WriteState::Live {
            self.publish(events(&appended), form, &listeners, hub);
        }
        Ok(appended)
    }

    fn check_writable(&self) -> Result<()> {
        match self.write_state() {
            WriteState::Independent | WriteState::Live => {}
            WriteState::Removed => {
                // A session that its host closed says so, as every other call on it does.
                if let Some(durability) = self.inner.durability.get() {
                    durability.check_append()?;
                }
                return Err(refused_here(self, "WRITE_REMOVED", "the session is no longer in its store"));
            }
            _ => {
                let message = "the session was not announced, or its announcement failed";
                return Err(refused_here(self, "WRITE_NOT_PUBLISHED", message));
            }
        }
        self.inner.durability.get().map_or(Ok(()), |durability| durability.check_append())
    }

    /// Judges one event, and makes its change where nothing can refuse it any more.
    fn accept_one(&self, writer: &mut Writer, draft: &EventDraft, hub: &Hub) -> Result<(Event, Effect)> {
        let seq = writer.surface.next_seq();
        let earlier = Candidates { view: &self.inner.view, first_seq: seq, events: Vec::new() };
        let located = |error: Error| error.with_index(0).with_seq(seq).with_event_type(draft.kind());
        let judged = judge(writer, draft, &earlier, hub).map_err(located)?;
        self.validate(std::slice::from_ref(&judged.event), hub)?;
        let Judged { event, effect, stored } = judged;
        if let (Some(checker), Some(stored)) = (&mut writer.checker, stored) {
            checker.commit(stored);
        }
        writer.surface.apply(seq, &effect);
        Ok((event, effect))
    }

    /// Judges all members, each after those before it, or takes back those that were judged.
    fn accept_batch(&self, writer: &mut Writer, drafts: &[EventDraft], hub: &Hub) -> Result<Accepted> {
        let first_seq = writer.surface.next_seq();
        let mut acceptance = Acceptance {
            earlier: Candidates {
                view: &self.inner.view,
                first_seq,
                events: Vec::with_capacity(drafts.len()),
            },
            effects: Vec::with_capacity(drafts.len()),
            undo: Vec::with_capacity(drafts.len()),
        };
        if let Some(checker) = &mut writer.checker {
            checker.begin_batch();
        }
        let judged = acceptance.judge_all(writer, drafts, hub);
        if let Err(error) = judged.and_then(|()| self.validate(&acceptance.earlier.events, hub)) {
            for undo in acceptance.undo.into_iter().rev() {
                writer.surface.undo(undo);
            }
            if let Some(checker) = &mut writer.checker {
                checker.undo_batch();
            }
            return Err(error);
        }
        if let Some(checker) = &mut writer.checker {
            checker.keep_batch();
        }
        Ok(Accepted { events: acceptance.earlier.events, effects: acceptance.effects })
    }

    /// Asks the validators of the store about every member.
    fn validate(&self, events: &[Event], hub: &Hub) -> Result<()> {
        let validators = hub.validators.current();
        if validators.is_empty() || self.write_state() == WriteState::Independent {
            return Ok(());
        }
        // A validator that keeps what it sees does not keep the session open.
        let seen = self.unkept();
        for (index, event) in events.iter().enumerate() {
            for (_, validator) in validators.iter() {
                let ran = catch_unwind(AssertUnwindSafe(|| validator(&seen, event)));
                let outcome = ran.unwrap_or_else(|_| Err(Error::new(Code::Panic, "a validator panicked")));
                outcome.map_err(|cause| {
                    let message = format!("a validator refused the event: {}", cause.message());
                    refused("DISPATCH_REJECTED", message).with_index(index as u64).with_cause(cause)
                })?;
            }
        }
        Ok(())
    }

    fn commit(&self, events: &[Event], effects: &[Effect]) {
        if events.is_empty() {
            return;
        }
        {
            let mut view = self.view();
            for (event, effect) in events.iter().zip(effects) {
                view.commit(event.clone(), effect);
            }
        }
        if let Some(durability) = self.inner.durability.get() {
            durability.committed(events);
        }
    }

    fn publish(&self, events: &[Event], form: Form, listeners: &EventListeners, hub: &Hub) {
        self.begin_dispatch();
        let seen = self.unkept();
        for event in events {
            if form == Form::Batch {
                self.view().publishing = Some(event.clone());
            }
            for (_, listener) in listeners.iter() {
                hub.contain("events", self, || listener(&seen, event));
            }
        }
        self.view().publishing = None;
        self.end_dispatch();
    }
}

/// Members that passed every check.
struct Accepted {
    events: Vec<Event>,
    effects: Vec<Effect>,
}

/// Members that are being judged.
struct Acceptance<'a> {
    earlier: Candidates<'a>,
    effects: Vec<Effect>,
    undo: Vec<Undo>,
}

/// What the next member finds before it: the log, and the members before it.
struct Candidates<'a> {
    view: &'a Mutex<View>,
    first_seq: u64,
    events: Vec<Event>,
}

impl EarlierEvents for Candidates<'_> {
    fn event(&self, seq: u64) -> Option<Event> {
        match seq.checked_sub(self.first_seq) {
            Some(index) => self.events.get(usize::try_from(index).ok()?).cloned(),
            None => lock(self.view).log.get(seq).cloned(),
        }
    }
}

impl Acceptance<'_> {
    fn judge_all(&mut self, writer: &mut Writer, drafts: &[EventDraft], hub: &Hub) -> Result<()> {
        for (index, draft) in drafts.iter().enumerate() {
            let seq = writer.surface.next_seq();
            let judged = judge(writer, draft, &self.earlier, hub).map_err(|error| {
                error.with_index(index as u64).with_seq(seq).with_event_type(draft.kind())
            })?;
            let Judged { event, effect, stored } = judged;
            if let (Some(checker), Some(stored)) = (&mut writer.checker, stored) {
                checker.commit(stored);
            }
            self.undo.push(writer.surface.apply(seq, &effect));
            self.effects.push(effect);
            self.earlier.events.push(event);
        }
        Ok(())
    }
}

/// An event that may come next, and what it would do.
struct Judged {
    event: Event,
    effect: Effect,
    /// What it does to the rules of stored logs, where they are asked.
    stored: Option<StoredEffect>,
}

/// Judges the next event; nothing has changed then.
fn judge(writer: &Writer, draft: &EventDraft, earlier: &Candidates<'_>, hub: &Hub) -> Result<Judged> {
    let seq = writer.surface.next_seq();
    check_draft(draft, seq, hub)?;
    let (event, verdict) = draft.build_judged(seq, hub.storage.now_unix_ms())?;
    if draft.is_ignorable() {
        super::surface::no_metadata(&event)?;
    }
    let rules = Rules { projections: &hub.projections, vocabulary: &hub.vocabulary };
    let effect = writer.surface.judge(&event, &verdict, earlier, rules, false)?;
    let Some(checker) = &writer.checker else { return Ok(Judged { event, effect, stored: None }) };
    if is_inherited_marker(event.kind(), event.data()) {
        // A log takes it with the seed alone: accepted here, it and all that follows would wait for ever.
        let message = "a marker that ends what is inherited is written with the seed, and never again";
        return Err(refused("INHERITED_MARKER_NOT_LAST", message));
    }
    let stored = checker.judge_seen(&event, &verdict).map_err(|breach| unreadable(&breach, &event))?;
    match stored.doubt() {
        Some(doubt) => Err(unreadable(doubt, &event)),
        None => Ok(Judged { event, effect, stored: Some(stored) }),
    }
}

fn check_draft(draft: &EventDraft, seq: u64, hub: &Hub) -> Result<()> {
    if let Some(given) = draft.seq().filter(|&given| given != seq) {
        let error = refused("SEQ_NOT_CONTIGUOUS", format!("seq {given} was given, the next is {seq}"));
        return Err(error.with_expected(seq).with_got(given));
    }
    if draft.is_ignorable() || hub.vocabulary.is_known(draft.kind()) {
        return Ok(());
    }
    let message = format!("`{}` is not an event type this library knows", draft.kind());
    Err(refused("UNKNOWN_EVENT_TYPE", message).with_event_type(draft.kind()).with_advice(
        "use a known type, a plugin record (`plugin:<name>/<kind>`), or register the type with the store",
    ))
}

/// What no reader of the stored log would accept.
fn unreadable(breach: &Breach, event: &Event) -> Error {
    refused(breach.rule(), breach.message()).with_event_type(event.kind()).with_seq(event.seq())
}
