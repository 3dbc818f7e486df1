//! Whether two taps have packets in common: the first packets of each are looked for in the other.
//!
//! Files that follow each other, a ring's, share connections and no packets. To know that, each of
//! a few named files is read to its end once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use lineside_account::Budget;
use lineside_wire::Direction;

use super::flows::{Key, Packet, Placed, Tap, read_packets};

/// Frames of a file that are looked at. Of one file alone fewer: most are of one tap, and this is
/// all that they pay.
const FRAMES: usize = 4096;
const FRAMES_OF_ONE: usize = 1024;

/// Frames of a file alone whose first ones look like two taps': of a fast connection, the copies of
/// the first packets come behind all of those.
const FRAMES_OF_SUSPECT: usize = 1 << 16;

/// Packets that lie behind others of their connection, or came before, that arouse suspicion.
const SUSPECT_MIN: u32 = 8;

/// Packets of a connection that must come twice in one file.
const TWICE_MIN: usize = 8;

/// A copy within this is a mirror's (`--duplicate-window`), unless another interface shows it.
const MIRROR_NS: i64 = 1_000_000;

/// Files further apart that share addresses and ports are of other times.
const APART_NS: i64 = 12 * 3600 * 1_000_000_000;

/// The end of a packet in its connection; also segments that an adapter cuts or joins share some
/// of these.
type End = (Key, Direction, u32);

/// The first packets of a tap.
#[derive(Default)]
struct Sample {
    ends: HashSet<End>,
    hosts: HashSet<[IpAddr; 2]>,
    first_ns: Option<i64>,
    /// How far each direction of a connection has come.
    latest: HashMap<(Key, Direction), u32>,
    /// Packets that did not go further.
    behind: u32,
    /// Packets with bytes: how often each came, and the least time between two.
    times: HashMap<(Key, Direction, u32, u32), Twice>,
}

#[derive(Clone, Copy)]
struct Twice {
    count: u32,
    last_ns: i64,
    is_mirrored: bool,
}

/// The first packets of all taps.
pub(super) struct Samples(BTreeMap<Tap, Sample>);

fn end_of(placed: &Placed) -> Option<End> {
    let Packet { sequence, len, .. } = placed.packet;
    (len > 0).then(|| (placed.key, placed.direction, sequence.wrapping_add(len)))
}

impl Samples {
    pub(super) fn of(inputs: &[PathBuf], budget: &Budget) -> Self {
        let mut samples = Self(BTreeMap::new());
        let frames_max = match inputs.len() {
            1 => FRAMES_OF_ONE,
            _ => FRAMES,
        };
        for input in 0..inputs.len() {
            let mut count = 0;
            read_packets(inputs, input as u16, budget, |placed| {
                samples.add(placed);
                count += 1;
                let goes_on = count < frames_max
                    || inputs.len() == 1 && count < FRAMES_OF_SUSPECT && samples.are_suspect();
                match goes_on {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
        }
        samples
    }

    fn are_suspect(&self) -> bool {
        self.0.values().any(|sample| sample.behind >= SUSPECT_MIN)
    }

    fn add(&mut self, placed: &Placed) {
        let sample = self.0.entry(placed.tap).or_default();
        sample.first_ns.get_or_insert(placed.packet.stamp_ns);
        sample.hosts.insert(placed.key.hosts());
        let Some(end) = end_of(placed) else { return };
        sample.ends.insert(end);
        let (key, direction, number) = end;
        let latest = sample.latest.entry((key, direction)).or_insert(number);
        match number.wrapping_sub(*latest).cast_signed() {
            1.. => *latest = number,
            behind => sample.behind += u32::from(key.is_tcp() && behind < 0),
        }
        let Packet {
            sequence,
            mark,
            stamp_ns,
            ..
        } = placed.packet;
        let key = (placed.key, placed.direction, sequence, mark);
        let twice = sample.times.entry(key).or_insert(Twice {
            count: 0,
            last_ns: stamp_ns,
            is_mirrored: false,
        });
        twice.is_mirrored |= twice.count > 0 && stamp_ns - twice.last_ns < MIRROR_NS;
        twice.count += 1;
        twice.last_ns = stamp_ns;
    }

    /// Whether both taps have packets between two hosts.
    pub(super) fn share_hosts(&self, taps: [Tap; 2], hosts: [IpAddr; 2]) -> bool {
        taps.iter().all(|tap| self.0[tap].hosts.contains(&hosts))
    }

    /// The taps that have packets in common. A tap with itself: one file has each packet twice.
    /// None if there are more taps than `taps_max`.
    pub(super) fn pairs(
        &self,
        inputs: &[PathBuf],
        taps_max: usize,
        budget: &Budget,
    ) -> Vec<[Tap; 2]> {
        let taps: Vec<_> = self.0.keys().copied().collect();
        let mut pairs = Vec::new();
        if taps.len() > taps_max {
            return pairs;
        }
        for (at, &one) in taps.iter().enumerate() {
            if self.comes_twice(one) {
                pairs.push([one, one]);
            }
            for &other in &taps[at + 1..] {
                if self.has_of(inputs, one, other, budget)
                    || self.has_of(inputs, other, one, budget)
                {
                    pairs.push([one, other]);
                }
            }
        }
        pairs
    }

    /// Whether most packets of a connection come twice at a tap, later than a mirror's copies.
    fn comes_twice(&self, tap: Tap) -> bool {
        let mut connections = HashMap::<Key, [usize; 2]>::new();
        for ((key, ..), twice) in &self.0[&tap].times {
            let counts = connections.entry(*key).or_default();
            counts[0] += 1;
            counts[1] += usize::from(twice.count == 2 && !twice.is_mirrored);
        }
        let mut counts = connections.values();
        // Those at the end of the sample may come again behind it.
        counts.any(|&[all, twice]| twice >= TWICE_MIN && 2 * twice > all)
    }

    /// Whether half of the first packets of `other` are in `one`, of hosts that both know.
    fn has_of(&self, inputs: &[PathBuf], one: Tap, other: Tap, budget: &Budget) -> bool {
        let taps = [one, other];
        let ends = self.0[&other].ends.iter();
        let mut sought: HashSet<&End> = ends
            .filter(|(key, ..)| self.share_hosts(taps, key.hosts()))
            .collect();
        let all = sought.len();
        if all == 0 {
            return false;
        }
        read_packets(inputs, one.input, budget, |placed| {
            if placed.tap == one
                && let Some(end) = end_of(placed)
            {
                sought.remove(&end);
            }
            match 2 * sought.len() <= all {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        2 * sought.len() <= all
    }

    /// Two files that look like both ends of a path and are of different days.
    pub(super) fn apart(&self, inputs: &[PathBuf]) -> Option<String> {
        let mut samples = self.0.iter();
        let (one, of_one) = samples.next()?;
        let (other, of_other) = samples.next()?;
        let keys = |sample: &Sample| -> HashSet<Key> {
            sample.ends.iter().map(|(key, ..)| *key).collect()
        };
        let apart_ns = of_one.first_ns?.abs_diff(of_other.first_ns?);
        let are_two = samples.next().is_none() && one.input != other.input;
        let share = !keys(of_one).is_disjoint(&keys(of_other));
        let share_packets = !of_one.ends.is_disjoint(&of_other.ends);
        (are_two && share && !share_packets && apart_ns > APART_NS as u64).then(|| {
            format!(
                "{} and {} begin {} h apart and have connections between the same ends, but no \
                 packet in common at their beginnings: they are read as captures of two times, not \
                 of two taps",
                inputs[usize::from(one.input)].display(),
                inputs[usize::from(other.input)].display(),
                apart_ns / 3_600_000_000_000
            )
        })
    }
}
