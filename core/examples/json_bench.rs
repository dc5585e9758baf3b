//! Prints how fast rows are scanned, beside serde_json reading the same rows as raw values in the same run.
//!
//! `cargo run --release --example json_bench`

use std::hint::black_box;
use std::time::Instant;

use dsh_session_core::json::{DEPTH_MAX_DEFAULT, Json, admit, scan_object};
use serde_json::value::RawValue;

/// Bytes each measurement goes over, so that short and long rows are measured alike.
const BYTES_PER_RUN: usize = 64 << 20;
const RUNS: usize = 7;

/// Gigabytes a second of the best of some runs.
fn rate(row: &str, mut work: impl FnMut(&str)) -> f64 {
    let repeats = (BYTES_PER_RUN / row.len()).max(1);
    let best = (0..RUNS).map(|_| {
        let start = Instant::now();
        for _ in 0..repeats {
            work(black_box(row));
        }
        start.elapsed().as_secs_f64()
    });
    (repeats * row.len()) as f64 / best.fold(f64::INFINITY, f64::min) / 1e9
}

fn rows() -> Vec<(&'static str, String)> {
    let envelope = |kind: &str, data: &str| {
        format!(r#"{{"type":"{kind}","seq":1234,"time":1760000000000,"data":{data},"surfaceOp":"append"}}"#)
    };
    let prose = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(64);
    let code = "fn main() {\\n    println!(\\\"hello\\\");\\n}\\n".repeat(96);
    let cyrillic = "Съешь же ещё этих мягких французских булок. ".repeat(64);
    let todos: Vec<String> = (0..60)
        .map(|n| format!(r#"{{"id":{n},"done":false,"title":"step {n}","weight":0.5,"tags":["a","b"]}}"#))
        .collect();
    let numbers: Vec<String> = (0..400).map(|n| (n * 37).to_string()).collect();
    vec![
        ("small row", envelope("turn/start", r#"{"turn":3}"#)),
        ("long prose", envelope("user/message", &format!(r#"{{"content":"{prose}"}}"#))),
        ("escaped code", envelope("tool/result", &format!(r#"{{"content":"{code}"}}"#))),
        ("not ASCII", envelope("user/message", &format!(r#"{{"content":"{cyrillic}"}}"#))),
        ("small tokens", envelope("todo/write", &format!(r#"{{"todos":[{}]}}"#, todos.join(",")))),
        ("numbers", envelope("session/title", &format!(r#"{{"messageSeqs":[{}]}}"#, numbers.join(",")))),
    ]
}

fn main() {
    println!(
        "{:<14}{:>8}{:>12}{:>12}{:>8}{:>12}{:>12}{:>12}",
        "row", "bytes", "scan GB/s", "serde GB/s", "ratio", "get GB/s", "admit GB/s", "copy GB/s"
    );
    for (name, row) in rows() {
        let scan = rate(&row, |row| {
            let mut members = 0;
            let shape = scan_object(row, DEPTH_MAX_DEFAULT, |member| members += member.value_end);
            black_box((shape.is_ok(), members));
        });
        let serde = rate(&row, |row| {
            black_box(serde_json::from_str::<&RawValue>(row).is_ok());
        });
        let value = Json::parse(&row, DEPTH_MAX_DEFAULT).expect("the rows are valid");
        let get = rate(&row, |_| {
            black_box(black_box(value).get("none").is_some());
        });
        let admitted = rate(&row, |row| {
            black_box(admit(row.as_bytes(), DEPTH_MAX_DEFAULT).is_ok());
        });
        let copy = rate(&row, |row| {
            black_box(row.to_owned());
        });
        println!(
            "{name:<14}{:>8}{scan:>12.2}{serde:>12.2}{:>8.2}{get:>12.2}{admitted:>12.2}{copy:>12.2}",
            row.len(),
            scan / serde
        );
    }
}
