//! Message projections: the owner of an event type changes the content of earlier messages, and the log stays as it is
//! (`session.md` 9).

use super::acceptance::refused;
use super::message::DerivedMessage;
use super::surface::{EarlierEvents, Surface};
use crate::error::{Code, Error, Result};
use crate::event::facts::{RowKind, is_same_string, is_word};
use crate::event::{Event, IMAGE_OFFLOAD};
use crate::json::{self, Json, Kind, ObjectText};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Decides what an event of one type does to the messages before it. Pure: same events, same decision.
pub trait MessageProjection: Send + Sync {
    /// The message of each seq that changes, as JSON text. The seqs are on the surface; ids stay. The whole decision is checked before
    /// anything is returned.
    ///
    /// # Errors
    /// Any error refuses the event with `PROJECTION_REJECTED`, the error being its cause.
    fn project(&self, event: &Event, context: &ProjectionContext<'_>) -> Result<Vec<(u64, String)>>;
}

impl<F> MessageProjection for F
where
    F: Fn(&Event, &ProjectionContext<'_>) -> Result<Vec<(u64, String)>> + Send + Sync,
{
    fn project(&self, event: &Event, context: &ProjectionContext<'_>) -> Result<Vec<(u64, String)>> {
        self(event, context)
    }
}

/// What a projection sees: everything as of just before its event.
pub struct ProjectionContext<'a> {
    surface: &'a Surface,
    earlier: &'a dyn EarlierEvents,
}

impl<'a> ProjectionContext<'a> {
    pub(super) fn new(surface: &'a Surface, earlier: &'a dyn EarlierEvents) -> ProjectionContext<'a> {
        ProjectionContext { surface, earlier }
    }

    /// The seqs on the surface, in model order.
    pub fn nodes(&self) -> impl Iterator<Item = u64> + '_ {
        self.surface.nodes.iter()
    }

    /// Whether an event is on the surface.
    #[must_use]
    pub fn is_on_surface(&self, seq: u64) -> bool {
        self.surface.nodes.find(seq).is_some()
    }

    /// The seq of the first event that the fold sees; 0 but in a window.
    #[must_use]
    pub fn base_seq(&self) -> u64 {
        self.surface.base_seq()
    }

    /// An earlier event.
    #[must_use]
    pub fn event(&self, seq: u64) -> Option<Event> {
        self.earlier.event(seq)
    }

    /// The message of an event as earlier projections left it.
    #[must_use]
    pub fn message(&self, seq: u64) -> Option<DerivedMessage> {
        self.surface.message(seq, self.earlier)
    }

    /// The messages that projections changed so far, by seq.
    pub fn projected(&self) -> impl Iterator<Item = &DerivedMessage> + '_ {
        self.surface.projected.values()
    }
}

impl fmt::Debug for ProjectionContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectionContext").field("base_seq", &self.base_seq()).finish_non_exhaustive()
    }
}

/// One registered projection. It is known by identity: an equal one registered later is another.
pub(super) struct Definition {
    event_type: String,
    projection: Box<dyn MessageProjection>,
    /// Cleared when it is unregistered, for good.
    is_registered: AtomicBool,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition").field("event_type", &self.event_type).finish_non_exhaustive()
    }
}

impl Definition {
    /// Runs the projection and checks what it returns.
    pub(super) fn run(
        &self,
        event: &Event,
        context: &ProjectionContext<'_>,
    ) -> Result<Vec<(u64, DerivedMessage)>> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.projection.project(event, context)));
        let decided = match ran {
            Ok(Ok(decided)) => decided,
            Ok(Err(cause)) => return Err(self.rejected(cause.message().to_owned()).with_cause(cause)),
            Err(_) => return Err(self.rejected("it panicked".to_owned())),
        };
        decided.into_iter().map(|(seq, text)| self.checked(seq, &text, context)).collect()
    }

    fn checked(
        &self,
        seq: u64,
        text: &str,
        context: &ProjectionContext<'_>,
    ) -> Result<(u64, DerivedMessage)> {
        let text = json::admit(text.as_bytes(), json::DEPTH_MAX_DEFAULT)
            .map_err(|_| self.rejected(format!("its message for event {seq} is not lossless JSON")))?;
        let message = Json::trusted(&text);
        let old = context.message(seq).filter(|_| context.is_on_surface(seq));
        let old = old.ok_or_else(|| self.rejected(format!("event {seq} makes no message on the surface")))?;
        let keeps_id =
            message.kind() == Kind::Object && is_same_string(message.get("id"), old.json().get("id"));
        if !keeps_id {
            return Err(self.rejected(format!("its message for event {seq} does not keep the message's id")));
        }
        Ok((seq, DerivedMessage::new(seq, text)))
    }

    fn rejected(&self, why: String) -> Error {
        let message = format!("the projection of `{}` refused: {why}", self.event_type);
        refused("PROJECTION_REJECTED", message).with_event_type(&*self.event_type)
    }
}

/// The projections that a set of sessions shares: those of a store, or of one independent session. One for each event type.
#[derive(Debug, Default)]
pub struct Projections {
    by_type: RwLock<BTreeMap<String, Arc<Definition>>>,
    /// How often a projection came or went: what was folded before such a change may be folded otherwise after it.
    changes: AtomicU64,
}

/// Keeps a projection registered until [`unregister`](Self::unregister) is called; dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Registration {
    definition: Arc<Definition>,
    set: Arc<Projections>,
}

impl Registration {
    /// Takes the projection away. Sessions that applied it refuse to show their surface and to append from now on
    /// (`PROJECTION_REMOVED`). A second call does nothing.
    pub fn unregister(&self) {
        let mut by_type = self.set.by_type.write().unwrap_or_else(PoisonError::into_inner);
        self.definition.is_registered.store(false, Ordering::Release);
        let is_this = |known: &Arc<Definition>| Arc::ptr_eq(known, &self.definition);
        if by_type.get(&self.definition.event_type).is_some_and(is_this) {
            by_type.remove(&self.definition.event_type);
            self.set.changes.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Projections {
    /// A set with the one that comes with the library, [`ImageOffload`].
    #[must_use]
    pub fn built_in() -> Arc<Projections> {
        let set = Arc::new(Projections::default());
        // An empty set refuses nothing.
        let _ = set.register(IMAGE_OFFLOAD, ImageOffload);
        set
    }

    /// Registers a projection for an event type.
    ///
    /// # Errors
    /// `SESSION_REFUSED`, `PROJECTION_ALREADY_REGISTERED`; `INVALID_ARGUMENT` for one of the five message types.
    pub fn register(
        self: &Arc<Self>,
        event_type: impl Into<String>,
        projection: impl MessageProjection + 'static,
    ) -> Result<Registration> {
        let event_type = event_type.into();
        if RowKind::of(&event_type).is_surface() {
            let message = format!("`{event_type}` makes messages itself and cannot have a projection");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let mut by_type = self.by_type.write().unwrap_or_else(PoisonError::into_inner);
        if by_type.contains_key(&event_type) {
            let message = format!("`{event_type}` has a projection already");
            let error = Error::new(Code::SessionRefused, message).with_rule("PROJECTION_ALREADY_REGISTERED");
            return Err(error.with_event_type(event_type).with_advice("unregister the other one first"));
        }
        let is_registered = AtomicBool::new(true);
        let definition =
            Definition { event_type: event_type.clone(), projection: Box::new(projection), is_registered };
        let definition = Arc::new(definition);
        by_type.insert(event_type, Arc::clone(&definition));
        self.changes.fetch_add(1, Ordering::AcqRel);
        drop(by_type);
        Ok(Registration { definition, set: Arc::clone(self) })
    }

    pub(super) fn get(&self, event_type: &str) -> Option<Arc<Definition>> {
        self.by_type.read().unwrap_or_else(PoisonError::into_inner).get(event_type).cloned()
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Refuses if one of these was unregistered, or belongs to another set.
    pub(super) fn check_applied(&self, applied: &[Arc<Definition>]) -> Result<()> {
        let is_gone = |definition: &&Arc<Definition>| {
            !definition.is_registered.load(Ordering::Acquire)
                || !self.get(&definition.event_type).is_some_and(|known| Arc::ptr_eq(&known, definition))
        };
        let Some(gone) = applied.iter().find(is_gone) else { return Ok(()) };
        let message =
            format!("the projection of `{}` that this session applied was unregistered", gone.event_type);
        Err(refused("PROJECTION_REMOVED", message)
            .with_event_type(&*gone.event_type)
            .with_advice("build the session anew from its events"))
    }
}

/// `image/offload`: marks images of messages as kept elsewhere (`session.md` 9.1).
#[derive(Clone, Copy, Debug)]
pub struct ImageOffload;

impl MessageProjection for ImageOffload {
    fn project(&self, event: &Event, context: &ProjectionContext<'_>) -> Result<Vec<(u64, String)>> {
        let targets = only_member(event.data(), "targets").filter(|targets| targets.kind() == Kind::Array);
        let targets = targets.ok_or_else(|| malformed("`data` is not exactly `targets`, a list"))?;
        let mut seen = BTreeSet::new();
        let mut decided = Vec::new();
        for target in targets.elements() {
            let (seq, indexes) = read_target(target)?;
            if !seen.insert(seq) {
                return Err(malformed(format!("event {seq} is named twice")));
            }
            decided.push((seq, offload(seq, &indexes, context)?));
        }
        if decided.is_empty() {
            return Err(malformed("`targets` is empty"));
        }
        Ok(decided)
    }
}

fn malformed(what: impl Into<String>) -> Error {
    Error::new(Code::EventRefused, what.into()).with_rule("PROJECTION_REJECTED")
}

/// The value of the one member of an object that has no other.
fn only_member<'a>(object: Json<'a>, key: &str) -> Option<Json<'a>> {
    let mut members = object.members();
    let (name, value) = members.next()?;
    (name == key && members.next().is_none()).then_some(value)
}

/// A seq and strictly increasing image indexes.
fn read_target(target: Json<'_>) -> Result<(u64, Vec<u64>)> {
    let (mut seq, mut indexes) = (None, None);
    for (key, value) in target.members() {
        match &*key {
            "seq" => seq = value.as_count(),
            "imageIndexes" => {
                indexes = value.elements().map(|index| index.as_count()).collect::<Option<Vec<_>>>()
            }
            _ => return Err(malformed(format!("a target has the foreign key `{key}`"))),
        }
    }
    let seq = seq.ok_or_else(|| malformed("a target has no `seq`"))?;
    let indexes = indexes.filter(|indexes| !indexes.is_empty() && indexes.is_sorted_by(|a, b| a < b));
    let indexes = indexes.ok_or_else(|| malformed("`imageIndexes` is not a list of growing positions"))?;
    Ok((seq, indexes))
}

/// The message of an event with `offloaded: true` on the selected images.
fn offload(seq: u64, indexes: &[u64], context: &ProjectionContext<'_>) -> Result<String> {
    let has_images = context
        .event(seq)
        .filter(|_| context.is_on_surface(seq))
        .is_some_and(|event| matches!(RowKind::of(event.kind()), RowKind::UserMessage | RowKind::ToolResult));
    let message = context.message(seq).filter(|_| has_images);
    let message = message
        .ok_or_else(|| malformed(format!("event {seq} is no user message or tool result on the surface")))?;
    let mut left = indexes.iter().peekable();
    let mut images = 0;
    let mut content = String::from("[");
    let blocks = message.json().get("content");
    for block in blocks.iter().flat_map(|blocks| blocks.elements()) {
        if content.len() > 1 {
            content.push(',');
        }
        let is_image = is_word(block.get("type"), "image");
        if is_image && left.next_if(|&&index| index == images).is_some() {
            content.push_str(
                &offloaded(block).ok_or_else(|| {
                    malformed(format!("image {images} of event {seq} is offloaded already"))
                })?,
            );
        } else {
            content.push_str(block.text());
        }
        images += u64::from(is_image);
    }
    content.push(']');
    match left.next() {
        Some(index) => Err(malformed(format!("the message of event {seq} has no image {index}"))),
        None => Ok(with_member(message.json(), "content", &content)),
    }
}

/// An image block marked; `None` for one that has a mark already.
fn offloaded(block: Json<'_>) -> Option<String> {
    let is_marked = match block.get("offloaded") {
        None => false,
        Some(mark) => match mark.kind() {
            Kind::Null => false,
            Kind::Bool => mark.as_bool() == Some(true),
            Kind::Number => mark.as_f64().is_some_and(|number| number != 0.0),
            Kind::String => mark.text().len() > 2,
            Kind::Array | Kind::Object => true,
        },
    };
    (!is_marked).then(|| with_member(block, "offloaded", "true"))
}

/// An object with a member set, at its place or at the end.
fn with_member(object: Json<'_>, key: &str, value: &str) -> String {
    let mut text = ObjectText::new();
    let mut is_set = false;
    for (name, old) in object.members() {
        let is_it = name == key;
        is_set |= is_it;
        text.json(&name, if is_it { value } else { old.text() });
    }
    if !is_set {
        text.json(key, value);
    }
    text.finish()
}
