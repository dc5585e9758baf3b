//! A whole session file of any content.
//!
//! The first byte of an input says how the rest becomes a file (`Shape`), the second is a number of bytes; so mutations reach the inside
//! of compressed logs, which random changes of compressed bytes would not.

use dsh_session_core::event::Event;
use dsh_session_core::format::frames::{FrameDecoder, FrameEncoder, scan_frames};
use dsh_session_core::format::header::{FORMAT_VERSION, decode_line};
use dsh_session_core::format::names::{
    self, Encoding, FILE_NAME_BYTES_MAX, generation_file_name, project_directory, session_directory,
};
use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json, Kind};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::MemoryStorage;
use dsh_session_core::{Access, CancelToken, Code, EventRange, ReadLimits, Result, SessionHeader, Store};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROOT: &str = "/r";

/// Text of one row and of one frame at most: small files may unpack to much.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// What the first byte of an input says.
struct Shape {
    encoding: Encoding,
    /// A good header is put before the rest.
    has_header: bool,
    /// The rest is text; each part between bytes 0x1E becomes a frame.
    is_text: bool,
    /// So many bytes of the end are cut off.
    is_cut: bool,
    /// So many zero bytes are added.
    has_zeros: bool,
    /// The header that is put before says that the session is seeded.
    is_seeded: bool,
    /// The append goes through a session instead of a log handle.
    by_session: bool,
}

impl Shape {
    fn of(byte: u8) -> Shape {
        let bit = |number: u8| byte & (1 << number) != 0;
        Shape {
            encoding: if bit(0) { Encoding::Zstd } else { Encoding::None },
            has_header: bit(1),
            is_text: bit(2),
            is_cut: bit(3),
            has_zeros: bit(4),
            is_seeded: bit(5),
            by_session: bit(6),
        }
    }

    fn file(&self, length: u8, rest: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        if self.has_header {
            let header = SessionHeader { is_seeded: self.is_seeded, ..SessionHeader::new("s", 1) };
            self.put(&mut file, (header.to_json() + "\n").as_bytes());
        }
        if self.is_text {
            rest.split(|byte| *byte == 0x1e).for_each(|part| self.put(&mut file, part));
        } else {
            file.extend_from_slice(rest);
        }
        if self.is_cut {
            file.truncate(file.len().saturating_sub(length.into()));
        }
        if self.has_zeros {
            file.resize(file.len() + usize::from(length), 0);
        }
        file
    }

    fn put(&self, file: &mut Vec<u8>, text: &[u8]) {
        match self.encoding {
            Encoding::None => file.extend_from_slice(text),
            Encoding::Zstd => FrameEncoder::new().encode(text, file).expect("a small text is compressed"),
        }
    }
}

/// Where a session of this id lies, if its name can be one.
fn place_of(header: &SessionHeader, encoding: Encoding) -> Option<PathBuf> {
    let project = project_directory(header.cwd.as_deref()).ok()?;
    let session = session_directory(&header.id).ok()?;
    let fits = project.len() <= FILE_NAME_BYTES_MAX && session.len() <= FILE_NAME_BYTES_MAX;
    let name = generation_file_name(FORMAT_VERSION.into(), encoding);
    fits.then(|| Path::new(ROOT).join(project).join(session).join(name))
}

/// The header that the file begins with, if it has one: it decides where the file must lie.
fn header_of(file: &[u8], encoding: Encoding) -> Option<SessionHeader> {
    let mut text = Vec::new();
    match encoding {
        Encoding::None => text.extend_from_slice(file),
        Encoding::Zstd => {
            let (frames, _) = scan_frames(file, 1).ok()?;
            let frame = frames.first()?;
            let piece = file.get(..frame.end as usize)?;
            FrameDecoder::new().decode(piece, frame, &mut text, TEXT_BYTES_MAX as usize).ok()?;
        }
    }
    let line = text.split(|byte| *byte == b'\n').next()?;
    Some(decode_line(line, FORMAT_VERSION.into()).ok()?.header)
}

fn make_folders(disk: &MemoryStorage, folder: &Path) {
    let mut folders: Vec<_> = folder.ancestors().collect();
    folders.pop();
    for folder in folders.into_iter().rev() {
        let _ = disk.create_directory(folder);
    }
}

fn open_store(disk: &MemoryStorage) -> Store {
    let limits = ReadLimits { row_bytes_max: TEXT_BYTES_MAX, threads: 1, ..ReadLimits::default() };
    let opened = Store::builder(ROOT).storage(Arc::new(disk.clone())).limits(limits).open();
    opened.expect("a root in memory opens")
}

/// A result whose failure is one that a file may cause.
#[track_caller]
fn settled<T>(result: Result<T>) -> Result<T> {
    if let Err(error) = &result {
        let is_fault = matches!(
            error.code(),
            Code::Internal
                | Code::Panic
                | Code::Several
                | Code::InvalidArgument
                | Code::Io
                | Code::OutOfMemory
        );
        assert!(!is_fault, "{error}");
    }
    result
}

/// Puts the bytes under the name of a session, reads them in every way, appends and reopens.
pub fn run(input: &[u8]) {
    let [first, length, rest @ ..] = input else { return };
    let shape = Shape::of(*first);
    let file = shape.file(*length, rest);
    let found = header_of(&file, shape.encoding);
    let placed =
        found.as_ref().and_then(|header| Some((header.id.clone(), place_of(header, shape.encoding)?)));
    let (id, path) = placed.unwrap_or_else(|| {
        let header = SessionHeader::new("s", 1);
        let path = place_of(&header, shape.encoding).expect("a short id names a folder");
        (header.id, path)
    });
    let disk = MemoryStorage::new(1);
    make_folders(&disk, path.parent().expect("a log lies in a folder"));
    disk.write_file(&path, &file).expect("memory takes files");
    let before = disk.tree();
    let store = open_store(&disk);
    let events = check_reads(&store, &id);
    assert_eq!(disk.tree(), before, "reading changes nothing");
    drop(store);
    check_append(&disk, &shape, &id, &path, events);
}

fn collect(store: &Store, id: &str, range: EventRange) -> Result<Vec<Event>> {
    settled(store.events(id, range).and_then(Iterator::collect))
}

/// Every way of reading agrees with the read of everything, whose outcome is given.
fn check_reads(store: &Store, id: &str) -> Result<Vec<Event>> {
    let go_on = CancelToken::new();
    let whole = collect(store, id, EventRange::ALL);
    let newest = collect(store, id, EventRange::newest(3));
    let window = collect(store, id, EventRange::window(1, 2));
    if let Ok(events) = &whole {
        for (event, seq) in events.iter().zip(0..) {
            assert_eq!(event.seq(), seq);
        }
        assert_eq!(newest.expect("a whole log has newest events"), events[events.len().saturating_sub(3)..]);
        let from = events.len().min(1);
        let to = events.len().min(3);
        assert_eq!(window.expect("a whole log has windows"), events[from..to]);
    } else {
        for events in [newest, window].into_iter().flatten() {
            assert!(events.windows(2).all(|two| two[1].seq() == two[0].seq() + 1));
        }
    }
    for verification in settled(store.verify(Some(id), &go_on)).into_iter().flatten() {
        let verification = settled(verification).expect("a session is judged");
        let error = verification.outcome.error();
        assert_eq!(error.is_none(), whole.is_ok(), "{error:?}, {whole:?}");
        assert_eq!(verification.events, whole.as_ref().map_or(0, |events| events.len() as u64));
    }
    check_salvage(store, id, whole.as_deref().ok());
    let _ = settled(store.stat(id));
    let _ = settled(store.stats(Some(id), &go_on));
    whole
}

/// A salvage is a prefix of the rows, and everything where the log is whole.
fn check_salvage(store: &Store, id: &str, whole: Option<&[Event]>) {
    let rows = settled(store.rows(id, &CancelToken::new())).expect("a log has rows, whatever they are");
    let rows: Vec<_> = rows
        .map(|row| settled(row).expect("memory can be read"))
        .filter(|row| row.is_event)
        .map(|row| row.text)
        .collect();
    let Ok(mut salvage) = settled(store.salvage(id)) else { return };
    let events: Vec<_> = salvage.by_ref().map(|event| settled(event).expect("memory can be read")).collect();
    let texts: Vec<_> = events.iter().map(Event::row).collect();
    assert_eq!(texts, rows[..texts.len()]);
    match whole {
        Some(whole) => assert!(events == whole && salvage.damage().is_none()),
        None => assert!(salvage.damage().is_some()),
    }
    let after = settled(salvage.after_damage()).expect("a log has rows");
    assert_eq!(after.count() + texts.len(), rows.len());
}

/// The rows of a log, or of a saved tail put in its place, that are JSON objects.
fn objects(disk: &MemoryStorage, id: &str) -> Vec<String> {
    let rows = open_store(disk).rows(id, &CancelToken::new()).expect("a log has rows");
    rows.map(|row| row.expect("memory can be read").text)
        .filter(|text| Json::parse(text, DEPTH_MAX_DEFAULT).is_ok_and(|value| value.kind() == Kind::Object))
        .collect()
}

/// An append keeps what could be read, is read back, and destroys nothing that parses.
fn check_append(disk: &MemoryStorage, shape: &Shape, id: &str, path: &Path, events: Result<Vec<Event>>) {
    let rows_before = objects(disk, id);
    let file_before = disk.read_file(path).expect("the log is there");
    let store = open_store(disk);
    let appended = if shape.by_session { append_to_session(&store, id) } else { append_to_log(&store, id) };
    let appended = settled(appended);
    assert_eq!(appended.is_ok(), events.is_ok(), "{:?}, {:?}", appended.err(), events.err());
    let (Ok(events), Ok(event)) = (events, appended) else {
        assert_eq!(disk.read_file(path).expect("the log is there"), file_before);
        return;
    };
    drop(store);
    let now = collect(&open_store(disk), id, EventRange::ALL).expect("what was appended is read");
    assert_eq!(now.len(), events.len() + 1);
    assert_eq!(now[..events.len()], events);
    assert_eq!(now.last(), Some(&event));
    let kept: HashSet<_> = objects(disk, id).into_iter().chain(saved_rows(disk, shape, path)).collect();
    for row in rows_before {
        assert!(kept.contains(&row), "{row} was destroyed");
    }
}

fn note(seq: u64) -> Event {
    let row = format!(r#"{{"type":"plugin:fuzz/note","seq":{seq},"time":1,"data":{{}},"ignorable":true}}"#);
    Event::from_row(row).expect("the row is good")
}

fn append_to_log(store: &Store, id: &str) -> Result<Event> {
    let log = store.open_log(id, Access::Write)?;
    let event = note(log.event_count(&CancelToken::new())?);
    log.append(std::slice::from_ref(&event), &CancelToken::new()).expect("a log that opened takes a note");
    log.close().expect("memory closes");
    Ok(event)
}

fn append_to_session(store: &Store, id: &str) -> Result<Event> {
    let session = store.open_session(id)?;
    let event = session.append_line(note(session.next_seq()).row()).expect("a session takes a note");
    session.close().expect("memory closes");
    Ok(event)
}

/// The rows in the files where cut tails were saved.
fn saved_rows(disk: &MemoryStorage, shape: &Shape, path: &Path) -> Vec<String> {
    let folder = path.parent().expect("a log lies in a folder");
    let mut rows = Vec::new();
    for entry in disk.read_directory(folder).expect("the folder is there") {
        let name = entry.name.to_string_lossy();
        if name.starts_with("session.cut-") {
            let saved = disk.read_file(&folder.join(&entry.name)).expect("the copy is there");
            let other = MemoryStorage::new(1);
            let header = SessionHeader::new("s", 1);
            let place = place_of(&header, shape.encoding).expect("a short id names a folder");
            make_folders(&other, place.parent().expect("a log lies in a folder"));
            other.write_file(&place, &saved).expect("memory takes files");
            rows.extend(objects(&other, "s"));
        }
        assert!(names::parse_any(&*name).is_none() || folder.join(&entry.name) == path);
    }
    rows
}
