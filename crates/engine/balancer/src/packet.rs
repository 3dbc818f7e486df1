//! What is read of a frame before it is rewritten.

use std::net::{IpAddr, Ipv6Addr};

use lineside_wire::{
    Dissected, Fragment, HeaderChecksum, Ip, PROTOCOL_TCP, PROTOCOL_UDP, PlainSegment, TcpHeader,
    UdpHeader, dissect_outermost, ethernet, ipv4, ipv6, tcp, udp,
};

use crate::counters::Outcome;
use crate::settings::Transport;

const ETHERNET: u16 = 1;
/// Where the packet begins: frames with tags are not read.
pub(crate) const IP_AT: usize = ethernet::HEADER_LEN;

/// An address and a port number.
pub(crate) type End = (IpAddr, u16);

/// A TCP segment, a UDP datagram, or a fragment of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) transport: Transport,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Source and destination; of a later fragment 0.
    pub(crate) ports: [u16; 2],
    pub(crate) hop_count: u8,
    /// Where the transport header is, or a later fragment's part.
    pub(crate) transport_at: usize,
    /// Where the packet ends; Ethernet's padding is behind it.
    pub(crate) end: usize,
    /// The checksum may cover the pseudo-header only.
    pub(crate) may_be_partial: bool,
    /// The IP header's was left to a network card.
    pub(crate) lacks_ip_checksum: bool,
    pub(crate) tcp: Option<TcpHeader>,
    pub(crate) fragment: Option<Fragment>,
}

impl Packet {
    /// Reads the packet of a frame without tags.
    #[inline]
    pub(crate) fn read(bytes: &[u8], wire_len: usize) -> Result<Self, Outcome> {
        if let Some(plain) = PlainSegment::new(ETHERNET, bytes, wire_len) {
            let (ip, tcp) = plain.headers();
            return Self::of_tcp(&ip, tcp, bytes);
        }
        match dissect_outermost(ETHERNET, bytes, wire_len) {
            Dissected::Tcp(ip, tcp) => Self::of_tcp(&ip, tcp, bytes),
            Dissected::Udp(ip, udp) => Self::of_udp(&ip, udp, bytes),
            Dissected::Fragment(ip, fragment) => Self::of_fragment(&ip, fragment, bytes),
            Dissected::NotIp | Dissected::UnknownLink => Err(Outcome::NotIp),
            Dissected::IpUnread | Dissected::Esp | Dissected::OtherProtocol => {
                Err(Outcome::OtherProtocol)
            }
            Dissected::TooDeep => Err(Outcome::Tagged),
            _ => Err(Outcome::Malformed),
        }
    }

    fn of(ip: &Ip, transport: Transport, bytes: &[u8]) -> Result<Self, Outcome> {
        match ip.checksum {
            _ if ip.captured_len < ip.payload_len => return Err(Outcome::Cut),
            HeaderChecksum::Wrong => return Err(Outcome::WrongChecksum),
            HeaderChecksum::Unknown => return Err(Outcome::Cut),
            _ => {}
        }
        // A longer packet has lost its end, however its frame came to be shorter.
        if end_of(bytes) != ip.payload + ip.payload_len {
            return Err(Outcome::Malformed);
        }
        // A routing header with hops left would take it elsewhere first: no service of ours.
        if let IpAddr::V6(destination) = ip.destination
            && Some(destination) != ipv6_destination(bytes)
        {
            return Err(Outcome::NotOurs);
        }
        Ok(Self {
            transport,
            source: ip.source,
            destination: ip.destination,
            ports: [0; 2],
            hop_count: ip.ttl,
            transport_at: ip.payload,
            end: ip.payload + ip.payload_len,
            may_be_partial: false,
            lacks_ip_checksum: ip.checksum == HeaderChecksum::Offloaded,
            tcp: None,
            fragment: None,
        })
    }

    #[inline]
    fn of_tcp(ip: &Ip, tcp: TcpHeader, bytes: &[u8]) -> Result<Self, Outcome> {
        Ok(Self {
            ports: [tcp.source_port, tcp.destination_port],
            may_be_partial: tcp.checksum_offloaded,
            tcp: Some(tcp),
            ..Self::of(ip, Transport::Tcp, bytes)?
        })
    }

    fn of_udp(ip: &Ip, udp: UdpHeader, bytes: &[u8]) -> Result<Self, Outcome> {
        Ok(Self {
            ports: [udp.source_port, udp.destination_port],
            may_be_partial: udp.checksum_offloaded,
            ..Self::of(ip, Transport::Udp, bytes)?
        })
    }

    /// A first fragment has the ports, and is read as a datagram is; TCP's flags must be there too.
    fn of_fragment(ip: &Ip, fragment: Fragment, bytes: &[u8]) -> Result<Self, Outcome> {
        let (transport, header_len) = match fragment.protocol {
            PROTOCOL_TCP => (Transport::Tcp, tcp::HEADER_LEN),
            PROTOCOL_UDP => (Transport::Udp, udp::HEADER_LEN),
            _ => return Err(Outcome::OtherProtocol),
        };
        let packet = Self {
            fragment: Some(fragment),
            ..Self::of(ip, transport, bytes)?
        };
        if fragment.offset > 0 {
            return Ok(packet);
        }
        let part = &bytes[packet.transport_at..packet.end];
        if part.len() < header_len {
            // RFC 3128: a header in pieces hides from whoever looks at the first.
            return Err(Outcome::Malformed);
        }
        let port = |at: usize| u16::from_be_bytes([part[at], part[at + 1]]);
        Ok(Self {
            ports: [port(0), port(2)],
            ..packet
        })
    }

    /// Who sends it.
    #[inline]
    pub(crate) fn source(&self) -> End {
        (self.source, self.ports[0])
    }

    /// To whom.
    #[inline]
    pub(crate) fn destination(&self) -> End {
        (self.destination, self.ports[1])
    }

    /// Where the headers of a datagram end; those of a later fragment are IP's.
    pub(crate) fn datagram_at(&self) -> usize {
        match self.fragment {
            Some(fragment) if fragment.offset > 0 => self.transport_at,
            _ => self.transport_at + udp::HEADER_LEN,
        }
    }

    /// Bytes of the packet with its IP header.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - IP_AT
    }
}

/// Whether a router may not cut the packet of a frame: IPv6, or as its sender says.
pub(crate) fn is_uncut(bytes: &[u8]) -> bool {
    bytes[IP_AT] >> 4 == 6 || ipv4::Packet::new_unchecked(&bytes[IP_AT..]).dont_fragment()
}

/// Who sends a packet, and to whom; its header was read.
pub(crate) fn ends_of(packet: &[u8]) -> [IpAddr; 2] {
    match packet[0] >> 4 {
        6 => {
            let packet = ipv6::Packet::new_unchecked(packet);
            [packet.source().into(), packet.destination().into()]
        }
        _ => {
            let packet = ipv4::Packet::new_unchecked(packet);
            [packet.source().into(), packet.destination().into()]
        }
    }
}

/// Where the packet of a frame ends, as its header says; the header was read.
pub(crate) fn end_of(bytes: &[u8]) -> usize {
    let packet = &bytes[IP_AT..];
    IP_AT
        + match packet[0] >> 4 {
            6 => ipv6::HEADER_LEN + ipv6::Packet::new_unchecked(packet).payload_len(),
            _ => ipv4::Packet::new_unchecked(packet).total_len(),
        }
}

fn ipv6_destination(bytes: &[u8]) -> Option<Ipv6Addr> {
    let packet = bytes.get(IP_AT..IP_AT + ipv6::HEADER_LEN)?;
    Some(ipv6::Packet::new_unchecked(packet).destination())
}
