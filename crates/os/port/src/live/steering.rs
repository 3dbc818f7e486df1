//! Which frames of an interface are ours while the host goes on using it: those for addresses that
//! it does not have, or for a range of ports of its own.
//!
//! ```text
//!                      ┌ ours ─► port
//!  interface ─► program┤
//!                      └ all else ─► the host's kernel, as it came
//! ```
//!
//! One program of classic BPF says which are ours. AF_XDP runs it [in front of](super::xdp) the
//! kernel, which never sees what is ours. AF_PACKET has it as a filter and so gets copies; the
//! kernel drops its own, since it does not have the addresses.
//!
//! The program looks at each frame's own bytes: an XDP program has no table of connections, and
//! can only redirect, not copy. That decides where frames go that both sides could use:
//!
//! * Neighbours of [addresses](Steering::Addresses): ARP and neighbour discovery go to the port by
//!   the address that they ask about or are sent to.
//! * Neighbours of [the host's own ports](Steering::HostPorts): the kernel keeps ARP and neighbour
//!   discovery whole and answers for the address. A stack at the port asks nobody: it is given
//!   what the kernel knows ([`Netlink::neighbours`]).
//! * A fragment that does not hold the port goes to the kernel, and so its first one does, too.
//!
//! No program can choose the socket of another queue: a redirect reaches only a socket that is
//! bound to the queue at which the frame came. Which queue that is, is the driver's choice. Packet
//! sockets have a choice: see [`fan_out`].

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use lineside_frame::LinkType;
use lineside_host::Netlink;
use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::{
    PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP, icmp, ipv4, ipv6, neighbour, udp,
};

use super::Interface;
use super::classic::{
    ADD, ADD_X, AND, ANY_BIT, Classic, EQUAL, FilterInstruction, GREATER, GREATER_OR_EQUAL,
    INSTRUCTIONS_MAX, LD_ABS_B, LD_ABS_H, LD_ABS_W, LD_IND_B, LD_IND_H, LD_IND_W, LDX_IMM, LDX_MSH,
    LEFT, Label, RET_A, RET_K, TAX, TXA, WHOLE,
};
use crate::{Method, PortError};

/// Blocks or addresses at most: each is compared with every frame, the host's too.
const BLOCKS_MAX: usize = 64;

/// Which frames are ours; all others are the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steering {
    /// Frames for addresses that the host does not have: IPv4 and IPv6 packets to them, fragments
    /// too; ARP whose target is one of them; neighbour solicitations and advertisements about one.
    /// With up to two VLAN tags as well as without.
    ///
    /// The port is to be opened promiscuous if the addresses have an Ethernet address of their own.
    Addresses(Vec<AddressBlock>),
    /// TCP segments and UDP datagrams for ports of addresses that the host has, and errors of ICMP
    /// and ICMPv6 that quote what was sent from there. Not fragments, nor what has tags, extension
    /// headers of IPv6, or neither protocol; and no ARP or neighbour discovery.
    ///
    /// By AF_XDP alone: with packet sockets the host's kernel would see these frames as well, and
    /// reset the connections.
    HostPorts {
        /// The host's own.
        addresses: Vec<IpAddr>,
        /// Local ports. They must be none that the host's programs use or its kernel hands out:
        /// `net.ipv4.ip_local_reserved_ports` keeps it from that.
        ports: RangeInclusive<u16>,
    },
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressBlock {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they share: from 1 to 32, or 128.
    pub len: u8,
}

impl AddressBlock {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        self.len == 0 || differ.leading_zeros() >= u32::from(self.len)
    }

    /// The first and the last one, in words; IPv4 has one.
    fn bounds(&self) -> Vec<[u32; 2]> {
        let words: Vec<u32> = match self.address {
            IpAddr::V4(address) => vec![address.to_bits()],
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                [96, 64, 32, 0].map(|shift| (bits >> shift) as u32).into()
            }
        };
        let bounds = words.into_iter().zip(0..).map(|(word, at)| {
            let kept = u32::from(self.len).saturating_sub(32 * at).min(32);
            let free = u32::MAX.checked_shr(kept).unwrap_or(0);
            [word & !free, word | free]
        });
        bounds.collect()
    }
}

impl From<IpAddr> for AddressBlock {
    /// The block of this address alone.
    fn from(address: IpAddr) -> Self {
        let len = if address.is_ipv4() { 32 } else { 128 };
        Self { address, len }
    }
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// A text is neither an address nor a block of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no block of addresses: write one such as 10.9.0.0/16, fd00:9::/64 or 192.0.2.7")]
pub struct AddressBlockError(pub String);

impl FromStr for AddressBlock {
    type Err = AddressBlockError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (address, len) = match text.split_once('/') {
                Some((address, len)) => (address, Some(len.parse().ok()?)),
                None => (text, None),
            };
            let whole = Self::from(address.parse::<IpAddr>().ok()?);
            let len = len.unwrap_or(whole.len);
            (1..=whole.len)
                .contains(&len)
                .then_some(Self { len, ..whole })
        };
        read().ok_or_else(|| AddressBlockError(text.to_owned()))
    }
}

impl Steering {
    /// Fails where it cannot do what it promises: it is empty or too much, the host has an address
    /// that it must not have, or lacks one that it must.
    pub(super) fn check(&self, interface: &Interface) -> Result<(), PortError> {
        let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
        let addresses = addresses.map_err(|cause| PortError::Interfaces { cause })?;
        let addresses: Vec<IpAddr> = addresses.into_iter().map(|(_, address)| address).collect();
        let why = match interface.link_type {
            _ if interface.is_loopback => {
                Some("the host talks to itself on it: name another interface".to_owned())
            }
            Some(LinkType::ETHERNET) => self.fault(&addresses),
            _ => Some("it is no Ethernet: name an interface that is".to_owned()),
        };
        why.map_or(Ok(()), |why| {
            Err(PortError::Steering {
                name: interface.name.clone(),
                why,
            })
        })
    }

    /// Why it cannot be, on a host with these addresses.
    fn fault(&self, of_host: &[IpAddr]) -> Option<String> {
        let count = match self {
            Self::Addresses(blocks) => blocks.len(),
            Self::HostPorts { addresses, .. } => addresses.len(),
        };
        if !(1..=BLOCKS_MAX).contains(&count) {
            return Some(format!(
                "{count} blocks of addresses: name from 1 to {BLOCKS_MAX}, larger ones if need be"
            ));
        }
        match self {
            Self::Addresses(blocks) => blocks.iter().find_map(|block| {
                let len_max = AddressBlock::from(block.address).len;
                if !(1..=len_max).contains(&block.len) {
                    return Some(format!("{block}: a block has from 1 to {len_max} bits"));
                }
                let taken = of_host.iter().find(|address| block.contains(**address))?;
                Some(format!(
                    "the host has {taken}, which is in {block}, and would lose its frames: name \
                     blocks without its addresses, or ports of its own"
                ))
            }),
            Self::HostPorts { ports, .. } if ports.is_empty() => Some(format!(
                "no port lies from {} to {}: the first one comes first",
                ports.start(),
                ports.end()
            )),
            Self::HostPorts { addresses, .. } => addresses.iter().find_map(|address| {
                (!of_host.contains(address)).then(|| {
                    format!(
                        "the host does not have {address}: 'ip address' lists its own, and \
                         another one needs no range of ports"
                    )
                })
            }),
        }
    }

    /// What a user should know of it although it is no error: ports that the kernel may hand out.
    pub fn warning(&self) -> Option<String> {
        let Self::HostPorts { ports, .. } = self else {
            return None;
        };
        let read = |name| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
            text.unwrap_or_default()
        };
        let range = read("ip_local_port_range");
        let mut ends = range.split_whitespace().map(str::parse::<u16>);
        let (Some(Ok(first)), Some(Ok(last))) = (ends.next(), ends.next()) else {
            return None;
        };
        let reserved = read("ip_local_reserved_ports");
        let shared = (*ports.start().max(&first))..=(*ports.end().min(&last));
        (!shared.is_empty() && !are_reserved(&shared, &reserved)).then(|| {
            format!(
                "the kernel may hand out ports {first} to {last} to the host's own connections, \
                 which then break: 'sysctl net.ipv4.ip_local_reserved_ports={}-{}' keeps it from \
                 those that are taken here",
                shared.start(),
                shared.end()
            )
        })
    }

    /// What there is to do by a method; `None`: it cannot be done.
    pub(super) fn can_be_by(&self, method: Method) -> bool {
        match self {
            Self::Addresses(_) => true,
            Self::HostPorts { .. } => method != Method::AfPacket,
        }
    }

    /// The program that takes the frames that are ours, whole.
    pub(super) fn program(&self) -> Vec<FilterInstruction> {
        let mut program = Classic::default();
        let (ours, others) = (program.label(), program.label());
        match self {
            Self::Addresses(blocks) => for_addresses(&mut program, blocks, ours, others),
            Self::HostPorts { addresses, ports } => {
                let blocks: Vec<AddressBlock> = addresses.iter().map(|&a| a.into()).collect();
                for_ports(&mut program, &blocks, ports, ours, others);
            }
        }
        program.here(others).push(RET_K, 0);
        program.here(ours).push(RET_K, WHOLE);
        let program = program.finish();
        debug_assert!(program.len() <= INSTRUCTIONS_MAX, "{}", program.len());
        program
    }
}

/// Whether a list of `ip_local_reserved_ports`, such as `8000-9000,9999`, has all of these.
fn are_reserved(ports: &RangeInclusive<u16>, list: &str) -> bool {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    });
    let mut ranges: Vec<(u16, u16)> = ranges.collect();
    ranges.sort_unstable();
    let mut next = u32::from(*ports.start());
    for (first, last) in ranges {
        if (u32::from(first)..=u32::from(last)).contains(&next) {
            next = u32::from(last) + 1;
        }
    }
    next > u32::from(*ports.end())
}

const ETHER_TYPE: usize = ethernet::field::ETHER_TYPE;
/// Where the packet begins, behind an Ethernet header without tags.
const PACKET: usize = ethernet::HEADER_LEN;
/// Hardware addresses of six bytes and protocol addresses of four, of IPv4 (RFC 826).
const ARP_KINDS: usize = PACKET + 2;
const ARP_OF_IPV4: u32 = 0x0800_0604;
const ARP_TARGET: usize = PACKET + 24;
/// A fragment's offset, and whether more follow (RFC 791, 3.1).
const FRAGMENT_OFFSET: u32 = 0x1fff;
const ANY_FRAGMENT: u32 = 0x3fff;
/// Where a message of ICMPv6 begins, and what it is about or quotes.
const MESSAGE_V6: usize = PACKET + ipv6::HEADER_LEN;
const ND_TARGET: usize = MESSAGE_V6 + 8;

/// X is the length of the tags.
fn for_addresses(program: &mut Classic, blocks: &[AddressBlock], ours: Label, others: Label) {
    let of_v4: Vec<_> = blocks
        .iter()
        .filter(|block| block.address.is_ipv4())
        .collect();
    let of_v6: Vec<_> = blocks
        .iter()
        .filter(|block| block.address.is_ipv6())
        .collect();
    let (untagged, arp, v6) = (program.label(), program.label(), program.label());
    program.push(LDX_IMM, 0).push(LD_IND_H, at(ETHER_TYPE));
    for _ in 0..2 {
        let tag = program.label();
        program
            .when(EQUAL, ether_type::VLAN.into(), tag)
            .unless(EQUAL, ether_type::SERVICE_VLAN.into(), untagged)
            .here(tag)
            .push(TXA, 0)
            .push(ADD, ethernet::TAG_LEN as u32)
            .push(TAX, 0)
            .push(LD_IND_H, at(ETHER_TYPE));
    }
    program
        .here(untagged)
        .when(EQUAL, ether_type::ARP.into(), arp)
        .when(EQUAL, ether_type::IPV6.into(), v6)
        .unless(EQUAL, ether_type::IPV4.into(), others);
    each_block(program, PACKET + ipv4::field::DESTINATION, &of_v4, ours);
    program
        .jump(others)
        .here(arp)
        .push(LD_IND_W, at(ARP_KINDS))
        .unless(EQUAL, ARP_OF_IPV4, others);
    each_block(program, ARP_TARGET, &of_v4, ours);
    program.jump(others).here(v6);
    each_block(program, PACKET + ipv6::field::DESTINATION, &of_v6, ours);
    let about = program.label();
    program
        .push(LD_IND_B, at(PACKET + ipv6::field::NEXT_HEADER))
        .unless(EQUAL, PROTOCOL_ICMPV6.into(), others)
        .push(LD_IND_B, at(MESSAGE_V6))
        .when(EQUAL, neighbour::kind::SOLICITATION.into(), about)
        .unless(EQUAL, neighbour::kind::ADVERTISEMENT.into(), others)
        .here(about);
    each_block(program, ND_TARGET, &of_v6, ours);
    program.jump(others);
}

/// Without tags; X is the length of headers of IPv4.
fn for_ports(
    program: &mut Classic,
    blocks: &[AddressBlock],
    ports: &RangeInclusive<u16>,
    ours: Label,
    others: Label,
) {
    let v6 = program.label();
    program
        .push(LDX_IMM, 0)
        .push(LD_ABS_H, at(ETHER_TYPE))
        .when(EQUAL, ether_type::IPV6.into(), v6)
        .unless(EQUAL, ether_type::IPV4.into(), others);
    for_ports_v4(program, blocks, ports, ours, others);
    program.here(v6);
    for_ports_v6(program, blocks, ports, ours, others);
}

fn for_ports_v4(
    program: &mut Classic,
    blocks: &[AddressBlock],
    ports: &RangeInclusive<u16>,
    ours: Label,
    others: Label,
) {
    let blocks: Vec<_> = blocks
        .iter()
        .filter(|block| block.address.is_ipv4())
        .collect();
    if blocks.is_empty() {
        // The verifier takes no instruction that is never reached.
        program.jump(others);
        return;
    }
    let own = program.label();
    each_block(program, PACKET + ipv4::field::DESTINATION, &blocks, own);
    let (segment, quoted, quotes) = (program.label(), program.label(), program.label());
    program
        .jump(others)
        .here(own)
        .push(LD_ABS_H, at(PACKET + ipv4::field::FRAGMENT))
        .when(ANY_BIT, ANY_FRAGMENT, others)
        .push(LD_ABS_B, at(PACKET + ipv4::field::PROTOCOL))
        .when(EQUAL, PROTOCOL_TCP.into(), segment)
        .when(EQUAL, PROTOCOL_UDP.into(), segment)
        .unless(EQUAL, PROTOCOL_ICMP.into(), others)
        .push(LDX_MSH, at(PACKET))
        .push(LD_IND_B, at(PACKET));
    for kind in [
        icmp::kind::UNREACHABLE,
        icmp::kind::TIME_EXCEEDED,
        PARAMETER_PROBLEM,
    ] {
        program.when(EQUAL, kind.into(), quotes);
    }
    // Behind the header of IPv4 and that of ICMP.
    let inner = PACKET + icmp::HEADER_LEN;
    program.jump(others).here(quotes);
    each_block(program, inner + ipv4::field::SOURCE, &blocks, quoted);
    let ports_follow = program.label();
    program
        .jump(others)
        .here(quoted)
        .push(LD_IND_H, at(inner + ipv4::field::FRAGMENT))
        .when(ANY_BIT, FRAGMENT_OFFSET, others)
        .push(LD_IND_B, at(inner + ipv4::field::PROTOCOL))
        .when(EQUAL, PROTOCOL_TCP.into(), ports_follow)
        .unless(EQUAL, PROTOCOL_UDP.into(), others)
        .here(ports_follow)
        .push(LD_IND_B, at(inner))
        .push(AND, 0xf)
        .push(LEFT, 2)
        .push(ADD_X, 0)
        .push(TAX, 0)
        .push(LD_IND_H, at(inner + udp::field::SOURCE_PORT));
    within(program, ports, ours, others);
    program
        .here(segment)
        .push(LDX_MSH, at(PACKET))
        .push(LD_IND_H, at(PACKET + udp::field::DESTINATION_PORT));
    within(program, ports, ours, others);
}

fn for_ports_v6(
    program: &mut Classic,
    blocks: &[AddressBlock],
    ports: &RangeInclusive<u16>,
    ours: Label,
    others: Label,
) {
    let blocks: Vec<_> = blocks
        .iter()
        .filter(|block| block.address.is_ipv6())
        .collect();
    if blocks.is_empty() {
        // The verifier takes no instruction that is never reached.
        program.jump(others);
        return;
    }
    let own = program.label();
    // X is 0 on this way.
    each_block(program, PACKET + ipv6::field::DESTINATION, &blocks, own);
    let (segment, quoted, ports_follow) = (program.label(), program.label(), program.label());
    let inner = MESSAGE_V6 + icmp::HEADER_LEN;
    program
        .jump(others)
        .here(own)
        .push(LD_ABS_B, at(PACKET + ipv6::field::NEXT_HEADER))
        .when(EQUAL, PROTOCOL_TCP.into(), segment)
        .when(EQUAL, PROTOCOL_UDP.into(), segment)
        .unless(EQUAL, PROTOCOL_ICMPV6.into(), others)
        // Errors have the kinds below 128; those above 4 are not in use (RFC 4443, 2.1).
        .push(LD_ABS_B, at(MESSAGE_V6))
        .when(EQUAL, 0, others)
        .when(GREATER, PARAMETER_PROBLEM_V6.into(), others);
    each_block(program, inner + ipv6::field::SOURCE, &blocks, quoted);
    program
        .jump(others)
        .here(quoted)
        .push(LD_ABS_B, at(inner + ipv6::field::NEXT_HEADER))
        .when(EQUAL, PROTOCOL_TCP.into(), ports_follow)
        .unless(EQUAL, PROTOCOL_UDP.into(), others)
        .here(ports_follow)
        .push(
            LD_ABS_H,
            at(inner + ipv6::HEADER_LEN + udp::field::SOURCE_PORT),
        );
    within(program, ports, ours, others);
    program
        .here(segment)
        .push(LD_ABS_H, at(MESSAGE_V6 + udp::field::DESTINATION_PORT));
    within(program, ports, ours, others);
}

/// Kinds of errors that `wire` does not read (RFC 792; RFC 4443, 3.4).
const PARAMETER_PROBLEM: u8 = 12;
const PARAMETER_PROBLEM_V6: u8 = 4;

/// Jumps if the address at `offset` and X is in a block; goes on with the next instruction if not.
fn each_block(program: &mut Classic, offset: usize, blocks: &[&AddressBlock], to: Label) {
    for block in blocks {
        let next = program.label();
        for ([first, last], word) in block.bounds().into_iter().zip(0..) {
            if first == 0 && last == u32::MAX {
                break;
            }
            program.push(LD_IND_W, at(offset + 4 * word));
            if first == last {
                program.unless(EQUAL, first, next);
            } else {
                program
                    .unless(GREATER_OR_EQUAL, first, next)
                    .when(GREATER, last, next);
            }
        }
        program.jump(to).here(next);
    }
}

/// Jumps to `ours` if A is among the ports, else to `others`.
fn within(program: &mut Classic, ports: &RangeInclusive<u16>, ours: Label, others: Label) {
    program
        .unless(GREATER_OR_EQUAL, (*ports.start()).into(), others)
        .when(GREATER, (*ports.end()).into(), others)
        .jump(ours);
}

fn at(offset: usize) -> u32 {
    offset as u32
}

/// The program by which the kernel chooses among `n` packet sockets: it gives back a number, of
/// which the kernel takes the remainder by `n`.
///
/// TCP and UDP go by their destination port: the local one of a connection, so that worker `k`
/// has the ports `p` with `p % n == k`, and what it sends from them is answered to it. Fragments,
/// ARP, ICMP, neighbour discovery and all else go to socket 0, the first fragment as well as the
/// others: whoever reads that socket hands over what belongs to others.
pub(super) fn fan_out() -> Vec<FilterInstruction> {
    // In front of this program lies the packet, whatever the link: these offsets begin there, and
    // at the kernel's own knowledge of the frame (linux/filter.h).
    const NETWORK: u32 = 0xfff0_0000;
    const PROTOCOL: u32 = 0xffff_f000;
    let mut program = Classic::default();
    let (v6, ports, ports_v6, first) = (
        program.label(),
        program.label(),
        program.label(),
        program.label(),
    );
    program
        .push(LD_ABS_W, PROTOCOL)
        .when(EQUAL, ether_type::IPV6.into(), v6)
        .unless(EQUAL, ether_type::IPV4.into(), first)
        .push(LD_ABS_H, NETWORK + ipv4::field::FRAGMENT as u32)
        .when(ANY_BIT, ANY_FRAGMENT, first)
        .push(LD_ABS_B, NETWORK + ipv4::field::PROTOCOL as u32)
        .when(EQUAL, PROTOCOL_TCP.into(), ports)
        .unless(EQUAL, PROTOCOL_UDP.into(), first)
        .here(ports)
        .push(LDX_MSH, NETWORK)
        .push(LD_IND_H, NETWORK + udp::field::DESTINATION_PORT as u32)
        .push(RET_A, 0)
        .here(v6)
        .push(LD_ABS_B, NETWORK + ipv6::field::NEXT_HEADER as u32)
        .when(EQUAL, PROTOCOL_TCP.into(), ports_v6)
        .unless(EQUAL, PROTOCOL_UDP.into(), first)
        .here(ports_v6)
        .push(
            LD_ABS_H,
            NETWORK + (ipv6::HEADER_LEN + udp::field::DESTINATION_PORT) as u32,
        )
        .push(RET_A, 0)
        .here(first)
        .push(RET_K, 0);
    program.finish()
}

#[cfg(test)]
mod tests;
