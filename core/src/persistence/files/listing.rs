//! Snapshots: one session, or all of a root with everything that is wrong in it (`format.md` 6.8, `design.md` 5).

use super::Shared;
use super::locate::{self, Located};
use crate::cancel::CancelToken;
use crate::error::{At, Code, Error, Result};
use crate::format::header::FORMAT_VERSION;
use crate::format::log_file::RETIRED_FIELD;
use crate::format::names;
use crate::persistence::contract::{FormatStatus, ListMode, Listing, Problem, Revision, Snapshot};
use crate::storage::{FileKind, FileMetadata, OpenHow};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The token of a stored log (`format.md` 6.8).
///
/// ```
/// use dsh_session_core::persistence::files::revision;
/// # use dsh_session_core::storage::{FileKind, FileMetadata};
/// # let metadata = FileMetadata { kind: FileKind::File, device: 1, inode: 2, size: 3, modified_ns: 4, changed_ns: 5 };
/// assert_eq!(revision(&metadata).as_str(), "1:2:3:4:5");
/// ```
#[must_use]
pub fn revision(metadata: &FileMetadata) -> Revision {
    let FileMetadata { device, inode, size, modified_ns, changed_ns, .. } = metadata;
    Revision(format!("{device}:{inode}:{size}:{modified_ns}:{changed_ns}"))
}

impl Shared {
    pub(super) fn stat(&self, id: &str) -> Result<Option<Snapshot>> {
        if let Some(pending) = self.pending(id) {
            return Ok(Some(pending));
        }
        let Some(located) = self.find(id)? else { return Ok(None) };
        self.snapshot(&located, Some(id)).map(Some)
    }

    fn snapshot(&self, located: &Located, id: Option<&str>) -> Result<Snapshot> {
        let opened = self.open_located(located, id, OpenHow::Read)?;
        let is_current = located.version == u64::from(FORMAT_VERSION);
        let status = if is_current { FormatStatus::Current } else { FormatStatus::MigrationRequired };
        Ok(Snapshot {
            header: opened.header.header,
            format_status: Some(status),
            revision: revision(&opened.metadata),
            event_count: None,
            size_bytes: Some(opened.metadata.size),
            path: Some(located.path.clone()),
        })
    }

    pub(super) fn list(&self, mode: ListMode, cancel: &CancelToken) -> Result<Listing> {
        // Taken before the walk, so that a session which materializes meanwhile is not missed.
        let pending: Vec<Snapshot> = self.state().pending.values().cloned().collect();
        let mut listing = self.walk(cancel)?;
        split_duplicates(&mut listing);
        if mode == ListMode::Strict {
            listing = strictly(listing)?;
        }
        let stored: HashMap<&str, ()> =
            listing.sessions.iter().map(|one| (one.header.id.as_str(), ())).collect();
        let missing: Vec<_> =
            pending.into_iter().filter(|one| !stored.contains_key(one.header.id.as_str())).collect();
        listing.sessions.extend(missing);
        Ok(listing)
    }

    fn walk(&self, cancel: &CancelToken) -> Result<Listing> {
        let mut listing = Listing::default();
        for project in self.projects()? {
            let entries = match self.storage.read_directory(&project) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    listing.problems.push(problem(&project, Error::io("read the project folder", &error)));
                    continue;
                }
            };
            for entry in &entries {
                let path = project.join(&entry.name);
                let is_flat =
                    entry.kind == FileKind::File && entry.name.to_str().is_some_and(names::is_flat_layout);
                if is_flat {
                    listing.problems.push(problem(&path, locate::flat_layout(path.clone())));
                }
                if entry.kind == FileKind::Directory {
                    cancel.check()?;
                    self.visit(&path, &mut listing);
                }
            }
        }
        Ok(listing)
    }

    /// Whether the folder still names the log.
    fn is_named(&self, located: &Located) -> bool {
        let name = located.path.file_name();
        let entries = self.storage.read_directory(&located.directory);
        entries.is_ok_and(|entries| entries.iter().any(|entry| Some(entry.name.as_os_str()) == name))
    }

    fn visit(&self, directory: &Path, listing: &mut Listing) {
        let entries = match self.storage.read_directory(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                listing.problems.push(problem(directory, Error::io("read the session folder", &error)));
                return;
            }
        };
        match locate::select(directory, &entries) {
            Ok(None) => {}
            Ok(Some(located)) => match self.snapshot(&located, None) {
                Ok(snapshot) => listing.sessions.push(snapshot),
                // Gone between the walk and the open; a link that leads nowhere is not gone.
                Err(error) if is_not_found(&error) && !self.is_named(&located) => {}
                Err(error) => listing.problems.push(problem(&located.path, error)),
            },
            Err(error) => listing.problems.push(problem(directory, error)),
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    error.os() == Some(rustix::io::Errno::NOENT.raw_os_error())
}

fn problem(path: &Path, error: Error) -> Problem {
    let id = error.session_id().map(str::to_owned).or_else(|| id_of_folder(path));
    Problem { path: path.to_owned(), id, error: error.with_path(path) }
}

/// The id that a session folder's name stands for, where the name is the id itself; a guess for people, never used to open.
fn id_of_folder(path: &Path) -> Option<String> {
    let is_generation =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|n| names::parse_any(n).is_some());
    let folder = if is_generation { path.parent()? } else { path };
    let name = folder.file_name()?.to_str()?;
    // A log of the flat layout is named by its file.
    let name = name.strip_suffix(".zstd").unwrap_or(name);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    (!name.contains('~') && names::session_directory(name).as_deref() == Ok(name)).then(|| name.to_owned())
}

/// Sessions of one id in several projects are problems, all of them: nothing tells which one is right.
fn split_duplicates(listing: &mut Listing) {
    let mut places: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for session in &listing.sessions {
        let directory = session.path.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        places.entry(session.header.id.clone()).or_default().push(directory);
    }
    places.retain(|_, directories| directories.len() > 1);
    if places.is_empty() {
        return;
    }
    listing.sessions.retain(|session| !places.contains_key(&session.header.id));
    for (id, mut directories) in places {
        directories.sort();
        for directory in &directories {
            let error = locate::two_projects(&id, directories.clone());
            listing.problems.push(Problem { path: directory.clone(), id: Some(id.clone()), error });
        }
    }
}

/// What the reference does with each finding: passes over damage and versions, fails the listing for the rest.
fn strictly(listing: Listing) -> Result<Listing> {
    let mut problems = listing.problems;
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    for problem in problems {
        let is_retired = problem.error.rule() == Some(RETIRED_FIELD);
        let is_passed_over = match problem.error.code() {
            Code::SessionCorrupt => problem.error.at() != Some(At::Identity) && !is_retired,
            Code::FormatUnsupported => !is_version_mismatch(&problem),
            _ => false,
        };
        if !is_passed_over {
            return Err(problem.error);
        }
    }
    Ok(Listing { sessions: listing.sessions, problems: Vec::new() })
}

/// A header whose version is not that of its file name, or a file of the flat layout.
fn is_version_mismatch(problem: &Problem) -> bool {
    let name = problem.path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    match names::parse_any(name) {
        Some((version, _)) => problem.error.version() != Some(version.to_string().as_str()),
        None => true,
    }
}
