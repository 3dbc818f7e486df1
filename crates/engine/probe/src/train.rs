//! Rate and bucket of a path, from a train of packets that came faster than it lets them go.
//!
//! ```text
//! bytes ▲                 · ·        from the knee on: bytes = bucket + rate x time
//!       │             · ·
//!       │         · ·   knee: the bucket is empty
//!       │        ·
//!       │       ·       as fast as they came
//!       └──────·───────────────► time since the first could have come
//! ```
//!
//! Clocks of the two ends need not agree: times of sending are compared with each other only, and
//! so are times of arrival.

use lineside_time::Nanoseconds;
use serde::Serialize;

/// A packet of a train that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// When it was sent, by the sender's clock.
    pub sent_ns: Nanoseconds,
    /// When it came, by the receiver's clock.
    pub at_ns: Nanoseconds,
    /// Its bytes, with all headers that count.
    pub bytes: u32,
}

/// What a train shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Fit {
    /// It came as fast as it was sent: the path is at least as fast.
    Free {
        /// How fast it came.
        bits_per_second: f64,
    },
    /// The path let it go more slowly.
    Limited {
        /// Its rate.
        bits_per_second: f64,
        /// What leaves at once after a pause. A path without a bucket looks like one of a packet.
        bucket_bytes: f64,
        /// Packets that waited for the rate.
        packets: usize,
        /// How long they came.
        span_ns: Nanoseconds,
    },
    /// Too few packets came.
    Unclear,
}

/// Packets that a train must bring.
const PACKETS_MIN: usize = 8;
/// A path is slower than its sender if packets come at less than this share of the rate at which
/// they were sent: what comes as it was sent differs by the noise of two clocks' reading.
const SLOWER: f64 = 0.9;

impl Fit {
    /// The fit of a train's packets, in any order.
    pub fn of(passed: &mut [Passed]) -> Self {
        if passed.len() < PACKETS_MIN {
            return Self::Unclear;
        }
        let least_ns = passed
            .iter()
            .map(|packet| packet.at_ns - packet.sent_ns)
            .min();
        let first_ns = passed.iter().map(|packet| packet.sent_ns).min();
        let origin_ns = first_ns.unwrap_or(0) + least_ns.unwrap_or(0);
        let offered = offered(passed);
        passed.sort_unstable_by_key(|packet| packet.at_ns);
        let mut bytes = 0.0;
        let points: Vec<(f64, f64)> = { passed.iter() }
            .map(|packet| {
                bytes += f64::from(packet.bytes);
                ((packet.at_ns - origin_ns) as f64, bytes)
            })
            .collect();
        let frame = bytes / passed.len() as f64;
        let Some((start, (slope, intercept))) = saturated(&points, frame) else {
            return Self::Unclear;
        };
        let bits_per_second = slope * 8e9;
        if bits_per_second >= SLOWER * offered {
            return Self::Free { bits_per_second };
        }
        Self::Limited {
            bits_per_second,
            bucket_bytes: intercept.max(0.0),
            packets: points.len() - start,
            span_ns: (points[points.len() - 1].0 - points[start].0) as i64,
        }
    }
}

/// The rate at which packets were sent, by the median of their gaps: pauses of the sender do not
/// count. Packets that were lost between two leave a longer gap with their bytes missing.
fn offered(passed: &mut [Passed]) -> f64 {
    passed.sort_unstable_by_key(|packet| packet.sent_ns);
    let gap = |pair: &[Passed]| (pair[1].sent_ns - pair[0].sent_ns).max(1);
    let mut gaps: Vec<_> = passed.windows(2).map(gap).collect();
    gaps.sort_unstable();
    let bytes: f64 = passed.iter().map(|packet| f64::from(packet.bytes)).sum();
    bytes / passed.len() as f64 * 8e9 / gaps[gaps.len() / 2] as f64
}

/// Where the packets begin that wait for the rate, and the line through them: bytes a nanosecond,
/// and bytes at the beginning. No point lies above the line, but for noise: not those before the
/// bucket is empty, and not those that a stall of either end delays. So the line through the later
/// half of the time, in which the bucket of a train that is long enough is empty, begins where a
/// point first reaches it.
fn saturated(points: &[(f64, f64)], frame: f64) -> Option<(usize, (f64, f64))> {
    let end = points.last()?.0;
    let mut start = points.partition_point(|point| point.0 < end / 2.0);
    let mut line = line(&points[start..])?;
    for _ in 0..4 {
        let (slope, intercept) = line;
        let reaches = |point: &(f64, f64)| point.1 > intercept + slope * point.0 - frame;
        let next = points.iter().position(reaches)?;
        if next == start {
            break;
        }
        start = next;
        line = self::line(&points[start..])?;
    }
    Some((start, line))
}

/// A line that a stall does not turn: its slope is the median of the slopes between points that are
/// a quarter of all apart, of which few span a stall; its value at 0 is that of the upper quarter
/// of the earlier points, since a stall is no point's gain.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < PACKETS_MIN / 2 {
        return None;
    }
    let apart = (points.len() / 4).max(1);
    let pairs = points.iter().zip(&points[apart..]);
    let slope = |(one, other): (&(f64, f64), &(f64, f64))| (other.1 - one.1) / (other.0 - one.0);
    let mut slopes: Vec<f64> = pairs.map(slope).filter(|slope| slope.is_finite()).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let slope = *slopes.get(slopes.len() / 2)?;
    let early = &points[..points.len().div_ceil(2)];
    let mut values: Vec<f64> = early
        .iter()
        .map(|point| point.1 - slope * point.0)
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    (slope > 0.0).then_some((slope, values[values.len() * 3 / 4]))
}

/// The rate of a way, from several trains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateFound {
    /// The median of the trains: of frames with their Ethernet headers, as `emulate` counts them.
    pub bits_per_second: u64,
    /// The path may be faster: packets came as fast as they were sent.
    pub is_at_least: bool,
    /// What leaves at once after a pause, in bytes: 0 without a bucket.
    pub bucket_bytes: u64,
    /// How many trains there were, of those that count.
    pub trains: usize,
    /// The lowest rate of one of them.
    pub lowest_bits_per_second: u64,
    /// The highest rate of one of them.
    pub highest_bits_per_second: u64,
}

impl RateFound {
    /// From the fits of trains of packets of this many bytes: of those that were limited, if more
    /// than a half were. `has_bucket` says whether a packet alone passes without waiting for its
    /// own bits, which distinguishes a bucket of one packet from none.
    pub(crate) fn of(fits: &[Fit], frame_bytes: u32, has_bucket: bool) -> Option<Self> {
        let limited = |fit: &Fit| match *fit {
            Fit::Limited {
                bits_per_second,
                bucket_bytes,
                ..
            } => Some((bits_per_second, bucket_bytes)),
            _ => None,
        };
        let free = |fit: &Fit| match *fit {
            Fit::Free { bits_per_second } => Some((bits_per_second, 0.0)),
            _ => None,
        };
        let (slow, fast): (Vec<_>, Vec<_>) = (
            fits.iter().filter_map(limited).collect(),
            fits.iter().filter_map(free).collect(),
        );
        let is_at_least = slow.len() * 2 <= fast.len();
        let mut found = if is_at_least { fast } else { slow };
        found.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let (lowest, highest) = (found.first()?.0, found.last()?.0);
        let bits_per_second = found[found.len() / 2].0;
        let mut buckets: Vec<f64> = found.iter().map(|fit| fit.1).collect();
        buckets.sort_unstable_by(f64::total_cmp);
        let bucket = buckets[buckets.len() / 2];
        let is_within_a_frame = bucket < 1.5 * f64::from(frame_bytes);
        let has_none = is_at_least || (is_within_a_frame && !has_bucket);
        Some(Self {
            bits_per_second: bits_per_second.round() as u64,
            is_at_least,
            bucket_bytes: if has_none { 0 } else { bucket.round() as u64 },
            trains: found.len(),
            lowest_bits_per_second: lowest.round() as u64,
            highest_bits_per_second: highest.round() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1,000 bytes sent each 10 us through a bucket, to a receiver whose clock is an
    /// hour ahead.
    fn train(count: i64, bits_per_second: f64, bucket_bytes: f64) -> Vec<Passed> {
        let rate = bits_per_second / 8e9;
        let (mut empty, mut passed) = (f64::MIN, Vec::new());
        for number in 0..count {
            let sent_ns = number * 10_000;
            let full = sent_ns as f64 - bucket_bytes / rate;
            empty = f64::max(empty, full) + 1000.0 / rate;
            let left_ns = (empty.ceil() as i64).max(sent_ns);
            passed.push(Passed {
                sent_ns,
                at_ns: left_ns + 3_600_000_000_000,
                bytes: 1000,
            });
        }
        passed
    }

    #[test]
    fn a_train_shows_rate_and_bucket() {
        for (bits_per_second, bucket_bytes) in [(1e6, 0.0), (1e7, 20_000.0), (3e8, 64_000.0)] {
            let fit = Fit::of(&mut train(400, bits_per_second, bucket_bytes));
            let Fit::Limited {
                bits_per_second: rate,
                bucket_bytes: bucket,
                ..
            } = fit
            else {
                panic!("{bits_per_second}: {fit:?}");
            };
            assert!((rate / bits_per_second - 1.0).abs() < 0.002, "{fit:?}");
            assert!((bucket - bucket_bytes).abs() <= 1000.0, "{fit:?}");
        }
    }

    #[test]
    fn a_faster_path_is_at_least_as_fast_as_its_sender() {
        let fit = Fit::of(&mut train(400, 1e10, 0.0));
        assert!(
            matches!(fit, Fit::Free { bits_per_second } if (bits_per_second / 8e8 - 1.0).abs() < 0.01)
        );
        assert_eq!(Fit::of(&mut train(7, 1e6, 0.0)), Fit::Unclear);
    }

    #[test]
    fn packets_lost_before_the_bucket_change_nothing() {
        let mut train = train(400, 1e7, 20_000.0);
        // Those that are lost take no bits: the later ones come earlier.
        let mut number = 0;
        train.retain(|_| {
            number += 1;
            number % 10 != 0
        });
        let rate_ns = 800_000;
        for (at, packet) in train.iter_mut().enumerate() {
            let due = (at as i64 + 1) * rate_ns - 16_000_000;
            packet.at_ns = due.max(packet.sent_ns) + 3_600_000_000_000;
        }
        let fit = Fit::of(&mut train);
        let Fit::Limited {
            bits_per_second, ..
        } = fit
        else {
            panic!("{fit:?}");
        };
        assert!((bits_per_second / 1e7 - 1.0).abs() < 0.002, "{fit:?}");
    }

    #[test]
    fn stalls_of_either_end_change_neither_rate_nor_bucket() {
        for (begin, end) in [(60, 90), (200, 230), (300, 340)] {
            let mut late = train(400, 1e7, 20_000.0);
            // What came meanwhile was seen at the end of the stall.
            let end_ns = late[end].at_ns;
            late[begin..end]
                .iter_mut()
                .for_each(|packet| packet.at_ns = end_ns);
            let fit = Fit::of(&mut late);
            let Fit::Limited {
                bits_per_second,
                bucket_bytes,
                ..
            } = fit
            else {
                panic!("{begin}: {fit:?}");
            };
            assert!(
                (bits_per_second / 1e7 - 1.0).abs() < 0.01,
                "{begin}: {fit:?}"
            );
            assert!(
                (bucket_bytes - 20_000.0).abs() <= 1000.0,
                "{begin}: {fit:?}"
            );
            // The sender stalls and the queue runs empty: what follows comes 50 ms later.
            let mut paused = train(400, 1e7, 20_000.0);
            for packet in &mut paused[begin..] {
                packet.sent_ns += 400_000_000;
                packet.at_ns += 50_000_000;
            }
            let fit = Fit::of(&mut paused);
            let Fit::Limited {
                bits_per_second, ..
            } = fit
            else {
                panic!("{begin}: {fit:?}");
            };
            assert!(
                (bits_per_second / 1e7 - 1.0).abs() < 0.01,
                "{begin}: {fit:?}"
            );
        }
    }

    #[test]
    fn a_bucket_of_a_packet_is_distinguished_from_none() {
        let fits = [Fit::of(&mut train(100, 1e7, 0.0))];
        let without = RateFound::of(&fits, 1000, false).expect("a rate");
        assert_eq!((without.bucket_bytes, without.is_at_least), (0, false));
        let fits = [Fit::of(&mut train(100, 1e7, 1000.0))];
        let with = RateFound::of(&fits, 1000, true).expect("a rate");
        assert!(with.bucket_bytes.abs_diff(1000) < 50, "{with:?}");
        assert_eq!(RateFound::of(&[Fit::Unclear], 1000, true), None);
    }
}
