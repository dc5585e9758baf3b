//! Ratios of the session model against peers measured in the same run.
//!
//! `cargo bench --bench session` prints one line a ratio with its aim; `-- NAME` runs one of them. Every time is the median of several rounds.

use dsh_session_core::session::SessionRules;
use dsh_session_core::storage::OsStorage;
use dsh_session_core::storage::simulation::SplitMix64;
use dsh_session_core::{EventDraft, NewSession, Session, SessionHeader, Store, SurfaceOp};
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const APPENDS: usize = 10_000;
const NODES: usize = 5_000;
const HELD: usize = 100_000;
const FORKED_BYTES: usize = 70_000_000;
const ROUNDS: usize = 7;
const SEED: u64 = 20_260_101;

fn main() {
    let only: Option<String> = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    for (name, bench) in
        [("append", append as fn()), ("messages", messages), ("memory", memory), ("fork", fork)]
    {
        if only.as_deref().is_none_or(|only| name.contains(only)) {
            bench();
        }
    }
}

fn report(name: &str, figure: f64, aim: f64, what: &str) {
    let verdict = if figure <= aim { "" } else { "  MISSED" };
    println!("{name:28} {figure:8.3}  aim {aim}{verdict}  ({what})");
}

fn timed(job: impl FnOnce()) -> Duration {
    let start = Instant::now();
    job();
    start.elapsed()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// About `bytes` of text of words that do not repeat in any order: it packs about four to one, as published logs do.
fn words(random: &mut SplitMix64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        // One of 2,000 words, the common ones most often.
        let rank = random.below(2_000) * random.below(2_000) / 2_000;
        let mut letters = SplitMix64::new(rank);
        (0..2 + letters.below(8)).for_each(|_| text.push((b'a' + letters.below(26) as u8) as char));
        text.push(' ');
    }
    text
}

/// Lines as an agent appends them: turns of one step with a call, a result of some kilobytes and an answer in pieces.
fn lines(count: usize, result_bytes: usize) -> Vec<String> {
    let mut lines = Vec::with_capacity(count);
    let mut random = SplitMix64::new(SEED);
    for turn in 1.. {
        let place = format!(r#""turn":{turn},"step":1"#);
        let text = words(&mut random, result_bytes);
        let stream = (0..20).map(|n| format!(r#""piece {n}""#)).collect::<Vec<_>>().join(",");
        let source = r#""source":{"kind":"model","provider":"p","model":"m"}"#;
        let of_turn = [
            format!(r#"{{"type":"turn/start","data":{{"turn":{turn}}}}}"#),
            format!(
                r#"{{"type":"user/message","data":{{"id":"u{turn}","role":"user","source":{{"kind":"user"}},"content":[{{"type":"text","text":"do it"}}]}},"surfaceOp":"append"}}"#
            ),
            format!(r#"{{"type":"step/start","data":{{{place}}}}}"#),
            format!(
                r#"{{"type":"assistant/message","data":{{{place},"message":{{"id":"a{turn}","role":"assistant",{source},"content":[{{"type":"tool-call","id":"c{turn}","name":"read","arguments":"{{}}"}}]}},"stream":[{{"type":"text-chunks","time0":1,"index":0,"dt":[{}],"texts":[{stream}]}}]}},"surfaceOp":"append"}}"#,
                ["1"; 19].join(",")
            ),
            format!(
                r#"{{"type":"tool/call","data":{{{place},"callId":"c{turn}","name":"read","arguments":"{{}}"}}}}"#
            ),
            format!(
                r#"{{"type":"tool/result","data":{{{place},"message":{{"id":"r{turn}","role":"tool","toolCallId":"c{turn}","source":{{"kind":"tool","callId":"c{turn}"}},"content":[{{"type":"text","text":"{text}"}}]}}}},"surfaceOp":"append"}}"#
            ),
            format!(r#"{{"type":"step/end","data":{{{place}}}}}"#),
            format!(r#"{{"type":"turn/end","data":{{"turn":{turn},"reason":{{"kind":"completed"}}}}}}"#),
        ];
        for line in of_turn {
            if lines.len() == count {
                return lines;
            }
            lines.push(line);
        }
    }
    lines
}

fn checked_session() -> Session {
    let header = SessionHeader::new("s", 1);
    let storage = Arc::new(OsStorage::new());
    Session::independent_with(header, Default::default(), storage, SessionRules::default()).unwrap()
}

fn append() {
    let lines = lines(APPENDS, 1800);
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let session = checked_session();
        ours.push(timed(|| lines.iter().for_each(|line| drop(session.append_line(line).unwrap()))));
        peers.push(timed(|| {
            for line in &lines {
                black_box(serde_json::from_str::<serde_json::Value>(line).unwrap());
            }
        }));
    }
    let ratio = median(&mut ours) / median(&mut peers);
    report("append in memory", ratio, 1.5, "rules on, against one parse into serde_json::Value");
}

fn messages() {
    let (mut first, mut next) = (Vec::new(), Vec::new());
    let message = |n: usize| {
        let data = format!(
            r#"{{"id":"u{n}","role":"user","source":{{"kind":"user"}},"content":[{{"type":"text","text":"{}"}}]}}"#,
            "x".repeat(400)
        );
        EventDraft::new("user/message", data).unwrap().surface(SurfaceOp::Append)
    };
    for _ in 0..ROUNDS {
        let session = checked_session();
        for n in 0..NODES {
            session.append(message(n)).unwrap();
        }
        first.push(timed(|| drop(black_box(session.messages().unwrap()))));
        session.append(message(NODES)).unwrap();
        next.push(timed(|| drop(black_box(session.messages().unwrap()))));
    }
    let ratio = median(&mut next) / median(&mut first);
    report("messages after one more", ratio, 0.02, "against the first call on 5,000 nodes");
}

/// Resident bytes of this process.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn memory() {
    let lines = lines(HELD, 400);
    let session = checked_session();
    let before = resident();
    lines.iter().for_each(|line| drop(session.append_line(line).unwrap()));
    let held = resident() - before;
    let text: usize = session.snapshot_events(0, u64::MAX).iter().map(|event| event.row().len()).sum();
    let each = (held as f64 - text as f64) / HELD as f64;
    report("bytes an event held", each, 150.0, "beyond its text, everything folded from it included");
}

fn fork() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let session = store.create(NewSession::new().id("source")).unwrap();
    let mut bytes = 0;
    for line in lines(FORKED_BYTES / 250, 8000) {
        bytes += line.len();
        session.append_line(&line).unwrap();
        if bytes > FORKED_BYTES && line.contains("turn/end") {
            break;
        }
    }
    session.flush().unwrap();
    let log: PathBuf = store.stat("source").unwrap().unwrap().path.unwrap();
    let packed = fs::metadata(&log).unwrap().len() as f64 / bytes as f64;
    let middle = Some(session.next_seq() / 2);
    let (mut ours, mut halves, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..5 {
        let forked = |at, name: &str| {
            let id = format!("{name}-{round}");
            timed(|| drop(store.fork("source", at, NewSession::new().id(id)).unwrap()))
        };
        ours.push(forked(None, "whole"));
        halves.push(forked(middle, "half"));
        peers.push(timed(|| {
            let copy = folder.path().join(format!("copy-{round}"));
            fs::copy(&log, &copy).unwrap();
            fs::File::open(&copy).unwrap().sync_all().unwrap();
        }));
    }
    let peer = median(&mut peers);
    let what = format!("70 MB of text, packed to {packed:.2}, against copying and syncing its file");
    report("fork of a live session", median(&mut ours) / peer, 2.0, &what);
    // Where it is not at the source's end, what was folded by then is folded again.
    report("fork in its middle", median(&mut halves) / peer, f64::INFINITY, "the same peer");
}
