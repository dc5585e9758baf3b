//! One header line, of any version, and what is named after it.

use dsh_session_core::SessionHeader;
use dsh_session_core::format::header::{DecodedHeader, FORMAT_VERSION, decode_line, encode_line};
use dsh_session_core::format::names::{
    FILE_NAME_BYTES_MAX, generation_file_name, is_flat_layout, parse_any, project_directory,
    session_directory,
};

/// Decodes the line as that of the version in the first byte; what is accepted is written and read back.
pub fn run(bytes: &[u8]) {
    let Some((version, line)) = bytes.split_first() else { return };
    match decode_line(line, u64::from(version % 8)) {
        Ok(decoded) => check_decoded(decoded),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
    if let Ok(text) = std::str::from_utf8(line) {
        if let Ok(header) = SessionHeader::from_json(text, SessionHeader::new("s", 1))
            && header.check().is_ok()
        {
            check_written(header);
        }
        check_names(text);
    }
}

fn check_decoded(decoded: DecodedHeader) {
    assert!(decoded.stored_version <= u64::from(FORMAT_VERSION));
    assert!(decoded.header.delegation_depth.is_some());
    if decoded.header.check().is_ok() {
        check_written(decoded.header);
    }
}

fn check_written(header: SessionHeader) {
    let read = decode_line(encode_line(&header).as_bytes(), FORMAT_VERSION.into());
    let read = read.expect("what is written is read").header;
    let written = SessionHeader { delegation_depth: Some(header.delegation_depth.unwrap_or(0)), ..header };
    assert_eq!(read, written);
    check_names(&written.id);
    if let Some(cwd) = &written.cwd {
        check_names(cwd);
    }
}

/// Names are harmless whatever they are made of, and no name is two things.
fn check_names(text: &str) {
    if let Ok(name) = project_directory(Some(text)) {
        assert!(name.len() <= FILE_NAME_BYTES_MAX && name.starts_with("--") && name.ends_with("--"));
        assert!(is_harmless(&name));
    }
    if let Ok(name) = session_directory(text) {
        assert!(is_harmless(&name) && name != "." && name != "..");
        assert_eq!(parse_any(&name), parse_any(&name).filter(|_| name == text));
    }
    if let Some((version, encoding)) = parse_any(text) {
        assert_eq!(generation_file_name(version, encoding), text);
    }
    let _ = is_flat_layout(text);
}

fn is_harmless(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte))
}
