//! Ratios against peers measured in the same run: no absolute times are judged, since machines differ.
//!
//! The log is made here: 40,000 events, about 70 MB of text, some 16,000 frames, as an agent that flushes after each small step
//! leaves it. Every figure is the median of several rounds in which product and peer take turns.
//!
//! `cargo bench --bench ratios` prints one line a ratio with its aim. `-- NAME` runs one of them.

use dsh_session_core::format::frames::{Decoded, FrameDecoder, FrameInfo, scan_frames};
use dsh_session_core::storage::simulation::SplitMix64;
use dsh_session_core::{
    Access, CancelToken, EventDraft, EventRange, ListMode, NewSession, ReadLimits, Store,
};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EVENTS: usize = 40_000;
const FRAMES: usize = 16_000;
const TEXT_BYTES: usize = 70_000_000;
const SESSIONS: usize = 10_000;
const ROUNDS: usize = 7;
const SEED: u64 = 20_260_101;

/// Set for a child of this program that measures its own peak memory.
const PEAK_CHILD: &str = "DSH_BENCH_PEAK_CHILD";

fn main() {
    if let Ok(job) = std::env::var(PEAK_CHILD) {
        return peak_child(&job);
    }
    let only: Option<String> = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let folder = tempfile::tempdir().unwrap();
    println!("seed {SEED}; aims are printed beside each ratio, a miss is marked");
    let made = make_log(folder.path());
    if wanted("append") {
        bench_append(&made);
    }
    if wanted("read") {
        bench_read(&made);
    }
    if wanted("newest") {
        bench_newest(&made);
    }
    if wanted("window") {
        bench_window(&made);
    }
    if wanted("reopen") {
        bench_reopen(&made);
    }
    if wanted("memory") {
        bench_memory(&made);
    }
    if wanted("list") {
        bench_list(folder.path());
    }
}

fn report(name: &str, ratio: f64, aim: f64, note: &str) {
    let verdict = if ratio <= aim { "ok  " } else { "MISS" };
    println!("{verdict} {name}: {ratio:.4} (aim at most {aim}) {note}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Runs both in turn and gives the medians.
fn take_turns(mut product: impl FnMut(), mut peer: impl FnMut()) -> (Duration, Duration) {
    let (mut products, mut peers) = (Vec::new(), Vec::new());
    product();
    peer();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        product();
        products.push(start.elapsed());
        let start = Instant::now();
        peer();
        peers.push(start.elapsed());
    }
    (median(products), median(peers))
}

/// The log of the benches and the batches it was made from.
struct Made {
    root: PathBuf,
    log: PathBuf,
    batches: Vec<Vec<EventDraft>>,
}

const ID: &str = "bench";

fn words(random: &mut SplitMix64, bytes: usize) -> String {
    const WORDS: [&str; 24] = [
        "the",
        "session",
        "write",
        "error:",
        "expected",
        "let",
        "fn",
        "match",
        "return",
        "src/main.rs",
        "cargo",
        "test",
        "failed",
        "0x7ffe",
        "line",
        "会话",
        "日志",
        "恢复",
        "→",
        "assert_eq!",
        "value",
        "\\\"quoted\\\"",
        "\\n",
        "index",
    ];
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        text.push(' ');
        if random.once_in(9) {
            text.push_str(&random.below(1_000_000).to_string());
            text.push(' ');
        }
    }
    text
}

fn make_log(folder: &Path) -> Made {
    let root = folder.join("sessions");
    let mut random = SplitMix64::new(SEED);
    let mut batches = Vec::with_capacity(FRAMES);
    let per_event = TEXT_BYTES / EVENTS;
    for index in 0..EVENTS {
        let length = per_event / 4 + random.below(per_event as u64 * 3 / 2) as usize;
        let text = words(&mut random, length);
        let data = format!(r#"{{"turn":1,"step":{index},"text":"{text}","ok":true,"n":[{index},2.5,null]}}"#);
        if batches.len() * EVENTS <= index * FRAMES {
            batches.push(Vec::new());
        }
        let draft =
            EventDraft::new("feedback/record", data).unwrap().at_time(1_760_000_000_000 + index as i64);
        batches.last_mut().unwrap().push(draft);
    }
    // Made without syncs: through a log handle on a store whose batches are written one by one would take minutes on some disks.
    let store = Store::open(&root).unwrap();
    let log = write_unsynced(&store, &batches);
    let bytes = fs::metadata(&log).unwrap().len();
    let frames = scan_frames(&fs::read(&log).unwrap(), usize::MAX).unwrap().0.len();
    println!("log: {EVENTS} events, {frames} frames, {} bytes compressed", bytes);
    Made { root, log, batches }
}

/// Writes the log through the product's own encoder, then the bytes at once.
fn write_unsynced(store: &Store, batches: &[Vec<EventDraft>]) -> PathBuf {
    let session = store.create(NewSession::new().id(ID).cwd("/bench")).unwrap();
    session.flush().unwrap();
    session.close().unwrap();
    let path = store.stat(ID).unwrap().unwrap().path.unwrap();
    let mut encoder = dsh_session_core::format::frames::FrameEncoder::new();
    let mut bytes = Vec::new();
    let mut seq = 0;
    for batch in batches {
        let mut text = String::new();
        for draft in batch {
            text.push_str(draft.build(seq, 0).unwrap().row());
            text.push('\n');
            seq += 1;
        }
        encoder.encode(text.as_bytes(), &mut bytes).unwrap();
    }
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&bytes).unwrap();
    path
}

/// Append and flush against writing the same bytes and syncing them.
fn bench_append(made: &Made) {
    const BLOCKS: usize = 8;
    const FRAMES_A_BLOCK: usize = 250;
    let bytes = fs::read(&made.log).unwrap();
    let frames = scan_frames(&bytes, usize::MAX).unwrap().0;
    let folder = tempfile::tempdir_in(made.root.parent().unwrap()).unwrap();
    let store = Store::open(folder.path().join("sessions")).unwrap();
    let session = store.create(NewSession::new().cwd("/bench")).unwrap();
    session.flush().unwrap();
    let plain = fs::OpenOptions::new().append(true).create(true).open(folder.path().join("plain")).unwrap();
    let (mut products, mut peers) = (Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        let range = block * FRAMES_A_BLOCK..(block + 1) * FRAMES_A_BLOCK;
        let start = Instant::now();
        for batch in &made.batches[range.clone()] {
            session.append_batch(batch).unwrap();
            session.flush().unwrap();
        }
        products.push(start.elapsed());
        let start = Instant::now();
        for frame in &frames[range.start + 1..range.end + 1] {
            (&plain).write_all(&bytes[frame.start as usize..frame.end as usize]).unwrap();
            plain.sync_data().unwrap();
        }
        peers.push(start.elapsed());
    }
    session.close().unwrap();
    let (product, peer) = (median(products), median(peers));
    let each = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6 / FRAMES_A_BLOCK as f64);
    let note = format!("append+flush {} / write+fdatasync {}", each(product), each(peer));
    report("append", product.as_secs_f64() / peer.as_secs_f64(), 1.3, &note);
}

fn store_with_threads(root: &Path, threads: usize) -> Store {
    Store::builder(root).limits(ReadLimits { threads, ..ReadLimits::default() }).open().unwrap()
}

fn read_all(store: &Store) {
    let log = store.open_log(ID, Access::Read).unwrap();
    let events = log.events(EventRange::ALL, &CancelToken::new()).unwrap();
    let mut count = 0;
    for event in events {
        std::hint::black_box(event.unwrap());
        count += 1;
    }
    assert_eq!(count, EVENTS);
}

/// Reads the file in one go and decompresses frame by frame with one context, keeping nothing.
fn decompress(path: &Path, frames: &[FrameInfo]) {
    let bytes = fs::read(path).unwrap();
    let mut decoder = FrameDecoder::new();
    let mut text = Vec::new();
    for info in frames {
        text.clear();
        let frame = &bytes[info.start as usize..info.end as usize];
        let decoded = decoder.decode(frame, info, &mut text, 1 << 26).unwrap();
        assert!(matches!(decoded, Decoded::Whole(_)));
        std::hint::black_box(&text);
    }
}

fn bench_read(made: &Made) {
    let frames = scan_frames(&fs::read(&made.log).unwrap(), usize::MAX).unwrap().0;
    for threads in [1, 2] {
        let (product, peer) = take_turns(
            || read_all(&store_with_threads(&made.root, threads)),
            || decompress(&made.log, &frames),
        );
        let note = format!("open and read {} / decompression alone {}", ms(product), ms(peer));
        report(&format!("read, threads {threads}"), product.as_secs_f64() / peer.as_secs_f64(), 2.0, &note);
    }
    let one = || read_all(&store_with_threads(&made.root, 1));
    let (two, one) = take_turns(|| read_all(&store_with_threads(&made.root, 2)), one);
    report("read, two threads against one", two.as_secs_f64() / one.as_secs_f64(), 1.0, "");
}

fn bench_newest(made: &Made) {
    let newest = || {
        let store = store_with_threads(&made.root, 1);
        let log = store.open_log(ID, Access::Read).unwrap();
        let events = log.events(EventRange::newest(100), &CancelToken::new()).unwrap();
        assert_eq!(
            events.map(|event| event.unwrap().seq()).collect::<Vec<_>>(),
            (39_900..40_000).collect::<Vec<_>>()
        );
    };
    let (product, peer) = take_turns(newest, || read_all(&store_with_threads(&made.root, 1)));
    let note = format!("newest 100 {} / full read {}", ms(product), ms(peer));
    report("newest", product.as_secs_f64() / peer.as_secs_f64(), 0.01, &note);
}

fn bench_window(made: &Made) {
    let window = || {
        let store = store_with_threads(&made.root, 1);
        let log = store.open_log(ID, Access::Read).unwrap();
        for from in [3_000_u64, 20_000, 31_234] {
            let events = log.events(EventRange::window(from, 50), &CancelToken::new()).unwrap();
            assert_eq!(
                events.map(|event| event.unwrap().seq()).collect::<Vec<_>>(),
                (from..from + 50).collect::<Vec<_>>()
            );
        }
    };
    let (product, peer) = take_turns(window, || read_all(&store_with_threads(&made.root, 1)));
    let note = format!("three windows of 50 {} / full read {}", ms(product), ms(peer));
    report("window", product.as_secs_f64() / peer.as_secs_f64() / 3.0, 0.05, &note);
}

/// Opening an unchanged log for writing again in the same process against opening it first, which reads and checks all of it.
fn bench_reopen(made: &Made) {
    let open = |store: &Store| store.open_log(ID, Access::Write).unwrap().close().unwrap();
    let opened = Store::open(&made.root).unwrap();
    open(&opened);
    let (again, first) = take_turns(|| open(&opened), || open(&Store::open(&made.root).unwrap()));
    let note = format!("again {} / first {}", ms(again), ms(first));
    report("reopen", again.as_secs_f64() / first.as_secs_f64(), 0.02, &note);
}

/// Peak resident memory of a full read, beyond that of the same program doing nothing.
fn bench_memory(made: &Made) {
    let run = |job: &str| -> u64 {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .env(PEAK_CHILD, format!("{job}:{}", made.root.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let (reading, idle) = (run("read"), run("idle"));
    let note = format!("peak {} KiB reading, {} KiB idle", reading, idle);
    report("memory in MB", (reading - idle) as f64 / 1024.0, 32.0, &note);
}

fn peak_child(job: &str) {
    let (job, root) = job.split_once(':').unwrap();
    let store = Store::open(root).unwrap();
    if job == "read" {
        read_all(&store);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    println!("{}", line.split_whitespace().nth(1).unwrap());
}

/// Listing against walking the same folders and reading the first 4 KiB of each log.
fn bench_list(folder: &Path) {
    let root = folder.join("many");
    for index in 0..SESSIONS {
        let (project, id) = (format!("--project-{}--", index % 20), format!("session-{index:05}"));
        let directory = root.join(&project).join(&id);
        fs::create_dir_all(&directory).unwrap();
        let header = format!(
            "{{\"type\":\"session\",\"version\":4,\"id\":\"{id}\",\"createdAt\":{},\"cwd\":\"/project/{}\",\"isSeeded\":false,\"delegationDepth\":0}}\n",
            1_760_000_000_000_u64 + index as u64,
            index % 20
        );
        let mut encoder = dsh_session_core::format::frames::FrameEncoder::new();
        let mut bytes = Vec::new();
        encoder.encode(header.as_bytes(), &mut bytes).unwrap();
        fs::write(directory.join("session.v4.jsonl.zstd"), bytes).unwrap();
        fs::write(directory.join("session.lock"), b"").unwrap();
    }
    let list = || {
        let listing = Store::open(&root).unwrap().list(ListMode::Tolerant).unwrap();
        assert_eq!((listing.sessions.len(), listing.problems.len()), (SESSIONS, 0));
    };
    let walk = || {
        let mut first = vec![0; 4096];
        let mut logs = 0;
        for project in fs::read_dir(&root).unwrap() {
            for session in fs::read_dir(project.unwrap().path()).unwrap() {
                for file in fs::read_dir(session.unwrap().path()).unwrap() {
                    let file = file.unwrap();
                    if file.file_name().to_str().is_some_and(|name| name.ends_with(".zstd")) {
                        fs::File::open(file.path()).unwrap().read_at(&mut first, 0).unwrap();
                        logs += 1;
                    }
                }
            }
        }
        assert_eq!(logs, SESSIONS);
    };
    let (product, peer) = take_turns(list, walk);
    let note = format!("list {} / walk {}", ms(product), ms(peer));
    report("list", product.as_secs_f64() / peer.as_secs_f64(), 2.0, &note);
}
