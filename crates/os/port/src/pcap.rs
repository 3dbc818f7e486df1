//! The pcap format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>.

use lineside_frame::LinkType;

use crate::record::{Order, Record, Step, array};
use crate::{FRAME_LEN_MAX, Facts};

pub(crate) const FILE_HEADER_LEN: usize = 24;

/// How the records of a file are to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pcap {
    pub(crate) order: Order,
    pub(crate) link_type: LinkType,
    /// Nanoseconds of the unit in which stamps count the part of a second.
    pub(crate) unit_ns: i64,
    /// Bytes that a variant has after the header of the file.
    pub(crate) more_len: usize,
    header_len: usize,
    /// A stamp has a second or more after its second.
    is_beyond: bool,
}

const SECOND_NS: i64 = 1_000_000_000;

/// AIX writes version 2.2, nanoseconds, and interface types of SNMP in the place of link types:
/// Ethernet, token ring, FDDI, loopback.
const AIX_VERSION: [u16; 2] = [2, 2];
const AIX_LINK_TYPES: [(u16, u16); 4] = [(6, 1), (9, 6), (15, 10), (24, 0)];

impl Pcap {
    /// Reads a file header; `None` if the magic number is another.
    pub(crate) fn new(header: &[u8; FILE_HEADER_LEN]) -> Option<Self> {
        let magic = array(header, 0)?;
        let known = |magic| match magic {
            0xa1b2_c3d4 => Some((1_000, 16, 0)),
            0xa1b2_3c4d => Some((1, 16, 0)),
            // Kuznetzov's patched libpcap: interface, protocol and packet type in each record.
            0xa1b2_cd34 => Some((1_000, 24, 0)),
            // Ixia, of its hardware and its software: the bytes of all records follow the header.
            0x1c00_01ac | 0x1c00_01ab => Some((1_000, 16, 4)),
            _ => None,
        };
        let (order, (mut unit_ns, header_len, more_len)) = [Order::Little, Order::Big]
            .into_iter()
            .find_map(|order| Some((order, known(order.u32(magic))?)))?;
        // The upper half has the length of frame check sequences, which no header counts.
        let mut link_type = LinkType(order.u32(array(header, 20)?) as u16);
        let version = [order.u16(array(header, 4)?), order.u16(array(header, 6)?)];
        let mut of_aix = AIX_LINK_TYPES.iter().filter(|_| version == AIX_VERSION);
        if let Some(&(_, meant)) = of_aix.find(|(theirs, _)| *theirs == link_type.0) {
            (link_type, unit_ns) = (LinkType(meant), 1);
        }
        Some(Self {
            order,
            link_type,
            unit_ns,
            more_len,
            header_len,
            is_beyond: false,
        })
    }

    /// A stamp's part of a second is a second or more.
    #[cold]
    fn on_beyond(&mut self, fraction: u32, facts: &mut Facts) {
        self.is_beyond = true;
        let (unit, other) = match self.unit_ns {
            1 => ("nanoseconds", "a writer carries seconds over"),
            _ => ("microseconds", "nanoseconds were written in their place"),
        };
        facts.warnings.push(format!(
            "{}: frame {} is stamped {fraction} {unit} after its second, which is more than a second \
            has: {other}, or the stamp is wrong, and times do not hold",
            facts.name,
            facts.frames + 1
        ));
    }

    #[inline]
    pub(crate) fn step(&mut self, ready: &[u8], facts: &mut Facts) -> Result<Step, String> {
        let Some(header) = array::<16>(ready, 0) else {
            return Ok(Step::Need(self.header_len));
        };
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let mut words = [word(0), word(4), word(8), word(12)];
        if self.order == Order::Big {
            for word in &mut words {
                *word = word.swap_bytes();
            }
        }
        let [seconds, fraction, len, wire_len] = words;
        if len as usize > FRAME_LEN_MAX {
            return Err(too_long(len));
        }
        let len = len as usize;
        if ready.len() < self.header_len + len {
            return Ok(Step::Need(self.header_len + len));
        }
        if i64::from(fraction) * self.unit_ns >= SECOND_NS && !self.is_beyond {
            self.on_beyond(fraction, facts);
        }
        // 32 bits of seconds fit; a fraction beyond a second, as some writers leave, carries over,
        // and is reported.
        let stamp_ns = i64::from(seconds) * SECOND_NS + i64::from(fraction) * self.unit_ns;
        Ok(Step::Frame(Record {
            before: self.header_len,
            len,
            behind: 0,
            wire_len,
            stamp_ns: Some(stamp_ns),
            link_type: self.link_type,
            interface: 0,
            damaged: false,
        }))
    }
}

#[cold]
fn too_long(len: u32) -> String {
    format!("a frame claims {len} bytes, but none is longer than {FRAME_LEN_MAX}")
}
