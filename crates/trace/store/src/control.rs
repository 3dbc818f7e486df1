//! A socket in a run's folder at which the run is asked for changes. Requests and answers are
//! texts; what they mean is not known here.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lineside_host::{FolderError, Stopwatch, is_alive, lock_holder};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::folder::{CONTROL, RunFolder};

/// A longer request, or answer, is refused.
const LEN_MAX: u64 = 16 << 20;
/// A client or a server that is slower than this is dropped. A test that waited for one would hang.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 5 });
/// Clients whose requests have not come whole. One more drops the one that has waited longest.
const WAITING_MAX: usize = 16;

/// Where a run takes requests while it lasts: the socket `control` in its folder. It goes when this
/// is dropped.
///
/// Whoever may write to the socket's file may ask: its owner, whom the folder [is given
/// to](lineside_host::drop_privileges), and root. A client that asks nothing holds up no other, nor
/// the end of the run.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    /// In the order in which they came.
    waiting: Mutex<Vec<Waiting>>,
    folder: RunFolder,
}

/// A client, and what has come of its request.
#[derive(Debug)]
struct Waiting {
    stream: UnixStream,
    bytes: Vec<u8>,
    since: Stopwatch,
}

/// A request, and whom to answer. One that is dropped unanswered is seen to be.
#[derive(Debug)]
pub struct Request {
    /// What was asked.
    pub text: String,
    stream: UnixStream,
}

impl Control {
    /// Begins to listen.
    pub fn listen(folder: &RunFolder) -> Result<Self, FolderError> {
        folder.clear()?;
        let listener = UnixListener::bind(name_in(folder.file()));
        let listener = listener.and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|error| {
            FolderError::io(&folder.path().join(CONTROL), "listen at the socket", error)
        })?;
        Ok(Self {
            listener,
            waiting: Mutex::default(),
            folder: folder.clone(),
        })
    }

    /// Waits for the next request; `None` once it is [closed](Self::close). What is no request is
    /// passed over.
    pub fn next(&self) -> Option<Request> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            for at in 0..waiting.len() {
                if waiting[at].is_whole() {
                    // What is no text is passed over.
                    if let Some(request) = waiting.remove(at).into_request() {
                        return Some(request);
                    }
                    break;
                }
            }
            waiting.retain(Waiting::is_alive);
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if waiting.len() == WAITING_MAX {
                        waiting.remove(0);
                    }
                    waiting.extend(Waiting::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.rest(&waiting) {
                        return None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits until a client comes, sends or is too slow; whether this is closed.
    fn rest(&self, waiting: &[Waiting]) -> bool {
        let flags = PollFlags::IN;
        let streams = waiting.iter().map(|each| PollFd::new(&each.stream, flags));
        let mut all: Vec<_> = [PollFd::new(&self.listener, flags)]
            .into_iter()
            .chain(streams)
            .collect();
        let left = { waiting.first() }.map(|first| PATIENCE.saturating_sub(first.since.elapsed()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        // A signal ends it early, which does no harm.
        let _ = rustix::event::poll(&mut all, timeout.as_ref());
        all[0].revents().contains(PollFlags::HUP)
    }

    /// Takes no more requests: a thread that waits for one stops.
    pub fn close(&self) {
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

impl Waiting {
    fn new(stream: UnixStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            bytes: Vec::new(),
            since: Stopwatch::start(),
        })
    }

    /// Reads what has come; whether that is all.
    fn is_whole(&mut self) -> bool {
        let left = LEN_MAX + 1 - self.bytes.len() as u64;
        let read = (&self.stream).take(left).read_to_end(&mut self.bytes);
        match read {
            Ok(_) => true,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    // It is gone: no text.
                    self.bytes = vec![0xff];
                }
                error.kind() != io::ErrorKind::WouldBlock
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.since.elapsed() < PATIENCE
    }

    fn into_request(self) -> Option<Request> {
        let Self { stream, bytes, .. } = self;
        let text = String::from_utf8(bytes).ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        (text.len() as u64 <= LEN_MAX).then_some(Request { text, stream })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder.file(), CONTROL, AtFlags::empty());
    }
}

impl Request {
    /// Answers. The client may have gone meanwhile.
    pub fn answer(mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }
}

/// Connects to the run that writes this folder.
pub(crate) fn connect(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(name_in(&open(folder)?))
}

/// Sends a request, and waits for the answer.
pub(crate) fn converse(mut stream: &UnixStream, request: &str) -> io::Result<String> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let answer = read(stream)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

fn read(stream: &UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Whether a run writes this folder now: it holds the folder's lock.
pub fn is_running(folder: &Path) -> bool {
    let Ok(folder) = open(folder) else {
        return false;
    };
    let is_locked = matches!(folder.try_lock_shared(), Err(TryLockError::WouldBlock));
    // The process that gives its files back shares the lock of a run that was killed.
    is_locked && lock_holder(&folder).is_none_or(is_alive)
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?.into())
}

/// The name of a socket is at most 107 bytes long (unix(7)), that of a folder need not be.
fn name_in(folder: &File) -> String {
    format!("/proc/self/fd/{}/{CONTROL}", folder.as_raw_fd())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use super::*;

    fn ask(folder: &Path, request: &str) -> io::Result<String> {
        converse(&connect(folder)?, request)
    }

    #[test]
    fn clients_that_ask_nothing_hold_up_no_other() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        let folder = RunFolder::create(&path, None).expect("new");
        let control = Control::listen(&folder).expect("it listens");
        assert!(is_running(&path));
        let connect = || UnixStream::connect(path.join(CONTROL)).expect("connected");
        // More than may wait; one of them has begun to ask, and one hangs up.
        let mut silent: Vec<_> = (0..WAITING_MAX + 3).map(|_| connect()).collect();
        silent[WAITING_MAX].write_all(b"wh").expect("written");
        drop(silent.remove(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(request) = control.next() {
                    request.answer("yes");
                }
            });
            for _ in 0..3 {
                assert_eq!(ask(&path, "what?").expect("an answer"), "yes");
            }
            // The end waits for no client either: the silent ones are still connected.
            control.close();
        });
        drop(silent);
        drop((control, folder));
        assert!(!is_running(&path));
    }

    #[test]
    fn requests_are_answered_until_the_end() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("long".repeat(40));
        let folder = RunFolder::create(&path, None).expect("new");
        assert_eq!(
            ask(&path, "x").expect_err("no one listens").kind(),
            io::ErrorKind::NotFound
        );
        let control = Control::listen(&folder).expect("it listens");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut silent = false;
                while let Some(request) = control.next() {
                    if !std::mem::replace(&mut silent, true) {
                        let text = request.text.to_uppercase();
                        request.answer(&text);
                    }
                }
            });
            assert_eq!(ask(&path, "what?").expect("an answer"), "WHAT?");
            let error = ask(&path, "and now?").expect_err("none");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            control.close();
        });
        // As after a kill: the file stays, and may be replaced with the rest.
        let error = ask(&path, "x").expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        folder.replace("trace.json", b"{}").expect("written");
        let (socket, kept) = (path.join(CONTROL), above.path().join("kept"));
        std::fs::rename(&socket, &kept).expect("renamed");
        drop((control, folder));
        std::fs::rename(&kept, &socket).expect("renamed");
        let again = RunFolder::create(&path, Some(|_| Ok(()))).expect("replaced");
        drop(Control::listen(&again).expect("it listens"));
        assert!(!socket.exists());
    }
}
