//! Whole captures: every format, byte order and resolution, against what was written and against
//! `pcap-parser`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use lineside_port::{BLOCK_LEN, CaptureReader, Port};
use lineside_testkit::{captures, tshark};
use lz4_flex::frame::FrameEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{
    Bytes, Dripping, Expected, Outcome, drain, pcap_of, pcapng_of, pool, read, read_from,
};

#[test]
fn every_capture_at_hand_reads_as_the_oracle_does() {
    let files = captures::all();
    assert!(files.len() >= 3, "{files:?}");
    for path in &files {
        let mut reader = CaptureReader::open(path, &pool()).expect("a capture");
        let mut frames = Vec::new();
        let error = drain(&mut reader, 64, |frame| frames.push(Expected::of(frame)));
        assert!(error.is_none(), "{}: {error:?}", path.display());
        let facts = reader.facts()[0];
        assert_eq!(facts.bytes_total, Some(facts.bytes), "{}", path.display());

        let bytes = fs::read(path).expect("readable");
        let plain = match path.extension().and_then(OsStr::to_str) {
            Some("zst") => zstd::decode_all(&bytes[..]).expect("zstd"),
            _ => bytes,
        };
        let expected = oracle(&plain);
        assert_eq!(frames.len(), expected.len(), "{}", path.display());
        for (index, (frame, expected)) in frames.iter().zip(&expected).enumerate() {
            assert_eq!(frame, expected, "frame {} of {}", index + 1, path.display());
        }
    }
    eprintln!("{} captures", files.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pcap_reads_as_it_was_written(capture in any_pcap()) {
        check(&capture)?;
    }

    #[test]
    fn pcapng_reads_as_it_was_written(capture in any_pcapng()) {
        check(&capture)?;
    }
}

/// What was written, and what should be read.
#[derive(Debug, Clone)]
struct Capture {
    bytes: Vec<u8>,
    frames: Vec<Expected>,
    is_known_to_oracle: bool,
    /// A stamp has a second or more after its second.
    is_stamped_beyond: bool,
}

impl Capture {
    /// The frames that were read, if nothing is wrong but what is.
    fn frames_of(&self, mut outcome: Outcome) -> Vec<Expected> {
        let warnings = &mut outcome.facts.warnings;
        let count = warnings.len();
        warnings.retain(|warning| !warning.contains("after its second, which is more than"));
        let told = count - warnings.len();
        assert_eq!(told, usize::from(self.is_stamped_beyond));
        outcome.clean()
    }
}

fn check(capture: &Capture) -> Result<(), TestCaseError> {
    let bytes = &capture.bytes;
    let outcome = read(bytes);
    prop_assert_eq!(outcome.facts.bytes, bytes.len() as u64);
    prop_assert_eq!(capture.frames_of(outcome), capture.frames.clone());
    if capture.is_known_to_oracle {
        prop_assert_eq!(&oracle(bytes), &capture.frames);
    }
    let drip = read_from(Box::new(Dripping::new(bytes)), 1);
    prop_assert_eq!(capture.frames_of(drip), capture.frames.clone());
    for compressed in [gzip(bytes), zstd(bytes), xz(bytes), lz4(bytes)] {
        let outcome = read(&compressed);
        prop_assert_eq!(outcome.facts.bytes, compressed.len() as u64);
        prop_assert!(outcome.facts.compression.is_some());
        prop_assert_eq!(capture.frames_of(outcome), capture.frames.clone());
    }
    Ok(())
}

fn any_pcap() -> impl Strategy<Value = Capture> {
    let record = (
        any::<u32>(),
        prop_oneof![9 => 0_u32..1_000_000, 1 => any::<u32>()],
        any::<u16>(),
        vec(any::<u8>(), 0..200),
    );
    (
        any::<bool>(),
        prop::sample::select(&[0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0xa1b2_cd34][..]),
        prop::sample::select(&[0_u16, 1, 101, 113, 276][..]),
        // The upper bits hold the length of a frame check sequence.
        prop::sample::select(&[0_u32, 0x4400_0000][..]),
        vec(record, 0..20),
    )
        .prop_map(|(is_big, magic, link_type, upper, records)| {
            let mut file = Bytes::new(is_big);
            file.pcap_header(magic, u32::from(link_type) | upper);
            let mut frames = Vec::new();
            let unit_ns = if magic == 0xa1b2_3c4d { 1 } else { 1000 };
            let mut is_stamped_beyond = false;
            for (seconds, fraction, cut_len, bytes) in records {
                is_stamped_beyond |= i64::from(fraction) * unit_ns >= 1_000_000_000;
                let wire_len = bytes.len() as u32 + u32::from(cut_len);
                if magic == 0xa1b2_cd34 {
                    file.pcap_record(seconds, fraction, wire_len, &[]);
                    let at = file.bytes.len() - 8;
                    let mut len = Bytes::new(is_big);
                    len.u32(bytes.len() as u32);
                    file.bytes[at..at + 4].copy_from_slice(&len.bytes);
                    file.u64(0x1122_3344_5566_7788);
                    file.bytes.extend(&bytes);
                } else {
                    file.pcap_record(seconds, fraction, wire_len, &bytes);
                }
                frames.push(Expected {
                    stamp_ns: Some(
                        i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit_ns,
                    ),
                    wire_len,
                    link_type,
                    bytes,
                });
            }
            Capture {
                bytes: file.bytes,
                frames,
                // It does not know the modified header in big-endian order.
                is_known_to_oracle: !is_big || magic != 0xa1b2_cd34,
                is_stamped_beyond,
            }
        })
}

/// A section's byte order, its interfaces (link type, snap length, resolution, offset) and blocks.
type Section = (
    bool,
    Vec<(u16, u32, Option<u8>, Option<i64>)>,
    Vec<(u8, u8, u64, u16, Vec<u8>)>,
);

fn any_pcapng() -> impl Strategy<Value = Capture> {
    let interface = (
        prop::sample::select(&[0_u16, 1, 101, 113, 276][..]),
        prop::sample::select(&[0_u32, 61, 262_144][..]),
        prop::option::of(any::<u8>()),
        prop::option::of(prop_oneof![-2_000_000_000_i64..2_000_000_000, any::<i64>()]),
    );
    let block = (
        0_u8..5,
        any::<u8>(),
        any::<u64>(),
        any::<u16>(),
        vec(any::<u8>(), 0..200),
    );
    let section = (any::<bool>(), vec(interface, 1..4), vec(block, 0..12));
    vec(section, 1..4).prop_map(|sections: Vec<Section>| {
        let mut bytes = Vec::new();
        let mut frames = Vec::new();
        let mut is_known_to_oracle = true;
        for (is_big, interfaces, blocks) in sections {
            let mut file = Bytes::new(is_big);
            file.section();
            for &(link_type, snap_len, resolution, offset_s) in &interfaces {
                file.interface(link_type, snap_len, |body| {
                    body.option(2, b"eth0");
                    if let Some(resolution) = resolution {
                        body.option(9, &[resolution]);
                    }
                    if let Some(offset_s) = offset_s {
                        // It reads the offset in little-endian order always.
                        is_known_to_oracle &= !is_big;
                        body.u16(14);
                        body.u16(8);
                        body.u64(offset_s as u64);
                    }
                    body.option(0, &[]);
                });
            }
            for (kind, interface, ticks, cut_len, data) in blocks {
                let index = usize::from(interface) % interfaces.len();
                let (link_type, _, resolution, offset_s) = interfaces[index];
                let wire_len = data.len() as u32 + u32::from(cut_len);
                let stamp_ns = stamp_ns(ticks, resolution.unwrap_or(6), offset_s.unwrap_or(0));
                let mut expect = |stamp_ns, link_type, wire_len, bytes: &[u8]| {
                    frames.push(Expected {
                        stamp_ns,
                        wire_len,
                        link_type,
                        bytes: bytes.to_vec(),
                    });
                };
                match kind {
                    0 => file.enhanced(index as u32, ticks, wire_len, &data),
                    1 => {
                        is_known_to_oracle = false;
                        file.block(2, |body| {
                            body.u16(index as u16);
                            body.u16(0xffff);
                            body.u32((ticks >> 32) as u32);
                            body.u32(ticks as u32);
                            body.u32(data.len() as u32);
                            body.u32(wire_len);
                            body.padded(&data);
                            body.option(2, &[0, 0, 0, 1]);
                        });
                    }
                    2 => {
                        let snap_len = interfaces[0].1;
                        let len = if snap_len == 0 {
                            data.len()
                        } else {
                            data.len().min(snap_len as usize)
                        };
                        let wire_len = if len < data.len() {
                            wire_len
                        } else {
                            len as u32
                        };
                        file.block(3, |body| {
                            body.u32(wire_len);
                            body.padded(&data[..len]);
                        });
                        expect(None, interfaces[0].0, wire_len, &data[..len]);
                        // Its own reading of a simple block keeps the padding.
                        is_known_to_oracle = false;
                    }
                    3 => file.block(0x0bad_0000 | u32::from(cut_len), |body| body.padded(&data)),
                    _ => file.block(5, |body| {
                        body.u32(index as u32);
                        body.u64(0);
                        body.option(4, &[0; 8]);
                    }),
                }
                if kind < 2 {
                    expect(stamp_ns, link_type, wire_len, &data);
                }
            }
            bytes.extend(file.bytes);
        }
        Capture {
            bytes,
            frames,
            is_known_to_oracle,
            is_stamped_beyond: false,
        }
    })
}

/// The format's definition in digits of any length: whole seconds and the fraction apart.
fn stamp_ns(ticks: u64, resolution: u8, offset_s: i64) -> Option<i64> {
    let power = u32::from(resolution & 0x7f);
    let ticks = u128::from(ticks);
    // More units in a second than 128 bits hold: not even a nanosecond has gone by.
    let units = if resolution & 0x80 == 0 {
        10_u128.checked_pow(power)
    } else {
        1_u128.checked_shl(power)
    };
    let since_ns = units.map_or(0, |units| {
        let rest = ticks % units;
        // A rest that would overflow loses digits far below a nanosecond.
        let part_ns = match rest.checked_mul(1_000_000_000) {
            Some(product) => product / units,
            None => rest / (units / 1_000_000_000),
        };
        ticks / units * 1_000_000_000 + part_ns
    });
    let offset_ns = i128::from(offset_s) * 1_000_000_000;
    i64::try_from(i128::try_from(since_ns).ok()? + offset_ns).ok()
}

/// What `pcap-parser` makes of a capture.
fn oracle(bytes: &[u8]) -> Vec<Expected> {
    let mut reader = create_reader(1 << 20, Cursor::new(bytes)).expect("a capture");
    let mut frames = Vec::new();
    let mut pcap = (1_000, 0);
    let mut interfaces = Vec::new();
    loop {
        match reader.next() {
            Ok((len, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        let unit_ns = if header.is_nanosecond_precision() {
                            1
                        } else {
                            1000
                        };
                        pcap = (unit_ns, header.network.0 as u16);
                    }
                    PcapBlockOwned::Legacy(record) => frames.push(Expected {
                        stamp_ns: Some(
                            i64::from(record.ts_sec) * 1_000_000_000
                                + i64::from(record.ts_usec) * pcap.0,
                        ),
                        wire_len: record.origlen.max(record.caplen),
                        link_type: pcap.1,
                        bytes: record.data[..record.caplen as usize].to_vec(),
                    }),
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        let link_type = interface.linktype.0 as u16;
                        interfaces.push((link_type, interface.if_tsresol, interface.if_tsoffset));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let (link_type, resolution, offset_s) = interfaces[packet.if_id as usize];
                        let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        frames.push(Expected {
                            stamp_ns: stamp_ns(ticks, resolution, offset_s),
                            wire_len: packet.origlen.max(packet.caplen),
                            link_type,
                            bytes: packet.packet_data().to_vec(),
                        });
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(len);
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("readable"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn records_that_straddle_blocks_are_whole() {
    let lens: Vec<usize> = (0..4000)
        .map(|index| (index * 7919) % 1600)
        .chain([262_144, 0, 262_144, 1])
        .collect();
    for bytes in [pcap_of(&lens), pcapng_of(&lens)] {
        assert!(bytes.len() > 7 * BLOCK_LEN);
        let frames = read(&bytes).clean();
        assert_eq!(frames.len(), lens.len());
        for (index, (frame, &len)) in frames.iter().zip(&lens).enumerate() {
            assert!(
                frame.bytes.len() == len && frame.bytes.iter().all(|&byte| byte == index as u8)
            );
        }
        for compressed in [gzip(&bytes), zstd(&bytes), xz(&bytes), lz4(&bytes)] {
            assert_eq!(read(&compressed).clean(), frames);
        }
    }
}

#[test]
fn a_block_longer_than_a_pool_block_is_skipped() {
    let mut file = Bytes::new(false);
    file.bytes = pcapng_of(&[10]);
    let mut rest = Bytes::new(true);
    rest.block(0x0bad, |body| body.bytes.resize(3 * BLOCK_LEN, 0));
    rest.enhanced(0, 5, 4, b"last");
    file.bytes.extend(rest.bytes);
    assert_eq!(read(&file.bytes).clean()[1].bytes, b"last");

    let end = file.bytes.len() - 36 - 4;
    file.bytes[end..end + 4].fill(1);
    let outcome = read(&file.bytes);
    assert_eq!(outcome.frames.len(), 1);
    let message = outcome.error.expect("the trailer differs").to_string();
    assert!(message.contains(&format!("offset {end}")), "{message}");
}

#[test]
fn interfaces_are_listed_with_their_last_statistics() {
    let mut file = Bytes::new(false);
    file.section();
    file.interface(1, 128, |body| {
        body.option(2, b"enp1s0");
        body.option(8, &2_500_000_000_u64.to_le_bytes());
        // Too short for one.
        body.option(8, b"fast");
    });
    file.interface(276, 0, |_| {});
    for (received, dropped) in [(5, 0), (900, 17)] {
        file.block(5, |body| {
            body.u32(0);
            body.u64(0);
            for (code, count) in [(4, received), (5, dropped), (7, 3)] {
                body.u16(code);
                body.u16(8);
                body.u64(count);
            }
        });
    }
    let outcome = read(&file.bytes);
    let [first, second] = &outcome.facts.interfaces[..] else {
        panic!("{:?}", outcome.facts.interfaces);
    };
    assert_eq!(first.name.as_deref(), Some("enp1s0"));
    assert_eq!(
        (first.speed_bps, second.speed_bps),
        (Some(2_500_000_000), None)
    );
    assert_eq!((first.snap_len, first.link_type.0), (128, 1));
    assert_eq!(
        (first.received, first.dropped, first.dropped_by_system),
        (Some(900), Some(17), Some(3))
    );
    assert_eq!((second.name.as_ref(), second.dropped), (None, None));
    assert_eq!(outcome.facts.format, "pcapng");
    assert_eq!(
        outcome
            .facts
            .link_types
            .iter()
            .map(|kind| kind.0)
            .collect::<Vec<_>>(),
        [1, 276]
    );
    assert!(outcome.clean().is_empty());
}

/// Flags of errors of the link, and how many frames were lost before one, which the interface's
/// statistics may count again; of the obsolete block too.
#[test]
fn damaged_and_dropped_frames_are_known_by_their_blocks() {
    for is_big in [false, true] {
        let mut file = Bytes::new(is_big);
        file.section();
        file.interface(1, 0, |_| {});
        // Received by the interface; of a wrong check value; only too short; of no symbol.
        let flags = [0x1, 0x1 | 1 << 24, 0x1 | 1 << 26, 1 << 31];
        for (index, flags) in flags.into_iter().enumerate() {
            file.block(6, |body| {
                body.u32(0);
                body.u64(0);
                body.u32(5);
                body.u32(5);
                body.padded(b"frame");
                body.u16(2);
                body.u16(4);
                body.u32(flags);
                body.u16(4);
                body.u16(8);
                body.u64(index as u64);
                body.u32(0);
            });
        }
        for lost in [2, u16::MAX] {
            file.block(2, |body| {
                body.u16(0);
                body.u16(lost);
                body.u64(0);
                body.u32(5);
                body.u32(5);
                body.padded(b"frame");
            });
        }
        let (pool, mut damaged) = (pool(), Vec::new());
        let source = Box::new(Cursor::new(file.bytes));
        let mut reader = CaptureReader::new(source, "test", &pool).expect("a capture");
        let error = drain(&mut reader, 32, |frame| {
            damaged.push(frame.descriptor().damaged)
        });
        assert!(error.is_none());
        assert_eq!(damaged, [false, true, false, true, false, false]);
        assert_eq!(reader.facts()[0].interfaces[0].dropped, Some(1 + 2 + 3 + 2));
    }
}

/// Each block as tshark numbers it, with every field that makes tshark read on.
#[test]
fn frames_have_the_numbers_that_tshark_gives_them() -> io::Result<()> {
    let entry = b"__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=x\n";
    let of_number = |number: u32, len: usize| {
        let mut body = number.to_le_bytes().to_vec();
        body.resize(len, 0);
        body
    };
    let mut file = Bytes::new(false);
    file.section();
    file.interface(1, 0, |_| {});
    let mut others: Vec<(u32, Vec<u8>)> = (0x1f0..0x230).map(|kind| (kind, vec![0; 96])).collect();
    others.extend((7..20).map(|kind| (kind, entry.to_vec())));
    others.retain(|(kind, _)| *kind != 10);
    others.extend([
        (4, vec![0; 8]),
        (5, vec![0; 12]),
        (10, [&0x544c_534b_u32.to_le_bytes()[..], &[0; 4]].concat()),
        (0xbad, of_number(4711, 4)),
        (0x4000_0bad, of_number(4711, 80)),
        (0xbad, of_number(4711, 3 * BLOCK_LEN)),
        (0x8000_0bad, vec![0; 16]),
    ]);
    for (kind, body) in others {
        file.block(kind, |out| out.padded(&body));
        file.enhanced(0, 0, 60, &[0; 60]);
    }
    let path = std::env::temp_dir().join(format!("lineside-numbers-{}", std::process::id()));
    fs::write(&path, &file.bytes)?;
    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.number",
        "-Y",
        "frame.len == 60",
    ];
    let printed = Command::new("tshark")
        .arg("-nr")
        .arg(&path)
        .args(fields)
        .output();
    fs::remove_file(&path)?;

    let (pool, mut numbers) = (pool(), Vec::new());
    let mut reader =
        CaptureReader::new(Box::new(Cursor::new(file.bytes)), "test", &pool).expect("a capture");
    let error = drain(&mut reader, 32, |frame| {
        numbers.push(frame.descriptor().number)
    });
    assert!(error.is_none(), "{error:?}");
    let frames = numbers.len() as u64;
    assert_eq!(reader.facts()[0].frames, frames);
    assert_eq!(numbers.last(), Some(&(frames + 7)));
    if tshark::available()
        && let Ok(output) = printed
    {
        let lines = String::from_utf8_lossy(&output.stdout);
        let theirs: Vec<u64> = lines.lines().flat_map(str::parse).collect();
        assert_eq!(
            numbers,
            theirs,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Nanoseconds and types of interfaces, not of links, as AIX writes them; Ixia's longer header.
#[test]
fn variants_of_pcap_are_read() {
    for is_big in [false, true] {
        for (theirs, ours) in [(6, 1), (24, 0), (15, 10), (1, 1)] {
            let mut file = Bytes::new(is_big);
            file.pcap_header(0xa1b2_c3d4, theirs);
            let version = if is_big { [0, 2] } else { [2, 0] };
            file.bytes[6..8].copy_from_slice(&version);
            file.pcap_record(5, 123_456, 9, b"frame");
            let frames = read(&file.bytes).clean();
            let unit_ns = if theirs == 1 { 1000 } else { 1 };
            assert_eq!(frames[0].stamp_ns, Some(5_000_000_000 + 123_456 * unit_ns));
            assert_eq!(frames[0].link_type, ours);
        }
        for magic in [0x1c00_01ac, 0x1c00_01ab] {
            let mut file = Bytes::new(is_big);
            file.pcap_header(magic, 1);
            file.u32(21);
            file.pcap_record(5, 123_456, 9, b"frame");
            let frames = read(&file.bytes).clean();
            assert_eq!(frames[0].stamp_ns, Some(5_123_456_000));
            assert_eq!(frames[0].bytes, b"frame");
            for len in 24..file.bytes.len() {
                assert!(read(&file.bytes[..len]).frames.is_empty());
            }
        }
    }
}

/// A record of ERF: its type, extensions, and what follows them.
fn erf_record(kind: u8, extensions: &[u8], wire_len: u16, bytes: &[u8]) -> Vec<u8> {
    let len = (16 + extensions.len() + bytes.len()) as u16;
    let mut record = vec![0, 0, 0, 0x80];
    record.extend(1_700_000_000_u32.to_le_bytes());
    record.extend([kind, 1]);
    record.extend(len.to_be_bytes());
    record.extend([0, 0]);
    record.extend(wire_len.to_be_bytes());
    [&record[..], extensions, bytes].concat()
}

#[test]
fn erf_files_are_read() {
    // Ethernet with padding behind; behind two extensions; a packet; padding; of a type without.
    let file = [
        erf_record(2, &[], 5, b"\0\0framexxx"),
        erf_record(
            0x82,
            &[0x83, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
            60,
            b"\0\0cut",
        ),
        erf_record(22, &[], 6, b"packet"),
        erf_record(48, &[], 0, &[0; 24]),
        erf_record(27, &[], 4, b"meta"),
    ];
    let whole = file.concat();
    let frames = read(&whole).clean();
    let found: Vec<_> = frames
        .iter()
        .map(|frame| (frame.link_type, frame.wire_len, frame.bytes.as_slice()))
        .collect();
    assert_eq!(
        found,
        [
            (1, 5, &b"frame"[..]),
            (1, 60, b"cut"),
            (228, 6, b"packet"),
            (197, 20, &file[4][..]),
        ]
    );
    let half = Some(1_700_000_000_500_000_000);
    assert!(frames.iter().all(|frame| frame.stamp_ns == half));
    assert_eq!(read(&gzip(&whole)).clean(), frames);
    // Cut at each length, and with a record that is shorter than its header.
    for len in 24..whole.len() {
        assert!(read(&whole[..len]).error.is_none());
    }
    let mut wrong = whole;
    wrong[file[0].len() + 10..][..2].copy_from_slice(&[0, 15]);
    let outcome = read(&wrong);
    assert_eq!(outcome.frames.len(), 1);
    let error = outcome.error.expect("shorter than a header").to_string();
    assert!(error.contains("fewer than 16"), "{error}");
}

/// Windows beyond the usual one are found in the frame header, whichever way it encodes them.
#[test]
fn wide_windows_of_zstd_are_read() {
    let bytes = pcap_of(&[100_000; 100]);
    let known = zstd::bulk::compress(&bytes, 22).expect("compresses");
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.window_log(24).expect("a window");
    encoder.write_all(&bytes).expect("compresses");
    let streamed = encoder.finish().expect("compresses");
    for compressed in [known, streamed] {
        assert_eq!(read(&compressed).clean().len(), 100);
    }
}

#[test]
fn an_empty_capture_is_no_error() {
    for bytes in [pcap_of(&[]), pcapng_of(&[])] {
        let outcome: Outcome = read(&bytes);
        assert!(outcome.clean().is_empty());
    }
}

/// In two members.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let mut compressed = Vec::new();
    for part in [front, back] {
        let mut encoder = GzEncoder::new(&mut compressed, Compression::fast());
        encoder.write_all(part).expect("compresses");
        encoder.finish().expect("compresses");
    }
    compressed
}

/// In two frames behind a skippable one.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = bytes.split_at(bytes.len() / 3);
    let mut compressed = vec![0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
    for part in [front, back] {
        compressed.extend(zstd::encode_all(part, 1).expect("compresses"));
    }
    compressed
}

/// In two streams.
pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let mut compressed = Vec::new();
    for part in [front, back] {
        let options = XzOptions::with_preset(1);
        let mut writer = XzWriter::new(&mut compressed, options).expect("a writer");
        writer.write_all(part).expect("compresses");
        writer.finish().expect("compresses");
    }
    compressed
}

/// In two frames.
pub(crate) fn lz4(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = bytes.split_at(bytes.len() / 3);
    let mut compressed = Vec::new();
    for part in [front, back] {
        let mut encoder = FrameEncoder::new(&mut compressed);
        encoder.write_all(part).expect("compresses");
        encoder.finish().expect("compresses");
    }
    compressed
}

#[test]
fn xz_and_lz4_files_are_read() {
    let bytes = pcapng_of(&[10, 1000, 100_000]);
    let frames = read(&bytes).clean();
    for (tool, arguments) in [
        ("xz", &["-6e"][..]),
        ("xz", &["-T2", "--block-size=50KiB", "-C", "sha256"]),
        ("lz4", &["-B4D", "--content-size"]),
        ("lz4", &["-l"]),
    ] {
        let mut child = match Command::new(tool)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        {
            Ok(child) => child,
            Err(error) => {
                println!("SKIP: what {tool} writes is not read: {error}");
                continue;
            }
        };
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(&bytes).expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(read(&output.stdout).clean(), frames, "{tool} {arguments:?}");
    }
}

#[test]
fn a_file_is_read_from_its_path() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("small.pcap");
    File::create(&path)?.write_all(&pcap_of(&[1, 2, 3]))?;
    let mut reader = CaptureReader::open(&path, &pool()).expect("a capture");
    let mut lens = Vec::new();
    assert!(drain(&mut reader, 2, |frame| lens.push(frame.bytes().len())).is_none());
    assert_eq!(lens, [1, 2, 3]);
    let facts = reader.facts()[0];
    assert_eq!(facts.bytes_total, Some(24 + 3 * 16 + 6));
    assert_eq!(facts.format, "pcap, little-endian, microseconds");
    Ok(())
}
