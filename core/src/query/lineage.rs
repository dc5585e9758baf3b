//! Which session came from which (`query.md` 5.3). Nothing here recurses: a chain may be thousands of sessions long.

use super::records::SessionRecord;
use crate::error::{Code, Error, Result};
use std::collections::{HashMap, HashSet};

/// A session that came from the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// The session.
    pub session: SessionRecord,
    /// 1 for a child, 2 for a child of that one, and so on.
    pub depth: u64,
}

/// Where the chain of parents ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineageEnd {
    /// At a session without a parent: the last ancestor, or the session itself.
    Root(SessionRecord),
    /// At this id, which no session of the corpus has.
    Unresolved(String),
}

/// The ancestors and descendants of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLineage {
    /// The session that was asked for.
    pub target: SessionRecord,
    /// Its parent, the parent of that one, and so on.
    pub ancestors: Vec<SessionRecord>,
    /// Everything that came from it: each session before what came from it, siblings by time of creation, then by id.
    pub descendants: Vec<Descendant>,
    /// Where the chain of parents ends.
    pub end: LineageEnd,
}

impl SessionLineage {
    /// The lineage of a session among these.
    ///
    /// # Errors
    /// `SESSION_QUERY_SESSION_NOT_FOUND`; `SESSION_QUERY_INVALID_LINEAGE` if the chain of parents meets a session twice.
    pub fn of(id: &str, records: &[SessionRecord]) -> Result<SessionLineage> {
        let by_id: HashMap<&str, &SessionRecord> =
            records.iter().map(|record| (record.header.id.as_str(), record)).collect();
        let target = *by_id.get(id).ok_or_else(|| super::session_not_found(id))?;
        let (mut ancestors, mut seen) = (Vec::new(), HashSet::from([id]));
        let mut last = target;
        let end = loop {
            let Some(parent) = last.header.parent_session.as_deref() else {
                break LineageEnd::Root(last.clone());
            };
            if !seen.insert(parent) {
                let message = format!("the chain of parents meets session {parent} twice");
                return Err(Error::new(Code::QueryInvalidLineage, message).with_session_id(id));
            }
            let Some(&next) = by_id.get(parent) else { break LineageEnd::Unresolved(parent.to_owned()) };
            ancestors.push(next.clone());
            last = next;
        };
        Ok(SessionLineage { target: target.clone(), ancestors, descendants: descendants(id, records), end })
    }

    /// `{target, ancestors, descendants, complete, root?, unresolvedParentId?}`, each descendant as `{session, descendants}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = crate::json::ObjectText::new();
        out.json("target", &self.target.to_json());
        let ancestors: Vec<String> = self.ancestors.iter().map(SessionRecord::to_json).collect();
        out.json("ancestors", &format!("[{}]", ancestors.join(",")));
        out.json("descendants", &forest(&self.descendants));
        out.boolean("complete", matches!(self.end, LineageEnd::Root(_)));
        match &self.end {
            LineageEnd::Root(root) => out.json("root", &root.to_json()),
            LineageEnd::Unresolved(id) => out.string("unresolvedParentId", id),
        }
        out.finish()
    }
}

/// A target whose own chain of parents has no cycle has none below it: a session has one parent.
fn descendants(id: &str, records: &[SessionRecord]) -> Vec<Descendant> {
    let mut children: HashMap<&str, Vec<&SessionRecord>> = HashMap::new();
    for record in records {
        if let Some(parent) = &record.header.parent_session {
            children.entry(parent).or_default().push(record);
        }
    }
    for siblings in children.values_mut() {
        // Last first: they are taken from the end.
        siblings
            .sort_by(|a, b| (b.header.created_at, &b.header.id).cmp(&(a.header.created_at, &a.header.id)));
    }
    let mut found = Vec::new();
    let mut open = vec![children.remove(id).unwrap_or_default()];
    while let Some(siblings) = open.last_mut() {
        match siblings.pop() {
            None => drop(open.pop()),
            Some(record) => {
                found.push(Descendant { session: record.clone(), depth: open.len() as u64 });
                open.push(children.remove(record.header.id.as_str()).unwrap_or_default());
            }
        }
    }
    found
}

fn forest(descendants: &[Descendant]) -> String {
    let (mut text, mut depth) = (String::from("["), 0);
    for Descendant { session, depth: next } in descendants {
        if *next <= depth {
            (*next..=depth).for_each(|_| text.push_str("]}"));
            text.push(',');
        }
        text.push_str("{\"session\":");
        text.push_str(&session.to_json());
        text.push_str(",\"descendants\":[");
        depth = *next;
    }
    (0..depth).for_each(|_| text.push_str("]}"));
    text.push(']');
    text
}
