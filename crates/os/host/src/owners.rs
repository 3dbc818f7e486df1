//! A process that gives what is in one folder to others, and can do nothing else, beside a process
//! that makes these files from foreign bytes and has dropped its privileges.
//!
//! ```text
//!  maker, without privileges ── user, group, path ──► process of root
//!                            ◄── whether it was given ──
//! ```
//!
//! * A path is below the folder, step by step, and no link is followed: a link itself is given.
//! * Where the kernel has no Landlock, the maker could have linked any file into the folder: what
//!   has several names is not given there.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, chownat, fstat, openat};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Gid, Uid};

use crate::give_back::{beside, receive};
use crate::place::Place;
use crate::privileges::{Capability, keep_capabilities};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::serve_alone;

/// What gives files away and finds them.
const KEPT: [Capability; 2] = [Capability::Chown, Capability::DacReadSearch];

/// Two numbers, and a path.
const REQUEST_LEN: usize = 8 + PATH_LEN;
const PATH_LEN: usize = 64 << 10;

/// What the kernel takes for "as it is".
const AS_IT_IS: u32 = u32::MAX;

/// The process of root.
#[derive(Debug)]
pub struct Owners(OwnedFd);

impl Owners {
    /// Starts it, for what is in this folder. To be called before there is another thread.
    pub fn start(place: &Place) -> io::Result<Self> {
        let place = place.clone();
        beside(move |socket| serve(socket, &place)).map(Self)
    }

    /// Gives what has this path, below the folder, to a user and a group. Whether that was done.
    pub fn give(&self, path: &[u8], user: Option<u32>, group: Option<u32>) -> bool {
        let is_number = |number: Option<u32>| number != Some(AS_IT_IS);
        if path.len() > PATH_LEN || !is_number(user) || !is_number(group) {
            return false;
        }
        let number = |number: Option<u32>| number.unwrap_or(AS_IT_IS).to_ne_bytes();
        let request = [&number(user)[..], &number(group), path].concat();
        let is_sent = send(&self.0, &request, SendFlags::NOSIGNAL).is_ok();
        let mut answer = [0];
        is_sent && receive(&self.0, &mut answer).is_some() && answer == [1]
    }
}

fn serve(socket: &OwnedFd, place: &Place) -> io::Result<()> {
    serve_alone(&[socket.as_fd(), place.file().as_fd()])?;
    keep_capabilities(&KEPT).map_err(io::Error::other)?;
    let confined = Sandbox::new().may_give_files().enter();
    let confined = confined.map_err(io::Error::other)?;
    let takes_links = confined.shortfall().is_none();
    let mut request = vec![0; REQUEST_LEN];
    while let Some(len) = receive(socket, &mut request) {
        let done = give(place, &request[..len], takes_links);
        send(socket, &[u8::from(done.is_ok())], SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

fn give(place: &Place, request: &[u8], takes_links: bool) -> Result<(), Errno> {
    let (user, rest) = request.split_first_chunk().ok_or(Errno::INVAL)?;
    let (group, path) = rest.split_first_chunk().ok_or(Errno::INVAL)?;
    let number = |bytes: &[u8; 4]| {
        let number = u32::from_ne_bytes(*bytes);
        (number != AS_IT_IS).then_some(number)
    };
    let found = find(place, path)?;
    let facts = fstat(&found)?;
    let is_folder = FileType::from_raw_mode(facts.st_mode).is_dir();
    if facts.st_nlink > 1 && !is_folder && !takes_links {
        return Err(Errno::PERM);
    }
    let (user, group) = (
        number(user).map(Uid::from_raw),
        number(group).map(Gid::from_raw),
    );
    let itself = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    chownat(&found, "", user, group, itself)
}

fn find(place: &Place, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(place.file(), ".", flags, Mode::empty())?;
    if path.is_empty() {
        return Ok(at);
    }
    for step in path.split(|&byte| byte == b'/') {
        if matches!(step, b"" | b"." | b"..") {
            return Err(Errno::INVAL);
        }
        // A link on the way is no folder: nothing is found in it.
        at = openat(&at, OsStr::from_bytes(step), flags, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "folders of tests are this process's own"
)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn what_is_in_the_folder_is_given_and_nothing_beside() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().join("top");
        fs::create_dir(folder.path().join("beside")).expect("made");
        fs::write(folder.path().join("beside/file"), "").expect("written");
        let (place, _) = Place::make(&top).expect("a folder");
        fs::create_dir(top.join("in")).expect("made");
        fs::write(top.join("in/file"), "").expect("written");
        symlink("../beside", top.join("out")).expect("linked");
        let owner = |path: &str| {
            let facts = fs::symlink_metadata(folder.path().join(path)).expect("it is there");
            (facts.uid(), facts.gid())
        };
        let before = owner("beside");
        let request =
            |path: &str| [&7_u32.to_ne_bytes(), &8_u32.to_ne_bytes(), path.as_bytes()].concat();
        for path in [
            "out/file",
            "../beside/file",
            "in/../../beside/file",
            "/beside",
            "in//file",
            "in/none",
        ] {
            assert!(give(&place, &request(path), true).is_err(), "{path}");
        }
        assert!(give(&place, b"short", true).is_err());
        if before.0 != 0 {
            println!("SKIP: giving files away needs root");
            return;
        }
        for path in ["in/file", "out", "in", ""] {
            give(&place, &request(path), true).expect("given");
        }
        let given = ["top/in/file", "top/out", "top/in", "top"].map(owner);
        assert_eq!(given, [(7, 8); 4]);
        assert_eq!([owner("beside"), owner("beside/file")], [before; 2]);
        fs::hard_link(folder.path().join("beside/file"), top.join("in/again")).expect("linked");
        assert!(give(&place, &request("in/again"), false).is_err());
    }
}
