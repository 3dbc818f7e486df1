//! What a [`Nat`](crate::Nat) returns.

use std::net::SocketAddr;

use lineside_frame::Frame;

use crate::settings::Transport;

/// What is to be done. The caller takes it out, and hands the same one over again.
#[derive(Debug, Default)]
pub struct Effects {
    /// Frames that leave, in their order.
    pub frames: Vec<Outgoing>,
    /// What a table in front of this one, such as a driver's, may do by itself from now on, or may
    /// not any more.
    pub decided: Vec<Decision>,
}

/// A frame that leaves.
#[derive(Debug)]
pub struct Outgoing {
    /// By which port.
    pub port: usize,
    /// The whole of it.
    pub frame: Frame,
}

/// What a table in front of this one may do by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The translation of this direction of a flow is fixed. What begins or ends a connection, and
    /// what is no plain segment or datagram, is still to come here.
    Enter(Translation),
    /// It is not any more.
    Leave(FlowKey),
}

/// One direction of a flow, by what its frames have when they come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// The protocol.
    pub transport: Transport,
    /// Who sends.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
}

/// How frames of one direction of a flow are rewritten. The hop count falls by one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// The protocol.
    pub transport: Transport,
    /// Where its frames come in.
    pub port: usize,
    /// Their source.
    pub source: SocketAddr,
    /// Their destination.
    pub destination: SocketAddr,
    /// The source that they get.
    pub new_source: SocketAddr,
    /// The destination that they get.
    pub new_destination: SocketAddr,
    /// Where they leave.
    pub out_port: usize,
    /// The Ethernet address from which they leave.
    pub ethernet_source: [u8; 6],
    /// The Ethernet address to which they leave.
    pub ethernet_destination: [u8; 6],
}

impl Translation {
    /// The direction that it is about.
    pub fn key(&self) -> FlowKey {
        FlowKey {
            transport: self.transport,
            source: self.source,
            destination: self.destination,
        }
    }
}
