//! The first bytes of a session (`format.md` 6.4): folders, a staging file, and one link that makes it exist.
//!
//! A crash at any point leaves either no session or a whole one: the log gets its name only after its bytes are on the disk.

use super::Shared;
use super::lease::Lease;
use super::locate::{self, Located};
use super::writer::LogFile;
use crate::error::{Code, Error, Result};
use crate::format::header::{FORMAT_VERSION, SessionHeader};
use crate::format::names::{self, Encoding};
use crate::storage::{FileMetadata, OpenHow, StorageFile};
use std::io;
use std::path::{Path, PathBuf};

/// Random bytes in the name of a staging file: 12 hexadecimal digits (`format.md` 1.5).
const STAGING_RANDOM_BYTES: usize = 6;

/// Where a session with this header is stored.
pub(super) fn place_of(shared: &Shared, header: &SessionHeader, encoding: Encoding) -> Result<Located> {
    let name = |result: Result<String, names::NameFault>| {
        result.map_err(|fault| {
            Error::new(Code::InvalidArgument, format!("the header cannot name a folder: {fault}"))
        })
    };
    let project = name(names::project_directory(header.cwd.as_deref()))?;
    let session = name(names::session_directory(&header.id))?;
    let directory = shared.root.join(project).join(session);
    let version = u64::from(FORMAT_VERSION);
    let path = directory.join(names::generation_file_name(version, encoding));
    Ok(Located { directory, path, version, encoding })
}

/// Makes the root (with parents), the project and the session folder, each on the disk before the next.
pub(super) fn make_directories(shared: &Shared, directory: &Path) -> Result<()> {
    let project = directory.parent().unwrap_or(&shared.root);
    let mut chain: Vec<&Path> = vec![directory, project, &shared.root];
    let mut above = shared.root.parent();
    while let Some(parent) = above {
        match shared.storage.metadata(parent) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => chain.push(parent),
            Err(error) => return Err(Error::io("look at a folder above the root", &error).with_path(parent)),
        }
        above = parent.parent();
    }
    for folder in chain.into_iter().rev() {
        match shared.storage.create_directory(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make a folder", &error).with_path(folder));
            }
            _ => {}
        }
        // Done whether or not the folder was new: the one who made it may have crashed before this.
        if let Some(parent) = folder.parent() {
            let synced = shared.storage.sync_directory(parent);
            synced.map_err(|error| Error::io("sync a folder", &error).with_path(parent))?;
        }
    }
    Ok(())
}

/// The generation that counts in the session folder, if it holds one.
fn stored(shared: &Shared, place: &Located) -> Result<Option<Located>> {
    let entries = shared.storage.read_directory(&place.directory);
    let entries =
        entries.map_err(|error| Error::io("read the session folder", &error).with_path(&place.directory))?;
    locate::select(&place.directory, &entries)
}

/// Fails if the session folder is that of an id which differs only in case (`format.md` 1.3). To be asked before the lock is taken: whoever
/// has that one would be named as the owner of this session.
pub(super) fn check_no_twin(shared: &Shared, place: &Located, id: &str) -> Result<()> {
    match stored(shared, place)? {
        Some(there) => shared.refuse_twin(&there, id),
        None => Ok(()),
    }
}

/// Fails if the session folder holds a generation, of either encoding.
pub(super) fn check_vacant(shared: &Shared, place: &Located, id: &str) -> Result<()> {
    match stored(shared, place)? {
        None => Ok(()),
        Some(there) => {
            shared.refuse_twin(&there, id)?;
            let message = format!("another writer stored session {id} first");
            Err(Error::new(Code::SessionAlreadyExists, message).with_session_id(id).with_path(there.path))
        }
    }
}

/// Publishes what `write` writes as the log at `place`. The caller holds the lease.
///
/// # Errors
/// `SESSION_ALREADY_EXISTS`, `IO`, those of `write`. The log does not exist then, unless [`Unpublished::stray`] says that its name may be there.
pub(super) fn publish(
    shared: &Shared,
    place: &Located,
    _lease: &Lease,
    write: impl FnOnce(&dyn StorageFile, &Path) -> Result<()>,
) -> Result<LogFile, Unpublished> {
    let storage = &*shared.storage;
    let staging = staging_path(shared, place)?;
    let failed = |doing: &str, error: &io::Error| Error::io(doing, error).with_path(&staging);
    let file = storage
        .open(&staging, OpenHow::CreateNew)
        .map_err(|error| failed("make the staging file", &error))?;
    let staged = (|| {
        write(&*file, &staging)?;
        file.sync().map_err(|error| failed("sync the staging file", &error))?;
        file.metadata().map_err(|error| failed("look at the staging file", &error))
    })();
    let linked = staged.map_err(Unpublished::from).and_then(|identity| {
        link(shared, &staging, &place.path, &identity)?;
        Ok(identity)
    });
    let synced = linked.and_then(|identity| match storage.sync_directory(&place.directory) {
        Ok(()) => Ok(identity),
        Err(error) => {
            // A name that may not survive a crash is taken back: the session is created whole by the next attempt, or not at all.
            let error = Error::io("sync the session folder", &error).with_path(&place.directory);
            let is_taken_back = storage.remove_file(&place.path).is_ok();
            Err(Unpublished { error, stray: (!is_taken_back).then_some(identity) })
        }
    });
    // Inert if it stays; nothing more can be done about it here.
    let _ = storage.remove_file(&staging);
    synced.map(|identity| LogFile { file: Some(file), identity, path: place.path.clone() })
}

/// Gives the staged file its name. Not a rename: that would silently replace a log that appeared meanwhile.
fn link(shared: &Shared, staging: &Path, path: &Path, identity: &FileMetadata) -> Result<(), Unpublished> {
    let Err(error) = shared.storage.hard_link(staging, path) else { return Ok(()) };
    // A network file system may have done it and lost the answer. The names tell.
    let stray = match shared.storage.metadata(path) {
        Ok(there) if there.is_same_file(identity) => return Ok(()),
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(*identity),
    };
    Err(Unpublished { error: link_error(&error, path), stray })
}

/// Takes back the name that a failed publication left, if it is still that file's.
pub(super) fn withdraw(shared: &Shared, place: &Located, stray: &FileMetadata) -> Result<()> {
    let failed = |error: &io::Error| {
        Error::io("take back what a failed publication left", error).with_path(&place.path)
    };
    match shared.storage.metadata(&place.path) {
        Ok(there) if there.is_same_file(stray) => {
            shared.storage.remove_file(&place.path).map_err(|error| failed(&error))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

/// Why a log was not published.
#[derive(Debug)]
pub(super) struct Unpublished {
    pub(super) error: Error,
    /// The file whose name may be there all the same, and must be [withdrawn](withdraw) before another attempt.
    pub(super) stray: Option<FileMetadata>,
}

impl From<Error> for Unpublished {
    fn from(error: Error) -> Unpublished {
        Unpublished { error, stray: None }
    }
}

fn link_error(error: &io::Error, path: &Path) -> Error {
    let new = Error::io("give the log its name", error).with_path(path);
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Error::new(Code::SessionAlreadyExists, "another writer stored this session first").with_path(path)
        }
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => new.with_advice(
            "the file system of the root must support hard links; choose another one for the root",
        ),
        _ => new,
    }
}

fn staging_path(shared: &Shared, place: &Located) -> Result<PathBuf> {
    let mut random = [0; STAGING_RANDOM_BYTES];
    shared.storage.fill_random(&mut random).map_err(|error| Error::io("get random bytes", &error))?;
    let name = names::materialization_staging_name(place.version, place.encoding, random);
    Ok(place.directory.join(name))
}
