//! The loops of the border bench in Rust, beside which C and Python are measured (`tests/bench/borders.py` runs it).
//!
//! `make ROOT` writes the log. `read ROOT THREADS` and `append ROOT BATCHES` go round once for each line on standard input and print the
//! seconds that it took, by a monotonic clock.

use dsh_session_core::format::frames::FrameEncoder;
use dsh_session_core::storage::simulation::SplitMix64;
use dsh_session_core::{EventDraft, EventRange, NewSession, ReadLimits, Store};
use std::error::Error;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

const ID: &str = "bench";
const EVENTS: u64 = 40_000;
const FRAMES: u64 = 16_000;
const TEXT_BYTES: u64 = 70_000_000;
const SEED: u64 = 20_260_101;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", root] => make(Path::new(root)),
        ["read", root, threads] => {
            let threads = threads.parse()?;
            rounds(|| seconds(|| read(Path::new(root), threads)))
        }
        ["append", root, batches] => {
            let batches = batches.parse()?;
            rounds(|| append(Path::new(root), batches))
        }
        _ => Err("make ROOT | read ROOT THREADS | append ROOT BATCHES".into()),
    }
}

/// Goes round once for each line that comes in, and prints the seconds.
fn rounds(mut once: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", once()?);
    }
    Ok(())
}

fn seconds(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Text as an agent's tools give it: words, numbers, some of it not ASCII.
fn words(random: &mut SplitMix64, bytes: u64) -> String {
    const WORDS: [&str; 14] = [
        "session",
        "write",
        "error:",
        "expected",
        "match",
        "src/main.rs",
        "cargo",
        "0x7ffe",
        "line",
        "会话",
        "恢复",
        "→",
        "\\\"quoted\\\"",
        "\\n",
    ];
    let mut text = String::new();
    while (text.len() as u64) < bytes {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        text.push(' ');
        if random.once_in(9) {
            text.push_str(&random.below(1_000_000).to_string());
            text.push(' ');
        }
    }
    text
}

/// Writes the log with the library's own encoder and without syncs: 16,000 of them would take minutes on some disks.
fn make(root: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(root)?;
    let session = store.create(NewSession::new().id(ID).cwd("/bench"))?;
    session.flush()?;
    session.close()?;
    let path = store.stat(ID)?.and_then(|record| record.path).ok_or("the log has no path")?;
    let mut file = OpenOptions::new().append(true).open(path)?;
    let mut random = SplitMix64::new(SEED);
    let (mut encoder, mut bytes, mut text) = (FrameEncoder::new(), Vec::new(), String::new());
    let mean = TEXT_BYTES / EVENTS;
    for seq in 0..EVENTS {
        let length = mean / 4 + random.below(mean * 3 / 2);
        let payload = words(&mut random, length);
        let data = format!(r#"{{"turn":1,"step":{seq},"text":"{payload}","ok":true,"n":[{seq},2.5,null]}}"#);
        text.push_str(EventDraft::new("feedback/record", data)?.build(seq, 1_760_000_000_000)?.row());
        text.push('\n');
        let is_end_of_frame = (seq + 1) * FRAMES / EVENTS != seq * FRAMES / EVENTS;
        if is_end_of_frame {
            encoder.encode(text.as_bytes(), &mut bytes)?;
            text.clear();
        }
    }
    file.write_all(&bytes)?;
    Ok(())
}

fn read(root: &Path, threads: usize) -> Result<(), Box<dyn Error>> {
    let limits = ReadLimits { threads, ..ReadLimits::default() };
    let store = Store::builder(root).limits(limits).open()?;
    let (mut count, mut bytes) = (0, 0);
    for event in store.events(ID, EventRange::ALL)? {
        bytes += black_box(&event?).row().len();
        count += 1;
    }
    black_box(bytes);
    if count == EVENTS { Ok(()) } else { Err(format!("{count} events").into()) }
}

fn append(root: &Path, batches: u64) -> Result<f64, Box<dyn Error>> {
    let store = Store::open(root)?;
    let session = store.create(NewSession::new().cwd("/bench"))?;
    session.flush()?;
    let time = seconds(|| {
        for step in 0..batches {
            let data = format!(r#"{{"step":{step},"text":"a small event"}}"#);
            session.append(&EventDraft::new("plugin:bench/note", data)?)?;
            session.flush()?;
        }
        Ok(())
    })?;
    session.close()?;
    Ok(time)
}
