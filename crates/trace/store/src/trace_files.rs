//! The files of a trace in a folder, by their names, how they go, and when.

use std::path::PathBuf;

use lineside_host::{FolderError, Place, temporary_name};
use rustix::fs::{AtFlags, unlinkat};

use crate::part_index::part_indexes;
use crate::room::{MANIFEST, ROOM};

/// Where a run keeps what the next one takes over: written in turns, so that one is whole.
pub const STATES: [&str; 2] = ["state.0", "state.1"];
/// The socket of [`Control`](crate::Control).
pub(crate) const CONTROL: &str = "control";

/// What a folder holds whose names are those of a trace.
#[derive(Debug)]
pub struct TraceFiles {
    /// The folder.
    pub place: Place,
    /// The tables' folders.
    pub folders: Vec<String>,
    /// Complete parts, and their tables.
    pub parts: Vec<(String, String)>,
    /// What an interruption leaves: the beginnings of parts, with their tables, and a socket.
    pub(crate) rests: Vec<(Option<String>, String)>,
    /// Folders of such names, which go with what is in them.
    hidden: Vec<String>,
}

/// Judges whether `trace.json`, folders and parts are a trace that lineside wrote, and returns the
/// first that is not. What is in files is not known here.
pub type IsTrace = fn(&TraceFiles) -> Result<(), PathBuf>;

impl TraceFiles {
    pub(crate) fn none(place: &Place) -> Self {
        Self {
            place: place.clone(),
            folders: Vec::new(),
            parts: Vec::new(),
            rests: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// What is in a folder that holds a trace, or nothing; an error if anything else is in it.
    pub(crate) fn of(place: &Place, is_trace: IsTrace) -> Result<Self, FolderError> {
        let foreign = |path| FolderError::Foreign { path };
        let mut files = Self::none(place);
        let entries = place.entries()?;
        let has_folder = |name: &str| { entries.iter() }.any(|it| it.is_folder && it.name == name);
        let mut has_manifest = false;
        for entry in &entries {
            let name = &entry.name;
            if entry.is_folder {
                let folder = place.child(name)?;
                for part in folder.entries()? {
                    match is_part(&part.name).filter(|_| part.is_file) {
                        Some(true) => files.parts.push((name.clone(), part.name)),
                        Some(false) => files.rests.push((Some(name.clone()), part.name)),
                        None => return Err(foreign(folder.path().join(part.name))),
                    }
                }
                // A folder that was about to be exchanged for a table's, or was.
                let table = { name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".tmp"));
                match table {
                    Some(table) if has_folder(table) => files.hidden.push(name.clone()),
                    Some(_) => return Err(foreign(folder.path().to_owned())),
                    None => files.folders.push(name.clone()),
                }
            } else if name == MANIFEST && entry.is_file {
                has_manifest = true;
            } else if (*name == temporary_name(MANIFEST) || name == ROOM) && entry.is_file
                || name == CONTROL && entry.is_socket
                || is_state(name) && entry.is_file
            {
                files.rests.push((None, name.clone()));
            } else {
                return Err(foreign(place.path().join(name)));
            }
        }
        match entries.is_empty() {
            true => Ok(files),
            false if !has_manifest => Err(foreign(place.path().to_owned())),
            false => is_trace(&files).map(|()| files).map_err(foreign),
        }
    }

    /// Removes these files but for `trace.json`, which the next one replaces: what an interruption
    /// leaves can still be recognised as a trace.
    pub(crate) fn remove(self) -> Result<(), FolderError> {
        let parts = self
            .parts
            .into_iter()
            .map(|(table, part)| (Some(table), part));
        for (table, name) in parts.chain(self.rests) {
            match table {
                None => self.place.remove(&name)?,
                Some(table) => self.place.child(table)?.remove(&name)?,
            }
        }
        self.hidden
            .iter()
            .try_for_each(|folder| self.place.remove_folder(folder))
    }
}

/// Whether a part is complete; `None` if a name is not a part's.
fn is_part(name: &str) -> Option<bool> {
    let temporary = { name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".tmp"));
    part_indexes(temporary.unwrap_or(name)).map(|_| temporary.is_none())
}

/// Whether a file is what a run keeps for the next one, or is to become that.
pub(crate) fn is_state(name: &str) -> bool {
    let mut states = STATES.iter();
    states.any(|state| name == *state || name == temporary_name(state))
}

/// What a run has to do with its folder until it starts.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// What is in it, and goes at the start; `None` from then on.
    pub(crate) replaced: Option<TraceFiles>,
    /// The [states](STATES) are to get their names then.
    pub(crate) has_states: bool,
}

impl Before {
    /// In a folder that holds this; `None`: nothing.
    pub(crate) fn of(replaced: Option<TraceFiles>) -> Self {
        Self {
            replaced,
            has_states: false,
        }
    }

    /// The run is over: what it never gave a name goes.
    pub(crate) fn end(&self, place: &Place) {
        for name in STATES.iter().filter(|_| self.has_states) {
            let name = temporary_name(name);
            let _ = unlinkat(place.file(), name, AtFlags::empty());
        }
    }
}
