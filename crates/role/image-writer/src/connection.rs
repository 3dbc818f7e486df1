//! `lineside-nfs-client` on a blocking socket of the kernel's: calls of NFSv3, several under way,
//! which become compounds where NFSv4.1 was asked for.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lineside_frame::Piece;
use lineside_host::{Stopwatch, SystemClock};
use lineside_nfs::v3;
use lineside_nfs_client::{
    Answer, Client, ClientError, Config, Connection as Channel, Credential, Event, Mount, MountAt,
    Request, Service, Transport, Version,
};
use lineside_rpc::xdr::{Handle, Name, Optional};
use lineside_time::{Clock, Nanoseconds};

use crate::url::Url;
use crate::version4;

/// How long a server may take for a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Calls that wait for a reply at once.
const WINDOW: usize = 32;

/// What a server did not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot be reached.
    #[error(
        "cannot connect to {service} at {to}: {error}; is the server up, and exports by NFSv3? If \
        by NFSv4 alone, write ?version=4.1 behind the URL"
    )]
    NoConnection {
        /// Which of its services.
        service: &'static str,
        /// Where.
        to: SocketAddr,
        /// The system's word.
        error: io::Error,
    },
    /// It does not let this client in.
    #[error(
        "{server} refuses {export}: {error}; export it to this host (on Linux with 'insecure'), or \
        give ?mountport=N, or ?version=4.1 if it has no NFSv3"
    )]
    NoMount {
        /// The server.
        server: SocketAddr,
        /// What was to be mounted.
        export: String,
        /// Its word.
        error: ClientError,
    },
    /// It stopped.
    #[error(
        "{server} gave no reply within {} s: {error}; the image is not whole",
        TIMEOUT.as_secs()
    )]
    NoReply {
        /// The server.
        server: SocketAddr,
        /// The system's word.
        error: io::Error,
    },
    /// Its bytes are no replies of NFS.
    #[error("{0} sends what is no reply of NFS: is it an NFS server?")]
    NoServer(SocketAddr),
    /// The directory is there.
    #[error("{0} exists already: an image overwrites nothing; give another directory")]
    Exists(String),
    /// A call failed.
    #[error("{path}: {procedure} was answered {status}; {hint}")]
    Status {
        /// What it was about.
        path: String,
        /// The call.
        procedure: &'static str,
        /// The server's word.
        status: String,
        /// What to do.
        hint: &'static str,
    },
}

/// The reply to a call.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) tag: u64,
    /// 0: it was done.
    pub(crate) status: u32,
    pub(crate) handle: Option<Vec<u8>>,
    /// Of WRITE.
    pub(crate) count: u32,
}

/// A mounted export.
pub(crate) struct Connection {
    client: Client,
    channel: Option<Channel>,
    socket: Option<TcpStream>,
    server: SocketAddr,
    export: String,
    is_version4: bool,
    credential: Credential,
    watch: Stopwatch,
    /// Procedures of the calls under way, by tag.
    asked: Vec<(u64, v3::Procedure)>,
    heard: Vec<Heard>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Mounts the export of a URL.
    pub(crate) fn open(url: &Url, server: SocketAddr) -> Result<Self, ServerError> {
        let owner = format!("lineside-image-{}", std::process::id());
        let started = SystemClock::default().now().to_be_bytes();
        let (version, owner, verifier) = match url.is_version4 {
            true => (Version::V4(version4::MINOR), owner.as_bytes(), started),
            false => (Version::V3, &[][..], [0; 8]),
        };
        let mut config = Config::new(version, owner, verifier);
        config.port = server.port();
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let credential = Credential::sys(b"lineside", user, group, &[group]);
        config.credential = credential.expect("a short name and one group");
        let export = url.export.clone();
        config.mount = Some(Mount {
            export: export.clone().into_bytes(),
            at: url.mount_port.map_or(MountAt::Portmap, MountAt::Port),
        });
        let mut connection = Self {
            credential: config.credential.clone(),
            client: Client::new(config),
            channel: None,
            socket: None,
            server,
            export,
            is_version4: url.is_version4,
            watch: Stopwatch::start(),
            asked: Vec::new(),
            heard: Vec::new(),
            buffer: vec![0; 64 << 10],
        };
        connection.client.start(0);
        connection.follow()?;
        while !connection.client.is_ready() {
            connection.flush()?;
            connection.read()?;
        }
        Ok(connection)
    }

    pub(crate) fn root(&self) -> &[u8] {
        self.client.root()
    }

    /// Sends a call, once there is room for it.
    pub(crate) fn send(
        &mut self,
        tag: u64,
        call: &v3::Call<'_>,
        data: &[u8],
    ) -> Result<(), ServerError> {
        while self.asked.len() >= WINDOW {
            self.read()?;
        }
        let now = self.now();
        let Some(channel) = self.channel else {
            return Err(ServerError::NoServer(self.server));
        };
        let (client, credential) = (&mut self.client, &self.credential);
        let mut take = |request: Request<'_>| client.call(now, channel, tag, credential, request);
        let taken = match self.is_version4 {
            true => version4::compound(call, data, take),
            false => Some(take(Request::Nfs3(call, data))),
        };
        let taken = taken.is_some_and(|taken| taken.is_ok());
        if !taken {
            return Err(ServerError::NoServer(self.server));
        }
        self.asked.push((tag, call.procedure()));
        self.flush()
    }

    /// The replies that came.
    pub(crate) fn take(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    /// Waits for a reply. False: no call is under way.
    pub(crate) fn wait(&mut self) -> Result<bool, ServerError> {
        if self.asked.is_empty() {
            return Ok(false);
        }
        self.flush()?;
        self.read().map(|()| true)
    }

    fn now(&self) -> Nanoseconds {
        self.watch.elapsed().as_nanos() as Nanoseconds
    }

    fn flush(&mut self) -> Result<(), ServerError> {
        let mut bytes = Vec::new();
        if let (Some(channel), Some(socket)) = (self.channel, &mut self.socket)
            && self.client.transmit(channel, &mut bytes)
        {
            let sent = socket.write_all(&bytes);
            sent.map_err(|error| self.no_reply(error))?;
        }
        Ok(())
    }

    fn no_reply(&self, error: io::Error) -> ServerError {
        let server = self.server;
        ServerError::NoReply { server, error }
    }

    fn read(&mut self) -> Result<(), ServerError> {
        let (Some(channel), Some(socket)) = (self.channel, &mut self.socket) else {
            return Err(ServerError::NoServer(self.server));
        };
        let len = match socket.read(&mut self.buffer) {
            Ok(0) => return Err(self.no_reply(io::ErrorKind::UnexpectedEof.into())),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(self.no_reply(error)),
        };
        let now = self.now();
        let (asked, heard) = (&mut self.asked, &mut self.heard);
        let (mut is_broken, is_version4) = (false, self.is_version4);
        let took = self
            .client
            .on_bytes(now, channel, &self.buffer[..len], |reply| {
                let place = asked.iter().position(|&(tag, _)| Some(tag) == reply.tag);
                let Some(place) = place else { return };
                let (tag, procedure) = asked.swap_remove(place);
                let Answer::Results(results) = reply.answer else {
                    is_broken = true;
                    return;
                };
                let reply = match is_version4 {
                    true => version4::results(results).map(|done| Heard {
                        tag,
                        status: done.status,
                        handle: done.handle,
                        count: done.count,
                    }),
                    false => read_reply(tag, procedure, &mut results.cursor()),
                };
                match reply {
                    Some(reply) => heard.push(reply),
                    None => is_broken = true,
                }
            });
        if took.is_err() || is_broken {
            return Err(ServerError::NoServer(self.server));
        }
        self.follow()
    }

    /// Does what the client asks for.
    fn follow(&mut self) -> Result<(), ServerError> {
        while let Some(event) = self.client.poll() {
            match event {
                Event::Connect(service, port) => self.connect(service, port)?,
                Event::Failed(error) => {
                    let (server, export) = (self.server, self.export.clone());
                    return Err(ServerError::NoMount {
                        server,
                        export,
                        error,
                    });
                }
                Event::Lost(..) => return Err(ServerError::NoServer(self.server)),
                Event::Ready | Event::Closed => {}
            }
        }
        Ok(())
    }

    fn connect(&mut self, service: Service, port: u16) -> Result<(), ServerError> {
        let now = self.now();
        if let Some(channel) = self.channel.take() {
            self.client.abandon(now, channel);
        }
        let to = SocketAddr::new(self.server.ip(), port);
        let opened = TcpStream::connect_timeout(&to, TIMEOUT).and_then(|socket| {
            socket.set_read_timeout(Some(TIMEOUT))?;
            socket.set_write_timeout(Some(TIMEOUT))?;
            socket.set_nodelay(true)?;
            Ok(socket)
        });
        let socket = match opened {
            Ok(socket) => socket,
            // MOUNT may be at the port of NFS.
            Err(_) if service == Service::Portmap => {
                self.client.refused(now, service);
                return Ok(());
            }
            Err(error) => {
                let service = service.name();
                return Err(ServerError::NoConnection { service, to, error });
            }
        };
        self.socket = Some(socket);
        let channel = self.client.opened(now, service, port, Transport::Stream);
        self.channel = Some(channel);
        Ok(())
    }
}

fn read_reply(
    tag: u64,
    procedure: v3::Procedure,
    cursor: &mut lineside_frame::Cursor<'_>,
) -> Option<Heard> {
    let reply = v3::Reply::decode(procedure, cursor);
    let count = match &reply {
        v3::Reply::Write(outcome) => outcome.ok().and_then(|ok| ok.count).unwrap_or(0),
        _ => 0,
    };
    Some(Heard {
        tag,
        status: reply.status()?,
        handle: reply.object().map(|handle| handle.to_vec()),
        count,
    })
}

/// A handle and a name, as a call has them.
pub(crate) struct Place<'a>([Piece<'a>; 1], [Piece<'a>; 1]);

impl<'a> Place<'a> {
    pub(crate) fn new(handle: &'a [u8], name: &'a [u8]) -> Self {
        Self([Piece::bytes(handle)], [Piece::bytes(name)])
    }

    pub(crate) fn handle(&self) -> Option<Handle<'_>> {
        Some(Handle::new(&self.0))
    }

    pub(crate) fn name(&self) -> Option<Name<'_>> {
        Some(Name::new(&self.1))
    }

    pub(crate) fn what(&self) -> v3::DirOpArgs<'_> {
        v3::DirOpArgs {
            directory: self.handle(),
            name: self.name(),
        }
    }
}

/// No attribute is set.
pub(crate) fn nothing() -> v3::SetAttributes {
    v3::SetAttributes {
        mode: Optional::Absent,
        uid: Optional::Absent,
        gid: Optional::Absent,
        size: Optional::Absent,
        atime: v3::SetTime::DontChange,
        mtime: v3::SetTime::DontChange,
    }
}

/// One is.
pub(crate) fn with_mode(mode: u32) -> v3::SetAttributes {
    v3::SetAttributes {
        mode: Optional::Present(Some(mode)),
        ..nothing()
    }
}
