//! Headers in front of a payload, written in place: Ethernet (IEEE 802.3) with VLAN tags (IEEE
//! 802.1Q), IPv4 (RFC 791) and IPv6 (RFC 8200). A value that is copied, nothing is allocated.
//!
//! ```
//! use lineside_wire::PROTOCOL_TCP;
//! use lineside_wire::build::TcpFields;
//! use lineside_wire::headers::Headers;
//!
//! let headers = Headers::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//! let fields = TcpFields { source_port: 700, destination_port: 2049, ..TcpFields::default() };
//! let segment_len = fields.header_len() + 4;
//! let mut frame = [0; 128];
//! let segment = headers.emit(PROTOCOL_TCP, segment_len, &mut frame);
//! segment[fields.header_len()..].copy_from_slice(b"data");
//! fields.emit(headers.ends, segment);
//! ```

use std::net::{IpAddr, Ipv4Addr};

use crate::ethernet::{self, TAG_LEN, Tag, ether_type};
use crate::{checksum, ipv4, ipv6};

/// What stands in front of the payload of an IP packet on Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Ethernet addresses of the receiver and the sender, as they stand in a frame.
    pub link: [[u8; 6]; 2],
    /// EtherType and control information of each VLAN tag, outermost first.
    pub tags: [Option<(u16, u16)>; 2],
    /// Addresses of the sender and the receiver, of one family.
    pub ends: [IpAddr; 2],
    /// Time to live, or hop limit.
    pub hop_count: u8,
    /// Differentiated services codepoint, 6 bits: RFC 2474, 3.
    pub dscp: u8,
    /// Congestion notification, 2 bits: RFC 3168, 5.
    pub ecn: u8,
    /// IPv4's identification; `None`: no router may cut the packet, which then needs none (RFC
    /// 6864, 4.1).
    pub identification: Option<u16>,
}

impl Headers {
    /// Headers without tags, of packets that no router may cut.
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        debug_assert_eq!(source.is_ipv4(), destination.is_ipv4(), "one family");
        Self {
            link: [[0; 6]; 2],
            tags: [None; 2],
            ends: [source, destination],
            // RFC 1700, page 64.
            hop_count: 64,
            dscp: 0,
            ecn: 0,
            identification: None,
        }
    }

    /// Bytes of all headers.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        let ip_len = match self.ends[0].is_ipv4() {
            true => ipv4::HEADER_LEN,
            false => ipv6::HEADER_LEN,
        };
        link_len(&self.tags) + ip_len
    }

    /// Writes the headers of a payload of `payload_len` bytes of `protocol` to the beginning of
    /// `frame`, and returns where the payload is to be written. Panics if `frame` is shorter than
    /// both.
    #[inline]
    pub fn emit<'b>(&self, protocol: u8, payload_len: usize, frame: &'b mut [u8]) -> &'b mut [u8] {
        let ip_type = match self.ends[0] {
            IpAddr::V4(_) => ether_type::IPV4,
            IpAddr::V6(_) => ether_type::IPV6,
        };
        let frame = &mut frame[..self.len_bytes() + payload_len];
        let packet = emit_link(self.link, &self.tags, ip_type, frame);
        match self.ends {
            [IpAddr::V4(source), IpAddr::V4(destination)] => {
                let (header, payload) = packet
                    .split_first_chunk_mut::<{ ipv4::HEADER_LEN }>()
                    .expect("the frame has room for the header");
                let len = (ipv4::HEADER_LEN + payload_len) as u16;
                *header = self.ipv4_header(protocol, len, [source, destination]);
                payload
            }
            [IpAddr::V6(source), IpAddr::V6(destination)] => {
                let (header, payload) = packet
                    .split_first_chunk_mut::<{ ipv6::HEADER_LEN }>()
                    .expect("the frame has room for the header");
                let mut header = ipv6::Packet::new_unchecked(header);
                header.set_traffic_class(self.dscp << 2 | self.ecn & 3);
                header.set_payload_len(payload_len as u16);
                header.set_next_header(protocol);
                header.set_hop_limit(self.hop_count);
                header.set_source(source);
                header.set_destination(destination);
                payload
            }
            _ => unreachable!("both ends are of one family"),
        }
    }

    /// The header of a packet of `len` bytes, as a whole: to set and sum it field by field takes
    /// three times as many instructions.
    #[inline]
    fn ipv4_header(&self, protocol: u8, len: u16, ends: [Ipv4Addr; 2]) -> [u8; ipv4::HEADER_LEN] {
        const VERSION_AND_WORDS: u32 = 0x45;
        const DONT_FRAGMENT: u32 = 1 << 14;
        let traffic_class = self.dscp << 2 | self.ecn & 3;
        let fragment = match self.identification {
            Some(identification) => u32::from(identification) << 16,
            None => DONT_FRAGMENT,
        };
        let [source, destination] = ends.map(Ipv4Addr::to_bits);
        let mut words = [
            VERSION_AND_WORDS << 24 | u32::from(traffic_class) << 16 | u32::from(len),
            fragment,
            u32::from(self.hop_count) << 24 | u32::from(protocol) << 16,
            source,
            destination,
        ];
        let sum = words.iter().map(|&word| u64::from(word)).sum();
        words[2] |= u32::from(!checksum::fold(sum));
        let mut header = [0; ipv4::HEADER_LEN];
        header.copy_from_slice(words.map(u32::to_be_bytes).as_flattened());
        header
    }
}

/// Bytes of an Ethernet header with these tags.
#[inline]
pub fn link_len(tags: &[Option<(u16, u16)>; 2]) -> usize {
    ethernet::HEADER_LEN + TAG_LEN * tags.iter().filter(|tag| tag.is_some()).count()
}

/// Writes an Ethernet header with tags to the beginning of `frame`, and returns what follows.
/// `link` has the receiver first.
#[inline]
pub fn emit_link<'b>(
    link: [[u8; 6]; 2],
    tags: &[Option<(u16, u16)>],
    payload_type: u16,
    frame: &'b mut [u8],
) -> &'b mut [u8] {
    let (header, mut rest) = frame
        .split_first_chunk_mut::<{ ethernet::HEADER_LEN }>()
        .expect("the frame has room for the header");
    if tags.iter().all(Option::is_none) {
        let mut header = ethernet::Frame::new_unchecked(header);
        header.set_destination(link[0]);
        header.set_source(link[1]);
        header.set_ether_type(payload_type);
        return rest;
    }
    let mut types = { tags.iter().flatten() }
        .map(|&(kind, _)| kind)
        .chain([payload_type]);
    let mut next = || types.next().unwrap_or(payload_type);
    let mut header = ethernet::Frame::new_unchecked(header);
    header.set_destination(link[0]);
    header.set_source(link[1]);
    header.set_ether_type(next());
    for &(_, control) in tags.iter().flatten() {
        let tag;
        (tag, rest) = rest.split_at_mut(TAG_LEN);
        let mut tag = Tag::new_unchecked(tag);
        tag.set_control(control);
        tag.set_ether_type(next());
    }
    rest
}
