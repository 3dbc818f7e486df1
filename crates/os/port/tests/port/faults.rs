//! Captures that are cut, damaged, foreign or not there.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_port::{BLOCK_LEN, CaptureReader, PoolConfig, PortError, Receive, Received};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::formats::{gzip, lz4, xz, zstd};
use crate::support::{pcap_of, pcapng_of, pool, read};

const LENS: [usize; 5] = [20, 0, 33, 60, 1];

#[test]
fn a_cut_capture_gives_every_frame_before_the_cut() {
    for (whole, is_pcapng) in [(pcap_of(&LENS), false), (pcapng_of(&LENS), true)] {
        let frames = read(&whole).clean();
        // Where each frame's record ends, and where the file may end without a record being cut.
        let mut ends = Vec::new();
        let mut clean = vec![if is_pcapng { 28 + 20 } else { 24 }];
        for len in LENS {
            let begin = clean[clean.len() - 1];
            if is_pcapng {
                ends.push(begin + 32 + len.next_multiple_of(4));
                clean.extend([ends[ends.len() - 1], ends[ends.len() - 1] + 16]);
            } else {
                ends.push(begin + 16 + len);
                clean.push(begin + 16 + len);
            }
        }
        if is_pcapng {
            clean.push(28);
        }
        for cut in 0..=whole.len() {
            let outcome = read(&whole[..cut]);
            let count = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(outcome.frames, frames[..count], "cut at {cut}");
            match outcome.error {
                Some(PortError::Empty { .. }) => assert_eq!(cut, 0),
                Some(PortError::HeaderCut { len, .. }) => {
                    assert!(cut < 24 && len == cut as u64);
                }
                Some(error) => panic!("{error}"),
                None => {
                    let is_warned = outcome.facts.warnings.len();
                    assert_eq!(
                        is_warned,
                        usize::from(!clean.contains(&cut)),
                        "cut at {cut}"
                    );
                    if let Some(warning) = outcome.facts.warnings.first() {
                        let begin = clean.iter().filter(|&&end| end < cut).max();
                        let begin = format!("offset {} ", begin.unwrap_or(&0));
                        assert!(warning.contains(&begin), "{warning}, cut at {cut}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_cut_compressed_capture_gives_its_whole_frames() {
    let frames = read(&pcap_of(&LENS)).clean();
    let pcap = &pcap_of(&LENS);
    for whole in [gzip(pcap), zstd(pcap), xz(pcap), lz4(pcap)] {
        let mut counts = Vec::new();
        for cut in 0..=whole.len() {
            let outcome = read(&whole[..cut]);
            let count = outcome.frames.len();
            assert_eq!(outcome.frames, frames[..count], "cut at {cut}");
            counts.push(count);
            assert!(
                matches!(
                    outcome.error,
                    None | Some(
                        PortError::Empty { .. }
                            | PortError::HeaderCut { .. }
                            | PortError::Foreign { .. }
                            // Within the first bytes of a later stream of xz.
                            | PortError::Decompress { tool: "xz -t", .. }
                    )
                ),
                "{:?}",
                outcome.error
            );
        }
        assert!(counts.is_sorted() && counts.last() == Some(&LENS.len()));
    }
}

/// What the decoder cannot give back is the chunk of LZMA2 that is cut: at most 64 KiB of what does
/// not compress.
#[test]
fn a_cut_xz_loses_no_more_than_a_chunk() {
    let mut pcap = pcap_of(&[1400; 180]);
    let mut random = 1_u64;
    for record in pcap[24..].chunks_mut(16 + 1400) {
        record[16..].fill_with(|| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 56) as u8
        });
    }
    let frames = read(&pcap).clean();
    let whole = xz(&pcap);
    let outcome = read(&whole[..whole.len() - 500]);
    let count = outcome.frames.len();
    assert_eq!(outcome.frames, frames[..count]);
    assert!(
        count * 1416 + (64 << 10) + (4 << 10) > pcap.len(),
        "{count} frames"
    );
    let warnings = outcome.facts.warnings;
    assert!(warnings[0].contains("the xz data are cut"), "{warnings:?}");
}

#[test]
fn damage_is_reported_after_the_frames_before_it() {
    let mut bytes = pcap_of(&[20, 20, 20]);
    let third = 24 + 2 * 36;
    bytes[third + 8..third + 12].copy_from_slice(&300_000_u32.to_le_bytes());
    let outcome = read(&bytes);
    assert_eq!(outcome.frames.len(), 2);
    let message = outcome.error.expect("damaged").to_string();
    assert!(
        message.starts_with("'test' at offset 96 is damaged: a frame claims 300000"),
        "{message}"
    );

    let outcome = read(&zstd(&bytes));
    assert_eq!(outcome.frames.len(), 2);
    let message = outcome.error.expect("damaged").to_string();
    assert!(
        message.contains("offset 96 of the decompressed data"),
        "{message}"
    );

    let whole = pcapng_of(&[20, 20]);
    let second = 28 + 20 + 52 + 16;
    for (offset, value, what) in [
        (4, 8_u32, "fewer than 12"),
        (4, 1 << 24, "at most"),
        (8, 1, "has described 1"),
        (20, 400, "has room for 20"),
        (48, 44, "at its end"),
    ] {
        let mut bytes = whole.clone();
        bytes[second + offset..][..4].copy_from_slice(&value.to_be_bytes());
        let outcome = read(&bytes);
        assert_eq!(outcome.frames.len(), 1);
        let message = outcome.error.expect("damaged").to_string();
        assert!(
            message.contains(what) && message.contains("offset 116"),
            "{message}"
        );
    }

    let mut compressed = zstd(&pcap_of(&[20; 500]));
    let last = compressed.len() - 5;
    compressed[last] ^= 0xff;
    let outcome = read(&compressed);
    assert!(outcome.frames.len() > 100);
    assert!(
        matches!(outcome.error, Some(PortError::Decompress { .. })),
        "{:?}",
        outcome.error
    );
}

#[test]
fn files_that_are_no_capture_are_named() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("input");
    let message = |path: &Path| match CaptureReader::open(path, &pool()) {
        Ok(_) => panic!("no capture"),
        Err(error) => error.to_string(),
    };
    assert!(message(&path).contains("cannot open"), "{}", message(&path));
    assert!(message(folder.path()).contains("is a folder"));
    for (bytes, what) in [
        (&b""[..], "is empty"),
        (
            b"frame,time\n1,0.5\n and so on",
            "begins with 66 72 61 6d 65 2c 74 69, like text",
        ),
        (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04", "a snoop file"),
        (b"\x5d\0\0\x80\0\xff\xff\xff", "xz -d"),
        (b"iptrace 2.0\0\0\0\0\x22", "an iptrace file"),
        (b"TR\0d\0\0\0\0", "a nettl file"),
        (b"GMBU\0\x02\x01\0", "editcap -F nsecpcap"),
        (&[&[b'f'; 257][..], b"ustar", &[0; 250]].concat(), "tar xf"),
        (
            &gzip(&[&[b'f'; 257][..], b"ustar", &[0; 250]].concat()),
            "tar xf",
        ),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "ends after 8 bytes"),
        (b"\x0a\x0d\x0d\x0a\0\0", "ends after 6 bytes"),
        (b"\0\x01\x02\x03\x04\x05", "begins with 00 01 02 03 04 05"),
        (&gzip(b"hello, this is some text"), "like text"),
        (&gzip(b""), "is empty"),
        (&zstd(&gzip(&pcap_of(&[1]))), "unpack the outer one"),
    ] {
        fs::write(&path, bytes)?;
        assert!(message(&path).contains(what), "{what}: {}", message(&path));
    }
    Ok(())
}

#[test]
fn a_failing_disk_is_reported_with_its_offset() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let bytes = pcap_of(&[10, 10]);
    let source = Cursor::new(bytes.clone()).chain(Failing);
    let mut reader = CaptureReader::new(Box::new(source), "test", &pool()).expect("a header");
    let mut burst = Burst::new();
    assert_eq!(
        reader.receive(&mut burst, 9).expect("frames"),
        Received::Frames(2)
    );
    let error = reader
        .receive(&mut burst, 9)
        .expect_err("the disk is gone")
        .to_string();
    assert_eq!(
        error,
        format!(
            "cannot read 'test' at offset {}: the disk is gone",
            bytes.len()
        )
    );
    assert_eq!(
        reader.receive(&mut burst, 9).expect("an end"),
        Received::End
    );
}

#[test]
fn held_frames_empty_the_pool_and_nothing_is_lost() {
    let lens = vec![1000; 3000];
    let bytes = pcap_of(&lens);
    let budget = Budget::new(2 * BLOCK_LEN);
    let config = PoolConfig::new(budget.clone(), usize::MAX);
    let source = Box::new(Cursor::new(bytes));
    let mut reader = CaptureReader::new(source, "test", &config).expect("a header");
    let (mut burst, mut held, mut empty_count) = (Burst::new(), Vec::new(), 0);
    let mut numbers = Vec::new();
    loop {
        match reader.receive(&mut burst, 100).expect("whole") {
            Received::Frames(_) => {
                numbers.extend(burst.iter().map(|frame| frame.descriptor().number));
                held.append(&mut burst);
            }
            Received::PoolEmpty => {
                empty_count += 1;
                held.clear();
            }
            Received::Interrupted | Received::Idle { .. } => {}
            Received::End => break,
        }
    }
    assert!(numbers.iter().copied().eq(1..=3000));
    assert!((2..10).contains(&empty_count), "{empty_count}");
    assert!(budget.peak_bytes() <= budget.limit_bytes());
}

#[test]
fn a_budget_without_room_is_refused() {
    for (limit, bytes) in [
        (BLOCK_LEN, pcap_of(&[1])),
        (2 * BLOCK_LEN, gzip(&pcap_of(&[1]))),
    ] {
        let config = PoolConfig::new(Budget::new(limit), usize::MAX);
        let reader = CaptureReader::new(Box::new(Cursor::new(bytes)), "test", &config);
        let Err(error @ PortError::Memory { .. }) = reader else {
            panic!("there is no room");
        };
        assert!(error.to_string().contains("raise --memory"));
        let budget = config.budget.clone();
        drop(config);
        assert_eq!(budget.used_bytes(), 0);
    }
}

proptest! {
    #[test]
    fn changed_captures_never_panic(
        lens in vec(0_usize..100, 0..8),
        is_pcapng in any::<bool>(),
        wrap in 0_usize..5,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = if is_pcapng { pcapng_of(&lens) } else { pcap_of(&lens) };
        let change = |bytes: &mut Vec<u8>| {
            for (index, value) in &changes {
                let at = index.index(bytes.len());
                bytes[at] = *value;
            }
        };
        if wrap == 0 {
            change(&mut bytes);
        } else {
            bytes = [gzip, zstd, xz, lz4][wrap - 1](&bytes);
            change(&mut bytes);
        }
        bytes.truncate(cut.index(bytes.len() * 4));
        let outcome = read(&bytes);
        prop_assert!(outcome.frames.len() <= bytes.len());
    }

    #[test]
    fn random_bytes_after_a_header_never_panic(bytes in vec(any::<u8>(), 0..400), kind in 0_u8..4) {
        let mut file = match kind {
            0 => pcap_of(&[]),
            1 => pcapng_of(&[]),
            2 => vec![0x1f, 0x8b, 8],
            _ => vec![0x28, 0xb5, 0x2f, 0xfd],
        };
        file.extend(bytes);
        read(&file);
    }
}
