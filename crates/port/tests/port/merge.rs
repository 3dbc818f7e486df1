//! Several inputs as one.

use std::io::Cursor;

use lineside_frame::Burst;
use lineside_port::{CaptureReader, Merge, Port, PortError, Receive, Received, list};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Bytes, drain, pcap_of, pool};

/// An input of frames with these stamps, of which `None` is written as a simple packet block.
fn input(stamps_ns: &[Option<u64>]) -> CaptureReader {
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
    CaptureReader::new(source, "test", &pool()).expect("a header")
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
        let mut merge = Merge::new(ports);
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
}

#[test]
fn an_input_that_fails_leaves_the_others() {
    let mut damaged = pcap_of(&[10, 10]);
    let second = 24 + 26;
    damaged[second + 8..second + 12].fill(0xff);
    let reader = |bytes: Vec<u8>| {
        let source = Box::new(Cursor::new(bytes));
        CaptureReader::new(source, "test", &pool()).expect("a header")
    };
    let mut merge = Merge::new([reader(damaged), reader(pcap_of(&[10; 5]))]);
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
}

#[test]
fn frames_ahead_at_an_end_count_as_not_received() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["1.pcap", "2.pcap"] {
        std::fs::write(folder.path().join(name), pcap_of(&[10; 5])).expect("room");
    }
    let (files, _) = list(folder.path(), &pool()).expect("captures");
    let mut merge = Merge::new(files);
    let mut burst = Burst::new();
    while !matches!(merge.receive(&mut burst, 3), Ok(Received::End)) {}
    assert_eq!(burst.len(), 10);
    let mut ahead = burst.split_off(3);
    merge.leave(&mut ahead);
    let received: u64 = merge.facts().iter().map(|facts| facts.frames).sum();
    assert_eq!(received, 3);
}
