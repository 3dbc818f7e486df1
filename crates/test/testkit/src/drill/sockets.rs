//! Sockets over the stack: buffers, ends, errors and queues as an application sees them.

use std::collections::{BTreeMap, VecDeque};

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_tcp::{Closed, ConnectionId, Departure, Effects, Event, Refused, Stack};

use super::packet::{Left, content, wrapped};
use super::settings::Settings;

/// When the stack's clock stands at the beginning of a script.
pub(super) const BEGIN_NS: i64 = 1_000_000_000_000;
const MEMORY_BYTES: usize = 64 << 20;
/// In an owner's word: a listener's, whose port follows. Else it is the place of a connection.
const LISTENS: u32 = 1 << 31;

/// A connection as its socket knows it.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// `None` once it is over.
    pub(super) id: Option<ConnectionId>,
    /// Ours and the peer's.
    pub(super) ports: [u16; 2],
    /// The socket's port that it came to.
    pub(super) listener: Option<u16>,
    pub(super) is_open: bool,
    pub(super) received: u64,
    pub(super) unread: u64,
    pub(super) has_ended: bool,
    pub(super) is_over: bool,
    /// Of SO_ERROR, until it is reported.
    pub(super) error: Option<&'static str>,
    /// Bytes that were written, of them given to the stack, and acknowledged.
    pub(super) written: u64,
    pub(super) announced: u64,
    pub(super) acknowledged: u64,
    pub(super) is_shut: bool,
    pub(super) is_read_shut: bool,
    /// Of a write that blocks, what was taken.
    pub(super) progress: u64,
    pub(super) receive_bytes: u32,
    pub(super) send_bytes: u32,
}

/// What the stack does is noted down.
#[derive(Debug, Default)]
struct Owner {
    frames: Vec<Frame>,
    connections: Vec<Connection>,
    places: BTreeMap<ConnectionId, usize>,
    /// Opened since they were looked at.
    opened: Vec<usize>,
    wrong: Option<String>,
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, _: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        for (byte, at) in bytes.iter_mut().zip(offset as u32 + 1..) {
            *byte = content(at);
        }
    }

    fn on_event(&mut self, id: ConnectionId, owner: u32, event: Event<'_>) {
        if let Event::Opened { ends } = event {
            let place = match owner & LISTENS {
                0 => owner as usize,
                _ => {
                    self.connections.push(Connection {
                        id: Some(id),
                        ports: ends.map(|(_, port)| port),
                        listener: Some(owner as u16),
                        ..Connection::default()
                    });
                    self.connections.len() - 1
                }
            };
            self.connections[place].is_open = true;
            self.places.insert(id, place);
            self.opened.push(place);
            return;
        }
        let Some(&place) = self.places.get(&id) else {
            return;
        };
        let connection = &mut self.connections[place];
        match event {
            Event::Opened { .. } => {}
            Event::Stream(chunk) => {
                let numbers = connection.received as u32 + 1..;
                let mut pairs = chunk.bytes().iter().zip(numbers);
                if let Some((_, at)) = pairs.find(|&(&byte, at)| byte != content(at)) {
                    self.wrong = Some(format!("byte {at} that came is not that of the stream"));
                }
                connection.received += chunk.len() as u64;
                connection.unread += chunk.len() as u64;
            }
            Event::Acknowledged(bytes) => connection.acknowledged += bytes,
            Event::Ended => connection.has_ended = true,
            Event::Closed(why) => {
                connection.error = match why {
                    Closed::Finished | Closed::Aborted => None,
                    Closed::Reset => Some("ECONNRESET"),
                    Closed::Refused | Closed::Unreachable => Some("ECONNREFUSED"),
                    Closed::TimedOut => Some("ETIMEDOUT"),
                };
                (connection.is_over, connection.id) = (true, None);
                self.places.remove(&id);
            }
        }
    }
}

/// What a socket is for.
#[derive(Debug)]
pub(super) enum Role {
    Fresh,
    Listener(VecDeque<usize>),
    Stream(usize),
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) role: Role,
    pub(super) port: Option<u16>,
    pub(super) is_nonblocking: bool,
    /// What was asked for by SO_RCVBUF and SO_SNDBUF.
    pub(super) receive_bytes: Option<u32>,
    pub(super) send_bytes: Option<u32>,
    /// All data that are not read or sent are dropped on close.
    pub(super) aborts: bool,
    pub(super) is_corked: bool,
    /// The result of a connect that was in progress has been reported.
    pub(super) is_reported: bool,
    /// Options by name, as they were set.
    pub(super) options: BTreeMap<String, i64>,
}

impl Socket {
    fn new(role: Role) -> Self {
        Self {
            role,
            port: None,
            is_nonblocking: false,
            receive_bytes: None,
            send_bytes: None,
            aborts: false,
            is_corked: false,
            is_reported: false,
            options: BTreeMap::new(),
        }
    }
}

/// The stack, its clock and its sockets.
#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: Settings,
    stack: Option<Stack>,
    pub(super) now: i64,
    owner: Owner,
    pub(super) sockets: BTreeMap<i64, Socket>,
    /// Segments that left and were not expected yet.
    pub(super) left: VecDeque<Left>,
    /// Ours and the peer's of segments that name none.
    pub(super) ports: [u16; 2],
    /// What the peers' SYNs say, by ports.
    segment_sizes: BTreeMap<[u16; 2], u16>,
    next_port: u16,
    is_foreign: bool,
}

impl World {
    pub(super) fn new(settings: Settings, is_foreign: bool) -> Self {
        Self {
            settings,
            stack: None,
            now: BEGIN_NS,
            owner: Owner::default(),
            sockets: BTreeMap::new(),
            left: VecDeque::new(),
            ports: [8080, 50_000],
            segment_sizes: BTreeMap::new(),
            next_port: 60_000,
            is_foreign,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.stack.is_some()
    }

    /// The stack, which begins with the first packet or connection, and who hears it.
    fn stack(&mut self) -> (&mut Stack, &mut Owner) {
        let (settings, sockets) = (&self.settings, &self.sockets);
        let stack = self.stack.get_or_insert_with(|| {
            let asked = sockets.values().filter_map(|socket| socket.receive_bytes);
            let mut config = settings.config.clone();
            config.receive_window_bytes = asked.max().unwrap_or(settings.receive_max);
            Stack::new(config, [0, 0x5eed], &Budget::new(MEMORY_BYTES)).expect("there is room")
        });
        (stack, &mut self.owner)
    }

    /// Time passes up to an instant, or until something left.
    pub(super) fn pass(&mut self, until: i64, stops: bool) {
        while self.left.is_empty() || !stops {
            let deadline = { self.stack.as_ref() }.and_then(Stack::next_deadline);
            let Some(at) = deadline.filter(|&at| at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(at);
            let now = self.now;
            let (stack, owner) = self.stack();
            stack.on_timer(now, owner);
            self.settle();
        }
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.stack.as_ref().and_then(Stack::next_deadline)
    }

    /// A frame of the peer arrives.
    pub(super) fn give(&mut self, frame: &[u8]) {
        let now = self.now;
        let mut burst = Burst::new();
        burst.push(wrapped(frame));
        let (stack, owner) = self.stack();
        stack.on_burst(now, &mut burst, owner);
        self.settle();
    }

    /// What the stack did is sorted: questions are answered, segments wait to be compared, and
    /// connections get their windows.
    fn settle(&mut self) {
        loop {
            let frames = std::mem::take(&mut self.owner.frames);
            let opened = std::mem::take(&mut self.owner.opened);
            if frames.is_empty() && opened.is_empty() {
                return;
            }
            for frame in frames {
                let frame = frame.share();
                let at = self.now - BEGIN_NS;
                match self.settings.ends.read(frame.bytes(), at) {
                    Ok(Some(left)) => self.left.push_back(left),
                    Ok(None) => {
                        let answer = self.settings.ends.answer();
                        self.give(&answer);
                    }
                    Err(what) => self.owner.wrong = Some(what),
                }
            }
            for place in opened {
                self.greet(place);
            }
        }
    }

    /// A connection is open: it has its socket's buffers, and waits to be accepted.
    fn greet(&mut self, place: usize) {
        if let Some(port) = self.owner.connections[place].listener {
            let mut sockets = self.sockets.values_mut();
            let listener = sockets.find_map(|socket| match &mut socket.role {
                Role::Listener(queue) if socket.port == Some(port) => {
                    Some((queue, socket.receive_bytes, socket.send_bytes))
                }
                _ => None,
            });
            let Some((queue, receive_bytes, send_bytes)) = listener else {
                return;
            };
            queue.push_back(place);
            let connection = &mut self.owner.connections[place];
            connection.receive_bytes = receive_bytes.unwrap_or(self.settings.receive_bytes);
            connection.send_bytes = send_bytes.unwrap_or(self.settings.send_bytes);
        }
        self.offer(place);
    }

    pub(super) fn connection(&mut self, place: usize) -> &mut Connection {
        &mut self.owner.connections[place]
    }

    /// What the stack did wrong that no line of a script can name.
    pub(super) fn wrong(&mut self) -> Option<String> {
        let broken = { self.stack.as_ref() }.and_then(|stack| stack.counters().broken_identity());
        self.owner.wrong.take().or(broken)
    }

    /// The receive buffer of a connection.
    pub(super) fn buffer(&self, place: usize) -> u32 {
        let connection = &self.owner.connections[place];
        let size = self.segment_size(connection.ports);
        match size.filter(|_| self.settings.rounds_buffers) {
            Some(size) => connection.receive_bytes.next_multiple_of(size.into()),
            None => connection.receive_bytes,
        }
    }

    /// A SYN of the peer comes: where buffers are whole segments, that of a connection which waits
    /// for it grows.
    pub(super) fn learn_segment_size(&mut self, ports: [u16; 2], size: u16) {
        self.segment_sizes.entry(ports).or_insert(size);
        let mut connections = self.owner.connections.iter();
        let place = connections.rposition(|each| each.ports == ports && !each.is_open);
        if let Some(place) = place {
            self.offer(place);
        }
    }

    /// The segment size between two ports, once the peer's SYN has come.
    pub(super) fn segment_size(&self, ports: [u16; 2]) -> Option<u16> {
        let headers = if self.settings.ends.ours.is_ipv4() {
            40
        } else {
            60
        };
        let ours = (self.settings.config.mtu - headers) as u16;
        let theirs = self.segment_sizes.get(&ports)?;
        Some(ours.min(*theirs))
    }

    /// Offers what the receive buffer has room for.
    pub(super) fn offer(&mut self, place: usize) {
        let buffer = u64::from(self.buffer(place));
        let now = self.now;
        let connection = &self.owner.connections[place];
        let room = buffer.saturating_sub(connection.unread) as u32;
        let Some(id) = connection.id else { return };
        self.call(|stack, owner| stack.set_window(now, id, room, owner));
    }

    /// A call into the stack that cannot be refused but for want of room, which is wrong.
    fn call(&mut self, call: impl FnOnce(&mut Stack, &mut Owner) -> Result<(), Refused>) {
        let (stack, owner) = self.stack();
        if let Err(refused) = call(stack, owner) {
            owner.wrong = Some(format!("the stack refuses a call: {refused}"));
        }
        self.settle();
    }

    /// A new socket, under the lowest free number; in a script of others under the wanted one, as
    /// packetdrill does not compare them.
    pub(super) fn open_socket(&mut self, role: Role, wanted: i64) -> i64 {
        let is_free = |fd: &i64| !self.sockets.contains_key(fd);
        let wanted = Some(wanted).filter(|fd| self.is_foreign && *fd >= 3 && is_free(fd));
        let fd = wanted.or_else(|| (3..).find(is_free));
        let fd = fd.expect("numbers do not end");
        self.sockets.insert(fd, Socket::new(role));
        fd
    }

    pub(super) fn listen(&mut self, port: u16) -> Result<(), Refused> {
        self.ports[0] = port;
        let (stack, _) = self.stack();
        stack.listen(None, port, LISTENS | u32::from(port))
    }

    /// Opens a connection for a socket.
    pub(super) fn connect(&mut self, fd: i64, remote_port: u16) -> Result<usize, Refused> {
        let socket = &self.sockets[&fd];
        let port = socket.port.unwrap_or(self.next_port);
        self.next_port += u16::from(socket.port.is_none());
        let place = self.owner.connections.len();
        let mut connection = Connection {
            ports: [port, remote_port],
            receive_bytes: socket.receive_bytes.unwrap_or(self.settings.receive_bytes),
            send_bytes: socket.send_bytes.unwrap_or(self.settings.send_bytes),
            ..Connection::default()
        };
        self.ports = connection.ports;
        let (now, ends) = (self.now, self.settings.ends);
        let (local, remote) = ((ends.ours, port), (ends.theirs, remote_port));
        let (stack, owner) = self.stack();
        let id = stack.connect(now, local, remote, place as u32, owner)?;
        connection.id = Some(id);
        owner.connections.push(connection);
        owner.places.insert(id, place);
        self.settle();
        self.offer(place);
        Ok(place)
    }

    /// Gives the stack what was written, whole segments only while the socket is corked.
    pub(super) fn push(&mut self, place: usize, is_corked: bool) {
        let size = self.segment_size(self.owner.connections[place].ports);
        let size = u64::from(size.unwrap_or(536));
        let now = self.now;
        let connection = &mut self.owner.connections[place];
        let waiting = connection.written - connection.announced;
        let len = if is_corked {
            waiting - waiting % size
        } else {
            waiting
        };
        let Some(id) = connection.id.filter(|_| len > 0) else {
            return;
        };
        connection.announced += len;
        self.call(|stack, owner| stack.send(now, id, len, owner));
    }

    /// Whether short segments wait for others.
    pub(super) fn set_delay(&mut self, place: usize, waits: bool) {
        let now = self.now;
        if let Some(id) = self.owner.connections[place].id {
            self.call(|stack, owner| stack.set_delay(now, id, waits, owner));
        }
    }

    pub(super) fn shutdown(&mut self, place: usize) {
        self.push(place, false);
        let now = self.now;
        let connection = &mut self.owner.connections[place];
        connection.is_shut = true;
        if let Some(id) = connection.id {
            self.call(|stack, owner| stack.shutdown(now, id, owner));
        }
    }

    /// Closes a connection; one with unread data is aborted (RFC 9293, 3.6.1).
    pub(super) fn close(&mut self, place: usize, aborts: bool) {
        self.push(place, false);
        let now = self.now;
        let connection = &self.owner.connections[place];
        let aborts = aborts || connection.unread > 0;
        let Some(id) = connection.id else { return };
        self.call(|stack, owner| match aborts {
            true => stack.abort(now, id, owner),
            false => stack.close(now, id, owner),
        });
    }

    /// The state of the socket that was opened last, as far as an application knows it.
    pub(super) fn state(&self) -> &'static str {
        let socket = self.sockets.values().next_back();
        let place = match socket.map(|socket| &socket.role) {
            Some(Role::Stream(place)) => *place,
            Some(Role::Listener(_)) => return "TCPI_LISTEN",
            _ => return "TCPI_CLOSE",
        };
        let connection = &self.owner.connections[place];
        match connection {
            Connection { is_over: true, .. } => "TCPI_CLOSE",
            Connection { is_open: false, .. } => {
                match self.segment_sizes.contains_key(&connection.ports) {
                    true => "TCPI_SYN_RECEIVED",
                    false => "TCPI_SYN_SENT",
                }
            }
            Connection { is_shut: true, .. } => "TCPI_FIN_WAIT",
            Connection {
                has_ended: true, ..
            } => "TCPI_CLOSE_WAIT",
            _ => "TCPI_ESTABLISHED",
        }
    }

    pub(super) fn unlisten(&mut self, port: u16) {
        let (stack, owner) = self.stack();
        stack.unlisten(None, port, owner);
    }
}
