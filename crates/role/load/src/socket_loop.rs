//! The kernel's sockets for an application: a polling loop over epoll(7). No privilege is needed.
//!
//! Data are written when they are due, and count as acknowledged once the kernel has copied them,
//! or, for an application that wants it so, when the peer's TCP has acknowledged them.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use lineside_frame::{Chunk, Descriptor};
use lineside_host::{Epoll, Interest, Ready, SocketError, TcpListener, TcpOptions, TcpSocket};
use lineside_reactor::Wait;
use lineside_time::Nanoseconds;
use rustix::io::Errno;
use slab::Slab;

use crate::application::{Call, End, Outgoing};
use crate::departures::Departures;
use crate::{Application, Calls, ConnectionId, Reason, SocketId};
pub use counters::SocketLoopCounters;
use datagrams::Endpoint;

mod counters;
mod datagrams;

/// Events of one wait.
const EVENTS_MAX: usize = 64;
/// Bytes of one read, and of one write.
const BUFFER_BYTES: usize = 64 << 10;
/// Reads, or writes, of one connection before the others have their turn.
const PASSES_MAX: usize = 16;
/// Connections that are accepted at once.
const ACCEPTS_MAX: usize = 16;
/// Tasks of one turn.
const TASKS_MAX: usize = 32;
/// As close to a departure the loop looks at nothing else: about what an epoll_wait(2) and an event
/// take.
const CLOSE_NS: i64 = 5_000;
/// Without a descriptor for another connection, a listener rests.
const PAUSE_NS: i64 = 10_000_000;
/// The longest wait: the caller looks after signals in between.
const WAIT_MAX_NS: i64 = 50_000_000;
/// This bit of a token says that it is a listener's.
const LISTENER: u64 = 1 << 63;
/// This one, that it is a socket's of datagrams.
const DATAGRAMS: u64 = 1 << 62;
/// Generations that fit below both.
const GENERATIONS: u32 = (1 << 30) - 1;
/// An application over the kernel's sockets.
pub struct SocketLoop<A> {
    application: A,
    calls: Calls,
    epoll: Epoll,
    sockets: Slab<Socket>,
    endpoints: Slab<Endpoint>,
    /// How far the loop's clock is ahead of the one by which datagrams are stamped.
    ahead_ns: Option<i64>,
    /// Distinguishes connections that have had the same number.
    generation: u32,
    listeners: Vec<(TcpListener, u32)>,
    /// When listeners that rest are looked at again.
    paused_until: Option<Nanoseconds>,
    options: TcpOptions,
    departures: Departures<Due>,
    calling: Vec<(Call, u8)>,
    /// Connections, by number and generation, that have more to read or to write and let others
    /// have their turn; and those of them whose turn it is.
    deferred: Vec<(ConnectionId, u32)>,
    resuming: Vec<(ConnectionId, u32)>,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    wait: Wait,
    /// When it last had nothing to wait for any more.
    woke: Option<Nanoseconds>,
    counters: SocketLoopCounters,
}

struct Socket {
    socket: TcpSocket,
    owner: u32,
    generation: u32,
    is_open: bool,
    /// It has no room: an event says when it has.
    is_full: bool,
    /// A FIN follows what is ready.
    is_finishing: bool,
    is_shut: bool,
    /// It is to be closed after what is ready.
    is_closing: bool,
    has_ended: bool,
    /// Bytes that are ready, and those of them that were written.
    announced: u64,
    written: u64,
    /// Of those, bytes that were reported to the application as acknowledged.
    acknowledged: u64,
    /// The kernel reports when the peer has what is written next.
    is_reported: bool,
    is_deferred: bool,
    /// Bytes that the application takes.
    window: u32,
}

/// What is to leave at an instant.
enum Due {
    /// Bytes of a stream.
    Stream {
        connection: ConnectionId,
        generation: u32,
        len: u64,
    },
    /// A datagram, of a socket of that generation.
    Datagram(Outgoing, u32),
}

impl Socket {
    /// Whether the kernel is to report when the peer has acknowledged what is written next.
    fn report(&mut self, is_wanted: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.is_reported, is_wanted) != is_wanted {
            self.socket.report_acknowledgements(is_wanted)?;
        }
        Ok(())
    }
}

impl<A: Application> SocketLoop<A> {
    /// A loop without connections; those that it opens have `options`.
    pub fn new(application: A, options: TcpOptions, wait: Wait) -> io::Result<Self> {
        Ok(Self {
            application,
            calls: Calls::default(),
            epoll: Epoll::new(EVENTS_MAX)?,
            sockets: Slab::new(),
            endpoints: Slab::new(),
            ahead_ns: None,
            generation: 0,
            listeners: Vec::new(),
            paused_until: None,
            options,
            departures: Departures::default(),
            calling: Vec::new(),
            deferred: Vec::new(),
            resuming: Vec::new(),
            ready: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; BUFFER_BYTES].into(),
            wait,
            woke: None,
            counters: SocketLoopCounters::default(),
        })
    }

    /// Takes connections; the callbacks about them have `owner`. Returns the address, with the port
    /// that the kernel chose if it was to choose.
    pub fn listen(
        &mut self,
        at: SocketAddr,
        owner: u32,
        backlog: u16,
    ) -> Result<SocketAddr, ListenError> {
        let listener = TcpListener::listen(at, backlog, &self.options)?;
        let token = LISTENER | self.listeners.len() as u64;
        self.epoll.add(&listener, token, Interest::READ)?;
        let address = listener.local_address()?;
        self.listeners.push((listener, owner));
        Ok(address)
    }

    /// Datagrams arrive when the kernel's stamps say so, by a clock that is so far ahead of
    /// CLOCK_MONOTONIC. Without it they arrive when they are read.
    pub fn stamp(&mut self, ahead_ns: i64) {
        self.ahead_ns = Some(ahead_ns);
    }

    /// Takes no more connections.
    pub fn unlisten(&mut self) {
        self.listeners.clear();
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// The application, to change it between two turns, and the calls that it may ask for.
    pub fn application_mut(&mut self, now: Nanoseconds) -> (&mut A, &mut Calls) {
        self.calls.set_now(now);
        (&mut self.application, &mut self.calls)
    }

    /// Connections that are open or being opened, and sockets of datagrams.
    pub fn connections(&self) -> usize {
        self.sockets.len() + self.endpoints.len()
    }

    /// What was counted.
    pub fn counters(&self) -> SocketLoopCounters {
        self.counters
    }

    /// One turn: tasks, calls and departures that are due, then events of sockets; if there are
    /// none, the loop waits.
    pub fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> io::Result<()> {
        let now = clock();
        if let Some(woke) = self.woke.take() {
            self.counters.on_turn(now - woke);
        }
        self.calls.set_now(now);
        for _ in 0..TASKS_MAX {
            let Some((at, task)) = self.calls.wheel.pop(now) else {
                break;
            };
            self.application.on_task(at, task, &mut self.calls);
        }
        self.call(clock);
        self.depart(clock);
        let timeout_ns = self.timeout_ns(clock());
        if timeout_ns < 0 {
            self.woke = Some(now);
            return Ok(());
        }
        let events = self.epoll.wait(Some(timeout_ns as u64))?;
        self.ready.extend(events);
        let woke = clock();
        // What was done before the wait is counted here alone: the turn counts from `woke` on.
        self.counters.on_wait(timeout_ns, woke - now);
        self.woke = Some(woke);
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            self.depart(clock);
            self.calls.set_now(clock());
            self.on_event(event, clock);
            self.call(clock);
        }
        self.ready = ready;
        self.go_on(clock);
        self.resume(now);
        Ok(())
    }

    /// How long to wait for events; less than 0: a departure is so close that the loop spins.
    fn timeout_ns(&mut self, now: Nanoseconds) -> i64 {
        let departure = self.departures.next_due();
        if departure.is_some_and(|due| due - now < CLOSE_NS) {
            return -1;
        }
        if !self.calls.list.is_empty() || !self.deferred.is_empty() {
            return 0;
        }
        let task = self.calls.wheel.next_deadline();
        let paused = self.paused_until;
        let first = [departure, task, paused].into_iter().flatten().min();
        let left_ns = first.map(|first| first - now);
        self.wait.sleep_ns(left_ns).clamp(0, WAIT_MAX_NS)
    }

    /// Makes the calls that are queued, and those that callbacks queue meanwhile, once more.
    fn call(&mut self, clock: &mut impl FnMut() -> Nanoseconds) {
        for _ in 0..2 {
            if self.calls.list.is_empty() {
                return;
            }
            std::mem::swap(&mut self.calling, &mut self.calls.list);
            let mut calling = std::mem::take(&mut self.calling);
            for (call, generation) in calling.drain(..) {
                if self.calls.holds(&call, generation) {
                    self.make(call, clock);
                }
            }
            self.calling = calling;
        }
    }

    fn make(&mut self, call: Call, clock: &mut impl FnMut() -> Nanoseconds) {
        match call {
            Call::Connect {
                local,
                remote,
                owner,
            } => self.connect(local, remote, owner),
            Call::Send {
                connection,
                len,
                due,
            } => {
                let Some(socket) = self.sockets.get(connection.0 as usize) else {
                    return;
                };
                let generation = socket.generation;
                match due {
                    Some(due) => {
                        self.counters.timed += 1;
                        let item = Due::Stream {
                            connection,
                            generation,
                            len,
                        };
                        match due > self.calls.now() {
                            true => self.departures.push(due, item),
                            false => self.send(connection, len, clock),
                        }
                    }
                    None => self.send(connection, len, clock),
                }
            }
            Call::Finish(connection) => {
                if let Some(socket) = self.sockets.get_mut(connection.0 as usize) {
                    socket.is_finishing = true;
                    self.write(connection, clock);
                }
            }
            Call::Close(connection) => {
                if let Some(socket) = self.sockets.get_mut(connection.0 as usize) {
                    socket.is_closing = true;
                    self.write(connection, clock);
                }
            }
            Call::Abort(connection) => self.over(connection, Reason::Aborted),
            Call::Bind {
                local,
                remote,
                owner,
            } => {
                if let Err(error) = self.bind(local, remote, owner) {
                    let reason = match &error {
                        ListenError::Socket(error) => reason_of(error),
                        ListenError::Observer(_) => Reason::NoRoom,
                    };
                    self.application
                        .on_bind_failed(owner, reason, &mut self.calls);
                }
            }
            Call::Unbind(socket) => self.unbind(socket),
            Call::Datagram(outgoing) => self.on_datagram_call(outgoing, clock),
            Call::Window { connection, bytes } => {
                if let Some(socket) = self.sockets.get_mut(connection.0 as usize) {
                    let was_shut = std::mem::replace(&mut socket.window, bytes) == 0;
                    // The edge of what waits has passed.
                    if was_shut && bytes > 0 && socket.is_open {
                        self.read(connection, true);
                    }
                }
            }
        }
    }

    fn connect(&mut self, local: End, remote: End, owner: u32) {
        let local =
            (!local.0.is_unspecified() || local.1 != 0).then(|| SocketAddr::new(local.0, local.1));
        let made = TcpSocket::connect(remote.into(), local, &self.options);
        let reason = match made {
            Ok(socket) => match self.add(socket, owner) {
                Ok(_) => return,
                Err(_) => Reason::NoRoom,
            },
            Err(error) => reason_of(&error),
        };
        let calls = &mut self.calls;
        self.application.on_close(None, owner, reason, calls);
    }

    fn add(&mut self, socket: TcpSocket, owner: u32) -> io::Result<ConnectionId> {
        let generation = self.next_generation();
        let entry = self.sockets.vacant_entry();
        let number = entry.key();
        let token = u64::from(generation) << 32 | number as u64;
        self.epoll
            .add(&socket, token, Interest::READ_WRITE.on_edge())?;
        entry.insert(Socket {
            socket,
            owner,
            generation,
            is_open: false,
            is_full: false,
            is_finishing: false,
            is_shut: false,
            is_closing: false,
            has_ended: false,
            announced: 0,
            written: 0,
            acknowledged: 0,
            is_reported: false,
            is_deferred: false,
            window: u32::MAX,
        });
        Ok(ConnectionId(number as u32))
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1) & GENERATIONS;
        self.generation
    }

    /// Writes what is due.
    fn depart(&mut self, clock: &mut impl FnMut() -> Nanoseconds) {
        if self.departures.is_empty() {
            return;
        }
        while let Some((_, due)) = self.departures.pop(clock()) {
            match due {
                Due::Stream {
                    connection,
                    generation,
                    len,
                } => {
                    let socket = self.sockets.get(connection.0 as usize);
                    if socket.is_some_and(|socket| socket.generation == generation) {
                        self.send(connection, len, clock);
                    }
                }
                Due::Datagram(outgoing, generation) => {
                    let endpoint = self.endpoints.get(outgoing.socket.0 as usize);
                    if endpoint.is_some_and(|endpoint| endpoint.generation == generation) {
                        self.send_datagram(outgoing, clock);
                    }
                }
            }
        }
    }

    fn send(
        &mut self,
        connection: ConnectionId,
        len: u64,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) {
        if let Some(socket) = self.sockets.get_mut(connection.0 as usize) {
            socket.announced += len;
            self.write(connection, clock);
        }
    }

    /// Writes as much of what is ready as there is room for; ends what is to end after it.
    fn write(&mut self, connection: ConnectionId, clock: &mut impl FnMut() -> Nanoseconds) {
        let place = connection.0 as usize;
        for _ in 0..PASSES_MAX {
            let Some(socket) = self.sockets.get_mut(place).filter(|socket| socket.is_open) else {
                return;
            };
            if socket.is_full {
                return;
            }
            let ready = socket.announced - socket.written;
            if ready == 0 {
                self.after_all(connection);
                return;
            }
            let len = ready.min(BUFFER_BYTES as u64) as usize;
            if A::WANTS_ACKNOWLEDGEMENTS && socket.report(ready == len as u64).is_err() {
                return self.over(connection, Reason::Other);
            }
            let bytes = &mut self.buffer[..len];
            let (owner, offset) = (socket.owner, socket.written);
            self.application.fill(connection, owner, offset, bytes);
            // On a virtual wire the call may take as long as the receiver's whole way in.
            let left_ns = clock();
            match socket.socket.write(bytes) {
                Ok(written) => {
                    socket.written += written as u64;
                    let until = socket.written;
                    // The rest waits for an event, which comes when there is room.
                    socket.is_full = written < len;
                    self.counters.held_back += u64::from(socket.is_full);
                    let application = &mut self.application;
                    application.on_departed(connection, owner, until, left_ns);
                    if !A::WANTS_ACKNOWLEDGEMENTS {
                        let calls = &mut self.calls;
                        application.on_acknowledged(connection, owner, written as u64, calls);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.is_full = true;
                    self.counters.held_back += 1;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.over(connection, reason_of_io(&error)),
            }
        }
        self.defer(connection);
    }

    /// A connection has more to read or to write, after others.
    fn defer(&mut self, connection: ConnectionId) {
        if let Some(socket) = self.sockets.get_mut(connection.0 as usize)
            && !std::mem::replace(&mut socket.is_deferred, true)
        {
            self.deferred.push((connection, socket.generation));
        }
    }

    /// Connections that were deferred go on.
    fn go_on(&mut self, clock: &mut impl FnMut() -> Nanoseconds) {
        std::mem::swap(&mut self.deferred, &mut self.resuming);
        let mut resuming = std::mem::take(&mut self.resuming);
        for (connection, generation) in resuming.drain(..) {
            let socket = self.sockets.get_mut(connection.0 as usize);
            let Some(socket) = socket.filter(|socket| socket.generation == generation) else {
                continue;
            };
            socket.is_deferred = false;
            self.depart(clock);
            self.calls.set_now(clock());
            self.write(connection, clock);
            self.read(connection, true);
            self.call(clock);
        }
        self.resuming = resuming;
    }

    /// Reports to the application what the peer has acknowledged since the last time.
    fn look_for_acknowledgements(&mut self, connection: ConnectionId, is_reported: bool) {
        let Some(socket) = self.sockets.get_mut(connection.0 as usize) else {
            return;
        };
        if is_reported {
            // Before the kernel is asked: a report that comes after this is another event.
            socket.socket.drop_reports();
        }
        if socket.acknowledged == socket.written {
            return;
        }
        let Ok(left) = socket.socket.unacknowledged_bytes() else {
            return;
        };
        let acknowledged = socket.written - u64::from(left).min(socket.written);
        let fresh = acknowledged.saturating_sub(socket.acknowledged);
        if fresh > 0 {
            socket.acknowledged = acknowledged;
            let (owner, calls) = (socket.owner, &mut self.calls);
            self.application
                .on_acknowledged(connection, owner, fresh, calls);
        }
    }

    /// Everything that was ready is written.
    fn after_all(&mut self, connection: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(connection.0 as usize) else {
            return;
        };
        if socket.is_closing {
            return self.over(connection, Reason::Finished);
        }
        if socket.is_finishing && !socket.is_shut {
            socket.is_shut = true;
            let failed = socket.socket.shut_write().err();
            if let Some(error) = failed {
                return self.over(connection, reason_of_io(&error));
            }
        }
        if socket.is_shut && socket.has_ended {
            self.over(connection, Reason::Finished);
        }
    }

    fn on_event(&mut self, event: Ready, clock: &mut impl FnMut() -> Nanoseconds) {
        if event.token & LISTENER != 0 {
            return self.accept((event.token & !LISTENER) as usize);
        }
        let (number, generation) = (event.token as u32, (event.token >> 32) as u32 & GENERATIONS);
        if event.token & DATAGRAMS != 0 {
            return self.receive(SocketId(number), generation, clock);
        }
        let connection = ConnectionId(number);
        let socket = self.sockets.get(number as usize);
        let Some(socket) = socket.filter(|socket| socket.generation == generation) else {
            return;
        };
        if !socket.is_open && !self.on_connected(connection, event) {
            return;
        }
        if A::WANTS_ACKNOWLEDGEMENTS {
            self.look_for_acknowledgements(connection, event.has_failed);
        }
        if event.is_writable
            && let Some(socket) = self.sockets.get_mut(number as usize)
            && std::mem::take(&mut socket.is_full)
        {
            self.write(connection, clock);
        }
        if event.is_readable || event.has_failed {
            self.read(connection, event.has_peer_closed || event.has_failed);
        }
    }

    /// A socket that connects is connected, or has failed; whether it is open.
    fn on_connected(&mut self, connection: ConnectionId, event: Ready) -> bool {
        if !event.is_writable && !event.has_failed {
            return false;
        }
        let Some(socket) = self.sockets.get_mut(connection.0 as usize) else {
            return false;
        };
        let ends = match socket.socket.take_error() {
            Ok(None) => { socket.socket.local_address() }
                .and_then(|local| Ok([local, socket.socket.peer_address()?])),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match ends {
            Ok(ends) => {
                socket.is_open = true;
                let owner = socket.owner;
                let ends = ends.map(|end| (end.ip(), end.port()));
                self.application
                    .on_open(connection, owner, ends, &mut self.calls);
                true
            }
            Err(error) => {
                self.over(connection, reason_of_io(&error));
                false
            }
        }
    }

    /// Reads what has come. An end that has come too may have no edge of its own: `to_the_end`.
    fn read(&mut self, connection: ConnectionId, to_the_end: bool) {
        let descriptor = Descriptor::default();
        for _ in 0..PASSES_MAX {
            let Some(socket) = self.sockets.get_mut(connection.0 as usize) else {
                return;
            };
            if socket.has_ended || socket.window == 0 {
                return;
            }
            let room = (socket.window as usize).min(BUFFER_BYTES);
            let owner = socket.owner;
            match socket.socket.read(&mut self.buffer[..room]) {
                Ok(0) => {
                    socket.has_ended = true;
                    self.application.on_end(connection, owner, &mut self.calls);
                    let socket = self.sockets.get(connection.0 as usize);
                    if socket.is_some_and(|socket| socket.written == socket.announced) {
                        self.after_all(connection);
                    }
                    return;
                }
                Ok(len) => {
                    if socket.window != u32::MAX {
                        socket.window -= len as u32;
                    }
                    let chunk = Chunk::lent(&self.buffer[..len], &descriptor);
                    let calls = &mut self.calls;
                    self.application.on_bytes(connection, owner, chunk, calls);
                    // A short read has taken everything: what comes later is another edge.
                    if len < room && !to_the_end {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.over(connection, reason_of_io(&error)),
            }
        }
        self.defer(connection);
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some((socket, owner)) = self.listeners.get(listener) else {
                return;
            };
            let owner = *owner;
            match socket.accept() {
                Ok((socket, peer)) => self.on_accepted(socket, peer, owner),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    let is_full = matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                    );
                    if is_full {
                        self.counters.not_accepted += 1;
                        self.paused_until = Some(self.calls.now() + PAUSE_NS);
                        self.watch_listeners(Interest::NONE);
                    }
                    return;
                }
            }
        }
    }

    fn on_accepted(&mut self, socket: TcpSocket, peer: SocketAddr, owner: u32) {
        let Ok(local) = socket.local_address() else {
            return;
        };
        let Ok(connection) = self.add(socket, owner) else {
            return;
        };
        if let Some(socket) = self.sockets.get_mut(connection.0 as usize) {
            socket.is_open = true;
        }
        let ends = [(local.ip(), local.port()), (peer.ip(), peer.port())];
        self.application
            .on_open(connection, owner, ends, &mut self.calls);
    }

    /// Listeners that rested are looked at again.
    fn resume(&mut self, now: Nanoseconds) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.watch_listeners(Interest::READ);
        }
    }

    fn watch_listeners(&self, interest: Interest) {
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            // It is watched already: there is nothing that could fail.
            let _ = self
                .epoll
                .modify(listener, LISTENER | number as u64, interest);
        }
    }

    /// A connection is over.
    fn over(&mut self, connection: ConnectionId, reason: Reason) {
        if A::WANTS_ACKNOWLEDGEMENTS {
            self.look_for_acknowledgements(connection, false);
        }
        let Some(socket) = self.sockets.try_remove(connection.0 as usize) else {
            return;
        };
        let (owner, calls) = (socket.owner, &mut self.calls);
        if reason == Reason::Aborted {
            // Without it, the peer hears of the end as it would of any other.
            let _ = socket.socket.reset();
        }
        calls.on_over(connection);
        self.application
            .on_close(Some(connection), owner, reason, calls);
    }
}

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel refuses the address.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It cannot be watched.
    #[error("cannot watch a listener: {0}")]
    Observer(#[from] io::Error),
}

fn reason_of(error: &SocketError) -> Reason {
    reason_of_io(&error.to_io())
}

fn reason_of_io(error: &io::Error) -> Reason {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => Reason::Refused,
        Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED) => Reason::Reset,
        Some(Errno::TIMEDOUT) => Reason::TimedOut,
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => Reason::Unreachable,
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => Reason::NoPort,
        Some(Errno::MFILE | Errno::NFILE) => Reason::NoDescriptor,
        Some(Errno::NOBUFS | Errno::NOMEM) => Reason::NoRoom,
        _ => Reason::Other,
    }
}
