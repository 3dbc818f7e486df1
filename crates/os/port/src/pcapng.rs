//! The pcapng format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>.

use lineside_frame::{Descriptor, LinkType};

use crate::record::{Order, Record, Step, array};
use crate::{BLOCK_LEN, FRAME_LEN_MAX, Facts, Interface};

pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const INTERFACE_STATISTICS: u32 = 5;
pub(crate) const ENHANCED_PACKET: u32 = 6;

/// Blocks that are no frames and that Wireshark numbers all the same, so that the frames after them
/// have higher numbers: a journal's entry, custom blocks, Sysdig's events. tshark 4.0 numbers them,
/// and no other block of the types 1 to 0x300.
const NUMBERED: [u32; 6] = [0x9, 0xbad, 0x4000_0bad, 0x204, 0x216, 0x221];

/// Flags of a frame whose bytes do not hold: its check value is wrong, it is not aligned, a symbol
/// is none (section 4.3.1). Frames that are too short, too long or too close are read.
const DAMAGED: u32 = 1 << 24 | 1 << 28 | 1 << 31;

/// A block of a kind that is skipped may be longer than one of ours, but a length beyond this is
/// garbage: Wireshark's `MAX_BLOCK_SIZE`, so that files that Wireshark reads are read.
const SKIPPED_LEN_MAX: usize = 16 * 1024 * 1024;
/// Interfaces of a section. Real files have a handful; each takes 32 bytes here.
const INTERFACES_MAX: usize = 65_536;

/// Where in the sections of a file the reader is.
#[derive(Debug)]
pub(crate) struct Pcapng {
    order: Order,
    /// Those of the section.
    interfaces: Vec<Clocked>,
    /// The length that must stand at the end of the block that is being skipped.
    trailer: Option<u32>,
    /// Blocks so far that are no frames and have a number in Wireshark.
    pub(crate) numbered: u64,
}

/// What an interface description states of its frames.
#[derive(Debug, Clone, Copy)]
struct Clocked {
    link_type: LinkType,
    snap_len: u32,
    resolution: Resolution,
    offset_s: i64,
    /// Its index in [`Facts::interfaces`].
    fact: Option<u16>,
    /// Frames lost before others, as those say.
    dropped: u64,
}

/// Ticks per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    PowerOfTen(u8),
    PowerOfTwo(u8),
}

impl Pcapng {
    pub(crate) fn new() -> Self {
        Self {
            order: Order::Little,
            interfaces: Vec::new(),
            trailer: None,
            numbered: 0,
        }
    }

    /// False within a block that is being skipped.
    pub(crate) fn is_between_blocks(&self) -> bool {
        self.trailer.is_none()
    }

    /// The next block of `ready`. Changes nothing if it asks for more bytes or fails.
    pub(crate) fn step(&mut self, ready: &[u8], facts: &mut Facts) -> Result<Step, String> {
        if let Some(expected) = self.trailer {
            let Some(trailer) = array(ready, 0) else {
                return Ok(Step::Need(4));
            };
            check_trailer(self.order.u32(trailer), expected)?;
            self.trailer = None;
            return Ok(Step::Skip(4));
        }
        let Some(&[t0, t1, t2, t3, l0, l1, l2, l3, m0, m1, m2, m3]) = array(ready, 0) else {
            return Ok(Step::Need(12));
        };
        let kind = self.order.u32(&[t0, t1, t2, t3]);
        let order = if kind == SECTION_HEADER {
            section_order([m0, m1, m2, m3])?
        } else {
            self.order
        };
        let claimed = order.u32(&[l0, l1, l2, l3]);
        // Some writers forget the padding in the length.
        let len = (claimed as usize).next_multiple_of(4);
        if len < 12 {
            return Err(format!("a block claims {claimed} bytes, fewer than 12"));
        }
        let is_ours = matches!(
            kind,
            SECTION_HEADER
                | INTERFACE_DESCRIPTION
                | OBSOLETE_PACKET
                | SIMPLE_PACKET
                | ENHANCED_PACKET
        );
        let len_max = if is_ours { BLOCK_LEN } else { SKIPPED_LEN_MAX };
        if len > len_max {
            return Err(format!(
                "a block of type {kind:#x} claims {claimed} bytes, but at most {len_max} are \
                possible"
            ));
        }
        if len > BLOCK_LEN {
            self.numbered += u64::from(NUMBERED.contains(&kind));
            self.trailer = Some(claimed);
            return Ok(Step::Skip(len - 4));
        }
        let Some(block) = ready.get(..len) else {
            return Ok(Step::Need(len));
        };
        let trailer = array(block, len - 4).ok_or("a block without an end")?;
        check_trailer(order.u32(trailer), claimed)?;
        let body = &block[8..len - 4];
        match kind {
            SECTION_HEADER => self.on_section(order, body)?,
            INTERFACE_DESCRIPTION => self.on_interface(body, facts)?,
            INTERFACE_STATISTICS => self.on_statistics(body, facts),
            ENHANCED_PACKET | OBSOLETE_PACKET => {
                return self.on_packet(kind, body, facts).map(Step::Frame);
            }
            SIMPLE_PACKET => return self.on_simple(body).map(Step::Frame),
            _ => self.numbered += u64::from(NUMBERED.contains(&kind)),
        }
        Ok(Step::Skip(len))
    }

    fn on_section(&mut self, order: Order, body: &[u8]) -> Result<(), String> {
        let version: &[u8; 4] = array(body, 4).ok_or("a section header without a version")?;
        let major = order.u16(&[version[0], version[1]]);
        if major != 1 {
            return Err(format!(
                "a section of pcapng version {major}, only 1 is known"
            ));
        }
        self.order = order;
        self.interfaces.clear();
        Ok(())
    }

    fn on_interface(&mut self, body: &[u8], facts: &mut Facts) -> Result<(), String> {
        let &[l0, l1, _, _, s0, s1, s2, s3] =
            array(body, 0).ok_or("an interface description without a snap length")?;
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(format!(
                "a section describes more than {INTERFACES_MAX} interfaces"
            ));
        }
        let mut clocked = Clocked {
            link_type: LinkType(self.order.u16(&[l0, l1])),
            snap_len: self.order.u32(&[s0, s1, s2, s3]),
            resolution: Resolution::PowerOfTen(6),
            offset_s: 0,
            fact: None,
            dropped: 0,
        };
        let (mut name, mut filter, mut speed_bps) = (None, None, None);
        for (code, value) in self.options(&body[8..]) {
            match (code, value) {
                (2, text) => name = Some(self::text(text)),
                // A filter of another kind than text is a program.
                (11, [0, text @ ..]) => filter = Some(self::text(text)),
                (8, &[b0, b1, b2, b3, b4, b5, b6, b7]) => {
                    speed_bps = Some(self.order.u64(&[b0, b1, b2, b3, b4, b5, b6, b7]));
                }
                (9, &[resolution]) => clocked.resolution = Resolution::new(resolution),
                (14, value) => {
                    if let Some(offset) = array(value, 0) {
                        clocked.offset_s = self.order.u64(offset) as i64;
                    }
                }
                _ => {}
            }
            facts.resolution_ns = facts.resolution_ns.max(Some(clocked.resolution.step_ns()));
        }
        facts.note_link_type(clocked.link_type);
        if facts.interfaces.len() < 1024 {
            clocked.fact = Some(facts.interfaces.len() as u16);
            facts.interfaces.push(Interface {
                name,
                link_type: clocked.link_type,
                snap_len: clocked.snap_len,
                filter,
                speed_bps,
                ..Interface::default()
            });
        }
        self.interfaces.push(clocked);
        Ok(())
    }

    /// Statistics are an extra: what is wrong in them is left out.
    fn on_statistics(&self, body: &[u8], facts: &mut Facts) {
        let interface = array(body, 0)
            .and_then(|id| self.interfaces.get(self.order.u32(id) as usize)?.fact)
            .and_then(|fact| facts.interfaces.get_mut(usize::from(fact)));
        let (Some(interface), Some(options)) = (interface, body.get(12..)) else {
            return;
        };
        for (code, value) in self.options(options) {
            let count = array(value, 0).map(|count| self.order.u64(count));
            match code {
                4 => interface.received = count,
                5 => interface.dropped = interface.dropped.max(count),
                7 => interface.dropped_by_system = count,
                _ => {}
            }
        }
    }

    /// An enhanced packet block, or the obsolete one, which is alike but for the first field.
    fn on_packet(&mut self, kind: u32, body: &[u8], facts: &mut Facts) -> Result<Record, String> {
        let fields: &[u8; 20] = array(body, 0).ok_or("a packet block without its lengths")?;
        let word = |at: usize| {
            let word = [fields[at], fields[at + 1], fields[at + 2], fields[at + 3]];
            self.order.u32(&word)
        };
        let interface = match kind {
            OBSOLETE_PACKET => self.order.u16(&[fields[0], fields[1]]).into(),
            _ => word(0),
        };
        let ticks = u64::from(word(4)) << 32 | u64::from(word(8));
        let mut record = self.packet(interface, Some(ticks), body, 20, word(12), word(16))?;
        // The obsolete block counts in its second field; all ones: not known.
        let mut dropped = match self.order.u16(&[fields[2], fields[3]]) {
            count if kind == OBSOLETE_PACKET && count != u16::MAX => count.into(),
            _ => 0,
        };
        // Most frames have no options.
        let end = 20 + record.len.next_multiple_of(4);
        for (code, value) in self.options(body.get(end..).unwrap_or(&[])) {
            match (code, array(value, 0), array(value, 0)) {
                (2, Some(flags), _) => record.damaged = self.order.u32(flags) & DAMAGED != 0,
                (4, _, Some(count)) if kind == ENHANCED_PACKET => dropped = self.order.u64(count),
                _ => {}
            }
        }
        if dropped > 0 {
            self.note_dropped(interface as usize, dropped, facts);
        }
        Ok(record)
    }

    /// So many frames of an interface are missing before this one. Its statistics count the same
    /// ones.
    #[cold]
    fn note_dropped(&mut self, interface: usize, dropped: u64, facts: &mut Facts) {
        let clocked = &mut self.interfaces[interface];
        clocked.dropped = clocked.dropped.saturating_add(dropped);
        let fact = clocked.fact.map(usize::from);
        if let Some(interface) = fact.and_then(|fact| facts.interfaces.get_mut(fact)) {
            interface.dropped = interface.dropped.max(Some(clocked.dropped));
        }
    }

    /// A simple packet block has no stamp, is of the first interface, and its snap length bounds
    /// how much of the frame is there.
    fn on_simple(&self, body: &[u8]) -> Result<Record, String> {
        let wire_len = self
            .order
            .u32(array(body, 0).ok_or("a packet block without its length")?);
        let snap_len = match self.interfaces.first() {
            Some(interface) if interface.snap_len != 0 => interface.snap_len,
            _ => u32::MAX,
        };
        let len = wire_len.min(snap_len).min((body.len() - 4) as u32);
        self.packet(0, None, body, 4, len, wire_len)
    }

    /// The frame of `len` bytes at `at` of `body`.
    fn packet(
        &self,
        interface: u32,
        ticks: Option<u64>,
        body: &[u8],
        at: usize,
        len: u32,
        wire_len: u32,
    ) -> Result<Record, String> {
        let Some(clocked) = self.interfaces.get(interface as usize) else {
            let count = self.interfaces.len();
            return Err(format!(
                "a frame of interface {interface}, but the section has described {count}"
            ));
        };
        let len = len as usize;
        let room = body.len() - at;
        if len > room || len > FRAME_LEN_MAX {
            return Err(format!(
                "a frame claims {len} bytes in a block that has room for {room}, \
                 and none is longer than {FRAME_LEN_MAX}"
            ));
        }
        Ok(Record {
            before: 8 + at,
            len,
            behind: room - len + 4,
            wire_len,
            stamp_ns: ticks.and_then(|ticks| clocked.stamp_ns(ticks)),
            link_type: clocked.link_type,
            interface: clocked.fact.unwrap_or(Descriptor::NO_INTERFACE),
            damaged: false,
        })
    }

    fn options<'a>(&self, mut bytes: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let order = self.order;
        std::iter::from_fn(move || {
            let &[c0, c1, l0, l1] = array(bytes, 0)?;
            let code = order.u16(&[c0, c1]);
            let len = usize::from(order.u16(&[l0, l1]));
            let value = bytes.get(4..4 + len)?;
            bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
            (code != 0).then_some((code, value))
        })
    }
}

impl Clocked {
    /// `None` if 64 bits of nanoseconds do not reach.
    fn stamp_ns(&self, ticks: u64) -> Option<i64> {
        let ticks = i128::from(ticks);
        let since_offset = match self.resolution {
            Resolution::PowerOfTen(power @ 0..=9) => ticks * 10_i128.pow(9 - u32::from(power)),
            // 10^38 is the last power that fits; 64 bits of ticks make no nanosecond of less.
            Resolution::PowerOfTen(power) => ticks / 10_i128.pow(u32::from(power - 9).min(38)),
            Resolution::PowerOfTwo(power) => (ticks * 1_000_000_000) >> power,
        };
        i64::try_from(since_offset + i128::from(self.offset_s) * 1_000_000_000).ok()
    }
}

impl Resolution {
    /// The step between two stamps, rounded up to nanoseconds.
    fn step_ns(self) -> u64 {
        match self {
            Self::PowerOfTen(power @ 0..=9) => 10_u64.pow(9 - u32::from(power)),
            Self::PowerOfTwo(power @ 0..=29) => 1_000_000_000_u64.div_ceil(1 << power),
            _ => 1,
        }
    }

    /// The option `if_tsresol`: the first bit selects the base.
    fn new(option: u8) -> Self {
        match option & 0x7f {
            power if option & 0x80 != 0 => Self::PowerOfTwo(power),
            power => Self::PowerOfTen(power),
        }
    }
}

/// The first 256 bytes of a text.
fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(256)];
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').to_owned()
}

fn section_order(magic: [u8; 4]) -> Result<Order, String> {
    match magic {
        [0x1a, 0x2b, 0x3c, 0x4d] => Ok(Order::Big),
        [0x4d, 0x3c, 0x2b, 0x1a] => Ok(Order::Little),
        _ => Err("a section header without the byte-order magic 1a2b3c4d".to_owned()),
    }
}

fn check_trailer(found: u32, expected: u32) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "a block claims {expected} bytes at its beginning and {found} at its end"
    ))
}
