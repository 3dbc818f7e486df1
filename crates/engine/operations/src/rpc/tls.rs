//! RPC with TLS (RFC 9289): recognised by its probe, a NULL call of flavor AUTH_TLS, by the
//! server's answer, and by the handshake that follows between two records. What TLS holds is not
//! read: its records are counted.

use lineside_frame::Chunk;

use super::foreign::{Foreign, Look};

/// Bytes of a TLS record's header (RFC 8446 section 5.1): type, version, length.
const HEADER: usize = 5;
const HANDSHAKE: u8 = 22;

/// How far a connection is on its way to TLS (RFC 9289 section 4.1), or to something else that is
/// not RPC in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// It may be anything.
    Looking(Look),
    /// It carries this, which is not read.
    Foreign(Foreign),
    /// The call with this key in the connection's pairs asked for it.
    Asked(u64),
    /// The server agreed, as far as its answer was seen.
    Agreed,
}

/// The TLS records of one direction.
#[derive(Debug, Default)]
pub(super) struct TlsRecords {
    header: [u8; HEADER],
    header_len: usize,
    /// Bytes left of the record at hand.
    left: usize,
    /// A hole took a header: where records begin is not known any more.
    is_lost: bool,
}

/// Whether bytes between two records are the first of a handshake. As a record mark they would be a
/// fragment of 350 MB.
pub(super) fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, 3, 1..=4, ..])
}

impl TlsRecords {
    /// Takes the next bytes or the next hole; how many records begin in them.
    pub(super) fn on_stream(&mut self, chunk: &Chunk<'_>) -> u64 {
        let mut records = 0;
        let mut rest = *chunk;
        while !rest.is_empty() && !self.is_lost {
            let inside = self.left.min(rest.len());
            self.left -= inside;
            rest = rest.from(inside);
            if rest.is_empty() {
                break;
            }
            if rest.missing().is_some() {
                self.is_lost = true;
                break;
            }
            let take = (HEADER - self.header_len).min(rest.len());
            self.header[self.header_len..self.header_len + take]
                .copy_from_slice(&rest.bytes()[..take]);
            self.header_len += take;
            rest = rest.from(take);
            if self.header_len == HEADER {
                self.header_len = 0;
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                records += 1;
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;

    #[test]
    fn records_count_once_wherever_segments_cut_them() {
        let records = [
            &[22, 3, 1, 0, 2, 8, 8][..],
            &[23, 3, 3, 0, 0],
            &[23, 3, 3, 0, 1, 9],
        ];
        let frame = Frame::copied(&records.concat(), Descriptor::default()).share();
        let len = frame.bytes().len();
        for first in 0..=len {
            for second in first..=len {
                let mut tls = TlsRecords::default();
                let parts = [0..first, first..second, second..len];
                let counts = parts.map(|part| {
                    let chunk = Chunk::of_frame(&frame, part.start, part.len());
                    tls.on_stream(&chunk)
                });
                assert_eq!(counts.iter().sum::<u64>(), 3, "cut at {first} and {second}");
            }
        }
    }
}
