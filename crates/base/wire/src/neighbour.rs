//! Neighbour discovery of IPv6: solicitations and advertisements, RFC 4861, 4.3 and 4.4, with the
//! options of 4.6.1. Routers, redirects and prefixes are not read.

use std::net::Ipv6Addr;

use crate::bytes::{array_at, set, set_u16, set_u32};
use crate::{PROTOCOL_ICMPV6, checksum};

/// Types of messages.
pub mod kind {
    /// Asks for a neighbour's link-layer address.
    pub const SOLICITATION: u8 = 135;
    /// Gives one's own.
    pub const ADVERTISEMENT: u8 = 136;
}

/// Offsets in a message.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const FLAGS: usize = 4;
    pub(super) const TARGET: usize = 8;
    pub(super) const OPTIONS: usize = 24;
}

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;

/// Bytes of a message as it is written here: with a link-layer address.
pub const MESSAGE_LEN: usize = field::OPTIONS + 8;
/// The hop limit of every such message, which shows that no router forwarded it: RFC 4861, 7.1.
pub const HOP_LIMIT: u8 = 255;

/// What a message says of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The address that is asked for, or whose owner answers.
    pub target: Ipv6Addr,
    /// The link-layer address: the sender's of a solicitation, the target's of an advertisement.
    pub link_address: Option<[u8; 6]>,
    /// Whether it asks or answers.
    pub what: What,
}

/// Whether a message asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It asks.
    Solicitation,
    /// It answers.
    Advertisement {
        /// To a solicitation, not unasked.
        is_solicited: bool,
        /// It replaces what was known.
        overrides: bool,
    },
}

impl What {
    const SOLICITED: u32 = 1 << 30;
    const OVERRIDE: u32 = 1 << 29;

    fn kind(self) -> u8 {
        match self {
            Self::Solicitation => kind::SOLICITATION,
            Self::Advertisement { .. } => kind::ADVERTISEMENT,
        }
    }

    fn flags(self) -> u32 {
        match self {
            Self::Solicitation => 0,
            Self::Advertisement {
                is_solicited,
                overrides,
            } => {
                let bit = |is_set, bit| if is_set { bit } else { 0 };
                bit(is_solicited, Self::SOLICITED) | bit(overrides, Self::OVERRIDE)
            }
        }
    }
}

impl Neighbour {
    /// Reads an ICMPv6 message; `None` if it is another, or one that RFC 4861, 7.1 calls invalid.
    /// Checksum and hop limit are the caller's.
    pub fn read(message: &[u8]) -> Option<Self> {
        if message.len() < field::OPTIONS || message[field::CODE] != 0 {
            return None;
        }
        let flags = u32::from_be_bytes(array_at(message, field::FLAGS));
        let (what, option) = match message[field::KIND] {
            kind::SOLICITATION => (What::Solicitation, SOURCE_LINK_ADDRESS),
            kind::ADVERTISEMENT => {
                let what = What::Advertisement {
                    is_solicited: flags & What::SOLICITED != 0,
                    overrides: flags & What::OVERRIDE != 0,
                };
                (what, TARGET_LINK_ADDRESS)
            }
            _ => return None,
        };
        let target = Ipv6Addr::from(array_at::<16>(message, field::TARGET));
        let link_address = link_address(&message[field::OPTIONS..], option).ok()?;
        (!target.is_multicast()).then_some(Self {
            target,
            link_address,
            what,
        })
    }

    /// Writes a message of [`MESSAGE_LEN`] bytes from the first of `ends` to the second.
    /// `link_address` is the sender's own.
    pub fn emit(
        what: What,
        target: Ipv6Addr,
        link_address: [u8; 6],
        ends: [Ipv6Addr; 2],
        message: &mut [u8],
    ) {
        let message = &mut message[..MESSAGE_LEN];
        (message[field::KIND], message[field::CODE]) = (what.kind(), 0);
        set_u16(message, field::CHECKSUM, 0);
        set_u32(message, field::FLAGS, what.flags());
        set(message, field::TARGET, &target.octets());
        let option = match what {
            What::Solicitation => SOURCE_LINK_ADDRESS,
            What::Advertisement { .. } => TARGET_LINK_ADDRESS,
        };
        set(message, field::OPTIONS, &[option, 1]);
        set(message, field::OPTIONS + 2, &link_address);
        let [source, destination] = ends;
        let checksum =
            checksum::transport(source.into(), destination.into(), PROTOCOL_ICMPV6, message);
        set_u16(message, field::CHECKSUM, checksum);
    }
}

/// The Ethernet address of an option of this type, if there is one; an error if some option has no
/// length or reaches beyond the end.
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<[u8; 6]>, ()> {
    let mut found = None;
    while let Some((&[kind, units], _)) = options.split_first_chunk::<2>() {
        let len = usize::from(units) * 8;
        if len == 0 || len > options.len() {
            return Err(());
        }
        if kind == wanted && units == 1 {
            found = Some(array_at(options, 2));
        }
        options = &options[len..];
    }
    options.is_empty().then_some(found).ok_or(())
}

/// The group in which the owner of an address listens for solicitations: RFC 4291, 2.7.1.
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let prefix = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(prefix | address.to_bits() & 0x00ff_ffff)
}

/// The Ethernet address of a multicast group: RFC 2464, 7.
pub fn multicast_link_address(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}
