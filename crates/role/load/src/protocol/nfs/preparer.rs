//! The load that a preparation is: one connection after the other, and the calls on them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;

use lineside_frame::Chunk;
use lineside_nfs_client::{
    Answer, Client, Config, Connection, Credential, Event, Mount, Service, Transport, Version,
};
use lineside_time::Nanoseconds;

use super::client::credential;
use super::preparation::{Handover, NFS_PORT, Preparation, PrepareError};
use super::tree::Tree;
use super::work::{Job, Work};
use crate::application::{Application, Calls, ConnectionId, End, Reason};
use crate::client::{Locals, Phase};
use crate::results::{Cause, Results};
use crate::rows::Rows;
use crate::worker::Load;

/// Calls that wait for a reply at once: enough to hide a millisecond, and what a server takes.
const WINDOW: usize = 64;
/// Replies of lists are read whole.
const REPLY_BYTES_MAX: u32 = 1 << 20;

/// A preparation under way.
pub(super) struct Preparer {
    work: Work,
    client: Client,
    credential: Credential,
    target: End,
    locals: Option<Locals>,
    next_local: u64,
    service: Service,
    /// The port of the connection, and its number as the transport reports it back.
    port: u16,
    owner: u32,
    connection: Option<(ConnectionId, Connection)>,
    is_ready: bool,
    /// Bytes of calls that may be asked for, and the offset of the first.
    unacknowledged: VecDeque<u8>,
    start: u64,
    written: Vec<u8>,
    tag: u64,
    asked: Vec<(u64, Job)>,
    heard_ns: Nanoseconds,
    timeout_ns: i64,
    phase: Phase,
    results: Results,
    handover: Handover,
}

impl Preparer {
    pub(super) fn new(
        preparation: Preparation,
        mut target: End,
        locals: Option<Locals>,
        handover: Handover,
    ) -> Self {
        if target.1 == 0 {
            target.1 = NFS_PORT;
        }
        let timeout_ns = preparation.timeout_ns;
        let mut config = Config::new(Version::V3, &[], [0; 8]);
        config.port = target.1;
        config.credential = credential(preparation.user);
        config.reply_bytes_max = REPLY_BYTES_MAX;
        config.mount = Some(Mount {
            export: preparation.export.clone().into_bytes(),
            at: preparation.mount,
        });
        Self {
            work: Work::new(preparation),
            credential: config.credential.clone(),
            client: Client::new(config),
            target,
            locals,
            next_local: 0,
            service: Service::Portmap,
            port: 0,
            owner: 0,
            connection: None,
            is_ready: false,
            unacknowledged: VecDeque::new(),
            start: 0,
            written: Vec::new(),
            tag: 0,
            asked: Vec::new(),
            heard_ns: 0,
            timeout_ns,
            phase: Phase::Opening,
            results: Results::default(),
            handover,
        }
    }

    /// Does what the client asks for.
    fn follow(&mut self, calls: &mut Calls) {
        while let Some(event) = self.client.poll() {
            match event {
                Event::Connect(service, port) => self.connect(service, port, calls),
                Event::Ready => self.work.begin(self.client.root()),
                Event::Failed(error) => {
                    let error = self.work.on_client_error(error);
                    return self.finish(Err(error), calls);
                }
                Event::Lost(..) | Event::Closed => {}
            }
        }
        self.pump(calls);
    }

    fn connect(&mut self, service: Service, port: u16, calls: &mut Calls) {
        self.service = service;
        if let Some((id, connection)) = self.connection.take() {
            calls.close(id);
            self.client.abandon(calls.now(), connection);
        }
        (self.port, self.owner) = (port, self.owner + 1);
        self.start = 0;
        self.unacknowledged.clear();
        let local = loop {
            let Some(locals) = &self.locals else {
                break (unspecified(self.target.0), 0);
            };
            self.next_local += 1;
            if let Some(pair) = locals.pair(self.next_local - 1) {
                break pair;
            }
        };
        calls.connect(local, (self.target.0, port), self.owner);
    }

    /// Sends calls, as many as may wait for a reply.
    fn pump(&mut self, calls: &mut Calls) {
        let is_running = self.phase == Phase::Running;
        let Some((id, connection)) = self.connection.filter(|_| is_running) else {
            return;
        };
        let now = calls.now();
        if self.asked.is_empty() {
            self.heard_ns = now;
        }
        // The root is known once the connection is that of NFS.
        while self.is_mounted() && self.asked.len() < WINDOW {
            let Some(job) = self.work.next() else { break };
            self.tag += 1;
            let (client, tag, by) = (&mut self.client, self.tag, &self.credential);
            let taken = self.work.with_request(&job, |request| {
                client.call(now, connection, tag, by, request)
            });
            if taken.is_err() {
                let doing = self.work.describe(&job);
                return self.finish(Err(PrepareError::NoReplyAtAll { doing }), calls);
            }
            self.asked.push((self.tag, job));
        }
        self.written.clear();
        if self.client.transmit(connection, &mut self.written) {
            self.unacknowledged.extend(&self.written);
            calls.send(id, self.written.len() as u64, None);
        } else if self.asked.is_empty() && self.is_mounted() {
            let tree = self.work.tree();
            self.finish(tree, calls);
        }
    }

    fn is_mounted(&self) -> bool {
        self.client.is_ready()
    }

    fn finish(&mut self, outcome: Result<Tree, PrepareError>, calls: &mut Calls) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        *self.handover.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        if let Some((id, _)) = self.connection.take() {
            calls.close(id);
        }
    }

    /// What is under way, for an error.
    fn doing(&self) -> String {
        let step = self.client.step().filter(|_| self.connection.is_some());
        match (step, self.asked.first()) {
            (Some(step), _) => self.work.describe_step(step),
            (None, Some((_, job))) => self.work.describe(job),
            (None, None) => format!("connecting to {}", self.service.name()),
        }
    }

    fn read(&mut self, bytes: &[u8], calls: &mut Calls) {
        let Self {
            client,
            asked,
            work,
            connection,
            ..
        } = self;
        let Some((_, connection)) = *connection else {
            return;
        };
        let mut failure = None;
        let heard = client.on_bytes(calls.now(), connection, bytes, |reply| {
            let place = asked.iter().position(|&(tag, _)| Some(tag) == reply.tag);
            let Some(place) = place.filter(|_| failure.is_none()) else {
                return;
            };
            let (_, job) = asked.remove(place);
            let outcome = match reply.answer {
                Answer::Refused(refusal) => Err(PrepareError::Refused {
                    doing: work.describe(&job),
                    status: refusal.name().to_owned(),
                    hint: "",
                }),
                Answer::Results(results) => work.on_results(job, &mut results.cursor()),
            };
            failure = outcome.err();
        });
        if let Some(error) = failure {
            return self.finish(Err(error), calls);
        }
        if heard.is_err() {
            let doing = self.doing();
            return self.finish(Err(PrepareError::NoReplyAtAll { doing }), calls);
        }
        self.follow(calls);
    }
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Application for Preparer {
    fn on_open(&mut self, connection: ConnectionId, owner: u32, _: [End; 2], calls: &mut Calls) {
        if owner != self.owner || self.phase == Phase::Over {
            return calls.close(connection);
        }
        self.results.counts.opened += 1;
        let (now, port) = (calls.now(), self.port);
        let opened = self
            .client
            .opened(now, self.service, port, Transport::Stream);
        self.connection = Some((connection, opened));
        self.is_ready = true;
        self.follow(calls);
    }

    fn on_bytes(&mut self, _: ConnectionId, owner: u32, chunk: Chunk<'_>, calls: &mut Calls) {
        if owner == self.owner && self.phase == Phase::Running {
            self.heard_ns = calls.now();
            self.read(chunk.bytes(), calls);
        }
    }

    fn on_acknowledged(&mut self, _: ConnectionId, owner: u32, bytes: u64, _: &mut Calls) {
        if owner == self.owner {
            let len = self.unacknowledged.len().min(bytes as usize);
            self.unacknowledged.drain(..len);
            self.start += bytes;
        }
    }

    fn on_end(&mut self, connection: ConnectionId, _: u32, calls: &mut Calls) {
        calls.close(connection);
    }

    fn on_close(
        &mut self,
        connection: Option<ConnectionId>,
        owner: u32,
        reason: Reason,
        calls: &mut Calls,
    ) {
        if owner != self.owner || self.phase == Phase::Over {
            return;
        }
        let mine = self.connection.filter(|_| connection.is_some());
        let was_open = mine.is_some();
        if !was_open {
            self.results.counts.refused[Cause::from(reason) as usize] += 1;
        }
        if self.service == Service::Portmap {
            self.connection = None;
            match mine {
                Some((_, opened)) => self.client.abandon(calls.now(), opened),
                None => self.client.refused(calls.now(), Service::Portmap),
            }
            return self.follow(calls);
        }
        let error = match was_open {
            true => PrepareError::Ended {
                doing: self.doing(),
                reason,
            },
            false => PrepareError::NoConnection {
                service: self.service.name(),
                to: SocketAddr::from((self.target.0, self.port)),
                reason,
            },
        };
        self.is_ready = true;
        self.connection = None;
        self.finish(Err(error), calls);
    }

    fn on_task(&mut self, _: Nanoseconds, _: u32, calls: &mut Calls) {
        if self.phase != Phase::Running {
            return;
        }
        let deadline = self.heard_ns.saturating_add(self.timeout_ns);
        if deadline > calls.now() {
            calls.schedule(deadline, 0);
            return;
        }
        let error = PrepareError::NoReply {
            doing: self.doing(),
            seconds: self.timeout_ns as f64 / 1e9,
        };
        self.finish(Err(error), calls);
    }

    fn fill(&mut self, _: ConnectionId, owner: u32, offset: u64, bytes: &mut [u8]) {
        if owner == self.owner {
            let from = offset.saturating_sub(self.start) as usize;
            let there = self.unacknowledged.iter().skip(from);
            bytes
                .iter_mut()
                .zip(there)
                .for_each(|(to, from)| *to = *from);
        }
    }
}

impl Load for Preparer {
    fn open(&mut self, calls: &mut Calls) {
        self.client.start(calls.now());
        self.follow(calls);
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn open_connections(&self) -> u32 {
        self.connection.is_some().into()
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn start(&mut self, at: Nanoseconds, _: Nanoseconds, calls: &mut Calls) {
        if self.phase == Phase::Opening {
            self.phase = Phase::Running;
            self.heard_ns = at;
            calls.schedule(at.saturating_add(self.timeout_ns), 0);
            self.pump(calls);
        }
    }

    fn stop(&mut self, calls: &mut Calls) {
        let doing = self.doing();
        self.finish(Err(PrepareError::Stopped { doing }), calls);
    }

    fn end(&mut self, calls: &mut Calls) {
        self.stop(calls);
    }

    fn results(&mut self) -> &mut Results {
        &mut self.results
    }

    fn rows(&mut self) -> Option<&mut Rows> {
        None
    }

    fn take_rows(&mut self) -> Option<Rows> {
        None
    }

    fn broken_identity(&self) -> Option<&'static str> {
        None
    }

    fn allocated_bytes(&self) -> usize {
        self.unacknowledged.capacity()
    }
}
