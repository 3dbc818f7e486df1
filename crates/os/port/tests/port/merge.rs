//! Several inputs as one.

use std::collections::VecDeque;
use std::io::Cursor;

use lineside_frame::{Burst, Descriptor, Frame};
use lineside_port::{
    CaptureReader, Facts, Live, Merge, MergeInput, Port, PortError, Receive, Received, Totals, list,
};
use lineside_testkit::memory::{Ends, Memory};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Bytes, pcap_of, pool};

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

/// An interface whose frames come in these bursts, after each of which it is quiet until the time
/// of its last frame.
struct Bursts {
    bursts: VecDeque<Vec<u64>>,
    is_quiet: bool,
    facts: Facts,
}

impl Bursts {
    /// `steps_ns` from each frame to the next.
    fn new(bursts: &[Vec<u64>]) -> Self {
        let mut now_ns = 0;
        let mut at = |step_ns: &u64| {
            now_ns += step_ns;
            now_ns
        };
        Self {
            bursts: { bursts.iter() }
                .map(|steps_ns| steps_ns.iter().map(&mut at).collect())
                .collect(),
            is_quiet: false,
            facts: Facts::default(),
        }
    }

    fn stamps_ns(&self) -> Vec<Option<u64>> {
        self.bursts.iter().flatten().copied().map(Some).collect()
    }
}

impl Ends for Bursts {
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let Some(stamps_ns) = self.bursts.front_mut() else {
            return Ok(Received::End);
        };
        self.is_quiet = !self.is_quiet;
        if self.is_quiet {
            let next = stamps_ns.first().map_or(0, |stamp_ns| stamp_ns - 1);
            let until_ns = next as i64;
            return Ok(Received::Idle { until_ns });
        }
        let count = stamps_ns.len().min(max);
        for stamp_ns in stamps_ns.drain(..count) {
            self.facts.frames += 1;
            self.facts.bytes += 4;
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns as i64),
                number: self.facts.frames,
                ..Descriptor::default()
            };
            burst.push(Frame::copied(&[0; 4], descriptor));
        }
        if stamps_ns.is_empty() {
            self.bursts.pop_front();
        }
        Ok(Received::Frames(count))
    }

    fn known(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }

    fn give_back(&mut self, ahead: &mut Burst) {
        self.facts.take_back(ahead);
    }
}

/// Against the plainest way: look at all next frames, take the earliest, again and again. Returns
/// inputs and numbers.
fn by_stamp(inputs: &[Vec<Option<u64>>]) -> Vec<(u16, u64)> {
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
    expected
}

/// Inputs and numbers of all frames, which must be counted from 1 on.
fn merged(merge: &mut Merge, max: usize) -> Vec<(u16, u64)> {
    let (mut burst, mut merged) = (Burst::new(), Vec::new());
    loop {
        let received = merge.receive(&mut burst, max).expect("nothing is wrong");
        match received {
            Received::Frames(count) => assert!(count == burst.len() && (1..=max).contains(&count)),
            _ => assert!(burst.is_empty(), "{received:?}"),
        }
        for frame in burst.drain(..) {
            let descriptor = frame.descriptor();
            merged.push((descriptor.input, descriptor.number));
            assert_eq!(descriptor.ordinal, merged.len() as u64);
        }
        if received == Received::End {
            return merged;
        }
    }
}

/// As [`Merge::totals`], the long way.
fn totals(merge: &Merge) -> Totals {
    let mut totals = Totals::default();
    for facts in merge.facts() {
        totals.bytes += facts.bytes;
        totals.lapses += facts.lapses;
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_come_by_stamp(
        inputs in vec(vec(prop::option::weighted(0.9, 0_u64..300), 0..200), 0..5),
        max in 1_usize..100,
    ) {
        let mut merge = Merge::new(inputs.iter().map(|stamps| input(stamps)));
        prop_assert_eq!(merged(&mut merge, max), by_stamp(&inputs));
        prop_assert_eq!(merge.facts().len(), inputs.len());
        prop_assert_eq!(merge.totals(), totals(&merge));
    }

    /// Stamps are often equal, and as often run backwards.
    #[test]
    fn frames_of_many_inputs_come_by_stamp(
        inputs in vec(vec(prop::option::weighted(0.95, 0_u64..9), 0..12), 0..80),
        max in 1_usize..20,
    ) {
        let mut merge = Merge::new(inputs.iter().map(|stamps| input(stamps)));
        prop_assert_eq!(merged(&mut merge, max), by_stamp(&inputs));
        prop_assert_eq!(merge.totals(), totals(&merge));
    }

    #[test]
    fn interfaces_and_files_come_by_stamp(
        files in vec(vec(prop::option::weighted(0.9, 0_u64..60), 0..40), 0..4),
        bursts in vec(vec(vec(1_u64..9, 1..9), 0..4), 1..3),
        max in 1_usize..100,
    ) {
        let lives: Vec<_> = { bursts.iter() }.map(|bursts| Memory(Bursts::new(bursts))).collect();
        let mut inputs = files.clone();
        inputs.extend(lives.iter().map(|live| live.0.stamps_ns()));
        let files = files.iter().map(|stamps| MergeInput::from(input(stamps)));
        let lives = lives.into_iter().map(|live| MergeInput::from(Box::new(live) as Box<dyn Live>));
        let mut merge = Merge::new(files.chain(lives));
        prop_assert_eq!(merged(&mut merge, max), by_stamp(&inputs));
        prop_assert_eq!(merge.totals(), totals(&merge));
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
