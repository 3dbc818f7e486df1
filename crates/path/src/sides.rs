use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;

use lineside_frame::FrameRef;
use lineside_wire::addresses;

use crate::Direction;

/// Pairs of addresses that are remembered: some 8 MB.
const PAIRS_MAX: usize = 65_536;

/// The addresses of the first side: a network, such as `10.0.0.0/8` or `2001:db8::/32`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    address: IpAddr,
    prefix_len: u32,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a network: write an address and the bits that count, such as 10.0.0.0/8 or 2001:db8::/32"
)]
pub struct InsideError {
    text: String,
}

impl FromStr for Inside {
    type Err = InsideError;

    fn from_str(text: &str) -> Result<Self, InsideError> {
        let error = || InsideError {
            text: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| error())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = bits.unwrap_or(bits_max);
        if prefix_len > bits_max {
            return Err(error());
        }
        Ok(Self {
            address,
            prefix_len,
        })
    }
}

impl Inside {
    fn holds(&self, address: IpAddr) -> bool {
        if self.address.is_ipv4() != address.is_ipv4() {
            return false;
        }
        // The upper bits of 128 count, so IPv4 is moved there.
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
            IpAddr::V6(address) => u128::from(address),
        };
        let differing = bits(self.address) ^ bits(address);
        differing.leading_zeros() >= self.prefix_len
    }
}

/// Tells from the addresses of a captured frame which way it went.
#[derive(Debug, Default)]
pub struct Sides {
    inside: Option<Inside>,
    /// By the lesser and the greater address, whether the lesser one sent first.
    pairs: HashMap<(IpAddr, IpAddr), bool>,
    /// A frame came from the inside that was named.
    is_inside_seen: bool,
    unaddressed: u64,
    unremembered: u64,
}

impl Sides {
    /// What `inside` sends goes outbound; without it, whatever goes as the first frame of its pair of addresses did.
    pub fn new(inside: Option<Inside>) -> Self {
        Self {
            inside,
            ..Self::default()
        }
    }

    /// Which way the frame went. One without addresses, neither IP nor ARP, counts as outbound.
    pub fn direction(&mut self, frame: &FrameRef) -> Direction {
        let link_type = frame.descriptor().link_type.0;
        let Some((source, destination)) = addresses(link_type, frame.bytes()) else {
            self.unaddressed += 1;
            return Direction::Outbound;
        };
        let is_outbound = match &self.inside {
            Some(inside) => {
                let holds = inside.holds(source);
                self.is_inside_seen |= holds;
                holds
            }
            None => self.is_as_first(source, destination),
        };
        if is_outbound {
            Direction::Outbound
        } else {
            Direction::Inbound
        }
    }

    fn is_as_first(&mut self, source: IpAddr, destination: IpAddr) -> bool {
        let is_rising = source <= destination;
        let pair = if is_rising {
            (source, destination)
        } else {
            (destination, source)
        };
        if let Some(&first) = self.pairs.get(&pair) {
            return first == is_rising;
        }
        if self.pairs.len() < PAIRS_MAX {
            self.pairs.insert(pair, is_rising);
            return true;
        }
        self.unremembered += 1;
        is_rising
    }

    /// An inside was named, and no frame came from there.
    pub fn is_inside_unseen(&self) -> bool {
        self.inside.is_some() && !self.is_inside_seen
    }

    /// Frames that count as outbound because they have no addresses.
    pub fn unaddressed(&self) -> u64 {
        self.unaddressed
    }

    /// Frames of more pairs than are remembered: the lesser address counts as inside.
    pub fn unremembered(&self) -> u64 {
        self.unremembered
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame, LinkType};
    use lineside_wire::build::FrameBuilder;

    use super::*;

    fn frame(source: &str, destination: &str) -> Frame {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let bytes = FrameBuilder::new(address(source), address(destination)).udp(1, 2, b"x");
        let descriptor = Descriptor {
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(&bytes, descriptor)
    }

    #[test]
    fn networks_hold_their_addresses() {
        for (network, address, holds) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.0", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("10.1.2.128/25", "10.1.2.200", true),
            ("10.1.2.128/25", "10.1.2.100", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ] {
            let inside: Inside = network.parse().expect(network);
            assert_eq!(
                inside.holds(address.parse().expect(address)),
                holds,
                "{network} {address}"
            );
        }
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "lan"] {
            assert!(bad.parse::<Inside>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pairs_first_frame_goes_outbound() {
        use Direction::{Inbound, Outbound};
        let mut sides = Sides::new(None);
        let ways = [
            ("10.0.0.9", "10.0.0.1", Outbound),
            ("10.0.0.1", "10.0.0.9", Inbound),
            ("10.0.0.1", "10.0.0.2", Outbound),
            ("10.0.0.9", "10.0.0.1", Outbound),
            ("10.0.0.2", "10.0.0.1", Inbound),
        ];
        for (source, destination, way) in ways {
            assert_eq!(sides.direction(&frame(source, destination)), way);
        }
        let mut sides = Sides::new(Some("10.0.0.1/32".parse().expect("a network")));
        assert_eq!(sides.direction(&frame("10.0.0.9", "10.0.0.1")), Inbound);
        assert!(sides.is_inside_unseen());
        assert_eq!(sides.direction(&frame("10.0.0.1", "10.0.0.9")), Outbound);
        assert!(!sides.is_inside_unseen());
        assert_eq!(sides.unaddressed(), 0);
        sides.direction(&Frame::copied(b"short", Descriptor::default()));
        assert_eq!(sides.unaddressed(), 1);
    }
}
