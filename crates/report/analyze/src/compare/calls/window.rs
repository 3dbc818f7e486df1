//! Two traces beside each other, a window of calls of each in memory.
//!
//! ```text
//!  A ──► Calls ──► window ─┐                 ┌─► pairs, then calls without a partner ──► Found
//!                          ├─► pairs(rule) ──┤
//!  B ──► Calls ──► window ─┘                 └─► the newer half stays, and is looked at again
//! ```
//!
//! Windows end at counts of calls, never where a part does.

use std::cmp::Ordering;

use super::call::{Call, Calls};
use super::found::Found;
use super::pair::pairs;
use crate::model::CallRule;
use crate::read::filter::Chosen;
use crate::read::in_order::Overlap;
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;

/// Calls of each trace in memory, of about 200 bytes each: a call whose partner lies farther away
/// than half of them may stay without it.
pub(super) const CALLS_MAX: usize = 1 << 18;

/// One of the traces.
pub(super) struct Side {
    pub(super) trace: Trace,
    pub(super) chosen: Chosen,
    pub(super) calls: Calls,
    window: Vec<Call>,
    has_ended: bool,
}

impl Side {
    pub(super) fn new(trace: Trace, chosen: Chosen, calls: Calls) -> Self {
        Self {
            trace,
            chosen,
            calls,
            window: Vec::new(),
            has_ended: false,
        }
    }

    fn fill(&mut self, most: usize, lexica: &mut Lexica) -> Result<(), Overlap> {
        while !self.has_ended && self.window.len() < most {
            match self.calls.next(&mut self.trace, &self.chosen, lexica)? {
                Some(call) => self.window.push(call),
                None => self.has_ended = true,
            }
        }
        Ok(())
    }

    /// When the calls in memory were made: the first, the one at a place, the last.
    fn times(&self, at: usize) -> [i64; 3] {
        let call_ns = |call: Option<&Call>| call.map_or(0, |call| call.call_ns);
        let (first, last) = (self.window.first(), self.window.last());
        [call_ns(first), call_ns(self.window.get(at)), call_ns(last)]
    }
}

/// How to go along both traces.
pub(super) struct Walk {
    pub(super) rule: CallRule,
    /// Calls of each in memory.
    pub(super) window: usize,
    /// When calls were made that have the same key in both.
    pub(super) times: Vec<(i64, i64)>,
}

impl Walk {
    /// Which trace could not be merged, if one cannot.
    pub(super) fn run(
        &self,
        sides: &mut [Side; 2],
        lexica: &mut Lexica,
        found: &mut Found,
    ) -> Result<(), (usize, Overlap)> {
        loop {
            for (at, side) in sides.iter_mut().enumerate() {
                side.fill(self.window, lexica)
                    .map_err(|overlap| (at, overlap))?;
            }
            let [a, b] = &mut *sides;
            if a.window.is_empty() && b.window.is_empty() {
                return Ok(());
            }
            let ends = self.ends(a, b);
            let sure = [&*a, &*b].map(|side| match side.has_ended {
                true => side.window.len(),
                false => side.window.len() / 4 * 3,
            });
            let mut pairs = pairs(self.rule, [&a.window, &b.window], sure);
            pairs.retain(|&(x, y)| x < ends[0] || y < ends[1]);
            found.begin({ pairs.iter() }.map(|&(x, y)| (&a.window[x], &b.window[y])));
            for (x, y) in pairs {
                (a.window[x].is_done, b.window[y].is_done) = (true, true);
                found.pair(&a.window[x], &b.window[y]);
            }
            for (of_b, (side, end)) in [a, b].into_iter().zip(ends).enumerate() {
                for call in side.window.drain(..end).filter(|call| !call.is_done) {
                    found.alone(of_b == 1, &call);
                }
            }
        }
    }

    /// Until where each window is left behind.
    fn ends(&self, a: &Side, b: &Side) -> [usize; 2] {
        let half = self.window.div_ceil(2);
        match (a.has_ended, b.has_ended) {
            (true, true) => return [a.window.len(), b.window.len()],
            (true, false) => return [0, half],
            (false, true) => return [half, 0],
            (false, false) => {}
        }
        // Where one has calls that the other has not, that one goes on alone: the partners of what
        // the other would leave behind are still to come.
        let ([a_ns, a_half_ns, a_end_ns], [b_ns, b_half_ns, b_end_ns]) =
            (a.times(half), b.times(half));
        let mut early = [0_usize; 2];
        for &(of_a, of_b) in &self.times {
            early[0] += usize::from((a_ns..a_half_ns).contains(&of_a) && of_b > b_end_ns);
            early[1] += usize::from((b_ns..b_half_ns).contains(&of_b) && of_a > a_end_ns);
        }
        match early[0].cmp(&early[1]) {
            Ordering::Less => [half, 0],
            Ordering::Equal => [half, half],
            Ordering::Greater => [0, half],
        }
    }
}
