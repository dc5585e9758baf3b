//! What the rules want to know of a row's `data`.

use super::content::Place;
use super::{Call, Content, Message, RowKind, is_word};
use crate::json::{Cursor, Json, JsonError, Kind};

/// The facts of one `data`. What a type does not have stays at its default.
#[derive(Debug, Default)]
pub(crate) struct Payload<'a> {
    pub(crate) kind: RowKind,
    pub(crate) is_object: bool,
    pub(crate) turn: Option<Json<'a>>,
    pub(crate) step: Option<Json<'a>>,
    /// The message of the five message types and of `team/message/queued`.
    pub(crate) message: Message<'a>,
    /// `error` of a `tool/result`.
    pub(crate) error: Option<ErrorNote<'a>>,
    pub(crate) header_seq: Option<Json<'a>>,
    pub(crate) reason: Option<Json<'a>>,
    pub(crate) header: Header<'a>,
    /// Whether `stream` is an array.
    pub(crate) has_stream: bool,
    pub(crate) stream_fault: Option<StreamFault>,
    /// What a `tool/call` calls.
    pub(crate) call: Call<'a>,
    /// The messages of an inbox splice or a title request.
    pub(crate) slots: Slots,
    /// Blocks outside messages: of a compaction's `summary` and `rawOutput`, or of a nested run's `content`.
    pub(crate) loose_result: bool,
    pub(crate) loose_change: bool,
}

/// `error` of a tool result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ErrorNote<'a> {
    pub(crate) name: Option<Json<'a>>,
    pub(crate) code: Option<Json<'a>>,
}

/// `header` of a `request/header`.
#[derive(Debug, Default)]
pub(crate) struct Header<'a> {
    pub(crate) is_object: bool,
    pub(crate) has_system: bool,
    pub(crate) has_config: bool,
    pub(crate) provider: Option<Json<'a>>,
    pub(crate) tools: Option<Json<'a>>,
    pub(crate) has_empty_tools: bool,
    pub(crate) has_bad_defer_loading: bool,
    pub(crate) has_empty_defaults: bool,
}

/// Messages in a list.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) is_array: bool,
    pub(crate) count: usize,
    pub(crate) fault: Option<SlotFault>,
    /// An element that is no object, or does not say who made it.
    pub(crate) has_unnamed: bool,
    /// Whether the last message is what a title request asks with.
    pub(crate) is_title_prompt: bool,
}

/// What a message outside `developer/message` must not be (R3 to R5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotFault {
    PluginSource,
    DeveloperRole,
    ToolChange,
    ToolResult,
}

/// A chunk of a stream that announces or ends a block of a type it must not (R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFault {
    Start,
    End,
}

impl Message<'_> {
    /// The first of R3 to R5 that the message breaks as a slot; `allows_result` where another rule judges nested results.
    pub(crate) fn slot_fault(&self, allows_result: bool) -> Option<SlotFault> {
        if !self.is_object {
            return None;
        }
        if self.source.is_kind("plugin") {
            return Some(SlotFault::PluginSource);
        }
        if self.has_role("developer") {
            return Some(SlotFault::DeveloperRole);
        }
        if self.content.has_change {
            return Some(SlotFault::ToolChange);
        }
        (self.content.has_result && !allows_result).then_some(SlotFault::ToolResult)
    }
}

impl<'a> Payload<'a> {
    /// Makes it the default payload again; what it has allocated stays for the next row.
    pub(crate) fn clear(&mut self) {
        if self.kind.is_short() {
            // The facts of short rows are few, and half of all rows are such.
            (self.kind, self.is_object) = (RowKind::Unknown, false);
            (self.turn, self.step, self.call) = (None, None, Call::default());
        } else if self.kind != RowKind::Unknown {
            let mut content = Content::default();
            content.take_room(&mut self.message.content);
            *self = Payload { message: Message { content, ..Message::default() }, ..Payload::default() };
        }
    }

    /// Reads the `data` of a row of this kind into the default payload. In place, as everything large here: it is read for nearly
    /// every row, and most rows are shorter than it.
    pub(crate) fn read(&mut self, kind: RowKind, cursor: &mut Cursor<'a>) -> Result<(), JsonError> {
        self.kind = kind;
        self.is_object = cursor.kind() == Kind::Object;
        self.message.is_object = self.is_object && kind == RowKind::UserMessage;
        cursor.members(|key, cursor| self.member(&key, cursor))?;
        Ok(())
    }

    fn member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<(), JsonError> {
        use RowKind as R;
        match (self.kind, key) {
            (R::UserMessage, _) => self.message.member(key, cursor, Place::Other)?,
            (_, "turn") => self.turn = Some(cursor.value()?),
            (_, "step") => self.step = Some(cursor.value()?),
            (R::CompactionSummary, "summary" | "rawOutput") | (R::Dispatch, "content") => {
                let mut content = Content::default();
                content.read(cursor, Place::Other)?;
                self.loose_result |= content.has_result;
                self.loose_change |= content.has_change;
            }
            (R::InboxSpliced, "inserted") | (R::TitleRequest, "messages") => {
                self.slots = Slots::read(cursor)?
            }
            (R::RequestHeader, "header") => self.header = Header::read(cursor)?,
            (R::RequestHeader, "reason") => self.reason = Some(cursor.value()?),
            (R::AssistantMessage | R::AssistantAttempt, "stream") => {
                self.has_stream = cursor.kind() == Kind::Array;
                self.stream_fault = read_stream(cursor)?;
            }
            (R::ToolResult, "error") => self.error = Some(ErrorNote::read(cursor)?),
            (R::DeveloperMessage, "headerSeq") => self.header_seq = Some(cursor.value()?),
            (kind, "message") if kind.is_surface() || kind == R::TeamMessageQueued => {
                let place = match kind {
                    R::SystemMessage => Place::System,
                    R::DeveloperMessage => Place::Developer,
                    R::AssistantMessage => Place::Assistant,
                    _ => Place::Other,
                };
                self.message = Message::default();
                self.message.read(cursor, place)?;
            }
            (R::ToolCall, "callId") => self.call.id = Some(cursor.value()?),
            (R::ToolCall, "name") => self.call.name = Some(cursor.value()?),
            (R::ToolCall, "arguments") => self.call.arguments = Some(cursor.value()?),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn has_error_code(&self, code: &str) -> bool {
        self.error.is_some_and(|error| is_word(error.code, code))
    }

    pub(crate) fn has_error_name(&self, name: &str) -> bool {
        self.error.is_some_and(|error| is_word(error.name, name))
    }
}

impl<'a> ErrorNote<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<ErrorNote<'a>, JsonError> {
        let mut note = ErrorNote::default();
        cursor.members(|key, cursor| {
            match &*key {
                "name" => note.name = Some(cursor.value()?),
                "code" => note.code = Some(cursor.value()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(note)
    }
}

impl<'a> Header<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Header<'a>, JsonError> {
        let mut header = Header { is_object: cursor.kind() == Kind::Object, ..Header::default() };
        cursor.members(|key, cursor| {
            match &*key {
                "system" => header.has_system = true,
                "config" => header.read_config(cursor)?,
                "tools" => header.read_tools(cursor)?,
                "adapterDefaults" => {
                    let is_object = cursor.kind() == Kind::Object;
                    let mut count = 0;
                    cursor.members(|_, _| {
                        count += 1;
                        Ok(())
                    })?;
                    header.has_empty_defaults = is_object && count == 0;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(header)
    }

    fn read_config(&mut self, cursor: &mut Cursor<'a>) -> Result<(), JsonError> {
        self.has_config = cursor.kind() == Kind::Object;
        self.provider = None;
        cursor.members(|key, cursor| {
            if key == "provider" {
                self.provider = Some(cursor.value()?);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn read_tools(&mut self, cursor: &mut Cursor<'a>) -> Result<(), JsonError> {
        let is_array = cursor.kind() == Kind::Array;
        let mut count = 0;
        self.has_bad_defer_loading = false;
        self.tools = Some(cursor.elements(|cursor| {
            count += 1;
            cursor.members(|key, cursor| {
                if key == "deferLoading" {
                    self.has_bad_defer_loading |= cursor.value()?.as_bool() != Some(true);
                }
                Ok(())
            })?;
            Ok(())
        })?);
        self.has_empty_tools = is_array && count == 0;
        Ok(())
    }
}

impl Slots {
    fn read(cursor: &mut Cursor<'_>) -> Result<Slots, JsonError> {
        let mut slots = Slots { is_array: cursor.kind() == Kind::Array, ..Slots::default() };
        cursor.elements(|cursor| {
            let mut message = Message::default();
            message.read(cursor, Place::Other)?;
            slots.count += 1;
            slots.fault = slots.fault.or_else(|| message.slot_fault(false));
            slots.has_unnamed |= !message.is_object || !message.source.has_kind();
            slots.is_title_prompt = message.has_role("user")
                && message.source.is_kind("dsh-session-title-llm")
                && message.content.is_one_text();
            Ok(())
        })?;
        Ok(slots)
    }
}

/// The first bad chunk of a stream. Packed runs, which are nearly all of a stream, are passed over.
fn read_stream(cursor: &mut Cursor<'_>) -> Result<Option<StreamFault>, JsonError> {
    let mut fault = None;
    cursor.elements(|cursor| {
        let (mut kind, mut chunk_fault) = (None, None);
        cursor.members(|key, cursor| {
            match &*key {
                "type" => kind = Some(cursor.value()?),
                "chunk" => chunk_fault = read_chunk(cursor)?,
                _ => {}
            }
            Ok(())
        })?;
        if chunk_fault.is_some() && is_word(kind, "chunk") {
            fault = fault.or(chunk_fault);
        }
        Ok(())
    })?;
    Ok(fault)
}

fn read_chunk(cursor: &mut Cursor<'_>) -> Result<Option<StreamFault>, JsonError> {
    let is_retired = |kind: Option<Json<'_>>| {
        ["tool-result", "tool-addition", "tool-removal"].iter().any(|retired| is_word(kind, retired))
    };
    let (mut kind, mut started, mut ended) = (None, None, None);
    cursor.members(|key, cursor| {
        match &*key {
            "type" => kind = Some(cursor.value()?),
            "blockType" => started = Some(cursor.value()?),
            "block" => {
                ended = None;
                cursor.members(|key, cursor| {
                    if key == "type" {
                        ended = Some(cursor.value()?);
                    }
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(if is_retired(started) && is_word(kind, "block-start") {
        Some(StreamFault::Start)
    } else if is_retired(ended) && is_word(kind, "block-end") {
        Some(StreamFault::End)
    } else {
        None
    })
}
