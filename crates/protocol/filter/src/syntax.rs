//! What an expression says, before any link type is known.

use std::ops::Range;

/// A truth about a frame.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    /// One primitive, and where it stands.
    Primitive(Primitive, Range<usize>),
}

#[derive(Debug, Clone)]
pub(crate) enum Primitive {
    /// `tcp`, `ip`, `arp`.
    Protocol(Protocol),
    /// `host` and `net` of IPv4; which headers are looked at: IPv4, ARP and RARP if none is named.
    Address4 {
        header: Option<Protocol>,
        direction: Direction,
        address: u32,
        mask: u32,
    },
    Address6 {
        direction: Direction,
        address: u128,
        mask: u128,
    },
    EtherAddress {
        direction: Direction,
        address: [u8; 6],
    },
    /// The lowest bit of the first byte of the receiver's Ethernet address.
    EtherMulticast,
    IpMulticast,
    Ip6Multicast,
    /// TCP, UDP and SCTP if no transport is named.
    Ports {
        transport: Option<Protocol>,
        direction: Direction,
        low: u16,
        high: u16,
    },
    /// `proto`, of IPv4 and IPv6 if none is named.
    IpProtocol {
        header: Option<Protocol>,
        number: u8,
    },
    EtherType(u16),
    Vlan(Option<u16>),
    Relation {
        left: Arithmetic,
        relation: Relation,
        right: Arithmetic,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

/// 32 bits without sign, as the machine computes.
#[derive(Debug, Clone)]
pub(crate) enum Arithmetic {
    Number(u32),
    /// The frame's length on the wire.
    Length,
    Load {
        protocol: Protocol,
        index: Box<Self>,
        size: u8,
    },
    Negate(Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ether,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Icmp,
    Igmp,
    Tcp,
    Udp,
    Esp,
    Ah,
    Icmp6,
    Pim,
    Vrrp,
    Sctp,
}

impl Protocol {
    const NAMES: [(&'static str, Self); 15] = [
        ("ether", Self::Ether),
        ("ip", Self::Ip),
        ("ip6", Self::Ip6),
        ("arp", Self::Arp),
        ("rarp", Self::Rarp),
        ("icmp", Self::Icmp),
        ("igmp", Self::Igmp),
        ("tcp", Self::Tcp),
        ("udp", Self::Udp),
        ("esp", Self::Esp),
        ("ah", Self::Ah),
        ("icmp6", Self::Icmp6),
        ("pim", Self::Pim),
        ("vrrp", Self::Vrrp),
        ("sctp", Self::Sctp),
    ];

    pub(crate) fn named(word: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == word);
        found.map(|&(_, protocol)| protocol)
    }

    pub(crate) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|&&(_, each)| each == self);
        found.map_or("", |&(name, _)| name)
    }

    /// What the link header says of it, if it stands right behind.
    pub(crate) fn ether_type(self) -> Option<u16> {
        match self {
            Self::Ip => Some(0x0800),
            Self::Ip6 => Some(0x86dd),
            Self::Arp => Some(0x0806),
            Self::Rarp => Some(0x8035),
            _ => None,
        }
    }

    /// Its number in the IP header, if it stands behind one.
    pub(crate) fn number(self) -> Option<u8> {
        match self {
            Self::Icmp => Some(1),
            Self::Igmp => Some(2),
            Self::Tcp => Some(6),
            Self::Udp => Some(17),
            Self::Esp => Some(50),
            Self::Ah => Some(51),
            Self::Icmp6 => Some(58),
            Self::Pim => Some(103),
            Self::Vrrp => Some(112),
            Self::Sctp => Some(132),
            _ => None,
        }
    }

    /// Whether its name alone looks behind (IPv4, IPv6) headers.
    pub(crate) fn behind(self) -> (bool, bool) {
        match self {
            Self::Icmp | Self::Igmp | Self::Vrrp => (true, false),
            Self::Icmp6 => (false, true),
            Self::Tcp | Self::Udp | Self::Esp | Self::Ah | Self::Pim | Self::Sctp => (true, true),
            _ => (false, false),
        }
    }
}

impl Operator {
    /// `None` where the machine would end the program: division by 0, and shifts that the kernel
    /// refuses.
    pub(crate) fn of_numbers(self, left: u32, right: u32) -> Option<u32> {
        match self {
            Self::Add => Some(left.wrapping_add(right)),
            Self::Subtract => Some(left.wrapping_sub(right)),
            Self::Multiply => Some(left.wrapping_mul(right)),
            Self::Divide => left.checked_div(right),
            Self::Modulo => left.checked_rem(right),
            Self::And => Some(left & right),
            Self::Or => Some(left | right),
            Self::Xor => Some(left ^ right),
            Self::ShiftLeft => left.checked_shl(right),
            Self::ShiftRight => left.checked_shr(right),
        }
    }
}
