//! Link headers: from the first byte of a frame to the network header.

pub(crate) mod rare;

use crate::Dissected;
use crate::bytes::{array, u16_at};
use crate::ethernet::{self, TAG_LEN, Tag, ether_type};
use crate::layers::{Layers, Tunnel, TunnelKind};

/// Which network header follows the link header, as far as we read any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Ipv4,
    Ipv6,
    /// The first four bits decide.
    ByVersion,
    /// A stack of labels, which does not state what is below it.
    Mpls,
}

/// Why no network header is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    NotIp,
    /// Encrypted or compressed.
    Coded,
    TooDeep,
    Unknown,
    Malformed,
}

impl From<Unread> for Dissected {
    fn from(why: Unread) -> Self {
        match why {
            Unread::NotIp => Self::NotIp,
            Unread::Coded => Self::IpUnread,
            Unread::TooDeep => Self::TooDeep,
            Unread::Unknown => Self::UnknownLink,
            Unread::Malformed => Self::MalformedLink,
        }
    }
}

/// Where the network header begins and what it is; or why it is not reached. Tags go to `layers`.
#[inline]
pub(crate) fn network(
    link_type: u16,
    bytes: &[u8],
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    match link_type {
        1 => in_ethernet(bytes, 0, layers),
        113 => tagged(bytes, 14, layers),
        276 => match array::<20>(bytes, 0) {
            // The type stands first, the network header after all 20 bytes.
            Some(header) => tags(bytes, u16_at(header, 0), 20, layers),
            None => Err(Unread::Malformed),
        },
        0 | 108 => {
            let family = array(bytes, 0).ok_or(Unread::Malformed)?;
            Ok((address_family(*family).ok_or(Unread::NotIp)?, 4))
        }
        12 | 14 | 101 => Ok((Network::ByVersion, 0)),
        228 => Ok((Network::Ipv4, 0)),
        229 => Ok((Network::Ipv6, 0)),
        rare => rare::network(rare, bytes, layers),
    }
}

pub(crate) fn byte_at(bytes: &[u8], offset: usize) -> Result<u8, Unread> {
    bytes.get(offset).copied().ok_or(Unread::Malformed)
}

/// The same of an Ethernet frame that begins at `offset`.
#[inline]
pub(crate) fn in_ethernet(
    bytes: &[u8],
    offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    tagged(bytes, offset + ethernet::field::ETHER_TYPE, layers)
}

/// The type field at `offset` ends the link header, if no tags follow.
#[inline]
pub(crate) fn tagged(
    bytes: &[u8],
    offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    let ether_type = array(bytes, offset).ok_or(Unread::Malformed)?;
    tags(bytes, u16::from_be_bytes(*ether_type), offset + 2, layers)
}

/// Walks tags from `offset`, where the header that `ether_type` names begins.
#[inline]
pub(crate) fn tags(
    bytes: &[u8],
    mut ether_type: u16,
    mut offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    loop {
        match ether_type {
            ether_type::IPV4 => return Ok((Network::Ipv4, offset)),
            ether_type::IPV6 => return Ok((Network::Ipv6, offset)),
            ether_type::VLAN
            | ether_type::SERVICE_VLAN
            | ether_type::OLD_SERVICE_VLAN
            | ether_type::OLD_SERVICE_VLAN_2
            | ether_type::OLD_SERVICE_VLAN_3 => {
                let tag = array::<TAG_LEN>(bytes, offset).ok_or(Unread::Malformed)?;
                let tag = Tag::new_unchecked(tag);
                if !layers.push_tag(tag.id()) {
                    return Err(Unread::TooDeep);
                }
                ether_type = tag.ether_type();
                offset += TAG_LEN;
            }
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => return Ok((Network::Mpls, offset)),
            rare => match behind_rare(bytes, rare, offset, layers)? {
                Next::Type(next, at) => (ether_type, offset) = (next, at),
                Next::Network(network, at) => return Ok((network, at)),
            },
        }
    }
}

/// What follows a header that is neither a VLAN tag nor IP nor MPLS.
enum Next {
    /// The header that this EtherType names, at this offset.
    Type(u16, usize),
    /// A network header.
    Network(Network, usize),
}

/// Passes over the header at `offset` that `ether_type` names.
#[cold]
fn behind_rare(
    bytes: &[u8],
    ether_type: u16,
    offset: usize,
    layers: &mut Layers,
) -> Result<Next, Unread> {
    let typed = |at: usize| {
        let ether_type = array(bytes, at).ok_or(Unread::Malformed)?;
        Ok(Next::Type(u16::from_be_bytes(*ether_type), at + 2))
    };
    let byte = |at: usize| bytes.get(offset + at).copied().ok_or(Unread::Malformed);
    let mut enter = |kind, id| match layers.push_tunnel(Tunnel { kind, id }, None) {
        true => Ok(()),
        false => Err(Unread::TooDeep),
    };
    match ether_type {
        0..=ether_type::LENGTH_MAX | ether_type::LLC => behind_llc(bytes, offset),
        ether_type::PPPOE_SESSION => {
            // Version and type, code, session, length.
            let header = array::<6>(bytes, offset).ok_or(Unread::Malformed)?;
            if header[..2] != [0x11, 0] {
                return Err(Unread::NotIp);
            }
            enter(TunnelKind::Pppoe, Some(u16_at(header, 2).into()))?;
            ppp(bytes, offset + 6).map(|(network, at)| Next::Network(network, at))
        }
        ether_type::BACKBONE_SERVICE => {
            // Flags, the service, then the customer's frame.
            let [_, id @ ..] = array::<4>(bytes, offset).ok_or(Unread::Malformed)?;
            let [high, middle, low] = *id;
            enter(
                TunnelKind::Backbone,
                Some(u32::from_be_bytes([0, high, middle, low])),
            )?;
            layers.set_link(offset + 4);
            typed(offset + 4 + ethernet::field::ETHER_TYPE)
        }
        // Arista's stamp: subtype 1, a version, and a time of 64 or 48 bits.
        ether_type::ARISTA => match array::<4>(bytes, offset).ok_or(Unread::Malformed)? {
            [0, 1, 0 | 1, 0x10] => typed(offset + 12),
            [0, 1, 0 | 1, 0x20] => typed(offset + 10),
            _ => Err(Unread::NotIp),
        },
        ether_type::VN_TAG | ether_type::HSR => typed(offset + 4),
        ether_type::E_TAG => typed(offset + 6),
        // Version, the number of options; each takes four bytes.
        ether_type::CISCO_METADATA => typed(offset + 2 + 4 * usize::from(byte(1)?)),
        ether_type::SERVICE_HEADER => {
            let inside = offset + 4 * usize::from(byte(1)? & 0x3f);
            match byte(3)? {
                1 => Ok(Next::Network(Network::Ipv4, inside)),
                2 => Ok(Next::Network(Network::Ipv6, inside)),
                3 => typed(inside + ethernet::field::ETHER_TYPE),
                5 => Ok(Next::Network(Network::Mpls, inside)),
                _ => Err(Unread::NotIp),
            }
        }
        // Control information, a short length, a packet number, perhaps the sender's identifier.
        ether_type::MACSEC => match byte(0)? {
            control if control & 0x0c != 0 => Err(Unread::Coded),
            control => typed(offset + 6 + 8 * usize::from(control >> 5 & 1)),
        },
        _ => Err(Unread::NotIp),
    }
}

/// IEEE 802.2, 3, with SNAP (RFC 1042), or with IP's own access point.
fn behind_llc(bytes: &[u8], offset: usize) -> Result<Next, Unread> {
    let header = bytes.get(offset..).unwrap_or(&[]);
    match *header {
        // Of EtherTypes, also those of bridges' tables (IEEE 802.1H).
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, ..] => {
            Ok(Next::Type(u16::from_be_bytes([high, low]), offset + 8))
        }
        [6, 6, 3, ..] => Ok(Next::Network(Network::Ipv4, offset + 3)),
        _ => Err(Unread::NotIp),
    }
}

/// The network header in a packet of PPP, perhaps without fields that the peers may have agreed to
/// leave out: RFC 1661, 2 and 6.5; RFC 1662, 3.1.
pub(crate) fn ppp(bytes: &[u8], mut offset: usize) -> Result<(Network, usize), Unread> {
    if bytes.get(offset..offset + 2) == Some(&[0xff, 3]) {
        offset += 2;
    }
    let (protocol, at) = match bytes.get(offset..).unwrap_or(&[]) {
        [low, ..] if low & 1 != 0 => (u16::from(*low), offset + 1),
        [high, low, ..] => (u16::from_be_bytes([*high, *low]), offset + 2),
        _ => return Err(Unread::Malformed),
    };
    match protocol {
        0x0021 => Ok((Network::Ipv4, at)),
        0x0057 => Ok((Network::Ipv6, at)),
        0x0281 | 0x0283 => Ok((Network::Mpls, at)),
        // Headers compressed (RFC 1144, RFC 2507, RFC 3095), parts of a packet (RFC 1990),
        // encrypted (RFC 1968), compressed (RFC 1962), for one link of several.
        0x0003 | 0x0005 | 0x002d | 0x002f | 0x003d | 0x0053 | 0x0055 | 0x0061 | 0x0063 | 0x0065
        | 0x0067 | 0x0069 | 0x00fb | 0x00fd | 0x2061 | 0x2063 | 0x2065 | 0x2067 | 0x2069 => {
            Err(Unread::Coded)
        }
        _ => Err(Unread::NotIp),
    }
}

/// The address family of a loopback header is in the byte order of the host that captured, which
/// the file does not state; the values are small, so only one order makes sense.
fn address_family(bytes: [u8; 4]) -> Option<Network> {
    let ([0, 0, 0, family] | [family, 0, 0, 0]) = bytes else {
        return None;
    };
    match family {
        2 => Some(Network::Ipv4),
        // Linux; NetBSD and OpenBSD; FreeBSD; macOS.
        10 | 24 | 28 | 30 => Some(Network::Ipv6),
        _ => None,
    }
}
