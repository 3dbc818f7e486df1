//! A process that switches some links off and on, and can do nothing else, beside a run that has
//! dropped its privileges.
//!
//! ```text
//!  run, without privileges ── place, off or on ──► process with CAP_NET_ADMIN alone ─► kernel
//!                          ◄── place, error ──────
//! ```
//!
//! * It is asked for a link by its place in the list with which it began: there is no other.
//! * When the run closes its end, or is killed, the links that are off are switched on again.
//! * It has no file open besides its two sockets, so nothing of the run's outlives the run by it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::process::Pid;

use crate::netlink::Netlink;
use crate::privileges::{Capability, PrivilegeError, keep_only};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::{fork, serve_alone, wait_for};

/// The end of the run.
#[derive(Debug)]
pub struct LinkSwitch {
    socket: Option<OwnedFd>,
    process: Pid,
}

/// Bytes of an answer: the place, and the error of the system call or 0.
const ANSWER_LEN: usize = 5;

impl LinkSwitch {
    /// Starts the process for links with these indexes. To be called before there is another
    /// thread, and before privileges are dropped.
    pub fn start(links: &[u32]) -> Result<Self, PrivilegeError> {
        let failed = |error: io::Error| PrivilegeError::Io {
            action: "start the process that switches links",
            error,
        };
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let pair = socketpair(AddressFamily::UNIX, kind, flags, None);
        let (ours, its) = pair.map_err(|errno| failed(errno.into()))?;
        let keep = keep_only(Capability::NetAdmin);
        let process = fork(|| serve(&its, links, keep)).map_err(failed)?;
        Ok(Self {
            socket: Some(ours),
            process,
        })
    }

    /// Asks for a link of the list to be switched; it is when the kernel has. The error is that
    /// nobody is there to be asked.
    pub fn switch(&self, place: usize, is_on: bool) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        send(socket, &[place as u8, u8::from(is_on)], flags)?;
        Ok(())
    }

    /// The next failure: the place of the link, and the kernel's reason. `None` if there is none
    /// so far.
    pub fn failure(&self) -> Option<(usize, io::Error)> {
        let socket = self.socket.as_ref()?;
        let mut answer = [0; ANSWER_LEN];
        loop {
            let (len, _) = recv(socket, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
            if len < ANSWER_LEN {
                return None;
            }
            let [place, code @ ..] = answer;
            let code = i32::from_ne_bytes(code);
            if code != 0 {
                return Some((usize::from(place), io::Error::from_raw_os_error(code)));
            }
        }
    }
}

impl Drop for LinkSwitch {
    /// Waits until all links are on again.
    fn drop(&mut self) {
        drop(self.socket.take());
        wait_for(self.process);
    }
}

/// The work of the process, until the run has closed its end.
fn serve(socket: &OwnedFd, links: &[u32], keep: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    serve_alone(&[socket.as_fd()])?;
    let netlink = Netlink::open()?;
    keep()?;
    // The run may send anything, once it has read foreign bytes.
    Sandbox::new().enter().map_err(io::Error::other)?;
    let mut is_off = vec![false; links.len()];
    let mut request = [0; 2];
    loop {
        let len = match recv(socket, &mut request[..], RecvFlags::empty()) {
            Ok((len, _)) => len,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => 0,
        };
        let [place, is_on] = request;
        let Some(&link) = links.get(usize::from(place)).filter(|_| len == 2) else {
            break;
        };
        let switched = match is_on {
            0 => netlink.switch_off(link),
            _ => netlink.switch_on(link),
        };
        is_off[usize::from(place)] = is_on == 0;
        let code = switched.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        let mut answer = [place; ANSWER_LEN];
        answer[1..].copy_from_slice(&code.to_ne_bytes());
        let _ = send(socket, &answer, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    for (&link, _) in links.iter().zip(&is_off).filter(|(_, is_off)| **is_off) {
        let _ = netlink.switch_on(link);
    }
    Ok(())
}

#[cfg(test)]
mod wall {
    use std::time::Duration;

    use super::*;
    use crate::clock::Stopwatch;
    use crate::{NetNamespace, may_make_network_namespaces};

    /// Waits until a link is on or off.
    fn wait_for(netlink: &Netlink, index: u32, is_on: bool) {
        let since = Stopwatch::start();
        let up = libc::IFF_UP as u32;
        while (netlink.link(index).expect("it is there").flags & up != 0) != is_on {
            assert!(since.elapsed() < Duration::from_secs(20), "link {index}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn links_are_on_again_when_nobody_asks_any_more() {
        if !may_make_network_namespaces() {
            println!("SKIP: link switch: network namespaces need root");
            return;
        }
        let work = || {
            let far = NetNamespace::new().expect("a namespace");
            let _near = NetNamespace::new().expect("a namespace");
            let netlink = Netlink::open().expect("a socket");
            netlink.add_veth("near", "far", far.as_fd()).expect("made");
            let near = netlink.link_named("near").expect("made").index;
            netlink.switch_on(near).expect("it is there");
            // The second link of the list is not there.
            let switch = LinkSwitch::start(&[near, 999]).expect("it starts");
            switch.switch(0, false).expect("it runs");
            wait_for(&netlink, near, false);
            switch.switch(0, true).expect("it runs");
            wait_for(&netlink, near, true);
            switch.switch(1, false).expect("it runs");
            let since = Stopwatch::start();
            let failure = loop {
                if let Some(failure) = switch.failure() {
                    break failure;
                }
                assert!(since.elapsed() < Duration::from_secs(20), "no answer");
                std::thread::yield_now();
            };
            assert_eq!(
                (failure.0, failure.1.raw_os_error()),
                (1, Some(libc::ENODEV))
            );
            switch.switch(0, false).expect("it runs");
            wait_for(&netlink, near, false);
            drop(switch);
            wait_for(&netlink, near, true);
        };
        std::thread::spawn(work).join().expect("no panic");
    }
}
