//! Link headers: from the first byte of a frame to the network header.

use crate::Layers;
use crate::dissect::Dissected;

/// Which network header follows the link header, as far as we read any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Ipv4,
    Ipv6,
    /// The first four bits say which.
    ByVersion,
    /// A stack of labels, which does not say what is below it.
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
        1 => ethernet(bytes, 0, layers),
        113 => tagged(bytes, 14, layers),
        276 => match array::<20>(bytes, 0) {
            // The type stands first, the network header after all 20 bytes.
            Some(&[high, low, ..]) => tags(bytes, u16::from_be_bytes([high, low]), 20, layers),
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
pub(crate) fn ethernet(
    bytes: &[u8],
    offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    tagged(bytes, offset + 12, layers)
}

/// The type field at `offset` ends the link header, if no tags follow.
#[inline]
fn tagged(bytes: &[u8], offset: usize, layers: &mut Layers) -> Result<(Network, usize), Unread> {
    let ether_type = array(bytes, offset).ok_or(Unread::Malformed)?;
    tags(bytes, u16::from_be_bytes(*ether_type), offset + 2, layers)
}

/// Walks tags from `offset`, where what `ether_type` names begins.
#[inline]
fn tags(
    bytes: &[u8],
    mut ether_type: u16,
    mut offset: usize,
    layers: &mut Layers,
) -> Result<(Network, usize), Unread> {
    loop {
        match ether_type {
            0x0800 => return Ok((Network::Ipv4, offset)),
            0x86dd => return Ok((Network::Ipv6, offset)),
            // 802.1Q, 802.1ad, and what switches used before 802.1ad.
            0x8100 | 0x88a8 | 0x9100 => {
                let &[control_high, control_low, type_high, type_low] =
                    array(bytes, offset).ok_or(Unread::Malformed)?;
                if !layers.push_tag(u16::from_be_bytes([control_high, control_low]) & 0x0fff) {
                    return Err(Unread::TooDeep);
                }
                ether_type = u16::from_be_bytes([type_high, type_low]);
                offset += 4;
            }
            // Unicast and multicast: RFC 5332, 3.
            0x8847 | 0x8848 => return Ok((Network::Mpls, offset)),
            _ => return Err(Unread::NotIp),
        }
    }
}

/// The address family of a loopback header is in the byte order of the host that captured, which
/// the file does not tell; the values are small, so only one order makes sense.
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

/// The `N` bytes at `offset`, if all are there.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}
