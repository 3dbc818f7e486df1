//! Clients, servers, a link each way, and the time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;

use hashbrown::HashMap;
use lineside_frame::Frame;
use lineside_link::{Departure, Link, Settings};
use lineside_plan::{CallIndex, Order};
use lineside_tcp::ConnectionId;
use lineside_tcp::congestion::Congestion;

use crate::ends::{End, Heard, PORT, What, client_address, server_address};
use crate::workload::{Defect, Work, Workload};

/// When a run begins: some time after the epoch, so that no clock is 0.
const BEGIN_NS: i64 = 1_000_000_000_000;
/// Connections that are older than the workload have this long to open.
const BEFORE_NS: i64 = 600_000_000_000;
/// What a link holds at most.
const LINK_BYTES: usize = 256 << 20;
/// A record mark: RFC 5531, 11.
const MARK_BYTES: u64 = 4;
/// Of each client.
const PORT_MIN: u16 = 1024;

/// The network between clients and servers.
#[derive(Debug, Clone)]
pub struct Network {
    /// From clients to servers, and back.
    pub ways: [Settings; 2],
    /// How the windows of both ends move.
    pub congestion: &'static dyn Congestion,
    /// What losses and jitter are drawn from.
    pub seed: u64,
    /// A workload that takes longer has not ended.
    pub longest_ns: i64,
}

/// When a call was made, and when its reply was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// From the beginning on; `None`: it was not made.
    pub made_ns: Option<i64>,
    /// `None`: its reply had not come when the run ended.
    pub replied_ns: Option<i64>,
}

impl Times {
    /// From the call to its reply.
    pub fn latency_ns(&self) -> Option<i64> {
        Some(self.replied_ns? - self.made_ns?)
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// From the first call to the last reply.
    pub elapsed_ns: i64,
    /// Of each call.
    pub times: Vec<Times>,
    /// Calls whose replies had not come when the run ended.
    pub unfinished: u64,
    /// Connections that broke and were opened again.
    pub broken: u64,
    /// Segments that were sent again, by all.
    pub retransmissions: u64,
    /// Frames that entered the links, and those that they dropped.
    pub frames: [u64; 2],
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A call may be made.
    Ready(CallIndex),
    /// A server has the reply to a call; the second number is of its connection's opening.
    Reply(CallIndex, u32),
}

/// What is sent on a connection: a call, and the offset behind its last byte.
type Message = (CallIndex, u64);

/// A connection as both ends see it.
#[derive(Debug, Default)]
struct Line {
    at_client: Option<ConnectionId>,
    at_server: Option<ConnectionId>,
    /// How often it was opened.
    openings: u32,
    is_open: bool,
    /// The call that opens it.
    opener: Option<CallIndex>,
    /// Bytes that were sent, and came, to the server and to the client.
    sent: [u64; 2],
    came: [u64; 2],
    /// Messages under way.
    under_way: [VecDeque<Message>; 2],
    /// Calls without a reply, in their order.
    outstanding: VecDeque<CallIndex>,
    /// Calls that are not over. Without any, the connection is closed.
    left: u32,
}

struct World<'a> {
    workload: &'a Workload,
    order: Order,
    ends: [End; 2],
    ways: [Link<Frame>; 2],
    out: [Vec<Departure<Frame>>; 2],
    lines: Vec<Line>,
    /// The line of each address and port of a client.
    by_port: HashMap<(IpAddr, u16), u32>,
    by_server_id: HashMap<ConnectionId, u32>,
    next_ports: HashMap<u32, u16>,
    due: BinaryHeap<Reverse<(i64, Due)>>,
    times: Vec<Times>,
    replied: u64,
    broken: u64,
    now: i64,
    begin_ns: i64,
}

/// Runs a workload over a network.
pub fn predict(workload: &Workload, network: &Network) -> Result<Outcome, Defect> {
    workload.check()?;
    let mut world = World::new(workload, network).ok_or(Defect::Large)?;
    world.open_older();
    world.begin();
    world.run(network.longest_ns);
    Ok(world.outcome())
}

impl<'a> World<'a> {
    fn new(workload: &'a Workload, network: &Network) -> Option<Self> {
        let way = |at: usize| {
            let mut link = Link::new(
                network.ways[at].clone(),
                network.seed,
                at as u16,
                LINK_BYTES,
            );
            link.begin(BEGIN_NS);
            link
        };
        let mut lines: Vec<_> = workload
            .connections
            .iter()
            .map(|_| Line::default())
            .collect();
        for call in &workload.calls {
            lines[call.connection as usize].left += 1;
        }
        Some(Self {
            workload,
            order: workload.order(BEGIN_NS),
            ends: [
                End::new(false, network.seed, network.congestion)?,
                End::new(true, !network.seed, network.congestion)?,
            ],
            ways: [way(0), way(1)],
            out: [Vec::new(), Vec::new()],
            lines,
            by_port: HashMap::new(),
            by_server_id: HashMap::new(),
            next_ports: HashMap::new(),
            due: BinaryHeap::new(),
            times: vec![Times::default(); workload.calls.len()],
            replied: 0,
            broken: 0,
            now: BEGIN_NS - BEFORE_NS,
            begin_ns: BEGIN_NS,
        })
    }

    /// Opens connections that no call opens.
    fn open_older(&mut self) {
        let mut is_opened = vec![false; self.lines.len()];
        for call in &self.workload.calls {
            is_opened[call.connection as usize] |= call.work == Work::Open;
        }
        let older = (0..).zip(is_opened).filter(|(_, is_opened)| !is_opened);
        for (line, _) in older {
            self.connect(line);
        }
        self.send_frames();
        while let Some(next) = self.next_deadline()
            && next < BEGIN_NS
        {
            self.step(next);
        }
    }

    fn begin(&mut self) {
        self.now = self.now.max(BEGIN_NS);
        self.begin_ns = self.now;
        let first = self.order.first();
        self.due
            .extend(first.map(|(at, call)| Reverse((at, Due::Ready(call)))));
    }

    fn run(&mut self, longest_ns: i64) {
        let calls = self.workload.calls.len() as u64;
        while self.replied < calls
            && let Some(next) = self.next_deadline()
            && next <= self.begin_ns.saturating_add(longest_ns)
        {
            self.step(next);
        }
    }

    fn next_deadline(&self) -> Option<i64> {
        let is_under_way = self.out.iter().any(|out| !out.is_empty());
        let ways = self.ways.iter().filter_map(Link::next_deadline);
        let ends = self.ends.iter().filter_map(|end| end.stack.next_deadline());
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        let next = ways.chain(ends).chain(due).min();
        if is_under_way { Some(self.now) } else { next }
    }

    /// What is due then happens.
    fn step(&mut self, next: i64) {
        self.now = self.now.max(next);
        let now = self.now;
        for way in 0..2 {
            self.ways[way].on_timer(now, &mut self.out[way]);
            for departure in self.out[way].drain(..) {
                let mut frame = departure.item;
                frame.descriptor_mut().stamp_ns = Some(departure.at_ns);
                self.ends[1 - way].inbox.push(frame);
            }
        }
        for end in &mut self.ends {
            end.step(now);
        }
        self.hear();
        while let Some(&Reverse((at, due))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            match due {
                Due::Ready(call) => self.on_ready(call),
                Due::Reply(call, opening) => self.reply(call, opening),
            }
            self.hear();
        }
        self.send_frames();
    }

    fn send_frames(&mut self) {
        for way in 0..2 {
            for frame in self.ends[way].done.frames.drain(..) {
                self.ways[way].push(self.now, frame, &mut self.out[way]);
            }
        }
    }

    /// What the stacks reported.
    fn hear(&mut self) {
        for is_server in [false, true] {
            loop {
                let heard = std::mem::take(&mut self.ends[usize::from(is_server)].done.heard);
                if heard.is_empty() {
                    break;
                }
                for heard in heard {
                    match is_server {
                        false => self.on_client(heard),
                        true => self.on_server(heard),
                    }
                }
            }
        }
    }

    fn on_client(&mut self, (id, line, what): Heard) {
        let state = &mut self.lines[line as usize];
        if state.at_client != Some(id) {
            return;
        }
        match what {
            What::Opened(_) => {
                state.is_open = true;
                let waiting: u64 = state.sent[0];
                let opener = state.opener.take();
                if waiting > 0 {
                    self.send(false, id, waiting);
                }
                if let Some(call) = opener {
                    self.on_reply(call);
                }
            }
            What::Bytes(bytes) => {
                state.came[1] += bytes;
                while let Some(call) = self.lines[line as usize].arrived(1) {
                    let outstanding = &mut self.lines[line as usize].outstanding;
                    outstanding.retain(|&other| other != call);
                    self.on_reply(call);
                }
            }
            What::Closed => self.open_again(line),
            What::Ended => {}
        }
    }

    fn on_server(&mut self, (id, _, what): Heard) {
        match what {
            What::Opened(peer) => {
                let Some(&line) = self.by_port.get(&peer) else {
                    return;
                };
                self.by_server_id.insert(id, line);
                self.lines[line as usize].at_server = Some(id);
            }
            What::Bytes(bytes) => {
                let Some(&line) = self.by_server_id.get(&id) else {
                    return;
                };
                let state = &mut self.lines[line as usize];
                if state.at_server != Some(id) {
                    return;
                }
                state.came[0] += bytes;
                while let Some(call) = state.arrived(0) {
                    if let Work::Request { server_ns, .. } = self.workload.calls[call as usize].work
                    {
                        let at = self.now.saturating_add(server_ns.max(0));
                        self.due
                            .push(Reverse((at, Due::Reply(call, state.openings))));
                    }
                }
            }
            What::Ended => self.close(true, id),
            What::Closed => drop(self.by_server_id.remove(&id)),
        }
    }

    fn on_ready(&mut self, call: CallIndex) {
        self.order.on_ready(call);
        let thread = self.workload.calls[call as usize].thread;
        while let Some(call) = self.order.make_next(thread) {
            self.times[call as usize].made_ns = Some(self.now - self.begin_ns);
            self.make(call);
        }
    }

    fn make(&mut self, call: CallIndex) {
        let of = &self.workload.calls[call as usize];
        let line = of.connection;
        let state = &mut self.lines[line as usize];
        match of.work {
            Work::Open if state.is_open => self.on_reply(call),
            Work::Open => {
                state.opener = Some(call);
                if state.at_client.is_none() {
                    self.connect(line);
                }
            }
            Work::Request { .. } => {
                state.outstanding.push_back(call);
                self.send_call(call);
            }
            Work::OneWay { .. } => {
                self.send_call(call);
                self.on_reply(call);
            }
        }
    }

    /// Sends a call, or has it wait until its connection is open.
    fn send_call(&mut self, call: CallIndex) {
        let of = &self.workload.calls[call as usize];
        let bytes = match of.work {
            Work::Open => return,
            Work::Request { call_bytes, .. } | Work::OneWay { call_bytes } => {
                call_bytes.saturating_add(MARK_BYTES)
            }
        };
        let state = &mut self.lines[of.connection as usize];
        state.enter(0, call, bytes);
        match (state.at_client, state.is_open) {
            (Some(id), true) => self.send(false, id, bytes),
            // It is sent when the connection is open.
            (Some(_), false) => {}
            (None, _) => self.connect(of.connection),
        }
    }

    fn reply(&mut self, call: CallIndex, opening: u32) {
        let of = &self.workload.calls[call as usize];
        let Work::Request { reply_bytes, .. } = of.work else {
            return;
        };
        let state = &mut self.lines[of.connection as usize];
        if let Some(id) = state.at_server
            && state.openings == opening
        {
            let bytes = reply_bytes.saturating_add(MARK_BYTES);
            state.enter(1, call, bytes);
            self.send(true, id, bytes);
        }
    }

    fn send(&mut self, is_server: bool, id: ConnectionId, bytes: u64) {
        let end = &mut self.ends[usize::from(is_server)];
        // A connection that ended meanwhile is reported, and opened again.
        let _ = end.stack.send(self.now, id, bytes, &mut end.done);
    }

    fn close(&mut self, is_server: bool, id: ConnectionId) {
        let end = &mut self.ends[usize::from(is_server)];
        // One that ended meanwhile is closed.
        let _ = end.stack.close(self.now, id, &mut end.done);
    }

    fn on_reply(&mut self, call: CallIndex) {
        let now = self.now;
        self.times[call as usize].replied_ns = Some(now - self.begin_ns);
        self.replied += 1;
        let line = &mut self.lines[self.workload.calls[call as usize].connection as usize];
        line.left -= 1;
        if line.left == 0
            && let Some(id) = line.at_client.take()
        {
            self.close(false, id);
        }
        let due = &mut self.due;
        self.order.on_reply(now, call, |at, follower| {
            due.push(Reverse((at, Due::Ready(follower))));
        });
    }

    fn connect(&mut self, line: u32) {
        let ends = self.workload.connections[line as usize];
        let client = client_address(ends.client);
        let server = (server_address(ends.server), PORT);
        let port = self.next_ports.entry(ends.client).or_insert(PORT_MIN);
        let clients = &mut self.ends[0];
        // A port of a connection that is over is free again.
        let mut tries = 0;
        let id = loop {
            let local = (client, *port);
            *port = port.checked_add(1).unwrap_or(PORT_MIN);
            let End { stack, done, .. } = clients;
            match stack.connect(self.now, local, server, line, done) {
                Ok(id) => {
                    self.by_port.insert(local, line);
                    break Some(id);
                }
                Err(_) if tries < u16::MAX => tries += 1,
                Err(_) => break None,
            }
        };
        let state = &mut self.lines[line as usize];
        state.at_client = id;
        state.openings += 1;
    }

    /// A connection broke: its client opens another, and sends again what has no reply, as clients
    /// of NFS do.
    fn open_again(&mut self, line: u32) {
        self.broken += 1;
        let state = &mut self.lines[line as usize];
        *state = Line {
            opener: state.opener.take(),
            openings: state.openings,
            outstanding: std::mem::take(&mut state.outstanding),
            left: state.left,
            ..Line::default()
        };
        self.connect(line);
        for at in 0..self.lines[line as usize].outstanding.len() {
            let call = self.lines[line as usize].outstanding[at];
            self.send_call(call);
        }
    }

    fn outcome(self) -> Outcome {
        let made = self.times.iter().filter_map(|times| times.made_ns).min();
        let replied = self.times.iter().filter_map(|times| times.replied_ns).max();
        let counters = self.ends.map(|end| end.stack.counters());
        let links = self.ways.map(|way| way.counters());
        Outcome {
            elapsed_ns: replied.zip(made).map_or(0, |(last, first)| last - first),
            unfinished: self.times.len() as u64 - self.replied,
            times: self.times,
            broken: self.broken,
            retransmissions: counters.iter().map(|of| of.retransmitted).sum(),
            frames: [
                links.iter().map(|link| link.entered).sum(),
                links.iter().map(|link| link.dropped.total()).sum(),
            ],
        }
    }
}

impl Line {
    /// A message goes to the server (0) or to the client (1).
    fn enter(&mut self, way: usize, call: CallIndex, bytes: u64) {
        self.sent[way] += bytes;
        self.under_way[way].push_back((call, self.sent[way]));
    }

    /// The next message of which all bytes came.
    fn arrived(&mut self, way: usize) -> Option<CallIndex> {
        let came = self.came[way];
        let message = self.under_way[way].pop_front_if(|(_, end)| *end <= came)?;
        Some(message.0)
    }
}
