//! The client on kernel sockets, one answer at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lineside_host::Stopwatch;
use lineside_nfs::v4::StateId;
use lineside_nfs::{v3, v4};
use lineside_nfs_client::{
    Answer, Client, Config, Connection, Credential, Event, Mount, MountAt, NFS_PORT, Reply,
    Request, Service, Transport, Version,
};
use lineside_time::Nanoseconds;

use super::{request, root_user};

/// How long bytes are waited for before another connection is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Without an answer for as long, the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of an answer the tests look at.
#[derive(Debug, Default, Clone)]
pub(super) struct Heard {
    pub(super) status: Option<u32>,
    pub(super) handle: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) stateid: Option<StateId>,
    pub(super) open_flags: u32,
}

pub(super) struct Driver {
    pub(super) client: Client,
    pub(super) nfs: Connection,
    server: String,
    sockets: Vec<(Connection, TcpStream)>,
    watch: Stopwatch,
    procedures: Vec<(u64, v3::Procedure)>,
    tag: u64,
    heard: Vec<(u64, Heard)>,
    is_closed: bool,
    by: Credential,
}

impl Driver {
    /// Mounts an export.
    pub(super) fn mount(server: &str, version: Version, export: &str) -> Self {
        let owner = format!("lineside {version:?}");
        let mut config = Config::new(version, owner.as_bytes(), 1_u64.to_be_bytes());
        config.credential = root_user();
        // A header that is cut: nfs-ganesha wants it in the first fragment.
        config.fragments = vec![300, 700];
        config.mount = Some(Mount {
            export: export.as_bytes().to_owned(),
            at: MountAt::Portmap,
        });
        let mut driver = Self {
            client: Client::new(config),
            nfs: opened_before(),
            server: server.to_owned(),
            sockets: Vec::new(),
            watch: Stopwatch::start(),
            procedures: Vec::new(),
            tag: 0,
            heard: Vec::new(),
            is_closed: false,
            by: root_user(),
        };
        let now = driver.now();
        driver.client.start(now);
        driver.turn_until("mounted", |driver| driver.client.is_ready());
        driver.nfs = driver.sockets.last().expect("a connection").0;
        driver
    }

    fn now(&self) -> Nanoseconds {
        self.watch.elapsed().as_nanos() as Nanoseconds
    }

    fn socket(&self, port: u16) -> TcpStream {
        let address: SocketAddr = format!("{}:{port}", self.server)
            .parse()
            .expect("an address");
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("an option");
        socket.set_read_timeout(Some(LOOK)).expect("an option");
        socket
    }

    /// One more connection to NFS.
    pub(super) fn connect(&mut self) -> Connection {
        self.open(Service::Nfs, NFS_PORT)
    }

    fn open(&mut self, service: Service, port: u16) -> Connection {
        let (socket, now) = (self.socket(port), self.now());
        let stream = Transport::Stream;
        let connection = self.client.opened(now, service, port, stream);
        self.sockets.push((connection, socket));
        connection
    }

    /// Ends a connection to NFS, and opens it again.
    pub(super) fn reopen(&mut self, connection: Connection) {
        let (socket, now) = (self.socket(NFS_PORT), self.now());
        let mine = self
            .sockets
            .iter_mut()
            .find(|(each, _)| *each == connection);
        mine.expect("it is open").1 = socket;
        self.client.closed(now, connection);
        self.client.reopened(now, connection);
    }

    /// Sends what there is to send, and takes what has come.
    fn turn(&mut self) {
        while let Some(event) = self.client.poll() {
            match event {
                Event::Connect(service, port) => {
                    self.open(service, port);
                }
                Event::Closed => self.is_closed = true,
                Event::Ready => {}
                Event::Lost(..) | Event::Failed(_) => panic!("{event:?}"),
            }
        }
        let now = self.now();
        if self.client.next_deadline().is_some_and(|at| at <= now) {
            self.client.on_time(now);
        }
        for (connection, socket) in &mut self.sockets {
            let mut bytes = Vec::new();
            if self.client.transmit(*connection, &mut bytes) {
                socket.write_all(&bytes).expect("the server reads");
            }
        }
        if self.client.outstanding() == 0 {
            return;
        }
        let mut buffer = vec![0; 1 << 16];
        for (connection, socket) in &mut self.sockets {
            let len = match socket.read(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(len > 0, "the server closed a connection");
            let (heard, procedures) = (&mut self.heard, &self.procedures);
            let taken = self
                .client
                .on_bytes(now, *connection, &buffer[..len], |reply| {
                    let tag = reply.tag.expect("of a call that waits");
                    heard.push((tag, read(&reply, tag, procedures)));
                });
            taken.expect("replies");
        }
    }

    fn turn_until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let end = self.watch.elapsed() + PATIENCE;
        while !is_done(self) {
            assert!(self.watch.elapsed() < end, "not {what}");
            self.turn();
        }
    }

    fn wait(&mut self, tag: u64) -> Heard {
        let has = |driver: &Self| driver.heard.iter().any(|(each, _)| *each == tag);
        self.turn_until("answered", has);
        let place = self.heard.iter().position(|(each, _)| *each == tag);
        self.heard.swap_remove(place.expect("it was heard")).1
    }

    /// The answers to all calls that are under way.
    pub(super) fn wait_for_all(&mut self) -> Vec<Heard> {
        self.turn_until("answered", |driver| driver.client.outstanding() == 0);
        let heard = std::mem::take(&mut self.heard);
        heard.into_iter().map(|(_, heard)| heard).collect()
    }

    fn call(&mut self, connection: Connection, request: Request<'_>) -> u64 {
        self.tag += 1;
        let (now, tag) = (self.now(), self.tag);
        let taken = self.client.call(now, connection, tag, &self.by, request);
        taken.expect("room for a call");
        tag
    }

    pub(super) fn ask3(
        &mut self,
        connection: Connection,
        call: &v3::Call<'_>,
        data: &[u8],
    ) -> Heard {
        let tag = self.call(connection, Request::Nfs3(call, data));
        self.procedures.push((tag, call.procedure()));
        self.wait(tag)
    }

    /// What must succeed.
    pub(super) fn nfs3(
        &mut self,
        connection: Connection,
        call: &v3::Call<'_>,
        data: &[u8],
    ) -> Heard {
        let heard = self.ask3(connection, call, data);
        assert_eq!(heard.status, Some(0), "{call:?}");
        heard
    }

    /// A call whose answer is not waited for.
    pub(super) fn begin(&mut self, connection: Connection, calls: &[v4::Call<'_>], data: &[u8]) {
        self.call(connection, request(calls, data));
    }

    pub(super) fn ask(
        &mut self,
        connection: Connection,
        calls: &[v4::Call<'_>],
        data: &[u8],
    ) -> Heard {
        let tag = self.call(connection, request(calls, data));
        self.wait(tag)
    }

    /// What must succeed.
    pub(super) fn compound(
        &mut self,
        connection: Connection,
        calls: &[v4::Call<'_>],
        data: &[u8],
    ) -> Heard {
        let heard = self.ask(connection, calls, data);
        assert_eq!(heard.status, Some(0), "{calls:?}");
        heard
    }

    /// Lives until the lease was renewed as often; how often it was.
    pub(super) fn live_for(&mut self, renewals: u32) -> u32 {
        let (mut seen, mut last) = (0, self.client.next_deadline());
        let end = self.watch.elapsed() + PATIENCE;
        while seen < renewals {
            assert!(self.watch.elapsed() < end, "{seen} renewals");
            self.turn();
            self.watch.wait_until(self.watch.elapsed() + LOOK);
            let due = self.client.next_deadline();
            // While a renewal is under way there is no next one.
            if due.is_some() && due != last {
                (seen, last) = (seen + 1, due);
            }
        }
        seen
    }

    pub(super) fn finish(mut self) {
        let now = self.now();
        self.client.finish(now);
        self.turn_until("closed", |driver| driver.is_closed);
    }
}

/// The first connection of a client, before there is one.
fn opened_before() -> Connection {
    let mut client = Client::new(Config::new(Version::V3, b"", [0; 8]));
    client.opened(0, Service::Nfs, NFS_PORT, Transport::Stream)
}

fn read(reply: &Reply<'_>, tag: u64, procedures: &[(u64, v3::Procedure)]) -> Heard {
    let Answer::Results(results) = reply.answer else {
        panic!("{:?}", reply.answer);
    };
    let mut heard = Heard::default();
    if let Some(&(_, procedure)) = procedures.iter().find(|(each, _)| *each == tag) {
        let mut cursor = results.cursor();
        let reply = v3::Reply::decode(procedure, &mut cursor);
        assert_eq!(cursor.fault(), None, "{reply:?}");
        heard.status = reply.status();
        heard.handle = reply.object().map(|it| it.to_vec()).unwrap_or_default();
        match &reply {
            v3::Reply::Read(outcome) => {
                let len = outcome.ok().and_then(|ok| ok.data_len).unwrap_or(0);
                let data = results.data(&cursor, len).expect("whole data");
                heard.data = data.to_vec();
            }
            v3::Reply::ReadDir(outcome) => {
                let entries = outcome.ok().into_iter().flat_map(|ok| ok.entries.iter());
                let names = entries.filter_map(|entry| entry.name);
                heard.names = names.map(|name| name.to_vec()).collect();
            }
            _ => {}
        }
        return heard;
    }
    let compound = results.compound().expect("a compound");
    heard.status = Some(compound.status.0);
    for each in compound {
        let (reply, data) = each.expect("a result");
        heard.stateid = reply.stateid().or(heard.stateid);
        match &reply {
            v4::Reply::Read(_) => heard.data = data.to_vec(),
            v4::Reply::GetFh(outcome) => {
                let object = outcome.ok().and_then(|ok| ok.object);
                heard.handle = object.map(|it| it.to_vec()).unwrap_or_default();
            }
            v4::Reply::Open(outcome) => {
                heard.open_flags = outcome.ok().and_then(|ok| ok.flags).unwrap_or(0);
            }
            v4::Reply::ReadDir(outcome) => {
                let entries = outcome.ok().into_iter().flat_map(|ok| ok.entries.iter());
                let names = entries.filter_map(|entry| entry.name);
                heard.names = names.map(|name| name.to_vec()).collect();
            }
            _ => {}
        }
    }
    heard
}
