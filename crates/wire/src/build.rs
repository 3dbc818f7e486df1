//! Writing frames, from the link header to the payload, with correct lengths and checksums.

use std::net::IpAddr;

use crate::TcpFlags;
use crate::{PROTOCOL_TCP, PROTOCOL_UDP, checksum};

/// What frames between two addresses have in common.
///
/// ```
/// use lineside_wire::build::{FrameBuilder, TcpFields};
///
/// let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).with_tag(0x8100, 42);
/// let frame = builder.tcp(&TcpFields { source_port: 700, destination_port: 2049, ..TcpFields::default() }, b"data");
/// assert_eq!(frame.len(), 14 + 4 + 20 + 20 + 4);
/// ```
#[derive(Debug, Clone)]
pub struct FrameBuilder {
    source: IpAddr,
    destination: IpAddr,
    link_type: u16,
    tags: Vec<(u16, u16)>,
    hop_count: u8,
    identification: u32,
    options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
}

/// The fields of a TCP header that a sender chooses.
#[derive(Debug, Clone, Default)]
pub struct TcpFields {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The next sequence number that the sender expects.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window as sent.
    pub window: u16,
    /// Options, at most 40 bytes; padded with end-of-list to a multiple of 4.
    pub options: Vec<u8>,
}

impl FrameBuilder {
    /// Untagged Ethernet frames from `source` to `destination`, addresses of one family.
    pub fn new(source: IpAddr, destination: IpAddr) -> Self {
        assert_eq!(
            source.is_ipv4(),
            destination.is_ipv4(),
            "both addresses are of one family"
        );
        Self {
            source,
            destination,
            link_type: 1,
            tags: Vec::new(),
            hop_count: 64,
            identification: 0,
            options: Vec::new(),
            extensions: Vec::new(),
        }
    }

    /// Frames of another link type: 0, 1, 12, 14, 101, 108, 113, 228, 229 or 276.
    pub fn with_link_type(mut self, link_type: u16) -> Self {
        self.link_type = link_type;
        self
    }

    /// One more VLAN tag, inside those before it; `kind` is 0x8100, 0x88a8 or 0x9100.
    pub fn with_tag(mut self, kind: u16, id: u16) -> Self {
        self.tags.push((kind, id));
        self
    }

    /// Time to live or hop limit; 64 if not set.
    pub fn with_hop_count(mut self, hop_count: u8) -> Self {
        self.hop_count = hop_count;
        self
    }

    /// The identification of the packet; 0 if not set, the lower 16 bits in IPv4.
    pub fn with_identification(mut self, identification: u32) -> Self {
        self.identification = identification;
        self
    }

    /// IPv4 options, at most 40 bytes; padded with end-of-list to a multiple of 4.
    pub fn with_options(mut self, options: &[u8]) -> Self {
        self.options = padded(options);
        self
    }

    /// One more IPv6 extension header of protocol number `kind`, behind those before it. Its first
    /// byte, which names the next header, is filled in.
    pub fn with_extension(mut self, kind: u8, header: &[u8]) -> Self {
        self.extensions.push((kind, header.to_vec()));
        self
    }

    /// A frame with a TCP segment.
    pub fn tcp(&self, fields: &TcpFields, payload: &[u8]) -> Vec<u8> {
        self.packet(PROTOCOL_TCP, &self.tcp_segment(fields, payload))
    }

    /// A frame with a UDP datagram.
    pub fn udp(&self, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
        let datagram = self.udp_datagram(source_port, destination_port, payload);
        self.packet(PROTOCOL_UDP, &datagram)
    }

    /// A frame with any IP payload. A length beyond 16 bits is written as 0, as network stacks do
    /// in frames that wait for segmentation.
    pub fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        self.frame(protocol, payload, None)
    }

    /// The frames of an IP payload in fragments of `fragment_len` bytes, rounded down to a multiple
    /// of 8, at least 8. One that fits into a single fragment is sent whole in IPv4, as an atomic
    /// fragment in IPv6.
    pub fn fragments(&self, protocol: u8, payload: &[u8], fragment_len: usize) -> Vec<Vec<u8>> {
        let fragment_len = (fragment_len & !7).max(8);
        let count = payload.len().div_ceil(fragment_len);
        payload
            .chunks(fragment_len)
            .enumerate()
            .map(|(index, part)| {
                let position = Position {
                    offset: index * fragment_len,
                    more: index + 1 < count,
                };
                self.frame(protocol, part, Some(position))
            })
            .collect()
    }

    /// A TCP segment with its checksum, without the headers before it.
    pub fn tcp_segment(&self, fields: &TcpFields, payload: &[u8]) -> Vec<u8> {
        let options = padded(&fields.options);
        let mut segment = Vec::with_capacity(20 + options.len() + payload.len());
        segment.extend(fields.source_port.to_be_bytes());
        segment.extend(fields.destination_port.to_be_bytes());
        segment.extend(fields.sequence.to_be_bytes());
        segment.extend(fields.acknowledgement.to_be_bytes());
        segment.push((((20 + options.len()) / 4) << 4) as u8);
        segment.push(fields.flags.0);
        segment.extend(fields.window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        segment.extend(payload);
        let sum = self.transport_checksum(PROTOCOL_TCP, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }

    /// A UDP datagram with its checksum, without the headers before it. A length beyond 16 bits is
    /// written as 0.
    pub fn udp_datagram(&self, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(8 + payload.len());
        datagram.extend(source_port.to_be_bytes());
        datagram.extend(destination_port.to_be_bytes());
        datagram.extend(length(8 + payload.len()).to_be_bytes());
        datagram.extend([0; 2]);
        datagram.extend(payload);
        // 0 would mean that there is none: RFC 768.
        let sum = match self.transport_checksum(PROTOCOL_UDP, &datagram) {
            0 => 0xffff,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        datagram
    }

    fn transport_checksum(&self, protocol: u8, segment: &[u8]) -> u16 {
        let pseudo =
            checksum::pseudo_header_sum(self.source, self.destination, protocol, segment.len());
        !checksum::add(pseudo, checksum::sum(segment))
    }

    fn frame(&self, protocol: u8, payload: &[u8], position: Option<Position>) -> Vec<u8> {
        let mut frame = Vec::with_capacity(128 + payload.len());
        self.link_header(&mut frame);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let start = frame.len();
                let header_len = 20 + self.options.len();
                frame.extend([0x40 | (header_len / 4) as u8, 0]);
                frame.extend(length(header_len + payload.len()).to_be_bytes());
                frame.extend((self.identification as u16).to_be_bytes());
                frame.extend(position.map_or(0, Position::ipv4).to_be_bytes());
                frame.extend([self.hop_count, protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                frame.extend(&self.options);
                let sum = checksum::checksum(&frame[start..]);
                frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut headers = self.extensions.clone();
                if let Some(position) = position {
                    let mut header = vec![0; 2];
                    header.extend(position.ipv6().to_be_bytes());
                    header.extend(self.identification.to_be_bytes());
                    headers.push((44, header));
                }
                let first = headers.first().map_or(protocol, |&(kind, _)| kind);
                let extensions_len: usize = headers.iter().map(|(_, header)| header.len()).sum();
                frame.extend([0x60, 0, 0, 0]);
                frame.extend(length(extensions_len + payload.len()).to_be_bytes());
                frame.extend([first, self.hop_count]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                for (index, (_, header)) in headers.iter().enumerate() {
                    frame.push(headers.get(index + 1).map_or(protocol, |&(kind, _)| kind));
                    frame.extend(&header[1..]);
                }
            }
            _ => unreachable!("`new` takes addresses of one family"),
        }
        frame.extend(payload);
        frame
    }

    fn link_header(&self, frame: &mut Vec<u8>) {
        let ether_type: u16 = if self.source.is_ipv4() {
            0x0800
        } else {
            0x86dd
        };
        let first = self.tags.first().map_or(ether_type, |&(kind, _)| kind);
        match self.link_type {
            // Locally administered addresses, the receiver's first.
            1 => frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]),
            // Unicast to us, Ethernet, 6 bytes of address.
            113 => frame.extend([0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
            276 => {
                frame.extend(first.to_be_bytes());
                // Interface 1, Ethernet, unicast to us, 6 bytes of address.
                frame.extend([0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
            }
            // Linux's address families; `NULL` in the order of x86.
            0 => frame.extend([if self.source.is_ipv4() { 2 } else { 10 }, 0, 0, 0]),
            108 => frame.extend([0, 0, 0, if self.source.is_ipv4() { 2 } else { 10 }]),
            _ => {}
        }
        if matches!(self.link_type, 1 | 113) {
            frame.extend(first.to_be_bytes());
        }
        if matches!(self.link_type, 1 | 113 | 276) {
            for (index, &(_, id)) in self.tags.iter().enumerate() {
                let next = self
                    .tags
                    .get(index + 1)
                    .map_or(ether_type, |&(kind, _)| kind);
                frame.extend(id.to_be_bytes());
                frame.extend(next.to_be_bytes());
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Position {
    offset: usize,
    more: bool,
}

impl Position {
    fn ipv4(self) -> u16 {
        (self.offset / 8) as u16 | if self.more { 0x2000 } else { 0 }
    }

    fn ipv6(self) -> u16 {
        self.offset as u16 | u16::from(self.more)
    }
}

fn length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}

fn padded(options: &[u8]) -> Vec<u8> {
    assert!(
        options.len() <= 40,
        "a header has room for 40 bytes of options"
    );
    let mut padded = options.to_vec();
    padded.resize(options.len().next_multiple_of(4), 0);
    padded
}
