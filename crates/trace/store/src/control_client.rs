//! Asking a run by its socket, from inside a sandbox.
//!
//! ```text
//!  asks, in its sandbox ── one byte ──────────────► process that may connect ──────► the socket
//!                       ◄─ a connection, or why not
//! ```
//!
//! In the sandbox no socket can be made, since Landlock has no rules for those of files: whoever
//! may connect to one may connect to all that the user may, such as that of a container's engine.
//! The process beside it connects to the one socket, and reads nothing of what comes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use lineside_host::{
    Capability, Sandbox, fork, keep_capabilities, receive_file, send_file, serve_alone, wait_for,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::process::Pid;

use crate::control::{connect, converse};

/// The way to a run's socket. The process beside this one ends when it is dropped.
#[derive(Debug)]
pub struct ControlClient {
    socket: Option<OwnedFd>,
    process: Pid,
}

impl ControlClient {
    /// For the run that writes this folder, or will. To be called before there is another thread,
    /// and before privileges are dropped.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, its) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let process = fork(|| serve(&its, folder))?;
        Ok(Self {
            socket: Some(ours),
            process,
        })
    }

    /// Asks the run, and waits for its answer. Fails with [`NotFound`](io::ErrorKind::NotFound) or
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if none takes requests there, with
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if it does not answer this one, and with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is too slow.
    pub fn ask(&self, request: &str) -> io::Result<String> {
        converse(&self.connection()?, request)
    }

    fn connection(&self) -> io::Result<UnixStream> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        send(socket, &[0], SendFlags::NOSIGNAL)?;
        let file = receive_file(socket, "the process that connects is gone")?;
        let file = file.ok_or_else(|| io::Error::other("the process that connects sent nothing"));
        file.map(UnixStream::from)
    }
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        drop(self.socket.take());
        wait_for(self.process);
    }
}

/// The work of the process, until the other has closed its end.
fn serve(socket: &OwnedFd, folder: &Path) -> io::Result<()> {
    serve_alone(&[socket.as_fd()])?;
    // A run's socket may be another user's.
    keep_capabilities(&[Capability::DacOverride]).map_err(io::Error::other)?;
    let sandbox = Sandbox::new().may_connect_to_files();
    sandbox.enter().map_err(io::Error::other)?;
    let mut asked = [0; 1];
    loop {
        match recv(socket, &mut asked, RecvFlags::empty()) {
            Ok((1.., _)) => {
                let connected = connect(folder);
                send_file(socket, connected.as_ref().map(|it| Some(it.as_fd())))?;
            }
            Err(Errno::INTR) => {}
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;

    use super::*;
    use crate::{Control, RunFolder};

    #[test]
    fn a_run_is_asked_by_way_of_another_process() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        let caller = ControlClient::start(&path).expect("it starts");
        let kind = |asked: io::Result<String>| asked.expect_err("nobody").kind();
        assert_eq!(kind(caller.ask("what?")), io::ErrorKind::NotFound);
        let folder = RunFolder::create(&path, None).expect("new");
        assert_eq!(kind(caller.ask("what?")), io::ErrorKind::NotFound);
        let control = Control::listen(&folder, &Budget::new(64 << 20)).expect("it listens");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(request) = control.next() {
                    let text = request.text.to_uppercase();
                    request.answer(&text);
                }
            });
            for _ in 0..3 {
                assert_eq!(caller.ask("what?").expect("an answer"), "WHAT?");
            }
            control.close();
        });
        assert_eq!(kind(caller.ask("what?")), io::ErrorKind::ConnectionRefused);
        let process = caller.process;
        drop(caller);
        let gone = rustix::process::test_kill_process(process);
        assert_eq!(gone, Err(Errno::SRCH));
    }
}
