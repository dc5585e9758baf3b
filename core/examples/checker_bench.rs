//! Prints what the rules of stored logs cost: a read that judges every row (a read handle's) beside one that only parses and
//! orders rows (a write handle's, which trusts what it accepted), over the same file in the same run.
//!
//! `cargo run --release --example checker_bench [name of a log]`

use dsh_session_core::event::Event;
use dsh_session_core::format::header::SessionHeader;
use dsh_session_core::format::names::Encoding;
use dsh_session_core::persistence::files::{FilePersistence, FileSettings};
use dsh_session_core::persistence::{Access, SessionLog, SessionPersistence};
use dsh_session_core::storage::OsStorage;
use dsh_session_core::{CancelToken, EventRange, ReadLimits};
use std::hint::black_box;
use std::sync::Arc;

const RUNS: usize = 9;
const LOG_TEXT_BYTES: usize = 48 << 20;

/// What one step of an agent writes.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    prose_bytes: usize,
    result_bytes: usize,
    /// Packed deltas of the stream, of about five characters each.
    deltas: usize,
    tools_bytes: usize,
}

const SHAPES: [Shape; 5] = [
    Shape { name: "small rows", prose_bytes: 40, result_bytes: 60, deltas: 0, tools_bytes: 0 },
    Shape { name: "coding agent", prose_bytes: 600, result_bytes: 6_000, deltas: 120, tools_bytes: 0 },
    Shape { name: "long results", prose_bytes: 300, result_bytes: 60_000, deltas: 60, tools_bytes: 0 },
    Shape { name: "long streams", prose_bytes: 8_000, result_bytes: 200, deltas: 1_600, tools_bytes: 0 },
    Shape { name: "headers", prose_bytes: 200, result_bytes: 500, deltas: 40, tools_bytes: 30_000 },
];

struct Rows {
    rows: Vec<Event>,
    bytes: usize,
}

impl Rows {
    fn push(&mut self, kind: &str, data: &str, surface: bool) {
        let seq = self.rows.len();
        let surface = if surface { r#","surfaceOp":"append""# } else { "" };
        let row = format!(
            r#"{{"type":"{kind}","seq":{seq},"time":{},"data":{data}{surface}}}"#,
            1_760_000_000_000_u64 + seq as u64
        );
        self.bytes += row.len();
        self.rows.push(Event::from_row(row.as_bytes()).expect("the rows are good"));
    }

    fn turn(&mut self, turn: usize, shape: Shape, fills: &Fills) {
        self.push("turn/start", &format!(r#"{{"turn":{turn}}}"#), false);
        let id = self.rows.len();
        let prose = &fills.prose[..shape.prose_bytes];
        let user = format!(
            r#"{{"id":"u{id}","role":"user","content":[{{"type":"text","text":"{prose}"}}],"source":{{"kind":"user"}}}}"#
        );
        self.push("user/message", &user, true);
        for step in 1..=4 {
            self.step(turn, step, shape, fills);
        }
        self.push("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), false);
    }

    fn step(&mut self, turn: usize, step: usize, shape: Shape, fills: &Fills) {
        let place = format!(r#""turn":{turn},"step":{step}"#);
        self.push("step/start", &format!("{{{place}}}"), false);
        if shape.tools_bytes > 0 {
            let header = format!(
                r#"{{"reason":"series","header":{{"config":{{"provider":"p","model":"m"}},"tools":{}}}}}"#,
                fills.tools
            );
            self.push("request/header", &header, false);
        }
        let id = self.rows.len();
        let call = format!(
            r#""id":"call-{id}","name":"shell","arguments":"{{\"command\":\"cargo test -p core\"}}""#
        );
        let prose = &fills.prose[..shape.prose_bytes];
        let message = format!(
            r#"{{"id":"a{id}","role":"assistant","content":[{{"type":"text","text":"{prose}"}},{{"type":"tool-call",{call}}}],"source":{{"kind":"model","provider":"p","model":"m"}}}}"#
        );
        let stream = format!(
            r#"[{{"type":"text-chunks","time0":1760000000000,"index":0,"dt":[{}],"texts":[{}]}},{{"type":"chunk","time":1760000000999,"chunk":{{"type":"finish","reason":{{"kind":"tool-calls"}}}}}}]"#,
            vec!["12"; shape.deltas.saturating_sub(1)].join(","),
            vec![r#"" wordy""#; shape.deltas].join(","),
        );
        self.push(
            "assistant/message",
            &format!(r#"{{{place},"message":{message},"stream":{stream}}}"#),
            true,
        );
        let called = call.replacen("\"id\"", "\"callId\"", 1);
        self.push("tool/call", &format!("{{{place},{called}}}"), false);
        let output = &fills.output[..fills.output[..shape.result_bytes].rfind("\\n").map_or(0, |at| at + 2)];
        let result = format!(
            r#"{{{place},"message":{{"id":"r{id}","role":"tool","toolCallId":"call-{id}","content":[{{"type":"text","text":"{output}"}}],"source":{{"kind":"tool","callId":"call-{id}"}}}}}}"#
        );
        self.push("tool/result", &result, true);
        self.push("step/end", &format!("{{{place}}}"), false);
    }
}

/// Text to cut from.
struct Fills {
    prose: String,
    output: String,
    tools: String,
}

fn fills(shape: Shape) -> Fills {
    let tool = r#"{"name":"shell","description":"Runs a command and gives its output.","parameters":{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"number"}}}}"#;
    Fills {
        prose: "The quick brown fox jumps over the lazy dog, again and again. ".repeat(200),
        output: "    let value = map.get(key).copied().unwrap_or_default();\\n".repeat(1_200),
        tools: format!("[{}]", vec![tool; shape.tools_bytes / tool.len()].join(",")),
    }
}

fn write_log(persistence: &FilePersistence, shape: Shape) -> (Arc<dyn SessionLog>, usize) {
    let go_on = CancelToken::new();
    let fills = fills(shape);
    let mut rows = Rows { rows: Vec::new(), bytes: 0 };
    let mut turn = 1;
    while rows.bytes < LOG_TEXT_BYTES {
        rows.turn(turn, shape, &fills);
        turn += 1;
    }
    let log = persistence.create(&SessionHeader::new("bench", 1), None, &go_on).expect("the session is new");
    for batch in rows.rows.chunks(1024) {
        log.append(batch, &go_on).expect("the disk takes the log");
    }
    (log, rows.bytes)
}

/// Seconds of this thread's own work: other programs on the machine do not count.
fn work_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds of one read of everything.
fn read(log: &dyn SessionLog) -> f64 {
    let start = work_seconds();
    let events = log.events(EventRange::ALL, &CancelToken::new()).expect("the log opens");
    let count: u64 = events.map(|event| event.expect("the log is good").seq().min(1)).sum();
    black_box(count);
    work_seconds() - start
}

fn main() {
    println!("{:<8}{:<14}{:>8}{:>14}{:>14}{:>8}", "", "log", "MB", "plain MB/s", "judged MB/s", "ratio");
    let wanted = std::env::args().nth(1);
    for encoding in [Encoding::None, Encoding::Zstd] {
        for shape in
            SHAPES.into_iter().filter(|shape| wanted.as_deref().is_none_or(|name| name == shape.name))
        {
            let folder = tempfile::tempdir().expect("there is a folder for temporary files");
            let limits = ReadLimits { threads: 1, ..ReadLimits::default() };
            // A backend trusts what it has read or written: one that is new has to judge.
            let backend = || {
                let settings = FileSettings { encoding: Some(encoding), limits, ..FileSettings::default() };
                FilePersistence::with_storage(folder.path(), Arc::new(OsStorage::new()), settings)
                    .expect("the folder is there")
            };
            let (writer, bytes) = write_log(&backend(), shape);
            // In turns, so that whatever else the machine does slows both.
            let (mut plain, mut judged) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..RUNS {
                plain = plain.min(read(&*writer));
                let reader = backend().open("bench", Access::Read, &CancelToken::new());
                judged = judged.min(read(&*reader.expect("the log is there")));
            }
            let rate = |seconds: f64| bytes as f64 / seconds / 1e6;
            println!(
                "{:<8}{:<14}{:>8}{:>14.0}{:>14.0}{:>8.2}",
                if encoding == Encoding::None { "raw" } else { "zstd" },
                shape.name,
                bytes >> 20,
                rate(plain),
                rate(judged),
                judged / plain
            );
        }
    }
}
