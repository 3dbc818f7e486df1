//! The key of a flow, as user space writes it and the program puts it together.
//!
//! ```text
//!  0 interface │ 4 family and protocol │ 8 source │ 24 destination │ 40 ports │ 44
//! ```

use std::net::{IpAddr, SocketAddr};

/// One direction of a flow: what its frames have in common as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The [number](crate::live::Interface::index) of the interface at which they come.
    pub interface: u32,
    /// TCP (6) or UDP (17).
    pub protocol: u8,
    /// Where they come from.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
}

pub(super) const INTERFACE: i16 = 0;
pub(super) const KIND: i16 = 4;
pub(super) const SOURCE: i16 = 8;
pub(super) const DESTINATION: i16 = 24;
pub(super) const PORTS: i16 = 40;

pub(super) const KEY_LEN: usize = 44;

/// Addresses and ports stand as in a frame; IPv4 addresses take the first four bytes of their
/// fields, and zeros follow.
pub(super) fn bytes(key: &FlowKey) -> [u8; KEY_LEN] {
    let mut bytes = [0; KEY_LEN];
    let mut put = |at: i16, value: &[u8]| {
        bytes[at as usize..][..value.len()].copy_from_slice(value);
    };
    put(INTERFACE, &key.interface.to_ne_bytes());
    put(
        KIND,
        &kind(key.source.is_ipv4(), key.protocol).to_ne_bytes(),
    );
    put(SOURCE, &address_bytes(key.source.ip()));
    put(DESTINATION, &address_bytes(key.destination.ip()));
    let ports = [key.source, key.destination].map(|end| end.port().to_be_bytes());
    put(PORTS, ports.as_flattened());
    bytes
}

/// The second word of a key.
pub(super) fn kind(is_v4: bool, protocol: u8) -> u32 {
    u32::from(is_v4) << 8 | u32::from(protocol)
}

pub(super) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}
