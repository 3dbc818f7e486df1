//! Our own TCP over live ports: the engine that a polling loop drives for an application.
//!
//! ```text
//!  burst ─► Stack ─► callbacks ─► Calls ─┐                  ┌─ due ─► Departures ─► due ─┐
//!  wheel ─► on_task ─────────────────────┴► Stack ─► frame ─┤                            ├─► Sides
//!                                                           └─ at once ───────────────────┘
//! ```

use lineside_frame::{Burst, Frame};
use lineside_reactor::{Account, Engine, Sides, Tap};
use lineside_tcp::{
    Closed, ConnectionId as StackConnection, Datagram, Effects, Event, Refused, Stack, Why,
};
use lineside_time::Nanoseconds;
use lineside_wire::icmp::{self, Failure};
use slab::Slab;

use crate::application::{Call, End, Outgoing};
use crate::departures::Departures;
use crate::worker_handoff::{SiblingCounts, Siblings};
use crate::{Application, Calls, ConnectionId, Reason, SocketId};

/// Frames due within this long leave by one kick: a kick takes longer than that.
const KICK_NS: i64 = 1_000;
/// What a frame, a task or a call takes at most, roughly: this many of them fit before a departure.
const STEP_NS: i64 = 1_000;
/// A frame from another worker waits at most this long.
const HANDED_NS: i64 = 50_000;
/// Frames, tasks and calls of a turn in which nothing is about to leave.
const STEPS_MAX: usize = 32;
/// Ports from which one is taken for a socket that asks for any: RFC 6335, 6.
const ANY_PORT: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// An application over our own [`Stack`], at one side of a polling loop.
pub struct StackLoop<A> {
    side: usize,
    stack: Stack,
    world: World<A>,
    /// Others that share the interface.
    siblings: Option<Siblings>,
    /// Frames from them.
    handed: Burst,
    /// Where the calls of a turn are while they are made.
    calling: Vec<(Call, u8)>,
    /// The port that is tried next for a socket that asks for any.
    next_port: u16,
    /// A datagram while it is written.
    datagram: Vec<u8>,
    /// Takes copies of frames.
    tap: Option<Tap>,
    /// Those of frames that are to leave.
    copies: Slab<Frame>,
    counters: StackLoopCounters,
}

/// What a [`StackLoop`] counted beside its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackLoopCounters {
    /// Frames that left at an instant that the application gave.
    pub timed: u64,
    /// Frames with bytes that a window had held back.
    pub held_back: u64,
    /// Frames with bytes that were sent before.
    pub retransmitted: u64,
    /// All others: they leave at once.
    pub others: u64,
    /// Frames that never left: their port was down.
    pub unsent: u64,
    /// Datagrams for a socket that came from another end than its own one.
    pub strays: u64,
}

/// What the stack acts on.
struct World<A> {
    application: A,
    calls: Calls,
    now: Nanoseconds,
    departures: Departures<(Frame, Leaving)>,
    at_once: Vec<(Frame, Leaving)>,
    /// Up to where bytes of a stream were written for the frame that leaves next.
    filled: Option<(StackConnection, u32, u64)>,
    /// Sockets of datagrams.
    sockets: Slab<Socket>,
    /// Owner and token of the datagram that leaves next.
    leaving: Option<(u32, u64)>,
    counters: StackLoopCounters,
}

/// A socket of datagrams.
struct Socket {
    owner: u32,
    local: End,
    remote: Option<End>,
}

/// What of the application's a frame carries.
#[derive(Debug, Clone, Copy)]
enum Carries {
    Nothing,
    /// Bytes of a stream, up to there.
    Stream(ConnectionId, u32, u64),
    /// A datagram: its owner and token.
    Datagram(u32, u64),
}

/// A frame that leaves, and whose bytes it carries.
#[derive(Debug, Clone, Copy)]
pub struct Leaving {
    carries: Carries,
    built: Nanoseconds,
    due: Nanoseconds,
    /// The place of its copy for the tap.
    copy: Option<u32>,
}

impl Account for Leaving {
    fn entered_ns(&self) -> Nanoseconds {
        self.built
    }

    fn at_ns(&self) -> Nanoseconds {
        self.due
    }
}

impl<A: Application> World<A> {
    /// As the stack sees it: without the application's type, so that there is one stack for all.
    fn effects(&mut self) -> &mut (dyn Effects + '_) {
        self
    }
}

impl<A: Application> Effects for World<A> {
    fn transmit(&mut self, frame: Frame, departure: lineside_tcp::Departure) {
        let carries = match departure.why {
            Why::Datagram => { self.leaving.take() }.map_or(Carries::Nothing, |(owner, token)| {
                Carries::Datagram(owner, token)
            }),
            _ => { self.filled.take() }.map_or(
                Carries::Nothing,
                |(StackConnection(number), owner, until)| {
                    Carries::Stream(ConnectionId(number), owner, until)
                },
            ),
        };
        let due = departure.due.unwrap_or(self.now);
        let leaving = Leaving {
            carries,
            built: self.now,
            due,
            copy: None,
        };
        match departure.why {
            Why::Data | Why::Datagram if departure.due.is_some() => self.counters.timed += 1,
            Why::HeldBack => self.counters.held_back += 1,
            Why::Retransmission => self.counters.retransmitted += 1,
            _ => self.counters.others += 1,
        }
        // What is due later does not overtake what waits: the order of numbers is that of instants.
        let waits = due > self.now
            || departure.due.is_some()
                && self.departures.next_due().is_some_and(|first| first <= due);
        if waits {
            self.departures.push(due, (frame, leaving));
        } else {
            self.at_once.push((frame, leaving));
        }
    }

    fn fill(&mut self, connection: StackConnection, owner: u32, offset: u64, bytes: &mut [u8]) {
        self.filled = Some((connection, owner, offset + bytes.len() as u64));
        let connection = ConnectionId(connection.0);
        self.application.fill(connection, owner, offset, bytes);
    }

    fn on_event(&mut self, connection: StackConnection, owner: u32, event: Event<'_>) {
        let (connection, calls) = (ConnectionId(connection.0), &mut self.calls);
        let application = &mut self.application;
        match event {
            Event::Opened { ends } => application.on_open(connection, owner, ends, calls),
            Event::Stream(chunk) => application.on_bytes(connection, owner, chunk, calls),
            Event::Acknowledged(bytes) => {
                application.on_acknowledged(connection, owner, bytes, calls);
            }
            Event::Ended => application.on_end(connection, owner, calls),
            Event::Closed(why) => {
                calls.on_over(connection);
                application.on_close(Some(connection), owner, reason_of(why), calls);
            }
        }
    }

    fn on_datagram(&mut self, number: u32, datagram: &Datagram<'_>) {
        let Some(socket) = self.sockets.get(number as usize) else {
            return;
        };
        if socket
            .remote
            .is_some_and(|remote| remote != datagram.ends[1])
        {
            self.counters.strays += 1;
            return;
        }
        let Datagram { ends, at, payload } = *datagram;
        let (owner, calls) = (socket.owner, &mut self.calls);
        self.application
            .on_datagram(SocketId(number), owner, ends, at, payload, calls);
    }

    fn on_datagram_error(&mut self, number: u32, ends: [End; 2], failure: Failure) {
        let socket = self.sockets.get(number as usize);
        let is_ours = |socket: &&Socket| socket.remote.is_none_or(|remote| remote == ends[1]);
        if let Some(socket) = socket.filter(is_ours) {
            let (owner, reason) = (
                socket.owner,
                reason_of_failure(failure, ends[1].0.is_ipv4()),
            );
            let calls = &mut self.calls;
            self.application
                .on_datagram_error(SocketId(number), owner, reason, calls);
        }
    }
}

fn reason_of_failure(failure: Failure, is_ipv4: bool) -> Reason {
    match failure {
        Failure::Unreachable(icmp::PORT_UNREACHABLE) if is_ipv4 => Reason::Refused,
        Failure::Unreachable(icmp::PORT_UNREACHABLE_V6) if !is_ipv4 => Reason::Refused,
        Failure::Unreachable(_) | Failure::TimeExceeded(_) => Reason::Unreachable,
        _ => Reason::Other,
    }
}

fn reason_of(why: Closed) -> Reason {
    match why {
        Closed::Finished => Reason::Finished,
        Closed::Reset => Reason::Reset,
        Closed::Refused => Reason::Refused,
        Closed::TimedOut => Reason::TimedOut,
        Closed::Aborted => Reason::Aborted,
        Closed::Unreachable => Reason::Unreachable,
    }
}

impl<A: Application> StackLoop<A> {
    /// An application over `stack`, whose frames come and leave by `side`.
    pub fn new(stack: Stack, side: usize, application: A) -> Self {
        Self {
            side,
            stack,
            world: World {
                application,
                calls: Calls::default(),
                now: Nanoseconds::MIN,
                departures: Departures::default(),
                at_once: Vec::new(),
                filled: None,
                sockets: Slab::new(),
                leaving: None,
                counters: StackLoopCounters::default(),
            },
            siblings: None,
            handed: Burst::new(),
            calling: Vec::new(),
            next_port: *ANY_PORT.start(),
            datagram: Vec::new(),
            tap: None,
            copies: Slab::new(),
            counters: StackLoopCounters::default(),
        }
    }

    /// Gives copies of frames to `tap` from now on.
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Frames leave that are due by then.
    fn leave(&mut self, until: Nanoseconds, out: &mut Sides<Leaving>) {
        let Self {
            side,
            world,
            tap,
            copies,
            ..
        } = self;
        let mut send = |frame: Frame, mut leaving: Leaving| {
            let copy = tap.as_mut().and_then(|tap| tap.copy(&frame));
            leaving.copy = copy.map(|copy| copies.insert(copy) as u32);
            out.send(*side, frame, leaving);
        };
        for (frame, leaving) in world.at_once.drain(..) {
            send(frame, leaving);
        }
        let departures = &mut world.departures;
        if departures.next_due().is_some_and(|due| due <= until) {
            while let Some((_, (frame, leaving))) = departures.pop(until + KICK_NS) {
                send(frame, leaving);
            }
        }
    }

    /// Others share the interface: what belongs to them is handed over.
    pub fn set_siblings(&mut self, siblings: Siblings) {
        self.siblings = Some(siblings);
    }

    /// What was handed over to others that share the interface, and taken from them.
    pub fn sibling_counts(&self) -> SiblingCounts {
        self.siblings
            .as_ref()
            .map_or_else(SiblingCounts::default, Siblings::counts)
    }

    /// Frames that others have handed over.
    fn take_handed(&mut self, now: Nanoseconds, max: usize) {
        let Some(siblings) = &mut self.siblings else {
            return;
        };
        siblings.take(&mut self.handed, max);
        if !self.handed.is_empty() {
            let world = &mut self.world;
            self.stack
                .on_burst(now, &mut self.handed, &mut world.effects());
        }
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.world.application
    }

    /// The application, to change it between two turns, and the calls that it may ask for.
    pub fn application_mut(&mut self, now: Nanoseconds) -> (&mut A, &mut Calls) {
        self.world.calls.set_now(now);
        (&mut self.world.application, &mut self.world.calls)
    }

    /// Takes connections; the callbacks about them have `owner`.
    pub fn listen(&mut self, (address, port): End, owner: u32) -> Result<(), Refused> {
        self.stack.listen(Some(address), port, owner)
    }

    /// The stack, for its counters.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// What was counted beside the stack.
    pub fn counters(&self) -> StackLoopCounters {
        StackLoopCounters {
            unsent: self.counters.unsent,
            ..self.world.counters
        }
    }

    /// How many frames, tasks or calls fit before the next departure; one at least, so that work
    /// goes on when departures are dense.
    fn steps(&mut self, now: Nanoseconds) -> usize {
        let slack_ns = self.world.departures.next_due().map(|due| due - now);
        let steps = slack_ns.map_or(STEPS_MAX as i64, |slack_ns| slack_ns / STEP_NS);
        steps.clamp(1, STEPS_MAX as i64) as usize
    }

    /// Time passes for everything that asks for it.
    fn pass(&mut self, now: Nanoseconds) {
        self.world.now = self.world.now.max(now);
        self.world.calls.set_now(self.world.now);
    }

    /// Makes up to `max` of the calls that are queued.
    fn call(&mut self, now: Nanoseconds, max: usize) {
        let count = self.world.calls.list.len().min(max);
        self.calling.extend(self.world.calls.list.drain(..count));
        let mut calling = std::mem::take(&mut self.calling);
        for (call, generation) in calling.drain(..) {
            if self.world.calls.holds(&call, generation) {
                self.make(now, call);
            }
        }
        self.calling = calling;
    }

    /// Takes datagrams, as [`Calls::bind`] does; returns the socket's address and port.
    pub fn bind(
        &mut self,
        now: Nanoseconds,
        (address, port): End,
        remote: Option<End>,
        owner: u32,
    ) -> Result<End, Refused> {
        let (stack, world) = (&mut self.stack, &mut self.world);
        let entry = world.sockets.vacant_entry();
        let number = entry.key() as u32;
        let at = (!address.is_unspecified()).then_some(address);
        let port = match port {
            0 => bind_to_any(stack, at, &mut self.next_port, number)?,
            port => stack.bind(at, port, number).map(|()| port)?,
        };
        let local = (address, port);
        entry.insert(Socket {
            owner,
            local,
            remote,
        });
        if let Some((remote, _)) = remote {
            stack.seek(now, remote, &mut world.effects());
        }
        let calls = &mut world.calls;
        world
            .application
            .on_bound(SocketId(number), owner, local, calls);
        Ok(local)
    }

    fn unbind(&mut self, socket: SocketId) {
        if let Some(Socket { local, .. }) = self.world.sockets.try_remove(socket.0 as usize) {
            let (address, port) = local;
            let at = (!address.is_unspecified()).then_some(address);
            self.stack.unbind(at, port);
            self.world.calls.on_unbound(socket);
        }
    }

    fn send_datagram(&mut self, now: Nanoseconds, outgoing: Outgoing) {
        let Outgoing {
            socket,
            ends,
            len,
            token,
            due,
        } = outgoing;
        let (stack, world) = (&mut self.stack, &mut self.world);
        let Some(&Socket { owner, .. }) = world.sockets.get(socket.0 as usize) else {
            return;
        };
        let leaves_ns = due.map_or(now, |due| due.max(now));
        let bytes = &mut self.datagram;
        bytes.resize(len as usize, 0);
        world
            .application
            .fill_datagram(owner, token, leaves_ns, bytes);
        world.leaving = Some((owner, token));
        let sent = send_copy(stack, now, ends, due, bytes, world.effects());
        let has_left = world.leaving.take().is_none();
        let World {
            application, calls, ..
        } = world;
        match sent {
            Err(refused) => {
                let reason = reason_of_refusal(refused);
                application.on_datagram_unsent(owner, token, reason, calls);
            }
            Ok(()) if has_left => {}
            Ok(()) => application.on_datagram_departed(owner, token, None, calls),
        }
    }

    fn make(&mut self, now: Nanoseconds, call: Call) {
        let (stack, world) = (&mut self.stack, &mut self.world);
        let made = match call {
            Call::Bind {
                local,
                remote,
                owner,
            } => {
                if let Err(refused) = self.bind(now, local, remote, owner) {
                    let World {
                        application, calls, ..
                    } = &mut self.world;
                    application.on_bind_failed(owner, reason_of_refusal(refused), calls);
                }
                return;
            }
            Call::Unbind(socket) => return self.unbind(socket),
            Call::Datagram(outgoing) => return self.send_datagram(now, outgoing),
            Call::Connect {
                local,
                remote,
                owner,
            } => {
                let opened = stack.connect(now, local, remote, owner, &mut world.effects());
                if let Err(refused) = opened {
                    let reason = reason_of_refusal(refused);
                    world
                        .application
                        .on_close(None, owner, reason, &mut world.calls);
                }
                return;
            }
            Call::Send {
                connection: ConnectionId(number),
                len,
                due,
            } => match due {
                Some(due) => {
                    stack.send_at(now, StackConnection(number), len, due, &mut world.effects())
                }
                None => stack.send(now, StackConnection(number), len, &mut world.effects()),
            },
            Call::Finish(ConnectionId(number)) => {
                stack.shutdown(now, StackConnection(number), &mut world.effects())
            }
            Call::Close(ConnectionId(number)) => {
                stack.close(now, StackConnection(number), &mut world.effects())
            }
            Call::Abort(ConnectionId(number)) => {
                stack.abort(now, StackConnection(number), &mut world.effects())
            }
            Call::Window { connection, bytes } => stack.set_window(
                now,
                StackConnection(connection.0),
                bytes,
                &mut world.effects(),
            ),
        };
        // A connection that is over has reported it by a callback. Without room for a larger record
        // the connection cannot send: it ends, and reports it too.
        if made == Err(Refused::Full)
            && let Call::Send { connection, .. } = call
        {
            let _ = stack.abort(now, StackConnection(connection.0), &mut world.effects());
        }
    }
}

/// Sends a datagram with these bytes.
fn send_copy(
    stack: &mut Stack,
    now: Nanoseconds,
    ends: [End; 2],
    due: Option<Nanoseconds>,
    bytes: &[u8],
    mut effects: &mut (dyn Effects + '_),
) -> Result<(), Refused> {
    stack.datagram(now, ends, (bytes.len(), due), &mut effects, |place| {
        place.copy_from_slice(bytes);
    })
}

/// Binds to the next port that is free.
fn bind_to_any(
    stack: &mut Stack,
    address: Option<std::net::IpAddr>,
    next: &mut u16,
    owner: u32,
) -> Result<u16, Refused> {
    for _ in ANY_PORT {
        let port = *next;
        *next = if port == *ANY_PORT.end() {
            *ANY_PORT.start()
        } else {
            port + 1
        };
        match stack.bind(address, port, owner) {
            Ok(()) => return Ok(port),
            Err(Refused::InUse(_)) => {}
            Err(refused) => return Err(refused),
        }
    }
    Err(Refused::NoPort)
}

fn reason_of_refusal(refused: Refused) -> Reason {
    match refused {
        Refused::NoPort | Refused::InUse(_) => Reason::NoPort,
        Refused::Full => Reason::NoRoom,
        Refused::NoRoute(_) | Refused::NotUnicast(_) => Reason::Unreachable,
        _ => Reason::Other,
    }
}

impl<A: Application> Engine for StackLoop<A> {
    type Account = Leaving;

    fn burst_max(&mut self, now: Nanoseconds) -> usize {
        self.steps(now)
    }

    fn on_burst(&mut self, now: Nanoseconds, side: usize, burst: &mut Burst) {
        self.pass(now);
        if let Some(tap) = &mut self.tap {
            tap.on_arrivals(now, side, burst);
        }
        if let Some(siblings) = &mut self.siblings {
            siblings.hand_over(burst);
        }
        self.stack.on_burst(now, burst, &mut self.world.effects());
    }

    fn on_timer(&mut self, now: Nanoseconds, until: Nanoseconds, out: &mut Sides<Leaving>) {
        self.pass(now);
        let steps = self.steps(until);
        self.take_handed(now, steps);
        self.stack.on_timer(now, &mut self.world.effects());
        for _ in 0..steps {
            let World {
                application, calls, ..
            } = &mut self.world;
            let Some((at, task)) = calls.wheel.pop(now) else {
                break;
            };
            application.on_task(at, task, calls);
        }
        self.call(now, steps);
        self.leave(until, out);
        if let Some(tap) = &mut self.tap {
            tap.on_turn(now);
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        if !self.world.calls.list.is_empty() || !self.world.at_once.is_empty() {
            return Some(0);
        }
        let mut first = self.stack.next_deadline();
        if self.sibling_counts().taken > 0 {
            // Nothing wakes this loop when another one hands it a frame.
            let look = self.world.now + HANDED_NS;
            first = Some(first.map_or(look, |first| first.min(look)));
        }
        for another in [
            self.world.calls.wheel.next_deadline(),
            self.world.departures.earliest(),
        ] {
            first = match (first, another) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        first
    }

    fn held(&self) -> usize {
        self.world.departures.len() + self.world.at_once.len()
    }

    fn spill(&mut self, _: usize) {
        self.stack.spill();
    }

    fn on_sent(&mut self, leaving: Leaving, sent_ns: Nanoseconds) {
        let copy = leaving.copy.map(|place| self.copies.remove(place as usize));
        if let (Some(tap), Some(copy)) = (&mut self.tap, copy) {
            tap.on_sent(sent_ns, self.side, copy);
        }
        let World {
            application, calls, ..
        } = &mut self.world;
        match leaving.carries {
            Carries::Nothing => {}
            Carries::Stream(connection, owner, until) => {
                application.on_departed(connection, owner, until, sent_ns);
            }
            Carries::Datagram(owner, token) => {
                application.on_datagram_departed(owner, token, Some(sent_ns), calls);
            }
        }
    }

    /// A segment is sent again, like one that was lost on the way.
    fn on_unsent(&mut self, leaving: Leaving, _: &Frame) {
        self.counters.unsent += 1;
        if let Some(place) = leaving.copy {
            self.copies.remove(place as usize);
        }
        if let Carries::Datagram(owner, token) = leaving.carries {
            let World {
                application, calls, ..
            } = &mut self.world;
            application.on_datagram_unsent(owner, token, Reason::Unreachable, calls);
        }
    }
}
