//! What a load has done so far: a run that is killed leaves it in its `trace.json`.

use lineside_trace::certificate::load::Limits;
use lineside_trace::{State, Verdict};

use crate::certificate::{Certificate, Machine};
use crate::outcome::{Outcome, RunSecond};
use crate::prepared::Prepared;
use crate::results::Counts;

/// The record is written again once the run is longer by this share: its list of seconds grows, and
/// all of them together are to stay few bytes.
const GROWTH: u32 = 100;

/// The seconds that are over.
#[derive(Debug, Default)]
pub struct SoFar {
    outcome: Outcome,
    /// Seconds when the record was written last.
    kept: u32,
}

impl SoFar {
    /// A second is over.
    pub fn on_second(&mut self, second: &RunSecond) {
        let outcome = &mut self.outcome;
        outcome.counts.clone_from(&second.counts);
        outcome.wall_ns = i64::from(second.number) * 1_000_000_000;
        if let Some(times) = &second.times {
            outcome.times.latency.merge(&times.latency);
            outcome.times.service.merge(&times.service);
        }
        outcome.seconds.push(RunSecond {
            number: second.number,
            // The figures of a second have no other counts.
            counts: Counts {
                failed: second.counts.failed,
                ..Counts::default()
            },
            open: second.open,
            answered: second.answered,
            received_bytes: second.received_bytes,
            latency_ns: second.latency_ns,
            times: None,
        });
    }

    /// Whether the record is to be written: each second of the first minutes, and then less often.
    pub fn is_due(&mut self) -> bool {
        let seconds = self.outcome.seconds.len() as u32;
        let is_due = seconds > self.kept + self.kept / GROWTH;
        if is_due {
            self.kept = seconds;
        }
        is_due
    }

    /// What came of them.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Requests that wait for their answer.
    pub fn outstanding(&self) -> u64 {
        self.outcome.counts.outstanding()
    }

    /// The certificate as far as it can be had, with the verdict of a run that goes on.
    pub fn certificate(&self, prepared: &Prepared, limits: Limits) -> Certificate {
        let mut certificate =
            prepared.certificate(&self.outcome, true, Machine::default(), limits, Vec::new());
        certificate.verdict = Verdict {
            state: State::Unfinished,
            reasons: vec![format!(
                "its counts and times are those of the first {} s",
                self.outcome.seconds.len()
            )],
            ..Verdict::default()
        };
        certificate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_and_are_written_less_often() {
        let mut so_far = SoFar::default();
        let mut written = 0;
        for number in 1..=3_600 {
            let mut second = RunSecond {
                number,
                times: Some(Box::default()),
                ..RunSecond::default()
            };
            second.counts.sent = u64::from(number) * 10;
            second.counts.answered = u64::from(number) * 9;
            let times = second.times.as_mut().expect("times");
            times.latency.record(1_000);
            so_far.on_second(&second);
            let is_due = so_far.is_due();
            assert!(is_due || number > 100, "each of the first seconds");
            written += u32::from(is_due);
        }
        assert!((400..600).contains(&written), "{written}");
        assert_eq!(so_far.outstanding(), 3_600);
        assert_eq!(so_far.outcome.times.latency.count(), 3_600);
        assert_eq!(so_far.outcome.seconds.len(), 3_600);
    }
}
