//! Writing frames, from the link header to the payload, with correct lengths and checksums.
//!
//! The length of a frame is known before it is written: [`FrameBuilder::tcp_len`] and
//! [`FrameBuilder::udp_len`]. `emit_tcp` and `emit_udp` write it into a slice, without allocating;
//! `tcp`, `udp`, `packet` and `fragments` give vectors, for tests. A builder owns what it was
//! given; [`headers`](crate::headers) are values, for engines that send.

use std::net::IpAddr;

use crate::ethernet::{self, TAG_LEN, Tag, ether_type};
use crate::ipv6::{FRAGMENT_HEADER_LEN, FragmentHeader, extension};
use crate::tcp::Segment;
use crate::udp::Datagram;
use crate::{PROTOCOL_TCP, PROTOCOL_UDP, TcpFlags, ipv4, ipv6, tcp, udp};

/// What frames between two addresses have in common.
///
/// ```
/// use lineside_wire::build::{FrameBuilder, TcpFields};
/// use lineside_wire::ethernet::ether_type;
///
/// let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
///     .with_tag(ether_type::VLAN, 42);
/// let fields = TcpFields { source_port: 700, destination_port: 2049, ..TcpFields::default() };
/// let mut buffer = [0; 128];
/// let len = builder.emit_tcp(&fields, b"data", &mut buffer);
/// assert_eq!(len, 14 + 4 + 20 + 20 + 4);
/// assert_eq!(buffer[..len], builder.tcp(&fields, b"data"));
/// ```
#[derive(Debug, Clone)]
pub struct FrameBuilder {
    source: IpAddr,
    destination: IpAddr,
    link_type: u16,
    /// Source and destination.
    link_addresses: [[u8; 6]; 2],
    /// EtherType and control information, outermost first.
    tags: Vec<(u16, u16)>,
    ttl: u8,
    ecn: u8,
    identification: u32,
    options: Vec<u8>,
    /// Numbers of extension headers, each with its bytes.
    extensions: Vec<(u8, Vec<u8>)>,
}

/// The fields of a TCP header that a sender chooses.
#[derive(Debug, Clone, Copy)]
pub struct TcpFields<'a> {
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
    pub options: &'a [u8],
}

impl Default for TcpFields<'_> {
    /// The window is open.
    fn default() -> Self {
        Self {
            source_port: 0,
            destination_port: 0,
            sequence: 0,
            acknowledgement: 0,
            flags: TcpFlags::default(),
            window: u16::MAX,
            options: &[],
        }
    }
}

impl TcpFields<'_> {
    /// Bytes of the header, options and their padding included.
    pub fn header_len(&self) -> usize {
        let len = self.options.len();
        assert!(
            len <= tcp::OPTIONS_LEN_MAX,
            "a header has room for 40 bytes of options"
        );
        tcp::HEADER_LEN + len.next_multiple_of(4)
    }

    /// Writes the header to the beginning of `segment`, which ends with its payload, and the
    /// checksum of both, between the two `ends`.
    #[inline]
    pub fn emit(&self, ends: [IpAddr; 2], segment: &mut [u8]) {
        let header_len = self.header_len();
        let (header, rest) = segment
            .split_first_chunk_mut::<{ tcp::HEADER_LEN }>()
            .expect("the segment has room for the header");
        let words = [
            u32::from(self.source_port) << 16 | u32::from(self.destination_port),
            self.sequence,
            self.acknowledgement,
            (header_len as u32 / 4) << 28 | u32::from(self.flags.0) << 16 | u32::from(self.window),
            0,
        ];
        header.copy_from_slice(words.map(u32::to_be_bytes).as_flattened());
        fill_padded(&mut rest[..header_len - tcp::HEADER_LEN], self.options);
        Segment::new_unchecked(segment).fill_checksum(ends[0], ends[1]);
    }
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
            // Locally administered.
            link_addresses: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            tags: Vec::new(),
            ttl: 64,
            ecn: 0,
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

    /// Ethernet addresses; 02:00:00:00:00:01 and 02:00:00:00:00:02 if not set.
    pub fn with_link_addresses(mut self, source: [u8; 6], destination: [u8; 6]) -> Self {
        self.link_addresses = [source, destination];
        self
    }

    /// One more VLAN tag, inside those before it; `kind` is 0x8100, 0x88a8 or 0x9100.
    pub fn with_tag(mut self, kind: u16, id: u16) -> Self {
        self.tags.push((kind, id));
        self
    }

    /// Time to live or hop limit; 64 if not set.
    pub fn with_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Congestion notification, 2 bits; 0 (not capable) if not set. RFC 3168, 5.
    pub fn with_ecn(mut self, ecn: u8) -> Self {
        self.ecn = ecn & 3;
        self
    }

    /// The identification of the packet; 0 if not set, the lower 16 bits in IPv4.
    pub fn with_identification(mut self, identification: u32) -> Self {
        self.identification = identification;
        self
    }

    /// IPv4 options, at most 40 bytes; padded with end-of-list to a multiple of 4.
    pub fn with_options(mut self, options: &[u8]) -> Self {
        assert!(
            options.len() <= ipv4::OPTIONS_LEN_MAX,
            "a header has room for 40 bytes of options"
        );
        self.options = options.to_vec();
        self.options.resize(options.len().next_multiple_of(4), 0);
        self
    }

    /// One more IPv6 extension header of protocol number `kind`, after those before it. Its first
    /// byte, which names the next header, is filled in.
    pub fn with_extension(mut self, kind: u8, header: &[u8]) -> Self {
        self.extensions.push((kind, header.to_vec()));
        self
    }

    /// Bytes of the frame that [`emit_tcp`](Self::emit_tcp) writes.
    pub fn tcp_len(&self, fields: &TcpFields<'_>, payload_len: usize) -> usize {
        self.headers_len(None) + fields.header_len() + payload_len
    }

    /// Writes a frame with a TCP segment to the beginning of `buffer` and returns its length.
    /// Panics if `buffer` is shorter.
    pub fn emit_tcp(&self, fields: &TcpFields<'_>, payload: &[u8], buffer: &mut [u8]) -> usize {
        let segment_len = fields.header_len() + payload.len();
        let (segment, len) = self.emit_headers(PROTOCOL_TCP, segment_len, None, buffer);
        self.emit_segment(fields, payload, segment);
        len
    }

    /// Bytes of the frame that [`emit_udp`](Self::emit_udp) writes.
    pub fn udp_len(&self, payload_len: usize) -> usize {
        self.headers_len(None) + udp::HEADER_LEN + payload_len
    }

    /// Writes a frame with a UDP datagram from the first of `ports` to the second, to the beginning
    /// of `buffer`, and returns its length. Panics if `buffer` is shorter.
    pub fn emit_udp(&self, ports: [u16; 2], payload: &[u8], buffer: &mut [u8]) -> usize {
        let datagram_len = udp::HEADER_LEN + payload.len();
        let (datagram, len) = self.emit_headers(PROTOCOL_UDP, datagram_len, None, buffer);
        self.emit_datagram(ports, payload, datagram);
        len
    }

    /// A frame with a TCP segment.
    pub fn tcp(&self, fields: &TcpFields<'_>, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.tcp_len(fields, payload.len())];
        self.emit_tcp(fields, payload, &mut frame);
        frame
    }

    /// A frame with a UDP datagram.
    pub fn udp(&self, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.udp_len(payload.len())];
        self.emit_udp([source_port, destination_port], payload, &mut frame);
        frame
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
    pub fn tcp_segment(&self, fields: &TcpFields<'_>, payload: &[u8]) -> Vec<u8> {
        let mut segment = vec![0; fields.header_len() + payload.len()];
        self.emit_segment(fields, payload, &mut segment);
        segment
    }

    /// A UDP datagram with its checksum, without the headers before it. A length beyond 16 bits is
    /// written as 0.
    pub fn udp_datagram(&self, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; udp::HEADER_LEN + payload.len()];
        self.emit_datagram([source_port, destination_port], payload, &mut datagram);
        datagram
    }

    fn frame(&self, protocol: u8, payload: &[u8], position: Option<Position>) -> Vec<u8> {
        let mut frame = vec![0; self.headers_len(position) + payload.len()];
        let (packet_payload, _) = self.emit_headers(protocol, payload.len(), position, &mut frame);
        packet_payload.copy_from_slice(payload);
        frame
    }

    /// Fills `segment`.
    fn emit_segment(&self, fields: &TcpFields<'_>, payload: &[u8], segment: &mut [u8]) {
        segment[fields.header_len()..].copy_from_slice(payload);
        fields.emit([self.source, self.destination], segment);
    }

    /// Fills `datagram`.
    fn emit_datagram(&self, ports: [u16; 2], payload: &[u8], datagram: &mut [u8]) {
        let len = length(datagram.len());
        datagram[udp::HEADER_LEN..].copy_from_slice(payload);
        let mut datagram = Datagram::new_unchecked(datagram);
        datagram.set_source_port(ports[0]);
        datagram.set_destination_port(ports[1]);
        datagram.set_len(len);
        datagram.fill_checksum(self.source, self.destination);
    }

    fn headers_len(&self, position: Option<Position>) -> usize {
        let ip_len = match self.source.is_ipv4() {
            true => ipv4::HEADER_LEN + self.options.len(),
            false => ipv6::HEADER_LEN + self.extensions_len(position),
        };
        self.link_len() + ip_len
    }

    fn extensions_len(&self, position: Option<Position>) -> usize {
        let extensions = self.extensions.iter().map(|(_, header)| header.len());
        extensions.sum::<usize>() + position.map_or(0, |_| FRAGMENT_HEADER_LEN)
    }

    /// Writes all headers before a payload of `payload_len` bytes of `protocol`. Returns where that
    /// is to be written, and the length of the whole.
    fn emit_headers<'b>(
        &self,
        protocol: u8,
        payload_len: usize,
        position: Option<Position>,
        buffer: &'b mut [u8],
    ) -> (&'b mut [u8], usize) {
        let len = self.headers_len(position) + payload_len;
        let (link, packet) = buffer[..len].split_at_mut(self.link_len());
        self.emit_link(link);
        let payload = match self.source.is_ipv4() {
            true => self.emit_ipv4(protocol, position, packet),
            false => self.emit_ipv6(protocol, position, packet),
        };
        (payload, len)
    }

    /// Writes the header of a packet that fills `buffer`, and returns where its payload is to be
    /// written.
    fn emit_ipv4<'b>(
        &self,
        protocol: u8,
        position: Option<Position>,
        buffer: &'b mut [u8],
    ) -> &'b mut [u8] {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (self.source, self.destination) else {
            unreachable!("`new` takes addresses of one family");
        };
        let total_len = length(buffer.len());
        let (header, payload) = buffer.split_at_mut(ipv4::HEADER_LEN + self.options.len());
        let header_len = header.len();
        let mut packet = ipv4::Packet::new_unchecked(header);
        packet.set_header_len(header_len);
        packet.set_traffic_class(self.ecn);
        packet.set_total_len(total_len);
        packet.set_identification(self.identification as u16);
        let (offset, more) =
            position.map_or((0, false), |position| (position.offset, position.more));
        packet.set_fragment(offset, more);
        packet.set_ttl(self.ttl);
        packet.set_protocol(protocol);
        packet.set_source(source);
        packet.set_destination(destination);
        packet.options_mut().copy_from_slice(&self.options);
        packet.fill_checksum();
        payload
    }

    /// The same for IPv6, with its extension headers.
    fn emit_ipv6<'b>(
        &self,
        protocol: u8,
        position: Option<Position>,
        buffer: &'b mut [u8],
    ) -> &'b mut [u8] {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (self.source, self.destination) else {
            unreachable!("`new` takes addresses of one family");
        };
        let (header, mut rest) = buffer.split_at_mut(ipv6::HEADER_LEN);
        // What the last header is followed by, the one before it, and so on.
        let last = position.map_or(protocol, |_| extension::FRAGMENT);
        let next_of = |index: usize| self.extensions.get(index).map_or(last, |&(kind, _)| kind);
        let mut packet = ipv6::Packet::new_unchecked(header);
        packet.set_traffic_class(self.ecn);
        packet.set_payload_len(length(rest.len()));
        packet.set_next_header(next_of(0));
        packet.set_hop_limit(self.ttl);
        packet.set_source(source);
        packet.set_destination(destination);
        for (index, (_, bytes)) in self.extensions.iter().enumerate() {
            let header;
            (header, rest) = rest.split_at_mut(bytes.len());
            header.copy_from_slice(bytes);
            header[0] = next_of(index + 1);
        }
        if let Some(position) = position {
            let header;
            (header, rest) = rest.split_at_mut(FRAGMENT_HEADER_LEN);
            let mut header = FragmentHeader::new_unchecked(header);
            header.set_next_header(protocol);
            header.set_position(position.offset, position.more);
            header.set_identification(self.identification);
        }
        rest
    }

    fn link_len(&self) -> usize {
        let (len, has_tags) = match self.link_type {
            1 => (ethernet::HEADER_LEN, true),
            113 => (16, true),
            276 => (20, true),
            0 | 108 => (4, false),
            _ => (0, false),
        };
        len + if has_tags {
            TAG_LEN * self.tags.len()
        } else {
            0
        }
    }

    /// Fills `header`.
    fn emit_link(&self, header: &mut [u8]) {
        let ip_type = match self.source.is_ipv4() {
            true => ether_type::IPV4,
            false => ether_type::IPV6,
        };
        let type_of = |index: usize| self.tags.get(index).map_or(ip_type, |&(kind, _)| kind);
        // Linux's address families.
        let family = if self.source.is_ipv4() { 2 } else { 10 };
        let [[a, b, c, d, e, f], destination] = self.link_addresses;
        let [high, low] = type_of(0).to_be_bytes();
        match self.link_type {
            1 => {
                let mut frame = ethernet::Frame::new_unchecked(&mut *header);
                frame.set_destination(destination);
                frame.set_source(self.link_addresses[0]);
                frame.set_ether_type(type_of(0));
            }
            // Unicast to us, Ethernet, 6 bytes of address.
            113 => {
                header[..16].copy_from_slice(&[0, 0, 0, 1, 0, 6, a, b, c, d, e, f, 0, 0, high, low])
            }
            // Interface 1, Ethernet, unicast to us, 6 bytes of address.
            276 => header[..20].copy_from_slice(&[
                high, low, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, a, b, c, d, e, f, 0, 0,
            ]),
            // `NULL` in the byte order of x86.
            0 => header.copy_from_slice(&[family, 0, 0, 0]),
            108 => header.copy_from_slice(&[0, 0, 0, family]),
            _ => {}
        }
        let tags_at = header.len().saturating_sub(TAG_LEN * self.tags.len());
        if matches!(self.link_type, 1 | 113 | 276) {
            let tags = header[tags_at..].as_chunks_mut::<TAG_LEN>().0;
            for (index, (bytes, &(_, control))) in tags.iter_mut().zip(&self.tags).enumerate() {
                let mut tag = Tag::new_unchecked(bytes);
                tag.set_control(control);
                tag.set_ether_type(type_of(index + 1));
            }
        }
    }
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy)]
struct Position {
    offset: usize,
    more: bool,
}

fn length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}

/// Fills `field` with `options` and end-of-list.
#[inline]
fn fill_padded(field: &mut [u8], options: &[u8]) {
    /// Timestamps, padded: what nearly every segment has.
    const USUAL_LEN: usize = 12;
    if let Ok(options) = <[u8; USUAL_LEN]>::try_from(options)
        && field.len() == USUAL_LEN
    {
        field.copy_from_slice(&options);
        return;
    }
    let (begin, padding) = field.split_at_mut(options.len());
    begin.copy_from_slice(options);
    padding.fill(0);
}
