//! The rules that bind the rows of a log to each other (`format.md` 5.5 and appendix B, `events.md` 11), as one incremental checker
//! for stored and for live logs.
//!
//! [`LogChecker`] sees each event once, in order. [`judge`](LogChecker::judge) says what an event would do and changes nothing,
//! [`commit`](LogChecker::commit) does it; a batch is judged event by event and taken back as a whole if one of them is refused.
//! Nothing is allocated for an event but what has to be remembered of it.
//!
//! Two rules cannot be decided when their row is met: a turn bracket inside a compaction is legal if a `session/end-seed` comes
//! before the compaction's end, and what lies before the last inherited marker is not judged by A12 and A13. Such rows leave a doubt
//! behind, which a later row clears or [`finish`](LogChecker::finish) reports.
//!
//! | File | Holds |
//! | --- | --- |
//! | `state` | what is remembered, how an event changes it, how that is taken back |
//! | `brackets` | turns, steps, tool calls (A14 to A17) |
//! | `surface_rules` | joining and replacing (A19) |
//! | `requests` | headers, developer messages, retries, nested runs (A10, A18, A21, A22) |
//! | `compactions` | compactions and their checkpoints (A20, A25) |
//! | `citations` | deliveries, catalogs, titles, commands (A11 to A13, A23, A24) |
//! | `equality` | equality of JSON values |

mod brackets;
mod citations;
mod compactions;
mod equality;
mod requests;
mod state;
mod surface_rules;
#[cfg(test)]
mod tests;

use super::header::SessionHeader;
use crate::event::breach::{Breach, Stage};
use crate::event::facts::{Links, RowKind};
use crate::event::verdict::{RowVerdict, judge_single};
use crate::event::{Event, Vocabulary};
pub(crate) use equality::is_equal;
use state::{Change, State, SurfaceChange, Undo};
use std::borrow::Cow;
use std::sync::Arc;

/// Checks the events of one log, in order.
///
/// ```
/// use dsh_session_core::event::{Event, Vocabulary};
/// use dsh_session_core::format::header::SessionHeader;
/// use dsh_session_core::format::relationships::LogChecker;
/// # fn main() -> dsh_session_core::Result<()> {
/// let mut checker = LogChecker::new(&SessionHeader::new("s1", 1), Vocabulary::default());
/// checker.check(&Event::from_row(br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#)?).unwrap();
/// let early = Event::from_row(br#"{"type":"step/end","seq":1,"time":1,"data":{"turn":1,"step":1}}"#)?;
/// assert_eq!(checker.check(&early).unwrap_err().rule(), "A14");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LogChecker {
    session_id: Box<str>,
    cut: Cut,
    vocabulary: Vocabulary,
    state: State,
    /// What a batch would have to take back; `None` outside one.
    journal: Option<Vec<Undo>>,
}

/// Where the events of a fork's parent end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    At(u64),
    /// At the last inherited marker, which may be still to come.
    AtLastMarker,
}

/// What an event that was judged good does; to be committed before the next one is judged.
#[derive(Debug)]
pub struct Effect {
    seq: u64,
    surface: SurfaceChange,
    head: Option<u64>,
    change: Change,
    doubt: Option<(DoubtKind, Box<Breach>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoubtKind {
    UnlessInherited,
    UnlessOrphaned,
}

impl Effect {
    /// The breach that the log has from here on unless a later event clears it. A program that writes a log should refuse the event.
    #[must_use]
    pub fn doubt(&self) -> Option<&Breach> {
        self.doubt.as_ref().map(|(_, breach)| &**breach)
    }
}

/// What a rule says of a row.
type Judged<T = Change> = Result<T, Breach>;

/// A broken rule that binds rows.
fn broken<T>(rule: &'static str, message: impl Into<Cow<'static, str>>) -> Judged<T> {
    Err(Breach::new(Stage::Relationship, rule, message))
}

/// Breaks `rule` unless something holds.
fn require(holds: bool, rule: &'static str, message: &'static str) -> Judged<()> {
    if holds { Ok(()) } else { broken(rule, message) }
}

impl LogChecker {
    /// For an empty log with this header. In a seeded log, the last inherited marker tells which events are inherited.
    #[must_use]
    pub fn new(header: &SessionHeader, vocabulary: Vocabulary) -> LogChecker {
        let cut = if header.is_seeded { Cut::AtLastMarker } else { Cut::At(0) };
        LogChecker {
            session_id: header.id.as_str().into(),
            cut,
            vocabulary,
            state: State::new(),
            journal: None,
        }
    }

    /// The same where it is known how many events are inherited.
    #[must_use]
    pub fn with_inherited_count(
        header: &SessionHeader,
        inherited_event_count: u64,
        vocabulary: Vocabulary,
    ) -> LogChecker {
        LogChecker { cut: Cut::At(inherited_event_count), ..LogChecker::new(header, vocabulary) }
    }

    /// Fixes how many events are inherited once the log was read to its end: from here on no marker may move the cut, so what A12
    /// and A13 say of an event is final.
    pub(crate) fn settle_cut(&mut self, inherited_event_count: u64) {
        self.cut = Cut::At(inherited_event_count);
    }

    /// The same in a log with this header that inherits every event so far, and was judged by no other rules so far than this one: what
    /// depends on whose events they are is asked of inherited ones no more.
    pub(crate) fn continued_in(self, header: &SessionHeader, inherited_event_count: u64) -> LogChecker {
        let (session_id, cut) = (header.id.as_str().into(), Cut::At(inherited_event_count));
        LogChecker { session_id, cut, ..self }
    }

    /// Judges the next event by every rule, row admission and vocabulary included, and changes nothing.
    ///
    /// # Errors
    /// The first rule broken, in the order of [`Stage`].
    pub fn judge(&self, event: &Event) -> Result<Effect, Breach> {
        self.judge_seen(event, &RowVerdict::of_event(event))
    }

    /// As [`judge`](Self::judge), of an event whose verdict is known.
    pub(crate) fn judge_seen(&self, event: &Event, verdict: &RowVerdict) -> Result<Effect, Breach> {
        match self.judge_single(event, verdict) {
            Some(breach) => Err(breach),
            None => self.judge_relationships(event, verdict),
        }
    }

    /// Makes the change of an event that was just judged.
    pub fn commit(&mut self, effect: Effect) {
        let Effect { seq, surface, head, change, doubt } = effect;
        let undo = self.state.apply(seq, surface, head, change, self.journal.is_some());
        if let (Some(journal), Some(undo)) = (&mut self.journal, undo) {
            journal.push(undo);
        }
        // After the copy that `apply` keeps, so that taking the event back takes its doubt back too.
        if let Some((kind, breach)) = doubt {
            let slot = match kind {
                DoubtKind::UnlessInherited => &mut self.state.now.unless_inherited,
                DoubtKind::UnlessOrphaned => &mut self.state.now.unless_orphaned,
            };
            slot.get_or_insert_with(|| Arc::new(breach.of_earlier(seq)));
        }
    }

    /// Judges the next event and, if it is good, commits it.
    ///
    /// # Errors
    /// As [`judge`](Self::judge); nothing has changed then.
    pub fn check(&mut self, event: &Event) -> Result<(), Breach> {
        let effect = self.judge(event)?;
        self.commit(effect);
        Ok(())
    }

    /// Begins a batch: what is committed from here on can be taken back. A batch that was begun before goes on.
    pub fn begin_batch(&mut self) {
        self.journal.get_or_insert_default();
    }

    /// Ends the batch; its events stay.
    pub fn keep_batch(&mut self) {
        self.journal = None;
    }

    /// Ends the batch and takes back everything committed since it began.
    pub fn undo_batch(&mut self) {
        for undo in self.journal.take().unwrap_or_default().into_iter().rev() {
            self.state.undo(undo);
        }
    }

    /// Whether the log may end here. It may end in open turns and steps, but not with a breach that no later event cleared.
    ///
    /// # Errors
    /// The earliest such breach, with its [`earlier_seq`](Breach::earlier_seq).
    pub fn finish(&self) -> Result<(), Breach> {
        self.doubts().min_by_key(|breach| breach.earlier_seq()).map_or(Ok(()), |breach| Err(breach.clone()))
    }

    /// Breaches that a later event may clear.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = &Breach> {
        let now = &self.state.now;
        [&now.unless_inherited, &now.unless_orphaned].into_iter().flatten().map(|breach| &**breach)
    }

    /// Whether a tool call that waits for its result keeps the text of a log in memory.
    pub(crate) fn holds_text(&self) -> bool {
        !self.state.calls.is_empty()
    }

    /// The rules of a single row.
    pub(crate) fn judge_single(&self, event: &Event, verdict: &RowVerdict) -> Option<Breach> {
        judge_single(event, verdict, &self.vocabulary)
    }

    /// The rules that bind rows, for an event that keeps those of single rows.
    pub(crate) fn judge_relationships(&self, event: &Event, verdict: &RowVerdict) -> Result<Effect, Breach> {
        let mut effect = Effect {
            seq: event.seq(),
            surface: SurfaceChange::None,
            head: self.state.now.head,
            change: Change::None,
            doubt: None,
        };
        if verdict.kind.is_surface() {
            self.judge_surface(event, verdict.kind, &mut effect)?;
        }
        effect.change = self.judge_kind(event, verdict, &mut effect.doubt)?;
        Ok(effect)
    }

    fn judge_kind(
        &self,
        event: &Event,
        verdict: &RowVerdict,
        doubt: &mut Option<(DoubtKind, Box<Breach>)>,
    ) -> Judged {
        match &verdict.links {
            Links::None => {}
            Links::Step(step) => {
                return match verdict.kind {
                    RowKind::TurnStart => self.turn_start(*step, doubt),
                    RowKind::TurnEnd => self.turn_end(*step, doubt),
                    RowKind::StepStart => self.step_start(*step),
                    RowKind::StepEnd => self.step_end(*step),
                    _ => self.inside_step(*step).map(|()| Change::None),
                };
            }
            Links::Call { step, call } => return self.tool_call(event, *step, *call),
            Links::Developer { step, header_seq, additions } => {
                return self.developer_message(event, *step, header_seq.get(), additions);
            }
            Links::Assistant { step, has_other_block, calls } => {
                return self.assistant_message(event, *step, *has_other_block, calls);
            }
            Links::ToolResult { step, call_id, is_not_started } => {
                return self.tool_result(event, *step, *call_id, *is_not_started);
            }
            Links::User { is_human, checkpoint } => return self.user_message(event, *is_human, *checkpoint),
            Links::Header { has_config, provider, tools } => {
                return self.request_header(event, *has_config, *provider, *tools);
            }
            Links::Slots { has_unnamed, is_title_prompt } => {
                require(
                    !has_unnamed,
                    "A11",
                    "a message in the list is malformed, or does not say who made it",
                )?;
                if verdict.kind == RowKind::TitleRequest {
                    return self.title_request(event, *is_title_prompt);
                }
                return Ok(Change::None);
            }
        }
        let data = event.data();
        match verdict.kind {
            RowKind::DispatchStart => self.dispatch_start(data),
            RowKind::Dispatch => self.dispatch(data),
            RowKind::RequestContext => self.request_context(data),
            RowKind::Retry => self.retry(data),
            RowKind::RetryStarted => self.retry_started(data),
            RowKind::Title => self.title(event),
            RowKind::CommandRun => self.command_run(data),
            RowKind::CommandDone => self.command_done(event),
            RowKind::CompactionStart => self.compaction_start(data),
            RowKind::CompactionSummary => self.compaction_summary(event),
            RowKind::CompactionPrune => self.compaction_prune(event),
            RowKind::CompactionEnd => self.compaction_end(data),
            RowKind::EndSeed => Ok(Change::EndSeed { is_inherited: is_inherited(event) }),
            RowKind::Delivery => self.delivery(event, doubt),
            RowKind::Catalog => self.catalog(event, doubt),
            _ => Ok(Change::None),
        }
    }

    /// Notes a breach that only counts if the row is not inherited.
    fn unless_inherited(
        &self,
        seq: u64,
        judged: Judged,
        doubt: &mut Option<(DoubtKind, Box<Breach>)>,
    ) -> Judged {
        match (self.cut, judged) {
            (Cut::At(cut), Err(_)) if seq < cut => Ok(Change::None),
            (Cut::AtLastMarker, Err(breach)) => {
                *doubt = Some((DoubtKind::UnlessInherited, Box::new(breach)));
                Ok(Change::None)
            }
            (_, judged) => judged,
        }
    }
}

fn is_inherited(event: &Event) -> bool {
    crate::event::row::is_inherited_marker(event.kind(), event.data())
}
