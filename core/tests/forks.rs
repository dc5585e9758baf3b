//! Logs that begin with the events of another: the same as logs that were appended to, and copied from stored bytes where that can be.

mod durability;

use dsh_session_core::event::Vocabulary;
use dsh_session_core::format::frames::{FrameEncoder, scan_frames};
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::memory::MemoryPersistence;
use dsh_session_core::persistence::{NewLog, Removal, StoredEvents};
use dsh_session_core::session::{ProjectionContext, Projections, Seed, SessionRules, fork_seed};
use dsh_session_core::storage::Storage;
use dsh_session_core::storage::simulation::{MemoryStorage, SplitMix64};
use dsh_session_core::{
    Access, CancelToken, Code, Encoding, Event, EventDraft, NewSession, Result, Session, SessionHeader,
    SessionLog, SessionPersistence, Store, SurfaceOp,
};
use durability::{
    end_seed, event, events, go_on, header, note_of_length, read_all, read_log, refusal, setting,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENCODINGS: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

fn files_on(disk: &MemoryStorage, root: &str, encoding: Encoding) -> FilePersistence {
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    FilePersistence::with_storage(root, Arc::new(disk.clone()), settings).unwrap()
}

fn files(disk: &MemoryStorage, encoding: Encoding) -> FilePersistence {
    files_on(disk, "/data", encoding)
}

fn on_every_backend(promise: impl Fn(&dyn SessionPersistence)) {
    promise(&MemoryPersistence::new());
    for encoding in ENCODINGS {
        promise(&files(&MemoryStorage::new(7), encoding));
    }
}

/// The source `s`, written in these batches.
fn source(backend: &dyn SessionPersistence, batches: &[Vec<Event>]) -> Arc<dyn SessionLog> {
    let log = backend.create(&header("s"), None, &go_on()).unwrap();
    for batch in batches {
        log.append(batch, &go_on()).unwrap();
    }
    log
}

/// A child that inherits the first `cut` of these events.
fn fork(
    backend: &dyn SessionPersistence,
    id: &str,
    all: &[Event],
    cut: u64,
    stored: Option<StoredEvents>,
) -> Result<Arc<dyn SessionLog>> {
    let header = SessionHeader { is_seeded: true, ..header(id) };
    let mut events = all[..cut as usize].to_vec();
    events.push(end_seed(cut));
    let new = NewLog {
        header: &header,
        inherited_event_count: Some(cut),
        events: &events,
        are_checked: false,
        stored,
    };
    backend.create_with(new, &go_on())
}

fn with_marker(all: &[Event], cut: u64) -> Vec<Event> {
    let mut events = all[..cut as usize].to_vec();
    events.push(end_seed(cut));
    events
}

fn log_path(backend: &dyn SessionPersistence, id: &str) -> PathBuf {
    backend.stat(id, &go_on()).unwrap().unwrap().path.unwrap()
}

fn bytes_of(disk: &MemoryStorage, path: &Path) -> Vec<u8> {
    let file = disk.open(path, dsh_session_core::storage::OpenHow::Read).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += file.read_at(&mut bytes[filled..], filled as u64).unwrap();
    }
    bytes
}

/// Batches of one to five events of some hundred bytes that hardly compress: some hundred KiB, so that a place in them is searched for.
fn long_batches(seed: u64) -> Vec<Vec<Event>> {
    let mut random = SplitMix64::new(seed);
    let (mut batches, mut next) = (Vec::new(), 0);
    while next < 800 {
        let count = 1 + random.below(5);
        let length = |seq: u64| 200 + (seq * 37 % 700) as usize;
        batches.push((next..next + count).map(|seq| note_of_length(seq, seed, length(seq))).collect());
        next += count;
    }
    batches
}

#[test]
fn a_log_created_with_events_is_on_the_disk_and_one_that_was_appended_to() {
    on_every_backend(|backend| {
        for count in [0, 1, 5] {
            let (id, all) = (format!("s{count}"), events(0..count, 1));
            let header = header(&id);
            let new = NewLog {
                header: &header,
                inherited_event_count: None,
                events: &all,
                are_checked: false,
                stored: None,
            };
            let log = backend.create_with(new.clone(), &go_on()).unwrap();
            assert!(backend.stat(&id, &go_on()).unwrap().unwrap().format_status.is_some(), "stored at once");
            assert_eq!(refusal(backend.create_with(new, &go_on())), Code::SessionAlreadyExists);
            log.append(&events(count..count + 3, 1), &go_on()).unwrap();
            log.close().unwrap();
            assert_eq!(read_all(backend, &id).unwrap(), events(0..count + 3, 1));
        }
    });
}

#[test]
fn what_cannot_be_a_log_is_refused_and_leaves_nothing() {
    on_every_backend(|backend| {
        let seeded = SessionHeader { is_seeded: true, ..header("s") };
        let plain = header("s");
        let all = events(0..4, 1);
        let gap = [event(0, 1), event(2, 1)];
        let cases: [(&SessionHeader, Option<u64>, &[Event], Code); 4] = [
            (&seeded, Some(4), &all, Code::SessionRefused), // no marker
            (&seeded, None, &all, Code::InvalidArgument),
            (&seeded, Some(0), &[], Code::SessionRefused),
            (&plain, None, &gap, Code::InvalidArgument),
        ];
        // Its sources are no list: it was never a row of a log, whatever a checker of rules that bind rows says.
        let opaque = r#"{"type":"acme/x","seq":0,"time":1,"data":1,"sourceEventSeqs":7,"ignorable":true}"#;
        let opaque = [Event::from_unstored_row(opaque).unwrap()];
        let cases = cases.into_iter().chain([(&plain, None, &opaque[..], Code::InvalidArgument)]);
        let cases: Vec<_> = cases.collect();
        for are_checked in [false, true] {
            for &(header, inherited_event_count, events, code) in &cases {
                let new = NewLog { header, inherited_event_count, events, are_checked, stored: None };
                assert_eq!(refusal(backend.create_with(new, &go_on())), code);
                assert!(backend.stat("s", &go_on()).unwrap().is_none());
            }
        }
        let stopped = CancelToken::new();
        stopped.cancel();
        let new = NewLog {
            header: &plain,
            inherited_event_count: None,
            events: &all,
            are_checked: false,
            stored: None,
        };
        assert_eq!(refusal(backend.create_with(new, &stopped)), Code::Cancelled);
        assert!(backend.stat("s", &go_on()).unwrap().is_none());
    });
}

#[test]
fn a_child_has_the_events_before_the_cut_wherever_it_falls_and_whoever_has_the_source_open() {
    for encoding in ENCODINGS {
        let disk = MemoryStorage::new(7);
        let backend = files(&disk, encoding);
        let batches = [events(0..1, 1), events(1..4, 1), events(4..9, 1), events(9..10, 1)];
        let all = batches.concat();
        let writer = source(&backend, &batches);
        let before = bytes_of(&disk, &log_path(&backend, "s"));
        let reader = backend.open("s", Access::Read, &go_on()).unwrap();
        for cut in 1..=all.len() as u64 {
            for (name, stored) in
                [("writer", writer.stored_events()), ("reader", reader.stored_events()), ("nobody", None)]
            {
                let id = format!("{name}-{cut}");
                assert!(name == "nobody" || stored.is_some());
                let child = fork(&backend, &id, &all, cut, stored).unwrap();
                assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut), "{id}");
                child.append(&[note_of_length(cut + 1, 1, 5)], &go_on()).unwrap();
                child.close().unwrap();
                let strict = files(&disk, encoding).open(&id, Access::Write, &go_on()).unwrap();
                assert_eq!(strict.event_count(&go_on()).unwrap(), cut + 2, "{id}");
            }
        }
        assert_eq!(bytes_of(&disk, &log_path(&backend, "s")), before, "the source is left alone");
    }
}

#[test]
fn frames_before_the_cut_are_copied_as_bytes() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let batches = long_batches(setting("DSH_SEED", 1));
    let all = batches.concat();
    let writer = source(&backend, &batches);
    let reader = backend.open("s", Access::Read, &go_on()).unwrap();
    let bytes = bytes_of(&disk, &log_path(&backend, "s"));
    assert!(bytes.len() > 200_000, "large enough that the cut is searched for");
    let (frames, _) = scan_frames(&bytes[..], usize::MAX).unwrap();
    let header_end = |bytes: &[u8]| scan_frames(bytes, usize::MAX).unwrap().0[0].end as usize;
    // The events up to each batch's end, and where its frame ends.
    let ends: Vec<(u64, u64)> = batches
        .iter()
        .scan(0, |count, batch| {
            *count += batch.len() as u64;
            Some(*count)
        })
        .zip(frames[1..].iter().map(|frame| frame.end))
        .collect();
    for (name, log) in [("writer", &writer), ("reader", &reader)] {
        for cut in (1..all.len() as u64)
            .step_by(13)
            .chain([all.len() as u64])
            .chain(ends.iter().map(|end| end.0).step_by(17))
        {
            let id = format!("{name}-{cut}-{}", disk.bytes_read());
            let child = fork(&backend, &id, &all, cut, log.stored_events()).unwrap();
            let copy = bytes_of(&disk, &log_path(&backend, &id));
            let end = ends.iter().rev().find(|(count, _)| *count <= cut).map_or(frames[0].end, |end| end.1);
            let prefix = &bytes[frames[0].end as usize..end as usize];
            assert!(copy[header_end(&copy)..].starts_with(prefix), "{id}: every whole frame is the source's");
            assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut), "{id}");
        }
    }
}

/// The log of `s` as another program might have written it: one header frame, then these texts as frames.
fn foreign(disk: &MemoryStorage, backend: &FilePersistence, texts: &[String]) {
    let mut bytes = Vec::new();
    for text in texts {
        FrameEncoder::new().encode(text.as_bytes(), &mut bytes).unwrap();
    }
    foreign_bytes(disk, backend, &bytes);
}

/// The same: one header frame, then these bytes.
fn foreign_bytes(disk: &MemoryStorage, backend: &FilePersistence, bytes: &[u8]) {
    let log = backend.create(&header("s"), None, &go_on()).unwrap();
    log.flush(&go_on()).unwrap();
    log.close().unwrap();
    let file = disk.open(&log_path(backend, "s"), dsh_session_core::storage::OpenHow::Append).unwrap();
    let mut written = 0;
    while written < bytes.len() {
        written += file.append(&bytes[written..]).unwrap();
    }
    file.sync().unwrap();
}

#[test]
fn rows_that_go_on_in_the_next_frame_are_never_cut() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let all: Vec<Event> = (0..300).map(|seq| note_of_length(seq, 3, 600)).collect();
    let text: String = all.iter().map(|event| format!("{}\n", event.row())).collect();
    // Frames of 1,000 bytes of text, wherever rows end.
    let texts: Vec<String> =
        text.as_bytes().chunks(1000).map(|chunk| String::from_utf8(chunk.to_vec()).unwrap()).collect();
    foreign(&disk, &backend, &texts);
    let log = backend.open("s", Access::Read, &go_on()).unwrap();
    assert_eq!(read_log(&*log).unwrap(), all);
    for cut in (1..=300).step_by(7) {
        let child = fork(&backend, &format!("c{cut}"), &all, cut, log.stored_events()).unwrap();
        assert_eq!(read_log(&*child).unwrap(), with_marker(&all, cut));
    }
}

/// One zstd block: raw (0) or compressed (2).
fn block(kind: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let header = u32::from(is_last) | kind << 1 | (bytes.len() as u32) << 3;
    [&header.to_le_bytes()[..3], bytes].concat()
}

/// A compressed block whose text is printable and whose bytes hold `hidden` as they are: with 64 symbols of six bits each, every string
/// of bits is a text.
fn block_that_hides(hidden: &[u8]) -> Vec<u8> {
    let symbols: Vec<u8> = (b'#'..=b'z').filter(|symbol| *symbol != b'\\').take(64).collect();
    let last = *symbols.last().unwrap();
    let weights: Vec<u8> = (0..last).map(|symbol| u8::from(symbols.contains(&symbol))).collect();
    let mut tree = vec![127 + last];
    tree.extend(weights.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)));
    let mut stream = hidden.to_vec();
    stream.resize(stream.len().next_multiple_of(3), 0);
    let text_bytes = stream.len() * 8 / 6;
    stream.push(1);
    let compressed_bytes = tree.len() + stream.len();
    // Literals in one stream, sizes of ten bits each; then no sequences.
    let header = 2 | (text_bytes as u32) << 4 | (compressed_bytes as u32) << 14;
    [&header.to_le_bytes()[..3], &tree, &stream, &[0]].concat()
}

/// A frame of blocks without checksum and size.
fn frame_of_blocks(blocks: &[Vec<u8>]) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58][..], &blocks.concat()].concat()
}

#[test]
fn what_looks_like_frames_inside_a_frame_is_no_place_to_end_a_copy() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let first = note_of_length(0, 3, 100);
    // Four frames in a row, the first of which holds a row: as good a place as a search can wish for.
    let false_row = format!("{}\n", note_of_length(1, 4, 1).row());
    let mut hidden = frame_of_blocks(&[block(0, false_row.as_bytes(), true)]);
    (0..4).for_each(|_| hidden.extend(frame_of_blocks(&[block(0, b"", true)])));
    let filler = block(0, &[b'x'; 100_000], false);
    let mut blocks = vec![block(0, br#"{"type":"plugin:a/b","seq":1,"time":1,"data":""#, false)];
    blocks.extend(vec![filler.clone(); 4]);
    blocks.push(block(2, &block_that_hides(&hidden), false));
    blocks.extend(vec![filler; 2]);
    blocks.push(block(0, b"\",\"ignorable\":true}\n", true));
    let mut bytes = Vec::new();
    FrameEncoder::new().encode(format!("{}\n", first.row()).as_bytes(), &mut bytes).unwrap();
    bytes.extend(frame_of_blocks(&blocks));
    for seq in 2..300 {
        let row = format!("{}\n", note_of_length(seq, 3, 900).row());
        FrameEncoder::new().encode(row.as_bytes(), &mut bytes).unwrap();
    }
    foreign_bytes(&disk, &backend, &bytes);
    let log = backend.open("s", Access::Read, &go_on()).unwrap();
    let all = read_log(&*log).unwrap();
    assert_eq!(all.len(), 300);
    for cut in 1..5 {
        let id = format!("c{cut}");
        fork(&backend, &id, &all, cut, log.stored_events()).unwrap().close().unwrap();
        assert_eq!(read_all(&files(&disk, Encoding::Zstd), &id).unwrap(), with_marker(&all, cut));
    }
}

#[test]
fn a_torn_source_gives_what_is_part_of_it() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let all: Vec<Event> = (0..4).map(|seq| note_of_length(seq, 3, 600)).collect();
    let text = |range: std::ops::Range<usize>| -> String {
        all[range].iter().map(|event| format!("{}\n", event.row())).collect()
    };
    foreign(&disk, &backend, &[text(0..2), text(2..4)]);
    let path = log_path(&backend, "s");
    let length = bytes_of(&disk, &path).len() as u64;
    disk.open(&path, dsh_session_core::storage::OpenHow::Append).unwrap().truncate(length - 30).unwrap();
    let whole = read_all(&backend, "s").unwrap();
    assert!(whole.len() >= 2);
    for access in [Access::Read, Access::Write] {
        let log = backend.open("s", access, &go_on()).unwrap();
        for cut in 1..=whole.len() as u64 {
            let id = format!("{access:?}-{cut}");
            let child = fork(&backend, &id, &whole, cut, log.stored_events()).unwrap();
            assert_eq!(read_log(&*child).unwrap(), with_marker(&whole, cut));
        }
    }
}

#[test]
fn a_child_in_another_encoding_is_written_anew() {
    for (of_source, of_child) in [(Encoding::None, Encoding::Zstd), (Encoding::Zstd, Encoding::None)] {
        let disk = MemoryStorage::new(7);
        let backend = files(&disk, of_source);
        let all = events(0..9, 1);
        let log = source(&backend, &[all[..4].to_vec(), all[4..].to_vec()]);
        let other = files_on(&disk, "/other", of_child);
        let child = fork(&other, "child", &all, 5, log.stored_events()).unwrap();
        assert_eq!(read_log(&*child).unwrap(), with_marker(&all, 5));
    }
}

#[test]
fn a_source_that_is_cut_short_meanwhile_gives_no_half_child() {
    let disk = MemoryStorage::new(7);
    let backend = files(&disk, Encoding::Zstd);
    let batches = long_batches(2);
    let all = batches.concat();
    let log = source(&backend, &batches);
    let stored = log.stored_events();
    disk.open(&log_path(&backend, "s"), dsh_session_core::storage::OpenHow::Append)
        .unwrap()
        .truncate(1000)
        .unwrap();
    assert_eq!(refusal(fork(&backend, "child", &all, all.len() as u64, stored)), Code::SourceChanged);
    assert!(backend.stat("child", &go_on()).unwrap().is_none());
    let child = fork(&backend, "child", &all, 3, None).unwrap();
    assert_eq!(child.event_count(&go_on()).unwrap(), 4, "the id is free");
}

fn draft(kind: &str, data: &str) -> EventDraft {
    EventDraft::new(kind, data).unwrap().at_time(1_760_000_000_000)
}

/// P18: a session of 100 MB, forked again and again, also in the middle and while it is written.
#[test]
fn a_large_session_is_forked_many_times_at_the_price_of_its_bytes() {
    let text_bytes = 100_000_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("sessions")).unwrap();
    let source = store.create(NewSession::new().id("source").cwd("/repo")).unwrap();
    let mut random = SplitMix64::new(5);
    let mut turn = 0;
    let mut written = 0;
    let mut append_turn = |written: &mut usize| {
        turn += 1;
        let text: String = (0..4000).map(|_| (b'a' + random.below(4) as u8) as char).collect();
        source.append(draft("turn/start", &format!(r#"{{"turn":{turn}}}"#))).unwrap();
        source.append(draft("feedback/record", &format!(r#"{{"text":"{text}"}}"#))).unwrap();
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        source.append(draft("turn/end", &end)).unwrap();
        *written += text.len();
    };
    while written < text_bytes {
        append_turn(&mut written);
    }
    source.flush().unwrap();
    let size = |id: &str| store.stat(id).unwrap().unwrap().size_bytes.unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0_u64..20 {
        // Also with events that wait, and in the middle.
        append_turn(&mut written);
        let at = (round % 2 == 1).then_some(source.next_seq() / 2 + round);
        let child = store.fork("source", at, NewSession::new()).unwrap();
        let cut = at.map_or(source.next_seq(), |at| at + 1);
        assert!(ids.insert(child.id().to_owned()), "ids never collide");
        assert_eq!(child.inherited_event_count(), cut);
        let (ours, theirs) = (child.snapshot_events(0, cut), source.snapshot_events(0, cut));
        assert!(ours.iter().eq(theirs.iter()), "each event once, with its own time");
        if at.is_none() {
            let (child, source) = (size(child.id()), size("source"));
            assert!(child < source + source / 10 + 100_000, "{child} bytes for a source of {source}");
        }
        child.close().unwrap();
        if round >= 18 {
            let judged = store.verify(Some(child.id()), &go_on()).unwrap().next().unwrap().unwrap();
            assert_eq!(judged.outcome.as_str(), "ok");
        }
        store.remove(child.id(), Removal::Delete).unwrap();
    }
}

fn message(id: &str) -> EventDraft {
    let data = format!(r#"{{"id":"{id}","role":"user","content":[],"source":{{"kind":"user"}}}}"#);
    draft("user/message", &data).surface(SurfaceOp::Append)
}

fn store_on(disk: &MemoryStorage, vocabulary: Vocabulary, projections: &Arc<Projections>) -> Store {
    let builder = Store::builder("/data").storage(Arc::new(disk.clone())).vocabulary(vocabulary);
    builder.projections(Arc::clone(projections)).open().unwrap()
}

/// What the seed of a fork at the last event makes without a source.
fn judged_anew(store: &Store, source: &Session, id: &str) -> Result<Session> {
    let (seed, inherited) = fork_seed(source.snapshot_events(0, u64::MAX), source.next_seq() - 1).unwrap();
    let mut new = NewSession::new().id(id).seed(seed);
    (new.header.is_seeded, new.inherited_event_count) = (true, Some(inherited));
    store.create(new)
}

#[test]
fn damage_on_the_disk_of_a_live_source_does_not_reach_the_child() {
    let disk = MemoryStorage::new(7);
    let store = store_on(&disk, Vocabulary::default(), &Projections::built_in());
    for (id, is_cut) in [("flipped", false), ("cut", true)] {
        let source = store.create(NewSession::new().id(id)).unwrap();
        for number in 0..20 {
            source.append(message(&number.to_string())).unwrap();
            source.flush().unwrap();
        }
        let path = store.stat(id).unwrap().unwrap().path.unwrap();
        let mut bytes = bytes_of(&disk, &path);
        let middle = bytes.len() / 2;
        match is_cut {
            true => bytes.truncate(middle),
            false => bytes[middle] ^= 0x10,
        }
        disk.write_file(&path, &bytes).unwrap();
        for at in [19, 15] {
            let child = store.fork(id, Some(at), NewSession::new().id(format!("{id}-{at}"))).unwrap();
            let all: Vec<Event> = child.snapshot_events(0, u64::MAX).into_iter().collect();
            assert_eq!(read_all(&files(&disk, Encoding::Zstd), child.id()).unwrap(), all);
        }
    }
}

#[test]
fn a_source_that_entered_with_a_vocabulary_of_its_own_is_judged_by_that_of_the_store() {
    let disk = MemoryStorage::new(7);
    let store = store_on(&disk, Vocabulary::default(), &Projections::built_in());
    let vocabulary = Vocabulary::default().and_type("acme/own", false);
    let rules = SessionRules { vocabulary, ..SessionRules::default() };
    let source = Session::independent_with(header("source"), Seed::default(), Arc::new(disk.clone()), rules);
    let source = source.unwrap();
    source.append(draft("acme/own", "1")).unwrap();
    let _detach = store.live().enter(&source).unwrap();
    store.live().announce(&source).unwrap();
    assert_eq!(refusal(judged_anew(&store, &source, "anew")), Code::SessionRefused);
    assert_eq!(refusal(store.fork("source", Some(0), NewSession::new().id("child"))), Code::SessionRefused);
    assert!(store.stat("child").unwrap().is_none(), "nobody could read it");
}

#[test]
fn a_fork_is_folded_by_the_projections_of_now_whatever_they_were_when_its_source_was() {
    let disk = MemoryStorage::new(7);
    let projections = Projections::built_in();
    let store = store_on(&disk, Vocabulary::default().and_type("acme/mark", false), &projections);
    let source = store.create(NewSession::new().id("source")).unwrap();
    source.append(message("m")).unwrap();
    source.append(draft("acme/mark", "1")).unwrap();
    let marks_with = |text: &'static str| {
        let project = move |_: &Event, context: &ProjectionContext<'_>| {
            let marked = format!(r#"{{"id":"m","role":"user","content":"{text}"}}"#);
            Ok(context.nodes().map(|seq| (seq, marked.clone())).collect())
        };
        projections.register("acme/mark", project).unwrap()
    };
    let texts = |session: Result<Session>| -> Vec<String> {
        session.unwrap().messages().unwrap().iter().map(|message| message.text().to_owned()).collect()
    };
    let forked_as_judged = |round: &str| {
        let at = source.next_seq() - 1;
        let fork = texts(store.fork("source", Some(at), NewSession::new().id(format!("fork-{round}"))));
        assert_eq!(fork, texts(judged_anew(&store, &source, &format!("anew-{round}"))));
        fork
    };
    let first = marks_with("one");
    assert!(forked_as_judged("added")[0].contains("one"));
    source.append(draft("acme/mark", "2")).unwrap();
    first.unregister();
    let _second = marks_with("two");
    assert!(forked_as_judged("replaced")[0].contains("two"));
}
