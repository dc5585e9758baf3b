//! Appends (`format.md` 6.5, `design.md` 5): one frame and one sync each; roll-back, repair of a torn tail, failed syncs, ownership.
//!
//! Invariant: bytes before `length` are accepted and on the disk. Bytes after it are ours to cut, as far as `excess` says: a torn tail
//! found at opening, or what a failed write left. Anything else after `length` is somebody else's, and stops this writer for good.

use super::Shared;
use super::checked::OwnRules;
use super::lease::Lease;
use super::locate::Located;
use super::publication::{self, Unpublished};
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::format::frames::FrameEncoder;
use crate::format::header::{self, SessionHeader};
use crate::format::names::{self, Encoding};
use crate::format::prefix::StoredPrefix;
use crate::format::reader::{LogSource, ReadLimits, TornTail, Trust};
use crate::persistence::contract::{Notice, StoredEvents};
use crate::storage::{FileMetadata, OpenHow, Storage, StorageFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes copied at a time when a tail is saved.
const COPY_PIECE_BYTES: usize = 1 << 20;

/// Text after which what a new log begins with goes on in another frame (`design.md` 5, Migration, says the same of other whole logs):
/// a reader of a few events decodes no more than the frames they stand in.
const FRAME_TEXT_BYTES: usize = 1 << 20;

/// Names tried for a saved tail before giving up.
const SAVED_NAMES_MAX: u32 = 10_000;

/// The log file as the writer knows it.
#[derive(Debug)]
pub(super) struct LogFile {
    /// Dropped after a failed sync: what such a descriptor says afterwards cannot be trusted.
    pub(super) file: Option<Arc<dyn StorageFile>>,
    pub(super) identity: FileMetadata,
    pub(super) path: PathBuf,
}

/// What may stand after the accepted bytes.
#[derive(Debug)]
enum Excess {
    /// Nothing.
    None,
    /// A torn tail, found at opening and not cut yet.
    Torn { tail: TornTail, saved: Option<PathBuf>, cut: Cut },
    /// Up to so many bytes of a write that failed and could not be rolled back.
    Failed { bytes_max: u64 },
}

/// How far the cut of a torn tail has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The bytes are as they were found.
    Untouched,
    /// Tried, and not known to be done; or done, and what is put back could not be taken back.
    Begun,
    /// On the disk. Recovered events may still have to be put back.
    Done,
}

/// The writing side of one log.
#[derive(Debug)]
pub(super) struct Writer {
    place: Located,
    lease: Option<Lease>,
    /// `None` until the session is materialized.
    log: Option<LogFile>,
    length: u64,
    header_end: u64,
    next_seq: u64,
    excess: Excess,
    /// The log was opened and nothing of it synced since: its last writer may have been killed before it synced the file, or its name.
    is_unsynced: bool,
    /// The file as this handle last read or wrote it; what differs from it, somebody else has changed, or a failed write.
    as_left: Option<FileMetadata>,
    /// What a failed publication may have left under the log's name; taken back before the next one.
    stray: Option<FileMetadata>,
    rules: OwnRules,
    encoder: FrameEncoder,
    text: String,
    bytes: Vec<u8>,
}

/// What a log holds behind its header when it gets its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// One batch, in one frame.
    Batch(&'a [Event]),
    /// Bytes of another log, then events that follow those in them.
    Copied { from: &'a StoredEvents, prefix: StoredPrefix, rest: &'a [Event], cancel: &'a CancelToken },
}

impl Body<'_> {
    fn event_count(&self) -> u64 {
        match self {
            Body::Batch(batch) => batch.len() as u64,
            Body::Copied { prefix, rest, .. } => prefix.event_count + rest.len() as u64,
        }
    }
}

/// Where the accepted rows stand, for readers of the same handle.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) encoding: Encoding,
    pub(super) header_end: u64,
    pub(super) end: u64,
    pub(super) event_count: u64,
    /// Events that are accepted and not (or no longer) in the file: recovered ones, before the first append.
    pub(super) beyond: Vec<Event>,
    as_left: Option<FileMetadata>,
}

impl Accepted {
    /// The rows in the file; they were judged when they were accepted.
    pub(super) fn source(&self, limits: &ReadLimits) -> LogSource {
        LogSource {
            file: Arc::clone(&self.file),
            encoding: self.encoding,
            header_end: self.header_end,
            end: self.end,
            limits: *limits,
            trust: Trust::Judged,
        }
    }

    /// Whether the file is still what the handle read and wrote, as far as its size and times tell.
    pub(super) fn is_untouched(&self) -> bool {
        self.as_left.is_some() && self.file.metadata().ok() == self.as_left
    }
}

/// Writes all of `bytes` at the end.
pub(super) fn write_all(file: &dyn StorageFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Writer {
    /// Of a session that is not on the disk yet.
    pub(super) fn created(place: Located, rules: OwnRules) -> Writer {
        Writer {
            place,
            lease: None,
            log: None,
            length: 0,
            header_end: 0,
            next_seq: 0,
            excess: Excess::None,
            is_unsynced: false,
            as_left: None,
            stray: None,
            rules,
            encoder: FrameEncoder::new(),
            text: String::new(),
            bytes: Vec::new(),
        }
    }

    /// Of a stored session that was read to its end.
    pub(super) fn opened(
        place: Located,
        lease: Lease,
        log: LogFile,
        header_end: u64,
        end: crate::format::reader::LogEnd,
        rules: OwnRules,
    ) -> Writer {
        let length = end.keep_bytes();
        let next_seq = end.event_count;
        let excess = match end.torn {
            Some(tail) => Excess::Torn { tail, saved: None, cut: Cut::Untouched },
            None => Excess::None,
        };
        Writer {
            lease: Some(lease),
            as_left: Some(log.identity),
            log: Some(log),
            length,
            header_end,
            next_seq,
            excess,
            is_unsynced: true,
            ..Writer::created(place, rules)
        }
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn is_materialized(&self) -> bool {
        self.log.is_some()
    }

    /// What readers of this handle may see; `None` before materialization and after a descriptor was dropped.
    pub(super) fn accepted(&self) -> Option<Accepted> {
        let file = Arc::clone(self.log.as_ref()?.file.as_ref()?);
        let beyond = match &self.excess {
            Excess::Torn { tail, .. } => tail.recovered.clone(),
            _ => Vec::new(),
        };
        Some(Accepted {
            path: self.place.path.clone(),
            file,
            encoding: self.place.encoding,
            header_end: self.header_end,
            end: self.length,
            event_count: self.next_seq,
            beyond,
            as_left: self.as_left,
        })
    }

    /// The length of what this handle knows of the file: the accepted bytes and a torn tail that was not cut yet.
    pub(super) fn known_bytes(&self) -> u64 {
        match &self.excess {
            Excess::Torn { tail, cut: Cut::Untouched, .. } => self.length + tail.cut_bytes,
            _ => self.length,
        }
    }

    pub(super) fn has_torn_tail(&self) -> bool {
        matches!(self.excess, Excess::Torn { cut: Cut::Untouched, .. })
    }

    /// Appends a batch that was checked; `header` is needed for a first write.
    pub(super) fn append(
        &mut self,
        shared: &Shared,
        header: &SessionHeader,
        batch: &[Event],
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        if !self.is_materialized() {
            return self.materialize(shared, header, Body::Batch(batch), notices);
        }
        self.prepare(shared, header, notices)?;
        self.write_batch(shared, batch)?;
        self.next_seq += batch.len() as u64;
        Ok(())
    }

    /// After an append of these events, lets reads of this process know whether they keep the rules.
    pub(super) fn note_rules(&mut self, shared: &Shared, header: &SessionHeader, cut: u64, batch: &[Event]) {
        self.rules.judge(batch);
        self.as_left = self.look();
        if let Some(now) = self.as_left.filter(|_| self.rules.are_known()) {
            let marker = header.is_seeded.then_some(cut);
            shared.extend_checked(&header.id, now, self.next_seq, marker, &mut self.rules);
        }
    }

    /// After an append of events that somebody else asked the rules about, lets reads of this process know that they keep them.
    pub(super) fn note_checked(&mut self, shared: &Shared, header: &SessionHeader, cut: u64) {
        // From here on the handle's own rules would lack these events.
        self.rules = OwnRules::default();
        self.as_left = self.look();
        if let Some(now) = self.as_left {
            let marker = header.is_seeded.then_some(cut);
            shared.remember_as_checked(&header.id, now, self.next_seq, marker);
        }
    }

    /// The file, if it holds the accepted bytes and no others. Where it cannot be looked at, nothing is known of it, and an append was
    /// good all the same.
    fn look(&self) -> Option<FileMetadata> {
        let file = self.log.as_ref()?.file.as_ref()?;
        file.metadata().ok().filter(|now| now.size == self.length)
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.place.encoding
    }

    /// Makes sure that the session exists and that nothing of a failed write is left.
    pub(super) fn flush(
        &mut self,
        shared: &Shared,
        header: &SessionHeader,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        if !self.is_materialized() {
            return self.materialize(shared, header, Body::Batch(&[]), notices);
        }
        // A torn tail as such is not cut: until an append does, reading, flushing and closing leave the bytes alone.
        if self.has_debt() {
            return self.prepare(shared, header, notices);
        }
        if self.is_unsynced {
            self.check_ownership(shared, &header.id)?;
            self.sync_found(shared, &header.id)?;
        }
        Ok(())
    }

    /// Makes durable what stood in the log when it was opened, and its name.
    ///
    /// If that fails, what the earlier writer had not synced may be lost although it still reads well, and a later sync would not tell:
    /// nothing this library could do would bring it back, since it never had those bytes in its own hands.
    fn sync_found(&mut self, shared: &Shared, id: &str) -> Result<()> {
        let synced = shared.storage.sync_directory(&self.place.directory);
        synced.map_err(|error| self.io("sync the session folder", &error, id))?;
        let synced = self.file(&*shared.storage).and_then(|file| file.sync());
        synced.map_err(|error| {
            self.drop_descriptor();
            self.io("make the log durable", &error, id)
        })?;
        self.is_unsynced = false;
        Ok(())
    }

    /// Whether a failed call left something to be finished: bytes to cut, or recovered events that were cut and not put back yet.
    fn has_debt(&self) -> bool {
        matches!(self.excess, Excess::Failed { .. } | Excess::Torn { cut: Cut::Begun | Cut::Done, .. })
    }

    /// Gives up ownership. What a failed write left is settled first, if it can be.
    pub(super) fn release(&mut self, shared: &Shared, header: &SessionHeader) -> Result<()> {
        let mut settled = if self.has_debt() && self.lease.is_some() {
            self.prepare(shared, header, &mut Vec::new())
        } else {
            Ok(())
        };
        if let Some(lease) = self.lease.take() {
            if let Some(stray) = self.stray.take() {
                settled = publication::withdraw(shared, &self.place, &stray);
            }
            // Whoever displaced this handle has written a note of its own.
            if lease.is_held(&*shared.storage).unwrap_or(false) {
                // The note is informative: nobody trusts it once its process is gone or the lock is free.
                let _ = lease.remove_owner(&*shared.storage);
            }
        }
        if let Some(log) = &mut self.log {
            log.file = None;
        }
        shared.keep_rules(&header.id, std::mem::take(&mut self.rules));
        settled
    }

    /// Gives the lease away without a trace: in a forked child, whose parent still owns the session.
    pub(super) fn abandon(&mut self) {
        self.lease = None;
    }

    fn lease(&mut self, shared: &Shared, id: &str, notices: &mut Vec<Notice>) -> Result<()> {
        if self.lease.is_none() {
            let lease = Lease::acquire(&*shared.storage, &self.place.directory, id)?;
            notices.extend(lease.notice());
            if let Err(error) = lease.write_owner(&*shared.storage) {
                notices.push(Notice::OwnerFile { reason: error.to_string() });
            }
            self.lease = Some(lease);
        }
        Ok(())
    }

    /// Writes the whole log that a session begins with.
    pub(super) fn materialize(
        &mut self,
        shared: &Shared,
        header: &SessionHeader,
        body: Body<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let located = |error: Error| error.with_session_id(&header.id);
        publication::make_directories(shared, &self.place.directory).map_err(located)?;
        if self.lease.is_none() {
            publication::check_no_twin(shared, &self.place, &header.id).map_err(located)?;
        }
        self.lease(shared, &header.id, notices)?;
        if let Some(stray) = &self.stray {
            publication::withdraw(shared, &self.place, stray).map_err(located)?;
            self.stray = None;
        }
        publication::check_vacant(shared, &self.place, &header.id).map_err(located)?;
        self.bytes.clear();
        self.encode_text(&(header::encode_line(header) + "\n"))?;
        let header_bytes = self.bytes.len();
        let copied = match body {
            Body::Batch(batch) => self.encode_batch(batch).map(|()| None)?,
            Body::Copied { from, prefix, rest, cancel } => {
                self.encode_frames(rest)?;
                Some(CopiedRange { from, start: from.source.header_end, end: prefix.end, cancel })
            }
        };
        let Some(lease) = &self.lease else {
            return Err(Error::new(Code::Internal, "the lease vanished between taking it and writing"));
        };
        let (first, last) = self.bytes.split_at(if copied.is_some() { header_bytes } else { 0 });
        let published = publication::publish(shared, &self.place, lease, |file, path| {
            let failed = |error| Error::io("write the staging file", &error).with_path(path);
            write_all(file, first).map_err(failed)?;
            if let Some(copied) = &copied {
                copied.copy_to(file, path)?;
            }
            write_all(file, last).map_err(failed)
        });
        match published {
            Ok(log) => {
                self.log = Some(log);
                self.header_end = header_bytes as u64;
                self.length = self.bytes.len() as u64 + copied.map_or(0, |copied| copied.end - copied.start);
                self.next_seq = body.event_count();
                Ok(())
            }
            Err(Unpublished { error, stray }) => {
                self.stray = stray;
                Err(located(error))
            }
        }
    }

    /// Everything that must be true before bytes are added: ownership, no debt, no torn tail.
    fn prepare(&mut self, shared: &Shared, header: &SessionHeader, notices: &mut Vec<Notice>) -> Result<()> {
        let id = &header.id;
        self.check_ownership(shared, id)?;
        if self.is_unsynced {
            self.sync_found(shared, id)?;
        }
        match &self.excess {
            Excess::None => Ok(()),
            Excess::Failed { .. } => {
                self.cut(shared).map_err(|error| self.io("cut what a failed write left", &error, id))?;
                self.excess = Excess::None;
                Ok(())
            }
            Excess::Torn { .. } => self.repair(shared, id, notices),
        }
    }

    fn io(&self, doing: &str, error: &io::Error, id: &str) -> Error {
        Error::io(doing, error).with_path(&self.place.path).with_session_id(id)
    }

    /// `design.md` 5, Stale appends: lock, file and length are what this writer left.
    fn check_ownership(&mut self, shared: &Shared, id: &str) -> Result<()> {
        let storage = &*shared.storage;
        let lost = |what: &str| {
            let message = format!("{what}, so session {id} is no longer this handle's");
            Err(Error::new(Code::SessionOwnershipLost, message)
                .with_session_id(id)
                .with_path(&self.place.path))
        };
        match self.lease.as_ref().map(|lease| lease.is_held(storage)) {
            Some(Ok(true)) => {}
            Some(Err(error)) => return Err(self.io("look at the lock file", &error, id)),
            Some(Ok(false)) | None => return lost("the lock file was removed or replaced"),
        }
        let there = match storage.metadata(&self.place.path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return lost("the log was removed"),
            Err(error) => return Err(self.io("look at the log", &error, id)),
        };
        let Some(log) = &self.log else {
            return Err(Error::new(Code::Internal, "a log without a file was asked for its owner"));
        };
        if !there.is_same_file(&log.identity) {
            return lost("the log was replaced by another file");
        }
        let excess_max = match &self.excess {
            Excess::None => 0,
            Excess::Torn { cut: Cut::Done, .. } => 0,
            Excess::Torn { tail, .. } => tail.cut_bytes,
            Excess::Failed { bytes_max } => *bytes_max,
        };
        if there.size < self.length || there.size > self.length + excess_max {
            return lost("another program changed the length of the log");
        }
        Ok(())
    }

    /// The descriptor, opened again if it was dropped.
    fn file(&mut self, storage: &dyn Storage) -> io::Result<Arc<dyn StorageFile>> {
        let Some(log) = &mut self.log else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(file) = &log.file {
            return Ok(Arc::clone(file));
        }
        let file = storage.open(&log.path, OpenHow::Append)?;
        log.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn drop_descriptor(&mut self) {
        if let Some(log) = &mut self.log {
            log.file = None;
        }
    }

    /// Cuts the file to the accepted length, on the disk.
    fn cut(&mut self, shared: &Shared) -> io::Result<()> {
        let file = self.file(&*shared.storage)?;
        file.truncate(self.length)?;
        file.sync().inspect_err(|_| self.drop_descriptor())
    }

    /// Adds one batch as one frame (or as rows, in a raw log) and returns when it is on the disk.
    fn write_batch(&mut self, shared: &Shared, batch: &[Event]) -> Result<()> {
        self.bytes.clear();
        self.encode_batch(batch)?;
        let file = self.file(&*shared.storage);
        let file = file.map_err(|error| Error::io("open the log", &error).with_path(&self.place.path))?;
        let written = write_all(&*file, &self.bytes).map_err(|error| ("write to the log", error, false));
        let written =
            written.and_then(|()| file.sync().map_err(|error| ("make the log durable", error, true)));
        match written {
            Ok(()) => {
                self.length += self.bytes.len() as u64;
                Ok(())
            }
            Err((doing, error, is_sync)) => {
                if is_sync {
                    self.drop_descriptor();
                }
                let error = Error::io(doing, &error).with_path(&self.place.path);
                Err(self.roll_back(shared, error))
            }
        }
    }

    /// Takes back what a failed write left; reports the original failure, with that of the roll-back if there is one.
    fn roll_back(&mut self, shared: &Shared, error: Error) -> Error {
        let left = Excess::Failed { bytes_max: self.bytes.len() as u64 };
        match self.cut(shared) {
            Ok(()) => error,
            Err(second) => {
                // A torn tail that was cut is remembered with its recovered rows; a cut that is done allows no excess.
                match &mut self.excess {
                    Excess::Torn { tail, cut, .. } => {
                        *cut = Cut::Begun;
                        tail.cut_bytes = self.bytes.len() as u64;
                    }
                    excess => *excess = left,
                }
                error.with_cause(Error::io("take back the failed write", &second).with_path(&self.place.path))
            }
        }
    }

    /// The first append after a torn tail (`format.md` 6.5, `design.md` 5): save, cut, put back what was recovered.
    ///
    /// Each step is remembered when it succeeded, so a repair that fails is taken up by the next append and nothing is done twice.
    fn repair(&mut self, shared: &Shared, id: &str, notices: &mut Vec<Notice>) -> Result<()> {
        let Excess::Torn { tail, saved, cut } = &self.excess else { return Ok(()) };
        let (recovered, cut_rows) = (tail.recovered.clone(), tail.cut_rows);
        if *cut != Cut::Done {
            if cut_rows > 0 && saved.is_none() {
                let path = self.save_tail(shared).map_err(|error| error.with_session_id(id))?;
                if let Excess::Torn { saved, .. } = &mut self.excess {
                    *saved = Some(path);
                }
            }
            self.set_cut(Cut::Begun);
            self.cut(shared).map_err(|error| self.io("cut the torn tail", &error, id))?;
            self.set_cut(Cut::Done);
        }
        let keep_bytes = self.length;
        if !recovered.is_empty() {
            self.write_batch(shared, &recovered).map_err(|error| error.with_session_id(id))?;
        }
        let saved = match std::mem::replace(&mut self.excess, Excess::None) {
            Excess::Torn { saved, .. } => saved,
            _ => None,
        };
        // Every row of the copy is in the log again: the copy has served.
        let is_put_back = recovered.len() as u64 == cut_rows;
        let saved = saved.filter(|path| !is_put_back || shared.storage.remove_file(path).is_err());
        notices.push(Notice::TailCut { keep_bytes, saved });
        Ok(())
    }

    fn set_cut(&mut self, state: Cut) {
        if let Excess::Torn { cut, .. } = &mut self.excess {
            *cut = state;
        }
    }

    /// Copies the bytes after the accepted length to a file of their own beside the log, on the disk.
    fn save_tail(&mut self, shared: &Shared) -> Result<PathBuf> {
        let storage = &*shared.storage;
        let failed =
            |error: &io::Error, path: &PathBuf| Error::io("save the torn tail", error).with_path(path);
        let log = self.file(storage).map_err(|error| failed(&error, &self.place.path))?;
        for number in 1..=SAVED_NAMES_MAX {
            let path = self.place.directory.join(names::cut_file_name(
                self.length,
                number.into(),
                self.place.encoding,
            ));
            let copy = match storage.open(&path, OpenHow::CreateNew) {
                Ok(copy) => copy,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(&error, &path)),
            };
            let copied = copy_from(&*log, self.length, &*copy)
                .and_then(|()| copy.sync())
                .and_then(|()| storage.sync_directory(&self.place.directory));
            return match copied {
                Ok(()) => Ok(path),
                Err(error) => {
                    let _ = storage.remove_file(&path);
                    Err(failed(&error, &path))
                }
            };
        }
        let message = format!("{SAVED_NAMES_MAX} saved tails of this log exist already");
        Err(Error::new(Code::SessionConflict, message)
            .with_path(&self.place.directory)
            .with_advice("look at the files `session.cut-…` in the session folder and move them away"))
    }

    /// As many frames as they need at about [`FRAME_TEXT_BYTES`] each.
    fn encode_frames(&mut self, mut events: &[Event]) -> Result<()> {
        while !events.is_empty() {
            let mut bytes = 0;
            let ends = |event: &Event| {
                bytes += event.row().len() + 1;
                bytes >= FRAME_TEXT_BYTES
            };
            let frame = events.iter().position(ends).map_or(events.len(), |last| last + 1);
            let (batch, rest) = events.split_at(frame);
            self.encode_batch(batch)?;
            events = rest;
        }
        Ok(())
    }

    fn encode_batch(&mut self, batch: &[Event]) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        for event in batch {
            text.push_str(event.row());
            text.push('\n');
        }
        let encoded = self.encode_text(&text);
        self.text = text;
        encoded
    }

    fn encode_text(&mut self, text: &str) -> Result<()> {
        match self.place.encoding {
            Encoding::None => {
                self.bytes.extend_from_slice(text.as_bytes());
                Ok(())
            }
            Encoding::Zstd => self.encoder.encode(text.as_bytes(), &mut self.bytes).map_err(|fault| {
                Error::new(Code::OutOfMemory, format!("the batch could not be compressed: {fault}"))
            }),
        }
    }
}

fn copy_from(log: &dyn StorageFile, mut offset: u64, copy: &dyn StorageFile) -> io::Result<()> {
    let mut piece = vec![0; COPY_PIECE_BYTES];
    loop {
        let read = log.read_at(&mut piece, offset)?;
        if read == 0 {
            return Ok(());
        }
        write_all(copy, piece.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
}

/// Bytes of another log.
struct CopiedRange<'a> {
    from: &'a StoredEvents,
    start: u64,
    end: u64,
    cancel: &'a CancelToken,
}

impl CopiedRange<'_> {
    fn copy_to(&self, file: &dyn StorageFile, path: &Path) -> Result<()> {
        let mut piece =
            vec![0; COPY_PIECE_BYTES.min(usize::try_from(self.end - self.start).unwrap_or(COPY_PIECE_BYTES))];
        let mut offset = self.start;
        while offset < self.end {
            self.cancel.check()?;
            let room = usize::try_from(self.end - offset).unwrap_or(usize::MAX).min(piece.len());
            let piece = piece.get_mut(..room).unwrap_or_default();
            let read = match self.from.source.file.read_at(piece, offset) {
                Ok(0) => {
                    let message = "the log ended before the events that were to be copied";
                    return Err(Error::new(Code::SourceChanged, message).with_path(&self.from.path));
                }
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Error::io("read the log that is copied", &error).with_path(&self.from.path));
                }
            };
            let piece = piece.get(..read).unwrap_or_default();
            write_all(file, piece)
                .map_err(|error| Error::io("write the staging file", &error).with_path(path))?;
            offset += read as u64;
        }
        Ok(())
    }
}
