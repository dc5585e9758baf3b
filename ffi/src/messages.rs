//! Messages as C sees them: a list that never changes, of views on texts that it keeps alive.

use crate::buffer::dsh_str;
use crate::errors::dsh_error;
use crate::guard::{self, look};
use crate::handle::Kind;
use crate::input::{Sized1, invalid};
use crate::output::OutStruct;
use crate::status::{DSH_OK, dsh_status};
use dsh_session_core::session::{DerivedMessage, Messages};

/// Messages as they were when they were asked for; never changes. Used by many threads at once.
pub struct dsh_messages {
    _opaque: [u8; 0],
}

/// The messages, shared with the session where nothing changed since.
#[derive(Debug)]
pub(crate) enum MessagesValue {
    Shared(Messages),
    Own(Vec<DerivedMessage>),
}

impl MessagesValue {
    fn list(&self) -> &[DerivedMessage] {
        match self {
            MessagesValue::Shared(messages) => messages,
            MessagesValue::Own(messages) => messages,
        }
    }
}

impl Kind for dsh_messages {
    type Value = MessagesValue;
    const MAGIC: u64 = 0x6473_685f_6d65_7373;
    const WORD: &'static str = "list of messages";
}

/// One message. Begin with `DSH_MESSAGE_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsh_message {
    /// `sizeof(dsh_message)`, set by the caller.
    pub struct_size: usize,
    /// The event that makes the message.
    pub seq: u64,
    /// The message: a JSON object, not ended by a NUL. Lent: it lives as long as the list.
    pub text: dsh_str,
}

impl Sized1 for dsh_message {
    const SIZE_MIN: usize = size_of::<dsh_message>();
}

/// How many messages the list has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_messages_count(messages: *const dsh_messages) -> usize {
    // SAFETY: C1.
    unsafe { look(messages, 0, |value| value.list().len()) }
}

/// One of the messages, from 0. Fails with `DSH_E_INVALID_ARGUMENT` past the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_messages_at(
    messages: *const dsh_messages,
    index: usize,
    message: *mut dsh_message,
    err: *mut *mut dsh_error,
) -> dsh_status {
    // SAFETY: C1 (messages), C4 (message), C3 (err).
    unsafe {
        guard::call(messages, err, |value| {
            let out = OutStruct::new(message, "the message")?;
            let list = value.list();
            let found = list
                .get(index)
                .ok_or_else(|| invalid(format!("there is no message {index} in a list of {}", list.len())))?;
            let struct_size = out.size();
            out.set(dsh_message { struct_size, seq: found.seq(), text: dsh_str::of(found.text()) });
            Ok(DSH_OK)
        })
    }
}

/// Frees the list and with it the texts of its messages. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsh_messages_free(messages: *mut dsh_messages) {
    // SAFETY: C1, last call.
    unsafe { guard::free(messages, |_| {}) }
}
