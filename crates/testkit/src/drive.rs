//! An NFSv3 client on kernel sockets that speaks through our own encoder, and counts what it did.
//!
//! It sends what a test asks for: record fragments of chosen sizes, TCP segments of a few bytes, many
//! calls at once, the same datagram twice. It is not a file system: it waits for replies, and fails
//! when one does not come.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lineside_frame::{Cursor, Piece};
use lineside_nfs::{mount, v3};
use lineside_rpc::message::{
    Auth, AuthSys, Body, CallHeader, Flavor, Header, RPC_VERSION, ReplyHeader, encode_record,
};
use lineside_rpc::xdr::{Array, Handle, Name, Opaque, Optional, Xdr, pad};
use lineside_time::Random;
use serde_json::{Map, Value, json};

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
    /// TCP is written in pieces of 1 to so many bytes, each a segment of its own.
    pub segment_len_max: Option<usize>,
    /// Probability that a datagram is sent twice.
    pub repeat: f64,
    /// Seeds xids, pieces and repetitions.
    pub seed: u64,
}

/// What was sent and received, by program and procedure.
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

    /// `{"nfs": {"READ": {"calls": 3, …}}}`. `repeats` are not in `calls`, nor `duplicate_replies` in
    /// `replies`; `bytes` are those that READ and WRITE moved.
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

/// A call of either program.
enum Call<'a> {
    Nfs(v3::Call<'a>),
    Mount(mount::Call<'a>),
}

/// Which call an xid was.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Nfs(v3::Procedure),
    Mount(mount::Procedure),
}

impl Asked {
    fn key(self) -> (&'static str, &'static str) {
        match self {
            Self::Nfs(procedure) => ("nfs", procedure.name()),
            Self::Mount(procedure) => ("mount", procedure.name()),
        }
    }
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
        nfs_reply(procedure, &message, read)
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

    /// Encodes a call. TCP is written by [`flush`](Self::flush), so that several calls can share a segment.
    fn send(&mut self, call: &Call<'_>, data: &[u8]) -> Result<u32> {
        self.xid = self.xid.wrapping_add(1);
        let (asked, program) = match call {
            Call::Nfs(call) => (Asked::Nfs(call.procedure()), (v3::PROGRAM, v3::VERSION)),
            Call::Mount(call) => (
                Asked::Mount(call.procedure()),
                (mount::PROGRAM, mount::VERSION),
            ),
        };
        let procedure = match asked {
            Asked::Nfs(procedure) => procedure.number(),
            Asked::Mount(procedure) => procedure.number(),
        };
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
                program: Some(program.0),
                version: Some(program.1),
                procedure: Some(procedure),
                credential: Auth::new(Flavor::SYS, &credential),
                verifier: Auth::none(),
            }),
        };
        let mut message = Vec::with_capacity(256 + data.len());
        header.encode(&mut message);
        match call {
            Call::Nfs(call) => call.encode(&mut message),
            Call::Mount(call) => call.encode(&mut message),
        }
        message.extend_from_slice(data);
        pad(&mut message, data.len());

        self.asked.insert(self.xid, (asked, false));
        let count = self.tally.procedures.entry(asked.key()).or_default();
        count.calls += 1;
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
                    count.repeats += 1;
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
            let count = self.tally.procedures.entry(asked.key()).or_default();
            if *done {
                count.duplicate_replies += 1;
                continue;
            }
            *done = true;
            count.replies += 1;
            if let Some((status, bytes)) = outcome(*asked, &message)? {
                *count.statuses.entry(status).or_default() += 1;
                count.bytes += bytes;
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

fn nfs_reply<T>(
    procedure: v3::Procedure,
    message: &[u8],
    read: impl FnOnce(v3::Reply<'_>, &[u8]) -> T,
) -> Result<T> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = success(&pieces)?;
    let reply = v3::Reply::decode(procedure, &mut cursor);
    ensure!(
        cursor.fault().is_none(),
        "a {} reply ends at {:?}",
        procedure.name(),
        cursor.fault()
    );
    let len = match &reply {
        v3::Reply::Read(outcome) => outcome.ok().and_then(|ok| ok.data_len).unwrap_or(0) as usize,
        _ => 0,
    };
    let data = message
        .get(cursor.position()..cursor.position() + len)
        .context("READ data was cut")?;
    Ok(read(reply, data))
}

/// The status's name and the bytes moved, if the procedure has a status.
fn outcome(asked: Asked, message: &[u8]) -> Result<Option<(String, u64)>> {
    let pieces = [Piece::bytes(message)];
    let mut cursor = Cursor::new(&pieces);
    match Header::decode(&mut cursor).body {
        Body::Reply(ReplyHeader::Accepted(_) | ReplyHeader::Denied(_)) => {}
        _ => bail!("not a reply"),
    }
    let mut cursor = success(&pieces)?;
    Ok(match asked {
        Asked::Nfs(procedure) => {
            let reply = v3::Reply::decode(procedure, &mut cursor);
            let name =
                |status| v3::status_name(status).map_or_else(|| status.to_string(), str::to_owned);
            reply
                .status()
                .map(|status| (name(status), reply.transferred().unwrap_or(0).into()))
        }
        Asked::Mount(procedure) => {
            let reply = mount::Reply::decode(procedure, &mut cursor);
            let name = |status| {
                mount::status_name(status).map_or_else(|| status.to_string(), str::to_owned)
            };
            reply.status().map(|status| (name(status), 0))
        }
    })
}

/// A mounted export: its root, and the means to call the server.
pub struct Session {
    nfs: Client,
    mount: Client,
    export: String,
    root: Vec<u8>,
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

impl Session {
    /// Connects and mounts the export.
    pub fn open(server: &Server, shape: &Shape) -> Result<Self> {
        let mut mount = Client::connect(server.mount, shape.clone())?;
        let nfs = Client::connect(
            server.nfs,
            Shape {
                seed: shape.seed ^ 1,
                ..shape.clone()
            },
        )?;
        let path = piece(server.export.as_bytes());
        let directory = Some(Name::new(&path));
        let root = mount.mount(
            mount::Call::Mnt(mount::DirectoryArgs { directory }),
            |reply| match reply {
                mount::Reply::Mnt(outcome) => outcome
                    .ok()
                    .and_then(|ok| ok.handle)
                    .map(|handle| handle.to_vec()),
                _ => None,
            },
        )?;
        let root = root.with_context(|| format!("cannot mount {}", server.export))?;
        Ok(Self {
            nfs,
            mount,
            export: server.export.clone(),
            root,
        })
    }

    /// Unmounts, and returns what was counted.
    pub fn close(mut self) -> Result<Tally> {
        let path = piece(self.export.as_bytes());
        let directory = Some(Name::new(&path));
        self.mount.mount(
            mount::Call::Umnt(mount::DirectoryArgs { directory }),
            |_| (),
        )?;
        self.nfs.drain()?;
        self.mount.drain()?;
        let mut tally = self.nfs.tally;
        tally.merge(self.mount.tally());
        Ok(tally)
    }

    /// Creates an empty file in the root, or empties one, and returns its handle.
    pub fn create(&mut self, name: &str) -> Result<Vec<u8>> {
        let (root, name_piece) = (self.root.clone(), piece(name.as_bytes()));
        let root = piece(&root);
        let what = v3::DirOpArgs {
            directory: Some(Handle::new(&root)),
            name: Some(Name::new(&name_piece)),
        };
        let attributes = v3::SetAttributes {
            size: Optional::Present(Some(0)),
            ..attributes(0o644)
        };
        let call = v3::Call::Create(v3::CreateArgs {
            what,
            how: v3::CreateHow::Unchecked(attributes),
        });
        let handle = self.nfs.nfs(call, &[], |reply, _| {
            reply.object().map(|handle| handle.to_vec())
        })?;
        handle.with_context(|| format!("cannot create {name}"))
    }

    /// WRITEs and READs, `depth` at a time, at the offsets that `transfers` says. Bytes are a function
    /// of `seed` and of their place in the file ([`fill`]); what is read is compared.
    pub fn transfer(
        &mut self,
        file: &[u8],
        seed: u64,
        depth: usize,
        transfers: &[Transfer],
    ) -> Result<()> {
        let mut running: HashMap<u32, Transfer> = HashMap::new();
        let mut next = transfers.iter();
        let file = piece(file);
        let file = Some(Handle::new(&file));
        loop {
            while running.len() < depth.max(1)
                && let Some(&transfer) = next.next()
            {
                let (offset, count) = (Some(transfer.offset), Some(transfer.len as u32));
                let xid = if transfer.write {
                    let mut data = vec![0; transfer.len];
                    fill(seed, transfer.offset, &mut data);
                    let stable = Some(if transfer.stable {
                        v3::StableHow::FILE_SYNC
                    } else {
                        v3::StableHow::UNSTABLE
                    });
                    let args = v3::WriteArgs {
                        file,
                        offset,
                        count,
                        stable,
                        data_len: count,
                    };
                    self.nfs.send(&Call::Nfs(v3::Call::Write(args)), &data)?
                } else {
                    self.nfs.send(
                        &Call::Nfs(v3::Call::Read(v3::ReadArgs {
                            file,
                            offset,
                            count,
                        })),
                        &[],
                    )?
                };
                running.insert(xid, transfer);
            }
            if running.is_empty() {
                return Ok(());
            }
            self.nfs.flush()?;
            let (xid, message) = self.nfs.wait(None)?;
            let transfer = running.remove(&xid).context("a reply to another call")?;
            if !transfer.write {
                let mut expected = vec![0; transfer.len];
                fill(seed, transfer.offset, &mut expected);
                let same = nfs_reply(v3::Procedure::Read, &message, |_, data| {
                    expected.starts_with(data)
                })?;
                ensure!(
                    same,
                    "READ at {} returned other bytes than were written",
                    transfer.offset
                );
            }
        }
    }

    /// COMMITs all of a file.
    pub fn commit(&mut self, file: &[u8]) -> Result<()> {
        let file = piece(file);
        let args = v3::CommitArgs {
            file: Some(Handle::new(&file)),
            offset: Some(0),
            count: Some(0),
        };
        self.nfs.nfs(v3::Call::Commit(args), &[], |_, _| ())
    }

    /// Calls every procedure of NFS and MOUNT at least once, with successes and failures.
    pub fn every_procedure(&mut self, round: u64) -> Result<()> {
        let root = self.root.clone();
        let root = piece(&root);
        let root = Some(Handle::new(&root));
        let directory_name = format!("drive-{round}");
        let directory_name = piece(directory_name.as_bytes());
        let in_root = v3::DirOpArgs {
            directory: root,
            name: Some(Name::new(&directory_name)),
        };
        let missing = piece(b"there is no such name");

        self.nfs.nfs(v3::Call::Null(()), &[], |_, _| ())?;
        for call in [
            v3::Call::FsInfo(v3::FileArgs { file: root }),
            v3::Call::FsStat(v3::FileArgs { file: root }),
            v3::Call::PathConf(v3::FileArgs { file: root }),
        ] {
            self.expect(call, &[])?;
        }
        let directory = self.made(v3::Call::MkDir(v3::MkDirArgs {
            what: in_root,
            attributes: attributes(0o755),
        }))?;
        let directory = piece(&directory);
        let directory = Some(Handle::new(&directory));
        let names: [&[u8]; 7] = [
            b"plain",
            "g\u{e4}rten".as_bytes(),
            b"exclusive",
            b"link",
            b"fifo",
            b"hard link",
            b"renamed \xff\\ name",
        ];
        let names = names.map(piece);
        let at = |index: usize| v3::DirOpArgs {
            directory,
            name: Some(Name::new(&names[index])),
        };

        let how = v3::CreateHow::Unchecked(attributes(0o640));
        let file = self.made(v3::Call::Create(v3::CreateArgs { what: at(0), how }))?;
        let how = v3::CreateHow::Guarded(attributes(0o600));
        self.made(v3::Call::Create(v3::CreateArgs { what: at(1), how }))?;
        let how = v3::CreateHow::Exclusive(Some(round.to_be_bytes()));
        self.made(v3::Call::Create(v3::CreateArgs { what: at(2), how }))?;
        let target = piece(b"../elsewhere/target");
        let args = v3::SymLinkArgs {
            what: at(3),
            attributes: attributes(0o777),
            target: Some(Name::new(&target)),
        };
        let link = self.made(v3::Call::SymLink(args))?;
        let link = piece(&link);
        self.expect(
            v3::Call::ReadLink(v3::FileArgs {
                file: Some(Handle::new(&link)),
            }),
            &[],
        )?;
        let args = v3::MkNodArgs {
            what: at(4),
            node: v3::Node::Fifo(attributes(0o644)),
        };
        self.made(v3::Call::MkNod(args))?;

        let transfers = [
            Transfer::write(0, 3000, true),
            Transfer::read(0, 3000),
            Transfer::read(1000, 100),
            Transfer::read(1 << 20, 512),
        ];
        self.transfer(&file, round, 1, &transfers)?;
        self.commit(&file)?;
        let file = piece(&file);
        let file = Some(Handle::new(&file));
        let set = v3::SetAttrArgs {
            file,
            attributes: attributes(0o600),
            guard: Optional::Absent,
        };
        self.expect(v3::Call::SetAttr(set), &[])?;
        self.expect(v3::Call::GetAttr(v3::FileArgs { file }), &[])?;
        self.expect(
            v3::Call::Access(v3::AccessArgs {
                file,
                access: Some(0x3f),
            }),
            &[],
        )?;
        self.expect(v3::Call::Link(v3::LinkArgs { file, link: at(5) }), &[])?;
        self.expect(
            v3::Call::Rename(v3::RenameArgs {
                from: at(1),
                to: at(6),
            }),
            &[],
        )?;
        self.expect(v3::Call::Lookup(at(6)), &[])?;
        self.nfs.nfs(
            v3::Call::Lookup(v3::DirOpArgs {
                directory,
                name: Some(Name::new(&missing)),
            }),
            &[],
            |_, _| (),
        )?;
        let verifier = Some([0; 8]);
        let args = v3::ReadDirArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: verifier,
            count: Some(4096),
        };
        self.expect(v3::Call::ReadDir(args), &[])?;
        let args = v3::ReadDirPlusArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: verifier,
            directory_count: Some(4096),
            count_max: Some(8192),
        };
        self.expect(v3::Call::ReadDirPlus(args), &[])?;
        self.nfs.nfs(v3::Call::RmDir(in_root), &[], |_, _| ())?; // NFS3ERR_NOTEMPTY
        for index in [0, 2, 3, 4, 5, 6] {
            self.expect(v3::Call::Remove(at(index)), &[])?;
        }
        self.expect(v3::Call::RmDir(in_root), &[])?;
        self.nfs.nfs(
            v3::Call::GetAttr(v3::FileArgs { file: directory }),
            &[],
            |_, _| (),
        )?; // NFS3ERR_STALE

        self.mount.mount(mount::Call::Null(()), |_| ())?;
        self.mount.mount(mount::Call::Dump(()), |_| ())?;
        self.mount.mount(mount::Call::Export(()), |_| ())?;
        let nowhere = mount::DirectoryArgs {
            directory: Some(Name::new(&missing)),
        };
        self.mount.mount(mount::Call::Mnt(nowhere), |_| ())?;
        self.mount.mount(mount::Call::UmntAll(()), |_| ())
    }

    /// Calls what must succeed.
    fn expect(&mut self, call: v3::Call<'_>, data: &[u8]) -> Result<()> {
        let name = call.procedure().name();
        let status = self.nfs.nfs(call, data, |reply, _| reply.status())?;
        ensure!(
            status == Some(0),
            "{name}: {}",
            status
                .and_then(v3::status_name)
                .unwrap_or("an unknown status")
        );
        Ok(())
    }

    /// Calls what must make something, and returns its handle.
    fn made(&mut self, call: v3::Call<'_>) -> Result<Vec<u8>> {
        let name = call.procedure().name();
        let answer = self.nfs.nfs(call, &[], |reply, _| {
            (reply.status(), reply.object().map(|handle| handle.to_vec()))
        })?;
        match answer {
            (Some(0), Some(handle)) => Ok(handle),
            (status, _) => bail!("{name}: status {status:?}"),
        }
    }
}

fn attributes(mode: u32) -> v3::SetAttributes {
    v3::SetAttributes {
        mode: Optional::Present(Some(mode)),
        uid: Optional::Absent,
        gid: Optional::Absent,
        size: Optional::Absent,
        atime: v3::SetTime::DontChange,
        mtime: v3::SetTime::ServerTime,
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

/// The bytes of a file from `offset`: a function of the seed and of the place alone. A quarter of the
/// blocks are zeros and a quarter come from a set of 16, so that checksums repeat as they do in life.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut block = [0; BLOCK_LEN as usize];
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let number = place / BLOCK_LEN;
        match Random::new(seed ^ (number / 8)).below(4) {
            0 => block.fill(0),
            1 => Random::new(number % 16).fill(&mut block),
            _ => Random::new(seed.wrapping_mul(31) ^ number).fill(&mut block),
        }
        let within = (place % BLOCK_LEN) as usize;
        let len = (block.len() - within).min(bytes.len() - at);
        bytes[at..at + len].copy_from_slice(&block[within..within + len]);
        at += len;
    }
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
