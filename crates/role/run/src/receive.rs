//! The one loop in which a role receives frames where it is not the polling loop of a live path.
//!
//! ```text
//!  port ── receive ─► burst ── on_burst ─► Consumer
//!             │ no free block ── on_pool_empty ─► copies what it holds
//!             └ quiet ────────── on_idle ───────► lets time pass
//!  after each burst: `between`, which may stop the loop
//! ```

use lineside_frame::Burst;
use lineside_port::{PortError, Receive, Received};

/// Frames a burst: enough to pay for the turn, few enough to stay in the first-level cache with
/// their headers.
pub const BURST_FRAMES: usize = 256;

/// Whether a loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Continue,
    /// End as if the input had ended here.
    Stop,
}

/// What takes the frames of a port.
pub trait Consumer {
    /// Takes a burst; it is empty afterwards. [`Step::Stop`] if no more frames can be taken.
    fn on_burst(&mut self, burst: &mut Burst) -> Step;

    /// Frames that are held occupy all blocks of the port: copies them out.
    fn on_pool_empty(&mut self) -> Step {
        Step::Continue
    }

    /// No frame came, and all that will come have arrived after `until_ns`.
    fn on_idle(&mut self, until_ns: i64) -> Step {
        let _ = until_ns;
        Step::Continue
    }
}

/// Receives from a port, a burst at a time and no more frames than asked for.
pub struct Intake {
    burst: Burst,
    left: u64,
}

/// What a turn of an [`Intake`] came to.
#[derive(Debug)]
#[must_use]
pub enum Turn {
    /// There may be more.
    More,
    /// An input failed and ends here; the others go on.
    Failed(PortError),
    /// All frames were received.
    End,
    /// The consumer takes no more.
    Refused,
}

impl Intake {
    /// For at most `frames_max` frames.
    pub fn new(frames_max: u64) -> Self {
        Self {
            burst: Burst::with_capacity(BURST_FRAMES),
            left: frames_max,
        }
    }

    /// Frames that may still be received.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Receives a burst, and passes it to `consumer`.
    #[inline]
    pub fn turn<P: Receive + ?Sized, C: Consumer>(
        &mut self,
        port: &mut P,
        consumer: &mut C,
    ) -> Turn {
        let received = match usize::try_from(self.left) {
            Ok(0) => {
                self.leave(port);
                Ok(Received::End)
            }
            left => port.receive(
                &mut self.burst,
                left.unwrap_or(BURST_FRAMES).min(BURST_FRAMES),
            ),
        };
        self.left -= self.burst.len() as u64;
        let mut step = consumer.on_burst(&mut self.burst);
        if step == Step::Continue {
            step = match received {
                Ok(Received::PoolEmpty) => consumer.on_pool_empty(),
                Ok(Received::Idle { until_ns }) => consumer.on_idle(until_ns),
                _ => Step::Continue,
            };
        }
        match received {
            _ if step == Step::Stop => Turn::Refused,
            Ok(Received::End) => Turn::End,
            Ok(_) => Turn::More,
            Err(error) => Turn::Failed(error),
        }
    }

    /// Receives no more: what the port has read ahead counts as never received.
    pub fn leave<P: Receive + ?Sized>(&mut self, port: &mut P) {
        port.leave(&mut self.burst);
    }
}

/// Where [`receive_all`] is when it calls `between`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After a burst.
    Burst,
    /// After an input failed; its error is the last one.
    Failure,
    /// After the last burst.
    Last,
}

/// Receives from a port until its end, until `frames_max` frames, until the consumer takes no more,
/// or until `between`, called after each burst, stops it.
///
/// Returns the port's errors: an input that fails ends there, and the others go on.
pub fn receive_all<P: Receive + ?Sized, C: Consumer>(
    port: &mut P,
    consumer: &mut C,
    frames_max: u64,
    mut between: impl FnMut(&mut P, &mut C, Moment) -> Step,
) -> Vec<PortError> {
    let mut intake = Intake::new(frames_max);
    let mut errors = Vec::new();
    loop {
        let moment = match intake.turn(port, consumer) {
            Turn::More => Moment::Burst,
            Turn::Failed(error) => {
                errors.push(error);
                Moment::Failure
            }
            Turn::End => Moment::Last,
            Turn::Refused => return errors,
        };
        if between(port, consumer, moment) == Step::Stop || moment == Moment::Last {
            intake.leave(port);
            return errors;
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};
    use lineside_port::{Facts, Port};

    use super::*;

    /// Returns its script step by step, then ends.
    struct Script(Vec<Result<Received, PortError>>, usize);

    impl Port for Script {
        fn facts(&self) -> Vec<&Facts> {
            Vec::new()
        }
    }

    impl Receive for Script {
        fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
            let next = match self.0.is_empty() {
                true => Ok(Received::End),
                false => self.0.remove(0),
            };
            if let Ok(Received::Frames(count)) = next {
                let count = count.min(max);
                burst.extend((0..count).map(|_| Frame::copied(&[0; 60], Descriptor::default())));
            }
            next
        }

        fn leave(&mut self, ahead: &mut Burst) {
            ahead.clear();
            self.1 += 1;
        }
    }

    #[derive(Default)]
    struct Seen {
        frames: usize,
        frames_max: usize,
        pool_empty: usize,
        idle_ns: Vec<i64>,
    }

    impl Consumer for Seen {
        fn on_burst(&mut self, burst: &mut Burst) -> Step {
            self.frames += burst.drain(..).count();
            match self.frames >= self.frames_max {
                true => Step::Stop,
                false => Step::Continue,
            }
        }

        fn on_pool_empty(&mut self) -> Step {
            self.pool_empty += 1;
            Step::Continue
        }

        fn on_idle(&mut self, until_ns: i64) -> Step {
            self.idle_ns.push(until_ns);
            Step::Continue
        }
    }

    fn script() -> Script {
        let failure = PortError::Wait {
            name: "a".to_owned(),
            cause: std::io::ErrorKind::Other.into(),
        };
        Script(
            vec![
                Ok(Received::Frames(3)),
                Ok(Received::PoolEmpty),
                Ok(Received::Idle { until_ns: 7 }),
                Err(failure),
                Ok(Received::Frames(2)),
            ],
            0,
        )
    }

    fn seen() -> Seen {
        Seen {
            frames_max: usize::MAX,
            ..Seen::default()
        }
    }

    #[test]
    fn the_loop_goes_on_after_a_failure_until_the_end() {
        let (mut port, mut seen, mut moments) = (script(), seen(), Vec::new());
        let errors = receive_all(&mut port, &mut seen, u64::MAX, |_, _, moment| {
            moments.push(moment);
            Step::Continue
        });
        assert_eq!(errors.len(), 1);
        assert_eq!((seen.frames, seen.pool_empty), (5, 1));
        assert_eq!(seen.idle_ns, [7]);
        assert_eq!(port.1, 1, "left once");
        use Moment::{Burst, Failure, Last};
        assert_eq!(moments, [Burst, Burst, Burst, Failure, Burst, Last]);
    }

    #[test]
    fn no_more_frames_come_than_asked_for() {
        let (mut port, mut seen) = (script(), seen());
        let errors = receive_all(&mut port, &mut seen, 4, |_, _, _| Step::Continue);
        assert_eq!((errors.len(), seen.frames), (1, 4));
    }

    #[test]
    fn a_consumer_and_the_caller_can_stop_the_loop() {
        let mut full = Seen {
            frames_max: 1,
            ..Seen::default()
        };
        let mut port = script();
        receive_all(&mut port, &mut full, u64::MAX, |_, _, _| unreachable!());
        assert_eq!((full.frames, port.0.len()), (3, 4));
        let (mut port, mut seen) = (script(), seen());
        receive_all(&mut port, &mut seen, u64::MAX, |_, _, _| Step::Stop);
        assert_eq!((seen.frames, port.0.len(), port.1), (3, 4, 1));
    }
}
