//! Link headers: from the first byte of a frame to the network header.

use crate::Layers;
use crate::bytes::{array, u16_at};
use crate::dissect::Dissected;
use crate::ethernet::{self, TAG_LEN, Tag, ether_type};

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
    TooDeep,
    Unknown,
    Malformed,
}

impl From<Unread> for Dissected {
    fn from(why: Unread) -> Self {
        match why {
            Unread::NotIp => Self::NotIp,
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
        _ => Err(Unread::Unknown),
    }
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
fn tagged(bytes: &[u8], offset: usize, layers: &mut Layers) -> Result<(Network, usize), Unread> {
    let ether_type = array(bytes, offset).ok_or(Unread::Malformed)?;
    tags(bytes, u16::from_be_bytes(*ether_type), offset + 2, layers)
}

/// Walks tags from `offset`, where the header that `ether_type` names begins.
#[inline]
fn tags(
    bytes: &[u8],
    mut ether_type: u16,
    mut offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    loop {
        match ether_type {
            ether_type::IPV4 => return Ok((Network::Ipv4, offset)),
            ether_type::IPV6 => return Ok((Network::Ipv6, offset)),
            ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::OLD_SERVICE_VLAN => {
                let tag = array::<TAG_LEN>(bytes, offset).ok_or(Unread::Malformed)?;
                let tag = Tag::new_unchecked(tag);
                if !layers.push_tag(tag.id()) {
                    return Err(Unread::TooDeep);
                }
                ether_type = tag.ether_type();
                offset += TAG_LEN;
            }
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => return Ok((Network::Mpls, offset)),
            _ => return Err(Unread::NotIp),
        }
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
