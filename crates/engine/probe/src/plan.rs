//! How long trains are, and how many: longer ones until a train shows the rate, then a few more of
//! the same length.

use lineside_time::Nanoseconds;

use crate::train::Fit;

/// Packets of the first train: few enough for a slow path, whose 32 packets of 1,500 bytes take
/// 4 s at 100 kbit/s.
const PACKETS_FIRST: u32 = 16;
/// The most packets of a train: what the server remembers of a stage, and more than two seconds of
/// a gigabit.
const PACKETS_MAX: u32 = 100_000;
/// Packets that wait for the rate in a train that counts.
const WAITING_MIN: usize = 16;
/// How long they come: so long that a delay of 50 us changes the rate by half a percent.
const SPAN_MIN_NS: i64 = 10_000_000;
/// Trains that count: their median stands for them, which one that was disturbed does not move.
const TRAINS: usize = 5;
/// Trains of which too little came.
const UNCLEAR_MAX: u32 = 3;

/// Packets that are sent at once besides those that fill the bucket, so that a queue is there.
const QUEUED: u32 = 8;
/// So much faster than the path those are sent that follow: the queue stays, and does not grow
/// beyond what a path holds that keeps 64 KiB.
const FASTER: f64 = 1.2;

/// How a train is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Packets.
    pub(crate) count: u32,
    /// Those that are sent as fast as the sender can, at first.
    pub(crate) burst: u32,
    /// From one of the others to the next.
    pub(crate) gap_ns: u32,
}

impl Shape {
    fn at_once(count: u32) -> Self {
        Self {
            count,
            burst: count,
            gap_ns: 0,
        }
    }

    /// When the packet after this many is due.
    pub(crate) fn due_ns(&self, sent: u32, before_ns: Nanoseconds) -> Nanoseconds {
        let gap_ns = if sent < self.burst { 0 } else { self.gap_ns };
        before_ns + i64::from(gap_ns)
    }
}

/// The trains of a way.
#[derive(Debug)]
pub(crate) struct TrainPlan {
    /// What the rate counts of a packet.
    frame_bytes: u32,
    shape: Shape,
    fits: Vec<Fit>,
    /// The longest train that does not count, for want of a better one.
    fallback: Option<Fit>,
    unclear: u32,
    left_bytes: u64,
    is_over: bool,
}

impl TrainPlan {
    pub(crate) fn new(left_bytes: u64, frame_bytes: u32) -> Self {
        Self {
            frame_bytes,
            shape: Shape::at_once(PACKETS_FIRST),
            fits: Vec::new(),
            fallback: None,
            unclear: 0,
            left_bytes,
            is_over: false,
        }
    }

    /// The next train; `None`: there is none.
    pub(crate) fn next(&mut self, packet_bytes: u32) -> Option<Shape> {
        let affordable = self.left_bytes / u64::from(packet_bytes);
        let count = self.shape.count;
        // A shorter one than planned shows nothing new.
        if self.is_over || u64::from(count) > affordable {
            return None;
        }
        self.left_bytes -= u64::from(count) * u64::from(packet_bytes);
        Some(self.shape)
    }

    /// What the train showed.
    pub(crate) fn on_fit(&mut self, fit: Fit) {
        match fit {
            Fit::Limited {
                packets, span_ns, ..
            } if packets >= WAITING_MIN && span_ns >= SPAN_MIN_NS => {
                self.fits.push(fit);
                self.is_over = self.fits.len() == TRAINS;
            }
            Fit::Limited {
                bits_per_second,
                bucket_bytes,
                ..
            } => {
                self.fallback = Some(fit);
                let frame = f64::from(self.frame_bytes);
                let burst = (bucket_bytes / frame) as u32 + QUEUED;
                // Those of the span, and a fifth more.
                let span = 1.2 * bits_per_second * SPAN_MIN_NS as f64 / 8e9;
                let wanted = burst + (FASTER * span / frame) as u32;
                let before = self.shape.count;
                self.longer(Shape {
                    count: wanted.clamp(before + before / 2, 8 * before),
                    burst,
                    gap_ns: (frame * 8e9 / (FASTER * bits_per_second)) as u32,
                });
            }
            Fit::Free { .. } => {
                self.fallback = Some(fit);
                self.longer(Shape::at_once(4 * self.shape.count));
            }
            Fit::Unclear => {
                self.unclear += 1;
                self.is_over = self.unclear == UNCLEAR_MAX;
                self.longer(Shape::at_once(2 * self.shape.count));
            }
        }
    }

    fn longer(&mut self, shape: Shape) {
        self.is_over |= self.shape.count >= PACKETS_MAX;
        self.shape = Shape {
            count: shape.count.min(PACKETS_MAX),
            ..shape
        };
    }

    /// The trains that count.
    pub(crate) fn fits(&self) -> Vec<Fit> {
        match self.fallback {
            Some(fallback) if self.fits.is_empty() => vec![fallback],
            _ => self.fits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_grow_until_they_show_the_rate_within_their_bytes() {
        let mut plan = TrainPlan::new(1_000_000, 1014);
        let limited = |packets, span_ns| Fit::Limited {
            bits_per_second: 2e8,
            bucket_bytes: 0.0,
            packets,
            span_ns,
        };
        assert_eq!(plan.next(1000), Some(Shape::at_once(16)));
        plan.on_fit(Fit::Free {
            bits_per_second: 1e9,
        });
        assert_eq!(plan.next(1000), Some(Shape::at_once(64)));
        // At 200 Mb/s, 10 ms are 246 packets.
        plan.on_fit(limited(60, 1_000_000));
        let good = limited(200, 20_000_000);
        let shape = Shape {
            count: 363,
            burst: 8,
            gap_ns: 33_800,
        };
        for _ in 0..2 {
            assert_eq!(plan.next(1000), Some(shape));
            plan.on_fit(good);
        }
        assert_eq!(plan.next(1000), None, "the bytes are spent");
        assert_eq!(plan.fits(), [good; 2]);
    }

    #[test]
    fn a_path_that_loses_trains_is_left_alone() {
        let mut plan = TrainPlan::new(u64::MAX, 1014);
        for _ in 0..3 {
            assert!(plan.next(1000).is_some());
            plan.on_fit(Fit::Unclear);
        }
        assert_eq!((plan.next(1000), plan.fits()), (None, Vec::new()));
    }
}
