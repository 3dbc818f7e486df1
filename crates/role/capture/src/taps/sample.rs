//! Whether two taps have packets in common: the first packets of each are looked for in the other.
//!
//! Files that follow each other, a ring's, share connections and no packets. To know that, each of
//! a few named files is read to its end once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use lineside_account::Budget;
use lineside_wire::Direction;

use super::again::Again;
use super::flows::{End, Key, MIRROR_NS, Packet, Placed, Tap, end_of, read_packets};

/// Frames of each of several files that are looked at.
const FRAMES: usize = 1024;

/// Frames of a file alone by which it is suspected: all that most captures pay.
const FRAMES_OF_ONE: usize = 256;

/// Frames of one that is: of a fast connection, the copies of the first packets come behind all of
/// those.
const FRAMES_OF_SUSPECT: usize = 1 << 16;

/// Packets that bring their connection no further that arouse suspicion.
const SUSPECT_MIN: u32 = 8;

/// Packets of a connection that must come twice in one file.
const TWICE_MIN: usize = 8;

/// Files further apart that share addresses and ports are of other times.
const APART_NS: i64 = 12 * 3600 * 1_000_000_000;

/// The first packets of a tap.
#[derive(Default)]
struct Sample {
    ends: HashMap<End, [IpAddr; 2]>,
    keys: BTreeSet<Key>,
    hosts: BTreeSet<[IpAddr; 2]>,
    first_ns: Option<i64>,
    /// Of one file alone, packets with bytes: how often each came.
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

/// Whether packets of a file bring their connections no further, as each second copy does: cheap,
/// for every capture of one file pays for it.
fn is_suspect(inputs: &[PathBuf], budget: &Budget, again: &mut Again) -> bool {
    // How far a direction of a connection has come, in one of a few places, which the last one has.
    const PLACES: usize = 256;
    let mut latest = [(0, 0); PLACES];
    let (mut count, mut behind) = (0, 0);
    read_packets(inputs, 0, budget, |placed| {
        let Packet { sequence, len, .. } = placed.packet;
        count += 1;
        if len > 0 && placed.key.is_tcp() {
            let who = placed.key.mixed(placed.direction, 0);
            let end = sequence.wrapping_add(len);
            let place = &mut latest[who as usize % PLACES];
            let is_behind = place.0 == who && end.wrapping_sub(place.1).cast_signed() <= 0;
            behind += u32::from(is_behind);
            // Where it has come to stays: copies that come much later are all behind it.
            if !is_behind {
                *place = (who, end);
            }
            again.seek(placed);
        }
        match count < FRAMES_OF_ONE && behind < SUSPECT_MIN {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    behind >= SUSPECT_MIN
}

impl Samples {
    /// Puts into `again` what the run looks for if one file shows nothing at its beginning.
    pub(super) fn of(inputs: &[PathBuf], budget: &Budget, again: &mut Again) -> Self {
        let mut samples = Self(BTreeMap::new());
        let is_alone = inputs.len() == 1;
        if is_alone && !is_suspect(inputs, budget, again) {
            return samples;
        }
        for input in 0..inputs.len() {
            let mut left = if is_alone { FRAMES_OF_SUSPECT } else { FRAMES };
            read_packets(inputs, input as u16, budget, |placed| {
                samples.add(placed, is_alone);
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
        }
        samples
    }

    fn add(&mut self, placed: &Placed, is_alone: bool) {
        let sample = self.0.entry(placed.tap).or_default();
        sample.first_ns.get_or_insert(placed.packet.stamp_ns);
        sample.hosts.insert(placed.key.hosts());
        sample.keys.insert(placed.key);
        let Some(end) = end_of(placed) else { return };
        sample.ends.insert(end, placed.key.hosts());
        if !is_alone {
            return;
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
        let mut sought = self.0[&other].ends.clone();
        sought.retain(|_, hosts| self.share_hosts(taps, *hosts));
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
        let apart_ns = of_one.first_ns?.abs_diff(of_other.first_ns?);
        let are_two = samples.next().is_none() && one.input != other.input;
        let share = !of_one.keys.is_disjoint(&of_other.keys);
        let share_packets = { of_one.ends.keys() }.any(|end| of_other.ends.contains_key(end));
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
