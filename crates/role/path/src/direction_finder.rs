//! From which side of a path a captured frame comes, by its addresses. Live frames need none of
//! this: their port has a side.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;

use lineside_frame::FrameRef;
use lineside_wire::addresses;

use crate::Direction;

/// Pairs of addresses that are stored: some 8 MB.
const PAIRS_MAX: usize = 65_536;

/// The addresses of the first side: a network, such as `10.0.0.0/8` or `2001:db8::/32`, or one
/// address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    address: IpAddr,
    prefix_len: u32,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a network: write an address and the bits that count, such as 10.0.0.0/8 or \
        2001:db8::/32"
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

/// Finds the direction of captured frames from their addresses.
#[derive(Debug, Default)]
pub struct DirectionFinder {
    inside: Option<Inside>,
    /// Whether the lesser address sent first, by the lesser and the greater one.
    pairs: HashMap<(IpAddr, IpAddr), bool>,
    /// A frame came from `inside`.
    is_inside_seen: bool,
    unaddressed: u64,
    unremembered: u64,
}

impl DirectionFinder {
    /// Frames from `inside` go outbound; without it, frames that go the way of the first one
    /// between their addresses do.
    pub fn new(inside: Option<Inside>) -> Self {
        Self {
            inside,
            ..Self::default()
        }
    }

    /// The direction of a frame. One without addresses, neither IP nor ARP, counts as outbound.
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

    /// Whether an inside was given and no frame came from there.
    pub fn is_inside_unseen(&self) -> bool {
        self.inside.is_some() && !self.is_inside_seen
    }

    /// Frames that count as outbound because they have no addresses.
    pub fn unaddressed(&self) -> u64 {
        self.unaddressed
    }

    /// Frames of pairs beyond those that are stored: the lesser address counts as inside.
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
    fn a_network_contains_its_addresses() {
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
    fn pairs_beyond_those_stored_are_counted() {
        let mut finder = DirectionFinder::new(None);
        let address = |number: usize| IpAddr::from((number as u32).to_be_bytes());
        for number in 0..PAIRS_MAX {
            assert!(finder.is_as_first(address(1 << 24), address(number)));
        }
        assert_eq!(finder.unremembered(), 0);
        assert!(!finder.is_as_first(address(3 << 24), address(1)));
        assert!(finder.is_as_first(address(1), address(3 << 24)));
        assert!(!finder.is_as_first(address(0), address(1 << 24)), "stored");
        assert_eq!(finder.unremembered(), 2);
    }

    #[test]
    fn the_first_frame_of_a_pair_goes_outbound() {
        use Direction::{Inbound, Outbound};
        let mut finder = DirectionFinder::new(None);
        let ways = [
            ("10.0.0.9", "10.0.0.1", Outbound),
            ("10.0.0.1", "10.0.0.9", Inbound),
            ("10.0.0.1", "10.0.0.2", Outbound),
            ("10.0.0.9", "10.0.0.1", Outbound),
            ("10.0.0.2", "10.0.0.1", Inbound),
        ];
        for (source, destination, way) in ways {
            assert_eq!(finder.direction(&frame(source, destination)), way);
        }
        let mut finder = DirectionFinder::new(Some("10.0.0.1/32".parse().expect("a network")));
        assert_eq!(finder.direction(&frame("10.0.0.9", "10.0.0.1")), Inbound);
        assert!(finder.is_inside_unseen());
        assert_eq!(finder.direction(&frame("10.0.0.1", "10.0.0.9")), Outbound);
        assert!(!finder.is_inside_unseen());
        assert_eq!(finder.unaddressed(), 0);
        finder.direction(&Frame::copied(b"short", Descriptor::default()));
        assert_eq!(finder.unaddressed(), 1);
    }
}
