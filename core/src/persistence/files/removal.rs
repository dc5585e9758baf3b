//! Taking a session away: for good, or aside (`design.md` 5, Delete). Nothing else in the library ever removes a log.
//!
//! The order is what makes a crash harmless: older generations go first and their going is synced before the log itself goes, so no
//! crash brings an older generation back as the session.

use super::Shared;
use super::lease::Lease;
use super::locate::Located;
use crate::cancel::CancelToken;
use crate::error::{Code, Error, Result};
use crate::format::names;
use crate::persistence::contract::Removal;
use crate::storage::FileKind;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Names tried in the trash before giving up.
const TRASH_NAMES_MAX: u32 = 10_000;

impl Shared {
    /// Removes a session, or moves its folder aside and tells where to.
    pub(super) fn remove(&self, id: &str, how: Removal, cancel: &CancelToken) -> Result<Option<PathBuf>> {
        let _claim = self.claim(id, Code::SessionAlreadyOwned)?;
        let located = self.find(id)?.ok_or_else(|| super::log::not_found(id))?;
        // A folder whose header belongs elsewhere is not this session: it is not for us to remove.
        self.refuse_foreign(&located, id)?;
        let lease = match Lease::acquire(&*self.storage, &located.directory, id) {
            // Removed since it was found.
            Err(error) if error.os() == Some(rustix::io::Errno::NOENT.raw_os_error()) => {
                return Err(super::log::not_found(id));
            }
            lease => lease?,
        };
        // Only now does nobody else publish a generation here.
        let located = self.find(id)?.ok_or_else(|| super::log::not_found(id))?;
        cancel.check()?;
        let removed = match how {
            Removal::Delete => self.delete(&located).map(|()| None),
            Removal::Trash => self.move_to_trash(&located).map(Some),
        };
        drop(lease);
        removed.map_err(|error| error.with_session_id(id))
    }

    fn refuse_foreign(&self, located: &Located, id: &str) -> Result<()> {
        use crate::error::At;
        match self.open_located(located, Some(id), crate::storage::OpenHow::Read) {
            Err(error) if error.at() == Some(At::Identity) => Err(error),
            // Damaged or of another version: it is what the id names, so it may go.
            _ => Ok(()),
        }
    }

    fn delete(&self, located: &Located) -> Result<()> {
        let directory = &located.directory;
        let log = located.path.file_name().unwrap_or_default();
        for name in self.names_in(directory)? {
            if name != log && is_generation(&name) {
                self.remove_file(&directory.join(name))?;
            }
        }
        self.sync(directory)?;
        self.remove_file(&located.path)?;
        self.sync(directory)?;
        self.remove_tree(directory)?;
        self.sync(directory.parent().unwrap_or(&self.root))
    }

    /// Removes a folder with what is in it. Links are removed, not followed.
    fn remove_tree(&self, folder: &Path) -> Result<()> {
        // Folders are visited before and removed after what they hold.
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.last().cloned() {
            let entries =
                self.storage.read_directory(&folder).map_err(|error| failed("read", &error, &folder))?;
            let inner = entries.iter().find(|entry| entry.kind == FileKind::Directory);
            if let Some(inner) = inner {
                open.push(folder.join(&inner.name));
                continue;
            }
            for entry in &entries {
                self.remove_file(&folder.join(&entry.name))?;
            }
            match self.storage.remove_directory(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &error, &folder));
                }
                _ => open.pop(),
            };
        }
        Ok(())
    }

    fn move_to_trash(&self, located: &Located) -> Result<PathBuf> {
        let trash = self.trash()?;
        let project_folder = located.directory.parent().unwrap_or(&self.root);
        let target = trash.join(project_folder.file_name().unwrap_or_default());
        for folder in [&trash, &target] {
            match self.storage.create_directory(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("make", &error, folder));
                }
                _ => self.sync(folder.parent().unwrap_or(&trash))?,
            }
        }
        let aside = self.vacant_name(&target, located.directory.file_name().unwrap_or_default())?;
        self.storage.rename(&located.directory, &aside).map_err(|error| match error.kind() {
            io::ErrorKind::CrossesDevices => failed("move aside", &error, &located.directory).with_advice(
                "the folder beside the root is on another file system: delete the session instead",
            ),
            _ => failed("move aside", &error, &located.directory),
        })?;
        self.sync(&target)?;
        self.sync(project_folder)?;
        Ok(aside)
    }

    /// The folder beside the root; of the root's own name, however it was written.
    fn trash(&self) -> Result<PathBuf> {
        let root = match self.root.file_name() {
            Some(_) => self.root.clone(),
            None => self
                .storage
                .canonicalize(&self.root)
                .map_err(|error| failed("resolve", &error, &self.root))?,
        };
        let mut name = root.file_name().unwrap_or_default().to_owned();
        name.push(".trash");
        Ok(root.with_file_name(name))
    }

    fn vacant_name(&self, folder: &Path, name: &OsStr) -> Result<PathBuf> {
        for number in 0..TRASH_NAMES_MAX {
            let mut candidate = name.to_owned();
            if number > 0 {
                candidate.push(format!(".{number}"));
            }
            let candidate = folder.join(candidate);
            match self.storage.metadata(&candidate) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(candidate),
                Err(error) => return Err(failed("look at", &error, &candidate)),
                Ok(_) => {}
            }
        }
        let message = format!("{TRASH_NAMES_MAX} removed sessions of this name lie there already");
        Err(Error::new(Code::SessionConflict, message).with_path(folder).with_advice("empty the trash"))
    }

    fn names_in(&self, folder: &Path) -> Result<Vec<std::ffi::OsString>> {
        let entries = self.storage.read_directory(folder).map_err(|error| failed("read", &error, folder))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        match self.storage.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &error, path)),
            _ => Ok(()),
        }
    }

    fn sync(&self, folder: &Path) -> Result<()> {
        self.storage.sync_directory(folder).map_err(|error| failed("sync", &error, folder))
    }
}

fn failed(doing: &str, error: &io::Error, path: &Path) -> Error {
    Error::io(doing, error).with_path(path)
}

fn is_generation(name: &OsStr) -> bool {
    names::parse_any(name).is_some()
}
