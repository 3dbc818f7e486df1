//! TCP and UDP headers.

use std::fmt;
use std::ops::BitOr;

use crate::dissect::Ip;
use crate::link::array;
use crate::{PROTOCOL_TCP, PROTOCOL_UDP, checksum};

/// A TCP header: RFC 9293, 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpHeader {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first payload byte; of the SYN if there is one.
    pub sequence: u32,
    /// The next sequence number that the sender expects; holds if ACK is set.
    pub acknowledgement: u32,
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
    pub kept: usize,
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
    pub kept: usize,
    /// The checksum covers the pseudo-header only: the rest was left to the network card.
    pub checksum_offloaded: bool,
    /// The checksum covers the whole datagram: it is none that is offloaded or left out, and the packet had all of it.
    pub checksum_verifiable: bool,
}

/// TCP's control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Begins a connection.
    pub const SYN: Self = Self(0x02);
    /// Aborts the connection.
    pub const RST: Self = Self(0x04);
    /// Hand the data over now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number holds.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer holds.
    pub const URG: Self = Self(0x20);
    /// Echo of congestion.
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether the segment opens a connection or answers one that does. A SYN that would also push, end or
    /// refuse is none that a stack sends: its header is damaged (seen in a public capture, where believing
    /// it would hide all that follows).
    pub fn opens(self) -> bool {
        self.contains(Self::SYN) && self.0 & (Self::PSH.0 | Self::FIN.0 | Self::RST.0) == 0
    }

    /// True if all bits of `flags` are set.
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        f.debug_set()
            .entries(
                (0..8)
                    .filter(|bit| self.0 & (1 << bit) != 0)
                    .map(|bit| names[bit]),
            )
            .finish()
    }
}

/// `kept` is what was kept of the packet's payload.
#[inline]
pub(crate) fn tcp(ip: &Ip, kept: &[u8]) -> Option<TcpHeader> {
    let header: &[u8; 20] = array(kept, 0)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < 20 {
        return None;
    }
    let payload_len = ip.payload_len.checked_sub(header_len)?;
    let checksum = u16::from_be_bytes([header[16], header[17]]);
    let payload = header_len.min(kept.len());
    Some(TcpHeader {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        sequence: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        acknowledgement: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        flags: TcpFlags(header[13]),
        window: u16::from_be_bytes([header[14], header[15]]),
        checksum,
        header_len,
        payload: ip.payload + payload,
        payload_len,
        kept: kept.len() - payload,
        checksum_offloaded: is_offloaded(ip, PROTOCOL_TCP, ip.payload_len, checksum),
    })
}

/// `kept` is what was kept of the packet's payload.
#[inline]
pub(crate) fn udp(ip: &Ip, kept: &[u8]) -> Option<UdpHeader> {
    let header: &[u8; 8] = array(kept, 0)?;
    let claimed = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let len = match claimed {
        // A jumbogram, or a frame that waits for segmentation by the network card: RFC 2675, 4.
        0 => ip.payload_len,
        len => len.min(ip.payload_len),
    };
    let payload_len = len.checked_sub(8)?;
    let checksum = u16::from_be_bytes([header[6], header[7]]);
    let checksum_offloaded = is_offloaded(ip, PROTOCOL_UDP, len, checksum);
    Some(UdpHeader {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        payload: ip.payload + 8,
        payload_len,
        kept: (kept.len() - 8).min(payload_len),
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
