//! Power failures: whatever a crash leaves on the disk, what was acknowledged is there (`design.md` 9).
//!
//! A *chain* is one session's story: several *lives*, each of which begins with what a crash of the one before left, so torn tails and
//! their repair come by themselves. In a life a random writer works on a recording storage: batches, flushes, closes, processes killed
//! in the middle of a call, failing calls, syncs that lose data. Then, for every crash point of its journal, all corner images and some
//! random ones are opened again and checked:
//!
//! - what is there is what was sent, from the first event on without a hole, and holds everything acknowledged;
//! - opening it for writing works, and so does appending; both read back;
//! - an image in which unsynced bytes survived behind lost ones may be refused as corrupt, if what stands before the damage holds
//!   everything acknowledged;
//! - no complete row that a repair cuts is lost: it is in the log again or in a `session.cut-…` file.
//!
//! `DSH_CRASH_IMAGES` says how many images in all, `DSH_SEED` where the chains begin. A failure names its chain: with that seed and one
//! image it comes back.
//!
//! Left out, because nothing can be done about it: a process that is killed between writing and syncing, and whose bytes the next
//! process's sync then loses.

mod durability;

use dsh_session_core::event::{Event, EventDraft};
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::{NewLog, Notice, Removal};
use dsh_session_core::storage::simulation::{
    CrashImage, CrashImages, Effect, Fault, FaultyStorage, MemoryStorage, RecordingStorage, SplitMix64,
};
use dsh_session_core::storage::{ProcessIdentity, Storage};
use dsh_session_core::{
    Access, Code, Encoding, EventRange, ListMode, NewSession, Session, SessionHeader, SessionLog,
    SessionPersistence, Store,
};
use durability::{end_seed, go_on, header, note_of_length, setting};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer};

const ROOT: &str = "/data/sessions";
const ID: &str = "s";

/// Lives of a chain.
const LIVES: u64 = 4;

/// Random images of each crash point, beside all its corners.
const SAMPLES: u64 = 6;

/// What an append goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A log handle: each append is acknowledged when it returns.
    Log,
    /// A session: events wait, and are acknowledged by a flush or a close.
    Session,
}

/// Everything that was ever tried at a place of the log, and what was acknowledged.
#[derive(Clone, Debug, Default)]
struct Story {
    /// Runs of rows that were sent together, with the seq of the first. A crash may leave the first few of a run.
    sent: Vec<(u64, Vec<String>)>,
    /// The rows that the writer counts as the log's.
    accepted: Vec<String>,
    /// Accepted in memory by a session, not yet acknowledged.
    waiting: Vec<String>,
    /// How much of `accepted` is acknowledged; `None` while the session need not exist.
    acknowledged: Option<usize>,
    /// Complete rows that stood in the log or beside it when the life began: whatever happens later, they are never lost.
    found: BTreeSet<String>,
}

impl Story {
    fn next_seq(&self) -> u64 {
        (self.accepted.len() + self.waiting.len()) as u64
    }

    /// Whether `rows` are runs that were sent, one after the other, the last one perhaps in part.
    fn was_sent(&self, rows: &[String]) -> bool {
        self.goes_on(rows, 0)
    }

    fn goes_on(&self, rows: &[String], from: usize) -> bool {
        let rest = &rows[from..];
        let runs = self.sent.iter().filter(|(start, _)| *start == from as u64).map(|(_, run)| run);
        rest.is_empty()
            || runs.clone().any(|run| run.starts_with(rest))
            || runs.clone().any(|run| rest.starts_with(run) && self.goes_on(rows, from + run.len()))
    }
}

/// The open writer of a life.
enum Writer {
    Log(Arc<dyn SessionLog>),
    Session(Session),
}

impl Writer {
    fn notices(&self) -> Vec<Notice> {
        match self {
            Writer::Log(log) => log.notices(),
            Writer::Session(session) => session.notices(),
        }
    }

    fn flush(&self) -> dsh_session_core::Result<()> {
        match self {
            Writer::Log(log) => log.flush(&go_on()),
            Writer::Session(session) => session.flush(),
        }
    }

    fn close(&self) -> dsh_session_core::Result<()> {
        match self {
            Writer::Log(log) => log.close(),
            Writer::Session(session) => session.close(),
        }
    }

    /// Whether a torn tail that holds events waits to be cut: a flush leaves it alone, so it promises nothing for them.
    fn recovered(&self) -> usize {
        let mut recovered = 0;
        for notice in self.notices() {
            match notice {
                Notice::TornTail { recovered: events, .. } => recovered = events as usize,
                Notice::TailCut { .. } => recovered = 0,
                _ => {}
            }
        }
        recovered
    }
}

/// One journal: from one crash to the next.
struct Life<'a> {
    way: Way,
    encoding: Encoding,
    storage: RecordingStorage,
    faulty: FaultyStorage,
    story: &'a mut Story,
    writer: Option<Writer>,
    random: &'a mut SplitMix64,
    process: u32,
    is_hostile: bool,
    /// Whether everything that the open writer found was synced since. Before that, a sync that loses data loses what a killed process
    /// left, and nobody has those bytes to write them again.
    is_settled: bool,
}

impl<'a> Life<'a> {
    fn new(
        disk: &MemoryStorage,
        way: Way,
        encoding: Encoding,
        is_hostile: bool,
        story: &'a mut Story,
        random: &'a mut SplitMix64,
    ) -> Self {
        let storage = RecordingStorage::new(disk);
        let faulty = FaultyStorage::new(Arc::new(storage.clone()));
        story.found = rows_on(disk, encoding);
        let mut life = Life {
            way,
            encoding,
            storage,
            faulty,
            story,
            writer: None,
            random,
            process: 100,
            is_hostile,
            is_settled: false,
        };
        life.begin_process();
        life.mark();
        life
    }

    fn begin_process(&mut self) {
        self.process += 1;
        self.storage.memory().set_current_process(ProcessIdentity {
            id: self.process,
            began: format!("boot/{}", self.process),
            program: "writer".to_owned(),
        });
    }

    fn mark(&self) {
        if let Some(count) = self.story.acknowledged {
            self.storage.mark(1 + count as u64);
        }
    }

    fn acknowledge(&mut self, count: usize) {
        let before = self.story.acknowledged.unwrap_or(0);
        self.story.acknowledged = Some(before.max(count));
        self.is_settled = true;
        self.mark();
    }

    fn live(&mut self) {
        for _ in 0..4 + self.random.below(6) {
            self.act();
        }
        if self.random.once_in(2) {
            self.close();
        }
        self.writer = None;
        self.faulty.clear_faults();
    }

    fn act(&mut self) {
        if self.writer.is_none() {
            self.open();
            return;
        }
        self.arrange_failures();
        match (self.random.below(12), self.way) {
            (0..=4, _) | (5 | 6, Way::Log) => self.append(),
            (5..=8, _) => self.flush(),
            (9, _) => self.close(),
            (10, _) if self.is_hostile => self.kill(),
            _ => self.append(),
        }
        self.faulty.clear_faults();
        self.storage.fail_next_syncs(0);
    }

    /// Sometimes the next call of the library meets a failing call of the system, or a sync that loses data. Not both: a failed sync
    /// whose roll-back fails as well leaves bytes that nobody can know to be lost.
    fn arrange_failures(&mut self) {
        if !self.is_hostile || !self.random.once_in(3) {
            return;
        }
        if self.random.once_in(3) {
            if !self.is_settled {
                return;
            }
            self.storage.fail_next_syncs(1 + self.random.below(2) as u32);
            return;
        }
        let call = self.faulty.calls() + 1 + self.random.below(14);
        let bytes = self.random.below(40) as usize;
        let faults = [
            Fault::error(28),
            Fault::error(5),
            Fault::error_after_effect(5),
            Fault::error_after_bytes(28, bytes),
            Fault::short(bytes),
        ];
        let fault = *self.random.choose(&faults).unwrap();
        self.faulty.fail_call(call, fault);
        if self.random.once_in(3) {
            self.faulty.fail_call(call + 1 + self.random.below(3), Fault::error(5));
        }
    }

    fn open(&mut self) {
        let storage: Arc<dyn Storage> = Arc::new(self.faulty.clone());
        let opened = match self.way {
            Way::Log => {
                let backend = files(storage, self.encoding);
                let found = match backend.open(ID, Access::Write, &go_on()) {
                    Err(error) if error.code() == Code::SessionNotFound => {
                        backend.create(&header(ID), None, &go_on())
                    }
                    found => found,
                };
                found.map(Writer::Log)
            }
            Way::Session => {
                let store = Store::builder(ROOT).storage(storage).encoding(self.encoding).open().unwrap();
                let found = match store.open_session(ID) {
                    Err(error) if error.code() == Code::SessionNotFound => {
                        store.create(NewSession { header: header(ID), ..NewSession::new() })
                    }
                    found => found,
                };
                found.map(Writer::Session)
            }
        };
        let writer = opened.unwrap();
        let rows = match &writer {
            Writer::Log(log) => rows_of(log.events(EventRange::ALL, &go_on()).unwrap().map(Result::unwrap)),
            Writer::Session(session) => rows_of(session.events(EventRange::ALL).unwrap().map(Result::unwrap)),
        };
        assert!(self.story.was_sent(&rows), "a writer found what was never sent");
        assert!(rows.len() >= self.story.acknowledged.unwrap_or(0), "acknowledged events are gone");
        // What a crash left of a run is one from now on: the next one follows it.
        if !rows.is_empty() {
            self.story.sent.push((0, rows.clone()));
        }
        self.story.accepted = rows;
        self.story.waiting.clear();
        self.is_settled = self.story.acknowledged.is_none() && self.story.accepted.is_empty();
        self.writer = Some(writer);
    }

    fn append(&mut self) {
        let count = 1 + self.random.below(4);
        let salt = self.random.next_u64() >> 20;
        let from = self.story.next_seq();
        let events: Vec<_> =
            (from..from + count).map(|seq| note_of_length(seq, salt, self.length())).collect();
        match &self.writer {
            Some(Writer::Log(log)) => {
                let rows = rows_of(events.iter().cloned());
                self.story.sent.push((from, rows.clone()));
                if log.append(&events, &go_on()).is_ok() {
                    self.story.accepted.extend(rows);
                    let count = self.story.accepted.len();
                    self.acknowledge(count);
                }
            }
            Some(Writer::Session(session)) => {
                let drafts: Vec<_> =
                    events.iter().map(|event| EventDraft::from_line(event_line(event)).unwrap()).collect();
                // What waits is accepted whatever the disk says.
                let rows = rows_of(session.append_batch(&drafts).unwrap());
                let from_each = (from..).zip(rows.iter());
                self.story.sent.extend(from_each.map(|(seq, row)| (seq, vec![row.clone()])));
                self.story.waiting.extend(rows);
            }
            None => {}
        }
    }

    /// Mostly short; now and then several blocks of a frame.
    fn length(&mut self) -> usize {
        let length = match self.random.below(400) {
            0 => 140_000 + self.random.below(160_000),
            1..20 => 1000 + self.random.below(4000),
            _ => self.random.below(100),
        };
        length as usize
    }

    fn flush(&mut self) {
        let Some(writer) = &self.writer else { return };
        let is_log = matches!(writer, Writer::Log(_));
        if writer.flush().is_ok() {
            let recovered = writer.recovered();
            let waiting = std::mem::take(&mut self.story.waiting);
            assert!(is_log || waiting.is_empty() || recovered == 0);
            self.story.accepted.extend(waiting);
            let count = self.story.accepted.len() - recovered;
            self.acknowledge(count);
        }
    }

    fn close(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        if writer.close().is_ok() && !self.story.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.story.waiting);
            self.story.accepted.extend(waiting);
            let count = self.story.accepted.len();
            self.acknowledge(count);
        }
    }

    /// The process dies in the middle of a call: from some call of the system on, nothing it does has an effect.
    fn kill(&mut self) {
        // Without its roll-back, a sync that loses data could not be told from one that never ran.
        self.storage.fail_next_syncs(0);
        let call = self.faulty.calls() + 1 + self.random.below(16);
        self.faulty.fail_from(call, Fault::error(5));
        if self.random.once_in(4) {
            self.flush()
        } else {
            self.append()
        }
        self.writer = None;
        self.storage.memory().end_process(self.process);
        self.faulty.clear_faults();
        self.begin_process();
    }
}

fn files(storage: Arc<dyn Storage>, encoding: Encoding) -> FilePersistence {
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    FilePersistence::with_storage(ROOT, storage, settings).unwrap()
}

fn rows_of(events: impl IntoIterator<Item = Event>) -> Vec<String> {
    events.into_iter().map(|event| event.row().to_owned()).collect()
}

/// The line that a session takes for this event: without its seq, with its time.
fn event_line(event: &Event) -> String {
    let data = event.data().text().to_owned();
    format!(r#"{{"type":"{}","time":{},"data":{data},"ignorable":true}}"#, event.kind(), event.time())
}

/// What a campaign has seen.
#[derive(Debug, Default)]
struct Figures {
    images: u64,
    chains: u64,
    journals: u64,
    effects: u64,
    absent: u64,
    with_holes: u64,
    corrupt: u64,
    altered: u64,
    torn: u64,
    recovered_rows: u64,
    saved_tails: u64,
}

/// Opens what a crash left and checks every promise.
fn check(image: &CrashImage, story: &Story, encoding: Encoding, salt: u64, figures: &mut Figures) {
    figures.images += 1;
    figures.with_holes += u64::from(image.has_hole);
    let backend = files(Arc::new(image.storage.clone()), encoding);
    // A mark is one more than the events that were acknowledged, so that a session without events has one.
    let acknowledged = image.acknowledged.map_or(0, |mark| mark as usize - 1);
    let found = match backend.open(ID, Access::Read, &go_on()) {
        Ok(reader) => read_until_damage(&*reader),
        Err(error) => {
            assert_eq!(error.code(), Code::SessionNotFound, "{error}");
            assert_eq!(image.acknowledged, None, "an acknowledged session is gone");
            figures.absent += 1;
            (Vec::new(), None)
        }
    };
    let (rows, damage) = found;
    assert!(
        rows.len() >= acknowledged,
        "{} events of {acknowledged} acknowledged ones: {damage:?}",
        rows.len()
    );
    assert!(rows[..acknowledged] == story.accepted[..acknowledged], "acknowledged events changed");
    if image.has_hole && !story.was_sent(&rows) {
        // A torn frame has no checksum: where a byte in its middle was lost, a row that nobody acknowledged may read altered.
        figures.altered += 1;
        return;
    }
    assert!(story.was_sent(&rows), "events that were never sent, or not in this order");
    let lost = story.found.difference(&rows_on(&image.storage, encoding)).next().cloned();
    assert!(lost.is_none() || damage.is_some(), "a repair destroyed a row: {lost:?}");
    match damage {
        Some(error) => {
            assert!(image.has_hole, "refused without a hole: {error}");
            assert_eq!(error.code(), Code::SessionCorrupt, "{error}");
            assert_eq!(error.salvageable(), Some(rows.len() as u64));
            figures.corrupt += 1;
            let before = image.storage.tree();
            assert_eq!(backend.open(ID, Access::Write, &go_on()).unwrap_err().code(), Code::SessionCorrupt);
            let names = |tree: &[(std::path::PathBuf, Option<Vec<u8>>)]| {
                tree.iter().filter(|(path, _)| !path.ends_with("session.lock")).cloned().collect::<Vec<_>>()
            };
            assert_eq!(names(&before), names(&image.storage.tree()), "a refused open changed something");
        }
        None => go_on_writing(image, &backend, rows, encoding, salt, figures),
    }
    assert_eq!((image.storage.open_files(), image.storage.held_locks()), (0, 0));
}

fn read_until_damage(reader: &dyn SessionLog) -> (Vec<String>, Option<dsh_session_core::Error>) {
    let mut rows = Vec::new();
    let events = match reader.events(EventRange::ALL, &go_on()) {
        Ok(events) => events,
        Err(error) => return (rows, Some(error)),
    };
    for event in events {
        match event {
            Ok(event) => rows.push(event.row().to_owned()),
            Err(error) => return (rows, Some(error)),
        }
    }
    let newest = reader.events(EventRange::newest(2), &go_on()).unwrap().map(Result::unwrap);
    assert!(rows_of(newest) == rows[rows.len().saturating_sub(2)..], "the newest events are others");
    (rows, None)
}

/// Reopening and appending work, and nothing that parses is destroyed.
fn go_on_writing(
    image: &CrashImage,
    backend: &FilePersistence,
    mut rows: Vec<String>,
    encoding: Encoding,
    salt: u64,
    figures: &mut Figures,
) {
    let writer = match backend.open(ID, Access::Write, &go_on()) {
        Err(error) if error.code() == Code::SessionNotFound && rows.is_empty() => {
            backend.create(&header(ID), None, &go_on()).unwrap()
        }
        opened => opened.unwrap(),
    };
    assert_eq!(writer.event_count(&go_on()).unwrap(), rows.len() as u64);
    let tail = torn_rows(image, &*writer, figures);
    let next = rows.len() as u64;
    let more: Vec<_> = (next..next + 2).map(|seq| note_of_length(seq, salt, 30)).collect();
    writer.append(&more, &go_on()).unwrap();
    writer.close().unwrap();
    rows.extend(rows_of(more));
    let (again, damage) = read_until_damage(&*backend.open(ID, Access::Read, &go_on()).unwrap());
    assert!(damage.is_none(), "{damage:?}");
    assert!(again == rows, "another log after appending");
    let listing = backend.list(ListMode::Strict, &go_on()).unwrap();
    assert_eq!(listing.sessions.len(), 1);
    let path = listing.sessions[0].path.clone().unwrap();
    assert!(path.to_string_lossy().ends_with(encoding.extension()));
    let mut kept: BTreeSet<String> = again.into_iter().collect();
    kept.extend(saved_rows(&image.storage, path.parent().unwrap(), encoding, figures));
    assert!(tail.is_subset(&kept), "a repair destroyed rows: {:?}", tail.difference(&kept).next());
}

/// The rows in the bytes that the next append will cut.
fn torn_rows(image: &CrashImage, writer: &dyn SessionLog, figures: &mut Figures) -> BTreeSet<String> {
    let torn = writer.notices().into_iter().find_map(|notice| match notice {
        Notice::TornTail { keep_bytes, cut_bytes, recovered, .. } => Some((keep_bytes, cut_bytes, recovered)),
        _ => None,
    });
    let Some((keep_bytes, cut_bytes, recovered)) = torn else { return BTreeSet::new() };
    figures.torn += 1;
    figures.recovered_rows += recovered;
    let (path, bytes) = image.storage.tree().into_iter().find(|(path, _)| is_log(path)).unwrap();
    let bytes = &bytes.unwrap()[keep_bytes as usize..];
    assert_eq!(bytes.len() as u64, cut_bytes);
    let is_compressed = path.extension().is_some_and(|end| end == "zstd");
    complete_rows(bytes, if is_compressed { Encoding::Zstd } else { Encoding::None })
}

/// Neither a staging file nor a saved tail.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == "session.v4.jsonl" || name == "session.v4.jsonl.zstd"
}

/// Every complete row in the log and in saved tails.
fn rows_on(disk: &MemoryStorage, encoding: Encoding) -> BTreeSet<String> {
    let is_saved = |path: &Path| path.to_string_lossy().contains("/session.cut-");
    let files = disk.tree().into_iter().filter(|(path, _)| is_log(path) || is_saved(path));
    files.filter_map(|(_, bytes)| bytes).flat_map(|bytes| complete_rows(&bytes, encoding)).collect()
}

fn saved_rows(
    storage: &MemoryStorage,
    directory: &Path,
    encoding: Encoding,
    figures: &mut Figures,
) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in storage.read_directory(directory).unwrap() {
        if entry.name.to_string_lossy().starts_with("session.cut-") {
            figures.saved_tails += 1;
            let bytes = storage.read_file(&directory.join(entry.name)).unwrap();
            rows.extend(complete_rows(&bytes, encoding));
        }
    }
    rows
}

/// The JSON objects that stand in lines of these bytes, decoded without any code of the library.
fn complete_rows(bytes: &[u8], encoding: Encoding) -> BTreeSet<String> {
    let text = match encoding {
        Encoding::None => bytes.to_vec(),
        Encoding::Zstd => unpack_what_holds(bytes),
    };
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let is_object =
        |line: &&str| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).is_ok();
    lines.filter(is_object).map(str::to_owned).collect()
}

/// What a streaming decoder gives before it fails.
fn unpack_what_holds(bytes: &[u8]) -> Vec<u8> {
    let mut context = DCtx::create();
    let mut input = InBuffer::around(bytes);
    let mut text = Vec::new();
    loop {
        let mut piece = vec![0; 256 * 1024];
        let mut output = OutBuffer::around(&mut piece[..]);
        let hint = context.decompress_stream(&mut output, &mut input);
        let written = output.pos();
        text.extend_from_slice(&piece[..written]);
        let is_stuck = input.pos() == bytes.len() && written == 0;
        if hint.is_err() || is_stuck {
            return text;
        }
    }
}

/// One chain of lives; every image of every crash of each of them.
fn run_chain(seed: u64, way: Way, encoding: Encoding, figures: &mut Figures) {
    let mut random = SplitMix64::new(seed);
    let disk = MemoryStorage::new(seed);
    disk.create_directory("/data".as_ref()).unwrap();
    let mut disk = disk;
    let mut story = Story::default();
    figures.chains += 1;
    // Some chains meet nothing but the crash.
    let is_hostile = !seed.is_multiple_of(4);
    for life_number in 0..LIVES {
        let mut life = Life::new(&disk, way, encoding, is_hostile, &mut story, &mut random);
        life.live();
        let journal = life.storage.journal();
        drop(life);
        figures.journals += 1;
        figures.effects += journal.len() as u64;
        let mut images = CrashImages::new(&journal, seed ^ life_number);
        let mut torn = Vec::new();
        for effects in 0..=journal.len() {
            let point = images.point(effects);
            let samples = (0..SAMPLES).map(|_| point.sample(&mut random)).collect::<Vec<_>>();
            for image in point.corners().into_iter().chain(samples) {
                let next = MemoryStorage::copy(&image.storage);
                let salt = random.next_u64() >> 20;
                let (unusable, torn_before) = (figures.corrupt + figures.altered, figures.torn);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    check(&image, &story, encoding, salt, figures);
                }));
                if let Err(panic) = outcome {
                    eprintln!("DSH_SEED={seed} {way:?} {} life {life_number}: {image:#?}", encoding.as_str());
                    let before = &journal.effects()[effects.saturating_sub(30)..effects];
                    before.iter().for_each(|effect| eprintln!("  {}", told(effect)));
                    std::panic::resume_unwind(panic);
                }
                // The next life begins with a torn tail if there was one, and never with what is refused.
                if figures.corrupt + figures.altered == unusable {
                    let is_torn = figures.torn > torn_before;
                    let acknowledged = image.acknowledged;
                    if is_torn || (torn.is_empty() && effects == journal.len()) {
                        torn.push((next, acknowledged));
                    }
                }
            }
        }
        let Some((next, acknowledged)) = random.choose(&torn).cloned() else { return };
        disk = next;
        // Later acknowledgements are of a future that did not happen; what was sent then may stay in the list of what was sent.
        story.acknowledged = acknowledged.map(|mark| mark as usize - 1);
        story.waiting.clear();
    }
}

/// An effect on one line.
fn told(effect: &Effect) -> String {
    match effect {
        Effect::Append { inode, offset, bytes } => {
            format!("Append {} bytes at {offset} of {inode}", bytes.len())
        }
        other => format!("{other:?}"),
    }
}

fn campaign(way: Way, encoding: Encoding) {
    // Four campaigns share what was asked for.
    let wanted = setting("DSH_CRASH_IMAGES", 20_000).div_ceil(4);
    let first_seed = setting("DSH_SEED", 1);
    let mut figures = Figures::default();
    let mut seed = first_seed;
    while figures.images < wanted {
        run_chain(seed, way, encoding, &mut figures);
        seed += 1;
    }
    let last_seed = seed - 1;
    println!("crash images, {way:?}, {}, seeds {first_seed} to {last_seed}: {figures:?}", encoding.as_str());
}

/// Removes a session that has a saved tail beside its log; whole before, gone for good once that is acknowledged.
#[test]
fn a_removed_session_is_whole_or_gone_after_every_crash() {
    for (encoding, how) in [Encoding::None, Encoding::Zstd]
        .into_iter()
        .flat_map(|encoding| [Removal::Delete, Removal::Trash].map(|how| (encoding, how)))
    {
        let disk = MemoryStorage::new(2);
        disk.create_directory("/data".as_ref()).unwrap();
        let log = files(Arc::new(disk.clone()), encoding).create(&header(ID), None, &go_on()).unwrap();
        let events: Vec<_> = (0..3).map(|seq| note_of_length(seq, 1, 20)).collect();
        log.append(&events, &go_on()).unwrap();
        log.close().unwrap();
        let storage = RecordingStorage::new(&disk);
        files(Arc::new(storage.clone()), encoding).remove(ID, how, &go_on()).unwrap();
        storage.mark(1);
        let journal = storage.journal();
        let mut images = CrashImages::new(&journal, 1);
        for effects in 0..=journal.len() {
            for image in images.at(effects) {
                let backend = files(Arc::new(image.storage.clone()), encoding);
                match backend.open(ID, Access::Read, &go_on()) {
                    Ok(reader) => {
                        assert_eq!(image.acknowledged, None, "a removed session is back: {image:?}");
                        assert!(read_until_damage(&*reader).0 == rows_of(events.clone()));
                        drop(reader);
                        backend.remove(ID, how, &go_on()).unwrap();
                    }
                    Err(error) => assert_eq!(error.code(), Code::SessionNotFound, "{error}"),
                }
                let again = backend.create(&header(ID), None, &go_on()).unwrap();
                again.append(&events[..1], &go_on()).unwrap();
            }
        }
    }
}

/// A session that begins with the frames of another: whole or not there, and its source as it was.
#[test]
fn a_forked_session_is_whole_or_absent_after_every_crash() {
    for encoding in [Encoding::None, Encoding::Zstd] {
        let disk = MemoryStorage::new(2);
        disk.create_directory("/data".as_ref()).unwrap();
        let source = files(Arc::new(disk.clone()), encoding).create(&header(ID), None, &go_on()).unwrap();
        let all: Vec<_> = (0..6).map(|seq| note_of_length(seq, 1, 20)).collect();
        all.chunks(2).for_each(|batch| source.append(batch, &go_on()).unwrap());
        source.close().unwrap();
        let storage = RecordingStorage::new(&disk);
        let backend = files(Arc::new(storage.clone()), encoding);
        let reader = backend.open(ID, Access::Read, &go_on()).unwrap();
        let child = SessionHeader { is_seeded: true, ..header("child") };
        let events = [all[..5].to_vec(), vec![end_seed(5)]].concat();
        let new = NewLog {
            header: &child,
            inherited_event_count: Some(5),
            events: &events,
            are_checked: false,
            stored: reader.stored_events(),
        };
        backend.create_with(new, &go_on()).unwrap();
        storage.mark(1);
        let journal = storage.journal();
        let mut images = CrashImages::new(&journal, 1);
        for effects in 0..=journal.len() {
            for image in images.at(effects) {
                let backend = files(Arc::new(image.storage.clone()), encoding);
                match backend.open("child", Access::Write, &go_on()) {
                    Ok(log) => assert!(read_until_damage(&*log).0 == rows_of(events.clone()), "{image:?}"),
                    Err(error) => {
                        assert_eq!(error.code(), Code::SessionNotFound, "{error}");
                        assert_eq!(image.acknowledged, None, "an acknowledged fork is gone: {image:?}");
                    }
                }
                let source = backend.open(ID, Access::Write, &go_on()).unwrap();
                assert!(read_until_damage(&*source).0 == rows_of(all.clone()), "{image:?}");
            }
        }
    }
}

#[test]
fn appends_to_a_raw_log_survive_every_crash() {
    campaign(Way::Log, Encoding::None);
}

#[test]
fn appends_to_a_compressed_log_survive_every_crash() {
    campaign(Way::Log, Encoding::Zstd);
}

#[test]
fn flushed_events_of_a_raw_session_survive_every_crash() {
    campaign(Way::Session, Encoding::None);
}

#[test]
fn flushed_events_of_a_compressed_session_survive_every_crash() {
    campaign(Way::Session, Encoding::Zstd);
}
