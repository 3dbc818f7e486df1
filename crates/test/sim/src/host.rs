//! A host: a stack, and what its owner does with each connection.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_tcp::{Closed, Config, ConnectionId, Departure, Effects, Event, Stack};
use lineside_time::Random;

use crate::scenario::{Side, may_break};
use crate::{ClientEnd, Content};

/// Where the server listens.
pub(crate) const PORT: u16 = 7;
const MEMORY_BYTES: usize = 64 << 20;

/// One end of a connection as its owner sees it.
#[derive(Debug)]
pub(crate) struct Half {
    side: Side,
    is_client: bool,
    client: ClientEnd,
    /// Bytes that the other end will have sent.
    expected: u64,
    /// One of the ends aborts.
    may_break: bool,
    pub(crate) received: u64,
    acknowledged: u64,
    announced: u64,
    is_open: bool,
    has_ended: bool,
    is_shut: bool,
    next_at: i64,
    /// It takes no more until then.
    stopped_until: Option<i64>,
    has_stopped: bool,
}

/// Frames that leave, and the host's halves of its connections.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    pub(crate) frames: Vec<Frame>,
    pub(crate) halves: BTreeMap<ConnectionId, Half>,
    /// What both sides of each connection say.
    pub(crate) plan: BTreeMap<ClientEnd, [Side; 2]>,
    /// Bytes that arrived of each connection.
    pub(crate) received: BTreeMap<ClientEnd, u64>,
    pub(crate) closed: usize,
    /// When each connection ended here of which everything arrived, in both directions.
    pub(crate) whole: BTreeMap<ClientEnd, i64>,
    /// Connections that the peer reset, all of whose bytes had come, and when. The reset is right
    /// if the peer had all of ours, and only its last acknowledgements were lost.
    pub(crate) forgotten: Vec<(ClientEnd, i64, String)>,
    now: i64,
    pub(crate) errors: Vec<String>,
    is_server: bool,
}

impl Owner {
    fn error(&mut self, text: String) {
        if self.errors.len() < 5 {
            self.errors.push(text);
        }
    }

    fn half(&mut self, client: ClientEnd, is_client: bool) -> Option<Half> {
        let sides = self.plan.get(&client)?;
        let (own, other) = if is_client { (0, 1) } else { (1, 0) };
        Some(Half {
            side: sides[own],
            is_client,
            client,
            expected: sides[other].bytes,
            may_break: may_break(sides),
            received: 0,
            acknowledged: 0,
            announced: 0,
            is_open: false,
            has_ended: false,
            is_shut: false,
            next_at: i64::MIN,
            stopped_until: None,
            has_stopped: false,
        })
    }

    fn on_closed(&mut self, connection: ConnectionId, why: Closed) {
        self.closed += 1;
        let Some(half) = self.halves.remove(&connection) else {
            self.error(format!("{connection:?} is over twice"));
            return;
        };
        let has_all = half.received == half.expected && half.has_ended && half.is_shut;
        let is_acknowledged = half.acknowledged == half.side.bytes;
        // What was aborted breaks off, but nobody is left to wait.
        let is_broken = half.may_break && why != Closed::TimedOut;
        let text = || format!("{why:?} of {half:?}");
        match why {
            Closed::Finished if has_all && is_acknowledged => {
                self.whole.insert(half.client, self.now);
            }
            _ if is_broken => {}
            Closed::Reset if has_all => self.forgotten.push((half.client, self.now, text())),
            _ => self.error(text()),
        }
    }
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        let Some(half) = self.halves.get(&connection) else {
            self.error(format!("bytes of {connection:?}, which is over"));
            return;
        };
        let end = offset + bytes.len() as u64;
        let is_ready = offset >= half.acknowledged && end <= half.announced;
        let content = Content::new(half.client, half.is_client);
        if !is_ready {
            let text = format!("asked for {offset}..{end} of {half:?}");
            self.error(text);
        }
        for (byte, at) in bytes.iter_mut().zip(offset..) {
            *byte = content.byte(at);
        }
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        if let Event::Opened { ends } = event {
            if self.is_server {
                match self.half(ends[1], false) {
                    Some(half) => drop(self.halves.insert(connection, half)),
                    None => self.error(format!("nobody opened {ends:?}")),
                }
            }
            if let Some(half) = self.halves.get_mut(&connection) {
                half.is_open = true;
            }
            return;
        }
        if let Event::Closed(why) = event {
            self.on_closed(connection, why);
            return;
        }
        let Some(half) = self.halves.get_mut(&connection) else {
            self.error(format!("{event:?} of {connection:?}, which is over"));
            return;
        };
        let mut wrong = None;
        match event {
            Event::Stream(chunk) => {
                let content = Content::new(half.client, !half.is_client);
                wrong = { content.differs(half.received, chunk.bytes()) }
                    .map(|at| format!("byte {at} differs"));
                half.received += chunk.len() as u64;
                self.received.insert(half.client, half.received);
                if half.has_ended {
                    wrong = Some("bytes after the end".to_owned());
                }
            }
            Event::Acknowledged(bytes) => half.acknowledged += bytes,
            Event::Ended if half.has_ended => wrong = Some("a second end".to_owned()),
            Event::Ended => half.has_ended = true,
            Event::Opened { .. } | Event::Closed(_) => {}
        }
        if let Some(wrong) = wrong {
            let text = format!("{wrong}: {:?}", self.halves.get(&connection));
            self.error(text);
        }
    }

    fn on_silent(&mut self, neighbour: IpAddr) {
        // Three questions that were lost are no fault.
        let _ = neighbour;
    }
}

/// A stack and its owner.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) stack: Stack,
    pub(crate) owner: Owner,
    pub(crate) budget: Budget,
    /// Frames that it has not looked at.
    pub(crate) inbox: Burst,
    pub(crate) time_wait_ns: i64,
    link_address: [u8; 6],
    random: Random,
}

impl Host {
    pub(crate) fn new(config: Config, seed: u64, is_server: bool) -> Self {
        let budget = Budget::new(MEMORY_BYTES);
        let mut random = Random::new(seed);
        let secret = [random.bits(), random.bits()];
        let link_address = config.link_address;
        let time_wait_ns = config.time_wait_ns;
        let mut stack = Stack::new(config, secret, &budget).expect("64 MiB are enough");
        if is_server {
            stack.listen(None, PORT, 0).expect("nobody listens there");
        }
        Self {
            stack,
            owner: Owner {
                is_server,
                ..Owner::default()
            },
            budget,
            inbox: Burst::new(),
            time_wait_ns,
            link_address,
            random,
        }
    }

    /// Whether a frame is for its Ethernet address.
    pub(crate) fn is_for(&self, frame: &Frame) -> bool {
        frame.bytes()[..6] == self.link_address
    }

    /// What is due now happens.
    pub(crate) fn step(&mut self, now: i64) {
        self.owner.now = now;
        if !self.inbox.is_empty() {
            { &mut self.stack }.on_burst(now, &mut self.inbox, &mut self.owner);
        }
        if self.stack.next_deadline().is_some_and(|at| at <= now) {
            self.stack.on_timer(now, &mut self.owner);
        }
        self.act(now);
    }

    pub(crate) fn connect(&mut self, now: i64, ends: [(IpAddr, u16); 2], sides: [Side; 2]) {
        let [local, remote] = ends;
        let id = self.stack.connect(now, local, remote, 0, &mut self.owner);
        let id = id.expect("there is room");
        self.owner.plan.insert(local, sides);
        let half = self.owner.half(local, true).expect("it was entered");
        self.owner.halves.insert(id, half);
    }

    /// When its owner does something next.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let halves = self.owner.halves.values();
        let own = halves.filter_map(|half| {
            let speaks = (half.is_open && !half.is_shut).then_some(half.next_at);
            [speaks, half.stopped_until].into_iter().flatten().min()
        });
        own.chain(self.stack.next_deadline()).min()
    }

    /// The owner speaks, and stops to listen or begins again.
    fn act(&mut self, now: i64) {
        let ids: Vec<_> = self.owner.halves.keys().copied().collect();
        for id in ids {
            if !self.aborts(now, id) {
                self.listen(now, id);
                self.speak(now, id);
            }
        }
    }

    fn aborts(&mut self, now: i64, id: ConnectionId) -> bool {
        let halves = self.owner.halves.get(&id);
        let is_due = halves.is_some_and(|half| {
            let done = half.announced + half.received;
            half.side.aborts_at.is_some_and(|at| done >= at)
        });
        if is_due && let Err(refused) = self.stack.abort(now, id, &mut self.owner) {
            self.owner.error(format!("aborting: {refused}"));
        }
        is_due
    }

    fn listen(&mut self, now: i64, id: ConnectionId) {
        let Some(half) = self.owner.halves.get_mut(&id) else {
            return;
        };
        let stops = half.side.stops_at.is_some_and(|at| half.received >= at);
        let window = if stops && !half.has_stopped && half.is_open {
            half.has_stopped = true;
            let pause = self.random.below(4_000_000_000) as i64;
            half.stopped_until = Some(now + pause);
            0
        } else if half.stopped_until.is_some_and(|until| until <= now) {
            half.stopped_until = None;
            u32::MAX
        } else {
            return;
        };
        let set = self.stack.set_window(now, id, window, &mut self.owner);
        if let Err(refused) = set {
            self.owner.error(format!("a window: {refused}"));
        }
    }

    fn speak(&mut self, now: i64, id: ConnectionId) {
        let Some(half) = self.owner.halves.get_mut(&id) else {
            return;
        };
        if !half.is_open || half.is_shut || half.next_at > now {
            return;
        }
        let rest = half.side.bytes - half.announced;
        let pause = 1 + self.random.below(half.side.pause_ns as u64 + 1) as i64;
        half.next_at = now + pause;
        let sent = match rest {
            0 => {
                half.is_shut = true;
                self.stack.shutdown(now, id, &mut self.owner)
            }
            rest => {
                let len = rest.min(1 + self.random.below(half.side.step));
                half.announced += len;
                self.stack.send(now, id, len, &mut self.owner)
            }
        };
        if let Err(refused) = sent {
            self.owner.error(format!("sending: {refused}"));
        }
    }
}
