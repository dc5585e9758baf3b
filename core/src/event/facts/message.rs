//! Messages, and who made them.

use super::content::Place;
use super::{Content, is_text, is_word};
use crate::json::{Cursor, Json, JsonError, Kind};

/// What the rules want to know of a message.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) is_object: bool,
    pub(crate) id: Option<Json<'a>>,
    pub(crate) role: Option<Json<'a>>,
    pub(crate) source: Source<'a>,
    pub(crate) content: Content<'a>,
    pub(crate) tool_call_id: Option<Json<'a>>,
    pub(crate) is_error: Option<Json<'a>>,
}

/// A message's `source`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source<'a> {
    pub(crate) is_object: bool,
    pub(crate) kind: Option<Json<'a>>,
    pub(crate) call_id: Option<Json<'a>>,
    pub(crate) provider: Option<Json<'a>>,
    pub(crate) model: Option<Json<'a>>,
    pub(crate) compaction_id: Option<Json<'a>>,
    pub(crate) source_command_id: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    /// Reads a message into the default one.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'a>, place: Place) -> Result<(), JsonError> {
        self.is_object = cursor.kind() == Kind::Object;
        cursor.members(|key, cursor| self.member(&key, cursor, place))?;
        Ok(())
    }

    /// Takes one member; one that no rule looks at is left to be passed over.
    pub(super) fn member(
        &mut self,
        key: &str,
        cursor: &mut Cursor<'a>,
        place: Place,
    ) -> Result<(), JsonError> {
        let slot = match key {
            "id" => &mut self.id,
            "role" => &mut self.role,
            "toolCallId" => &mut self.tool_call_id,
            "isError" => &mut self.is_error,
            "source" => {
                self.source = Source::read(cursor)?;
                return Ok(());
            }
            "content" => {
                self.content = Content::default();
                return self.content.read(cursor, place);
            }
            _ => return Ok(()),
        };
        *slot = Some(cursor.value()?);
        Ok(())
    }

    pub(crate) fn has_role(&self, role: &str) -> bool {
        is_word(self.role, role)
    }

    pub(crate) fn is_error(&self) -> bool {
        self.is_error.and_then(|value| value.as_bool()) == Some(true)
    }
}

impl<'a> Source<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Source<'a>, JsonError> {
        let mut source = Source { is_object: cursor.kind() == Kind::Object, ..Source::default() };
        cursor.members(|key, cursor| {
            let slot = match &*key {
                "kind" => &mut source.kind,
                "callId" => &mut source.call_id,
                "provider" => &mut source.provider,
                "model" => &mut source.model,
                "compactionId" => &mut source.compaction_id,
                "sourceCommandId" => &mut source.source_command_id,
                _ => return Ok(()),
            };
            *slot = Some(cursor.value()?);
            Ok(())
        })?;
        Ok(source)
    }

    pub(crate) fn is_kind(&self, kind: &str) -> bool {
        is_word(self.kind, kind)
    }

    /// Whether it says who made the message, and not in the way that format 4 gave up.
    pub(crate) fn has_kind(&self) -> bool {
        is_text(self.kind) && !self.is_kind("plugin")
    }
}
