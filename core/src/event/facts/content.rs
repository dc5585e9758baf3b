//! Content blocks: which sorts stand in an array, and what is wrong with them.

use super::{is_positive, is_text, is_word};
use crate::json::{Cursor, Json, JsonError, Kind};

/// What a content array is part of; it decides how closely the blocks are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    System,
    Developer,
    Assistant,
    Other,
}

/// What the rules want to know of a content array.
#[derive(Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) is_array: bool,
    pub(crate) block_count: usize,
    /// A block that is no object.
    pub(crate) has_other_block: bool,
    /// A block of the retired type `tool-result`.
    pub(crate) has_result: bool,
    /// A `tool-addition` or `tool-removal`.
    pub(crate) has_change: bool,
    /// Whether the first block is of type `text` and has a text.
    pub(crate) begins_with_text: bool,
    /// Developer messages: the `toolName` of each addition.
    pub(crate) additions: Vec<Json<'a>>,
    /// Developer messages: the first bad tool-change block.
    pub(crate) change_fault: Option<&'static str>,
    /// System messages: the first bad block.
    pub(crate) system_fault: Option<&'static str>,
    /// Assistant messages: the tool calls that they advertise.
    pub(crate) calls: Vec<Call<'a>>,
}

/// A `tool-call` block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call<'a> {
    pub(crate) id: Option<Json<'a>>,
    pub(crate) name: Option<Json<'a>>,
    pub(crate) arguments: Option<Json<'a>>,
}

#[derive(Default)]
struct Block<'a> {
    kind: Option<Json<'a>>,
    text: Option<Json<'a>>,
    call: Call<'a>,
    tool_name: Option<Json<'a>>,
    has_tool: bool,
    attachment: Option<Json<'a>>,
}

impl<'a> Content<'a> {
    /// Takes over what another content has allocated, emptied.
    pub(super) fn take_room(&mut self, other: &mut Content<'a>) {
        self.calls = std::mem::take(&mut other.calls);
        self.calls.clear();
        self.additions = std::mem::take(&mut other.additions);
        self.additions.clear();
    }

    /// Reads an array of blocks into the default content.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'a>, place: Place) -> Result<(), JsonError> {
        self.is_array = cursor.kind() == Kind::Array;
        cursor.elements(|cursor| {
            if cursor.kind() == Kind::Object {
                let block = Block::read(cursor)?;
                self.add(&block, place);
            } else {
                self.has_other_block = true;
                self.note_system_fault("a block is no object", place);
            }
            self.block_count += 1;
            Ok(())
        })?;
        Ok(())
    }

    /// Whether it is exactly one block, and that a text.
    pub(crate) fn is_one_text(&self) -> bool {
        self.block_count == 1 && self.begins_with_text
    }

    fn add(&mut self, block: &Block<'a>, place: Place) {
        let kind = block.kind.and_then(|kind| kind.as_str());
        match kind.as_deref() {
            Some("text") if self.block_count == 0 => {
                self.begins_with_text = block.text.is_some_and(|text| text.kind() == Kind::String);
            }
            Some("tool-result") => self.has_result = true,
            Some("tool-addition") => self.add_change(block, place, true),
            Some("tool-removal") => self.add_change(block, place, false),
            Some("tool-call") if place == Place::Assistant => self.calls.push(block.call),
            _ => {}
        }
        if place == Place::System
            && let Some(fault) = block.system_fault(kind.as_deref())
        {
            self.note_system_fault(fault, place);
        }
    }

    fn add_change(&mut self, block: &Block<'a>, place: Place, is_addition: bool) {
        self.has_change = true;
        if place != Place::Developer {
            return;
        }
        if !is_text(block.tool_name) {
            self.change_fault.get_or_insert("a tool-change block has no `toolName`");
        }
        if is_addition {
            if block.has_tool {
                self.change_fault.get_or_insert("a `tool-addition` has a `tool`");
            }
            self.additions.push(block.tool_name.unwrap_or(Json::trusted("null")));
        }
    }

    fn note_system_fault(&mut self, fault: &'static str, place: Place) {
        if place == Place::System {
            self.system_fault.get_or_insert(fault);
        }
    }
}

impl<'a> Block<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Block<'a>, JsonError> {
        let mut block = Block::default();
        cursor.members(|key, cursor| {
            let slot = match &*key {
                "type" => &mut block.kind,
                "text" => &mut block.text,
                "id" => &mut block.call.id,
                "name" => &mut block.call.name,
                "arguments" => &mut block.call.arguments,
                "toolName" => &mut block.tool_name,
                "attachment" => &mut block.attachment,
                "tool" => {
                    block.has_tool = true;
                    return Ok(());
                }
                _ => return Ok(()),
            };
            *slot = Some(cursor.value()?);
            Ok(())
        })?;
        Ok(block)
    }

    /// What makes it no block of a system message (R8). Blocks of unknown types pass.
    fn system_fault(&self, kind: Option<&str>) -> Option<&'static str> {
        let is_string = |value: Option<Json<'_>>| value.is_some_and(|value| value.kind() == Kind::String);
        let call = &self.call;
        match kind {
            None | Some("") => Some("a block has no `type`"),
            Some("text" | "reasoning") if !is_string(self.text) => Some("a text block has no `text`"),
            Some("tool-call") if !is_text(call.id) || !is_text(call.name) || !is_string(call.arguments) => {
                Some("a tool call lacks `id`, `name` or `arguments`")
            }
            Some("image") if !is_image(self.attachment) => Some("the attachment of an image is malformed"),
            Some("tool-result") => Some("a block is of the retired type `tool-result`"),
            Some(_) => None,
        }
    }
}

/// Whether a value is an image attachment (`format.md` 5.2, R8).
fn is_image(attachment: Option<Json<'_>>) -> bool {
    const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
    let Some(image) = attachment.filter(|value| value.kind() == Kind::Object) else { return false };
    let has_sides = |value: Json<'_>| is_positive(value.get("width")) && is_positive(value.get("height"));
    is_text(image.get("attachmentId"))
        && MEDIA_TYPES.iter().any(|media_type| is_word(image.get("mediaType"), media_type))
        && image.get("bytes").is_some_and(|bytes| bytes.as_count().is_some())
        && has_sides(image)
        && image.get("name").is_none_or(|name| name.kind() == Kind::String)
        && image
            .get("originalDimensions")
            .is_none_or(|sides| sides.kind() == Kind::Object && has_sides(sides))
}
