//! The load that a preparation is: one connection after the other, and the calls on them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;

use lineside_frame::{Chunk, Cursor, Piece};
use lineside_time::Nanoseconds;

use super::client::{CallTemplate, reply_header, status_name};
use super::prepare::{Handover, MountAt, NFS_PORT, PORTMAP_PORT, Preparation, PrepareError};
use super::records::{Heads, Limits, Records};
use super::tree::Tree;
use super::work::{After, Job, Work};
use crate::application::{Application, Calls, ConnectionId, End, Reason};
use crate::client::{Locals, Phase};
use crate::protocol::Broken;
use crate::results::{Cause, Results};
use crate::rows::Rows;
use crate::worker::Load;

/// Calls that wait for a reply at once: enough to hide a millisecond, and what a server takes.
const WINDOW: usize = 64;
/// Replies of lists are read whole.
const LIMITS: Limits = Limits {
    head: 1 << 20,
    record: 1 << 20,
};

/// Which service is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Portmap,
    Mount,
    Files,
}

impl Stage {
    fn service(self) -> &'static str {
        match self {
            Self::Portmap => "portmap",
            Self::Mount => "mount",
            Self::Files => "nfs",
        }
    }
}

/// A preparation under way.
pub(super) struct Preparer {
    work: Work,
    target: End,
    mount: MountAt,
    locals: Option<Locals>,
    next_local: u64,
    stage: Stage,
    /// The port of the connection, and its number as the transport reports it back.
    port: u16,
    owner: u32,
    connection: Option<ConnectionId>,
    is_ready: bool,
    /// Bytes of calls that may be asked for, and the offset of the first.
    unacknowledged: VecDeque<u8>,
    start: u64,
    records: Records,
    heads: Heads,
    template: CallTemplate,
    written: Vec<u8>,
    xid: u32,
    asked: Vec<(u32, Job)>,
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
        let (mount, timeout_ns) = (preparation.mount, preparation.timeout_ns);
        let template = CallTemplate::new(preparation.user);
        Self {
            work: Work::new(preparation),
            target,
            mount,
            locals,
            next_local: 0,
            stage: Stage::Portmap,
            port: 0,
            owner: 0,
            connection: None,
            is_ready: false,
            unacknowledged: VecDeque::new(),
            start: 0,
            records: Records::default(),
            heads: Heads::new(LIMITS.head),
            template,
            written: Vec::new(),
            xid: 0,
            asked: Vec::new(),
            heard_ns: 0,
            timeout_ns,
            phase: Phase::Opening,
            results: Results::default(),
            handover,
        }
    }

    fn connect(&mut self, stage: Stage, port: u16, calls: &mut Calls) {
        self.stage = stage;
        if self.connection.is_some() && self.port == port {
            // The same port serves the next one too.
            return self.pump(calls);
        }
        if let Some(connection) = self.connection.take() {
            calls.close(connection);
        }
        (self.port, self.owner) = (port, self.owner + 1);
        (self.start, self.records) = (0, Records::default());
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
        let Some(connection) = self.connection.filter(|_| self.phase == Phase::Running) else {
            return;
        };
        if self.asked.is_empty() {
            self.heard_ns = calls.now();
        }
        self.written.clear();
        while self.asked.len() < WINDOW {
            let job = match self.stage {
                Stage::Portmap => self.asked.is_empty().then_some(Job::GetPort),
                Stage::Mount => self.asked.is_empty().then_some(Job::Mnt),
                Stage::Files => self.work.next(),
            };
            let Some(job) = job else { break };
            self.xid += 1;
            self.work
                .write(&job, self.xid, &self.template, &mut self.written);
            self.asked.push((self.xid, job));
            if self.stage != Stage::Files {
                break;
            }
        }
        if !self.written.is_empty() {
            self.unacknowledged.extend(&self.written);
            calls.send(connection, self.written.len() as u64, None);
        } else if self.asked.is_empty() && self.stage == Stage::Files {
            let tree = self.work.tree();
            self.finish(tree, calls);
        }
    }

    fn finish(&mut self, outcome: Result<Tree, PrepareError>, calls: &mut Calls) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        *self.handover.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        if let Some(connection) = self.connection.take() {
            calls.close(connection);
        }
    }

    /// What is under way, for an error.
    fn doing(&self) -> String {
        match self.asked.first() {
            Some((_, job)) => self.work.describe(job),
            None => format!("connecting to {}", self.stage.service()),
        }
    }

    fn read(&mut self, bytes: &[u8], calls: &mut Calls) {
        let Self {
            records,
            heads,
            asked,
            work,
            ..
        } = self;
        let (mut failure, mut next) = (None, After::GoOn);
        let outcome = records.push(bytes, heads, LIMITS, |message, _| {
            let pieces = [Piece::bytes(message)];
            let mut cursor = Cursor::new(&pieces);
            let (xid, refused) = reply_header(&mut cursor)?;
            let place = asked
                .iter()
                .position(|&(each, _)| each == xid)
                .ok_or(Broken)?;
            let (_, job) = asked.remove(place);
            let after = match refused {
                Some(status) => Err(PrepareError::Refused {
                    doing: work.describe(&job),
                    status: status_name(status).into_owned(),
                    hint: "",
                }),
                None => work.on_results(job, &mut cursor),
            };
            match after {
                Ok(After::GoOn) => {}
                Ok(after) => next = after,
                Err(error) => {
                    failure = Some(error);
                    return Err(Broken);
                }
            }
            Ok(())
        });
        if let Some(error) = failure {
            return self.finish(Err(error), calls);
        }
        if outcome.is_err() {
            let doing = self.doing();
            return self.finish(Err(PrepareError::NoReplyAtAll { doing }), calls);
        }
        match next {
            After::GoOn => self.pump(calls),
            After::Port(0) => self.connect(Stage::Mount, self.target.1, calls),
            After::Port(port) => self.connect(Stage::Mount, port, calls),
            After::Mounted => self.connect(Stage::Files, self.target.1, calls),
        }
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
        self.connection = Some(connection);
        self.is_ready = true;
        self.pump(calls);
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
        let was_open = connection.is_some() && self.connection.take().is_some();
        if !was_open {
            self.results.counts.refused[Cause::from(reason) as usize] += 1;
        }
        if self.stage == Stage::Portmap {
            // Without a port mapper MOUNT may still be served where NFS is.
            self.asked.clear();
            return self.connect(Stage::Mount, self.target.1, calls);
        }
        let error = match was_open {
            true => PrepareError::Ended {
                doing: self.doing(),
                reason,
            },
            false => PrepareError::NoConnection {
                service: self.stage.service(),
                to: SocketAddr::from((self.target.0, self.port)),
                reason,
            },
        };
        self.is_ready = true;
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
        match self.mount {
            MountAt::Portmap => self.connect(Stage::Portmap, PORTMAP_PORT, calls),
            MountAt::Port(port) => self.connect(Stage::Mount, port, calls),
        }
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
