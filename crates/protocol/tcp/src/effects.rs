//! What a stack does to the world: frames that leave, and what its owner hears.

use std::net::IpAddr;

use lineside_frame::{Chunk, Frame};
use lineside_time::Nanoseconds;
use lineside_wire::icmp::Failure;

/// A connection, from [`connect`](crate::Stack::connect) or [`Event::Opened`] until
/// [`Event::Closed`]: a small number, given again afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// Why a frame leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Bytes that were sent as soon as they were ready.
    Data,
    /// Bytes that a window had held back.
    HeldBack,
    /// Bytes or a FIN that were sent before.
    Retransmission,
    /// It asks for the peer's window.
    Probe,
    /// It asks whether the peer is there.
    KeepAlive,
    /// It acknowledges, and carries nothing.
    Acknowledgement,
    /// A SYN.
    Handshake,
    /// A FIN without data.
    Fin,
    /// A RST.
    Reset,
    /// A datagram of UDP.
    Datagram,
    /// ARP, ICMP or neighbour discovery.
    Control,
}

/// What is known of a frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Whose it is.
    pub connection: Option<ConnectionId>,
    /// Why it leaves.
    pub why: Why,
    /// When [`send_at`](crate::Stack::send_at) or [`datagram`](crate::Stack::datagram) wanted it
    /// to: of [`Why::Data`] and [`Why::Datagram`] alone.
    pub due: Option<Nanoseconds>,
}

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Both ends sent their last byte, and it was acknowledged.
    Finished,
    /// The peer reset it.
    Reset,
    /// The peer refused it.
    Refused,
    /// The peer did not answer.
    TimedOut,
    /// The owner aborted it, or had closed it when more data came.
    Aborted,
    /// The peer's host, or a router, says that nobody takes its segments.
    Unreachable,
}

/// What the owner of a connection hears.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The handshake is over. Of a listener's connection it is the first that the owner hears, with
    /// the owner's word of the listener.
    Opened {
        /// Our address and port, and the peer's.
        ends: [(IpAddr, u16); 2],
    },
    /// The next bytes.
    Stream(Chunk<'a>),
    /// So many more bytes are acknowledged: they are never asked for again.
    Acknowledged(u64),
    /// The peer has no more data.
    Ended,
    /// The connection is over; its number may be given again. One in TIME_WAIT is over.
    Closed(Closed),
}

/// A datagram that came for an owner.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Our address and port, and the sender's.
    pub ends: [(IpAddr, u16); 2],
    /// When it arrived; of fragments, when the last one did.
    pub at: Nanoseconds,
    /// What it carries.
    pub payload: Chunk<'a>,
}

/// Takes what a stack does. No call comes back into the stack: what an owner wants to do about an
/// event, it does afterwards.
pub trait Effects {
    /// A frame leaves now.
    fn transmit(&mut self, frame: Frame, departure: Departure);
    /// Writes the bytes of a stream from `offset` on to `bytes`: [`send`](crate::Stack::send)
    /// announced them. They may be asked for again until they are acknowledged.
    fn fill(&mut self, connection: ConnectionId, owner: u32, offset: u64, bytes: &mut [u8]);
    /// Something happened to a connection; `owner` is the owner's word.
    fn on_event(&mut self, connection: ConnectionId, owner: u32, event: Event<'_>);
    /// An ICMP error reports the fate of a segment that is in flight, which ends no connection by
    /// itself: RFC 9293, 3.9.2.2.
    fn on_error(&mut self, _connection: ConnectionId, _owner: u32, _failure: Failure) {}
    /// A datagram came to a port that is [bound](crate::Stack::bind); `owner` is the owner's word.
    fn on_datagram(&mut self, _owner: u32, _datagram: &Datagram<'_>) {}
    /// An ICMP error reports the fate of a datagram that was sent from a bound port to another end.
    fn on_datagram_error(&mut self, _owner: u32, _ends: [(IpAddr, u16); 2], _failure: Failure) {}
    /// A neighbour does not answer.
    fn on_silent(&mut self, _neighbour: IpAddr) {}
}

/// Behind a pointer: an owner that is generic has one stack compiled for all its kinds, and not
/// one for each.
impl Effects for &mut (dyn Effects + '_) {
    fn transmit(&mut self, frame: Frame, departure: Departure) {
        (**self).transmit(frame, departure);
    }

    fn fill(&mut self, connection: ConnectionId, owner: u32, offset: u64, bytes: &mut [u8]) {
        (**self).fill(connection, owner, offset, bytes);
    }

    fn on_event(&mut self, connection: ConnectionId, owner: u32, event: Event<'_>) {
        (**self).on_event(connection, owner, event);
    }

    fn on_error(&mut self, connection: ConnectionId, owner: u32, failure: Failure) {
        (**self).on_error(connection, owner, failure);
    }

    fn on_datagram(&mut self, owner: u32, datagram: &Datagram<'_>) {
        (**self).on_datagram(owner, datagram);
    }

    fn on_datagram_error(&mut self, owner: u32, ends: [(IpAddr, u16); 2], failure: Failure) {
        (**self).on_datagram_error(owner, ends, failure);
    }

    fn on_silent(&mut self, neighbour: IpAddr) {
        (**self).on_silent(neighbour);
    }
}
