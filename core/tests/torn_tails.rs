//! What stands at the end of a log after a crash, byte by byte, and reads of a log that is repaired meanwhile.

mod durability;

use dsh_session_core::event::Event;
use dsh_session_core::format::frames::FrameEncoder;
use dsh_session_core::persistence::Notice;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::storage::simulation::{Fault, FaultyStorage, MemoryStorage};
use dsh_session_core::storage::{OpenHow, Storage};
use dsh_session_core::{Access, Code, Encoding, EventRange, SessionHeader, SessionLog, SessionPersistence};
use durability::{end_seed, event, events, go_on, header, note, note_of_length, read_all, read_log, refusal};
use std::path::PathBuf;
use std::sync::Arc;

const ENCODINGS: [Encoding; 2] = [Encoding::None, Encoding::Zstd];

/// A stored session `s` and what is needed to spoil its file.
struct Stored {
    disk: MemoryStorage,
    backend: FilePersistence,
    path: PathBuf,
}

impl Stored {
    /// With these batches.
    fn new(encoding: Encoding, batches: &[&[Event]]) -> Stored {
        let disk = MemoryStorage::new(9);
        disk.create_directory("/data".as_ref()).unwrap();
        let backend = files(&disk, encoding);
        let log = backend.create(&header("s"), None, &go_on()).unwrap();
        log.flush(&go_on()).unwrap();
        batches.iter().for_each(|batch| log.append(batch, &go_on()).unwrap());
        log.close().unwrap();
        let path = backend.stat("s", &go_on()).unwrap().unwrap().path.unwrap();
        Stored { disk, backend, path }
    }

    fn bytes(&self) -> Vec<u8> {
        self.disk.read_file(&self.path).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        self.disk.write_file(&self.path, bytes).unwrap();
    }

    fn add(&self, bytes: &[u8]) {
        self.put(&[&self.bytes()[..], bytes].concat());
    }

    fn open(&self, access: Access) -> Arc<dyn SessionLog> {
        self.backend.open("s", access, &go_on()).unwrap()
    }

    /// The saved tail after an append, where there is one.
    fn append_and_find_saved(&self, batch: &[Event]) -> Option<Vec<u8>> {
        let log = self.open(Access::Write);
        log.append(batch, &go_on()).unwrap();
        let saved = log.notices().into_iter().find_map(|notice| match notice {
            Notice::TailCut { saved, .. } => Some(saved),
            _ => None,
        });
        saved.expect("a tail was cut").map(|path| self.disk.read_file(&path).unwrap())
    }
}

fn files(disk: &MemoryStorage, encoding: Encoding) -> FilePersistence {
    let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
    FilePersistence::with_storage("/data/sessions", Arc::new(disk.clone()), settings).unwrap()
}

fn tail_of(log: &dyn SessionLog) -> (u64, u64) {
    let tail = log.notices().into_iter().find_map(|notice| match notice {
        Notice::TornTail { cut_rows, recovered, .. } => Some((cut_rows, recovered)),
        _ => None,
    });
    tail.expect("a torn tail was noticed")
}

#[test]
fn a_write_that_survived_as_a_prefix_then_nothing_or_zeros_opens() {
    for encoding in ENCODINGS {
        let all = events(0..7, 1);
        let before = Stored::new(encoding, &[&all[..4]]).bytes();
        let whole = Stored::new(encoding, &[&all[..4], &all[4..]]);
        let bytes = whole.bytes();
        for cut in before.len()..=bytes.len() {
            let missing = bytes.len() - cut;
            for zeros in [0, 1, 2, 3, 4, 9, missing.saturating_sub(1), missing, missing + 1, missing + 5000] {
                let image = [&bytes[..cut], &vec![0; zeros]].concat();
                whole.put(&image);
                let found = read_all(&whole.backend, "s").unwrap_or_else(|error| {
                    panic!("{} bytes, then {zeros} zeros: {error}", cut - before.len())
                });
                assert!(found.len() >= 4 && all.starts_with(&found));
                assert_eq!(whole.bytes(), image, "reading changed the log");
                let next = found.len() as u64;
                let log = whole.open(Access::Write);
                log.append(&[note(next, 2)], &go_on()).unwrap();
                log.close().unwrap();
                let expected = [&found[..], &[note(next, 2)]].concat();
                assert_eq!(read_all(&whole.backend, "s").unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_wrong_checksum_is_damage_also_where_it_ends_in_a_zero() {
    let stored = Stored::new(Encoding::Zstd, &[&events(0..4, 1), &events(4..6, 1)]);
    let bytes = stored.bytes();
    let end = bytes.len();
    for zeros in 1..=3 {
        let mut spoiled = bytes.clone();
        spoiled[end - zeros..].fill(0);
        stored.put(&spoiled);
        assert_eq!(read_all(&stored.backend, "s").unwrap(), events(0..4, 1));
        // The checksum's other bytes are not those of the text.
        spoiled[end - 4] ^= 1;
        stored.put(&spoiled);
        assert_eq!(refusal(read_all(&stored.backend, "s")), Code::SessionCorrupt);
    }
}

/// The length of a block in the middle of a log is damaged, so that its frame seems to reach over all that follows.
#[test]
fn a_frame_that_hides_whole_ones_is_damage_and_nothing_of_them_is_cut() {
    let stored = Stored::new(Encoding::Zstd, &[&events(0..4, 1), &events(4..8, 1), &events(8..12, 1)]);
    let header_end = Stored::new(Encoding::Zstd, &[]).bytes().len();
    let mut bytes = stored.bytes();
    // Magic, descriptor and window, then the block's three bytes: its size is made 2 MiB, and the block no longer the last one.
    bytes[header_end + 6] &= !1;
    bytes[header_end + 8] = 0xff;
    stored.put(&bytes);
    assert_eq!(refusal(read_all(&stored.backend, "s")), Code::SessionCorrupt);
    let error = stored.backend.open("s", Access::Write, &go_on()).unwrap_err();
    assert_eq!((error.code(), error.offset()), (Code::SessionCorrupt, Some(header_end as u64)));
    assert_eq!(stored.bytes(), bytes);
}

/// A raw log whose file system gave it a long run of zero bytes and no newline: a whole piece of memory would be a gigabyte one day.
#[test]
fn a_long_run_of_zeros_is_a_torn_tail() {
    let stored = Stored::new(Encoding::None, &[&events(0..4, 1)]);
    let length = stored.bytes().len() as u64;
    stored.add(&vec![0; 5 << 20]);
    let log = stored.open(Access::Write);
    assert_eq!(tail_of(&*log), (0, 0));
    log.append(&[note(4, 1)], &go_on()).unwrap();
    log.close().unwrap();
    assert!(stored.bytes().len() as u64 > length && stored.bytes().len() < 1 << 20);
    assert_eq!(read_all(&stored.backend, "s").unwrap().len(), 5);
}

#[test]
fn the_notice_of_an_opening_tells_what_the_first_append_then_does() {
    for encoding in ENCODINGS {
        let stored = Stored::new(encoding, &[&events(0..4, 1)]);
        let before = stored.bytes().len() as u64;
        let lost = note(7, 1);
        match encoding {
            // A whole row after a gap, and a piece of one.
            Encoding::None => stored.add(format!("{}\n{{\"half", lost.row()).as_bytes()),
            Encoding::Zstd => {
                let mut frame = Vec::new();
                FrameEncoder::new().encode(format!("{}\n", lost.row()).as_bytes(), &mut frame).unwrap();
                frame.truncate(frame.len() - 2);
                stored.add(&frame);
            }
        }
        let torn = stored.bytes();
        let log = stored.open(Access::Write);
        let notices = log.notices();
        let [Notice::TornTail { keep_bytes, cut_bytes, cut_rows, recovered, reason }] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert_eq!((*keep_bytes, keep_bytes + cut_bytes), (before, torn.len() as u64));
        assert_eq!((*cut_rows, *recovered), (1, 0));
        assert!(!reason.is_empty());
        assert_eq!(log.event_count(&go_on()).unwrap(), 4);
        log.append(&[note(4, 1)], &go_on()).unwrap();
        let Notice::TailCut { keep_bytes: kept, saved } = &log.notices()[1] else {
            panic!("no cut was told")
        };
        assert_eq!(*kept, *keep_bytes);
        assert_eq!(stored.disk.read_file(saved.as_ref().unwrap()).unwrap(), torn[before as usize..]);
        assert_eq!(stored.bytes()[..before as usize], torn[..before as usize]);
        assert_eq!(read_all(&stored.backend, "s").unwrap(), [&events(0..4, 1)[..], &[note(4, 1)]].concat());
    }
}

/// The next append would go on in that row.
#[test]
fn a_row_that_goes_on_in_a_frame_that_was_never_written_is_damage() {
    let stored = Stored::new(Encoding::Zstd, &[&events(0..4, 1)]);
    let row = format!("{}\n", note(4, 1).row());
    let (one, other) = row.as_bytes().split_at(20);
    let mut encoder = FrameEncoder::new();
    let mut frames = Vec::new();
    encoder.encode(one, &mut frames).unwrap();
    encoder.encode(other, &mut frames).unwrap();
    stored.add(&frames);
    assert_eq!(read_all(&stored.backend, "s").unwrap().len(), 5);
    let mut bytes = stored.bytes();
    let end = bytes.len();
    bytes[end - 4..].fill(0);
    stored.put(&bytes);
    assert_eq!(refusal(read_all(&stored.backend, "s")), Code::SessionCorrupt);
    assert_eq!(refusal(stored.backend.open("s", Access::Write, &go_on())), Code::SessionCorrupt);
    assert_eq!(stored.bytes(), bytes);
}

#[test]
fn rows_before_the_place_where_a_torn_frame_does_not_decode_are_saved() {
    let long: Vec<_> = (4..9).map(|seq| note_of_length(seq, 1, 60_000)).collect();
    let stored = Stored::new(Encoding::Zstd, &[&events(0..4, 1)]);
    let before = stored.bytes().len();
    let with_long = Stored::new(Encoding::Zstd, &[&events(0..4, 1), &long]).bytes();
    let mut ends_in_zeros = with_long.clone();
    let end = with_long.len();
    ends_in_zeros[end - 5000..].fill(0);
    stored.put(&ends_in_zeros);
    assert!(tail_of(&*stored.open(Access::Write)).0 >= 2);
    // Unfinished, and spoiled somewhere: not every spoiled byte is one that the decoder stumbles over.
    let spoiled = (before + 100..end - 5000).step_by(4999).map(|at| {
        let mut image = with_long[..end - 10].to_vec();
        image[at..at + 4000].fill(0xff);
        image
    });
    let mut stumbled = 0;
    for image in spoiled.chain([ends_in_zeros]) {
        stored.put(&image);
        let Ok(log) = stored.backend.open("s", Access::Write, &go_on()) else { continue };
        let (cut_rows, recovered) = tail_of(&*log);
        log.close().unwrap();
        if cut_rows > 0 && recovered == 0 {
            stumbled += 1;
            let saved = stored.append_and_find_saved(&[event(4, 2)]).expect("rows were cut");
            assert!(saved == image[before..]);
            let expected = [events(0..4, 1), vec![event(4, 2)]].concat();
            assert_eq!(read_all(&stored.backend, "s").unwrap(), expected);
        }
    }
    assert!(stumbled > 1, "{stumbled}");
}

#[test]
fn a_tail_whose_rows_are_all_put_back_leaves_no_copy() {
    let stored = Stored::new(Encoding::Zstd, &[&events(0..4, 1)]);
    let mut frame = Vec::new();
    let text = format!("{}\n{}\n", event(4, 1).row(), event(5, 1).row());
    FrameEncoder::new().encode(text.as_bytes(), &mut frame).unwrap();
    stored.add(&frame[..frame.len() - 1]);
    assert_eq!(tail_of(&*stored.open(Access::Write)), (2, 2));
    assert_eq!(stored.append_and_find_saved(&[event(6, 1)]), None);
    assert_eq!(read_all(&stored.backend, "s").unwrap(), events(0..7, 1));
}

#[test]
fn a_last_row_without_its_newline_is_cut_and_saved() {
    let stored = Stored::new(Encoding::None, &[&events(0..4, 1)]);
    stored.add(event(4, 1).row().as_bytes());
    assert_eq!(tail_of(&*stored.open(Access::Write)), (1, 0));
    let saved = stored.append_and_find_saved(&[event(4, 2)]);
    assert_eq!(saved.unwrap(), event(4, 1).row().as_bytes());
    // A second tail at the same place gets a name of its own.
    let length = stored.bytes().len() - event(4, 2).row().len() - 1;
    stored.put(&stored.bytes()[..length]);
    stored.add(event(4, 3).row().as_bytes());
    assert_eq!(stored.append_and_find_saved(&[event(4, 4)]).unwrap(), event(4, 3).row().as_bytes());
    let directory = stored.disk.read_directory(stored.path.parent().unwrap()).unwrap();
    let saved = directory.iter().filter(|entry| entry.name.to_string_lossy().starts_with("session.cut-"));
    assert_eq!(saved.count(), 2);
}

#[test]
fn opening_reading_flushing_and_closing_leave_a_torn_tail_alone() {
    for encoding in ENCODINGS {
        let stored = Stored::new(encoding, &[&events(0..4, 1)]);
        stored.add(&[0; 50]);
        let before = stored.bytes();
        let log = stored.open(Access::Write);
        assert_eq!(log.check(&go_on()).unwrap().torn.unwrap().cut_bytes, 50);
        assert_eq!(read_log(&*log).unwrap(), events(0..4, 1));
        log.append(&[], &go_on()).unwrap();
        log.flush(&go_on()).unwrap();
        log.close().unwrap();
        assert_eq!(stored.bytes(), before);
    }
}

#[test]
fn a_window_stays_that_window_when_the_log_is_repaired_while_it_is_read() {
    for (encoding, garbage) in [(Encoding::None, 3), (Encoding::None, 400), (Encoding::Zstd, 3)] {
        let stored = Stored::new(encoding, &[&events(0..8, 1)]);
        stored.add(&vec![0; garbage]);
        let reader = stored.open(Access::Read);
        let window = reader.events(EventRange::window(10, 5), &go_on()).unwrap();
        let all = reader.events(EventRange::ALL, &go_on()).unwrap();
        stored.open(Access::Write).append(&[event(8, 1)], &go_on()).unwrap();
        assert_eq!(window.map(Result::unwrap).collect::<Vec<_>>(), []);
        let all: Vec<_> = all.map(Result::unwrap).collect();
        assert!(all.len() >= 8 && events(0..9, 1).starts_with(&all));
    }
}

#[test]
fn the_newest_are_never_more_than_were_asked_for() {
    for encoding in ENCODINGS {
        let stored = Stored::new(encoding, &[&events(0..8, 1)]);
        stored.add(&[0; 30]);
        let reader = stored.open(Access::Read);
        let newest = reader.events(EventRange::newest(2), &go_on()).unwrap();
        stored.open(Access::Write).append(&events(8..11, 1), &go_on()).unwrap();
        assert_eq!(newest.map(Result::unwrap).collect::<Vec<_>>(), events(6..8, 1));
    }
}

#[test]
fn a_read_that_finds_less_than_an_earlier_one_fails() {
    for encoding in ENCODINGS {
        let stored = Stored::new(encoding, &[&events(0..4, 1), &events(4..8, 1)]);
        let shorter = Stored::new(encoding, &[&events(0..4, 1)]).bytes();
        let reader = stored.open(Access::Read);
        let mut half_read = reader.events(EventRange::ALL, &go_on()).unwrap();
        assert!(half_read.by_ref().take(6).all(|event| event.is_ok()));
        let file = stored.disk.open(&stored.path, OpenHow::Append).unwrap();
        file.truncate(shorter.len() as u64).unwrap();
        assert_eq!(refusal(read_log(&*reader)), Code::SourceChanged);
        assert_eq!(refusal(reader.event_count(&go_on())), Code::SourceChanged);
        // Whoever comes now is not concerned.
        assert_eq!(read_all(&stored.backend, "s").unwrap(), events(0..4, 1));
    }
}

/// A seeded session whose first write fails at each of its calls, is perhaps flushed or closed then, and tried again.
#[test]
fn a_seeded_session_is_never_left_without_its_prefix() {
    for encoding in ENCODINGS {
        let first = [&events(0..4, 1)[..], &[end_seed(4)]].concat();
        let mut number = 0;
        loop {
            number += 1;
            let disk = MemoryStorage::new(9);
            disk.create_directory("/data".as_ref()).unwrap();
            let faulty = FaultyStorage::new(Arc::new(disk.clone()));
            let settings = FileSettings { encoding: Some(encoding), ..FileSettings::default() };
            let backend =
                FilePersistence::with_storage("/data/sessions", Arc::new(faulty.clone()), settings).unwrap();
            let seeded = SessionHeader { is_seeded: true, ..header("s") };
            let log = backend.create(&seeded, Some(4), &go_on()).unwrap();
            faulty.clear();
            // The second one hits what takes back the first.
            faulty.fail_calls(&[number, number + 1], Fault::error(5));
            let appended = log.append(&first, &go_on());
            if faulty.fired() == 0 {
                appended.unwrap();
                break;
            }
            faulty.clear_faults();
            let clean = files(&disk, encoding);
            let whole_or_absent = || match read_all(&clean, "s") {
                Ok(events) => assert_eq!(events, first),
                Err(error) => assert_eq!(error.code(), Code::SessionNotFound, "{error}"),
            };
            whole_or_absent();
            if appended.is_err() {
                assert_eq!(refusal(log.flush(&go_on())), Code::SessionRefused);
                whole_or_absent();
                log.append(&first, &go_on()).unwrap();
            }
            log.close().unwrap();
            assert_eq!(read_all(&clean, "s").unwrap(), first);
        }
        assert!(number > 10);
    }
}
