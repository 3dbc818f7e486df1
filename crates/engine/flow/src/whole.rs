//! A packet put together from fragments.

use lineside_account::{Counter, Counters};
use lineside_frame::{Cause, Chunk, Descriptor, Range};
use lineside_wire::{Dissected, Ip, Layers, PROTOCOL_UDP, checksum};

/// More than the headers of a packet take, also in 8 tunnels, each with 14 bytes of Ethernet, 60 of
/// IP and 16 of its own, and TCP's 60.
pub(crate) const HEADERS_MAX: usize = 1024;
/// RFC 768.
const UDP_HEADER_LEN: usize = 8;

/// The payload of a fragmented packet, in order, with holes for what never came.
#[derive(Debug)]
pub struct Whole {
    /// The header of a fragment.
    pub(crate) ip: Ip,
    pub(crate) layers: Layers,
    pub(crate) ranges: Vec<Range>,
    /// Its first bytes up to a hole, of as many fragments as [`HEADERS_MAX`] takes; empty if the
    /// first one has this many.
    pub(crate) head: Vec<u8>,
    pub(crate) complete: bool,
}

impl Whole {
    /// What the packet is, by its transport header; `None` if its beginning never came.
    pub fn dissected(&self) -> Option<Dissected> {
        let (ip, first) = (&self.ip, self.first_bytes());
        (!first.is_empty())
            .then(|| lineside_wire::dissect_assembled(ip, ip.protocol, first, self.total()))
    }

    /// Its headers and perhaps more; nothing if its beginning never came.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        match &self.head[..] {
            [] => self.ranges.first().map_or(&[], Range::bytes),
            head => head,
        }
    }

    /// The descriptor of the first fragment's frame; there is at least one fragment.
    pub(crate) fn descriptor(&self) -> &Descriptor {
        let first = self.ranges.first();
        &first.expect("a fragment is not empty").descriptor
    }

    /// Whether it is a datagram whose checksum does not match. Identifications come round within
    /// seconds, so that a fragment may take the place of a lost one of another datagram (RFC 4963).
    fn is_garbled(&self) -> bool {
        let Some(Dissected::Udp(ip, udp)) = self.dissected() else {
            return false;
        };
        let len = UDP_HEADER_LEN + udp.payload_len;
        let chunks = self.chunks(ip.payload, len);
        if !udp.checksum_verifiable || chunks.iter().any(|chunk| chunk.missing().is_some()) {
            return false;
        }
        // No chunk but the last ends within a word of 16 bits: fragments do not, nor do headers.
        let sums = chunks.iter().map(|chunk| checksum::sum(chunk.bytes()));
        let pseudo = checksum::pseudo_header_sum(ip.source, ip.destination, PROTOCOL_UDP, len);
        sums.fold(pseudo, checksum::add) != 0xffff
    }

    /// Tags and tunnels, of the fragments and of what is in them.
    pub fn layers(&self) -> Layers {
        let (ip, first) = (&self.ip, self.first_bytes());
        lineside_wire::layers_assembled(&self.layers, ip, ip.protocol, first, self.total())
    }

    /// What lies at `skip..skip + len`, holes included.
    pub(crate) fn chunks(&self, mut skip: usize, mut len: usize) -> Vec<Chunk<'_>> {
        let mut chunks = Vec::with_capacity(self.ranges.len() + 1);
        // Where the last fragment never came, UDP's own length shows how much is missing.
        let missing = self.total() - self.held_len();
        let rest = Chunk::hole(missing, Cause::NotSeen, self.descriptor());
        for chunk in self.ranges.iter().map(Range::chunk).chain([rest]) {
            let skipped = skip.min(chunk.len());
            let taken = len.min(chunk.len() - skipped);
            (skip, len) = (skip - skipped, len - taken);
            if taken > 0 {
                chunks.push(chunk.part(skipped, taken));
            }
        }
        chunks
    }

    /// A copy of what lies there, if no part of it is missing.
    #[cold]
    pub(crate) fn bytes(&self, skip: usize, len: usize) -> Option<Vec<u8>> {
        let chunks = self.chunks(skip, len);
        let is_whole = chunks.iter().all(|chunk| chunk.missing().is_none());
        is_whole.then(|| chunks.iter().flat_map(Chunk::bytes).copied().collect())
    }

    /// Bytes from the first to the last that came, holes included.
    pub fn held_len(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Bytes of the payload: as far as fragments came, or as UDP's own length says if that is more.
    pub(crate) fn total(&self) -> usize {
        self.held_len().max(self.udp_len())
    }

    /// Bytes of a UDP datagram by its own header (RFC 768); 0 if it is not a
    /// datagram, or its length was not seen.
    fn udp_len(&self) -> usize {
        let header = self.first_bytes();
        match (self.ip.protocol, header.get(4..6)) {
            (PROTOCOL_UDP, Some(len)) => usize::from(u16::from_be_bytes([len[0], len[1]])),
            _ => 0,
        }
    }
}

/// Counts a packet; returns whether it may be read.
pub(crate) fn count_whole(whole: &Whole, counters: &mut Counters) -> bool {
    let counter = match whole.complete {
        false => Counter::DatagramsIncomplete,
        true if whole.is_garbled() => Counter::DatagramsChecksumWrong,
        true => Counter::DatagramsWhole,
    };
    counters.count(counter);
    counter != Counter::DatagramsChecksumWrong
}
