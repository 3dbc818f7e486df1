//! Several inputs as one, and captures that are written.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::{CaptureReader, CaptureWriter, Merge, Port, PortError, Received};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Bytes, Expected, Outcome, drain, pcap_of, pool, read};

/// An input of frames with these stamps, of which `None` is written as a simple packet block.
fn input(stamps_ns: &[Option<u64>]) -> Box<dyn Port> {
    let mut file = Bytes::new(false);
    file.section();
    file.interface(1, 0, |body| body.option(9, &[9]));
    for (number, stamp_ns) in stamps_ns.iter().enumerate() {
        let bytes = (number as u32).to_be_bytes();
        match stamp_ns {
            Some(stamp_ns) => file.enhanced(0, *stamp_ns, 4, &bytes),
            None => file.block(3, |body| {
                body.u32(4);
                body.padded(&bytes);
            }),
        }
    }
    let source = Box::new(Cursor::new(file.bytes));
    Box::new(CaptureReader::new(source, "test", &pool()).expect("a header"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against the plainest way: look at all next frames, take the earliest, again and again.
    #[test]
    fn frames_come_by_stamp(
        inputs in vec(vec(prop::option::weighted(0.9, 0_u64..300), 0..200), 0..5),
        max in 1_usize..100,
    ) {
        let mut next = vec![0; inputs.len()];
        let mut expected = Vec::new();
        while let Some((_, index)) = inputs
            .iter()
            .enumerate()
            .filter_map(|(index, stamps)| {
                let stamp = stamps.get(next[index])?;
                Some((stamp.map_or(-1, |stamp| stamp as i64), index))
            })
            .min()
        {
            expected.push((index as u16, next[index] as u64 + 1));
            next[index] += 1;
        }

        let ports = inputs.iter().map(|stamps| input(stamps));
        let mut merge = Merge::new(ports.collect());
        let mut merged = Vec::new();
        let error = drain(&mut merge, max, |frame| {
            let descriptor = frame.descriptor();
            merged.push((descriptor.input, descriptor.number));
            assert_eq!(descriptor.ordinal, merged.len() as u64);
        });
        prop_assert!(error.is_none());
        prop_assert_eq!(merged, expected);
        prop_assert_eq!(merge.facts().len(), inputs.len());
    }

    #[test]
    fn what_is_written_is_read(
        frames in vec((0_i64..4_294_967_296_000_000_000, 0_u32..100, vec(any::<u8>(), 0..100)), 0..20),
        link_type in any::<u16>(),
    ) {
        let written: Vec<Expected> = frames
            .into_iter()
            .map(|(stamp_ns, cut_len, bytes)| Expected {
                stamp_ns: Some(stamp_ns),
                wire_len: bytes.len() as u32 + cut_len,
                link_type,
                bytes,
            })
            .collect();
        let file = Shared::default();
        let mut writer = CaptureWriter::new(Box::new(file.clone()), "out", LinkType(link_type)).expect("room");
        let mut burst: Burst = written.iter().map(frame).collect();
        prop_assert_eq!(writer.transmit(&mut burst).expect("room"), written.len());
        prop_assert!(burst.is_empty() && writer.reclaim() == 0);
        let bytes_count = writer.facts()[0].bytes;
        writer.finish().expect("room");
        let bytes = file.bytes.lock().expect("no panic").clone();
        prop_assert_eq!(bytes.len() as u64, bytes_count);
        prop_assert_eq!(read(&bytes).clean(), written);
    }
}

#[test]
fn an_input_that_fails_leaves_the_others() {
    let mut damaged = pcap_of(&[10, 10]);
    let second = 24 + 26;
    damaged[second + 8..second + 12].fill(0xff);
    let reader = |bytes: Vec<u8>| -> Box<dyn Port> {
        let source = Box::new(Cursor::new(bytes));
        Box::new(CaptureReader::new(source, "test", &pool()).expect("a header"))
    };
    let mut merge = Merge::new(vec![reader(damaged), reader(pcap_of(&[10; 5]))]);
    let (mut burst, mut errors) = (Burst::new(), 0);
    loop {
        match merge.receive(&mut burst, 100) {
            Ok(Received::End) => break,
            Ok(_) => {}
            Err(PortError::Damaged { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let from: Vec<u16> = burst.iter().map(|frame| frame.descriptor().input).collect();
    assert_eq!((from, errors), (vec![0, 1, 1, 1, 1, 1], 1));
    let error = merge.transmit(&mut burst).expect_err("read only");
    assert_eq!(
        error.to_string(),
        "'test, test' is read, it cannot be sent to"
    );
}

#[test]
fn a_frame_that_does_not_fit_the_file_stays_in_the_burst() {
    let mut writer = CaptureWriter::new(Box::new(io::sink()), "out", LinkType(1)).expect("a sink");
    let of = |link_type, stamp_ns| {
        frame(&Expected {
            stamp_ns,
            wire_len: 4,
            link_type,
            bytes: b"data".to_vec(),
        })
    };
    let mut burst = vec![
        of(1, Some(5)),
        of(1, None),
        of(1, Some(-1)),
        of(101, Some(6)),
        of(1, Some(7)),
    ];
    let error = writer.transmit(&mut burst).expect_err("another link type");
    assert_eq!(
        error.to_string(),
        "'out' holds frames of link type 1, this one is of 101: write one file for each"
    );
    assert_eq!(burst.len(), 2);
    let facts = writer.facts()[0];
    assert_eq!((facts.frames, facts.warnings.len()), (3, 1));
}

#[test]
fn a_full_disk_is_told() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer =
        CaptureWriter::new(Box::new(Full), "out", LinkType(1)).expect("still buffered");
    let outcome: Outcome = read(&pcap_of(&[100_000; 3]));
    let mut burst: Burst = outcome.clean().iter().map(frame).collect();
    let error = writer.transmit(&mut burst).expect_err("full").to_string();
    assert!(error.starts_with("cannot write 'out' at offset"), "{error}");
}

fn frame(expected: &Expected) -> Frame {
    let descriptor = Descriptor {
        stamp_ns: expected.stamp_ns,
        wire_len: expected.wire_len,
        link_type: LinkType(expected.link_type),
        ..Descriptor::default()
    };
    Frame::copied(&expected.bytes, descriptor)
}

#[derive(Clone, Default)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
