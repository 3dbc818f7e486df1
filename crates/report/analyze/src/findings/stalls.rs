//! Times in which a server answered nobody although calls waited.
//!
//! Time is divided into short bins, and a ring has the first and the last reply of each. An
//! operation that took long is looked at again when its time has passed by: the longest time in it
//! without any byte of a reply is what it waited for a server that stood still. Rows come in about
//! the order of replies, so the ring holds what is needed.

use std::collections::VecDeque;

use crate::read::columns::Word;

const BIN_NS: i64 = 10_000_000;
/// Bins of a ring: almost six minutes. What takes longer is looked at as far as the ring reaches.
const BINS: usize = 1 << 15;
/// Operations that wait to be looked at.
const WAITING_MAX: usize = 65_536;
/// Stalls that are kept: the longest.
const STALLS_MAX: usize = 1_024;
/// Clients of a stall that are counted.
const CLIENTS_MAX: usize = 1_024;

/// The shortest time without any answer that is a stall: two of Linux' shortest retransmission
/// timeouts would fit in half a second, people notice a quarter.
pub(super) const STALL_MIN_NS: i64 = 250_000_000;

/// A time without answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) from_ns: i64,
    pub(super) until_ns: i64,
    /// Calls that waited in it, and how long altogether.
    pub(super) calls: u64,
    pub(super) waited_ns: u64,
    /// Of that, while TCP sent bytes again.
    pub(super) recovery_ns: u64,
    pub(super) clients: Vec<Word>,
}

#[derive(Debug, Clone, Copy)]
struct Bin {
    number: i64,
    first_ns: i64,
    last_ns: i64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    client: Word,
    call_end_ns: i64,
    reply_ns: i64,
    recovery_ns: u64,
}

/// The replies of one server.
#[derive(Debug)]
pub(super) struct Stalls {
    bins: Vec<Bin>,
    waiting: VecDeque<Waiting>,
    newest: i64,
    found: Vec<Stall>,
}

impl Stalls {
    pub(super) fn new() -> Self {
        Self {
            bins: Vec::new(),
            waiting: VecDeque::new(),
            newest: i64::MIN,
            found: Vec::new(),
        }
    }

    /// Adds an answered operation. As long as a reply passes by, the server does not stand still.
    #[inline]
    pub(super) fn add(
        &mut self,
        client: Word,
        call_end_ns: i64,
        [reply_ns, reply_end_ns]: [i64; 2],
        recovery_ns: u64,
    ) {
        if self.bins.is_empty() {
            let empty = Bin {
                number: i64::MIN,
                first_ns: 0,
                last_ns: 0,
            };
            self.bins = vec![empty; BINS];
        }
        let number = reply_ns.div_euclid(BIN_NS);
        let last = reply_end_ns.div_euclid(BIN_NS);
        self.answered(
            number,
            reply_ns,
            reply_end_ns.min((number + 1) * BIN_NS - 1),
        );
        for number in (number + 1..=last).take(BINS) {
            let begin = number * BIN_NS;
            self.answered(number, begin, reply_end_ns.min(begin + BIN_NS - 1));
        }
        if reply_ns.saturating_sub(call_end_ns) >= STALL_MIN_NS {
            self.waiting.push_back(Waiting {
                client,
                call_end_ns,
                reply_ns,
                recovery_ns,
            });
            self.look_at_old();
        }
    }

    #[inline]
    fn answered(&mut self, number: i64, from_ns: i64, until_ns: i64) {
        let bin = &mut self.bins[number.rem_euclid(BINS as i64) as usize];
        if bin.number == number {
            bin.first_ns = bin.first_ns.min(from_ns);
            bin.last_ns = bin.last_ns.max(until_ns);
        } else if bin.number < number {
            *bin = Bin {
                number,
                first_ns: from_ns,
                last_ns: until_ns,
            };
        }
        self.newest = self.newest.max(number);
    }

    /// Looks at operations whose replies lie so far back that all replies beside them have come.
    fn look_at_old(&mut self) {
        while let Some(first) = self.waiting.front() {
            let age = self
                .newest
                .saturating_sub(first.reply_ns.div_euclid(BIN_NS));
            if age < BINS as i64 / 4 && self.waiting.len() < WAITING_MAX {
                return;
            }
            let waiting = *first;
            self.waiting.pop_front();
            self.look_at(waiting);
        }
    }

    fn look_at(&mut self, waiting: Waiting) {
        let Waiting {
            client,
            call_end_ns,
            reply_ns,
            recovery_ns,
        } = waiting;
        let last = reply_ns.div_euclid(BIN_NS);
        // A bin of the ring may be that of a later time by now.
        let oldest = self.newest.saturating_sub(BINS as i64 - 1);
        let first = call_end_ns.div_euclid(BIN_NS).max(oldest);
        // The longest time without a reply, from the call on.
        let mut quiet: (i64, i64) = (0, 0);
        let mut since = call_end_ns.max(first * BIN_NS);
        for number in first..=last {
            let bin = self.bins[number.rem_euclid(BINS as i64) as usize];
            if bin.number != number {
                continue;
            }
            let until = bin.first_ns.min(reply_ns);
            if until - since > quiet.1 - quiet.0 {
                quiet = (since, until);
            }
            since = since.max(bin.last_ns);
        }
        if quiet.1 - quiet.0 < STALL_MIN_NS {
            return;
        }
        let waited_ns = quiet.1.abs_diff(quiet.0);
        // Several wait for the same reply, the first after the stall.
        let same = { self.found.iter_mut().rev() }.find(|stall| stall.until_ns == quiet.1);
        let stall = match same {
            Some(stall) => stall,
            None => {
                if self.found.len() >= 2 * STALLS_MAX {
                    self.keep_longest();
                }
                self.found.push(Stall {
                    from_ns: quiet.0,
                    until_ns: quiet.1,
                    calls: 0,
                    waited_ns: 0,
                    recovery_ns: 0,
                    clients: Vec::new(),
                });
                self.found.last_mut().expect("it was pushed")
            }
        };
        stall.from_ns = stall.from_ns.min(quiet.0);
        stall.calls += 1;
        stall.waited_ns += waited_ns;
        stall.recovery_ns += recovery_ns.min(waited_ns);
        if stall.clients.len() < CLIENTS_MAX && !stall.clients.contains(&client) {
            stall.clients.push(client);
        }
    }

    fn keep_longest(&mut self) {
        self.found.sort_by_key(|stall| {
            std::cmp::Reverse((stall.until_ns - stall.from_ns, stall.from_ns))
        });
        self.found.truncate(STALLS_MAX);
    }

    /// All stalls, by time.
    pub(super) fn finish(mut self) -> Vec<Stall> {
        while let Some(waiting) = self.waiting.pop_front() {
            self.look_at(waiting);
        }
        self.keep_longest();
        self.found.sort_by_key(|stall| stall.from_ns);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_server_that_answers_nobody_is_a_stall() {
        let mut stalls = Stalls::new();
        let mut at = 0;
        // An answer each millisecond, but for 300 ms from second 2 on.
        while at < 5_000 * MS {
            stalls.add(2, at - MS / 2, [at; 2], 0);
            at += MS;
            if at == 2_000 * MS {
                for client in [2, 3] {
                    stalls.add(client, 1_999 * MS + MS / 2, [2_299 * MS; 2], 0);
                }
                at += 300 * MS;
            }
        }
        let found = stalls.finish();
        assert_eq!(found.len(), 1, "{found:?}");
        let stall = &found[0];
        assert_eq!((stall.calls, stall.clients.len()), (2, 2));
        assert!(
            (1_999 * MS..2_001 * MS).contains(&stall.from_ns),
            "{stall:?}"
        );
        assert_eq!(stall.until_ns, 2_299 * MS);
    }

    #[test]
    fn one_slow_operation_beside_others_is_no_stall() {
        let mut stalls = Stalls::new();
        for at in 0..2_000 {
            stalls.add(2, (at - 1) * MS, [at * MS; 2], 0);
        }
        stalls.add(3, 500 * MS, [1_500 * MS; 2], 0);
        assert_eq!(stalls.finish(), []);
    }

    #[test]
    fn a_long_reply_is_no_stall() {
        let mut stalls = Stalls::new();
        for reply in 0..4 {
            let begin = 400 * MS * reply;
            // Each waits until the one before has left.
            stalls.add(2, 0, [begin, begin + 399 * MS], 0);
        }
        assert_eq!(stalls.finish(), []);
    }

    #[test]
    fn a_time_without_calls_is_no_stall() {
        let mut stalls = Stalls::new();
        stalls.add(2, 0, [MS; 2], 0);
        stalls.add(2, 10_000 * MS, [10_001 * MS; 2], 0);
        // Nor is one that nobody can see any more.
        stalls.add(2, 3_600_000 * MS, [3_600_001 * MS; 2], 0);
        assert_eq!(stalls.finish(), []);
    }
}
