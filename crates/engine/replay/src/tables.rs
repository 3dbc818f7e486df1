//! What the other server calls what the source's calls are about.

use hashbrown::{HashMap, HashSet};
use lineside_nfs::v4::StateId;

use crate::call::FileId;
use crate::own::{OwnValue, Shown};

/// Why a call cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// The trace lacks arguments of it.
    #[error("the trace lacks arguments of it")]
    Arguments,
    /// The server has no name for what it is about.
    #[error("the server has no handle for what it is about")]
    Handle,
    /// It compares a value of the source's server that no reply showed.
    #[error("it compares a value of the server that no reply showed")]
    Value,
    /// It is not one that is made here.
    #[error("calls of this kind are not made")]
    Kind,
}

/// How far a client has read a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) cookie: u64,
    pub(crate) verifier: [u8; 8],
}

/// Translations. Each has an entry for a file, a directory that is read, or a state in use.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    handles: HashMap<FileId, Box<[u8]>>,
    /// Of directories that `..` does not lead out of.
    roots: HashSet<Box<[u8]>>,
    positions: HashMap<(u32, FileId), Position>,
    /// Change times, of files whose SETATTR is guarded by one.
    changed: HashMap<FileId, (u32, u32)>,
    states: HashMap<(u32, [u8; 12]), StateId>,
    /// The last OPEN of a file that is open, by client.
    opened: HashMap<(u32, FileId), StateId>,
    /// Values of attributes that calls compare, in the place of the source's.
    own: HashMap<Shown, OwnValue>,
}

impl Tables {
    /// The handle of a file.
    pub(crate) fn handle(&self, file: Option<FileId>) -> Result<&[u8], Lack> {
        let file = file.ok_or(Lack::Arguments)?;
        self.handles.get(&file).map(|it| &**it).ok_or(Lack::Handle)
    }

    pub(crate) fn set_handle(&mut self, file: FileId, handle: &[u8]) {
        if self
            .handles
            .get(&file)
            .is_none_or(|known| **known != *handle)
        {
            self.handles.insert(file, handle.into());
        }
    }

    pub(crate) fn set_root(&mut self, handle: &[u8]) {
        self.roots.insert(handle.into());
    }

    /// The handle of a directory that `..` does not lead out of.
    pub(crate) fn root(&self, file: Option<FileId>) -> Option<&[u8]> {
        let known = self.handles.get(&file?)?;
        self.roots.contains(known).then_some(known)
    }

    /// Where a client goes on reading a directory; `None`: it has not begun.
    pub(crate) fn position(&self, client: u32, directory: FileId) -> Option<Position> {
        self.positions.get(&(client, directory)).copied()
    }

    pub(crate) fn set_position(&mut self, client: u32, directory: FileId, position: Position) {
        self.positions.insert((client, directory), position);
    }

    /// When a file changed, as the server has it.
    pub(crate) fn changed(&self, file: Option<FileId>) -> Option<(u32, u32)> {
        file.and_then(|file| self.changed.get(&file)).copied()
    }

    pub(crate) fn set_changed(&mut self, file: FileId, time: (u32, u32)) {
        self.changed.insert(file, time);
    }

    /// What the server showed where the source's showed a value.
    pub(crate) fn own(&self, source: Shown) -> Option<OwnValue> {
        self.own.get(&source).copied()
    }

    pub(crate) fn set_own(&mut self, source: Shown, value: OwnValue) {
        self.own.insert(source, value);
    }

    /// The server's state for one of the source's.
    pub(crate) fn state(&self, client: u32, source: [u8; 12]) -> Option<StateId> {
        self.states.get(&(client, source)).copied()
    }

    pub(crate) fn set_state(&mut self, client: u32, source: [u8; 12], state: StateId) {
        self.states.insert((client, source), state);
    }

    /// The state that a client has opened a file with.
    pub(crate) fn opened(&self, client: u32, file: FileId) -> Option<StateId> {
        self.opened.get(&(client, file)).copied()
    }

    pub(crate) fn set_opened(&mut self, client: u32, file: FileId, state: Option<StateId>) {
        match state {
            Some(state) => self.opened.insert((client, file), state),
            None => self.opened.remove(&(client, file)),
        };
    }

    pub(crate) fn forget_state(&mut self, client: u32, source: [u8; 12]) {
        self.states.remove(&(client, source));
    }
}
