//! The sockets of a run: connections that open, write what there is room for, and read.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use lineside_host::{Epoll, Interest, TcpOptions, TcpSocket};
use lineside_time::Clock;

use crate::tap::{By, Tap, Tapped};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// Events of one wait.
const EVENTS_MAX: usize = 256;

/// A place in the list of lines.
pub(crate) type LineIndex = usize;

/// What happened to a line.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It is open.
    Opened(LineIndex),
    /// It did not open, or it is over; why.
    Closed(LineIndex, Option<io::Error>),
    /// Bytes came: they are in [`Lines::take`].
    Bytes(LineIndex),
}

#[derive(Debug)]
struct Line {
    socket: Option<TcpSocket>,
    is_open: bool,
    port: u16,
    /// What is to be written, and how much of it was.
    out: Vec<u8>,
    written: usize,
    waits_for_room: bool,
    tapped: Option<Tapped>,
}

/// All of them.
pub(crate) struct Lines<'a, C> {
    clock: &'a C,
    epoll: Epoll,
    lines: Vec<Line>,
    buffer: Vec<u8>,
    read: usize,
    tap: Option<Tap>,
}

impl<'a, C: Clock> Lines<'a, C> {
    pub(crate) fn new(clock: &'a C, tap: Option<Tap>) -> io::Result<Self> {
        Ok(Self {
            clock,
            epoll: Epoll::new(EVENTS_MAX)?,
            lines: Vec::new(),
            buffer: vec![0; READ_BYTES],
            read: 0,
            tap,
        })
    }

    /// Begins to connect: a new line, or one that is over.
    pub(crate) fn connect(
        &mut self,
        to: SocketAddr,
        again: Option<LineIndex>,
    ) -> io::Result<LineIndex> {
        // When a reply came, not when this process got to it: thought begins there.
        let options = TcpOptions {
            stamp_bytes: true,
            ..TcpOptions::default()
        };
        let socket = TcpSocket::connect(to, None, &options).map_err(|error| error.to_io())?;
        let local = socket.local_address()?;
        let at = again.unwrap_or(self.lines.len());
        self.epoll.add(&socket, at as u64, Interest::READ_WRITE)?;
        let now = self.clock.now();
        let tapped = self.tap.as_mut().map(|tap| tap.asked([local, to], now));
        let line = Line {
            socket: Some(socket),
            is_open: false,
            port: local.port(),
            out: Vec::new(),
            written: 0,
            waits_for_room: true,
            tapped,
        };
        match self.lines.get_mut(at) {
            Some(place) => *place = line,
            None => self.lines.push(line),
        }
        Ok(at)
    }

    /// Whether what passes is kept.
    pub(crate) fn is_tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// Our port.
    pub(crate) fn port(&self, at: LineIndex) -> u16 {
        self.lines[at].port
    }

    pub(crate) fn is_open(&self, at: LineIndex) -> bool {
        self.lines[at].is_open
    }

    /// Bytes leave, as many as there is room for, and the others later. An error is heard of by
    /// [`wait`](Self::wait).
    pub(crate) fn send(&mut self, at: LineIndex, bytes: &[u8]) {
        if self.lines[at].is_open {
            self.lines[at].out.extend_from_slice(bytes);
            self.write(at);
        }
    }

    fn write(&mut self, at: LineIndex) {
        let line = &mut self.lines[at];
        let Some(socket) = &line.socket else { return };
        let mut has_room = true;
        while has_room && line.written < line.out.len() {
            let now = self.clock.now();
            match socket.write(&line.out[line.written..]) {
                Ok(len) => {
                    let bytes = &line.out[line.written..][..len];
                    if let (Some(tap), Some(tapped)) = (&mut self.tap, &mut line.tapped) {
                        tap.passed(tapped, By::Us, now, bytes);
                    }
                    line.written += len;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Of an error the next wait hears.
                Err(_) => has_room = false,
            }
        }
        if line.written == line.out.len() {
            line.out.clear();
            line.written = 0;
        }
        let waits = !line.out.is_empty();
        if waits != line.waits_for_room {
            line.waits_for_room = waits;
            let interest = if waits {
                Interest::READ_WRITE
            } else {
                Interest::READ
            };
            let _ = self.epoll.modify(socket, at as u64, interest);
        }
    }

    /// Waits until something happens, for at most so long; `heard` gets what did.
    pub(crate) fn wait(&mut self, timeout_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()> {
        let ready: Vec<_> = self.epoll.wait(Some(timeout_ns))?.collect();
        for ready in ready {
            let at = ready.token as LineIndex;
            let line = &mut self.lines[at];
            let Some(socket) = &line.socket else { continue };
            if !line.is_open {
                match socket.take_error() {
                    Ok(None) if ready.is_writable && !ready.has_failed => {
                        line.is_open = true;
                        let now = self.clock.now();
                        if let (Some(tap), Some(tapped)) = (&mut self.tap, &mut line.tapped) {
                            tap.opened(tapped, now);
                        }
                        self.write(at);
                        heard.push(Heard::Opened(at));
                    }
                    Ok(None) => {}
                    Ok(error @ Some(_)) => {
                        self.forget(at);
                        heard.push(Heard::Closed(at, error));
                    }
                    Err(error) => {
                        self.forget(at);
                        heard.push(Heard::Closed(at, Some(error)));
                    }
                }
                continue;
            }
            if ready.is_writable {
                self.write(at);
            }
            if ready.is_readable {
                heard.push(Heard::Bytes(at));
            }
        }
        Ok(())
    }

    /// Reads what came, once, and when it was; `None`: there is no more for now. An error or the
    /// end is `Err`: the line is over.
    pub(crate) fn take(
        &mut self,
        at: LineIndex,
    ) -> Result<Option<(i64, &[u8])>, Option<io::Error>> {
        let line = &mut self.lines[at];
        let Some(socket) = &line.socket else {
            return Ok(None);
        };
        let outcome = socket.read_aged(&mut self.buffer);
        let now = self.clock.now();
        match outcome {
            Ok((0, _)) => {
                self.end(at, By::Server);
                Err(None)
            }
            Ok((len, age_ns)) => {
                let came_ns = now - age_ns;
                self.read = len;
                if let (Some(tap), Some(tapped)) = (&mut self.tap, &mut line.tapped) {
                    tap.passed(tapped, By::Server, came_ns, &self.buffer[..len]);
                }
                Ok(Some((came_ns, &self.buffer[..len])))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => {
                self.end(at, By::Server);
                Err(Some(error))
            }
        }
    }

    /// Closes a line.
    pub(crate) fn close(&mut self, at: LineIndex) {
        self.end(at, By::Us);
    }

    fn end(&mut self, at: LineIndex, by: By) {
        let now = self.clock.now();
        let line = &mut self.lines[at];
        if let (Some(tap), Some(tapped), true) = (&mut self.tap, &mut line.tapped, line.is_open) {
            tap.ended(tapped, by, now);
        }
        self.forget(at);
    }

    fn forget(&mut self, at: LineIndex) {
        let line = &mut self.lines[at];
        line.socket = None;
        line.is_open = false;
        line.out.clear();
        line.written = 0;
    }

    /// What the tap has kept goes to whoever makes rows of it.
    pub(crate) fn pass_on(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.pass_on();
        }
    }

    /// All lines are over: the last frames are in the tap, which ends.
    pub(crate) fn finish(mut self) {
        for at in 0..self.lines.len() {
            self.close(at);
        }
        self.pass_on();
    }
}
