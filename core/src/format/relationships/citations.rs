//! Rows that name other rows or other logs: deliveries (A12), catalogs (A13), titles (A23), commands (A24).

use super::brackets::object;
use super::requests::key;
use super::state::Change;
use super::{Cut, DoubtKind, Judged, LogChecker, broken, require};
use crate::event::Event;
use crate::event::breach::Breach;
use crate::event::facts::{is_object, is_text, is_word, members};
use crate::format::header::FORMAT_VERSION;
use crate::json::{Json, Kind};

type DoubtSlot = Option<(DoubtKind, Box<Breach>)>;

impl LogChecker {
    pub(super) fn delivery(&self, event: &Event, doubt: &mut DoubtSlot) -> Judged {
        const RULE: &str = "A12";
        object(event.data(), RULE)?;
        let [session, version, through] =
            members(event.data(), ["sessionId", "sessionFormatVersion", "throughSeq"]);
        let version = match version {
            None => 0,
            Some(version) => match version.as_count() {
                Some(version) => version,
                None => return broken(RULE, "`sessionFormatVersion` of a delivery is not a count"),
            },
        };
        if version != u64::from(FORMAT_VERSION) {
            return Ok(Change::None);
        }
        let is_earlier = through.and_then(|seq| seq.as_count()).is_some_and(|through| through < event.seq());
        require(is_earlier, RULE, "`throughSeq` of a delivery is not an earlier event")?;
        require(is_text(session), RULE, "a delivery has no `sessionId`")?;
        let is_own = require(is_word(session, &self.session_id), RULE, "a delivery names another session");
        self.unless_inherited(event.seq(), is_own.map(|()| Change::None), doubt)
    }

    pub(super) fn catalog(&self, event: &Event, doubt: &mut DoubtSlot) -> Judged {
        if matches!(self.cut, Cut::At(cut) if event.seq() < cut) {
            return Ok(Change::None);
        }
        self.unless_inherited(event.seq(), self.catalog_entry(event.data()), doubt)
    }

    fn catalog_entry(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A13";
        object(data, RULE)?;
        let [child, created, version, mode, label] =
            members(data, ["childId", "childCreatedAt", "version", "mode", "label"]);
        let is_string = |value: Option<Json<'_>>| value.is_some_and(|value| value.kind() == Kind::String);
        require(is_string(child), RULE, "a catalog entry has no `childId`")?;
        let is_created = created.is_some_and(|created| created.as_count().is_some());
        require(is_created, RULE, "`childCreatedAt` of a catalog entry is not a count")?;
        let version = version.and_then(|version| version.as_count());
        let mode = mode.and_then(|mode| mode.as_str());
        let fits = matches!(
            (version, mode.as_deref()),
            (Some(0 | 1), Some("continuable" | "one-shot"))
                | (Some(1), Some("unknown"))
                | (Some(2), Some("external"))
        );
        require(fits, RULE, "`version` and `mode` of a catalog entry do not fit together")?;
        require(label.is_none() || is_string(label), RULE, "`label` of a catalog entry is no string")?;
        let has_label = label.is_some() || mode.as_deref() != Some("continuable");
        require(has_label, RULE, "the catalog entry of a continuable child has no `label`")?;
        let child = key(child);
        require(!self.state.catalog.contains(&child), RULE, "a child has two catalog entries")?;
        Ok(Change::Catalog(child))
    }

    pub(super) fn title(&self, event: &Event) -> Judged {
        const RULE: &str = "A23";
        let [seqs, source] = members(event.data(), ["messageSeqs", "source"]);
        require(is_object(source), RULE, "a title has no `source`")?;
        let is_by_user = source.is_some_and(|source| is_word(source.get("kind"), "user"));
        let count = self.cited_messages(event.seq(), seqs)?;
        require((count == 0) == is_by_user, RULE, "a title cites messages exactly if no user gave it")?;
        Ok(Change::None)
    }

    pub(super) fn title_request(&self, event: &Event, is_title_prompt: bool) -> Judged {
        const RULE: &str = "A23";
        let [seqs] = members(event.data(), ["messageSeqs"]);
        let count = self.cited_messages(event.seq(), seqs)?;
        require(count > 0, RULE, "a request for a title cites no message")?;
        require(is_title_prompt, RULE, "a request for a title is not one user message with one text")?;
        Ok(Change::None)
    }

    /// How many messages are cited: distinct earlier ones that a person wrote.
    fn cited_messages(&self, seq: u64, seqs: Option<Json<'_>>) -> Judged<usize> {
        const RULE: &str = "A23";
        let Some(seqs) = seqs.filter(|seqs| seqs.kind() == Kind::Array) else {
            return broken(RULE, "`messageSeqs` is not an array");
        };
        let mut cited = Vec::new();
        for element in seqs.elements() {
            let human = element
                .as_count()
                .filter(|cited| *cited < seq && self.state.human_messages.binary_search(cited).is_ok());
            match human {
                Some(seq) => cited.push(seq),
                None => {
                    return broken(
                        RULE,
                        "`messageSeqs` names an event that is no earlier message of a person",
                    );
                }
            }
        }
        let count = cited.len();
        cited.sort_unstable();
        cited.dedup();
        require(cited.len() == count, RULE, "`messageSeqs` names a message twice")?;
        Ok(count)
    }

    pub(super) fn command_run(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A24";
        let [id] = members(data, ["commandId"]);
        require(is_text(id), RULE, "a command has no `commandId`")?;
        let id = key(id);
        require(!self.state.commands.contains(&id), RULE, "a command runs twice")?;
        Ok(Change::CommandRun(id))
    }

    pub(super) fn command_done(&self, event: &Event) -> Judged {
        const RULE: &str = "A24";
        let [id, kind, source] = members(event.data(), ["commandId", "kind", "sourceEventSeq"]);
        require(self.state.commands.contains(&key(id)), RULE, "a command is done that never ran")?;
        if let Some(source) = source {
            let source = source.as_count().filter(|source| *source < event.seq());
            let Some(source) = source else {
                return broken(RULE, "`sourceEventSeq` of a command is not an earlier event");
            };
            require(is_word(kind, "success"), RULE, "a command that did not succeed names a source event")?;
            let is_command = self.state.command_rows.binary_search(&source).is_ok();
            require(!is_command, RULE, "`sourceEventSeq` of a command names a command row")?;
        }
        Ok(Change::CommandDone)
    }
}
