//! What a frame turns out to be.

use crate::{Fragment, Ip, TcpHeader, UdpHeader};

/// What a frame is. A malformed one is data, not an error: the caller counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dissected {
    /// A TCP segment.
    Tcp(Ip, TcpHeader),
    /// A UDP datagram.
    Udp(Ip, UdpHeader),
    /// A part of an IP packet.
    Fragment(Ip, Fragment),
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// IP that is encrypted, compressed, or wrapped in a way that is not known.
    IpUnread,
    /// IP that is encrypted by ESP: RFC 4303, RFC 3948.
    Esp,
    /// IP, but neither TCP nor UDP nor a tunnel that is known.
    OtherProtocol,
    /// Behind more than [`Layers::MAX`](crate::Layers::MAX) tags or tunnels.
    TooDeep,
    /// The link type is not known.
    UnknownLink,
    /// Too short for its link header.
    MalformedLink,
    /// The IP header, or an extension header, contradicts itself or is cut.
    MalformedIp,
    /// The header of a tunnel contradicts itself or is cut.
    MalformedTunnel,
    /// The TCP header contradicts itself, or its first 20 bytes are cut.
    MalformedTcp,
    /// The UDP header contradicts itself or is cut.
    MalformedUdp,
}
