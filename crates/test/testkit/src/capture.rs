//! Capture files read and written whole, in memory: slow, small, and apart from `lineside-port`, so
//! that the two can be compared.

use std::io;
use std::path::Path;

/// A frame of a capture, as tests harm it and oracles read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since the Unix epoch; `None` where the file gives none.
    pub stamp_ns: Option<i64>,
    /// Bytes on the wire; more than `bytes` holds if a snap length cut it.
    pub wire_len: u32,
    /// The LINKTYPE_ value.
    pub link_type: u16,
    /// The bytes kept.
    pub bytes: Vec<u8>,
}

/// The frames of a pcap or pcapng file, plain or zstd. An error names the file.
pub fn read(path: &Path) -> io::Result<Vec<Frame>> {
    let bytes = bytes(path)?;
    parse(&bytes).ok_or_else(|| {
        let text = format!("{}: neither pcap nor pcapng, or cut", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// The bytes of a file, decompressed if they are zstd.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(named)?;
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return zstd::decode_all(&bytes[..]).map_err(named);
    }
    Ok(bytes)
}

/// The frames as a file: nanosecond pcap, or pcapng if they have several link types.
pub fn write(frames: &[Frame]) -> Vec<u8> {
    let mut link_types: Vec<u16> = frames.iter().map(|frame| frame.link_type).collect();
    link_types.sort_unstable();
    link_types.dedup();
    if let [] | [_] = link_types[..] {
        return write_pcap(frames, link_types.first().copied().unwrap_or(1));
    }
    write_pcapng(frames, &link_types)
}

fn write_pcap(frames: &[Frame], link_type: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put(
        &mut out,
        &[
            0xa1b2_3c4d,
            4 << 16 | 2,
            0,
            0,
            262_144,
            u32::from(link_type),
        ],
    );
    for frame in frames {
        let stamp = frame.stamp_ns.unwrap_or(0);
        let (seconds, fraction) = (
            stamp.div_euclid(1_000_000_000),
            stamp.rem_euclid(1_000_000_000),
        );
        let kept = frame.bytes.len() as u32;
        put(
            &mut out,
            &[seconds as u32, fraction as u32, kept, frame.wire_len],
        );
        out.extend_from_slice(&frame.bytes);
    }
    out
}

fn write_pcapng(frames: &[Frame], link_types: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    put(
        &mut out,
        &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28],
    );
    for &link_type in link_types {
        // Option 9 (if_tsresol), one byte: 10^-9 seconds.
        put(
            &mut out,
            &[1, 32, u32::from(link_type), 0, 1 << 16 | 9, 9, 0, 32],
        );
    }
    for frame in frames {
        let interface = link_types
            .iter()
            .position(|&each| each == frame.link_type)
            .unwrap_or(0);
        let stamp = frame.stamp_ns.unwrap_or(0) as u64;
        let kept = frame.bytes.len() as u32;
        let length = 32 + kept.next_multiple_of(4);
        let stamp = [(stamp >> 32) as u32, stamp as u32];
        put(
            &mut out,
            &[
                6,
                length,
                interface as u32,
                stamp[0],
                stamp[1],
                kept,
                frame.wire_len,
            ],
        );
        out.extend_from_slice(&frame.bytes);
        out.resize(out.len().next_multiple_of(4), 0);
        put(&mut out, &[length]);
    }
    out
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Numbers in the byte order of a file.
#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Words<'a> {
    fn u32(&self, at: usize) -> Option<u32> {
        let word = self.bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        let word = self.bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.big {
            u16::from_be_bytes(word)
        } else {
            u16::from_le_bytes(word)
        })
    }

    fn slice(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..at.checked_add(len)?)
    }
}

fn parse(bytes: &[u8]) -> Option<Vec<Frame>> {
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        return parse_pcapng(bytes);
    }
    let (big, tick_ns, header_len) = match *bytes.first_chunk::<4>()? {
        [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1000, 16),
        [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1, 16),
        [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1000, 16),
        [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1, 16),
        [0x34, 0xcd, 0xb2, 0xa1] => (false, 1000, 24),
        _ => return None,
    };
    let words = Words { bytes, big };
    let link_type = words.u32(20)? as u16;
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let kept = words.u32(at + 8)? as usize;
        let stamp =
            i64::from(words.u32(at)?) * 1_000_000_000 + i64::from(words.u32(at + 4)?) * tick_ns;
        frames.push(Frame {
            stamp_ns: Some(stamp),
            wire_len: words.u32(at + 12)?,
            link_type,
            bytes: words.slice(at + header_len, kept)?.to_vec(),
        });
        at += header_len + kept;
    }
    Some(frames)
}

/// An interface of a pcapng section.
struct Interface {
    link_type: u16,
    snap_len: u32,
    ticks_per_second: u64,
    offset_seconds: i64,
}

impl Interface {
    fn parse(block: Words<'_>) -> Option<Self> {
        let mut interface = Self {
            link_type: block.u16(8)?,
            snap_len: block.u32(12)?,
            ticks_per_second: 1_000_000,
            offset_seconds: 0,
        };
        let mut at = 16;
        while let (Some(code @ 1..), Some(len)) = (block.u16(at), block.u16(at + 2)) {
            let value = block.slice(at + 4, len.into())?;
            match (code, value) {
                (9, &[exponent]) if exponent < 0x80 => {
                    interface.ticks_per_second = 10u64.checked_pow(exponent.into())?;
                }
                (9, &[exponent]) => {
                    interface.ticks_per_second = 1u64.checked_shl((exponent & 0x7f).into())?;
                }
                (14, _) => {
                    let words = [block.u32(at + 4)?, block.u32(at + 8)?];
                    let (low, high) = if block.big {
                        (words[1], words[0])
                    } else {
                        (words[0], words[1])
                    };
                    interface.offset_seconds = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Some(interface)
    }

    fn stamp(&self, high: u32, low: u32) -> Option<i64> {
        let ticks = u128::from(high) << 32 | u128::from(low);
        let ns = ticks * 1_000_000_000 / u128::from(self.ticks_per_second);
        i64::try_from(ns)
            .ok()?
            .checked_add(self.offset_seconds.checked_mul(1_000_000_000)?)
    }
}

fn parse_pcapng(bytes: &[u8]) -> Option<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut interfaces: Vec<Interface> = Vec::new();
    let (mut at, mut big) = (0, false);
    while at < bytes.len() {
        if bytes.get(at..at + 4)? == [0x0a, 0x0d, 0x0d, 0x0a] {
            big = bytes.get(at + 8)? == &0x1a;
            interfaces.clear();
        }
        let words = Words { bytes, big };
        let length = words.u32(at + 4)? as usize;
        if length < 12 {
            return None;
        }
        let block = Words {
            bytes: words.slice(at, length - 4)?,
            big,
        };
        match block.u32(0)? {
            1 => interfaces.push(Interface::parse(block)?),
            // Enhanced packet; 2 is the obsolete one, whose interface is a half word.
            kind @ (2 | 6) => {
                let number = if kind == 6 {
                    block.u32(8)? as usize
                } else {
                    block.u16(8)?.into()
                };
                let interface = interfaces.get(number)?;
                frames.push(Frame {
                    stamp_ns: interface.stamp(block.u32(12)?, block.u32(16)?),
                    wire_len: block.u32(24)?,
                    link_type: interface.link_type,
                    bytes: block.slice(28, block.u32(20)? as usize)?.to_vec(),
                });
            }
            3 => {
                let interface = interfaces.first()?;
                let wire_len = block.u32(8)?;
                let snap_len = if interface.snap_len == 0 {
                    u32::MAX
                } else {
                    interface.snap_len
                };
                let kept = (wire_len.min(snap_len) as usize).min(length - 16);
                frames.push(Frame {
                    stamp_ns: None,
                    wire_len,
                    link_type: interface.link_type,
                    bytes: block.slice(12, kept)?.to_vec(),
                });
            }
            _ => {}
        }
        at += length;
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stamp_ns: i64, link_type: u16, bytes: &[u8]) -> Frame {
        Frame {
            stamp_ns: Some(stamp_ns),
            wire_len: bytes.len() as u32 + 5,
            link_type,
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn written_frames_are_read_back() {
        let mut frames = vec![
            frame(1_700_000_000_123_456_789, 1, b"abc"),
            frame(5, 1, b""),
        ];
        assert_eq!(parse(&write(&frames)), Some(frames.clone()));
        frames.push(frame(1_700_000_001_000_000_001, 276, b"cooked"));
        assert_eq!(parse(&write(&frames)), Some(frames));
        assert_eq!(parse(&write(&[])), Some(vec![]));
    }

    #[test]
    fn a_cut_file_is_refused() {
        let whole = write(&[frame(7, 1, b"abcdef")]);
        assert_eq!(parse(&whole[..whole.len() - 1]), None);
        assert_eq!(parse(b"#!/bin/sh"), None);
    }
}
