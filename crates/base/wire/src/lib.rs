//! Ethernet to TCP and UDP: reading a frame's headers, and writing them.
//!
//! A module per protocol ([`ethernet`], [`arp`], [`ipv4`], [`ipv6`], [`icmp`], [`neighbour`],
//! [`tcp`], [`udp`])
//! has the offsets of its fields and a view of a buffer: getters over `&[u8]`, setters over
//! `&mut [u8]`. `new_checked` compares the lengths that a header claims with the buffer once; after
//! it no getter panics. `new_unchecked` is for headers that a snap length may have cut, and for new
//! ones.
//!
//! [`dissect`] reads one frame down to its transport header, without allocating:
//!
//! ```text
//!  | link, tags | IP header, extensions | TCP or UDP header | payload ............ | padding |
//!                                       ^ Ip::payload       ^ TcpHeader::payload
//!                                       |<- payload_len --->|<---- payload_len --->|
//!                                       (Ip)                |<- captured_len ->|  (cut by a snap length)
//! ```
//!
//! * An offset always lies within the bytes that were given, so `&bytes[payload..][..captured_len]`
//!   is safe whatever the headers claim. A `payload_len` is what was on the wire, by the headers,
//!   and never more than the frame had there.
//! * Of all checksums only the IPv4 header's is verified here: captures at the sender's end hold
//!   unfinished ones ("offloaded"). What the others of a direction are, the flow engine knows, and
//!   verifies TCP's and UDP's.
//! * A packet in tunnels is dissected down to the innermost packet that can be read; [`layers`] has
//!   what lies around it.
//! * Not here: reassembly of fragments and streams (`lineside-flow`).
//! * What runs for each frame is `#[inline]`: measured with 54-byte TCP frames, 30 ns a frame
//!   instead of 47, since the result is large and is otherwise copied from function to function.
//!
//! [`FourTuple`], [`SeqNumber`] and [`Direction`] are what tables of connections and code that
//! follows TCP are made of.
//!
//! [`headers`] writes the headers of a frame in place, for engines that send, and [`control`] whole
//! frames about neighbours and echoes; [`build`] writes
//! frames of all kinds, for tests and roles. [`checksum`] computes, verifies and
//! updates checksums.
#![forbid(unsafe_code)]

pub mod arp;
pub mod build;
mod bytes;
pub mod checksum;
mod complete;
pub mod control;
mod direction;
mod dissect;
mod dissected;
pub mod ethernet;
mod evidence;
mod four_tuple;
pub mod headers;
pub mod icmp;
mod ip;
pub mod ipv4;
pub mod ipv6;
mod layers;
mod link;
pub mod link_type;
pub mod neighbour;
mod plain;
mod protocol;
mod seq_number;
pub mod tcp;
mod transport;
mod tunnel;
pub mod udp;
mod walk;

pub use complete::complete_checksum;
pub use direction::Direction;
pub use dissect::{
    addresses, dissect, dissect_assembled, dissect_outermost, layers, layers_assembled,
};
pub use dissected::Dissected;
pub use four_tuple::{Endpoint, FourTuple};
pub use ip::{Fragment, FragmentKey, HeaderChecksum, Ip};
pub use layers::{Layers, Tunnel, TunnelKind};
pub use plain::{PlainEnds, PlainSegment};
pub use protocol::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP};
pub use seq_number::SeqNumber;
pub use tcp::TcpFlags;
pub use transport::{TcpHeader, UdpHeader};
pub use tunnel::{DeclaredTunnel, declare_tunnels, may_be_tunnel};
