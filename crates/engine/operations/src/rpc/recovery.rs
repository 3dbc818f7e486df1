//! What messages waited for: bytes that TCP sent again, of their own or of earlier ones.

use std::collections::VecDeque;

/// Those remembered of a direction. A call that waits for longer than this many take is waited for
/// by more than the network.
const RECOVERIES_MAX: usize = 16;

/// Bytes of a stream that came again.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    /// Where in the stream they begin.
    from: i64,
    /// When later bytes came, which waited for them; `None`: the tap had seen them before.
    since_ns: Option<i64>,
    until_ns: i64,
}

/// The latest of a direction, in order of time.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    latest: VecDeque<Recovery>,
    /// When the last of them had come.
    latest_ns: i64,
}

/// A message that may have waited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// When the tap saw its first byte and its last one.
    pub(super) seen_ns: (i64, i64),
    /// Where it ends in its stream, or the segment that ends it.
    pub(super) end: i64,
    /// Until when it can have waited: a call, until its reply.
    pub(super) until_ns: i64,
}

impl Recoveries {
    /// Bytes from a place of the stream came again.
    pub(super) fn add(&mut self, from: i64, since_ns: Option<i64>, until_ns: i64) {
        if self.latest.len() == RECOVERIES_MAX {
            self.latest.pop_front();
        }
        self.latest_ns = self.latest_ns.max(until_ns);
        self.latest.push_back(Recovery {
            from,
            since_ns,
            until_ns,
        });
    }

    /// How long a message waited in all; `None` if it did not. `is_call`: also for what the tap had
    /// seen, and its receiver, which the answer shows, had not.
    pub(super) fn waited_ns(&self, message: &Waiting, is_call: bool) -> Option<i64> {
        let (mut sum, mut counted_ns) = (0, i64::MIN);
        let (first_ns, last_ns) = message.seen_ns;
        if self.latest_ns <= first_ns.min(last_ns) {
            return None;
        }
        for recovery in self
            .latest
            .iter()
            .filter(|recovery| recovery.from < message.end)
        {
            let since_ns = match recovery.since_ns {
                Some(since_ns) => since_ns.max(first_ns),
                None if is_call => last_ns,
                None => continue,
            };
            let since_ns = since_ns.max(counted_ns);
            let until_ns = recovery.until_ns.min(message.until_ns);
            if until_ns > since_ns {
                sum += until_ns - since_ns;
                counted_ns = until_ns;
            }
        }
        (sum > 0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_added_once_and_end_with_the_reply() {
        let mut recoveries = Recoveries::default();
        let call = |seen_ns, end, until_ns| Waiting {
            seen_ns,
            end,
            until_ns,
        };
        assert_eq!(recoveries.waited_ns(&call((0, 9), 100, 99), true), None);
        // Bytes 50 and on were missing from 10 to 30.
        recoveries.add(50, Some(10), 30);
        let waited = |recoveries: &Recoveries, message| recoveries.waited_ns(&message, true);
        assert_eq!(waited(&recoveries, call((5, 30), 80, 99)), Some(20));
        assert_eq!(
            waited(&recoveries, call((20, 20), 90, 99)),
            Some(10),
            "behind the gap"
        );
        assert_eq!(
            waited(&recoveries, call((5, 8), 50, 99)),
            None,
            "before the gap"
        );
        assert_eq!(
            waited(&recoveries, call((31, 40), 200, 99)),
            None,
            "after it"
        );
        // What the tap saw at 40 came again at 70: the receiver had it then.
        recoveries.add(150, None, 70);
        assert_eq!(waited(&recoveries, call((38, 40), 160, 99)), Some(30));
        assert_eq!(
            waited(&recoveries, call((38, 40), 160, 60)),
            Some(20),
            "it was answered"
        );
        assert_eq!(
            waited(&recoveries, call((38, 40), 150, 99)),
            None,
            "it had come"
        );
        assert_eq!(waited(&recoveries, call((5, 40), 160, 99)), Some(50));
        let reply = call((38, 40), 160, 99);
        assert_eq!(recoveries.waited_ns(&reply, false), None);
        // And once more, after a longer timeout.
        recoveries.add(150, None, 90);
        assert_eq!(waited(&recoveries, call((38, 40), 160, 99)), Some(50));
        for at in 0..100 {
            recoveries.add(1000 + at, None, 1000 + at);
        }
        assert_eq!(recoveries.latest.len(), RECOVERIES_MAX);
    }
}
