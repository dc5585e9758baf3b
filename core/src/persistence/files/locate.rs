//! From an id to its log file, and from a root to all of them (`format.md` 1.5 to 1.7).

use super::{FileSettings, Shared};
use crate::error::{At, Code, Error, Result};
use crate::format::header::{FORMAT_VERSION, SessionHeader};
use crate::format::log_file::{OpenedLog, open_log};
use crate::format::names::{self, Encoding, Selection};
use crate::format::raw_rows::RawLog;
use crate::storage::{DirectoryEntry, FileKind, OpenHow};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The generation that counts in one session folder.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) directory: PathBuf,
    pub(super) path: PathBuf,
    pub(super) version: u64,
    pub(super) encoding: Encoding,
}

impl Shared {
    /// The project folders of the root, in name order; none if the root does not exist.
    pub(super) fn projects(&self) -> Result<Vec<PathBuf>> {
        let entries = match self.storage.read_directory(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read the root", &error).with_path(&self.root)),
        };
        Ok(sorted_directories(&self.root, &entries))
    }

    /// The log of a session; `None` if no project holds one.
    pub(super) fn find(&self, id: &str) -> Result<Option<Located>> {
        let name = names::session_directory(id).map_err(|fault| {
            Error::new(Code::InvalidArgument, format!("the session id cannot be used: {fault}"))
        })?;
        let projects = self.projects()?;
        let mut found: Vec<Located> = Vec::new();
        for project in &projects {
            let directory = project.join(&name);
            match self.storage.read_directory(&directory) {
                Ok(entries) => found.extend(select(&directory, &entries).map_err(|e| e.with_session_id(id))?),
                Err(error) if is_absence(&error) => {}
                Err(error) => {
                    return Err(Error::io("read the session folder", &error)
                        .with_path(directory)
                        .with_session_id(id));
                }
            }
        }
        match found.len() {
            0 => self.refuse_flat_layout(id, &name, &projects).map(|()| None),
            1 => Ok(found.pop()),
            _ => Err(two_projects(id, found.iter().map(|located| located.directory.clone()).collect())),
        }
    }

    /// A log of the obsolete flat layout is named instead of being reported as absent.
    fn refuse_flat_layout(&self, id: &str, name: &str, projects: &[PathBuf]) -> Result<()> {
        for project in projects {
            for encoding in [Encoding::None, Encoding::Zstd] {
                let path = project.join(format!("{name}{}", encoding.extension()));
                if self.storage.metadata(&path).is_ok() {
                    return Err(flat_layout(path).with_session_id(id));
                }
            }
        }
        Ok(())
    }

    /// Fails if a new session cannot have this id: it is taken, or names the folder of another one.
    pub(super) fn refuse_existing(&self, id: &str) -> Result<()> {
        match self.find(id) {
            Ok(None) => Ok(()),
            Ok(Some(there)) => {
                self.refuse_twin(&there, id)?;
                Err(super::already_exists(id))
            }
            // Whatever is wrong with it, the id is taken.
            Err(error) if matches!(error.code(), Code::SessionConflict | Code::FormatUnsupported) => {
                Err(super::already_exists(id))
            }
            Err(error) => Err(error),
        }
    }

    /// The names in a folder of the root; none if it is gone. Any other failure is one: what was not seen decides what is written.
    fn entries(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        match self.storage.read_directory(directory) {
            Err(error) if is_absence(&error) => Ok(Vec::new()),
            read => read.map_err(|error| Error::io("read a folder", &error).with_path(directory)),
        }
    }

    /// Fails if what was found for an id is the log of another one whose name is the same but for case, on a file system that ignores
    /// it. Whatever else is wrong with that log is no matter of this id.
    pub(super) fn refuse_twin(&self, there: &Located, id: &str) -> Result<()> {
        match self.open_located(there, Some(id), OpenHow::Read) {
            Err(error) if error.code() == Code::SessionConflict => Err(error),
            _ => Ok(()),
        }
    }

    /// The encoding of the first log in name order, with its path.
    pub(super) fn first_encoding_in_root(&self) -> Result<Option<(Encoding, PathBuf)>> {
        for project in self.projects()? {
            for directory in sorted_directories(&project, &self.entries(&project)?) {
                let entries = self.entries(&directory)?;
                let mut names: Vec<_> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
                names.sort_unstable();
                let mut generations =
                    names.iter().filter_map(|name| Some((names::parse_any(name)?.1, *name)));
                if let Some((encoding, name)) = generations.next() {
                    return Ok(Some((encoding, directory.join(name))));
                }
            }
        }
        Ok(None)
    }

    /// Opens the file of a located generation and checks that header and place agree. `id`: the one asked for.
    pub(super) fn open_located(
        &self,
        located: &Located,
        id: Option<&str>,
        how: OpenHow,
    ) -> Result<OpenedLog> {
        let named = |error: Error| match id {
            Some(id) => error.with_path(&located.path).with_session_id(id),
            None => error.with_path(&located.path),
        };
        if located.version > u64::from(FORMAT_VERSION) {
            return Err(named(future(located.version)));
        }
        let file = self
            .storage
            .open(&located.path, how)
            .map_err(|error| named(Error::io("open the log", &error)))?;
        let FileSettings { limits, vocabulary, .. } = &self.settings;
        let opened = open_log(file, located.version, located.encoding, *limits, vocabulary).map_err(named)?;
        self.check_identity(located, &opened.header.header, id).map_err(named)?;
        Ok(opened)
    }

    /// The generation that counts for an id, opened without a look at its header: of any version, damaged or not.
    pub(super) fn raw_log(&self, id: &str) -> Result<Option<RawLog>> {
        if self.pending(id).is_some() {
            return Ok(None);
        }
        let located = self.find(id)?.ok_or_else(|| super::log::not_found(id))?;
        let named = |error: Error| error.with_path(&located.path).with_session_id(id);
        let file = self.storage.open(&located.path, OpenHow::Read);
        let file = file.map_err(|error| named(Error::io("open the log", &error)))?;
        let Located { path, version, encoding, .. } = located.clone();
        RawLog::new(path, version, encoding, file, self.settings.limits).map(Some).map_err(named)
    }

    /// `format.md` 1.7: the header leads to this very file.
    fn check_identity(&self, located: &Located, header: &SessionHeader, id: Option<&str>) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(Code::SessionCorrupt, what).with_at(At::Identity).with_salvageable(0).with_advice(
                "the folder was probably copied or renamed: give it back its place, or move it out of the root",
            ))
        };
        let names = (names::project_directory(header.cwd.as_deref()), names::session_directory(&header.id));
        let (Ok(project), Ok(session)) = names else {
            return wrong("the header's id or cwd cannot name a folder".to_owned());
        };
        let file = located.path.file_name().unwrap_or_default();
        let derived = self.root.join(project).join(session).join(file);
        let is_its_place = derived == located.path || self.is_same_place(&derived, &located.path);
        if let Some(id) = id.filter(|id| *id != header.id) {
            if is_its_place && names::are_case_twins(id, &header.id) {
                return Err(case_twins(id, &header.id).with_path(&located.directory));
            }
            return wrong(format!("the folder is that of session {id}, the header in it says {}", header.id));
        }
        if is_its_place {
            return Ok(());
        }
        wrong(format!("the header's id and cwd belong to {}", derived.display()))
    }

    fn is_same_place(&self, one: &Path, other: &Path) -> bool {
        let resolve = |path| self.storage.canonicalize(path).ok();
        resolve(one).is_some_and(|one| resolve(other) == Some(one))
    }
}

fn case_twins(id: &str, other: &str) -> Error {
    let message = format!(
        "session {id} cannot be told from session {other} here: the file system ignores the case of names"
    );
    Error::new(Code::SessionConflict, message)
        .with_at(At::Identity)
        .with_session_id(id)
        .with_advice("choose an id that differs in more than case, or keep the root on a file system that tells case apart")
}

fn future(version: u64) -> Error {
    let message =
        format!("the log is of format version {version}, this library knows versions up to {FORMAT_VERSION}");
    Error::new(Code::FormatUnsupported, message).with_version(version.to_string())
}

pub(super) fn flat_layout(path: PathBuf) -> Error {
    Error::new(Code::FormatUnsupported, "a log of the obsolete flat layout")
        .with_path(path)
        .with_advice("move the file out of the root, or let the program that wrote it convert it")
}

pub(super) fn two_projects(id: &str, paths: Vec<PathBuf>) -> Error {
    let mut error =
        Error::new(Code::SessionConflict, format!("session {id} is in {} project folders", paths.len()));
    if let Some(first) = paths.first() {
        error = error.with_path(first);
    }
    error.with_session_id(id).with_paths(paths)
}

/// The generation that counts among the names of one session folder; `None` if there is none.
pub(super) fn select(directory: &Path, entries: &[DirectoryEntry]) -> Result<Option<Located>> {
    let names = || entries.iter().map(|entry| entry.name.as_os_str());
    let one = |encoding| match names::select(names(), encoding) {
        Selection::Selected { version, .. } => {
            let path = directory.join(names::generation_file_name(version, encoding));
            Some(Located { directory: directory.to_owned(), path, version, encoding })
        }
        Selection::Absent | Selection::EncodingConflict { .. } => None,
    };
    let has = |encoding| {
        names().filter_map(OsStr::to_str).any(|name| names::parse_generation(name, encoding).is_some())
    };
    if has(Encoding::None) && has(Encoding::Zstd) {
        let mut paths: Vec<_> = names()
            .filter(|name| name.to_str().is_some_and(|name| names::parse_any(name).is_some()))
            .map(|name| directory.join(name))
            .collect();
        paths.sort();
        let message = "raw and compressed generations stand side by side, and one of them is out of date";
        let error = Error::new(Code::SessionConflict, message).with_path(directory).with_paths(paths);
        return Err(error);
    }
    Ok(one(Encoding::Zstd).or_else(|| one(Encoding::None)))
}

pub(super) fn sorted_directories(parent: &Path, entries: &[DirectoryEntry]) -> Vec<PathBuf> {
    let mut directories: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind == FileKind::Directory)
        .map(|entry| parent.join(&entry.name))
        .collect();
    directories.sort();
    directories
}

/// Not there, or a name that no file can have.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}
