//! Filters over sessions and over events (`query.md` 3). A list of clauses holds if all of them do; a list of values if one does.
//!
//! What cannot be a filter cannot be built: the JSON entry points and the constructors refuse it with `SESSION_QUERY_INVALID_FILTER`.

use super::records::{Document, SessionRecord, SurfacePlace};
use super::text_clause::TextClause;
use crate::error::{Code, Error, Result};
use crate::json::{DEPTH_MAX_DEFAULT, Json, Kind};

/// Both ends belong to it; a missing one is open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    from: Option<f64>,
    to: Option<f64>,
}

impl Bounds {
    /// Bounds, which may be negative and no whole numbers.
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_FILTER` if one is not finite, or the first is above the second.
    pub fn new(from: Option<f64>, to: Option<f64>) -> Result<Bounds> {
        if [from, to].into_iter().flatten().any(|bound| !bound.is_finite()) {
            return Err(invalid("a bound is no finite number"));
        }
        match (from, to) {
            (Some(from), Some(to)) if from > to => Err(invalid("`from` is above `to`")),
            _ => Ok(Bounds { from, to }),
        }
    }

    /// `value` is a safe integer, so that the comparison is exact.
    fn hold(self, value: f64) -> bool {
        self.from.is_none_or(|from| from <= value) && self.to.is_none_or(|to| value <= to)
    }
}

/// Where a session can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Live in this store.
    Live,
    /// Listed by the storage.
    Persisted,
}

/// A clause about sessions (`query.md` 3.2).
#[derive(Clone, Debug, PartialEq)]
pub enum SessionFilter {
    /// One of these ids.
    Id(Vec<String>),
    /// One of these working directories, exactly; `None` stands for having none.
    Cwd(Vec<Option<String>>),
    /// The time of creation, in milliseconds since 1970.
    CreatedAt(Bounds),
    /// One of these parents, which need not exist; `None` stands for having none.
    Parent(Vec<Option<String>>),
    /// Found in one of these places.
    Availability(Vec<Availability>),
}

impl SessionFilter {
    /// Clauses from the JSON text of an array.
    ///
    /// ```
    /// use dsh_session_core::query::SessionFilter;
    /// let filters = SessionFilter::list_from_json(r#"[{"kind":"cwd","values":["/repo",null]}]"#)?;
    /// assert_eq!(filters, [SessionFilter::Cwd(vec![Some("/repo".into()), None])]);
    /// # Ok::<(), dsh_session_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_FILTER` that names the clause.
    pub fn list_from_json(text: &str) -> Result<Vec<SessionFilter>> {
        clauses(text, SessionFilter::from_clause)
    }

    fn from_clause(kind: &str, clause: Json<'_>) -> Result<Option<SessionFilter>> {
        Ok(Some(match kind {
            "id" => SessionFilter::Id(values(clause, string)?),
            "cwd" => SessionFilter::Cwd(values(clause, string_or_null)?),
            "created-at" => SessionFilter::CreatedAt(bounds(clause)?),
            "parent" => SessionFilter::Parent(values(clause, string_or_null)?),
            "availability" => {
                SessionFilter::Availability(values(clause, |value| match &*value.as_str()? {
                    "live" => Some(Availability::Live),
                    "persisted" => Some(Availability::Persisted),
                    _ => None,
                })?)
            }
            _ => return Ok(None),
        }))
    }

    /// Whether a session passes.
    #[must_use]
    pub fn accepts(&self, record: &SessionRecord) -> bool {
        let header = &record.header;
        match self {
            SessionFilter::Id(ids) => ids.contains(&header.id),
            SessionFilter::Cwd(folders) => folders.contains(&header.cwd),
            SessionFilter::CreatedAt(bounds) => bounds.hold(header.created_at as f64),
            SessionFilter::Parent(parents) => parents.contains(&header.parent_session),
            SessionFilter::Availability(places) => places.iter().any(|place| match place {
                Availability::Live => record.live,
                Availability::Persisted => record.persisted,
            }),
        }
    }
}

/// A clause about events (`query.md` 3.3).
#[derive(Clone, Debug)]
pub enum EventFilter {
    /// The position in the log.
    Seq(Bounds),
    /// The event's time, in milliseconds since 1970.
    Time(Bounds),
    /// One of these event types, known or not.
    Type(Vec<String>),
    /// In one of these places.
    Surface(Vec<SurfacePlace>),
    /// Says this.
    Text(TextClause),
}

impl EventFilter {
    /// Clauses from the JSON text of an array.
    ///
    /// ```
    /// use dsh_session_core::query::EventFilter;
    /// let filters = EventFilter::list_from_json(r#"[{"kind":"text","text":"north gate"},{"kind":"seq","from":3}]"#)?;
    /// assert_eq!(filters.len(), 2);
    /// # Ok::<(), dsh_session_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SESSION_QUERY_INVALID_FILTER` that names the clause.
    pub fn list_from_json(text: &str) -> Result<Vec<EventFilter>> {
        clauses(text, EventFilter::from_clause)
    }

    fn from_clause(kind: &str, clause: Json<'_>) -> Result<Option<EventFilter>> {
        Ok(Some(match kind {
            "seq" => EventFilter::Seq(bounds(clause)?),
            "time" => EventFilter::Time(bounds(clause)?),
            "type" => EventFilter::Type(values(clause, string)?),
            "surface" => {
                EventFilter::Surface(values(clause, |value| SurfacePlace::from_word(&value.as_str()?))?)
            }
            "text" => {
                let text = clause.get("text").and_then(|text| text.as_str());
                EventFilter::Text(TextClause::new(&text.ok_or_else(|| invalid("`text` is no string"))?)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Whether an event passes.
    #[must_use]
    pub fn accepts(&self, document: &Document) -> bool {
        let record = &document.record;
        match self {
            EventFilter::Seq(bounds) => bounds.hold(record.seq as f64),
            EventFilter::Time(bounds) => bounds.hold(record.time as f64),
            EventFilter::Type(kinds) => kinds.contains(&record.kind),
            EventFilter::Surface(places) => places.contains(&record.surface),
            EventFilter::Text(clause) => clause.matches(&document.text),
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::QueryInvalidFilter, message)
}

/// Reads every clause before the first is used; `read` gives `None` for a kind that it does not know.
fn clauses<T>(text: &str, read: impl Fn(&str, Json<'_>) -> Result<Option<T>>) -> Result<Vec<T>> {
    let json = Json::parse(text, DEPTH_MAX_DEFAULT)
        .map_err(|error| invalid(format!("the filters are no JSON: {error}")))?;
    if json.kind() != Kind::Array {
        return Err(invalid("the filters are no array"));
    }
    let clause = |clause: Json<'_>| -> Result<T> {
        if clause.kind() != Kind::Object {
            return Err(invalid("a clause is no object"));
        }
        let kind = clause.get("kind").and_then(|kind| kind.as_str());
        let kind = kind.ok_or_else(|| invalid("`kind` is no string"))?;
        read(&kind, clause)?.ok_or_else(|| invalid(format!("there is no kind of clause `{kind}` here")))
    };
    let numbered = |(index, value)| clause(value).map_err(|error: Error| error.with_index(index as u64));
    json.elements().enumerate().map(numbered).collect()
}

fn values<T>(clause: Json<'_>, read: impl Fn(Json<'_>) -> Option<T>) -> Result<Vec<T>> {
    let values = clause.get("values").filter(|values| values.kind() == Kind::Array);
    let values = values.ok_or_else(|| invalid("`values` is no array"))?;
    let read = |value: Json<'_>| {
        read(value).ok_or_else(|| invalid(format!("{} cannot be a value here", value.text())))
    };
    values.elements().map(read).collect()
}

fn string(value: Json<'_>) -> Option<String> {
    value.as_str().map(Into::into)
}

fn string_or_null(value: Json<'_>) -> Option<Option<String>> {
    if value.kind() == Kind::Null { Some(None) } else { string(value).map(Some) }
}

fn bounds(clause: Json<'_>) -> Result<Bounds> {
    let bound = |key: &str| match clause.get(key) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| invalid(format!("`{key}` is no number"))),
    };
    Bounds::new(bound("from")?, bound("to")?)
}
