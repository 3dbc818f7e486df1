//! Harm to a capture, by seed: what an imperfect tap would have recorded of the same traffic.

use lineside_time::Random;

use crate::capture::Frame;

/// What to do to a capture. The default does nothing; the same seed does the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Harm {
    /// Seeds every draw.
    pub seed: u64,
    /// Frames missing at the beginning: a capture that started late.
    pub late_start: usize,
    /// Probability that a loss begins at a frame.
    pub drop: f64,
    /// Frames lost at a time.
    pub burst: usize,
    /// Probability that a frame is recorded twice.
    pub duplicate: f64,
    /// Probability that a frame is late.
    pub late: f64,
    /// By at most this many places; a late frame takes the stamp of its new place.
    pub depth: usize,
    /// Bytes kept of a frame.
    pub snap: usize,
    /// Probability that a frame has some of its bytes changed.
    pub corrupt: f64,
}

impl Default for Harm {
    fn default() -> Self {
        Self {
            seed: 0,
            late_start: 0,
            drop: 0.0,
            burst: 1,
            duplicate: 0.0,
            late: 0.0,
            depth: 5,
            snap: usize::MAX,
            corrupt: 0.0,
        }
    }
}

/// A harmed capture, and what of the whole one is left in it.
#[derive(Debug, Clone)]
pub struct Mangled {
    /// The frames in their new order.
    pub frames: Vec<Frame>,
    /// Of each frame of the whole capture, how many bytes from its first survived: 0 if it is lost.
    /// Bytes that [`Harm::corrupt`] changed count as lost with all of their frame.
    pub kept: Vec<usize>,
}

/// Applies `harm` to `whole`.
pub fn mangle(whole: &[Frame], harm: &Harm) -> Mangled {
    let mut random = Random::new(harm.seed);
    let mut kept = vec![0; whole.len()];
    let mut order: Vec<(usize, Frame)> = Vec::with_capacity(whole.len());
    let mut skip = harm.late_start;
    for (index, frame) in whole.iter().enumerate() {
        if skip == 0 && random.chance(harm.drop) {
            skip = harm.burst.max(1);
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let mut frame = frame.clone();
        frame.bytes.truncate(harm.snap);
        kept[index] = frame.bytes.len();
        if random.chance(harm.corrupt) && corrupt(&mut frame.bytes, &mut random) {
            kept[index] = 0;
        }
        let places = if random.chance(harm.late) {
            1 + random.below(harm.depth as u64) as usize
        } else {
            0
        };
        if random.chance(harm.duplicate) {
            order.push((order.len(), frame.clone()));
        }
        order.push((order.len() + places, frame));
    }

    // A frame that is late by n places comes behind the frame that was n places behind it. Stamps
    // belong to places, so they keep their order whatever moves.
    let stamps: Vec<_> = order.iter().map(|(_, frame)| frame.stamp_ns).collect();
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_key(|&place| (order[place].0, order[place].0 != place, place));
    let frames = places.iter().zip(stamps);
    let frames = frames.map(|(&place, stamp_ns)| Frame {
        stamp_ns,
        ..order[place].1.clone()
    });
    Mangled {
        frames: frames.collect(),
        kept,
    }
}

/// Changes one to four bytes; false if there are none.
fn corrupt(bytes: &mut [u8], random: &mut Random) -> bool {
    if bytes.is_empty() {
        return false;
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        // Never 0, so that the byte does change; the next one may change it back, which is no harm.
        bytes[at] ^= 1 + random.below(255) as u8;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> Vec<Frame> {
        let frame = |index: usize| Frame {
            stamp_ns: Some(index as i64 * 10),
            wire_len: 100,
            link_type: 1,
            bytes: vec![index as u8; 100],
        };
        (0..count).map(frame).collect()
    }

    fn numbers(frames: &[Frame]) -> Vec<u8> {
        frames.iter().map(|frame| frame.bytes[0]).collect()
    }

    #[test]
    fn no_harm_changes_nothing() {
        let whole = numbered(50);
        let mangled = mangle(&whole, &Harm::default());
        assert_eq!(mangled.frames, whole);
        assert_eq!(mangled.kept, vec![100; 50]);
    }

    #[test]
    fn the_oracle_keeps_the_surviving_bytes() {
        for seed in 0..50 {
            let whole = numbered(200);
            let harm = Harm {
                seed,
                late_start: 3,
                drop: 0.05,
                burst: 4,
                duplicate: 0.02,
                late: 0.1,
                snap: 60,
                ..Harm::default()
            };
            let mangled = mangle(&whole, &harm);
            let seen = numbers(&mangled.frames);
            for (index, &kept) in mangled.kept.iter().enumerate() {
                assert_eq!(
                    kept,
                    if seen.contains(&(index as u8)) { 60 } else { 0 },
                    "seed {seed}"
                );
            }
            assert!(mangled.kept.starts_with(&[0, 0, 0]));
            assert!(mangled.frames.iter().all(|frame| frame.bytes.len() == 60));
            assert!(mangled.frames.is_sorted_by_key(|frame| frame.stamp_ns));
        }
    }

    #[test]
    fn late_frames_are_late_by_no_more_than_the_depth() {
        let whole = numbered(250);
        let harm = Harm {
            seed: 9,
            late: 0.2,
            depth: 3,
            ..Harm::default()
        };
        let after = numbers(&mangle(&whole, &harm).frames);
        let moved = |number: u8| {
            let place = after
                .iter()
                .position(|&each| each == number)
                .expect("nothing is lost");
            place as i64 - i64::from(number)
        };
        let moves: Vec<i64> = (0..250).map(moved).collect();
        assert!(moves.contains(&3), "{moves:?}");
        assert!(moves.iter().all(|&by| (-20..=3).contains(&by)), "{moves:?}");
    }
}
