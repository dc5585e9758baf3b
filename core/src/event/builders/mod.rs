//! Events made in Rust, member by member: what is of the wrong form cannot be said, and what cannot be kept from being said by a type is
//! refused before it reaches a log.
//!
//! Each builder becomes an [`EventDraft`] by [`IntoDraft`], with its members in the order of `events.md`. Types that have none here are
//! appended as `EventDraft::new(type, json)`. Rules that bind events to each other are the session's.
//!
//! ```
//! use dsh_session_core::Store;
//! use dsh_session_core::event::builders::{EndReason, TurnEnd, TurnStart, UserMessage};
//! let store = Store::in_memory()?;
//! let session = store.create(Default::default())?;
//! session.append(TurnStart { turn: 1 })?;
//! session.append(UserMessage::text(store.mint_message_id()?, "Hello"))?;
//! session.append(TurnEnd { turn: 1, reason: EndReason::Completed })?;
//! assert_eq!(session.next_seq(), 3);
//! # Ok::<(), dsh_session_core::Error>(())
//! ```
//!
//! | File | Holds |
//! | --- | --- |
//! | `messages` | the five message events |
//! | `requests` | request header and context |
//! | `turns` | turns, steps, calls, attempts |
//! | `work` | compactions, titles, images, plugin records |

mod messages;
mod requests;
mod turns;
mod work;

pub use messages::{
    AssistantMessage, DeveloperMessage, File, Image, MediaType, NOTICE_SUMMARY_UNITS_MAX, Source,
    SystemMessage, ToolResult, UserMessage, notice_summary,
};
pub use requests::{CallConfig, HeaderReason, RequestContext, RequestHeader, Tool};
pub use turns::{
    AbortReason, AssistantAttempt, EndReason, Failure, Place, StepEnd, StepStart, ToolCall, TurnEnd,
    TurnStart, Usage,
};
pub(crate) use work::DELIVERY_FORMAT_VERSION;
pub use work::{
    CompactionEnd, CompactionPrune, CompactionStart, CompactionSummary, DeliveryAccepted, ImageOffload,
    PluginRecord, SessionTitle, Shadowed,
};

use super::EventDraft;
use super::build::not_admitted;
use crate::error::{Code, Error, Result};
use crate::json::{self, Json, Kind, ObjectText, SAFE_INTEGER_MAX};

/// What can be appended.
pub trait IntoDraft {
    /// The event before it has its place in a log.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a value that the event may not have, `LIMIT_EXCEEDED` for nesting.
    fn into_draft(self) -> Result<EventDraft>;
}

impl IntoDraft for &EventDraft {
    fn into_draft(self) -> Result<EventDraft> {
        Ok(self.clone())
    }
}

impl IntoDraft for EventDraft {
    fn into_draft(self) -> Result<EventDraft> {
        Ok(self)
    }
}

/// JSON that a caller brings: checked, lossless, printed as it will be stored.
///
/// ```
/// use dsh_session_core::event::builders::JsonText;
/// assert_eq!(JsonText::new(r#"{ "a": 1.0 }"#)?.as_str(), r#"{"a":1}"#);
/// assert!(JsonText::new("{").is_err());
/// # Ok::<(), dsh_session_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// Checks a text.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for text that is not JSON, `NOT_LOSSLESS_JSON`, `LIMIT_EXCEEDED` for nesting.
    pub fn new(text: impl AsRef<[u8]>) -> Result<JsonText> {
        json::admit(text.as_ref(), json::DEPTH_MAX_DEFAULT)
            .map(JsonText)
            .map_err(|error| not_admitted(error, "the value"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_object(&self) -> bool {
        Json::trusted(&self.0).kind() == Kind::Object
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

fn require(holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(invalid(message)) }
}

/// Adds a count that starts at 1.
fn add_ordinal(object: &mut ObjectText, key: &str, value: u64) -> Result<()> {
    require(
        (1..=SAFE_INTEGER_MAX).contains(&value),
        &format!("`{key}` is not a whole number from 1 to 2^53-1"),
    )?;
    object.number(key, value);
    Ok(())
}

/// Adds a string that must have something in it.
fn add_text(object: &mut ObjectText, key: &str, value: &str) -> Result<()> {
    require(!value.is_empty(), &format!("`{key}` is empty"))?;
    object.string(key, value);
    Ok(())
}

fn add_optional(object: &mut ObjectText, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        object.string(key, value);
    }
}

/// Adds a number; one that is not finite has no JSON.
fn add_number(object: &mut ObjectText, key: &str, value: f64) -> Result<()> {
    require(value.is_finite(), &format!("`{key}` is not a finite number"))?;
    let mut text = String::new();
    json::print_number(&mut text, value);
    object.json(key, &text);
    Ok(())
}

/// The text of an array of JSON texts.
fn array(values: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut text = String::from("[");
    for value in values {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(value.as_ref());
    }
    text.push(']');
    text
}

fn numbers(values: &[u64]) -> String {
    array(values.iter().map(u64::to_string))
}

fn strings(values: &[String]) -> String {
    array(values.iter().map(|value| {
        let mut text = String::new();
        json::print_string(&mut text, value);
        text
    }))
}
