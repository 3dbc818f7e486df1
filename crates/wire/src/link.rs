//! Link headers: from the first byte of a frame to the network header.

use crate::dissect::Dissected;

/// VLAN identifiers of a frame, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tags {
    ids: [u16; Self::MAX],
    len: u8,
}

impl Tags {
    /// The most tags that are read; a frame with more of them counts as not IP. Two are the
    /// standard's (IEEE 802.1ad), more are seen only in tests of switches.
    pub const MAX: usize = 4;

    /// The identifiers (12 bits each), outermost first.
    pub fn ids(&self) -> &[u16] {
        &self.ids[..usize::from(self.len)]
    }

    #[inline]
    fn push(&mut self, id: u16) -> bool {
        let Some(slot) = self.ids.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = id;
        self.len += 1;
        true
    }
}

/// Which network header follows the link header, as far as we read any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Ipv4,
    Ipv6,
    /// The first four bits say which.
    ByVersion,
}

/// Where the network header begins and what it is; or why it is not reached.
#[inline]
pub(crate) fn network(link_type: u16, bytes: &[u8]) -> Result<(Network, usize, Tags), Dissected> {
    let untagged = |network, offset| Ok((network, offset, Tags::default()));
    match link_type {
        1 => tagged(bytes, 12),
        113 => tagged(bytes, 14),
        276 => match array::<20>(bytes, 0) {
            // The type stands first, the network header after all 20 bytes.
            Some(&[high, low, ..]) => tags(bytes, u16::from_be_bytes([high, low]), 20),
            None => Err(Dissected::MalformedLink),
        },
        0 | 108 => {
            let family = array(bytes, 0).ok_or(Dissected::MalformedLink)?;
            untagged(address_family(*family).ok_or(Dissected::NotIp)?, 4)
        }
        12 | 14 | 101 => untagged(Network::ByVersion, 0),
        228 => untagged(Network::Ipv4, 0),
        229 => untagged(Network::Ipv6, 0),
        _ => Err(Dissected::UnknownLink),
    }
}

/// The type field at `offset` ends the link header, if no tags follow.
#[inline]
fn tagged(bytes: &[u8], offset: usize) -> Result<(Network, usize, Tags), Dissected> {
    let ether_type = array(bytes, offset).ok_or(Dissected::MalformedLink)?;
    tags(bytes, u16::from_be_bytes(*ether_type), offset + 2)
}

/// Walks tags from `offset`, where what `ether_type` names begins.
#[inline]
fn tags(
    bytes: &[u8],
    mut ether_type: u16,
    mut offset: usize,
) -> Result<(Network, usize, Tags), Dissected> {
    let mut tags = Tags::default();
    loop {
        match ether_type {
            0x0800 => return Ok((Network::Ipv4, offset, tags)),
            0x86dd => return Ok((Network::Ipv6, offset, tags)),
            // 802.1Q, 802.1ad, and what switches used before 802.1ad.
            0x8100 | 0x88a8 | 0x9100 => {
                let &[control_high, control_low, type_high, type_low] =
                    array(bytes, offset).ok_or(Dissected::MalformedLink)?;
                if !tags.push(u16::from_be_bytes([control_high, control_low]) & 0x0fff) {
                    return Err(Dissected::NotIp);
                }
                ether_type = u16::from_be_bytes([type_high, type_low]);
                offset += 4;
            }
            _ => return Err(Dissected::NotIp),
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
