//! What a stack is given: its addresses and its bounds.

use std::net::IpAddr;

use crate::congestion::{Congestion, NEW_RENO};

/// A block of addresses: all that share the first `len` bits with `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Any address of the block.
    pub address: IpAddr,
    /// Bits that they share.
    pub len: u8,
}

impl Prefix {
    /// A single address.
    pub fn single(address: IpAddr) -> Self {
        let len = if address.is_ipv4() { 32 } else { 128 };
        Self { address, len }
    }

    /// Whether the block has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (one, other, bits) = match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                (one.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let shift = u32::from(bits - self.len.min(bits));
        u128::checked_shr(one ^ other, shift).unwrap_or(0) == 0
    }
}

/// Whether connections let routers mark their packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Never.
    Off,
    /// If the peer asks: Linux's tcp_ecn of 2.
    #[default]
    Accept,
    /// Of each peer that is connected to, and if it asks: Linux's tcp_ecn of 1.
    Ask,
}

/// The addresses, times and bounds of a [`Stack`](crate::Stack).
#[derive(Debug, Clone)]
pub struct Config {
    /// Its Ethernet address.
    pub link_address: [u8; 6],
    /// VLAN tags of every frame, outermost first: EtherType and control information.
    pub tags: [Option<(u16, u16)>; 2],
    /// Its addresses: of each it answers who asks for its Ethernet address.
    pub addresses: Vec<Prefix>,
    /// Addresses that are reached without a router.
    pub on_link: Vec<Prefix>,
    /// Routers for all others, one of each family.
    pub routers: Vec<IpAddr>,
    /// The longest packet that it sends.
    pub mtu: usize,
    /// Time to live, or hop limit, of its packets: RFC 9293, 3.9.2.
    pub hop_limit: u8,
    /// Differentiated services codepoint of its segments and datagrams, 6 bits: RFC 9293, 3.9.2.
    pub dscp: u8,
    /// The window that it offers; bytes that it is ready to hold out of order.
    pub receive_window_bytes: u32,
    /// Bytes held out of order by all connections. A part counts as 1 KiB at least.
    pub held_bytes_max: usize,
    /// Connections, those in TIME_WAIT apart.
    pub connections_max: u32,
    /// Connections of which bytes are in flight or missing.
    pub active_max: u32,
    /// Connections that a peer has begun and not completed: beyond them a SYN is answered by a
    /// cookie and takes no memory.
    pub half_open_max: u32,
    /// Connections in TIME_WAIT; the oldest goes when there is no room.
    pub time_wait_max: u32,
    /// Neighbours whose Ethernet addresses are known or asked for.
    pub neighbours_max: u32,
    /// Whether routers may mark packets instead of dropping them: RFC 3168.
    pub ecn: Ecn,
    /// How the congestion window moves.
    pub congestion: &'static dyn Congestion,
    /// Offers timestamps: RFC 7323, 3.
    pub timestamps: bool,
    /// Offers selective acknowledgements: RFC 2018.
    pub sack: bool,
    /// A short segment waits while others are in flight: RFC 9293, 3.7.4.
    pub nagle: bool,
    /// A RST ends a connection only if its number is the next one: RFC 5961, 3.2. Off, any within
    /// the window does, as stacks of RFC 793 have it.
    pub resets_exact: bool,
    /// A SYN within the window is answered by a challenge: RFC 5961, 4.2. Off, it ends the
    /// connection, as RFC 793 has it.
    pub syn_challenged: bool,
    /// A segment with both SYN and FIN is dropped unread: since RFC 6247 made transactions historic
    /// no peer sends one, but for scanners.
    pub syn_fin_dropped: bool,
    /// Takes segments whose checksum covers the pseudo-header only: those of a kernel at the other
    /// end of a veth pair or TAP device.
    pub takes_offloaded: bool,
    /// An acknowledgement waits at most this long for data to ride on: RFC 9293, 3.8.6.3, at most
    /// 0.5 s.
    pub delayed_ack_ns: i64,
    /// The least retransmission timeout: RFC 6298, 2.4.
    pub rto_min_ns: i64,
    /// The largest one, of probes too: RFC 6298, 2.5.
    pub rto_max_ns: i64,
    /// Timeouts of the same data after which a connection is given up: RFC 9293, 3.8.3, R2.
    pub retries_max: u8,
    /// The same of a SYN.
    pub syn_retries_max: u8,
    /// A connection whose data, or whose SYN, waited this long to be acknowledged is given up,
    /// however many timeouts that are: RFC 9293, 3.9.1.1. `None`: timeouts alone decide.
    pub user_timeout_ns: Option<i64>,
    /// Twice the maximum segment lifetime.
    pub time_wait_ns: i64,
    /// A connection that its owner closed waits this long for the peer's FIN.
    pub fin_wait_2_ns: i64,
    /// A connection at rest for this long asks whether its peer is there: RFC 9293, 3.8.4, no less
    /// than two hours unless the owner knows better. `None`: never.
    pub keep_alive_ns: Option<i64>,
    /// Between two such questions.
    pub keep_alive_interval_ns: i64,
    /// Questions without an answer after which the connection is given up.
    pub keep_alive_probes_max: u8,
}

impl Config {
    /// A host with one address of each given family, and all others on its link.
    pub fn new(link_address: [u8; 6], addresses: &[IpAddr]) -> Self {
        Self {
            link_address,
            tags: [None; 2],
            addresses: addresses.iter().copied().map(Prefix::single).collect(),
            on_link: { addresses.iter() }
                .map(|&address| Prefix { address, len: 0 })
                .collect(),
            routers: Vec::new(),
            mtu: 1500,
            // RFC 1700, page 64.
            hop_limit: 64,
            dscp: 0,
            // 10 Gb/s over 1 ms, or 100 Mb/s over 80 ms.
            receive_window_bytes: 1 << 20,
            held_bytes_max: 16 << 20,
            connections_max: 1 << 20,
            active_max: 1 << 16,
            // A sixteenth of those that can be active.
            half_open_max: 1 << 12,
            time_wait_max: 1 << 18,
            neighbours_max: 1 << 12,
            ecn: Ecn::default(),
            congestion: &NEW_RENO,
            timestamps: true,
            sack: true,
            nagle: true,
            resets_exact: true,
            syn_challenged: true,
            syn_fin_dropped: false,
            takes_offloaded: false,
            // Linux's least.
            delayed_ack_ns: 40_000_000,
            // RFC 6298 says 1 s "currently"; Linux has had 0.2 s for twenty years.
            rto_min_ns: 200_000_000,
            rto_max_ns: 60_000_000_000,
            // Linux's tcp_retries2.
            retries_max: 15,
            // At least three minutes, by RFC 9293, 3.8.3: one more than Linux.
            syn_retries_max: 7,
            user_timeout_ns: None,
            // The issue of both: RFC 9293, 3.4.2 has 4 minutes, Linux 60 s; 2 MSL of 30 s here.
            time_wait_ns: 60_000_000_000,
            // Linux's tcp_fin_timeout, tcp_keepalive_intvl and tcp_keepalive_probes.
            fin_wait_2_ns: 60_000_000_000,
            keep_alive_ns: None,
            keep_alive_interval_ns: 75_000_000_000,
            keep_alive_probes_max: 9,
        }
    }

    /// Whether it is one of the stack's addresses.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|prefix| prefix.contains(address))
    }

    /// The first address of a family.
    pub(crate) fn address_of_family(&self, is_ipv4: bool) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().map(|prefix| prefix.address);
        addresses.find(|address| address.is_ipv4() == is_ipv4)
    }

    /// Who is to be given packets for this address.
    pub(crate) fn next_hop(&self, address: IpAddr) -> Option<IpAddr> {
        if self.on_link.iter().any(|prefix| prefix.contains(address)) {
            return Some(address);
        }
        let mut routers = self.routers.iter();
        routers
            .find(|router| router.is_ipv4() == address.is_ipv4())
            .copied()
    }

    /// By how many bits the window that it offers is shifted: RFC 7323, 2.3.
    pub(crate) fn window_scale(&self) -> u8 {
        let bits = 32 - self.receive_window_bytes.leading_zeros();
        bits.saturating_sub(16).min(14) as u8
    }

    /// The most payload of a segment without options to an address of this family: RFC 9293,
    /// 3.7.1.
    pub(crate) fn mss(&self, is_ipv4: bool) -> u16 {
        let headers = if is_ipv4 { 40 } else { 60 };
        u16::try_from(self.mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_shares_their_bits() {
        let prefix = |text: &str, len| Prefix {
            address: text.parse().expect("an address"),
            len,
        };
        for (block, address, is_in) in [
            (prefix("10.1.2.3", 24), "10.1.2.200", true),
            (prefix("10.1.2.3", 24), "10.1.3.3", false),
            (prefix("10.1.2.3", 0), "255.0.0.1", true),
            (prefix("10.1.2.3", 32), "10.1.2.2", false),
            (prefix("fd00::", 64), "fd00::1:2:3:4", true),
            (prefix("fd00::", 64), "fd00:0:0:1::", false),
            (prefix("::", 0), "fd00::1", true),
            (prefix("0.0.0.0", 0), "fd00::1", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(block.contains(address), is_in, "{block:?} {address}");
        }
    }

    #[test]
    fn a_window_fits_sixteen_bits_when_shifted() {
        let mut config = Config::new([2; 6], &[]);
        for bytes in [1, 65_535, 65_536, 1 << 20, (1 << 30) - 1] {
            config.receive_window_bytes = bytes;
            let shift = config.window_scale();
            assert!(bytes >> shift <= 65_535, "{bytes}");
            assert!(shift == 0 || bytes >> (shift - 1) > 65_535, "{bytes}");
        }
    }
}
