use crate::tcp::Segment;
use crate::udp::{self, Datagram};
use crate::{Dissected, checksum, dissect_outermost};

/// Finishes the TCP or UDP checksum of a whole frame, if its sender left that to its network card;
/// returns whether it did.
///
/// A frame that a host gave to a virtual link never passed a network card. Only the link's other
/// end accepts its checksum: to all others it is wrong. See
/// [`TcpHeader::checksum_offloaded`](crate::TcpHeader).
pub fn complete_checksum(link_type: u16, bytes: &mut [u8]) -> bool {
    let (ip, len, is_tcp) = match dissect_outermost(link_type, bytes, bytes.len()) {
        Dissected::Tcp(ip, tcp) if tcp.checksum_offloaded => (ip, ip.payload_len, true),
        Dissected::Udp(ip, udp) if udp.checksum_offloaded => {
            (ip, udp.payload_len + udp::HEADER_LEN, false)
        }
        _ => return false,
    };
    let Some(segment) = bytes.get_mut(ip.payload..ip.payload + len) else {
        return false;
    };
    // The field holds the pseudo-header's sum, so that the sum of the segment includes it.
    let checksum = checksum::checksum(segment);
    if is_tcp {
        Segment::new_unchecked(segment).set_checksum(checksum);
    } else {
        Datagram::new_unchecked(segment).set_checksum(Some(checksum));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::build::{FrameBuilder, TcpFields};
    use crate::ethernet::ether_type;
    use crate::{PROTOCOL_TCP, PROTOCOL_UDP, tcp};

    const ETHERNET: u16 = 1;

    /// A frame with its checksum finished, and the same as a sender leaves it to its adapter.
    fn frames(udp: bool, v6: bool, len: usize) -> (Vec<u8>, Vec<u8>) {
        let [source, destination]: [IpAddr; 2] = match v6 {
            false => [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()],
            true => [[0x2001; 8].into(), [0xfe80; 8].into()],
        };
        let payload: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let builder = FrameBuilder::new(source, destination).with_tag(ether_type::VLAN, 7);
        let (whole, header_len, protocol) = match udp {
            true => (
                builder.udp(700, 2049, &payload),
                udp::HEADER_LEN,
                PROTOCOL_UDP,
            ),
            false => {
                let fields = TcpFields {
                    source_port: 700,
                    ..TcpFields::default()
                };
                (
                    builder.tcp(&fields, &payload),
                    tcp::HEADER_LEN,
                    PROTOCOL_TCP,
                )
            }
        };
        let mut left = whole.clone();
        let sum = checksum::pseudo_header_sum(source, destination, protocol, header_len + len);
        let segment = &mut left[whole.len() - header_len - len..];
        match udp {
            true => Datagram::new_unchecked(segment).set_checksum(Some(sum)),
            false => Segment::new_unchecked(segment).set_checksum(sum),
        }
        (whole, left)
    }

    #[test]
    fn checksums_left_to_the_adapter_are_finished() {
        for (udp, v6) in [(false, false), (false, true), (true, false), (true, true)] {
            for len in [30, 31, 1000, 8961] {
                let (whole, mut left) = frames(udp, v6, len);
                assert_ne!(left, whole);
                assert!(complete_checksum(ETHERNET, &mut left));
                assert_eq!(left, whole, "udp {udp}, IPv6 {v6}, {len} bytes");
                assert!(!complete_checksum(ETHERNET, &mut left), "it is finished");
            }
        }
    }

    #[test]
    fn cut_or_foreign_frames_stay_as_they_are() {
        let (_, left) = frames(false, false, 100);
        for len in 0..left.len() {
            let mut cut = left[..len].to_vec();
            assert!(!complete_checksum(ETHERNET, &mut cut), "{len} bytes");
            assert_eq!(cut, left[..len]);
        }
        let mut other = vec![0x5a; 100];
        assert!(!complete_checksum(ETHERNET, &mut other));
    }
}
