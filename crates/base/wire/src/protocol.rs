//! Numbers of the protocols that IP packets hold, as IANA assigns them.

/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// IP protocol number of ICMPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
