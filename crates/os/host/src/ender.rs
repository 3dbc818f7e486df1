//! A process that ends the programs that a run started, and can do nothing else, beside a run in
//! its sandbox: which sends no signal itself, whatever Landlock has of scopes.
//!
//! ```text
//!  run, in its sandbox ── process, signal ──► process with CAP_KILL alone ─► pidfd
//! ```
//!
//! * It signals descendants of the run alone, and sends TERM and KILL alone. That a process is one
//!   is found out while a pidfd holds its number, so that no other one has it meanwhile.
//! * When the run closes its end, or is killed, it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{SendFlags, send};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

use crate::give_back::{beside, receive};
use crate::lock::status_of;
use crate::privileges::{Capability, keep_capabilities};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::serve_alone;

/// Bytes of a request: the number of a process and that of a signal.
const REQUEST_LEN: usize = 8;
/// Generations between the run and a process. A guess: programs of programs are few deep.
const DEPTH_MAX: usize = 256;

/// The way to end programs.
#[derive(Debug, Default)]
pub struct Ender(Option<OwnedFd>);

impl Ender {
    /// Starts the process, before there is another thread, and before this one adopts what others
    /// leave behind.
    pub fn start() -> io::Result<Self> {
        let run = getpid();
        let socket = beside(move |socket| {
            serve_alone(&[socket.as_fd()])?;
            keep_capabilities(&[Capability::Kill]).map_err(io::Error::other)?;
            let sandbox = Sandbox::new().may_end_processes();
            sandbox.enter().map_err(io::Error::other)?;
            let mut request = [0; REQUEST_LEN];
            while let Some(len) = receive(socket, &mut request) {
                if len == REQUEST_LEN {
                    let _ = end(run, request);
                }
            }
            Ok(())
        })?;
        Ok(Self(Some(socket)))
    }

    /// Ends a process that the run started, at once.
    pub fn kill(&self, process: u32) {
        if let Some(process) = Pid::from_raw(process as i32) {
            self.signal(process, Signal::KILL);
        }
    }

    /// Sends a signal to a process that the run, or what it started, has started. One that is gone
    /// is none.
    pub(crate) fn signal(&self, process: Pid, signal: Signal) {
        let Some(socket) = &self.0 else {
            let _ = kill_process(process, signal);
            return;
        };
        let process = process.as_raw_nonzero().get().to_ne_bytes();
        let request = [process, signal.as_raw().to_ne_bytes()].concat();
        // Where nobody listens any more, what was started dies with the run.
        let _ = send(socket, &request, SendFlags::NOSIGNAL);
    }
}

/// Sends the signal, if the process is a descendant of the run.
fn end(run: Pid, request: [u8; REQUEST_LEN]) -> Option<()> {
    let (process, signal) = request.split_first_chunk()?;
    let process = Pid::from_raw(i32::from_ne_bytes(*process))?;
    let wanted = i32::from_ne_bytes(signal.try_into().ok()?);
    let known = [Signal::TERM, Signal::KILL].into_iter();
    let signal = { known }.find(|signal| signal.as_raw() == wanted)?;
    let held = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let is_of_run = { std::iter::successors(parent(process), |&above| parent(above)) }
        .take(DEPTH_MAX)
        .any(|above| above == run);
    is_of_run.then(|| pidfd_send_signal(held, signal).ok())?
}

/// The parent of a process.
fn parent(process: Pid) -> Option<Pid> {
    let status = status_of(process.as_raw_nonzero().get().cast_unsigned()).ok()?;
    Pid::from_raw(status.split(' ').nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod wall {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_a_run_started_is_ended_for_it() {
        let mut other = Command::new("sleep").arg("600").spawn().expect("it runs");
        // As the run sees it: this process, of another thread too.
        let requests = [
            (other.id(), Signal::USR1),
            (1, Signal::KILL),
            (std::process::id(), Signal::KILL),
            (0, Signal::KILL),
        ];
        let of = |(process, signal): (u32, Signal)| {
            let process = process.to_ne_bytes();
            let bytes = [process, signal.as_raw().to_ne_bytes()].concat();
            bytes.try_into().expect("eight")
        };
        for request in requests {
            assert_eq!(end(getpid(), of(request)), None, "{request:?}");
        }
        let parent = parent(getpid()).expect("one");
        assert_eq!(end(parent, of((1, Signal::TERM))), None);
        assert_eq!(other.try_wait().expect("it is ours"), None);
        let wanted = of((other.id(), Signal::KILL));
        assert_eq!(end(getpid(), wanted), Some(()));
        assert_eq!(other.wait().expect("it ended").signal(), Some(9));
    }
}
