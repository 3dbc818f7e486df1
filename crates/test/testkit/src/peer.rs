//! An end of TCP connections by our own endpoint, over live ports: the engine behind `tcp-peer`.
//!
//! What the ends say is a function of the seed and the client's port ([`stream_seed`]), so that
//! every byte can be compared wherever it arrives, and no connection says what another one does.

use std::collections::VecDeque;
use std::net::IpAddr;

use lineside_frame::{Burst, Frame};
use lineside_reactor::{Account, Engine, Sides};
use lineside_tcp::{Closed, ConnectionId, Departure, Effects, Event, Refused, Stack};
use lineside_time::Nanoseconds;

use crate::drive::fill;

/// Bytes that an echo keeps of a connection before it offers a smaller window.
const ECHO_BYTES: usize = 1 << 20;
/// Of what went wrong, so much is kept in words.
pub(crate) const ERRORS_MAX: usize = 5;

/// What an end does with each of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Returns what comes, and ends when the other end does.
    Echo,
    /// Takes what a source sends, and compares it.
    Sink,
    /// Sends bytes, and ends.
    Source,
    /// Sends this many bytes at once to an echo, the next ones when they are back, and compares
    /// them.
    Ask {
        /// How many.
        step: u64,
    },
}

/// How connections come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The other end opens them, to this port.
    Listen(u16),
    /// This end opens them.
    Connect {
        /// From this address and port; any if 0.
        local: (IpAddr, u16),
        /// To this one.
        remote: (IpAddr, u16),
    },
}

/// What a peer is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// With each connection.
    pub work: Work,
    /// How they come about.
    pub opening: Opening,
    /// How many; with 0 a listener takes any number.
    pub connections: u64,
    /// Bytes that a source or an asking end sends on each, and that a sink expects; a sink without
    /// an expectation takes any number.
    pub bytes: Option<u64>,
    /// Of the bytes.
    pub seed: u64,
    /// Bytes that are sent before anything else.
    pub preface: Vec<u8>,
    /// All bytes are zeros, and none is compared: to measure what the rest costs.
    pub is_plain: bool,
}

/// The seed of what one end of a connection says, for [`fill`].
pub fn stream_seed(seed: u64, client_port: u16, from_client: bool) -> u64 {
    let stream = u64::from(client_port) << 1 | u64::from(from_client);
    seed.wrapping_add((stream + 1) << 32)
}

/// What was counted.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Connections whose handshake came to its end.
    pub opened: u64,
    /// That ended as they should, with all their bytes right.
    pub finished: u64,
    /// All others that ended.
    pub failed: u64,
    /// Bytes that the other ends acknowledged.
    pub bytes_sent: u64,
    /// Bytes that came in order.
    pub bytes_received: u64,
    /// What went wrong first.
    pub errors: Vec<String>,
}

/// One end of a connection.
#[derive(Debug, Default)]
struct Talk {
    client_port: u16,
    is_client: bool,
    is_open: bool,
    announced: u64,
    acknowledged: u64,
    received: u64,
    has_ended: bool,
    is_shut: bool,
    /// In the list of connections with which something is to be done.
    is_listed: bool,
    has_differed: bool,
    /// Of an echo: what came and is not acknowledged.
    kept: VecDeque<u8>,
}

/// Receives the events of the stack and the frames that are to leave.
struct Owner {
    plan: Plan,
    frames: Vec<Frame>,
    /// By the connections' numbers.
    talks: Vec<Option<Talk>>,
    /// Something is to be done with these.
    listed: Vec<ConnectionId>,
    tally: Tally,
    silent: Option<IpAddr>,
    expected: Vec<u8>,
}

/// A stack and what it is to do: drives connections until they are over.
pub struct Peer {
    stack: Stack,
    owner: Owner,
    begun: u64,
    ended: u64,
    refused: Option<Refused>,
    /// When a frame came last.
    heard_ns: Option<Nanoseconds>,
    /// When a connection was over, the last one so far.
    ended_ns: Option<Nanoseconds>,
}

impl Talk {
    fn new(client_port: u16, is_client: bool) -> Self {
        Self {
            client_port,
            is_client,
            ..Self::default()
        }
    }
}

impl Owner {
    fn fail(&mut self, text: String) {
        if self.tally.errors.len() < ERRORS_MAX {
            self.tally.errors.push(text);
        }
    }

    fn talk(&mut self, ConnectionId(number): ConnectionId) -> Option<&mut Talk> {
        self.talks.get_mut(number as usize)?.as_mut()
    }

    fn begin(&mut self, ConnectionId(number): ConnectionId, talk: Talk) {
        let place = number as usize;
        if self.talks.len() <= place {
            self.talks.resize_with(place + 1, || None);
        }
        self.talks[place] = Some(talk);
    }

    /// Something is to be done with a connection.
    fn list(&mut self, connection: ConnectionId) {
        if let Some(talk) = self.talk(connection)
            && !talk.is_listed
        {
            talk.is_listed = true;
            self.listed.push(connection);
        }
    }

    fn on_opened(&mut self, connection: ConnectionId, ends: [(IpAddr, u16); 2]) {
        self.tally.opened += 1;
        match self.plan.opening {
            Opening::Listen(_) => self.begin(connection, Talk::new(ends[1].1, false)),
            Opening::Connect { .. } => {
                if let Some(talk) = self.talk(connection) {
                    talk.client_port = ends[0].1;
                }
            }
        }
        if let Some(talk) = self.talk(connection) {
            talk.is_open = true;
        }
    }

    fn on_bytes(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let (work, seed, is_plain) = (self.plan.work, self.plan.seed, self.plan.is_plain);
        let mut expected = std::mem::take(&mut self.expected);
        self.tally.bytes_received += bytes.len() as u64;
        let mut wrong = None;
        if let Some(talk) = self.talk(connection) {
            // An asking end receives an echo of its own bytes.
            let from_client = match work {
                Work::Sink => Some(!talk.is_client),
                Work::Ask { .. } => Some(talk.is_client),
                Work::Echo | Work::Source => None,
            };
            if let Some(from_client) = from_client.filter(|_| !is_plain) {
                let stream = stream_seed(seed, talk.client_port, from_client);
                expected.resize(bytes.len().max(expected.len()), 0);
                fill(stream, talk.received, &mut expected[..bytes.len()]);
                let places = bytes.iter().zip(&expected);
                let place = places.into_iter().position(|(one, other)| one != other);
                if let Some(place) = place.filter(|_| !talk.has_differed) {
                    talk.has_differed = true;
                    wrong = Some((talk.received + place as u64, talk.client_port));
                }
            }
            if work == Work::Echo {
                talk.kept.extend(bytes);
            }
            talk.received += bytes.len() as u64;
        }
        self.expected = expected;
        if let Some((at, port)) = wrong {
            self.fail(format!(
                "byte {at} of the connection with the client's port {port} differs: both ends need \
                 the same --seed"
            ));
        }
    }

    fn on_closed(&mut self, connection: ConnectionId, why: Closed) {
        let talk = self.talks.get_mut(connection.0 as usize);
        let Some(talk) = talk.and_then(Option::take) else {
            self.fail(format!("{connection:?} is over twice"));
            return;
        };
        let is_expected = match (self.plan.work, self.plan.bytes) {
            (Work::Echo, _) => talk.received == talk.acknowledged,
            (Work::Sink | Work::Ask { .. }, Some(bytes)) => talk.received == bytes,
            _ => true,
        };
        let is_whole = is_expected
            && talk.acknowledged == talk.announced
            && talk.is_shut
            && !talk.has_differed;
        if is_whole && why == Closed::Finished {
            self.tally.finished += 1;
            return;
        }
        self.tally.failed += 1;
        let how = match why {
            Closed::Finished => "ended",
            Closed::Reset => "was reset by the other end",
            Closed::Refused => "was refused: does a program listen there?",
            Closed::TimedOut => "got no answer for too long",
            _ => "broke off",
        };
        let expected = { self.plan.bytes }.map_or(String::new(), |bytes| format!(" of {bytes}"));
        self.fail(format!(
            "the connection with the client's port {} {how}: {}{expected} bytes came, {} of {} \
             were acknowledged",
            talk.client_port, talk.received, talk.acknowledged, talk.announced
        ));
    }
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        let (work, seed, is_plain) = (self.plan.work, self.plan.seed, self.plan.is_plain);
        let preface = std::mem::take(&mut self.plan.preface);
        if let Some(talk) = self.talk(connection) {
            if work == Work::Echo {
                let start = (offset - talk.acknowledged) as usize;
                let kept = talk.kept.range(start..start + bytes.len());
                bytes
                    .iter_mut()
                    .zip(kept)
                    .for_each(|(byte, kept)| *byte = *kept);
            } else {
                let preface_len = preface.len() as u64;
                let first = preface_len.saturating_sub(offset).min(bytes.len() as u64) as usize;
                let (front, rest) = bytes.split_at_mut(first);
                if first > 0 {
                    front.copy_from_slice(&preface[offset as usize..][..first]);
                }
                let stream = stream_seed(seed, talk.client_port, talk.is_client);
                match is_plain {
                    true => rest.fill(0),
                    false => fill(
                        stream,
                        (offset + first as u64).saturating_sub(preface_len),
                        rest,
                    ),
                }
            }
        }
        self.plan.preface = preface;
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        match event {
            Event::Opened { ends } => self.on_opened(connection, ends),
            Event::Stream(chunk) => self.on_bytes(connection, chunk.bytes()),
            Event::Acknowledged(bytes) => {
                self.tally.bytes_sent += bytes;
                let is_echo = self.plan.work == Work::Echo;
                if let Some(talk) = self.talk(connection) {
                    talk.acknowledged += bytes;
                    if is_echo {
                        talk.kept.drain(..bytes as usize);
                    }
                }
            }
            Event::Ended => {
                if let Some(talk) = self.talk(connection) {
                    talk.has_ended = true;
                }
            }
            Event::Closed(why) => return self.on_closed(connection, why),
        }
        self.list(connection);
    }

    fn on_silent(&mut self, neighbour: IpAddr) {
        self.silent = Some(neighbour);
    }
}

impl Peer {
    /// A peer that listens, or that opens its connections at the first turn.
    pub fn new(mut stack: Stack, plan: Plan) -> Result<Self, Refused> {
        if let Opening::Listen(port) = plan.opening {
            stack.listen(None, port, 0)?;
        }
        Ok(Self {
            stack,
            owner: Owner {
                plan,
                frames: Vec::new(),
                talks: Vec::new(),
                listed: Vec::new(),
                tally: Tally::default(),
                silent: None,
                expected: Vec::new(),
            },
            begun: 0,
            ended: 0,
            refused: None,
            heard_ns: None,
            ended_ns: None,
        })
    }

    /// Opens connections: the others when the first one has shown that there is somebody.
    fn open(&mut self, now: Nanoseconds) {
        let Opening::Connect { local, remote } = self.owner.plan.opening else {
            return;
        };
        let wanted = match self.owner.tally.opened {
            0 => 1,
            _ => self.owner.plan.connections,
        };
        while self.begun < wanted && self.refused.is_none() {
            let opened = self.stack.connect(now, local, remote, 0, &mut self.owner);
            match opened {
                Ok(connection) => {
                    self.begun += 1;
                    self.owner.begin(connection, Talk::new(local.1, true));
                }
                Err(refused) => self.refused = Some(refused),
            }
        }
    }

    /// Does what the events ask for.
    fn act(&mut self, now: Nanoseconds) {
        let Tally {
            finished, failed, ..
        } = self.owner.tally;
        if finished + failed > self.ended {
            (self.ended, self.ended_ns) = (finished + failed, Some(now));
        }
        let mut listed = std::mem::take(&mut self.owner.listed);
        for connection in listed.drain(..) {
            let plan = &self.owner.plan;
            let (work, preface_len) = (plan.work, plan.preface.len() as u64);
            let bytes = plan.bytes.unwrap_or(0);
            let Some(talk) = self.owner.talk(connection) else {
                continue;
            };
            talk.is_listed = false;
            // The offset up to which bytes are to be sent by now, and whether that is all.
            let (until, is_all) = match work {
                Work::Echo => (talk.received, talk.has_ended),
                Work::Sink => (preface_len, talk.has_ended),
                Work::Source => (preface_len + bytes, true),
                Work::Ask { step } => {
                    let until = (talk.received / step + 1).saturating_mul(step).min(bytes);
                    (preface_len + until, talk.received >= bytes)
                }
            };
            let len = until.saturating_sub(talk.announced);
            talk.announced += len;
            let shuts = is_all && !talk.is_shut;
            talk.is_shut |= shuts;
            let room = match talk.kept.len() {
                0 => u32::MAX,
                kept => ECHO_BYTES.saturating_sub(kept) as u32,
            };
            let (stack, owner) = (&mut self.stack, &mut self.owner);
            let done = (|| {
                if len > 0 {
                    stack.send(now, connection, len, owner)?;
                }
                if shuts {
                    stack.shutdown(now, connection, owner)?;
                }
                if work == Work::Echo && !is_all {
                    stack.set_window(now, connection, room, owner)?;
                }
                Ok::<_, Refused>(())
            })();
            if let Err(refused) = done {
                owner.fail(format!("{connection:?}: {refused}"));
            }
        }
        // What the calls listed meanwhile comes in the next turn.
        listed.append(&mut self.owner.listed);
        self.owner.listed = listed;
    }
}

/// An end of connections that a program drives until they are over.
pub trait Party: Engine<Account = Left> {
    /// What was counted so far.
    fn tally(&self) -> &Tally;

    /// The stack, for its counters.
    fn stack(&self) -> &Stack;

    /// Why a connection could not be opened.
    fn refused(&self) -> Option<Refused>;

    /// A neighbour that does not answer, while nothing was ever heard.
    fn silent(&self) -> Option<IpAddr>;

    /// When the last of all connections so far was over.
    fn ended_ns(&self) -> Option<Nanoseconds>;

    /// Whether all connections are over, and none in TIME_WAIT heard of the other end for
    /// `linger_ns`.
    fn is_over(&self, now: Nanoseconds, linger_ns: i64) -> bool;
}

/// When a frame left the stack.
pub struct Left(pub(crate) Nanoseconds);

impl Account for Left {
    fn entered_ns(&self) -> Nanoseconds {
        self.0
    }

    fn at_ns(&self) -> Nanoseconds {
        self.0
    }
}

impl Party for Peer {
    fn tally(&self) -> &Tally {
        &self.owner.tally
    }

    fn stack(&self) -> &Stack {
        &self.stack
    }

    fn refused(&self) -> Option<Refused> {
        self.refused
    }

    fn silent(&self) -> Option<IpAddr> {
        self.owner.silent.filter(|_| self.owner.tally.opened == 0)
    }

    fn ended_ns(&self) -> Option<Nanoseconds> {
        self.ended_ns
    }

    fn is_over(&self, now: Nanoseconds, linger_ns: i64) -> bool {
        let Tally {
            finished, failed, ..
        } = self.owner.tally;
        let is_done = match (self.owner.plan.opening, self.owner.plan.connections) {
            (Opening::Listen(_), 0) => false,
            (_, connections) => finished + failed >= connections,
        };
        let heard_ns = self.heard_ns.unwrap_or(now);
        is_done && (self.stack.time_waits() == 0 || now - heard_ns > linger_ns)
    }
}

impl Engine for Peer {
    type Account = Left;

    fn on_burst(&mut self, now: Nanoseconds, _: usize, burst: &mut Burst) {
        self.heard_ns = Some(now);
        self.stack.on_burst(now, burst, &mut self.owner);
    }

    fn on_timer(&mut self, now: Nanoseconds, _: Nanoseconds, out: &mut Sides<Left>) {
        self.stack.on_timer(now, &mut self.owner);
        self.open(now);
        self.act(now);
        for frame in self.owner.frames.drain(..) {
            out.send(0, frame, Left(now));
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        match self.owner.listed.is_empty() {
            true => self.stack.next_deadline(),
            false => Some(0),
        }
    }

    fn held(&self) -> usize {
        self.owner.frames.len()
    }

    fn spill(&mut self, _: usize) {
        self.stack.spill();
    }

    fn on_sent(&mut self, _: Left, _: Nanoseconds) {}

    /// The loop counts it; it is sent again like one that was lost.
    fn on_unsent(&mut self, _: Left, _: &Frame) {}
}
