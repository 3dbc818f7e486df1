//! The client, as its caller has it.

use lineside_time::Nanoseconds;

use crate::calls::{Calls, Heard};
use crate::channel::Channel;
use crate::config::{
    CallError, ClientError, Config, Connection, Event, Phase, Service, Step, Transport,
};
use crate::header::{Broken, Credential};
use crate::request::Request;
use crate::results::Reply;

/// One client of one server. See the [crate](crate).
#[derive(Debug)]
pub struct Client {
    calls: Calls,
}

impl Client {
    /// A client that has done nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            calls: Calls::new(config),
        }
    }

    /// Begins: what is asked for first is in [`poll`](Self::poll).
    pub fn start(&mut self, now: Nanoseconds) {
        self.calls.start();
        self.calls.pump(now);
    }

    /// What is asked or reported next.
    pub fn poll(&mut self) -> Option<Event> {
        self.calls.events.pop_front()
    }

    /// The handle of the export's root, once it is mounted.
    pub fn root(&self) -> &[u8] {
        &self.calls.root
    }

    /// The call of the client's own that is under way before it is ready.
    pub fn step(&self) -> Option<Step> {
        match self.calls.phase {
            Phase::Asking(step) => Some(step),
            _ => None,
        }
    }

    /// Whether calls leave: what was to be mounted is, and the server knows this client.
    pub fn is_ready(&self) -> bool {
        self.calls.phase == Phase::Ready
    }

    /// What the server calls this client, of NFSv4.
    pub fn client_id(&self) -> u64 {
        self.calls.client_id
    }

    /// Calls that wait or are under way, the client's own too.
    pub fn outstanding(&self) -> usize {
        self.calls.outstanding()
    }

    /// A connection was opened, because an event asked for it or as one more.
    pub fn opened(
        &mut self,
        now: Nanoseconds,
        service: Service,
        port: u16,
        transport: Transport,
    ) -> Connection {
        let reply_bytes_max = self.calls.config.reply_bytes_max;
        let channel = Channel::new(service, port, transport, reply_bytes_max);
        let at = self.calls.add_channel(channel);
        if self.calls.phase == Phase::Connecting(service) {
            self.calls.on_service(service, at);
        }
        self.calls.pump(now);
        Connection(at)
    }

    /// A connection that an event asked for could not be opened.
    pub fn refused(&mut self, now: Nanoseconds, service: Service) {
        if self.calls.phase == Phase::Connecting(service) {
            match service {
                Service::Portmap => self.without_portmap(),
                _ => self.calls.fail(ClientError::NoConnection(service)),
            }
        }
        self.calls.pump(now);
    }

    /// Without a port mapper MOUNT may still be served where NFS is.
    fn without_portmap(&mut self) {
        self.calls.want(Service::Mount, self.calls.config.port);
    }

    /// A connection ended. Its calls wait until it is [opened again](Self::reopened).
    pub fn closed(&mut self, now: Nanoseconds, connection: Connection) {
        self.calls.close(connection.0);
        if self.step() == Some(Step::GetPort) && !self.calls.is_up(Service::Portmap) {
            self.calls.drop_step(Step::GetPort);
            self.without_portmap();
        }
        self.calls.pump(now);
    }

    /// A connection was opened anew: its calls are sent again, as they were.
    pub fn reopened(&mut self, now: Nanoseconds, connection: Connection) {
        if let Some(Some(channel)) = self.calls.channels.get_mut(connection.0) {
            channel.is_up = true;
        }
        self.calls.pump(now);
    }

    /// A connection is not used any more: its calls are lost, and their slots.
    pub fn abandon(&mut self, now: Nanoseconds, connection: Connection) {
        self.closed(now, connection);
        self.calls.remove_channel(connection.0);
        self.calls.pump(now);
    }

    /// Takes a call, which leaves by this connection when it may; its xid.
    pub fn call(
        &mut self,
        now: Nanoseconds,
        connection: Connection,
        tag: u64,
        credential: &Credential,
        request: Request<'_>,
    ) -> Result<u32, CallError> {
        let xid = self.calls.call(connection.0, tag, credential, request)?;
        self.calls.pump(now);
        Ok(xid)
    }

    /// Appends what is to be sent by a connection: of a stream all there is, of datagrams the next.
    /// False: nothing.
    pub fn transmit(&mut self, connection: Connection, out: &mut Vec<u8>) -> bool {
        let channel = self.calls.channels.get_mut(connection.0);
        let channel = channel.and_then(Option::as_mut);
        channel.is_some_and(|channel| channel.transmit(out))
    }

    /// Takes bytes of a connection, or a datagram; `each` gets the replies that end in them. After
    /// an error the connection is worth nothing: it is to be closed.
    pub fn on_bytes(
        &mut self,
        now: Nanoseconds,
        connection: Connection,
        bytes: &[u8],
        mut each: impl FnMut(Reply<'_>),
    ) -> Result<(), Broken> {
        let mut heard = |calls: &mut Calls, heard: Heard<'_>| match heard {
            Heard::Reply(reply) => each(reply),
            Heard::Own(at, step, answer) => calls.on_own(at, step, answer),
        };
        let outcome = self.calls.on_bytes(connection.0, bytes, &mut heard);
        self.calls.pump(now);
        outcome
    }

    /// When [`on_time`](Self::on_time) is to be called next; calling it earlier is harmless.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let deadlines = [self.calls.next_timeout(), self.calls.renewal()];
        deadlines.into_iter().flatten().min()
    }

    /// Renews the lease, and reports calls that were not answered in time.
    pub fn on_time(&mut self, now: Nanoseconds) {
        self.calls.time_out(now);
        if self.calls.renewal().is_some_and(|at| at <= now) {
            self.calls.renew();
        }
        self.calls.pump(now);
    }

    /// The caller has no more calls: the server is to forget this client, which an event reports.
    /// Calls that are not answered are lost.
    pub fn finish(&mut self, now: Nanoseconds) {
        self.calls.finish();
        self.calls.pump(now);
    }
}
