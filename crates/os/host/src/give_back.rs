//! Folders that go back to their owner when the run that writes them is over, however it ends.
//!
//! The run itself may not do that: root that became `nobody` cannot give a file away. So a process
//! that keeps root's rights waits beside it. It reads nothing of what is captured, only names of
//! folders of runs beside its own, and the end of a socket, which comes when the run closes it or
//! is killed. Its sandbox lets it give away what it can open in these folders, and remove what is
//! empty.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::giving::Giving;
use crate::place::Place;
use crate::privileges::{Capability, is_stand_in, keep_capabilities, refuse_threads};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::{fork, serve_alone, wait_for};

/// Bytes of a name (NAME_MAX).
const NAME_LEN: usize = 255;

/// What a process that stays root needs to give files away and to remove folders, or to make files.
pub(crate) const KEPT: [Capability; 3] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
];

/// The process that waits. Dropping this lets it do its work, and waits for it.
#[derive(Debug)]
pub struct GiveBack(Option<OwnedFd>);

impl GiveBack {
    /// What belongs to one user in the folder then is given to another; a folder that `is_new` and
    /// empty goes. With `is_of_runs` the folder is one of several in a folder of runs, which may be
    /// lent too. To be called before there is another thread.
    pub fn start(
        place: &Place,
        giving: Option<Giving>,
        (is_new, is_of_runs): (bool, bool),
    ) -> io::Result<Self> {
        let (place, parent) = (place.clone(), place.parent().map_err(io::Error::other)?);
        let socket = beside(move |socket| {
            let kept = [socket.as_fd(), place.file().as_fd(), place.above_it()];
            serve_alone(&[&kept[..], &[parent.file().as_fd()]].concat())?;
            let kept = if giving.is_some() { &KEPT[..] } else { &[] };
            keep_capabilities(kept).map_err(io::Error::other)?;
            let beside = lent(giving).filter(|_| is_of_runs);
            sandbox(&place, &parent, (giving, beside))
                .enter()
                .map_err(io::Error::other)?;
            let mut names = Vec::new();
            let mut name = [0; NAME_LEN];
            while let Some(len @ 1..) = receive(socket, &mut name) {
                names.push(OsStr::from_bytes(&name[..len]).to_owned());
            }
            if let Some(giving) = giving {
                place.remove_half_merged();
                let _ = place.give(giving);
            }
            if is_new {
                place.remove_if_empty();
            }
            // The run may send any name, once it has read foreign bytes.
            if let Some(giving) = beside {
                for name in &names {
                    let _ = parent.child(name).and_then(|folder| folder.give(giving));
                }
            }
            Ok(())
        })?;
        Ok(Self(Some(socket)))
    }

    /// The same of a folder beside it.
    pub fn add(&self, name: &OsStr) {
        let name = name.as_bytes();
        if let Some(socket) = self.0.as_ref().filter(|_| !name.contains(&b'/')) {
            // Where nobody listens, it keeps the owner that it has then.
            let _ = send(socket, name, SendFlags::NOSIGNAL);
        }
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let Some(socket) = self.0.take() else { return };
        // If it was killed, the folder keeps its owner.
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Write);
        while let Some(1..) = receive(&socket, &mut [0]) {}
    }
}

/// What the process may do: of the folders beside the run's only where those are lent too.
fn sandbox(
    place: &Place,
    parent: &Place,
    (giving, beside): (Option<Giving>, Option<Giving>),
) -> Sandbox {
    let mut sandbox = Sandbox::new().may_remove_folders_in(parent);
    if giving.is_some() {
        sandbox = { sandbox.may_give_files().may_read_in(place) }
            .may_remove_files_in(place)
            .may_remove_folders_in(place);
    }
    match beside {
        Some(_) => sandbox.may_read_in(parent),
        None => sandbox,
    }
}

/// The giving, if it is of what was lent: nothing else of folders beside is given away.
fn lent(giving: Option<Giving>) -> Option<Giving> {
    giving.filter(|giving| giving.from.is_some_and(|from| is_stand_in(from.as_raw())))
}

/// Starts a process that does `work` with its end of a socket. It is nobody's child: whoever ends
/// all programs that it started does not end this one, and the end of the process is that of the
/// socket.
pub(crate) fn beside(work: impl FnOnce(&OwnedFd) -> io::Result<()>) -> io::Result<OwnedFd> {
    refuse_threads().map_err(io::Error::other)?;
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, its) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    let between = fork(|| fork(|| work(&its)).map(drop))?;
    match wait_for(between) {
        Some(0) => Ok(ours),
        _ => Err(io::Error::other("no process can be started")),
    }
}

/// Bytes of the next message; `None` at the end.
pub(crate) fn receive(socket: &OwnedFd, message: &mut [u8]) -> Option<usize> {
    loop {
        match recv(socket, &mut *message, RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((0, _)) | Err(_) => return None,
            Ok((len, _)) => return Some(len),
        }
    }
}
