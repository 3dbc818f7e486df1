//! Loss models: which frames are lost, by chance, by number, in time or by TCP segment; and chances
//! of other impairments. What a model drops is the link's to account for.

use std::collections::HashMap;
use std::net::IpAddr;

use lineside_time::Nanoseconds;

use crate::Item;
use crate::draw::Ranks;
use crate::item::Segment;
use crate::settings::{Chance, Correlation, Loss, Place};

/// Directions of connections that are followed to lose a segment of each.
const FLOWS_MAX: usize = 65_536;
/// The most memory of one: just after the table has grown it is filled to 7/16, and until then the
/// old one exists too.
const FLOW_BYTES: usize = 4 * size_of::<([(IpAddr, u16); 2], Flow)>();

/// Of 2^32 ranks as many as the share comes to.
fn below(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

impl Chance {
    /// Whether it happens to this frame. Draws nothing if the share is 0.
    #[inline]
    pub(crate) fn happens(&self, now: Nanoseconds, ranks: &mut Ranks) -> bool {
        self.share > 0.0 && u64::from(ranks.next(now, self.correlation)) < below(self.share)
    }
}

/// The state of a loss model.
#[derive(Debug, Default)]
pub(crate) struct LossState {
    is_bad: bool,
    frames: u64,
    flows: HashMap<[(IpAddr, u16); 2], Flow>,
    /// Segments of connections beyond [`FLOWS_MAX`], or for which there was no memory.
    pub(crate) unfollowed: u64,
}

/// One direction of a connection.
#[derive(Debug)]
struct Flow {
    /// The sequence number of its first byte.
    first: u32,
    /// The one after the last byte that was seen.
    next: u32,
    /// Segments with new data.
    segments: u64,
    /// Where the segment to be lost begins, or the byte lies.
    target: Option<u32>,
    lost: u64,
}

impl LossState {
    /// Begins again; counts stay.
    pub(crate) fn begin(&mut self) {
        *self = Self {
            unfollowed: self.unfollowed,
            ..Self::default()
        };
    }

    /// The memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.flows.len() * FLOW_BYTES
    }

    /// Whether the next frame is lost; `since_ns` from the link's beginning. It may hold
    /// `room_bytes` more.
    #[inline]
    pub(crate) fn loses(
        &mut self,
        room_bytes: usize,
        loss: &Loss,
        now: Nanoseconds,
        since_ns: Nanoseconds,
        ranks: &mut Ranks,
        item: &impl Item,
    ) -> bool {
        self.frames += 1;
        match loss {
            Loss::None => false,
            Loss::Random(chance) => chance.happens(now, ranks),
            &Loss::GilbertElliott {
                p,
                r,
                bad_loss,
                good_loss,
            } => {
                let mut chance =
                    |share| u64::from(ranks.next(now, Correlation::None)) < below(share);
                let (changes, loses) = if self.is_bad {
                    (chance(r), chance(bad_loss))
                } else {
                    (chance(p), chance(good_loss))
                };
                self.is_bad ^= changes;
                loses
            }
            &Loss::Burst {
                length_ns,
                every_ns,
            } => {
                let every_ns = every_ns.max(1);
                since_ns.max(0) as u64 % every_ns >= every_ns.saturating_sub(length_ns)
            }
            &Loss::Every(number) => self.frames.is_multiple_of(number.max(1)),
            Loss::Frames(numbers) => numbers.binary_search(&self.frames).is_ok(),
            &Loss::Segment { place, times } => match item.segment() {
                Some(segment) => self.loses_segment(room_bytes, place, times, &segment),
                None => false,
            },
        }
    }

    fn loses_segment(
        &mut self,
        room_bytes: usize,
        place: Place,
        times: u64,
        segment: &Segment,
    ) -> bool {
        let &Segment {
            flow,
            sequence,
            len,
            is_syn,
        } = segment;
        let has_room = self.flows.len() < FLOWS_MAX && room_bytes >= FLOW_BYTES;
        if !has_room && !self.flows.contains_key(&flow) {
            self.unfollowed += 1;
            return false;
        }
        let begin = |first| Flow {
            first,
            next: first,
            segments: 0,
            target: None,
            lost: 0,
        };
        if is_syn {
            // RFC 9293, 3.4: the SYN takes the first sequence number. Ports may be used again.
            let first = sequence.wrapping_add(1);
            if self
                .flows
                .get(&flow)
                .is_none_or(|known| known.first != first)
            {
                self.flows.insert(flow, begin(first));
            }
            return false;
        }
        if len == 0 {
            return false;
        }
        let flow = self.flows.entry(flow).or_insert_with(|| begin(sequence));
        let holds = |target: u32| target.wrapping_sub(sequence) < len;
        let end = sequence.wrapping_add(len);
        // Half of the numbers lie ahead of any one.
        if (end.wrapping_sub(flow.next) as i32) > 0 {
            flow.next = end;
            flow.segments += 1;
            match place {
                Place::Segment(number) if number == flow.segments => flow.target = Some(sequence),
                Place::Byte(offset) if flow.target.is_none() => {
                    // Beyond 4 GiB the numbers come again: this finds the first one.
                    let target = flow.first.wrapping_add(offset);
                    flow.target = holds(target).then_some(target);
                }
                _ => {}
            }
        }
        let loses = flow.target.is_some_and(holds) && flow.lost < times;
        flow.lost += u64::from(loses);
        loses
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;
    use crate::draw::Impairment;

    fn lost(loss: &Loss, count: i64) -> Vec<i64> {
        let mut ranks = Ranks::new(1, 0, Impairment::Loss);
        let mut state = LossState::default();
        (1..=count)
            .filter(|&k| {
                state.loses(
                    0,
                    loss,
                    k,
                    k,
                    &mut ranks,
                    &Frame::copied(b"", Descriptor::default()),
                )
            })
            .collect()
    }

    #[test]
    fn numbers_and_times_are_met_exactly() {
        assert_eq!(lost(&Loss::Every(4), 12), [4, 8, 12]);
        assert_eq!(lost(&Loss::Frames(vec![1, 3]), 9), [1, 3]);
        assert_eq!(
            lost(
                &Loss::Burst {
                    length_ns: 2,
                    every_ns: 5
                },
                10
            ),
            [3, 4, 8, 9]
        );
    }

    #[test]
    fn shares_are_met_in_the_long_run() {
        let independent = lost(
            &Loss::Random(Chance {
                share: 0.01,
                ..Chance::default()
            }),
            400_000,
        );
        assert!(
            (3_800..4_200).contains(&independent.len()),
            "{}",
            independent.len()
        );
        let correlated = Chance {
            share: 0.01,
            correlation: Correlation::Share(0.5),
        };
        let correlated = lost(&Loss::Random(correlated), 400_000);
        // netem would lose nearly none of these.
        assert!(
            (3_600..4_400).contains(&correlated.len()),
            "{}",
            correlated.len()
        );
        let runs = |lost: &[i64]| {
            lost.windows(2)
                .filter(|pair| pair[1] == pair[0] + 1)
                .count()
        };
        assert!(runs(&correlated) > 5 * runs(&independent));
        assert_eq!(
            lost(
                &Loss::Random(Chance {
                    share: 1.0,
                    ..Chance::default()
                }),
                100
            )
            .len(),
            100
        );
    }

    #[test]
    fn gilbert_and_elliott_lose_in_bursts() {
        let (p, r) = (0.01, 0.2);
        let loss = Loss::GilbertElliott {
            p,
            r,
            bad_loss: 1.0,
            good_loss: 0.0,
        };
        let lost = lost(&loss, 400_000);
        let share = lost.len() as f64 / 400_000.0;
        assert!((share - p / (p + r)).abs() < 0.003, "{share}");
        let bursts = 1 + lost
            .windows(2)
            .filter(|pair| pair[1] != pair[0] + 1)
            .count();
        let mean = lost.len() as f64 / bursts as f64;
        assert!((mean - 1.0 / r).abs() < 0.3, "{mean}");
    }
}
