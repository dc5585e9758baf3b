//! Properties of the room.
