//! `lineside-nfs-client` on a blocking socket. What it sends and hears is counted as it lies on the
//! wire, the client's own calls too.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lineside_frame::{Cursor, Piece};
use lineside_host::Stopwatch;
use lineside_nfs::{mount, v3, v4};
use lineside_nfs_client::records::{Heads, Limits, Records};
use lineside_nfs_client::{
    Answer, Broken, Config, Connection, Credential, Event, Request, Service, Transport, Version,
};
use lineside_rpc::message::{Body, Header, LAST_FRAGMENT};
use lineside_rpc::xdr::Xdr;
use lineside_time::{Nanoseconds, Random};

use super::{Key, Shape, Tally, nfs3, nfs4, success};

/// How long to wait for a reply: a loaded test machine can be slow.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A datagram's longest payload.
const DATAGRAM_LEN_MAX: usize = 65_507;
/// Of a record mark.
const MARK_LEN: usize = 4;
/// A record's longest message, which is looked at whole.
const LIMITS: Limits = Limits {
    head: 8 << 20,
    record: 8 << 20,
};

/// Which call an xid was.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Nfs(v3::Procedure),
    Mount(mount::Procedure),
    Compound(Vec<Key>),
}

impl Asked {
    /// What a call is, by its message.
    fn of(message: &[u8]) -> Option<(u32, Self)> {
        let pieces = [Piece::bytes(message)];
        let mut cursor = Cursor::new(&pieces);
        let header = Header::decode(&mut cursor);
        let Body::Call(call) = header.body else {
            return None;
        };
        let asked = match (call.program?, call.version?, call.procedure?) {
            (mount::PROGRAM, _, procedure) => {
                Self::Mount(mount::Procedure::from_number(procedure)?)
            }
            (_, v3::VERSION, procedure) => Self::Nfs(v3::Procedure::from_number(procedure)?),
            _ => {
                let header = v4::CallHeader::decode(&mut cursor);
                let operations = (0..header.operation_count?).map(|_| {
                    let call = v4::Call::decode(&mut cursor);
                    call.data_len().map(|len| v4::skip_data(&mut cursor, len));
                    operation_key(call.operation())
                });
                Self::Compound(operations.collect())
            }
        };
        Some((header.xid?, asked))
    }

    /// What it counts as.
    fn keys(&self) -> Vec<Key> {
        match self {
            Self::Nfs(procedure) => vec![("nfs", procedure.name())],
            Self::Mount(procedure) => vec![("mount", procedure.name())],
            Self::Compound(keys) => keys.clone(),
        }
    }
}

fn operation_key(operation: Option<v4::Operation>) -> Key {
    ("nfs", operation.map_or("ILLEGAL", v4::Operation::name))
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A direction of the wire, as messages.
struct Wire {
    records: Records,
    heads: Heads,
}

impl Wire {
    fn new() -> Self {
        Self {
            records: Records::default(),
            heads: Heads::new(LIMITS.head),
        }
    }

    fn messages(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        let all = |message: &[u8], _| {
            messages.push(message.to_vec());
            Ok::<_, Broken>(())
        };
        self.records.push(bytes, &mut self.heads, LIMITS, all)?;
        Ok(messages)
    }
}

/// One client of one server port.
pub(super) struct Client {
    engine: lineside_nfs_client::Client,
    connection: Connection,
    socket: Socket,
    shape: Shape,
    random: Random,
    watch: Stopwatch,
    by: Credential,
    /// Every call ever sent, and whether its reply came.
    asked: HashMap<u32, (Asked, bool)>,
    sent: Wire,
    received: Wire,
    /// Bytes of the fragment that is being read.
    due: usize,
    /// Replies that nobody waited for yet.
    heard: VecDeque<(u32, Vec<u8>)>,
    is_closed: bool,
    tally: Tally,
}

impl Client {
    /// Connects, and becomes known to the server. Of `config` the credential, the first xid and the
    /// shape of records are set here.
    pub(super) fn connect(server: SocketAddr, shape: Shape, mut config: Config) -> Result<Self> {
        let socket = Socket::connect(server, shape.udp)?;
        let mut random = Random::new(shape.seed);
        let by = Credential::sys(b"lineside-cli", 0, 0, &[0, 1])?;
        config.credential = by.clone();
        config.first_xid = (random.bits() as u32).wrapping_add(1);
        config.fragments.clone_from(&shape.fragments);
        config.port = server.port();
        config.bytes_max = 1 << 30;
        let mut engine = lineside_nfs_client::Client::new(config);
        let transport = match socket {
            Socket::Tcp(_) => Transport::Stream,
            Socket::Udp(_) => Transport::Datagrams,
        };
        engine.start(0);
        let connection = engine.opened(0, Service::Nfs, server.port(), transport);
        let mut client = Self {
            engine,
            connection,
            socket,
            shape,
            random,
            watch: Stopwatch::start(),
            by,
            asked: HashMap::new(),
            sent: Wire::new(),
            received: Wire::new(),
            due: 0,
            heard: VecDeque::new(),
            is_closed: false,
            tally: Tally::default(),
        };
        while !client.engine.is_ready() {
            client.flush()?;
            client.receive()?;
        }
        client.follow()?;
        Ok(client)
    }

    /// What was done so far.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The root of the export that was mounted.
    pub(super) fn root(&self) -> &[u8] {
        self.engine.root()
    }

    /// Of READ, whose reply has data.
    pub(super) fn is_read(&self, xid: u32) -> bool {
        let asked = self.asked.get(&xid).map(|(asked, _)| asked);
        matches!(asked, Some(Asked::Nfs(v3::Procedure::Read)))
    }

    /// Calls NFS, and returns what `read` makes of the reply and, of READ, of the data.
    pub(super) fn nfs<T>(
        &mut self,
        call: v3::Call<'_>,
        data: &[u8],
        read: impl FnOnce(v3::Reply<'_>, &[u8]) -> T,
    ) -> Result<T> {
        let xid = self.send(Request::Nfs3(&call, data))?;
        let message = self.wait(Some(xid))?.1;
        nfs3::nfs_reply(call.procedure(), &message, read)
    }

    /// Calls MOUNT.
    pub(super) fn mount<T>(
        &mut self,
        call: mount::Call<'_>,
        read: impl FnOnce(mount::Reply<'_>) -> T,
    ) -> Result<T> {
        let xid = self.send(Request::Mount(&call))?;
        let message = self.wait(Some(xid))?.1;
        let pieces = [Piece::bytes(&message)];
        let mut cursor = success(&pieces)?;
        Ok(read(mount::Reply::decode(call.procedure(), &mut cursor)))
    }

    /// Takes a call, which leaves when a reply is waited for, so that several can share a segment.
    pub(super) fn send(&mut self, request: Request<'_>) -> Result<u32> {
        let now = self.now();
        let (connection, by) = (self.connection, &self.by);
        Ok(self.engine.call(now, connection, 0, by, request)?)
    }

    fn now(&self) -> Nanoseconds {
        self.watch.elapsed().as_nanos() as Nanoseconds
    }

    fn flush(&mut self) -> Result<()> {
        let now = self.now();
        if self.engine.next_deadline().is_some_and(|at| at <= now) {
            self.engine.on_time(now);
        }
        loop {
            let mut bytes = Vec::new();
            if !self.engine.transmit(self.connection, &mut bytes) {
                return Ok(());
            }
            let messages = match &self.socket {
                Socket::Tcp(_) => self.sent.messages(&bytes)?,
                Socket::Udp(_) => vec![bytes.clone()],
            };
            for message in messages {
                self.note_call(&message)?;
            }
            self.write(&bytes)?;
        }
    }

    fn note_call(&mut self, message: &[u8]) -> Result<()> {
        let (xid, asked) = Asked::of(message).context("a call that cannot be read")?;
        for key in asked.keys() {
            self.tally.procedures.entry(key).or_default().calls += 1;
        }
        self.asked.insert(xid, (asked, false));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.socket {
            Socket::Tcp(socket) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let len = match self.shape.segment_len_max {
                        Some(max) => 1 + self.random.below(max as u64) as usize,
                        None => rest.len(),
                    };
                    let (piece, behind) = rest.split_at(len.min(rest.len()));
                    let written = socket.write_all(piece);
                    written.context("the server closed the connection")?;
                    rest = behind;
                }
            }
            Socket::Udp(socket) => {
                let len = bytes.len();
                let fits = len <= DATAGRAM_LEN_MAX;
                ensure!(fits, "a call of {len} bytes does not fit in a datagram");
                socket.send(bytes)?;
                if self.random.chance(self.shape.repeat) {
                    socket.send(bytes)?;
                    let keys = Asked::of(bytes).map(|(_, asked)| asked.keys());
                    for key in keys.unwrap_or_default() {
                        self.tally.procedures.entry(key).or_default().repeats += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The next reply to a caller's call; with `xid`, that one, and others are an error.
    pub(super) fn wait(&mut self, xid: Option<u32>) -> Result<(u32, Vec<u8>)> {
        loop {
            self.flush()?;
            if let Some((answered, message)) = self.heard.pop_front() {
                let is_it = xid.is_none_or(|xid| xid == answered);
                ensure!(is_it, "xid {answered:#x} was answered out of turn");
                return Ok((answered, message));
            }
            self.receive()?;
        }
    }

    /// Takes what comes next.
    fn receive(&mut self) -> Result<()> {
        let mut bytes = vec![0; DATAGRAM_LEN_MAX];
        let len = match &mut self.socket {
            Socket::Udp(socket) => socket.recv(&mut bytes).context("no reply")?,
            // A mark, then its fragment, as most clients read: the windows that they offer follow.
            Socket::Tcp(socket) if self.due == 0 => {
                let mark: &mut [u8; MARK_LEN] = bytes.first_chunk_mut().expect("it is longer");
                socket.read_exact(mark).context("no reply")?;
                self.due = (u32::from_be_bytes(*mark) & !LAST_FRAGMENT) as usize;
                MARK_LEN
            }
            Socket::Tcp(socket) => {
                let most = self.due.min(DATAGRAM_LEN_MAX);
                let len = socket.read(&mut bytes[..most]).context("a reply was cut")?;
                self.due -= len;
                len
            }
        };
        ensure!(len > 0, "the server closed the connection");
        let bytes = &bytes[..len];
        let messages = match &self.socket {
            Socket::Tcp(_) => self.received.messages(bytes)?,
            Socket::Udp(_) => vec![bytes.to_vec()],
        };
        for message in messages {
            self.note_reply(&message)?;
        }
        let (now, heard) = (self.now(), &mut self.heard);
        self.engine.on_bytes(now, self.connection, bytes, |reply| {
            if let (Some(_), Answer::Results(results)) = (reply.tag, reply.answer) {
                heard.push_back((reply.xid, results.message().to_vec()));
            }
        })?;
        self.follow()
    }

    fn note_reply(&mut self, message: &[u8]) -> Result<()> {
        let pieces = [Piece::bytes(message)];
        let Some(answered) = Cursor::new(&pieces).u32() else {
            bail!("a reply of {} bytes", message.len())
        };
        let Some((asked, done)) = self.asked.get_mut(&answered) else {
            bail!("a reply to xid {answered:#x}, which was not sent")
        };
        let is_duplicate = std::mem::replace(done, true);
        for (key, status, bytes) in outcomes(asked, message)? {
            let count = self.tally.procedures.entry(key).or_default();
            if is_duplicate {
                count.duplicate_replies += 1;
                continue;
            }
            count.replies += 1;
            count.bytes += bytes;
            if let Some(status) = status {
                *count.statuses.entry(status).or_default() += 1;
            }
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<()> {
        while let Some(event) = self.engine.poll() {
            match event {
                Event::Failed(error) => return Err(error.into()),
                Event::Closed => self.is_closed = true,
                Event::Lost(..) => bail!("a call was lost"),
                // The one that there is, is what is asked for.
                Event::Connect(..) | Event::Ready => {}
            }
        }
        Ok(())
    }

    /// Has the server forget this client.
    pub(super) fn finish(&mut self) -> Result<()> {
        let now = self.now();
        self.engine.finish(now);
        self.follow()?;
        while !self.is_closed {
            self.flush()?;
            self.receive()?;
        }
        Ok(())
    }

    /// Waits for late second replies to repeated datagrams, so that they are counted.
    pub(super) fn drain(&mut self) -> Result<()> {
        let set = |socket: &Socket, timeout| match socket {
            Socket::Udp(socket) => socket.set_read_timeout(Some(timeout)),
            Socket::Tcp(_) => Ok(()),
        };
        if let Socket::Udp(_) = &self.socket {
            set(&self.socket, Duration::from_millis(300))?;
            while self.receive().is_ok() {}
            set(&self.socket, TIMEOUT)?;
        }
        Ok(())
    }
}

/// A client of NFSv3 or of MOUNT, which mounts nothing by itself.
pub(super) fn version_3() -> Config {
    Config::new(Version::V3, &[], [0; 8])
}

impl Socket {
    fn connect(server: SocketAddr, udp: bool) -> Result<Self> {
        let named = || format!("cannot connect to {server}");
        if udp {
            let any: SocketAddr = if server.is_ipv4() {
                "0.0.0.0:0".parse()?
            } else {
                "[::]:0".parse()?
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(server).with_context(named)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            return Ok(Self::Udp(socket));
        }
        let socket = TcpStream::connect_timeout(&server, TIMEOUT).with_context(named)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self::Tcp(socket))
    }
}

/// What a reply counts as: statuses' names, and bytes moved.
fn outcomes(asked: &Asked, message: &[u8]) -> Result<Vec<(Key, Option<String>, u64)>> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = success(&pieces)?;
    let name = |known: Option<&'static str>, status: u32| {
        known.map_or_else(|| status.to_string(), str::to_owned)
    };
    Ok(match asked {
        Asked::Nfs(procedure) => {
            let reply = v3::Reply::decode(*procedure, &mut cursor);
            let status = reply
                .status()
                .map(|status| name(v3::status_name(status), status));
            let bytes = reply.transferred().unwrap_or(0);
            vec![(("nfs", procedure.name()), status, bytes.into())]
        }
        Asked::Mount(procedure) => {
            let status = mount::Reply::decode(*procedure, &mut cursor).status();
            let status = status.map(|status| name(mount::status_name(status), status));
            vec![(("mount", procedure.name()), status, 0)]
        }
        Asked::Compound(_) => nfs4::results(message, |replies, _| {
            let one = |reply: &v4::Reply<'_>| {
                let status = reply
                    .status()
                    .map(|status| name(v4::status_name(status), status));
                let bytes = reply.transferred().unwrap_or(0);
                (operation_key(reply.operation()), status, bytes)
            };
            replies.iter().map(one).collect()
        })?,
    })
}
