//! The closed list of error codes, and the one place from which the C header, the Python module and the
//! documentation get theirs.

/// The group a code belongs to (`design.md` 6); it decides which part of the library can raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The call itself was wrong.
    Argument,
    /// Any part of the library.
    General,
    /// Files, folders and locks.
    Storage,
    /// The rules of a session in memory.
    Session,
    /// Reads of a corpus of sessions.
    Query,
    /// Operations on top of sessions.
    Controller,
}

macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal, $group:ident, $what:literal, $advice:literal;)*) => {
        /// What kind of failure this is.
        ///
        /// A code never changes its name or number; new ones are only added. Numbers are positive here and
        /// negative in C (`DSH_E_…`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $what] $variant = $number,)*
        }

        impl Code {
            /// Every code, in order of number.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The name, the same in every language.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// The group.
            #[must_use]
            pub fn group(self) -> Group {
                match self { $(Code::$variant => Group::$group,)* }
            }

            /// What the code means, in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $what,)* }
            }

            /// What a person can do about it; empty where only the message can tell.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Code::$variant => $advice,)* }
            }
        }
    };
}

codes! {
    InvalidArgument = 1, "INVALID_ARGUMENT", Argument,
        "An argument is not of the form the call takes.",
        "correct the argument and call again";
    NotLosslessJson = 2, "NOT_LOSSLESS_JSON", Argument,
        "A value would not come back equal from its JSON text.",
        "send the number as a string, or one that a double holds exactly";
    Cancelled = 10, "CANCELLED", General,
        "The call was cancelled by its token; nothing of it was done.",
        "call again to do it after all";
    LimitExceeded = 11, "LIMIT_EXCEEDED", General,
        "Something is larger than a setting of the store allows.",
        "raise the limit named here in the store's settings if the content is trusted";
    ForkedProcess = 12, "FORKED_PROCESS", General,
        "A handle was used in a forked child of the process that opened it.",
        "open the store again in the child";
    Several = 13, "SEVERAL", General,
        "Several failures of one call, listed as causes.",
        "look at each of the causes";
    OutOfMemory = 14, "OUT_OF_MEMORY", General,
        "Memory could not be had.",
        "free memory and call again";
    Internal = 15, "INTERNAL", General,
        "The library broke a promise of its own.",
        "report it with this message; the files are not changed by reporting";
    Panic = 16, "PANIC", General,
        "The library stopped in the middle of a call; the handle is unusable.",
        "report it with this message, free the handle and open it again";
    SessionNotFound = 100, "SESSION_NOT_FOUND", Storage,
        "There is no such session.",
        "check the id and the root; `list` shows what is there";
    SessionAlreadyExists = 101, "SESSION_ALREADY_EXISTS", Storage,
        "A session of that id exists, stored or about to be.",
        "choose another id, or open the session";
    SessionAlreadyOwned = 102, "SESSION_ALREADY_OWNED", Storage,
        "Another writer has the session open.",
        "close it there, or open it for reading";
    SessionOwnershipLost = 103, "SESSION_OWNERSHIP_LOST", Storage,
        "The log or its lock changed under the writer; nothing was written.",
        "close this handle and open the session again to go on from what is stored now";
    SessionReadOnly = 104, "SESSION_READ_ONLY", Storage,
        "A read handle was asked to write.",
        "open the session for writing";
    HandleClosed = 105, "HANDLE_CLOSED", Storage,
        "The handle is closed, or closing.",
        "open the session again";
    SessionCorrupt = 106, "SESSION_CORRUPT", Storage,
        "Stored bytes are damaged and cannot be accepted.",
        "nothing was changed; `salvage` gives what is readable before the damage";
    FormatUnsupported = 107, "FORMAT_UNSUPPORTED", Storage,
        "The log is whole, but this build cannot read it faithfully.",
        "use a program that knows this version or type; nothing was changed";
    SessionConflict = 108, "SESSION_CONFLICT", Storage,
        "Files or folders exclude each other.",
        "move all but one of them out of the root; nothing was changed";
    SourceChanged = 109, "SOURCE_CHANGED", Storage,
        "A log changed or shrank while it was being read.",
        "read again from the start";
    Io = 110, "IO", Storage,
        "The operating system refused a call.",
        "the system's own error says why; try again once that is resolved";
    EventRefused = 200, "EVENT_REFUSED", Session,
        "An event breaks the rules of its session; nothing was appended.",
        "correct the event as the reason says";
    SessionRefused = 201, "SESSION_REFUSED", Session,
        "A session, or a call on it, breaks the rules of sessions.",
        "correct the call as the reason says";
    SessionNotLive = 202, "SESSION_NOT_LIVE", Session,
        "The session object is not the one that is live under its id.",
        "ask the store for the session that is live now";
    InvalidBoundary = 203, "INVALID_BOUNDARY", Session,
        "The boundary of a fork is no event of the source.",
        "name an event that exists, from 0 to the last";
    SessionAlreadyEntered = 204, "SESSION_ALREADY_ENTERED", Session,
        "A session enters a store once in its life.",
        "build a new session from the same events";
    AlreadyAnnounced = 205, "ALREADY_ANNOUNCED", Session,
        "The announcement of the session has begun before.",
        "detach the session and build a new one if its announcement failed";
    FlushFailed = 206, "FLUSH_FAILED", Session,
        "A listener could not make the session durable.",
        "look at the cause, resolve it and flush again";
    // The numbers left out here are those of the codes of full-text search (`query.md` 6).
    QueryAborted = 300, "SESSION_QUERY_ABORTED", Query,
        "A query was cancelled by its token; its result was discarded.",
        "ask again";
    QueryCorruptSession = 301, "SESSION_QUERY_CORRUPT_SESSION", Query,
        "A stored log that a query needs is damaged, or breaks the rules of logs.",
        "nothing was changed; `verify` says more, `salvage` gives what is readable before the damage";
    QueryEventNotFound = 302, "SESSION_QUERY_EVENT_NOT_FOUND", Query,
        "The session has no event with this seq.",
        "name a seq from 0 to the last of the log";
    QueryInvalidConfig = 304, "SESSION_QUERY_INVALID_CONFIG", Query,
        "A setting of queries is out of its range.",
        "correct the setting named here and open the store again";
    QueryInvalidFilter = 306, "SESSION_QUERY_INVALID_FILTER", Query,
        "A filter is not of the form that filters have.",
        "correct the clause named here";
    QueryInvalidLineage = 309, "SESSION_QUERY_INVALID_LINEAGE", Query,
        "The chain of parent sessions meets a session twice.",
        "a `parentSession` in one of these headers is wrong; read the sessions one by one";
    QueryInvalidSurface = 310, "SESSION_QUERY_INVALID_SURFACE", Query,
        "An event of the log breaks a rule of the surface.",
        "operations that fold no surface, such as reading an event, still work";
    QueryInvalidWindow = 311, "SESSION_QUERY_INVALID_WINDOW", Query,
        "The number of events before or after is no whole number within the limit.",
        "ask for fewer events, or raise `readWindowMax`";
    QueryPersistenceFailed = 312, "SESSION_QUERY_PERSISTENCE_FAILED", Query,
        "The storage that a query needs failed to list, find, open, read or close.",
        "look at the cause";
    QuerySessionNotFound = 314, "SESSION_QUERY_SESSION_NOT_FOUND", Query,
        "No session of this id is live or stored.",
        "check the id and the root; `list` shows what is there";
    QuerySourceConflict = 316, "SESSION_QUERY_SOURCE_CONFLICT", Query,
        "Two descriptions of one session differ in what never changes.",
        "one of the two carries an id that is not its own; give it another";
    ForkUnavailable = 400, "FORK_UNAVAILABLE", Controller,
        "The source has no place at which it can be forked.",
        "name an event of the source, or wait until a turn has ended";
}

impl Code {
    /// The number, positive and fixed.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The code of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_and_names_are_unique_and_ordered() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number(), "{:?} before {:?}", pair[0], pair[1]);
        }
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.name()), Some(*code));
        }
    }
}
