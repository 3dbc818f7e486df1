//! Calls that are looked at ahead: what is about to be used.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::{Observed, Touch};

/// What an upcoming call uses, of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Used {
    File(u32, i64),
    Connection(u32, i64),
}

/// So many calls of threads that know nothing of each other would have met; if none did, there is
/// one thread. That none meets by chance has then a probability of e^-5.
const MEETINGS_MIN: i64 = 5;

/// What a client's upcoming calls show of its threads.
#[derive(Default)]
struct Turns {
    calls: u32,
    /// Calls on another connection than the one before.
    switches: i64,
    /// Of them, those made while a call on another connection had no reply.
    meetings: u32,
    /// Calls without reply, in sum.
    waits_ns: i128,
    first_ns: i64,
    last_ns: i64,
    connection: i64,
    /// When the latest reply of each connection comes that has one under way.
    under_way: Vec<(i64, i64)>,
}

/// What a call adds to its client's turns.
#[derive(Default, Clone, Copy)]
struct Turn {
    switches: bool,
    meets: bool,
    waits_ns: i128,
}

impl Turns {
    fn push(&mut self, call: &Observed) -> Turn {
        self.under_way
            .retain(|(_, until_ns)| *until_ns > call.call_ns);
        let mut others = self
            .under_way
            .iter()
            .filter(|(other, _)| *other != call.connection);
        let reply_ns = call.reply_ns.unwrap_or(i64::MAX);
        let turn = Turn {
            switches: self.calls > 0 && self.connection != call.connection,
            meets: others.next().is_some(),
            waits_ns: call.reply_ns.map_or(0, |reply_ns| {
                i128::from(reply_ns) - i128::from(call.call_ns)
            }),
        };
        match self
            .under_way
            .iter_mut()
            .find(|(other, _)| *other == call.connection)
        {
            Some((_, until_ns)) => *until_ns = reply_ns.max(*until_ns),
            None => self.under_way.push((call.connection, reply_ns)),
        }
        if self.calls == 0 {
            self.first_ns = call.call_ns;
        }
        (self.connection, self.last_ns) = (call.connection, call.call_ns);
        self.calls += 1;
        self.switches += i64::from(turn.switches);
        self.meetings += u32::from(turn.meets);
        self.waits_ns += turn.waits_ns;
        turn
    }

    fn pop(&mut self, call: &Observed, turn: Turn) {
        self.calls -= 1;
        self.switches -= i64::from(turn.switches);
        self.meetings -= u32::from(turn.meets);
        self.waits_ns -= turn.waits_ns;
        self.first_ns = call.call_ns;
    }

    fn is_one_thread(&self) -> bool {
        let span_ns = i128::from(self.last_ns) - i128::from(self.first_ns);
        let (busy_ns, least) = (self.waits_ns.min(span_ns), i128::from(MEETINGS_MIN));
        self.meetings == 0
            && self.switches >= MEETINGS_MIN
            && i128::from(self.switches) * busy_ns >= span_ns * least
    }
}

/// A queue of calls, and how many of them use what.
#[derive(Default)]
pub(crate) struct Upcoming {
    calls: VecDeque<(Observed, Turn, u32)>,
    touches: VecDeque<Touch>,
    used: HashMap<Used, u32>,
    turns: HashMap<u32, Turns>,
}

impl Upcoming {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether an upcoming call uses it.
    pub(crate) fn has(&self, used: Used) -> bool {
        self.used.contains_key(&used)
    }

    /// Whether the calls of a client are one thread's, over all its connections: there are many on
    /// each in turn, and never two at once.
    pub(crate) fn is_one_thread(&self, client: u32) -> bool {
        self.turns.get(&client).is_some_and(Turns::is_one_thread)
    }

    pub(crate) fn push(&mut self, call: Observed, touches: &[Touch]) {
        let turn = self.turns.entry(call.client).or_default().push(&call);
        self.calls.push_back((call, turn, touches.len() as u32));
        self.touches.extend(touches.iter().copied());
        for used in uses(&call, touches) {
            *self.used.entry(used).or_insert(0) += 1;
        }
    }

    /// The next call; its touches are put into `touches`.
    pub(crate) fn pop(&mut self, touches: &mut Vec<Touch>) -> Option<Observed> {
        let (call, turn, count) = self.calls.pop_front()?;
        if let Some(turns) = self.turns.get_mut(&call.client) {
            turns.pop(&call, turn);
        }
        touches.clear();
        touches.extend(self.touches.drain(..count as usize));
        for used in uses(&call, touches) {
            if let Some(count) = self.used.get_mut(&used) {
                *count -= 1;
                if *count == 0 {
                    self.used.remove(&used);
                }
            }
        }
        Some(call)
    }
}

fn uses<'a>(call: &'a Observed, touches: &'a [Touch]) -> impl Iterator<Item = Used> + 'a {
    let files = touches.iter().filter(|touch| !touch.is_directory);
    let files = files.filter_map(|touch| Some(Used::File(call.client, touch.file?)));
    files.chain([Used::Connection(call.client, call.connection)])
}
