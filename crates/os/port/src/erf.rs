//! The extensible record format of Endace's cards: records without a file header.

use lineside_frame::LinkType;

use crate::Facts;
use crate::record::{Record, Step, array};

/// Bytes of a record before its extensions.
const HEADER_LEN: usize = 16;
/// The type of records that are no frames and have no number.
const PADDING: u8 = 48;
/// The last of the other types.
const TYPE_MAX: u8 = 27;

/// Whether a file that begins so may be of this format, which has no magic number: seconds in the
/// upper half of a little-endian stamp, a type, lengths that fit each other.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let Some(header) = array::<HEADER_LEN>(bytes, 0) else {
        return false;
    };
    let &[
        _,
        _,
        _,
        _,
        s0,
        s1,
        s2,
        s3,
        kind,
        _,
        len_high,
        len_low,
        _,
        _,
        wire_high,
        wire_low,
    ] = header;
    let seconds = u32::from_le_bytes([s0, s1, s2, s3]);
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let wire_len = usize::from(u16::from_be_bytes([wire_high, wire_low]));
    // From 1996, when the first such cards were made, to 2038. Before the frame there may be a few
    // extensions, behind it a word of padding.
    (820_454_400..0x8000_0000).contains(&seconds)
        && (1..=TYPE_MAX).contains(&(kind & 0x7f))
        && (HEADER_LEN..=HEADER_LEN + wire_len + 64).contains(&len)
}

/// The next record of `ready`.
pub(crate) fn step(ready: &[u8], facts: &mut Facts) -> Result<Step, String> {
    let Some(header) = array::<HEADER_LEN>(ready, 0) else {
        return Ok(Step::Need(HEADER_LEN));
    };
    let &[
        f0,
        f1,
        f2,
        f3,
        s0,
        s1,
        s2,
        s3,
        kind,
        flags,
        l0,
        l1,
        _,
        _,
        w0,
        w1,
    ] = header;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    if len < HEADER_LEN {
        return Err(format!(
            "a record claims {len} bytes, fewer than {HEADER_LEN}"
        ));
    }
    let Some(record) = ready.get(..len) else {
        return Ok(Step::Need(len));
    };
    if kind & 0x7f == PADDING {
        return Ok(Step::Skip(len));
    }
    let wire_len = usize::from(u16::from_be_bytes([w0, w1]));
    let (link_type, before) = frame_in(record, kind).unwrap_or((197, 0));
    let room = len - before;
    let kept = if before == 0 {
        room
    } else {
        room.min(wire_len)
    };
    let fraction = u64::from(u32::from_le_bytes([f0, f1, f2, f3]));
    let seconds = i64::from(u32::from_le_bytes([s0, s1, s2, s3]));
    let link_type = LinkType(link_type);
    facts.note_link_type(link_type);
    Ok(Step::Frame(Record {
        before,
        len: kept,
        behind: room - kept,
        wire_len: wire_len.max(kept) as u32,
        stamp_ns: Some(seconds * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32).cast_signed()),
        link_type,
        interface: u16::from(flags & 3),
        // An error of the receiver.
        damaged: flags & 0x10 != 0,
    }))
}

/// The link type and the offset of the frame in a record, of a type that has one.
fn frame_in(record: &[u8], kind: u8) -> Option<(u16, usize)> {
    let mut at = HEADER_LEN;
    let mut goes_on = kind & 0x80 != 0;
    while goes_on {
        goes_on = record.get(at)? & 0x80 != 0;
        at += 8;
    }
    let (link_type, more) = match kind & 0x7f {
        1 | 10 | 15 | 19 => (50, 0),
        2 | 11 | 16 | 20 => (1, 2),
        22 => (228, 0),
        23 => (229, 0),
        _ => return None,
    };
    at += more;
    (at <= record.len()).then_some((link_type, at))
}
