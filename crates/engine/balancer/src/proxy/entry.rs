//! A connection that is not spliced, or whose request is being replayed.

use std::net::SocketAddr;

use lineside_tcp::cookie;
use lineside_time::{Nanoseconds, TimerId};
use lineside_wire::SeqNumber;
use lineside_wire::tcp::{TcpOption, TcpOptions};

use super::request::Request;
use super::rewrite::Splice;
use super::rules::Group;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The client makes its request.
    Request,
    /// A node was sent a SYN.
    Connecting,
    /// Both halves are spliced; the node has not acknowledged the request.
    Replaying,
}

/// What client and engine agreed on by SYN and cookie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreed {
    /// The longest segment that the client takes, as the cookie names it.
    pub(super) mss: u16,
    pub(super) offer: cookie::Offer,
    pub(super) timestamps: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// Client and service.
    pub(super) ends: [SocketAddr; 2],
    pub(super) service: u32,
    /// The caller's word of where the client is.
    pub(super) from: u64,
    pub(super) state: State,
    pub(super) timer: Option<TimerId>,
    /// The numbers of the SYN and of its answer.
    pub(super) irs: SeqNumber,
    pub(super) iss: SeqNumber,
    pub(super) agreed: Agreed,
    /// The client's latest timestamp.
    pub(super) client_stamp: u32,
    /// The client's window in bytes, and the latest number that it acknowledged.
    pub(super) client_window: u32,
    pub(super) client_ack: SeqNumber,
    pub(super) request: Request,
    /// Bytes of the request without which the rules cannot decide, and those that they know.
    pub(super) needed: usize,
    pub(super) known: usize,
    pub(super) group: Group,
    pub(super) node: Node,
    pub(super) splice: Splice,
}

/// The half of the node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The caller's end and the node's, once one is chosen.
    pub(super) ends: Option<[SocketAddr; 2]>,
    /// Nodes that failed.
    pub(super) tried: u8,
    /// Times that the SYN, or the same part of the request, was sent.
    pub(super) tries: u8,
    /// When the SYN was sent first.
    pub(super) asked_at: Nanoseconds,
    pub(super) irs: SeqNumber,
    /// The node's latest timestamp.
    pub(super) stamp: u32,
    /// The longest payload that it is sent.
    pub(super) payload_max: usize,
    pub(super) window: u32,
    /// By how many bits its windows are shifted.
    pub(super) shift: u8,
    pub(super) rto_ns: Nanoseconds,
    /// What it acknowledged of the request, and what it was sent; an end counts as a byte.
    pub(super) acknowledged: usize,
    pub(super) sent: usize,
    pub(super) duplicates: u8,
}

impl Node {
    pub(super) fn new() -> Self {
        Self {
            ends: None,
            tried: 0,
            tries: 0,
            asked_at: 0,
            irs: SeqNumber(0),
            stamp: 0,
            payload_max: 0,
            window: 0,
            shift: 0,
            rto_ns: 0,
            acknowledged: 0,
            sent: 0,
            duplicates: 0,
        }
    }
}

impl Entry {
    /// The first byte of the request.
    pub(super) fn first(&self) -> SeqNumber {
        self.irs + 1
    }

    /// Bytes of the request that can be replayed; its end counts as one.
    pub(super) fn replay_len(&self) -> usize {
        self.request.known().len() + usize::from(self.request.has_ended())
    }

    /// The next number that is expected of the client.
    pub(super) fn next(&self) -> SeqNumber {
        self.first() + self.replay_len() as u32
    }
}

/// The options of a segment that matter here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) sack: bool,
    /// Value and echo.
    pub(super) timestamps: Option<(u32, u32)>,
}

impl Options {
    pub(super) fn read(options: TcpOptions<'_>) -> Self {
        let mut read = Self::default();
        for option in options.map_while(Result::ok) {
            match option {
                TcpOption::Mss(mss) => read.mss = Some(mss),
                // RFC 7323, 2.3: a larger one counts as 14.
                TcpOption::WindowScale(scale) => read.scale = Some(scale.min(14)),
                TcpOption::SackPermitted => read.sack = true,
                TcpOption::Timestamps { value, echo } => read.timestamps = Some((value, echo)),
                TcpOption::Sack(_) => {}
            }
        }
        read
    }
}
