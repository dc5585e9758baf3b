//! Storages for tests: a file system in memory, one whose calls fail, one that remembers what a crash may leave.
//!
//! - [`MemoryStorage`]: files, links, directories, locks, clock, randomness and processes, all of it settable and
//!   the same in every run.
//! - [`FaultyStorage`]: around any storage; the call number *k* fails, as chosen.
//! - [`RecordingStorage`]: a [`MemoryStorage`] that keeps every change in a [`Journal`], from which
//!   [`CrashImages`] builds the disks that a power failure may leave behind.
//!
//! They compose: `FaultyStorage` around `RecordingStorage` shows what a crash leaves after a failed call.
//! Programs that embed the library may test with them too (feature `simulation`). All of it is deterministic;
//! what is random takes its seed from the caller, to be printed when a test fails.
//!
//! ```
//! use dsh_session_core::storage::simulation::{CrashImages, RecordingStorage};
//! use dsh_session_core::storage::{OpenHow, Storage, StorageFile};
//! use std::path::Path;
//!
//! let storage = RecordingStorage::default();
//! let file = storage.open(Path::new("/log"), OpenHow::CreateNew)?;
//! file.append(b"one line\n")?;
//! file.sync()?; // The bytes are safe, the name is not: its directory was never synced.
//!
//! let journal = storage.journal();
//! let images = CrashImages::new(&journal, 1).at(journal.len());
//! let survived = images.iter().filter(|image| image.storage.metadata(Path::new("/log")).is_ok());
//! assert_eq!((images.len(), survived.count()), (2, 1));
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod crash;
mod faulty;
mod memory;
mod random;
mod recording;

pub use crash::{CrashImage, CrashImages, CrashPoint};
pub use faulty::{Fault, FaultyStorage};
pub use memory::MemoryStorage;
pub use random::SplitMix64;
pub use recording::{Effect, Journal, RecordingStorage};
