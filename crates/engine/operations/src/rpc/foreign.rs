//! What connections carry that is not RPC in the clear: TLS, iWARP, encrypted SMB3, RoCEv2, sFlow.
//! Recognised by their first bytes, or TLS in the middle of a connection by records that follow
//! each other; named, counted and not read.
//!
//! Only the beginning of a connection is looked at: [`LOOKS`] pieces of its streams.

use lineside_account::Counter;
use lineside_flow::Transport;
use lineside_frame::Chunk;
use lineside_wire::{Direction, Endpoint};

use super::ids::SERVICES;

/// Pieces of a connection's streams that are looked at. Of a capture that begins in the middle, so
/// many hold the beginnings of several messages also where one takes twenty segments. A guess.
const LOOKS: u8 = 64;
/// Bytes of a TLS record's header, and the most that a record holds (RFC 8446 section 5.2, RFC 5246
/// section 6.2.3).
const HEADER: usize = 5;
const RECORD_MAX: u16 = 16_384 + 2_048;
/// Headers of TLS records in a row that random bytes do not make: each is one of 2^22. At a port of
/// RPC two are enough, since RPC would have a fragment of 350 MB there.
const HEADERS_MIN: [u8; 2] = [3, 2];
/// The ports of RoCEv2 and sFlow, as IANA registered them.
const ROCE_PORT: u16 = 4791;
const SFLOW_PORT: u16 = 6343;

/// What is not RPC in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// TLS where RPC is expected: after the probe of RFC 9289, or at a port of RPC.
    TlsOfRpc,
    /// TLS at another port.
    Tls,
    /// RDMA over TCP: RFC 5044.
    Iwarp,
    /// MS-SMB2, 2.2.41.
    SmbEncrypted,
    /// RDMA over UDP: InfiniBand architecture, annex A17.
    Roce,
    /// sFlow, versions 2 to 5.
    Sflow,
}

impl Foreign {
    /// The counter of its bytes.
    pub(super) fn bytes(self) -> Counter {
        match self {
            Self::TlsOfRpc => Counter::TlsBytes,
            Self::Tls => Counter::TlsOtherBytes,
            Self::Iwarp => Counter::IwarpBytes,
            Self::SmbEncrypted => Counter::SmbEncryptedBytes,
            Self::Roce => Counter::RoceBytes,
            Self::Sflow => Counter::SflowBytes,
        }
    }

    /// The counter of its connections, if they have one.
    pub(super) fn connections(self) -> Option<Counter> {
        match self {
            Self::TlsOfRpc => Some(Counter::ConnectionsTls),
            Self::Tls => Some(Counter::ConnectionsTlsOther),
            _ => None,
        }
    }

    pub(super) fn is_tls(self) -> bool {
        matches!(self, Self::TlsOfRpc | Self::Tls)
    }
}

/// What a look at the beginning of a connection has found so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    looks: u8,
    /// RPC is expected there.
    is_of_rpc: bool,
    chains: [Chain; 2],
}

/// Records of TLS that seem to follow each other in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Chain {
    headers: u8,
    /// Bytes until the next header.
    left: u16,
}

impl Look {
    /// At a connection with these ends, of which the one in `served` is the server's, if known.
    pub(super) fn new(ends: &[Endpoint; 2], served: Option<Direction>, is_forced: bool) -> Self {
        let serves = |end: &Endpoint| SERVICES.contains(&end.port);
        let is_of_rpc = is_forced
            || match served {
                Some(direction) => serves(&ends[direction]),
                None => ends.iter().any(serves),
            };
        Self {
            looks: LOOKS,
            is_of_rpc,
            chains: Default::default(),
        }
    }

    /// Looks at the next piece of a stream; `None` once enough was seen.
    pub(super) fn on_stream(
        &mut self,
        direction: Direction,
        after_syn: bool,
        chunk: &Chunk<'_>,
    ) -> Option<Result<Foreign, Self>> {
        let bytes = match chunk.missing() {
            Some(_) => &[],
            None => chunk.bytes(),
        };
        self.looks = self.looks.checked_sub(1)?;
        let chain = &mut self.chains[direction.index()];
        match bytes {
            [] => *chain = Chain::default(),
            _ if after_syn && is_hello(bytes) => return Some(Ok(self.tls())),
            _ if after_syn && is_iwarp(bytes) => return Some(Ok(Foreign::Iwarp)),
            // NetBIOS's length, then the protocol's identifier.
            [0, _, _, _, 0xfd, b'S', b'M', b'B', ..] => return Some(Ok(Foreign::SmbEncrypted)),
            // In the clear; it may go on encrypted.
            [0, _, _, _, 0xfe, b'S', b'M', b'B', ..] => self.looks = LOOKS,
            _ => {
                chain.follow(bytes);
                let headers = self.chains[0].headers + self.chains[1].headers;
                if headers >= HEADERS_MIN[usize::from(self.is_of_rpc)] {
                    return Some(Ok(self.tls()));
                }
            }
        }
        Some(Err(*self))
    }

    fn tls(&self) -> Foreign {
        match self.is_of_rpc {
            true => Foreign::TlsOfRpc,
            false => Foreign::Tls,
        }
    }
}

impl Chain {
    /// Goes from header to header. What follows a piece that held none begins anew with the next
    /// one.
    fn follow(&mut self, bytes: &[u8]) {
        let mut at = usize::from(self.left);
        while at < bytes.len() {
            let header = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEADER>);
            let Some(len) = header.and_then(record_len) else {
                *self = Self::default();
                return;
            };
            self.headers = (self.headers + 1).min(HEADERS_MIN[0]);
            at += HEADER + usize::from(len);
        }
        self.left = (at - bytes.len()) as u16;
    }
}

/// The length of the record that this may be the header of.
fn record_len(header: &[u8; HEADER]) -> Option<u16> {
    let [kind, major, minor, high, low] = *header;
    let len = u16::from_be_bytes([high, low]);
    let fits = matches!(kind, 20..=23) && major == 3 && (1..=4).contains(&minor);
    (fits && (1..=RECORD_MAX).contains(&len)).then_some(len)
}

/// A record of a handshake with a hello of client or server in it: RFC 8446 section 4.
fn is_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 1..=4, _, _, 1 | 2, 0, _, _, 3, ..])
}

/// RFC 5044 section 7.1.
fn is_iwarp(bytes: &[u8]) -> bool {
    bytes.starts_with(b"MPA ID Req Frame") || bytes.starts_with(b"MPA ID Rep Frame")
}

/// What a datagram to such a port is, if it looks like that.
pub(super) fn of_datagram(
    ends: &[Endpoint; 2],
    direction: Direction,
    bytes: &[u8],
) -> Option<Foreign> {
    match (ends[direction.opposite()].port, bytes) {
        // The transport header's version is 0 and the partition the default one, as RoCE has it.
        (ROCE_PORT, [_, flags, 0xff | 0x7f, 0xff, ..])
            if flags & 0x0f == 0 && bytes.len() >= 12 =>
        {
            Some(Foreign::Roce)
        }
        // The version, and the kind of the agent's address.
        (SFLOW_PORT, [0, 0, 0, 2 | 4 | 5, 0, 0, 0, 1 | 2, ..]) if bytes.len() >= 28 => {
            Some(Foreign::Sflow)
        }
        _ => None,
    }
}

/// Whether datagrams between these ends are looked at.
pub(super) fn may_be_foreign(transport: Transport, ends: &[Endpoint; 2]) -> bool {
    let is_known = |end: &Endpoint| matches!(end.port, ROCE_PORT | SFLOW_PORT);
    transport == Transport::Tcp || ends.iter().any(is_known)
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;

    fn look(port: u16) -> Look {
        let end = |port| Endpoint {
            address: [10, 0, 0, 1].into(),
            port,
        };
        Look::new(&[end(40_000), end(port)], Some(Direction::Reverse), false)
    }

    fn seen(port: u16, after_syn: bool, pieces: &[&[u8]]) -> Option<Foreign> {
        let mut look = look(port);
        pieces.iter().enumerate().find_map(|(index, piece)| {
            let frame = Frame::copied(piece, Descriptor::default()).share();
            let chunk = Chunk::of_frame(&frame, 0, piece.len());
            let found = look.on_stream(Direction::Forward, after_syn && index == 0, &chunk);
            found.and_then(Result::ok)
        })
    }

    #[test]
    fn a_hello_or_records_in_a_row_are_tls() {
        let hello = [22, 3, 1, 0, 9, 1, 0, 0, 5, 3, 3, 0, 0, 0];
        assert_eq!(seen(443, true, &[&hello]), Some(Foreign::Tls));
        assert_eq!(seen(2049, true, &[&hello]), Some(Foreign::TlsOfRpc));
        assert_eq!(seen(2049, false, &[&hello]), None);
        let record = [23, 3, 3, 0, 2, 7, 7];
        let records = [record; 3].concat();
        assert_eq!(seen(443, false, &[&records]), Some(Foreign::Tls));
        assert_eq!(seen(443, false, &[&records[..14]]), None);
        assert_eq!(
            seen(2049, false, &[&records[..14]]),
            Some(Foreign::TlsOfRpc)
        );
        // Wherever segments cut what is in the records.
        for cut in [5, 6, 7] {
            let pieces = [&records[..cut], &records[cut..]];
            assert_eq!(seen(443, false, &pieces), Some(Foreign::Tls), "{cut}");
        }
        // A length that no record has; a piece that begins in the middle; a record mark.
        assert_eq!(
            seen(
                2049,
                false,
                &[&[23, 3, 3, 0xff, 0xff, 1], &[23, 3, 3, 0xff, 0xff]]
            ),
            None
        );
        assert_eq!(
            seen(443, false, &[&records[1..], &[0x80, 0, 0, 40, 1, 2, 3, 4]]),
            None
        );
    }

    #[test]
    fn every_beginning_is_looked_at_within_bounds() {
        let hello = [22, 3, 1, 0, 9, 1, 0, 0, 5, 3, 3, 0, 0, 0];
        let smb = [0, 0, 0, 9, 0xfd, b'S', b'M', b'B', 0];
        for bytes in [&hello[..], &smb, b"MPA ID Req Frame"] {
            for len in 0..bytes.len() {
                seen(2049, true, &[&bytes[..len], bytes]);
            }
            assert!(seen(2049, true, &[bytes]).is_some());
        }
        let ends = [4791, 6343].map(|port| Endpoint {
            address: [10, 0, 0, 1].into(),
            port,
        });
        let sample = [&[0, 0, 0, 5, 0, 0, 0, 1][..], &[0; 20]].concat();
        let bth = [4, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1];
        for len in 0..=sample.len() {
            let is_whole = len == sample.len();
            let found = of_datagram(&ends, Direction::Forward, &sample[..len]);
            assert_eq!(found, is_whole.then_some(Foreign::Sflow));
        }
        for len in 0..=bth.len() {
            let is_whole = len == bth.len();
            let found = of_datagram(&ends, Direction::Reverse, &bth[..len]);
            assert_eq!(found, is_whole.then_some(Foreign::Roce));
        }
    }
}
