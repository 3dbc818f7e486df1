//! The two ends of the links: a stack for all clients, and one for all servers.

use std::net::{IpAddr, Ipv4Addr};

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_tcp::congestion::Congestion;
use lineside_tcp::{Config, ConnectionId, Departure, Effects, Event, Prefix, Stack};

/// Where servers listen.
pub(crate) const PORT: u16 = 2049;
/// Memory of a stack: a million connections, with bytes in flight of 65,536.
const MEMORY_BYTES: usize = 512 << 20;
/// Linux lets a window grow to 6 MiB.
const RECEIVE_WINDOW_BYTES: u32 = 6 << 20;

/// What a stack reports of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// It is open: address and port of the other end.
    Opened((IpAddr, u16)),
    /// So many bytes came.
    Bytes(u64),
    /// The other end has no more data.
    Ended,
    /// It is over.
    Closed,
}

/// What a stack reports: the connection, its owner's word, and what.
pub(crate) type Heard = (ConnectionId, u32, What);

/// Frames that leave a stack, and what it reports.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) frames: Vec<Frame>,
    pub(crate) heard: Vec<Heard>,
}

impl Effects for Done {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, _: ConnectionId, _: u32, _: u64, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn on_event(&mut self, connection: ConnectionId, owner: u32, event: Event<'_>) {
        let what = match event {
            Event::Opened { ends: [_, peer] } => What::Opened(peer),
            Event::Stream(chunk) => What::Bytes(chunk.len() as u64),
            Event::Ended => What::Ended,
            Event::Closed(_) => What::Closed,
            Event::Acknowledged(_) => return,
        };
        self.heard.push((connection, owner, what));
    }
}

/// A stack with what it did, and frames that it has not looked at.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stack: Stack,
    pub(crate) done: Done,
    pub(crate) inbox: Burst,
}

/// The address of a client.
pub(crate) fn client_address(number: u32) -> IpAddr {
    address(false, number + 1)
}

/// The address of a server.
pub(crate) fn server_address(number: u32) -> IpAddr {
    address(true, number + 1)
}

/// An address of an end's block; the first one is its router's.
fn address(is_server: bool, number: u32) -> IpAddr {
    let block = if is_server { 0x0a02_0000 } else { 0x0a01_0000 };
    Ipv4Addr::from_bits(block | number).into()
}

fn link_address(is_server: bool) -> [u8; 6] {
    [2, 0, 0, 0, 0, u8::from(is_server)]
}

impl End {
    /// The clients' end, or the servers'; `None`: there is no memory.
    pub(crate) fn new(
        is_server: bool,
        seed: u64,
        congestion: &'static dyn Congestion,
    ) -> Option<Self> {
        let router = address(is_server, 0);
        let block = Prefix {
            address: router,
            len: 16,
        };
        let config = Config {
            addresses: vec![block],
            on_link: vec![block],
            routers: vec![router],
            congestion,
            receive_window_bytes: RECEIVE_WINDOW_BYTES,
            held_bytes_max: 256 << 20,
            nagle: false,
            // Ports are used again as soon as may be.
            time_wait_ns: 1_000_000,
            ..Config::new(link_address(is_server), &[])
        };
        let mut stack = Stack::new(config, [seed, 2], &Budget::new(MEMORY_BYTES))?;
        stack.keep_neighbour(router, link_address(!is_server));
        if is_server {
            stack.listen(None, PORT, 0).ok()?;
        }
        Some(Self {
            stack,
            done: Done::default(),
            inbox: Burst::new(),
        })
    }

    /// What came, and what is due.
    pub(crate) fn step(&mut self, now: i64) {
        if !self.inbox.is_empty() {
            self.stack.on_burst(now, &mut self.inbox, &mut self.done);
        }
        if self.stack.next_deadline().is_some_and(|at| at <= now) {
            self.stack.on_timer(now, &mut self.done);
        }
    }
}
