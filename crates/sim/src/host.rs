//! A host: a stack, and what its owner does with each connection.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::Frame;
use lineside_tcp::{Closed, Config, ConnectionId, Departure, Effects, Event, Stack};
use lineside_time::Random;

use crate::scenario::{Side, may_break};
use crate::{content, differs};

/// Where the server listens.
pub(crate) const PORT: u16 = 7;
const MEMORY_BYTES: usize = 64 << 20;

/// One end of a connection as its owner sees it.
#[derive(Debug)]
pub(crate) struct Talk {
    /// Its place in the scenario, once it is known.
    side: Side,
    is_client: bool,
    client_port: u16,
    /// Bytes that the other end will have said.
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

/// Frames that leave, and talks.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    pub(crate) frames: Vec<Frame>,
    pub(crate) talks: BTreeMap<ConnectionId, Talk>,
    /// What both sides of each client's port say.
    pub(crate) plan: BTreeMap<u16, [Side; 2]>,
    pub(crate) closed: usize,
    pub(crate) errors: Vec<String>,
    is_server: bool,
}

impl Owner {
    fn error(&mut self, text: String) {
        if self.errors.len() < 5 {
            self.errors.push(text);
        }
    }

    fn talk(&mut self, client_port: u16, is_client: bool) -> Option<Talk> {
        let sides = self.plan.get(&client_port)?;
        let (own, other) = if is_client { (0, 1) } else { (1, 0) };
        Some(Talk {
            side: sides[own],
            is_client,
            client_port,
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
        let Some(talk) = self.talks.remove(&connection) else {
            self.error(format!("{connection:?} is over twice"));
            return;
        };
        let is_whole = talk.received == talk.expected
            && talk.acknowledged == talk.side.bytes
            && talk.has_ended
            && why == Closed::Finished;
        // What was aborted breaks off, but nobody is left to wait.
        let is_broken = talk.may_break && why != Closed::TimedOut;
        if !is_whole && !is_broken {
            self.error(format!("{why:?} of {talk:?}"));
        }
    }
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        let Some(talk) = self.talks.get(&connection) else {
            self.error(format!("bytes of {connection:?}, which is over"));
            return;
        };
        let end = offset + bytes.len() as u64;
        let is_ready = offset >= talk.acknowledged && end <= talk.announced;
        let (port, is_client) = (talk.client_port, talk.is_client);
        if !is_ready {
            let text = format!("asked for {offset}..{end} of {talk:?}");
            self.error(text);
        }
        for (byte, at) in bytes.iter_mut().zip(offset..) {
            *byte = content(port, is_client, at);
        }
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        if let Event::Opened { ends } = event {
            if self.is_server {
                match self.talk(ends[1].1, false) {
                    Some(talk) => drop(self.talks.insert(connection, talk)),
                    None => self.error(format!("nobody opened {ends:?}")),
                }
            }
            if let Some(talk) = self.talks.get_mut(&connection) {
                talk.is_open = true;
            }
            return;
        }
        if let Event::Closed(why) = event {
            self.on_closed(connection, why);
            return;
        }
        let Some(talk) = self.talks.get_mut(&connection) else {
            self.error(format!("{event:?} of {connection:?}, which is over"));
            return;
        };
        let mut wrong = None;
        match event {
            Event::Stream(chunk) => {
                let (port, from_client) = (talk.client_port, !talk.is_client);
                wrong = differs(port, from_client, talk.received, chunk.bytes())
                    .map(|at| format!("byte {at} differs"));
                talk.received += chunk.len() as u64;
                if talk.has_ended {
                    wrong = Some("bytes after the end".to_owned());
                }
            }
            Event::Acknowledged(bytes) => talk.acknowledged += bytes,
            Event::Ended if talk.has_ended => wrong = Some("a second end".to_owned()),
            Event::Ended => talk.has_ended = true,
            Event::Opened { .. } | Event::Closed(_) => {}
        }
        if let Some(wrong) = wrong {
            let text = format!("{wrong}: {:?}", self.talks.get(&connection));
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
    random: Random,
}

impl Host {
    pub(crate) fn new(config: Config, seed: u64, is_server: bool) -> Self {
        let budget = Budget::new(MEMORY_BYTES);
        let mut random = Random::new(seed);
        let secret = [random.bits(), random.bits()];
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
            random,
        }
    }

    pub(crate) fn connect(&mut self, now: i64, ends: [(IpAddr, u16); 2], sides: [Side; 2]) {
        let [local, remote] = ends;
        let id = self.stack.connect(now, local, remote, 0, &mut self.owner);
        let id = id.expect("there is room");
        self.owner.plan.insert(local.1, sides);
        let talk = self.owner.talk(local.1, true).expect("it was entered");
        self.owner.talks.insert(id, talk);
    }

    /// When its owner does something next.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let talks = self.owner.talks.values();
        let own = talks.filter_map(|talk| {
            let speaks = (talk.is_open && !talk.is_shut).then_some(talk.next_at);
            [speaks, talk.stopped_until].into_iter().flatten().min()
        });
        own.chain(self.stack.next_deadline()).min()
    }

    /// The owner speaks, and stops to listen or begins again.
    pub(crate) fn act(&mut self, now: i64) {
        let ids: Vec<_> = self.owner.talks.keys().copied().collect();
        for id in ids {
            if !self.aborts(now, id) {
                self.listen(now, id);
                self.speak(now, id);
            }
        }
    }

    fn aborts(&mut self, now: i64, id: ConnectionId) -> bool {
        let talks = self.owner.talks.get(&id);
        let is_due = talks.is_some_and(|talk| {
            let done = talk.announced + talk.received;
            talk.side.aborts_at.is_some_and(|at| done >= at)
        });
        if is_due && let Err(refused) = self.stack.abort(now, id, &mut self.owner) {
            self.owner.error(format!("aborting: {refused}"));
        }
        is_due
    }

    fn listen(&mut self, now: i64, id: ConnectionId) {
        let Some(talk) = self.owner.talks.get_mut(&id) else {
            return;
        };
        let stops = talk.side.stops_at.is_some_and(|at| talk.received >= at);
        let window = if stops && !talk.has_stopped && talk.is_open {
            talk.has_stopped = true;
            let pause = self.random.below(4_000_000_000) as i64;
            talk.stopped_until = Some(now + pause);
            0
        } else if talk.stopped_until.is_some_and(|until| until <= now) {
            talk.stopped_until = None;
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
        let Some(talk) = self.owner.talks.get_mut(&id) else {
            return;
        };
        if !talk.is_open || talk.is_shut || talk.next_at > now {
            return;
        }
        let rest = talk.side.bytes - talk.announced;
        let pause = 1 + self.random.below(talk.side.pause_ns as u64 + 1) as i64;
        talk.next_at = now + pause;
        let said = match rest {
            0 => {
                talk.is_shut = true;
                self.stack.shutdown(now, id, &mut self.owner)
            }
            rest => {
                let len = rest.min(1 + self.random.below(talk.side.step));
                talk.announced += len;
                self.stack.send(now, id, len, &mut self.owner)
            }
        };
        if let Err(refused) = said {
            self.owner.error(format!("sending: {refused}"));
        }
    }
}
