//! `verify`, `salvage`, `stats`: what condition logs are in, and what can be had of damaged ones.

use crate::arguments;
use crate::context::Context;
use crate::failure::{EXIT_CORRUPT, EXIT_DONE, EXIT_OTHER, EXIT_SYSTEM, EXIT_UNSUPPORTED, Failure};
use crate::output::{bytes_text, table, time_text};
use crate::progress::Bar;
use dsh_session_core::Code;
use dsh_session_core::format::raw_rows::RawRow;
use dsh_session_core::query::{Outcome, Stats, Verification};

pub(crate) fn verify(context: &mut Context, id: Option<&str>) -> Result<i32, Failure> {
    let mut verifications = context.store()?.verify(id, &context.cancel)?;
    let bar = Bar::over_bytes(verifications.progress().bytes, context.wants_progress());
    let mut code = EXIT_DONE;
    while let Some(judged) = verifications.next() {
        let judged = judged?;
        code = worse(code, exit_code_of(&judged.outcome));
        if context.is_json {
            context.out.line(&judged.to_json())?;
        } else {
            context.out.text(&verification_text(&judged))?;
        }
        let progress = verifications.progress();
        bar.at(progress.bytes_done, || format!("{}/{} sessions", progress.sessions_done, progress.sessions));
    }
    bar.end();
    Ok(code)
}

fn exit_code_of(outcome: &Outcome) -> i32 {
    match outcome {
        Outcome::Ok { .. } | Outcome::TornTail { .. } => EXIT_DONE,
        Outcome::Corrupt(_) | Outcome::Conflict(_) => EXIT_CORRUPT,
        Outcome::Unsupported(_) => EXIT_UNSUPPORTED,
        Outcome::Unreadable(_) => EXIT_SYSTEM,
        _ => EXIT_OTHER,
    }
}

/// Which of two exit codes stands for both: corrupt before unsupported, before the system, before anything else.
fn worse(one: i32, other: i32) -> i32 {
    let rank = |code| match code {
        EXIT_CORRUPT => 4,
        EXIT_UNSUPPORTED => 3,
        EXIT_SYSTEM => 2,
        EXIT_DONE => 0,
        _ => 1,
    };
    if rank(other) > rank(one) { other } else { one }
}

fn verification_text(judged: &Verification) -> String {
    let path = judged.path.as_ref().map_or(String::new(), |path| path.display().to_string());
    let name = judged.id.clone().unwrap_or(path);
    let word = judged.outcome.as_str();
    match &judged.outcome {
        Outcome::Ok { .. } => format!("{word:<11}  {name}: {} events", judged.events),
        Outcome::TornTail { cut_bytes, recovered, reason, .. } => format!(
            "{word:<11}  {name}: {} events, {recovered} of them recovered; {cut_bytes} bytes at the end are no part of the log ({reason})",
            judged.events
        ),
        outcome => match outcome.error() {
            Some(error) => format!("{word:<11}  {name}: {error}"),
            None => format!("{word:<11}  {name}"),
        },
    }
}

pub(crate) fn salvage(context: &mut Context, arguments: &arguments::Salvage) -> Result<i32, Failure> {
    let store = context.store()?;
    let mut salvage = store.salvage_with(&arguments.id, &context.cancel)?;
    for event in salvage.by_ref() {
        context.out.line(event?.row())?;
    }
    if arguments.shows_after {
        for row in salvage.after_damage()? {
            context.out.line(&marked(&row?))?;
        }
    }
    context.out.flush()?;
    // What is missing is told even where remarks are not wanted: without it a part would pass for the whole.
    match salvage.damage() {
        // Not damage: the log is whole, and this build cannot read all of it.
        Some(refusal) if refusal.code() == Code::FormatUnsupported => return Err(refusal.duplicate().into()),
        Some(damage) => context.tell(damage),
        None => context.remark(&format!("{} events, the log is whole", salvage.event_count())),
    }
    Ok(EXIT_DONE)
}

/// The row with a mark that it is no part of the log: the member `after` before its own.
fn marked(row: &RawRow) -> String {
    match row.text.trim_start().strip_prefix('{') {
        Some(members) => format!("{{\"after\":true,{members}"),
        None => row.text.clone(),
    }
}

pub(crate) fn stats(context: &mut Context, id: Option<&str>) -> Result<i32, Failure> {
    let stats = context.store()?.stats(id, &context.cancel)?;
    if context.is_json {
        context.out.line(&stats.to_json())?;
        return Ok(EXIT_DONE);
    }
    for line in table(&stats_cells(&stats)) {
        context.out.text(&line)?;
    }
    Ok(EXIT_DONE)
}

fn stats_cells(stats: &Stats) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![row("sessions", stats.sessions.to_string())];
    if stats.unreadable > 0 {
        rows.push(row("unreadable", stats.unreadable.to_string()));
    }
    rows.push(row("events", stats.events.to_string()));
    rows.push(row("files", bytes_text(stats.file_bytes)));
    rows.push(row("text", bytes_text(stats.text_bytes)));
    rows.push(row("frames", stats.frames.to_string()));
    rows.extend(stats.first_time.map(|time| row("first event", time_text(time))));
    rows.extend(stats.last_time.map(|time| row("last event", time_text(time))));
    if let Some(tokens) = &stats.tokens {
        rows.push(row("tokens in", tokens.input.to_string()));
        rows.push(row("tokens out", tokens.output.to_string()));
        rows.push(row("tokens cached", tokens.cache_read.to_string()));
    }
    for (kind, count) in &stats.events_by_type {
        rows.push(row(&format!("  {kind}"), count.to_string()));
    }
    for large in &stats.largest_rows {
        let what = format!("{} seq {} of {}, {}", large.kind, large.seq, large.id, bytes_text(large.bytes));
        rows.push(row("large row", what));
    }
    rows
}
