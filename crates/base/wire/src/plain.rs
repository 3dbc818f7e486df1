//! What nearly every frame is, seen at one look: no field is read that its user does not ask for.

use std::net::Ipv4Addr;

use crate::bytes::array_at;
use crate::ethernet::{self, ether_type};
use crate::four_tuple::place_of;
use crate::tcp::{self, Segment, TcpFlags};
use crate::transport::TcpHeader;
use crate::{FourTuple, HeaderChecksum, Ip, PROTOCOL_TCP, SeqNumber, checksum, ipv4};

const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;
/// Of the three headers.
const HEADERS_LEN: usize = TCP + tcp::HEADER_LEN;
/// Both addresses, as they stand.
const ADDRESSES: usize = IP + ipv4::field::SOURCE;

/// A TCP segment in an IPv4 packet without options, in one piece and with the right header
/// checksum, on Ethernet without tags. What [`dissect`](crate::dissect) says of its frame,
/// [`headers`](Self::headers) says too.
#[derive(Debug, Clone, Copy)]
pub struct PlainSegment<'a> {
    headers: &'a [u8; HEADERS_LEN],
    /// TCP header and payload, as far as they were captured.
    captured: &'a [u8],
    /// How long they were on the wire.
    wire_len: usize,
}

/// Source and destination of a [`PlainSegment`], addresses and ports, in the order of the wire: to
/// compare, not to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainEnds {
    addresses: u64,
    ports: u32,
}

impl PlainEnds {
    /// Those of packets from the tuple's source to its destination; `None` if that is of IPv6.
    pub fn of(tuple: &FourTuple) -> Option<Self> {
        let (addresses, ports) = tuple.ipv4_numbers()?;
        let [source, destination] = addresses.map(u64::from);
        let [source_port, destination_port] = ports.map(u32::from);
        Some(Self {
            addresses: (source << 32 | destination).to_be(),
            ports: (source_port << 16 | destination_port).to_be(),
        })
    }

    /// As [`FourTuple::place`].
    #[inline]
    pub fn place(&self, places: usize) -> usize {
        let (addresses, ports) = (u64::from_be(self.addresses), u32::from_be(self.ports));
        let addresses = (addresses >> 32 ^ addresses) as u32;
        place_of(addresses, (ports >> 16 ^ ports) as u16, places)
    }
}

impl<'a> PlainSegment<'a> {
    /// Of a frame as [`dissect`](crate::dissect) gets it; `None` if that is anything else.
    #[inline]
    pub fn new(link_type: u16, bytes: &'a [u8], wire_len: usize) -> Option<Self> {
        let headers = bytes.first_chunk::<HEADERS_LEN>()?;
        let packet = ipv4::Packet::new_unchecked(&headers[IP..TCP]);
        let is_plain = link_type == 1
            && ethernet::Frame::new_unchecked(headers).ether_type() == ether_type::IPV4
            && packet.is_plain()
            && !packet.is_fragment()
            && packet.protocol() == PROTOCOL_TCP;
        if !is_plain {
            return None;
        }
        let end = IP + packet.total_len();
        let len = end.checked_sub(TCP)?;
        let header_len = Segment::new_unchecked(&headers[TCP..]).header_len();
        let fits =
            end <= wire_len.max(bytes.len()) && (tcp::HEADER_LEN..=len).contains(&header_len);
        if !fits || !checksum::is_right(&array_at(headers, IP)) {
            return None;
        }
        Some(Self {
            headers,
            captured: &bytes[TCP..end.min(bytes.len())],
            wire_len: len,
        })
    }

    /// Who sends it to whom.
    #[inline]
    pub fn ends(&self) -> PlainEnds {
        PlainEnds {
            addresses: u64::from_ne_bytes(array_at(self.headers, ADDRESSES)),
            ports: u32::from_ne_bytes(array_at(self.headers, TCP)),
        }
    }

    /// Its header.
    #[inline]
    fn tcp(&self) -> Segment<&[u8; tcp::HEADER_LEN]> {
        let header = self.headers.last_chunk().expect("it is the last header");
        Segment::new_unchecked(header)
    }

    /// Sequence number of the first payload byte; of the SYN if there is one.
    #[inline]
    pub fn sequence(&self) -> SeqNumber {
        self.tcp().sequence()
    }

    /// The next sequence number that the sender expects; holds if ACK is set.
    #[inline]
    pub fn acknowledgement(&self) -> SeqNumber {
        self.tcp().acknowledgement()
    }

    /// Control bits.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        self.tcp().flags()
    }

    /// The window as sent, without its scale.
    #[inline]
    pub fn window(&self) -> u16 {
        self.tcp().window()
    }

    /// Bytes of the TCP header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.tcp().header_len()
    }

    /// Header and payload, as far as they were captured.
    #[inline]
    pub fn captured(&self) -> &'a [u8] {
        self.captured
    }

    /// Bytes of header and payload on the wire.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.wire_len
    }

    /// Whether nothing of it was cut off.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.captured.len() == self.wire_len
    }

    /// Offset of the header in the bytes of the frame.
    #[inline]
    pub fn offset(&self) -> usize {
        TCP
    }

    /// The checksum as sent, right or not.
    #[inline]
    pub fn checksum(&self) -> u16 {
        self.tcp().checksum()
    }

    /// Both headers as [`dissect`](crate::dissect) gives them.
    #[inline]
    pub fn headers(&self) -> (Ip, TcpHeader) {
        let packet = ipv4::Packet::new_unchecked(&self.headers[IP..TCP]);
        let [source, destination] = [packet.source(), packet.destination()].map(Ipv4Addr::into);
        let (header_len, captured) = (self.header_len(), self.captured.len());
        let payload = header_len.min(captured);
        let ip = Ip {
            source,
            destination,
            protocol: PROTOCOL_TCP,
            ttl: packet.ttl(),
            identification: packet.identification(),
            header: IP,
            payload: TCP,
            payload_len: self.wire_len,
            captured_len: captured,
            tunnels: 0,
            virtual_network: None,
            vlan: 0,
            checksum: HeaderChecksum::Right,
        };
        let segment = self.tcp();
        let pseudo_header_sum = ip.pseudo_header_sum(self.wire_len);
        let tcp = TcpHeader {
            source_port: segment.source_port(),
            destination_port: segment.destination_port(),
            sequence: segment.sequence(),
            acknowledgement: segment.acknowledgement(),
            flags: segment.flags(),
            window: segment.window(),
            checksum: segment.checksum(),
            header_len,
            payload: TCP + payload,
            payload_len: self.wire_len - header_len,
            captured_len: captured - payload,
            checksum_offloaded: segment.checksum() == pseudo_header_sum,
        };
        (ip, tcp)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::build::{FrameBuilder, TcpFields};
    use crate::{Endpoint, dissect};

    #[test]
    fn ends_are_those_of_the_tuple_in_its_direction() {
        let ends = [([10, 0, 0, 1], 700), ([192, 168, 3, 4], 2049)];
        let ends = ends.map(|(address, port)| Endpoint {
            address: IpAddr::from(address),
            port,
        });
        let there = FourTuple::new(ends[0], ends[1]);
        let fields = TcpFields {
            source_port: 700,
            destination_port: 2049,
            ..TcpFields::default()
        };
        let frame = FrameBuilder::new(ends[0].address, ends[1].address).tcp(&fields, b"x");
        let segment = PlainSegment::new(1, &frame, frame.len()).expect("plain");
        assert_eq!(PlainEnds::of(&there), Some(segment.ends()));
        let back = PlainEnds::of(&there.reversed()).expect("of IPv4");
        assert_ne!(back, segment.ends());
        assert_eq!(back.place(256), segment.ends().place(256));
        assert_eq!(there.place(256), segment.ends().place(256));
        assert_eq!(there.reversed().place(256), there.place(256));
        let (ip, tcp) = segment.headers();
        assert_eq!(
            dissect(1, &frame, frame.len()),
            crate::Dissected::Tcp(ip, tcp)
        );
    }

    #[test]
    fn tuples_of_ipv6_have_no_plain_ends() {
        let end = Endpoint {
            address: [0xfe; 16].into(),
            port: 1,
        };
        assert_eq!(PlainEnds::of(&FourTuple::new(end, end)), None);
    }
}
