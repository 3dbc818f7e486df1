//! A client of NFSv3, NFSv4.0 and NFSv4.1 on kernel sockets that speaks through our own encoder,
//! and counts what it did.
//!
//! It sends what a test asks for: record fragments of chosen sizes, TCP segments of a few bytes,
//! many calls at once, the same datagram twice. It is not a file system: it waits for replies, and
//! fails when one does not come.

mod nfs3;
mod nfs4;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lineside_frame::{Cursor, Piece};
use lineside_nfs::{mount, v3, v4};
use lineside_rpc::message::{
    Auth, AuthSys, Body, CallHeader, Flavor, Header, RPC_VERSION, encode_record,
};
use lineside_rpc::xdr::{Array, Name, Opaque, Xdr, pad};
use lineside_time::Random;
use serde_json::{Map, Value, json};

pub use nfs3::Session;
pub use nfs4::Session4;

/// How long to wait for a reply: a loaded test machine can be slow.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A datagram's longest payload.
const DATAGRAM_LEN_MAX: usize = 65_507;
/// 512 bytes: what the trace checksums.
const BLOCK_LEN: u64 = 512;

/// How calls look on the wire.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// UDP, not TCP.
    pub udp: bool,
    /// Sizes of a record's first fragments; the last one takes the rest.
    pub fragments: Vec<usize>,
    /// TCP is written in pieces of 1 to this many bytes, each a segment of its own.
    pub segment_len_max: Option<usize>,
    /// Probability that a datagram is sent twice.
    pub repeat: f64,
    /// Seeds xids, pieces and repetitions.
    pub seed: u64,
}

/// What was sent and received, by program and procedure; of NFSv4 by operation.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    procedures: BTreeMap<(&'static str, &'static str), Count>,
}

#[derive(Debug, Clone, Default)]
struct Count {
    calls: u64,
    repeats: u64,
    replies: u64,
    duplicate_replies: u64,
    bytes: u64,
    statuses: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, count) in &other.procedures {
            let mine = self.procedures.entry(*key).or_default();
            mine.calls += count.calls;
            mine.repeats += count.repeats;
            mine.replies += count.replies;
            mine.duplicate_replies += count.duplicate_replies;
            mine.bytes += count.bytes;
            for (status, times) in &count.statuses {
                *mine.statuses.entry(status.clone()).or_default() += times;
            }
        }
    }

    /// `{"nfs": {"READ": {"calls": 3, …}}}`. `repeats` are not in `calls`, nor `duplicate_replies`
    /// in `replies`; `bytes` are those that READ and WRITE moved.
    pub fn to_json(&self) -> Value {
        let mut programs = Map::new();
        for ((program, procedure), count) in &self.procedures {
            let row = json!({
                "calls": count.calls,
                "repeats": count.repeats,
                "replies": count.replies,
                "duplicate_replies": count.duplicate_replies,
                "bytes": count.bytes,
                "statuses": count.statuses,
            });
            let program = programs.entry(*program).or_insert_with(|| json!({}));
            program[*procedure] = row;
        }
        Value::Object(programs)
    }
}

/// A call of any program.
enum Call<'a> {
    Nfs(v3::Call<'a>),
    Mount(mount::Call<'a>),
    /// Of this minor version.
    Compound(u32, &'a [v4::Call<'a>]),
}

/// Which call an xid was.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Nfs(v3::Procedure),
    Mount(mount::Procedure),
    Compound,
}

/// What is counted together: a program, and its procedure or operation.
type Key = (&'static str, &'static str);

impl Call<'_> {
    fn asked(&self) -> Asked {
        match self {
            Self::Nfs(call) => Asked::Nfs(call.procedure()),
            Self::Mount(call) => Asked::Mount(call.procedure()),
            Self::Compound(..) => Asked::Compound,
        }
    }

    /// Program, version and procedure.
    fn numbers(&self) -> [u32; 3] {
        match self {
            Self::Nfs(call) => [v3::PROGRAM, v3::VERSION, call.procedure().number()],
            Self::Mount(call) => [mount::PROGRAM, mount::VERSION, call.procedure().number()],
            Self::Compound(..) => [v4::PROGRAM, v4::VERSION, v4::COMPOUND],
        }
    }

    /// What it counts as.
    fn keys(&self) -> Vec<Key> {
        match self {
            Self::Nfs(call) => vec![("nfs", call.procedure().name())],
            Self::Mount(call) => vec![("mount", call.procedure().name())],
            Self::Compound(_, calls) => calls
                .iter()
                .map(|call| operation_key(call.operation()))
                .collect(),
        }
    }

    /// Appends the arguments; `data` is what WRITE's are followed by.
    fn encode(&self, data: &[u8], out: &mut Vec<u8>) {
        let with_data = |out: &mut Vec<u8>| {
            out.extend_from_slice(data);
            pad(out, data.len());
        };
        match self {
            Self::Nfs(call) => {
                call.encode(out);
                with_data(out);
            }
            Self::Mount(call) => call.encode(out),
            Self::Compound(minor_version, calls) => {
                let header = v4::CallHeader {
                    tag: Some(Name::new(&[])),
                    minor_version: Some(*minor_version),
                    operation_count: Some(calls.len() as u32),
                };
                header.encode(out);
                for call in *calls {
                    call.encode(out);
                    if let v4::Call::Write(_) = call {
                        with_data(out);
                    }
                }
            }
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

/// One client of one server port.
pub struct Client {
    socket: Socket,
    shape: Shape,
    random: Random,
    xid: u32,
    /// Every call ever sent, and whether its reply came.
    asked: HashMap<u32, (Asked, bool)>,
    /// Records to be written at once.
    unsent: Vec<u8>,
    tally: Tally,
}

impl Client {
    /// Connects.
    pub fn connect(server: SocketAddr, shape: Shape) -> Result<Self> {
        let named = || format!("cannot connect to {server}");
        let socket = if shape.udp {
            let any: SocketAddr = if server.is_ipv4() {
                "0.0.0.0:0".parse()?
            } else {
                "[::]:0".parse()?
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(server).with_context(named)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Socket::Udp(socket)
        } else {
            let socket = TcpStream::connect_timeout(&server, TIMEOUT).with_context(named)?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Socket::Tcp(socket)
        };
        let mut random = Random::new(shape.seed);
        let xid = random.bits() as u32;
        Ok(Self {
            socket,
            shape,
            random,
            xid,
            asked: HashMap::new(),
            unsent: vec![],
            tally: Tally::default(),
        })
    }

    /// What was done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Calls NFS, and returns what `read` makes of the reply and, of READ, of the data.
    pub fn nfs<T>(
        &mut self,
        call: v3::Call<'_>,
        data: &[u8],
        read: impl FnOnce(v3::Reply<'_>, &[u8]) -> T,
    ) -> Result<T> {
        let procedure = call.procedure();
        let xid = self.send(&Call::Nfs(call), data)?;
        self.flush()?;
        let message = self.wait(Some(xid))?.1;
        nfs3::nfs_reply(procedure, &message, read)
    }

    /// Calls MOUNT.
    pub fn mount<T>(
        &mut self,
        call: mount::Call<'_>,
        read: impl FnOnce(mount::Reply<'_>) -> T,
    ) -> Result<T> {
        let procedure = call.procedure();
        let xid = self.send(&Call::Mount(call), &[])?;
        self.flush()?;
        let message = self.wait(Some(xid))?.1;
        let pieces = [Piece::bytes(&message)];
        let mut cursor = success(&pieces)?;
        Ok(read(mount::Reply::decode(procedure, &mut cursor)))
    }

    /// Encodes a call. TCP is written by [`flush`](Self::flush), so that several calls can share a
    /// segment.
    fn send(&mut self, call: &Call<'_>, data: &[u8]) -> Result<u32> {
        self.xid = self.xid.wrapping_add(1);
        let [program, version, procedure] = call.numbers();
        let mut credential = Vec::new();
        let machine = [Piece::bytes(b"lineside-cli")];
        let caller = AuthSys {
            stamp: Some(0),
            machine_name: Some(Opaque::new(&machine)),
            uid: Some(0),
            gid: Some(0),
            gids: Array::new(&[0, 1]),
        };
        caller.encode(&mut credential);
        let credential = [Piece::bytes(&credential)];
        let header = Header {
            xid: Some(self.xid),
            body: Body::Call(CallHeader {
                rpc_version: Some(RPC_VERSION),
                program: Some(program),
                version: Some(version),
                procedure: Some(procedure),
                credential: Auth::new(Flavor::SYS, &credential),
                verifier: Auth::none(),
            }),
        };
        let mut message = Vec::with_capacity(256 + data.len());
        header.encode(&mut message);
        call.encode(data, &mut message);

        self.asked.insert(self.xid, (call.asked(), false));
        let keys = call.keys();
        for key in &keys {
            self.tally.procedures.entry(*key).or_default().calls += 1;
        }
        match &self.socket {
            Socket::Tcp(_) => {
                // Those that fit, from the first: nfs-ganesha wants the RPC header in one fragment.
                let mut rest = message.len();
                let fits = |size: &&usize| {
                    rest = rest.saturating_sub(**size);
                    rest > 0
                };
                let fragments: Vec<_> = self
                    .shape
                    .fragments
                    .iter()
                    .take_while(fits)
                    .copied()
                    .collect();
                encode_record(&fragments, &message, &mut self.unsent);
            }
            Socket::Udp(socket) => {
                ensure!(
                    message.len() <= DATAGRAM_LEN_MAX,
                    "a call of {} bytes does not fit in a datagram",
                    message.len()
                );
                socket.send(&message)?;
                if self.random.chance(self.shape.repeat) {
                    socket.send(&message)?;
                    for key in keys {
                        self.tally.procedures.entry(key).or_default().repeats += 1;
                    }
                }
            }
        }
        Ok(self.xid)
    }

    fn flush(&mut self) -> Result<()> {
        let Socket::Tcp(socket) = &mut self.socket else {
            return Ok(());
        };
        let mut rest = &self.unsent[..];
        while !rest.is_empty() {
            let len = match self.shape.segment_len_max {
                Some(max) => 1 + self.random.below(max as u64) as usize,
                None => rest.len(),
            };
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            socket
                .write_all(piece)
                .context("the server closed the connection")?;
            rest = behind;
        }
        self.unsent.clear();
        Ok(())
    }

    /// The next reply that was not seen before; with `xid`, that one, and others are an error.
    fn wait(&mut self, xid: Option<u32>) -> Result<(u32, Vec<u8>)> {
        loop {
            let message = self.receive()?;
            let pieces = [Piece::bytes(&message)];
            let Some(answered) = Cursor::new(&pieces).u32() else {
                bail!("a reply of {} bytes", message.len())
            };
            let Some((asked, done)) = self.asked.get_mut(&answered) else {
                bail!("a reply to xid {answered:#x}, which was not sent")
            };
            let is_duplicate = std::mem::replace(done, true);
            for (key, status, bytes) in outcomes(*asked, &message)? {
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
            if is_duplicate {
                continue;
            }
            ensure!(
                xid.is_none_or(|xid| xid == answered),
                "xid {answered:#x} was answered out of turn"
            );
            return Ok((answered, message));
        }
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        match &mut self.socket {
            Socket::Udp(socket) => {
                let mut message = vec![0; DATAGRAM_LEN_MAX];
                let len = socket.recv(&mut message).context("no reply")?;
                message.truncate(len);
                Ok(message)
            }
            Socket::Tcp(socket) => {
                let mut message = Vec::new();
                loop {
                    let mut mark = [0; 4];
                    socket.read_exact(&mut mark).context("no reply")?;
                    let mark = u32::from_be_bytes(mark);
                    let len = (mark & !lineside_rpc::message::LAST_FRAGMENT) as usize;
                    ensure!(len <= 8 << 20, "a record of {len} bytes");
                    let start = message.len();
                    message.resize(start + len, 0);
                    socket
                        .read_exact(&mut message[start..])
                        .context("a reply was cut")?;
                    if mark & lineside_rpc::message::LAST_FRAGMENT != 0 {
                        return Ok(message);
                    }
                }
            }
        }
    }

    /// Waits for late second replies to repeated datagrams, so that they are counted.
    pub fn drain(&mut self) -> Result<()> {
        if let Socket::Udp(socket) = &self.socket {
            socket.set_read_timeout(Some(Duration::from_millis(300)))?;
            while self.wait(None).is_ok() {}
            let Socket::Udp(socket) = &self.socket else {
                return Ok(());
            };
            socket.set_read_timeout(Some(TIMEOUT))?;
        }
        Ok(())
    }
}

/// Behind the header of a reply to a call that was executed.
fn success<'a>(pieces: &'a [Piece<'a>]) -> Result<Cursor<'a>> {
    let mut cursor = Cursor::new(pieces);
    match Header::decode(&mut cursor).body {
        Body::Reply(reply) if reply.is_success() => Ok(cursor),
        Body::Reply(reply) => bail!(
            "the call was refused: {}",
            reply.status_name().unwrap_or("unreadable")
        ),
        _ => bail!("not a reply"),
    }
}

/// What a reply counts as: statuses' names, and bytes moved.
fn outcomes(asked: Asked, message: &[u8]) -> Result<Vec<(Key, Option<String>, u64)>> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = success(&pieces)?;
    let name = |known: Option<&'static str>, status: u32| {
        known.map_or_else(|| status.to_string(), str::to_owned)
    };
    Ok(match asked {
        Asked::Nfs(procedure) => {
            let reply = v3::Reply::decode(procedure, &mut cursor);
            let status = reply
                .status()
                .map(|status| name(v3::status_name(status), status));
            let bytes = reply.transferred().unwrap_or(0);
            vec![(("nfs", procedure.name()), status, bytes.into())]
        }
        Asked::Mount(procedure) => {
            let status = mount::Reply::decode(procedure, &mut cursor).status();
            let status = status.map(|status| name(mount::status_name(status), status));
            vec![(("mount", procedure.name()), status, 0)]
        }
        Asked::Compound => nfs4::results(message, |replies, _| {
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

/// Where the server is.
#[derive(Debug, Clone)]
pub struct Server {
    /// NFS's address and port.
    pub nfs: SocketAddr,
    /// MOUNT's.
    pub mount: SocketAddr,
    /// The path to mount.
    pub export: String,
}

/// Lends a handle or a name as an argument: `let name = piece(b"x"); … Opaque::new(&name)`.
fn piece(bytes: &[u8]) -> [Piece<'_>; 1] {
    [Piece::bytes(bytes)]
}

/// A mounted export, by one version of NFS.
pub trait Drive: Sized {
    /// A file to read and write.
    type File;

    /// Creates an empty file in the root, or empties one.
    fn create(&mut self, name: &str) -> Result<Self::File>;

    /// Sends a READ, or a WRITE of `data`, perhaps while others are unanswered; returns its xid.
    fn begin(&mut self, file: &Self::File, transfer: &Transfer, data: &[u8]) -> Result<u32>;

    /// Waits for the next reply to these: its xid, and the data of READ.
    fn end(&mut self) -> Result<(u32, Vec<u8>)>;

    /// COMMITs all of a file.
    fn commit(&mut self, file: &Self::File) -> Result<()>;

    /// The file is not needed any more.
    fn release(&mut self, file: Self::File) -> Result<()>;

    /// Makes, names, changes, reads and removes objects by all that the version has for it, with
    /// successes and failures.
    fn every_procedure(&mut self, round: u64) -> Result<()>;

    /// Unmounts, and returns what was counted.
    fn close(self) -> Result<Tally>;

    /// WRITEs and READs, `depth` at a time, at the offsets that `transfers` says. Bytes are a
    /// function of `seed` and of their place in the file ([`fill`]); what is read is compared.
    fn transfer(
        &mut self,
        file: &Self::File,
        seed: u64,
        depth: usize,
        transfers: &[Transfer],
    ) -> Result<()> {
        let mut running: HashMap<u32, Transfer> = HashMap::new();
        let mut next = transfers.iter();
        loop {
            while running.len() < depth.max(1)
                && let Some(&transfer) = next.next()
            {
                let mut data = vec![0; if transfer.write { transfer.len } else { 0 }];
                fill(seed, transfer.offset, &mut data);
                running.insert(self.begin(file, &transfer, &data)?, transfer);
            }
            if running.is_empty() {
                return Ok(());
            }
            let (xid, data) = self.end()?;
            let transfer = running.remove(&xid).context("a reply to another call")?;
            let mut expected = vec![0; data.len().min(transfer.len)];
            fill(seed, transfer.offset, &mut expected);
            ensure!(
                expected == data,
                "READ at {} returned other bytes than were written",
                transfer.offset
            );
        }
    }
}

/// A READ or a WRITE.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// WRITE, not READ.
    pub write: bool,
    /// FILE_SYNC, not UNSTABLE.
    pub stable: bool,
    /// The first byte of the file.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

impl Transfer {
    /// A WRITE.
    pub fn write(offset: u64, len: usize, stable: bool) -> Self {
        Self {
            write: true,
            stable,
            offset,
            len,
        }
    }

    /// A READ.
    pub fn read(offset: u64, len: usize) -> Self {
        Self {
            write: false,
            stable: false,
            offset,
            len,
        }
    }

    /// WRITEs of `chunk` bytes that fill `skew..len`, then READs of them.
    pub fn sequence(skew: u64, len: u64, chunk: usize) -> (Vec<Self>, Vec<Self>) {
        let offsets = (skew..len).step_by(chunk.max(1));
        let sized = offsets.map(|offset| (offset, chunk.min((len - offset) as usize)));
        let writes = sized
            .clone()
            .map(|(offset, len)| Self::write(offset, len, false))
            .collect();
        (
            writes,
            sized.map(|(offset, len)| Self::read(offset, len)).collect(),
        )
    }

    /// READs and WRITEs of up to `chunk` bytes within `len`, at any offset, by seed.
    pub fn random(random: &mut Random, operations: usize, len: u64, chunk: usize) -> Vec<Self> {
        let one = |_| {
            let size = 1 + random.below(chunk as u64);
            let offset = random.below(len.saturating_sub(size) + 1);
            // Half at the boundaries that file systems like, half anywhere.
            let offset = if random.chance(0.5) {
                offset / 4096 * 4096
            } else {
                offset
            };
            let size = size.min(len - offset) as usize;
            if random.chance(0.7) {
                Self::read(offset, size)
            } else {
                Self::write(offset, size, random.chance(0.5))
            }
        };
        (0..operations).map(one).collect()
    }
}

/// The bytes of a file from `offset`: a function of the seed and of the place alone. A quarter of
/// the blocks are zeros and a quarter come from a set of 16, so that checksums repeat as they do in
/// life.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let (number, within) = (place / BLOCK_LEN, place % BLOCK_LEN);
        let len = ((BLOCK_LEN - within) as usize).min(bytes.len() - at);
        let part = &mut bytes[at..at + len];
        match Random::new(seed ^ (number / 8)).below(4) {
            0 => part.fill(0),
            1 => fill_part(Random::new(number % 16), within, part),
            _ => fill_part(Random::new(seed.wrapping_mul(31) ^ number), within, part),
        }
        at += len;
    }
}

/// The bytes of a stream of words from an offset on.
fn fill_part(mut random: Random, offset: u64, bytes: &mut [u8]) {
    let front = (offset % 8) as usize;
    random.skip(offset / 8);
    let (head, rest) = bytes.split_at_mut(((8 - front) % 8).min(bytes.len()));
    if !head.is_empty() {
        head.copy_from_slice(&random.bits().to_le_bytes()[front..][..head.len()]);
    }
    random.fill(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_depend_on_their_place_alone() {
        let mut whole = vec![0; 20_000];
        fill(7, 0, &mut whole);
        for (offset, len) in [(0, 1), (511, 2), (513, 4000), (4096, 512), (19_999, 1)] {
            let mut part = vec![0; len];
            fill(7, offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + len]);
        }
    }

    #[test]
    fn transfers_stay_within_the_file() {
        let (writes, reads) = Transfer::sequence(100, 10_000, 4096);
        assert_eq!(writes.iter().map(|each| each.len).sum::<usize>(), 9_900);
        assert_eq!(reads.len(), 3);
        let mut random = Random::new(3);
        let transfers = Transfer::random(&mut random, 1000, 50_000, 9000);
        assert!(
            transfers
                .iter()
                .all(|each| each.offset + each.len as u64 <= 50_000 && each.len > 0)
        );
    }
}
