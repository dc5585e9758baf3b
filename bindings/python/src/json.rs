//! From Python values to JSON text, at the moment of the call: what the caller changes afterwards has no effect.
//!
//! Nothing recurses, so depth costs memory and not the stack; a value that contains itself ends at the depth limit. Numbers and strings
//! are only written down here; whether they are lossless the core decides (`design.md` 5), except for what JSON text cannot even spell.

use crate::error::raise;
use dsh_session_core::json::{self, DEPTH_MAX_DEFAULT};
use dsh_session_core::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::fmt::Write as _;

/// The longest integer that is written out: a double ends at 309 digits, a sign and some room aside.
const INTEGER_DIGITS_MAX: usize = 400;

/// The text of a payload: `bytes` and `bytearray` are JSON text already, everything else is a value.
pub(crate) fn text_or_value(value: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    match text_bytes(value) {
        Some(bytes) => Ok(bytes),
        None => to_json(value).map(String::into_bytes),
    }
}

/// The JSON text of a value as `append` would write it down now; `bytes` are taken as JSON text already.
///
/// `dsh_session.aio` needs it: what it is given must be written down before it leaves the caller's thread.
#[pyfunction]
pub(crate) fn encode_json<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let text = text_or_value(value).map_err(|error| raise(py, &error))?;
    Ok(PyBytes::new(py, &text))
}

/// The bytes of a `bytes` or `bytearray`, copied: they are the caller's, who may change or free them.
pub(crate) fn text_bytes(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Some(bytes.as_bytes().to_vec());
    }
    value.cast::<PyByteArray>().ok().map(|bytes| bytes.to_vec())
}

/// The UTF-8 of a `str`. A lone surrogate, which UTF-8 cannot hold, stays as Python's three bytes and is read as U+FFFD.
pub(crate) fn line_bytes(line: &Bound<'_, PyString>) -> Result<Vec<u8>> {
    if let Ok(text) = line.to_str() {
        return Ok(text.as_bytes().to_vec());
    }
    // Inside JSON text a lone surrogate can only stand in a string, where its escape means the same.
    let mut quoted = String::new();
    let mut out = String::new();
    for unit in char::decode_utf16(utf16(line)?) {
        match unit {
            Ok(character) => out.push(character),
            Err(lone) => {
                quoted.clear();
                json::print_utf16(&mut quoted, &[lone.unpaired_surrogate()]);
                out.push_str(quoted.trim_matches('"'));
            }
        }
    }
    Ok(out.into_bytes())
}

fn utf16(text: &Bound<'_, PyString>) -> Result<Vec<u16>> {
    let failed =
        |error: PyErr| Error::new(Code::InvalidArgument, format!("a str cannot be encoded: {error}"));
    let encoded = text.call_method1("encode", ("utf-16-le", "surrogatepass")).map_err(failed)?;
    let bytes = encoded.cast::<PyBytes>().map_err(|error| failed(error.into()))?;
    Ok(bytes.as_bytes().chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}

/// The JSON text of a value.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> Result<String> {
    let mut writer = Writer { out: String::new(), open: Vec::new() };
    writer.value(value)?;
    while let Some(container) = writer.open.last_mut() {
        let is_first = container.next == 0;
        let Some(member) = container.next_member() else {
            writer.out.push(container.closing());
            writer.open.pop();
            continue;
        };
        if !is_first {
            writer.out.push(',');
        }
        match member {
            Member::Element(value) => writer.value(&value)?,
            Member::Pair(key, value) => {
                writer.key(&key)?;
                writer.value(&value)?;
            }
        }
    }
    Ok(writer.out)
}

/// A container whose members are being written.
struct Container<'py> {
    members: Members<'py>,
    next: usize,
}

enum Members<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
    /// A dict as it was when it was reached, as a list of pairs: a finalizer that runs meanwhile may change the dict.
    Dict(Bound<'py, PyList>),
}

enum Member<'py> {
    Element(Bound<'py, PyAny>),
    Pair(Bound<'py, PyAny>, Bound<'py, PyAny>),
}

impl<'py> Container<'py> {
    fn next_member(&mut self) -> Option<Member<'py>> {
        let index = self.next;
        self.next += 1;
        match &self.members {
            Members::List(list) => list.get_item(index).ok().map(Member::Element),
            Members::Tuple(tuple) => tuple.get_item(index).ok().map(Member::Element),
            Members::Dict(pairs) => {
                let (key, value) = pairs.get_item(index).ok()?.extract().ok()?;
                Some(Member::Pair(key, value))
            }
        }
    }

    fn closing(&self) -> char {
        if matches!(self.members, Members::Dict(_)) { '}' } else { ']' }
    }

    /// The step of a path that leads to the member being written.
    fn step(&self) -> String {
        let index = self.next.saturating_sub(1);
        let Members::Dict(pairs) = &self.members else { return format!("[{index}]") };
        let key = pairs.get_item(index).and_then(|pair| pair.get_item(0));
        let key = key.map(|key| key.to_string()).unwrap_or_default();
        let is_plain = !key.starts_with(|first: char| first.is_ascii_digit())
            && !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_plain { format!(".{key}") } else { format!("[{key:?}]") }
    }
}

struct Writer<'py> {
    out: String,
    open: Vec<Container<'py>>,
}

impl<'py> Writer<'py> {
    /// Writes a value that is not a container, or opens one.
    fn value(&mut self, value: &Bound<'py, PyAny>) -> Result<()> {
        if let Ok(text) = value.cast::<PyString>() {
            self.string(text)
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.open('{', Members::Dict(dict.items()))
        } else if let Ok(list) = value.cast::<PyList>() {
            self.open('[', Members::List(list.clone()))
        } else if value.is_none() {
            self.out.push_str("null");
            Ok(())
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.out.push_str(if truth.is_true() { "true" } else { "false" });
            Ok(())
        } else if let Ok(integer) = value.cast::<PyInt>() {
            self.integer(integer)
        } else if let Ok(float) = value.cast::<PyFloat>() {
            self.float(float.value())
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.open('[', Members::Tuple(tuple.clone()))
        } else {
            let name = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            Err(self.refused(Code::InvalidArgument, &format!("a value of type `{name}` has no JSON form")))
        }
    }

    fn open(&mut self, bracket: char, members: Members<'py>) -> Result<()> {
        if self.open.len() >= DEPTH_MAX_DEFAULT as usize {
            let message =
                format!("the value is nested deeper than {DEPTH_MAX_DEFAULT} levels, or contains itself");
            return Err(Error::new(Code::LimitExceeded, message).with_limit("depth_max"));
        }
        self.out.push(bracket);
        self.open.push(Container { members, next: 0 });
        Ok(())
    }

    fn key(&mut self, key: &Bound<'py, PyAny>) -> Result<()> {
        let Ok(key) = key.cast::<PyString>() else {
            return Err(self.refused(Code::InvalidArgument, "a key is not a str"));
        };
        self.string(key)?;
        self.out.push(':');
        Ok(())
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> Result<()> {
        match text.to_str() {
            Ok(text) => json::print_string(&mut self.out, text),
            // A lone surrogate: kept as its escape.
            Err(_) => json::print_utf16(&mut self.out, &utf16(text)?),
        }
        Ok(())
    }

    fn integer(&mut self, integer: &Bound<'py, PyInt>) -> Result<()> {
        if let Ok(small) = integer.extract::<i64>() {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "{small}");
            return Ok(());
        }
        // The type's own method: a subclass (an enumeration) may print something else.
        let digits = integer.py().get_type::<PyInt>().call_method1("__repr__", (integer,));
        match digits.map(|digits| digits.to_string()) {
            Ok(digits) if digits.len() <= INTEGER_DIGITS_MAX => {
                self.out.push_str(&digits);
                Ok(())
            }
            _ => Err(self.refused(Code::NotLosslessJson, "an integer is too large for a double")),
        }
    }

    fn float(&mut self, float: f64) -> Result<()> {
        if !float.is_finite() {
            return Err(self.refused(Code::NotLosslessJson, &format!("`{float}` has no JSON form")));
        }
        if float == 0.0 && float.is_sign_negative() {
            // Spelled out, so that the core refuses it with its own words and path.
            self.out.push_str("-0.0");
        } else {
            json::print_number(&mut self.out, float);
        }
        Ok(())
    }

    fn refused(&self, code: Code, what: &str) -> Error {
        let steps: String = self.open.iter().map(Container::step).collect();
        let path = format!("${steps}");
        Error::new(code, format!("{what}, at {path}")).with_json_path(path)
    }
}
