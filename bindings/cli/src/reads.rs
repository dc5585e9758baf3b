//! `trace`, `lineage`, `title`, `filter`: the exact reads (`query.md` 5).

use crate::arguments::Filter;
use crate::context::Context;
use crate::events::preview;
use crate::failure::{EXIT_DONE, Failure};
use crate::output::time_text;
use dsh_session_core::query::{EventFilter, LineageEnd, SessionFilter, SessionRecord};

pub(crate) fn trace(context: &mut Context, id: &str, seq: u64) -> Result<i32, Failure> {
    let trace = context.store()?.trace_event_with(id, seq, &context.cancel)?;
    if context.is_json {
        context.out.line(&trace.to_json())?;
        return Ok(EXIT_DONE);
    }
    let list = |seqs: &[u64]| seqs.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let (kind, surface) = (&trace.target.kind, trace.target.surface.as_str());
    context.out.text(&format!("{seq:>6}  {}  {kind}  {surface}", time_text(trace.target.time)))?;
    for (what, seqs) in [
        ("replaced by", &trace.replacement_chain),
        ("replaced", &trace.replaced_event_seqs),
        ("made from", &trace.source_event_seqs),
        ("used by", &trace.derived_event_seqs),
    ] {
        if !seqs.is_empty() {
            context.out.text(&format!("{what:<12}{}", list(seqs)))?;
        }
    }
    Ok(EXIT_DONE)
}

pub(crate) fn lineage(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let lineage = context.store()?.trace_session_with(id, &context.cancel)?;
    if context.is_json {
        context.out.line(&lineage.to_json())?;
        return Ok(EXIT_DONE);
    }
    if let LineageEnd::Unresolved(parent) = &lineage.end {
        context.out.text(&format!("{parent}  (not here)"))?;
    }
    let line = |record: &SessionRecord| {
        let created_at = i64::try_from(record.header.created_at).unwrap_or(i64::MAX);
        format!("{}  {}", time_text(created_at), record.header.id)
    };
    for ancestor in lineage.ancestors.iter().rev() {
        context.out.text(&line(ancestor))?;
    }
    context.out.text(&format!("{}  <", line(&lineage.target)))?;
    for descendant in &lineage.descendants {
        // A deep lineage is not pushed off the screen.
        let indent = usize::try_from(descendant.depth.min(20)).unwrap_or(20) * 2;
        context.out.text(&format!("{:indent$}{}", "", line(&descendant.session)))?;
    }
    Ok(EXIT_DONE)
}

pub(crate) fn title(context: &mut Context, id: &str) -> Result<i32, Failure> {
    let found = context.store()?.read_title_with(id, &context.cancel)?;
    if context.is_json {
        context.out.line(&found.to_json())?;
    } else if let Some(title) = &found.title {
        context.out.text(&title.text())?;
    } else {
        context.remark(&format!("{id} has no title"));
    }
    Ok(EXIT_DONE)
}

pub(crate) fn filter(context: &mut Context, arguments: &Filter) -> Result<i32, Failure> {
    match &arguments.id {
        Some(id) => filter_events(context, id, &EventFilter::list_from_json(&arguments.filters)?),
        None => filter_sessions(context, &SessionFilter::list_from_json(&arguments.filters)?),
    }
}

fn filter_events(context: &mut Context, id: &str, filters: &[EventFilter]) -> Result<i32, Failure> {
    for document in context.store()?.filter_events_with(id, filters, &context.cancel)? {
        if context.is_json {
            context.out.line(&document.to_json())?;
        } else {
            let record = &document.record;
            let text = preview(&document.text);
            context.out.text(&format!(
                "{:>6}  {}  {}  {text}",
                record.seq,
                time_text(record.time),
                record.kind
            ))?;
        }
    }
    Ok(EXIT_DONE)
}

fn filter_sessions(context: &mut Context, filters: &[SessionFilter]) -> Result<i32, Failure> {
    for record in context.store()?.filter_sessions_with(filters, &context.cancel)? {
        if context.is_json {
            context.out.line(&record.to_json())?;
        } else {
            let created_at = i64::try_from(record.header.created_at).unwrap_or(i64::MAX);
            let cwd = record.header.cwd.as_deref().unwrap_or_default();
            context.out.text(&format!("{}  {}  {cwd}", time_text(created_at), record.header.id))?;
        }
    }
    Ok(EXIT_DONE)
}
