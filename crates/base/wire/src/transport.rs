//! What is known of a TCP or UDP header, also where a snap length cut the rest of its packet.

use crate::bytes::array;
use crate::ip::Ip;
use crate::tcp::{self, Segment, TcpFlags};
use crate::udp::{self, Datagram};
use crate::{PROTOCOL_TCP, PROTOCOL_UDP, SeqNumber, checksum};

/// A TCP header: RFC 9293, 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpHeader {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first payload byte; of the SYN if there is one.
    pub sequence: SeqNumber,
    /// The next sequence number that the sender expects; holds if ACK is set.
    pub acknowledgement: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window as sent, without its scale.
    pub window: u16,
    /// The checksum as sent, right or not.
    pub checksum: u16,
    /// Bytes of the header, options included.
    pub header_len: usize,
    /// Offset of the payload in the bytes of the frame.
    pub payload: usize,
    /// Bytes of the payload on the wire.
    pub payload_len: usize,
    /// How many of them a snap length left.
    pub captured_len: usize,
    /// The checksum covers the pseudo-header only: the rest was left to the network card.
    pub checksum_offloaded: bool,
}

/// A UDP header: RFC 768.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeader {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Offset of the payload in the bytes of the frame.
    pub payload: usize,
    /// Bytes of the payload on the wire, by the length field, but never more than the packet had.
    pub payload_len: usize,
    /// How many of them a snap length left.
    pub captured_len: usize,
    /// The checksum covers the pseudo-header only: the rest was left to the network card.
    pub checksum_offloaded: bool,
    /// The checksum covers the whole datagram: it is none that is offloaded or left out, and the
    /// packet had all of it.
    pub checksum_verifiable: bool,
}

/// `captured` is what a snap length left of the packet's payload.
#[inline]
pub(crate) fn tcp_header(ip: &Ip, captured: &[u8]) -> Option<TcpHeader> {
    let segment = Segment::new_unchecked(array::<{ tcp::HEADER_LEN }>(captured, 0)?);
    let header_len = segment.header_len();
    if header_len < tcp::HEADER_LEN {
        return None;
    }
    let payload_len = ip.payload_len.checked_sub(header_len)?;
    let checksum = segment.checksum();
    let payload = header_len.min(captured.len());
    Some(TcpHeader {
        source_port: segment.source_port(),
        destination_port: segment.destination_port(),
        sequence: segment.sequence(),
        acknowledgement: segment.acknowledgement(),
        flags: segment.flags(),
        window: segment.window(),
        checksum,
        header_len,
        payload: ip.payload + payload,
        payload_len,
        captured_len: captured.len() - payload,
        checksum_offloaded: is_offloaded(ip, PROTOCOL_TCP, ip.payload_len, checksum),
    })
}

/// `captured` is what a snap length left of the packet's payload.
#[inline]
pub(crate) fn udp_header(ip: &Ip, captured: &[u8]) -> Option<UdpHeader> {
    let datagram = Datagram::new_unchecked(array::<{ udp::HEADER_LEN }>(captured, 0)?);
    let claimed = datagram.len();
    let len = match claimed {
        // A jumbogram, or a frame that waits for segmentation by the network card: RFC 2675, 4.
        0 => ip.payload_len,
        len => len.min(ip.payload_len),
    };
    let payload_len = len.checked_sub(udp::HEADER_LEN)?;
    let checksum = datagram.checksum();
    let checksum_offloaded = is_offloaded(ip, PROTOCOL_UDP, len, checksum);
    Some(UdpHeader {
        source_port: datagram.source_port(),
        destination_port: datagram.destination_port(),
        payload: ip.payload + udp::HEADER_LEN,
        payload_len,
        captured_len: (captured.len() - udp::HEADER_LEN).min(payload_len),
        checksum_offloaded,
        checksum_verifiable: checksum != 0 && !checksum_offloaded && claimed == len,
    })
}

/// Linux leaves the sum of the pseudo-header in the field, for the network card to go on from. A
/// finished checksum looks the same once in 65,536 times.
#[inline]
fn is_offloaded(ip: &Ip, protocol: u8, len: usize, field: u16) -> bool {
    field == checksum::pseudo_header_sum(ip.source, ip.destination, protocol, len)
}
