//! What a connection does not take: a mirror's copies, and damaged segments.

use lineside_account::Counters;
use lineside_wire::{Direction, HeaderChecksum, Ip, TcpHeader};

use crate::connection::Connection;
use crate::context::Context;
use crate::damage::Covered;
use crate::origin::Origin;
use crate::sink::StreamSink;

impl Connection {
    /// Whether a segment is a mirror's copy of an earlier one. If so, the whole connection is
    /// watched from now on.
    #[inline(never)]
    pub(crate) fn is_copy<S: StreamSink>(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> bool {
        let now = context.shared.now;
        let duplicates = &mut context.shared.duplicates;
        let is_copy = now <= self.watched_until_ns
            && duplicates.has_segment(now, origin, ip, tcp, context.counters);
        if is_copy {
            self.watched_until_ns = i64::MAX;
        }
        is_copy
    }

    /// Whether a whole segment is damaged.
    #[inline]
    pub(crate) fn is_damaged<S: StreamSink>(
        &mut self,
        direction: Direction,
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> bool {
        let is_cut = ip.captured_len < ip.payload_len && !matches!(origin, Origin::Whole(_));
        let has_wrong_header = ip.checksum == HeaderChecksum::Wrong;
        if self.checksums[direction].has_damaged_header(has_wrong_header) {
            return true;
        }
        if self.checksums[direction].are_offloaded() || is_cut {
            return false;
        }
        self.has_wrong_checksum(direction, ip, tcp, origin, context.counters)
    }

    #[inline(never)]
    fn has_wrong_checksum(
        &mut self,
        direction: Direction,
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        counters: &mut Counters,
    ) -> bool {
        let assembled;
        let bytes = match origin {
            Origin::Frame(frame) => &frame.bytes()[ip.payload..][..ip.payload_len],
            Origin::Whole(whole) => match whole.bytes(ip.payload, ip.payload_len) {
                Some(bytes) => {
                    assembled = bytes;
                    &assembled
                }
                None => return false,
            },
            Origin::Known(..) => return false,
        };
        let packet = Covered {
            pseudo_header_sum: ip.pseudo_header_sum(bytes.len()),
            bytes,
            payload_len: tcp.payload_len,
            looks_offloaded: tcp.checksum_offloaded,
        };
        self.checksums[direction].is_damaged(&packet, counters)
    }
}
