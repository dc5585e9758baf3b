//! A position in a text that is being checked: each value is passed over or entered, and checked either way.
//!
//! This is how a row is scanned once and still looked into: whoever knows what a row may hold enters the objects and arrays
//! that matter while they are being checked. Walking a [`Json`] afterwards would go over the same bytes once for each level.

use std::borrow::Cow;

use super::error::JsonError;
use super::scan::{
    colon_end, expect_end, key_end, skip_space, string_end, unexpected_after_value, unsigned_end, value_end,
};
use super::text::{decode_string, piece};
use super::value::{Json, Kind};

/// A position before a value of a text whose beginning is known to be valid.
///
/// ```
/// use dsh_session_core::json::{Cursor, DEPTH_MAX_DEFAULT};
/// let mut cursor = Cursor::new(r#"{"turn":3,"tags":["a","b"]}"#, DEPTH_MAX_DEFAULT);
/// let (mut turn, mut tags) = (None, 0);
/// cursor.members(|key, cursor| {
///     match &*key {
///         "turn" => turn = cursor.value()?.as_count(),
///         "tags" => drop(cursor.elements(|_| { tags += 1; Ok(()) })?),
///         _ => {}
///     }
///     Ok(())
/// })?;
/// cursor.finish()?;
/// assert_eq!((turn, tags), (Some(3), 2));
/// # Ok::<(), dsh_session_core::json::JsonError>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Open containers around the position.
    depth: u32,
    depth_max: u32,
}

impl<'a> Cursor<'a> {
    /// Before the first value of a text.
    #[must_use]
    pub fn new(text: &'a str, depth_max: u32) -> Cursor<'a> {
        Cursor { text, at: skip_space(text.as_bytes(), 0), depth: 0, depth_max }
    }

    /// The byte of the text at which the next value starts, or after the one that was read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// What sort of value comes next, by its first byte; meaningless where no value does.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Json::trusted(self.text.get(self.at..).unwrap_or_default()).kind()
    }

    /// Checks the next value and passes over it.
    ///
    /// # Errors
    /// [`JsonError`] if it is no value, or too deep.
    #[inline]
    pub fn value(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        // Strings and counts are most of what is passed over one by one: the general scan costs more than they do.
        self.at = match bytes.get(start) {
            Some(b'"') => string_end(bytes, start + 1)?.quote + 1,
            Some(b'0'..=b'9') => unsigned_end(bytes, start)?,
            _ => value_end(bytes, start, self.depth, self.depth_max)?,
        };
        Ok(self.since(start))
    }

    /// Checks the next value; if it is an object, shows its members in order, repeated keys as often as they stand there.
    /// A member whose value the visitor does not touch is passed over.
    ///
    /// # Errors
    /// [`JsonError`] as [`value`](Self::value), or what the visitor returns.
    #[inline]
    pub fn members(
        &mut self,
        mut visit: impl FnMut(Cow<'a, str>, &mut Cursor<'a>) -> Result<(), JsonError>,
    ) -> Result<Json<'a>, JsonError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        if bytes.get(start) != Some(&b'{') {
            return self.value();
        }
        self.enter()?;
        if bytes.get(self.at) != Some(&b'}') {
            loop {
                let (key_start, key) = key_end(bytes, self.at)?;
                let raw = piece(self.text, key_start, key.quote);
                self.at = colon_end(bytes, key.quote + 1)?;
                let name = if key.is_escaped { decode_string(raw) } else { Cow::Borrowed(raw) };
                self.visit(|cursor| visit(name, cursor))?;
                self.at = skip_space(bytes, self.at);
                match bytes.get(self.at) {
                    Some(b',') => self.at = skip_space(bytes, self.at + 1),
                    Some(b'}') => break,
                    _ => return Err(unexpected_after_value(bytes, self.at, true)),
                }
            }
        }
        self.leave();
        Ok(self.since(start))
    }

    /// Checks the next value; if it is an array, shows its elements in order. An element that the visitor does not touch is
    /// passed over.
    ///
    /// # Errors
    /// [`JsonError`] as [`value`](Self::value), or what the visitor returns.
    #[inline]
    pub fn elements(
        &mut self,
        mut visit: impl FnMut(&mut Cursor<'a>) -> Result<(), JsonError>,
    ) -> Result<Json<'a>, JsonError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        if bytes.get(start) != Some(&b'[') {
            return self.value();
        }
        self.enter()?;
        if bytes.get(self.at) != Some(&b']') {
            loop {
                self.visit(&mut visit)?;
                self.at = skip_space(bytes, self.at);
                match bytes.get(self.at) {
                    Some(b',') => self.at = skip_space(bytes, self.at + 1),
                    Some(b']') => break,
                    _ => return Err(unexpected_after_value(bytes, self.at, false)),
                }
            }
        }
        self.leave();
        Ok(self.since(start))
    }

    /// Checks that nothing but white space follows.
    ///
    /// # Errors
    /// [`JsonError`] if something does.
    pub fn finish(self) -> Result<(), JsonError> {
        expect_end(self.text.as_bytes(), self.at)
    }

    /// Past the opening bracket at the position.
    #[inline(always)]
    fn enter(&mut self) -> Result<(), JsonError> {
        if self.depth >= self.depth_max {
            return Err(JsonError::too_deep(self.at, self.depth_max));
        }
        self.depth += 1;
        self.at = skip_space(self.text.as_bytes(), self.at + 1);
        Ok(())
    }

    /// Past the closing bracket at the position.
    #[inline(always)]
    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    #[inline(always)]
    fn visit(
        &mut self,
        visit: impl FnOnce(&mut Cursor<'a>) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        let start = self.at;
        visit(self)?;
        if self.at == start {
            self.value()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn since(&self, start: usize) -> Json<'a> {
        Json::trusted(piece(self.text, start, self.at))
    }
}
