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

use lineside_account::{Budget, Claim, Lease};
use lineside_host::{FolderError, Stopwatch, caller_of_sudo, is_alive, lock_holder, wait_to_write};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, chmod, chownat, fchmod, fstat, openat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::folder::RunFolder;
use crate::trace_files::CONTROL;

/// A longer request, or answer, is refused.
const LEN_MAX: u64 = 16 << 20;
/// A client or a server that is slower than this is dropped. A test that waited for one would hang.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 5 });
/// Clients whose requests have not come whole. One more drops the one that has waited longest.
const WAITING_MAX: usize = 16;
/// All requests together hold one in this many bytes of the run's memory at most: 16 MiB of the
/// default 256 MiB. When they would hold more, the largest is dropped.
const SHARE: usize = 16;
/// Small requests are heard whatever the run needs: so much of each is not drawn on its memory.
const FREE: usize = 64 << 10;
/// A client begins with room for this many bytes.
const ROOM: usize = 4_096;
/// Clients that the kernel has connected before they are accepted.
const BACKLOG: i32 = 128;
/// Bytes that a value of a JSON text takes when it is read: 32 in the list or map that has it,
/// which had twice or thrice the room while it grew, and 24 in its key.
const VALUE_BYTES: usize = 120;

/// Where a run takes requests while it lasts: the socket `control` in its folder. It goes when this
/// is dropped.
///
/// Its owner may ask, that is the user that started the run, and root. Whom root
/// [becomes](lineside_host::drop_privileges) to write the folder may not, nor may others that run
/// as that user. A client that asks nothing, or reads no answer, holds up no other for long, nor
/// the end of the run.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    /// In the order in which they came.
    waiting: Mutex<Vec<Waiting>>,
    folder: RunFolder,
    memory: Memory,
}

/// What requests draw on: the budget of the run, and a share of it for all of them.
#[derive(Debug)]
struct Memory {
    of_run: Budget,
    of_clients: Budget,
}

/// What one request has drawn.
#[derive(Debug)]
struct Room {
    of_run: Lease,
    of_clients: Lease,
}

/// A client, and what has come of its request.
#[derive(Debug)]
struct Waiting {
    stream: UnixStream,
    bytes: Vec<u8>,
    room: Room,
    since: Stopwatch,
}

/// What has come of a request.
#[derive(Debug, PartialEq)]
enum Came {
    Part,
    Whole,
    /// The client is gone, or asks for too much.
    Nothing,
    /// More than there is room for.
    TooMuch,
}

/// A request, and whom to answer. One that is dropped unanswered is seen to be.
#[derive(Debug)]
pub struct Request {
    /// What was asked.
    pub text: String,
    stream: UnixStream,
    /// For the text, and for what is read from it.
    _room: Room,
}

impl Control {
    /// Begins to listen. What clients hold is drawn on `budget`. To be called before privileges are
    /// dropped.
    pub fn listen(folder: &RunFolder, budget: &Budget) -> Result<Self, FolderError> {
        if folder.own(CONTROL) {
            // A run that was killed left it.
            folder.place().remove(CONTROL)?;
        }
        let listener = bind(folder.file()).map_err(|error| {
            FolderError::io(&folder.path().join(CONTROL), "listen at the socket", error)
        })?;
        Ok(Self {
            listener,
            waiting: Mutex::default(),
            folder: folder.clone(),
            memory: Memory {
                of_run: budget.clone(),
                of_clients: Budget::new(budget.limit_bytes() / SHARE),
            },
        })
    }

    /// Waits for the next request; `None` once it is [closed](Self::close). What is no request is
    /// passed over.
    pub fn next(&self) -> Option<Request> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(request) = take_whole(&mut waiting) {
                return Some(request);
            }
            waiting.retain(Waiting::is_alive);
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if waiting.len() == WAITING_MAX {
                        waiting.remove(0);
                    }
                    waiting.extend(Waiting::new(stream, &self.memory));
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

/// Takes the first request that has come whole.
fn take_whole(waiting: &mut Vec<Waiting>) -> Option<Request> {
    let mut at = 0;
    while at < waiting.len() {
        match waiting[at].read() {
            Came::Part => at += 1,
            Came::Nothing => drop(waiting.remove(at)),
            Came::Whole => {
                // What is no text is passed over.
                if let Some(request) = waiting.remove(at).into_request() {
                    return Some(request);
                }
            }
            Came::TooMuch => {
                let bytes = |at: &usize| waiting[*at].bytes.capacity();
                // Of several, the one that has waited longest.
                let largest = (0..waiting.len()).rev().max_by_key(bytes).unwrap_or(at);
                drop(waiting.remove(largest));
                // This one is read again, unless it was the largest.
                at = at.saturating_sub(usize::from(largest < at));
            }
        }
    }
    None
}

impl Room {
    fn new(memory: &Memory) -> Option<Self> {
        Some(Self {
            of_run: memory.of_run.lease(0)?,
            of_clients: memory.of_clients.lease(0)?,
        })
    }

    /// Whether there is room for this many bytes, which are drawn.
    fn resize(&mut self, bytes: usize) -> bool {
        let before = self.of_clients.bytes();
        if !self.of_clients.resize(bytes) {
            return false;
        }
        let drawn = bytes.saturating_sub(FREE);
        let fits = self.of_run.resize_as(Claim::Spare, drawn);
        if !fits {
            // Less always fits.
            self.of_clients.resize(before);
        }
        fits
    }
}

impl Waiting {
    fn new(stream: UnixStream, memory: &Memory) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            bytes: Vec::new(),
            room: Room::new(memory)?,
            since: Stopwatch::start(),
        })
    }

    /// Reads what has come, as far as there is room.
    fn read(&mut self) -> Came {
        loop {
            let capacity = self.bytes.capacity();
            if self.bytes.len() == capacity {
                let more = capacity.max(ROOM);
                if !self.room.resize(capacity + more) {
                    return Came::TooMuch;
                }
                self.bytes.reserve_exact(more);
            }
            // One byte more than a request may have is read, and shows that it has too many.
            let left = LEN_MAX + 1 - self.bytes.len() as u64;
            let room = (self.bytes.capacity() - self.bytes.len()) as u64;
            let read = (&self.stream)
                .take(left.min(room))
                .read_to_end(&mut self.bytes);
            match read {
                Ok(0) => return Came::Whole,
                Ok(_) if self.bytes.len() as u64 > LEN_MAX => return Came::Nothing,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Came::Part,
                Err(_) => return Came::Nothing,
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.since.elapsed() < PATIENCE
    }

    fn into_request(self) -> Option<Request> {
        let Self {
            stream,
            bytes,
            mut room,
            ..
        } = self;
        let text = String::from_utf8(bytes).ok()?;
        let values = text.bytes().filter(|byte| b",:[{".contains(byte)).count();
        let fits = room.resize(text.capacity() + values * VALUE_BYTES);
        fits.then_some(Request {
            text,
            stream,
            _room: room,
        })
    }
}

/// A socket at which the user that started the run may ask, and root, whatever the umask and the
/// folder's default access list allow.
fn bind(folder: &File) -> io::Result<UnixListener> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(
        AddressFamily::UNIX,
        kind,
        flags | SocketFlags::NONBLOCK,
        None,
    )?;
    let mode = Mode::RUSR | Mode::WUSR;
    // The file has no mode that the socket has not: nobody else connects before it is changed.
    fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(name_in(folder))?)?;
    // Whatever somebody puts there instead is not followed, and keeps its owner.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, CONTROL, flags, Mode::empty())?;
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)?;
    if let Some((user, group)) = caller_of_sudo() {
        // A file system on which root may not do that has no sockets of that user's.
        let _ = chownat(&file, "", Some(user), Some(group), AtFlags::EMPTY_PATH);
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder.file(), CONTROL, AtFlags::empty());
    }
}

impl Request {
    /// Answers. The client may have gone meanwhile; one that does not read is left.
    pub fn answer(mut self, text: &str) {
        let begun = Stopwatch::start();
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(len) => left = &left[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let patience = PATIENCE.saturating_sub(begun.elapsed());
                    if !wait_to_write(&self.stream, patience) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// Connects to the run that writes this folder.
pub(crate) fn connect(folder: &Path) -> io::Result<UnixStream> {
    // To pass through it takes no right to read it, which a sandbox may deny.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
    UnixStream::connect(name_in(&folder))
}

/// Sends a request, and waits for the answer.
pub(crate) fn converse(mut stream: &UnixStream, request: &str) -> io::Result<String> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let sent = stream.write_all(request.as_bytes());
    let sent = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    let answer = sent.and_then(|()| read(stream));
    match answer.map_err(|error| (error.kind(), error)) {
        Ok(answer) if !answer.is_empty() => Ok(answer),
        Ok(_) | Err((io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset, _)) => {
            let why = format!(
                "it dropped a request of {} bytes: it ends, or its --memory has no room for more",
                request.len()
            );
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
        Err((_, error)) => Err(error),
    }
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

    /// However a test ends, the thread that answers does too.
    struct Closing<'a>(&'a Control);

    impl Drop for Closing<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    #[test]
    fn clients_that_ask_nothing_hold_up_no_other() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        let folder = RunFolder::create(&path, None).expect("new");
        let control = Control::listen(&folder, &Budget::new(64 << 20)).expect("it listens");
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
    fn requests_hold_a_share_of_the_runs_memory() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        let folder = RunFolder::create(&path, None).expect("new");
        let budget = Budget::new(16 << 20);
        let control = Control::listen(&folder, &budget).expect("it listens");
        let share = budget.limit_bytes() / SHARE;
        std::thread::scope(|scope| {
            let _closing = Closing(&control);
            scope.spawn(|| {
                while let Some(request) = control.next() {
                    request.answer("yes");
                }
            });
            // Each sends for as long as it is heard, and never ends its request.
            let mut greedy: Vec<_> = (0..WAITING_MAX - 1)
                .map(|_| UnixStream::connect(path.join(CONTROL)).expect("connected"))
                .collect();
            for client in &mut greedy {
                // It may be dropped for another meanwhile.
                let _ = client.write_all(&vec![b' '; 3 * share / WAITING_MAX]);
                assert_eq!(ask(&path, "what?").expect("an answer"), "yes");
            }
            // What is read from a text takes more than it: half of the share, in lists.
            for (text, is_answered) in [
                (" ".repeat(share / 4), true),
                (" ".repeat(2 * share), false),
                ("[".repeat(share / 4), false),
                ("[".repeat(share / 4 / VALUE_BYTES), true),
            ] {
                let answer = ask(&path, &text);
                assert_eq!(answer.is_ok(), is_answered, "{answer:?}");
                if let Err(error) = answer {
                    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    assert!(error.to_string().contains("--memory"), "{error}");
                }
            }
        });
        assert!(budget.peak_bytes() <= share, "{}", budget.peak_bytes());
        drop(control);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_run_that_needs_all_of_its_memory_is_asked_even_so() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("run");
        let folder = RunFolder::create(&path, None).expect("new");
        let budget = Budget::new(16 << 20);
        let control = Control::listen(&folder, &budget).expect("it listens");
        let all = budget.lease(budget.limit_bytes());
        assert!(all.is_some(), "nothing is drawn");
        std::thread::scope(|scope| {
            let _closing = Closing(&control);
            scope.spawn(|| {
                while let Some(request) = control.next() {
                    request.answer("yes");
                }
            });
            assert_eq!(ask(&path, "what?").expect("an answer"), "yes");
        });
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
        let control = Control::listen(&folder, &Budget::new(64 << 20)).expect("it listens");
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
        drop(Control::listen(&again, &Budget::new(64 << 20)).expect("it listens"));
        assert!(!socket.exists());
    }
}
