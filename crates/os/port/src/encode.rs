//! Records of the capture formats as bytes, little-endian with stamps in nanoseconds.
//!
//! pcap: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>. pcapng:
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>.

use lineside_frame::LinkType;

use crate::pcapng::{ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, SECTION_HEADER};
use crate::{FRAME_LEN_MAX, Interface};

/// Bytes that a frame's record takes besides the frame, at most.
pub(crate) const RECORD_LEN_MAX: usize = 128;

/// The comment at a frame whose stamp pcapng has no number for.
const NO_STAMP: &[u8] = b"without a time stamp, or with one before 1970";

/// `snap_len` is 0 where frames are whole.
pub(crate) fn pcap_header(out: &mut Vec<u8>, link_type: LinkType, snap_len: u32) {
    let len_max = if snap_len == 0 {
        FRAME_LEN_MAX as u32
    } else {
        snap_len
    };
    out.extend(0xa1b2_3c4d_u32.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(len_max.to_le_bytes());
    out.extend(u32::from(link_type.0).to_le_bytes());
}

/// False if the stamp does not fit and 0 stands in its place.
pub(crate) fn pcap_record(
    out: &mut Vec<u8>,
    stamp_ns: Option<i64>,
    wire_len: u32,
    parts: [&[u8]; 2],
) -> bool {
    let stamp = stamp_ns.and_then(|stamp_ns| {
        let seconds = u32::try_from(stamp_ns.div_euclid(1_000_000_000)).ok()?;
        Some((seconds, stamp_ns.rem_euclid(1_000_000_000) as u32))
    });
    let (seconds, fraction_ns) = stamp.unwrap_or((0, 0));
    for field in [seconds, fraction_ns, len_of(parts) as u32, wire_len] {
        out.extend(field.to_le_bytes());
    }
    for bytes in parts {
        out.extend(bytes);
    }
    stamp.is_some()
}

fn len_of(parts: [&[u8]; 2]) -> usize {
    parts[0].len() + parts[1].len()
}

pub(crate) fn section(out: &mut Vec<u8>, application: &str, comment: Option<&str>) {
    block(out, SECTION_HEADER, |out| {
        out.extend(0x1a2b_3c4d_u32.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        // The section's length is not known when it begins.
        out.extend(u64::MAX.to_le_bytes());
        if let Some(comment) = comment {
            option(out, 1, comment.as_bytes());
        }
        option(out, 2, std::env::consts::ARCH.as_bytes());
        option(out, 3, operating_system().as_bytes());
        option(out, 4, application.as_bytes());
        option(out, 0, &[]);
    });
}

/// Such as `Linux 6.1.0-44-amd64`.
fn operating_system() -> String {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    format!("{} {}", text(names.sysname()), text(names.release()))
}

pub(crate) fn interface(out: &mut Vec<u8>, interface: &Interface) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(interface.link_type.0.to_le_bytes());
        out.extend([0, 0]);
        out.extend(interface.snap_len.to_le_bytes());
        if let Some(name) = &interface.name {
            option(out, 2, name.as_bytes());
        }
        if let Some(speed_bps) = interface.speed_bps {
            option(out, 8, &speed_bps.to_le_bytes());
        }
        option(out, 9, &[9]);
        if let Some(filter) = &interface.filter {
            // The first byte says that it is text.
            option(out, 11, &[&[0], filter.as_bytes()].concat());
        }
        option(out, 0, &[]);
    });
}

/// False if the stamp does not fit and 0 stands in its place, with a comment.
pub(crate) fn enhanced_packet(
    out: &mut Vec<u8>,
    interface: u32,
    stamp_ns: Option<i64>,
    wire_len: u32,
    parts: [&[u8]; 2],
) -> bool {
    let ticks = stamp_ns.and_then(|stamp_ns| u64::try_from(stamp_ns).ok());
    block(out, ENHANCED_PACKET, |out| {
        out.extend(interface.to_le_bytes());
        out.extend(words(ticks.unwrap_or(0)));
        out.extend((len_of(parts) as u32).to_le_bytes());
        out.extend(wire_len.to_le_bytes());
        for bytes in parts {
            out.extend(bytes);
        }
        pad(out, len_of(parts));
        if ticks.is_none() {
            option(out, 1, NO_STAMP);
            option(out, 0, &[]);
        }
    });
    ticks.is_some()
}

/// The statistics of a described interface between two instants, in nanoseconds since 1970.
pub(crate) fn statistics(
    out: &mut Vec<u8>,
    id: u32,
    interface: &Interface,
    begin_ns: i64,
    end_ns: i64,
) {
    let [begin, end] = [begin_ns, end_ns].map(|stamp_ns| words(stamp_ns.max(0).cast_unsigned()));
    block(out, INTERFACE_STATISTICS, |out| {
        out.extend(id.to_le_bytes());
        out.extend(end);
        option(out, 2, &begin);
        option(out, 3, &end);
        for (code, count) in [
            (4, interface.received),
            (5, interface.dropped),
            (7, interface.dropped_by_system),
        ] {
            if let Some(count) = count {
                option(out, code, &count.to_le_bytes());
            }
        }
        option(out, 0, &[]);
    });
}

/// The bytes of whole records at the beginning of `records`, of which only the first `len` remain.
pub(crate) fn whole_len(records: &[u8], is_pcapng: bool, len: usize) -> usize {
    let (at, header_len) = if is_pcapng { (4, 0) } else { (8, 16) };
    let mut whole = 0;
    while let Some(field) = records[whole..].get(at..).and_then(<[u8]>::first_chunk) {
        let next = whole + header_len + u32::from_le_bytes(*field) as usize;
        if next > len || next == whole {
            break;
        }
        whole = next;
    }
    whole
}

/// pcapng writes a stamp's upper half first.
fn words(ticks: u64) -> [u8; 8] {
    ticks.rotate_left(32).to_le_bytes()
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let len = ((out.len() - begin + 4) as u32).to_le_bytes();
    out[begin + 4..begin + 8].copy_from_slice(&len);
    out.extend(len);
}

/// Values are cut at 65,535 bytes, where the field for their length ends.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend(code.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(&value[..usize::from(len)]);
    pad(out, usize::from(len));
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend(&[0; 3][..len.next_multiple_of(4) - len]);
}
