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

/// A queue of calls, and how many of them use what.
#[derive(Default)]
pub(crate) struct Upcoming {
    calls: VecDeque<(Observed, u32)>,
    touches: VecDeque<Touch>,
    used: HashMap<Used, u32>,
}

impl Upcoming {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether an upcoming call uses it.
    pub(crate) fn has(&self, used: Used) -> bool {
        self.used.contains_key(&used)
    }

    pub(crate) fn push(&mut self, call: Observed, touches: &[Touch]) {
        self.calls.push_back((call, touches.len() as u32));
        self.touches.extend(touches.iter().copied());
        for used in uses(&call, touches) {
            *self.used.entry(used).or_insert(0) += 1;
        }
    }

    /// The next call; its touches are put into `touches`.
    pub(crate) fn pop(&mut self, touches: &mut Vec<Touch>) -> Option<Observed> {
        let (call, count) = self.calls.pop_front()?;
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
