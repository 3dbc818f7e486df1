//! Heads that wait for a batch, and the columns that they become.

use std::fmt::Write as _;
use std::net::IpAddr;

use lineside_wire::{Dissected, PROTOCOL_TCP, PROTOCOL_UDP};

/// The part of a head that programs get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) time_ns: Option<i64>,
    pub(super) place: u16,
    pub(super) wire_bytes: u32,
    pub(super) captured_bytes: u32,
    /// Sender, receiver, protocol.
    pub(super) ip: Option<(IpAddr, IpAddr, u8)>,
    pub(super) ports: Option<Ports>,
    pub(super) tcp: Option<Tcp>,
    /// Where its bytes end.
    bytes_end: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) payload_bytes: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tcp {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
}

/// Heads of a batch.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// The first bytes of all of them.
    bytes: Vec<u8>,
}

impl Rows {
    /// Adds a head, with these of its bytes.
    pub(super) fn push(
        &mut self,
        (time_ns, place): (Option<i64>, u16),
        (wire_bytes, captured_bytes): (u32, u32),
        headers: &Dissected,
        bytes: &[u8],
    ) {
        let (ip, ports, tcp) = match headers {
            Dissected::Tcp(ip, tcp) => (
                Some((ip.source, ip.destination, PROTOCOL_TCP)),
                Some(Ports {
                    source: tcp.source_port,
                    destination: tcp.destination_port,
                    payload_bytes: tcp.payload_len as u32,
                }),
                Some(Tcp {
                    sequence: tcp.sequence.0,
                    acknowledgement: tcp.acknowledgement.0,
                    flags: tcp.flags.0,
                    window: tcp.window,
                }),
            ),
            Dissected::Udp(ip, udp) => (
                Some((ip.source, ip.destination, PROTOCOL_UDP)),
                Some(Ports {
                    source: udp.source_port,
                    destination: udp.destination_port,
                    payload_bytes: udp.payload_len as u32,
                }),
                None,
            ),
            Dissected::Fragment(ip, fragment) => (
                Some((ip.source, ip.destination, fragment.protocol)),
                None,
                None,
            ),
            _ => (None, None, None),
        };
        self.bytes.extend_from_slice(bytes);
        self.rows.push(Row {
            time_ns,
            place,
            wire_bytes,
            captured_bytes,
            ip,
            ports,
            tcp,
            bytes_end: self.bytes.len(),
        });
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
    }

    /// Whether the first and the last head lie so far apart.
    pub(super) fn spans(&self, ns: i64) -> bool {
        let mut times = self.rows.iter().filter_map(|row| row.time_ns);
        let first = times.next();
        let last = self.rows.last().and_then(|row| row.time_ns);
        first
            .zip(last)
            .is_some_and(|(first, last)| last.saturating_sub(first) >= ns)
    }

    /// The bytes of a row.
    fn bytes_of(&self, at: usize) -> &[u8] {
        let start = at
            .checked_sub(1)
            .map_or(0, |before| self.rows[before].bytes_end);
        &self.bytes[start..self.rows[at].bytes_end]
    }
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int32,
    Int64,
    Text,
    Bytes,
}

/// A column that programs are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Time,
    Port,
    Point,
    WireBytes,
    CapturedBytes,
    SourceAddress,
    DestinationAddress,
    SourcePort,
    DestinationPort,
    Transport,
    TcpSequence,
    TcpAcknowledgement,
    TcpFlags,
    TcpWindow,
    PayloadBytes,
    Bytes,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    Number(i64),
    Text(&'a str),
    Address(IpAddr),
    Protocol(u8),
    Bytes(&'a [u8]),
}

/// Every column, the bytes last: they are asked for.
pub(super) const COLUMNS: [(&str, Kind, Column); 16] = [
    ("time_ns", Kind::Int64, Column::Time),
    ("port", Kind::Text, Column::Port),
    ("point", Kind::Text, Column::Point),
    ("wire_bytes", Kind::Int64, Column::WireBytes),
    ("captured_bytes", Kind::Int64, Column::CapturedBytes),
    ("source_address", Kind::Text, Column::SourceAddress),
    (
        "destination_address",
        Kind::Text,
        Column::DestinationAddress,
    ),
    ("source_port", Kind::Int32, Column::SourcePort),
    ("destination_port", Kind::Int32, Column::DestinationPort),
    ("transport", Kind::Text, Column::Transport),
    ("tcp_sequence", Kind::Int64, Column::TcpSequence),
    (
        "tcp_acknowledgement",
        Kind::Int64,
        Column::TcpAcknowledgement,
    ),
    ("tcp_flags", Kind::Int32, Column::TcpFlags),
    ("tcp_window", Kind::Int32, Column::TcpWindow),
    ("payload_bytes", Kind::Int64, Column::PayloadBytes),
    ("bytes", Kind::Bytes, Column::Bytes),
];

/// The columns of a run: with bytes or without.
pub(super) fn columns(has_bytes: bool) -> &'static [(&'static str, Kind, Column)] {
    &COLUMNS[..COLUMNS.len() - usize::from(!has_bytes)]
}

/// The names of places, by their numbers: ports and points.
pub(super) type Places<'a> = &'a [(String, &'static str)];

impl Rows {
    /// The value of a column in a row.
    #[inline]
    pub(super) fn cell<'a>(
        &'a self,
        column: Column,
        at: usize,
        places: Places<'a>,
    ) -> Option<Cell<'a>> {
        let row = &self.rows[at];
        let place = || places.get(usize::from(row.place));
        let number = |value: u32| Cell::Number(value.into());
        Some(match column {
            Column::Time => Cell::Number(row.time_ns?),
            Column::Port => Cell::Text(&place()?.0),
            Column::Point => Cell::Text(place()?.1),
            Column::WireBytes => number(row.wire_bytes),
            Column::CapturedBytes => number(row.captured_bytes),
            Column::SourceAddress => Cell::Address(row.ip?.0),
            Column::DestinationAddress => Cell::Address(row.ip?.1),
            Column::SourcePort => number(row.ports?.source.into()),
            Column::DestinationPort => number(row.ports?.destination.into()),
            Column::Transport => match row.ip?.2 {
                PROTOCOL_TCP => Cell::Text("tcp"),
                PROTOCOL_UDP => Cell::Text("udp"),
                other => Cell::Protocol(other),
            },
            Column::TcpSequence => number(row.tcp?.sequence),
            Column::TcpAcknowledgement => number(row.tcp?.acknowledgement),
            Column::TcpFlags => number(row.tcp?.flags.into()),
            Column::TcpWindow => number(row.tcp?.window.into()),
            Column::PayloadBytes => number(row.ports?.payload_bytes),
            Column::Bytes => Cell::Bytes(self.bytes_of(at)),
        })
    }
}

impl Cell<'_> {
    /// Appends it as text; bytes as they are.
    #[inline]
    pub(super) fn put_text(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Number(value) => put_number(value, out),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Address(IpAddr::V4(address)) => {
                // Each octet with a dot, of which the last one goes again.
                let (mut text, mut len) = ([0; 16], 0);
                for octet in address.octets() {
                    let (digits, count) = &OCTETS[usize::from(octet)];
                    text[len..len + 4].copy_from_slice(digits);
                    len += count + 1;
                }
                out.extend_from_slice(&text[..len - 1]);
            }
            Self::Address(IpAddr::V6(address)) => {
                let mut text = String::new();
                let _ = write!(text, "{address}");
                out.extend_from_slice(text.as_bytes());
            }
            Self::Protocol(number) => put_number(number.into(), out),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// The digits of each octet and a dot, and how many digits they are.
const OCTETS: [([u8; 4], usize); 256] = {
    let mut octets = [([b'.'; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let count = if octet < 10 {
            1
        } else if octet < 100 {
            2
        } else {
            3
        };
        let (mut place, mut left) = (count, octet);
        while place > 0 {
            place -= 1;
            octets[octet].0[place] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        octets[octet].1 = count;
        octet += 1;
    }
    octets
};

/// Appends a decimal number.
#[inline]
pub(super) fn put_number(value: i64, out: &mut Vec<u8>) {
    // The digits of 2^63 and a sign.
    let (mut digits, mut start) = ([0; 20], 20);
    let mut left = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}
