//! The key of tables of connections: two ends, each an address and a port. It does not know what
//! the ports mean, nor which end opened the connection.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Direction, Ip};

/// One end of a connection: an address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// The addresses and ports of a packet, source and destination, both of IPv4 or both of IPv6.
///
/// It is the key of tables of connections, so addresses are numbers here, which compare and hash in
/// few instructions and order as the addresses themselves do. Both directions of a connection have
/// the same [canonical](Self::canonical) form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourTuple {
    addresses: [u128; 2],
    ports: [u16; 2],
    is_ipv4: bool,
}

impl FourTuple {
    /// Of a packet from `source` to `destination`.
    #[inline]
    pub fn new(source: Endpoint, destination: Endpoint) -> Self {
        debug_assert_eq!(
            source.address.is_ipv4(),
            destination.address.is_ipv4(),
            "a packet has addresses of one family"
        );
        Self {
            addresses: [bits(source.address), bits(destination.address)],
            ports: [source.port, destination.port],
            is_ipv4: source.address.is_ipv4(),
        }
    }

    /// Of a packet with this header and these ports.
    #[inline]
    pub fn of(ip: &Ip, source_port: u16, destination_port: u16) -> Self {
        let [source, destination] = [(ip.source, source_port), (ip.destination, destination_port)]
            .map(|(address, port)| Endpoint { address, port });
        Self::new(source, destination)
    }

    /// Of an IPv4 packet, by the numbers that its header has.
    #[inline]
    pub fn of_ipv4(addresses: [u32; 2], ports: [u16; 2]) -> Self {
        Self {
            addresses: addresses.map(u128::from),
            ports,
            is_ipv4: true,
        }
    }

    /// A number below `places`, which must be a power of two, that both directions share.
    #[inline]
    pub fn place(&self, places: usize) -> usize {
        let addresses = self.addresses[0] ^ self.addresses[1];
        let addresses = (addresses >> 64 ^ addresses) as u64;
        let addresses = (addresses >> 32 ^ addresses) as u32;
        place_of(addresses, self.ports[0] ^ self.ports[1], places)
    }

    /// The addresses and ports, if these are of IPv4.
    pub(crate) fn ipv4_numbers(&self) -> Option<([u32; 2], [u16; 2])> {
        let addresses = self.addresses.map(|address| address as u32);
        self.is_ipv4.then_some((addresses, self.ports))
    }

    /// The end that sends.
    #[inline]
    pub fn source(&self) -> Endpoint {
        self.ends()[0]
    }

    /// The end that receives.
    #[inline]
    pub fn destination(&self) -> Endpoint {
        self.ends()[1]
    }

    /// The end that sends and the end that receives.
    #[inline]
    pub fn ends(&self) -> [Endpoint; 2] {
        [0, 1].map(|end| Endpoint {
            address: match self.is_ipv4 {
                true => Ipv4Addr::from_bits(self.addresses[end] as u32).into(),
                false => Ipv6Addr::from_bits(self.addresses[end]).into(),
            },
            port: self.ports[end],
        })
    }

    /// That of the packets that go the other way.
    #[inline]
    pub fn reversed(&self) -> Self {
        let [source, destination] = self.addresses;
        let [source_port, destination_port] = self.ports;
        Self {
            addresses: [destination, source],
            ports: [destination_port, source_port],
            is_ipv4: self.is_ipv4,
        }
    }

    /// The form that both directions share, which has the lesser end first, and the direction of
    /// this packet: forward from the lesser end to the greater.
    #[inline]
    pub fn canonical(&self) -> (Self, Direction) {
        let [from, to] = [0, 1].map(|end| (self.addresses[end], self.ports[end]));
        match from <= to {
            true => (*self, Direction::Forward),
            false => (self.reversed(), Direction::Reverse),
        }
    }
}

impl Hash for FourTuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [source, destination] = self.ports.map(u64::from);
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u64(source << 32 | destination << 16 | u64::from(self.is_ipv4));
    }
}

/// A number below `places`, which must be a power of two, by what both addresses and both ports
/// differ in: multiplied, as in Fibonacci hashing, so that ports and hosts in a row lie apart.
#[inline]
pub(crate) fn place_of(addresses: u32, ports: u16, places: usize) -> usize {
    let ports = u32::from(ports);
    let mixed = (addresses ^ ports << 16 ^ ports).wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - places.ilog2())) as usize
}

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use proptest::prelude::*;

    use super::*;

    fn pairs_of_ends() -> impl Strategy<Value = [Endpoint; 2]> {
        let pair = prop_oneof![
            any::<[Ipv4Addr; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
            any::<[Ipv6Addr; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
            // Often the same host, and often the same port.
            any::<Ipv4Addr>().prop_map(|address| [address.into(); 2]),
        ];
        (pair, [0..3u16, 0..3u16]).prop_map(|(addresses, ports)| {
            [0, 1].map(|end| Endpoint {
                address: addresses[end],
                port: ports[end],
            })
        })
    }

    proptest! {
        #[test]
        fn both_directions_have_one_canonical_form([source, destination] in pairs_of_ends()) {
            let there = FourTuple::new(source, destination);
            let back = FourTuple::new(destination, source);
            prop_assert_eq!(there.reversed(), back);
            prop_assert_eq!(back.reversed(), there);
            prop_assert_eq!(there.ends(), [source, destination]);
            prop_assert_eq!([there.source(), there.destination()], there.ends());
            let (one, direction) = there.canonical();
            let (other, opposite) = back.canonical();
            prop_assert_eq!(one, other);
            let hasher = RandomState::new();
            prop_assert_eq!(hasher.hash_one(one), hasher.hash_one(other));
            prop_assert_eq!(one.ends()[direction], source);
            prop_assert_eq!(direction == opposite, source == destination);
            prop_assert!(one.source() <= one.destination());
        }

        #[test]
        fn tuples_are_equal_if_their_ends_are(one in pairs_of_ends(), other in pairs_of_ends()) {
            let [one_tuple, other_tuple] = [one, other].map(|[from, to]| FourTuple::new(from, to));
            prop_assert_eq!(one_tuple == other_tuple, one == other);
        }
    }

    #[test]
    fn addresses_of_different_families_differ() {
        let tuple = |addresses: [IpAddr; 2]| {
            let [source, destination] = addresses.map(|address| Endpoint { address, port: 1 });
            FourTuple::new(source, destination)
        };
        let v4 = [[0, 0, 0, 1], [0, 0, 0, 2]].map(Ipv4Addr::from);
        let v6 = [1, 2].map(|bits| Ipv6Addr::from_bits(bits).into());
        assert_ne!(tuple(v4.map(IpAddr::from)), tuple(v6));
        let of_header = FourTuple::of_ipv4(v4.map(Ipv4Addr::to_bits), [1; 2]);
        assert_eq!(of_header, tuple(v4.map(IpAddr::from)));
    }

    #[test]
    fn ports_and_hosts_in_a_row_have_places_of_their_own() {
        let server = Endpoint {
            address: IpAddr::from([192, 0, 2, 1]),
            port: 2049,
        };
        let places = |client: fn(u8) -> ([u8; 4], u16)| {
            let places = (0..64).map(|number| {
                let (address, port) = client(number);
                let address = IpAddr::from(address);
                let tuple = FourTuple::new(Endpoint { address, port }, server);
                assert_eq!(tuple.place(256), tuple.reversed().place(256));
                tuple.place(256)
            });
            places.collect::<std::collections::BTreeSet<_>>().len()
        };
        let ports = places(|number| ([192, 0, 2, 2], 1000 - u16::from(number)));
        let hosts = places(|number| ([192, 0, 2, 2 + number], 900));
        let both = places(|number| ([192, 0, 2, 2 + number], 57_512 + 16 * u16::from(number)));
        assert!(
            [ports, hosts, both].into_iter().all(|count| count >= 56),
            "{ports} {hosts} {both}"
        );
    }
}
